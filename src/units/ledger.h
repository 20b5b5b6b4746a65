/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who holds what, for all doors: each takes here before it hands out, and whoever is late is told
 * who came first. It decides nothing (the allocator chooses) and starts nothing.
 *
 * A lease is of a unit: a device ("GPU-..."), one slot of it ("GPU-...::3"), or, when it has
 * amounts, a part of a device ("GPU-..." and so many bytes). These exclude each other:
 *   - a device that is held has one holder, a slot has one, a part has any number;
 *   - a device is held whole, by slots or by parts: one of the three at a time;
 *   - a GPU and its MIG devices are not held at the same time;
 *   - what is held of a device was handed out by one door;
 *   - the amounts of a device's leases never sum up to more than it has.
 *
 * The truth is in memory. Each door enters what it holds again when the agent comes back: the queue
 * from its store. What the kubelet's containers hold is kept in a file as well, because the kubelet
 * may come back later than the agent.
 */
#ifndef SLUICE_UNITS_LEDGER_H
#define SLUICE_UNITS_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"

struct err;
struct ledger;

enum ledger_limits {
	LEDGER_HOLDER_MAX = 384, /* "NAMESPACE/POD/CONTAINER" (63 + 253 + 63) with its NUL */
	LEDGER_LEASES_MAX = POLICY_UNITS_MAX,
	LEDGER_FILE_MAX = 16 << 20, /* bytes */
};

/* What a device has a quantity of. */
enum ledger_amount {
	LEDGER_MEMORY, /* bytes */
	LEDGER_TIME,   /* slices */
	LEDGER_AMOUNTS,
};
const char *ledger_amount_to_string(enum ledger_amount amount);

/* A device that there is. */
struct ledger_device {
	const char *uuid; /* borrowed for the call */
	const char *gpu;  /* of a MIG device the UUID of its GPU; NULL: it is one */
	uint64_t capacity[LEDGER_AMOUNTS]; /* 0: nothing of it can be had by amount */
};

/* Texts are borrowed; those of a lease in the ledger are the ledger's until it ends. */
struct ledger_lease {
	const char *unit;     /* as policy_unit.id */
	const char *resource; /* under which name it was handed out; "": the queue has none */
	const char *holder;   /* in words: a pod's container, "job 12 of alice" */
	enum policy_door door;
	uint64_t job; /* of the queue; 0: no job */
	uint64_t amount[LEDGER_AMOUNTS];
	int64_t since_unix_ns; /* CLOCK_REALTIME, for people */
	uint64_t until_ns;     /* CLOCK_MONOTONIC; for its door: not ended before; 0: at any time */
};

/* NULL: no memory. */
struct ledger *ledger_new(void);
struct ledger *ledger_free(struct ledger *ledger);

/* What there is from now on, in place of what there was; a device that is gone stays as it was
 * while somebody holds it. What is held is not judged again. -ENOMEM: called again. */
int ledger_describe(struct ledger *ledger, const struct ledger_device *devices, size_t count,
		    struct err *err);

/*
 * Enters a lease; copies it. -EBUSY when something that is held excludes it (the error names the
 * holder, who may be the same) or too little is left, -ERANGE for more than the device has, -EINVAL
 * for an empty or unprintable unit, resource or holder, -ENOSPC at LEDGER_LEASES_MAX, -ENOMEM.
 */
int ledger_take(struct ledger *ledger, const struct ledger_lease *lease, struct err *err);
/* All of them or none, which is what a job that wants several units needs. Errors as above. */
int ledger_take_all(struct ledger *ledger, const struct ledger_lease *leases, size_t count,
		    struct err *err);
/* What `holder` has of the unit of `lease` is that lease from now on: nobody comes in between.
 * -ENOENT, -EPERM as ledger_release(); else as ledger_take(), and it stays as it was. */
int ledger_transfer(struct ledger *ledger, const char *holder, const struct ledger_lease *lease,
		    struct err *err);
/* Ends a lease. -ENOENT when nobody holds the unit, -EPERM when it is somebody else. */
int ledger_release(struct ledger *ledger, const char *unit, const char *holder, struct err *err);
/* Ends all leases of a holder; returns how many. */
size_t ledger_release_holder(struct ledger *ledger, const char *holder);
/* Sets `until_ns` of the unit's lease, if there is one. */
void ledger_keep(struct ledger *ledger, const char *unit, uint64_t until_ns);

/* The lease of a unit, of several parts the first, or NULL. Borrowed: valid until the next change.
 */
const struct ledger_lease *ledger_find(const struct ledger *ledger, const char *unit);
size_t ledger_count(const struct ledger *ledger);
/* Lease number `index` in the order of devices, slots and holders, or NULL. Borrowed as above. */
const struct ledger_lease *ledger_at(const struct ledger *ledger, size_t index);
/* How much of an amount is held of a device. */
uint64_t ledger_held(const struct ledger *ledger, const char *uuid, enum ledger_amount amount);

enum ledger_form {
	LEDGER_ANY,   /* the door sees to it itself */
	LEDGER_WHOLE, /* as one unit */
	LEDGER_SHARE, /* by slots or parts */
};
const char *ledger_form_to_string(enum ledger_form form);
/*
 * The lease because of which this door cannot hand out anything of the device in this form, or
 * NULL: another door's, one of another form, of its GPU or of one of its MIG devices. Leases of
 * the same door and form are none, for they end by the same door. Borrowed as above.
 */
const struct ledger_lease *ledger_obstacle(const struct ledger *ledger, const char *uuid,
					   enum policy_door door, enum ledger_form form);

/*
 * The leases of one door, but for those with amounts, as the text of a file, and back.
 * ledger_parse() takes anything: -EINVAL with the line for what is not a ledger of this version, is
 * cut short, or holds a unit twice; -EFBIG, -ENOMEM.
 */
int ledger_format(const struct ledger *ledger, enum policy_door door, char **out_text,
		  size_t *out_length, struct err *err);
int ledger_parse(const char *text, size_t length, const char *name, struct ledger **out,
		 struct err *err);
/* Reads a file; none is an empty ledger. A damaged file is an error and stays where it is. */
int ledger_load(const char *path, struct ledger **out, struct err *err);

#endif
