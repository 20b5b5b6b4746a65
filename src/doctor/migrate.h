/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values for our Helm chart that do what the policies of NVIDIA's operators do, of what
 * sluice-cluster found of them (libexec/cluster/digest.h). Pure: knows no cluster. Whatever the
 * policies say is printed as JSON, which is YAML: nothing in it can become another key.
 */
#ifndef SLUICE_DOCTOR_MIGRATE_H
#define SLUICE_DOCTOR_MIGRATE_H

struct buf;
struct err;
struct json_t;

/* Appends the values file with its comments. -ENOENT: the cluster has neither policy; -ENOSPC,
 * -ENOMEM. */
int migrate_values(const struct json_t *facts, struct buf *out, struct err *err);

#endif
