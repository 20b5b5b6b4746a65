/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What specifications for containers cost: `sluice cdi generate`, `list` and `check` as programs,
 * on simulated machines of 16 and of 4 GPUs, and the generation itself, without a program around
 * it, on a made-up driver root of 25 libraries. The driver's own cost is apart: the probe, which
 * loads NVML, is another process and not counted. Time is CPU time; of programs that beyond what it
 * takes to start sluice at all, which is printed beside it.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "perf/footprint_process.h"
#include "perf/gate.h"
#include "perf/queue_rig.h"
#include "cdi/gather.h"
#include "cdi/generate.h"
#include "hardware/gpu.h"
#include "tests/unit/cdi/tree.h"

enum {
	BENCH_CALLS = 1000,
	BENCH_RUNS = 300, /* of a program */
	BENCH_GPUS = 16,
	BENCH_SYSCALL_GPUS = 4, /* of the machine whose system calls are counted */
	BENCH_SYSCALLS_MAX = 400,
	BENCH_FILES = 3,
	BENCH_EVENT_SHIFT = 8, /* of ptrace(2)'s events in a status */
	BENCH_SYSCALL_STOP = SIGTRAP | 0x80,
};

#define BENCH_MIB	   (1024.0 * 1024.0)
#define BENCH_GENERATE_MS  3.0
#define BENCH_GENERATE_MIB 3.0
#define BENCH_LIST_MS	   2.0
#define BENCH_CHECK_MS	   5.0
#define BENCH_VERSION	   "580.105.08"

/* --- programs -------------------------------------------------------------------------------- */

struct program {
	uint64_t cpu_ns, pss, rss, private_dirty;
	int status;
};

static int program_wait(pid_t pid)
{
	int status;
	rig_must(waitpid(pid, &status, 0) == pid, "cannot wait for %d", (int)pid);
	return status;
}

static void program_trace(enum __ptrace_request how, pid_t pid, long data)
{
	rig_must(ptrace(how, pid, NULL, (void *)data) == 0,
		 "cannot trace: is ptrace(2) allowed here?");
}

