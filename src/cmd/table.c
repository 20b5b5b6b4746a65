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

struct table {
	const struct table_column *columns; /* borrowed */
	size_t column_count;
	char **cells; /* owned, and each of them; row by row */
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
	return table;
}

struct table *table_free(struct table *table)
{
	if (!table)
		return NULL;
	for (size_t i = 0; i < table->cell_count; i++)
		free(table->cells[i]);
	free(table->cells);
	free(table);
	return NULL;
}

/* Takes `text` (given); NULL stands for one that could not be allocated. */
static void table_push(struct table *table, char *text)
{
	if (text && table->cell_count == table->cell_capacity) {
		size_t capacity =
		    table->cell_capacity ? 2 * table->cell_capacity : 8 * table->column_count;
		char **cells = reallocarray(table->cells, capacity, sizeof(*cells));
		if (cells) {
			table->cells = cells;
			table->cell_capacity = capacity;
		} else {
			free(text);
			text = NULL;
		}
	}
	if (!text) {
		table->out_of_memory = true;
		return;
	}
	table->cells[table->cell_count++] = text;
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
		table_push(table, strdup(text));
		return;
	}
	int rc = text_escape(&escaped, text, strlen(text));
	table_push(table, rc == -ENOMEM ? NULL : buf_take(&escaped));
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

static const char *table_cell(const struct table *table, size_t row, size_t column)
{
	size_t index = row * table->column_count + column;
	return index < table->cell_count ? table->cells[index] : "-";
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
			const char *cell = table_cell(table, row, column);
			size_t cell_width = text_width(cell, strlen(cell));
			if (cell_width > widths[column])
				widths[column] = cell_width;
		}
	}
	table_shrink(table, width, widths);
}

static void table_pad(FILE *out, size_t count)
{
	while (count-- > 0)
		(void)fputc_unlocked(' ', out);
}

/* One cell with its padding; the last of a line gets none behind it. Errors show in the stream. */
static void table_print_cell(FILE *out, const char *text, size_t width, enum table_align align,
			     bool last)
{
	size_t length = strlen(text);
	size_t columns = text_width(text, length);
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
			const char *text = row == 0 ? table->columns[column].title
						    : table_cell(table, row - 1, column);
			table_print_cell(out, text, widths[column], table->columns[column].align,
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
