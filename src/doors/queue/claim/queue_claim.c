/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPUs and users that are drained, GPUs that are reserved: changed one at a time, durable before
 * whoever asked is told, and before any job is treated so.
 */
#include "doors/queue/claim/queue_claim.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/crash.h"
#include "base/log.h"
#include "doors/queue/queue_internal.h"

struct queue_claiming {
	struct queue_op op;   /* first */
	struct claims claims; /* owned: as they are to be */
	struct claim claim;   /* that is added or removed */
	queue_claimed_fn *done;
	void *context;
};

const struct claims *queue_claims(const struct queue *queue)
{
	return &queue->claims;
}

int queue_claim_load(struct queue *queue, struct err *err)
{
	_cleanup_free_ char *bytes = NULL;
	size_t length = 0;
	int rc = store_claims(queue->store, &bytes, &length, err);
	if (rc == -ENOENT)
		return 0;
	if (rc == 0)
		rc = claims_parse(bytes, length, &queue->claims, err);
	return rc < 0 ? err_wrap(err, "what is drained and reserved") : 0;
}

/* --- what it means for jobs ------------------------------------------------------------------- */

/* A MIG device is claimed with its GPU. */
void queue_claim_mark(const struct queue *queue, struct schedule_machine *machine)
{
	const struct claims *claims = &queue->claims;

	machine->claims = claims;
	for (size_t i = 0; claims->count > 0 && machine->inventory && i < machine->device_count;
	     i++) {
		struct schedule_device *device = &machine->devices[i];
		const struct gpu *gpu = &machine->inventory->gpus[device->unit.gpu];
		device->claims =
		    claims_of_gpu(claims, device->unit.uuid) | claims_of_gpu(claims, gpu->uuid);
	}
}

uint64_t queue_claim_shut(const struct queue *queue, const struct job *job, int64_t now_unix_ns)
{
	struct claim_job seen = {.uid = job->uid, .time_ns = job->wants.time_ns};

	if (queue->claims.count == 0 || job->gpus == 0)
		return 0;

	seen.group_count = queue_member_groups(queue, job->uid, &seen.groups);
	return claims_shut(&queue->claims, &seen, now_unix_ns);
}

bool queue_claim_waits(const struct queue *queue, const struct job *job, char out[JOB_REASON_MAX])
{
	const struct claim *claim = claims_user(&queue->claims, job->uid);
	char text[CLAIM_TEXT_MAX];
	if (claim)
		(void)snprintf(out, JOB_REASON_MAX, "%.*s", JOB_REASON_MAX - 1,
			       claim_text(claim, text));
	return claim != NULL;
}

/* --- which GPUs ------------------------------------------------------------------------------- */

static void claim_add_gpu(struct claim *claim, const char *uuid, const char *label)
{
	(void)snprintf(claim->gpus[claim->gpu_count].uuid, GPU_UUID_MAX, "%s", uuid);
	(void)snprintf(claim->gpus[claim->gpu_count].label, sizeof(claim->gpus[0].label), "%.31s",
		       label);
	claim->gpu_count++;
}

/* A GPU that is split by MIG is meant with all of its devices. */
static int claim_add_id(const struct inventory *inventory, const char *id, struct claim *claim,
			struct err *err)
{
	uint32_t gpu, mig;
	char label[32];

	for (uint32_t i = 0; i < inventory->gpu_count; i++) {
		(void)snprintf(label, sizeof(label), "%" PRIu32, inventory->gpus[i].index);
		if (strcmp(id, label) != 0 && strcmp(id, inventory->gpus[i].uuid) != 0)
			continue;
		(void)snprintf(label, sizeof(label), "GPU %" PRIu32, inventory->gpus[i].index);
		claim_add_gpu(claim, inventory->gpus[i].uuid, label);
		return 0;
	}

