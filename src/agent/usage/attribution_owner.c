/* SPDX-License-Identifier: Apache-2.0 */
/* Devices by the names that others give them, and whose a process is. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/usage/attribution_internal.h"
#include "agent/doors/door_kubelet.h"
#include "agent/usage/holdings.h"
#include "agent/doors/leases.h"
#include "agent/usage/proctable.h"
#include "base/clock.h"
#include "doors/kubelet/deviceid.h"
#include "doors/kubelet/podlog.h"
#include "doors/kubelet/podresources.h"
#include "doors/queue/queue.h"
#include "units/ledger.h"

enum {
	ATTRIBUTION_OWNER_MAX = 512, /* "p:NAMESPACE/POD/CONTAINER" */
	ATTRIBUTION_LOOKS = 5,	     /* samples in which it is looked whose job a process is ... */
	ATTRIBUTION_LOOK_AGAIN = 30, /* ... and each so many after that */
};

/* --- devices -----------------------------------------------------------------------------------
 */

static bool place_of_uuid(const struct snapshot *snapshot, const char *uuid, struct place *out)
{
	for (uint32_t g = 0; g < snapshot->gpu_count; g++) {
		const struct snapshot_gpu *gpu = &snapshot->gpu[g];
		if (strcmp(gpu->uuid, uuid) == 0) {
			*out = (struct place){g, SNAPSHOT_U32_ABSENT, gpu->uuid};
			return true;
		}

		for (uint32_t m = 0; m < gpu->mig_count; m++)
			if (strcmp(gpu->mig[m].uuid, uuid) == 0) {
				*out = (struct place){g, m, gpu->mig[m].uuid};
				return true;
			}
	}

	return false;
}

/* The MIG device with these instances, or the GPU's when there is none. */
void attribution_place(const struct snapshot *snapshot, uint32_t g, uint32_t gi, uint32_t ci,
		       struct place *out)
{
	const struct snapshot_gpu *gpu = &snapshot->gpu[g];
	*out = (struct place){g, SNAPSHOT_U32_ABSENT, gpu->uuid};
	for (uint32_t m = 0; gi != SNAPSHOT_WHOLE_GPU && m < gpu->mig_count; m++)
		if (gpu->mig[m].gi == gi && (ci == SNAPSHOT_WHOLE_GPU || gpu->mig[m].ci == ci)) {
			*out = (struct place){g, m, gpu->mig[m].uuid};
			return;
		}
}

static bool place_of_id(const struct snapshot *snapshot, const struct deviceid *id,
			struct place *out)
{
	if (id->kind == DEVICEID_UUID)
		return place_of_uuid(snapshot, id->uuid, out);

	for (uint32_t g = 0; g < snapshot->gpu_count; g++) {
		const struct snapshot_gpu *gpu = &snapshot->gpu[g];
		if (id->kind == DEVICEID_MINOR ? gpu->minor != id->minor
					       : strcmp(gpu->uuid, id->uuid) != 0)
			continue;

		attribution_place(snapshot, g,
				  id->gi == DEVICEID_NONE ? SNAPSHOT_WHOLE_GPU : id->gi,
				  id->ci == DEVICEID_NONE ? SNAPSHOT_WHOLE_GPU : id->ci, out);
		return id->gi == DEVICEID_NONE || out->mig != SNAPSHOT_U32_ABSENT;
	}

	return false;
}

static void copy_text(char *out, size_t size, const char *text)
{
	(void)snprintf(out, size, "%s", text);
}
#define COPY(array, text) copy_text((array), sizeof(array), (text))

/* The mode is how the device is shared, for whoever has all of it too. */
static struct holding *attribution_touch(struct attribution *attribution, const struct view *view,
					 const char *owner, const struct place *place)
{
	struct holding *holding = holdings_touch(attribution->holdings, owner, place->uuid);
	if (!holding)
		return NULL;

	const char *mode = view->gpu[place->gpu].mode;

	holding->view.gpu = place->gpu;
	holding->view.mig = place->mig;
	holding->view.mode = place->mig != SNAPSHOT_U32_ABSENT ? VIEW_MIG
			     : strcmp(mode, "mps") == 0	       ? VIEW_MPS
			     : strcmp(mode, "timeslice") == 0  ? VIEW_TIMESLICE
							       : VIEW_EXCLUSIVE;

	return holding;
}

