/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice mlperf`: the table of its verbs, `log`, and how logs are read. */
#include "cmd/proof/mlperf.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "bench/mllog.h"
#include "cmd/options.h"

enum {
	MLPERF_READ = 65536,
	MLPERF_LINE_MAX = 2 << 20,
	MLPERF_FILE_MAX = 1 << 30, /* bytes of a log with all that a program printed beside it */
	MLPERF_SILENCE_MS = 10000, /* of a pipe that is read */
};

/* A line that is longer than any that can be meant is dropped, and counted as one. */
static void mlperf_take(struct mlrun *run, const struct buf *line, bool is_cut)
{
	static const char nothing[] = "";
	mlrun_line(run, is_cut ? nothing : buf_text(line), is_cut ? 0 : line->length);
}

/* Adds bytes of the file to `line`, and takes each line that ends in them. */
static int mlperf_read_block(struct mlrun *out, const char *at, size_t length, struct buf *line,
			     bool *is_cut)
{
	for (const char *end = at + length; at < end;) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		size_t span = (size_t)((newline ? newline : end) - at);
		int rc = *is_cut ? 0 : buf_add(line, at, span);
		if (rc == -ENOMEM)
			return rc;

		*is_cut = *is_cut || rc < 0;
		if (newline) {
			mlperf_take(out, line, *is_cut);
			line->length = 0;
			*is_cut = false;
		}

		at += span + (newline != NULL);
	}

	return 0;
}

/* As read(2). -ETIMEDOUT: a pipe into which nobody writes. */
static ssize_t mlperf_read_some(int fd, char data[MLPERF_READ])
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	int ready;
	do {
		ready = poll(&wait, 1, MLPERF_SILENCE_MS);
	} while (ready < 0 && errno == EINTR);
	if (ready <= 0)

		return ready == 0 ? -ETIMEDOUT : -errno;

	ssize_t length = read(fd, data, MLPERF_READ); /* does not wait: nobody interrupts it */

	return length < 0 ? -errno : length;
}

static int mlperf_read_open(int fd, struct mlrun *out, struct buf *line)
{
	char data[MLPERF_READ];
	bool is_cut = false;
	uint64_t total = 0;
	ssize_t length;

	while ((length = mlperf_read_some(fd, data)) > 0) {
		int rc = mlperf_read_block(out, data, (size_t)length, line, &is_cut);
		if (rc < 0)
			return rc;

		total += (size_t)length;
		if (total > MLPERF_FILE_MAX)
			return -EFBIG;
	}

	if (length == 0 && line->length > 0)
		mlperf_take(out, line, is_cut);

	return (int)length;
}

/* A file, or a pipe as of `<(zcat log.gz)`; nothing that never ends. */
static int mlperf_check(int fd)
{
	struct stat status;
	if (fstat(fd, &status) < 0)
		return -errno;
	if (S_ISDIR(status.st_mode))
		return -EISDIR;
	if (!S_ISREG(status.st_mode) && !S_ISFIFO(status.st_mode))
		return -ENODEV;

	return S_ISREG(status.st_mode) && status.st_size > MLPERF_FILE_MAX ? -EFBIG : 0;
}

int mlperf_read(const char *path, enum mlrules_round ruleset, struct mlrun *out, struct err *err)
{
	struct buf line _cleanup_buf_;

	buf_init(&line, MLPERF_LINE_MAX);
	mlrun_init(out, ruleset);

	/* O_NONBLOCK: a pipe that nobody writes into must not hang us. */
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	int rc = fd < 0 ? -errno : mlperf_check(fd);
	if (rc == 0)
		rc = mlperf_read_open(fd, out, &line);

	if (rc == -EFBIG)
		return err_set(err, rc,
			       "reading '%s': it is larger than %d MiB, and no log of a "
			       "training is",
			       path, MLPERF_FILE_MAX >> 20);

	if (rc == -ENODEV)
		return err_set(err, rc, "reading '%s': it is neither a file nor a pipe", path);
	if (rc == -ETIMEDOUT)
		return err_set(err, rc, "reading '%s': nobody has written into this pipe for %d s",
			       path, MLPERF_SILENCE_MS / 1000);

	return rc < 0 ? err_set(err, rc, "reading '%s': %s", path, err_describe(rc)) : 0;
}

/* --- files --------------------------------------------------------------------------------------
 */

static int mlperf_is_result(const struct dirent *entry)
{
	return fnmatch("result_*.txt", entry->d_name, 0) == 0;
}

static int mlperf_is_log(const struct dirent *entry)
{
	const char *dot = strrchr(entry->d_name, '.');
	return entry->d_name[0] != '.' && dot &&
	       (strcmp(dot, ".log") == 0 || strcmp(dot, ".txt") == 0 || strcmp(dot, ".out") == 0);
}

static int mlperf_files_add(struct mlperf_files *files, const char *directory, const char *name,
			    struct err *err)
{
	char *path = NULL;
	if (files->count == MLPERF_FILES_MAX)
		return err_set(err, -E2BIG, "more than %d logs", MLPERF_FILES_MAX);
	if (asprintf(&path, "%s%s%s", directory ? directory : "", directory ? "/" : "", name) < 0)
		return err_set(err, -ENOMEM, "no memory");
	files->paths[files->count++] = path;
	return 0;
}

static int mlperf_files_list(struct mlperf_files *files, const char *directory, struct err *err)
{
	struct dirent **entries;
	int count = scandir(directory, &entries, mlperf_is_result, versionsort), result = 0;
	if (count == 0) {
		free(entries);
		count = scandir(directory, &entries, mlperf_is_log, versionsort);
	}

	if (count < 0)
		return err_set(err, -errno, "reading '%s': %s", directory, err_describe(errno));
	if (count == 0)
		result = err_set(err, -ENOENT, "'%s' holds no result_*.txt, *.log, *.txt or *.out",
				 directory);

	for (int i = 0; i < count; i++) {
		if (result == 0)
			result = mlperf_files_add(files, directory, entries[i]->d_name, err);
		free(entries[i]);
	}

	free(entries);
	return result;
}

int mlperf_files_find(char *const *arguments, size_t count, struct mlperf_files *out,
		      struct err *err)
{
	int rc = 0;

	*out = (struct mlperf_files){.paths = calloc(MLPERF_FILES_MAX, sizeof(*out->paths))};
	if (!out->paths)
		return err_set(err, -ENOMEM, "no memory");

	for (size_t i = 0; rc == 0 && i < count; i++) {
		struct stat status;
		bool is_directory = stat(arguments[i], &status) == 0 && S_ISDIR(status.st_mode);
		rc = is_directory ? mlperf_files_list(out, arguments[i], err)
				  : mlperf_files_add(out, NULL, arguments[i], err);
	}

	return rc;
}

void mlperf_files_done(struct mlperf_files *files)
{
	for (size_t i = 0; files->paths && i < files->count; i++)
		free(files->paths[i]);
	free(files->paths);
	*files = (struct mlperf_files){0};
}

/* --- log ----------------------------------------------------------------------------------------
 */

struct mlperf_log_options {
	struct option_list meta;
	const char *file;
	bool start, end;
};

static const struct option_row log_rows[] = {
    {.name = "start",
     .kind = OPTION_FLAG,
     .help = "an interval begins (INTERVAL_START; else POINT_IN_TIME)",
     OPTION_FIELD(struct mlperf_log_options, start)},
    {.name = "end",
     .kind = OPTION_FLAG,
     .help = "an interval ends (INTERVAL_END)",
     OPTION_FIELD(struct mlperf_log_options, end)},
    {.name = "meta",
     .letter = 'm',
     .kind = OPTION_LIST,
     .value = "NAME=VALUE",
     .help = "of the metadata: VALUE is JSON, or else text; may be given again",
     OPTION_FIELD(struct mlperf_log_options, meta)},
    {.name = "file",
     .letter = 'f',
     .kind = OPTION_PATH,
     .value = "FILE",
     .help = "append to this file, in one write (default: standard output)",
     OPTION_FIELD(struct mlperf_log_options, file)},
    {0},
};

/* As JSON: what is some stays so, all else becomes text. */
static int log_value(struct buf *out, const char *text)
{
	struct buf probe _cleanup_buf_;

	buf_init(&probe, MLPERF_LINE_MAX);
	if (mllog_format(&probe, 0, MLLOG_POINT, "k", text, NULL, NULL) == 0)
		return buf_add_text(out, text);

	int rc = buf_add_text(out, "\"");
	for (const char *at = text; rc == 0 && *at; at++) {
		bool is_special = *at == '"' || *at == '\\' || (unsigned char)*at < ' ';
		rc = is_special ? buf_printf(out, "\\u%04x", (unsigned char)*at)
				: buf_add(out, at, 1);
	}

	return rc == 0 ? buf_add_text(out, "\"") : rc;
}

static int log_metadata(const struct cmd_call *call, const struct option_list *meta,
			struct buf *out)
{
	int rc = buf_add_text(out, "{");

	for (size_t i = 0; rc == 0 && i < meta->count; i++) {
		const char *equals = strchr(meta->items[i], '=');
		if (!equals || equals == meta->items[i])
			return cmd_usage(call, "--meta '%s': NAME=VALUE is wanted", meta->items[i]);

		struct buf name _cleanup_buf_;

		buf_init(&name, MLPERF_LINE_MAX);
		rc = buf_printf(&name, "%.*s", (int)(equals - meta->items[i]), meta->items[i]);
		if (rc == 0)
			rc = buf_printf(out, "%s\"%s\": ", i ? ", " : "", buf_text(&name));
		if (rc == 0)
			rc = log_value(out, equals + 1);
	}

	return rc == 0 ? buf_add_text(out, "}") : rc;
}

static int log_write(const struct cmd_call *call, const char *path, const struct buf *line)
{
	struct err err = {0};
	_cleanup_close_ int fd =
	    path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;
	if (path && fd < 0) {
		(void)err_set(&err, -errno, "opening '%s': %s", path, err_describe(errno));
		return cmd_fail(call, CMD_EXIT_CANNOT_WRITE, &err);
	}

	/* At once, so that lines of several processes do not mix. */
	ssize_t written = write(path ? fd : STDOUT_FILENO, buf_text(line), line->length);
	if (written == (ssize_t)line->length)
		return CMD_EXIT_OK;

	(void)err_set(&err, written < 0 ? -errno : -ENOSPC, "writing '%s': %s",
		      path ? path : "standard output", err_describe(written < 0 ? errno : ENOSPC));
	return cmd_fail(call, CMD_EXIT_CANNOT_WRITE, &err);
}

static int log_main(const struct cmd_call *call)
{
	const struct mlperf_log_options *options = call->options;
	struct err err = {0};
	struct buf line _cleanup_buf_, value _cleanup_buf_, metadata _cleanup_buf_;

	buf_init(&line, MLPERF_LINE_MAX);
	buf_init(&value, MLPERF_LINE_MAX);
	buf_init(&metadata, MLPERF_LINE_MAX);

	if (options->start && options->end)
		return cmd_usage(call, "--start and --end exclude each other");

	int code = log_metadata(call, &options->meta, &metadata);
	if (code > 0)
		return code;
	if (code < 0 || (call->argc > 1 && log_value(&value, call->argv[1]) < 0)) {
		(void)err_set(&err, -E2BIG, "the line is too long");
		return cmd_fail(call, CMD_EXIT_USAGE, &err);
	}

	enum mllog_event event = options->start ? MLLOG_START
				 : options->end ? MLLOG_STOP
						: MLLOG_POINT;
	int rc =
	    mllog_format(&line, (uint64_t)clock_unix_ns() / CLOCK_NS_PER_MS, event, call->argv[0],
			 call->argc > 1 ? buf_text(&value) : NULL, buf_text(&metadata), &err);
	if (rc < 0)
		return cmd_fail(call, CMD_EXIT_USAGE, &err);

	return log_write(call, options->file, &line);
}

static const struct cmd_example log_examples[] = {
    {"sluice mlperf log run_start --start --file run.log", "the clock starts"},
    {"sluice mlperf log eval_accuracy 0.7592 --meta epoch_num=56 --file run.log", "an evaluation"},
    {NULL, NULL},
};

static const struct cmd_exit_row log_exits[] = {
    {CMD_EXIT_OK, "it is written"},
    {CMD_EXIT_USAGE, "wrong command line, or a key that no reader takes"},
    {CMD_EXIT_CANNOT_WRITE, "the file cannot be written"},
    {0, NULL},
};

const struct command cmd_mlperf_log = {
    .name = "log",
    .summary = "Write one line of an MLPerf-style training log",
    .description = "In the form of round v0.7 and later, with the time as it is now.",
    .run = log_main,
    .options = log_rows,
    .options_size = sizeof(struct mlperf_log_options),
    .positional = "KEY [VALUE]",
    .positional_min = 1,
    .positional_max = 2,
    .exits = log_exits,
    .examples = log_examples,
};

/* --- all of them --------------------------------------------------------------------------------
 */

static const struct command *const verbs[] = {
    &cmd_mlperf_check, &cmd_mlperf_compare, &cmd_mlperf_log,
    &cmd_mlperf_rcp,   &cmd_mlperf_summary, NULL,
};

static const struct cmd_example examples[] = {
    {"sluice mlperf summary results/*.txt", "minutes of each run, and the score"},
    {"sluice mlperf compare resnet 118.4", "beside what was published"},
    {"sluice mlperf rcp results/ --table rcps_resnet.json", "is it the same mathematics?"},
    {NULL, NULL},
};

const struct command cmd_mlperf = {
    .name = "mlperf",
    .summary = "Write, read, check and compare MLPerf-style training logs",
    .description =
	"Results are MLPerf-style: MLPerf is a trademark of MLCommons, and no score of this "
	"program is an official one.",
    .group = CMD_GROUP_PROOF,
    .commands = verbs,
    .examples = examples,
};
