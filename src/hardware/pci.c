/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/pci.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/parse.h"

/* Bytes without the blanks and line ends around them. */
static void text_trim(const char **text, size_t *length)
{
	while (*length > 0 && isspace((unsigned char)**text)) {
		(*text)++;
		(*length)--;
	}
	while (*length > 0 && isspace((unsigned char)(*text)[*length - 1]))
		(*length)--;
}

/* A printable copy, cut to fit. */
static void text_copy(char *out, size_t size, const char *text, size_t length)
{
	size_t n = length < size - 1 ? length : size - 1;
	for (size_t i = 0; i < n; i++)
		out[i] = isprint((unsigned char)text[i]) ? text[i] : '?';
	out[n] = '\0';
}

/* Hexadecimal digits only, one to `digits` of them. */
static bool hex_digits(const char *text, size_t length, size_t digits, uint64_t max, uint64_t *out)
{
	if (length < 1 || length > digits)
		return false;
	for (size_t i = 0; i < length; i++) {
		if (!isxdigit((unsigned char)text[i]))
			return false;
	}
	return parse_hex_span(text, length, max, out) == 0;
}

int pci_parse_address(const char *text, size_t length, struct pci_address *out)
{
	const char *part[3];
	size_t size[3];
	uint32_t parts = 0;
	size_t begin = 0;

	for (size_t i = 0; i <= length; i++) {
		if (i < length && text[i] != ':')
			continue;
		if (parts == array_length(part))
			return -EINVAL;

		part[parts] = text + begin;
		size[parts++] = i - begin;
		begin = i + 1;
	}

	if (parts < 2)
		return -EINVAL;

	uint64_t domain = 0, bus, device, function = 0;
	if (parts == 3 && !hex_digits(part[0], size[0], 8, UINT32_MAX, &domain))
		return -EINVAL;
	if (!hex_digits(part[parts - 2], size[parts - 2], 2, 0xff, &bus))
		return -EINVAL;

	const char *last = part[parts - 1];
	size_t last_size = size[parts - 1];
	const char *dot = memchr(last, '.', last_size);
	size_t device_size = dot ? (size_t)(dot - last) : last_size;
	if (!hex_digits(last, device_size, 2, 0x1f, &device))
		return -EINVAL;

	if (dot && !hex_digits(dot + 1, last_size - device_size - 1, 1, 7, &function))
		return -EINVAL;

	*out = (struct pci_address){.domain = (uint32_t)domain,
				    .bus = (uint8_t)bus,
				    .device = (uint8_t)device,
				    .function = (uint8_t)function};
	return 0;
}

int pci_parse_numa_node(const char *text, size_t length, int32_t *out)
{
	text_trim(&text, &length);
	if (length == 2 && memcmp(text, "-1", 2) == 0) {
		*out = GPU_NUMA_NONE;
		return 0;
	}

	uint64_t node;
	if (parse_u64_span(text, length, 0, 65535, &node) < 0)
		return -EINVAL;

	*out = (int32_t)node;
	return 0;
}

int pci_parse_hex(const char *text, size_t length, uint32_t *out)
{
	text_trim(&text, &length);
	uint64_t value;
	if (parse_hex_span(text, length, UINT32_MAX, &value) < 0)
		return -EINVAL;
	*out = (uint32_t)value;
	return 0;
}

static const uint32_t gen_speed[] = {0, 25, 50, 80, 160, 320, 640};

uint32_t pci_gen_of_speed(uint32_t tenths_gt_per_second)
{
	for (uint32_t gen = 1; gen < array_length(gen_speed); gen++) {
		if (gen_speed[gen] == tenths_gt_per_second)
			return gen;
	}
	return 0;
}

uint32_t pci_speed_of_gen(uint32_t gen)
{
	return gen < array_length(gen_speed) ? gen_speed[gen] : 0;
}

uint32_t pci_parse_link_speed(const char *text, size_t length)
{
	text_trim(&text, &length);
	size_t digits = 0;
	while (digits < length && (isdigit((unsigned char)text[digits]) || text[digits] == '.'))
		digits++;

	const char *dot = memchr(text, '.', digits);
	size_t whole = dot ? (size_t)(dot - text) : digits;
	uint64_t units, tenths = 0;

	if (parse_u64_span(text, whole, 0, 10000, &units) < 0)
		return 0;
	if (dot && (digits != whole + 2 || parse_u64_span(dot + 1, 1, 0, 9, &tenths) < 0))
		return 0;
	if (length - digits < 5 || memcmp(text + digits, " GT/s", 5) != 0)
		return 0;

	return pci_gen_of_speed((uint32_t)(units * 10 + tenths));
}

uint32_t pci_parse_link_width(const char *text, size_t length)
{
	text_trim(&text, &length);
	uint64_t width;
	/* The kernel writes 255 for a width that the device does not report. */
	if (parse_u64_span(text, length, 1, 64, &width) < 0)
		return 0;
	return (uint32_t)width;
}

int pci_parse_cpulist(const char *text, size_t length, char out[PCI_CPULIST_MAX])
{
	text_trim(&text, &length);
	if (length == 0)
		return -EINVAL;
	if (length >= PCI_CPULIST_MAX)
		return -ENAMETOOLONG;

	for (size_t i = 0; i < length; i++) {
		if (!isdigit((unsigned char)text[i]) && text[i] != '-' && text[i] != ',')
			return -EINVAL;
	}

	memcpy(out, text, length);
	out[length] = '\0';
	return 0;
}

