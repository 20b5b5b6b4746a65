/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/state_private.h"

/*
 * The file may hold anything: another process can write to it, and it may be garbage. Everything is
 * checked here once, on a private copy, so that the rest can count on it.
 */

#define TERMINATE(text) ((text)[sizeof(text) - 1] = '\0')

static const uint64_t rate_max = UINT64_C(1) << 48, bytes_max = UINT64_C(1) << 50;
static const uint64_t tick_max = UINT64_C(1) << 40;

enum {
	MILLIWATTS_MAX = 5000000,
	MEGAHERTZ_MAX = 20000,
	DEGREES_MAX = 300,
	PERMILLE_MAX = 1000,
	TAU_MS_MAX = 3600000,
	MEGABYTES_MAX = 1 << 24,
	UNITS_MAX = 1 << 20,
	THROTTLE_MAX = 8,
	INSTANCE_ID_MAX = 14,
};

/* A bool that holds anything but 0 or 1 must not even be read as one. */
static void make_bool(bool *value)
{
	unsigned char *byte = (unsigned char *)value;

	*byte = *byte != 0;
}

static bool is_mig_row(struct sim_mig_profile *row)
{
	TERMINATE(row->name);
	if (row->slices < 1 || row->slices > 8 || row->sm_count > UNITS_MAX ||
	    row->memory_mib > MEGABYTES_MAX || row->max_count > SIM_GI_MAX ||
	    row->placement_count > SIM_PLACEMENT_MAX || row->placement_size < 1 ||
	    row->placement_size > SIM_MEMORY_SLICES)
		return false;

	for (uint32_t i = 0; i < row->placement_count; i++) {
		if (row->placement_start[i] > SIM_MEMORY_SLICES - row->placement_size)
			return false;
	}

	return true;
}

static bool is_model(struct sim_model *model)
{
	TERMINATE(model->name);
	TERMINATE(model->vbios);
	TERMINATE(model->part_number);
	make_bool(&model->has_ecc);
	make_bool(&model->has_mig);
	make_bool(&model->has_gpm);
	make_bool(&model->has_fabric);
	make_bool(&model->has_row_remapper);
	make_bool(&model->has_hbm);
	make_bool(&model->quadro_class);

	if (model->memory_bytes > bytes_max || model->reserved_bytes >= model->memory_bytes ||
	    model->bar1_bytes > bytes_max || model->context_bytes_mib > 1 << 16)
		return false;
	if (model->sm_count < 1 || model->sm_count > UNITS_MAX || model->core_count > 1 << 30 ||
	    model->memory_bus_bits > 1 << 20 || model->pcie_gen_max > 16 ||
	    model->pcie_width_max > 64)
		return false;

	if (model->power_load_mw < 1 || model->power_load_mw > MILLIWATTS_MAX ||
	    model->power_idle_mw >= model->power_load_mw || model->power_default_mw < 1 ||
	    model->power_default_mw > MILLIWATTS_MAX || model->power_min_mw > MILLIWATTS_MAX ||
	    model->power_max_mw > MILLIWATTS_MAX)
		return false;

	if (model->slowdown_c > DEGREES_MAX || model->shutdown_c > DEGREES_MAX ||
	    model->gpu_max_c > DEGREES_MAX || model->mem_max_c > DEGREES_MAX ||
	    model->ambient_c > DEGREES_MAX || model->thermal_tau_ms < 1 ||
	    model->thermal_tau_ms > TAU_MS_MAX || model->power_tau_ms < 1 ||
	    model->power_tau_ms > TAU_MS_MAX)
		return false;

	if (model->sm_max_mhz > MEGAHERTZ_MAX || model->sm_idle_mhz > model->sm_max_mhz ||
	    model->mem_max_mhz > MEGAHERTZ_MAX || model->mem_idle_mhz > model->mem_max_mhz ||
	    model->video_max_mhz > MEGAHERTZ_MAX || model->idle_pstate > 15)
		return false;

	if (model->fan_count > 8 || model->link_count > SIM_LINK_MAX ||
	    model->mig_profile_count > SIM_MIG_PROFILE_MAX)
		return false;

	for (uint32_t i = 0; i < model->mig_profile_count; i++) {
		if (!is_mig_row(&model->mig_profile[i]))
			return false;
	}

	return true;
}

