/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the profile parser: what profile.c (lines and sections), profile_keys.c (what each key
 * means) and profile_build.c (from what was written to a whole machine) share. Nobody else includes
 * this.
 */
#ifndef SLUICE_SIM_PROFILE_PARSE_H
#define SLUICE_SIM_PROFILE_PARSE_H

#include <stddef.h>
#include <stdint.h>

#include "sim/machine.h"

struct sim_error;
struct sim_options;

enum profile_limits {
	PROFILE_BYTES_MAX = 1 << 20,
	PROFILE_LINE_MAX = 1024,
	PROFILE_KEY_NAME_MAX = 32, /* of a [model NAME] */
};

/* A piece of the text; never NUL-terminated. */
struct profile_slice {
	const char *at;
	size_t length;
};

enum profile_section {
	PROFILE_NO_SECTION,
	PROFILE_MACHINE,
	PROFILE_MODEL,
	PROFILE_GPU,
	PROFILE_LINKS,
	PROFILE_MIG,
};

/* What the lines say before it is checked as a whole. Pointers lead into the text, for errors. */
struct profile_draft {
	enum profile_section section;
	uint32_t section_index; /* which model or GPU */
	uint64_t machine_seen, model_seen[SIM_MODEL_MAX], gpu_seen[SIM_GPU_MAX];
	char model_key[SIM_MODEL_MAX][PROFILE_KEY_NAME_MAX];
	const char *model_at[SIM_MODEL_MAX], *mig_at[SIM_MODEL_MAX];

	const char *name_at, *bus_at, *numa_at, *model_default_at, *levels_at, *links_at,
	    *mig_layout_at;
	const char *gpu_at[SIM_GPU_MAX], *link_at[SIM_GPU_MAX];
	uint32_t bus_count, numa_count;
	struct profile_slice model_default, gpu_model[SIM_GPU_MAX];
	uint32_t level_pair, level_quad, level_half, level_else;
	bool links_to_switches;
	uint32_t switch_bus;
	uint8_t link_gpu[SIM_GPU_MAX][SIM_LINK_MAX];
	uint32_t link_count[SIM_GPU_MAX];
	bool uuid_given[SIM_GPU_MAX], serial_given[SIM_GPU_MAX];
	char mig_layout[32];
};

struct profile_parser {
	const char *file;
	const char *text;
	size_t length;
	struct sim_error *error;
	const struct sim_options *options;
	struct sim_machine *machine;
	struct profile_draft draft;
};

/* Records "FILE:LINE:COLUMN: ..." for a place in the text and returns -1. */
int profile_fail(const struct profile_parser *parser, const char *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Without blanks at either end. */
struct profile_slice profile_trim(struct profile_slice slice);
/* Takes the next word off `rest` (blanks and the characters of `separators` end it); length 0 at
 * the end. */
struct profile_slice profile_word(struct profile_slice *rest, const char *separators);
bool profile_is(struct profile_slice slice, const char *text);
/* A number in base 10 or 16 (with or without 0x) between min and max. 0 or -1 with the error. */
int profile_number(const struct profile_parser *parser, struct profile_slice slice, uint32_t base,
		   uint64_t min, uint64_t max, uint64_t *out);

/* One "key = value" of the section the draft is in. 0 or -1. */
int profile_key(struct profile_parser *parser, struct profile_slice key,
		struct profile_slice value);
/* After the last line: required keys, cross-checks, topology, links, identities. 0 or -1. */
int profile_build(struct profile_parser *parser);

#endif
