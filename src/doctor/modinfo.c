/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/modinfo.h"

#include <elf.h>
#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"

enum { MODINFO_MAGIC = 6 };

/* Bytes of a file, or of memory. */
struct modinfo_source {
	int fd; /* -1: memory */
	const unsigned char *bytes;
	size_t length;
};

/* All of it or nothing: 0, -EINVAL (behind the end), what pread(2) gives. */
static int modinfo_at(const struct modinfo_source *source, uint64_t offset, void *out, size_t size)
{
	if (offset > INT64_MAX)
		return -EINVAL;

	if (source->fd < 0) {
		if (offset > source->length || size > source->length - offset)
			return -EINVAL;
		memcpy(out, source->bytes + offset, size);
		return 0;
	}

	ssize_t count = pread(source->fd, out, size, (off_t)offset);
	if (count < 0)
		return -errno;

	return (size_t)count == size ? 0 : -EINVAL;
}

static int modinfo_header(const struct modinfo_source *source, Elf64_Ehdr *out, struct err *err)
{
	static const struct {
		const char *bytes;
		size_t length;
	} packed[] = {{"\xfd"
		       "7zXZ",
		       6},
		      {"\x28\xb5\x2f\xfd", 4},
		      {"\x1f\x8b", 2}};
	unsigned char magic[MODINFO_MAGIC];
	int rc = modinfo_at(source, 0, magic, sizeof(magic));
	if (rc < 0)
		return err_set(err, rc, "it is too short for a kernel module");

	for (size_t i = 0; i < sizeof(packed) / sizeof(*packed); i++)
		if (memcmp(magic, packed[i].bytes, packed[i].length) == 0)
			return err_set(err, -ENOTSUP, "it is compressed");

	rc = modinfo_at(source, 0, out, sizeof(*out));
	if (rc < 0 || memcmp(out->e_ident, ELFMAG, SELFMAG) != 0 ||
	    out->e_ident[EI_CLASS] != ELFCLASS64 ||
	    out->e_ident[EI_DATA] != (BYTE_ORDER == LITTLE_ENDIAN ? ELFDATA2LSB : ELFDATA2MSB) ||
	    out->e_shentsize != sizeof(Elf64_Shdr) || out->e_shnum > MODINFO_SECTIONS_MAX ||
	    out->e_shstrndx >= out->e_shnum)
		return err_set(err, rc < 0 ? rc : -EINVAL,
			       "it is no kernel module of this machine");

	return 0;
}

static int modinfo_section(const struct modinfo_source *source, const Elf64_Ehdr *header,
			   uint64_t index, Elf64_Shdr *out)
{
	uint64_t offset;
	if (__builtin_add_overflow(header->e_shoff, index * sizeof(*out), &offset))
		return -EINVAL;
	return modinfo_at(source, offset, out, sizeof(*out));
}

/* The section .modinfo. -EINVAL: there is none. */
static int modinfo_find(const struct modinfo_source *source, const Elf64_Ehdr *header,
			Elf64_Shdr *out)
{
	static const char wanted[] = ".modinfo";
	Elf64_Shdr names, section;
	int rc = modinfo_section(source, header, header->e_shstrndx, &names);

	for (uint64_t i = 0; i < header->e_shnum && rc == 0; i++) {
		char name[sizeof(wanted)];
		uint64_t offset;

		rc = modinfo_section(source, header, i, &section);
		if (rc < 0 || section.sh_type != SHT_PROGBITS ||
		    __builtin_add_overflow(names.sh_offset, section.sh_name, &offset) ||
		    modinfo_at(source, offset, name, sizeof(name)) < 0 ||
		    memcmp(name, wanted, sizeof(wanted)) != 0)
			continue;

		*out = section;
		return 0;
	}

	return rc < 0 ? rc : -EINVAL;
}

static void modinfo_take(const char *text, size_t length, const char *key, char *out)
{
	size_t size = strlen(key);
	if (length < size || memcmp(text, key, size) != 0 || length - size >= MODINFO_TEXT_MAX)
		return;

	for (size_t i = size; i < length; i++)
		if ((unsigned char)text[i] < ' ' || (unsigned char)text[i] > '~')
			return;

	memcpy(out, text + size, length - size);
	out[length - size] = '\0';
}

/* "key=value", each with a NUL behind it. */
static void modinfo_texts(const char *text, size_t length, struct modinfo *out)
{
	for (size_t at = 0; at < length;) {
		size_t size = strnlen(text + at, length - at);
		modinfo_take(text + at, size, "vermagic=", out->vermagic);
		modinfo_take(text + at, size, "version=", out->version);
		modinfo_take(text + at, size, "license=", out->license);
		at += size + 1;
	}
}

static int modinfo_get(const struct modinfo_source *source, struct modinfo *out, struct err *err)
{
	struct modinfo modinfo = {.vermagic = ""};
	Elf64_Ehdr header;
	Elf64_Shdr section;
	int rc = modinfo_header(source, &header, err);
	if (rc < 0)
		return rc;

	rc = modinfo_find(source, &header, &section);
	if (rc == 0 && section.sh_size > MODINFO_SIZE_MAX)
		rc = -EINVAL;
	if (rc < 0)
		return err_set(err, rc, "it has no section .modinfo that can be read");

	_cleanup_free_ char *text = malloc(section.sh_size + 1);
	if (!text)
		return err_set(err, -ENOMEM, "out of memory");

	rc = modinfo_at(source, section.sh_offset, text, section.sh_size);
	if (rc < 0)
		return err_set(err, rc, "its section .modinfo lies behind its end");

	modinfo_texts(text, section.sh_size, &modinfo);
	*out = modinfo;
	return 0;
}

int modinfo_parse(const void *bytes, size_t length, struct modinfo *out, struct err *err)
{
	const struct modinfo_source source = {.fd = -1, .bytes = bytes, .length = length};
	return modinfo_get(&source, out, err);
}

int modinfo_read(int fd, const char *name, struct modinfo *out, struct err *err)
{
	const struct modinfo_source source = {.fd = fd};
	int rc = modinfo_get(&source, out, err);
	if (rc < 0)
		(void)err_wrap(err, "'%.200s'", name);
	return rc;
}
