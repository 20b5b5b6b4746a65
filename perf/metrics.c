/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a scrape of /metrics costs: 8 GPUs with 7 MIG instances each, 100 containers, every value
 * known. The real process that answers HTTP, with a new view each second as the agent gives it one;
 * this program is its agent and its client, and asks over one connection as Prometheus does. The
 * same while the driver hangs, 10^5 times without growth, and Debian's prometheus-node-exporter
 * between the same scrapes: another program with another job, but the usual kind of exporter.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/child.h"
#include "base/err.h"
#include "base/parse.h"
#include "perf/footprint_process.h"
#include "perf/gate.h"
#include "fuzz/made_view.h"
#include "web/handed.h"
#include "web/metrics.h"

enum bench_limits {
	BENCH_GPUS = 8,
	BENCH_MIGS = 7,
	BENCH_HOLDERS = 100,
	BENCH_SCRAPES = 2000,
	BENCH_RENDERS = 1000,
	BENCH_HUNG = 1000,
	BENCH_MANY = 100000,
	BENCH_MANY_WARM = 2000,
	BENCH_MANY_TICK = 50, /* scrapes for each new view */
	BENCH_OTHER = 300,
	BENCH_ANSWER_MAX = 8 << 20,
	BENCH_START_MS = 10000,
};

#define BENCH_SCRAPE_MS	    0.3
#define BENCH_HUNG_MS	    50.0
#define BENCH_GROWTH_KIB    256.0
#define BENCH_OTHER_PROGRAM "prometheus-node-exporter"
#define BENCH_NS_PER_S	    UINT64_C(1000000000)

struct bench {
	struct view_shared *shared;
	int listen_fd, view_fd, tick[2], life[2];
	uint16_t port;
	pid_t web, other;
	uint64_t ticked_ns;
	uint64_t steps;
	struct buf answer;
};

static _Noreturn void fail(const char *what)
{
	(void)fprintf(stderr, "bench-metrics: %s: %s\n", what, err_describe(-errno));
	exit(1);
}

/* --- the agent's part ------------------------------------------------------------------------- */

/* A second later: every number that a scrape shows may be another. `hangs`: but none is read. */
static void bench_tick(struct bench *bench, bool hangs)
{
	struct view *view = &bench->shared->view;
	uint64_t now_ns = gate_now_ns(), one = 1;

	view_begin(bench->shared);
	bench->steps++;
	view->snapshot.sequence++;

	if (!hangs) {
		view->node.sample_ns = now_ns;
		view->node.sample_unix_ns += (int64_t)BENCH_NS_PER_S;
		for (uint32_t i = 0; i < BENCH_GPUS; i++) {
			struct snapshot_gpu *gpu = &view->snapshot.gpu[i];
			snapshot_put(gpu, SNAPSHOT_POWER, 200000 + (int64_t)bench->steps % 100000);
			view->gpu[i].energy_mj += 250000;
			view->gpu[i].busy_ns += 700000000;
		}

		for (uint32_t i = 0; i < view->holder_count; i++)
			view->holder[i].busy_ns += 70000000;
	}

	view_end(bench->shared);
	bench->ticked_ns = now_ns;
	if (write(bench->tick[0], &one, sizeof(one)) < 0 && errno != EAGAIN)
		fail("telling of a new view");
}

static void bench_start_web(struct bench *bench)
{
	const struct child_fd fds[] = {{bench->listen_fd, HANDED_LISTEN},
				       {bench->view_fd, HANDED_VIEW},
				       {bench->tick[1], HANDED_TICK},
				       {bench->life[0], HANDED_LIFE},
				       {2, 2}};
	static char program[] = BENCH_WEB;
	char *argv[] = {program, NULL};
	const struct child_spec spec = {.path = BENCH_WEB, .argv = argv, .fds = fds, .fd_count = 5};
	struct err err;

	if (child_spawn(&spec, &bench->web, &err) < 0) {
		(void)fprintf(stderr, "bench-metrics: %s\n", err.text);
		exit(1);
	}
}

static uint16_t bench_listen(int *out_fd)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);

	*out_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (*out_fd < 0 || bind(*out_fd, (struct sockaddr *)&address, size) < 0 ||
	    listen(*out_fd, 64) < 0 || getsockname(*out_fd, (struct sockaddr *)&address, &size) < 0)
		fail("listening");

	return ntohs(address.sin_port);
}

