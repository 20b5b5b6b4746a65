/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the local queue costs its users, on a simulated machine with 8 GPUs and an agent whose state
 * lies on a real disk: from submission to the durable answer, from there to the job's first
 * instruction, the list of ten thousand jobs, a restart among them, and how long a fork bomb lives
 * after it was cancelled.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "base/loop.h"
#include "base/parse.h"
#include "perf/gate.h"
#include "perf/queue_rig.h"
#include "job/jobdir.h"
#include "job/record.h"
#include "job/spec.h"
#include "doors/queue/store/store.h"
#include "wire/client.h"

enum bench_limits {
	BENCH_GPUS = 8,
	BENCH_SUBMITS = 2000,
	BENCH_CLIENTS = 16,
	BENCH_CLIENT_SUBMITS = 4000, /* of all clients */
	BENCH_STARTS = 1000,
	BENCH_STARTS_WITHOUT = 200, /* a figure, no gate */
	BENCH_LISTS = 100,
	BENCH_FINAL = 10000,
	BENCH_PENDING = 1000,
	BENCH_RESTARTS = 20,
	BENCH_BOMB = 1000,
	BENCH_BOMBS = 5,
	BENCH_GRACE_MS = 500,
};

#define BENCH_WAIT_MS	   60000
#define BENCH_SETTLE_US	   300000
#define BENCH_SETTLE_TRIES 200
#define BENCH_SECOND	   INT64_C(1000000000)

static struct rig bench_rig;
static char bench_self[PATH_MAX]; /* this program: it is also what the jobs run */

/* --- as a job --------------------------------------------------------------------------------- */

static _Noreturn void job_sleep(void)
{
	for (;;)
		(void)pause();
}

/* Makes `count` processes, each of which goes on where this one does; false in them. */
static bool job_fork(uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		pid_t pid = fork();
		if (pid < 0)
			exit(1);
		if (pid == 0)
			return false;
	}

	return true;
}

/* A thousand processes in three generations that do not care for SIGTERM. Each holds the pipe open
 * and writes a byte when it is there. */
static int job_bomb(const char *path, const char *count_text)
{
	uint64_t count = 0;
	int fd = open(path, O_WRONLY); /* inherited: not O_CLOEXEC */
	if (fd < 0 || parse_u64(count_text, 1, 100000, &count) < 0)
		return 1;

	(void)signal(SIGTERM, SIG_IGN);
	uint64_t each = count / 10;

	if (!job_fork(9))
		(void)job_fork(each - 1);
	else
		(void)job_fork(count - 9 * each - 1);

	if (write(fd, "!", 1) != 1)
		return 1;

	job_sleep();
}

/* --- submit ----------------------------------------------------------------------------------- */

/* All GPUs are held, so that what is submitted afterwards waits. */
static void bench_hold_gpus(void)
{
	const char *const argv[] = {bench_self, "--sleep", NULL};
	struct rig_request request;
	rig_request(&request, argv, 1);

	for (int i = 0; i < BENCH_GPUS; i++) {
		rig_request_again(&request);
		rig_wait(&bench_rig, rig_submit(&bench_rig, &request),
			 SLUICE__V1__JOB_STATE__RUNNING);
	}
}

static void bench_submit(struct gate_report *report)
{
	static uint64_t samples[BENCH_SUBMITS];

	const char *const argv[] = {"/bin/true", NULL};
	struct rig_request request;
	rig_request(&request, argv, 1);

	for (size_t i = 0; i < BENCH_SUBMITS; i++) {
		rig_request_again(&request);
		uint64_t began = gate_now_ns();
		(void)rig_submit(&bench_rig, &request);
		samples[i] = gate_now_ns() - began;
	}

	double median = gate_quantile(samples, BENCH_SUBMITS, 0.5);
	gate_time(report, "submit", median, "ms", 2, samples, BENCH_SUBMITS);
	gate_note(report, "submit, one client: 99th percentile %.2f ms, longest %.2f ms",
		  gate_quantile(samples, BENCH_SUBMITS, 0.99) / 1e6,
		  gate_quantile(samples, BENCH_SUBMITS, 1) / 1e6);
}

