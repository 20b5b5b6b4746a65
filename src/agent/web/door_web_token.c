/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/web/door_web_token.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/storage.h"

/* What tells one content from another without reading it. */
struct token_sight {
	bool is_known;
	dev_t device;
	ino_t inode;
	off_t size;
	mode_t mode;
	struct timespec changed, modified;
};

struct web_token {
	struct web_token_options options;
	struct loop_timer *look; /* owned */
	char path[FILE_PATH_MAX];
	bool is_stopped, is_reading;
	struct token_sight sight;
	char text[WEB_TOKEN_MAX]; /* "": broken */
	char problem[WEB_TOKEN_PROBLEM_MAX];

	/* Of the storage thread while is_reading. */
	struct storage_job job;
	char asked[FILE_PATH_MAX];
	struct token_sight seen;
	char read[WEB_TOKEN_MAX];
	bool is_open; /* to others than its owner */
	struct err err;
};

/* --- what stands in it ------------------------------------------------------------------------ */

static bool token_is_character(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("-._~+/", c));
}

static bool token_is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

int web_token_parse(const char *text, size_t length, char out[WEB_TOKEN_MAX], struct err *err)
{
	size_t at = 0;

	while (length > 0 && token_is_blank(text[length - 1]))
		length--;

	if (length == 0)
		return err_set(err, -EINVAL, "it is empty");

	while (at < length && token_is_character(text[at]))
		at++;

	while (at > 0 && at < length && text[at] == '=')
		at++;

	if (at < length)
		return err_set(err, -EINVAL,
			       "character %zu is none of a token: one line of letters, digits and "
			       "-._~+/",
			       at + 1);

	if (length < WEB_TOKEN_MIN || length >= WEB_TOKEN_MAX)
		return err_set(err, -EINVAL, "a token has %d to %d characters, this one has %zu",
			       WEB_TOKEN_MIN, WEB_TOKEN_MAX - 1, length);

	memcpy(out, text, length);
	out[length] = '\0';
	return 0;
}

/* --- reading it ------------------------------------------------------------------------------- */

static bool sight_is_same(const struct token_sight *a, const struct token_sight *b)
{
	return a->is_known && b->is_known && a->device == b->device && a->inode == b->inode &&
	       a->size == b->size && a->mode == b->mode && a->changed.tv_sec == b->changed.tv_sec &&
	       a->changed.tv_nsec == b->changed.tv_nsec &&
	       a->modified.tv_sec == b->modified.tv_sec &&
	       a->modified.tv_nsec == b->modified.tv_nsec;
}

/* 1: it is another, and was read; 0: it is the same. */
static int token_fetch(struct web_token *token)
{
	struct stat status;
	struct err *err = &token->err;
	_cleanup_buf_ struct buf text;

	buf_init(&text, WEB_TOKEN_FILE_MAX);
	*err = (struct err){0};
	token->seen.is_known = false;

	/* A pipe has nobody wait here. */
	_cleanup_close_ int fd = open(token->asked, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &status) < 0)
		return err_set(err, -errno, "%s", err_describe(-errno));
	if (!S_ISREG(status.st_mode))
		return err_set(err, -EINVAL, "it is no regular file");

	token->seen = (struct token_sight){.is_known = true,
					   .device = status.st_dev,
					   .inode = status.st_ino,
					   .size = status.st_size,
					   .mode = status.st_mode,
					   .changed = status.st_ctim,
					   .modified = status.st_mtim};
	if (sight_is_same(&token->seen, &token->sight))
		return 0;

	token->is_open = (status.st_mode & (S_IRWXG | S_IRWXO)) != 0;
	int rc = file_read_open(fd, token->asked, &text, err);
	if (rc == 0)
		rc = web_token_parse(buf_text(&text), text.length, token->read, err);
	if (text.data)
		explicit_bzero(text.data, text.length);

	return rc < 0 ? rc : 1;
}

static int token_work(void *context)
{
	return token_fetch(context);
}

static void token_look(struct web_token *token);

