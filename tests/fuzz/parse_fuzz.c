/* SPDX-License-Identifier: Apache-2.0 */
/* Every number parser on the same bytes: no crash, nothing outside its range, out untouched on
 * failure, and the span and whole-text forms agree. */
#include "base/parse.h"

#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			abort();                                                                   \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';

	uint64_t span = 99, whole = 99;
	int rc = parse_u64_span(text, size, 5, 1000000, &span);
	CHECK(rc == 0 ? span >= 5 && span <= 1000000 : span == 99);
	if (strlen(text) == size)
		CHECK(parse_u64(text, 5, 1000000, &whole) == rc && whole == span);

	span = 99;
	rc = parse_hex_span(text, size, 0xffff, &span);
	CHECK(rc == 0 ? span <= 0xffff : span == 99);

	int64_t number = 99;
	rc = parse_i64(text, -1000, 1000, &number);
	CHECK(rc == 0 ? number >= -1000 && number <= 1000 : number == 99);
	whole = 99;
	rc = parse_size(text, 1000, UINT64_MAX, &whole);
	CHECK(rc == 0 ? whole >= 1000 : whole == 99);
	whole = 99;
	rc = parse_duration(text, 1000, UINT64_C(1) << 60, &whole);
	CHECK(rc == 0 ? whole >= 1000 && whole <= UINT64_C(1) << 60 : whole == 99);
	double fraction = 99;
	rc = parse_fraction(text, -1, 1, &fraction);
	CHECK(rc == 0 ? fraction >= -1 && fraction <= 1 : fraction == 99);
	bool truth = false;
	(void)parse_bool(text, &truth);
	free(text);
	return 0;
}
