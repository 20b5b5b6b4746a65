/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/world.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "unit/bench/collectives/plain.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"

enum { RANKS = 3, ROWS = 4 };

/* What the functions of a job see and note. */
struct seen {
	struct plain_world *plain;
	uint32_t ranks;
	uint32_t start_fails; /* this rank's; UINT32_MAX: none */
	bool start_stalls;
	uint64_t row_fails; /* at this row */
	bool meets, was_aborted;
	uint32_t ready, rows, places;
	char place[RANKS][1024], description[64];
	struct world_member members[RANKS];
	struct measure_row last;
};

static int start(void *context, struct world_seat *seat, struct backend **out, struct err *err)
{
	struct seen *seen = context;
	uint32_t rank = world_seat_rank(seat);
	uint64_t word = 0;
	if (world_seat_ranks(seat) == 0)
		rank = 0;
	while (seen->start_stalls && rank == seen->start_fails)
		(void)pause();
	if (rank == seen->start_fails)
		return err_set(err, -ENOENT, "rank %u has no library", rank);
	for (uint64_t i = 1; i <= 20 && seen->meets; i++) {
		word = rank == 0 ? i * 1000 : 7;
		int rc = world_seat_meet(seat, &word, sizeof(word), err);
		if (rc < 0)
			return rc;
		if (word != i * 1000)
			return err_set(err, -EBADMSG, "rank %u: %llu", rank,
				       (unsigned long long)word);
	}
	*out = plain_backend_new(seen->plain, rank);
	return *out ? 0 : err_set(err, -ENOMEM, "no backend");
}

static int plan(void *context, uint64_t index, struct measure_plan *out, struct err *err)
{
	const struct seen *seen = context;
	if (index == ROWS)
		return 0;
	*out = (struct measure_plan){.op = COLLECTIVE_ALL_REDUCE,
				     .type = COLLECTIVE_F32,
				     .warmups = 1,
				     .iterations = 5,
				     .checks = 1,
				     .has_stream = true,
				     .has_isolated = true};
	collective_shape(out->op, out->type, 64 << index, seen->ranks, &out->shape);
	return 1;
}

static void ready(void *context, const char *description, const struct world_member *members,
		  uint32_t ranks)
{
	struct seen *seen = context;
	seen->ready++;
	assert_int_equal(ranks, seen->ranks);
	assert_true(strlen(description) < sizeof(seen->description));
	memcpy(seen->description, description, strlen(description) + 1);
	memcpy(seen->members, members, ranks * sizeof(*members));
}

static int row(void *context, uint64_t index, struct measure_row *row, struct err *err)
{
	struct seen *seen = context;
	assert_int_equal(index, seen->rows);
	assert_int_equal(row->plan.shape.bytes, 64 << index);
	assert_int_equal(row->out_of_place.wrong, 0);
	assert_int_equal(row->in_place.sample_count, 5 * seen->ranks);
	for (size_t i = 0; i < row->in_place.sample_count; i++)
		assert_true(row->in_place.samples[i] > 0);
	if (index == seen->row_fails)
		return err_set(err, -EFBIG, "no more of this");
	seen->rows++;
	seen->last = *row;
	return 0;
}

static void place(void *context, uint32_t rank, const char *text)
{
	struct seen *seen = context;
	assert_true(rank < RANKS && strlen(text) < sizeof(seen->place[0]));
	memcpy(seen->place[rank], text, strlen(text) + 1);
	seen->places++;
}

static struct world_job job_of(struct seen *seen, uint64_t timeout_ms)
{
	return (struct world_job){.ranks = seen->ranks,
				  .pins = true,
				  .start_timeout_ns = timeout_ms * 1000000,
				  .timeout_ns = timeout_ms * 1000000,
				  .context = seen,
				  .start = start,
				  .plan = plan,
				  .ready = ready,
				  .row = row,
				  .place = place};
}

static struct seen seen_of(uint32_t ranks)
{
	return (struct seen){.ranks = ranks, .start_fails = UINT32_MAX, .row_fails = UINT64_MAX};
}

