/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kubelet door costs a node, on simulated machines: from the start of the agent to its
 * registration, how long a pod waits for each answer, and what the agent takes of the memory
 * meanwhile. The agent is the real one; the kubelet's side is perf/kubelet_side.c.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "perf/footprint_process.h"
#include "perf/gate.h"
#include "perf/kubelet_side.h"
#include "perf/queue_rig.h"

enum bench_limits {
	BENCH_GPUS = 8,
	BENCH_UNITS = 384, /* 8 GPUs in 48 replicas */
	BENCH_MIG = 56,	   /* 8 GPUs in 7 instances */
	BENCH_GPUS_MANY = 16,
	BENCH_STARTS = 40,
	BENCH_STARTS_NEW = 15, /* with a new state; a figure, no gate */
	BENCH_AGAIN = 40,
	BENCH_WARM = 300,
	BENCH_CALLS = 4000,
	BENCH_LISTS = 1000,
	BENCH_TRY = 25, /* questions of each size, to find the worst */
	BENCH_WORST = 1000,
	BENCH_MUST_MAX = 3,
	BENCH_POD = 8,		 /* units that a pod of many wants */
	BENCH_POOLS = 8,	 /* resources of RDMA adapters ... */
	BENCH_POOL_UNITS = 1000, /* ... and the units of each */
};

#define BENCH_DEAD_NS	UINT64_C(20000000)   /* a kubelet that starts again is dead so long */
#define BENCH_TABLES_NS UINT64_C(2000000000) /* the door makes its tables meanwhile */
#define BENCH_MB	1e6

static const char bench_plain[] = "version: v1\n";
static const char bench_shared[] = "version: v1\n"
				   "sharing:\n"
				   "  timeSlicing:\n"
				   "    resources:\n"
				   "    - name: nvidia.com/gpu\n"
				   "      replicas: 48\n";
static const char bench_mixed[] = "version: v1\n"
				  "flags:\n"
				  "  migStrategy: mixed\n";

static struct rig bench_rig;
static struct side bench_side;

static uint64_t bench_random_state = UINT64_C(88172645463325252);

static size_t bench_random(size_t limit)
{
	bench_random_state ^= bench_random_state << 13;
	bench_random_state ^= bench_random_state >> 7;
	bench_random_state ^= bench_random_state << 17;
	return (size_t)(bench_random_state >> 11) % limit;
}

/* --- registration ------------------------------------------------------------------------------
 */

/* Nanoseconds from the start of an agent. */
struct bench_began {
	uint64_t registered, listed; /* its last resource */
	uint64_t cpu;		     /* of the agent and its children until then */
};

static uint64_t bench_cpu(void)
{
	struct footprint tree[FOOTPRINT_PROCESSES_MAX];
	size_t count = footprint_tree(bench_rig.agent, tree);
	uint64_t sum = 0, used;
	for (size_t i = 0; i < count; i++)
		if (footprint_read_cpu(tree[i].pid, &used) == 0)
			sum += used;
	return sum;
}

/* It runs afterwards. */
static struct bench_began bench_start(size_t devices)
{
	uint64_t began, registered = 0, listed = 0;

	side_forget(&bench_side);
	began = rig_launch_agent(&bench_rig);
	side_wait(&bench_side, 1, devices);

	for (size_t i = 0; i < bench_side.count; i++) {
		const struct side_resource *resource = &bench_side.resources[i];
		if (resource->registered_ns > registered)
			registered = resource->registered_ns;
		if (resource->listed_ns > listed)
			listed = resource->listed_ns;
	}

	return (struct bench_began){
	    .registered = registered - began, .listed = listed - began, .cpu = bench_cpu()};
}

