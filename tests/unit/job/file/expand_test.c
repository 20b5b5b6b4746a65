/* SPDX-License-Identifier: Apache-2.0 */
#include "job/file/expand.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "unit/unit.h"

static const char *lookup(const char *name, size_t length, const void *context)
{
	static const struct {
		const char *name, *value;
	} known[] = {{"A", "one"}, {"EMPTY", ""}, {"NESTED", "$(A)"}};
	for (size_t i = 0; i < array_length(known); i++)
		if (strlen(known[i].name) == length && strncmp(known[i].name, name, length) == 0)
			return known[i].value;
	return NULL;
}

/* The table of Kubernetes' own documentation and of its expansion's edges. */
static void test_as_kubernetes(void **state)
{
	static const char *const cases[][2] = {
	    {"", ""},
	    {"plain", "plain"},
	    {"$(A)", "one"},
	    {"x$(A)y$(A)", "xoney"
			   "one"},
	    {"$(EMPTY)", ""},
	    {"$(NESTED)", "$(A)"},
	    {"$(MISSING)", "$(MISSING)"},
	    {"$$(A)", "$(A)"},
	    {"$$$(A)", "$one"},
	    {"$$$$", "$$"},
	    {"$A", "$A"},
	    {"$", "$"},
	    {"$(", "$("},
	    {"$(A", "$(A"},
	    {"$()", "$()"},
	    {"$($(A))", "$($(A))"}, /* the first ')' ends the name "$(A" */
	    {"5$ (A)", "5$ (A)"},
	    {"$$", "$"},
	};
	for (size_t i = 0; i < array_length(cases); i++) {
		_cleanup_buf_ struct buf out;
		buf_init(&out, 1000);
		int rc = expand_text(cases[i][0], lookup, NULL, &out);
		assert_int_equal(rc, 0);
		assert_string_equal(buf_text(&out), cases[i][1]);
	}
}

static void test_limit(void **state)
{
	_cleanup_buf_ struct buf out;
	buf_init(&out, 4);
	int rc = expand_text("$(A)$(A)", lookup, NULL, &out);
	assert_int_equal(rc, -ENOSPC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_as_kubernetes),
	    cmocka_unit_test(test_limit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
