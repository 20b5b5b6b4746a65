/* SPDX-License-Identifier: Apache-2.0 */
/* The real supervisor, from the agent's side: what it does, in the order of a job's life. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "job/control.h"
#include "job/cgroup/cgroup.h"
#include "job/token.h"
#include "job/tree.h"
#include "unit/libexec/supervise/rig.h"
#include "unit/unit.h"

/* --- how commands end ------------------------------------------------------------------------- */

static void the_exit_code_and_the_output_are_kept(void **state)
{
	struct rig *rig = *state;
	rig_run(rig, "echo to out; echo to err >&2; exit 3");
	struct control_message hello = rig_expect(rig, CONTROL_HELLO);
	assert_int_equal(hello.value, rig->pid);
	/* Either is a level, with the reason for those above it. */
	assert_true(strncmp(hello.text, "landlock: cgroup2: ", 19) == 0 ||
		    strncmp(hello.text, "env: cgroup2: ", 14) == 0);
	assert_non_null(strstr(hello.text, "; cgroup1: "));
	assert_true(rig_expect(rig, CONTROL_STARTED).value > 0);
	assert_int_equal(WEXITSTATUS(rig_expect(rig, CONTROL_ENDED).value), 3);
	(void)rig_expect(rig, CONTROL_RESULT);
	rig_expect_end(rig->control_fd);
	struct jobdir_result result = rig_finish(rig);
	assert_int_equal(result.end, JOBDIR_EXITED);
	assert_int_equal(result.value, 3);
	assert_int_equal(result.exit_code, 3);
	assert_false(result.was_cancelled);
	assert_int_equal(result.killed_leftovers, 0);
	assert_true(result.started_unix_ns > 0);
	assert_true(result.ended_unix_ns >= result.started_unix_ns);
	assert_string_equal(rig_output(rig), "to out\n");
	struct stat status;
	assert_int_equal(fstatat(rig->job_fd, "err.1", &status, 0), 0);
	assert_int_equal(status.st_size, 7);
	assert_int_equal(status.st_mode & 07777, 0600);
	assert_int_equal(control_connect(rig->job_fd, NULL), -ECONNREFUSED); /* nobody listens */

	struct jobdir_claim claim;
	assert_int_equal(jobdir_read_claim(rig->job_fd, 1, &claim, NULL), 0);
	assert_int_equal(claim.pid, hello.value);
	assert_string_equal(claim.instance, rig->launch.instance);
	assert_true(claim.start_ticks > 0 && strlen(claim.boot_id) == 36);
	_cleanup_close_ int lock = jobdir_lock(rig->job_fd, NULL);
	assert_true(lock >= 0);
}

static void a_signal_that_ends_it_is_kept(void **state)
{
	struct rig *rig = *state;
	rig_run(rig, "kill -SEGV $$");
	struct jobdir_result result = rig_finish(rig);
	assert_int_equal(result.end, JOBDIR_SIGNALLED);
	assert_int_equal(result.value, SIGSEGV);
	assert_int_equal(result.exit_code, 128 + SIGSEGV);
}

static void launch_fails(struct rig *rig, int exit_code, int value, const char *text)
{
	rig_start(rig);
	struct jobdir_result result = rig_finish(rig);
	assert_int_equal(result.end, JOBDIR_LAUNCH_ERROR);
	assert_int_equal(result.exit_code, exit_code);
	assert_int_equal(result.value, value);
	assert_string_equal(result.text, text);
	assert_true(result.started_unix_ns == 0 && result.ended_unix_ns > 0);
}

static void a_command_that_is_nowhere_is_a_launch_error(void **state)
{
	struct rig *rig = *state;
	assert_int_equal(spec_add_argument(&rig->launch.spec, "no-such-command", NULL), 0);
	launch_fails(rig, 127, -ENOENT, "executing 'no-such-command': No such file or directory");
}

static void a_command_that_is_no_program_is_a_launch_error(void **state)
{
	struct rig *rig = *state;
	assert_int_equal(spec_add_argument(&rig->launch.spec, "/etc/passwd", NULL), 0);
	launch_fails(rig, 126, -EACCES, "executing '/etc/passwd': Permission denied");
}

