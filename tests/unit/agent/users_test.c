/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/users.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/child.h"
#include "base/err.h"
#include "base/loop.h"
#include "unit/unit.h"

struct scene {
	char *directory;
	struct loop *loop;
	struct child_set *children;
	struct users *users;
	char getent[4096], passwd[4096];
	unsigned named;
};

static void on_named(void *context)
{
	struct scene *scene = context;
	scene->named++;
}

static int setup(void **state)
{
	static struct scene scene;
	memset(&scene, 0, sizeof(scene));
	scene.directory = unit_tmp_new();
	scene.loop = loop_new(LOOP_FAKE, NULL);
	scene.children = scene.loop ? child_set_new(scene.loop, CHILD_WATCH_AUTO, NULL) : NULL;
	(void)snprintf(scene.getent, sizeof(scene.getent), "%s/getent", scene.directory);
	(void)snprintf(scene.passwd, sizeof(scene.passwd), "%s/passwd", scene.directory);
	unit_write(scene.passwd, "alice:x:1000:1000::/home/alice:/bin/sh\n"
				 "odd name:x:1001:1001::/:/bin/sh\n");
	*state = &scene;
	return scene.children ? 0 : -1;
}

static int teardown(void **state)
{
	struct scene *scene = *state;
	scene->users = users_free(scene->users);
	scene->children = child_set_free(scene->children);
	scene->loop = loop_free(scene->loop);
	scene->directory = unit_tmp_free(scene->directory);
	return 0;
}

/* `script` takes getent's place. */
static void start(struct scene *scene, const char *script)
{
	unit_write(scene->getent, script);
	assert_int_equal(chmod(scene->getent, 0755), 0);
	const struct users_options options = {.loop = scene->loop,
					      .children = scene->children,
					      .passwd = scene->passwd,
					      .getent = scene->getent,
					      .named = on_named,
					      .context = scene};
	scene->users = users_new(&options, NULL);
	assert_non_null(scene->users);
}

static void pass_until_no_child(struct scene *scene)
{
	uint64_t end_ns = unit_now_ns() + UINT64_C(20000000000);
	while (child_set_count(scene->children) > 0 && unit_now_ns() < end_ns)
		assert_int_equal(loop_pass(scene->loop, 50000000, NULL), 0);
	assert_int_equal(child_set_count(scene->children), 0);
}

static void test_the_local_file_answers_at_once(void **state)
{
	struct scene *scene = *state;
	start(scene, "#!/bin/sh\nexit 2\n");
	assert_string_equal(users_name(scene->users, 1000), "alice");
	assert_int_equal(child_set_count(scene->children), 0);
}

static void test_others_are_asked_for_elsewhere(void **state)
{
	struct scene *scene = *state;
	start(scene, "#!/bin/sh\necho \"user-$2:x:$2:$2::/:/bin/sh\"\n");
	assert_string_equal(users_name(scene->users, 2000), "2000"); /* meanwhile */
	assert_string_equal(users_name(scene->users, 2000), "2000");
	assert_int_equal(child_set_count(scene->children), 1); /* asked once */
	pass_until_no_child(scene);
	assert_int_equal(scene->named, 1); /* whoever has shown the number shows the name now */
	assert_string_equal(users_name(scene->users, 2000), "user-2000");
}

static void test_answers_that_are_none(void **state)
{
	struct scene *scene = *state;
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
		pass_until_no_child(scene);
		assert_string_equal(users_name(scene->users, 3000), "3000");
		assert_int_equal(scene->named, 0);
		scene->users = users_free(scene->users);
	}
}

static void test_a_directory_that_does_not_answer(void **state)
{
	struct scene *scene = *state;
	start(scene, "#!/bin/sh\nexec sleep 1000\n");
	assert_string_equal(users_name(scene->users, 4000), "4000");
	assert_int_equal(loop_advance(scene->loop, USERS_ANSWER_NS, NULL), 0);
	pass_until_no_child(scene);
	assert_string_equal(users_name(scene->users, 4000), "4000");
}

static void test_not_too_many_are_asked_at_a_time(void **state)
{
	struct scene *scene = *state;
	start(scene, "#!/bin/sh\nexec sleep 1000\n");
	for (uid_t uid = 5000; uid < 5100; uid++)
		(void)users_name(scene->users, uid);
	assert_int_equal(child_set_count(scene->children), USERS_ASKING_MAX);
}

static void test_a_name_is_looked_up_again(void **state)
{
	struct scene *scene = *state;
	start(scene, "#!/bin/sh\nexit 2\n");
	assert_string_equal(users_name(scene->users, 1000), "alice");
	unit_write(scene->passwd, "alicia:x:1000:1000::/:/bin/sh\n");
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
