/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/made_view.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "web/view.h"

/* The bytes, and when they are used up what follows from them. */
struct source {
	const uint8_t *data;
	size_t left;
	uint64_t state;
};

static uint8_t byte(struct source *source)
{
	if (source->left > 0) {
		source->left--;
		source->state = (source->state ^ *source->data) * UINT64_C(1099511628211);
		return *source->data++;
	}
	source->state = source->state * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (uint8_t)(source->state >> 56);
}

static uint64_t number(struct source *source)
{
	static const uint64_t special[] = {
	    0, 1, UINT64_MAX, UINT64_MAX - 1, INT64_MAX, UINT64_C(1) << 63, 100, 4294967295};
	uint8_t choice = byte(source);
	if (choice < 64)
		return special[choice % array_length(special)];
	uint64_t value = 0;
	for (uint8_t i = 0; i < 1 + choice % 8; i++)
		value = value << 8 | byte(source);
	return value;
}

static uint32_t below(struct source *source, uint32_t limit)
{
	return (uint32_t)(number(source) % limit);
}

static bool coin(struct source *source)
{
	return byte(source) & 1;
}

static void text(struct source *source, char *out, size_t size)
{
	/* Often short and alike, so that names meet. */
	size_t length = coin(source) ? byte(source) % 3 : byte(source);
	if (length >= size)
		length = size - 1;
	memset(out, 0, size);
	for (size_t i = 0; i < length; i++) {
		uint8_t c = byte(source);
		out[i] = (char)(c == 0	  ? '"'
				: c < 128 ? "ab\\\"\n{},=# \xc3\xa9\xff\xe2\x80"[c % 16]
					  : c);
	}
}
#define TEXT(source, array) text((source), (array), sizeof(array))

static void made_gpu(struct source *source, struct snapshot_gpu *gpu, struct view_gpu *more)
{
	TEXT(source, gpu->uuid);
	TEXT(source, gpu->name);
	TEXT(source, gpu->bus);
	gpu->sampled_ns[SNAPSHOT_FAST] = below(source, 2);
	gpu->index = below(source, 4);
	gpu->minor = (uint32_t)number(source);
	gpu->state = below(source, 5);
	for (uint32_t i = 0; i < SNAPSHOT_VALUE_COUNT; i++)
		if (coin(source))
			snapshot_put(gpu, i, (int64_t)number(source));
	gpu->mig_count = below(source, SNAPSHOT_MIG_MAX + 1);
	for (uint32_t i = 0; i < gpu->mig_count; i++) {
		struct snapshot_mig *mig = &gpu->mig[i];
		TEXT(source, mig->uuid);
		TEXT(source, mig->profile);
		mig->gi = below(source, 4);
		mig->ci = below(source, 2);
		mig->memory_total = number(source);
		mig->memory_used = number(source);
		mig->memory_free = number(source);
		for (uint32_t k = 0; k < SNAPSHOT_ACTIVITY_COUNT; k++)
			mig->activity[k] = (uint32_t)number(source);
	}
	TEXT(source, more->serial);
	TEXT(source, more->architecture);
	more->health = below(source, 4);
	more->reason_count = below(source, VIEW_REASON_MAX + 1);
	for (uint32_t i = 0; i < more->reason_count; i++) {
		TEXT(source, more->reason[i].cause);
		more->reason[i].health = below(source, 4);
		more->reason[i].xid = below(source, 3);
	}
	more->energy_estimated = coin(source);
	more->replay_limit_per_minute = (uint32_t)number(source);
	more->busy_ns = number(source);
	more->energy_mj = number(source);
	for (size_t i = 0; i < array_length(more->throttle_ns); i++)
		more->throttle_ns[i] = number(source);
}

