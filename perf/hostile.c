/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What root notices of 128 connections of one user that do nothing and 128 of another who means
 * harm: calls whose replies nobody reads, requests and headers that never end, frames that ask for
 * answers. The agent is the real one; the frames are made here by hand. Takes root, to be those
 * users.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "perf/footprint_process.h"
#include "perf/gate.h"
#include "perf/queue_rig.h"

enum hostile_limits {
	HOSTILE_IDLE = 128,
	HOSTILE_BAD = 128,
	HOSTILE_RUNS = 200, /* of `sluice agent status` */
	HOSTILE_CALLS = 100,
	HOSTILE_IDLE_UID = 61001,
	HOSTILE_BAD_UID = 61002,
	HOSTILE_BODY = 3 << 20, /* as long as a request may be */
	HOSTILE_PINGS = 100,
	HOSTILE_FRAME = 16384,
	HOSTILE_FRAME_HEAD = 9, /* RFC 9113, 4.1 */
};
#define HOSTILE_PAUSE_NS 2000000
#define HOSTILE_MB	 1e6

enum hostile_frame {
	HOSTILE_DATA = 0,
	HOSTILE_HEADERS = 1,
	HOSTILE_SETTINGS = 4,
	HOSTILE_PING = 6,
};

extern char **environ;

static struct rig hostile_rig;

/* --- frames ------------------------------------------------------------------------------------
 */

static void hostile_add(struct buf *out, const void *data, size_t length)
{
	rig_must(buf_add(out, data, length) == 0, "out of memory");
}

static void hostile_frame(struct buf *out, enum hostile_frame kind, uint8_t flags, uint32_t stream,
			  const void *data, size_t length)
{
	const uint8_t head[HOSTILE_FRAME_HEAD] = {
	    (uint8_t)(length >> 16),
	    (uint8_t)(length >> 8),
	    (uint8_t)length,
	    (uint8_t)kind,
	    flags,
	    (uint8_t)(stream >> 24),
	    (uint8_t)(stream >> 16),
	    (uint8_t)(stream >> 8),
	    (uint8_t)stream,
	};
	hostile_add(out, head, sizeof(head));
	hostile_add(out, data, length);
}

/* A field that no table keeps (RFC 7541, 6.2.2). */
static void hostile_field(struct buf *out, const char *name, const char *value)
{
	const uint8_t lengths[] = {0, (uint8_t)strlen(name), (uint8_t)strlen(value)};
	hostile_add(out, lengths, 2);
	hostile_add(out, name, lengths[1]);
	hostile_add(out, lengths + 2, 1);
	hostile_add(out, value, lengths[2]);
}

static void hostile_greet(struct buf *out, bool reads)
{
	static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
	static const uint8_t no_window[] = {0, 4, 0, 0, 0, 0}; /* SETTINGS_INITIAL_WINDOW_SIZE */
	hostile_add(out, preface, sizeof(preface) - 1);
	hostile_frame(out, HOSTILE_SETTINGS, 0, 0, no_window, reads ? 0 : sizeof(no_window));
}

/* `ends`: the block of fields does. */
static void hostile_call(struct buf *out, uint32_t stream, const char *path, bool ends)
{
	struct buf fields;
	buf_init(&fields, HOSTILE_FRAME);
	hostile_field(&fields, ":method", "POST");
	hostile_field(&fields, ":scheme", "http");
	hostile_field(&fields, ":path", path);
	hostile_field(&fields, "content-type", "application/grpc");
	hostile_frame(out, HOSTILE_HEADERS, ends ? 4 : 0, stream, fields.data, fields.length);
	buf_done(&fields);
}

/* --- connections -------------------------------------------------------------------------------
 */

static int hostile_connect(uid_t uid)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t length = strlen(hostile_rig.socket);

	rig_must(length < sizeof(address.sun_path), "'%s' is too long", hostile_rig.socket);
	memcpy(address.sun_path, hostile_rig.socket, length + 1);

	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	rig_must(fd >= 0 && seteuid(uid) == 0, "cannot be user %u", (unsigned)uid);

	int rc = connect(fd, (const struct sockaddr *)&address, sizeof(address));
	int why = errno;

	rig_must(seteuid(0) == 0, "cannot be root again");
	rig_must(rc == 0, "cannot connect to '%s': %s", hostile_rig.socket, strerror(why));
	return fd;
}

