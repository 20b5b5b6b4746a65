/* SPDX-License-Identifier: Apache-2.0 */
#include "validate/gpu/p2p.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "validate/gpu/gputest.h"

enum { P2P_SEED = 11, P2P_LINE_MAX = 1024 };

struct p2p {
	const struct driver *driver;
	const struct p2p_options *options;
	const struct checks_sink *sink;
	struct gputest here, there;
	uint64_t bytes;
	uint32_t repeats;
	bool was_late;		    /* a launch may be in a figure of this pair */
	uint64_t out, in;	    /* owned: of `here`: what is sent, what comes back */
	uint64_t peer_out, peer_in; /* owned: of `there` */
	uint32_t *host;		    /* owned */
	char target[CHECKS_TARGET_MAX];
};

enum p2p_how { P2P_BY_HOST, P2P_STRAIGHT, P2P_BY_KERNEL, P2P_HOW_COUNT };

/* A UUID as far as one needs it to tell them apart. */
static void p2p_target(struct p2p *self, const struct driver_device *from,
		       const struct driver_device *to)
{
	(void)snprintf(self->target, sizeof(self->target), "%s -> %s", from->uuid, to->uuid);
}

static bool p2p_may(const struct driver *driver, const struct driver_device *from,
		    const struct driver_device *to)
{
	int can = 0;
	return driver->call.cuDeviceCanAccessPeer(&can, from->device, to->device) == CUDA_OK &&
	       can != 0;
}

void p2p_matrix(const struct driver *driver, const struct driver_device *devices, uint32_t count,
		const struct checks_sink *sink)
{
	char line[P2P_LINE_MAX];

	checks_note(sink, "Which GPU may reach the memory of which%s:",
		    driver->is_simulated ? " (simulated)" : "");

	for (uint32_t i = 0; i < count; i++) {
		size_t length = (size_t)snprintf(line, sizeof(line), "%-44.44s", devices[i].uuid);

		for (uint32_t j = 0; j < count && length + 4 < sizeof(line); j++) {
			const char *word = i == j				       ? "  x"
					   : p2p_may(driver, &devices[i], &devices[j]) ? "  1"
										       : "  0";
			memcpy(line + length, word, 4);
			length += 3;
		}

		checks_note(sink, "%s", line);
	}
}

void p2p_header(const struct driver *driver, const struct p2p_options *options,
		const struct checks_sink *sink)
{
	const char *simulated = driver->is_simulated ? "; simulated" : "";

	if (options->is_brief) {
		checks_note(sink, "GB/s from GPU to GPU, all data checked%s", simulated);
		checks_note(sink, "%10s %8s %8s", "GPUs", "engine", "kernel");
		return;
	}

	checks_note(
	    sink,
	    "GB/s from GPU to GPU, one way / both ways; us of a copy of %d bytes, on the GPU "
	    "/ to queue it; all data checked%s",
	    P2P_SMALL_BYTES, simulated);
	checks_note(sink, "%10s %15s %15s %15s %15s %15s", "GPUs", "through host", "straight",
		    "by kernel", "us by host", "us straight");
}

void p2p_retain(const struct driver *driver, const struct driver_device *devices, uint32_t count)
{
	struct cuda_context *context;
	for (uint32_t i = 0; i < count; i++) /* who cannot have one will hear of it later */
		(void)driver->call.cuDevicePrimaryCtxRetain(&context, devices[i].device);
}

/* --- a pair ----------------------------------------------------------------------------------- */

static int p2p_fail(const struct p2p *self, int rc, struct err *err, const char *what)
{
	return driver_fail(self->driver, rc, err, "%s, %s", what, self->target);
}

