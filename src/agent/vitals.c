/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/vitals.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/parse.h"
#include "base/storage.h"
#include "hardware/gpu.h"
#include "hardware/health_marks.h"
#include "hardware/kmsg.h"
#include "hardware/pci.h"
#include "policy/config.h"
#include "probe/client.h"

/* One GPU that is or was here. */
struct vitals_gpu {
	struct health_mark mark;
	bool here;
	uint32_t state; /* enum health_state of the last verdict */
};

/* Why the devices of one kind are not to be used. */
struct vitals_reasons {
	uint32_t count;
	const char **why;	       /* owned; each NULL or the text of the same place */
	char (*text)[HEALTH_TEXT_MAX]; /* owned */
};

struct vitals {
	struct vitals_options options;
	struct health_policy policy;
	int64_t unix_ahead_ns; /* wall clock less the loop's, when we began: times of tracks are
				  wall-clock times that nobody can set */
	char boot[HEALTH_MARKS_BOOT_MAX];
	uint64_t kmsg_sequence;
	char log_error[PROBE_EVENT_TEXT_MAX];
	size_t count;
	struct vitals_gpu *gpus[HEALTH_MARKS_GPU_MAX]; /* owned */
	uint64_t sampled_ns;			       /* of the snapshot that was taken in last */
	struct vitals_gpu **places;    /* owned: the GPU at each place of the last inventory; NULL
					  entries: no memory for it */
	const struct mig_device *migs; /* owned: those of the last inventory */
	struct vitals_reasons gpu, mig;
	uint64_t generation;

	bool is_dirty, is_saving, save_failed;
	struct buf saved; /* what the storage thread writes */
	struct err save_err;
	struct storage_job save;
	char path[FILE_PATH_MAX];
};

/* --- small things ---------------------------------------------------------------------------- */

static uint64_t vitals_time(const struct vitals *vitals, uint64_t monotonic_ns)
{
	int64_t time = (int64_t)monotonic_ns + vitals->unix_ahead_ns;
	return time > 0 ? (uint64_t)time : 1;
}

static uint64_t vitals_now(const struct vitals *vitals)
{
	return vitals_time(vitals, loop_now_ns(vitals->options.loop));
}

static void vitals_set_text(char *out, size_t size, const char *text)
{
	(void)snprintf(out, size, "%.*s", (int)size - 1, text);
}

/* One of which nothing is known but its index. */
static bool vitals_has_no_name(const struct vitals_gpu *gpu)
{
	return !gpu->mark.uuid[0] && !gpu->mark.bus[0];
}

/* By its UUID, else by its PCI address: events of the kernel log name only that, and a GPU that
 * does not answer may have no UUID. One that is here goes before one that was. Where nobody can
 * tell either, in a pod without the driver's /proc, by its index (GPU_U32_UNKNOWN: not by that). */
static struct vitals_gpu *vitals_find(const struct vitals *vitals, const char *uuid,
				      const char *bus, uint32_t index)
{
	struct vitals_gpu *found = NULL;
	bool by_index = !uuid[0] && !bus[0] && index != GPU_U32_UNKNOWN;

	for (size_t i = 0; i < vitals->count; i++) {
		struct vitals_gpu *gpu = vitals->gpus[i];
		if (uuid[0] && strcmp(gpu->mark.uuid, uuid) == 0)
			return gpu;
		if (by_index && vitals_has_no_name(gpu) && gpu->mark.index == index)
			return gpu;

		bool may_be = !uuid[0] || !gpu->mark.uuid[0];
		if (may_be && bus[0] && strcmp(gpu->mark.bus, bus) == 0 && (!found || gpu->here))
			found = gpu;
	}

	return found;
}

static void vitals_drop(struct vitals *vitals, size_t place)
{
	free(vitals->gpus[place]);
	vitals->count--;
	memmove(&vitals->gpus[place], &vitals->gpus[place + 1],
		(vitals->count - place) * sizeof(vitals->gpus[0]));
}

