/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/gpu/tenants.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/child.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"

enum {
	TENANTS_LOOK_MS = 100, /* how often it is looked whether to stop */
	TENANTS_READ = 65536,
	TENANTS_EXTRA = 12, /* arguments of ours, and NULL */
	TENANTS_GRACE_MS = 2000,
	TENANTS_STEP_MS = 10, /* while one has closed its output and not ended */
	TENANTS_PATH = 256,
};

/* --- what one says ---------------------------------------------------------------------------- */

static void tenant_text(json_t *json, const char *key, char *out, size_t size)
{
	const char *text = json_string_value(json_object_get(json, key));
	(void)snprintf(out, size, "%s", text ? text : ""); /* cut */
}

static double tenant_number(json_t *json, const char *key)
{
	return json_number_value(json_object_get(json, key)); /* 0 where it is none */
}

static void tenant_read(json_t *json, struct tenant_summary *out)
{
	json_t *clock = json_object_get(json, "clock_mhz"), *reason;
	size_t index, at = 0;
	json_int_t iterations = json_integer_value(json_object_get(json, "iterations"));

	out->is_simulated = json_is_true(json_object_get(json, "simulated"));
	tenant_text(json, "device", out->device, sizeof(out->device));
	tenant_text(json, "uuid", out->uuid, sizeof(out->uuid));
	tenant_text(json, "cuda", out->cuda, sizeof(out->cuda));
	tenant_text(json, "verified", out->verified, sizeof(out->verified));
	tenant_text(json, "problem", out->problem, sizeof(out->problem));
	out->tflops = tenant_number(json, "tflops");
	out->p50_ms = tenant_number(json, "p50_ms");
	out->p99_ms = tenant_number(json, "p99_ms");
	out->iterations = iterations > 0 ? (uint64_t)iterations : 0;
	out->has_clock = json_array_size(clock) == 3;

	for (size_t i = 0; out->has_clock && i < 3; i++)
		out->clock_mhz[i] = json_number_value(json_array_get(clock, i));

	out->power_w = tenant_number(json, "power_w");
	out->temp_c = tenant_number(json, "temp_c");

	json_array_foreach(json_object_get(json, "throttle"), index, reason)

	{
		const char *text = json_string_value(reason);
		if (text && at < sizeof(out->throttle))
			at += (size_t)snprintf(out->throttle + at, sizeof(out->throttle) - at,
					       "%s%s", at > 0 ? ", " : "", text);
	}
}

int tenant_summary_parse(const char *text, size_t length, struct tenant_summary *out,
			 struct err *err)
{
	const char *end = text + length;

	/* From the end: lines of seconds may stand before it. */
	while (end > text) {
		const char *begin = end - 1;
		json_error_t why;

		while (begin > text && begin[-1] != '\n')
			begin--;

		json_t *json = json_loadb(begin, (size_t)(end - begin), 0, &why);
		bool is_summary = json_is_true(json_object_get(json, "summary"));
		if (is_summary) {
			*out = (struct tenant_summary){0};
			tenant_read(json, out);
		}

		json_decref(json);
		if (is_summary)
			return 0;

		end = begin;
	}

	return err_set(err, -EBADMSG, "the load has printed no summary");
}

/* --- running them ----------------------------------------------------------------------------- */

struct tenants_process {
	pid_t pid; /* 0: it has ended */
	int fd;	   /* of its standard output; -1: closed */
	struct buf output;
};

struct tenants_set {
	struct tenant *tenants;
	struct tenants_process process[TENANTS_MAX];
	size_t count;
};

static int tenants_start(const char *program, const struct tenant *tenant, const char *barrier,
			 size_t count, struct tenants_process *out, struct err *err)
{
	const char *argv[TENANTS_ARGUMENTS_MAX + TENANTS_EXTRA] = {"sluice", "bench", "gpu"};
	size_t argc = 3;
	char all[8];
	int ends[2];

	for (size_t i = 0; i < TENANTS_ARGUMENTS_MAX && tenant->arguments[i]; i++)
		argv[argc++] = tenant->arguments[i];

	argv[argc++] = "--json";
	argv[argc++] = "--quiet";
	(void)snprintf(all, sizeof(all), "%zu", count);

	if (count > 1) {
		argv[argc++] = "--barrier";
		argv[argc++] = barrier;
		argv[argc++] = "--tenants";
		argv[argc++] = all;
	}

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(err, -errno, "making a pipe: %s", err_describe(-errno));

	out->fd = ends[0];
	const struct child_fd fds[] = {{ends[1], STDOUT_FILENO}, {STDERR_FILENO, STDERR_FILENO}};
	const struct child_spec spec = {.path = program,
					.argv = (char *const *)(uintptr_t)argv,
					.fds = fds,
					.fd_count = sizeof(fds) / sizeof(fds[0]),
					.new_session = true};
	int rc = child_spawn(&spec, &out->pid, err);

	(void)close(ends[1]); /* the child has its own */
	return rc < 0 ? err_wrap(err, "starting a load") : 0;
}

