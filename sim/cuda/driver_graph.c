/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs made by capturing a stream. Such a graph is one operation: its parts run in the order in
 * which they were captured, whatever streams of other devices do meanwhile. */
#include "sim/cuda/driver.h"

#include <stdlib.h>

API int cuStreamBeginCapture_v2(struct cu_stream *handle, int mode)
{
	struct cu_context *context;
	int rc = driver_enter_context("cuStreamBeginCapture", &context);

	(void)mode; /* one stream captures only what is queued in it */
	if (rc != CU_OK)
		return rc;

	struct cu_stream *stream = work_stream(context, handle);

	if (!stream)
		return driver_leave(CU_INVALID_HANDLE);
	if (stream->is_default || stream->capture)
		return driver_leave(CU_STREAM_CAPTURE_UNSUPPORTED);

	stream->capture = calloc(1, sizeof(*stream->capture));
	if (!stream->capture)
		return driver_leave(CU_OUT_OF_MEMORY);

	stream->capture->references = 1;
	stream->is_capture_broken = false;
	return driver_leave(CU_OK);
}

API int cuStreamEndCapture(struct cu_stream *handle, struct cu_graph **out)
{
	struct cu_context *context;
	int rc = driver_enter_context("cuStreamEndCapture", &context);

	if (rc != CU_OK)
		return rc;

	struct cu_stream *stream = work_stream(context, handle);

	if (!stream || !out)
		return driver_leave(stream ? CU_INVALID_VALUE : CU_INVALID_HANDLE);
	if (!stream->capture)
		return driver_leave(CU_INVALID_VALUE);

	*out = stream->is_capture_broken ? graph_unref(stream->capture) : stream->capture;
	stream->capture = NULL;
	return driver_leave(*out ? CU_OK : CU_STREAM_CAPTURE_INVALIDATED);
}

API int cuStreamIsCapturing(struct cu_stream *handle, int *out)
{
	struct cu_context *context;
	int rc = driver_enter_context("cuStreamIsCapturing", &context);

	if (rc != CU_OK)
		return rc;

	struct cu_stream *stream = work_stream(context, handle);

	if (!stream || !out)
		return driver_leave(stream ? CU_INVALID_VALUE : CU_INVALID_HANDLE);

	*out = stream->capture != NULL;
	return driver_leave(CU_OK);
}

/* An executable graph is the graph itself, which cannot be changed. */
API int cuGraphInstantiateWithFlags(struct cu_graph **out, struct cu_graph *graph,
				    unsigned long long flags)
{
	struct cu_context *context;
	int rc = driver_enter_context("cuGraphInstantiate", &context);

	(void)flags;
	if (rc != CU_OK)
		return rc;
	if (!out || !graph)
		return driver_leave(CU_INVALID_VALUE);

	graph->references++;
	*out = graph;
	return driver_leave(CU_OK);
}

API int cuGraphLaunch(struct cu_graph *graph, struct cu_stream *handle)
{
	struct work work = {.kind = WORK_GRAPH, .graph = graph};
	struct cu_context *context;
	int rc = driver_enter_context("cuGraphLaunch", &context);

	if (rc != CU_OK)
		return rc;

	struct cu_stream *stream = work_stream(context, handle);

	if (!stream || !graph)
		return driver_leave(CU_INVALID_HANDLE);
	if (stream->capture)
		return driver_leave(CU_STREAM_CAPTURE_UNSUPPORTED);

	graph->references++;
	return driver_leave(work_queue(stream, &work, SCHED_COMPUTE, graph->cost_ns, 0, NULL));
}

static int destroy(const char *function, struct cu_graph *graph)
{
	int rc = driver_enter(function);

	if (rc != CU_OK)
		return rc;
	if (!graph)
		return driver_leave(CU_INVALID_HANDLE);

	(void)graph_unref(graph);
	return driver_leave(CU_OK);
}

API int cuGraphExecDestroy(struct cu_graph *graph)
{
	return destroy("cuGraphExecDestroy", graph);
}

API int cuGraphDestroy(struct cu_graph *graph)
{
	return destroy("cuGraphDestroy", graph);
}
