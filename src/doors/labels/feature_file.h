/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The labels as a feature file of node feature discovery (NFD): lines of KEY=VALUE in a directory
 * that NFD looks through once a minute. Needs no rights in the cluster. Knows the file, nothing of
 * what the labels say.
 *
 * Facts:
 * https://kubernetes-sigs.github.io/node-feature-discovery/stable/usage/customization-guide.html
 * (section "Feature files", the source "local").
 */
#ifndef SLUICE_DOORS_LABELS_FEATURE_FILE_H
#define SLUICE_DOORS_LABELS_FEATURE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct err;
struct label_set;

enum feature_file_limits {
	FEATURE_FILE_MAX = 65536,      /* bytes; NFD ignores a file that is larger */
	FEATURE_FILE_EXPIRY_PARTS = 3, /* it is written again after a third of its time */
};

/*
 * The file's bytes into `out`, whose max is the cap. `expires_s` (seconds since 1970; 0: never) is
 * when NFD is to take the labels away if nobody writes the file again. -ENOSPC, -ENOMEM.
 */
int feature_file_text(const struct label_set *set, int64_t expires_s, struct buf *out,
		      struct err *err);

/* Whether the file has these bytes and may be read by all. */
bool feature_file_is(const char *path, const struct buf *text);
/* Replaces the file at once, mode 0644 whatever the umask: NFD skips the temporary, whose name
 * begins with a dot. Errors of file_write_atomic(). */
int feature_file_write(const char *path, const struct buf *text, struct err *err);

/* A file that is kept right: nothing is written while the labels and the file are as they were. */
struct feature_keep {
	struct buf plain;   /* the labels' lines, as they were last written */
	struct buf written; /* the file's bytes */
	int64_t refresh_s;  /* when its expiry is to be moved; 0: never */
};
void feature_keep_init(struct feature_keep *keep);
void feature_keep_done(struct feature_keep *keep);
/*
 * `plain`: feature_file_text() without an expiry. `expiry_s` 0: none. `now_s`: seconds since 1970.
 * Returns whether it was written; then it is to be called again within a third of the expiry.
 */
int feature_keep_put(struct feature_keep *keep, const char *path, const struct buf *plain,
		     int64_t expiry_s, int64_t now_s, struct err *err);

/* Takes the file away; 0 also when there is none. */
int feature_file_remove(const char *path, struct err *err);

#endif
