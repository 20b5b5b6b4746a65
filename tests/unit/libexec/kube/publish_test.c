/* SPDX-License-Identifier: Apache-2.0 */
/* Each step is tried against a server in tests/e2e/test_kube_labels.py; here is what takes minutes.
 */
#include "libexec/kube/publish.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "libexec/kube/answer.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

#define S     CLOCK_NS_PER_S
#define NEVER UINT64_MAX

static struct {
	struct publish *publish;
	struct publish_state state;
	char problem[ANSWER_PROBLEM_MAX];
	unsigned told;
} scene;

static void on_state(const struct publish_state *state, void *context)
{
	(void)context;
	scene.state = *state;
	(void)snprintf(scene.problem, sizeof(scene.problem), "%s", state->problem);
	scene.told++;
}

static int setup(void **state)
{
	(void)state;
	const struct publish_options options = {
	    .node = "node-1", .namespace_ = "sluice", .seed = 1, .state = on_state};
	memset(&scene, 0, sizeof(scene));
	scene.publish = publish_new(&options, NULL);
	return scene.publish ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	scene.publish = publish_free(scene.publish);
	return 0;
}

static int set(Sluice__Kube__V1__Way way, const char *count, uint64_t at_s)
{
	Sluice__Kube__V1__Publish wish = SLUICE__KUBE__V1__PUBLISH__INIT;
	Sluice__Kube__V1__Pair pair = SLUICE__KUBE__V1__PAIR__INIT, *pairs[] = {&pair};
	pair.key = (char *)"nvidia.com/gpu.count";
	pair.value = (char *)count;
	wish.way = way;
	wish.n_labels = 1;
	wish.labels = pairs;
	return publish_set(scene.publish, &wish, at_s * S, NULL);
}

/* The request that is made now, as "METHOD PATH"; "" for none. */
static const char *ask(uint64_t now_ns)
{
	static char text[PUBLISH_PATH_MAX + 16];
	struct publish_request request;
	text[0] = '\0';
	if (publish_begin(scene.publish, now_ns, &request)) {
		(void)snprintf(text, sizeof(text), "%s %s", request.method, request.path);
		free(request.body);
	}
	return text;
}

static void answer(uint32_t status, const char *body, uint64_t now_ns)
{
	const struct kube_answer what = {.status = status};
	if (status == ANSWER_OK)
		assert_true(publish_data(scene.publish, body, strlen(body)) >= 0);
	publish_end(scene.publish, &what, now_ns);
}

#define NODE	       "/api/v1/nodes/node-1"
#define APPLY	       "PATCH " NODE "?fieldManager=sluice-agent&force=true"
#define OBJECT	       "/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/sluice/nodefeatures"
#define LABELED(count) "{\"metadata\": {\"labels\": {\"nvidia.com/gpu.count\": \"" count "\"}}}"

static void test_the_pace_of_writes(void **state)
{
	(void)state;
	assert_true(publish_due_ns(scene.publish) == NEVER);
	assert_int_equal(set(SLUICE__KUBE__V1__WAY__DIRECT, "1", 100), 0);
	assert_true(publish_due_ns(scene.publish) <= 100 * S);
	assert_string_equal(ask(100 * S), APPLY);
	assert_true(publish_due_ns(scene.publish) == NEVER); /* while one runs */
	assert_string_equal(ask(100 * S), "");
	/* What changes meanwhile is not yet written. */
	assert_int_equal(set(SLUICE__KUBE__V1__WAY__DIRECT, "2", 101), 0);
	answer(ANSWER_OK, "", 102 * S);
	assert_false(scene.state.is_written);
	assert_true(publish_due_ns(scene.publish) == 162 * S);
	assert_string_equal(ask(161 * S), "");
	assert_string_equal(ask(162 * S), APPLY);
	answer(ANSWER_OK, "", 162 * S);
	assert_true(scene.state.is_written && scene.state.is_on_node);
	unsigned told = scene.told;
	assert_int_equal(set(SLUICE__KUBE__V1__WAY__DIRECT, "2", 170), 0);
	assert_string_equal(ask(170 * S), "");
	assert_int_equal(scene.told, told);
}

/* Applied at 100 s. In the first minutes the looks, which find the labels, are 10, 20, 40 ... s
 * after it. When the first of the usual ones is. */
static uint64_t apply_and_settle(void)
{
	unsigned looks = 0;
	assert_int_equal(set(SLUICE__KUBE__V1__WAY__DIRECT, "1", 100), 0);
	assert_string_equal(ask(100 * S), APPLY);
	answer(ANSWER_OK, "", 100 * S);
	for (uint64_t after_s = 10; after_s <= 160; after_s *= 2, looks++) {
		assert_true(publish_due_ns(scene.publish) == (100 + after_s) * S);
		assert_string_equal(ask((100 + after_s) * S), "GET " NODE);
		answer(ANSWER_OK, LABELED("1"), (100 + after_s) * S);
	}
	assert_int_equal(looks, 5);

	return publish_due_ns(scene.publish);
}

