/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/storage_fio.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/child.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "bench/reader_internal.h"

enum {
	FIO_ARGUMENTS_MAX = 32,
	FIO_ARGUMENT_MAX = READER_PATH_MAX + 32,
	FIO_LOOK_MS = 100,
	FIO_END_MS = 5
};

static const struct clock fio_clock; /* the real one */

bool storage_fio_can(const struct reader_case *what)
{
	return what->pattern != READER_FILES && what->cache != READER_COLD;
}

/* --- what it says ----------------------------------------------------------------------------- */

static uint64_t fio_number(json_t *object, const char *key)
{
	double number = json_number_value(json_object_get(object, key)); /* 0: none */
	return number >= 0 && number < 1e18 ? (uint64_t)llround(number) : 0;
}

int storage_fio_parse(const char *text, size_t length, struct reader_outcome *out, struct err *err)
{
	json_error_t where;
	/* Warnings may come before the object. */
	const char *brace = length ? memchr(text, '{', length) : NULL;
	json_t *root = brace ? json_loadb(brace, length - (size_t)(brace - text), 0, &where) : NULL;
	json_t *job = json_array_get(json_object_get(root, "jobs"), 0);
	json_t *read = json_object_get(job, "read");
	json_t *percentiles = json_object_get(json_object_get(read, "clat_ns"), "percentile");
	struct reader_outcome outcome = {
	    .bytes = fio_number(read, "io_bytes"),
	    .reads = fio_number(read, "total_ios"),
	    .took_ns = fio_number(read, "runtime") * 1000000, /* milliseconds, below 1e18 / 1e6 */
	    .p50_ns = fio_number(percentiles, "50.000000"),
	    .p99_ns = fio_number(percentiles, "99.000000"),
	};
	uint64_t failed = fio_number(job, "error");
	bool is_there = read && fio_number(read, "runtime") < UINT64_C(1000000000000);
	int rc = 0;

	if (!is_there)
		rc = err_set(err, -EBADMSG, "fio printed no result");
	else if (failed == EINVAL)
		rc = err_set(err, -EOPNOTSUPP, "fio: O_DIRECT is not possible here");
	else if (failed)
		rc = err_set(err, -EIO, "fio: error %" PRIu64, failed);
	else if (outcome.bytes == 0 || outcome.took_ns == 0)
		rc = err_set(err, -EBADMSG, "fio read nothing");

	json_decref(root);
	if (rc == 0)
		*out = outcome;

	return rc;
}

/* --- its command ------------------------------------------------------------------------------ */

struct fio_command {
	char text[FIO_ARGUMENTS_MAX][FIO_ARGUMENT_MAX];
	char *argv[FIO_ARGUMENTS_MAX + 1];
	size_t count;
};

