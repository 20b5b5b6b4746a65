/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/names.h"
#include "base/suggest.h"
#include "base/text.h"
#include "policy/reader.h"

int reader_error(const struct reader *reader, const struct yaml_node *at, int code,
		 const char *path, const char *format, ...)
{
	char text[400];
	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	return err_set(reader->err, code, "%s:%u:%u: %s%s%s", reader->name, at->line, at->column,
		       path, *path ? ": " : "", text);
}

/* Keeps a warning; the count goes on when there is no room. */
static void config_warn(struct config *config, const struct yaml_node *at, bool is_note,
			const char *text)
{
	if (config->warning_count < CONFIG_WARNINGS_MAX) {
		struct config_warning *warning = &config->warning[config->warning_count];
		warning->line = at->line;
		warning->column = at->column;
		warning->is_note = is_note;
		(void)snprintf(warning->text, sizeof(warning->text), "%s", text);
	}

	config->warning_count++;
}

int reader_warn(const struct reader *reader, const struct yaml_node *at, const char *path,
		const char *format, ...)
{
	char text[200], whole[256];
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);

	if (reader->strict)
		return reader_error(reader, at, -EINVAL, path, "%s", text);

	(void)snprintf(whole, sizeof(whole), "%s%s%s", path, *path ? ": " : "", text);
	config_warn(reader->config, at, false, whole);
	return 0;
}

void reader_note(const struct reader *reader, const struct yaml_node *at, const char *path,
		 const char *format, ...)
{
	char text[200], whole[256];
	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	(void)snprintf(whole, sizeof(whole), "%s%s%s", path, *path ? ": " : "", text);
	config_warn(reader->config, at, true, whole);
}

static bool is_ours(const char *path)
{
	return strcmp(path, "sluice") == 0 || text_starts_with(path, "sluice.");
}

int reader_unknown(const struct reader *reader, const struct yaml_node *key, const char *parent,
		   const char *nearest)
{
	char text[160];
	(void)snprintf(text, sizeof(text), "unknown key '%.64s'%s%s%s", key->text,
		       nearest ? "; did you mean '" : "", nearest ? nearest : "",
		       nearest ? "'?" : "");
	if (is_ours(parent))
		return reader_error(reader, key, -EINVAL, parent, "%s", text);
	return reader_warn(reader, key, parent, "%s", text);
}

/* --- what stands where, besides single values ---------------------------------------------- */

static int read_gpu_rules(const struct reader *reader, const struct yaml_node *node,
			  const char *path)
{
	return reader_rules(reader, node, path, &reader->config->gpu_rules);
}

static int read_mig_rules(const struct reader *reader, const struct yaml_node *node,
			  const char *path)
{
	return reader_rules(reader, node, path, &reader->config->mig_rules);
}

static int read_time_slicing(const struct reader *reader, const struct yaml_node *node,
			     const char *path)
{
	return reader_shares(reader, node, path, &reader->config->time_slicing);
}

static int read_unsupported(const struct reader *reader, const struct yaml_node *node,
			    const char *path)
{
	if (yaml_is_null(node))
		return 0;
	return reader_error(
	    reader, node, -EINVAL, "",
	    "%s is not supported yet; remove it or keep NVIDIA's plugin on this node", path);
}

/* Ours alone: NVIDIA's plugin would not help. */
static int read_fair_share(const struct reader *reader, const struct yaml_node *node,
			   const char *path)
{
	if (yaml_is_null(node))
		return 0;
	return reader_error(reader, node, -EINVAL, "", "%s is not supported yet; remove it", path);
}

static int read_include(const struct reader *reader, const struct yaml_node *node, const char *path)
{
	return reader_selectors(reader, node, path, &reader->config->include);
}

static int read_exclude(const struct reader *reader, const struct yaml_node *node, const char *path)
{
	return reader_selectors(reader, node, path, &reader->config->exclude);
}

static int read_door(const struct reader *reader, const struct yaml_node *node, const char *path)
{
	const char *word = path + strlen("sluice.doors.");

	for (int door = 0; door < POLICY_DOOR_NONE; door++) {
		const char *name = policy_door_to_string((enum policy_door)door);
		if (text_starts_with(word, name) && word[strlen(name)] == '.')
			return reader_door(reader, node, path, &reader->config->doors[door]);
	}

	return reader_error(reader, node, -EINVAL, "", "%s: no door has this name", path);
}

