/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands behind '?' in a request, as values. Pure. Only what a path knows may stand there: a
 * misspelt parameter that is silently left out gives an answer to another question.
 */
#ifndef SLUICE_WEB_QUERY_H
#define SLUICE_WEB_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "web/view.h"

struct err;

enum query_limits {
	QUERY_VALUE_MAX = 64,
	QUERY_PARAMETERS_MAX = 8,
};

enum query_parameter { /* bits: what a path takes */
		       QUERY_SET = 1,
		       QUERY_SERIES = 2,
		       QUERY_SINCE = 4,
		       QUERY_RESOLUTION = 8,
};

struct query {
	bool has_set;
	enum view_set set;
	char series[QUERY_VALUE_MAX]; /* "": not given */
	bool has_since;
	int64_t since_unix_ns;
	uint32_t resolution_s; /* 1 or 10; 0: not given */
};

/*
 * Reads "set=dcgm&since=1763835000.25". `taken`: bits of enum query_parameter. 0, or -EINVAL with
 * the parameter and what it may be in `err`.
 */
int query_parse(const char *text, size_t length, unsigned taken, struct query *out,
		struct err *err);

#endif
