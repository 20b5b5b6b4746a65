/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/soname.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"

enum { SONAME_HEAD = 4096 };

/* A file, or bytes in memory. Of a file the first bytes are read once: the headers always lie
 * there, in small libraries all of it. */
struct soname_source {
	const char *name;
	int fd; /* -1: only the bytes */
	const unsigned char *bytes;
	size_t length;
};

/* Reads up to `length` bytes; how many there were. -errno. */
static ssize_t soname_take(const struct soname_source *source, uint64_t offset, void *into,
			   size_t length)
{
	if (length == 0)
		return 0; /* wherever that would be */

	size_t rest = offset < source->length ? source->length - (size_t)offset : 0;
	bool is_all = source->fd < 0 || (source->length > 0 && source->length < SONAME_HEAD);
	if (rest >= length || (rest > 0 && is_all)) {
		length = length < rest ? length : rest;
		memcpy(into, source->bytes + offset, length);
		return (ssize_t)length;
	}

	if (is_all || offset > INT64_MAX)
		return 0;

	ssize_t count;
	do {
		count = pread(source->fd, into, length, (off_t)offset);
	} while (count < 0 && errno == EINTR);
	return count < 0 ? -errno : count;
}

static int soname_take_all(const struct soname_source *source, uint64_t offset, void *into,
			   size_t length, const char *what, struct err *err)
{
	ssize_t count = soname_take(source, offset, into, length);
	if (count < 0)
		return err_set(err, (int)count, "cannot read '%s': %s", source->name,
			       err_describe((int)count));
	if ((size_t)count < length)
		return err_set(err, -EINVAL, "'%s' is cut off: its %s lies behind its end",
			       source->name, what);

	return 0;
}

static bool soname_order_is_native(unsigned char order)
{
	return order == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB);
}

/* The offset in the file of an address in memory. */
static bool soname_offset(const Elf64_Phdr *segments, size_t count, uint64_t address, uint64_t *out)
{
	for (size_t i = 0; i < count; i++) {
		const Elf64_Phdr *segment = &segments[i];
		if (segment->p_type == PT_LOAD && address >= segment->p_vaddr &&
		    address - segment->p_vaddr < segment->p_filesz &&
		    !__builtin_add_overflow(segment->p_offset, address - segment->p_vaddr, out))
			return true;
	}

	return false;
}

static int soname_name(const struct soname_source *source, uint64_t offset, char out[SONAME_MAX],
		       struct err *err)
{
	char text[SONAME_MAX];
	ssize_t count = soname_take(source, offset, text, sizeof(text));
	if (count < 0)
		return err_set(err, (int)count, "cannot read '%s': %s", source->name,
			       err_describe((int)count));

	size_t length = strnlen(text, (size_t)count);
	if (length == (size_t)count)
		return err_set(err, -EINVAL, "'%s': its SONAME does not end", source->name);

	for (size_t i = 0; i < length; i++)
		if (text[i] <= ' ' || text[i] > '~' || text[i] == '/')
			return err_set(err, -EINVAL, "'%s': its SONAME is no file name",
				       source->name);

	if (strcmp(text, ".") == 0 || strcmp(text, "..") == 0)
		return err_set(err, -EINVAL, "'%s': its SONAME is no file name", source->name);

	memcpy(out, text, length + 1);
	return 0;
}

/* The SONAME of the dynamic section, if there is one. */
static int soname_dynamic(const struct soname_source *source, const Elf64_Phdr *segments,
			  size_t count, const Elf64_Phdr *dynamic, struct soname *out,
			  struct err *err)
{
	Elf64_Dyn entries[SONAME_DYNAMIC_MAX];
	uint64_t number = dynamic->p_filesz / sizeof(entries[0]);
	if (number > SONAME_DYNAMIC_MAX)
		return err_set(err, -EFBIG, "'%s': more than %d dynamic entries", source->name,
			       SONAME_DYNAMIC_MAX);

