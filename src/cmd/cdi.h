/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of `sluice cdi`, one file each, in the order of the alphabet. */
#ifndef SLUICE_CMD_CDI_H
#define SLUICE_CMD_CDI_H

#include "cmd/cmd.h"

extern const struct command cmd_cdi_generate;

#endif
