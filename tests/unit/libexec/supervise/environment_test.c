/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "job/jobenv.h"
#include "libexec/supervise/environment.h"
#include "unit/unit.h"

static bool has(char *const *environment, const char *variable)
{
	for (; *environment; environment++)
		if (strcmp(*environment, variable) == 0)
			return true;
	return false;
}

static void a_part_of_the_grants(void **state)
{
	static struct launch launch;
	struct launch_grant grants[3] = {0};
	char *own[] = {(char *)"HOME=/h", (char *)"OMPI_X=1", NULL}, **made = NULL;
	struct err err;
	launch_init(&launch);
	for (int i = 0; i < 3; i++)
		(void)snprintf(grants[i].uuid, sizeof(grants[i].uuid), "GPU-%d", i);
	launch.id = 7;
	launch.attempt = 2;
	launch.grants = grants;
	launch.grant_count = 3;
	launch.spec.environment = own;
	(void)snprintf(launch.instance, sizeof(launch.instance), "i");
	assert_int_equal(environment_make(&launch, 1, 2, &made, &err), 0);
	assert_true(has(made, "CUDA_VISIBLE_DEVICES=GPU-1,GPU-2"));
	assert_true(has(made, "SLUICE_JOB_ID=7"));
	assert_true(has(made, "SLUICE_ATTEMPT=2"));
	assert_true(has(made, "SLUICE_JOB_INSTANCE=i"));
	assert_true(has(made, "HOME=/h"));
	assert_false(has(made, "OMPI_X=1"));
	made = jobenv_free(made);
	launch.spec.environment = NULL;
	assert_int_equal(environment_make(&launch, 0, 0, &made, &err), 0);
	assert_true(has(made, "CUDA_VISIBLE_DEVICES="));
	made = jobenv_free(made);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_part_of_the_grants),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
