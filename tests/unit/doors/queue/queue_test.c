/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/queue.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/child.h"
#include "base/err.h"
#include "base/loop.h"
#include "base/storage.h"
#include "doors/queue/jobdir.h"
#include "doors/queue/schedule.h"
#include "doors/queue/token.h"
#include "doors/queue/tree.h"
#include "hardware/snapshot.h"
#include "policy/policy.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

enum { TEST_GPUS = 2, TEST_JOBS = 16 };
#define DEADLINE_NS UINT64_C(20000000000)

/* What became of a submission, a cancel or a question. */
struct answer {
	bool done;
	int result;
	uint64_t id;
	bool known, was_final;
	enum job_state state;
	enum job_reason reason;
	int exit_code;
	size_t jobs, grants, observed;
	char text[ERR_TEXT_MAX];
};

struct fixture {
	char *tmp;
	struct loop *loop;
	struct storage *storage;
	struct child_set *children;
	struct queue *queue;
	struct inventory inventory;
	struct gpu gpus[TEST_GPUS];
	struct snapshot *snapshot;
	struct policy *policy;
	unsigned changes;
	const char *mode; /* QUEUE_FAKE of the next job */
};

static struct fixture *fixture;

static void on_change(void *context)
{
	fixture->changes++;
}

/* GPUs of two slots each when `shared`. */
static void configure(const char *text)
{
	struct config *config = NULL;
	const struct policy_surroundings surroundings = {.has_kubelet = false};
	struct err err = {.code = 0};
	fixture->policy = policy_free(fixture->policy);
	int rc = config_parse(text, strlen(text), "c.yaml", NULL, false, &config, &err);
	if (rc == 0)
		rc =
		    policy_make(&fixture->inventory, config, &surroundings, &fixture->policy, &err);
	(void)config_free(config);
	if (rc < 0)
		fail_msg("%s", err.text);
}

static void look(void)
{
	queue_set_machine(fixture->queue, &fixture->inventory, fixture->snapshot, fixture->policy,
			  NULL);
}

static struct queue_options options_with(const char *supervisor)
{
	return (struct queue_options){
	    .loop = fixture->loop,
	    .storage = fixture->storage,
	    .children = fixture->children,
	    .state_dir = fixture->tmp,
	    .sim_state = unit_path(fixture->tmp, "sim"), /* tokens of this test alone */
	    .supervisor = supervisor,
	    .changed = on_change,
	};
}

static void open_queue_with(const char *supervisor)
{
	struct err err = {.code = 0};
	const struct queue_options options = options_with(supervisor);
	if (queue_open(&options, &fixture->queue, &err) < 0)
		fail_msg("%s", err.text);
	look();
}

static void open_queue(void)
{
	open_queue_with(getenv("QUEUE_FAKE_SUPERVISOR"));
}

static int setup(void **state)
{
	fixture = calloc(1, sizeof(*fixture));
	assert_non_null(fixture);
	fixture->snapshot = calloc(1, sizeof(*fixture->snapshot));
	assert_non_null(fixture->snapshot);
	fixture->tmp = unit_tmp_new();
	unit_write(unit_path(fixture->tmp, "sim"), "");
	fixture->loop = loop_new(LOOP_REAL, NULL);
	assert_non_null(fixture->loop);
	fixture->storage = storage_new(fixture->loop, 64, NULL);
	fixture->children = child_set_new(fixture->loop, CHILD_WATCH_AUTO, NULL);
	assert_non_null(fixture->storage);
	assert_non_null(fixture->children);
	fixture->inventory.gpu_count = TEST_GPUS;
	fixture->inventory.gpus = fixture->gpus;
	fixture->inventory.simulated = true;
	fixture->snapshot->gpu_count = TEST_GPUS;
	fixture->snapshot->driver_ok = 1;
	fixture->snapshot->simulated = 1;
	for (uint32_t i = 0; i < TEST_GPUS; i++) {
		fixture->gpus[i].index = i;
		fixture->gpus[i].mig_current = GPU_MIG_DISABLED;
		(void)snprintf(fixture->gpus[i].uuid, sizeof(fixture->gpus[i].uuid),
			       "GPU-51ce51ce-%08x", i);
		(void)snprintf(fixture->snapshot->gpu[i].uuid,
			       sizeof(fixture->snapshot->gpu[i].uuid), "%s", fixture->gpus[i].uuid);
	}
	configure("version: v1\n");
	return 0;
}

