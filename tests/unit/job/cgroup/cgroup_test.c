/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "job/cgroup/cgroup.h"
#include "unit/unit.h"

/* Where this machine has a cgroup2 file system that we may write; NULL: nowhere. */
static const char *root_of_machine(void)
{
	static const char *const roots[] = {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"};
	for (size_t i = 0; i < array_length(roots); i++) {
		struct cgroup cgroup = CGROUP_NONE;
		char name[64];
		(void)snprintf(name, sizeof(name), "sluice-unit-probe-%d", (int)getpid());
		if (cgroup_create(roots[i], name, &cgroup, NULL) < 0)
			continue;
		int result = cgroup_remove(&cgroup, NULL);
		cgroup_close(&cgroup);
		if (result == 0)
			return roots[i];
	}
	return NULL;
}

static void make(struct cgroup *out)
{
	const char *root = root_of_machine();
	if (!root) {
		print_message("skipped: no cgroup2 directory that may be written\n");
		skip();
	}
	char name[64];
	(void)snprintf(name, sizeof(name), "sluice-unit-%d", (int)getpid());
	struct err err = {0};
	if (cgroup_create(root, name, out, &err) < 0)
		fail_msg("%s", err.text);
}

/* A process in the group that only SIGKILL ends; it starts `more` others. */
static pid_t enter(const struct cgroup *cgroup, int more)
{
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)signal(SIGTERM, SIG_IGN);
		int result = cgroup_join(cgroup);
		for (int i = 0; i < more; i++)
			if (fork() == 0)
				break;
		(void)!write(ends[1], &result, sizeof(result));
		for (;;)
			(void)pause();
	}
	(void)close(ends[1]);
	for (int i = 0; i <= more; i++) {
		int result = -1;
		assert_int_equal(read(ends[0], &result, sizeof(result)), sizeof(result));
		assert_int_equal(result, 0);
	}
	(void)close(ends[0]);
	return pid;
}

static void wait_until_empty(const struct cgroup *cgroup)
{
	_cleanup_close_ int fd = cgroup_watch(cgroup, NULL);
	assert_true(fd >= 0);
	uint64_t end_ns = unit_now_ns() + UINT64_C(10000000000);
	while (cgroup_is_populated(cgroup, NULL) == 1) {
		char text[256];
		struct pollfd wait = {.fd = fd, .events = POLLPRI};
		assert_true(unit_now_ns() < end_ns);
		(void)poll(&wait, 1, 1000);
		(void)!pread(fd, text, sizeof(text), 0);
	}
	assert_int_equal(cgroup_is_populated(cgroup, NULL), 0);
}

static void kills_with(int (*kill_)(const struct cgroup *, struct err *))
{
	struct cgroup cgroup = CGROUP_NONE;
	make(&cgroup);
	assert_int_equal(cgroup_is_populated(&cgroup, NULL), 0);
	pid_t pid = enter(&cgroup, 5);
	/* The job may make groups of its own below. */
	struct cgroup inner = CGROUP_NONE;
	assert_int_equal(cgroup_create(cgroup.path, "inner", &inner, NULL), 0);
	pid_t deep = enter(&inner, 0);
	size_t count = 0;
	assert_int_equal(cgroup_count(&cgroup, &count, NULL), 0);
	assert_int_equal(count, 7);
	assert_int_equal(cgroup_is_populated(&cgroup, NULL), 1);
	assert_int_equal(cgroup_remove(&cgroup, NULL), -EBUSY);

	struct cgroup again = CGROUP_NONE;
	char root[CGROUP_PATH_MAX];
	(void)snprintf(root, sizeof(root), "%s", cgroup.path);
	char *name = strrchr(root, '/');
	*name++ = '\0';
	assert_int_equal(cgroup_create(root, name, &again, NULL), -EBUSY);
	assert_int_equal(cgroup_open(cgroup.path, &again, NULL), 0);
	assert_int_equal(kill_(&again, NULL), 0);
	cgroup_close(&again);
	wait_until_empty(&cgroup);
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_int_equal(waitpid(deep, NULL, 0), deep);
	assert_int_equal(cgroup_remove(&cgroup, NULL), 0);
	assert_int_not_equal(access(cgroup.path, F_OK), 0);
	assert_int_equal(cgroup_remove(&cgroup, NULL), 0);
	assert_int_equal(cgroup_is_populated(&cgroup, NULL), -ENODEV);
	cgroup_close(&cgroup);
	cgroup_close(&inner);
}

