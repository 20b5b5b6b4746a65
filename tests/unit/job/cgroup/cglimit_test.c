/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of a cgroup, for real where we may: root with cgroups of either version. */
#include "job/cgroup/cglimit.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/file.h"
#include "unit/unit.h"

static bool make_group(struct cgroup *out)
{
	static const char *const roots[] = {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"};
	char name[64];
	(void)snprintf(name, sizeof(name), "sluice-unit-limit-%d", (int)getpid());
	for (size_t i = 0; geteuid() == 0 && i < array_length(roots); i++)
		if (cgroup_create(roots[i], name, out, NULL) == 0)
			return true;
	return false;
}

static void remove_group(struct cgroup *group)
{
	assert_int_equal(cgroup_remove(group, NULL), 0);
	cgroup_remove_v1(group->path, true);
	cgroup_close(group);
}

/* The file of the limit, in whichever hierarchy it was set; "": nowhere. */
static void read_limit(const struct cgroup *group, const struct cglimit *limit, const char *v2,
		       const char *v1, char *out, size_t size)
{
	struct buf text _cleanup_buf_;
	char path[FILE_PATH_MAX];
	buf_init(&text, 256);
	out[0] = '\0';
	assert_int_equal(file_path(path, NULL, "%s/%s", group->path, v2), 0);
	bool is_there = file_read(path, &text, NULL) == 0;
	for (size_t i = 0; !is_there && i < limit->group_count; i++)
		is_there = file_path(path, NULL, "%s/%s", limit->groups[i], v1) == 0 &&
			   file_read(path, &text, NULL) == 0;
	if (is_there)
		(void)snprintf(out, size, "%.*s", (int)strcspn(buf_text(&text), "\n"),
			       buf_text(&text));
}

static void limits_are_set_where_they_can_be(void **state)
{
	struct cgroup group = CGROUP_NONE;
	struct cglimit limit;
	char text[256];
	if (!make_group(&group)) {
		print_message("skipped: needs root and a cgroup2 file system\n");
		skip();
	}
	const struct cglimit_wants wants = {.mem_bytes = 64 << 20, .cpu_milli = 2500, .pids = 77};
	cglimit_apply(&group, &wants, &limit);
	read_limit(&group, &limit, "memory.max", "memory.limit_in_bytes", text, sizeof(text));
	assert_true(strcmp(text, "67108864") == 0 || strstr(limit.why, "memory counted only"));
	read_limit(&group, &limit, "cpu.max", "cpu.cfs_quota_us", text, sizeof(text));
	assert_true(strncmp(text, "250000", 6) == 0 || strstr(limit.why, "processors counted"));
	read_limit(&group, &limit, "pids.max", "pids.max", text, sizeof(text));
	assert_true(strcmp(text, "77") == 0 || limit.why_no_pids[0]);
	assert_int_equal(cglimit_oom_kills(&group, &limit), 0);

	/* More than the kernel knows is not the same as none. */
	const struct cglimit_wants many = {.pids = UINT32_MAX};
	bool has_pids = limit.why_no_pids[0] == '\0';
	cglimit_apply(&group, &many, &limit);
	assert_true(limit.why_no_pids[0]);
	assert_true(!has_pids || strstr(limit.why_no_pids, "Invalid argument"));
	remove_group(&group);
}

static void what_is_joined_later_is_joined(void **state)
{
	struct cgroup group = CGROUP_NONE;
	struct cglimit limit;
	if (!make_group(&group)) {
		print_message("skipped: needs root and a cgroup2 file system\n");
		skip();
	}
	const struct cglimit_wants wants = {.pids = 77, .is_late = true};
	cglimit_apply(&group, &wants, &limit);
	assert_int_equal(limit.group_count, 0);
	pid_t pid = fork();
	if (pid == 0) {
		if (cgroup_join(&group) == 0)
			(void)pause();
		_exit(1);
	}
	while (cgroup_is_populated(&group, NULL) == 0)
		assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
	cglimit_join_late(&group, &limit);
	if (limit.late[0]) {
		struct buf text _cleanup_buf_;
		char path[FILE_PATH_MAX], number[32];
		buf_init(&text, 256);
		assert_int_equal(file_path(path, NULL, "%s/cgroup.procs", limit.late), 0);
		assert_int_equal(file_read(path, &text, NULL), 0);
		(void)snprintf(number, sizeof(number), "%d\n", (int)pid);
		assert_string_equal(buf_text(&text), number);
	}
	(void)kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	cgroup_remove_one_v1(limit.late);
	assert_true(!limit.late[0] || !file_exists(limit.late));
	remove_group(&group);
}

enum { FORKS_MAX = 3000, FORKS_LIMIT = 100 };

/* The last one starts the next, up to a number that spares the machine. */
static _Noreturn void fork_for_ever(atomic_int *count)
{
	while (atomic_load(count) < FORKS_MAX) {
		pid_t pid = fork();
		if (pid == 0)
			(void)atomic_fetch_add(count, 1);
		else if (pid > 0)
			break;
		else
			(void)usleep(1000);
	}
	for (;;)
		(void)pause();
}

static size_t count_lines(const char *group)
{
	struct buf text _cleanup_buf_;
	char path[FILE_PATH_MAX];
	size_t count = 0;
	buf_init(&text, 1 << 20);
	assert_int_equal(file_path(path, NULL, "%s/cgroup.procs", group), 0);
	assert_int_equal(file_read(path, &text, NULL), 0);
	for (const char *at = buf_text(&text); *at; at++)
		count += *at == '\n';
	return count;
}

/* One that is not moved forks on without a limit. */
static void a_fork_bomb_is_moved_whole(void **state)
{
	struct cgroup group = CGROUP_NONE;
	struct cglimit limit;
	if (!make_group(&group)) {
		print_message("skipped: needs root and a cgroup2 file system\n");
		skip();
	}
	const struct cglimit_wants wants = {.pids = FORKS_LIMIT, .is_late = true};
	cglimit_apply(&group, &wants, &limit);
	atomic_int *count =
	    mmap(NULL, sizeof(*count), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(count != MAP_FAILED);
	pid_t pid = limit.late[0] ? fork() : -1;
	if (pid == 0) {
		if (cgroup_join(&group) == 0)
			fork_for_ever(count);
		_exit(1);
	}
	while (limit.late[0] && atomic_load(count) < FORKS_LIMIT)
		assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
	cglimit_join_late(&group, &limit);
	int started = atomic_load(count);
	size_t all = limit.late[0] ? count_lines(group.path) : 0;
	size_t moved = limit.late[0] ? count_lines(limit.late) : 0;
	assert_int_equal(cgroup_kill(&group, NULL), 0);
	while (waitpid(pid, NULL, WNOHANG) >= 0 || cgroup_is_populated(&group, NULL) == 1)
		(void)usleep(1000);
	if (limit.late[0])
		assert_in_range(started, FORKS_LIMIT, FORKS_MAX - 1); /* else it shows nothing */
	assert_int_equal(moved, all);
	(void)munmap(count, sizeof(*count));
	remove_group(&group);
}

static void without_a_group_it_is_said(void **state)
{
	struct cgroup none = CGROUP_NONE;
	struct cglimit limit;
	const struct cglimit_wants nothing = {.pids = 0};
	cglimit_apply(&none, &nothing, &limit);
	assert_string_equal(limit.why, "");
	const struct cglimit_wants wants = {.mem_bytes = 1, .pids = 1};
	cglimit_apply(&none, &wants, &limit);
	assert_string_equal(limit.why, "memory counted only (no cgroup)");
	assert_string_equal(limit.why_no_pids, "no cgroup");
	assert_int_equal(limit.group_count, 0);
	assert_int_equal(cglimit_oom_kills(&none, &limit), 0);
	cglimit_join_late(&none, &limit);
}

static void kills_are_read(void **state)
{
	static const char events[] = "low 0\nhigh 0\nmax 12\noom 2\noom_kill 3\noom_group_kill 4\n";
	static const char control[] = "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n";
	assert_int_equal(cglimit_read_oom(events, strlen(events)), 3);
	assert_int_equal(cglimit_read_oom(control, strlen(control)), 7);
	assert_int_equal(cglimit_read_oom("oom_kill 5", 10), 5);
	assert_int_equal(cglimit_read_oom("oom_kill x\n", 11), 0);
	assert_int_equal(cglimit_read_oom("", 0), 0);
}

static void the_default_leaves_half(void **state)
{
	uint32_t pids = cglimit_default_pids();
	assert_in_range(pids, 1, CGLIMIT_PIDS_DEFAULT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(limits_are_set_where_they_can_be),
	    cmocka_unit_test(what_is_joined_later_is_joined),
	    cmocka_unit_test(a_fork_bomb_is_moved_whole),
	    cmocka_unit_test(without_a_group_it_is_said),
	    cmocka_unit_test(kills_are_read),
	    cmocka_unit_test(the_default_leaves_half),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
