/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/document.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/names.h"
#include "base/parse.h"

/* What is read, and the lowest version that what was read so far needs: a place in the table. */
struct document_reader {
	const char *name;
	unsigned needed;
	const char *needed_by;
	struct err *err;
};

static const char *const document_versions[] = {"0.3.0", "0.4.0", "0.5.0", "0.6.0",
						"0.7.0", "0.8.0", "1.0.0", "1.1.0"};
enum document_version { V030, V040, V050, V060, V070, V080, V100, V110 };

typedef int (*document_check_fn)(struct document_reader *reader, const struct yaml_node *node,
				 const char *path);

/* Of a list, which may be left out, `check` is of each member. */
enum document_use { DOCUMENT_OPTIONAL, DOCUMENT_REQUIRED, DOCUMENT_LIST };

struct document_field {
	const char *key;
	document_check_fn check;
	enum document_version since;
	enum document_use use;
};

static int document_fail(const struct document_reader *reader, const struct yaml_node *node,
			 const char *path, const char *what)
{
	char found[64];
	return err_set(reader->err, -EINVAL, "%s:%u:%u: %s: %s, not %s", reader->name, node->line,
		       node->column, path, what, yaml_describe(node, found, sizeof(found)));
}

static void document_need(struct document_reader *reader, enum document_version version,
			  const char *what)
{
	if (version <= reader->needed)
		return;
	reader->needed = version;
	reader->needed_by = what;
}

static int document_list(struct document_reader *reader, const struct yaml_node *node,
			 const char *path, document_check_fn check)
{
	if (yaml_is_null(node))
		return 0; /* Go writes an empty list so */
	if (node->kind != YAML_LIST)
		return document_fail(reader, node, path, "has to be a list");

	int rc = 0;
	for (size_t i = 0; rc == 0 && i < node->entry_count; i++)
		rc = check(reader, node->entries[i].value, path);

	return rc;
}

/* Every key is one of the table, and those that are required are there. */
static int document_map(struct document_reader *reader, const struct yaml_node *node,
			const char *path, const struct document_field *fields, size_t count)
{
	if (node->kind != YAML_MAP)
		return document_fail(reader, node, path, "has to be a map");

	for (size_t i = 0; i < node->entry_count; i++) {
		const struct yaml_node *key = node->entries[i].key;
		size_t at = 0;
		while (at < count && strcmp(fields[at].key, key->text) != 0)
			at++;

		if (at == count)
			return document_fail(reader, key, path, "has no such field");

		const struct document_field *field = &fields[at];
		const struct yaml_node *value = node->entries[i].value;
		document_need(reader, field->since, field->key);
		int rc = field->use == DOCUMENT_LIST
			     ? document_list(reader, value, field->key, field->check)
			     : field->check(reader, value, field->key);
		if (rc < 0)
			return rc;
	}

	for (size_t i = 0; i < count; i++)
		if (fields[i].use == DOCUMENT_REQUIRED && !yaml_get(node, fields[i].key))
			return err_set(reader->err, -EINVAL, "%s:%u:%u: %s: needs '%s'",
				       reader->name, node->line, node->column, path, fields[i].key);

	return 0;
}

static int document_text(struct document_reader *reader, const struct yaml_node *node,
			 const char *path)
{
	if (node->kind != YAML_SCALAR || (!node->quoted && yaml_is_null(node)))
		return document_fail(reader, node, path, "has to be a text");
	return 0;
}

/* Absolute, and without "..": it would lead elsewhere than it says. */
static int document_path(struct document_reader *reader, const struct yaml_node *node,
			 const char *path)
{
	int rc = document_text(reader, node, path);
	if (rc < 0)
		return rc;
	if (node->text[0] != '/')
		return document_fail(reader, node, path, "has to be an absolute path");

	for (const char *at = node->text; (at = strstr(at, "/..")); at += 3)
		if (at[3] == '/' || at[3] == '\0')
			return document_fail(reader, node, path, "has to be a path without '..'");

	return 0;
}

static int document_number(struct document_reader *reader, const struct yaml_node *node,
			   const char *path)
{
	int64_t value;
	if (node->kind != YAML_SCALAR || node->quoted ||
	    parse_i64(node->text, -1, UINT32_MAX, &value) < 0)
		return document_fail(reader, node, path, "has to be a number");
	return 0;
}

