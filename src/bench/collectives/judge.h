/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run of the collectives comes to: wrong results, gates of bandwidth and latency,
 * expectations, and whether anything can be said at all. Pure; knows nothing of how it is printed.
 */
#ifndef SLUICE_BENCH_COLLECTIVES_JUDGE_H
#define SLUICE_BENCH_COLLECTIVES_JUDGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/findings.h"
#include "bench/checks.h"
#include "bench/collectives/expect.h"
#include "bench/collectives/sheet.h"
#include "bench/collectives/sheet_json.h"

struct judge {
	struct checks checks;
	enum findings_exit exit;
};

/* `out` is initialised here. `expect`: NULL, none. -ENOMEM. */
int judge_make(const struct sheet *sheet, const struct expect *expect, struct judge *out);
void judge_done(struct judge *judge);
#define _cleanup_judge_ __attribute__((cleanup(judge_done)))

#endif
