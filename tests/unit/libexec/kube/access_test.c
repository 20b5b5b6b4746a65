/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/kube/access.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

static int rig_set_up(void **state)
{
	*state = unit_tmp_new();
	return 0;
}

static int rig_tear_down(void **state)
{
	*state = unit_tmp_free(*state);
	return 0;
}

static void test_a_pod(void **state)
{
	const char *directory = *state;
	struct access_options options = {
	    .directory = directory, .host = "10.0.0.1", .port = "6443"};
	struct access access;
	struct err err = {0};
	unit_write(unit_path(directory, "token"), "secret\n");
	assert_int_equal(access_load(&options, &access, &err), -ENOENT);
	assert_non_null(strstr(err.text, "ca.crt"));
	unit_write(unit_path(directory, "ca.crt"), "x");
	assert_int_equal(access_load(&options, &access, &err), 0);
	assert_string_equal(access.server, "https://10.0.0.1:6443");
	assert_string_equal(access.token, "secret");
	assert_string_equal(access.ca, unit_path(directory, "ca.crt"));
	assert_false(access.insecure);
	access_done(&access);
	assert_null(access.token);
	options.host = "fd00::1";
	options.port = NULL;
	assert_int_equal(access_load(&options, &access, &err), 0);
	assert_string_equal(access.server, "https://[fd00::1]:443");
	access_done(&access);
	options.port = "http";
	assert_int_equal(access_load(&options, &access, &err), -EINVAL);
	options.port = "443";
	options.host = "evil/ path";
	assert_int_equal(access_load(&options, &access, &err), -EINVAL);
	options.host = "";
	assert_int_equal(access_load(&options, &access, &err), -EINVAL);
	assert_non_null(strstr(err.text, "--kubeconfig"));
}

static void test_a_kubeconfig(void **state)
{
	const char *directory = *state;
	const struct access_options options = {.kubeconfig = unit_path(directory, "config")};
	struct access access;
	struct err err = {0};
	struct buf text;
	assert_int_equal(access_load(&options, &access, &err), -ENOENT);
	unit_write(unit_path(directory, "config"),
		   "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
		   "clusters: [{name: c, cluster: {server: https://a, certificate-authority-data: "
		   "aGVsbG8=}}]\n"
		   "users: [{name: u, user: {tokenFile: token, client-certificate: c.crt, "
		   "client-key-data: YWI=}}]\n");
	assert_int_equal(access_load(&options, &access, &err), -ENOENT);
	assert_non_null(strstr(err.text, "c.crt"));
	unit_write(unit_path(directory, "c.crt"), "c");
	unit_write(unit_path(directory, "token"), "one two");
	assert_int_equal(access_load(&options, &access, &err), -EINVAL);
	assert_non_null(strstr(err.text, unit_path(directory, "token")));
	unit_write(unit_path(directory, "token"), "");
	assert_int_equal(access_load(&options, &access, &err), -EINVAL);
	unit_write(unit_path(directory, "token"), "one\r\n");
	assert_int_equal(access_load(&options, &access, &err), 0);
	assert_string_equal(access.token, "one");
	assert_string_equal(access.certificate, unit_path(directory, "c.crt"));
	/* What stood in the file itself can be read as a file. */
	assert_int_equal(access.fd_count, 2);
	buf_init(&text, 100);
	assert_int_equal(file_read(access.ca, &text, &err), 0);
	assert_string_equal(buf_text(&text), "hello");
	buf_clear(&text);
	assert_int_equal(file_read(access.key, &text, &err), 0);
	assert_string_equal(buf_text(&text), "ab");
	buf_done(&text);
	access_done(&access);
	assert_int_equal(access.fd_count, 0);
}

static int rig_scenario(void *context)
{
	struct access access;
	struct err err = {0};
	int result = access_load(context, &access, &err);
	if (result == 0)
		access_done(&access);
	return result;
}

static void test_no_memory(void **state)
{
	const char *directory = *state;
	struct access_options options = {.directory = directory, .host = "a"};
	unit_write(unit_path(directory, "token"), "secret\n");
	unit_write(unit_path(directory, "ca.crt"), "x");
	assert_true(failmalloc_each(rig_scenario, &options) > 0);
	unit_write(unit_path(directory, "config"),
		   "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
		   "clusters: [{name: c, cluster: {server: https://a}}]\n"
		   "users: [{name: u, user: {tokenFile: token}}]\n");
	options.kubeconfig = unit_path(directory, "config");
	assert_true(failmalloc_each(rig_scenario, &options) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_a_pod, rig_set_up, rig_tear_down),
	    cmocka_unit_test_setup_teardown(test_a_kubeconfig, rig_set_up, rig_tear_down),
	    cmocka_unit_test_setup_teardown(test_no_memory, rig_set_up, rig_tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
