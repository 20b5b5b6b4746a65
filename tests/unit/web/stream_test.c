/* SPDX-License-Identifier: Apache-2.0 */
#include "web/stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "unit/unit.h"
#include "unit/web/sample_view.h"
#include "web/chunk.h"
#include "web/state.h"

#define S CLOCK_NS_PER_S

struct fixture {
	struct view *view;
	struct stream *stream;
	struct state_at at;
};

static bool make(struct fixture *fixture, uint32_t gpus, uint32_t holders)
{
	const struct sample_options options = {.gpus = gpus, .holders = holders};
	*fixture = (struct fixture){.view = test_calloc(1, sizeof(struct view))};
	sample_view_fill(fixture->view, &options, 1);
	fixture->view->node.started_ns = 0x1f;
	fixture->stream = stream_new(NULL);
	fixture->at = (struct state_at){.view = fixture->view, .sequence = 2, .now_ns = 100 * S};
	return fixture->stream != NULL;
}

static void done(struct fixture *fixture)
{
	stream_free(fixture->stream);
	test_free(fixture->view);
}

static void tick(struct fixture *fixture, uint32_t readers)
{
	fixture->at.sequence += 2;
	fixture->at.now_ns += S;
	sample_view_step(fixture->view, fixture->at.sequence);
	stream_note(fixture->stream, &fixture->at, readers);
}

static int join(struct fixture *fixture, const char *id, uint64_t *cursor)
{
	return stream_join(fixture->stream, &fixture->at, id, id ? strlen(id) : 0, cursor, NULL);
}

/* Reads all there is; how many parts. */
static int drain(struct fixture *fixture, uint64_t *cursor)
{
	int count = 0;
	struct chunk *chunk;
	while ((chunk = stream_next(fixture->stream, cursor)) != NULL) {
		chunk_unref(chunk);
		count++;
	}
	return count;
}

static void test_nobody_reads(void **state)
{
	struct fixture fixture;
	uint64_t cursor = 0;
	if (make(&fixture, 2, 0)) {
		tick(&fixture, 0);
		assert_int_equal(drain(&fixture, &cursor), 0);
		fixture.at.now_ns = 1000 * S;
		assert_false(stream_heartbeat(fixture.stream, &fixture.at));
	}
	done(&fixture);
}

static void test_reader(void **state)
{
	struct fixture fixture;
	uint64_t cursor = 0, late = 0, back = 0;
	if (make(&fixture, 2, 0) && join(&fixture, NULL, &cursor) == 0) {
		tick(&fixture, 1);
		tick(&fixture, 1);
		if (join(&fixture, NULL, &late) == 0) {
			assert_int_equal(drain(&fixture, &cursor), 2);
			assert_int_equal(drain(&fixture, &late), 0);
			assert_int_equal(join(&fixture, "1f-4", &back), 1);
			assert_int_equal(drain(&fixture, &back), 1);
			assert_int_equal(join(&fixture, "1f-2", &back), 1);
			assert_int_equal(drain(&fixture, &back), 2);
			assert_int_equal(join(&fixture, "1f-6", &back), 1);
			assert_int_equal(drain(&fixture, &back), 0);
			assert_int_equal(join(&fixture, "20-4", &back), 0);
			assert_int_equal(join(&fixture, "1f-3", &back), 0);
			assert_int_equal(join(&fixture, "1f-8", &back), 0);
		}
	}
	done(&fixture);
}

static void test_too_far_behind(void **state)
{
	struct fixture fixture;
	uint64_t cursor = 0, back;
	if (make(&fixture, 1, 0) && join(&fixture, NULL, &cursor) == 0) {
		for (int i = 0; i < STREAM_PARTS_MAX; i++)
			tick(&fixture, 1);
		if (!stream_is_lost(fixture.stream, cursor)) { /* otherwise: no memory */
			tick(&fixture, 1);
			assert_true(stream_is_lost(fixture.stream, cursor));
			assert_null(stream_next(fixture.stream, &cursor));
			assert_int_equal(join(&fixture, "1f-2", &back), 0);
		}
	}
	done(&fixture);
}

/* However much there is to say each second, what is kept has an end. */
static void test_bytes(void **state)
{
	struct fixture fixture;
	uint64_t cursor = 0, last;
	if (make(&fixture, 8, 1000) && join(&fixture, NULL, &cursor) == 0) {
		for (int i = 0; i < 6; i++)
			tick(&fixture, 1);
		assert_true(stream_is_lost(fixture.stream, cursor));
		if (join(&fixture, NULL, &last) == 0) {
			tick(&fixture, 1);
			struct chunk *chunk = stream_next(fixture.stream, &last);
			if (chunk)
				assert_non_null(strstr(buf_text(&chunk->buf), "\"holders\":["));
			chunk_unref(chunk);
		}
	}
	done(&fixture);
}

