/* SPDX-License-Identifier: Apache-2.0 */
#include "web/metrics.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/err.h"
#include "fuzz/exposition.h"
#include "hardware/rdma_counters.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"
#include "web/metrics_out.h"

#define S UINT64_C(1000000000)
enum { TEXT_MAX = 32 << 20 };

static void put(char *to, size_t size, const char *text)
{
	size_t length = strlen(text);
	assert_true(length < size);
	memcpy(to, text, length + 1);
}
#define PUT(array, text) put((array), sizeof(array), (text))

/* A machine with `gpus` GPUs of which nothing is known but what they are. */
static struct view *view_new(uint32_t gpus)
{
	struct view *view = calloc(1, sizeof(*view));
	assert_non_null(view);
	view_init(view);
	view->settings.dcgm = VIEW_DCGM_OLD;
	PUT(view->node.host, "node-1");
	PUT(view->node.version, "0.1");
	view->snapshot.gpu_count = gpus;
	view->snapshot.taken_ns = 7 * S;
	PUT(view->snapshot.driver_version, "550.54.15");
	for (uint32_t i = 0; i < gpus; i++) {
		struct snapshot_gpu *gpu = &view->snapshot.gpu[i];
		(void)snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%u", i);
		PUT(gpu->name, "A100");
		PUT(gpu->bus, "0000:0f:00.0");
		gpu->index = gpu->minor = i;
		view->gpu[i].busy_ns = view->gpu[i].energy_mj = SNAPSHOT_U64_ABSENT;
		for (size_t k = 0; k < array_length(view->gpu[i].throttle_ns); k++)
			view->gpu[i].throttle_ns[k] = SNAPSHOT_U64_ABSENT;
	}
	return view;
}

static struct view_holder *add_holder(struct view *view, uint32_t gpu, uint32_t mode,
				      const char *pod)
{
	struct view_holder *holder = &view->holder[view->holder_count++];
	*holder = (struct view_holder){.gpu = gpu,
				       .mig = SNAPSHOT_U32_ABSENT,
				       .mode = mode,
				       .slot = SNAPSHOT_U32_ABSENT,
				       .allocated = true,
				       .memory_bytes = SNAPSHOT_U64_ABSENT,
				       .energy_mj = SNAPSHOT_U64_ABSENT};
	PUT(holder->name_space, "ml");
	PUT(holder->pod, pod);
	PUT(holder->container, "main");
	PUT(holder->resource, "nvidia.com/gpu");
	return holder;
}

static struct snapshot_mig *add_mig(struct view *view, uint32_t gpu, uint32_t gi, uint32_t ci)
{
	struct snapshot_gpu *it = &view->snapshot.gpu[gpu];
	struct snapshot_mig *mig = &it->mig[it->mig_count++];
	(void)snprintf(mig->uuid, sizeof(mig->uuid), "MIG-%u-%u-%u", gpu, gi, ci);
	PUT(mig->profile, "1g.5gb");
	mig->gi = gi;
	mig->ci = ci;
	mig->memory_total = mig->memory_used = mig->memory_free = SNAPSHOT_U64_ABSENT;
	for (uint32_t i = 0; i < SNAPSHOT_ACTIVITY_COUNT; i++)
		mig->activity[i] = SNAPSHOT_U32_ABSENT;
	return mig;
}

/* The page as text, checked; owned. */
static char *render(const struct view *view, enum view_set set, struct exposition *out)
{
	struct exposition own;
	struct buf text;
	struct err err;
	buf_init(&text, TEXT_MAX);
	assert_true(view_is_valid(view));
	assert_int_equal(metrics_render(view, 10 * S, set, &text, &err), 0);
	out = out ? out : &own;
	exposition_read(buf_text(&text), text.length, out);
	assert_string_equal(out->problem, "");
	assert_true(out->most_labels <= METRICS_LABELS_MAX);
	return buf_take(&text);
}

static bool has(const struct view *view, enum view_set set, const char *part)
{
	char *text = render(view, set, NULL);
	bool found = strstr(text, part) != NULL;
	free(text);
	return found;
}
#define HAS(view, set, part)   assert_true(has((view), VIEW_SET_##set, (part)))
#define LACKS(view, set, part) assert_false(has((view), VIEW_SET_##set, (part)))

/* --- the whole text --------------------------------------------------------------------------- */

#define GPU0 "gpu=\"0\",uuid=\"GPU-0\""

