/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/web/door_web_process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/web/door_web_memory.h"
#include "agent/libexec.h"
#include "base/check.h"
#include "base/child.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/text.h"
#include "web/handed.h"

enum { WEB_NUMBER_MAX = 16 };

struct web_process {
	struct web_process_options options;
	struct child *child;	  /* owned; NULL: none runs */
	struct loop_timer *again; /* owned; until it is started again */
	struct loop_timer *well;  /* owned; running: it was started lately */
	int tick_fd, life_fd;	  /* owned; -1 */
	uint64_t again_ns;
	uint64_t restarts;
	bool is_wanted;
	bool has_ended; /* by itself, and no other was started yet */
	char problem[WEB_PROCESS_PROBLEM_MAX];
};

static void process_set_problem(struct web_process *process, const char *text)
{
	(void)snprintf(process->problem, sizeof(process->problem), "%.*s",
		       WEB_PROCESS_PROBLEM_MAX - 1, text);
	if (*text)
		log_write(process->options.log, LOG_LEVEL_WARNING, NULL,
			  "page and metrics: %s; tried again in %" PRIu64 " ms", text,
			  process->again_ns / UINT64_C(1000000));
}

static void process_close_fd(int *fd)
{
	cleanup_close_fn(fd);
	*fd = -1;
}

static void process_try_again(struct web_process *process)
{
	loop_timer_start(process->again, process->again_ns);
	process->again_ns = process->again_ns * 2 < WEB_PROCESS_LAST_NS ? process->again_ns * 2
									: WEB_PROCESS_LAST_NS;
}

static void process_on_well(void *context)
{
	struct web_process *process = context;
	process->again_ns = WEB_PROCESS_FIRST_NS;
	process->problem[0] = '\0';
}

static void process_on_end(struct child *child, const struct child_end *end, void *context)
{
	struct web_process *process = context;
	char how[CHILD_END_TEXT], text[WEB_PROCESS_PROBLEM_MAX];

	process->child = child_free(process->child);
	process_close_fd(&process->tick_fd);
	process_close_fd(&process->life_fd);
	loop_timer_stop(process->well);

	if (!process->is_wanted)
		return;

	process->has_ended = true;
	(void)snprintf(text, sizeof(text), "sluice-web ended: %s", child_end_to_string(end, how));
	process_set_problem(process, text);
	process_try_again(process);
}

/* Whom it becomes: by the local file alone, so that nobody waits for a directory. */
static void process_user(const struct web_process *process, uid_t *out_uid, gid_t *out_gid)
{
	const char *passwd = process->options.passwd ? process->options.passwd : "/etc/passwd";
	struct passwd entry, *found = NULL;
	char text[1024];

	*out_uid = HANDED_NOBODY;
	*out_gid = HANDED_NOBODY;

	_cleanup_fclose_ FILE *file = fopen(passwd, "re");

	while (file && fgetpwent_r(file, &entry, text, sizeof(text), &found) == 0) {
		if (strcmp(found->pw_name, HANDED_USER) != 0 || found->pw_uid == 0)
			continue;
		*out_uid = found->pw_uid;
		*out_gid = found->pw_gid;
		return;
	}
}

/* Nothing of what the agent was told in its own environment is its business. */
static void process_environment(char *out[], size_t room)
{
	static const char *const names[] = {
	    "PATH=",	      "LC_ALL=",	  "TZ=", "ASAN_OPTIONS=", "LSAN_OPTIONS=",
	    "UBSAN_OPTIONS=", "SLUICE_STATE_DIR="};
	extern char **environ;

	size_t count = 0;

	for (char **at = environ; at && *at && count + 1 < room; at++) {
		for (size_t i = 0; i < array_length(names); i++) {
			if (text_starts_with(*at, names[i])) {
				out[count++] = *at;
				break;
			}
		}
	}

	out[count] = NULL;
}

static int process_spawn_with(struct web_process *process, const struct child_fd *fds, size_t count,
			      struct err *err)
{
	char program[FILE_PATH_MAX];
	char uid_text[WEB_NUMBER_MAX], gid_text[WEB_NUMBER_MAX], *environment[16];
	uid_t uid = 0;
	gid_t gid = 0;
	bool is_root = geteuid() == 0;

	/* Looked for each time: an upgrade may have moved it. */
	int rc = libexec_find("sluice-web", "web", process->options.program, program, err);
	if (rc < 0)
		return rc;
	if (is_root)
		process_user(process, &uid, &gid);
	(void)snprintf(uid_text, sizeof(uid_text), "%u", (unsigned)uid);
	(void)snprintf(gid_text, sizeof(gid_text), "%u", (unsigned)gid);

