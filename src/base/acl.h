/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file or directory that is ours and that one other user may read, or pass: no mode says that,
 * for a group may have more members than one. POSIX access control lists do (acl(5)); the kernel
 * takes them as an extended attribute (linux/posix_acl_xattr.h).
 */
#ifndef SLUICE_BASE_ACL_H
#define SLUICE_BASE_ACL_H

#include <sys/types.h>

/* Permissions as in a mode's last digit. */
enum acl_permission { ACL_EXECUTE = 1, ACL_WRITE = 2, ACL_READ = 4 };

/*
 * `owner`: of the owner; `other`: of the user `uid`; nobody else has any. `fd` is open, not O_PATH.
 * 0; -EOPNOTSUPP: the file system has no such lists, and nothing was changed; -EPERM, -ENOSPC, ...
 */
int acl_give(int fd, unsigned owner, uid_t uid, unsigned other);

#endif
