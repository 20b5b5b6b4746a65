/* SPDX-License-Identifier: Apache-2.0 */
/* What an agent says of itself, for people and for programs. Called by `sluice agent status`. */
#ifndef SLUICE_CMD_SERVICE_AGENT_STATUS_H
#define SLUICE_CMD_SERVICE_AGENT_STATUS_H

#include <jansson.h>

#include "sluice.pb-c.h"

void agent_status_print(const Sluice__V1__StatusReply *reply);
/* Owned. */
json_t *agent_status_json(const Sluice__V1__StatusReply *reply);

#endif