static void a_directory_that_is_gone_is_a_launch_error(void **state)
{
	struct rig *rig = *state;
	(void)snprintf(rig->launch.spec.directory, SPEC_DIRECTORY_MAX, "/no/such/place");
	rig_script(rig, "touch $1/ran");
	launch_fails(rig, 125, -ENOENT,
		     "changing to the directory '/no/such/place': No such file or directory");
	assert_int_not_equal(access(unit_path(rig->tmp, "ran"), F_OK), 0);
}

/* --- what the command finds ------------------------------------------------------------------- */

static void the_command_has_its_environment_and_nothing_else_open(void **state)
{
	struct rig *rig = *state;
	struct spec *spec = &rig->launch.spec;
	rig_grant(rig, 2);
	assert_int_equal(spec_add_variable(spec, "MINE=yes", NULL), 0);
	assert_int_equal(spec_add_variable(spec, "SLUICE_JOB_INSTANCE=of another job", NULL), 0);
	spec->umask = 027;
	rig->launch.attempt = 1;
	rig_run(rig, "echo $MINE,$SLUICE_JOB_ID,$SLUICE_ATTEMPT,$SLUICE_JOB_INSTANCE\n"
		     "echo $CUDA_VISIBLE_DEVICES\numask\n"
		     "sh -c 'cd /proc/$PPID/fd; echo *'\n"
		     "readlink /proc/$$/fd/0; grep SigBlk /proc/self/status\n"
		     "grep SigIgn /proc/self/status; ps -o sid= -p $$ | tr -d ' '; echo $$");
	(void)rig_finish(rig);
	char expected[512];
	(void)snprintf(expected, sizeof(expected),
		       "yes,1,1,%s\n" RIG_UUID "%012d\n0027\n0 1 2 600 601\n/dev/null\n"
		       "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n",
		       rig->launch.instance, (int)getpid());
	const char *output = rig_output(rig);
	if (strncmp(output, expected, strlen(expected)) != 0)
		fail_msg("not '%s' but '%s'", expected, output);
	/* Its own session. */
	const char *sid = output + strlen(expected);
	size_t length = strcspn(sid, "\n");
	assert_memory_equal(sid, sid + length + 1, length);
}

static void limits_are_the_submitters_and_raise_nothing(void **state)
{
	struct rig *rig = *state;
	struct spec *spec = &rig->launch.spec;
	spec->limits[0] = (struct spec_limit){.resource = 7, .soft = 1000, .hard = UINT64_MAX};
	spec->limits[1] = (struct spec_limit){.resource = 4, .soft = 0, .hard = 0};
	spec->limit_count = 2;
	rig_run(rig, "ulimit -n; ulimit -c");
	assert_int_equal(rig_finish(rig).value, 0);
	assert_string_equal(rig_output(rig), "1000\n0\n");
}

static void root_runs_it_as_its_user(void **state)
{
	struct rig *rig = *state;
	struct spec *spec = &rig->launch.spec;
	if (geteuid() != 0) {
		print_message("skipped: needs root\n");
		skip();
	}
	spec->uid = 61001; /* whom nobody knows, and who is in no group but the first */
	spec->gid = 65533;
	assert_int_equal(spec_add_group(spec, 4, NULL), 0);
	assert_int_equal(spec_add_group(spec, 65533, NULL), 0);
	rig_run(rig,
		"id -u; id -g; id -G; grep -c 'Cap[IPEA].*:.0000000000000000' /proc/$$/status");
	assert_int_equal(rig_finish(rig).value, 0);
	assert_string_equal(rig_output(rig), "61001\n65533\n65533\n4\n");
	struct stat status;
	assert_int_equal(fstatat(rig->job_fd, "out.1", &status, 0), 0);
	assert_int_equal(status.st_uid, 61001);
	assert_int_equal(status.st_mode & 07777, 0600);
}

static void the_directory_is_entered_as_the_user(void **state)
{
	struct rig *rig = *state;
	struct spec *spec = &rig->launch.spec;
	if (geteuid() != 0) {
		print_message("skipped: needs root\n");
		skip();
	}
	spec->uid = spec->gid = 65534;
	const char *closed = unit_path(rig->tmp, "closed");
	assert_int_equal(mkdir(closed, 0700), 0);
	(void)snprintf(spec->directory, sizeof(spec->directory), "%s", closed);
	rig_script(rig, "true");
	rig_start(rig);
	struct jobdir_result result = rig_finish(rig);
	assert_int_equal(result.value, -EACCES);
	assert_int_equal(result.exit_code, 125);
}