/* Reads what there is. False: it has closed its output, or has written too much. */
static bool tenants_take(struct tenants_process *process)
{
	char piece[TENANTS_READ];
	ssize_t length = read(process->fd, piece, sizeof(piece));
	if (length < 0 && errno == EINTR)
		return true;
	return length > 0 && buf_add(&process->output, piece, (size_t)length) == 0;
}

/* How it ended. False: it has not within `wait_ms`; a driver that hangs keeps its process. */
static bool tenants_reap(struct tenants_set *set, size_t index, int wait_ms)
{
	struct tenants_process *process = &set->process[index];
	struct tenant *tenant = &set->tenants[index];
	int status = 0;

	for (int waited = 0;; waited += TENANTS_STEP_MS) {
		pid_t gone = waitpid(process->pid, &status, WNOHANG);
		if (gone != 0 && (gone > 0 || errno != EINTR))
			break;
		if (waited >= wait_ms)
			return false;

		(void)poll(NULL, 0, TENANTS_STEP_MS);
	}

	process->pid = 0;
	tenant->rc = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	tenant->has_summary =
	    tenant_summary_parse(buf_text(&process->output), process->output.length,
				 &tenant->summary, NULL) == 0;

	return true;
}

/* Ends those that still run: politely, then by force. */
static void tenants_end(struct tenants_set *set)
{
	for (size_t i = 0; i < set->count; i++)
		if (set->process[i].pid > 0)
			(void)kill(-set->process[i].pid, SIGTERM); /* it may just have ended */

	for (size_t i = 0; i < set->count; i++) {
		struct tenants_process *process = &set->process[i];
		struct pollfd at = {.fd = process->fd, .events = POLLIN};
		while (process->pid > 0 && process->fd >= 0 && poll(&at, 1, TENANTS_GRACE_MS) > 0 &&
		       tenants_take(process))
			;

		if (process->pid > 0) {
			(void)kill(-process->pid, SIGKILL);
			if (!tenants_reap(set, i, TENANTS_GRACE_MS))
				set->tenants[i].rc = 128 + SIGKILL; /* once the driver lets go */
		}

		if (process->fd >= 0)
			(void)close(process->fd);
		process->fd = -1;
		buf_done(&process->output);
	}
}

static int tenants_wait(struct tenants_set *set, uint64_t deadline_ns, const atomic_bool *stop,
			struct err *err)
{
	struct clock clock = {0};

	while (true) {
		struct pollfd at[TENANTS_MAX];
		size_t running = 0, ending = 0;
		for (size_t i = 0; i < set->count; i++) {
			at[i] = (struct pollfd){.fd = set->process[i].fd, .events = POLLIN};
			running += set->process[i].pid > 0;
			ending += set->process[i].pid > 0 && set->process[i].fd < 0;
		}

		if (running == 0)
			return 0;
		if (stop && atomic_load(stop))
			return err_set(err, -EINTR, "interrupted");
		if (clock_now_ns(&clock) > deadline_ns)
			return err_set(err, -ETIMEDOUT, "%zu of %zu loads did not end in time",
				       running, set->count);

		int ready = poll(at, set->count, ending > 0 ? TENANTS_STEP_MS : TENANTS_LOOK_MS);

		for (size_t i = 0; i < set->count; i++) {
			struct tenants_process *process = &set->process[i];
			if (ready > 0 && process->fd >= 0 && at[i].revents != 0 &&
			    !tenants_take(process)) {
				(void)close(process->fd);
				process->fd = -1;
			}

			if (process->fd < 0 && process->pid > 0)
				(void)tenants_reap(set, i, 0); /* soon */
		}
	}
}

int tenants_run(const char *program, struct tenant *tenants, size_t count, uint64_t deadline_ns,
		const atomic_bool *stop, struct err *err)
{
	struct tenants_set set = {.tenants = tenants};
	char directory[TENANTS_PATH], barrier[TENANTS_PATH + 16];
	const char *top = getenv("TMPDIR");

	if (count < 1 || count > TENANTS_MAX)
		return err_set(err, -EINVAL, "%zu loads: 1 to %d", count, TENANTS_MAX);

	if (snprintf(directory, sizeof(directory), "%s/sluice-tenants-XXXXXX",
		     top && top[0] == '/' ? top : "/tmp") >= (int)sizeof(directory) ||
	    !mkdtemp(directory))
		return err_set(err, -errno, "making a directory for the barrier: %s",
			       err_describe(-errno));

	(void)snprintf(barrier, sizeof(barrier), "%s/barrier", directory);
	int rc = 0;
	for (size_t i = 0; i < count && rc == 0; i++) {
		set.process[i].fd = -1;
		buf_init(&set.process[i].output, TENANTS_OUTPUT_MAX);
		set.count++;
		rc = tenants_start(program, &tenants[i], barrier, count, &set.process[i], err);
	}

	if (rc == 0)
		rc = tenants_wait(&set, deadline_ns, stop, err);
	tenants_end(&set);
	(void)unlink(barrier); /* not there for one alone */
	(void)rmdir(directory);

	return rc;
}
