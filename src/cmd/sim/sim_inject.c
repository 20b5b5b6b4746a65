/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice sim inject`, `fault`, `heal`, `reset-gpu`, `reload-driver`, `clock` and `log`. */
#include "cmd/sim/sim.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/text.h"
#include "cmd/table.h"
#include "sim/fault.h"

struct inject_options {
	struct sim_where where;
	const char *gpu, *mig, *after, *text;
	uint32_t gi, ci, pid, ms, count, form;
	int64_t ambient;
	uint64_t for_ns;
	bool contained, uncontained, storm, fan_stuck, forge;
};

enum { NOT_SAID = INT16_MIN, FORM_AUTO = 0 };

static const struct option_row inject_rows[] = {
    {.name = "gpu",
     .letter = 'g',
     .kind = OPTION_TEXT,
     .value = "N|UUID",
     .help = "the GPU",
     OPTION_FIELD(struct inject_options, gpu)},
    {.name = "mig",
     .kind = OPTION_TEXT,
     .value = "GI/CI",
     .help = "the MIG instance",
     OPTION_FIELD(struct inject_options, mig)},
    {.name = "gi",
     .kind = OPTION_U32,
     .value = "G",
     .max = 1000,
     .help = "the GPU instance",
     OPTION_FIELD(struct inject_options, gi)},
    {.name = "ci",
     .kind = OPTION_U32,
     .value = "C",
     .max = 1000,
     .help = "the compute instance",
     OPTION_FIELD(struct inject_options, ci)},
    {.name = "pid",
     .kind = OPTION_U32,
     .value = "P",
     .help = "the process that the kernel log names",
     OPTION_FIELD(struct inject_options, pid)},
    {.name = "after",
     .kind = OPTION_TEXT,
     .value = "N|T",
     .help = "function faults: let N calls of a process pass; others: wait so long (5s) first",
     OPTION_FIELD(struct inject_options, after)},
    {.name = "for",
     .kind = OPTION_DURATION,
     .help = "stay until this time of the machine's clock has passed, then take the fault back",
     OPTION_FIELD(struct inject_options, for_ns)},
    {.name = "count",
     .kind = OPTION_U32,
     .help = "so many errors (ecc corrected, pcie errors), or calls that fail (hang, slow)",
     OPTION_FIELD(struct inject_options, count)},
    {.name = "ms",
     .kind = OPTION_U32,
     .help = "milliseconds of hang and slow",
     OPTION_FIELD(struct inject_options, ms)},
    {.name = "ambient",
     .kind = OPTION_I64,
     .value = "C",
     .min = -273,
     .max = 1000,
     .help = "thermal: temperature of the air around the GPU",
     OPTION_FIELD(struct inject_options, ambient)},
    {.name = "fan-stuck",
     .kind = OPTION_FLAG,
     .help = "thermal: the fan stands still",
     OPTION_FIELD(struct inject_options, fan_stuck)},
    {.name = "contained",
     .kind = OPTION_FLAG,
     .help = "xid 48, ecc uncorrected: followed by 63 and 94; 144-150: nonfatal",
     OPTION_FIELD(struct inject_options, contained)},
    {.name = "uncontained",
     .kind = OPTION_FLAG,
     .help = "xid 48, ecc uncorrected: followed by 95; the GPU wants a reset",
     OPTION_FIELD(struct inject_options, uncontained)},
    {.name = "storm",
     .kind = OPTION_FLAG,
     .help = "ecc corrected: with the event of an error storm",
     OPTION_FIELD(struct inject_options, storm)},
    {.name = "form",
     .kind = OPTION_CHOICE,
     .words = "auto|new|old|mig|threeline|nvlink5",
     .help = "how the kernel log writes it (default: auto, as the GPU's driver does)",
     OPTION_FIELD(struct inject_options, form)},
    {.name = "text",
     .kind = OPTION_TEXT,
     .help = "what the kernel log says after the number",
     OPTION_FIELD(struct inject_options, text)},
    {.name = "forge",
     .kind = OPTION_FLAG,
     .help = "xid: only a log record as a program could forge it; nothing else happens",
     OPTION_FIELD(struct inject_options, forge)},
    SIM_WHERE_ROWS(struct inject_options),
    {0},
};

static int inject_change(struct sim_machine *machine, void *context, struct sim_error *error)
{
	return sim_fault_inject(machine, context, error);
}

static int inject_end(struct sim_machine *machine, void *context, struct sim_error *error)
{
	return sim_fault_end(machine, context, error);
}

static bool fault_is_on_function(const char *kind)
{
	return strcmp(kind, "hang") == 0 || strcmp(kind, "slow") == 0 ||
	       strcmp(kind, "return") == 0;
}

static int inject_target(struct sim_state *state, const struct inject_options *options,
			 struct sim_fault *fault, struct sim_error *error)
{
	struct sim_target target;
	_cleanup_free_ struct sim_machine *machine = sim_snapshot(state);
	if (!machine)
		return sim_fail(error, SIM_EXIT_FAILED, "out of memory");

	fault->gpu = fault->gi = fault->ci = SIM_WHOLE_GPU;
	if (!options->gpu && !options->mig)
		return 0;
	if (sim_target_parse(machine, options->gpu, options->mig, true, &target, error) != 0)
		return -1;

	fault->gpu = target.gpu;
	fault->gi = options->gi == SIM_WHOLE_GPU ? target.gi : options->gi;
	fault->ci = options->ci == SIM_WHOLE_GPU ? target.ci : options->ci;

	return 0;
}

/* Waits until the machine's clock has moved by `duration_ns`, or a signal asks us to end: these are
 * blocked by the caller. A virtual clock moves when somebody else advances it. */
static void wait_on_clock(struct sim_state *state, uint64_t duration_ns, const sigset_t *signals)
{
	uint64_t end = sim_state_read(state)->tick + (duration_ns + SIM_TICK_NS - 1) / SIM_TICK_NS;

	sim_state_read_done(state);

	for (;;) {
		const struct timespec nap = {.tv_nsec = 20 * 1000 * 1000};
		uint64_t now = sim_state_read(state)->tick;
		sim_state_read_done(state);
		if (now >= end || sigtimedwait(signals, NULL, &nap) > 0)
			return;
	}
}

static int inject_after(const struct inject_options *options, struct sim_fault *fault,
			uint64_t *out_wait_ns, struct sim_error *error)
{
	uint64_t number = 0;

	*out_wait_ns = 0;
	if (!options->after)
		return 0;

	bool calls = fault_is_on_function(fault->kind);
	if (calls && parse_u64(options->after, 0, UINT32_MAX, &number) == 0)
		fault->after = (uint32_t)number;
	else if (calls || parse_duration(options->after, 0, UINT64_MAX / 2, out_wait_ns) != 0)
		return sim_fail(error, SIM_EXIT_INPUT,
				calls ? "--after '%s': a number of calls is wanted"
				      : "--after '%s': a time such as 5s is wanted",
				options->after);

	return 0;
}

/* Injects, and when --after or --for say so waits before and after. */
static int inject_do(struct sim_state *state, const struct inject_options *options,
		     struct sim_fault *fault, struct sim_error *error)
{
	uint64_t wait_ns;
	sigset_t signals, before;

	if (inject_target(state, options, fault, error) != 0 ||
	    inject_after(options, fault, &wait_ns, error) != 0)
		return -1;

	(void)sigemptyset(&signals);
	(void)sigaddset(&signals, SIGINT);
	(void)sigaddset(&signals, SIGTERM);
	(void)sigaddset(&signals, SIGHUP);

	if (wait_ns > 0)
		wait_on_clock(state, wait_ns, &signals);
	if (options->for_ns > 0)
		(void)sigprocmask(SIG_BLOCK, &signals, &before); /* it must be taken back */
	if (sim_change(state, true, inject_change, fault, error) != 0)
		return -1;
	if (options->for_ns == 0)
		return 0;

	wait_on_clock(state, options->for_ns, &signals);
	int rc = sim_change(state, true, inject_end, fault, error);

	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	return rc;
}

static int inject_list(void)
{
	static const struct table_column columns[] = {
	    {"FAULT", TABLE_LEFT, false},
	    {"ARGUMENTS", TABLE_LEFT, false},
	    {"WHAT IT DOES", TABLE_LEFT, false},
	};
	size_t count;
	const struct sim_fault_kind *kinds = sim_fault_kinds(&count);
	_cleanup_table_ struct table *table = table_new(columns, array_length(columns));
	if (!table)
		return SIM_EXIT_FAILED;

	printf("simulated faults: sluice sim inject FAULT ARGUMENTS\n");

	for (size_t i = 0; i < count; i++) {
		table_add(table, kinds[i].name);
		table_addf(table, "%s%s%s", kinds[i].arguments,
			   kinds[i].needs_gpu && kinds[i].arguments[0] ? " " : "",
			   kinds[i].needs_gpu ? "--gpu N" : "");
		table_add(table, kinds[i].help);
	}

	return table_print(table, stdout, 0, NULL) == 0 ? SIM_EXIT_OK : SIM_EXIT_FAILED;
}

static int inject_run(const struct cmd_call *call)
{
	const struct inject_options *options = call->options;
	struct sim_error error = {0};

	if (call->argc == 0)
		return inject_list();

	struct sim_fault fault = {
	    .kind = call->argv[0],
	    .pid = options->pid,
	    .ms = options->ms,
	    .count = options->count,
	    .text = options->text,
	    .has_form = options->form != FORM_AUTO,
	    .form = options->form ? (enum sim_kmsg_form)(options->form - 1) : SIM_KMSG_NEW,
	    .forge = options->forge,
	    .contained = options->contained,
	    .uncontained = options->uncontained,
	    .storm = options->storm,
	    .fan_stuck = options->fan_stuck,
	    .has_ambient = options->ambient != NOT_SAID,
	    .ambient_c = (int32_t)options->ambient,
	};
	for (int i = 1; i < call->argc; i++) {
		if (fault.argument_count == SIM_FAULT_ARGUMENT_MAX)
			return cmd_usage(call, "too many arguments: '%s'", call->argv[i]);
		fault.argument[fault.argument_count++] = call->argv[i];
	}

	if (strcmp(fault.kind, "return") == 0)
		return cmd_usage(call, "write: sluice sim fault FUNCTION ret=CODE");

	_cleanup_sim_state_ struct sim_state *state = sim_open(&options->where, true, &error);
	if (!state || inject_do(state, options, &fault, &error) != 0)
		return sim_exit_with(call, &error);

	printf("simulated fault %s: %s\n", options->for_ns ? "over" : "injected", fault.kind);
	return SIM_EXIT_OK;
}

static const struct inject_options inject_defaults = {
    .gi = SIM_WHOLE_GPU,
    .ci = SIM_WHOLE_GPU,
    .ambient = NOT_SAID,
};

static const struct cmd_exit_row exits[] = {SIM_EXIT_ROWS, {0, NULL}};

static const struct cmd_example inject_examples[] = {
    {"sluice sim inject", "list the faults"},
    {"sluice sim inject xid 79 --gpu 3", "GPU 3 falls off the bus"},
    {"sluice sim inject ecc uncorrected --contained --gpu 0", "a contained memory error"},
    {"sluice sim inject nvlink 2 down --gpu 0", "a link fails, at both ends"},
    {"sluice sim inject hang nvmlDeviceGetPowerUsage --gpu 1", "calls that never return"},
    {"sluice sim inject thermal --ambient 70 --gpu 0 --for 1m", "a hot minute"},
    {NULL, NULL},
};

const struct command cmd_sim_inject = {
    .name = "inject",
    .summary = "Let something go wrong on the simulated machine",
    .description = "Injects a fault, which shows everywhere that it would show on a real machine: "
		   "return codes, counters and events of NVML, the kernel log, /sys and /dev. "
		   "Without arguments it lists the faults.",
    .group = CMD_GROUP_SIMULATOR,
    .run = inject_run,
    .options = inject_rows,
    .defaults = &inject_defaults,
    .options_size = sizeof(struct inject_options),
    .positional = "[FAULT [ARGUMENT...]]",
    .positional_words = "xid|ecc|remap|retire|thermal|power-brake|nvlink|pcie|lost|reset-required|"
			"recovery|unavailable|hang|slow|version-mismatch|no-driver|no-permission|"
			"events-missed|hotunplug|hotplug|mig|mode|kmsg",
    .positional_max = 1 + SIM_FAULT_ARGUMENT_MAX,
    .exits = exits,
    .examples = inject_examples,
};

static int fault_parse(const struct cmd_call *call, struct sim_fault *fault, const char **gpu)
{
	bool has_result = false;

	for (int i = 1; i < call->argc; i++) {
		const char *word = call->argv[i], *equals = strchr(word, '=');
		uint64_t value;
		size_t length = equals ? (size_t)(equals - word) : 0;
		bool is_gpu = length == 3 && text_starts_with(word, "gpu");
		if (is_gpu) {
			*gpu = equals + 1;
			continue;
		}

		if (!equals || parse_u64(equals + 1, 0, UINT32_MAX, &value) != 0)
			return cmd_usage(call, "'%s': write ret=CODE after=N count=N gpu=N", word);

		if (text_starts_with(word, "ret=")) {
			fault->result = (uint32_t)value;
			has_result = true;
		} else if (text_starts_with(word, "after=")) {
			fault->after = (uint32_t)value;
		} else if (text_starts_with(word, "count=")) {
			fault->count = (uint32_t)value;
		} else {
			return cmd_usage(call, "'%s': write ret=CODE after=N count=N gpu=N", word);
		}
	}

	return has_result ? 0 : cmd_usage(call, "say what it returns: ret=CODE");
}

static int fault_run(const struct cmd_call *call)
{
	const struct inject_options *options = call->options;
	struct inject_options target = *options;
	struct sim_error error = {0};
	struct sim_fault fault = {
	    .kind = "return", .argument = {call->argv[0]}, .argument_count = 1};
	int rc = fault_parse(call, &fault, &target.gpu);
	if (rc != 0)
		return rc;

	_cleanup_sim_state_ struct sim_state *state = sim_open(&options->where, true, &error);
	if (!state || inject_target(state, &target, &fault, &error) != 0 ||
	    sim_change(state, true, inject_change, &fault, &error) != 0)
		return sim_exit_with(call, &error);

	printf("simulated fault injected: %s returns %u\n", call->argv[0], fault.result);
	return SIM_EXIT_OK;
}

static const struct option_row where_rows[] = {SIM_WHERE_ROWS(struct inject_options), {0}};

static const struct cmd_example fault_examples[] = {
    {"sluice sim fault nvmlDeviceGetUUID ret=999 gpu=2", "GPU 2 has no UUID"},
    {"sluice sim fault nvmlInit ret=9 count=3", "the first three attempts of a program fail"},
    {NULL, NULL},
};

const struct command cmd_sim_fault = {
    .name = "fault",
    .summary = "Let a function of the simulated library return any code",
    .description =
	"Each process lets `after` matching calls pass; then `count` of them (all, when "
	"it is not given) return the code. The name stands for all its versions, \"any\" "
	"for every function. `sluice sim heal` takes it back.",
    .group = CMD_GROUP_SIMULATOR,
    .run = fault_run,
    .options = where_rows,
    .defaults = &inject_defaults,
    .options_size = sizeof(struct inject_options),
    .positional = "FUNCTION ret=CODE [after=N] [count=N] [gpu=N]",
    .positional_min = 1,
    .positional_max = 5,
    .exits = exits,
    .examples = fault_examples,
};

static const struct option_row gpu_rows[] = {
    {.name = "gpu",
     .letter = 'g',
     .kind = OPTION_TEXT,
     .value = "N|UUID",
     .help = "only this GPU (default: all)",
     OPTION_FIELD(struct inject_options, gpu)},
    SIM_WHERE_ROWS(struct inject_options),
    {0},
};

static int heal_change(struct sim_machine *machine, void *context, struct sim_error *error)
{
	return sim_fault_heal(machine, *(uint32_t *)context, error);
}

static int reset_change(struct sim_machine *machine, void *context, struct sim_error *error)
{
	uint32_t gpu = *(uint32_t *)context;
	for (uint32_t i = 0; i < machine->gpu_count; i++) {
		if ((gpu == i || gpu == SIM_WHOLE_GPU) &&
		    sim_fault_reset_gpu(machine, i, error) != 0)
			return -1;
	}
	return 0;
}

static int reload_change(struct sim_machine *machine, void *context, struct sim_error *error)
{
	(void)context;
	return sim_fault_reload_driver(machine, error);
}

static int change_gpu(const struct cmd_call *call,
		      int (*change)(struct sim_machine *machine, void *context,
				    struct sim_error *error),
		      const char *done)
{
	const struct inject_options *options = call->options;
	struct sim_error error = {0};
	struct sim_fault fault = {0};
	_cleanup_sim_state_ struct sim_state *state = sim_open(&options->where, true, &error);
	if (!state || inject_target(state, options, &fault, &error) != 0 ||
	    sim_change(state, true, change, &fault.gpu, &error) != 0)
		return sim_exit_with(call, &error);

	if (fault.gpu == SIM_WHOLE_GPU)
		printf("simulated machine: %s\n", done);
	else
		printf("simulated GPU %u: %s\n", fault.gpu, done);

	return SIM_EXIT_OK;
}

static int heal_run(const struct cmd_call *call)
{
	return change_gpu(call, heal_change, "all faults taken back");
}

static int reset_run(const struct cmd_call *call)
{
	return change_gpu(call, reset_change, "reset");
}

static int reload_run(const struct cmd_call *call)
{
	return change_gpu(call, reload_change, "driver reloaded");
}

const struct command cmd_sim_heal = {
    .name = "heal",
    .summary = "Take all injected faults back",
    .description = "Without --gpu also the standing faults of functions and the driver's. Counters "
		   "stay as they are.",
    .group = CMD_GROUP_SIMULATOR,
    .run = heal_run,
    .options = gpu_rows,
    .defaults = &inject_defaults,
    .options_size = sizeof(struct inject_options),
    .exits = exits,
};

const struct command cmd_sim_reset_gpu = {
    .name = "reset-gpu",
    .summary = "Reset a simulated GPU, as nvidia-smi --gpu-reset would",
    .description = "Clears volatile ECC counters; pending ECC and MIG modes, remapped rows and "
		   "retired pages take effect. Refused while processes use the GPU.",
    .group = CMD_GROUP_SIMULATOR,
    .run = reset_run,
    .options = gpu_rows,
    .defaults = &inject_defaults,
    .options_size = sizeof(struct inject_options),
    .exits = exits,
};

const struct command cmd_sim_reload_driver = {
    .name = "reload-driver",
    .summary = "Unload and load the simulated driver",
    .description = "Resets every GPU; energy and link counters begin anew. Refused while processes "
		   "use a GPU.",
    .group = CMD_GROUP_SIMULATOR,
    .run = reload_run,
    .options = where_rows,
    .defaults = &inject_defaults,
    .options_size = sizeof(struct inject_options),
    .exits = exits,
};

static int clock_change(struct sim_machine *machine, void *context, struct sim_error *error)
{
	(void)machine, (void)context, (void)error;
	return 0; /* what the time brought about (a GPU that overheated) shows in the files as well
		   */
}

static int clock_run(const struct cmd_call *call)
{
	const struct inject_options *options = call->options;
	struct sim_error error = {0};
	uint64_t ns;

	if (strcmp(call->argv[0], "advance") != 0)
		return cmd_usage(call, "unknown verb '%s': write clock advance T", call->argv[0]);
	if (parse_duration(call->argv[1], 0, UINT64_MAX / 2, &ns) != 0 || ns % SIM_TICK_NS != 0)
		return cmd_usage(call, "'%s' is not a time in steps of 100ms, such as 10s",
				 call->argv[1]);

	_cleanup_sim_state_ struct sim_state *state = sim_open(&options->where, true, &error);
	if (!state || sim_state_advance(state, ns / SIM_TICK_NS, &error) != 0 ||
	    sim_change(state, true, clock_change, NULL, &error) != 0)
		return sim_exit_with(call, &error);

	uint64_t tick = sim_state_read(state)->tick;

	sim_state_read_done(state);
	printf("simulated time is %llu.%llu s\n", (unsigned long long)tick / SIM_TICKS_PER_SECOND,
	       (unsigned long long)tick % SIM_TICKS_PER_SECOND);
	return SIM_EXIT_OK;
}

static int sync_run(const struct cmd_call *call)
{
	const struct inject_options *options = call->options;
	struct sim_error error = {0};
	_cleanup_sim_state_ struct sim_state *state = sim_open(&options->where, true, &error);
	if (!state || sim_change(state, true, clock_change, NULL, &error) != 0)
		return sim_exit_with(call, &error);
	printf("simulated files are up to date\n");
	return SIM_EXIT_OK;
}

const struct command cmd_sim_sync = {
    .name = "sync",
    .summary = "Bring the simulated files up to date",
    .description = "Every verb that changes the machine does this. It is needed only after a "
		   "program changed MIG instances through the library, which writes no files, or "
		   "when physics let a GPU fail.",
    .group = CMD_GROUP_SIMULATOR,
    .run = sync_run,
    .options = where_rows,
    .defaults = &inject_defaults,
    .options_size = sizeof(struct inject_options),
    .exits = exits,
};

static const struct cmd_example clock_examples[] = {
    {"sluice sim clock advance 10s", "ten seconds pass at once"},
    {NULL, NULL},
};

const struct command cmd_sim_clock = {
    .name = "clock",
    .summary = "Move the time of a machine that has a virtual clock",
    .description = "For machines of `sluice sim start --clock virtual`, on which time moves only "
		   "so.",
    .group = CMD_GROUP_SIMULATOR,
    .run = clock_run,
    .options = where_rows,
    .defaults = &inject_defaults,
    .options_size = sizeof(struct inject_options),
    .positional = "advance T",
    .positional_words = "advance",
    .positional_min = 2,
    .positional_max = 2,
    .exits = exits,
    .examples = clock_examples,
};

static int log_change(struct sim_machine *machine, void *context, struct sim_error *error)
{
	const char *path = context;
	if (path[0] != '\0' && path[0] != '/')
		return sim_fail(error, SIM_EXIT_INPUT,
				"'%s': give an absolute path: every program writes to it", path);
	if (snprintf(machine->log, sizeof(machine->log), "%s", path) >= (int)sizeof(machine->log))
		return sim_fail(error, SIM_EXIT_INPUT, "the path of the log is too long");
	return 0;
}

static int log_run(const struct cmd_call *call)
{
	const struct inject_options *options = call->options;
	struct sim_error error = {0};
	bool off = call->argc > 0 && strcmp(call->argv[0], "off") == 0;
	_cleanup_sim_state_ struct sim_state *state =
	    sim_open(&options->where, call->argc > 0, &error);
	if (!state ||
	    (call->argc > 0 &&
	     sim_change(state, false, log_change, off ? (char[]){""} : call->argv[0], &error) != 0))
		return sim_exit_with(call, &error);

	const struct sim_machine *machine = sim_state_read(state);
	printf("simulated library's call log: %s\n", machine->log[0] ? machine->log : "off");
	sim_state_read_done(state);

	return SIM_EXIT_OK;
}

const struct command cmd_sim_log = {
    .name = "log",
    .summary = "Log every call of the simulated library to a file, or stop that",
    .description = "One line per call: time, process, thread, function, device, return code, "
		   "microseconds. Without an argument it says where the log goes.",
    .group = CMD_GROUP_SIMULATOR,
    .run = log_run,
    .options = where_rows,
    .defaults = &inject_defaults,
    .options_size = sizeof(struct inject_options),
    .positional = "[FILE|off]",
    .positional_max = 1,
    .exits = exits,
};
