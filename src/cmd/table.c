/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/table.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/text.h"

#define TABLE_GAP      2
#define TABLE_ELLIPSIS "…"

enum {
	TABLE_TEXT_MAX = 1 << 30, /* bytes of all cells */
	TABLE_BLANKS = 64,
};

/* A cell's text, which ends with a NUL, and how much of a line it takes. */
struct table_cell {
	size_t offset; /* in the table's text */
	uint32_t length, columns;
};

struct table {
	const struct table_column *columns; /* borrowed */
	size_t column_count;
	struct buf text;	  /* of all cells: a table can have a hundred thousand */
	struct table_cell *cells; /* owned; row by row */
	size_t cell_count;
	size_t cell_capacity;
	bool out_of_memory;
};

struct table *table_new(const struct table_column *columns, size_t count)
{
	assert(count >= 1 && count <= TABLE_COLUMNS_MAX);
	struct table *table = calloc(1, sizeof(*table));
	if (!table)
		return NULL;
	table->columns = columns;
	table->column_count = count;
	buf_init(&table->text, TABLE_TEXT_MAX);
	return table;
}

struct table *table_free(struct table *table)
{
	if (!table)
		return NULL;
	buf_done(&table->text);
	free(table->cells);
	free(table);
	return NULL;
}

/* Appends a cell of text that is escaped already. */
static void table_push(struct table *table, const char *text, size_t length)
{
	if (table->cell_count == table->cell_capacity) {
		size_t capacity =
		    table->cell_capacity ? 2 * table->cell_capacity : 8 * table->column_count;
		struct table_cell *cells = reallocarray(table->cells, capacity, sizeof(*cells));
		if (!cells) {
			table->out_of_memory = true;
			return;
		}
		table->cells = cells;
		table->cell_capacity = capacity;
	}
	size_t offset = table->text.length;
	if (buf_add(&table->text, text, length) < 0 || buf_add(&table->text, "", 1) < 0) {
		table->out_of_memory = true;
		return;
	}
	table->cells[table->cell_count++] = (struct table_cell){
	    .offset = offset,
	    .length = (uint32_t)length,
	    .columns = (uint32_t)text_width(text, length),
	};
}

/* Nothing to escape and nothing to cut, as in nearly every cell. */
static bool table_is_plain(const char *text)
{
	size_t length = 0;
	while (text[length] >= 0x20 && text[length] < 0x7f)
		length++;
	return text[length] == '\0' && length <= TABLE_CELL_MAX;
}

void table_add(struct table *table, const char *text)
{
	_cleanup_buf_ struct buf escaped;
	buf_init(&escaped, TABLE_CELL_MAX);
	if (!text || !*text)
		text = "-";
	if (table_is_plain(text)) {
		table_push(table, text, strlen(text));
		return;
	}
	if (text_escape(&escaped, text, strlen(text)) == -ENOMEM)
		table->out_of_memory = true;
	else
		table_push(table, buf_text(&escaped), escaped.length);
}

void table_addf(struct table *table, const char *format, ...)
{
	_cleanup_buf_ struct buf text;
	buf_init(&text, TABLE_CELL_MAX);
	va_list arguments;
	va_start(arguments, format);
	int rc = buf_vprintf(&text, format, arguments);
	va_end(arguments);
	if (rc == -ENOMEM)
		table->out_of_memory = true;
	else
		table_add(table, rc < 0 ? "..." : buf_text(&text));
}

/* NULL: the row ends before it. */
static const struct table_cell *table_cell(const struct table *table, size_t row, size_t column)
{
	size_t index = row * table->column_count + column;
	return index < table->cell_count ? &table->cells[index] : NULL;
}

static size_t table_rows(const struct table *table)
{
	return (table->cell_count + table->column_count - 1) / table->column_count;
}

/* Makes the columns that may shrink narrower, the widest first, until the line fits. */
static void table_shrink(const struct table *table, size_t width, size_t *widths)
{
	size_t total = TABLE_GAP * (table->column_count - 1);
	for (size_t i = 0; i < table->column_count; i++)
		total += widths[i];

	while (width > 0 && total > width) {
		size_t widest = table->column_count;
		for (size_t i = 0; i < table->column_count; i++) {
			if (!table->columns[i].may_shrink || widths[i] <= TABLE_SHRINK_MIN)
				continue;
			if (widest == table->column_count || widths[i] > widths[widest])
				widest = i;
		}
		if (widest == table->column_count)
			return; /* the terminal breaks the line, nothing is lost */
		widths[widest]--;
		total--;
	}
}

