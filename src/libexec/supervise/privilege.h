/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a supervisor of root's does without: CAP_SYS_RESOURCE lets whoever has it write past the
 * disk quota of a file's owner (quota_overflow in fs/quota/dquot.c), into the blocks that ext4
 * keeps back, and past limits; a file of a user's that root writes to is to cost the user as if
 * they had written themselves. To be another user for the time (setfsuid(2)) takes only the
 * capabilities of files away, not this one. What a supervisor starts has what it had.
 */
#ifndef SLUICE_LIBEXEC_SUPERVISE_PRIVILEGE_H
#define SLUICE_LIBEXEC_SUPERVISE_PRIVILEGE_H

#include <stdbool.h>
#include <sys/types.h>

/* Of this process, from here on; not there is fine. -errno. */
int privilege_lay_down(void);
/* In a process that was forked from it, before it becomes somebody else. */
void privilege_take_up(void);

/* Whether a disk quota of the user's bounds what he stores on the file system of `fd` (any of its
 * files). False also where nobody tells: the quota of NFS or ZFS is not asked for. */
bool privilege_has_quota(int fd, uid_t uid);

#endif
