/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head of an HTTP/1.x request as plain data. Pure: bytes in, pieces of them out. Strict where
 * two readers of the same bytes could understand them differently (RFC 9112 section 11): what is
 * doubtful is refused, never guessed. Knows nothing of sockets or of what is served.
 */
#ifndef SLUICE_WEB_HTTP_H
#define SLUICE_WEB_HTTP_H

#include <stdbool.h>
#include <stddef.h>

struct err;

enum http_limits {
	HTTP_HEAD_MAX = 8192, /* the empty line at its end included */
	HTTP_FIELDS_MAX = 100,
};

enum http_method { HTTP_GET, HTTP_HEAD, HTTP_OTHER };

/* Borrowed from the request's bytes; not NUL-terminated. NULL: it is not there. */
struct http_text {
	const char *data;
	size_t length;
};

struct http_request {
	enum http_method method;
	struct http_text path;	/* begins with '/'; as it was sent */
	struct http_text query; /* behind '?' */
	struct http_text host;	/* of the target if it is a whole URI, else the field Host */
	struct http_text authorization, last_event_id;
	bool is_old; /* HTTP/1.0 */
	bool accepts_gzip;
	bool has_body;	 /* says that one follows */
	bool keep_alive; /* the client would like to ask again */
};

/* How long the head at the front of `length` bytes is, its empty line included; 0: it has not come
 * whole yet. Empty lines before it belong to it (RFC 9112 section 2.2). */
size_t http_head_length(const char *bytes, size_t length);

/*
 * Reads a whole head. 0, or -EPROTO with what is wrong in `err` and in `*out_status` the status to
 * answer: 400; 505 for another version of HTTP. Afterwards the connection cannot be used again.
 */
int http_request_parse(const char *head, size_t length, struct http_request *out,
		       unsigned *out_status, struct err *err);

/* True if Accept-Encoding of this value lets an answer be compressed by gzip. */
bool http_accepts_gzip(const char *value, size_t length);

/* "Not Found": the words of a status. */
const char *http_status_to_string(unsigned status);

/* True if the text is exactly `word`. */
bool http_text_is(const struct http_text *text, const char *word);

#endif
