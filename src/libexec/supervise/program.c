/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/supervise/program.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/text.h"
#include "job/spec.h"

/* Variables that load code: ld.so(8), bash(1), iconv of glibc. Those that begin so. */
static const char *const program_loaders[] = {"LD_", "GCONV_PATH=", "BASH_ENV=", "BASH_FUNC_",
					      "ENV="};

/* --- whose a place is ------------------------------------------------------------------------- */

static int program_check_one(const char *path, bool is_last, struct err *err)
{
	struct stat info;
	if (lstat(path, &info) < 0)
		return err_set(err, -errno, "'%s': %s", path, err_describe(errno));

	/* One that is a directory may be the last as well: of PATH. */
	if (!S_ISDIR(info.st_mode) && !(is_last && S_ISREG(info.st_mode)))
		return err_set(err, -EPERM, "'%s' is no directory and no program", path);
	if (info.st_uid != 0)
		return err_set(err, -EPERM, "'%s' belongs to user %u", path, (unsigned)info.st_uid);
	if ((info.st_mode & S_IWOTH) || ((info.st_mode & S_IWGRP) && info.st_gid != 0))
		return err_set(err, -EPERM, "others than root may write to '%s'", path);
	if (!(info.st_mode & S_IXOTH))
		return err_set(err, -EPERM, "not everybody may use '%s'", path);

	return 0;
}

/* The path without links; what it went through does not matter, for it is what is used. */
static int program_resolve(const char *path, char out[PATH_MAX], struct err *err)
{
	return realpath(path, out)
		   ? 0
		   : err_set(err, -errno, "'%.200s': %s", path, err_describe(errno));
}

static int program_check_resolved(const char *path, struct err *err)
{
	char part[PATH_MAX];
	int rc = program_check_one("/", false, err);

	for (const char *at = path; rc == 0 && *at == '/' && at[1];) {
		at += 1 + strcspn(at + 1, "/");
		(void)snprintf(part, sizeof(part), "%.*s", (int)(at - path), path); /* fits */
		rc = program_check_one(part, *at == '\0', err);
	}

	return rc;
}

int program_check(const char *path, struct err *err)
{
	char real[PATH_MAX];
	int rc = program_resolve(path, real, err);
	return rc < 0 ? rc : program_check_resolved(real, err);
}

/* --- PATH ------------------------------------------------------------------------------------- */

static const char *program_path_of(char *const *environment)
{
	static const char name[] = "PATH=";
	for (; environment && *environment; environment++)
		if (text_starts_with(*environment, name))
			return *environment + strlen(name);
	return "";
}

static bool program_is_file(const char *path)
{
	struct stat info;
	return stat(path, &info) == 0 && S_ISREG(info.st_mode) &&
	       (info.st_mode & (S_IXUSR | S_IXGRP | S_IXOTH));
}

/* The first of this name, in absolute directories. */
static bool program_look(const char *list, const char *name, char out[FILE_PATH_MAX])
{
	for (int i = 0; *list && i < PROGRAM_PLACES_MAX; i++) {
		size_t length = strcspn(list, ":");
		if (*list == '/' && file_path(out, NULL, "%.*s/%s", (int)length, list, name) == 0 &&
		    program_is_file(out))
			return true;
		list += length + (list[length] == ':');
	}

	return false;
}

int program_find(char *const *environment, unsigned runtime, struct err *err)
{
	const char *list = program_path_of(environment), *name = "podman";
	char path[FILE_PATH_MAX];
	bool is_there = runtime != SPEC_RUNTIME_DOCKER && program_look(list, name, path);

	if (!is_there && runtime != SPEC_RUNTIME_PODMAN) {
		name = "docker";
		is_there = program_look(list, name, path);
	}

	if (!is_there)
		return err_set(err, -ENOENT, "no podman or docker is found in PATH");

	struct err why = {0};
	if (program_check(path, &why) == 0)
		return 0;

	return err_set(err, -EPERM, "'%.120s' is not the administrator's: %.200s", path, why.text);
}

/* Those directories of a PATH that are the administrator's, as they are without links, in their
 * order. NULL: no memory. */
static char *program_clean_path(const char *list)
{
	static const char name[] = "PATH=";
	char real[PATH_MAX], directory[FILE_PATH_MAX];
	size_t room = sizeof(name) + 1, length = strlen(name);
	char *out = malloc(room);
	if (out)
		memcpy(out, name, sizeof(name));

	for (int i = 0; out && *list && i < PROGRAM_PLACES_MAX; i++) {
		size_t size = strcspn(list, ":");
		if (*list == '/' && file_path(directory, NULL, "%.*s", (int)size, list) == 0 &&
		    program_resolve(directory, real, NULL) == 0 &&
		    program_check_resolved(real, NULL) == 0) {
			size_t more = strlen(real) + 1;
			char *longer = realloc(out, room + more);
			if (!longer) {
				free(out);
				return NULL;
			}

			out = longer;
			room += more;
			length += (size_t)snprintf(out + length, room - length, "%s%s",
						   length > strlen(name) ? ":" : "", real);
		}

		list += size + (list[size] == ':');
	}

	return out;
}

static bool program_is_loader(const char *variable)
{
	for (size_t i = 0; i < array_length(program_loaders); i++)
		if (text_starts_with(variable, program_loaders[i]))
			return true;
	return false;
}

int program_clean(char **environment)
{
	static const char name[] = "PATH=";
	size_t kept = 0;
	char *path = program_clean_path(program_path_of(environment));
	if (!path)
		return -ENOMEM;

	for (size_t i = 0; environment[i]; i++) {
		if (program_is_loader(environment[i])) {
			free(environment[i]);
		} else if (text_starts_with(environment[i], name)) {
			free(environment[i]);
			if (path)
				environment[kept++] = path;
			path = NULL; /* of two the first counts, as for getenv(3) */
		} else {
			environment[kept++] = environment[i];
		}
	}

	environment[kept] = NULL;
	free(path);
	return 0;
}
