/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/doors/doors.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/cluster/cluster.h"
#include "agent/doors/door_cdi.h"
#include "agent/doors/door_labels.h"
#include "agent/doors/door_queue.h"
#include "agent/doors/door_rdma.h"
#include "agent/doors/door_validations.h"
#include "agent/web/door_web.h"
#include "agent/web/door_web_events.h"
#include "agent/node.h"
#include "agent/doors/queue_pools.h"
#include "base/err.h"
#include "doors/queue/queue.h"
#include "doors/queue/schedule/schedule_pool.h"
#include "doors/kubelet/resource.h"
#include "unit/unit.h"

/* --- instead of the doors: --wrap ---------------------------------------------------------------
 */

static struct {
	char calls[1024]; /* in their order */
	int result;	  /* of the labels' door */
	struct door_cdi_options cdi;
	struct door_rdma_options rdma;
	uint64_t generation;
	bool has_kubelet, is_unknown;
	char problem[SCHEDULE_POOL_TEXT_MAX]; /* that the queue was told */
	unsigned modes;			      /* that agent was told */
	int web_updates;
} fake;

static void note(const char *call)
{
	size_t used = strlen(fake.calls);
	(void)snprintf(fake.calls + used, sizeof(fake.calls) - used, "%s ", call);
}

int __wrap_door_cdi_new(const struct door_cdi_options *options, struct door_cdi **out,
			struct err *err);
void __wrap_door_cdi_stop(struct door_cdi *door);
struct door_cdi *__wrap_door_cdi_free(struct door_cdi *door);
void __wrap_door_cdi_update(struct door_cdi *door);
void __wrap_door_cdi_found(const struct door_cdi *door, struct resource_cdi *out);
int __wrap_door_labels_new(const struct door_labels_options *options, struct door_labels **out,
			   struct err *err);
void __wrap_door_labels_stop(struct door_labels *door);
struct door_labels *__wrap_door_labels_free(struct door_labels *door);
void __wrap_door_labels_update(struct door_labels *door);
void __wrap_door_labels_reload(struct door_labels *door);
void __wrap_door_labels_hold(struct door_labels *door, const char *why);

int __wrap_door_cdi_new(const struct door_cdi_options *options, struct door_cdi **out,
			struct err *err)
{
	(void)err;
	fake.cdi = *options;
	note("cdi-new");
	*out = (struct door_cdi *)&fake;
	return 0;
}

void __wrap_door_cdi_stop(struct door_cdi *door)
{
	note(door ? "cdi-stop" : "no-cdi-stop");
}

struct door_cdi *__wrap_door_cdi_free(struct door_cdi *door)
{
	note(door ? "cdi-free" : "no-cdi-free");
	return NULL;
}

void __wrap_door_cdi_update(struct door_cdi *door)
{
	(void)door;
	note("cdi-update");
}

void __wrap_door_cdi_found(const struct door_cdi *door, struct resource_cdi *out)
{
	(void)door;
	*out = (struct resource_cdi){.modes = 5};
}

int __wrap_door_labels_new(const struct door_labels_options *options, struct door_labels **out,
			   struct err *err)
{
	(void)options;
	note("labels-new");
	if (fake.result < 0)
		return err_set(err, fake.result, "cannot");
	*out = (struct door_labels *)&fake;
	return 0;
}

void __wrap_door_labels_stop(struct door_labels *door)
{
	note(door ? "labels-stop" : "no-labels-stop");
}

struct door_labels *__wrap_door_labels_free(struct door_labels *door)
{
	note(door ? "labels-free" : "no-labels-free");
	return NULL;
}

void __wrap_door_labels_update(struct door_labels *door)
{
	(void)door;
	note("labels-update");
}

void __wrap_door_labels_reload(struct door_labels *door)
{
	(void)door;
	note("labels-reload");
}

void __wrap_door_labels_hold(struct door_labels *door, const char *why)
{
	assert_non_null(door);
	assert_string_equal(why, "so");
	note("labels-hold");
}

