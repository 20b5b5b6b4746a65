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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ledger *ledger = NULL, *again = NULL;
	struct err err = {0};
	char *text = NULL;
	size_t length = 0;
	if (ledger_parse((const char *)data, size, "fuzz", &ledger, &err) < 0) {
		if (ledger || err.text[0] == '\0')
			abort();
		return 0;
	}
	if (ledger_format(ledger, &text, &length, &err) < 0 ||
	    ledger_parse(text, length, "again", &again, &err) < 0 ||
	    ledger_count(again) != ledger_count(ledger))
		abort();
	for (size_t i = 0; i < ledger_count(ledger); i++) {
		if (memcmp(ledger_at(ledger, i), ledger_at(again, i), sizeof(struct ledger_lease)))
			abort();
	}
	free(text);
	(void)ledger_free(ledger);
	(void)ledger_free(again);
	return 0;
}
