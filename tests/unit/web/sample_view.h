/* SPDX-License-Identifier: Apache-2.0 */
/* A view as an agent would write it, simulated: for the tests of what reads one. */
#ifndef SLUICE_TESTS_WEB_SAMPLE_VIEW_H
#define SLUICE_TESTS_WEB_SAMPLE_VIEW_H

#include <stdint.h>

struct view;

struct sample_options {
	uint32_t gpus, migs; /* migs: per GPU */
	uint32_t holders, jobs, processes, events;
	const char *hostile; /* becomes the name of pods, jobs, users, processes; NULL: tame ones */
};

/* Fills `view` (zeroed before) at `step` seconds after its beginning. Times are now. */
void sample_view_fill(struct view *view, const struct sample_options *options, uint64_t step);
/* Moves what moves from second to second. */
void sample_view_step(struct view *view, uint64_t step);
/* One event more, the newest. */
void sample_view_event(struct view *view, uint32_t gpu, uint32_t xid);

#endif
