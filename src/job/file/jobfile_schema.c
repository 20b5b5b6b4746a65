/* SPDX-License-Identifier: Apache-2.0 */
#include "job/file/jobfile_schema.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "base/names.h"
#include "base/parse.h"
#include "base/suggest.h"
#include "base/yaml.h"

int objschema_fail(const struct objschema *schema, const struct yaml_node *node, const char *suffix,
		   const char *format, ...)
{
	char text[ERR_TEXT_MAX];
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(text, sizeof(text), format, arguments); /* cut where it is longer */
	va_end(arguments);
	suffix = suffix ? suffix : "";
	if (schema->path_length == 0 && *suffix == '.')
		suffix++;

	return err_set(schema->err, -EINVAL, "%s:%u:%u: %s%s%s%s", schema->file, node->line,
		       node->column, schema->path, suffix,
		       schema->path_length > 0 || *suffix ? ": " : "", text);
}

static int objschema_no_memory(const struct objschema *schema)
{
	return err_set(schema->err, -ENOMEM, "%s: out of memory", schema->file);
}

/* --- scalars ---------------------------------------------------------------------------------- */

static bool objschema_is_bool_word(const char *text)
{
	static const char *const words[] = {"y", "n", "yes", "no", "true", "false", "on", "off"};

	for (size_t i = 0; i < array_length(words); i++) {
		/* "yes", "Yes" and "YES", and not "yEs" */
		if (strcasecmp(text, words[i]) != 0)
			continue;

		bool is_lower = strcmp(text, words[i]) == 0;
		bool first_only = strcmp(text + 1, words[i] + 1) == 0, all = true;
		for (const char *at = text; *at; at++)
			all = all && *at >= 'A' && *at <= 'Z';

		return is_lower || first_only || all;
	}

	return false;
}

/* Whole numbers and fractions as go-yaml reads them, which Kubernetes' tools use. */
static bool objschema_is_number(const char *text)
{
	static const char *const words[] = {".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN"};
	const char *at = text + (*text == '+' || *text == '-');
	if (names_find(words, at) >= 0)
		return true;

	if (at[0] == '0' && at[1] && strchr("xXoObB", at[1]))
		return at[2] && strspn(at + 2, "0123456789abcdefABCDEF_") == strlen(at + 2);
	if (!(*at >= '0' && *at <= '9') && !(*at == '.' && at[1] >= '0' && at[1] <= '9'))
		return false;

	at += strspn(at, "0123456789_");
	if (*at == '.')
		at += 1 + strspn(at + 1, "0123456789_");

	if (*at == 'e' || *at == 'E') {
		at++;
		at += *at == '+' || *at == '-';
		if (!(*at >= '0' && *at <= '9'))
			return false;
		at += strspn(at, "0123456789");
	}

	return *at == '\0';
}

int objschema_check_octal(const struct objschema *schema, const struct yaml_node *node,
			  const char *name)
{
	uint64_t value = 0;

	if (node->kind != YAML_SCALAR || node->quoted)
		return 0;

	bool is_negative = node->text[0] == '-';
	const char *digits = node->text + (is_negative || node->text[0] == '+');
	size_t count = strlen(digits);
	if (count < 2 || count > OBJSCHEMA_OCTAL_MAX || digits[0] != '0' ||
	    strspn(digits, "01234567") != count)
		return 0;

	for (const char *at = digits; *at; at++)
		value = value * 8 + (uint64_t)(*at - '0');

	return objschema_fail(schema, node, NULL, "%s%s'%s' is octal to Kubernetes: write %s%llu",
			      name ? name : "", name ? ": " : "", node->text,
			      is_negative ? "-" : "", (unsigned long long)value);
}

bool objschema_is_text(const struct yaml_node *node)
{
	if (node->kind != YAML_SCALAR)
		return false;
	return node->quoted || (!yaml_is_null(node) && !objschema_is_bool_word(node->text) &&
				!objschema_is_number(node->text));
}

bool objschema_is_quantity(const struct yaml_node *node)
{
	return node->kind == YAML_SCALAR && !yaml_is_null(node) &&
	       (node->quoted || !objschema_is_bool_word(node->text));
}

static int objschema_read_text(const struct objschema *schema, const struct yaml_node *node)
{
	char found[80];

	if (objschema_is_text(node))
		return 0;
	if (node->kind == YAML_SCALAR)
		return objschema_fail(schema, node, NULL,
				      "%s is no text to Kubernetes: put it between quotation marks",
				      yaml_describe(node, found, sizeof(found)));

	return objschema_fail(schema, node, NULL, "a text is wanted, not %s",
			      yaml_describe(node, found, sizeof(found)));
}

