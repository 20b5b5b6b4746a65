/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/doors/held_forms.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/text.h"
#include "policy/policy.h"
#include "units/ledger.h"

/* NULL: it can be handed out. */
static const char *held_why(const struct ledger *ledger, const char *uuid, bool is_mig,
			    bool is_shared)
{
	const struct ledger_lease *lease = ledger_obstacle(ledger, uuid, POLICY_DOOR_KUBELET,
							   is_shared ? LEDGER_SHARE : LEDGER_WHOLE);
	if (!lease)
		return NULL;

	bool is_job = lease->door == POLICY_DOOR_QUEUE;
	size_t length = strlen(uuid);
	bool is_this = text_starts_with(lease->unit, uuid) &&
		       (lease->unit[length] == '\0' || lease->unit[length] == ':');

	if (!is_this && is_mig)
		return is_job ? "a job holds its whole GPU: it is given once that is free"
			      : "a container holds its whole GPU: it is given once that is free";
	if (!is_this)
		return is_job ? "a job holds a MIG device of it: it is given whole once that is "
				"free"
			      : "a container holds a MIG device of it: it is given whole once "
				"that is free";
	if (is_job)
		return "a job holds it: it is given once it is free";

	return is_shared ? "a container holds it whole: it is shared once it is free"
			 : "a container holds a share of it: it is given whole once it is free";
}

static const char *held_judge(const struct inventory *inventory, const struct ledger *ledger,
			      const struct policy_unit *unit, struct held_forms *out)
{
	bool is_shared = unit->replicas > 1, is_mig = unit->mig != POLICY_WHOLE_GPU;
	const char *uuid =
	    is_mig ? inventory->migs[unit->mig].uuid : inventory->gpus[unit->gpu].uuid;
	const char **why = is_mig ? &out->mig[unit->mig] : &out->gpu[unit->gpu];

	*why = held_why(ledger, uuid, is_mig, is_shared);
	return *why;
}

bool held_forms_find(const struct inventory *inventory, const struct policy *policy,
		     const struct ledger *ledger, struct held_forms *out)
{
	bool any = false;

	memset(out, 0, sizeof(*out));

	for (uint32_t r = 0; r < policy->resource_count; r++) {
		const struct policy_resource *of = &policy->resources[r];
		for (uint32_t u = 0; of->door == POLICY_DOOR_KUBELET && u < of->count; u++) {
			const struct policy_unit *unit = &policy->units[of->first + u];
			if (unit->replica == 0)
				any |= held_judge(inventory, ledger, unit, out) != NULL;
		}
	}

	return any;
}