static int p2p_set_access(struct p2p *self, bool is_on, struct err *err)
{
	const struct driver_calls *call = &self->driver->call;
	struct gputest *sides[] = {&self->here, &self->there};

	for (unsigned i = 0; i < 2; i++) {
		int failed = gputest_use(sides[i], err);
		if (failed < 0)
			return failed;

		struct cuda_context *peer = sides[1 - i]->context;
		int rc = is_on ? call->cuCtxEnablePeerAccess(peer, 0)
			       : call->cuCtxDisablePeerAccess(peer);
		if (rc != CUDA_OK && !(is_on && rc == CUDA_PEER_ACCESS_ALREADY_ENABLED))
			return p2p_fail(self, rc, err,
					is_on ? "cuCtxEnablePeerAccess" : "cuCtxDisablePeerAccess");
	}

	return gputest_use(&self->here, err);
}

static int p2p_open(struct p2p *self, const struct driver_device *to, struct err *err)
{
	const struct driver_calls *call = &self->driver->call;
	uint64_t bytes = 0;
	int rc = gputest_open(self->driver, to, &self->there, err);
	if (rc == 0)
		rc = gputest_fit(&self->there, self->bytes, &bytes, err);

	if (rc < 0)
		return rc;

	self->bytes = bytes < self->bytes ? bytes : self->bytes;
	int failed = call->cuMemAlloc(&self->peer_in, self->bytes);
	if (failed == CUDA_OK)
		failed = call->cuMemAlloc(&self->peer_out, self->bytes);
	if (failed == CUDA_OK)
		failed = call->cuMemcpyHtoD(self->peer_out, self->host, self->bytes);

	if (failed == CUDA_OK) /* the other context does not wait for this one's default stream */
		failed = call->cuCtxSynchronize();
	if (failed != CUDA_OK)
		return p2p_fail(self, failed, err, "memory of the second GPU");

	return gputest_use(&self->here, err);
}

static void p2p_close_peer(struct p2p *self)
{
	const struct driver_calls *call = &self->driver->call;

	if (self->there.context) {
		(void)call->cuCtxSetCurrent(self->there.context); /* at the end, all goes */
		if (self->peer_in)
			(void)call->cuMemFree(self->peer_in);
		if (self->peer_out)
			(void)call->cuMemFree(self->peer_out);
	}

	gputest_close(&self->there);
	self->peer_in = self->peer_out = 0;
	if (self->here.context)
		(void)call->cuCtxSetCurrent(self->here.context);
}

static int p2p_queue(struct p2p *self, enum p2p_how how, bool is_both, struct err *err)
{
	const struct driver_calls *call = &self->driver->call;

	if (how == P2P_BY_KERNEL) {
		int failed =
		    gputest_copy(&self->here, 0, self->peer_in, self->out, self->bytes, err);
		return failed < 0 || !is_both ? failed
					      : gputest_copy(&self->here, 1, self->in,
							     self->peer_out, self->bytes, err);
	}

	int rc = call->cuMemcpyPeerAsync(self->peer_in, self->there.context, self->out,
					 self->here.context, self->bytes, self->here.streams[0]);
	if (rc == CUDA_OK && is_both)
		rc = call->cuMemcpyPeerAsync(self->in, self->here.context, self->peer_out,
					     self->there.context, self->bytes,
					     self->here.streams[1]);

	return rc == CUDA_OK ? 0 : p2p_fail(self, rc, err, "cuMemcpyPeerAsync");
}

/* What arrived is what was sent. */
static int p2p_verify(struct p2p *self, struct gputest *side, uint64_t at, struct err *err)
{
	size_t count = self->bytes / 4;

	memset(self->host, 0, self->bytes);
	int rc = gputest_use(side, err);
	if (rc < 0)
		return rc;

	int failed = self->driver->call.cuMemcpyDtoH(self->host, at, self->bytes);

	rc = gputest_use(&self->here, err);
	if (failed != CUDA_OK)
		return p2p_fail(self, failed, err, "reading back what was copied");

	size_t first = gputest_verify(self->host, count, P2P_SEED);
	if (rc == 0 && first < count)
		return err_set(err, -EBADMSG,
			       "%s: wrong data: the word at byte %zu is 0x%08x instead of 0x%08x",
			       self->target, first * 4, self->host[first],
			       gputest_word(P2P_SEED, first));

	return rc;
}

