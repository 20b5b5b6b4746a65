/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/web/door_web_fill.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "agent/doors/door_kubelet.h"
#include "agent/doors/door_rdma.h"
#include "agent/doors/door_validations.h"
#include "agent/web/door_web_counters.h"
#include "agent/node.h"
#include "agent/doors/queue_pools.h"
#include "agent/reload.h"
#include "agent/users.h"
#include "agent/vitals.h"
#include "base/clock.h"
#include "doors/kubelet/injection.h"
#include "doors/kubelet/kubelet.h"
#include "doors/kubelet/podresources.h"
#include "doors/queue/claim/claims.h"
#include "doors/queue/queue.h"
#include "doors/queue/schedule/schedule.h"
#include "hardware/gpu.h"
#include "hardware/rdma.h"
#include "hardware/rdma_counters.h"
#include "policy/policy.h"
#include "policy/rdma.h"
#include "web/view.h"

_Static_assert((int)VIEW_UNKNOWN == (int)HEALTH_UNKNOWN &&
		   (int)VIEW_HEALTHY == (int)HEALTH_HEALTHY &&
		   (int)VIEW_DEGRADED == (int)HEALTH_DEGRADED &&
		   (int)VIEW_UNHEALTHY == (int)HEALTH_UNHEALTHY,
	       "the states of health are the view's");

static void fill_text(char *out, size_t size, const char *text)
{
	(void)snprintf(out, size, "%.*s", (int)size - 1, text ? text : "");
}
#define FILL_TEXT(array, text) fill_text((array), sizeof(array), (text))

/* --- the machine ------------------------------------------------------------------------------ */

static void fill_ready(const struct door_validations *validations, struct view_node *out)
{
	_Static_assert((int)READY_COUNT == (int)VIEW_READY_COUNT, "all of them");
	out->ready_known = out->ready_of = 0;
	for (uint32_t i = 0; i < READY_COUNT; i++) {
		enum ready_state state = door_validations_fact(validations, (enum ready_what)i);
		out->ready_known |= (uint32_t)(state != READY_UNKNOWN) << i;
		out->ready_of |= (uint32_t)(state == READY_YES) << i;
	}
}

void web_fill_node(const struct web_source *source, struct view *view)
{
	struct view_node *out = &view->node;
	const struct node *node = source->node;
	const struct inventory *inventory = node_inventory(node);
	const struct reload_state *state = reload_state(source->reload);
	const struct injection *injection =
	    source->kubelet ? door_kubelet_injection(source->kubelet) : NULL;
	const struct podresources *pods =
	    source->kubelet ? door_kubelet_pods(source->kubelet) : NULL;

	FILL_TEXT(out->problem, node_problem(node));
	FILL_TEXT(out->config_error, state->error);

	if (!*state->error && *state->missing)
		(void)snprintf(out->config_error, sizeof(out->config_error),
			       "specified config %.120s does not exist", state->missing);

	FILL_TEXT(out->kubelet_error, pods ? podresources_problem(pods) : "");
	FILL_TEXT(out->injection,
		  injection ? injection_way_to_string(injection_now(injection)) : "");
	out->simulated = inventory && inventory->simulated;
	out->has_kubelet = node_has_kubelet(node);
	out->has_queue = source->queue != NULL;
	out->ready = inventory && !*node_problem(node);
	fill_ready(source->validations, out);
}

/* --- GPUs ------------------------------------------------------------------------------------- */

/* What the inventory knows of a GPU of the snapshot; GPU_MAX: nothing. */
static uint32_t gpu_place(const struct inventory *inventory, const struct snapshot_gpu *gpu)
{
	for (uint32_t i = 0; inventory && i < inventory->gpu_count; i++) {
		const struct gpu *known = &inventory->gpus[i];
		char bus[PCI_TEXT_MAX] = "";

		if (gpu->uuid[0] && strcmp(known->uuid, gpu->uuid) == 0)
			return i;
		if (known->has_pci)
			(void)pci_address_to_string(&known->pci, bus);
		if (bus[0] && (!gpu->uuid[0] || !known->uuid[0]) && strcmp(bus, gpu->bus) == 0)
			return i;
	}

	return GPU_MAX;
}

