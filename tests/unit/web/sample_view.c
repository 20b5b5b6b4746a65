/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/web/sample_view.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "web/view.h"

static const struct clock real_clock = {.fake_ns = NULL};

#define SET(array, ...) ((void)snprintf((array), sizeof(array), __VA_ARGS__))

static void fill_gpu(struct view *view, uint32_t i, const struct sample_options *options)
{
	struct snapshot_gpu *gpu = &view->snapshot.gpu[i];
	struct view_gpu *about = &view->gpu[i];
	SET(gpu->uuid, "GPU-00000000-0000-0000-0000-%012u", i);
	SET(gpu->name, "NVIDIA A100-SXM4-80GB");
	SET(gpu->bus, "0000:%02x:00.0", 7 + i);
	gpu->index = gpu->minor = i;
	gpu->mig_count = options->migs < SNAPSHOT_MIG_MAX ? options->migs : SNAPSHOT_MIG_MAX;
	for (uint32_t k = 0; k < gpu->mig_count; k++) {
		struct snapshot_mig *mig = &gpu->mig[k];
		SET(mig->uuid, "MIG-00000000-0000-0000-%04u-%012u", k, i);
		SET(mig->profile, "1g.10gb");
		mig->gi = k + 7;
		mig->memory_total = UINT64_C(10) << 30;
		mig->memory_used = UINT64_C(1) << 30;
		mig->memory_free = UINT64_C(9) << 30;
		memset(mig->activity, 0xff, sizeof(mig->activity));
	}
	for (uint32_t value = 0; value < SNAPSHOT_VALUE_COUNT; value++)
		if (value < SNAPSHOT_ACTIVITY || value > SNAPSHOT_ACTIVITY_END)
			snapshot_put(gpu, value, 1);
	snapshot_put(gpu, SNAPSHOT_MEMORY_TOTAL, INT64_C(80) << 30);
	snapshot_put(gpu, SNAPSHOT_THROTTLE, 0x4);
	SET(about->serial, "16501234%05u", i);
	SET(about->vbios, "92.00.45.00.06");
	SET(about->architecture, "ampere");
	SET(about->mode, "%s", gpu->mig_count ? "mig" : "timeslice");
	SET(about->door, "kubelet");
	about->numa_node = (int32_t)(i / 4);
	about->health = VIEW_HEALTHY;
	about->energy_mj = about->busy_ns = 0;
}

static void fill_holders(struct view *view, const struct sample_options *options)
{
	view->holder_count = options->holders;
	for (uint32_t i = 0; i < options->holders; i++) {
		struct view_holder *holder = &view->holder[i];
		holder->gpu = i % view->snapshot.gpu_count;
		holder->mig = holder->slot = SNAPSHOT_U32_ABSENT;
		holder->mode = VIEW_TIMESLICE;
		holder->slot = i / view->snapshot.gpu_count;
		holder->allocated = true;
		SET(holder->name_space, "team-%u", i % 5);
		SET(holder->pod, "%s-%u", options->hostile ? options->hostile : "train", i);
		SET(holder->container, "main");
		SET(holder->resource, "nvidia.com/gpu.shared");
		holder->since_unix_ns = clock_unix_ns() - (int64_t)(i * CLOCK_NS_PER_S);
		holder->processes = 1;
		holder->has_busy = true;
		holder->memory_bytes = UINT64_C(512) << 20;
		holder->energy_mj = SNAPSHOT_U64_ABSENT;
	}
}

static void fill_lists(struct view *view, const struct sample_options *options)
{
	view->job_count = options->jobs;
	for (uint32_t i = 0; i < options->jobs; i++) {
		struct view_job *job = &view->job[i];
		job->id = i + 1;
		job->uid = 1000;
		SET(job->name, "%s-%u", options->hostile ? options->hostile : "mnist", i);
		SET(job->user, "%s", options->hostile ? options->hostile : "ada");
		SET(job->state, i == 0 ? "running" : "pending");
		SET(job->reason, i == 0 ? "" : "waits for 1 GPU");
		job->submitted_unix_ns = clock_unix_ns();
		job->gpus = 1;
	}
	view->jobs_pending = options->jobs > 0 ? options->jobs - 1 : 0;
	view->jobs_running = options->jobs > 0;
	view->process_count = options->processes;
	for (uint32_t i = 0; i < options->processes; i++) {
		struct view_process *process = &view->process[i];
		process->gpu = i % view->snapshot.gpu_count;
		process->mig = SNAPSHOT_U32_ABSENT;
		process->pid = 1000 + i;
		process->type = SNAPSHOT_PROCESS_COMPUTE;
		process->util_sm = 3;
		process->holder = i < options->holders ? i : SNAPSHOT_U32_ABSENT;
		process->memory_bytes = UINT64_C(512) << 20;
		SET(process->name, "%s", options->hostile ? options->hostile : "python3");
	}
	for (uint32_t i = 0; i < options->events; i++)
		sample_view_event(view, i % view->snapshot.gpu_count, 31);
}

