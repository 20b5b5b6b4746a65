/* SPDX-License-Identifier: Apache-2.0 */
/* The queue when others have died, when the machine changes, and what lies on the disk. */
#include "doors/queue/queue.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "job/jobdir.h"
#include "job/token.h"
#include "job/tree.h"
#include "policy/policy.h"
#include "tests/unit/failmalloc.h"
#include "queue_rig.h"

/* --- who has died ---------------------------------------------------------------------------- */

static void a_job_goes_on_without_the_agent_and_is_adopted(void **state)
{
	open_queue();
	uint64_t id = submit("k1", until_go("ran"), 2);
	wait_for(lines("ran") == 1);
	fixture->queue = queue_close(fixture->queue);
	fixture->children = child_set_free(fixture->children);
	fixture->children = child_set_new(fixture->loop, CHILD_WATCH_AUTO, NULL);
	open_queue();
	uint64_t second = submit("k2", append("second", "true"), 1);
	wait_for(state_of(id) == JOB_RUNNING);
	struct queue_attempt attempt;
	queue_attempt_of(fixture->queue, queue_find(fixture->queue, id), &attempt);
	assert_int_equal(attempt.grant_count, 2);
	assert_true(attempt.supervisor_pid > 0);
	wait_for(queue_find(fixture->queue, second)->reason == JOB_REASON_WAITING_FOR_GPU);
	assert_int_equal(lines("second"), 0);
	go();
	assert_int_equal(ended(id).state, JOB_SUCCEEDED);
	assert_int_equal(ended(second).state, JOB_SUCCEEDED);
	assert_int_equal(lines("ran"), 1);
}

static void what_ended_meanwhile_is_entered(void **state)
{
	open_queue();
	uint64_t id = submit("k1", until_go("ran"), 1);
	wait_for(lines("ran") == 1);
	fixture->queue = queue_close(fixture->queue);
	go();
	wait_for(there("j/1/result.1"));
	open_queue();
	assert_int_equal(ended(id).state, JOB_SUCCEEDED);
	assert_int_equal(lines("ran"), 1);
}

static void a_lost_supervisor_is_an_unknown_outcome_and_leaves_nothing(void **state)
{
	open_queue();
	char command[512];
	(void)snprintf(command, sizeof(command), "echo $$ > %s; exec sleep 1000",
		       unit_path(fixture->tmp, "pid"));
	fixture->mode = "die";
	uint64_t id = submit("k1", command, 2);
	fixture->mode = NULL;
	struct answer end = ended(id);
	assert_int_equal(end.state, JOB_FAILED);
	assert_int_equal(end.reason, JOB_REASON_SUPERVISOR_LOST);
	assert_int_equal(end.exit_code, -1);
	struct tree_process process;
	pid_t pid = read_pid("pid"); /* 0: it was killed before it could write that */
	assert_true(pid == 0 || tree_read(pid, &process, NULL) < 0 || process.state == 'Z');
	assert_int_equal(ended(submit("k2", "true", 2)).state, JOB_SUCCEEDED);
}

static void a_claim_of_another_boot_is_a_reboot(void **state)
{
	open_queue();
	fixture->mode = "reboot";
	uint64_t id = submit("k1", "true", 1);
	struct answer end = ended(id);
	assert_int_equal(end.state, JOB_FAILED);
	assert_int_equal(end.reason, JOB_REASON_NODE_REBOOTED);
}

static struct answer ended_of(const char *key, const char *mode, const char *command)
{
	fixture->mode = mode;
	struct answer end = ended(submit(key, command, 1));
	fixture->mode = NULL;
	return end;
}

