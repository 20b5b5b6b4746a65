/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/health_marks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "unit/unit.h"

#define BOOT "6f0c0b5e-2a4e-4a40-9d3a-0242ac120002"

static const char *const sample = "sluice-health 1\n"
				  "boot " BOOT "\n"
				  "kmsg 4711\n"
				  "gpu GPU-1 3 0000:07:00.0 NVIDIA A100-SXM4-40GB\n"
				  "energy 123456\n"
				  "ecc 2\n"
				  "held hung\n"
				  "held remap-failure\n"
				  "action 2\n"
				  "text it did not come back\n"
				  "recovery 1\n"
				  "accepted\n"
				  "xid 48 1764000000000000000 3 0 4711 - - reset-seen\n"
				  "xid 145 1764000000000000001 - - - 4 fatal -\n"
				  "xid 146 5 7 - - - nonfatal -\n"
				  "gpu GPU-2 4 - \n"
				  "end\n";

static void test_what_is_written_is_read(void **state)
{
	struct health_marks marks;
	struct err err = {0};
	int rc = health_marks_parse(sample, strlen(sample), &marks, &err);
	if (rc == -ENOMEM)
		return;
	assert_int_equal(rc, 0);
	assert_string_equal(marks.boot, BOOT);
	assert_int_equal(marks.kmsg_sequence, 4711);
	assert_int_equal(marks.count, 2);
	const struct health_track *track = &marks.marks[0].track;
	assert_string_equal(marks.marks[0].name, "NVIDIA A100-SXM4-40GB");
	assert_int_equal(track->event_count, 3);
	assert_int_equal(track->event[0].xid, 48);
	assert_int_equal(track->event[0].ci, 0);
	assert_true(track->event[0].reset_seen);
	assert_int_equal(track->event[1].gi, SNAPSHOT_WHOLE_GPU);
	assert_int_equal(track->event[1].recovery_action, 4);
	assert_true(track->event[1].fatal && track->event[2].has_severity);
	assert_int_equal(track->ecc.value, 2);
	assert_false(health_mark_is_empty(track));
	assert_true(health_mark_is_empty(&marks.marks[1].track));
	_cleanup_buf_ struct buf text;
	buf_init(&text, HEALTH_MARKS_FILE_MAX);
	rc = health_marks_begin(&text, marks.boot, marks.kmsg_sequence);
	for (uint32_t i = 0; rc == 0 && i < marks.count; i++)
		rc = health_marks_add(&text, &marks.marks[i]);
	if (rc == 0)
		rc = health_marks_end(&text);
	if (rc != -ENOMEM) {
		assert_int_equal(rc, 0);
		assert_string_equal(buf_text(&text), sample);
	}
	health_marks_done(&marks);
}

static void refuses(const char *text, size_t length)
{
	struct health_marks marks = {.count = 77};
	struct err err = {0};
	int rc = health_marks_parse(text, length, &marks, &err);
	if (rc == -ENOMEM)
		return;
	assert_int_equal(rc, -EINVAL);
	assert_true(err.text[0] != '\0');
	assert_int_equal(marks.count, 77); /* untouched */
}

static void test_a_cut_file_is_refused(void **state)
{
	for (size_t length = 0; length < strlen(sample); length++)
		refuses(sample, length);
}

static void test_damage_is_refused(void **state)
{
	static const char *const texts[] = {
	    "sluice-health 2\nend\n",
	    "sluice-health 1\nend\nend\n",
	    "sluice-health 1\nxid 48 1 - - - - - -\nend\n", /* of no GPU */
	    "sluice-health 1\nkmsg 18446744073709551615\nend\n",
	    "sluice-health 1\nboot \nend\n",
	    "sluice-health 1\nmore 1\nend\n",
	    "sluice-health 1\ngpu  0 - \nend\n",
	    "sluice-health 1\ngpu G 0 -\nend\n",
	    "sluice-health 1\ngpu G 0 - \nheld nonsense\nend\n",
	    "sluice-health 1\ngpu G 0 - \naccepted x\nend\n",
	    "sluice-health 1\ngpu G 0 - \nenergy\nend\n",
	    "sluice-health 1\ngpu G 0 - \nxid 4294967296 1 - - - - - -\nend\n",
	    "sluice-health 1\ngpu G 0 - \nxid 48 -1 - - - - - -\nend\n",
	    "sluice-health 1\ngpu G 0 - \nxid 48 1 - - - - grave -\nend\n",
	    "sluice-health 1\ngpu G 0 - \nxid 48 1 - - - - - seen\nend\n",
	    "sluice-health 1\ngpu G 0 - \nxid 48 1 - - - - - - -\nend\n",
	    "sluice-health 1\ngpu G 0 - \nxid 48 1 - - - - -\nend\n",
	};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		refuses(texts[i], strlen(texts[i]));
	refuses("sluice-health 1\nend\0\n", 21);
}

static void test_caps(void **state)
{
	_cleanup_buf_ struct buf text;
	buf_init(&text, HEALTH_MARKS_FILE_MAX);
	int rc = health_marks_begin(&text, "", HEALTH_MARKS_NO_SEQUENCE);
	for (uint32_t i = 0; rc == 0 && i <= HEALTH_MARKS_GPU_MAX; i++)
		rc = buf_printf(&text, "gpu G%u 0 - \n", i);
	if (rc == 0)
		rc = health_marks_end(&text);
	if (rc == 0)
		refuses(buf_text(&text), text.length);
	buf_clear(&text);
	rc = buf_add_text(&text, "sluice-health 1\ngpu G 0 - \n");
	for (uint32_t i = 0; rc == 0 && i <= HEALTH_EVENT_MAX; i++)
		rc = buf_add_text(&text, "xid 48 1 - - - - - -\n");
	if (rc == 0)
		rc = health_marks_end(&text);
	if (rc == 0)
		refuses(buf_text(&text), text.length);
}

/* What comes from the driver cannot break the lines. */
static void test_texts_are_cleaned(void **state)
{
	_cleanup_buf_ struct buf text;
	buf_init(&text, HEALTH_MARKS_FILE_MAX);
	struct health_mark mark = {.uuid = "GPU-1", .name = "a\nb", .track.held_text = "x\ny\x7f"};
	int rc = health_marks_begin(&text, "", HEALTH_MARKS_NO_SEQUENCE);
	if (rc == 0)
		rc = health_marks_add(&text, &mark);
	if (rc == 0)
		rc = health_marks_end(&text);
	struct health_marks marks;
	if (rc == 0)
		rc = health_marks_parse(buf_text(&text), text.length, &marks, NULL);
	if (rc == -ENOMEM)
		return;
	assert_int_equal(rc, 0);
	assert_string_equal(marks.marks[0].name, "a b");
	assert_string_equal(marks.marks[0].track.held_text, "x y ");
	health_marks_done(&marks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_what_is_written_is_read),
	    cmocka_unit_test(test_a_cut_file_is_refused),
	    cmocka_unit_test(test_damage_is_refused),
	    cmocka_unit_test(test_caps),
	    cmocka_unit_test(test_texts_are_cleaned),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
