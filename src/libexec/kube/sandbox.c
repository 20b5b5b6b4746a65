/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/kube/sandbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/parse.h"

enum { SANDBOX_CAPABILITIES_MAX = 64 };

int sandbox_close(int keep, struct err *err)
{
	if (fcntl(keep, F_SETFD, FD_CLOEXEC) < 0)
		return err_set(
		    err, -errno,
		    "descriptor %d is missing: this program is started by 'sluice agent'", keep);

	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			(void)open("/dev/null", O_RDWR); /* the lowest free one is `fd` */

	_cleanup_closedir_ DIR *directory = opendir("/proc/self/fd");
	if (!directory)
		return err_set(err, -errno, "'/proc/self/fd': %s", err_describe(-errno));

	const struct dirent *entry;

	while ((entry = readdir(directory))) {
		uint64_t fd = 0;
		if (parse_u64(entry->d_name, 0, INT32_MAX, &fd) < 0)
			continue;
		if ((int)fd > STDERR_FILENO && (int)fd != keep && (int)fd != dirfd(directory))
			(void)close((int)fd);
	}

	return 0;
}

/* Its bit if we have it, for both sets; everything else goes. */
static int sandbox_drop_capabilities(struct err *err)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
	const uint32_t kept = UINT32_C(1) << CAP_DAC_READ_SEARCH;

	/* Needs CAP_SETPCAP, and so comes first; without it there is nothing to take away. */
	for (unsigned long i = 0; i < SANDBOX_CAPABILITIES_MAX; i++)
		(void)prctl(PR_CAPBSET_DROP, i, 0, 0, 0);

	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); /* kernels since 4.3 */
	if (syscall(SYS_capget, &header, data) < 0)
		return err_set(err, -errno, "reading our capabilities: %s", err_describe(-errno));

	for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		data[i].permitted &= i == 0 ? kept : 0;
		data[i].effective = data[i].permitted;
		data[i].inheritable = 0;
	}

	header.version = _LINUX_CAPABILITY_VERSION_3;
	if (syscall(SYS_capset, &header, data) < 0)
		return err_set(err, -errno, "giving up capabilities: %s", err_describe(-errno));

	return 0;
}

int sandbox_drop(struct err *err)
{
	const struct rlimit none = {.rlim_cur = 0, .rlim_max = 0};
	if (setrlimit(RLIMIT_CORE, &none) < 0)
		return err_set(err, -errno, "forbidding core files: %s", err_describe(-errno));
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_set(err, -errno, "forbidding new privileges: %s", err_describe(-errno));
	return sandbox_drop_capabilities(err);
}
