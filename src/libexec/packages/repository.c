/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/packages/repository.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/text.h"
#include "libexec/packages/debian.h"
#include "libexec/packages/rpmmd.h"
#include "libexec/packages/unpack.h"

enum { REPOSITORY_CHUNK = 64 << 10 };

typedef int (*repository_sink)(const char *data, size_t length, void *context);

struct repository {
	const struct repository_options *options;
	bool is_url;
	uint32_t files;	   /* looked at */
	uint32_t packages; /* told of, from names of files */
	uint32_t indexes;  /* read */
	enum repository_kind kind;
};

const char *repository_kind_to_string(enum repository_kind kind)
{
	static const char *const names[] = {"files", "rpm", "debian"};
	return kind <= REPOSITORY_DEBIAN ? names[kind] : "?";
}

/* --- the bytes of a file ---------------------------------------------------------------------- */

static int repository_read_file(const char *path, repository_sink sink, void *context,
				struct err *err)
{
	char chunk[REPOSITORY_CHUNK];
	struct stat status;
	uint64_t left = REPOSITORY_PACKED_MAX;

	/* O_NONBLOCK: a FIFO in its place must not hang us. */
	_cleanup_close_ int fd =
	    open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &status) < 0)
		return err_set(err, -errno, "cannot open '%.300s': %s", path, err_describe(errno));
	if (!S_ISREG(status.st_mode))
		return err_set(err, -EBADMSG, "'%.300s' is not a file", path);

	for (;;) {
		ssize_t count = read(fd, chunk, sizeof(chunk));
		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			return err_set(err, -errno, "reading '%.300s': %s", path,
				       err_describe(errno));
		if (count == 0)
			return 0;

		if ((uint64_t)count > left)
			return err_set(err, -EFBIG, "'%.300s' is longer than is believed", path);

		left -= (uint64_t)count;
		int rc = sink(chunk, (size_t)count, context);
		if (rc != 0)
			return rc;
	}
}

static int repository_read_bytes(const struct repository *repository, const char *path,
				 repository_sink sink, void *context, struct err *err)
{
	const struct repository_options *options = repository->options;
	if (!repository->is_url)
		return repository_read_file(path, sink, context, err);
	return options->fetch(path, REPOSITORY_PACKED_MAX, options->timeout_ms, sink, context, err);
}

/* --- an index -------------------------------------------------------------------------------- */

/* Bytes as they come -> unpacked -> understood. */
struct repository_pipe {
	struct unpack *unpack; /* owned, as is rpmmd */
	struct rpmmd *rpmmd;   /* NULL: debian */
	struct debian debian;
	struct buf *text; /* borrowed; not NULL: it is only kept */
	struct err *err;
};

static int repository_on_bytes(const char *data, size_t length, void *context)
{
	struct repository_pipe *pipe = context;
	return unpack_feed(pipe->unpack, data, length, pipe->err);
}

static int repository_on_text(const char *data, size_t length, void *context)
{
	struct repository_pipe *pipe = context;
	int rc;

	if (pipe->text) {
		rc = buf_add(pipe->text, data, length);
		return rc == -ENOSPC ? err_set(pipe->err, -EFBIG, "it is too long") : rc;
	}

	if (pipe->rpmmd)
		return rpmmd_feed(pipe->rpmmd, data, length, pipe->err);

	rc = debian_feed(&pipe->debian, data, length);
	return rc == -EBADMSG ? err_set(pipe->err, rc, "it is no index of Debian packages") : rc;
}

static void repository_pipe_done(struct repository_pipe *pipe)
{
	pipe->unpack = unpack_free(pipe->unpack);
	pipe->rpmmd = rpmmd_free(pipe->rpmmd);
}

static int repository_run_pipe(const struct repository *repository, const char *path,
			       struct repository_pipe *pipe)
{
	struct err *err = pipe->err;

	pipe->unpack = unpack_new(REPOSITORY_UNPACKED_MAX, repository_on_text, pipe);
	if (!pipe->unpack)
		return err_set(err, -ENOMEM, "out of memory for unpacking");

	err->code = 0;
	err->text[0] = '\0';

	int rc = repository_read_bytes(repository, path, repository_on_bytes, pipe, err);
	if (rc == 0)
		rc = unpack_end(pipe->unpack, err);
	if (rc == 0 && pipe->rpmmd)
		rc = rpmmd_end(pipe->rpmmd, err);

