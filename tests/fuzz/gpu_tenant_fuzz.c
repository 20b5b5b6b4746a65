/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as what a load has printed, and as the size of a product. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "bench/gpu/hgemm.h"
#include "bench/gpu/tenants.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tenant_summary summary;
	struct hgemm_size product;
	struct err err = {0};
	char *text = malloc(size + 1);
	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	if (tenant_summary_parse(text, size, &summary, &err) < 0) {
		if (err.text[0] == '\0')
			abort();
	} else if (!memchr(summary.throttle, '\0', sizeof(summary.throttle)) ||
		   !memchr(summary.device, '\0', sizeof(summary.device))) {
		abort();
	}
	if (hgemm_size_read(text, &product, &err) == 0 &&
	    (product.m % HGEMM_TILE || product.n % HGEMM_TILE || product.k % HGEMM_TILE_K ||
	     product.m == 0 || product.m > HGEMM_EDGE_MAX || product.n > HGEMM_EDGE_MAX ||
	     product.k > HGEMM_EDGE_MAX))
		abort();
	free(text);
	return 0;
}
