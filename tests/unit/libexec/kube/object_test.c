/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/kube/object.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

#define LABEL "example.com/config"

static int parse(const char *text, struct object_event *out, struct err *err)
{
	return object_event_parse(text, strlen(text), LABEL, out, err);
}

static const char rig_added[] =
    "{\"type\":\"ADDED\",\"object\":{\"kind\":\"Node\",\"metadata\":{\"name\":\"n\","
    "\"resourceVersion\":\"12\",\"labels\":{\"a\":\"b\",\"" LABEL "\":\"gr\\u00fcn\"}}}}";

static void test_events(void **state)
{
	struct object_event event;
	struct err err = {0};
	assert_int_equal(parse(rig_added, &event, &err), 0);
	assert_int_equal(event.type, OBJECT_ADDED);
	assert_string_equal(event.node.version, "12");
	assert_true(event.node.has_label);
	assert_string_equal(event.node.label, "gr\u00fcn");
	static const struct {
		enum object_type type;
		const char *name;
	} types[] = {{OBJECT_ADDED, "ADDED"},
		     {OBJECT_MODIFIED, "MODIFIED"},
		     {OBJECT_DELETED, "DELETED"},
		     {OBJECT_BOOKMARK, "BOOKMARK"}};
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		char text[200];
		(void)snprintf(text, sizeof(text),
			       "{\"type\":\"%s\",\"object\":{\"metadata\":{\"resourceVersion\":"
			       "\"7\"}}}",
			       types[i].name);
		assert_int_equal(parse(text, &event, &err), 0);
		assert_int_equal(event.type, types[i].type);
		assert_string_equal(event.node.version, "7");
		assert_false(event.node.has_label);
		assert_string_equal(event.node.label, "");
	}
	assert_int_equal(parse("{\"type\":\"ERROR\",\"object\":{\"code\":410,\"message\":\"old\"}}",
			       &event, &err),
			 0);
	assert_int_equal(event.type, OBJECT_ERROR);
	assert_int_equal(event.status.code, 410);
	assert_string_equal(event.status.message, "old");
	/* Of a server that knows more than we: nothing of it is needed. */
	assert_int_equal(parse("{\"type\":\"NEW\",\"object\":{}}", &event, &err), 0);
	assert_int_equal(event.type, OBJECT_OTHER);
}

/* What people and the operator say, each in its place; what no label can be is none. */
static void test_followed_labels(void **state)
{
	struct object_event event;
	struct err err = {0};
	for (size_t i = 0; i < OBJECT_FOLLOWED; i++) {
		char text[400];
		(void)snprintf(text, sizeof(text),
			       "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":"
			       "\"7\",\"labels\":{\"%s\":\"paused\",\"%s\":7}}}}",
			       object_followed[i], object_followed[(i + 1) % OBJECT_FOLLOWED]);
		assert_int_equal(parse(text, &event, &err), 0);
		for (size_t k = 0; k < OBJECT_FOLLOWED; k++)
			assert_string_equal(event.node.value[k], k == i ? "paused" : "");
		(void)snprintf(text, sizeof(text),
			       "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":"
			       "\"7\",\"labels\":{\"%s\":\"%064d\"}}}}",
			       object_followed[i], 0);
		assert_int_equal(parse(text, &event, &err), 0);
		assert_string_equal(event.node.value[i], "");
	}
}

static void test_what_is_refused(void **state)
{
	static const char *const rows[][2] = {
	    {"", "no JSON"},
	    {"{", "no JSON"},
	    {"1", "no JSON"},
	    {"[]", "no type"},
	    {"{\"type\":1,\"object\":{}}", "no type"},
	    {"{\"type\":\"ADDED\"}", "no type"},
	    {"{\"type\":\"ADDED\",\"object\":[]}", "no type"},
	    {"{\"type\":\"ADDED\",\"object\":{}}", "resourceVersion"},
	    {"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"\"}}}",
	     "resourceVersion"},
	    {"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":7}}}",
	     "resourceVersion"},
	    {"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"1&a=b\"}}}",
	     "is no name"},
	    {"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"1 2\"}}}",
	     "is no name"},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct object_event event = {.type = OBJECT_OTHER};
		struct err err = {0};
		assert_int_equal(parse(rows[i][0], &event, &err), -EBADMSG);
		assert_non_null(strstr(err.text, rows[i][1]));
		assert_int_equal(event.type, OBJECT_OTHER); /* untouched */
	}
}

static void test_lists(void **state)
{
	static const char text[] =
	    "{\"metadata\":{\"resourceVersion\":\"90\"},\"items\":["
	    "{\"metadata\":{\"name\":\"other\",\"resourceVersion\":\"1\"}},{},7,"
	    "{\"metadata\":{\"name\":\"n\",\"resourceVersion\":\"2\",\"labels\":{\"" LABEL
	    "\":\"\"}}}]}";
	struct object_list list;
	struct err err = {0};
	assert_int_equal(object_list_parse(text, strlen(text), "n", LABEL, &list, &err), 0);
	assert_string_equal(list.version, "90");
	assert_true(list.found && list.node.has_label);
	assert_string_equal(list.node.label, "");
	assert_int_equal(object_list_parse(text, strlen(text), "absent", LABEL, &list, &err), 0);
	assert_false(list.found);
	static const char empty[] = "{\"metadata\":{\"resourceVersion\":\"90\"},\"items\":null}";
	assert_int_equal(object_list_parse(empty, strlen(empty), "n", LABEL, &list, &err), 0);
	assert_false(list.found);
	assert_int_equal(object_list_parse("{}", 2, "n", LABEL, &list, &err), -EBADMSG);
}

static void test_a_status(void **state)
{
	struct object_status status;
	struct err err = {0};
	static const char text[] = "{\"code\":99999,\"message\":null}";
	assert_int_equal(object_status_parse(text, strlen(text), &status, &err), 0);
	assert_int_equal(status.code, 0);
	assert_string_equal(status.message, "");
	assert_int_equal(object_status_parse("<html>", 6, &status, &err), -EBADMSG);
}

static void test_hostile_text(void **state)
{
	struct object_event event;
	struct err err = {0};
	size_t size = 1 << 20;
	char *text = malloc(size + 1);
	assert_non_null(text);
	memset(text, '[', size);
	assert_int_equal(object_event_parse(text, size, LABEL, &event, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "levels deep"));
	for (size_t i = 1; i < size; i++)
		text[i] = i % 2 ? '0' : ',';
	assert_int_equal(object_event_parse(text, size, LABEL, &event, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "values"));
	/* Within a text they are text. */
	memset(text, '[', size);
	text[0] = text[size - 1] = '"';
	text[10] = '\\';
	text[11] = '"';
	assert_int_equal(object_event_parse(text, size, LABEL, &event, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "no JSON"));
	free(text);
}

static int rig_scenario(void *context)
{
	struct object_event event;
	struct err err = {0};
	int result = parse(rig_added, &event, &err);
	/* jansson takes some of what it has no memory for as garbage. */
	return result == -EBADMSG ? -ENOMEM : result;
}

static void test_no_memory(void **state)
{
	assert_true(failmalloc_each(rig_scenario, NULL) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_followed_labels), cmocka_unit_test(test_events),
	    cmocka_unit_test(test_what_is_refused), cmocka_unit_test(test_lists),
	    cmocka_unit_test(test_a_status),	    cmocka_unit_test(test_hostile_text),
	    cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