static bool path_root(const char *text, size_t length, struct pci_path *out)
{
	uint64_t domain, bus;

	if (length < 6 || memcmp(text, "pci", 3) != 0)
		return false;

	const char *colon = memchr(text, ':', length);
	if (!colon)
		return false;

	size_t domain_size = (size_t)(colon - text) - 3;
	if (!hex_digits(text + 3, domain_size, 8, UINT32_MAX, &domain) ||
	    !hex_digits(colon + 1, length - domain_size - 4, 2, 0xff, &bus))
		return false;

	out->root_domain = (uint32_t)domain;
	out->root_bus = (uint32_t)bus;
	return true;
}

int pci_parse_path(const char *text, size_t length, struct pci_path *out)
{
	text_trim(&text, &length);
	struct pci_path path = {.depth = 0};
	bool below_root = false;
	size_t begin = 0;

	for (size_t i = 0; i <= length; i++) {
		if (i < length && text[i] != '/')
			continue;

		const char *part = text + begin;
		size_t size = i - begin;

		begin = i + 1;
		if (!below_root) {
			below_root = path_root(part, size, &path);
			continue;
		}

		if (path.depth == PCI_PATH_DEPTH_MAX ||
		    pci_parse_address(part, size, &path.hop[path.depth]) < 0)
			return -EINVAL;

		path.depth++;
	}

	if (path.depth == 0)
		return -EINVAL;

	*out = path;
	return 0;
}

enum gpu_level pci_path_level(const struct pci_path *a, int32_t numa_a, const struct pci_path *b,
			      int32_t numa_b)
{
	bool same_root = a->root_domain == b->root_domain && a->root_bus == b->root_bus;
	if (!same_root) {
		if (numa_a == numa_b && numa_a != GPU_NUMA_NONE)
			return GPU_LEVEL_NODE;
		return GPU_LEVEL_SYSTEM;
	}

	uint32_t common = 0;
	while (common < a->depth && common < b->depth &&
	       pci_address_compare(&a->hop[common], &b->hop[common]) == 0)
		common++;

	if (common == a->depth && common == b->depth)
		return GPU_LEVEL_INTERNAL;
	if (common == 0)
		return GPU_LEVEL_HOSTBRIDGE;

	/* Both hang below bridge hop[common-1]. Its downstream ports are hops of their own: two
	 * devices of one switch differ there, and that is still a single switch. */
	uint32_t below_a = a->depth - common, below_b = b->depth - common;
	return below_a <= 2 && below_b <= 2 ? GPU_LEVEL_SINGLE : GPU_LEVEL_MULTIPLE;
}

/* One line "Key: value" out of `text`; both borrowed from it. False at the end. */
static bool next_line(const char **text, size_t *length, const char **key, size_t *key_size,
		      const char **value, size_t *value_size)
{
	while (*length > 0) {
		const char *line = *text;
		const char *end = memchr(line, '\n', *length);
		size_t size = end ? (size_t)(end - line) : *length;
		size_t used = end ? size + 1 : size;

		*text += used;
		*length -= used;

		const char *colon = memchr(line, ':', size);
		if (!colon)
			continue;

		*key = line;
		*key_size = (size_t)(colon - line);
		*value = colon + 1;
		*value_size = size - *key_size - 1;
		text_trim(key, key_size);
		text_trim(value, value_size);

		return true;
	}

	return false;
}

static bool span_is(const char *text, size_t length, const char *word)
{
	return strlen(word) == length && memcmp(text, word, length) == 0;
}

void pci_parse_nvidia_information(const char *text, size_t length,
				  struct pci_nvidia_information *out)
{
	*out = (struct pci_nvidia_information){.minor = GPU_U32_UNKNOWN};
	const char *key, *value;
	size_t key_size, value_size;

	while (next_line(&text, &length, &key, &key_size, &value, &value_size)) {
		uint64_t minor;

		if (span_is(key, key_size, "Model"))
			text_copy(out->model, sizeof(out->model), value, value_size);
		else if (span_is(key, key_size, "GPU UUID") && !memchr(value, '?', value_size))
			text_copy(out->uuid, sizeof(out->uuid), value, value_size);
		else if (span_is(key, key_size, "Device Minor") &&
			 parse_u64_span(value, value_size, 0, 4095, &minor) == 0)
			out->minor = (uint32_t)minor;
	}
}

/* Digits and dots with at least one dot: "580.105.08". */
static bool is_version(const char *text, size_t length)
{
	bool dot = false;

	if (length < 3 || length >= GPU_VERSION_MAX || !isdigit((unsigned char)text[0]))
		return false;

	for (size_t i = 0; i < length; i++) {
		if (text[i] == '.')
			dot = true;
		else if (!isdigit((unsigned char)text[i]))
			return false;
	}

	return dot;
}

int pci_parse_nvidia_version(const char *text, size_t length, char out[GPU_VERSION_MAX])
{
	/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.105.08  date", or "... Open Kernel
	 * Module for x86_64  580.105.08  Release Build ...": the first word that is a version. */
	const char *newline = memchr(text, '\n', length);
	if (newline)
		length = (size_t)(newline - text);

	size_t begin = 0;

	for (size_t i = 0; i <= length; i++) {
		if (i < length && !isspace((unsigned char)text[i]))
			continue;

		if (is_version(text + begin, i - begin)) {
			memcpy(out, text + begin, i - begin);
			out[i - begin] = '\0';
			return 0;
		}

		begin = i + 1;
	}

	return -EINVAL;
}
