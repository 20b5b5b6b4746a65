/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/rdma_config.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <jansson.h>

#include "base/check.h"
#include "base/err.h"
#include "base/names.h"
#include "base/parse.h"
#include "base/suggest.h"
#include "hardware/rdma.h"
#include "policy/reader.h"

/* What is being read. In a file of Mellanox's plugin the defaults are that plugin's, and what it
 * would overlook is a warning; in our own it is an error. */
struct rdma_reader {
	const struct reader *reader;
	bool is_own;
};

static const char *const selector_names[RDMA_SELECT_COUNT] = {
    [RDMA_SELECT_VENDOR] = "vendors", [RDMA_SELECT_DEVICE] = "deviceIDs",
    [RDMA_SELECT_DRIVER] = "drivers", [RDMA_SELECT_INTERFACE] = "ifNames",
    [RDMA_SELECT_LINK] = "linkTypes",
};

const char *rdma_config_selector_to_string(enum rdma_config_selector selector)
{
	return names_at(selector_names, selector, "unknown");
}

void rdma_config_done(struct rdma_config *config)
{
	for (size_t i = 0; i < config->count; i++) {
		for (size_t k = 0; k < RDMA_SELECT_COUNT; k++)
			free(config->entries[i].selectors[k].items);
	}
	free(config->entries);
	*config = (struct rdma_config){.count = 0};
}

void rdma_config_name(const struct rdma_config_entry *entry, char out[RDMA_CONFIG_RESOURCE_MAX])
{
	(void)snprintf(out, RDMA_CONFIG_RESOURCE_MAX, "%s/%s", entry->prefix, entry->name);
}

/* "PATH.KEY"; cut where it would be longer than any that is read. */
static void path_of(char out[READER_PATH_MAX], const char *path, const char *key)
{
	if (snprintf(out, READER_PATH_MAX, "%s.%s", path, key) >= READER_PATH_MAX)
		out[READER_PATH_MAX - 2] = '~';
}

/* --- single values ------------------------------------------------------------------------------
 */

static int wrong_kind(const struct rdma_reader *in, const struct yaml_node *node, const char *path,
		      const char *expected)
{
	char found[80];
	return reader_error(in->reader, node, -EINVAL, path, "expected %s, found %s", expected,
			    yaml_describe(node, found, sizeof(found)));
}

/* Something that can never be meant: refused in our own file. */
__attribute__((format(printf, 4, 5))) static int odd(const struct rdma_reader *in,
						     const struct yaml_node *node, const char *path,
						     const char *format, ...)
{
	char text[200];
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);

	if (in->is_own)
		return reader_error(in->reader, node, -EINVAL, path, "%s", text);

	return reader_warn(in->reader, node, path, "%s", text);
}

static int read_bool(const struct rdma_reader *in, const struct yaml_node *node, const char *path,
		     bool *out)
{
	if (node->kind != YAML_SCALAR || node->quoted || parse_bool(node->text, out) < 0)
		return wrong_kind(in, node, path, "true or false");
	return 0;
}

/* A whole number of 0 to `max`. */
static int read_count(const struct rdma_reader *in, const struct yaml_node *node, const char *path,
		      uint32_t max, uint32_t *out)
{
	int64_t value = 0;
	int rc = node->kind != YAML_SCALAR || node->quoted
		     ? -EINVAL
		     : parse_i64(node->text, INT64_MIN, INT64_MAX, &value);
	if (rc == -EINVAL)
		return wrong_kind(in, node, path, "a whole number");
	if (rc < 0 || value < 0 || value > max)
		return reader_error(in->reader, node, -EINVAL, path,
				    "expected 0 to %" PRIu32 ", found %.32s", max, node->text);

	*out = (uint32_t)value;
	return 0;
}

