/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "hardware/gpu.h"
#include "hardware/minors.h"
#include "tests/unit/cdi/checked.h"
#include "tests/unit/unit.h"

/* GPU 0 is whole and has minor 3; GPU 1 has minor 1 and one MIG device. */
struct rig {
	struct inventory inventory;
	struct gpu gpus[2];
	struct mig_device migs[1];
	struct minors *minors;
};

static struct rig rig;

static int ask(void *context, struct check_machine *out, struct err *err)
{
	(void)context;
	(void)err;
	*out = (struct check_machine){.inventory = &rig.inventory, .minors = rig.minors};
	return 0;
}

static int setup(void **state)
{
	static const char minors[] = "gpu1/gi2/access 20\ngpu1/gi2/ci0/access 21\n";
	rig = (struct rig){.inventory = {.gpu_count = 2, .mig_count = 1}};
	rig.inventory.gpus = rig.gpus;
	rig.inventory.migs = rig.migs;
	rig.gpus[0] = (struct gpu){.index = 0, .minor = 3, .uuid = "GPU-a"};
	rig.gpus[1] =
	    (struct gpu){.index = 1, .minor = 1, .uuid = "GPU-b", .mig_current = GPU_MIG_ENABLED};
	rig.migs[0] =
	    (struct mig_device){.parent = 1, .index = 0, .gi = 2, .ci = 0, .uuid = "MIG-c"};
	if (minors_parse(minors, strlen(minors), &rig.minors, NULL) < 0 || checked_setup(state) < 0)
		return -1;
	struct checked *checked = *state;
	checked->options.ask = ask;
	checked_node(checked, "/dev/nvidia1");
	checked_node(checked, "/dev/nvidia3");
	checked_node(checked, "/dev/nvidia-caps/nvidia-cap20");
	checked_node(checked, "/dev/nvidia-caps/nvidia-cap21");
	checked_node(checked, "/dev/nvidia-caps/nvidia-cap30");
	return 0;
}

static int teardown(void **state)
{
	rig.minors = minors_free(rig.minors);
	return checked_teardown(state);
}

#define HEAD CHECKED_HEAD("nvidia.com/gpu")
#define MIG_NODES(gpu, gi, ci)                                                                     \
	"containerEdits: {deviceNodes: [{path: /dev/nvidia" gpu                                    \
	"}, {path: /dev/nvidia-caps/nvidia-cap" gi "}, {path: /dev/nvidia-caps/nvidia-cap" ci      \
	"}]}}\n"
#define MIG(name, gpu, gi, ci) "- {name: '" name "', " MIG_NODES(gpu, gi, ci)
#define ALL		       MIG("all", "3}, {path: /dev/nvidia1", "20", "21")

static void run(struct checked *checked, const char *text)
{
	checked_write(checked, "/etc/cdi/a.yaml", text);
	checked_run(checked, NULL);
}

static void test_fresh(void **state)
{
	static const char *const good[] = {
	    HEAD CHECKED_DEVICE("0", "/dev/nvidia3") MIG("1:0", "1", "20", "21") ALL,
	    HEAD CHECKED_DEVICE("GPU-a", "/dev/nvidia3") MIG("MIG-c", "1", "20", "21") ALL,
	    HEAD CHECKED_DEVICE("gpu0", "/dev/nvidia3") MIG("mig1:0", "1", "20", "21") ALL,
	    HEAD CHECKED_DEVICE("GPU-a", "/x/dev/nvidia3, hostPath: /dev/nvidia3")
		MIG("MIG-c", "1", "20", "21"),
	    HEAD ALL,
	};
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		run(*state, good[i]);
		checked_expect(*state, 0, CHECK_NOTE);
	}
}

static void test_gone(void **state)
{
	run(*state,
	    HEAD CHECKED_DEVICE("0", "/dev/nvidia3") CHECKED_DEVICE("5", "/dev/nvidia1")
		CHECKED_DEVICE("GPU-x", "/dev/nvidia1") MIG("1:0", "1", "20", "21")
		    MIG("1:1", "1", "20", "30") MIG("MIG-x", "1", "20", "30")
			CHECKED_DEVICE("GPU-a", "/dev/nvidia3") MIG("MIG-c", "1", "20", "21") ALL);
	checked_expect(*state, 4, CHECK_STALE);
	checked_says(*state, CHECK_GPU_GONE, "the driver lists no GPU '5'");
	checked_says(*state, CHECK_MIG_GONE, "the driver lists no MIG device '1:1'");
	/* The others are not the business of who asks for one. */
	checked_run(*state, (const char *const[]){"nvidia.com/gpu=0", NULL});
	checked_expect(*state, 0, CHECK_NOTE);
	checked_run(*state, (const char *const[]){"nvidia.com/gpu=GPU-x", NULL});
	checked_expect(*state, 1, CHECK_STALE);
}