/* A child that stops before it begins, and is traced with these options. */
static pid_t program_start(const char *const *arguments, long options)
{
	pid_t pid = fork();
	rig_must(pid >= 0, "cannot fork");

	if (pid > 0) {
		rig_must(WIFSTOPPED(program_wait(pid)), "cannot begin");
		program_trace(PTRACE_SETOPTIONS, pid, options | PTRACE_O_EXITKILL);
		return pid;
	}

	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0 || dup2(null, STDOUT_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0 ||
	    ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
		_exit(125);

	(void)raise(SIGSTOP); /* from here on it counts */
	(void)execv(BENCH_SLUICE, (char *const *)arguments);
	_exit(126);
}

/* Runs it and looks at it when all is done, just before its memory is gone. What it starts is not
 * followed. */
static struct program program_run(const char *const *arguments)
{
	struct program program = {.status = -1};
	struct footprint before = {.pid = 0}, after = {.pid = 0};
	pid_t pid = program_start(arguments, PTRACE_O_TRACEEXIT);
	int status, deliver = 0;

	(void)footprint_read_cpu(pid, &before.cpu_ns);

	for (;;) {
		program_trace(PTRACE_CONT, pid, deliver);
		status = program_wait(pid);
		deliver = 0;

		if (WIFEXITED(status) || WIFSIGNALED(status))
			break;

		if (status >> BENCH_EVENT_SHIFT ==
		    (SIGTRAP | PTRACE_EVENT_EXIT << BENCH_EVENT_SHIFT)) {
			(void)footprint_read_cpu(pid, &after.cpu_ns);
			(void)footprint_read(pid, &after);
		} else if (WSTOPSIG(status) != SIGTRAP) {
			deliver = WSTOPSIG(status);
		}
	}

	program.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	program.cpu_ns = after.cpu_ns - before.cpu_ns;
	program.pss = after.pss;
	program.rss = after.rss;
	program.private_dirty = after.private_dirty;

	return program;
}

/* The median of many runs by CPU time; memory is that of the largest. */
static struct program program_measure(const char *const *arguments, uint64_t samples[BENCH_RUNS])
{
	struct program most = {.status = 0};

	for (size_t i = 0; i < BENCH_RUNS; i++) {
		struct program one = program_run(arguments);
		rig_must(one.status == 0, "'sluice %s %s' ended with %d", arguments[1],
			 arguments[2] ? arguments[2] : "", one.status);
		samples[i] = one.cpu_ns;

		if (one.pss > most.pss)
			most = one;
	}

	most.cpu_ns = (uint64_t)gate_quantile(samples, BENCH_RUNS, 0.5);
	return most;
}

/* How many system calls it makes itself, from where it was stopped on. */
static uint64_t program_count(pid_t pid)
{
	uint64_t stops = 0;
	int status, deliver = 0;

	for (;;) {
		program_trace(PTRACE_SYSCALL, pid, deliver);
		status = program_wait(pid);
		deliver = 0;

		if (WIFEXITED(status) || WIFSIGNALED(status))
			break;
		if (WSTOPSIG(status) == BENCH_SYSCALL_STOP)
			stops++;
		else if (WSTOPSIG(status) != SIGTRAP)
			deliver = WSTOPSIG(status);
	}

	rig_must(WIFEXITED(status) && WEXITSTATUS(status) == 0, "what was counted failed");
	return (stops + 1) / 2; /* in and out; the last does not come out */
}

static void program_files(const char *root)
{
	static const char *const places[BENCH_FILES] = {"/etc/cdi/one.json", "/etc/cdi/two.json",
							"/var/run/cdi/three.json"};
	static const char *const vendors[BENCH_FILES] = {"one.dev", "two.dev", "sluice.sim"};

	for (size_t i = 0; i < BENCH_FILES; i++) {
		char path[FILE_PATH_MAX];
		rig_must(file_path(path, NULL, "%s%s", root, places[i]) == 0, "path too long");
		const char *const arguments[] = {"sluice",   "cdi",	 "generate", "--vendor",
						 vendors[i], "--output", path,	     NULL};
		rig_must(program_run(arguments).status == 0, "cannot write %s", path);
	}
}

/* A command's time is gated without what starting any command of sluice takes. */
static void bench_command(struct gate_report *report, const char *gate, double limit_ms,
			  const struct program *bare, const struct program *one, uint64_t *samples)
{
	gate_note(report, "sluice, as a program: %s %.2f ms, of which %.2f ms to start; best %.2f",
		  gate, (double)one->cpu_ns / 1e6, (double)bare->cpu_ns / 1e6,
		  (double)samples[0] / 1e6);
	for (size_t i = 0; i < BENCH_RUNS; i++)
		samples[i] = samples[i] > bare->cpu_ns ? samples[i] - bare->cpu_ns : 0;
	gate_time(report, gate, gate_quantile(samples, BENCH_RUNS, 0.5), "ms", limit_ms, samples,
		  BENCH_RUNS);
}

static void bench_programs(struct gate_report *report)
{
	static const char *const version[] = {"sluice", "--version", NULL};
	static const char *const generate[] = {"sluice", "cdi", "generate", NULL};
	static const char *const list[] = {"sluice", "cdi", "list", NULL};
	static const char *const check[] = {"sluice", "cdi", "check", NULL};

	static uint64_t samples[BENCH_RUNS];
	struct rig rig;

	rig_open_machine(&rig, "dgx2", NULL);
	struct program bare = program_measure(version, samples);
	struct program one = program_measure(generate, samples);

	bench_command(report, "cdi_time", BENCH_GENERATE_MS, &bare, &one, samples);
	gate_note(
	    report,
	    "sluice cdi generate, %d GPUs: resident %.2f MiB, of which its own %.2f MiB "
	    "(sluice --version: %.2f MiB); %llu system calls, with the loader's and the wait "
	    "for the probe",
	    BENCH_GPUS, (double)one.rss / BENCH_MIB, (double)one.private_dirty / BENCH_MIB,
	    (double)bare.rss / BENCH_MIB,
	    (unsigned long long)program_count(program_start(generate, PTRACE_O_TRACESYSGOOD)));
	gate_value(report, "cdi_memory", (double)one.pss / BENCH_MIB, "MiB", GATE_AT_MOST,
		   BENCH_GENERATE_MIB);
	rig_close(&rig);
	rig_open_machine(&rig, "t4x4", NULL);
	program_files(getenv("SLUICE_ROOT"));
	bare = program_measure(version, samples);
	one = program_measure(list, samples);
	bench_command(report, "cdi_list", BENCH_LIST_MS, &bare, &one, samples);
	one = program_measure(check, samples);
	bench_command(report, "cdi_check", BENCH_CHECK_MS, &bare, &one, samples);
	rig_close(&rig);
}

/* --- the generation itself ------------------------------------------------------------------- */

struct made {
	char top[FILE_PATH_MAX];
	struct inventory inventory;
	struct gpu gpus[BENCH_GPUS];
};

/* The tree's nodes are plain files. */
static int made_look(void *context, const char *path, struct stat *out)
{
	(void)context;
	if (lstat(path, out) != 0)
		return -1;
	out->st_mode = S_IFCHR | 0666;
	return 0;
}

static void made_init(struct made *made, const struct rig *rig, uint32_t gpus)
{
	char address[PCI_TEXT_MAX];

	memset(made, 0, sizeof(*made));
	rig_must(file_path(made->top, NULL, "%s/made-%u", rig->directory, gpus) == 0,
		 "path too long");
	tree_module(made->top, BENCH_VERSION);
	tree_libraries(made->top, "/usr/lib/x86_64-linux-gnu", BENCH_VERSION);
	tree_programs(made->top, BENCH_VERSION);
	tree_control(made->top);
	made->inventory.gpus = made->gpus;
	made->inventory.gpu_count = gpus;

	for (uint32_t i = 0; i < gpus; i++) {
		struct gpu *gpu = &made->gpus[i];
		*gpu = (struct gpu){
		    .index = i, .minor = i, .has_pci = true, .pci = {.bus = (uint8_t)(i + 1)}};
		(void)snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%08x-0000-0000-0000-000000000000",
			       i);
		tree_gpu(made->top, i, pci_address_to_string(&gpu->pci, address), i);
	}
}