/* Sixteen clients at once, each with its next submission when the last was answered. */
struct bench_client {
	struct wire_client *client;
	struct rig_request request;
	uint64_t began_ns;
};

struct bench_crowd {
	struct bench_client clients[BENCH_CLIENTS];
	uint64_t samples[BENCH_CLIENT_SUBMITS];
	size_t begun, ended;
};

static struct bench_crowd bench_crowd;

static void bench_client_next(struct bench_client *client);

static void bench_client_reply(const ProtobufCMessage *reply, void *context)
{
	(void)reply;
	(void)context;
}

static void bench_client_end(const struct wire_result *result, void *context)
{
	struct bench_client *client = context;
	rig_must(result->status == WIRE_OK, "submitting: %s", result->message);
	bench_crowd.samples[bench_crowd.ended++] = gate_now_ns() - client->began_ns;
	bench_client_next(client);
}

static void bench_client_next(struct bench_client *client)
{
	if (bench_crowd.begun == BENCH_CLIENT_SUBMITS)
		return;

	bench_crowd.begun++;
	const struct wire_client_callbacks callbacks = {
	    .message = bench_client_reply, .end = bench_client_end, .context = client};

	rig_request_again(&client->request);
	client->began_ns = gate_now_ns();

	struct err err = {.code = 0};
	rig_must(wire_client_call(client->client, &rig_method_submit, &client->request.submit.base,
				  UINT64_C(30000000000), &callbacks, &err),
		 "%s", err.text);
}

static void bench_submit_crowd(struct gate_report *report)
{
	const char *const argv[] = {"/bin/true", NULL};
	struct err err = {.code = 0};
	for (size_t i = 0; i < BENCH_CLIENTS; i++) {
		struct bench_client *client = &bench_crowd.clients[i];
		rig_request(&client->request, argv, 1);
		client->client = wire_client_new(bench_rig.loop, bench_rig.socket, NULL, &err);
		rig_must(client->client, "%s", err.text);
	}

	uint64_t began = gate_now_ns();

	for (size_t i = 0; i < BENCH_CLIENTS; i++)
		bench_client_next(&bench_crowd.clients[i]);

	while (bench_crowd.ended < BENCH_CLIENT_SUBMITS)
		rig_must(loop_pass(bench_rig.loop, UINT64_C(30000000000), &err) == 0, "%s",
			 err.text);

	double seconds = (double)(gate_now_ns() - began) / 1e9;

	for (size_t i = 0; i < BENCH_CLIENTS; i++)
		(void)wire_client_free(bench_crowd.clients[i].client);

	gate_note(
	    report,
	    "submit, %d clients at once: %.0f a second, median %.2f ms, 99th percentile %.2f ms",
	    BENCH_CLIENTS, BENCH_CLIENT_SUBMITS / seconds,
	    gate_quantile(bench_crowd.samples, BENCH_CLIENT_SUBMITS, 0.5) / 1e6,
	    gate_quantile(bench_crowd.samples, BENCH_CLIENT_SUBMITS, 0.99) / 1e6);
}

/* --- start ------------------------------------------------------------------------------------ */

/* A pipe with a name that jobs write to. The descriptor is for reading and does not block. */
static int bench_pipe(char path[RIG_PATH_MAX + 16], const char *name)
{
	(void)snprintf(path, RIG_PATH_MAX + 16, "%s/%.8s", bench_rig.directory, name);
	(void)unlink(path);
	rig_must(mkfifo(path, 0600) == 0, "cannot make %s", path);
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	rig_must(fd >= 0, "cannot open %s", path);
	return fd;
}

