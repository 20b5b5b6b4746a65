/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/store/store.h"

#include <errno.h>
#include <sys/vfs.h>

#include "base/check.h"
#include "base/err.h"

/* f_type of what is on another machine, or behind a program: linux/magic.h where it is there. */
static const struct {
	uint32_t type;
	const char *name;
} store_places[] = {
    {0x6969, "NFS"},	   {0x517b, "SMB"},
    {0xff534d42, "CIFS"},  {0xfe534d42, "SMB"},
    {0x65735546, "FUSE"},  {0x01021997, "9p"},
    {0x00c36400, "Ceph"},  {0x5346414f, "AFS"},
    {0x6b414653, "AFS"},   {0x73757245, "Coda"},
    {0x564c, "NCP"},	   {0x0bd00bd0, "Lustre"},
    {0x47504653, "GPFS"},  {0x19830326, "BeeGFS"},
    {0xaad7aaea, "PanFS"}, {0x786f4256, "a VirtualBox shared folder"},
};

int store_check_place(const char *directory, uint32_t fs_type, struct err *err)
{
	if (fs_type == 0) {
		struct statfs about;
		if (statfs(directory, &about) < 0)
			return err_set(err, -errno, "cannot tell what file system '%s' is on: %s",
				       directory, err_describe(-errno));
		fs_type = (uint32_t)about.f_type;
	}

	for (size_t i = 0; i < array_length(store_places); i++)
		if (store_places[i].type == fs_type)
			return err_set(
			    err, -EMEDIUMTYPE,
			    "'%s' is on %s, whose locks and fsync cannot be relied on: the "
			    "state of the queue must lie on a disk of this machine "
			    "(--state-dir names another directory)",
			    directory, store_places[i].name);

	return 0;
}
