/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "base/text.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

static struct config *parse(const char *text)
{
	struct config *config = NULL;
	struct err err = {0};
	if (config_parse(text, text ? strlen(text) : 0, "c.yaml", NULL, false, &config, &err) < 0)
		fail_msg("%s", err.text);
	return config;
}

struct refusal {
	const char *text;    /* the file */
	const char *message; /* all of what is said */
};

static void refuse(const struct refusal *refusal)
{
	struct config *config = NULL;
	struct err err = {0};
	int rc = config_parse(refusal->text, strlen(refusal->text), "c.yaml", NULL, false, &config,
			      &err);
	if (rc != -EINVAL || strcmp(err.text, refusal->message) != 0)
		fail_msg("of\n%s\nsaid   '%s' (%d)\nwanted '%s'", refusal->text, err.text, rc,
			 refusal->message);
	assert_null(config);
}

/* What is ours stands below `sluice`: what NVIDIA's plugin has elsewhere, today or later, is its
 * own (api/config/v1 of https://github.com/NVIDIA/k8s-device-plugin). */
static void test_own_keys_are_below_sluice(void **state)
{
	static const char *const theirs[] = {
	    "version",
	    "flags.migStrategy",
	    "flags.failOnInitError",
	    "flags.mpsRoot",
	    "flags.nvidiaDriverRoot",
	    "flags.nvidiaDevRoot",
	    "flags.gdrcopyEnabled",
	    "flags.gdsEnabled",
	    "flags.mofedEnabled",
	    "flags.useNodeFeatureAPI",
	    "flags.deviceDiscoveryStrategy",
	    "flags.plugin.passDeviceSpecs",
	    "flags.plugin.deviceListStrategy",
	    "flags.plugin.deviceIDStrategy",
	    "flags.plugin.cdiAnnotationPrefix",
	    "flags.plugin.nvidiaCTKPath",
	    "flags.plugin.containerDriverRoot",
	    "flags.plugin.sharedDevicesAllocationPolicy",
	    "flags.gfd.oneshot",
	    "flags.gfd.noTimestamp",
	    "flags.gfd.sleepInterval",
	    "flags.gfd.outputFile",
	    "flags.gfd.machineTypeFile",
	    "sharing.timeSlicing.renameByDefault",
	    "sharing.timeSlicing.failRequestsGreaterThanOne",
	    "imex.channelIDs",
	    "imex.required",
	};
	(void)state;

	for (uint32_t id = 0; id < SCHEMA_COUNT; id++) {
		const char *path = schema_row((enum schema_id)id)->path;
		bool known = text_starts_with(path, "sluice.") ||
			     text_starts_with(path, "sharing.fairShare.");

		for (size_t i = 0; i < array_length(theirs); i++)
			known = known || strcmp(path, theirs[i]) == 0;
		if (!known)
			fail_msg("%s is no key of NVIDIA's plugin: it belongs below sluice", path);
	}
}

static void test_defaults(void **state)
{
	(void)state;
	struct config *config = parse(NULL);
	assert_int_equal(config->mig_strategy, CONFIG_MIG_NONE);
	assert_true(config->fail_on_init_error);
	assert_string_equal(config->driver_root, "/");
	assert_int_equal(config->list_strategy, CONFIG_LIST_ENVVAR);
	assert_int_equal(config->gfd_sleep_ns, UINT64_C(60000000000));
	assert_int_equal(config->time_slicing.count, 0);
	assert_false(config->doors[POLICY_DOOR_KUBELET].is_set);
	assert_int_equal(config->source[SCHEMA_MIG_STRATEGY], CONFIG_DEFAULT);
	assert_int_equal(config->warning_count, 0);
	assert_null(config_free(config));
}