/* Said when it is new. */
static void token_set_problem(struct web_token *token, enum log_level level, const char *text)
{
	if (strcmp(token->problem, text) == 0)
		return;
	(void)snprintf(token->problem, sizeof(token->problem), "%s", text);
	if (*text)
		log_write(token->options.log, level, NULL, "page and metrics: %s", text);
}

static void token_take(struct web_token *token, int rc)
{
	char text[WEB_TOKEN_PROBLEM_MAX] = "";
	enum log_level level = LOG_LEVEL_WARNING;

	token->sight = token->seen;
	if (rc < 0) {
		level = LOG_LEVEL_ERROR;
		explicit_bzero(token->text, sizeof(token->text));
		(void)snprintf(text, sizeof(text),
			       "nobody gets in: the token file '%.128s' is of no use: %.100s",
			       token->path, token->err.text);
	} else {
		memcpy(token->text, token->read, sizeof(token->text));
		if (token->is_open)
			(void)snprintf(text, sizeof(text),
				       "the token file '%.128s' can be used by others than its "
				       "owner: chmod 600",
				       token->path);
	}

	explicit_bzero(token->read, sizeof(token->read));
	token_set_problem(token, level, text);
}

static void token_on_read(void *context, int rc)
{
	struct web_token *token = context;
	token->is_reading = false;
	if (token->is_stopped)
		return;
	if (strcmp(token->asked, token->path) != 0) { /* another one is meant meanwhile */
		token_look(token);
		return;
	}

	if (rc == 0)
		return;

	char before[WEB_TOKEN_PROBLEM_MAX];
	memcpy(before, token->problem, sizeof(before));

	bool was_broken = token->text[0] == '\0';

	token_take(token, rc);
	if (rc > 0 || !was_broken || strcmp(before, token->problem) != 0)
		token->options.changed(token->options.context);
}

static void token_look(struct web_token *token)
{
	if (token->is_reading || token->path[0] == '\0')
		return;
	memcpy(token->asked, token->path, sizeof(token->asked));
	token->job =
	    (struct storage_job){.work = token_work, .done = token_on_read, .context = token};
	/* Else with the next look. */
	token->is_reading = storage_submit(token->options.storage, &token->job, NULL) == 0;
}

static void token_on_look(void *context)
{
	struct web_token *token = context;
	token_look(token);
	loop_timer_start(token->look, WEB_TOKEN_LOOK_NS);
}

/* --- its life --------------------------------------------------------------------------------- */

int web_token_new(const struct web_token_options *options, struct web_token **out, struct err *err)
{
	struct web_token *token = calloc(1, sizeof(*token));
	if (!token)
		return err_set(err, -ENOMEM, "out of memory for the token");

	token->options = *options;
	token->look = loop_timer_new(options->loop, token_on_look, token, err);
	if (!token->look) {
		free(token);
		return -ENOMEM;
	}

	*out = token;
	return 0;
}

void web_token_stop(struct web_token *token)
{
	if (!token)
		return;
	token->is_stopped = true;
	token->look = loop_timer_free(token->look);
}

struct web_token *web_token_free(struct web_token *token)
{
	if (!token)
		return NULL;
	web_token_stop(token);
	explicit_bzero(token->text, sizeof(token->text));
	free(token);
	return NULL;
}

void web_token_set_file(struct web_token *token, const char *path)
{
	if (token->is_stopped || strcmp(token->path, path) == 0)
		return;

	explicit_bzero(token->text, sizeof(token->text));
	token->sight.is_known = false;
	token->problem[0] = '\0';
	if (strlen(path) >= sizeof(token->path)) {
		token_set_problem(token, LOG_LEVEL_ERROR,
				  "nobody gets in: the path of the token file is too long");
		path = "/dev/null";
	}

	(void)snprintf(token->path, sizeof(token->path), "%s", path);
	loop_timer_stop(token->look);
	if (*path)
		token_on_look(token);
	token->options.changed(token->options.context);
}

bool web_token_is_wanted(const struct web_token *token)
{
	return token->path[0] != '\0';
}

const char *web_token_text(const struct web_token *token)
{
	return token->text[0] ? token->text : NULL;
}

const char *web_token_problem(const struct web_token *token)
{
	return token->problem;
}
