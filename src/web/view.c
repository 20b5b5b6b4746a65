/* SPDX-License-Identifier: Apache-2.0 */
#include "web/view.h"

#include <stddef.h>
#include <string.h>

#include "base/check.h"
#include "base/names.h"

enum { VIEW_COPY_TRIES = 16 };

const char *view_throttle_to_string(uint32_t reason)
{
	static const char *const names[] = {"power",	  "thermal",	"sync_boost",
					    "board",	  "low_util",	"reliability",
					    "sw_thermal", "hw_thermal", "hw_power_brake"};
	_Static_assert(array_length(names) == array_length(((struct view_gpu *)0)->throttle_ns),
		       "one name for each counter");
	return names_at(names, reason, "unknown");
}

void view_init(struct view *view)
{
	view->magic = VIEW_MAGIC;
	view->version = VIEW_VERSION;
	view->size = sizeof(*view);
	view->snapshot.magic = SNAPSHOT_MAGIC;
	view->snapshot.version = SNAPSHOT_VERSION;
	view->snapshot.size = sizeof(view->snapshot);
}

const char *view_ready_to_string(uint32_t what)
{
	static const char *const names[VIEW_READY_COUNT] = {
	    "driver", "toolkit", "plugin", "nvidia-peermem", "gdrcopy", "nvidia-fs", "mofed"};
	return names_at(names, what, "unknown");
}

/* --- checking --------------------------------------------------------------------------------- */

static bool text_is_ended(const char *text, size_t size)
{
	return memchr(text, '\0', size) != NULL;
}
#define TEXT_IS_ENDED(array) text_is_ended((array), sizeof(array))

static bool view_place_is_valid(const struct view *view, uint32_t gpu, uint32_t mig)
{
	return gpu < view->snapshot.gpu_count &&
	       (mig == SNAPSHOT_U32_ABSENT || mig < view->snapshot.gpu[gpu].mig_count);
}

static bool view_settings_are_valid(const struct view_settings *settings)
{
	if (settings->set > VIEW_SET_DCGM || settings->dcgm > VIEW_DCGM_OFF ||
	    settings->host_count > VIEW_HOST_MAX || !TEXT_IS_ENDED(settings->token))
		return false;
	for (uint32_t i = 0; i < settings->host_count; i++)
		if (!TEXT_IS_ENDED(settings->host[i]))
			return false;
	return true;
}

static bool view_node_is_valid(const struct view_node *node)
{
	return TEXT_IS_ENDED(node->host) && TEXT_IS_ENDED(node->version) &&
	       TEXT_IS_ENDED(node->problem) && TEXT_IS_ENDED(node->config_error) &&
	       TEXT_IS_ENDED(node->kubelet_error) && TEXT_IS_ENDED(node->injection);
}

static bool view_gpu_is_valid(const struct view_gpu *gpu)
{
	if (!TEXT_IS_ENDED(gpu->serial) || !TEXT_IS_ENDED(gpu->vbios) ||
	    !TEXT_IS_ENDED(gpu->architecture) || !TEXT_IS_ENDED(gpu->mode) ||
	    !TEXT_IS_ENDED(gpu->door) || !TEXT_IS_ENDED(gpu->claim) ||
	    gpu->health > VIEW_UNHEALTHY || gpu->reason_count > VIEW_REASON_MAX)
		return false;

	for (uint32_t i = 0; i < gpu->reason_count; i++) {
		const struct view_reason *reason = &gpu->reason[i];
		if (!TEXT_IS_ENDED(reason->cause) || !TEXT_IS_ENDED(reason->text) ||
		    !TEXT_IS_ENDED(reason->advice) || reason->health > VIEW_UNHEALTHY)
			return false;
	}

	return true;
}

static bool view_holder_is_valid(const struct view *view, const struct view_holder *holder)
{
	return view_place_is_valid(view, holder->gpu, holder->mig) && holder->mode <= VIEW_MIG &&
	       TEXT_IS_ENDED(holder->name_space) && TEXT_IS_ENDED(holder->pod) &&
	       TEXT_IS_ENDED(holder->container) && TEXT_IS_ENDED(holder->resource) &&
	       TEXT_IS_ENDED(holder->id) && TEXT_IS_ENDED(holder->runtime) &&
	       TEXT_IS_ENDED(holder->job_name) && TEXT_IS_ENDED(holder->user);
}

static bool view_process_is_valid(const struct view *view, const struct view_process *process)
{
	return view_place_is_valid(view, process->gpu, process->mig) &&
	       TEXT_IS_ENDED(process->name) && TEXT_IS_ENDED(process->user) &&
	       (process->holder == SNAPSHOT_U32_ABSENT || process->holder < view->holder_count);
}

static bool view_job_is_valid(const struct view_job *job)
{
	return TEXT_IS_ENDED(job->name) && TEXT_IS_ENDED(job->user) && TEXT_IS_ENDED(job->state) &&
	       TEXT_IS_ENDED(job->reason);
}

static bool view_event_is_valid(const struct view_event *event)
{
	return event->health <= VIEW_UNHEALTHY && TEXT_IS_ENDED(event->kind) &&
	       TEXT_IS_ENDED(event->source) && TEXT_IS_ENDED(event->uuid) &&
	       TEXT_IS_ENDED(event->text) && TEXT_IS_ENDED(event->advice);
}

static bool view_adapter_is_valid(const struct view_adapter *adapter)
{
	return adapter->health <= VIEW_UNHEALTHY && TEXT_IS_ENDED(adapter->name) &&
	       TEXT_IS_ENDED(adapter->net) && TEXT_IS_ENDED(adapter->resource) &&
	       TEXT_IS_ENDED(adapter->layer) && TEXT_IS_ENDED(adapter->state) &&
	       TEXT_IS_ENDED(adapter->reason);
}

