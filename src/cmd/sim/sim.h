/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the verbs of `sluice sim` share: where the machine lies, how its errors become exit codes.
 * Only src/cmd/sim/ includes this and "sim/...": nothing else of src/ may know the simulator.
 */
#ifndef SLUICE_CMD_SIM_SIM_H
#define SLUICE_CMD_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/cmd.h"
#include "cmd/options.h"
#include "sim/error.h"
#include "sim/machine.h"
#include "sim/state.h"

/* The first member of the options of every verb. */
struct sim_where {
	const char *root, *state;
};

#define SIM_WHERE_ROWS(type)                                                                       \
	{.name = "root",                                                                           \
	 .kind = OPTION_PATH,                                                                      \
	 .value = "DIR",                                                                           \
	 .help = "where the machine's files lie (default: /run/sluice/sim, for an ordinary user "  \
		 "$XDG_RUNTIME_DIR/sluice/sim, else ~/.local/state/sluice/sim)",                   \
	 OPTION_FIELD(type, where.root)},                                                          \
	{                                                                                          \
		.name = "state", .kind = OPTION_PATH, .value = "FILE",                             \
		.help = "its state file (default: DIR.state, else $SLUICE_SIM_STATE)",             \
		OPTION_FIELD(type, where.state)                                                    \
	}

/* The exit codes that every verb can have. */
#define SIM_EXIT_ROWS                                                                              \
	{SIM_EXIT_FAILED, "no machine is running there, or the operation failed"},                 \
	    {SIM_EXIT_INPUT, "no such GPU, instance, fault, function or profile"},                 \
	{                                                                                          \
		SIM_EXIT_FOREIGN, "a file in the way is a symbolic link or somebody else's"        \
	}

/* Prints the error as the command's and returns its exit code. */
int sim_exit_with(const struct cmd_call *call, const struct sim_error *error);

/* The state file and, for `sim start`, the root that the options and the environment name.
 * Both absolute. 0 or -1. */
int sim_where_state(const struct sim_where *where, char out[SIM_PATH_MAX], struct sim_error *error);
int sim_where_root(const struct sim_where *where, char out[SIM_PATH_MAX], struct sim_error *error);

/* Opens the running machine. NULL with `error` (SIM_EXIT_FAILED, _FOREIGN) when there is none. */
struct sim_state *sim_open(const struct sim_where *where, bool for_writing,
			   struct sim_error *error);
/* A copy of the machine as of now; owned; NULL: out of memory. It takes 400 KB: never on the stack.
 */
struct sim_machine *sim_snapshot(struct sim_state *state);
/* "ok", "no-driver", ...: of enum sim_driver_state. */
const char *sim_driver_word(uint32_t state);

static inline void sim_state_cleanup(struct sim_state **state)
{
	*state = sim_state_close(*state);
}
#define _cleanup_sim_state_ __attribute__((cleanup(sim_state_cleanup)))

/* What --gpu and --mig name. */
struct sim_target {
	uint32_t gpu;
	uint32_t gi, ci; /* SIM_WHOLE_GPU unless a MIG instance was named */
};

/* "0", "GPU-51ce51ce-...", "MIG-51ce51ce-...", "all" (gpu = SIM_WHOLE_GPU; only with `all`).
 * `mig`: "GI/CI", "GI" or NULL. 0, or -1 with SIM_EXIT_INPUT. */
int sim_target_parse(const struct sim_machine *machine, const char *gpu, const char *mig, bool all,
		     struct sim_target *out, struct sim_error *error);

/* The directory with libnvidia-ml.so.1 of the age that fits the machine's driver. 0 or -1. */
int sim_library_dir(const struct sim_machine *machine, char out[SIM_PATH_MAX],
		    struct sim_error *error);

/* Sets $SLUICE_PROFILES, which says where the profiles lie, unless it is set: in the build tree or
 * beside the installed program. */
void sim_profiles_find(void);

/* Changes the machine: begins, calls `change`, brings the files up to date (unless `files` is
 * false: the change shows in none) and publishes; on failure nothing is published. 0 or -1. */
int sim_change(struct sim_state *state, bool files,
	       int (*change)(struct sim_machine *machine, void *context, struct sim_error *error),
	       void *context, struct sim_error *error);

/* `text` as one word of a shell, in quotes if it needs them or `always`. `size`: of `out`, four
 * times the text's length and 3 always suffice. Returns `out`. */
const char *sim_shell_word(const char *text, bool always, char *out, size_t size);

/* The verbs, one file each, in the order of the alphabet. */
extern const struct command cmd_sim_clock;
extern const struct command cmd_sim_env;
extern const struct command cmd_sim_exec;
extern const struct command cmd_sim_fault;
extern const struct command cmd_sim_heal;
extern const struct command cmd_sim_inject;
extern const struct command cmd_sim_load;
extern const struct command cmd_sim_log;
extern const struct command cmd_sim_profiles;
extern const struct command cmd_sim_reload_driver;
extern const struct command cmd_sim_reset_gpu;
extern const struct command cmd_sim_show;
extern const struct command cmd_sim_start;
extern const struct command cmd_sim_status;
extern const struct command cmd_sim_stop;
extern const struct command cmd_sim_sync;

#endif