static void test_whole_text(void **state)
{
	struct view *view = view_new(1);
	struct snapshot_gpu *gpu = &view->snapshot.gpu[0];
	snapshot_put(gpu, SNAPSHOT_UTIL_GPU, 83);
	snapshot_put(gpu, SNAPSHOT_MEMORY_USED, INT64_C(40) << 30);
	snapshot_put(gpu, SNAPSHOT_POWER, 250070);
	view->gpu[0].health = VIEW_HEALTHY;
	view->node.ready = true;
	view->node.ready_known = 1 | 1 << 6;
	view->node.ready_of = 1;
	view->snapshot.driver_ok = 1;
	view->node.simulated = true;
	view->node.sample_ns = 9 * S;
	view->node.sample_unix_ns = INT64_C(1700000000123456789);
	view->settings.dcgm = VIEW_DCGM_OLD;
	char *text = render(view, VIEW_SET_NATIVE, NULL);
	static const char *const lines[] = {
	    "sluice_gpus 1\n",
	    "sluice_gpu_info{" GPU0 ",name=\"A100\",pci_bus_id=\"0000:0f:00.0\",minor=\"0\","
	    "driver_version=\"550.54.15\"} 1\n",
	    "sluice_gpu_health{" GPU0 ",state=\"unknown\"} 0\n"
	    "sluice_gpu_health{" GPU0 ",state=\"healthy\"} 1\n"
	    "sluice_gpu_health{" GPU0 ",state=\"degraded\"} 0\n"
	    "sluice_gpu_health{" GPU0 ",state=\"unhealthy\"} 0\n",
	    "# TYPE sluice_gpu_utilization_ratio gauge\n"
	    "sluice_gpu_utilization_ratio{" GPU0 "} 0.83\n",
	    "sluice_gpu_memory_used_bytes{" GPU0 "} 42949672960\n",
	    "sluice_gpu_power_watts{" GPU0 "} 250.07\n",
	    "sluice_build_info{version=\"0.1\",simulated=\"true\"} 1\n",
	    "sluice_ready{what=\"service\"} 1\n",
	    "sluice_ready{what=\"driver\"} 1\n",
	    "sluice_ready{what=\"mofed\"} 0\n",
	    "sluice_config_ok 1\n",
	    "sluice_driver_ok 1\n",
	    "sluice_collect_last_success_timestamp_seconds 1700000000.123\n",
	    "sluice_collect_stale 0\n",
	};
	for (size_t i = 0; i < array_length(lines); i++)
		if (!strstr(text, lines[i]))
			fail_msg("no '%s' in:\n%s", lines[i], text);
	assert_null(strstr(text, "DCGM"));
	free(text);

	text = render(view, VIEW_SET_DCGM, NULL);
#define LABELS                                                                                     \
	"{gpu=\"0\",UUID=\"GPU-0\",pci_bus_id=\"00000000:0F:00.0\",device=\"nvidia0\","            \
	"modelName=\"A100\",Hostname=\"node-1\",DCGM_FI_DRIVER_VERSION=\"550.54.15\""
	assert_string_equal(
	    text, "# HELP DCGM_FI_DEV_POWER_USAGE Power draw in W\n"
		  "# TYPE DCGM_FI_DEV_POWER_USAGE gauge\n"
		  "DCGM_FI_DEV_POWER_USAGE" LABELS "} 250.07\n"
		  "# HELP DCGM_FI_DEV_GPU_UTIL Use of the GPU in percent\n"
		  "# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n"
		  "DCGM_FI_DEV_GPU_UTIL" LABELS "} 83\n"
		  "# HELP DCGM_FI_DEV_XID_ERRORS Code of the last XID, 0 if there was none\n"
		  "# TYPE DCGM_FI_DEV_XID_ERRORS gauge\n"
		  "DCGM_FI_DEV_XID_ERRORS" LABELS ",err_code=\"0\",err_msg=\"No Error\"} 0\n"
		  "# HELP DCGM_FI_DEV_FB_USED Memory in use in MiB\n"
		  "# TYPE DCGM_FI_DEV_FB_USED gauge\n"
		  "DCGM_FI_DEV_FB_USED" LABELS "} 40960\n");
	free(text);
	free(view);
}

static void test_sets(void **state)
{
	struct view *view = view_new(1);
	snapshot_put(&view->snapshot.gpu[0], SNAPSHOT_TEMPERATURE, 40);
	HAS(view, ALL, "sluice_gpu_temperature_celsius{");
	HAS(view, ALL, "DCGM_FI_DEV_GPU_TEMP{");
	LACKS(view, NATIVE, "DCGM_");
	LACKS(view, DCGM, "sluice_");
	view->settings.dcgm = VIEW_DCGM_NEW;
	HAS(view, ALL, "DCGM_FI_DEV_GPU_TEMP_CELSIUS{");
	LACKS(view, ALL, "DCGM_FI_DEV_GPU_TEMP{");
	HAS(view, DCGM, ",hostname=\"node-1\",");
	view->settings.dcgm = VIEW_DCGM_OFF;
	LACKS(view, ALL, "DCGM_");
	char *text = render(view, VIEW_SET_DCGM, NULL);
	assert_string_equal(text, "");
	free(text);
	free(view);
}

/* --- absent ----------------------------------------------------------------------------------- */

static void test_absent_is_no_series(void **state)
{
	struct view *view = view_new(1);
	char *text = render(view, VIEW_SET_ALL, NULL);
	for (const char *line = strstr(text, "\nsluice_gpu_"); line != NULL;
	     line = strstr(line + 1, "\nsluice_gpu_"))
		if (strncmp(line, "\nsluice_gpu_info{", 17) != 0 &&
		    strncmp(line, "\nsluice_gpu_health{", 19) != 0)
			fail_msg("%.60s", line);
	for (const char *line = strstr(text, "\nDCGM_"); line != NULL;
	     line = strstr(line + 1, "\nDCGM_"))
		if (strncmp(line, "\nDCGM_FI_DEV_XID_ERRORS{", 24) != 0)
			fail_msg("%.60s", line);
	assert_null(strstr(text, "sluice_collect_"));
	assert_null(strstr(text, "sluice_pod_resources"));
	assert_null(strstr(text, "sluice_jobs"));
	assert_null(strstr(text, "process_"));
	free(text);
	free(view);
}

