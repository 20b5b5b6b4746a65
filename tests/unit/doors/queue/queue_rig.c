/* SPDX-License-Identifier: Apache-2.0 */
#include "queue_rig.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/account.h"
#include "base/child.h"
#include "base/storage.h"
#include "policy/policy.h"

struct fixture *fixture;

static void on_change(void *context)
{
	fixture->changes++;
}

/* GPUs of two slots each when `shared`. */
void configure(const char *text)
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

void look(void)
{
	queue_set_machine(fixture->queue, &fixture->inventory, fixture->snapshot, fixture->policy,
			  NULL);
}

struct queue_options options_with(const char *supervisor)
{
	return (struct queue_options){
	    .loop = fixture->loop,
	    .storage = fixture->storage,
	    .children = fixture->children,
	    .state_dir = fixture->tmp,
	    .sim_state = unit_path(fixture->tmp, "sim"), /* tokens of this test alone */
	    .supervisor = supervisor,
	    .retention_jobs = fixture->retention,
	    .account = fixture->account,
	    .changed = on_change,
	};
}

void open_queue_with(const char *supervisor)
{
	struct err err = {.code = 0};
	const struct queue_options options = options_with(supervisor);
	if (queue_open(&options, &fixture->queue, &err) < 0)
		fail_msg("%s", err.text);
	look();
}

void open_queue(void)
{
	open_queue_with(getenv("QUEUE_FAKE_SUPERVISOR"));
}

int setup(void **state)
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

int teardown(void **state)
{
	fixture->queue = queue_close(fixture->queue);
	fixture->children = child_set_free(fixture->children);
	fixture->storage = storage_close(fixture->storage);
	fixture->loop = loop_free(fixture->loop);
	fixture->policy = policy_free(fixture->policy);
	fixture->tmp = unit_tmp_free(fixture->tmp);
	free(fixture->snapshot);
	fixture->account = account_free(fixture->account);
	free(fixture);
	return 0;
}

void reopen(void)
{
	fixture->queue = queue_close(fixture->queue);
	open_queue();
}

void stuck(void)
{
	const struct job *job = fixture->queue ? queue_first(fixture->queue) : NULL;
	fail_msg("stuck: job %d is %s %s(%s)", job ? (int)job->id : 0,
		 job ? job_state_to_string(job->state) : "gone",
		 job ? job_reason_to_string(job->reason) : "",
		 job && job->reason_text ? job->reason_text : "");
}

void on_submitted(int result, uint64_t id, bool known, const char *reason, const struct err *err,
		  void *context)
{
	struct answer *answer = context;
	assert_false(answer->done);
	*answer = (struct answer){.done = true, .result = result, .id = id, .known = known};
	(void)snprintf(answer->text, sizeof(answer->text), "%s", err ? err->text : reason);
}

/* A job that runs `command` in a shell. */
void submit_as(const char *key, const char *command, uint32_t gpus, bool no_wait,
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
	assert_int_equal(wants_copy(&fixture->wants, &spec.wants), 0);
	*answer = (struct answer){.done = false};
	const struct queue_submit submit = {
	    .key = key, .spec = &spec, .no_wait = no_wait, .done = on_submitted, .context = answer};
	queue_submit(fixture->queue, &submit);
	spec_done(&spec);
}

uint64_t submit(const char *key, const char *command, uint32_t gpus)
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

struct answer ask(uint64_t id)
{
	struct answer answer = {.done = false};
	const struct queue_query query = {
	    .id = id, .max = TEST_JOBS, .each = on_job, .done = on_asked, .context = &answer};
	queue_query(fixture->queue, &query);
	wait_for(answer.done);
	return answer;
}

enum job_state state_of(uint64_t id)
{
	const struct job *job = queue_find(fixture->queue, id);
	return job ? job->state : JOB_SUCCEEDED; /* or any other end */
}

struct answer ended(uint64_t id)
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

void begin_cancel(uint64_t id, struct answer *answer)
{
	*answer = (struct answer){.done = false};
	queue_cancel(fixture->queue, id, 0, false, 0, "alice", on_cancelled, answer);
}

struct answer cancel(uint64_t id)
{
	struct answer answer;
	begin_cancel(id, &answer);
	wait_for(answer.done);
	return answer;
}

bool there(const char *name)
{
	return access(unit_path(fixture->tmp, name), F_OK) == 0;
}

/* "echo x >> TMP/name", in a static buffer. */
const char *append(const char *name, const char *then)
{
	static char command[512];
	(void)snprintf(command, sizeof(command), "echo x >> %s; %s", unit_path(fixture->tmp, name),
		       then);
	return command;
}

size_t lines(const char *name)
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

/* Runs until TMP/go is there. */
const char *until_go(const char *name)
{
	static char command[1024];
	(void)snprintf(command, sizeof(command),
		       "echo x >> %s; while [ ! -e %s ]; do sleep 0.01; done",
		       unit_path(fixture->tmp, name), unit_path(fixture->tmp, "go"));
	return command;
}

void go(void)
{
	unit_write(unit_path(fixture->tmp, "go"), "");
}

pid_t read_pid(const char *name)
{
	FILE *file = fopen(unit_path(fixture->tmp, name), "re");
	int pid = 0;
	if (file && fscanf(file, "%d", &pid) != 1)
		pid = 0;
	if (file)
		(void)fclose(file);
	return pid;
}

void place_in_memory(void)
{
	if (access("/dev/shm", W_OK) == 0)
		(void)setenv("TMPDIR", "/dev/shm", 1);
}