static void made_holder(struct source *source, const struct view *view, struct view_holder *holder)
{
	holder->gpu = below(source, view->snapshot.gpu_count);
	uint32_t migs = view->snapshot.gpu[holder->gpu].mig_count;
	holder->mig = migs > 0 && coin(source) ? below(source, migs) : SNAPSHOT_U32_ABSENT;
	holder->mode = below(source, 4);
	holder->slot = (uint32_t)number(source);
	holder->slot_count = below(source, 3);
	holder->allocated = coin(source);
	TEXT(source, holder->name_space);
	TEXT(source, holder->pod);
	TEXT(source, holder->container);
	TEXT(source, holder->resource);
	TEXT(source, holder->id);
	TEXT(source, holder->runtime);
	TEXT(source, holder->user);
	holder->job = coin(source) ? 0 : number(source);
	holder->processes = (uint32_t)number(source);
	holder->has_busy = coin(source);
	holder->busy_ns = number(source);
	holder->memory_bytes = number(source);
	holder->energy_mj = number(source);
}

static void made_lists(struct source *source, struct view *view)
{
	bool gpus = view->snapshot.gpu_count > 0;
	view->xid_count = gpus ? below(source, 16) : 0;
	for (uint32_t i = 0; i < view->xid_count; i++) {
		struct view_xid *xid = &view->xid[i];
		xid->gpu = below(source, view->snapshot.gpu_count);
		xid->gi = (uint32_t)number(source);
		xid->ci = (uint32_t)number(source);
		xid->xid = below(source, 200);
		xid->count = number(source);
		xid->last_unix_ns = (int64_t)number(source);
		TEXT(source, xid->class_);
		TEXT(source, xid->text);
	}
	view->holder_count = gpus ? below(source, byte(source) % 8 ? 8 : VIEW_HOLDER_MAX + 1) : 0;
	for (uint32_t i = 0; i < view->holder_count; i++)
		made_holder(source, view, &view->holder[i]);
	view->process_count = view->holder_count > 0 ? below(source, 64) : 0;
	for (uint32_t i = 0; i < view->process_count; i++)
		view->process[i] = (struct view_process){
		    .mig = SNAPSHOT_U32_ABSENT,
		    .util_sm = (uint32_t)number(source),
		    .holder =
			coin(source) ? SNAPSHOT_U32_ABSENT : below(source, view->holder_count)};
	view->adapter_count = below(source, VIEW_ADAPTER_MAX + 1);
	for (uint32_t i = 0; i < view->adapter_count; i++) {
		struct view_adapter *port = &view->adapter[i];
		TEXT(source, port->name);
		TEXT(source, port->net);
		TEXT(source, port->layer);
		TEXT(source, port->state);
		port->port = below(source, 3);
		port->health = below(source, 4);
		port->rate_bits = number(source);
		port->counters_known = (uint32_t)number(source);
		for (uint32_t k = 0; k < VIEW_COUNTER_MAX; k++)
			port->counter[k] = number(source);
	}
	view->resource_count = below(source, VIEW_RESOURCE_MAX + 1);
	for (uint32_t i = 0; i < view->resource_count; i++) {
		TEXT(source, view->resource[i].name);
		view->resource[i].units = number(source);
		view->resource[i].registered = coin(source);
	}
}

static void made_begin(struct view *out)
{
	memset(out, 0, sizeof(*out));
	view_init(out);
}

void made_view(struct view *out, const uint8_t *data, size_t size)
{
	struct source source = {data, size, UINT64_C(14695981039346656037)};
	made_begin(out);
	out->settings.dcgm = below(&source, 3);
	out->settings.dcgm_split = coin(&source);
	out->settings.container_energy = coin(&source);
	TEXT(&source, out->node.host);
	TEXT(&source, out->node.version);
	TEXT(&source, out->node.config_error);
	out->node.has_kubelet = coin(&source);
	out->node.has_queue = coin(&source);
	out->node.started_unix_ns = (int64_t)number(&source);
	out->node.sample_ns = number(&source);
	out->node.sample_unix_ns = (int64_t)number(&source);
	out->node.holders_lost = number(&source);
	out->node.holders_dropped = number(&source);
	out->node.cpu_ns = number(&source);
	TEXT(&source, out->snapshot.driver_version);
	out->snapshot.cuda_version = (uint32_t)number(&source);
	out->snapshot.taken_ns = number(&source);
	out->snapshot.error_count = below(&source, SNAPSHOT_ERROR_MAX + 1);
	for (uint32_t i = 0; i < out->snapshot.error_count; i++) {
		TEXT(&source, out->snapshot.error[i].call);
		out->snapshot.error[i].code = (int32_t)number(&source);
		out->snapshot.error[i].count = number(&source);
	}
	out->snapshot.gpu_count = below(&source, byte(&source) % 8 ? 4 : SNAPSHOT_GPU_MAX + 1);
	for (uint32_t i = 0; i < out->snapshot.gpu_count; i++)
		made_gpu(&source, &out->snapshot.gpu[i], &out->gpu[i]);
	made_lists(&source, out);
}

