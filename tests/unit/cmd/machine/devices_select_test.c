/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/machine/devices_select.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "tests/unit/unit.h"

/* Places differ from NVML's indices; the second GPU has MIG and is lost to nobody. */
static struct gpu gpus[] = {
    {.index = 1,
     .minor = 7,
     .uuid = "GPU-aaaa",
     .has_pci = true,
     .pci = {.domain = 0, .bus = 0x07, .device = 0x1f}},
    {.index = 0, .minor = 3, .uuid = "GPU-bbbb", .mig_current = GPU_MIG_ENABLED},
    {.index = 2,
     .minor = 0,
     .uuid = "",
     .has_pci = true,
     .pci = {.domain = 0x10000, .bus = 0xc3, .device = 0}},
};
static struct mig_device migs[] = {
    {.parent = 1, .index = 0, .uuid = "MIG-1111"},
    {.parent = 1, .index = 1, .uuid = "MIG-2222"},
    {.parent = 1, .index = 3, .uuid = ""},
};
static const struct inventory machine = {
    .gpu_count = array_length(gpus), .gpus = gpus, .mig_count = array_length(migs), .migs = migs};

/* What was selected as text: "gpu places|mig places". */
static const char *selected(const struct devices_select *select)
{
	static char text[256];
	size_t length = 0;
	for (uint32_t i = 0; i < select->gpu_count; i++)
		text[length++] = (char)('0' + select->gpus[i]);
	text[length++] = '|';
	for (uint32_t i = 0; i < select->mig_count; i++)
		text[length++] = (char)('0' + select->migs[i]);
	if (select->all)
		text[length++] = '*';
	text[length] = '\0';
	return text;
}

static void test_ids(void **state)
{
	static const struct {
		const char *texts[3], *expected; /* NULL: there is no such device */
	} cases[] = {
	    {{"0"}, "1|"},
	    {{"1"}, "0|"},
	    {{"1,0"}, "01|"},
	    {{"1", "0", "1"}, "01|"},
	    {{",,1,,"}, "0|"},
	    {{""}, "|"},
	    {{"none"}, "|"},
	    {{"None,1"}, "0|"},
	    {{"GPU-aaaa"}, "0|"},
	    {{"gpu-AAAA"}, "0|"},
	    {{"00000000:07:1f.0"}, "0|"},
	    {{"0:7:1F.0"}, "0|"},
	    {{"10000:c3:00.0"}, "2|"},
	    {{"MIG-2222"}, "1|1"},
	    {{"mig-2222"}, "1|1"},
	    {{"0:1"}, "1|1"},
	    {{"0:3"}, "1|2"},
	    {{"0:1,0:0,0"}, "1|10"},
	    {{"0:1,1"}, "10|1"},
	    {{"all"}, "102|012*"},
	    {{"ALL"}, "102|012*"},
	    {{"2,all,nonsense"}, "210|012*"},
	    {{"all", "nonsense"}, "102|012*"},
	    {{"3"}, NULL},
	    {{"0,3"}, NULL},
	    {{"-1"}, NULL},
	    {{"+1"}, NULL},
	    {{"0x1"}, NULL},
	    {{" 0"}, NULL},
	    {{"0 "}, NULL},
	    {{"18446744073709551616"}, NULL},
	    {{"GPU-"}, NULL},
	    {{"GPU-aaa"}, NULL},
	    {{"MIG-"}, NULL},
	    {{"0:2"}, NULL},
	    {{"1:0"}, NULL},
	    {{"0:"}, NULL},
	    {{":0"}, NULL},
	    {{":"}, NULL},
	    {{"0:1:2"}, NULL},
	    {{"0:0x1"}, NULL},
	    {{"00000000:07:1f"}, NULL},
	    {{"00000000:07:1f.1"}, NULL},
	    {{"00000000:07:1f.0x"}, NULL},
	    {{"100000000:07:1f.0"}, NULL},
	    {{"07:1f.0"}, NULL},
	    {{"../../etc/passwd"}, NULL},
	    {{"\033[2J"}, NULL},
	};
	for (size_t i = 0; i < array_length(cases); i++) {
		struct devices_select select = {.gpu_count = 99};
		struct err err = {.code = 0};
		size_t count = 0;
		while (count < array_length(cases[i].texts) && cases[i].texts[count])
			count++;
		int rc = devices_select(&machine, cases[i].texts, count, &select, &err);
		if (!cases[i].expected && (rc != -ENODEV || select.gpu_count != 99))
			fail_msg("'%s': %d", cases[i].texts[0], rc);
		else if (cases[i].expected &&
			 (rc != 0 || strcmp(selected(&select), cases[i].expected) != 0))
			fail_msg("'%s': %d, %s", cases[i].texts[0], rc, selected(&select));
	}
}

static void test_the_wrong_one_is_named(void **state)
{
	struct devices_select select;
	struct err err = {.code = 0};
	char long_id[4096];
	const char *texts[] = {"0,frob,1"};
	assert_int_equal(devices_select(&machine, texts, 1, &select, &err), -ENODEV);
	assert_non_null(strstr(err.text, "device error: frob: unknown device"));

	memset(long_id, '7', sizeof(long_id));
	long_id[sizeof(long_id) - 1] = '\0';
	texts[0] = long_id;
	for (size_t length = 120; length < 300; length++) { /* around the longest that is taken */
		long_id[length] = '\0';
		assert_int_equal(devices_select(&machine, texts, 1, &select, &err), -ENODEV);
		long_id[length] = '7';
	}
	assert_int_equal(devices_select(&machine, texts, 1, &select, &err), -ENODEV);
	assert_non_null(strstr(err.text, "7...: unknown device"));
}

static void test_no_devices(void **state)
{
	static const struct inventory empty = {.gpu_count = 0};
	struct devices_select select;
	const char *texts[] = {"all", "0"};
	assert_int_equal(devices_select(&empty, texts, 1, &select, NULL), 0);
	assert_string_equal(selected(&select), "|*");
	assert_int_equal(devices_select(&empty, texts + 1, 1, &select, NULL), -ENODEV);
	assert_int_equal(devices_select(&machine, NULL, 0, &select, NULL), 0);
	assert_string_equal(selected(&select), "|");
}

static void test_mig_machine(void **state)
{
	static const struct {
		const char *visible, *text;
		int rc;
		bool asked;
	} cases[] = {
	    {"all", "all", 0, true},	  {"0", "All", 0, true},
	    {"0", ",", 0, false},	  {"0:1", "all", -EINVAL, false},
	    {"all", "0", -EINVAL, false}, {"none", "all", 0, true},
	    {"all", "all,0", 0, true},	  {"all", "0,all", -EINVAL, false},
	};
	for (size_t i = 0; i < array_length(cases); i++) {
		struct devices_select select;
		struct err err = {.code = 0};
		bool asked = false;
		assert_int_equal(devices_select(&machine, &cases[i].visible, 1, &select, &err), 0);
		int rc = devices_select_mig(&select, &cases[i].text, 1, "mig-config", &asked, &err);
		if (rc != cases[i].rc || asked != cases[i].asked)
			fail_msg("case %zu: %d, %d", i, rc, asked);
		if (rc < 0)
			assert_non_null(strstr(err.text, "mig-config error: "));
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_ids),
	    cmocka_unit_test(test_the_wrong_one_is_named),
	    cmocka_unit_test(test_no_devices),
	    cmocka_unit_test(test_mig_machine),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
