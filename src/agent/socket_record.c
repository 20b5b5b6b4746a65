/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/socket_record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/notes.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "base/storage.h"
#include "doors/kubelet/kubelet.h"
#include "wire/listen.h"

struct socket_record {
	struct socket_record_options options;
	char path[FILE_PATH_MAX];
	struct notes now; /* as they were written last */
	bool is_written, has_cleaned;
	/* Of the run under way; the storage thread's. */
	bool is_running, cleans;
	struct notes work;
	struct storage_job job;
	struct err err;
};

/* --- what lies there -------------------------------------------------------------------------- */

/* Only what we could have written: nothing that leads elsewhere. */
static bool socket_record_is_path(const char *path, size_t length)
{
	return path[0] == '/' && length > 5 && length < NOTES_TEXT_MAX &&
	       memcmp(path + length - 5, ".sock", 5) == 0 && !memchr(path, '\0', length) &&
	       !memmem(path, length, "/../", 4);
}

void socket_record_parse(const char *bytes, size_t length, struct notes *out)
{
	while (length > 0) {
		const char *end = memchr(bytes, '\n', length);
		size_t line = end ? (size_t)(end - bytes) : length;

		if (line > 0 && socket_record_is_path(bytes, line))
			notes_add(out, "%.*s", (int)line, bytes);

		size_t used = line + (end != NULL);
		bytes += used;
		length -= used;
	}
}

/* -ENOENT: there is no record. */
static int socket_record_read(const char *path, struct notes *out, struct err *err)
{
	_cleanup_buf_ struct buf text;
	buf_init(&text, SOCKET_RECORD_MAX);

	int rc = file_read(path, &text, err);
	if (rc == 0)
		socket_record_parse(buf_text(&text), text.length, out);

	return rc;
}

/* A socket on which nobody listens. */
static bool socket_record_is_dead(const char *path)
{
	struct stat before, after;
	struct sockaddr_un address;
	_cleanup_close_ int directory = -1;
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || lstat(path, &before) < 0 || !S_ISSOCK(before.st_mode) ||
	    wire_unix_address(path, &address, &directory, NULL) < 0)
		return false;

	bool is_refused = connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 &&
			  errno == ECONNREFUSED;

	/* Not one that was made meanwhile. */
	return is_refused && lstat(path, &after) == 0 && before.st_ino == after.st_ino &&
	       before.st_dev == after.st_dev;
}

static int socket_record_remove(const struct notes *noted, const struct notes *kept,
				void (*removed)(const char *path, void *context), void *context,
				struct err *err)
{
	int rc = 0;

	for (size_t i = 0; i < noted->count; i++) {
		const char *path = noted->items[i];
		if ((kept && notes_have(kept, path)) || !socket_record_is_dead(path))
			continue;

		if (unlink(path) == 0) {
			if (removed)
				removed(path, context);
		} else if (errno != ENOENT && rc == 0) {
			int code = -errno;
			rc = err_set(err, code, "cannot remove the socket '%s': %s", path,
				     err_describe(code));
		}
	}

	return rc;
}

int socket_record_clean(const char *state_dir, const struct notes *kept,
			void (*removed)(const char *path, void *context), void *context,
			struct err *err)
{
	char path[FILE_PATH_MAX];
	struct notes noted = {.count = 0};
	int rc = file_path(path, err, "%s/" SOCKET_RECORD_NAME, state_dir);
	if (rc == 0)
		rc = socket_record_read(path, &noted, err);

	if (rc == 0)
		rc = socket_record_remove(&noted, kept, removed, context, err);
	notes_done(&noted);
	return rc == -ENOENT ? 0 : rc;
}

/* --- a run: the storage thread's -------------------------------------------------------------- */

static int socket_record_work(void *context)
{
	struct socket_record *record = context;
	struct notes noted = {.count = 0};
	_cleanup_buf_ struct buf text;

	buf_init(&text, SOCKET_RECORD_MAX);
	int rc = socket_record_read(record->path, &noted, NULL);
	if (rc == 0 && record->cleans)
		(void)socket_record_remove(&noted, &record->work, NULL, NULL, NULL);
	rc = 0;

	for (size_t i = 0; rc == 0 && i < record->work.count; i++)
		rc = buf_printf(&text, "%s\n", record->work.items[i]);

	/* What was there before is not lost until it may be removed. */
	for (size_t i = 0; rc == 0 && !record->cleans && i < noted.count; i++) {
		if (!notes_have(&record->work, noted.items[i]))
			rc = buf_printf(&text, "%s\n", noted.items[i]);
	}

	notes_done(&noted);
	if (rc < 0)
		return err_set(&record->err, rc, "%s", err_describe(rc));

	return file_write_atomic(record->path, buf_text(&text), text.length, 0600, &record->err);
}

static void socket_record_done(void *context, int rc)
{
	struct socket_record *record = context;
	record->is_running = false;
	record->is_written = rc == 0;
	if (rc < 0)
		log_write(record->options.log, LOG_LEVEL_DEBUG, NULL,
			  "the sockets in the kubelet's directory are not noted: %s",
			  record->err.text);
}

static bool socket_record_is_same(const struct notes *a, const struct notes *b)
{
	size_t i = 0;
	while (i < a->count && notes_have(b, a->items[i]))
		i++;
	return a->count == b->count && i == a->count;
}

void socket_record_update(struct socket_record *record, const char *directory,
			  const struct kubelet *const *kubelets, unsigned count, bool cleans)
{
	struct notes now = {.count = 0};
	struct kubelet_view view;

	if (record->is_running)
		return; /* with the next sample */

	for (unsigned i = 0; i < count; i++) {
		for (size_t r = 0; kubelets[i] && kubelet_resource_at(kubelets[i], r, &view); r++)
			notes_add(&now, "%s/%s", directory, view.endpoint);
	}

	if (record->is_written && record->has_cleaned >= cleans &&
	    socket_record_is_same(&now, &record->now)) {
		notes_done(&now);
		return;
	}

	notes_done(&record->now);
	notes_done(&record->work);

	for (size_t i = 0; i < now.count; i++)
		notes_add(&record->work, "%s", now.items[i]);

	record->now = now;
	record->has_cleaned = record->cleans = cleans;
	record->job = (struct storage_job){
	    .work = socket_record_work, .done = socket_record_done, .context = record};
	record->is_running = storage_submit(record->options.storage, &record->job, NULL) == 0;
	record->is_written = record->is_running;
}

/* --- its life --------------------------------------------------------------------------------- */

int socket_record_new(const struct socket_record_options *options, struct socket_record **out,
		      struct err *err)
{
	struct socket_record *record = calloc(1, sizeof(*record));
	if (!record)
		return err_set(err, -ENOMEM, "out of memory for noting sockets");

	record->options = *options;
	int rc = file_path(record->path, err, "%s/" SOCKET_RECORD_NAME, options->state_dir);
	if (rc < 0) {
		free(record);
		return rc;
	}

	*out = record;
	return 0;
}

struct socket_record *socket_record_free(struct socket_record *record)
{
	if (!record)
		return NULL;
	notes_done(&record->now);
	notes_done(&record->work);
	free(record);
	return NULL;
}