int __wrap_door_rdma_new(const struct door_rdma_options *options, struct door_rdma **out,
			 struct err *err);
void __wrap_door_rdma_stop(struct door_rdma *door);
struct door_rdma *__wrap_door_rdma_free(struct door_rdma *door);
void __wrap_door_rdma_update(struct door_rdma *door);
void __wrap_door_rdma_reload(struct door_rdma *door);
void __wrap_door_rdma_register_again(struct door_rdma *door);

int __wrap_door_rdma_new(const struct door_rdma_options *options, struct door_rdma **out,
			 struct err *err)
{
	(void)err;
	fake.rdma = *options;
	assert_string_equal(options->kubelet_socket, "/k.sock");
	note("rdma-new");
	*out = (struct door_rdma *)&fake;
	return 0;
}

void __wrap_door_rdma_stop(struct door_rdma *door)
{
	note(door ? "rdma-stop" : "no-rdma-stop");
}

struct door_rdma *__wrap_door_rdma_free(struct door_rdma *door)
{
	note(door ? "rdma-free" : "no-rdma-free");
	return NULL;
}

void __wrap_door_rdma_update(struct door_rdma *door)
{
	(void)door;
	note("rdma-update");
}

void __wrap_door_rdma_reload(struct door_rdma *door)
{
	(void)door;
	note("rdma-reload");
}

void __wrap_door_rdma_register_again(struct door_rdma *door)
{
	(void)door;
	note("rdma-register");
}

int __wrap_door_validations_new(const struct door_validations_options *options_,
				struct door_validations **out, struct err *err);
void __wrap_door_validations_stop(struct door_validations *door);
struct door_validations *__wrap_door_validations_free(struct door_validations *door);
void __wrap_door_validations_update(struct door_validations *door);

int __wrap_door_validations_new(const struct door_validations_options *options_,
				struct door_validations **out, struct err *err)
{
	(void)err;
	assert_ptr_equal(options_->cdi, &fake);
	note("validations-new");
	*out = (struct door_validations *)&fake;
	return 0;
}

void __wrap_door_validations_stop(struct door_validations *door)
{
	note(door ? "validations-stop" : "no-validations-stop");
}

struct door_validations *__wrap_door_validations_free(struct door_validations *door)
{
	note(door ? "validations-free" : "no-validations-free");
	return NULL;
}

void __wrap_door_validations_update(struct door_validations *door)
{
	if (door)
		note("validations-update");
}

int __wrap_door_web_new(const struct door_web_options *options, struct door_web **out,
			struct err *err);
void __wrap_door_web_stop(struct door_web *door);
struct door_web *__wrap_door_web_free(struct door_web *door);
void __wrap_door_web_update(struct door_web *door);
void __wrap_door_web_jobs(struct door_web *door);
void __wrap_door_web_set_queue(struct door_web *door, struct queue *queue);
void __wrap_web_events_adapter(struct web_events *events, bool is_warning, const char *text);

int __wrap_door_web_new(const struct door_web_options *options, struct door_web **out,
			struct err *err)
{
	assert_string_equal(options->node_name, "node-7");
	assert_ptr_equal(options->rdma, &fake);
	note("web-new");
	*out = (struct door_web *)&fake;
	return 0;
}

void __wrap_door_web_stop(struct door_web *door)
{
	note(door ? "web-stop" : "no-web-stop");
}

struct door_web *__wrap_door_web_free(struct door_web *door)
{
	note(door ? "web-free" : "no-web-free");
	return NULL;
}

void __wrap_door_web_update(struct door_web *door)
{
	fake.web_updates += door != NULL;
}

void __wrap_door_web_jobs(struct door_web *door)
{
	note("web-jobs");
}

void __wrap_door_web_set_queue(struct door_web *door, struct queue *queue)
{
	assert_ptr_equal(queue, &fake);
	note("web-queue");
}

void __wrap_web_events_adapter(struct web_events *events, bool is_warning, const char *text)
{
	note("web-event");
}