/* Letters and digits of ASCII, whatever the locale says. */
static bool is_letter_or_digit(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* What Kubernetes takes behind the slash: [A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])? */
static bool is_name(const char *text)
{
	size_t length = strlen(text);
	for (size_t i = 0; i < length; i++) {
		bool is_inner = i > 0 && i + 1 < length;
		if (!is_letter_or_digit(text[i]) && !(is_inner && strchr("-_.", text[i])))
			return false;
	}
	return length > 0;
}

static int read_name(const struct rdma_reader *in, const struct yaml_node *node, const char *path,
		     struct rdma_config_entry *out)
{
	if (!node || yaml_is_null(node))
		return 0; /* told by the entry */
	if (node->kind != YAML_SCALAR)
		return wrong_kind(in, node, path, "a name");

	if (node->length >= RDMA_CONFIG_NAME_MAX || !is_name(node->text))
		return reader_error(in->reader, node, -EINVAL, path,
				    "'%.80s' is no name of a resource (1 to 63 letters, digits, "
				    "'-', '_' and '.', with a letter or digit at both ends)",
				    node->text);

	if (!in->is_own && strpbrk(node->text, "-."))
		reader_note(in->reader, node, path,
			    "Mellanox's plugin would refuse '%s': it takes letters, digits and '_'",
			    node->text);

	memcpy(out->name, node->text, node->length + 1);
	return 0;
}

static int read_prefix(const struct rdma_reader *in, const struct yaml_node *node, const char *path,
		       struct rdma_config_entry *out)
{
	(void)snprintf(out->prefix, sizeof(out->prefix), "rdma");
	if (!node || yaml_is_null(node) || (node->kind == YAML_SCALAR && node->length == 0))
		return 0;
	if (node->kind != YAML_SCALAR)
		return wrong_kind(in, node, path, "a DNS name");

	if (node->length >= RDMA_CONFIG_PREFIX_MAX || !reader_is_subdomain(node->text))
		return reader_error(in->reader, node, -EINVAL, path,
				    "'%.80s' is no DNS name (lower-case letters, digits, '-' and "
				    "'.', at most %d characters)",
				    node->text, RDMA_CONFIG_PREFIX_MAX - 1);

	memcpy(out->prefix, node->text, node->length + 1);
	return 0;
}

static int read_memlock(const struct rdma_reader *in, const struct yaml_node *node,
			const char *path, struct rdma_config_entry *out)
{
	if (node->kind == YAML_SCALAR && strcmp(node->text, "unlimited") == 0) {
		out->memlock_bytes = UINT64_MAX;
		return 0;
	}

	if (node->kind != YAML_SCALAR ||
	    parse_size(node->text, 1, INT64_MAX, &out->memlock_bytes) < 0)
		return wrong_kind(in, node, path, "unlimited or a size such as 64Gi");

	return 0;
}

static int read_memlock_error(const struct rdma_reader *in, const struct yaml_node *node,
			      const char *path, struct rdma_config_entry *out)
{
	out->memlock_warns = node->kind == YAML_SCALAR && strcmp(node->text, "warn") == 0;
	if (out->memlock_warns || (node->kind == YAML_SCALAR && strcmp(node->text, "fail") == 0))
		return 0;
	return wrong_kind(in, node, path, "fail or warn");
}

static int read_health(const struct rdma_reader *in, const struct yaml_node *node, const char *path,
		       struct rdma_config_entry *out)
{
	static const char *const words[] = {
	    [RDMA_CONFIG_HEALTH_OFF] = "off", [RDMA_CONFIG_HEALTH_PORT] = "port"};

	int at = node->kind == YAML_SCALAR ? names_find(words, node->text) : -EINVAL;
	if (at < 0)
		return wrong_kind(in, node, path, "off or port");

	out->health = (uint32_t)at;
	return 0;
}

static int read_needs(const struct rdma_reader *in, const struct yaml_node *node, const char *path,
		      struct rdma_config_entry *out)
{
	static const uint32_t kinds[] = {RDMA_UVERBS, RDMA_CM, RDMA_UMAD, RDMA_ISSM};

