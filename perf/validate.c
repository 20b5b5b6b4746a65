/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long `sluice validate` takes on simulated machines of up to sixteen GPUs: real time of this
 * machine, in which every copy and product is computed truly. Simulated figures say nothing of a
 * GPU.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf/gate.h"

enum { PATH_SIZE = 512, COMMAND_SIZE = 4096 };

/* Runs it by a shell; its exit code, and how long it took. */
static int timed(const char *command, uint64_t *out_ns)
{
	uint64_t start = gate_now_ns();
	int status = system(command);
	*out_ns = gate_now_ns() - start;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static void measure(struct gate_report *report, const char *directory, const char *profile,
		    const char *level, double limit_ms)
{
	char command[COMMAND_SIZE], name[PATH_SIZE];
	uint64_t ns = 0;

	(void)snprintf(command, sizeof(command),
		       "'%s' sim exec --state '%s/%s/state' --root '%s/%s/root' -- '%s' validate "
		       "--level %s --output json >/dev/null 2>&1",
		       BENCH_SLUICE, directory, profile, directory, profile, BENCH_SLUICE, level);
	int code = timed(command, &ns);

	(void)snprintf(name, sizeof(name), "%s_level_%s", profile, level);
	if (code != 0) {
		gate_note(report, "%s: exit code %d", name, code);
		ns = UINT64_MAX / 2; /* misses its gate */
	}

	gate_time(report, name, (double)ns, "ms", limit_ms, NULL, 0);
}

int main(int argc, char **argv)
{
	static const char *const profiles[] = {"t4x1", "dgx-a100", "dgx2"};
	char directory[] = "/tmp/bench-validate-XXXXXX", command[COMMAND_SIZE];
	struct gate_report *report = gate_open(
	    argc, argv, "validate",
	    "How long sluice validate takes on simulated machines: level 1 within 5 s, level "
	    "2 within 60 s.",
	    true, NULL);
	uint64_t ns;

	if (!mkdtemp(directory))
		return 1;

	(void)setenv("SLUICE_PROFILES", BENCH_PROFILES, 1);

	for (size_t i = 0; i < sizeof(profiles) / sizeof(profiles[0]); i++) {
		(void)snprintf(
		    command, sizeof(command),
		    "mkdir -p '%s/%s' && '%s' sim start --alongside --profile '%s' --state "
		    "'%s/%s/state' --root '%s/%s/root' >/dev/null",
		    directory, profiles[i], BENCH_SLUICE, profiles[i], directory, profiles[i],
		    directory, profiles[i]);
		if (timed(command, &ns) != 0)
			gate_note(report, "%s: cannot be started", profiles[i]);
		measure(report, directory, profiles[i], "1", 5000);
		measure(report, directory, profiles[i], "2", 60000);
		(void)snprintf(command, sizeof(command),
			       "'%s' sim stop --state '%s/%s/state' --root '%s/%s/root' >/dev/null",
			       BENCH_SLUICE, directory, profiles[i], directory, profiles[i]);
		(void)timed(command, &ns);
	}

	(void)snprintf(command, sizeof(command), "rm -rf '%s'", directory);
	(void)timed(command, &ns);
	return gate_close(report);
}
