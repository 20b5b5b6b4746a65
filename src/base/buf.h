/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing byte buffer with a limit that its maker chooses: what comes from outside can fill it
 * up to there and no further. Always NUL-terminated behind its content, so that text in it can be
 * handed on.
 */
#ifndef SLUICE_BASE_BUF_H
#define SLUICE_BASE_BUF_H

#include <stdarg.h>
#include <stddef.h>

struct buf {
	char *data; /* owned; NULL while nothing was added */
	size_t length;
	size_t capacity;
	size_t max; /* most bytes of content, without the final NUL */
};

/* An empty buffer that takes at most `max` bytes. Allocates nothing. */
void buf_init(struct buf *buf, size_t max);
void buf_done(struct buf *buf);
#define _cleanup_buf_ __attribute__((cleanup(buf_done)))

/* All return 0, -ENOSPC (would pass `max`) or -ENOMEM; on failure the content is as it was. */
int buf_add(struct buf *buf, const void *data, size_t length);
int buf_add_text(struct buf *buf, const char *text);
int buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
int buf_vprintf(struct buf *buf, const char *format, va_list arguments);
/* Makes room for `length` more bytes, so that they can be read straight into data + length. */
int buf_reserve(struct buf *buf, size_t length);

/* Drops the first `length` bytes. */
void buf_consume(struct buf *buf, size_t length);
void buf_clear(struct buf *buf);
/* The content as text, "" when empty. Borrowed: valid until the next change. */
const char *buf_text(const struct buf *buf);
/* The content as a string that the caller owns; the buffer is empty afterwards. NULL: no memory. */
char *buf_take(struct buf *buf);

#endif
