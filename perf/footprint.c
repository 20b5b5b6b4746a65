/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the whole service takes of a machine, summed over its processes and told for each: memory,
 * and processor time at rest while it samples every second. A simulated DGX A100, 8 GPUs in 48
 * replicas each that a kubelet has, one job that runs and does nothing, a page that was loaded and
 * whose stream four clients follow. The queue has a GPU only
 * afterwards, for what jobs that wait take.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/loop.h"
#include "job/wants.h"
#include "perf/footprint_pod.h"
#include "perf/footprint_process.h"
#include "perf/footprint_web.h"
#include "perf/gate.h"
#include "perf/kubelet_side.h"
#include "perf/queue_rig.h"
#include "wire/client.h"

enum bench_limits {
	BENCH_GPUS = 8,
	BENCH_REPLICAS = 48,
	BENCH_SETTLE_S = 5, /* the first samples, and what starting left to do */
	BENCH_REST_S = 30,
	BENCH_PENDING = 1000,
	BENCH_PENDING_MANY = 10000, /* as many as one user may have */
	BENCH_KINDS_SETTLE_S = 2,
	BENCH_WATCHERS = 48,
	BENCH_WATCHED = 3, /* samples that each of them sees */
	BENCH_GIVEN_BACK_S = 25,
	BENCH_POD_S = 20, /* longer than the ten seconds after which memory is given back */
	BENCH_EXPLAIN_LINES = 12,
	/* What the page remembers of a GPU, ten minutes by the second and six hours by ten seconds
	 * of eight series in 16 bits each; the web process has it in src/web/history.c. */
	BENCH_HISTORY_BYTES = (600 + 2160) * 8 * 2,
};

#define BENCH_DEADLINE_NS UINT64_C(30000000000)
#define BENCH_PASS_NS	  UINT64_C(10000000)
#define BENCH_MB	  1e6

/* The gates of the design: the agent alone, and after many clients, all processes together, a
 * supervisor's own memory. */
#define BENCH_AGENT_PSS_MB	   4.0
#define BENCH_AGENT_USED_MB	   4.5
#define BENCH_SERVICE_PSS_MB	   8.0
#define BENCH_SUPERVISOR_DIRTY_KIB 512.0
#define BENCH_SUPERVISOR_RSS_KIB   4096.0
#define BENCH_CPU_PERCENT	   0.5
#define BENCH_PENDING_KIB	   2.0

static const char bench_config[] = "version: v1\n"
				   "sharing:\n"
				   "  timeSlicing:\n"
				   "    resources:\n"
				   "    - name: nvidia.com/gpu\n"
				   "      replicas: 48\n";
static const char bench_config_queue[] = "version: v1\n"
					 "sharing:\n"
					 "  timeSlicing:\n"
					 "    resources:\n"
					 "    - name: nvidia.com/gpu\n"
					 "      replicas: 48\n"
					 "sluice:\n"
					 "  doors:\n"
					 "    kubelet: {devices: [0, 1, 2, 3, 4, 5, 6]}\n"
					 "    queue: {devices: [7]}\n"
					 "  jobs: {logLimit: 64Ki}\n";

struct bench {
	struct rig rig;
	struct side kubelet;
	struct footprint_web web;
	struct footprint_pod pod;
	struct footprint process[FOOTPRINT_PROCESSES_MAX];
	size_t count;
	uint64_t job;
};

static void bench_wait_s(time_t seconds)
{
	struct timespec time = {.tv_sec = seconds};
	while (nanosleep(&time, &time) < 0)
		continue;
}

/* What the agent says of its machine and its processes. Owned. */
static Sluice__V1__StatusReply *bench_status(struct bench *bench)
{
	static const struct wire_method method = {
	    .path = "/sluice.v1.Node/Status",
	    .request = &sluice__v1__status_request__descriptor,
	    .reply = &sluice__v1__status_reply__descriptor,
	};
	Sluice__V1__StatusRequest request = SLUICE__V1__STATUS_REQUEST__INIT;
	ProtobufCMessage *reply = NULL;
	struct wire_result result;
	struct err err = {.code = 0};
	int rc = wire_client_ask(bench->rig.client, bench->rig.loop, &method, &request.base,
				 BENCH_DEADLINE_NS, &reply, &result, &err);

	rig_must(rc == 0, "asking the agent: %s", err.text);
	return (Sluice__V1__StatusReply *)reply;
}

