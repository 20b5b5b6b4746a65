/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who holds what: one lease for each unit that is handed out, with its holder and since when. The
 * only place that knows; the doors ask it before they hand out and tell it afterwards. It decides
 * nothing (the allocator chooses) and starts nothing.
 *
 * A unit has at most one lease. Replicas are units of their own, so N holders of a shared GPU are N
 * leases. Leases outlive the agent: they are written to a file, whole and at once, and read back at
 * the next start. A lease whose unit is gone from the machine stays until its holder gives it back.
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

struct ledger_lease {
	char unit[POLICY_ID_MAX];	/* policy_unit.id */
	char resource[CONFIG_NAME_MAX]; /* under which name it was handed out */
	enum policy_door door;
	char holder[LEDGER_HOLDER_MAX]; /* a pod's container, or "job ID (user NAME)" */
	int64_t since_unix_ns;		/* CLOCK_REALTIME, for people */
};

/* NULL: no memory. */
struct ledger *ledger_new(void);
struct ledger *ledger_free(struct ledger *ledger);

/*
 * Enters a lease; copies it. -EBUSY when the unit is held (the error names the holder, who may be
 * the same), -EINVAL for an empty or unprintable unit, resource or holder, -ENOSPC at
 * LEDGER_LEASES_MAX, -ENOMEM.
 */
int ledger_take(struct ledger *ledger, const struct ledger_lease *lease, struct err *err);
/* All of them or none, which is what a job that wants several units needs. Errors as above. */
int ledger_take_all(struct ledger *ledger, const struct ledger_lease *leases, size_t count,
		    struct err *err);
/* Ends a lease. -ENOENT when nobody holds the unit, -EPERM when it is somebody else. */
int ledger_release(struct ledger *ledger, const char *unit, const char *holder, struct err *err);
/* Ends all leases of a holder; returns how many. */
size_t ledger_release_holder(struct ledger *ledger, const char *holder);

/* The lease of a unit, or NULL. Borrowed: valid until the next change. */
const struct ledger_lease *ledger_find(const struct ledger *ledger, const char *unit);
size_t ledger_count(const struct ledger *ledger);
/* Lease number `index` in the order of unit ids, or NULL. Borrowed as above. */
const struct ledger_lease *ledger_at(const struct ledger *ledger, size_t index);

/*
 * The ledger as the text of its file, and back. ledger_parse() takes anything: -EINVAL with the
 * line for what is not a ledger of this version, is cut short, or holds a unit twice; -EFBIG,
 * -ENOMEM.
 */
int ledger_format(const struct ledger *ledger, char **out_text, size_t *out_length,
		  struct err *err);
int ledger_parse(const char *text, size_t length, const char *name, struct ledger **out,
		 struct err *err);

/* Replaces the file atomically (0600). Errors of file_write_atomic(). */
int ledger_save(const struct ledger *ledger, const char *path, struct err *err);
/* Reads it; no file is an empty ledger. A damaged file is an error and stays where it is. */
int ledger_load(const char *path, struct ledger **out, struct err *err);

#endif
