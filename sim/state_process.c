/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/state_private.h"

enum { PROC_TEXT_MAX = 4096, STAT_FIELD_START = 22 };

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

bool sim_process_is_alive(const struct sim_process *process, void *context)
{
	const struct sim_state *state = context;
	uint64_t pid_ns = process->pid_ns ? process->pid_ns : state->file->header.pid_ns;
	uint64_t start;
	char run_state;

	/* the number means nothing in another namespace */
	if (process->start_time == 0 || pid_ns != state->pid_ns)
		return true;
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
			if (!look || state->is_alive(process, state->alive_context))
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
