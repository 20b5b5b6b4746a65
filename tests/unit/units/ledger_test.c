/* SPDX-License-Identifier: Apache-2.0 */
#include "units/ledger.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

static struct ledger_lease lease_of(const char *unit, const char *holder)
{
	struct ledger_lease lease = {.door = POLICY_DOOR_QUEUE, .since_unix_ns = 1234567890};
	(void)snprintf(lease.unit, sizeof(lease.unit), "%s", unit);
	(void)snprintf(lease.resource, sizeof(lease.resource), "nvidia.com/gpu");
	(void)snprintf(lease.holder, sizeof(lease.holder), "%s", holder);
	return lease;
}

static void take(struct ledger *ledger, const char *unit, const char *holder, int expected)
{
	struct err err = {0};
	struct ledger_lease lease = lease_of(unit, holder);
	assert_int_equal(ledger_take(ledger, &lease, &err), expected);
}

static void test_one_holder_each(void **state)
{
	(void)state;
	struct ledger *ledger = ledger_new();
	struct err err = {0};
	take(ledger, "GPU-b", "job 1 (user ann)", 0);
	take(ledger, "GPU-a::1", "ns/pod/main", 0);
	take(ledger, "GPU-a::0", "ns/pod/main", 0);
	struct ledger_lease again = lease_of("GPU-b", "job 2 (user bob)");
	assert_int_equal(ledger_take(ledger, &again, &err), -EBUSY);
	assert_string_equal(err.text, "unit 'GPU-b' is held by job 1 (user ann)");
	assert_int_equal(ledger_count(ledger), 3);
	assert_string_equal(ledger_at(ledger, 0)->unit, "GPU-a::0");
	assert_string_equal(ledger_at(ledger, 2)->unit, "GPU-b");
	assert_null(ledger_at(ledger, 3));
	assert_string_equal(ledger_find(ledger, "GPU-b")->holder, "job 1 (user ann)");

	assert_int_equal(ledger_release(ledger, "GPU-b", "job 2 (user bob)", &err), -EPERM);
	assert_int_equal(ledger_release(ledger, "GPU-c", "x", &err), -ENOENT);
	assert_int_equal(ledger_release(ledger, "GPU-b", "job 1 (user ann)", &err), 0);
	assert_null(ledger_find(ledger, "GPU-b"));
	take(ledger, "GPU-b", "job 2 (user bob)", 0);
	assert_int_equal(ledger_release_holder(ledger, "ns/pod/main"), 2);
	assert_int_equal(ledger_release_holder(ledger, "ns/pod/main"), 0);
	assert_int_equal(ledger_count(ledger), 1);
	assert_null(ledger_free(ledger));
}

static void test_all_or_none(void **state)
{
	(void)state;
	struct ledger *ledger = ledger_new();
	struct err err = {0};
	take(ledger, "GPU-c", "other", 0);
	struct ledger_lease leases[] = {lease_of("GPU-a", "me"), lease_of("GPU-b", "me"),
					lease_of("GPU-c", "me"), lease_of("GPU-d", "me")};
	assert_int_equal(ledger_take_all(ledger, leases, 4, &err), -EBUSY);
	assert_int_equal(ledger_count(ledger), 1);
	assert_int_equal(ledger_take_all(ledger, leases, 2, &err), 0);
	assert_int_equal(ledger_count(ledger), 3);
	assert_null(ledger_free(ledger));
}

static void test_refused(void **state)
{
	(void)state;
	struct ledger *ledger = ledger_new();
	take(ledger, "", "x", -EINVAL);
	take(ledger, "GPU-a", "", -EINVAL);
	take(ledger, "GPU-a", "two\nlines", -EINVAL);
	take(ledger, "GPU\ta", "x", -EINVAL);
	struct ledger_lease no_door = lease_of("GPU-a", "x");
	no_door.door = POLICY_DOOR_NONE;
	assert_int_equal(ledger_take(ledger, &no_door, NULL), -EINVAL);
	assert_int_equal(ledger_count(ledger), 0);
	assert_null(ledger_free(ledger));
}

static void test_file(void **state)
{
	(void)state;
	char *directory = unit_tmp_new();
	const char *path = unit_path(directory, "ledger");
	struct err err = {0};
	struct ledger *ledger = NULL;
	assert_int_equal(ledger_load(path, &ledger, &err), 0); /* not there yet */
	assert_int_equal(ledger_count(ledger), 0);
	take(ledger, "GPU-b::3", "ns/pod/main", 0);
	take(ledger, "MIG-x", "job 7 (user \xc3\xa4nn)", 0);
	assert_int_equal(ledger_save(ledger, path, &err), 0);
	ledger = ledger_free(ledger);

	assert_int_equal(ledger_load(path, &ledger, &err), 0);
	assert_int_equal(ledger_count(ledger), 2);
	const struct ledger_lease *lease = ledger_find(ledger, "MIG-x");
	assert_string_equal(lease->holder, "job 7 (user \xc3\xa4nn)");
	assert_int_equal(lease->since_unix_ns, 1234567890);
	assert_int_equal(lease->door, POLICY_DOOR_QUEUE);
	assert_string_equal(lease->resource, "nvidia.com/gpu");
	ledger = ledger_free(ledger);

	unit_write(path, "rubbish");
	assert_int_equal(ledger_load(path, &ledger, &err), -EINVAL);
	assert_null(ledger);
	directory = unit_tmp_free(directory);
}

