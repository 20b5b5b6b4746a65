/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One package of a repository, as its file's name or an index says. Pure.
 * https://www.debian.org/doc/debian-policy/ch-controlfields.html#version
 * https://docs.fedoraproject.org/en-US/packaging-guidelines/Versioning/
 */
#ifndef SLUICE_LIBEXEC_PACKAGES_PACKAGE_H
#define SLUICE_LIBEXEC_PACKAGES_PACKAGE_H

#include <stdbool.h>
#include <stddef.h>

enum package_limits {
	PACKAGE_NAME_MAX = 128,
	PACKAGE_VERSION_MAX = 128,
	PACKAGE_ARCH_MAX = 32,
};

struct package {
	char name[PACKAGE_NAME_MAX];
	char version[PACKAGE_VERSION_MAX]; /* "5.14.0-427.el9", without an epoch; Debian's with */
	char arch[PACKAGE_ARCH_MAX];
};

/* Is told of each package, once; what it returns other than 0 ends the reading and is returned. */
typedef int (*package_sink)(const struct package *package, void *context);

/*
 * "kernel-devel-5.14.0-427.el9.x86_64.rpm" and "gcc_4%3a12.2.0-3_amd64.deb". -EINVAL: neither, a
 * source package, or a text longer than the limits.
 */
int package_from_file(const char *name, size_t length, struct package *out);

/* Whether its three texts are there and have letters, digits and ".+-_~:^%" only: they are printed
 * by lines and columns. */
bool package_is_valid(const struct package *package);

#endif
