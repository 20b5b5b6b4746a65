/* SPDX-License-Identifier: Apache-2.0 */
/* The forms are those that https://github.com/leptonai/gpud and NVIDIA's XID pages show. */
#include "hardware/kmsg.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "unit/unit.h"

static enum kmsg_kind parse(const char *record, struct kmsg_xid *out)
{
	struct kmsg_parser parser = {.lines = 0};
	memset(out, 0xee, sizeof(*out));
	return kmsg_parse(&parser, record, strlen(record), out);
}

static void test_new_form(void **state)
{
	struct kmsg_xid xid;
	assert_int_equal(parse("4,1234,5678901,-;NVRM: Xid (PCI:0000:07:00): 31, pid=4242, "
			       "name=python3, Ch 00000008, MMU Fault\n SUBSYSTEM=pci\n",
			       &xid),
			 KMSG_XID);
	assert_int_equal(xid.xid, 31);
	assert_int_equal(xid.sequence, 1234);
	assert_int_equal(xid.time_us, 5678901);
	assert_int_equal(xid.pci.bus, 7);
	assert_int_equal(xid.pid, 4242);
	assert_int_equal(xid.gi, KMSG_NONE);
	assert_string_equal(xid.text, "Ch 00000008, MMU Fault");
}

static void test_old_and_partial_forms(void **state)
{
	struct kmsg_xid xid;
	assert_int_equal(
	    parse("3,1,2,-;NVRM: Xid (0000:85:00): 79, GPU has fallen off the bus.", &xid),
	    KMSG_XID);
	assert_int_equal(xid.pci.bus, 0x85);
	assert_int_equal(xid.pid, KMSG_NONE);
	assert_int_equal(parse("3,1,2,-;NVRM: Xid (PCI:0000:85:00): 45, pid='<unknown>', "
			       "name=<unknown>, Ch 00000010",
			       &xid),
			 KMSG_XID);
	assert_int_equal(xid.pid, KMSG_NONE);
	assert_string_equal(xid.text, "Ch 00000010");
	assert_int_equal(parse("3,1,2,-;NVRM: Xid (PCI:0000:85:00): 45, pid=7, Ch 1", &xid),
			 KMSG_XID);
	assert_int_equal(xid.pid, 7);
	assert_string_equal(xid.text, "Ch 1");
	assert_int_equal(parse("3,1,2,-;NVRM: Xid (PCI:0000:85:00): 62", &xid), KMSG_XID);
	assert_int_equal(xid.xid, 62);
	assert_string_equal(xid.text, "");
	assert_int_equal(parse("3,1,2;NVRM: Xid (PCI:0000:85:00): 62", &xid), KMSG_XID);
}

static void test_mig_form(void **state)
{
	struct kmsg_xid xid;
	assert_int_equal(
	    parse("4,1,2,-;NVRM: Xid (PCI:0000:07:00 GPU-I:09): 43, pid=1, name=a, b", &xid),
	    KMSG_XID);
	assert_int_equal(xid.gi, 9);
	assert_int_equal(xid.xid, 43);
}

static void test_fallen_without_number(void **state)
{
	struct kmsg_xid xid;
	assert_int_equal(parse("3,1,2,-;NVRM: GPU 0000:b7:00.0: GPU has fallen off the bus.", &xid),
			 KMSG_XID);
	assert_int_equal(xid.xid, 79);
	assert_int_equal(xid.pci.bus, 0xb7);
	assert_int_equal(parse("3,1,2,-;NVRM: GPU b7:00.0: GPU has fallen off the bus.", &xid),
			 KMSG_XID);
	assert_int_equal(xid.pci.bus, 0xb7);
	assert_int_equal(parse("3,1,2,-;NVRM: GPU b7:00.0: GPU serial number is 1.", &xid),
			 KMSG_OTHER);
}