static int document_unsigned(struct document_reader *reader, const struct yaml_node *node,
			     const char *path)
{
	int64_t value;
	if (node->kind != YAML_SCALAR || node->quoted ||
	    parse_i64(node->text, 0, UINT32_MAX, &value) < 0)
		return document_fail(reader, node, path, "has to be a number, 0 or above");
	return 0;
}

static int document_timeout(struct document_reader *reader, const struct yaml_node *node,
			    const char *path)
{
	int64_t value;
	if (node->kind != YAML_SCALAR || node->quoted ||
	    parse_i64(node->text, 1, INT32_MAX, &value) < 0)
		return document_fail(reader, node, path, "has to be a number of seconds above 0");
	return 0;
}

static int document_bool(struct document_reader *reader, const struct yaml_node *node,
			 const char *path)
{
	if (node->kind != YAML_SCALAR || node->quoted ||
	    (strcmp(node->text, "true") != 0 && strcmp(node->text, "false") != 0))
		return document_fail(reader, node, path, "has to be true or false");
	return 0;
}

static int document_variable(struct document_reader *reader, const struct yaml_node *node,
			     const char *path)
{
	int rc = document_text(reader, node, path);
	const char *equals = rc == 0 ? strchr(node->text, '=') : NULL;
	if (rc == 0 && (!equals || equals == node->text))
		rc = document_fail(reader, node, path, "has to be NAME=VALUE");
	return rc;
}

static int document_permissions(struct document_reader *reader, const struct yaml_node *node,
				const char *path)
{
	int rc = document_text(reader, node, path);
	if (rc == 0 && strspn(node->text, "rwm") != node->length && strcmp(node->text, "none") != 0)
		rc = document_fail(reader, node, path, "has to be of 'r', 'w', 'm'");
	return rc;
}

static int document_type(struct document_reader *reader, const struct yaml_node *node,
			 const char *path)
{
	int rc = document_text(reader, node, path);
	if (rc == 0 && (node->length > 1 || strspn(node->text, "bcup") != node->length))
		rc = document_fail(reader, node, path, "has to be 'b', 'c', 'u' or 'p'");
	return rc;
}

static int document_stage(struct document_reader *reader, const struct yaml_node *node,
			  const char *path)
{
	static const char *const stages[] = {"prestart",       "createRuntime", "createContainer",
					     "startContainer", "poststart",	"poststop"};
	int rc = document_text(reader, node, path);
	if (rc == 0 && names_find(stages, node->text) < 0)
		rc = document_fail(reader, node, path, "has to be a stage of a hook");
	return rc;
}

static int document_node(struct document_reader *reader, const struct yaml_node *node,
			 const char *path)
{
	static const struct document_field fields[] = {
	    {"path", document_path, V030, DOCUMENT_REQUIRED},
	    {"hostPath", document_path, V050, DOCUMENT_OPTIONAL},
	    {"type", document_type, V030, DOCUMENT_OPTIONAL},
	    {"major", document_number, V030, DOCUMENT_OPTIONAL},
	    {"minor", document_number, V030, DOCUMENT_OPTIONAL},
	    {"fileMode", document_unsigned, V030, DOCUMENT_OPTIONAL},
	    {"permissions", document_permissions, V030, DOCUMENT_OPTIONAL},
	    {"uid", document_unsigned, V030, DOCUMENT_OPTIONAL},
	    {"gid", document_unsigned, V030, DOCUMENT_OPTIONAL},
	};
	return document_map(reader, node, path, fields, array_length(fields));
}

static int document_mount(struct document_reader *reader, const struct yaml_node *node,
			  const char *path)
{
	static const struct document_field fields[] = {
	    {"hostPath", document_path, V030, DOCUMENT_REQUIRED},
	    {"containerPath", document_path, V030, DOCUMENT_REQUIRED},
	    {"type", document_text, V040, DOCUMENT_OPTIONAL},
	    {"options", document_text, V030, DOCUMENT_LIST},
	};
	return document_map(reader, node, path, fields, array_length(fields));
}

static int document_hook(struct document_reader *reader, const struct yaml_node *node,
			 const char *path)
{
	static const struct document_field fields[] = {
	    {"hookName", document_stage, V030, DOCUMENT_REQUIRED},
	    {"path", document_path, V030, DOCUMENT_REQUIRED},
	    {"args", document_text, V030, DOCUMENT_LIST},
	    {"env", document_variable, V030, DOCUMENT_LIST},
	    {"timeout", document_timeout, V030, DOCUMENT_OPTIONAL},
	};
	return document_map(reader, node, path, fields, array_length(fields));
}

