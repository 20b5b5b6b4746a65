/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/kube/link.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "kube.pb-c.h"
#include "tests/unit/unit.h"

struct rig {
	int fds[2]; /* ours is the first */
	struct link link;
	char event[2048];
};

static void rig_on_event(bool warning, const char *reason, const char *message, void *context)
{
	struct rig *rig = context;
	(void)snprintf(rig->event, sizeof(rig->event), "%d %s %s", warning, reason, message);
}

static int rig_set_up(void **state)
{
	static struct rig rig;
	rig = (struct rig){.event = ""};
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, rig.fds), 0);
	link_init(&rig.link, rig.fds[0], rig_on_event, &rig);
	*state = &rig;
	return 0;
}

static int rig_tear_down(void **state)
{
	struct rig *rig = *state;
	for (size_t i = 0; i < 2; i++)
		if (rig->fds[i] >= 0)
			assert_int_equal(close(rig->fds[i]), 0);
	return 0;
}

/* What the agent hears next: "label", "no label", "problem" and its text. */
static const char *rig_hear(struct rig *rig)
{
	static char text[LINK_TEXT_MAX + 16];
	uint8_t data[4096];
	ssize_t length = recv(rig->fds[1], data, sizeof(data), MSG_DONTWAIT);
	if (length < 0)
		return "nothing";
	Sluice__Kube__V1__FromKube *packet =
	    sluice__kube__v1__from_kube__unpack(NULL, (size_t)length, data);
	assert_non_null(packet);
	if (packet->label)
		(void)snprintf(text, sizeof(text), "%s %s",
			       packet->label->is_set ? "label" : "no label", packet->label->value);
	else if (packet->labels && packet->labels->n_labels == 1)
		(void)snprintf(text, sizeof(text), "labels %s=%s", packet->labels->labels[0]->name,
			       packet->labels->labels[0]->value);
	else if (packet->labels)
		(void)snprintf(text, sizeof(text), "%zu labels", packet->labels->n_labels);
	else
		(void)snprintf(text, sizeof(text), "problem %s", packet->problem->text);
	sluice__kube__v1__from_kube__free_unpacked(packet, NULL);
	return text;
}

static void test_what_is_said(void **state)
{
	struct rig *rig = *state;
	link_label(&rig->link, true, "a100");
	assert_string_equal(rig_hear(rig), "label a100");
	link_label(&rig->link, false, "ignored");
	assert_string_equal(rig_hear(rig), "no label ");
	link_problem(&rig->link, "gr\xc3\xbcn \xff end");
	assert_string_equal(rig_hear(rig), "problem gr\xc3\xbcn \xef\xbf\xbd end");
	char text[3000];
	for (size_t i = 0; i + 2 < sizeof(text); i += 3)
		memcpy(text + i, "\xe4\xb8\xad", 3);
	text[sizeof(text) - 1] = '\0';
	link_problem(&rig->link, text); /* cut between two characters */
	const char *heard = rig_hear(rig);
	assert_int_equal((strlen(heard) - strlen("problem ")) % 3, 0);
	assert_true(strlen(heard) > LINK_TEXT_MAX);
	assert_int_equal(link_wants(&rig->link), POLLIN);
}

static void test_labels_of_others(void **state)
{
	struct rig *rig = *state;
	const char *values[OBJECT_FOLLOWED] = {"", "", "false", "", ""};
	link_labels(&rig->link, values);
	assert_string_equal(rig_hear(rig), "labels nvidia.com/gpu.deploy.device-plugin=false");
	values[2] = "\xff"; /* no value that Kubernetes would have */
	link_labels(&rig->link, values);
	assert_string_equal(rig_hear(rig), "0 labels");
	values[0] = values[4] = "x";
	link_labels(&rig->link, values);
	assert_string_equal(rig_hear(rig), "2 labels");
}

/* The last word counts, however long nobody listens. */
static void test_an_agent_that_does_not_listen(void **state)
{
	struct rig *rig = *state;
	struct err err = {0};
	size_t said = 0;
	char text[32];
	while (link_wants(&rig->link) == POLLIN) {
		(void)snprintf(text, sizeof(text), "problem %zu", said++);
		link_problem(&rig->link, text);
		assert_true(said < 1000000);
	}
	link_label(&rig->link, true, "old");
	link_label(&rig->link, true, "new");
	const char *const values[OBJECT_FOLLOWED] = {"vm-vgpu", "", "", "", ""};
	link_labels(&rig->link, values);
	link_problem(&rig->link, "last");
	for (size_t i = 0; i + 1 < said; i++)
		assert_non_null(strstr(rig_hear(rig), "problem problem"));
	assert_string_equal(rig_hear(rig), "nothing");
	assert_int_equal(link_run(&rig->link, POLLOUT, &err), 1);
	assert_string_equal(rig_hear(rig), "label new");
	assert_string_equal(rig_hear(rig), "labels nvidia.com/gpu.workload.config=vm-vgpu");
	assert_string_equal(rig_hear(rig), "problem last");
	assert_int_equal(link_wants(&rig->link), POLLIN);
}

static void rig_say(struct rig *rig, char *reason, char *message)
{
	Sluice__Kube__V1__ToKube packet = SLUICE__KUBE__V1__TO_KUBE__INIT;
	Sluice__Kube__V1__Event event = SLUICE__KUBE__V1__EVENT__INIT;
	uint8_t data[4096];
	event.warning = true;
	event.reason = reason;
	event.message = message;
	packet.event = &event;
	size_t length = sluice__kube__v1__to_kube__pack(&packet, data);
	assert_int_equal(send(rig->fds[1], data, length, 0), length);
}

static void test_what_is_heard(void **state)
{
	struct rig *rig = *state;
	struct err err = {0};
	assert_int_equal(link_run(&rig->link, 0, &err), 1);
	assert_int_equal(link_run(&rig->link, POLLIN, &err), 1); /* there was nothing after all */
	rig_say(rig, (char[]){"Reason"}, (char[]){"why"});
	assert_int_equal(link_run(&rig->link, POLLIN, &err), 1);
	assert_string_equal(rig->event, "1 Reason why");
	assert_int_equal(send(rig->fds[1], "\xff\xff", 2, 0), 2);
	assert_true(link_run(&rig->link, POLLIN, &err) < 0);
	rig_say(rig, (char[]){"Reason"}, (char[]){"\xff"});
	assert_true(link_run(&rig->link, POLLIN, &err) < 0);
	char *large = calloc(1, LINK_PACKET_MAX + 1);
	assert_non_null(large);
	assert_int_equal(send(rig->fds[1], large, LINK_PACKET_MAX + 1, 0), LINK_PACKET_MAX + 1);
	assert_int_equal(link_run(&rig->link, POLLIN, &err), -EMSGSIZE);
	free(large);
	assert_int_equal(close(rig->fds[1]), 0);
	rig->fds[1] = -1;
	assert_int_equal(link_run(&rig->link, POLLIN | POLLHUP, &err), 0);
	link_problem(&rig->link, "to nobody"); /* no signal */
}

#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    RIG_TEST(test_what_is_said),
	    RIG_TEST(test_labels_of_others),
	    RIG_TEST(test_an_agent_that_does_not_listen),
	    RIG_TEST(test_what_is_heard),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