static void bench_open(struct bench *bench)
{
	(void)signal(SIGPIPE, SIG_IGN);
	buf_init(&bench->answer, BENCH_ANSWER_MAX);
	bench->port = bench_listen(&bench->listen_fd);
	bench->view_fd = memfd_create("view", MFD_CLOEXEC);
	if (bench->view_fd < 0 || ftruncate(bench->view_fd, sizeof(*bench->shared)) < 0)
		fail("memory");
	bench->shared = mmap(NULL, sizeof(*bench->shared), PROT_READ | PROT_WRITE, MAP_SHARED,
			     bench->view_fd, 0);
	if (bench->shared == MAP_FAILED || pipe(bench->life) < 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, bench->tick) < 0)
		fail("memory");

	made_view_full(&bench->shared->view, BENCH_GPUS, BENCH_MIGS, BENCH_HOLDERS);
	bench_tick(bench, false);
	bench_start_web(bench);
}

/* --- the client's part ------------------------------------------------------------------------ */

static int bench_connect(uint16_t port)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_port = htons(port),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
	if (fd < 0)
		fail("socket");
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));

	uint64_t end = gate_now_ns() + BENCH_START_MS * UINT64_C(1000000);
	while (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		if (gate_now_ns() > end)
			fail("connecting");
		(void)poll(NULL, 0, 10);
	}

	return fd;
}

/* What a header says, "" if it is not there. Ours and Go's spell them alike. */
static uint64_t header_number(const char *head, const char *name)
{
	const char *at = strcasestr(head, name);
	uint64_t number = 0;

	if (!at)
		return UINT64_MAX;

	at += strlen(name);
	size_t length = strspn(at, "0123456789");
	char digits[24] = "";

	if (length == 0 || length >= sizeof(digits))
		return UINT64_MAX;

	memcpy(digits, at, length);
	return parse_u64(digits, 0, BENCH_ANSWER_MAX, &number) < 0 ? UINT64_MAX : number;
}

/* The end of a body in chunks is told by its last, empty one. */
static bool answer_is_whole(const struct buf *answer, const char *body)
{
	uint64_t length = header_number(answer->data, "\r\nContent-Length: ");
	size_t have = answer->length - (size_t)(body - answer->data);
	if (length != UINT64_MAX)
		return have >= length;
	return have >= 5 && memcmp(answer->data + answer->length - 5, "0\r\n\r\n", 5) == 0;
}

/* One scrape over a connection that stays. The time it took; the body lies in bench->answer. */
static uint64_t bench_scrape(struct bench *bench, int fd, const char *accept, const char **out_body)
{
	char request[256];
	int length = snprintf(request, sizeof(request),
			      "GET /metrics HTTP/1.1\r\nHost: localhost\r\n"
			      "Accept: text/plain;version=0.0.4\r\nAccept-Encoding: %s\r\n\r\n",
			      accept);
	uint64_t begin = gate_now_ns();

	buf_clear(&bench->answer);
	if (write(fd, request, (size_t)length) != length)
		fail("asking");

	for (;;) {
		if (buf_reserve(&bench->answer, 65536) < 0)
			fail("an answer that is too long");

		ssize_t got = read(fd, bench->answer.data + bench->answer.length, 65536);
		if (got <= 0)
			fail("reading an answer");
		bench->answer.length += (size_t)got;
		bench->answer.data[bench->answer.length] = '\0';

		const char *body = strstr(bench->answer.data, "\r\n\r\n");
		if (body && answer_is_whole(&bench->answer, body + 4)) {
			uint64_t took = gate_now_ns() - begin;

			if (memcmp(bench->answer.data, "HTTP/1.1 200", 12) != 0)
				fail("an answer other than 200");
			if (out_body)
				*out_body = body + 4;

			return took;
		}
	}
}

/* --- measurements ----------------------------------------------------------------------------- */

static void bench_render(struct bench *bench, struct gate_report *report)
{
	uint64_t samples[BENCH_RENDERS];
	struct buf out;
	size_t lines = 0;

	buf_init(&out, BENCH_ANSWER_MAX);

	for (int i = 0; i < BENCH_RENDERS; i++) {
		uint64_t begin = gate_now_ns();
		buf_clear(&out);
		if (metrics_render(&bench->shared->view, begin, VIEW_SET_ALL, &out, NULL) < 0)
			fail("rendering");
		samples[i] = gate_now_ns() - begin;
	}

	for (size_t i = 0; i < out.length; i++)
		lines += out.data[i] == '\n' && out.data[i + 1] != '#' && out.data[i + 1] != '\0';

	gate_note(
	    report,
	    "a page: %zu series, %zu bytes; made in %.3f ms (median of %d), once for each view",
	    lines, out.length, gate_quantile(samples, BENCH_RENDERS, 0.5) / 1e6, BENCH_RENDERS);
	buf_done(&out);
}