static void gpu_identity(const struct gpu *known, struct view_gpu *out)
{
	FILL_TEXT(out->serial, known->serial);
	FILL_TEXT(out->vbios, known->vbios);
	FILL_TEXT(out->architecture, known->architecture == GPU_ARCH_UNKNOWN
					 ? ""
					 : gpu_architecture_to_string(known->architecture));
	out->numa_node = known->numa_node == GPU_NUMA_NONE ? -1 : known->numa_node;

	if (known->mig_current == GPU_MIG_ENABLED)
		FILL_TEXT(out->mode, "mig");
}

/* How each GPU is shared and by whom it is handed out: as its first unit is. */
static void gpu_sharing(const struct policy *policy, const uint32_t *places, uint32_t count,
			struct view_gpu *out)
{
	for (uint32_t r = 0; policy && r < policy->resource_count; r++) {
		const struct policy_resource *resource = &policy->resources[r];

		for (uint32_t u = resource->first; u < resource->first + resource->count; u++) {
			const struct policy_unit *unit = &policy->units[u];
			if (unit->replica > 0)
				continue;

			for (uint32_t i = 0; i < count; i++) {
				if (places[i] != unit->gpu || out[i].door[0])
					continue;

				FILL_TEXT(out[i].mode, unit->mig != POLICY_WHOLE_GPU ? "mig"
						       : unit->replicas > 1	     ? "timeslice"
										     : "exclusive");
				if (resource->door != POLICY_DOOR_NONE)
					FILL_TEXT(out[i].door,
						  policy_door_to_string(resource->door));
			}
		}
	}
}

static void gpu_verdict(const struct health_verdict *verdict, struct view_gpu *out)
{
	out->health = verdict->state;
	for (uint32_t i = 0; i < verdict->reason_count && i < VIEW_REASON_MAX; i++) {
		const struct health_reason *reason = &verdict->reason[i];
		struct view_reason *to = &out->reason[out->reason_count++];

		FILL_TEXT(to->cause, health_cause_to_string(reason->cause));
		FILL_TEXT(to->text, reason->text);
		FILL_TEXT(to->advice, reason->advice);
		to->health = reason->state;
		to->xid = reason->xid;
	}
}

static void gpu_verdicts(const struct vitals *vitals, struct view *view)
{
	struct vitals_view verdict;

	for (size_t i = 0; vitals_at(vitals, i, &verdict); i++) {
		for (uint32_t g = 0; verdict.here && g < view->snapshot.gpu_count; g++) {
			const struct snapshot_gpu *gpu = &view->snapshot.gpu[g];
			if (gpu->uuid[0] && verdict.uuid[0]
				? strcmp(gpu->uuid, verdict.uuid) == 0
				: verdict.bus[0] && strcmp(gpu->bus, verdict.bus) == 0)
				gpu_verdict(&verdict.verdict, &view->gpu[g]);
		}
	}
}

static void gpu_counters(const struct web_counters *counters, const struct snapshot_gpu *gpu,
			 struct view_gpu *out)
{
	struct web_counted counted;
	int64_t gen, width;

	web_counters_of(counters, gpu, &counted);
	out->busy_ns = counted.busy_ns;
	out->energy_mj = counted.energy_mj;
	out->energy_estimated = counted.energy_estimated;
	_Static_assert(sizeof(out->throttle_ns) == sizeof(counted.throttle_ns), "the same reasons");
	memcpy(out->throttle_ns, counted.throttle_ns, sizeof(out->throttle_ns));

	if (snapshot_get(gpu, SNAPSHOT_PCIE_GEN, &gen) && gen > 0 &&
	    snapshot_get(gpu, SNAPSHOT_PCIE_WIDTH, &width) && width > 0 && gen < 100 && width < 100)
		out->replay_limit_per_minute = health_replay_budget((uint32_t)gen, (uint32_t)width);
}

