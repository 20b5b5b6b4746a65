/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether SELinux lets containers use the nodes of GPUs, by what the kernel and the policy's files
 * say. Reads through its caller, who knows below which root the machine lies, and links none of
 * SELinux's libraries. Called by the checks of doctor/ and by what switches CDI on in runtimes.
 *
 * Facts: selinux_config(5), semodule(8); the booleans of
 * https://github.com/containers/container-selinux (container.te), and of the reference policy's
 * module for containers, https://github.com/SELinuxProject/refpolicy
 * (policy/modules/services/container.te), which has none for devices.
 */
#ifndef SLUICE_HARDWARE_SELINUX_H
#define SLUICE_HARDWARE_SELINUX_H

struct buf;

#define SELINUX_ENFORCE "/sys/fs/selinux/enforce"
/* Where the package puts the module that permits the nodes of GPUs and adapters and no others. */
#define SELINUX_MODULE_FILE "/usr/share/sluice/selinux/sluice-gpu.cil"

/* How the machine's files are read; all borrowed. */
struct selinux_files {
	/* Appends the file. -ENOENT, -EACCES, ... */
	int (*read)(const void *context, const char *path, struct buf *out);
	/* 0: there is such a file or directory; -ENOENT, -EACCES, ... */
	int (*find)(const void *context, const char *path);
	const void *context;
};

enum selinux_state {
	SELINUX_STATE_ABSENT,
	SELINUX_STATE_PERMISSIVE,
	SELINUX_STATE_ALLOWED,	    /* enforcing; a boolean or our module permits the nodes */
	SELINUX_STATE_SWITCHED_OFF, /* enforcing; container_use_devices is there, and off */
	SELINUX_STATE_NO_RULE,	 /* enforcing; containers are confined, and no boolean is there */
	SELINUX_STATE_NO_POLICY, /* enforcing; the policy knows no containers */
};

/*
 * What holds now. On failure `out_path` is what could not be read (a literal): -EACCES, -EINVAL for
 * a file that says something else than the kernel does, ...
 */
int selinux_judge(const struct selinux_files *files, enum selinux_state *out,
		  const char **out_path);

#endif
