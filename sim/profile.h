/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machine profiles: text files of "key = value" lines in [sections], one machine each
 * (sim/profiles/). The parser is pure: bytes in, machine or an error with line and column out.
 */
#ifndef SLUICE_SIM_PROFILE_H
#define SLUICE_SIM_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "sim/machine.h"

struct sim_error;

/* What `sluice sim start` can change about a profile. */
struct sim_options {
	uint32_t gpu_count; /* 0: all of the profile's */
	uint64_t seed;
	const char *driver_version; /* NULL: the profile's */
	const char *mig_layout;	    /* NULL: none */
	const char *minors;	    /* "3,1,0,2": permutation; NULL: equal to the indices */
	bool fabric;
};

/* Parses `text`; `file` is its name in errors ("FILE:LINE:COLUMN: ..."). Fills `*out` with a
 * machine at tick 0 with no load. 0, or -1 with `error` (SIM_EXIT_INPUT). */
int sim_profile_parse(const char *text, size_t length, const char *file,
		      const struct sim_options *options, struct sim_machine *out,
		      struct sim_error *error);
/* A profile by name (searched in $SLUICE_PROFILES, then where they are installed) or by path. */
int sim_profile_load(const char *name_or_path, const struct sim_options *options,
		     struct sim_machine *out, struct sim_error *error);

#endif
