/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/error.h"
#include "sim/physics.h"
#include "tests/unit/unit.h"

static struct sim_machine machine, other;
static struct sim_error error;

static const char minimal[] = "[machine]\n"
			      "name = small\n"
			      "bus = 01 02\n"
			      "levels = else 30\n"
			      "[model m]\n"
			      "name = Small GPU\n"
			      "architecture = ampere\n"
			      "compute_capability = 8.6\n"
			      "pci_device_id = 0x1234 10DE\n"
			      "memory_mib = 1024\n";

/* The shortest profile that is whole, with `extra` lines at its end; the model's section is open.
 */
static char *profile(const char *extra)
{
	static char text[4096];

	(void)snprintf(text, sizeof(text),
		       "[machine]\nname = small\nbus = 01 02\nlevels = else 30\n[model m]\n"
		       "name = Small GPU\narchitecture = ampere\ncompute_capability = 8.6\n"
		       "pci_device_id = 123410DE\nmemory_mib = 1024\nbar1_mib = 256\n"
		       "memory_bus_bits = 128\ncores = 100\nsms = 10\npcie_gen = 4\n"
		       "pcie_width = 16\npower_idle_w = 10\npower_min_w = 50\n"
		       "power_max_w = 100\ngpu_max_c = 80\nslowdown_c = 90\nshutdown_c = 95\n"
		       "sm_idle_mhz = 100\nsm_max_mhz = 1000\nmem_max_mhz = 2000\n%s",
		       extra);
	return text;
}

static int parse(const char *text, const struct sim_options *options)
{
	memset(&error, 0, sizeof(error));
	return sim_profile_parse(text, strlen(text), "f", options, &machine, &error);
}

static void load(const char *name, const struct sim_options *options)
{
	if (sim_profile_load(name, options, &machine, &error) < 0)
		fail_msg("%s", error.text);
}

/* Adding `extra` must fail with an error that starts with `text`. */
static void assert_error(const char *extra, const char *text)
{
	assert_int_equal(parse(profile(extra), NULL), -1);
	assert_int_equal(error.exit_code, SIM_EXIT_INPUT);
	if (strncmp(error.text, text, strlen(text)) != 0)
		fail_msg("'%s' is not '%s...'", error.text, text);
}

static void test_minimal(void **state)
{
	assert_int_equal(parse(profile("# nothing\n"), NULL), 0);
	assert_int_equal(machine.gpu_count, 2);
	assert_int_equal(machine.model_count, 1);
	assert_string_equal(machine.driver_version, "580.105.08");
	assert_string_equal(machine.kernel_driver_version, "580.105.08");
	assert_int_equal(machine.cuda_version, 13000);
	assert_int_equal(machine.gpu[1].pci_bus, 2);
	assert_int_equal(machine.gpu[1].minor, 1);
	assert_int_equal(machine.gpu[1].numa_node, -1);
	assert_int_equal(machine.level[0][1], 30);
	assert_int_equal(machine.level[1][1], 0);
	assert_int_equal(machine.gpu[0].power_limit_mw, 100000);
	assert_int_equal(machine.model[0].memory_bytes, 1024 << 20);
	assert_int_equal(machine.model[0].ambient_c, 25);
	assert_memory_equal(machine.gpu[0].uuid, "GPU-51ce51ce-", 13);
	assert_int_equal(strlen(machine.gpu[0].uuid), 40);
	assert_string_not_equal(machine.gpu[0].uuid, machine.gpu[1].uuid);
}

static void test_same_seed_same_bytes(void **state)
{
	const struct sim_options seven = {.seed = 7, .mig_layout = "mixed"}, eight = {.seed = 8};

	load("dgx-a100", &seven);
	other = machine;
	load("dgx-a100", &seven);
	assert_memory_equal(&machine, &other, sizeof(machine));
	load("dgx-a100", &eight);
	assert_string_not_equal(machine.gpu[0].uuid, other.gpu[0].uuid);
}

static void test_dgx1_links(void **state)
{
	static const uint8_t table[8][6] = {
	    {1, 2, 3, 3, 4, 4}, {0, 2, 2, 3, 5, 5}, {0, 1, 1, 3, 3, 6}, {0, 0, 1, 2, 2, 7},
	    {0, 0, 5, 6, 7, 7}, {1, 1, 4, 6, 6, 7}, {2, 4, 5, 5, 7, 7}, {3, 4, 4, 5, 6, 6}};

	load("dgx1", NULL);
	assert_int_equal(machine.gpu_count, 8);
	assert_int_equal(machine.level[0][1], 10);
	assert_int_equal(machine.level[0][2], 30);
	assert_int_equal(machine.level[0][4], 50);
	for (uint32_t i = 0; i < 8; i++) {
		for (uint32_t k = 0; k < 6; k++) {
			const struct sim_link *link = &machine.gpu[i].link[k];
			const struct sim_link *back =
			    &machine.gpu[link->peer_gpu].link[link->peer_link];

			assert_int_equal(link->peer_kind, SIM_LINK_GPU);
			assert_int_equal(link->peer_gpu, table[i][k]);
			assert_int_equal(back->peer_gpu, i);
			assert_int_equal(back->peer_link, k);
		}
	}
}

