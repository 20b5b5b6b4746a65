/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the ledger's file: refused, or a ledger that is the same when written and read back.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "units/ledger.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_same(const struct ledger_lease *a, const struct ledger_lease *b)
{
	if (!b || strcmp(a->unit, b->unit) != 0 || strcmp(a->resource, b->resource) != 0 ||
	    strcmp(a->holder, b->holder) != 0 || a->door != b->door ||
	    a->since_unix_ns != b->since_unix_ns)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ledger *ledger = NULL, *again = NULL;
	struct err err = {0};
	size_t count = 0;

	if (ledger_parse((const char *)data, size, "fuzz", &ledger, &err) < 0) {
		if (ledger || err.text[0] == '\0')
			abort();
		return 0;
	}

	for (int door = 0; door < POLICY_DOOR_NONE; door++) {
		char *text = NULL;
		size_t length = 0;
		if (ledger_format(ledger, (enum policy_door)door, &text, &length, &err) < 0 ||
		    ledger_parse(text, length, "again", &again, &err) < 0)
			abort();

		for (size_t i = 0; i < ledger_count(again); i++)
			check_same(ledger_at(again, i),
				   ledger_find(ledger, ledger_at(again, i)->unit));

		count += ledger_count(again);
		again = ledger_free(again);
		free(text);
	}

	if (count != ledger_count(ledger))
		abort();
	(void)ledger_free(ledger);
	return 0;
}
