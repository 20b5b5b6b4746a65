/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/profile.h"

#include <stdlib.h>
#include <string.h>

#include "sim/error.h"
#include "sim/profile_parse.h"

enum { MEBIBYTE = 1 << 20, KEY_NAMES_MAX = 64 };

enum key_kind {
	KEY_TEXT,
	KEY_U32,
	KEY_HEX32,
	KEY_BOOL,
	KEY_MIB,   /* mebibytes in the file, bytes in the machine */
	KEY_WATTS, /* watts in the file, milliwatts in the machine */
	KEY_LIST,  /* a function of its own */
};

struct key {
	const char *name;
	enum key_kind kind;
	size_t offset, size;
	uint64_t min, max;
	int (*set)(struct profile_parser *parser, struct profile_slice value);
};

#define MACHINE(field) offsetof(struct sim_machine, field), sizeof(((struct sim_machine *)0)->field)
#define MODEL(field)   offsetof(struct sim_model, field), sizeof(((struct sim_model *)0)->field)
#define GPU(field)     offsetof(struct sim_gpu, field), sizeof(((struct sim_gpu *)0)->field)

static int take_text(const struct profile_parser *parser, struct profile_slice value, char *out,
		     size_t size)
{
	if (value.length >= size)
		return profile_fail(parser, value.at, "at most %zu characters fit here", size - 1);
	memcpy(out, value.at, value.length);
	memset(out + value.length, 0, size - value.length);
	return 0;
}

/* "07", "00:1b", "00:1b.0" or "0000:00:1b.0": domain, bus, device. */
static int take_bus(const struct profile_parser *parser, struct profile_slice word,
		    struct sim_gpu *gpu)
{
	struct profile_slice part[3], rest = word;
	uint64_t domain = 0, bus, device = 0;
	uint32_t parts = 0;

	if (rest.length > 2 && memcmp(rest.at + rest.length - 2, ".0", 2) == 0)
		rest.length -= 2;

	while (rest.length > 0) {
		if (parts == 3)
			return profile_fail(parser, rest.at,
					    "a bus id is BUS, BUS:DEVICE or "
					    "DOMAIN:BUS:DEVICE in hexadecimal");
		part[parts++] = profile_word(&rest, ":");
	}

	if (parts == 0)
		return profile_fail(parser, word.at, "a bus id is missing here");
	if (parts == 3 && profile_number(parser, part[0], 16, 0, 0xffff, &domain) < 0)
		return -1;
	if (profile_number(parser, part[parts == 3], 16, 0, 0xff, &bus) < 0)
		return -1;
	if (parts > 1 && profile_number(parser, part[parts - 1], 16, 0, 0x1f, &device) < 0)
		return -1;

	gpu->pci_domain = (uint32_t)domain;
	gpu->pci_bus = (uint32_t)bus;
	gpu->pci_device = (uint32_t)device;

	return 0;
}

static int take_numa(const struct profile_parser *parser, struct profile_slice word, int32_t *out)
{
	uint64_t node;

	if (profile_is(word, "-1")) {
		*out = -1;
		return 0;
	}

	if (profile_number(parser, word, 10, 0, 63, &node) < 0)
		return -1;

	*out = (int32_t)node;
	return 0;
}

static int set_name(struct profile_parser *parser, struct profile_slice value)
{
	parser->draft.name_at = value.at;
	return take_text(parser, value, parser->machine->profile, sizeof(parser->machine->profile));
}

static int set_bus_list(struct profile_parser *parser, struct profile_slice value)
{
	struct profile_draft *draft = &parser->draft;
	struct profile_slice word;

	draft->bus_at = value.at;
	while ((word = profile_word(&value, ",")).length > 0) {
		if (draft->bus_count == SIM_GPU_MAX)
			return profile_fail(parser, word.at, "a machine has at most %d GPUs",
					    SIM_GPU_MAX);
		if (take_bus(parser, word, &parser->machine->gpu[draft->bus_count]) < 0)
			return -1;

		draft->bus_count++;
	}

	return 0;
}

