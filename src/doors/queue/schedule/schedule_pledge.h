/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pledge: what becomes free is promised to one job of each priority, the oldest of those that
 * are due (schedule_due_ns). (A reservation is what an administrator makes; this is the scheduler's
 * own.)
 *
 * When the pledge is made, so is a promise: the moment by which enough of the devices will be free,
 * if all that runs ends as its limit says, or where it has none as is estimated. From then on,
 *   - what starts on the devices that are gathered for it ends before the promise;
 *   - what of its priority and below started since, and does not end before it, is never counted
 * on;
 *   - the promise moves to an earlier moment where jobs end earlier, and to a later one only where
 * a job of a higher priority took what was pledged;
 *   - once the promise has passed (an estimate was wrong, a job takes long to end) or where there
 *     never was one (nobody knows when what runs ends), all that becomes free is gathered, and
 * nothing starts on it. So the job waits for those that ran when the pledge was made, and for none
 * that came later, but for those that said that they would be gone by then.
 *   - once one that went past by an estimate takes longer, only limits count against this pledge.
 * So the job waits for the rest of those that were past it at that moment, and no estimate delays
 * it twice.
 *
 * Nobody starves: a job that is due and older than all others that are due has the next pledge,
 * jobs that come later are younger, and each of the older ones is served once. It is behind as many
 * pledges as there are older jobs, and the one that was made before.
 *
 * Pure. For schedule*.c alone.
 */
#ifndef SLUICE_DOORS_QUEUE_SCHEDULE_SCHEDULE_PLEDGE_H
#define SLUICE_DOORS_QUEUE_SCHEDULE_SCHEDULE_PLEDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job/place.h"

struct schedule_guest;
struct schedule_state;

/* When one of the devices that a job could use is free for it. */
struct schedule_opening {
	uint64_t at_ns; /* from now; SCHEDULE_NEVER: not known */
	uint16_t place;
	bool is_estimate;
	bool is_counted; /* healthy, and nobody's from outside */
};

/* When the job in hand can start, and on what. */
struct schedule_plan {
	uint64_t opens_ns; /* from now; SCHEDULE_NEVER: not known */
	bool is_estimate;
	size_t count; /* of `gathered`: devices that are kept for it */
	uint16_t gathered[PLACE_UNIT_MAX];
};

/* How long what is on a device still takes, as far as the job in hand may count on it. */
uint64_t schedule_pledge_left(const struct schedule_state *state,
			      const struct schedule_guest *guest);
/* All that it could use, and nobody knows when it can. */
void schedule_plan_all(const struct schedule_state *state, struct schedule_plan *out);
/* What is kept for the job in hand, out of when its devices open. Sorts `openings`. */
void schedule_plan_make(const struct schedule_state *state, struct schedule_opening *openings,
			size_t count, struct schedule_plan *out);
/* Makes the pledge, or goes on with it, for the job in hand; `*plan` may become all devices. What
 * starts on those that are kept has to end within the time returned; 0: nothing does. */
uint64_t schedule_pledge_window(struct schedule_state *state, struct schedule_plan *plan);
/* The same where the job in hand waits for something beside devices: nobody knows by when. */
void schedule_pledge_stay(struct schedule_state *state);

#endif
