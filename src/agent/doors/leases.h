/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger of what the kubelet's containers hold, kept on disk so that "since" outlives the
 * agent. It follows what the kubelet says and decides nothing. Jobs of the queue are in the queue's
 * own store. All of it belongs to the loop's thread; the file is written on the storage thread.
 */
#ifndef SLUICE_AGENT_DOORS_LEASES_H
#define SLUICE_AGENT_DOORS_LEASES_H

#include <stdint.h>

struct err;
struct leases;
struct ledger;
struct log;
struct podresources;
struct policy;
struct storage;

struct leases_options {
	struct storage *storage; /* borrowed */
	struct log *log;	 /* borrowed; may be NULL */
	const char *state_dir;	 /* the file is `leases` in it. Borrowed for the call of
				    leases_new() */
};

/* Reads the file. A damaged one is renamed to leases.damaged; that one, or what cannot be read, is
 * said in the log, and the ledger begins empty. -ENOMEM, -ENAMETOOLONG. */
int leases_new(const struct leases_options *options, struct leases **out, struct err *err);
/* After the storage thread has ended. NULL is fine; returns NULL. */
struct leases *leases_free(struct leases *leases);

/*
 * What the kubelet says is so: leases that it does not list end, those it does begin. Of several
 * containers of a device the first in the order of podresources_at() holds it, which an earlier one
 * keeps. Resources that the policy does not give to the kubelet are nobody's business here.
 */
void leases_follow(struct leases *leases, const struct podresources *podresources,
		   const struct policy *policy, int64_t now_unix_ns);

/* Borrowed. */
const struct ledger *leases_ledger(const struct leases *leases);

#endif