static int set_numa_list(struct profile_parser *parser, struct profile_slice value)
{
	struct profile_draft *draft = &parser->draft;
	struct profile_slice word;

	draft->numa_at = value.at;
	while ((word = profile_word(&value, ",")).length > 0) {
		if (draft->numa_count == SIM_GPU_MAX)
			return profile_fail(parser, word.at, "a machine has at most %d GPUs",
					    SIM_GPU_MAX);
		if (take_numa(parser, word, &parser->machine->gpu[draft->numa_count].numa_node) < 0)
			return -1;

		draft->numa_count++;
	}

	return 0;
}

static int set_model_default(struct profile_parser *parser, struct profile_slice value)
{
	parser->draft.model_default_at = value.at;
	parser->draft.model_default = value;
	return 0;
}

/* "pair 10, quad 20, half 40, else 50" */
static int set_levels(struct profile_parser *parser, struct profile_slice value)
{
	static const char *const names[] = {"pair", "quad", "half", "else"};
	struct profile_draft *draft = &parser->draft;
	uint32_t *const targets[] = {&draft->level_pair, &draft->level_quad, &draft->level_half,
				     &draft->level_else};

	struct profile_slice word;

	draft->levels_at = value.at;

	while ((word = profile_word(&value, ",")).length > 0) {
		struct profile_slice number = profile_word(&value, ",");
		uint64_t level;
		size_t i = 0;

		while (i < 4 && !profile_is(word, names[i]))
			i++;

		if (i == 4)
			return profile_fail(parser, word.at,
					    "'pair', 'quad', 'half' or 'else' is expected");
		if (*targets[i])
			return profile_fail(parser, word.at, "'%s' is there twice", names[i]);
		if (profile_number(parser, number, 10, 10, 50, &level) < 0)
			return -1;
		if (level % 10 != 0)
			return profile_fail(parser, number.at,
					    "a level is 10, 20, 30, 40 or 50, as NVML counts");

		*targets[i] = (uint32_t)level;
	}

	return 0;
}

static int set_links(struct profile_parser *parser, struct profile_slice value)
{
	parser->draft.links_at = value.at;
	if (profile_is(value, "switches")) {
		parser->draft.links_to_switches = true;
		return 0;
	}

	if (profile_is(value, "none"))
		return 0;

	return profile_fail(parser, value.at,
			    "'switches' or 'none' is expected (links between "
			    "GPUs are listed in a section [links])");
}

static int set_switch_bus(struct profile_parser *parser, struct profile_slice value)
{
	uint64_t bus;

	if (profile_number(parser, value, 16, 1, 0xff, &bus) < 0)
		return -1;
	parser->draft.switch_bus = (uint32_t)bus;
	return 0;
}

static int set_mig_layout(struct profile_parser *parser, struct profile_slice value)
{
	parser->draft.mig_layout_at = value.at;
	return take_text(parser, value, parser->draft.mig_layout, sizeof(parser->draft.mig_layout));
}

