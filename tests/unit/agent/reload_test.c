/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/reload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/filewatch.h"
#include "base/check.h"
#include "base/err.h"
#include "base/loop.h"
#include "base/storage.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"

enum { DEADLINE_S = 20, NOTES_MAX = 64 };

#define SINGLE "flags: {migStrategy: single}\n"
#define MIXED  "flags: {migStrategy: mixed}\n"
#define WRONG  "flags: {migStrategy: many}\n"

/* The clock is the test's; files, inotify and the storage thread are real. */
static struct {
	char *directory;
	struct loop *loop;
	struct storage *storage;
	struct reload *reload;
	struct config_overrides overrides;
	struct choice_rules rules;
	char all[FILE_PATH_MAX], state_dir[FILE_PATH_MAX];
	unsigned applied;
	int refuse;
	uint32_t mig; /* of the last that was applied */
	unsigned notes;
	enum reload_note note[NOTES_MAX];
	char text[NOTES_MAX][ERR_TEXT_MAX];
} scene;

static const char *path(const char *name)
{
	return unit_path(scene.directory, name);
}

static int apply(const struct config *config, uint32_t *out_changed, void *context, struct err *err)
{
	assert_ptr_equal(context, &scene);
	if (scene.refuse < 0)
		return err_set(err, scene.refuse, "does not fit");
	scene.applied++;
	scene.mig = config->mig_strategy;
	*out_changed = 7;
	return 0;
}

static void noted(enum reload_note note, const char *text, void *context)
{
	assert_ptr_equal(context, &scene);
	assert_true(scene.notes < NOTES_MAX);
	scene.note[scene.notes] = note;
	(void)snprintf(scene.text[scene.notes++], ERR_TEXT_MAX, "%s", text);
}

static int setup(void **state)
{
	(void)state;
	static const char *const variables[] = {"SLUICE_CONFIG", "CONFIG_FILE", "MIG_STRATEGY",
						"GDS_ENABLED"};
	memset(&scene, 0, sizeof(scene));
	for (size_t i = 0; i < array_length(variables); i++)
		(void)unsetenv(variables[i]);
	scene.directory = unit_tmp_new();
	assert_int_equal(mkdir(path("all"), 0755), 0);
	assert_int_equal(mkdir(path("state"), 0755), 0);
	(void)setenv("SLUICE_ROOT", scene.directory, 1);
	return 0;
}

static void end(void)
{
	scene.storage = storage_close(scene.storage);
	scene.reload = reload_free(scene.reload);
	scene.loop = loop_free(scene.loop);
}

static int teardown(void **state)
{
	(void)state;
	end();
	scene.directory = unit_tmp_free(scene.directory);
	return 0;
}

/* `several`: the directory `all` has the configurations. */
static int begin(const char *given, bool several, struct err *err)
{
	scene.loop = loop_new(LOOP_FAKE, err);
	scene.storage = scene.loop ? storage_new(scene.loop, 16, err) : NULL;
	if (!scene.storage)
		return -ENOMEM;
	(void)snprintf(scene.all, sizeof(scene.all), "%s", path("all"));
	(void)snprintf(scene.state_dir, sizeof(scene.state_dir), "%s", path("state"));
	scene.rules.directory = several ? scene.all : NULL;
	const struct reload_options options = {
	    .loop = scene.loop,
	    .storage = scene.storage,
	    .given = given,
	    .rules = scene.rules,
	    .awaits_label = true,
	    .state_dir = scene.state_dir,
	    .overrides = &scene.overrides,
	    .apply = apply,
	    .noted = noted,
	    .context = &scene,
	};
	return reload_new(&options, &scene.reload, err);
}

/* Until everything that was handed in is done. */
static void settle(void)
{
	uint64_t end_ns = unit_now_ns() + DEADLINE_S * UINT64_C(1000000000);
	do {
		assert_int_equal(loop_pass(scene.loop, 1000000, NULL), 0);
		assert_true(unit_now_ns() < end_ns);
	} while (storage_pending(scene.storage) > 0);
}

