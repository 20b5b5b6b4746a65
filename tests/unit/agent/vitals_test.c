/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/vitals.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "base/loop.h"
#include "base/storage.h"
#include "hardware/gpu.h"
#include "policy/config.h"
#include "probe/client.h"
#include "tests/unit/failmalloc.h"
#include "unit/unit.h"

#define SECOND UINT64_C(1000000000)
#define BOOT   "6f0c0b5e-2a4e-4a40-9d3a-0242ac120002"
#define OTHER  "7f0c0b5e-2a4e-4a40-9d3a-0242ac120002"

enum { GPUS = 3, MIGS = 4 };

/* GPU 0 has four MIG devices, the others are whole. */
struct fixture {
	char *tmp;
	struct loop *loop;
	struct storage *storage;
	struct config *config;
	struct vitals *vitals;
	const char *boot;
	struct inventory inventory;
	struct gpu gpus[GPUS];
	struct mig_device migs[MIGS];
	struct snapshot *snapshot;
	char said[512];
};

static struct fixture fixed;

static void on_changed(const char *uuid, uint32_t index, enum health_state before,
		       enum health_state after, const char *why, void *context)
{
	size_t length = strlen(fixed.said);
	(void)snprintf(fixed.said + length, sizeof(fixed.said) - length, "%s %u: %s -> %s;", uuid,
		       index, health_state_to_string(before), health_state_to_string(after));
}

static int configure(const char *text, struct err *err)
{
	struct config *config = NULL;
	int rc = config_parse(text, strlen(text), "c.yaml", NULL, false, &config, err);
	if (rc < 0)
		return rc;
	(void)config_free(fixed.config);
	fixed.config = config;
	if (fixed.vitals)
		vitals_configure(fixed.vitals, config);
	return 0;
}

static int open_vitals(struct err *err)
{
	fixed.loop = loop_new(LOOP_FAKE, err);
	if (!fixed.loop)
		return -ENOMEM;
	fixed.storage = storage_new(fixed.loop, 16, err);
	if (!fixed.storage)
		return -ENOMEM;
	const struct vitals_options options = {
	    .loop = fixed.loop,
	    .storage = fixed.storage,
	    .state_dir = fixed.tmp,
	    .boot_id = fixed.boot,
	    .config = fixed.config,
	    .changed = on_changed,
	};
	return vitals_new(&options, &fixed.vitals, err);
}

/* What the agent does when it ends: what was handed to the storage thread is written. */
static void close_vitals(void)
{
	if (fixed.storage)
		fixed.storage = storage_close(fixed.storage);
	fixed.vitals = vitals_free(fixed.vitals);
	fixed.loop = loop_free(fixed.loop);
}

static int setup(void **state)
{
	memset(&fixed, 0, sizeof(fixed));
	fixed.tmp = unit_tmp_new();
	fixed.boot = BOOT;
	fixed.snapshot = calloc(1, sizeof(*fixed.snapshot));
	if (!fixed.snapshot)
		return -1;
	fixed.snapshot->gpu_count = GPUS;
	fixed.inventory = (struct inventory){
	    .gpu_count = GPUS, .gpus = fixed.gpus, .mig_count = MIGS, .migs = fixed.migs};
	for (uint32_t i = 0; i < GPUS; i++) {
		struct gpu *gpu = &fixed.gpus[i];
		struct snapshot_gpu *sample = &fixed.snapshot->gpu[i];
		gpu->index = sample->index = i;
		gpu->has_pci = true;
		gpu->pci.bus = (uint8_t)(i + 7);
		(void)snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%u", i);
		(void)snprintf(sample->uuid, sizeof(sample->uuid), "GPU-%u", i);
		(void)snprintf(sample->bus, sizeof(sample->bus), "0000:%02x:00.0", i + 7);
		snapshot_put(sample, SNAPSHOT_ENERGY, 1000);
	}
	for (uint32_t i = 0; i < MIGS; i++)
		fixed.migs[i] = (struct mig_device){.parent = 0, .index = i, .gi = 7 + i};
	struct err err = {0};
	return configure("sluice: {health: {pollInterval: 1s}}\n", &err) < 0 ||
		       open_vitals(&err) < 0
		   ? -1
		   : 0;
}

