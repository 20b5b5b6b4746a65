/* SPDX-License-Identifier: Apache-2.0 */
#include "units/allocator.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "units/exact.h"

_Static_assert((int)EXACT_MAX == (int)ALLOCATOR_EXACT_MAX, "the documented limit is the real one");

struct allocator {
	struct allocator_topology topology;
	struct exact *exact; /* owned; NULL while not needed, and above EXACT_MAX GPUs */
};

int allocator_new(const struct allocator_topology *topology, struct allocator **out,
		  struct err *err)
{
	if (topology->gpu_count > GPU_MAX)
		return err_set(err, -EINVAL, "%u GPUs are more than the %d that are supported",
			       topology->gpu_count, GPU_MAX);

	struct allocator *allocator = calloc(1, sizeof(*allocator));
	if (!allocator)
		return err_set(err, -ENOMEM, "allocator: out of memory");

	allocator->topology = *topology;
	*out = allocator;
	return 0;
}

struct allocator *allocator_free(struct allocator *allocator)
{
	if (allocator) {
		allocator->exact = exact_free(allocator->exact);
		free(allocator);
	}
	return NULL;
}

/* Tables for the GPUs numbered `gpus`. */
static struct exact *allocator_tables(const struct allocator *allocator, const uint32_t *gpus,
				      uint32_t count)
{
	int32_t weight[EXACT_MAX][EXACT_MAX] = {{0}};
	int32_t node[EXACT_MAX] = {0};
	for (uint32_t a = 0; a < count; a++) {
		node[a] = allocator->topology.numa[gpus[a]];
		for (uint32_t b = 0; b < count; b++)
			weight[a][b] = a == b ? 0 : allocator->topology.weight[gpus[a]][gpus[b]];
	}

	return exact_new(count, weight, node);
}

static int allocator_machine_tables(struct allocator *allocator)
{
	if (allocator->exact || allocator->topology.gpu_count > EXACT_MAX)
		return 0;
	uint32_t all[EXACT_MAX];
	for (uint32_t i = 0; i < allocator->topology.gpu_count; i++)
		all[i] = i;
	allocator->exact = allocator_tables(allocator, all, allocator->topology.gpu_count);
	return allocator->exact ? 0 : -ENOMEM;
}

int allocator_prepare(struct allocator *allocator, size_t size, struct err *err)
{
	int rc = allocator_machine_tables(allocator);
	if (rc == 0 && allocator->exact && size < EXACT_MAX)
		rc = exact_prepare(allocator->exact, (uint32_t)size);
	return rc < 0 ? err_set(err, rc, "allocator: out of memory") : 0;
}

static int unit_compare(const void *left, const void *right)
{
	const struct allocator_unit *a = left, *b = right;
	if (a->gpu != b->gpu)
		return a->gpu < b->gpu ? -1 : 1;
	if (a->device != b->device)
		return a->device < b->device ? -1 : 1;
	return (a->replica > b->replica) - (a->replica < b->replica);
}

/* A sorted set of units. */
struct unit_list {
	struct allocator_unit *units; /* owned */
	size_t count;
};

static void unit_list_done(struct unit_list *list)
{
	free(list->units);
}

/* Sorts a copy of `units` and drops what is there twice. */
static int unit_list_make(const struct allocator *allocator, const struct allocator_unit *units,
			  size_t count, struct unit_list *out, struct err *err)
{
	if (count > ALLOCATOR_UNIT_MAX)
		return err_set(err, -EINVAL, "%zu units are more than the %d of one question",
			       count, ALLOCATOR_UNIT_MAX);

	for (size_t i = 0; i < count; i++) {
		if (units[i].gpu >= allocator->topology.gpu_count)
			return err_set(err, -EINVAL, "unit %zu is on GPU %u of %u", i, units[i].gpu,
				       allocator->topology.gpu_count);
	}

	/* One more than needed, so that an empty list is not mistaken for no memory. */
	struct allocator_unit *copy = calloc(count + 1, sizeof(*copy));
	if (!copy)
		return err_set(err, -ENOMEM, "allocator: out of memory for %zu units", count);
	if (count > 0)
		memcpy(copy, units, count * sizeof(*copy));
	qsort(copy, count, sizeof(*copy), unit_compare);

	size_t kept = 0;
	for (size_t i = 0; i < count; i++) {
		if (kept == 0 || unit_compare(&copy[kept - 1], &copy[i]) != 0)
			copy[kept++] = copy[i];
	}

	out->units = copy;
	out->count = kept;
	return 0;
}

