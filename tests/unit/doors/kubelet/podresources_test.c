/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/kubelet/podresources.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/loop.h"
#include "podresources.pb-c.h"
#include "tests/unit/unit.h"
#include "wire/listen.h"
#include "wire/server.h"

enum { DEADLINE_S = 20, PODS_MAX = 4 };

/* A kubelet that answers what the test says. */
struct rig {
	char *directory;
	char path[FILE_PATH_MAX];
	struct loop *loop;
	struct wire_server *server;
	struct podresources *podresources;
	size_t asked, changes;
	/* "UNIT NAMESPACE/POD/CONTAINER" */
	size_t count;
	const char *unit[PODS_MAX], *pod[PODS_MAX], *container[PODS_MAX];
	bool is_silent;
	size_t allocatable; /* devices; asked how often */
	size_t asked_allocatable;
	bool knows_allocatable;
};

static void rig_list(struct wire_call *call, const ProtobufCMessage *request, void *context)
{
	struct rig *rig = context;
	char resource[] = "nvidia.com/gpu", name_space[] = "default";
	V1__ListPodResourcesResponse reply = V1__LIST_POD_RESOURCES_RESPONSE__INIT;
	V1__PodResources pods[PODS_MAX], *pod_list[PODS_MAX];
	V1__ContainerResources containers[PODS_MAX], *container_list[PODS_MAX];
	V1__ContainerDevices devices[PODS_MAX], *device_list[PODS_MAX];
	char *units[PODS_MAX];
	rig->asked++;
	if (rig->is_silent)
		return;
	for (size_t i = 0; i < rig->count; i++) {
		v1__pod_resources__init(&pods[i]);
		v1__container_resources__init(&containers[i]);
		v1__container_devices__init(&devices[i]);
		units[i] = (char *)rig->unit[i];
		devices[i].resource_name = resource;
		devices[i].device_ids = &units[i];
		devices[i].n_device_ids = 1;
		device_list[i] = &devices[i];
		containers[i].name = (char *)rig->container[i];
		containers[i].devices = &device_list[i];
		containers[i].n_devices = 1;
		container_list[i] = &containers[i];
		pods[i].name = (char *)rig->pod[i];
		pods[i].namespace_ = name_space;
		pods[i].containers = &container_list[i];
		pods[i].n_containers = 1;
		pod_list[i] = &pods[i];
	}
	reply.pod_resources = pod_list;
	reply.n_pod_resources = rig->count;
	assert_int_equal(wire_call_reply(call, &reply.base, NULL), 0);
}

/* Two entries of one resource, as for two NUMA nodes, another, and one with a name that is not
 * ours.
 */
static void rig_allocatable(struct wire_call *call, const ProtobufCMessage *request, void *context)
{
	struct rig *rig = context;
	char gpu[] = "nvidia.com/gpu", nic[] = "example.com/nic", id[] = "x", large[200];
	char *ids[PODS_MAX] = {id, id, id, id};
	char *names[] = {gpu, nic, large, gpu};
	V1__AllocatableResourcesResponse reply = V1__ALLOCATABLE_RESOURCES_RESPONSE__INIT;
	V1__ContainerDevices devices[4], *list[4];
	memset(large, 'x', sizeof(large) - 1);
	large[sizeof(large) - 1] = '\0';
	rig->asked_allocatable++;
	if (!rig->knows_allocatable) {
		wire_call_finish(call, WIRE_UNIMPLEMENTED, "unknown method");
		return;
	}
	for (size_t i = 0; i < 4; i++) {
		v1__container_devices__init(&devices[i]);
		devices[i].resource_name = names[i];
		devices[i].device_ids = ids;
		devices[i].n_device_ids = rig->allocatable;
		list[i] = &devices[i];
	}
	reply.devices = list;
	reply.n_devices = 4;
	assert_int_equal(wire_call_reply(call, &reply.base, NULL), 0);
}

static const struct wire_method methods[] = {
    {.path = "/v1.PodResourcesLister/List",
     .request = &v1__list_pod_resources_request__descriptor,
     .reply = &v1__list_pod_resources_response__descriptor,
     .handle = rig_list},
    {.path = "/v1.PodResourcesLister/GetAllocatableResources",
     .request = &v1__allocatable_resources_request__descriptor,
     .reply = &v1__allocatable_resources_response__descriptor,
     .handle = rig_allocatable},
    {.path = NULL},
};

static void rig_changed(void *context)
{
	((struct rig *)context)->changes++;
}

