/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/packages/debian.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "tests/unit/unit.h"

static int rig_join(const struct package *package, void *context)
{
	return buf_printf(context, "%s %s %s|", package->name, package->version, package->arch);
}

static int rig_read(const char *text, size_t size, struct buf *out)
{
	struct debian debian;
	int result = 0;
	debian_init(&debian, rig_join, out);
	for (size_t at = 0, length = strlen(text); at < length && result == 0; at += size)
		result = debian_feed(&debian, text + at, length - at < size ? length - at : size);
	return result == 0 ? debian_end(&debian) : result;
}

static void test_paragraphs_in_pieces(void **state)
{
	static const char text[] = "Package: linux-headers-amd64\n"
				   "Source: linux-signed-amd64 (6.1.76+1)\n"
				   "Version: 6.1.76-1\n"
				   "Architecture: amd64\n"
				   "Description: header files\n"
				   " Package: not-this-one\n"
				   " .\n"
				   "\n"
				   "Package: gcc\nArchitecture: amd64\nVersion: 4:12.2.0-3\n\n\n"
				   "Package: half\n\n"
				   "Package: last\r\nVersion: 1\r\nArchitecture: all";
	for (size_t size = 1; size < sizeof(text); size++) {
		_cleanup_buf_ struct buf out;
		buf_init(&out, 1000);
		assert_int_equal(rig_read(text, size, &out), 0);
		assert_string_equal(buf_text(&out),
				    "linux-headers-amd64 6.1.76-1 amd64|gcc 4:12.2.0-3 amd64|"
				    "last 1 all|");
	}
}

static void test_lines_that_are_long(void **state)
{
	_cleanup_buf_ struct buf out, text;
	buf_init(&out, 1000);
	buf_init(&text, 100000);
	(void)buf_add_text(&text, "Package: a\nVersion: 1\nArchitecture: all\nDepends: ");
	for (int i = 0; i < 2000; i++)
		(void)buf_add_text(&text, "libc6, ");
	(void)buf_add_text(&text, "\n\nPackage: ");
	for (int i = 0; i < 100; i++)
		(void)buf_add_text(&text, "long-name-");
	(void)buf_add_text(&text, "\nVersion: 1\nArchitecture: all\n\nPackage:");
	/* One of which the end is not seen. */
	for (int i = 0; i < DEBIAN_LINE_MAX - 20; i++)
		(void)buf_add_text(&text, " ");
	(void)buf_add_text(&text, "name-that-is-cut\nVersion: 1\nArchitecture: all\n");
	assert_int_equal(rig_read(buf_text(&text), 1000, &out), 0);
	assert_string_equal(buf_text(&out), "a 1 all|");
}

static void test_what_is_no_index(void **state)
{
	_cleanup_buf_ struct buf out;
	buf_init(&out, 100);
	assert_int_equal(rig_read("<html>\n", 7, &out), -EBADMSG);
	assert_int_equal(rig_read(" goes on with nothing\n", 7, &out), -EBADMSG);
	assert_int_equal(rig_read("", 1, &out), 0);
	assert_string_equal(buf_text(&out), "");
}

static int rig_refuse(const struct package *package, void *context)
{
	return -ECANCELED;
}

static void test_a_sink_that_has_enough(void **state)
{
	static const char text[] = "Package: a\nVersion: 1\nArchitecture: all\n\nPackage: b\n";
	struct debian debian;
	debian_init(&debian, rig_refuse, NULL);
	assert_int_equal(debian_feed(&debian, text, strlen(text)), -ECANCELED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_paragraphs_in_pieces),
	    cmocka_unit_test(test_lines_that_are_long),
	    cmocka_unit_test(test_what_is_no_index),
	    cmocka_unit_test(test_a_sink_that_has_enough),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
