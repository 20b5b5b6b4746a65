/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/gpu/kernel.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "bench/gpu/driver.h"
#include "unit/unit.h"

enum { TEXT_BYTES_MAX = 80 * 1024 };

static void each_gpu_takes_the_text_made_for_it(void **state)
{
	static const struct {
		int major, minor;
		enum kernel_text text;
	} rows[] = {{7, 0, KERNEL_SL70}, {7, 2, KERNEL_SL70}, {7, 5, KERNEL_SL75},
		    {8, 0, KERNEL_SL80}, {8, 6, KERNEL_SL80}, {8, 9, KERNEL_SL80},
		    {9, 0, KERNEL_SL80}, {10, 0, KERNEL_SL80}};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		enum kernel_text text = KERNEL_TEXT_COUNT;
		assert_int_equal(kernel_text_for(rows[i].major, rows[i].minor, &text, NULL), 0);
		assert_int_equal(text, rows[i].text);
	}
}

static void without_tensor_cores_there_is_none(void **state)
{
	enum kernel_text text = KERNEL_TEXT_COUNT;
	struct err err = {0};
	assert_int_equal(kernel_text_for(6, 1, &text, &err), -ENODEV);
	assert_non_null(strstr(err.text, "needs tensor cores (compute capability 7.0)"));
	assert_int_equal(text, KERNEL_TEXT_COUNT);
}

static void texts_end_in_nul_and_are_what_they_are_called(void **state)
{
	static const char *const begin[] = {".version 6.4\n.target sm_70\n",
					    ".version 6.3\n.target sm_75\n",
					    ".version 7.0\n.target sm_80\n"};
	static const char *const kernels[] = {"sl_nop",	  "sl_spin",	  "sl_vadd",
					      "sl_hgemm", "sl_wmma_burn", "sl_ruler"};
	uint32_t all = 0;
	for (int t = 0; t < KERNEL_TEXT_COUNT; t++) {
		uint32_t bytes;
		const char *text = kernel_text((enum kernel_text)t, &bytes);
		assert_int_equal(strlen(text), bytes);
		assert_memory_equal(text, begin[t], strlen(begin[t]));
		for (size_t k = 0; k < sizeof(kernels) / sizeof(kernels[0]); k++) {
			char entry[64];
			(void)snprintf(entry, sizeof(entry), ".visible .entry %s(", kernels[k]);
			assert_non_null(strstr(text, entry));
		}
		assert_true((strstr(text, ".visible .entry sl_mma_burn(") != NULL) ==
			    (t == KERNEL_SL80));
		all += bytes;
	}
	assert_in_range(all, 1, TEXT_BYTES_MAX);
	assert_string_equal(kernel_text_to_string(KERNEL_SL75), "sl75");
}

static int load_refused(struct cuda_module **module, const void *image, unsigned count,
			int *options, void **values)
{
	(void)module;
	(void)image;
	for (unsigned i = 0; i < count; i++)
		if (options[i] == 5) /* CU_JIT_ERROR_LOG_BUFFER */
			memcpy(values[i], "line 7: no such thing", sizeof("line 7: no such thing"));
	return CUDA_INVALID_PTX;
}

static void what_the_compiler_said_is_told(void **state)
{
	struct driver driver = {.call = {.cuModuleLoadDataEx = load_refused}};
	struct driver_device device = {.name = "NVIDIA T4", .cc_major = 7, .cc_minor = 5};
	struct kernels kernels = {0};
	struct err err = {0};
	char log[256];
	assert_int_equal(kernels_load(&driver, &device, log, sizeof(log), &kernels, &err), -EIO);
	assert_non_null(strstr(err.text, "sl75"));
	assert_non_null(strstr(err.text, "line 7: no such thing"));
	assert_string_equal(log, "line 7: no such thing");
	assert_null(kernels.module);
}

static int find_nothing(struct cuda_function **function, struct cuda_module *module,
			const char *name)
{
	(void)function;
	(void)module;
	(void)name;
	return CUDA_NOT_FOUND;
}

static void an_unknown_kernel_is_named(void **state)
{
	struct driver driver = {.call = {.cuModuleGetFunction = find_nothing}};
	struct kernels kernels = {.text = KERNEL_SL80};
	struct cuda_function *function = NULL;
	struct err err = {0};
	assert_int_equal(kernels_find(&driver, &kernels, "sl_none", &function, &err), -ENOENT);
	assert_non_null(strstr(err.text, "'sl_none' in text sl80"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_gpu_takes_the_text_made_for_it),
	    cmocka_unit_test(without_tensor_cores_there_is_none),
	    cmocka_unit_test(texts_end_in_nul_and_are_what_they_are_called),
	    cmocka_unit_test(what_the_compiler_said_is_told),
	    cmocka_unit_test(an_unknown_kernel_is_named),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
