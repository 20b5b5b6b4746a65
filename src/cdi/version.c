/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/version.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/child.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/parse.h"

static const struct clock real_clock = {.fake_ns = NULL};

/* --- what was said --------------------------------------------------------------------------- */

/* Takes digits from the front. False: there are none, or too many. */
static bool take_number(const char *text, size_t length, size_t *at, uint32_t *out)
{
	size_t count = 0;
	while (*at + count < length && text[*at + count] >= '0' && text[*at + count] <= '9')
		count++;

	uint64_t number;
	if (parse_u64_span(text + *at, count, 0, UINT32_MAX - 1, &number) < 0)
		return false;

	*at += count;
	*out = (uint32_t)number;
	return true;
}

/* One word, up to a blank or a comma. */
static bool version_word(const char *text, size_t length, struct version *out)
{
	struct version version = {.patch = UINT32_MAX};
	size_t at = length > 0 && text[0] == 'v' ? 1 : 0;
	size_t first = at;

	if (!take_number(text, length, &at, &version.major) || at == length || text[at++] != '.' ||
	    !take_number(text, length, &at, &version.minor))
		return false;

	if (at + 1 < length && text[at] == '.') {
		size_t behind = at + 1;
		if (take_number(text, length, &behind, &version.patch))
			at = behind;
	}

	for (size_t i = first; i < length; i++)
		if (text[i] <= ' ' || text[i] > '~')
			return false;

	(void)snprintf(version.text, sizeof(version.text), "%.*s", (int)(length - first),
		       text + first);
	*out = version;
	return true;
}

int version_parse(const char *text, size_t length, struct version *out)
{
	size_t at = 0;

	while (at < length) {
		size_t end = at;
		while (end < length && !strchr(" \t\r\n,", text[end]))
			end++;

		if (end - at < VERSION_OUTPUT_MAX && version_word(text + at, end - at, out))
			return 0;

		at = end + 1;
	}

	return -EINVAL;
}

bool version_is_at_least(const struct version *version, uint32_t major, uint32_t minor,
			 uint32_t patch)
{
	if (version->major != major)
		return version->major > major;
	if (version->minor != minor)
		return version->minor > minor;
	return version->patch >= patch;
}

/* --- who says it ----------------------------------------------------------------------------- */

static bool is_program(const char *path)
{
	struct stat status;
	return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

int version_find_program(const char *name, char out[FILE_PATH_MAX], struct err *err)
{
	static const char system_path[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin";
	const char *environment = getenv("PATH");
	const char *lists[] = {environment ? environment : "", system_path};

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		const char *next;

		for (const char *list = lists[i]; *list; list = next) {
			size_t length = strcspn(list, ":");
			next = list + length + (list[length] == ':');

			/* A relative one would let the current directory choose what root runs. */
			if (*list != '/' ||
			    file_path(out, NULL, "%.*s/%s", (int)length, list, name) < 0)
				continue;
			if (is_program(out))
				return 0;
		}
	}

	return err_set(err, -ENOENT, "there is no program '%s' in $PATH", name);
}

/* In a session of its own, so that all of it can be killed; standard output is `fd`. */
static int version_start(const char *program, int fd, pid_t *out)
{
	char *argv[] = {(char *)program, (char *)"--version", NULL};
	const struct child_fd output = {.source = fd, .target = STDOUT_FILENO};
	const struct child_spec spec = {
	    .path = program, .argv = argv, .fds = &output, .fd_count = 1, .new_session = true};
	return child_spawn(&spec, out, NULL);
}

/* All that it prints until it closes its output. 0, -ETIMEDOUT, -ENOSPC (too much), -errno. */
static int version_listen(int fd, uint64_t deadline_ns, struct buf *out)
{
	for (;;) {
		uint64_t now_ns = clock_now_ns(&real_clock);
		if (now_ns >= deadline_ns)
			return -ETIMEDOUT;

		struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
		int rc = poll(&poll_fd, 1, (int)((deadline_ns - now_ns) / CLOCK_NS_PER_MS + 1));
		if (rc < 0 && errno != EINTR)
			return -errno;
		if (rc <= 0)
			continue;

		char chunk[1024];
		ssize_t count = read(fd, chunk, sizeof(chunk));
		if (count == 0)
			return 0;
		if (count < 0 && errno != EINTR)
			return -errno;

		if (count > 0 && (rc = buf_add(out, chunk, (size_t)count)) < 0)
			return rc;
	}
}

/* The end of the process, within the deadline: else it is killed. */
static int version_wait(pid_t pid, uint64_t deadline_ns, int listened, int *out_status)
{
	int rc = listened;

	/* One that closed its output and lives on is waited for only as long. */
	while (rc == 0) {
		pid_t got = waitpid(pid, out_status, WNOHANG);
		if (got == pid)
			return 0;
		if (got < 0 && errno != EINTR)
			return -errno;
		if (clock_now_ns(&real_clock) >= deadline_ns)
			rc = -ETIMEDOUT;
		else
			(void)poll(NULL, 0, 1);
	}

	(void)kill(-pid, SIGKILL);

	while (waitpid(pid, out_status, 0) < 0 && errno == EINTR)
		;

	return rc;
}

int version_ask(const char *program, uint32_t timeout_ms, struct version *out, struct err *err)
{
	int pair[2];
	if (pipe2(pair, O_CLOEXEC) < 0)
		return err_set(err, -errno, "cannot make a pipe: %s", err_describe(-errno));

	_cleanup_close_ int reader = pair[0];
	_cleanup_close_ int writer = pair[1];
	_cleanup_buf_ struct buf said;

	buf_init(&said, VERSION_OUTPUT_MAX);
	uint64_t deadline_ns = clock_now_ns(&real_clock) + timeout_ms * CLOCK_NS_PER_MS;
	pid_t pid;
	int rc = version_start(program, writer, &pid);
	if (rc < 0)
		return err_set(err, rc, "cannot run '%s': %s", program, err_describe(rc));

	(void)close(take_fd(&writer));
	int status = 0;

	rc = version_listen(reader, deadline_ns, &said);
	rc = version_wait(pid, deadline_ns, rc, &status);
	if (rc == -ETIMEDOUT)
		return err_set(err, rc, "'%s --version' did not end within %u ms", program,
			       timeout_ms);
	if (rc < 0)
		return err_set(err, rc, "cannot read what '%s --version' prints: %s", program,
			       err_describe(rc));

	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return err_set(err, -EIO, "'%s --version' failed", program);

	rc = version_parse(buf_text(&said), said.length, out);
	return rc < 0 ? err_set(err, rc, "'%s --version' printed no version", program) : 0;
}
