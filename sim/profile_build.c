/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/profile.h"

#include <stdio.h>
#include <string.h>

#include "sim/error.h"
#include "sim/mig.h"
#include "sim/physics.h"
#include "sim/profile_parse.h"

#define DEFAULT_DRIVER "580.105.08"

enum {
	DEFAULT_AMBIENT_C = 25,
	DEFAULT_THERMAL_TAU_MS = 20000,
	DEFAULT_POWER_TAU_MS = 300,
	DEFAULT_CONTEXT_MIB = 300,
	FIRST_IRQ = 100,
	NUMA_NODES_MAX = 64,
};

/* What cannot be left out of a [model]. */
static int model_required(struct profile_parser *parser, uint32_t index)
{
	const struct sim_model *model = &parser->machine->model[index];
	const struct {
		const char *key;
		uint64_t value;
	} needed[] = {
	    {"name", (uint64_t)model->name[0]},
	    {"architecture", model->architecture},
	    {"compute_capability", model->cc_major},
	    {"pci_device_id", model->pci_device_id},
	    {"memory_mib", model->memory_bytes},
	    {"bar1_mib", model->bar1_bytes},
	    {"memory_bus_bits", model->memory_bus_bits},
	    {"cores", model->core_count},
	    {"sms", model->sm_count},
	    {"pcie_gen", model->pcie_gen_max},
	    {"pcie_width", model->pcie_width_max},
	    {"power_idle_w", model->power_idle_mw},
	    {"power_min_w", model->power_min_mw},
	    {"power_max_w", model->power_max_mw},
	    {"gpu_max_c", model->gpu_max_c},
	    {"slowdown_c", model->slowdown_c},
	    {"shutdown_c", model->shutdown_c},
	    {"sm_idle_mhz", model->sm_idle_mhz},
	    {"sm_max_mhz", model->sm_max_mhz},
	    {"mem_max_mhz", model->mem_max_mhz},
	};

	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		if (needed[i].value == 0)
			return profile_fail(parser, parser->draft.model_at[index],
					    "model '%s' lacks the key '%s'",
					    parser->draft.model_key[index], needed[i].key);
	}

	return 0;
}

static void default_u32(uint32_t *value, uint32_t otherwise)
{
	if (*value == 0)
		*value = otherwise;
}

static void model_defaults(struct sim_model *model)
{
	default_u32(&model->power_default_mw, model->power_max_mw);
	default_u32(&model->power_load_mw, model->power_max_mw);
	default_u32(&model->ambient_c, DEFAULT_AMBIENT_C);
	default_u32(&model->thermal_tau_ms, DEFAULT_THERMAL_TAU_MS);
	default_u32(&model->power_tau_ms, DEFAULT_POWER_TAU_MS);
	default_u32(&model->context_bytes_mib, DEFAULT_CONTEXT_MIB);
	default_u32(&model->mem_idle_mhz, model->mem_max_mhz);
	default_u32(&model->video_max_mhz, model->sm_max_mhz * 9 / 10);
	default_u32(&model->mem_max_c, model->slowdown_c + 5);
	default_u32(&model->pci_subsystem_id, model->pci_device_id);

	if (!model->vbios[0])
		(void)snprintf(model->vbios, sizeof(model->vbios), "00.00.00.00.00");
	if (!model->part_number[0])
		(void)snprintf(model->part_number, sizeof(model->part_number),
			       "900-00000-0000-000");
}

static int model_check(struct profile_parser *parser, uint32_t index)
{
	struct sim_model *model = &parser->machine->model[index];
	const char *at = parser->draft.model_at[index];

	if (!at)
		return profile_fail(parser, parser->draft.mig_at[index],
				    "there is no section [model %s]",
				    parser->draft.model_key[index]);

	if (model_required(parser, index) < 0)
		return -1;

	model_defaults(model);
	if (model->power_min_mw > model->power_max_mw)
		return profile_fail(parser, at, "power_min_w is above power_max_w");
	if (model->power_default_mw < model->power_min_mw ||
	    model->power_default_mw > model->power_max_mw)
		return profile_fail(parser, at,
				    "power_default_w is not between power_min_w and power_max_w");

	if (model->power_idle_mw >= model->power_load_mw)
		return profile_fail(parser, at, "power_idle_w is not below power_load_w");
	if (model->gpu_max_c > model->slowdown_c || model->slowdown_c >= model->shutdown_c)
		return profile_fail(parser, at, "must be gpu_max_c <= slowdown_c < shutdown_c");
	if (model->sm_idle_mhz > model->sm_max_mhz || model->mem_idle_mhz > model->mem_max_mhz)
		return profile_fail(parser, at, "an idle clock is above the maximum");
	if (model->reserved_bytes >= model->memory_bytes)
		return profile_fail(parser, at, "reserved_mib is not below memory_mib");

	if (model->mig_profile_count > 0 && !model->has_mig)
		return profile_fail(parser, parser->draft.mig_at[index],
				    "model '%s' has no MIG (mig = yes is missing there)",
				    parser->draft.model_key[index]);

	if (model->has_mig && model->mig_profile_count == 0)
		return profile_fail(parser, at, "mig = yes needs a section [mig %s]",
				    parser->draft.model_key[index]);

	return 0;
}

