/* SPDX-License-Identifier: Apache-2.0 */
#include "web/http.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "unit/unit.h"

static int parse(const char *head, struct http_request *out, unsigned *status)
{
	struct err err = {.code = 0};
	int rc = http_request_parse(head, strlen(head), out, status, &err);
	if (rc < 0)
		assert_true(err.text[0] != '\0');
	return rc;
}

static void test_head_length(void **state)
{
	static const struct {
		const char *text;
		size_t length;
	} rows[] = {
	    {"", 0},
	    {"GET / HTTP/1.1\r\n", 0},
	    {"GET / HTTP/1.1\r\n\r", 0},
	    {"GET / HTTP/1.1\r\n\r\n", 18},
	    {"GET / HTTP/1.1\n\n", 16},
	    {"\r\n\r\n", 0},
	    {"\r\nGET / HTTP/1.1\r\n\r\nrest", 20},
	    {"GET / HTTP/1.1\r\nA: b\r\n\r\nGET", 24},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(http_head_length(rows[i].text, strlen(rows[i].text)),
				 rows[i].length);
}

static void test_request(void **state)
{
	struct http_request request;
	unsigned status;
	assert_int_equal(parse("GET /metrics?set=all HTTP/1.1\r\nHost: gpu7:9400\r\n"
			       "accept-encoding: br, gzip\r\nAuthorization:\tBearer x \r\n"
			       "Last-Event-ID: 5-7\r\n\r\n",
			       &request, &status),
			 0);
	assert_int_equal(request.method, HTTP_GET);
	assert_true(http_text_is(&request.path, "/metrics"));
	assert_true(http_text_is(&request.query, "set=all"));
	assert_true(http_text_is(&request.host, "gpu7:9400"));
	assert_true(http_text_is(&request.authorization, "Bearer x"));
	assert_true(http_text_is(&request.last_event_id, "5-7"));
	assert_true(request.accepts_gzip && request.keep_alive && !request.has_body);

	assert_int_equal(parse("HEAD / HTTP/1.0\n\n", &request, &status), 0);
	assert_int_equal(request.method, HTTP_HEAD);
	assert_false(request.keep_alive);
	assert_null(request.host.data);
	assert_null(request.query.data);
	assert_int_equal(parse("GET / HTTP/1.0\nConnection: Keep-Alive\n\n", &request, &status), 0);
	assert_true(request.keep_alive);
	assert_int_equal(
	    parse("GET / HTTP/1.1\nHost: a\nConnection: foo, close\n\n", &request, &status), 0);
	assert_false(request.keep_alive);
}

static void test_absolute_form(void **state)
{
	struct http_request request;
	unsigned status;
	assert_int_equal(
	    parse("GET http://other:1/a?b HTTP/1.1\r\nHost: us\r\n\r\n", &request, &status), 0);
	assert_true(http_text_is(&request.host, "other:1"));
	assert_true(http_text_is(&request.path, "/a"));
	assert_true(http_text_is(&request.query, "b"));
	assert_int_equal(parse("GET HTTPS://x HTTP/1.1\r\nHost: x\r\n\r\n", &request, &status), 0);
	assert_true(http_text_is(&request.path, "/"));
	assert_int_equal(parse("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", &request, &status), 0);
	assert_int_equal(request.method, HTTP_OTHER);
}

static void test_body(void **state)
{
	static const struct {
		const char *field;
		bool has;
	} rows[] = {{"Content-Length: 0", false},
		    {"Content-Length: 5", true},
		    {"Content-Length: 00", true},
		    {"Transfer-Encoding: chunked", true},
		    {"Accept: */*", false}};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char head[200];
		struct http_request request;
		unsigned status;
		(void)snprintf(head, sizeof(head), "GET / HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n",
			       rows[i].field);
		assert_int_equal(parse(head, &request, &status), 0);
		assert_int_equal(request.has_body, rows[i].has);
	}
}

