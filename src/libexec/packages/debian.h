/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Debian package index, "Packages": paragraphs of "Field: value". Read as it arrives, in pieces
 * of any size; nothing of it is kept. Pure.
 * https://wiki.debian.org/DebianRepository/Format#A.22Packages.22_Indices
 */
#ifndef SLUICE_LIBEXEC_PACKAGES_DEBIAN_H
#define SLUICE_LIBEXEC_PACKAGES_DEBIAN_H

#include <stdbool.h>
#include <stddef.h>

#include "libexec/packages/package.h"

enum debian_limits {
	DEBIAN_LINE_MAX = 512, /* bytes that are looked at; a description may be longer */
};

struct debian {
	char line[DEBIAN_LINE_MAX];
	size_t length;
	bool is_cut; /* the line is longer than what was kept of it */
	bool has_fields;
	struct package package;
	package_sink sink;
	void *context; /* borrowed */
};

void debian_init(struct debian *debian, package_sink sink, void *context);
/* 0, -EBADMSG (this is no such index), or what the sink returned. Paragraphs without a name,
 * version or architecture are left out. */
int debian_feed(struct debian *debian, const char *data, size_t length);
int debian_end(struct debian *debian);

#endif
