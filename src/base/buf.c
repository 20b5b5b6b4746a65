/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

enum buf_limits {
	BUF_FIRST_CAPACITY = 64,
};

void buf_init(struct buf *buf, size_t max)
{
	*buf = (struct buf){.max = max};
}

void buf_done(struct buf *buf)
{
	free(buf->data);
	buf_init(buf, buf->max);
}

int buf_reserve(struct buf *buf, size_t length)
{
	size_t content, needed;
	if (!size_add(buf->length, length, &content) || content > buf->max ||
	    !size_add(content, 1, &needed))
		return -ENOSPC;
	if (needed <= buf->capacity)
		return 0;

	size_t capacity = buf->capacity ? buf->capacity : BUF_FIRST_CAPACITY;
	if (!size_mul(capacity, 2, &capacity) || capacity < needed)
		capacity = needed;
	if (capacity - 1 > buf->max)
		capacity = buf->max + 1;

	char *data = realloc(buf->data, capacity);
	if (!data)
		return -ENOMEM;

	data[buf->length] = '\0';
	buf->data = data;
	buf->capacity = capacity;

	return 0;
}

int buf_add(struct buf *buf, const void *data, size_t length)
{
	int rc = buf_reserve(buf, length);
	if (rc < 0)
		return rc;
	if (length > 0)
		memcpy(buf->data + buf->length, data, length);
	buf->length += length;
	buf->data[buf->length] = '\0';

	return 0;
}

int buf_add_text(struct buf *buf, const char *text)
{
	return buf_add(buf, text, strlen(text));
}

int buf_vprintf(struct buf *buf, const char *format, va_list arguments)
{
	va_list again;
	va_copy(again, arguments);

	int length = vsnprintf(NULL, 0, format, again);

	va_end(again);
	if (length < 0)
		return -ENOMEM; /* glibc: out of memory, or a text beyond INT_MAX */

	int rc = buf_reserve(buf, (size_t)length);
	if (rc < 0)
		return rc;

	int written = vsnprintf(buf->data + buf->length, (size_t)length + 1, format, arguments);
	if (written != length) {
		buf->data[buf->length] = '\0';
		return -ENOMEM;
	}

	buf->length += (size_t)length;
	return 0;
}

int buf_printf(struct buf *buf, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	int rc = buf_vprintf(buf, format, arguments);
	va_end(arguments);
	return rc;
}

void buf_consume(struct buf *buf, size_t length)
{
	assert(length <= buf->length);
	if (length == 0)
		return;
	buf->length -= length;
	memmove(buf->data, buf->data + length, buf->length);
	buf->data[buf->length] = '\0';
}

void buf_clear(struct buf *buf)
{
	buf->length = 0;
	if (buf->data)
		buf->data[0] = '\0';
}

const char *buf_text(const struct buf *buf)
{
	return buf->data ? buf->data : "";
}

char *buf_take(struct buf *buf)
{
	if (!buf->data && buf_reserve(buf, 0) < 0)
		return NULL;
	char *text = buf->data;
	buf_init(buf, buf->max);
	return text;
}
