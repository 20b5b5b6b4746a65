/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/libexec/supervise/rig.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/parse.h"
#include "job/cgroup/cgroup.h"
#include "job/token.h"
#include "job/tree.h"
#include "unit/unit.h"

#define RIG_PATIENCE_NS UINT64_C(20000000000)

enum { RIG_PATIENCE_MS = 20000, RIG_FD_MIN = 100, RIG_TEXT_MAX = 65536 };

static void rig_pause(uint64_t deadline_ns, const char *what)
{
	if (unit_now_ns() > deadline_ns)
		fail_msg("waited in vain for %s", what);
	(void)poll(NULL, 0, 2); /* between two looks at a condition */
}

int rig_new(void **state)
{
	/* What a killed supervisor leaves falls to us. */
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
	struct rig *rig = calloc(1, sizeof(*rig));
	assert_non_null(rig);
	rig->tmp = unit_tmp_new();
	rig->control_fd = rig->error_fd = -1;
	rig->state = strdup(unit_path(rig->tmp, "state"));
	assert_non_null(rig->state);
	assert_int_equal(mkdir(rig->state, 0711), 0);
	assert_int_equal(chmod(rig->tmp, 0711), 0); /* jobs of other users read there */
	rig->state_fd = open(rig->state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	rig->job_fd = -1;
	launch_init(&rig->launch);
	struct spec *spec = &rig->launch.spec;
	rig->launch.id = 1;
	rig->launch.attempt = 1;
	(void)snprintf(rig->launch.instance, sizeof(rig->launch.instance), "%08x-of-the-rig",
		       (unsigned)getpid());
	(void)snprintf(spec->name, sizeof(spec->name), "rig");
	(void)snprintf(spec->directory, sizeof(spec->directory), "/");
	spec->uid = geteuid();
	spec->gid = getegid();
	spec->umask = 022;
	spec->grace_ns = UINT64_C(20000000000); /* longer than any patience */
	assert_int_equal(spec_add_variable(spec, "PATH=/usr/bin:/bin", NULL), 0);
	*state = rig;
	return 0;
}

static void rig_end_all(void)
{
	uint64_t deadline_ns = unit_now_ns() + RIG_PATIENCE_NS;
	for (unsigned round = 0;; round++) {
		size_t count = 0;
		assert_int_equal(tree_kill(getpid(), 0, round, &count, NULL), 0);
		while (waitpid(-1, NULL, WNOHANG | __WALL) > 0)
			;
		if (count == 0)
			return;
		rig_pause(deadline_ns, "the end of what a test has left");
	}
}

int rig_free(void **state)
{
	struct rig *rig = *state;
	rig_end_all();
	int fds[] = {rig->state_fd, rig->job_fd, rig->control_fd, rig->error_fd};
	for (size_t i = 0; i < array_length(fds); i++)
		if (fds[i] >= 0)
			(void)close(fds[i]);
	if (rig->launch.cgroup_root[0]) { /* what a supervisor that was killed has left */
		char name[LAUNCH_CGROUP_MAX], path[LAUNCH_PATH_MAX + LAUNCH_CGROUP_MAX];
		launch_cgroup_name(rig->launch.id, rig->launch.instance, name);
		(void)snprintf(path, sizeof(path), "%s/%s", rig->launch.cgroup_root, name);
		cgroup_remove_v1(path, true);
	}
	launch_done(&rig->launch);
	(void)umount2(rig->state, MNT_DETACH); /* a small disk of a case that failed */
	free(rig->state);
	(void)unit_tmp_free(rig->tmp);
	free(rig);
	return 0;
}

void rig_script(struct rig *rig, const char *script)
{
	struct spec *spec = &rig->launch.spec;
	assert_int_equal(spec_add_argument(spec, "/bin/sh", NULL), 0);
	assert_int_equal(spec_add_argument(spec, "-c", NULL), 0);
	assert_int_equal(spec_add_argument(spec, script, NULL), 0);
	assert_int_equal(spec_add_argument(spec, "sh", NULL), 0);
	assert_int_equal(spec_add_argument(spec, rig->tmp, NULL), 0);
}

void rig_grant(struct rig *rig, uint32_t slots)
{
	rig->launch.grants = calloc(1, sizeof(*rig->launch.grants));
	assert_non_null(rig->launch.grants);
	rig->launch.grant_count = 1;
	struct launch_grant *one = rig->launch.grants;
	(void)snprintf(one->uuid, sizeof(one->uuid), RIG_UUID "%012d", (int)getpid());
	(void)snprintf(one->label, sizeof(one->label), "GPU 7");
	one->slot_count = slots + 1;
	for (uint32_t slot = 0; slot < slots; slot++)
		launch_grant_add(one, slot);
}

int rig_take(const struct rig *rig, uint32_t slot, struct token *out)
{
	struct token_place place = TOKEN_PLACE_NONE;
	struct note note = {.pid = getpid()};
	note_set_name(&note, "the-test");
	return token_take(&place, rig->launch.grants[0].uuid, slot, &note, out, NULL);
}

static int rig_memfd(const struct launch *launch)
{
	struct err err = {0};
	char *bytes = NULL;
	size_t length = 0;
	if (launch_format(launch, &bytes, &length, &err) < 0)
		fail_msg("%s", err.text);
	int fd = memfd_create("launch", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, length), length);
	free(bytes);
	return fd;
}

