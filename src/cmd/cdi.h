/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of `sluice cdi`, one file each, in the order of the alphabet, and what they share. */
#ifndef SLUICE_CMD_CDI_H
#define SLUICE_CMD_CDI_H

#include "cmd/cmd.h"

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

#endif
