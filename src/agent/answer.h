/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces of the answer to Status that service and doors share. Without memory an answer has less in
 * it, and is sent all the same.
 */
#ifndef SLUICE_AGENT_ANSWER_H
#define SLUICE_AGENT_ANSWER_H

#include "sluice.pb-c.h"

struct arena;
struct kubelet_view;

enum { ANSWER_WARNINGS_MAX = 64 };

/* The arena's copy of a text, as valid UTF-8; "" of NULL, and without memory. Never NULL. */
char *answer_text(struct arena *arena, const char *text);
/* One more warning, up to ANSWER_WARNINGS_MAX. */
void answer_warn(Sluice__V1__StatusReply *out, struct arena *arena, const char *text);
/* How a resource of the kubelet's is. NULL: no memory. */
Sluice__V1__KubeletResource *answer_resource(const struct kubelet_view *view, struct arena *arena);

#endif
