/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/users.h"

#include "agent/askname.h"
#include "base/child.h"
#include "base/err.h"
#include "base/loop.h"
#include "tests/unit/agent/getent.h"
#include "unit/unit.h"

static int setup(void **state)
{
	return getent_setup(state, "alice:x:1000:1000::/home/alice:/bin/sh\n"
				   "odd name:x:1001:1001::/:/bin/sh\n");
}

static int teardown(void **state)
{
	struct getent *scene = *state;
	scene->users = users_free(scene->users);
	return getent_teardown(state);
}

static void start(struct getent *scene, const char *script)
{
	getent_answer(scene, script);
	const struct users_options options = {.loop = scene->loop,
					      .children = scene->children,
					      .passwd = scene->file,
					      .getent = scene->program,
					      .named = getent_changed,
					      .context = scene};
	scene->users = users_new(&options, NULL);
	assert_non_null(scene->users);
}

static void test_the_local_file_answers_at_once(void **state)
{
	struct getent *scene = *state;
	start(scene, "#!/bin/sh\nexit 2\n");
	assert_string_equal(users_name(scene->users, 1000), "alice");
	assert_int_equal(child_set_count(scene->children), 0);
}

static void test_others_are_asked_for_elsewhere(void **state)
{
	struct getent *scene = *state;
	start(scene, "#!/bin/sh\necho \"user-$2:x:$2:$2::/:/bin/sh\"\n");
	assert_string_equal(users_name(scene->users, 2000), "2000"); /* meanwhile */
	assert_string_equal(users_name(scene->users, 2000), "2000");
	assert_int_equal(child_set_count(scene->children), 1); /* asked once */
	getent_pass_until_no_child(scene);
	assert_int_equal(scene->changes, 1); /* whoever has shown the number shows the name now */
	assert_string_equal(users_name(scene->users, 2000), "user-2000");
}

static void test_answers_that_are_none(void **state)
{
	struct getent *scene = *state;
	static const char *const scripts[] = {
	    "#!/bin/sh\nexit 2\n",
	    "#!/bin/sh\necho nonsense\n",
	    "#!/bin/sh\nprintf '\\033[31mred:x:1\\n'\n",
	    "#!/bin/sh\nprintf '\\377:x:1\\n'\n",
	    "#!/bin/sh\necho name:x:1; exit 1\n",
	};
	for (size_t i = 0; i < sizeof(scripts) / sizeof(*scripts); i++) {
		start(scene, scripts[i]);
		(void)users_name(scene->users, 3000);
		getent_pass_until_no_child(scene);
		assert_string_equal(users_name(scene->users, 3000), "3000");
		assert_int_equal(scene->changes, 0);
		scene->users = users_free(scene->users);
	}
}

static void test_a_directory_that_does_not_answer(void **state)
{
	struct getent *scene = *state;
	start(scene, "#!/bin/sh\nexec sleep 1000\n");
	assert_string_equal(users_name(scene->users, 4000), "4000");
	assert_int_equal(loop_advance(scene->loop, ASKNAME_NS, NULL), 0);
	getent_pass_until_no_child(scene);
	assert_string_equal(users_name(scene->users, 4000), "4000");
}

static void test_not_too_many_are_asked_at_a_time(void **state)
{
	struct getent *scene = *state;
	start(scene, "#!/bin/sh\nexec sleep 1000\n");
	for (uid_t uid = 5000; uid < 5100; uid++)
		(void)users_name(scene->users, uid);
	assert_int_equal(child_set_count(scene->children), USERS_ASKING_MAX);
}

static void test_a_name_is_looked_up_again(void **state)
{
	struct getent *scene = *state;
	start(scene, "#!/bin/sh\nexit 2\n");
	assert_string_equal(users_name(scene->users, 1000), "alice");
	unit_write(scene->file, "alicia:x:1000:1000::/:/bin/sh\n");
	assert_string_equal(users_name(scene->users, 1000), "alice");
	assert_int_equal(loop_advance(scene->loop, USERS_FRESH_NS, NULL), 0);
	assert_string_equal(users_name(scene->users, 1000), "alicia");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_the_local_file_answers_at_once, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_others_are_asked_for_elsewhere, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_answers_that_are_none, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_a_directory_that_does_not_answer, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_not_too_many_are_asked_at_a_time, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_a_name_is_looked_up_again, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