/* The file of the time-slicing article of 2022 for plugin 0.12, as people still have it. */
static void test_time_slicing_file(void **state)
{
	(void)state;
	struct config *config = parse(
	    "version: v1\n"
	    "flags:\n"
	    "  migStrategy: none\n"
	    "  failOnInitError: true\n"
	    "  nvidiaDriverRoot: \"/\"\n"
	    "  plugin:\n"
	    "    passDeviceSpecs: false\n"
	    "    deviceListStrategy: envvar\n"
	    "    deviceIDStrategy: uuid\n"
	    "  gfd:\n"
	    "    oneshot: false\n"
	    "    noTimestamp: false\n"
	    "    outputFile: /etc/kubernetes/node-feature-discovery/features.d/gfd\n"
	    "    sleepInterval: 60s\n"
	    "sharing:\n"
	    "  timeSlicing:\n"
	    "    renameByDefault: true\n"
	    "    resources:\n"
	    "    - name: nvidia.com/gpu\n"
	    "      replicas: 5\n"
	    "    - {name: mig-1g.5gb, replicas: 2, rename: small, devices: [0, \"1:2\", GPU-x]}\n"
	    "    - {name: gpu, replicas: 3, devices: 2}\n");
	assert_int_equal(config->warning_count, 0);
	assert_true(config->time_slicing.rename_by_default);
	assert_false(config->time_slicing.one_each);
	assert_int_equal(config->time_slicing.count, 3);
	const struct config_share *share = config->time_slicing.items;
	assert_string_equal(share[0].name, "nvidia.com/gpu");
	assert_int_equal(share[0].replicas, 5);
	assert_int_equal(share[0].devices, CONFIG_DEVICES_ALL);
	assert_string_equal(share[1].name, "nvidia.com/mig-1g.5gb");
	assert_string_equal(share[1].rename, "nvidia.com/small");
	assert_int_equal(share[1].device_list.count, 3);
	assert_int_equal(share[1].device_list.items[1].kind, CONFIG_SELECT_MIG_INDEX);
	assert_int_equal(share[1].device_list.items[1].index, 1);
	assert_int_equal(share[1].device_list.items[1].mig_index, 2);
	assert_int_equal(share[2].devices, CONFIG_DEVICES_COUNT);
	assert_int_equal(share[2].device_count, 2);
	assert_int_equal(config->source[SCHEMA_MIG_STRATEGY], CONFIG_FILE);
	assert_int_equal(config->source[SCHEMA_GDS], CONFIG_DEFAULT);
	assert_null(config_free(config));
}

static void test_our_section_and_rules(void **state)
{
	(void)state;
	struct config *config = parse("resources:\n"
				      "  gpus: [{pattern: \"*A100*\", name: a100}]\n"
				      "sluice:\n"
				      "  devices: {include: [0, \"0000:3B:00.0\", \"name:*T4*\", "
				      "\"numa:1\"], exclude: [GPU-a]}\n"
				      "  doors:\n"
				      "    kubelet: {devices: [0, 1], inject: peer}\n"
				      "    queue: {devices: none}\n"
				      "  cdi: {vendor: example.com, runtime: {volumeMounts: true,"
				      "    swarmVariables: [A, B_C], runtimes: /opt/crun}}\n"
				      "  allocEnv: true\n"
				      "  health:\n"
				      "    policy: peer\n"
				      "    ignoreXids: [63, 94, 63]\n"
				      "    fatalXids: 13\n"
				      "    recover: manual\n"
				      "    pollInterval: 500ms\n");
	assert_int_equal(config->health.policy, CONFIG_HEALTH_PEER);
	assert_int_equal(config->health.recover, CONFIG_RECOVER_MANUAL);
	assert_int_equal(config->health.poll_ns, 500000000);
	assert_int_equal(config->health.ignore.count, 2);
	assert_int_equal(config->health.ignore.code[1], 94);
	assert_int_equal(config->health.fatal.code[0], 13);
	char text[64];
	assert_int_equal(schema_format(config, SCHEMA_HEALTH_IGNORE_XIDS, text, sizeof(text)), 0);
	assert_string_equal(text, "63,94");
	assert_int_equal(schema_format(config, SCHEMA_HEALTH_IGNORE_XIDS, text, 5), -ENOSPC);
	assert_string_equal(config->gpu_rules.items[0].name, "nvidia.com/a100");
	assert_int_equal(config->include.count, 4);
	assert_int_equal(config->include.items[1].kind, CONFIG_SELECT_PCI);
	assert_int_equal(config->include.items[1].pci.bus, 0x3b);
	assert_string_equal(config->include.items[2].text, "*T4*");
	assert_int_equal(config->include.items[3].index, 1);
	assert_int_equal(config->exclude.count, 1);
	assert_true(config->doors[POLICY_DOOR_KUBELET].is_set);
	assert_int_equal(config->doors[POLICY_DOOR_KUBELET].devices.count, 2);
	assert_true(config->doors[POLICY_DOOR_QUEUE].is_set);
	assert_false(config->doors[POLICY_DOOR_QUEUE].all);
	assert_int_equal(config->doors[POLICY_DOOR_QUEUE].devices.count, 0);
	assert_int_equal(config->kubelet_inject, CONFIG_INJECT_PEER);
	assert_string_equal(config->cdi_vendor, "example.com");
	assert_true(config->runtime.volume_mounts);
	assert_false(config->runtime.annotations);
	assert_false(config->runtime.unprivileged_envvar);
	assert_string_equal(config->runtime.swarm_variables, "A,B_C");
	assert_string_equal(config->runtime.runtimes, "/opt/crun");
	assert_true(config->alloc_env);
	assert_null(config_free(config));
}