static int read_rdma_period(const struct reader *reader, const struct yaml_node *node,
			    const char *path)
{
	return reader_rdma_period(reader, node, path, &reader->config->rdma);
}

static int read_rdma_list(const struct reader *reader, const struct yaml_node *node,
			  const char *path)
{
	return reader_rdma_list(reader, node, path, &reader->config->rdma);
}

static int read_groups(const struct reader *reader, const struct yaml_node *node, const char *path)
{
	return reader_groups(reader, node, path, &reader->config->jobs);
}

static int read_volumes(const struct reader *reader, const struct yaml_node *node, const char *path)
{
	return reader_volumes(reader, node, path, &reader->config->jobs);
}

struct reader_special {
	const char *path;
	int (*read)(const struct reader *reader, const struct yaml_node *node, const char *path);
};

#define DOOR_DEVICES(name, word) {"sluice.doors." word ".devices", read_door},

static const struct reader_special specials[] = {
    {"resources.gpus", read_gpu_rules},
    {"resources.mig", read_mig_rules},
    {"sharing.timeSlicing.resources", read_time_slicing},
    {"sharing.mps", read_unsupported},
    {"sharing.fairShare", read_fair_share},
    {"sluice.devices.include", read_include},
    {"sluice.devices.exclude", read_exclude},
    {"sluice.jobs.groups", read_groups},
    {"sluice.jobs.volumes", read_volumes},
    {"sluice.rdma.periodicUpdateInterval", read_rdma_period},
    {"sluice.rdma.configList", read_rdma_list},
    POLICY_DOORS(DOOR_DEVICES)};

/* --- the walk -------------------------------------------------------------------------------- */

/* Path number `index` of all that mean something. NULL behind the last. */
static const char *known_path(size_t index)
{
	if (index < SCHEMA_COUNT)
		return schema_row((enum schema_id)index)->path;
	index -= SCHEMA_COUNT;
	return index < array_length(specials) ? specials[index].path : NULL;
}

/* Go's decoder does not care about the case of names, but ours in sharing and resources do. */
static bool is_exact(const char *path)
{
	return text_starts_with(path, "sharing.") || text_starts_with(path, "resources.");
}

static bool path_same(const char *known, const char *path, size_t length)
{
	return (is_exact(known) ? strncmp(known, path, length)
				: strncasecmp(known, path, length)) == 0;
}

/* How `path` is written where it is known, whole or as the start of something longer. */
static bool path_resolve(char path[READER_PATH_MAX])
{
	size_t length = strlen(path);
	const char *known;

	for (size_t i = 0; (known = known_path(i)); i++) {
		if (path_same(known, path, length) &&
		    (known[length] == '\0' || known[length] == '.')) {
			memcpy(path, known, length);
			return true;
		}
	}

	return false;
}

/* The nearest key that would be right below `parent`. Returns `out` or NULL. */
static const char *path_nearest(const char *parent, const char *key, char out[READER_PATH_MAX])
{
	char word[READER_PATH_MAX];
	size_t length = strlen(parent);
	const char *known;

	out[0] = '\0';
	for (size_t i = 0; (known = known_path(i)); i++) {
		if (length > 0 && (strncmp(known, parent, length) != 0 || known[length] != '.'))
			continue;

		const char *rest = known + length + (length > 0);
		(void)snprintf(word, sizeof(word), "%.*s", (int)strcspn(rest, "."), rest);

		/* The nearest so far against one more. */
		const char *const pair[] = {out, word};
		if (suggest_nearest(key, pair, 2) == word)
			memcpy(out, word, sizeof(word));
	}

	return out[0] != '\0' ? out : NULL;
}

