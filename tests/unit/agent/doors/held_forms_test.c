/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/doors/held_forms.h"

#include <stdio.h>
#include <string.h>

#include "policy/policy.h"
#include "unit/unit.h"
#include "units/ledger.h"

/* --- the tests ---------------------------------------------------------------------------------
 */

enum { GPUS = 3, MIGS = 2 };

static struct gpu gpus[GPUS];
static struct mig_device migs[MIGS];
static const struct inventory inventory = {
    .gpu_count = GPUS, .gpus = gpus, .mig_count = MIGS, .migs = migs};
static struct held_forms forms;
static struct ledger *ledger;

static void empty(void)
{
	struct ledger_device devices[GPUS + MIGS];
	for (uint32_t i = 0; i < GPUS; i++)
		devices[i] = (struct ledger_device){.uuid = gpus[i].uuid};
	for (uint32_t i = 0; i < MIGS; i++)
		devices[GPUS + i] =
		    (struct ledger_device){.uuid = migs[i].uuid, .gpu = gpus[migs[i].parent].uuid};
	(void)ledger_free(ledger);
	ledger = ledger_new();
	assert_non_null(ledger);
	assert_int_equal(ledger_describe(ledger, devices, GPUS + MIGS, NULL), 0);
}

static int setup(void **state)
{
	for (uint32_t i = 0; i < GPUS; i++)
		(void)snprintf(gpus[i].uuid, sizeof(gpus[i].uuid), "GPU-%u", i);
	for (uint32_t i = 0; i < MIGS; i++) {
		migs[i] = (struct mig_device){.parent = 2, .index = i};
		(void)snprintf(migs[i].uuid, sizeof(migs[i].uuid), "MIG-%u", i);
	}
	empty();
	return 0;
}

static int teardown(void **state)
{
	ledger = ledger_free(ledger);
	return 0;
}

static void hold(enum policy_door door, const char *unit)
{
	const struct ledger_lease lease = {
	    .unit = unit, .resource = "nvidia.com/gpu", .holder = "a/b/c", .door = door};
	assert_int_equal(ledger_take(ledger, &lease, NULL), 0);
}

static void held(const char *unit)
{
	hold(POLICY_DOOR_KUBELET, unit);
}

/* "G0", "M1 G2": what is kept out when GPU 0 and 1 are given with this number of replicas, and of
 * GPU 2 the MIG devices, or (`whole`) it itself. */
static const char *kept(uint32_t replicas, bool whole)
{
	static char text[64];
	struct policy_unit units[GPUS + MIGS];
	struct policy_resource resource = {.door = POLICY_DOOR_KUBELET, .count = 2};
	for (uint32_t i = 0; i < 2; i++)
		units[i] =
		    (struct policy_unit){.gpu = i, .mig = POLICY_WHOLE_GPU, .replicas = replicas};
	for (uint32_t i = 0; i < (whole ? 1 : MIGS); i++)
		units[resource.count++] = (struct policy_unit){
		    .gpu = 2, .mig = whole ? POLICY_WHOLE_GPU : i, .replicas = 1};
	const struct policy policy = {.resources = &resource, .resource_count = 1, .units = units};
	bool any = held_forms_find(&inventory, &policy, ledger, &forms);
	text[0] = '\0';
	for (uint32_t i = 0; i < GPUS; i++)
		if (forms.gpu[i])
			(void)snprintf(text + strlen(text), 8, "G%u ", i);
	for (uint32_t i = 0; i < MIGS; i++)
		if (forms.mig[i])
			(void)snprintf(text + strlen(text), 8, "M%u ", i);
	assert_int_equal(any, text[0] != '\0');
	return text;
}

static void test_the_same_form_stays(void **state)
{
	held("GPU-0");
	held("MIG-1");
	held("nic0");
	assert_string_equal(kept(1, false), "");
	empty();
	held("GPU-0::3");
	assert_string_equal(kept(4, false), "");
	assert_string_equal(kept(2, false), ""); /* shared is shared */
	empty();
	assert_string_equal(kept(4, false), "");
}

static void test_whole_and_shared(void **state)
{
	held("GPU-0");
	assert_string_equal(kept(4, false), "G0 ");
	assert_non_null(strstr(forms.gpu[0], "holds it whole"));
	empty();
	held("GPU-1::0");
	assert_string_equal(kept(1, false), "G1 ");
	assert_non_null(strstr(forms.gpu[1], "a share of it"));
}

static void test_gpus_and_their_instances(void **state)
{
	held("GPU-2");
	assert_string_equal(kept(1, false), "M0 M1 ");
	assert_string_equal(kept(1, true), "");
	empty();
	held("MIG-1");
	assert_string_equal(kept(1, true), "G2 ");
	assert_string_equal(kept(1, false), "");
}

static void test_jobs(void **state)
{
	hold(POLICY_DOOR_QUEUE, "GPU-0");
	hold(POLICY_DOOR_QUEUE, "GPU-1::3");
	assert_string_equal(kept(1, false), "G0 G1 ");
	assert_string_equal(forms.gpu[1], "a job holds it: it is given once it is free");
	assert_string_equal(kept(4, false), "G0 G1 ");
	empty();
	hold(POLICY_DOOR_QUEUE, "GPU-2");
	assert_string_equal(kept(1, false), "M0 M1 ");
	assert_non_null(strstr(forms.mig[0], "a job holds its whole GPU"));
	empty();
	hold(POLICY_DOOR_QUEUE, "MIG-1");
	assert_string_equal(kept(1, true), "G2 ");
	assert_non_null(strstr(forms.gpu[2], "a job holds a MIG device of it"));
	assert_string_equal(kept(1, false), "M1 ");
}

static void test_nothing_is_the_kubelets(void **state)
{
	const struct policy policy = {.resource_count = 0};
	held("GPU-0");
	assert_false(held_forms_find(&inventory, &policy, ledger, &forms));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_the_same_form_stays, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_whole_and_shared, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_gpus_and_their_instances, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_jobs, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_nothing_is_the_kubelets, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
