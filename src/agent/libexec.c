/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/libexec.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"

int libexec_find(const char *name, const char *directory, const char *named,
		 char out[FILE_PATH_MAX], struct err *err)
{
	char program[FILE_PATH_MAX] = "";

	if (named && *named)
		return file_path(out, err, "%s", named);

	ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
	char *slash = length > 0 ? strrchr(program, '/') : NULL;
	if (slash) {
		*slash = '\0';
		if (file_path(out, NULL, "%s/%s", program, name) == 0 && file_exists(out))
			return 0;
		if (file_path(out, NULL, "%s/../libexec/%s/%s", program, directory, name) == 0 &&
		    file_exists(out))
			return 0;
		if (file_path(out, NULL, "%s/../libexec/sluice/%s", program, name) == 0 &&
		    file_exists(out))
			return 0;
	}

	if (file_path(out, NULL, "%s/%s", SLUICE_LIBEXEC_DIR, name) == 0 && file_exists(out))
		return 0;

	return err_set(err, -ENOPKG,
		       "the program %s is not found, neither beside this one nor in '%s': is "
		       "sluice installed completely?",
		       name, SLUICE_LIBEXEC_DIR);
}