static int teardown(void **state)
{
	fixture->queue = queue_close(fixture->queue);
	fixture->children = child_set_free(fixture->children);
	fixture->storage = storage_close(fixture->storage);
	fixture->loop = loop_free(fixture->loop);
	fixture->policy = policy_free(fixture->policy);
	fixture->tmp = unit_tmp_free(fixture->tmp);
	free(fixture->snapshot);
	free(fixture);
	return 0;
}

static void reopen(void)
{
	fixture->queue = queue_close(fixture->queue);
	open_queue();
}

static void stuck(void)
{
	const struct job *job = fixture->queue ? queue_first(fixture->queue) : NULL;
	fail_msg("stuck: job %d is %s %s(%s)", job ? (int)job->id : 0,
		 job ? job_state_to_string(job->state) : "gone",
		 job ? job_reason_to_string(job->reason) : "",
		 job && job->reason_text ? job->reason_text : "");
}

#define wait_for(condition)                                                                        \
	do {                                                                                       \
		uint64_t wait_deadline_ = unit_now_ns() + DEADLINE_NS;                             \
		while (!(condition)) {                                                             \
			if (unit_now_ns() >= wait_deadline_)                                       \
				stuck();                                                           \
			assert_int_equal(loop_pass(fixture->loop, 10000000, NULL), 0);             \
		}                                                                                  \
	} while (0)

static void on_submitted(int result, uint64_t id, bool known, const char *reason,
			 const struct err *err, void *context)
{
	struct answer *answer = context;
	assert_false(answer->done);
	*answer = (struct answer){.done = true, .result = result, .id = id, .known = known};
	(void)snprintf(answer->text, sizeof(answer->text), "%s", err ? err->text : reason);
}

/* A job that runs `command` in a shell. */
static void submit_as(const char *key, const char *command, uint32_t gpus, bool no_wait,
		      struct answer *answer)
{
	struct spec spec;
	spec_init(&spec);
	(void)snprintf(spec.name, sizeof(spec.name), "test");
	(void)snprintf(spec.directory, sizeof(spec.directory), "/");
	spec.uid = geteuid();
	spec.gid = getegid();
	spec.gpus = gpus;
	assert_int_equal(spec_add_argument(&spec, "sh", NULL), 0);
	assert_int_equal(spec_add_argument(&spec, "-c", NULL), 0);
	assert_int_equal(spec_add_argument(&spec, command, NULL), 0);
	if (fixture->mode) {
		char variable[64];
		(void)snprintf(variable, sizeof(variable), "QUEUE_FAKE=%s", fixture->mode);
		assert_int_equal(spec_add_variable(&spec, variable, NULL), 0);
	}
	*answer = (struct answer){.done = false};
	const struct queue_submit submit = {
	    .key = key, .spec = &spec, .no_wait = no_wait, .done = on_submitted, .context = answer};
	queue_submit(fixture->queue, &submit);
	spec_done(&spec);
}

static uint64_t submit(const char *key, const char *command, uint32_t gpus)
{
	struct answer answer;
	submit_as(key, command, gpus, false, &answer);
	wait_for(answer.done);
	if (answer.result < 0)
		fail_msg("%s", answer.text);
	return answer.id;
}

static void on_job(const struct job *job, const struct queue_attempt *attempt, void *context)
{
	struct answer *answer = context;
	answer->jobs++;
	answer->id = job->id;
	answer->state = job->state;
	answer->reason = job->reason;
	answer->exit_code = job->has_exit ? job->exit_code : -1;
	answer->grants = attempt->grant_count;
	answer->observed = attempt->observed_count;
	(void)snprintf(answer->text, sizeof(answer->text), "%s",
		       job->reason_text ? job->reason_text : "");
}

static void on_asked(int result, const struct err *err, void *context)
{
	struct answer *answer = context;
	answer->done = true;
	answer->result = result;
}

