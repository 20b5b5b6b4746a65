/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/doors/doors.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/doors/door_cdi.h"
#include "agent/doors/door_kubelet.h"
#include "agent/doors/door_labels.h"
#include "agent/doors/door_pools.h"
#include "agent/doors/door_queue.h"
#include "agent/doors/door_rdma.h"
#include "agent/doors/door_sockets.h"
#include "agent/doors/door_validations.h"
#include "agent/uninstall.h"
#include "agent/web/door_web.h"
#include "base/err.h"
#include "doors/kubelet/resource.h"
#include "unit/unit.h"

/* --- instead of the doors: --wrap ---------------------------------------------------------------
 */

static struct {
	char calls[2048];	      /* in their order */
	int result;		      /* of opening the labels' door */
	int cleanup_result;	      /* of the specifications' one */
	unsigned specification_modes; /* that the kubelet's door was told */
} fake;

static void note(const char *door, const char *call)
{
	size_t used = strlen(fake.calls);
	(void)snprintf(fake.calls + used, sizeof(fake.calls) - used, " %s-%s", door, call);
}

/* The door of a name is that name, so that each operation can tell whose it was given. */
#define FAKE_OPEN(name, code)                                                                      \
	int __wrap_door_##name##_open(struct doors *doors, void **out, struct err *err);           \
	int __wrap_door_##name##_open(struct doors *doors, void **out, struct err *err)            \
	{                                                                                          \
		static char door[] = #name;                                                        \
		assert_string_equal(doors_parts(doors)->node_name, "node-7");                      \
		note(#name, "open");                                                               \
		*out = door;                                                                       \
		return (code) < 0 ? err_set(err, code, "cannot") : 0;                              \
	}
#define FAKE_FREE(name)                                                                            \
	void *__wrap_door_##name##_free(void *door);                                               \
	void *__wrap_door_##name##_free(void *door)                                                \
	{                                                                                          \
		note(door ? #name : "no-" #name, "free");                                          \
		return NULL;                                                                       \
	}
#define FAKE(name, operation)                                                                      \
	void __wrap_door_##name##_##operation(void *door);                                         \
	void __wrap_door_##name##_##operation(void *door)                                          \
	{                                                                                          \
		assert_string_equal(door, #name);                                                  \
		note(#name, #operation);                                                           \
	}
#define FAKE_QUEUE(name)                                                                           \
	void __wrap_door_##name##_set_queue(void *door, struct queue *queue);                      \
	void __wrap_door_##name##_set_queue(void *door, struct queue *queue)                       \
	{                                                                                          \
		assert_string_equal(door, #name);                                                  \
		assert_ptr_equal(queue, &fake);                                                    \
		note(#name, "queue");                                                              \
	}
#define FAKE_STATUS(name)                                                                          \
	void __wrap_door_##name##_status(const void *door, struct arena *arena,                    \
					 Sluice__V1__StatusReply *out);                            \
	void __wrap_door_##name##_status(const void *door, struct arena *arena,                    \
					 Sluice__V1__StatusReply *out)                             \
	{                                                                                          \
		assert_string_equal(door, #name);                                                  \
		note(#name, "status");                                                             \
	}
#define FAKE_CLEANUP(name, code)                                                                   \
	int __wrap_door_##name##_cleanup(const struct uninstall_options *options,                  \
					 struct err *err);                                         \
	int __wrap_door_##name##_cleanup(const struct uninstall_options *options, struct err *err) \
	{                                                                                          \
		assert_true(options->purges);                                                      \
		note(#name, "cleanup");                                                            \
		return (code) < 0 ? err_set(err, code, #name " stays") : 0;                        \
	}

FAKE_OPEN(kubelet, 0)
FAKE_OPEN(rdma, 0)
FAKE_OPEN(cdi, 0)
FAKE_OPEN(labels, fake.result)
FAKE_OPEN(validations, 0)
FAKE_OPEN(sockets, 0)
FAKE_OPEN(pools, 0)
FAKE_OPEN(queue, 0)
FAKE_OPEN(web, 0)
FAKE_FREE(kubelet)
FAKE_FREE(rdma)
FAKE_FREE(cdi)
FAKE_FREE(labels)
FAKE_FREE(validations)
FAKE_FREE(sockets)
FAKE_FREE(pools)
FAKE_FREE(queue)
FAKE_FREE(web)
FAKE(kubelet, update)
FAKE(kubelet, look)
FAKE(kubelet, jobs)
FAKE(kubelet, register_again)
FAKE(kubelet, stop)
FAKE(rdma, update)
FAKE(rdma, reload)
FAKE(rdma, register_again)
FAKE(rdma, stop)
FAKE(cdi, update)
FAKE(cdi, stop)
FAKE(labels, update)
FAKE(labels, reload)
FAKE(labels, stop)
FAKE(validations, update)
FAKE(validations, stop)
FAKE(sockets, update)
FAKE(pools, update)
FAKE(pools, tell)
FAKE(pools, stop)
FAKE(queue, update)
FAKE(queue, reload)
FAKE(queue, stop)
FAKE(web, update)
FAKE(web, jobs)
FAKE(web, stop)
FAKE_QUEUE(kubelet)
FAKE_QUEUE(pools)
FAKE_QUEUE(queue)
FAKE_QUEUE(web)
FAKE_STATUS(kubelet)
FAKE_STATUS(rdma)
FAKE_STATUS(cdi)
FAKE_STATUS(labels)
FAKE_STATUS(validations)
FAKE_STATUS(queue)
FAKE_STATUS(web)
FAKE_CLEANUP(cdi, fake.cleanup_result)
FAKE_CLEANUP(labels, 0)
FAKE_CLEANUP(validations, -EIO)
FAKE_CLEANUP(sockets, 0)
FAKE_CLEANUP(queue, 0)

void __wrap_door_cdi_found(const struct door_cdi *door, struct resource_cdi *out);
void __wrap_door_cdi_found(const struct door_cdi *door, struct resource_cdi *out)
{
	*out = (struct resource_cdi){.modes = 5};
}

void __wrap_door_kubelet_specifications(struct door_kubelet *door, const struct resource_cdi *cdi);
void __wrap_door_kubelet_specifications(struct door_kubelet *door, const struct resource_cdi *cdi)
{
	fake.specification_modes = cdi->modes;
}

/* --- the tests ---------------------------------------------------------------------------------
 */

static const struct doors_parts parts = {.node_name = "node-7"};

static int setup(void **state)
{
	(void)state;
	memset(&fake, 0, sizeof(fake));
	return 0;
}

/* What was called since it was last asked. */
static const char *called(void)
{
	static char calls[sizeof(fake.calls)];
	memcpy(calls, fake.calls, sizeof(calls));
	fake.calls[0] = '\0';
	return calls;
}

static struct doors *opened(void)
{
	struct doors *doors = NULL;
	assert_int_equal(doors_new(&parts, &doors, NULL), 0);
	assert_string_equal(called(), " kubelet-open"); /* it has less patience than the others */
	assert_int_equal(doors_open(doors, NULL), 0);
	assert_string_equal(called(),
			    " rdma-open cdi-open labels-open validations-open sockets-open "
			    "pools-open queue-open web-open");
	return doors;
}

static void test_each_is_told_in_its_turn(void **state)
{
	(void)state;
	struct doors *doors = opened();
	Sluice__V1__StatusReply reply = SLUICE__V1__STATUS_REPLY__INIT;

	doors_update(doors);
	assert_string_equal(called(), " kubelet-update rdma-update cdi-update labels-update "
				      "validations-update sockets-update pools-update queue-update "
				      "web-update");
	doors_look(doors);
	assert_string_equal(called(), " kubelet-look");
	doors_jobs(doors);
	assert_string_equal(called(), " kubelet-jobs queue-update web-jobs");
	doors_set_queue(doors, (struct queue *)&fake);
	assert_string_equal(called(), " kubelet-queue pools-queue queue-queue web-queue");
	doors_reload(doors);
	assert_string_equal(called(), " rdma-reload labels-reload queue-reload web-update");
	doors_register_again(doors);
	assert_string_equal(called(), " kubelet-register_again rdma-register_again");
	doors_status(doors, NULL, &reply);
	assert_string_equal(called(), " kubelet-status rdma-status cdi-status labels-status "
				      "validations-status queue-status web-status");
	assert_string_equal(doors_at(doors, DOOR_POOLS), "pools");

	doors_stop(doors);
	assert_string_equal(called(), " kubelet-stop rdma-stop cdi-stop labels-stop "
				      "validations-stop pools-stop queue-stop web-stop");
	doors_stop(doors);
	doors_update(doors);
	doors_reload(doors);
	assert_string_equal(called(), "");
	assert_null(doors_free(doors));
	assert_string_equal(called(),
			    " web-free queue-free pools-free sockets-free validations-free "
			    "labels-free cdi-free rdma-free kubelet-free");
}

static void test_news_of_one_are_others_matter(void **state)
{
	(void)state;
	struct doors *doors = opened();

	doors_on_specifications(doors);
	assert_int_equal(fake.specification_modes, 5);
	assert_string_equal(called(), " validations-update");
	doors_on_adapters(doors);
	assert_string_equal(called(), " web-update pools-tell");
	doors_on_view(doors);
	assert_string_equal(called(), " web-update");

	doors_stop(doors);
	fake.specification_modes = 0;
	doors_on_specifications(doors);
	assert_int_equal(fake.specification_modes, 0);
	assert_null(doors_free(doors));
}

/* What the first has begun must end before it is freed. */
static void test_one_that_cannot_be_opened(void **state)
{
	(void)state;
	struct doors *doors = NULL;
	struct err err = {0};
	fake.result = -ENOMEM;
	assert_int_equal(doors_new(&parts, &doors, NULL), 0);
	assert_int_equal(doors_open(doors, &err), -ENOMEM);
	assert_string_equal(called(), " kubelet-open rdma-open cdi-open labels-open");
	doors_stop(doors);
	assert_string_equal(called(), " kubelet-stop rdma-stop cdi-stop labels-stop");
	assert_null(doors_free(doors));
	assert_non_null(strstr(called(), "no-web-free"));
}

/* One that cannot be removed hinders no other, and the first failure is told. */
static void test_what_they_leave_is_removed(void **state)
{
	(void)state;
	const struct uninstall_options options = {.purges = true};
	struct err err = {0};
	fake.cleanup_result = -EPERM;
	assert_int_equal(doors_cleanup(&options, &err), -EIO);
	assert_string_equal(err.text, "validations stays");
	assert_string_equal(called(), " queue-cleanup sockets-cleanup validations-cleanup "
				      "labels-cleanup cdi-cleanup");
}

static void test_none(void **state)
{
	(void)state;
	doors_update(NULL);
	doors_look(NULL);
	doors_reload(NULL);
	doors_register_again(NULL);
	doors_jobs(NULL);
	doors_set_queue(NULL, NULL);
	doors_stop(NULL);
	assert_null(doors_at(NULL, DOOR_WEB));
	assert_null(doors_free(NULL));
	assert_string_equal(called(), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(test_each_is_told_in_its_turn, setup),
	    cmocka_unit_test_setup(test_news_of_one_are_others_matter, setup),
	    cmocka_unit_test_setup(test_one_that_cannot_be_opened, setup),
	    cmocka_unit_test_setup(test_what_they_leave_is_removed, setup),
	    cmocka_unit_test_setup(test_none, setup),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