/* --- jobs --------------------------------------------------------------------------------------
 */

static void attribution_name_job(const struct job *job, struct view_holder *out)
{
	out->job = job->id;
	COPY(out->job_name, job->name);
	out->since_unix_ns = job->started_unix_ns;
}

/* In each round: a directory may tell the name long after the job has begun. */
static void attribution_name_user(const struct view *view, const struct job *job,
				  struct view_holder *out)
{
	for (uint32_t i = 0; i < view->job_count; i++)
		if (view->job[i].id == job->id)
			COPY(out->user, view->job[i].user);
	if (!out->user[0])
		(void)snprintf(out->user, sizeof(out->user), "uid %u", (unsigned)job->uid);
}

static struct holding *attribution_touch_job(struct attribution *attribution,
					     const struct view *view, const struct job *job,
					     const struct place *place)
{
	char owner[ATTRIBUTION_OWNER_MAX];
	(void)snprintf(owner, sizeof(owner), "j:%" PRIu64, job->id);

	struct holding *holding = attribution_touch(attribution, view, owner, place);
	if (!holding)
		return NULL;
	if (holding->view.job == 0)
		attribution_name_job(job, &holding->view);
	attribution_name_user(view, job, &holding->view);

	return holding;
}

static void attribution_grant(struct attribution *attribution, const struct view *view,
			      const struct job *job, const struct launch_grant *grant)
{
	struct place place;
	uint32_t held = 0;

	if (!place_of_uuid(&view->snapshot, grant->uuid, &place))
		return;

	struct holding *holding = attribution_touch_job(attribution, view, job, &place);
	if (!holding)
		return;

	for (uint32_t slot = 0; slot < grant->slot_count; slot++)
		held += launch_grant_has(grant, slot);

	if (held == grant->slot_count)
		holdings_give(holding, SNAPSHOT_U32_ABSENT);

	for (uint32_t slot = 0; held < grant->slot_count && slot < grant->slot_count; slot++)
		if (launch_grant_has(grant, slot))
			holdings_give(holding, slot);
}

static const struct queue *attribution_queue(const struct attribution *attribution)
{
	return attribution->options.queue ? *attribution->options.queue : NULL;
}

void attribution_add_jobs(struct attribution *attribution, const struct view *view)
{
	const struct queue *queue = attribution_queue(attribution);
	if (!queue)
		return;

	for (const struct job *job = queue_first(queue); job; job = queue_next(queue, job)) {
		struct queue_attempt attempt;

		if (job->state == JOB_PENDING)
			continue;

		queue_attempt_of(queue, job, &attempt);

		for (size_t i = 0; i < attempt.grant_count; i++)
			attribution_grant(attribution, view, job, &attempt.grants[i]);
	}
}

/* The job that the process' control group names, when it is one of this queue. */
static const struct job *attribution_job_of_group(const struct queue *queue,
						  const struct belonging *belonging)
{
	struct queue_attempt attempt;
	char name[LAUNCH_CGROUP_MAX];
	const struct job *job = belonging->job > 0 ? queue_find(queue, belonging->job) : NULL;
	if (!job)
		return NULL;

	queue_attempt_of(queue, job, &attempt);
	const char *slash = attempt.cgroup ? strrchr(attempt.cgroup, '/') : NULL;

	launch_cgroup_name(belonging->job, belonging->job_instance, name);
	return slash && strcmp(slash + 1, name) == 0 ? job : NULL;
}

/* Its group tells at once; ancestors and environment are looked at now and then, for at first
 * nobody may know the job's processes yet. */
static const struct job *attribution_job_of(const struct attribution *attribution,
					    struct proctable_entry *entry, uint32_t *looks)
{
	const struct queue *queue = attribution_queue(attribution);
	if (!queue || !queue_first(queue))
		return NULL;

	const struct job *job = attribution_job_of_group(queue, &entry->belonging);
	if (job)
		return job;
	if (entry->job > 0)
		return queue_find(queue, entry->job);

