/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice sim`: the table of its verbs. */
#include "cmd/sim/sim.h"

#include <stddef.h>

static const struct command *const verbs[] = {
    &cmd_sim_start, &cmd_sim_stop,  &cmd_sim_status,	&cmd_sim_show,
    &cmd_sim_exec,  &cmd_sim_env,   &cmd_sim_load,	&cmd_sim_inject,
    &cmd_sim_heal,  &cmd_sim_fault, &cmd_sim_reset_gpu, &cmd_sim_reload_driver,
    &cmd_sim_clock, &cmd_sim_log,   &cmd_sim_profiles,	&cmd_sim_sync,
    NULL,
};

static const struct cmd_exit_row exits[] = {
    SIM_EXIT_ROWS,
    {SIM_EXIT_REAL, "a real driver is here and --alongside was not given"},
    {SIM_EXIT_LIVE, "a machine is running there already"},
    {0, NULL},
};

static const struct cmd_example examples[] = {
    {"sluice sim start --profile dgx-a100", "start a simulated DGX A100"},
    {"sluice sim exec -- sluice devices", "look at it as any program would"},
    {"sluice sim load --gpu 0 --util 0.8 --mem 8GiB -- sleep 60", "a process that works on GPU 0"},
    {"sluice sim inject xid 79 --gpu 3", "let GPU 3 fall off the bus"},
    {"sluice sim stop", "remove the machine and its files"},
    {NULL, NULL},
};

const struct command cmd_sim = {
    .name = "sim",
    .summary = "Simulate a GPU machine that NVML programs believe in",
    .description =
	"Starts, loads, breaks, heals and inspects a simulated machine: a libnvidia-ml.so.1 whose "
	"readings follow the work that is put on them, with the files that go with it below one "
	"directory (/dev, /proc, /sys, a kernel log, the driver's libraries). All processes that "
	"load the library see the same machine. No GPU and no driver is needed, and none is "
	"touched.\n\n"
	"A simulated result says nothing about how fast real hardware is.",
    .group = CMD_GROUP_SIMULATOR,
    .commands = verbs,
    .exits = exits,
    .examples = examples,
};
