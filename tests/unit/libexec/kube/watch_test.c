/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/kube/watch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "libexec/kube/answer.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

#define RIG_BEGIN_NS UINT64_C(1000000000000)

struct rig {
	struct kube_watch *watch;
	uint64_t now_ns;
	char label[300], problem[600], others[300];
	unsigned labels, problems, told;
};

static void rig_on_label(bool is_set, const char *value, void *context)
{
	struct rig *rig = context;
	(void)snprintf(rig->label, sizeof(rig->label), "%s%s", is_set ? "=" : "", value);
	rig->labels++;
}

static void rig_on_others(const char *const *values, void *context)
{
	struct rig *rig = context;
	(void)snprintf(rig->others, sizeof(rig->others), "%s|%s|%s|%s|%s", values[0], values[1],
		       values[2], values[3], values[4]);
	rig->told++;
}

static void rig_on_problem(const char *text, void *context)
{
	struct rig *rig = context;
	(void)snprintf(rig->problem, sizeof(rig->problem), "%s", text);
	rig->problems++;
}

static int rig_set_up(void **state)
{
	static struct rig rig;
	rig = (struct rig){.now_ns = RIG_BEGIN_NS};
	const struct watch_options options = {.node = "n",
					      .label = "l",
					      .seed = 3,
					      .label_is = rig_on_label,
					      .labels_are = rig_on_others,
					      .problem = rig_on_problem,
					      .context = &rig};
	rig.watch = watch_new(&options, NULL);
	assert_non_null(rig.watch);
	*state = &rig;
	return 0;
}

static int rig_tear_down(void **state)
{
	struct rig *rig = *state;
	rig->watch = watch_free(rig->watch);
	return 0;
}

/* The next request, when its time has come: how long that took. */
static uint64_t rig_begin(struct rig *rig, const char *wanted)
{
	struct watch_request request;
	uint64_t due_ns = watch_due_ns(rig->watch), waited_ns = 0;
	if (due_ns > rig->now_ns) {
		waited_ns = due_ns - rig->now_ns;
		rig->now_ns = due_ns - 1;
		assert_false(watch_begin(rig->watch, rig->now_ns, &request));
		rig->now_ns = due_ns;
	}
	assert_true(watch_begin(rig->watch, rig->now_ns, &request));
	if (!strstr(request.path, wanted))
		fail_msg("'%s' is not in '%s'", wanted, request.path);
	assert_true(request.timeout_ns >= WATCH_SLACK_NS);
	assert_false(watch_begin(rig->watch, rig->now_ns, &request)); /* one at a time */
	return waited_ns;
}

static int rig_data(struct rig *rig, const char *text)
{
	return watch_data(rig->watch, text, strlen(text), rig->now_ns);
}

static void rig_end(struct rig *rig, uint32_t status)
{
	const struct kube_answer answer = {.status = status};
	watch_end(rig->watch, &answer, rig->now_ns);
}

static void rig_break(struct rig *rig)
{
	const struct kube_answer answer = {.code = -EIO, .text = "broken"};
	watch_end(rig->watch, &answer, rig->now_ns);
}

static void rig_list(struct rig *rig, const char *version, const char *label)
{
	char text[500];
	(void)snprintf(text, sizeof(text),
		       "{\"metadata\":{\"resourceVersion\":\"%s\"},\"items\":[{\"metadata\":{"
		       "\"name\":\"n\",\"resourceVersion\":\"1\",\"labels\":{%s%s%s}}}]}",
		       version, *label ? "\"l\":\"" : "", label, *label ? "\"" : "");
	assert_int_equal(rig_data(rig, text), 0);
	rig_end(rig, ANSWER_OK);
}

static void test_list_then_watch(void **state)
{
	struct rig *rig = *state;
	assert_int_equal(rig_begin(rig, "metadata.name%3Dn&resourceVersion=0"), 0);
	assert_int_equal(watch_due_ns(rig->watch), UINT64_MAX);
	rig_list(rig, "70", "");
	assert_int_equal(rig->labels, 1);
	assert_string_equal(rig->label, "");
	assert_int_equal(rig_begin(rig, "&watch=1&resourceVersion=70&"), 0);
	assert_int_equal(rig_data(rig, "{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{"
				       "\"resourceVersion\":\"71\",\"labels\":{\"l\":\"\"}}}}\n"),
			 0);
	assert_int_equal(rig->labels, 2);
	assert_string_equal(rig->label, "=");
	/* The same again is no news. */
	assert_int_equal(rig_data(rig, "{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{"
				       "\"resourceVersion\":\"72\",\"labels\":{\"l\":\"\"}}}}\n"),
			 0);
	assert_int_equal(rig->labels, 2);
	assert_int_equal(rig->told, 1); /* there are none */
	assert_int_equal(rig_data(rig, "{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{"
				       "\"resourceVersion\":\"72\",\"labels\":{\"l\":\"\","
				       "\"nvidia.com/gpu.workload.config\":\"vm-vgpu\"}}}}\n"),
			 0);
	assert_int_equal(rig->told, 2);
	assert_string_equal(rig->others, "vm-vgpu||||");
	assert_int_equal(rig->labels, 2);
	rig->now_ns += 300 * CLOCK_NS_PER_S;
	rig_end(rig, ANSWER_OK);
	assert_int_equal(rig_begin(rig, "&watch=1&resourceVersion=72&"), 0);
	assert_int_equal(rig->problems, 1); /* that there is none */
	assert_string_equal(rig->problem, "");
}

