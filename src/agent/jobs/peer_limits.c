/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/jobs/peer_limits.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/parse.h"

_Static_assert((int)RLIM_NLIMITS == (int)SPEC_LIMITS_MAX, "one of each resource");

/* As fs/proc/base.c of Linux calls them, in the order of their numbers. */
static const char *const limit_names[SPEC_LIMITS_MAX] = {
    [RLIMIT_CPU] = "Max cpu time",
    [RLIMIT_FSIZE] = "Max file size",
    [RLIMIT_DATA] = "Max data size",
    [RLIMIT_STACK] = "Max stack size",
    [RLIMIT_CORE] = "Max core file size",
    [RLIMIT_RSS] = "Max resident set",
    [RLIMIT_NPROC] = "Max processes",
    [RLIMIT_NOFILE] = "Max open files",
    [RLIMIT_MEMLOCK] = "Max locked memory",
    [RLIMIT_AS] = "Max address space",
    [RLIMIT_LOCKS] = "Max file locks",
    [RLIMIT_SIGPENDING] = "Max pending signals",
    [RLIMIT_MSGQUEUE] = "Max msgqueue size",
    [RLIMIT_NICE] = "Max nice priority",
    [RLIMIT_RTPRIO] = "Max realtime priority",
    [RLIMIT_RTTIME] = "Max realtime timeout",
};

/* --- what /proc says -------------------------------------------------------------------------- */

/* The next word of the line; false when there is none. */
static bool limit_word(const char **at, const char *end, const char **out, size_t *out_length)
{
	while (*at < end && **at == ' ')
		(*at)++;
	*out = *at;
	while (*at < end && **at != ' ')
		(*at)++;
	*out_length = (size_t)(*at - *out);
	return *out_length > 0;
}

static bool limit_value(const char **at, const char *end, uint64_t *out)
{
	static const char unlimited[] = "unlimited";
	const char *word;
	size_t length;

	if (!limit_word(at, end, &word, &length))
		return false;
	if (length == strlen(unlimited) && memcmp(word, unlimited, length) == 0) {
		*out = UINT64_MAX;
		return true;
	}

	return parse_u64_span(word, length, 0, UINT64_MAX, out) == 0;
}

static bool limit_line(const char *line, const char *end, struct spec_limit *out)
{
	for (uint32_t i = 0; i < SPEC_LIMITS_MAX; i++) {
		size_t length = strlen(limit_names[i]);
		const char *at = line + length;

		if ((size_t)(end - line) <= length || memcmp(line, limit_names[i], length) != 0 ||
		    *at != ' ')
			continue;

		out->resource = i;
		return limit_value(&at, end, &out->soft) && limit_value(&at, end, &out->hard) &&
		       out->soft <= out->hard;
	}

	return false;
}

int peer_limits_parse(const char *text, size_t length, struct spec_limit out[SPEC_LIMITS_MAX],
		      struct err *err)
{
	struct spec_limit found[SPEC_LIMITS_MAX], limit;
	bool has[SPEC_LIMITS_MAX] = {false};
	const char *at = text, *end = text + length;

	while (at < end) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		stop = stop ? stop : end;
		if (limit_line(at, stop, &limit)) {
			found[limit.resource] = limit;
			has[limit.resource] = true;
		}

		at = stop < end ? stop + 1 : end;
	}

	for (uint32_t i = 0; i < SPEC_LIMITS_MAX; i++)
		if (!has[i])
			return err_set(err, -EINVAL, "no line '%s' that is understood",
				       limit_names[i]);

	memcpy(out, found, sizeof(found));
	return 0;
}

/* --- the process ------------------------------------------------------------------------------ */

static int limits_gone(const struct peer_process *peer, struct err *err)
{
	return err_set(err, -EPERM,
		       "process %ld, which asks, has ended: its resource limits are not known, and "
		       "a job gets no others",
		       (long)peer->pid);
}

