/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/script/run_slurm.h"

#include <stdbool.h>
#include <string.h>

#include "base/check.h"
#include "unit/unit.h"

static void test_translate(void **state)
{
	static const struct {
		const char *slurm, *ours;
		bool is_option;
	} rows[] = {
	    {"--gres=gpu:2", "--gpus 2", true},
	    {"--gres gpu", "--gpus 1", true},
	    {"--gres=gpu:a100:2", "--gpus 2 --gpu-type '*a100*'", true},
	    {"-G 4", "--gpus 4", true},
	    {"-G4", "--gpus 4", true},
	    {"--gpus=a100:1", "--gpus 1 --gpu-type '*a100*'", true},
	    {"-t 90", "--time 1h30m", true},
	    {"--time=1:30:00", "--time 1h30m", true},
	    {"--time=2-12", "--time 60h", true},
	    {"--time=90:30", "--time 1h30m30s", true},
	    {"-J train", "--name train", true},
	    {"--mem=16G", "--mem 16Gi", true},
	    {"--mem=500 # MiB", "--mem 500Mi", true},
	    {"-d afterok:12:13", "--after-ok 12,13", true},
	    {"--dependency=afterany:12", "--after 12", true},
	    {"-a 3-17:2%4", "--array 3-17:2%4", true},
	    {"--nice=10", "--priority -10", true},
	    {"-H", "--hold", true},
	    {"-p gpu", "a machine has one queue", false},
	};
	for (size_t i = 0; i < array_length(rows); i++) {
		char out[RUN_SLURM_TEXT_MAX];
		bool is_option = !rows[i].is_option;
		if (!run_slurm_translate(rows[i].slurm, strlen(rows[i].slurm), out, &is_option))
			fail_msg("'%s' is not known", rows[i].slurm);
		assert_string_equal(out, rows[i].ours);
		assert_int_equal(is_option, rows[i].is_option);
	}
}

static void test_unknown(void **state)
{
	static const char *const rows[] = {"",
					   "-",
					   "--",
					   "x",
					   "--nonsense",
					   "--time=soon",
					   "--time=1:2:3:4",
					   "--mem=lots",
					   "--gres=fpga:1,gpu:2",
					   "-d singleton",
					   "--time",
					   "-t"};
	for (size_t i = 0; i < array_length(rows); i++) {
		char out[RUN_SLURM_TEXT_MAX];
		bool is_option;
		if (run_slurm_translate(rows[i], strlen(rows[i]), out, &is_option))
			fail_msg("'%s' is '%s'", rows[i], out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_translate),
	    cmocka_unit_test(test_unknown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
