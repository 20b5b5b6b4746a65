/* SPDX-License-Identifier: Apache-2.0 */
/* What there is to be read: see reader.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "bench/reader_internal.h"
#include "bench/stats.h"

enum { SET_STEP = 1 << 20, SET_RESERVE = 64 << 20 };

/* The READER_BLOCK_MIN bytes that belong at `offset`. */
static void reader_fill_block(uint64_t *words, uint64_t seed, uint64_t offset)
{
	/* What no disk makes smaller, and tells where it belongs. */
	struct stats_random random = {.state = seed ^ offset};
	words[0] = seed;
	words[1] = offset;
	for (size_t i = 2; i < READER_BLOCK_MIN / sizeof(*words); i++)
		words[i] = stats_random_next(&random);
}

struct set_maker {
	struct reader_set *set;
	uint64_t done, all;
	bool (*progress)(uint64_t done, uint64_t all, void *context);
	void *context;
	char *step; /* SET_STEP bytes */
};

static int set_write(struct set_maker *self, int fd, const char *path, uint64_t bytes,
		     uint64_t base, struct err *err)
{
	for (uint64_t at = 0; at < bytes;) {
		size_t length = bytes - at < SET_STEP ? (size_t)(bytes - at) : SET_STEP;
		for (size_t i = 0; i < length; i += READER_BLOCK_MIN)
			reader_fill_block((uint64_t *)(void *)(self->step + i), self->set->seed,
					  base + at + i);

		ssize_t written = write(fd, self->step, length);
		if (written < 0 && errno == EINTR)
			written = 0;
		if (written < 0)
			return err_set(err, -errno, "writing '%s': %s", path, err_describe(errno));

		at += (uint64_t)written - (uint64_t)written % READER_BLOCK_MIN;
		if (lseek(fd, (off_t)at, SEEK_SET) < 0)
			return err_set(err, -errno, "writing '%s': %s", path, err_describe(errno));

		self->done += (uint64_t)written;
		if (self->progress && !self->progress(self->done, self->all, self->context))
			return err_set(err, -EINTR, "interrupted");
	}

	return 0;
}

static int set_make_file(struct set_maker *self, const char *path, uint64_t bytes, uint64_t base,
			 bool syncs, struct err *err)
{
	_cleanup_close_ int fd =
	    open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_set(err, -errno, "making '%s': %s", path, err_describe(errno));

	/* The step is a multiple of a block; what is too much at the end of a small file is cut. */
	uint64_t whole = (bytes + READER_BLOCK_MIN - 1) / READER_BLOCK_MIN * READER_BLOCK_MIN;
	int rc = set_write(self, fd, path, whole, base, err);
	if (rc == 0 && whole > bytes && ftruncate(fd, (off_t)bytes) < 0)
		rc = err_set(err, -errno, "writing '%s': %s", path, err_describe(errno));
	if (rc == 0 && syncs && fsync(fd) < 0)
		rc =
		    err_set(err, -errno, "writing '%s' to the disk: %s", path, err_describe(errno));

	return rc;
}

int reader_large_path(const struct reader_set *set, char out[FILE_PATH_MAX], struct err *err)
{
	return file_path(out, err, "%s/data", set->directory);
}

int reader_file_path(const struct reader_set *set, size_t i, char out[FILE_PATH_MAX],
		     struct err *err)
{
	return file_path(out, err, "%s/d%zu/f%zu", set->directory, i / READER_DIRECTORY_FILES, i);
}

static int set_make_files(struct set_maker *self, struct err *err)
{
	char path[FILE_PATH_MAX];
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < self->set->files; i++) {
		if (i % READER_DIRECTORY_FILES == 0) {
			rc = file_path(path, err, "%s/d%zu", self->set->directory,
				       i / READER_DIRECTORY_FILES);
			if (rc == 0 && mkdir(path, 0700) < 0)
				rc = err_set(err, -errno, "making '%s': %s", path,
					     err_describe(errno));
		}

		if (rc == 0)
			rc = reader_file_path(self->set, i, path, err);
		if (rc == 0)
			rc = set_make_file(self, path, self->set->file_bytes, (uint64_t)i << 32,
					   false, err);
	}

	return rc;
}

