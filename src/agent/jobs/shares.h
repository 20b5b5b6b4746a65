/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The account of this agent's users (base/account.h), and whose subordinate user ids are whose:
 * what /etc/subuid says is read when the agent starts and whenever the file changes. Knows nothing
 * of what is counted.
 */
#ifndef SLUICE_AGENT_JOBS_SHARES_H
#define SLUICE_AGENT_JOBS_SHARES_H

#include <stddef.h>

#include "base/account.h"

struct err;
struct log;
struct loop;
struct shares;

enum shares_limits {
	SHARES_TEXT_MAX = 4 << 20, /* bytes of the file; a larger one is not read */
	SHARES_RANGES_MAX = 16384, /* lines of it; what follows is left out */
	SHARES_NAME_MAX = 128,	   /* bytes of a name with its NUL */
};

/* The uid of a user, whose name ends at `length`. False: there is none of that name. */
typedef bool shares_find_fn(const char *name, size_t length, uid_t *out, void *context);

/*
 * The lines "USER:FIRST:COUNT" of subuid(5), USER being a name or a number; others are passed over.
 * A range whose owner is not known, or is root (whose containers are no more root than others'), is
 * a user of its own. Pure. Returns how many were written to `out`, `max` at most.
 */
size_t shares_parse(const char *text, size_t length, shares_find_fn *find, void *context,
		    struct account_range *out, size_t max);

/* `root` is before /etc/subuid, NULL: ""; `passwd`: NULL: /etc/passwd; all borrowed. NULL: -ENOMEM.
 * A file that cannot be read or watched is none. */
struct shares *shares_new(struct loop *loop, struct log *log, const char *root, const char *passwd,
			  struct err *err);
struct shares *shares_free(struct shares *shares);
/* Borrowed: valid as long as the shares. */
struct account *shares_account(struct shares *shares);

#endif
