/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/usage/holdings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/err.h"

enum { HOLDINGS_BUCKETS = 1024 };

struct holdings {
	struct holding *bucket[HOLDINGS_BUCKETS];
	struct holding **at; /* owned, as those in it are; in no order */
	size_t count, room;
	uint32_t max, here;
	uint64_t lost;
};

int holdings_new(struct holdings **out, struct err *err)
{
	struct holdings *holdings = calloc(1, sizeof(*holdings));
	if (!holdings)
		return err_set(err, -ENOMEM, "no memory for who uses the GPUs");
	*out = holdings;
	return 0;
}

static void holding_free(struct holding *holding)
{
	free(holding->owner);
	free(holding);
}

struct holdings *holdings_free(struct holdings *holdings)
{
	for (size_t i = 0; holdings && i < holdings->count; i++)
		holding_free(holdings->at[i]);
	if (holdings)
		free(holdings->at);
	free(holdings);
	return NULL;
}

/* --- the table ---------------------------------------------------------------------------------
 */

/* FNV-1a. */
static size_t holdings_bucket(const char *owner, const char *device)
{
	uint32_t hash = 2166136261U;
	for (; *owner; owner++)
		hash = (hash ^ (unsigned char)*owner) * 16777619U;
	for (; *device; device++)
		hash = (hash ^ (unsigned char)*device) * 16777619U;
	return hash % HOLDINGS_BUCKETS;
}

static struct holding *holdings_lookup(const struct holdings *holdings, const char *owner,
				       const char *device)
{
	struct holding *holding = holdings->bucket[holdings_bucket(owner, device)];
	while (holding &&
	       (strcmp(holding->owner, owner) != 0 || strcmp(holding->device, device) != 0))
		holding = holding->next;
	return holding;
}

static void holdings_remove(struct holdings *holdings, size_t index)
{
	struct holding *holding = holdings->at[index];
	struct holding **link = &holdings->bucket[holdings_bucket(holding->owner, holding->device)];
	while (*link != holding)
		link = &(*link)->next;
	*link = holding->next;
	holdings->at[index] = holdings->at[--holdings->count];
	holding_free(holding);
}

/* He who has been away longest makes room. */
static bool holdings_evict(struct holdings *holdings)
{
	size_t oldest = holdings->count;
	for (size_t i = 0; i < holdings->count; i++)
		if (holdings->at[i]->gone_ns > 0 && !holdings->at[i]->is_here &&
		    (oldest == holdings->count ||
		     holdings->at[i]->gone_ns < holdings->at[oldest]->gone_ns))
			oldest = i;

	if (oldest == holdings->count)
		return false;

	holdings_remove(holdings, oldest);
	return true;
}

static struct holding *holdings_insert(struct holdings *holdings, const char *owner,
				       const char *device)
{
	if (array_room(&holdings->at, holdings->count, &holdings->room, 16) < 0)
		return NULL;

	struct holding *holding = calloc(1, sizeof(*holding));
	if (holding)
		holding->owner = strdup(owner);
	if (!holding || !holding->owner) {
		free(holding);
		return NULL;
	}

	(void)snprintf(holding->device, sizeof(holding->device), "%s", device);
	holding->view.energy_mj = SNAPSHOT_U64_ABSENT;

	size_t bucket = holdings_bucket(owner, holding->device);
	holding->next = holdings->bucket[bucket];
	holdings->bucket[bucket] = holding;
	holdings->at[holdings->count++] = holding;

	return holding;
}

void holdings_begin(struct holdings *holdings, uint32_t max)
{
	holdings->max = max == 0 || max > VIEW_HOLDER_MAX ? VIEW_HOLDER_MAX : max;
	holdings->here = 0;
	holdings->lost = 0;
	for (size_t i = 0; i < holdings->count; i++)
		holdings->at[i]->is_here = false;
}

struct holding *holdings_touch(struct holdings *holdings, const char *owner, const char *device)
{
	struct holding *holding = holdings_lookup(holdings, owner, device);
	if (holding && holding->is_here)
		return holding;
	if (holdings->here < holdings->max && !holding)
		holding = holdings_insert(holdings, owner, device);
	if (!holding || holdings->here == holdings->max) {
		holdings->lost++;
		return NULL;
	}

	holdings->here++;
	holding->is_here = true;
	holding->gone_ns = 0;
	holding->memory_is_unknown = false;
	holding->view.allocated = false;
	holding->view.slot = SNAPSHOT_U32_ABSENT;
	holding->view.slot_count = 0;
	holding->view.processes = 0;
	holding->view.memory_bytes = 0;

	return holding;
}

struct holding *holdings_find(const struct holdings *holdings, const char *owner,
			      const char *device)
{
	struct holding *holding = holdings_lookup(holdings, owner, device);
	return holding && holding->is_here ? holding : NULL;
}

