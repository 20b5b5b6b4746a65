/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs whose GPUs do nothing, on a machine of one GPU and with a clock of its own. */
#include "doors/queue/queue_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hardware/snapshot.h"
#include "unit/unit.h"

#define SECOND	     UINT64_C(1000000000)
#define IDLE_TIMEOUT (100 * SECOND)

static const char uuid[] = "GPU-51ce51ce-00000001";

struct machine {
	struct queue queue;
	struct queue_job job, *jobs[1];
	struct queue_run run;
	struct launch_grant grant;
	struct snapshot snapshot;
	int supervisor_fd;
};

static int machine_new(void **state)
{
	struct machine *machine = calloc(1, sizeof(*machine));
	int ends[2];
	assert_non_null(machine);
	assert_int_equal(
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
	machine->queue = (struct queue){.options.loop = loop_new(LOOP_FAKE, NULL),
					.snapshot = &machine->snapshot,
					.jobs = machine->jobs,
					.count = 1};
	assert_non_null(machine->queue.options.loop);
	machine->jobs[0] = &machine->job;
	machine->job = (struct queue_job){
	    .queue = &machine->queue,
	    .phase = QUEUE_LAUNCHED,
	    .run = &machine->run,
	    .job = {.id = 1, .state = JOB_RUNNING, .wants = {.idle_ns = IDLE_TIMEOUT}}};
	machine->run = (struct queue_run){.owner = &machine->job,
					  .grants = &machine->grant,
					  .grant_count = 1,
					  .pid = getpid(),
					  .supervisor_pid = getpid(),
					  .control_fd = ends[0],
					  .dir_fd = -1};
	machine->grant = (struct launch_grant){.slot_count = 1, .slots = {1}};
	(void)snprintf(machine->grant.uuid, sizeof(machine->grant.uuid), "%s", uuid);
	machine->supervisor_fd = ends[1];
	machine->snapshot.gpu_count = 1;
	struct snapshot_gpu *gpu = &machine->snapshot.gpu[0];
	(void)snprintf(gpu->uuid, sizeof(gpu->uuid), "%s", uuid);
	snapshot_put(gpu, SNAPSHOT_UTIL_GPU, 0);
	*state = machine;
	return 0;
}

static int machine_free(void **state)
{
	struct machine *machine = *state;
	(void)close(machine->run.control_fd);
	(void)close(machine->supervisor_fd);
	machine->queue.options.loop = loop_free(machine->queue.options.loop);
	free(machine);
	return 0;
}

/* Whether the supervisor was told to end the job. */
static bool is_told(struct machine *machine)
{
	char packet[CONTROL_PACKET_MAX];
	return recv(machine->supervisor_fd, packet, sizeof(packet), MSG_DONTWAIT) > 0;
}

static void pass_time(struct machine *machine, uint64_t seconds)
{
	assert_int_equal(loop_advance(machine->queue.options.loop, seconds * SECOND, NULL), 0);
}

/* `seconds` later somebody looks. */
static void look_after(struct machine *machine, uint64_t seconds)
{
	pass_time(machine, seconds);
	queue_idle(&machine->queue);
}

static void look_ten_times(struct machine *machine, uint64_t seconds)
{
	for (int i = 0; i < 10; i++)
		look_after(machine, seconds);
}

static void it_is_told_when_the_time_is_over(void **state)
{
	struct machine *machine = *state;
	look_after(machine, 0);
	for (int i = 0; i < 9; i++)
		look_after(machine, 10);
	look_after(machine, 9);
	assert_false(is_told(machine));
	look_after(machine, 1);
	assert_true(is_told(machine));
	look_after(machine, 10); /* not again and again */
	assert_false(is_told(machine));
}

static void what_is_done_begins_it_anew(void **state)
{
	struct machine *machine = *state;
	struct snapshot_gpu *gpu = &machine->snapshot.gpu[0];
	const uint32_t values[] = {SNAPSHOT_UTIL_GPU, SNAPSHOT_UTIL_ENCODER, SNAPSHOT_UTIL_DECODER};
	look_after(machine, 0);
	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
		for (int k = 0; k < 9; k++)
			look_after(machine, 10);
		snapshot_put(gpu, values[i], 1);
		look_after(machine, 10);
		snapshot_put(gpu, values[i], 0);
		look_after(machine, 1);
		assert_false(is_told(machine));
	}
	look_ten_times(machine, 10);
	assert_true(is_told(machine));
}

static void a_gap_begins_it_anew(void **state)
{
	struct machine *machine = *state;
	look_ten_times(machine, 60);
	assert_false(is_told(machine));
	look_after(machine, 59);
	assert_false(is_told(machine));
	look_after(machine, 59);
	assert_true(is_told(machine));
}

static void what_is_not_told_is_no_idleness(void **state)
{
	struct machine *machine = *state;
	struct snapshot_gpu *gpu = &machine->snapshot.gpu[0];
	snapshot_drop(gpu, SNAPSHOT_UTIL_GPU);
	look_ten_times(machine, 20);
	assert_false(is_told(machine));
	snapshot_put(gpu, SNAPSHOT_UTIL_GPU, 0);
	(void)snprintf(machine->grant.uuid, sizeof(machine->grant.uuid), "MIG-1");
	look_ten_times(machine, 20);
	assert_false(is_told(machine));
	machine->run.grant_count = 0;
	look_ten_times(machine, 20);
	assert_false(is_told(machine));
	machine->queue.snapshot = NULL; /* no driver */
	look_ten_times(machine, 20);
	assert_false(is_told(machine));
}

static void of_a_share_its_own_processes_count(void **state)
{
	struct machine *machine = *state;
	struct snapshot_gpu *gpu = &machine->snapshot.gpu[0];
	machine->grant.slot_count = 2;
	snapshot_put(gpu, SNAPSHOT_UTIL_GPU, 100); /* others compute */
	gpu->process_total = 1;			   /* one is not told */
	look_ten_times(machine, 20);
	assert_false(is_told(machine));
	gpu->process_total = 0;
	look_ten_times(machine, 20);
	assert_true(is_told(machine));
}

static void only_one_that_runs(void **state)
{
	struct machine *machine = *state;
	machine->job.job.state = JOB_STOPPING;
	look_ten_times(machine, 20);
	machine->job.job.state = JOB_RUNNING;
	machine->run.pid = 0;
	look_ten_times(machine, 20);
	machine->run.pid = getpid();
	machine->job.job.wants.idle_ns = 0;
	look_ten_times(machine, 20);
	assert_false(is_told(machine));
}

static void one_that_could_not_be_told_is_told_later(void **state)
{
	struct machine *machine = *state;
	int fd = machine->run.control_fd;
	machine->run.control_fd = -1; /* its supervisor is being looked for */
	look_ten_times(machine, 20);
	machine->run.control_fd = fd;
	look_after(machine, 1);
	assert_true(is_told(machine));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, machine_new, machine_free)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(it_is_told_when_the_time_is_over),
	    CASE(what_is_done_begins_it_anew),
	    CASE(a_gap_begins_it_anew),
	    CASE(what_is_not_told_is_no_idleness),
	    CASE(of_a_share_its_own_processes_count),
	    CASE(only_one_that_runs),
	    CASE(one_that_could_not_be_told_is_told_later),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
