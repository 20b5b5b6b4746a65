/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every field of the objects that a job file may hold, with what becomes of it here: the one place
 * where that is decided, and from which doc/job-files.md has its tables. Beside it the structs that
 * jobfile_schema.h fills from them. Private to job/file/, apart from the tables for the
 * documentation.
 */
#ifndef SLUICE_JOB_FILE_JOBFILE_FIELDS_H
#define SLUICE_JOB_FILE_JOBFILE_FIELDS_H

#include "job/file/jobfile_schema.h"

struct raw_metadata {
	const struct yaml_node *node, *name, *generate_name, *namespace, *labels, *annotations;
};
struct raw_field_ref {
	const struct yaml_node *node, *field_path;
};
struct raw_value_from {
	const struct yaml_node *node;
	struct raw_field_ref field_ref;
};
struct raw_variable {
	const struct yaml_node *node, *name, *value;
	struct raw_value_from from;
};
struct raw_resources {
	const struct yaml_node *node, *limits, *requests;
};
struct raw_mount {
	const struct yaml_node *node, *name, *path, *sub_path;
	struct objschema_bool read_only;
};
struct raw_capabilities {
	const struct yaml_node *node;
	struct objschema_list add;
};
struct raw_security { /* of a container, and without the last two of a pod */
	const struct yaml_node *node;
	struct objschema_int user, group;
	struct objschema_bool non_root, privileged;
	struct raw_capabilities capabilities;
};
struct raw_container {
	const struct yaml_node *node, *name, *image, *pull, *directory;
	struct objschema_list command, arguments, variables, mounts;
	struct raw_resources resources;
	struct raw_security security;
};
struct raw_empty_dir {
	const struct yaml_node *node, *medium, *size;
};
struct raw_host_path {
	const struct yaml_node *node, *path, *type;
};
struct raw_claim {
	const struct yaml_node *node, *name;
	struct objschema_bool read_only;
};
struct raw_volume {
	const struct yaml_node *node, *name, *other;
	struct raw_empty_dir empty_dir;
	struct raw_host_path host_path;
	struct raw_claim claim, config_map, secret;
};
struct raw_pod {
	const struct yaml_node *node, *restart_policy;
	struct objschema_list containers, volumes;
	struct objschema_int grace, deadline;
	struct objschema_bool host_pid;
	struct raw_security security;
};
struct raw_template {
	const struct yaml_node *node;
	struct raw_metadata metadata;
	struct raw_pod pod;
};
struct raw_job {
	const struct yaml_node *node, *completion_mode, *managed_by;
	struct objschema_int parallelism, completions, backoff_limit, deadline, ttl;
	struct objschema_bool suspend;
	struct raw_template template;
};
struct raw_replica {
	const struct yaml_node *node, *restart_policy;
	struct objschema_int replicas;
	struct raw_template template;
};
struct raw_replicas {
	const struct yaml_node *node;
	struct raw_replica launcher, worker;
};
struct raw_run_policy {
	const struct yaml_node *node, *managed_by;
	struct objschema_int backoff_limit, deadline, ttl;
	struct objschema_bool suspend;
};
struct raw_mpijob {
	const struct yaml_node *node, *implementation;
	struct objschema_int slots;
	struct objschema_bool launcher_is_worker;
	struct raw_replicas replicas;
	struct raw_run_policy policy;
};
/* A whole document; one of the three specs is filled, as its table says. */
struct raw_document {
	const struct yaml_node *node, *version, *kind;
	struct raw_metadata metadata;
	struct raw_job job;
	struct raw_pod pod;
	struct raw_mpijob mpijob;
};

extern const struct objschema_table fields_of_job;    /* struct raw_document */
extern const struct objschema_table fields_of_pod;    /* the same */
extern const struct objschema_table fields_of_mpijob; /* the same */

/* Annotations "sluice.dev/NAME". */
enum fields_annotation {
	FIELDS_ANNOTATION_PRIORITY,
	FIELDS_ANNOTATION_ISOLATION,
	FIELDS_ANNOTATION_PREFER,
	FIELDS_ANNOTATION_SHARE,
	FIELDS_ANNOTATION_RETRY_LOST,
	FIELDS_ANNOTATION_BEGIN,
	FIELDS_ANNOTATION_SIGNAL,
	FIELDS_ANNOTATION_GANG,
	FIELDS_ANNOTATION_IGNORED, /* those of the cluster */
};
struct fields_annotation_row {
	const char *name; /* without the domain; NULL: the end */
	enum fields_annotation which;
	const char *what;
};
extern const struct fields_annotation_row fields_annotations[];

#endif
