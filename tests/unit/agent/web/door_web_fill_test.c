/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/web/door_web_fill.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/doors/door_rdma.h"
#include "agent/doors/door_validations.h"
#include "agent/web/door_web_counters.h"
#include "agent/node.h"
#include "agent/doors/queue_pools.h"
#include "agent/reload.h"
#include "agent/users.h"
#include "agent/vitals.h"
#include "doors/queue/claim/claims.h"
#include "doors/queue/queue.h"
#include "doors/queue/schedule/schedule.h"
#include "hardware/gpu.h"
#include "hardware/rdma.h"
#include "hardware/rdma_counters.h"
#include "policy/policy.h"
#include "unit/unit.h"
#include "web/view.h"

/* --- instead of everybody who is asked: --wrap --------------------------------------------------
 */

static struct gpu gpus[2];
static struct inventory inventory;
static struct snapshot *snapshot;
static struct policy policy;
static struct reload_state state_of_reload;
static const char *problem;
static bool has_inventory;
static struct rdma_inventory *adapters;
static struct job jobs[400];
static size_t job_count;
static struct schedule_device devices[2];
static struct schedule_machine machine;

const struct inventory *__wrap_node_inventory(const struct node *node);
const struct snapshot *__wrap_node_snapshot(const struct node *node);
const struct policy *__wrap_node_policy(const struct node *node);
const char *__wrap_node_problem(const struct node *node);
bool __wrap_node_has_kubelet(const struct node *node);
const struct reload_state *__wrap_reload_state(const struct reload *reload);
bool __wrap_vitals_at(const struct vitals *vitals, size_t place, struct vitals_view *out);
void __wrap_door_rdma_source(const struct door_rdma *door, struct queue_pools_source *out);
const struct kubelet *__wrap_door_rdma_kubelet(const struct door_rdma *door);
enum ready_state __wrap_door_validations_fact(const struct door_validations *door,
					      enum ready_what what);
const struct rdma_counters *__wrap_door_rdma_counters(const struct door_rdma *door,
						      const char *device, uint32_t port);
size_t __wrap_queue_count(const struct queue *queue, enum job_state state);
uint64_t __wrap_queue_ended(const struct queue *queue);
const struct job *__wrap_queue_first(const struct queue *queue);
const struct job *__wrap_queue_next(const struct queue *queue, const struct job *job);
const struct schedule_machine *__wrap_queue_machine(const struct queue *queue);
const struct claims *__wrap_queue_claims(const struct queue *queue);
const char *__wrap_users_name(struct users *users, uid_t uid);

const struct inventory *__wrap_node_inventory(const struct node *node)
{
	return has_inventory ? &inventory : NULL;
}

const struct snapshot *__wrap_node_snapshot(const struct node *node)
{
	return has_inventory ? snapshot : NULL;
}

const struct policy *__wrap_node_policy(const struct node *node)
{
	return &policy;
}

const char *__wrap_node_problem(const struct node *node)
{
	return problem;
}

bool __wrap_node_has_kubelet(const struct node *node)
{
	return false;
}

const struct reload_state *__wrap_reload_state(const struct reload *reload)
{
	return &state_of_reload;
}

bool __wrap_vitals_at(const struct vitals *vitals, size_t place, struct vitals_view *out)
{
	if (place > 1)
		return false;
	*out = (struct vitals_view){.here = place == 0};
	strcpy(out->uuid, "GPU-b"); /* and one of before that is gone */
	out->verdict.state = place == 0 ? HEALTH_UNHEALTHY : HEALTH_HEALTHY;
	out->verdict.reason_count = 6;
	for (uint32_t i = 0; i < 6; i++) {
		out->verdict.reason[i] = (struct health_reason){
		    .cause = HEALTH_XID, .state = HEALTH_UNHEALTHY, .xid = 70 + i};
		strcpy(out->verdict.reason[i].advice, "reset it");
	}
	return true;
}

void __wrap_door_rdma_source(const struct door_rdma *door, struct queue_pools_source *out)
{
	out->adapters = adapters;
}

enum ready_state __wrap_door_validations_fact(const struct door_validations *door,
					      enum ready_what what)
{
	(void)door;
	return what == READY_DRIVER ? READY_YES : what == READY_MOFED ? READY_NO : READY_UNKNOWN;
}

const struct rdma_counters *__wrap_door_rdma_counters(const struct door_rdma *door,
						      const char *device, uint32_t port)
{
	static const struct rdma_counters counters = {
	    .value = {[RDMA_COUNTER_SENT_BYTES] = 1000000,
		      [RDMA_COUNTER_CNP_HANDLED] = RDMA_COUNTER_UNKNOWN}};
	(void)door;
	assert_string_equal(device, "mlx5_0");
	return port == 1 ? &counters : NULL;
}