static void rig_serve(struct rig *rig)
{
	const struct wire_server_options options = {.methods = methods, .context = rig};
	rig->server = wire_server_new(rig->loop, &options, NULL);
	assert_non_null(rig->server);
	int fd = wire_listen_unix(rig->path, 0600, NULL);
	assert_true(fd >= 0);
	assert_int_equal(wire_server_add_listener(rig->server, fd, NULL), 0);
}

static int rig_set_up(void **state)
{
	static struct rig rig;
	rig = (struct rig){.directory = unit_tmp_new()};
	assert_int_equal(file_path(rig.path, NULL, "%s/kubelet.sock", rig.directory), 0);
	rig.loop = loop_new(LOOP_FAKE, NULL);
	assert_non_null(rig.loop);
	*state = &rig;
	return 0;
}

static void rig_open(struct rig *rig)
{
	const struct podresources_options options = {
	    .loop = rig->loop, .socket = rig->path, .changed = rig_changed, .context = rig};
	assert_int_equal(podresources_open(&options, &rig->podresources, NULL), 0);
	assert_int_equal(loop_advance(rig->loop, 0, NULL), 0); /* the first question */
}

static int rig_tear_down(void **state)
{
	struct rig *rig = *state;
	rig->podresources = podresources_close(rig->podresources);
	rig->server = wire_server_free(rig->server);
	rig->loop = loop_free(rig->loop);
	rig->directory = unit_tmp_free(rig->directory);
	return 0;
}

/* Passes of the loop until it was asked so often and nothing is under way any more. */
static void rig_run(struct rig *rig, size_t asked)
{
	uint64_t until_ns = unit_now_ns() + DEADLINE_S * CLOCK_NS_PER_S;
	struct wire_server_counts counts = {0};
	do {
		assert_true(unit_now_ns() < until_ns);
		assert_int_equal(loop_pass(rig->loop, CLOCK_NS_PER_MS, NULL), 0);
		wire_server_count(rig->server, &counts);
	} while (rig->asked < asked || (!rig->is_silent && counts.open_connections > 0));
}

static const char *rig_tell(const struct rig *rig)
{
	static char text[1024];
	size_t length = 0;
	text[0] = '\0';
	for (size_t i = 0; i < podresources_count(rig->podresources); i++) {
		const struct podresources_holder *holder = podresources_at(rig->podresources, i);
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%s %s %s/%s/%s",
					   i ? "; " : "", holder->unit, holder->resource,
					   holder->name_space, holder->pod, holder->container);
	}
	return text;
}

static void rig_hold(struct rig *rig, const char *unit, const char *pod, const char *container)
{
	rig->unit[rig->count] = unit;
	rig->pod[rig->count] = pod;
	rig->container[rig->count++] = container;
}

static void test_who_holds_what(void **state)
{
	struct rig *rig = *state;
	rig_serve(rig);
	rig_hold(rig, "GPU-b", "train", "main");
	rig_hold(rig, "GPU-a::1", "train", "side");
	rig_hold(rig, "GPU-a::1", "train", "main");
	rig_open(rig);
	rig_run(rig, 1);
	assert_string_equal(rig_tell(rig), "GPU-a::1 nvidia.com/gpu default/train/main; "
					   "GPU-a::1 nvidia.com/gpu default/train/side; "
					   "GPU-b nvidia.com/gpu default/train/main");
	assert_int_equal(rig->changes, 1);
	assert_string_equal(podresources_problem(rig->podresources), "");

	/* The same again is nothing new; a pod that has gone is. */
	assert_int_equal(loop_advance(rig->loop, PODRESOURCES_PERIOD_NS, NULL), 0);
	rig_run(rig, 2);
	assert_int_equal(rig->changes, 1);
	rig->count = 1;
	assert_int_equal(loop_advance(rig->loop, PODRESOURCES_PERIOD_NS, NULL), 0);
	rig_run(rig, 3);
	assert_string_equal(rig_tell(rig), "GPU-b nvidia.com/gpu default/train/main");
	assert_int_equal(rig->changes, 2);
	rig->count = 0;
	assert_int_equal(loop_advance(rig->loop, PODRESOURCES_PERIOD_NS, NULL), 0);
	rig_run(rig, 4);
	assert_string_equal(rig_tell(rig), "");
}

