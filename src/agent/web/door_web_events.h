/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What has happened on this machine, for page and metrics: a ring of events in plain words, and
 * how often each XID came on each GPU since the agent began. Told by whoever knows; decides
 * nothing. All of it belongs to the loop's thread.
 */
#ifndef SLUICE_AGENT_WEB_DOOR_WEB_EVENTS_H
#define SLUICE_AGENT_WEB_DOOR_WEB_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/reload.h"
#include "hardware/health.h"
#include "hardware/xid.h"

struct err;
struct inventory;
struct probe_event;
struct view;
struct vitals;
struct web_events;

/* -ENOMEM. NULL is fine in everything below: then nothing is remembered. */
int web_events_new(struct web_events **out, struct err *err);
struct web_events *web_events_free(struct web_events *events);

/*
 * Every event of the probe. An XID counts once, whichever way it came, and not when it is older
 * than the agent; `inventory` (may be NULL) says which GPU is at an address. `vitals` knows
 * the class of a code.
 */
void web_events_probe(struct web_events *events, const struct probe_event *event,
		      const struct inventory *inventory, const struct vitals *vitals);
/* A GPU's verdict is another. `vitals` knows what to do about it. */
void web_events_verdict(struct web_events *events, const char *uuid, uint32_t index,
			enum health_state before, enum health_state after, const char *why,
			const struct vitals *vitals);
void web_events_configuration(struct web_events *events, enum reload_note note, const char *text);
/* Of an RDMA adapter. */
void web_events_adapter(struct web_events *events, bool is_warning, const char *text);

/* Counts up with each event. */
uint64_t web_events_generation(const struct web_events *events);
/* Probes that took the place of another; configurations that were taken, and refused. */
uint64_t web_events_probe_restarts(const struct web_events *events);
uint64_t web_events_reloads(const struct web_events *events, uint64_t *out_failed);

/* Fills event[] (if `all`; else what is there is right already) and xid[], whose GPUs are those of
 * view->snapshot; XIDs of GPUs that are gone are left out until they are back. */
void web_events_fill(const struct web_events *events, bool all, const struct vitals *vitals,
		     struct view *view);

#endif
