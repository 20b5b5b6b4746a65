/* SPDX-License-Identifier: Apache-2.0 */
/* Against the simulated libnccl and libcuda; each rank is a process. */
#include "bench/collectives/nccl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "bench/collectives/backend.h"
#include "bench/collectives/bootstrap.h"
#include "unit/unit.h"

static void versions_have_two_forms(void **state)
{
	(void)state;
	char text[32];
	assert_string_equal(nccl_version_to_string(2804, text), "NCCL 2.8.4");
	assert_string_equal(nccl_version_to_string(21005, text), "NCCL 2.10.5");
	assert_string_equal(nccl_version_to_string(22105, text), "NCCL 2.21.5");
}

static void a_library_that_is_not_there_is_named(void **state)
{
	(void)state;
	struct bootstrap_board *board = NULL;
	struct bootstrap *bootstrap = NULL;
	struct backend *backend = NULL;
	struct err err = {0};
	assert_int_equal(bootstrap_board_new(1, &board, NULL), 0);
	assert_int_equal(bootstrap_enter(board, 0, &bootstrap, NULL), 0);
	const struct nccl_options options = {.library = "/no/such/libnccl.so.2",
					     .bootstrap = bootstrap,
					     .timeout_ns = CLOCK_NS_PER_S};
	assert_int_equal(nccl_backend_new(&options, &backend, &err), -ENOENT);
	assert_null(backend);
	assert_non_null(strstr(err.text, "cannot load /no/such/libnccl.so.2: "));
	(void)bootstrap_free(bootstrap);
	(void)bootstrap_board_free(board);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(versions_have_two_forms),
	    cmocka_unit_test(a_library_that_is_not_there_is_named),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