static bool view_counts_are_valid(const struct view *view)
{
	return view->snapshot.gpu_count <= SNAPSHOT_GPU_MAX && view->xid_count <= VIEW_XID_MAX &&
	       view->holder_count <= VIEW_HOLDER_MAX && view->process_count <= VIEW_PROCESS_MAX &&
	       view->job_count <= VIEW_JOB_MAX && view->event_count <= VIEW_EVENT_MAX &&
	       view->adapter_count <= VIEW_ADAPTER_MAX && view->resource_count <= VIEW_RESOURCE_MAX;
}

static bool view_lists_are_valid(const struct view *view)
{
	for (uint32_t i = 0; i < view->snapshot.gpu_count; i++)
		if (!view_gpu_is_valid(&view->gpu[i]))
			return false;

	for (uint32_t i = 0; i < view->xid_count; i++)
		if (view->xid[i].gpu >= view->snapshot.gpu_count ||
		    !TEXT_IS_ENDED(view->xid[i].class_) || !TEXT_IS_ENDED(view->xid[i].text))
			return false;

	for (uint32_t i = 0; i < view->event_count; i++)
		if (!view_event_is_valid(&view->event[i]))
			return false;

	for (uint32_t i = 0; i < view->adapter_count; i++)
		if (!view_adapter_is_valid(&view->adapter[i]))
			return false;

	for (uint32_t i = 0; i < view->resource_count; i++)
		if (!TEXT_IS_ENDED(view->resource[i].name))
			return false;

	for (uint32_t i = 0; i < view->job_count; i++)
		if (!view_job_is_valid(&view->job[i]))
			return false;

	for (uint32_t i = 0; i < view->process_count; i++)
		if (!view_process_is_valid(view, &view->process[i]))
			return false;

	for (uint32_t i = 0; i < view->holder_count; i++)
		if (!view_holder_is_valid(view, &view->holder[i]))
			return false;

	return true;
}

static bool view_computes(const struct view_process *process)
{
	return process->type & (SNAPSHOT_PROCESS_COMPUTE | SNAPSHOT_PROCESS_MPS);
}

bool view_is_outside(const struct view *view, const struct view_process *process)
{
	return view_computes(process) &&
	       (process->holder == SNAPSHOT_U32_ABSENT || !view->holder[process->holder].allocated);
}

uint32_t view_strangers(const struct view *view, uint32_t gpu, uint32_t mig)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < view->process_count; i++) {
		const struct view_process *process = &view->process[i];
		count += process->gpu == gpu && view_computes(process) &&
			 process->holder == SNAPSHOT_U32_ABSENT &&
			 (mig == SNAPSHOT_U32_ABSENT || process->mig == mig);
	}

	return count;
}

bool view_is_valid(const struct view *view)
{
	return view->magic == VIEW_MAGIC && view->version == VIEW_VERSION &&
	       view->size == sizeof(*view) && view_counts_are_valid(view) &&
	       snapshot_is_valid(&view->snapshot, sizeof(view->snapshot)) &&
	       view_settings_are_valid(&view->settings) && view_node_is_valid(&view->node) &&
	       view_lists_are_valid(view);
}

/* --- sharing ---------------------------------------------------------------------------------- */

void view_begin(struct view_shared *shared)
{
	uint64_t sequence = atomic_load_explicit(&shared->sequence, memory_order_relaxed);
	atomic_store_explicit(&shared->sequence, sequence | 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
}

void view_end(struct view_shared *shared)
{
	uint64_t sequence = atomic_load_explicit(&shared->sequence, memory_order_relaxed);
	atomic_store_explicit(&shared->sequence, (sequence | 1) + 1, memory_order_release);
}

#define COPY_LIST(from, out, list, count)                                                          \
	memcpy((out)->list, (from)->list, (count) * sizeof(*(out)->list))

/* Pages of what is not used are not touched, on either side. */
static bool view_copy_used(const struct view *from, struct view *out)
{
	/* All counts are read once: the writer may change them under us. */
	memcpy(out, from, offsetof(struct view, snapshot));
	memcpy(&out->snapshot, &from->snapshot, offsetof(struct snapshot, gpu));
	memcpy(&out->xid_count, &from->xid_count,
	       offsetof(struct view, xid) - offsetof(struct view, xid_count));

	if (!view_counts_are_valid(out))
		return false;

	COPY_LIST(&from->snapshot, &out->snapshot, gpu, out->snapshot.gpu_count);
	COPY_LIST(from, out, gpu, out->snapshot.gpu_count);
	COPY_LIST(from, out, xid, out->xid_count);
	COPY_LIST(from, out, event, out->event_count);
	COPY_LIST(from, out, adapter, out->adapter_count);
	COPY_LIST(from, out, resource, out->resource_count);
	COPY_LIST(from, out, job, out->job_count);
	COPY_LIST(from, out, process, out->process_count);
	COPY_LIST(from, out, holder, out->holder_count);

	return true;
}

bool view_copy(const struct view_shared *shared, struct view *out, uint64_t *out_sequence)
{
	for (int i = 0; i < VIEW_COPY_TRIES; i++) {
		uint64_t before = atomic_load_explicit(&shared->sequence, memory_order_acquire);
		if (before % 2 != 0 || !view_copy_used(&shared->view, out))
			continue;

		atomic_thread_fence(memory_order_acquire);
		if (atomic_load_explicit(&shared->sequence, memory_order_relaxed) != before)
			continue;
		if (!view_is_valid(out))
			return false;

		*out_sequence = before;
		return true;
	}

	return false;
}
