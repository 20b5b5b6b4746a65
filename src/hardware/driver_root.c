/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/driver_root.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"
#include "base/cleanup.h"

/* A regular file below an open root; its path without links. */
static bool driver_root_look(int root, const char *path, char out[FILE_PATH_MAX])
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC,
			       .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	_cleanup_close_ int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
	/* Before Linux 5.6 links that begin with / lead elsewhere: most installations have none. */
	if (fd < 0 && errno == ENOSYS)
		fd = openat(root, path, O_PATH | O_CLOEXEC);

	struct stat status;
	if (fd < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
		return false;

	char link[FILE_PATH_MAX], real[FILE_PATH_MAX];
	if (file_path(link, NULL, "/proc/self/fd/%d", fd) < 0)
		return false;

	ssize_t length = readlink(link, real, sizeof(real));
	if (length <= 0 || (size_t)length >= sizeof(real))
		return false;

	(void)snprintf(out, FILE_PATH_MAX, "%.*s", (int)length, real);
	return true;
}

bool driver_root_find(const char *prefix, const char *name, char out[FILE_PATH_MAX])
{
	static const char *const roots[] = {"/host", "/run/nvidia/driver", "/driver-root"};
	static const char *const directories[] = {
	    "usr/lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu",
	    "lib64",	 "lib/x86_64-linux-gnu",     "lib/aarch64-linux-gnu",
	};

	char path[FILE_PATH_MAX];

	for (size_t i = 0; i < array_length(roots); i++) {
		if (file_path(path, NULL, "%s%s", prefix, roots[i]) < 0)
			continue;

		_cleanup_close_ int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
		for (size_t k = 0; root >= 0 && k < array_length(directories); k++) {
			if (file_path(path, NULL, "%s/%s", directories[k], name) == 0 &&
			    driver_root_look(root, path, out))
				return true;
		}
	}

	return false;
}