/* Without a driver: 0 GPUs, and why. */
static void fill_snapshot(const struct node *node, struct view *view)
{
	const struct snapshot *snapshot = node_snapshot(node);
	struct snapshot *out = &view->snapshot;

	if (snapshot) {
		memcpy(out, snapshot, offsetof(struct snapshot, gpu));
		memcpy(out->gpu, snapshot->gpu, snapshot->gpu_count * sizeof(*out->gpu));
	} else {
		memset(out, 0, offsetof(struct snapshot, gpu));
		out->magic = SNAPSHOT_MAGIC;
		out->version = SNAPSHOT_VERSION;
		FILL_TEXT(out->driver_text, node_problem(node));
	}

	out->size = sizeof(*out);
}

/* What the administrator has said of it, or of a MIG device of it. */
static void gpu_claim(const struct queue *queue, const struct snapshot_gpu *gpu,
		      struct view_gpu *out)
{
	const struct claims *claims = queue ? queue_claims(queue) : NULL;
	char text[CLAIM_TEXT_MAX];
	uint64_t parts = 0;

	if (!claims || claims->count == 0)
		return;

	for (uint32_t i = 0; i < gpu->mig_count; i++)
		parts |= claims_of_gpu(claims, gpu->mig[i].uuid);

	unsigned how =
	    claims_how(claims, claims_of_gpu(claims, gpu->uuid), parts, clock_unix_ns(), text);
	out->drained = how & CLAIMS_DRAINED;
	out->reserved = how & CLAIMS_RESERVED;
	FILL_TEXT(out->claim, text);
}

void web_fill_gpus(const struct web_source *source, struct view *view)
{
	const struct inventory *inventory = node_inventory(source->node);
	uint32_t places[SNAPSHOT_GPU_MAX];

	fill_snapshot(source->node, view);

	for (uint32_t i = 0; i < view->snapshot.gpu_count; i++) {
		const struct snapshot_gpu *gpu = &view->snapshot.gpu[i];
		struct view_gpu *out = &view->gpu[i];

		memset(out, 0, sizeof(*out));
		out->numa_node = -1;
		places[i] = gpu_place(inventory, gpu);
		if (places[i] < GPU_MAX)
			gpu_identity(&inventory->gpus[places[i]], out);
		gpu_counters(source->counters, gpu, out);
		gpu_claim(source->queue, gpu, out);
	}

	gpu_sharing(inventory ? node_policy(source->node) : NULL, places, view->snapshot.gpu_count,
		    view->gpu);
	gpu_verdicts(source->vitals, view);
}

void web_fill_users(const struct web_source *source, struct view *view)
{
	for (uint32_t i = 0; i < view->process_count; i++) {
		struct view_process *process = &view->process[i];
		if (process->uid != SNAPSHOT_U32_ABSENT)
			FILL_TEXT(process->user, users_name(source->users, process->uid));
		else
			process->user[0] = '\0';
	}
}

/* --- jobs ------------------------------------------------------------------------------------- */

static void fill_job(const struct web_source *source, const struct job *job, struct view *view)
{
	struct view_job *out = &view->job[view->job_count++];
	const char *reason = job_reason_to_string(job->reason);

	*out = (struct view_job){.id = job->id,
				 .uid = job->uid,
				 .submitted_unix_ns = job->submitted_unix_ns,
				 .started_unix_ns = job->started_unix_ns,
				 .gpus = job->gpus};
	FILL_TEXT(out->name, job->name);
	FILL_TEXT(out->user, users_name(source->users, job->uid));
	FILL_TEXT(out->state, job_state_to_string(job->state));

	if (job->reason_text && *job->reason_text)
		(void)snprintf(out->reason, sizeof(out->reason), "%s(%.200s)", reason,
			       job->reason_text);
	else
		FILL_TEXT(out->reason, reason);
}

