/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view as JSON: what /api/v1/state, /processes and /events give. Made of members that can be
 * written one by one, because the stream sends only those that changed. What is not known is not
 * there. Pure.
 */
#ifndef SLUICE_WEB_STATE_H
#define SLUICE_WEB_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "web/view.h"

struct buf;
struct busy;
struct err;
struct jsonw;

enum web_state_limits {
	STATE_SCHEMA = 1,
};

/* When and of what it is written. All borrowed. */
struct state_at {
	const struct view *view;
	const struct busy *busy;   /* may be NULL: then no busy_ratio */
	uint64_t sequence, now_ns; /* CLOCK_MONOTONIC */
	int64_t now_unix_ns;
};

/* The age of the newest sample; false: there is none yet. */
bool state_age(const struct view *view, uint64_t now_ns, uint64_t *out_ns);
/* Whether the driver has not said anything for too long. Without a driver nothing is stale: there
 * is nothing. */
bool state_is_stale(const struct view *view, uint64_t now_ns);
/* "unknown", "healthy", "degraded", "unhealthy". */
const char *state_health_to_string(uint32_t health);

/* Whole answers. 0, -ENOSPC, -ENOMEM. */
int state_render(const struct state_at *at, struct buf *out, struct err *err);
int state_render_processes(const struct state_at *at, struct buf *out, struct err *err);
int state_render_events(const struct state_at *at, struct buf *out, struct err *err);

/* "sequence", "time_unix", "age_seconds", "stale": what stands in front of everything. */
void state_put_head(struct jsonw *json, const struct state_at *at);
void state_put_event(struct jsonw *json, const char *key, const struct view_event *event);

/* The members, each by its number below its count; nothing is written of what is not known. */
struct state_member {
	const char *name;
	void (*put)(struct jsonw *json, const char *name, const struct state_at *at);
};
struct state_gpu_member {
	const char *name;
	void (*put)(struct jsonw *json, const char *name, const struct view *view, uint32_t gpu);
};
extern const struct state_member state_members[]; /* but "gpus" and "events" */
extern const uint32_t state_member_count;
extern const struct state_gpu_member state_gpu_members[]; /* but "values" */
extern const uint32_t state_gpu_member_count;

#endif
