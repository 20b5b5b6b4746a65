/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/driver.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "cdi/driver_internal.h"

#if defined(__aarch64__)
#define DRIVER_TRIPLET "aarch64-linux-gnu"
#elif defined(__powerpc64__)
#define DRIVER_TRIPLET "powerpc64le-linux-gnu"
#else
#define DRIVER_TRIPLET "x86_64-linux-gnu"
#endif

static const char *const driver_binaries[] = {
    "nvidia-smi",	"nvidia-debugdump",	   "nvidia-persistenced",
    "nv-fabricmanager", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server",
    "nvidia-imex",	"nvidia-imex-ctl",
};
static const char *const driver_binary_directories[] = {
    "/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/local/bin", "/usr/local/sbin",
};
static const char *const driver_daemons[] = {"nvidia-persistenced", "nvidia-fabricmanager"};

#define DRIVER_MPS "/tmp/nvidia-mps" /* where programs look for it unless told otherwise */

static const struct {
	enum driver_capability capability;
	const char *name;
} driver_words[] = {
    {DRIVER_UTILITY, "utility"},   {DRIVER_COMPUTE, "compute"}, {DRIVER_VIDEO, "video"},
    {DRIVER_GRAPHICS, "graphics"}, {DRIVER_NGX, "ngx"},		{DRIVER_DISPLAY, "display"},
    {DRIVER_ALL, "all"},
};

const char *driver_triplet_here(void)
{
	return DRIVER_TRIPLET;
}

int driver_complain(struct cdi_driver *driver, bool is_severe, bool is_mismatch, const char *format,
		    ...)
{
	/* A severe one is never lost behind many that are not. */
	if (driver->problem_count >= DRIVER_PROBLEMS_MAX &&
	    !(is_severe && !driver_severe(driver))) {
		driver->problem_count++;
		return 0;
	}

	if (!driver->problems) {
		driver->problems = calloc(DRIVER_PROBLEMS_MAX, sizeof(*driver->problems));
		if (!driver->problems)
			return -ENOMEM;
	}

	uint32_t at = driver->problem_count < DRIVER_PROBLEMS_MAX ? driver->problem_count
								  : DRIVER_PROBLEMS_MAX - 1;
	struct driver_problem *problem = &driver->problems[at];

	driver->problem_count++;
	problem->is_severe = is_severe;
	problem->is_mismatch = is_mismatch;

	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(problem->text, sizeof(problem->text), format, arguments);
	va_end(arguments);

	return 0;
}

int driver_refuse(struct cdi_driver *driver, uint32_t capabilities, const struct err *why)
{
	return driver_complain(driver, capabilities & (DRIVER_UTILITY | DRIVER_COMPUTE), false,
			       "%s", why->text);
}

int driver_add(struct cdi_driver *driver, enum driver_kind kind, uint32_t capabilities,
	       const char *path, const char *name, struct err *err)
{
	for (uint32_t i = 0; i < driver->file_count; i++)
		if (driver->files[i].kind == kind && strcmp(driver->files[i].name, name) == 0)
			return 0;

	if (driver->file_count == DRIVER_FILES_MAX)
		return err_set(err, -E2BIG, "more than %d driver files below '%s/'",
			       DRIVER_FILES_MAX, driver->root);
	if (!driver->files)
		driver->files = calloc(DRIVER_FILES_MAX, sizeof(*driver->files));

	_cleanup_free_ char *own_path = strdup(path), *own_name = strdup(name);
	if (!driver->files || !own_path || !own_name)
		return err_set(err, -ENOMEM, "out of memory for driver file '%s'", path);

	driver->files[driver->file_count++] = (struct driver_file){.kind = kind,
								   .capabilities = capabilities,
								   .path = take_ptr(own_path),
								   .name = take_ptr(own_name)};
	return 0;
}

/* What became of looking for a file: nothing where it is not there, a problem where it is refused.
 */
static int driver_take(struct driver_search *search, int found, const struct err *why,
		       const struct driver_file *file, bool *out_taken, struct err *err)
{
	if (found == 0) {
		*out_taken = true;
		return driver_add(search->driver, file->kind, file->capabilities, file->path,
				  file->name, err);
	}

	if (found == -ENOENT || found == -ENOTDIR)
		return 0;

	bool is_code = file->kind == DRIVER_LIBRARY || file->kind == DRIVER_BINARY;
	int rc = driver_refuse(search->driver, is_code ? file->capabilities : 0, why);

	return rc < 0 ? err_set(err, rc, "out of memory") : 0;
}