const struct kubelet *__wrap_door_rdma_kubelet(const struct door_rdma *door)
{
	return NULL;
}

size_t __wrap_queue_count(const struct queue *queue, enum job_state state)
{
	size_t count = 0;
	for (size_t i = 0; i < job_count; i++)
		count += jobs[i].state == state;
	return count;
}

uint64_t __wrap_queue_ended(const struct queue *queue)
{
	return 42;
}

const struct job *__wrap_queue_first(const struct queue *queue)
{
	return job_count > 0 ? jobs : NULL;
}

const struct job *__wrap_queue_next(const struct queue *queue, const struct job *job)
{
	return job + 1 < jobs + job_count ? job + 1 : NULL;
}

const struct schedule_machine *__wrap_queue_machine(const struct queue *queue)
{
	return &machine;
}

static struct claims claims;

const struct claims *__wrap_queue_claims(const struct queue *queue)
{
	return &claims;
}

const char *__wrap_users_name(struct users *users, uid_t uid)
{
	return uid == 7 ? "alice" : "bob";
}

/* --- the tests ---------------------------------------------------------------------------------
 */

static struct view *view;
static struct web_counters *counters;
static struct web_source source;

static int setup(void **state)
{
	view = calloc(1, sizeof(*view));
	counters = calloc(1, sizeof(*counters));
	snapshot = calloc(1, sizeof(*snapshot));
	adapters = calloc(1, sizeof(*adapters));
	assert_true(view && counters && snapshot && adapters);
	view_init(view);
	inventory_init(&inventory);
	inventory.gpu_count = 2;
	inventory.gpus = gpus;
	inventory.simulated = true;
	snapshot->magic = SNAPSHOT_MAGIC;
	snapshot->version = SNAPSHOT_VERSION;
	snapshot->gpu_count = 2;
	snapshot->size = snapshot_length(2);
	snapshot->driver_ok = 1;
	for (uint32_t i = 0; i < 2; i++) {
		gpus[i] = (struct gpu){.index = i,
				       .numa_node = i ? 1 : GPU_NUMA_NONE,
				       .architecture = GPU_ARCH_AMPERE,
				       .has_pci = true};
		gpus[i].pci.bus = (uint8_t)(i + 1);
		strcpy(gpus[i].uuid, i ? "GPU-b" : "GPU-a");
		strcpy(gpus[i].serial, "S1");
		strcpy(snapshot->gpu[i].uuid, gpus[i].uuid);
		snapshot_put(&snapshot->gpu[i], SNAPSHOT_PCIE_GEN, 4);
		snapshot_put(&snapshot->gpu[i], SNAPSHOT_PCIE_WIDTH, 16);
	}
	problem = "";
	has_inventory = true;
	state_of_reload = (struct reload_state){.config = NULL};
	policy = (struct policy){.resource_count = 0};
	machine = (struct schedule_machine){.devices = devices, .device_count = 2};
	job_count = 0;
	source = (struct web_source){.counters = counters,
				     .queue = (struct queue *)&source,
				     .rdma = (struct door_rdma *)&source};
	return 0;
}

static int teardown(void **state)
{
	free(view);
	free(counters);
	free(snapshot);
	free(adapters);
	return 0;
}