/* Each value of the snapshot alone gives its series, once, and nothing else does. */
static void test_each_value_alone(void **state)
{
	struct view *view = view_new(1);
	struct exposition bare, with;
	size_t silent = 0;
	free(render(view, VIEW_SET_ALL, &bare));
	for (uint32_t value = 0; value < SNAPSHOT_VALUE_COUNT; value++) {
		snapshot_put(&view->snapshot.gpu[0], value, value == SNAPSHOT_MIG_MODE ? 0 : 1);
		free(render(view, VIEW_SET_ALL, &with));
		if (with.series == bare.series)
			silent++;
		snapshot_put(&view->snapshot.gpu[0], value, -1);
		struct exposition negative;
		free(render(view, VIEW_SET_ALL, &negative));
		bool may = value == SNAPSHOT_MARGIN || value == SNAPSHOT_TEMPERATURE ||
			   value == SNAPSHOT_TEMPERATURE_MEMORY || value == SNAPSHOT_THROTTLE;
		if (negative.series != bare.series && !may)
			fail_msg("%s is negative and has a series",
				 snapshot_value_to_string(value));
		snapshot_drop(&view->snapshot.gpu[0], value);
	}
	/* Carried on by the agent: energy, busy, 9 violations. Sums or modes: NVLink active,
	 * inactive, errors, up, there; ECC mode and what waits, MIG mode (a label) and what waits,
	 * persistence, compute mode. */
	assert_int_equal(silent, 2 + 9 + 5 + 6);
	free(view);
}

static void test_unknown_u64(void **state)
{
	struct view *view = view_new(1);
	struct view_holder *holder = add_holder(view, 0, VIEW_EXCLUSIVE, "p");
	add_mig(view, 0, 1, 0);
	view->settings.container_energy = true;
	char *text = render(view, VIEW_SET_ALL, NULL);
	assert_null(strstr(text, "18446744073709551615"));
	assert_null(strstr(text, "4294967295"));
	assert_null(strstr(text, "_memory_used_bytes"));
	assert_null(strstr(text, "_energy_"));
	assert_null(strstr(text, "_busy_"));
	free(text);
	holder->memory_bytes = UINT64_MAX - 1;
	HAS(view, NATIVE, " 18446744073709551614\n");
	free(view);
}

/* --- numbers ---------------------------------------------------------------------------------- */

static void test_numbers(void **state)
{
	static const struct {
		bool negative;
		uint64_t number;
		int exponent;
		const char *text;
	} cases[] = {
	    {false, 0, 0, "0"},
	    {true, 0, -3, "0"},
	    {false, 0, 6, "0"},
	    {false, 7, 0, "7"},
	    {true, 12, 0, "-12"},
	    {false, 83, -2, "0.83"},
	    {false, 80, -2, "0.8"},
	    {false, 100, -2, "1"},
	    {false, 101, -2, "1.01"},
	    {false, 1, -9, "0.000000001"},
	    {true, 1, -3, "-0.001"},
	    {false, 1410, 6, "1410000000"},
	    {false, 250070, -3, "250.07"},
	    {false, UINT64_MAX, 0, "18446744073709551615"},
	    {false, UINT64_MAX, -9, "18446744073.709551615"},
	    {true, UINT64_C(1) << 63, -6, "-9223372036854.775808"},
	    {false, UINT64_MAX, 6, "18446744073709551615000000"},
	};
	for (size_t i = 0; i < array_length(cases); i++) {
		char out[METRICS_NUMBER_MAX + 1];
		size_t length =
		    metrics_number(out, cases[i].negative, cases[i].number, cases[i].exponent);
		assert_true(length < METRICS_NUMBER_MAX);
		out[length] = '\0';
		assert_string_equal(out, cases[i].text);
	}
}

static void test_conversions(void **state)
{
	struct view *view = view_new(1);
	struct snapshot_gpu *gpu = &view->snapshot.gpu[0];
	snapshot_put(gpu, SNAPSHOT_MEMORY_TOTAL, INT64_C(81920) << 20);
	snapshot_put(gpu, SNAPSHOT_MEMORY_USED, (INT64_C(100) << 20) + 1048575);
	snapshot_put(gpu, SNAPSHOT_MEMORY_RESERVED, INT64_C(600) << 20);
	snapshot_put(gpu, SNAPSHOT_CLOCK_SM, 1410);
	snapshot_put(gpu, SNAPSHOT_ACTIVITY, 999999);
	snapshot_put(gpu, SNAPSHOT_MARGIN, -3);
	view->gpu[0].energy_mj = 123456;
	view->gpu[0].busy_ns = 1500000000;
	view->gpu[0].throttle_ns[7] = 250000000;
	HAS(view, DCGM, "DCGM_FI_DEV_FB_USED" LABELS "} 100\n");
	HAS(view, DCGM, "DCGM_FI_DEV_FB_RESERVED" LABELS "} 600\n");
	HAS(view, DCGM, "DCGM_FI_DEV_FB_USED_PERCENT" LABELS "} 0.001242\n");
	HAS(view, DCGM, "DCGM_FI_DEV_SM_CLOCK" LABELS "} 1410\n");
	HAS(view, DCGM, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" LABELS "} 123456\n");
	HAS(view, DCGM, "DCGM_FI_PROF_GR_ENGINE_ACTIVE" LABELS "} 0.999999\n");
	HAS(view, NATIVE, "sluice_gpu_clock_hertz{" GPU0 ",domain=\"sm\"} 1410000000\n");
	HAS(view, NATIVE, "sluice_gpu_energy_joules_total{" GPU0 "} 123.456\n");
	HAS(view, NATIVE, "sluice_gpu_energy_estimated{" GPU0 "} 0\n");
	HAS(view, NATIVE, "sluice_gpu_busy_seconds_total{" GPU0 "} 1.5\n");
	HAS(view, NATIVE, "sluice_gpu_temperature_margin_celsius{" GPU0 "} -3\n");
	HAS(view, NATIVE,
	    "sluice_gpu_throttle_seconds_total{" GPU0 ",reason=\"hw_thermal\"} 0.25\n");
	free(view);
}

