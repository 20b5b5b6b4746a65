/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cluster/kube.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/loop.h"
#include "kube.pb-c.h"
#include "tests/unit/unit.h"

enum { DEADLINE_S = 20, FAKE_FD = 3 };

/* --- what the agent starts is this program -----------------------------------------------------
 */

static void fake_say(const Sluice__Kube__V1__FromKube *packet)
{
	uint8_t data[4096];
	size_t length = sluice__kube__v1__from_kube__pack(packet, data);
	if (send(FAKE_FD, data, length, 0) < 0)
		_exit(1);
}

static void fake_label(char *value)
{
	Sluice__Kube__V1__FromKube packet = SLUICE__KUBE__V1__FROM_KUBE__INIT;
	Sluice__Kube__V1__Label label = SLUICE__KUBE__V1__LABEL__INIT;
	label.is_set = *value != '\0';
	label.value = value;
	packet.label = &label;
	fake_say(&packet);
}

static void fake_labels(char *value)
{
	Sluice__Kube__V1__FromKube packet = SLUICE__KUBE__V1__FROM_KUBE__INIT;
	Sluice__Kube__V1__Labels labels = SLUICE__KUBE__V1__LABELS__INIT;
	Sluice__Kube__V1__NodeLabel one = SLUICE__KUBE__V1__NODE_LABEL__INIT,
				    *all[KUBE_LABELS_MAX + 1];
	char name[] = "example.com/a";
	one.name = name;
	one.value = value;
	for (size_t i = 0; i <= KUBE_LABELS_MAX; i++)
		all[i] = &one;
	labels.labels = all;
	labels.n_labels = *value ? KUBE_LABELS_MAX + 1 : 0;
	packet.labels = &labels;
	fake_say(&packet);
}

/* As many labels as were named, and what for, as the problem. */
static void fake_published(const Sluice__Kube__V1__Publish *wish)
{
	Sluice__Kube__V1__FromKube packet = SLUICE__KUBE__V1__FROM_KUBE__INIT;
	Sluice__Kube__V1__Published published = SLUICE__KUBE__V1__PUBLISHED__INIT;
	char text[256];
	(void)snprintf(text, sizeof(text), "%zu %s", wish->n_labels, wish->namespace_);
	published.way = wish->way;
	published.is_written = true;
	published.problem = text;
	packet.published = &published;
	fake_say(&packet);
}

/* Says its node and label first; then does what the Events say. */
static int fake_main(char **argv)
{
	char text[2048], data[4096];
	(void)snprintf(text, sizeof(text), "%s %s %s", argv[2], argv[4], argv[6]);
	fake_label(text);
	for (;;) {
		ssize_t length = recv(FAKE_FD, data, sizeof(data), 0);
		if (length <= 0)
			return 0;
		Sluice__Kube__V1__ToKube *packet =
		    sluice__kube__v1__to_kube__unpack(NULL, (size_t)length, (const uint8_t *)data);
		if (packet && packet->publish) {
			fake_published(packet->publish);
			sluice__kube__v1__to_kube__free_unpacked(packet, NULL);
			continue;
		}
		if (!packet || !packet->event)
			return 1;
		if (strcmp(packet->event->reason, "Die") == 0)
			_exit(3); /* as it is: nothing is given back */
		if (strcmp(packet->event->reason, "Garbage") == 0)
			(void)send(FAKE_FD, "\xff\xff\xff", 3, 0);
		if (strcmp(packet->event->reason, "Labels") == 0)
			fake_labels(packet->event->message);
		if (strcmp(packet->event->reason, "Problem") == 0) {
			Sluice__Kube__V1__FromKube answer = SLUICE__KUBE__V1__FROM_KUBE__INIT;
			Sluice__Kube__V1__Problem problem = SLUICE__KUBE__V1__PROBLEM__INIT;
			problem.text = packet->event->message;
			answer.problem = &problem;
			fake_say(&answer);
		}
		fake_label(packet->event->message);
		sluice__kube__v1__to_kube__free_unpacked(packet, NULL);
	}
}

/* --- the agent's side --------------------------------------------------------------------------
 */

struct rig {
	struct loop *loop;
	struct child_set *children;
	struct kube *kube;
	char label[2048];
	size_t labels;
	char published[256];
	size_t publications;
	char others[256];
	size_t other_count;
};

static void rig_on_label(const char *value, void *context)
{
	struct rig *rig = context;
	(void)snprintf(rig->label, sizeof(rig->label), "%s", value);
	rig->labels++;
}

static void rig_on_labels(const struct kube_label *labels, size_t count, void *context)
{
	struct rig *rig = context;
	(void)snprintf(rig->others, sizeof(rig->others), "%s=%s", count > 0 ? labels[0].name : "",
		       count > 0 ? labels[0].value : "");
	rig->other_count = count;
}

static void rig_run(struct rig *rig, size_t labels)
{
	uint64_t until_ns = unit_now_ns() + DEADLINE_S * CLOCK_NS_PER_S;
	while (rig->labels < labels) {
		assert_true(unit_now_ns() < until_ns);
		assert_int_equal(loop_pass(rig->loop, CLOCK_NS_PER_MS, NULL), 0);
	}
}