static struct answer ask(uint64_t id)
{
	struct answer answer = {.done = false};
	const struct queue_query query = {
	    .id = id, .max = TEST_JOBS, .each = on_job, .done = on_asked, .context = &answer};
	queue_query(fixture->queue, &query);
	wait_for(answer.done);
	return answer;
}

static enum job_state state_of(uint64_t id)
{
	const struct job *job = queue_find(fixture->queue, id);
	return job ? job->state : JOB_SUCCEEDED; /* or any other end */
}

static struct answer ended(uint64_t id)
{
	wait_for(!queue_find(fixture->queue, id));
	return ask(id);
}

static void on_cancelled(int result, enum job_state state, bool was_final, const struct err *err,
			 void *context)
{
	struct answer *answer = context;
	assert_false(answer->done);
	answer->done = true;
	answer->result = result;
	answer->state = state;
	answer->was_final = was_final;
}

static struct answer cancel(uint64_t id)
{
	struct answer answer = {.done = false};
	queue_cancel(fixture->queue, id, 0, false, 0, "alice", on_cancelled, &answer);
	wait_for(answer.done);
	return answer;
}

static bool there(const char *name)
{
	return access(unit_path(fixture->tmp, name), F_OK) == 0;
}

/* "echo x >> TMP/name", in a static buffer. */
static const char *append(const char *name, const char *then)
{
	static char command[512];
	(void)snprintf(command, sizeof(command), "echo x >> %s; %s", unit_path(fixture->tmp, name),
		       then);
	return command;
}

static size_t lines(const char *name)
{
	FILE *file = fopen(unit_path(fixture->tmp, name), "re");
	size_t count = 0;
	int c;
	while (file && (c = fgetc(file)) != EOF)
		count += c == '\n';
	if (file)
		(void)fclose(file);
	return count;
}

/* --- the life of a job ----------------------------------------------------------------------- */

/* Runs until TMP/go is there. */
static const char *until_go(const char *name)
{
	static char command[1024];
	(void)snprintf(command, sizeof(command),
		       "echo x >> %s; while [ ! -e %s ]; do sleep 0.01; done",
		       unit_path(fixture->tmp, name), unit_path(fixture->tmp, "go"));
	return command;
}

static void go(void)
{
	unit_write(unit_path(fixture->tmp, "go"), "");
}

static void a_job_runs_and_its_exit_code_is_kept(void **state)
{
	open_queue();
	uint64_t id = submit("k1", append("ran", "exit 3"), 1);
	struct answer end = ended(id);
	assert_int_equal(end.state, JOB_FAILED);
	assert_int_equal(end.reason, JOB_REASON_EXIT_CODE);
	assert_string_equal(end.text, "3");
	assert_int_equal(end.exit_code, 3);
	assert_int_equal(end.grants, 1);
	assert_int_equal(lines("ran"), 1);
	assert_true(fixture->changes > 0);
	assert_int_equal(queue_count(fixture->queue, JOB_PENDING), 0);
	assert_int_equal(queue_count(fixture->queue, JOB_STARTING), 0);
	assert_int_equal(queue_count(fixture->queue, JOB_RUNNING), 0);
}

static void jobs_wait_in_order_and_say_for_whom(void **state)
{
	open_queue();
	uint64_t first = submit("k1", until_go("first"), 2);
	uint64_t second = submit("k2", append("second", "true"), 1);
	wait_for(lines("first") == 1);
	wait_for(queue_find(fixture->queue, second)->reason == JOB_REASON_WAITING_FOR_GPU);
	assert_non_null(strstr(queue_find(fixture->queue, second)->reason_text, "job 1 of"));
	assert_ptr_equal(queue_next(fixture->queue, queue_first(fixture->queue)),
			 queue_find(fixture->queue, second));
	assert_null(queue_next(fixture->queue, queue_find(fixture->queue, second)));
	struct answer none;
	submit_as("k3", "true", 1, true, &none);
	wait_for(none.done);
	assert_int_equal(none.result, -EAGAIN);
	assert_int_equal(lines("second"), 0);
	go();
	assert_int_equal(ended(first).state, JOB_SUCCEEDED);
	assert_int_equal(ended(second).state, JOB_SUCCEEDED);
	assert_int_equal(lines("second"), 1);
}