static int gpu_model(struct profile_parser *parser, uint32_t gpu)
{
	const struct profile_draft *draft = &parser->draft;
	struct profile_slice name =
	    draft->gpu_model[gpu].length ? draft->gpu_model[gpu] : draft->model_default;

	if (name.length == 0 && parser->machine->model_count == 1) {
		parser->machine->gpu[gpu].model = 0;
		return 0;
	}

	if (name.length == 0)
		return profile_fail(parser, draft->bus_at,
				    "GPU %u has no model: [machine] needs model = NAME", gpu);

	for (uint32_t i = 0; i < parser->machine->model_count; i++) {
		if (profile_is(name, draft->model_key[i])) {
			parser->machine->gpu[gpu].model = i;
			return 0;
		}
	}

	return profile_fail(parser, name.at, "there is no section [model %.*s]",
			    (int)(name.length > 64 ? 64 : name.length), name.at);
}

static int gpus_check(struct profile_parser *parser)
{
	struct profile_draft *draft = &parser->draft;
	struct sim_machine *machine = parser->machine;

	for (uint32_t i = 0; i < SIM_GPU_MAX; i++) {
		const char *at = draft->gpu_at[i] ? draft->gpu_at[i] : draft->link_at[i];

		if (i >= draft->bus_count && at)
			return profile_fail(parser, at, "there is no GPU %u: bus lists %u", i,
					    draft->bus_count);

		for (uint32_t k = 0; k < draft->link_count[i]; k++) {
			if (draft->link_gpu[i][k] >= draft->bus_count)
				return profile_fail(parser, at,
						    "link %u leads to GPU %u, which "
						    "is not there",
						    k, draft->link_gpu[i][k]);
		}
	}

	if (draft->numa_count != 0 && draft->numa_count != draft->bus_count)
		return profile_fail(parser, draft->numa_at, "numa names %u GPUs, bus %u",
				    draft->numa_count, draft->bus_count);

	for (uint32_t i = 0; i < draft->bus_count; i++) {
		struct sim_gpu *gpu = &machine->gpu[i];

		if (gpu_model(parser, i) < 0)
			return -1;
		if (draft->numa_count == 0 && !draft->gpu_at[i])
			gpu->numa_node = -1;
		if (gpu->numa_node >= (int32_t)machine->numa_count)
			return profile_fail(parser, draft->numa_at ? draft->numa_at : draft->bus_at,
					    "GPU %u is on NUMA node %d, but numa_nodes is %u", i,
					    gpu->numa_node, machine->numa_count);
	}

	return 0;
}

static int duplicates_check(struct profile_parser *parser)
{
	const struct profile_draft *draft = &parser->draft;
	const struct sim_machine *machine = parser->machine;

	for (uint32_t i = 0; i < draft->bus_count; i++) {
		const struct sim_gpu *a = &machine->gpu[i];
		const char *at = draft->gpu_at[i] ? draft->gpu_at[i] : draft->bus_at;

		for (uint32_t k = 0; k < i; k++) {
			const struct sim_gpu *b = &machine->gpu[k];

			if (a->pci_domain == b->pci_domain && a->pci_bus == b->pci_bus &&
			    a->pci_device == b->pci_device)
				return profile_fail(parser, at,
						    "GPUs %u and %u have the same bus "
						    "id %04x:%02x:%02x.0",
						    k, i, a->pci_domain, a->pci_bus, a->pci_device);

			if (strcmp(a->uuid, b->uuid) == 0)
				return profile_fail(parser, at,
						    "GPUs %u and %u have the same UUID "
						    "%s",
						    k, i, a->uuid);
		}
	}

	return 0;
}

