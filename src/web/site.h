/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is at which path: from a request and the newest view to an answer. Each thing is rendered
 * once for a view, when somebody asks for it, and shared by all who ask then. Knows nothing of
 * sockets.
 */
#ifndef SLUICE_WEB_SITE_H
#define SLUICE_WEB_SITE_H

#include <stdbool.h>
#include <stdint.h>

struct answer;
struct chunk;
struct err;
struct http_request;
struct site;
struct view;

enum site_limits {
	SITE_ANSWER_MAX = 16 << 20, /* bytes of one answer */
};

/* NULL: -ENOMEM. */
struct site *site_new(struct err *err);
struct site *site_free(struct site *site);

/* There is a new view (borrowed until the next call). `sequence` is view_copy()'s,
 * `streams` how many are open. */
void site_set_view(struct site *site, const struct view *view, uint64_t sequence, uint64_t now_ns,
		   uint32_t streams);
/* Answers at `now_ns`. `streams`: how many are open. */
void site_answer(struct site *site, const struct http_request *request, uint64_t now_ns,
		 uint32_t streams, struct answer *out);

/* As server_owner has them. */
struct chunk *site_stream_next(struct site *site, uint64_t *cursor);
bool site_stream_is_lost(const struct site *site, uint64_t cursor);
/* Once in a while: true if streams have something new because nothing else was said. */
bool site_heartbeat(struct site *site, uint64_t now_ns);

#endif