	if (node->kind != YAML_LIST)
		return wrong_kind(in, node, path, "a list of uverbs, rdma_cm, umad and issm");

	out->needs = 0;
	for (size_t i = 0; i < node->entry_count; i++) {
		const struct yaml_node *word = node->entries[i].value;
		uint32_t bit = 0;
		for (size_t k = 0; k < array_length(kinds); k++) {
			if (strcmp(word->text, rdma_node_kind_to_string(kinds[k])) == 0)
				bit = RDMA_KIND_BIT(kinds[k]);
		}

		if (bit == 0)
			return wrong_kind(in, word, path, "uverbs, rdma_cm, umad or issm");

		out->needs |= bit;
	}

	return 0;
}

/* --- selectors ----------------------------------------------------------------------------------
 */

static bool is_pci_number(const char *text)
{
	return strlen(text) == 4 && strspn(text, "0123456789abcdef") == 4;
}

/* What can never match: compared is with what the kernel says, letter by letter. */
static int check_word(const struct rdma_reader *in, const struct yaml_node *node, const char *path,
		      enum rdma_config_selector selector)
{
	bool is_number = selector == RDMA_SELECT_VENDOR || selector == RDMA_SELECT_DEVICE;
	if (is_number && !is_pci_number(node->text))
		return odd(in, node, path,
			   "'%.40s' matches no adapter: expected four hex digits in lower case "
			   "without 0x, as 15b3",
			   node->text);

	if (selector == RDMA_SELECT_LINK && strcmp(node->text, "ether") != 0 &&
	    strcmp(node->text, "infiniband") != 0)
		return odd(in, node, path,
			   "'%.40s' matches no adapter: expected ether or infiniband", node->text);

	return 0;
}

static int read_words(const struct rdma_reader *in, const struct yaml_node *node, const char *path,
		      enum rdma_config_selector selector, struct rdma_config_words *out)
{
	if (!node || yaml_is_null(node))
		return 0;
	if (node->kind != YAML_LIST)
		return wrong_kind(in, node, path, "a list of names");
	if (node->entry_count > RDMA_CONFIG_WORDS_MAX)
		return reader_error(in->reader, node, -E2BIG, path,
				    "%zu entries are more than the %d that are allowed",
				    node->entry_count, RDMA_CONFIG_WORDS_MAX);

	if (node->entry_count == 0)
		return 0;

	out->items = calloc(node->entry_count, sizeof(*out->items));
	if (!out->items)
		return reader_error(in->reader, node, -ENOMEM, path, "out of memory");

	for (size_t i = 0; i < node->entry_count; i++) {
		const struct yaml_node *word = node->entries[i].value;
		if (word->kind != YAML_SCALAR || word->length == 0)
			return wrong_kind(in, word, path, "a name");

		/* JSON has numbers, too, and Go refuses one in the place of a text. */
		if (!in->is_own && !word->quoted)
			return wrong_kind(in, word, path, "a text in quotes");
		if (word->length >= RDMA_CONFIG_WORD_MAX)
			return reader_error(in->reader, word, -EINVAL, path,
					    "a name has at most %d characters",
					    RDMA_CONFIG_WORD_MAX - 1);

		int rc = check_word(in, word, path, selector);
		if (rc < 0)
			return rc;

		memcpy(out->items[i], word->text, word->length + 1);
		out->count = i + 1;
	}

	return 0;
}

/* --- entries ------------------------------------------------------------------------------------
 */

/* Go finds the fields of a JSON file whatever the case of their names. */
static const struct yaml_node *get(const struct yaml_node *map, const char *key)
{
	for (size_t i = 0; map && map->kind == YAML_MAP && i < map->entry_count; i++) {
		const struct yaml_entry *entry = &map->entries[i];
		if (strcasecmp(entry->key->text, key) == 0 && !yaml_is_null(entry->value))
			return entry->value;
	}
	return NULL;
}

