/* SPDX-License-Identifier: Apache-2.0 */
/* What `sluice config` says of RDMA adapters: the part of sluice.rdma as it could be given again.
 */
#ifndef SLUICE_CMD_SERVICE_CONFIG_RDMA_H
#define SLUICE_CMD_SERVICE_CONFIG_RDMA_H

#include <jansson.h>

struct config;
struct err;

/* The keys below `sluice.rdma`, as YAML; nothing where none is set. */
void config_rdma_print(const struct config *config);
/* NULL: there is none. A new reference. */
json_t *config_rdma_json(const struct config *config);

/*
 * What this machine would hand out of its adapters: a table behind what was printed before, or
 * `*out` (a new reference; NULL: nothing is configured). Nothing where nothing is configured.
 * Errors of a configuration of its own, -ENOMEM.
 */
int config_rdma_resources_print(const struct config *config, struct err *err);
int config_rdma_resources_json(const struct config *config, json_t **out, struct err *err);

#endif
