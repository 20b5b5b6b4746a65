/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/run/run_lines.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/lines.h"
#include "base/text.h"
#include "cmd/jobs/run/run_options.h"
#include "cmd/jobs/run/run_request.h"
#include "cmd/jobs/run/run_words.h"
#include "job/file/cmdlines.h"

struct run_lines {
	const struct run_options *options;
	const char *name;
	int fd; /* owned, unless it is standard input */
	bool is_end;
	struct lines lines;
};

int run_lines_open(const struct run_options *options, char *const *argv, struct run_lines **out,
		   struct err *err)
{
	const char *said = options->file     ? "--file"
			   : options->key    ? "--key"
			   : options->report ? "--report"
			   : options->image  ? "--image"
			   : options->export ? "--export"
			   : options->pty    ? "--pty"
					     : NULL;
	if (said)
		return err_set(err, -EINVAL, "%s and --lines exclude each other", said);
	if (argv[0])
		return err_set(err, -EINVAL, "with --lines there is no command: each line is one");

	struct run_lines *lines = calloc(1, sizeof(*lines));
	if (!lines)
		return err_set(err, -ENOMEM, "no memory for '%s'", options->lines);

	bool is_stdin = strcmp(options->lines, "-") == 0;

	lines->options = options;
	lines->name = is_stdin ? "standard input" : options->lines;
	lines_init(&lines->lines, CMDLINES_LINE_MAX);
	lines->fd = is_stdin ? STDIN_FILENO : open(options->lines, O_RDONLY | O_CLOEXEC);
	if (lines->fd < 0) {
		int rc =
		    err_set(err, -errno, "cannot open '%s': %s", lines->name, err_describe(-errno));
		(void)run_lines_free(lines);
		return rc;
	}

	*out = lines;
	return 0;
}

struct run_lines *run_lines_free(struct run_lines *lines)
{
	if (!lines)
		return NULL;
	if (lines->fd > STDIN_FILENO)
		(void)close(lines->fd);
	lines_done(&lines->lines);
	free(lines);
	return NULL;
}

static int run_lines_read(struct run_lines *lines, int wait_ms, struct err *err)
{
	char piece[LINES_PIECE_MAX];
	struct pollfd ready = {.fd = lines->fd, .events = POLLIN};
	int found = poll(&ready, 1, wait_ms);
	if (found == 0 || (found < 0 && errno == EINTR))
		return 0;

	ssize_t length = read(lines->fd, piece, sizeof(piece));
	if (length < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (length < 0)
		return err_set(err, -errno, "cannot read '%s': %s", lines->name,
			       err_describe(-errno));

	lines->is_end = length == 0;
	int rc = lines_feed(&lines->lines, piece, (size_t)length);
	return rc < 0 ? err_set(err, rc, "%s: %s", lines->name, err_describe(rc)) : 0;
}

struct run_line *run_line_free(struct run_line *line)
{
	if (!line)
		return NULL;
	run_request_done(&line->request);
	free(line->words);
	free(line->text);
	free(line);
	return NULL;
}

static void run_line_name(struct run_line *line)
{
	char first[RUN_NAME_MAX];
	size_t length = strcspn(line->text, " \t;|&<>()");
	length = length < sizeof(first) - 1 ? length : sizeof(first) - 1;
	memcpy(first, line->text, length);
	first[length] = '\0';
	run_request_name(first, line->word);
}

/* As in a shell, and without one where that makes no difference. What is in an image the image's
 * own shell knows best. */
static int run_line_command(struct run_line *line)
{
	const struct run_options *options = &line->options;
	bool may_split = !options->image;

	for (size_t i = 0; may_split && i < options->environment.count; i++)
		may_split = !text_starts_with(options->environment.items[i], "BASH_FUNC_");

	line->shell[0] = (char *)"sh";
	line->shell[1] = (char *)"-c";
	line->shell[2] = line->text;
	return may_split ? run_words_split(line->text, environ, &line->words) : 0;
}

static int run_lines_make(struct run_lines *lines, const char *text, struct run_line **out,
			  struct err *err)
{
	struct run_line *line = calloc(1, sizeof(*line));
	if (!line || !(line->text = strdup(text))) {
		free(line);
		return err_set(err, -ENOMEM, "no memory for a line of '%s'", lines->name);
	}

	run_line_name(line);
	line->options = *lines->options;
	if (!line->options.name)
		line->options.name = line->word;
	line->number = lines->lines.number;

	int rc = run_line_command(line);
	rc = rc < 0 ? err_set(err, rc, "no memory for a command")
		    : run_request_make(&line->options, rc > 0 ? line->words : line->shell, environ,
				       &line->request, err);
	if (rc < 0) {
		(void)err_wrap(err, "%s:%" PRIu64, lines->name, line->number);
		(void)run_line_free(line);
		return rc;
	}

	*out = line;
	return RUN_LINES_ONE;
}

int run_lines_next(struct run_lines *lines, int wait_ms, struct run_line **out, struct err *err)
{
	for (int pass = 0; pass < 2; pass++) {
		const char *line;
		int rc = cmdlines_next(&lines->lines, lines->is_end, &line, err);
		if (rc < 0)
			return err_wrap(err, "%s", lines->name);
		if (rc > 0)
			return run_lines_make(lines, line, out, err);

		if (lines->is_end)
			return RUN_LINES_END;
		if (pass == 0 && (rc = run_lines_read(lines, wait_ms, err)) < 0)
			return rc;
	}

	return RUN_LINES_NONE;
}