/* A value that the schema describes. A list of words is the same as the words with commas. */
static int read_setting(const struct reader *reader, enum schema_id id,
			const struct yaml_node *node)
{
	const struct schema_row *row = schema_row(id);
	struct err inner = {0};
	_cleanup_buf_ struct buf words;

	buf_init(&words, CONFIG_TEXT_MAX);
	const char *text = node->text;

	if (yaml_is_null(node))
		return 0;

	if (schema_is_list(row) && node->kind == YAML_LIST) {
		for (size_t i = 0; i < node->entry_count; i++) {
			const struct yaml_node *word = node->entries[i].value;
			if (word->kind != YAML_SCALAR || strchr(word->text, ','))
				return reader_error(reader, word, -EINVAL, row->path,
						    "expected a list of %s%s",
						    row->words		  ? "words from "
						    : schema_is_text(row) ? "names"
									  : "numbers",
						    row->words ? row->words : "");

			int rc = buf_printf(&words, "%s%s", i ? "," : "", word->text);
			if (rc < 0)
				return reader_error(reader, node, rc, row->path, "too many words");
		}

		text = buf_text(&words);
	} else if (node->kind != YAML_SCALAR) {
		char found[80];
		return reader_error(reader, node, -EINVAL, row->path,
				    "expected one value, found %s",
				    yaml_describe(node, found, sizeof(found)));
	}

	int rc = schema_set(reader->config, id, text, &inner);
	if (rc < 0)
		return reader_error(reader, node, rc, row->path, "%s", inner.text);

	reader->config->source[id] = CONFIG_FILE;
	if (id == SCHEMA_LABELS_MODE) {
		reader->config->labels.mode_line = node->line;
		reader->config->labels.mode_column = node->column;
	}

	return 0;
}

static int read_map(const struct reader *reader, const struct yaml_node *map, const char *parent);

static int read_entry(const struct reader *reader, const struct yaml_entry *entry,
		      const char *parent, char path[READER_PATH_MAX])
{
	int length =
	    snprintf(path, READER_PATH_MAX, "%s%s%s", parent, *parent ? "." : "", entry->key->text);
	if (length >= READER_PATH_MAX || !path_resolve(path)) {
		char nearest[READER_PATH_MAX];
		return reader_unknown(reader, entry->key, parent,
				      path_nearest(parent, entry->key->text, nearest));
	}

	for (size_t i = 0; i < SCHEMA_COUNT; i++) {
		if (strcmp(schema_row((enum schema_id)i)->path, path) == 0)
			return read_setting(reader, (enum schema_id)i, entry->value);
	}

	for (size_t i = 0; i < array_length(specials); i++) {
		if (strcmp(specials[i].path, path) == 0)
			return specials[i].read(reader, entry->value, path);
	}

	/* A part of known paths: it goes as deep as they do, four levels. */
	return read_map(reader, entry->value, path);
}

/* Two keys that differ in case only: Go's decoder would take either. */
int reader_same_key(const struct reader *reader, const struct yaml_node *map, size_t index,
		    const char *parent)
{
	const struct yaml_node *key = map->entries[index].key;

	for (size_t i = 0; i < index; i++) {
		if (strcasecmp(map->entries[i].key->text, key->text) == 0)
			return reader_error(reader, key, -EINVAL, parent,
					    "'%.64s' and '%.64s' (line %u) are the same key",
					    key->text, map->entries[i].key->text,
					    map->entries[i].key->line);
	}

	return 0;
}

static int read_map(const struct reader *reader, const struct yaml_node *map, const char *parent)
{
	if (yaml_is_null(map))
		return 0;

	char found[80];

	if (map->kind != YAML_MAP)
		return reader_error(reader, map, -EINVAL, parent, "expected a map, found %s",
				    yaml_describe(map, found, sizeof(found)));
	if (map->entry_count > CONFIG_ENTRIES_MAX)
		return reader_error(reader, map, -E2BIG, parent, "%zu keys are more than %d",
				    map->entry_count, CONFIG_ENTRIES_MAX);

	for (size_t i = 0; i < map->entry_count; i++) {
		char path[READER_PATH_MAX];
		int rc = is_exact(parent) ? 0 : reader_same_key(reader, map, i, parent);
		if (rc == 0)
			rc = read_entry(reader, &map->entries[i], parent, path);
		if (rc < 0)
			return rc;
	}

	if (strcmp(parent, "sharing.timeSlicing") == 0 && !yaml_get(map, "resources"))
		return reader_error(reader, map, -EINVAL, parent, "no resources specified");

	return 0;
}

/* --- the whole ------------------------------------------------------------------------------- */

static int config_set_defaults(struct config *config, struct err *err)
{
	for (size_t i = 0; i < SCHEMA_COUNT; i++) {
		const struct schema_row *row = schema_row((enum schema_id)i);
		int rc = schema_set(config, (enum schema_id)i, row->default_text, err);
		if (rc < 0) {
			(void)err_wrap(err, "default of '%s'", row->path);
			return rc; /* `err` may be NULL */
		}
	}

	return 0;
}

