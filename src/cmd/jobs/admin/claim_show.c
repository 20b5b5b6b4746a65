/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/admin/claim_show.h"

#include <stdio.h>

#include "job/moment.h"

enum { CLAIM_GPUS_TEXT = 512 };

static void claim_gpus(const Sluice__V1__Claim *claim, char out[CLAIM_GPUS_TEXT])
{
	size_t length = 0;

	out[0] = '\0';
	for (size_t i = 0; i < claim->n_gpus && length < CLAIM_GPUS_TEXT; i++) {
		int added = snprintf(out + length, CLAIM_GPUS_TEXT - length, "%s%s", i ? ", " : "",
				     claim->gpus[i]->label);
		length += added > 0 ? (size_t)added : 0;
	}
}

static const char *claim_title(const Sluice__V1__Claim *claim)
{
	return claim->kind == CLAIM_SHOW_RESERVATION ? claim->name : "(drained)";
}

json_t *claim_show_json(const Sluice__V1__Claim *claim)
{
	bool is_reservation = claim->kind == CLAIM_SHOW_RESERVATION;
	json_t *gpus = json_array();

	for (size_t i = 0; gpus && i < claim->n_gpus; i++)
		(void)json_array_append_new(
		    gpus, json_pack("{s:o, s:o}", "uuid", table_json_text(claim->gpus[i]->uuid),
				    "label", table_json_text(claim->gpus[i]->label)));

	return json_pack(
	    "{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "kind",
	    is_reservation			     ? "reservation"
	    : claim->kind == CLAIM_SHOW_DRAINED_USER ? "drained user"
						     : "drained GPUs",
	    "name", is_reservation ? table_json_text(claim->name) : json_null(), "user",
	    claim->has_user ? table_json_text(claim->who) : json_null(), "group",
	    claim->has_group ? table_json_text(claim->who) : json_null(), "reason",
	    *claim->reason ? table_json_text(claim->reason) : json_null(), "begin_unix",
	    is_reservation ? json_real((double)claim->begin_unix_ns / 1e9) : json_null(),
	    "end_unix", is_reservation ? json_real((double)claim->end_unix_ns / 1e9) : json_null(),
	    "gpus", gpus, "moved", *claim->moved ? table_json_text(claim->moved) : json_null());
}

void claim_show_row(struct table *table, const Sluice__V1__Claim *claim)
{
	bool is_reservation = claim->kind == CLAIM_SHOW_RESERVATION;
	char text[CLAIM_GPUS_TEXT], begin[MOMENT_SHOWN_MAX], end[MOMENT_SHOWN_MAX];

	claim_gpus(claim, text);
	table_add(table, claim_title(claim));
	table_add(table, text);
	table_addf(table, "%s%s", claim->has_group ? "group " : "", claim->who);
	table_add(table, is_reservation ? moment_format(claim->begin_unix_ns, begin) : "");
	table_add(table, is_reservation ? moment_format(claim->end_unix_ns, end) : "");
	table_addf(table, "%s%s%s", claim->reason, *claim->reason && *claim->moved ? "; " : "",
		   claim->moved);
}

const char *claim_show_line(const Sluice__V1__Claim *claim, char out[CLAIM_SHOW_LINE_MAX])
{
	char gpus[CLAIM_GPUS_TEXT], begin[MOMENT_SHOWN_MAX], end[MOMENT_SHOWN_MAX];
	const char *colon = *claim->reason ? ": " : "";

	claim_gpus(claim, gpus);
	if (claim->kind == CLAIM_SHOW_DRAINED_GPUS)
		(void)snprintf(out, CLAIM_SHOW_LINE_MAX, "drained: %s%s%s", gpus, colon,
			       claim->reason);
	else if (claim->kind == CLAIM_SHOW_RESERVATION)
		(void)snprintf(out, CLAIM_SHOW_LINE_MAX,
			       "reserved (%s): %s, for %s%s, %s to %s%s%s%s%s", claim->name, gpus,
			       claim->has_group ? "group " : "", claim->who,
			       moment_format(claim->begin_unix_ns, begin),
			       moment_format(claim->end_unix_ns, end), colon, claim->reason,
			       *claim->moved ? "; " : "", claim->moved);
	else
		return NULL;
	return out;
}