/* --- names from outside ----------------------------------------------------------------------- */

static void test_escapes(void **state)
{
	struct view *view = view_new(1);
	struct view_holder *holder = add_holder(view, 0, VIEW_EXCLUSIVE, "a\\b\"c\nd\xff\xc3\xa9");
	holder->processes = 3;
	HAS(view, NATIVE, "pod=\"a\\\\b\\\"c\\nd\xef\xbf\xbd\xc3\xa9\"");
	HAS(view, DCGM, "pod=\"a\\\\b\\\"c\\nd\xef\xbf\xbd\xc3\xa9\",");
	free(view);
}

static void test_thousand_hostile_names(void **state)
{
	struct view *view = view_new(8);
	uint64_t seed = 1;
	for (uint32_t i = 0; i < 1000; i++) {
		struct view_holder *holder = add_holder(view, i % 8, VIEW_TIMESLICE, "");
		holder->slot = i;
		char *texts[] = {holder->pod, holder->name_space, holder->container,
				 holder->resource};
		size_t sizes[] = {sizeof(holder->pod), sizeof(holder->name_space),
				  sizeof(holder->container), sizeof(holder->resource)};
		for (size_t k = 0; k < array_length(texts); k++) {
			for (size_t at = 0; at + 1 < sizes[k]; at++) {
				seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
				/* All bytes, and often those that mean something. */
				char c = (char)(seed >> 56);
				texts[k][at] = seed >> 40 & 3 ? c : "\\\"\n{},= #"[seed >> 33 & 7];
			}
		}
	}
	view->settings.dcgm_split = true;
	struct exposition page;
	free(render(view, VIEW_SET_ALL, &page));
	assert_true(page.series > 2000);
	free(view);
}

/* What is there twice is shown once: a scraper refuses the page otherwise. */
static void test_nothing_twice(void **state)
{
	struct view *view = view_new(3);
	struct exposition once, twice;
	view->settings.dcgm_split = true;
	add_mig(view, 1, 3, 0);
	add_holder(view, 0, VIEW_TIMESLICE, "p");
	free(render(view, VIEW_SET_ALL, &once));
	PUT(view->snapshot.gpu[2].uuid, "GPU-0");
	view->snapshot.gpu[2].index = 0;
	add_mig(view, 1, 3, 0);
	add_holder(view, 0, VIEW_TIMESLICE, "p")->slot = 5;
	add_holder(view, 2, VIEW_TIMESLICE, "q");
	free(render(view, VIEW_SET_ALL, &twice));
	assert_true(twice.series < once.series);
	view->xid_count = view->adapter_count = view->resource_count = 2;
	for (uint32_t i = 0; i < 2; i++) {
		view->xid[i].xid = 79;
		PUT(view->adapter[i].name, "mlx5_0");
		PUT(view->resource[i].name, "nvidia.com/gpu");
	}
	view->gpu[0].reason_count = VIEW_REASON_MAX;
	view->snapshot.error_count = 2;
	free(render(view, VIEW_SET_ALL, NULL));
	free(view);
}

/* --- MIG -------------------------------------------------------------------------------------- */