static void test_three_lines(void **state)
{
	struct kmsg_parser parser = {.lines = 0};
	struct kmsg_xid xid;
	static const char *const lines[] = {
	    "3,1,2,-;NVRM: The NVIDIA GPU 0000:b7:00.0",
	    "3,2,2,-;NVRM: (PCI ID: 10de:20b0) installed in this system has",
	    "3,3,2,-;NVRM: fallen off the bus and is not responding to commands.",
	};
	assert_int_equal(kmsg_parse(&parser, lines[0], strlen(lines[0]), &xid), KMSG_CONTINUE);
	assert_int_equal(kmsg_parse(&parser, lines[1], strlen(lines[1]), &xid), KMSG_CONTINUE);
	assert_int_equal(kmsg_parse(&parser, lines[2], strlen(lines[2]), &xid), KMSG_XID);
	assert_int_equal(xid.xid, 79);
	assert_int_equal(xid.pci.bus, 0xb7);
	/* the last line alone says nothing */
	assert_int_equal(kmsg_parse(&parser, lines[2], strlen(lines[2]), &xid), KMSG_OTHER);
	/* nor does it after something else came between */
	assert_int_equal(kmsg_parse(&parser, lines[0], strlen(lines[0]), &xid), KMSG_CONTINUE);
	static const char other[] = "3,3,2,-;NVRM: something else";
	assert_int_equal(kmsg_parse(&parser, other, strlen(other), &xid), KMSG_OTHER);
	assert_int_equal(kmsg_parse(&parser, lines[2], strlen(lines[2]), &xid), KMSG_OTHER);
}

/* With a number, without one and in three lines: one error. */
static void test_fallen_once(void **state)
{
	struct kmsg_parser parser = {.lines = 0};
	static const struct {
		const char *record;
		enum kmsg_kind kind;
	} rows[] = {
	    {"4,1,1000000,-;NVRM: Xid (PCI:0000:b7:00): 79, GPU has fallen off the bus.", KMSG_XID},
	    {"4,2,1000007,-;NVRM: GPU 0000:b7:00.0: GPU has fallen off the bus.", KMSG_OTHER},
	    {"4,3,1000007,-;NVRM: GPU 0000:b8:00.0: GPU has fallen off the bus.", KMSG_XID},
	    {"4,4,2000000,-;NVRM: Xid (PCI:0000:b7:00): 48, DBE", KMSG_XID},
	    {"4,5,2000000,-;NVRM: Xid (PCI:0000:b7:00): 48, DBE", KMSG_XID},
	    {"4,6,5999999,-;NVRM: Xid (PCI:0000:b7:00): 79, GPU has fallen off the bus.",
	     KMSG_OTHER},
	    {"4,7,6000000,-;NVRM: Xid (PCI:0000:b7:00): 79, GPU has fallen off the bus.", KMSG_XID},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct kmsg_xid xid;
		assert_int_equal(kmsg_parse(&parser, rows[i].record, strlen(rows[i].record), &xid),
				 rows[i].kind);
	}
	/* More GPUs than are remembered. */
	for (uint32_t i = 0; i < 3 * KMSG_FALLEN_MAX; i++) {
		char record[96];
		struct kmsg_xid xid;
		(void)snprintf(record, sizeof(record),
			       "4,8,7000000,-;NVRM: GPU %04x:01:00.0: GPU has fallen off the bus.",
			       i);
		assert_int_equal(kmsg_parse(&parser, record, strlen(record), &xid), KMSG_XID);
	}
}

static void test_nvlink5(void **state)
{
	struct kmsg_xid xid;
	assert_int_equal(
	    parse("3,1,2,-;NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_DOWN  Nonfatal   "
		  "XC0 i0 Link 12 (0x00000004 0x00000000)",
		  &xid),
	    KMSG_XID);
	assert_true(xid.has_severity);
	assert_false(xid.fatal);
	assert_int_equal(xid.link, 12);
	assert_int_equal(xid.pci.domain, 9);
	assert_int_equal(parse("3,1,2,-;NVRM: Xid (PCI:0009:01:00): 145, RLW_RXPIPE Fatal XC1 i0 "
			       "Link -1 (1 2)",
			       &xid),
			 KMSG_XID);
	assert_true(xid.fatal);
	assert_int_equal(xid.link, -1);
}

static void test_recovery_action(void **state)
{
	struct kmsg_xid xid;
	assert_int_equal(
	    parse("3,1,2,-;NVRM: Xid (PCI:0000:07:00): 154, GPU recovery action changed "
		  "from 0x0 (None) to 0x1 (GPU Reset Required)",
		  &xid),
	    KMSG_XID);
	assert_int_equal(xid.recovery_action, 1);
	assert_int_equal(parse("3,1,2,-;NVRM: Xid (PCI:0000:07:00): 154, text", &xid), KMSG_XID);
	assert_int_equal(xid.recovery_action, KMSG_NONE);
}