static int p2p_spoil(struct p2p *self, struct err *err)
{
	const struct driver_calls *call = &self->driver->call;
	int rc = call->cuMemsetD32(self->in, 0, self->bytes / 4);
	if (rc == CUDA_OK)
		rc = call->cuCtxSynchronize();
	if (rc == CUDA_OK)
		rc = call->cuCtxSetCurrent(self->there.context);

	if (rc == CUDA_OK)
		rc = call->cuMemsetD32(self->peer_in, 0, self->bytes / 4);
	if (rc == CUDA_OK)
		rc = call->cuCtxSynchronize();
	if (rc == CUDA_OK)
		rc = call->cuCtxSetCurrent(self->here.context);

	return rc == CUDA_OK ? 0 : p2p_fail(self, rc, err, "cuMemsetD32");
}

/* GB/s, median. */
static int p2p_measure(struct p2p *self, enum p2p_how how, bool is_both, double *out,
		       struct err *err)
{
	static const char *const names[P2P_HOW_COUNT][2] = {
	    {"by_host", "by_host_both"}, {"straight", "straight_both"}, {"kernel", "kernel_both"}};
	double samples[GPUTEST_REPEATS_MAX];
	int rc = p2p_spoil(self, err);

	for (uint32_t i = 0; rc == 0 && i < self->repeats; i++) {
		double seconds = 0;

		rc = gputest_begin(&self->here, is_both, err);
		if (rc == 0)
			rc = p2p_queue(self, how, is_both, err);

		bool was_held = true;

		if (rc == 0)
			rc = gputest_end(&self->here, is_both, &seconds, &was_held, err);
		if (rc < 0)
			break;

		self->was_late = self->was_late || !was_held;
		samples[i] =
		    seconds > 0 ? (double)self->bytes * (is_both ? 2 : 1) / seconds / 1e9 : 0;
		checks_sample(self->sink, self->target, names[how][is_both], "GB/s", true,
			      samples[i]);
	}

	if (rc == 0)
		rc = p2p_verify(self, &self->there, self->peer_in, err);
	if (rc == 0 && is_both)
		rc = p2p_verify(self, &self->here, self->in, err);
	if (rc == 0)
		*out = gputest_median(samples, self->repeats);

	return rc;
}

/* Small copies: what one takes on the GPU, and what queueing it takes on the processor. In us. */
static int p2p_latency(struct p2p *self, const char *how, double out[2], struct err *err)
{
	const struct driver_calls *call = &self->driver->call;
	const struct clock clock = {NULL};
	double seconds = 0;
	char metric[CHECKS_NAME_MAX];
	int rc = gputest_begin(&self->here, false, err);
	uint64_t before = clock_now_ns(&clock);

	for (unsigned i = 0; rc == 0 && i < P2P_SMALL_COUNT; i++) {
		int failed = call->cuMemcpyPeerAsync(self->peer_in, self->there.context, self->out,
						     self->here.context, P2P_SMALL_BYTES,
						     self->here.streams[0]);
		if (failed != CUDA_OK)
			rc = p2p_fail(self, failed, err, "cuMemcpyPeerAsync of 16 bytes");
	}

	out[1] = (double)(clock_now_ns(&clock) - before) / P2P_SMALL_COUNT / 1e3;
	bool was_held = true;

	if (rc == 0)
		rc = gputest_end(&self->here, false, &seconds, &was_held, err);
	if (rc < 0)
		return rc;

	self->was_late = self->was_late || !was_held;
	out[0] = seconds / P2P_SMALL_COUNT * 1e6;
	(void)snprintf(metric, sizeof(metric), "latency_%s_gpu", how);
	checks_sample(self->sink, self->target, metric, "us", false, out[0]);
	(void)snprintf(metric, sizeof(metric), "latency_%s_cpu", how);
	checks_sample(self->sink, self->target, metric, "us", false, out[1]);

	return 0;
}