/* Keys that mean nothing, and those that stand twice. */
static int check_keys(const struct rdma_reader *in, const struct yaml_node *map, const char *path,
		      const char *const *known, size_t known_count)
{
	for (size_t i = 0; i < map->entry_count; i++) {
		const struct yaml_node *key = map->entries[i].key;
		bool is_known = false;
		for (size_t k = 0; k < known_count; k++)
			is_known |= strcasecmp(key->text, known[k]) == 0;

		int rc = reader_same_key(in->reader, map, i, path);
		if (rc == 0 && !is_known)
			rc = reader_unknown(in->reader, key, path,
					    suggest_nearest(key->text, known, known_count));
		if (rc < 0)
			return rc;
	}

	return 0;
}

static int read_selectors(const struct rdma_reader *in, const struct yaml_node *entry,
			  const char *path, struct rdma_config_entry *out)
{
	const struct yaml_node *devices = get(entry, "devices"), *map = get(entry, "selectors");
	size_t count = 0;
	char below[READER_PATH_MAX], at[READER_PATH_MAX];

	if (map && map->kind != YAML_MAP)
		return wrong_kind(in, map, path, "a map of selectors");

	path_of(below, path, "selectors");
	int rc = map ? check_keys(in, map, below, selector_names, RDMA_SELECT_COUNT) : 0;
	for (size_t i = 0; rc == 0 && i < RDMA_SELECT_COUNT; i++) {
		path_of(at, below, selector_names[i]);
		rc = read_words(in, get(map, selector_names[i]), at, i, &out->selectors[i]);
		count += out->selectors[i].count;
	}

	if (rc < 0)
		return rc;

	path_of(at, path, "devices");
	if (devices && devices->kind != YAML_LIST)
		return wrong_kind(in, devices, at, "a list of names");

	if (devices && devices->entry_count > 0 && count > 0)
		return reader_error(
		    in->reader, devices, -EINVAL, path,
		    "both devices and selectors are set; devices is the old spelling "
		    "of selectors.ifNames: keep one of them");

	if (count > 0)
		return 0;

	rc = read_words(in, devices, at, RDMA_SELECT_INTERFACE,
			&out->selectors[RDMA_SELECT_INTERFACE]);
	if (rc == 0 && out->selectors[RDMA_SELECT_INTERFACE].count == 0)
		return reader_error(in->reader, entry, -EINVAL, path,
				    "neither devices nor selectors is set: say which adapters are "
				    "meant");

	return rc;
}

/* What is not in Mellanox's file. */
static int read_additions(const struct rdma_reader *in, const struct yaml_node *entry,
			  const char *path, struct rdma_config_entry *out)
{
	static const struct {
		const char *key;
		size_t offset;
	} flags[] = {
	    {"topology", offsetof(struct rdma_config_entry, topology)},
	    {"management", offsetof(struct rdma_config_entry, management)},
	    {"setLinkUp", offsetof(struct rdma_config_entry, sets_link_up)},
	    {"softwareAdapters", offsetof(struct rdma_config_entry, takes_software)},
	};
	static const struct {
		const char *key;
		int (*read)(const struct rdma_reader *in, const struct yaml_node *node,
			    const char *path, struct rdma_config_entry *out);
	} values[] = {{"healthCheck", read_health},
		      {"require", read_needs},
		      {"memlock", read_memlock},
		      {"memlockOnError", read_memlock_error}};

	char at[READER_PATH_MAX];
	int rc = 0;

	out->health = in->is_own ? RDMA_CONFIG_HEALTH_PORT : RDMA_CONFIG_HEALTH_OFF;
	out->topology = in->is_own;
	out->management = !in->is_own;
	out->needs = RDMA_KIND_BIT(RDMA_UVERBS);

	for (size_t i = 0; rc == 0 && i < array_length(flags); i++) {
		const struct yaml_node *node = get(entry, flags[i].key);
		path_of(at, path, flags[i].key);
		if (node)
			rc = read_bool(in, node, at, (bool *)((char *)out + flags[i].offset));
	}

	for (size_t i = 0; rc == 0 && i < array_length(values); i++) {
		const struct yaml_node *node = get(entry, values[i].key);
		path_of(at, path, values[i].key);
		if (node)
			rc = values[i].read(in, node, at, out);
	}

	return rc;
}