/* --- everything known ------------------------------------------------------------------------- */

static void full_gpu(struct view *out, uint32_t place, uint32_t migs)
{
	struct snapshot_gpu *gpu = &out->snapshot.gpu[place];
	struct view_gpu *more = &out->gpu[place];
	(void)snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-5d6f5c1a-1f5a-4a5e-9d0c-%012u", place);
	(void)snprintf(gpu->name, sizeof(gpu->name), "NVIDIA H100 80GB HBM3");
	(void)snprintf(gpu->bus, sizeof(gpu->bus), "0000:%02x:00.0", 7 + 8 * place);
	gpu->index = gpu->minor = place;
	gpu->sampled_ns[SNAPSHOT_FAST] = 1; /* somebody has looked */
	for (uint32_t i = 0; i < SNAPSHOT_VALUE_COUNT; i++)
		snapshot_put(gpu, i, 1000 + 7 * i + place);
	snapshot_put(gpu, SNAPSHOT_UTIL_GPU, 83);
	snapshot_put(gpu, SNAPSHOT_MIG_MODE, migs > 0);
	snapshot_put(gpu, SNAPSHOT_MEMORY_TOTAL, INT64_C(81559) << 20);
	snapshot_put(gpu, SNAPSHOT_MEMORY_USED, (INT64_C(12345) << 20) + place);
	snapshot_put(gpu, SNAPSHOT_MEMORY_RESERVED, INT64_C(560) << 20);
	snapshot_put(gpu, SNAPSHOT_NVLINK_THERE, 0x3ffff);
	snapshot_put(gpu, SNAPSHOT_NVLINK_UP, 0x3ffff);
	gpu->mig_count = migs;
	for (uint32_t i = 0; i < migs; i++) {
		struct snapshot_mig *mig = &gpu->mig[i];
		(void)snprintf(mig->uuid, sizeof(mig->uuid), "MIG-5d6f5c1a-1f5a-4a5e-%04u-%012u", i,
			       place);
		(void)snprintf(mig->profile, sizeof(mig->profile), "1g.10gb");
		mig->gi = 7 + i;
		mig->memory_total = UINT64_C(9728) << 20;
		mig->memory_used = UINT64_C(12582912) * (i + 1);
		mig->memory_free = mig->memory_total - mig->memory_used;
		for (uint32_t k = 0; k < SNAPSHOT_ACTIVITY_COUNT; k++)
			mig->activity[k] = 123456 + k;
	}
	(void)snprintf(more->serial, sizeof(more->serial), "165002300%u", place);
	(void)snprintf(more->vbios, sizeof(more->vbios), "96.00.74.00.01");
	(void)snprintf(more->architecture, sizeof(more->architecture), "hopper");
	more->health = VIEW_DEGRADED;
	more->reason_count = 1;
	more->reason[0].health = VIEW_DEGRADED;
	(void)snprintf(more->reason[0].cause, sizeof(more->reason[0].cause), "remap_pending");
	more->replay_limit_per_minute = 31;
	more->busy_ns = UINT64_C(123456789012);
	more->energy_mj = UINT64_C(98765432109);
	for (size_t i = 0; i < array_length(more->throttle_ns); i++)
		more->throttle_ns[i] = UINT64_C(1234567890) * (i + 1);
}