/* All figures of a pair; `out`: what counts. */
static int p2p_pair(struct p2p *self, bool is_reachable, double *out, struct err *err)
{
	double one[P2P_HOW_COUNT] = {0}, both[P2P_HOW_COUNT] = {0}, by_host[2] = {0},
	       straight[2] = {0};
	int rc = 0;
	bool is_full = !self->options->is_brief;

	if (is_full || !is_reachable)
		rc = p2p_measure(self, P2P_BY_HOST, false, &one[P2P_BY_HOST], err);
	if (rc == 0 && is_full)
		rc = p2p_measure(self, P2P_BY_HOST, true, &both[P2P_BY_HOST], err);
	if (rc == 0 && is_full)
		rc = p2p_latency(self, "by_host", by_host, err);
	if (rc == 0 && is_reachable)
		rc = p2p_set_access(self, true, err);

	for (int how = P2P_STRAIGHT; rc == 0 && is_reachable && how < P2P_HOW_COUNT; how++) {
		rc = p2p_measure(self, (enum p2p_how)how, false, &one[how], err);
		if (rc == 0 && is_full)
			rc = p2p_measure(self, (enum p2p_how)how, true, &both[how], err);
	}

	if (rc == 0 && is_reachable && is_full)
		rc = p2p_latency(self, "straight", straight, err);
	if (rc == 0 && is_reachable)
		rc = p2p_set_access(self, false, err);
	if (rc < 0)
		return rc;

	*out = is_reachable ? one[P2P_STRAIGHT] : one[P2P_BY_HOST];
	const char *late = self->was_late ? " launches are in these figures" : "";

	if (!is_full)
		checks_note(self->sink, "%3u -> %-3u %8.2f %8.2f%s", self->here.device->ordinal,
			    self->there.device->ordinal, *out, one[P2P_BY_KERNEL], late);
	else
		checks_note(self->sink,
			    "%3u -> %-3u %7.2f/%-7.2f %7.2f/%-7.2f %7.2f/%-7.2f %7.2f/%-7.2f "
			    "%7.2f/%-7.2f%s",
			    self->here.device->ordinal, self->there.device->ordinal, one[0],
			    both[0], one[1], both[1], one[2], both[2], by_host[0], by_host[1],
			    straight[0], straight[1], late);

	return 0;
}

/* --- the check -------------------------------------------------------------------------------- */

static int p2p_open_here(struct p2p *self, const struct driver_device *from, struct err *err)
{
	const struct driver_calls *call = &self->driver->call;
	uint64_t wanted = self->options->bytes;

	if (wanted == 0)
		wanted = self->driver->is_simulated ? P2P_SIMULATED_BYTES : P2P_BYTES;
	(void)snprintf(self->target, sizeof(self->target), "%s", from->uuid);

	int rc = gputest_open(self->driver, from, &self->here, err);
	if (rc == 0)
		rc = gputest_fit(&self->here, wanted, &self->bytes, err);
	if (rc < 0)
		return rc;

	self->host = malloc(self->bytes);
	if (!self->host)
		return err_set(err, -ENOMEM, "%" PRIu64 " bytes: no memory", self->bytes);

	gputest_fill(self->host, self->bytes / 4, P2P_SEED);
	int failed = call->cuMemAlloc(&self->out, self->bytes);
	if (failed == CUDA_OK)
		failed = call->cuMemAlloc(&self->in, self->bytes);
	if (failed == CUDA_OK)
		failed = call->cuMemcpyHtoD(self->out, self->host, self->bytes);

	return failed == CUDA_OK ? 0 : p2p_fail(self, failed, err, "memory of the first GPU");
}