static void what_no_machine_can_do_is_refused_with_both_numbers(void **state)
{
	open_queue();
	struct answer answer;
	submit_as("k1", "true", 3, false, &answer);
	wait_for(answer.done);
	assert_int_equal(answer.result, -ERANGE);
	assert_non_null(strstr(answer.text, "3"));
	assert_non_null(strstr(answer.text, "2"));
	assert_int_equal(ask(1).result, -ENOENT);
}

/* --- keys ------------------------------------------------------------------------------------ */

static void a_key_that_is_known_gets_its_job(void **state)
{
	open_queue();
	struct answer answer[3];
	for (size_t i = 0; i < 3; i++)
		submit_as("k1", i < 2 ? "exit 1" : "exit 2", 1, false, &answer[i]);
	for (size_t i = 0; i < 3; i++)
		wait_for(answer[i].done);
	assert_int_equal(answer[0].result, 0);
	assert_int_equal(answer[1].result, 0);
	assert_true(answer[1].known); /* in the same batch or in the one behind it */
	assert_int_equal(answer[1].id, answer[0].id);
	assert_int_equal(answer[2].result, -EEXIST);
	(void)ended(answer[0].id);
	reopen();
	submit_as("k1", "exit 1", 1, false, &answer[1]);
	wait_for(answer[1].done);
	assert_int_equal(answer[1].result, 0);
	assert_true(answer[1].known);
	assert_int_equal(answer[1].id, answer[0].id);
	/* The machine has become smaller since: the key is known all the same. */
	fixture->inventory.gpu_count = 0;
	fixture->policy = policy_free(fixture->policy);
	configure("version: v1\n");
	look();
	submit_as("k1", "exit 1", 1, false, &answer[1]);
	wait_for(answer[1].done);
	assert_int_equal(answer[1].result, 0);
	assert_int_equal(answer[1].id, answer[0].id);
}

static void a_batch_is_accepted_together(void **state)
{
	open_queue();
	struct answer answer[TEST_JOBS];
	char keys[TEST_JOBS][16];
	for (size_t i = 0; i < TEST_JOBS; i++) {
		(void)snprintf(keys[i], sizeof(keys[i]), "key-%zu", i);
		submit_as(keys[i], append("ran", "true"), 1, false, &answer[i]);
	}
	for (size_t i = 0; i < TEST_JOBS; i++) {
		wait_for(answer[i].done);
		assert_int_equal(answer[i].result, 0);
		assert_int_equal(answer[i].id, i + 1);
	}
	for (size_t i = 0; i < TEST_JOBS; i++)
		assert_int_equal(ended(answer[i].id).state, JOB_SUCCEEDED);
	assert_int_equal(lines("ran"), TEST_JOBS);
}

static void a_caller_who_is_gone_is_not_called(void **state)
{
	open_queue();
	struct answer gone, here;
	submit_as("k1", append("ran", "true"), 0, false, &gone);
	queue_submit_forget(fixture->queue, &gone);
	submit_as("k2", "true", 0, false, &here);
	wait_for(here.done);
	assert_false(gone.done);
	wait_for(lines("ran") == 1); /* what was accepted stays accepted */
}

/* --- cancelling ------------------------------------------------------------------------------ */

static void a_waiting_job_is_cancelled_for_good(void **state)
{
	open_queue();
	uint64_t first = submit("k1", until_go("first"), 2);
	uint64_t second = submit("k2", append("second", "true"), 1);
	wait_for(lines("first") == 1);
	assert_int_equal(cancel(second).result, 0);
	struct answer end = ended(second);
	assert_int_equal(end.state, JOB_CANCELLED);
	assert_int_equal(end.reason, JOB_REASON_USER);
	assert_string_equal(end.text, "alice");
	struct answer again = cancel(second);
	assert_int_equal(again.result, 0);
	assert_true(again.was_final);
	assert_int_equal(cancel(4711).result, -ENOENT);
	go();
	(void)ended(first);
	reopen();
	assert_int_equal(ask(second).state, JOB_CANCELLED);
	assert_int_equal(lines("second"), 0);
}

