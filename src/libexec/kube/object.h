/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the API server sends about a node, out of its JSON: only what is needed of it. Hostile text
 * costs bounded memory and no recursion beyond OBJECT_DEPTH_MAX. Pure.
 * https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
 */
#ifndef SLUICE_LIBEXEC_KUBE_OBJECT_H
#define SLUICE_LIBEXEC_KUBE_OBJECT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct json_t;

enum object_limits {
	OBJECT_DEPTH_MAX = 64,	     /* a Node has 9 */
	OBJECT_VALUES_MAX = 1 << 17, /* of a text; a Node with 50 images has some 600 */
	OBJECT_VERSION_MAX = 64,
	OBJECT_LABEL_MAX = 256, /* Kubernetes permits 63 bytes */
	OBJECT_TEXT_MAX = 256,
	OBJECT_FOLLOWED = 5, /* labels beside the one that chooses a configuration */
	OBJECT_VALUE_MAX = 64,
};

/* What people and the GPU Operator say about this node by labels. In the order of
 * object_node.value. https://github.com/NVIDIA/gpu-operator/blob/main/controllers/state_manager.go,
 * https://github.com/NVIDIA/k8s-operator-libs/blob/main/pkg/upgrade/consts.go */
extern const char *const object_followed[OBJECT_FOLLOWED];

/* One Node. */
struct object_node {
	char version[OBJECT_VERSION_MAX]; /* metadata.resourceVersion */
	bool has_label;
	char label[OBJECT_LABEL_MAX];		       /* "" without one */
	char value[OBJECT_FOLLOWED][OBJECT_VALUE_MAX]; /* of object_followed; "": not set */
};

/* A Status: why something was refused. */
struct object_status {
	uint32_t code; /* 0: it has none */
	char message[OBJECT_TEXT_MAX];
};

enum object_type {
	OBJECT_ADDED,
	OBJECT_MODIFIED,
	OBJECT_DELETED,
	OBJECT_BOOKMARK,
	OBJECT_ERROR,
	OBJECT_OTHER, /* of a server that is newer than we */
};

struct object_event {
	enum object_type type;
	struct object_node node;     /* of all but OBJECT_ERROR and OBJECT_OTHER */
	struct object_status status; /* of OBJECT_ERROR */
};

struct object_list {
	char version[OBJECT_VERSION_MAX];
	bool found;
	struct object_node node; /* when found */
};

/* All return 0, -EBADMSG (the error says what is wrong with it) or -ENOMEM. */

/* Any object, within the limits above. Owned by the caller; NULL: -EBADMSG or -ENOMEM in `err`. */
json_t *object_load(const char *text, size_t length, struct err *err);

/* One line of a watch. `label`: the one that counts. */
int object_event_parse(const char *text, size_t length, const char *label, struct object_event *out,
		       struct err *err);
/* A NodeList; the node of this name in it. */
int object_list_parse(const char *text, size_t length, const char *name, const char *label,
		      struct object_list *out, struct err *err);
/* The body of an answer that is no success. */
int object_status_parse(const char *text, size_t length, struct object_status *out,
			struct err *err);

/* Any object, within the limits above. Owned. NULL: -EBADMSG or -ENOMEM in `err`. */
struct json_t *object_load(const char *text, size_t length, struct err *err);

#endif
