/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of `sluice cdi`, one file each, in the order of the alphabet, and what they share. */
#ifndef SLUICE_CMD_SERVICE_CDI_H
#define SLUICE_CMD_SERVICE_CDI_H

#include <stdint.h>

#include "cmd/cmd.h"

/* Of `check`, beside 0. */
enum cdi_exit { CDI_EXIT_STALE = 1, CDI_EXIT_UNREADABLE = 2 };

struct err;
struct option_list;
struct scan;

extern const struct command cmd_cdi_check;
extern const struct command cmd_cdi_generate;
extern const struct command cmd_cdi_list;

/* The row of those that read CDI files; the field is a struct option_list. */
#define CDI_DIRECTORY_ROW(type, member)                                                            \
	{                                                                                          \
		.name = "cdi-dir", .kind = OPTION_LIST, .value = "DIR",                            \
		.help = "look here instead of in /etc/cdi and /var/run/cdi; may be given again, "  \
			"a later one has a higher priority",                                       \
		OPTION_FIELD(type, member)                                                         \
	}

/* Reads them: of these directories, or of the machine's when there are none. As scan_read(). */
int cdi_scan(const struct option_list *directories, struct scan *out, struct err *err);

/* `check --apply`: prints the OCI configuration in `path` with the devices in it. The exit code. */
int cdi_apply(const struct cmd_call *call, const struct scan *scan, const char *path,
	      const struct option_list *devices);

/* `check --image-env`: whether the GPUs that the arguments name, else all, are what the image whose
 * environment is in `path` requires. The exit code. */
int cdi_image_env(const struct cmd_call *call, const char *path, uint64_t timeout_ns);

#endif
