/* SPDX-License-Identifier: Apache-2.0 */
/* A session with a peer made by hand on the other side, without sockets; what the session's tests
 * share. Its user answers each Submit whose key is not "hold", and writes down every event. */
#ifndef TESTS_UNIT_WIRE_SESSION_FIXTURE_H
#define TESTS_UNIT_WIRE_SESSION_FIXTURE_H

#include "base/buf.h"
#include "base/err.h"
#include "sluice.pb-c.h"
#include "unit/unit.h"
#include "unit/wire/raw.h"
#include "wire/server.h"
#include "wire/session.h"

#define SUBMIT "/sluice.v1.Queue/Submit"
#define LOGS   "/sluice.v1.Queue/Logs"
#define UPLOAD "/test/Upload"

enum { FILL = 64 << 10, REQUEST_MAX = 1024 };

/* Submit, Logs, Upload. */
extern const struct wire_method methods[];
extern const struct session_events events;

struct fixture {
	struct session *session;
	struct raw raw;
	struct buf trace;	       /* of events */
	struct session_stream *stream; /* of the last message or call */
	bool cut_in_message;
	int rc; /* of the last session_receive() */
	struct err err;
};

/* For cmocka. */
int as_server(void **state);
int as_client(void **state);
int tear_down(void **state);

/* What the session has to say goes to the peer. */
void drain(struct fixture *fixture);
/* What the peer has to say goes to the session, and back. */
void pump(struct fixture *fixture);
/* The peer sends a SubmitRequest; a whole call of Logs; a Submit with these headers. */
void submit(struct fixture *fixture, int32_t id, const char *key, uint8_t flags);
void logs(struct fixture *fixture, int32_t id);
void call_with(struct fixture *fixture, int32_t id, const struct raw_field *fields);

#define assert_saw(fixture, text)                                                                  \
	do {                                                                                       \
		if (!raw_saw(&(fixture)->raw, text))                                               \
			fail_msg("no '%s' in:\n%s", text, buf_text(&(fixture)->raw.trace));        \
	} while (0)
#define assert_not_saw(fixture, text)                                                              \
	do {                                                                                       \
		if (raw_saw(&(fixture)->raw, text))                                                \
			fail_msg("'%s' in:\n%s", text, buf_text(&(fixture)->raw.trace));           \
	} while (0)
#define assert_trace(fixture, text) assert_string_equal(buf_text(&(fixture)->trace), text)

#define server_test(name) cmocka_unit_test_setup_teardown(name, as_server, tear_down)
#define client_test(name) cmocka_unit_test_setup_teardown(name, as_client, tear_down)

#endif
