/* SPDX-License-Identifier: Apache-2.0 */
#include "base/account.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "unit/unit.h"

enum { ALICE = 1000, BOB = 1001, CAROL = 1002, SUB = 100000, STEPS = 20000 };

static struct account *make(uint64_t user, uint64_t total, uint64_t reserve)
{
	struct account *account = account_new(0, NULL);
	assert_non_null(account);
	account_set_limit(account, ACCOUNT_CONNECTIONS, user, total, reserve);
	account_set_limit(account, ACCOUNT_QUERIES, user, total, reserve);
	return account;
}

static int take(struct account *account, uid_t uid, uint64_t amount)
{
	return account_take(account, ACCOUNT_CONNECTIONS, uid, amount, NULL);
}

static void test_a_user_has_a_limit(void **state)
{
	struct account *account = make(3, 10, 2);
	struct err err = {0};
	assert_int_equal(take(account, ALICE, 3), 0);
	assert_int_equal(account_take(account, ACCOUNT_CONNECTIONS, ALICE, 1, &err), -EDQUOT);
	assert_string_equal(err.text,
			    "one user may have 3 connections, and you have 3: close some");
	assert_int_equal(take(account, BOB, 3), 0);
	account_give(account, ACCOUNT_CONNECTIONS, ALICE, 1);
	assert_int_equal(account_held(account, ACCOUNT_CONNECTIONS, ALICE), 2);
	assert_int_equal(take(account, ALICE, 1), 0);
	assert_int_equal(take(account, ALICE, UINT64_MAX), -EDQUOT);
	assert_int_equal(account_used(account, ACCOUNT_CONNECTIONS), 6);
	account = account_free(account);
}

static void test_root_has_its_reserve(void **state)
{
	struct account *account = make(8, 10, 2);
	assert_int_equal(take(account, ALICE, 4), 0);
	assert_int_equal(take(account, BOB, 4), 0);
	assert_int_equal(take(account, CAROL, 4), -EBUSY); /* nobody has more */
	assert_int_equal(take(account, 0, 2), 0);
	uid_t largest;
	assert_false(account_excess(account, ACCOUNT_CONNECTIONS, &largest));
	/* Root is never refused what users can let go. */
	assert_int_equal(take(account, 0, 1), 0);
	assert_true(account_excess(account, ACCOUNT_CONNECTIONS, &largest));
	assert_int_equal(largest, ALICE);
	account = account_free(account);
}

static void test_the_largest_lets_go(void **state)
{
	struct account *account = make(8, 10, 2);
	assert_int_equal(take(account, ALICE, 8), 0);
	uid_t largest;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(take(account, BOB, 1), 0);
		assert_true(account_excess(account, ACCOUNT_CONNECTIONS, &largest));
		assert_int_equal(largest, ALICE);
		account_give(account, ACCOUNT_CONNECTIONS, largest, 1);
		assert_false(account_excess(account, ACCOUNT_CONNECTIONS, &largest));
	}
	assert_int_equal(take(account, BOB, 1), 0);
	account_give(account, ACCOUNT_CONNECTIONS, ALICE, 1);
	assert_int_equal(take(account, BOB, 1), -EBUSY); /* they are equal now */
	account = account_free(account);
}

static void test_what_cannot_be_taken_away_is_refused(void **state)
{
	struct account *account = make(8, 10, 2);
	struct err err = {0};
	assert_int_equal(account_take(account, ACCOUNT_QUERIES, ALICE, 8, NULL), 0);
	assert_int_equal(account_take(account, ACCOUNT_QUERIES, BOB, 1, &err), -EBUSY);
	assert_string_equal(err.text,
			    "all 8 questions about jobs of this service are in use: try again");
	assert_int_equal(account_take(account, ACCOUNT_QUERIES, 0, 2, NULL), 0);
	assert_int_equal(account_take(account, ACCOUNT_QUERIES, 0, 1, NULL), -EBUSY);
	account = account_free(account);
}

static void test_subordinate_ids_are_their_owner(void **state)
{
	static const struct account_range ranges[] = {{SUB, 65536, ALICE}};
	struct account *account = make(4, 10, 2);
	assert_int_equal(take(account, SUB, 1), 0); /* before anybody knew */
	assert_int_equal(take(account, ALICE, 1), 0);
	assert_int_equal(account_set_ranges(account, ranges, 1), 0);
	assert_int_equal(account_owner(account, SUB + 65535), ALICE);
	assert_int_equal(account_owner(account, SUB + 65536), SUB + 65536);
	assert_int_equal(account_held(account, ACCOUNT_CONNECTIONS, ALICE), 2);
	assert_int_equal(take(account, SUB + 1, 2), 0);
	assert_int_equal(take(account, SUB + 2, 1), -EDQUOT);
	assert_int_equal(take(account, ALICE, 1), -EDQUOT);
	assert_int_equal(take(account, BOB, 4), 0);
	/* The range is taken from her: what it has is given back all the same. */
	assert_int_equal(account_set_ranges(account, NULL, 0), 0);
	account_give(account, ACCOUNT_CONNECTIONS, SUB, 1);
	account_give(account, ACCOUNT_CONNECTIONS, SUB + 1, 2);
	assert_int_equal(account_held(account, ACCOUNT_CONNECTIONS, ALICE), 1);
	assert_int_equal(account_used(account, ACCOUNT_CONNECTIONS), 5);
	account = account_free(account);
}