static const struct key machine_keys[] = {
    {"name", KEY_LIST, 0, 0, 0, 0, set_name},
    {"product", KEY_TEXT, MACHINE(product), 0, 0, NULL},
    {"driver", KEY_TEXT, MACHINE(driver_version), 0, 0, NULL},
    {"cuda", KEY_U32, MACHINE(cuda_version), 1000, 99999, NULL},
    {"open_kernel_module", KEY_BOOL, MACHINE(open_kernel_module), 0, 0, NULL},
    {"model", KEY_LIST, 0, 0, 0, 0, set_model_default},
    {"bus", KEY_LIST, 0, 0, 0, 0, set_bus_list},
    {"numa", KEY_LIST, 0, 0, 0, 0, set_numa_list},
    {"numa_nodes", KEY_U32, MACHINE(numa_count), 1, 64, NULL},
    {"cpus_per_node", KEY_U32, MACHINE(cpus_per_node), 1, 1024, NULL},
    {"levels", KEY_LIST, 0, 0, 0, 0, set_levels},
    {"links", KEY_LIST, 0, 0, 0, 0, set_links},
    {"asymmetric_links", KEY_BOOL, MACHINE(asymmetric_links), 0, 0, NULL},
    {"switches", KEY_U32, MACHINE(switch_count), 0, 32, NULL},
    {"switch_bus", KEY_LIST, 0, 0, 0, 0, set_switch_bus},
    {"nics", KEY_U32, MACHINE(nic_count), 0, SIM_NIC_MAX, NULL},
    {"nic_ports", KEY_U32, MACHINE(nic_ports), 1, SIM_NIC_PORT_MAX, NULL},
    {"nic_ethernet", KEY_U32, MACHINE(nic_ethernet), 0, SIM_NIC_MAX, NULL},
    {"nic_rate", KEY_U32, MACHINE(nic_rate_gbit), 1, 1600, NULL},
    {"fabric", KEY_BOOL, MACHINE(fabric), 0, 0, NULL},
    {"mig", KEY_LIST, 0, 0, 0, 0, set_mig_layout},
    {"mig_uuid_fresh", KEY_BOOL, MACHINE(mig_uuid_fresh), 0, 0, NULL},
    {"mig_gi_swapped", KEY_BOOL, MACHINE(mig_gi_swapped), 0, 0, NULL},
};

static struct sim_model *current_model(struct profile_parser *parser)
{
	return &parser->machine->model[parser->draft.section_index];
}

struct choice {
	const char *name;
	uint32_t value;
};

/* A name from the list, or the number itself. */
static int take_choice(struct profile_parser *parser, struct profile_slice value,
		       const struct choice *choices, size_t count, uint32_t *out)
{
	uint64_t number;

	for (size_t i = 0; i < count; i++) {
		if (profile_is(value, choices[i].name)) {
			*out = choices[i].value;
			return 0;
		}
	}

	if (profile_number(parser, value, 10, 0, 1000, &number) < 0)
		return -1;

	*out = (uint32_t)number;
	return 0;
}

static int set_brand(struct profile_parser *parser, struct profile_slice value)
{
	/* nvmlBrandType_t */
	static const struct choice brands[] = {
	    {"unknown", 0}, {"quadro", 1},	 {"tesla", 2},	     {"grid", 4},
	    {"geforce", 5}, {"titan", 6},	 {"quadro-rtx", 12}, {"nvidia-rtx", 13},
	    {"nvidia", 14}, {"geforce-rtx", 15},
	};

	return take_choice(parser, value, brands, sizeof(brands) / sizeof(brands[0]),
			   &current_model(parser)->brand);
}

static int set_architecture(struct profile_parser *parser, struct profile_slice value)
{
	/* NVML_DEVICE_ARCH_* */
	static const struct choice names[] = {
	    {"kepler", 2}, {"maxwell", 3}, {"pascal", 4}, {"volta", 5},	     {"turing", 6},
	    {"ampere", 7}, {"ada", 8},	   {"hopper", 9}, {"blackwell", 10},
	};

	return take_choice(parser, value, names, sizeof(names) / sizeof(names[0]),
			   &current_model(parser)->architecture);
}

static int set_compute_capability(struct profile_parser *parser, struct profile_slice value)
{
	struct profile_slice major = profile_word(&value, ".");
	struct profile_slice minor = profile_word(&value, ".");
	uint64_t high, low;

	if (profile_number(parser, major, 10, 3, 99, &high) < 0 ||
	    profile_number(parser, minor, 10, 0, 9, &low) < 0)
		return -1;
	if (value.length > 0)
		return profile_fail(parser, value.at, "a compute capability is MAJOR.MINOR");

	current_model(parser)->cc_major = (uint32_t)high;
	current_model(parser)->cc_minor = (uint32_t)low;
	return 0;
}