static void full_holder(struct view *out, uint32_t place, uint32_t migs)
{
	struct view_holder *holder = &out->holder[place];
	*holder = (struct view_holder){.gpu = place % out->snapshot.gpu_count,
				       .mig = SNAPSHOT_U32_ABSENT,
				       .mode = VIEW_TIMESLICE,
				       .slot = place,
				       .slot_count = 1,
				       .allocated = true,
				       .processes = 2,
				       .has_busy = true,
				       .busy_ns = UINT64_C(3456789012) * (place + 1),
				       .memory_bytes = UINT64_C(1073741824) + place,
				       .energy_mj = 123456};
	if (out->snapshot.gpu[holder->gpu].mig_count > 0 && migs > 0) {
		holder->mig = place / out->snapshot.gpu_count % migs;
		holder->mode = VIEW_MIG;
		holder->slot = SNAPSHOT_U32_ABSENT;
		holder->slot_count = 0;
	}
	(void)snprintf(holder->name_space, sizeof(holder->name_space), "team-%u", place % 5);
	(void)snprintf(holder->pod, sizeof(holder->pod), "train-resnet-%u-7f8d4b9c6d-x9k2p", place);
	(void)snprintf(holder->container, sizeof(holder->container), "main");
	(void)snprintf(holder->resource, sizeof(holder->resource), "nvidia.com/gpu");
}

static void full_node(struct view *out)
{
	struct view_node *node = &out->node;
	(void)snprintf(node->host, sizeof(node->host), "dgx-1");
	(void)snprintf(node->version, sizeof(node->version), "0.1");
	node->simulated = node->ready = node->has_kubelet = node->has_queue = true;
	node->started_unix_ns = INT64_C(1700000000000000000);
	node->sample_ns = 1000000000;
	node->sample_unix_ns = INT64_C(1700000100123456789);
	node->cpu_ns = 1234567890;
	node->rss_bytes = 8 << 20;
	node->open_fds = 40;
	(void)snprintf(out->snapshot.driver_version, sizeof(out->snapshot.driver_version),
		       "550.54.15");
	out->snapshot.cuda_version = 12040;
	out->snapshot.driver_ok = out->snapshot.simulated = 1;
	out->snapshot.taken_ns = 1000000000;
	for (uint32_t i = 0; i < SNAPSHOT_CLASS_COUNT; i++)
		out->snapshot.round_ns[i] = 1234567 * (i + 1);
	out->snapshot.error_count = 1;
	out->snapshot.error[0].code = 999;
	out->snapshot.error[0].count = 3;
	(void)snprintf(out->snapshot.error[0].call, sizeof(out->snapshot.error[0].call),
		       "nvmlDeviceGetPowerUsage");
}

void made_view_full(struct view *out, uint32_t gpus, uint32_t migs, uint32_t holders)
{
	made_begin(out);
	full_node(out);
	out->settings.container_energy = true;
	out->snapshot.gpu_count = gpus;
	for (uint32_t i = 0; i < gpus; i++)
		full_gpu(out, i, migs > 0 ? migs : i + 1 == gpus && gpus > 1 ? 7 : 0);
	out->holder_count = holders;
	for (uint32_t i = 0; i < holders; i++)
		full_holder(out, i, migs);
	out->xid_count = out->adapter_count = out->resource_count = 1;
	out->xid[0] = (struct view_xid){.gi = SNAPSHOT_WHOLE_GPU,
					.ci = SNAPSHOT_WHOLE_GPU,
					.xid = 79,
					.class_ = "reboot",
					.text = "fallen off the bus",
					.count = 2,
					.last_unix_ns = INT64_C(1700000050000000000)};
	out->adapter[0] = (struct view_adapter){.name = "mlx5_0",
						.net = "ib0",
						.resource = "rdma/hca",
						.layer = "InfiniBand",
						.state = "4: ACTIVE",
						.port = 1,
						.health = VIEW_HEALTHY,
						.rate_bits = UINT64_C(200000000000),
						.counters_known = (1u << VIEW_COUNTER_MAX) - 1};
	out->resource[0] = (struct view_resource){.name = "nvidia.com/gpu",
						  .units = 64,
						  .healthy = 63,
						  .allocated = 12,
						  .allocations = 99,
						  .refused = 1,
						  .is_of_kubelet = true,
						  .registered = true};
	out->jobs_pending = 3;
	out->jobs_running = 1;
	out->jobs_ended = 17;
}