/* Go's strconv.ParseBool, which reads the peer's flags and variables, knows these as well. */
static const char *override_text(const struct schema_row *row, const char *text)
{
	static const char *const yes[] = {"1", "t", "T"}, *const no[] = {"0", "f", "F"};

	if (row->type != SCHEMA_BOOL)
		return text;

	return names_find(yes, text) >= 0 ? "true" : names_find(no, text) >= 0 ? "false" : text;
}

static int config_override(struct config *config, const struct config_overrides *overrides,
			   struct err *err)
{
	for (size_t i = 0; i < SCHEMA_COUNT; i++) {
		const struct schema_row *row = schema_row((enum schema_id)i);
		const char *flag = overrides->flag[i], *environment = overrides->environment[i];

		if (!flag && !environment)
			continue;

		const char *text = override_text(row, flag ? flag : environment);
		int rc = schema_set(config, (enum schema_id)i, text, err);
		if (rc < 0) {
			(void)err_wrap(err, flag ? "--%s" : "environment variable %s",
				       flag ? row->flag : row->variable);
			return rc;
		}

		config->source[i] = flag ? CONFIG_FLAG : CONFIG_ENVIRONMENT;
	}

	return 0;
}

/* `later` comes behind `earlier` in the table of doors. */
static int config_check_pair(const struct config *config, enum policy_door earlier,
			     enum policy_door later, const char *name, struct err *err)
{
	const struct config_door *one = &config->doors[earlier], *two = &config->doors[later];
	const char *one_word = policy_door_to_string(earlier);
	const char *two_word = policy_door_to_string(later);

	if (one->all && two->all)
		return err_set(err, -EINVAL,
			       "%s: sluice.doors: both the %s and the %s are given all devices; a "
			       "device belongs to one door at a time",
			       name, one_word, two_word);

	for (size_t i = 0; i < two->devices.count; i++) {
		const struct config_selector *mine = &two->devices.items[i];

		for (size_t k = 0; k < one->devices.count; k++) {
			const struct config_selector *other = &one->devices.items[k];
			if (mine->kind == other->kind && strcmp(mine->text, other->text) == 0)
				return err_set(err, -EINVAL,
					       "%s:%u:%u: sluice.doors.%s.devices: '%s' is given "
					       "to the %s too (line %u); a device belongs to one "
					       "door at a time",
					       name, mine->line, mine->column, two_word, mine->text,
					       one_word, other->line);
		}
	}

	return 0;
}

static int config_check_doors(const struct config *config, const char *name, struct err *err)
{
	int rc = 0;

	for (int later = 1; later < POLICY_DOOR_NONE; later++) {
		for (int earlier = 0; rc == 0 && earlier < later; earlier++)
			rc = config_check_pair(config, (enum policy_door)earlier,
					       (enum policy_door)later, name, err);
	}

	return rc;
}

static int config_check_health(const struct config *config, const char *name, struct err *err)
{
	const struct config_codes *ignore = &config->health.ignore, *fatal = &config->health.fatal;

	for (uint32_t i = 0; i < ignore->count; i++) {
		for (uint32_t k = 0; k < fatal->count; k++) {
			if (ignore->code[i] == fatal->code[k])
				return err_set(err, -EINVAL,
					       "%s: sluice.health: XID %u is in both ignoreXids "
					       "and fatalXids",
					       name, (unsigned)ignore->code[i]);
		}
	}

	return 0;
}

/* Names that renameByDefault would make too long for Kubernetes. */
static int config_check_names(const struct config *config, const char *name, struct err *err)
{
	const struct config_sharing *sharing = &config->time_slicing;

	for (size_t i = 0; sharing->rename_by_default && i < sharing->count; i++) {
		const struct config_share *share = &sharing->items[i];
		if (share->rename[0] == '\0' &&
		    strlen(share->name) + strlen(".shared") >= CONFIG_NAME_MAX)
			return err_set(
			    err, -EINVAL,
			    "%s:%u:1: sharing.timeSlicing.resources[%zu]: fully-qualified "
			    "resource name must be 63 characters or less: %s.shared",
			    name, share->line, i, share->name);
	}

	return 0;
}

