/* SPDX-License-Identifier: Apache-2.0 */
#include "units/ledger.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "base/file.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

static struct ledger_lease lease_of(const char *unit, const char *holder)
{
	return (struct ledger_lease){.unit = unit,
				     .resource = "nvidia.com/gpu",
				     .holder = holder,
				     .door = POLICY_DOOR_QUEUE,
				     .since_unix_ns = 1234567890};
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

static void give(struct ledger *ledger, enum policy_door door, const char *unit, const char *holder,
		 const char *expected)
{
	struct err err = {0};
	struct ledger_lease lease = lease_of(unit, holder);
	lease.door = door;
	int rc = ledger_take(ledger, &lease, &err);
	assert_int_equal(rc, *expected ? -EBUSY : 0);
	assert_string_equal(err.text, expected);
}

static const char *obstacle(const struct ledger *ledger, const char *uuid, enum policy_door door,
			    enum ledger_form form)
{
	const struct ledger_lease *lease = ledger_obstacle(ledger, uuid, door, form);
	return lease ? lease->holder : "";
}

static void test_whole_and_slots(void **state)
{
	(void)state;
	struct ledger *ledger = ledger_new();
	give(ledger, POLICY_DOOR_KUBELET, "GPU-a", "ns/whole/main", "");
	give(ledger, POLICY_DOOR_KUBELET, "GPU-a::3", "ns/share/main",
	     "unit 'GPU-a::3' cannot be had while 'GPU-a' is held by ns/whole/main");
	give(ledger, POLICY_DOOR_KUBELET, "GPU-b::3", "ns/share/main", "");
	give(ledger, POLICY_DOOR_KUBELET, "GPU-b::03", "ns/other/main",
	     "unit 'GPU-b::03' cannot be had while 'GPU-b::3' is held by ns/share/main");
	give(ledger, POLICY_DOOR_KUBELET, "GPU-b::4", "ns/other/main", "");
	give(ledger, POLICY_DOOR_KUBELET, "GPU-b", "ns/whole/main",
	     "unit 'GPU-b' cannot be had while 'GPU-b::3' is held by ns/share/main");
	/* What only begins like it is a device of its own. */
	give(ledger, POLICY_DOOR_KUBELET, "GPU", "ns/third/main", "");
	give(ledger, POLICY_DOOR_KUBELET, "GPU-a0", "ns/third/main", "");

	assert_string_equal(obstacle(ledger, "GPU-a", POLICY_DOOR_KUBELET, LEDGER_SHARE),
			    "ns/whole/main");
	assert_string_equal(obstacle(ledger, "GPU-a", POLICY_DOOR_KUBELET, LEDGER_WHOLE), "");
	assert_string_equal(obstacle(ledger, "GPU-b", POLICY_DOOR_KUBELET, LEDGER_WHOLE),
			    "ns/share/main");
	assert_string_equal(obstacle(ledger, "GPU-b", POLICY_DOOR_KUBELET, LEDGER_SHARE), "");
	assert_string_equal(obstacle(ledger, "GPU-b", POLICY_DOOR_KUBELET, LEDGER_ANY), "");
	assert_string_equal(obstacle(ledger, "GPU-c", POLICY_DOOR_KUBELET, LEDGER_WHOLE), "");
	assert_null(ledger_free(ledger));
}

static void test_one_door_each(void **state)
{
	(void)state;
	struct ledger *ledger = ledger_new();
	give(ledger, POLICY_DOOR_QUEUE, "GPU-a::0", "job 1 of ann", "");
	give(ledger, POLICY_DOOR_KUBELET, "GPU-a::1", "ns/pod/main",
	     "unit 'GPU-a::1' cannot be had while 'GPU-a::0' is held by job 1 of ann");
	assert_string_equal(obstacle(ledger, "GPU-a", POLICY_DOOR_KUBELET, LEDGER_ANY),
			    "job 1 of ann");
	assert_string_equal(obstacle(ledger, "GPU-a", POLICY_DOOR_QUEUE, LEDGER_ANY), "");
	give(ledger, POLICY_DOOR_QUEUE, "GPU-a::1", "job 2 of bob", "");
	assert_null(ledger_free(ledger));
}

static void test_gpus_and_their_mig_devices(void **state)
{
	(void)state;
	static const struct ledger_device devices[] = {
	    {.uuid = "MIG-1", .gpu = "GPU-a"},
	    {.uuid = "GPU-a"},
	    {.uuid = "MIG-2", .gpu = "GPU-a"},
	    {.uuid = "GPU-b"},
	};
	struct ledger *ledger = ledger_new();
	assert_int_equal(ledger_describe(ledger, devices, array_length(devices), NULL), 0);
	give(ledger, POLICY_DOOR_QUEUE, "MIG-1", "job 1 of ann", "");
	/* Another MIG device may go through another door. */
	give(ledger, POLICY_DOOR_KUBELET, "MIG-2", "ns/pod/main", "");
	give(ledger, POLICY_DOOR_QUEUE, "GPU-a", "job 2 of bob",
	     "unit 'GPU-a' cannot be had while 'MIG-1' is held by job 1 of ann");
	assert_string_equal(obstacle(ledger, "GPU-a", POLICY_DOOR_QUEUE, LEDGER_ANY),
			    "job 1 of ann");

	/* MIG-1 is gone from the machine, and its holder is not. */
	assert_int_equal(ledger_describe(ledger, devices + 1, 3, NULL), 0);
	assert_int_equal(ledger_release(ledger, "MIG-2", "ns/pod/main", NULL), 0);
	assert_string_equal(obstacle(ledger, "GPU-a", POLICY_DOOR_QUEUE, LEDGER_ANY),
			    "job 1 of ann");
	assert_int_equal(ledger_describe(ledger, NULL, 0, NULL), 0);
	assert_string_equal(obstacle(ledger, "GPU-a", POLICY_DOOR_QUEUE, LEDGER_ANY),
			    "job 1 of ann");
	assert_int_equal(ledger_release_holder(ledger, "job 1 of ann"), 1);
	assert_int_equal(ledger_describe(ledger, devices, array_length(devices), NULL), 0);
	give(ledger, POLICY_DOOR_KUBELET, "GPU-a::0", "ns/pod/main", "");
	give(ledger, POLICY_DOOR_KUBELET, "MIG-1", "ns/pod/main",
	     "unit 'MIG-1' cannot be had while 'GPU-a::0' is held by ns/pod/main");
	assert_null(ledger_free(ledger));
}

/* It is said later which GPU a MIG device is of, as after a restart. */
static void test_described_later(void **state)
{
	(void)state;
	static const struct ledger_device devices[] = {{.uuid = "GPU-a"},
						       {.uuid = "MIG-1", .gpu = "GPU-a"}};
	struct ledger *ledger = ledger_new();
	give(ledger, POLICY_DOOR_QUEUE, "MIG-1", "job 1 of ann", "");
	assert_string_equal(obstacle(ledger, "GPU-a", POLICY_DOOR_QUEUE, LEDGER_ANY), "");
	assert_int_equal(ledger_describe(ledger, devices, array_length(devices), NULL), 0);
	assert_string_equal(obstacle(ledger, "GPU-a", POLICY_DOOR_QUEUE, LEDGER_ANY),
			    "job 1 of ann");
	assert_int_equal(ledger_release(ledger, "MIG-1", "job 1 of ann", NULL), 0);
	assert_string_equal(obstacle(ledger, "GPU-a", POLICY_DOOR_QUEUE, LEDGER_ANY), "");
	assert_null(ledger_free(ledger));
}

static void part(struct ledger *ledger, const char *holder, uint64_t bytes, uint64_t slices,
		 int expected, const char *message)
{
	struct err err = {0};
	struct ledger_lease lease = lease_of("GPU-a", holder);
	lease.amount[LEDGER_MEMORY] = bytes;
	lease.amount[LEDGER_TIME] = slices;
	assert_int_equal(ledger_take(ledger, &lease, &err), expected);
	assert_string_equal(err.text, message);
}

static void test_amounts(void **state)
{
	(void)state;
	static const struct ledger_device described = {.uuid = "GPU-a", .capacity = {100, 8}};
	struct ledger *ledger = ledger_new();
	part(ledger, "ann", 1, 0, -ERANGE,
	     "unit 'GPU-a': 1 bytes of memory are asked for, the device has 0");
	assert_int_equal(ledger_describe(ledger, &described, 1, NULL), 0);
	part(ledger, "ann", 101, 0, -ERANGE,
	     "unit 'GPU-a': 101 bytes of memory are asked for, the device has 100");
	part(ledger, "ann", 60, 2, 0, "");
	part(ledger, "ann", 1, 1, -EBUSY, "unit 'GPU-a' is held by ann");
	part(ledger, "bob", 41, 2, -EBUSY,
	     "unit 'GPU-a': 41 bytes of memory are asked for, 40 of 100 are left");
	part(ledger, "bob", 40, 7, -EBUSY,
	     "unit 'GPU-a': 7 slices of time are asked for, 6 of 8 are left");
	part(ledger, "bob", 40, 6, 0, "");
	part(ledger, "cat", UINT64_MAX, 0, -ERANGE,
	     "unit 'GPU-a': 18446744073709551615 bytes of memory are asked for, the device has "
	     "100");
	take(ledger, "GPU-a", "cat", -EBUSY);
	take(ledger, "GPU-a::0", "cat", -EBUSY);
	assert_int_equal(ledger_held(ledger, "GPU-a", LEDGER_MEMORY), 100);
	assert_int_equal(ledger_held(ledger, "GPU-a", LEDGER_TIME), 8);
	assert_int_equal(ledger_held(ledger, "GPU-b", LEDGER_TIME), 0);
	assert_int_equal(ledger_release(ledger, "GPU-a", "cat", NULL), -EPERM);
	assert_int_equal(ledger_release(ledger, "GPU-a", "bob", NULL), 0);
	assert_int_equal(ledger_held(ledger, "GPU-a", LEDGER_MEMORY), 60);

	/* It has less than is held by now. */
	static const struct ledger_device smaller = {.uuid = "GPU-a", .capacity = {50, 8}};
	assert_int_equal(ledger_describe(ledger, &smaller, 1, NULL), 0);
	part(ledger, "bob", 1, 0, -EBUSY,
	     "unit 'GPU-a': 1 bytes of memory are asked for, 0 of 50 are left");
	assert_null(ledger_free(ledger));
}

/* Sums that do not fit into 64 bits are too much as well. */
static void test_amounts_overflow(void **state)
{
	(void)state;
	static const struct ledger_device described = {.uuid = "GPU-a",
						       .capacity = {UINT64_MAX, UINT64_MAX}};
	struct ledger *ledger = ledger_new();
	assert_int_equal(ledger_describe(ledger, &described, 1, NULL), 0);
	part(ledger, "ann", UINT64_MAX - 1, 0, 0, "");
	part(ledger, "bob", 2, 0, -EBUSY,
	     "unit 'GPU-a': 2 bytes of memory are asked for, 1 of 18446744073709551615 are left");
	part(ledger, "bob", UINT64_MAX, 0, -EBUSY,
	     "unit 'GPU-a': 18446744073709551615 bytes of memory are asked for, 1 of "
	     "18446744073709551615 are left");
	part(ledger, "bob", 1, UINT64_MAX, 0, "");
	assert_null(ledger_free(ledger));
}

static void test_transfer(void **state)
{
	(void)state;
	struct ledger *ledger = ledger_new();
	struct err err = {0};
	struct ledger_lease next = lease_of("GPU-a", "ns/next/main");
	assert_int_equal(ledger_transfer(ledger, "x", &next, &err), -ENOENT);
	take(ledger, "GPU-a", "ns/pod/main", 0);
	assert_int_equal(ledger_transfer(ledger, "x", &next, &err), -EPERM);
	assert_int_equal(ledger_transfer(ledger, "ns/pod/main", &next, &err), 0);
	assert_string_equal(ledger_find(ledger, "GPU-a")->holder, "ns/next/main");
	assert_int_equal(ledger_find(ledger, "GPU-a")->until_ns, 0);
	ledger_keep(ledger, "GPU-a", 7);
	assert_int_equal(ledger_find(ledger, "GPU-a")->until_ns, 7);
	assert_int_equal(ledger_count(ledger), 1);

	take(ledger, "GPU-b::0", "ann", 0);
	take(ledger, "GPU-b::1", "bob", 0);
	next = lease_of("GPU-b::0", "cat");
	next.door = POLICY_DOOR_KUBELET;
	assert_int_equal(ledger_transfer(ledger, "ann", &next, &err), -EBUSY);
	assert_string_equal(ledger_find(ledger, "GPU-b::0")->holder, "ann");
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
	take(ledger, "::1", "x", -EINVAL);
	take(ledger, "GPU-a::", "x", -EINVAL);
	take(ledger, "GPU-a::4294967295", "x", -EINVAL);
	take(ledger, "GPU-a::4294967296", "x", -EINVAL);
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
	char *text = NULL;
	size_t length = 0;
	assert_int_equal(ledger_format(ledger, POLICY_DOOR_KUBELET, &text, &length, &err), 0);
	assert_string_equal(text, "sluice-ledger 1\nend 0\n");
	free(text);
	assert_int_equal(ledger_format(ledger, POLICY_DOOR_QUEUE, &text, &length, &err), 0);
	assert_int_equal(file_write_atomic(path, text, length, 0600, &err), 0);
	free(text);
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
	    {"sluice-ledger 1\na::x\tb\tqueue\t1\tc\nend 1\n",
	     "l:2: lease of 'a::x': what is behind '::' is no slot"},
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
			assert_int_equal(
			    ledger_format(ledger, POLICY_DOOR_QUEUE, &text, &length, NULL), 0);
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
	static const struct ledger_device devices[] = {{.uuid = "GPU-1"},
						       {.uuid = "MIG-1", .gpu = "GPU-1"}};
	int rc = ledger ? ledger_describe(ledger, devices, 2, NULL) : -ENOMEM;
	for (int i = 0; rc == 0 && i < 20; i++) {
		char unit[16];
		(void)snprintf(unit, sizeof(unit), "GPU-%d", i);
		struct ledger_lease lease = lease_of(unit, "me");
		rc = ledger_take(ledger, &lease, NULL);
		if (rc == 0)
			rc = ledger_transfer(ledger, "me", &lease, NULL);
	}
	if (rc == 0)
		rc = ledger_format(ledger, POLICY_DOOR_QUEUE, &text, &length, NULL);
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
	    cmocka_unit_test(test_whole_and_slots),
	    cmocka_unit_test(test_one_door_each),
	    cmocka_unit_test(test_gpus_and_their_mig_devices),
	    cmocka_unit_test(test_described_later),
	    cmocka_unit_test(test_amounts),
	    cmocka_unit_test(test_amounts_overflow),
	    cmocka_unit_test(test_transfer),
	    cmocka_unit_test(test_one_holder_each),
	    cmocka_unit_test(test_all_or_none),
	    cmocka_unit_test(test_refused),
	    cmocka_unit_test(test_file),
	    cmocka_unit_test(test_damaged_text),
	    cmocka_unit_test(test_against_a_model),
	    cmocka_unit_test(test_out_of_memory),
	};
	return cmocka_run_group_tests_name("units/ledger", tests, NULL, NULL);
}
