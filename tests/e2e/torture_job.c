/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job of the storm, and its outside witness. Writes "KEY JOB ATTEMPT RANK TIME" into
 * DIRECTORY/ran (and into DIRECTORY/finished at its end; nanoseconds of CLOCK_MONOTONIC), then
 * takes one lock of its own for each GPU slot that it was given; all of its processes share them.
 * If there is none to be had, two jobs live in one slot, and that goes into DIRECTORY/violations.
 *
 *   usage: storm-job DIRECTORY KEY MILLISECONDS plain|daemon|loud SLOTS share|whole EXIT_CODE
 *
 * "daemon" leaves a process behind that would outlive everything; "loud" writes more than is kept.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/parse.h"

enum { PATH_MAX_ = 4096, LINE_MAX_ = 512, LOUD_LINES = 10000 };

static void note(const char *directory, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void note(const char *directory, const char *name, const char *format, ...)
{
	char path[PATH_MAX_], line[LINE_MAX_];
	va_list arguments;
	va_start(arguments, format);
	int length = vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	(void)snprintf(path, sizeof(path), "%s/%s", directory, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (fd < 0 || write(fd, line, (size_t)length) != length)
		_exit(70);
	(void)close(fd);
}

static const char *told(const char *variable)
{
	const char *text = getenv(variable);
	return text ? text : "0";
}

/* Which attempt of which job does what now. */
static void note_time(const char *directory, const char *name, const char *key)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	note(directory, name, "%s %s %s %s %lld%09ld\n", key, told("SLUICE_JOB_ID"),
	     told("SLUICE_ATTEMPT"), told("RANK"), (long long)now.tv_sec, now.tv_nsec);
}

/* Takes `wanted` of the `slots` locks of a GPU. */
static void take(const char *directory, const char *key, const char *uuid, uint64_t slots,
		 uint64_t wanted)
{
	for (uint64_t slot = 0; slot < slots && wanted > 0; slot++) {
		char path[PATH_MAX_];
		(void)snprintf(path, sizeof(path), "%s/slot.%s.%d", directory, uuid, (int)slot);
		int fd = open(path, O_RDWR | O_CREAT, 0666);
		if (fd < 0)
			_exit(70);
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			wanted--;
		else
			(void)close(fd);
	}
	if (wanted > 0)
		note(directory, "violations", "%s: %s belongs to another living job\n", key, uuid);
}

static void rest(uint64_t ms)
{
	struct timespec left = {.tv_sec = (time_t)(ms / 1000),
				.tv_nsec = (long)(ms % 1000) * 1000000};
	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
}

int main(int argc, char **argv)
{
	uint64_t ms, slots, code;
	const char *gpus = getenv("CUDA_VISIBLE_DEVICES");
	if (argc != 8 || !gpus || parse_u64(argv[3], 0, 1000000, &ms) < 0 ||
	    parse_u64(argv[5], 1, 1000, &slots) < 0 || parse_u64(argv[7], 0, 255, &code) < 0)
		return 70;
	const char *directory = argv[1], *key = argv[2];
	bool share = strcmp(argv[6], "share") == 0;
	note_time(directory, "ran", key);
	char list[LINE_MAX_];
	(void)snprintf(list, sizeof(list), "%s", gpus);
	for (char *at = list; *at;) {
		char *comma = strchr(at, ',');
		if (comma)
			*comma = '\0';
		take(directory, key, at, slots, share ? 1 : slots);
		at = comma ? comma + 1 : at + strlen(at);
	}
	if (strcmp(argv[4], "daemon") == 0 && fork() == 0) {
		(void)setsid();
		if (fork() != 0)
			_exit(0);
		rest(300000); /* until it is killed */
		_exit(0);
	}
	for (int i = 0; strcmp(argv[4], "loud") == 0 && i < LOUD_LINES; i++)
		(void)printf("line %d of a job that says more than anybody wants\n", i);
	(void)fflush(stdout);
	rest(ms);
	note_time(directory, "finished", key);
	return (int)code;
}
