/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of faults, one function each, and their table at the end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/error.h"
#include "sim/fault_private.h"
#include "sim/mig.h"
#include "sim/trees_plan.h"

static struct sim_gpu *gpu_of(struct sim_machine *machine, const struct sim_fault *fault)
{
	return &machine->gpu[fault->gpu];
}

static int wrong_argument(const struct sim_fault *fault, uint32_t index, const char *wanted,
			  struct sim_error *error)
{
	return sim_fail(error, SIM_EXIT_INPUT, "%s: '%s' is not %s", fault->kind,
			fault_argument(fault, index), wanted);
}

static int needs_ecc(struct sim_machine *machine, const struct sim_fault *fault,
		     struct sim_error *error)
{
	const struct sim_gpu *gpu = gpu_of(machine, fault);
	if (sim_model_of(machine, gpu)->has_ecc && gpu->ecc_current)
		return 0;
	return sim_fail(error, SIM_EXIT_INPUT, "GPU %u has no ECC, or it is off", fault->gpu);
}

static int apply_lost(struct sim_machine *machine, const struct sim_fault *fault,
		      struct sim_error *error)
{
	if (fault_xid(machine, fault, 79, NULL, error) != 0)
		return -1;
	gpu_of(machine, fault)->health = SIM_GPU_LOST;
	gpu_of(machine, fault)->loss_logged = true;
	return 0;
}

static int apply_remap(struct sim_machine *machine, const struct sim_fault *fault,
		       struct sim_error *error)
{
	struct sim_gpu *gpu = gpu_of(machine, fault);
	bool failure = strcmp(fault_argument(fault, 0), "failure") == 0;
	bool corrected = strcmp(fault_argument(fault, 0), "corrected") == 0;
	if (!failure && !corrected && strcmp(fault_argument(fault, 0), "pending") != 0)
		return wrong_argument(fault, 0, "pending, corrected or failure", error);

	if (!sim_model_of(machine, gpu)->has_row_remapper)
		return sim_fail(error, SIM_EXIT_INPUT,
				"GPU %u does not remap rows (before Ampere: retire)", fault->gpu);
	if (fault_xid(machine, fault, failure ? 64 : 63, NULL, error) != 0)
		return -1;

	if (failure) {
		gpu->remap_failure = true;
	} else {
		gpu->remap_pending = true;
		gpu->remap_correctable += corrected;
		gpu->remap_uncorrectable += !corrected;
	}

	fault_event(machine, fault, failure ? EVENT_RETIREMENT_FAILURE : EVENT_RETIREMENT, 0);
	return 0;
}

static int apply_retire(struct sim_machine *machine, const struct sim_fault *fault,
			struct sim_error *error)
{
	struct sim_gpu *gpu = gpu_of(machine, fault);
	bool single = strcmp(fault_argument(fault, 0), "sbe") == 0;
	if (fault->argument_count > 0 && !single && strcmp(fault_argument(fault, 0), "dbe") != 0)
		return wrong_argument(fault, 0, "sbe or dbe", error);
	if (sim_model_of(machine, gpu)->has_row_remapper)
		return sim_fail(error, SIM_EXIT_INPUT,
				"GPU %u remaps rows instead of retiring pages (remap pending)",
				fault->gpu);

	if (needs_ecc(machine, fault, error) != 0 ||
	    fault_xid(machine, fault, 63,
		      "Dynamic Page Retirement: New page retired, reboot to activate "
		      "(0x00000000000a5b3c).",
		      error) != 0)
		return -1;

	if (single)
		gpu->retired_sbe++;
	else
		gpu->retired_dbe++;

	gpu->retired_pending = true;
	fault_event(machine, fault, EVENT_RETIREMENT, 0);
	return 0;
}

