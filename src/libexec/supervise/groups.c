/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/supervise/groups.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "job/launch.h"
#include "job/rights.h"

enum {
	GROUPS_MAX = 65536,	    /* NGROUPS_MAX of Linux */
	GROUPS_TEXT_MAX = 64 << 10, /* of an entry of the user database */
};

static const struct clock groups_clock; /* the real one */

/* What the process that asks writes; the groups follow. */
struct groups_answer {
	int32_t code; /* 0, or -errno */
	uint32_t is_known, count;
	gid_t gid; /* the user's own */
};

/* --- the process that asks -------------------------------------------------------------------- */

static void groups_write(int fd, const void *data, size_t length)
{
	const char *at = data;

	while (length > 0) {
		ssize_t written = write(fd, at, length);
		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return; /* the reader misses it */

		at += written;
		length -= (size_t)written;
	}
}

/* What getpwuid_r(3) may say of somebody who is not there. */
static bool groups_is_unknown(int code)
{
	return code == 0 || code == ENOENT || code == ESRCH || code == EBADF || code == EPERM;
}

static _Noreturn void groups_ask(uid_t uid, int fd)
{
	static char text[GROUPS_TEXT_MAX];
	static gid_t list[GROUPS_MAX];
	struct groups_answer answer = {.code = 0};
	struct passwd entry, *found = NULL;
	int count = GROUPS_MAX;
	int code = getpwuid_r(uid, &entry, text, sizeof(text), &found);

	if (found && getgrouplist(found->pw_name, found->pw_gid, list, &count) < 0) {
		answer.code = -E2BIG;
	} else if (found) {
		answer.is_known = 1;
		answer.gid = found->pw_gid;
		answer.count = (uint32_t)count;
	} else if (!groups_is_unknown(code)) {
		answer.code = -code;
	}

	groups_write(fd, &answer, sizeof(answer));
	groups_write(fd, list, answer.count * sizeof(list[0]));
	_exit(0);
}

/* --- the supervisor --------------------------------------------------------------------------- */

/* All of it, or -errno. */
static int groups_read(int fd, void *out, size_t length, uint64_t until_ns)
{
	char *at = out;

	while (length > 0) {
		uint64_t now_ns = clock_now_ns(&groups_clock);
		struct pollfd wait = {.fd = fd, .events = POLLIN};

		if (now_ns >= until_ns)
			return -EAGAIN;
		if (poll(&wait, 1, (int)((until_ns - now_ns) / CLOCK_NS_PER_MS) + 1) <= 0)
			continue;

		ssize_t size = read(fd, at, length);
		if (size < 0 && errno == EINTR)
			continue;
		if (size <= 0)
			return size < 0 ? -errno : -EIO;

		at += size;
		length -= (size_t)size;
	}

	return 0;
}

static int groups_hear(int fd, struct groups_answer *out, gid_t **out_list, uint64_t until_ns)
{
	int rc = groups_read(fd, out, sizeof(*out), until_ns);
	if (rc == 0 && (out->code < 0 || out->count > GROUPS_MAX))
		rc = out->code < 0 ? -EIO : -E2BIG;
	if (rc < 0)
		return rc;

	gid_t *list = calloc((size_t)out->count + 1, sizeof(*list));
	if (!list)
		return -ENOMEM;

	rc = groups_read(fd, list, out->count * sizeof(*list), until_ns);
	if (rc < 0)
		free(list);
	else
		*out_list = list;

	return rc;
}

static int groups_look_up(uid_t uid, struct groups_answer *out, gid_t **out_list, struct err *err)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(err, -errno, "making a pipe: %s", err_describe(errno));

	_cleanup_close_ int read_fd = ends[0];
	_cleanup_close_ int write_fd = ends[1];
	pid_t pid = fork();
	if (pid < 0)
		return err_set(err, -errno, "starting a process: %s", err_describe(errno));

	if (pid == 0)
		groups_ask(uid, write_fd);

	(void)close(take_fd(&write_fd));
	uint64_t until_ns = clock_after_ns(clock_now_ns(&groups_clock), GROUPS_ANSWER_NS);
	int rc = groups_hear(read_fd, out, out_list, until_ns);
	if (rc < 0)
		(void)kill(pid, SIGKILL); /* not reaped, so the number is its own */

	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;

	return rc < 0 ? err_set(err, rc, "the groups of user %u cannot be looked up now: %s",
				(unsigned)uid, err_describe(rc))
		      : 0;
}

int groups_refresh(struct spec *spec, bool *out_changed, struct err *err)
{
	struct groups_answer answer;
	_cleanup_free_ gid_t *list = NULL;

	*out_changed = false;
	if (geteuid() != 0 || spec->uid == 0)
		return 0;

	int rc = groups_look_up(spec->uid, &answer, &list, err);
	if (rc < 0)
		return rc;

	gid_t own = answer.is_known ? answer.gid : spec->gid;
	*out_changed = rights_keep_groups(spec, own, list, answer.count);

	bool is_member = spec->gid == own;
	for (uint32_t i = 0; i < answer.count && !is_member; i++)
		is_member = list[i] == spec->gid;

	*out_changed = *out_changed || !is_member;
	if (!is_member)
		spec->gid = own;

	return 0;
}

int groups_replace_launch(const struct launch *launch, struct err *err)
{
	_cleanup_free_ char *bytes = NULL;
	size_t length = 0, at = 0;
	int rc = launch_format(launch, &bytes, &length, err);
	if (rc < 0)
		return rc;

	_cleanup_close_ int fd = memfd_create("sluice-launch", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	while (fd >= 0 && at < length) {
		ssize_t written = write(fd, bytes + at, length - at);
		if (written <= 0 && errno != EINTR)
			break;
		at += written > 0 ? (size_t)written : 0;
	}

	if (fd < 0 || at < length ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0 ||
	    dup3(fd, LAUNCH_FD_LAUNCH, O_CLOEXEC) < 0)
		return err_set(err, -errno, "memory for a launch: %s", err_describe(errno));

	return 0;
}
