/* SPDX-License-Identifier: Apache-2.0 */
#include "base/account.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/err.h"

#define KIB(n) (UINT64_C(1024) * (n))
#define MIB(n) (UINT64_C(1048576) * (n))

/* doc/threat-model.md and man/sluice-agent.1.scd tell people these figures. */
static const struct account_limit account_limits[ACCOUNT_RESOURCE_COUNT] = {
    [ACCOUNT_CONNECTIONS] = {"connections", "close some", 128, 272, 16, true},
    [ACCOUNT_STREAMS] = {"calls", "end some", 192, 2048, 128, true},
    [ACCOUNT_BODIES] = {"bytes of requests on their way", "submit less at a time", MIB(3), MIB(24),
			MIB(3), true},
    [ACCOUNT_MEMORY] = {"bytes of requests", "submit less at a time", MIB(16), MIB(64), MIB(8),
			true},
    [ACCOUNT_OUTPUT] = {"bytes of replies", "read what was asked for", MIB(5), MIB(20), MIB(5),
			true},
    [ACCOUNT_JOB_WATCHES] = {"watches of jobs", "end some", 128, 1024, 64, true},
    [ACCOUNT_MACHINE_WATCHES] = {"watches of the machine", "end some", 64, 256, 16, true},
    [ACCOUNT_LISTS] = {"lists of jobs", "read those that were asked for", 8, 32, 4, true},
    [ACCOUNT_LIST_BYTES] = {"bytes of lists of jobs", "ask for a user or a state", MIB(16), MIB(48),
			    MIB(16), true},
    [ACCOUNT_LOGS] = {"logs", "end some", 96, 384, 16, true},
    [ACCOUNT_QUERIES] = {"questions about jobs", "ask again", 16, 128, 16, false},
    [ACCOUNT_CHANGES] = {"changes of jobs", "try again", 64, 512, 64, false},
    [ACCOUNT_SUBMISSIONS] = {"submissions", "submit again", 5000, 20000, 1000, false},
    [ACCOUNT_SUBMISSION_BYTES] = {"bytes of submissions", "submit again", MIB(16), MIB(64), MIB(8),
				  false},
    [ACCOUNT_TRIALS] = {"dry runs and submissions with --no-wait", "try again", 16, 128, 16, false},
    [ACCOUNT_PENDING] = {"waiting jobs", "more are accepted when some have started", 10000, 100000,
			 10000, false},
    [ACCOUNT_PENDING_BYTES] = {"bytes of jobs that have not ended",
			       "submit a smaller environment, or wait until some have ended",
			       MIB(256), MIB(2048), MIB(256), false},
    [ACCOUNT_HISTORY_BYTES] = {"bytes of jobs that have ended",
			       "they are being forgotten: submit again", MIB(512), MIB(4096),
			       MIB(512), true},
    [ACCOUNT_RUNS] = {"running jobs without a GPU", "others start when some have ended", 1000, 2000,
		      200, false},
};

/* What one holder has: a user id, or all user ids of one owner together. */
struct account_entry {
	uid_t uid;
	uint64_t held[ACCOUNT_RESOURCE_COUNT];
};

/* Entries in the order of their user ids. */
struct account_table {
	struct account_entry *items; /* owned */
	size_t count, room;
};

struct account {
	struct account_limit limits[ACCOUNT_RESOURCE_COUNT];
	uint64_t used[ACCOUNT_RESOURCE_COUNT];
	/* Both say the same: what an id gives back later must be known when ranges change. */
	struct account_table ids, owners;
	struct account_range *ranges; /* owned */
	size_t range_count;
	uid_t privileged;
};

/* --- tables ---------------------------------------------------------------------------------- */

/* The place of `uid`, or where it would be. */
static size_t account_place(const struct account_table *table, uid_t uid)
{
	size_t low = 0, high = table->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (table->items[middle].uid < uid)
			low = middle + 1;
		else
			high = middle;
	}

	return low;
}

static struct account_entry *account_find(const struct account_table *table, uid_t uid)
{
	size_t place = account_place(table, uid);
	bool is_there = place < table->count && table->items[place].uid == uid;
	return is_there ? &table->items[place] : NULL;
}

static struct account_entry *account_add(struct account_table *table, uid_t uid)
{
	struct account_entry *found = account_find(table, uid);
	if (found)
		return found;

	if (array_room(&table->items, table->count, &table->room, 8) < 0)
		return NULL;

	size_t place = account_place(table, uid);
	memmove(&table->items[place + 1], &table->items[place],
		(table->count - place) * sizeof(*table->items));
	table->items[place] = (struct account_entry){.uid = uid};
	table->count++;

	return &table->items[place];
}

/* Who has nothing is not remembered. */
static void account_drop_empty(struct account_table *table, struct account_entry *entry)
{
	for (size_t i = 0; i < ACCOUNT_RESOURCE_COUNT; i++)
		if (entry->held[i] > 0)
			return;
	size_t place = (size_t)(entry - table->items);
	memmove(entry, entry + 1, (table->count - place - 1) * sizeof(*entry));
	table->count--;
}

