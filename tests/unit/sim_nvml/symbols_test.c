/* SPDX-License-Identifier: Apache-2.0 */
/* Each age exports exactly its list: a missing symbol kills a Go program, one too many makes a
 * newer library of it. And every symbol stands being called, whatever it is given. */
#include "nvml.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const int ages[] = {470, 535, 580, 590};

static bool in_age(const struct nvml_row *row, int age)
{
	return row->since <= age && age <= row->until;
}

static bool is_listed(const char *name, int age)
{
	for (const struct nvml_row *row = nvml_table; row->name; row++) {
		if (strcmp(row->name, name) == 0)
			return in_age(row, age);
	}
	return false;
}

/* Counts the defined functions of the file's dynamic table; each must be on the list. */
static unsigned check_exports(const char *path, int age)
{
	struct stat status;
	unsigned count = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &status), 0);
	const char *file = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_true(file != MAP_FAILED);
	close(fd);
	const Elf64_Ehdr *head = (const Elf64_Ehdr *)file;
	const Elf64_Shdr *section = (const Elf64_Shdr *)(file + head->e_shoff);
	for (unsigned i = 0; i < head->e_shnum; i++) {
		if (section[i].sh_type != SHT_DYNSYM)
			continue;
		const Elf64_Sym *symbol = (const Elf64_Sym *)(file + section[i].sh_offset);
		const char *names = file + section[section[i].sh_link].sh_offset;
		for (uint64_t n = 0; n < section[i].sh_size / sizeof(*symbol); n++) {
			if (symbol[n].st_shndx == SHN_UNDEF)
				continue;
			const char *name = names + symbol[n].st_name;
			if (!is_listed(name, age))
				fail_msg("%s exports '%s', which is not on the list", path, name);
			count++;
		}
	}
	munmap((void *)file, (size_t)status.st_size);
	return count;
}

static void test_exports_are_exactly_the_list(void **unused)
{
	(void)unused;
	for (size_t i = 0; i < sizeof(ages) / sizeof(ages[0]); i++) {
		unsigned listed = 0;
		void *library = dlopen(rig_library(ages[i]), RTLD_NOW | RTLD_LOCAL);
		if (!library)
			fail_msg("%s", dlerror());
		for (const struct nvml_row *row = nvml_table; row->name; row++) {
			void *symbol = dlsym(library, row->name);
			listed += in_age(row, ages[i]);
			if (in_age(row, ages[i]) != (symbol != NULL))
				fail_msg("%d: '%s' is %s", ages[i], row->name,
					 symbol ? "too many" : "missing");
		}
		assert_int_equal(check_exports(rig_library(ages[i]), ages[i]), listed);
		print_message("%d: %u symbols\n", ages[i], listed);
		dlclose(library);
	}
}

/* As go-nvml binds: the newest version that the library has, then older ones, then the plain. */
static void test_walker_finds_each_base_name(void **unused)
{
	static const char *const base[] = {
	    "nvmlInit",
	    "nvmlDeviceGetCount",
	    "nvmlDeviceGetHandleByIndex",
	    "nvmlDeviceGetHandleByPciBusId",
	    "nvmlDeviceGetPciInfo",
	    "nvmlDeviceGetComputeRunningProcesses",
	    "nvmlDeviceGetGraphicsRunningProcesses",
	    "nvmlDeviceGetMPSComputeRunningProcesses",
	    "nvmlEventSetWait",
	    "nvmlDeviceGetAttributes",
	    "nvmlComputeInstanceGetInfo",
	    "nvmlDeviceGetGpuInstancePossiblePlacements",
	    "nvmlDeviceGetNvLinkRemotePciInfo",
	};
	(void)unused;
	for (size_t i = 0; i < sizeof(ages) / sizeof(ages[0]); i++) {
		void *library = dlopen(rig_library(ages[i]), RTLD_NOW | RTLD_LOCAL);
		assert_non_null(library);
		for (size_t n = 0; n < sizeof(base) / sizeof(base[0]); n++) {
			char name[128];
			unsigned version = 3;
			snprintf(name, sizeof(name), "%s_v3", base[n]);
			while (!dlsym(library, name) && version-- > 1)
				snprintf(name, sizeof(name), version > 1 ? "%s_v%u" : "%s", base[n],
					 version);
			assert_non_null(dlsym(library, name));
			assert_non_null(dlsym(library, base[n]));
		}
		dlclose(library);
	}
}

/* Words for a signature. `good` gives handles and buffers that exist, else they are hostile. */
static unsigned call_with(const struct rig *rig, const struct nvml_row *row, void *device,
			  uintptr_t handle, uintptr_t pointer, uintptr_t number)
{
	uintptr_t word[6] = {0};
	for (size_t i = 0; row->signature[i] && i < 6; i++) {
		switch (row->signature[i]) {
		case 'd':
			word[i] = device ? WORD(device) : handle;
			break;
		case 'g':
		case 'c':
		case 'h':
			word[i] = handle;
			break;
		case 's':
		case 'p':
		case 'q':
			word[i] = pointer;
			break;
		default:
			word[i] = number;
		}
	}
	return rig_call(rig, row->name, word[0], word[1], word[2], word[3], word[4], word[5]);
}

static bool is_early(const struct nvml_row *row)
{
	return strcmp(row->kind, "own") == 0;
}

