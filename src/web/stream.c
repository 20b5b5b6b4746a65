/* SPDX-License-Identifier: Apache-2.0 */
#include "web/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/jsonw.h"
#include "base/parse.h"
#include "web/chunk.h"
#include "web/state.h"

enum { MEMBERS_MAX = 24, STREAM_HEARTBEAT_MAX = 512 };
#define STREAM_HEARTBEAT_NS (STREAM_HEARTBEAT_S * CLOCK_NS_PER_S)

/* What readers know of a GPU. */
struct known_gpu {
	char uuid[SNAPSHOT_TEXT_MAX];
	uint64_t present[SNAPSHOT_PRESENT_WORDS];
	int64_t value[SNAPSHOT_VALUE_COUNT];
	uint64_t member[MEMBERS_MAX]; /* hash of each as it was written; 0: not there */
};

struct part {
	struct chunk *chunk; /* owned reference */
	uint64_t sequence;   /* of the view behind it */
};

struct stream {
	bool runs;		/* somebody reads, or has read a moment ago */
	uint64_t last_read_ns;	/* when somebody did */
	uint64_t last_said_ns;	/* when the newest part was made */
	uint64_t first, behind; /* parts [first, behind) are kept, part N at N % STREAM_PARTS_MAX */
	uint64_t base_sequence; /* of the view before part `first` */
	size_t bytes;
	struct part parts[STREAM_PARTS_MAX];

	struct known_gpu *gpus; /* owned */
	uint32_t gpu_count, gpu_capacity;
	uint64_t member[MEMBERS_MAX];
	uint64_t last_event;
	struct buf scratch;
};

struct stream *stream_new(struct err *err)
{
	struct stream *stream = calloc(1, sizeof(*stream));
	if (!stream) {
		(void)err_set(err, -ENOMEM, "out of memory for the stream");
		return NULL;
	}

	/* Part 0 never is: a reader at 0 has nothing. */
	stream->first = stream->behind = 1;
	buf_init(&stream->scratch, STREAM_PART_MAX);
	return stream;
}

static void stream_drop_first(struct stream *stream)
{
	struct part *part = &stream->parts[stream->first % STREAM_PARTS_MAX];
	stream->bytes -= part->chunk->buf.length;
	stream->base_sequence = part->sequence;
	part->chunk = chunk_unref(part->chunk);
	stream->first++;
}

/* Forgets all: whoever reads is lost, whoever comes begins anew. */
static void stream_stop(struct stream *stream)
{
	while (stream->first < stream->behind)
		stream_drop_first(stream);

	/* a number that no reader has passed */
	stream->first = ++stream->behind;
	stream->runs = false;
	buf_done(&stream->scratch);
	free(stream->gpus);
	stream->gpus = NULL;
	stream->gpu_count = stream->gpu_capacity = 0;
}

struct stream *stream_free(struct stream *stream)
{
	if (!stream)
		return NULL;
	stream_stop(stream);
	free(stream);
	return NULL;
}

/* --- what has changed ------------------------------------------------------------------------- */

static uint64_t hash_of(const struct buf *text)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	for (size_t i = 0; i < text->length; i++)
		hash = (hash ^ (unsigned char)text->data[i]) * UINT64_C(0x100000001b3);
	return text->length > 0 ? hash | 1 : 0;
}

/* Writes a member into the scratch and tells whether it is another than before. */
static bool member_changed(struct stream *stream, const struct state_at *at, uint32_t member,
			   int32_t gpu, uint64_t *known, int *rc)
{
	struct jsonw json;

	buf_clear(&stream->scratch);
	jsonw_init(&json, &stream->scratch);

	if (gpu >= 0)
		state_gpu_members[member].put(&json, state_gpu_members[member].name, at->view,
					      (uint32_t)gpu);
	else
		state_members[member].put(&json, state_members[member].name, at);

	if (json.rc < 0)
		*rc = json.rc;

	uint64_t hash = hash_of(&stream->scratch);
	bool changed = hash != *known;

	*known = hash;
	return changed;
}

/* The member in the scratch, or that it is gone. */
static void put_member(struct stream *stream, struct jsonw *json, const char *name)
{
	if (stream->scratch.length > 0)
		jsonw_raw(json, NULL, stream->scratch.data, stream->scratch.length);
	else
		jsonw_null(json, name);
}