static int read_units(const struct rdma_reader *in, const struct yaml_node *entry, const char *path,
		      struct rdma_config_entry *out)
{
	const struct yaml_node *units = get(entry, "rdmaHcaMax");
	char at[READER_PATH_MAX], name[RDMA_CONFIG_RESOURCE_MAX];

	path_of(at, path, "rdmaHcaMax");
	int rc = units ? read_count(in, units, at, RDMA_CONFIG_UNITS_MAX, &out->units) : 0;
	if (rc < 0 || out->units > 0)
		return rc;

	rdma_config_name(out, name);
	return reader_warn(in->reader, units ? units : entry, at,
			   "resource '%.120s' advertises 0 units", name);
}

static int read_entry(const struct rdma_reader *in, const struct yaml_node *entry, const char *path,
		      struct rdma_config_entry *out)
{
	static const char *const known[] = {
	    "resourceName",   "resourcePrefix", "rdmaHcaMax",	   "devices", "selectors",
	    "healthCheck",    "topology",	"management",	   "require", "memlock",
	    "memlockOnError", "setLinkUp",	"softwareAdapters"};
	char at[READER_PATH_MAX];

	if (entry->kind != YAML_MAP)
		return wrong_kind(in, entry, path, "a map");

	int rc = check_keys(in, entry, path, known, array_length(known));
	out->line = entry->line;
	path_of(at, path, "resourceName");

	if (rc == 0)
		rc = read_name(in, get(entry, "resourceName"), at, out);
	if (rc == 0 && out->name[0] == '\0')
		return reader_error(in->reader, entry, -EINVAL, path, "resourceName is not set");

	path_of(at, path, "resourcePrefix");
	if (rc == 0)
		rc = read_prefix(in, get(entry, "resourcePrefix"), at, out);
	if (rc == 0)
		rc = read_selectors(in, entry, path, out);
	if (rc == 0)
		rc = read_additions(in, entry, path, out);

	return rc < 0 ? rc : read_units(in, entry, path, out);
}

/* The entries before it. */
static int check_name(const struct rdma_reader *in, const struct yaml_node *entry, const char *path,
		      const struct rdma_config *config, size_t index)
{
	const struct rdma_config_entry *mine = &config->entries[index];

	for (size_t i = 0; i < index; i++) {
		const struct rdma_config_entry *other = &config->entries[i];
		if (strcmp(mine->name, other->name) != 0)
			continue;

		if (strcmp(mine->prefix, other->prefix) == 0)
			return reader_error(in->reader, entry, -EINVAL, path,
					    "configList[%zu] (line %" PRIu32
					    ") is '%.120s/%s', too",
					    i, other->line, mine->prefix, mine->name);

		if (!in->is_own)
			reader_note(in->reader, entry, path,
				    "Mellanox's plugin would refuse it: it compares '%s' of "
				    "configList[%zu] without the prefix",
				    mine->name, i);
	}

	return 0;
}

static int read_list(const struct rdma_reader *in, const struct yaml_node *list, const char *path,
		     struct rdma_config *out)
{
	if (list && !yaml_is_null(list) && list->kind != YAML_LIST)
		return wrong_kind(in, list, path, "a list");
	if (!list || list->entry_count == 0)
		return err_set(in->reader->err, -EINVAL,
			       "rdma config '%s': configList: at least one entry is needed",
			       in->reader->name);

