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

struct buf;
struct err;
struct label_set;

enum feature_file_limits {
	FEATURE_FILE_MAX = 65536, /* bytes; NFD ignores a file that is larger */
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
/* Takes the file away; 0 also when there is none. */
int feature_file_remove(const char *path, struct err *err);

#endif
