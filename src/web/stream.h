/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Server-sent events: for each new view one part, the same bytes for all readers, kept for those
 * who are a little behind or come back. Nothing is made while nobody reads. Knows nothing of
 * sockets: a reader is a number, that of the last part it has.
 */
#ifndef SLUICE_WEB_STREAM_H
#define SLUICE_WEB_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct chunk;
struct err;
struct state_at;
struct stream;

enum stream_limits {
	STREAM_PARTS_MAX = 128,	      /* kept: how long one can have been away, in seconds */
	STREAM_BYTES_MAX = 256 << 10, /* kept: who is further behind is dropped */
	STREAM_PART_MAX = 8 << 20,
	STREAM_HEARTBEAT_S = 15,
	STREAM_UNREAD_S = 60, /* so long after the last reader it goes on for one that comes back */
	STREAM_RETRY_MS = 2000,
};

struct stream *stream_new(struct err *err);
struct stream *stream_free(struct stream *stream);

/* There is a new view. Without memory for its part all readers are dropped: they would miss it. */
void stream_note(struct stream *stream, const struct state_at *at, uint32_t readers);
/* Says that we are alive, if nothing was said for a while; and that the last view is stale, if
 * none has come after it: then nobody else says so. `at->view` may be NULL. True: there is
 * something new. */
bool stream_heartbeat(struct stream *stream, const struct state_at *at);

/*
 * A reader begins at the state of `at`. 1: it was here before (`last_id`, borrowed, may be NULL)
 * and goes on; 0: it begins with stream_begin_render(). `*out_cursor` for the next calls. -ENOMEM.
 */
int stream_join(struct stream *stream, const struct state_at *at, const char *last_id,
		size_t last_id_length, uint64_t *out_cursor, struct err *err);
/* What a reader gets first: with all of the state, or (`resumes`) without. */
int stream_begin_render(const struct state_at *at, bool resumes, struct buf *out, struct err *err);

/* The part behind `*cursor`, with a reference for the caller; NULL: there is none yet. */
struct chunk *stream_next(struct stream *stream, uint64_t *cursor);
/* What a reader at `cursor` lacks is not kept any more. */
bool stream_is_lost(const struct stream *stream, uint64_t cursor);

/* "1f3a-27": which service and which view. 0 or -EINVAL. */
int stream_id_parse(const char *text, size_t length, uint64_t *out_epoch, uint64_t *out_sequence);

#endif
