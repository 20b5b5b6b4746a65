/* SPDX-License-Identifier: Apache-2.0 */
#include "web/site.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "web/access.h"
#include "web/busy.h"
#include "web/chunk.h"
#include "web/history.h"
#include "web/http.h"
#include "web/metrics.h"
#include "web/page.h"
#include "web/query.h"
#include "web/server.h"
#include "web/state.h"
#include "web/stream.h"
#include "web/view.h"

enum { GZIP_WORTH = 512 }; /* what is smaller is sent as it is */

/* What is rendered once for all who ask for it. */
enum cached {
	CACHED_METRICS, /* the next ones in the order of enum view_set */
	CACHED_METRICS_NATIVE,
	CACHED_METRICS_DCGM,
	CACHED_PAGE,
	CACHED_PAGE_EMPTY, /* for whoever has not said the token */
	CACHED_STATE,
	CACHED_PROCESSES,
	CACHED_EVENTS,
	CACHED_STREAM, /* with what a stream begins */
	CACHED_STREAM_AGAIN,
	CACHED_COUNT,
};

struct rendering {
	struct chunk *plain, *packed; /* owned references; packed once somebody wants it */
	uint64_t sequence, made_ns;
};

struct site {
	const struct view *view; /* borrowed; NULL: there was none yet */
	uint64_t sequence;
	struct history *history; /* owned, as the next two */
	struct busy *busy;
	struct stream *stream;
	struct rendering cache[CACHED_COUNT];
};

struct site *site_new(struct err *err)
{
	struct site *site = calloc(1, sizeof(*site));
	if (!site) {
		(void)err_set(err, -ENOMEM, "out of memory for the pages");
		return NULL;
	}

	site->history = history_new(err);
	site->busy = busy_new(err);
	site->stream = stream_new(err);

	return site->history && site->busy && site->stream ? site : site_free(site);
}

static void rendering_drop(struct rendering *rendering)
{
	rendering->plain = chunk_unref(rendering->plain);
	rendering->packed = chunk_unref(rendering->packed);
}

struct site *site_free(struct site *site)
{
	if (!site)
		return NULL;

	for (size_t i = 0; i < array_length(site->cache); i++)
		rendering_drop(&site->cache[i]);

	history_free(site->history);
	busy_free(site->busy);
	stream_free(site->stream);
	free(site);

	return NULL;
}

static struct state_at site_state(const struct site *site, uint64_t now_ns)
{
	return (struct state_at){
	    .view = site->view,
	    .busy = site->busy,
	    .sequence = site->sequence,
	    .now_ns = now_ns,
	    .now_unix_ns = clock_unix_ns(),
	};
}

void site_set_view(struct site *site, const struct view *view, uint64_t sequence, uint64_t now_ns,
		   uint32_t streams)
{
	site->view = view;
	site->sequence = sequence;
	history_note(site->history, view);
	busy_note(site->busy, view);

	struct state_at at = site_state(site, now_ns);
	stream_note(site->stream, &at, streams);

	/* What nobody asks for any more takes no memory. */
	for (size_t i = 0; i < array_length(site->cache); i++) {
		if (site->cache[i].sequence != sequence)
			rendering_drop(&site->cache[i]);
	}
}

/* --- rendering -------------------------------------------------------------------------------- */

static int site_render(const struct site *site, enum cached what, uint64_t now_ns, struct buf *out,
		       struct err *err)
{
	const struct state_at at = site_state(site, now_ns);

	switch (what) {
	case CACHED_METRICS:
	case CACHED_METRICS_NATIVE:
	case CACHED_METRICS_DCGM:
		return metrics_render(site->view, now_ns, (enum view_set)(what - CACHED_METRICS),
				      out, err);
	case CACHED_PAGE:
		return page_render(site->view, now_ns, out, err);
	case CACHED_PAGE_EMPTY:
		return page_render(NULL, now_ns, out, err);
	case CACHED_STATE:
		return state_render(&at, out, err);
	case CACHED_PROCESSES:
		return state_render_processes(&at, out, err);
	case CACHED_EVENTS:
		return state_render_events(&at, out, err);
	case CACHED_STREAM:
	case CACHED_STREAM_AGAIN:
		return stream_begin_render(&at, what == CACHED_STREAM_AGAIN, out, err);
	case CACHED_COUNT:
		break;
	}

	return err_set(err, -EINVAL, "there is no such rendering");
}

