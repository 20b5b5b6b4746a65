/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How commands print data: tables for people, JSON for programs. Cell texts may come from outside
 * (names of GPUs, processes, jobs): they are escaped here, so that no caller can forget it.
 */
#ifndef SLUICE_CMD_TABLE_H
#define SLUICE_CMD_TABLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct err;
struct table;

enum table_limits {
	TABLE_COLUMNS_MAX = 40,
	TABLE_CELL_MAX = 4096, /* bytes of one cell after escaping; longer ones are cut */
	TABLE_SHRINK_MIN = 8,  /* columns of text that a shrunk column keeps */
};

enum table_align { TABLE_LEFT, TABLE_RIGHT };

struct table_column {
	const char *title; /* in capitals: "GPU"; borrowed until table_free() */
	enum table_align align;
	bool may_shrink; /* cut with "…" when the line is wider than the terminal */
};

/* A table of `count` columns (1 to TABLE_COLUMNS_MAX); NULL: out of memory. */
struct table *table_new(const struct table_column *columns, size_t count);
struct table *table_free(struct table *table);
static inline void table_cleanup(struct table **table)
{
	*table = table_free(*table);
}
#define _cleanup_table_ __attribute__((cleanup(table_cleanup)))

/* Adds the next cell; rows follow from the number of columns. `text` NULL or "": "-". Running out
 * of memory is remembered and reported by table_print(). */
void table_add(struct table *table, const char *text);
void table_add_u64(struct table *table, uint64_t number);
void table_addf(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Prints header and rows, two blanks between columns, none at line ends. `width`: columns of the
 * terminal, 0: no limit (see table_width()). An incomplete last row is filled with "-".
 * 0, -ENOMEM, or -errno of the stream.
 */
int table_print(const struct table *table, FILE *out, size_t width, struct err *err);
/* The width of the terminal that `out` is; 0 if it is none, so that pipes get everything. */
size_t table_width(FILE *out);

/*
 * Prints `json` (borrowed) with an indent of two blanks and a line end; characters that a terminal
 * would obey as their escapes. NULL stands for a value
 * whose making ran out of memory. 0, -ENOMEM, or -errno of the stream.
 */
int table_print_json(const json_t *json, FILE *out, struct err *err);
/* The same as a text, the caller's to free. NULL: no memory, or no `json`. */
char *table_json_dump(const json_t *json);
/* A JSON string of any bytes: what is not UTF-8 becomes U+FFFD. NULL text: JSON null. Returns NULL
 * only when memory runs out. */
json_t *table_json_text(const char *text);

#endif