static void test_names_in_any_case_as_go_reads_them(void **state)
{
	(void)state;
	struct config *config = parse("VERSION: v1\nflags: {MIGSTRATEGY: mixed}\n");
	assert_int_equal(config->mig_strategy, CONFIG_MIG_MIXED);
	assert_null(config_free(config));
	const struct refusal twice = {
	    "flags: {migStrategy: mixed, migstrategy: none}\n",
	    "c.yaml:1:29: flags: 'migstrategy' and 'migStrategy' (line 1) are the same key"};
	refuse(&twice);
}

static void test_unknown_keys(void **state)
{
	(void)state;
	const char *text =
	    "flags: {migStratgy: mixed}\nfoo: 1\n"
	    "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2, device: 1}]}}\n";
	struct config *config = parse(text);
	assert_int_equal(config->warning_count, 3);
	assert_string_equal(config->warning[0].text,
			    "flags: unknown key 'migStratgy'; did you mean 'migStrategy'?");
	assert_int_equal(config->warning[0].line, 1);
	assert_int_equal(config->warning[0].column, 9);
	assert_string_equal(config->warning[1].text, "unknown key 'foo'");
	assert_string_equal(config->warning[2].text,
			    "sharing.timeSlicing.resources[0]: unknown key "
			    "'device'; did you mean 'devices'?");
	assert_null(config_free(config));

	struct err err = {0};
	config = NULL;
	assert_int_equal(config_parse(text, strlen(text), "c.yaml", NULL, true, &config, &err),
			 -EINVAL);
	assert_string_equal(err.text, "c.yaml:1:9: flags: unknown key 'migStratgy'; did you mean "
				      "'migStrategy'?");
	const struct refusal ours = {
	    "sluice:\n  doors:\n    kubelt: {}\n",
	    "c.yaml:3:5: sluice.doors: unknown key 'kubelt'; did you mean 'kubelet'?"};
	refuse(&ours);
}

#define SHARE(rest)  "sharing: {timeSlicing: {resources: [" rest "]}}\n"
#define SHARE_AT(at) "c.yaml:1:" at ": sharing.timeSlicing.resources[0]: "

#define VENDOR_AT(vendor)                                                                          \
	"c.yaml:1:24: sluice.cdi.vendor: '" vendor "' is no vendor of CDI devices: a letter "      \
	"first, then letters, digits, '-', '_' and '.', such as sluice.dev"

