/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice bench`: the table of its verbs. */
#include "cmd/proof/bench.h"

#include <stddef.h>

static const struct command *const verbs[] = {
    &cmd_bench_collectives, &cmd_bench_compare, &cmd_bench_gpu, &cmd_bench_storage, NULL,
};

static const struct cmd_example examples[] = {
    {"sluice bench compare --a './train' --b 'podman run --rm train'",
     "does the container cost anything?"},
    {"sluice bench collectives -b 8 -e 256M -f 2 -g 8", "how fast, and how right, is all_reduce?"},
    {"sluice bench storage /data --against /var/tmp", "is that volume slower than the disk?"},
    {NULL, NULL},
};

const struct command cmd_bench = {
    .name = "bench",
    .summary = "Measure what something costs, so that the figure can be relied upon",
    .description =
	"Compares two ways of running the same thing; measures and checks what ranks do together; "
	"loads GPUs; measures how fast storage is read.",
    .group = CMD_GROUP_PROOF,
    .commands = verbs,
    .examples = examples,
};
