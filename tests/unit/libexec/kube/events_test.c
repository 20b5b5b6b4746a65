/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/kube/events.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "libexec/kube/answer.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

#define RIG_UNIX_NS INT64_C(1700000000000000000)

struct rig {
	struct events *events;
	uint64_t now_ns;
	char problem[600];
	unsigned problems;
	struct events_request request;
};

static void rig_on_problem(const char *text, void *context)
{
	struct rig *rig = context;
	(void)snprintf(rig->problem, sizeof(rig->problem), "%s", text);
	rig->problems++;
}

static int rig_open(struct rig *rig, const char *node)
{
	struct err err = {0};
	const struct events_options options = {
	    .node = node, .seed = 3, .problem = rig_on_problem, .context = rig};
	*rig = (struct rig){.now_ns = UINT64_C(1000000000000)};
	rig->events = events_new(&options, &err);
	return rig->events ? 0 : err.code;
}

static int rig_set_up(void **state)
{
	static struct rig rig;
	assert_int_equal(rig_open(&rig, "n"), 0);
	*state = &rig;
	return 0;
}

static int rig_tear_down(void **state)
{
	struct rig *rig = *state;
	rig->events = events_free(rig->events);
	return 0;
}

static void rig_add(struct rig *rig, const char *message)
{
	events_add(rig->events, true, "Reason", message, rig->now_ns,
		   RIG_UNIX_NS + (int64_t)rig->now_ns);
}

/* The next request has all of this; it is answered. */
static void rig_expect(struct rig *rig, const char *method, const char *part, uint32_t status)
{
	const struct kube_answer answer = {.status = status};
	assert_true(events_due_ns(rig->events) != UINT64_MAX);
	if (events_due_ns(rig->events) > rig->now_ns)
		rig->now_ns = events_due_ns(rig->events);
	assert_true(events_begin(rig->events, rig->now_ns, &rig->request));
	assert_string_equal(rig->request.method, method);
	if (!strstr(rig->request.body, part))
		fail_msg("'%s' is not in '%s'", part, rig->request.body);
	free(rig->request.body);
	assert_int_equal(events_due_ns(rig->events), UINT64_MAX);
	events_end(rig->events, &answer, rig->now_ns);
}

static void test_equal_ones_are_counted(void **state)
{
	struct rig *rig = *state;
	assert_int_equal(events_due_ns(rig->events), UINT64_MAX);
	rig_add(rig, "a");
	rig_add(rig, "a");
	rig_expect(rig, "POST", "\"count\":2", ANSWER_CREATED);
	assert_string_equal(rig->request.path, "/api/v1/namespaces/default/events");
	assert_int_equal(events_due_ns(rig->events), UINT64_MAX);
	rig->now_ns += EVENTS_SAME_NS;
	rig_add(rig, "a");
	rig_expect(rig, "PATCH", "{\"count\":3,\"lastTimestamp\":\"2023-", ANSWER_OK);
	assert_non_null(strstr(rig->request.path, "/events/n."));
	/* Ten minutes later it is another. */
	rig->now_ns += EVENTS_SAME_NS + 1;
	rig_add(rig, "a");
	rig_expect(rig, "POST", "\"count\":1", ANSWER_CREATED);
	rig_add(rig, "b");
	rig_expect(rig, "POST", "\"message\":\"b\"", ANSWER_CREATED);
	assert_int_equal(rig->problems, 0);
}

/* One that comes while the same is on its way is told afterwards. */
static void test_one_more_meanwhile(void **state)
{
	struct rig *rig = *state;
	const struct kube_answer created = {.status = ANSWER_CREATED};
	rig_add(rig, "a");
	assert_true(events_begin(rig->events, rig->now_ns, &rig->request));
	free(rig->request.body);
	rig_add(rig, "a");
	events_end(rig->events, &created, rig->now_ns);
	rig_expect(rig, "PATCH", "\"count\":2", ANSWER_OK);
	rig_add(rig, "a");
	rig_expect(rig, "PATCH", "\"count\":3", ANSWER_NOT_FOUND);
	rig_expect(rig, "POST", "\"count\":3", ANSWER_CREATED);
}

static void test_too_many(void **state)
{
	struct rig *rig = *state;
	const struct kube_answer broken = {.code = -EIO};
	char text[32];
	rig_add(rig, "on its way");
	assert_true(events_begin(rig->events, rig->now_ns, &rig->request));
	free(rig->request.body);
	for (int i = 0; i < 3 * EVENTS_MAX; i++) {
		(void)snprintf(text, sizeof(text), "event %d", i);
		rig_add(rig, text);
	}
	events_end(rig->events, &broken, rig->now_ns);
	rig_expect(rig, "POST", "on its way", ANSWER_CREATED);
	for (int i = 2 * EVENTS_MAX + 1; i < 3 * EVENTS_MAX; i++) {
		(void)snprintf(text, sizeof(text), "\"event %d\"", i);
		rig_expect(rig, "POST", text, ANSWER_CREATED);
	}
	/* What is told makes room before what waits. */
	rig_add(rig, "new");
	rig_add(rig, "event 150");
	rig_expect(rig, "POST", "\"new\"", ANSWER_CREATED);
	rig_expect(rig, "PATCH", "\"count\":2", ANSWER_OK);
}

