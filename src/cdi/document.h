/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One CDI specification, read strictly: JSON or YAML, every field known, every value of the form
 * that the specification gives it, and no lower version declared than its content needs. Says with
 * line and column what is wrong. Pure; used for what others wrote and to check what we write.
 *
 * Facts: https://github.com/cncf-tags/container-device-interface: its
 * specification, and pkg/cdi.
 */
#ifndef SLUICE_CDI_DOCUMENT_H
#define SLUICE_CDI_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/yaml.h"

struct err;

enum document_limits {
	DOCUMENT_TEXT_MAX = 4 << 20, /* bytes */
	DOCUMENT_DEVICES_MAX = 4096,
	DOCUMENT_NAME_MAX = 256, /* of a kind or a device, with its NUL */
};

/* Valid until document_done(). */
struct document {
	struct yaml *yaml;		 /* owned */
	const char *version;		 /* as declared: "0.5.0" */
	const char *kind;		 /* "nvidia.com/gpu" */
	const struct yaml_node *edits;	 /* of all devices; NULL: none */
	const struct yaml_node *devices; /* a list of maps, each with "name" and "containerEdits" */
};

/* `name` is what errors call the text. -EINVAL: not a valid specification; -E2BIG, -ENOMEM. */
int document_parse(const char *text, size_t length, const char *name, struct document *out,
		   struct err *err);
void document_done(struct document *document);
#define _cleanup_document_ __attribute__((cleanup(document_done)))

/* The device of this name, or NULL. Borrowed. */
const struct yaml_node *document_find(const struct document *document, const char *device);

/* The place of a version in the order of all: 0 for "0.3.0"; a leading "v" is ignored. -EINVAL:
 * there is no such version. */
int document_version_rank(const char *version);

/* "nvidia.com/gpu": vendor and class of the form that CDI gives them. */
bool document_is_kind(const char *text);
/* The name of a device: "0", "GPU-...", "0:1". */
bool document_is_device(const char *text);

#endif
