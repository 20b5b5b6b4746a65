/* SPDX-License-Identifier: Apache-2.0 */
#include "validate/gpu/bandwidth.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "validate/gpu/gputest.h"
#include "hardware/pci.h"

enum { BANDWIDTH_SEED = 7, BANDWIDTH_LOAD_COPIES = 8, BANDWIDTH_HOST_FLAGS = 3 };

enum bandwidth_what {
	BANDWIDTH_TO_GPU,
	BANDWIDTH_TO_HOST,
	BANDWIDTH_BOTH,
	BANDWIDTH_WITHIN,
	BANDWIDTH_WHAT_COUNT,
};

struct bandwidth {
	struct gputest test;
	const struct bandwidth_options *options;
	const struct checks_sink *sink;
	uint64_t bytes;
	uint32_t repeats;
	void *source, *back;			 /* owned: of the host; all data come from source */
	uint64_t source_device, back_device;	 /* the same as the GPU sees them */
	uint64_t a, b;				 /* owned: of the GPU */
	bool was_late;				 /* a launch may be in a figure */
	double medians[BANDWIDTH_WHAT_COUNT][2]; /* GB/s; by copy engine, by processors */
};

static int bandwidth_allocate(struct bandwidth *self, struct err *err)
{
	const struct driver_calls *call = &self->test.driver->call;
	const char *what = "cuMemAlloc";
	int rc = call->cuMemAlloc(&self->a, self->bytes);
	if (rc == CUDA_OK)
		rc = call->cuMemAlloc(&self->b, self->bytes);

	if (rc == CUDA_OK) {
		what = "cuMemHostAlloc";
		rc = call->cuMemHostAlloc(&self->source, self->bytes, BANDWIDTH_HOST_FLAGS);
	}

	if (rc == CUDA_OK)
		rc = call->cuMemHostAlloc(&self->back, self->bytes, BANDWIDTH_HOST_FLAGS);
	if (rc == CUDA_OK)
		rc = call->cuMemHostGetDevicePointer(&self->source_device, self->source, 0);
	if (rc == CUDA_OK)
		rc = call->cuMemHostGetDevicePointer(&self->back_device, self->back, 0);

	return rc == CUDA_OK
		   ? 0
		   : driver_fail(self->test.driver, rc, err, "%s of %" PRIu64 " bytes for %s", what,
				 self->bytes, self->test.device->uuid);
}

static void bandwidth_close(struct bandwidth *self)
{
	if (self->test.context) {
		const struct driver_calls *call = &self->test.driver->call;

		/* What fails here cannot be helped: the process ends soon. */
		if (self->a)
			(void)call->cuMemFree(self->a);
		if (self->b)
			(void)call->cuMemFree(self->b);
		if (self->source)
			(void)call->cuMemFreeHost(self->source);
		if (self->back)
			(void)call->cuMemFreeHost(self->back);
	}

	gputest_close(&self->test);
}

/* --- one figure ------------------------------------------------------------------------------- */

static int bandwidth_to_gpu(struct bandwidth *self, bool by_kernel, struct err *err)
{
	if (by_kernel)
		return gputest_copy(&self->test, 0, self->a, self->source_device, self->bytes, err);
	int rc = self->test.driver->call.cuMemcpyHtoDAsync(self->a, self->source, self->bytes,
							   self->test.streams[0]);
	return rc == CUDA_OK ? 0
			     : driver_fail(self->test.driver, rc, err, "copying to %s",
					   self->test.device->uuid);
}

static int bandwidth_to_host(struct bandwidth *self, bool by_kernel, unsigned stream,
			     struct err *err)
{
	if (by_kernel)
		return gputest_copy(&self->test, stream, self->back_device, self->b, self->bytes,
				    err);

	int rc = self->test.driver->call.cuMemcpyDtoHAsync(self->back, self->b, self->bytes,
							   self->test.streams[stream]);
	return rc == CUDA_OK ? 0
			     : driver_fail(self->test.driver, rc, err, "copying from %s",
					   self->test.device->uuid);
}