/* Removes from `list` what is in `drop`; both are sorted. */
static void unit_list_subtract(struct unit_list *list, const struct unit_list *drop)
{
	size_t kept = 0, at = 0;

	for (size_t i = 0; i < list->count; i++) {
		while (at < drop->count && unit_compare(&drop->units[at], &list->units[i]) < 0)
			at++;

		bool dropped =
		    at < drop->count && unit_compare(&drop->units[at], &list->units[i]) == 0;
		if (!dropped)
			list->units[kept++] = list->units[i];
	}

	list->count = kept;
}

/* More free GPUs than the tables can hold: grow from each GPU in turn, keep the best. */
struct growth {
	bool in[GPU_MAX];
	int32_t sum;
};

static int32_t growth_gain(const struct allocator *allocator, const struct growth *growth,
			   uint32_t gpu)
{
	int32_t gain = 0;
	for (uint32_t other = 0; other < allocator->topology.gpu_count; other++) {
		if (growth->in[other] && other != gpu)
			gain += allocator->topology.weight[gpu][other];
	}
	return gain;
}

static void growth_add_best(const struct allocator *allocator, const bool *available,
			    struct growth *growth)
{
	uint32_t best = GPU_MAX;
	int32_t best_gain = 0;

	for (uint32_t gpu = 0; gpu < allocator->topology.gpu_count; gpu++) {
		if (!available[gpu] || growth->in[gpu])
			continue;

		int32_t gain = growth_gain(allocator, growth, gpu);
		if (best == GPU_MAX || gain > best_gain) {
			best = gpu;
			best_gain = gain;
		}
	}

	if (best < GPU_MAX) {
		growth->in[best] = true;
		growth->sum += best_gain;
	}
}

/* One exchange of a member for another GPU that raises the sum. */
static bool growth_exchange(const struct allocator *allocator, const bool *available,
			    const bool *must, struct growth *growth)
{
	for (uint32_t out = 0; out < allocator->topology.gpu_count; out++) {
		if (!growth->in[out] || must[out])
			continue;

		int32_t loss = growth_gain(allocator, growth, out);
		growth->in[out] = false;
		for (uint32_t in = 0; in < allocator->topology.gpu_count; in++) {
			if (!available[in] || growth->in[in] || in == out)
				continue;

			int32_t gain = growth_gain(allocator, growth, in);
			if (gain > loss) {
				growth->in[in] = true;
				growth->sum += gain - loss;
				return true;
			}
		}

		growth->in[out] = true;
	}

	return false;
}

static void allocator_choose_greedy(const struct allocator *allocator, const bool *available,
				    const bool *must, size_t size, bool *out_in)
{
	bool found = false;
	int32_t best = 0;

	for (uint32_t start = 0; start < allocator->topology.gpu_count; start++) {
		if (!available[start])
			continue;

		struct growth growth = {.sum = 0};
		size_t members = 0;

		for (uint32_t gpu = 0; gpu < allocator->topology.gpu_count; gpu++) {
			if (must[gpu] || gpu == start) {
				growth.sum += growth_gain(allocator, &growth, gpu);
				growth.in[gpu] = true;
				members++;
			}
		}

		if (members > size)
			continue;

		for (; members < size; members++)
			growth_add_best(allocator, available, &growth);

		/* Each exchange raises an integer sum that is bounded: this ends. */
		while (growth_exchange(allocator, available, must, &growth))
			continue;

		if (!found || growth.sum > best) {
			found = true;
			best = growth.sum;
			memcpy(out_in, growth.in, sizeof(growth.in));
		}
	}
}

static int allocator_choose_exact(struct allocator *allocator, const bool *available,
				  const bool *must, size_t size, bool *out_in)
{
	int rc = allocator_machine_tables(allocator);
	if (rc < 0)
		return rc;

	uint32_t gpus[EXACT_MAX] = {0};
	uint32_t count = 0;
	uint16_t available_set = 0, must_set = 0;

	for (uint32_t gpu = 0; gpu < allocator->topology.gpu_count; gpu++) {
		/* The machine's own tables number GPUs as the machine does. */
		if (!available[gpu] && !allocator->exact)
			continue;

		gpus[count] = gpu;
		available_set |= (uint16_t)(available[gpu] << count);
		must_set |= (uint16_t)(must[gpu] << count);
		count++;
	}

	struct exact *own = NULL;
	if (!allocator->exact && !(own = allocator_tables(allocator, gpus, count)))
		return -ENOMEM;

	uint16_t set = 0;
	rc = exact_choose(own ? own : allocator->exact, available_set, must_set, (uint32_t)size,
			  &set);
	(void)exact_free(own);

	if (rc < 0)
		return rc;

	for (uint32_t i = 0; i < count; i++)
		out_in[gpus[i]] = (set >> i) & 1;

	return 0;
}

