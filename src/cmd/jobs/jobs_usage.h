/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice jobs usage`: what users and projects have had of the machine. */
#ifndef SLUICE_CMD_JOBS_JOBS_USAGE_H
#define SLUICE_CMD_JOBS_JOBS_USAGE_H

struct command;

extern const struct command jobs_usage;

#endif
