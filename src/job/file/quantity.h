/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantities as Kubernetes writes them: "500m" processors, "1.5Gi" or "1e3" bytes. Pure.
 *
 * https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
 */
#ifndef SLUICE_JOB_FILE_QUANTITY_H
#define SLUICE_JOB_FILE_QUANTITY_H

#include <stdint.h>

enum quantity_limits {
	QUANTITY_DIGITS_MAX = 18, /* without zeros in front */
};

/*
 * `text` in units of 1/`scale` (1 or 1000), rounded up as Kubernetes does. -EINVAL: not a quantity;
 * -ERANGE: negative, or beyond what 63 bits or QUANTITY_DIGITS_MAX hold.
 */
int quantity_parse(const char *text, uint32_t scale, uint64_t *out);

#endif
