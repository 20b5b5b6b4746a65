/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/published.h"

#include "base/check.h"

#define PUBLISHED(round_, submitter_, system_, accelerators_, framework_, benchmark_, minutes_,    \
		  scope_, spread_)                                                                 \
	{.round = (round_),                                                                        \
	 .submitter = (submitter_),                                                                \
	 .system = (system_),                                                                      \
	 .accelerators = (accelerators_),                                                          \
	 .framework = (framework_),                                                                \
	 .benchmark = (benchmark_),                                                                \
	 .minutes = (minutes_),                                                                    \
	 .scope = (scope_),                                                                        \
	 .spread = (spread_)},

static const struct published published_rows[] = {
#include "bench/published.def"
};

const struct published *published_at(size_t i)
{
	return i < array_length(published_rows) ? &published_rows[i] : NULL;
}
