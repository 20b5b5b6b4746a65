/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/err.h"
#include "nested.pb-c.h"
#include "sluice.pb-c.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"
#include "wire/arena.h"

#define bytes_of(literal) (literal), sizeof(literal) - 1

static int check(const void *data, size_t length, struct err *err)
{
	/* In memory of exactly that size, for the sanitizer. */
	void *copy = malloc(length ? length : 1);
	assert_non_null(copy);
	if (length)
		memcpy(copy, data, length);
	int rc = wire_message_check(&test__nested__descriptor, copy, length, err);
	free(copy);
	return rc;
}

static void assert_refused(const void *data, size_t length, const char *field, const char *why)
{
	struct err err = {0};
	assert_int_equal(check(data, length, &err), -EBADMSG);
	assert_int_equal(err.code, -EBADMSG);
	if (field && !strstr(err.text, field))
		fail_msg("'%s' does not name '%s'", err.text, field);
	if (!strstr(err.text, why))
		fail_msg("'%s' does not say '%s'", err.text, why);
}

static void test_round_trip(void **state)
{
	char *argv_text = (char[]){"nvidia-smi"};
	ProtobufCBinaryData argv[] = {{.data = (uint8_t *)argv_text, .len = strlen(argv_text)}};
	Sluice__V1__JobSpec spec = SLUICE__V1__JOB_SPEC__INIT;
	spec.name = (char[]){"tr\xc3\xa4ning"};
	spec.n_argv = 1;
	spec.argv = argv;
	spec.gpus = 3;
	Sluice__V1__SubmitRequest request = SLUICE__V1__SUBMIT_REQUEST__INIT;
	request.key = (char[]){"8d1e"};
	request.spec = &spec;

	_cleanup_buf_ struct buf out;
	buf_init(&out, 1000);
	assert_int_equal(buf_add_text(&out, "before"), 0);
	struct err err = {0};
	assert_int_equal(wire_message_encode(&request.base, &out, &err), 0);
	assert_memory_equal(out.data, "before\0", 7);
	const uint8_t *frame = (const uint8_t *)out.data + 6;
	assert_int_equal(frame[4], out.length - 6 - WIRE_FRAME_HEADER);

	_cleanup_arena_ struct arena arena;
	arena_init(&arena, 10000);
	ProtobufCMessage *message = NULL;
	assert_int_equal(wire_message_decode(&sluice__v1__submit_request__descriptor, frame + 5,
					     frame[4], &arena, &message, &err),
			 0);
	const Sluice__V1__SubmitRequest *back = (const Sluice__V1__SubmitRequest *)message;
	assert_string_equal(back->spec->name, spec.name);
	assert_int_equal(back->spec->gpus, 3);
	assert_int_equal(back->spec->argv[0].len, 10);
	assert_int_equal(back->no_wait, 0);
}

static void test_empty_message(void **state)
{
	_cleanup_arena_ struct arena arena;
	arena_init(&arena, 10000);
	ProtobufCMessage *message = NULL;
	assert_int_equal(wire_message_decode(&sluice__v1__status_request__descriptor, NULL, 0,
					     &arena, &message, NULL),
			 0);
	assert_non_null(message);
	Sluice__V1__StatusRequest request = SLUICE__V1__STATUS_REQUEST__INIT;
	_cleanup_buf_ struct buf out;
	buf_init(&out, 5);
	assert_int_equal(wire_message_encode(&request.base, &out, NULL), 0);
	assert_int_equal(out.length, 5);
	assert_memory_equal(out.data, "\0\0\0\0\0", 5);
}

