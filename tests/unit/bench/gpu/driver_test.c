/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/gpu/driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "unit/unit.h"

/* Two GPUs whose UUIDs begin alike. */
static int two_count(int *count)
{
	*count = 2;
	return CUDA_OK;
}

static int two_get(int *device, int ordinal)
{
	*device = ordinal;
	return CUDA_OK;
}

static int two_name(char *name, int length, int device)
{
	(void)snprintf(name, (size_t)length, "GPU number %d", device);
	return CUDA_OK;
}

static int two_uuid(struct cuda_uuid *uuid, int device)
{
	memset(uuid, 0xab, sizeof(*uuid));
	uuid->bytes[15] = (unsigned char)device;
	return CUDA_OK;
}

static int two_bus(char *id, int length, int device)
{
	(void)snprintf(id, (size_t)length, "0000:0%d:00.0", device);
	return CUDA_OK;
}

static int two_attribute(int *value, int attribute, int device)
{
	(void)device;
	*value = attribute;
	return CUDA_OK;
}

static int two_memory(size_t *bytes, int device)
{
	(void)device;
	*bytes = 1 << 20;
	return CUDA_OK;
}

static int no_count(int *count)
{
	*count = 0;
	return CUDA_OK;
}

static int memory_name(int error, const char **name)
{
	*name = error == CUDA_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : NULL;
	return CUDA_OK;
}

static int memory_text(int error, const char **text)
{
	*text = error == CUDA_OUT_OF_MEMORY ? "out of memory" : NULL;
	return CUDA_OK;
}

static struct driver two_gpus(void)
{
	return (struct driver){.path = "libtwo.so",
			       .call = {.cuDeviceGetCount = two_count,
					.cuDeviceGet = two_get,
					.cuDeviceGetName = two_name,
					.cuDeviceGetUuid = two_uuid,
					.cuDeviceGetPCIBusId = two_bus,
					.cuDeviceGetAttribute = two_attribute,
					.cuDeviceTotalMem = two_memory,
					.cuGetErrorName = memory_name,
					.cuGetErrorString = memory_text}};
}

static void a_gpu_is_found_by_number_and_by_uuid(void **state)
{
	struct driver driver = two_gpus();
	struct driver_device device;
	assert_int_equal(driver_find_device(&driver, "1", &device, NULL), 0);
	assert_int_equal(device.ordinal, 1);
	assert_string_equal(device.uuid, "GPU-abababab-abab-abab-abab-ababababab01");
	assert_string_equal(device.name, "GPU number 1");
	assert_int_equal(device.cc_major, CUDA_ATTRIBUTE_CC_MAJOR);
	assert_int_equal(device.sm_count, CUDA_ATTRIBUTE_SM_COUNT);
	assert_int_equal(
	    driver_find_device(&driver, "GPU-abababab-abab-abab-abab-ababababab00", &device, NULL),
	    0);
	assert_int_equal(device.ordinal, 0);
	assert_int_equal(
	    driver_find_device(&driver, "ABABABAB-abab-abab-abab-ababababab01", &device, NULL), 0);
	assert_int_equal(device.ordinal, 1);
}

static int mig_name(char *name, int length, int device)
{
	(void)device;
	(void)snprintf(name, (size_t)length, "NVIDIA A100-SXM4-40GB MIG 1g.5gb");
	return CUDA_OK;
}

static void a_mig_device_has_its_own_uuid(void **state)
{
	struct driver driver = two_gpus();
	struct driver_device device;
	driver.call.cuDeviceGetName = mig_name;
	assert_int_equal(
	    driver_find_device(&driver, "MIG-abababab-abab-abab-abab-ababababab01", &device, NULL),
	    0);
	assert_string_equal(device.uuid, "MIG-abababab-abab-abab-abab-ababababab01");
	assert_int_equal(
	    driver_find_device(&driver, "GPU-abababab-abab-abab-abab-ababababab01", &device, NULL),
	    -ENODEV);
}

