/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/fault.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/error.h"
#include "sim/fault_private.h"
#include "sim/mig.h"
#include "sim/physics.h"
#include "sim/trees_plan.h"

bool fault_number(const char *text, uint64_t max, uint64_t *out)
{
	uint64_t value = 0;

	if (!*text)
		return false;

	for (; *text; text++) {
		if (*text < '0' || *text > '9' || value > (UINT64_MAX - 9) / 10)
			return false;
		value = value * 10 + (uint64_t)(*text - '0');
	}

	if (value > max)
		return false;

	*out = value;
	return true;
}

const char *fault_argument(const struct sim_fault *fault, uint32_t index)
{
	return index < fault->argument_count ? fault->argument[index] : "";
}

static bool xid_is_missed(const struct sim_machine *machine, uint64_t xid)
{
	for (uint32_t i = 0; i < SIM_MISSED_MAX; i++) {
		if (machine->missed_xid[i] == xid && xid != 0)
			return true;
	}
	return false;
}

void fault_event(struct sim_machine *machine, const struct sim_fault *fault, uint64_t type,
		 uint64_t data)
{
	const struct sim_event event = {
	    .tick = machine->tick,
	    .type = type,
	    .data = data,
	    .gpu = fault->gpu,
	    .gi = fault->gi,
	    .ci = fault->ci,
	    .silent = type == EVENT_XID && xid_is_missed(machine, data),
	};
	sim_machine_event(machine, &event);
}

int fault_xid(struct sim_machine *machine, const struct sim_fault *fault, uint32_t xid,
	      const char *text, struct sim_error *error)
{
	const struct sim_kmsg_xid record = {
	    .gpu = fault->gpu,
	    .xid = xid,
	    .pid = fault->pid,
	    .gi = fault->gi,
	    .link = -1,
	    .text = fault->text ? fault->text : text,
	    .form = fault->has_form		 ? fault->form
		    : fault->gi != SIM_WHOLE_GPU ? SIM_KMSG_MIG
						 : SIM_KMSG_NEW,
	};
	return fault_record(machine, fault, &record, error);
}

/* An error for which the driver has no number is an event without a record. */
int fault_record(struct sim_machine *machine, const struct sim_fault *fault,
		 const struct sim_kmsg_xid *record, struct sim_error *error)
{
	if (record->xid != XID_UNKNOWN && sim_kmsg_xid(machine, record, error) != 0)
		return -1;
	fault_event(machine, fault, EVENT_XID, record->xid);
	machine->gpu[fault->gpu].last_xid = record->xid;
	return 0;
}

int fault_recovery(struct sim_machine *machine, const struct sim_fault *fault, uint32_t action,
		   struct sim_error *error)
{
	static const char *const word[] = {
	    "None",	 "GPU Reset Required", "Node Reboot Required",
	    "Drain P2P", "Drain and Reset",    "Recover IMEX Domain"};
	struct sim_gpu *gpu = &machine->gpu[fault->gpu];
	const uint32_t words = sizeof(word) / sizeof(*word);
	char text[128];

	(void)snprintf(text, sizeof(text),
		       "GPU recovery action changed from 0x%x (%s) to 0x%x (%s)",
		       gpu->recovery_action,
		       gpu->recovery_action < words ? word[gpu->recovery_action] : "Unknown",
		       action, action < words ? word[action] : "Unknown");
	if (fault_xid(machine, fault, 154, text, error) != 0)
		return -1;

	gpu->recovery_action = action;
	fault_event(machine, fault, EVENT_RECOVERY, action);
	return 0;
}

static int find_kind(const struct sim_fault *fault, const struct sim_fault_kind **out,
		     struct sim_error *error)
{
	const char *names[64];
	size_t count;
	const struct sim_fault_kind *kinds = sim_fault_kinds(&count);

	for (size_t i = 0; i < count; i++) {
		names[i] = kinds[i].name;
		if (strcmp(kinds[i].name, fault->kind) == 0) {
			*out = &kinds[i];
			return 0;
		}
	}

