/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which jobs a list is to have by name and number, as a ListRequest says: names are patterns,
 * numbers are ranges of them and of the indices of an array. A copy, for the list outlives its
 * request.
 */
#ifndef SLUICE_AGENT_SERVICE_SERVICE_SELECT_H
#define SLUICE_AGENT_SERVICE_SERVICE_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sluice.pb-c.h"

struct err;
struct job;

enum select_limits {
	SELECT_NAMES_MAX = 32,
	SELECT_NAME_BYTES_MAX = 128, /* of a pattern */
	SELECT_RANGES_MAX = 256,
};

struct select_range {
	uint64_t first, last, array_id;
	bool alone;
};

struct service_select {
	char (*names)[SELECT_NAME_BYTES_MAX]; /* owned */
	size_t name_count;
	struct select_range *ranges; /* owned */
	size_t range_count;
};

/* -EINVAL: too many, too long, no pattern, or a range that begins behind its end. -ENOMEM. Whatever
 * it says, service_select_done() follows. */
int service_select_take(struct service_select *select, const Sluice__V1__ListRequest *asked,
			struct err *err);
/* `sees_name`: by the name it is found by those who see it alone. */
bool service_select_has(const struct service_select *select, const struct job *job, bool sees_name);
void service_select_done(struct service_select *select);

#endif
