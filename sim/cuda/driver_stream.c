/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and events. */
#include "sim/cuda/driver.h"

#include <stdlib.h>

enum { STREAM_NON_BLOCKING = 1, EVENT_DISABLE_TIMING = 2 };

API int cuStreamCreateWithPriority(struct cu_stream **out, unsigned flags, int priority)
{
	struct cu_context *context;
	struct cu_stream *stream;
	int rc = driver_enter_context("cuStreamCreate", &context);

	(void)priority; /* one kernel of a context runs at a time, in the order of queueing */
	if (rc != CU_OK)
		return rc;
	if (!out || flags > STREAM_NON_BLOCKING)
		return driver_leave(CU_INVALID_VALUE);

	stream = calloc(1, sizeof(*stream));
	if (!stream)
		return driver_leave(CU_OUT_OF_MEMORY);

	stream->context = context;
	stream->is_blocking = flags == 0;
	stream->next = context->streams;
	context->streams = stream;
	*out = stream;

	return driver_leave(CU_OK);
}

API int cuStreamCreate(struct cu_stream **out, unsigned flags)
{
	return cuStreamCreateWithPriority(out, flags, 0);
}

API int cuStreamDestroy_v2(struct cu_stream *handle)
{
	struct cu_context *context;
	int rc = driver_enter_context("cuStreamDestroy", &context);

	if (rc != CU_OK)
		return rc;

	for (struct cu_stream **at = &context->streams; *at; at = &(*at)->next) {
		struct cu_stream *stream = *at;

		if (stream != handle)
			continue;

		*at = stream->next; /* what it has queued goes on */
		(void)graph_unref(stream->capture);
		free(stream);

		return driver_leave(CU_OK);
	}

	return driver_leave(CU_INVALID_HANDLE);
}

/* On success the lock is held. */
static int enter_stream(const char *function, struct cu_stream *handle,
			struct cu_context **out_context, struct cu_stream **out)
{
	int rc = driver_enter_context(function, out_context);

	if (rc != CU_OK)
		return rc;
	*out = work_stream(*out_context, handle);
	return *out ? CU_OK : driver_leave(CU_INVALID_HANDLE);
}

API int cuStreamSynchronize(struct cu_stream *handle)
{
	struct cu_context *context = NULL;
	struct cu_stream *stream = NULL;
	int rc = enter_stream("cuStreamSynchronize", handle, &context, &stream);

	if (rc != CU_OK)
		return rc;
	if (stream->capture) {
		stream->is_capture_broken = true;
		return driver_leave(CU_STREAM_CAPTURE_UNSUPPORTED);
	}

	/* the default stream waits for all that wait for it */
	return driver_leave(stream->is_default ? work_wait_all(context)
					       : work_wait(context, stream->last));
}

/* A question takes the host a moment, so that asking in a loop lets time pass. */
static int answer(bool is_done)
{
	world_lock(driver.world);
	world_spend(driver.world, COST_QUERY_NS);
	world_end(driver.world);
	return is_done ? CU_OK : CU_NOT_READY;
}

API int cuStreamQuery(struct cu_stream *handle)
{
	struct cu_context *context = NULL;
	struct cu_stream *stream = NULL;
	int rc = enter_stream("cuStreamQuery", handle, &context, &stream);
	bool is_done;

	if (rc != CU_OK)
		return rc;

	world_lock(driver.world);
	is_done = stream->last == 0 ||
		  sched_is_done(world_sched(driver.world), context->sched, stream->last);
	world_end(driver.world);

	return driver_leave(answer(is_done));
}

API int cuStreamGetCtx(struct cu_stream *handle, struct cu_context **out)
{
	struct cu_context *context = NULL;
	struct cu_stream *stream = NULL;
	int rc = enter_stream("cuStreamGetCtx", handle, &context, &stream);

	if (rc != CU_OK)
		return rc;
	if (!out)
		return driver_leave(CU_INVALID_VALUE);

	*out = context;
	return driver_leave(CU_OK);
}

API int cuLaunchHostFunc(struct cu_stream *handle, void (*host)(void *data), void *data)
{
	struct work work = {.kind = WORK_HOST, .host = host, .data = data};
	struct cu_context *context = NULL;
	struct cu_stream *stream = NULL;
	int rc = enter_stream("cuLaunchHostFunc", handle, &context, &stream);

	if (rc != CU_OK)
		return rc;
	if (!host)
		return driver_leave(CU_INVALID_VALUE);

	return driver_leave(work_queue(stream, &work, SCHED_NO_ENGINE, 0, 0, NULL));
}

/* --- events ----------------------------------------------------------------------------------- */

API int cuEventCreate(struct cu_event **out, unsigned flags)
{
	struct cu_context *context;
	int rc = driver_enter_context("cuEventCreate", &context);

	if (rc != CU_OK)
		return rc;
	if (!out || flags > 7)
		return driver_leave(CU_INVALID_VALUE);

	struct cu_event *event = calloc(1, sizeof(*event));

	if (!event)
		return driver_leave(CU_OUT_OF_MEMORY);

	event->context = context;
	event->references = 1;
	event->has_timing = !(flags & EVENT_DISABLE_TIMING);
	event->is_done = true;
	*out = event;

	return driver_leave(CU_OK);
}

API int cuEventDestroy_v2(struct cu_event *event)
{
	int rc = driver_enter("cuEventDestroy");

	if (rc != CU_OK)
		return rc;
	if (!event || event->is_destroyed)
		return driver_leave(CU_INVALID_HANDLE);

	event->is_destroyed = true;
	(void)event_unref(event);
	return driver_leave(CU_OK);
}

