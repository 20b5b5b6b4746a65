/* SPDX-License-Identifier: Apache-2.0 */
/* What the simulated machine costs those who look at it: a read, a write, waking fifty waiters. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf/gate.h"
#include "sim/error.h"
#include "sim/physics.h"
#include "sim/profile.h"
#include "sim/state.h"

enum bench_limits {
	BENCH_ROUNDS = 1000,
	BENCH_READS = 1000, /* in one sample */
	BENCH_WAITERS = 50,
	BENCH_DEADLINE_S = 60,
	BENCH_LONG_MS = 60000,
};

/* Where the waiters say which event they have seen, and when. */
struct bench_board {
	struct {
		_Alignas(64) uint64_t seen, at_ns;
	} waiter[BENCH_WAITERS];
};

static struct sim_machine bench_machine;
static uint64_t bench_samples[BENCH_ROUNDS];
static char bench_path[SIM_PATH_MAX];

static void bench_fail(const char *what, const char *why)
{
	(void)fprintf(stderr, "bench sim: %s: %s\n", what, why);
	exit(1);
}

static struct sim_state *bench_open(void)
{
	struct sim_state *state = NULL;
	struct sim_error error;

	if (sim_state_open(bench_path, &state, &error) != SIM_OPEN_OK)
		bench_fail("opening the state", error.text);
	return state;
}

/* A dgx2 whose 16 GPUs all work, on the real clock. */
static void bench_start(const char *directory)
{
	struct sim_error error;

	if (setenv("SLUICE_PROFILES", BENCH_PROFILES, 0) < 0 ||
	    sim_profile_load("dgx2", NULL, &bench_machine, &error) < 0)
		bench_fail("profile dgx2", error.text);

	for (uint32_t i = 0; i < bench_machine.gpu_count; i++)
		bench_machine.gpu[i].process[0] = (struct sim_process){.pid = 1 + i,
								       .host_pid = 1 + i,
								       .type = SIM_PROCESS_COMPUTE,
								       .gi = SIM_WHOLE_GPU,
								       .ci = SIM_WHOLE_GPU,
								       .util_permille = 900,
								       .membw_permille = -1};

	(void)snprintf(bench_path, sizeof(bench_path), "%s/sim.state", directory);
	if (sim_state_create(bench_path, &bench_machine, &error) < 0)
		bench_fail("creating the state", error.text);
}

/* The machine works from its first tick on, 100 ms after its start. */
static void bench_wait_for_work(struct sim_state *state)
{
	uint64_t end = gate_now_ns() + UINT64_C(10) * 1000000000;
	bool works = false;

	while (!works && gate_now_ns() < end) {
		works = sim_state_read(state)->gpu[0].util_permille > 0;
		sim_state_read_done(state);
	}

	if (!works)
		bench_fail("waiting for the first tick", "no GPU works");
}

static void bench_reads(struct gate_report *report, struct sim_state *state)
{
	uint64_t sum = 0;

	bench_wait_for_work(state);

	for (uint32_t i = 0; i < BENCH_ROUNDS; i++) {
		uint64_t start = gate_now_ns();

		for (uint32_t k = 0; k < BENCH_READS; k++) {
			sum += sim_state_read(state)->gpu[k % 16].util_permille;
			sim_state_read_done(state);
		}

		bench_samples[i] = (gate_now_ns() - start) / BENCH_READS;
	}

	if (sum == 0)
		bench_fail("reading", "no GPU works");
	gate_time(report, "sim_read", gate_quantile(bench_samples, BENCH_ROUNDS, 0.5), "us", 1,
		  bench_samples, BENCH_ROUNDS);
}

static void bench_writes(struct gate_report *report, struct sim_state *state)
{
	for (uint32_t i = 0; i < BENCH_ROUNDS; i++) {
		uint64_t start = gate_now_ns();

		if (!sim_state_write(state))
			bench_fail("writing", "no lock");
		sim_state_commit(state);
		bench_samples[i] = gate_now_ns() - start;
	}

	gate_note(report, "a change of 16 GPUs: %.0f us (median)",
		  gate_quantile(bench_samples, BENCH_ROUNDS, 0.5) / 1000);
}

static bool bench_any(const struct sim_event *event, void *context)
{
	(void)event;
	(void)context;
	return true;
}

