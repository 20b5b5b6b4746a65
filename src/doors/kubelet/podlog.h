/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of containers and pods, from the names of the kubelet's log files: which container has
 * this id, which pod this UID. Nothing in the files is read. Both directories may be missing: the
 * kubelet calls the first one legacy, and neither is an interface that it promises.
 *
 * Sources: kubernetes 1.32, pkg/kubelet/kuberuntime/legacy.go (POD_NAMESPACE_CONTAINER-ID.log) and
 * helpers.go, BuildPodLogsDirectory() (NAMESPACE_POD_UID).
 */
#ifndef SLUICE_DOORS_KUBELET_PODLOG_H
#define SLUICE_DOORS_KUBELET_PODLOG_H

#include <stdbool.h>
#include <stddef.h>

struct err;
struct podlog;

#define PODLOG_CONTAINERS "/var/log/containers"
#define PODLOG_PODS	  "/var/log/pods"

enum podlog_limits {
	PODLOG_MAX = 16384,    /* names that are kept */
	PODLOG_NAME_MAX = 254, /* of a pod; a file's name has at most 255 bytes */
	PODLOG_LABEL_MAX = 64,
	PODLOG_ID_MAX = 65,
};

struct podlog_name {
	char pod[PODLOG_NAME_MAX];
	char name_space[PODLOG_LABEL_MAX];
	char container[PODLOG_LABEL_MAX]; /* "" for a pod's directory */
	char id[PODLOG_ID_MAX];		  /* of the container, or the pod's UID */
};

/* "train-0_ml_main-<64 digits>.log". -EINVAL. Pure. */
int podlog_parse_container(const char *text, size_t length, struct podlog_name *out);
/* "ml_train-0_<UID>": a UUID, or the 32 digits of a static pod. -EINVAL. Pure. */
int podlog_parse_pod(const char *text, size_t length, struct podlog_name *out);

/* Reads the names of both directories below `root`; files of other names are passed over. For any
 * thread. -ENOMEM; a directory that cannot be read is none. */
int podlog_read(const char *root, struct podlog **out, struct err *err);
struct podlog *podlog_free(struct podlog *log);

/* Texts are borrowed, as the entry is, until podlog_free(). */
struct podlog_entry {
	const char *id, *name_space, *pod, *container;
};
/* NULL: not known. So is any of an `log` that is NULL. */
const struct podlog_entry *podlog_find_container(const struct podlog *log, const char *id);
const struct podlog_entry *podlog_find_pod(const struct podlog *log, const char *uid);
/* Whether there is a log of this container, or a directory of its pod. */
bool podlog_has(const struct podlog *log, const char *name_space, const char *pod,
		const char *container);
/* Whether there was any directory: without one, that nothing is there says nothing. */
bool podlog_is_known(const struct podlog *log);
size_t podlog_count(const struct podlog *log);

#endif