static void test_mig(void **state)
{
	struct view *view = view_new(1);
	struct snapshot_gpu *gpu = &view->snapshot.gpu[0];
	snapshot_put(gpu, SNAPSHOT_UTIL_GPU, 50);
	snapshot_put(gpu, SNAPSHOT_MEMORY_USED, 1 << 30);
	snapshot_put(gpu, SNAPSHOT_MEMORY_RESERVED, 1 << 30);
	snapshot_put(gpu, SNAPSHOT_TEMPERATURE, 40);
	snapshot_put(gpu, SNAPSHOT_ACTIVITY, 1);
	view->gpu[0].busy_ns = 1;
	HAS(view, DCGM, "DCGM_FI_DEV_GPU_UTIL{");
	struct snapshot_mig *mig = add_mig(view, 0, 7, 0);
	mig->memory_used = INT64_C(512) << 20;
	mig->memory_total = INT64_C(4864) << 20;
	mig->activity[SNAPSHOT_ACTIVITY_TENSOR] = 250000;
	*add_mig(view, 0, 7, 1) = *mig;
	gpu->mig[1].ci = 1;
	PUT(gpu->mig[1].uuid, "MIG-other");
	struct view_holder *holder = add_holder(view, 0, VIEW_MIG, "tenant");
	holder->mig = 0;
#define MIG0                                                                                       \
	GPU0 ",gpu_instance_id=\"7\",compute_instance_id=\"0\",mig_profile=\"1g.5gb\","            \
	     "mig_uuid=\"MIG-0-7-0\""
	char *text = render(view, VIEW_SET_ALL, NULL);
	assert_null(strstr(text, "sluice_gpu_utilization_ratio"));
	assert_null(strstr(text, "sluice_gpu_busy_seconds_total"));
	assert_null(strstr(text, "DCGM_FI_DEV_GPU_UTIL"));
	assert_non_null(strstr(text, "sluice_mig_info{" MIG0 "} 1\n"));
	assert_non_null(strstr(text, "sluice_mig_memory_used_bytes{" MIG0 "} 536870912\n"));
	assert_non_null(
	    strstr(text, "sluice_mig_activity_ratio{" MIG0 ",engine=\"tensor\"} 0.25\n"));
	/* Memory and activity once for each GPU instance, whatever compute instances it has. */
	assert_null(strstr(text, "sluice_mig_memory_used_bytes{" GPU0 ",gpu_instance_id=\"7\","
				 "compute_instance_id=\"1\""));
	assert_non_null(strstr(
	    text, "DCGM_FI_DEV_FB_USED{gpu=\"0\",UUID=\"GPU-0\",pci_bus_id=\"00000000:0F:00.0\","
		  "device=\"nvidia0\",modelName=\"A100\",GPU_I_PROFILE=\"1g.5gb\",GPU_I_ID=\"7\","
		  "Hostname=\"node-1\",DCGM_FI_DRIVER_VERSION=\"550.54.15\",container=\"main\","
		  "namespace=\"ml\",pod=\"tenant\"} 512\n"));
	assert_null(strstr(text, "DCGM_FI_DEV_FB_USED" LABELS "}"));
	assert_non_null(strstr(text, "DCGM_FI_DEV_GPU_TEMP" LABELS "} 40\n"));
	assert_non_null(strstr(text, "sluice_container_gpu_allocated{" MIG0
				     ",namespace=\"ml\",pod=\"tenant\",container=\"main\","
				     "resource=\"nvidia.com/gpu\",mode=\"mig\"} 1\n"));
	free(text);
	/* Two tenants: neither has the instance to itself. */
	add_holder(view, 0, VIEW_MIG, "second")->mig = 1;
	LACKS(view, DCGM, "pod=");
	free(view);
}

/* --- who has the GPUs ------------------------------------------------------------------------- */

static void test_holders(void **state)
{
	struct view *view = view_new(2);
	struct view_holder *holder = add_holder(view, 0, VIEW_EXCLUSIVE, "alone");
	holder->has_busy = true;
	holder->busy_ns = 2500000000;
	holder->memory_bytes = 1 << 20;
	holder->processes = 2;
	holder->energy_mj = 5000;
	struct view_holder *job = add_holder(view, 1, VIEW_TIMESLICE, "");
	job->job = 17;
	job->slot = 3;
	job->resource[0] = job->name_space[0] = job->container[0] = '\0';
	PUT(job->user, "ana");
	struct view_holder *stray = add_holder(view, 1, VIEW_EXCLUSIVE, "");
	stray->allocated = false;
	PUT(stray->id, "0123456789ab");
	PUT(stray->runtime, "podman");
#define POD                                                                                        \
	GPU0 ",namespace=\"ml\",pod=\"alone\",container=\"main\",resource=\"nvidia.com/gpu\","     \
	     "mode=\"exclusive\""
#define JOB "gpu=\"1\",uuid=\"GPU-1\",job_id=\"17\",user=\"ana\",mode=\"timeslice\""
	HAS(view, NATIVE, "sluice_container_gpu_allocated{" POD "} 1\n");
	HAS(view, NATIVE, "sluice_container_gpu_busy_seconds_total{" POD "} 2.5\n");
	HAS(view, NATIVE, "sluice_container_gpu_memory_used_bytes{" POD "} 1048576\n");
	HAS(view, NATIVE, "sluice_container_gpu_processes{" POD "} 2\n");
	LACKS(view, NATIVE, "sluice_container_gpu_energy_joules_total");
	HAS(view, NATIVE, "sluice_container_gpu_allocated{" JOB ",slot=\"3\"} 1\n");
	HAS(view, NATIVE,
	    "sluice_container_gpu_processes{gpu=\"1\",uuid=\"GPU-1\","
	    "container_id=\"0123456789ab\",runtime=\"podman\"");
	LACKS(view, NATIVE,
	      "sluice_container_gpu_allocated{gpu=\"1\",uuid=\"GPU-1\","
	      "container_id=");
	HAS(view, DCGM, ",container=\"main\",namespace=\"ml\",pod=\"alone\",err_code=\"0\"");
	view->settings.container_energy = true;
	HAS(view, NATIVE, "sluice_container_gpu_energy_joules_total{" POD "} 5\n");
	free(view);
}

