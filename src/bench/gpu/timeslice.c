/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/gpu/timeslice.h"

#include <math.h>
#include <string.h>

bool timeslice_judge(struct timeslice *figures)
{
	double alone = (figures->before + figures->after) / 2;

	if (!(figures->before > 0) || !(figures->after > 0))
		return false;

	figures->alone = alone;
	figures->ratio[0] = figures->one / alone;
	figures->ratio[1] = figures->two / alone;
	figures->sum = figures->ratio[0] + figures->ratio[1];
	figures->apart = fabs(figures->ratio[0] - figures->ratio[1]);
	figures->drift = fabs(figures->before - figures->after) / alone;
	figures->passes = figures->apart <= TIMESLICE_APART;
	figures->is_model = true;

	for (int i = 0; i < 2; i++) {
		double ratio = figures->ratio[i];
		figures->passes =
		    figures->passes && ratio >= TIMESLICE_LOW && ratio <= TIMESLICE_HIGH;
		figures->is_model =
		    figures->is_model && round(ratio * 1000) == round(TIMESLICE_MODEL * 1000);
	}

	return true;
}

bool timeslice_is_t4(const char *device)
{
	size_t length = strlen(device);
	return strcmp(device, "T4") == 0 || (length > 3 && strcmp(device + length - 3, " T4") == 0);
}
