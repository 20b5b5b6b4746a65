/* SPDX-License-Identifier: Apache-2.0 */
#include "base/screen.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "unit/unit.h"

/* In pieces of so many bytes. */
static void expect(const char *text, size_t length, size_t piece, const char *expected)
{
	struct screen screen = {.length = 0};
	struct buf out;
	buf_init(&out, length * SCREEN_GROWTH + SCREEN_END_MAX);
	for (size_t at = 0; at < length; at += piece) {
		size_t size = length - at < piece ? length - at : piece;
		assert_int_equal(screen_show(&screen, text + at, size, &out), 0);
	}
	assert_int_equal(screen_end(&screen, &out), 0);
	assert_string_equal(buf_text(&out), expected);
	buf_done(&out);
}

static void check(const char *text, const char *expected)
{
	for (size_t piece = 1; piece <= 8; piece++)
		expect(text, strlen(text), piece, expected);
	expect(text, strlen(text), 4096, expected);
}

static void test_what_passes(void **state)
{
	(void)state;
	check("", "");
	check("epoch 1\tloss 0.5\r\n", "epoch 1\tloss 0.5\r\n");
	check("g\xc3\xbc\xe2\x82\xac\xf0\x9f\x99\x82 C:\\x1b",
	      "g\xc3\xbc\xe2\x82\xac\xf0\x9f\x99\x82 C:\\x1b");
	check("\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m\x1b[0m");
	check("\x1b[38:2::1:2:3mred", "\x1b[38:2::1:2:3mred\x1b[0m"); /* colours end with it */
	check("10%\r\x1b[K20%\x1b[2K", "10%\r\x1b[K20%\x1b[2K");
}

static void test_what_a_terminal_would_obey(void **state)
{
	(void)state;
	check("\x1b[2J\x1b[H", "\\x1b[2J\\x1b[H");	     /* clears the screen */
	check("\x1b]52;c;cm0=\x07", "\\x1b]52;c;cm0=\\x07"); /* writes the clipboard */
	check("\x1b[6n\x1b"
	      "c\x1b",
	      "\\x1b[6n\\x1bc\\x1b");
	check("\x1b[?25l\x1b[3K\x1b[12K", "\\x1b[?25l\\x1b[3K\\x1b[12K");
	check("\x1b\x1b[m", "\\x1b\x1b[m\x1b[0m");
	check("a\x08\x7f\x01", "a\\x08\\x7f\\x01");
	check("\xc2\x9b"
	      "2J",
	      "\\u009b2J"); /* the same as ESC [, in one character */
	check("\x9b"
	      "2J\xff",
	      "\\x9b2J\\xff");
	check("cp \xe2\x80\xae"
	      "fdp.exe \xe2\x81\xa6",
	      "cp \\u202efdp.exe \\u2066");
	check("\xe2\x82", "\\xe2\\x82"); /* cut for good */
	check("\xed\xa0\x80", "\\xed\\xa0\\x80");
}

static void test_a_sequence_without_an_end(void **state)
{
	(void)state;
	char text[200], expected[200] = "\\x1b[";
	memset(text, '1', sizeof(text));
	memcpy(text, "\x1b[", 2);
	memset(expected + 5, '1', 150);
	for (size_t piece = 1; piece < 40; piece++) {
		text[152] = '\0';
		expect(text, 152, piece, expected);
	}
	check("\x1b[1", "\\x1b[1");
}

static void test_a_nul_and_no_room(void **state)
{
	(void)state;
	struct screen screen = {.length = 0};
	struct buf out;
	expect("a\0b", 3, 1, "a\\x00b");
	buf_init(&out, 4);
	assert_int_equal(screen_show(&screen, "abcdef", 6, &out), -ENOSPC);
	buf_done(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_what_passes),
	    cmocka_unit_test(test_what_a_terminal_would_obey),
	    cmocka_unit_test(test_a_sequence_without_an_end),
	    cmocka_unit_test(test_a_nul_and_no_room),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