	int rc = place_resolve(inventory, id, &gpu, &mig, err);
	if (rc < 0)
		return rc;
	if (mig == PLACE_WHOLE) {
		(void)snprintf(label, sizeof(label), "GPU %" PRIu32, inventory->gpus[gpu].index);
		claim_add_gpu(claim, inventory->gpus[gpu].uuid, label);
	} else {
		(void)snprintf(label, sizeof(label), "MIG %.27s", id);
		claim_add_gpu(claim, inventory->migs[mig].uuid, label);
	}

	return 0;
}

static int claim_add_ids(const struct queue *queue, const char *ids, struct claim *claim,
			 struct err *err)
{
	char id[GPU_UUID_MAX];
	int more, rc = 0;

	if (!queue->machine.inventory)
		return err_set(err, -ENOENT, "the GPUs of this machine are not known now: %s",
			       queue->machine.problem);

	while (rc == 0 && (more = place_next_id(&ids, id, err)) != 0) {
		if (more > 0 && claim->gpu_count == CLAIM_GPUS_MAX)
			more = err_set(err, -EINVAL, "more than %d GPUs", CLAIM_GPUS_MAX);
		rc = more < 0 ? more : claim_add_id(queue->machine.inventory, id, claim, err);
	}

	return rc;
}

/* Any that are free of reservations in that window, the last of the machine first: jobs for which
 * nothing is reserved get the first ones. */
static int claim_add_any(const struct queue *queue, const struct claims *claims, uint32_t wanted,
			 struct claim *claim, struct err *err)
{
	const struct schedule_machine *machine = &queue->machine;
	char text[CLAIM_TEXT_MAX] = "";
	uint32_t there = 0;

	for (size_t i = machine->device_count; i > 0 && claim->gpu_count < wanted; i--) {
		const struct schedule_device *device = &machine->devices[i - 1];
		const struct claim *other = claims_overlap(
		    claims, device->unit.uuid, claim->begin_unix_ns, claim->end_unix_ns);

		if (device->unit.mig != PLACE_WHOLE)
			continue;
		there++;
		if (other)
			(void)claim_text(other, text);
		else if (claim->gpu_count < CLAIM_GPUS_MAX)
			claim_add_gpu(claim, device->unit.uuid, device->unit.label);
	}

	if (claim->gpu_count >= wanted)
		return 0;
	return err_set(err, -ERANGE,
		       "reservation '%s' needs %" PRIu32 " GPUs, and %zu of the queue's %" PRIu32
		       " are not reserved then%s%.250s",
		       claim->name, wanted, claim->gpu_count, there, *text ? ": " : "", text);
}

/* --- changing them ---------------------------------------------------------------------------- */

static int claim_name(const struct claims *claims, struct claim *claim, struct err *err)
{
	if (claim->name[0]) {
		size_t at = claims_find(claims, claim->name);
		char text[CLAIM_TEXT_MAX];
		return at == claims->count
			   ? 0
			   : err_set(err, -EEXIST,
				     "there is a reservation of that name: %s; 'sluice jobs "
				     "unreserve %s' ends it",
				     claim_text(&claims->items[at], text), claim->name);
	}

	for (unsigned i = 1; i <= CLAIMS_MAX + 1; i++) {
		(void)snprintf(claim->name, sizeof(claim->name), "r%u", i);
		if (claims_find(claims, claim->name) == claims->count)
			break;
	}

	return 0;
}

static int claim_reserve(const struct queue *queue, const struct queue_claim *asked,
			 struct claims *claims, struct claim *claim, struct err *err)
{
	int rc = claim_name(claims, claim, err);

	claim->may_move = !asked->ids;
	if (rc == 0)
		rc = asked->ids ? claim_add_ids(queue, asked->ids, claim, err)
				: claim_add_any(queue, claims, asked->gpus, claim, err);

	for (size_t i = 0; rc == 0 && i < claim->gpu_count; i++) {
		const struct claim *other = claims_overlap(
		    claims, claim->gpus[i].uuid, claim->begin_unix_ns, claim->end_unix_ns);
		char text[CLAIM_TEXT_MAX];
		if (other)
			rc = err_set(err, -EEXIST, "%s is reserved at that time: %s",
				     claim->gpus[i].label, claim_text(other, text));
	}

