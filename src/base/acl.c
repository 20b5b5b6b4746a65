/* SPDX-License-Identifier: Apache-2.0 */
#include "base/acl.h"

#include <endian.h>
#include <errno.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <stdint.h>
#include <sys/xattr.h>

enum { ACL_ENTRIES = 5 };

/* In this order, which the kernel demands. */
struct acl_list {
	struct posix_acl_xattr_header header;
	struct posix_acl_xattr_entry entries[ACL_ENTRIES];
};

static struct posix_acl_xattr_entry acl_entry(uint16_t tag, unsigned permission, uint32_t id)
{
	return (struct posix_acl_xattr_entry){
	    .e_tag = htole16(tag), .e_perm = htole16((uint16_t)permission), .e_id = htole32(id)};
}

int acl_give(int fd, unsigned owner, uid_t uid, unsigned other)
{
	const struct acl_list list = {
	    .header = {.a_version = htole32(POSIX_ACL_XATTR_VERSION)},
	    .entries = {acl_entry(ACL_USER_OBJ, owner, (uint32_t)ACL_UNDEFINED_ID),
			acl_entry(ACL_USER, other, uid),
			acl_entry(ACL_GROUP_OBJ, 0, (uint32_t)ACL_UNDEFINED_ID),
			acl_entry(ACL_MASK, other, (uint32_t)ACL_UNDEFINED_ID),
			acl_entry(ACL_OTHER, 0, (uint32_t)ACL_UNDEFINED_ID)}};
	return fsetxattr(fd, "system.posix_acl_access", &list, sizeof(list), 0) < 0 ? -errno : 0;
}
