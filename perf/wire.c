/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a gRPC call over the agent's unix socket costs without any work behind it: a client and a
 * server of ours in two processes, against two bare processes that pass a byte; and what a
 * connection takes of memory. An Allocate is such a call with work, so the gate of its median holds
 * here; its tail is the scheduler's, and is printed beside that of the bare processes.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/loop.h"
#include "base/parse.h"
#include "perf/gate.h"
#include "perf/pingpong.h"
#include "sluice.pb-c.h"
#include "wire/client.h"
#include "wire/server.h"

enum bench_limits {
	BENCH_WARM = 500,
	BENCH_CALLS = 10000,
	BENCH_AT_ONCE = 50, /* calls on their way at a time, for the rate */
	BENCH_CONNECTIONS = 200,
	BENCH_DEADLINE_S = 60,
};

static uint64_t bench_samples[BENCH_CALLS];

static void bench_fail(const char *what, const char *why)
{
	(void)fprintf(stderr, "bench wire: %s: %s\n", what, why);
	exit(1);
}

static void bench_on_submit(struct wire_call *call, const ProtobufCMessage *message, void *context)
{
	Sluice__V1__SubmitReply reply = SLUICE__V1__SUBMIT_REPLY__INIT;
	struct err err = {0};
	reply.id = 1;
	if (wire_call_reply(call, &reply.base, &err) < 0)
		wire_call_fail(call, &err);
}

static const struct wire_method bench_methods[] = {
    {.path = "/sluice.v1.Queue/Submit",
     .request = &sluice__v1__submit_request__descriptor,
     .reply = &sluice__v1__submit_reply__descriptor,
     .handle = bench_on_submit},
    {0},
};

/* Starts a process that serves, and returns its id. */
static pid_t bench_serve(const char *path)
{
	struct err err = {0};
	int fd = wire_listen_unix(path, 0600, &err);
	if (fd < 0)
		bench_fail("listening", err.text);

	pid_t pid = fork();
	if (pid < 0)
		bench_fail("fork", strerror(errno));
	if (pid > 0) {
		(void)close(fd);
		return pid;
	}

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	struct loop *loop = loop_new(LOOP_REAL, &err);
	struct wire_server_options options = {.methods = bench_methods};
	struct wire_server *server = loop ? wire_server_new(loop, &options, &err) : NULL;
	if (!server || wire_server_add_listener(server, fd, &err) < 0 || loop_run(loop, &err) < 0)
		bench_fail("serving", err.text);
	_exit(0);
}

static Sluice__V1__SubmitRequest bench_request(void)
{
	static char key[] = "6f9619ff-8b86-d011-b42d-00c04fc964ff";
	Sluice__V1__SubmitRequest request = SLUICE__V1__SUBMIT_REQUEST__INIT;
	request.key = key;
	return request;
}

static void bench_ask(struct loop *loop, struct wire_client *client)
{
	struct err err = {0};
	ProtobufCMessage *reply = NULL;
	Sluice__V1__SubmitRequest request = bench_request();
	if (wire_client_ask(client, loop, &bench_methods[0], &request.base,
			    BENCH_DEADLINE_S * CLOCK_NS_PER_S, &reply, NULL, &err) < 0)
		bench_fail("calling", err.text);
	protobuf_c_message_free_unpacked(reply, NULL);
}

struct bench_rate {
	struct loop *loop;
	struct wire_client *client;
	unsigned started, ended;
};

static void bench_start(struct bench_rate *rate);

static void bench_on_end(const struct wire_result *result, void *context)
{
	struct bench_rate *rate = context;
	if (result->status != WIRE_OK)
		bench_fail("calling", result->message);
	if (++rate->ended == BENCH_CALLS)
		loop_stop(rate->loop);
	else if (rate->started < BENCH_CALLS)
		bench_start(rate);
}

static void bench_start(struct bench_rate *rate)
{
	struct err err = {0};
	const struct wire_client_callbacks callbacks = {NULL, bench_on_end, rate};
	Sluice__V1__SubmitRequest request = bench_request();
	rate->started++;
	if (!wire_client_call(rate->client, &bench_methods[0], &request.base, 0, &callbacks, &err))
		bench_fail("calling", err.text);
}