/* Threads of a real driver run on. */
static void a_real_driver_stays_loaded(void **state)
{
	static const char library[] = "libutil.so.1";
	for (int real = 0; real < 2; real++) {
		struct driver driver = {.library = dlopen(library, RTLD_NOW),
					.is_simulated = real == 0,
					.is_initialised = true};
		if (!driver.library)
			skip();
		driver_close(&driver);
		void *still = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
		assert_int_equal(still != NULL, real);
	}
}

static void what_is_not_there_or_not_one_is_refused(void **state)
{
	struct driver driver = two_gpus();
	struct driver_device device;
	struct err err = {0};
	assert_int_equal(driver_find_device(&driver, "2", &device, &err), -ENODEV);
	assert_non_null(strstr(err.text, "1 GPU-abababab-abab-abab-abab-ababababab01"));
	assert_int_equal(driver_find_device(&driver, "GPU-abab", &device, &err), -ENODEV);
	assert_non_null(strstr(err.text, "more than one"));
	assert_int_equal(driver_find_device(&driver, "aba", &device, &err), -ENODEV);
	assert_non_null(strstr(err.text, "no GPU 'aba'"));
	assert_int_equal(driver_find_device(&driver, "", &device, &err), -ENODEV);
	driver.call.cuDeviceGetCount = no_count;
	assert_int_equal(driver_find_device(&driver, "0", &device, &err), -ENODEV);
	assert_non_null(strstr(err.text, "CUDA_VISIBLE_DEVICES"));
}

static void an_error_has_name_number_words_and_hint(void **state)
{
	struct driver driver = two_gpus();
	struct err err = {0};
	assert_int_equal(
	    driver_fail(&driver, CUDA_OUT_OF_MEMORY, &err, "cuMemAlloc of %d bytes", 7), -ENOMEM);
	assert_non_null(strstr(
	    err.text, "cuMemAlloc of 7 bytes: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory; "));
	assert_int_equal(driver_fail(&driver, 719, &err, "waiting"), -EIO);
	assert_string_equal(err.text, "waiting: CUDA error (719)");
}

static void what_users_met_has_a_hint(void **state)
{
	static const struct {
		int result;
		const char *word;
	} rows[] = {{802, "nvidia-fabricmanager"}, {100, "CUDA_VISIBLE_DEVICES"},
		    {3, "RmInitAdapter"},	   {803, "kernel module"},
		    {804, "forward-compat"},	   {46, "exclusive"}};
	struct driver driver = two_gpus();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_non_null(strstr(driver_hint(rows[i].result), rows[i].word));
		assert_int_equal(driver_fail(&driver, rows[i].result, NULL, "x"), -ENODEV);
	}
	assert_null(driver_hint(0));
}

static void without_a_library_the_path_is_named(void **state)
{
	struct driver driver = {0};
	struct err err = {0};
	assert_int_equal(driver_open("/nowhere/libcuda.so.1", DRIVER_BY_DLSYM, &driver, &err),
			 -ENOENT);
	assert_non_null(strstr(err.text, "'/nowhere/libcuda.so.1'"));
	/* A library that is no driver. */
	assert_int_equal(driver_open("libc.so.6", DRIVER_BY_DLSYM, &driver, &err), -ENOSYS);
	assert_non_null(strstr(err.text, "cuInit"));
	assert_int_equal(driver_open("libc.so.6", DRIVER_BY_GETPROCADDRESS, &driver, &err),
			 -ENOSYS);
	assert_non_null(strstr(err.text, "--resolve=dlsym"));
	assert_null(driver.library);
	driver_close(&driver);
	driver_close(NULL);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_gpu_is_found_by_number_and_by_uuid),
	    cmocka_unit_test(a_mig_device_has_its_own_uuid),
	    cmocka_unit_test(a_real_driver_stays_loaded),
	    cmocka_unit_test(what_is_not_there_or_not_one_is_refused),
	    cmocka_unit_test(an_error_has_name_number_words_and_hint),
	    cmocka_unit_test(what_users_met_has_a_hint),
	    cmocka_unit_test(without_a_library_the_path_is_named),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