static void test_near_misses(void **state)
{
	static const char *const records[] = {
	    "3,1,2,-;NVRM: Xid error: something",
	    "3,1,2,-;NVRM: Xid (PCI:00zz:07:00): 31, pid=1",
	    "3,1,2,-;NVRM: Xid (PCI:0000:07:00): abc, pid=1",
	    "3,1,2,-;NVRM: Xid (PCI:0000:07:00): 31abc",
	    "3,1,2,-;NVRM: Xid (PCI:0000:07:00): 99999999",
	    "3,1,2,-;NVRM: Xid (PCI:0000:07:00 31, pid=1",
	    "3,1,2,-; NVRM: Xid (PCI:0000:07:00): 31, pid=1",
	    "3,1,2,-;kernel: NVRM: Xid (PCI:0000:07:00): 31, pid=1",
	    "3,1,2,-;nvrm: Xid (PCI:0000:07:00): 31, pid=1",
	    "x,1,2,-;NVRM: Xid (PCI:0000:07:00): 31, pid=1",
	    "3,1;NVRM: Xid (PCI:0000:07:00): 31, pid=1",
	    "NVRM: Xid (PCI:0000:07:00): 31, pid=1",
	    "",
	    ";",
	    "3,1,2,-;",
	};
	struct kmsg_xid xid;
	for (size_t i = 0; i < array_length(records); i++)
		assert_int_equal(parse(records[i], &xid), KMSG_OTHER);
}

/* logger(1) writes facility 1 ("user") into the log: 1 << 3 | 4. */
static void test_forged(void **state)
{
	struct kmsg_parser parser = {.lines = 0};
	struct kmsg_xid xid;
	static const char record[] = "12,1,2,-;NVRM: Xid (PCI:0000:07:00): 79, gone";
	assert_int_equal(kmsg_parse(&parser, record, strlen(record), &xid), KMSG_FORGED);
	assert_int_equal(parser.forged, 1);
}

static void test_unprintable_text(void **state)
{
	struct kmsg_xid xid;
	assert_int_equal(parse("3,1,2,-;NVRM: Xid (PCI:0000:07:00): 13, a\x1b[31mb\xff", &xid),
			 KMSG_XID);
	assert_string_equal(xid.text, "a?[31mb?");
}

static void test_sequence(void **state)
{
	uint64_t sequence = 0;
	assert_true(kmsg_parse_sequence("6,77,2,-;text", 13, &sequence));
	assert_int_equal(sequence, 77);
	assert_false(kmsg_parse_sequence("text", 4, &sequence));
}

static void test_duplicates(void **state)
{
	struct kmsg_recent recent = {.next = 0};
	struct pci_address a = {.bus = 7}, b = {.bus = 8};
	uint64_t second = 1000000000;
	enum { NVML, KMSG };
	assert_false(kmsg_is_duplicate(&recent, &a, 31, NVML, 10 * second));
	assert_true(kmsg_is_duplicate(&recent, &a, 31, KMSG, 11 * second));
	/* a second one from the log is a second error */
	assert_false(kmsg_is_duplicate(&recent, &a, 31, KMSG, 12 * second));
	assert_true(kmsg_is_duplicate(&recent, &a, 31, NVML, 12 * second));
	/* other GPU, other code, too late */
	assert_false(kmsg_is_duplicate(&recent, &a, 48, NVML, 20 * second));
	assert_false(kmsg_is_duplicate(&recent, &b, 48, KMSG, 20 * second));
	assert_false(kmsg_is_duplicate(&recent, &a, 63, KMSG, 20 * second));
	assert_false(kmsg_is_duplicate(&recent, &a, 48, KMSG, 26 * second));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_new_form),	    cmocka_unit_test(test_old_and_partial_forms),
	    cmocka_unit_test(test_mig_form),	    cmocka_unit_test(test_fallen_without_number),
	    cmocka_unit_test(test_three_lines),	    cmocka_unit_test(test_nvlink5),
	    cmocka_unit_test(test_recovery_action), cmocka_unit_test(test_near_misses),
	    cmocka_unit_test(test_forged),	    cmocka_unit_test(test_unprintable_text),
	    cmocka_unit_test(test_fallen_once),	    cmocka_unit_test(test_sequence),
	    cmocka_unit_test(test_duplicates),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
