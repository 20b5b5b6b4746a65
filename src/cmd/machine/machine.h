/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the commands that look at the machine share: asking the probe once, within a deadline, and
 * the line above what they print.
 */
#ifndef SLUICE_CMD_MACHINE_MACHINE_H
#define SLUICE_CMD_MACHINE_MACHINE_H

#include <jansson.h>
#include <stdint.h>

#include "cmd/cmd.h"
#include "hardware/gpu.h"
#include "hardware/snapshot.h"
#include "probe/client.h"

#define MACHINE_TIMEOUT_NS UINT64_C(30000000000)

struct machine {
	struct inventory inventory;
	struct snapshot *snapshot; /* owned */
};

#define _cleanup_machine_ __attribute__((cleanup(machine_done)))
void machine_done(struct machine *machine);

/* The rows that every such command has; `type` has uint32_t output and uint64_t timeout_ns. */
#define MACHINE_TIMEOUT_ROW(type)                                                                  \
	{                                                                                          \
		.name = "timeout", .kind = OPTION_DURATION, .min = 100000000,                      \
		.max = UINT64_C(3600000000000),                                                    \
		.help = "how long to wait for the driver at most (default 30s)",                   \
		OPTION_FIELD(type, timeout_ns)                                                     \
	}

/*
 * Asks the driver. 0, or the exit code after the error was printed. `on_event` may be NULL; with it
 * the kernel log is read as well.
 */
int machine_read(const struct cmd_call *call, uint64_t timeout_ns, struct machine *out,
		 void (*on_event)(const struct probe_event *event, void *context), void *context);

/* "8 simulated GPUs, driver 580.105.08, CUDA 13.0, library /usr/lib/..." on standard output. */
void machine_headline(const struct inventory *inventory);
/* Driver, versions, library and `simulated`, for the JSON of a command. NULL: no memory. */
json_t *machine_json(const struct inventory *inventory);
/* "0000:07:00.0", or "" when it is not known. Returns `out`. */
const char *machine_bus(const struct gpu *gpu, char out[PCI_TEXT_MAX]);
/* A number, or null for one that is not known. */
json_t *machine_json_u32(uint32_t value);
json_t *machine_json_u64(uint64_t value);

enum { MACHINE_PROCESS_NAME_MAX = 64 };
/* What /proc says of a process: its name ("" when it is gone) and whose it is. */
void machine_process(uint32_t pid, char out_name[MACHINE_PROCESS_NAME_MAX], uint32_t *out_uid);

extern const struct cmd_exit_row machine_exits[];

#endif