/* `json` NULL: only notes. Ages are not news: time stands still for what is compared. */
static int compare_members(struct stream *stream, const struct state_at *at, struct jsonw *json)
{
	struct state_at still = *at;
	int rc = 0;

	still.now_ns = 0;
	for (uint32_t i = 0; i < state_member_count; i++) {
		if (!member_changed(stream, &still, i, -1, &stream->member[i], &rc) || !json)
			continue;
		uint64_t ignored = 0;
		(void)member_changed(stream, at, i, -1, &ignored, &rc);
		put_member(stream, json, state_members[i].name);
	}

	return rc;
}

static bool value_changed(const struct known_gpu *known, const struct snapshot_gpu *gpu,
			  uint32_t value)
{
	bool was = (known->present[value / 64] >> value % 64 & 1) != 0;
	bool is = (gpu->present[value / 64] >> value % 64 & 1) != 0;
	return was != is || (is && known->value[value] != gpu->value[value]);
}

static void put_values(struct jsonw *json, const struct known_gpu *known,
		       const struct snapshot_gpu *gpu)
{
	jsonw_object(json, "values");

	for (uint32_t value = 0; value < SNAPSHOT_VALUE_COUNT; value++) {
		int64_t number;

		if (!value_changed(known, gpu, value))
			continue;
		if (snapshot_get(gpu, value, &number))
			jsonw_i64(json, snapshot_value_to_string(value), number);
		else
			jsonw_null(json, snapshot_value_to_string(value));
	}

	jsonw_end_object(json);
}

static bool any_value_changed(const struct known_gpu *known, const struct snapshot_gpu *gpu)
{
	for (uint32_t value = 0; value < SNAPSHOT_VALUE_COUNT; value++) {
		if (value_changed(known, gpu, value))
			return true;
	}
	return false;
}

/* A GPU in "gpus", which is opened for the first that has changed. */
static void put_gpu_once(struct jsonw *json, const char *uuid, bool *gpus_open, bool *gpu_open)
{
	if (!*gpus_open)
		jsonw_array(json, "gpus");
	if (!*gpu_open) {
		jsonw_object(json, NULL);
		jsonw_text(json, "uuid", uuid);
	}
	*gpus_open = *gpu_open = true;
}

static int compare_gpu(struct stream *stream, const struct state_at *at, uint32_t i,
		       struct jsonw *json, bool *gpus_open)
{
	const struct snapshot_gpu *gpu = &at->view->snapshot.gpu[i];
	struct known_gpu *known = &stream->gpus[i];
	bool open = false;
	int rc = 0;

	if (json && any_value_changed(known, gpu)) {
		put_gpu_once(json, gpu->uuid, gpus_open, &open);
		put_values(json, known, gpu);
	}

	for (uint32_t k = 0; k < state_gpu_member_count; k++) {
		if (!member_changed(stream, at, k, (int32_t)i, &known->member[k], &rc) || !json)
			continue;
		put_gpu_once(json, gpu->uuid, gpus_open, &open);
		put_member(stream, json, state_gpu_members[k].name);
	}

	if (open)
		jsonw_end_object(json);
	memcpy(known->uuid, gpu->uuid, sizeof(known->uuid));
	memcpy(known->present, gpu->present, sizeof(known->present));
	memcpy(known->value, gpu->value, sizeof(known->value));

	return rc;
}

static int compare(struct stream *stream, const struct state_at *at, struct jsonw *json)
{
	bool open = false;
	int rc = compare_members(stream, at, json);
	for (uint32_t i = 0; i < stream->gpu_count && rc == 0; i++)
		rc = compare_gpu(stream, at, i, json, &open);
	if (open)
		jsonw_end_array(json);
	return rc;
}

/* The same GPUs in the same order? Otherwise what is sent is everything. */
static bool gpus_are_known(const struct stream *stream, const struct view *view)
{
	if (stream->gpu_count != view->snapshot.gpu_count)
		return false;
	for (uint32_t i = 0; i < stream->gpu_count; i++) {
		if (strcmp(stream->gpus[i].uuid, view->snapshot.gpu[i].uuid) != 0)
			return false;
	}
	return true;
}

