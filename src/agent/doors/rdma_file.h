/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which configuration of RDMA adapters counts: what stands below `sluice.rdma`, else the file of
 * Mellanox's plugin, read again whenever its content is another. One that is refused leaves the
 * one before in force. The file is read on the storage thread; the rest belongs to the loop's.
 */
#ifndef SLUICE_AGENT_DOORS_RDMA_FILE_H
#define SLUICE_AGENT_DOORS_RDMA_FILE_H

#include <stdbool.h>
#include <stdint.h>

struct err;
struct log;
struct loop;
struct node;
struct rdma_config;
struct rdma_file;
struct storage;

#define RDMA_FILE_LOOK_NS UINT64_C(30000000000) /* between looks at what inotify does not tell */

struct rdma_file_options {
	struct loop *loop;	 /* borrowed, all of these */
	struct storage *storage; /* ends before rdma_file_free() */
	struct log *log;	 /* may be NULL */
	const struct node *node;
	const char *root; /* before the default path */
	/* rdma_file_config() is another. Not from within rdma_file_new(). */
	void (*changed)(void *context);
	/* The file was refused, and why. */
	void (*refused)(const char *text, void *context);
	void *context;
};

/* Begins to read. -ENOMEM. */
int rdma_file_new(const struct rdma_file_options *options, struct rdma_file **out, struct err *err);
void rdma_file_stop(struct rdma_file *file);
/* After the storage thread has ended. NULL is fine; returns NULL. */
struct rdma_file *rdma_file_free(struct rdma_file *file);

/* The configuration of the node may be another; calls changed() if it is, with `is_asked` also if
 * the file's content is: then it is read again. */
void rdma_file_update(struct rdma_file *file, bool is_asked);
/* NULL: nothing is said of adapters. Borrowed until changed() or the node's next configuration. */
const struct rdma_config *rdma_file_config(const struct rdma_file *file);
/* Whether it is known yet what the file says. */
bool rdma_file_is_known(const struct rdma_file *file);
/* Why the file, or a newer one, was refused; "". Borrowed. */
const char *rdma_file_error(const struct rdma_file *file);

#endif