int __wrap_door_queue_new(const struct door_queue_options *options, struct door_queue **out,
			  struct err *err);
struct door_queue *__wrap_door_queue_free(struct door_queue *door);
void __wrap_door_queue_set_queue(struct door_queue *door, struct queue *queue);
void __wrap_door_queue_reload(struct door_queue *door);
void __wrap_door_queue_update(struct door_queue *door);
void __wrap_door_queue_stop(struct door_queue *door);

void __wrap_door_queue_update(struct door_queue *door)
{
	note("rules-update");
}

void __wrap_door_queue_stop(struct door_queue *door)
{
	note("rules-stop");
}

int __wrap_door_queue_new(const struct door_queue_options *options, struct door_queue **out,
			  struct err *err)
{
	*out = (struct door_queue *)&fake;
	return 0;
}

struct door_queue *__wrap_door_queue_free(struct door_queue *door)
{
	note("rules-free");
	return NULL;
}

void __wrap_door_queue_set_queue(struct door_queue *door, struct queue *queue)
{
	note("rules-queue");
}

void __wrap_door_queue_reload(struct door_queue *door)
{
	note("rules-reload");
}

uint64_t __wrap_node_generation(const struct node *node);
bool __wrap_node_has_kubelet(const struct node *node);
const struct inventory *__wrap_node_inventory(const struct node *node);
void __wrap_door_rdma_source(const struct door_rdma *door, struct queue_pools_source *out);
int __wrap_queue_set_pools(struct queue *queue, const struct schedule_pools *pools);
void __wrap_cluster_rdma(struct cluster *cluster, bool is_warning, const char *reason,
			 const char *text);

uint64_t __wrap_node_generation(const struct node *node)
{
	(void)node;
	return fake.generation;
}

bool __wrap_node_has_kubelet(const struct node *node)
{
	(void)node;
	return fake.has_kubelet;
}

const struct inventory *__wrap_node_inventory(const struct node *node)
{
	(void)node;
	return NULL;
}

void __wrap_door_rdma_source(const struct door_rdma *door, struct queue_pools_source *out)
{
	assert_ptr_equal(door, &fake);
	out->is_unknown = fake.is_unknown;
}

int __wrap_queue_set_pools(struct queue *queue, const struct schedule_pools *pools)
{
	assert_ptr_equal(queue, &fake);
	memcpy(fake.problem, pools->problem, sizeof(fake.problem));
	note("pools");
	return 0;
}

void __wrap_cluster_rdma(struct cluster *cluster, bool is_warning, const char *reason,
			 const char *text)
{
	assert_ptr_equal(cluster, &fake);
	note(is_warning ? reason : "normal");
	note(text);
}

/* --- the tests ---------------------------------------------------------------------------------
 */

static void on_specifications(const struct resource_cdi *cdi, void *context)
{
	assert_ptr_equal(context, &fake);
	fake.modes = cdi->modes;
}

static const struct doors_options options = {.specifications = on_specifications,
					     .kubelet_socket = "/k.sock",
					     .cluster = (struct cluster *)&fake,
					     .node_name = "node-7",
					     .context = &fake};

static int setup(void **state)
{
	(void)state;
	memset(&fake, 0, sizeof(fake));
	return 0;
}

static bool called(const char *name)
{
	return strstr(fake.calls, name) != NULL;
}