void web_fill_jobs(const struct web_source *source, struct view *view)
{
	const struct queue *queue = source->queue;

	view->job_count = 0;
	view->jobs_pending = view->jobs_running = 0;
	if (!queue)
		return;

	view->jobs_pending = queue_count(queue, JOB_PENDING);
	view->jobs_running = queue_count(queue, JOB_STARTING) + queue_count(queue, JOB_RUNNING) +
			     queue_count(queue, JOB_STOPPING);
	view->jobs_ended = queue_ended(queue);

	/* Half of the room at most for those that wait, while others run. */
	uint64_t others =
	    view->jobs_running < VIEW_JOB_MAX / 2 ? view->jobs_running : VIEW_JOB_MAX / 2;

	for (int pending = 1; pending >= 0; pending--) {
		uint32_t room = VIEW_JOB_MAX - (uint32_t)(pending ? others : 0);
		for (const struct job *job = queue_first(queue); job && view->job_count < room;
		     job = queue_next(queue, job)) {
			if ((job->state == JOB_PENDING) == (pending == 1) &&
			    !job_state_is_final(job->state))
				fill_job(source, job, view);
		}
	}
}

/* --- adapters --------------------------------------------------------------------------------- */

static const char *layer_text(uint32_t layer)
{
	return layer == RDMA_LAYER_INFINIBAND ? "InfiniBand"
	       : layer == RDMA_LAYER_ETHERNET ? "Ethernet"
					      : "";
}

/* "4: ACTIVE" is "active". */
static void fill_state(const char *found, char *out, size_t size)
{
	const char *word = strchr(found, ' ');
	fill_text(out, size, word ? word + 1 : found);
	for (; *out; out++)
		*out = *out >= 'A' && *out <= 'Z' ? (char)(*out - 'A' + 'a') : *out;
}

/* The resource that offers the function, else the first that means it and why it does not. */
static void adapter_resource(const struct queue_pools_source *rdma, uint32_t function,
			     struct view_adapter *out)
{
	for (size_t r = 0; rdma->policy && r < rdma->policy->count; r++) {
		const struct rdma_resource *resource = &rdma->policy->resources[r];

		for (uint32_t c = 0; c < resource->candidate_count; c++) {
			const struct rdma_candidate *candidate = &resource->candidates[c];
			if (candidate->function != function ||
			    (out->resource[0] && candidate->reason_count > 0))
				continue;

			FILL_TEXT(out->resource, resource->name);
			out->health = candidate->reason_count > 0 ? VIEW_UNHEALTHY : VIEW_HEALTHY;
			out->reason[0] = '\0';

			if (candidate->reason_count > 0)
				rdma_policy_explain(resource, rdma->adapters, candidate,
						    out->reason, sizeof(out->reason));
		}
	}
}

static void fill_counters(const struct door_rdma *door, struct view_adapter *out)
{
	const struct rdma_counters *counters = door_rdma_counters(door, out->name, out->port);

	_Static_assert((int)RDMA_COUNTER_COUNT == (int)VIEW_COUNTER_MAX, "all of them");

	for (uint32_t i = 0; counters && i < RDMA_COUNTER_COUNT; i++) {
		if (counters->value[i] == RDMA_COUNTER_UNKNOWN)
			continue;
		out->counter[i] = counters->value[i];
		out->counters_known |= UINT32_C(1) << i;
	}
}

static void fill_port(const struct queue_pools_source *rdma, uint32_t function,
		      const struct rdma_device *device, const struct rdma_port *port,
		      struct view *view)
{
	const struct rdma_function *at = &rdma->adapters->function[function];

	if (view->adapter_count == VIEW_ADAPTER_MAX)
		return;

	struct view_adapter *out = &view->adapter[view->adapter_count++];
	bool is_up = port->state == RDMA_STATE_ACTIVE && port->phys_state == RDMA_PHYS_LINK_UP;

	*out = (struct view_adapter){.port = port->number, .health = VIEW_HEALTHY};
	FILL_TEXT(out->name, device->name);
	FILL_TEXT(out->net, at->interface_count > 0 ? at->interface[0].name : "");
	FILL_TEXT(out->layer, layer_text(port->link_layer));
	fill_state(port->state_text, out->state, sizeof(out->state));
	out->rate_bits =
	    port->rate_mbit == RDMA_UNKNOWN ? 0 : (uint64_t)port->rate_mbit * UINT64_C(1000000);
	adapter_resource(rdma, function, out);