static void all_in_it_and_below_are_killed(void **state)
{
	kills_with(cgroup_kill);
}

/* kill(2) as the code under test calls it. */
int __real_kill(pid_t pid, int signal_number);
int __wrap_kill(pid_t pid, int signal_number);

static unsigned numbers_killed;

int __wrap_kill(pid_t pid, int signal_number)
{
	numbers_killed++;
	return __real_kill(pid, signal_number);
}

static void an_old_kernel_kills_them_frozen(void **state)
{
	numbers_killed = 0;
	kills_with(cgroup_kill_frozen);
	assert_int_equal(numbers_killed, 0); /* a number may be a stranger's by then */
}

static void other_directories_are_no_cgroups(void **state)
{
	struct cgroup cgroup = CGROUP_NONE;
	char *tmp = unit_tmp_new();
	struct err err = {0};
	assert_int_equal(cgroup_create(tmp, "x", &cgroup, &err), -EMEDIUMTYPE);
	assert_non_null(strstr(err.text, "not in a cgroup2 file system"));
	assert_int_not_equal(access(unit_path(tmp, "x"), F_OK), 0);
	assert_int_equal(cgroup_open(unit_path(tmp, "y"), &cgroup, &err), -ENOENT);
	char path[CGROUP_PATH_MAX + 1];
	memset(path, 'x', sizeof(path));
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(cgroup_open(path, &cgroup, &err), -ENAMETOOLONG);
	(void)unit_tmp_free(tmp);
}

static int parse(const char *text, struct cgroup_events *out)
{
	return cgroup_parse_events(text, strlen(text), out, NULL);
}

static void events_are_read(void **state)
{
	struct cgroup_events events;
	assert_int_equal(parse("populated 1\nfrozen 0\n", &events), 0);
	assert_true(events.populated && !events.frozen);
	assert_int_equal(parse("later 5\nfrozen 1\npopulated 0\n", &events), 0);
	assert_true(!events.populated && events.frozen);
	static const char *const bad[] = {"",
					  "populated 1",
					  "populated 2\n",
					  "populated\n",
					  "frozen 0\n",
					  "populated 1\nfrozen x\n"};
	for (size_t i = 0; i < array_length(bad); i++)
		assert_int_equal(parse(bad[i], &events), -EBADMSG);
}

/* A supervisor keeps its files to itself, and what the job's user runs looks at the job's groups.
 */
static void groups_are_made_for_others_to_look_at(void **state)
{
	char *directory = unit_tmp_new();
	char group[512];
	struct stat info;
	(void)state;
	(void)snprintf(group, sizeof(group), "%s/sluice-1/job-1", directory);
	mode_t before = umask(077);
	int rc = cgroup_make_v1(group, NULL);
	assert_int_equal(umask(before), 077); /* and it keeps its own */
	assert_int_equal(rc, 0);
	assert_int_equal(stat(group, &info), 0);
	assert_int_equal(info.st_mode & 07777, 0755);
	*strrchr(group, '/') = '\0';
	assert_int_equal(stat(group, &info), 0);
	assert_int_equal(info.st_mode & 07777, 0755);
	(void)unit_tmp_free(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(all_in_it_and_below_are_killed),
	    cmocka_unit_test(an_old_kernel_kills_them_frozen),
	    cmocka_unit_test(other_directories_are_no_cgroups),
	    cmocka_unit_test(groups_are_made_for_others_to_look_at),
	    cmocka_unit_test(events_are_read),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