static int run_with(struct seen *seen, struct plain_options options, uint64_t timeout_ms,
		    struct err *err)
{
	struct world_job job = job_of(seen, timeout_ms);
	options.ranks = seen->ranks;
	seen->plain = plain_world_new(&options);
	assert_non_null(seen->plain);
	*err = (struct err){0};
	int rc = world_run_forked(&job, err);
	assert_int_equal(waitpid(-1, NULL, 0), -1); /* nobody is left */
	assert_int_equal(errno, ECHILD);
	seen->was_aborted = plain_world_is_aborted(seen->plain);
	plain_world_free(seen->plain);
	return rc;
}

static void rows_come_in_order(void **state)
{
	for (uint32_t ranks = 1; ranks <= RANKS; ranks++) {
		struct seen seen = seen_of(ranks);
		struct err err;
		seen.meets = true;
		int rc = run_with(&seen, (struct plain_options){0}, 60000, &err);
		if (rc < 0)
			fail_msg("%s", err.text);
		assert_int_equal(seen.ready, 1);
		assert_int_equal(seen.rows, ROWS);
		assert_int_equal(seen.places, 0);
		assert_string_equal(seen.description, "plain");
		for (uint32_t r = 0; r < ranks; r++) {
			assert_int_equal(seen.members[r].rank, r);
			assert_true(seen.members[r].pid > 1);
			assert_true(seen.members[r].host[0] != '\0');
		}
	}
}

static void a_rank_that_dies_is_named(void **state)
{
	/* a row has 1 + 5 + 5 + 1 operations in each of two columns; this is in the second row */
	struct plain_options options = {.fault_rank = 1, .fault_operation = 24 + 3};
	struct seen seen = seen_of(RANKS);
	struct err err;
	options.fault = PLAIN_KILL;
	assert_int_equal(run_with(&seen, options, 60000, &err), -EPIPE);
	assert_string_equal(
	    err.text, "rank 1 was killed by signal 9 (Killed) in all_reduce of 128 bytes, timed "
		      "back to back, 2 operations done; before it all_reduce of 64 bytes");
	assert_int_equal(seen.rows, 1);
	assert_true(seen.was_aborted); /* the others ended by themselves */
	assert_int_equal(seen.places, RANKS);
	assert_non_null(strstr(seen.place[0], "all_reduce of 128 bytes"));
	options.fault = PLAIN_EXIT;
	seen = seen_of(RANKS);
	assert_int_equal(run_with(&seen, options, 60000, &err), -EPIPE);
	assert_non_null(strstr(err.text, "rank 1 ended with exit code 3 in all_reduce of 128"));
	options.fault_operation = 0;
	options.fault_rank = 0; /* the one that tells of the rows */
	seen = seen_of(RANKS);
	assert_int_equal(run_with(&seen, options, 60000, &err), -EPIPE);
	assert_non_null(strstr(err.text, "rank 0 ended with exit code 3 in all_reduce of 64"));
	assert_int_equal(seen.ready, 1);
}

static void a_rank_that_stands_still_is_named(void **state)
{
	struct plain_options options = {
	    .fault = PLAIN_STOP, .fault_rank = 2, .fault_operation = 24};
	struct seen seen = seen_of(RANKS);
	struct err err;
	/* long enough for the first row on a machine that is busy */
	assert_int_equal(run_with(&seen, options, 3000, &err), -ETIMEDOUT);
	assert_string_equal(err.text, "no end after 3 s: rank 2 is stopped by a signal: all_reduce "
				      "of 128 bytes, warms up, 0 operations done; before it "
				      "all_reduce of 64 bytes");
	assert_int_equal(seen.places, RANKS);
	options.fault = PLAIN_HANG;
	options.fault_operation = 0;
	seen = seen_of(RANKS);
	assert_int_equal(run_with(&seen, options, 300, &err), -ETIMEDOUT);
	assert_non_null(strstr(err.text, "no end after 0.3 s: rank "));
	seen = seen_of(RANKS);
	seen.start_stalls = true;
	seen.start_fails = 1;
	assert_int_equal(run_with(&seen, (struct plain_options){0}, 300, &err), -ETIMEDOUT);
	assert_non_null(strstr(err.text, "start-up"));
}

