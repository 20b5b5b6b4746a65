/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/log_pair.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "job/interleave.h"

enum {
	LOG_PAIR_INDEX_MAX = INTERLEAVE_RECORD * INTERLEAVE_RECORDS_MAX,
	LOG_PAIR_WIDE = 3, /* bytes of U+FFFD, which stands for one */
	LOG_PAIR_CHARACTER_MAX = 4,
};

static const char *const log_pair_streams[INTERLEAVE_STREAMS] = {"stdout", "stderr"};

struct log_pair {
	struct log_pair_options options; /* without the path */
	char paths[INTERLEAVE_STREAMS][FILE_PATH_MAX], index_path[FILE_PATH_MAX];
	int files[INTERLEAVE_STREAMS], index_fd; /* owned; index_fd -1: there is none yet */

	uint8_t *index; /* owned, of INDEX_MAX bytes; NULL: there was none yet */
	size_t index_length;

	struct interleave place;
	struct interleave_piece piece; /* what is left of it */
	uint64_t stuck_ns;	       /* since when; 0: it is not */
	bool is_unordered, has_no_order;
};

int log_pair_sibling(const char *out_path, const char *kind, char out[FILE_PATH_MAX],
		     struct err *err)
{
	const char *slash = strrchr(out_path, '/'), *name = slash ? slash + 1 : out_path;
	const char *at = text_starts_with(name, "out.") ? name : strstr(name, ".out.");
	if (!at)
		return err_set(err, -EINVAL, "'%s' is no output of a job", out_path);

	at += *at == '.';
	return file_path(out, err, "%.*s%s%s", (int)(at - out_path), out_path, kind,
			 at + strlen("out"));
}

static int log_pair_open(const char *path, struct err *err)
{
	struct stat info;
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (fd < 0 || fstat(fd, &info) < 0)
		return err_set(err, -errno, "cannot open '%s': %s", path, err_describe(-errno));
	if (!S_ISREG(info.st_mode))
		return err_set(err, -EINVAL, "'%s' is not a plain file", path);

	return take_fd(&fd);
}

struct log_pair *log_pair_new(const struct log_pair_options *options, struct err *err)
{
	struct log_pair *pair = calloc(1, sizeof(*pair));
	if (!pair) {
		(void)err_set(err, -ENOMEM, "no memory to read an output");
		return NULL;
	}

	pair->options = *options;
	pair->options.out_path = NULL;
	pair->index_fd = pair->files[INTERLEAVE_OUT] = pair->files[INTERLEAVE_ERR] = -1;

	int rc = log_pair_sibling(options->out_path, "out", pair->paths[INTERLEAVE_OUT], err);
	if (rc == 0)
		rc = log_pair_sibling(options->out_path, "err", pair->paths[INTERLEAVE_ERR], err);
	if (rc == 0)
		rc = log_pair_sibling(options->out_path, "order", pair->index_path, err);

	for (int i = 0; rc >= 0 && i < INTERLEAVE_STREAMS; i++)
		rc = pair->files[i] = log_pair_open(pair->paths[i], err);

	return rc < 0 ? log_pair_free(pair) : pair;
}

struct log_pair *log_pair_free(struct log_pair *pair)
{
	if (!pair)
		return NULL;

	for (int i = 0; i < INTERLEAVE_STREAMS; i++)
		if (pair->files[i] >= 0)
			(void)close(pair->files[i]);
	if (pair->index_fd >= 0)
		(void)close(pair->index_fd);
	free(pair->index);
	free(pair);

	return NULL;
}

/* --- what is there ---------------------------------------------------------------------------- */

static uint64_t log_pair_size(const struct log_pair *pair, enum interleave_stream stream)
{
	struct stat info;
	return fstat(pair->files[stream], &info) == 0 ? (uint64_t)info.st_size : 0;
}

/* Reads on from the last record that is known, which may have grown. False: there is no index, or
 * no more of it. */
static bool log_pair_read_index(struct log_pair *pair)
{
	struct stat info;

	if (pair->index_fd < 0)
		pair->index_fd = log_pair_open(pair->index_path, NULL);
	if (pair->index_fd < 0 || fstat(pair->index_fd, &info) < 0)
		return false;

	if (!pair->index)
		pair->index = malloc(LOG_PAIR_INDEX_MAX);
	if (!pair->index)
		return false;

	size_t known = pair->index_length / INTERLEAVE_RECORD;
	size_t last = known > pair->place.record ? known - 1 : pair->place.record;
	size_t from = last * INTERLEAVE_RECORD;

	while (from < LOG_PAIR_INDEX_MAX) {
		ssize_t got = pread(pair->index_fd, pair->index + from, LOG_PAIR_INDEX_MAX - from,
				    (off_t)from);
		if (got <= 0)
			break;
		from += (size_t)got;
	}

	pair->index_length = from;
	return info.st_nlink > 0 && from < LOG_PAIR_INDEX_MAX;
}