static bool is_code(unsigned code)
{
	return code <= 30 || code == 999;
}

static void check_uninitialised(const struct rig *rig)
{
	for (const struct nvml_row *row = nvml_table; row->name; row++) {
		if (is_early(row) || !in_age(row, 590))
			continue;
		unsigned code = call_with(rig, row, NULL, 0, 0, 0);
		if (code != NVML_UNINITIALIZED)
			fail_msg("%s before Init or after Shutdown: %u", row->name, code);
	}
}

/* A buffer that any function may fill: the version word in front is wrong for all of them. */
static uint64_t scratch[64 * 1024 / 8];

static void check_hostile(const struct rig *rig, const struct nvml_row *row, void *device)
{
	static const uintptr_t handles[] = {0, 1, 0x7fff00000000, UINTPTR_MAX, UINTPTR_MAX - 4095};
	bool has_handle = strpbrk(row->signature, "dgch") != NULL;
	bool is_stub = strcmp(row->kind, "stub") == 0;

	for (size_t i = 0; i < sizeof(handles) / sizeof(handles[0]); i++) {
		/* the handle is judged before anything behind a pointer is looked at */
		memset(scratch, 0, sizeof(scratch));
		unsigned code = call_with(rig, row, NULL, handles[i], WORD(scratch), 0);
		if (!is_code(code))
			fail_msg("%s: no return code: %u", row->name, code);
		if (has_handle && !is_stub && code == NVML_OK)
			fail_msg("%s took the handle %#lx", row->name, (unsigned long)handles[i]);
		if (is_stub && code != NVML_NOT_SUPPORTED)
			fail_msg("%s is a stub and answers %u", row->name, code);
	}
	/* a good device and no room for the answer */
	unsigned code = call_with(rig, row, device, 0, 0, 0);
	if (strchr(row->signature, 'p') && !is_stub && code != NVML_INVALID_ARGUMENT &&
	    code != NVML_NOT_SUPPORTED)
		fail_msg("%s with NULL answers %u", row->name, code);
	/* a good device, zeroed buffers, and then large numbers */
	memset(scratch, 0, sizeof(scratch));
	if (!is_code(call_with(rig, row, device, 0, WORD(scratch), 0)))
		fail_msg("%s: no return code", row->name);
	memset(scratch, 0, sizeof(scratch));
	if (strcmp(row->name, "nvmlDeviceGetFieldValues") != 0 && strpbrk(row->signature, "i") &&
	    !is_code(call_with(rig, row, device, 0, WORD(scratch), 0xffffffff)))
		fail_msg("%s: no return code", row->name);
}

/* Numbers that say how large a buffer is may not be larger than ours. */
static bool is_sized(const struct nvml_row *row)
{
	return strstr(row->name, "Affinity") || strstr(row->name, "SupportedPerformanceStates") ||
	       strstr(row->name, "FieldValues") || strstr(row->name, "EventSetWait");
}

static void test_every_symbol_survives(void **unused)
{
	static const char *const profiles[] = {"dgx-a100", "hgx-h100", "workstation", "dgx1"};
	(void)unused;
	for (size_t i = 0; i < sizeof(profiles) / sizeof(profiles[0]); i++) {
		struct rig rig;
		rig_open(&rig, profiles[i], i == 0 ? "mixed" : "", 590);
		check_uninitialised(&rig);
		for (const struct nvml_row *row = nvml_table; row->name; row++) {
			if (is_early(row) || !in_age(row, 590) || is_sized(row))
				continue;
			/* each gets a fresh session: some of them end it or change the machine */
			assert_int_equal(CALL0(&rig, "nvmlInit_v2"), NVML_OK);
			check_hostile(&rig, row, rig_gpu(&rig, 0));
			assert_int_equal(CALL0(&rig, "nvmlShutdown"), NVML_OK);
		}
		check_uninitialised(&rig);
		rig_close(&rig);
	}
}

static void test_early_functions(void **unused)
{
	struct rig rig;
	char text[80];
	int cuda = 0;
	(void)unused;
	rig_open(&rig, "dgx-a100", "", 580);
	assert_int_equal(CALL2(&rig, "nvmlSystemGetNVMLVersion", text, sizeof(text)), NVML_OK);
	assert_string_equal(text, "13.580.105.08");
	assert_int_equal(CALL2(&rig, "nvmlSystemGetNVMLVersion", text, 5), NVML_INSUFFICIENT_SIZE);
	assert_int_equal(CALL1(&rig, "nvmlSystemGetCudaDriverVersion", &cuda), NVML_OK);
	assert_int_equal(cuda, 13000);
	assert_int_equal(CALL1(&rig, "nvmlSystemGetCudaDriverVersion_v2", 0),
			 NVML_INVALID_ARGUMENT);
	assert_int_equal(CALL2(&rig, "nvmlSystemGetDriverVersion", text, sizeof(text)),
			 NVML_UNINITIALIZED);
	assert_int_equal(CALL0(&rig, "nvmlShutdown"), NVML_UNINITIALIZED);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_exports_are_exactly_the_list),
	    cmocka_unit_test(test_walker_finds_each_base_name),
	    cmocka_unit_test(test_every_symbol_survives),
	    cmocka_unit_test(test_early_functions),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
