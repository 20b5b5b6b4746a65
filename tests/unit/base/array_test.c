/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "unit/unit.h"

struct point {
	uint32_t x, y;
};

/* Every element stays what it was while the room doubles: at first for three, then 6, 12, 24. */
static void test_room_doubles(void **state)
{
	struct point *points = NULL;
	size_t count = 0, room = 0, times = 0;
	(void)state;

	for (uint32_t i = 0; i < 24; i++) {
		size_t before = room;
		if (array_room(&points, count, &room, 3) < 0)
			break; /* no memory: what is there stays */
		times += room != before;
		points[count++] = (struct point){i, 2 * i};
	}

	if (count == 24) {
		assert_int_equal(room, 24);
		assert_int_equal(times, 4);
	}
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(points[i].x, i);
		assert_int_equal(points[i].y, 2 * i);
	}
	assert_true(count <= room);
	free(points);
}

/* Where there is no such memory, nothing has changed. */
static void test_too_large(void **state)
{
	uint64_t *numbers = NULL;
	size_t room = 0;
	(void)state;
	assert_int_equal(array_room(&numbers, 0, &room, SIZE_MAX / 4), -ENOMEM);
	assert_null(numbers);
	assert_int_equal(room, 0);
	room = SIZE_MAX / 2 + 1;
	assert_int_equal(array_room(&numbers, room, &room, 1), -ENOMEM);
	assert_null(numbers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_room_doubles),
					   cmocka_unit_test(test_too_large)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