static void test_refused(void **state)
{
	(void)state;
	static const struct refusal refusals[] = {
	    {"version: v2\n",
	     "c.yaml:1:10: version: unknown version: v2 (expected v1; did you mean "
	     "'v1'?)"},
	    {"[1]\n", "c.yaml:1:1: expected a map, found a list"},
	    {"flags: 3\n", "c.yaml:1:8: flags: expected a map, found '3'"},
	    {"flags: {migStrategy: mixd}\n",
	     "c.yaml:1:22: flags.migStrategy: unknown MIG strategy: mixd (expected "
	     "none|single|mixed; did you mean 'mixed'?)"},
	    {"flags: {migStrategy: [mixed]}\n",
	     "c.yaml:1:22: flags.migStrategy: expected one value, found a list"},
	    {"flags: {failOnInitError: maybe}\n",
	     "c.yaml:1:26: flags.failOnInitError: expected true or false, found 'maybe'"},
	    {"flags: {plugin: {deviceListStrategy: [envvar, cdi]}}\n",
	     "c.yaml:1:38: flags.plugin.deviceListStrategy: invalid --device-list-strategy option: "
	     "invalid strategy: cdi (expected envvar|volume-mounts|cdi-annotations|cdi-cri; did "
	     "you mean 'cdi-annotations'?)"},
	    {"flags: {plugin: {deviceIDStrategy: name}}\n",
	     "c.yaml:1:36: flags.plugin.deviceIDStrategy: invalid --device-id-strategy option: "
	     "name "
	     "(expected uuid|index)"},
	    {"flags: {deviceDiscoveryStrategy: tegra, plugin: {deviceListStrategy: cdi-cri}}\n",
	     "c.yaml: CDI --device-list-strategy options are only supported on NVML-based systems; "
	     "the device discovery strategy is tegra"},
	    {"flags: {deviceDiscoveryStrategy: tegras}\n",
	     "c.yaml:1:34: flags.deviceDiscoveryStrategy: invalid --device-discovery-strategy "
	     "option "
	     "tegras (expected auto|nvml|tegra|vfio; did you mean 'tegra'?)"},
	    {"flags: {plugin: {sharedDevicesAllocationPolicy: pack}}\n",
	     "c.yaml:1:49: flags.plugin.sharedDevicesAllocationPolicy: invalid "
	     "--shared-devices-allocation-policy option: pack (expected "
	     "distributed|packed|spread|spread-strict; did you mean 'packed'?)"},
	    {"flags: {gfd: {sleepInterval: 60x}}\n",
	     "c.yaml:1:30: flags.gfd.sleepInterval: expected a duration such as 60s, 1h30m or "
	     "infinite, found '60x'"},
	    {"sluice: {jobs: {defaultTime: 3600}}\n",
	     "c.yaml:1:30: sluice.jobs.defaultTime: expected a duration with its unit, found "
	     "'3600': write 3600s for seconds, or a duration such as 90m or 1h30m"},
	    {"sluice:\n  labels:\n    expiry: \"60\"\n",
	     "c.yaml:3:13: sluice.labels.expiry: expected a duration with its unit, found '60': "
	     "write 60s for seconds, or a duration such as 90m or 1h30m"},
	    {"sharing: {mps: {resources: [{name: gpu, replicas: 2}]}}\n",
	     "c.yaml:1:16: sharing.mps is not supported yet; remove it or keep NVIDIA's plugin on "
	     "this node"},
	    {"sharing: {timeSlicing: {}}\n",
	     "c.yaml:1:24: sharing.timeSlicing: no resources specified"},
	    {SHARE(""), "c.yaml:1:36: sharing.timeSlicing.resources: no resources specified"},
	    {SHARE("{replicas: 2}"), SHARE_AT("37") "no resource name specified"},
	    {SHARE("{name: gpu}"), SHARE_AT("37") "no replicas specified"},
	    {SHARE("{name: gpu, replicas: 1}"),
	     SHARE_AT("59") "number of replicas must be >= 2, found 1"},
	    {SHARE("{name: gpu, replicas: -4}"),
	     SHARE_AT("59") "number of replicas must be >= 2, found -4"},
	    {SHARE("{name: gpu, replicas: 1000000000000000000}"),
	     SHARE_AT("59") "at most 1024 replicas of a device are possible, found "
			    "1000000000000000000"},
	    {SHARE("{name: gpu, replicas: 99999999999999999999}"),
	     SHARE_AT("59") "at most 1024 replicas of a device are possible, found "
			    "99999999999999999999"},
	    {SHARE("{name: gpu, replicas: 2.5}"),
	     SHARE_AT("59") "expected a whole number, found '2.5'"},
	    {SHARE("{name: gpu, replicas: 2, devices: some}"),
	     SHARE_AT("71") "devices set as 'some' but the only valid string input is 'all'"},
	    {SHARE("{name: gpu, replicas: 2, devices: 0}"),
	     SHARE_AT("71") "devices set as '0' but a count of devices must be > 0 and at most "
			    "1024"},
	    {SHARE("{name: gpu, replicas: 2, devices: [x]}"),
	     "c.yaml:1:72: sharing.timeSlicing.resources[0][0]: unsupported type for device in "
	     "devices list: 'x' (expected an index, \"GPU:MIG\", a UUID)"},
	    {SHARE("{name: gpu, replicas: 2, devices: [1, \"1\"]}"),
	     "c.yaml:1:75: sharing.timeSlicing.resources[0][1]: '1' is in the list twice"},
	    {SHARE("{name: GPU, replicas: 2}"),
	     SHARE_AT("44") "incorrect format for resource name 'GPU' (lower-case letters, digits, "
			    "'-' and '.')"},
	    {SHARE("{name: amd.com/gpu, replicas: 2}"),
	     SHARE_AT("44") "incorrect format for resource name 'amd.com/gpu' (lower-case letters, "
			    "digits, '-' and '.')"},
	    {SHARE(
		 "{name: g, replicas: 2, rename: a123456789a123456789a123456789a123456789a12345678"
		 "9abc}"),
	     SHARE_AT("68") "fully-qualified resource name must be 63 characters or less: "
			    "nvidia.com/a123456789a123456789a123456789a123456789a123456789abc"},
	    {"resources: {gpus: [{name: a}]}\n",
	     "c.yaml:1:20: resources.gpus[0]: resources must have a 'pattern' field set"},
	    {"resources: {gpus: [{pattern: a}]}\n",
	     "c.yaml:1:20: resources.gpus[0]: resources must have a 'name' field set"},
	    {"imex: {channelIDs: [1]}\n", "c.yaml:1:20: imex.channelIDs: invalid IMEX channel IDs: "
					  "channelIDs must be [] or [0]; "
					  "found 1"},
	    {"imex: {channelIDs: [0, x]}\n", "c.yaml:1:20: imex.channelIDs: invalid IMEX channel "
					     "IDs: channelIDs must be [] or [0]; "
					     "found x"},
	    {"sluice: {devices: {include: [\"pci:1\"]}}\n",
	     "c.yaml:1:30: sluice.devices.include[0]: unsupported type for device in devices list: "
	     "'pci:1' (expected an index, a UUID, a PCI address, name:PATTERN or numa:N)"},
	    {"sluice: {doors: {kubelet: {devices: all}, queue: {devices: all}}}\n",
	     "c.yaml: sluice.doors: both the kubelet and the queue are given all devices; a device "
	     "belongs to one door at a time"},
	    {"sluice: {doors: {kubelet: {devices: [0, 1]}, queue: {devices: [2, 1]}}}\n",
	     "c.yaml:1:67: sluice.doors.queue.devices: '1' is given to the kubelet too (line 1); a "
	     "device belongs to one door at a time"},
	    {"sluice: {doors: {kubelet: {devices: some}}}\n",
	     "c.yaml:1:37: sluice.doors.kubelet.devices: expected all, none or a list of devices, "
	     "found 'some'"},
	    {"sluice: {doors: {kubelet: {inject: pear}}}\n",
	     "c.yaml:1:36: sluice.doors.kubelet.inject: unknown value: pear (expected auto|peer; "
	     "did you mean 'peer'?)"},
	    {"sluice: {cdi: {vendor: 3com.com}}\n", VENDOR_AT("3com.com")},
	    {"sluice: {cdi: {vendor: a/b}}\n", VENDOR_AT("a/b")},
	    {"sluice: {cdi: {vendor: a.}}\n", VENDOR_AT("a.")},
	    {"sluice: {cdi: {vendor: ''}}\n", VENDOR_AT("")},
	    {"sluice: {cdi: {runtime: {runtimes: [runc, 'a b']}}}\n",
	     "c.yaml:1:36: sluice.cdi.runtime.runtimes: expected a list of names, found 'runc,a "
	     "b'"},
	    {"sluice: {cdi: {runtime: {runtimes: 'runc,'}}}\n",
	     "c.yaml:1:36: sluice.cdi.runtime.runtimes: expected a list of names, found 'runc,'"},
	    {"sluice: {cdi: {runtime: {swarmVariables: [A=b]}}}\n",
	     "c.yaml:1:42: sluice.cdi.runtime.swarmVariables: expected a list of names, found "
	     "'A=b'"},
	    {"sluice: {health: {ignoreXids: [13, x]}}\n",
	     "c.yaml:1:31: sluice.health.ignoreXids: expected a list of XIDs, numbers up to 9999, "
	     "found '13,x'"},
	    {"sluice: {health: {ignoreXids: [13], fatalXids: [31, 13]}}\n",
	     "c.yaml: sluice.health: XID 13 is in both ignoreXids and fatalXids"},
	    {"sluice: {health: {fatalXids: [10000]}}\n",
	     "c.yaml:1:30: sluice.health.fatalXids: expected a list of XIDs, numbers up to 9999, "
	     "found '10000'"},
	    {"sluice: {health: {policy: tabel}}\n",
	     "c.yaml:1:27: sluice.health.policy: unknown value: tabel (expected table|peer; did "
	     "you mean 'table'?)"},
	    {"sluice: {allocEnv: 7}\n",
	     "c.yaml:1:20: sluice.allocEnv: expected true or false, found '7'"},
	};
	for (size_t i = 0; i < array_length(refusals); i++)
		refuse(&refusals[i]);
}