/* Makes room by forgetting one that is gone. False: all are here. */
static bool vitals_make_room(struct vitals *vitals)
{
	if (vitals->count < HEALTH_MARKS_GPU_MAX)
		return true;

	size_t place = 0;
	while (place < vitals->count && vitals->gpus[place]->here)
		place++;

	if (place == vitals->count)
		return false;

	vitals_drop(vitals, place);
	return true;
}

/* NULL: no memory, or too many. */
static struct vitals_gpu *vitals_add(struct vitals *vitals, const char *uuid, const char *bus)
{
	struct vitals_gpu *gpu = vitals_make_room(vitals) ? calloc(1, sizeof(*gpu)) : NULL;
	if (!gpu)
		return NULL;

	vitals_set_text(gpu->mark.uuid, sizeof(gpu->mark.uuid), uuid);
	vitals_set_text(gpu->mark.bus, sizeof(gpu->mark.bus), bus);
	gpu->mark.index = GPU_U32_UNKNOWN;
	vitals->gpus[vitals->count++] = gpu;

	return gpu;
}

/* --- the file -------------------------------------------------------------------------------- */

static int vitals_format(const struct vitals *vitals, struct buf *out)
{
	int rc = health_marks_begin(out, vitals->boot, vitals->kmsg_sequence);
	for (size_t i = 0; rc == 0 && i < vitals->count; i++) {
		const struct health_mark *mark = &vitals->gpus[i]->mark;
		if (mark->uuid[0] && !health_mark_is_empty(&mark->track))
			rc = health_marks_add(out, mark);
	}
	return rc == 0 ? health_marks_end(out) : rc;
}

static int vitals_save_work(void *context)
{
	struct vitals *vitals = context;
	return file_write_atomic(vitals->path, buf_text(&vitals->saved), vitals->saved.length, 0644,
				 &vitals->save_err);
}

static void vitals_save(struct vitals *vitals);

static void vitals_save_done(void *context, int rc)
{
	struct vitals *vitals = context;
	vitals->is_saving = false;
	if (rc < 0 && !vitals->save_failed)
		log_write(vitals->options.log, LOG_LEVEL_ERROR, NULL,
			  "what is held against the GPUs would not outlive the agent: %s",
			  vitals->save_err.text);

	vitals->save_failed = rc < 0;
	vitals_save(vitals);
}

/* Hands the present state to the storage thread; while that is at work, what comes is written
 * afterwards. */
static void vitals_save(struct vitals *vitals)
{
	if (!vitals->is_dirty || vitals->is_saving)
		return;

	buf_clear(&vitals->saved);
	vitals->save = (struct storage_job){
	    .work = vitals_save_work, .done = vitals_save_done, .context = vitals};

	/* No memory, no room: tried again with the next sample. */
	if (vitals_format(vitals, &vitals->saved) < 0 ||
	    storage_submit(vitals->options.storage, &vitals->save, NULL) < 0)
		return;

	vitals->is_dirty = false;
	vitals->is_saving = true;
}

static void vitals_set_aside(struct vitals *vitals, const char *why)
{
	char aside[FILE_PATH_MAX];
	bool moved = file_path(aside, NULL, "%s.damaged", vitals->path) == 0 &&
		     rename(vitals->path, aside) == 0;
	log_write(vitals->options.log, LOG_LEVEL_WARNING, NULL,
		  "what was held against the GPUs is lost: '%s' is damaged: %s%s%s", vitals->path,
		  why, moved ? "; it is now " : "", moved ? aside : "");
}

static int vitals_take_marks(struct vitals *vitals, const struct health_marks *marks,
			     struct err *err)
{
	bool other_boot =
	    marks->boot[0] && vitals->boot[0] && strcmp(marks->boot, vitals->boot) != 0;
	const uint64_t now_ns = vitals_now(vitals);

