/* SPDX-License-Identifier: Apache-2.0 */
/* Who computes on which GPU, for those who watch the machine. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/doors/doors.h"
#include "agent/node.h"
#include "agent/service/service_internal.h"
#include "agent/users.h"
#include "agent/web/door_web.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "doors/queue/schedule/schedule.h"
#include "hardware/gpu.h"
#include "hardware/snapshot.h"
#include "web/view.h"
#include "wire/arena.h"

enum service_uses_limits {
	USES_COMM_MAX = 64,
};

/* A snapshot's processes, in their order, beside what the page was told of them: each has been
 * looked up in /proc for that, once for all who watch. */
struct service_uses {
	const struct service *service;
	const struct message_view *view;
	const struct view *page; /* NULL: there is none */
	uint32_t at;		 /* where the next one probably is in page->process */
};

/* The command's name, as the kernel has it: what top shows. */
static char *service_process_name(struct arena *arena, pid_t pid)
{
	char path[64];
	_cleanup_buf_ struct buf comm;

	buf_init(&comm, USES_COMM_MAX);
	(void)snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	if (file_read(path, &comm, NULL) < 0 || comm.length == 0)
		return answer_text(arena, "");

	comm.data[strcspn(comm.data, "\n")] = '\0';
	return answer_text(arena, comm.data);
}

static const char *service_device_of(const struct snapshot_gpu *gpu,
				     const struct snapshot_process *process)
{
	for (uint32_t i = 0; process->gi != SNAPSHOT_WHOLE_GPU && i < gpu->mig_count; i++) {
		if (gpu->mig[i].gi == process->gi && gpu->mig[i].ci == process->ci)
			return gpu->mig[i].uuid;
	}
	return gpu->uuid;
}

static bool service_is_seen(const struct view *page, uint32_t at, const struct snapshot_gpu *gpu,
			    uint32_t pid)
{
	const struct view_process *process = &page->process[at];
	return process->pid == pid && strcmp(page->snapshot.gpu[process->gpu].uuid, gpu->uuid) == 0;
}

/* What the page was told of it; NULL: nothing, or it could not be looked at. */
static const struct view_process *service_seen(struct service_uses *self,
					       const struct snapshot_gpu *gpu, uint32_t pid)
{
	uint32_t count = self->page ? self->page->process_count : 0;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t at = (self->at + i) % count;
		if (!service_is_seen(self->page, at, gpu, pid))
			continue;

		self->at = at + 1;
		const struct view_process *process = &self->page->process[at];
		return process->uid == SNAPSHOT_U32_ABSENT ? NULL : process;
	}

	return NULL;
}

static const char *service_holder_text(const struct view_holder *holder, struct arena *arena)
{
	if (holder->pod[0])
		return arena_printf(arena, "%s/%s/%s", holder->name_space, holder->pod,
				    holder->container);
	return arena_printf(arena, "%s%s%s", holder->runtime, holder->id[0] ? " " : "", holder->id);
}

static void service_use_of(const struct service_uses *self, const struct job *job,
			   const char *process_name, struct arena *arena, Sluice__V1__GpuUse *out)
{
	out->job = job ? job->id : 0;
	if (job)
		out->is_outside = false;
	bool is_own = job && message_view_owns(self->view, job->uid) && job->name[0];
	out->name = answer_text(arena, is_own ? job->name : process_name);
}

static void service_use_seen(const struct service_uses *self, const struct view_process *process,
			     struct arena *arena, Sluice__V1__GpuUse *out)
{
	const struct view *page = self->page;
	const struct view_holder *holder =
	    process->holder < page->holder_count ? &page->holder[process->holder] : NULL;
	const struct job *job =
	    holder && holder->job ? queue_find(self->service->options.queue, holder->job) : NULL;

	service_use_of(self, job, process->name, arena, out);
	out->uid = process->uid;
	out->user = answer_text(arena, process->user);
	if (holder && holder->allocated)
		out->is_outside = false;
	if (holder && !out->job)
		out->holder = (char *)service_holder_text(holder, arena);
}