static void rig_run_until_gone(struct rig *rig)
{
	uint64_t until_ns = unit_now_ns() + DEADLINE_S * CLOCK_NS_PER_S;
	while (kube_pid(rig->kube) >= 0) {
		assert_true(unit_now_ns() < until_ns);
		assert_int_equal(loop_pass(rig->loop, CLOCK_NS_PER_MS, NULL), 0);
	}
}

static void rig_on_published(const Sluice__Kube__V1__Published *state, void *context)
{
	struct rig *rig = context;
	(void)snprintf(rig->published, sizeof(rig->published), "%d %s", (int)state->way,
		       state->problem);
	rig->publications++;
}

static int rig_set_up(void **state)
{
	static struct rig rig;
	rig = (struct rig){.loop = loop_new(LOOP_FAKE, NULL)};
	assert_non_null(rig.loop);
	rig.children = child_set_new(rig.loop, CHILD_WATCH_AUTO, NULL);
	assert_non_null(rig.children);
	const struct kube_options options = {
	    .loop = rig.loop,
	    .children = rig.children,
	    .program = "/proc/self/exe",
	    .node_name = "node-1",
	    .node_label = "example.com/config",
	    .kubeconfig = "/etc/kubeconfig",
	    .label = rig_on_label,
	    .labels = rig_on_labels,
	    .published = rig_on_published,
	    .context = &rig,
	};
	assert_int_equal(kube_open(&options, &rig.kube, NULL), 0);
	*state = &rig;
	return 0;
}

static int rig_tear_down(void **state)
{
	struct rig *rig = *state;
	rig->kube = kube_close(rig->kube);
	rig->children = child_set_free(rig->children);
	rig->loop = loop_free(rig->loop);
	return 0;
}

static void test_label_and_events(void **state)
{
	struct rig *rig = *state;
	rig_run(rig, 1);
	assert_string_equal(rig->label, "node-1 example.com/config /etc/kubeconfig");
	kube_event(rig->kube, KUBE_EVENT_WARNING, "GPUUnhealthy", "GPU 3: XID 79");
	rig_run(rig, 2);
	assert_string_equal(rig->label, "GPU 3: XID 79");
	kube_event(rig->kube, KUBE_EVENT_NORMAL, "None", "");
	rig_run(rig, 3);
	assert_string_equal(rig->label, "");
	kube_event(rig->kube, KUBE_EVENT_NORMAL, "Problem", "no route");
	rig_run(rig, 4);
	assert_string_equal(kube_problem(rig->kube), "no route");
	kube_event(rig->kube, KUBE_EVENT_NORMAL, "Problem", "");
	rig_run(rig, 5);
	assert_string_equal(kube_problem(rig->kube), "");
	/* A number of them that nobody would send is cut. */
	kube_event(rig->kube, KUBE_EVENT_NORMAL, "Labels", "yes");
	rig_run(rig, 6);
	assert_string_equal(rig->others, "example.com/a=yes");
	assert_int_equal(rig->other_count, KUBE_LABELS_MAX);
	kube_event(rig->kube, KUBE_EVENT_NORMAL, "Labels", "");
	rig_run(rig, 7);
	assert_int_equal(rig->other_count, 0);
	/* Bytes that are no message change nothing. */
	kube_event(rig->kube, KUBE_EVENT_NORMAL, "Garbage", "still here");
	rig_run(rig, 8);
	assert_string_equal(rig->label, "still here");
}

static void rig_run_published(struct rig *rig, size_t publications)
{
	uint64_t until_ns = unit_now_ns() + 20 * CLOCK_NS_PER_S;
	while (rig->publications < publications) {
		assert_true(unit_now_ns() < until_ns);
		assert_int_equal(loop_pass(rig->loop, CLOCK_NS_PER_MS, NULL), 0);
	}
}

static void test_labels_are_published(void **state)
{
	enum { MANY = 1024 };
	struct rig *rig = *state;
	struct err err = {0};
	Sluice__Kube__V1__Publish wish = SLUICE__KUBE__V1__PUBLISH__INIT;
	Sluice__Kube__V1__Pair pair = SLUICE__KUBE__V1__PAIR__INIT, *pairs[MANY];
	char name[] = "sluice", key[] = "nvidia.com/gpu.count", value[] = "8";
	char long_key[96];
	pair.key = key;
	pair.value = value;
	for (size_t i = 0; i < MANY; i++)
		pairs[i] = &pair;
	wish.way = SLUICE__KUBE__V1__WAY__DIRECT;
	wish.namespace_ = name;
	wish.labels = pairs;
	wish.n_labels = 2;
	assert_int_equal(kube_publish(rig->kube, &wish, &err), 0);
	rig_run_published(rig, 1);
	assert_string_equal(rig->published, "3 2 sluice");
	/* The same again is not said again, but to the next process. */
	assert_int_equal(kube_publish(rig->kube, &wish, &err), 0);
	kube_event(rig->kube, KUBE_EVENT_NORMAL, "Die", "");
	rig_run_until_gone(rig);
	assert_int_equal(rig->publications, 1);
	assert_int_equal(loop_advance(rig->loop, CLOCK_NS_PER_S, NULL), 0);
	rig_run_published(rig, 2);
	wish.n_labels = 3;
	assert_int_equal(kube_publish(rig->kube, &wish, &err), 0);
	rig_run_published(rig, 3);
	assert_string_equal(rig->published, "3 3 sluice");
	memset(long_key, 'k', sizeof(long_key) - 1);
	long_key[sizeof(long_key) - 1] = '\0';
	pair.key = long_key;
	wish.n_labels = MANY;
	assert_int_equal(kube_publish(rig->kube, &wish, &err), -E2BIG);
}

