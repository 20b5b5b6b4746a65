/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "cdi/runtime/wrapper.h"
#include "tests/unit/unit.h"

/* Words separated by blanks. */
static struct wrapper_call call_of(char *line)
{
	char *words[32] = {NULL};
	int count = 0;
	for (char *at = strtok(line, " "); at && count < 31; at = strtok(NULL, " "))
		words[count++] = at;
	struct wrapper_call call;
	wrapper_call_parse(count, words, &call);
	return call;
}

static void test_where_the_bundle_is(void **state)
{
	(void)state;
	static const struct {
		const char *line;
		const char *bundle; /* NULL: nothing is started */
		const char *config;
	} rows[] = {
	    {"x create --bundle /b id", "/b", "config.json"},
	    {"x create --bundle=/b id", "/b", "config.json"},
	    {"x create -b /b id", "/b", "config.json"},
	    {"x create -b=/b id", "/b", "config.json"},
	    {"x create -b/b id", "/b", "config.json"},
	    {"x create -bundle /b id", "/b", "config.json"},
	    {"x run id", ".", "config.json"},
	    {"x run id --bundle /b", "/b", "config.json"},
	    {"x run --bundle", ".", "config.json"},
	    {"x run --pid-file --bundle -b /b id", "/b", "config.json"},
	    {"x run --preserve-fds=3 --detach -b /b id", "/b", "config.json"},
	    {"x run -- --bundle /b", ".", "config.json"},
	    {"x --root /create --log run create -b /b id", "/b", "config.json"},
	    {"x --root=/create --debug --systemd-cgroup create -b /b id", "/b", "config.json"},
	    {"x --log-format json --rootless true run -b /b id", "/b", "config.json"},
	    {"x --unknown value create -b /b id", "/b", "config.json"},
	    {"x run -b /b --config /c.json id", "/b", "/c.json"},
	    {"x run -f other.json id", ".", "other.json"},
	    {"x delete --force create", NULL, NULL},
	    {"x state run", NULL, NULL},
	    {"x exec create ls", NULL, NULL},
	    {"x --version", NULL, NULL},
	    {"x", NULL, NULL},
	    {"x --root create", NULL, NULL},
	    {"x spec --bundle /b", NULL, NULL},
	};
	for (size_t i = 0; i < array_length(rows); i++) {
		char line[256];
		(void)snprintf(line, sizeof(line), "%s", rows[i].line);
		struct wrapper_call call = call_of(line);
		if (call.is_start != (rows[i].bundle != NULL))
			fail_msg("%s", rows[i].line);
		if (!call.is_start)
			continue;
		assert_string_equal(call.bundle, rows[i].bundle);
		assert_string_equal(call.config, rows[i].config);
	}
	/* What is no command line at all. */
	struct wrapper_call call;
	wrapper_call_parse(0, (char *[]){NULL}, &call);
	assert_false(call.is_start);
	char dashes[] = "x - -- --= create --";
	assert_true(call_of(dashes).is_start);
}

static void test_where_the_log_is(void **state)
{
	(void)state;
	char line[] = "x --log=/l --log-format json create id";
	struct wrapper_call call = call_of(line);
	assert_string_equal(call.log, "/l");
	assert_string_equal(call.log_format, "json");
	assert_string_equal(call.command, "create");
	char plain[] = "x kill --log /l";
	call = call_of(plain);
	assert_null(call.log);
	assert_string_equal(call.log_format, "text");
}

static void test_lines_of_the_log(void **state)
{
	(void)state;
	_cleanup_buf_ struct buf line;
	buf_init(&line, 256);
	assert_int_equal(wrapper_log_line("json", "a \"b\"\n\xff", 1700000000, &line), 0);
	assert_string_equal(buf_text(&line), "{\"level\":\"error\",\"msg\":\"a \\\"b\\\"\\n\xef\xbf"
					     "\xbd\",\"time\":\"2023-11-14T22:13:20Z\"}\n");
	buf_clear(&line);
	assert_int_equal(wrapper_log_line("text", "a", 0, &line), 0);
	assert_string_equal(buf_text(&line),
			    "time=\"1970-01-01T00:00:00Z\" level=error msg=\"a\"\n");
	buf_clear(&line);
	line.max = 20;
	assert_int_equal(wrapper_log_line("text", "a", 0, &line), -ENOSPC);
}

static void put_program(const char *path, mode_t mode)
{
	unit_write(path, "#!/bin/sh\n");
	assert_int_equal(chmod(path, mode), 0);
}

static void test_finds_the_runtime(void **state)
{
	(void)state;
	char *top = unit_tmp_new(), out[FILE_PATH_MAX], path[512];
	struct err err = {0};
	assert_int_equal(mkdir(unit_path(top, "a"), 0755), 0);
	assert_int_equal(mkdir(unit_path(top, "b"), 0755), 0);
	assert_int_equal(mkdir(unit_path(top, "a/crun"), 0755), 0);
	(void)snprintf(path, sizeof(path), "relative::%s/a:%s/b", top, top);
	assert_int_equal(wrapper_find_runtime("runc,crun", path, -1, out, &err), -ENOENT);
	assert_non_null(strstr(err.text, "none of 'runc,crun'"));
	assert_int_equal(wrapper_find_runtime("", path, -1, out, &err), -ENOENT);

	put_program(unit_path(top, "b/crun"), 0755);
	put_program(unit_path(top, "a/runc"), 0644);
	if (geteuid() != 0 || access(unit_path(top, "a/runc"), X_OK) < 0) {
		assert_int_equal(wrapper_find_runtime("runc,crun", path, -1, out, &err), 0);
		assert_string_equal(out, unit_path(top, "b/crun"));
	}
	/* By whatever link, never this program itself. */
	put_program(unit_path(top, "self"), 0755);
	assert_int_equal(symlink("../self", unit_path(top, "b/runc")), 0);
	assert_int_equal(wrapper_find_runtime("runc,crun", path, -1, out, &err), 0);
	assert_string_equal(out, unit_path(top, "b/runc"));
	_cleanup_close_ int self = open(unit_path(top, "self"), O_PATH | O_CLOEXEC);
	assert_true(self >= 0);
	assert_int_equal(wrapper_find_runtime("runc,crun", path, self, out, &err), 0);
	assert_string_equal(out, unit_path(top, "b/crun"));

	char runtimes[512];
	(void)snprintf(runtimes, sizeof(runtimes), "./b/crun,%s/b/crun", top);
	assert_int_equal(wrapper_find_runtime(runtimes, "/nowhere", -1, out, &err), 0);
	assert_string_equal(out, unit_path(top, "b/crun"));
	assert_int_equal(wrapper_find_runtime("sh", "", -1, out, &err), 0);
	top = unit_tmp_free(top);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_where_the_bundle_is),
	    cmocka_unit_test(test_where_the_log_is),
	    cmocka_unit_test(test_lines_of_the_log),
	    cmocka_unit_test(test_finds_the_runtime),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