/* The GPU as a whole has no pod's name while several hold it; each pod has its own series. */
static void test_split(void **state)
{
	struct view *view = view_new(1);
	snapshot_put(&view->snapshot.gpu[0], SNAPSHOT_UTIL_GPU, 90);
	snapshot_put(&view->snapshot.gpu[0], SNAPSHOT_MEMORY_USED, 3 << 20);
	for (uint32_t i = 0; i < 2; i++) {
		struct view_holder *holder = add_holder(view, 0, VIEW_TIMESLICE, i ? "b" : "a");
		holder->slot = i + 4;
		holder->slot_count = 1;
		holder->memory_bytes = (uint64_t)(i + 1) << 20;
	}
	view->process_count = 3;
	for (uint32_t i = 0; i < 3; i++)
		view->process[i] = (struct view_process){
		    .mig = SNAPSHOT_U32_ABSENT, .holder = i == 2 ? 1 : 0, .util_sm = 30};
	view->process[2].util_sm = SNAPSHOT_U32_ABSENT;
	LACKS(view, DCGM, "pod=");
	view->settings.dcgm_split = true;
	HAS(view, DCGM, "DCGM_FI_DEV_GPU_UTIL" LABELS "} 90\n");
	HAS(view, DCGM,
	    "DCGM_FI_DEV_GPU_UTIL" LABELS
	    ",container=\"main\",namespace=\"ml\",pod=\"a\",vgpu=\"4\"} 60\n");
	LACKS(view, DCGM,
	      "DCGM_FI_DEV_GPU_UTIL" LABELS ",container=\"main\",namespace=\"ml\",pod=\"b\"");
	HAS(view, DCGM,
	    "DCGM_FI_DEV_FB_USED" LABELS
	    ",container=\"main\",namespace=\"ml\",pod=\"b\",vgpu=\"5\"} 2\n");
	LACKS(view, DCGM, "DCGM_FI_DEV_GPU_TEMP" LABELS ",container=");
	free(view);
}

/* --- the rest --------------------------------------------------------------------------------- */

static void test_xids(void **state)
{
	struct view *view = view_new(1);
	view->xid_count = 2;
	for (uint32_t i = 0; i < 2; i++) {
		view->xid[i] = (struct view_xid){.gi = SNAPSHOT_WHOLE_GPU,
						 .ci = SNAPSHOT_WHOLE_GPU,
						 .xid = i ? 79 : 31,
						 .count = 2,
						 .last_unix_ns = (i + 5) * (int64_t)S};
		PUT(view->xid[i].class_, i ? "reboot" : "app");
	}
	view->xid[0].gi = 3;
	PUT(view->xid[1].text, "fell off");
	HAS(view, NATIVE,
	    "sluice_gpu_xid_errors_total{" GPU0
	    ",xid=\"31\",class=\"app\",gpu_instance_id=\"3\"} 2\n");
	HAS(view, NATIVE,
	    "sluice_gpu_xid_last_timestamp_seconds{" GPU0 ",xid=\"79\",class=\"reboot\"} 6\n");
	HAS(view, DCGM,
	    "DCGM_FI_DEV_XID_ERRORS" LABELS ",err_code=\"79\",err_msg=\"fell off\"} 79\n");
	view->xid[0].last_unix_ns = 9 * (int64_t)S;
	HAS(view, DCGM, ",err_code=\"31\",err_msg=\"Unknown Error\"} 31\n");
	free(view);
}

static void test_health_and_links(void **state)
{
	struct view *view = view_new(1);
	struct snapshot_gpu *gpu = &view->snapshot.gpu[0];
	view->gpu[0].health = VIEW_UNHEALTHY;
	view->gpu[0].reason_count = 1;
	view->gpu[0].reason[0].health = VIEW_UNHEALTHY;
	view->gpu[0].reason[0].xid = 79;
	PUT(view->gpu[0].reason[0].cause, "xid");
	snapshot_put(gpu, SNAPSHOT_THROTTLE, 0x44);
	snapshot_put(gpu, SNAPSHOT_NVLINK_THERE, 5);
	snapshot_put(gpu, SNAPSHOT_NVLINK_UP, 4);
	HAS(view, NATIVE, "sluice_gpu_health{" GPU0 ",state=\"unhealthy\"} 1\n");
	HAS(view, NATIVE, "sluice_gpu_health{" GPU0 ",state=\"healthy\"} 0\n");
	HAS(view, NATIVE,
	    "sluice_gpu_health_reason{" GPU0 ",cause=\"xid\",state=\"unhealthy\",xid=\"79\"} 1\n");
	HAS(view, NATIVE, "sluice_gpu_clocks_event_active{" GPU0 ",reason=\"hw_thermal\"} 1\n");
	HAS(view, NATIVE, "sluice_gpu_clocks_event_active{" GPU0 ",reason=\"idle\"} 0\n");
	HAS(view, NATIVE, "sluice_gpu_nvlink_up{" GPU0 ",link=\"0\"} 0\n");
	HAS(view, NATIVE, "sluice_gpu_nvlink_up{" GPU0 ",link=\"2\"} 1\n");
	LACKS(view, NATIVE, "link=\"1\"");
	LACKS(view, NATIVE, "sluice_gpu_drained"); /* there is no queue */
	view->node.has_queue = view->gpu[0].drained = true;
	HAS(view, NATIVE, "sluice_gpu_drained{" GPU0 "} 1\n");
	HAS(view, NATIVE, "sluice_gpu_reserved{" GPU0 "} 0\n");
	view->gpu[0].reserved = true;
	HAS(view, NATIVE, "sluice_gpu_reserved{" GPU0 "} 1\n");
	HAS(view, NATIVE, "sluice_gpus 1\n");
	gpu->state = SNAPSHOT_STATE_LOST;
	HAS(view, NATIVE, "sluice_gpus 0\n");
	free(view);
}