	return rc < 0 ? rc : claim_check(claim, err);
}

/* What is drained already gets the new reason. */
static int claim_drain(const struct queue *queue, const struct queue_claim *asked,
		       struct claims *claims, struct claim *claim, struct err *err)
{
	if (claim->kind == CLAIM_DRAIN_USER) {
		size_t at = claims_find_user(claims, claim->uid);
		if (at < claims->count)
			claims_remove(claims, at);
		return claim_check(claim, err);
	}

	int rc = claim_add_ids(queue, asked->ids ? asked->ids : "", claim, err);
	return rc < 0 ? rc : claim_check(claim, err);
}

/* Takes the named GPUs out of all that is drained; those that were not are an error. */
static int claim_resume(const struct queue *queue, const struct queue_claim *asked,
			struct claims *claims, struct claim *claim, bool is_strict, struct err *err)
{
	int rc = is_strict ? claim_add_ids(queue, asked->ids ? asked->ids : "", claim, err) : 0;

	for (size_t g = 0; rc == 0 && g < claim->gpu_count; g++) {
		bool was = false;

		for (size_t i = claims->count; i > 0; i--) {
			struct claim *other = &claims->items[i - 1];
			for (size_t k = other->gpu_count; k > 0 && other->kind == CLAIM_DRAIN_GPUS;
			     k--) {
				if (strcmp(other->gpus[k - 1].uuid, claim->gpus[g].uuid) != 0)
					continue;
				other->gpus[k - 1] = other->gpus[--other->gpu_count];
				was = true;
			}
			if (other->kind == CLAIM_DRAIN_GPUS && other->gpu_count == 0)
				claims_remove(claims, i - 1);
		}

		if (!was && is_strict)
			rc = err_set(err, -EINVAL, "%s is not drained", claim->gpus[g].label);
	}

	return rc;
}

static int claim_end(const struct queue *queue, const struct queue_claim *asked,
		     struct claims *claims, struct claim *claim, struct err *err)
{
	if (claim->kind == CLAIM_DRAIN_GPUS)
		return claim_resume(queue, asked, claims, claim, true, err);

	bool is_user = claim->kind == CLAIM_DRAIN_USER;
	size_t at =
	    is_user ? claims_find_user(claims, claim->uid) : claims_find(claims, claim->name);
	if (at == claims->count)
		return is_user ? err_set(err, -EINVAL, "user %s is not drained", claim->who)
			       : err_set(err, -ENOENT,
					 "there is no reservation '%s': 'sluice jobs reservations' "
					 "lists them",
					 claim->name);

	*claim = claims->items[at];
	claims_remove(claims, at);
	return 0;
}

static int claim_work(struct queue_op *op)
{
	struct queue_claiming *claiming = (struct queue_claiming *)op;
	_cleanup_free_ char *bytes = NULL;
	size_t length = 0;
	int rc = claims_format(&claiming->claims, &bytes, &length);
	if (rc < 0)
		return err_set(&op->err, rc, "no memory for what is drained and reserved");

	crash_point("queue.before_claim");
	rc = store_set_claims(op->queue->store, bytes, length, &op->err);
	crash_point("queue.claim_stored");
	return rc;
}

/* Nothing keeps a reservation on a GPU that fails. */
static void claim_move_forget(struct queue *queue)
{
	queue->claim_error[0] = '\0';
	queue->claim_retry_ns = queue->claim_next_ns = 0;
}

static void claim_done(struct queue_op *op, int rc)
{
	struct queue_claiming *claiming = (struct queue_claiming *)op;
	struct queue *queue = op->queue;

	queue->is_claiming = false;
	if (rc == 0) {
		claims_done(&queue->claims);
		queue->claims = claiming->claims;
		claiming->claims = (struct claims){.items = NULL};
		claim_move_forget(queue);
		queue_storage_worked(queue);
		queue_kick(queue);
		queue_changed(queue);
	} else if (rc == -ENOSPC || rc == -EROFS || rc == -EIO || rc == -EDQUOT) {
		queue_storage_failed(queue, rc, op->err.text);
	}

	claiming->done(rc, &claiming->claim, rc < 0 ? &op->err : NULL, claiming->context);
	claims_done(&claiming->claims);
	free(claiming);
	if (rc == 0) /* a GPU that is drained now may have been reserved */
		queue_claim_move(queue);
}

