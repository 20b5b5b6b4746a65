/* SPDX-License-Identifier: Apache-2.0 */
/* What `sluice config show` says of the lists of sluice.jobs: groups and volumes, as they could be
 * given again. */
#ifndef SLUICE_CMD_SERVICE_CONFIG_JOBS_H
#define SLUICE_CMD_SERVICE_CONFIG_JOBS_H

#include <jansson.h>

struct config;

/* The keys below `sluice.jobs`, as YAML that stands behind its last setting; nothing where none is
 * set. */
void config_jobs_print(const struct config *config);
/* NULL: there are none. A new reference. */
json_t *config_jobs_json(const struct config *config);

#endif
