/* SPDX-License-Identifier: Apache-2.0 */
/* The table of subcommands. cmd/cmd.h says how one is added. */
#include <stddef.h>

#include "cmd/cmd.h"

/* In the order in which `sluice --help` shows them within their groups. */
static const struct command *const commands[] = {
    &cmd_run,	 &cmd_jobs,   &cmd_logs,       &cmd_cancel, &cmd_top,	&cmd_devices,
    &cmd_topo,	 &cmd_health, &cmd_processes,  &cmd_agent,  &cmd_probe, &cmd_help,
    &cmd_config, &cmd_sim,    &cmd_completion, &cmd_dump,   NULL,
};

static const struct command sluice = {
    .name = "sluice",
    .summary = "Runs deep-learning jobs on NVIDIA GPUs and shares those GPUs between them",
    .commands = commands,
};

int main(int argc, char **argv)
{
	return cmd_main(&sluice, argc, argv);
}