/* systemd ends them all at an orderly reboot, and their supervisors live to tell. */
static void what_was_ended_from_outside_before_a_reboot_is_lost_with_it(void **state)
{
	open_queue();
	struct answer end = ended_of("k1", "shutdown", "kill -TERM $$");
	assert_int_equal(end.state, JOB_FAILED);
	assert_int_equal(end.reason, JOB_REASON_NODE_REBOOTED);
	assert_int_equal(end.exit_code, -1);
	end = ended_of("k2", "shutdown", "exit 3");
	assert_int_equal(end.reason, JOB_REASON_NODE_REBOOTED);
	/* It says itself that it is done. */
	end = ended_of("k3", "shutdown", "exit 0");
	assert_int_equal(end.state, JOB_SUCCEEDED);
	/* Somebody has stopped the scope, and the machine stays up. */
	end = ended_of("k4", "stop", "kill -TERM $$");
	assert_int_equal(end.state, JOB_FAILED);
	assert_int_equal(end.reason, JOB_REASON_SIGNAL);
}

static void what_never_claimed_is_tried_again(void **state)
{
	open_queue();
	fixture->mode = "no-claim";
	uint64_t id = submit("k1", append("ran", "true"), 1);
	wait_for(state_of(id) == JOB_PENDING &&
		 queue_find(fixture->queue, id)->reason == JOB_REASON_BACKOFF);
	assert_int_equal(ended(id).state, JOB_SUCCEEDED); /* soon */
	assert_int_equal(lines("ran"), 1);
}

static void a_supervisor_that_is_not_there_keeps_jobs_waiting(void **state)
{
	open_queue_with(unit_path(fixture->tmp, "nothing"));
	uint64_t id = submit("k1", append("ran", "true"), 1);
	wait_for(state_of(id) == JOB_PENDING &&
		 queue_find(fixture->queue, id)->reason == JOB_REASON_BACKOFF);
	assert_non_null(strstr(queue_find(fixture->queue, id)->reason_detail, "nothing"));
	reopen();
	assert_int_equal(ended(id).state, JOB_SUCCEEDED);
	assert_int_equal(lines("ran"), 1);
}

static void a_token_of_somebody_else_is_waited_for(void **state)
{
	open_queue();
	struct token_place place;
	struct token token;
	struct note note = {.pid = getpid(), .uid = geteuid()};
	note_set_name(&note, "train");
	assert_int_equal(token_place_open(NULL, unit_path(fixture->tmp, "sim"), &place, NULL), 0);
	assert_int_equal(token_take(&place, "GPU-51ce51ce-00000000", 0, &note, &token, NULL), 0);
	fixture->mode = "busy";
	uint64_t id = submit("k1", append("ran", "true"), 2);
	wait_for(state_of(id) == JOB_PENDING &&
		 queue_find(fixture->queue, id)->reason == JOB_REASON_WAITING_FOR_GPU &&
		 strstr(queue_find(fixture->queue, id)->reason_text, "GPU 0: pid"));
	assert_int_equal(lines("ran"), 0);
	token_release(&token);
	assert_int_equal(ended(id).state, JOB_SUCCEEDED);
	token_place_close(&place);
}

/* --- the machine ----------------------------------------------------------------------------- */

static void see_process(uint32_t gpu, pid_t pid)
{
	struct snapshot_gpu *seen = &fixture->snapshot->gpu[gpu];
	seen->process_count = seen->process_total = pid > 0;
	seen->process[0] = (struct snapshot_process){.pid = (uint32_t)pid,
						     .type = SNAPSHOT_PROCESS_COMPUTE,
						     .gi = SNAPSHOT_WHOLE_GPU,
						     .ci = SNAPSHOT_WHOLE_GPU};
	fixture->snapshot->taken_unix_ns += 1000000000;
	look();
}