/* A bad row or page is remembered as the model does. */
static int remember_row(struct sim_machine *machine, const struct sim_fault *fault,
			struct sim_error *error)
{
	struct sim_fault row = *fault;
	bool remaps = sim_model_of(machine, gpu_of(machine, fault))->has_row_remapper;
	row.kind = remaps ? "remap" : "retire";
	row.argument[0] = remaps ? "pending" : "dbe";
	row.argument_count = 1;
	row.text = NULL;
	return remaps ? apply_remap(machine, &row, error) : apply_retire(machine, &row, error);
}

static int ecc_uncorrected(struct sim_machine *machine, const struct sim_fault *fault,
			   struct sim_error *error)
{
	struct sim_gpu *gpu = gpu_of(machine, fault);

	if (needs_ecc(machine, fault, error) != 0 ||
	    fault_xid(machine, fault, 48, NULL, error) != 0)
		return -1;

	gpu->ecc.uncorrected_volatile++;
	gpu->ecc.uncorrected_aggregate++;
	fault_event(machine, fault, EVENT_ECC_UNCORRECTED, 0);

	if (fault->contained && (remember_row(machine, fault, error) != 0 ||
				 fault_xid(machine, fault, 94, NULL, error) != 0))
		return -1;
	if (!fault->uncontained)
		return 0;
	if (fault_xid(machine, fault, 95, NULL, error) != 0)
		return -1;

	gpu->recovery_action = RECOVERY_RESET;
	return 0;
}

static int apply_ecc(struct sim_machine *machine, const struct sim_fault *fault,
		     struct sim_error *error)
{
	struct sim_gpu *gpu = gpu_of(machine, fault);

	if (strcmp(fault_argument(fault, 0), "uncorrected") == 0)
		return ecc_uncorrected(machine, fault, error);
	if (strcmp(fault_argument(fault, 0), "corrected") != 0)
		return wrong_argument(fault, 0, "corrected or uncorrected", error);
	if (needs_ecc(machine, fault, error) != 0)
		return -1;

	uint32_t count = fault->count ? fault->count : 1;
	gpu->ecc.corrected_volatile += count;
	gpu->ecc.corrected_aggregate += count;
	fault_event(machine, fault, EVENT_ECC_CORRECTED, 0);

	if (fault->storm)
		fault_event(machine, fault, EVENT_ECC_STORM, 0);

	return 0;
}

static int apply_reset_required(struct sim_machine *machine, const struct sim_fault *fault,
				struct sim_error *error)
{
	if (fault_recovery(machine, fault, RECOVERY_RESET, error) != 0)
		return -1;
	gpu_of(machine, fault)->health = SIM_GPU_RESET_REQUIRED;
	return 0;
}

static int apply_recovery(struct sim_machine *machine, const struct sim_fault *fault,
			  struct sim_error *error)
{
	uint64_t action;
	if (!fault_number(fault_argument(fault, 0), 7, &action))
		return wrong_argument(fault, 0, "a recovery action, 0 to 7", error);
	return fault_recovery(machine, fault, (uint32_t)action, error);
}

/* NVLink 5 units of 144 to 150 tell the link; the rest of an XID's effects belongs to its fault. */
static int xid_nvlink5(struct sim_machine *machine, const struct sim_fault *fault, uint32_t xid,
		       struct sim_error *error)
{
	const struct sim_kmsg_xid record = {
	    .gpu = fault->gpu,
	    .xid = xid,
	    .gi = fault->gi,
	    .pid = fault->pid,
	    .link = -1,
	    .nonfatal = fault->contained,
	    .text = fault->text,
	    .form = fault->has_form ? fault->form : SIM_KMSG_NVLINK5,
	};
	return fault_record(machine, fault, &record, error);
}

static int forge_xid(struct sim_machine *machine, const struct sim_fault *fault, uint32_t xid,
		     struct sim_error *error)
{
	const struct sim_kmsg_xid record = {
	    .gpu = fault->gpu,
	    .xid = xid,
	    .pid = fault->pid,
	    .gi = fault->gi,
	    .link = -1,
	    .text = fault->text,
	    .form = fault->has_form ? fault->form : SIM_KMSG_NEW,
	    .forged = true,
	};
	return sim_kmsg_xid(machine, &record, error);
}