/* The rendering for this view, made at most a second ago: ages are in it. NULL: `err`. */
static struct rendering *site_rendering(struct site *site, enum cached what, uint64_t now_ns,
					struct err *err)
{
	struct rendering *rendering = &site->cache[what];
	if (rendering->plain && rendering->sequence == site->sequence &&
	    now_ns - rendering->made_ns < CLOCK_NS_PER_S)
		return rendering;

	rendering_drop(rendering);
	struct chunk *chunk = chunk_new(SITE_ANSWER_MAX, err);
	if (!chunk)
		return NULL;
	if (site_render(site, what, now_ns, &chunk->buf, err) < 0) {
		chunk_unref(chunk);
		return NULL;
	}

	chunk_trim(chunk);
	rendering->plain = chunk;
	rendering->sequence = site->sequence;
	rendering->made_ns = now_ns;

	return rendering;
}

static const char retry_after[] = "Retry-After: 1\r\n";
static const char json_type[] = "application/json; charset=utf-8";

static void answer_error(struct answer *out, unsigned status, const char *fields, const char *text)
{
	out->status = status;
	out->fields = fields;
	(void)snprintf(out->text, sizeof(out->text), "%s", text);
}

/* Compressed if the client can read that. */
static void answer_with(const struct http_request *request, struct rendering *rendering,
			struct answer *out)
{
	out->status = 200;
	out->varies = true;

	if (request->accepts_gzip && rendering->plain->buf.length >= GZIP_WORTH) {
		if (!rendering->packed)
			rendering->packed = chunk_gzip(rendering->plain, NULL);
		out->is_gzip = rendering->packed != NULL;
	}

	out->body = chunk_ref(out->is_gzip ? rendering->packed : rendering->plain);
}

static void answer_rendering(struct site *site, const struct http_request *request,
			     enum cached what, uint64_t now_ns, struct answer *out)
{
	struct err err;
	struct rendering *rendering = site_rendering(site, what, now_ns, &err);
	if (rendering)
		answer_with(request, rendering, out);
	else
		answer_error(out, 503, retry_after, err.text);
}

/* --- paths ------------------------------------------------------------------------------------ */

struct visit {
	struct site *site;
	const struct http_request *request;
	struct query query;
	uint64_t now_ns;
	uint32_t streams;
	bool is_known; /* has said the token, or need not */
};

static void path_healthz(const struct visit *visit, struct answer *out)
{
	out->status = 200;
	(void)snprintf(out->text, sizeof(out->text), "ok");
}

static void path_metrics(const struct visit *visit, struct answer *out)
{
	enum view_set set = visit->query.has_set ? visit->query.set
						 : (enum view_set)visit->site->view->settings.set;
	answer_rendering(visit->site, visit->request, CACHED_METRICS + set, visit->now_ns, out);
	if (out->status == 200)
		out->type = "text/plain; version=0.0.4; charset=utf-8";
}

static void path_page(const struct visit *visit, struct answer *out)
{
	bool full = visit->is_known && visit->site->view;
	answer_rendering(visit->site, visit->request, full ? CACHED_PAGE : CACHED_PAGE_EMPTY,
			 visit->now_ns, out);
	if (out->status == 200) {
		out->type = "text/html; charset=utf-8";
		out->policy = page_policy();
	}
}

static void answer_json(const struct visit *visit, enum cached what, struct answer *out)
{
	answer_rendering(visit->site, visit->request, what, visit->now_ns, out);
	if (out->status == 200)
		out->type = json_type;
}

static void path_state(const struct visit *visit, struct answer *out)
{
	answer_json(visit, CACHED_STATE, out);
}

static void path_processes(const struct visit *visit, struct answer *out)
{
	answer_json(visit, CACHED_PROCESSES, out);
}

static void path_events(const struct visit *visit, struct answer *out)
{
	answer_json(visit, CACHED_EVENTS, out);
}

/* Each question is another, so nothing is kept of it. */
static void path_history(const struct visit *visit, struct answer *out)
{
	struct err err;
	struct history_question question = {
	    .resolution_s = visit->query.resolution_s,
	    .has_since = visit->query.has_since,
	    .since_unix_ns = visit->query.since_unix_ns,
	    .now_ns = visit->now_ns,
	    .now_unix_ns = clock_unix_ns(),
	};
	int series = history_series(visit->query.series, &err);
	if (series < 0) {
		answer_error(out, 400, NULL, err.text);
		return;
	}

	question.series = (uint32_t)series;
	struct rendering once = {.plain = chunk_new(SITE_ANSWER_MAX, &err)};
	if (!once.plain || history_render(visit->site->history, visit->site->view, &question,
					  &once.plain->buf, &err) < 0)
		answer_error(out, 503, retry_after, err.text);
	else
		answer_with(visit->request, &once, out);

	rendering_drop(&once);
	if (out->status == 200)
		out->type = json_type;
}