/* Calls per second, many at a time. */
static double bench_measure_rate(struct loop *loop, struct wire_client *client)
{
	struct bench_rate rate = {.loop = loop, .client = client};
	uint64_t begin = gate_now_ns();
	for (unsigned i = 0; i < BENCH_AT_ONCE; i++)
		bench_start(&rate);
	while (rate.ended < BENCH_CALLS)
		(void)loop_run(loop, NULL);
	return BENCH_CALLS * 1e9 / (double)(gate_now_ns() - begin);
}

/* KiB that the process alone has written to. */
static uint64_t bench_dirty_kib(pid_t pid)
{
	char path[64], line[256];
	uint64_t kib = 0;

	(void)snprintf(path, sizeof(path), "/proc/%ld/smaps_rollup", (long)pid);
	FILE *file = fopen(path, "re");
	if (!file)
		bench_fail(path, strerror(errno));

	while (fgets(line, sizeof(line), file)) {
		const char *digits = line + strcspn(line, "0123456789");
		if (strncmp(line, "Private_Dirty:", 14) == 0)
			(void)parse_u64_span(digits, strspn(digits, "0123456789"), 0, UINT32_MAX,
					     &kib);
	}

	(void)fclose(file);
	return kib;
}

/* KiB that a connection takes of the server's memory after a call. */
static double bench_measure_connections(struct loop *loop, const char *path, pid_t pid)
{
	static struct wire_client *clients[BENCH_CONNECTIONS];
	struct err err = {0};
	uint64_t before = bench_dirty_kib(pid);

	for (int i = 0; i < BENCH_CONNECTIONS; i++) {
		clients[i] = wire_client_new(loop, path, NULL, &err);
		if (!clients[i])
			bench_fail("connecting", err.text);
		bench_ask(loop, clients[i]);
	}

	uint64_t after = bench_dirty_kib(pid);

	for (int i = 0; i < BENCH_CONNECTIONS; i++)
		clients[i] = wire_client_free(clients[i]);

	return (double)(after - before) / BENCH_CONNECTIONS;
}

int main(int argc, char **argv)
{
	struct gate_report *report =
	    gate_open(argc, argv, "wire", "What a gRPC call over a unix socket costs", false, NULL);
	char path[] = "/tmp/sluice-bench-XXXXXX", socket_path[64];
	struct err err = {0};
	struct pingpong ping;

	if (!mkdtemp(path))
		bench_fail("making a directory", strerror(errno));
	(void)snprintf(socket_path, sizeof(socket_path), "%s/socket", path);

	pid_t pid = bench_serve(socket_path);
	struct loop *loop = loop_new(LOOP_REAL, &err);
	struct wire_client *client = loop ? wire_client_new(loop, socket_path, NULL, &err) : NULL;
	if (!client)
		bench_fail("connecting", err.text);

	for (int i = 0; i < BENCH_WARM; i++)
		bench_ask(loop, client);

	for (int i = 0; i < BENCH_CALLS; i++) {
		uint64_t begin = gate_now_ns();
		bench_ask(loop, client);
		bench_samples[i] = gate_now_ns() - begin;
	}

	double median = gate_quantile(bench_samples, BENCH_CALLS, 0.5);
	double p99 = gate_quantile(bench_samples, BENCH_CALLS, 0.99);

	gate_time(report, "wire_p50", median, "us", 60, bench_samples, BENCH_CALLS);
	gate_note(report, "p99 of a call %.1f us", p99 / 1e3);

	if (pingpong_measure(PINGPONG_COUNT, &ping) == 0)
		gate_note(report,
			  "two bare processes pass a byte: median %.1f us, p99 %.1f us; a call is "
			  "%.1f and %.1f times that",
			  ping.median_ns / 1e3, ping.p99_ns / 1e3, median / ping.median_ns,
			  p99 / ping.p99_ns);

	gate_note(report, "%.0f calls a second, %d at a time", bench_measure_rate(loop, client),
		  BENCH_AT_ONCE);
	gate_note(report, "a connection takes %.1f KiB of the server",
		  bench_measure_connections(loop, socket_path, pid));
	client = wire_client_free(client);
	loop = loop_free(loop);
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	(void)unlink(socket_path);
	(void)rmdir(path);

	return gate_close(report);
}
