/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is told that a GPU may no longer be used, or may be again: log, Events of the Node, list of
 * what has happened. Whatever brings verdicts about, each of them hears of one at a bounded rate.
 * Decides nothing (vitals.h does).
 */
#ifndef SLUICE_AGENT_HEALTH_NEWS_H
#define SLUICE_AGENT_HEALTH_NEWS_H

#include <stdint.h>

#include "base/repeats.h"
#include "hardware/health.h"

struct cluster;
struct log;
struct vitals;
struct web_events;

/* As vitals_options.changed has it; borrowed for the call. */
struct health_news {
	const char *uuid; /* "": nobody can tell */
	uint32_t index;
	enum health_state before, after;
	const char *why;
};

/* Zero-initialised; nothing in it is to be freed. */
struct health_news_told {
	struct repeats lines; /* of the log */
};

/* All of these may be NULL. */
void health_news_tell(struct health_news_told *told, const struct health_news *news,
		      struct log *log, struct cluster *cluster, struct web_events *events,
		      const struct vitals *vitals);

#endif