static void made_generate(const struct made *made, bool is_written)
{
	struct err err = {.code = 0};
	_cleanup_gather_ struct gather gather = {.has_driver = false};
	const struct gather_options from = {.root = made->top};
	const struct generate_options options = {.kind = "nvidia.com/gpu",
						 .root = made->top,
						 .capabilities = DRIVER_ALL,
						 .names = GENERATE_INDEX | GENERATE_UUID,
						 .layout = GENERATE_AUTO,
						 .look = made_look};
	_cleanup_buf_ struct buf text;

	buf_init(&text, GENERATE_TEXT_MAX);
	int rc = gather_read(&from, &gather, &err);
	if (rc == 0)
		rc = gather_check(&gather, "", &err);
	if (rc == 0)
		rc = generate_text(&made->inventory, gather.minors, &gather.driver, &options, &text,
				   NULL, &err);

	char path[FILE_PATH_MAX];

	if (rc == 0)
		rc = file_path(path, &err, "%s/out.json", made->top);
	if (rc == 0 && is_written)
		rc = file_write_atomic(path, text.data, text.length, 0644, &err);
	rig_must(rc == 0, "%s", err.text);
}

static uint64_t made_cpu_ns(void)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now); /* cannot fail with a valid clock */
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* What a child does between a stop and its end. */
static uint64_t made_count(const struct made *made, bool is_work)
{
	pid_t pid = fork();
	rig_must(pid >= 0, "cannot fork");

	if (pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
			_exit(125);
		(void)raise(SIGSTOP);
		if (is_work)
			made_generate(made, true);
		_exit(0);
	}

	rig_must(WIFSTOPPED(program_wait(pid)), "cannot begin");
	program_trace(PTRACE_SETOPTIONS, pid, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
	return program_count(pid);
}

static void bench_generation(struct gate_report *report)
{
	static uint64_t samples[BENCH_CALLS];
	static struct made made, small;
	struct rig rig;

	rig_open(&rig); /* for its directory */
	made_init(&made, &rig, BENCH_GPUS);
	made_init(&small, &rig, BENCH_SYSCALL_GPUS);

	for (size_t i = 0; i < BENCH_CALLS; i++) {
		uint64_t start = made_cpu_ns();
		made_generate(&made, false);
		samples[i] = made_cpu_ns() - start;
	}

	gate_note(report, "generation alone, %d GPUs, %d libraries: %.2f ms", BENCH_GPUS,
		  TREE_LIBRARIES, gate_quantile(samples, BENCH_CALLS, 0.5) / 1e6);
	uint64_t calls = made_count(&small, true) - made_count(&small, false);
	gate_value(report, "cdi_syscalls", (double)calls, "calls", GATE_AT_MOST,
		   BENCH_SYSCALLS_MAX);
	rig_close(&rig);
}

int main(int argc, char **argv)
{
	struct gate_report *report = gate_open(
	    argc, argv, "bench-cdi",
	    "What container specifications cost to generate, list and check.", true, NULL);
	bench_generation(report);

	if (geteuid() == 0)
		bench_programs(report);
	else
		gate_note(report, "not measured: the programs, as only root can make device nodes");

	return gate_close(report);
}