	vitals->kmsg_sequence = other_boot ? HEALTH_MARKS_NO_SEQUENCE : marks->kmsg_sequence;
	vitals->is_dirty = other_boot;
	for (uint32_t i = 0; i < marks->count; i++) {
		const struct health_mark *mark = &marks->marks[i];
		if (vitals_find(vitals, mark->uuid, "", GPU_U32_UNKNOWN))
			continue; /* twice */

		struct vitals_gpu *gpu = vitals_add(vitals, mark->uuid, mark->bus);
		if (!gpu)
			return err_set(err, -ENOMEM, "no memory for the health of the GPUs");

		gpu->mark = *mark;
		for (uint32_t e = 0; e < mark->track.event_count; e++) {
			/* The wall clock was set back since. */
			if (gpu->mark.track.event[e].time_ns > now_ns)
				gpu->mark.track.event[e].time_ns = now_ns;
		}

		if (other_boot)
			health_reboot(&gpu->mark.track, &vitals->policy, now_ns);
	}

	return 0;
}

static int vitals_load(struct vitals *vitals, struct err *err)
{
	struct err why = {0};
	_cleanup_buf_ struct buf text;
	_cleanup_health_marks_ struct health_marks marks = {.count = 0};

	buf_init(&text, HEALTH_MARKS_FILE_MAX);
	int rc = file_read(vitals->path, &text, &why);
	if (rc == -ENOENT)
		return 0;
	if (rc == 0)
		rc = health_marks_parse(buf_text(&text), text.length, &marks, &why);

	if (rc == -ENOMEM)
		return err_set(err, rc, "%s", why.text);
	if (rc == 0)
		return vitals_take_marks(vitals, &marks, err);

	vitals_set_aside(vitals, why.text);
	return 0;
}

/* --- verdicts -------------------------------------------------------------------------------- */

static void vitals_judge(struct vitals *vitals, struct vitals_gpu *gpu)
{
	struct health_verdict verdict;
	health_judge(&gpu->mark.track, &vitals->policy, vitals_now(vitals), false, &verdict);

	enum health_state before = gpu->state, after = verdict.state;
	const char *why = verdict.reason_count > 0 ? verdict.reason[0].text : "";

	gpu->state = after;
	if (before == after || (before == HEALTH_UNKNOWN && after == HEALTH_HEALTHY) ||
	    after == HEALTH_UNKNOWN || !vitals->options.changed)
		return;

	vitals->options.changed(gpu->mark.uuid, gpu->mark.index, before, after, why,
				vitals->options.context);
}

/* One device anew. */
static void vitals_reason(struct vitals *vitals, const struct vitals_gpu *gpu,
			  struct vitals_reasons *reasons, uint32_t place, uint32_t gi, uint32_t ci)
{
	struct health_verdict verdict = {.state = HEALTH_HEALTHY};
	char *text = reasons->text[place];

	/* Nothing is held against most of them, and then there is nothing to judge. */
	if (gpu && !health_mark_is_empty(&gpu->mark.track))
		health_judge_device(&gpu->mark.track, &vitals->policy, vitals_now(vitals), gi, ci,
				    &verdict);

	const char *why = verdict.state == HEALTH_UNHEALTHY ? verdict.reason[0].text : "";
	if (strcmp(text, why) == 0)
		return;

	vitals_set_text(text, HEALTH_TEXT_MAX, why);
	reasons->why[place] = text[0] ? text : NULL;
	vitals->generation++;
}

static void vitals_judge_devices(struct vitals *vitals)
{
	for (uint32_t i = 0; i < vitals->gpu.count; i++)
		vitals_reason(vitals, vitals->places[i], &vitals->gpu, i, SNAPSHOT_WHOLE_GPU,
			      SNAPSHOT_WHOLE_GPU);

	for (uint32_t i = 0; i < vitals->mig.count; i++) {
		const struct mig_device *mig = &vitals->migs[i];
		vitals_reason(vitals, vitals->places[mig->parent], &vitals->mig, i, mig->gi,
			      mig->ci);
	}
}

static void vitals_reasons_done(struct vitals_reasons *reasons)
{
	free(reasons->why);
	free(reasons->text);
	*reasons = (struct vitals_reasons){.count = 0};
}

