/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/require.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

static const struct require_facts here = {
    .cuda = "12.8", .driver = "570.124.06", .has_gpu = true, .arch = "8.0", .brand = "Tesla"};

static json_t *json(const char *text)
{
	json_t *value = json_loads(text, 0, NULL);
	assert_non_null(value);
	return value;
}

static void test_expressions(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		bool is_met;
	} rows[] = {
	    {"", true},
	    {"  \t", true},
	    {"cuda>=12.8", true},
	    {"cuda>=12.8.0", true},
	    {"cuda>12.8", false},
	    {"cuda>12.7.9", true},
	    {"cuda<=12", false},
	    {"cuda=12.8", true},
	    {"cuda=12.08", true},
	    {"cuda!=12.8", false},
	    {"cuda<12.10", true}, /* numbers, not texts */
	    {"cuda<9", false},
	    {"driver>=570,driver<571", true},
	    {"driver<571,driver>=575", false},
	    {"driver=570.124.6", true},
	    {"arch>=7.5", true},
	    {"arch<8", false},
	    {"brand=tesla", true},
	    {"brand=TESLA", true},
	    {"brand!=tesla", false},
	    {"brand=geforce", false},
	    {"cuda>=13.0 brand=tesla,driver>=535,driver<536 brand=tesla,driver>=570,driver<571",
	     true},
	    {"cuda>=13.0  brand=tesla,driver>=535,driver<536", false},
	    {"cuda>=13.0\tcuda>=12", true},
	    {"vgpu>=5", true}, /* nothing is known of it: nothing is required */
	    {"vgpu>=5 cuda>=13", false},
	    {"vgpu>=5,cuda>=12", true},
	    {"vgpu>=5,cuda>=13", false},
	};
	for (size_t i = 0; i < array_length(rows); i++) {
		struct err err = {0};
		bool is_met = !rows[i].is_met;
		if (require_check(rows[i].text, strlen(rows[i].text), &here, &is_met, NULL, &err) <
		    0)
			fail_msg("%s: %s", rows[i].text, err.text);
		if (is_met != rows[i].is_met)
			fail_msg("%s", rows[i].text);
	}
}

static void test_what_is_no_expression(void **state)
{
	(void)state;
	static const char *const bad[] = {
	    "cuda",	 "cuda>=",	">=12",	     "cuda>=12,",  ",cuda>=12", "cuda>=12,,arch>8",
	    "cuda=>12",	 "cuda==12",	"cuda>=v12", "cuda>=12.",  "cuda>=.5",	"cuda>=12..5",
	    "cuda>=1e3", "brand>tesla", "brand>=x",  "driver>=-1", "cuda~12",	"cuda>=99999999999",
	    "brand=",	 "cuda!12",
	};
	for (size_t i = 0; i < array_length(bad); i++) {
		struct err err = {0};
		bool is_met = false;
		int rc = require_check(bad[i], strlen(bad[i]), &here, &is_met, NULL, &err);
		if (rc != -EINVAL || !strstr(err.text, "is no requirement"))
			fail_msg("%s: %d: %s", bad[i], rc, err.text);
	}
	struct err err = {0};
	bool is_met;
	assert_int_equal(require_check("arch>8 cuda>=x", 14, &here, &is_met, NULL, &err), -EINVAL);
	assert_non_null(strstr(err.text, "at byte 7: 'cuda>=x' is no requirement"));
	static char large[REQUIRE_EXPRESSION_MAX + 1];
	memset(large, ' ', sizeof(large));
	assert_int_equal(require_check(large, sizeof(large), &here, &is_met, NULL, &err), -E2BIG);
}

static void test_facts_that_are_not_known(void **state)
{
	(void)state;
	const struct require_facts nothing = {.brand = "Unknown"};
	const struct require_facts vgpu = {.has_gpu = true, .brand = "NvidiaVApps"};
	bool is_met = false;
	/* Without a GPU what is required of one is taken as met. */
	assert_int_equal(require_check("arch>=9,brand=tesla", 19, &nothing, &is_met, NULL, NULL),
			 0);
	assert_true(is_met);
	assert_int_equal(require_check("cuda>=9", 7, &nothing, &is_met, NULL, NULL), 0);
	assert_false(is_met);
	assert_int_equal(require_check("arch!=9", 7, &vgpu, &is_met, NULL, NULL), 0);
	assert_false(is_met);
	assert_int_equal(require_check("brand=vapps", 11, &vgpu, &is_met, NULL, NULL), 0);
	assert_true(is_met);
	assert_int_equal(require_check("brand=NvidiaVApps", 17, &vgpu, &is_met, NULL, NULL), 0);
	assert_true(is_met);
}

static void expect_env(const char *env_text, bool wanted, const char *says)
{
	struct err why = {0}, err = {0};
	bool is_met = !wanted;
	json_auto_t *env = json(env_text);
	if (require_env(env, &here, &is_met, &why, NULL, &err) < 0)
		fail_msg("%s: %s", env_text, err.text);
	if (is_met != wanted || !strstr(why.text, says))
		fail_msg("%s: %s", env_text, why.text);
}