static int apply_xid(struct sim_machine *machine, const struct sim_fault *fault,
		     struct sim_error *error)
{
	uint64_t xid;
	struct sim_fault effect = *fault;

	if (!fault_number(fault_argument(fault, 0), 9999, &xid) || xid == 0)
		return wrong_argument(fault, 0, "an XID, 1 to 9999", error);

	effect.argument_count = 1;
	if (fault->forge)
		return forge_xid(machine, fault, (uint32_t)xid, error);

	switch (xid) {
	case 48:
		return ecc_uncorrected(machine, fault, error);
	case 63:
		return remember_row(machine, fault, error);
	case 64:
		effect.argument[0] = "failure";
		return apply_remap(machine, &effect, error);
	case 79:
		return apply_lost(machine, fault, error);
	case 154:
		return fault_recovery(machine, fault, RECOVERY_RESET, error);
	default:
		break;
	}

	if (xid >= 144 && xid <= 150)
		return xid_nvlink5(machine, fault, (uint32_t)xid, error);

	return fault_xid(machine, fault, (uint32_t)xid, NULL, error);
}

static int apply_thermal(struct sim_machine *machine, const struct sim_fault *fault,
			 struct sim_error *error)
{
	struct sim_gpu *gpu = gpu_of(machine, fault);

	if (!fault->has_ambient && !fault->fan_stuck)
		return sim_fail(error, SIM_EXIT_INPUT, "thermal needs --ambient C or --fan-stuck");
	if (fault->fan_stuck && sim_model_of(machine, gpu)->fan_count == 0)
		return sim_fail(error, SIM_EXIT_INPUT, "GPU %u has no fan of its own (--ambient C)",
				fault->gpu);
	if (fault->has_ambient && (fault->ambient_c < -40 || fault->ambient_c > 200))
		return sim_fail(error, SIM_EXIT_INPUT,
				"--ambient is a temperature from -40 to 200 C");
	if (fault->has_ambient)
		gpu->ambient_c = fault->ambient_c;
	gpu->fan_stuck |= fault->fan_stuck;

	return 0;
}

static int apply_power_brake(struct sim_machine *machine, const struct sim_fault *fault,
			     struct sim_error *error)
{
	(void)error;
	gpu_of(machine, fault)->power_brake = true;
	return 0;
}

static int apply_throttle(struct sim_machine *machine, const struct sim_fault *fault,
			  struct sim_error *error)
{
	static const char *const hold[SIM_HOLD_COUNT] = {"sync-boost", "board", "low-util",
							 "reliability"};

	for (uint32_t i = 0; i < SIM_HOLD_COUNT; i++) {
		if (strcmp(hold[i], fault_argument(fault, 0)) != 0)
			continue;
		gpu_of(machine, fault)->holds |= 1U << i;
		return 0;
	}

	return wrong_argument(fault, 0, "sync-boost, board, low-util or reliability", error);
}

