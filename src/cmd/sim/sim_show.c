/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice sim show`: the complete truth about the machine, with the same functions for readings as
 * the simulated library. Tests compare what programs see with it; its keys are stable.
 */
#include "cmd/sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "cmd/table.h"
#include "sim/physics.h"

enum { INSTANCE_ID_END = 15 }; /* GPU instances have ids below it */

struct show_options {
	struct sim_where where;
	uint32_t output;
	const char *gpu;
};

static const struct option_row rows[] = {
    {.name = "gpu",
     .kind = OPTION_TEXT,
     .value = "N|UUID",
     .help = "only this GPU",
     OPTION_FIELD(struct show_options, gpu)},
    OPTION_OUTPUT(struct show_options, output),
    SIM_WHERE_ROWS(struct show_options),
    {0},
};

static const char *health_word(uint32_t health)
{
	static const char *const words[] = {
	    [SIM_GPU_OK] = "ok",
	    [SIM_GPU_LOST] = "lost",
	    [SIM_GPU_RESET_REQUIRED] = "reset-required",
	    [SIM_GPU_UNPLUGGED] = "unplugged",
	};
	return names_at(words, health, "?");
}

const char *sim_driver_word(uint32_t state)
{
	static const char *const words[] = {
	    [SIM_DRIVER_OK] = "ok",
	    [SIM_DRIVER_NONE] = "no-driver",
	    [SIM_DRIVER_NO_PERMISSION] = "no-permission",
	    [SIM_DRIVER_MISMATCH] = "version-mismatch",
	};
	return names_at(words, state, "?");
}

static const char *type_word(uint8_t type)
{
	static const char *const words[] = {
	    [SIM_PROCESS_GRAPHICS] = "graphics", [SIM_PROCESS_MPS] = "mps"};
	return names_at(words, type, "compute");
}

static json_t *number(uint64_t value)
{
	return json_integer((json_int_t)value);
}

/* SIM_WHOLE_GPU is null: no instance. */
static json_t *instance_number(uint32_t id)
{
	return id == SIM_WHOLE_GPU ? json_null() : json_integer(id);
}

static json_t *show_processes(const struct sim_machine *machine, const struct sim_gpu *gpu)
{
	uint64_t context = (uint64_t)sim_model_of(machine, gpu)->context_bytes_mib << 20;
	json_t *list = json_array();

	for (uint32_t i = 0; i < SIM_PROCESS_MAX; i++) {
		const struct sim_process *process = &gpu->process[i];
		if (process->pid == 0)
			continue;

		(void)json_array_append_new(
		    list, json_pack("{s:o, s:o, s:o, s:o, s:s, s:o, s:o}", "pid",
				    number(process->pid), "host_pid", number(process->host_pid),
				    "gi", instance_number(process->gi), "ci",
				    instance_number(process->ci), "type", type_word(process->type),
				    "util_percent", number((process->share_permille + 5) / 10),
				    "memory_bytes", number(process->memory_bytes + context)));
	}

	return list;
}

/* The part of its own SMs that an instance uses in this tick, in millionths. */
static uint64_t instance_sm_ppm(const struct sim_machine *machine, uint32_t index,
				const struct sim_gi *gi)
{
	const struct sim_gpu *gpu = &machine->gpu[index];
	const struct sim_model *model = sim_model_of(machine, gpu);
	uint64_t permille = 0;

	for (uint32_t i = 0; i < SIM_PROCESS_MAX; i++) {
		if (gpu->process[i].pid != 0 && gpu->process[i].gi == gi->id)
			permille += gpu->process[i].share_permille;
	}

	uint32_t own = model->mig_profile[gi->profile].sm_count;
	return own ? permille * 1000 * model->sm_count / own : 0;
}

/* Of the whole GPU instance. */
static json_t *show_attributes(const struct sim_mig_profile *profile)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "sm", number(profile->sm_count),
			 "copy", number(profile->copy_engines), "decoders",
			 number(profile->decoders), "encoders", number(profile->encoders), "jpegs",
			 number(profile->jpegs), "ofas", number(profile->ofas), "gi_slices",
			 number(profile->slices));
}

/* The compute instances of one GPU instance, appended to `list`. */
static void show_compute_instances(json_t *list, const struct sim_machine *machine, uint32_t index,
				   const struct sim_gi *gi)
{
	const struct sim_model *model = sim_model_of(machine, &machine->gpu[index]);

	for (uint32_t c = 0; c < SIM_CI_MAX; c++) {
		const struct sim_ci *ci = &gi->ci[c];
		if (!ci->used)
			continue;

		const struct sim_mig_profile *profile = &model->mig_profile[gi->profile];
		(void)json_array_append_new(
		    list, json_pack("{s:o, s:o, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "gi",
				    number(gi->id), "ci", number(ci->id), "uuid", ci->uuid,
				    "profile", profile->name, "start", number(gi->start), "slices",
				    number(ci->slices), "memory_mib", number(profile->memory_mib),
				    "memory_used",
				    number(sim_physics_memory_used(machine, index, gi->id)),
				    "sm_ppm", number(instance_sm_ppm(machine, index, gi)),
				    "attributes", show_attributes(profile)));
	}
}

/* In the order of their ids, as a driver numbers MIG devices. */
static json_t *show_instances(const struct sim_machine *machine, uint32_t index)
{
	const struct sim_gpu *gpu = &machine->gpu[index];
	json_t *list = json_array();

	for (uint32_t shown = 0, id = 0; shown < SIM_GI_MAX && id < INSTANCE_ID_END; id++) {
		for (uint32_t g = 0; g < SIM_GI_MAX; g++) {
			if (gpu->gi[g].used && gpu->gi[g].id == id) {
				show_compute_instances(list, machine, index, &gpu->gi[g]);
				shown++;
			}
		}
	}

	return list;
}

static const char *const link_errors[SIM_LINK_ERROR_COUNT] = {"ecc",
							      "malformed",
							      "buffer_overrun",
							      "rcv",
							      "rcv_remote",
							      "rcv_general",
							      "link_integrity",
							      "xmit_discard",
							      "recovery_failed",
							      "effective",
							      "symbol"};

static json_t *show_links(const struct sim_machine *machine, const struct sim_gpu *gpu)
{
	const struct sim_model *model = sim_model_of(machine, gpu);
	json_t *list = json_array();

	for (uint32_t l = 0; l < model->link_count && l < SIM_LINK_MAX; l++) {
		const struct sim_link *link = &gpu->link[l];
		char peer[32] = "none";

		if (link->peer_kind == SIM_LINK_GPU)
			(void)snprintf(peer, sizeof(peer), "gpu%u", link->peer_gpu);
		else if (link->peer_kind == SIM_LINK_SWITCH)
			(void)snprintf(peer, sizeof(peer), "%08X:%02X:%02X.0", 0U, link->switch_bus,
				       link->switch_device);

		json_t *more = json_object();
		for (uint32_t e = 0; e < SIM_LINK_ERROR_COUNT; e++)
			(void)json_object_set_new(more, link_errors[e], number(link->more[e]));

		(void)json_array_append_new(
		    list,
		    json_pack("{s:o, s:s, s:b, s:o, s:o, s:o, s:o, s:o}", "link", number(l), "peer",
			      peer, "up", link->peer_kind != SIM_LINK_NONE && !link->down,
			      "crc_flit", number(link->crc_flit), "crc_data",
			      number(link->crc_data), "replay", number(link->replay), "recovery",
			      number(link->recovery), "more", more));
	}

	return list;
}

/* For how long each reason held the clocks down; in the words of the metrics. */
static json_t *show_throttle(const struct sim_gpu *gpu)
{
	return json_pack(
	    "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "power",
	    number(gpu->power_violation_ns), "thermal", number(gpu->thermal_violation_ns),
	    "sync_boost", number(gpu->hold_ns[SIM_HOLD_SYNC_BOOST]), "board",
	    number(gpu->hold_ns[SIM_HOLD_BOARD]), "low_util",
	    number(gpu->hold_ns[SIM_HOLD_LOW_UTIL]), "reliability",
	    number(gpu->hold_ns[SIM_HOLD_RELIABILITY]), "sw_thermal", number(gpu->sw_thermal_ns),
	    "hw_thermal", number(gpu->hw_thermal_ns), "hw_power_brake", number(gpu->brake_ns));
}

static json_t *show_pcie_errors(const struct sim_gpu *gpu)
{
	static const char *const names[] = {"correctable", "naks_received", "receiver",
					    "bad_tlp",	   "naks_sent",	    "bad_dllp",
					    "nonfatal",	   "fatal",	    "unsupported_request",
					    "lcrc",	   "lane",	    "l0_to_recovery"};
	json_t *object = json_object();
	for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		(void)json_object_set_new(object, names[i], number(gpu->pcie_errors[i]));

	return object;
}

/* What only grows, beside what stands elsewhere. */
static void set_counters(json_t *json, const struct sim_gpu *gpu)
{
	const uint64_t ns = SIM_TICK_NS / 1000; /* of a permille tick */
	(void)json_object_set_new(json, "busy_ns", number(gpu->gpm_busy_permille_ticks * ns));
	(void)json_object_set_new(json, "activity",
				  json_pack("{s:o, s:o, s:o}", "sm_ppm",
					    number(gpu->util_permille * 1000ULL), "tensor_ppm",
					    number(gpu->tensor_permille * 1000ULL), "dram_ppm",
					    number(gpu->membw_permille * 1000ULL)));
	(void)json_object_set_new(json, "throttle_ns", show_throttle(gpu));
	(void)json_object_set_new(json, "pcie_errors", show_pcie_errors(gpu));
	(void)json_object_set_new(json, "nvlink_bytes",
				  json_pack("{s:o, s:o}", "tx", number(gpu->nvlink_tx_bytes), "rx",
					    number(gpu->nvlink_rx_bytes)));
}

static void set_errors(json_t *json, const struct sim_gpu *gpu)
{
	(void)json_object_set_new(
	    json, "ecc",
	    json_pack("{s:b, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:b, s:o, s:o, s:b}",
		      "current", gpu->ecc_current, "pending", gpu->ecc_pending,
		      "corrected_volatile", number(gpu->ecc.corrected_volatile),
		      "uncorrected_volatile", number(gpu->ecc.uncorrected_volatile),
		      "corrected_aggregate", number(gpu->ecc.corrected_aggregate),
		      "uncorrected_aggregate", number(gpu->ecc.uncorrected_aggregate),
		      "remapped_correctable", number(gpu->remap_correctable),
		      "remapped_uncorrectable", number(gpu->remap_uncorrectable), "remap_pending",
		      gpu->remap_pending, "remap_failure", gpu->remap_failure, "retired_sbe",
		      number(gpu->retired_sbe), "retired_dbe", number(gpu->retired_dbe),
		      "retired_pending", gpu->retired_pending));
	(void)json_object_set_new(json, "recovery_action", number(gpu->recovery_action));
	(void)json_object_set_new(json, "last_xid", number(gpu->last_xid));
	(void)json_object_set_new(json, "throttle_reasons", number(gpu->throttle_reasons));
	(void)json_object_set_new(json, "health", json_string(health_word(gpu->health)));
}

static void set_readings(json_t *json, const struct sim_machine *machine, uint32_t index)
{
	const struct sim_gpu *gpu = &machine->gpu[index];
	const struct sim_model *model = sim_model_of(machine, gpu);
	uint64_t used = sim_physics_memory_used(machine, index, SIM_WHOLE_GPU);

	(void)json_object_set_new(
	    json, "memory",
	    json_pack("{s:o, s:o, s:o, s:o}", "total", number(model->memory_bytes), "used",
		      number(used), "free",
		      number(model->memory_bytes - model->reserved_bytes - used), "reserved",
		      number(model->reserved_bytes)));
	(void)json_object_set_new(json, "utilization",
				  json_pack("{s:o, s:o, s:o, s:o}", "gpu",
					    number(sim_physics_util_percent(machine, index)),
					    "memory", number((gpu->membw_permille + 5) / 10),
					    "encoder", number((gpu->enc_permille + 5) / 10),
					    "decoder", number((gpu->dec_permille + 5) / 10)));
	(void)json_object_set_new(json, "temperature_c",
				  json_integer(sim_physics_temperature_c(machine, index)));
	(void)json_object_set_new(
	    json, "temperature_memory_c",
	    model->has_hbm ? json_integer(sim_physics_memory_temperature_c(machine, index))
			   : json_null());
	(void)json_object_set_new(json, "power_mw", number(sim_physics_power_mw(machine, index)));
	(void)json_object_set_new(json, "power_limit_mw", number(gpu->power_limit_mw));
	(void)json_object_set_new(json, "energy_mj", number(gpu->energy_uj / 1000));
	(void)json_object_set_new(json, "clocks",
				  json_pack("{s:o, s:o, s:o}", "sm", number(gpu->sm_mhz), "mem",
					    number(gpu->mem_mhz), "video",
					    number((uint64_t)model->video_max_mhz * gpu->sm_mhz /
						   (model->sm_max_mhz ? model->sm_max_mhz : 1))));
	(void)json_object_set_new(json, "clocks_max",
				  json_pack("{s:o, s:o, s:o}", "sm", number(model->sm_max_mhz),
					    "mem", number(model->mem_max_mhz), "video",
					    number(model->video_max_mhz)));
	(void)json_object_set_new(json, "pstate", number(gpu->pstate));
	(void)json_object_set_new(json, "compute_mode", number(gpu->compute_mode));
	(void)json_object_set_new(json, "persistence", json_boolean(gpu->persistence));
	(void)json_object_set_new(json, "fan_percent",
				  model->fan_count ? number(gpu->fan_permille / 10) : json_null());
	(void)json_object_set_new(
	    json, "pcie",
	    json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "gen", number(gpu->pcie_gen), "width",
		      number(gpu->pcie_width), "gen_max", number(model->pcie_gen_max), "width_max",
		      number(model->pcie_width_max), "replays", number(gpu->pcie_replays),
		      "tx_bytes", number(gpu->pcie_tx_bytes), "rx_bytes",
		      number(gpu->pcie_rx_bytes)));
}

/* What never changes while the machine runs. */
static json_t *show_model(const struct sim_model *model)
{
	char capability[24];
	(void)snprintf(capability, sizeof(capability), "%u.%u", model->cc_major, model->cc_minor);
	return json_pack("{s:o, s:o, s:s, s:o, s:o, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
			 "s:o, s:o, s:o, s:b, s:b}",
			 "brand", number(model->brand), "architecture", number(model->architecture),
			 "compute_capability", capability, "pci_device_id",
			 number(model->pci_device_id), "pci_subsystem_id",
			 number(model->pci_subsystem_id), "vbios", model->vbios, "part_number",
			 model->part_number, "cores", number(model->core_count), "sm",
			 number(model->sm_count), "fans", number(model->fan_count), "power_min_mw",
			 number(model->power_min_mw), "power_max_mw", number(model->power_max_mw),
			 "power_default_mw", number(model->power_default_mw), "slowdown_c",
			 number(model->slowdown_c), "shutdown_c", number(model->shutdown_c),
			 "gpu_max_c", number(model->gpu_max_c), "mem_max_c",
			 number(model->mem_max_c), "ecc", model->has_ecc, "mig", model->has_mig);
}

static json_t *show_gpu(const struct sim_machine *machine, uint32_t index)
{
	const struct sim_gpu *gpu = &machine->gpu[index];
	char bus[32];

	(void)snprintf(bus, sizeof(bus), "%08X:%02X:%02X.0", gpu->pci_domain, gpu->pci_bus,
		       gpu->pci_device);
	json_t *json = json_pack("{s:o, s:s, s:o, s:s, s:s, s:s, s:i}", "index", number(index),
				 "uuid", gpu->uuid, "minor", number(gpu->minor), "name",
				 sim_model_of(machine, gpu)->name, "serial", gpu->serial,
				 "pci_bus_id", bus, "numa_node", gpu->numa_node);
	(void)json_object_set_new(json, "model", show_model(sim_model_of(machine, gpu)));
	set_readings(json, machine, index);
	set_errors(json, gpu);
	set_counters(json, gpu);
	(void)json_object_set_new(json, "mig",
				  json_pack("{s:b, s:b, s:o}", "current", gpu->mig_current,
					    "pending", gpu->mig_pending, "instances",
					    show_instances(machine, index)));
	(void)json_object_set_new(json, "nvlink", show_links(machine, gpu));
	(void)json_object_set_new(json, "processes", show_processes(machine, gpu));

	return json;
}

static json_t *show_rules(const struct sim_machine *machine)
{
	static const char *const kind[] = {"none", "return", "slow", "hang"};
	json_t *list = json_array();

	for (uint32_t i = 0; i < SIM_RULE_MAX; i++) {
		const struct sim_rule *rule = &machine->rule[i];
		if (rule->kind == SIM_RULE_NONE || rule->kind > SIM_RULE_HANG)
			continue;

		(void)json_array_append_new(
		    list, json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "kind", kind[rule->kind],
				    "function", rule->function, "gpu", instance_number(rule->gpu),
				    "result", number(rule->result), "ms", number(rule->delay_ms),
				    "after", number(rule->after), "count", number(rule->count)));
	}

	return list;
}

static json_t *show_json(const struct sim_machine *machine, uint32_t only)
{
	json_t *levels = json_array(), *gpus = json_array();

	for (uint32_t i = 0; i < machine->gpu_count; i++) {
		json_t *row = json_array();
		for (uint32_t j = 0; j < machine->gpu_count; j++)
			(void)json_array_append_new(row, number(machine->level[i][j]));

		(void)json_array_append_new(levels, row);
		if (only == SIM_WHOLE_GPU || only == i)
			(void)json_array_append_new(gpus, show_gpu(machine, i));
	}

	json_t *json = json_pack(
	    "{s:b, s:s, s:s, s:s, s:s, s:o, s:s, s:o, s:s, s:o, s:o, s:s, s:o}", "simulated", 1,
	    "profile", machine->profile, "product", machine->product, "driver_version",
	    machine->driver_version, "kernel_driver_version",
	    machine->kernel_driver_version[0] ? machine->kernel_driver_version
					      : machine->driver_version,
	    "cuda_version", number(machine->cuda_version), "driver",
	    sim_driver_word(machine->driver_state), "driver_loads", number(machine->driver_loads),
	    "clock", machine->clock == SIM_CLOCK_VIRTUAL ? "virtual" : "real", "seed",
	    number(machine->seed), "tick", number(machine->tick), "root", machine->root, "levels",
	    levels);
	return json_pack("{s:o, s:o, s:o}", "machine", json, "gpus", gpus, "rules",
			 show_rules(machine));
}

static int show_table(const struct sim_machine *machine, uint32_t only)
{
	static const struct table_column columns[] = {
	    {"GPU", TABLE_RIGHT, false},       {"NAME", TABLE_LEFT, true},
	    {"BUS", TABLE_LEFT, false},	       {"UTIL", TABLE_RIGHT, false},
	    {"MEMORY", TABLE_RIGHT, false},    {"TEMP", TABLE_RIGHT, false},
	    {"POWER", TABLE_RIGHT, false},     {"MIG", TABLE_LEFT, false},
	    {"PROCESSES", TABLE_RIGHT, false}, {"HEALTH", TABLE_LEFT, false},
	};
	_cleanup_table_ struct table *table =
	    table_new(columns, sizeof(columns) / sizeof(*columns));
	if (!table)
		return SIM_EXIT_FAILED;

	printf("simulated machine %s, driver %s, CUDA %u.%u, simulated time %llu.%llu s\n",
	       machine->profile, machine->driver_version, machine->cuda_version / 1000,
	       machine->cuda_version % 1000 / 10,
	       (unsigned long long)machine->tick / SIM_TICKS_PER_SECOND,
	       (unsigned long long)machine->tick % SIM_TICKS_PER_SECOND);

	for (uint32_t i = 0; i < machine->gpu_count; i++) {
		const struct sim_gpu *gpu = &machine->gpu[i];
		const struct sim_model *model = sim_model_of(machine, gpu);
		uint32_t processes = 0, instances = 0;

		if (only != SIM_WHOLE_GPU && only != i)
			continue;

		for (uint32_t p = 0; p < SIM_PROCESS_MAX; p++)
			processes += gpu->process[p].pid != 0;

		for (uint32_t g = 0; g < SIM_GI_MAX; g++)
			instances += gpu->gi[g].used;

		table_addf(table, "%u", i);
		table_addf(table, "%s (simulated)", model->name);
		table_addf(table, "%08X:%02X:%02X.0", gpu->pci_domain, gpu->pci_bus,
			   gpu->pci_device);
		table_addf(table, "%u%%", sim_physics_util_percent(machine, i));
		table_addf(table, "%llu/%llu MiB",
			   (unsigned long long)sim_physics_memory_used(machine, i, SIM_WHOLE_GPU) >>
			       20,
			   (unsigned long long)model->memory_bytes >> 20);
		table_addf(table, "%d C", sim_physics_temperature_c(machine, i));
		table_addf(table, "%u W", (sim_physics_power_mw(machine, i) + 500) / 1000);

		if (gpu->mig_current)
			table_addf(table, "%u", instances);
		else
			table_add(table, "");

		table_addf(table, "%u", processes);
		table_add(table, health_word(gpu->health));
	}

	return table_print(table, stdout, table_width(stdout), NULL) == 0 ? SIM_EXIT_OK
									  : SIM_EXIT_FAILED;
}

static int show_run(const struct cmd_call *call)
{
	const struct show_options *options = call->options;
	struct sim_error error = {0};
	struct sim_target target = {.gpu = SIM_WHOLE_GPU};
	_cleanup_sim_state_ struct sim_state *state = sim_open(&options->where, false, &error);
	if (!state)
		return sim_exit_with(call, &error);

	_cleanup_free_ struct sim_machine *machine = sim_snapshot(state);
	if (!machine)
		return sim_exit_with(call, &(struct sim_error){.text = "out of memory"});
	if (options->gpu &&
	    sim_target_parse(machine, options->gpu, NULL, true, &target, &error) != 0)
		return sim_exit_with(call, &error);
	if (options->output != OPTION_OUTPUT_JSON)
		return show_table(machine, target.gpu);

	json_t *json = show_json(machine, target.gpu);
	int rc = table_print_json(json, stdout, NULL);

	json_decref(json);
	return rc == 0 ? SIM_EXIT_OK : SIM_EXIT_FAILED;
}

static const struct cmd_exit_row exits[] = {SIM_EXIT_ROWS, {0, NULL}};

static const struct cmd_example examples[] = {
    {"sluice sim show", "one line for each GPU"},
    {"sluice sim show --output json", "everything, for comparing with what a program reads"},
    {NULL, NULL},
};

const struct command cmd_sim_show = {
    .name = "show",
    .summary = "Print the simulated machine as it is now",
    .description = "The truth from which the simulated library answers. Tests compare what "
		   "programs see with the JSON form.",
    .group = CMD_GROUP_SIMULATOR,
    .run = show_run,
    .options = rows,
    .options_size = sizeof(struct show_options),
    .exits = exits,
    .examples = examples,
};
