/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The labels of the own Node, published through the API server: as a NodeFeature object that node
 * feature discovery (NFD) reads, or applied to the Node itself. Decides what is asked next and
 * when, says how far it is; pure, as watch.h is.
 *
 * A way that was used before ends only when the labels are on the node in the new one: NFD takes
 * labels away whose source is gone. What it takes for its own is first made ours, and the other
 * way round.
 */
#ifndef SLUICE_LIBEXEC_KUBE_PUBLISH_H
#define SLUICE_LIBEXEC_KUBE_PUBLISH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kube.pb-c.h"

struct kube_answer;
struct err;
struct publish;

enum publish_limits {
	PUBLISH_PATH_MAX = 1024,
	PUBLISH_ANSWER_MAX = 1 << 20, /* bytes of an object */
	PUBLISH_PAIRS_MAX = 2048,
};
#define PUBLISH_TIMEOUT_NS UINT64_C(30000000000) /* for a request */
#define PUBLISH_MINUTE_NS  UINT64_C(60000000000)

struct publish_state {
	Sluice__Kube__V1__Way way; /* that was chosen; NONE: not yet, or nothing is published */
	bool is_written, is_on_node, previous_ends;
	const char *problem; /* borrowed; "": none */
};

struct publish_options {
	const char *node;	 /* borrowed */
	const char *namespace_;	 /* where none is named; borrowed */
	uint64_t seed, first_ns; /* as in watch.h */
	/* For tests; 0: PUBLISH_MINUTE_NS. All waits but the back-off are made of it: a write each
	 * minute, two for the labels to arrive, ten between looks. */
	uint64_t minute_ns;
	void (*state)(const struct publish_state *state, void *context); /* when it is another */
	void *context;
};

struct publish_request {
	const char *method, *accept, *content_type;
	char path[PUBLISH_PATH_MAX];
	char *body; /* given; NULL: none */
};

/* Owned. NULL: -ENOMEM. */
struct publish *publish_new(const struct publish_options *options, struct err *err);
struct publish *publish_free(struct publish *publish);

/* What is to be from now on. The same again changes nothing. -EINVAL: no namespace has such a name,
 * or there are too many labels; -ENOMEM. Then what was stays. */
int publish_set(struct publish *publish, const Sluice__Kube__V1__Publish *wish, uint64_t now_ns,
		struct err *err);
/* The agent has ended: whether something is to be withdrawn, which then is all that is to do. */
bool publish_finish(struct publish *publish, uint64_t now_ns);
/* Nothing is to be done any more, after publish_finish(). */
bool publish_is_finished(const struct publish *publish);

uint64_t publish_due_ns(const struct publish *publish); /* UINT64_MAX: nothing is to be asked */
/* True: make this request; publish_end() will follow. */
bool publish_begin(struct publish *publish, uint64_t now_ns, struct publish_request *out);
/* Bytes of its answer, which has status 200. Negative: end it. */
int publish_data(struct publish *publish, const char *data, size_t length);
void publish_end(struct publish *publish, const struct kube_answer *answer, uint64_t now_ns);

#endif