/* CDI names come from NVML's devices. */
static int config_check_strategy(const struct config *config, const char *name, struct err *err)
{
	char discovery[32] = "";
	(void)schema_format(config, SCHEMA_DISCOVERY, discovery, sizeof(discovery));

	if (strcmp(discovery, "tegra") != 0 ||
	    !(config->list_strategy & (CONFIG_LIST_CDI_ANNOTATIONS | CONFIG_LIST_CDI_CRI)))
		return 0;

	return err_set(err, -EINVAL,
		       "%s: CDI --device-list-strategy options are only supported on NVML-based "
		       "systems; the device discovery strategy is tegra",
		       name);
}

/* Two ways for the labels at once: `auto` alone leaves it to flags.useNodeFeatureAPI. */
static int config_check_labels(const struct config *config, const char *name, struct err *err)
{
	bool wants_api = config->use_node_feature_api;
	char place[32] = "", text[16] = "";

	if (config->source[SCHEMA_USE_NODE_FEATURE_API] == CONFIG_DEFAULT ||
	    config->labels.mode == CONFIG_LABELS_AUTO ||
	    wants_api == (config->labels.mode == CONFIG_LABELS_NODEFEATURE))
		return 0;

	if (config->labels.mode_line > 0)
		(void)snprintf(place, sizeof(place), ":%u:%u", config->labels.mode_line,
			       config->labels.mode_column);

	(void)schema_format(config, SCHEMA_LABELS_MODE, text, sizeof(text));
	return err_set(err, -EINVAL,
		       "%s%s: sluice.labels.mode: '%s', and useNodeFeatureAPI is %s: labels are "
		       "published in one way; remove one of the two",
		       name, place, text, wants_api ? "true" : "false");
}

/* Adapters are told of in one place. */
static int config_check_rdma(const struct config *config, const char *name, struct err *err)
{
	bool has_file = config->source[SCHEMA_RDMA_FILE] != CONFIG_DEFAULT && *config->rdma_file;
	if (!has_file || !config->rdma.is_set)
		return 0;
	return err_set(err, -EINVAL,
		       "%s: sluice.rdma: both configFile ('%.200s') and configList are set; keep "
		       "one of them",
		       name, config->rdma_file);
}

/* A group has what everybody has, where nothing else is said: known when all is read. */
static void config_complete_groups(struct config_jobs *jobs)
{
	for (size_t i = 0; i < jobs->group_count; i++) {
		struct config_group *group = &jobs->groups[i];
		if (group->pending == CONFIG_AS_ALL)
			group->pending = jobs->limit_pending;
		if (group->gpus == CONFIG_AS_ALL)
			group->gpus = jobs->limit_gpus;
	}
}

/* What the text is. */
enum config_form { CONFIG_OURS, CONFIG_RDMA };

static int config_read_text(const struct reader *reader, const char *text, size_t length,
			    enum config_form form)
{
	struct yaml *yaml = NULL;
	int rc = yaml_parse(text, length, reader->name, &yaml, reader->err);
	if (rc == 0 && form == CONFIG_OURS)
		rc = read_map(reader, yaml_root(yaml), "");
	else if (rc == 0)
		rc = reader_rdma_check_text(reader, yaml_root(yaml), text, length);

	if (rc == 0 && form == CONFIG_RDMA)
		rc = reader_rdma_file(reader, yaml_root(yaml), &reader->config->rdma);
	(void)yaml_free(yaml);
	return rc;
}

static int config_read(struct config *config, const char *text, size_t length,
		       enum config_form form, const char *name,
		       const struct config_overrides *overrides, bool strict, struct err *err)
{
	const struct reader reader = {.name = name, .strict = strict, .config = config, .err = err};
	int rc = config_set_defaults(config, err);

	config->rdma.period_s = RDMA_CONFIG_PERIOD_S;
	if (rc == 0 && text)
		rc = config_read_text(&reader, text, length, form);
	if (rc == 0 && overrides)
		rc = config_override(config, overrides, err);
	if (rc == 0)
		config_complete_groups(&config->jobs);

	if (rc == 0)
		rc = config_check_strategy(config, name, err);
	if (rc == 0)
		rc = config_check_names(config, name, err);
	if (rc == 0)
		rc = config_check_doors(config, name, err);
	if (rc == 0)
		rc = config_check_health(config, name, err);

	if (rc == 0)
		rc = config_check_labels(config, name, err);
	if (rc == 0 && form == CONFIG_OURS)
		rc = config_check_rdma(config, name, err);

	return rc;
}

