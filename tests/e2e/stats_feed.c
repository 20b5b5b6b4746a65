/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers on standard input, one in a line; what src/bench/stats.h says of them as JSON, for a test
 * that asks another program the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/parse.h"
#include "bench/stats.h"

enum { FEED_MAX = 100000, FEED_LINE = 64 };

int main(void)
{
	static double values[FEED_MAX];
	size_t count = 0;
	char line[FEED_LINE];
	struct err err = {0};
	while (count < FEED_MAX && fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		if (parse_fraction(line, -1e15, 1e15, &values[count++]) < 0)
			return 64;
	}
	double p;
	struct stats_interval within_90, within_95;
	if (stats_signed_rank(values, count, &p, &err) < 0)
		return 1;
	stats_sort(values, count);
	if (stats_interval(values, count, 0.90, &within_90, &err) < 0 ||
	    stats_interval(values, count, 0.95, &within_95, &err) < 0)
		return 1;
	(void)printf("{\"p\": %.17g, \"location\": %.17g, \"within_90\": [%.17g, %.17g], "
		     "\"within_95\": [%.17g, %.17g]}\n",
		     p, stats_location(values, count), within_90.low, within_90.high, within_95.low,
		     within_95.high);
	return 0;
}
