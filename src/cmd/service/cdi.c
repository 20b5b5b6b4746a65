/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice cdi`: the table of its verbs. */
#include "cmd/service/cdi.h"

#include <stddef.h>

static const struct command *const verbs[] = {
    &cmd_cdi_check,
    &cmd_cdi_generate,
    &cmd_cdi_list,
    NULL,
};

static const struct cmd_example examples[] = {
    {"sluice cdi generate", "prints this machine's specification"},
    {"sluice cdi generate --output /etc/cdi/nvidia.json", "writes it where every runtime looks"},
    {NULL, NULL},
};

const struct command cmd_cdi = {
    .name = "cdi",
    .summary = "Give GPUs to containers by Container Device Interface specifications",
    .description =
	"podman, docker, containerd and CRI-O read files that say what a device is: which nodes, "
	"which of the driver's files. Ours hold nothing else: no hook, so that nothing of the host "
	"runs while a container is made.",
    .group = CMD_GROUP_SERVICE,
    .commands = verbs,
    .examples = examples,
};