/* `name` is that of the gate, and of the state. */
static void bench_register(struct gate_report *report, const char *name, size_t devices,
			   double limit_ms)
{
	static uint64_t samples[BENCH_STARTS], listed[BENCH_STARTS], cpu[BENCH_STARTS];

	rig_use_state(&bench_rig, name);
	(void)bench_start(devices); /* makes the state */
	rig_terminate_agent(&bench_rig);

	for (size_t i = 0; i < BENCH_STARTS; i++) {
		struct bench_began began = bench_start(devices);
		rig_terminate_agent(&bench_rig);
		samples[i] = began.registered;
		listed[i] = began.listed;
		cpu[i] = began.cpu;
	}

	gate_time(report, name, gate_quantile(samples, BENCH_STARTS, 0.5), "ms", limit_ms, samples,
		  BENCH_STARTS);
	gate_note(report,
		  "%s, exec to Register, %zu devices: shortest %.1f ms, longest of %d %.1f ms; to "
		  "the first list: median %.1f ms; processor time of the agent and its probe until "
		  "then %.1f ms",
		  name, devices, gate_quantile(samples, BENCH_STARTS, 0) / 1e6, BENCH_STARTS,
		  gate_quantile(samples, BENCH_STARTS, 1) / 1e6,
		  gate_quantile(listed, BENCH_STARTS, 0.5) / 1e6,
		  gate_quantile(cpu, BENCH_STARTS, 0.5) / 1e6);
}

static void bench_register_new(struct gate_report *report)
{
	static uint64_t samples[BENCH_STARTS_NEW];

	for (size_t i = 0; i < BENCH_STARTS_NEW; i++) {
		char name[32];
		(void)snprintf(name, sizeof(name), "new-%zu", i);
		rig_use_state(&bench_rig, name);
		samples[i] = bench_start(BENCH_GPUS).registered;
		rig_terminate_agent(&bench_rig);
	}

	gate_note(report, "exec to Register with a state directory that is new: median %.1f ms",
		  gate_quantile(samples, BENCH_STARTS_NEW, 0.5) / 1e6);
}

/* A kubelet that was killed starts again. */
static void bench_again(struct gate_report *report)
{
	static uint64_t samples[BENCH_AGAIN], listed[BENCH_AGAIN];

	(void)bench_start(BENCH_GPUS);

	for (size_t i = 0; i < BENCH_AGAIN; i++) {
		side_die(&bench_side);
		side_rest(&bench_side, BENCH_DEAD_NS);

		uint64_t began = side_start(&bench_side);

		side_wait(&bench_side, 1, BENCH_GPUS);
		const struct side_resource *resource = side_only(&bench_side);
		samples[i] = resource->registered_ns - began;
		listed[i] = resource->listed_ns - began;
	}

	rig_terminate_agent(&bench_rig);
	gate_time(report, "register_again", gate_quantile(samples, BENCH_AGAIN, 0.5), "ms", 3,
		  samples, BENCH_AGAIN);
	gate_note(report,
		  "registered again after kubelet.sock reappears: longest of %d %.1f ms; to the "
		  "first list: median %.1f ms",
		  BENCH_AGAIN, gate_quantile(samples, BENCH_AGAIN, 1) / 1e6,
		  gate_quantile(listed, BENCH_AGAIN, 0.5) / 1e6);
}

/* --- what a pod waits for ----------------------------------------------------------------------
 */

static uint64_t bench_allocate_once(struct side_resource *resource)
{
	const char *id = resource->ids[bench_random(resource->devices)];
	uint64_t began = gate_now_ns();
	V1beta1__AllocateResponse *reply = side_allocate(resource, id);
	uint64_t took = gate_now_ns() - began;
	const V1beta1__ContainerAllocateResponse *container = reply->container_responses[0];

	/* An answer without a GPU costs less. */
	rig_must(container->n_envs > 0 &&
		     strncmp(container->envs[0]->value, id, strlen(container->envs[0]->value)) == 0,
		 "Allocate does not hand out %s", id);
	protobuf_c_message_free_unpacked(&reply->base, NULL);
	return took;
}