static const struct key model_keys[] = {
    {"name", KEY_TEXT, MODEL(name), 0, 0, NULL},
    {"brand", KEY_LIST, 0, 0, 0, 0, set_brand},
    {"architecture", KEY_LIST, 0, 0, 0, 0, set_architecture},
    {"compute_capability", KEY_LIST, 0, 0, 0, 0, set_compute_capability},
    {"pci_device_id", KEY_HEX32, MODEL(pci_device_id), 1, UINT32_MAX, NULL},
    {"pci_subsystem_id", KEY_HEX32, MODEL(pci_subsystem_id), 1, UINT32_MAX, NULL},
    {"vbios", KEY_TEXT, MODEL(vbios), 0, 0, NULL},
    {"part_number", KEY_TEXT, MODEL(part_number), 0, 0, NULL},
    {"memory_mib", KEY_MIB, MODEL(memory_bytes), 1, 1 << 24, NULL},
    {"reserved_mib", KEY_MIB, MODEL(reserved_bytes), 0, 1 << 24, NULL},
    {"bar1_mib", KEY_MIB, MODEL(bar1_bytes), 1, 1 << 24, NULL},
    {"context_mib", KEY_U32, MODEL(context_bytes_mib), 0, 1 << 16, NULL},
    {"memory_bus_bits", KEY_U32, MODEL(memory_bus_bits), 1, 65536, NULL},
    {"cores", KEY_U32, MODEL(core_count), 1, 1000000, NULL},
    {"sms", KEY_U32, MODEL(sm_count), 1, 4096, NULL},
    {"pcie_gen", KEY_U32, MODEL(pcie_gen_max), 1, 8, NULL},
    {"pcie_width", KEY_U32, MODEL(pcie_width_max), 1, 32, NULL},
    {"power_idle_w", KEY_WATTS, MODEL(power_idle_mw), 0, 5000, NULL},
    {"power_min_w", KEY_WATTS, MODEL(power_min_mw), 1, 5000, NULL},
    {"power_max_w", KEY_WATTS, MODEL(power_max_mw), 1, 5000, NULL},
    {"power_default_w", KEY_WATTS, MODEL(power_default_mw), 1, 5000, NULL},
    {"power_load_w", KEY_WATTS, MODEL(power_load_mw), 1, 5000, NULL},
    {"power_tau_ms", KEY_U32, MODEL(power_tau_ms), 1, 3600000, NULL},
    {"ambient_c", KEY_U32, MODEL(ambient_c), 0, 60, NULL},
    {"gpu_max_c", KEY_U32, MODEL(gpu_max_c), 30, 150, NULL},
    {"slowdown_c", KEY_U32, MODEL(slowdown_c), 50, 150, NULL},
    {"shutdown_c", KEY_U32, MODEL(shutdown_c), 50, 150, NULL},
    {"mem_max_c", KEY_U32, MODEL(mem_max_c), 30, 150, NULL},
    {"thermal_tau_ms", KEY_U32, MODEL(thermal_tau_ms), 1, 3600000, NULL},
    {"sm_idle_mhz", KEY_U32, MODEL(sm_idle_mhz), 1, 10000, NULL},
    {"sm_max_mhz", KEY_U32, MODEL(sm_max_mhz), 1, 10000, NULL},
    {"mem_idle_mhz", KEY_U32, MODEL(mem_idle_mhz), 1, 20000, NULL},
    {"mem_max_mhz", KEY_U32, MODEL(mem_max_mhz), 1, 20000, NULL},
    {"video_max_mhz", KEY_U32, MODEL(video_max_mhz), 1, 10000, NULL},
    {"idle_pstate", KEY_U32, MODEL(idle_pstate), 0, 15, NULL},
    {"fans", KEY_U32, MODEL(fan_count), 0, 8, NULL},
    {"nvlinks", KEY_U32, MODEL(link_count), 0, SIM_LINK_MAX, NULL},
    {"nvlink_version", KEY_U32, MODEL(nvlink_version), 0, 9, NULL},
    {"ecc", KEY_BOOL, MODEL(has_ecc), 0, 0, NULL},
    {"mig", KEY_BOOL, MODEL(has_mig), 0, 0, NULL},
    {"gpm", KEY_BOOL, MODEL(has_gpm), 0, 0, NULL},
    {"fabric", KEY_BOOL, MODEL(has_fabric), 0, 0, NULL},
    {"row_remapper", KEY_BOOL, MODEL(has_row_remapper), 0, 0, NULL},
    {"hbm", KEY_BOOL, MODEL(has_hbm), 0, 0, NULL},
    {"display_class", KEY_BOOL, MODEL(quadro_class), 0, 0, NULL},
};