/* The machine has been looked at: all GPUs are there, each in 48 slots. */
static void bench_wait_for_machine(struct bench *bench)
{
	uint64_t end = gate_now_ns() + BENCH_DEADLINE_NS;
	uint32_t gpus = 0;

	while (gpus != BENCH_GPUS) {
		rig_must(gate_now_ns() < end, "the agent sees %" PRIu32 " GPUs instead of %d", gpus,
			 BENCH_GPUS);
		Sluice__V1__StatusReply *status = bench_status(bench);
		gpus = status->gpus;
		protobuf_c_message_free_unpacked(&status->base, NULL);
	}
}

static void bench_open_page(struct bench *bench)
{
	Sluice__V1__StatusReply *status = bench_status(bench);
	rig_must(status->web != NULL, "the agent knows nothing of a page");
	footprint_web_open(&bench->web, status->web->address);
	protobuf_c_message_free_unpacked(&status->base, NULL);
}

/* Is this one of ours, or what a job's supervisor runs for somebody? */
static bool bench_is_ours(const struct bench *bench, const struct footprint *process)
{
	for (size_t i = 0; i < bench->count; i++) {
		if (bench->process[i].pid == process->parent)
			return strncmp(bench->process[i].role, "supervisor", 10) != 0;
	}
	return true;
}

/*
 * The agent's own list, and with it everything that descends from the agent: a process that it does
 * not tell of is not left out.
 */
static void bench_find_processes(struct bench *bench)
{
	struct footprint tree[FOOTPRINT_PROCESSES_MAX];
	size_t count = footprint_tree(bench->rig.agent, tree);
	Sluice__V1__StatusReply *status = bench_status(bench);

	for (size_t i = 0; i < status->n_processes && bench->count < FOOTPRINT_PROCESSES_MAX; i++) {
		struct footprint *process = &bench->process[bench->count++];
		*process = (struct footprint){.pid = (pid_t)status->processes[i]->pid};
		(void)snprintf(process->role, sizeof(process->role), "%s",
			       status->processes[i]->role);
	}

	protobuf_c_message_free_unpacked(&status->base, NULL);

	for (size_t i = 0; i < count && bench->count < FOOTPRINT_PROCESSES_MAX; i++) {
		bool known = false;
		for (size_t k = 0; k < bench->count; k++)
			known |= bench->process[k].pid == tree[i].pid;
		if (!known && bench_is_ours(bench, &tree[i]))
			bench->process[bench->count++] = tree[i];
	}

	for (size_t i = 0; i < bench->count; i++)
		rig_must(footprint_read(bench->process[i].pid, &bench->process[i]) == 0,
			 "%s (process %d) cannot be read", bench->process[i].role,
			 (int)bench->process[i].pid);
}

static void bench_start_job(struct bench *bench, uint32_t gpus)
{
	static const char *const argv[] = {"sleep", "1000", NULL};
	static struct rig_request request;
	rig_request(&request, argv, gpus);

	if (gpus > 0) {
		request.spec.share_numerator = 1;
		request.spec.share_denominator = BENCH_REPLICAS;
	}

	bench->job = rig_submit(&bench->rig, &request);
	rig_wait(&bench->rig, bench->job, SLUICE__V1__JOB_STATE__RUNNING);
}

/* Processor time of all processes between two moments of rest, in percent of a core. */
static double bench_rest(struct bench *bench, double *out_each)
{
	uint64_t before[FOOTPRINT_PROCESSES_MAX], sum = 0;
	for (size_t i = 0; i < bench->count; i++)
		rig_must(footprint_read_cpu(bench->process[i].pid, &before[i]) == 0, "%s has ended",
			 bench->process[i].role);

	uint64_t begin = gate_now_ns();

	for (int i = 0; i < BENCH_REST_S; i++) {
		bench_wait_s(1);
		footprint_web_read(&bench->web);
	}

	double took = (double)(gate_now_ns() - begin);

	for (size_t i = 0; i < bench->count; i++) {
		uint64_t after;
		rig_must(footprint_read_cpu(bench->process[i].pid, &after) == 0, "%s has ended",
			 bench->process[i].role);
		out_each[i] = (double)(after - before[i]) / took * 100;
		sum += after - before[i];
	}

	return (double)sum / took * 100;
}

