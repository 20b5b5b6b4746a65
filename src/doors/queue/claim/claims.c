/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/claim/claims.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "job.pb-c.h"
#include "job/form.h"
#include "job/moment.h"

void claims_done(struct claims *claims)
{
	free(claims->items);
	*claims = (struct claims){.items = NULL};
}

static bool claim_is_over(const struct claim *claim, int64_t now_unix_ns)
{
	return claim->kind == CLAIM_RESERVATION && claim->end_unix_ns <= now_unix_ns;
}

int claims_copy(const struct claims *claims, int64_t now_unix_ns, struct claims *out)
{
	struct claims copy = {.items = calloc(claims->count + 1, sizeof(*copy.items))};
	if (!copy.items)
		return -ENOMEM;
	for (size_t i = 0; i < claims->count; i++)
		if (!claim_is_over(&claims->items[i], now_unix_ns))
			copy.items[copy.count++] = claims->items[i];
	*out = copy;
	return 0;
}

void claims_remove(struct claims *claims, size_t index)
{
	claims->count--;
	memmove(&claims->items[index], &claims->items[index + 1],
		(claims->count - index) * sizeof(*claims->items));
}

/* --- who may use what ------------------------------------------------------------------------- */

static bool claim_is_for(const struct claim *claim, const struct claim_job *job)
{
	if (claim->has_uid)
		return claim->uid == job->uid;
	for (size_t i = 0; claim->has_gid && i < job->group_count; i++)
		if (job->groups[i] == claim->gid)
			return true;
	return false;
}

static bool claim_shuts(const struct claim *claim, const struct claim_job *job, int64_t now_unix_ns)
{
	if (claim->kind == CLAIM_DRAIN_GPUS)
		return true;
	if (claim->kind != CLAIM_RESERVATION || claim_is_over(claim, now_unix_ns) ||
	    claim_is_for(claim, job))
		return false;
	if (claim->begin_unix_ns <= now_unix_ns)
		return true;

	uint64_t left_ns = (uint64_t)(claim->begin_unix_ns - now_unix_ns);
	return job->time_ns == 0 ? left_ns <= claim->lead_ns : job->time_ns > left_ns;
}

uint64_t claims_shut(const struct claims *claims, const struct claim_job *job, int64_t now_unix_ns)
{
	uint64_t mask = 0;
	for (size_t i = 0; i < claims->count; i++)
		if (claim_shuts(&claims->items[i], job, now_unix_ns))
			mask |= UINT64_C(1) << i;
	return mask;
}

static bool claim_has(const struct claim *claim, const char *uuid)
{
	for (size_t i = 0; i < claim->gpu_count; i++)
		if (strcmp(claim->gpus[i].uuid, uuid) == 0)
			return true;
	return false;
}

uint64_t claims_of_gpu(const struct claims *claims, const char *uuid)
{
	uint64_t mask = 0;
	for (size_t i = 0; i < claims->count; i++)
		if (claim_has(&claims->items[i], uuid))
			mask |= UINT64_C(1) << i;
	return mask;
}

size_t claims_find_user(const struct claims *claims, uid_t uid)
{
	size_t i = 0;
	while (i < claims->count &&
	       (claims->items[i].kind != CLAIM_DRAIN_USER || claims->items[i].uid != uid))
		i++;
	return i;
}

const struct claim *claims_user(const struct claims *claims, uid_t uid)
{
	size_t i = claims_find_user(claims, uid);
	return i < claims->count ? &claims->items[i] : NULL;
}

size_t claims_find(const struct claims *claims, const char *name)
{
	size_t i = 0;
	while (i < claims->count && (claims->items[i].kind != CLAIM_RESERVATION ||
				     strcmp(claims->items[i].name, name) != 0))
		i++;
	return i;
}