	if (rc == 0 && !pipe->rpmmd && !pipe->text) {
		rc = debian_end(&pipe->debian);
		if (rc == -EBADMSG)
			(void)err_set(err, rc, "it is no index of Debian packages");
	}

	/* What could not be opened or fetched has named its path already. */
	if (rc < 0 && err->code == rc && !strstr(err->text, path))
		(void)err_wrap(err, "'%.250s'", path);

	return rc;
}

static int repository_read_text(const struct repository *repository, const char *path,
				struct buf *out, struct err *err)
{
	_cleanup_(repository_pipe_done) struct repository_pipe pipe = {.text = out, .err = err};
	return repository_run_pipe(repository, path, &pipe);
}

/* `directory` is a path or an address, without a '/' at its end. -ENOENT: it has no repodata. */
static int repository_read_rpm(struct repository *repository, const char *directory,
			       struct err *err)
{
	const struct repository_options *options = repository->options;
	_cleanup_buf_ struct buf index;
	char path[FILE_PATH_MAX], primary[RPMMD_PATH_MAX];

	buf_init(&index, REPOSITORY_INDEX_MAX);
	int rc = file_path(path, err, "%s/repodata/repomd.xml", directory);
	if (rc == 0)
		rc = repository_read_text(repository, path, &index, err);
	if (rc != 0)
		return rc;

	rc = rpmmd_find_primary(buf_text(&index), index.length, primary, err);
	if (rc < 0) {
		(void)err_wrap(err, "'%.250s'", path);
		return rc == -ENOENT ? -EBADMSG : rc;
	}

	_cleanup_(repository_pipe_done) struct repository_pipe pipe = {.err = err};
	pipe.rpmmd = rpmmd_new(options->sink, options->context, err);
	if (!pipe.rpmmd)
		return -ENOMEM;

	rc = file_path(path, err, "%s/%s", directory, primary);
	if (rc == 0)
		rc = repository_run_pipe(repository, path, &pipe);
	repository->indexes++;
	repository->kind = REPOSITORY_RPM;

	/* That it is missing is damage, not the lack of a repository. */
	return rc == -ENOENT ? -EBADMSG : rc;
}

static int repository_read_debian(struct repository *repository, const char *directory,
				  struct err *err)
{
	static const char *const names[] = {"Packages.gz", "Packages", "Packages.xz",
					    "Packages.zst"};
	const struct repository_options *options = repository->options;
	int rc = -ENOENT;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names) && rc == -ENOENT; i++) {
		_cleanup_(repository_pipe_done) struct repository_pipe pipe = {.err = err};
		char path[FILE_PATH_MAX];

		debian_init(&pipe.debian, options->sink, options->context);
		rc = file_path(path, err, "%s/%s", directory, names[i]);
		if (rc == 0)
			rc = repository_run_pipe(repository, path, &pipe);
		if (rc == 0) {
			repository->indexes++;
			repository->kind = REPOSITORY_DEBIAN;
		}
	}

	return rc;
}

/* --- a directory ------------------------------------------------------------------------------ */

static int repository_walk(struct repository *repository, const char *directory, int depth,
			   struct err *err);

static bool repository_is_wanted(const struct repository *repository, const char *name,
				 bool has_dists)
{
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return false;
	if (text_starts_with(name, "binary-"))
		return strcmp(name + 7, repository->options->deb_arch) == 0 ||
		       strcmp(name + 7, "all") == 0;
	/* Where there are indexes of them, files are not counted again. */
	return !has_dists || strcmp(name, "dists") == 0;
}

static int repository_entry(struct repository *repository, const char *directory,
			    const struct dirent *entry, int depth, struct err *err)
{
	const struct repository_options *options = repository->options;
	struct package package;
	struct stat status;
	char path[FILE_PATH_MAX];
	int rc = file_path(path, err, "%s/%s", directory, entry->d_name);
	if (rc < 0)
		return rc;

	if (++repository->files > REPOSITORY_FILES_MAX)
		return err_set(err, -E2BIG, "'%.300s' has more than %d files: name a part of it",
			       options->location, REPOSITORY_FILES_MAX);
	if (package_from_file(entry->d_name, strlen(entry->d_name), &package) == 0) {
		repository->packages++;
		return options->sink(&package, options->context);
	}

	if (lstat(path, &status) < 0 || !S_ISDIR(status.st_mode) || depth >= REPOSITORY_DEPTH_MAX)
		return 0;

	return repository_walk(repository, path, depth + 1, err);
}