static void bench_allocate(struct gate_report *report, bool is_gate)
{
	static uint64_t samples[BENCH_CALLS];
	struct side_resource *resource = side_only(&bench_side);
	struct footprint before = {0}, after = {0};

	for (size_t i = 0; i < BENCH_WARM; i++)
		(void)bench_allocate_once(resource);

	rig_must(footprint_read(bench_rig.agent, &before) == 0, "the agent has ended");

	for (size_t i = 0; i < BENCH_CALLS; i++)
		samples[i] = bench_allocate_once(resource);

	rig_must(footprint_read(bench_rig.agent, &after) == 0, "the agent has ended");
	double median = gate_quantile(samples, BENCH_CALLS, 0.5);
	double p99 = gate_quantile(samples, BENCH_CALLS, 0.99);

	gate_note(report, "Allocate 1 of %zu: median %.1f us, p99 %.1f us, longest of %d %.0f us",
		  resource->devices, median / 1e3, p99 / 1e3, BENCH_CALLS,
		  gate_quantile(samples, BENCH_CALLS, 1) / 1e3);
	if (!is_gate)
		return;

	gate_time(report, "allocate_p50", median, "us", 60, samples, BENCH_CALLS);
	gate_time(report, "allocate_p99", p99, "us", 300, samples, BENCH_CALLS);
	gate_value(report, "allocate_growth", ((double)after.rss - (double)before.rss) / 1024,
		   "KiB", GATE_AT_MOST, 64);
}

static void bench_list(struct gate_report *report)
{
	static uint64_t samples[BENCH_LISTS];
	for (size_t i = 0; i < BENCH_LISTS; i++)
		samples[i] = side_list(side_only(&bench_side));
	gate_time(report, "list_first", gate_quantile(samples, BENCH_LISTS, 0.5), "ms", 0.4,
		  samples, BENCH_LISTS);
	gate_note(report, "ListAndWatch, call to first list of %d devices: p99 %.2f ms",
		  BENCH_UNITS, gate_quantile(samples, BENCH_LISTS, 0.99) / 1e6);
}

/* --- choosing ----------------------------------------------------------------------------------
 */

/* All devices, in no order: the kubelet takes them from a set. */
static void bench_shuffle(const struct side_resource *resource, const char **out)
{
	for (size_t i = 0; i < resource->devices; i++) {
		size_t at = bench_random(i + 1);
		out[i] = out[at];
		out[at] = resource->ids[i];
	}
}

/* One question for `size` devices, the first `must` of which have to be in. */
static uint64_t bench_prefer_once(size_t size, size_t must)
{
	static const char *ids[SIDE_DEVICES_MAX];
	struct side_resource *resource = side_only(&bench_side);

	bench_shuffle(resource, ids);
	const struct side_question question = {
	    .available = ids,
	    .available_count = resource->devices,
	    .must = ids,
	    .must_count = must,
	    .size = (int32_t)size,
	};
	uint64_t began = gate_now_ns();
	size_t chosen = side_prefer(resource, &question);
	uint64_t took = gate_now_ns() - began;

	rig_must(chosen == size, "%zu devices are chosen, and not %zu", chosen, size);
	return took;
}

struct bench_worst {
	size_t size, must;
	double median_ns;
};

/* The size, up to `sizes`, that takes longest with `must` devices given. */
static struct bench_worst bench_find_worst(size_t sizes, size_t must)
{
	uint64_t samples[BENCH_TRY];
	struct bench_worst worst = {.size = 0};

	for (size_t size = must > 0 ? must : 1; size <= sizes; size++) {
		for (size_t i = 0; i < BENCH_TRY; i++)
			samples[i] = bench_prefer_once(size, must);

		double median = gate_quantile(samples, BENCH_TRY, 0.5);
		if (median > worst.median_ns)
			worst =
			    (struct bench_worst){.size = size, .must = must, .median_ns = median};
	}

	return worst;
}

static double bench_prefer(struct gate_report *report, const char *what, size_t size, size_t must,
			   uint64_t samples[BENCH_WORST])
{
	for (size_t i = 0; i < BENCH_WORST; i++)
		samples[i] = bench_prefer_once(size, must);

	double median = gate_quantile(samples, BENCH_WORST, 0.5);
	gate_note(report,
		  "GetPreferredAllocation, %s: %zu of %zu, %zu given: median %.0f us, p99 %.0f us",
		  what, size, side_only(&bench_side)->devices, must, median / 1e3,
		  gate_quantile(samples, BENCH_WORST, 0.99) / 1e3);
	return median;
}

