/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that arrive by themselves, whether the earlier ones are done or not. Their times are
 * drawn beforehand, and each one's latency counts from when it was due, so that a GPU that stands
 * still is not asked less meanwhile and does not look better for it.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "bench/gpu/figures.h"
#include "bench/gpu/load_internal.h"

enum {
	LC_EVENTS = 1024, /* requests under way; more wait, and their latency runs on */
	LC_SEED = 0x6c63, /* arrivals are drawn apart from operands */
};
#define LC_UNFINISHED UINT64_MAX

struct lc {
	struct load_session *session;
	uint64_t *due, *took;	    /* owned; ns from the start; ns from due, or LC_UNFINISHED */
	size_t count, next, oldest; /* requests; not yet launched; not yet done */
	struct cuda_event *event[LC_EVENTS], *start_event;
	struct cuda_event *last_event; /* of the last that is done */
	double last_ns;		       /* when that was, from the start */
	double *samples;	       /* owned; room for all */
	uint64_t second;
	size_t second_first;
};

static struct cuda_event *lc_event(const struct lc *lc, size_t request)
{
	return lc->event[request % LC_EVENTS];
}

static int lc_open(struct lc *lc, struct err *err)
{
	struct load_session *self = lc->session;
	const struct load_plan *plan = self->plan;
	struct stats_random random = {.state = plan->seed ^ LC_SEED};
	size_t max = LOAD_REQUESTS_MAX;

	lc->due = malloc(max * sizeof(*lc->due));
	if (!lc->due)
		return err_set(err, -ENOMEM, "no memory for requests");

	lc->count = figures_arrivals(&random, plan->rate, plan->run_ns, lc->due, max);
	lc->took = malloc((lc->count + 1) * sizeof(*lc->took));
	lc->samples = malloc((lc->count + 1) * sizeof(*lc->samples));
	if (!lc->took || !lc->samples)
		return err_set(err, -ENOMEM, "no memory for %zu requests", lc->count);

	for (size_t i = 0; i < lc->count; i++)
		lc->took[i] = LC_UNFINISHED;

	int rc = load_said(self, self->driver.call.cuEventCreate(&lc->start_event, 0), err,
			   "cuEventCreate");
	for (size_t i = 0; i < LC_EVENTS && rc == 0; i++)
		rc = load_said(self, self->driver.call.cuEventCreate(&lc->event[i], 0), err,
			       "cuEventCreate");

	return rc;
}

static void lc_close(struct lc *lc)
{
	const struct driver_calls *call = &lc->session->driver.call;
	for (size_t i = 0; i < LC_EVENTS; i++)
		if (lc->event[i])
			(void)call->cuEventDestroy(lc->event[i]); /* on the way out */

	if (lc->start_event)
		(void)call->cuEventDestroy(lc->start_event);
	free(lc->due);
	free(lc->took);
	free(lc->samples);
}

static uint64_t lc_now(const struct lc *lc)
{
	uint64_t now = driver_now_ns(&lc->session->driver);
	return now > lc->session->out->start_ns ? now - lc->session->out->start_ns : 0;
}

static int lc_launch(struct lc *lc, struct err *err)
{
	struct load_session *self = lc->session;
	int rc = 0;
	for (uint32_t i = 0; i < self->plan->kernels_per_request && rc == 0; i++)
		rc = load_launch(self, &self->kernel, err);

	if (rc == 0)
		rc = load_said(
		    self, self->driver.call.cuEventRecord(lc_event(lc, lc->next), self->stream),
		    err, "cuEventRecord");

	lc->next++;
	return rc;
}

/* When the oldest one was done, which it is. The simulated driver's clock moves only while we wait
 * for it, so its events say when, exactly; elsewhere it is now that we learn of it. */
static int lc_done_at(struct lc *lc, double *out_ns, struct err *err)
{
	struct load_session *self = lc->session;
	float ms = 0;

	*out_ns = (double)lc_now(lc);
	if (!self->driver.is_simulated)
		return 0;

	struct cuda_event *event = lc_event(lc, lc->oldest);
	int rc = load_said(self, self->driver.call.cuEventElapsedTime(&ms, lc->last_event, event),
			   err, "cuEventElapsedTime");

	*out_ns = lc->last_ns + ms * 1e6;
	lc->last_event = event;
	lc->last_ns = *out_ns;

	return rc;
}

/* Takes note of all that are done. */
static int lc_collect(struct lc *lc, struct err *err)
{
	struct load_session *self = lc->session;

	while (lc->oldest < lc->next) {
		double at = 0;
		int said = self->driver.call.cuEventQuery(lc_event(lc, lc->oldest));
		if (said == CUDA_NOT_READY)
			return 0;

		int rc = load_said(self, said, err, "cuEventQuery");
		if (rc == 0)
			rc = lc_done_at(lc, &at, err);
		if (rc < 0)
			return rc;

		double due = (double)lc->due[lc->oldest];
		lc->took[lc->oldest] = at > due ? (uint64_t)(at - due) : 0;
		lc->oldest++;
	}

	load_beat(self); /* nothing is under way: nothing hangs */
	return 0;
}

/* Latencies of those in first <= i < end, in ms and ascending. The unfinished count with their age
 * at `now`, or not at all if that is 0. How many. */
static size_t lc_samples(struct lc *lc, size_t first, size_t end, uint64_t now,
			 uint64_t *out_unfinished)
{
	size_t count = 0;

	*out_unfinished = 0;
	for (size_t i = first; i < end; i++) {
		bool is_done = lc->took[i] != LC_UNFINISHED;
		*out_unfinished += !is_done;

		if (is_done)
			lc->samples[count++] = (double)lc->took[i] / 1e6;
		else if (now > lc->due[i])
			lc->samples[count++] = (double)(now - lc->due[i]) / 1e6;
	}

	stats_sort(lc->samples, count);
	return count;
}

