/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often the same may be told: a log line, an Event, an entry of a list. Each key may be told
 * REPEATS_BURST times at once and then once in REPEATS_EVERY_NS; what is left out is counted and
 * told with the next. Whatever goes wrong elsewhere, nobody is flooded. Knows nothing of what is
 * told, and has no memory beside itself.
 */
#ifndef SLUICE_BASE_REPEATS_H
#define SLUICE_BASE_REPEATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPEATS_EVERY_NS UINT64_C(10000000000)

enum repeats_limits {
	REPEATS_BURST = 10,
	REPEATS_KEYS = 256, /* more that are told at the same time share one allowance */
	REPEATS_TEXT_MAX = 48,
};

/* Zero-initialised; nothing in it is to be freed. */
struct repeats {
	struct repeats_key {
		uint64_t hash;	  /* of the key; 0: free */
		uint64_t paid_ns; /* all allowances until then are used up, in steps of EVERY */
		uint64_t left_out;
	} keys[REPEATS_KEYS + 1]; /* the last: of those that found no place */
};

/*
 * Whether `key` may be told at `now_ns` (of any clock that does not go back). `*out_left_out`: how
 * many of the key were not, since it was told last; untouched when it may not be told.
 */
bool repeats_may_tell(struct repeats *repeats, const char *key, uint64_t now_ns,
		      uint64_t *out_left_out);
/* The same with a key in the manner of printf; longer ones than 256 bytes are cut. `out_text`
 * (REPEATS_TEXT_MAX) gets what to append to the text: "" or " (and 12 times more)". */
__attribute__((format(printf, 4, 5))) bool repeats_may_tell_of(struct repeats *repeats,
							       uint64_t now_ns, char *out_text,
							       const char *format, ...);

#endif
