/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/container/edits.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "cdi/scan.h"
#include "libexec/container/words.h"
#include "unit/unit.h"

/* The options for the devices "x.y/gpu=0" and then "1" of a file with these edits for all and of
 * the first. */
static int given(const char *all, const char *first, const char **out, struct err *err)
{
	static char text[4096];
	char *tmp = unit_tmp_new(), document[4096];
	(void)snprintf(document, sizeof(document),
		       "{\"cdiVersion\": \"0.7.0\", \"kind\": \"x.y/gpu\", \"containerEdits\": "
		       "{%s}, \"devices\": [{\"name\": \"0\", \"containerEdits\": {%s}}, "
		       "{\"name\": \"1\", \"containerEdits\": {\"env\": [\"ONE=1\"]}}]}",
		       all, first);
	unit_write(unit_path(tmp, "x.json"), document);
	const char *directories[] = {tmp};
	_cleanup_scan_ struct scan scan = {.count = 0};
	assert_int_equal(scan_read_directories(directories, 1, &scan, NULL), 0);
	struct words line = {.count = 0};
	char **argv = NULL;
	words_add(&line, "docker");
	struct edits edits = {.scan = &scan, .line = &line};
	int result = edits_add(&edits, "x.y/gpu=0", err);
	if (result == 0)
		result = edits_add(&edits, "x.y/gpu=1", err);
	assert_int_equal(words_take(&line, &argv, NULL), 0);
	text[0] = '\0';
	for (char **at = argv + 1; *at; at++)
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s",
			       at == argv + 1 ? "" : " ", *at);
	words_free(argv);
	*out = text;
	tmp = unit_tmp_free(tmp);
	return result;
}

static void each_by_its_own_option(void **state)
{
	const char *out;
	struct err err = {0};
	assert_int_equal(
	    given(
		"\"env\": [\"A=b c\"], \"deviceNodes\": [{\"path\": \"/dev/ctl\"}], \"mounts\": "
		"[{\"hostPath\": \"/l/a.so\", \"containerPath\": \"/usr/a.so\", \"options\": "
		"[\"ro\", \"bind\"]}, {\"hostPath\": \"/s\", \"containerPath\": \"/s\"}]",
		"\"additionalGids\": [44], \"deviceNodes\": [{\"path\": \"/dev/ctl\"}, {\"path\": "
		"\"/dev/g\", \"hostPath\": \"/x/g\", \"permissions\": \"rw\"}]",
		&out, &err),
	    0);
	assert_string_equal(
	    out, "--env=A=b c --device=/dev/ctl:/dev/ctl:rwm "
		 "--mount=type=bind,source=/l/a.so,target=/usr/a.so,readonly "
		 "--mount=type=bind,source=/s,target=/s --device=/x/g:/dev/g:rw --group-add=44 "
		 "--env=ONE=1");
}

static void what_docker_has_no_option_for(void **state)
{
	const char *out;
	struct err err = {0};
	static const char *const bad[][2] = {
	    {"\"hooks\": [{\"hookName\": \"poststop\", \"path\": \"/x\"}]", "it has 'hooks'"},
	    {"\"deviceNodes\": [{\"path\": \"/dev/a:b\"}]", "'/dev/a:b'"},
	    {"\"deviceNodes\": [{\"path\": \"/dev/a\", \"hostPath\": \"/a,b\"}]", "'/a,b'"},
	    {"\"mounts\": [{\"hostPath\": \"/a,readonly\", \"containerPath\": \"/b\"}]",
	     "'/a,readonly'"},
	    {"\"mounts\": [{\"hostPath\": \"/a\", \"containerPath\": \"/b\\\"\"}]", "'/b\"'"},
	    {"\"mounts\": [{\"hostPath\": \"/t\", \"containerPath\": \"/t\", \"type\": \"tmpfs\"}]",
	     "tmpfs"},
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_int_equal(given("\"env\": [\"A=1\"]", bad[i][0], &out, &err), -ENOTSUP);
		assert_non_null(strstr(err.text, bad[i][1]));
		assert_non_null(strstr(err.text, "giving 'x.y/gpu=0' to docker"));
		assert_int_equal(given(bad[i][0], "\"env\": [\"A=1\"]", &out, &err), -ENOTSUP);
	}
}

static void a_device_that_is_not_there(void **state)
{
	struct err err = {0};
	struct words line = {.count = 0};
	const struct scan scan = {.count = 0};
	struct edits edits = {.scan = &scan, .line = &line};
	assert_int_equal(edits_add(&edits, "x.y/gpu=0", &err), -ENODEV);
	assert_non_null(strstr(err.text, "x.y/gpu=0"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_by_its_own_option),
	    cmocka_unit_test(what_docker_has_no_option_for),
	    cmocka_unit_test(a_device_that_is_not_there),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
