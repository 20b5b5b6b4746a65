/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a CDI device adds to the start of a container: podman starts one and waits for its end,
 * without a device, with one of `sluice cdi generate`, and with the nodes of that device alone, in
 * turn, on a simulated machine. Processor time is that of podman, conmon, the runtime and the
 * container, whoever started them. The nodes alone say what CDI itself costs: podman looks for
 * specifications and reads them. The rest is the mounts of the driver's files.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/parse.h"
#include "perf/gate.h"

enum {
	START_ROUNDS = 60,
	START_WARM = 2,
	START_SKIPPED = 77, /* meson's word for it */
	START_TEXT_MAX = 4096,
};

/* What was measured, with room for a machine that has more to do: the nodes alone 1.01 to 1.04, all
 * files for images of both layouts 1.07 to 1.18 (doc/measurements.md, which says why there are not
 * fewer mounts). */
#define START_NODES_RATIO  1.06
#define START_DEVICE_RATIO 1.20

/* Without a device; with its nodes; with its nodes and the driver's files. */
enum start_kind { START_WITHOUT, START_NODES, START_DEVICE, START_KINDS };

/* Says which directory the machine lies in to the second run of this program, which is inside it.
 */
#define START_DIRECTORY "BENCH_CONTAINER_START"

/* As on a machine without systemd, with cgroups of both generations. Prints why it cannot work. */
static const char prepare[] = "set -e; exec 3>&1 >>log 2>&1\n"
			      "[ \"$(id -u)\" = 0 ] || { echo 'needs root' >&3; exit 1; }\n"
			      "for program in podman conmon runc busybox; do\n"
			      "	command -v $program || { echo \"$program is not installed: "
			      "tools/setup check runtimes\" >&3; exit 1; }\n"
			      "done\n"
			      "cat >containers.conf <<'E'\n"
			      "[containers]\n"
			      "default_ulimits = [\"nofile=1024:1024\", \"nproc=4096:4096\"]\n"
			      "netns = \"none\"\n"
			      "[engine]\n"
			      "cgroup_manager = \"cgroupfs\"\n"
			      "runtime = \"runc\"\n"
			      "events_logger = \"none\"\n"
			      "E\n"
			      "printf '#!/bin/sh\\nexec podman --root %s/storage --runroot %s/run "
			      "--tmpdir %s/tmp --storage-driver vfs \"$@\"\\n' \\\n"
			      "	\"$PWD\" \"$PWD\" \"$PWD\" >podman && chmod 755 podman\n"
			      "mkdir -p box/bin box/proc box/sys box/dev box/tmp box/etc "
			      "box/usr/lib64 box/usr/lib/x86_64-linux-gnu\n"
			      "cp \"$(command -v busybox)\" box/bin/true\n"
			      "$SLUICE sim start --alongside --profile hgx-h100 --dev-style nvidia "
			      "--root \"$PWD/root\" --state \"$PWD/state\" ||\n"
			      "	{ echo 'no simulated machine can be made' >&3; exit 1; }\n"
			      "mkdir -p root/var/run/cdi\n"
			      "$SLUICE sim exec --state \"$PWD/state\" -- $SLUICE cdi generate "
			      "--output \"$PWD/device.json\"\n"
			      "sed -e ':a;N;$!ba;s/,\\n *\"mounts\": .*]}]\\n/\\n/' device.json "
			      ">nodes.json\n"
			      "grep -c containerPath device.json >mounts\n"
			      "! grep -q containerPath nodes.json\n"
			      "tar -C box -c . | ./podman import - localhost/box:1\n";

/* Nothing here needs the hundreds of mounts of its trees, with which every container would begin.
 */
static const char only_specifications[] =
    "umount /proc/driver /proc/devices && umount -l /sys /dev && exec \"$@\"";

static const char tidy[] =
    "{ ./podman rm --all --force; $SLUICE sim stop --state \"$PWD/state\"; } >>log 2>&1\n"
    "cd / && rm -rf \"$OLDPWD\"";

static _Noreturn void fail(const char *what)
{
	(void)fprintf(stderr, "bench-container-start: %s: %s\n", what, strerror(errno));
	exit(2);
}

