/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How busy each holder was in the last seconds: the view has counters, and this remembers those of
 * a moment ago. Pure but for its memory.
 */
#ifndef SLUICE_WEB_BUSY_H
#define SLUICE_WEB_BUSY_H

#include <stdbool.h>
#include <stdint.h>

struct busy;
struct err;
struct view;

enum busy_limits { BUSY_SPAN_S = 5 }; /* the ratio is of 5 to 10 seconds */

struct busy *busy_new(struct err *err);
struct busy *busy_free(struct busy *busy);
/* Takes the counters of a new view over. Without memory it forgets. */
void busy_note(struct busy *busy, const struct view *view);
/* Thousandths of the time in which holder `holder` of `view` (the one noted last) was busy; false:
 * not known. Never more than 1000. */
bool busy_ratio(const struct busy *busy, const struct view *view, uint32_t holder,
		uint32_t *out_thousandths);

#endif