/* Whole GPUs. `available` does not hold `must`; 0 < |must| < size < |available| + |must|, or no
 * must. */
static int allocator_prefer_whole(struct allocator *allocator, const struct unit_list *available,
				  const struct unit_list *must, size_t size,
				  struct allocator_unit *out, struct err *err)
{
	bool is_available[GPU_MAX] = {false}, is_must[GPU_MAX] = {false}, in[GPU_MAX] = {false};
	size_t gpus = 0;

	for (size_t i = 0; i < available->count + must->count; i++) {
		bool forced = i >= available->count;
		const struct allocator_unit *unit =
		    forced ? &must->units[i - available->count] : &available->units[i];

		if (is_available[unit->gpu])
			return err_set(err, -EINVAL,
				       "GPU %u is in the question more than once as a whole GPU",
				       unit->gpu);

		is_available[unit->gpu] = true;
		is_must[unit->gpu] = forced;
		gpus++;
	}

	if (gpus > EXACT_MAX) {
		allocator_choose_greedy(allocator, is_available, is_must, size, in);
	} else {
		int rc = allocator_choose_exact(allocator, is_available, is_must, size, in);
		if (rc < 0)
			return err_set(err, rc, "allocator: out of memory");
	}

	size_t count = 0;

	for (size_t i = 0; i < available->count + must->count; i++) {
		const struct allocator_unit *unit = i >= available->count
							? &must->units[i - available->count]
							: &available->units[i];
		if (in[unit->gpu])
			out[count++] = *unit;
	}

	return 0;
}

/* A physical GPU while shared units are being picked from it. */
struct share {
	uint64_t total, used, picked;
	uint64_t free;
	size_t next; /* its first unit that is still there, in the sorted list */
	int64_t affinity;
};

/* a.used / a.total against b.used / b.total: <0, 0, >0. Both totals are at most 65536. */
static int share_use_compare(const struct share *a, const struct share *b)
{
	uint64_t left = a->used * b->total, right = b->used * a->total;
	return (left > right) - (left < right);
}

