/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our end of the socket pair with the agent: one message of proto/kube.proto per packet. What is
 * said is a state, not a history: while the agent does not listen only the last of it is kept.
 */
#ifndef SLUICE_LIBEXEC_KUBE_LINK_H
#define SLUICE_LIBEXEC_KUBE_LINK_H

#include <stdbool.h>
#include <stddef.h>

#include "libexec/kube/object.h"
#include "kube.pb-c.h"

struct err;
struct publish_state;

enum link_limits {
	LINK_PACKET_MAX = 64 << 10,
	LINK_TEXT_MAX = 512,
};

struct link {
	int fd; /* borrowed */
	bool label_is_set, has_problem;
	bool tells_label, tells_labels, tells_problem, tells_published; /* not said yet */
	Sluice__Kube__V1__Published published;
	char published_problem[LINK_TEXT_MAX];
	char label[LINK_TEXT_MAX], problem[LINK_TEXT_MAX];
	char labels[OBJECT_FOLLOWED][OBJECT_VALUE_MAX]; /* "": not set */
	void (*event)(bool warning, const char *reason, const char *message, void *context);
	/* May be NULL. The message is borrowed for the call. */
	void (*publish)(const Sluice__Kube__V1__Publish *wish, void *context);
	void *context;
};

void link_init(struct link *link, int fd,
	       void (*event)(bool warning, const char *reason, const char *message, void *context),
	       void *context);
/* Text is cut, and what is no UTF-8 in it replaced. Said now, or when the agent listens again. */
void link_label(struct link *link, bool is_set, const char *value);
/* Those of object_followed; "" is not set. */
void link_labels(struct link *link, const char *const *values);
/* The same again is not said again. */
void link_problem(struct link *link, const char *text);
void link_published(struct link *link, const struct publish_state *state);
/* What to wait for, of poll(2). */
short link_wants(const struct link *link);
/* After poll(2) has said `ready`. 1: go on; 0: the agent has ended; -errno: what it sends is wrong.
 */
int link_run(struct link *link, short ready, struct err *err);

#endif
