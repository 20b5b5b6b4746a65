/* SPDX-License-Identifier: Apache-2.0 */
#include "base/yaml.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/names.h"

enum yaml_internals {
	YAML_NODE_BYTES =
	    8, /* what a node counts for beside its text when aliases are written out */
	YAML_ANCHORS_MAX = 128, /* they are searched one by one */
	YAML_BLOCK_MIN = 4096,	/* bytes of the first block of memory; each is twice the last */
	YAML_BLOCK_MAX = 65536,
};

/* Everything of a document lies in a few blocks: a file has thousands of nodes, and taking and
 * giving back memory for each costs more than reading it. */
struct yaml_block {
	struct yaml_block *older;
	size_t used, size;
	void *bytes[]; /* aligned for whatever is in here */
};

/* A node with what only the parser needs. */
struct yaml_part {
	struct yaml_node public; /* first: a struct yaml_node * is a struct yaml_part * */
	const char *anchor;	 /* NULL: none */
	size_t expanded;	 /* bytes with aliases written out, itself included */
	size_t entry_capacity;
	struct yaml_entry *own_entries; /* public.entries */
	struct yaml_part *older_anchor; /* those with anchors, newest first */
	bool complete;
};

struct yaml {
	struct yaml_block *newest; /* owned, all of them */
	const struct yaml_node *root;
	const struct yaml_node **documents; /* in the blocks; of a stream */
	size_t document_count;
};

/* Where the next node belongs: the open maps and lists, outermost first. */
struct yaml_reader {
	const char *name;
	struct yaml *yaml;
	size_t scale; /* how many times the usual limits */
	size_t nodes, anchors;
	bool is_stream;
	size_t aliased; /* bytes that aliases stand for */
	struct yaml_part *newest_anchor;
	struct yaml_part *open[YAML_DEPTH_MAX];
	struct yaml_part *key[YAML_DEPTH_MAX]; /* of an open map: the key whose value comes next */
	size_t depth;
	struct err *err;
};

static int reader_fail(const struct yaml_reader *reader, int code, const yaml_mark_t *mark,
		       const char *what)
{
	return err_set(reader->err, code, "%s:%zu:%zu: %s", reader->name, mark->line + 1,
		       mark->column + 1, what);
}

/* Memory for `size` bytes, valid until yaml_free(); NULL. */
static void *yaml_take(struct yaml *yaml, size_t size)
{
	struct yaml_block *block = yaml->newest;

	size = (size + sizeof(void *) - 1) & ~(sizeof(void *) - 1);
	if (!block || block->size - block->used < size) {
		size_t room = !block			     ? YAML_BLOCK_MIN
			      : block->size < YAML_BLOCK_MAX ? 2 * block->size
							     : YAML_BLOCK_MAX;
		room = size > room ? size : room;

		struct yaml_block *grown = malloc(sizeof(*grown) + room);
		if (!grown)
			return NULL;

		*grown = (struct yaml_block){.older = block, .size = room};
		yaml->newest = block = grown;
	}

	void *memory = (char *)block->bytes + block->used;
	block->used += size;
	return memory;
}

/* A copy with a NUL at its end; NULL. */
static char *yaml_copy(struct yaml *yaml, const char *text, size_t length)
{
	char *copy = yaml_take(yaml, length + 1);
	if (!copy)
		return NULL;
	memcpy(copy, text, length);
	copy[length] = '\0';
	return copy;
}

static int reader_node(struct yaml_reader *reader, enum yaml_kind kind, const yaml_mark_t *mark,
		       const yaml_char_t *anchor, struct yaml_part **out)
{
	if (reader->nodes >= reader->scale * YAML_NODES_MAX) {
		char what[64];
		(void)snprintf(what, sizeof(what), "more than %zu values in one document",
			       reader->scale * YAML_NODES_MAX); /* fits */
		return reader_fail(reader, -E2BIG, mark, what);
	}

	struct yaml_part *node = yaml_take(reader->yaml, sizeof(*node));
	if (!node)
		return reader_fail(reader, -ENOMEM, mark, "out of memory");

	reader->nodes++;
	*node = (struct yaml_part){.complete = false};
	node->public.kind = kind;
	node->public.line = (uint32_t)mark->line + 1;
	node->public.column = (uint32_t)mark->column + 1;
	node->public.text = "";
	node->expanded = YAML_NODE_BYTES;

	if (anchor) {
		if (reader->anchors++ == YAML_ANCHORS_MAX)
			return reader_fail(reader, -E2BIG, mark, "more than 128 anchors");

		node->anchor =
		    yaml_copy(reader->yaml, (const char *)anchor, strlen((const char *)anchor));
		if (!node->anchor)
			return reader_fail(reader, -ENOMEM, mark, "out of memory");

		node->older_anchor = reader->newest_anchor;
		reader->newest_anchor = node;
	}

	*out = node;
	return 0;
}