int driver_try(struct driver_search *search, enum driver_kind kind, uint32_t capabilities,
	       const char *path, const char *name, bool *out_taken, struct err *err)
{
	char real[FILE_PATH_MAX], inside[FILE_PATH_MAX];
	struct err why = {0};
	int rc = file_path(inside, err, "%s", name);
	if (rc < 0)
		return rc;

	const struct driver_file file = {kind, capabilities, real, inside};
	rc = rootdir_find(search->root, path, kind == DRIVER_DIRECTORY ? S_IFDIR : S_IFREG, real,
			  NULL, &why);
	return driver_take(search, rc, &why, &file, out_taken, err);
}

static int driver_find_binaries(struct driver_search *search, struct err *err)
{
	for (size_t i = 0; i < array_length(driver_binaries); i++) {
		const char *name = driver_binaries[i];
		bool taken = false;

		for (size_t j = 0; j < array_length(driver_binary_directories) && !taken; j++) {
			char path[FILE_PATH_MAX], inside[FILE_PATH_MAX];
			int rc = file_path(path, err, "%s/%s", driver_binary_directories[j], name);
			if (rc == 0)
				rc = file_path(inside, err, "/usr/bin/%s", name);
			if (rc == 0)
				rc = driver_try(search, DRIVER_BINARY,
						driver_capabilities_of(name, strlen(name)), path,
						inside, &taken, err);

			if (rc < 0)
				return rc;
		}
	}

	return 0;
}

static int driver_find_sockets(struct driver_search *search, struct err *err)
{
	static const char socket[] = "socket";

	for (size_t i = 0; i < array_length(driver_daemons); i++) {
		bool taken = false;

		for (int var = 0; var < 2 && !taken; var++) {
			char path[FILE_PATH_MAX], real[FILE_PATH_MAX], name[FILE_PATH_MAX];
			char inside[FILE_PATH_MAX];
			struct err why = {0};
			const struct driver_file file = {DRIVER_SOCKET, 0, inside, name};
			int rc = file_path(path, err, "%s/%s", var ? "/var/run" : "/run",
					   driver_daemons[i]);
			if (rc == 0)
				rc = file_path(name, err, "%s/%s", path, socket);

			if (rc < 0)
				return rc;

			int found = rootdir_find_daemon(search->root, path, socket, real, &why);
			if (found == 0)
				rc = file_path(inside, err, "%s/%s", real, socket);
			if (rc == 0)
				rc = driver_take(search, found, &why, &file, &taken, err);
			if (rc < 0)
				return rc;
		}
	}

	return 0;
}

/*
 * The pipes of MPS are for every container only where nobody but root can put another directory in
 * their place, today or later: the specification outlives the daemon. In /tmp everybody can.
 */
static int driver_find_mps(struct driver_search *search, struct err *err)
{
	const char *own = search->options->mps;
	bool taken = false;
	int rc = 0;

	if (own && own[0] == '/' && strcmp(own, DRIVER_MPS) != 0)
		return driver_try(search, DRIVER_DIRECTORY, DRIVER_COMPUTE, own, DRIVER_MPS, &taken,
				  err);

	char path[FILE_PATH_MAX];
	if (file_path(path, NULL, "%s" DRIVER_MPS, search->root->path) == 0 && file_exists(path))
		rc = driver_complain(search->driver, false, false,
				     "'%s' is not given to containers: anybody could put another "
				     "directory in its place; start MPS with "
				     "CUDA_MPS_PIPE_DIRECTORY=/run/nvidia-mps and set it here too",
				     path);

	return rc < 0 ? err_set(err, rc, "out of memory") : 0;
}

/* The GPU system processor's firmware in one directory. */
static int driver_find_gsp(struct driver_search *search, const char *directory, bool *out_taken,
			   struct err *err)
{
	char path[FILE_PATH_MAX], real[FILE_PATH_MAX];
	int rc = file_path(path, err, "%s/nvidia/%s", directory, search->driver->version);
	if (rc < 0)
		return rc;

	struct err why = {0};
	_cleanup_close_ int fd = -1;

	rc = rootdir_find(search->root, path, S_IFDIR, real, &fd, &why);
	if (rc == -ENOENT || rc == -ENOTDIR)
		return 0;
	if (rc < 0) {
		rc = driver_refuse(search->driver, 0, &why);
		return rc < 0 ? err_set(err, rc, "out of memory") : 0;
	}

	_cleanup_closedir_ DIR *open_directory = fdopendir(fd);
	if (!open_directory)
		return err_set(err, -errno, "cannot read '%s': %s", path, err_describe(errno));

	(void)take_fd(&fd); /* the directory's now */
	const struct dirent *entry;