static bool vitals_reasons_make(struct vitals_reasons *reasons, uint32_t count)
{
	reasons->why = calloc(count + 1, sizeof(*reasons->why));
	reasons->text = calloc(count + 1, sizeof(*reasons->text));
	reasons->count = reasons->why && reasons->text ? count : 0;
	return reasons->count == count;
}

static void vitals_forget_places(struct vitals *vitals)
{
	vitals_reasons_done(&vitals->gpu);
	vitals_reasons_done(&vitals->mig);
	free(vitals->places);
	free((void *)vitals->migs);
	vitals->places = NULL;
	vitals->migs = NULL;
}

static bool vitals_places_are(const struct vitals *vitals, const struct inventory *inventory)
{
	if (inventory->gpu_count != vitals->gpu.count || inventory->mig_count != vitals->mig.count)
		return false;
	return inventory->mig_count == 0 ||
	       memcmp(vitals->migs, inventory->migs,
		      inventory->mig_count * sizeof(*inventory->migs)) == 0;
}

/* The tables of reasons for this inventory. The texts stay while the devices do. */
static void vitals_make_places(struct vitals *vitals, const struct inventory *inventory)
{
	if (inventory && vitals->places && vitals_places_are(vitals, inventory))
		return;

	vitals_forget_places(vitals);
	vitals->generation++;
	if (!inventory)
		return;

	struct mig_device *migs = calloc(inventory->mig_count + 1, sizeof(*migs));
	vitals->migs = migs;
	vitals->places = calloc(inventory->gpu_count + 1, sizeof(*vitals->places));
	if (!migs || !vitals->places || !vitals_reasons_make(&vitals->gpu, inventory->gpu_count) ||
	    !vitals_reasons_make(&vitals->mig, inventory->mig_count)) {
		vitals_forget_places(vitals); /* made with the next sample */
		return;
	}

	if (inventory->mig_count > 0)
		memcpy(migs, inventory->migs, inventory->mig_count * sizeof(*migs));
}

/* --- what the probe says --------------------------------------------------------------------- */

/* The same error by the other way. Either may know more: the driver's event names the compute
 * instance, the log the process. The newest of the code is meant, or, where nobody has seen the two
 * together, one of the same time: the log's clock is not always the probe's. */
static bool vitals_refine(struct health_track *track, const struct health_event *event,
			  bool is_same)
{
	for (uint32_t i = track->event_count; i-- > 0;) {
		struct health_event *known = &track->event[i];
		bool fits = known->gi == SNAPSHOT_WHOLE_GPU || event->gi == SNAPSHOT_WHOLE_GPU ||
			    known->gi == event->gi;
		uint64_t apart = known->time_ns > event->time_ns ? known->time_ns - event->time_ns
								 : event->time_ns - known->time_ns;

		if (known->xid != event->xid || !fits || (!is_same && apart > KMSG_DUPLICATE_NS))
			continue;
		if (known->gi == SNAPSHOT_WHOLE_GPU)
			known->gi = event->gi;
		if (known->ci == SNAPSHOT_WHOLE_GPU)
			known->ci = event->ci;
		if (known->pid == SNAPSHOT_U32_ABSENT)
			known->pid = event->pid;

		return true;
	}

	return false;
}

static void vitals_take_xid(struct vitals *vitals, struct vitals_gpu *gpu,
			    const struct probe_event *event)
{
	struct health_track *track = &gpu->mark.track;
	uint64_t time_ns = event->time_ns ? event->time_ns : loop_now_ns(vitals->options.loop);
	const struct health_event xid = {
	    .time_ns = vitals_time(vitals, time_ns),
	    .xid = event->data <= UINT32_MAX ? (uint32_t)event->data : XID_UNKNOWN,
	    .gi = event->gi,
	    .ci = event->ci,
	    .pid = event->pid,
	    .has_severity = event->severity != 0,
	    .fatal = event->severity == 2,
	    .recovery_action = event->recovery_action,
	};
	bool is_same = event->kind == PROBE_EVENT_XID_AGAIN;
	bool may_be_known = event->history || is_same;

	if (!may_be_known || !vitals_refine(track, &xid, is_same))
		health_event(track, &xid, &vitals->policy);
	vitals->is_dirty = true;
}