/* --- claim and tokens ------------------------------------------------------------------------- */

static void an_attempt_that_is_claimed_is_not_run_again(void **state)
{
	struct rig *rig = *state;
	assert_int_equal(jobdir_create(rig->state_fd, 1, geteuid(), NULL), 0);
	rig->job_fd = jobdir_open(rig->state_fd, 1, NULL);
	struct jobdir_claim claim = {.pid = 1};
	assert_int_equal(jobdir_claim(rig->job_fd, 1, &claim, NULL), 0);
	rig_script(rig, "touch $1/ran");
	rig_start(rig);
	assert_int_equal(rig_wait(rig), LAUNCH_EXIT_CLAIMED);
	assert_int_not_equal(access(unit_path(rig->tmp, "ran"), F_OK), 0);
	struct jobdir_result result;
	assert_int_equal(jobdir_read_result(rig->job_fd, 1, &result, NULL), -ENOENT);
}

static void a_token_that_is_taken_keeps_it_from_claiming(void **state)
{
	struct rig *rig = *state;
	rig_grant(rig, 3);
	struct token token = TOKEN_NONE;
	assert_int_equal(rig_take(rig, 2, &token), 0);
	rig_run(rig, "touch $1/ran");
	struct control_message busy = rig_expect(rig, CONTROL_TOKENS_BUSY);
	char expected[128];
	(void)snprintf(expected, sizeof(expected),
		       "GPU 7 (slot 2) is held by process %d of user %u", (int)getpid(),
		       (unsigned)geteuid());
	assert_string_equal(busy.text, expected);
	assert_int_equal(rig_wait(rig), LAUNCH_EXIT_TOKENS_BUSY);
	assert_int_not_equal(access(unit_path(rig->tmp, "ran"), F_OK), 0);
	struct jobdir_claim claim;
	assert_int_equal(jobdir_read_claim(rig->job_fd, 1, &claim, NULL), -ENOENT);
	/* The others were given back. */
	struct token other = TOKEN_NONE;
	assert_int_equal(rig_take(rig, 0, &other), 0);
	token_release(&other);
	token_release(&token);
}

static void who_waits_for_a_token_hears_who_has_it(void **state)
{
	struct rig *rig = *state;
	rig_grant(rig, 1);
	rig_run(rig, "sleep 1000");
	(void)rig_expect(rig, CONTROL_STARTED);
	struct token_place place = TOKEN_PLACE_NONE;
	struct note note = {0};
	_cleanup_close_ int fd = token_watch(&place, rig->launch.grants[0].uuid, 0, &note, NULL);
	assert_true(fd >= 0);
	assert_int_equal(token_read_note(fd, 10000, &note, NULL), 0);
	assert_int_equal(note.pid, rig->pid);
	assert_string_equal(note.name, "1");
}

static void a_lost_supervisor_takes_the_command_with_it(void **state)
{
	struct rig *rig = *state;
	rig_grant(rig, 1);
	rig_run(rig, "setsid -f sh -c 'echo $$ > $0/daemon; exec sleep 1000' $1; echo $$ > $1/pid;"
		     "exec sleep 1000");
	pid_t daemon_ = rig_read_pid(rig, "daemon");
	pid_t command = rig_read_pid(rig, "pid");
	assert_int_equal(kill(rig->pid, SIGKILL), 0);
	assert_int_equal(rig_wait(rig), -SIGKILL);
	rig_wait_gone(command);
	assert_true(rig_is_alive(daemon_));
	/* Claimed, without a result, and its lock free: lost. Its GPU is not free, though. */
	_cleanup_close_ int lock = jobdir_lock(rig->job_fd, NULL);
	assert_true(lock >= 0);
	struct jobdir_claim claim;
	struct jobdir_result result;
	assert_int_equal(jobdir_read_claim(rig->job_fd, 1, &claim, NULL), 0);
	assert_int_equal(jobdir_read_result(rig->job_fd, 1, &result, NULL), -ENOENT);
	struct token token = TOKEN_NONE;
	assert_int_equal(rig_take(rig, 0, &token), -EBUSY);
	assert_int_equal(kill(daemon_, SIGKILL), 0);
	rig_wait_gone(daemon_);
	assert_int_equal(rig_take(rig, 0, &token), 0);
	token_release(&token);
}