static int reader_add_entry(struct yaml_reader *reader, struct yaml_part *parent,
			    struct yaml_part *key, struct yaml_part *value, const yaml_mark_t *mark)
{
	if (parent->public.entry_count == parent->entry_capacity) {
		size_t capacity = parent->entry_capacity ? 2 * parent->entry_capacity : 4;
		struct yaml_entry *grown = yaml_take(reader->yaml, capacity * sizeof(*grown));
		if (!grown)
			return reader_fail(reader, -ENOMEM, mark, "out of memory");
		if (parent->own_entries)
			memcpy(grown, parent->own_entries,
			       parent->public.entry_count * sizeof(*grown));

		parent->own_entries = grown;
		parent->public.entries = grown;
		parent->entry_capacity = capacity;
	}

	parent->own_entries[parent->public.entry_count++] = (struct yaml_entry){
	    .key = key ? &key->public : NULL,
	    .value = &value->public,
	};
	size_t key_bytes = key ? key->expanded : 0;
	if (!size_add(parent->expanded, key_bytes, &parent->expanded) ||
	    !size_add(parent->expanded, value->expanded, &parent->expanded) ||
	    parent->expanded > reader->scale * YAML_EXPANDED_MAX) {
		char what[80];
		(void)snprintf(what, sizeof(what),
			       "with its aliases written out the document passes %zu MiB",
			       reader->scale * YAML_EXPANDED_MAX >> 20); /* fits */
		return reader_fail(reader, -E2BIG, mark, what);
	}

	return 0;
}

/* Puts a finished node (a scalar, an alias, a closed map or list) where it belongs. */
static int reader_place(struct yaml_reader *reader, struct yaml_part *node, const yaml_mark_t *mark)
{
	node->complete = true;
	if (reader->depth == 0) {
		reader->yaml->root = &node->public;
		return 0;
	}

	size_t top = reader->depth - 1;
	struct yaml_part *parent = reader->open[top];

	if (parent->public.kind == YAML_LIST)
		return reader_add_entry(reader, parent, NULL, node, mark);

	if (!reader->key[top]) {
		if (node->public.kind != YAML_SCALAR)
			return reader_fail(reader, -EINVAL, mark,
					   "a key must be a plain word, not a map or list");
		reader->key[top] = node;
		return 0;
	}

	struct yaml_part *key = reader->key[top];
	reader->key[top] = NULL;
	return reader_add_entry(reader, parent, key, node, mark);
}

static int entry_compare(const void *left, const void *right)
{
	const struct yaml_entry *const *a = left, *const *b = right;
	int order = strcmp((*a)->key->text, (*b)->key->text);
	if (order != 0)
		return order;
	/* The same key twice: by position, so that the error names the second. */
	return (*a > *b) - (*a < *b);
}

/* Go's decoders take the last or the first of two equal keys, depending on the version. */
static int reader_check_keys(const struct yaml_reader *reader, const struct yaml_part *map)
{
	size_t count = map->public.entry_count;
	if (count < 2)
		return 0;

	_cleanup_free_ const struct yaml_entry **sorted = calloc(count, sizeof(*sorted));
	if (!sorted)
		return err_set(reader->err, -ENOMEM, "%s: out of memory", reader->name);

	for (size_t i = 0; i < count; i++)
		sorted[i] = &map->own_entries[i];

	qsort(sorted, count, sizeof(*sorted), entry_compare);

	for (size_t i = 1; i < count; i++) {
		const struct yaml_node *first = sorted[i - 1]->key, *second = sorted[i]->key;
		if (strcmp(first->text, second->text) == 0)
			return err_set(reader->err, -EINVAL,
				       "%s:%u:%u: the key '%.64s' is here a second time (first on "
				       "line %u)",
				       reader->name, second->line, second->column, second->text,
				       first->line);
	}

	return 0;
}

