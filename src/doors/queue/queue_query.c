/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about jobs that are in the store alone. The answers are copied on the storage thread
 * and handed out on the loop. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "doors/queue/queue_internal.h"

/* Rows of a list that are read at once: what else waits for the storage thread gets its turn
 * between, and the loop hands out one part while the next is read. As many as malloc still has
 * from its heap: a larger part would be mapped and faulted in each time. */
enum { QUERY_PART = 400 };

/* A job as the store had it. */
struct queue_answer {
	struct job job;
	struct record_attempt attempt;
	struct queue_observation *observed; /* owned */
	size_t observed_count;
};

struct queue_question {
	struct queue_op op; /* first */
	struct queue_question *next;
	struct queue_query query;
	struct queue_answer *answers; /* owned */
	size_t count, room;
	struct store_place place; /* of the last row of the part before */
	bool has_place;
	/* of a spec */
	void (*spec_done)(int result, const struct spec *spec, const struct err *err,
			  void *context);
	void (*whole_done)(int result, const struct spec *spec, const struct queue_past *past,
			   size_t past_count, const struct err *err, void *context);
	struct spec spec;
	struct queue_past *past; /* owned */
	size_t past_count, past_room;
	bool is_spec, is_forgotten;
};

static void queue_answers_free(struct queue_answer *answers, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		job_done(&answers[i].job);
		record_attempt_done(&answers[i].attempt);
		free(answers[i].observed);
	}
	free(answers);
}

static struct queue_question *queue_question_free(struct queue_question *question)
{
	account_give(question->op.queue->account, ACCOUNT_QUERIES, question->query.uid, 1);
	queue_answers_free(question->answers, question->count);
	if (question->is_spec)
		spec_done(&question->spec);

	for (size_t i = 0; i < question->past_count; i++)
		record_attempt_done(&question->past[i].record);

	free(question->past);
	free(question);
	return NULL;
}

/* --- on the storage thread ------------------------------------------------------------------- */

static int queue_answer_add(const struct job *job, const char *grants, const char *observations,
			    void *context)
{
	struct queue_question *question = context;
	if (array_room(&question->answers, question->count, &question->room,
		       question->query.id > 0 ? 1 : QUERY_PART) < 0)
		return -ENOMEM;

	struct queue_answer *answer = &question->answers[question->count];
	*answer = (struct queue_answer){.observed_count = 0};

	int rc = job_copy(job, &answer->job);
	if (rc < 0)
		return rc;

	question->count++;
	/* What cannot be read is not shown; the job is. */
	if (grants)
		(void)record_parse_attempt(grants, strlen(grants), &answer->attempt, NULL);

	/* A list tells who had which GPU, not which process was seen there. */
	if (observations && question->query.id > 0)
		(void)record_parse_observations(observations, strlen(observations),
						&answer->observed, &answer->observed_count, NULL);

	return 0;
}

static int queue_past_add(const struct store_attempt *attempt, void *context)
{
	struct queue_question *question = context;

	if (attempt->ended_unix_ns == 0)
		return 0;

	if (array_room(&question->past, question->past_count, &question->past_room, 4) < 0)
		return -ENOMEM;

	struct queue_past *past = &question->past[question->past_count++];
	*past = (struct queue_past){
	    .number = attempt->number,
	    .started_unix_ns = attempt->started_unix_ns,
	    .ended_unix_ns = attempt->ended_unix_ns,
	    .reason = attempt->reason,
	    .has_exit = attempt->has_exit,
	    .exit_code = attempt->exit_code,
	};
	(void)snprintf(past->reason_text, sizeof(past->reason_text), "%s",
		       attempt->reason_text ? attempt->reason_text : ""); /* cut */

	/* What cannot be read is not shown; the attempt is. */
	if (attempt->grants)
		(void)record_parse_attempt(attempt->grants, strlen(attempt->grants), &past->record,
					   NULL);

	return 0;
}

static int queue_question_work(struct queue_op *op)
{
	struct queue_question *question = (struct queue_question *)op;
	struct store *store = op->queue->store;
	const struct queue_query *query = &question->query;

	if (question->is_spec) {
		_cleanup_free_ char *bytes = NULL;
		size_t length = 0;
		int rc = store_spec(store, query->id, &bytes, &length, &op->err);
		if (rc == 0)
			rc = spec_parse(bytes, length, &question->spec, &op->err);

		if (rc == 0 && question->whole_done)
			rc = store_attempts(store, query->id, queue_past_add, question, &op->err);

		return rc;
	}

	int rc;

	if (query->id > 0)
		rc = store_get(store, query->id, queue_answer_add, question, &op->err);
	else
		rc = store_list_final(store, query->since_unix_ns,
				      question->has_place ? &question->place : NULL,
				      query->max < QUERY_PART ? query->max : QUERY_PART,
				      queue_answer_add, question, &op->err);

	if (rc < 0 && op->err.code == 0)
		(void)err_set(&op->err, rc, "reading the jobs that have ended: %s",
			      err_describe(rc));

	return rc;
}

/* --- on the loop ----------------------------------------------------------------------------- */

