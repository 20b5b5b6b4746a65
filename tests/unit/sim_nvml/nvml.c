/* SPDX-License-Identifier: Apache-2.0 */
#include "nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/error.h"
#include "sim/profile.h"

#ifdef __SANITIZE_THREAD__
/* A child after fork() has none of its parent's threads, which the sanitizer takes for leaked. */
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "report_thread_leaks=0:die_after_fork=0";
}
#endif

const struct nvml_row nvml_table[] = {
#include "table.h"
    {NULL, 0, 0, NULL, NULL},
};

const char *rig_library(int age)
{
	static char path[SIM_PATH_MAX];
	const char *directory = getenv("SLUICE_SIM_LIBDIR");
	assert_non_null(directory);
	snprintf(path, sizeof(path), "%s/%d/libnvidia-ml.so.1", directory, age);
	return path;
}

static const char *rig_driver(int age)
{
	switch (age) {
	case 470:
		return "470.256.02";
	case 535:
		return "535.183.01";
	case 590:
		return "590.44.01";
	default:
		return "580.105.08";
	}
}

void rig_open(struct rig *rig, const char *profile, const char *layout, int age)
{
	struct sim_machine *machine = calloc(1, sizeof(*machine));
	struct sim_error error = {0};
	struct sim_options options = {
	    .seed = 7,
	    .driver_version = rig_driver(age),
	    .mig_layout = *layout ? layout : NULL,
	};

	assert_non_null(machine);
	memset(rig, 0, sizeof(*rig));
	rig->directory = unit_tmp_new();
	snprintf(rig->path, sizeof(rig->path), "%s/sim.state", rig->directory);
	if (sim_profile_load(profile, &options, machine, &error) < 0)
		fail_msg("%s", error.text);
	machine->clock = SIM_CLOCK_VIRTUAL;
	if (sim_state_create(rig->path, machine, &error) < 0)
		fail_msg("%s", error.text);
	free(machine);
	assert_int_equal(sim_state_open(rig->path, &rig->state, &error), SIM_OPEN_OK);
	assert_int_equal(setenv("SLUICE_SIM_STATE", rig->path, 1), 0);
	rig->library = dlopen(rig_library(age), RTLD_NOW | RTLD_LOCAL);
	if (!rig->library)
		fail_msg("%s", dlerror());
}

void rig_close(struct rig *rig)
{
	if (rig->library) {
		while (CALL0(rig, "nvmlShutdown") == NVML_OK)
			continue;
		dlclose(rig->library);
	}
	sim_state_close(rig->state);
	rig->directory = unit_tmp_free(rig->directory);
}

unsigned rig_call(const struct rig *rig, const char *name, uintptr_t a, uintptr_t b, uintptr_t c,
		  uintptr_t d, uintptr_t e, uintptr_t f)
{
	unsigned (*function)(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);
	void *symbol = dlsym(rig->library, name);
	if (!symbol)
		fail_msg("the library has no '%s'", name);
	memcpy(&function, &symbol, sizeof(function));
	return function(a, b, c, d, e, f);
}

void *rig_gpu(const struct rig *rig, unsigned index)
{
	void *device = NULL;
	unsigned result = CALL2(rig, "nvmlDeviceGetHandleByIndex_v2", index, &device);
	if (result != NVML_OK)
		fail_msg("handle of GPU %u: %u", index, result);
	return device;
}

void rig_change(struct rig *rig, void (*change)(struct sim_machine *machine, void *context),
		void *context)
{
	struct sim_machine *machine = sim_state_write(rig->state);
	assert_non_null(machine);
	change(machine, context);
	sim_state_commit(rig->state);
}

void rig_advance(struct rig *rig, uint64_t ticks)
{
	struct sim_error error = {0};
	if (sim_state_advance(rig->state, ticks, &error) < 0)
		fail_msg("%s", error.text);
}

static void rig_add_rule(struct sim_machine *machine, void *context)
{
	struct sim_rule *rule = context;
	for (uint32_t i = 0; i < SIM_RULE_MAX; i++) {
		if (machine->rule[i].kind != SIM_RULE_NONE)
			continue;
		rule->id = ++machine->next_rule_id;
		machine->rule[i] = *rule;
		return;
	}
	fail_msg("no room for a rule");
}

uint32_t rig_rule(struct rig *rig, uint32_t kind, const char *function, uint32_t gpu,
		  uint32_t result, uint32_t delay_ms)
{
	struct sim_rule rule = {.kind = kind, .gpu = gpu, .result = result, .delay_ms = delay_ms};
	snprintf(rule.function, sizeof(rule.function), "%s", function);
	rig_change(rig, rig_add_rule, &rule);
	return rule.id;
}

static void rig_drop_rules(struct sim_machine *machine, void *context)
{
	(void)context;
	memset(machine->rule, 0, sizeof(machine->rule));
}

void rig_heal(struct rig *rig)
{
	rig_change(rig, rig_drop_rules, NULL);
}