static void errors_of_ranks_come_out(void **state)
{
	struct plain_options options = {
	    .fault = PLAIN_ERROR, .fault_rank = 1, .fault_operation = 24};
	struct seen seen = seen_of(RANKS);
	struct err err;
	assert_int_equal(run_with(&seen, options, 60000, &err), -EIO);
	assert_string_equal(err.text, "all_reduce of 128 bytes: rank 1 fails as it was told");
	seen = seen_of(RANKS);
	seen.start_fails = 2;
	assert_int_equal(run_with(&seen, (struct plain_options){0}, 60000, &err), -ENOENT);
	assert_string_equal(err.text, "rank 2 has no library");
	seen = seen_of(RANKS);
	seen.start_fails = 0; /* the others wait for it where they meet */
	seen.meets = true;
	assert_int_equal(run_with(&seen, (struct plain_options){0}, 60000, &err), -ENOENT);
	seen = seen_of(RANKS);
	seen.row_fails = 2;
	assert_int_equal(run_with(&seen, (struct plain_options){0}, 60000, &err), -EFBIG);
	assert_string_equal(err.text, "no more of this");
	assert_int_equal(seen.rows, 2);
	struct world_job job = job_of(&seen, 1);
	job.ranks = 0;
	assert_int_equal(world_run_forked(&job, &err), -EINVAL);
	job.ranks = WORLD_RANKS_MAX + 1;
	assert_int_equal(world_run_forked(&job, NULL), -EINVAL);
}

/* A process that runs a world whose ranks hang; `watch` reads as long as one of them lives. */
static pid_t hanging_world(int *out_watch)
{
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	struct plain_options options = {.ranks = RANKS, .fault = PLAIN_HANG};
	struct seen seen = seen_of(RANKS);
	seen.plain = plain_world_new(&options);
	assert_non_null(seen.plain);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct world_job job = job_of(&seen, 0);
		job.ready = NULL;
		(void)close(ends[0]);
		_exit(world_run_forked(&job, NULL) == -ECANCELED ? 42 : 1);
	}
	(void)close(ends[1]);
	*out_watch = ends[0];
	uint64_t until = unit_now_ns() + UINT64_C(20000000000);
	/* rank 0 hangs in its first operation, the others wait in it: all are there */
	while (plain_world_started(seen.plain) < RANKS && unit_now_ns() < until)
		(void)sched_yield();
	assert_int_equal(plain_world_started(seen.plain), RANKS);
	plain_world_free(seen.plain);
	return pid;
}

static void assert_all_gone(int watch)
{
	struct pollfd fd = {.fd = watch, .events = POLLIN};
	char byte;
	assert_int_equal(poll(&fd, 1, 20000), 1);
	assert_int_equal(read(watch, &byte, 1), 0);
	(void)close(watch);
}

static void a_signal_ends_all(void **state)
{
	int watch, status;
	pid_t pid = hanging_world(&watch);
	assert_int_equal(kill(pid, SIGTERM), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 42);
	assert_all_gone(watch);
}

static void ranks_go_with_their_parent(void **state)
{
	int watch, status;
	pid_t pid = hanging_world(&watch);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_all_gone(watch);
}

/* Ranks that somebody else has started: here they are threads. */
struct thread_rank {
	struct seen seen;
	struct world_job job;
	uint32_t rank;
	int rc;
	struct err err;
};

static int start_thread_rank(void *context, struct world_seat *seat, struct backend **out,
			     struct err *err)
{
	struct thread_rank *one = context;
	int64_t word = 0;
	assert_int_equal(world_seat_meet(seat, &word, sizeof(word), err), -EOPNOTSUPP);
	*out = plain_backend_new(one->seen.plain, one->rank);
	return *out ? 0 : -ENOMEM;
}

static void *thread_rank(void *argument)
{
	struct thread_rank *one = argument;
	one->rc = world_run_rank(&one->job, &one->err);
	return NULL;
}