static void test_gpus(void **state)
{
	static struct policy_unit units[] = {
	    {.gpu = 0, .mig = POLICY_WHOLE_GPU, .replicas = 1},
	    {.gpu = 1, .mig = POLICY_WHOLE_GPU, .replicas = 2},
	    {.gpu = 1, .mig = POLICY_WHOLE_GPU, .replica = 1, .replicas = 2}};
	static struct policy_resource resources[] = {
	    {.door = POLICY_DOOR_KUBELET, .first = 0, .count = 1},
	    {.door = POLICY_DOOR_QUEUE, .first = 1, .count = 2}};
	policy = (struct policy){
	    .resources = resources, .resource_count = 2, .units = units, .unit_count = 3};
	snapshot_put(&snapshot->gpu[0], SNAPSHOT_BUSY, 9);
	snapshot->gpu[0].sampled_ns[SNAPSHOT_FAST] = 5;
	web_counters_sample(counters, snapshot);
	web_fill_gpus(&source, view);
	web_fill_node(&source, view);
	assert_true(view_is_valid(view));
	assert_int_equal(view->snapshot.gpu_count, 2);
	assert_string_equal(view->gpu[0].serial, "S1");
	assert_string_equal(view->gpu[0].architecture, "Ampere");
	assert_string_equal(view->gpu[0].mode, "exclusive");
	assert_string_equal(view->gpu[0].door, "kubelet");
	assert_string_equal(view->gpu[1].mode, "timeslice");
	assert_string_equal(view->gpu[1].door, "queue");
	assert_int_equal(view->gpu[0].numa_node, -1);
	assert_int_equal(view->gpu[1].numa_node, 1);
	assert_int_equal(view->gpu[0].replay_limit_per_minute, 16); /* Gen4 x16: the spec's */
	assert_int_equal(view->gpu[0].busy_ns, 9);
	assert_int_equal(view->gpu[1].busy_ns, SNAPSHOT_U64_ABSENT);
	assert_int_equal(view->gpu[0].health, VIEW_UNKNOWN);
	assert_int_equal(view->gpu[1].health, VIEW_UNHEALTHY);
	assert_int_equal(view->gpu[1].reason_count, VIEW_REASON_MAX);
	assert_string_equal(view->gpu[1].reason[0].cause, "xid");
	assert_string_equal(view->gpu[1].reason[3].advice, "reset it");
	assert_int_equal(view->gpu[1].reason[3].xid, 73);
	assert_true(view->node.ready && view->node.simulated && view->node.has_queue);
	assert_int_equal(view->node.ready_known, 1 << READY_DRIVER | 1 << READY_MOFED);
	assert_int_equal(view->node.ready_of, 1 << READY_DRIVER);
	for (uint32_t i = 0; i < READY_COUNT; i++) { /* "driver", of "driver-ready" */
		const char *file = ready_name((enum ready_what)i), *name = view_ready_to_string(i);
		assert_int_equal(strncmp(file, name, strlen(name)), 0);
		assert_string_equal(file + strlen(name), "-ready");
	}
}

/* And not any more when that is over. */
static void test_drained_gpus(void **state)
{
	struct claim claim = {.kind = CLAIM_DRAIN_GPUS, .reason = "the fan", .gpu_count = 1};

	strcpy(claim.gpus[0].uuid, "GPU-b");
	claims = (struct claims){.items = &claim, .count = 1};
	web_fill_gpus(&source, view);
	assert_true(view->gpu[1].drained && !view->gpu[1].reserved);
	assert_string_equal(view->gpu[1].claim, "drained: the fan");
	assert_true(!view->gpu[0].drained && view->gpu[0].claim[0] == '\0');
	assert_true(view_is_valid(view));

	/* A MIG device of it is not the GPU. */
	snapshot->gpu[0].mig_count = 1;
	strcpy(snapshot->gpu[0].mig[0].uuid, "MIG-a");
	strcpy(claim.gpus[0].uuid, "MIG-a");
	web_fill_gpus(&source, view);
	assert_true(!view->gpu[1].drained && view->gpu[1].claim[0] == '\0');
	assert_false(view->gpu[0].drained);
	assert_string_equal(view->gpu[0].claim, "drained, a MIG device of it: the fan");
	claims.count = 0;
}

static void test_mig_and_gpus_without_a_door(void **state)
{
	gpus[0].mig_current = GPU_MIG_ENABLED;
	web_fill_gpus(&source, view);
	assert_string_equal(view->gpu[0].mode, "mig");
	assert_string_equal(view->gpu[0].door, "");
	assert_string_equal(view->gpu[1].mode, "");
}

/* The one before must not shine through. */
static void test_without_a_driver(void **state)
{
	web_fill_gpus(&source, view);
	has_inventory = false;
	problem = "no driver here";
	strcpy(state_of_reload.error, "/c.yaml:1:1: no");
	web_fill_gpus(&source, view);
	web_fill_node(&source, view);
	assert_true(view_is_valid(view));
	assert_int_equal(view->snapshot.gpu_count, 0);
	assert_int_equal(view->snapshot.driver_ok, 0);
	assert_string_equal(view->snapshot.driver_text, "no driver here");
	assert_string_equal(view->node.problem, "no driver here");
	assert_string_equal(view->node.config_error, "/c.yaml:1:1: no");
	assert_false(view->node.ready);
	state_of_reload.error[0] = '\0';
	strcpy(state_of_reload.missing, "big");
	web_fill_node(&source, view);
	assert_string_equal(view->node.config_error, "specified config big does not exist");
}

static void add_jobs(size_t count, enum job_state state)
{
	for (; count > 0; count--) {
		struct job *job = &jobs[job_count++];
		*job = (struct job){.id = job_count, .uid = 7, .state = state, .gpus = 2};
		(void)snprintf(job->name, sizeof(job->name), "j%zu", job_count);
	}
}

