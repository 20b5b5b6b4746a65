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
#include "base/cleanup.h"
#include "base/err.h"
#include "base/text.h"

#define TABLE_ESCAPE 6 /* bytes of one that is escaped in JSON */

#define TABLE_GAP      2
#define TABLE_ELLIPSIS "…"

enum {
	TABLE_TEXT_MAX = 1 << 30, /* bytes of all cells, and of a line */
	TABLE_BLOCK = 64 << 10,	  /* bytes of lines that are written together */
};

/* A cell's text, and how much of a line it takes. */
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
static void table_push(struct table *table, const char *text, size_t length, size_t columns)
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

	if (buf_add(&table->text, text, length) < 0) {
		table->out_of_memory = true;
		return;
	}

	table->cells[table->cell_count++] = (struct table_cell){
	    .offset = offset,
	    .length = (uint32_t)length,
	    .columns = (uint32_t)columns,
	};
}

void table_add(struct table *table, const char *text)
{
	_cleanup_buf_ struct buf escaped;
	buf_init(&escaped, TABLE_CELL_MAX);
	if (!text || !*text)
		text = "-";

	size_t length = strlen(text);
	if (length <= TABLE_CELL_MAX && text_plain(text, length) == length) {
		table_push(table, text, length, length);
		return;
	}

	if (text_escape(&escaped, text, length) == -ENOMEM)
		table->out_of_memory = true;
	else
		table_push(table, buf_text(&escaped), escaped.length,
			   text_width(buf_text(&escaped), escaped.length));
}

void table_add_u64(struct table *table, uint64_t number)
{
	char text[TEXT_U64_MAX];
	size_t length = text_u64(text, number);
	table_push(table, text, length, length);
}

void table_addf(struct table *table, const char *format, ...)
{
	char text[TABLE_CELL_MAX + 1];
	va_list arguments;

	va_start(arguments, format);
	int length = vsnprintf(text, sizeof(text), format, arguments);

	va_end(arguments);
	if (length < 0) /* glibc: out of memory */
		table->out_of_memory = true;
	else
		table_add(table, (size_t)length < sizeof(text) ? text : "...");
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

/* One cell with its padding; the last of a line gets none behind it. */
static int table_print_cell(struct buf *out, const char *text, size_t length, size_t columns,
			    size_t width, enum table_align align, bool last)
{
	const char *ellipsis = "";

	if (columns > width) {
		length = text_fit(text, length, width - 1);
		columns = text_width(text, length) + 1;
		ellipsis = TABLE_ELLIPSIS;
	}

	size_t blanks = width - columns;
	size_t before = align == TABLE_RIGHT ? blanks : 0;
	size_t behind = last ? 0 : TABLE_GAP + blanks - before;
	int rc = buf_reserve(out, before + length + strlen(ellipsis) + behind);
	if (rc < 0)
		return rc;

	char *at = out->data + out->length;
	memset(at, ' ', before);
	at = mempcpy(at + before, text, length);
	at = mempcpy(at, ellipsis, strlen(ellipsis));
	memset(at, ' ', behind);
	out->length = (size_t)(at - out->data) + behind;

	return 0;
}

/* Row 0 is the header. */
static int table_print_row(const struct table *table, size_t row, const size_t *widths,
			   struct buf *out)
{
	int rc = 0;

	for (size_t column = 0; column < table->column_count && rc == 0; column++) {
		const struct table_column *about = &table->columns[column];
		const struct table_cell *cell = row > 0 ? table_cell(table, row - 1, column) : NULL;
		const char *plain = row == 0 ? about->title : "-";
		const char *text = cell ? table->text.data + cell->offset : plain;
		size_t length = cell ? cell->length : strlen(plain);
		size_t columns = cell ? cell->columns : text_width(plain, length);

		rc = table_print_cell(out, text, length, columns, widths[column], about->align,
				      column + 1 == table->column_count);
	}

	return rc < 0 ? rc : buf_add(out, "\n", 1);
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
	_cleanup_buf_ struct buf lines;

	buf_init(&lines, TABLE_TEXT_MAX);
	table_measure(table, width, widths);

	for (size_t row = 0; row <= rows; row++) {
		if (table_print_row(table, row, widths, &lines) < 0)
			return err_set(err, -ENOMEM, "out of memory while printing a table");
		if (row < rows && lines.length < TABLE_BLOCK)
			continue;

		(void)fwrite_unlocked(lines.data, 1, lines.length, out); /* it remembers errors */
		buf_clear(&lines);
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

/* A piece of it, which ends where a character does. */
static int table_write_json(const char *data, size_t size, void *context)
{
	_cleanup_buf_ struct buf safe;
	size_t ascii = 0;

	buf_init(&safe, TABLE_ESCAPE * size);

	while (ascii < size && data[ascii] > 0 && data[ascii] < 0x7f)
		ascii++;

	if (ascii == size) /* nearly all are */
		return fwrite_unlocked(data, 1, size, context) == size ? 0 : -1;

	if (text_escape_json(&safe, data, size) < 0)
		return -1;

	return fwrite_unlocked(safe.data, 1, safe.length, context) == safe.length ? 0 : -1;
}

int table_print_json(const json_t *json, FILE *out, struct err *err)
{
	if (!json)
		return err_set(err, -ENOMEM, "out of memory while making JSON");
	if (json_dump_callback(json, table_write_json, out, JSON_INDENT(2) | JSON_ENCODE_ANY) < 0 &&
	    !ferror(out))
		return err_set(err, -ENOMEM, "out of memory while printing JSON");
	fputc('\n', out);
	return table_stream_check(out, err);
}

char *table_json_dump(const json_t *json)
{
	_cleanup_free_ char *text = json ? json_dumps(json, JSON_INDENT(2)) : NULL;
	_cleanup_buf_ struct buf safe;
	buf_init(&safe, text ? TABLE_ESCAPE * strlen(text) + 1 : 0);
	if (!text || text_escape_json(&safe, text, strlen(text)) < 0)
		return NULL;
	return buf_take(&safe);
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
