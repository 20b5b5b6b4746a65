/* SPDX-License-Identifier: Apache-2.0 */
/* The lists of the configuration: naming rules, shared resources, devices. */
#include "policy/reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "base/names.h"
#include "base/parse.h"
#include "base/suggest.h"
#include "base/text.h"

const char *reader_index(char out[READER_PATH_MAX], const char *path, size_t index)
{
	(void)snprintf(out, READER_PATH_MAX, "%s[%zu]", path, index);
	return out;
}

int reader_wrong_kind(const struct reader *reader, const struct yaml_node *node, const char *path,
		      const char *expected)
{
	char found[80];
	return reader_error(reader, node, -EINVAL, path, "expected %s, found %s", expected,
			    yaml_describe(node, found, sizeof(found)));
}

/* Checks that `node` is a list of reasonable length; null counts as an empty one. */
int reader_list(const struct reader *reader, const struct yaml_node *node, const char *path,
		const char *expected)
{
	if (yaml_is_null(node))
		return 0;
	if (node->kind != YAML_LIST)
		return reader_wrong_kind(reader, node, path, expected);
	if (node->entry_count > CONFIG_ENTRIES_MAX)
		return reader_error(reader, node, -E2BIG, path,
				    "%zu entries are more than the %d that are allowed",
				    node->entry_count, CONFIG_ENTRIES_MAX);

	return 0;
}

/* An entry of a list must be a map with known keys. */
int reader_entry(const struct reader *reader, const struct yaml_node *entry, const char *path,
		 const char *const *known, size_t known_count)
{
	if (entry->kind != YAML_MAP)
		return reader_wrong_kind(reader, entry, path, "a map");

	for (size_t i = 0; i < entry->entry_count; i++) {
		const struct yaml_node *key = entry->entries[i].key;
		if (names_find_of(known, known_count, key->text) >= 0)
			continue;

		int rc = reader_unknown(reader, key, path,
					suggest_nearest(key->text, known, known_count));
		if (rc < 0)
			return rc;
	}

	return 0;
}

static bool is_label_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool reader_is_subdomain(const char *text)
{
	char before = '.';

	for (; *text != '\0'; before = *text++) {
		if (is_label_char(*text))
			continue;

		bool inner = is_label_char(before) && text[1] != '\0';
		if ((*text == '-' && before != '.') || (*text == '.' && inner))
			continue;

		return false;
	}

	return is_label_char(before);
}

/* A resource name, completed with "nvidia.com/". */
static int read_name(const struct reader *reader, const struct yaml_node *node, const char *path,
		     char out[CONFIG_NAME_MAX])
{
	static const char prefix[] = "nvidia.com/";

	if (node->kind != YAML_SCALAR)
		return reader_wrong_kind(reader, node, path, "a resource name");

	bool has_prefix = text_starts_with(node->text, prefix);
	const char *rest = has_prefix ? node->text + sizeof(prefix) - 1 : node->text;
	size_t length = sizeof(prefix) - 1 + strlen(rest);
	if (length >= CONFIG_NAME_MAX)
		return reader_error(
		    reader, node, -EINVAL, path,
		    "fully-qualified resource name must be 63 characters or less: %s%.80s", prefix,
		    rest);

	if (!reader_is_subdomain(rest))
		return reader_error(
		    reader, node, -EINVAL, path,
		    "incorrect format for resource name '%.80s' (lower-case letters, "
		    "digits, '-' and '.')",
		    node->text);

	(void)snprintf(out, CONFIG_NAME_MAX, "%s%s", prefix, rest);
	return 0;
}

static int read_rule(const struct reader *reader, const struct yaml_node *entry, const char *path,
		     struct config_rule *out)
{
	static const char *const known[] = {"pattern", "name"};
	int rc = reader_entry(reader, entry, path, known, array_length(known));
	if (rc < 0)
		return rc;

	const struct yaml_node *pattern = yaml_get(entry, "pattern");
	const struct yaml_node *name = yaml_get(entry, "name");