static size_t lc_first_due(const struct lc *lc, size_t from, uint64_t at)
{
	while (from < lc->count && lc->due[from] < at)
		from++;
	return from;
}

static void lc_seconds(struct lc *lc, uint64_t now)
{
	const struct load_plan *plan = lc->session->plan;

	while ((lc->second + 1) * CLOCK_NS_PER_S <= now) {
		uint64_t begin = lc->second * CLOCK_NS_PER_S, end = begin + CLOCK_NS_PER_S;
		uint64_t unfinished;
		size_t last = lc_first_due(lc, lc->second_first, end);
		size_t count = lc_samples(lc, lc->second_first, last, 0, &unfinished);
		struct load_second line = {
		    .unix_seconds = lc->session->out->start_unix + (double)(lc->second + 1),
		    .mode = LOAD_LC,
		    .counts = begin >= plan->warmup_ns && end + plan->warmup_ns <= plan->run_ns,
		    .requests = count,
		    .kernels = count * plan->kernels_per_request,
		    .wall_ms = 1e3,
		    .p50_ms = figures_percentile(lc->samples, count, 0.5),
		    .p99_ms = figures_percentile(lc->samples, count, 0.99),
		    .p999_ms = figures_percentile(lc->samples, count, 0.999)};

		readings_take(&lc->session->out->readings);
		if (plan->second)
			plan->second(&line, plan->context);
		lc->second++;
		lc->second_first = last;
	}
}

static int lc_loop(struct lc *lc, struct err *err)
{
	struct load_session *self = lc->session;
	uint64_t end = self->plan->run_ns, now = lc_now(lc);
	int rc = 0;

	while (rc == 0 && now < end && !load_is_stopped(self)) {
		bool has_room = lc->next - lc->oldest < LC_EVENTS;
		if (lc->next < lc->count && has_room && now >= lc->due[lc->next]) {
			rc = lc_launch(lc, err);
		} else {
			uint64_t wake = lc->next < lc->count && has_room ? lc->due[lc->next] : end;
			uint64_t second = (lc->second + 1) * CLOCK_NS_PER_S;

			wake = wake < second ? wake : second;
			if (self->driver.is_simulated)
				driver_wait_until(&self->driver, self->out->start_ns + wake);
			else if (lc->oldest == lc->next && wake > now + CLOCK_NS_PER_MS)
				load_nap(self, wake - now - CLOCK_NS_PER_MS / 2);

			lc_seconds(lc, lc_now(lc));
		}

		if (rc == 0)
			rc = lc_collect(lc, err);
		now = lc_now(lc);
	}

	return rc;
}

static void lc_figures(struct lc *lc)
{
	struct load_summary *out = lc->session->out;
	const struct load_plan *plan = lc->session->plan;
	size_t first = lc_first_due(lc, 0, plan->warmup_ns);
	size_t end = lc_first_due(lc, first, plan->run_ns - plan->warmup_ns);
	size_t count = lc_samples(lc, first, end, plan->run_ns, &out->unfinished);

	out->requests = end - first;
	out->p50_ms = figures_percentile(lc->samples, count, 0.5);
	out->p99_ms = figures_percentile(lc->samples, count, 0.99);
	out->p999_ms = figures_percentile(lc->samples, count, 0.999);
	out->max_ms = figures_percentile(lc->samples, count, 1);
	out->mean_ms = stats_mean(lc->samples, count);
	out->kernels = lc->oldest * plan->kernels_per_request;
	out->seconds_counted = (uint32_t)((plan->run_ns - 2 * plan->warmup_ns) / CLOCK_NS_PER_S);
	out->lc_busy = plan->rate * plan->kernels_per_request * (double)plan->kernel_ns / 1e9;
}

/* What is still under way, one after the other, so that the watch sees it move. */
static int lc_drain(struct lc *lc, struct err *err)
{
	struct load_session *self = lc->session;
	int rc = 0;
	for (size_t i = lc->oldest; i < lc->next && rc == 0; i++)
		rc = load_said(self, self->driver.call.cuEventSynchronize(lc_event(lc, i)), err,
			       "waiting for a request");
	return rc;
}

int load_run_lc(struct load_session *self, struct err *err)
{
	struct lc lc = {.session = self};
	cpu_set_t before, mine;
	/* On one processor while it polls; without that right it goes on as it is. */
	bool is_pinned =
	    !self->driver.is_simulated && sched_getaffinity(0, sizeof(before), &before) == 0;

	CPU_ZERO(&mine);
	CPU_SET((size_t)sched_getcpu(), &mine);
	if (is_pinned)
		(void)sched_setaffinity(0, sizeof(mine), &mine);

	int rc = lc_open(&lc, err);
	if (rc == 0)
		rc = load_said(self, self->driver.call.cuEventRecord(lc.start_event, self->stream),
			       err, "cuEventRecord");

	lc.last_event = lc.start_event;
	lc.last_ns = (double)lc_now(&lc); /* the stream is empty: it is recorded at once */
	if (rc == 0)
		rc = lc_loop(&lc, err);
	if (rc == 0)
		lc_figures(&lc);

	if (rc == 0)
		rc = lc_drain(&lc, err);

	if (rc == 0 && self->out->requests == 0 && !load_is_stopped(self)) {
		self->out->status = LOAD_REFUSED;
		rc = err_set(err, -EINVAL,
			     "no request came in the time that counts: raise --rate or --seconds");
	}

	lc_close(&lc);
	if (is_pinned)
		(void)sched_setaffinity(0, sizeof(before), &before);

	return rc;
}