static void test_refused(void **state)
{
	static const struct {
		const char *head;
		unsigned status;
	} rows[] = {
	    {"GET / HTTP/1.1\r\n\r\n", 400}, /* no Host */
	    {"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400},
	    {"GET / HTTP/1.1\r\nHost: a\r\nAuthorization: a\r\nauthorization: b\r\n\r\n", 400},
	    {"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400},
	    {"GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400},
	    {"GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", 400},
	    {"GET / HTTP/1.1\r\nHost: a\r\nname\r\n\r\n", 400},
	    {"GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n", 400},
	    {"GET / HTTP/1.1\r\nHost: a\x01\r\n\r\n", 400},
	    {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
	    {"GET / HTTP/0.9\r\nHost: a\r\n\r\n", 505},
	    {"GET / HTTP/1.x\r\nHost: a\r\n\r\n", 505},
	    {"GET / HTTP/1.10\r\nHost: a\r\n\r\n", 400},
	    {"GET /\r\n\r\n", 400},
	    {"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	    {"GET / / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	    {"GET metrics HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	    {"GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	    {"GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	    {"GET /#a HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	    {" GET / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	    {"G\tT / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	    {"\x16\x03\x01\n\n", 400}, /* TLS */
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct http_request request;
		unsigned status = 0;
		assert_int_equal(parse(rows[i].head, &request, &status), -EPROTO);
		assert_int_equal(status, rows[i].status);
	}
}

static void test_nul(void **state)
{
	static const char in_field[] = "GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n";
	static const char in_name[] = "GET / HTTP/1.1\r\nHost: a\r\nB\0: b\r\n\r\n";
	static const char in_target[] = "GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n";
	struct http_request request;
	unsigned status;
	assert_int_equal(
	    http_request_parse(in_field, sizeof(in_field) - 1, &request, &status, NULL), -EPROTO);
	assert_int_equal(http_request_parse(in_name, sizeof(in_name) - 1, &request, &status, NULL),
			 -EPROTO);
	assert_int_equal(
	    http_request_parse(in_target, sizeof(in_target) - 1, &request, &status, NULL), -EPROTO);
}

static void test_many_fields(void **state)
{
	static char head[HTTP_HEAD_MAX];
	struct http_request request;
	unsigned status;
	size_t at = (size_t)snprintf(head, sizeof(head), "GET / HTTP/1.1\r\nHost: a\r\n");
	for (int i = 0; i < HTTP_FIELDS_MAX; i++)
		at += (size_t)snprintf(head + at, sizeof(head) - at, "A: b\r\n");
	(void)snprintf(head + at, sizeof(head) - at, "\r\n");
	assert_int_equal(parse(head, &request, &status), -EPROTO);
}

static void test_gzip(void **state)
{
	static const struct {
		const char *value;
		bool is;
	} rows[] = {
	    {"", false},	   {"gzip", true},
	    {"GZIP", true},	   {"deflate, gzip;q=0.5", true},
	    {"gzip;q=0", false},   {"gzip; q=0.000", false},
	    {"*", true},	   {"*;q=0", false},
	    {"identity", false},   {"gzip;q=0, *", false},
	    {"*;q=0, gzip", true}, {"x-gzip", false},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(http_accepts_gzip(rows[i].value, strlen(rows[i].value)),
				 rows[i].is);
}

static void test_words(void **state)
{
	static const unsigned known[] = {200, 400, 401, 403, 404, 405, 408, 431, 503, 505};
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		assert_string_not_equal(http_status_to_string(known[i]), "Internal Server Error");
	assert_string_equal(http_status_to_string(500), "Internal Server Error");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_head_length),	  cmocka_unit_test(test_request),
	    cmocka_unit_test(test_absolute_form), cmocka_unit_test(test_body),
	    cmocka_unit_test(test_refused),	  cmocka_unit_test(test_nul),
	    cmocka_unit_test(test_many_fields),	  cmocka_unit_test(test_gzip),
	    cmocka_unit_test(test_words),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