static void bench_read(int fd, void *data, size_t length)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	uint64_t end = gate_now_ns() + UINT64_C(1000000) * BENCH_WAIT_MS;

	for (;;) {
		rig_must(gate_now_ns() < end && poll(&poll_fd, 1, BENCH_WAIT_MS) >= 0,
			 "a job does not run");
		ssize_t got = read(fd, data, length);
		if (got == (ssize_t)length)
			return;

		rig_must(got <= 0, "a job has written half of what it should");
		(void)usleep(got == 0 ? 100 : 0); /* none has opened it yet */
	}
}

/* From the answer to the first instruction of the job's program; one that ran before the answer was
 * read counts as 0. */
static void bench_start_jobs(struct gate_report *report, const char *what, uint32_t gpus,
			     size_t count, bool is_gate)
{
	static uint64_t samples[BENCH_STARTS], whole[BENCH_STARTS];
	char path[RIG_PATH_MAX + 16];
	int fd = bench_pipe(path, "stamp");
	int keep = open(path, O_WRONLY | O_CLOEXEC); /* so that the pipe has no end */

	const char *const argv[] = {bench_self, "--stamp", path, NULL};
	struct rig_request request;
	rig_request(&request, argv, gpus);

	for (size_t i = 0; i < count; i++) {
		rig_request_again(&request);
		uint64_t began = gate_now_ns();
		uint64_t id = rig_submit(&bench_rig, &request), answered = gate_now_ns(), ran = 0;

		bench_read(fd, &ran, sizeof(ran));
		samples[i] = ran > answered ? ran - answered : 0;
		whole[i] = ran - began;
		rig_wait(&bench_rig, id, SLUICE__V1__JOB_STATE__SUCCEEDED);
	}

	(void)close(keep);
	(void)close(fd);

	double median = gate_quantile(samples, count, 0.5);

	if (is_gate)
		gate_time(report, "start", median, "ms", 15, samples, count);
	gate_note(report,
		  "start, %s: median %.2f ms, 99th percentile %.2f ms; from submission %.2f ms",
		  what, median / 1e6, gate_quantile(samples, count, 0.99) / 1e6,
		  gate_quantile(whole, count, 0.5) / 1e6);
}

/* --- ten thousand jobs ------------------------------------------------------------------------ */

/* A spec as a submission of rig_request() becomes. */
static void bench_make_spec(char **out_bytes, size_t *out_length)
{
	char *argv[] = {bench_self, NULL}, *environment[RIG_ENVIRONMENT + 1] = {NULL};
	static char variables[RIG_ENVIRONMENT][RIG_ENVIRONMENT_TEXT];
	for (size_t i = 0; i < RIG_ENVIRONMENT; i++) {
		(void)snprintf(variables[i], RIG_ENVIRONMENT_TEXT,
			       "VARIABLE_%02zu=a value of the length that values of variables have",
			       i);
		environment[i] = variables[i];
	}

	struct spec spec;
	spec_init(&spec);
	(void)snprintf(spec.name, sizeof(spec.name), "bench");
	(void)snprintf(spec.directory, sizeof(spec.directory), "/");
	spec.uid = getuid();
	spec.gid = getgid();
	spec.argv = argv;
	spec.argc = 1;
	spec.environment = environment;
	spec.environment_count = RIG_ENVIRONMENT;
	spec.gpus = 1;
	spec.grace_ns = 1000000000;

	struct err err;
	rig_must(spec_format(&spec, out_bytes, out_length, &err) == 0, "%s", err.text);
}

static int64_t bench_unix_ns(void)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * BENCH_SECOND + now.tv_nsec;
}