/* --- its cgroup ------------------------------------------------------------------------------- */

static void in_a_cgroup(struct rig *rig)
{
	static const char *const roots[] = {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"};
	for (size_t i = 0; i < 2; i++) {
		struct cgroup cgroup = CGROUP_NONE;
		char name[64];
		(void)snprintf(name, sizeof(name), "sluice-unit-%d", (int)getpid());
		if (cgroup_create(roots[i], name, &cgroup, NULL) < 0)
			continue;
		(void)cgroup_remove(&cgroup, NULL);
		cgroup_close(&cgroup);
		(void)snprintf(rig->launch.cgroup_root, LAUNCH_PATH_MAX, "%s", roots[i]);
		return;
	}
	print_message("skipped: no cgroup2 directory that may be written\n");
	skip();
}

static void a_job_lives_and_ends_in_its_cgroup(void **state)
{
	struct rig *rig = *state;
	in_a_cgroup(rig);
	rig->launch.spec.grace_ns = 50000000;
	rig_run(rig, "grep ^0:: /proc/self/cgroup; setsid -f sleep 1000; exit 4");
	assert_true(geteuid() != 0 ||
		    strncmp(rig_expect(rig, CONTROL_HELLO).text, "cgroup", 6) == 0);
	struct control_message claimed = rig_expect(rig, CONTROL_CLAIMED);
	char path[LAUNCH_PATH_MAX + 64];
	(void)snprintf(path, sizeof(path), "%s/job-1-%.8s", rig->launch.cgroup_root,
		       rig->launch.instance);
	assert_string_equal(claimed.text, path);
	assert_int_equal(rig_expect(rig, CONTROL_LEFTOVERS).value, 1);
	struct jobdir_result result = rig_finish(rig);
	assert_int_equal(result.value, 4);
	assert_int_equal(result.killed_leftovers, 1);
	assert_non_null(strstr(rig_output(rig), strrchr(path, '/')));
	assert_int_not_equal(access(path, F_OK), 0);
}

static void a_cgroup_is_killed_after_a_cancel(void **state)
{
	struct rig *rig = *state;
	in_a_cgroup(rig);
	rig_run(rig, "trap '' TERM; setsid -f sh -c 'trap \"\" TERM; echo $$ > $0/daemon;"
		     "while :; do sleep 0.01; done' $1; while :; do sleep 0.01; done");
	pid_t pid = rig_read_pid(rig, "daemon");
	rig_send(rig->control_fd, CONTROL_CANCEL, 0, 50000000);
	assert_int_equal(rig_finish(rig).value, SIGKILL);
	assert_false(rig_is_alive(pid));
}

static void what_a_lost_supervisor_leaves_is_in_the_claims_cgroup(void **state)
{
	struct rig *rig = *state;
	in_a_cgroup(rig);
	rig_run(rig, "setsid -f sh -c 'echo $$ > $0/daemon; exec sleep 1000' $1; exec sleep 1000");
	pid_t pid = rig_read_pid(rig, "daemon");
	assert_int_equal(kill(rig->pid, SIGKILL), 0);
	assert_int_equal(rig_wait(rig), -SIGKILL);
	struct jobdir_claim claim;
	assert_int_equal(jobdir_read_claim(rig->job_fd, 1, &claim, NULL), 0);
	struct cgroup cgroup = CGROUP_NONE;
	assert_int_equal(cgroup_open(claim.cgroup, &cgroup, NULL), 0);
	assert_true(rig_is_alive(pid));
	assert_int_equal(cgroup_kill(&cgroup, NULL), 0);
	rig_wait_gone(pid);
	uint64_t end_ns = unit_now_ns() + UINT64_C(10000000000);
	while (cgroup_is_populated(&cgroup, NULL) == 1 && unit_now_ns() < end_ns)
		(void)waitpid(-1, NULL, WNOHANG); /* the dead are ours to reap */
	assert_int_equal(cgroup_remove(&cgroup, NULL), 0);
	cgroup_close(&cgroup);
}

static void a_root_that_is_no_cgroup_is_a_reason_for_less(void **state)
{
	struct rig *rig = *state;
	(void)snprintf(rig->launch.cgroup_root, LAUNCH_PATH_MAX, "%s", rig->tmp);
	rig_run(rig, "exit 3");
	assert_non_null(strstr(rig_expect(rig, CONTROL_HELLO).text, "not in a cgroup2"));
	assert_int_equal(rig_finish(rig).value, 3);
}

/* --- agents ----------------------------------------------------------------------------------- */

static void it_runs_without_any_agent(void **state)
{
	struct rig *rig = *state;
	rig_script(rig, "echo alone; exit 6");
	rig_start(rig);
	assert_int_equal(rig_finish(rig).value, 6);
	assert_string_equal(rig_output(rig), "alone\n");
}

static void a_new_agent_hears_all_that_is_true(void **state)
{
	struct rig *rig = *state;
	rig_run(rig, "echo $$ > $1/pid; until test -e $1/go; do sleep 0.01; done");
	pid_t pid = rig_read_pid(rig, "pid");
	(void)rig_expect(rig, CONTROL_STARTED);
	(void)close(take_fd(&rig->control_fd)); /* it dies */
	_cleanup_close_ int second = rig_connect(rig);
	_cleanup_close_ int third = rig_connect(rig);
	assert_int_equal(rig_expect_on(second, CONTROL_HELLO).value, rig->pid);
	(void)rig_expect_on(second, CONTROL_CLAIMED);
	assert_int_equal(rig_expect_on(second, CONTROL_STARTED).value, pid);
	assert_int_equal(rig_expect_on(third, CONTROL_STARTED).value, pid);
	unit_write(unit_path(rig->tmp, "go"), "");
	(void)rig_expect_on(second, CONTROL_RESULT);
	(void)rig_expect_on(third, CONTROL_RESULT);
	assert_int_equal(rig_finish(rig).value, 0);
}

static void more_agents_than_seats_push_the_oldest_out(void **state)
{
	struct rig *rig = *state;
	rig_run(rig, "sleep 1000");
	(void)rig_expect(rig, CONTROL_STARTED);
	int fds[CONTROL_AGENTS_MAX];
	for (int i = 0; i < CONTROL_AGENTS_MAX; i++) {
		fds[i] = rig_connect(rig);
		(void)rig_expect_on(fds[i], CONTROL_STARTED);
	}
	rig_expect_end(rig->control_fd);
	rig_send(fds[CONTROL_AGENTS_MAX - 1], CONTROL_CANCEL, SIGTERM, CONTROL_GRACE_OWN);
	(void)rig_expect_on(fds[0], CONTROL_RESULT);
	for (int i = 0; i < CONTROL_AGENTS_MAX; i++)
		(void)close(fds[i]);
}

static void garbage_is_dropped_and_harms_nobody(void **state)
{
	struct rig *rig = *state;
	rig_run(rig, "sleep 1000");
	(void)rig_expect(rig, CONTROL_STARTED);
	static const char *const bad[] = {"x", "a packet of a length that could be a message's",
					  "\1\0\0\0"};
	for (size_t i = 0; i < 3; i++) {
		_cleanup_close_ int fd = rig_connect(rig);
		assert_true(send(fd, bad[i], strlen(bad[i]), MSG_NOSIGNAL) > 0);
		rig_expect_end(fd);
	}
	/* What only a supervisor says, and a signal that is none. */
	_cleanup_close_ int fd = rig_connect(rig);
	rig_send(fd, CONTROL_RESULT, 0, 0);
	rig_expect_end(fd);
	rig_send(rig->control_fd, CONTROL_SIGNAL, 1000000, 0);
	rig_send(rig->control_fd, CONTROL_SIGNAL, SIGTERM, 0);
	assert_int_equal(rig_finish(rig).value, SIGTERM);
}

static void it_lets_go_of_the_agents_output(void **state)
{
	struct rig *rig = *state;
	rig_run(rig, "sleep 1000");
	(void)rig_expect(rig, CONTROL_STARTED);
	char byte;
	struct pollfd wait = {.fd = rig->error_fd, .events = POLLIN};
	assert_int_equal(poll(&wait, 1, 10000), 1);
	assert_int_equal(read(rig->error_fd, &byte, 1), 0); /* its end, while the job runs */
	rig_send(rig->control_fd, CONTROL_CANCEL, 0, 0);
	(void)rig_finish(rig);
}

/* --- bad surroundings ------------------------------------------------------------------------- */

static void a_launch_that_cannot_be_read_is_complained_about(void **state)
{
	struct rig *rig = *state;
	rig_script(rig, "true");
	rig->launch.id = 0; /* which no job has */
	rig_start(rig);
	assert_int_equal(rig_wait(rig), LAUNCH_EXIT_BAD_LAUNCH);
	char text[512] = "";
	assert_true(read(rig->error_fd, text, sizeof(text) - 1) > 0);
	assert_non_null(strstr(text, "the launch has no job"));
}

static void fill(const char *path)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	char block[4096] = "";
	while (write(fd, block, sizeof(block)) > 0)
		;
	assert_int_equal(errno, ENOSPC);
}

