/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/gpu/load.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/names.h"
#include "base/parse.h"
#include "bench/gpu/load_internal.h"

#define LOAD_MEET_NS   (60 * CLOCK_NS_PER_S) /* real: how long others are waited for */
#define LOAD_NAP_NS    CLOCK_NS_PER_MS
#define LOAD_LEAD_NS   (100 * CLOCK_NS_PER_MS) /* from the last one's coming to the start */
#define LOAD_COUNT_MIN CLOCK_NS_PER_S	       /* what must be left of a run to count */

enum {
	LOAD_STREAM_NON_BLOCKING = 1, /* CU_STREAM_NON_BLOCKING */
	LOAD_EVENT_BLOCKING_SYNC = 1, /* CU_EVENT_BLOCKING_SYNC: the wait takes no processor */
	LOAD_BARRIER_MAX = 16384,
	LOAD_LINE_MAX = 64,
};

static const char *const load_modes[] = {"gemm", "burn", "small", "graph", "lc", "alloc", "ruler"};

const char *load_mode_to_string(enum load_mode mode)
{
	return names_at(load_modes, mode, "unknown");
}

int load_mode_from_string(const char *text, enum load_mode *out)
{
	int at = names_find(load_modes, text);
	if (at < 0)
		return at;
	*out = (enum load_mode)at;
	return 0;
}

int load_plan_check(const struct load_plan *plan, struct err *err)
{
	struct hgemm_size size = plan->size;
	if (plan->mode == LOAD_GEMM &&
	    (size.m == 0 || size.n == 0 || size.k == 0 || size.m % HGEMM_TILE ||
	     size.n % HGEMM_TILE || size.k % HGEMM_TILE_K))
		return err_set(err, -EINVAL, "size: M and N must be multiples of %d, K of %d",
			       HGEMM_TILE, HGEMM_TILE_K);

	if (plan->mode != LOAD_ALLOC && plan->mode != LOAD_RULER &&
	    plan->run_ns < 2 * plan->warmup_ns + LOAD_COUNT_MIN)
		return err_set(err, -EINVAL,
			       "--seconds: the first and last --warmup do not count, and nothing "
			       "would be left; at least twice --warmup and one second more");

	if (plan->mode == LOAD_LC && !(plan->rate > 0))
		return err_set(err, -EINVAL, "--rate must be more than 0");
	if (plan->mode == LOAD_LC &&
	    plan->rate * (double)plan->run_ns / 1e9 > (double)LOAD_REQUESTS_MAX / 2)
		return err_set(err, -EINVAL, "--rate times --seconds: more than %d requests",
			       LOAD_REQUESTS_MAX / 2);

	if ((plan->mode == LOAD_BURN || plan->mode == LOAD_LC) && plan->kernel_ns == 0 &&
	    plan->iterations == 0)
		return err_set(err, -EINVAL, "--kernel-us must be more than 0");
	if (plan->barrier && (plan->tenants < 1 || plan->tenants > LOAD_TENANTS_MAX))
		return err_set(err, -EINVAL, "--barrier wants --tenants, 1 to %d",
			       LOAD_TENANTS_MAX);

	return 0;
}

bool load_is_stopped(const struct load_session *self)
{
	return self->plan->stop && atomic_load(self->plan->stop);
}

void load_nap(struct load_session *self, uint64_t ns)
{
	driver_wait_until(&self->driver, driver_now_ns(&self->driver) + ns);
}

/* --- the watch -------------------------------------------------------------------------------- */

/* A kernel that never ends holds its thread in the driver for ever, and nothing can be done about
 * it in there. So somebody else looks whether anything comes back. */
static void *load_watch_main(void *context)
{
	struct load_session *self = context;
	uint_fast64_t seen = atomic_load(&self->beats);
	bool is_stalled = false;

	(void)pthread_mutex_lock(&self->watch_lock);

	while (!self->watch_ends && !is_stalled) {
		uint64_t until = clock_real_ns() + self->plan->stall_ns;
		struct timespec at = {.tv_sec = (time_t)(until / CLOCK_NS_PER_S),
				      .tv_nsec = (long)(until % CLOCK_NS_PER_S)};
		int rc = pthread_cond_timedwait(&self->watch_wake, &self->watch_lock, &at);
		uint_fast64_t now = atomic_load(&self->beats);

		is_stalled = rc == ETIMEDOUT && now == seen && !self->watch_ends;
		seen = now;
	}

	(void)pthread_mutex_unlock(&self->watch_lock);
	if (is_stalled && self->plan->stalled)
		self->plan->stalled(self->out->device.uuid[0] ? self->out->device.uuid
							      : "(still opening the driver)",
				    self->plan->context);

	return NULL;
}