/* What the agent takes more for each job that waits, with 3 KiB of environment: a whole GPU is
 * wanted by each, and the queue's only one has a job. */
static void bench_pending(struct bench *bench, struct gate_report *report, uint64_t total,
			  const char *gate)
{
	static const char *const argv[] = {"sleep", "1000", NULL};
	static struct rig_request request;
	struct footprint before, after;

	rig_request(&request, argv, 1);
	rig_must(footprint_read(bench->rig.agent, &before) == 0, "the agent has ended");

	uint64_t had = rig_pending(&bench->rig);
	for (uint64_t i = had; i < total; i++) {
		rig_request_again(&request);
		(void)rig_submit(&bench->rig, &request);
	}

	rig_must(rig_pending(&bench->rig) == total, "not all jobs are waiting");
	bench_wait_s(BENCH_SETTLE_S);
	rig_must(footprint_read(bench->rig.agent, &after) == 0, "the agent has ended");
	gate_note(report,
		  "With %" PRIu64
		  " waiting jobs: the agent's PSS is %.0fK, %.0fK of it private and dirty",
		  total, (double)after.pss / 1024, (double)after.private_dirty / 1024);
	gate_value(report, gate,
		   ((double)after.private_dirty - (double)before.private_dirty) / 1024 /
		       (double)(total - had),
		   "KiB", GATE_AT_MOST, BENCH_PENDING_KIB);
}

/* The process that keeps watch over a job. */
static pid_t bench_supervisor(struct bench *bench, uint64_t job)
{
	char role[FOOTPRINT_ROLE_MAX];
	pid_t pid = 0;

	(void)snprintf(role, sizeof(role), "supervisor of job %" PRIu64, job);
	Sluice__V1__StatusReply *status = bench_status(bench);
	for (size_t i = 0; i < status->n_processes; i++)
		if (strcmp(status->processes[i]->role, role) == 0)
			pid = (pid_t)status->processes[i]->pid;

	protobuf_c_message_free_unpacked(&status->base, NULL);
	rig_must(pid > 0, "the agent knows no %s", role);
	return pid;
}

/* What there are of jobs whose supervisors have more to do than to wait. */
static const struct bench_kind {
	const char *name, *script;
	bool pty, has_copy;
	uint32_t ranks;
} bench_kinds[] = {
    {.name = "plain", .script = "sleep 1000"},
    {.name = "terminal", .script = "yes | head -c 1000000; sleep 1000", .pty = true},
    {.name = "capped", .script = "yes | head -c 50000000; sleep 1000"},
    {.name = "copied", .script = "yes | head -c 50000000; sleep 1000", .has_copy = true},
    {.name = "workers", .script = "yes | head -c 1000000; sleep 1000", .ranks = 8},
};

