/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `sluice devices` and nvidia-container-cli (container_cli.c) print alike: the GPUs and the
 * driver's files, as lines that scripts know. Called by those two.
 */
#ifndef SLUICE_CMD_MACHINE_DEVICES_H
#define SLUICE_CMD_MACHINE_DEVICES_H

#include "cmd/machine/machine.h"
#include "cmd/options.h"

/*
 * The driver's versions and a block, or a row of comma-separated values, for each GPU: the output
 * of `nvidia-container-cli info`. Returns the exit code; CMD_EXIT_FAILED when a GPU does not
 * answer: it is printed with what is known of it, and named on standard error.
 */
int devices_info(const struct cmd_call *call, uint64_t timeout_ns, bool csv);

/* What is wanted of devices_files(); nothing set: everything. */
struct devices_files {
	struct option_list devices, mig_config, mig_monitor; /* devices_select.h */
	bool libraries, binaries, ipcs, firmwares;
	bool compat32; /* 32-bit libraries, where libraries are wanted */
};

/* Whether one of them is set. */
bool devices_files_is_set(const struct devices_files *files);

/*
 * One path on each line, in the order of `nvidia-container-cli list`: nodes of the driver, of GPUs
 * and of MIG devices, programs, libraries, 32-bit libraries, sockets, firmware. They are those that
 * programs see below `driver_root` (NULL: /). Returns the exit code; nothing is printed when the
 * driver as a whole is not right.
 */
int devices_files(const struct cmd_call *call, const struct devices_files *files,
		  const char *driver_root, uint64_t timeout_ns);

extern const struct cmd_exit_row devices_exits[];

/* The rows for a table of options; `type` has a struct devices_files `member`. The letters are
 * nvidia-container-cli's, 0 where they mean something else. */
#define DEVICES_FILES_ROWS(type, member, d, l, b, i, f)                                            \
	{.name = "device",                                                                         \
	 .letter = (d),                                                                            \
	 .kind = OPTION_LIST,                                                                      \
	 .value = "ID",                                                                            \
	 .help = "nodes of the driver and of these devices: index, UUID, PCI address, 0:1 for a "  \
		 "MIG device, all, none; with commas, or given again",                             \
	 OPTION_FIELD(type, member.devices)},                                                      \
	    {.name = "libraries",                                                                  \
	     .letter = (l),                                                                        \
	     .kind = OPTION_FLAG,                                                                  \
	     .help = "the driver's libraries",                                                     \
	     OPTION_FIELD(type, member.libraries)},                                                \
	    {.name = "binaries",                                                                   \
	     .letter = (b),                                                                        \
	     .kind = OPTION_FLAG,                                                                  \
	     .help = "the driver's programs",                                                      \
	     OPTION_FIELD(type, member.binaries)},                                                 \
	    {.name = "ipcs",                                                                       \
	     .letter = (i),                                                                        \
	     .kind = OPTION_FLAG,                                                                  \
	     .help = "sockets of the driver's services, and the directory of MPS",                 \
	     OPTION_FIELD(type, member.ipcs)},                                                     \
	    {.name = "firmwares",                                                                  \
	     .letter = (f),                                                                        \
	     .kind = OPTION_FLAG,                                                                  \
	     .help = "the GPUs' firmware",                                                         \
	     OPTION_FIELD(type, member.firmwares)},                                                \
	    {.name = "compat32",                                                                   \
	     .kind = OPTION_FLAG,                                                                  \
	     .help = "with --libraries: 32-bit ones, too",                                         \
	     OPTION_FIELD(type, member.compat32)},                                                 \
	    {.name = "mig-config",                                                                 \
	     .kind = OPTION_LIST,                                                                  \
	     .value = "ID",                                                                        \
	     .words = "all",                                                                       \
	     .help = "what it takes to change the MIG instances of the devices: only 'all'",       \
	     OPTION_FIELD(type, member.mig_config)},                                               \
	{                                                                                          \
		.name = "mig-monitor", .kind = OPTION_LIST, .value = "ID", .words = "all",         \
		.help = "what it takes to watch the MIG instances of the devices: only 'all'",     \
		OPTION_FIELD(type, member.mig_monitor)                                             \
	}

#endif
