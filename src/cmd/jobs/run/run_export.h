/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice run --export`: what is asked for, as a batch/v1 Job for kubectl and for --file. Pure. */
#ifndef SLUICE_CMD_JOBS_RUN_RUN_EXPORT_H
#define SLUICE_CMD_JOBS_RUN_RUN_EXPORT_H

struct buf;
struct err;
struct run_request;

/* Appends YAML. -EINVAL names what a cluster has no word for; -ENOMEM, -E2BIG. */
int run_export(const struct run_request *request, struct buf *out, struct err *err);

#endif