/* Scrapes, with a new view each second of them. */
static void bench_scrapes(struct bench *bench, struct gate_report *report, const char *accept,
			  const char *gate)
{
	static uint64_t samples[BENCH_SCRAPES], sorted[BENCH_SCRAPES];
	struct footprint before = {0}, after = {0};
	const char *body = NULL;
	int fd = bench_connect(bench->port);

	for (int i = 0; i < 20; i++)
		(void)bench_scrape(bench, fd, accept, &body);

	(void)footprint_read_cpu(bench->web, &before.cpu_ns);

	for (int i = 0; i < BENCH_SCRAPES; i++) {
		if (gate_now_ns() - bench->ticked_ns > BENCH_NS_PER_S)
			bench_tick(bench, false);
		samples[i] = bench_scrape(bench, fd, accept, &body);
	}

	(void)footprint_read_cpu(bench->web, &after.cpu_ns);
	memcpy(sorted, samples, sizeof(samples));

	size_t size = bench->answer.length - (size_t)(body - bench->answer.data);
	double p50 = gate_quantile(sorted, BENCH_SCRAPES, 0.5);

	gate_note(
	    report,
	    "scrape, %s: %zu bytes, median %.3f ms, p99 %.3f ms, processor %.3f ms of the process",
	    accept, size, p50 / 1e6, gate_quantile(sorted, BENCH_SCRAPES, 0.99) / 1e6,
	    (double)(after.cpu_ns - before.cpu_ns) / BENCH_SCRAPES / 1e6);
	if (gate)
		gate_time(report, gate, p50, "ms", BENCH_SCRAPE_MS, samples, BENCH_SCRAPES);
	(void)close(fd);
}

/* The agent goes on and tells so each second; no GPU has been read for a minute. */
static void bench_hung(struct bench *bench, struct gate_report *report)
{
	static uint64_t samples[BENCH_HUNG];
	int fd = bench_connect(bench->port);
	const char *body = NULL;

	bench->shared->view.node.sample_ns = gate_now_ns() - 60 * BENCH_NS_PER_S;
	for (int i = 0; i < BENCH_HUNG; i++) {
		if (i % 100 == 0)
			bench_tick(bench, true);
		samples[i] = bench_scrape(bench, fd, "identity", &body);
	}

	if (!strstr(body, "\nsluice_collect_stale 1\n"))
		fail("a page that does not say that it is stale");
	gate_note(report, "while the driver hangs the page says sluice_collect_stale 1");
	gate_note(report, "the longest of %d took %.3f ms", BENCH_HUNG,
		  gate_quantile(samples, BENCH_HUNG, 1) / 1e6);
	gate_time(report, "scrape_hung", gate_quantile(samples, BENCH_HUNG, 0.99), "ms",
		  BENCH_HUNG_MS, samples, BENCH_HUNG);
	(void)close(fd);
}

static void bench_many(struct bench *bench, struct gate_report *report)
{
	struct footprint before = {0}, after = {0};
	int fd = bench_connect(bench->port);

	for (int i = 0; i < BENCH_MANY + BENCH_MANY_WARM; i++) {
		if (i == BENCH_MANY_WARM && footprint_read(bench->web, &before) < 0)
			fail("memory of the process");
		if (i % BENCH_MANY_TICK == 0)
			bench_tick(bench, false);
		(void)bench_scrape(bench, fd, i % 2 ? "gzip" : "identity", NULL);
	}

	if (footprint_read(bench->web, &after) < 0)
		fail("memory of the process");
	gate_note(report, "%d scrapes, %d new views: PSS %.0fK, then %.0fK; RSS %.0fK, then %.0fK",
		  BENCH_MANY, BENCH_MANY / BENCH_MANY_TICK, (double)before.pss / 1024,
		  (double)after.pss / 1024, (double)before.rss / 1024, (double)after.rss / 1024);
	gate_value(report, "scrape_growth", ((double)after.pss - (double)before.pss) / 1024, "KiB",
		   GATE_AT_MOST, BENCH_GROWTH_KIB);
	(void)close(fd);
}

