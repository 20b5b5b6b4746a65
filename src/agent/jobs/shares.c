/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/jobs/shares.h"

#include <errno.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/filewatch.h"
#include "base/array.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "base/parse.h"

struct shares {
	struct log *log; /* borrowed */
	const char *passwd;
	char path[FILE_PATH_MAX];
	struct account *account; /* owned */
	struct filewatch *watch; /* owned; NULL: there is none to be had */
};

/* --- the file -------------------------------------------------------------------------------- */

/* One line without its end. */
static bool shares_parse_line(const char *line, size_t length, shares_find_fn *find, void *context,
			      struct account_range *out)
{
	uint64_t uid, first, count;
	const char *first_at = memchr(line, ':', length);
	size_t name = first_at ? (size_t)(first_at - line) : 0;
	size_t left = first_at ? length - name - 1 : 0;
	const char *count_at = left > 0 ? memchr(++first_at, ':', left) : NULL;
	if (name == 0 || name >= SHARES_NAME_MAX || !count_at)
		return false;

	size_t digits = (size_t)(count_at - first_at);
	if (parse_u64_span(first_at, digits, 1, UINT32_MAX - 1, &first) < 0 ||
	    parse_u64_span(count_at + 1, left - digits - 1, 1, UINT32_MAX - first, &count) < 0)
		return false;

	*out = (struct account_range){(uid_t)first, (uint32_t)count, (uid_t)first};
	uid_t owner = 0;

	if (parse_u64_span(line, name, 0, UINT32_MAX - 1, &uid) == 0)
		owner = (uid_t)uid;
	else if (!find(line, name, &owner, context))
		owner = 0;

	if (owner != 0)
		out->owner = owner;

	return true;
}

size_t shares_parse(const char *text, size_t length, shares_find_fn *find, void *context,
		    struct account_range *out, size_t max)
{
	size_t count = 0;
	for (size_t at = 0, line; at < length && count < max; at += line + 1) {
		const char *end = memchr(text + at, '\n', length - at);
		line = end ? (size_t)(end - text) - at : length - at;
		if (shares_parse_line(text + at, line, find, context, &out[count]))
			count++;
	}

	return count;
}

/* --- names ----------------------------------------------------------------------------------- */

struct shares_name {
	char name[SHARES_NAME_MAX];
	uid_t uid;
};

struct shares_names {
	struct shares_name *items; /* owned; by their names */
	size_t count, room;
};

static int shares_compare_names(const void *left, const void *right)
{
	return strcmp(((const struct shares_name *)left)->name,
		      ((const struct shares_name *)right)->name);
}

static bool shares_find_name(const char *name, size_t length, uid_t *out, void *context)
{
	const struct shares_names *names = context;
	struct shares_name key;

	memcpy(key.name, name, length);
	key.name[length] = '\0';

	const struct shares_name *found =
	    names->count == 0 ? NULL
			      : bsearch(&key, names->items, names->count, sizeof(*names->items),
					shares_compare_names);
	if (found)
		*out = found->uid;

	return found != NULL;
}

/* Of the file of users: a directory on the network can take long, or never answer. */
static int shares_read_names(const char *path, struct shares_names *out)
{
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	const struct passwd *user;

	while (file && (user = fgetpwent(file))) {
		if (strlen(user->pw_name) >= SHARES_NAME_MAX)
			continue;

		if (array_room(&out->items, out->count, &out->room, 64) < 0)
			return -ENOMEM;

		struct shares_name *name = &out->items[out->count++];
		memcpy(name->name, user->pw_name, strlen(user->pw_name) + 1);
		name->uid = user->pw_uid;
	}

	if (out->count > 0)
		qsort(out->items, out->count, sizeof(*out->items), shares_compare_names);

	return 0;
}

/* --- its life -------------------------------------------------------------------------------- */

static int shares_take(struct shares *shares, const char *text, size_t length)
{
	struct shares_names names = {.items = NULL};
	_cleanup_free_ struct account_range *ranges = calloc(SHARES_RANGES_MAX, sizeof(*ranges));
	int rc = ranges ? shares_read_names(shares->passwd, &names) : -ENOMEM;
	if (rc == 0) {
		size_t count =
		    shares_parse(text, length, shares_find_name, &names, ranges, SHARES_RANGES_MAX);
		rc = account_set_ranges(shares->account, ranges, count);
	}

	free(names.items);
	return rc;
}

/* What cannot be read leaves things as they were; a file that is gone says that nobody has any. */
static void shares_read(struct shares *shares)
{
	_cleanup_buf_ struct buf text;
	struct err err = {0};

	buf_init(&text, SHARES_TEXT_MAX);
	int rc = file_read(shares->path, &text, &err);
	if (rc == -ENOENT)
		(void)account_set_ranges(shares->account, NULL, 0);
	else if (rc == 0 && shares_take(shares, text.data, text.length) < 0)
		rc = err_set(&err, -ENOMEM, "out of memory for '%s'", shares->path);

	if (rc < 0 && rc != -ENOENT)
		log_write(shares->log, LOG_LEVEL_WARNING, NULL,
			  "subordinate user ids count as users of their own: %s", err.text);
}

static void shares_look(void *context)
{
	struct shares *shares = context;
	struct filewatch_plan plan = {.count = 0};
	if (shares->watch) {
		filewatch_plan_file(shares->watch, shares->path, &plan);
		filewatch_set(shares->watch, &plan);
	}
	shares_read(shares);
}

struct shares *shares_new(struct loop *loop, struct log *log, const char *root, const char *passwd,
			  struct err *err)
{
	struct shares *shares = calloc(1, sizeof(*shares));
	if (!shares) {
		(void)err_set(err, -ENOMEM, "out of memory for the shares of users");
		return NULL;
	}

	shares->log = log;
	shares->passwd = passwd ? passwd : "/etc/passwd";
	shares->account = account_new(geteuid(), err);
	if (!shares->account || file_path(shares->path, err, "%s/etc/subuid", root ? root : "") < 0)
		return shares_free(shares);

	struct err unwatched = {0};
	if (filewatch_new(loop, shares_look, shares, &shares->watch, &unwatched) < 0)
		log_write(shares->log, LOG_LEVEL_WARNING, NULL,
			  "changes of '%s' are not noticed: %s", shares->path, unwatched.text);

	shares_look(shares);
	return shares;
}

struct shares *shares_free(struct shares *shares)
{
	if (!shares)
		return NULL;
	shares->watch = filewatch_free(shares->watch);
	shares->account = account_free(shares->account);
	free(shares);
	return NULL;
}

struct account *shares_account(struct shares *shares)
{
	return shares->account;
}