static int document_rdt(struct document_reader *reader, const struct yaml_node *node,
			const char *path)
{
	static const struct document_field fields[] = {
	    {"closID", document_text, V070, DOCUMENT_OPTIONAL},
	    {"l3CacheSchema", document_text, V070, DOCUMENT_OPTIONAL},
	    {"memBwSchema", document_text, V070, DOCUMENT_OPTIONAL},
	    {"enableCMT", document_bool, V070, DOCUMENT_OPTIONAL},
	    {"enableMBM", document_bool, V070, DOCUMENT_OPTIONAL},
	    {"schemata", document_text, V110, DOCUMENT_LIST},
	    {"enableMonitoring", document_bool, V110, DOCUMENT_OPTIONAL},
	};
	return document_map(reader, node, path, fields, array_length(fields));
}

static int document_net(struct document_reader *reader, const struct yaml_node *node,
			const char *path)
{
	static const struct document_field fields[] = {
	    {"hostInterfaceName", document_text, V110, DOCUMENT_REQUIRED},
	    {"name", document_text, V110, DOCUMENT_REQUIRED},
	};
	return document_map(reader, node, path, fields, array_length(fields));
}

static int document_edits(struct document_reader *reader, const struct yaml_node *node,
			  const char *path)
{
	static const struct document_field fields[] = {
	    {"env", document_variable, V030, DOCUMENT_LIST},
	    {"deviceNodes", document_node, V030, DOCUMENT_LIST},
	    {"mounts", document_mount, V030, DOCUMENT_LIST},
	    {"hooks", document_hook, V030, DOCUMENT_LIST},
	    {"additionalGids", document_unsigned, V070, DOCUMENT_LIST},
	    {"intelRdt", document_rdt, V070, DOCUMENT_OPTIONAL},
	    {"netDevices", document_net, V110, DOCUMENT_LIST},
	};
	return document_map(reader, node, path, fields, array_length(fields));
}

/* Those of a device must change something. */
static int document_own_edits(struct document_reader *reader, const struct yaml_node *node,
			      const char *path)
{
	int rc = document_edits(reader, node, path);
	size_t filled = 0;
	for (size_t i = 0; rc == 0 && i < node->entry_count; i++)
		filled += node->entries[i].value->entry_count > 0;
	return rc == 0 && filled == 0
		   ? document_fail(reader, node, path, "has to change something in the container")
		   : rc;
}

static int document_annotations(struct document_reader *reader, const struct yaml_node *node,
				const char *path)
{
	if (node->kind != YAML_MAP)
		return document_fail(reader, node, path, "has to be a map");
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < node->entry_count; i++)
		rc = document_text(reader, node->entries[i].value, path);
	return rc;
}

static bool document_is_letter(char letter)
{
	return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
}

/* `inner` are the characters that may stand between the first and the last. */
static bool document_is_word(const char *text, size_t length, const char *inner, bool digit_first)
{
	if (length == 0 || length >= DOCUMENT_NAME_MAX)
		return false;

	for (size_t i = 0; i < length; i++) {
		bool is_digit = text[i] >= '0' && text[i] <= '9';
		bool at_edge = i == 0 || i == length - 1;

		if (document_is_letter(text[i]) || (is_digit && (i > 0 || digit_first)))
			continue;
		if (is_digit || at_edge || !strchr(inner, text[i]))
			return false;
	}

	return true;
}

bool document_is_kind(const char *text)
{
	const char *slash = strchr(text, '/');
	return slash && strlen(text) < DOCUMENT_NAME_MAX &&
	       document_is_word(text, (size_t)(slash - text), "_.-", false) &&
	       document_is_word(slash + 1, strlen(slash + 1), "_.-", false);
}

bool document_is_device(const char *text)
{
	return document_is_word(text, strlen(text), "_.:-", true);
}

static int document_device_name(struct document_reader *reader, const struct yaml_node *node,
				const char *path)
{
	int rc = document_text(reader, node, path);
	if (rc == 0 && !document_is_device(node->text))
		rc = document_fail(reader, node, path, "has to be the name of a device");
	if (rc == 0 && !document_is_letter(node->text[0]))
		document_need(reader, V050, "a device name that begins with a digit");
	return rc;
}

static int document_device(struct document_reader *reader, const struct yaml_node *node,
			   const char *path)
{
	static const struct document_field fields[] = {
	    {"name", document_device_name, V030, DOCUMENT_REQUIRED},
	    {"annotations", document_annotations, V060, DOCUMENT_OPTIONAL},
	    {"containerEdits", document_own_edits, V030, DOCUMENT_REQUIRED},
	};
	return document_map(reader, node, path, fields, array_length(fields));
}

