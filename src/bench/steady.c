/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/steady.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "bench/stats.h"

static double steady_median(const double *samples, size_t count, double *room)
{
	memcpy(room, samples, count * sizeof(*room));
	return stats_median(room, count);
}

int steady_find(const double *samples, size_t count, struct steady *out, struct err *err)
{
	if (count == 0)
		return err_set(err, -EINVAL, "there is no sample");
	if (count > STEADY_SAMPLES_MAX)
		return err_set(err, -E2BIG, "%zu samples of one run: at most %d are possible",
			       count, STEADY_SAMPLES_MAX);

	_cleanup_free_ double *room = calloc(count, sizeof(*room));
	if (!room)
		return err_set(err, -ENOMEM, "no memory for %zu samples", count);

	struct steady found = {.is_steady = count < 2 * STEADY_WINDOW};
	size_t half = count / 2;
	double settled = steady_median(samples + half, count - half, room);

	for (size_t i = 0; !found.is_steady && i + STEADY_WINDOW <= count; i++) {
		double median = steady_median(samples + i, STEADY_WINDOW, room);
		if (fabs(median - settled) <= STEADY_NEAR * fabs(settled)) {
			found.is_steady = true;
			found.discard = i;
		}
	}

	found.median = steady_median(samples + found.discard, count - found.discard, room);
	*out = found;
	return 0;
}