	for (int i = 0; i < DRIVER_ENTRIES_MAX && (entry = readdir(open_directory)); i++) {
		char file[FILE_PATH_MAX];

		if (fnmatch("gsp*.bin", entry->d_name, FNM_PERIOD) != 0)
			continue;

		rc = file_path(file, err, "%s/%s", path, entry->d_name);
		if (rc == 0)
			rc = driver_try(search, DRIVER_FIRMWARE, 0, file, file, out_taken, err);
		if (rc < 0)
			return rc;
	}

	return 0;
}

static int driver_find_firmware(struct driver_search *search, struct err *err)
{
	const char *release = search->options->release, *own = search->options->firmware;
	bool has_release = release && release[0] && !strchr(release, '/');
	bool taken = false;
	int rc = 0;

	if (own && own[0] == '/')
		rc = driver_find_gsp(search, own, &taken, err);
	static const char *const directories[] = {"/lib/firmware/updates", "/lib/firmware"};

	for (size_t i = 0; rc == 0 && !taken && i < array_length(directories); i++) {
		char path[FILE_PATH_MAX];

		if (has_release) {
			rc = file_path(path, err, "%s/%s", directories[i], release);
			if (rc == 0)
				rc = driver_find_gsp(search, path, &taken, err);
		}

		if (rc == 0 && !taken)
			rc = driver_find_gsp(search, directories[i], &taken, err);
	}

	return rc;
}

static int driver_file_compare(const void *left, const void *right)
{
	const struct driver_file *a = left, *b = right;
	return a->kind != b->kind ? (a->kind < b->kind ? -1 : 1) : strcmp(a->name, b->name);
}

int driver_find(const struct driver_options *options, struct cdi_driver *out, struct err *err)
{
	_cleanup_rootdir_ struct rootdir root = ROOTDIR_CLOSED;
	int rc = rootdir_open(options->root, &root, err);
	if (rc < 0)
		return rc;

	_cleanup_driver_ struct cdi_driver driver = {0};
	if (strlen(root.path) >= sizeof(driver.root))
		return err_set(err, -ENAMETOOLONG, "driver root '%.64s...' is too long", root.path);

	memcpy(driver.root, root.path, strlen(root.path) + 1);
	struct driver_search search = {.options = options,
				       .root = &root,
				       .driver = &driver,
				       .triplet =
					   options->triplet ? options->triplet : DRIVER_TRIPLET};
	rc = driver_find_libraries(&search, err);
	if (rc == 0)
		rc = driver_find_binaries(&search, err);

	if (rc == 0)
		rc = driver_find_firmware(&search, err);
	if (rc == 0)
		rc = driver_find_sockets(&search, err);
	if (rc == 0)
		rc = driver_find_mps(&search, err);
	if (rc == 0)
		rc = driver_find_data(&search, err);

	for (uint32_t i = 0; i < search.directory_count; i++) {
		free(search.directories[i].path);
		(void)closedir(search.directories[i].stream); /* only read */
	}

	if (rc < 0)
		return rc;
	if (driver.file_count > 0)
		qsort(driver.files, driver.file_count, sizeof(driver.files[0]),
		      driver_file_compare);

	*out = driver;
	driver = (struct cdi_driver){0};
	return 0;
}

void driver_done(struct cdi_driver *driver)
{
	for (uint32_t i = 0; i < driver->file_count; i++) {
		free(driver->files[i].path);
		free(driver->files[i].name);
	}
	free(driver->files);
	free(driver->problems);
	*driver = (struct cdi_driver){0};
}

const struct driver_problem *driver_severe(const struct cdi_driver *driver)
{
	for (uint32_t i = 0; i < driver->problem_count && i < DRIVER_PROBLEMS_MAX; i++)
		if (driver->problems[i].is_severe)
			return &driver->problems[i];
	return NULL;
}

int driver_check(const struct cdi_driver *driver, struct err *err)
{
	const struct driver_problem *severe = driver_severe(driver);
	if (!severe)
		return 0;
	return err_set(err, severe->is_mismatch ? -ESTALE : -ENOPKG, "%s", severe->text);
}

int driver_capabilities_parse(const char *text, uint32_t *out, struct err *err)
{
	uint32_t bits = 0;

	for (const char *word = text;;) {
		size_t length = strcspn(word, ","), i = 0;
		while (i < array_length(driver_words) &&
		       (strlen(driver_words[i].name) != length ||
			memcmp(driver_words[i].name, word, length) != 0))
			i++;

		if (i == array_length(driver_words))
			return err_set(
			    err, -EINVAL,
			    "'%.*s' is no driver capability; there are utility, compute, "
			    "video, graphics, ngx, display and all",
			    (int)(length < 64 ? length : 64), word);

		bits |= driver_words[i].capability;
		if (word[length] == '\0')
			break;

		word += length + 1;
	}

	*out = bits;
	return 0;
}