/* Errors that nothing else causes: only their counter moves. */
static int count_link_error(struct sim_link *link, const struct sim_model *model,
			    const struct sim_fault *fault, struct sim_error *error)
{
	static const char *const type[SIM_LINK_ERROR_COUNT] = {"ecc",
							       "malformed",
							       "buffer-overrun",
							       "rcv",
							       "rcv-remote",
							       "rcv-general",
							       "link-integrity",
							       "xmit-discard",
							       "recovery-failed",
							       "effective",
							       "symbol"};
	const char *name = fault_argument(fault, 2);

	for (uint32_t i = 0; i < SIM_LINK_ERROR_COUNT; i++) {
		if (strcmp(type[i], name) != 0)
			continue;
		if (i >= SIM_LINK_MALFORMED && model->nvlink_version < 5)
			return sim_fail(error, SIM_EXIT_INPUT,
					"GPU %u has NVLink %u: '%s' is counted since NVLink 5",
					fault->gpu, model->nvlink_version, name);

		link->more[i] += fault->count ? fault->count : 1;
		return 0;
	}

	const char *near = sim_nearest(name, strlen(name), type, SIM_LINK_ERROR_COUNT);
	return sim_fail(error, SIM_EXIT_INPUT, "nvlink count: unknown type '%s'%s%s%s", name,
			near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static int apply_nvlink(struct sim_machine *machine, const struct sim_fault *fault,
			struct sim_error *error)
{
	struct sim_gpu *gpu = gpu_of(machine, fault);
	const struct sim_model *model = sim_model_of(machine, gpu);
	bool down = strcmp(fault_argument(fault, 1), "down") == 0;
	uint64_t number, rate = 0;

	if (!fault_number(fault_argument(fault, 0), SIM_LINK_MAX - 1, &number) ||
	    number >= model->link_count || gpu->link[number].peer_kind == SIM_LINK_NONE)
		return sim_fail(error, SIM_EXIT_INPUT, "GPU %u has no NVLink '%s': it has %u",
				fault->gpu, fault_argument(fault, 0), model->link_count);

	if (strcmp(fault_argument(fault, 1), "count") == 0)
		return count_link_error(&gpu->link[number], model, fault, error);
	if (!down && strcmp(fault_argument(fault, 1), "errors") != 0)
		return wrong_argument(fault, 1, "down, errors or count", error);
	if (!down && !fault_number(fault_argument(fault, 2), 1000000, &rate))
		return wrong_argument(fault, 2, "a number of errors in a second", error);

	struct sim_link *link = &gpu->link[number];
	char text[96];

	(void)snprintf(
	    text, sizeof(text),
	    "NVLink: fatal error detected on link %u(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)",
	    (uint32_t)number);
	const struct sim_kmsg_xid record = {
	    .gpu = fault->gpu,
	    .xid = model->nvlink_version >= 5 ? 149 : 74,
	    .pid = fault->pid,
	    .gi = SIM_WHOLE_GPU,
	    .link = (int32_t)number,
	    .nonfatal = !down,
	    .text = text,
	    .form = fault->has_form		 ? fault->form
		    : model->nvlink_version >= 5 ? SIM_KMSG_NVLINK5
						 : SIM_KMSG_NEW,
	};
	if (fault_record(machine, fault, &record, error) != 0)
		return -1;

	if (down) {
		link->down = true;
		if (link->peer_kind == SIM_LINK_GPU)
			machine->gpu[link->peer_gpu].link[link->peer_link].down = true;
	} else {
		link->errors_per_tick_milli = (uint32_t)(rate * 1000 / SIM_TICKS_PER_SECOND);
	}

	return 0;
}

static int pcie_error(struct sim_gpu *gpu, const struct sim_fault *fault, struct sim_error *error)
{
	/* in the order of fields 173 to 183, then 169 */
	static const char *const type[] = {"correctable", "naks-received", "receiver",
					   "bad-tlp",	  "naks-sent",	   "bad-dllp",
					   "nonfatal",	  "fatal",	   "unsupported-request",
					   "lcrc",	  "lane",	   "l0-to-recovery"};
	const size_t count = sizeof(type) / sizeof(*type);
	const char *name = fault_argument(fault, 1);

	for (size_t i = 0; i < count; i++) {
		if (strcmp(type[i], name) != 0)
			continue;
		gpu->pcie_errors[i] += fault->count ? fault->count : 1;
		return 0;
	}

	const char *near = sim_nearest(name, strlen(name), type, count);
	return sim_fail(error, SIM_EXIT_INPUT, "pcie errors: unknown type '%s'%s%s%s", name,
			near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static int apply_pcie(struct sim_machine *machine, const struct sim_fault *fault,
		      struct sim_error *error)
{
	struct sim_gpu *gpu = gpu_of(machine, fault);
	const struct sim_model *model = sim_model_of(machine, gpu);
	const char *what = fault_argument(fault, 0);
	uint64_t value = 0;

	if (strcmp(what, "errors") == 0)
		return pcie_error(gpu, fault, error);
	if (!fault_number(fault_argument(fault, 1), 1000000, &value))
		return wrong_argument(fault, 1, "a number", error);
	if (strcmp(what, "replays") == 0) {
		gpu->pcie_replays_per_tick_milli = (uint32_t)(value * 1000 / SIM_TICKS_PER_SECOND);
		return 0;
	}

	if (strcmp(what, "width") == 0) {
		bool power_of_two = value > 0 && (value & (value - 1)) == 0;
		if (!power_of_two || value > model->pcie_width_max)
			return wrong_argument(fault, 1, "a width that this GPU has: 1, 2, 4, 8, 16",
					      error);

		gpu->pcie_width = (uint32_t)value;
		return 0;
	}

	if (strcmp(what, "gen") != 0)
		return wrong_argument(fault, 0, "replays, width, gen or errors", error);
	if (value < 1 || value > model->pcie_gen_max)
		return wrong_argument(fault, 1, "a generation that this GPU has", error);

	gpu->pcie_gen = (uint32_t)value;
	return 0;
}

static int apply_unavailable(struct sim_machine *machine, const struct sim_fault *fault,
			     struct sim_error *error)
{
	(void)error;
	fault_event(machine, fault, EVENT_UNAVAILABLE, 0);
	return 0;
}

static int add_rule(struct sim_machine *machine, const struct sim_fault *fault,
		    enum sim_rule_kind kind, struct sim_error *error)
{
	const char *function = fault_argument(fault, 0), *near = NULL;
	if (!sim_fault_knows_function(function, &near))
		return sim_fail(error, SIM_EXIT_INPUT, "NVML has no function '%s'%s%s%s", function,
				near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");

	for (uint32_t i = 0; i < SIM_RULE_MAX; i++) {
		struct sim_rule *rule = &machine->rule[i];
		if (rule->kind != SIM_RULE_NONE)
			continue;

		*rule = (struct sim_rule){
		    .kind = kind,
		    .gpu = fault->gpu,
		    .result = fault->result,
		    .delay_ms = fault->ms,
		    .id = ++machine->next_rule_id,
		    .after = fault->after,
		    .count = fault->count,
		};
		(void)snprintf(rule->function, sizeof(rule->function), "%s", function);
		return 0;
	}

	return sim_fail(error, SIM_EXIT_FAILED,
			"%d standing faults are in force already: sluice sim heal", SIM_RULE_MAX);
}

static int apply_hang(struct sim_machine *machine, const struct sim_fault *fault,
		      struct sim_error *error)
{
	return add_rule(machine, fault, SIM_RULE_HANG, error);
}

static int apply_slow(struct sim_machine *machine, const struct sim_fault *fault,
		      struct sim_error *error)
{
	if (fault->ms == 0)
		return sim_fail(error, SIM_EXIT_INPUT, "slow needs --ms N");
	return add_rule(machine, fault, SIM_RULE_SLOW, error);
}

static int apply_return(struct sim_machine *machine, const struct sim_fault *fault,
			struct sim_error *error)
{
	return add_rule(machine, fault, SIM_RULE_RETURN, error);
}

/* The module of a driver that was upgraded under a running kernel: its last digit differs. */
static int apply_version_mismatch(struct sim_machine *machine, const struct sim_fault *fault,
				  struct sim_error *error)
{
	(void)fault, (void)error;
	(void)snprintf(machine->kernel_driver_version, sizeof(machine->kernel_driver_version), "%s",
		       machine->driver_version);

	size_t length = strlen(machine->kernel_driver_version);
	char *last = &machine->kernel_driver_version[length ? length - 1 : 0];

	*last = *last == '9' ? '8' : '9';
	machine->driver_state = SIM_DRIVER_MISMATCH;
	return 0;
}

static int apply_no_driver(struct sim_machine *machine, const struct sim_fault *fault,
			   struct sim_error *error)
{
	(void)fault, (void)error;
	machine->driver_state = SIM_DRIVER_NONE;
	return 0;
}

static int apply_no_permission(struct sim_machine *machine, const struct sim_fault *fault,
			       struct sim_error *error)
{
	(void)fault, (void)error;
	machine->driver_state = SIM_DRIVER_NO_PERMISSION;
	return 0;
}

static int apply_events_missed(struct sim_machine *machine, const struct sim_fault *fault,
			       struct sim_error *error)
{
	uint32_t missed[SIM_MISSED_MAX] = {0}, count = 0;

	for (const char *at = fault_argument(fault, 0); *at;) {
		char word[16];
		size_t length = strcspn(at, ",");
		uint64_t xid;

		(void)snprintf(word, sizeof(word), "%.*s", (int)(length < 15 ? length : 15), at);
		if (!fault_number(word, 9999, &xid) || xid == 0 || count == SIM_MISSED_MAX)
			return sim_fail(
			    error, SIM_EXIT_INPUT,
			    "events-missed: '%s' is not a list of at most %d XIDs such as "
			    "79,119,120",
			    fault_argument(fault, 0), SIM_MISSED_MAX);

		missed[count++] = (uint32_t)xid;
		at += length + (at[length] == ',');
	}

	memcpy(machine->missed_xid, missed, sizeof(missed));
	return 0;
}

static int apply_hotplug(struct sim_machine *machine, const struct sim_fault *fault,
			 struct sim_error *error)
{
	struct sim_gpu *gpu = gpu_of(machine, fault);
	const struct sim_model *model = sim_model_of(machine, gpu);
	char device[40];

	if (gpu->health != SIM_GPU_UNPLUGGED)
		return sim_fail(error, SIM_EXIT_INPUT, "GPU %u is plugged in", fault->gpu);

	(void)snprintf(device, sizeof(device), "+pci:" SIM_BDF_FORMAT, SIM_BDF_ARGS(gpu));
	if (sim_kmsg_line(machine, SIM_KMSG_INFO, device, error,
			  "pci " SIM_BDF_FORMAT ": [%04x:%04x] type 00 class 0x%06x PCIe Endpoint",
			  SIM_BDF_ARGS(gpu), model->pci_device_id & 0xffff,
			  model->pci_device_id >> 16,
			  model->quadro_class ? 0x030000 : 0x030200) != 0 ||
	    sim_kmsg_line(machine, SIM_KMSG_INFO, device, error,
			  "nvidia " SIM_BDF_FORMAT ": enabling device (0000 -> 0002)",
			  SIM_BDF_ARGS(gpu)) != 0)
		return -1;

	gpu->health = SIM_GPU_OK;
	return sim_kmsg_uevent(machine, fault->gpu, "add", error);
}

static int apply_hotunplug(struct sim_machine *machine, const struct sim_fault *fault,
			   struct sim_error *error)
{
	struct sim_gpu *gpu = gpu_of(machine, fault);
	char device[40];

	(void)snprintf(device, sizeof(device), "+pci:" SIM_BDF_FORMAT, SIM_BDF_ARGS(gpu));
	if (sim_kmsg_line(machine, SIM_KMSG_INFO, device, error,
			  "pcieport: pciehp: Slot(%u): Link Down", gpu->pci_bus) != 0 ||
	    sim_kmsg_line(machine, SIM_KMSG_INFO, device, error,
			  "pci " SIM_BDF_FORMAT ": Removing from iommu group %u", SIM_BDF_ARGS(gpu),
			  gpu->pci_bus) != 0)
		return -1;

	gpu->health = SIM_GPU_UNPLUGGED;
	memset(gpu->process, 0, sizeof(gpu->process));
	return sim_kmsg_uevent(machine, fault->gpu, "remove", error);
}

static int apply_mig(struct sim_machine *machine, const struct sim_fault *fault,
		     struct sim_error *error)
{
	uint32_t before[SIM_GPU_MAX];
	bool any = false;

	for (uint32_t i = 0; i < machine->gpu_count; i++) {
		any |= sim_model_of(machine, &machine->gpu[i])->has_mig;
		before[i] = machine->gpu[i].mig_generation;

		for (uint32_t p = 0; p < SIM_PROCESS_MAX; p++) {
			if (machine->gpu[i].process[p].pid != 0)
				return sim_fail(error, SIM_EXIT_FAILED,
						"GPU %u is used by process %u: end it first", i,
						machine->gpu[i].process[p].pid);
		}
	}

	if (!any)
		return sim_fail(error, SIM_EXIT_INPUT, "no GPU of '%s' can be partitioned",
				machine->profile);
	if (sim_mig_layout(machine, fault_argument(fault, 0), error) != 0)
		return -1;

	for (uint32_t i = 0; i < machine->gpu_count; i++) {
		const struct sim_fault which = {.gpu = i, .gi = SIM_WHOLE_GPU, .ci = SIM_WHOLE_GPU};
		if (machine->gpu[i].mig_generation != before[i])
			fault_event(machine, &which, EVENT_MIG, 0);
	}

	return 0;
}

static int apply_mode(struct sim_machine *machine, const struct sim_fault *fault,
		      struct sim_error *error)
{
	struct sim_gpu *gpu = gpu_of(machine, fault);
	const struct sim_model *model = sim_model_of(machine, gpu);
	bool ecc = strcmp(fault_argument(fault, 0), "ecc") == 0;
	if (!ecc && strcmp(fault_argument(fault, 0), "mig") != 0)
		return wrong_argument(fault, 0, "ecc or mig", error);

	if (strcmp(fault_argument(fault, 1), "pending") != 0)
		return wrong_argument(fault, 1, "pending", error);
	if (ecc ? !model->has_ecc : !model->has_mig)
		return sim_fail(error, SIM_EXIT_INPUT, "GPU %u has no %s mode", fault->gpu,
				ecc ? "ECC" : "MIG");
	if (ecc)
		gpu->ecc_pending = !gpu->ecc_current;
	else
		gpu->mig_pending = !gpu->mig_current;

	return 0;
}

static int apply_kmsg(struct sim_machine *machine, const struct sim_fault *fault,
		      struct sim_error *error)
{
	uint64_t count;
	bool flood = strcmp(fault_argument(fault, 0), "flood") == 0;
	if (!flood && strcmp(fault_argument(fault, 0), "overwrite") != 0)
		return wrong_argument(fault, 0, "flood or overwrite", error);
	if (!fault_number(fault_argument(fault, 1), 1000000, &count))
		return wrong_argument(fault, 1, "a number of records, at most 1000000", error);

	return flood ? sim_kmsg_flood(machine, (uint32_t)count, error)
		     : sim_kmsg_overwrite(machine, (uint32_t)count, error);
}

static const struct sim_fault_kind kinds[] = {
    {"xid", "CODE", "an XID: NVML event, kernel log, and what the code entails (48 63 64 79 154)",
     true, 1, 1, apply_xid},
    {"ecc", "corrected|uncorrected",
     "an ECC error: counters, NVML event, XID 48 (with --contained 63 and 94, with --uncontained "
     "95)",
     true, 1, 1, apply_ecc},
    {"remap", "pending|corrected|failure",
     "a row is to be remapped (corrected: after correctable errors), or cannot be: XID 63 or 64",
     true, 1, 1, apply_remap},
    {"retire", "[sbe|dbe]", "a page is retired (before Ampere): XID 63", true, 0, 1, apply_retire},
    {"thermal", "", "it gets hot: --ambient C or --fan-stuck; the physics does the rest", true, 0,
     0, apply_thermal},
    {"power-brake", "", "the power supply pulls the brake: clocks are halved", true, 0, 0,
     apply_power_brake},
    {"throttle", "sync-boost|board|low-util|reliability",
     "the clocks are held down a little for that reason, until it is healed", true, 1, 1,
     apply_throttle},
    {"nvlink", "LINK down|errors RATE|count TYPE",
     "an NVLink fails, or errs RATE times a second: XID 74 or 149; or one of its counters moves",
     true, 2, 3, apply_nvlink},
    {"pcie", "replays RATE|width W|gen G|errors TYPE",
     "replays a second, a narrower or slower link, error counters", true, 2, 2, apply_pcie},
    {"lost", "", "the GPU falls off the bus: XID 79, every call fails", true, 0, 0, apply_lost},
    {"reset-required", "", "every call fails until `reset-gpu`: XID 154", true, 0, 0,
     apply_reset_required},
    {"recovery", "N", "field 230 becomes N: NVML event, XID 154", true, 1, 1, apply_recovery},
    {"unavailable", "", "NVML event 0x4000", true, 0, 0, apply_unavailable},
    {"hang", "FUNCTION|any", "calls block until `heal`, or for --ms N", false, 1, 1, apply_hang},
    {"slow", "FUNCTION|any", "calls take --ms N longer", false, 1, 1, apply_slow},
    {"return", "FUNCTION|any", "calls return a code (see: sluice sim fault)", false, 1, 1,
     apply_return},
    {"version-mismatch", "", "library and kernel module have different versions", false, 0, 0,
     apply_version_mismatch},
    {"no-driver", "", "the driver is not loaded: no nodes, no /proc/driver/nvidia", false, 0, 0,
     apply_no_driver},
    {"no-permission", "", "nobody may use the driver: nodes have mode 0600", false, 0, 0,
     apply_no_permission},
    {"events-missed", "CODES", "no NVML event comes for these XIDs, only the kernel log", false, 1,
     1, apply_events_missed},
    {"hotunplug", "", "the GPU is taken out: files go, a uevent comes", true, 0, 0,
     apply_hotunplug},
    {"hotplug", "", "it is put back", true, 0, 0, apply_hotplug},
    {"mig", "LAYOUT", "new MIG instances on the whole machine: NVML event 0x100, capability files",
     false, 1, 1, apply_mig},
    {"mode", "ecc|mig pending", "the mode is to change with the next `reset-gpu`", true, 2, 2,
     apply_mode},
    {"rdma",
     "ADAPTER|all down [PORT]|up [PORT]|rate GBIT|gone|back|unbound|bound|no-node|wrong-node|node",
     "an adapter (mlx5_0) loses its link, its speed, its place on the bus, its driver or its "
     "uverbs "
     "node",
     false, 2, 3, fault_apply_rdma},
    {"acs", "on|off", "PCIe ports send traffic between devices to the root complex", false, 1, 1,
     fault_apply_acs},
    {"iommu", "translate|passthrough", "the IOMMU translates addresses for every device", false, 1,
     1, fault_apply_iommu},
    {"rdma-netns", "exclusive|shared", "the network namespace mode of the RDMA subsystem", false, 1,
     1, fault_apply_rdma_netns},
    {"kmsg", "flood N|overwrite N", "N other records in the kernel log, or N that were overwritten",
     false, 2, 2, apply_kmsg},
};

const struct sim_fault_kind *sim_fault_kinds(size_t *out_count)
{
	*out_count = sizeof(kinds) / sizeof(*kinds);
	return kinds;
}