static int limits_read_file(int process_fd, const char *name, struct buf *out)
{
	_cleanup_close_ int fd = openat(process_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char piece[1024];
	ssize_t length = fd < 0 ? -1 : 1;

	while (length > 0) {
		length = read(fd, piece, sizeof(piece));
		if (length > 0 && buf_add(out, piece, (size_t)length) < 0)
			return -EFBIG;
	}

	return length < 0 ? -errno : 0;
}

/* Whether it is still there, and the user's. The directory is of one process, whoever gets its
 * number. */
static int limits_check_user(const struct peer_process *peer, int process_fd, struct err *err)
{
	_cleanup_buf_ struct buf text;
	uint64_t uid;
	const char *real, *effective;
	size_t length;

	buf_init(&text, PEER_LIMITS_TEXT_MAX);
	if (limits_read_file(process_fd, "status", &text) < 0)
		return limits_gone(peer, err);

	const char *line = strstr(buf_text(&text), "\nUid:\t");
	if (!line)
		return err_set(err, -EINVAL, "'/proc/%ld/status' does not say whose it is",
			       (long)peer->pid);

	real = line + strlen("\nUid:\t");
	effective = real + strcspn(real, "\t\n") + 1;
	length = strcspn(effective, "\t\n");
	if (parse_u64_span(effective, length, 0, UINT32_MAX, &uid) < 0 || uid != peer->uid)
		return err_set(err, -EPERM, "process %ld, which asks, has another user by now",
			       (long)peer->pid);

	return 0;
}

static bool limits_has_ended(const struct peer_process *peer)
{
	struct pollfd wait = {.fd = peer->pidfd, .events = POLLIN};
	int rc;

	if (peer->pidfd < 0)
		return false;

	/* Does not wait, and yet is interrupted: by SIGCHLD of a job that has ended. */
	do
		rc = poll(&wait, 1, 0);
	while (rc < 0 && errno == EINTR);

	return rc != 0; /* also when that cannot be asked */
}

static int limits_of_file(const struct peer_process *peer, int process_fd,
			  struct spec_limit out[SPEC_LIMITS_MAX], struct err *err)
{
	_cleanup_buf_ struct buf text;
	buf_init(&text, PEER_LIMITS_TEXT_MAX);

	int rc = limits_read_file(process_fd, "limits", &text);
	if (rc < 0)
		return rc == -ESRCH || rc == -ENOENT ? limits_gone(peer, err)
						     : err_set(err, rc, "'/proc/%ld/limits': %s",
							       (long)peer->pid, err_describe(rc));

	rc = peer_limits_parse(buf_text(&text), text.length, out, err);
	return rc < 0 ? err_wrap(err, "'/proc/%ld/limits'", (long)peer->pid) : 0;
}

static uint64_t limits_value(rlim_t value)
{
	return value == RLIM_INFINITY ? UINT64_MAX : value;
}

static int limits_ask(const struct peer_process *peer, int process_fd,
		      struct spec_limit out[SPEC_LIMITS_MAX], struct err *err)
{
	for (uint32_t i = 0; i < SPEC_LIMITS_MAX; i++) {
		struct rlimit limit;
		if (prlimit(peer->pid, (__rlimit_resource_t)i, NULL, &limit) < 0) {
			if (errno == EPERM) /* another user's, and we lack CAP_SYS_RESOURCE */
				return limits_of_file(peer, process_fd, out, err);

			return errno == ESRCH
				   ? limits_gone(peer, err)
				   : err_set(err, -errno, "the limits of process %ld: %s",
					     (long)peer->pid, err_describe(errno));
		}

		out[i] = (struct spec_limit){.resource = i,
					     .soft = limits_value(limit.rlim_cur),
					     .hard = limits_value(limit.rlim_max)};
	}

	return 0;
}

int peer_limits_read(const struct peer_process *peer, struct spec_limit out[SPEC_LIMITS_MAX],
		     struct err *err)
{
	struct spec_limit found[SPEC_LIMITS_MAX];
	char path[64];

	for (uint32_t i = 0; i < SPEC_LIMITS_MAX; i++)
		found[i] = (struct spec_limit){i, UINT64_MAX, UINT64_MAX};

	if (peer->pid <= 0 && peer->uid != 0)
		return err_set(
		    err, -EPERM,
		    "the process that asks cannot be seen from here, as it is in another "
		    "PID namespace: its resource limits are not known, and a job gets "
		    "no others");

	if (peer->pid > 0) {
		(void)snprintf(path, sizeof(path), "/proc/%ld", (long)peer->pid); /* fits */
		_cleanup_close_ int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
		/* It had its number when the directory was opened, if it has not ended since. */
		if (fd < 0 || limits_has_ended(peer))
			return limits_gone(peer, err);

		int rc = limits_check_user(peer, fd, err);
		if (rc == 0)
			rc = limits_ask(peer, fd, found, err);

		/* And had it while they were read, for it is there now. */
		if (rc == 0)
			rc = limits_check_user(peer, fd, err);
		if (rc < 0)
			return rc;
	}

	memcpy(out, found, sizeof(found));
	return 0;
}

int peer_limits_lower(struct spec_limit limits[SPEC_LIMITS_MAX], const struct spec_limit *wanted,
		      size_t count, struct err *err)
{
	bool has[SPEC_LIMITS_MAX] = {false};

	for (size_t i = 0; i < count; i++) {
		if (wanted[i].resource >= SPEC_LIMITS_MAX)
			return err_set(err, -EINVAL, "there is no resource limit %u",
				       wanted[i].resource);

		struct spec_limit *limit = &limits[wanted[i].resource];
		if (wanted[i].hard < limit->hard)
			limit->hard = wanted[i].hard;

		/* The soft one may also be higher, as its own process could have it. */
		if (!has[limit->resource] || wanted[i].soft < limit->soft)
			limit->soft = wanted[i].soft;
		if (limit->soft > limit->hard)
			limit->soft = limit->hard;
		has[limit->resource] = true;
	}

	return 0;
}
