/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/doors/door_pools.h"

#include <string.h>

#include "agent/doors/door_rdma.h"
#include "agent/doors/doors.h"
#include "agent/doors/queue_pools.h"
#include "agent/node.h"
#include "doors/queue/queue.h"
#include "doors/queue/schedule/schedule_pool.h"
#include "unit/unit.h"

/* --- instead of node, adapters and queue: --wrap ------------------------------------------------
 */

static struct {
	uint64_t generation;
	bool has_kubelet, is_unknown;
	int told;
	char problem[SCHEDULE_POOL_TEXT_MAX]; /* that the queue was told last */
} fake;

const struct doors_parts *__wrap_doors_parts(const struct doors *doors);
void *__wrap_doors_at(const struct doors *doors, enum door_place place);
uint64_t __wrap_node_generation(const struct node *node);
bool __wrap_node_has_kubelet(const struct node *node);
const struct inventory *__wrap_node_inventory(const struct node *node);
void __wrap_door_rdma_source(const struct door_rdma *door, struct queue_pools_source *out);
int __wrap_queue_set_pools(struct queue *queue, const struct schedule_pools *pools);

const struct doors_parts *__wrap_doors_parts(const struct doors *doors)
{
	static const struct doors_parts parts;
	assert_ptr_equal(doors, &fake);
	return &parts;
}

void *__wrap_doors_at(const struct doors *doors, enum door_place place)
{
	assert_int_equal(place, DOOR_RDMA);
	return &fake;
}

uint64_t __wrap_node_generation(const struct node *node)
{
	return fake.generation;
}

bool __wrap_node_has_kubelet(const struct node *node)
{
	return fake.has_kubelet;
}

const struct inventory *__wrap_node_inventory(const struct node *node)
{
	return NULL;
}

void __wrap_door_rdma_source(const struct door_rdma *door, struct queue_pools_source *out)
{
	assert_ptr_equal(door, &fake);
	out->is_unknown = fake.is_unknown;
}

int __wrap_queue_set_pools(struct queue *queue, const struct schedule_pools *pools)
{
	assert_ptr_equal(queue, &fake);
	memcpy(fake.problem, pools->problem, sizeof(fake.problem));
	fake.told++;
	return 0;
}

/* --- the tests ---------------------------------------------------------------------------------
 */

static void test_the_queue_hears_of_adapters(void **state)
{
	(void)state;
	void *door = NULL;
	memset(&fake, 0, sizeof(fake));
	assert_int_equal(door_pools_open((struct doors *)&fake, &door, NULL), 0);
	door_pools_tell(door);
	door_pools_update(door);
	assert_int_equal(fake.told, 0); /* there is none yet */

	door_pools_set_queue(door, (struct queue *)&fake);
	assert_int_equal(fake.told, 1);
	assert_string_equal(fake.problem, "");
	door_pools_update(door); /* nothing is new */
	assert_int_equal(fake.told, 1);

	fake.is_unknown = true;
	door_pools_tell(door);
	assert_string_equal(fake.problem, "RDMA adapters have not been read yet");
	fake.is_unknown = false;
	door_pools_update(door); /* looked at until it is known */
	assert_string_equal(fake.problem, "");
	assert_int_equal(fake.told, 3);
	door_pools_update(door);
	assert_int_equal(fake.told, 3);

	fake.generation++;
	fake.has_kubelet = true;
	door_pools_update(door);
	assert_string_equal(fake.problem,
			    "the kubelet of this machine hands out its RDMA adapters");
	assert_int_equal(fake.told, 4);

	door_pools_stop(door);
	door_pools_tell(door);
	assert_int_equal(fake.told, 4); /* it may be closed by now */
	assert_null(door_pools_free(door));
}

static void test_none(void **state)
{
	(void)state;
	door_pools_tell(NULL);
	assert_null(door_pools_free(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_the_queue_hears_of_adapters),
	    cmocka_unit_test(test_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
