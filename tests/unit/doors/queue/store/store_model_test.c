/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store against a model of it in memory: random calls, valid and not, with closing, opening and
 * killing in between. And a writer that is killed at any moment, against what it said.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/parse.h"
#include "unit/doors/queue/store/store_common.h"
#include "unit/unit.h"

enum { MODEL_JOBS = 400, MODEL_STEPS = 2500, MODEL_KEYS = 40 };

struct model_job {
	bool exists;
	struct job job; /* reason_text: NULL or the text below */
	unsigned key;
	char grants[16], observations[16], spec[32];
	bool has_grants;
};

struct model {
	struct model_job jobs[MODEL_JOBS]; /* by id */
	uint64_t next_id;
	int64_t now; /* rises with each step */
};

static uint64_t model_random_state;

/* 0 .. below - 1 */
static uint64_t model_random(uint64_t below)
{
	model_random_state ^= model_random_state << 13;
	model_random_state ^= model_random_state >> 7;
	model_random_state ^= model_random_state << 17;
	return model_random_state % below;
}

static bool model_is_final(const struct model_job *job)
{
	return job_state_is_final(job->job.state);
}

/* -- what is read must be the model -------------------------------------------------------------*/

struct reading {
	struct model *model;
	uint64_t last;	    /* id of the row before */
	int64_t last_ended; /* and when it ended */
	size_t count;
};

static void check_row(const struct model *model, const struct job *job, const char *grants,
		      const char *observations)
{
	assert_in_range(job->id, 1, MODEL_JOBS - 1);
	const struct model_job *expected = &model->jobs[job->id];
	assert_true(expected->exists);
	assert_int_equal(job->state, expected->job.state);
	assert_int_equal(job->attempt, expected->job.attempt);
	assert_int_equal(job->uid, expected->job.uid);
	assert_string_equal(job->key, expected->job.key);
	assert_string_equal(job->name, expected->job.name);
	assert_int_equal(job->started_unix_ns, expected->job.started_unix_ns);
	assert_int_equal(job->ended_unix_ns, expected->job.ended_unix_ns);
	assert_int_equal(job->has_exit, expected->job.has_exit);
	assert_int_equal(job->exit_code, expected->job.exit_code);
	assert_int_equal(job->reason, expected->job.reason);
	assert_string_equal(grants ? grants : "-", expected->has_grants ? expected->grants : "-");
	assert_string_equal(observations ? observations : "", expected->observations);
}

static int read_live(const struct job *job, const char *grants, void *context)
{
	struct reading *reading = context;
	check_row(reading->model, job, grants, NULL);
	assert_false(job_state_is_final(job->state));
	assert_true(job->id > reading->last);
	reading->last = job->id;
	reading->count++;
	return 0;
}

static int read_final(const struct job *job, const char *grants, const char *observations,
		      void *context)
{
	struct reading *reading = context;
	check_row(reading->model, job, grants, observations);
	assert_true(job_state_is_final(job->state));
	assert_true(job->ended_unix_ns <= reading->last_ended);
	reading->last_ended = job->ended_unix_ns;
	reading->count++;
	return 0;
}

static void check_all(struct store *store, struct model *model)
{
	size_t live = 0, final = 0;
	for (uint64_t id = 1; id < MODEL_JOBS; id++) {
		const struct model_job *job = &model->jobs[id];
		live += job->exists && !model_is_final(job);
		final += job->exists && model_is_final(job);
		char *spec = NULL;
		size_t length = 0;
		assert_int_equal(store_spec(store, id, &spec, &length, NULL),
				 job->exists ? 0 : -ENOENT);
		if (job->exists)
			assert_string_equal(spec, job->spec);
		free(spec);
	}
	struct reading reading = {.model = model, .last_ended = INT64_MAX};
	assert_int_equal(store_load(store, read_live, &reading, NULL), 0);
	assert_int_equal(reading.count, live);
	reading.count = 0;
	assert_int_equal(store_list_final(store, 0, NULL, MODEL_JOBS, read_final, &reading, NULL),
			 0);
	assert_int_equal(reading.count, final);
	uint64_t next = 0;
	assert_int_equal(store_next_id(store, &next, NULL), 0);
	assert_int_equal(next, model->next_id);
}

/* -- the calls ----------------------------------------------------------------------------------*/

/* The id of the job with that key, or 0. */
static uint64_t model_find(const struct model *model, uid_t uid, unsigned key)
{
	for (uint64_t id = 1; id < MODEL_JOBS; id++)
		if (model->jobs[id].exists && model->jobs[id].job.uid == uid &&
		    model->jobs[id].key == key)
			return id;
	return 0;
}

