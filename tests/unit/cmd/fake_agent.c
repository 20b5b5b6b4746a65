/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/cmd/fake_agent.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/loop.h"
#include "cmd/jobs/job_text.h"
#include "unit/unit.h"
#include "wire/listen.h"

#define FAKE_DEADLINE_NS UINT64_C(10000000000)

static bool fake_refuses(struct fake_agent *fake, struct wire_call *call)
{
	if (fake->refuse == WIRE_OK)
		return false;
	wire_call_finish(call, fake->refuse, "not today");
	return true;
}

static void fake_get(struct wire_call *call, const ProtobufCMessage *request, void *context)
{
	struct fake_agent *fake = context;
	fake->gets++;
	if (!fake_refuses(fake, call))
		(void)wire_call_reply(call, &fake->job.base, NULL);
}

static void fake_forget(void *context)
{
	*(struct wire_call **)context = NULL;
}

static void fake_tell_one(struct fake_agent *fake, struct wire_call **watcher)
{
	struct wire_call *call = *watcher;
	if (call && wire_call_reply(call, &fake->job.base, NULL) == 0 &&
	    job_text_is_final(fake->job.state)) {
		*watcher = NULL;
		wire_call_finish(call, WIRE_OK, NULL);
	}
}

static void fake_watch(struct wire_call *call, const ProtobufCMessage *request, void *context)
{
	struct fake_agent *fake = context;
	fake->watches++;
	if (fake_refuses(fake, call))
		return;
	size_t at = 0;
	while (fake->watcher[at])
		at++;
	assert_true(at < FAKE_WATCHERS_MAX);
	fake->watcher[at] = call;
	wire_call_on_cancel(call, fake_forget, &fake->watcher[at]);
	fake_tell_one(fake, &fake->watcher[at]);
}

static void fake_signal(struct wire_call *call, const ProtobufCMessage *request, void *context)
{
	struct fake_agent *fake = context;
	const Sluice__V1__SignalReply reply = SLUICE__V1__SIGNAL_REPLY__INIT;
	fake->signals++;
	fake->last_signal = ((const Sluice__V1__SignalRequest *)request)->signal;
	if (fake->refuse_signal != WIRE_OK)
		wire_call_finish(call, fake->refuse_signal, "no such process");
	else
		(void)wire_call_reply(call, &reply.base, NULL);
}

static void fake_cancel(struct wire_call *call, const ProtobufCMessage *request, void *context)
{
	struct fake_agent *fake = context;
	const Sluice__V1__CancelReply reply = SLUICE__V1__CANCEL_REPLY__INIT;
	const Sluice__V1__CancelRequest *asked = (const Sluice__V1__CancelRequest *)request;
	fake->cancels++;
	fake->last_grace_ns = asked->has_grace ? asked->grace_ns : UINT64_MAX;
	(void)wire_call_reply(call, &reply.base, NULL);
}

static void fake_logs(struct wire_call *call, const ProtobufCMessage *request, void *context)
{
	struct fake_agent *fake = context;
	const Sluice__V1__LogsRequest *asked = (const Sluice__V1__LogsRequest *)request;
	fake->logs++;
	fake->last_offset = asked->offset;
	if (fake_refuses(fake, call))
		return;
	size_t length = strlen(fake->log);
	for (size_t at = fake->log_from_start ? 0 : asked->offset; at < length; at += fake->piece) {
		Sluice__V1__LogChunk chunk = SLUICE__V1__LOG_CHUNK__INIT;
		chunk.offset = at;
		chunk.data.data = (uint8_t *)fake->log + at;
		chunk.data.len = length - at < fake->piece ? length - at : fake->piece;
		assert_int_equal(wire_call_reply(call, &chunk.base, NULL), 0);
	}
	if (!fake->log_stays)
		wire_call_finish(call, WIRE_OK, NULL);
}