/* As much as the agent takes: that it takes no more is its right. */
static void hostile_send(int fd, struct buf *bytes)
{
	size_t sent = 0;
	struct timespec pause = {.tv_nsec = HOSTILE_PAUSE_NS};

	for (int tries = 0; sent < bytes->length && tries < 50;) {
		ssize_t n =
		    send(fd, bytes->data + sent, bytes->length - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
		sent += n > 0 ? (size_t)n : 0;
		if (n < 0 && errno != EAGAIN)
			break;
		if (n < 0) {
			tries++;
			(void)nanosleep(&pause, NULL);
		}
	}

	buf_done(bytes);
}

/* Calls whose replies find no window. */
static void hostile_unread(int fd)
{
	static const uint8_t empty[5] = {0};
	struct buf out;

	buf_init(&out, 1 << 20);
	hostile_greet(&out, false);

	for (uint32_t i = 0; i < HOSTILE_CALLS; i++) {
		const char *path = i % 4 == 0	? "/sluice.v1.Node/Watch"
				   : i % 4 == 1 ? "/sluice.v1.Queue/List"
				   : i % 4 == 2 ? "/sluice.v1.Node/Health"
						: "/sluice.v1.Node/Status";
		hostile_call(&out, 2 * i + 1, path, true);
		hostile_frame(&out, HOSTILE_DATA, 1, 2 * i + 1, empty, sizeof(empty));
	}

	hostile_send(fd, &out);
}

/* Requests of which the last byte never comes. */
static void hostile_endless(int fd)
{
	static const uint8_t filler[HOSTILE_FRAME];
	const uint8_t head[] = {0, HOSTILE_BODY >> 24, (uint8_t)(HOSTILE_BODY >> 16),
				(uint8_t)(HOSTILE_BODY >> 8), (uint8_t)HOSTILE_BODY};
	struct buf out;

	buf_init(&out, 8 << 20);
	hostile_greet(&out, true);

	for (uint32_t i = 0; i < 4; i++) {
		hostile_call(&out, 2 * i + 1, "/sluice.v1.Queue/Submit", true);
		hostile_frame(&out, HOSTILE_DATA, 0, 2 * i + 1, head, sizeof(head));
		for (size_t at = 0; at < (1 << 20); at += sizeof(filler))
			hostile_frame(&out, HOSTILE_DATA, 0, 2 * i + 1, filler, sizeof(filler));
	}

	hostile_send(fd, &out);
}

/* Fields of which the last never comes. */
static void hostile_headless(int fd)
{
	struct buf out;
	buf_init(&out, 1 << 20);
	hostile_greet(&out, true);
	hostile_call(&out, 1, "/sluice.v1.Node/Status", false);
	hostile_send(fd, &out);
}

static void hostile_pings(struct buf *out)
{
	for (int i = 0; i < HOSTILE_PINGS; i++)
		hostile_frame(out, HOSTILE_PING, 0, 0, "12345678", 8);
}

/* A process of its own: keeps asking, reads no answer, and comes back when it is thrown out. */
static pid_t hostile_flood(int count)
{
	pid_t pid = fork();
	if (pid != 0)
		return pid;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	int fds[HOSTILE_BAD];
	for (int i = 0; i < count; i++)
		fds[i] = -1;

	for (;;) {
		struct timespec pause = {.tv_nsec = HOSTILE_PAUSE_NS};

		for (int i = 0; i < count; i++) {
			struct buf out;
			buf_init(&out, 1 << 20);

			if (fds[i] < 0) {
				fds[i] = hostile_connect(HOSTILE_BAD_UID);
				hostile_greet(&out, true);
			}

			hostile_pings(&out);
			ssize_t sent =
			    send(fds[i], out.data, out.length, MSG_DONTWAIT | MSG_NOSIGNAL);
			if (sent < 0 && errno != EAGAIN) {
				(void)close(fds[i]);
				fds[i] = -1;
			}

			buf_done(&out);
		}

		(void)nanosleep(&pause, NULL);
	}
}

/* --- what root notices -------------------------------------------------------------------------
 */

static uint64_t hostile_status(void)
{
	char sluice[] = "sluice", agent[] = "agent", word[] = "status", option[] = "--socket";
	char *const arguments[] = {sluice, agent, word, option, hostile_rig.socket, NULL};

	posix_spawn_file_actions_t files;
	pid_t pid;
	int status;

	rig_must(posix_spawn_file_actions_init(&files) == 0 &&
		     posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0) == 0,
		 "out of memory");
	uint64_t began = gate_now_ns();

	rig_must(posix_spawn(&pid, BENCH_SLUICE, &files, NULL, arguments, environ) == 0 &&
		     waitpid(pid, &status, 0) == pid,
		 "cannot start " BENCH_SLUICE);
	uint64_t took = gate_now_ns() - began;

	(void)posix_spawn_file_actions_destroy(&files);
	rig_must(WIFEXITED(status) && WEXITSTATUS(status) == 0,
		 "'sluice agent status' of root failed");
	return took;
}

