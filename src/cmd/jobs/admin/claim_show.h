/* SPDX-License-Identifier: Apache-2.0 */
/* What is drained and reserved, for people and programs. */
#ifndef SLUICE_CMD_JOBS_ADMIN_CLAIM_SHOW_H
#define SLUICE_CMD_JOBS_ADMIN_CLAIM_SHOW_H

#include <jansson.h>

#include "cmd/table.h"
#include "sluice.pb-c.h"

enum { CLAIM_SHOW_LINE_MAX = 1024 };

/* The field `kind`, as src/doors/queue/claim/claims.h numbers it. */
enum claim_show_kind {
	CLAIM_SHOW_DRAINED_GPUS = 1,
	CLAIM_SHOW_DRAINED_USER = 2,
	CLAIM_SHOW_RESERVATION = 3,
};

/* Owned by the caller. NULL: no memory. */
json_t *claim_show_json(const Sluice__V1__Claim *claim);

/* Six cells: name, GPUs, for whom, from, until, reason. */
void claim_show_row(struct table *table, const Sluice__V1__Claim *claim);

/* "drained: GPU 3: its fan is loud", in `out`, cut to its size; not escaped. NULL: it concerns no
 * GPU. */
const char *claim_show_line(const Sluice__V1__Claim *claim, char out[CLAIM_SHOW_LINE_MAX]);

#endif