static int objschema_read_int(const struct objschema *schema, const struct objschema_row *row,
			      const struct yaml_node *node, struct objschema_int *out)
{
	char found[80];
	int rc = objschema_check_octal(schema, node, NULL);
	if (rc < 0)
		return rc;

	rc = node->kind == YAML_SCALAR && !node->quoted
		 ? parse_i64(node->text, row->min, INT32_MAX, &out->value)
		 : -EINVAL;
	out->node = node;
	if (rc == 0)
		return 0;

	(void)yaml_describe(node, found, sizeof(found));
	if (rc == -ERANGE)
		return objschema_fail(schema, node, NULL, "%s is out of range: %lld to %d", found,
				      (long long)row->min, INT32_MAX);

	return objschema_fail(schema, node, NULL, "a whole number is wanted, not %s%s", found,
			      node->quoted ? " between quotation marks" : "");
}

static int objschema_read_bool(const struct objschema *schema, const struct yaml_node *node,
			       struct objschema_bool *out)
{
	char found[80];

	if (node->kind != YAML_SCALAR || node->quoted || !objschema_is_bool_word(node->text))
		return objschema_fail(schema, node, NULL, "true or false is wanted, not %s%s",
				      yaml_describe(node, found, sizeof(found)),
				      node->quoted ? " between quotation marks" : "");

	out->node = node;
	out->value = strchr("yYtT", node->text[0]) || strcasecmp(node->text, "on") == 0;
	return 0;
}

/* --- where it is ------------------------------------------------------------------------------ */

/* Longer paths than fit are cut: only those of texts that come from the file are so long. */
static size_t objschema_enter(struct objschema *schema, const char *format, const char *name,
			      size_t index)
{
	size_t before = schema->path_length, room = OBJSCHEMA_PATH_MAX - before;
	int length = name ? snprintf(schema->path + before, room, "%s%.64s", format, name)
			  : snprintf(schema->path + before, room, "[%zu]", index);
	schema->path_length =
	    length > 0 && (size_t)length < room ? before + (size_t)length : OBJSCHEMA_PATH_MAX - 1;
	return before;
}

static void objschema_leave(struct objschema *schema, size_t before)
{
	schema->path_length = before;
	schema->path[before] = '\0';
}

/* --- maps and lists --------------------------------------------------------------------------- */

static int objschema_read_value(struct objschema *schema, const struct objschema_row *row,
				const struct yaml_node *node, void *out);

static int objschema_want(const struct objschema *schema, const struct yaml_node *node,
			  enum yaml_kind kind)
{
	char found[80];
	if (node->kind == kind)
		return 0;
	return objschema_fail(schema, node, NULL, "%s is wanted, not %s",
			      kind == YAML_MAP ? "a map" : "a list",
			      yaml_describe(node, found, sizeof(found)));
}

static int objschema_read_list(struct objschema *schema, const struct objschema_row *row,
			       const struct yaml_node *node, struct objschema_list *out)
{
	bool is_texts = row->kind == OBJSCHEMA_TEXTS;
	size_t size = is_texts ? sizeof(node) : row->table->size;
	int rc = objschema_want(schema, node, YAML_LIST);
	if (rc < 0)
		return rc;

	if (node->entry_count > OBJSCHEMA_LIST_MAX)
		return objschema_fail(schema, node, NULL, "more than %d entries",
				      OBJSCHEMA_LIST_MAX);

	out->node = node;
	out->items = jobfile_arena_take(schema->arena, (node->entry_count + 1) * size);
	if (!out->items)
		return objschema_no_memory(schema);

	for (size_t i = 0; rc == 0 && i < node->entry_count; i++) {
		const struct yaml_node *item = node->entries[i].value;
		char *at = (char *)out->items + i * size;
		size_t before = objschema_enter(schema, NULL, NULL, i);

		if (is_texts) {
			*(const struct yaml_node **)(void *)at = item;
			rc = objschema_read_text(schema, item);
		} else {
			rc = objschema_read(schema, row->table, item, at);
		}

		objschema_leave(schema, before);
	}

	out->count = node->entry_count;
	return rc;
}