/* One job of each kind after the other; the largest of their supervisors counts. */
static void bench_supervisors(struct bench *bench, struct gate_report *report)
{
	double dirty = 0, rss = 0;
	char copy[RIG_PATH_MAX + 16];

	(void)snprintf(copy, sizeof(copy), "%s/copy", bench->rig.directory);

	for (size_t i = 0; i < sizeof(bench_kinds) / sizeof(bench_kinds[0]); i++) {
		const struct bench_kind *kind = &bench_kinds[i];
		const char *const argv[] = {"sh", "-c", kind->script, NULL};

		static struct rig_request request;
		rig_request(&request, argv, 0);
		request.spec.pty = kind->pty;

		Sluice__V1__Wants wants = SLUICE__V1__WANTS__INIT;
		wants.launcher = WANTS_LAUNCHER_RANKS;
		wants.workers = kind->ranks;
		wants.worker_slots = 1;
		if (kind->ranks)
			request.spec.wants = &wants;
		if (kind->has_copy)
			request.spec.output =
			    (ProtobufCBinaryData){.data = (uint8_t *)copy, .len = strlen(copy)};

		uint64_t job = rig_submit(&bench->rig, &request);
		rig_wait(&bench->rig, job, SLUICE__V1__JOB_STATE__RUNNING);
		bench_wait_s(BENCH_KINDS_SETTLE_S);

		struct footprint found = {.pid = bench_supervisor(bench, job)};
		rig_must(footprint_read(found.pid, &found) == 0, "a supervisor has ended");
		gate_note(report, "supervisor of a job, %s: dirty %.0fK, RSS %.0fK", kind->name,
			  (double)found.private_dirty / 1024, (double)found.rss / 1024);
		dirty = (double)found.private_dirty > dirty ? (double)found.private_dirty : dirty;
		rss = (double)found.rss > rss ? (double)found.rss : rss;
		rig_cancel(&bench->rig, job, 0);
		rig_wait(&bench->rig, job, SLUICE__V1__JOB_STATE__CANCELLED);
	}

	gate_value(report, "supervisors_dirty", dirty / 1024, "KiB", GATE_AT_MOST,
		   BENCH_SUPERVISOR_DIRTY_KIB);
	gate_value(report, "supervisors_rss", rss / 1024, "KiB", GATE_AT_MOST,
		   BENCH_SUPERVISOR_RSS_KIB);
}

/* A client that watches the machine, as `sluice top` does. */
struct watcher {
	struct wire_client *client; /* owned */
	int seen;
	bool over;
};

static void watcher_saw(const ProtobufCMessage *reply, void *context)
{
	struct watcher *watcher = context;
	(void)reply;
	watcher->seen++;
}

static void watcher_ended(const struct wire_result *result, void *context)
{
	struct watcher *watcher = context;
	(void)result;
	watcher->over = true;
}

static void watcher_start(struct watcher *watcher, struct bench *bench)
{
	static const struct wire_method method = {
	    .path = "/sluice.v1.Node/Watch",
	    .request = &sluice__v1__watch_request__descriptor,
	    .reply = &sluice__v1__machine__descriptor,
	    .server_streams = true,
	};
	struct err err = {.code = 0};
	Sluice__V1__WatchRequest request = SLUICE__V1__WATCH_REQUEST__INIT;
	struct wire_client_callbacks callbacks = {
	    .message = watcher_saw, .end = watcher_ended, .context = watcher};

	*watcher = (struct watcher){
	    .client = wire_client_new(bench->rig.loop, bench->rig.socket, NULL, &err)};
	rig_must(watcher->client &&
		     wire_client_call(watcher->client, &method, &request.base, 0, &callbacks, &err),
		 "a client cannot watch: %s", err.text);
}

/* Where the memory of these processes lies, for who has missed a gate. */
static void bench_explain(const struct footprint *process, size_t count)
{
	for (size_t i = 0; getenv("BENCH_EXPLAIN") && i < count; i++) {
		(void)fprintf(stderr, "%s (process %d)\n", process[i].role, (int)process[i].pid);
		footprint_explain(process[i].pid, BENCH_EXPLAIN_LINES);
	}
}