	if (out->reason[0])
		return;

	if (!is_up) {
		out->health =
		    rdma->is_down && rdma->is_down[function] ? VIEW_UNHEALTHY : VIEW_DEGRADED;
		(void)snprintf(out->reason, sizeof(out->reason), "port %u is not up: %.48s, %.48s",
			       (unsigned)port->number, port->state_text, port->phys_text);
	}
}

void web_fill_adapters(const struct web_source *source, struct view *view)
{
	struct queue_pools_source rdma = {.adapters = NULL};

	view->adapter_count = 0;
	if (source->rdma)
		door_rdma_source(source->rdma, &rdma);

	for (uint32_t f = 0; rdma.adapters && f < rdma.adapters->function_count; f++) {
		const struct rdma_function *function = &rdma.adapters->function[f];
		for (uint32_t d = 0; d < function->device_count; d++) {
			const struct rdma_device *device =
			    &rdma.adapters->device[function->devices[d]];
			for (uint32_t p = 0; p < device->port_count; p++)
				fill_port(&rdma, f, device, &device->port[p], view);
		}
	}

	for (uint32_t i = 0; i < view->adapter_count; i++)
		fill_counters(source->rdma, &view->adapter[i]);
}

/* --- resources -------------------------------------------------------------------------------- */

static uint64_t count_held(const struct podresources *pods, const char *resource)
{
	uint64_t count = 0;
	const char *unit = "";

	for (size_t i = 0; pods && i < podresources_count(pods); i++) {
		const struct podresources_holder *holder = podresources_at(pods, i);
		/* Ordered by unit: the containers of one pod may hold the same. */
		if (strcmp(holder->resource, resource) == 0 && strcmp(holder->unit, unit) != 0)
			count++;
		unit = holder->unit;
	}

	return count;
}

static void fill_kubelet(const struct kubelet *kubelet, const struct podresources *pods,
			 struct view *view)
{
	struct kubelet_view from;

	for (size_t i = 0; kubelet && view->resource_count < VIEW_RESOURCE_MAX &&
			   kubelet_resource_at(kubelet, i, &from);
	     i++) {
		struct view_resource *out = &view->resource[view->resource_count++];
		*out = (struct view_resource){
		    .units = from.devices,
		    .healthy = from.healthy,
		    .allocated = count_held(pods, from.name),
		    .allocations = from.counts.allocations,
		    .refused = from.counts.refused,
		    .is_of_kubelet = true,
		    .registered = from.state >= KUBELET_REGISTERED,
		};
		FILL_TEXT(out->name, from.name);
	}
}

static void fill_queue(const struct queue *queue, struct view *view)
{
	const struct schedule_machine *machine = queue_machine(queue);
	struct view_resource *out = &view->resource[view->resource_count];

	if (!machine || machine->device_count == 0 || view->resource_count == VIEW_RESOURCE_MAX)
		return;

	*out = (struct view_resource){.is_of_kubelet = false};
	FILL_TEXT(out->name, "jobs");

	for (size_t i = 0; i < machine->device_count; i++) {
		const struct schedule_device *device = &machine->devices[i];
		out->units += device->slot_count;
		out->healthy += device->unit.healthy ? device->slot_count : 0;
		out->allocated += device->used_whole ? device->slot_count : device->used_count;
	}

	view->resource_count++;
}

void web_fill_resources(const struct web_source *source, struct view *view)
{
	const struct podresources *pods =
	    source->kubelet ? door_kubelet_pods(source->kubelet) : NULL;

	view->resource_count = 0;
	if (source->kubelet)
		fill_kubelet(door_kubelet_kubelet(source->kubelet), pods, view);
	if (source->rdma)
		fill_kubelet(door_rdma_kubelet(source->rdma), pods, view);
	if (source->queue)
		fill_queue(source->queue, view);
}