/* --- owners ---------------------------------------------------------------------------------- */

static int account_compare_ranges(const void *left, const void *right)
{
	const struct account_range *a = left, *b = right;
	if (a->first != b->first)
		return a->first < b->first ? -1 : 1;
	if (a->count != b->count)
		return a->count > b->count ? -1 : 1;
	return a->owner < b->owner ? -1 : a->owner > b->owner;
}

/* Puts them in order and cuts off what an earlier one has. Returns how many are left. */
static size_t account_order_ranges(struct account_range *ranges, size_t count)
{
	size_t kept = 0;
	uint64_t end = 0;

	if (count > 0)
		qsort(ranges, count, sizeof(*ranges), account_compare_ranges);

	for (size_t i = 0; i < count; i++) {
		struct account_range range = ranges[i];
		uint64_t range_end = (uint64_t)range.first + range.count;
		if (range_end <= end || range.count == 0)
			continue;
		if (range.first < end)
			range.first = (uid_t)end;
		range.count = (uint32_t)(range_end - range.first);
		end = range_end;
		ranges[kept++] = range;
	}

	return kept;
}

static uid_t account_owner_of(const struct account_range *ranges, size_t count, uid_t uid)
{
	size_t low = 0, high = count; /* the first that begins behind uid */

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (ranges[middle].first <= uid)
			low = middle + 1;
		else
			high = middle;
	}

	bool is_in = low > 0 && uid - ranges[low - 1].first < ranges[low - 1].count;
	return is_in ? ranges[low - 1].owner : uid;
}

uid_t account_owner(const struct account *account, uid_t uid)
{
	return account_owner_of(account->ranges, account->range_count, uid);
}

bool account_is_privileged(const struct account *account, uid_t uid)
{
	return uid == 0 || account_owner(account, uid) == account->privileged;
}

int account_set_ranges(struct account *account, const struct account_range *ranges, size_t count)
{
	struct account_range *copy = calloc(count + 1, sizeof(*copy));
	struct account_table owners = {.items = NULL};
	bool has_room = copy != NULL;

	if (copy && count > 0) {
		memcpy(copy, ranges, count * sizeof(*copy));
		count = account_order_ranges(copy, count);
	}

	for (size_t i = 0; i < account->ids.count && has_room; i++) {
		const struct account_entry *id = &account->ids.items[i];
		struct account_entry *owner =
		    account_add(&owners, account_owner_of(copy, count, id->uid));

		has_room = owner != NULL;
		for (size_t r = 0; r < ACCOUNT_RESOURCE_COUNT && has_room; r++)
			owner->held[r] += id->held[r];
	}

	if (!has_room) {
		free(copy);
		free(owners.items);
		return -ENOMEM;
	}

	free(account->ranges);
	free(account->owners.items);
	account->ranges = copy;
	account->range_count = count;
	account->owners = owners;

	return 0;
}

/* --- limits ---------------------------------------------------------------------------------- */

/* The largest holder but those who are privileged; NULL: there is none. */
static const struct account_entry *account_largest(const struct account *account,
						   enum account_resource resource)
{
	const struct account_entry *largest = NULL;
	for (size_t i = 0; i < account->owners.count; i++) {
		const struct account_entry *entry = &account->owners.items[i];
		if (entry->held[resource] > 0 && !account_is_privileged(account, entry->uid) &&
		    (!largest || entry->held[resource] > largest->held[resource]))
			largest = entry;
	}

	return largest;
}

/* What all have but those who are privileged. */
static uint64_t account_users(const struct account *account, enum account_resource resource)
{
	uint64_t users = account->used[resource];
	const struct account_entry *root = account_find(&account->owners, 0);
	const struct account_entry *own = account_find(&account->owners, account->privileged);
	users -= root ? root->held[resource] : 0;
	return users - (own && own != root ? own->held[resource] : 0);
}

static bool account_fits(uint64_t held, uint64_t amount, uint64_t max)
{
	return held <= max && amount <= max - held;
}

static int account_refuse_total(const struct account_limit *limit, struct err *err)
{
	return err_set(err, -EBUSY, "all %" PRIu64 " %s of this service are in use: try again",
		       limit->total - limit->reserve, limit->name);
}

int account_check(const struct account *account, enum account_resource resource, uid_t uid,
		  uint64_t amount, struct err *err)
{
	const struct account_limit *limit = &account->limits[resource];
	const struct account_entry *largest = account_largest(account, resource);
	bool fits = account_fits(account->used[resource], amount, limit->total);
	uint64_t users = account_users(account, resource);

	if (account_is_privileged(account, uid)) {
		/* What users have can be taken from them. */
		bool can_fit = account_fits(account->used[resource] - users, amount, limit->total);
		return fits || (limit->evicts && can_fit) ? 0 : account_refuse_total(limit, err);
	}

	uint64_t held = account_held(account, resource, uid);
	if (!account_fits(held, amount, limit->user))
		return err_set(err, -EDQUOT,
			       "one user may have %" PRIu64 " %s, and you have %" PRIu64 ": %s",
			       limit->user, limit->name, held, limit->remedy);

	if (fits &&
	    account_fits(account_users(account, resource), amount, limit->total - limit->reserve))
		return 0;

	bool is_smaller = largest && held + amount < largest->held[resource];
	return limit->evicts && is_smaller ? 0 : account_refuse_total(limit, err);
}