static void test_accepts_what_is_well_formed(void **state)
{
	static const struct {
		const char *data;
		size_t length;
	} good[] = {
	    {bytes_of("")},
	    {bytes_of("\x0a\x00")},					/* inner: {} */
	    {bytes_of("\x0a\x02\x0a\x00\x1a\x03\x61\xc3\xbc")},		/* inner.inner, text */
	    {bytes_of("\x1a\x04\xf4\x8f\xbf\xbf")},			/* U+10FFFF */
	    {bytes_of("\x1a\x03\xed\x9f\xbf")},				/* U+D7FF */
	    {bytes_of("\x1a\x03\xee\x80\x80")},				/* U+E000 */
	    {bytes_of("\x2a\x02\xff\x00")},				/* bytes may be anything */
	    {bytes_of("\x32\x03\x01\x80\x01")},				/* numbers, packed */
	    {bytes_of("\x30\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")}, /* 10 bytes */
	    {bytes_of("\xa1\x01\x01\x02\x03\x04\x05\x06\x07\x08")},	/* wide */
	    {bytes_of("\xad\x01\x01\x02\x03\x04")},			/* narrow */
	    {bytes_of("\xba\x3e\x01\xff")},				/* 999: not one of ours */
	    {bytes_of("\xf8\xff\xff\xff\x0f\x00")},	  /* the highest number of a field */
	    {bytes_of("\xc2\x3e\x06\x0a\x01k\x12\x01v")}, /* map */
	    {bytes_of("\x1a\x81\x80\x00x")},		  /* a length with idle bytes */
	};
	for (size_t i = 0; i < array_length(good); i++) {
		struct err err = {0};
		if (check(good[i].data, good[i].length, &err) != 0)
			fail_msg("%zu: %s", i, err.text);
		_cleanup_arena_ struct arena arena;
		arena_init(&arena, 10000);
		ProtobufCMessage *message = NULL;
		assert_int_equal(wire_message_decode(&test__nested__descriptor, good[i].data,
						     good[i].length, &arena, &message, NULL),
				 0);
	}
}