static void test_moved(void **state)
{
	run(*state, HEAD CHECKED_DEVICE("GPU-a", "/dev/nvidia1") MIG("MIG-c", "1", "20", "30") ALL);
	checked_expect(*state, 2, CHECK_STALE);
	checked_says(*state, CHECK_GPU_MOVED,
		     "'/dev/nvidia1' is given as GPU 'GPU-a', which is "
		     "/dev/nvidia3 now");
	checked_says(*state, CHECK_MIG_MOVED, "nvidia-cap30' is given as MIG device 'MIG-c'");
	run(*state, HEAD CHECKED_DEVICE("GPU-a", "/dev/nvidia3") MIG("MIG-c", "3", "20", "21") ALL);
	checked_expect(*state, 1, CHECK_STALE);
	checked_says(*state, CHECK_MIG_MOVED, "'/dev/nvidia3' is given");
}

static void test_mig_mode(void **state)
{
	run(*state, HEAD CHECKED_DEVICE("0", "/dev/nvidia3") CHECKED_DEVICE("1", "/dev/nvidia1")
			MIG("1:0", "1", "20", "21") ALL);
	checked_expect(*state, 1, CHECK_STALE);
	checked_says(*state, CHECK_GPU_MIG, "GPU 1 is in MIG mode now");
	/* Handed out whole, with its instance. */
	run(*state, HEAD CHECKED_DEVICE("0", "/dev/nvidia3") MIG("1", "1", "20", "21")
			MIG("1:0", "1", "20", "21") ALL);
	checked_expect(*state, 0, CHECK_NOTE);
	run(*state, HEAD CHECKED_DEVICE("0", "/dev/nvidia3") MIG("1", "1", "20", "30")
			MIG("1:0", "1", "20", "21") ALL);
	checked_expect(*state, 1, CHECK_STALE);
}

static void test_new(void **state)
{
	run(*state, HEAD MIG("1:0", "1", "20", "21") MIG("all", "1", "20", "21"));
	checked_expect(*state, 1, CHECK_STALE);
	checked_says(*state, CHECK_GPU_NEW,
		     "the GPU 'GPU-a', and no device of the file is it: "
		     "'all' is not all");
	run(*state, HEAD CHECKED_DEVICE("0", "/dev/nvidia3") CHECKED_DEVICE("all", "/dev/nvidia3"));
	checked_expect(*state, 1, CHECK_STALE);
	checked_says(*state, CHECK_MIG_NEW, "the MIG device 'MIG-c'");
	/* The place is taken by another one than the UUID tells. */
	run(*state, HEAD CHECKED_DEVICE("0", "/dev/nvidia3") CHECKED_DEVICE("GPU-a", "/dev/nvidia3")
			MIG("1:0", "1", "20", "21") ALL);
	checked_expect(*state, 1, CHECK_STALE);
	checked_says(*state, CHECK_MIG_NEW, "the MIG device 'MIG-c'");
	run(*state, HEAD CHECKED_DEVICE("0", "/dev/nvidia3") MIG("1:0", "1", "20", "21")
			MIG("MIG-c", "1", "20", "21") ALL);
	checked_expect(*state, 1, CHECK_STALE);
	checked_says(*state, CHECK_GPU_NEW, "the GPU 'GPU-a'");
	/* Meant for some of them. */
	run(*state, HEAD CHECKED_DEVICE("0", "/dev/nvidia3"));
	checked_expect(*state, 1, CHECK_NOTE);
	run(*state, HEAD CHECKED_DEVICE("all", "/dev/nvidia1"));
	checked_expect(*state, 2, CHECK_STALE);
	/* One without its node cannot be in a file. */
	rig.gpus[0].minor = 9;
	run(*state, HEAD MIG("1:0", "1", "20", "21") MIG("all", "1", "20", "21"));
	checked_expect(*state, 0, CHECK_NOTE);
}

static void test_a_missing_node_of_a_gpu_that_is_there(void **state)
{
	rig.gpus[0].minor = 9;
	run(*state, HEAD CHECKED_DEVICE("0", "/dev/nvidia9") MIG("1:0", "1", "20", "21"));
	checked_expect(*state, 1, CHECK_STALE);
	assert_string_equal(checked_find(*state, CHECK_NODE_MISSING)->fix, "nvidia-modprobe -c 9");
}

static void test_without_minors(void **state)
{
	rig.minors = minors_free(rig.minors);
	run(*state, HEAD CHECKED_DEVICE("0", "/dev/nvidia3") MIG("1:0", "1", "30", "21") ALL);
	checked_expect(*state, 0, CHECK_NOTE);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(test_fresh),
	    TEST(test_gone),
	    TEST(test_moved),
	    TEST(test_mig_mode),
	    TEST(test_new),
	    TEST(test_a_missing_node_of_a_gpu_that_is_there),
	    TEST(test_without_minors),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
