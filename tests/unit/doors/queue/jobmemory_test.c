/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/jobmemory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit/unit.h"

/* Of this process alone. */
static void instance_of(char out[37])
{
	(void)snprintf(out, 37, "%08x-0000-4000-8000-000000000000", (unsigned)getpid());
}

static void make_file(const char *directory, const char *name)
{
	char path[256];
	(void)snprintf(path, sizeof(path), "%s/%s", directory, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
}

static void removes_what_ranks_left(void **state)
{
	char instance[37], path[JOBMEMORY_PATH_MAX], link[256];
	char outside[] = "/tmp/jobmemory-XXXXXX";
	struct stat status;
	instance_of(instance);
	if (stat("/dev/shm", &status) < 0)
		skip();
	assert_non_null(mkdtemp(outside));
	make_file(outside, "theirs");
	assert_int_equal(jobmemory_make(instance, 2, getuid(), getgid(), path, NULL), 0);
	assert_non_null(strstr(path, instance));
	char again[JOBMEMORY_PATH_MAX];
	assert_int_equal(jobmemory_make(instance, 2, getuid(), getgid(), again, NULL), -EEXIST);
	assert_string_equal(again, ""); /* not ours to remove */
	make_file(path, "w0/segment");
	make_file(path, "file");
	(void)snprintf(link, sizeof(link), "%s/w2", path);
	assert_int_equal(symlink(outside, link), 0);
	jobmemory_remove(instance);
	assert_int_equal(stat(path, &status), -1);
	(void)snprintf(link, sizeof(link), "%s/theirs", outside);
	assert_int_equal(unlink(link), 0); /* it was there: no link is followed */
	assert_int_equal(rmdir(outside), 0);
	jobmemory_remove(instance); /* not there */
	jobmemory_remove("");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(removes_what_ranks_left)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
