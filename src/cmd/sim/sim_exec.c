/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice sim env` and `sluice sim exec`: what a program needs to see the simulated machine. */
#include "cmd/sim/sim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/execute.h"
#include "cmd/sim/sim_mounts.h"
#include "sim/trees.h"

struct exec_options {
	struct sim_where where;
	bool mounts;
};

enum { VARIABLE_COUNT = 5, VARIABLE_MAX = 4096 };

struct variable {
	const char *name;
	char value[VARIABLE_MAX];
};

static int variables_fill(const struct sim_where *where, struct variable variable[VARIABLE_COUNT],
			  char root[SIM_PATH_MAX], struct sim_error *error)
{
	char state_path[SIM_PATH_MAX], library[SIM_PATH_MAX];
	_cleanup_sim_state_ struct sim_state *state = sim_open(where, false, error);
	_cleanup_free_ struct sim_machine *machine = state ? sim_snapshot(state) : NULL;

	if (!state)
		return -1;
	if (!machine)
		return sim_fail(error, SIM_EXIT_FAILED, "out of memory");
	if (sim_where_state(where, state_path, error) != 0 ||
	    sim_library_dir(machine, library, error) != 0)
		return -1;

	/* what was searched before is still searched, after the simulated library */
	const char *before = getenv("LD_LIBRARY_PATH");
	size_t length = strlen(library);
	bool there = before && strncmp(before, library, length) == 0 &&
		     (before[length] == ':' || before[length] == '\0');

	(void)snprintf(root, SIM_PATH_MAX, "%s", machine->root);
	variable[0].name = "LD_LIBRARY_PATH";

	int written =
	    snprintf(variable[0].value, VARIABLE_MAX, "%s%s%s", there ? before : library,
		     !there && before && before[0] ? ":" : "", !there && before ? before : "");
	if (written < 0 || written >= VARIABLE_MAX)
		return sim_fail(error, SIM_EXIT_FAILED, "LD_LIBRARY_PATH is too long");

	variable[1].name = "SLUICE_SIM_STATE";
	(void)snprintf(variable[1].value, VARIABLE_MAX, "%s", state_path);
	variable[2].name = "SLUICE_ROOT";
	(void)snprintf(variable[2].value, VARIABLE_MAX, "%s", root);
	variable[3].name = "SLUICE_RUNTIME_DIR";
	(void)snprintf(variable[3].value, VARIABLE_MAX, "%s/%s", root, SIM_TREES_RUNTIME);
	variable[4].name = "SLUICE_STATE_DIR";
	(void)snprintf(variable[4].value, VARIABLE_MAX, "%s/%s/state", root, SIM_TREES_RUNTIME);

	return 0;
}

static int env_run(const struct cmd_call *call)
{
	const struct exec_options *options = call->options;
	struct variable variable[VARIABLE_COUNT];
	struct sim_error error = {0};
	char root[SIM_PATH_MAX];

	if (variables_fill(&options->where, variable, root, &error) != 0)
		return sim_exit_with(call, &error);

	for (size_t i = 0; i < VARIABLE_COUNT; i++) {
		char word[VARIABLE_MAX * 4 + 3];
		printf("export %s=%s # simulated\n", variable[i].name,
		       sim_shell_word(variable[i].value, true, word, sizeof(word)));
	}

	return SIM_EXIT_OK;
}

static int exec_run(const struct cmd_call *call)
{
	const struct exec_options *options = call->options;
	struct variable variable[VARIABLE_COUNT];
	struct sim_error error = {0};
	struct err err = {0};
	char root[SIM_PATH_MAX];

	if (variables_fill(&options->where, variable, root, &error) != 0)
		return sim_exit_with(call, &error);

	for (size_t i = 0; i < VARIABLE_COUNT; i++) {
		if (setenv(variable[i].name, variable[i].value, 1) != 0) {
			(void)err_set(&err, -ENOMEM, "cannot set %s", variable[i].name);
			return cmd_fail(call, CMD_EXIT_LAUNCH, &err);
		}
	}

	if (options->mounts && sim_mounts_enter(root, &err) != 0)
		return cmd_fail(call,
				err.code == -EPERM || err.code == -EACCES ? CMD_EXIT_NOT_PERMITTED
									  : CMD_EXIT_LAUNCH,
				&err);

	int rc = execute(call->argv);
	(void)err_set(&err, rc, "cannot run '%s': %s", call->argv[0], err_describe(rc));
	return cmd_fail(call, rc == -ENOENT ? CMD_EXIT_NOT_FOUND : CMD_EXIT_NOT_EXECUTABLE, &err);
}

static const struct option_row env_rows[] = {SIM_WHERE_ROWS(struct exec_options), {0}};

static const struct option_row exec_rows[] = {
    {.name = "mounts",
     .kind = OPTION_FLAG,
     .help = "put the simulated /dev, /proc/driver, /sys and /var/run/cdi in place of the real "
	     "ones, in a mount "
	     "namespace of the program's own (needs root)",
     OPTION_FIELD(struct exec_options, mounts)},
    SIM_WHERE_ROWS(struct exec_options),
    {0},
};

static const struct cmd_exit_row env_exits[] = {SIM_EXIT_ROWS, {0, NULL}};

static const struct cmd_exit_row exec_exits[] = {
    SIM_EXIT_ROWS,
    {CMD_EXIT_NOT_PERMITTED, "--mounts is not permitted here"},
    {CMD_EXIT_LAUNCH, "the program's surroundings could not be made"},
    {CMD_EXIT_NOT_EXECUTABLE, "the program cannot be executed"},
    {CMD_EXIT_NOT_FOUND, "the program was not found"},
    {0, NULL},
};

static const struct cmd_example env_examples[] = {
    {"eval \"$(sluice sim env)\"", "let this shell and all it starts see the simulated machine"},
    {NULL, NULL},
};

static const struct cmd_example exec_examples[] = {
    {"sluice sim exec -- sluice devices", "sluice on the simulated machine"},
    {"sluice sim exec -- nvtop", "any program that loads libnvidia-ml.so.1"},
    {"sluice sim exec --mounts -- lspci", "a program that reads /sys itself"},
    {NULL, NULL},
};

const struct command cmd_sim_env = {
    .name = "env",
    .summary = "Print the variables with which programs see the simulated machine",
    .description =
	"Prints lines for a shell: LD_LIBRARY_PATH (finds the simulated "
	"libnvidia-ml.so.1), SLUICE_SIM_STATE (the machine), SLUICE_ROOT (its /dev, /proc "
	"and /sys), SLUICE_RUNTIME_DIR (locks and sockets of this machine alone) and "
	"SLUICE_STATE_DIR (the jobs of its service).",
    .group = CMD_GROUP_SIMULATOR,
    .run = env_run,
    .options = env_rows,
    .options_size = sizeof(struct exec_options),
    .exits = env_exits,
    .examples = env_examples,
};

const struct command cmd_sim_exec = {
    .name = "exec",
    .summary = "Run a program that sees the simulated machine",
    .description = "Sets the variables of `sluice sim env` and becomes the program.",
    .group = CMD_GROUP_SIMULATOR,
    .run = exec_run,
    .options = exec_rows,
    .options_size = sizeof(struct exec_options),
    .positional = "[--] COMMAND [ARGUMENT...]",
    .positional_min = 1,
    .positional_max = CMD_ARGUMENTS_ANY,
    .takes_command = true,
    .exits = exec_exits,
    .examples = exec_examples,
};