static int teardown(void **state)
{
	close_vitals();
	(void)config_free(fixed.config);
	free(fixed.snapshot);
	(void)unit_tmp_free(fixed.tmp);
	return 0;
}

static void samples(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(loop_advance(fixed.loop, SECOND, NULL), 0);
		fixed.snapshot->taken_ns++;
		vitals_sample(fixed.vitals, &fixed.inventory, fixed.snapshot);
	}
}

static struct probe_event xid_of(uint32_t gpu, uint32_t xid)
{
	struct probe_event event = {.kind = PROBE_EVENT_XID,
				    .data = xid,
				    .gi = UINT32_MAX,
				    .ci = UINT32_MAX,
				    .pid = UINT32_MAX,
				    .recovery_action = UINT32_MAX,
				    .kmsg_sequence = UINT64_MAX,
				    .time_ns = loop_now_ns(fixed.loop)};
	(void)snprintf(event.uuid, sizeof(event.uuid), "GPU-%u", gpu);
	(void)snprintf(event.bus, sizeof(event.bus), "0000:%02x:00.0", gpu + 7);
	return event;
}

static void take(const struct probe_event *event)
{
	vitals_event(fixed.vitals, event);
	vitals_sample(fixed.vitals, &fixed.inventory, fixed.snapshot);
}

static void xid(uint32_t gpu, uint32_t code)
{
	const struct probe_event event = xid_of(gpu, code);
	take(&event);
}

static void xid_at(uint32_t gpu, uint32_t code, uint32_t gi, uint32_t ci)
{
	struct probe_event event = xid_of(gpu, code);
	event.gi = gi;
	event.ci = ci;
	take(&event);
}

/* "GMMMM GGG": which GPUs and MIG devices are unhealthy, '-' for those that are not. */
static const char *seen(void)
{
	static char text[GPUS + MIGS + 2];
	uint32_t gpus, migs, at = 0;
	const char *const *gpu = vitals_gpu_unhealthy(fixed.vitals, &gpus);
	const char *const *mig = vitals_mig_unhealthy(fixed.vitals, &migs);
	assert_int_equal(gpus, GPUS);
	assert_int_equal(migs, MIGS);
	for (uint32_t i = 0; i < gpus; i++)
		text[at++] = gpu[i] ? 'G' : '-';
	text[at++] = ' ';
	for (uint32_t i = 0; i < migs; i++)
		text[at++] = mig[i] ? 'M' : '-';
	text[at] = '\0';
	return text;
}

/* The agent ends and another one begins, perhaps after a restart of the machine. */
static void restart(const char *boot)
{
	close_vitals();
	fixed.boot = boot;
	struct err err = {0};
	assert_int_equal(open_vitals(&err), 0);
	/* Its loop counts from 1 s again, as the clock of another boot; samples are new ones. */
	fixed.snapshot->taken_ns += 1000;
}

static void reset(uint32_t gpu)
{
	snapshot_put(&fixed.snapshot->gpu[gpu], SNAPSHOT_ENERGY, 1);
}

static void test_whole_gpu(void **state)
{
	samples(1);
	assert_string_equal(seen(), "--- ----");
	uint64_t generation = vitals_generation(fixed.vitals);
	xid(1, 13);
	assert_string_equal(seen(), "--- ----");
	assert_int_equal(vitals_generation(fixed.vitals), generation);
	xid(1, 62);
	assert_string_equal(seen(), "-G- ----");
	assert_true(vitals_generation(fixed.vitals) > generation);
	xid(0, 62);
	assert_string_equal(seen(), "GG- MMMM");
	assert_string_equal(fixed.said,
			    "GPU-1 1: healthy -> unhealthy;GPU-0 0: healthy -> unhealthy;");
	generation = vitals_generation(fixed.vitals);
	samples(5); /* nothing happens: nobody is told anything */
	assert_int_equal(vitals_generation(fixed.vitals), generation);
	reset(1);
	samples(2);
	assert_string_equal(seen(), "GG- MMMM");
	samples(1);
	assert_string_equal(seen(), "G-- MMMM");
	assert_non_null(strstr(fixed.said, "GPU-1 1: unhealthy -> healthy;"));
}