/* Whether the kernel log's record was accounted for, perhaps by an agent before this one. */
static bool vitals_knows_record(struct vitals *vitals, const struct probe_event *event)
{
	if (event->kmsg_sequence == UINT64_MAX)
		return false;

	bool knows = vitals->kmsg_sequence != HEALTH_MARKS_NO_SEQUENCE &&
		     event->kmsg_sequence <= vitals->kmsg_sequence;
	if (!knows) {
		vitals->kmsg_sequence = event->kmsg_sequence;
		vitals->is_dirty = true;
	}

	return knows;
}

static void vitals_xid(struct vitals *vitals, const struct probe_event *event)
{
	if (vitals_knows_record(vitals, event))
		return;

	if (!event->uuid[0] && !event->bus[0]) {
		/* The next sample shows which GPU fails; nobody is suspected. */
		log_write(vitals->options.log, LOG_LEVEL_WARNING, NULL,
			  "XID %" PRIu64 " of a GPU that the driver does not name", event->data);
		return;
	}

	struct vitals_gpu *gpu = vitals_find(vitals, event->uuid, event->bus, GPU_U32_UNKNOWN);
	if (!gpu)
		gpu = vitals_add(vitals, event->uuid, event->bus);
	if (!gpu)
		return;

	vitals_take_xid(vitals, gpu, event);
	if (gpu->here)
		vitals_judge(vitals, gpu);
}

static void vitals_reset(struct vitals *vitals, const char *uuid)
{
	for (size_t i = 0; i < vitals->count; i++) {
		struct vitals_gpu *gpu = vitals->gpus[i];
		if (uuid[0] && strcmp(gpu->mark.uuid, uuid) != 0)
			continue;
		health_reset(&gpu->mark.track, &vitals->policy, vitals_now(vitals));
		vitals->is_dirty = true;
	}
}

void vitals_event(struct vitals *vitals, const struct probe_event *event)
{
	switch (event->kind) {
	case PROBE_EVENT_XID:
	case PROBE_EVENT_XID_AGAIN:
		vitals_xid(vitals, event);
		break;
	case PROBE_EVENT_GPU_RESET:
		vitals_reset(vitals, event->uuid);
		break;
	case PROBE_EVENT_DRIVER_RESTART:
		vitals_reset(vitals, "");
		break;
	case PROBE_EVENT_NO_LOG:
		vitals_set_text(vitals->log_error, sizeof(vitals->log_error), event->text);
		break;
	default:
		break; /* shows in the next sample */
	}
}

/* An event of the kernel log may have named the GPU by its address before it was known, or only its
 * index was known. */
static void vitals_adopt(struct vitals *vitals, struct vitals_gpu *gpu)
{
	for (size_t i = 0; i < vitals->count; i++) {
		struct vitals_gpu *nameless = vitals->gpus[i];
		if (nameless == gpu || nameless->mark.uuid[0])
			continue;
		if (vitals_has_no_name(nameless) ? nameless->mark.index != gpu->mark.index
						 : strcmp(nameless->mark.bus, gpu->mark.bus) != 0)
			continue;

		for (uint32_t e = 0; e < nameless->mark.track.event_count; e++) {
			const struct health_event *event = &nameless->mark.track.event[e];
			if (!vitals_refine(&gpu->mark.track, event, false))
				health_event(&gpu->mark.track, event, &vitals->policy);
		}

		vitals->is_dirty = true;
		vitals_drop(vitals, i);
		return;
	}
}

static struct vitals_gpu *vitals_meet(struct vitals *vitals, const struct gpu *known)
{
	char bus[PCI_TEXT_MAX] = "";

	if (known->has_pci)
		(void)pci_address_to_string(&known->pci, bus);

	struct vitals_gpu *gpu = vitals_find(vitals, known->uuid, bus, known->index);
	if (!gpu)
		gpu = vitals_add(vitals, known->uuid, bus);
	if (!gpu)
		return NULL;

