/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as reference convergence points: refused with a reason, or bounds that make sense for
 * every batch size. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/err.h"
#include "bench/rcp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void judge(const struct rcp_table *table, double batch_size)
{
	struct rcp_result result;
	double epochs[50];
	for (size_t i = 0; i < 50; i++)
		epochs[i] = i % 25 ? (double)i : NAN;
	if (rcp_judge(table, batch_size, epochs, 50, &result, NULL) < 0)
		abort();
	const struct rcp_record *reference = &result.reference;
	if (!(reference->fastest <= reference->mean) || !(reference->mean <= reference->slowest) ||
	    !(result.factor >= 1))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rcp_table table;
	struct err err = {0};
	if (rcp_table_parse((const char *)data, size, &table, &err) < 0) {
		if (err.text[0] == '\0')
			abort();
		return 0;
	}
	for (int pruned = 0; pruned < 2; pruned++) {
		judge(&table, 1e-9);
		for (size_t i = 0; i < table.count; i++) {
			judge(&table, table.records[i].batch_size);
			judge(&table, table.records[i].batch_size * 1.5);
		}
		if (rcp_table_prune(&table, &err) < 0)
			abort();
	}
	rcp_table_done(&table);
	return 0;
}
