/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the readers of the configuration share: where they are and how they complain. Only config.c,
 * config_lists.c, config_jobs.c and rdma_config.c include this.
 */
#ifndef SLUICE_POLICY_READER_H
#define SLUICE_POLICY_READER_H

#include <stdbool.h>

#include "base/yaml.h"
#include "policy/config.h"

struct err;

enum reader_limits {
	READER_PATH_MAX = 192, /* "sharing.timeSlicing.resources[12].devices[3]" */
};

#define CONFIG_AS_ALL UINT32_MAX /* a limit of a group, until the whole file is read */

struct reader {
	const char *name; /* of the file */
	bool strict;
	struct config *config;
	struct err *err;
};

/* "NAME:LINE:COLUMN: PATH: TEXT"; returns `code`. */
int reader_error(const struct reader *reader, const struct yaml_node *at, int code,
		 const char *path, const char *format, ...) __attribute__((format(printf, 5, 6)));
/* The same as a warning of the configuration; -EINVAL when `strict`. */
int reader_warn(const struct reader *reader, const struct yaml_node *at, const char *path,
		const char *format, ...) __attribute__((format(printf, 4, 5)));
/* What somebody may want to know and nothing here minds: no error when `strict` either. */
void reader_note(const struct reader *reader, const struct yaml_node *at, const char *path,
		 const char *format, ...) __attribute__((format(printf, 4, 5)));
/* A key that means nothing here, with the nearest that would. Warns, or fails inside `sluice`. */
int reader_unknown(const struct reader *reader, const struct yaml_node *key, const char *parent,
		   const char *nearest);
/* -EINVAL: an entry of the map before number `index` has the same key, but for its case. */
int reader_same_key(const struct reader *reader, const struct yaml_node *map, size_t index,
		    const char *parent);
/* A DNS-1123 subdomain, as Kubernetes wants it in names of resources. */
bool reader_is_subdomain(const char *text);

/* What lists have in common. -EINVAL "expected EXPECTED, found ..."; */
int reader_wrong_kind(const struct reader *reader, const struct yaml_node *node, const char *path,
		      const char *expected);
/* that `node` is a list of reasonable length, null counting as an empty one; */
int reader_list(const struct reader *reader, const struct yaml_node *node, const char *path,
		const char *expected);
/* that an entry of it is a map, with no other keys than these. */
int reader_entry(const struct reader *reader, const struct yaml_node *entry, const char *path,
		 const char *const *known, size_t known_count);
/* "PATH[INDEX]". */
const char *reader_index(char out[READER_PATH_MAX], const char *path, size_t index);

/* Lists, by what stands at `path`. */
int reader_groups(const struct reader *reader, const struct yaml_node *node, const char *path,
		  struct config_jobs *out);
int reader_volumes(const struct reader *reader, const struct yaml_node *node, const char *path,
		   struct config_jobs *out);
int reader_rules(const struct reader *reader, const struct yaml_node *node, const char *path,
		 struct config_rules *out);
int reader_shares(const struct reader *reader, const struct yaml_node *node, const char *path,
		  struct config_sharing *out);
int reader_selectors(const struct reader *reader, const struct yaml_node *node, const char *path,
		     struct config_selectors *out);
int reader_door(const struct reader *reader, const struct yaml_node *node, const char *path,
		struct config_door *out);
int reader_rdma_list(const struct reader *reader, const struct yaml_node *node, const char *path,
		     struct rdma_config *out);
int reader_rdma_period(const struct reader *reader, const struct yaml_node *node, const char *path,
		       struct rdma_config *out);

/* A file of Mellanox's plugin: whether it is one; its text, for what a tree does not tell, -E2BIG;
 * what it says. */
bool reader_rdma_is_file(const struct yaml_node *root);
int reader_rdma_check_text(const struct reader *reader, const struct yaml_node *root,
			   const char *text, size_t length);
int reader_rdma_file(const struct reader *reader, const struct yaml_node *root,
		     struct rdma_config *out);

void reader_jobs_done(struct config_jobs *jobs);
void reader_selectors_done(struct config_selectors *selectors);
void reader_shares_done(struct config_sharing *sharing);

#endif