static int document_name_compare(const void *left, const void *right)
{
	const struct yaml_node *const *a = left, *const *b = right;
	return strcmp((*a)->text, (*b)->text);
}

/* No device twice. -ENOMEM. */
static int document_devices(struct document_reader *reader, const struct yaml_node *node,
			    const char *path)
{
	int rc = document_list(reader, node, path, document_device);
	if (rc < 0)
		return rc;
	if (node->entry_count == 0)
		return document_fail(reader, node, path, "has to name at least one device");
	if (node->entry_count > DOCUMENT_DEVICES_MAX)
		return err_set(reader->err, -E2BIG, "%s: more than %d devices", reader->name,
			       DOCUMENT_DEVICES_MAX);

	_cleanup_free_ const struct yaml_node **names = calloc(node->entry_count, sizeof(*names));
	if (!names)
		return err_set(reader->err, -ENOMEM, "%s: out of memory", reader->name);

	for (size_t i = 0; i < node->entry_count; i++)
		names[i] = yaml_get(node->entries[i].value, "name");

	qsort(names, node->entry_count, sizeof(names[0]), document_name_compare);

	for (size_t i = 1; i < node->entry_count; i++)
		if (strcmp(names[i]->text, names[i - 1]->text) == 0)
			return document_fail(reader, names[i], path,
					     "has to name each device once");

	return 0;
}

static int document_kind(struct document_reader *reader, const struct yaml_node *node,
			 const char *path)
{
	int rc = document_text(reader, node, path);
	if (rc == 0 && !document_is_kind(node->text))
		rc = document_fail(reader, node, path, "has to be VENDOR/CLASS");
	if (rc == 0 && strchr(strchr(node->text, '/'), '.'))
		document_need(reader, V060, "a dot in the class");
	return rc;
}

int document_version_rank(const char *version)
{
	return names_find(document_versions, version + (version[0] == 'v'));
}

static int document_check_version(struct document_reader *reader, const struct yaml_node *node)
{
	int rank = document_version_rank(node->text);
	if (rank < 0)
		return document_fail(reader, node, "cdiVersion",
				     "has to be a version from 0.3.0 to 1.1.0");
	if ((unsigned)rank >= reader->needed)
		return 0;

	return err_set(reader->err, -EINVAL, "%s:%u:%u: cdiVersion is %s, and %s needs %s",
		       reader->name, node->line, node->column, document_versions[rank],
		       reader->needed_by, document_versions[reader->needed]);
}

int document_parse(const char *text, size_t length, const char *name, struct document *out,
		   struct err *err)
{
	static const struct document_field fields[] = {
	    {"cdiVersion", document_text, V030, DOCUMENT_REQUIRED},
	    {"kind", document_kind, V030, DOCUMENT_REQUIRED},
	    {"annotations", document_annotations, V060, DOCUMENT_OPTIONAL},
	    {"devices", document_devices, V030, DOCUMENT_REQUIRED},
	    {"containerEdits", document_edits, V030, DOCUMENT_OPTIONAL},
	};
	struct document_reader reader = {.name = name, .err = err};
	_cleanup_document_ struct document document = {0};
	int rc = yaml_parse_large(text, length, DOCUMENT_TEXT_MAX, name, &document.yaml, err);
	if (rc < 0)
		return rc;

	const struct yaml_node *root = yaml_root(document.yaml);
	rc = document_map(&reader, root, "specification", fields, array_length(fields));
	if (rc == 0)
		rc = document_check_version(&reader, yaml_get(root, "cdiVersion"));
	if (rc < 0)
		return rc;

	document.version = yaml_get(root, "cdiVersion")->text;
	document.kind = yaml_get(root, "kind")->text;
	document.edits = yaml_get(root, "containerEdits");
	document.devices = yaml_get(root, "devices");
	*out = document;
	document = (struct document){0};

	return 0;
}

void document_done(struct document *document)
{
	(void)yaml_free(document->yaml);
	*document = (struct document){0};
}

const struct yaml_node *document_find(const struct document *document, const char *device)
{
	for (size_t i = 0; i < document->devices->entry_count; i++) {
		const struct yaml_node *node = document->devices->entries[i].value;
		if (strcmp(yaml_get(node, "name")->text, device) == 0)
			return node;
	}
	return NULL;
}
