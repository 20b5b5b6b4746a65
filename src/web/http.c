/* SPDX-License-Identifier: Apache-2.0 */
#include "web/http.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"

bool http_text_is(const struct http_text *text, const char *word)
{
	size_t length = strlen(word);
	return text->data && text->length == length && memcmp(text->data, word, length) == 0;
}

static bool text_is_like(const struct http_text *text, const char *word)
{
	size_t length = strlen(word);
	return text->length == length && strncasecmp(text->data, word, length) == 0;
}

static bool is_token(unsigned char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
	       (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static struct http_text trimmed(const char *data, size_t length)
{
	while (length > 0 && is_blank(data[0])) {
		data++;
		length--;
	}
	while (length > 0 && is_blank(data[length - 1]))
		length--;
	return (struct http_text){data, length};
}

size_t http_head_length(const char *bytes, size_t length)
{
	bool any = false;

	for (size_t at = 0; at < length;) {
		const char *end = memchr(bytes + at, '\n', length - at);
		if (!end)
			return 0;

		size_t line = (size_t)(end - (bytes + at));
		bool empty = line == 0 || (line == 1 && bytes[at] == '\r');

		at += line + 1;
		if (empty && any)
			return at;

		any = any || !empty;
	}

	return 0;
}

/* --- fields ----------------------------------------------------------------------------------- */

/* "gzip", "gzip;q=0.5", "*;q=0": a name and whether its weight is more than nothing. */
static bool coding_is_wanted(const struct http_text *item, const char *name, bool *out_named)
{
	const char *semicolon = memchr(item->data, ';', item->length);
	size_t length = semicolon ? (size_t)(semicolon - item->data) : item->length;
	struct http_text coding = trimmed(item->data, length);

	*out_named = text_is_like(&coding, name);
	if (!semicolon)
		return true;

	struct http_text weight = trimmed(semicolon + 1, item->length - length - 1);
	if (weight.length < 3 || strncasecmp(weight.data, "q=", 2) != 0)
		return true;

	for (size_t i = 2; i < weight.length; i++) {
		if (weight.data[i] != '0' && weight.data[i] != '.')
			return true;
	}

	return false;
}

bool http_accepts_gzip(const char *value, size_t length)
{
	bool any = false;

	for (size_t at = 0; at < length;) {
		const char *comma = memchr(value + at, ',', length - at);
		size_t end = comma ? (size_t)(comma - value) : length;
		struct http_text item = {value + at, end - at};
		bool named, wanted = coding_is_wanted(&item, "gzip", &named);
		if (named)
			return wanted;

		wanted = coding_is_wanted(&item, "*", &named);
		if (named)
			any = wanted;
		at = end + 1;
	}

	return any;
}

/* Whether a list such as that of Connection has `word`. */
static bool list_has(const struct http_text *list, const char *word)
{
	for (size_t at = 0; at < list->length;) {
		const char *comma = memchr(list->data + at, ',', list->length - at);
		size_t end = comma ? (size_t)(comma - list->data) : list->length;
		struct http_text item = trimmed(list->data + at, end - at);
		if (text_is_like(&item, word))
			return true;

		at = end + 1;
	}

	return false;
}

struct fields {
	struct http_text host;
	unsigned hosts, count;
};

/* A field that may come once only: two would be two opinions. */
static int take_once(struct http_text *into, const struct http_text *value, const char *name,
		     struct err *err)
{
	if (into->data)
		return err_set(err, -EPROTO, "the request has %s twice", name);
	*into = *value;
	return 0;
}

static int take_field(const struct http_text *name, const struct http_text *value,
		      struct fields *fields, struct http_request *out, struct err *err)
{
	if (text_is_like(name, "host"))
		return take_once(&fields->host, value, "Host", err);
	if (text_is_like(name, "authorization"))
		return take_once(&out->authorization, value, "Authorization", err);
	if (text_is_like(name, "last-event-id"))
		return take_once(&out->last_event_id, value, "Last-Event-ID", err);

	if (text_is_like(name, "accept-encoding"))
		out->accepts_gzip = http_accepts_gzip(value->data, value->length);
	else if (text_is_like(name, "transfer-encoding"))
		out->has_body = true;
	else if (text_is_like(name, "content-length"))
		out->has_body = out->has_body || value->length != 1 || value->data[0] != '0';
	else if (text_is_like(name, "connection")) {
		if (list_has(value, "close"))
			out->keep_alive = false;
		else if (list_has(value, "keep-alive"))
			out->keep_alive = true;
	}

	return 0;
}

static int parse_field(const char *line, size_t length, struct fields *fields,
		       struct http_request *out, struct err *err)
{
	size_t colon = 0;
	while (colon < length && is_token((unsigned char)line[colon]))
		colon++;

	if (colon == 0 || colon == length || line[colon] != ':')
		return err_set(err, -EPROTO, "a header field of the request has no name");

	for (size_t i = colon + 1; i < length; i++) {
		unsigned char c = (unsigned char)line[i];
		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return err_set(err, -EPROTO,
				       "header field '%.*s' of the request has control characters",
				       (int)(colon < 40 ? colon : 40), line);
	}

	struct http_text name = {line, colon};
	struct http_text value = trimmed(line + colon + 1, length - colon - 1);

	if (++fields->count > HTTP_FIELDS_MAX)
		return err_set(err, -EPROTO, "the request has more than %d header fields",
			       HTTP_FIELDS_MAX);

	return take_field(&name, &value, fields, out, err);
}

/* --- the first line --------------------------------------------------------------------------- */

/* "/metrics?set=native", or a whole URI as a client of a proxy sends it. */
static int parse_target(const char *target, size_t length, struct http_request *out,
			struct err *err)
{
	static const char *const schemes[] = {"http://", "https://"};

	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)target[i];
		if (c <= 0x20 || c >= 0x7f || c == '#')
			return err_set(err, -EPROTO, "the target of the request is no URI");
	}

	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
		size_t scheme = strlen(schemes[i]);
		if (length <= scheme || strncasecmp(target, schemes[i], scheme) != 0)
			continue;

		size_t host = scheme;
		while (host < length && target[host] != '/' && target[host] != '?')
			host++;

		out->host = (struct http_text){target + scheme, host - scheme};
		target += host;
		length -= host;
		if (length == 0) {
			target = "/";
			length = 1;
		}
		break;
	}

	if (length == 0 || (target[0] != '/' && out->method != HTTP_OTHER))
		return err_set(err, -EPROTO, "the target of the request has no path");

	const char *mark = memchr(target, '?', length);

	out->path.data = target;
	out->path.length = mark ? (size_t)(mark - target) : length;
	if (mark)
		out->query = (struct http_text){mark + 1, length - out->path.length - 1};

	return 0;
}

