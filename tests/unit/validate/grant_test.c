/* SPDX-License-Identifier: Apache-2.0 */
#include "validate/grant.h"

#include <string.h>

#include "bench/checks.h"
#include "unit/unit.h"

#define A "GPU-aaaaaaaa-0000-0000-0000-000000000000"
#define B "GPU-bbbbbbbb-0000-0000-0000-000000000000"
#define M "MIG-cccccccc-0000-0000-0000-000000000000"

struct row {
	const char *environment[4]; /* ends in NULL */
	const char *seen[3];
	enum check_status status;
	const char *reason; /* a part */
};

static const struct row rows[] = {
    {{NULL}, {A, B}, CHECK_SKIP, "nothing in the environment"},
    {{"NVIDIA_VISIBLE_DEVICES=all"}, {A, B}, CHECK_SKIP, "nothing"},
    {{"NVIDIA_VISIBLE_DEVICES=void"}, {A}, CHECK_SKIP, "nothing"},
    {{"NVIDIA_VISIBLE_DEVICES="}, {A}, CHECK_SKIP, "nothing"},
    {{"NVIDIA_VISIBLE_DEVICES=/var/run/nvidia-container-devices"}, {A}, CHECK_SKIP, "nothing"},
    {{"NVIDIA_VISIBLE_DEVICES=" A}, {A}, CHECK_PASS, "1 in sight"},
    {{"NVIDIA_VISIBLE_DEVICES=" A}, {A, B}, CHECK_FAIL, B " is in sight"},
    {{"NVIDIA_VISIBLE_DEVICES=" A}, {B}, CHECK_FAIL, B " is in sight"},
    {{"NVIDIA_VISIBLE_DEVICES=" A "," B}, {A}, CHECK_FAIL, "names 2"},
    {{"NVIDIA_VISIBLE_DEVICES=" A "," B}, {NULL}, CHECK_FAIL, "0 GPUs are in sight"},
    /* replicas of time slicing */
    {{"NVIDIA_VISIBLE_DEVICES=" A "::0," A "::1"}, {A}, CHECK_PASS, "1 in sight"},
    {{"NVIDIA_VISIBLE_DEVICES=" A "," A}, {A}, CHECK_PASS, "1 in sight"},
    {{"NVIDIA_VISIBLE_DEVICES=" M}, {M}, CHECK_PASS, "1 in sight"},
    {{"NVIDIA_VISIBLE_DEVICES=" M}, {"GPU-cccccccc-0000-0000-0000-000000000000"}, CHECK_PASS, "1"},
    /* the service's word counts before a runtime's */
    {{"NVIDIA_VISIBLE_DEVICES=void", "SLUICE_GPUS=" A}, {A}, CHECK_PASS, "SLUICE_GPUS"},
    {{"NVIDIA_VISIBLE_DEVICES=" B, "SLUICE_GPUS=" A}, {B}, CHECK_FAIL, "SLUICE_GPUS"},
    /* indices: only the number counts */
    {{"NVIDIA_VISIBLE_DEVICES=0,1"}, {A, B}, CHECK_PASS, "2 in sight"},
    {{"NVIDIA_VISIBLE_DEVICES=0,1"}, {A}, CHECK_FAIL, "names 2"},
    /* a user's choice among what was given */
    {{"NVIDIA_VISIBLE_DEVICES=" A "," B, "CUDA_VISIBLE_DEVICES=0"}, {A}, CHECK_PASS, "CUDA_"},
    {{"NVIDIA_VISIBLE_DEVICES=" A, "CUDA_VISIBLE_DEVICES=1"}, {B}, CHECK_FAIL, "NVIDIA_"},
    {{"CUDA_VISIBLE_DEVICES=GPU-aaaa"}, {A}, CHECK_PASS, "1 in sight"},
    {{"CUDA_VISIBLE_DEVICES=GPU-aaaa"}, {B}, CHECK_FAIL, "is in sight"},
    {{"CUDA_VISIBLE_DEVICES=0,1"}, {A}, CHECK_FAIL, "names 2"},
    {{"CUDA_VISIBLE_DEVICES="}, {NULL}, CHECK_PASS, "0 in sight"},
};

static void each_environment(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct check check = {.status = CHECK_PASS};
		static struct grant grant;
		uint32_t count = 0;
		while (count < 3 && rows[i].seen[count])
			count++;
		grant_read((char *const *)(uintptr_t)rows[i].environment, &grant);
		grant_judge(&grant, rows[i].seen, count, &check);
		if (check.status != rows[i].status || !strstr(check.reason, rows[i].reason))
			fail_msg("row %zu: %s '%s'", i, check_status_to_string(check.status),
				 check.reason);
	}
}

/* A list without end, and names without end, stay within their limits. */
static void long_lists(void **state)
{
	static char text[70000] = "NVIDIA_VISIBLE_DEVICES=";
	static struct grant grant;
	char *environment[] = {text, NULL};
	(void)state;
	memset(text + strlen(text), 'x', 60000);
	grant_read(environment, &grant);
	assert_int_equal(grant.given.count, 0);
	for (size_t i = 23; i + 4 < sizeof(text); i += 4)
		memcpy(text + i,
		       (char[]){(char)('a' + i % 23), (char)('a' + i / 23 % 23),
				(char)('a' + i / 529 % 23), ','},
		       4);
	grant_read(environment, &grant);
	assert_int_equal(grant.given.count, GRANT_MAX);
}

static void same_devices(void **state)
{
	(void)state;
	assert_true(grant_is_same(A, A));
	assert_true(grant_is_same(A, "GPU-AAAAaaaa"));
	assert_false(grant_is_same(A, "GPU-"));
	assert_false(grant_is_same(A, "GPU-aaa"));
	assert_false(grant_is_same(A, B));
	assert_false(grant_is_same(A, "0"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_environment),
	    cmocka_unit_test(long_lists),
	    cmocka_unit_test(same_devices),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