static int build_levels(struct profile_parser *parser)
{
	const struct profile_draft *draft = &parser->draft;
	uint32_t count = draft->bus_count, half = count > 1 ? count / 2 : 1;

	if (count > 1 && draft->level_else == 0 && !(draft->level_half && count == 2) &&
	    !(draft->level_pair && count == 2))
		return profile_fail(parser, draft->levels_at ? draft->levels_at : draft->bus_at,
				    "levels needs 'else', as in: levels = pair 20, else 50");

	for (uint32_t a = 0; a < count; a++) {
		for (uint32_t b = 0; b < count; b++) {
			uint32_t level = draft->level_else;

			if (draft->level_half && a / half == b / half)
				level = draft->level_half;
			if (draft->level_quad && a / 4 == b / 4)
				level = draft->level_quad;
			if (draft->level_pair && a / 2 == b / 2)
				level = draft->level_pair;
			parser->machine->level[a][b] = a == b ? 0 : (uint8_t)level;
		}
	}

	return 0;
}

/* The number, at the other end, of the link that is `link` here: among parallel links between two
 * GPUs the n-th here is the n-th there. SIM_LINK_MAX when there is none. */
static uint32_t other_end(const struct profile_draft *draft, uint32_t gpu, uint32_t link)
{
	uint32_t peer = draft->link_gpu[gpu][link], nth = 0;

	for (uint32_t k = 0; k < link; k++)
		nth += draft->link_gpu[gpu][k] == peer;

	for (uint32_t k = 0; k < draft->link_count[peer]; k++) {
		if (draft->link_gpu[peer][k] == gpu && nth-- == 0)
			return k;
	}

	return SIM_LINK_MAX;
}

static int links_to_gpus(struct profile_parser *parser, uint32_t gpu)
{
	const struct profile_draft *draft = &parser->draft;
	struct sim_machine *machine = parser->machine;

	if (draft->link_count[gpu] > sim_model_of(machine, &machine->gpu[gpu])->link_count)
		return profile_fail(parser, draft->link_at[gpu],
				    "GPU %u has %u links, but its model nvlinks = %u", gpu,
				    draft->link_count[gpu],
				    sim_model_of(machine, &machine->gpu[gpu])->link_count);

	for (uint32_t k = 0; k < draft->link_count[gpu]; k++) {
		struct sim_link *link = &machine->gpu[gpu].link[k];
		uint32_t end = other_end(draft, gpu, k);

		if (end == SIM_LINK_MAX && !machine->asymmetric_links)
			return profile_fail(parser, draft->link_at[gpu],
					    "link %u of GPU %u leads to GPU %u, which does not "
					    "list it (asymmetric_links = yes allows that)",
					    k, gpu, draft->link_gpu[gpu][k]);

		link->peer_kind = SIM_LINK_GPU;
		link->peer_gpu = draft->link_gpu[gpu][k];
		link->peer_link = (uint8_t)(end == SIM_LINK_MAX ? 0 : end);
	}

	return 0;
}

/*
 * Links are spread evenly over the switches in blocks, as on DGX A100: link 0 and 1 to the first,
 * and so on. With more GPUs than 8 there are two boards, each with half of the switches.
 */
static void links_to_switches(struct profile_parser *parser, uint32_t gpu)
{
	struct sim_machine *machine = parser->machine;
	uint32_t boards = parser->draft.bus_count > 8 ? 2 : 1;
	uint32_t per_board = machine->switch_count / boards;
	uint32_t count = sim_model_of(machine, &machine->gpu[gpu])->link_count;

	for (uint32_t k = 0; k < count; k++) {
		struct sim_link *link = &machine->gpu[gpu].link[k];

		link->peer_kind = SIM_LINK_SWITCH;
		link->switch_bus = parser->draft.switch_bus + (gpu / 8 % boards) * per_board +
				   k * per_board / count;
		link->switch_device = 0;
	}
}

static int build_links(struct profile_parser *parser)
{
	const struct profile_draft *draft = &parser->draft;
	const struct sim_machine *machine = parser->machine;

	if (draft->links_to_switches) {
		uint32_t boards = draft->bus_count > 8 ? 2 : 1;

		if (machine->switch_count < boards || draft->switch_bus == 0 ||
		    draft->switch_bus + machine->switch_count > 256)
			return profile_fail(parser, draft->links_at,
					    "links = switches needs "
					    "switches and switch_bus");

		for (uint32_t i = 0; i < draft->bus_count; i++) {
			uint32_t bus = machine->gpu[i].pci_bus;

			if (machine->gpu[i].pci_domain == 0 && bus >= draft->switch_bus &&
			    bus < draft->switch_bus + machine->switch_count)
				return profile_fail(parser, draft->links_at,
						    "GPU %u and a switch are both on bus %02x", i,
						    bus);
		}
	}

	for (uint32_t i = 0; i < draft->bus_count; i++) {
		if (draft->links_to_switches && draft->link_at[i])
			return profile_fail(parser, draft->link_at[i],
					    "links = switches and a list of links exclude each "
					    "other");

		if (draft->links_to_switches)
			links_to_switches(parser, i);
		else if (links_to_gpus(parser, i) < 0)
			return -1;
	}

	return 0;
}