static struct sim_gpu *current_gpu(struct profile_parser *parser)
{
	return &parser->machine->gpu[parser->draft.section_index];
}

static int set_gpu_model(struct profile_parser *parser, struct profile_slice value)
{
	parser->draft.gpu_model[parser->draft.section_index] = value;
	return 0;
}

static int set_gpu_bus(struct profile_parser *parser, struct profile_slice value)
{
	return take_bus(parser, value, current_gpu(parser));
}

static int set_gpu_numa(struct profile_parser *parser, struct profile_slice value)
{
	return take_numa(parser, value, &current_gpu(parser)->numa_node);
}

/* "GPU-51ce51ce-0000-4000-8000-000000000000": the prefix is what makes it known as simulated. */
static int set_gpu_uuid(struct profile_parser *parser, struct profile_slice value)
{
	static const char pattern[] = "GPU-" SIM_UUID_PREFIX "-hhhh-hhhh-hhhh-hhhhhhhhhhhh";

	for (size_t i = 0; i < sizeof(pattern) - 1; i++) {
		char c = i < value.length ? value.at[i] : '\0';
		bool is_hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');

		if (pattern[i] == 'h' ? !is_hex : c != pattern[i])
			return profile_fail(parser, value.at + (i < value.length ? i : 0),
					    "a simulated UUID is GPU-" SIM_UUID_PREFIX
					    "-xxxx-xxxx-xxxx-xxxxxxxxxxxx in lower case");
	}

	parser->draft.uuid_given[parser->draft.section_index] = true;
	return take_text(parser, value, current_gpu(parser)->uuid,
			 sizeof(current_gpu(parser)->uuid));
}

static int set_gpu_serial(struct profile_parser *parser, struct profile_slice value)
{
	parser->draft.serial_given[parser->draft.section_index] = true;
	return take_text(parser, value, current_gpu(parser)->serial,
			 sizeof(current_gpu(parser)->serial));
}

static const struct key gpu_keys[] = {
    {"model", KEY_LIST, 0, 0, 0, 0, set_gpu_model},
    {"bus", KEY_LIST, 0, 0, 0, 0, set_gpu_bus},
    {"numa", KEY_LIST, 0, 0, 0, 0, set_gpu_numa},
    {"uuid", KEY_LIST, 0, 0, 0, 0, set_gpu_uuid},
    {"serial", KEY_LIST, 0, 0, 0, 0, set_gpu_serial},
    {"irq", KEY_U32, GPU(irq), 1, 4096, NULL},
    {"display", KEY_BOOL, GPU(drives_display), 0, 0, NULL},
};

static int take_bool(struct profile_parser *parser, struct profile_slice value, bool *out)
{
	if (profile_is(value, "yes") || profile_is(value, "true"))
		*out = true;
	else if (profile_is(value, "no") || profile_is(value, "false"))
		*out = false;
	else
		return profile_fail(parser, value.at, "'yes' or 'no' is expected");
	return 0;
}

static int take_value(struct profile_parser *parser, const struct key *key,
		      struct profile_slice value, void *base)
{
	void *target = (char *)base + key->offset;
	uint32_t base_of_number = key->kind == KEY_HEX32 ? 16 : 10;
	uint64_t number;