static void test_no_kubelet(void **state)
{
	struct rig *rig = *state;
	rig_open(rig);
	assert_int_equal(loop_pass(rig->loop, 0, NULL), 0);
	assert_non_null(strstr(podresources_problem(rig->podresources), rig->path));
	assert_non_null(strstr(podresources_problem(rig->podresources), "no kubelet has made it"));
	assert_int_equal(podresources_allocatable(rig->podresources, "nvidia.com/gpu"), -ENODATA);
	assert_int_equal(rig->changes, 1);
	/* It comes, and goes; what it said stays. */
	rig_serve(rig);
	rig_hold(rig, "GPU-a", "p", "c");
	assert_int_equal(loop_advance(rig->loop, PODRESOURCES_PERIOD_NS, NULL), 0);
	rig_run(rig, 1);
	assert_string_equal(podresources_problem(rig->podresources), "");
	assert_int_equal(rig->changes, 2);
	rig->server = wire_server_free(rig->server);
	assert_int_equal(loop_advance(rig->loop, PODRESOURCES_PERIOD_NS, NULL), 0);
	assert_string_not_equal(podresources_problem(rig->podresources), "");
	assert_string_equal(rig_tell(rig), "GPU-a nvidia.com/gpu default/p/c");
	assert_int_equal(rig->changes, 3);
}

static void test_what_pods_may_have(void **state)
{
	struct rig *rig = *state;
	rig_serve(rig);
	rig_open(rig);
	rig_run(rig, 1);
	assert_int_equal(podresources_allocatable(rig->podresources, "nvidia.com/gpu"), -ENOSYS);
	rig->knows_allocatable = true;
	rig->allocatable = 2;
	podresources_look(rig->podresources); /* sooner than by itself */
	podresources_look(rig->podresources);
	assert_int_equal(loop_advance(rig->loop, 0, NULL), 0);
	rig_run(rig, 2);
	assert_int_equal(rig->asked_allocatable, 2);
	assert_int_equal(podresources_allocatable(rig->podresources, "nvidia.com/gpu"), 4);
	assert_int_equal(podresources_allocatable(rig->podresources, "example.com/nic"), 2);
	assert_int_equal(podresources_allocatable(rig->podresources, "nvidia.com/other"), 0);
	assert_int_equal(rig->changes, 1); /* of who holds what alone */
	rig->allocatable = 0;
	assert_int_equal(loop_advance(rig->loop, PODRESOURCES_PERIOD_NS, NULL), 0);
	rig_run(rig, 3);
	assert_int_equal(podresources_allocatable(rig->podresources, "nvidia.com/gpu"), 0);
}

static void test_one_that_does_not_answer(void **state)
{
	struct rig *rig = *state;
	rig_serve(rig);
	rig->is_silent = true;
	rig_open(rig);
	rig_run(rig, 1);
	assert_int_equal(loop_advance(rig->loop, PODRESOURCES_DEADLINE_NS, NULL), 0);
	assert_non_null(strstr(podresources_problem(rig->podresources), "in time"));
	assert_int_equal(rig->asked, 1);
	rig->is_silent = false;
	assert_int_equal(loop_advance(rig->loop, PODRESOURCES_PERIOD_NS, NULL), 0);
	rig_run(rig, 2);
	assert_string_equal(podresources_problem(rig->podresources), "");
}

static void test_strange_answers(void **state)
{
	struct rig *rig = *state;
	char name[PODRESOURCES_NAME_MAX + 2];
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	rig_serve(rig);
	rig_hold(rig, "GPU-a", name, "c");
	rig_open(rig);
	rig_run(rig, 1);
	assert_non_null(strstr(podresources_problem(rig->podresources), "the kubelet names"));
	assert_int_equal(podresources_count(rig->podresources), 0);
	name[PODRESOURCES_NAME_MAX] = '\0';
	assert_int_equal(loop_advance(rig->loop, PODRESOURCES_PERIOD_NS, NULL), 0);
	rig_run(rig, 2);
	assert_int_equal(podresources_count(rig->podresources), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_who_holds_what, rig_set_up, rig_tear_down),
	    cmocka_unit_test_setup_teardown(test_no_kubelet, rig_set_up, rig_tear_down),
	    cmocka_unit_test_setup_teardown(test_one_that_does_not_answer, rig_set_up,
					    rig_tear_down),
	    cmocka_unit_test_setup_teardown(test_what_pods_may_have, rig_set_up, rig_tear_down),
	    cmocka_unit_test_setup_teardown(test_strange_answers, rig_set_up, rig_tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
