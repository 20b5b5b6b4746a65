/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/supervise/privilege.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/quota.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#ifndef SYS_quotactl_fd
#define SYS_quotactl_fd 443 /* Linux 5.14; the same number on all architectures */
#endif

static int privilege_set(bool has)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
	const uint32_t bit = CAP_TO_MASK(CAP_SYS_RESOURCE);
	const size_t word = CAP_TO_INDEX(CAP_SYS_RESOURCE);

	if (syscall(SYS_capget, &header, data) < 0)
		return -errno;

	uint32_t before = data[word].effective;

	if (has)
		data[word].effective |= data[word].permitted & bit;
	else
		data[word].effective &= ~bit; /* still permitted: it can be taken up again */

	if (data[word].effective == before)
		return 0;

	return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

int privilege_lay_down(void)
{
	return privilege_set(false);
}

void privilege_take_up(void)
{
	(void)privilege_set(true); /* then without, as an ordinary user's */
}

bool privilege_has_quota(int fd, uid_t uid)
{
	struct if_dqblk quota = {0};
	const unsigned command = QCMD((unsigned)Q_GETQUOTA, (unsigned)USRQUOTA);
	long rc = syscall(SYS_quotactl_fd, fd, command, uid, &quota);
	if (rc < 0 && errno == ENOSYS) {
		char device[64];
		struct stat status;

		if (fstat(fd, &status) < 0)
			return false;

		(void)snprintf(device, sizeof(device), "/dev/block/%u:%u", major(status.st_dev),
			       minor(status.st_dev)); /* fits */
		rc = syscall(SYS_quotactl, command, device, uid, &quota);
	}

	return rc == 0 && (quota.dqb_bhardlimit > 0 || quota.dqb_bsoftlimit > 0);
}