/* `all` has its ranks' findings; rank 0's are those of the world. */
static void run_threads(struct plain_options options, uint64_t timeout_ms, struct thread_rank *all)
{
	pthread_t threads[RANKS];
	options.ranks = RANKS;
	struct plain_world *plain = plain_world_new(&options);
	assert_non_null(plain);
	for (uint32_t r = 0; r < RANKS; r++) {
		all[r] = (struct thread_rank){.seen = seen_of(RANKS), .rank = r};
		all[r].seen.plain = plain;
		all[r].job = job_of(&all[r].seen, timeout_ms); /* seen is its first member */
		all[r].job.start = start_thread_rank;
		all[r].job.start_timeout_ns = 0;
		assert_int_equal(pthread_create(&threads[r], NULL, thread_rank, &all[r]), 0);
	}
	for (uint32_t r = 0; r < RANKS; r++)
		assert_int_equal(pthread_join(threads[r], NULL), 0);
	plain_world_free(plain);
}

static void one_of_many_runs_the_same_rows(void **state)
{
	struct thread_rank all[RANKS];
	run_threads((struct plain_options){0}, 60000, all);
	for (uint32_t r = 0; r < RANKS; r++) {
		if (all[r].rc < 0)
			fail_msg("%s", all[r].err.text);
		assert_int_equal(all[r].seen.rows, r == 0 ? ROWS : 0);
		assert_int_equal(all[r].seen.ready, r == 0);
		assert_int_equal(all[r].seen.places, 0);
	}
	assert_int_equal(all[0].seen.members[2].rank, 2);
	assert_int_equal(all[0].seen.members[2].pid, getpid());
}

static void one_of_many_says_where_it_was(void **state)
{
	struct thread_rank all[RANKS];
	struct plain_options options = {
	    .fault = PLAIN_ERROR, .fault_rank = 1, .fault_operation = 24};
	run_threads(options, 60000, all);
	assert_int_equal(all[1].rc, -EIO);
	assert_int_equal(all[1].seen.places, 1);
	assert_string_equal(all[1].seen.place[1],
			    "all_reduce of 128 bytes, warms up, 0 operations done; before it "
			    "all_reduce of 64 bytes: all_reduce of 128 bytes: rank 1 fails as it "
			    "was told");
	assert_int_equal(all[0].rc, -EPIPE);
	options.fault = PLAIN_STALL;
	run_threads(options, 300, all);
	uint32_t late = 0;
	for (uint32_t r = 0; r < RANKS; r++) {
		assert_true(all[r].rc == -ETIMEDOUT || all[r].rc == -EPIPE);
		late += all[r].rc == -ETIMEDOUT;
		assert_int_equal(all[r].seen.places, 1);
	}
	assert_true(late > 0);
}

static void one_that_does_not_come_back_ends_its_process(void **state)
{
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct plain_options options = {.ranks = 1, .fault = PLAIN_HANG};
		struct seen seen = seen_of(1);
		seen.plain = plain_world_new(&options);
		struct world_job job = job_of(&seen, 200);
		(void)world_run_rank(&job, NULL);
		_exit(1);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 2);
}

static int run_rank_once(void *context)
{
	struct seen seen = seen_of(1);
	struct plain_options options = {.ranks = 1};
	struct world_job job = job_of(&seen, 60000);
	seen.plain = plain_world_new(&options);
	assert_non_null(seen.plain);
	int rc = world_run_rank(&job, NULL);
	plain_world_free(seen.plain);
	return rc;
}

static void memory_may_be_short(void **state)
{
	assert_true(failmalloc_each(run_rank_once, NULL) > 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(rows_come_in_order),
	    cmocka_unit_test(a_rank_that_dies_is_named),
	    cmocka_unit_test(a_rank_that_stands_still_is_named),
	    cmocka_unit_test(errors_of_ranks_come_out),
	    cmocka_unit_test(a_signal_ends_all),
	    cmocka_unit_test(ranks_go_with_their_parent),
	    cmocka_unit_test(one_of_many_runs_the_same_rows),
	    cmocka_unit_test(one_of_many_says_where_it_was),
	    cmocka_unit_test(one_that_does_not_come_back_ends_its_process),
	    cmocka_unit_test(memory_may_be_short),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
