/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of a load share. */
#ifndef SLUICE_BENCH_GPU_LOAD_INTERNAL_H
#define SLUICE_BENCH_GPU_LOAD_INTERNAL_H

#include <pthread.h>

#include "bench/gpu/load.h"
#include "bench/stats.h"

enum load_internal_limits {
	LOAD_QUEUE = 2, /* launches queued, so that the GPU always has one */
	LOAD_KERNEL_PARAMETERS = 8,
};

/* One kernel with how it is launched. Parameters point into it, so it stays where it is. */
struct load_kernel {
	struct cuda_function *function;
	uint32_t grid_x, grid_y, block;
	void *parameters[LOAD_KERNEL_PARAMETERS];
	double operations; /* of a launch */
	uint64_t address[3];
	int number[3];
};

struct load_session {
	const struct load_plan *plan;
	struct load_summary *out;
	struct driver driver;
	struct cuda_context *context;
	bool has_context;
	struct kernels kernels;
	struct cuda_stream *stream;
	struct cuda_event *begin[LOAD_QUEUE], *end[LOAD_QUEUE];
	struct load_kernel kernel, compare;
	uint64_t compared_words, comparisons; /* sl_compare was launched so often */
	uint64_t a, b, c;		      /* operands and result */
	size_t c_bytes;
	uint64_t sums, expected_sum;	/* of a product or burn, by sl_compare */
	uint64_t reference, difference; /* burn: the first result; what sl_compare counts */
	struct stats_random random;
	uint64_t opened_ns;
	/* The watch over a driver that does not come back. */
	pthread_t watch;
	pthread_mutex_t watch_lock;
	pthread_cond_t watch_wake;
	bool is_watched, watch_ends;
	atomic_uint_fast64_t beats;
	struct meter meter;
};

bool load_is_stopped(const struct load_session *self);
/* One more thing came back from the driver. */
void load_beat(struct load_session *self);
/* Waits on the driver's clock. */
void load_nap(struct load_session *self, uint64_t ns);
/* -EIO or -ENOMEM with `what`; 0 for CUDA_OK. */
int load_said(struct load_session *self, int result, struct err *err, const char *what);
/* cuMemAlloc, its failure with what there is: LOAD_NO_MEMORY. */
int load_take(struct load_session *self, size_t bytes, uint64_t *out, struct err *err);
int load_launch(struct load_session *self, const struct load_kernel *kernel, struct err *err);
int load_sync(struct load_session *self, struct err *err);

/* load_kernel.c: makes what a mode launches, with its operands, and verifies the GPU. */
int load_kernel_gemm(struct load_session *self, struct err *err);
/* With the iterations that take kernel_ns. */
int load_kernel_burn(struct load_session *self, struct err *err);
int load_kernel_nop(struct load_session *self, struct err *err);
/* During a run, now and then: burn compares its last result with the first, in the stream. */
int load_verify_running(struct load_session *self, struct err *err);
/* After a run: is the result still right? */
int load_verify_end(struct load_session *self, struct err *err);

/* The modes, with everything ready. */
int load_run_closed(struct load_session *self, struct err *err); /* gemm, burn */
int load_run_small(struct load_session *self, struct err *err);	 /* small, graph */
int load_run_lc(struct load_session *self, struct err *err);
int load_run_alloc(struct load_session *self, struct err *err);
int load_run_ruler(struct load_session *self, struct err *err);

#endif
