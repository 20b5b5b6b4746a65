/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/xid.h"

#include <errno.h>

#include "base/check.h"
#include "unit/unit.h"

/* Every code from 0 to 172 and 999, spelled out once more by class: the table may not drift. */
static void test_every_code(void **state)
{
	static const uint16_t app[] = {
	    8,	 11,  13,  25,	31,  32,  39,  40,  41,	 43,  45,  60,	68,  69,  70,  71,  72,
	    75,	 76,  77,  80,	82,  83,  84,  85,  86,	 88,  89,  94,	96,  97,  98,  99,  100,
	    101, 102, 103, 104, 105, 109, 126, 127, 128, 129, 130, 131, 132, 133, 134, 135, 139};
	static const uint16_t info[] = {14,  37,  38,  44,  63,	 66,  67,  92,	93,  106,
					107, 108, 121, 137, 141, 152, 153, 154, 157, 159,
					160, 161, 162, 163, 164, 165, 166, 171, 172};
	static const uint16_t reset[] = {46,  48,  62,	64,  74,  95,  110, 119, 120, 136, 140,
					 143, 144, 145, 146, 147, 148, 149, 150, 155, 156, 158};
	static const uint16_t reboot[] = {79, 151};
	enum xid_class expected[1000];
	for (size_t i = 0; i < array_length(expected); i++)
		expected[i] = XID_INSPECT;
	for (size_t i = 0; i < array_length(app); i++)
		expected[app[i]] = XID_APP;
	for (size_t i = 0; i < array_length(info); i++)
		expected[info[i]] = XID_INFO;
	for (size_t i = 0; i < array_length(reset); i++)
		expected[reset[i]] = XID_RESET;
	for (size_t i = 0; i < array_length(reboot); i++)
		expected[reboot[i]] = XID_REBOOT;
	for (uint32_t xid = 0; xid < array_length(expected); xid++) {
		if (xid_class_of(xid) != expected[xid])
			fail_msg("XID %u is %s, not %s", xid,
				 xid_class_to_string(xid_class_of(xid)),
				 xid_class_to_string(expected[xid]));
	}
	assert_int_equal(xid_class_of(UINT32_MAX), XID_INSPECT);
}

static void test_words(void **state)
{
	assert_string_equal(xid_name(79), "the GPU has fallen off the bus");
	assert_string_equal(xid_name(1), "");
	assert_string_equal(xid_class_to_string(99), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_every_code),
	    cmocka_unit_test(test_words),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
