/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/schedule/schedule_pool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"

void schedule_pools_done(struct schedule_pools *pools)
{
	free(pools->items);
	*pools = (struct schedule_pools){.items = NULL};
}

int schedule_pools_copy(const struct schedule_pools *from, struct schedule_pools *out)
{
	*out = (struct schedule_pools){.items = NULL};
	if (from->count > 0) {
		out->items = calloc(from->count, sizeof(*out->items));
		if (!out->items)
			return -ENOMEM;
		memcpy(out->items, from->items, from->count * sizeof(*out->items));
	}

	out->count = from->count;
	out->is_unknown = from->is_unknown;
	memcpy(out->problem, from->problem, sizeof(out->problem));

	return 0;
}

static bool pool_differs(const struct schedule_pool *a, const struct schedule_pool *b)
{
	return strcmp(a->name, b->name) != 0 || a->units != b->units ||
	       strcmp(a->problem, b->problem) != 0 || strcmp(a->adapters, b->adapters) != 0 ||
	       a->simulated != b->simulated || memcmp(a->level, b->level, sizeof(a->level)) != 0;
}

bool schedule_pools_differ(const struct schedule_pools *a, const struct schedule_pools *b)
{
	if (a->count != b->count || a->is_unknown != b->is_unknown ||
	    strcmp(a->problem, b->problem) != 0)
		return true;
	for (size_t i = 0; i < a->count; i++)
		if (pool_differs(&a->items[i], &b->items[i]))
			return true;
	return false;
}

size_t schedule_pools_find(const struct schedule_pools *pools, const char *name)
{
	size_t i = 0;
	while (i < pools->count && strcmp(pools->items[i].name, name) != 0)
		i++;
	return i;
}

void schedule_pools_take(struct schedule_pools *pools, const char *list)
{
	struct demand demand;
	while (demand_next(&list, &demand, NULL) > 0) {
		size_t place = schedule_pools_find(pools, demand.name);
		if (place < pools->count)
			pools->items[place].used += demand.units;
	}
}

static int pools_refuse_name(const struct schedule_pools *pools, const char *name, struct err *err)
{
	char all[SCHEDULE_POOL_TEXT_MAX] = "";
	size_t length = 0;

	if (pools->count == 0)
		return err_set(err, -ERANGE, "this machine has no resource '%s' for jobs%s%s", name,
			       pools->problem[0] ? ": " : "", pools->problem);

	for (size_t i = 0; i < pools->count && length < sizeof(all); i++) {
		int added = snprintf(all + length, sizeof(all) - length, "%s%s", i ? ", " : "",
				     pools->items[i].name);
		if (added < 0)
			break;
		length += (size_t)added; /* beyond the end: cut */
	}

	return err_set(err, -ERANGE, "this machine has no resource '%s' for jobs: it has %s", name,
		       all);
}

int schedule_pools_check(const struct schedule_pools *pools, const char *list, struct err *err)
{
	struct demand demand;
	int more;

	while ((more = demand_next(&list, &demand, err)) > 0) {
		size_t place = schedule_pools_find(pools, demand.name);

		if (pools->is_unknown)
			continue;
		if (place == pools->count)
			return pools_refuse_name(pools, demand.name, err);
		if (demand.units > pools->items[place].units)
			return err_set(err, -ERANGE,
				       "needs %" PRIu32 " of '%s', this machine has %" PRIu32,
				       demand.units, demand.name, pools->items[place].units);
	}

	return more;
}

enum schedule_pool_use schedule_pools_look(const struct schedule_pools *pools, const char *list,
					   size_t *out, char text[SCHEDULE_POOL_TEXT_MAX])
{
	enum schedule_pool_use worst = SCHEDULE_POOL_FREE;
	struct demand demand;

	*out = pools->count;
	text[0] = '\0';
	while (worst != SCHEDULE_POOL_SICK && demand_next(&list, &demand, NULL) > 0) {
		size_t place = schedule_pools_find(pools, demand.name);
		const struct schedule_pool *pool =
		    place < pools->count ? &pools->items[place] : NULL;
		const char *problem = pool ? pool->problem
				      : pools->problem[0]
					  ? pools->problem
					  : "it is not in the configuration any more";

		if (problem[0] || demand.units > pool->units) {
			worst = SCHEDULE_POOL_SICK;
			*out = place;
			(void)snprintf(text, SCHEDULE_POOL_TEXT_MAX, "%.100s: %.150s", demand.name,
				       problem[0] ? problem
						  : "there are fewer units now"); /* cut */
			continue;
		}

		uint32_t left = pool->used < pool->units ? pool->units - pool->used : 0;
		if (left >= demand.units || worst == SCHEDULE_POOL_USED)
			continue;

		worst = SCHEDULE_POOL_USED;
		*out = place;
		(void)snprintf(text, SCHEDULE_POOL_TEXT_MAX,
			       "%.100s: have %" PRIu32 ", need %" PRIu32, demand.name, left,
			       demand.units); /* cut */
	}

	return worst;
}

uint8_t schedule_pools_level(const struct schedule_pools *pools, const char *list, uint32_t gpu)
{
	uint8_t nearest = GPU_LEVEL_UNKNOWN;
	struct demand demand;
	while (gpu < GPU_MAX && demand_next(&list, &demand, NULL) > 0) {
		size_t place = schedule_pools_find(pools, demand.name);
		if (place < pools->count && pools->items[place].level[gpu] < nearest)
			nearest = pools->items[place].level[gpu];
	}

	return nearest;
}

/* Whether the word is one of the list's, both separated by commas. */
static bool pools_has_word(const char *list, const char *word, size_t length)
{
	for (const char *at = list; *at;) {
		size_t other = strcspn(at, ",");
		if (other == length && memcmp(at, word, length) == 0)
			return true;
		at += other + (at[other] == ',');
	}
	return false;
}

int schedule_pools_adapters(const struct schedule_pools *pools, const char *list, struct buf *out,
			    bool *out_simulated)
{
	struct demand demand;

	*out_simulated = false;
	while (demand_next(&list, &demand, NULL) > 0) {
		size_t place = schedule_pools_find(pools, demand.name);
		const char *at = place < pools->count ? pools->items[place].adapters : "";

		*out_simulated |= place < pools->count && pools->items[place].simulated;

		while (*at) {
			size_t length = strcspn(at, ",");
			int rc = 0;

			if (!pools_has_word(buf_text(out), at, length))
				rc = buf_printf(out, "%s%.*s", out->length ? "," : "", (int)length,
						at);
			if (rc < 0)
				return rc;

			at += length + (at[length] == ',');
		}
	}

	return 0;
}
