/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice sim start`: makes the machine from a profile, its state file and its trees. */
#include "cmd/sim/sim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/parse.h"
#include "sim/profile.h"
#include "sim/trees.h"

enum start_style { START_STYLE_AUTO, START_STYLE_NVIDIA, START_STYLE_OPENABLE, START_STYLE_FILE };
enum start_module { START_MODULE_PROFILE, START_MODULE_OPEN, START_MODULE_CLOSED };

struct start_options {
	struct sim_where where;
	const char *profile, *driver, *mig, *minors, *log, *host;
	uint32_t gpus, clock, style, visibility, layout, module, imex_channels;
	uint64_t seed;
	bool alongside, fabric, vgpu_guest, shared;
	struct option_list quirks, breaks;
};

static const struct option_row rows[] = {
    {.name = "profile",
     .letter = 'p',
     .kind = OPTION_TEXT,
     .value = "P",
     .words = "@profiles",
     .help = "the machine: a name of `sluice sim profiles` or a file (default: dgx-a100)",
     OPTION_FIELD(struct start_options, profile)},
    {.name = "gpus",
     .letter = 'n',
     .kind = OPTION_U32,
     .value = "N",
     .min = 1,
     .max = 64,
     .help = "only its first N GPUs",
     OPTION_FIELD(struct start_options, gpus)},
    {.name = "driver",
     .kind = OPTION_TEXT,
     .value = "V",
     .help = "driver version, such as 535.230.02; its first number chooses the library's age",
     OPTION_FIELD(struct start_options, driver)},
    {.name = "mig",
     .kind = OPTION_TEXT,
     .words = "none|single|mixed|half|empty|hetero",
     .value = "LAYOUT",
     .help = "MIG instances: none, single (7 x 1g each), mixed, half, empty, hetero (3g+2g+2g)",
     OPTION_FIELD(struct start_options, mig)},
    {.name = "minors",
     .kind = OPTION_TEXT,
     .value = "LIST",
     .help = "minor numbers of the GPUs, such as 3,1,0,2 (default: their indices)",
     OPTION_FIELD(struct start_options, minors)},
    {.name = "seed",
     .kind = OPTION_U64,
     .help = "same seed, same commands: same readings (default: 0)",
     OPTION_FIELD(struct start_options, seed)},
    {.name = "clock",
     .kind = OPTION_CHOICE,
     .words = "real|virtual",
     .help = "virtual: time moves only by `sluice sim clock advance` (default: real)",
     OPTION_FIELD(struct start_options, clock)},
    {.name = "dev-style",
     .kind = OPTION_CHOICE,
     .words = "auto|nvidia|openable|file",
     .help = "nodes in /dev: nvidia (the driver's numbers), openable (/dev/null and the like), "
	     "file (plain files); default: nvidia where nodes can be made, else file",
     OPTION_FIELD(struct start_options, style)},
    {.name = "visibility",
     .kind = OPTION_CHOICE,
     .words = "all|devnodes",
     .help = "devnodes: a process sees the GPUs whose nodes it may open (default: all)",
     OPTION_FIELD(struct start_options, visibility)},
    {.name = "layout",
     .kind = OPTION_CHOICE,
     .words = "debian|rhel",
     .help = "where the driver's libraries lie below the root (default: debian)",
     OPTION_FIELD(struct start_options, layout)},
    {.name = "kernel-module",
     .kind = OPTION_CHOICE,
     .words = "profile|open|closed",
     .help = "the form of /proc/driver/nvidia/version (default: as the profile says)",
     OPTION_FIELD(struct start_options, module)},
    {.name = "fabric",
     .kind = OPTION_FLAG,
     .help = "the GPUs belong to an NVLink fabric",
     OPTION_FIELD(struct start_options, fabric)},
    {.name = "imex-channels",
     .kind = OPTION_U32,
     .value = "N",
     .max = 64,
     .help = "channels in /dev/nvidia-caps-imex-channels",
     OPTION_FIELD(struct start_options, imex_channels)},
    {.name = "vgpu-guest",
     .kind = OPTION_FLAG,
     .help = "the GPUs are vGPUs of a guest",
     OPTION_FIELD(struct start_options, vgpu_guest)},
    {.name = "quirk",
     .kind = OPTION_LIST,
     .value = "NAME",
     .words = "procsize=100|procsize=4000|util>100|oldts|deadpid|memunknown|nodata|slowpcie|v1only|"
	      "tlimit|no-persistence|unsorted",
     .help = "behave as some real driver does; may be given again",
     OPTION_FIELD(struct start_options, quirks)},
    {.name = "break",
     .kind = OPTION_LIST,
     .value = "NAME",
     .words = "uvm-missing|stale-dri|wrong-minor|mode-0600",
     .help = "half-install the driver: uvm-missing, stale-dri, wrong-minor, mode-0600",
     OPTION_FIELD(struct start_options, breaks)},
    {.name = "log",
     .kind = OPTION_PATH,
     .help = "write every call of the library to this file",
     OPTION_FIELD(struct start_options, log)},
    {.name = "alongside",
     .kind = OPTION_FLAG,
     .help = "start although a real driver is installed; it is not touched",
     OPTION_FIELD(struct start_options, alongside)},
    {.name = "shared",
     .kind = OPTION_FLAG,
     .help = "let every user, who must trust each other, run programs on it and load it; faults "
	     "stay root's (needs root)",
     OPTION_FIELD(struct start_options, shared)},
    {.name = "host",
     .kind = OPTION_PATH,
     .help = "where a real driver is looked for",
     .hidden = true,
     OPTION_FIELD(struct start_options, host)},
    SIM_WHERE_ROWS(struct start_options),
    {0},
};

struct word_bit {
	const char *word;
	uint32_t bit;
};

static const struct word_bit quirk_words[] = {
    {"procsize=100", SIM_QUIRK_PROCSIZE_100},
    {"procsize=4000", SIM_QUIRK_PROCSIZE_4000},
    {"util>100", SIM_QUIRK_UTIL_OVER_100},
    {"oldts", SIM_QUIRK_OLDTS},
    {"deadpid", SIM_QUIRK_DEADPID},
    {"memunknown", SIM_QUIRK_MEMUNKNOWN},
    {"nodata", SIM_QUIRK_NODATA},
    {"slowpcie", SIM_QUIRK_SLOWPCIE},
    {"v1only", SIM_QUIRK_V1ONLY},
    {"tlimit", SIM_QUIRK_TLIMIT},
    {"no-persistence", SIM_QUIRK_NO_PERSISTENCE},
    {"unsorted", SIM_QUIRK_UNSORTED},
};

static const struct word_bit break_words[] = {
    {"uvm-missing", SIM_BREAK_UVM_MISSING},
    {"stale-dri", SIM_BREAK_STALE_DRI},
    {"wrong-minor", SIM_BREAK_WRONG_MINOR},
    {"mode-0600", SIM_BREAK_MODE_0600},
};

static int start_bits(const struct option_list *list, const char *what,
		      const struct word_bit *known, size_t count, uint32_t *bits,
		      struct sim_error *error)
{
	const char *names[16];
	for (size_t k = 0; k < count; k++)
		names[k] = known[k].word;

	for (size_t i = 0; i < list->count; i++) {
		size_t k = 0;
		while (k < count && strcmp(known[k].word, list->items[i]) != 0)
			k++;

		if (k < count) {
			*bits |= known[k].bit;
			continue;
		}

		const char *near =
		    sim_nearest(list->items[i], strlen(list->items[i]), names, count);
		return sim_fail(error, SIM_EXIT_INPUT, "unknown %s '%s'%s%s%s", what,
				list->items[i], near ? "; did you mean '" : "", near ? near : "",
				near ? "'?" : "");
	}

	return 0;
}

/* What tells that a real driver is here; NULL when there is none. It is never loaded or opened:
 * the loader's cache is searched for the library's name only. */
static const char *real_driver(const char *host)
{
	static const char *const sign[] = {
	    "/proc/driver/nvidia/version",
	    "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
	    "/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1",
	    "/usr/lib64/libnvidia-ml.so.1",
	    "/usr/lib/libnvidia-ml.so.1",
	    "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
	};
	static const char name[] = "libnvidia-ml.so.1";
	char path[FILE_PATH_MAX];

	for (size_t i = 0; i < array_length(sign); i++) {
		if (file_path(path, NULL, "%s%s", host, sign[i]) == 0 && access(path, F_OK) == 0)
			return sign[i];
	}

	_cleanup_buf_ struct buf cache;
	buf_init(&cache, 8 << 20);

	if (file_path(path, NULL, "%s/etc/ld.so.cache", host) == 0 &&
	    file_read(path, &cache, NULL) == 0 && cache.data &&
	    memmem(cache.data, cache.length, name, sizeof(name)))
		return "libnvidia-ml.so.1 in /etc/ld.so.cache";

	return NULL;
}

static int start_style(const struct start_options *options, struct sim_machine *machine)
{
	if (options->style == START_STYLE_NVIDIA)
		machine->dev_style = SIM_DEV_NVIDIA;
	else if (options->style == START_STYLE_OPENABLE)
		machine->dev_style = SIM_DEV_OPENABLE;
	else if (options->style == START_STYLE_FILE)
		machine->dev_style = SIM_DEV_FILE;
	else if (sim_trees_can_make_nodes())
		machine->dev_style = SIM_DEV_NVIDIA;
	else
		machine->dev_style = SIM_DEV_FILE;

	return options->style == START_STYLE_AUTO && machine->dev_style == SIM_DEV_FILE;
}

static int start_machine(const struct start_options *options, struct sim_machine *machine,
			 struct sim_error *error)
{
	const struct sim_options how = {
	    .gpu_count = options->gpus,
	    .seed = options->seed,
	    .driver_version = options->driver,
	    .mig_layout = options->mig,
	    .minors = options->minors,
	    .fabric = options->fabric,
	};
	uint32_t quirks = 0, breaks = 0;

	sim_profiles_find();
	if (start_bits(&options->quirks, "quirk", quirk_words, array_length(quirk_words), &quirks,
		       error) != 0 ||
	    start_bits(&options->breaks, "--break", break_words, array_length(break_words), &breaks,
		       error) != 0 ||
	    sim_profile_load(options->profile, &how, machine, error) != 0 ||
	    sim_where_root(&options->where, machine->root, error) != 0)
		return -1;

	machine->quirks |= quirks;
	machine->breaks |= breaks;
	machine->clock = options->clock;
	machine->visibility = options->visibility;
	machine->layout = options->layout;
	machine->imex_channels = options->imex_channels;
	machine->vgpu_guest = options->vgpu_guest;

	if (options->module != START_MODULE_PROFILE)
		machine->open_kernel_module = options->module == START_MODULE_OPEN;

	_cleanup_close_ int log_fd =
	    options->log
		? open(options->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644)
		: -1;
	if (options->log && log_fd < 0)
		return sim_fail(error, SIM_EXIT_INPUT, "--log '%s' cannot be written: %s",
				options->log, strerror(errno));
	if (options->log && snprintf(machine->log, sizeof(machine->log), "%s", options->log) >=
				(int)sizeof(machine->log))
		return sim_fail(error, SIM_EXIT_INPUT, "the path of --log is too long");

	return 0;
}

/* For every user: the state, and the file in which programs share the GPUs' time, which they cannot
 * make in root's directory. */
static int start_shared(const char *state, struct sim_error *error)
{
	char time[SIM_PATH_MAX + sizeof(SIM_STATE_CUDA_SUFFIX)];
	(void)snprintf(time, sizeof(time), "%s" SIM_STATE_CUDA_SUFFIX, state);

	_cleanup_close_ int fd =
	    open(time, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);

	if (fd < 0 || fchmod(fd, 0666) != 0 || chmod(state, 0666) != 0)
		return sim_fail(error, SIM_EXIT_FAILED, "cannot share '%s' with other users: %s",
				fd < 0 ? time : state, strerror(errno));

	return 0;
}

/* State first, because making it is what decides a race between two starts; then the trees. */
static int start_files(const struct start_options *options, const char *state,
		       struct sim_machine *machine, struct sim_error *error)
{
	char directory[SIM_PATH_MAX];

	/* those above a home's state may be missing; if this fails, making the state says why */
	if (!options->where.root && !options->where.state)
		(void)file_mkdirs(sim_state_default_dir(directory), 0755, NULL);

	/* files without the state that goes with them belong to a machine of another state */
	bool has_state = access(state, F_OK) == 0;
	if (!has_state && sim_trees_are_at(machine->root))
		return sim_fail(error, SIM_EXIT_LIVE,
				"'%s' holds the files of another simulated machine: use another "
				"--root, or remove them with: sluice sim stop --root %s",
				machine->root, machine->root);

	if (sim_state_create(state, machine, error) != 0)
		return -1;
	if (sim_trees_sync(machine, error) == 0 &&
	    (!options->shared || start_shared(state, error) == 0))
		return 0;

	(void)unlink(state);
	(void)sim_trees_remove(machine->root, NULL);
	return -1;
}

static int start_run(const struct cmd_call *call)
{
	const struct start_options *options = call->options;
	struct sim_error error = {0};
	char state[SIM_PATH_MAX];
	_cleanup_free_ struct sim_machine *machine = calloc(1, sizeof(*machine));
	if (!machine)
		return sim_exit_with(call, &(struct sim_error){.text = "out of memory"});

	const char *real = real_driver(options->host);
	if (real && !options->alongside) {
		(void)sim_fail(
		    &error, SIM_EXIT_REAL,
		    "a real NVIDIA driver is installed (%s); with --alongside the simulated "
		    "machine starts beside it and leaves it alone",
		    real);
		return sim_exit_with(call, &error);
	}

	if (start_machine(options, machine, &error) != 0 ||
	    sim_where_state(&options->where, state, &error) != 0)
		return sim_exit_with(call, &error);

	if (options->shared && geteuid() != 0) {
		(void)sim_fail(&error, CMD_EXIT_NOT_PERMITTED,
			       "--shared needs root; without it the machine is yours alone");
		return sim_exit_with(call, &error);
	}

	bool plain = start_style(options, machine) != 0;

	if (start_files(options, state, machine, &error) != 0)
		return sim_exit_with(call, &error);

	char where[SIM_PATH_MAX * 4 + 32] = "", word[SIM_PATH_MAX * 4 + 3];
	if (options->where.root || options->where.state || options->shared)
		(void)snprintf(where, sizeof(where), " --state %s",
			       sim_shell_word(state, false, word, sizeof(word)));

	printf("simulated machine started: %s, %u x %s, driver %s (all simulated)\n",
	       machine->profile, machine->gpu_count, machine->model[machine->gpu[0].model].name,
	       machine->driver_version);
	printf("simulated files in %s, simulated state in %s\n", machine->root, state);
	if (plain)
		printf("simulated device nodes are plain files: making real ones needs root\n");
	printf("run a program on the simulated machine:  sluice sim exec%s -- sluice devices\n",
	       where);
	printf("remove the simulated machine:            sluice sim stop%s\n", where);

	return SIM_EXIT_OK;
}

static const struct start_options defaults = {.profile = "dgx-a100", .host = ""};

static const struct cmd_exit_row exits[] = {
    {SIM_EXIT_FAILED, "the files or the state could not be written"},
    {SIM_EXIT_INPUT, "no such profile, or an error in it (FILE:LINE:COLUMN is printed)"},
    {SIM_EXIT_REAL, "a real driver is here and --alongside was not given"},
    {SIM_EXIT_FOREIGN, "a file in the way is a symbolic link or somebody else's"},
    {SIM_EXIT_LIVE, "a machine is running there already"},
    {CMD_EXIT_NOT_PERMITTED, "--shared was given, and not by root"},
    {0, NULL},
};

static const struct cmd_example examples[] = {
    {"sluice sim start --profile workstation", "two GeForce cards, no NVLink"},
    {"sluice sim start --profile dgx-a100 --mig mixed", "a DGX A100, four of its GPUs partitioned"},
    {"sluice sim start --clock virtual --seed 7", "a machine that repeats itself to the bit"},
    {NULL, NULL},
};

const struct command cmd_sim_start = {
    .name = "start",
    .summary = "Start a simulated machine",
    .description = "Makes the machine that a profile describes and prints how to use it. There is "
		   "no process to keep running: the machine is its state file and its files.",
    .group = CMD_GROUP_SIMULATOR,
    .run = start_run,
    .options = rows,
    .defaults = &defaults,
    .options_size = sizeof(struct start_options),
    .exits = exits,
    .examples = examples,
};
