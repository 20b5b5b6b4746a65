/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/jobs/shares.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/loop.h"
#include "unit/unit.h"

enum { ALICE = 1000, BOB = 1001 };

static bool find(const char *name, size_t length, uid_t *out, void *context)
{
	*out = ALICE;
	return length == 5 && memcmp(name, "alice", 5) == 0;
}

static size_t parse(const char *text, struct account_range out[8])
{
	return shares_parse(text, strlen(text), find, NULL, out, 8);
}

static void test_lines(void **state)
{
	struct account_range ranges[8];
	assert_int_equal(parse("alice:100000:65536\n1001:165536:10\ngone:300000:1", ranges), 3);
	assert_int_equal(ranges[0].owner, ALICE);
	assert_int_equal(ranges[0].first, 100000);
	assert_int_equal(ranges[0].count, 65536);
	assert_int_equal(ranges[1].owner, BOB);
	/* Nobody knows whose: it is one user all the same. */
	assert_int_equal(ranges[2].owner, 300000);
	/* Containers of root's are not root. */
	assert_int_equal(parse("0:400000:65536\n", ranges), 1);
	assert_int_equal(ranges[0].owner, 400000);
}

static void test_lines_that_say_nothing(void **state)
{
	struct account_range ranges[8];
	assert_int_equal(parse("\n#alice:1:1:1\nalice\nalice:1\nalice::\n:1:1\nalice:x:1\n"
			       "alice:1:0\nalice:0:10\nalice:4294967295:1\nalice:4294967290:10\n"
			       "alice:1:1:1\nalice: 1:1\n",
			       ranges),
			 0);
	assert_int_equal(parse("alice:4294967290:5\n", ranges), 1);
	assert_int_equal(
	    parse("1:1:1\n2:2:1\n3:3:1\n4:4:1\n5:5:1\n6:6:1\n7:7:1\n8:8:1\n9:9:1\n", ranges), 8);
}

static void write_file(const char *directory, const char *name, const char *text)
{
	char path[FILE_PATH_MAX];
	assert_int_equal(file_path(path, NULL, "%s/%s", directory, name), 0);
	assert_int_equal(file_write_atomic(path, text, strlen(text), 0644, NULL), 0);
}

static void test_the_file_may_change(void **state)
{
	char directory[] = "/tmp/sluice-shares-XXXXXX", path[FILE_PATH_MAX], passwd[FILE_PATH_MAX];
	assert_non_null(mkdtemp(directory));
	assert_int_equal(file_path(path, NULL, "%s/etc", directory), 0);
	assert_int_equal(file_path(passwd, NULL, "%s/passwd", directory), 0);
	assert_int_equal(mkdir(path, 0755), 0);
	write_file(directory, "passwd",
		   "root:x:0:0::/:/bin/sh\nbob:x:1001:1001::/:/bin/sh\n"
		   "alice:x:1000:1000::/:/bin/sh\n");
	write_file(directory, "etc/subuid", "alice:100000:65536\n");
	struct loop *loop = loop_new(LOOP_REAL, NULL);
	assert_non_null(loop);
	struct shares *shares = shares_new(loop, NULL, directory, passwd, NULL);
	assert_non_null(shares);
	struct account *account = shares_account(shares);
	assert_int_equal(account_owner(account, 100005), ALICE);
	write_file(directory, "etc/subuid", "alice:300000:65536\nbob:100000:65536\n");
	for (int i = 0; i < 1000 && account_owner(account, 100005) != BOB; i++)
		assert_int_equal(loop_pass(loop, 10000000, NULL), 0);
	assert_int_equal(account_owner(account, 100005), BOB);
	assert_int_equal(account_owner(account, 300000), ALICE);

	shares = shares_free(shares);
	loop = loop_free(loop);
	(void)unlink(passwd);
	assert_int_equal(file_path(passwd, NULL, "%s/etc/subuid", directory), 0);
	(void)unlink(passwd);
	(void)rmdir(path);
	(void)rmdir(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_lines),
	    cmocka_unit_test(test_lines_that_say_nothing),
	    cmocka_unit_test(test_the_file_may_change),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