/* An nfd-master that loses its source as we begin, and whose labels these still are. */
static void test_who_takes_labels_away_early(void **state)
{
	(void)state;
	assert_int_equal(set(SLUICE__KUBE__V1__WAY__DIRECT, "1", 100), 0);
	assert_string_equal(ask(100 * S), APPLY);
	answer(ANSWER_OK, "", 100 * S);
	assert_string_equal(ask(110 * S), "GET " NODE);
	answer(ANSWER_OK, "{\"metadata\": {}}", 110 * S);
	assert_string_equal(ask(110 * S), APPLY);
	answer(ANSWER_OK, "", 110 * S);
	assert_true(scene.state.is_written && scene.state.is_on_node);
	assert_string_equal(scene.problem, "");
	assert_true(publish_due_ns(scene.publish) <= 170 * S);
}

static void test_drift(void **state)
{
	(void)state;
	uint64_t due_ns = apply_and_settle();
	for (int i = 0; i < 100; i++) { /* ten minutes, give or take a fifth */
		uint64_t now_ns = due_ns;
		assert_string_equal(ask(now_ns), "GET " NODE);
		answer(ANSWER_OK, LABELED("1"), now_ns);
		due_ns = publish_due_ns(scene.publish);
		assert_in_range((due_ns - now_ns) / S, 480, 720);
	}
	/* Repaired, and looked at each minute: who does it again within five is left alone. */
	assert_string_equal(ask(due_ns), "GET " NODE);
	answer(ANSWER_OK, LABELED("7"), due_ns);
	assert_string_equal(ask(due_ns), APPLY);
	answer(ANSWER_OK, "", due_ns);
	assert_true(publish_due_ns(scene.publish) == due_ns + 60 * S);
	due_ns += 60 * S;
	assert_string_equal(ask(due_ns), "GET " NODE);
	answer(ANSWER_OK, LABELED("1"), due_ns);
	due_ns = publish_due_ns(scene.publish);
	assert_string_equal(ask(due_ns), "GET " NODE);
	answer(ANSWER_OK, LABELED("7"), due_ns);
	assert_non_null(strstr(scene.problem, "another label source"));
	assert_true(publish_due_ns(scene.publish) == NEVER);
	/* Until there is something else to say. */
	assert_int_equal(set(SLUICE__KUBE__V1__WAY__DIRECT, "2", 100 + due_ns / S), 0);
	assert_string_equal(scene.problem, "");
	due_ns += 100 * S;
	assert_string_equal(ask(due_ns), APPLY);
	answer(ANSWER_OK, "", due_ns);
	assert_true(scene.state.is_written);
}

/* Labels that are others while a look for the old ones is under way: nobody else is to blame. */
static void test_a_look_for_what_was(void **state)
{
	(void)state;
	(void)apply_and_settle();
	for (int i = 0; i < 4; i++) {
		uint64_t due_ns = publish_due_ns(scene.publish);
		assert_string_equal(ask(due_ns), "GET " NODE);
		assert_int_equal(set(SLUICE__KUBE__V1__WAY__DIRECT, i % 2 ? "1" : "2", due_ns / S),
				 0);
		answer(ANSWER_OK, i % 2 ? LABELED("2") : LABELED("1"), due_ns);
		due_ns = publish_due_ns(scene.publish);
		assert_string_equal(ask(due_ns), APPLY);
		answer(ANSWER_OK, "", due_ns);
		assert_string_equal(scene.problem, "");
		assert_in_range(publish_due_ns(scene.publish) - due_ns, 480 * S, 720 * S);
	}
}

/* Something takes the labels off as they are applied, in the middle of a change of ways. */
static void test_no_hot_loop(void **state)
{
	(void)state;
	Sluice__Kube__V1__Publish wish = SLUICE__KUBE__V1__PUBLISH__INIT;
	Sluice__Kube__V1__Pair pair = SLUICE__KUBE__V1__PAIR__INIT, *pairs[] = {&pair};
	pair.key = (char *)"nvidia.com/gpu.count";
	pair.value = (char *)"1";
	wish.way = SLUICE__KUBE__V1__WAY__DIRECT;
	wish.previous = SLUICE__KUBE__V1__WAY__NODE_FEATURE;
	wish.n_labels = 1;
	wish.labels = pairs;
	assert_int_equal(publish_set(scene.publish, &wish, 100 * S, NULL), 0);
	unsigned writes = 0;
	for (uint64_t now_ns = 100 * S; now_ns <= 160 * S; now_ns += S / 10) {
		const char *what = ask(now_ns);
		if (*what == '\0')
			continue;
		writes += strcmp(what, APPLY) == 0;
		answer(ANSWER_OK, strcmp(what, APPLY) == 0 ? "" : LABELED("7"), now_ns);
	}
	assert_in_range(writes, 2, 7);
}