	if (!pattern || pattern->kind != YAML_SCALAR || pattern->length == 0)
		return reader_error(reader, entry, -EINVAL, path,
				    "resources must have a 'pattern' field set");
	if (!name || yaml_is_null(name))
		return reader_error(reader, entry, -EINVAL, path,
				    "resources must have a 'name' field set");
	if (pattern->length >= CONFIG_PATTERN_MAX)
		return reader_error(reader, pattern, -EINVAL, path,
				    "a pattern has at most %d characters", CONFIG_PATTERN_MAX - 1);

	memcpy(out->pattern, pattern->text, pattern->length + 1);
	out->line = entry->line;
	return read_name(reader, name, path, out->name);
}

int reader_rules(const struct reader *reader, const struct yaml_node *node, const char *path,
		 struct config_rules *out)
{
	int rc = reader_list(reader, node, path, "a list of {pattern, name}");
	if (rc < 0 || node->entry_count == 0)
		return rc;

	out->items = calloc(node->entry_count, sizeof(*out->items));
	if (!out->items)
		return reader_error(reader, node, -ENOMEM, path, "out of memory");

	out->count = node->entry_count;
	for (size_t i = 0; rc == 0 && i < out->count; i++) {
		char at[READER_PATH_MAX];
		rc = read_rule(reader, node->entries[i].value, reader_index(at, path, i),
			       &out->items[i]);
	}

	return rc;
}

/* "0000:3b:00.0". */
static bool parse_pci(const char *text, struct pci_address *out)
{
	uint64_t domain, bus, device, function;
	size_t length = strlen(text);
	const char *colon = strchr(text, ':');
	if (length < 12 || !colon)
		return false;

	size_t domain_length = (size_t)(colon - text);
	const char *rest = colon + 1;

	if (domain_length < 4 || domain_length > 8 || strlen(rest) != 7 || rest[2] != ':' ||
	    rest[5] != '.')
		return false;

	if (parse_hex_span(text, domain_length, UINT32_MAX, &domain) < 0 ||
	    parse_hex_span(rest, 2, 0xff, &bus) < 0 ||
	    parse_hex_span(rest + 3, 2, 0x1f, &device) < 0 ||
	    parse_hex_span(rest + 6, 1, 7, &function) < 0)
		return false;

	out->domain = (uint32_t)domain;
	out->bus = (uint8_t)bus;
	out->device = (uint8_t)device;
	out->function = (uint8_t)function;

	return true;
}

/* "I" or "I:J". */
static bool parse_indices(const char *text, struct config_selector *out)
{
	enum { INDEX_MAX = 65535 };
	uint64_t index, mig_index = 0;
	const char *colon = strchr(text, ':');
	size_t length = colon ? (size_t)(colon - text) : strlen(text);
	if (parse_u64_span(text, length, 0, INDEX_MAX, &index) < 0)
		return false;

	if (colon && parse_u64(colon + 1, 0, INDEX_MAX, &mig_index) < 0)
		return false;

	out->kind = colon ? CONFIG_SELECT_MIG_INDEX : CONFIG_SELECT_INDEX;
	out->index = (uint32_t)index;
	out->mig_index = (uint32_t)mig_index;

	return true;
}

static bool starts_with(const char *text, const char *prefix)
{
	return text_starts_with(text, prefix);
}

/* What one word of a device list means. `wide`: patterns and places too, not single devices only.
 */
static bool parse_selector(const char *text, bool wide, struct config_selector *out)
{
	uint64_t number;

	if (parse_indices(text, out))
		return true;
	if (starts_with(text, "GPU-") || starts_with(text, "MIG-")) {
		out->kind = CONFIG_SELECT_UUID;
		return text[4] != '\0';
	}

	if (!wide)
		return false;
	if (parse_pci(text, &out->pci)) {
		out->kind = CONFIG_SELECT_PCI;
		return true;
	}

	if (starts_with(text, "name:") && text[5] != '\0') {
		out->kind = CONFIG_SELECT_NAME;
		memmove(out->text, out->text + 5, strlen(out->text) - 4);
		return true;
	}

	if (starts_with(text, "numa:") && parse_u64(text + 5, 0, 1023, &number) == 0) {
		out->kind = CONFIG_SELECT_NUMA;
		out->index = (uint32_t)number;
		return true;
	}

	return false;
}

