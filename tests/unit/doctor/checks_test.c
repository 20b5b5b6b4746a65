/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/checks.h"

#include "doctor/doctor.h"
#include "tests/unit/unit.h"

static void rows(void **state)
{
	(void)state;
	for (size_t i = 0; i < doctor_check_count; i++) {
		const struct doctor_check *check = &doctor_checks[i];
		assert_true(check->help && check->why && check->run && check->purposes);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(check->id, doctor_checks[k].id);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(rows)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