/* What stays with the agent of what many clients at a time have needed, when they are gone. */
static void bench_used(struct bench *bench, struct gate_report *report)
{
	static struct watcher watchers[BENCH_WATCHERS];
	struct footprint during, after;

	for (size_t i = 0; i < BENCH_WATCHERS; i++)
		watcher_start(&watchers[i], bench);

	uint64_t end = gate_now_ns() + BENCH_DEADLINE_NS;

	for (size_t i = 0; i < BENCH_WATCHERS; i++) {
		while (watchers[i].seen < BENCH_WATCHED) {
			rig_must(gate_now_ns() < end && !watchers[i].over,
				 "client %zu saw %d samples", i, watchers[i].seen);
			(void)loop_pass(bench->rig.loop, BENCH_PASS_NS, NULL);
		}
	}

	rig_must(footprint_read(bench->rig.agent, &during) == 0, "the agent has ended");

	for (size_t i = 0; i < BENCH_WATCHERS; i++)
		wire_client_free(watchers[i].client);

	bench_wait_s(BENCH_GIVEN_BACK_S);
	rig_must(footprint_read(bench->rig.agent, &after) == 0, "the agent has ended");
	after.pid = bench->rig.agent;
	(void)snprintf(after.role, sizeof(after.role), "agent, after %d clients", BENCH_WATCHERS);
	bench_explain(&after, 1);
	gate_note(report, "With %d clients that watch: the agent's PSS is %.0fK, %d s later %.0fK",
		  BENCH_WATCHERS, (double)during.pss / 1024, BENCH_GIVEN_BACK_S,
		  (double)after.pss / 1024);
	gate_value(report, "agent_pss_used", (double)after.pss / BENCH_MB, "MB", GATE_AT_MOST,
		   BENCH_AGENT_USED_MB);
}

static void bench_report(struct bench *bench, struct gate_report *report)
{
	double each[FOOTPRINT_PROCESSES_MAX];
	double cpu = bench_rest(bench, each);
	double service = 0, agent = 0, supervisor = 0, web = 0;

	gate_note(report, "%-24s %8s %8s %8s %8s %7s %7s", "process", "pid", "PSS", "dirty", "RSS",
		  "threads", "CPU %");

	for (size_t i = 0; i < bench->count; i++) {
		struct footprint *process = &bench->process[i];
		rig_must(footprint_read(process->pid, process) == 0, "%s has ended", process->role);
		gate_note(report, "%-24.24s %8d %7.0fK %7.0fK %7.0fK %7" PRIu64 " %7.3f",
			  process->role, (int)process->pid, (double)process->pss / 1024,
			  (double)process->private_dirty / 1024, (double)process->rss / 1024,
			  process->threads, each[i]);
		service += (double)process->pss;

		if (process->pid == bench->rig.agent)
			agent = (double)process->pss;
		if (strncmp(process->role, "supervisor", 10) == 0)
			supervisor = (double)process->private_dirty;
		if (strcmp(process->role, "web") == 0)
			web = (double)process->pss;
	}

	rig_must(agent > 0 && supervisor > 0 && web > 0,
		 "agent, supervisor or web process is not in the list");
	rig_must(bench->web.received > 0, "the streams are silent");

	/* An hour of it is less than all; most of its pages have been written to already. */
	double history = (double)BENCH_GPUS * BENCH_HISTORY_BYTES;
	service += history;
	gate_note(report,
		  "%d GPUs in %d replicas each with the kubelet, one running job; CPU over %d s, "
		  "with %d clients on the page's stream",
		  BENCH_GPUS, BENCH_REPLICAS, BENCH_REST_S, FOOTPRINT_STREAMS);
	gate_note(report,
		  "service_pss counts six full hours of history (%.0fK) on top, as if web had none "
		  "of it yet",
		  history / 1024);
	gate_value(report, "agent_pss", agent / BENCH_MB, "MB", GATE_AT_MOST, BENCH_AGENT_PSS_MB);
	gate_value(report, "service_pss", service / BENCH_MB, "MB", GATE_AT_MOST,
		   BENCH_SERVICE_PSS_MB);
	gate_value(report, "supervisor_dirty", supervisor / 1024, "KiB", GATE_AT_MOST,
		   BENCH_SUPERVISOR_DIRTY_KIB);
	gate_value(report, "cpu_rest", cpu, "%", GATE_AT_MOST, BENCH_CPU_PERCENT);
}

/* An agent whose kubelet has so many GPUs. */
static void bench_begin(struct bench *bench, const char *state, const char *config,
			uint32_t kubelet_gpus)
{
	rig_use_state(&bench->rig, state);
	rig_configure(&bench->rig, config);
	side_forget(&bench->kubelet);
	(void)rig_start_agent(&bench->rig);
	bench_wait_for_machine(bench);
	side_wait(&bench->kubelet, 1, (size_t)kubelet_gpus * BENCH_REPLICAS);
}