	if (list->entry_count > CONFIG_ENTRIES_MAX)
		return reader_error(in->reader, list, -E2BIG, path,
				    "%zu entries are more than the %d that are allowed",
				    list->entry_count, CONFIG_ENTRIES_MAX);

	out->entries = calloc(list->entry_count, sizeof(*out->entries));
	if (!out->entries)
		return reader_error(in->reader, list, -ENOMEM, path, "out of memory");

	out->count = list->entry_count;
	out->is_set = true;
	for (size_t i = 0; i < out->count; i++) {
		char at[READER_PATH_MAX];
		const struct yaml_node *entry = list->entries[i].value;

		(void)snprintf(at, sizeof(at), "%s[%zu]", path, i);
		int rc = read_entry(in, entry, at, &out->entries[i]);
		if (rc == 0)
			rc = check_name(in, entry, at, out, i);
		if (rc < 0)
			return rc;
	}

	return 0;
}

/* --- from outside -------------------------------------------------------------------------------
 */

int reader_rdma_list(const struct reader *reader, const struct yaml_node *node, const char *path,
		     struct rdma_config *out)
{
	const struct rdma_reader in = {.reader = reader, .is_own = true};
	return yaml_is_null(node) ? 0 : read_list(&in, node, path, out);
}

int reader_rdma_period(const struct reader *reader, const struct yaml_node *node, const char *path,
		       struct rdma_config *out)
{
	const struct rdma_reader in = {.reader = reader, .is_own = true};
	return yaml_is_null(node)
		   ? 0
		   : read_count(&in, node, path, RDMA_CONFIG_PERIOD_MAX_S, &out->period_s);
}

int reader_rdma_file(const struct reader *reader, const struct yaml_node *root,
		     struct rdma_config *out)
{
	static const char *const known[] = {"configList", "periodicUpdateInterval"};
	const struct rdma_reader in = {.reader = reader, .is_own = false};

	if (root->kind != YAML_MAP && !yaml_is_null(root))
		return wrong_kind(&in, root, "", "a map with configList");

	const struct yaml_node *period = get(root, "periodicUpdateInterval");
	int rc = check_keys(&in, root, "", known, array_length(known));
	if (rc == 0 && period)
		rc = read_count(&in, period, "periodicUpdateInterval", RDMA_CONFIG_PERIOD_MAX_S,
				&out->period_s);

	return rc < 0 ? rc : read_list(&in, get(root, "configList"), "configList", out);
}

bool reader_rdma_is_file(const struct yaml_node *root)
{
	return get(root, "configList") || get(root, "periodicUpdateInterval");
}

/* How deep brackets are nested, those in texts apart. */
static size_t json_depth(const char *text, size_t length)
{
	size_t depth = 0, deepest = 0;
	bool in_text = false;

	for (size_t i = 0; i < length; i++) {
		if (in_text && text[i] == '\\')
			i++;
		else if (text[i] == '"')
			in_text = !in_text;
		else if (!in_text && (text[i] == '{' || text[i] == '['))
			depth++;
		else if (!in_text && (text[i] == '}' || text[i] == ']'))
			depth -= depth > 0;

		deepest = depth > deepest ? depth : deepest;
	}

	return deepest;
}

int reader_rdma_check_text(const struct reader *reader, const struct yaml_node *root,
			   const char *text, size_t length)
{
	size_t depth = json_depth(text, length);
	if (depth > RDMA_CONFIG_DEPTH_MAX)
		return err_set(reader->err, -E2BIG,
			       "rdma config '%s': %zu levels are more than the %d that are allowed",
			       reader->name, depth, RDMA_CONFIG_DEPTH_MAX);

	json_t *json = json_loadb(text, length, 0, NULL);
	if (!json)
		reader_note(reader, root, "", "Mellanox's plugin would refuse it: it is no JSON");
	json_decref(json);

	return 0;
}