static _Noreturn void rig_become(const struct rig *rig, int lock, int memfd, int error)
{
	const int from[] = {error, lock, rig->job_fd, memfd};
	const int to[] = {LAUNCH_FD_ERROR, LAUNCH_FD_LOCK, LAUNCH_FD_DIRECTORY, LAUNCH_FD_LAUNCH};
	int high[4];
	for (size_t i = 0; i < 4; i++)
		high[i] = fcntl(from[i], F_DUPFD_CLOEXEC, RIG_FD_MIN);
	for (size_t i = 0; i < 4; i++)
		if (dup2(high[i], to[i]) < 0)
			_exit(99);
	char path[4096], name[] = "sluice-supervise", option[] = "--job", number[] = "1";
	(void)snprintf(path, sizeof(path), "%s/src/libexec/supervise/%s",
		       getenv("MESON_BUILD_ROOT"), rig->program ? rig->program : name);
	char *argv[] = {name, option, number, NULL};
	(void)execv(path, argv);
	_exit(99);
}

void rig_start(struct rig *rig)
{
	struct err err = {0};
	if (rig->job_fd < 0) {
		if (jobdir_create(rig->state_fd, rig->launch.id, geteuid(), &err) < 0)
			fail_msg("%s", err.text);
		rig->job_fd = jobdir_open(rig->state_fd, rig->launch.id, NULL);
	}
	_cleanup_close_ int lock = jobdir_lock(rig->job_fd, NULL);
	assert_true(lock >= 0);
	_cleanup_close_ int memfd = rig_memfd(&rig->launch);
	int ends[2];
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	rig->pid = fork();
	assert_true(rig->pid >= 0);
	if (rig->pid == 0)
		rig_become(rig, lock, memfd, ends[1]);
	(void)close(ends[1]);
	rig->error_fd = ends[0];
}

int rig_connect(struct rig *rig)
{
	uint64_t deadline_ns = unit_now_ns() + RIG_PATIENCE_NS;
	for (;;) {
		int fd = control_connect(rig->job_fd, NULL);
		if (fd >= 0)
			return fd;
		rig_pause(deadline_ns, "the control socket");
	}
}

void rig_run(struct rig *rig, const char *script)
{
	/* Not before we hear it: who is quick could be gone before we have come. */
	char text[RIG_TEXT_MAX];
	int length = snprintf(text, sizeof(text),
			      "until test -e $1/connected; do sleep 0.01; done\n%s", script);
	assert_true(length > 0 && (size_t)length < sizeof(text));
	rig_script(rig, text);
	rig_start(rig);
	rig->control_fd = rig_connect(rig);
	unit_write(unit_path(rig->tmp, "connected"), "");
}