static void test_precedence(void **state)
{
	(void)state;
	const char *text = "flags: {migStrategy: single, gdsEnabled: true}\n";
	struct config_overrides overrides = {0};
	struct config *config = NULL;
	struct err err = {0};
	overrides.environment[SCHEMA_MIG_STRATEGY] = "mixed";
	overrides.environment[SCHEMA_GDS] = "false";
	overrides.flag[SCHEMA_MIG_STRATEGY] = "none"; /* the default, and yet given */
	assert_int_equal(
	    config_parse(text, strlen(text), "c.yaml", &overrides, false, &config, &err), 0);
	assert_int_equal(config->mig_strategy, CONFIG_MIG_NONE);
	assert_int_equal(config->source[SCHEMA_MIG_STRATEGY], CONFIG_FLAG);
	assert_false(config->gds);
	assert_int_equal(config->source[SCHEMA_GDS], CONFIG_ENVIRONMENT);
	config = config_free(config);

	overrides.flag[SCHEMA_MIG_STRATEGY] = "many";
	assert_int_equal(config_parse(NULL, 0, "x", &overrides, false, &config, &err), -EINVAL);
	assert_string_equal(err.text, "--mig-strategy: unknown MIG strategy: many (expected "
				      "none|single|mixed)");
	overrides.flag[SCHEMA_MIG_STRATEGY] = NULL;
	overrides.environment[SCHEMA_GDS] = "perhaps";
	assert_int_equal(config_parse(NULL, 0, "x", &overrides, false, &config, &err), -EINVAL);
	assert_string_equal(err.text, "environment variable GDS_ENABLED: expected true or false, "
				      "found 'perhaps'");
}