/* From here on, what `at` says is known. */
static int stream_learn(struct stream *stream, const struct state_at *at)
{
	uint32_t count = at->view->snapshot.gpu_count;
	if (count > stream->gpu_capacity) {
		struct known_gpu *gpus = reallocarray(stream->gpus, count, sizeof(*gpus));
		if (!gpus)
			return -ENOMEM;
		stream->gpus = gpus;
		stream->gpu_capacity = count;
	}

	stream->gpu_count = count;
	stream->last_event =
	    at->view->event_count > 0 ? at->view->event[at->view->event_count - 1].id : 0;
	return compare(stream, at, NULL);
}

/* --- parts ------------------------------------------------------------------------------------ */

static int put_id(const struct state_at *at, struct buf *out)
{
	return buf_printf(out, "id: %llx-%llu\n", (unsigned long long)at->view->node.started_ns,
			  (unsigned long long)at->sequence);
}

int stream_begin_render(const struct state_at *at, bool resumes, struct buf *out, struct err *err)
{
	int rc = buf_printf(out, "retry: %d\n\n", STREAM_RETRY_MS);
	if (rc == 0 && !resumes) {
		rc = buf_add_text(out, "event: state\n");
		if (rc == 0)
			rc = put_id(at, out);
		if (rc == 0)
			rc = buf_add_text(out, "data: ");
		if (rc == 0)
			rc = state_render(at, out, err);

		if (rc == 0)
			rc = buf_add_text(out, "\n\n");
	}

	return rc < 0 ? err_set(err, rc, "no room for the state of the machine") : 0;
}

/* Events that came since; before the sample, whose id says that all of it was read. */
static int render_alerts(struct stream *stream, const struct state_at *at, struct buf *out)
{
	const struct view *view = at->view;
	uint64_t newest = stream->last_event;
	int rc = 0;

	for (uint32_t i = 0; i < view->event_count && rc == 0; i++) {
		struct jsonw json;

		/* Ids count up; those of another agent's life begin anew with a new process. */
		if (view->event[i].id <= stream->last_event)
			continue;

		newest = view->event[i].id;
		rc = buf_add_text(out, "event: alert\ndata: ");
		jsonw_init(&json, out);
		json.rc = rc;
		state_put_event(&json, NULL, &view->event[i]);
		rc = json.rc < 0 ? json.rc : buf_add_text(out, "\n\n");
	}

	stream->last_event = newest;
	return rc;
}

/* The beginning of a sample, whose object stays open. */
static void begin_sample(struct jsonw *json, const struct state_at *at, struct buf *out)
{
	int rc = buf_add_text(out, "event: sample\n");
	if (rc == 0)
		rc = put_id(at, out);
	if (rc == 0)
		rc = buf_add_text(out, "data: ");
	jsonw_init(json, out);
	json->rc = rc;
	jsonw_object(json, NULL);
	state_put_head(json, at);
}

static int end_sample(struct jsonw *json, struct buf *out)
{
	jsonw_end_object(json);
	return json->rc < 0 ? json->rc : buf_add_text(out, "\n\n");
}

static int render_sample(struct stream *stream, const struct state_at *at, struct buf *out)
{
	struct jsonw json;
	begin_sample(&json, at, out);
	int rc = compare(stream, at, &json);
	int ended = end_sample(&json, out);
	return rc < 0 ? rc : ended;
}

static int render_part(struct stream *stream, const struct state_at *at, struct buf *out)
{
	if (gpus_are_known(stream, at->view)) {
		int rc = render_alerts(stream, at, out);
		return rc < 0 ? rc : render_sample(stream, at, out);
	}
	int rc = stream_begin_render(at, false, out, NULL);
	return rc < 0 ? rc : stream_learn(stream, at);
}

static void stream_push(struct stream *stream, struct chunk *chunk, uint64_t sequence,
			uint64_t now_ns)
{
	while (stream->first < stream->behind &&
	       (stream->behind - stream->first == STREAM_PARTS_MAX ||
		stream->bytes + chunk->buf.length > STREAM_BYTES_MAX))
		stream_drop_first(stream);

	stream->parts[stream->behind % STREAM_PARTS_MAX] = (struct part){chunk, sequence};
	stream->behind++;
	stream->bytes += chunk->buf.length;
	stream->last_said_ns = now_ns;
}

static uint64_t newest_sequence(const struct stream *stream)
{
	if (stream->first == stream->behind)
		return stream->base_sequence;
	return stream->parts[(stream->behind - 1) % STREAM_PARTS_MAX].sequence;
}

