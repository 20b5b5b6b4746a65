/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/run/run_streams.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "cmd/service/agent_call.h"
#include "cmd/jobs/job_text.h"
#include "cmd/table.h"

static int run_streams_refuse(const char *option, const char *path, int code, struct err *err)
{
	return err_set(err, -EINVAL, "%s '%s' cannot be written: %s", option, path,
		       err_describe(code));
}

int run_streams_check(const char *option, const char *path, bool is_replaced, struct err *err)
{
	char directory[FILE_PATH_MAX];
	struct stat info;
	bool is_there = lstat(path, &info) == 0;
	if (!is_there && errno != ENOENT)
		return run_streams_refuse(option, path, -errno, err);

	/* One is renamed into place: root's /dev/stdout would be gone for everybody. Through a link
	 * that somebody has laid there nothing is written. */
	if (is_there && !S_ISREG(info.st_mode))
		return err_set(err, -EINVAL, "%s '%s' is there and is not a plain file", option,
			       path);
	if (is_there && !is_replaced)
		return faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0
			   ? 0
			   : run_streams_refuse(option, path, -errno, err);

	if (!*path)
		return err_set(err, -EINVAL, "%s names no file", option);

	const char *slash = strrchr(path, '/');
	int length = slash == path ? 1 : slash ? (int)(slash - path) : 1;
	int rc = file_path(directory, err, "%.*s", length, slash ? path : ".");
	if (rc == 0 && faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS) != 0)
		rc = run_streams_refuse(option, path, -errno, err);

	return rc < 0 ? -EINVAL : 0;
}

int run_streams_report(struct agent_call *agent, const char *path, const Sluice__V1__Job *job,
		       struct err *err)
{
	/* Once more in full: what is watched leaves the command out. */
	ProtobufCMessage *whole = NULL;
	Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;

	request.id = job->id;
	request.details = true;
	(void)agent_call_ask(agent, AGENT_GET, &request.base, &whole, NULL); /* else as it is */

	json_auto_t *json = job_text_json(whole ? (const Sluice__V1__Job *)whole : job);

	agent_call_free(whole);
	_cleanup_free_ char *text = table_json_dump(json);
	if (!text)
		return err_set(err, -ENOMEM, "no memory for '%s'", path);

	return file_write_atomic(path, text, strlen(text), 0644, err);
}

/* Whether something is there to be read. */
static bool run_streams_has_input(int fd)
{
	struct stat info;
	struct pollfd now = {.fd = fd, .events = POLLIN};

	if (fstat(fd, &info) < 0)
		return false;
	if (S_ISREG(info.st_mode)) {
		off_t at = lseek(fd, 0, SEEK_CUR);
		return at >= 0 && at < info.st_size;
	}

	/* A pipe without a word in it, open or not, is that of a program without input: those who
	 * start programs by themselves often leave one open. */
	return S_ISFIFO(info.st_mode) && poll(&now, 1, 0) > 0 && (now.revents & POLLIN);
}

void run_streams_note_input(const char *command)
{
	if (run_streams_has_input(STDIN_FILENO))
		fprintf(stderr,
			"%s: a job's input is empty, and standard input is not read: have the "
			"command open a file, as sh -c 'COMMAND < FILE' (silence this with < "
			"/dev/null or --quiet)\n",
			command);
}

void run_streams_number(const char *command, uint64_t id)
{
	if (printf("%" PRIu64 "\n", id) > 0 && fflush(stdout) == 0)
		return; /* whoever reads along knows what was accepted */
	fprintf(stderr, "%s: job %" PRIu64 " was accepted, but its number cannot be written\n",
		command, id);
}