	/* Not written to: argv is not const for reasons of history. */
	char *argv[] = {(char *)"sluice-web",
			is_root ? (char *)"--uid" : NULL,
			uid_text,
			(char *)"--gid",
			gid_text,
			NULL};

	process_environment(environment, array_length(environment));
	const struct child_spec spec = {.path = program,
					.argv = argv,
					.environment = environment,
					.directory = "/",
					.fds = fds,
					.fd_count = count,
					.new_session = true};
	process->child =
	    child_start(process->options.children, &spec, process_on_end, process, err);

	return process->child ? 0 : err->code;
}

static int process_spawn(struct web_process *process, struct err *err)
{
	int given[2] = {-1, -1}, tick[2] = {-1, -1}, life[2] = {-1, -1};
	int rc = process->options.prepare(given, process->options.context, err);
	if (rc == 0)
		rc = web_tick_open(tick, err);
	if (rc == 0 && pipe2(life, O_CLOEXEC) < 0)
		rc = err_set(err, -errno, "a pipe for the web process: %s", err_describe(-errno));

	const struct child_fd fds[] = {{given[0], HANDED_LISTEN},
				       {given[1], HANDED_VIEW},
				       {tick[1], HANDED_TICK},
				       {life[0], HANDED_LIFE},
				       {2, 2}};

	if (rc == 0)
		rc = process_spawn_with(process, fds, array_length(fds), err);
	if (rc == 0) {
		process->tick_fd = take_fd(&tick[0]);
		process->life_fd = take_fd(&life[1]);
	}

	for (size_t i = 0; i < 2; i++) {
		cleanup_close_fn(&given[i]);
		cleanup_close_fn(&tick[i]);
		cleanup_close_fn(&life[i]);
	}

	return rc;
}

static void process_begin(struct web_process *process)
{
	struct err err = {0};
	if (process_spawn(process, &err) < 0) {
		process_set_problem(process, err.text);
		process_try_again(process);
		return;
	}

	process->restarts += process->has_ended;
	process->has_ended = false;
	loop_timer_start(process->well, WEB_PROCESS_WELL_NS);

	if (process->options.started)
		process->options.started(process->options.context);
}

static void process_on_again(void *context)
{
	process_begin(context);
}

int web_process_new(const struct web_process_options *options, struct web_process **out,
		    struct err *err)
{
	struct web_process *process = calloc(1, sizeof(*process));
	if (!process)
		return err_set(err, -ENOMEM, "out of memory for the web process");

	process->options = *options;
	process->tick_fd = process->life_fd = -1;
	process->again_ns = WEB_PROCESS_FIRST_NS;
	process->again = loop_timer_new(options->loop, process_on_again, process, err);
	if (process->again)
		process->well = loop_timer_new(options->loop, process_on_well, process, err);

	if (!process->well) {
		(void)web_process_free(process);
		return -ENOMEM;
	}

	*out = process;
	return 0;
}

void web_process_stop(struct web_process *process)
{
	if (!process)
		return;

	process->is_wanted = false;
	loop_timer_stop(process->again);
	loop_timer_stop(process->well);
	process_close_fd(&process->life_fd); /* by itself it ends now; else: */
	process_close_fd(&process->tick_fd);

	if (process->child)
		(void)child_stop(process->child, SIGTERM, WEB_PROCESS_STOP_NS);
}

/* The one that was stopped goes on dying by itself: it is watched by its set alone. */
static void process_forget(struct web_process *process)
{
	if (process->child && child_is_running(process->child))
		(void)child_kill(process->child, SIGKILL);
	process->child = child_free(process->child);
}

void web_process_start(struct web_process *process)
{
	if (!process)
		return;

	web_process_stop(process);
	process_forget(process);
	process->is_wanted = true;
	process->again_ns = WEB_PROCESS_FIRST_NS;
	process->problem[0] = '\0';
	process->has_ended = false; /* wanted, so no restart */
	process_begin(process);
}

struct web_process *web_process_free(struct web_process *process)
{
	if (!process)
		return NULL;

	web_process_stop(process);
	process_forget(process);
	(void)loop_timer_free(process->again);
	(void)loop_timer_free(process->well);
	free(process);

	return NULL;
}

void web_process_tick(struct web_process *process)
{
	if (process && process->tick_fd >= 0)
		web_tick(process->tick_fd);
}

pid_t web_process_pid(const struct web_process *process)
{
	return process && process->child && child_is_running(process->child)
		   ? child_pid(process->child)
		   : -1;
}

uint64_t web_process_restarts(const struct web_process *process)
{
	return process ? process->restarts : 0;
}

const char *web_process_problem(const struct web_process *process)
{
	return process ? process->problem : "";
}
