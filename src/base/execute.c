/* SPDX-License-Identifier: Apache-2.0 */
#include "base/execute.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"

enum { EXECUTE_LOOK = 256 }; /* bytes in which a binary file shows */

#define EXECUTE_SHELL "/bin/sh"
#define EXECUTE_PATH  "/usr/local/bin:/usr/bin:/bin" /* where PATH is not set */

/* No shell would run it: it begins as machine code does, or its first line has a NUL. */
static bool execute_is_binary(const char *path)
{
	char text[EXECUTE_LOOK];
	_cleanup_close_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	ssize_t length = fd >= 0 ? read(fd, text, sizeof(text)) : -1;

	if (length <= 0)
		return length < 0; /* what cannot be read a shell cannot read either */

	const char *line_end = memchr(text, '\n', (size_t)length);
	size_t line = line_end ? (size_t)(line_end - text) : (size_t)length;

	return memchr(text, '\0', line) || (length >= 4 && memcmp(text, "\177ELF", 4) == 0);
}

static int execute_file(const char *path, char *const argv[])
{
	(void)execv(path, argv);
	int code = -errno;
	if (code != -ENOEXEC || execute_is_binary(path))
		return code;

	size_t count = 0;
	while (argv[count])
		count++;

	_cleanup_free_ const char **words = calloc(count + 2, sizeof(*words));
	if (!words)
		return -ENOMEM;

	words[0] = EXECUTE_SHELL;
	words[1] = path;
	for (size_t i = 1; i < count; i++)
		words[i + 1] = argv[i];

	(void)execv(EXECUTE_SHELL, (char *const *)words);

	return -errno;
}

int execute(char *const argv[])
{
	const char *name = argv[0];
	const char *at = getenv("PATH");
	int failure = -ENOENT;

	if (strchr(name, '/') || !*name)
		return *name ? execute_file(name, argv) : -ENOENT;
	if (!at)
		at = EXECUTE_PATH;

	for (bool more = true; more;) {
		char path[FILE_PATH_MAX];
		size_t length = strcspn(at, ":");
		int rc = length > 0 ? file_path(path, NULL, "%.*s/%s", (int)length, at, name)
				    : file_path(path, NULL, "./%s", name);
		if (rc == 0)
			rc = execute_file(path, argv);

		/* "Permission denied" of a directory that may not be looked into says nothing of
		 * the program, which may be in another one, or nowhere. */
		if (rc == -EACCES && access(path, F_OK) == 0)
			failure = rc;
		else if (rc != -EACCES && rc != -ENOENT && rc != -ENOTDIR && rc != -ELOOP &&
			 rc != -ENAMETOOLONG)
			return rc;

		more = at[length] == ':';
		at += length + more;
	}

	return failure;
}