static void bench_waiter(struct bench_board *board, uint32_t index)
{
	struct sim_state *state = bench_open();
	struct sim_event event = {0};

	(void)alarm(BENCH_DEADLINE_S);

	for (;;) {
		uint64_t after = event.number;

		if (sim_state_wait_event(state, after, BENCH_LONG_MS, bench_any, NULL, &event,
					 NULL) == 0)
			continue;

		board->waiter[index].at_ns = gate_now_ns();
		__atomic_store_n(&board->waiter[index].seen, event.number, __ATOMIC_RELEASE);
	}
}

/* Until all have seen event `number`; the time at which the last one did. */
static uint64_t bench_last_seen(const struct bench_board *board, uint64_t number)
{
	uint64_t last = 0, deadline = gate_now_ns() + UINT64_C(10000000000);

	for (uint32_t i = 0; i < BENCH_WAITERS; i++) {
		while (__atomic_load_n(&board->waiter[i].seen, __ATOMIC_ACQUIRE) < number) {
			if (gate_now_ns() > deadline)
				bench_fail("waiting for the waiters", "one does not wake");
			(void)usleep(200);
		}

		if (board->waiter[i].at_ns > last)
			last = board->waiter[i].at_ns;
	}

	return last;
}

static void bench_events(struct gate_report *report, struct sim_state *state)
{
	struct bench_board *board =
	    mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t waiters[BENCH_WAITERS];

	if (board == MAP_FAILED)
		bench_fail("sharing memory", "mmap");

	for (uint32_t i = 0; i < BENCH_WAITERS; i++) {
		waiters[i] = fork();
		if (waiters[i] == 0)
			bench_waiter(board, i);
		if (waiters[i] < 0)
			bench_fail("starting a waiter", "fork");
	}

	for (uint32_t i = 0; i < BENCH_ROUNDS + 1; i++) {
		struct sim_event event = {.type = 0x8, .data = 43};
		struct sim_machine *draft = sim_state_write(state);
		uint64_t start = gate_now_ns(), last;

		if (!draft)
			bench_fail("writing", "no lock");
		sim_machine_event(draft, &event);
		sim_state_commit(state);
		last = bench_last_seen(board, sim_state_last_event(state));

		if (i > 0) /* the first finds them starting */
			bench_samples[i - 1] = last - start;
	}

	for (uint32_t i = 0; i < BENCH_WAITERS; i++) {
		(void)kill(waiters[i], SIGKILL);
		(void)waitpid(waiters[i], NULL, 0);
	}

	gate_time(report, "sim_event_50", gate_quantile(bench_samples, BENCH_ROUNDS, 0.5), "ms", 5,
		  bench_samples, BENCH_ROUNDS);
	gate_note(report, "an event to the last of 50 waiters, 99th percentile: %.2f ms",
		  gate_quantile(bench_samples, BENCH_ROUNDS, 0.99) / 1e6);
}

/* What a program pays that looks at a machine nobody has looked at for a day. */
static void bench_day(struct gate_report *report)
{
	static const char *const names[] = {"steady", "burst", "sine"};

	for (uint32_t shape = SIM_SHAPE_STEADY; shape <= SIM_SHAPE_SINE; shape++) {
		uint64_t start;

		for (uint32_t i = 0; i < bench_machine.gpu_count; i++)
			bench_machine.gpu[i].process[0].shape = (uint8_t)shape;

		start = gate_now_ns();
		sim_physics_advance(&bench_machine, bench_machine.tick + 864000);
		gate_note(report, "catching up a day of 16 GPUs, %s load: %.1f ms", names[shape],
			  (double)(gate_now_ns() - start) / 1e6);
	}
}

int main(int argc, char **argv)
{
	struct gate_report *report = gate_open(
	    argc, argv, "sim", "What a simulated machine costs those who look at it.", true, NULL);
	char directory[] = "/tmp/sluice-bench-sim.XXXXXX";
	struct sim_state *state;
	struct stat status;

	if (!mkdtemp(directory))
		bench_fail("making a directory", directory);
	bench_start(directory);
	state = bench_open();
	bench_reads(report, state);
	bench_writes(report, state);
	bench_events(report, state);
	bench_day(report);

	if (stat(bench_path, &status) < 0)
		bench_fail("looking at the state", bench_path);
	gate_value(report, "sim_state_file", (double)status.st_size / 1024, "KiB", GATE_AT_MOST,
		   2048);
	(void)sim_state_close(state);
	(void)unlink(bench_path);
	(void)rmdir(directory);

	return gate_close(report);
}
