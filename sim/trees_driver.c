/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user-space half of a driver installation below the root, as Debian or as Red Hat lay it out:
 * libraries (real ELF files with a SONAME and nothing in them), their links, /etc/ld.so.cache,
 * programs and firmware. What makes container specifications needs no more than that. The cache is
 * in glibc's format 1.1 (elf/cache.c of glibc; readable with `ldconfig -p -C FILE`).
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/processor.h"
#include "sim/trees_plan.h"

struct library {
	const char *name;   /* "libcuda" */
	const char *soname; /* of the link: "libcuda.so.1"; NULL: none, the versioned name itself */
	bool development;   /* has an unversioned link too */
};

static const struct library library[] = {
    {"libcuda", "libcuda.so.1", true},
    {"libcudadebugger", "libcudadebugger.so.1", false},
    {"libnvidia-ml", "libnvidia-ml.so.1", true},
    {"libnvidia-ptxjitcompiler", "libnvidia-ptxjitcompiler.so.1", false},
    {"libnvidia-nvvm", "libnvidia-nvvm.so.4", false},
    {"libnvidia-gpucomp", NULL, false},
    {"libnvidia-opencl", "libnvidia-opencl.so.1", false},
    {"libnvidia-allocator", "libnvidia-allocator.so.1", false},
    {"libnvidia-cfg", "libnvidia-cfg.so.1", false},
    {"libnvidia-encode", "libnvidia-encode.so.1", false},
    {"libnvidia-opticalflow", "libnvidia-opticalflow.so.1", false},
    {"libnvidia-fbc", "libnvidia-fbc.so.1", false},
    {"libnvidia-ngx", "libnvidia-ngx.so.1", false},
    {"libnvidia-rtcore", NULL, false},
    {"libnvidia-glcore", NULL, false},
    {"libnvidia-eglcore", NULL, false},
    {"libnvidia-glsi", NULL, false},
    {"libnvidia-tls", NULL, false},
    {"libnvcuvid", "libnvcuvid.so.1", false},
    {"libnvoptix", "libnvoptix.so.1", false},
    {"libGLX_nvidia", "libGLX_nvidia.so.0", false},
    {"libEGL_nvidia", "libEGL_nvidia.so.0", false},
    {"libGLESv2_nvidia", "libGLESv2_nvidia.so.2", false},
};

enum driver_tree_limits {
	LIBRARY_COUNT = sizeof(library) / sizeof(*library),
	CACHE_ENTRY_MAX = LIBRARY_COUNT * 2,
};

/* Everything that a loader and a reader of SONAMEs look at. Offsets equal addresses. */
struct elf_image {
	Elf64_Ehdr header;
	Elf64_Phdr program[3];
	uint32_t hash[4]; /* one bucket, one chain, both empty */
	Elf64_Sym symbol;
	Elf64_Dyn dynamic[7];
	char string[128]; /* "" and the SONAME */
	char section_name[48];
	Elf64_Shdr section[6];
};

static const char section_names[] = "\0.hash\0.dynsym\0.dynstr\0.dynamic\0.shstrtab";

static void elf_section(struct elf_image *image, uint32_t index, uint32_t name, uint32_t type,
			size_t offset, size_t size, uint32_t link, size_t entry_size)
{
	image->section[index] = (Elf64_Shdr){
	    .sh_name = name,
	    .sh_type = type,
	    .sh_flags = type == SHT_STRTAB && index == 5 ? 0 : SHF_ALLOC,
	    .sh_addr = type == SHT_STRTAB && index == 5 ? 0 : offset,
	    .sh_offset = offset,
	    .sh_size = size,
	    .sh_link = link,
	    .sh_addralign = 1,
	    .sh_entsize = entry_size,
	};
}

static void elf_headers(struct elf_image *image)
{
	image->header = (Elf64_Ehdr){
	    .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
	    .e_type = ET_DYN,
	    .e_machine = PROCESSOR_ELF,
	    .e_version = EV_CURRENT,
	    .e_phoff = offsetof(struct elf_image, program),
	    .e_shoff = offsetof(struct elf_image, section),
	    .e_ehsize = sizeof(Elf64_Ehdr),
	    .e_phentsize = sizeof(Elf64_Phdr),
	    .e_phnum = 3,
	    .e_shentsize = sizeof(Elf64_Shdr),
	    .e_shnum = 6,
	    .e_shstrndx = 5,
	};

	/* writable: the loader relocates the dynamic section in place */
	image->program[0] = (Elf64_Phdr){
	    .p_type = PT_LOAD,
	    .p_flags = PF_R | PF_W,
	    .p_filesz = sizeof(*image),
	    .p_memsz = sizeof(*image),
	    .p_align = 65536, /* the largest page of a processor that this is for */
	};
	image->program[1] = (Elf64_Phdr){
	    .p_type = PT_DYNAMIC,
	    .p_flags = PF_R | PF_W,
	    .p_offset = offsetof(struct elf_image, dynamic),
	    .p_vaddr = offsetof(struct elf_image, dynamic),
	    .p_paddr = offsetof(struct elf_image, dynamic),
	    .p_filesz = sizeof(image->dynamic),
	    .p_memsz = sizeof(image->dynamic),
	    .p_align = 8,
	};
	image->program[2] =
	    (Elf64_Phdr){.p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W, .p_align = 16};
}