static void small_disk(struct rig *rig)
{
	if (mount("none", rig->state, "tmpfs", 0, "size=64k,mode=711") < 0) {
		print_message("skipped: mounting a small disk: %s\n", strerror(errno));
		skip();
	}
	(void)close(rig->state_fd);
	rig->state_fd = open(rig->state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(rig->state_fd >= 0);
}

static void small_disk_done(struct rig *rig)
{
	(void)umount2(rig->state, MNT_DETACH);
}

static void a_full_disk_does_not_lose_the_result(void **state)
{
	struct rig *rig = *state;
	small_disk(rig);
	rig_run(rig, "echo x > $1/ready; until test -e $1/go; do sleep 0.01; done; exit 8");
	(void)rig_read(rig, "ready");
	fill(unit_path(rig->state, "ballast"));
	unit_write(unit_path(rig->tmp, "go"), "");
	struct jobdir_result result = rig_finish(rig);
	small_disk_done(rig);
	assert_int_equal(result.value, 8);
}

static void without_room_it_holds_the_lock_and_tries_again(void **state)
{
	struct rig *rig = *state;
	small_disk(rig);
	rig_run(rig, "echo x > $1/ready; until test -e $1/go; do sleep 0.01; done; exit 8");
	(void)rig_read(rig, "ready");
	assert_int_equal(unlinkat(rig->job_fd, "room", 0), 0);
	fill(unit_path(rig->state, "ballast"));
	unit_write(unit_path(rig->tmp, "go"), "");
	struct control_message message = rig_expect(rig, CONTROL_NO_ROOM);
	int lock = jobdir_lock(rig->job_fd, NULL);
	int second = rig_connect(rig);
	struct control_message again = rig_expect_on(second, CONTROL_NO_ROOM);
	(void)close(second);
	assert_int_equal(unlink(unit_path(rig->state, "ballast")), 0);
	struct jobdir_result result = rig_finish(rig);
	small_disk_done(rig);
	assert_int_equal(lock, -EBUSY);
	assert_non_null(strstr(message.text, "No space left on device"));
	assert_string_equal(again.text, message.text);
	assert_int_equal(result.value, 8);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, rig_new, rig_free)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(the_exit_code_and_the_output_are_kept),
	    CASE(a_signal_that_ends_it_is_kept),
	    CASE(a_command_that_is_nowhere_is_a_launch_error),
	    CASE(a_command_that_is_no_program_is_a_launch_error),
	    CASE(a_directory_that_is_gone_is_a_launch_error),
	    CASE(the_command_has_its_environment_and_nothing_else_open),
	    CASE(limits_are_the_submitters_and_raise_nothing),
	    CASE(root_runs_it_as_its_user),
	    CASE(the_directory_is_entered_as_the_user),
	    CASE(an_attempt_that_is_claimed_is_not_run_again),
	    CASE(a_token_that_is_taken_keeps_it_from_claiming),
	    CASE(who_waits_for_a_token_hears_who_has_it),
	    CASE(a_lost_supervisor_takes_the_command_with_it),
	    CASE(a_job_lives_and_ends_in_its_cgroup),
	    CASE(a_cgroup_is_killed_after_a_cancel),
	    CASE(what_a_lost_supervisor_leaves_is_in_the_claims_cgroup),
	    CASE(a_root_that_is_no_cgroup_is_a_reason_for_less),
	    CASE(it_runs_without_any_agent),
	    CASE(a_new_agent_hears_all_that_is_true),
	    CASE(more_agents_than_seats_push_the_oldest_out),
	    CASE(garbage_is_dropped_and_harms_nobody),
	    CASE(it_lets_go_of_the_agents_output),
	    CASE(a_launch_that_cannot_be_read_is_complained_about),
	    CASE(a_full_disk_does_not_lose_the_result),
	    CASE(without_room_it_holds_the_lock_and_tries_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
