/* SPDX-License-Identifier: Apache-2.0 */
/* A table over a struct of its own; the messages are those of proto/job.proto. */
#include "job/form.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "job.pb-c.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"

struct thing {
	char name[8], directory[8];
	char *project;
	uint32_t gpus, pull;
	uint64_t grace_ns;
	bool pty;
	char **argv;
	size_t argc;
};

static const char *const pulls[] = {"missing", "never"};

static const struct form_field fields[] = {
    FORM_CHARS(thing, Sluice__V1__JobSpec, name, name, FORM_TEXT),
    FORM_CHARS(thing, Sluice__V1__JobSpec, directory, directory, FORM_BYTES),
    FORM_NUMBER(thing, Sluice__V1__JobSpec, gpus, FORM_U32, 16),
    FORM_WORDS(thing, Sluice__V1__JobSpec, pull, pulls),
    FORM_NUMBER(thing, Sluice__V1__JobSpec, grace_ns, FORM_U64, UINT64_MAX),
    FORM_NUMBER(thing, Sluice__V1__JobSpec, pty, FORM_BOOL, 1),
    FORM_STRINGS(thing, Sluice__V1__JobSpec, "argument", argv, argc, argv, 9),
};
enum { FIELDS = array_length(fields) };

static int read_from(const Sluice__V1__JobSpec *message, struct thing *out, struct err *err)
{
	*out = (struct thing){.gpus = 0};
	int rc = form_from_message(fields, FIELDS, &message->base, out, err);
	if (rc < 0)
		form_done(fields, FIELDS, out);
	return rc;
}

static int there_and_back(void *context)
{
	struct thing thing = {.name = "train",
			      .directory = "/",
			      .gpus = 3,
			      .pull = 1,
			      .grace_ns = UINT64_MAX,
			      .pty = true};
	struct thing again = {.gpus = 0};
	Sluice__V1__JobSpec message = SLUICE__V1__JOB_SPEC__INIT;
	int rc = 0;
	for (int i = 0; rc == 0 && i < 9; i++)
		rc = form_list_add(&thing.argv, &thing.argc, 9, i % 2 ? "x" : "");
	if (rc == 0)
		rc = form_to_message(fields, FIELDS, &thing, &message.base);
	if (rc == 0)
		rc = read_from(&message, &again, NULL);
	for (size_t i = 0; rc == 0 && i < FIELDS; i++)
		assert_true(form_field_is_equal(&fields[i], &thing, &again));
	if (rc == 0)
		assert_null(again.argv[9]);
	form_message_done(fields, FIELDS, &message.base);
	form_done(fields, FIELDS, &again);
	form_done(fields, FIELDS, &thing);
	return rc;
}

static void what_goes_in_comes_out(void **state)
{
	assert_int_equal(there_and_back(NULL), 0);
}

static void without_memory_it_says_so(void **state)
{
	assert_true(failmalloc_each(there_and_back, NULL) > 10);
}

static void check_refused(const Sluice__V1__JobSpec *message, int code, const char *says)
{
	struct thing thing;
	struct err err = {.code = 0};
	assert_int_equal(read_from(message, &thing, &err), code);
	if (!strstr(err.text, says))
		fail_msg("'%s' does not say '%s'", err.text, says);
	assert_null(thing.argv);
}

static void what_does_not_fit_is_refused(void **state)
{
	Sluice__V1__JobSpec message = SLUICE__V1__JOB_SPEC__INIT;
	message.name = (char *)"12345678";
	check_refused(&message, -E2BIG, "name is longer than 7 bytes");
	message.name = (char *)"1234567";
	message.directory = (ProtobufCBinaryData){.len = 2, .data = (uint8_t *)"/\0"};
	check_refused(&message, -EINVAL, "directory has a NUL byte in it");
	message.directory.len = 1;
	message.gpus = 17;
	check_refused(&message, -EINVAL, "gpus is 17: at most 16");
	message.gpus = 16;
	message.pull = (char *)"always";
	check_refused(&message, -EINVAL, "pull: 'always' is none that is known");
	message.pull = (char *)"";

	ProtobufCBinaryData words[10] = {{.len = 0}};
	message.argv = words;
	message.n_argv = 10;
	check_refused(&message, -E2BIG, "10 of argument are too many: at most 9");
	message.n_argv = 9;
	words[8] = (ProtobufCBinaryData){.len = 1, .data = (uint8_t *)"\0"};
	check_refused(&message, -EINVAL, "argument 8 has a NUL byte in it");
	words[8].len = 0;

	struct thing thing;
	assert_int_equal(read_from(&message, &thing, NULL), 0);
	assert_string_equal(thing.name, "1234567");
	assert_string_equal(thing.argv[8], "");
	form_done(fields, FIELDS, &thing);
}

static void a_field_of_a_later_release_is_refused(void **state)
{
	static const uint8_t bytes[] = {0x0a, 1, 'a', 0xf8, 0x07, 1};
	Sluice__V1__JobSpec *message = sluice__v1__job_spec__unpack(NULL, sizeof(bytes), bytes);
	assert_non_null(message);
	check_refused(message, -EINVAL, "field 127 is not known here");
	sluice__v1__job_spec__free_unpacked(message, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_goes_in_comes_out),
	    cmocka_unit_test(without_memory_it_says_so),
	    cmocka_unit_test(what_does_not_fit_is_refused),
	    cmocka_unit_test(a_field_of_a_later_release_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