static void outsiders_keep_a_gpu_and_our_own_are_observed(void **state)
{
	open_queue();
	see_process(0, getpid());
	uint64_t first = submit("k1", "true", 2);
	wait_for(queue_find(fixture->queue, first)->reason == JOB_REASON_GPU_IN_USE);
	see_process(0, 0);
	assert_int_equal(ended(first).state, JOB_SUCCEEDED);

	char command[512];
	(void)snprintf(command, sizeof(command), "echo $$ > %s.new; mv %s.new %s; %s",
		       unit_path(fixture->tmp, "pid"), unit_path(fixture->tmp, "pid"),
		       unit_path(fixture->tmp, "pid"), until_go("ran"));
	uint64_t second = submit("k2", command, 1);
	wait_for(read_pid("pid") > 0 && state_of(second) != JOB_PENDING);
	pid_t pid = read_pid("pid");
	see_process(0, pid);
	see_process(0, pid);
	const struct job *job = queue_job_of_process(fixture->queue, pid);
	assert_non_null(job);
	assert_int_equal(job->id, second);
	assert_null(queue_job_of_process(fixture->queue, getpid()));
	struct queue_attempt attempt;
	queue_attempt_of(fixture->queue, job, &attempt);
	assert_int_equal(attempt.observed_count, 1);
	assert_int_equal(attempt.observed[0].pid, pid);
	assert_int_equal(attempt.observed[0].last_unix_ns - attempt.observed[0].first_unix_ns,
			 1000000000);
	assert_int_equal(queue_machine(fixture->queue)->devices[0].unit.outsider, 0);
	go();
	struct answer end = ended(second);
	assert_int_equal(end.observed, 1);
}

static void without_a_driver_jobs_wait_and_are_told(void **state)
{
	open_queue();
	uint64_t first = submit("k1", until_go("ran"), 2);
	uint64_t second = submit("k2", "true", 1);
	wait_for(lines("ran") == 1);
	queue_set_machine(fixture->queue, NULL, NULL, NULL, "the driver was unloaded");
	go();
	(void)ended(first);
	wait_for(queue_find(fixture->queue, second)->reason == JOB_REASON_NO_MACHINE);
	look();
	assert_int_equal(ended(second).state, JOB_SUCCEEDED);
}

/* --- the state ------------------------------------------------------------------------------- */

static void a_second_agent_is_refused_and_told_who_has_it(void **state)
{
	open_queue();
	struct err err = {.code = 0};
	struct queue *second = NULL;
	const struct queue_options options = options_with("/bin/false");
	assert_int_equal(queue_open(&options, &second, &err), -EBUSY);
	char who[32];
	(void)snprintf(who, sizeof(who), "pid %d", (int)getpid());
	assert_non_null(strstr(err.text, who));
}

static void a_lost_database_is_not_replaced_by_an_empty_one(void **state)
{
	open_queue();
	(void)ended(submit("k1", "true", 0));
	fixture->queue = queue_close(fixture->queue);
	assert_int_equal(unlink(unit_path(fixture->tmp, "queue.db")), 0);
	struct err err = {.code = 0};
	const struct queue_options options = options_with("/bin/false");
	assert_int_equal(queue_open(&options, &fixture->queue, &err), -EUCLEAN);
	assert_null(fixture->queue);
	assert_false(there("queue.db"));
}