	gpu->here = true;
	gpu->mark.index = known->index;
	if (known->uuid[0])
		vitals_set_text(gpu->mark.uuid, sizeof(gpu->mark.uuid), known->uuid);
	if (bus[0])
		vitals_set_text(gpu->mark.bus, sizeof(gpu->mark.bus), bus);

	if (known->name[0])
		vitals_set_text(gpu->mark.name, sizeof(gpu->mark.name), known->name);
	if (gpu->mark.uuid[0])
		vitals_adopt(vitals, gpu);

	return gpu;
}

static const struct snapshot_gpu *vitals_sample_of(const struct snapshot *snapshot,
						   const struct vitals_gpu *gpu)
{
	for (uint32_t i = 0; snapshot && i < snapshot->gpu_count; i++) {
		const struct snapshot_gpu *sample = &snapshot->gpu[i];
		if (gpu->mark.uuid[0] && sample->uuid[0]
			? strcmp(sample->uuid, gpu->mark.uuid) == 0
			: gpu->mark.bus[0] && strcmp(sample->bus, gpu->mark.bus) == 0)
			return sample;
	}

	return NULL;
}

/* What the inventory alone knows of a GPU that no sample tells of. */
static struct snapshot_gpu *vitals_sample_make(const struct gpu *known)
{
	struct snapshot_gpu *sample = calloc(1, sizeof(*sample));
	if (!sample)
		return NULL;
	sample->state = known->state;
	vitals_set_text(sample->reason, sizeof(sample->reason), known->reason);
	return sample;
}

/* Takes in a sample if it is a new one, or tells another state than the one before. */
static void vitals_take_sample(struct vitals *vitals, struct vitals_gpu *gpu,
			       const struct snapshot_gpu *sample, bool is_new)
{
	struct health_track *track = &gpu->mark.track;
	if (!is_new && track->sampled && track->now.state == sample->state)
		return;

	const uint32_t held = track->held, events = track->event_count;
	const uint64_t reset_ns = track->reset_ns;
	const bool accepted = track->remap_accepted;

	health_sample(track, sample, vitals_now(vitals), &vitals->policy);
	vitals->is_dirty |= held != track->held || events != track->event_count ||
			    accepted != track->remap_accepted ||
			    (reset_ns != track->reset_ns && !health_mark_is_empty(track));
}

static void vitals_sample_gpu(struct vitals *vitals, const struct gpu *known,
			      struct vitals_gpu *gpu, const struct snapshot *snapshot, bool is_new)
{
	const struct snapshot_gpu *sample = vitals_sample_of(snapshot, gpu);
	if (sample && (known->state == GPU_STATE_OK || sample->state != GPU_STATE_OK)) {
		vitals_take_sample(vitals, gpu, sample, is_new);
	} else if (known->state != GPU_STATE_OK) {
		struct snapshot_gpu *made = vitals_sample_make(known);
		if (made)
			vitals_take_sample(vitals, gpu, made, is_new);
		free(made);
	}

	vitals_judge(vitals, gpu);
}

void vitals_sample(struct vitals *vitals, const struct inventory *inventory,
		   const struct snapshot *snapshot)
{
	bool is_new = snapshot && snapshot->taken_ns != vitals->sampled_ns;

	if (snapshot)
		vitals->sampled_ns = snapshot->taken_ns;

	for (size_t i = 0; i < vitals->count; i++)
		vitals->gpus[i]->here = false;

	vitals_make_places(vitals, inventory);

	for (uint32_t i = 0; inventory && i < inventory->gpu_count; i++) {
		struct vitals_gpu *gpu = vitals_meet(vitals, &inventory->gpus[i]);
		if (gpu)
			vitals_sample_gpu(vitals, &inventory->gpus[i], gpu, snapshot, is_new);
		if (vitals->places)
			vitals->places[i] = gpu;
	}

	vitals_judge_devices(vitals);
	vitals_save(vitals);
}

/* --- what others ask ------------------------------------------------------------------------- */

