/* SPDX-License-Identifier: Apache-2.0 */
/* RDMA adapters in the answer to Status. */
#include "agent/doors/door_rdma.h"

#include <string.h>

#include "agent/answer.h"
#include "doors/kubelet/kubelet.h"
#include "wire/arena.h"

enum { RDMA_NOTES_MAX = 256 };

/* NULL: the kubelet is not told of it. */
static Sluice__V1__KubeletResource *door_rdma_told(const struct kubelet *kubelet, const char *name,
						   struct arena *arena)
{
	struct kubelet_view view;
	for (size_t i = 0; kubelet && kubelet_resource_at(kubelet, i, &view); i++) {
		if (strcmp(view.name, name) == 0)
			return answer_resource(&view, arena);
	}
	return NULL;
}

static void door_rdma_add(const struct door_rdma *door, struct arena *arena,
			  Sluice__V1__StatusReply *out)
{
	struct door_rdma_view view;
	size_t count = 0;
	while (door_rdma_resource_at(door, count, &view))
		count++;

	out->rdma = arena_alloc(arena, (count + 1) * sizeof(*out->rdma));
	for (size_t i = 0; out->rdma && i < count; i++) {
		Sluice__V1__RdmaResource *resource = arena_alloc(arena, sizeof(*resource));
		if (!resource || !door_rdma_resource_at(door, i, &view))
			return;

		sluice__v1__rdma_resource__init(resource);
		resource->name = answer_text(arena, view.name);
		resource->units = view.units;
		resource->adapters = view.adapters;
		resource->healthy = view.healthy;
		resource->problem = answer_text(arena, view.problem);
		resource->kubelet = door_rdma_told(door_rdma_kubelet(door), view.name, arena);
		out->rdma[out->n_rdma++] = resource;
	}
}

void door_rdma_status(const void *door, struct arena *arena, Sluice__V1__StatusReply *out)
{
	const char *note;

	out->rdma_error = answer_text(arena, door_rdma_error(door));
	door_rdma_add(door, arena, out);
	out->rdma_notes = arena_alloc(arena, RDMA_NOTES_MAX * sizeof(*out->rdma_notes));

	while (out->rdma_notes && out->n_rdma_notes < RDMA_NOTES_MAX &&
	       (note = door_rdma_note_at(door, out->n_rdma_notes)))
		out->rdma_notes[out->n_rdma_notes++] = answer_text(arena, note);
}