/* A watch that tells nothing is well when it stands. */
static void test_problems_end_when_a_watch_stands(void **state)
{
	struct rig *rig = *state;
	(void)rig_begin(rig, "");
	rig_end(rig, ANSWER_FORBIDDEN);
	assert_non_null(strstr(rig->problem, "403"));
	(void)rig_begin(rig, "");
	rig_list(rig, "70", "a");
	assert_string_equal(rig->label, "=a");
	(void)rig_begin(rig, "watch=1");
	assert_int_equal(rig->problems, 1);
	assert_int_equal(watch_due_ns(rig->watch), rig->now_ns + WATCH_SETTLED_NS);
	watch_look(rig->watch, ANSWER_OK, rig->now_ns + WATCH_SETTLED_NS - 1);
	assert_int_equal(rig->problems, 1);
	watch_look(rig->watch, ANSWER_OK, rig->now_ns + WATCH_SETTLED_NS);
	assert_string_equal(rig->problem, "");
	assert_int_equal(watch_due_ns(rig->watch), UINT64_MAX);
}

/* One that was not even answered is not. */
static void test_a_watch_without_an_answer(void **state)
{
	struct rig *rig = *state;
	(void)rig_begin(rig, "");
	rig_end(rig, 500);
	(void)rig_begin(rig, "");
	rig_list(rig, "70", "a");
	(void)rig_begin(rig, "watch=1");
	watch_look(rig->watch, 0, rig->now_ns + WATCH_SETTLED_NS);
	assert_int_equal(rig->problems, 1);
	assert_int_equal(watch_due_ns(rig->watch), UINT64_MAX);
}

static void test_waits_grow(void **state)
{
	struct rig *rig = *state;
	uint64_t longest_ns = 0;
	(void)rig_begin(rig, "resourceVersion=0");
	rig_break(rig);
	assert_non_null(strstr(rig->problem, "broken"));
	for (int i = 0; i < 10; i++) {
		longest_ns = rig_begin(rig, "resourceVersion=0");
		rig_break(rig);
	}
	assert_true(longest_ns >= 15 * CLOCK_NS_PER_S && longest_ns <= 30 * CLOCK_NS_PER_S);
	assert_int_equal(rig->problems, 1);
	/* The server's own wish counts when it is longer, and is not obeyed for ever. */
	(void)rig_begin(rig, "");
	struct kube_answer answer = {.status = 429, .retry_after_ns = 90 * CLOCK_NS_PER_S};
	watch_end(rig->watch, &answer, rig->now_ns);
	assert_int_equal(rig_begin(rig, "resourceVersion=0"), 90 * CLOCK_NS_PER_S);
	answer.retry_after_ns = 900000 * CLOCK_NS_PER_S;
	watch_end(rig->watch, &answer, rig->now_ns);
	assert_int_equal(rig_begin(rig, ""), WATCH_RETRY_MAX_NS);
	/* What a server does not have is not asked for again. */
	rig_end(rig, 504);
	(void)rig_begin(rig, "metadata.name%3Dn");
	rig_list(rig, "5", "");
	(void)rig_begin(rig, "resourceVersion=5&");
}

static void test_gone(void **state)
{
	struct rig *rig = *state;
	(void)rig_begin(rig, "");
	rig_list(rig, "70", "a");
	(void)rig_begin(rig, "watch=1");
	assert_int_equal(rig_data(rig, "{\"type\":\"ERROR\",\"object\":{\"code\":410}}\n"),
			 -ESTALE);
	struct kube_answer answer = {.code = -ECANCELED, .status = ANSWER_OK};
	watch_end(rig->watch, &answer, rig->now_ns);
	assert_int_equal(rig_begin(rig, "metadata.name%3Dn"), 0); /* at once */
	rig_list(rig, "80", "b");
	(void)rig_begin(rig, "watch=1&resourceVersion=80");
	rig_end(rig, ANSWER_GONE);
	assert_true(rig_begin(rig, "metadata.name%3Dn") > 0); /* but not round and round */
	assert_int_equal(rig->problems, 0);
	assert_string_equal(rig->label, "=b");
}