static void test_durations(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		uint64_t ns;
	} good[] = {
	    {"60s", UINT64_C(60000000000)},
	    {"1h2m3.5s", UINT64_C(3723500000000)},
	    {"250ms", 250000000},
	    {"5", 5},
	    {"1.5us", 1500},
	    {"infinite", SCHEMA_FOREVER},
	    {"0", 0},
	    {".5s", 500000000},
	};
	uint64_t ns;
	for (size_t i = 0; i < array_length(good); i++) {
		if (schema_parse_duration(good[i].text, &ns) != 0 || ns != good[i].ns)
			fail_msg("%s", good[i].text);
	}
	static const char *const bad[] = {"",
					  "s",
					  "1",
					  "-1s",
					  "1s5",
					  "1 s",
					  ".s",
					  "1.5",
					  "1d",
					  "999999999999999999h",
					  "99999999999999999999s"};
	for (size_t i = 0; i < array_length(bad); i++) {
		bool is_bare = strcmp(bad[i], "1") == 0;
		if ((schema_parse_duration(bad[i], &ns) == 0) != is_bare)
			fail_msg("'%s'", bad[i]);
	}
}

static void test_jobs_section(void **state)
{
	(void)state;
	struct config *config = parse("sluice:\n"
				      "  jobs:\n"
				      "    prefer: [1, 0, GPU-abc, '2:1']\n"
				      "    busyOutsiders: share\n"
				      "    minimumIsolation: cgroup\n"
				      "    order: shortest\n"
				      "    groups:\n"
				      "    - {group: students, gpus: 1}\n"
				      "    - {group: staff, pending: 5}\n"
				      "    limits: {pending: 100, gpus: 2}\n"
				      "    defaultTime: 12h\n"
				      "    maxTime: 48h\n"
				      "    retention: infinite\n"
				      "    adminGroup: gpu-admins\n"
				      "    logLimit: 64Mi\n"
				      "    cpus: 7.5\n"
				      "    memory: 60G\n"
				      "    volumes:\n"
				      "    - {name: data, path: /srv/data, readOnly: true}\n"
				      "    - {name: scratch.a, path: /scratch}\n");
	const struct config_jobs *jobs = &config->jobs;
	assert_string_equal(jobs->prefer, "1,0,GPU-abc,2:1");
	assert_int_equal(jobs->busy_outsiders, CONFIG_OUTSIDERS_SHARE);
	char text[64];
	assert_int_equal(schema_format(config, SCHEMA_JOBS_MINIMUM_ISOLATION, text, sizeof(text)),
			 0);
	assert_string_equal(text, "cgroup");
	assert_int_equal(jobs->order, CONFIG_ORDER_SHORTEST);
	assert_int_equal(jobs->group_count, 2);
	/* What a group does not say is what everybody has, wherever in the file that stands. */
	assert_string_equal(jobs->groups[0].name, "students");
	assert_int_equal(jobs->groups[0].pending, 100);
	assert_int_equal(jobs->groups[0].gpus, 1);
	assert_int_equal(jobs->groups[1].pending, 5);
	assert_int_equal(jobs->groups[1].gpus, 2);
	assert_int_equal(jobs->default_time_ns, UINT64_C(43200000000000));
	assert_true(jobs->retention_ns == SCHEMA_FOREVER);
	assert_string_equal(jobs->admin_group, "gpu-admins");
	assert_int_equal(jobs->log_bytes, 64 << 20);
	assert_int_equal(jobs->cpu_milli, 7500);
	assert_true(jobs->mem_bytes == UINT64_C(60000000000));
	assert_int_equal(jobs->volume_count, 2);
	assert_string_equal(jobs->volumes[0].path, "/srv/data");
	assert_true(jobs->volumes[0].is_read_only);
	assert_false(jobs->volumes[1].is_read_only);
	assert_null(config_free(config));

	config = parse("sluice: {jobs: {cpus: 250m, logLimit: none, enforce: yes}}");
	assert_int_equal(config->jobs.cpu_milli, 250);
	assert_int_equal(config->jobs.log_bytes, 0);
	assert_true(config->jobs.enforce);
	assert_string_equal(config->jobs.enforce_group, "sluice");
	assert_int_equal(schema_format(config, SCHEMA_JOBS_CPUS, text, sizeof(text)), 0);
	assert_string_equal(text, "250m");
	assert_int_equal(schema_format(config, SCHEMA_JOBS_MEMORY, text, sizeof(text)), 0);
	assert_string_equal(text, "auto");
	assert_null(config_free(config));
}