	if (key->kind == KEY_LIST)
		return key->set(parser, value);
	if (key->kind == KEY_TEXT)
		return take_text(parser, value, target, key->size);
	if (key->kind == KEY_BOOL)
		return take_bool(parser, value, target);
	if (profile_number(parser, value, base_of_number, key->min, key->max, &number) < 0)
		return -1;

	if (key->kind == KEY_MIB)
		*(uint64_t *)target = number * MEBIBYTE;
	else if (key->kind == KEY_WATTS)
		*(uint32_t *)target = (uint32_t)(number * 1000);
	else
		*(uint32_t *)target = (uint32_t)number;

	return 0;
}

static int unknown_key(struct profile_parser *parser, struct profile_slice name,
		       const struct key *keys, size_t count)
{
	const char *names[KEY_NAMES_MAX];
	const char *nearest;

	for (size_t i = 0; i < count; i++)
		names[i] = keys[i].name;

	nearest = sim_nearest(name.at, name.length, names, count);
	return profile_fail(parser, name.at, "unknown key '%.*s'%s%s%s",
			    (int)(name.length > 64 ? 64 : name.length), name.at,
			    nearest ? "; did you mean '" : "", nearest ? nearest : "",
			    nearest ? "'?" : "");
}

static int table_key(struct profile_parser *parser, const struct key *keys, size_t count,
		     uint64_t *seen, void *base, struct profile_slice name,
		     struct profile_slice value)
{
	for (size_t i = 0; i < count; i++) {
		if (!profile_is(name, keys[i].name))
			continue;
		if (*seen & UINT64_C(1) << i)
			return profile_fail(parser, name.at, "'%s' is there twice", keys[i].name);

		*seen |= UINT64_C(1) << i;
		return take_value(parser, &keys[i], value, base);
	}

	return unknown_key(parser, name, keys, count);
}

/* "0 = 1 2 3 3 4 4": the GPUs at the other ends of GPU 0's links, in their order. */
static int links_key(struct profile_parser *parser, struct profile_slice name,
		     struct profile_slice value)
{
	struct profile_draft *draft = &parser->draft;
	struct profile_slice word;
	uint64_t gpu, peer;

	if (profile_number(parser, name, 10, 0, SIM_GPU_MAX - 1, &gpu) < 0)
		return -1;
	if (draft->link_at[gpu])
		return profile_fail(parser, name.at, "GPU %u is there twice", (unsigned)gpu);

	draft->link_at[gpu] = name.at;
	while ((word = profile_word(&value, ",")).length > 0) {
		if (draft->link_count[gpu] == SIM_LINK_MAX)
			return profile_fail(parser, word.at, "a GPU has at most %d links",
					    SIM_LINK_MAX);
		if (profile_number(parser, word, 10, 0, SIM_GPU_MAX - 1, &peer) < 0)
			return -1;
		if (peer == gpu)
			return profile_fail(parser, word.at, "a link cannot lead to its own GPU");

		draft->link_gpu[gpu][draft->link_count[gpu]++] = (uint8_t)peer;
	}

	return 0;
}

/* "0-6:1" or "0,2,4:2": starts and size in memory slices. */
static int take_placements(struct profile_parser *parser, struct profile_slice word,
			   struct sim_mig_profile *row)
{
	struct profile_slice starts = profile_word(&word, ":"), rest = word, size, start;
	uint64_t number;

	size = profile_word(&rest, ":");
	if (profile_number(parser, size, 10, 1, SIM_MEMORY_SLICES, &number) < 0)
		return -1;

	row->placement_size = (uint32_t)number;
	while ((start = profile_word(&starts, ",")).length > 0) {
		struct profile_slice first = profile_word(&start, "-");
		struct profile_slice second = profile_word(&start, "-");
		uint64_t low, high, most = SIM_MEMORY_SLICES - row->placement_size;

		if (profile_number(parser, first, 10, 0, most, &low) < 0)
			return -1;

		high = low;
		if (second.length > 0 && profile_number(parser, second, 10, low, most, &high) < 0)
			return -1;

		for (; low <= high; low++) {
			if (row->placement_count == SIM_PLACEMENT_MAX)
				return profile_fail(parser, first.at, "too many placements");
			row->placement_start[row->placement_count++] = (uint32_t)low;
		}
	}