static void test_switches(void **state)
{
	load("dgx-a100", NULL);
	assert_int_equal(machine.gpu[0].link[0].peer_kind, SIM_LINK_SWITCH);
	assert_int_equal(machine.gpu[0].link[0].switch_bus, 0xc4);
	assert_int_equal(machine.gpu[7].link[11].switch_bus, 0xc9);
	assert_int_equal(machine.gpu[7].link[12].peer_kind, SIM_LINK_NONE);
	load("dgx2", NULL);
	assert_int_equal(machine.gpu_count, 16);
	assert_int_equal(machine.gpu[0].link[5].switch_bus, 0xc9);
	assert_int_equal(machine.gpu[8].link[0].switch_bus, 0xca);
	assert_int_equal(machine.level[0][1], 10);
	assert_int_equal(machine.level[0][3], 20);
	assert_int_equal(machine.level[0][7], 40);
	assert_int_equal(machine.level[7][8], 50);
	load("hgx-h100", NULL);
	assert_int_equal(machine.gpu[0].link[17].switch_bus, 0xc7);
}

static void test_tables(void **state)
{
	load("dgx-a100", NULL);
	assert_string_equal(machine.product, "DGXA100 920-23687-2530-000");
	assert_string_equal(machine.model[0].name, "NVIDIA A100-SXM4-40GB");
	assert_int_equal(machine.model[0].pci_device_id, 0x20B010DE);
	assert_int_equal(machine.gpu[7].pci_bus, 0xbd);
	assert_int_equal(machine.gpu[4].numa_node, 7);
	assert_int_equal(machine.model[0].mig_profile_count, 7);
	assert_string_equal(machine.model[0].mig_profile[4].name, "3g.20gb");
	assert_int_equal(machine.model[0].mig_profile[4].placement_start[1], 4);
	load("t4x4", NULL);
	assert_int_equal(machine.gpu[3].pci_bus, 0);
	assert_int_equal(machine.gpu[3].pci_device, 0x1e);
	assert_int_equal(machine.level[0][3], 30);
	load("workstation", NULL);
	assert_true(machine.gpu[0].drives_display && !machine.gpu[1].drives_display);
	assert_false(machine.model[0].has_ecc);
	assert_int_equal(machine.model[0].fan_count, 1);
}

static void test_options(void **state)
{
	const struct sim_options options = {
	    .gpu_count = 4, .driver_version = "535.183.01", .minors = "3,1,0,2", .fabric = true};

	load("dgx1", &options);
	assert_int_equal(machine.gpu_count, 4);
	assert_string_equal(machine.kernel_driver_version, "535.183.01");
	assert_int_equal(machine.cuda_version, 12020);
	assert_int_equal(machine.gpu[0].minor, 3);
	assert_int_equal(machine.gpu[3].minor, 2);
	assert_true(machine.fabric);
	/* GPU 0's links 4 and 5 led to GPU 4, which is not there now */
	assert_int_equal(machine.gpu[0].link[3].peer_kind, SIM_LINK_GPU);
	assert_int_equal(machine.gpu[0].link[4].peer_kind, SIM_LINK_NONE);
}