static void test_every_figure_of_the_table_makes_sense(void **state)
{
	struct account *account = account_new(0, NULL);
	assert_non_null(account);
	for (int i = 0; i < ACCOUNT_RESOURCE_COUNT; i++) {
		const struct account_limit *limit =
		    account_limit(account, (enum account_resource)i);
		assert_non_null(limit->name);
		assert_non_null(limit->remedy);
		assert_true(limit->user > 0 && limit->reserve > 0);
		assert_true(limit->user <= limit->total - limit->reserve);
	}
	account = account_free(account);
}

/* Whatever is asked, in whatever order: no user passes the limit, what cannot be taken away stays
 * below the total, who has least is always served, and in the end all of it is given back. */
static void test_property_nobody_is_starved(void **state)
{
	static const uid_t users[] = {0, ALICE, BOB, CAROL, SUB, SUB + 7};
	static const struct account_range ranges[] = {{SUB, 10, CAROL}};
	enum { COUNT = sizeof(users) / sizeof(users[0]) };
	uint64_t held[2][COUNT] = {{0}};
	struct account *account = make(12, 40, 5);
	unsigned seed = 7;
	for (int step = 0; step < STEPS; step++) {
		enum account_resource resource =
		    rand_r(&seed) % 2 ? ACCOUNT_CONNECTIONS : ACCOUNT_QUERIES;
		uint64_t *mine = held[resource == ACCOUNT_QUERIES];
		size_t who = (size_t)rand_r(&seed) % COUNT;
		uint64_t amount = 1 + (uint64_t)rand_r(&seed) % 4;
		if (step % 1000 == 500)
			assert_int_equal(account_set_ranges(account, ranges, step % 2000 < 1000),
					 0);
		if (rand_r(&seed) % 3 == 0) {
			amount = amount < mine[who] ? amount : mine[who];
			account_give(account, resource, users[who], amount);
			mine[who] -= amount;
			continue;
		}
		bool is_user = users[who] != 0;
		uint64_t before = account_held(account, resource, users[who]);
		int rc = account_take(account, resource, users[who], amount, NULL);
		if (rc == 0)
			mine[who] += amount;
		else
			assert_int_equal(account_held(account, resource, users[who]), before);
		if (rc == 0 && is_user && step % 1000 < 500)
			assert_true(before + amount <= 12);
		uid_t largest;
		while (account_excess(account, resource, &largest)) {
			assert_int_equal(resource, ACCOUNT_CONNECTIONS);
			assert_true(largest != 0);
			for (size_t i = 0; i < COUNT; i++) {
				if (account_owner(account, users[i]) != largest || mine[i] == 0)
					continue;
				account_give(account, resource, users[i], 1);
				mine[i]--;
				break;
			}
		}
		assert_true(account_used(account, resource) <= 40);
		if (is_user && rc == -EBUSY && resource == ACCOUNT_CONNECTIONS)
			for (size_t i = 1; i < COUNT; i++)
				assert_true(account_held(account, resource, users[i]) <=
					    before + amount);
	}
	for (size_t i = 0; i < COUNT; i++) {
		account_give(account, ACCOUNT_CONNECTIONS, users[i], held[0][i]);
		account_give(account, ACCOUNT_QUERIES, users[i], held[1][i]);
	}
	assert_int_equal(account_used(account, ACCOUNT_CONNECTIONS), 0);
	assert_int_equal(account_used(account, ACCOUNT_QUERIES), 0);
	account = account_free(account);
}

static void test_property_levels_are_fair(void **state)
{
	unsigned seed = 11;
	assert_true(account_level(NULL, 0, 5) == UINT64_MAX);
	for (int step = 0; step < STEPS; step++) {
		uint64_t held[6], sum = 0, kept = 0, more = 0;
		size_t count = 1 + (size_t)rand_r(&seed) % 6;
		uint64_t total = (uint64_t)rand_r(&seed) % 50;
		for (size_t i = 0; i < count; i++)
			sum += held[i] = (uint64_t)rand_r(&seed) % 30;
		uint64_t level = account_level(held, count, total);
		if (sum <= total) {
			assert_true(level == UINT64_MAX);
			continue;
		}
		for (size_t i = 0; i < count; i++) {
			kept += held[i] < level ? held[i] : level;
			more += held[i] < level + 1 ? held[i] : level + 1;
		}
		assert_true(kept <= total && more > total);
	}
}

static void test_out_of_memory(void **state)
{
	static const struct account_range ranges[] = {{SUB, 65536, ALICE}};
	struct err err = {0};
	struct account *account = account_new(0, &err);
	if (!account) {
		assert_int_equal(err.code, -ENOMEM);
		return;
	}
	int first = take(account, ALICE, 1), second = take(account, SUB, 1);
	assert_true(first == 0 || first == -ENOMEM);
	assert_true(second == 0 || second == -ENOMEM);
	int rc = account_set_ranges(account, ranges, 1);
	assert_true(rc == 0 || rc == -ENOMEM);
	if (first == 0)
		account_give(account, ACCOUNT_CONNECTIONS, ALICE, 1);
	if (second == 0)
		account_give(account, ACCOUNT_CONNECTIONS, SUB, 1);
	assert_int_equal(account_used(account, ACCOUNT_CONNECTIONS), 0);
	account = account_free(account);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_a_user_has_a_limit),
	    cmocka_unit_test(test_root_has_its_reserve),
	    cmocka_unit_test(test_the_largest_lets_go),
	    cmocka_unit_test(test_what_cannot_be_taken_away_is_refused),
	    cmocka_unit_test(test_subordinate_ids_are_their_owner),
	    cmocka_unit_test(test_every_figure_of_the_table_makes_sense),
	    cmocka_unit_test(test_property_nobody_is_starved),
	    cmocka_unit_test(test_property_levels_are_fair),
	    cmocka_unit_test(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