static void test_damaged_text(void **state)
{
	(void)state;
	static const struct {
		const char *text, *message;
	} damaged[] = {
	    {"", "l:1: not a ledger of this version (expected 'sluice-ledger 1')"},
	    {"sluice-ledger 2\nend 0\n",
	     "l:1: not a ledger of this version (expected 'sluice-ledger 1')"},
	    {"sluice-ledger 1\n", "l: cut short: the last line is missing"},
	    {"sluice-ledger 1\nend 0", "l: cut short: the last line is missing"},
	    {"sluice-ledger 1\nend 1\n",
	     "l:2: the last line does not count the 0 leases before it"},
	    {"sluice-ledger 1\nend 0\nx",
	     "l:2: the last line does not count the 0 leases before it"},
	    {"sluice-ledger 1\na\tb\tqueue\t1\n", "l:2: not a lease"},
	    {"sluice-ledger 1\na\tb\tqueue\tx\tc\nend 1\n", "l:2: not a lease"},
	    {"sluice-ledger 1\na\tb\twindow\t1\tc\nend 1\n",
	     "l:2: lease of 'a': no door hands it out"},
	    {"sluice-ledger 1\na\tb\tqueue\t1\tc\na\tb\tqueue\t1\td\nend 2\n",
	     "l:3: unit 'a' is held by c"},
	};
	for (size_t i = 0; i < array_length(damaged); i++) {
		struct ledger *ledger = NULL;
		struct err err = {0};
		assert_int_equal(
		    ledger_parse(damaged[i].text, strlen(damaged[i].text), "l", &ledger, &err),
		    -EINVAL);
		assert_string_equal(err.text, damaged[i].message);
		assert_null(ledger);
	}
}

/* Random takes and releases against an array that says who holds each unit, with restarts between.
 */
static void test_against_a_model(void **state)
{
	(void)state;
	enum { UNITS = 40, HOLDERS = 7, STEPS = 20000 };
	int holder_of[UNITS];
	for (int i = 0; i < UNITS; i++)
		holder_of[i] = -1;
	const char *seed_text = getenv("SLUICE_TEST_SEED");
	unsigned int seed = seed_text ? (unsigned int)strtoul(seed_text, NULL, 10) : 42;
	print_message("seed %u\n", seed);
	srandom(seed);
	struct ledger *ledger = ledger_new();
	size_t held = 0;
	for (int step = 0; step < STEPS; step++) {
		int unit = (int)(random() % UNITS), holder = (int)(random() % HOLDERS);
		char unit_name[32], holder_name[32];
		(void)snprintf(unit_name, sizeof(unit_name), "GPU-%d::%d", unit / 4, unit % 4);
		(void)snprintf(holder_name, sizeof(holder_name), "holder %d", holder);
		switch (random() % 8) {
		case 0: {
			size_t mine = 0;
			for (int i = 0; i < UNITS; i++) {
				mine += holder_of[i] == holder;
				if (holder_of[i] == holder)
					holder_of[i] = -1;
			}
			assert_int_equal(ledger_release_holder(ledger, holder_name), mine);
			held -= mine;
			break;
		}
		case 1: {
			char *text = NULL;
			size_t length = 0;
			assert_int_equal(ledger_format(ledger, &text, &length, NULL), 0);
			ledger = ledger_free(ledger);
			assert_int_equal(ledger_parse(text, length, "l", &ledger, NULL), 0);
			free(text);
			break;
		}
		case 2:
		case 3: {
			int expected = holder_of[unit] == holder ? 0
				       : holder_of[unit] < 0	 ? -ENOENT
								 : -EPERM;
			assert_int_equal(ledger_release(ledger, unit_name, holder_name, NULL),
					 expected);
			if (expected == 0) {
				holder_of[unit] = -1;
				held--;
			}
			break;
		}
		default:
			take(ledger, unit_name, holder_name, holder_of[unit] < 0 ? 0 : -EBUSY);
			if (holder_of[unit] < 0) {
				holder_of[unit] = holder;
				held++;
			}
			break;
		}
		assert_int_equal(ledger_count(ledger), held);
	}
	assert_null(ledger_free(ledger));
}

static int scenario_leases(void *context)
{
	(void)context;
	struct ledger *ledger = ledger_new(), *again = NULL;
	char *text = NULL;
	size_t length = 0;
	int rc = ledger ? 0 : -ENOMEM;
	for (int i = 0; rc == 0 && i < 20; i++) {
		char unit[16];
		(void)snprintf(unit, sizeof(unit), "GPU-%d", i);
		struct ledger_lease lease = lease_of(unit, "me");
		rc = ledger_take(ledger, &lease, NULL);
	}
	if (rc == 0)
		rc = ledger_format(ledger, &text, &length, NULL);
	if (rc == 0)
		rc = ledger_parse(text, length, "l", &again, NULL);
	free(text);
	(void)ledger_free(again);
	(void)ledger_free(ledger);
	return rc;
}

static void test_out_of_memory(void **state)
{
	(void)state;
	assert_true(failmalloc_each(scenario_leases, NULL) > 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_one_holder_each), cmocka_unit_test(test_all_or_none),
	    cmocka_unit_test(test_refused),	    cmocka_unit_test(test_file),
	    cmocka_unit_test(test_damaged_text),    cmocka_unit_test(test_against_a_model),
	    cmocka_unit_test(test_out_of_memory),
	};
	return cmocka_run_group_tests_name("units/ledger", tests, NULL, NULL);
}