	if (row->placement_count == 0)
		return profile_fail(parser, starts.at, "placements are missing, as in 0,4:4");

	return 0;
}

/* NAME = index id MiB SM slices count CE DEC ENC JPG OFA placements */
static int mig_key(struct profile_parser *parser, struct profile_slice name,
		   struct profile_slice value)
{
	struct sim_model *model = current_model(parser);
	struct sim_mig_profile row = {0};

	static const struct {
		const char *what;
		uint64_t min, max;
	} columns[] = {
	    {"index", 0, 63}, {"id", 0, 63},	{"MiB", 1, 1 << 24},
	    {"SM", 1, 4096},  {"slices", 1, 8}, {"count", 1, SIM_GI_MAX},
	    {"CE", 0, 32},    {"DEC", 0, 32},	{"ENC", 0, 32},
	    {"JPG", 0, 32},   {"OFA", 0, 32},
	};
	uint64_t number[sizeof(columns) / sizeof(columns[0])];

	if (model->mig_profile_count == SIM_MIG_PROFILE_MAX)
		return profile_fail(parser, name.at, "a model has at most %d MIG profiles",
				    SIM_MIG_PROFILE_MAX);
	if (take_text(parser, name, row.name, sizeof(row.name)) < 0)
		return -1;

	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
		struct profile_slice word = profile_word(&value, "");

		if (word.length == 0)
			return profile_fail(parser, word.at, "column %s is missing",
					    columns[i].what);
		if (profile_number(parser, word, 10, columns[i].min, columns[i].max, &number[i]) <
		    0)
			return -1;
	}

	row.index = (uint32_t)number[0];
	row.id = (uint32_t)number[1];
	row.memory_mib = number[2];
	row.sm_count = (uint32_t)number[3];
	row.slices = (uint32_t)number[4];
	row.max_count = (uint32_t)number[5];
	row.copy_engines = (uint32_t)number[6];
	row.decoders = (uint32_t)number[7];
	row.encoders = (uint32_t)number[8];
	row.jpegs = (uint32_t)number[9];
	row.ofas = (uint32_t)number[10];

	for (uint32_t i = 0; i < model->mig_profile_count; i++) {
		const struct sim_mig_profile *other = &model->mig_profile[i];

		if (other->index == row.index || other->id == row.id ||
		    strcmp(other->name, row.name) == 0)
			return profile_fail(parser, name.at,
					    "same name, index or id as MIG profile %s",
					    other->name);
	}

	if (take_placements(parser, profile_trim(value), &row) < 0)
		return -1;

	model->mig_profile[model->mig_profile_count++] = row;
	return 0;
}

int profile_key(struct profile_parser *parser, struct profile_slice key, struct profile_slice value)
{
	struct profile_draft *draft = &parser->draft;
	uint32_t index = draft->section_index;

	switch (draft->section) {
	case PROFILE_MACHINE:
		return table_key(parser, machine_keys,
				 sizeof(machine_keys) / sizeof(machine_keys[0]),
				 &draft->machine_seen, parser->machine, key, value);
	case PROFILE_MODEL:
		return table_key(parser, model_keys, sizeof(model_keys) / sizeof(model_keys[0]),
				 &draft->model_seen[index], &parser->machine->model[index], key,
				 value);
	case PROFILE_GPU:
		return table_key(parser, gpu_keys, sizeof(gpu_keys) / sizeof(gpu_keys[0]),
				 &draft->gpu_seen[index], &parser->machine->gpu[index], key, value);
	case PROFILE_LINKS:
		return links_key(parser, key, value);
	case PROFILE_MIG:
		return mig_key(parser, key, value);
	case PROFILE_NO_SECTION:
	default:
		return profile_fail(parser, key.at,
				    "a section, such as [machine], must come first");
	}
}
