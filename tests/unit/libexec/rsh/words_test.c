/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/check.h"
#include "libexec/rsh/words.h"
#include "unit/unit.h"

enum { HOST_MAX = 255, TEXT_MAX = 64 };

/* `words` ends in NULL; the program's name is put before them. */
static enum words_result parse(const char *const *words, char text[TEXT_MAX], struct rsh_words *out)
{
	const char *argv[32] = {"sluice-rsh"};
	int argc = 1;
	for (; words[argc - 1]; argc++)
		argv[argc] = words[argc - 1];
	return words_parse(argc, argv, HOST_MAX, text, TEXT_MAX, out);
}

static void check(const char *const *words, const char *host, const char *text)
{
	char got[TEXT_MAX];
	struct rsh_words out;
	assert_int_equal(parse(words, got, &out), WORDS_OK);
	assert_int_equal(out.host_length, strlen(host));
	assert_memory_equal(out.host, host, out.host_length);
	assert_string_equal(got, text);
	assert_int_equal(out.length, strlen(text));
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void as_mpi_launchers_call_it(void **state)
{
	check(WORDS("j-worker-0", " orted", "-mca", "ess", "\"env\""), "j-worker-0",
	      " orted -mca ess \"env\"");
	check(WORDS("-x", "j-worker-1", "\"/usr/bin/hydra_pmi_proxy\"", "--pgid", "0"),
	      "j-worker-1", "\"/usr/bin/hydra_pmi_proxy\" --pgid 0");
	check(WORDS("host", "-x", "y"), "host", "-x y"); /* words begin behind the host */
	check(WORDS("host", "", "a", ""), "host", " a ");
}

static void options_are_passed_over(void **state)
{
	check(WORDS("-x", "-n", "-q", "-T", "-v", "-4", "-6", "-f", "-t", "h", "ls"), "h", "ls");
	check(WORDS("-xnq", "h", "ls"), "h", "ls");
	check(WORDS("-o", "A=b", "-p", "22", "-l", "me", "-i", "f", "-F", "g", "-E", "l", "-c", "x",
		    "-m", "y", "h", "ls"),
	      "h", "ls");
	check(WORDS("-p22", "-qoA=b", "-qp", "22", "h", "ls"), "h", "ls");
	check(WORDS("--", "h", "ls"), "h", "ls");
	check(WORDS("me@h", "ls"), "h", "ls");
}

static void what_cannot_be_meant(void **state)
{
	char text[TEXT_MAX];
	struct rsh_words out;
	const struct {
		const char *words[4];
		enum words_result result;
	} rows[] = {
	    {{NULL}, WORDS_NO_HOST},
	    {{"-x", NULL}, WORDS_NO_HOST},
	    {{"--", NULL}, WORDS_NO_HOST},
	    {{"", "ls", NULL}, WORDS_NO_HOST},
	    {{"me@", "ls", NULL}, WORDS_NO_HOST},
	    {{"h", NULL}, WORDS_NO_COMMAND},
	    {{"-Z", "h", "ls", NULL}, WORDS_BAD_OPTION},
	    {{"-xZ", "h", "ls", NULL}, WORDS_BAD_OPTION},
	    {{"-p", NULL}, WORDS_BAD_OPTION},
	    {{"--help", NULL}, WORDS_HELP},
	    {{"-x", "-h", NULL}, WORDS_HELP},
	};
	for (size_t i = 0; i < array_length(rows); i++)
		assert_int_equal(parse(rows[i].words, text, &out), rows[i].result);
}

static void what_is_too_long(void **state)
{
	char text[TEXT_MAX], word[TEXT_MAX + 1], host[HOST_MAX + 2];
	struct rsh_words out;
	memset(word, 'w', TEXT_MAX);
	word[TEXT_MAX] = '\0';
	assert_int_equal(parse(WORDS("h", word), text, &out), WORDS_TOO_LONG);
	assert_int_equal(out.length, TEXT_MAX);
	word[TEXT_MAX - 1] = '\0';
	assert_int_equal(parse(WORDS("h", word), text, &out), WORDS_OK);
	memset(host, 'h', HOST_MAX + 1);
	host[HOST_MAX + 1] = '\0';
	assert_int_equal(parse(WORDS(host, "ls"), text, &out), WORDS_TOO_LONG);
	host[HOST_MAX] = '\0';
	assert_int_equal(parse(WORDS(host, "ls"), text, &out), WORDS_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(as_mpi_launchers_call_it),
	    cmocka_unit_test(options_are_passed_over),
	    cmocka_unit_test(what_cannot_be_meant),
	    cmocka_unit_test(what_is_too_long),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
