/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The local queue side by side with task-spooler, which many use for this: how long a command takes
 * to be queued, and from there to its first instruction. Both by their programs, as people call
 * them, one after the other in turns. What they promise differs: task-spooler keeps its queue in
 * memory and loses it with its server; here a number is printed when the job is on the disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf/gate.h"
#include "perf/queue_rig.h"

enum spooler_limits {
	SPOOLER_STARTS = 300,
	SPOOLER_SUBMITS = 500,
	SPOOLER_RUNS = 200,
	SPOOLER_LINES = 1000,
	SPOOLER_LINES_RUNS = 3,
	SPOOLER_RUN_GATE_MS = 20,
	SPOOLER_WAIT_MS = 30000,
	SPOOLER_LOOK_US = 10000,
};

enum spooler_who { SPOOLER_SLUICE, SPOOLER_TSP, SPOOLER_COUNT };

static const char *const spooler_names[SPOOLER_COUNT] = {"sluice", "task-spooler"};

static struct rig spooler_rig;
static char spooler_self[PATH_MAX]; /* this program: it is also what the jobs run */

/* Runs it to its end, without its output. */
static void spooler_call(const char *const *argv)
{
	posix_spawn_file_actions_t files;
	pid_t pid;
	int status = 0;

	rig_must(posix_spawn_file_actions_init(&files) == 0 &&
		     posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY,
						      0) == 0,
		 "no memory");
	rig_must(
	    posix_spawnp(&pid, argv[0], &files, NULL, (char *const *)(uintptr_t)argv, environ) == 0,
	    "cannot run '%s': is it installed? (Debian: apt-get install task-spooler)", argv[0]);
	(void)posix_spawn_file_actions_destroy(&files);
	rig_must(waitpid(pid, &status, 0) == pid && status == 0, "'%s %s' failed", argv[0],
		 argv[1]);
}

static void spooler_queue(enum spooler_who who, const char *what, const char *argument)
{
	const char *const sluice[] = {BENCH_SLUICE, "run",	  "-d", "-g",	  "0",
				      "--",	    spooler_self, what, argument, NULL};
	const char *const tsp[] = {"tsp", "-n", spooler_self, what, argument, NULL};
	spooler_call(who == SPOOLER_SLUICE ? sluice : tsp);
}

static uint64_t spooler_read(int fd)
{
	uint64_t stamp = 0;
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	rig_must(poll(&poll_fd, 1, SPOOLER_WAIT_MS) == 1 &&
		     read(fd, &stamp, sizeof(stamp)) == sizeof(stamp),
		 "a job does not run");
	return stamp;
}

/* Of the ratios of each pair. */
static double spooler_ratio(const uint64_t *ours, const uint64_t *theirs, size_t count)
{
	static uint64_t ratios[SPOOLER_SUBMITS];
	for (size_t i = 0; i < count; i++)
		ratios[i] = ours[i] * 1000000 / (theirs[i] ? theirs[i] : 1);
	return gate_quantile(ratios, count, 0.5) / 1e6;
}

static void spooler_print(struct gate_report *report, const char *what,
			  uint64_t samples[SPOOLER_COUNT][SPOOLER_SUBMITS], size_t count)
{
	double ratio = spooler_ratio(samples[SPOOLER_SLUICE], samples[SPOOLER_TSP], count);
	for (int who = 0; who < SPOOLER_COUNT; who++)
		gate_note(report, "%s, %s: median %.2f ms, 99th percentile %.2f ms", what,
			  spooler_names[who], gate_quantile(samples[who], count, 0.5) / 1e6,
			  gate_quantile(samples[who], count, 0.99) / 1e6);
	gate_note(report, "%s, ratio of each pair, median: %.2f", what, ratio);
}

/* From the call of the program to the job's first instruction, with nothing in its way. */
static void spooler_start(struct gate_report *report)
{
	static uint64_t samples[SPOOLER_COUNT][SPOOLER_SUBMITS];
	char path[RIG_PATH_MAX + 16];

	(void)snprintf(path, sizeof(path), "%s/stamp", spooler_rig.directory);
	rig_must(mkfifo(path, 0600) == 0, "cannot make %s", path);

	int fd = open(path, O_RDWR | O_CLOEXEC); /* so that the pipe has no end */
	rig_must(fd >= 0, "cannot open %s", path);

	for (size_t i = 0; i < SPOOLER_STARTS; i++) {
		for (int turn = 0; turn < SPOOLER_COUNT; turn++) {
			int who = (turn + (int)i) % SPOOLER_COUNT;
			uint64_t began = gate_now_ns();
			spooler_queue(who, "--stamp", path);
			samples[who][i] = spooler_read(fd) - began;
		}
	}

	(void)close(fd);
	spooler_print(report, "call to first instruction", samples, SPOOLER_STARTS);
}

/* The program alone, from its call to its end, one after the other. */
static void spooler_submit(struct gate_report *report)
{
	static uint64_t samples[SPOOLER_COUNT][SPOOLER_SUBMITS];
	double seconds[SPOOLER_COUNT] = {0};

	for (size_t i = 0; i < SPOOLER_SUBMITS; i++) {
		for (int turn = 0; turn < SPOOLER_COUNT; turn++) {
			int who = (turn + (int)i) % SPOOLER_COUNT;
			uint64_t began = gate_now_ns();
			spooler_queue(who, "--nothing", "");
			samples[who][i] = gate_now_ns() - began;
			seconds[who] += (double)samples[who][i] / 1e9;
		}
	}

	spooler_print(report, "submission", samples, SPOOLER_SUBMITS);

	for (int who = 0; who < SPOOLER_COUNT; who++)
		gate_note(report, "submissions one after the other, %s: %.0f per second",
			  spooler_names[who], SPOOLER_SUBMITS / seconds[who]);
}

