/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `sluice doctor --cluster` wants to know of the answers of an API server: a few facts of each
 * list, added to one JSON object. Hostile text costs bounded memory (object.h). Pure.
 *
 * The facts: "namespace", "daemonsets", "nodes", "operators", "scc", "tags"; each as its function
 * says.
 */
#ifndef SLUICE_LIBEXEC_CLUSTER_DIGEST_H
#define SLUICE_LIBEXEC_CLUSTER_DIGEST_H

#include <stdbool.h>
#include <stddef.h>

struct err;
struct json_t;

enum digest_limits {
	DIGEST_CONTINUE_MAX = 2048, /* where a list goes on */
	DIGEST_KEPT_MAX = 1024,	    /* nodes, or DaemonSets, that are kept */
	DIGEST_NAME_MAX = 254,
};

/* Which kinds of objects the server has. */
struct digest_groups {
	bool openshift, gpu_operator, network_operator, images;
};

/* All return 0, -EBADMSG (the error says what is wrong) or -ENOMEM. */

/* An APIGroupList. */
int digest_groups(const char *text, size_t length, struct digest_groups *out, struct err *err);
/* A Namespace: {"name", "enforce", "sync"}; null for labels that it does not have. */
int digest_namespace(const char *text, size_t length, struct json_t *facts, struct err *err);
/*
 * A DaemonSetList: of those that give out GPUs or RDMA adapters {"component", "namespace", "name",
 * "account", "desired", "ready", "owner"}. `out_continue`: "" when it was the last part.
 */
int digest_daemonsets(const char *text, size_t length, struct json_t *facts,
		      char out_continue[DIGEST_CONTINUE_MAX], struct err *err);
/* A NodeList: {"name", "ostree", "lacks": [{"resource", "capacity", "allocatable"}]} of those that
 * lack something or have an OSTREE_VERSION; "node_count" is of all. */
int digest_nodes(const char *text, size_t length, struct json_t *facts,
		 char out_continue[DIGEST_CONTINUE_MAX], struct err *err);
/* The EventList of an object: the newest message becomes "event" of `object`. */
int digest_events(const char *text, size_t length, struct json_t *object, struct err *err);
/* A ClusterPolicyList or NicClusterPolicyList: {"kind", "name", "on": [what it starts that competes
 * with sluice], "settings": what migrate.h of the doctor makes values of}. */
int digest_policies(const char *text, size_t length, const char *kind, struct json_t *facts,
		    struct err *err);
/* A SubjectAccessReview: {"allowed"}. */
int digest_review(const char *text, size_t length, struct json_t *facts, struct err *err);
/* An ImageStream: its tags. */
int digest_tags(const char *text, size_t length, struct json_t *facts, struct err *err);

#endif