static void fio_add(struct fio_command *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void fio_add(struct fio_command *command, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	char *out = command->text[command->count];
	(void)vsnprintf(out, FIO_ARGUMENT_MAX, format, arguments); /* fits: a path and a word */
	va_end(arguments);
	command->argv[command->count++] = out;
}

static int fio_make(struct fio_command *command, const char *program, const struct reader_set *set,
		    const struct reader_case *what, uint64_t time_ns, uint64_t seed,
		    struct err *err)
{
	char path[FILE_PATH_MAX];
	int rc = reader_large_path(set, path, err);
	if (rc < 0)
		return rc;

	/* Its directory is where fio is started: to fio, a path with a colon is two. */
	const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	/* Each reader of a file has a part of its own. */
	uint64_t part = set->bytes / what->readers / what->block * what->block;

	fio_add(command, "%s", program);
	fio_add(command, "--name=sluice");
	fio_add(command, "--filename=%s", name);
	fio_add(command, "--readonly");
	fio_add(command, "--ioengine=psync");
	fio_add(command, "--thread");
	fio_add(command, "--group_reporting");
	fio_add(command, "--output-format=json");
	fio_add(command, "--time_based");

	fio_add(command, "--runtime=%" PRIu64 "us", time_ns / 1000);
	fio_add(command, "--bs=%zu", what->block);
	fio_add(command, "--numjobs=%u", what->readers);
	fio_add(command, "--rw=%s", what->pattern == READER_RANDOM ? "randread" : "read");
	fio_add(command, "--norandommap");
	fio_add(command, "--randseed=%" PRIu64, seed >> 1);
	fio_add(command, "--direct=%d", what->cache == READER_DIRECT);
	fio_add(command, "--invalidate=0");
	fio_add(command, "--pre_read=%d", what->cache == READER_CACHED);

	if (what->pattern == READER_SEQUENTIAL && part > 0) {
		fio_add(command, "--size=%" PRIu64, part);
		fio_add(command, "--offset_increment=%" PRIu64, part);
	} else {
		fio_add(command, "--size=%" PRIu64, set->bytes);
	}

	return 0;
}

/* --- running it ------------------------------------------------------------------------------- */

/* Reads to its end; -EINTR, -ETIMEDOUT, -EFBIG. */
static int fio_read(int fd, const atomic_bool *stop, uint64_t until_ns, struct buf *out)
{
	char data[4096];

	for (;;) {
		struct pollfd wait = {.fd = fd, .events = POLLIN};

		if (stop && atomic_load(stop))
			return -EINTR;
		if (clock_now_ns(&fio_clock) >= until_ns)
			return -ETIMEDOUT;
		if (poll(&wait, 1, FIO_LOOK_MS) <= 0)
			continue;

		ssize_t length = read(fd, data, sizeof(data));
		if (length == 0)
			return 0;
		if (length < 0 && errno != EINTR)
			return -errno;
		if (length > 0 && buf_add(out, data, (size_t)length) < 0)
			return -EFBIG;
	}
}

/* After its last word, for its end: 0 once it is reaped; -EINTR, -ETIMEDOUT. */
static int fio_wait(pid_t pid, const atomic_bool *stop, uint64_t until_ns)
{
	for (;;) {
		pid_t ended = waitpid(pid, NULL, WNOHANG);
		if (ended > 0 || (ended < 0 && errno != EINTR))
			return 0;
		if (stop && atomic_load(stop))
			return -EINTR;
		if (clock_now_ns(&fio_clock) >= until_ns)
			return -ETIMEDOUT;

		(void)poll(NULL, 0, FIO_END_MS);
	}
}

/* `read_result`: of fio_read(). */
static int fio_end(pid_t pid, int read_result, const atomic_bool *stop, uint64_t until_ns,
		   struct err *err)
{
	if (read_result == 0)
		read_result = fio_wait(pid, stop, until_ns);

	if (read_result < 0) {
		(void)kill(-pid, SIGKILL);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	}

	if (read_result == -EINTR)
		return err_set(err, -EINTR, "interrupted");
	if (read_result == -ETIMEDOUT)
		return err_set(err, -ETIMEDOUT, "fio did not end within its time and %d s",
			       STORAGE_FIO_GRACE_S);

	return read_result < 0 ? err_set(err, read_result, "reading what fio says: %s",
					 err_describe(read_result))
			       : 0;
}

int storage_fio_run(const char *program, const struct reader_set *set,
		    const struct reader_case *what, uint64_t time_ns, uint64_t seed,
		    const atomic_bool *stop, struct reader_outcome *out, struct err *err)
{
	struct fio_command command = {.count = 0};
	struct buf text _cleanup_buf_;
	int ends[2];
	pid_t pid;

	buf_init(&text, STORAGE_FIO_OUTPUT_MAX);
	int rc = fio_make(&command, program, set, what, time_ns, seed, err);
	if (rc < 0)
		return rc;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(err, -errno, "making a pipe: %s", err_describe(errno));

	_cleanup_close_ int reader = ends[0];
	_cleanup_close_ int writer = ends[1];
	const struct child_fd fds[] = {{writer, STDOUT_FILENO}, {writer, STDERR_FILENO}};
	const struct child_spec spec = {.path = program,
					.argv = command.argv,
					.directory = set->directory, /* where it may leave files */
					.fds = fds,
					.fd_count = 2,
					.new_session = true};

	rc = child_spawn(&spec, &pid, err);
	if (rc < 0)
		return err_wrap(err, "starting '%s'", program);

	(void)close(take_fd(&writer));
	uint64_t until_ns =
	    clock_now_ns(&fio_clock) + time_ns + STORAGE_FIO_GRACE_S * UINT64_C(1000000000);
	rc = fio_end(pid, fio_read(reader, stop, until_ns, &text), stop, until_ns, err);
	if (rc < 0)
		return rc;

	rc = storage_fio_parse(buf_text(&text), text.length, out, err);
	if (rc == -EBADMSG)
		return err_set(err, -EIO, "fio: %.*s",
			       text.length ? (int)strcspn(buf_text(&text), "\n") : 7,
			       text.length ? buf_text(&text) : "nothing");

	return rc;
}