static bool selector_equal(const struct config_selector *a, const struct config_selector *b)
{
	if (a->kind != b->kind)
		return false;

	switch (a->kind) {
	case CONFIG_SELECT_INDEX:
	case CONFIG_SELECT_NUMA:
		return a->index == b->index;
	case CONFIG_SELECT_MIG_INDEX:
		return a->index == b->index && a->mig_index == b->mig_index;
	case CONFIG_SELECT_PCI:
		return pci_address_compare(&a->pci, &b->pci) == 0;
	default:
		return strcmp(a->text, b->text) == 0;
	}
}

/* A list of devices. `wide` as above. */
static int read_selectors(const struct reader *reader, const struct yaml_node *node,
			  const char *path, bool wide, struct config_selectors *out)
{
	int rc = reader_list(reader, node, path, "a list of devices");
	if (rc < 0 || node->entry_count == 0)
		return rc;

	out->items = calloc(node->entry_count, sizeof(*out->items));
	if (!out->items)
		return reader_error(reader, node, -ENOMEM, path, "out of memory");

	for (size_t i = 0; i < node->entry_count; i++) {
		const struct yaml_node *value = node->entries[i].value;
		struct config_selector *selector = &out->items[i];
		char at[READER_PATH_MAX], found[80];

		reader_index(at, path, i);
		if (value->kind == YAML_SCALAR && value->length < CONFIG_REF_MAX)
			memcpy(selector->text, value->text, value->length + 1);
		selector->line = value->line;
		selector->column = value->column;
		if (selector->text[0] == '\0' || !parse_selector(value->text, wide, selector))
			return reader_error(reader, value, -EINVAL, at,
					    "unsupported type for device in devices list: %s "
					    "(expected an index, %sa UUID%s)",
					    yaml_describe(value, found, sizeof(found)),
					    wide ? "" : "\"GPU:MIG\", ",
					    wide ? ", a PCI address, name:PATTERN or numa:N" : "");

		for (size_t k = 0; k < i; k++) {
			if (selector_equal(selector, &out->items[k]))
				return reader_error(reader, value, -EINVAL, at,
						    "'%.80s' is in the list twice", value->text);
		}

		out->count = i + 1;
	}

	return 0;
}

int reader_selectors(const struct reader *reader, const struct yaml_node *node, const char *path,
		     struct config_selectors *out)
{
	return read_selectors(reader, node, path, true, out);
}

int reader_door(const struct reader *reader, const struct yaml_node *node, const char *path,
		struct config_door *out)
{
	if (yaml_is_null(node))
		return 0;

	out->is_set = true;
	if (node->kind == YAML_LIST)
		return read_selectors(reader, node, path, true, &out->devices);
	if (node->kind == YAML_SCALAR && strcmp(node->text, "none") == 0)
		return 0;

	out->all = node->kind == YAML_SCALAR && strcmp(node->text, "all") == 0;
	return out->all ? 0
			: reader_wrong_kind(reader, node, path, "all, none or a list of devices");
}

/* all | a count | a list. */
static int read_share_devices(const struct reader *reader, const struct yaml_node *node,
			      const char *path, struct config_share *out)
{
	if (node->kind == YAML_LIST) {
		out->devices = CONFIG_DEVICES_LIST;
		return read_selectors(reader, node, path, false, &out->device_list);
	}

	if (node->kind == YAML_MAP)
		return reader_wrong_kind(reader, node, path, "all, a count or a list of devices");

	int64_t count;
	int rc = node->quoted ? -EINVAL : parse_i64(node->text, INT64_MIN, INT64_MAX, &count);
	if (rc == -EINVAL) {
		if (strcmp(node->text, "all") == 0)
			return 0;
		return reader_error(
		    reader, node, -EINVAL, path,
		    "devices set as '%.64s' but the only valid string input is 'all'", node->text);
	}

	if (rc < 0 || count <= 0 || count > GPU_MAX * GPU_MIG_MAX)
		return reader_error(
		    reader, node, -EINVAL, path,
		    "devices set as '%.64s' but a count of devices must be > 0 and at most %d",
		    node->text, GPU_MAX * GPU_MIG_MAX);

	out->devices = CONFIG_DEVICES_COUNT;
	out->device_count = (uint32_t)count;
	return 0;
}