static int reader_scalar(struct yaml_reader *reader, const yaml_event_t *event)
{
	struct yaml_part *node;
	int rc =
	    reader_node(reader, YAML_SCALAR, &event->start_mark, event->data.scalar.anchor, &node);
	if (rc < 0)
		return rc;

	size_t length = event->data.scalar.length;
	const char *value = (const char *)event->data.scalar.value;
	if (memchr(value, '\0', length))
		return reader_fail(reader, -EINVAL, &event->start_mark, "text with a NUL byte");

	node->public.text = yaml_copy(reader->yaml, value, length);
	if (!node->public.text)
		return reader_fail(reader, -ENOMEM, &event->start_mark, "out of memory");

	node->public.length = length;
	node->public.quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
	node->expanded += length;

	return reader_place(reader, node, &event->start_mark);
}

static int reader_open(struct yaml_reader *reader, enum yaml_kind kind, const yaml_event_t *event,
		       const yaml_char_t *anchor)
{
	if (reader->depth == YAML_DEPTH_MAX)
		return reader_fail(reader, -E2BIG, &event->start_mark,
				   "nested deeper than 32 levels");

	struct yaml_part *node;
	int rc = reader_node(reader, kind, &event->start_mark, anchor, &node);
	if (rc < 0)
		return rc;

	reader->open[reader->depth] = node;
	reader->key[reader->depth] = NULL;
	reader->depth++;

	return 0;
}

static int reader_close(struct yaml_reader *reader)
{
	struct yaml_part *node = reader->open[--reader->depth];
	if (node->public.kind == YAML_MAP) {
		int rc = reader_check_keys(reader, node);
		if (rc < 0)
			return rc;
	}

	/* What is wrong with it is said where it begins. */
	const yaml_mark_t mark = {.line = node->public.line - 1, .column = node->public.column - 1};
	return reader_place(reader, node, &mark);
}

static int reader_alias(struct yaml_reader *reader, const yaml_event_t *event)
{
	const char *anchor = (const char *)event->data.alias.anchor;

	for (struct yaml_part *node = reader->newest_anchor; node; node = node->older_anchor) {
		if (strcmp(node->anchor, anchor) != 0)
			continue;
		if (!node->complete)
			return reader_fail(reader, -EINVAL, &event->start_mark,
					   "an alias inside the value that it stands for");

		reader->aliased += node->expanded; /* both are capped: no overflow */
		if (reader->is_stream && reader->aliased > YAML_ALIASED_MAX)
			return reader_fail(reader, -E2BIG, &event->start_mark,
					   "with its aliases written out the file grows by more "
					   "than 64 KiB");

		return reader_place(reader, node, &event->start_mark);
	}

	return reader_fail(reader, -EINVAL, &event->start_mark, "an alias without its anchor");
}

static int reader_begin(struct yaml_reader *reader, const yaml_event_t *event)
{
	if (!reader->is_stream && reader->yaml->root)
		return reader_fail(reader, -EINVAL, &event->start_mark,
				   "a second document; only one is expected");
	if (reader->is_stream && reader->yaml->document_count == YAML_DOCUMENTS_MAX)
		return reader_fail(reader, -E2BIG, &event->start_mark,
				   "more than 256 documents in one file");

	reader->newest_anchor = NULL;
	reader->yaml->root = NULL;
	return 0;
}

static int reader_end(struct yaml_reader *reader, const yaml_event_t *event)
{
	struct yaml *yaml = reader->yaml;

	if (!reader->is_stream)
		return 0;

	if (!yaml->documents) {
		yaml->documents = yaml_take(yaml, YAML_DOCUMENTS_MAX * sizeof(struct yaml_node *));
		if (!yaml->documents)
			return reader_fail(reader, -ENOMEM, &event->start_mark, "out of memory");
	}

	yaml->documents[yaml->document_count++] = yaml->root;
	return 0;
}