/* Never deeper than REPOSITORY_DEPTH_MAX. */
static int repository_walk(struct repository *repository, const char *directory, int depth,
			   struct err *err)
{
	char dists[FILE_PATH_MAX];
	int rc = repository_read_rpm(repository, directory, err);
	if (rc == -ENOENT)
		rc = repository_read_debian(repository, directory, err);
	if (rc != -ENOENT)
		return rc;

	_cleanup_closedir_ DIR *stream = opendir(directory);
	if (!stream)
		return err_set(err, -errno, "cannot open '%.300s': %s", directory,
			       err_describe(errno));

	bool has_dists = file_path(dists, NULL, "%s/dists", directory) == 0 && file_exists(dists);
	const struct dirent *entry;

	rc = 0;
	while (rc == 0 && (entry = readdir(stream)))
		if (repository_is_wanted(repository, entry->d_name, has_dists))
			rc = repository_entry(repository, directory, entry, depth, err);

	return rc;
}

static int repository_read_directory(struct repository *repository, const char *directory,
				     struct err *err)
{
	repository->kind = REPOSITORY_FILES;
	int rc = repository_walk(repository, directory, 0, err);
	if (rc == 0 && repository->indexes == 0 && repository->packages == 0)
		return err_set(
		    err, -ENOENT,
		    "'%.300s' has neither repodata/repomd.xml, nor a Packages index, nor "
		    "files that are named as packages",
		    directory);

	return rc;
}

/* --- an address ------------------------------------------------------------------------------- */

/* "BASE SUITE COMPONENT..." as in a sources.list. */
static int repository_read_suite(struct repository *repository, char *words, struct err *err)
{
	char *rest = words, directory[FILE_PATH_MAX];
	const char *base = strsep(&rest, " "), *suite = rest ? strsep(&rest, " ") : NULL;
	int rc = suite && rest ? 0
			       : err_set(err, -EINVAL,
					 "'%.200s': after the address come a suite and its "
					 "components: \"https://deb.debian.org/debian bookworm "
					 "main\"",
					 repository->options->location);
	const char *component;

	while (rc == 0 && (component = strsep(&rest, " "))) {
		if (!*component)
			continue;

		rc = file_path(directory, err, "%s/dists/%s/%s/binary-%s", base, suite, component,
			       repository->options->deb_arch);
		if (rc == 0)
			rc = repository_read_debian(repository, directory, err);
	}

	return rc;
}

static int repository_read_address(struct repository *repository, char *address, struct err *err)
{
	if (strchr(address, ' '))
		return repository_read_suite(repository, address, err);

	int rc = repository_read_rpm(repository, address, err);
	if (rc == -ENOENT)
		rc = repository_read_debian(repository, address, err);

	if (rc == -ENOENT)
		return err_set(err, -ENOENT,
			       "'%.200s' has neither repodata/repomd.xml nor Packages.gz; a Debian "
			       "repository is named with its suite: \"ADDRESS bookworm main\"",
			       address);

	return rc;
}

int repository_read(const struct repository_options *options, enum repository_kind *out,
		    struct err *err)
{
	struct repository repository = {.options = options};
	const char *location = options->location;
	struct err own = {0};
	char text[FILE_PATH_MAX];

	err = err ? err : &own;
	if (text_starts_with(location, "file://"))
		location += 7;

	int rc = file_path(text, err, "%s", location);
	if (rc < 0)
		return rc;

	size_t length = strlen(text);
	while (length > 1 && text[length - 1] == '/')
		text[--length] = '\0';

	repository.is_url =
	    strncasecmp(text, "http://", 7) == 0 || strncasecmp(text, "https://", 8) == 0;
	if (repository.is_url && !options->fetch)
		return err_set(err, -ENOTSUP,
			       "this sluice was built without libcurl: copy the repository to a "
			       "directory and name that");

	rc = repository.is_url ? repository_read_address(&repository, text, err)
			       : repository_read_directory(&repository, text, err);
	if (rc == 0)
		*out = repository.kind;

	return rc;
}
