/* SPDX-License-Identifier: Apache-2.0 */
/* The table of subcommands, and that of other programs that this one is when it is called by their
 * names. cmd/cmd.h says how one is added. */
#include <stddef.h>
#include <string.h>

#include "cmd/cmd.h"

/* In the order in which `sluice --help` shows them within their groups. */
static const struct command *const commands[] = {
    &cmd_run,	    &cmd_jobs,	     &cmd_logs,	    &cmd_attach, &cmd_cancel,
    &cmd_top,	    &cmd_devices,    &cmd_topo,	    &cmd_health, &cmd_labels,
    &cmd_processes, &cmd_doctor,     &cmd_validate, &cmd_agent,	 &cmd_config,
    &cmd_cdi,	    &cmd_runtime,    &cmd_probe,    &cmd_web,	 &cmd_bench,
    &cmd_mlperf,    &cmd_controller, &cmd_sim,	    &cmd_help,	 &cmd_completion,
    &cmd_dump,	    &cmd_complete,   NULL,
};

static const struct cmd_exit_row exits[] = {
#define CMD_EXIT(name, code, meaning) {CMD_EXIT_##name, meaning},
#include "cmd/exits.def"
#undef CMD_EXIT
    {0, NULL},
};

static const struct command sluice = {
    .name = "sluice",
    .summary = "Runs deep-learning jobs on NVIDIA GPUs and shares those GPUs between them",
    .commands = commands,
    .exits = exits,
};

/* By a link of this name to sluice; none of them is installed. */
static const struct program {
	const char *name;
	int (*main)(int argc, char **argv);
} programs[] = {
    {"nvidia-container-cli", container_cli_main},
    {"sluice-runtime", runtime_wrapper_main},
};

int main(int argc, char **argv)
{
	const char *path = argc > 0 ? argv[0] : "";
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		if (strcmp(name, programs[i].name) == 0)
			return programs[i].main(argc, argv);
	}

	return cmd_main(&sluice, argc, argv);
}
