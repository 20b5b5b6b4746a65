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

#include "base/array.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/parse.h"
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
	if (array_room(&table->cells, table->cell_count, &table->cell_capacity,
		       8 * table->column_count) < 0) {
		table->out_of_memory = true;
		return;
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

/* How the columns of one printing are. */
struct table_layout {
	const struct table *table;
	const struct table_style *style;
	size_t row_count;
	size_t natural[TABLE_COLUMNS_MAX]; /* what the longest cell takes; 0: it is left out */
	size_t width[TABLE_COLUMNS_MAX];
	size_t last; /* the last one that is there */
};

/* Of a printed row, its place among all of them. */
static size_t table_row_at(const struct table_layout *layout, size_t at)
{
	return layout->style->rows ? layout->style->rows[at] : at;
}

/* Makes the columns that may shrink narrower, the widest first, until the line fits. False: it
 * does not. */
static bool table_shrink(const struct table *table, const struct table_style *style, size_t *widths)
{
	size_t width = style->width;
	size_t total = 0;
	for (size_t i = 0; i < table->column_count; i++)
		total += widths[i] ? widths[i] + (total > 0 ? TABLE_GAP : 0) : 0;

	while (width > 0 && total > width) {
		size_t widest = table->column_count;
		for (size_t i = 0; i < table->column_count; i++) {
			const struct table_column *column = &table->columns[i];
			size_t least = style->give ? style->give[i].least : 0;

			least = least ? least : TABLE_SHRINK_MIN;
			if (!column->may_shrink || widths[i] <= least)
				continue;
			if (widest == table->column_count || widths[i] > widths[widest])
				widest = i;
		}

		if (widest == table->column_count)
			return false;

		widths[widest]--;
		total--;
	}

	return true;
}

/* Leaves out the column that can best be spared. False: there is none. */
static bool table_drop(struct table_layout *layout)
{
	const struct table_give *give = layout->style->give;
	size_t count = layout->table->column_count, spare = count;

	for (size_t i = 0; give && i < count; i++) {
		if (layout->natural[i] == 0 || give[i].drop == 0)
			continue;
		if (spare == count || give[i].drop > give[spare].drop)
			spare = i;
	}

	if (spare < count)
		layout->natural[spare] = 0;
	return spare < count;
}

static size_t table_measure_column(const struct table_layout *layout, size_t column)
{
	const struct table *table = layout->table;
	const struct table_column *about = &table->columns[column];
	size_t width =
	    layout->style->no_header ? 1 : text_width(about->title, strlen(about->title));
	bool has_any = !layout->style->give || !layout->style->give[column].may_vanish;

	for (size_t at = 0; at < layout->row_count; at++) {
		const struct table_cell *cell = table_cell(table, table_row_at(layout, at), column);
		if (!cell)
			continue;

		has_any = has_any || cell->length != 1 || table->text.data[cell->offset] != '-';
		width = cell->columns > width ? cell->columns : width;
	}

	return has_any ? width : 0;
}

static void table_measure(struct table_layout *layout)
{
	const struct table *table = layout->table;
	size_t bytes = table->column_count * sizeof(layout->width[0]);

	for (size_t column = 0; column < table->column_count; column++)
		layout->natural[column] = table_measure_column(layout, column);

	do /* what does not fit then is broken by the terminal: nothing is lost */
		memcpy(layout->width, layout->natural, bytes);
	while (!table_shrink(table, layout->style, layout->width) && table_drop(layout));

	for (size_t column = 0; column < table->column_count; column++)
		layout->last = layout->width[column] > 0 ? column : layout->last;
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

/* The line of `line` that begins at `from`, as long as it may be. */
static int table_cut_line(struct buf *lines, size_t from, size_t width)
{
	const char *line = lines->data + from;
	size_t length = lines->length - from;
	if (text_width(line, length) <= width)
		return 0;

	lines->length = from + text_fit(line, length, width - 1);
	return buf_add_text(lines, TABLE_ELLIPSIS);
}

/* Row NULL is the header. */
static int table_print_row(const struct table_layout *layout, const size_t *row, struct buf *out)
{
	const struct table *table = layout->table;
	size_t from = out->length;
	int rc = 0;

	for (size_t column = 0; column < table->column_count && rc == 0; column++) {
		const struct table_column *about = &table->columns[column];
		const struct table_cell *cell = row ? table_cell(table, *row, column) : NULL;
		const char *plain = row ? "-" : about->title;
		const char *text = cell ? table->text.data + cell->offset : plain;
		size_t length = cell ? cell->length : strlen(plain);
		size_t columns = cell ? cell->columns : text_width(plain, length);

		if (layout->width[column] > 0)
			rc = table_print_cell(out, text, length, columns, layout->width[column],
					      about->align, column == layout->last);
	}

	if (rc == 0 && layout->style->cuts && layout->style->width > 0)
		rc = table_cut_line(out, from, layout->style->width);

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

int table_print_as(const struct table *table, const struct table_style *style, FILE *out,
		   struct err *err)
{
	struct table_layout layout = {.table = table,
				      .style = style,
				      .row_count =
					  style->rows ? style->row_count : table_rows(table)};
	_cleanup_buf_ struct buf lines;

	buf_init(&lines, TABLE_TEXT_MAX);
	if (table->out_of_memory)
		return err_set(err, -ENOMEM, "out of memory while printing a table");

	table_measure(&layout);

	int rc = style->no_header ? 0 : table_print_row(&layout, NULL, &lines);

	for (size_t at = 0; at < layout.row_count && rc == 0; at++) {
		size_t row = table_row_at(&layout, at);
		rc = table_print_row(&layout, &row, &lines);
		if (lines.length < TABLE_BLOCK)
			continue;

		(void)fwrite_unlocked(lines.data, 1, lines.length, out); /* it remembers errors */
		buf_clear(&lines);
	}

	if (rc < 0)
		return err_set(err, -ENOMEM, "out of memory while printing a table");

	if (lines.length > 0)
		(void)fwrite_unlocked(lines.data, 1, lines.length, out);
	return table_stream_check(out, err);
}

int table_print(const struct table *table, FILE *out, size_t width, struct err *err)
{
	const struct table_style style = {.width = width};
	return table_print_as(table, &style, out, err);
}

/* Of a variable that says how large the terminal is; 0: it says nothing. */
static size_t table_size_of(const char *name)
{
	const char *text = getenv(name);
	uint64_t size;
	return text && parse_u64(text, 1, TABLE_WIDTH_MAX, &size) == 0 ? (size_t)size : 0;
}

void table_room(FILE *out, size_t *out_columns, size_t *out_lines)
{
	struct winsize size = {0};
	int fd = fileno(out);
	if (fd < 0 || !isatty(fd) || ioctl(fd, TIOCGWINSZ, &size) < 0)
		size = (struct winsize){0};

	size_t columns = table_size_of("COLUMNS");
	size_t lines = fd >= 0 && isatty(fd) ? table_size_of("LINES") : 0;

	columns = columns >= TABLE_WIDTH_MIN ? columns : size.ws_col;
	*out_columns = columns >= TABLE_WIDTH_MIN ? columns : TABLE_WIDTH_PLAIN;
	*out_lines = lines ? lines : size.ws_row;
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