static void build_identity(struct profile_parser *parser, uint32_t index)
{
	struct sim_machine *machine = parser->machine;
	struct sim_gpu *gpu = &machine->gpu[index];
	uint64_t high = sim_hash(machine->seed, index, SIM_HASH_UUID, 0);
	uint64_t low = sim_hash(machine->seed, index, SIM_HASH_UUID, 1);

	gpu->minor = index;
	if (gpu->irq == 0)
		gpu->irq = FIRST_IRQ + index;

	if (!parser->draft.uuid_given[index])
		(void)snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%s-%04x-4%03x-%04x-%012llx",
			       SIM_UUID_PREFIX, (unsigned)(high & 0xffff),
			       (unsigned)(high >> 16 & 0xfff),
			       (unsigned)(high >> 32 & 0x3fff) | 0x8000,
			       (unsigned long long)(low & 0xffffffffffff));

	if (!parser->draft.serial_given[index])
		(void)snprintf(gpu->serial, sizeof(gpu->serial), "%013llu",
			       (unsigned long long)(high % 10000000000000));
}

static void build_start(struct sim_machine *machine, uint32_t index)
{
	struct sim_gpu *gpu = &machine->gpu[index];
	const struct sim_model *model = sim_model_of(machine, gpu);

	gpu->power_limit_mw = model->power_default_mw;
	gpu->ecc_current = gpu->ecc_pending = model->has_ecc;
	gpu->pcie_gen = model->pcie_gen_max;
	gpu->pcie_width = model->pcie_width_max;
	gpu->ambient_c = INT32_MIN;
	sim_physics_settle(machine, index);
}

/* "3,1,0,2": the minor number of each GPU in turn, a permutation. */
static int apply_minors(struct profile_parser *parser)
{
	const char *text = parser->options->minors;
	struct sim_machine *machine = parser->machine;
	struct profile_slice rest = {text, strlen(text)}, word;
	uint32_t count = 0, seen = 0;

	while ((word = profile_word(&rest, ",")).length > 0) {
		uint32_t minor = 0;

		for (size_t i = 0; i < word.length; i++) {
			if (word.at[i] < '0' || word.at[i] > '9' || minor > SIM_GPU_MAX)
				minor = SIM_GPU_MAX;
			else
				minor = minor * 10 + (uint32_t)(word.at[i] - '0');
		}

		if (count >= machine->gpu_count || minor >= machine->gpu_count ||
		    seen & 1U << minor)
			return sim_fail(parser->error, SIM_EXIT_INPUT,
					"minors '%s': must name each of 0 to %u once", text,
					machine->gpu_count - 1);

		seen |= 1U << minor;
		machine->gpu[count++].minor = minor;
	}

	if (count != machine->gpu_count)
		return sim_fail(parser->error, SIM_EXIT_INPUT, "minors '%s': names %u of %u GPUs",
				text, count, machine->gpu_count);

	return 0;
}

/* Newest CUDA that a driver branch supports (CUDA release notes, table of driver versions). */
static uint32_t cuda_of_driver(uint32_t branch)
{
	static const struct {
		uint32_t branch, cuda;
	} table[] = {
	    {590, 13010}, {580, 13000}, {575, 12090}, {570, 12080}, {565, 12070}, {560, 12060},
	    {555, 12050}, {550, 12040}, {545, 12030}, {535, 12020}, {530, 12010}, {525, 12000},
	    {520, 11080}, {515, 11070}, {510, 11060}, {495, 11050}, {470, 11040},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (branch >= table[i].branch)
			return table[i].cuda;
	}

	return 0;
}

/* "580.105.08": the branch; 0 when the text is not of that form or is older than 470. */
static uint32_t driver_branch(const char *version)
{
	uint32_t branch = 0, dots = 0;
	char before = '.';

	for (const char *p = version; *p; p++) {
		if (*p == '.') {
			if (before == '.' || ++dots > 2)
				return 0;
		} else if (*p < '0' || *p > '9') {
			return 0;
		} else if (dots == 0) {
			branch = branch * 10 + (uint32_t)(*p - '0');
			if (branch > 9999)
				return 0;
		}

		before = *p;
	}

	return dots == 0 || before == '.' || branch < 470 ? 0 : branch;
}

