/* SPDX-License-Identifier: Apache-2.0 */
#include "web/metrics_out.h"

#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "web/metrics.h"

void metrics_out_begin(struct metrics_out *m, struct buf *out)
{
	*m = (struct metrics_out){.out = out, .start = out->length};
	buf_init(&m->scratch, METRICS_SCRATCH_MAX);
}

int metrics_out_end(struct metrics_out *m)
{
	buf_done(&m->scratch);
	if (m->rc < 0 && m->out->data) {
		m->out->length = m->start;
		m->out->data[m->start] = '\0';
	}
	return m->rc;
}

/* Where `length` bytes may be written, or NULL. */
static char *out_room(struct metrics_out *m, struct buf *buf, size_t length)
{
	if (m->rc < 0)
		return NULL;

	if (buf->capacity - buf->length <= length) {
		m->rc = buf_reserve(buf, length);
		if (m->rc < 0)
			return NULL;
	}

	return buf->data + buf->length;
}

static void out_used(struct buf *buf, const char *end)
{
	buf->length = (size_t)(end - buf->data);
	buf->data[buf->length] = '\0';
}

static char *put(char *to, const char *text, size_t length)
{
	memcpy(to, text, length);
	return to + length;
}

static char *put_text(char *to, const char *text)
{
	return put(to, text, strlen(text));
}

/* --- numbers ---------------------------------------------------------------------------------- */

static const uint64_t powers[] = {1,	  10,	   100,	     1000,	10000,
				  100000, 1000000, 10000000, 100000000, 1000000000};

size_t metrics_number(char out[METRICS_NUMBER_MAX], bool negative, uint64_t number, int exponent)
{
	char *to = out;
	uint64_t whole = number, part = 0;

	if (exponent < 0) {
		whole = number / powers[-exponent];
		part = number % powers[-exponent];
	}

	if (negative && number > 0)
		*to++ = '-';
	if (whole < 10)
		*to++ = (char)('0' + whole);
	else
		to += text_u64(to, whole);

	for (int i = 0; i < exponent && number > 0; i++)
		*to++ = '0';

	if (part > 0) {
		*to++ = '.';
		for (int i = -exponent - 1; part > 0; i--) {
			*to++ = (char)('0' + part / powers[i]);
			part %= powers[i];
		}
	}

	return (size_t)(to - out);
}

/* --- lines ------------------------------------------------------------------------------------ */

void metrics_out_family(struct metrics_out *m, const struct metrics_family *family,
			const char *name)
{
	m->family = family;
	m->name = name;
	m->headed = false;
}

/* Help texts are our own and hold neither backslash nor line break. */
static void out_head(struct metrics_out *m)
{
	const struct metrics_family *family = m->family;
	size_t name = strlen(m->name);
	char *to = out_room(m, m->out, 2 * name + strlen(family->help) + strlen(family->type) + 32);
	if (!to)
		return;

	to = put_text(to, "# HELP ");
	to = put(to, m->name, name);
	*to++ = ' ';
	to = put_text(to, family->help);
	to = put_text(to, "\n# TYPE ");
	to = put(to, m->name, name);
	*to++ = ' ';
	to = put_text(to, family->type);
	*to++ = '\n';
	out_used(m->out, to);
	m->headed = true;
}

static void out_line(struct metrics_out *m, struct metrics_labels labels, const char *extra,
		     bool negative, uint64_t number, int exponent)
{
	if (!m->headed)
		out_head(m);

	size_t name = strlen(m->name), more = extra ? strlen(extra) : 0;
	char *to = out_room(m, m->out, name + labels.length + more + METRICS_NUMBER_MAX + 8);
	if (!to)
		return;

	to = put(to, m->name, name);
	if (labels.length + more > 0) {
		*to++ = '{';
		to = put(to, buf_text(&m->scratch) + labels.at, labels.length);
		if (labels.length > 0 && more > 0)
			*to++ = ',';
		to = put(to, more > 0 ? extra : "", more);
		*to++ = '}';
	}

	*to++ = ' ';
	to += metrics_number(to, negative, number, exponent);
	*to++ = '\n';
	out_used(m->out, to);
}

void metrics_out_line(struct metrics_out *m, struct metrics_labels labels, const char *extra,
		      int64_t number, int exponent)
{
	uint64_t magnitude = number < 0 ? -(uint64_t)number : (uint64_t)number;
	out_line(m, labels, extra, number < 0, magnitude, exponent);
}

