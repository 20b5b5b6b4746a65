/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/answer.h"

#include "doors/kubelet/kubelet.h"
#include "wire/arena.h"

char *answer_text(struct arena *arena, const char *text)
{
	char *copy = arena_copy_valid(arena, text ? text : "");
	return copy ? copy : (char *)protobuf_c_empty_string;
}

void answer_warn(Sluice__V1__StatusReply *out, struct arena *arena, const char *text)
{
	if (!out->warnings)
		out->warnings = arena_alloc(arena, ANSWER_WARNINGS_MAX * sizeof(*out->warnings));
	if (out->warnings && out->n_warnings < ANSWER_WARNINGS_MAX)
		out->warnings[out->n_warnings++] = answer_text(arena, text);
}

Sluice__V1__KubeletResource *answer_resource(const struct kubelet_view *view, struct arena *arena)
{
	Sluice__V1__KubeletResource *resource = arena_alloc(arena, sizeof(*resource));
	if (!resource)
		return NULL;

	sluice__v1__kubelet_resource__init(resource);
	resource->name = answer_text(arena, view->name);
	resource->endpoint = answer_text(arena, view->endpoint);
	resource->state = answer_text(arena, kubelet_state_to_string(view->state));
	resource->problem = answer_text(arena, view->problem);
	resource->devices = view->devices;
	resource->healthy = view->healthy;
	resource->registrations = view->registrations;
	resource->allocations = view->counts.allocations;
	resource->refused = view->counts.refused;

	return resource;
}
