/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reader processes copy the machine as fast as they can while one writer changes it a thousand
 * times a second: no copy may be half old and half new, and no reader may wait.
 * SLUICE_TEST_SECONDS=N sets how long.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim/error.h"
#include "sim/physics.h"
#include "sim/profile.h"
#include "sim/state_private.h"
#include "tests/property/sim.h"

enum { READERS = 4, WRITE_NS = 1000000 };

struct shared {
	uint64_t reads[READERS], torn[READERS], fresh[READERS];
	uint32_t stop;
};

static struct sim_machine machine, copy;

static uint64_t now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* A writer's mark lies at both ends of the machine and in every GPU. */
static void put_mark(struct sim_machine *draft, uint32_t mark)
{
	draft->next_rule_id = mark;
	draft->rule[0].id = draft->rule[SIM_RULE_MAX - 1].id = mark;
	for (uint32_t i = 0; i < draft->gpu_count; i++) {
		draft->gpu[i].irq = mark;
		draft->gpu[i].pcie_errors[10] = mark;
		draft->gpu[i].process[SIM_PROCESS_MAX - 1].host_pid = mark;
	}
}

static bool is_whole(const struct sim_machine *seen)
{
	uint32_t mark = seen->next_rule_id;
	bool whole = seen->rule[0].id == mark && seen->rule[SIM_RULE_MAX - 1].id == mark &&
		     seen->last_event == mark;

	for (uint32_t i = 0; i < seen->gpu_count; i++)
		whole = whole && seen->gpu[i].irq == mark && seen->gpu[i].pcie_errors[10] == mark &&
			seen->gpu[i].process[SIM_PROCESS_MAX - 1].host_pid == mark;
	return whole && seen->gpu_count == 16;
}

/* Half of the readers read as programs do, half copy without end. */
static void reader(const char *path, struct shared *shared, uint32_t index)
{
	struct sim_state *own = NULL;
	uint64_t published = 0, before = UINT64_MAX;

	if (sim_state_open(path, &own, NULL) != SIM_OPEN_OK)
		_exit(1);
	while (!__atomic_load_n(&shared->stop, __ATOMIC_RELAXED)) {
		if (index % 2 == 0) {
			shared->torn[index] += !is_whole(sim_state_read(own));
			published = own->local.seen;
			sim_state_read_done(own);
		} else if (!sim_state_copy_published(own, &copy, &published) || !is_whole(&copy)) {
			shared->torn[index]++;
		}
		shared->fresh[index] += published != before;
		before = published;
		shared->reads[index]++;
	}
	_exit(0);
}

static uint32_t write_for(struct sim_state *state, uint64_t seconds)
{
	uint64_t start = now_ns(), next = start;
	uint32_t mark = 0;

	while (now_ns() < start + seconds * 1000000000) {
		struct timespec pause = {0, WRITE_NS};
		struct sim_machine *draft = sim_state_write(state);
		struct sim_event event = {.type = 0x8, .data = mark + 1};

		if (!draft)
			return 0;
		put_mark(draft, ++mark);
		sim_machine_event(draft, &event);
		sim_state_commit(state);
		next += WRITE_NS;
		if (now_ns() < next)
			(void)nanosleep(&pause, NULL);
	}
	return mark;
}

static void prepare(const char *path, struct sim_state **out_state)
{
	struct sim_error error;

	if (sim_profile_load("dgx2", NULL, &machine, &error) < 0) {
		printf("%s\n", error.text);
		exit(1);
	}
	machine.clock = SIM_CLOCK_VIRTUAL;
	put_mark(&machine, 0);
	if (sim_state_create(path, &machine, &error) < 0 ||
	    sim_state_open(path, out_state, &error) != SIM_OPEN_OK) {
		printf("%s\n", error.text);
		exit(1);
	}
}

int main(void)
{
	const char *text = getenv("SLUICE_TEST_SECONDS");
	uint64_t seconds = text && text[0] >= '1' && text[0] <= '9' ? (uint64_t)(text[0] - '0') : 2;
	char directory[] = "/tmp/sluice-torn.XXXXXX", path[64];
	struct shared *shared =
	    mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct sim_state *state = NULL;
	uint64_t reads = 0, torn = 0, fresh = 0;
	pid_t child[READERS];
	uint32_t writes;
	bool failed = false;

	if (shared == MAP_FAILED || !mkdtemp(directory))
		return 1;
	(void)snprintf(path, sizeof(path), "%s/sim.state", directory);
	prepare(path, &state);
	for (uint32_t i = 0; i < READERS; i++) {
		child[i] = fork();
		if (child[i] == 0)
			reader(path, shared, i);
	}
	writes = write_for(state, seconds);
	__atomic_store_n(&shared->stop, 1, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < READERS; i++) {
		int status;

		failed = failed || waitpid(child[i], &status, 0) < 0 || status != 0;
		reads += shared->reads[i];
		torn += shared->torn[i];
		fresh += shared->fresh[i];
		failed = failed || shared->reads[i] == 0;
	}
	(void)sim_state_close(state);
	(void)unlink(path);
	(void)rmdir(directory);
	printf("%u writes, %llu reads (%llu of a new publication), %llu torn\n", writes,
	       (unsigned long long)reads, (unsigned long long)fresh, (unsigned long long)torn);
	/* without several publications seen, nothing was shown */
	return failed || torn > 0 || writes < 50 || fresh < 20;
}