	/* Somebody else's container is no process of ours. */
	if (entry->belonging.container[0] || entry->belonging.pod[0] || *looks == 0)
		return NULL;
	if (entry->job_looks++ >= ATTRIBUTION_LOOKS &&
	    entry->job_looks % ATTRIBUTION_LOOK_AGAIN != 0)
		return NULL;

	--*looks;
	job = queue_job_of_process(queue, (pid_t)entry->pid);
	entry->job = job ? job->id : 0;

	return job;
}

/* --- pods --------------------------------------------------------------------------------------
 */

static const struct podresources *attribution_pods(const struct attribution *attribution)
{
	const struct door_kubelet *door = attribution->options.kubelet;
	return door ? door_kubelet_pods(door) : NULL;
}

/* Kubelets before 1.34 list pods that have ended, too. Those have no log any more, once they are
 * removed; where no logs are to be seen, the kubelet is believed. */
static bool attribution_is_live(const struct attribution *attribution,
				const struct podresources_holder *holder)
{
	const struct podlog *names = attribution->names;
	return !podlog_is_known(names) || podlog_count(names) == 0 ||
	       podlog_has(names, holder->name_space, holder->pod, holder->container);
}

static void pod_owner(char out[ATTRIBUTION_OWNER_MAX], const char *name_space, const char *pod,
		      const char *container)
{
	(void)snprintf(out, ATTRIBUTION_OWNER_MAX, "p:%s/%s/%s", name_space, pod, container);
}

static void attribution_name_pod(struct view_holder *out, const char *name_space, const char *pod,
				 const char *container)
{
	COPY(out->name_space, name_space);
	COPY(out->pod, pod);
	COPY(out->container, container);
}

void attribution_add_pods(struct attribution *attribution, const struct view *view)
{
	const struct podresources *pods = attribution_pods(attribution);
	const struct leases *leases = attribution->options.leases;

	for (size_t i = 0; pods && i < podresources_count(pods); i++) {
		const struct podresources_holder *at = podresources_at(pods, i);
		char owner[ATTRIBUTION_OWNER_MAX];
		struct deviceid id;
		struct place place;

		if (deviceid_parse(at->unit, strlen(at->unit), &id) < 0 ||
		    !place_of_id(&view->snapshot, &id, &place) ||
		    !attribution_is_live(attribution, at))
			continue;

		pod_owner(owner, at->name_space, at->pod, at->container);
		struct holding *holding = attribution_touch(attribution, view, owner, &place);
		if (!holding)
			continue;

		holdings_give(holding, id.slot == DEVICEID_NONE ? SNAPSHOT_U32_ABSENT : id.slot);
		if (id.slot != DEVICEID_NONE && holding->view.mode == VIEW_EXCLUSIVE)
			holding->view.mode = VIEW_TIMESLICE; /* by somebody else's plugin */
		attribution_name_pod(&holding->view, at->name_space, at->pod, at->container);
		COPY(holding->view.resource, at->resource);

		const struct ledger_lease *lease =
		    leases ? ledger_find(leases_ledger(leases), at->unit) : NULL;
		if (lease && strcmp(lease->resource, at->resource) == 0)
			holding->view.since_unix_ns = lease->since_unix_ns;
	}
}

/* The only container of a pod that was given the device; NULL: several, or none. */
static struct holding *attribution_only_of_pod(const struct attribution *attribution,
					       const struct podlog_entry *pod,
					       const struct place *place)
{
	struct holding *found = NULL, *at;

	for (size_t i = 0; (at = holdings_at(attribution->holdings, i)); i++) {
		if (!at->is_here || !at->view.allocated ||
		    strcmp(at->view.name_space, pod->name_space) != 0 ||
		    strcmp(at->view.pod, pod->pod) != 0 || strcmp(at->device, place->uuid) != 0)
			continue;

		if (found)
			return NULL;

		found = at;
	}

	return found;
}

/* --- whose a process is ------------------------------------------------------------------------
 */

