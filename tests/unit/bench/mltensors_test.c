/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/mltensors.h"

#include <string.h>

#include "base/check.h"
#include "unit/unit.h"

static const struct {
	const char *benchmark;
	size_t count;
	const char *one, *none;
} rows[] = {
    {"bert", 398, "bert/encoder/layer_23/output/dense/bias",
     "bert/encoder/layer_24/output/dense/bias"},
    {"dlrm", 9, "top_mlp_dense5", "top_mlp_dense6"},
    {"maskrcnn", 21, "ROI_MASK_PREDICTOR_fcn_logits", "ROI_MASK_PREDICTOR_fcn6"},
    {"minigo", 48, "conv2d_14/kernel", "conv2d_15/kernel"},
    {"resnet", 161, "stage3_unit6_conv3_weight", "stage2_unit5_conv3_weight"},
    {"rnnt", 7, "joint_net", "joint_nets"},
    {"ssd", 119, "ssd0_resnetmlperf0_stage3_batchnorm12_beta",
     "ssd0_resnetmlperf0_stage3_batchnorm012_beta"},
    {"unet3d", 50, "output_conv", "output_con"},
};

/* Every name leads back to its place, and all of a list are all of it. */
static void lists(void **state)
{
	for (size_t i = 0; i < array_length(rows); i++) {
		static struct mltensors tensors;
		char name[MLTENSORS_NAME_MAX], wrong[256];
		tensors = (struct mltensors){0};
		assert_int_equal(mltensors_count(rows[i].benchmark), rows[i].count);
		assert_false(mltensors_name(rows[i].benchmark, rows[i].count, name, sizeof(name)));
		bool is_there = false;
		for (size_t k = 0; k < rows[i].count; k++) {
			assert_true(
			    mltensors_are_wrong(&tensors, rows[i].benchmark, wrong, sizeof(wrong)));
			assert_true(mltensors_name(rows[i].benchmark, k, name, sizeof(name)));
			is_there = is_there || strcmp(name, rows[i].one) == 0;
			mltensors_line(&tensors, k + 1, name);
		}
		assert_true(is_there);
		if (mltensors_are_wrong(&tensors, rows[i].benchmark, wrong, sizeof(wrong)))
			fail_msg("%s: %s", rows[i].benchmark, wrong);
		mltensors_line(&tensors, 1000, rows[i].none);
		assert_true(mltensors_are_wrong(&tensors, rows[i].benchmark, wrong, sizeof(wrong)));
		assert_non_null(strstr(wrong, "is none of the benchmark"));
	}
}

static void what_is_wrong(void **state)
{
	struct mltensors tensors = {0};
	char wrong[256];
	assert_true(mltensors_are_wrong(&tensors, "rnnt", wrong, sizeof(wrong)));
	assert_string_equal(wrong, "'weights_initialization' is missing");
	assert_false(mltensors_are_wrong(&tensors, "gnmt", wrong, sizeof(wrong)));
	mltensors_line(&tensors, 7, NULL);
	assert_true(mltensors_are_wrong(&tensors, "rnnt", wrong, sizeof(wrong)));
	assert_string_equal(wrong, "line 7: 'weights_initialization' names no tensor");
	assert_int_equal(mltensors_count("gnmt"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(lists),
	    cmocka_unit_test(what_is_wrong),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
