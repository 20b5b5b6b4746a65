/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of keep.h share: keep.c decides and writes, keep_save.c has the side file. */
#ifndef SLUICE_DOORS_CDI_KEEP_INTERNAL_H
#define SLUICE_DOORS_CDI_KEEP_INTERNAL_H

#include "cdi/gather.h"
#include "doors/cdi/keep.h"

struct err;

struct keep {
	char root[FILE_PATH_MAX], directory[FILE_PATH_MAX], state_path[FILE_PATH_MAX];
	bool makes_nodes, is_pod;
	struct nodes_options nodes;
	int (*look)(void *context, const char *path, struct stat *out);
	int lock_fd;				     /* owned; -1: not held */
	char foreign[KEEP_KINDS_MAX][FILE_PATH_MAX]; /* of the last run: who provides kind i; "" */
};

/* Where the driver and its nodes are, without a slash at the end: "" for "/". */
struct keep_roots {
	char driver[FILE_PATH_MAX], dev[FILE_PATH_MAX];
	bool is_translated; /* the host has them elsewhere */
	char host_driver[FILE_PATH_MAX], host_dev[FILE_PATH_MAX];
};

/* One run. */
struct keep_pass {
	struct keep *keep;
	const struct keep_wish *wish;
	struct keep_report *out;
	struct err *err;
	int directory; /* owned */
	struct scan scan;
	struct keep_roots roots;
	struct gather gather;
	struct buf texts[KEEP_KINDS_MAX]; /* of the kinds that are ours to write */
};

/* -ENOENT: in a pod the host's driver is nowhere to be seen. */
int keep_find_roots(const struct keep *keep, const struct keep_wish *wish, struct keep_roots *out,
		    struct err *err);
/* A regular file of our user. */
bool keep_is_ours(int directory, const char *name, struct stat *status);
int keep_remove(struct keep_pass *pass, const char *name);
/* 1: it was written; 0: it is so already. */
int keep_write(struct keep_pass *pass, const char *path, const struct buf *text);

/* Makes the side file say what is there now. */
int keep_save(struct keep_pass *pass);
/* Removes what the side file says was written, and it. */
int keep_withdraw(struct keep_pass *pass);

#endif