static void test_jobs_defaults(void **state)
{
	(void)state;
	struct config *config = parse(NULL);
	const struct config_jobs *jobs = &config->jobs;
	assert_false(jobs->enforce);
	assert_string_equal(jobs->admin_group, "");
	char text[64];
	assert_int_equal(schema_format(config, SCHEMA_JOBS_MINIMUM_ISOLATION, text, sizeof(text)),
			 0);
	assert_string_equal(text, "none");
	assert_int_equal(jobs->limit_pending, 10000);
	assert_int_equal(jobs->limit_gpus, 0);
	assert_true(jobs->default_time_ns == SCHEMA_FOREVER);
	assert_true(jobs->retention_ns == UINT64_C(2592000000000000));
	assert_int_equal(jobs->log_bytes, 1 << 30);
	assert_int_equal(jobs->cpu_milli, 0);
	assert_null(config_free(config));
}

static void test_jobs_refused(void **state)
{
	(void)state;
	static const struct refusal refusals[] = {
	    {"sluice: {jobs: {minimumIsolation: cgruop}}",
	     "c.yaml:1:35: sluice.jobs.minimumIsolation: unknown value: cgruop (expected "
	     "none|env|landlock|cgroup|container; did you mean 'cgroup'?)"},
	    {"sluice: {jobs: {memory: 0}}",
	     "c.yaml:1:25: sluice.jobs.memory: expected a size such as 512Mi, 64Gi or auto, found "
	     "'0'"},
	    {"sluice: {jobs: {cpus: -1}}",
	     "c.yaml:1:23: sluice.jobs.cpus: expected a number of processors such as 8, 7.5, 7500m "
	     "or auto, found '-1'"},
	    {"sluice: {jobs: {adminGroup: 'a b'}}",
	     "c.yaml:1:29: sluice.jobs.adminGroup: expected the name of a group, found 'a b'"},
	    {"sluice: {jobs: {enforceGroup: ''}}",
	     "c.yaml:1:31: sluice.jobs.enforceGroup: expected the name of a group, found none"},
	    {"sluice: {jobs: {prefer: [0, fast]}}",
	     "c.yaml:1:25: sluice.jobs.prefer: expected an index, \"GPU:MIG\" or a UUID, found "
	     "'fast'"},
	    {"sluice: {jobs: {groups: [{gpus: 1}]}}",
	     "c.yaml:1:26: sluice.jobs.groups[0]: no 'group' is given"},
	    {"sluice: {jobs: {groups: [{group: a, gpus: -1}]}}",
	     "c.yaml:1:43: sluice.jobs.groups[0]: expected a number up to 1000000 as 'gpus', found "
	     "'-1'"},
	    {"sluice: {jobs: {groups: [{group: a}, {group: a}]}}",
	     "c.yaml:1:38: sluice.jobs.groups[1]: 'a' is in the list twice (line 1)"},
	    {"sluice: {jobs: {groups: [{group: a, gpu: 1}]}}",
	     "c.yaml:1:37: sluice.jobs.groups[0]: unknown key 'gpu'; did you mean 'gpus'?"},
	    {"sluice: {jobs: {volumes: [{name: data, path: srv}]}}",
	     "c.yaml:1:27: sluice.jobs.volumes[0]: expected an absolute path, found 'srv'"},
	    {"sluice: {jobs: {volumes: [{name: Data, path: /srv}]}}",
	     "c.yaml:1:27: sluice.jobs.volumes[0]: 'Data' is no name of a claim (lower-case "
	     "letters, "
	     "digits, '-' and '.')"},
	    {"sluice: {jobs: {volumes: {name: data}}}",
	     "c.yaml:1:26: sluice.jobs.volumes: expected a list of {name, path, readOnly}, found a "
	     "map"},
	};
	for (size_t i = 0; i < array_length(refusals); i++)
		refuse(&refusals[i]);
}