/* One job on GPU 0, as if it had run. */
static void bench_end(struct store *store, const struct job *job)
{
	struct launch_grant grant = {.slot_count = 1, .slots = {1}};
	(void)snprintf(grant.uuid, sizeof(grant.uuid), "GPU-00000000-0000-0000-0000-000000000000");
	(void)snprintf(grant.label, sizeof(grant.label), "GPU 0");

	struct queue_observation seen = {.pid = 4711,
					 .first_unix_ns = job->submitted_unix_ns + BENCH_SECOND,
					 .last_unix_ns = job->submitted_unix_ns + 4 * BENCH_SECOND};
	memcpy(seen.uuid, grant.uuid, sizeof(seen.uuid));

	char *grants = NULL, *observations = NULL, text[] = "0";
	struct job end = *job;

	end.attempt = 1;
	end.state = JOB_SUCCEEDED;
	end.reason = JOB_REASON_EXIT_CODE;
	end.reason_text = text;
	end.has_exit = true;
	end.started_unix_ns = seen.first_unix_ns;
	end.ended_unix_ns = seen.last_unix_ns;

	struct err err = {.code = 0};
	rig_must(record_format_attempt("00000000-0000-4000-8000-000000000000", &grant, 1, &grants,
				       &err) == 0 &&
		     record_format_observations(&seen, 1, &observations, &err) == 0 &&
		     store_start(store, end.id, 1, grants, end.started_unix_ns, &err) == 0 &&
		     store_end(store, &end, observations, &err) == 0,
		 "%s", err.text);
	free(grants);
	free(observations);
}