static void a_directory_that_nobody_was_told_of_is_removed(void **state)
{
	int state_fd = open(fixture->tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(jobdir_create(state_fd, 1, geteuid(), NULL), 0);
	assert_int_equal(jobdir_create(state_fd, 7, geteuid(), NULL), 0);
	(void)close(state_fd);
	open_queue();
	assert_int_equal(submit("k1", "true", 0), 1); /* in its place */
	wait_for(!there("j/7"));
	assert_int_equal(ended(1).state, JOB_SUCCEEDED);
	assert_true(there("j/1"));
}

/* By a process that nobody waits for. */
static bool trash_is_clear(void)
{
	_cleanup_closedir_ DIR *list = opendir(unit_path(fixture->tmp, "trash"));
	struct dirent *entry;
	while (list && (entry = readdir(list)))
		if (entry->d_name[0] != '.')
			return false;
	return true;
}

static void old_jobs_are_forgotten_with_their_files(void **state)
{
	open_queue();
	for (unsigned i = 1; i <= 3; i++) {
		char key[16];
		(void)snprintf(key, sizeof(key), "k%u", i);
		assert_int_equal(ended(submit(key, "true", 0)).state, JOB_SUCCEEDED);
	}
	fixture->retention = 2;
	reopen();
	wait_for(!there("j/1"));
	assert_int_equal(ask(1).result, -ENOENT);
	assert_int_equal(ask(2).state, JOB_SUCCEEDED);
	assert_true(there("j/2"));
	assert_int_equal(submit("k4", "true", 0), 4); /* never 1 again */
	wait_for(trash_is_clear());
}

/* --- memory ---------------------------------------------------------------------------------- */

/* One job's life, whichever allocation fails: refused, or accepted and then ended. */
static int one_life(void *context)
{
	struct err err = {.code = 0};
	struct answer answer = {.done = false};
	struct spec spec;
	char key[32];
	static unsigned life;
	const struct queue_options options = options_with(getenv("QUEUE_FAKE_SUPERVISOR"));
	spec_init(&spec);
	(void)snprintf(key, sizeof(key), "life-%u", life++);
	(void)snprintf(spec.name, sizeof(spec.name), "test");
	(void)snprintf(spec.directory, sizeof(spec.directory), "/");
	spec.gpus = 1;
	int rc = spec_add_argument(&spec, "true", &err);
	if (rc == 0)
		rc = queue_open(&options, &fixture->queue, &err);
	if (rc == 0) {
		const struct queue_submit request = {
		    .key = key, .spec = &spec, .done = on_submitted, .context = &answer};
		look();
		queue_submit(fixture->queue, &request);
		wait_for(answer.done);
		rc = answer.result;
		wait_for(!queue_first(fixture->queue)); /* also what an earlier life left */
		fixture->queue = queue_close(fixture->queue);
	}
	wait_for(child_set_count(fixture->children) == 0); /* what clears up outlives the queue */
	spec_done(&spec);
	/* Of the loop's own, that waits for its turn. */
	for (int i = 0; i < 4; i++)
		(void)loop_pass(fixture->loop, 0, NULL);
	if (rc < 0 && rc != -ENOMEM)
		print_error("%s%s\n", err.text, answer.text);
	return rc;
}

static void on_nothing(int fd, unsigned events, void *context)
{
}

/* The loop keeps a little for each number of a descriptor that it has seen, and which of them the
 * one that clears up gets is different from life to life. */
static void warm_up(void)
{
	enum { DESCRIPTORS = 48 };
	struct loop_fd *watches[DESCRIPTORS];
	int ends[2], fds[DESCRIPTORS];
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	for (int i = 0; i < DESCRIPTORS; i++) {
		fds[i] = fcntl(ends[0], F_DUPFD_CLOEXEC, 0);
		watches[i] = loop_fd_new(fixture->loop, fds[i], LOOP_READ, on_nothing, NULL, NULL);
		assert_non_null(watches[i]);
	}
	for (int i = 0; i < DESCRIPTORS; i++) {
		watches[i] = loop_fd_free(watches[i]);
		(void)close(fds[i]);
	}
	(void)close(ends[0]);
	(void)close(ends[1]);
}

static void a_life_without_memory(void **state)
{
	warm_up();
	assert_int_equal(one_life(NULL), 0); /* the loop keeps what it needed once */
	assert_true(failmalloc_each(one_life, NULL) > 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    with(a_job_goes_on_without_the_agent_and_is_adopted),
	    with(what_ended_meanwhile_is_entered),
	    with(a_lost_supervisor_is_an_unknown_outcome_and_leaves_nothing),
	    with(a_claim_of_another_boot_is_a_reboot),
	    with(what_was_ended_from_outside_before_a_reboot_is_lost_with_it),
	    with(what_never_claimed_is_tried_again),
	    with(a_supervisor_that_is_not_there_keeps_jobs_waiting),
	    with(a_token_of_somebody_else_is_waited_for),
	    with(outsiders_keep_a_gpu_and_our_own_are_observed),
	    with(without_a_driver_jobs_wait_and_are_told),
	    with(a_second_agent_is_refused_and_told_who_has_it),
	    with(a_lost_database_is_not_replaced_by_an_empty_one),
	    with(a_directory_that_nobody_was_told_of_is_removed),
	    with(old_jobs_are_forgotten_with_their_files),
	    with(a_life_without_memory),
	};
	place_in_memory();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
