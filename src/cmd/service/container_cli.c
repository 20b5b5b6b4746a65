/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this program is when a link to it is called nvidia-container-cli: `info` and `list`, whose
 * output is that of NVIDIA's program of this name, for scripts and for container engines that run
 * it. `configure` does not exist: it mounts into a file system that the container controls.
 *
 * Facts: https://github.com/NVIDIA/libnvidia-container, src/cli.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "cmd/cmd.h"
#include "cmd/machine/devices.h"
#include "cmd/options.h"

/* Before the command. Only `root` does something here: no module is loaded, nothing is logged, and
 * no other user is needed. */
struct program_options {
	bool load_kmods, no_pivot, no_create_imex_channels, version;
	const char *root, *ldcache, *user, *debug;
};

/* ---- info ---- */

struct info_options {
	bool csv;
};

static const struct option_row info_rows[] = {
    {.name = "csv",
     .kind = OPTION_FLAG,
     .help = "print comma-separated values",
     OPTION_FIELD(struct info_options, csv)},
    {.name = NULL},
};

static int info(const struct cmd_call *call)
{
	const struct info_options *options = call->options;
	return devices_info(call, MACHINE_TIMEOUT_NS, options->csv);
}

static const struct command cmd_info = {
    .name = "info",
    .summary = "Report the driver and the GPUs",
    .group = CMD_GROUP_SERVICE,
    .run = info,
    .options = info_rows,
    .options_size = sizeof(struct info_options),
    .exits = devices_exits,
};

/* ---- list ---- */

struct list_options {
	struct devices_files files;
};

static const struct option_row list_rows[] = {
    DEVICES_FILES_ROWS(struct list_options, files, 'd', 'l', 'b', 'i', 'f'),
    {.name = NULL},
};

static int list(const struct cmd_call *call)
{
	const struct list_options *options = call->options;
	const struct program_options *program = call->outer;
	return devices_files(call, &options->files, program ? program->root : NULL,
			     MACHINE_TIMEOUT_NS);
}

static const struct command cmd_list = {
    .name = "list",
    .summary = "List the nodes and files that a container with GPUs needs",
    .description = "One path on each line. Without an option: all of them.",
    .group = CMD_GROUP_SERVICE,
    .run = list,
    .options = list_rows,
    .options_size = sizeof(struct list_options),
    .exits = devices_exits,
};

/* ---- the program ---- */

static const struct option_row program_rows[] = {
    {.name = "root",
     .letter = 'r',
     .kind = OPTION_PATH,
     .help = "the directory below which the driver is installed (default /)",
     OPTION_FIELD(struct program_options, root)},
    {.name = "load-kmods",
     .letter = 'k',
     .kind = OPTION_FLAG,
     .help = "taken and ignored: no kernel module is loaded",
     OPTION_FIELD(struct program_options, load_kmods)},
    {.name = "ldcache",
     .letter = 'l',
     .kind = OPTION_PATH,
     .help = "taken and ignored: libraries are looked for in the directories, too",
     OPTION_FIELD(struct program_options, ldcache)},
    {.name = "user",
     .letter = 'u',
     .kind = OPTION_TEXT,
     .value = "UID[:GID]",
     .bare = "",
     .help = "taken and ignored: there is nothing to drop",
     OPTION_FIELD(struct program_options, user)},
    {.name = "debug",
     .letter = 'd',
     .kind = OPTION_PATH,
     .help = "taken and ignored: what is wrong is said on standard error",
     OPTION_FIELD(struct program_options, debug)},
    {.name = "no-pivot",
     .letter = 'n',
     .kind = OPTION_FLAG,
     .help = "taken and ignored: no root file system is changed",
     OPTION_FIELD(struct program_options, no_pivot)},
    {.name = "no-create-imex-channels",
     .kind = OPTION_FLAG,
     .help = "taken and ignored: no node is created",
     OPTION_FIELD(struct program_options, no_create_imex_channels)},
    {.name = "version",
     .letter = 'V',
     .kind = OPTION_FLAG,
     .help = "show the version",
     OPTION_FIELD(struct program_options, version)},
    {.name = NULL},
};

/* Options before the command, or something that is no command. */
static int run(const struct cmd_call *call)
{
	const struct program_options *options = call->options;
	if (options->version) {
		/* The two lines that scripts look for; the number is ours. */
		printf("cli-version: %s\nlib-version: %s\n", cmd_version(), cmd_version());
		return CMD_EXIT_OK;
	}

	if (call->argc == 0)
		return cmd_usage(call, "a command is missing: info or list");

	if (strcmp(call->argv[0], "configure") == 0) {
		struct err err = {.code = 0};
		(void)err_set(&err, -ENOTSUP,
			      "there is no 'configure', which would change a container's file "
			      "system as root: 'sluice cdi generate' makes a CDI specification "
			      "with which container engines do it themselves");
		return cmd_fail(call, CMD_EXIT_USAGE, &err);
	}

	return cmd_verb(call);
}

static const struct command *const verbs[] = {&cmd_info, &cmd_list, NULL};

static const struct command container_cli = {
    .name = "nvidia-container-cli",
    .summary = "Reports GPUs and driver files as NVIDIA's program of this name does",
    .commands = verbs,
    .run = run,
    .options = program_rows,
    .options_size = sizeof(struct program_options),
    .positional = "COMMAND",
    .positional_max = CMD_ARGUMENTS_ANY,
    .takes_command = true,
};

int container_cli_main(int argc, char **argv)
{
	return cmd_main(&container_cli, argc, argv);
}
