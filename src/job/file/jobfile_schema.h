/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of the fields of a Kubernetes object, and the reader that they drive: what each field
 * holds, and whether it is honoured, ignored with a note, or refused with a reason. A field that is
 * in no table is refused with its path and the nearest name that is. Pure; knows nothing of jobs.
 */
#ifndef SLUICE_JOB_FILE_JOBFILE_SCHEMA_H
#define SLUICE_JOB_FILE_JOBFILE_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "job/file/jobfile_arena.h"

struct yaml_node;

enum objschema_limits {
	OBJSCHEMA_PATH_MAX = 256,
	OBJSCHEMA_LIST_MAX = 65536,
	OBJSCHEMA_DEPTH_MAX = 16, /* of tables in tables */
	OBJSCHEMA_OCTAL_MAX = 20, /* digits that 64 bits hold */
};

enum objschema_class {
	OBJSCHEMA_HONOURED,
	OBJSCHEMA_IGNORED,   /* it only places or names things on a cluster: one note lists these */
	OBJSCHEMA_REFUSED,   /* it would change what the job means; `why` says so */
	OBJSCHEMA_MISPLACED, /* no field of Kubernetes here; `why` says where it belongs */
};

enum objschema_kind {
	OBJSCHEMA_ANY,
	OBJSCHEMA_ANY_MAP,  /* const struct yaml_node * */
	OBJSCHEMA_ANY_LIST, /* the same */
	OBJSCHEMA_TEXT,	    /* the same: a scalar that is a text to Kubernetes too */
	OBJSCHEMA_QUANTITY, /* the same: a text or a number */
	OBJSCHEMA_INT,	    /* struct objschema_int, from `min` to INT32_MAX */
	OBJSCHEMA_BOOL,	    /* struct objschema_bool */
	OBJSCHEMA_TEXTS,    /* struct objschema_list of const struct yaml_node * */
	OBJSCHEMA_TEXT_MAP, /* const struct yaml_node *: a map of texts */
	OBJSCHEMA_OBJECT,   /* the struct of `table` at `offset` */
	OBJSCHEMA_OBJECTS,  /* struct objschema_list of the struct of `table` */
};

struct objschema_int {
	const struct yaml_node *node; /* NULL: not there */
	int64_t value;
};
struct objschema_bool {
	const struct yaml_node *node; /* NULL: not there */
	bool value;
};
struct objschema_list {
	const struct yaml_node *node; /* NULL: not there */
	void *items;		      /* in the arena */
	size_t count;
};

struct objschema_table;

struct objschema_row {
	const char *name;
	enum objschema_class class;
	enum objschema_kind kind;
	const char *why;
	size_t offset; /* of what is honoured, in the struct of its table */
	int64_t min;
	const struct objschema_table *table;
};

struct objschema_table {
	const char *name;		  /* "container": for the documentation */
	const struct objschema_row *rows; /* ends in one without a name */
	size_t size;			  /* of the struct; its first member is the node itself */
};

/* One reading. */
struct objschema {
	const char *file; /* what errors call it; borrowed */
	struct jobfile_arena *arena;
	struct err *err;
	char path[OBJSCHEMA_PATH_MAX]; /* of where it is; "spec.template" */
	size_t path_length;
	/* Told of each ignored field; a failure ends the reading. May be NULL. */
	int (*ignored)(const char *path, const struct yaml_node *key, void *context);
	void *context;
};

/*
 * Fills the struct `out` (zeroed before) from `node`. Null values count as absent, as in
 * Kubernetes. -EINVAL with file:line:column and path, -E2BIG, -ENOMEM.
 */
int objschema_read(struct objschema *schema, const struct objschema_table *table,
		   const struct yaml_node *node, void *out);

/* "FILE:LINE:COLUMN: PATH: TEXT"; -EINVAL. `suffix` is added to the path (".name", "" or NULL). */
int objschema_fail(const struct objschema *schema, const struct yaml_node *node, const char *suffix,
		   const char *format, ...) __attribute__((format(printf, 4, 5)));

/* What a plain scalar is to YAML 1.1, as Kubernetes reads it: a text, or else a number, a truth
 * value or nothing, which has to be quoted to be a text. */
bool objschema_is_text(const struct yaml_node *node);
/* -EINVAL: a plain 010, which is 8 to YAML 1.1 and with it to Kubernetes; nothing is guessed.
 * `name` stands before the text, or is NULL. */
int objschema_check_octal(const struct objschema *schema, const struct yaml_node *node,
			  const char *name);
/* A number or a text: anything but a truth value, nothing, a map or a list. */
bool objschema_is_quantity(const struct yaml_node *node);

#endif
