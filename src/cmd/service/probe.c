/* SPDX-License-Identifier: Apache-2.0 */
/* sluice probe: the process that asks the driver. Started by the service and by other commands. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/parse.h"
#include "cmd/cmd.h"
#include "cmd/options.h"
#include "hardware/pci.h"
#include "probe/server.h"

struct probe_call_options {
	uint32_t fd, marks_fd;
	uint64_t period_ns, sequence, log_after;
	bool once, kernel_log, log_is_live;
	struct option_list skip;
};

static const struct option_row rows[] = {
    {.name = "fd",
     .kind = OPTION_U32,
     .help = "socket to whoever started it",
     .min = 3,
     .max = 65535,
     .required = true,
     OPTION_FIELD(struct probe_call_options, fd)},
    {.name = "marks-fd",
     .kind = OPTION_U32,
     .help = "memory file in which it notes which call it is in",
     .min = 3,
     .max = 65535,
     .required = true,
     OPTION_FIELD(struct probe_call_options, marks_fd)},
    {.name = "period-ns",
     .kind = OPTION_U64,
     .help = "nanoseconds between samples (default one second)",
     .min = 1000000,
     .max = UINT64_C(3600000000000),
     OPTION_FIELD(struct probe_call_options, period_ns)},
    {.name = "sequence",
     .kind = OPTION_U64,
     .help = "number of the last snapshot of the probe before this one",
     OPTION_FIELD(struct probe_call_options, sequence)},
    {.name = "once",
     .kind = OPTION_FLAG,
     .help = "send one inventory and one snapshot, then end",
     OPTION_FIELD(struct probe_call_options, once)},
    {.name = "kernel-log",
     .kind = OPTION_FLAG,
     .help = "report XIDs from the kernel log",
     OPTION_FIELD(struct probe_call_options, kernel_log)},
    {.name = "log-is-live",
     .kind = OPTION_FLAG,
     .help = "what is in the kernel log already is news, not history",
     OPTION_FIELD(struct probe_call_options, log_is_live)},
    {.name = "log-after",
     .kind = OPTION_U64,
     .help = "leave out the records of the kernel log up to this number",
     OPTION_FIELD(struct probe_call_options, log_after)},
    {.name = "skip",
     .kind = OPTION_LIST,
     .value = "INDEX/BUS",
     .help = "do not ask this GPU anything: a call on it has hung",
     OPTION_FIELD(struct probe_call_options, skip)},
    {.name = NULL},
};

static const struct probe_call_options defaults = {
    .period_ns = UINT64_C(1000000000),
    .log_after = UINT64_MAX,
};

static int parse_skip(const char *text, struct inventory_skip *out)
{
	const char *slash = strchr(text, '/');
	uint64_t index;

	if (!slash || strlen(slash + 1) >= sizeof(out->bus) ||
	    parse_u64_span(text, (size_t)(slash - text), 0, UINT32_MAX, &index) < 0)
		return -EINVAL;

	out->index = (uint32_t)index;
	(void)snprintf(out->bus, sizeof(out->bus), "%s", slash + 1);
	return 0;
}

static bool is_socket(uint32_t fd)
{
	struct stat info;
	return fstat((int)fd, &info) == 0 && S_ISSOCK(info.st_mode);
}

static int run(const struct cmd_call *call)
{
	const struct probe_call_options *options = call->options;
	struct inventory_skip skip[GPU_MAX];
	uint32_t count = 0;

	for (size_t i = 0; i < options->skip.count && count < GPU_MAX; i++) {
		if (parse_skip(options->skip.items[i], &skip[count++]) < 0)
			return cmd_usage(call, "--skip '%s' is not INDEX/BUS",
					 options->skip.items[i]);
	}

	if (!is_socket(options->fd))
		return cmd_usage(call,
				 "descriptor %u is no socket: the probe is started by other "
				 "commands; try 'sluice devices'",
				 options->fd);

	const struct server_options server = {
	    .fd = (int)options->fd,
	    .marks_fd = (int)options->marks_fd,
	    .once = options->once,
	    .kernel_log = options->kernel_log,
	    .log_is_live = options->log_is_live,
	    .period_ns = options->period_ns,
	    .kmsg_after = options->log_after,
	    .snapshot_sequence = options->sequence,
	    .root = pci_root(),
	    .skip = skip,
	    .skip_count = count,
	};
	server_run(&server);
}

static const struct cmd_exit_row exits[] = {
    {CMD_EXIT_OK, "what was asked for has been sent, or whoever asked is gone"},
    {CMD_EXIT_FAILED, "it ran out of memory"},
    {0, NULL},
};

const struct command cmd_probe = {
    .name = "probe",
    .summary = "Ask the driver, for other commands and the service",
    .description =
	"The only process of sluice that loads NVIDIA's NVML library. It sends what it sees over a "
	"socket to whoever started it. A driver call that does not come back costs one such "
	"process and nothing else: it is left behind, and a new one asks all GPUs but that one.\n\n"
	"It is not meant to be started by hand: 'sluice devices' shows what it sees.",
    .group = CMD_GROUP_SERVICE,
    .run = run,
    .options = rows,
    .defaults = &defaults,
    .options_size = sizeof(struct probe_call_options),
    .exits = exits,
};