/* What inotify tells, the quiet after it, and what follows. */
static void hear(void)
{
	assert_int_equal(loop_pass(scene.loop, 0, NULL), 0);
	assert_int_equal(loop_advance(scene.loop, FILEWATCH_LATEST_NS, NULL), 0);
	settle();
}

/* --- one file -------------------------------------------------------------------------------- */

static void test_content_counts(void **state)
{
	struct err err = {0};
	(void)state;
	unit_write(path("a"), SINGLE);
	assert_int_equal(begin(path("a"), false, &err), 0);
	const struct reload_state *now = reload_state(scene.reload);
	assert_int_equal(now->config->mig_strategy, CONFIG_MIG_SINGLE);
	assert_string_equal(now->path, path("a"));
	assert_string_equal(now->name, "");
	hear();
	assert_int_equal(scene.applied, 0);
	unit_write(path("a"), SINGLE); /* the same again */
	hear();
	assert_int_equal(scene.applied, 0);
	unit_write(path("a"), MIXED);
	hear();
	assert_int_equal(scene.applied, 1);
	assert_int_equal(now->config->mig_strategy, CONFIG_MIG_MIXED);
	assert_int_equal(scene.notes, 1);
	assert_int_equal(scene.note[0], RELOAD_APPLIED);
	assert_string_equal(scene.text[0], path("a"));
}

static void test_an_invalid_content_keeps_the_old(void **state)
{
	struct err err = {0};
	(void)state;
	unit_write(path("a"), SINGLE);
	assert_int_equal(begin(path("a"), false, &err), 0);
	const struct reload_state *now = reload_state(scene.reload);
	unit_write(path("a"), WRONG);
	hear();
	assert_int_equal(scene.applied, 0);
	assert_int_equal(now->config->mig_strategy, CONFIG_MIG_SINGLE);
	assert_non_null(
	    strstr(now->error, "a:1:22: flags.migStrategy: unknown MIG strategy: many"));
	assert_int_equal(scene.notes, 1);
	assert_int_equal(scene.note[0], RELOAD_REFUSED);
	assert_string_equal(scene.text[0], now->error);
	/* Said once, however often it is looked at. */
	assert_int_equal(loop_advance(scene.loop, 3 * RELOAD_LOOK_NS, NULL), 0);
	settle();
	assert_int_equal(scene.notes, 1);
	assert_int_equal(unlink(path("a")), 0);
	hear();
	assert_int_equal(scene.notes, 2);
	assert_non_null(strstr(now->error, "No such file"));
	assert_int_equal(loop_advance(scene.loop, RELOAD_LOOK_NS, NULL), 0);
	settle();
	assert_int_equal(scene.notes, 2);
	unit_write(path("a"), SINGLE); /* as it was before all this */
	hear();
	assert_int_equal(scene.applied, 1);
	assert_string_equal(now->error, "");
}

/* What inotify did not tell, here because the directory is another. */
static void test_the_look_in_between(void **state)
{
	struct err err = {0};
	(void)state;
	assert_int_equal(mkdir(path("above"), 0755), 0);
	assert_int_equal(mkdir(path("above/d"), 0755), 0);
	assert_int_equal(mkdir(path("other"), 0755), 0);
	assert_int_equal(mkdir(path("other/d"), 0755), 0);
	unit_write(path("above/d/a"), SINGLE);
	unit_write(path("other/d/a"), MIXED);
	assert_int_equal(begin(path("above/d/a"), false, &err), 0);
	assert_int_equal(rename(path("above"), path("gone")), 0);
	assert_int_equal(rename(path("other"), path("above")), 0);
	hear();
	assert_int_equal(scene.applied, 0);
	assert_int_equal(loop_advance(scene.loop, RELOAD_LOOK_NS, NULL), 0);
	settle();
	assert_int_equal(scene.applied, 1);
	unit_write(path("above/d/a"), SINGLE);
	hear(); /* and now it is watched */
	assert_int_equal(scene.applied, 2);
}