static int u64_compare(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

/* Whether to pick from `a` rather than from `b`, which has the lower index. */
static bool share_is_better(const struct share *a, const struct share *b,
			    enum allocator_policy policy)
{
	int use = share_use_compare(a, b);
	int picked = u64_compare(a->picked, b->picked);
	int order[3] = {use, picked, 0};

	switch (policy) {
	case ALLOCATOR_DISTRIBUTED:
	case ALLOCATOR_POLICY_COUNT:
		break;
	case ALLOCATOR_PACKED:
		order[0] = -use;
		order[1] = -picked;
		order[2] = u64_compare(a->free, b->free);
		break;
	case ALLOCATOR_SPREAD:
		order[0] = picked;
		order[1] = use;
		break;
	}

	for (size_t i = 0; i < array_length(order); i++) {
		if (order[i] != 0)
			return order[i] < 0;
	}

	return a->affinity > b->affinity;
}

static void share_take(const struct allocator *allocator, struct share *shares, uint32_t gpu)
{
	if (shares[gpu].picked == 0) {
		for (uint32_t other = 0; other < allocator->topology.gpu_count; other++)
			shares[other].affinity += allocator->topology.weight[other][gpu];
	}
	shares[gpu].picked++;
}

static void allocator_prefer_shared(const struct allocator *allocator,
				    const struct allocator_question *question,
				    const struct unit_list *available, const struct unit_list *must,
				    struct allocator_unit *out)
{
	struct share shares[GPU_MAX] = {{0}};
	for (size_t i = available->count; i-- > 0;) {
		shares[available->units[i].gpu].free++;
		shares[available->units[i].gpu].next = i;
	}

	size_t count = 0;
	for (; count < must->count; count++) {
		out[count] = must->units[count];
		share_take(allocator, shares, must->units[count].gpu);
	}

	for (uint32_t gpu = 0; gpu < allocator->topology.gpu_count; gpu++) {
		struct share *share = &shares[gpu];
		uint64_t pool = question->pool_per_gpu ? question->pool_per_gpu[gpu] : 0;
		uint64_t seen = share->free + share->picked;
		share->total = pool > seen ? pool : seen;
		share->used = share->total - share->free;
	}

	for (; count < question->size; count++) {
		uint32_t best = GPU_MAX;
		for (uint32_t gpu = 0; gpu < allocator->topology.gpu_count; gpu++) {
			if (shares[gpu].free > 0 &&
			    (best == GPU_MAX ||
			     share_is_better(&shares[gpu], &shares[best], question->policy)))
				best = gpu;
		}

		if (best == GPU_MAX)
			break; /* the caller made sure that there are enough */

		out[count] = available->units[shares[best].next++];
		shares[best].free--;
		shares[best].used++;
		share_take(allocator, shares, best);
	}
}

int allocator_prefer(struct allocator *allocator, const struct allocator_question *question,
		     struct allocator_unit *out, struct err *err)
{
	_cleanup_(unit_list_done) struct unit_list available = {NULL, 0}, must = {NULL, 0};
	int rc = unit_list_make(allocator, question->available, question->available_count,
				&available, err);
	if (rc == 0)
		rc = unit_list_make(allocator, question->must, question->must_count, &must, err);
	if (rc < 0)
		return rc;

	unit_list_subtract(&available, &must);

	size_t size = question->size;
	if (size == 0 || must.count > size)
		return 0;

	if (size >= available.count + must.count) {
		size = available.count + must.count;
		memcpy(out, must.units, must.count * sizeof(*out));
		memcpy(out + must.count, available.units, available.count * sizeof(*out));
	} else if (size == must.count) {
		memcpy(out, must.units, must.count * sizeof(*out));
	} else if (question->shared) {
		allocator_prefer_shared(allocator, question, &available, &must, out);
	} else {
		rc = allocator_prefer_whole(allocator, &available, &must, size, out, err);
		if (rc < 0)
			return rc;
	}

	qsort(out, size, sizeof(*out), unit_compare);
	return (int)size;
}

static int32_t level_weight(uint8_t level)
{
	switch (level) {
	case GPU_LEVEL_INTERNAL:
		return 60;
	case GPU_LEVEL_SINGLE:
		return 50;
	case GPU_LEVEL_MULTIPLE:
		return 40;
	case GPU_LEVEL_HOSTBRIDGE:
		return 30;
	case GPU_LEVEL_NODE:
		return 20;
	case GPU_LEVEL_SYSTEM:
		return 10;
	default:
		return 0;
	}
}

/* Active links of `from` to the GPU `to`, or to any switch when `to` is NULL. */
static int32_t links_count(const struct gpu *from, const struct gpu *to)
{
	int32_t count = 0;

	for (uint32_t i = 0; i < from->link_count && i < GPU_LINK_MAX; i++) {
		const struct gpu_link *link = &from->link[i];
		if (!to)
			count += link->peer == GPU_LINK_SWITCH;
		else if (link->peer == GPU_LINK_GPU && to->has_pci)
			count += pci_address_compare(&link->remote, &to->pci) == 0;
	}

	return count;
}

static int32_t smaller(int32_t a, int32_t b)
{
	return a < b ? a : b;
}

void allocator_topology_weigh(const struct inventory *inventory, struct allocator_topology *out)
{
	enum { LINK_WEIGHT = 100 };
	memset(out, 0, sizeof(*out));
	out->gpu_count = inventory->gpu_count < GPU_MAX ? inventory->gpu_count : GPU_MAX;

	for (uint32_t a = 0; a < out->gpu_count; a++) {
		const struct gpu *left = &inventory->gpus[a];
		out->numa[a] = left->numa_node;
		for (uint32_t b = 0; b < a; b++) {
			const struct gpu *right = &inventory->gpus[b];
			if (left->state != GPU_STATE_OK || right->state != GPU_STATE_OK)
				continue;

			int32_t links = smaller(links_count(left, right), links_count(right, left));
			if (links == 0)
				links = smaller(links_count(left, NULL), links_count(right, NULL));
			out->weight[a][b] = out->weight[b][a] =
			    level_weight(inventory->level[a][b]) + LINK_WEIGHT * links;
		}
	}
}