	int rc = soname_take_all(source, dynamic->p_offset, entries, number * sizeof(entries[0]),
				 "dynamic section", err);
	if (rc < 0)
		return rc;

	bool has_name = false, has_table = false;
	uint64_t name = 0, table = 0, offset;

	for (size_t i = 0; i < number && entries[i].d_tag != DT_NULL; i++) {
		if (entries[i].d_tag == DT_SONAME) {
			has_name = true;
			name = entries[i].d_un.d_val;
		} else if (entries[i].d_tag == DT_STRTAB) {
			has_table = true;
			table = entries[i].d_un.d_ptr;
		}
	}

	if (!has_name)
		return 0;
	if (!has_table || __builtin_add_overflow(table, name, &table) ||
	    !soname_offset(segments, count, table, &offset))
		return err_set(err, -EINVAL, "'%s': its SONAME lies outside of the file",
			       source->name);

	return soname_name(source, offset, out->soname, err);
}

static int soname_library(const struct soname_source *source, struct soname *out, struct err *err)
{
	Elf64_Ehdr header;
	/* The 32-bit header is shorter; both begin alike up to e_version. */
	int rc = soname_take_all(source, 0, &header, sizeof(Elf32_Ehdr), "header", err);
	if (rc < 0)
		return rc;

	const unsigned char *ident = header.e_ident;
	if (memcmp(ident, ELFMAG, SELFMAG) != 0 || !soname_order_is_native(ident[EI_DATA]) ||
	    (ident[EI_CLASS] != ELFCLASS32 && ident[EI_CLASS] != ELFCLASS64) ||
	    header.e_type != ET_DYN)
		return err_set(err, -EINVAL, "'%s' is no shared library of this machine",
			       source->name);

	struct soname library = {.bits = ident[EI_CLASS], .machine = header.e_machine};
	if (library.bits == SONAME_CLASS_32) {
		*out = library;
		return 0;
	}

	rc = soname_take_all(source, 0, &header, sizeof(header), "header", err);
	if (rc < 0)
		return rc;

	Elf64_Phdr segments[SONAME_SEGMENTS_MAX];
	size_t count = header.e_phnum;

	if (count > SONAME_SEGMENTS_MAX)
		return err_set(err, -EFBIG, "'%s': more than %d segments", source->name,
			       SONAME_SEGMENTS_MAX);
	if (count > 0 && header.e_phentsize != sizeof(segments[0]))
		return err_set(err, -EINVAL, "'%s': its segments have the wrong size",
			       source->name);

	rc = soname_take_all(source, header.e_phoff, segments, count * sizeof(segments[0]),
			     "table of segments", err);
	for (size_t i = 0; rc == 0 && i < count; i++)
		if (segments[i].p_type == PT_DYNAMIC) {
			rc = soname_dynamic(source, segments, count, &segments[i], &library, err);
			break;
		}

	if (rc == 0)
		*out = library;

	return rc;
}

int soname_parse(const void *bytes, size_t length, struct soname *out, struct err *err)
{
	const struct soname_source source = {
	    .name = "library", .fd = -1, .bytes = bytes, .length = length};
	return soname_library(&source, out, err);
}

int soname_read(int fd, const char *name, struct soname *out, struct err *err)
{
	unsigned char head[SONAME_HEAD];
	struct soname_source source = {.name = name, .fd = fd, .bytes = head};
	ssize_t count = soname_take(&source, 0, head, sizeof(head));
	if (count < 0)
		return err_set(err, (int)count, "cannot read '%s': %s", name,
			       err_describe((int)count));

	source.length = (size_t)count;
	return soname_library(&source, out, err);
}

uint32_t soname_machine_here(void)
{
#if defined(__x86_64__)
	return EM_X86_64;
#elif defined(__aarch64__)
	return EM_AARCH64;
#elif defined(__powerpc64__) && defined(__LITTLE_ENDIAN__)
	return EM_PPC64;
#else
	return 0;
#endif
}
