/* SPDX-License-Identifier: Apache-2.0 */
/* Closed loops: products and burning with two launches queued, and launches of next to nothing. */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "bench/gpu/load_internal.h"

enum {
	LOAD_CAPTURE_THREAD = 1,   /* CU_STREAM_CAPTURE_MODE_THREAD_LOCAL */
	LOAD_GRAPHS_TOGETHER = 10, /* launches of a graph that are timed together */
};

static void load_closed_second(const struct meter_second *second, void *context)
{
	struct load_session *self = context;
	struct load_second line = {.unix_seconds = self->out->start_unix + second->index + 1,
				   .mode = self->plan->mode,
				   .counts = second->counts,
				   .tflops = second->units * self->kernel.operations / 1e12,
				   .kernels = (uint64_t)(second->units + 0.5),
				   .gpu_ms = (double)second->gpu_ns / 1e6,
				   .wall_ms = (double)second->wall_ns / 1e6,
				   .launch_ns = self->out->launch_ns};

	readings_take(&self->out->readings);
	if (self->plan->second)
		self->plan->second(&line, self->plan->context);
}

static void load_closed_start(struct load_session *self)
{
	meter_init(&self->meter, self->out->start_ns, self->plan->run_ns, self->plan->warmup_ns,
		   load_closed_second, self);
}

static void load_closed_figures(struct load_session *self)
{
	const struct meter *meter = &self->meter;
	struct load_summary *out = self->out;
	double each = self->kernel.operations / 1e12;

	out->rate = meter_rate(meter) * each;
	out->rate_min = meter->rate_min * each;
	out->rate_max = meter->rate_max * each;
	out->kernels = (uint64_t)(meter->units + 0.5);
	out->total_tflop = meter->units * each;
	out->seconds_counted = meter->counted;
	out->gpu_busy = meter->counted ? meter->gpu_ns_counted /
					     ((double)meter->counted * (double)CLOCK_NS_PER_S)
				       : 0;
}

static int load_queue(struct load_session *self, size_t slot, struct err *err)
{
	const struct driver_calls *call = &self->driver.call;
	int rc = load_said(self, call->cuEventRecord(self->begin[slot], self->stream), err,
			   "cuEventRecord");
	if (rc == 0)
		rc = load_launch(self, &self->kernel, err);
	if (rc == 0)
		rc = load_said(self, call->cuEventRecord(self->end[slot], self->stream), err,
			       "cuEventRecord");

	return rc;
}

int load_run_closed(struct load_session *self, struct err *err)
{
	const struct driver_calls *call = &self->driver.call;
	uint64_t end = self->out->start_ns + self->plan->run_ns, now = 0;
	uint32_t seconds = 0;
	int rc = 0;

	load_closed_start(self);

	for (size_t i = 0; i < LOAD_QUEUE && rc == 0; i++)
		rc = load_queue(self, i, err);

	for (size_t slot = 0; rc == 0 && now < end && !load_is_stopped(self);
	     slot = (slot + 1) % LOAD_QUEUE) {
		float ms = 0;

		rc = load_said(self, call->cuEventSynchronize(self->end[slot]), err,
			       "waiting for a kernel");
		now = driver_now_ns(&self->driver);

		if (rc == 0)
			rc = load_said(
			    self, call->cuEventElapsedTime(&ms, self->begin[slot], self->end[slot]),
			    err, "cuEventElapsedTime");

		if (rc == 0 && now < end)
			rc = load_queue(self, slot, err); /* first, so that the GPU has work */
		if (rc == 0)
			meter_add(&self->meter, now, 1, (uint64_t)(ms * 1e6));
		if (rc == 0 && self->meter.second > seconds) {
			seconds = self->meter.second;
			rc = load_verify_running(self, err);
		}
	}

	if (rc == 0)
		rc = load_sync(self, err);
	load_closed_figures(self);
	return rc;
}

/* --- launches --------------------------------------------------------------------------------- */