static uint64_t hostile_rss(void)
{
	struct footprint agent = {0};
	rig_must(footprint_read(hostile_rig.agent, &agent) == 0, "the agent is gone");
	return agent.rss;
}

static void hostile_measure(struct gate_report *report)
{
	static uint64_t samples[HOSTILE_RUNS];
	uint64_t rss = 0;
	for (size_t i = 0; i < HOSTILE_RUNS; i++) {
		samples[i] = hostile_status();
		uint64_t now = hostile_rss();
		rss = now > rss ? now : rss;
	}

	gate_time(report, "hostile_status", gate_quantile(samples, HOSTILE_RUNS, 0.5), "ms", 50,
		  samples, HOSTILE_RUNS);
	gate_value(report, "hostile_rss", (double)rss / HOSTILE_MB, "MB", GATE_AT_MOST, 16);
	gate_note(report, "'sluice agent status', exec to exit: 99 of 100 below %.1f ms",
		  gate_quantile(samples, HOSTILE_RUNS, 0.99) / 1e6);
}

int main(int argc, char **argv)
{
	struct gate_report *report = gate_open(
	    argc, argv, "hostile", "root beside idle and hostile connections", true, NULL);

	if (geteuid() != 0) {
		gate_note(report, "nothing was measured: this takes root, to be several users");
		return gate_close(report);
	}

	int idle[HOSTILE_IDLE], bad[HOSTILE_BAD];

	rig_open(&hostile_rig);
	rig_must(chmod(hostile_rig.directory, 0755) == 0, "cannot open '%s' to others",
		 hostile_rig.directory);
	(void)rig_start_agent(&hostile_rig);
	gate_note(report, "RSS before: %.1f MB", (double)hostile_rss() / HOSTILE_MB);

	for (size_t i = 0; i < HOSTILE_IDLE; i++) {
		struct buf out;
		idle[i] = hostile_connect(HOSTILE_IDLE_UID);
		buf_init(&out, HOSTILE_FRAME);
		hostile_greet(&out, true);
		hostile_send(idle[i], &out);
	}

	gate_note(report, "RSS with %d idle connections: %.1f MB", HOSTILE_IDLE,
		  (double)hostile_rss() / HOSTILE_MB);
	void (*const kinds[])(int fd) = {hostile_unread, hostile_endless, hostile_headless};
	enum { KINDS = sizeof(kinds) / sizeof(kinds[0]), FLOODS = HOSTILE_BAD / (KINDS + 1) };

	for (size_t i = 0; i < HOSTILE_BAD - FLOODS; i++) {
		bad[i] = hostile_connect(HOSTILE_BAD_UID);
		kinds[i % KINDS](bad[i]);
	}

	pid_t flood = hostile_flood(FLOODS);
	rig_must(flood > 0, "cannot start a process");
	hostile_measure(report);

	(void)kill(flood, SIGKILL);
	(void)waitpid(flood, NULL, 0);

	for (size_t i = 0; i < HOSTILE_IDLE; i++)
		(void)close(idle[i]);

	for (size_t i = 0; i < HOSTILE_BAD - FLOODS; i++)
		(void)close(bad[i]);

	rig_close(&hostile_rig);
	return gate_close(report);
}