static void path_stream(const struct visit *visit, struct answer *out)
{
	const struct http_text *last = &visit->request->last_event_id;
	struct state_at at = site_state(visit->site, visit->now_ns);
	struct err err;
	int rc = 0;

	if (visit->streams >= SERVER_STREAMS_MAX) {
		answer_error(out, 503, retry_after, "there are 32 readers of the stream already");
		return;
	}

	if (visit->request->method == HTTP_GET)
		rc = stream_join(visit->site->stream, &at, last->data, last->length, &out->cursor,
				 &err);
	if (rc < 0) {
		answer_error(out, 503, retry_after, err.text);
		return;
	}

	struct rendering *begin = site_rendering(
	    visit->site, rc > 0 ? CACHED_STREAM_AGAIN : CACHED_STREAM, visit->now_ns, &err);
	if (!begin) {
		answer_error(out, 503, retry_after, err.text);
		return;
	}

	out->status = 200;
	out->type = "text/event-stream; charset=utf-8";

	/* nginx would gather it */
	out->fields = "X-Accel-Buffering: no\r\n";
	out->is_stream = true;
	out->body = chunk_ref(begin->plain);
}

static const struct path {
	const char *path;
	void (*answer)(const struct visit *visit, struct answer *out);
	unsigned parameters; /* enum query_parameter bits */
	bool is_open;	     /* also without the token */
	bool needs_view;
} paths[] = {
    {"/healthz", path_healthz, 0, true, false},
    {"/metrics", path_metrics, QUERY_SET, false, true},
    {"/", path_page, 0, true, false},
    {"/api/v1/state", path_state, 0, false, true},
    {"/api/v1/processes", path_processes, 0, false, true},
    {"/api/v1/events", path_events, 0, false, true},
    {"/api/v1/history", path_history, QUERY_SERIES | QUERY_SINCE | QUERY_RESOLUTION, false, true},
    {"/api/v1/stream", path_stream, 0, false, true},
};

static const struct path *site_find(const struct http_request *request)
{
	for (size_t i = 0; i < array_length(paths); i++) {
		if (http_text_is(&request->path, paths[i].path))
			return &paths[i];
	}
	return NULL;
}

void site_answer(struct site *site, const struct http_request *request, uint64_t now_ns,
		 uint32_t streams, struct answer *out)
{
	struct visit visit = {
	    .site = site, .request = request, .now_ns = now_ns, .streams = streams};
	const struct path *path = site_find(request);
	struct err err;

	if (request->host.data &&
	    !access_host_is_ours(site->view, request->host.data, request->host.length)) {
		answer_error(out, 403, NULL,
			     "this is not the host that was asked for; its other names go into "
			     "sluice.web.hosts");
		return;
	}

	if (!path) {
		answer_error(out, 404, NULL, "nothing is here; try /");
		return;
	}

	if (request->method == HTTP_OTHER) {
		answer_error(out, 405, "Allow: GET, HEAD\r\n", "here is only to be read");
		return;
	}

	visit.is_known =
	    site->view && access_token_is_right(site->view, request->authorization.data,
						request->authorization.length);
	if (site->view && !visit.is_known && !path->is_open) {
		answer_error(out, 401, "WWW-Authenticate: Bearer realm=\"sluice\"\r\n",
			     "this wants the token: Authorization: Bearer TOKEN");
		return;
	}

	if (query_parse(request->query.data ? request->query.data : "", request->query.length,
			path->parameters, &visit.query, &err) < 0) {
		answer_error(out, 400, NULL, err.text);
		return;
	}

	if (path->needs_view && !site->view) {
		answer_error(out, 503, retry_after, "the service has not said anything yet");
		return;
	}

	path->answer(&visit, out);
}

struct chunk *site_stream_next(struct site *site, uint64_t *cursor)
{
	return stream_next(site->stream, cursor);
}

bool site_stream_is_lost(const struct site *site, uint64_t cursor)
{
	return stream_is_lost(site->stream, cursor);
}

bool site_heartbeat(struct site *site, uint64_t now_ns)
{
	const struct state_at at = site_state(site, now_ns);
	return stream_heartbeat(site->stream, &at);
}