int account_force(struct account *account, enum account_resource resource, uid_t uid,
		  uint64_t amount, struct err *err)
{
	if (amount == 0)
		return 0;

	struct account_entry *owner = account_add(&account->owners, account_owner(account, uid));
	struct account_entry *id = account_add(&account->ids, uid);
	if (!owner || !id)
		return err_set(err, -ENOMEM, "out of memory for the share of uid %u",
			       (unsigned)uid);

	owner->held[resource] += amount;
	id->held[resource] += amount;
	account->used[resource] += amount;

	return 0;
}

int account_take(struct account *account, enum account_resource resource, uid_t uid,
		 uint64_t amount, struct err *err)
{
	int rc = account_check(account, resource, uid, amount, err);
	return rc < 0 ? rc : account_force(account, resource, uid, amount, err);
}

void account_give(struct account *account, enum account_resource resource, uid_t uid,
		  uint64_t amount)
{
	struct account_entry *owner = account_find(&account->owners, account_owner(account, uid));
	struct account_entry *id = account_find(&account->ids, uid);
	if (amount == 0 || !owner || !id)
		return;

	owner->held[resource] -= amount;
	id->held[resource] -= amount;
	account->used[resource] -= amount;
	account_drop_empty(&account->owners, owner);
	account_drop_empty(&account->ids, id);
}

void account_clear(struct account *account, enum account_resource resource)
{
	for (size_t i = account->owners.count; i > 0; i--) {
		account->owners.items[i - 1].held[resource] = 0;
		account_drop_empty(&account->owners, &account->owners.items[i - 1]);
	}

	for (size_t i = account->ids.count; i > 0; i--) {
		account->ids.items[i - 1].held[resource] = 0;
		account_drop_empty(&account->ids, &account->ids.items[i - 1]);
	}

	account->used[resource] = 0;
}

uint64_t account_held(const struct account *account, enum account_resource resource, uid_t uid)
{
	const struct account_entry *owner =
	    account_find(&account->owners, account_owner(account, uid));
	return owner ? owner->held[resource] : 0;
}

uint64_t account_left(const struct account *account, enum account_resource resource, uid_t uid)
{
	const struct account_limit *limit = &account->limits[resource];
	uint64_t held = account_held(account, resource, uid);
	if (account_is_privileged(account, uid))
		return limit->total > held ? limit->total - held : 0;
	return limit->user > held ? limit->user - held : 0;
}

uint64_t account_used(const struct account *account, enum account_resource resource)
{
	return account->used[resource];
}

bool account_excess(const struct account *account, enum account_resource resource, uid_t *out_uid)
{
	const struct account_limit *limit = &account->limits[resource];
	if (account->used[resource] <= limit->total &&
	    account_users(account, resource) <= limit->total - limit->reserve)
		return false;

	const struct account_entry *largest = account_largest(account, resource);
	if (largest)
		*out_uid = largest->uid;

	return largest != NULL;
}

/* --- its life -------------------------------------------------------------------------------- */

const struct account_limit *account_limit(const struct account *account,
					  enum account_resource resource)
{
	return &account->limits[resource];
}

void account_set_limit(struct account *account, enum account_resource resource, uint64_t user,
		       uint64_t total, uint64_t reserve)
{
	struct account_limit *limit = &account->limits[resource];
	limit->user = user;
	limit->total = total;
	limit->reserve = reserve;
}

struct account *account_new(uid_t privileged, struct err *err)
{
	struct account *account = calloc(1, sizeof(*account));
	if (!account) {
		(void)err_set(err, -ENOMEM, "out of memory for the shares of users");
		return NULL;
	}

	memcpy(account->limits, account_limits, sizeof(account->limits));
	account->privileged = privileged;
	return account;
}

struct account *account_free(struct account *account)
{
	if (!account)
		return NULL;
	free(account->ids.items);
	free(account->owners.items);
	free(account->ranges);
	free(account);
	return NULL;
}

/* --- shares ---------------------------------------------------------------------------------- */

/* What is left when all are cut to `level`; UINT64_MAX when that is more. */
static uint64_t account_sum_at(const uint64_t *held, size_t count, uint64_t level)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < count; i++) {
		uint64_t kept = held[i] < level ? held[i] : level;
		if (__builtin_add_overflow(sum, kept, &sum))
			return UINT64_MAX;
	}
	return sum;
}

uint64_t account_level(const uint64_t *held, size_t count, uint64_t total)
{
	uint64_t low = 0, high = total; /* nobody can keep more than all of it */

	if (account_sum_at(held, count, UINT64_MAX) <= total)
		return UINT64_MAX;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2 + 1;
		if (account_sum_at(held, count, middle) <= total)
			low = middle;
		else
			high = middle - 1;
	}

	return low;
}