static void queue_answers_tell(const struct queue_question *question,
			       const struct queue_answer *answers, size_t count)
{
	for (size_t i = 0; i < count && !question->is_forgotten; i++) {
		const struct queue_answer *answer = &answers[i];
		const struct queue_attempt attempt = {
		    .grants = answer->attempt.grants,
		    .grant_count = answer->attempt.grant_count,
		    .isolation = answer->job.attempt
				     ? isolation_level_to_string(answer->attempt.isolation)
				     : "",
		    .isolation_reason = "",
		    .cgroup = "",
		    .observed = answer->observed,
		    .observed_count = answer->observed_count,
		};

		question->query.each(&answer->job, &attempt, question->query.context);
	}
}

/* Hands out a part of a list, and has the next one read meanwhile. False: this was the last. */
static bool queue_question_more(struct queue_question *question)
{
	size_t count = question->count;
	if (question->is_spec || question->is_forgotten || question->query.id > 0 ||
	    count < QUERY_PART || count >= question->query.max)
		return false;

	struct queue_answer *answers = take_ptr(question->answers);
	const struct job *last = &answers[count - 1].job;

	question->place = (struct store_place){last->ended_unix_ns, last->id};
	question->has_place = true;
	question->query.max -= count;
	question->count = question->room = 0;
	queue_op_submit(question->op.queue, &question->op);
	queue_answers_tell(question, answers, count);
	queue_answers_free(answers, count);

	return true;
}

static void queue_question_done(struct queue_op *op, int rc)
{
	struct queue_question *question = (struct queue_question *)op;
	struct queue *queue = op->queue;

	if (rc == 0 && !queue->closing && queue_question_more(question))
		return;

	for (struct queue_question **at = &queue->questions; *at; at = &(*at)->next) {
		if (*at == question) {
			*at = question->next;
			break;
		}
	}

	if (queue->closing)
		rc = err_set(&op->err, -ESHUTDOWN, "the agent is ending");

	void *context = question->query.context;
	const struct err *err = rc < 0 ? &op->err : NULL;

	if (rc == 0 && !question->is_spec)
		queue_answers_tell(question, question->answers, question->count);

	if (!question->is_forgotten && question->whole_done)
		question->whole_done(rc, rc == 0 ? &question->spec : NULL, question->past,
				     rc == 0 ? question->past_count : 0, err, context);
	else if (!question->is_forgotten && question->is_spec)
		question->spec_done(rc, rc == 0 ? &question->spec : NULL, err, context);
	else if (!question->is_forgotten)
		question->query.done(rc, err, context);

	(void)queue_question_free(question);
}

static struct queue_question *queue_ask(struct queue *queue, uid_t uid, struct err *err)
{
	if (account_take(queue->account, ACCOUNT_QUERIES, uid, 1, err) < 0) {
		err->code = -EAGAIN;
		return NULL;
	}

	struct queue_question *question = calloc(1, sizeof(*question));
	if (!question) {
		account_give(queue->account, ACCOUNT_QUERIES, uid, 1);
		(void)err_set(err, -ENOMEM, "no memory to look for jobs");
		return NULL;
	}

	question->op.work = queue_question_work;
	question->op.done = queue_question_done;
	question->op.queue = queue;
	question->query.uid = uid;
	question->next = queue->questions;
	queue->questions = question;

	return question;
}

void queue_query(struct queue *queue, const struct queue_query *query)
{
	const struct job *job = query->id > 0 ? queue_find(queue, query->id) : NULL;
	if (job) {
		struct queue_attempt attempt;
		queue_attempt_of(queue, job, &attempt);
		query->each(job, &attempt, query->context);
		query->done(0, NULL, query->context);
		return;
	}

	struct err err = {.code = 0};
	struct queue_question *question = queue_ask(queue, query->uid, &err);
	if (!question) {
		query->done(err.code, &err, query->context);
		return;
	}

	question->query = *query;
	queue_op_submit(queue, &question->op);
}

void queue_query_spec(struct queue *queue, uint64_t id, uid_t uid,
		      void (*done)(int result, const struct spec *spec, const struct err *err,
				   void *context),
		      void *context)
{
	struct err err = {.code = 0};
	struct queue_question *question = queue_ask(queue, uid, &err);
	if (!question) {
		done(err.code, NULL, &err, context);
		return;
	}

	spec_init(&question->spec);
	question->is_spec = true;
	question->spec_done = done;
	question->query.id = id;
	question->query.context = context;
	queue_op_submit(queue, &question->op);
}

void queue_query_whole(struct queue *queue, uint64_t id, uid_t uid,
		       void (*done)(int result, const struct spec *spec,
				    const struct queue_past *past, size_t past_count,
				    const struct err *err, void *context),
		       void *context)
{
	struct err err = {.code = 0};
	struct queue_question *question = queue_ask(queue, uid, &err);
	if (!question) {
		done(err.code, NULL, NULL, 0, &err, context);
		return;
	}

	spec_init(&question->spec);
	question->is_spec = true;
	question->whole_done = done;
	question->query.id = id;
	question->query.context = context;
	queue_op_submit(queue, &question->op);
}

void queue_query_forget(struct queue *queue, void *context)
{
	for (struct queue_question *at = queue->questions; at; at = at->next) {
		if (at->query.context == context)
			at->is_forgotten = true;
	}
}

void queue_query_each(struct queue *queue, void (*each)(struct queue_query *query, void *context),
		      void *context)
{
	for (struct queue_question *at = queue->questions; at; at = at->next) {
		if (!at->is_forgotten && !at->is_spec)
			each(&at->query, context);
	}
}
