/* SPDX-License-Identifier: Apache-2.0 */
/* A request from anybody: what comes out of it lies within it, and every later reader of its parts
 * copes with them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "web/access.h"
#include "web/http.h"
#include "web/query.h"
#include "web/stream.h"

static struct view view = {
    .node = {.host = "gpu7"},
    .settings = {.has_token = true, .token = "secret", .host_count = 1, .host = {"gpus.example"}},
};

static void check_inside(const struct http_text *part, const char *data, size_t size)
{
	if (!part->data)
		return;
	if (part->data < data || part->length > size ||
	    (size_t)(part->data - data) + part->length > size) {
		static const char slash[] = "/"; /* the path of a URI that has none */
		if (part->length != strlen(slash) || part->data[0] != '/')
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const char *data = (const char *)bytes;
	struct http_request request;
	struct query query;
	struct err err;
	unsigned status;
	size_t length = http_head_length(data, size);
	if (length > size)
		abort();
	(void)query_parse(data, size, 0xff, &query, &err);
	(void)access_host_is_ours(&view, data, size);
	(void)http_accepts_gzip(data, size);
	uint64_t epoch, sequence;
	(void)stream_id_parse(data, size, &epoch, &sequence);
	if (length == 0 || http_request_parse(data, length, &request, &status, &err) < 0)
		return 0;
	const struct http_text *const parts[] = {&request.path, &request.query, &request.host,
						 &request.authorization, &request.last_event_id};
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		check_inside(parts[i], data, size);
	if (request.host.data)
		(void)access_host_is_ours(&view, request.host.data, request.host.length);
	if (access_token_is_right(&view, request.authorization.data,
				  request.authorization.length) &&
	    !memmem(data, size, "secret", 6))
		abort();
	if (request.query.data)
		(void)query_parse(request.query.data, request.query.length, 0xff, &query, &err);
	return 0;
}