static void step_accept(struct store *store, struct model *model)
{
	enum { BATCH = 4 };
	struct model_job made[BATCH] = {0};
	struct store_accept batch[BATCH];
	size_t count = 1 + (size_t)model_random(BATCH);
	bool clash = false;
	uint64_t id = model->next_id;
	if (id + 2 * BATCH >= MODEL_JOBS)
		return;
	for (size_t i = 0; i < count; i++, id += 1 + model_random(2)) {
		struct model_job *one = &made[i];
		one->exists = true;
		one->key = (unsigned)model_random(MODEL_KEYS);
		one->job = make_job(id);
		one->job.uid = 1000 + (uid_t)model_random(4);
		(void)snprintf(one->job.key, sizeof(one->job.key), "key %u", one->key);
		(void)snprintf(one->spec, sizeof(one->spec), "spec %" PRIu64, id);
		clash |= model_find(model, one->job.uid, one->key) != 0;
		for (size_t k = 0; k < i; k++)
			clash |= made[k].key == one->key && made[k].job.uid == one->job.uid;
		batch[i] = (struct store_accept){
		    .job = &one->job, .spec = one->spec, .spec_length = strlen(one->spec)};
	}
	assert_int_equal(store_accept(store, batch, count, NULL), clash ? -EEXIST : 0);
	for (size_t i = 0; i < count && !clash; i++) {
		model->jobs[made[i].job.id] = made[i];
		model->next_id = made[i].job.id + 1;
	}
}

/* What a call about this job must return. */
static int model_expect(const struct model_job *job)
{
	return !job->exists ? -ENOENT : model_is_final(job) ? -EALREADY : 0;
}

static void step_start(struct store *store, struct model *model, uint64_t id)
{
	struct model_job *job = &model->jobs[id];
	uint32_t attempt = job->job.attempt + 1;
	char grants[16];
	(void)snprintf(grants, sizeof(grants), "on %" PRIu64, model_random(8));
	int expected = model_expect(job);
	assert_int_equal(store_start(store, id, attempt, grants, model->now, NULL), expected);
	if (expected < 0)
		return;
	job->job.state = JOB_STARTING;
	job->job.attempt = attempt;
	job->job.started_unix_ns = model->now;
	job->has_grants = true;
	memcpy(job->grants, grants, sizeof(grants));
}

static void step_unstart(struct store *store, struct model *model, uint64_t id)
{
	struct model_job *job = &model->jobs[id];
	int expected = model_expect(job);
	assert_int_equal(store_unstart(store, id, job->job.attempt, NULL), expected);
	if (expected < 0)
		return;
	job->job.state = JOB_PENDING;
	job->job.started_unix_ns = 0;
	job->has_grants = false;
}

static void step_end(struct store *store, struct model *model, uint64_t id)
{
	struct model_job *job = &model->jobs[id];
	struct job end = job->job;
	static const enum job_state states[] = {JOB_SUCCEEDED, JOB_FAILED, JOB_CANCELLED};
	end.id = id;
	end.state = states[model_random(3)];
	end.reason = end.state == JOB_CANCELLED ? JOB_REASON_USER : JOB_REASON_EXIT_CODE;
	end.has_exit = end.state != JOB_CANCELLED;
	end.exit_code = end.has_exit ? (int)model_random(256) : 0;
	end.ended_unix_ns = model->now;
	int expected = model_expect(job);
	assert_int_equal(store_end(store, &end, "seen", NULL), expected);
	if (expected < 0)
		return;
	job->job = end;
	(void)snprintf(job->observations, sizeof(job->observations), "%s",
		       job->has_grants ? "seen" : "");
}

static void step_forget(struct store *store, struct model *model)
{
	int64_t before = model->now - (int64_t)model_random(2000);
	size_t keep = (size_t)model_random(60), count = 0;
	uint64_t *ids = NULL;
	assert_int_equal(store_forget(store, before, 0, keep, &ids, &count, NULL), 0);
	for (size_t i = 0; i < count; i++) {
		struct model_job *job = &model->jobs[ids[i]];
		assert_true(job->exists && model_is_final(job));
		*job = (struct model_job){.exists = false};
	}
	free(ids);
	/* None that should have gone is left. */
	size_t newer = 0;
	for (uint64_t id = 1; id < MODEL_JOBS; id++) {
		const struct model_job *job = &model->jobs[id];
		if (!job->exists || !model_is_final(job))
			continue;
		assert_true(job->job.ended_unix_ns >= before);
		newer++;
	}
	assert_true(newer <= keep);
}

static void step_find(struct store *store, struct model *model)
{
	uid_t uid = 1000 + (uid_t)model_random(4);
	unsigned key = (unsigned)model_random(MODEL_KEYS);
	char text[16];
	(void)snprintf(text, sizeof(text), "key %u", key);
	uint64_t expected = model_find(model, uid, key), id = 0;
	assert_int_equal(store_find_key(store, uid, text, &id, NULL), expected ? 0 : -ENOENT);
	assert_int_equal(id, expected);
}

