/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events about the own Node: which are to be told, and the requests that tell them. Equal ones
 * within ten minutes are one Event that is counted up, as the kubelet's are. Decides what is sent
 * and when; pure, as watch.h is.
 * https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/
 */
#ifndef SLUICE_LIBEXEC_KUBE_EVENTS_H
#define SLUICE_LIBEXEC_KUBE_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

struct kube_answer;
struct err;
struct events;

enum events_limits {
	EVENTS_MAX = 64, /* that are remembered, to be sent or to be counted up */
	EVENTS_REASON_MAX = 128,
	EVENTS_MESSAGE_MAX = 1024,
	EVENTS_PATH_MAX = 512,
};
#define EVENTS_SAME_NS	    UINT64_C(600000000000) /* so long equal ones are the same Event */
#define EVENTS_TIMEOUT_NS   UINT64_C(15000000000)  /* for a request */
#define EVENTS_FORBIDDEN_NS UINT64_C(600000000000) /* until it is tried again */

struct events_options {
	const char *node;				  /* borrowed */
	uint64_t seed, first_ns;			  /* as in watch.h */
	void (*problem)(const char *text, void *context); /* when it is another; "": none */
	void *context;
};

struct events_request {
	const char *method, *content_type;
	char path[EVENTS_PATH_MAX];
	char *body; /* given */
};

/* Owned. NULL: -ENOMEM. */
struct events *events_new(const struct events_options *options, struct err *err);
struct events *events_free(struct events *events);

/* Texts are copied, and cut at their limits. One for which there is no memory or no room is
 * dropped; the oldest that waits gives way. */
void events_add(struct events *events, bool warning, const char *reason, const char *message,
		uint64_t now_ns, int64_t unix_ns);

uint64_t events_due_ns(const struct events *events); /* UINT64_MAX: nothing is to be sent */
/* True: make this request; events_end() will follow. */
bool events_begin(struct events *events, uint64_t now_ns, struct events_request *out);
void events_end(struct events *events, const struct kube_answer *answer, uint64_t now_ns);

#endif