static void test_node(void **state)
{
	struct view *view = view_new(0);
	view->node.has_kubelet = view->node.has_queue = true;
	view->jobs_pending = 4;
	view->node.unattributed = 3;
	view->node.holders_dropped = 9;
	view->node.sample_ns = 4 * S;
	PUT(view->node.config_error, "line 3");
	view->resource_count = 1;
	view->resource[0] = (struct view_resource){.units = 8, .healthy = 7, .refused = 2};
	PUT(view->resource[0].name, "nvidia.com/gpu");
	view->resource[0].is_of_kubelet = true;
	view->resource[view->resource_count].units = 5; /* the queue's */
	PUT(view->resource[view->resource_count++].name, "jobs");
	view->snapshot.error_count = 1;
	view->snapshot.error[0].code = 999;
	view->snapshot.error[0].count = 5;
	PUT(view->snapshot.error[0].call, "nvmlDeviceGetPowerUsage");
	HAS(view, NATIVE, "sluice_jobs{state=\"pending\"} 4\n");
	HAS(view, NATIVE, "sluice_pod_resources_ok 1\n");
	HAS(view, NATIVE, "sluice_config_ok 0\n");
	LACKS(view, NATIVE, "sluice_ready{what=\"driver\"}"); /* not known */
	HAS(view, NATIVE, "sluice_unattributed_processes 3\n");
	HAS(view, NATIVE, "sluice_series_dropped_total 9\n");
	HAS(view, NATIVE, "sluice_collect_stale 1\n");
	HAS(view, NATIVE, "sluice_resource_units{resource=\"nvidia.com/gpu\"} 8\n");
	HAS(view, NATIVE, "sluice_resource_healthy_units{resource=\"nvidia.com/gpu\"} 7\n");
	HAS(view, NATIVE, "sluice_resource_refused_total{resource=\"nvidia.com/gpu\"} 2\n");
	HAS(view, NATIVE, "sluice_resource_registered{resource=\"nvidia.com/gpu\"} 0\n");
	HAS(view, NATIVE, "sluice_resource_units{resource=\"jobs\"} 5\n");
	LACKS(view, NATIVE, "sluice_resource_registered{resource=\"jobs\"}");
	LACKS(view, NATIVE, "sluice_resource_refused_total{resource=\"jobs\"}");
	LACKS(view, NATIVE, "sluice_resource_allocations_total{resource=\"jobs\"}");
	HAS(view, NATIVE,
	    "sluice_nvml_errors_total{call=\"nvmlDeviceGetPowerUsage\",code=\"999\"} 5\n");
	free(view);
}

static void test_ports(void **state)
{
	struct view *view = view_new(0);
	view->adapter_count = 1;
	struct view_adapter *port = &view->adapter[0];
	port->port = 1;
	port->rate_bits = UINT64_C(200000000000);
	port->health = VIEW_HEALTHY;
	port->counters_known = 1u << RDMA_COUNTER_LINK_DOWNED | 1u << RDMA_COUNTER_CNP_HANDLED;
	port->counter[RDMA_COUNTER_LINK_DOWNED] = 6;
	port->counter[RDMA_COUNTER_CNP_HANDLED] = 7;
	PUT(port->name, "mlx5_0");
	PUT(port->layer, "InfiniBand");
	PUT(port->state, "4: ACTIVE");
#define PORT "{device=\"mlx5_0\",port=\"1\""
	HAS(view, NATIVE, "sluice_rdma_port_up" PORT "} 1\n");
	HAS(view, NATIVE, "sluice_rdma_port_rate_bytes" PORT "} 25000000000\n");
	HAS(view, NATIVE, "sluice_rdma_port_link_layer" PORT ",link_layer=\"InfiniBand\"} 1\n");
	HAS(view, NATIVE, "sluice_rdma_port_health" PORT ",state=\"healthy\"} 1\n");
	HAS(view, NATIVE, "sluice_rdma_port_link_downed_total" PORT "} 6\n");
	HAS(view, NATIVE, "sluice_rdma_port_rp_cnp_handled_total" PORT "} 7\n");
	LACKS(view, NATIVE, "sluice_rdma_port_xmit_data_bytes_total");
	PUT(port->state, "1: DOWN");
	HAS(view, NATIVE, "sluice_rdma_port_up" PORT "} 0\n");
	assert_int_equal(VIEW_COUNTER_MAX, RDMA_COUNTER_COUNT);
	free(view);
}

/* More than there is room for: an error, and what was in the buffer before. */
static void test_no_room(void **state)
{
	struct view *view = view_new(8);
	struct err err;
	struct buf text;
	buf_init(&text, 1000);
	assert_int_equal(buf_add_text(&text, "before"), 0);
	assert_int_equal(metrics_render(view, S, VIEW_SET_ALL, &text, &err), -ENOSPC);
	assert_string_equal(buf_text(&text), "before");
	buf_done(&text);
	free(view);
}