static void test_garbage(void **state)
{
	struct rig *rig = *state;
	(void)rig_begin(rig, "");
	rig_list(rig, "70", "a");
	(void)rig_begin(rig, "watch=1");
	assert_true(rig_data(rig, "<html>\n") < 0);
	assert_true(rig_data(rig, "more") < 0);
	struct kube_answer answer = {.code = -ECANCELED, .status = ANSWER_OK};
	watch_end(rig->watch, &answer, rig->now_ns);
	assert_non_null(strstr(rig->problem, "no event of a watch"));
	assert_true(rig_begin(rig, "resourceVersion=70") > 0);
	assert_int_equal(rig_data(rig, "<html>"), 0);
	rig_end(rig, ANSWER_OK);
	assert_non_null(strstr(rig->problem, "no list of nodes"));
}

static void test_a_node_that_goes(void **state)
{
	struct rig *rig = *state;
	(void)rig_begin(rig, "");
	rig_list(rig, "70", "a");
	(void)rig_begin(rig, "watch=1");
	assert_int_equal(rig_data(rig, "{\"type\":\"DELETED\",\"object\":{\"metadata\":{"
				       "\"resourceVersion\":\"71\"}}}\n"),
			 0);
	assert_non_null(strstr(rig->problem, "no node 'n'"));
	assert_int_equal(rig->labels, 1);
	assert_int_equal(rig_data(rig, "{\"type\":\"ADDED\",\"object\":{\"metadata\":{"
				       "\"resourceVersion\":\"72\"}}}\n"),
			 0);
	assert_string_equal(rig->problem, "");
	assert_string_equal(rig->label, "");
	assert_int_equal(rig->labels, 2);
}

static void test_a_token_that_was_replaced(void **state)
{
	struct rig *rig = *state;
	const struct kube_answer answer = {.status = ANSWER_UNAUTHORIZED, .token_changed = true};
	(void)rig_begin(rig, "");
	watch_end(rig->watch, &answer, rig->now_ns);
	assert_int_equal(rig_begin(rig, ""), 0);
	watch_end(rig->watch, &answer, rig->now_ns);
	assert_true(rig_begin(rig, "") > 0);
}

static void test_names(void **state)
{
	char longest[WATCH_NAME_MAX + 1];
	memset(longest, 'a', sizeof(longest));
	longest[WATCH_NAME_MAX] = '\0';
	assert_false(watch_name_is_valid(longest));
	longest[WATCH_NAME_MAX - 1] = '\0';
	assert_true(watch_name_is_valid(longest));
	assert_true(watch_name_is_valid("node-1.example.com"));
	static const char *const wrong[] = {"",	 "A",	  "a b", "-a",	    "a-",
					    ".", "a&b=c", "a/b", "\xc3\xbc"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		assert_false(watch_name_is_valid(wrong[i]));
}

static int rig_scenario(void *context)
{
	struct rig rig = {.now_ns = RIG_BEGIN_NS};
	struct watch_request request;
	struct err err = {0};
	const struct watch_options options = {.node = "n",
					      .label = "l",
					      .label_is = rig_on_label,
					      .problem = rig_on_problem,
					      .context = &rig};
	static const char list[] = "{\"metadata\":{\"resourceVersion\":\"1\"}}";
	rig.watch = watch_new(&options, &err);
	if (!rig.watch)
		return err.code;
	const struct kube_answer answer = {.status = ANSWER_OK};
	(void)watch_begin(rig.watch, rig.now_ns, &request);
	int result = watch_data(rig.watch, list, sizeof(list) - 1, rig.now_ns);
	watch_end(rig.watch, &answer, rig.now_ns);
	/* Not enough memory for an answer is a failure like another: it is asked again. */
	if (result == 0 && watch_due_ns(rig.watch) > rig.now_ns)
		result = -ENOMEM;
	rig.watch = watch_free(rig.watch);
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
	    RIG_TEST(test_list_then_watch),
	    RIG_TEST(test_problems_end_when_a_watch_stands),
	    RIG_TEST(test_a_watch_without_an_answer),
	    RIG_TEST(test_waits_grow),
	    RIG_TEST(test_gone),
	    RIG_TEST(test_garbage),
	    RIG_TEST(test_a_node_that_goes),
	    RIG_TEST(test_a_token_that_was_replaced),
	    cmocka_unit_test(test_names),
	    cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
