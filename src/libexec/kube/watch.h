/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The own Node, followed: a list for where to begin, then a watch from there, for as long as we
 * live. Decides what is asked next and when, and says what the label is and what is wrong. Pure:
 * bytes, answers and the time are given to it.
 * https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
 */
#ifndef SLUICE_LIBEXEC_KUBE_WATCH_H
#define SLUICE_LIBEXEC_KUBE_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kube_answer;
struct err;
struct kube_watch;

enum kube_watch_limits {
	WATCH_PATH_MAX = 1024,
	WATCH_SECONDS = 300, /* that the server is asked to keep a watch, and up to a half more */
	WATCH_LIST_MAX = 4 << 20, /* bytes of a list */
	WATCH_LINE_MAX = 4 << 20, /* bytes of an event */
	WATCH_NAME_MAX = 254,	  /* of a node or a label */
};
/* A watch from which nothing came for its own time and this is of a connection that is dead. */
#define WATCH_SLACK_NS	   UINT64_C(30000000000)
#define WATCH_SETTLED_NS   UINT64_C(2000000000)	  /* a watch that stands so long is well */
#define WATCH_RETRY_MAX_NS UINT64_C(300000000000) /* of a server's Retry-After */

struct watch_options {
	const char *node, *label; /* borrowed */
	uint64_t seed;		  /* of the back-off */
	uint64_t first_ns;	  /* of the back-off; 0: a second */
	uint64_t slack_ns;	  /* for a list, and above the time of a watch; 0: WATCH_SLACK_NS */
	uint32_t seconds;	  /* 0: WATCH_SECONDS */
	/* When it is first known, and when it is another. `value` is "" when it is not set. */
	void (*label_is)(bool is_set, const char *value, void *context);
	/* The same of the labels of object_followed (object.h), of all at once. May be NULL. */
	void (*labels_are)(const char *const *values, void *context);
	/* When it is first known, and when it is another; "": all is well. */
	void (*problem)(const char *text, void *context);
	void *context;
};

struct watch_request {
	char path[WATCH_PATH_MAX];
	uint64_t timeout_ns; /* for all of it */
};

/* Owned. NULL: -ENOMEM. */
struct kube_watch *watch_new(const struct watch_options *options, struct err *err);
struct kube_watch *watch_free(struct kube_watch *watch);

/* When watch_begin() or watch_look() has something to do. */
uint64_t watch_due_ns(const struct kube_watch *watch);
/* True: make this request; watch_end() will follow. False: nothing is due. */
bool watch_begin(struct kube_watch *watch, uint64_t now_ns, struct watch_request *out);
/* Bytes of its answer, which has status 200. Negative: end it. */
int watch_data(struct kube_watch *watch, const char *data, size_t length, uint64_t now_ns);
/* While it runs: `status` is what has come of it, 0 before. */
void watch_look(struct kube_watch *watch, uint32_t status, uint64_t now_ns);
void watch_end(struct kube_watch *watch, const struct kube_answer *answer, uint64_t now_ns);

/* "node-1.example.com": what Kubernetes takes for a name of a node. */
bool watch_name_is_valid(const char *name);

#endif