static void test_failures(void **state)
{
	struct rig *rig = *state;
	struct kube_answer answer = {.status = 503};
	rig_add(rig, "a");
	for (int i = 0; i < 10; i++) {
		uint64_t before_ns = rig->now_ns;
		rig_expect(rig, "POST", "\"a\"", 503);
		assert_true(i == 0 || rig->now_ns > before_ns);
	}
	assert_int_equal(rig->problems, 0); /* the watch says so */
	assert_true(events_due_ns(rig->events) >= rig->now_ns + 15 * CLOCK_NS_PER_S);
	rig_expect(rig, "POST", "\"a\"", ANSWER_CREATED);
	rig_add(rig, "b");
	assert_true(events_begin(rig->events, rig->now_ns, &rig->request));
	free(rig->request.body);
	answer = (struct kube_answer){.status = 429, .retry_after_ns = 90 * CLOCK_NS_PER_S};
	events_end(rig->events, &answer, rig->now_ns);
	assert_int_equal(events_due_ns(rig->events), rig->now_ns + 90 * CLOCK_NS_PER_S);
	/* What is wrong with it will be wrong again. */
	rig_expect(rig, "POST", "\"b\"", 422);
	assert_non_null(strstr(rig->problem, "422"));
	assert_int_equal(events_due_ns(rig->events), UINT64_MAX);
	/* Forbidden is not for ever, and not to be asked all the time. */
	rig_add(rig, "c");
	rig_expect(rig, "POST", "\"c\"", ANSWER_FORBIDDEN);
	assert_non_null(strstr(rig->problem, "create and patch of events"));
	assert_int_equal(events_due_ns(rig->events), rig->now_ns + EVENTS_FORBIDDEN_NS);
	rig_expect(rig, "POST", "\"c\"", ANSWER_CREATED);
	assert_string_equal(rig->problem, "");
	assert_int_equal(rig->problems, 3);
}

static void test_long_texts(void **state)
{
	struct rig *rig = *state;
	char text[2 * EVENTS_MESSAGE_MAX];
	for (size_t i = 0; i + 1 < sizeof(text); i += 2)
		memcpy(text + i, "\xc3\xbc", 2);
	text[sizeof(text) - 2] = '\0';
	rig_add(rig, text); /* cut between two characters */
	rig_expect(rig, "POST", "\xc3\xbc\"", ANSWER_CREATED);
	rig_add(rig, text);
	rig_expect(rig, "PATCH", "\"count\":2", ANSWER_OK);
	/* Bytes that are no text are not told, and hold up nothing. */
	rig_add(rig, "\xff\xfe five bytes");
	rig_add(rig, "fine");
	assert_false(events_begin(rig->events, rig->now_ns, &rig->request));
	rig_expect(rig, "POST", "fine", ANSWER_CREATED);
}

static void test_the_name_of_a_long_node(void **state)
{
	struct rig rig;
	char node[254];
	memset(node, 'a', sizeof(node) - 1);
	node[sizeof(node) - 1] = '\0';
	node[235] = '.';
	assert_int_equal(rig_open(&rig, node), 0);
	rig_add(&rig, "a");
	rig_expect(&rig, "POST", "\"count\":1", ANSWER_CREATED);
	rig_add(&rig, "a");
	rig_expect(&rig, "PATCH", "\"count\":2", ANSWER_OK);
	const char *name = strrchr(rig.request.path, '/') + 1;
	assert_true(strlen(name) <= 253);
	assert_null(strstr(name, ".."));
	rig.events = events_free(rig.events);
}

static int rig_scenario(void *context)
{
	struct rig rig;
	const struct kube_answer created = {.status = ANSWER_CREATED};
	int result = rig_open(&rig, "n");
	if (result < 0)
		return result;
	rig_add(&rig, "a");
	if (events_begin(rig.events, rig.now_ns, &rig.request)) {
		free(rig.request.body);
		events_end(rig.events, &created, rig.now_ns);
	} else {
		result = -ENOMEM;
	}
	rig.events = events_free(rig.events);
	return result;
}

static void test_no_memory(void **state)
{
	assert_true(failmalloc_each(rig_scenario, NULL) > 0);
}

#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    RIG_TEST(test_equal_ones_are_counted),
	    RIG_TEST(test_one_more_meanwhile),
	    RIG_TEST(test_too_many),
	    RIG_TEST(test_failures),
	    RIG_TEST(test_long_texts),
	    cmocka_unit_test(test_the_name_of_a_long_node),
	    cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
