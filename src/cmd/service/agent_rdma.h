/* SPDX-License-Identifier: Apache-2.0 */
/* What `sluice agent status` says of RDMA adapters. */
#ifndef SLUICE_CMD_SERVICE_AGENT_RDMA_H
#define SLUICE_CMD_SERVICE_AGENT_RDMA_H

#include <jansson.h>

#include "sluice.pb-c.h"

/* Nothing where no adapters are configured and nothing is wrong. */
void agent_rdma_print(const Sluice__V1__StatusReply *reply);
/* A new reference. */
json_t *agent_rdma_json(const Sluice__V1__StatusReply *reply);

#endif
