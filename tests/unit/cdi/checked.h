/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A root directory with CDI files, driver files and nodes (FIFOs, which everybody may make), and
 * the check over it: what the tests of the check share.
 */
#ifndef TESTS_UNIT_DOORS_CDI_CHECKED_H
#define TESTS_UNIT_DOORS_CDI_CHECKED_H

#include "cdi/check.h"
#include "cdi/scan.h"

/* The head of a file of this kind; "nodes" and "mounts" are added by the test. */
#define CHECKED_HEAD(kind) "cdiVersion: 0.5.0\nkind: " kind "\ndevices:\n"
#define CHECKED_DEVICE(name, node)                                                                 \
	"- {name: '" name "', containerEdits: {deviceNodes: [{path: " node "}]}}\n"
#define CHECKED_MOUNT(from, to)                                                                    \
	"containerEdits: {mounts: [{hostPath: " from ", containerPath: " to "}]}\n"

struct checked {
	char *root; /* owned */
	struct cdi_check_options options;
	struct scan scan;
	struct cdi_check check;
};

int checked_setup(void **state);
int checked_teardown(void **state);

/* A file below the root, its directories too. */
void checked_write(const struct checked *checked, const char *path, const char *text);
/* A library of this name, the smallest there is. */
void checked_library(const struct checked *checked, const char *path, const char *soname);
/* A FIFO in place of a device node. */
void checked_node(const struct checked *checked, const char *path);
/* Checks all, or these names (NULL at the end); forgets what was found before. */
void checked_run(struct checked *checked, const char *const *names);
/* The finding; fails the test without it. Of several the first. */
const struct check_finding *checked_find(const struct checked *checked, enum check_id id);
/* Fails the test unless the text of the finding holds `text`. */
void checked_says(const struct checked *checked, enum check_id id, const char *text);
/* Fails the test unless that much was found, and this is the worst of it. */
void checked_expect(const struct checked *checked, uint32_t count, enum check_severity worst);

#endif