static void test_environments(void **state)
{
	(void)state;
	expect_env("[]", true, "");
	expect_env("[\"NVIDIA_REQUIRE_CUDA=cuda>=12.0\", \"NVIDIA_REQUIRE_X=arch>=8\"]", true, "");
	expect_env(
	    "[\"NVIDIA_REQUIRE_CUDA=cuda>=12.0\", \"NVIDIA_REQUIRE_X=arch>=9\"]", false,
	    "NVIDIA_REQUIRE_X needs 'arch>=9'; here are cuda 12.8, driver 570.124.06, arch 8.0, "
	    "brand Tesla");
	expect_env("[\"NVIDIA_REQUIRE_CUDA=cuda>=13\", \"NVIDIA_DISABLE_REQUIRE=true\"]", true, "");
	expect_env("[\"NVIDIA_REQUIRE_CUDA=cuda>=13\", \"NVIDIA_DISABLE_REQUIRE=0\"]", false,
		   "NVIDIA_REQUIRE_CUDA");
	expect_env("[\"NVIDIA_REQUIRE_JETPACK_HOST_MOUNTS=base-only\", 3, \"NVIDIA_REQUIRE_\"]",
		   true, "");
	/* Of before these variables. */
	expect_env("[\"CUDA_VERSION=8.0.61\"]", true, "");
	expect_env("[\"CUDA_VERSION=12.9.1\"]", false, "CUDA_VERSION needs 'cuda>=12.9'");
	expect_env("[\"CUDA_VERSION=12.9.1\", \"NVIDIA_REQUIRE_CUDA=cuda>=12.8\"]", true, "");
	expect_env("[\"CUDA_VERSION=\"]", true, "");

	struct err why = {0}, err = {0};
	bool is_met = true;
	json_auto_t *env = json("[\"NVIDIA_REQUIRE_CUDA=cuda>x\"]");
	assert_int_equal(require_env(env, &here, &is_met, &why, NULL, &err), -EINVAL);
	assert_non_null(strstr(err.text, "NVIDIA_REQUIRE_CUDA: at byte 0: 'cuda>x'"));
}

static void test_unknown_properties_are_named(void **state)
{
	(void)state;
	_cleanup_buf_ struct buf unknown;
	buf_init(&unknown, 256);
	struct err why = {0}, err = {0};
	bool is_met = false;
	json_auto_t *env = json("[\"NVIDIA_REQUIRE_A=vgpu>=5,cuda>1\", \"NVIDIA_REQUIRE_B=x=y\"]");
	assert_int_equal(require_env(env, &here, &is_met, &why, &unknown, &err), 0);
	assert_true(is_met);
	assert_string_equal(buf_text(&unknown), "vgpu>=5\nx=y\n");
}

static void expect_parsed(const char *text, const char *wanted)
{
	struct err err = {0};
	json_auto_t *list = NULL;
	json_auto_t *want = json(wanted);
	if (require_env_parse(text, strlen(text), &list, &err) < 0)
		fail_msg("%s: %s", text, err.text);
	if (!json_equal(list, want))
		fail_msg("%s: %s", text, json_dumps(list, 0));
}

static void test_environments_that_people_have(void **state)
{
	(void)state;
	expect_parsed("", "[]");
	expect_parsed("A=1\n# not this\n\nB=2", "[\"A=1\", \"B=2\"]");
	expect_parsed(" [\"A=1\"]", "[\"A=1\"]");
	expect_parsed("[]", "[]");
	expect_parsed("[{\"Id\": 1.5, \"Config\": {\"Env\": [\"A=1\"]}}, {}]", "[\"A=1\"]");
	expect_parsed("{\"Env\": [\"A=1\"]}\n", "[\"A=1\"]");
	static const char *const bad[] = {"{}", "[{}]", "[1", "{\"Env\": 3}", "[], []", "A=\xff"};
	for (size_t i = 0; i < array_length(bad); i++) {
		json_t *list = NULL;
		int rc = require_env_parse(bad[i], strlen(bad[i]), &list, NULL);
		if (rc != -EINVAL || list)
			fail_msg("%s: %d", bad[i], rc);
	}
}

static void test_facts(void **state)
{
	(void)state;
	_cleanup_inventory_ struct inventory inventory;
	inventory_init(&inventory);
	inventory.cuda_version = 13010;
	memcpy(inventory.driver_version, "580.82", 7);
	struct require_facts facts;
	require_facts_of(&inventory, NULL, &facts);
	assert_string_equal(facts.cuda, "13.1");
	assert_string_equal(facts.driver, "580.82");
	assert_false(facts.has_gpu);
	const struct gpu gpu = {.cc_major = 9, .cc_minor = 0, .brand = 5};
	require_facts_of(&inventory, &gpu, &facts);
	assert_true(facts.has_gpu);
	assert_string_equal(facts.arch, "9.0");
	assert_string_equal(facts.brand, "GeForce");
	const struct gpu odd = {
	    .cc_major = GPU_U32_UNKNOWN, .cc_minor = GPU_U32_UNKNOWN, .brand = GPU_U32_UNKNOWN};
	inventory.cuda_version = 0;
	require_facts_of(&inventory, &odd, &facts);
	assert_string_equal(facts.arch, "");
	assert_string_equal(facts.cuda, "");
	assert_string_equal(facts.brand, "Unknown");
}

static int lines_again(void *context)
{
	json_auto_t *list = NULL;
	return require_env_parse(context, strlen(context), &list, NULL);
}

static void test_without_memory(void **state)
{
	(void)state;
	assert_true(failmalloc_each(lines_again, (void *)(uintptr_t) "# A\n\n") > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_expressions),
	    cmocka_unit_test(test_what_is_no_expression),
	    cmocka_unit_test(test_facts_that_are_not_known),
	    cmocka_unit_test(test_environments),
	    cmocka_unit_test(test_unknown_properties_are_named),
	    cmocka_unit_test(test_environments_that_people_have),
	    cmocka_unit_test(test_facts),
	    cmocka_unit_test(test_without_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