/* Memory of all processes now. Returns the sum of their PSS. */
static double bench_weigh(struct bench *bench, struct footprint *out)
{
	double sum = 0;
	for (size_t i = 0; i < bench->count; i++) {
		out[i] = bench->process[i];
		rig_must(footprint_read(out[i].pid, &out[i]) == 0, "%s has ended", out[i].role);
		sum += (double)out[i].pss;
	}
	return sum;
}

/*
 * The same in a pod of its own: no library is shared with anything else of this machine, and no job
 * runs. Code that has been given back comes and goes with what the processes do; the second counts
 * in which they have most.
 */
static void bench_pod(struct bench *bench, struct gate_report *report)
{
	if (footprint_pod_enter(&bench->pod, bench->rig.directory) < 0) {
		gate_note(report, "service_pss_pod needs root: not measured");
		return;
	}

	bench_begin(bench, "pod", bench_config, BENCH_GPUS);
	bench_open_page(bench);
	bench_wait_s(BENCH_SETTLE_S);
	bench->count = 0;
	bench_find_processes(bench);

	struct footprint now[FOOTPRINT_PROCESSES_MAX], most[FOOTPRINT_PROCESSES_MAX] = {0};
	double service = 0, least = 0;

	for (int i = 0; i < BENCH_POD_S; i++) {
		bench_wait_s(1);
		footprint_web_read(&bench->web);

		double sum = bench_weigh(bench, now);
		least = i == 0 || sum < least ? sum : least;
		if (sum <= service)
			continue;

		service = sum;
		memcpy(most, now, sizeof(most));
	}

	for (size_t i = 0; i < bench->count; i++)
		gate_note(report, "in a pod, %s: PSS %.0fK, dirty %.0fK, RSS %.0fK", most[i].role,
			  (double)most[i].pss / 1024, (double)most[i].private_dirty / 1024,
			  (double)most[i].rss / 1024);

	gate_note(report, "in a pod: over %d s from %.0fK to %.0fK, without the history",
		  BENCH_POD_S, least / 1024, service / 1024);
	bench_explain(bench->process, bench->count);
	gate_value(report, "service_pss_pod",
		   (service + (double)BENCH_GPUS * BENCH_HISTORY_BYTES) / BENCH_MB, "MB",
		   GATE_AT_MOST, BENCH_SERVICE_PSS_MB);
	footprint_web_close(&bench->web);
	rig_stop_agent(&bench->rig);
}

int main(int argc, char **argv)
{
	struct gate_report *report = gate_open(
	    argc, argv, "footprint",
	    "Memory and processor time of all processes of the service, at rest.\n"
	    "With $BENCH_EXPLAIN set: also where the memory of each lies, on standard error.",
	    true, NULL);
	static struct bench bench;

	rig_must(setenv("SLUICE_WEB_ADDRESS", "127.0.0.1:0", 1) == 0, "out of memory");
	rig_open(&bench.rig);
	side_open(&bench.kubelet, &bench.rig);
	bench_begin(&bench, "footprint", bench_config, BENCH_GPUS);
	bench_start_job(&bench, 0);
	bench_wait_s(BENCH_SETTLE_S);
	bench_open_page(&bench);
	bench_find_processes(&bench);
	bench_report(&bench, report);
	bench_explain(bench.process, bench.count);

	for (size_t i = 0; i < bench.count; i++)
		footprint_pod_add(&bench.pod, bench.process[i].pid);

	footprint_web_close(&bench.web);
	rig_stop_agent(&bench.rig);

	bench_begin(&bench, "pending", bench_config_queue, BENCH_GPUS - 1);
	bench_start_job(&bench, 1);
	bench_wait_s(BENCH_SETTLE_S);
	bench_supervisors(&bench, report);
	bench_pending(&bench, report, BENCH_PENDING, "pending_job");
	bench_used(&bench, report);
	bench_pending(&bench, report, BENCH_PENDING_MANY, "pending_job_of_many");
	rig_stop_agent(&bench.rig);

	bench_pod(&bench, report);
	return gate_close(report);
}