static void elf_make(struct elf_image *image, const char *soname)
{
	memset(image, 0, sizeof(*image));
	elf_headers(image);
	image->hash[0] = 1;
	image->hash[1] = 1;

	int length = snprintf(image->string + 1, sizeof(image->string) - 1, "%s", soname);
	size_t string_size = (size_t)length + 2;

	memcpy(image->section_name, section_names, sizeof(section_names));
	const Elf64_Dyn dynamic[] = {
	    {DT_SONAME, {1}},
	    {DT_HASH, {offsetof(struct elf_image, hash)}},
	    {DT_STRTAB, {offsetof(struct elf_image, string)}},
	    {DT_SYMTAB, {offsetof(struct elf_image, symbol)}},
	    {DT_STRSZ, {string_size}},
	    {DT_SYMENT, {sizeof(Elf64_Sym)}},
	    {DT_NULL, {0}},
	};
	memcpy(image->dynamic, dynamic, sizeof(dynamic));
	elf_section(image, 1, 1, SHT_HASH, offsetof(struct elf_image, hash), sizeof(image->hash), 2,
		    4);
	elf_section(image, 2, 7, SHT_DYNSYM, offsetof(struct elf_image, symbol),
		    sizeof(image->symbol), 3, sizeof(Elf64_Sym));
	image->section[2].sh_info = 1;
	elf_section(image, 3, 15, SHT_STRTAB, offsetof(struct elf_image, string), string_size, 0,
		    0);
	elf_section(image, 4, 23, SHT_DYNAMIC, offsetof(struct elf_image, dynamic),
		    sizeof(image->dynamic), 3, sizeof(Elf64_Dyn));
	elf_section(image, 5, 32, SHT_STRTAB, offsetof(struct elf_image, section_name),
		    sizeof(section_names), 0, 0);
}

struct cache_name {
	char text[SIM_TEXT_MAX];
};

/* glibc searches the cache by names in which runs of digits count as numbers, greatest first. */
static int cache_compare(const void *a, const void *b)
{
	const char *left = ((const struct cache_name *)b)->text;
	const char *right = ((const struct cache_name *)a)->text;

	for (;; left++, right++) {
		bool left_digit = *left >= '0' && *left <= '9';
		bool right_digit = *right >= '0' && *right <= '9';

		if (left_digit && right_digit) {
			uint64_t values[2] = {0, 0};
			for (; *left >= '0' && *left <= '9'; left++)
				values[0] = values[0] * 10 + (uint64_t)(*left - '0');

			for (; *right >= '0' && *right <= '9'; right++)
				values[1] = values[1] * 10 + (uint64_t)(*right - '0');

			if (values[0] != values[1])
				return values[0] < values[1] ? -1 : 1;
		} else if (left_digit != right_digit) {
			return left_digit ? 1 : -1;
		}

		if (*left != *right)
			return (unsigned char)*left - (unsigned char)*right;
		if (*left == '\0')
			return 0;
	}
}

static void cache_u32(struct sim_plan *plan, uint32_t value)
{
	const uint8_t bytes[4] = {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16),
				  (uint8_t)(value >> 24)};
	sim_plan_bytes(plan, bytes, sizeof(bytes));
}

