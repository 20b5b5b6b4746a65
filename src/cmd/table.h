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
	TABLE_CELL_MAX = 4096,	 /* bytes of one cell after escaping; longer ones are cut */
	TABLE_SHRINK_MIN = 8,	 /* columns of text that a shrunk column keeps */
	TABLE_WIDTH_PLAIN = 80,	 /* of a list where there is no terminal */
	TABLE_WIDTH_MIN = 20,	 /* narrower terminals are not believed, */
	TABLE_WIDTH_MAX = 10000, /* nor are wider ones */
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
/* What a column gives where there is no room. */
struct table_give {
	size_t least; /* columns of text that it keeps, if it may shrink; 0: TABLE_SHRINK_MIN */
	unsigned
	    drop; /* it is left out when shrinking is not enough, the highest first; 0: never */
	bool may_vanish; /* it is left out when none of its cells has anything */
};

/* How a table is printed otherwise than table_print() does it; all zero: the same. */
struct table_style {
	size_t width;	      /* columns of the terminal; 0: no limit */
	bool no_header, cuts; /* cuts: no line is longer than the width, whatever is lost */
	const struct table_give *give; /* borrowed: of each column; NULL: nothing */
	const size_t *rows; /* borrowed: numbers of the rows that are printed, in this order; */
	size_t row_count;   /* NULL: all of them */
};
/* As table_print(). */
int table_print_as(const struct table *table, const struct table_style *style, FILE *out,
		   struct err *err);
/* How much a list may take, for lines that must not wrap: COLUMNS and LINES of the environment,
 * else what the terminal says that `out` is; else TABLE_WIDTH_PLAIN columns, and 0 lines for no
 * limit. */
void table_room(FILE *out, size_t *out_columns, size_t *out_lines);
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