const char *const *vitals_gpu_unhealthy(const struct vitals *vitals, uint32_t *out_count)
{
	if (out_count)
		*out_count = vitals->gpu.count;
	return vitals->gpu.why;
}

const char *const *vitals_mig_unhealthy(const struct vitals *vitals, uint32_t *out_count)
{
	if (out_count)
		*out_count = vitals->mig.count;
	return vitals->mig.why;
}

uint64_t vitals_generation(const struct vitals *vitals)
{
	return vitals->generation;
}

enum xid_class vitals_class(const struct vitals *vitals, uint32_t xid)
{
	return health_policy_class(&vitals->policy, xid);
}

const char *vitals_kernel_log_error(const struct vitals *vitals)
{
	return vitals->log_error;
}

bool vitals_at(const struct vitals *vitals, size_t place, struct vitals_view *out)
{
	if (place >= vitals->count)
		return false;

	const struct vitals_gpu *gpu = vitals->gpus[place];
	const struct health_track *track = &gpu->mark.track;

	*out = (struct vitals_view){.index = gpu->mark.index, .here = gpu->here};
	memcpy(out->uuid, gpu->mark.uuid, sizeof(out->uuid));
	memcpy(out->name, gpu->mark.name, sizeof(out->name));
	memcpy(out->bus, gpu->mark.bus, sizeof(out->bus));
	health_judge(track, &vitals->policy, vitals_now(vitals), false, &out->verdict);

	for (; out->xid_count < track->event_count; out->xid_count++) {
		out->xid[out->xid_count].event = track->event[out->xid_count];
		out->xid[out->xid_count].class_ =
		    health_policy_class(&vitals->policy, track->event[out->xid_count].xid);
	}

	return true;
}

static bool vitals_is_named(const struct vitals_gpu *gpu, const char *name)
{
	uint64_t index;
	struct pci_address address, own;

	if (strcmp(name, "all") == 0 || (name[0] && strcmp(gpu->mark.uuid, name) == 0))
		return true;
	if (parse_u64(name, 0, GPU_MAX - 1, &index) == 0)
		return gpu->here && gpu->mark.index == index;

	return pci_parse_address(name, strlen(name), &address) == 0 &&
	       pci_parse_address(gpu->mark.bus, strlen(gpu->mark.bus), &own) == 0 &&
	       pci_address_compare(&address, &own) == 0;
}

int vitals_clear(struct vitals *vitals, const char *gpu, uint32_t *out_count, struct err *err)
{
	uint32_t count = 0;

	for (size_t i = 0; i < vitals->count; i++) {
		struct vitals_gpu *named = vitals->gpus[i];
		if (!vitals_is_named(named, gpu))
			continue;

		count++;
		health_clear(&named->mark.track, vitals_now(vitals));
		log_write(vitals->options.log, LOG_LEVEL_NOTICE, NULL,
			  "what was held against GPU %s (%s) is forgotten: somebody has looked",
			  named->mark.uuid, named->mark.bus);
		vitals_judge(vitals, named);
	}

	if (count == 0 && strcmp(gpu, "all") != 0)
		return err_set(err, -ENOENT,
			       "there is no GPU '%.96s': give an index, a UUID, a PCI address or "
			       "all ('sluice health' lists them)",
			       gpu);

	for (size_t i = vitals->count; i-- > 0;) {
		/* One that is gone was listed only for what was held against it. */
		if (!vitals->gpus[i]->here && health_mark_is_empty(&vitals->gpus[i]->mark.track))
			vitals_drop(vitals, i);
	}

	vitals->is_dirty = true;
	vitals_judge_devices(vitals);
	vitals_save(vitals);
	*out_count = count;

	return 0;
}

/* --- its life -------------------------------------------------------------------------------- */

static void vitals_bad_entry(const char *entry, void *context)
{
	const struct vitals *vitals = context;
	log_write(vitals->options.log, LOG_LEVEL_WARNING, NULL,
		  "DP_DISABLE_HEALTHCHECKS, DP_ENABLE_HEALTHCHECKS: '%s' is no XID; it is left out",
		  entry);
}