static void driver_cache(struct sim_plan *plan, const char *directory, struct cache_name *name,
			 uint32_t count)
{
	enum { HEADER = 48, ENTRY = 24 };
	char string[CACHE_ENTRY_MAX * 2 * (SIM_TEXT_MAX + 32)];
	uint32_t key[CACHE_ENTRY_MAX], value[CACHE_ENTRY_MAX], length = 0;

	qsort(name, count, sizeof(*name), cache_compare);

	for (uint32_t i = 0; i < count; i++) {
		key[i] = HEADER + count * ENTRY + length;
		length += (uint32_t)snprintf(string + length, sizeof(string) - length, "%s",
					     name[i].text) +
			  1;
		value[i] = HEADER + count * ENTRY + length;
		length += (uint32_t)snprintf(string + length, sizeof(string) - length, "/%s/%s",
					     directory, name[i].text) +
			  1;
	}

	sim_plan_file(plan, 0644, "etc/ld.so.cache");
	sim_plan_bytes(plan, "glibc-ld.so.cache1.1", 20);
	cache_u32(plan, count);
	cache_u32(plan, length);
	cache_u32(plan, 2); /* little-endian */

	for (uint32_t i = 0; i < 4; i++)
		cache_u32(plan, 0); /* no extensions */

	for (uint32_t i = 0; i < count; i++) {
		cache_u32(plan, PROCESSOR_CACHE_FLAG);
		cache_u32(plan, key[i]);
		cache_u32(plan, value[i]);
		cache_u32(plan, 0); /* any version of the kernel, no hwcaps */
		cache_u32(plan, 0);
		cache_u32(plan, 0);
	}

	sim_plan_bytes(plan, string, length);
}

static void driver_libraries(struct sim_plan *plan, const struct sim_machine *machine)
{
	const char *directory =
	    machine->layout == SIM_LAYOUT_RHEL ? "usr/lib64" : "usr/lib/" PROCESSOR_TRIPLET;
	struct cache_name name[CACHE_ENTRY_MAX];
	struct elf_image image;
	uint32_t names = 0;

	for (uint32_t i = 0; i < LIBRARY_COUNT; i++) {
		char file[SIM_TEXT_MAX];
		(void)snprintf(file, sizeof(file), "%s.so.%s", library[i].name,
			       machine->driver_version);

		const char *soname = library[i].soname ? library[i].soname : file;
		elf_make(&image, soname);
		sim_plan_file(plan, 0755, "%s/%s", directory, file);
		sim_plan_bytes(plan, &image, sizeof(image));
		(void)snprintf(name[names++].text, SIM_TEXT_MAX, "%s", soname);

		if (library[i].soname)
			sim_plan_link(plan, file, "%s/%s", directory, soname);
		if (!library[i].development)
			continue;

		sim_plan_link(plan, soname, "%s/%s.so", directory, library[i].name);
		(void)snprintf(name[names++].text, SIM_TEXT_MAX, "%s.so", library[i].name);
	}

	elf_make(&image, "libvdpau_nvidia.so.1");
	sim_plan_file(plan, 0755, "%s/vdpau/libvdpau_nvidia.so.%s", directory,
		      machine->driver_version);
	sim_plan_bytes(plan, &image, sizeof(image));

	char target[SIM_TEXT_MAX];
	(void)snprintf(target, sizeof(target), "libvdpau_nvidia.so.%s", machine->driver_version);
	sim_plan_link(plan, target, "%s/vdpau/libvdpau_nvidia.so.1", directory);
	driver_cache(plan, directory, name, names);
}

void sim_trees_plan_driver(struct sim_plan *plan, const struct sim_machine *machine)
{
	static const char *const program[] = {
	    "nvidia-smi",
	    "nvidia-debugdump",
	    "nvidia-persistenced",
	    "nvidia-cuda-mps-control",
	    "nvidia-cuda-mps-server",
	    "nvidia-modprobe",
	};
	static const char *const firmware[] = {"gsp_ga10x.bin", "gsp_tu10x.bin"};

	/* what NVIDIA's installer and the distributions' packages leave */
	sim_plan_file(plan, 0644, "etc/modprobe.d/nvidia-installer-disable-nouveau.conf");
	sim_plan_text(plan, "# generated by nvidia-installer (simulated)\n"
			    "blacklist nouveau\noptions nouveau modeset=0\n");
	if (!sim_driver_is_loaded(machine))
		return;

	driver_libraries(plan, machine);

	for (size_t i = 0; i < sizeof(program) / sizeof(*program); i++) {
		sim_plan_file(plan, 0755, "usr/bin/%s", program[i]);
		sim_plan_text(
		    plan,
		    "#!/bin/sh\n"
		    "echo \"%s: simulated driver, nothing to run; try: sluice devices\" >&2\n"
		    "exit 1\n",
		    program[i]);
	}

	for (size_t i = 0; i < sizeof(firmware) / sizeof(*firmware); i++) {
		sim_plan_file(plan, 0644, "lib/firmware/nvidia/%s/%s", machine->driver_version,
			      firmware[i]);
		sim_plan_text(plan, "simulated firmware %s %s\n", firmware[i],
			      machine->driver_version);
	}
}