static int objschema_read_text_map(struct objschema *schema, const struct yaml_node *node)
{
	int rc = objschema_want(schema, node, YAML_MAP);
	for (size_t i = 0; rc == 0 && i < node->entry_count; i++) {
		size_t before = objschema_enter(schema, ".", node->entries[i].key->text, 0);
		rc = objschema_read_text(schema, node->entries[i].value);
		objschema_leave(schema, before);
	}
	return rc;
}

static int objschema_read_value(struct objschema *schema, const struct objschema_row *row,
				const struct yaml_node *node, void *out)
{
	int rc = 0;
	char found[80];

	switch (row->kind) {
	case OBJSCHEMA_INT:
		return objschema_read_int(schema, row, node, out);
	case OBJSCHEMA_BOOL:
		return objschema_read_bool(schema, node, out);
	case OBJSCHEMA_TEXTS:
	case OBJSCHEMA_OBJECTS:
		return objschema_read_list(schema, row, node, out);
	case OBJSCHEMA_OBJECT:
		return objschema_read(schema, row->table, node, out);
	case OBJSCHEMA_TEXT:
		rc = objschema_read_text(schema, node);
		break;
	case OBJSCHEMA_QUANTITY:
		if (!objschema_is_quantity(node))
			rc = objschema_fail(schema, node, NULL, "a quantity is wanted, not %s",
					    yaml_describe(node, found, sizeof(found)));
		break;
	case OBJSCHEMA_TEXT_MAP:
		rc = objschema_read_text_map(schema, node);
		break;
	case OBJSCHEMA_ANY_MAP:
		rc = objschema_want(schema, node, YAML_MAP);
		break;
	case OBJSCHEMA_ANY_LIST:
		rc = objschema_want(schema, node, YAML_LIST);
		break;
	case OBJSCHEMA_ANY:
		break;
	}
	*(const struct yaml_node **)out = node;

	return rc;
}

static int objschema_unknown(const struct objschema *schema, const struct objschema_table *table,
			     const struct yaml_node *key)
{
	struct suggest suggest;
	suggest_init(&suggest, key->text);

	for (const struct objschema_row *row = table->rows; row->name; row++)
		if (row->class != OBJSCHEMA_MISPLACED)
			suggest_offer(&suggest, row->name);

	const char *best = suggest_best(&suggest);

	if (strcmp(key->text, "<<") == 0)
		return objschema_fail(schema, key, NULL,
				      "merge keys ('<<') are not read; write the fields out");

	return objschema_fail(schema, key, NULL, "unknown field%s%s%s",
			      best ? "; did you mean '" : "", best ? best : "", best ? "'?" : "");
}

static int objschema_read_field(struct objschema *schema, const struct objschema_table *table,
				const struct yaml_entry *entry, void *out)
{
	const struct objschema_row *row = table->rows;
	const struct yaml_node *value = entry->value;

	union {
		const struct yaml_node *node;
		struct objschema_int number;
		struct objschema_bool flag;
		struct objschema_list list;
	} unused = {0};

	while (row->name && strcmp(row->name, entry->key->text) != 0)
		row++;

	if (!row->name)
		return objschema_unknown(schema, table, entry->key);
	if (value->kind == YAML_SCALAR && yaml_is_null(value) && row->class != OBJSCHEMA_MISPLACED)
		return 0;
	if (row->class == OBJSCHEMA_REFUSED)
		return objschema_fail(schema, entry->key, NULL, "not supported here: %s", row->why);
	if (row->class == OBJSCHEMA_MISPLACED)
		return objschema_fail(schema, entry->key, NULL, "unknown field; %s", row->why);

	if (row->class == OBJSCHEMA_HONOURED)
		return objschema_read_value(schema, row, value, (char *)out + row->offset);

	int rc = objschema_read_value(schema, row, value, &unused);
	if (rc == 0 && schema->ignored)
		rc = schema->ignored(schema->path, entry->key, schema->context);

	return rc;
}

int objschema_read(struct objschema *schema, const struct objschema_table *table,
		   const struct yaml_node *node, void *out)
{
	int rc = objschema_want(schema, node, YAML_MAP);
	*(const struct yaml_node **)out = node;

	for (size_t i = 0; rc == 0 && i < node->entry_count; i++) {
		const struct yaml_entry *entry = &node->entries[i];
		size_t before =
		    objschema_enter(schema, schema->path_length ? "." : "", entry->key->text, 0);
		rc = objschema_read_field(schema, table, entry, out);
		objschema_leave(schema, before);
	}

	return rc;
}