static bool log_pair_next(struct log_pair *pair, bool is_final)
{
	struct interleave_view view = {.is_final = is_final};
	uint64_t out = log_pair_size(pair, INTERLEAVE_OUT);
	uint64_t errors = log_pair_size(pair, INTERLEAVE_ERR);
	interleave_sizes(&pair->place, out, errors, log_pair_size(pair, INTERLEAVE_OUT),
			 view.sizes);

	/* After the sizes: it tells of all that they have, or soon. */
	bool has_index = log_pair_read_index(pair);
	view.index = pair->index;
	view.index_length = pair->index_length;

	is_final = is_final || pair->has_no_order;
	bool is_found = !is_final && interleave_next(&pair->place, &view, &pair->piece);
	bool is_stuck = !is_found && interleave_is_stuck(&pair->place, view.sizes);
	uint64_t now_ns = clock_real_ns();
	if (!is_stuck)
		pair->stuck_ns = 0;
	else if (pair->stuck_ns == 0)
		pair->stuck_ns = now_ns;

	bool is_lost = is_stuck && now_ns - pair->stuck_ns >= LOG_PAIR_STUCK_NS;
	is_lost = is_lost || (is_stuck && pair->index_fd >= 0 && !has_index);
	if (is_found || (!is_final && !is_lost))
		return is_found;

	/* One that has none for so long gets none. */
	pair->has_no_order = pair->has_no_order || (is_lost && pair->index_fd < 0);
	view.is_final = true;
	bool is_both = view.sizes[INTERLEAVE_OUT] > pair->place.at[INTERLEAVE_OUT] &&
		       view.sizes[INTERLEAVE_ERR] > pair->place.at[INTERLEAVE_ERR];
	uint64_t ahead = pair->place.ahead[INTERLEAVE_OUT] + pair->place.ahead[INTERLEAVE_ERR];
	is_found = interleave_next(&pair->place, &view, &pair->piece);
	/* No record tells of it, and there is something of the other as well. */
	if (is_found && is_both &&
	    pair->place.ahead[INTERLEAVE_OUT] + pair->place.ahead[INTERLEAVE_ERR] > ahead)
		pair->is_unordered = true;

	return is_found;
}

bool log_pair_is_stuck(const struct log_pair *pair)
{
	return pair->stuck_ns > 0;
}

bool log_pair_is_unordered(const struct log_pair *pair)
{
	return pair->is_unordered;
}

void log_pair_watch(const struct log_pair *pair, int inotify_fd)
{
	for (int i = 0; i < INTERLEAVE_STREAMS; i++)
		(void)inotify_add_watch(inotify_fd, pair->paths[i], IN_MODIFY); /* else it looks */
}

/* --- the last lines --------------------------------------------------------------------------- */

struct log_pair_list {
	struct interleave_piece *pieces; /* owned */
	struct interleave *places;	 /* owned: before each of them */
	size_t count, piece_room, place_room;
};

static void log_pair_list_done(struct log_pair_list *list)
{
	free(list->pieces);
	free(list->places);
}

static int log_pair_list_add(struct log_pair_list *list, const struct interleave *before,
			     const struct interleave_piece *piece)
{
	if (array_room(&list->pieces, list->count, &list->piece_room, 64) < 0 ||
	    array_room(&list->places, list->count, &list->place_room, 64) < 0)
		return -ENOMEM;

	list->places[list->count] = *before;
	list->pieces[list->count++] = *piece;
	return 0;
}

/* Where in a piece the lines that are still wanted begin, from its end: its length, where there are
 * none left to be found in it. `is_last`: a line end at its very end begins no line. */
static int log_pair_seek(const struct log_pair *pair, const struct interleave_piece *piece,
			 bool is_last, uint64_t *left, uint64_t *out_skip)
{
	char block[4096];

	for (uint64_t end = piece->length; end > 0;) {
		uint64_t begin = end > sizeof(block) ? end - sizeof(block) : 0;
		ssize_t got = pread(pair->files[piece->stream], block, (size_t)(end - begin),
				    (off_t)(piece->offset + begin));
		if (got != (ssize_t)(end - begin))
			return got < 0 ? -errno : -EIO;

		for (uint64_t i = (uint64_t)got; i > 0; i--) {
			if (block[i - 1] != '\n' || (is_last && begin + i == piece->length))
				continue;
			if (--*left == 0) {
				*out_skip = begin + i;
				return 1;
			}
		}

		end = begin;
	}

	return 0;
}

static int log_pair_list_fill(struct log_pair *pair, bool is_final, struct log_pair_list *list)
{
	int rc = 0;
	struct interleave before = pair->place;

	/* Where there is no index yet there hardly comes one. */
	while (rc == 0 && log_pair_next(pair, is_final || pair->index_fd < 0)) {
		rc = log_pair_list_add(list, &before, &pair->piece);
		before = pair->place;
	}

	pair->piece.length = 0;
	return rc;
}