static int reader_event(struct yaml_reader *reader, const yaml_event_t *event)
{
	switch (event->type) {
	case YAML_DOCUMENT_START_EVENT:
		return reader_begin(reader, event);
	case YAML_DOCUMENT_END_EVENT:
		return reader_end(reader, event);
	case YAML_SCALAR_EVENT:
		return reader_scalar(reader, event);
	case YAML_ALIAS_EVENT:
		return reader_alias(reader, event);
	case YAML_MAPPING_START_EVENT:
		return reader_open(reader, YAML_MAP, event, event->data.mapping_start.anchor);
	case YAML_SEQUENCE_START_EVENT:
		return reader_open(reader, YAML_LIST, event, event->data.sequence_start.anchor);
	case YAML_MAPPING_END_EVENT:
	case YAML_SEQUENCE_END_EVENT:
		return reader_close(reader);
	default:
		return 0;
	}
}

/* The position of a byte that libyaml's reader refused: it gives an offset only. */
static yaml_mark_t mark_of_offset(const char *text, size_t offset)
{
	yaml_mark_t mark = {.index = offset, .line = 0, .column = 0};

	for (size_t i = 0; i < offset; i++) {
		mark.column++;
		if (text[i] == '\n') {
			mark.line++;
			mark.column = 0;
		}
	}

	return mark;
}

/* What people copy out of a page and no file has, in a line of its own; NULL. */
static const char *copied_line(const char *line, size_t length)
{
	static const struct {
		const char *line, *says;
	} rows[] = {
	    {"EOF", "'EOF' ends what a shell reads, and is no part of the file: leave it out"},
	    {"...", "'...' stands for what was left out in print: write it, or leave it out"},
	    {"[...]", "'[...]' stands for what was left out in print: write it, or leave it out"},
	};

	while (length > 0 && (line[length - 1] == ' ' || line[length - 1] == '\r'))
		length--;

	for (size_t i = 0; i < array_length(rows); i++)
		if (strlen(rows[i].line) == length && memcmp(line, rows[i].line, length) == 0)
			return rows[i].says;

	return NULL;
}

/* libyaml stumbles over such a line, or over what follows it. `mark` becomes its place. */
static const char *copied_before(const char *text, size_t length, yaml_mark_t *mark)
{
	size_t line = 0;
	yaml_mark_t place = *mark;
	const char *says = NULL;

	for (size_t at = 0; at < length && line <= mark->line;) {
		const char *newline = memchr(text + at, '\n', length - at);
		size_t end = newline ? (size_t)(newline - text) : length, indent = 0;
		while (at + indent < end && text[at + indent] == ' ')
			indent++;

		const char *found = copied_line(text + at + indent, end - at - indent);
		if (found) {
			says = found;
			place.line = line;
			place.column = indent;
		} else if (at + indent < end && line < mark->line) {
			says = NULL; /* something else stands between */
		}

		at = end + 1;
		line++;
	}

	if (says)
		*mark = place;

	return says;
}

/* What libyaml found wrong, in words that help. */
static int reader_syntax_error(const struct yaml_reader *reader, const yaml_parser_t *parser,
			       const char *text, size_t length)
{
	yaml_mark_t mark = parser->problem_mark;

	if (parser->error == YAML_MEMORY_ERROR)
		return err_set(reader->err, -ENOMEM, "%s: out of memory", reader->name);

	if (parser->error == YAML_READER_ERROR) {
		size_t offset = parser->problem_offset < length ? parser->problem_offset : length;
		mark = mark_of_offset(text, offset);

		bool nul = offset < length && text[offset] == '\0';
		return reader_fail(reader, -EINVAL, &mark,
				   nul ? "a NUL byte; this is not a text file"
				       : "not UTF-8 text, or a control character");
	}

	bool tab = mark.index < length && text[mark.index] == '\t';
	const char *problem = parser->problem ? parser->problem : "not YAML";
	const char *copied = tab ? NULL : copied_before(text, length, &mark);

	if (tab)
		problem = "a tab; YAML is indented with blanks";
	else if (copied)
		problem = copied;

	return reader_fail(reader, -EINVAL, &mark, problem);
}