const struct claim *claims_drain(const struct claims *claims, const char *uuid)
{
	uint64_t named = claims_of_gpu(claims, uuid);

	for (size_t i = 0; i < claims->count; i++)
		if (named >> i & 1 && claims->items[i].kind == CLAIM_DRAIN_GPUS)
			return &claims->items[i];
	return NULL;
}

const struct claim *claims_overlap(const struct claims *claims, const char *uuid,
				   int64_t begin_unix_ns, int64_t end_unix_ns)
{
	for (size_t i = 0; i < claims->count; i++) {
		const struct claim *claim = &claims->items[i];
		if (claim->kind == CLAIM_RESERVATION && claim->begin_unix_ns < end_unix_ns &&
		    begin_unix_ns < claim->end_unix_ns && claim_has(claim, uuid))
			return claim;
	}
	return NULL;
}

int64_t claims_next(const struct claims *claims, int64_t now_unix_ns)
{
	int64_t next = INT64_MAX;
	for (size_t i = 0; i < claims->count; i++) {
		const struct claim *claim = &claims->items[i];
		const int64_t moments[] = {claim->begin_unix_ns, claim->end_unix_ns};
		for (size_t k = 0; claim->kind == CLAIM_RESERVATION && k < 2; k++)
			if (moments[k] > now_unix_ns && moments[k] < next)
				next = moments[k];
	}
	return next;
}

/* --- texts ------------------------------------------------------------------------------------ */

static bool claim_is_label(const char *name)
{
	size_t length = strlen(name);
	if (length == 0 || name[0] == '-' || name[length - 1] == '-')
		return false;
	return strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == length;
}

static bool claim_is_plain(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 127)
			return false;
	return true;
}

int claim_check(const struct claim *claim, struct err *err)
{
	bool is_reservation = claim->kind == CLAIM_RESERVATION;

	if (claim->kind < CLAIM_DRAIN_GPUS || claim->kind > CLAIM_RESERVATION)
		return err_set(err, -EINVAL, "a claim of kind %d", (int)claim->kind);
	if (!claim_is_plain(claim->reason) || !claim_is_plain(claim->who))
		return err_set(err, -EINVAL, "a reason or a name has a control character in it");
	if (is_reservation && !claim_is_label(claim->name))
		return err_set(
		    err, -EINVAL,
		    "'%s' is not a name of small letters, digits and '-', at most %d long",
		    claim->name, CLAIM_NAME_MAX - 1);
	if (is_reservation && claim->has_uid == claim->has_gid)
		return err_set(err, -EINVAL, "reservation '%s' has to be for a user or for a group",
			       claim->name);
	if (is_reservation &&
	    (claim->begin_unix_ns < 0 || claim->begin_unix_ns >= claim->end_unix_ns))
		return err_set(err, -EINVAL, "reservation '%s' ends before it begins", claim->name);
	if (claim->kind == CLAIM_DRAIN_USER && !claim->has_uid)
		return err_set(err, -EINVAL, "the user who is to be drained is not named");
	if (claim->kind != CLAIM_DRAIN_USER && claim->gpu_count == 0)
		return err_set(err, -EINVAL, "no GPU is named");

	return 0;
}

/* "GPU 0, 1". */
static size_t claim_labels(const struct claim *claim, char *out, size_t room)
{
	size_t length = 0;
	out[0] = '\0';
	for (size_t i = 0; i < claim->gpu_count && length < room; i++) {
		const char *label = claim->gpus[i].label;
		bool is_again = i > 0 && text_starts_with(label, "GPU ");
		int added = snprintf(out + length, room - length, "%s%s", i ? ", " : "",
				     is_again ? label + 4 : label);
		length += added > 0 ? (size_t)added : 0;
	}
	return length;
}