API int cuEventRecord(struct cu_event *event, struct cu_stream *handle)
{
	struct cu_context *context = NULL;
	struct cu_stream *stream = NULL;
	uint64_t number, value;
	int rc = enter_stream("cuEventRecord", handle, &context, &stream);

	if (rc != CU_OK)
		return rc;
	if (!event)
		return driver_leave(CU_INVALID_HANDLE);

	struct work work = {.kind = WORK_EVENT, .event = event};
	bool is_stuck = faults_strike(&driver.faults, FAULT_EVENT_HANG, NULL, &value);

	event->references++;
	rc = work_queue(stream, &work, SCHED_NO_ENGINE, 0, is_stuck ? SCHED_STUCK : 0, &number);
	if (rc != CU_OK)
		return driver_leave(rc);

	event->is_recorded = event->is_recorded || number != 0;
	event->is_done = false;
	event->number = number;
	event->where = context;

	return driver_leave(CU_OK);
}

API int cuEventRecordWithFlags(struct cu_event *event, struct cu_stream *stream, unsigned flags)
{
	(void)flags;
	return cuEventRecord(event, stream);
}

static int enter_event(const char *function, struct cu_event *event,
		       struct cu_context **out_context)
{
	int rc = driver_enter_context(function, out_context);

	return rc == CU_OK && !event ? driver_leave(CU_INVALID_HANDLE) : rc;
}

API int cuEventQuery(struct cu_event *event)
{
	struct cu_context *context = NULL;
	int rc = enter_event("cuEventQuery", event, &context);

	return rc == CU_OK ? driver_leave(answer(event->is_done)) : rc;
}

API int cuEventSynchronize(struct cu_event *event)
{
	struct cu_context *context = NULL;
	int rc = enter_event("cuEventSynchronize", event, &context);

	if (rc != CU_OK)
		return rc;
	if (!event->is_done && driver_context_is_valid(event->where))
		rc = work_wait(event->where, event->number);

	return driver_leave(rc);
}

API int cuEventElapsedTime(float *out_ms, struct cu_event *start, struct cu_event *end)
{
	struct cu_context *context = NULL;
	int rc = enter_event("cuEventElapsedTime", start, &context);

	if (rc != CU_OK)
		return rc;
	if (!out_ms || !end)
		return driver_leave(end ? CU_INVALID_VALUE : CU_INVALID_HANDLE);
	if (!start->has_timing || !end->has_timing || !start->is_recorded || !end->is_recorded)
		return driver_leave(CU_INVALID_HANDLE);
	if (!start->is_done || !end->is_done)
		return driver_leave(CU_NOT_READY);

	*out_ms = (float)((double)(int64_t)(end->time_ns - start->time_ns) / 1e6);
	return driver_leave(CU_OK);
}

API int cuEventElapsedTime_v2(float *out_ms, struct cu_event *start, struct cu_event *end)
{
	return cuEventElapsedTime(out_ms, start, end);
}

API int cuStreamWaitEvent(struct cu_stream *handle, struct cu_event *event, unsigned flags)
{
	struct work work = {.kind = WORK_NOTHING};
	struct cu_context *context = NULL;
	struct cu_stream *stream = NULL;
	int rc = enter_stream("cuStreamWaitEvent", handle, &context, &stream);

	if (rc != CU_OK)
		return rc;
	if (!event || flags > 1)
		return driver_leave(event ? CU_INVALID_VALUE : CU_INVALID_HANDLE);
	if (event->is_done || event->number == 0 || !driver_context_is_valid(event->where))
		return driver_leave(CU_OK);

	stream->after = event->where->sched;
	stream->after_number = event->number;
	rc = work_queue(stream, &work, SCHED_NO_ENGINE, 0, 0, NULL);
	stream->after_number = 0;

	return driver_leave(rc);
}

/* --- places that somebody else ends ------------------------------------------------------------
 */

API int simCudaStreamHold(struct cu_stream *handle, uint64_t *out_ticket)
{
	struct work work = {.kind = WORK_NOTHING};
	struct cu_context *context = NULL;
	struct cu_stream *stream = NULL;
	int rc = enter_stream("simCudaStreamHold", handle, &context, &stream);

	if (rc != CU_OK)
		return rc;
	if (!out_ticket)
		return driver_leave(CU_INVALID_VALUE);
	if (stream->capture)
		return driver_leave(CU_STREAM_CAPTURE_UNSUPPORTED);

	return driver_leave(work_queue(stream, &work, SCHED_NO_ENGINE, 0, SCHED_STUCK, out_ticket));
}

API int simCudaStreamReached(struct cu_stream *handle, uint64_t ticket)
{
	struct cu_context *context = NULL;
	struct cu_stream *stream = NULL;
	int rc = enter_stream("simCudaStreamReached", handle, &context, &stream);

	if (rc != CU_OK)
		return rc;

	world_lock(driver.world);
	bool has_turn = sched_has_turn(world_sched(driver.world), context->sched, ticket);

	world_end(driver.world);
	return driver_leave(has_turn ? CU_OK : CU_NOT_READY);
}

API int simCudaStreamRelease(struct cu_stream *handle, uint64_t ticket, uint64_t ns)
{
	struct cu_context *context = NULL;
	struct cu_stream *stream = NULL;
	int rc = enter_stream("simCudaStreamRelease", handle, &context, &stream);

	if (rc != CU_OK)
		return rc;

	world_lock(driver.world);
	sched_unstick(world_sched(driver.world), context->sched, ticket,
		      world_now(driver.world) + ns);
	world_end(driver.world);

	return driver_leave(CU_OK);
}