static int set_check_room(const char *path, uint64_t wanted, struct err *err)
{
	struct statvfs room;
	if (statvfs(path, &room) < 0)
		return err_set(err, -errno, "'%s': %s", path, err_describe(errno));

	uint64_t have = (uint64_t)room.f_bavail * room.f_frsize;
	if (have < wanted + SET_RESERVE)
		return err_set(err, -ENOSPC,
			       "'%s' has %" PRIu64 " MiB free and %" PRIu64
			       " are wanted: --size makes it less",
			       path, have >> 20, (wanted + SET_RESERVE) >> 20);

	return 0;
}

static int set_fill(struct set_maker *self, struct err *err)
{
	char path[FILE_PATH_MAX];
	int rc = reader_large_path(self->set, path, err);
	if (rc == 0)
		rc = set_make_file(self, path, self->set->bytes, 0, true, err);
	if (rc == 0)
		rc = set_make_files(self, err);

	if (rc < 0)
		return rc;

	_cleanup_close_ int fd = open(self->set->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || syncfs(fd) < 0)
		return err_set(err, -errno, "writing '%s' to the disk: %s", self->set->directory,
			       err_describe(errno));

	return 0;
}

int reader_set_make(const char *path, uint64_t bytes, size_t files, size_t file_bytes,
		    bool (*progress)(uint64_t done, uint64_t all, void *context), void *context,
		    struct reader_set *out, struct err *err)
{
	struct reader_set set = {.bytes = bytes, .files = files, .file_bytes = file_bytes};
	uint64_t all = bytes + (uint64_t)files * file_bytes;

	if (bytes == 0 || bytes % READER_BLOCK_MAX != 0 || files > READER_FILES_MAX ||
	    (files > 0 && file_bytes == 0))
		return err_set(err, -EINVAL, "%" PRIu64 " bytes and %zu files cannot be made",
			       bytes, files);

	int rc = set_check_room(path, all, err);
	if (rc == 0)
		rc = file_path(set.directory, err, "%s/.sluice-storage-XXXXXX", path);
	if (rc < 0)
		return rc;
	if (!mkdtemp(set.directory))
		return err_set(err, -errno, "making a directory in '%s': %s", path,
			       err_describe(errno));

	_cleanup_free_ char *step = aligned_alloc(READER_BLOCK_MIN, SET_STEP);
	struct stats_random random = {.state = (uint64_t)getpid() ^ all};

	set.seed = stats_random_next(&random) | 1;
	struct set_maker self = {
	    .set = &set, .all = all, .progress = progress, .context = context, .step = step};
	rc = step ? set_fill(&self, err) : err_set(err, -ENOMEM, "no memory for a file");
	if (rc < 0)
		reader_set_remove(&set);
	else
		*out = set;

	return rc;
}

/* Of one level: what is in a directory of ours. */
static void set_empty(const char *directory)
{
	_cleanup_closedir_ DIR *list = opendir(directory);
	struct dirent *entry;
	while (list && (entry = readdir(list)))
		if (entry->d_name[0] != '.')
			(void)unlinkat(dirfd(list), entry->d_name, 0); /* rmdir() tells */
}

void reader_set_remove(struct reader_set *set)
{
	char path[FILE_PATH_MAX];

	if (set->directory[0] == '\0')
		return;

	for (size_t i = 0; i < set->files; i += READER_DIRECTORY_FILES) {
		if (file_path(path, NULL, "%s/d%zu", set->directory, i / READER_DIRECTORY_FILES) <
		    0)
			continue;
		set_empty(path);
		(void)rmdir(path);
	}

	set_empty(set->directory);
	(void)rmdir(set->directory); /* what somebody else put there stays */
	set->directory[0] = '\0';
}