const char *claim_text(const struct claim *claim, char out[CLAIM_TEXT_MAX])
{
	char labels[96], until[MOMENT_SHOWN_MAX];
	const char *colon = claim->reason[0] ? ": " : "";

	(void)claim_labels(claim, labels, sizeof(labels));
	if (claim->kind == CLAIM_DRAIN_USER)
		(void)snprintf(out, CLAIM_TEXT_MAX, "user %s%s%s", claim->who, colon,
			       claim->reason);
	else if (claim->kind == CLAIM_DRAIN_GPUS)
		(void)snprintf(out, CLAIM_TEXT_MAX, "%s%s%s", labels, colon, claim->reason);
	else
		(void)snprintf(out, CLAIM_TEXT_MAX, "%s for %s%s, until %s%s%s; %s", claim->name,
			       claim->has_gid ? "group " : "", claim->who,
			       moment_format(claim->end_unix_ns, until), colon, claim->reason,
			       labels);
	return out;
}

static size_t claim_say(const struct claim *claim, bool is_part, char *out, size_t room)
{
	const char *part = is_part ? ", a MIG device of it" : "";
	const char *colon = claim->reason[0] ? ": " : "";
	char begin[MOMENT_SHOWN_MAX], end[MOMENT_SHOWN_MAX];
	int length;

	if (claim->kind == CLAIM_DRAIN_GPUS)
		length = snprintf(out, room, "drained%s%s%s", part, colon, claim->reason);
	else
		length = snprintf(out, room, "reserved%s (%s) for %s%s, %s to %s%s%s", part,
				  claim->name, claim->has_gid ? "group " : "", claim->who,
				  moment_format(claim->begin_unix_ns, begin),
				  moment_format(claim->end_unix_ns, end), colon, claim->reason);
	return length < 0 ? 0 : (size_t)length < room ? (size_t)length : room - 1;
}

unsigned claims_how(const struct claims *claims, uint64_t own, uint64_t parts, int64_t now_unix_ns,
		    char out[CLAIM_TEXT_MAX])
{
	unsigned how = 0;
	size_t length = 0;

	out[0] = '\0';

	for (size_t i = 0; i < claims->count; i++) {
		const struct claim *claim = &claims->items[i];
		bool is_own = own >> i & 1;

		if (!((own | parts) >> i & 1) || claim_is_over(claim, now_unix_ns))
			continue;

		if (length > 0 && length + 2 < CLAIM_TEXT_MAX) {
			memcpy(out + length, "; ", 3);
			length += 2;
		}
		length += claim_say(claim, !is_own, out + length, CLAIM_TEXT_MAX - length);

		if (is_own && claim->kind == CLAIM_DRAIN_GPUS)
			how |= CLAIMS_DRAINED;
		else if (is_own && claim->begin_unix_ns <= now_unix_ns)
			how |= CLAIMS_RESERVED;
	}

	return how;
}

/* --- bytes ------------------------------------------------------------------------------------ */

int claims_format(const struct claims *claims, char **out_bytes, size_t *out_length)
{
	Sluice__V1__Claims message = SLUICE__V1__CLAIMS__INIT;
	Sluice__V1__Claim *items = calloc(claims->count + 1, sizeof(*items));
	Sluice__V1__Claim **list = calloc(claims->count + 1, sizeof(*list));
	Sluice__V1__ClaimGpu *gpus = calloc(claims->count * CLAIM_GPUS_MAX + 1, sizeof(*gpus));
	Sluice__V1__ClaimGpu **gpu_list =
	    calloc(claims->count * CLAIM_GPUS_MAX + 1, sizeof(*gpu_list));
	int rc = items && list && gpus && gpu_list ? 0 : -ENOMEM;

	for (size_t i = 0; rc == 0 && i < claims->count; i++) {
		struct claim *from = &claims->items[i];
		Sluice__V1__Claim *to = list[i] = &items[i];

		sluice__v1__claim__init(to);
		to->kind = from->kind;
		to->name = from->name;
		to->who = from->who;
		to->reason = from->reason;
		to->has_user = from->has_uid;
		to->uid = from->uid;
		to->has_group = from->has_gid;
		to->gid = from->gid;
		to->begin_unix_ns = from->begin_unix_ns;
		to->end_unix_ns = from->end_unix_ns;
		to->lead_ns = from->lead_ns;
		to->may_move = from->may_move;
		to->moved = from->moved;
		to->gpus = &gpu_list[i * CLAIM_GPUS_MAX];

		for (; to->n_gpus < from->gpu_count; to->n_gpus++) {
			Sluice__V1__ClaimGpu *gpu = &gpus[i * CLAIM_GPUS_MAX + to->n_gpus];
			sluice__v1__claim_gpu__init(gpu);
			gpu->uuid = from->gpus[to->n_gpus].uuid;
			gpu->label = from->gpus[to->n_gpus].label;
			to->gpus[to->n_gpus] = gpu;
		}
	}

	message.claims = list;
	message.n_claims = claims->count;
	if (rc == 0)
		rc = form_pack(&message.base, CLAIMS_BYTES_MAX, out_bytes, out_length);

	free(items);
	free(list);
	free(gpus);
	free(gpu_list);
	return rc;
}

