/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YAML (and so JSON) text as a tree of nodes that know where they stand, so that whoever reads a
 * configuration or a job file can say file:line:column. Scalars stay text: what they mean is the
 * reader's business. libyaml does the scanning; this adds the limits. Hostile text costs bounded
 * memory: size, depth, number of nodes and what aliases expand to are capped, and nothing recurses.
 */
#ifndef SLUICE_BASE_YAML_H
#define SLUICE_BASE_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct yaml;

enum yaml_limits {
	YAML_TEXT_MAX = 1 << 20,     /* bytes of a document */
	YAML_EXPANDED_MAX = 2 << 20, /* bytes of one with every alias written out */
	YAML_NODES_MAX = 1 << 16,
	YAML_LARGE_MAX = 16 << 20, /* most that yaml_parse_large() is asked for */
	YAML_DEPTH_MAX = 32,
	YAML_DOCUMENTS_MAX = 256,    /* of a stream */
	YAML_ALIASED_MAX = 64 << 10, /* bytes that the aliases of a stream stand for */
};

enum yaml_kind { YAML_SCALAR, YAML_MAP, YAML_LIST };

struct yaml_node {
	enum yaml_kind kind;
	uint32_t line, column; /* from 1 */
	/* Scalars: the text, NUL-terminated; it holds no NUL itself. "" otherwise. */
	const char *text;
	size_t length;
	bool quoted; /* '1' or "1" or a block: text, whatever it looks like */
	/* Maps and lists: `entry_count` entries; in a list without keys. */
	const struct yaml_entry *entries;
	size_t entry_count;
};

struct yaml_entry {
	const struct yaml_node *key; /* a scalar; NULL in a list */
	const struct yaml_node *value;
};

/*
 * Parses one document. `name` is what errors call it: "NAME:LINE:COLUMN: ...". An empty document is
 * a null scalar. -EINVAL: not YAML, a key twice in a map, keys that are no scalars, more than one
 * document, a byte-order mark; -E2BIG: a limit; -ENOMEM.
 */
int yaml_parse(const char *text, size_t length, const char *name, struct yaml **out,
	       struct err *err);
/*
 * The same for documents of up to `max` bytes, YAML_TEXT_MAX to YAML_LARGE_MAX: nodes and expanded
 * bytes are capped in proportion to `max`. For files that programs write.
 */
int yaml_parse_large(const char *text, size_t length, size_t max, const char *name,
		     struct yaml **out, struct err *err);
/*
 * A stream of documents, up to YAML_TEXT_MAX bytes together, with stricter limits: for files that
 * come from anywhere. Anchors end with their document. -EINVAL, -E2BIG, -ENOMEM as above.
 */
int yaml_parse_stream(const char *text, size_t length, const char *name, struct yaml **out,
		      struct err *err);
struct yaml *yaml_free(struct yaml *yaml);

/* Those of a stream, in their order; an empty one is a null scalar. Borrowed as below. */
size_t yaml_document_count(const struct yaml *yaml);
const struct yaml_node *yaml_document(const struct yaml *yaml, size_t index);

/* Everything borrowed: valid until yaml_free(). */
const struct yaml_node *yaml_root(const struct yaml *yaml);
/* The value of `key` in a map; NULL if there is none or `node` is no map. */
const struct yaml_node *yaml_get(const struct yaml_node *node, const char *key);
/* An unquoted ~, null or nothing. */
bool yaml_is_null(const struct yaml_node *node);

/* "a map", "a list", "'text'": what was found, for messages. Returns `out`. */
const char *yaml_describe(const struct yaml_node *node, char *out, size_t size);

#endif