	const char *near = sim_nearest(fault->kind, strlen(fault->kind), names, count);
	return sim_fail(error, SIM_EXIT_INPUT, "unknown fault '%s'%s%s%s", fault->kind,
			near ? "; did you mean '" : " (see: sluice sim inject --help)",
			near ? near : "", near ? "'?" : "");
}

static int check_instance(const struct sim_machine *machine, const struct sim_fault *fault,
			  struct sim_error *error)
{
	const struct sim_gpu *gpu = &machine->gpu[fault->gpu];

	if (fault->gi == SIM_WHOLE_GPU)
		return 0;
	if (!sim_model_of(machine, gpu)->has_mig || !gpu->mig_current)
		return sim_fail(error, SIM_EXIT_INPUT, "GPU %u is not in MIG mode", fault->gpu);

	for (uint32_t g = 0; g < SIM_GI_MAX; g++) {
		if (!gpu->gi[g].used || gpu->gi[g].id != fault->gi)
			continue;
		if (fault->ci == SIM_WHOLE_GPU)
			return 0;

		for (uint32_t c = 0; c < SIM_CI_MAX; c++) {
			if (gpu->gi[g].ci[c].used && gpu->gi[g].ci[c].id == fault->ci)
				return 0;
		}
	}

	return sim_fail(error, SIM_EXIT_INPUT, "GPU %u has no MIG instance %u/%u", fault->gpu,
			fault->gi, fault->ci == SIM_WHOLE_GPU ? 0 : fault->ci);
}

static int check_gpu(const struct sim_machine *machine, const struct sim_fault_kind *kind,
		     const struct sim_fault *fault, struct sim_error *error)
{
	if (!kind->needs_gpu && fault->gpu == SIM_WHOLE_GPU)
		return 0;
	if (fault->gpu == SIM_WHOLE_GPU)
		return sim_fail(error, SIM_EXIT_INPUT, "fault '%s' needs --gpu N", kind->name);
	if (fault->gpu >= machine->gpu_count)
		return sim_fail(error, SIM_EXIT_INPUT,
				"there is no GPU %u: the simulated machine has GPUs 0 to %u",
				fault->gpu, machine->gpu_count - 1);

	if (machine->gpu[fault->gpu].health == SIM_GPU_UNPLUGGED &&
	    strcmp(kind->name, "hotplug") != 0)
		return sim_fail(error, SIM_EXIT_INPUT,
				"GPU %u is unplugged: `sluice sim inject hotplug --gpu %u` first",
				fault->gpu, fault->gpu);

	return check_instance(machine, fault, error);
}

int sim_fault_inject(struct sim_machine *machine, const struct sim_fault *fault,
		     struct sim_error *error)
{
	const struct sim_fault_kind *kind = NULL;
	if (find_kind(fault, &kind, error) != 0 || check_gpu(machine, kind, fault, error) != 0)
		return -1;
	if (fault->argument_count < kind->least || fault->argument_count > kind->most)
		return sim_fail(error, SIM_EXIT_INPUT, "write: sluice sim inject %s %s", kind->name,
				kind->arguments);
	return kind->apply(machine, fault, error);
}

/* The kernel module is that of the library again. */
static void same_versions(struct sim_machine *machine)
{
	(void)snprintf(machine->kernel_driver_version, sizeof(machine->kernel_driver_version), "%s",
		       machine->driver_version);
}

static void heal_links(struct sim_machine *machine, uint32_t index)
{
	struct sim_gpu *gpu = &machine->gpu[index];

	for (uint32_t l = 0; l < SIM_LINK_MAX; l++) {
		struct sim_link *link = &gpu->link[l];
		if (link->peer_kind == SIM_LINK_GPU && link->down)
			machine->gpu[link->peer_gpu].link[link->peer_link].down = false;
		link->down = false;
		link->errors_per_tick_milli = 0;
	}
}

