/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast `sluice mlperf summary` reads logs of training, and with how much memory: a gigabyte in
 * which one line of 100 is an event, as programs that print each step make it, and a tenth of it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf/gate.h"

enum { MLPERF_NOISE_LINES = 99, MLPERF_RUNS = 3, MLPERF_PATH_MAX = 256 };

#define MLPERF_LARGE UINT64_C(1000000000)
#define MLPERF_SMALL UINT64_C(100000000)

static void mlperf_event(FILE *file, uint64_t ms, const char *key, const char *metadata)
{
	(void)fprintf(file,
		      "0: :::MLLOG {\"namespace\": \"\", \"time_ms\": %llu, \"event_type\": "
		      "\"POINT_IN_TIME\", \"key\": \"%s\", \"value\": 0.5, \"metadata\": %s}\n",
		      (unsigned long long)ms, key, metadata);
}

/* false: there is no room. */
static bool mlperf_write(const char *path, uint64_t bytes)
{
	FILE *file = fopen(path, "we");
	if (!file)
		return false;

	mlperf_event(file, 1000, "run_start", "{}");

	for (uint64_t step = 0; (uint64_t)ftell(file) < bytes && !ferror(file); step++) {
		for (int i = 0; i < MLPERF_NOISE_LINES; i++)
			(void)fprintf(file,
				      "0: step %llu.%d: loss 4.5678, learning rate 0.001, "
				      "1234.5 samples/s\n",
				      (unsigned long long)step, i);

		mlperf_event(file, 2000 + step, "tracked_stats", "{\"step\": 1}");
	}

	mlperf_event(file, 61000, "run_stop", "{\"status\": \"success\"}");
	bool is_whole = !ferror(file);
	return fclose(file) == 0 && is_whole;
}

/* 0: it failed. `out_bytes`: its largest memory. */
static uint64_t mlperf_read(const char *path, double *out_bytes)
{
	uint64_t began_ns = gate_now_ns();
	struct rusage usage;
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		if (freopen("/dev/null", "w", stdout))
			(void)execl(BENCH_SLUICE, "sluice", "mlperf", "summary", path,
				    (char *)NULL);
		_exit(127);
	}

	/* 3: one run is no score. */
	if (pid < 0 || wait4(pid, &status, 0, &usage) != pid || !WIFEXITED(status) ||
	    WEXITSTATUS(status) != 3)
		return 0;

	*out_bytes = (double)usage.ru_maxrss * 1024;
	return gate_now_ns() - began_ns;
}

int main(int argc, char **argv)
{
	const char *directory = getenv("TMPDIR");
	char large[MLPERF_PATH_MAX], small[MLPERF_PATH_MAX];
	uint64_t samples[MLPERF_RUNS];
	double large_bytes = 0, small_bytes = 0;
	struct gate_report *report = gate_open(argc, argv, "bench-mlperf",
					       "how fast logs of training are read", false, NULL);

	directory = directory ? directory : access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
	(void)snprintf(large, sizeof(large), "%.200s/bench-mlperf-%d-large.log", directory,
		       getpid());
	(void)snprintf(small, sizeof(small), "%.200s/bench-mlperf-%d-small.log", directory,
		       getpid());

	bool is_right = mlperf_write(large, MLPERF_LARGE) && mlperf_write(small, MLPERF_SMALL) &&
			mlperf_read(small, &small_bytes) > 0;
	for (int i = 0; is_right && i < MLPERF_RUNS; i++)
		is_right = (samples[i] = mlperf_read(large, &large_bytes)) > 0;

	(void)unlink(large);
	(void)unlink(small);

	if (is_right) {
		gate_note(report, "1 GB in '%s': one line of %d is an event", directory,
			  MLPERF_NOISE_LINES + 1);
		double median = gate_quantile(samples, MLPERF_RUNS, 0.5);
		gate_time(report, "mlperf_summary_gb", median, "ms", 5000, samples, MLPERF_RUNS);
		gate_value(report, "mlperf_summary_memory", large_bytes / 1048576, "MiB",
			   GATE_AT_MOST, 16);
		gate_value(report, "mlperf_summary_memory_growth", large_bytes / small_bytes,
			   "times", GATE_AT_MOST, 1.1);
	} else {
		(void)fprintf(stderr,
			      "bench-mlperf: writing 1.1 GB below '%s' or reading it failed: "
			      "TMPDIR names another place\n",
			      directory);
	}

	int code = gate_close(report);
	return is_right ? code : 1;
}