void sample_view_event(struct view *view, uint32_t gpu, uint32_t xid)
{
	uint64_t id = 1;
	if (view->event_count > 0)
		id = view->event[view->event_count - 1].id + 1;
	if (view->event_count == VIEW_EVENT_MAX) {
		memmove(&view->event[0], &view->event[1],
			(VIEW_EVENT_MAX - 1) * sizeof(view->event[0]));
		view->event_count--;
	}
	struct view_event *event = &view->event[view->event_count++];
	memset(event, 0, sizeof(*event));
	event->id = id;
	event->unix_ns = clock_unix_ns();
	SET(event->kind, "xid");
	SET(event->source, "kmsg");
	event->health = VIEW_UNHEALTHY;
	event->xid = xid;
	if (gpu < view->snapshot.gpu_count)
		memcpy(event->uuid, view->snapshot.gpu[gpu].uuid, sizeof(event->uuid));
	SET(event->text, "XID %u", xid);
	SET(event->advice, "look at the job");
}

void sample_view_step(struct view *view, uint64_t step)
{
	view->snapshot.sequence = step;
	view->snapshot.taken_ns = view->node.sample_ns = clock_now_ns(&real_clock);
	view->snapshot.taken_unix_ns = view->node.sample_unix_ns = clock_unix_ns();
	for (uint32_t i = 0; i < view->snapshot.gpu_count; i++) {
		struct snapshot_gpu *gpu = &view->snapshot.gpu[i];
		int64_t wave = (int64_t)((step * (7 + i) + i * 13) % 101);
		snapshot_put(gpu, SNAPSHOT_UTIL_GPU, wave);
		snapshot_put(gpu, SNAPSHOT_UTIL_MEMORY, wave / 2);
		snapshot_put(gpu, SNAPSHOT_MEMORY_USED, wave << 29);
		snapshot_put(gpu, SNAPSHOT_MEMORY_FREE, (INT64_C(80) << 30) - (wave << 29));
		snapshot_put(gpu, SNAPSHOT_TEMPERATURE, 30 + wave / 3);
		snapshot_put(gpu, SNAPSHOT_TEMPERATURE_MEMORY, 33 + wave / 3);
		snapshot_put(gpu, SNAPSHOT_POWER, 60000 + wave * 3000);
		snapshot_put(gpu, SNAPSHOT_CLOCK_SM, 210 + wave * 12);
		snapshot_put(gpu, SNAPSHOT_PCIE_RX, wave * 1000000);
		for (int k = 0; k < SNAPSHOT_CLASS_COUNT; k++)
			gpu->sampled_ns[k] = view->node.sample_ns;
		view->gpu[i].busy_ns += (uint64_t)wave * 10000000;
		view->gpu[i].energy_mj += (uint64_t)(60000 + wave * 3000);
	}
	for (uint32_t i = 0; i < view->holder_count; i++)
		view->holder[i].busy_ns += i % 4 == 0 ? 20000000 : 0;
}

void sample_view_fill(struct view *view, const struct sample_options *options, uint64_t step)
{
	view_init(view);
	view->snapshot.gpu_count = options->gpus;
	view->snapshot.driver_ok = view->snapshot.simulated = view->node.simulated = 1;
	view->snapshot.cuda_version = 12040;
	SET(view->snapshot.driver_version, "550.54.15");
	SET(view->snapshot.nvml_version, "12.550.54.15");
	SET(view->node.host, "gpu7");
	SET(view->node.version, "0.1.0");
	SET(view->node.injection, "cdi");
	view->node.has_kubelet = view->node.has_queue = view->node.ready = true;
	view->node.started_unix_ns = clock_unix_ns();
	view->node.started_ns = clock_now_ns(&real_clock);
	view->node.boot_unix_s = 1700000000;
	for (uint32_t i = 0; i < options->gpus; i++)
		fill_gpu(view, i, options);
	if (options->gpus > 0) {
		fill_holders(view, options);
		fill_lists(view, options);
	}
	view->resource_count = view->adapter_count = 1;
	SET(view->resource[0].name, "nvidia.com/gpu.shared");
	view->resource[0].units = view->resource[0].healthy = UINT64_C(48) * options->gpus;
	view->resource[0].is_of_kubelet = view->resource[0].registered = true;
	SET(view->adapter[0].name, "mlx5_0");
	SET(view->adapter[0].layer, "InfiniBand");
	SET(view->adapter[0].state, "active");
	view->adapter[0].port = 1;
	view->adapter[0].health = VIEW_HEALTHY;
	view->adapter[0].rate_bits = UINT64_C(200000000000);
	sample_view_step(view, step);
}