static int bandwidth_within(struct bandwidth *self, bool by_kernel, struct err *err)
{
	if (by_kernel)
		return gputest_copy(&self->test, 0, self->b, self->a, self->bytes, err);
	int rc = self->test.driver->call.cuMemcpyDtoDAsync(self->b, self->a, self->bytes,
							   self->test.streams[0]);
	return rc == CUDA_OK ? 0
			     : driver_fail(self->test.driver, rc, err, "copying within %s",
					   self->test.device->uuid);
}

static int bandwidth_queue(struct bandwidth *self, enum bandwidth_what what, bool by_kernel,
			   struct err *err)
{
	int rc = 0;

	if (what == BANDWIDTH_TO_GPU || what == BANDWIDTH_BOTH)
		rc = bandwidth_to_gpu(self, by_kernel, err);
	if (rc == 0 && (what == BANDWIDTH_TO_HOST || what == BANDWIDTH_BOTH))
		rc = bandwidth_to_host(self, by_kernel, what == BANDWIDTH_BOTH, err);
	if (rc == 0 && what == BANDWIDTH_WITHIN)
		rc = bandwidth_within(self, by_kernel, err);

	return rc;
}

/* Where the result of `what` will be, there is something else before. */
static int bandwidth_spoil(struct bandwidth *self, enum bandwidth_what what, struct err *err)
{
	const struct driver_calls *call = &self->test.driver->call;
	int rc = CUDA_OK;

	if (what == BANDWIDTH_TO_GPU || what == BANDWIDTH_BOTH)
		rc = call->cuMemsetD32(self->a, 0, self->bytes / 4);
	if (rc == CUDA_OK && what == BANDWIDTH_WITHIN)
		rc = call->cuMemsetD32(self->b, 0, self->bytes / 4);
	if (rc == CUDA_OK)
		rc = call->cuCtxSynchronize();
	memset(self->back, 0, self->bytes);

	return rc == CUDA_OK ? 0
			     : driver_fail(self->test.driver, rc, err, "cuMemsetD32 on %s",
					   self->test.device->uuid);
}

static int bandwidth_compare(const struct bandwidth *self, const char *metric, struct err *err)
{
	const uint32_t *words = self->back;

	if (memcmp(self->source, self->back, self->bytes) == 0)
		return 0;

	size_t first = gputest_verify(words, self->bytes / 4, BANDWIDTH_SEED);
	if (first == self->bytes / 4) /* only there it is right: the host's memory changed */
		first = 0;

	return err_set(err, -EBADMSG,
		       "%s on %s: wrong data: the word at byte %zu is 0x%08x instead of 0x%08x",
		       metric, self->test.device->uuid, first * 4, words[first],
		       gputest_word(BANDWIDTH_SEED, first));
}

/* Whether what was copied is what it was. */
static int bandwidth_verify(struct bandwidth *self, enum bandwidth_what what, const char *metric,
			    struct err *err)
{
	const struct driver *driver = self->test.driver;
	int rc = 0;

	if (what == BANDWIDTH_TO_HOST || what == BANDWIDTH_BOTH)
		rc = bandwidth_compare(self, metric, err);
	if (rc < 0 || what == BANDWIDTH_TO_HOST)
		return rc;

	memset(self->back, 0, self->bytes);
	rc = driver->call.cuMemcpyDtoH(self->back, what == BANDWIDTH_WITHIN ? self->b : self->a,
				       self->bytes);
	return rc == CUDA_OK ? bandwidth_compare(self, metric, err)
			     : driver_fail(driver, rc, err, "%s: reading it back from %s", metric,
					   self->test.device->uuid);
}