/* When it was started, for people: the clock may have jumped since. */
static int64_t attribution_since(const struct proctable_entry *entry, int64_t now_unix_ns)
{
	long ticks = sysconf(_SC_CLK_TCK);
	if (ticks <= 0)
		return 0;

	uint64_t up_ns = clock_boot_ns();
	uint64_t start_ns = entry->start / (uint64_t)ticks * CLOCK_NS_PER_S +
			    entry->start % (uint64_t)ticks * CLOCK_NS_PER_S / (uint64_t)ticks;

	return now_unix_ns - (start_ns < up_ns ? (int64_t)(up_ns - start_ns) : 0);
}

/* What a container that the kubelet's logs do not know is called. */
static bool belonging_owner(const struct belonging *belonging, char out[ATTRIBUTION_OWNER_MAX])
{
	if (belonging->container[0])
		(void)snprintf(out, ATTRIBUTION_OWNER_MAX, "c:%s", belonging->container);
	else if (belonging->pod[0])
		(void)snprintf(out, ATTRIBUTION_OWNER_MAX, "u:%s", belonging->pod);
	else if (belonging->slurm_job > 0)
		(void)snprintf(out, ATTRIBUTION_OWNER_MAX, "s:%" PRIu64, belonging->slurm_job);
	else if (belonging->job > 0)
		(void)snprintf(out, ATTRIBUTION_OWNER_MAX, "o:%" PRIu64 "-%s", belonging->job,
			       belonging->job_instance);
	else
		return false;

	return true;
}

static void attribution_name_stranger(const struct proctable_entry *entry, int64_t now_unix_ns,
				      struct view_holder *out)
{
	const struct belonging *belonging = &entry->belonging;
	COPY(out->runtime, belonging->runtime);

	if (belonging->container[0] || belonging->pod[0])
		(void)snprintf(out->id, sizeof(out->id), "%.12s",
			       belonging->container[0] ? belonging->container : belonging->pod);
	else if (belonging->slurm_job > 0)
		(void)snprintf(out->id, sizeof(out->id), "%" PRIu64,
			       belonging->slurm_job % UINT64_C(1000000000000));
	else
		COPY(out->id, belonging->job_instance);

	/* Its first process; the same one does not look a little older each time. */
	int64_t since = attribution_since(entry, now_unix_ns);
	if (out->since_unix_ns == 0 || since < out->since_unix_ns - (int64_t)CLOCK_NS_PER_S)
		out->since_unix_ns = since;
}

/* A container of a pod whose name is known, given the device or not. */
static struct holding *attribution_touch_pod(struct attribution *attribution,
					     const struct view *view,
					     const struct podlog_entry *name,
					     const struct proctable_entry *entry,
					     const struct place *place)
{
	char owner[ATTRIBUTION_OWNER_MAX], stranger[ATTRIBUTION_OWNER_MAX];
	struct holding *holding =
	    name->container[0] ? NULL : attribution_only_of_pod(attribution, name, place);
	if (!holding) {
		pod_owner(owner, name->name_space, name->pod, name->container);
		holding = attribution_touch(attribution, view, owner, place);
	}

	if (!holding)
		return NULL;
	if (!holding->view.pod[0])
		attribution_name_pod(&holding->view, name->name_space, name->pod, name->container);
	COPY(holding->view.runtime, entry->belonging.runtime);

	if (belonging_owner(&entry->belonging, stranger))
		holdings_merge(attribution->holdings, stranger, holding);

	return holding;
}

struct holding *attribution_holder(struct attribution *attribution, const struct view *view,
				   struct proctable_entry *entry, const struct place *place,
				   uint32_t *looks)
{
	const struct belonging *belonging = &entry->belonging;
	const struct job *job = attribution_job_of(attribution, entry, looks);
	char owner[ATTRIBUTION_OWNER_MAX];

	if (job)
		return attribution_touch_job(attribution, view, job, place);

	const struct podlog_entry *name =
	    belonging->container[0]
		? podlog_find_container(attribution->names, belonging->container)
		: NULL;
	if (!name && belonging->pod[0])
		name = podlog_find_pod(attribution->names, belonging->pod);
	if (name)
		return attribution_touch_pod(attribution, view, name, entry, place);
	if (!belonging_owner(belonging, owner))
		return NULL;

	struct holding *holding = attribution_touch(attribution, view, owner, place);
	if (holding)
		attribution_name_stranger(entry, view->snapshot.taken_unix_ns, &holding->view);

	return holding;
}