static void test_instances(void **state)
{
	samples(1);
	xid_at(0, 62, 8, 0);
	assert_string_equal(seen(), "--- -M--");
	xid_at(0, 95, 10, UINT32_MAX);
	assert_string_equal(seen(), "--- -M-M");
	xid_at(0, 79, 8, 0);
	assert_string_equal(seen(), "G-- MMMM");
}

static void test_one_error_told_twice(void **state)
{
	samples(1);
	struct probe_event log = xid_of(0, 62); /* a log that names no instance comes first */
	log.kmsg_sequence = 10;
	log.pid = 4711;
	take(&log);
	assert_string_equal(seen(), "G-- MMMM");
	struct probe_event event = xid_of(0, 62);
	event.kind = PROBE_EVENT_XID_AGAIN;
	event.gi = 8;
	event.ci = 0;
	take(&event);
	assert_string_equal(seen(), "--- -M--");
	struct vitals_view view;
	assert_true(vitals_at(fixed.vitals, 0, &view));
	assert_int_equal(view.xid_count, 1);
	assert_int_equal(view.xid[0].event.pid, 4711);
	assert_int_equal(view.xid[0].class_, XID_RESET);
	event.gi = 9; /* another instance: another error */
	take(&event);
	assert_string_equal(seen(), "--- -MM-");
}

static void test_restart_keeps_marks(void **state)
{
	samples(1);
	xid(1, 119);
	xid(2, 79);
	xid_at(0, 54, 8, 0);
	restart(BOOT);
	samples(1);
	assert_string_equal(seen(), "-GG -M--");
	samples(10);
	reset(1);
	samples(3);
	assert_string_equal(seen(), "--G -M--");
	restart(BOOT);
	samples(10);
	assert_string_equal(seen(), "--G -M--");
	restart(OTHER); /* of the machine */
	samples(1);
	assert_string_equal(seen(), "--- -M--");
	uint32_t count = 0;
	assert_int_equal(vitals_clear(fixed.vitals, "0000:07:00.0", &count, NULL), 0);
	assert_int_equal(count, 1);
	assert_string_equal(seen(), "--- ----");
	restart(OTHER);
	samples(1);
	assert_string_equal(seen(), "--- ----");
}

static void test_reboot_is_a_reset_too(void **state)
{
	samples(1);
	xid(1, 119);
	restart(OTHER);
	samples(2);
	assert_string_equal(seen(), "-G- ----");
	samples(1);
	assert_string_equal(seen(), "--- ----");
}

/* The GPU was reset while no agent was there. */
static void test_reset_between_two_agents(void **state)
{
	samples(1);
	xid(1, 119);
	restart(BOOT);
	reset(1);
	samples(3);
	assert_string_equal(seen(), "--- ----");
}

static void test_the_log_is_not_counted_twice(void **state)
{
	samples(1);
	struct probe_event log = xid_of(1, 119);
	log.kmsg_sequence = 41;
	take(&log);
	assert_string_equal(seen(), "-G- ----");
	uint32_t count = 0;
	assert_int_equal(vitals_clear(fixed.vitals, "1", &count, NULL), 0);
	restart(BOOT);
	log.history = 1; /* the new agent's probe reads the log from its beginning */
	log.uuid[0] = '\0';
	vitals_event(fixed.vitals, &log);
	samples(1);
	assert_string_equal(seen(), "--- ----");
	log.kmsg_sequence = 42; /* came while no agent was there */
	vitals_event(fixed.vitals, &log);
	samples(1);
	assert_string_equal(seen(), "-G- ----");
	restart(OTHER);
	samples(3);
	assert_string_equal(seen(), "--- ----");
	log.kmsg_sequence = 5; /* another boot counts from its own beginning */
	vitals_event(fixed.vitals, &log);
	samples(1);
	assert_string_equal(seen(), "-G- ----");
}