/* From the call of a program that stays with its job to its end; the job does nothing. */
static void spooler_run(struct gate_report *report)
{
	static uint64_t samples[SPOOLER_COUNT][SPOOLER_SUBMITS];
	const char *const argv[SPOOLER_COUNT][9] = {
	    {BENCH_SLUICE, "run", "-g", "0", "--", spooler_self, "--nothing", "", NULL},
	    {"tsp", "-nf", spooler_self, "--nothing", "", NULL},
	};

	for (size_t i = 0; i < SPOOLER_RUNS; i++) {
		for (int turn = 0; turn < SPOOLER_COUNT; turn++) {
			int who = (turn + (int)i) % SPOOLER_COUNT;
			uint64_t began = gate_now_ns();
			spooler_call(argv[who]);
			samples[who][i] = gate_now_ns() - began;
		}
	}

	spooler_print(report, "run to its end", samples, SPOOLER_RUNS);
	gate_time(report, "run_true", gate_quantile(samples[SPOOLER_SLUICE], SPOOLER_RUNS, 0.5),
		  "ms", SPOOLER_RUN_GATE_MS, samples[SPOOLER_SLUICE], SPOOLER_RUNS);
}

/* Short jobs in one call here, one call each there, until the last has ended. */
static uint64_t spooler_many(enum spooler_who who, const char *path, uint64_t *out_submitted_ns)
{
	const char *const sluice[] = {BENCH_SLUICE, "run", "-d", "-g", "0", "--lines", path, NULL};
	const char *const wait[] = {"tsp", "-w", NULL};
	uint64_t began = gate_now_ns();

	if (who == SPOOLER_SLUICE)
		spooler_call(sluice);
	for (size_t i = 0; who == SPOOLER_TSP && i < SPOOLER_LINES; i++)
		spooler_queue(who, "--nothing", "");

	*out_submitted_ns = gate_now_ns() - began;
	if (who == SPOOLER_TSP)
		spooler_call(wait); /* the last one: those before it have ended, or do with it */

	while (who == SPOOLER_SLUICE && rig_pending(&spooler_rig) + rig_running(&spooler_rig) > 0)
		(void)usleep(SPOOLER_LOOK_US);

	return gate_now_ns() - began;
}

static void spooler_lines(struct gate_report *report)
{
	static uint64_t whole[SPOOLER_COUNT][SPOOLER_SUBMITS];
	uint64_t submitted[SPOOLER_LINES_RUNS] = {0}, other;
	char path[RIG_PATH_MAX + 16];

	(void)snprintf(path, sizeof(path), "%s/lines", spooler_rig.directory);
	FILE *file = fopen(path, "we");
	rig_must(file, "cannot write %s", path);
	for (size_t i = 0; i < SPOOLER_LINES; i++)
		(void)fprintf(file, "exec %s --nothing ''\n", spooler_self);
	rig_must(fclose(file) == 0, "cannot write %s", path);

	for (size_t i = 0; i < SPOOLER_LINES_RUNS; i++) {
		whole[SPOOLER_TSP][i] = spooler_many(SPOOLER_TSP, path, &other);
		whole[SPOOLER_SLUICE][i] = spooler_many(SPOOLER_SLUICE, path, &submitted[i]);
	}

	double ratio = spooler_ratio(whole[SPOOLER_SLUICE], whole[SPOOLER_TSP], SPOOLER_LINES_RUNS);
	gate_note(report, "%d lines in one call: submitted in %.2f s (median)", SPOOLER_LINES,
		  gate_quantile(submitted, SPOOLER_LINES_RUNS, 0.5) / 1e9);
	for (int who = 0; who < SPOOLER_COUNT; who++)
		gate_note(report, "%d short jobs to the end of the last, %s: %.2f s (median)",
			  SPOOLER_LINES, spooler_names[who],
			  gate_quantile(whole[who], SPOOLER_LINES_RUNS, 0.5) / 1e9);

	gate_value(report, "lines_1000", ratio, "x task-spooler", GATE_AT_MOST, 1.5);
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "--stamp") == 0)
		return rig_stamp(argv[2]);
	if (argc == 3 && strcmp(argv[1], "--nothing") == 0)
		return 0;

	struct gate_report *report =
	    gate_open(argc, argv, "spooler",
		      "Measures the local queue side by side with task-spooler (tsp), each by its\n"
		      "program. task-spooler writes nothing to the disk.",
		      true, NULL);
	ssize_t length = readlink("/proc/self/exe", spooler_self, sizeof(spooler_self) - 1);

	rig_must(length > 0, "cannot tell where this program is");
	rig_open(&spooler_rig);
	(void)rig_start_agent(&spooler_rig);

	char socket[RIG_PATH_MAX + 16];
	(void)snprintf(socket, sizeof(socket), "%s/tsp", spooler_rig.directory);
	rig_must(setenv("SLUICE_SOCKET", spooler_rig.socket, 1) == 0 &&
		     setenv("TS_SOCKET", socket, 1) == 0 &&
		     setenv("TMPDIR", spooler_rig.directory, 1) == 0 &&
		     setenv("TS_SLOTS", "8", 1) == 0,
		 "no memory");
	spooler_start(report);
	spooler_submit(report);
	spooler_run(report);
	spooler_lines(report);
	const char *const stop[] = {"tsp", "-K", NULL};
	spooler_call(stop);

	while (rig_pending(&spooler_rig) + rig_running(&spooler_rig) > 0)
		(void)usleep(SPOOLER_LOOK_US);

	rig_terminate_agent(&spooler_rig);
	return gate_close(report);
}