void holdings_give(struct holding *holding, uint32_t slot)
{
	holding->view.allocated = true;
	if (slot == SNAPSHOT_U32_ABSENT)
		return;
	if (slot < holding->view.slot) /* absent is the largest number */
		holding->view.slot = slot;
	holding->view.slot_count++;
}

void holdings_add_process(struct holding *holding, uint64_t memory_bytes)
{
	holding->view.processes++;
	if (memory_bytes == SNAPSHOT_U64_ABSENT ||
	    __builtin_add_overflow(holding->view.memory_bytes, memory_bytes,
				   &holding->view.memory_bytes))
		holding->memory_is_unknown = true;
}

void holdings_merge(struct holdings *holdings, const char *owner, struct holding *into)
{
	const struct holding *from = holdings_lookup(holdings, owner, into->device);
	if (!from || from == into || from->is_here)
		return;

	into->view.busy_ns += from->view.busy_ns;
	if (from->view.energy_mj != SNAPSHOT_U64_ABSENT)
		into->view.energy_mj =
		    from->view.energy_mj +
		    (into->view.energy_mj == SNAPSHOT_U64_ABSENT ? 0 : into->view.energy_mj);

	for (size_t i = 0; i < holdings->count; i++)
		if (holdings->at[i] == from) {
			holdings_remove(holdings, i);
			break;
		}
}

void holdings_end(struct holdings *holdings, uint64_t now_ns)
{
	size_t dormant = 0;

	for (size_t i = holdings->count; i-- > 0;) {
		struct holding *holding = holdings->at[i];
		if (holding->is_here)
			continue;
		if (holding->gone_ns == 0)
			holding->gone_ns = now_ns > 0 ? now_ns : 1;
		if (now_ns - holding->gone_ns >= HOLDINGS_DORMANT_NS)
			holdings_remove(holdings, i);
		else
			dormant++;
	}

	while (dormant > HOLDINGS_DORMANT_MAX && holdings_evict(holdings))
		dormant--;
}

size_t holdings_count(const struct holdings *holdings)
{
	return holdings->count;
}

struct holding *holdings_at(const struct holdings *holdings, size_t index)
{
	return index < holdings->count ? holdings->at[index] : NULL;
}

uint64_t holdings_lost(const struct holdings *holdings)
{
	return holdings->lost;
}

/* --- busy time ---------------------------------------------------------------------------------
 */

/* value * part / whole, of a part that is not larger. */
static uint64_t share_of(uint64_t value, uint64_t part, uint64_t whole)
{
	__extension__ unsigned __int128 product = value;
	product *= part;
	return whole == 0 ? 0 : (uint64_t)(product / whole);
}

/* Nobody is owed and nothing is kept beyond the window. */
static uint64_t within_window(uint64_t value, uint64_t total_ns)
{
	return total_ns > HOLDINGS_WINDOW_NS ? share_of(value, HOLDINGS_WINDOW_NS, total_ns)
					     : value;
}

/* `busy_ns` of the purse, with its part of the energy. */
static void holding_give_time(struct holding *holding, const struct holdings_purse *purse,
			      uint64_t busy_ns, struct holdings_purse *given)
{
	uint64_t energy_mj = share_of(purse->energy_mj, busy_ns, purse->busy_ns);
	given->busy_ns += busy_ns;
	given->energy_mj += energy_mj;

	if (!holding)
		return;

	holding->view.busy_ns += busy_ns;
	if (holding->view.energy_mj != SNAPSHOT_U64_ABSENT)
		holding->view.energy_mj += energy_mj;
}

static void purse_take(struct holdings_purse *purse, const struct holdings_purse *given)
{
	purse->busy_ns -= given->busy_ns;
	purse->energy_mj -= given->energy_mj;
	/* What it uses while nobody computes is nobody's. */
	purse->energy_mj =
	    purse->busy_ns == 0 ? 0 : within_window(purse->energy_mj, purse->busy_ns);
	purse->busy_ns = within_window(purse->busy_ns, purse->busy_ns);
}

/* The one whose all of them are; NULL: several, or nobody. */
static struct holding *holdings_sole(const struct holdings_use *uses, size_t count)
{
	for (size_t i = 1; i < count; i++)
		if (uses[i].holding != uses[0].holding)
			return NULL;
	return count > 0 ? uses[0].holding : NULL;
}

/* Everybody's shares are owed to him; `out` has each that is owed something, once. Returns how
 * many. */
static size_t holdings_owe(struct holdings_purse *purse, uint64_t elapsed_ns,
			   const struct holdings_use *uses, size_t count,
			   struct holding *out[HOLDINGS_USES_MAX])
{
	size_t owners = 0;

	for (size_t i = 0; i < count; i++) {
		uint32_t percent = uses[i].percent > 100 ? 0 : uses[i].percent;
		uint64_t share_ns = share_of(elapsed_ns, percent, 100);
		struct holding *holding = uses[i].holding;
		size_t at = 0;

		if (!holding) {
			purse->owed_ns += share_ns;
			continue;
		}

		holding->owed_ns += share_ns;
		while (at < owners && out[at] != holding)
			at++;

		if (at == owners)
			out[owners++] = holding;
	}