static int read_replicas(const struct reader *reader, const struct yaml_node *node,
			 const char *path, uint32_t *out)
{
	int64_t replicas = 0;
	int rc = node->kind != YAML_SCALAR || node->quoted
		     ? -EINVAL
		     : parse_i64(node->text, INT64_MIN, INT64_MAX, &replicas);
	if (rc == -EINVAL)
		return reader_wrong_kind(reader, node, path, "a whole number");
	if (rc == 0 && replicas < 2)
		return reader_error(reader, node, -EINVAL, path,
				    "number of replicas must be >= 2, found %.32s", node->text);

	if (rc < 0 || replicas > CONFIG_REPLICAS_MAX)
		return reader_error(reader, node, -EINVAL, path,
				    "at most %d replicas of a device are possible, found %.32s",
				    CONFIG_REPLICAS_MAX, node->text);

	*out = (uint32_t)replicas;
	return 0;
}

static int read_share(const struct reader *reader, const struct yaml_node *entry, const char *path,
		      struct config_share *out)
{
	static const char *const known[] = {"name", "replicas", "rename", "devices"};
	int rc = reader_entry(reader, entry, path, known, array_length(known));
	if (rc < 0)
		return rc;

	const struct yaml_node *name = yaml_get(entry, "name");
	const struct yaml_node *replicas = yaml_get(entry, "replicas");
	const struct yaml_node *rename = yaml_get(entry, "rename");
	const struct yaml_node *devices = yaml_get(entry, "devices");

	out->line = entry->line;
	if (!name || yaml_is_null(name))
		return reader_error(reader, entry, -EINVAL, path, "no resource name specified");
	if (!replicas || yaml_is_null(replicas))
		return reader_error(reader, entry, -EINVAL, path, "no replicas specified");

	rc = read_name(reader, name, path, out->name);
	if (rc == 0)
		rc = read_replicas(reader, replicas, path, &out->replicas);

	bool has_rename = rename && !yaml_is_null(rename) &&
			  !(rename->kind == YAML_SCALAR && rename->length == 0);
	if (rc == 0 && has_rename)
		rc = read_name(reader, rename, path, out->rename);
	if (rc == 0 && devices && !yaml_is_null(devices))
		rc = read_share_devices(reader, devices, path, out);

	return rc;
}

int reader_shares(const struct reader *reader, const struct yaml_node *node, const char *path,
		  struct config_sharing *out)
{
	int rc = reader_list(reader, node, path, "a list of {name, replicas}");
	if (rc < 0)
		return rc;
	if (node->entry_count == 0)
		return reader_error(reader, node, -EINVAL, path, "no resources specified");

	out->items = calloc(node->entry_count, sizeof(*out->items));
	if (!out->items)
		return reader_error(reader, node, -ENOMEM, path, "out of memory");

	out->count = node->entry_count;
	for (size_t i = 0; rc == 0 && i < out->count; i++) {
		char at[READER_PATH_MAX];
		rc = read_share(reader, node->entries[i].value, reader_index(at, path, i),
				&out->items[i]);
	}

	return rc;
}

void reader_selectors_done(struct config_selectors *selectors)
{
	free(selectors->items);
	*selectors = (struct config_selectors){NULL, 0};
}

void reader_shares_done(struct config_sharing *sharing)
{
	for (size_t i = 0; i < sharing->count; i++)
		reader_selectors_done(&sharing->items[i].device_list);
	free(sharing->items);
	sharing->items = NULL;
	sharing->count = 0;
}