static void a_job_is_cancelled_while_it_starts(void **state)
{
	open_queue();
	struct answer answer;
	submit_as("k1", append("ran", "sleep 0.05"), 1, false, &answer);
	wait_for(answer.done);
	wait_for(!queue_find(fixture->queue, answer.id) || state_of(answer.id) == JOB_STARTING);
	if (queue_find(fixture->queue, answer.id))
		assert_int_equal(cancel(answer.id).result, 0);
	struct answer end = ended(answer.id);
	assert_int_equal(end.state, JOB_CANCELLED);
	assert_true(lines("ran") <= 1);
}

static void what_runs_has_its_cancel_on_the_disk_before_the_answer(void **state)
{
	open_queue();
	uint64_t id = submit("k1", until_go("ran"), 1);
	wait_for(lines("ran") == 1);
	assert_int_equal(cancel(id).result, 0);
	assert_true(there("j/1/cancel"));
	assert_int_equal(state_of(id), JOB_STOPPING);
	go(); /* this supervisor does not listen */
	assert_int_equal(ended(id).state, JOB_CANCELLED);
}

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

static pid_t read_pid(const char *name)
{
	FILE *file = fopen(unit_path(fixture->tmp, name), "re");
	int pid = 0;
	if (file && fscanf(file, "%d", &pid) != 1)
		pid = 0;
	if (file)
		(void)fclose(file);
	return pid;
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
	assert_non_null(strstr(queue_find(fixture->queue, id)->reason_text, "nothing"));
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
	assert_int_equal(jobdir_create(state_fd, 1, NULL), 0);
	assert_int_equal(jobdir_create(state_fd, 7, NULL), 0);
	(void)close(state_fd);
	open_queue();
	assert_int_equal(submit("k1", "true", 0), 1); /* in its place */
	wait_for(!there("j/7"));
	assert_int_equal(ended(1).state, JOB_SUCCEEDED);
	assert_true(there("j/1"));
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
	spec_done(&spec);
	/* Of the loop's own, that waits for its turn. */
	for (int i = 0; i < 4; i++)
		(void)loop_pass(fixture->loop, 0, NULL);
	if (rc < 0 && rc != -ENOMEM)
		print_error("%s%s\n", err.text, answer.text);
	return rc;
}

static void a_life_without_memory(void **state)
{
	assert_int_equal(one_life(NULL), 0); /* the loop keeps what it needed once */
	assert_true(failmalloc_each(one_life, NULL) > 20);
}

int main(void)
{
#define with(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
	    with(a_job_runs_and_its_exit_code_is_kept),
	    with(jobs_wait_in_order_and_say_for_whom),
	    with(what_no_machine_can_do_is_refused_with_both_numbers),
	    with(a_key_that_is_known_gets_its_job),
	    with(a_batch_is_accepted_together),
	    with(a_caller_who_is_gone_is_not_called),
	    with(a_waiting_job_is_cancelled_for_good),
	    with(a_job_is_cancelled_while_it_starts),
	    with(what_runs_has_its_cancel_on_the_disk_before_the_answer),
	    with(a_job_goes_on_without_the_agent_and_is_adopted),
	    with(what_ended_meanwhile_is_entered),
	    with(a_lost_supervisor_is_an_unknown_outcome_and_leaves_nothing),
	    with(a_claim_of_another_boot_is_a_reboot),
	    with(what_never_claimed_is_tried_again),
	    with(a_supervisor_that_is_not_there_keeps_jobs_waiting),
	    with(a_token_of_somebody_else_is_waited_for),
	    with(outsiders_keep_a_gpu_and_our_own_are_observed),
	    with(without_a_driver_jobs_wait_and_are_told),
	    with(a_second_agent_is_refused_and_told_who_has_it),
	    with(a_lost_database_is_not_replaced_by_an_empty_one),
	    with(a_directory_that_nobody_was_told_of_is_removed),
	    with(a_life_without_memory),
	};
	if (access("/dev/shm", W_OK) == 0)
		(void)setenv("TMPDIR", "/dev/shm", 1); /* no test looks at what a disk does */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