static struct store *step(struct store *store, struct model *model, const char *path)
{
	uint64_t id = 1 + model_random(model->next_id);
	model->now++;
	switch (model_random(16)) {
	case 0:
	case 1:
	case 2:
		step_accept(store, model);
		break;
	case 3:
	case 4:
	case 5:
	case 6:
		step_start(store, model, id);
		break;
	case 7:
		step_unstart(store, model, id);
		break;
	case 8:
	case 9:
	case 10:
		step_end(store, model, id);
		break;
	case 11:
		if (model_random(4) == 0)
			step_forget(store, model);
		break;
	case 12:
	case 13:
		step_find(store, model);
		break;
	default:
		if (model_random(8) == 0) {
			store = store_close(store);
			store = must_open(path);
			check_all(store, model);
		}
	}
	return store;
}

static void test_it_is_what_a_model_of_it_is(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 4; seed++) {
		struct place place = place_make();
		struct store *store = must_open(place.path);
		struct model *model = calloc(1, sizeof(*model));
		assert_non_null(model);
		model->next_id = 1;
		model_random_state = seed * UINT64_C(0x9e3779b97f4a7c15);
		for (unsigned i = 0; i < MODEL_STEPS; i++)
			store = step(store, model, place.path);
		check_all(store, model);
		assert_true(model->next_id > MODEL_JOBS / 2);
		free(model);
		store = store_close(store);
		place_done(&place);
	}
}

/* -- a writer that is killed --------------------------------------------------------------------*/

enum { KILL_ROUNDS = 40, KILL_LINES = 60 };

/* Accepts and ends jobs, and says so: "a 17\n", "e 17\n". */
static void write_until_killed(const char *path, int out)
{
	struct store *store = must_open(path);
	uint64_t id = 0;
	for (;;) {
		if (store_next_id(store, &id, NULL) < 0)
			_exit(1);
		must_accept(store, id);
		(void)dprintf(out, "a%" PRIu64 "\n", id);
		if (id > 3 && end_job(store, id - 3, JOB_SUCCEEDED, (int64_t)id) == 0)
			(void)dprintf(out, "e%" PRIu64 "\n", id - 3);
	}
}

struct said {
	uint64_t accepted;
	bool ended[KILL_ROUNDS * KILL_LINES];
};

/* Reads what the writer says up to its end, and kills it once it has said `lines` lines. */
static void listen_and_kill(int in, pid_t writer, unsigned lines, struct said *said)
{
	FILE *file = fdopen(in, "r");
	assert_non_null(file);
	char line[64];
	while (fgets(line, sizeof(line), file)) {
		uint64_t id = 0;
		line[strcspn(line, "\n")] = '\0';
		assert_int_equal(parse_u64(line + 1, 1, UINT64_MAX, &id), 0);
		assert_true(id < KILL_ROUNDS * KILL_LINES);
		if (line[0] == 'a')
			said->accepted = id;
		else
			said->ended[id] = true;
		if (lines > 0 && --lines == 0)
			assert_int_equal(kill(writer, SIGKILL), 0);
	}
	(void)fclose(file);
}

static void test_a_killed_writer_has_kept_its_word(void **state)
{
	(void)state;
	struct place place = place_make();
	store_close(must_open(place.path));
	struct said said = {.accepted = 0};
	model_random_state = 77;
	for (unsigned round = 0; round < KILL_ROUNDS; round++) {
		int ends[2];
		assert_int_equal(pipe(ends), 0);
		pid_t writer = fork();
		assert_true(writer >= 0);
		if (writer == 0) {
			(void)close(ends[0]);
			write_until_killed(place.path, ends[1]);
		}
		(void)close(ends[1]);
		listen_and_kill(ends[0], writer, 1 + (unsigned)model_random(KILL_LINES - 4), &said);
		int status = 0;
		assert_int_equal(waitpid(writer, &status, 0), writer);
		assert_true(WIFSIGNALED(status));
		struct store *store = must_open(place.path);
		for (uint64_t id = 1; id <= said.accepted; id++) {
			struct seen seen = {.count = 0};
			assert_int_equal(store_get(store, id, see, &seen, NULL), 0);
			if (said.ended[id])
				assert_int_equal(seen.last.state, JOB_SUCCEEDED);
			job_done(&seen.last);
		}
		uint64_t next = 0;
		assert_int_equal(store_next_id(store, &next, NULL), 0);
		/* One more may be there, of which it could not speak any more. */
		assert_in_range(next, said.accepted + 1, said.accepted + 2);
		said.accepted = next - 1;
		store = store_close(store);
	}
	place_done(&place);
}

int main(void)
{
	place_in_memory();
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_it_is_what_a_model_of_it_is),
	    cmocka_unit_test(test_a_killed_writer_has_kept_its_word),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
