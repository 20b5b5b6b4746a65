/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/doors/held_forms.h"

#include <stdio.h>
#include <string.h>

#include "doors/kubelet/podresources.h"
#include "policy/policy.h"
#include "unit/unit.h"

/* --- instead of the kubelet: --wrap -------------------------------------------------------------
 */

static struct podresources_holder holders[8];
static size_t holder_count;

size_t __wrap_podresources_count(const struct podresources *podresources);
const struct podresources_holder *__wrap_podresources_at(const struct podresources *podresources,
							 size_t index);

size_t __wrap_podresources_count(const struct podresources *podresources)
{
	return holder_count;
}

const struct podresources_holder *__wrap_podresources_at(const struct podresources *podresources,
							 size_t index)
{
	return &holders[index];
}

/* --- the tests ---------------------------------------------------------------------------------
 */

enum { GPUS = 3, MIGS = 2 };

static struct gpu gpus[GPUS];
static struct mig_device migs[MIGS];
static const struct inventory inventory = {
    .gpu_count = GPUS, .gpus = gpus, .mig_count = MIGS, .migs = migs};
static struct held_forms forms;

static int setup(void **state)
{
	holder_count = 0;
	for (uint32_t i = 0; i < GPUS; i++)
		(void)snprintf(gpus[i].uuid, sizeof(gpus[i].uuid), "GPU-%u", i);
	for (uint32_t i = 0; i < MIGS; i++) {
		migs[i] = (struct mig_device){.parent = 2, .index = i};
		(void)snprintf(migs[i].uuid, sizeof(migs[i].uuid), "MIG-%u", i);
	}
	return 0;
}

static void held(const char *unit)
{
	holders[holder_count++] = (struct podresources_holder){
	    .unit = unit, .resource = "nvidia.com/gpu", .name_space = "a", .pod = "b"};
}

/* "G0", "M1 G2": what is kept out when GPU 0 and 1 are given with this number of replicas, and of
 * GPU 2 the MIG devices, or (`whole`) it itself. */
static const char *kept(uint32_t replicas, bool whole)
{
	static char text[64];
	static const struct podresources *pods = (const struct podresources *)&holders;
	struct policy_unit units[GPUS + MIGS];
	struct policy_resource resource = {.door = POLICY_DOOR_KUBELET, .count = 2};
	for (uint32_t i = 0; i < 2; i++)
		units[i] =
		    (struct policy_unit){.gpu = i, .mig = POLICY_WHOLE_GPU, .replicas = replicas};
	for (uint32_t i = 0; i < (whole ? 1 : MIGS); i++)
		units[resource.count++] = (struct policy_unit){
		    .gpu = 2, .mig = whole ? POLICY_WHOLE_GPU : i, .replicas = 1};
	const struct policy policy = {.resources = &resource, .resource_count = 1, .units = units};
	bool any = held_forms_find(&inventory, &policy, pods, &forms);
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
	held("::");
	assert_string_equal(kept(1, false), "");
	holder_count = 0;
	held("GPU-0::3");
	assert_string_equal(kept(4, false), "");
	assert_string_equal(kept(2, false), ""); /* shared is shared */
	holder_count = 0;
	assert_string_equal(kept(4, false), "");
}

static void test_whole_and_shared(void **state)
{
	held("GPU-0");
	assert_string_equal(kept(4, false), "G0 ");
	assert_non_null(strstr(forms.gpu[0], "holds it whole"));
	holder_count = 0;
	held("GPU-1::0");
	assert_string_equal(kept(1, false), "G1 ");
	assert_non_null(strstr(forms.gpu[1], "a share of it"));
}

static void test_gpus_and_their_instances(void **state)
{
	held("GPU-2");
	assert_string_equal(kept(1, false), "M0 M1 ");
	assert_string_equal(kept(1, true), "");
	holder_count = 0;
	held("MIG-1");
	assert_string_equal(kept(1, true), "G2 ");
	assert_string_equal(kept(1, false), "");
}

static void test_nothing_is_known(void **state)
{
	const struct policy policy = {.resource_count = 0};
	held("GPU-0");
	assert_false(held_forms_find(&inventory, &policy, NULL, &forms));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(test_the_same_form_stays, setup),
	    cmocka_unit_test_setup(test_whole_and_shared, setup),
	    cmocka_unit_test_setup(test_gpus_and_their_instances, setup),
	    cmocka_unit_test_setup(test_nothing_is_known, setup),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