static int bandwidth_measure(struct bandwidth *self, enum bandwidth_what what, bool by_kernel,
			     struct err *err)
{
	static const char *const names[BANDWIDTH_WHAT_COUNT][2] = {
	    {"host_to_gpu_engine", "host_to_gpu_kernel"},
	    {"gpu_to_host_engine", "gpu_to_host_kernel"},
	    {"both_ways_engine", "both_ways_kernel"},
	    {"within_engine", "within_kernel"}};
	const char *metric = names[what][by_kernel], *uuid = self->test.device->uuid;
	double samples[GPUTEST_REPEATS_MAX];
	int rc = bandwidth_spoil(self, what, err);

	for (uint32_t i = 0; rc == 0 && i < self->repeats; i++) {
		double seconds = 0;
		bool was_held = true;

		rc = gputest_begin(&self->test, what == BANDWIDTH_BOTH, err);
		if (rc == 0)
			rc = bandwidth_queue(self, what, by_kernel, err);
		if (rc == 0)
			rc = gputest_end(&self->test, what == BANDWIDTH_BOTH, &seconds, &was_held,
					 err);
		if (rc < 0)
			break;

		self->was_late = self->was_late || !was_held;
		samples[i] = seconds > 0 ? (double)self->bytes * (what == BANDWIDTH_BOTH ? 2 : 1) /
					       seconds / 1e9
					 : 0;
		checks_sample(self->sink, uuid, metric, "GB/s", true, samples[i]);
	}

	if (rc == 0)
		rc = bandwidth_verify(self, what, metric, err);
	if (rc == 0)
		self->medians[what][by_kernel] = gputest_median(samples, self->repeats);

	return rc;
}

/* --- the check -------------------------------------------------------------------------------- */

/* The link while it works; when idle it sleeps at a lower speed. */
static void bandwidth_look_at_link(struct bandwidth *self, struct check *check)
{
	const struct bandwidth_options *options = self->options;
	const struct driver_calls *call = &self->test.driver->call;
	struct pci_address address;
	struct pci_device pci = {.link_gen = 0};

	if (options->link_gen == 0 ||
	    pci_parse_address(self->test.device->bus_id, strlen(self->test.device->bus_id),
			      &address) < 0)
		return;

	for (unsigned i = 0; i < BANDWIDTH_LOAD_COPIES; i++)
		if (call->cuMemcpyHtoDAsync(self->a, self->source, self->bytes,
					    self->test.streams[0]) != CUDA_OK)
			return;

	int rc = pci_read_device(options->root, &address, &pci, NULL);

	(void)call->cuStreamSynchronize(self->test.streams[0]); /* the next call tells, too */
	if (rc < 0 || pci.link_gen == 0 || pci.link_width == 0)
		return;

	if (pci.link_gen < options->link_gen || pci.link_width < options->link_width) {
		check_worsen(check, CHECK_SLOW,
			     "the PCIe link runs as generation %u x%u under load, and can be "
			     "generation %u x%u",
			     pci.link_gen, pci.link_width, options->link_gen, options->link_width);
		(void)snprintf(
		    check->hint, sizeof(check->hint),
		    "reseat the board, look at the slot and the riser: lspci -vv -s %.20s",
		    self->test.device->bus_id);
	}
}

static void bandwidth_judge(const struct bandwidth *self, struct check *check)
{
	const struct bandwidth_options *options = self->options;
	double to_gpu = self->medians[BANDWIDTH_TO_GPU][0];
	double to_host = self->medians[BANDWIDTH_TO_HOST][0];
	double worst = to_gpu < to_host ? to_gpu : to_host;

	check_value(check, worst, "GB/s");
	bool is_judged = options->limit > 0 && self->bytes >= GPUTEST_JUDGED_BYTES;
	check->has_limit = is_judged;
	check->limit = is_judged ? options->limit : 0;
	if (is_judged && worst < check->limit)
		check_worsen(check, CHECK_SLOW, "%s: %.2f GB/s, expected are %.2f at least over %s",
			     to_gpu < to_host ? "host to GPU" : "GPU to host", worst,
			     options->limit, options->link ? options->link : "its link");
	else if (!is_judged && check->status == CHECK_PASS)
		check_set(check, CHECK_PASS, "data right; %s, so that no speed is expected",
			  options->limit > 0			    ? "copies are small"
			  : text_starts_with(check->target, "MIG-") ? "others use its link, too"
								    : "the link is not known");
}

