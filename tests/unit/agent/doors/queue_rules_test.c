/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/doors/queue_rules.h"

#include <stdio.h>
#include <string.h>

#include "agent/groups.h"
#include "base/child.h"
#include "base/err.h"
#include "base/loop.h"
#include "doors/queue/rules.h"
#include "job/wants.h"
#include "policy/config.h"
#include "unit/unit.h"

#define GIB (UINT64_C(1) << 30)

struct scene {
	char *directory;
	struct loop *loop;
	struct child_set *children;
	struct groups *groups;
	char file[4096];
	struct queue_rules rules;
	struct queue_rules_warnings warnings;
};

static void on_changed(void *context)
{
	(void)context;
}

static int setup(void **state)
{
	static struct scene scene;
	memset(&scene, 0, sizeof(scene));
	scene.directory = unit_tmp_new();
	scene.loop = loop_new(LOOP_FAKE, NULL);
	scene.children = scene.loop ? child_set_new(scene.loop, CHILD_WATCH_AUTO, NULL) : NULL;
	(void)snprintf(scene.file, sizeof(scene.file), "%s/group", scene.directory);
	unit_write(scene.file, "staff:x:50:\nadmins:x:51:\n");
	const struct groups_options options = {.loop = scene.loop,
					       .children = scene.children,
					       .file = scene.file,
					       .getent = "/bin/false",
					       .changed = on_changed};
	scene.groups = groups_new(&options, NULL);
	*state = &scene;
	return scene.groups ? 0 : -1;
}

static int teardown(void **state)
{
	struct scene *scene = *state;
	scene->groups = groups_free(scene->groups);
	scene->children = child_set_free(scene->children);
	scene->loop = loop_free(scene->loop);
	scene->directory = unit_tmp_free(scene->directory);
	return 0;
}

static void make(struct scene *scene, const char *text)
{
	const struct queue_rules_machine machine = {.cpus = 16, .mem_bytes = 64 * GIB};
	struct config *config = NULL;
	struct err err = {0};
	if (config_parse(text, strlen(text), "c.yaml", NULL, false, &config, &err) < 0)
		fail_msg("%s", err.text);
	queue_rules_make(config, &machine, scene->groups, &scene->rules, &scene->warnings);
	(void)config_free(config);
}

static void test_what_nobody_says(void **state)
{
	struct scene *scene = *state;
	make(scene, "{}");
	const struct queue_rules *rules = &scene->rules;
	assert_int_equal(rules->order, RULES_ORDER_FIFO);
	assert_int_equal(rules->outsiders, RULES_OUTSIDERS_WAIT);
	assert_int_equal(rules->limit.pending, 10000);
	assert_int_equal(rules->limit.gpus, 0);
	assert_int_equal(rules->minimum_isolation, ISOLATION_NONE);
	assert_int_equal(rules->default_time_ns, 0);
	assert_true(rules->retention_ns == INT64_C(2592000000000000));
	assert_int_equal(rules->log_bytes, GIB);
	assert_int_equal(rules->cpu_milli, 16000);
	assert_true(rules->mem_bytes == 60 * GIB);
	assert_false(rules->has_admin_group);
	assert_false(rules->is_enforced);
	assert_int_equal(scene->warnings.count, 0);
}

static void test_what_is_said(void **state)
{
	struct scene *scene = *state;
	make(scene,
	     "sluice: {jobs: {order: shortest, busyOutsiders: ignore, minimumIsolation: cgroup, "
	     "prefer: [1, 0], defaultTime: 1h, retention: infinite, retentionJobs: 5, "
	     "logLimit: none, cpus: 500m, memory: 1Gi, enforce: true, adminGroup: admins, "
	     "limits: {gpus: 2}, groups: [{group: staff, gpus: 4}, {group: '99', pending: 1}]}}");
	const struct queue_rules *rules = &scene->rules;
	assert_int_equal(rules->order, RULES_ORDER_SHORTEST);
	assert_int_equal(rules->outsiders, RULES_OUTSIDERS_IGNORE);
	assert_int_equal(rules->minimum_isolation, ISOLATION_CGROUP);
	assert_string_equal(rules->prefer, "1,0");
	assert_true(rules->default_time_ns == UINT64_C(3600000000000));
	assert_true(rules->retention_ns == INT64_MAX);
	assert_int_equal(rules->retention_jobs, 5);
	assert_int_equal(rules->log_bytes, 0);
	assert_int_equal(rules->cpu_milli, 500);
	assert_true(rules->mem_bytes == GIB);
	assert_true(rules->is_enforced);
	assert_true(rules->has_admin_group);
	assert_int_equal(rules->admin_group, 51);
	assert_int_equal(rules->group_count, 2);
	assert_int_equal(rules->groups[0].group, 50);
	assert_int_equal(rules->groups[0].limit.gpus, 4);
	assert_int_equal(rules->groups[0].limit.pending, 10000);
	assert_int_equal(rules->groups[1].group, 99);
	assert_int_equal(rules->groups[1].limit.pending, 1);
	assert_int_equal(rules->groups[1].limit.gpus, 2);
	assert_int_equal(scene->warnings.count, 0);
}

/* Nobody becomes an administrator by a name that nobody knows. */
static void test_groups_that_are_not_there(void **state)
{
	struct scene *scene = *state;
	static const char text[] = "sluice: {jobs: {adminGroup: nobodys, groups: [{group: gone}, "
				   "{group: staff}]}}";
	make(scene, text);
	while (child_set_count(scene->children) > 0)
		assert_int_equal(loop_pass(scene->loop, 50000000, NULL), 0);
	make(scene, text);
	assert_false(scene->rules.has_admin_group);
	assert_int_equal(scene->rules.group_count, 1);
	assert_int_equal(scene->rules.groups[0].group, 50);
	assert_int_equal(scene->warnings.count, 2);
	assert_string_equal(scene->warnings.text[0],
			    "sluice.jobs.adminGroup: there is no group 'nobodys': root alone "
			    "administers the queue");
	assert_string_equal(
	    scene->warnings.text[1],
	    "sluice.jobs.groups: there is no group 'gone': its limits are nobody's");
}

static void test_the_reserve(void **state)
{
	(void)state;
	assert_true(queue_rules_memory(GIB) == GIB / 2);
	assert_true(queue_rules_memory(GIB / 2) == GIB / 4);
	assert_true(queue_rules_memory(32 * GIB) == 30 * GIB);
	assert_true(queue_rules_memory(1024 * GIB) == 1016 * GIB);
	struct queue_rules_machine machine = {0, 0};
	queue_rules_read_machine(&machine);
	assert_true(machine.cpus > 0 && machine.mem_bytes > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_what_nobody_says, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_what_is_said, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_groups_that_are_not_there, setup, teardown),
	    cmocka_unit_test(test_the_reserve),
	};
	return cmocka_run_group_tests_name("agent/doors/queue_rules", tests, NULL, NULL);
}
