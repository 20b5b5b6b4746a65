/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/guard.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "unit/bench/collectives/plain.h"
#include "unit/unit.h"

static const struct plain_options alone = {.ranks = 1};

static void one_byte_beside_the_data_is_seen(void **state)
{
	struct plain_world *world = plain_world_new(&alone);
	assert_non_null(world);
	struct backend *backend = plain_backend_new(world, 0);
	assert_non_null(backend);
	static const size_t sizes[] = {0, 1, 100, 4096 - GUARD_BYTES_MIN, 4096, 10000};
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (size_t offset = 0; offset <= 8; offset += 4) {
			struct guard guard;
			bool is_hurt = true;
			assert_int_equal(
			    guard_alloc(backend, BACKEND_PRIVATE, sizes[i], offset, &guard, NULL),
			    0);
			assert_true(guard.is_protected);
			assert_int_equal((uintptr_t)guard.data % 4096, offset);
			assert_int_equal(guard.base_bytes, guard_alloc_bytes(sizes[i], offset));
			uint8_t *data = guard.data;
			memset(data, 1, sizes[i]);
			assert_int_equal(guard_check(&guard, &is_hurt, NULL), 0);
			assert_false(is_hurt);
			const ptrdiff_t places[] = {-1, -4096, (ptrdiff_t)sizes[i],
						    (ptrdiff_t)sizes[i] + GUARD_BYTES_MIN - 1};
			for (size_t p = 0; p < 4; p++) {
				data[places[p]] ^= 0x10;
				assert_int_equal(guard_check(&guard, &is_hurt, NULL), 0);
				assert_true(is_hurt);
				data[places[p]] ^= 0x10;
			}
			guard_free(&guard);
			guard_free(&guard); /* nothing is left */
		}
	backend->ops->free_backend(backend);
	plain_world_free(world);
}

static int end_of_a_write(struct guard *guard, ptrdiff_t at)
{
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		(void)signal(SIGSEGV, SIG_DFL);
		((volatile uint8_t *)guard->data)[at] = 1;
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static void far_writes_end_the_process(void **state)
{
	struct plain_world *world = plain_world_new(&alone);
	assert_non_null(world);
	struct backend *backend = plain_backend_new(world, 0);
	assert_non_null(backend);
	struct guard guard;
	assert_int_equal(guard_alloc(backend, BACKEND_PRIVATE, 4000, 4, &guard, NULL), 0);
	assert_int_equal(end_of_a_write(&guard, 3999), 0);
	int before = end_of_a_write(&guard, -4096 - 4 - 1), after = end_of_a_write(&guard, 4096);
	assert_true(WIFSIGNALED(before) || WEXITSTATUS(before) != 0); /* a sanitizer exits */
	assert_true(WIFSIGNALED(after) || WEXITSTATUS(after) != 0);
	guard_free(&guard);
	/* what others map is not protected, but guarded */
	assert_int_equal(guard_alloc(backend, BACKEND_REGISTERED, 4000, 0, &guard, NULL), 0);
	assert_false(guard.is_protected);
	guard_free(&guard);
	backend->ops->free_backend(backend);
	plain_world_free(world);
}

static void sizes_that_cannot_be_are_refused(void **state)
{
	struct plain_world *world = plain_world_new(&alone);
	assert_non_null(world);
	struct backend *backend = plain_backend_new(world, 0);
	assert_non_null(backend);
	struct guard guard;
	struct err err = {0};
	assert_int_equal(guard_alloc_bytes(SIZE_MAX, 0), 0);
	assert_int_equal(guard_alloc_bytes(SIZE_MAX - 8192, 0), 0);
	assert_int_equal(guard_alloc(backend, BACKEND_PRIVATE, SIZE_MAX, 0, &guard, &err), -ENOMEM);
	assert_int_equal(guard_alloc(backend, BACKEND_PRIVATE, 1 << 30, 0, &guard, &err), -ENOMEM);
	guard_free(&guard);
	backend->ops->free_backend(backend);
	plain_world_free(world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(one_byte_beside_the_data_is_seen),
	    cmocka_unit_test(far_writes_end_the_process),
	    cmocka_unit_test(sizes_that_cannot_be_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
