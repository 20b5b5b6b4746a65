/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our end of the socket pair with the agent: one message of proto/kube.proto per packet. What is
 * said is a state, not a history: while the agent does not listen only the last of it is kept.
 */
#ifndef SLUICE_LIBEXEC_KUBE_LINK_H
#define SLUICE_LIBEXEC_KUBE_LINK_H

#include <stdbool.h>
#include <stddef.h>

struct err;

enum link_limits {
	LINK_PACKET_MAX = 64 << 10,
	LINK_TEXT_MAX = 512,
};

struct link {
	int fd; /* borrowed */
	bool label_is_set, has_problem;
	bool tells_label, tells_problem; /* not said yet */
	char label[LINK_TEXT_MAX], problem[LINK_TEXT_MAX];
	void (*event)(bool warning, const char *reason, const char *message, void *context);
	void *context;
};

void link_init(struct link *link, int fd,
	       void (*event)(bool warning, const char *reason, const char *message, void *context),
	       void *context);
/* Text is cut, and what is no UTF-8 in it replaced. Said now, or when the agent listens again. */
void link_label(struct link *link, bool is_set, const char *value);
/* The same again is not said again. */
void link_problem(struct link *link, const char *text);
/* What to wait for, of poll(2). */
short link_wants(const struct link *link);
/* After poll(2) has said `ready`. 1: go on; 0: the agent has ended; -errno: what it sends is wrong.
 */
int link_run(struct link *link, short ready, struct err *err);

#endif