static int parse_version(const char *text, size_t length, struct http_request *out,
			 unsigned *out_status, struct err *err)
{
	if (length != 8 || memcmp(text, "HTTP/", 5) != 0 || text[6] != '.')
		return err_set(err, -EPROTO,
			       "the first line of the request does not end in its "
			       "version of HTTP");

	if (text[5] != '1' || text[7] < '0' || text[7] > '9') {
		*out_status = 505;
		return err_set(err, -EPROTO, "this is HTTP/1.1, and the request is not");
	}

	out->is_old = text[7] == '0';
	out->keep_alive = !out->is_old;
	return 0;
}

static int parse_first(const char *line, size_t length, struct http_request *out,
		       unsigned *out_status, struct err *err)
{
	size_t method = 0;
	while (method < length && is_token((unsigned char)line[method]))
		method++;

	if (method == 0 || method == length || line[method] != ' ')
		return err_set(err, -EPROTO, "the request does not begin with a method");

	if (method == 3 && memcmp(line, "GET", 3) == 0)
		out->method = HTTP_GET;
	else if (method == 4 && memcmp(line, "HEAD", 4) == 0)
		out->method = HTTP_HEAD;
	else
		out->method = HTTP_OTHER;

	const char *target = line + method + 1;
	size_t rest = length - method - 1;
	const char *blank = memchr(target, ' ', rest);
	if (!blank)
		return err_set(err, -EPROTO, "the first line of the request has no version");

	size_t size = (size_t)(blank - target);
	int rc = parse_version(blank + 1, rest - size - 1, out, out_status, err);

	return rc < 0 ? rc : parse_target(target, size, out, err);
}

int http_request_parse(const char *head, size_t length, struct http_request *out,
		       unsigned *out_status, struct err *err)
{
	struct http_request request = {.method = HTTP_OTHER};
	struct fields fields = {.count = 0};
	bool first = true;
	int rc = 0;

	*out_status = 400;
	for (size_t at = 0; at < length && rc == 0;) {
		const char *line = head + at;
		const char *end = memchr(line, '\n', length - at);
		if (!end)
			break;

		size_t size = (size_t)(end - line);
		at += size + 1;
		if (size > 0 && line[size - 1] == '\r')
			size--;
		if (size == 0)
			continue; /* before the first line, or behind the last */

		if (first)
			rc = parse_first(line, size, &request, out_status, err);
		else
			rc = parse_field(line, size, &fields, &request, err);

		first = false;
	}

	if (rc == 0 && first)
		rc = err_set(err, -EPROTO, "the request is empty");
	if (rc < 0)
		return rc;
	if (!request.host.data)
		request.host = fields.host;

	/* RFC 9112 section 3.2; HTTP/1.0 does not know it */
	if (!fields.host.data && !request.is_old)
		return err_set(err, -EPROTO, "the request has no Host");

	*out = request;
	return 0;
}

const char *http_status_to_string(unsigned status)
{
	switch (status) {
	case 200:
		return "OK";
	case 400:
		return "Bad Request";
	case 401:
		return "Unauthorized";
	case 403:
		return "Forbidden";
	case 404:
		return "Not Found";
	case 405:
		return "Method Not Allowed";
	case 408:
		return "Request Timeout";
	case 431:
		return "Request Header Fields Too Large";
	case 503:
		return "Service Unavailable";
	case 505:
		return "HTTP Version Not Supported";
	default:
		return "Internal Server Error";
	}
}