static void test_one_that_dies(void **state)
{
	struct rig *rig = *state;
	rig_run(rig, 1);
	kube_event(rig->kube, KUBE_EVENT_NORMAL, "Die", "");
	rig_run_until_gone(rig);
	assert_string_equal(kube_problem(rig->kube), "sluice-kube ended: exit code 3");
	/* What is to be said meanwhile waits; the oldest gives way. */
	for (int i = 0; i < KUBE_QUEUE_MAX + 5; i++) {
		char text[32];
		(void)snprintf(text, sizeof(text), "event %d", i);
		kube_event(rig->kube, KUBE_EVENT_NORMAL, "Told", text);
	}
	assert_int_equal(loop_advance(rig->loop, CLOCK_NS_PER_S, NULL), 0);
	assert_true(kube_pid(rig->kube) > 0);
	rig_run(rig, 3);
	rig_run(rig, 2 + KUBE_QUEUE_MAX);
	assert_string_equal(rig->label, "event 68");
	/* A second end within a minute costs twice the time. */
	kube_event(rig->kube, KUBE_EVENT_NORMAL, "Die", "");
	rig_run_until_gone(rig);
	assert_int_equal(loop_advance(rig->loop, CLOCK_NS_PER_S, NULL), 0);
	assert_int_equal(kube_pid(rig->kube), -1);
	assert_int_equal(loop_advance(rig->loop, CLOCK_NS_PER_S, NULL), 0);
	assert_true(kube_pid(rig->kube) > 0);
}

static void test_a_kubeconfig(void **state)
{
	struct rig *rig = *state;
	struct kube *kube = NULL;
	const struct kube_options options = {.loop = rig->loop,
					     .children = rig->children,
					     .program = "/proc/self/exe",
					     .node_name = "n",
					     .node_label = "l",
					     .kubeconfig = "/a/config",
					     .delay_ns = CLOCK_NS_PER_S,
					     .label = rig_on_label,
					     .context = rig};
	rig_run(rig, 1);
	assert_int_equal(kube_open(&options, &kube, NULL), 0);
	assert_int_equal(kube_pid(kube), -1); /* not yet: what is told waits */
	char text[2000];
	for (size_t i = 0; i + 1 < sizeof(text); i += 2)
		memcpy(text + i, "\xc3\xbc", 2);
	text[sizeof(text) - 2] = '\0';
	kube_event(kube, KUBE_EVENT_NORMAL, "Told", text);
	assert_int_equal(loop_advance(rig->loop, CLOCK_NS_PER_S, NULL), 0);
	assert_true(kube_pid(kube) > 0);
	rig_run(rig, 2);
	assert_string_equal(rig->label, "n l /a/config");
	rig_run(rig, 3); /* cut between two characters, or it would not be heard */
	assert_int_equal(strlen(rig->label), 1022);
	assert_null(kube_close(kube));
}

static void test_no_program(void **state)
{
	struct rig *rig = *state;
	struct kube *kube = NULL;
	struct err err = {0};
	const struct kube_options options = {
	    .loop = rig->loop,
	    .children = rig->children,
	    .program = "/nowhere/sluice-kube",
	    .node_name = "n",
	    .node_label = "l",
	};
	assert_int_equal(kube_open(&options, &kube, &err), 0);
	assert_non_null(strstr(kube_problem(kube), "/nowhere/sluice-kube"));
	assert_int_equal(kube_pid(kube), -1);
	assert_null(kube_close(kube));
}

int main(int argc, char **argv)
{
	if (argc == 7 && strcmp(argv[1], "--node") == 0 && strcmp(argv[5], "--kubeconfig") == 0)
		return fake_main(argv);
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_label_and_events, rig_set_up, rig_tear_down),
	    cmocka_unit_test_setup_teardown(test_labels_are_published, rig_set_up, rig_tear_down),
	    cmocka_unit_test_setup_teardown(test_one_that_dies, rig_set_up, rig_tear_down),
	    cmocka_unit_test_setup_teardown(test_a_kubeconfig, rig_set_up, rig_tear_down),
	    cmocka_unit_test_setup_teardown(test_no_program, rig_set_up, rig_tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
