/* SPDX-License-Identifier: Apache-2.0 */
/* Whose subordinate user ids are whose: any bytes. Whoever asks gets one owner, in or out of order.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "agent/jobs/shares.h"

enum { FUZZ_RANGES = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool find(const char *name, size_t length, uid_t *out, void *context)
{
	*out = 1000 + (unsigned char)name[length - 1];
	return length % 2 == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct account_range ranges[FUZZ_RANGES];
	size_t count = shares_parse((const char *)data, size, find, NULL, ranges, FUZZ_RANGES);
	struct account *account = account_new(0, NULL);
	if (!account || account_set_ranges(account, ranges, count) < 0)
		abort();
	for (size_t i = 0; i < count; i++) {
		uid_t last = ranges[i].first + (ranges[i].count - 1);
		bool first_is_found = false, last_is_found = false;
		if (ranges[i].count == 0 || last < ranges[i].first || ranges[i].owner == 0)
			abort();
		/* By one of those that have it. */
		for (size_t j = 0; j < count; j++) {
			first_is_found |=
			    account_owner(account, ranges[i].first) == ranges[j].owner;
			last_is_found |= account_owner(account, last) == ranges[j].owner;
		}
		if (!first_is_found || !last_is_found)
			abort();
	}
	if (account_force(account, ACCOUNT_CONNECTIONS, size > 0 ? data[0] : 0, 1, NULL) < 0)
		abort();
	(void)account_free(account);
	return 0;
}