static void test_waiting_longer(void **state)
{
	(void)state;
	uint64_t now_ns = 100 * S;
	assert_int_equal(set(SLUICE__KUBE__V1__WAY__DIRECT, "1", 100), 0);
	for (unsigned i = 0; i < 12; i++) {
		assert_string_equal(ask(now_ns), APPLY);
		answer(ANSWER_UNAVAILABLE, "", now_ns);
		uint64_t due_ns = publish_due_ns(scene.publish);
		uint64_t step_s = i < 6 ? UINT64_C(1) << i : 60;
		assert_in_range(due_ns - now_ns, step_s * S / 2, step_s * S);
		now_ns = due_ns;
	}
	assert_non_null(strstr(scene.problem, "503"));
	assert_string_equal(ask(now_ns), APPLY);
	answer(ANSWER_OK, "", now_ns);
	assert_string_equal(scene.problem, "");
}

static void test_auto_waits_two_minutes(void **state)
{
	(void)state;
	uint64_t now_ns = 100 * S;
	unsigned looks = 0;
	assert_int_equal(set(SLUICE__KUBE__V1__WAY__AUTO, "1", 100), 0);
	assert_string_equal(ask(now_ns), "GET /apis/nfd.k8s-sigs.io/v1alpha1");
	answer(ANSWER_OK, "{}", now_ns);
	assert_string_equal(ask(now_ns), "GET " OBJECT "/nvidia-features-for-node-1");
	answer(ANSWER_NOT_FOUND, "", now_ns);
	assert_string_equal(ask(now_ns), "POST " OBJECT);
	answer(ANSWER_CREATED, "", now_ns);
	assert_int_equal(scene.state.way, SLUICE__KUBE__V1__WAY__NODE_FEATURE);
	while (scene.state.way != SLUICE__KUBE__V1__WAY__DIRECT) {
		now_ns = publish_due_ns(scene.publish);
		assert_string_equal(ask(now_ns), "GET " NODE);
		answer(ANSWER_OK, LABELED("0"), now_ns);
		assert_true(++looks < 12);
	}
	assert_true(now_ns == 220 * S);
	assert_false(scene.state.previous_ends);
	assert_string_equal(ask(now_ns), APPLY);
	answer(ANSWER_OK, "", now_ns);
	assert_string_equal(ask(now_ns), "GET " NODE);
	answer(ANSWER_OK, LABELED("1"), now_ns);
	assert_string_equal(ask(now_ns), "PATCH " NODE); /* nfd-master forgets */
	answer(ANSWER_OK, "", now_ns);
	assert_string_equal(ask(now_ns), "DELETE " OBJECT "/nvidia-features-for-node-1");
	answer(ANSWER_NOT_FOUND, "", now_ns);
	assert_true(scene.state.previous_ends);
	assert_false(publish_finish(scene.publish, now_ns)); /* nobody has asked for that */
}

static void test_what_is_refused(void **state)
{
	(void)state;
	Sluice__Kube__V1__Publish wish = SLUICE__KUBE__V1__PUBLISH__INIT;
	struct err err = {0};
	wish.namespace_ = (char *)"a/b";
	assert_int_equal(publish_set(scene.publish, &wish, S, &err), -EINVAL);
	assert_non_null(strstr(err.text, "a/b"));
	wish.namespace_ = (char *)"";
	wish.n_labels = PUBLISH_PAIRS_MAX + 1;
	assert_int_equal(publish_set(scene.publish, &wish, S, &err), -EINVAL);
	assert_true(publish_due_ns(scene.publish) == NEVER);
	assert_true(publish_is_finished(scene.publish));
}

static int scenario(void *context)
{
	(void)context;
	if (setup(NULL) < 0)
		return -ENOMEM;
	int rc = set(SLUICE__KUBE__V1__WAY__DIRECT, "1", 100);
	const char *asked = rc == 0 ? ask(100 * S) : "";
	if (rc == 0 && !*asked) /* no memory for the body: it is tried again later */
		rc = publish_due_ns(scene.publish) > 100 * S ? -ENOMEM : -EIO;
	(void)teardown(NULL);
	return rc;
}

static void test_no_memory(void **state)
{
	(void)state;
	assert_int_not_equal(failmalloc_each(scenario, NULL), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(test_the_pace_of_writes),
	    CASE(test_drift),
	    CASE(test_who_takes_labels_away_early),
	    CASE(test_a_look_for_what_was),
	    CASE(test_no_hot_loop),
	    CASE(test_waiting_longer),
	    CASE(test_auto_waits_two_minutes),
	    CASE(test_what_is_refused),
	    cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