static int bandwidth_run(struct bandwidth *self, const struct driver *driver,
			 const struct driver_device *device, struct check *check, struct err *err)
{
	char pinned[GPUTEST_PIN_MAX];
	uint64_t wanted = self->options->bytes;

	if (wanted == 0)
		wanted = driver->is_simulated ? BANDWIDTH_SIMULATED_BYTES : BANDWIDTH_BYTES;

	/* Before the context: what it allocates on the host lies near, too. */
	bool is_near = gputest_pin(device, self->options->root, pinned);
	int rc = gputest_open(driver, device, &self->test, err);
	if (rc == 0)
		rc = gputest_fit(&self->test, wanted, &self->bytes, err);
	if (rc == 0)
		rc = bandwidth_allocate(self, err);

	if (rc < 0)
		return rc;

	gputest_fill(self->source, self->bytes / 4, BANDWIDTH_SEED);

	for (unsigned i = 0; rc == 0 && i < BANDWIDTH_WHAT_COUNT; i++) {
		/* What is copied back must be there first: within comes before to host. */
		static const enum bandwidth_what order[] = {BANDWIDTH_TO_GPU, BANDWIDTH_WITHIN,
							    BANDWIDTH_TO_HOST, BANDWIDTH_BOTH};
		rc = bandwidth_measure(self, order[i], false, err);
		if (rc == 0)
			rc = bandwidth_measure(self, order[i], true, err);
	}

	if (rc < 0)
		return rc;

	checks_note(self->sink, "%-44.44s %7.2f/%-7.2f %7.2f/%-7.2f %7.2f/%-7.2f %8.2f/%-8.2f %s%s",
		    device->uuid, self->medians[0][0], self->medians[0][1], self->medians[1][0],
		    self->medians[1][1], self->medians[2][0], self->medians[2][1],
		    self->medians[3][0], self->medians[3][1], is_near ? "" : pinned,
		    self->was_late ? " launches are in these figures" : "");
	bandwidth_look_at_link(self, check);
	bandwidth_judge(self, check);

	return 0;
}

void bandwidth_header(const struct driver *driver, const struct bandwidth_options *options,
		      const struct checks_sink *sink)
{
	uint64_t bytes = options->bytes;
	if (bytes == 0)
		bytes = driver->is_simulated ? BANDWIDTH_SIMULATED_BYTES : BANDWIDTH_BYTES;
	checks_note(sink,
		    "GB/s by copy engine / by kernel, median of %u copies of %" PRIu64
		    " KiB, all data checked%s",
		    options->repeats > 0 ? options->repeats : BANDWIDTH_REPEATS, bytes >> 10,
		    driver->is_simulated ? "; simulated" : "");
	checks_note(sink, "%-44s %15s %15s %15s %17s", "GPU", "host to GPU", "GPU to host",
		    "both ways", "within the GPU");
}

void bandwidth_check(const struct driver *driver, const struct driver_device *device,
		     const struct bandwidth_options *options, uint64_t place,
		     const struct checks_sink *sink)
{
	struct bandwidth self = {.options = options, .sink = sink};
	struct err err = {.code = 0};
	struct check check;

	self.repeats = options->repeats > 0 ? options->repeats : BANDWIDTH_REPEATS;
	if (self.repeats > GPUTEST_REPEATS_MAX)
		self.repeats = GPUTEST_REPEATS_MAX;
	checks_begin(sink, &check, place, "bandwidth", device->uuid);

	if (bandwidth_run(&self, driver, device, &check, &err) < 0) {
		gputest_failed(&check, &err);
		if (err.code == -ENOMEM)
			check.status = CHECK_SKIP; /* the GPU is full: no statement */
	}

	gputest_say_simulated(&check, driver);
	bandwidth_close(&self);
	checks_end(sink, &check);
}
