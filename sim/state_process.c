/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/state_private.h"

enum { PROC_TEXT_MAX = 4096, STAT_FIELD_START = 22 };

#define NS_INODE_MIN UINT64_C(0xf0000000) /* the kernel numbers namespaces from here on */

/* The beginning of /proc/PID/NAME as text. False when there is none. */
static bool read_proc(uint32_t pid, const char *name, char text[PROC_TEXT_MAX])
{
	char path[64];
	ssize_t length;
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%u/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;

	length = read(fd, text, PROC_TEXT_MAX - 1);
	(void)close(fd);
	text[length > 0 ? length : 0] = '\0';

	return length > 0;
}

static uint64_t leading_number(const char *text)
{
	uint64_t value = 0;

	for (; *text >= '0' && *text <= '9'; text++)
		value = value * 10 + (uint64_t)(*text - '0');
	return value;
}

/* State and start time from /proc/PID/stat; the name in field 2 may hold blanks and brackets, so
 * counting starts after the last ')'. */
static bool read_stat(uint32_t pid, char *out_state, uint64_t *out_start)
{
	char text[PROC_TEXT_MAX];
	const char *at;
	uint32_t field = 3;

	if (!read_proc(pid, "stat", text))
		return false;

	at = strrchr(text, ')');
	if (!at || at[1] != ' ')
		return false;

	at += 2;
	*out_state = *at;

	for (; field < STAT_FIELD_START; field++) {
		at = strchr(at, ' ');
		if (!at)
			return false;
		at++;
	}

	*out_start = leading_number(at);
	return true;
}

uint64_t sim_own_pid_ns(void)
{
	struct stat status;

	return stat("/proc/self/ns/pid", &status) == 0 ? (uint64_t)status.st_ino : 0;
}

int sim_state_identify(uint32_t pid, struct sim_process *out)
{
	char text[PROC_TEXT_MAX], state;
	const char *line;
	uint64_t start;

	if (pid == 0 || !read_stat(pid, &state, &start) || state == 'Z' || state == 'X')
		return -1;

	out->pid = out->host_pid = pid;
	out->start_time = start;
	out->pid_ns = sim_own_pid_ns();

	/* NSpid lists the number in each namespace, from that of this /proc inwards */
	if (read_proc(pid, "status", text) && (line = strstr(text, "\nNSpid:\t")))
		out->host_pid = (uint32_t)leading_number(line + 8);

	return 0;
}

/* --- processes of other namespaces ------------------------------------------------------------ */

/* Whether `here` is that process: the same namespace, the same start, the same number in it. -1:
 * it cannot be told, for we may not look. */
static int is_same(uint32_t here, const struct sim_process *process)
{
	char path[64], text[PROC_TEXT_MAX], state;
	const char *line, *last;
	struct stat status;
	uint64_t start;

	(void)snprintf(path, sizeof(path), "/proc/%u/ns/pid", here);
	if (stat(path, &status) < 0)
		return errno == EACCES || errno == EPERM ? -1 : 0;
	if ((uint64_t)status.st_ino != process->pid_ns || !read_stat(here, &state, &start) ||
	    start != process->start_time || state == 'Z' || state == 'X' ||
	    !read_proc(here, "status", text) || !(line = strstr(text, "\nNSpid:\t")))
		return 0;

	line += strlen("\nNSpid:\t");
	last = line;
	for (; *line && *line != '\n'; line++)
		last = *line == '\t' ? line + 1 : last;

	return leading_number(last) == process->pid;
}

/* Its number here; 0: there is no such process; -1: not all of them may be looked at. */
static int64_t find_foreign(const struct sim_process *process)
{
	DIR *list = opendir("/proc");
	struct dirent *entry;
	bool is_hidden = !list;
	int64_t found = 0;

	while (list && found == 0 && (entry = readdir(list))) {
		uint64_t here = leading_number(entry->d_name);
		int same = here > 0 ? is_same((uint32_t)here, process) : 0;

		if (same > 0)
			found = (int64_t)here;
		is_hidden = is_hidden || same < 0;
	}

	if (list)
		(void)closedir(list);

	return found == 0 && is_hidden ? -1 : found;
}