/* Kept until fake_agent_answer(). */
static void fake_submit(struct wire_call *call, const ProtobufCMessage *request, void *context)
{
	struct fake_agent *fake = context;
	const char *key = ((const Sluice__V1__SubmitRequest *)request)->key;
	size_t at = fake->submits++;
	assert_true(at < FAKE_SUBMITS_MAX && strlen(key) < sizeof(fake->submit_keys[at]));
	memcpy(fake->submit_keys[at], key, strlen(key) + 1);
	fake->submit[at] = call;
	wire_call_on_cancel(call, fake_forget, &fake->submit[at]);
}

void fake_agent_answer(struct fake_agent *fake, uint64_t id)
{
	for (size_t i = 0; i < fake->submits; i++) {
		Sluice__V1__SubmitReply reply = SLUICE__V1__SUBMIT_REPLY__INIT;
		struct wire_call *call = fake->submit[i];
		reply.id = id + i;
		fake->submit[i] = NULL;
		if (call && fake->refuse_key && strcmp(fake->refuse_key, fake->submit_keys[i]) == 0)
			wire_call_finish(call, WIRE_FAILED_PRECONDITION, "not that one");
		else if (call)
			(void)wire_call_reply(call, &reply.base, NULL);
	}
	fake->submits = 0;
}

#define FAKE_ROW(name, asked, told, streams, function)                                             \
	{                                                                                          \
		.path = "/sluice.v1.Queue/" name, .request = &sluice__v1__##asked##__descriptor,   \
		.reply = &sluice__v1__##told##__descriptor, .server_streams = (streams),           \
		.handle = (function),                                                              \
	}

static const struct wire_method fake_methods[] = {
    FAKE_ROW("Get", job_request, job, false, fake_get),
    FAKE_ROW("Watch", job_request, job, true, fake_watch),
    FAKE_ROW("Submit", submit_request, submit_reply, false, fake_submit),
    FAKE_ROW("Signal", signal_request, signal_reply, false, fake_signal),
    FAKE_ROW("Cancel", cancel_request, cancel_reply, false, fake_cancel),
    FAKE_ROW("Logs", logs_request, log_chunk, true, fake_logs),
    {0},
};

void fake_agent_again(struct fake_agent *fake)
{
	const struct wire_server_options options = {.methods = fake_methods, .context = fake};
	fake->server = wire_server_new(fake->loop, &options, NULL);
	assert_non_null(fake->server);
	int fd = wire_listen_unix(fake->path, 0600, NULL);
	assert_true(fd >= 0);
	assert_int_equal(wire_server_add_listener(fake->server, fd, NULL), 0);
}

void fake_agent_start(struct fake_agent *fake, struct loop *loop, const char *directory)
{
	*fake = (struct fake_agent){.loop = loop, .log = "", .piece = 1};
	(void)snprintf(fake->path, sizeof(fake->path), "%s", unit_path(directory, "socket"));
	sluice__v1__job__init(&fake->job);
	sluice__v1__attempt__init(&fake->attempt);
	fake->job.id = 17;
	fake->job.state = SLUICE__V1__JOB_STATE__PENDING;
	fake_agent_again(fake);
}

void fake_agent_stop(struct fake_agent *fake)
{
	fake->server = wire_server_free(fake->server);
	memset(fake->watcher, 0, sizeof(fake->watcher));
	fake->submits = 0;
}

void fake_agent_tell(struct fake_agent *fake)
{
	for (size_t i = 0; i < FAKE_WATCHERS_MAX; i++)
		fake_tell_one(fake, &fake->watcher[i]);
}

void fake_agent_until(struct fake_agent *fake, const bool *condition)
{
	uint64_t until_ns = unit_now_ns() + FAKE_DEADLINE_NS;
	while (!*condition) {
		assert_true(unit_now_ns() < until_ns);
		assert_int_equal(loop_pass(fake->loop, 10000000, NULL), 0);
	}
}