static void bench_prefer_worst(struct gate_report *report, size_t sizes, bool is_gate)
{
	static uint64_t samples[BENCH_WORST], longest[BENCH_WORST];
	double median = 0;

	for (size_t must = 0; must <= BENCH_MUST_MAX; must++) {
		struct bench_worst worst = bench_find_worst(sizes, must);
		double took = bench_prefer(report, "worst size", worst.size, must, samples);
		if (took > median) {
			median = took;
			memcpy(longest, samples, sizeof(longest));
		}
	}

	if (is_gate)
		gate_time(report, "prefer_socket", median, "ms", 2, longest, BENCH_WORST);
}

/* --- the parts ---------------------------------------------------------------------------------
 */

static void bench_open(const char *profile, const char *mig, const char *config)
{
	rig_open_machine(&bench_rig, profile, mig);
	rig_configure(&bench_rig, config);
	side_open(&bench_side, &bench_rig);
}

static void bench_close(void)
{
	rig_terminate_agent(&bench_rig);
	side_close(&bench_side);
	rig_close(&bench_rig);
}

static void bench_part_register(struct gate_report *report)
{
	bench_open("dgx-a100", NULL, bench_plain);
	bench_register(report, "register", BENCH_GPUS, 10);
	bench_register_new(report);
	bench_again(report);
	rig_configure(&bench_rig, bench_shared);
	bench_register(report, "register_384", BENCH_UNITS, 10);
	bench_close();
}

static void bench_part_mig(struct gate_report *report)
{
	bench_open("dgx-a100", "single", bench_mixed);
	bench_register(report, "mig_register", BENCH_MIG, 15);
	bench_close();
}

static void bench_part_allocate(struct gate_report *report)
{
	static uint64_t samples[BENCH_WORST];
	struct footprint agent = {0};

	bench_open("dgx-a100", NULL, bench_shared);
	rig_use_state(&bench_rig, "allocate");
	(void)bench_start(BENCH_UNITS);
	side_rest(&bench_side, BENCH_TABLES_NS); /* the CDI specifications are written, too */
	bench_allocate(report, true);
	bench_list(report);
	(void)bench_prefer(report, "replicas", BENCH_POD, 0, samples);
	side_rest(&bench_side, BENCH_TABLES_NS);
	rig_must(footprint_read(bench_rig.agent, &agent) == 0, "the agent has ended");
	gate_value(report, "agent_pss", (double)agent.pss / BENCH_MB, "MB", GATE_AT_MOST, 4);
	gate_note(report,
		  "the agent with %d devices: PSS %.0fK, private and dirty %.0fK, RSS %.0fK, "
		  "%" PRIu64 " threads",
		  BENCH_UNITS, (double)agent.pss / 1024, (double)agent.private_dirty / 1024,
		  (double)agent.rss / 1024, agent.threads);
	bench_close();
}

static void bench_part_prefer(struct gate_report *report)
{
	bench_open("dgx2", NULL, bench_plain);
	rig_use_state(&bench_rig, "prefer");
	(void)bench_start(BENCH_GPUS_MANY);
	gate_note(report,
		  "GetPreferredAllocation, first answer of an agent just registered: %.1f ms",
		  (double)bench_prefer_once(BENCH_GPUS_MANY / 2 - 2, 2) / 1e6);
	side_rest(&bench_side, BENCH_TABLES_NS);
	bench_prefer_worst(report, BENCH_GPUS_MANY, true);
	bench_close();
	bench_open("dgx-a100", NULL, bench_plain);
	rig_use_state(&bench_rig, "prefer");
	(void)bench_start(BENCH_GPUS);
	side_rest(&bench_side, BENCH_TABLES_NS);
	bench_prefer_worst(report, BENCH_GPUS, false);
	bench_allocate(report, false);
	bench_close();
}