static int claim_take_text(const char *from, char *out, size_t room, struct err *err)
{
	if (strlen(from) >= room)
		return err_set(err, -EINVAL, "'%.40s...' is longer than %zu bytes", from, room - 1);
	memcpy(out, from, strlen(from) + 1);
	return 0;
}

static int claim_take(const Sluice__V1__Claim *from, struct claim *out, struct err *err)
{
	out->kind = (enum claim_kind)from->kind;
	out->has_uid = from->has_user;
	out->uid = from->uid;
	out->has_gid = from->has_group;
	out->gid = from->gid;
	out->begin_unix_ns = from->begin_unix_ns;
	out->end_unix_ns = from->end_unix_ns;
	out->lead_ns = from->lead_ns;
	out->may_move = from->may_move;

	int rc = claim_take_text(from->name, out->name, CLAIM_NAME_MAX, err);
	if (rc == 0)
		rc = claim_take_text(from->who, out->who, CLAIM_NAME_MAX, err);
	if (rc == 0)
		rc = claim_take_text(from->reason, out->reason, CLAIM_REASON_MAX, err);
	if (rc == 0)
		rc = claim_take_text(from->moved, out->moved, CLAIM_REASON_MAX, err);
	if (rc == 0 && from->n_gpus > CLAIM_GPUS_MAX)
		rc = err_set(err, -EINVAL, "%zu GPUs are too many: at most %d", from->n_gpus,
			     CLAIM_GPUS_MAX);

	for (size_t i = 0; rc == 0 && i < from->n_gpus; i++) {
		rc = claim_take_text(from->gpus[i]->uuid, out->gpus[i].uuid, GPU_UUID_MAX, err);
		if (rc == 0)
			rc = claim_take_text(from->gpus[i]->label, out->gpus[i].label,
					     sizeof(out->gpus[i].label), err);
		out->gpu_count = i + 1;
	}

	return rc < 0 ? rc : claim_check(out, err);
}

int claims_parse(const void *bytes, size_t length, struct claims *out, struct err *err)
{
	Sluice__V1__Claims *message =
	    length > CLAIMS_BYTES_MAX ? NULL : sluice__v1__claims__unpack(NULL, length, bytes);
	struct claims claims = {.items = NULL};
	int rc = 0;

	if (!message || message->n_claims > CLAIMS_MAX)
		rc = err_set(err, -EINVAL, "these bytes are no drained or reserved GPUs");
	if (rc == 0 && !(claims.items = calloc(message->n_claims + 1, sizeof(*claims.items))))
		rc = err_set(err, -ENOMEM, "no memory for what is drained and reserved");

	for (size_t i = 0; rc == 0 && i < message->n_claims; i++) {
		rc = claim_take(message->claims[i], &claims.items[i], err);
		claims.count = i + 1;
	}

	if (message)
		sluice__v1__claims__free_unpacked(message, NULL);
	if (rc < 0)
		claims_done(&claims);
	else
		*out = claims;
	return rc;
}
