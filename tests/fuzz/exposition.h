/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the text format 0.0.4 as strictly as a scraper may, and shares no code with what writes it:
 * heads before lines, families in one piece, no series twice, names and labels as the format has
 * them, valid UTF-8, numbers without an exponent. For unit tests and the fuzz target.
 */
#ifndef TESTS_FUZZ_EXPOSITION_H
#define TESTS_FUZZ_EXPOSITION_H

#include <stddef.h>

struct exposition {
	size_t families, series;
	size_t most_labels; /* of a series whose name begins with sluice_ */
	char problem[512];  /* "" if the text is well formed */
};

/* Fills `out`; `out->problem` names the first line that is not well formed. */
void exposition_read(const char *text, size_t length, struct exposition *out);

#endif
