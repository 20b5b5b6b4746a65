/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice sim load`: a process on a GPU and the load that it puts there. */
#include "cmd/sim/sim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/execute.h"
#include "base/file.h"
#include "base/parse.h"
#include "sim/physics.h"

enum load_type { LOAD_COMPUTE, LOAD_GRAPHICS, LOAD_MPS };

struct sim_load_options {
	struct sim_where where;
	const char *gpu, *mig, *trace;
	uint32_t pid, type, shape;
	double util, membw, enc, dec, tensor;
	uint64_t mem, pcie_tx, pcie_rx, nvlink, duration_ns;
	bool exec, remove, invented;
};

#define LOAD_SHARE(option, text)                                                                   \
	{                                                                                          \
		.name = #option, .kind = OPTION_FRACTION, .max = 1, .help = text,                  \
		OPTION_FIELD(struct sim_load_options, option)                                      \
	}
#define LOAD_RATE(option, field, text)                                                             \
	{                                                                                          \
		.name = option, .kind = OPTION_SIZE, .value = "BYTES", .help = text,               \
		OPTION_FIELD(struct sim_load_options, field)                                       \
	}

static const struct option_row rows[] = {
    {.name = "gpu",
     .letter = 'g',
     .kind = OPTION_TEXT,
     .value = "N|UUID",
     .help = "the GPU, by number or UUID; a MIG device by its UUID (may be left out where there "
	     "is only one)",
     OPTION_FIELD(struct sim_load_options, gpu)},
    {.name = "mig",
     .kind = OPTION_TEXT,
     .value = "GI/CI",
     .help = "the MIG instance of that GPU",
     OPTION_FIELD(struct sim_load_options, mig)},
    {.name = "pid",
     .kind = OPTION_U32,
     .value = "P",
     .min = 1,
     .max = INT32_MAX,
     .help = "the process that works; the load ends when it does",
     OPTION_FIELD(struct sim_load_options, pid)},
    {.name = "exec",
     .kind = OPTION_FLAG,
     .help = "run the command that follows as that process (so does any command that follows)",
     OPTION_FIELD(struct sim_load_options, exec)},
    LOAD_SHARE(util, "how busy it keeps the SMs, 0 to 1 (default: 0)"),
    {.name = "mem",
     .kind = OPTION_SIZE,
     .value = "BYTES",
     .help = "memory it allocates, such as 2GiB; its context comes on top",
     OPTION_FIELD(struct sim_load_options, mem)},
    {.name = "membw",
     .kind = OPTION_FRACTION,
     .min = -1,
     .max = 1,
     .help = "how busy it keeps the memory, 0 to 1 (default: half of --util)",
     OPTION_FIELD(struct sim_load_options, membw)},
    LOAD_SHARE(enc, "video encoder, 0 to 1"),
    LOAD_SHARE(dec, "video decoder, 0 to 1"),
    LOAD_SHARE(tensor, "share of the SM time on tensor cores, 0 to 1"),
    LOAD_RATE("pcie-tx", pcie_tx, "bytes a second that it sends over PCIe"),
    LOAD_RATE("pcie-rx", pcie_rx, "bytes a second that it receives over PCIe"),
    LOAD_RATE("nvlink", nvlink, "bytes a second over NVLink, each way"),
    {.name = "type",
     .kind = OPTION_CHOICE,
     .words = "compute|graphics|mps",
     .help = "the list in which it appears (default: compute)",
     OPTION_FIELD(struct sim_load_options, type)},
    {.name = "shape",
     .kind = OPTION_CHOICE,
     .words = "steady|burst|sine|trace",
     .help = "how --util moves in time (default: steady)",
     OPTION_FIELD(struct sim_load_options, shape)},
    {.name = "trace",
     .kind = OPTION_PATH,
     .help = "for --shape trace: a file with one share, 0 to 1, for each second",
     OPTION_FIELD(struct sim_load_options, trace)},
    {.name = "for",
     .kind = OPTION_DURATION,
     .help = "end the load after this time of the machine's clock",
     OPTION_FIELD(struct sim_load_options, duration_ns)},
    {.name = "remove",
     .kind = OPTION_FLAG,
     .help = "take the load of --pid away",
     OPTION_FIELD(struct sim_load_options, remove)},
    {.name = "invented",
     .kind = OPTION_FLAG,
     .help = "--pid need not exist: it stays until it is removed",
     OPTION_FIELD(struct sim_load_options, invented)},
    SIM_WHERE_ROWS(struct sim_load_options),
    {0},
};

static uint32_t permille(double share)
{
	return (uint32_t)(share * 1000 + 0.5);
}

static void store_point(struct sim_process *process, uint32_t index, uint32_t value)
{
	process->trace_permille[index][0] = (uint8_t)value;
	process->trace_permille[index][1] = (uint8_t)(value >> 8);
}

/* One number a line; empty lines and lines that begin with # are left out. */
static int load_trace(const char *path, struct sim_process *process, struct sim_error *error)
{
	_cleanup_buf_ struct buf text;
	struct err err = {0};

	buf_init(&text, 64 << 10);
	if (file_read(path, &text, &err) != 0)
		return sim_fail(error, SIM_EXIT_INPUT, "%s", err.text);

	uint32_t line = 0;

	for (const char *at = buf_text(&text); *at;) {
		char word[32];
		size_t length = strcspn(at, "\n");
		double share;

		line++;
		(void)snprintf(word, sizeof(word), "%.*s", (int)(length < 31 ? length : 31), at);
		at += length + (at[length] == '\n');

		if (word[0] == '\0' || word[0] == '#')
			continue;
		if (parse_fraction(word, 0, 1, &share) != 0)
			return sim_fail(error, SIM_EXIT_INPUT,
					"%s:%u:1: '%s' is no share from 0 to 1", path, line, word);
		if (process->trace_length == SIM_TRACE_MAX)
			return sim_fail(error, SIM_EXIT_INPUT, "%s:%u:1: more than %d seconds",
					path, line, SIM_TRACE_MAX);

		store_point(process, process->trace_length++, permille(share));
	}

	if (process->trace_length == 0)
		return sim_fail(error, SIM_EXIT_INPUT, "%s:1:1: no share in it", path);

	return 0;
}

struct load {
	const struct sim_load_options *options;
	struct sim_process process; /* what is to be entered */
	struct sim_target target;
};

static int load_describe(const struct sim_load_options *options, struct sim_process *process,
			 struct sim_error *error)
{
	static const uint8_t type[] = {SIM_PROCESS_COMPUTE, SIM_PROCESS_GRAPHICS, SIM_PROCESS_MPS};
	uint32_t pid = options->pid ? options->pid : (uint32_t)getpid();

	if (options->invented) {
		process->pid = process->host_pid = pid;
	} else if (sim_state_identify(pid, process) != 0) {
		return sim_fail(error, SIM_EXIT_INPUT,
				"there is no process %u (with --invented it need not exist)", pid);
	}

	process->type = type[options->type];
	process->shape = (uint8_t)options->shape;
	process->util_permille = permille(options->util);
	process->enc_permille = permille(options->enc);
	process->dec_permille = permille(options->dec);
	process->tensor_permille = permille(options->tensor);
	process->membw_permille = options->membw < 0 ? -1 : (int32_t)permille(options->membw);
	process->memory_bytes = options->mem;
	process->pcie_tx_bps = options->pcie_tx;
	process->pcie_rx_bps = options->pcie_rx;
	process->nvlink_bps = options->nvlink;

	if (options->shape != SIM_SHAPE_TRACE)
		return 0;
	if (!options->trace)
		return sim_fail(error, SIM_EXIT_INPUT, "--shape trace needs --trace FILE");

	return load_trace(options->trace, process, error);
}

/* MIG mode takes work only in instances; without it there are none. */
static int check_instance(const struct sim_gpu *gpu, const struct sim_target *target,
			  struct sim_error *error)
{
	if (gpu->mig_current && target->ci == SIM_WHOLE_GPU)
		return sim_fail(error, SIM_EXIT_INPUT,
				"GPU %u is in MIG mode: say which instance, --mig GI/CI",
				target->gpu);
	if (!gpu->mig_current && target->gi != SIM_WHOLE_GPU)
		return sim_fail(error, SIM_EXIT_INPUT, "GPU %u is not in MIG mode", target->gpu);
	return 0;
}

static int check_memory(const struct sim_machine *machine, const struct load *load,
			const struct sim_process *before, struct sim_error *error)
{
	const struct sim_gpu *gpu = &machine->gpu[load->target.gpu];
	const struct sim_model *model = sim_model_of(machine, gpu);
	uint64_t context = (uint64_t)model->context_bytes_mib << 20;
	uint64_t room = model->memory_bytes - model->reserved_bytes;

	for (uint32_t g = 0; g < SIM_GI_MAX && load->target.gi != SIM_WHOLE_GPU; g++) {
		if (gpu->gi[g].used && gpu->gi[g].id == load->target.gi)
			room = model->mig_profile[gpu->gi[g].profile].memory_mib << 20;
	}

	uint64_t used = sim_physics_memory_used(machine, load->target.gpu, load->target.gi);
	uint64_t mine = before->pid ? before->memory_bytes + context : 0;

	used -= mine < used ? mine : used;
	if (load->process.memory_bytes <= room && used + context <= room &&
	    load->process.memory_bytes <= room - used - context)
		return 0;

	return sim_fail(error, SIM_EXIT_FAILED,
			"GPU %u is out of memory: %llu MiB and a context of %u MiB do not fit into "
			"%llu MiB that are free",
			load->target.gpu, (unsigned long long)load->process.memory_bytes >> 20,
			model->context_bytes_mib,
			(unsigned long long)(used < room ? room - used : 0) >> 20);
}

/* A number is that of a process in its own PID namespace; an invented one has none. */
static bool load_is_of(const struct load *load, const struct sim_process *process)
{
	uint64_t one = process->pid_ns, other = load->process.pid_ns;
	return process->pid == load->process.pid && process->pid != 0 &&
	       (one == other || one == 0 || other == 0);
}

static int load_change(struct sim_machine *machine, void *context, struct sim_error *error)
{
	struct load *load = context;
	struct sim_process *slot = NULL;

	if (sim_target_parse(machine, load->options->gpu, load->options->mig, false, &load->target,
			     error) != 0)
		return -1;

	struct sim_gpu *gpu = &machine->gpu[load->target.gpu];

	for (uint32_t i = SIM_PROCESS_MAX; i-- > 0;) {
		struct sim_process *process = &gpu->process[i];
		bool same = load_is_of(load, process);
		if (same || (process->pid == 0 && (!slot || slot->pid == 0)))
			slot = process;
		if (same)
			break;
	}

	if (load->options->remove) {
		if (!slot || slot->pid == 0)
			return sim_fail(error, SIM_EXIT_INPUT, "process %u has no load on GPU %u",
					load->process.pid, load->target.gpu);
		*slot = (struct sim_process){0};
		return 0;
	}

	if (!slot)
		return sim_fail(error, SIM_EXIT_FAILED, "GPU %u has %d processes already",
				load->target.gpu, SIM_PROCESS_MAX);
	if (gpu->health == SIM_GPU_LOST || gpu->health == SIM_GPU_UNPLUGGED)
		return sim_fail(error, SIM_EXIT_FAILED, "GPU %u is lost: heal it first",
				load->target.gpu);
	if (check_instance(gpu, &load->target, error) != 0 ||
	    check_memory(machine, load, slot, error) != 0)
		return -1;

	load->process.gi = load->target.gi;
	load->process.ci = load->target.ci;
	load->process.begin_tick = machine->tick;
	if (load->options->duration_ns > 0)
		load->process.end_tick =
		    machine->tick + (load->options->duration_ns + SIM_TICK_NS - 1) / SIM_TICK_NS;

	*slot = load->process;
	return 0;
}

static int load_run(const struct cmd_call *call)
{
	const struct sim_load_options *options = call->options;
	struct sim_error error = {0};
	struct load load = {.options = options};

	if (call->argc > 0 && options->pid)
		return cmd_usage(call, "--pid and a command exclude each other");
	if (call->argc == 0 && !options->pid)
		return cmd_usage(call, "say which process: --pid P, or a command to run");

	struct sim_state *state = sim_open(&options->where, true, &error);
	if (!state)
		return sim_exit_with(call, &error);

	if (options->remove)
		load.process.pid = options->pid;
	else if (load_describe(options, &load.process, &error) != 0) {
		(void)sim_state_close(state);
		return sim_exit_with(call, &error);
	}

	if (sim_change(state, false, load_change, &load, &error) != 0) {
		(void)sim_state_close(state);
		return sim_exit_with(call, &error);
	}

	(void)sim_state_close(state);
	if (call->argc == 0) {
		printf("simulated load of process %u on GPU %u %s\n", load.process.pid,
		       load.target.gpu, options->remove ? "removed" : "entered");
		return SIM_EXIT_OK;
	}

	/* the entry is this process: it lives on as the command, and ends with it however it dies
	 */
	struct err err = {0};
	int rc = execute(call->argv);

	(void)err_set(&err, rc, "cannot run '%s': %s", call->argv[0], err_describe(rc));
	return cmd_fail(call, rc == -ENOENT ? CMD_EXIT_NOT_FOUND : CMD_EXIT_NOT_EXECUTABLE, &err);
}

static const struct sim_load_options defaults = {.membw = -1};

static const struct cmd_exit_row exits[] = {
    SIM_EXIT_ROWS,
    {CMD_EXIT_NOT_EXECUTABLE, "the command cannot be executed"},
    {CMD_EXIT_NOT_FOUND, "the command was not found"},
    {0, NULL},
};

static const struct cmd_example examples[] = {
    {"sluice sim load --gpu 0 --util 0.8 --mem 2GiB -- sleep 60", "sleep keeps GPU 0 busy"},
    {"sluice sim load --gpu $CUDA_VISIBLE_DEVICES --pid $$ --util 0.8 --for 3s",
     "a job script loads its own GPU"},
    {"sluice sim load --gpu 0 --mig 7/0 --pid 4711 --util 1", "work in a MIG instance"},
    {NULL, NULL},
};

const struct command cmd_sim_load = {
    .name = "load",
    .summary = "Put load on a simulated GPU",
    .description = "Enters a process on a GPU, or changes its entry. The load lives as long as the "
		   "process, however that ends, or as long as --for says. Readings follow: "
		   "utilisation, memory, power, temperature, clocks, counters, process lists.",
    .group = CMD_GROUP_SIMULATOR,
    .run = load_run,
    .options = rows,
    .defaults = &defaults,
    .options_size = sizeof(struct sim_load_options),
    .positional = "[--] [COMMAND [ARGUMENT...]]",
    .positional_max = CMD_ARGUMENTS_ANY,
    .takes_command = true,
    .exits = exits,
    .examples = examples,
};