static void table_measure(const struct table *table, size_t width, size_t *widths)
{
	size_t rows = table_rows(table);
	for (size_t column = 0; column < table->column_count; column++) {
		const char *title = table->columns[column].title;
		widths[column] = text_width(title, strlen(title));
		for (size_t row = 0; row < rows; row++) {
			const struct table_cell *cell = table_cell(table, row, column);
			if (cell && cell->columns > widths[column])
				widths[column] = cell->columns;
		}
	}
	table_shrink(table, width, widths);
}

static void table_pad(FILE *out, size_t count)
{
	static const char blanks[TABLE_BLANKS] =
	    "                                                                ";
	for (; count > sizeof(blanks); count -= sizeof(blanks))
		(void)fwrite_unlocked(blanks, 1, sizeof(blanks), out);
	(void)fwrite_unlocked(blanks, 1, count, out);
}

/* One cell with its padding; the last of a line gets none behind it. Errors show in the stream. */
static void table_print_text(FILE *out, const char *text, size_t length, size_t columns,
			     size_t width, enum table_align align, bool last)
{
	const char *ellipsis = "";
	if (columns > width) {
		length = text_fit(text, length, width - 1);
		columns = text_width(text, length) + 1;
		ellipsis = TABLE_ELLIPSIS;
	}
	if (align == TABLE_RIGHT)
		table_pad(out, width - columns);
	(void)fwrite_unlocked(text, 1, length, out);
	(void)fputs_unlocked(ellipsis, out);
	if (!last)
		table_pad(out, TABLE_GAP + (align == TABLE_RIGHT ? 0 : width - columns));
}

static int table_stream_check(FILE *out, struct err *err)
{
	if (fflush(out) == 0 && !ferror(out))
		return 0;
	int code = errno ? -errno : -EIO;
	if (err) { /* told with this error, so not once more when the program ends */
		__fpurge(out);
		clearerr(out);
	}
	return err_set(err, code, "cannot write the output: %s", err_describe(code));
}

int table_print(const struct table *table, FILE *out, size_t width, struct err *err)
{
	if (table->out_of_memory)
		return err_set(err, -ENOMEM, "out of memory while printing a table");

	size_t widths[TABLE_COLUMNS_MAX];
	size_t rows = table_rows(table);
	table_measure(table, width, widths);
	for (size_t row = 0; row <= rows; row++) {
		for (size_t column = 0; column < table->column_count; column++) {
			const struct table_column *about = &table->columns[column];
			const struct table_cell *cell =
			    row > 0 ? table_cell(table, row - 1, column) : NULL;
			const char *plain = row == 0 ? about->title : "-";
			const char *text = cell ? table->text.data + cell->offset : plain;
			size_t length = cell ? cell->length : strlen(plain);
			size_t columns = cell ? cell->columns : text_width(plain, length);
			table_print_text(out, text, length, columns, widths[column], about->align,
					 column + 1 == table->column_count);
		}
		fputc('\n', out);
	}
	return table_stream_check(out, err);
}

size_t table_width(FILE *out)
{
	struct winsize size;
	int fd = fileno(out);
	if (fd < 0 || !isatty(fd) || ioctl(fd, TIOCGWINSZ, &size) < 0)
		return 0;
	return size.ws_col;
}

int table_print_json(const json_t *json, FILE *out, struct err *err)
{
	if (!json)
		return err_set(err, -ENOMEM, "out of memory while making JSON");
	if (json_dumpf(json, out, JSON_INDENT(2) | JSON_ENCODE_ANY) < 0 && !ferror(out))
		return err_set(err, -ENOMEM, "out of memory while printing JSON");
	fputc('\n', out);
	return table_stream_check(out, err);
}

json_t *table_json_text(const char *text)
{
	if (!text)
		return json_null();
	_cleanup_buf_ struct buf valid;
	buf_init(&valid, 3 * strlen(text));
	if (text_make_valid(&valid, text, strlen(text)) < 0)
		return NULL;
	return json_stringn(buf_text(&valid), valid.length);
}
