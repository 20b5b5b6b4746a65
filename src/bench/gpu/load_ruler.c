/* SPDX-License-Identifier: Apache-2.0 */
/* When this process has the GPU: a kernel reads the GPU's timer all the time and logs the gaps. */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "bench/gpu/figures.h"
#include "bench/gpu/load_internal.h"

enum { /* of sl_ruler's log */
       RULER_CAP = 16384,
       RULER_HEAD = 4,
       RULER_COUNT = 0,
       RULER_FIRST = 1,
       RULER_LAST = 2,
       RULER_STEP = 3,
       RULER_SAMPLES_MAX = 1 << 20,
};
/* One kernel runs for so long; a longer one could be ended by a watchdog of a GPU with a display.
 */
#define RULER_PIECE_NS CLOCK_NS_PER_S

struct ruler {
	double *gaps, *slices; /* owned; us */
	size_t gap_count, slice_count;
	double gap_us, all_us, step_ns;
};

/* Times between the gaps of one piece are slices, but for the first and last, whose beginning and
 * end the piece has cut. */
static void ruler_add(struct ruler *ruler, const uint64_t *log)
{
	uint64_t count = log[RULER_COUNT] < RULER_CAP ? log[RULER_COUNT] : RULER_CAP;

	for (uint64_t i = 0; i < count; i++) {
		const uint64_t *gap = &log[RULER_HEAD + 2 * i];
		double us = (double)(gap[1] - gap[0]) / 1e3;

		ruler->gap_us += us;
		if (ruler->gap_count < RULER_SAMPLES_MAX)
			ruler->gaps[ruler->gap_count++] = us;
		if (i > 0 && ruler->slice_count < RULER_SAMPLES_MAX)
			ruler->slices[ruler->slice_count++] = (double)(gap[0] - gap[-1]) / 1e3;
	}

	ruler->all_us += (double)(log[RULER_LAST] - log[RULER_FIRST]) / 1e3;
	double step = (double)log[RULER_STEP];
	if (log[RULER_STEP] != UINT64_MAX && (ruler->step_ns == 0 || step < ruler->step_ns))
		ruler->step_ns = step;
}

static void ruler_histogram(double *us, size_t count, struct load_histogram *out)
{
	stats_sort(us, count);
	out->count = count;
	for (size_t i = 0; i < count; i++) {
		unsigned bucket = 0;
		while (bucket < LOAD_BUCKETS - 1 && us[i] >= (double)(UINT64_C(1) << bucket))
			bucket++;
		out->bucket[bucket]++;
	}

	out->median_us = figures_percentile(us, count, 0.5);
	out->p99_us = figures_percentile(us, count, 0.99);
	out->max_us = figures_percentile(us, count, 1);
}

static int ruler_piece(struct load_session *self, struct load_kernel *kernel, uint64_t *log,
		       size_t log_bytes, struct err *err)
{
	int rc = load_launch(self, kernel, err);
	if (rc == 0)
		rc = load_sync(self, err);
	if (rc == 0)
		rc = load_said(self, self->driver.call.cuMemcpyDtoH(log, self->c, log_bytes), err,
			       "cuMemcpyDtoH");
	return rc;
}

int load_run_ruler(struct load_session *self, struct err *err)
{
	struct load_kernel kernel = {.grid_x = 1, .grid_y = 1, .block = 1};
	size_t log_bytes = (RULER_HEAD + 2 * (size_t)RULER_CAP) * sizeof(uint64_t);
	_cleanup_free_ uint64_t *log = calloc(1, log_bytes);
	_cleanup_free_ double *gaps = malloc(RULER_SAMPLES_MAX * sizeof(*gaps));
	_cleanup_free_ double *slices = malloc(RULER_SAMPLES_MAX * sizeof(*slices));
	struct ruler ruler = {.gaps = gaps, .slices = slices};
	uint64_t ns = RULER_PIECE_NS, end = self->out->start_ns + self->plan->run_ns;
	uint32_t cap = RULER_CAP;

	if (!log || !gaps || !slices)
		return err_set(err, -ENOMEM, "no memory for the ruler's log");

	int rc = kernels_find(&self->driver, &self->kernels, "sl_ruler", &kernel.function, err);
	if (rc == 0)
		rc = load_take(self, log_bytes, &self->c, err);
	kernel.parameters[0] = &ns;
	kernel.parameters[1] = &self->c;
	kernel.parameters[2] = &cap;

	while (rc == 0 && driver_now_ns(&self->driver) < end && !load_is_stopped(self)) {
		rc = ruler_piece(self, &kernel, log, log_bytes, err);
		if (rc == 0) {
			ruler_add(&ruler, log);
			readings_take(&self->out->readings);
		}
	}

	if (rc < 0)
		return rc;

	ruler_histogram(gaps, ruler.gap_count, &self->out->gaps);
	ruler_histogram(slices, ruler.slice_count, &self->out->slices);
	self->out->gap_share = ruler.all_us > 0 ? ruler.gap_us / ruler.all_us : 0;
	self->out->timer_step_ns = ruler.step_ns;

	return 0;
}
