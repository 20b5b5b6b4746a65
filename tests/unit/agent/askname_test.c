/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/askname.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/child.h"
#include "base/loop.h"
#include "tests/unit/agent/getent.h"
#include "tests/unit/failmalloc.h"
#include "unit/unit.h"

static struct {
	struct askname ask;
	char text[ASKNAME_ANSWER_MAX];
	unsigned answers;
} scene;

static void on_answer(char *text, void *context)
{
	scene.answers++;
	(void)snprintf(scene.text, sizeof(scene.text), "%s", text);
	assert_null(scene.ask.child); /* the next may be asked here */
}

static int setup(void **state)
{
	int rc = getent_setup(state, "");
	const struct getent *getent = *state;
	memset(&scene, 0, sizeof(scene));
	return rc == 0
		   ? askname_init(&scene.ask, getent->loop, getent->children, on_answer, NULL, NULL)
		   : rc;
}

static int teardown(void **state)
{
	askname_done(&scene.ask);
	askname_done(&scene.ask);
	return getent_teardown(state);
}

static void ask(const struct getent *getent, const char *script)
{
	char program[] = "program", word[] = "alice";
	char *argv[] = {program, word, NULL};
	getent_answer(getent, script);
	(void)snprintf(scene.text, sizeof(scene.text), "none");
	assert_int_equal(askname_start(&scene.ask, getent->program, argv), 0);
}

static void what_it_says_is_the_answer(void **state)
{
	ask(*state, "#!/bin/sh\necho \"$1:x\"\n");
	getent_pass_until_no_child(*state);
	assert_string_equal(scene.text, "alice:x\n");
	ask(*state, "#!/bin/sh\necho again\n");
	getent_pass_until_no_child(*state);
	assert_string_equal(scene.text, "again\n");
	assert_int_equal(scene.answers, 2);
}

static void what_fails_has_said_nothing(void **state)
{
	static const char *const scripts[] = {"#!/bin/sh\necho text; exit 2\n",
					      "#!/bin/sh\necho text; kill -9 $$\n",
					      "#!/bin/sh\nexit 0\n"};
	for (size_t i = 0; i < sizeof(scripts) / sizeof(*scripts); i++) {
		ask(*state, scripts[i]);
		getent_pass_until_no_child(*state);
		assert_string_equal(scene.text, "");
	}
	assert_int_equal(scene.answers, 3);
}

static void more_than_the_room_is_cut(void **state)
{
	ask(*state, "#!/bin/sh\nhead -c 5000 /dev/zero | tr '\\0' m\n");
	getent_pass_until_no_child(*state);
	assert_int_equal(strlen(scene.text), ASKNAME_ANSWER_MAX - 1);
}

static void who_does_not_answer_is_killed(void **state)
{
	const struct getent *getent = *state;
	ask(getent, "#!/bin/sh\necho text\nsleep 1000\n");
	assert_int_equal(loop_advance(getent->loop, ASKNAME_NS, NULL), 0);
	getent_pass_until_no_child(getent);
	assert_string_equal(scene.text, "");
}

static void a_program_that_is_not_there_leaves_the_place_free(void **state)
{
	char program[] = "program", *argv[] = {program, NULL};
	assert_int_equal(askname_start(&scene.ask, "/nonexistent/program", argv), -ECHILD);
	ask(*state, "#!/bin/sh\necho text\n");
	getent_pass_until_no_child(*state);
	assert_int_equal(scene.answers, 1);
}

static void an_end_meanwhile_is_no_answer(void **state)
{
	ask(*state, "#!/bin/sh\nexec sleep 1000\n");
	askname_done(&scene.ask);
	assert_int_equal(scene.answers, 0);
}

static int begin(void *context)
{
	struct askname one;
	struct loop *loop = loop_new(LOOP_FAKE, NULL);
	if (!loop)
		return -ENOMEM;
	int rc = askname_init(&one, loop, NULL, on_answer, NULL, NULL);
	askname_done(&one);
	(void)loop_free(loop);
	return rc;
}

static void without_memory_it_says_so(void **state)
{
	assert_true(failmalloc_each(begin, NULL) > 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(what_it_says_is_the_answer),
	    TEST(what_fails_has_said_nothing),
	    TEST(more_than_the_room_is_cut),
	    TEST(who_does_not_answer_is_killed),
	    TEST(a_program_that_is_not_there_leaves_the_place_free),
	    TEST(an_end_meanwhile_is_no_answer),
	    cmocka_unit_test(without_memory_it_says_so),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