static int build_driver(struct profile_parser *parser)
{
	struct sim_machine *machine = parser->machine;
	const char *version = parser->options->driver_version;
	uint32_t branch;

	if (version) {
		machine->cuda_version = 0;
		if (snprintf(machine->driver_version, sizeof(machine->driver_version), "%s",
			     version) >= (int)sizeof(machine->driver_version))
			return sim_fail(parser->error, SIM_EXIT_INPUT,
					"driver version '%.40s...' is too long", version);
	} else if (!machine->driver_version[0]) {
		(void)snprintf(machine->driver_version, sizeof(machine->driver_version), "%s",
			       DEFAULT_DRIVER);
	}

	branch = driver_branch(machine->driver_version);
	if (branch == 0)
		return sim_fail(parser->error, SIM_EXIT_INPUT,
				"driver version '%s' is not one: 470 or newer, as in %s",
				machine->driver_version, DEFAULT_DRIVER);

	if (machine->cuda_version == 0)
		machine->cuda_version = cuda_of_driver(branch);
	memcpy(machine->kernel_driver_version, machine->driver_version,
	       sizeof(machine->driver_version));
	return 0;
}

/* Leaves the first `count` GPUs; links that led to the others are not connected. */
static void trim_gpus(struct sim_machine *machine, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		for (uint32_t k = 0; k < SIM_LINK_MAX; k++) {
			struct sim_link *link = &machine->gpu[i].link[k];

			if (link->peer_kind == SIM_LINK_GPU && link->peer_gpu >= count)
				*link = (struct sim_link){0};
		}
	}

	for (uint32_t i = count; i < SIM_GPU_MAX; i++)
		machine->gpu[i] = (struct sim_gpu){0};

	for (uint32_t a = 0; a < SIM_GPU_MAX; a++) {
		for (uint32_t b = 0; b < SIM_GPU_MAX; b++) {
			if (a >= count || b >= count)
				machine->level[a][b] = 0;
		}
	}

	machine->gpu_count = count;
}

static int build_options(struct profile_parser *parser)
{
	const struct sim_options *options = parser->options;
	struct sim_machine *machine = parser->machine;
	const char *layout = options->mig_layout;
	struct sim_error error = {0};

	if (options->gpu_count > machine->gpu_count)
		return sim_fail(parser->error, SIM_EXIT_INPUT, "profile %s has %u GPUs, not %u",
				machine->profile, machine->gpu_count, options->gpu_count);

	trim_gpus(machine, options->gpu_count ? options->gpu_count : machine->gpu_count);
	if (options->minors && apply_minors(parser) < 0)
		return -1;
	if (options->fabric)
		machine->fabric = true;
	if (layout)
		return sim_mig_layout(machine, layout, parser->error);

	if (parser->draft.mig_layout[0] &&
	    sim_mig_layout(machine, parser->draft.mig_layout, &error) < 0)
		return profile_fail(parser, parser->draft.mig_layout_at, "%.300s", error.text);

	return 0;
}

int profile_build(struct profile_parser *parser)
{
	struct profile_draft *draft = &parser->draft;
	struct sim_machine *machine = parser->machine;
	const char *end = parser->text + parser->length;

	machine->seed = parser->options->seed;
	machine->next_rule_id = 1;
	if (!machine->profile[0])
		return profile_fail(parser, end, "[machine] lacks the key 'name'");
	if (draft->bus_count == 0)
		return profile_fail(parser, end, "[machine] lacks the key 'bus'");

	if (machine->model_count == 0)
		return profile_fail(parser, end, "there is no section [model NAME]");
	if (!machine->product[0])
		(void)snprintf(machine->product, sizeof(machine->product), "%s", machine->profile);
	default_u32(&machine->numa_count, 1);
	default_u32(&machine->nic_ports, 1);
	default_u32(&machine->nic_rate_gbit, 100);
	default_u32(&machine->cpus_per_node, 8);

	for (uint32_t i = 0; i < machine->model_count; i++) {
		if (model_check(parser, i) < 0)
			return -1;
	}

	machine->gpu_count = draft->bus_count;
	if (gpus_check(parser) < 0)
		return -1;

	for (uint32_t i = 0; i < draft->bus_count; i++) {
		build_identity(parser, i);
		build_start(machine, i);
	}

	if (duplicates_check(parser) < 0 || build_levels(parser) < 0 || build_links(parser) < 0 ||
	    build_driver(parser) < 0)
		return -1;

	return build_options(parser);
}