static int render_once(void *context)
{
	struct err err;
	struct buf text;
	buf_init(&text, TEXT_MAX);
	int rc = metrics_render(context, S, VIEW_SET_ALL, &text, &err);
	if (rc < 0 && text.length > 0)
		rc = -EIO; /* half a page */
	buf_done(&text);
	return rc;
}

static void test_out_of_memory(void **state)
{
	struct view *view = view_new(8);
	for (uint32_t i = 0; i < 100; i++)
		add_holder(view, i % 8, VIEW_TIMESLICE, "pod")->slot = i;
	assert_true(failmalloc_each(render_once, view) > 3);
	free(view);
}

/* --- the tables ------------------------------------------------------------------------------- */

static bool dcgm_serves(const char *name)
{
	const struct metrics_family *family;
	for (uint32_t i = 0; (family = metrics_dcgm_family(i)) != NULL; i++)
		if (strcmp(family->name, name) == 0)
			return true;
	return false;
}

/* etc/default-counters.csv of dcgm-exporter: which of them are served; why not, says dcgm.def. */
static void test_default_counters(void **state)
{
	static const struct {
		const char *name;
		bool served;
	} defaults[] = {
	    {"DCGM_FI_DEV_SM_CLOCK", true},
	    {"DCGM_FI_DEV_MEM_CLOCK", true},
	    {"DCGM_FI_DEV_MEMORY_TEMP", true},
	    {"DCGM_FI_DEV_GPU_TEMP", true},
	    {"DCGM_FI_DEV_POWER_USAGE", true},
	    {"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", true},
	    {"DCGM_FI_DEV_PCIE_TX_THROUGHPUT", false},
	    {"DCGM_FI_DEV_PCIE_RX_THROUGHPUT", false},
	    {"DCGM_FI_DEV_PCIE_REPLAY_COUNTER", true},
	    {"DCGM_FI_DEV_GPU_UTIL", true},
	    {"DCGM_FI_DEV_MEM_COPY_UTIL", true},
	    {"DCGM_FI_DEV_ENC_UTIL", true},
	    {"DCGM_FI_DEV_DEC_UTIL", true},
	    {"DCGM_FI_DEV_XID_ERRORS", true},
	    {"DCGM_FI_DEV_FB_FREE", true},
	    {"DCGM_FI_DEV_FB_USED", true},
	    {"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", false},
	    {"DCGM_FI_DEV_VGPU_LICENSE_STATUS", false},
	    {"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", true},
	    {"DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", true},
	    {"DCGM_FI_DEV_ROW_REMAP_FAILURE", true},
	    {"DCGM_FI_PROF_GR_ENGINE_ACTIVE", true},
	    {"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", true},
	    {"DCGM_FI_PROF_DRAM_ACTIVE", true},
	    {"DCGM_FI_PROF_PCIE_TX_BYTES", true},
	    {"DCGM_FI_PROF_PCIE_RX_BYTES", true},
	};
	for (size_t i = 0; i < array_length(defaults); i++)
		if (dcgm_serves(defaults[i].name) != defaults[i].served)
			fail_msg("%s", defaults[i].name);
}

/* No name twice; counters end in _total, nothing else does; helps need no escape. */
static void test_tables(void **state)
{
	const struct metrics_family *family, *other;
	for (uint32_t i = 0; (family = metrics_family(i)) != NULL; i++) {
		size_t length = strlen(family->name);
		bool total = length > 6 && strcmp(family->name + length - 6, "_total") == 0;
		assert_int_equal(total, strcmp(family->type, "counter") == 0);
		assert_null(strpbrk(family->help, "\\\n"));
		assert_true(family->help[0] && family->source[0]);
		for (uint32_t k = 0; k < i; k++)
			assert_string_not_equal(family->name, metrics_family(k)->name);
	}
	for (uint32_t i = 0; (family = metrics_dcgm_family(i)) != NULL; i++) {
		assert_int_equal(strncmp(family->name, "DCGM_FI_", 8), 0);
		for (uint32_t k = 0; k < i; k++) {
			other = metrics_dcgm_family(k);
			assert_string_not_equal(family->name, other->name);
			if (family->name_new && other->name_new)
				assert_string_not_equal(family->name_new, other->name_new);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_whole_text),
	    cmocka_unit_test(test_sets),
	    cmocka_unit_test(test_absent_is_no_series),
	    cmocka_unit_test(test_each_value_alone),
	    cmocka_unit_test(test_unknown_u64),
	    cmocka_unit_test(test_numbers),
	    cmocka_unit_test(test_conversions),
	    cmocka_unit_test(test_escapes),
	    cmocka_unit_test(test_thousand_hostile_names),
	    cmocka_unit_test(test_nothing_twice),
	    cmocka_unit_test(test_mig),
	    cmocka_unit_test(test_holders),
	    cmocka_unit_test(test_split),
	    cmocka_unit_test(test_xids),
	    cmocka_unit_test(test_health_and_links),
	    cmocka_unit_test(test_node),
	    cmocka_unit_test(test_ports),
	    cmocka_unit_test(test_no_room),
	    cmocka_unit_test(test_out_of_memory),
	    cmocka_unit_test(test_default_counters),
	    cmocka_unit_test(test_tables),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
