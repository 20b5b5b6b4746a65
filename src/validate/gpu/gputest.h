/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the checks of GPUs share: contexts, kernels, streams and events, a pattern and its check,
 * and timing in which the launches do not count: a kernel holds the stream until all is queued. One
 * process has one of these at a time. Knows nothing of what is measured, and of no expectations.
 */
#ifndef SLUICE_VALIDATE_GPU_GPUTEST_H
#define SLUICE_VALIDATE_GPU_GPUTEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/checks.h"
#include "bench/gpu/driver.h"
#include "bench/gpu/kernel.h"

struct check;
struct err;

enum gputest_limits {
	GPUTEST_REPEATS_MAX = 32,
	GPUTEST_BLOCK = 512, /* threads of a block that copies or compares */
};
#define GPUTEST_HOLD_NS                                                                            \
	UINT64_C(5000000000) /* in the kernel: then the stream goes on by itself                   \
			      */
#define GPUTEST_MIN_BYTES UINT64_C(65536)
/* What starting a copy costs counts in smaller ones: nothing is expected of their speed. */
#define GPUTEST_JUDGED_BYTES (UINT64_C(32) << 20)

/* A GPU with its context, which the process made. */
struct gputest {
	const struct driver *driver;	    /* borrowed */
	const struct driver_device *device; /* borrowed */
	struct cuda_context *context;	    /* retained */
	struct kernels kernels;
	bool has_kernels;
	struct cuda_stream *streams[2]; /* owned */
	struct cuda_event *start, *end; /* owned */
	struct cuda_event *meanwhile;	/* owned: the second stream's end */
	uint32_t *flag;			/* owned: the host's two words: released, result */
	uint64_t flag_device;		/* the same as the GPU sees it */
	struct cuda_function *hold, *copy, *compare;
};

/* Makes the context current, and all of the above. driver_fail()'s errors; what kernels_load()
 * gives. */
int gputest_open(const struct driver *driver, const struct driver_device *device,
		 struct gputest *out, struct err *err);
void gputest_close(struct gputest *test); /* zeroed is fine */
/* Its context is the current one from now on. */
int gputest_use(const struct gputest *test, struct err *err);

/* Holds the stream 0 back, and notes the time behind that. Work for both streams can follow. */
int gputest_begin(struct gputest *test, bool has_second, struct err *err);
/*
 * Lets it go, waits for the end, and says how long what was queued in between took, in seconds, by
 * the GPU's events. `out_held` (may be NULL): the hold was in time, so that no launch is in it.
 */
int gputest_end(struct gputest *test, bool has_second, double *out_seconds, bool *out_held,
		struct err *err);
/* Queues a copy of `bytes` (a multiple of 16) by the GPU's processors. */
int gputest_copy(struct gputest *test, unsigned stream, uint64_t to, uint64_t from, uint64_t bytes,
		 struct err *err);
int gputest_launch(struct gputest *test, struct cuda_function *function, unsigned grid,
		   unsigned block, unsigned stream, void **parameters, struct err *err);

/* The words of a pattern: differ from each other, and from those of other seeds. Pure. */
uint32_t gputest_word(uint64_t seed, uint64_t place);
void gputest_fill(uint32_t *words, size_t count, uint64_t seed);
/* The first word that is wrong, or `count`. Pure. */
size_t gputest_verify(const uint32_t *words, size_t count, uint64_t seed);

double gputest_median(double *samples, size_t count); /* orders them; count > 0 */
/* `wanted`, or what fits into a quarter of the GPU's free memory, at least GPUTEST_MIN_BYTES; a
 * multiple of that. -ENOMEM: not even that. */
int gputest_fit(const struct gputest *test, uint64_t wanted, uint64_t *out, struct err *err);
/* A reason, and what to do about it apart from it: errors of the driver have both in one text. */
void gputest_explain(struct check *check, const char *text);
/* What a check says when a call failed: FAIL, the error, and the hint for a CUDA result that the
 * error names. */
void gputest_failed(struct check *check, const struct err *err);
/* A figure of a simulated driver is called so, wherever the check is shown. */
void gputest_say_simulated(struct check *check, const struct driver *driver);
/* The number in "CUDA_ERROR_NO_DEVICE (100)" of an error's text; 0: none. Pure. */
int gputest_result_of(const char *text);

/* Binds this process to the processors that are nearest to the GPU. `root` as pci_root(). Says in
 * `out` what came of it: "CPUs 0-15 of node 0", or why it is not bound. */
enum { GPUTEST_PIN_MAX = 128 };
bool gputest_pin(const struct driver_device *device, const char *root, char out[GPUTEST_PIN_MAX]);

#endif