static void p2p_judge(struct check *check, const struct p2p *self, uint32_t from, uint32_t to,
		      bool is_reachable, double value)
{
	const struct p2p_options *options = self->options;
	double limit = self->bytes >= GPUTEST_JUDGED_BYTES ? options->limit[from][to] : 0;
	/* The pair that is farthest below what it should be; without such the slowest. */
	bool is_worse = !check->has_value || (limit > 0 && !check->has_limit) ||
			(limit > 0 ? value / limit < check->value / check->limit
				   : !check->has_limit && value < check->value);
	if (is_worse) {
		check_value(check, value, "GB/s");
		check->has_limit = limit > 0;
		check->limit = limit;
	}

	if (options->nvlinks[from][to] > 0 && !is_reachable) {
		check_worsen(check, CHECK_SLOW,
			     "%s: %u NVLinks join them, and the driver allows no access",
			     self->target, options->nvlinks[from][to]);
		(void)snprintf(check->hint, sizeof(check->hint),
			       "look at the state of the links (sluice topo, sluice health); on a "
			       "machine with NVSwitches: is nvidia-fabricmanager running?");
	} else if (limit > 0 && value < limit) {
		check_worsen(check, CHECK_SLOW,
			     "%s: %.2f GB/s, expected are %.2f at least over %u NVLinks",
			     self->target, value, limit, options->nvlinks[from][to]);
	}
}

static int p2p_one(struct p2p *self, const struct driver_device *devices, uint32_t from,
		   uint32_t to, struct check *check, struct err *err)
{
	bool is_reachable = p2p_may(self->driver, &devices[from], &devices[to]);
	double value = 0;

	self->was_late = false;
	p2p_target(self, &devices[from], &devices[to]);
	checks_progress(self->sink, "%s", self->target);
	gputest_fill(self->host, self->bytes / 4, P2P_SEED);

	int rc = p2p_open(self, &devices[to], err);
	if (rc == 0)
		rc = p2p_pair(self, is_reachable, &value, err);
	p2p_close_peer(self);

	if (rc == 0)
		p2p_judge(check, self, from, to, is_reachable, value);

	return rc;
}

void p2p_check(const struct driver *driver, const struct driver_device *devices, uint32_t count,
	       uint32_t from, const struct p2p_options *options, uint64_t place,
	       const struct checks_sink *sink)
{
	struct p2p self = {.driver = driver, .options = options, .sink = sink};
	struct err err = {.code = 0};
	struct check check;
	int rc = 0;

	self.repeats = options->repeats > 0 ? options->repeats : P2P_REPEATS;
	if (self.repeats > GPUTEST_REPEATS_MAX)
		self.repeats = GPUTEST_REPEATS_MAX;
	checks_begin(sink, &check, place, "p2p", devices[from].uuid);

	if (text_starts_with(devices[from].uuid, "MIG-")) {
		check_set(&check, CHECK_SKIP, "MIG instances reach no other GPU's memory");
	} else if (count < 2) {
		check_set(&check, CHECK_SKIP, "there is one GPU only in sight");
	} else {
		rc = p2p_open_here(&self, &devices[from], &err);
		for (uint32_t to = 0; rc == 0 && to < count; to++)
			if (to != from)
				rc = p2p_one(&self, devices, from, to, &check, &err);
	}

	if (rc == 0 && check.status == CHECK_PASS && !check.has_limit)
		check_set(&check, CHECK_PASS, "data right; %s, so that no speed is expected",
			  self.bytes < GPUTEST_JUDGED_BYTES ? "copies are small"
							    : "no NVLinks are known");

	if (rc < 0) {
		gputest_failed(&check, &err);
		if (err.code == -ENOMEM)
			check.status = CHECK_SKIP; /* the GPU is full: no statement */
	}

	gputest_say_simulated(&check, driver);
	if (self.here.context) {
		(void)driver->call.cuCtxSetCurrent(self.here.context); /* at the end, all goes */
		if (self.out)
			(void)driver->call.cuMemFree(self.out);
		if (self.in)
			(void)driver->call.cuMemFree(self.in);
	}

	gputest_close(&self.here);
	free(self.host);
	checks_end(sink, &check);
}