static int heal_gpu(struct sim_machine *machine, uint32_t index, struct sim_error *error)
{
	struct sim_gpu *gpu = &machine->gpu[index];
	const struct sim_model *model = sim_model_of(machine, gpu);

	if (gpu->health == SIM_GPU_UNPLUGGED) {
		const struct sim_fault plug = {
		    .kind = "hotplug", .gpu = index, .gi = SIM_WHOLE_GPU, .ci = SIM_WHOLE_GPU};
		if (sim_fault_inject(machine, &plug, error) != 0)
			return -1;
	}

	gpu->health = SIM_GPU_OK;
	gpu->loss_logged = false;
	gpu->ambient_c = INT32_MIN;
	gpu->fan_stuck = gpu->power_brake = false;
	gpu->holds = 0;
	gpu->recovery_action = 0;
	gpu->remap_pending = gpu->remap_failure = gpu->retired_pending = false;
	gpu->ecc_pending = gpu->ecc_current;
	gpu->mig_pending = gpu->mig_current;
	gpu->pcie_replays_per_tick_milli = 0;
	gpu->pcie_gen = model->pcie_gen_max;
	gpu->pcie_width = model->pcie_width_max;
	heal_links(machine, index);

	for (uint32_t i = 0; i < SIM_RULE_MAX; i++) {
		if (machine->rule[i].gpu == index)
			machine->rule[i] = (struct sim_rule){0};
	}

	return 0;
}

int sim_fault_heal(struct sim_machine *machine, uint32_t gpu, struct sim_error *error)
{
	if (gpu != SIM_WHOLE_GPU)
		return heal_gpu(machine, gpu, error);

	for (uint32_t i = 0; i < machine->gpu_count; i++) {
		if (heal_gpu(machine, i, error) != 0)
			return -1;
	}

	memset(machine->rule, 0, sizeof(machine->rule));
	memset(machine->missed_xid, 0, sizeof(machine->missed_xid));
	machine->driver_state = SIM_DRIVER_OK;
	same_versions(machine);

	return fault_heal_rdma(machine, NULL, error);
}

static void end_rules(struct sim_machine *machine, const struct sim_fault *fault)
{
	for (uint32_t i = 0; i < SIM_RULE_MAX; i++) {
		struct sim_rule *rule = &machine->rule[i];
		if (rule->kind != SIM_RULE_NONE && rule->gpu == fault->gpu &&
		    strcmp(rule->function, fault_argument(fault, 0)) == 0)
			*rule = (struct sim_rule){0};
	}
}

/* Those that concern no GPU in particular. True when `fault` was one. */
static bool end_driver(struct sim_machine *machine, const struct sim_fault *fault)
{
	static const char *const driver[] = {"version-mismatch", "no-driver", "no-permission"};
	static const char *const rules[] = {"hang", "slow", "return"};

	for (size_t i = 0; i < 3; i++) {
		if (strcmp(driver[i], fault->kind) == 0) {
			machine->driver_state = SIM_DRIVER_OK;
			same_versions(machine);
			return true;
		}

		if (strcmp(rules[i], fault->kind) == 0) {
			end_rules(machine, fault);
			return true;
		}
	}

	if (strcmp(fault->kind, "events-missed") != 0)
		return false;

	memset(machine->missed_xid, 0, sizeof(machine->missed_xid));
	return true;
}

int sim_fault_end(struct sim_machine *machine, const struct sim_fault *fault,
		  struct sim_error *error)
{
	if (strcmp(fault->kind, "rdma") == 0)
		return fault_heal_rdma(machine, fault_argument(fault, 0), error);

	if (strcmp(fault->kind, "rdma-netns") == 0)
		machine->rdma_exclusive = false;
	else if (strcmp(fault->kind, "acs") == 0)
		machine->acs_redirects = false;
	else if (strcmp(fault->kind, "iommu") == 0)
		machine->iommu_translates = false;

	if (end_driver(machine, fault) || fault->gpu >= machine->gpu_count)
		return 0;

	struct sim_gpu *gpu = &machine->gpu[fault->gpu];