void vitals_configure(struct vitals *vitals, const struct config *config)
{
	const struct config_health *health = &config->health;
	struct health_policy *policy = &vitals->policy;

	*policy = (struct health_policy){
	    .base = health->policy == CONFIG_HEALTH_PEER ? HEALTH_AS_PEER : HEALTH_BY_TABLE,
	    .manual = health->recover == CONFIG_RECOVER_MANUAL,
	    .poll_ns = health->poll_ns,
	};
	_Static_assert(2 * CONFIG_CODES_MAX <= HEALTH_OVERRIDE_MAX, "all codes of the file fit");

	for (uint32_t i = 0; i < health->ignore.count; i++)
		(void)health_policy_set(policy, health->ignore.code[i], XID_IGNORE);

	for (uint32_t i = 0; i < health->fatal.count; i++)
		(void)health_policy_set(policy, health->fatal.code[i],
					health_policy_fatal(health->fatal.code[i]));

	health_policy_environment(policy, getenv("DP_DISABLE_HEALTHCHECKS"),
				  getenv("DP_ENABLE_HEALTHCHECKS"), vitals_bad_entry, vitals);

	for (size_t i = 0; i < vitals->count; i++)
		if (vitals->gpus[i]->here)
			vitals_judge(vitals, vitals->gpus[i]);

	vitals_judge_devices(vitals);
}

/* A simulated machine may have a boot of its own. */
static void vitals_read_boot(struct vitals *vitals)
{
	char path[FILE_PATH_MAX];
	_cleanup_buf_ struct buf text;

	buf_init(&text, 64);
	const char *boot = vitals->options.boot_id;
	bool is_own = file_path(path, NULL, "%s/proc/sys/kernel/random/boot_id", pci_root()) == 0 &&
		      file_exists(path);
	if (!boot && file_read(is_own ? path : "/proc/sys/kernel/random/boot_id", &text, NULL) == 0)
		boot = buf_text(&text);

	if (!boot)
		boot = ""; /* not known: then none is another */
	(void)snprintf(vitals->boot, sizeof(vitals->boot), "%.*s", (int)strcspn(boot, " \n"), boot);
}

int vitals_new(const struct vitals_options *options, struct vitals **out, struct err *err)
{
	struct vitals *vitals = calloc(1, sizeof(*vitals));
	if (!vitals)
		return err_set(err, -ENOMEM, "no memory for the health of the GPUs");

	vitals->options = *options;
	vitals->unix_ahead_ns = clock_unix_ns() - (int64_t)loop_now_ns(options->loop);
	vitals->kmsg_sequence = HEALTH_MARKS_NO_SEQUENCE;
	buf_init(&vitals->saved, HEALTH_MARKS_FILE_MAX);
	vitals_read_boot(vitals);
	vitals_configure(vitals, options->config);
	vitals->options.config = NULL;

	int rc = file_path(vitals->path, err, "%s/health", options->state_dir);
	if (rc == 0)
		rc = vitals_load(vitals, err);
	vitals->is_dirty &= rc == 0; /* nothing half read replaces what is there */

	if (rc < 0) {
		(void)vitals_free(vitals);
		return rc;
	}

	*out = vitals;
	return 0;
}

struct vitals *vitals_free(struct vitals *vitals)
{
	if (!vitals)
		return NULL;

	/* What came while the storage thread was writing for the last time, and the counters as
	 * they are now: a reset shows by them. */
	for (size_t i = 0; i < vitals->count; i++)
		vitals->is_dirty |= !health_mark_is_empty(&vitals->gpus[i]->mark.track) &&
				    vitals->gpus[i]->mark.track.sampled;

	buf_clear(&vitals->saved);
	if (vitals->is_dirty && vitals_format(vitals, &vitals->saved) == 0)
		(void)vitals_save_work(vitals); /* as when the agent had been killed */
	vitals_forget_places(vitals);

	while (vitals->count > 0)
		vitals_drop(vitals, vitals->count - 1);

	buf_done(&vitals->saved);
	free(vitals);
	return NULL;
}