static void test_their_life(void **state)
{
	(void)state;
	struct doors *doors = NULL;
	assert_int_equal(doors_open(&options, &doors, NULL), 0);
	fake.cdi.changed(fake.cdi.context);
	assert_int_equal(fake.modes, 5);
	assert_true(called(" validations-update")); /* they tell of specifications, too */
	assert_ptr_equal(doors_cdi(doors), &fake);
	assert_ptr_equal(doors_validations(doors), &fake);
	assert_ptr_equal(doors_labels(doors), &fake);
	doors_update(doors);
	assert_true(called(" cdi-update") && called(" labels-update") && called(" rdma-update"));
	doors_hold_labels(doors, "so");
	assert_true(called(" labels-hold"));
	doors_reload(doors);
	assert_true(called(" labels-reload") && called(" rdma-reload") && called(" rules-reload"));
	assert_int_equal(fake.web_updates, 2);
	doors_jobs(doors);
	assert_true(called(" web-jobs"));
	assert_ptr_equal(doors_web(doors), &fake);
	doors_register_again(doors);
	assert_true(called(" rdma-register"));
	assert_ptr_equal(doors_rdma(doors), &fake);
	doors_stop(doors);
	assert_true(called(" cdi-stop") && called(" labels-stop") && called(" rdma-stop") &&
		    called(" validations-stop") && called(" web-stop") && called(" rules-stop"));
	assert_null(doors_free(doors));
	assert_true(called(" cdi-free") && called(" labels-free") && called(" rdma-free") &&
		    called(" validations-free") && called(" web-free") && called(" rules-free"));
}

static void test_the_queue_hears_of_adapters(void **state)
{
	(void)state;
	struct doors *doors = NULL;
	struct queue *queue = (struct queue *)&fake;
	assert_int_equal(doors_open(&options, &doors, NULL), 0);
	fake.rdma.changed(fake.rdma.context);
	doors_update(doors);
	assert_false(called(" pools")); /* there is none yet */
	doors_set_queue(doors, queue);
	assert_true(called(" pools") && called(" web-queue") && called(" rules-queue"));
	assert_string_equal(fake.problem, "");
	fake.calls[0] = '\0';
	doors_update(doors); /* nothing is new */
	assert_false(called("pools"));
	fake.is_unknown = true;
	fake.rdma.changed(fake.rdma.context);
	assert_string_equal(fake.problem, "RDMA adapters have not been read yet");
	fake.is_unknown = false;
	doors_update(doors); /* looked at until it is known */
	assert_string_equal(fake.problem, "");
	fake.calls[0] = '\0';
	doors_update(doors);
	assert_false(called("pools"));
	fake.generation++;
	fake.has_kubelet = true;
	doors_update(doors);
	assert_true(called("pools"));
	assert_string_equal(fake.problem,
			    "the kubelet of this machine hands out its RDMA adapters");
	fake.calls[0] = '\0';
	fake.rdma.changed(fake.rdma.context);
	assert_true(called("pools"));
	fake.rdma.event(true, "Reason", "text", fake.rdma.context);
	assert_true(called("Reason text") && called(" web-event"));
	doors_stop(doors);
	fake.calls[0] = '\0';
	fake.rdma.changed(fake.rdma.context);
	assert_false(called("pools")); /* it may be closed by now */
	assert_null(doors_free(doors));
}

/* What the first has begun must end before it is freed. */
static void test_one_that_cannot_be_opened(void **state)
{
	(void)state;
	struct doors *doors = NULL;
	struct err err = {0};
	fake.result = -ENOMEM;
	assert_int_equal(doors_open(&options, &doors, &err), -ENOMEM);
	assert_non_null(doors);
	doors_stop(doors);
	assert_null(doors_free(doors));
	assert_true(called(" cdi-stop") && called(" cdi-free") && called("no-labels-free"));
}

static void test_none(void **state)
{
	(void)state;
	doors_update(NULL);
	doors_reload(NULL);
	doors_hold_labels(NULL, "so");
	doors_stop(NULL);
	assert_null(doors_cdi(NULL));
	assert_null(doors_labels(NULL));
	assert_null(doors_rdma(NULL));
	doors_register_again(NULL);
	doors_jobs(NULL);
	assert_null(doors_web(NULL));
	assert_null(doors_validations(NULL));
	assert_null(doors_free(NULL));
	assert_string_equal(fake.calls, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(test_their_life, setup),
	    cmocka_unit_test_setup(test_the_queue_hears_of_adapters, setup),
	    cmocka_unit_test_setup(test_one_that_cannot_be_opened, setup),
	    cmocka_unit_test_setup(test_none, setup),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