uint32_t sim_state_foreign_pid(const struct sim_state *state, const struct sim_process *process)
{
	for (uint32_t i = 0; i < state->foreign_count && i < SIM_DEAD_MAX; i++) {
		if (state->foreign[i].pid == process->pid &&
		    state->foreign[i].start_time == process->start_time &&
		    state->foreign[i].pid_ns == process->pid_ns)
			return state->foreign[i].host_pid;
	}
	return 0;
}

/* Whoever sees the creator's processes sees those of namespaces below as well, each under a number
 * of its own here, which is what a driver tells of. */
static bool foreign_is_alive(struct sim_state *state, const struct sim_process *process)
{
	uint32_t known = sim_state_foreign_pid(state, process);
	int64_t found;
	uint32_t at;

	if (state->pid_ns != state->file->header.pid_ns || process->pid_ns < NS_INODE_MIN)
		return true; /* the number means nothing here */
	if (known != 0)
		return is_same(known, process) != 0;

	found = find_foreign(process);
	if (found <= 0)
		return found < 0;

	at = state->foreign_count++ % SIM_DEAD_MAX;
	state->foreign[at].pid = process->pid;
	state->foreign[at].start_time = process->start_time;
	state->foreign[at].pid_ns = process->pid_ns;
	state->foreign[at].host_pid = (uint32_t)found;

	return true;
}

bool sim_process_is_alive(const struct sim_process *process, void *context)
{
	struct sim_state *state = context;
	uint64_t pid_ns = process->pid_ns ? process->pid_ns : state->file->header.pid_ns;
	uint64_t start;
	char run_state;

	if (process->start_time == 0)
		return true;
	if (pid_ns != state->pid_ns)
		return foreign_is_alive(state, process);
	if (kill((pid_t)process->pid, 0) < 0 && errno == ESRCH)
		return false;
	if (!read_stat(process->pid, &run_state, &start))
		return true; /* hidden from us, or gone just now: then the next look finds out */

	return start == process->start_time && run_state != 'Z' && run_state != 'X';
}

static bool is_known_dead(const struct sim_state *state, const struct sim_process *process)
{
	for (uint32_t i = 0; i < state->dead_count && i < SIM_DEAD_MAX; i++) {
		if (state->dead[i].pid == process->pid &&
		    state->dead[i].start_time == process->start_time &&
		    state->dead[i].pid_ns == process->pid_ns)
			return true;
	}
	return false;
}

uint32_t sim_state_bury(struct sim_state *state, struct sim_machine *machine, bool look)
{
	uint32_t found = 0;

	if (machine->quirks & SIM_QUIRK_DEADPID)
		return 0;

	(void)pthread_mutex_lock(&state->local.dead_lock);

	for (uint32_t i = 0; i < machine->gpu_count * SIM_PROCESS_MAX; i++) {
		struct sim_process *process =
		    &machine->gpu[i / SIM_PROCESS_MAX].process[i % SIM_PROCESS_MAX];

		if (process->pid == 0)
			continue;

		if (!is_known_dead(state, process)) {
			bool is_left = !look || state->is_alive(process, state->alive_context);
			uint32_t here = sim_state_foreign_pid(state, process);

			process->host_pid = here ? here : process->host_pid;
			if (is_left)
				continue;

			uint32_t at = state->dead_count++ % SIM_DEAD_MAX;

			state->dead[at].pid = process->pid;
			state->dead[at].start_time = process->start_time;
			state->dead[at].pid_ns = process->pid_ns;
		}

		*process = (struct sim_process){0};
		found++;
	}

	(void)pthread_mutex_unlock(&state->local.dead_lock);
	return found;
}