static void test_one_that_does_not_fit(void **state)
{
	struct err err = {0};
	(void)state;
	unit_write(path("a"), SINGLE);
	assert_int_equal(begin(path("a"), false, &err), 0);
	scene.refuse = -EINVAL;
	unit_write(path("a"), MIXED);
	hear();
	assert_string_equal(reload_state(scene.reload)->error, "does not fit");
	assert_int_equal(reload_state(scene.reload)->config->mig_strategy, CONFIG_MIG_SINGLE);
	scene.refuse = 0;
	assert_int_equal(loop_advance(scene.loop, RELOAD_LOOK_NS, NULL), 0);
	settle();
	assert_int_equal(scene.applied, 0); /* it still does not */
	assert_int_equal(reload_start(scene.reload, NULL, NULL, &err), 0);
	settle();
	assert_int_equal(scene.applied, 1); /* but who asks is obeyed */
	/* No memory is nobody's fault, and not for ever. */
	scene.refuse = -ENOMEM;
	unit_write(path("a"), SINGLE);
	hear();
	scene.refuse = 0;
	assert_int_equal(loop_advance(scene.loop, RELOAD_LOOK_NS, NULL), 0);
	settle();
	assert_int_equal(scene.applied, 2);
	assert_int_equal(scene.mig, CONFIG_MIG_SINGLE);
}

static void test_precedence(void **state)
{
	struct err err = {0};
	(void)state;
	unit_write(path("a"),
		   "flags: {migStrategy: single, gdsEnabled: true, mofedEnabled: true}\n");
	scene.overrides.flag[SCHEMA_MIG_STRATEGY] = "none";
	assert_int_equal(setenv("MIG_STRATEGY", "mixed", 1), 0);
	assert_int_equal(setenv("GDS_ENABLED", "0", 1), 0);
	assert_int_equal(begin(path("a"), false, &err), 0);
	const struct config *config = reload_state(scene.reload)->config;
	assert_int_equal(config->mig_strategy, CONFIG_MIG_NONE);
	assert_false(config->gds);
	assert_true(config->mofed);
	memset(&scene.overrides, 0, sizeof(scene.overrides)); /* they were copied */
	unit_write(path("a"), "flags: {migStrategy: mixed}\n");
	hear();
	assert_int_equal(scene.applied, 1);
	assert_int_equal(scene.mig, CONFIG_MIG_NONE); /* not the file's to say */
	assert_false(reload_state(scene.reload)->config->mofed);
}

static void test_wrong_at_the_start(void **state)
{
	struct err err = {0};
	(void)state;
	unit_write(path("a"), WRONG);
	assert_int_equal(begin(path("a"), false, &err), -EINVAL);
	assert_non_null(strstr(err.text, "a:1:22"));
	end();
	assert_int_equal(begin(path("none"), false, &err), -ENOENT);
	assert_non_null(strstr(err.text, path("none")));
	end();
	assert_int_equal(rmdir(path("all")), 0);
	assert_int_equal(begin(NULL, true, &err), -ENOENT);
	assert_non_null(strstr(err.text, path("all")));
}

static void test_the_usual_place(void **state)
{
	struct err err = {0};
	(void)state;
	assert_int_equal(begin(NULL, false, &err), 0);
	assert_string_equal(reload_state(scene.reload)->path, "");
	assert_int_equal(mkdir(path("etc"), 0755), 0);
	hear();
	assert_int_equal(mkdir(path("etc/sluice"), 0755), 0);
	unit_write(path("etc/sluice/config.yaml"), MIXED);
	hear();
	assert_int_equal(scene.applied, 1);
	assert_string_equal(reload_state(scene.reload)->path, path("etc/sluice/config.yaml"));
	assert_int_equal(unlink(path("etc/sluice/config.yaml")), 0);
	hear();
	assert_int_equal(scene.applied, 2);
	assert_int_equal(scene.mig, CONFIG_MIG_NONE);
}

