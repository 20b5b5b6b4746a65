/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels that we carry as PTX text, by name, and which text a GPU takes. The sources lie in
 * kernels/ beside the text that was made of them (`make ptx`); the simulated driver computes what
 * they say by their names. Knows nothing of what they are run for.
 */
#ifndef SLUICE_BENCH_GPU_KERNEL_H
#define SLUICE_BENCH_GPU_KERNEL_H

#include <stdint.h>

struct cuda_function;
struct cuda_module;
struct driver;
struct driver_device;
struct err;

enum kernel_text { KERNEL_SL70, KERNEL_SL75, KERNEL_SL80, KERNEL_TEXT_COUNT };
/* "sl75". */
const char *kernel_text_to_string(enum kernel_text text);
/* For a compute capability: sl70 for 7.0 to 7.2, sl75 for 7.5, sl80 from 8.0 on. -ENODEV below 7.0.
 * Pure. */
int kernel_text_for(int cc_major, int cc_minor, enum kernel_text *out, struct err *err);
/* The text itself, ending in NUL; `out_bytes` without it. */
const char *kernel_text(enum kernel_text text, uint32_t *out_bytes);

struct kernels {
	struct cuda_module *module; /* owned; of the context that was current */
	enum kernel_text text;
	uint64_t load_ns; /* what compiling it took */
};
/* Into the current context. -ENODEV; -EIO: it does not load, and the message has the beginning of
 * the compiler's log, whole in `log` (may be NULL). */
int kernels_load(const struct driver *driver, const struct driver_device *device, char *log,
		 uint32_t log_bytes, struct kernels *out, struct err *err);
/* The same of a text that the caller chooses. -EIO. */
int kernels_load_text(const struct driver *driver, enum kernel_text text, char *log,
		      uint32_t log_bytes, struct kernels *out, struct err *err);
void kernels_unload(const struct driver *driver, struct kernels *kernels);
/* "sl_hgemm". -ENOENT. */
int kernels_find(const struct driver *driver, const struct kernels *kernels, const char *name,
		 struct cuda_function **out, struct err *err);

#endif