static void test_jobs(void **state)
{
	add_jobs(1, JOB_RUNNING);
	add_jobs(2, JOB_PENDING);
	jobs[1].reason = JOB_REASON_WAITING_FOR_GPU;
	jobs[1].reason_text = (char *)"have 1, need 2";
	jobs[1].reason_detail = (char *)"executing 'secret'"; /* the page has no owner */
	web_fill_jobs(&source, view);
	assert_int_equal(view->job_count, 3);
	assert_int_equal(view->job[0].id, 2); /* who waits first */
	assert_string_equal(view->job[0].reason, "WaitingForGPU(have 1, need 2)");
	assert_string_equal(view->job[0].state, "Pending");
	assert_string_equal(view->job[0].user, "alice");
	assert_int_equal(view->job[2].id, 1);
	assert_int_equal(view->jobs_pending, 2);
	assert_int_equal(view->jobs_running, 1);
	assert_int_equal(view->jobs_ended, 42);
	/* Those that run are not hidden by those that wait. */
	add_jobs(300, JOB_PENDING);
	add_jobs(20, JOB_RUNNING);
	web_fill_jobs(&source, view);
	assert_int_equal(view->job_count, VIEW_JOB_MAX);
	assert_int_equal(view->jobs_pending, 302);
	assert_string_equal(view->job[VIEW_JOB_MAX - 21].state, "Running");
	assert_string_equal(view->job[VIEW_JOB_MAX - 22].state, "Pending");
	source.queue = NULL;
	web_fill_jobs(&source, view);
	assert_int_equal(view->job_count + view->jobs_pending, 0);
}

static void test_adapters(void **state)
{
	struct rdma_function *function = &adapters->function[0];
	struct rdma_device *device = &adapters->device[0];
	adapters->function_count = adapters->device_count = 1;
	function->device_count = 1;
	function->interface_count = 1;
	strcpy(function->interface[0].name, "ib0");
	strcpy(device->name, "mlx5_0");
	device->port_count = 2;
	device->port[0] = (struct rdma_port){.number = 1,
					     .state = RDMA_STATE_ACTIVE,
					     .phys_state = RDMA_PHYS_LINK_UP,
					     .link_layer = RDMA_LAYER_INFINIBAND,
					     .rate_mbit = 200000};
	strcpy(device->port[0].state_text, "4: ACTIVE");
	device->port[1] = (struct rdma_port){.number = 2, .state = 1, .rate_mbit = RDMA_UNKNOWN};
	strcpy(device->port[1].state_text, "1: DOWN");
	web_fill_adapters(&source, view);
	assert_int_equal(view->adapter_count, 2);
	assert_string_equal(view->adapter[0].name, "mlx5_0");
	assert_string_equal(view->adapter[0].net, "ib0");
	assert_string_equal(view->adapter[0].layer, "InfiniBand");
	assert_string_equal(view->adapter[0].state, "active");
	assert_int_equal(view->adapter[0].health, VIEW_HEALTHY);
	assert_true(view->adapter[0].rate_bits == UINT64_C(200000000000));
	assert_int_equal(view->adapter[1].health, VIEW_DEGRADED);
	assert_int_equal(view->adapter[1].rate_bits, 0);
	assert_non_null(strstr(view->adapter[1].reason, "port 2 is not up"));
	assert_true(view->adapter[0].counter[RDMA_COUNTER_SENT_BYTES] == 1000000);
	assert_int_equal(view->adapter[0].counters_known, (1 << RDMA_COUNTER_CNP_HANDLED) - 1);
	assert_int_equal(view->adapter[1].counters_known, 0); /* not read */
	source.rdma = NULL;
	web_fill_adapters(&source, view);
	assert_int_equal(view->adapter_count, 0);
}

static void test_resources(void **state)
{
	devices[0] =
	    (struct schedule_device){.unit = {.healthy = true}, .slot_count = 4, .used_count = 3};
	devices[1] = (struct schedule_device){.slot_count = 2, .used_whole = true};
	web_fill_resources(&source, view);
	assert_int_equal(view->resource_count, 1);
	assert_string_equal(view->resource[0].name, "jobs");
	assert_int_equal(view->resource[0].units, 6);
	assert_int_equal(view->resource[0].healthy, 4);
	assert_int_equal(view->resource[0].allocated, 5);
	assert_false(view->resource[0].is_of_kubelet || view->resource[0].registered);
	source.queue = NULL;
	web_fill_resources(&source, view);
	assert_int_equal(view->resource_count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_gpus, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_drained_gpus, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_mig_and_gpus_without_a_door, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_without_a_driver, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_jobs, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_adapters, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_resources, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
