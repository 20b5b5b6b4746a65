/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/gpu/kernel.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "bench/gpu/driver.h"

/* Of CUjit_option. Source: CUDA driver API. */
enum kernel_jit {
	JIT_ERROR_LOG_BUFFER = 5,
	JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
	JIT_OPTIONS = 2,
	JIT_LOG_BYTES = 4096,
};

/* Made by tools/ptx --embed; each ends in NUL. */
extern const char kernel_text_sl70[], kernel_text_sl70_end[];
extern const char kernel_text_sl75[], kernel_text_sl75_end[];
extern const char kernel_text_sl80[], kernel_text_sl80_end[];

static const struct kernel_text_row {
	const char *name, *begin, *end;
} kernel_texts[] = {
    [KERNEL_SL70] = {"sl70", kernel_text_sl70, kernel_text_sl70_end},
    [KERNEL_SL75] = {"sl75", kernel_text_sl75, kernel_text_sl75_end},
    [KERNEL_SL80] = {"sl80", kernel_text_sl80, kernel_text_sl80_end},
};

const char *kernel_text_to_string(enum kernel_text text)
{
	return text < KERNEL_TEXT_COUNT ? kernel_texts[text].name : "unknown";
}

int kernel_text_for(int cc_major, int cc_minor, enum kernel_text *out, struct err *err)
{
	if (cc_major < 7)
		return err_set(
		    err, -ENODEV,
		    "compute capability %d.%d: needs tensor cores (compute capability 7.0)",
		    cc_major, cc_minor);

	/* 7.2 (Xavier) cannot load what is made for 7.5. */
	*out = cc_major >= 8 ? KERNEL_SL80 : cc_minor >= 5 ? KERNEL_SL75 : KERNEL_SL70;
	return 0;
}

const char *kernel_text(enum kernel_text text, uint32_t *out_bytes)
{
	const struct kernel_text_row *row = &kernel_texts[text];
	*out_bytes = (uint32_t)(row->end - row->begin);
	return row->begin;
}

int kernels_load_text(const struct driver *driver, enum kernel_text text, char *log,
		      uint32_t log_bytes, struct kernels *out, struct err *err)
{
	char own[JIT_LOG_BYTES] = "";
	uint32_t bytes;
	char *said = log ? log : own;
	int options[JIT_OPTIONS] = {JIT_ERROR_LOG_BUFFER, JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *values[JIT_OPTIONS] = {
	    said, (void *)(uintptr_t)(log ? log_bytes : sizeof(own))}; /* a number in a pointer */
	struct cuda_module *module = NULL;

	if (log && log_bytes > 0)
		log[0] = '\0';

	uint64_t start = driver_now_ns(driver);
	int rc = driver->call.cuModuleLoadDataEx(&module, kernel_text(text, &bytes), JIT_OPTIONS,
						 options, values);
	if (rc != CUDA_OK) {
		/* The beginning; the rest is in `log`. */
		(void)driver_fail(driver, rc, err, "loading the kernels (text %s)%s%.200s",
				  kernel_text_to_string(text), said[0] ? ": " : "", said);
		return -EIO;
	}

	*out = (struct kernels){
	    .module = module, .text = text, .load_ns = driver_now_ns(driver) - start};
	return 0;
}

int kernels_load(const struct driver *driver, const struct driver_device *device, char *log,
		 uint32_t log_bytes, struct kernels *out, struct err *err)
{
	enum kernel_text text = KERNEL_TEXT_COUNT;
	int rc = kernel_text_for(device->cc_major, device->cc_minor, &text, err);
	if (rc < 0)
		return err_wrap(err, "%s %s", device->name, device->uuid);
	return kernels_load_text(driver, text, log, log_bytes, out, err);
}

void kernels_unload(const struct driver *driver, struct kernels *kernels)
{
	if (kernels->module)
		(void)driver->call.cuModuleUnload(kernels->module); /* on the way out */
	*kernels = (struct kernels){0};
}

int kernels_find(const struct driver *driver, const struct kernels *kernels, const char *name,
		 struct cuda_function **out, struct err *err)
{
	int rc = driver->call.cuModuleGetFunction(out, kernels->module, name);
	if (rc == CUDA_OK)
		return 0;
	(void)driver_fail(driver, rc, err, "finding kernel '%s' in text %s", name,
			  kernel_text_to_string(kernels->text));
	return -ENOENT;
}