static bool is_process(struct sim_process *process)
{
	if (process->pid == 0)
		return true;

	return (process->type == SIM_PROCESS_COMPUTE || process->type == SIM_PROCESS_GRAPHICS ||
		process->type == SIM_PROCESS_MPS) &&
	       process->shape <= SIM_SHAPE_TRACE && process->trace_length <= SIM_TRACE_MAX &&
	       process->util_permille <= PERMILLE_MAX && process->enc_permille <= PERMILLE_MAX &&
	       process->dec_permille <= PERMILLE_MAX && process->membw_permille >= -1 &&
	       process->membw_permille <= PERMILLE_MAX &&
	       process->tensor_permille <= PERMILLE_MAX && process->memory_bytes <= bytes_max &&
	       process->pcie_tx_bps <= rate_max && process->pcie_rx_bps <= rate_max &&
	       process->nvlink_bps <= rate_max && process->begin_tick <= tick_max &&
	       process->end_tick <= tick_max && process->share_permille <= PERMILLE_MAX;
}

static bool is_instance(const struct sim_model *model, struct sim_gi *gi)
{
	make_bool(&gi->used);

	for (uint32_t i = 0; i < SIM_CI_MAX; i++) {
		struct sim_ci *ci = &gi->ci[i];

		make_bool(&ci->used);
		TERMINATE(ci->uuid);

		if (ci->used && (!gi->used || ci->id >= SIM_CI_MAX || ci->slices < 1 ||
				 ci->slices > SIM_MEMORY_SLICES || ci->start > SIM_MEMORY_SLICES ||
				 ci->start + ci->slices > SIM_MEMORY_SLICES))
			return false;
	}

	if (gi->profile >= SIM_MIG_PROFILE_MAX)
		return false;
	if (!gi->used)
		return true;

	return gi->profile < model->mig_profile_count && gi->id <= INSTANCE_ID_MAX &&
	       gi->start <= SIM_MEMORY_SLICES - model->mig_profile[gi->profile].placement_size;
}

static bool are_links(struct sim_gpu *gpu)
{
	for (uint32_t i = 0; i < SIM_LINK_MAX; i++) {
		struct sim_link *link = &gpu->link[i];

		make_bool(&link->down);
		if (link->peer_kind > SIM_LINK_SWITCH || link->peer_gpu >= SIM_GPU_MAX ||
		    link->peer_link >= SIM_LINK_MAX || link->switch_bus > 0xff ||
		    link->switch_device > 0x1f || link->errors_residue >= 1000)
			return false;
	}

	return true;
}

static void make_gpu_bools(struct sim_gpu *gpu)
{
	bool *const values[] = {
	    &gpu->drives_display,  &gpu->persistence,
	    &gpu->accounting,	   &gpu->ecc_current,
	    &gpu->ecc_pending,	   &gpu->mig_current,
	    &gpu->mig_pending,	   &gpu->fan_stuck,
	    &gpu->power_brake,	   &gpu->loss_logged,
	    &gpu->remap_pending,   &gpu->remap_failure,
	    &gpu->retired_pending, &gpu->sram_threshold_exceeded,
	};

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		make_bool(values[i]);
}

static bool is_gpu(const struct sim_machine *machine, struct sim_gpu *gpu)
{
	const struct sim_model *model;

	if (gpu->model >= machine->model_count)
		return false;

	model = sim_model_of(machine, gpu);
	make_gpu_bools(gpu);
	TERMINATE(gpu->uuid);
	TERMINATE(gpu->serial);

	if (gpu->minor > 255 || gpu->pci_domain > 0xffff || gpu->pci_bus > 0xff ||
	    gpu->pci_device > 0x1f || gpu->numa_node < -1 || gpu->numa_node > 63)
		return false;

	if (gpu->power_uw < 0 || gpu->power_uw > (int64_t)MILLIWATTS_MAX * 1000 ||
	    gpu->temperature_uc < -(int64_t)DEGREES_MAX * 10 * 1000000 ||
	    gpu->temperature_uc > (int64_t)DEGREES_MAX * 10 * 1000000 ||
	    gpu->power_limit_mw > MILLIWATTS_MAX ||
	    (gpu->ambient_c != INT32_MIN &&
	     (gpu->ambient_c < -DEGREES_MAX || gpu->ambient_c > DEGREES_MAX)))
		return false;

	if (gpu->util_permille > PERMILLE_MAX || gpu->membw_permille > PERMILLE_MAX ||
	    gpu->enc_permille > PERMILLE_MAX || gpu->dec_permille > PERMILLE_MAX ||
	    gpu->jpg_permille > PERMILLE_MAX || gpu->ofa_permille > PERMILLE_MAX ||
	    gpu->tensor_permille > PERMILLE_MAX || gpu->fan_permille > PERMILLE_MAX ||
	    gpu->throttle_steps > THROTTLE_MAX || gpu->sm_mhz > MEGAHERTZ_MAX ||
	    gpu->mem_mhz > MEGAHERTZ_MAX || gpu->pstate > 15 || gpu->pcie_replays_residue >= 1000 ||
	    gpu->health > SIM_GPU_UNPLUGGED)
		return false;

	for (uint32_t i = 0; i < SIM_GI_MAX; i++) {
		if (!is_instance(model, &gpu->gi[i]))
			return false;
	}

	for (uint32_t i = 0; i < SIM_PROCESS_MAX; i++) {
		if (!is_process(&gpu->process[i]))
			return false;
	}

	return are_links(gpu);
}

