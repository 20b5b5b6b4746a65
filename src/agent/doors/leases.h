/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's ledger (units/ledger.h), and the kubelet's part of it: what its containers hold is
 * what the kubelet says, and what it is just being given. That part is kept on disk, so that
 * "since" outlives the agent, and so does who holds what while the kubelet is away; the queue
 * enters its jobs itself. All of it belongs to the loop's thread; the file is written on the
 * storage thread.
 */
#ifndef SLUICE_AGENT_DOORS_LEASES_H
#define SLUICE_AGENT_DOORS_LEASES_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct inventory;
struct leases;
struct ledger;
struct log;
struct podresources;
struct storage;

/* A unit that was handed out and that the kubelet does not list yet stays held for so long: longer
 * than PODRESOURCES_PERIOD_NS and PODRESOURCES_DEADLINE_NS together, so that it has been asked
 * since. */
#define LEASES_STARTING_NS UINT64_C(30000000000)
/* Who holds it then. */
#define LEASES_STARTING "a container that is being started"

struct leases_options {
	struct storage *storage; /* borrowed */
	struct log *log;	 /* borrowed; may be NULL */
	const char *state_dir;	 /* the file is `leases` in it. Borrowed for the call of
				    leases_new() */
	/* The kubelet's containers hold something else than before. May be NULL. */
	void (*changed)(void *context);
	void *context;
};

/* Reads the file. A damaged one is renamed to leases.damaged; that one, or what cannot be read, is
 * said in the log, and the ledger begins empty. -ENOMEM, -ENAMETOOLONG. */
int leases_new(const struct leases_options *options, struct leases **out, struct err *err);
/* After the storage thread has ended. NULL is fine; returns NULL. */
struct leases *leases_free(struct leases *leases);

/* The machine's devices are these; NULL: not known, and it stays as it was. */
void leases_describe(struct leases *leases, const struct inventory *inventory);

/*
 * What the kubelet says is so: leases that it does not list end, those it does begin. Of several
 * containers of a device the first in the order of podresources_at() holds it, which an earlier one
 * keeps. What is no device of the inventory is nobody's business here, and a device that the queue
 * has handed out stays the job's: that is said in the log. `podresources` NULL: there is no kubelet
 * any more. `now_ns`: CLOCK_MONOTONIC.
 */
void leases_follow(struct leases *leases, const struct podresources *podresources,
		   const struct inventory *inventory, int64_t now_unix_ns, uint64_t now_ns);

/* The kubelet gives these units to a container: all or none. A unit that one of its containers has
 * is the kubelet's to give to the next. -EBUSY names who else has one, -ENOSPC, -ENOMEM. */
int leases_start(struct leases *leases, const char *resource, char *const *units, size_t count,
		 int64_t now_unix_ns, uint64_t now_ns, struct err *err);

/* Borrowed. */
struct ledger *leases_ledger(const struct leases *leases);

#endif
