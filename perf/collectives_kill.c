/* SPDX-License-Identifier: Apache-2.0 */
#include "perf/collectives_kill.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/parse.h"
#include "perf/gate.h"

extern char **environ;

enum {
	KILL_RANKS = 3,
	KILL_TIMES = 5,
	KILL_START_MS = 10000,
	KILL_END_MS = 20000,
	KILL_AMID_MS = 300, /* after the ranks are there: they are in the row by then */
	KILL_EXIT = 2,	    /* what the command is to exit with */
};

struct kill_result {
	uint64_t lasted_ns;
	int exit_code; /* -1: it did not exit */
	unsigned left; /* processes */
};

/* The children of a process, at most KILL_RANKS + 1 of them. */
static unsigned kill_children(pid_t parent, pid_t out[KILL_RANKS + 1])
{
	char path[64], text[256];
	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)parent,
		       (int)parent); /* fits */

	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;

	if (fd >= 0)
		(void)close(fd);
	text[length > 0 ? length : 0] = '\0';

	unsigned count = 0;

	for (char *each = text; *each && count <= KILL_RANKS;) {
		size_t digits = strcspn(each, " ");
		uint64_t pid;
		if (parse_u64_span(each, digits, 1, INT32_MAX, &pid) == 0)
			out[count++] = (pid_t)pid;
		each += digits + (each[digits] == ' ');
	}

	return count;
}

static pid_t kill_start(void)
{
	const char *const arguments[] = {BENCH_SLUICE, "bench",	 "collectives", "all_reduce",
					 "--backend",  "shm",	 "--ranks",	"3",
					 "-b",	       "1M",	 "-e",		"1M",
					 "-n",	       "900000", NULL};
	posix_spawn_file_actions_t files;
	pid_t pid = 0;
	bool is_started =
	    posix_spawn_file_actions_init(&files) == 0 &&
	    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0) ==
		0 &&
	    posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO) == 0 &&
	    posix_spawn(&pid, arguments[0], &files, NULL, (char *const *)(uintptr_t)arguments,
			environ) == 0;

	(void)posix_spawn_file_actions_destroy(&files);
	return is_started ? pid : 0;
}

static bool kill_has_ended(pid_t pid, int *out_status, unsigned within_ms)
{
	uint64_t end = gate_now_ns() + within_ms * UINT64_C(1000000);
	do {
		if (waitpid(pid, out_status, WNOHANG) == pid)
			return true;
		(void)poll(NULL, 0, 1);
	} while (gate_now_ns() < end);
	return false;
}

/* Whether there was a run with all its ranks in which one could be killed. */
static bool kill_once(unsigned which, struct kill_result *out)
{
	pid_t ranks[KILL_RANKS + 1];
	int status = 0;
	pid_t command = kill_start();
	if (command == 0)
		return false;

	uint64_t end = gate_now_ns() + KILL_START_MS * UINT64_C(1000000);
	unsigned count = 0;
	while (count != KILL_RANKS && gate_now_ns() < end) {
		if (kill_has_ended(command, &status, 1))
			return false;
		count = kill_children(command, ranks);
	}

	bool is_running = count == KILL_RANKS && !kill_has_ended(command, &status, KILL_AMID_MS);
	uint64_t begin = gate_now_ns();

	if (is_running)
		(void)kill(ranks[which % KILL_RANKS], SIGKILL);
	if (!is_running || !kill_has_ended(command, &status, KILL_END_MS)) {
		(void)kill(command, SIGKILL);
		(void)waitpid(command, &status, 0);
	}

	out->lasted_ns = gate_now_ns() - begin;
	out->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	out->left = 0;

	for (unsigned i = 0; i < count && i < KILL_RANKS; i++)
		out->left += kill(ranks[i], 0) == 0 || errno != ESRCH;

	return is_running;
}

void collectives_kill(struct gate_report *report)
{
	uint64_t longest = 0;
	unsigned left = 0, other_codes = 0;

	for (unsigned i = 0; i < KILL_TIMES; i++) {
		struct kill_result result;
		if (!kill_once(i, &result)) {
			gate_note(report, "'%s bench collectives' does not run: nothing was killed",
				  BENCH_SLUICE);
			other_codes++;
			break;
		}

		if (result.lasted_ns > longest)
			longest = result.lasted_ns;
		left += result.left;
		other_codes += result.exit_code != KILL_EXIT;
	}

	gate_time(report, "collectives_killed", (double)longest, "ms", 2000, NULL, 0);
	gate_value(report, "collectives_killed_other_exit", other_codes, "runs", GATE_AT_MOST, 0);
	gate_value(report, "collectives_killed_left", left, "processes", GATE_AT_MOST, 0);
}