static void test_refuses_garbage(void **state)
{
	assert_refused(bytes_of("\x00"), NULL, "no field begins");
	assert_refused(bytes_of("\x80"), NULL, "no field begins");
	assert_refused(bytes_of("\x80\x00"), NULL, "no field begins");
	assert_refused(bytes_of("\x80\x80\x80\x80\x10\x00"), NULL, "no field begins");
	assert_refused(bytes_of("\x8a\x80\x80\x80\x80\x00\x00"), NULL, "no field begins");
	assert_refused(bytes_of("\x0a"), "inner", "length is cut");
	assert_refused(bytes_of("\x0a\x80"), "inner", "length is cut");
	assert_refused(bytes_of("\x0a\x80\x80\x80\x80\x80\x00"), "inner", "no number");
	assert_refused(bytes_of("\x0a\x01"), "inner", "longer than");
	assert_refused(bytes_of("\x0a\xff\xff\xff\xff\x7f"), "inner", "longer than");
	/* The one inside is longer than the one around it. */
	assert_refused(bytes_of("\x0a\x02\x0a\x02\x0a\x00"), "inner.inner", "longer than");
	assert_refused(bytes_of("\x30\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "numbers",
		       "too long");
	assert_refused(bytes_of("\x30\x80"), "numbers", "cut");
	assert_refused(bytes_of("\xa1\x01\x01\x02\x03\x04\x05\x06\x07"), "wide", "cut");
	assert_refused(bytes_of("\xad\x01\x01\x02\x03"), "narrow", "cut");
	assert_refused(bytes_of("\x0b\x0c"), "inner", "wire type"); /* groups */
	assert_refused(bytes_of("\x0f\x00"), "inner", "wire type");
	assert_refused(bytes_of("\xff"), NULL, "no field begins");
}

static void test_refuses_what_protobuf_refuses(void **state)
{
	_cleanup_arena_ struct arena arena;
	arena_init(&arena, 10000);
	ProtobufCMessage *message = NULL;
	struct err err = {0};
	/* Text as a number, a message as a number: whole fields, but not of this type. */
	assert_int_equal(
	    wire_message_decode(&test__nested__descriptor, "\x18\x01", 2, &arena, &message, &err),
	    -EBADMSG);
	assert_int_equal(
	    wire_message_decode(&test__nested__descriptor, "\x08\x01", 2, &arena, &message, &err),
	    -EBADMSG);
	assert_null(message);
}

static void test_strings_are_utf8(void **state)
{
	static const struct {
		const char *text;
		size_t length;
	} bad[] = {
	    {bytes_of("\xff")},
	    {bytes_of("\x80")},
	    {bytes_of("ab\xc3")},		/* cut */
	    {bytes_of("\xc0\xaf")},		/* overlong '/' */
	    {bytes_of("\xe0\x80\xaf")},		/* the same in three */
	    {bytes_of("\xf0\x80\x80\xaf")},	/* and in four */
	    {bytes_of("\xc0\x80")},		/* overlong NUL */
	    {bytes_of("\xed\xa0\x80")},		/* U+D800 */
	    {bytes_of("\xed\xbf\xbf")},		/* U+DFFF */
	    {bytes_of("\xf4\x90\x80\x80")},	/* U+110000 */
	    {bytes_of("\xf8\x88\x80\x80\x80")}, /* five bytes */
	};
	/* Each of the places that text can stand in, as the bytes before it and after it. */
	static const struct {
		const char *before, *field;
	} places[] = {
	    {"\x1a", "'text'"},
	    {"\x22", "'texts'"},
	    {"\x3a", "'one_text'"},
	};
	for (size_t i = 0; i < array_length(bad); i++) {
		for (size_t place = 0; place < array_length(places); place++) {
			char data[32];
			data[0] = places[place].before[0];
			data[1] = (char)bad[i].length;
			memcpy(data + 2, bad[i].text, bad[i].length);
			assert_refused(data, bad[i].length + 2, places[place].field, "not UTF-8");
			/* within a message of a list of a message */
			char nested[40] = {0x0a, (char)(bad[i].length + 4), 0x12,
					   (char)(bad[i].length + 2)};
			memcpy(nested + 4, data, bad[i].length + 2);
			assert_refused(nested, bad[i].length + 6, "inner.many.", "not UTF-8");
		}
		char map[40] = {(char)0xc2, 0x3e, (char)(bad[i].length + 2), 0x12,
				(char)bad[i].length};
		memcpy(map + 5, bad[i].text, bad[i].length);
		assert_refused(map, bad[i].length + 5, "'map.value'", "not UTF-8");
	}
}

static void test_strings_hold_no_nul(void **state)
{
	assert_refused(bytes_of("\x1a\x03\x61\x00\x62"), "'text', byte 3", "NUL");
	assert_refused(bytes_of("\x1a\x01\x00"), "'text'", "NUL");
	assert_refused(bytes_of("\x22\x01\x61\x22\x01\x00"), "'texts'", "NUL");
	/* Of a field that comes twice the last counts; the first is looked at all the same. */
	assert_refused(bytes_of("\x1a\x01\xff\x1a\x01\x61"), "'text'", "not UTF-8");
}

/* `depth` messages within each other, the innermost empty; three bytes of length each. */
static size_t nest(uint8_t *out, size_t depth)
{
	size_t length = 4 * depth;
	for (size_t i = 0; i < depth; i++) {
		size_t rest = 4 * (depth - i - 1);
		*out++ = 0x0a;
		*out++ = (uint8_t)(0x80 | (rest & 0x7f));
		*out++ = (uint8_t)(0x80 | (rest >> 7 & 0x7f));
		*out++ = (uint8_t)(rest >> 14 & 0x7f);
	}
	return length;
}

static void test_depth_is_capped(void **state)
{
	static uint8_t data[1 << 20];
	assert_int_equal(check(data, nest(data, WIRE_DEPTH_MAX), NULL), 0);
	assert_refused(data, nest(data, WIRE_DEPTH_MAX + 1), "inner.inner", "nested too deeply");
	/* Deep enough to use up any stack, were it decoded. */
	assert_refused(data, nest(data, sizeof(data) / 4), "inner.inner", "nested too deeply");
}

/* Empty messages cost two bytes each on the wire, and hundreds in memory. */
static void test_arena_cap_holds(void **state)
{
	enum { COUNT = 20000, SIZE = 2 * COUNT };
	uint8_t *data = malloc(SIZE);
	assert_non_null(data);
	for (size_t i = 0; i < COUNT; i++)
		memcpy(data + 2 * i, "\x2a\x00", 2); /* Machine.gpus: {} */

	ProtobufCMessage *message = NULL;
	struct err err = {0};
	struct arena arena;
	arena_init(&arena, SIZE * 1000UL);
	int rc = wire_message_decode(&sluice__v1__machine__descriptor, data, SIZE, &arena, &message,
				     &err);
	size_t used = arena.used;
	arena_done(&arena);
	assert_int_equal(rc, 0);
	assert_true(used > SIZE * 36UL); /* else this is no test */

	for (size_t factor = 0; factor <= 36; factor++) {
		arena_init(&arena, factor * SIZE);
		message = NULL;
		rc = wire_message_decode(&sluice__v1__machine__descriptor, data, SIZE, &arena,
					 &message, &err);
		assert_true(arena.held <= factor * SIZE);
		arena_done(&arena);
		assert_int_equal(rc, -ENOMEM);
		assert_null(message);
	}
	assert_non_null(strstr(err.text, "sluice.v1.Machine"));
	free(data);
}

/* A message that is given again and again is merged each time: what was there is copied. */
static void test_arena_cap_holds_for_merges(void **state)
{
	enum { COUNT = 20000, SIZE = 4 * COUNT };
	uint8_t *data = malloc(SIZE);
	assert_non_null(data);
	for (size_t i = 0; i < COUNT; i++)
		memcpy(data + 4 * i, "\x0a\x02\x12\x00", 4); /* inner: {many: {}} */
	struct arena arena;
	arena_init(&arena, SIZE * 8UL);
	ProtobufCMessage *message = NULL;
	int rc = wire_message_decode(&test__nested__descriptor, data, SIZE, &arena, &message, NULL);
	assert_true(arena.held <= SIZE * 8UL);
	arena_done(&arena);
	free(data);
	assert_int_equal(rc, -ENOMEM);
}

static void test_encode_refuses(void **state)
{
	Test__Nested message = TEST__NESTED__INIT;
	message.text = (char[]){"0123456789"};
	struct err err = {0};
	_cleanup_buf_ struct buf out;
	buf_init(&out, 16);
	assert_int_equal(wire_message_encode(&message.base, &out, &err), -ENOSPC);
	assert_int_equal(out.length, 0);
	out.max = 17;
	assert_int_equal(wire_message_encode(&message.base, &out, &err), 0);
	assert_int_equal(out.length, 17);

	message.text = (char[]){"name \xff"};
	out.max = 100;
	assert_int_equal(wire_message_encode(&message.base, &out, &err), -EILSEQ);
	assert_int_equal(err.code, -EILSEQ);
	assert_non_null(strstr(err.text, "'text'"));
	assert_int_equal(out.length, 17);
	assert_int_equal(out.data[17], '\0');
	assert_int_equal(wire_message_encode(&message.base, &out, NULL), -EILSEQ);
}

/* What is passed on was looked at by whoever made it; what stands before it is checked as ever. */
static void test_encode_passes_unknown_fields_on(void **state)
{
	uint8_t inner[] = "\2\x12\xff"; /* length 2, then what would be a cut text */
	ProtobufCMessageUnknownField fields[] = {
	    {.tag = 3, .wire_type = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED, .len = 3, .data = inner},
	    {.tag = 1000,
	     .wire_type = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED,
	     .len = 3,
	     .data = inner},
	};
	Test__Nested message = TEST__NESTED__INIT;
	message.base.n_unknown_fields = 2;
	message.base.unknown_fields = fields;
	struct err err = {0};
	_cleanup_buf_ struct buf out;
	buf_init(&out, 100);
	assert_int_equal(wire_message_encode(&message.base, &out, &err), 0);
	assert_int_equal(out.length, 5 + 4 + 5);
	assert_memory_equal(out.data + 5, "\x1a\2\x12\xff\xc2\x3e\2\x12\xff", 9);
	message.text = (char[]){"ends badly \xff"};
	assert_int_equal(wire_message_encode(&message.base, &out, &err), -EILSEQ);
	assert_int_equal(out.length, 5 + 4 + 5);
}

/* --- frames --- */

static const uint8_t three_frames[] = "\0\0\0\0\3abc\0\0\0\0\0\0\0\0\0\1z";

/* Feeds pieces of `step` bytes; the messages, each with a bar behind it. */
static int feed(const uint8_t *data, size_t length, size_t step, size_t max, struct buf *out,
		struct wire_frames *frames, struct buf *body, struct err *err)
{
	wire_frames_init(frames, max, body);
	for (size_t at = 0; at < length;) {
		size_t piece = length - at < step ? length - at : step;
		bool whole = false;
		ssize_t taken = wire_frames_feed(frames, data + at, piece, &whole, err);
		if (taken < 0)
			return (int)taken;
		assert_true(taken > 0);
		assert_true((size_t)taken <= piece);
		at += (size_t)taken;
		if (whole) {
			assert_false(wire_frames_are_cut(frames));
			if (buf_add(out, body->data, body->length) < 0 ||
			    buf_add_text(out, "|") < 0)
				return -ENOMEM;
		}
	}
	return 0;
}

static void test_frames_in_pieces_of_any_size(void **state)
{
	for (size_t step = 1; step <= sizeof(three_frames); step++) {
		_cleanup_buf_ struct buf out, body;
		buf_init(&out, 100);
		buf_init(&body, 100);
		struct wire_frames frames;
		assert_int_equal(feed(three_frames, sizeof(three_frames) - 1, step, 3, &out,
				      &frames, &body, NULL),
				 0);
		assert_string_equal(buf_text(&out), "abc||z|");
		assert_false(wire_frames_are_cut(&frames));
	}
}

static void test_frames_that_are_cut(void **state)
{
	for (size_t length = 0; length < 8; length++) {
		_cleanup_buf_ struct buf out, body;
		buf_init(&out, 100);
		buf_init(&body, 100);
		struct wire_frames frames;
		assert_int_equal(feed(three_frames, length, 100, 3, &out, &frames, &body, NULL), 0);
		assert_int_equal(out.length, 0);
		assert_int_equal(wire_frames_are_cut(&frames), length > 0);
	}
}

static void test_frames_over_the_cap(void **state)
{
	static const struct {
		const char *data;
		int rc;
	} cases[] = {
	    {"\0\0\0\0\4", -EMSGSIZE},		{"\0\0\0\1\0", -EMSGSIZE},
	    {"\0\xff\xff\xff\xff", -EMSGSIZE},	{"\1\0\0\0\3", -EOPNOTSUPP},
	    {"\1\0\0\0\4", -EMSGSIZE},		{"\2\0\0\0\3", -EBADMSG},
	    {"\xff\xff\xff\xff\xff", -EBADMSG},
	};
	for (size_t i = 0; i < array_length(cases); i++) {
		_cleanup_buf_ struct buf out, body;
		buf_init(&out, 100);
		buf_init(&body, 100);
		struct wire_frames frames;
		struct err err = {0};
		assert_int_equal(
		    feed((const uint8_t *)cases[i].data, 5, 1, 3, &out, &frames, &body, &err),
		    cases[i].rc);
		assert_int_equal(err.code, cases[i].rc);
		assert_true(body.capacity == 0);
	}
}

/* A header that announces much costs nothing until it comes. */
static void test_frames_grow_with_what_arrives(void **state)
{
	_cleanup_buf_ struct buf body;
	buf_init(&body, 4 << 20);
	struct wire_frames frames;
	wire_frames_init(&frames, 4 << 20, &body);
	bool whole = true;
	assert_int_equal(
	    wire_frames_feed(&frames, (const uint8_t *)"\0\0\x40\0\0xyz", 8, &whole, NULL), 8);
	assert_false(whole);
	assert_true(body.capacity < 1000);
}

static int scenario(void *context)
{
	_cleanup_arena_ struct arena arena;
	arena_init(&arena, 100000);
	_cleanup_buf_ struct buf out, body;
	buf_init(&out, 100);
	buf_init(&body, 100);
	Test__Nested inner = TEST__NESTED__INIT, message = TEST__NESTED__INIT;
	inner.text = (char[]){"text"};
	message.inner = &inner;
	int rc = wire_message_encode(&message.base, &out, NULL);
	if (rc < 0)
		return rc;
	struct wire_frames frames;
	wire_frames_init(&frames, 100, &body);
	bool whole;
	ssize_t taken =
	    wire_frames_feed(&frames, (const uint8_t *)out.data, out.length, &whole, NULL);
	if (taken < 0)
		return (int)taken;
	ProtobufCMessage *decoded;
	return wire_message_decode(&test__nested__descriptor, body.data, body.length, &arena,
				   &decoded, NULL);
}

static void test_no_memory(void **state)
{
	assert_true(failmalloc_each(scenario, NULL) >= 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_round_trip),
	    cmocka_unit_test(test_empty_message),
	    cmocka_unit_test(test_accepts_what_is_well_formed),
	    cmocka_unit_test(test_refuses_garbage),
	    cmocka_unit_test(test_refuses_what_protobuf_refuses),
	    cmocka_unit_test(test_strings_are_utf8),
	    cmocka_unit_test(test_strings_hold_no_nul),
	    cmocka_unit_test(test_depth_is_capped),
	    cmocka_unit_test(test_arena_cap_holds),
	    cmocka_unit_test(test_arena_cap_holds_for_merges),
	    cmocka_unit_test(test_encode_refuses),
	    cmocka_unit_test(test_encode_passes_unknown_fields_on),
	    cmocka_unit_test(test_frames_in_pieces_of_any_size),
	    cmocka_unit_test(test_frames_that_are_cut),
	    cmocka_unit_test(test_frames_over_the_cap),
	    cmocka_unit_test(test_frames_grow_with_what_arrives),
	    cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