static void claim_submit(struct queue *queue, struct queue_claiming *claiming,
			 queue_claimed_fn *done, void *context)
{
	queue->is_claiming = true;
	claiming->done = done;
	claiming->context = context;
	claiming->op.work = claim_work;
	claiming->op.done = claim_done;
	queue_op_submit(queue, &claiming->op);
}

static int claim_make(struct queue *queue, const struct queue_claim *asked,
		      struct queue_claiming *claiming, struct err *err)
{
	struct claims *claims = &claiming->claims;
	struct claim *claim = &claiming->claim;

	*claim = asked->claim;
	claim->gpu_count = 0;
	if (queue->is_claiming)
		return err_set(err, -EBUSY,
			       "another drain or reservation is being written: ask again");
	if (claims_copy(&queue->claims, clock_unix_ns(), claims) < 0)
		return err_set(err, -ENOMEM, "no memory for what is drained and reserved");
	if (asked->what == QUEUE_CLAIM_REMOVE)
		return claim_end(queue, asked, claims, claim, err);

	int rc = claim->kind == CLAIM_RESERVATION ? claim_reserve(queue, asked, claims, claim, err)
						  : claim_drain(queue, asked, claims, claim, err);
	if (rc == 0 && claim->kind == CLAIM_DRAIN_GPUS) /* with another reason */
		rc = claim_resume(queue, asked, claims, claim, false, err);
	if (rc == 0 && claims->count >= CLAIMS_MAX)
		rc = err_set(err, -EINVAL, "%d drains and reservations are as many as there can be",
			     CLAIMS_MAX);
	if (rc == 0) /* claims_copy() has left room, or one was taken out */
		claims->items[claims->count++] = *claim;

	return rc;
}

void queue_claim(struct queue *queue, const struct queue_claim *asked, queue_claimed_fn *done,
		 void *context)
{
	struct queue_claiming *claiming = calloc(1, sizeof(*claiming));
	struct err err = {.code = 0};
	int rc = claiming ? claim_make(queue, asked, claiming, &err)
			  : err_set(&err, -ENOMEM, "no memory for a reservation");
	if (rc < 0) {
		done(rc, &asked->claim, &err, context);
		if (claiming)
			claims_done(&claiming->claims);
		free(claiming);
		return;
	}

	claim_submit(queue, claiming, done, context);
}

/* --- where a GPU that is reserved fails ------------------------------------------------------- */

/* Why a reservation has nothing from that GPU; false: it has. */
static bool claim_gpu_fails(struct queue *queue, const struct claims *claims, const char *uuid,
			    char out[CLAIM_REASON_MAX])
{
	const struct schedule_device *device = schedule_machine_find(&queue->machine, uuid);
	const struct claim *drain = claims_drain(claims, uuid);

	if (drain)
		(void)snprintf(out, CLAIM_REASON_MAX, "drained%s%.60s",
			       drain->reason[0] ? ": " : "", drain->reason);
	else if (!device)
		(void)snprintf(out, CLAIM_REASON_MAX, "not the queue's any more");
	else if (!device->unit.healthy)
		(void)snprintf(out, CLAIM_REASON_MAX, "%.70s",
			       device->unit.reason[0] ? device->unit.reason : "unhealthy");
	else
		return false;

	return true;
}

/* One that is well and nobody's in the reservation's window: one on which nothing runs if there is
 * one, the last of the machine first; NULL. */