static void test_lost_and_back(void **state)
{
	samples(1);
	fixed.gpus[1].state = fixed.snapshot->gpu[1].state = GPU_STATE_LOST;
	samples(1);
	assert_string_equal(seen(), "-G- ----");
	fixed.gpus[1].state = fixed.snapshot->gpu[1].state = GPU_STATE_OK;
	samples(2);
	assert_string_equal(seen(), "-G- ----");
	samples(1);
	assert_string_equal(seen(), "--- ----");
	/* A GPU that hangs is marked within the snapshot that was there. */
	fixed.snapshot->gpu[2].state = GPU_STATE_HUNG;
	vitals_sample(fixed.vitals, &fixed.inventory, fixed.snapshot);
	assert_string_equal(seen(), "--G ----");
	vitals_sample(fixed.vitals, NULL, NULL);
	uint32_t count = 7;
	assert_null(vitals_gpu_unhealthy(fixed.vitals, &count));
	assert_int_equal(count, 0);
}

/* The driver has lost a GPU, and nobody can say which UUID and address it had: in a pod without the
 * driver's /proc only its index is known. */
static void test_lost_without_a_name(void **state)
{
	struct vitals_view view;
	size_t known = 0;
	const struct gpu was = fixed.gpus[1];
	fixed.gpus[1] = (struct gpu){.index = 1, .state = GPU_STATE_LOST};
	fixed.snapshot->gpu[1] = (struct snapshot_gpu){.index = 1, .state = GPU_STATE_LOST};
	samples(100);
	assert_string_equal(seen(), "-G- ----");
	assert_string_equal(fixed.said, " 1: unknown -> unhealthy;");
	while (vitals_at(fixed.vitals, known, &view))
		known++;
	assert_int_equal(known, GPUS);

	/* It is back, and has a name: it is the same. */
	fixed.gpus[1] = was;
	(void)snprintf(fixed.snapshot->gpu[1].uuid, sizeof(was.uuid), "%s", was.uuid);
	fixed.snapshot->gpu[1].state = GPU_STATE_OK;
	samples(5);
	assert_string_equal(seen(), "--- ----");
	for (known = 0; vitals_at(fixed.vitals, known, &view); known++)
		assert_int_not_equal(view.uuid[0], '\0');
	assert_int_equal(known, GPUS);
}

static void test_variables(void **state)
{
	assert_int_equal(setenv("DP_DISABLE_HEALTHCHECKS", "all", 1), 0);
	assert_int_equal(setenv("DP_ENABLE_HEALTHCHECKS", "79", 1), 0);
	vitals_configure(fixed.vitals, fixed.config);
	assert_int_equal(unsetenv("DP_DISABLE_HEALTHCHECKS"), 0);
	assert_int_equal(unsetenv("DP_ENABLE_HEALTHCHECKS"), 0);
	samples(1);
	xid(1, 62);
	xid(1, 48);
	assert_string_equal(seen(), "--- ----");
	xid(2, 79);
	assert_string_equal(seen(), "--G ----");
	snapshot_put(&fixed.snapshot->gpu[1], SNAPSHOT_RECOVERY_ACTION, 1);
	samples(1);
	assert_string_equal(seen(), "-GG ----"); /* no XID, and so it counts */
}

static void test_settings(void **state)
{
	struct err err = {0};
	assert_int_equal(configure("sluice: {health: {policy: peer, ignoreXids: [63], fatalXids: "
				   "[13], recover: manual, pollInterval: 1ns}}\n",
				   &err),
			 0);
	samples(1);
	xid(0, 63);
	assert_string_equal(seen(), "--- ----");
	xid(0, 94);
	xid(1, 13);
	assert_string_equal(seen(), "GG- MMMM");
	reset(0);
	reset(1);
	samples(10);
	assert_string_equal(seen(), "GG- MMMM");
	assert_int_equal(configure("sluice: {health: {pollInterval: 1s}}\n", &err), 0);
	assert_string_equal(seen(), "--- ----"); /* by the table neither is grave */
}

