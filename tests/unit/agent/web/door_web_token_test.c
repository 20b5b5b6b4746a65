/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/web/door_web_token.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/loop.h"
#include "base/storage.h"
#include "unit/unit.h"

static void test_what_a_token_is(void **state)
{
	static const struct {
		const char *text, *is;
	} good[] = {
	    {"abcdefgh", "abcdefgh"},
	    {"abcDEF012-._~+/==\n", "abcDEF012-._~+/=="},
	    {"abcdefgh \t\r\n\n", "abcdefgh"},
	};
	static const char *const bad[] = {"",
					  "\n",
					  "short",
					  "two words here",
					  "line1234\nline5678",
					  "quo\"te12345",
					  "=abcdefgh",
					  "abcd=efghij",
					  "\xc3\xa4\xc3\xb6\xc3\xbc-1234"};
	char out[WEB_TOKEN_MAX], text[2 * WEB_TOKEN_MAX];
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert_int_equal(web_token_parse(good[i].text, strlen(good[i].text), out, NULL), 0);
		assert_string_equal(out, good[i].is);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct err err = {0};
		assert_int_equal(web_token_parse(bad[i], strlen(bad[i]), out, &err), -EINVAL);
		/* A secret never gets into a log. */
		assert_true(strlen(bad[i]) < 4 || !strstr(err.text, bad[i]));
	}
	memset(text, 'x', sizeof(text));
	assert_int_equal(web_token_parse(text, WEB_TOKEN_MAX - 1, out, NULL), 0);
	assert_int_equal(strlen(out), WEB_TOKEN_MAX - 1);
	assert_int_equal(web_token_parse(text, WEB_TOKEN_MAX, out, NULL), -EINVAL);
	assert_int_equal(web_token_parse("abcdefgh\0ijkl", 13, out, NULL), -EINVAL);
}

/* --- the file ----------------------------------------------------------------------------------
 */

static struct loop *loop;
static struct storage *storage;
static struct web_token *token;
static int changes;

static void on_change(void *context)
{
	changes++;
}

static int setup(void **state)
{
	int rc = unit_top_setup(state);
	loop = loop_new(LOOP_FAKE, NULL);
	storage = storage_new(loop, 16, NULL);
	const struct web_token_options options = {
	    .loop = loop, .storage = storage, .changed = on_change};
	assert_int_equal(web_token_new(&options, &token, NULL), 0);
	changes = 0;
	return rc;
}

static int teardown(void **state)
{
	web_token_stop(token);
	storage = storage_close(storage);
	token = web_token_free(token);
	loop = loop_free(loop);
	return unit_top_teardown(state);
}

/* Until it was read. */
static void settle(void)
{
	uint64_t end = unit_now_ns() + UINT64_C(10000000000);
	while (storage_pending(storage) > 0) {
		assert_true(unit_now_ns() < end);
		assert_int_equal(loop_pass(loop, 1000000, NULL), 0);
	}
}

/* The file is looked at again. */
static void look(void)
{
	settle();
	assert_int_equal(loop_advance(loop, WEB_TOKEN_LOOK_NS, NULL), 0);
	settle();
}

static void write_token(const char *path, const char *text, mode_t mode)
{
	unit_write(path, text);
	assert_int_equal(chmod(path, mode), 0);
}

static void test_it_is_followed(void **state)
{
	const char *path = unit_path(unit_top, "token");
	assert_false(web_token_is_wanted(token));
	write_token(path, "first-token\n", 0600);
	web_token_set_file(token, path);
	assert_true(web_token_is_wanted(token));
	assert_null(web_token_text(token)); /* not read yet: nobody gets in */
	settle();
	assert_string_equal(web_token_text(token), "first-token");
	assert_string_equal(web_token_problem(token), "");
	changes = 0;
	look();
	assert_int_equal(changes, 0);
	const char *other = unit_path(unit_top, "other");
	write_token(other, "other-token\n", 0600);
	assert_int_equal(rename(other, path), 0);
	look();
	assert_string_equal(web_token_text(token), "other-token");
	assert_int_equal(changes, 1);
	web_token_set_file(token, "");
	assert_false(web_token_is_wanted(token));
	look();
	assert_false(web_token_is_wanted(token));
}

static void test_broken_ones(void **state)
{
	const char *path = unit_path(unit_top, "token");
	web_token_set_file(token, path);
	settle();
	assert_true(web_token_is_wanted(token));
	assert_null(web_token_text(token));
	assert_non_null(strstr(web_token_problem(token), path));
	changes = 0;
	look(); /* still not there: no news */
	assert_int_equal(changes, 0);
	write_token(path, "good-token", 0600);
	look();
	assert_string_equal(web_token_text(token), "good-token");
	assert_string_equal(web_token_problem(token), "");
	write_token(path, "no token at all", 0600);
	look();
	assert_null(web_token_text(token));
	assert_non_null(strstr(web_token_problem(token), "character 3"));
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	look(); /* nobody waits for a writer */
	assert_null(web_token_text(token));
	assert_non_null(strstr(web_token_problem(token), "no regular file"));
}

static void test_one_that_others_can_read(void **state)
{
	const char *path = unit_path(unit_top, "token");
	write_token(path, "good-token", 0644);
	web_token_set_file(token, path);
	settle();
	assert_string_equal(web_token_text(token), "good-token"); /* a warning only */
	assert_non_null(strstr(web_token_problem(token), "chmod 600"));
	assert_int_equal(chmod(path, 0600), 0);
	look();
	assert_string_equal(web_token_problem(token), "");
}

/* What the file before said is of no matter any more. */
static void test_another_file_while_one_is_read(void **state)
{
	write_token(unit_path(unit_top, "a"), "token-of-a", 0600);
	write_token(unit_path(unit_top, "b"), "token-of-b", 0600);
	web_token_set_file(token, unit_path(unit_top, "a"));
	web_token_set_file(token, unit_path(unit_top, "b"));
	look();
	assert_string_equal(web_token_text(token), "token-of-b");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_what_a_token_is),
	    cmocka_unit_test_setup_teardown(test_it_is_followed, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_broken_ones, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_one_that_others_can_read, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_another_file_while_one_is_read, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
