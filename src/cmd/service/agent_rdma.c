/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/service/agent_rdma.h"

#include <inttypes.h>
#include <stdio.h>

#include "cmd/cmd.h"
#include "cmd/table.h"

static void print_line(const char *name, const char *text)
{
	printf("%-15s", name);
	cmd_print(stdout, text);
	putchar('\n');
}

void agent_rdma_print(const Sluice__V1__StatusReply *reply)
{
	const char *name = "RDMA";

	for (size_t i = 0; i < reply->n_rdma; i++, name = "") {
		const Sluice__V1__RdmaResource *resource = reply->rdma[i];

		printf("%-15s", name);
		cmd_print(stdout, resource->name);
		printf(": %" PRIu32 " units, %" PRIu32 " of %" PRIu32 " adapters healthy",
		       resource->units, resource->healthy, resource->adapters);

		if (resource->kubelet)
			printf(", %s, %" PRIu64 " allocations", resource->kubelet->state,
			       resource->kubelet->allocations);

		putchar('\n');
		if (resource->kubelet && *resource->kubelet->problem)
			print_line("", resource->kubelet->problem);
	}

	for (size_t i = 0; i < reply->n_rdma_notes; i++, name = "")
		print_line(name, reply->rdma_notes[i]);

	if (*reply->rdma_error)
		print_line(name, reply->rdma_error);
}

static json_t *text_or_null(const char *text)
{
	return text && *text ? table_json_text(text) : json_null();
}

static json_t *resource_json(const Sluice__V1__RdmaResource *resource)
{
	const Sluice__V1__KubeletResource *kubelet = resource->kubelet;
	json_t *told = kubelet ? json_pack("{s:o, s:o, s:o, s:I, s:I, s:I}", "endpoint",
					   table_json_text(kubelet->endpoint), "state",
					   table_json_text(kubelet->state), "problem",
					   text_or_null(kubelet->problem), "registrations",
					   (json_int_t)kubelet->registrations, "allocations",
					   (json_int_t)kubelet->allocations, "refused",
					   (json_int_t)kubelet->refused)
			       : json_null();

	return json_pack("{s:o, s:I, s:I, s:I, s:o, s:o}", "name", table_json_text(resource->name),
			 "units", (json_int_t)resource->units, "adapters",
			 (json_int_t)resource->adapters, "healthy", (json_int_t)resource->healthy,
			 "problem", text_or_null(resource->problem), "kubelet", told);
}

json_t *agent_rdma_json(const Sluice__V1__StatusReply *reply)
{
	json_t *resources = json_array(), *notes = json_array();
	for (size_t i = 0; i < reply->n_rdma; i++)
		(void)json_array_append_new(resources, resource_json(reply->rdma[i]));
	for (size_t i = 0; i < reply->n_rdma_notes; i++)
		(void)json_array_append_new(notes, table_json_text(reply->rdma_notes[i]));
	return json_pack("{s:o, s:o, s:o}", "resources", resources, "notes", notes, "error",
			 text_or_null(reply->rdma_error));
}