struct load_graph {
	struct cuda_graph *graph;
	struct cuda_graph_exec *exec;
};

static int load_graph_make(struct load_session *self, struct load_graph *out, struct err *err)
{
	const struct driver_calls *call = &self->driver.call;
	if (!call->cuStreamBeginCapture || !call->cuStreamEndCapture ||
	    !call->cuGraphInstantiateWithFlags || !call->cuGraphLaunch) {
		self->out->status = LOAD_NO_GPU;
		return err_set(err, -ENOSYS,
			       "'%s' has no graphs: is the driver older than CUDA 12?",
			       self->driver.path);
	}

	int rc = load_said(self, call->cuStreamBeginCapture(self->stream, LOAD_CAPTURE_THREAD), err,
			   "cuStreamBeginCapture");
	for (int i = 0; i < LOAD_GRAPH_NODES && rc == 0; i++)
		rc = load_launch(self, &self->kernel, err);

	if (rc == 0)
		rc = load_said(self, call->cuStreamEndCapture(self->stream, &out->graph), err,
			       "cuStreamEndCapture");
	if (rc == 0)
		rc = load_said(self, call->cuGraphInstantiateWithFlags(&out->exec, out->graph, 0),
			       err, "cuGraphInstantiateWithFlags");

	return rc;
}

static void load_graph_done(struct load_session *self, struct load_graph *graph)
{
	const struct driver_calls *call = &self->driver.call;
	if (graph->exec && call->cuGraphExecDestroy)
		(void)call->cuGraphExecDestroy(graph->exec); /* on the way out */
	if (graph->graph && call->cuGraphDestroy)
		(void)call->cuGraphDestroy(graph->graph);
}

/* One block: what its launches took of the host, each; then waits until they have run, so that the
 * driver's queue is never full, which would time the GPU. */
static int load_block(struct load_session *self, const struct load_graph *graph, int launches,
		      double *out_each_ns, struct err *err)
{
	uint64_t start = driver_now_ns(&self->driver);
	int rc = 0;
	for (int i = 0; i < launches && rc == 0; i++)
		rc = graph->exec
			 ? load_said(self,
				     self->driver.call.cuGraphLaunch(graph->exec, self->stream),
				     err, "cuGraphLaunch")
			 : load_launch(self, &self->kernel, err);

	*out_each_ns = (double)(driver_now_ns(&self->driver) - start) / launches;
	return rc == 0 ? load_sync(self, err) : rc;
}

int load_run_small(struct load_session *self, struct err *err)
{
	struct load_graph graph = {0};
	bool is_graph = self->plan->mode == LOAD_GRAPH;
	int launches = is_graph ? LOAD_GRAPHS_TOGETHER : LOAD_BLOCK;
	int each = is_graph ? launches * LOAD_GRAPH_NODES : launches;
	uint64_t end = self->out->start_ns + self->plan->run_ns, now = 0;
	size_t count = 0;
	_cleanup_free_ double *samples = calloc(LOAD_SAMPLES_MAX, sizeof(*samples));
	if (!samples)
		return err_set(err, -ENOMEM, "no memory for what is timed");

	int rc = is_graph ? load_graph_make(self, &graph, err) : 0;
	if (rc == 0)
		load_closed_start(self);

	while (rc == 0 && now < end && !load_is_stopped(self)) {
		double each_ns = 0;
		rc = load_block(self, &graph, launches, &each_ns, err);
		now = driver_now_ns(&self->driver);
		if (now >= self->meter.from_ns && now <= self->meter.to_ns &&
		    count < LOAD_SAMPLES_MAX)
			samples[count++] = each_ns;

		self->out->launch_ns = each_ns; /* for the line of this second */
		if (rc == 0)
			meter_add(&self->meter, now, each, 0);
	}

	load_graph_done(self, &graph);
	if (rc < 0)
		return rc;

	load_closed_figures(self);
	self->out->launches = count * (size_t)launches;
	self->out->launch_ns = stats_median(samples, count);

	return 0;
}
