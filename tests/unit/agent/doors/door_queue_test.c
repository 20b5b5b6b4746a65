/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/doors/door_queue.h"

#include <string.h>

#include "base/child.h"
#include "base/err.h"
#include "base/loop.h"
#include "doors/queue/rules.h"
#include "policy/config.h"
#include "unit/unit.h"

static struct {
	struct config *config;
	unsigned told;
	uint32_t gpus;
	bool has_admin_group;
} fake;

struct node;
struct queue;
const struct config *__wrap_node_config(const struct node *node);
void __wrap_queue_set_rules(struct queue *queue, const struct queue_rules *rules);
const struct schedule_machine *__wrap_queue_machine(const struct queue *queue);

const struct schedule_machine *__wrap_queue_machine(const struct queue *queue)
{
	(void)queue;
	return NULL;
}

const struct config *__wrap_node_config(const struct node *node)
{
	(void)node;
	return fake.config;
}

void __wrap_queue_set_rules(struct queue *queue, const struct queue_rules *rules)
{
	assert_ptr_equal(queue, &fake);
	fake.told++;
	fake.gpus = rules->limit.gpus;
	fake.has_admin_group = rules->has_admin_group;
}

static void configure(const char *text)
{
	fake.config = config_free(fake.config);
	assert_int_equal(
	    config_parse(text, strlen(text), "c.yaml", NULL, false, &fake.config, NULL), 0);
}

static void test_its_life(void **state)
{
	(void)state;
	struct loop *loop = loop_new(LOOP_FAKE, NULL);
	struct child_set *children = child_set_new(loop, CHILD_WATCH_AUTO, NULL);
	struct door_queue *door = NULL;
	const struct door_queue_options options = {.loop = loop, .children = children};
	assert_int_equal(door_queue_new(&options, &door, NULL), 0);
	configure("sluice: {jobs: {limits: {gpus: 3}}}");
	door_queue_reload(door);
	assert_int_equal(fake.told, 0); /* there is no queue yet */
	door_queue_set_queue(door, (struct queue *)&fake);
	assert_int_equal(fake.told, 1);
	assert_int_equal(fake.gpus, 3);
	assert_null(door_queue_warning(door, 0));
	configure("sluice: {jobs: {limits: {gpus: 4}, adminGroup: no-such-group-here}}");
	door_queue_reload(door);
	assert_true(fake.told > 1);
	assert_int_equal(fake.gpus, 4);
	assert_false(fake.has_admin_group);
	assert_non_null(strstr(door_queue_warning(door, 0), "no group 'no-such-group-here'"));
	assert_null(door_queue_warning(door, 1));
	configure("sluice: {jobs: {adminGroup: '0'}}");
	door_queue_reload(door);
	assert_true(fake.has_admin_group);
	assert_null(door_queue_warning(door, 0));
	unsigned told = fake.told;
	door_queue_set_queue(door, NULL);
	door_queue_reload(door);
	assert_int_equal(fake.told, told);
	assert_null(door_queue_free(door));
	fake.config = config_free(fake.config);
	(void)child_set_free(children);
	(void)loop_free(loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_its_life),
	};
	return cmocka_run_group_tests_name("agent/doors/door_queue", tests, NULL, NULL);
}