static void test_clear(void **state)
{
	samples(1);
	xid(0, 62);
	xid(1, 62);
	xid(2, 62);
	struct err err = {0};
	uint32_t count = 77;
	assert_int_equal(vitals_clear(fixed.vitals, "GPU-7", &count, &err), -ENOENT);
	assert_non_null(strstr(err.text, "no GPU 'GPU-7'"));
	assert_int_equal(vitals_clear(fixed.vitals, "3", &count, &err), -ENOENT);
	assert_int_equal(vitals_clear(fixed.vitals, "", &count, &err), -ENOENT);
	assert_int_equal(count, 77);
	assert_int_equal(vitals_clear(fixed.vitals, "GPU-2", &count, &err), 0);
	assert_string_equal(seen(), "GG- MMMM");
	assert_int_equal(vitals_clear(fixed.vitals, "0000:08:00.0", &count, &err), 0);
	assert_string_equal(seen(), "G-- MMMM");
	assert_int_equal(vitals_clear(fixed.vitals, "all", &count, &err), 0);
	assert_int_equal(count, GPUS);
	assert_string_equal(seen(), "--- ----");
}

/* An error in the log of a GPU that the driver has not shown yet, and of one that is gone. */
static void test_before_and_after(void **state)
{
	struct probe_event log = xid_of(1, 62);
	log.uuid[0] = '\0';
	log.history = 1;
	log.kmsg_sequence = 3;
	vitals_event(fixed.vitals, &log);
	(void)snprintf(log.bus, sizeof(log.bus), "0000:77:00.0");
	log.kmsg_sequence = 4;
	vitals_event(fixed.vitals, &log);
	log.bus[0] = '\0';
	log.kmsg_sequence = 5;
	vitals_event(fixed.vitals, &log); /* nobody is suspected */
	samples(1);
	assert_string_equal(seen(), "-G- ----");
	struct vitals_view view;
	size_t count = 0, gone = 0;
	for (; vitals_at(fixed.vitals, count, &view); count++)
		gone += !view.here;
	assert_int_equal(count, GPUS + 1);
	assert_int_equal(gone, 1);
	uint32_t cleared;
	assert_int_equal(vitals_clear(fixed.vitals, "all", &cleared, NULL), 0);
	assert_false(vitals_at(fixed.vitals, GPUS, &view));
}

static void test_damaged_file(void **state)
{
	samples(1);
	xid(1, 62);
	close_vitals();
	unit_write(unit_path(fixed.tmp, "health"), "sluice-health 1\nnonsense\n");
	struct err err = {0};
	assert_int_equal(open_vitals(&err), 0);
	assert_true(file_exists(unit_path(fixed.tmp, "health.damaged")));
	assert_false(file_exists(unit_path(fixed.tmp, "health")));
	samples(1);
	assert_string_equal(seen(), "--- ----");
}

/* A state that cannot be written costs the memory over restarts and nothing else. */
static void test_unwritable(void **state)
{
	assert_int_equal(mkdir(unit_path(fixed.tmp, "health"), 0700), 0);
	unit_write(unit_path(fixed.tmp, "health/x"), "x");
	samples(1);
	xid(1, 62);
	samples(2);
	assert_string_equal(seen(), "-G- ----");
	assert_int_equal(loop_pass(fixed.loop, SECOND, NULL), 0);
}

static int without_memory(void *context)
{
	struct err err = {0};
	int rc = open_vitals(&err);
	if (rc == 0) {
		const struct probe_event event = xid_of(1, 62);
		vitals_event(fixed.vitals, &event);
		vitals_sample(fixed.vitals, &fixed.inventory, fixed.snapshot);
		uint32_t count;
		(void)vitals_clear(fixed.vitals, "all", &count, NULL);
	}
	close_vitals();
	return rc;
}

static void test_without_memory(void **state)
{
	samples(1);
	xid(2, 54); /* there is a file to be read */
	close_vitals();
	(void)failmalloc_each(without_memory, NULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_whole_gpu),
	    TEST(test_instances),
	    TEST(test_one_error_told_twice),
	    TEST(test_restart_keeps_marks),
	    TEST(test_reboot_is_a_reset_too),
	    TEST(test_reset_between_two_agents),
	    TEST(test_the_log_is_not_counted_twice),
	    TEST(test_lost_and_back),
	    TEST(test_lost_without_a_name),
	    TEST(test_variables),
	    TEST(test_settings),
	    TEST(test_clear),
	    TEST(test_before_and_after),
	    TEST(test_damaged_file),
	    TEST(test_unwritable),
	    TEST(test_without_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
