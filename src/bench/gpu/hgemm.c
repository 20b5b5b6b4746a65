/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/gpu/hgemm.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/parse.h"
#include "bench/half.h"

enum { HGEMM_NUMBERS = 3 };

int hgemm_size_read(const char *text, struct hgemm_size *out, struct err *err)
{
	uint64_t number[HGEMM_NUMBERS];
	size_t count = 0;
	const char *at = text;

	while (count < HGEMM_NUMBERS) {
		size_t length = strcspn(at, ",");
		if (parse_u64_span(at, length, 1, HGEMM_EDGE_MAX, &number[count]) < 0)
			break;

		count++;
		at += length;
		if (*at != ',')
			break;

		at++;
	}

	if (*at != '\0' || (count != 1 && count != HGEMM_NUMBERS) || (at > text && at[-1] == ','))
		return err_set(err, -EINVAL,
			       "size '%.40s': wants M,N,K, or one number for all three, up to %d",
			       text, HGEMM_EDGE_MAX);

	struct hgemm_size size = {(uint32_t)number[0], (uint32_t)number[count > 1 ? 1 : 0],
				  (uint32_t)number[count > 1 ? 2 : 0]};
	if (size.m % HGEMM_TILE || size.n % HGEMM_TILE || size.k % HGEMM_TILE_K)
		return err_set(err, -EINVAL, "size: M and N must be multiples of %d, K of %d",
			       HGEMM_TILE, HGEMM_TILE_K);

	*out = size;
	return 0;
}

double hgemm_operations(const struct hgemm_size *size)
{
	return 2.0 * size->m * size->n * size->k;
}

void hgemm_grid(const struct hgemm_size *size, uint32_t *out_x, uint32_t *out_y)
{
	*out_x = size->n / HGEMM_TILE;
	*out_y = size->m / HGEMM_TILE;
}

void hgemm_bytes(const struct hgemm_size *size, size_t *out_a, size_t *out_b, size_t *out_c)
{
	*out_a = (size_t)size->m * size->k * sizeof(uint16_t);
	*out_b = (size_t)size->n * size->k * sizeof(uint16_t);
	*out_c = (size_t)size->m * size->n * sizeof(float);
}

int hgemm_check_one(const struct hgemm_size *size, uint32_t row, uint32_t column, const uint16_t *a,
		    const uint16_t *b, float value, struct err *err)
{
	double sum = 0;
	for (uint32_t i = 0; i < size->k; i++)
		sum += (double)half_to_float(a[i]) * (double)half_to_float(b[i]);
	if (fabs((double)value - sum) <= 1e-2 * sqrt(size->k)) /* false for a NaN */
		return 0;
	return err_set(err, -EBADMSG, "C[%u][%u] of the product %ux%ux%u is %.9g, should be %.9g",
		       row, column, size->m, size->n, size->k, (double)value, sum);
}