static void test_bad_options(void **state)
{
	static const struct {
		struct sim_options options;
		const char *text;
	} cases[] = {
	    {{.gpu_count = 3}, "profile small has 2 GPUs, not 3"},
	    {{.driver_version = "abc"}, "driver version 'abc' is not one"},
	    {{.driver_version = "390.1"}, "driver version '390.1' is not one"},
	    {{.driver_version = "580."}, "driver version '580.' is not one"},
	    {{.minors = "0"}, "minors '0': names 1 of 2"},
	    {{.minors = "0,0"}, "minors '0,0': must name each"},
	    {{.minors = "0,7"}, "minors '0,7': must name each"},
	    {{.minors = "0,99999999999999999999"}, "minors '0,9999"},
	    {{.mig_layout = "single"}, "MIG layout 'single': GPU 0 (Small GPU) is not a MIG part"},
	    {{.mig_layout = "singel"}, "unknown MIG layout 'singel' (did you mean single?)"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(parse(profile(""), &cases[i].options), -1);
		assert_int_equal(error.exit_code, SIM_EXIT_INPUT);
		if (strncmp(error.text, cases[i].text, strlen(cases[i].text)) != 0)
			fail_msg("'%s' is not '%s...'", error.text, cases[i].text);
	}
}

static void test_errors_name_the_place(void **state)
{
	assert_error("colour = red\n", "f:26:1: unknown key 'colour'");
	assert_error("power_maxw = 3\n",
		     "f:26:1: unknown key 'power_maxw'; did you mean 'power_max_w'?");
	assert_error("  ecc = maybe\n", "f:26:9: 'yes' or 'no' is expected");
	assert_error("fans = 99\n", "f:26:8: must lie between 0 and 8");
	assert_error("fans = 1x\n", "f:26:9: '1x' is not a whole number");
	assert_error("fans = 99999999999999999999999\n", "f:26:8: this number is too large");
	assert_error("fans =   # none\n", "f:26:6: a value is missing after '='");
	assert_error("= 3\n", "f:26:1: a key is missing before '='");
	assert_error("fans\n", "f:26:1: 'key = value' or '[section]' is expected");
	assert_error("sms = 3\n", "f:26:1: 'sms' is there twice");
	assert_error("[model m]\n", "f:26:8: this section is there twice");
	assert_error("[mode x]\n", "f:26:2: unknown section [mode]; did you mean [model]?");
	assert_error("[gpu 0\n", "f:26:7: ']' is missing");
	assert_error("[gpu 16]\n", "f:26:6: must lie between 0 and 15");
	assert_error("[gpu 2]\n", "f:26:6: there is no GPU 2: bus lists 2");
	assert_error("[gpu 1]\nbus = 01\n",
		     "f:26:6: GPUs 0 and 1 have the same bus id 0000:01:00.0");
	assert_error("[gpu 1]\nuuid = GPU-12345678-0000-4000-8000-000000000000\n",
		     "f:27:12: a simulated UUID is GPU-51ce51ce-");
	assert_error("[gpu 0]\nuuid = GPU-51ce51ce-0000-4000-8000-000000000000\n"
		     "[gpu 1]\nuuid = GPU-51ce51ce-0000-4000-8000-000000000000\n",
		     "f:28:6: GPUs 0 and 1 have the same UUID");
	assert_error("[gpu 1]\nnuma = 3\n", "f:3:7: GPU 1 is on NUMA node 3");
	assert_error("[gpu 1]\nmodel = x\n", "f:27:9: there is no section [model x]");
}

static void test_errors_of_the_whole(void **state)
{
	assert_error("power_default_w = 40\n", "f:5:8: power_default_w is not between");
	assert_error("reserved_mib = 1024\n", "f:5:8: reserved_mib is not below");
	assert_error("nvlinks = 2\n[links]\n0 = 1 1\n1 = 0\n",
		     "f:28:1: link 1 of GPU 0 leads to GPU 1, which does not list it");
	assert_error("[links]\n0 = 1\n1 = 0\n",
		     "f:27:1: GPU 0 has 1 links, but its model nvlinks = 0");
	assert_error("[links]\n0 = 0\n", "f:27:5: a link cannot lead to its own GPU");
	assert_error("[links]\n0 = 5\n", "f:27:1: link 0 leads to GPU 5, which is not there");
	assert_error("[mig m]\n1g.5gb = 0 19 512 1 1 7 1 0 0 0 0 0-6:1\n",
		     "f:26:6: model 'm' has no MIG");
	assert_error("[mig x]\n", "f:26:6: there is no section [model x]");
	assert_error("mig = yes\n", "f:5:8: mig = yes needs a section [mig m]");
	assert_error("mig = yes\n[mig m]\n1g.5gb = 0 19 512 1 1 7 1 0 0 0 0 7:2\n",
		     "f:28:35: must lie between 0 and 6");
	assert_error("mig = yes\n[mig m]\n1g.5gb = 0 19\n", "f:28:14: column MiB is missing");
	assert_int_equal(parse(minimal, NULL), -1);
	assert_int_equal(parse("", NULL), -1);
	assert_string_equal(error.text, "f:1:1: [machine] lacks the key 'name'");
	assert_int_equal(parse("name = x\n", NULL), -1);
	assert_string_equal(error.text, "f:1:1: a section, such as [machine], must come first");
}

static void test_asymmetric_links_on_request(void **state)
{
	char *text = profile("nvlinks = 2\n[links]\n0 = 1 1\n1 = 0\n");
	char *key = strstr(text, "levels");
	char joined[4096];

	(void)snprintf(joined, sizeof(joined), "%.*sasymmetric_links = yes\n%s", (int)(key - text),
		       text, key);
	assert_int_equal(parse(joined, NULL), 0);
	assert_int_equal(machine.gpu[0].link[1].peer_kind, SIM_LINK_GPU);
	assert_int_equal(machine.gpu[1].link[1].peer_kind, SIM_LINK_NONE);
}

static void test_more_than_16_gpus(void **state)
{
	assert_int_equal(parse("[machine]\nbus = 1 2 3 4 5 6 7 8 9 a b c d e f 10 11\n", NULL), -1);
	assert_string_equal(error.text, "f:2:40: a machine has at most 16 GPUs");
}

static void test_bytes_that_are_no_text(void **state)
{
	static const char with_nul[] = "[machine]\nna\0me = x\n";
	char *large = calloc(1, (1 << 20) + 1);

	assert_non_null(large);
	assert_int_equal(
	    sim_profile_parse(with_nul, sizeof(with_nul) - 1, "f", NULL, &machine, &error), -1);
	assert_string_equal(error.text, "f:2:3: byte 0x00 does not belong in a text file");
	assert_int_equal(sim_profile_parse(large, (1 << 20) + 1, "f", NULL, &machine, &error), -1);
	assert_string_equal(error.text, "f: a profile has at most 1048576 bytes");
	memset(large, 'x', 5000);
	assert_int_equal(sim_profile_parse(large, 5000, "f", NULL, &machine, &error), -1);
	assert_string_equal(error.text, "f:1:1025: a line has at most 1024 characters");
	free(large);
}

static void test_output_is_untouched_on_failure(void **state)
{
	memset(&machine, 0x5a, sizeof(machine));
	other = machine;
	assert_int_equal(parse(profile("fans = x\n"), NULL), -1);
	assert_memory_equal(&machine, &other, sizeof(machine));
}

static void test_load(void **state)
{
	char *directory = unit_tmp_new();

	assert_int_equal(sim_profile_load("dgx-a10", NULL, &machine, &error), -1);
	assert_int_equal(error.exit_code, SIM_EXIT_INPUT);
	assert_non_null(strstr(error.text, "did you mean dgx-a100?"));
	assert_int_equal(sim_profile_load("/nowhere/x.profile", NULL, &machine, &error), -1);
	assert_non_null(strstr(error.text, "cannot open profile '/nowhere/x.profile'"));
	assert_int_equal(sim_profile_load("/dev/null", NULL, &machine, &error), -1);
	assert_non_null(strstr(error.text, "is not a plain file"));
	unit_write(unit_path(directory, "mine.profile"), profile(""));
	load(unit_path(directory, "mine.profile"), NULL);
	assert_string_equal(machine.profile, "small");
	directory = unit_tmp_free(directory);
}

/* The example in sluice-profile(5) is a whole profile. */
static void test_example_of_the_man_page(void **state)
{
	static char page[64 * 1024];
	const char *root = getenv("MESON_SOURCE_ROOT");
	char path[SIM_PATH_MAX], *start, *end;
	FILE *stream;

	assert_non_null(root);
	(void)snprintf(path, sizeof(path), "%s/man/sluice-profile.5.scd", root);
	stream = fopen(path, "re");
	assert_non_null(stream);
	page[fread(page, 1, sizeof(page) - 1, stream)] = '\0';
	(void)fclose(stream);
	start = strstr(page, "```\n");
	assert_non_null(start);
	end = strstr(start + 4, "```");
	assert_non_null(end);
	*end = '\0';
	if (parse(start + 4, NULL) < 0)
		fail_msg("%s", error.text);
	assert_int_equal(machine.gpu_count, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_minimal),
	    cmocka_unit_test(test_same_seed_same_bytes),
	    cmocka_unit_test(test_dgx1_links),
	    cmocka_unit_test(test_switches),
	    cmocka_unit_test(test_tables),
	    cmocka_unit_test(test_options),
	    cmocka_unit_test(test_bad_options),
	    cmocka_unit_test(test_errors_name_the_place),
	    cmocka_unit_test(test_errors_of_the_whole),
	    cmocka_unit_test(test_asymmetric_links_on_request),
	    cmocka_unit_test(test_more_than_16_gpus),
	    cmocka_unit_test(test_bytes_that_are_no_text),
	    cmocka_unit_test(test_output_is_untouched_on_failure),
	    cmocka_unit_test(test_load),
	    cmocka_unit_test(test_example_of_the_man_page),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