/* --- one of several -------------------------------------------------------------------------- */

static void test_labels(void **state)
{
	struct err err = {0};
	(void)state;
	unit_write(path("all/a"), SINGLE);
	unit_write(path("all/b"), MIXED);
	scene.rules.default_name = "a";
	assert_int_equal(begin(NULL, true, &err), 0);
	const struct reload_state *now = reload_state(scene.reload);
	assert_string_equal(now->name, "a");
	assert_string_equal(now->path, path("all/a"));
	reload_set_label(scene.reload, "b");
	settle();
	assert_string_equal(now->name, "b");
	assert_int_equal(scene.mig, CONFIG_MIG_MIXED);
	reload_set_label(scene.reload, "b");
	settle();
	assert_int_equal(scene.applied, 1);

	reload_set_label(scene.reload, "c");
	settle();
	assert_string_equal(now->name, "b");
	assert_string_equal(now->missing, "c");
	assert_string_equal(now->error, "");
	assert_int_equal(scene.applied, 1);
	assert_int_equal(scene.note[1], RELOAD_MISSING);
	assert_string_equal(scene.text[1], "specified config c does not exist");
	unit_write(path("all/b"), MIXED "version: v1\n"); /* what runs is still watched */
	hear();
	assert_int_equal(scene.applied, 2);
	unit_write(path("all/c"), SINGLE); /* and there it is */
	hear();
	assert_string_equal(now->name, "c");
	assert_string_equal(now->missing, "");
	assert_int_equal(scene.mig, CONFIG_MIG_SINGLE);

	reload_set_label(scene.reload, "../a");
	settle();
	assert_string_equal(now->name, "c");
	assert_non_null(strstr(now->error, "node's label"));
	char long_label[CHOICE_NAME_MAX + 1];
	memset(long_label, 'a', sizeof(long_label) - 1);
	long_label[sizeof(long_label) - 1] = '\0';
	reload_set_label(scene.reload, long_label);
	settle();
	assert_string_equal(now->name, "c");
	reload_set_label(scene.reload, NULL);
	settle();
	assert_string_equal(now->name, "a"); /* the default */
	assert_string_equal(now->error, "");
}

static void test_what_runs_is_gone(void **state)
{
	struct err err = {0};
	(void)state;
	unit_write(path("all/a"), SINGLE);
	unit_write(path("all/b"), MIXED);
	scene.rules.default_name = "a";
	assert_int_equal(begin(NULL, true, &err), 0);
	const struct reload_state *now = reload_state(scene.reload);
	assert_int_equal(unlink(path("all/a")), 0);
	hear();
	assert_int_equal(scene.applied, 0);
	assert_int_equal(now->config->mig_strategy, CONFIG_MIG_SINGLE);
	assert_string_equal(now->missing, "a");
	assert_non_null(strstr(now->error, "specified config a does not exist"));
	unit_write(path("all/a"), SINGLE);
	hear();
	assert_string_equal(now->missing, "");
	assert_string_equal(now->error, "");
}