/* Every resource has all ten adapters. The queue has the GPUs. */
static void bench_configure_adapters(bool has_adapters)
{
	struct buf text;
	buf_init(&text, 1 << 14);
	(void)buf_printf(&text, "version: v1\nsluice:\n  doors: {kubelet: {devices: none}}\n");

	for (int i = 0; has_adapters && i < BENCH_POOLS; i++)
		(void)buf_printf(&text,
				 "%s    - {resourceName: hca%d, rdmaHcaMax: %d, selectors: "
				 "{vendors: [15b3]}}\n",
				 i == 0 ? "  rdma:\n    configList:\n" : "", i, BENCH_POOL_UNITS);

	rig_configure(&bench_rig, buf_text(&text));
	buf_done(&text);
}

static struct footprint bench_adapters_footprint(bool has_adapters)
{
	struct footprint agent = {0};

	bench_configure_adapters(has_adapters);
	rig_use_state(&bench_rig, has_adapters ? "adapters" : "none");
	side_forget(&bench_side);
	(void)rig_launch_agent(&bench_rig);
	side_wait(&bench_side, has_adapters ? BENCH_POOLS : 0,
		  has_adapters ? (size_t)BENCH_POOLS * BENCH_POOL_UNITS : 0);
	side_rest(&bench_side, 6 * BENCH_TABLES_NS); /* more than one look at the ports */
	rig_must(footprint_read(bench_rig.agent, &agent) == 0, "the agent has ended");

	return agent;
}

static void bench_part_rdma(struct gate_report *report)
{
	static uint64_t samples[BENCH_CALLS];
	size_t nodes = 0;

	bench_open("dgx-a100", NULL, bench_plain);
	struct footprint without = bench_adapters_footprint(false);

	rig_terminate_agent(&bench_rig);
	struct footprint with = bench_adapters_footprint(true);

	for (size_t i = 0; i < BENCH_WARM + BENCH_CALLS; i++) {
		char id[SIDE_ID_MAX];
		(void)snprintf(id, sizeof(id), "%zu", bench_random(BENCH_POOL_UNITS));

		uint64_t began = gate_now_ns();
		V1beta1__AllocateResponse *reply = side_allocate(&bench_side.resources[0], id);

		samples[i < BENCH_WARM ? 0 : i - BENCH_WARM] = gate_now_ns() - began;
		nodes = reply->container_responses[0]->n_devices;
		protobuf_c_message_free_unpacked(&reply->base, NULL);
	}

	rig_must(nodes > 0, "Allocate hands out no node");
	gate_note(report, "rdma/hca0: Allocate hands out %zu nodes", nodes);
	gate_time(report, "rdma_allocate_p50", gate_quantile(samples, BENCH_CALLS, 0.5), "us", 60,
		  samples, BENCH_CALLS);
	gate_time(report, "rdma_allocate_p99", gate_quantile(samples, BENCH_CALLS, 0.99), "us", 300,
		  samples, BENCH_CALLS);
	gate_note(report,
		  "%d resources of %d units: PSS of the agent %.0fK, private and dirty %.0fK; "
		  "without them %.0fK and %.0fK",
		  BENCH_POOLS, BENCH_POOL_UNITS, (double)with.pss / 1024,
		  (double)with.private_dirty / 1024, (double)without.pss / 1024,
		  (double)without.private_dirty / 1024);
	bench_close();
}

static const struct gate_part bench_parts[] = {
    {"register", bench_part_register}, {"mig", bench_part_mig},	  {"allocate", bench_part_allocate},
    {"prefer", bench_part_prefer},     {"rdma", bench_part_rdma},
};

int main(int argc, char **argv)
{
	return gate_main(
	    argc, argv, "kubelet",
	    "Measures the kubelet door on simulated machines. The name of one part\n"
	    "(register, mig, allocate, prefer, rdma) as an argument measures that alone.",
	    bench_parts, array_length(bench_parts));
}