	return owners;
}

static void holdings_pay(struct holdings_purse *purse, struct holding **owners, size_t count)
{
	struct holdings_purse given = {0};
	uint64_t sum_ns = purse->owed_ns, left_ns = 0;
	for (size_t i = 0; i < count; i++)
		sum_ns += owners[i]->owed_ns;

	uint64_t limit_ns = purse->busy_ns < sum_ns ? purse->busy_ns : sum_ns;
	for (size_t i = 0; i < count; i++) {
		uint64_t busy_ns = share_of(owners[i]->owed_ns, limit_ns, sum_ns);
		holding_give_time(owners[i], purse, busy_ns, &given);
		owners[i]->owed_ns -= busy_ns;
		left_ns += owners[i]->owed_ns;
	}

	uint64_t others_ns = share_of(purse->owed_ns, limit_ns, sum_ns);
	holding_give_time(NULL, purse, others_ns, &given);
	purse->owed_ns -= others_ns;
	left_ns += purse->owed_ns;

	for (size_t i = 0; i < count; i++)
		owners[i]->owed_ns = within_window(owners[i]->owed_ns, left_ns);

	purse->owed_ns = within_window(purse->owed_ns, left_ns);
	purse_take(purse, &given);
}

bool holdings_charge(struct holdings_purse *purse, const struct holdings_device *device,
		     const struct holdings_use *uses, size_t count)
{
	struct holding *owners[HOLDINGS_USES_MAX], *sole;
	struct holdings_purse given = {0};
	bool is_known = device->busy_ns != SNAPSHOT_U64_ABSENT, is_told = false;
	uint64_t busy_ns = is_known ? device->busy_ns : device->elapsed_ns;

	if (count > HOLDINGS_USES_MAX)
		count = HOLDINGS_USES_MAX;

	for (size_t i = 0; i < count; i++) {
		is_told |= uses[i].percent != SNAPSHOT_U32_ABSENT;
		if (uses[i].holding && device->energy_mj != SNAPSHOT_U64_ABSENT &&
		    uses[i].holding->view.energy_mj == SNAPSHOT_U64_ABSENT)
			uses[i].holding->view.energy_mj = 0;
	}

	purse->busy_ns += busy_ns;
	if (device->energy_mj != SNAPSHOT_U64_ABSENT)
		purse->energy_mj += device->energy_mj;
	purse->waited_ns += device->elapsed_ns;

	if (is_told) {
		purse->tells = true;
		holdings_pay(purse, owners,
			     holdings_owe(purse, purse->waited_ns, uses, count, owners));
		purse->waited_ns = 0;
		return true;
	}

	if (!purse->tells)
		purse->waited_ns = 0;
	if (purse->waited_ns > device->elapsed_ns + HOLDINGS_WINDOW_NS)
		purse->waited_ns = device->elapsed_ns + HOLDINGS_WINDOW_NS;
	sole = holdings_sole(uses, count);
	if (!purse->tells && sole && is_known)
		holding_give_time(sole, purse, purse->busy_ns, &given);
	else if (!purse->tells && count > 0)
		given = (struct holdings_purse){.busy_ns = purse->busy_ns,
						.energy_mj = purse->energy_mj};

	purse_take(purse, &given);
	return purse->tells || count == 0 || (is_known && (sole || busy_ns == 0));
}

/* --- the view ----------------------------------------------------------------------------------
 */

static int holdings_compare(const void *a, const void *b)
{
	const struct holding *left = *(struct holding *const *)a;
	const struct holding *right = *(struct holding *const *)b;
	const struct view_holder *x = &left->view, *y = &right->view;

	if (left->is_here != right->is_here)
		return left->is_here ? -1 : 1;
	if (x->gpu != y->gpu)
		return x->gpu < y->gpu ? -1 : 1;
	if (x->mig != y->mig)
		return x->mig < y->mig ? -1 : 1;
	if (x->allocated != y->allocated)
		return x->allocated ? -1 : 1;

	if (x->slot != y->slot)
		return x->slot < y->slot ? -1 : 1;

	return strcmp(left->owner, right->owner);
}

void holdings_emit(struct holdings *holdings, struct view *view)
{
	if (holdings->count > 1)
		qsort(holdings->at, holdings->count, sizeof(struct holding *), holdings_compare);
	view->holder_count = 0;
	for (size_t i = 0; i < holdings->count; i++) {
		struct holding *holding = holdings->at[i];
		holding->place = SNAPSHOT_U32_ABSENT;
		if (!holding->is_here || view->holder_count == VIEW_HOLDER_MAX)
			continue;

		holding->place = view->holder_count++;
		view->holder[holding->place] = holding->view;
		if (holding->memory_is_unknown)
			view->holder[holding->place].memory_bytes = SNAPSHOT_U64_ABSENT;
	}
}