static void test_patterns(void **state)
{
	(void)state;
	assert_true(config_pattern_matches("*", ""));
	assert_true(config_pattern_matches("*A100*", "NVIDIA A100-SXM4-40GB"));
	assert_true(config_pattern_matches("1g.5gb", "1g.5gb"));
	assert_false(config_pattern_matches("1g.5gb", "1g.5gb+me"));
	assert_false(config_pattern_matches("A100", "NVIDIA A100"));
	assert_true(config_pattern_matches("a*b*c", "axxbxxbc"));
	assert_false(config_pattern_matches("a*b*c", "axxbxxcd"));
	assert_false(config_pattern_matches("", "a"));
	assert_false(config_pattern_matches("*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
}

static int scenario_parse(void *context)
{
	static const char text[] =
	    "flags: {plugin: {deviceListStrategy: [envvar, cdi-cri]}}\n"
	    "resources: {gpus: [{pattern: a, name: b}]}\n"
	    "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2, devices: [0, 1]}]}}\n"
	    "sluice: {devices: {include: [0]}, doors: {queue: {devices: [0]}}, jobs: {groups: "
	    "[{group: a}], volumes: [{name: a, path: /a}]}}\n";
	struct config *config = NULL;
	(void)context;
	int rc = config_parse(text, sizeof(text) - 1, "c.yaml", NULL, false, &config, NULL);
	(void)config_free(config);
	return rc;
}

static void test_out_of_memory(void **state)
{
	(void)state;
	assert_true(failmalloc_each(scenario_parse, NULL) > 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_own_keys_are_below_sluice),
	    cmocka_unit_test(test_defaults),
	    cmocka_unit_test(test_time_slicing_file),
	    cmocka_unit_test(test_our_section_and_rules),
	    cmocka_unit_test(test_names_in_any_case_as_go_reads_them),
	    cmocka_unit_test(test_unknown_keys),
	    cmocka_unit_test(test_refused),
	    cmocka_unit_test(test_precedence),
	    cmocka_unit_test(test_durations),
	    cmocka_unit_test(test_jobs_section),
	    cmocka_unit_test(test_jobs_defaults),
	    cmocka_unit_test(test_jobs_refused),
	    cmocka_unit_test(test_patterns),
	    cmocka_unit_test(test_out_of_memory),
	};
	return cmocka_run_group_tests_name("policy/config", tests, NULL, NULL);
}
