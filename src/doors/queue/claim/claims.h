/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an administrator has said about GPUs and users: GPUs and users that are drained, and GPUs
 * that are reserved for a user or a group in a window of time. Says which jobs may not use which
 * GPUs at a time. Pure: no clock, no store, no names but those that it was given.
 *
 * A GPU that is drained is shut to everybody. One that is reserved is shut to a job that is not of
 * the reservation's user or group, if it could still run when the window begins: in the window
 * itself, before it by its limit, and without a limit from `lead_ns` before it on.
 */
#ifndef SLUICE_DOORS_QUEUE_CLAIM_CLAIMS_H
#define SLUICE_DOORS_QUEUE_CLAIM_CLAIMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "hardware/gpu.h"

struct err;

enum claims_limits {
	CLAIMS_MAX = 64, /* a bit for each in a mask */
	CLAIM_GPUS_MAX = GPU_MAX,
	CLAIM_NAME_MAX = 64, /* with their NULs */
	CLAIM_REASON_MAX = 128,
	CLAIM_TEXT_MAX = 320,
	CLAIMS_BYTES_MAX = 1 << 20,
};

/* The numbers are in stores. */
enum claim_kind { CLAIM_DRAIN_GPUS = 1, CLAIM_DRAIN_USER = 2, CLAIM_RESERVATION = 3 };

struct claim {
	enum claim_kind kind;
	char name[CLAIM_NAME_MAX]; /* of a reservation: a DNS label */
	char who[CLAIM_NAME_MAX];  /* its user or group, as people say it */
	char reason[CLAIM_REASON_MAX];
	bool has_uid, has_gid;
	uid_t uid; /* who is drained, or for whom GPUs are reserved */
	gid_t gid;
	int64_t begin_unix_ns, end_unix_ns; /* of a reservation */
	uint64_t lead_ns;
	/* Any so many GPUs were asked for: where one fails another takes its place, and `moved`
	 * says the last that did: "GPU 5 instead of GPU 3 (drained: the fan)". */
	bool may_move;
	char moved[CLAIM_REASON_MAX];
	size_t gpu_count;
	struct {
		char uuid[GPU_UUID_MAX], label[32];
	} gpus[CLAIM_GPUS_MAX];
};

struct claims {
	struct claim *items; /* owned */
	size_t count;
};

void claims_done(struct claims *claims);
/* A copy without reservations that are over, with room for one more. -ENOMEM. */
int claims_copy(const struct claims *claims, int64_t now_unix_ns, struct claims *out);
/* Of claims_copy() before. Takes `index` out. */
void claims_remove(struct claims *claims, size_t index);

/* A job, as far as claims look at it. */
struct claim_job {
	uid_t uid;
	const gid_t *groups; /* of its user; borrowed */
	size_t group_count;
	uint64_t time_ns; /* that it may run; 0: as long as it likes */
};
/* The claims whose GPUs are shut to the job: a bit for each. */
uint64_t claims_shut(const struct claims *claims, const struct claim_job *job, int64_t now_unix_ns);
/* The claims that name this GPU. */
uint64_t claims_of_gpu(const struct claims *claims, const char *uuid);
/* How a GPU is claimed now: bits. */
enum claims_how { CLAIMS_DRAINED = 1, CLAIMS_RESERVED = 2 };
/*
 * For whoever looks at a GPU: `own` are the claims that name it, `parts` those that name one of its
 * MIG devices (claims_of_gpu()); the bits are of `own` alone. "drained: the fan", "reserved (talk)
 * for alice, 2026-12-01T08:00:00+01:00 to ...", also before it begins; several with "; "; or "".
 */
unsigned claims_how(const struct claims *claims, uint64_t own, uint64_t parts, int64_t now_unix_ns,
		    char out[CLAIM_TEXT_MAX]);
/* The one by which the user is drained; NULL. */
const struct claim *claims_user(const struct claims *claims, uid_t uid);
/* The reservation of this name; or the drain of this user; `count` for none. */
size_t claims_find(const struct claims *claims, const char *name);
size_t claims_find_user(const struct claims *claims, uid_t uid);
/* The drain that names this GPU; NULL. */
const struct claim *claims_drain(const struct claims *claims, const char *uuid);
/* The reservation that has this GPU at some time from `begin` to `end`; NULL. */
const struct claim *claims_overlap(const struct claims *claims, const char *uuid,
				   int64_t begin_unix_ns, int64_t end_unix_ns);
/* When something becomes different by itself, after now; INT64_MAX: never. */
int64_t claims_next(const struct claims *claims, int64_t now_unix_ns);

/* -EINVAL names what cannot be meant. */
int claim_check(const struct claim *claim, struct err *err);
/* "night for alice until 2026-12-01T08:00:00+01:00: GPU 0, 1", "GPU 3: fan", "user bob: left". */
const char *claim_text(const struct claim *claim, char out[CLAIM_TEXT_MAX]);

/* The bytes (owned). -E2BIG, -ENOMEM; and back: -EINVAL, -ENOMEM. Takes anything. */
int claims_format(const struct claims *claims, char **out_bytes, size_t *out_length);
int claims_parse(const void *bytes, size_t length, struct claims *out, struct err *err);

#endif