static int config_make(const char *text, size_t length, enum config_form form, const char *name,
		       const struct config_overrides *overrides, bool strict, struct config **out,
		       struct err *err)
{
	struct config *config = calloc(1, sizeof(*config));
	if (!config)
		return err_set(err, -ENOMEM, "%s: out of memory", name);

	int rc = config_read(config, text, length, form, name, overrides, strict, err);
	if (rc < 0) {
		(void)config_free(config);
		return rc;
	}

	*out = config;
	return 0;
}

int config_parse(const char *text, size_t length, const char *name,
		 const struct config_overrides *overrides, bool strict, struct config **out,
		 struct err *err)
{
	return config_make(text, length, CONFIG_OURS, name, overrides, strict, out, err);
}

int config_parse_rdma(const char *text, size_t length, const char *name,
		      const struct config_overrides *overrides, bool strict, struct config **out,
		      struct err *err)
{
	return config_make(text, length, CONFIG_RDMA, name, overrides, strict, out, err);
}

bool config_is_rdma(const char *text, size_t length)
{
	struct yaml *yaml = NULL;
	bool is_rdma =
	    yaml_parse(text, length, "", &yaml, NULL) == 0 && reader_rdma_is_file(yaml_root(yaml));
	(void)yaml_free(yaml);
	return is_rdma;
}

struct config *config_free(struct config *config)
{
	if (!config)
		return NULL;

	for (size_t i = 0; i < SCHEMA_COUNT; i++) {
		const struct schema_row *row = schema_row((enum schema_id)i);
		if (schema_is_text(row))
			free(*(char **)((char *)config + row->offset));
	}

	free(config->gpu_rules.items);
	free(config->mig_rules.items);
	reader_shares_done(&config->time_slicing);
	reader_selectors_done(&config->include);
	reader_selectors_done(&config->exclude);
	for (int door = 0; door < POLICY_DOOR_NONE; door++)
		reader_selectors_done(&config->doors[door].devices);
	reader_jobs_done(&config->jobs);
	rdma_config_done(&config->rdma);
	free(config);

	return NULL;
}

int config_load(const char *path, const struct config_overrides *overrides, bool strict,
		struct config **out, struct err *err)
{
	_cleanup_buf_ struct buf text;
	buf_init(&text, YAML_TEXT_MAX);
	int rc = file_read(path, &text, err);
	if (rc < 0)
		return rc;
	return config_parse(buf_text(&text), text.length, path, overrides, strict, out, err);
}

int config_load_rdma(const char *path, bool strict, struct config **out, struct err *err)
{
	_cleanup_buf_ struct buf text;
	buf_init(&text, YAML_TEXT_MAX);
	int rc = file_read(path, &text, err);
	if (rc < 0)
		return rc;
	return config_parse_rdma(buf_text(&text), text.length, path, NULL, strict, out, err);
}

int config_load_any(const char *path, const struct config_overrides *overrides, bool strict,
		    struct config **out, struct err *err)
{
	_cleanup_buf_ struct buf text;
	buf_init(&text, YAML_TEXT_MAX);

	int rc = file_read(path, &text, err);
	if (rc < 0)
		return rc;

	bool is_rdma = config_is_rdma(buf_text(&text), text.length);
	return config_make(buf_text(&text), text.length, is_rdma ? CONFIG_RDMA : CONFIG_OURS, path,
			   overrides, strict, out, err);
}

void config_overrides_environment(struct config_overrides *overrides)
{
	for (size_t i = 0; i < SCHEMA_COUNT; i++) {
		const char *variable = schema_row((enum schema_id)i)->variable;
		const char *value = variable ? getenv(variable) : NULL;
		/* An empty variable is not set, as the peer's flag library has it. */
		overrides->environment[i] = value && *value ? value : NULL;
	}
}

bool config_pattern_matches(const char *pattern, const char *text)
{
	/* Where to go on when a guess about the last '*' was wrong: no recursion, no blow-up. */
	const char *star = NULL, *resume = NULL;

	while (*text != '\0') {
		if (*pattern == '*') {
			star = pattern++;
			resume = text;
		} else if (*pattern == *text) {
			pattern++;
			text++;
		} else if (star) {
			pattern = star + 1;
			text = ++resume;
		} else {
			return false;
		}
	}

	while (*pattern == '*')
		pattern++;

	return *pattern == '\0';
}

const char *config_source_to_string(uint32_t source)
{
	static const char *const names[] = {"default", "file", "environment", "flag"};
	return names_at(names, source, "unknown");
}