int log_pair_tail(struct log_pair *pair, uint32_t lines, bool is_final, struct err *err)
{
	struct log_pair_list list __attribute__((cleanup(log_pair_list_done))) = {.count = 0};
	int rc = log_pair_list_fill(pair, is_final, &list);
	/* What has no order yet is wholly after it. */
	uint64_t left = lines, skip = 0;

	if (rc == 0 && lines == 0)
		return 0;

	for (size_t i = list.count; rc == 0 && i > 0; i--) {
		const struct interleave_piece *piece = &list.pieces[i - 1];
		rc = log_pair_seek(pair, piece, i == list.count, &left, &skip);
		if (rc != 1)
			continue;

		/* As if what is before it had been shown. */
		pair->place = i < list.count ? list.places[i] : pair->place;
		pair->piece = *piece;
		pair->piece.offset += skip;
		pair->piece.length -= skip;
		return 0;
	}

	if (rc < 0)
		return err_set(err, rc, "looking for the last lines of '%s': %s",
			       pair->paths[INTERLEAVE_OUT], err_describe(rc));

	pair->place = (struct interleave){.record = 0};
	return 0;
}

/* --- showing it ------------------------------------------------------------------------------- */

/* How many of the bytes are shown now: a piece that is cut in a character leaves that to the next
 * one. */
static size_t log_pair_whole(const char *bytes, size_t length)
{
	for (size_t last = 1; last < LOG_PAIR_CHARACTER_MAX && last < length; last++)
		if (text_is_cut(bytes + length - last, last))
			return length - last;
	return length;
}

/* Bytes of it that were taken; `out` has the object and a newline. */
static ssize_t log_pair_format(const struct log_pair *pair, const char *bytes, size_t length,
			       bool is_cut, char *out, size_t size, size_t *out_length)
{
	_cleanup_buf_ struct buf text;
	buf_init(&text, LOG_PAIR_WIDE * LOG_PAIR_LINE_MAX + 1);

	size_t taken = is_cut ? log_pair_whole(bytes, length) : length;
	if (text_make_valid(&text, bytes, taken) < 0)
		return -ENOMEM;

	json_t *object =
	    json_pack("{s:I,s:I,s:s,s:s%}", "job", (json_int_t)pair->options.job, "attempt",
		      (json_int_t)pair->options.attempt, "stream",
		      log_pair_streams[pair->piece.stream], "text", buf_text(&text), text.length);
	size_t written = object ? json_dumpb(object, out, size - 1, JSON_COMPACT) : 0;

	json_decref(object);
	if (written == 0 || written >= size)
		return -ENOMEM;

	out[written] = '\n';
	*out_length = written + 1;
	return (ssize_t)taken;
}

/* One line of a piece, or as much of it as an object has. */
static ssize_t log_pair_show_json(struct log_pair *pair, char *out, size_t size)
{
	char bytes[LOG_PAIR_LINE_MAX];
	uint64_t wanted = pair->piece.length < sizeof(bytes) ? pair->piece.length : sizeof(bytes);
	ssize_t got = pread(pair->files[pair->piece.stream], bytes, (size_t)wanted,
			    (off_t)pair->piece.offset);
	if (got <= 0)
		return got < 0 ? -errno : 0;

	const char *end = memchr(bytes, '\n', (size_t)got);
	size_t length = end ? (size_t)(end - bytes) + 1 : (size_t)got, shown;
	ssize_t taken = log_pair_format(
	    pair, bytes, length, !end && (uint64_t)got < pair->piece.length, out, size, &shown);
	if (taken < 0)
		return taken;

	pair->piece.offset += (uint64_t)taken;
	pair->piece.length -= (uint64_t)taken;
	return (ssize_t)shown;
}

static ssize_t log_pair_show(struct log_pair *pair, char *out, size_t size)
{
	uint64_t wanted = pair->piece.length < size ? pair->piece.length : size;
	ssize_t got =
	    pread(pair->files[pair->piece.stream], out, (size_t)wanted, (off_t)pair->piece.offset);
	if (got <= 0)
		return got < 0 ? -errno : 0;

	pair->piece.offset += (uint64_t)got;
	pair->piece.length -= (uint64_t)got;
	return got;
}

ssize_t log_pair_read(struct log_pair *pair, bool is_final, char *out, size_t size)
{
	size_t done = 0;

	while (pair->options.is_json ? size - done >= LOG_PAIR_READ_MIN || done == 0
				     : done < size) {
		if (pair->piece.length == 0 && !log_pair_next(pair, is_final))
			break;

		ssize_t got = pair->options.is_json
				  ? log_pair_show_json(pair, out + done, size - done)
				  : log_pair_show(pair, out + done, size - done);
		if (got < 0 && done == 0)
			return got;

		if (got <= 0) { /* somebody has cut the file */
			pair->piece.length = 0;
			break;
		}

		done += (size_t)got;
	}

	return (ssize_t)done;
}