/* --- the other exporter ----------------------------------------------------------------------- */

static bool bench_start_other(struct bench *bench, uint16_t *out_port)
{
	char address[64];
	int fd;

	*out_port = bench_listen(&fd);
	(void)close(fd);
	(void)snprintf(address, sizeof(address), "--web.listen-address=127.0.0.1:%u", *out_port);

	static char program[] = BENCH_OTHER_PROGRAM, quiet[] = "--log.level=error";
	char *argv[] = {program, address, quiet, NULL};
	const struct child_spec spec = {.path = BENCH_OTHER_PROGRAM, .argv = argv};
	struct err err;

	return child_spawn(&spec, &bench->other, &err) == 0;
}

static void bench_other(struct bench *bench, struct gate_report *report)
{
	static uint64_t ours[BENCH_OTHER], theirs[BENCH_OTHER];
	struct footprint web = {0}, other = {0}, web_end = {0}, other_end = {0};
	const char *body = NULL;
	uint16_t port;

	if (!bench_start_other(bench, &port)) {
		gate_note(report,
			  "SKIPPED: no " BENCH_OTHER_PROGRAM " to compare with; tools/setup bench");
		return;
	}

	int our_fd = bench_connect(bench->port), other_fd = bench_connect(port);

	for (int i = 0; i < BENCH_OTHER + 20; i++) {
		if (i == 20) {
			(void)footprint_read_cpu(bench->web, &web.cpu_ns);
			(void)footprint_read_cpu(bench->other, &other.cpu_ns);
		}

		bench_tick(bench, false); /* a new view for each: nothing is kept from before */
		uint64_t us = bench_scrape(bench, our_fd, "identity", &body);
		uint64_t them = bench_scrape(bench, other_fd, "identity", &body);

		if (i >= 20) {
			ours[i - 20] = us;
			theirs[i - 20] = them;
		}
	}

	size_t size = bench->answer.length - (size_t)(body - bench->answer.data);

	(void)footprint_read(bench->web, &web_end);
	(void)footprint_read(bench->other, &other_end);
	(void)footprint_read_cpu(bench->web, &web_end.cpu_ns);
	(void)footprint_read_cpu(bench->other, &other_end.cpu_ns);

	double p50 = gate_quantile(ours, BENCH_OTHER, 0.5);
	double their_p50 = gate_quantile(theirs, BENCH_OTHER, 0.5);

	gate_note(report,
		  "in turn with " BENCH_OTHER_PROGRAM
		  ", which reads the host and not GPUs (%zu bytes):",
		  size);
	gate_note(report, "  %-26s %9s %12s %9s", "", "median", "CPU/scrape", "RSS");
	gate_note(report, "  %-26s %6.3f ms %9.3f ms %7.1f MB", "sluice web, a view for each",
		  p50 / 1e6, (double)(web_end.cpu_ns - web.cpu_ns) / BENCH_OTHER / 1e6,
		  (double)web_end.rss / 1e6);
	gate_note(report, "  %-26s %6.3f ms %9.3f ms %7.1f MB", BENCH_OTHER_PROGRAM,
		  their_p50 / 1e6, (double)(other_end.cpu_ns - other.cpu_ns) / BENCH_OTHER / 1e6,
		  (double)other_end.rss / 1e6);
	(void)close(our_fd);
	(void)close(other_fd);
}

static void bench_close(struct bench *bench)
{
	pid_t pids[] = {bench->web, bench->other};
	for (size_t i = 0; i < 2; i++) {
		if (pids[i] > 0 && kill(pids[i], SIGTERM) == 0)
			(void)waitpid(pids[i], NULL, 0);
	}
	buf_done(&bench->answer);
}

int main(int argc, char **argv)
{
	static struct bench bench;
	struct gate_report *report =
	    gate_open(argc, argv, "bench-metrics", "what a scrape of /metrics costs", true, NULL);

	bench_open(&bench);
	bench_render(&bench, report);
	bench_scrapes(&bench, report, "gzip", NULL);
	bench_scrapes(&bench, report, "identity", "scrape_p50");
	bench_hung(&bench, report);
	bench_other(&bench, report);
	bench_many(&bench, report);
	bench_close(&bench);

	return gate_close(report);
}