static int load_watch_start(struct load_session *self, struct err *err)
{
	pthread_condattr_t attributes;
	(void)pthread_condattr_init(&attributes); /* these three cannot fail in glibc and musl */
	(void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	(void)pthread_mutex_init(&self->watch_lock, NULL);
	(void)pthread_cond_init(&self->watch_wake, &attributes);
	(void)pthread_condattr_destroy(&attributes);

	int rc = pthread_create(&self->watch, NULL, load_watch_main, self);
	if (rc != 0)
		return err_set(err, -rc, "starting the watch: %s", err_describe(-rc));

	self->is_watched = true;
	return 0;
}

static void load_watch_stop(struct load_session *self)
{
	if (!self->is_watched)
		return;

	(void)pthread_mutex_lock(&self->watch_lock);
	self->watch_ends = true;
	(void)pthread_cond_signal(&self->watch_wake);
	(void)pthread_mutex_unlock(&self->watch_lock);
	(void)pthread_join(self->watch, NULL);
	(void)pthread_cond_destroy(&self->watch_wake);
	(void)pthread_mutex_destroy(&self->watch_lock);
	self->is_watched = false;
}

void load_beat(struct load_session *self)
{
	atomic_fetch_add_explicit(&self->beats, 1, memory_order_relaxed);
}

/* --- calls of the driver ---------------------------------------------------------------------- */

int load_said(struct load_session *self, int result, struct err *err, const char *what)
{
	if (result == CUDA_OK) {
		load_beat(self);
		return 0;
	}
	return driver_fail(&self->driver, result, err, "GPU %u (%s): %s", self->out->device.ordinal,
			   self->out->device.uuid, what);
}

int load_take(struct load_session *self, size_t bytes, uint64_t *out, struct err *err)
{
	int rc = self->driver.call.cuMemAlloc(out, bytes);
	if (rc == CUDA_OK)
		return 0;

	size_t free_bytes = 0, total = 0;
	(void)self->driver.call.cuMemGetInfo(&free_bytes, &total); /* zeroes say nothing either */
	self->out->free_bytes = free_bytes;
	self->out->total_bytes = total;

	if (rc == CUDA_OUT_OF_MEMORY)
		self->out->status = LOAD_NO_MEMORY;

	return driver_fail(&self->driver, rc, err,
			   "GPU %u (%s): %zu bytes asked for, %zu of %zu are free: cuMemAlloc",
			   self->out->device.ordinal, self->out->device.uuid, bytes, free_bytes,
			   total);
}

int load_launch(struct load_session *self, const struct load_kernel *kernel, struct err *err)
{
	int rc = self->driver.call.cuLaunchKernel(kernel->function, kernel->grid_x, kernel->grid_y,
						  1, kernel->block, 1, 1, 0, self->stream,
						  (void **)kernel->parameters, NULL);
	return load_said(self, rc, err, "cuLaunchKernel");
}

int load_sync(struct load_session *self, struct err *err)
{
	return load_said(self, self->driver.call.cuStreamSynchronize(self->stream), err,
			 "cuStreamSynchronize");
}

/* --- opening ---------------------------------------------------------------------------------- */

static int load_open_stream(struct load_session *self, struct err *err)
{
	const struct driver_calls *call = &self->driver.call;
	int rc = call->cuStreamCreate(&self->stream, LOAD_STREAM_NON_BLOCKING);
	for (size_t i = 0; i < LOAD_QUEUE && rc == CUDA_OK; i++) {
		rc = call->cuEventCreate(&self->begin[i], LOAD_EVENT_BLOCKING_SYNC);
		if (rc == CUDA_OK)
			rc = call->cuEventCreate(&self->end[i], LOAD_EVENT_BLOCKING_SYNC);
	}

	return load_said(self, rc, err, "making a stream and its events");
}

static int load_open_context(struct load_session *self, struct err *err)
{
	struct load_summary *out = self->out;
	uint64_t start = clock_real_ns();
	int rc = self->driver.call.cuDevicePrimaryCtxRetain(&self->context, out->device.device);

	self->has_context = rc == CUDA_OK;
	if (rc == CUDA_OK)
		rc = self->driver.call.cuCtxSetCurrent(self->context);
	if (rc != CUDA_OK)
		return load_said(self, rc, err, "making a context");

	out->context_ns = clock_real_ns() - start;
	return 0;
}

static int load_open(struct load_session *self, struct err *err)
{
	const struct load_plan *plan = self->plan;
	struct load_summary *out = self->out;
	enum kernel_text text;

	out->status = LOAD_NO_GPU;
	self->opened_ns = clock_real_ns();

	int rc = load_watch_start(self, err); /* of cuInit, too */
	if (rc == 0)
		rc = driver_open(plan->library, plan->resolve, &self->driver, err);
	if (rc < 0)
		return rc;

	load_beat(self);
	(void)snprintf(out->library, sizeof(out->library), "%s", self->driver.path);
	out->driver_version = self->driver.version;
	out->is_simulated = self->driver.is_simulated;
	rc =
	    driver_find_device(&self->driver, plan->device ? plan->device : "0", &out->device, err);
	if (rc == 0)
		rc = kernel_text_for(out->device.cc_major, out->device.cc_minor, &text, err);

	if (rc == 0)
		rc = load_open_context(self, err);
	if (rc < 0)
		return rc;
	if (plan->text >= 0)
		text = (enum kernel_text)plan->text;
	rc =
	    kernels_load_text(&self->driver, text, out->log, sizeof(out->log), &self->kernels, err);
	out->text = text;
	out->load_ns = self->kernels.load_ns;

	if (rc == 0)
		rc = load_open_stream(self, err);
	if (rc == 0)
		readings_open(&out->readings, out->device.uuid);

	return rc;
}

static void load_close(struct load_session *self)
{
	const struct driver_calls *call = &self->driver.call;
	uint64_t addresses[] = {self->a,    self->b,	     self->c,
				self->sums, self->reference, self->difference};
	/* Nothing can be done about what fails on the way out. */
	for (size_t i = 0; self->has_context && i < sizeof(addresses) / sizeof(addresses[0]); i++)
		if (addresses[i])
			(void)call->cuMemFree(addresses[i]);

	for (size_t i = 0; i < LOAD_QUEUE; i++) {
		if (self->begin[i])
			(void)call->cuEventDestroy(self->begin[i]);
		if (self->end[i])
			(void)call->cuEventDestroy(self->end[i]);
	}

	if (self->stream)
		(void)call->cuStreamDestroy(self->stream);
	if (self->kernels.module)
		kernels_unload(&self->driver, &self->kernels);
	if (self->has_context)
		(void)call->cuDevicePrimaryCtxRelease(self->out->device.device);
	load_watch_stop(self);
	driver_close(&self->driver);
	readings_close(&self->out->readings);
}

/* --- meeting ---------------------------------------------------------------------------------- */

/* How many have come, and the latest time that one of them wrote. -EUCLEAN: not a barrier of this
 * run. */
static int load_barrier_read(const struct load_session *self, uint32_t *out_count,
			     uint64_t *out_latest, struct err *err)
{
	const char *path = self->plan->barrier;
	struct buf text _cleanup_buf_;

	buf_init(&text, LOAD_BARRIER_MAX);
	*out_count = 0;
	*out_latest = 0;

	int rc = file_read(path, &text, err);
	if (rc < 0)
		return rc;

	for (const char *line = buf_text(&text), *end; (end = strchr(line, '\n')); line = end + 1) {
		uint64_t came;
		const char *blank = memchr(line, ' ', (size_t)(end - line));
		if (!blank || parse_u64_span(blank + 1, (size_t)(end - blank - 1), 0,
					     UINT64_MAX / 2, &came) < 0)
			return err_set(err, -EUCLEAN, "'%s' is no barrier: remove it", path);

		*out_latest = came > *out_latest ? came : *out_latest;
		(*out_count)++;
	}

	if (*out_count > self->plan->tenants)
		return err_set(err, -EUCLEAN,
			       "'%s' names more than the %u of --tenants: is it of another run?",
			       path, self->plan->tenants);

	return 0;
}

static int load_barrier_come(const struct load_session *self, struct err *err)
{
	const char *path = self->plan->barrier;
	char line[LOAD_LINE_MAX];
	_cleanup_close_ int fd =
	    open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
	if (fd < 0)
		return err_set(err, -errno, "barrier '%s': %s", path, err_describe(-errno));

	int length = snprintf(line, sizeof(line), "%ld %" PRIu64 "\n", (long)getpid(),
			      driver_now_ns(&self->driver));
	/* One write of a file opened for appending: lines of several do not mix. */
	if (write(fd, line, (size_t)length) != length)
		return err_set(err, -EIO, "barrier '%s': cannot write", path);

	return 0;
}

/* A little of the driver's time, in which another tenant of a simulated driver has its turn, and of
 * real time. */
static void load_wait_a_little(struct load_session *self)
{
	struct timespec nap = {.tv_nsec = (long)LOAD_NAP_NS};
	load_nap(self, LOAD_NAP_NS);
	load_beat(self);
	if (self->driver.is_simulated)
		(void)nanosleep(&nap, NULL); /* a signal may cut it short */
}

static int load_barrier(struct load_session *self, struct err *err)
{
	const struct load_plan *plan = self->plan;
	struct clock real = {0};
	uint64_t deadline = clock_now_ns(&real) + LOAD_MEET_NS, latest = 0;
	uint32_t count = 0;

	self->out->status = LOAD_ALONE;
	int rc = load_barrier_come(self, err);

	while (rc == 0 && count < plan->tenants) {
		rc = load_barrier_read(self, &count, &latest, err);
		if (rc == 0 && load_is_stopped(self))
			rc = err_set(err, -EINTR, "interrupted");
		if (rc == 0 && count < plan->tenants && clock_now_ns(&real) > deadline)
			rc = err_set(err, -ETIMEDOUT, "barrier '%s': %u of %u came within 60 s",
				     plan->barrier, count, plan->tenants);
		if (rc == 0 && count < plan->tenants)
			load_wait_a_little(self);
	}

	if (rc < 0)
		return rc;

	uint64_t now = driver_now_ns(&self->driver);

	self->out->start_ns = latest + LOAD_LEAD_NS;
	if (self->out->start_ns + LOAD_MEET_NS < now)
		return err_set(err, -EUCLEAN, "'%s' is full of an earlier run: remove it",
			       plan->barrier);

	return 0;
}

/* Until all are there, or the time that was agreed upon: the driver's clock at the start is
 * summary.start_ns. Sets LOAD_ALONE. */
static int load_meet(struct load_session *self, struct err *err)
{
	const struct load_plan *plan = self->plan;
	struct load_summary *out = self->out;

	out->start_ns = driver_now_ns(&self->driver);
	int64_t start_at = (int64_t)plan->start_at * (int64_t)CLOCK_NS_PER_S;
	int rc = plan->barrier ? load_barrier(self, err) : 0;

	if (plan->start_at && clock_unix_ns() > start_at) {
		out->status = LOAD_ALONE;
		rc = err_set(err, -ETIMEDOUT, "--start-at has passed %" PRId64 " ms ago",
			     (clock_unix_ns() - start_at) / (int64_t)CLOCK_NS_PER_MS);
	}

	while (rc == 0 && plan->start_at && clock_unix_ns() < start_at) {
		if (load_is_stopped(self))
			rc = err_set(err, -EINTR, "interrupted");
		load_wait_a_little(self);
		out->start_ns = driver_now_ns(&self->driver);
	}

	if (rc < 0)
		return rc;

	driver_wait_until(&self->driver, out->start_ns);
	out->start_unix = (double)clock_unix_ns() / 1e9;
	out->status = LOAD_WRONG; /* what fails from here on is the GPU's */

	return 0;
}

/* --- running ---------------------------------------------------------------------------------- */

static int load_prepare(struct load_session *self, struct err *err)
{
	switch (self->plan->mode) {
	case LOAD_GEMM:
		return load_kernel_gemm(self, err);
	case LOAD_BURN:
	case LOAD_LC:
		return load_kernel_burn(self, err);
	case LOAD_SMALL:
	case LOAD_GRAPH:
		return self->plan->kernel_ns ? load_kernel_burn(self, err)
					     : load_kernel_nop(self, err);
	default:
		return 0;
	}
}

static int load_run_mode(struct load_session *self, struct err *err)
{
	static int (*const runs[])(struct load_session * self, struct err * err) = {
	    [LOAD_GEMM] = load_run_closed, [LOAD_BURN] = load_run_closed,
	    [LOAD_SMALL] = load_run_small, [LOAD_GRAPH] = load_run_small,
	    [LOAD_LC] = load_run_lc,	   [LOAD_ALLOC] = load_run_alloc,
	    [LOAD_RULER] = load_run_ruler};
	uint64_t cpu = clock_process_ns(), real = clock_real_ns();
	int rc = runs[self->plan->mode](self, err);
	uint64_t took = clock_real_ns() - real;

	self->out->host_cpu = took > 0 ? (double)(clock_process_ns() - cpu) / (double)took : 0;
	return rc;
}

int load_run(const struct load_plan *plan, struct load_summary *out, struct err *err)
{
	memset(out, 0, sizeof(*out));
	_cleanup_free_ struct load_session *self = calloc(1, sizeof(*self));
	int rc = load_plan_check(plan, err);
	if (rc < 0 || !self) {
		out->status = self ? LOAD_REFUSED : LOAD_WRONG;
		return self ? rc : err_set(err, -ENOMEM, "no memory");
	}

	self->plan = plan;
	self->out = out;
	self->random.state = plan->seed;
	rc = load_open(self, err);
	if (rc == 0) {
		out->status = LOAD_WRONG;
		rc = load_prepare(self, err);
	}

	if (rc == 0)
		rc = load_meet(self, err);
	if (rc == 0)
		rc = load_run_mode(self, err);
	if (rc == 0)
		rc = load_verify_end(self, err);
	if (rc == 0)
		out->status = LOAD_OK;
	load_close(self);

	return rc;
}
