/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/run/run_batch.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "cmd/service/agent_call.h"

enum run_batch_state {
	RUN_BATCH_UNSENT, /* or its connection has ended */
	RUN_BATCH_SENT,
	RUN_BATCH_ANSWERED,
};

struct run_batch_entry {
	struct run_batch *batch;
	const Sluice__V1__SubmitRequest *request; /* borrowed */
	size_t bytes;
	enum run_batch_state state;
	struct wire_client_call *call; /* while it is sent */
	struct run_batch_answer answer;
};

/* A ring: the oldest one is at `first`. */
struct run_batch {
	struct agent_call *agent;
	struct run_batch_entry entries[RUN_BATCH_MAX];
	size_t first, count, bytes;
};

static struct run_batch_entry *run_batch_at(struct run_batch *batch, size_t index)
{
	return &batch->entries[(batch->first + index) % RUN_BATCH_MAX];
}

struct run_batch *run_batch_new(struct agent_call *agent, struct err *err)
{
	struct run_batch *batch = calloc(1, sizeof(*batch));
	if (!batch) {
		(void)err_set(err, -ENOMEM, "no memory to submit jobs");
		return NULL;
	}

	batch->agent = agent;
	for (size_t i = 0; i < RUN_BATCH_MAX; i++)
		batch->entries[i].batch = batch;

	return batch;
}

struct run_batch *run_batch_free(struct run_batch *batch)
{
	free(batch);
	return NULL;
}

/* --- answers ---------------------------------------------------------------------------------- */

static void run_batch_on_reply(const ProtobufCMessage *reply, void *context)
{
	struct run_batch_entry *entry = context;
	entry->answer.id = ((const Sluice__V1__SubmitReply *)reply)->id;
}

static void run_batch_on_end(const struct wire_result *result, void *context)
{
	struct run_batch_entry *entry = context;
	struct run_batch_answer *answer = &entry->answer;

	/* Also of an agent that is stopping: the next one is asked. */
	entry->call = NULL;
	entry->state = result->status == WIRE_UNAVAILABLE ? RUN_BATCH_UNSENT : RUN_BATCH_ANSWERED;
	answer->result = *result;
	if (result->status == WIRE_OK && answer->id == 0)
		(void)err_set(&answer->err, -EPROTO, "the agent's answer has no number");
	else if (result->status != WIRE_OK)
		(void)err_set(&answer->err, result->code ? result->code : -EREMOTEIO, "%s",
			      result->message[0] ? result->message
						 : wire_status_to_string(result->status));
}

/* One that cannot be sent waits for the next connection. */
static void run_batch_send(struct run_batch_entry *entry)
{
	const struct wire_client_callbacks callbacks = {
	    .message = run_batch_on_reply, .end = run_batch_on_end, .context = entry};
	struct agent_call *agent = entry->batch->agent;
	struct run_batch_answer *answer = &entry->answer;

	answer->id = 0;
	answer->err = (struct err){0};
	entry->call = agent->client
			  ? wire_client_call(agent->client, agent_call_method(AGENT_SUBMIT),
					     &entry->request->base, AGENT_CALL_DEADLINE_NS,
					     &callbacks, &answer->err)
			  : NULL;

	bool is_cut = !agent->client || answer->err.code == -ENOTCONN;
	entry->state = entry->call ? RUN_BATCH_SENT
		       : is_cut	   ? RUN_BATCH_UNSENT
				   : RUN_BATCH_ANSWERED;
}

bool run_batch_has_room(const struct run_batch *batch, const Sluice__V1__SubmitRequest *request)
{
	if (batch->count == 0)
		return true;
	return batch->count < RUN_BATCH_MAX &&
	       batch->bytes + sluice__v1__submit_request__get_packed_size(request) <=
		   RUN_BATCH_BYTES;
}

void run_batch_add(struct run_batch *batch, const Sluice__V1__SubmitRequest *request, void *context)
{
	/* Behind those that wait for another connection, or its number would be before theirs. */
	bool waits = run_batch_is_cut(batch);
	struct run_batch_entry *entry = run_batch_at(batch, batch->count++);

	entry->request = request;
	entry->bytes = sluice__v1__submit_request__get_packed_size(request);
	entry->state = RUN_BATCH_UNSENT;
	entry->answer = (struct run_batch_answer){.context = context};
	batch->bytes += entry->bytes;
	if (!waits)
		run_batch_send(entry);
}

size_t run_batch_count(const struct run_batch *batch)
{
	return batch->count;
}

bool run_batch_is_cut(const struct run_batch *batch)
{
	for (size_t i = 0; i < batch->count; i++) {
		size_t at = (batch->first + i) % RUN_BATCH_MAX;
		if (batch->entries[at].state == RUN_BATCH_UNSENT)
			return true;
	}

	return false;
}

void run_batch_again(struct run_batch *batch)
{
	for (size_t i = 0; i < batch->count; i++) {
		struct run_batch_entry *entry = run_batch_at(batch, i);
		if (entry->state == RUN_BATCH_UNSENT)
			run_batch_send(entry);
	}
}

const struct run_batch_answer *run_batch_first(const struct run_batch *batch)
{
	const struct run_batch_entry *entry = &batch->entries[batch->first];
	bool is_there = batch->count > 0 && entry->state == RUN_BATCH_ANSWERED;
	return is_there ? &entry->answer : NULL;
}

void *run_batch_drop(struct run_batch *batch)
{
	struct run_batch_entry *entry = run_batch_at(batch, 0);

	if (entry->call)
		wire_client_cancel(entry->call);
	entry->call = NULL;
	batch->bytes -= entry->bytes;
	batch->first = (batch->first + 1) % RUN_BATCH_MAX;
	batch->count--;

	return entry->answer.context;
}