void stream_note(struct stream *stream, const struct state_at *at, uint32_t readers)
{
	if (!stream->runs)
		return;
	if (readers > 0)
		stream->last_read_ns = at->now_ns;
	if (at->now_ns - stream->last_read_ns > STREAM_UNREAD_S * CLOCK_NS_PER_S) {
		stream_stop(stream);
		return;
	}

	struct chunk *chunk = chunk_new(STREAM_PART_MAX, NULL);
	if (!chunk || render_part(stream, at, &chunk->buf) < 0) {
		chunk_unref(chunk);
		stream_stop(stream);
		return;
	}

	chunk_trim(chunk);
	stream_push(stream, chunk, at->sequence, at->now_ns);
}

/* What was said last is known; how old it is by now is not. */
static int render_stale(const struct state_at *at, struct buf *out)
{
	struct jsonw json;
	begin_sample(&json, at, out);
	return end_sample(&json, out);
}

bool stream_heartbeat(struct stream *stream, const struct state_at *at)
{
	uint64_t silent_ns = at->now_ns - stream->last_said_ns;
	bool stale = stream->runs && at->view && state_is_stale(at->view, at->now_ns);
	if (!stream->runs || silent_ns < (stale ? VIEW_STALE_NS : STREAM_HEARTBEAT_NS))
		return false;

	struct chunk *chunk = chunk_new(STREAM_HEARTBEAT_MAX, NULL);
	int rc = !chunk	 ? -ENOMEM
		 : stale ? render_stale(at, &chunk->buf)
			 : buf_add_text(&chunk->buf, ": alive\n\n");
	if (rc < 0) {
		chunk_unref(chunk);
		return false; /* the next time */
	}

	stream_push(stream, chunk, newest_sequence(stream), at->now_ns);
	return true;
}

/* --- readers ---------------------------------------------------------------------------------- */

int stream_id_parse(const char *text, size_t length, uint64_t *out_epoch, uint64_t *out_sequence)
{
	const char *dash = length > 0 ? memchr(text, '-', length) : NULL;
	uint64_t epoch, sequence;

	if (!dash)
		return -EINVAL;

	size_t size = (size_t)(dash - text);
	/* not "0x..", which the parser of numbers takes */
	if (memchr(text, 'x', size) || memchr(text, 'X', size) ||
	    parse_hex_span(text, size, UINT64_MAX, &epoch) < 0 ||
	    parse_u64_span(dash + 1, length - size - 1, 0, UINT64_MAX, &sequence) < 0)
		return -EINVAL;

	*out_epoch = epoch;
	*out_sequence = sequence;
	return 0;
}

/* The newest part that brings one to `sequence`; 0: none, or not kept. */
static uint64_t stream_find(const struct stream *stream, uint64_t sequence)
{
	for (uint64_t at = stream->behind; at > stream->first; at--) {
		if (stream->parts[(at - 1) % STREAM_PARTS_MAX].sequence == sequence)
			return at - 1;
	}
	return stream->base_sequence == sequence ? stream->first - 1 : 0;
}

int stream_join(struct stream *stream, const struct state_at *at, const char *last_id,
		size_t last_id_length, uint64_t *out_cursor, struct err *err)
{
	uint64_t epoch, sequence, found = 0;
	if (stream->runs && last_id &&
	    stream_id_parse(last_id, last_id_length, &epoch, &sequence) == 0 &&
	    epoch == at->view->node.started_ns)
		found = stream_find(stream, sequence);

	if (!stream->runs) {
		stream_stop(stream); /* nothing of before */
		stream->base_sequence = at->sequence;
		stream->last_said_ns = at->now_ns;
		if (stream_learn(stream, at) < 0) {
			stream_stop(stream);
			return err_set(err, -ENOMEM, "out of memory for the stream");
		}

		stream->runs = true;
	}

	stream->last_read_ns = at->now_ns;
	*out_cursor = found > 0 ? found : stream->behind - 1;
	return found > 0;
}

struct chunk *stream_next(struct stream *stream, uint64_t *cursor)
{
	if (*cursor + 1 >= stream->behind || *cursor + 1 < stream->first)
		return NULL;
	(*cursor)++;
	return chunk_ref(stream->parts[*cursor % STREAM_PARTS_MAX].chunk);
}

bool stream_is_lost(const struct stream *stream, uint64_t cursor)
{
	return cursor + 1 < stream->first;
}
