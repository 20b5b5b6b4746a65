/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/web/door_web_self.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/parse.h"

enum self_limits {
	SELF_PATH_MAX = 48,
	SELF_STAT_MAX = 4096,
	/* Fields of /proc/PID/stat behind the name (proc(5) counts from 1, the state is 3). */
	SELF_UTIME = 14 - 3,
	SELF_STIME = 15 - 3,
	SELF_RSS = 24 - 3,
};

static uint64_t field_of(const char *text, int field)
{
	uint64_t value = 0;

	for (; field > 0 && text; field--) {
		text = strchr(text, ' ');
		text = text ? text + 1 : NULL;
	}

	if (text)
		(void)parse_u64_span(text, strcspn(text, " \n"), 0, UINT64_MAX, &value);

	return value;
}

/* Cheaper than two files. Nothing of a process that is gone. */
static void stat_of(pid_t pid, uint64_t *out_cpu_ns, uint64_t *out_rss_bytes)
{
	char path[SELF_PATH_MAX];
	_cleanup_buf_ struct buf text;

	buf_init(&text, SELF_STAT_MAX);
	*out_cpu_ns = *out_rss_bytes = 0;
	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);

	if (pid <= 0 || file_read(path, &text, NULL) < 0)
		return;

	/* The name in brackets may have anything in it. */
	const char *state = strrchr(buf_text(&text), ')');
	if (!state || state[1] != ' ')
		return;

	state += 2;
	long ticks = sysconf(_SC_CLK_TCK), page = sysconf(_SC_PAGESIZE);
	if (ticks > 0)
		*out_cpu_ns = (field_of(state, SELF_UTIME) + field_of(state, SELF_STIME)) *
			      (CLOCK_NS_PER_S / (uint64_t)ticks);
	if (page > 0)
		*out_rss_bytes = field_of(state, SELF_RSS) * (uint64_t)page;
}

void web_self_look(struct web_self *self, pid_t probe)
{
	uint64_t ignored, own_rss, probe_cpu_ns, probe_rss;
	stat_of(getpid(), &ignored, &own_rss);
	stat_of(probe, &probe_cpu_ns, &probe_rss);

	/* Not to be read just now: had it ended, another would be asked for. */
	if (probe > 0 && probe == self->probe && probe_rss == 0 && probe_cpu_ns == 0)
		probe_cpu_ns = self->probe_cpu_ns;
	if (probe != self->probe || probe_cpu_ns < self->probe_cpu_ns) {
		self->ended_cpu_ns += self->probe_cpu_ns;
		self->probe_cpu_ns = 0;
	}

	self->probe = probe;
	self->probe_cpu_ns = probe_cpu_ns;
	self->cpu_ns = clock_process_ns() + self->probe_cpu_ns + self->ended_cpu_ns;
	self->rss_bytes = own_rss + probe_rss;
}

void web_self_count_fds(struct web_self *self)
{
	_cleanup_closedir_ DIR *directory = opendir("/proc/self/fd");
	uint64_t count = 0;
	while (directory && readdir(directory))
		count++;
	self->open_fds = count > 3 ? count - 3 : 0; /* ".", ".." and the directory's own */
}

uint64_t web_self_boot_unix_s(void)
{
	int64_t boot_ns = clock_unix_ns() - (int64_t)clock_boot_ns();

	return boot_ns > 0 ? (uint64_t)boot_ns / CLOCK_NS_PER_S : 0;
}