void metrics_out_line_u64(struct metrics_out *m, struct metrics_labels labels, const char *extra,
			  uint64_t number, int exponent)
{
	out_line(m, labels, extra, false, number, exponent);
}

/* --- labels ----------------------------------------------------------------------------------- */

struct metrics_labels metrics_labels_begin(struct metrics_out *m)
{
	return (struct metrics_labels){.at = (uint32_t)m->scratch.length};
}

struct metrics_labels metrics_labels_end(struct metrics_out *m, struct metrics_labels begun)
{
	if (m->rc < 0)
		return (struct metrics_labels){0};
	/* Each label was written with a comma behind it. */
	if (m->scratch.length > begun.at)
		begun.length = (uint32_t)m->scratch.length - 1 - begun.at;
	return begun;
}

/* As the format wants it: backslash, quote and line break escaped, U+FFFD for what is no UTF-8. */
static char *put_escaped(char *to, const char *value, size_t length)
{
	for (size_t at = 0; at < length;) {
		char c = value[at];
		size_t size = 1;

		if (c == '\\' || c == '"' || c == '\n') {
			*to++ = '\\';
			*to++ = c == '\n' ? 'n' : c;
		} else if ((unsigned char)c < 0x80) {
			*to++ = c;
		} else if (text_decode(value + at, length - at, &size) == TEXT_INVALID) {
			to = put(to, "\xef\xbf\xbd", 3);
		} else {
			to = put(to, value + at, size);
		}

		at += size;
	}

	return to;
}

void metrics_labels_text(struct metrics_out *m, const char *name, const char *value)
{
	size_t length = strlen(value), name_length = strlen(name);
	char *to = out_room(m, &m->scratch, name_length + 3 * length + 4);
	if (!to)
		return;

	to = put(to, name, name_length);
	*to++ = '=';
	*to++ = '"';
	to = put_escaped(to, value, length);
	*to++ = '"';
	*to++ = ',';
	out_used(&m->scratch, to);
}

void metrics_labels_number(struct metrics_out *m, const char *name, uint64_t value)
{
	char digits[TEXT_U64_MAX];
	(void)text_u64(digits, value);
	metrics_labels_text(m, name, digits);
}

void metrics_labels_copy(struct metrics_out *m, struct metrics_labels from)
{
	char *to = out_room(m, &m->scratch, (size_t)from.length + 1);
	if (!to || from.length == 0)
		return;
	to = put(to, m->scratch.data + from.at, from.length);
	*to++ = ',';
	out_used(&m->scratch, to);
}

/* --- once ------------------------------------------------------------------------------------- */

void metrics_seen_init(struct metrics_seen *seen, uint64_t *slots, uint32_t count)
{
	memset(slots, 0, count * sizeof(*slots));
	*seen = (struct metrics_seen){.slot = slots, .mask = count - 1};
}

/* Eight bytes at a time; every bit of the labels takes part. */
static uint64_t hash(const char *text, size_t length)
{
	const uint64_t prime = UINT64_C(0x9e3779b97f4a7c15);
	uint64_t sum = length * prime + 1, word;
	for (; length >= sizeof(word); text += sizeof(word), length -= sizeof(word)) {
		memcpy(&word, text, sizeof(word));
		sum = (sum ^ word) * prime;
		sum ^= sum >> 29;
	}

	word = 0;
	memcpy(&word, text, length);
	sum = (sum ^ word) * prime;
	sum ^= sum >> 32;

	return sum ? sum : 1;
}

struct metrics_labels metrics_seen_once(struct metrics_out *m, struct metrics_seen *seen,
					struct metrics_labels labels)
{
	if (m->rc < 0 || labels.length == 0)
		return (struct metrics_labels){0};

	uint64_t key = hash(m->scratch.data + labels.at, labels.length);

	for (uint32_t at = (uint32_t)key & seen->mask, i = 0; i <= seen->mask; i++) {
		if (seen->slot[at] == key)
			return (struct metrics_labels){0};
		if (seen->slot[at] == 0) {
			seen->slot[at] = key;
			return labels;
		}

		at = (at + 1) & seen->mask;
	}

	return (struct metrics_labels){0};
}
