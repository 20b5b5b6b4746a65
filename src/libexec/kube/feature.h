/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is asked of and told by the API server about labels, as JSON: the NodeFeature object of node
 * feature discovery (NFD), the labels of a Node applied by the server, and the marks by which NFD
 * and the server remember whose a label is. Pure.
 * https://kubernetes-sigs.github.io/node-feature-discovery/stable/usage/custom-resources.html
 * https://kubernetes.io/docs/reference/using-api/server-side-apply/
 */
#ifndef SLUICE_LIBEXEC_KUBE_FEATURE_H
#define SLUICE_LIBEXEC_KUBE_FEATURE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define FEATURE_GROUP	"/apis/nfd.k8s-sigs.io/v1alpha1"
#define FEATURE_MANAGER "sluice-agent"
/* By which nfd-master knows what it has put on a node, and so may take away. */
#define FEATURE_ANNOTATION "nfd.node.kubernetes.io/feature-labels"

struct feature_object {
	const char *node, *namespace_; /* borrowed */
	const json_t *labels;	       /* {key: value} */
	const json_t *owners;	       /* a list; NULL: not known, and what is there stays */
};

/* Whether the object that was read says just this. */
bool feature_is(const json_t *there, const struct feature_object *wish);
/* What to send for it; `there` NULL: it is to be created. Owned by the caller; NULL: no memory. */
char *feature_body(const json_t *there, const struct feature_object *wish);
/* The owners of what a Pod makes: itself, and its DaemonSet. Owned; NULL: it is no such Pod. */
json_t *feature_owners(const json_t *pod);

/* Labels, applied to a Node by the server. As feature_body(). */
char *feature_apply_body(const char *node, const json_t *labels);
/* Whether a Node has all of them, with these values. */
bool feature_on_node(const json_t *node, const json_t *labels);
/* Those of them that NFD takes for its own. Owned; NULL: no memory. */
json_t *feature_of_discovery(const json_t *node, const json_t *labels);
/* A merge patch by which NFD forgets them, at this version of the Node; NULL: no memory. */
char *feature_forget_body(const json_t *node, const json_t *labels);
/* A JSON patch by which the labels stay and are nobody's; NULL: they are not ours, or no memory. */
char *feature_release_body(const json_t *node);

#endif