/* The API server may be away when the agent starts again. */
static void test_a_restart(void **state)
{
	struct err err = {0};
	(void)state;
	unit_write(path("all/a"), SINGLE);
	unit_write(path("all/b"), MIXED);
	scene.rules.default_name = "a";
	assert_int_equal(begin(NULL, true, &err), 0);
	reload_set_label(scene.reload, "b");
	settle();
	end();
	assert_int_equal(begin(NULL, true, &err), 0);
	assert_string_equal(reload_state(scene.reload)->name, "b");
	reload_set_label(scene.reload, "gone");
	settle();
	end();
	/* Not the default, which is for a node without a label: what counted before. */
	assert_int_equal(begin(NULL, true, &err), 0);
	assert_string_equal(reload_state(scene.reload)->name, "b");
	assert_string_equal(reload_state(scene.reload)->missing, "gone");
	/* One that is wrong by now is no reason not to start. */
	unit_write(path("all/c"), WRONG);
	reload_set_label(scene.reload, "c");
	settle();
	assert_string_equal(reload_state(scene.reload)->name, "b");
	end();
	assert_int_equal(begin(NULL, true, &err), 0);
	assert_string_equal(reload_state(scene.reload)->name, "b");
	assert_non_null(strstr(reload_state(scene.reload)->error, "c:1:22"));
	unit_write(path("all/c"), SINGLE);
	hear();
	assert_string_equal(reload_state(scene.reload)->name, "c");
	assert_string_equal(reload_state(scene.reload)->error, "");
	end();
	/* Nothing of that is there any more. */
	assert_int_equal(unlink(path("all/b")), 0);
	assert_int_equal(unlink(path("all/c")), 0);
	scene.rules.default_name = NULL;
	scene.rules.fallbacks = CHOICE_SINGLE;
	assert_int_equal(begin(NULL, true, &err), 0);
	assert_string_equal(reload_state(scene.reload)->name, "a");
	assert_string_equal(reload_state(scene.reload)->missing, "c");
	end();
	/* What is remembered is damaged: as if it had never been. */
	unit_write(path("state/configuration"), "configuration ../../etc/passwd\nlabel \n");
	assert_int_equal(begin(NULL, true, &err), 0);
	assert_string_equal(reload_state(scene.reload)->name, "a");
	assert_string_equal(reload_state(scene.reload)->missing, "");
}

static void test_a_place_that_cannot_be_written(void **state)
{
	struct err err = {0};
	(void)state;
	unit_write(path("all/a"), SINGLE);
	assert_int_equal(rmdir(path("state")), 0);
	assert_int_equal(begin(NULL, true, &err), 0);
	reload_set_label(scene.reload, "a");
	settle();
	assert_string_equal(reload_state(scene.reload)->name, "a");
	assert_int_equal(mkdir(path("state"), 0755), 0);
	assert_int_equal(loop_advance(scene.loop, RELOAD_LOOK_NS, NULL), 0);
	settle();
	assert_int_equal(access(path("state/configuration"), R_OK), 0);
}

static void on_done(int result, uint32_t changed, const struct err *err, void *context)
{
	(void)err;
	assert_int_equal(changed, result < 0 ? 0 : 7);
	*(int *)context += result < 0 ? 100 : 1;
}

static void test_many_at_once(void **state)
{
	struct err err = {0};
	int answers = 0;
	(void)state;
	unit_write(path("all/a"), SINGLE);
	assert_int_equal(begin(NULL, true, &err), 0);
	for (int i = 0; i < 8; i++) {
		char name[] = {(char)('a' + i), '\0'};
		reload_set_label(scene.reload, name);
		assert_int_equal(reload_start(scene.reload, on_done, &answers, &err), 0);
	}
	settle();
	assert_int_equal(answers, 8);
	assert_string_equal(reload_state(scene.reload)->missing, "h");
	assert_int_equal(reload_start(scene.reload, on_done, &answers, &err), 0);
	end(); /* with one under way */
	assert_int_equal(answers, 9);
}

static int live(void *context)
{
	struct err err = {0};
	(void)context;
	int rc = begin(NULL, true, &err);
	if (rc == 0) {
		reload_set_label(scene.reload, "b");
		settle();
		assert_int_equal(reload_state(scene.reload)->config != NULL, 1);
		if (strcmp(reload_state(scene.reload)->name, "b") != 0)
			rc = -ENOMEM;
	}
	end();
	return rc;
}

static void test_out_of_memory(void **state)
{
	(void)state;
	unit_write(path("all/a"), SINGLE);
	unit_write(path("all/b"), MIXED);
	(void)failmalloc_each(live, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_content_counts, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_an_invalid_content_keeps_the_old, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_the_look_in_between, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_one_that_does_not_fit, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_precedence, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_wrong_at_the_start, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_the_usual_place, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_labels, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_what_runs_is_gone, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_a_restart, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_a_place_that_cannot_be_written, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_many_at_once, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_out_of_memory, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
