/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/supervise/cause.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/cleanup.h"

enum {
	CAUSE_EXIT_RUNTIME = 125,
	CAUSE_EXIT_EXEC = 126,
	CAUSE_EXIT_NOT_FOUND = 127,
	CAUSE_EXIT_INIT = 1,	   /* of runc's, whose exec failed */
	CAUSE_EXIT_INIT_NEW = 255, /* from runc 1.2 on */
	CAUSE_HEAD = 96,	   /* bytes kept of the beginning of a long text */
	CAUSE_NAME_MAX = 32,
};

/* A piece of a text, without blanks at its end. */
struct cause_line {
	const char *at;
	size_t length;
};

static bool cause_begins(const struct cause_line *line, const char *word)
{
	size_t length = strlen(word);
	return line->length >= length && memcmp(line->at, word, length) == 0;
}

static bool cause_ends(const struct cause_line *line, const char *word)
{
	size_t length = strlen(word);
	return line->length >= length &&
	       memcmp(line->at + line->length - length, word, length) == 0;
}

/* Takes the last line that is not empty off the text. False: there is none. */
static bool cause_last(const char *text, size_t *length, struct cause_line *out)
{
	while (*length > 0 && strchr("\r\n \t", text[*length - 1]) && text[*length - 1])
		(*length)--;
	if (*length == 0)
		return false;

	size_t begin = *length;
	while (begin > 0 && text[begin - 1] != '\n')
		begin--;

	*out = (struct cause_line){.at = text + begin, .length = *length - begin};
	*length = begin;
	return true;
}

/* "See 'podman run --help'", "Run 'docker run --help' for more information": of no use here. */
static bool cause_is_help(const struct cause_line *line)
{
	return cause_begins(line, "See '") || cause_begins(line, "Run '");
}

/* An error of several lines: the others are indented, " * initializing source ...". */
static bool cause_is_more(const struct cause_line *line)
{
	return line->at[0] == ' ' || line->at[0] == '\t';
}

/* Adds a line, with one blank between two; what does not fit is left out of the middle later. */
static size_t cause_add(char *out, size_t size, size_t length, const struct cause_line *line)
{
	size_t skip = 0;
	while (skip < line->length && strchr(" \t", line->at[skip]) && line->at[skip])
		skip++;
	if (length > 0 && length < size)
		out[length++] = ' ';

	size_t room = size - length, more = line->length - skip;
	more = more < room ? more : room;
	memcpy(out + length, line->at + skip, more);

	return length + more;
}

static void cause_set(const char *text, size_t length, char out[JOBDIR_TEXT_MAX])
{
	static const char gap[] = " ... ";
	size_t room = JOBDIR_TEXT_MAX - 1, head = length;

	if (length > room) {
		size_t tail = room - CAUSE_HEAD - strlen(gap);
		head = CAUSE_HEAD;
		memcpy(out + head, gap, strlen(gap));
		memcpy(out + head + strlen(gap), text + length - tail, tail);
		out[room] = '\0';
	} else {
		out[length] = '\0';
	}

	memcpy(out, text, head);

	/* No byte that ends the text early, or would be a line of its own. */
	for (size_t i = 0; i < (length < room ? length : room); i++)
		if ((unsigned char)out[i] < ' ' || out[i] == '\x7f')
			out[i] = ' ';
}

/* The program's own words, behind what stands before them. NULL: it is none of a runtime's lines.
 */
static const char *cause_words(const struct cause_line *line)
{
	static const char *const begins[] = {"Error: ", "docker: "};
	for (size_t i = 0; i < array_length(begins); i++)
		if (cause_begins(line, begins[i]) && line->length > strlen(begins[i]))
			return line->at + strlen(begins[i]);
	return NULL;
}

/* What runc's init says when the kernel does not know the program's format. */
static bool cause_is_format(const struct cause_line *line, int code)
{
	bool is_init =
	    code == CAUSE_EXIT_INIT || code == CAUSE_EXIT_INIT_NEW || code == CAUSE_EXIT_EXEC;
	bool is_exec = cause_begins(line, "exec /") || cause_begins(line, "exec ./") ||
		       cause_begins(line, "standard_init_linux.go:");

	return is_init && is_exec && cause_ends(line, ": exec format error");
}

/* Found above lines that go on with it, which are `more`. */
static void cause_join(const struct cause_line *first, const struct cause_line *more, size_t count,
		       char out[JOBDIR_TEXT_MAX])
{
	char all[CAUSE_READ];
	size_t length = cause_add(all, sizeof(all), 0, first);
	while (count-- > 0)
		length = cause_add(all, sizeof(all), length, &more[count]);
	cause_set(all, length, out);
}

int cause_find(const char *text, size_t length, int code, char out[JOBDIR_TEXT_MAX])
{
	struct cause_line line, more[CAUSE_LINES];
	size_t count = 0;

	if (length > CAUSE_READ) {
		text += length - CAUSE_READ;
		length = CAUSE_READ;
	}

	for (size_t looked = 0; looked < CAUSE_LINES && cause_last(text, &length, &line);
	     looked++) {
		if (looked == 0 && cause_is_format(&line, code)) {
			cause_set(line.at, line.length, out);
			return CAUSE_EXIT_EXEC;
		}

		if (code < CAUSE_EXIT_RUNTIME || code > CAUSE_EXIT_NOT_FOUND)
			return 0;

		const char *words = cause_words(&line);
		if (words) {
			line.length -= (size_t)(words - line.at);
			line.at = words;
			cause_join(&line, more, count, out);
			return code;
		}

		if (cause_is_more(&line))
			more[count++] = line;
		else if (!cause_is_help(&line))
			return 0; /* the command's own words */
	}

	return 0;
}

/* Bytes read of the end of a file of the job's, from the beginning of a line; -errno. */
static ssize_t cause_read_end(int job_fd, const char *prefix, uint32_t attempt,
			      char out[CAUSE_READ])
{
	char name[CAUSE_NAME_MAX];
	struct stat status;

	(void)snprintf(name, sizeof(name), "%s.%" PRIu32, prefix, attempt); /* fits */
	/* It may be its user's, who can put something else there. */
	_cleanup_close_ int fd =
	    openat(job_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &status) < 0)
		return -errno;
	if (!S_ISREG(status.st_mode))
		return -EINVAL;

	off_t from = status.st_size > CAUSE_READ ? status.st_size - CAUSE_READ : 0;
	ssize_t length = pread(fd, out, CAUSE_READ, from);
	if (length < 0)
		return -errno;
	if (from == 0)
		return length;

	const char *end = memchr(out, '\n', (size_t)length);
	size_t cut = end ? (size_t)(end - out) + 1 : (size_t)length;
	memmove(out, out + cut, (size_t)length - cut);

	return length - (ssize_t)cut;
}

void cause_read(int job_fd, uint32_t attempt, struct jobdir_result *result)
{
	char text[CAUSE_READ], found[JOBDIR_TEXT_MAX];

	if (result->end != JOBDIR_EXITED || result->value == 0)
		return;

	/* At a terminal both outputs are one. */
	ssize_t length = cause_read_end(job_fd, "err", attempt, text);
	if (length == 0)
		length = cause_read_end(job_fd, "out", attempt, text);

	int code = length > 0 ? cause_find(text, (size_t)length, result->value, found) : 0;
	if (code == 0)
		return;

	result->value = result->exit_code = code;
	memcpy(result->text, found, sizeof(result->text));
}
