/* SPDX-License-Identifier: Apache-2.0 */
/* Empty unless built for torture. */
#include "base/crash.h"

#ifdef SLUICE_CRASH_POINTS
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/parse.h"

enum { CRASH_LINE_MAX = 256 };

static uint64_t crash_passed;  /* points of any name */
static uint64_t crash_matched; /* the one that is named */
static uint64_t crash_random;

static void crash_log(const char *name)
{
	const char *path = getenv("SLUICE_CRASH_LOG");
	if (!path)
		return;

	char line[CRASH_LINE_MAX];
	int length = snprintf(line, sizeof(line), "%s %s\n", program_invocation_short_name, name);
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (fd >= 0 && length > 0 && length < CRASH_LINE_MAX)
		(void)!write(fd, line, (size_t)length); /* a test finds it missing */
}

static bool crash_is_named(const char *name)
{
	const char *at = getenv("SLUICE_CRASH_AT");
	if (!at)
		return false;

	const char *colon = strchr(at, ':');
	if (colon) {
		size_t length = strlen(program_invocation_short_name);
		if ((size_t)(colon - at) != length ||
		    memcmp(at, program_invocation_short_name, length) != 0)
			return false;
		at = colon + 1;
	}

	size_t length = strcspn(at, "#");
	uint64_t wanted = 1, number;

	if (at[length] == '#' && parse_u64(at + length + 1, 1, UINT64_MAX, &wanted) < 0)
		return false;
	if (parse_u64_span(at, length, 1, UINT64_MAX, &number) == 0)
		return crash_passed == number;
	if (strlen(name) != length || memcmp(at, name, length) != 0)
		return false;

	return ++crash_matched == wanted;
}

/* splitmix64, https://prng.di.unimi.it/splitmix64.c */
static uint64_t crash_next_random(void)
{
	uint64_t value = (crash_random += UINT64_C(0x9e3779b97f4a7c15));
	value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
	return value ^ (value >> 31);
}

static bool crash_is_unlucky(void)
{
	const char *odds = getenv("SLUICE_CRASH_ODDS");
	const char *seed = getenv("SLUICE_CRASH_SEED");
	uint64_t one_in, start = 0;

	if (!odds || parse_u64(odds, 1, UINT64_MAX, &one_in) < 0)
		return false;

	if (crash_random == 0) {
		if (seed && parse_u64(seed, 0, UINT64_MAX, &start) < 0)
			return false;
		crash_random = start + ((uint64_t)getpid() << 32) + 1;
	}

	return crash_next_random() % one_in == 0;
}

void crash_point(const char *name)
{
	crash_passed++;
	crash_log(name);
	if (!crash_is_named(name) && !crash_is_unlucky())
		return;

	const char *once = getenv("SLUICE_CRASH_ONCE");
	if (once && unlink(once) < 0)
		return;

	(void)raise(SIGKILL);
}
#endif