static ssize_t rig_receive(int fd, char packet[CONTROL_PACKET_MAX], const char *what)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	if (poll(&wait, 1, RIG_PATIENCE_MS) != 1)
		fail_msg("waited in vain for '%s'", what);
	return recv(fd, packet, CONTROL_PACKET_MAX, MSG_DONTWAIT);
}

struct control_message rig_expect_on(int fd, enum control_kind kind)
{
	char what[32];
	(void)snprintf(what, sizeof(what), "kind %d", (int)kind);
	for (;;) {
		struct control_message message;
		char packet[CONTROL_PACKET_MAX];
		ssize_t length = rig_receive(fd, packet, what);
		if (length <= 0)
			fail_msg("the supervisor went away before it said '%s'", what);
		assert_int_equal(control_parse(packet, (size_t)length, &message, NULL), 0);
		if (message.kind == kind)
			return message;
	}
}

struct control_message rig_expect(struct rig *rig, enum control_kind kind)
{
	return rig_expect_on(rig->control_fd, kind);
}

void rig_expect_end(int fd)
{
	char packet[CONTROL_PACKET_MAX];
	while (rig_receive(fd, packet, "the end of the connection") > 0)
		;
}

void rig_send(int fd, enum control_kind kind, int64_t value, uint64_t extra)
{
	struct control_message message = {
	    .version = CONTROL_VERSION, .kind = kind, .value = value, .extra = extra};
	char packet[CONTROL_PACKET_MAX];
	size_t length = control_format(&message, packet);
	assert_int_equal(send(fd, packet, length, MSG_NOSIGNAL), length);
}

int rig_wait(struct rig *rig)
{
	uint64_t deadline_ns = unit_now_ns() + RIG_PATIENCE_NS;
	int status;
	pid_t pid;
	while ((pid = waitpid(rig->pid, &status, WNOHANG)) == 0)
		rig_pause(deadline_ns, "the supervisor's end");
	assert_int_equal(pid, rig->pid);
	rig->pid = 0;
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

struct jobdir_result rig_finish(struct rig *rig)
{
	assert_int_equal(rig_wait(rig), LAUNCH_EXIT_DONE);
	struct jobdir_result result;
	struct err err = {0};
	if (jobdir_read_result(rig->job_fd, rig->launch.attempt, &result, &err) < 0)
		fail_msg("%s", err.text);
	return result;
}

static const char *rig_read_at(int directory, const char *name, bool is_line)
{
	static char text[RIG_TEXT_MAX];
	uint64_t deadline_ns = unit_now_ns() + RIG_PATIENCE_NS;
	for (;;) {
		_cleanup_close_ int fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
		ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
		if (length >= 0)
			text[length] = '\0';
		if (length >= 0 && (!is_line || strchr(text, '\n')))
			return text;
		rig_pause(deadline_ns, name);
	}
}

const char *rig_read(struct rig *rig, const char *name)
{
	_cleanup_close_ int fd = open(rig->tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return rig_read_at(fd, name, true);
}

pid_t rig_read_pid(struct rig *rig, const char *name)
{
	const char *text = rig_read(rig, name);
	uint64_t pid;
	assert_int_equal(parse_u64_span(text, strcspn(text, "\n"), 1, INT32_MAX, &pid), 0);
	return (pid_t)pid;
}

const char *rig_output(struct rig *rig)
{
	return rig_read_at(rig->job_fd, "out.1", false);
}

bool rig_is_alive(pid_t pid)
{
	struct tree_process process;
	return tree_read(pid, &process, NULL) == 0 && process.state != 'Z' && process.state != 'X';
}

void rig_wait_gone(pid_t pid)
{
	uint64_t deadline_ns = unit_now_ns() + RIG_PATIENCE_NS;
	while (rig_is_alive(pid))
		rig_pause(deadline_ns, "the end of a process");
}