/* Starts a program and waits until it and all that it left behind have ended. */
static int run(const char *const argv[])
{
	pid_t pid = fork();
	if (pid < 0)
		fail("fork");

	if (pid == 0) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);
		(void)dup2(null, STDIN_FILENO);
		if (strcmp(argv[0], "sh") != 0)
			(void)dup2(null, STDOUT_FILENO);
		(void)execvp(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}

	int rc = 0, status;
	for (pid_t ended; (ended = waitpid(-1, &status, 0)) > 0 || errno == EINTR;)
		if (ended == pid)
			rc = status;

	return WIFEXITED(rc) ? WEXITSTATUS(rc) : 128;
}

static int shell(const char *script)
{
	const char *const argv[] = {"sh", "-c", script, NULL};
	return run(argv);
}

/* --- inside the machine ----------------------------------------------------------------------- */

struct cost {
	uint64_t wall_ns, cpu_ns;
};

static uint64_t cpu_now_ns(void)
{
	struct rusage usage;
	(void)getrusage(RUSAGE_CHILDREN, &usage);
	uint64_t us = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
		      (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
	return us * 1000;
}

/* The one specification that there is: podman reads them all. */
static void use_specification(const char *directory, enum start_kind kind)
{
	static const char *const names[] = {
	    [START_NODES] = "nodes.json", [START_DEVICE] = "device.json"};
	char from[START_TEXT_MAX], to[START_TEXT_MAX];
	(void)snprintf(to, sizeof(to), "%s/root/var/run/cdi/made.json", directory);
	(void)unlink(to);

	if (kind == START_WITHOUT)
		return;

	(void)snprintf(from, sizeof(from), "%s/%s", directory, names[kind]);
	if (link(from, to) != 0)
		fail(to);
}

static struct cost start(const char *directory, enum start_kind kind)
{
	char podman[START_TEXT_MAX];
	(void)snprintf(podman, sizeof(podman), "%s/podman", directory);
	const char *const with[] = {
	    podman,	 "run", "--rm", "--device", "sluice.sim/gpu=0", "localhost/box:1",
	    "/bin/true", NULL};
	const char *const without[] = {podman, "run", "--rm", "localhost/box:1", "/bin/true", NULL};
	use_specification(directory, kind);

	uint64_t wall = gate_now_ns(), cpu = cpu_now_ns();

	if (run(kind == START_WITHOUT ? without : with) != 0)
		fail("podman did not start a container");

	return (struct cost){gate_now_ns() - wall, cpu_now_ns() - cpu};
}

/* Of the ratios to the start without a device of each round. */
static double ratio(const uint64_t *with, const uint64_t *without)
{
	uint64_t ratios[START_ROUNDS];
	for (size_t i = 0; i < START_ROUNDS; i++)
		ratios[i] = with[i] * 1000000 / without[i];
	return gate_quantile(ratios, START_ROUNDS, 0.5) / 1e6;
}

static unsigned read_mounts(const char *directory)
{
	char path[START_TEXT_MAX], text[32] = "";
	(void)snprintf(path, sizeof(path), "%s/mounts", directory);

	FILE *file = fopen(path, "re");
	uint64_t mounts;

	if (!file || !fgets(text, sizeof(text), file) ||
	    parse_u64_span(text, strcspn(text, "\n"), 1, 1000, &mounts) != 0)
		fail(path);

	(void)fclose(file);
	return (unsigned)mounts;
}

static int tell(struct gate_report *report, unsigned mounts,
		uint64_t wall[START_KINDS][START_ROUNDS], uint64_t cpu[START_KINDS][START_ROUNDS])
{
	static const char *const names[START_KINDS] = {"without", "its nodes alone",
						       "with a device"};
	double by_nodes = ratio(cpu[START_NODES], cpu[START_WITHOUT]);
	double by_device = ratio(cpu[START_DEVICE], cpu[START_WITHOUT]);
	double by_wall = ratio(wall[START_DEVICE], wall[START_WITHOUT]);
	double median[START_KINDS];

	for (int kind = 0; kind < START_KINDS; kind++) {
		median[kind] = gate_quantile(cpu[kind], START_ROUNDS, 0.5) / 1e6;
		gate_note(report, "%s: median %.1f ms, processor time %.1f ms, least %.1f ms",
			  names[kind], gate_quantile(wall[kind], START_ROUNDS, 0.5) / 1e6,
			  median[kind], gate_quantile(cpu[kind], START_ROUNDS, 0) / 1e6);
	}

	gate_note(report, "%u mounts: %.2f ms of processor time each", mounts,
		  (median[START_DEVICE] - median[START_NODES]) / mounts);
	gate_note(report, "ratio of the times with a device to those without, median: %.3f",
		  by_wall);
	gate_value(report, "container_nodes", by_nodes, "of the processor time", GATE_AT_MOST,
		   START_NODES_RATIO);
	gate_value(report, "container_start", by_device, "of the processor time", GATE_AT_MOST,
		   START_DEVICE_RATIO);

	return gate_close(report);
}

static int measure(int argc, char **argv, const char *directory)
{
	struct gate_report *report =
	    gate_open(argc, argv, "container_start",
		      "What a CDI device adds to the start of a container, with podman and runc.",
		      true, NULL);
	if (!report)
		fail("opening the report");
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
		fail("becoming the parent of what podman leaves");

	static uint64_t wall[START_KINDS][START_ROUNDS], cpu[START_KINDS][START_ROUNDS];

	for (int i = -START_WARM; i < START_ROUNDS; i++) {
		/* Each has each place of its round as often as the others. */
		for (int turn = 0; turn < START_KINDS; turn++) {
			int kind = (i + START_WARM + turn) % START_KINDS;
			struct cost cost = start(directory, (enum start_kind)kind);

			if (i < 0)
				continue;

			wall[kind][i] = cost.wall_ns;
			cpu[kind][i] = cost.cpu_ns;
		}
	}

	return tell(report, read_mounts(directory), wall, cpu);
}

/* --- outside ---------------------------------------------------------------------------------- */

static int enter(int argc, char **argv, const char *directory)
{
	char state[START_TEXT_MAX], configuration[START_TEXT_MAX], program[START_TEXT_MAX] = "";
	if (readlink("/proc/self/exe", program, sizeof(program) - 1) < 0)
		fail("finding this program");
	(void)snprintf(state, sizeof(state), "%s/state", directory);
	(void)snprintf(configuration, sizeof(configuration), "%s/containers.conf", directory);

	if (setenv("CONTAINERS_CONF", configuration, 1) != 0 ||
	    setenv(START_DIRECTORY, directory, 1) != 0)
		fail("setenv");

	pid_t pid = fork();
	if (pid == 0) {
		const char *const head[] = {
		    BENCH_SLUICE, "sim",     "exec", "--mounts",	  "--state", state,
		    "--",	  "/bin/sh", "-c",   only_specifications, "sh",	     program};
		const size_t count = sizeof(head) / sizeof(*head);
		const char **inner = calloc(count + (size_t)argc, sizeof(*inner));
		if (!inner)
			_exit(127);
		memcpy(inner, head, sizeof(head));

		for (int i = 1; i < argc; i++)
			inner[count + (size_t)i - 1] = argv[i];

		(void)execv(BENCH_SLUICE, (char *const *)(uintptr_t)inner);
		_exit(127);
	}

	int status;
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		fail("running inside the machine");

	return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}

int main(int argc, char **argv)
{
	const char *inside = getenv(START_DIRECTORY);
	if (inside)
		return measure(argc, argv, inside);
	if (argc > 1 && strcmp(argv[1], "--help") == 0)
		return measure(argc, argv, "");

	char directory[] = "/tmp/sluice-bench-XXXXXX";
	if (setenv("SLUICE", BENCH_SLUICE, 1) != 0 ||
	    setenv("SLUICE_SIM_LIBDIR", BENCH_LIBDIR, 1) != 0 ||
	    setenv("SLUICE_PROFILES", BENCH_PROFILES, 1) != 0 || !mkdtemp(directory) ||
	    chdir(directory) != 0)
		fail("preparing");

	int status = START_SKIPPED;

	if (shell(prepare) == 0)
		status = enter(argc, argv, directory);
	else
		(void)fprintf(stderr, "bench-container-start: SKIPPED, see above\n");

	(void)shell(tidy);
	return status;
}