	if (strcmp(fault->kind, "thermal") == 0) {
		gpu->ambient_c = INT32_MIN;
		gpu->fan_stuck = false;
	} else if (strcmp(fault->kind, "power-brake") == 0) {
		gpu->power_brake = false;
	} else if (strcmp(fault->kind, "throttle") == 0) {
		gpu->holds = 0;
	} else if (strcmp(fault->kind, "nvlink") == 0) {
		heal_links(machine, fault->gpu);
	} else if (strcmp(fault->kind, "mode") == 0) {
		gpu->ecc_pending = gpu->ecc_current;

		gpu->mig_pending = gpu->mig_current;
	} else if (strcmp(fault->kind, "pcie") == 0) {
		gpu->pcie_replays_per_tick_milli = 0;
		gpu->pcie_gen = sim_model_of(machine, gpu)->pcie_gen_max;
		gpu->pcie_width = sim_model_of(machine, gpu)->pcie_width_max;
	} else {
		return heal_gpu(machine, fault->gpu, error); /* the GPU itself is unwell */
	}

	return 0;
}

static int refuse_used(const struct sim_machine *machine, uint32_t index, struct sim_error *error)
{
	for (uint32_t i = 0; i < SIM_PROCESS_MAX; i++) {
		if (machine->gpu[index].process[i].pid != 0)
			return sim_fail(error, SIM_EXIT_FAILED,
					"GPU %u is used by process %u: end it first", index,
					machine->gpu[index].process[i].pid);
	}
	return 0;
}

int sim_fault_reset_gpu(struct sim_machine *machine, uint32_t index, struct sim_error *error)
{
	struct sim_gpu *gpu = &machine->gpu[index];
	if (gpu->health == SIM_GPU_LOST || gpu->health == SIM_GPU_UNPLUGGED)
		return sim_fail(error, SIM_EXIT_FAILED,
				"GPU %u is %s, which no reset changes: sluice sim heal --gpu %u",
				index, gpu->health == SIM_GPU_LOST ? "lost" : "unplugged", index);

	if (refuse_used(machine, index, error) != 0)
		return -1;

	gpu->health = SIM_GPU_OK;
	gpu->recovery_action = 0;
	gpu->resets++;
	gpu->energy_uj = 0;
	gpu->ecc.corrected_volatile = gpu->ecc.uncorrected_volatile = 0;
	gpu->ecc_current = gpu->ecc_pending;
	if (gpu->mig_current != gpu->mig_pending)
		sim_mig_reset(machine, index);
	gpu->remap_pending = gpu->retired_pending = false;

	return 0;
}

int sim_fault_reload_driver(struct sim_machine *machine, struct sim_error *error)
{
	for (uint32_t i = 0; i < machine->gpu_count; i++) {
		if (refuse_used(machine, i, error) != 0)
			return -1;
	}

	for (uint32_t i = 0; i < machine->gpu_count; i++) {
		struct sim_gpu *gpu = &machine->gpu[i];
		if (gpu->health == SIM_GPU_OK || gpu->health == SIM_GPU_RESET_REQUIRED)
			(void)sim_fault_reset_gpu(machine, i, error);
		gpu->energy_uj = 0;
		gpu->pcie_tx_bytes = gpu->pcie_rx_bytes = 0;
		gpu->nvlink_tx_bytes = gpu->nvlink_rx_bytes = 0;
		gpu->power_violation_ns = gpu->thermal_violation_ns = 0;
		gpu->sw_thermal_ns = gpu->hw_thermal_ns = gpu->brake_ns = 0;
		gpu->pcie_replays = 0;
		gpu->last_xid = 0;
		memset(gpu->pcie_errors, 0, sizeof(gpu->pcie_errors));
		memset(gpu->hold_ns, 0, sizeof(gpu->hold_ns));
	}

	machine->driver_state = SIM_DRIVER_OK;
	same_versions(machine);
	machine->driver_loads++;

	return 0;
}

int sim_fault_catch_up(struct sim_machine *machine, struct sim_error *error)
{
	for (uint32_t i = 0; i < machine->gpu_count; i++) {
		struct sim_gpu *gpu = &machine->gpu[i];
		const struct sim_kmsg_xid record = {
		    .gpu = i, .xid = 79, .gi = SIM_WHOLE_GPU, .form = SIM_KMSG_NEW};

		if (gpu->health != SIM_GPU_LOST || gpu->loss_logged)
			continue;
		if (sim_kmsg_xid(machine, &record, error) != 0)
			return -1;

		gpu->loss_logged = true;
	}

	return 0;
}
