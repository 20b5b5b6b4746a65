/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tree of yaml.h as YAML text again, in one way: what is written, read and written once more is
 * the same text. Comments, anchors and the layout of what was read are not kept.
 */
#ifndef SLUICE_BASE_YAML_WRITE_H
#define SLUICE_BASE_YAML_WRITE_H

struct buf;
struct err;
struct yaml_node;

enum yaml_write_limits {
	YAML_WRITE_DEPTH_MAX = 64, /* aliases can hang a deep value below another */
};

/* Appends one document without its "---". -E2BIG: deeper than that, or larger than `out` takes;
 * -ENOMEM. */
int yaml_write(const struct yaml_node *root, struct buf *out, struct err *err);

#endif
