/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/modinfo.h"

#include <elf.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

#define TEXTS                                                                                      \
	"version=580.105.08\0license=Dual MIT/GPL\0srcversion=ABC\0"                               \
	"vermagic=6.1.0-18-amd64 SMP preempt mod_unload modversions \0\0name=nvidia\0"

/* A module with three sections: none, .modinfo, the names of sections. */
struct rig_module {
	Elf64_Ehdr header;
	Elf64_Shdr section[3];
	char names[32];
	char texts[sizeof(TEXTS)];
};

static void rig_module(struct rig_module *out)
{
	*out = (struct rig_module){
	    .header = {.e_type = ET_REL,
		       .e_shoff = offsetof(struct rig_module, section),
		       .e_shentsize = sizeof(Elf64_Shdr),
		       .e_shnum = 3,
		       .e_shstrndx = 2},
	    .section = {{.sh_type = SHT_NULL},
			{.sh_name = 1,
			 .sh_type = SHT_PROGBITS,
			 .sh_offset = offsetof(struct rig_module, texts),
			 .sh_size = sizeof(TEXTS)},
			{.sh_type = SHT_STRTAB,
			 .sh_offset = offsetof(struct rig_module, names),
			 .sh_size = 32}},
	    .names = "\0.modinfo",
	    .texts = TEXTS,
	};
	memcpy(out->header.e_ident, ELFMAG, SELFMAG);
	out->header.e_ident[EI_CLASS] = ELFCLASS64;
	out->header.e_ident[EI_DATA] = BYTE_ORDER == LITTLE_ENDIAN ? ELFDATA2LSB : ELFDATA2MSB;
}

static void test_a_module(void **state)
{
	struct rig_module module;
	struct modinfo info;
	struct err err = {0};
	rig_module(&module);
	assert_int_equal(modinfo_parse(&module, sizeof(module), &info, &err), 0);
	assert_string_equal(info.vermagic, "6.1.0-18-amd64 SMP preempt mod_unload modversions ");
	assert_string_equal(info.version, "580.105.08");
	assert_string_equal(info.license, "Dual MIT/GPL");
}

static void test_a_file(void **state)
{
	struct rig_module module;
	struct modinfo info;
	struct err err = {0};
	rig_module(&module);
	const char *path = unit_path(unit_top, "nvidia.ko");
	_cleanup_close_ int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, &module, sizeof(module)), sizeof(module));
	assert_int_equal(modinfo_read(fd, path, &info, &err), 0);
	assert_string_equal(info.version, "580.105.08");
	assert_int_equal(ftruncate(fd, sizeof(module) - 20), 0);
	assert_int_equal(modinfo_read(fd, path, &info, &err), -EINVAL);
	assert_non_null(strstr(err.text, "nvidia.ko': its section .modinfo lies behind its end"));
}

static int rig_change(void (*change)(struct rig_module *module), struct err *err)
{
	struct rig_module module;
	struct modinfo info;
	rig_module(&module);
	change(&module);
	*err = (struct err){.code = 0};
	return modinfo_parse(&module, sizeof(module), &info, err);
}

static void rig_class(struct rig_module *module)
{
	module->header.e_ident[EI_CLASS] = ELFCLASS32;
}
static void rig_index(struct rig_module *module)
{
	module->header.e_shstrndx = 3;
}
static void rig_entry(struct rig_module *module)
{
	module->header.e_shentsize = 1;
}
static void rig_offset(struct rig_module *module)
{
	module->header.e_shoff = UINT64_MAX - 8;
}
static void rig_names(struct rig_module *module)
{
	module->section[2].sh_offset = UINT64_MAX;
}
static void rig_other(struct rig_module *module)
{
	module->names[2] = 'M';
}
static void rig_size(struct rig_module *module)
{
	module->section[1].sh_size = UINT64_MAX;
}
static void rig_beyond(struct rig_module *module)
{
	module->section[1].sh_offset = UINT64_MAX - 1;
}

static void test_what_is_damaged(void **state)
{
	static void (*const changes[])(struct rig_module *) = {
	    rig_class, rig_index, rig_entry, rig_offset, rig_names, rig_other, rig_size, rig_beyond,
	};
	struct err err;
	for (size_t i = 0; i < sizeof(changes) / sizeof(*changes); i++) {
		assert_int_equal(rig_change(changes[i], &err), -EINVAL);
		assert_true(*err.text);
	}
	struct modinfo info = {.version = "kept"};
	struct rig_module module;
	rig_module(&module);
	for (size_t length = 0; length < offsetof(struct rig_module, texts) + sizeof(TEXTS);
	     length++)
		assert_int_equal(modinfo_parse(&module, length, &info, &err), -EINVAL);
	assert_string_equal(info.version, "kept");
	assert_int_equal(modinfo_parse("\x28\xb5\x2f\xfd\0\0\0", 7, &info, &err), -ENOTSUP);
	assert_int_equal(modinfo_parse("\x1f\x8b\0\0\0\0\0", 7, &info, &err), -ENOTSUP);
}

static void test_texts_that_are_none(void **state)
{
	struct rig_module module;
	struct modinfo info;
	rig_module(&module);
	memset(module.texts, 'x', sizeof(module.texts));
	memcpy(module.texts, "version=\033[31m", 14);
	assert_int_equal(modinfo_parse(&module, sizeof(module), &info, NULL), 0);
	assert_string_equal(info.version, "");
	assert_string_equal(info.vermagic, "");
}

static void test_a_large_section(void **state)
{
	size_t size = sizeof(struct rig_module) + MODINFO_SIZE_MAX + 1;
	struct rig_module *module = calloc(1, size);
	struct modinfo info;
	assert_non_null(module);
	rig_module(module);
	module->section[1].sh_size = MODINFO_SIZE_MAX;
	assert_int_equal(modinfo_parse(module, size, &info, NULL), 0);
	module->section[1].sh_size = MODINFO_SIZE_MAX + 1;
	assert_int_equal(modinfo_parse(module, size, &info, NULL), -EINVAL);
	free(module);
}

static int rig_scenario(void *context)
{
	struct modinfo info;
	struct err err = {0};
	return modinfo_parse(context, sizeof(struct rig_module), &info, &err);
}

static void test_no_memory(void **state)
{
	struct rig_module module;
	rig_module(&module);
	assert_true(failmalloc_each(rig_scenario, &module) > 0);
	if (getenv("MODINFO_SEED")) { /* writes the seed of the fuzz target */
		FILE *file = fopen(getenv("MODINFO_SEED"), "we");
		assert_non_null(file);
		assert_int_equal(fwrite(&module, sizeof(module), 1, file), 1);
		assert_int_equal(fclose(file), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_a_module),
	    cmocka_unit_test_setup_teardown(test_a_file, unit_top_setup, unit_top_teardown),
	    cmocka_unit_test(test_what_is_damaged),
	    cmocka_unit_test(test_texts_that_are_none),
	    cmocka_unit_test(test_a_large_section),
	    cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