static const struct schedule_device *
claim_substitute(struct queue *queue, const struct claims *claims, const struct claim *claim)
{
	const struct schedule_device *found = NULL;
	char why[CLAIM_REASON_MAX];

	for (size_t i = queue->machine.device_count; i > 0; i--) {
		const struct schedule_device *device = &queue->machine.devices[i - 1];
		bool is_free =
		    device->used_count == 0 && !device->holder[0] && device->unit.outsider == 0;

		if (device->unit.mig != PLACE_WHOLE || (found && !is_free) ||
		    claim_gpu_fails(queue, claims, device->unit.uuid, why) ||
		    claims_overlap(claims, device->unit.uuid, claim->begin_unix_ns,
				   claim->end_unix_ns))
			continue;
		if (is_free)
			return device;
		found = device;
	}

	return found;
}

/* Puts another one in the place of the first GPU that fails; false: there is none. */
static bool claim_move(struct queue *queue, const struct claims *claims, struct claim *claim)
{
	char why[CLAIM_REASON_MAX];
	size_t g = 0;

	while (g < claim->gpu_count && !claim_gpu_fails(queue, claims, claim->gpus[g].uuid, why))
		g++;
	if (g == claim->gpu_count)
		return false;

	const struct schedule_device *device = claim_substitute(queue, claims, claim);
	if (!device)
		return false;

	(void)snprintf(claim->moved, sizeof(claim->moved), "%.20s instead of %.20s (%.70s)",
		       device->unit.label, claim->gpus[g].label, why);
	(void)snprintf(claim->gpus[g].uuid, GPU_UUID_MAX, "%s", device->unit.uuid);
	(void)snprintf(claim->gpus[g].label, sizeof(claim->gpus[g].label), "%.31s",
		       device->unit.label);
	return true;
}

/* Each look at the machine gets here: it is told once, and tried again after longer and longer
 * pauses. */
static void claim_move_failed(struct queue *queue, const char *name, const char *why)
{
	char text[ERR_TEXT_MAX];

	(void)snprintf(text, sizeof(text), "reservation '%s' keeps a GPU that fails: %.*s", name,
		       ERR_TEXT_MAX - 128, why);
	if (strcmp(queue->claim_error, text) != 0) {
		log_write(queue->options.log, LOG_LEVEL_WARNING, NULL, "%s", text);
		(void)snprintf(queue->claim_error, sizeof(queue->claim_error), "%s", text);
	}

	uint64_t delay_ns = queue->claim_retry_ns ? 2 * queue->claim_retry_ns : CLOCK_NS_PER_S;

	queue->claim_retry_ns = delay_ns < QUEUE_STORAGE_MAX_NS ? delay_ns : QUEUE_STORAGE_MAX_NS;
	queue->claim_next_ns = loop_now_ns(queue->options.loop) + queue->claim_retry_ns;
}

static void claim_moved(int rc, const struct claim *claim, const struct err *err, void *context)
{
	struct queue *queue = context;

	if (rc < 0)
		claim_move_failed(queue, claim->name, err->text);
	else
		log_write(queue->options.log, LOG_LEVEL_INFO, NULL, "reservation '%s' has %s",
			  claim->name, claim->moved);
}

void queue_claim_move(struct queue *queue)
{
	struct claim moved;
	size_t at = 0;

	if (queue->is_claiming || queue->closing || queue->storage_paused ||
	    !queue->machine.inventory || queue->claim_next_ns > loop_now_ns(queue->options.loop))
		return;

	for (; at < queue->claims.count; at++) {
		const struct claim *claim = &queue->claims.items[at];
		if (!claim->may_move || claim->end_unix_ns <= clock_unix_ns())
			continue;

		moved = *claim;
		if (claim_move(queue, &queue->claims, &moved))
			break;
	}

	if (at == queue->claims.count) {
		claim_move_forget(queue);
		return;
	}

	struct queue_claiming *claiming = calloc(1, sizeof(*claiming));
	if (!claiming)
		return;
	if (claims_copy(&queue->claims, clock_unix_ns(), &claiming->claims) < 0) {
		free(claiming);
		return;
	}

	/* One at a time: what is done looks for the next. */
	at = claims_find(&claiming->claims, moved.name);
	claiming->claim = moved;
	if (at < claiming->claims.count)
		claiming->claims.items[at] = moved;
	claim_submit(queue, claiming, claim_moved, queue);
}