/* Enters so many jobs more into the store of an agent that does not run. */
static void bench_enter(size_t final, size_t pending)
{
	static struct job jobs[STORE_BATCH_MAX];
	static struct store_accept batch[STORE_BATCH_MAX];
	char path[RIG_PATH_MAX + 16], *spec = NULL;
	size_t length = 0;

	bench_make_spec(&spec, &length);
	(void)snprintf(path, sizeof(path), "%s/queue.db", bench_rig.state);

	struct store *store = NULL;
	struct err err = {.code = 0};
	uint64_t id = 0;
	int state_fd = open(bench_rig.state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	rig_must(state_fd >= 0, "cannot open %s", bench_rig.state);
	rig_must(store_open(path, &store, &err) == 0 && store_next_id(store, &id, &err) == 0, "%s",
		 err.text);

	for (size_t done = 0; done < final + pending;) {
		size_t count = 0;

		for (; count < STORE_BATCH_MAX && done + count < final + pending; count++, id++) {
			struct job *job = &jobs[count];
			*job =
			    (struct job){.id = id, .uid = getuid(), .gpus = 1, .simulated = true};
			(void)snprintf(job->key, sizeof(job->key), "made-%" PRIu64, id);
			(void)snprintf(job->name, sizeof(job->name), "bench");
			job->submitted_unix_ns = bench_unix_ns() - 60 * BENCH_SECOND;
			batch[count] =
			    (struct store_accept){.job = job, .spec = spec, .spec_length = length};
		}

		rig_must(store_accept(store, batch, count, &err) == 0, "%s", err.text);

		for (size_t i = 0; i < count && done + i < final; i++)
			bench_end(store, &jobs[i]);

		done += count;
	}

	free(spec);
	(void)close(state_fd);
	(void)store_close(store);
}

/* `sluice jobs` from its start to its end, its output into a pipe that is read. */
static uint64_t bench_list_once(bool all, size_t *out_lines)
{
	int ends[2];
	rig_must(pipe2(ends, O_CLOEXEC) == 0, "cannot make a pipe");

	uint64_t began = gate_now_ns();
	pid_t pid = fork();
	if (pid == 0) {
		(void)dup2(ends[1], 1);
		(void)execl(BENCH_SLUICE, "sluice", "jobs", all ? "--all" : NULL, NULL);
		_exit(127);
	}

	(void)close(ends[1]);
	static char text[1 << 16];
	size_t lines = 0;

	for (ssize_t got; (got = read(ends[0], text, sizeof(text))) > 0;)
		for (ssize_t i = 0; i < got; i++)
			lines += text[i] == '\n';

	(void)close(ends[0]);
	int status = 0;
	rig_must(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "'sluice jobs' failed");

	uint64_t took = gate_now_ns() - began;
	*out_lines = lines;
	return took;
}

static double bench_agent_ms(void)
{
	clockid_t clock;
	struct timespec used = {0};
	rig_must(clock_getcpuclockid(bench_rig.agent, &clock) == 0 &&
		     clock_gettime(clock, &used) == 0,
		 "cannot tell what the agent has used");
	return (double)used.tv_sec * 1e3 + (double)used.tv_nsec / 1e6;
}

static double bench_children_ms(void)
{
	struct rusage used;
	(void)getrusage(RUSAGE_CHILDREN, &used);
	return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e3 +
	       (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e3;
}

/* An agent that has just started looks through the directories of all its jobs. */
static void bench_settle(void)
{
	for (int i = 0; i < BENCH_SETTLE_TRIES; i++) {
		double before = bench_agent_ms();
		(void)usleep(BENCH_SETTLE_US);
		if (bench_agent_ms() - before < 3)
			return;
	}
	rig_fail("the agent does not come to rest");
}

static void bench_list(struct gate_report *report)
{
	static uint64_t samples[BENCH_LISTS];
	size_t lines = 0;

	bench_settle();
	double agent = bench_agent_ms(), children = bench_children_ms();

	for (size_t i = 0; i < BENCH_LISTS; i++)
		samples[i] = bench_list_once(true, &lines);

	gate_note(report,
		  "processor time of one list: agent %.1f ms on two threads, sluice %.1f ms",
		  (bench_agent_ms() - agent) / BENCH_LISTS,
		  (bench_children_ms() - children) / BENCH_LISTS);
	rig_must(lines > BENCH_FINAL, "'sluice jobs' shows %zu lines only", lines);
	gate_time(report, "jobs_10k", gate_quantile(samples, BENCH_LISTS, 0.5), "ms", 50, samples,
		  BENCH_LISTS);
	gate_note(report, "sluice jobs -a, %zu lines, start to end: 90th percentile %.1f ms", lines,
		  gate_quantile(samples, BENCH_LISTS, 0.9) / 1e6);

	for (size_t i = 0; i < BENCH_LISTS; i++)
		samples[i] = bench_list_once(false, &lines);

	gate_note(report, "sluice jobs, %zu lines of them: median %.1f ms", lines,
		  gate_quantile(samples, BENCH_LISTS, 0.5) / 1e6);
}

static void bench_restart(struct gate_report *report)
{
	static uint64_t samples[BENCH_RESTARTS];
	uint64_t pending = rig_pending(&bench_rig);

	for (size_t i = 0; i < BENCH_RESTARTS; i++) {
		rig_kill_agent(&bench_rig);
		samples[i] = rig_start_agent(&bench_rig);
		rig_must(rig_running(&bench_rig) == BENCH_GPUS &&
			     rig_pending(&bench_rig) == pending,
			 "a restart has lost jobs");
	}

	/* Too long a thing for a thousand times. */
	gate_time(report, "restart", gate_quantile(samples, BENCH_RESTARTS, 0.5), "ms", 300,
		  samples, BENCH_RESTARTS);
	gate_note(report,
		  "restart after kill -9 with %d final, %" PRIu64
		  " pending and %d running jobs, from "
		  "exec to the first answer: longest of %d %.1f ms",
		  BENCH_FINAL, pending, BENCH_GPUS, BENCH_RESTARTS,
		  gate_quantile(samples, BENCH_RESTARTS, 1) / 1e6);
}

/* --- cancel ----------------------------------------------------------------------------------- */

static uint64_t bench_cancel_once(void)
{
	char path[RIG_PATH_MAX + 16], count[16], byte = 0;
	int fd = bench_pipe(path, "bomb");

	(void)snprintf(count, sizeof(count), "%d", BENCH_BOMB);
	const char *const argv[] = {bench_self, "--bomb", path, count, NULL};

	struct rig_request request;
	rig_request(&request, argv, 0);

	uint64_t id = rig_submit(&bench_rig, &request);

	for (int i = 0; i < BENCH_BOMB; i++)
		bench_read(fd, &byte, 1);

	uint64_t began = gate_now_ns();

	rig_cancel(&bench_rig, id, (uint64_t)BENCH_GRACE_MS * 1000000);
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	rig_must(poll(&poll_fd, 1, BENCH_WAIT_MS) == 1 && read(fd, &byte, 1) == 0,
		 "processes of a cancelled job live on");

	uint64_t took = gate_now_ns() - began;

	rig_wait(&bench_rig, id, SLUICE__V1__JOB_STATE__CANCELLED);
	(void)close(fd);
	return took;
}

static void bench_cancel(struct gate_report *report)
{
	static uint64_t samples[BENCH_BOMBS];
	for (size_t i = 0; i < BENCH_BOMBS; i++)
		samples[i] = bench_cancel_once();

	gate_time(report, "cancel", gate_quantile(samples, BENCH_BOMBS, 1), "ms",
		  BENCH_GRACE_MS + 200, samples, BENCH_BOMBS);
	gate_note(
	    report,
	    "cancel: a job of %d processes that ignore SIGTERM, %d ms of grace, until the last is "
	    "gone: longest of %d",
	    BENCH_BOMB, BENCH_GRACE_MS, BENCH_BOMBS);
}

/* --- the parts -------------------------------------------------------------------------------- */

static void bench_part_start(struct gate_report *report)
{
	rig_use_state(&bench_rig, "start");
	(void)rig_start_agent(&bench_rig);
	bench_start_jobs(report, "one free GPU", 1, BENCH_STARTS, true);
	bench_start_jobs(report, "no GPU", 0, BENCH_STARTS_WITHOUT, false);
	rig_stop_agent(&bench_rig);
}

static void bench_part_cancel(struct gate_report *report)
{
	rig_use_state(&bench_rig, "cancel");
	(void)rig_start_agent(&bench_rig);
	bench_cancel(report);
	rig_stop_agent(&bench_rig);
}

static void bench_part_submit(struct gate_report *report)
{
	rig_use_state(&bench_rig, "submit");
	(void)rig_start_agent(&bench_rig);
	bench_hold_gpus();
	bench_submit(report);
	bench_submit_crowd(report);
	rig_stop_agent(&bench_rig);
}

static void bench_part_many(struct gate_report *report)
{
	rig_use_state(&bench_rig, "many");
	(void)rig_start_agent(&bench_rig);
	bench_hold_gpus();
	rig_kill_agent(&bench_rig);
	bench_enter(BENCH_FINAL - BENCH_PENDING, BENCH_PENDING - BENCH_GPUS);
	(void)rig_start_agent(&bench_rig);
	bench_list(report);
	rig_kill_agent(&bench_rig);
	bench_enter(BENCH_PENDING, BENCH_GPUS);
	(void)rig_start_agent(&bench_rig);
	bench_restart(report);
	rig_stop_agent(&bench_rig);
}

static const struct gate_part bench_parts[] = {
    {"start", bench_part_start},
    {"cancel", bench_part_cancel},
    {"submit", bench_part_submit},
    {"many", bench_part_many},
};

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "--stamp") == 0)
		return rig_stamp(argv[2]);
	if (argc == 2 && strcmp(argv[1], "--sleep") == 0)
		job_sleep();
	if (argc == 4 && strcmp(argv[1], "--bomb") == 0)
		return job_bomb(argv[2], argv[3]);

	int rest = argc;
	struct gate_report *report =
	    gate_open(argc, argv, "queue",
		      "Measures the local queue on a simulated machine. The name of one part\n"
		      "(start, cancel, submit, many) as an argument measures that alone.",
		      true, &rest);
	ssize_t length = readlink("/proc/self/exe", bench_self, sizeof(bench_self) - 1);

	rig_must(length > 0, "cannot tell where this program is");
	rig_open(&bench_rig);

	gate_parts(report, bench_parts, array_length(bench_parts), rest < argc ? argv[rest] : NULL);
	return gate_close(report);
}
