/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The accounts of who uses which device: busy time, memory and processes, for each pair of an owner
 * (a container, a job) and a device. Counts what it is told, from one round to the next; knows
 * nothing of /proc, kubelet or queue, and no clock.
 *
 * What always holds: a counter never decreases while its holding lives, and what the holdings of a
 * device were given is never more than the device was busy in the same time.
 */
#ifndef SLUICE_AGENT_USAGE_HOLDINGS_H
#define SLUICE_AGENT_USAGE_HOLDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "web/view.h"

struct err;
struct holdings;

enum holdings_limits {
	HOLDINGS_USES_MAX = SNAPSHOT_PROCESS_MAX + 1,
	HOLDINGS_DORMANT_MAX = 128, /* kept while nothing is seen of them */
};
/* How long the account of somebody who has left is kept, should he come back: a process that waits
 * between two programs. */
#define HOLDINGS_DORMANT_NS UINT64_C(120000000000)
/* A driver tells the busy time of a device and the shares of its processes in samples of their own,
 * a sixth of a second to a second long: what does not meet in a round may meet in a later one, but
 * not more than this of either. */
#define HOLDINGS_WINDOW_NS UINT64_C(500000000)

struct holding {
	/* The caller fills in names, mode and places; slots, processes and memory begin at nothing
	 * in each round; busy_ns and energy_mj are counted here. */
	struct view_holder view;
	bool is_here;		/* touched in this round */
	bool memory_is_unknown; /* of one of its processes at least */
	uint32_t place;		/* in the view, after holdings_emit() */
	char device[SNAPSHOT_TEXT_MAX];
	char *owner;	  /* owned, the rest is for holdings.c alone */
	uint64_t owed_ns; /* told by shares, and the device's busy time has not come yet */
	uint64_t gone_ns;
	struct holding *next;
};

/* -ENOMEM. */
int holdings_new(struct holdings **out, struct err *err);
struct holdings *holdings_free(struct holdings *holdings);

/* A new round: nobody is here. At most `max` may be. */
void holdings_begin(struct holdings *holdings, uint32_t max);
/* The holding of an owner on a device, which is here now. NULL: no room or no memory, counted once
 * for each pair of a round. Borrowed until the next call of a function that may end one. */
struct holding *holdings_touch(struct holdings *holdings, const char *owner, const char *device);
/* The same without a touch. NULL: there is none, or it is not here. */
struct holding *holdings_find(const struct holdings *holdings, const char *owner,
			      const char *device);
/* One more replica of the device that it was given; SNAPSHOT_U32_ABSENT: all of the device. */
void holdings_give(struct holding *holding, uint32_t slot);
/* One more of its processes on the device. SNAPSHOT_U64_ABSENT: not known. */
void holdings_add_process(struct holding *holding, uint64_t memory_bytes);
/* What `owner` had on the device was this one's all the time: names became known. */
void holdings_merge(struct holdings *holdings, const char *owner, struct holding *into);
/* Those that were not touched leave. */
void holdings_end(struct holdings *holdings, uint64_t now_ns);

/* What a device did since the round before. */
struct holdings_device {
	uint64_t elapsed_ns;
	uint64_t busy_ns;   /* or SNAPSHOT_U64_ABSENT */
	uint64_t energy_mj; /* or SNAPSHOT_U64_ABSENT */
};
struct holdings_use {
	struct holding *holding; /* borrowed; NULL: nobody that is counted */
	uint32_t percent;	 /* of the time, or SNAPSHOT_U32_ABSENT */
};
/* What a device was busy, and nobody was given yet. Zero-initialised, the caller's from round to
 * round. */
struct holdings_purse {
	uint64_t busy_ns, energy_mj;
	uint64_t owed_ns;   /* to those who are not counted */
	uint64_t waited_ns; /* since shares were told */
	bool tells;	    /* the driver tells the processes of this device apart */
};
/*
 * Divides the device's busy time by its processes' shares, scaled down where they are more together
 * than the device was busy. In a round in which the driver tells no shares, they are waited for;
 * where it never has, a holding that is alone gets all. Returns false: several use the device, it
 * was busy, and nobody knows who.
 */
bool holdings_charge(struct holdings_purse *purse, const struct holdings_device *device,
		     const struct holdings_use *uses, size_t count);

/* Those that are here, in the order of device, then with what was given first, by replica. At most
 * `max` of holdings_begin(). */
void holdings_emit(struct holdings *holdings, struct view *view);
/* Pairs for which there was no room in this round. */
uint64_t holdings_lost(const struct holdings *holdings);
/* All that have memory here. */
size_t holdings_count(const struct holdings *holdings);
/* NULL: there are not so many. They may be not here. */
struct holding *holdings_at(const struct holdings *holdings, size_t index);

#endif