static bool are_faults(struct sim_machine *machine)
{
	if (machine->pending_count > SIM_PENDING_MAX)
		return false;

	for (uint32_t i = 0; i < SIM_RULE_MAX; i++) {
		TERMINATE(machine->rule[i].function);
		if (machine->rule[i].kind > SIM_RULE_HANG)
			return false;
	}

	for (uint32_t i = 0; i < machine->pending_count; i++)
		make_bool(&machine->pending[i].silent);

	return true;
}

static void check_nic(struct sim_nic *nic)
{
	for (uint32_t p = 0; p < SIM_NIC_PORT_MAX; p++)
		make_bool(&nic->down[p]);
	make_bool(&nic->gone);
	make_bool(&nic->unbound);
	make_bool(&nic->no_node);
	make_bool(&nic->wrong_node);
}

bool sim_machine_check(struct sim_machine *machine)
{
	TERMINATE(machine->profile);
	TERMINATE(machine->product);
	TERMINATE(machine->driver_version);
	TERMINATE(machine->kernel_driver_version);
	TERMINATE(machine->root);
	TERMINATE(machine->log);
	make_bool(&machine->open_kernel_module);
	make_bool(&machine->fabric);
	make_bool(&machine->vgpu_guest);
	make_bool(&machine->mig_uuid_fresh);
	make_bool(&machine->mig_gi_swapped);
	make_bool(&machine->asymmetric_links);
	make_bool(&machine->rdma_exclusive);
	make_bool(&machine->acs_redirects);
	make_bool(&machine->iommu_translates);

	for (uint32_t i = 0; i < SIM_NIC_MAX; i++)
		check_nic(&machine->nic[i]);

	if (machine->driver_state > SIM_DRIVER_MISMATCH || machine->clock > SIM_CLOCK_VIRTUAL ||
	    machine->visibility > SIM_VISIBLE_DEVNODES || machine->dev_style > SIM_DEV_FILE ||
	    machine->tick > tick_max || machine->switch_count > 32 ||
	    machine->nic_count > SIM_NIC_MAX || machine->nic_ports > SIM_NIC_PORT_MAX ||
	    machine->nic_ethernet > SIM_NIC_MAX || machine->numa_count > 64 ||
	    machine->cpus_per_node > 1024 || machine->model_count > SIM_MODEL_MAX ||
	    machine->gpu_count > SIM_GPU_MAX)
		return false;

	for (uint32_t i = 0; i < machine->model_count; i++) {
		if (!is_model(&machine->model[i]))
			return false;
	}

	for (uint32_t i = 0; i < machine->gpu_count; i++) {
		if (!is_gpu(machine, &machine->gpu[i]))
			return false;
	}

	return are_faults(machine);
}

uint64_t sim_state_layout(void)
{
	const uint64_t parts[] = {
	    sizeof(struct sim_machine),
	    sizeof(struct sim_gpu),
	    sizeof(struct sim_process),
	    sizeof(struct sim_model),
	    sizeof(struct sim_gi),
	    sizeof(struct sim_link),
	    sizeof(struct sim_event),
	    sizeof(struct sim_rule),
	    offsetof(struct sim_machine, gpu),
	    offsetof(struct sim_machine, tick),
	    offsetof(struct sim_gpu, health),
	    offsetof(struct sim_gpu, energy_uj),
	    offsetof(struct sim_gpu, process),
	    offsetof(struct sim_process, shape),
	    offsetof(struct sim_model, has_ecc),
	    sizeof(struct sim_header),
	    sizeof(pthread_mutex_t),
	};
	uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		hash = (hash ^ parts[i]) * UINT64_C(0x100000001b3);

	return hash;
}