/* Where there is no page, and of what came since it was told. */
static void service_use_look(const struct service_uses *self, uint32_t pid, struct arena *arena,
			     Sluice__V1__GpuUse *out)
{
	char path[64];
	struct stat info;
	(void)snprintf(path, sizeof(path), "/proc/%u", pid); /* fits */
	const struct job *job = queue_job_of_process(self->service->options.queue, (pid_t)pid);
	service_use_of(self, job, service_process_name(arena, (pid_t)pid), arena, out);

	bool is_there = stat(path, &info) == 0;

	out->uid = is_there ? (uint32_t)info.st_uid : job ? (uint32_t)job->uid : 0;
	if (is_there || job)
		out->user = answer_text(arena, users_name(self->service->users, out->uid));

	/* Of what the kubelet has given to pods nothing is known here. */
	if (!is_there ||
	    !schedule_machine_find(queue_machine(self->service->options.queue), out->uuid))
		out->is_outside = false;
}

/* "GPU 3", "MIG 3:1". */
static char *service_device_label(const struct service_uses *self, const struct snapshot_gpu *gpu,
				  const char *uuid, struct arena *arena)
{
	const struct inventory *inventory = node_inventory(self->service->options.node);
	const struct mig_device *mig =
	    strcmp(uuid, gpu->uuid) != 0 && inventory ? inventory_find_mig(inventory, uuid) : NULL;
	if (mig)
		return arena_printf(arena, "MIG %" PRIu32 ":%" PRIu32, gpu->index, mig->index);
	return arena_printf(arena, "GPU %" PRIu32, gpu->index);
}

static Sluice__V1__GpuUse *service_use(struct service_uses *self, const struct snapshot_gpu *gpu,
				       const struct snapshot_process *process, struct arena *arena)
{
	Sluice__V1__GpuUse *use = arena_alloc(arena, sizeof(*use));
	if (!use)
		return NULL;

	sluice__v1__gpu_use__init(use);
	use->uuid = answer_text(arena, service_device_of(gpu, process));
	use->pid = process->pid;
	use->memory_bytes =
	    process->memory_bytes == SNAPSHOT_U64_ABSENT ? 0 : process->memory_bytes;

	use->label = service_device_label(self, gpu, use->uuid, arena);
	if (!use->label)
		return NULL;

	use->is_outside = process->type & (SNAPSHOT_PROCESS_COMPUTE | SNAPSHOT_PROCESS_MPS);

	const struct view_process *seen = service_seen(self, gpu, process->pid);
	if (seen)
		service_use_seen(self, seen, arena, use);
	else
		service_use_look(self, process->pid, arena, use);

	return use;
}

int service_machine_uses(const struct service *service, const struct message_view *view,
			 const struct snapshot *snapshot, struct arena *arena,
			 Sluice__V1__Machine *out, struct err *err)
{
	struct service_uses self = {.service = service,
				    .view = view,
				    .page =
					door_web_view(doors_at(service->options.doors, DOOR_WEB))};
	size_t total = 0;
	for (uint32_t i = 0; i < snapshot->gpu_count; i++)
		total += snapshot->gpu[i].process_count;

	out->uses = arena_alloc(arena, (total + 1) * sizeof(*out->uses));
	for (uint32_t i = 0; out->uses && i < snapshot->gpu_count; i++) {
		const struct snapshot_gpu *gpu = &snapshot->gpu[i];
		for (uint32_t k = 0; k < gpu->process_count; k++) {
			out->uses[out->n_uses] = service_use(&self, gpu, &gpu->process[k], arena);
			if (!out->uses[out->n_uses])
				return err_set(err, -ENOMEM, "out of memory for the answer");
			out->n_uses++;
		}
	}

	return out->uses ? 0 : err_set(err, -ENOMEM, "out of memory for the answer");
}

int service_outside(const struct service *service, const struct message_view *view,
		    struct arena *arena, Sluice__V1__GpuUse ***out, size_t *out_count,
		    struct err *err)
{
	const struct snapshot *snapshot = node_snapshot(service->options.node);
	Sluice__V1__Machine all = SLUICE__V1__MACHINE__INIT;
	size_t count = 0;
	int rc = snapshot ? service_machine_uses(service, view, snapshot, arena, &all, err) : 0;
	if (rc < 0)
		return rc;

	for (size_t i = 0; i < all.n_uses && count < SERVICE_OUTSIDE_MAX; i++)
		if (all.uses[i]->is_outside)
			all.uses[count++] = all.uses[i];

	*out = all.uses;
	*out_count = count;
	return 0;
}