static int reader_run(struct yaml_reader *reader, yaml_parser_t *parser, const char *text,
		      size_t length)
{
	bool end = false;

	while (!end) {
		yaml_event_t event;
		if (!yaml_parser_parse(parser, &event))
			return reader_syntax_error(reader, parser, text, length);

		int rc = reader_event(reader, &event);

		end = event.type == YAML_STREAM_END_EVENT;
		yaml_event_delete(&event);
		if (rc < 0)
			return rc;
	}

	return 0;
}

int yaml_parse(const char *text, size_t length, const char *name, struct yaml **out,
	       struct err *err)
{
	return yaml_parse_large(text, length, YAML_TEXT_MAX, name, out, err);
}

static int yaml_parse_with(const char *text, size_t length, size_t max, bool is_stream,
			   const char *name, struct yaml **out, struct err *err)
{
	if (length > max)
		return err_set(err, -E2BIG, "%s: larger than %zu MiB; this is no %s", name,
			       max >> 20, is_stream ? "job file" : "configuration");

	if (length >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0 ||
			    (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)))
		return err_set(err, -EINVAL,
			       "%s:1:1: the file begins with a byte-order mark; save it as UTF-8 "
			       "without one",
			       name);

	struct yaml *yaml = calloc(1, sizeof(*yaml));
	if (!yaml)
		return err_set(err, -ENOMEM, "%s: out of memory", name);

	struct yaml_reader reader = {.name = name,
				     .yaml = yaml,
				     .scale = max / YAML_TEXT_MAX,
				     .is_stream = is_stream,
				     .err = err};
	yaml_parser_t parser;
	int rc = 0;

	if (!yaml_parser_initialize(&parser)) {
		(void)yaml_free(yaml);
		return err_set(err, -ENOMEM, "%s: out of memory", name);
	}

	yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, length);
	rc = reader_run(&reader, &parser, text, length);
	yaml_parser_delete(&parser);

	if (rc == 0 && !yaml->root) { /* an empty file */
		struct yaml_part *node;
		const yaml_mark_t start = {0};
		rc = reader_node(&reader, YAML_SCALAR, &start, NULL, &node);
		if (rc == 0)
			yaml->root = &node->public;
	}

	if (rc < 0) {
		(void)yaml_free(yaml);
		return rc;
	}

	*out = yaml;
	return 0;
}

int yaml_parse_large(const char *text, size_t length, size_t max, const char *name,
		     struct yaml **out, struct err *err)
{
	return yaml_parse_with(text, length, max, false, name, out, err);
}

int yaml_parse_stream(const char *text, size_t length, const char *name, struct yaml **out,
		      struct err *err)
{
	return yaml_parse_with(text, length, YAML_TEXT_MAX, true, name, out, err);
}

struct yaml *yaml_free(struct yaml *yaml)
{
	if (!yaml)
		return NULL;

	while (yaml->newest) {
		struct yaml_block *block = yaml->newest;
		yaml->newest = block->older;
		free(block);
	}

	free(yaml);
	return NULL;
}

const struct yaml_node *yaml_root(const struct yaml *yaml)
{
	return yaml->root;
}

size_t yaml_document_count(const struct yaml *yaml)
{
	return yaml->document_count;
}

const struct yaml_node *yaml_document(const struct yaml *yaml, size_t index)
{
	return yaml->documents[index];
}

const struct yaml_node *yaml_get(const struct yaml_node *node, const char *key)
{
	if (!node || node->kind != YAML_MAP)
		return NULL;
	for (size_t i = 0; i < node->entry_count; i++) {
		if (strcmp(node->entries[i].key->text, key) == 0)
			return node->entries[i].value;
	}
	return NULL;
}

bool yaml_is_null(const struct yaml_node *node)
{
	if (node->kind != YAML_SCALAR || node->quoted)
		return false;

	static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};

	return names_find(nulls, node->text) >= 0;
}

const char *yaml_describe(const struct yaml_node *node, char *out, size_t size)
{
	if (node->kind == YAML_MAP)
		(void)snprintf(out, size, "a map");
	else if (node->kind == YAML_LIST)
		(void)snprintf(out, size, "a list");
	else if (yaml_is_null(node))
		(void)snprintf(out, size, "nothing");
	else
		(void)snprintf(out, size, "'%.48s%s'", node->text, node->length > 48 ? "..." : "");

	return out;
}