static void test_stops_unread(void **state)
{
	struct fixture fixture;
	uint64_t cursor = 0;
	if (make(&fixture, 1, 0) && join(&fixture, NULL, &cursor) == 0) {
		for (int i = 0; i <= STREAM_UNREAD_S; i++)
			tick(&fixture, 0);
		assert_true(stream_is_lost(fixture.stream, cursor));
		cursor = 0;
		if (join(&fixture, "1f-4", &cursor) == 0) {
			tick(&fixture, 1);
			if (!stream_is_lost(fixture.stream, cursor))
				assert_int_equal(drain(&fixture, &cursor), 1);
		}
	}
	done(&fixture);
}

static void test_heartbeat(void **state)
{
	struct fixture fixture;
	uint64_t cursor = 0;
	if (make(&fixture, 1, 0) && join(&fixture, NULL, &cursor) == 0) {
		fixture.view->snapshot.driver_ok = 0; /* nothing that could be stale */
		fixture.at.now_ns += 14 * S;
		assert_false(stream_heartbeat(fixture.stream, &fixture.at));
		fixture.at.now_ns += S;
		if (stream_heartbeat(fixture.stream, &fixture.at)) {
			struct chunk *chunk = stream_next(fixture.stream, &cursor);
			assert_string_equal(buf_text(&chunk->buf), ": alive\n\n");
			chunk_unref(chunk);
			fixture.at.now_ns += 5 * S;
			assert_false(stream_heartbeat(fixture.stream, &fixture.at));
		}
	}
	done(&fixture);
}

/* No view comes any more: the service hangs. Whoever reads is told that what he has is old. */
static void test_no_view_comes(void **state)
{
	struct fixture fixture;
	uint64_t cursor = 0, back;
	if (make(&fixture, 1, 0) && join(&fixture, NULL, &cursor) == 0) {
		fixture.view->snapshot.driver_ok = 1;
		fixture.view->node.sample_ns = fixture.at.now_ns;
		fixture.at.now_ns += VIEW_STALE_NS;
		assert_false(stream_heartbeat(fixture.stream, &fixture.at));
		fixture.at.now_ns += S;
		if (stream_heartbeat(fixture.stream, &fixture.at)) {
			struct chunk *chunk = stream_next(fixture.stream, &cursor);
			const char *text = buf_text(&chunk->buf);
			assert_non_null(strstr(text, "event: sample\nid: 1f-2\ndata: {"));
			assert_non_null(strstr(text, "\"age_seconds\":6,\"stale\":true}\n\n"));
			chunk_unref(chunk);
			assert_int_equal(join(&fixture, "1f-2", &back), 1);
			fixture.at.now_ns += VIEW_STALE_NS - 1;
			assert_false(stream_heartbeat(fixture.stream, &fixture.at));
			fixture.at.now_ns++;
			if (stream_heartbeat(fixture.stream, &fixture.at))
				assert_int_equal(drain(&fixture, &cursor), 1);
		}
	}
	done(&fixture);
}

/* What goes is told as null. */
static void test_gone(void **state)
{
	struct fixture fixture;
	uint64_t cursor = 0;
	if (make(&fixture, 1, 0) && join(&fixture, NULL, &cursor) == 0) {
		snapshot_drop(&fixture.view->snapshot.gpu[0], SNAPSHOT_FAN);
		snapshot_drop(&fixture.view->snapshot.gpu[0], SNAPSHOT_THROTTLE);
		(void)snprintf(fixture.view->node.problem, sizeof(fixture.view->node.problem), "p");
		tick(&fixture, 1);
		struct chunk *chunk = stream_next(fixture.stream, &cursor);
		if (chunk) {
			const char *text = buf_text(&chunk->buf);
			assert_non_null(strstr(text, "\"fan_percent\":null"));
			assert_non_null(strstr(text, "\"throttle\":null"));
			assert_non_null(strstr(text, "\"problem\":\"p\""));
			assert_null(strstr(text, "\"serial\""));
			assert_null(strstr(text, "\"resources\""));
		}
		chunk_unref(chunk);
	}
	done(&fixture);
}

static void test_id(void **state)
{
	uint64_t epoch = 0, sequence = 0;
	static const char *const bad[] = {"",
					  "-",
					  "1f",
					  "1f-",
					  "-5",
					  "1f-x",
					  "0x1-5",
					  "g-5",
					  "1-5 ",
					  "1--5",
					  "1-18446744073709551616"};
	assert_int_equal(stream_id_parse("1f-27", 5, &epoch, &sequence), 0);
	assert_true(epoch == 0x1f && sequence == 27);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(stream_id_parse(bad[i], strlen(bad[i]), &epoch, &sequence),
				 -EINVAL);
	assert_true(epoch == 0x1f && sequence == 27);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_nobody_reads),
	    cmocka_unit_test(test_reader),
	    cmocka_unit_test(test_too_far_behind),
	    cmocka_unit_test(test_bytes),
	    cmocka_unit_test(test_stops_unread),
	    cmocka_unit_test(test_heartbeat),
	    cmocka_unit_test(test_no_view_comes),
	    cmocka_unit_test(test_gone),
	    cmocka_unit_test(test_id),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
