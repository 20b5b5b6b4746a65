/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "job/schema.h"
#include "job/spec.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"

static void spec_of(struct spec *spec)
{
	spec_init(spec);
	(void)snprintf(spec->name, sizeof(spec->name), "train");
	(void)snprintf(spec->directory, sizeof(spec->directory), "/home/u");
	spec->uid = 1000;
	spec->gid = 100;
	spec->umask = 022;
	spec->gpus = 2;
	spec->share_numerator = 1;
	spec->share_denominator = 4;
	spec->ignore_outsiders = true;
	spec->grace_ns = UINT64_C(5000000000);
	(void)snprintf(spec->resources, sizeof(spec->resources), "rdma/a=1,rdma/b=2");
	spec->deadline_ns = UINT64_MAX;
	spec->warn_signal = 10;
	spec->warn_before_ns = 60;
	spec->warn_alone = true;
	spec->limits[0] = (struct spec_limit){.resource = 7, .soft = 1024, .hard = UINT64_MAX};
	spec->limit_count = 1;
	for (int i = 0; i < 40; i++) {
		char text[32];
		(void)snprintf(text, sizeof(text), "argument %d", i);
		assert_int_equal(spec_add_argument(spec, text, NULL), 0);
	}
	assert_int_equal(spec_add_variable(spec, "A=\xff\n b", NULL), 0);
	assert_int_equal(spec_add_variable(spec, "EMPTY=", NULL), 0);
	assert_int_equal(spec_add_group(spec, 4, NULL), 0);
	assert_int_equal(spec_add_group(spec, 27, NULL), 0);
}

static void what_is_written_is_read(void **state)
{
	struct spec spec _cleanup_spec_, again _cleanup_spec_;
	spec_init(&again);
	spec_of(&spec);
	char *bytes = NULL;
	size_t length = 0;
	assert_int_equal(spec_format(&spec, &bytes, &length, NULL), 0);
	assert_int_equal(spec_parse(bytes, length, &again, NULL), 0);
	free(bytes);
	assert_true(spec_is_equal(&spec, &again));
	assert_string_equal(again.argv[39], "argument 39");
	assert_null(again.argv[40]);
	assert_int_equal(again.groups[1], 27);
	assert_int_equal(again.limits[0].hard, UINT64_MAX);
	assert_true(again.ignore_outsiders && !again.gpus_if_any);
	assert_string_equal(again.resources, "rdma/a=1,rdma/b=2");
	again.resources[0] = '\0';
	assert_false(spec_is_equal(&spec, &again));
	(void)snprintf(again.resources, sizeof(again.resources), "rdma/a");
	assert_int_equal(spec_check(&again, NULL), -EINVAL);
}

static void an_image_adds_to_the_form(void **state)
{
	struct spec spec _cleanup_spec_, again _cleanup_spec_;
	spec_init(&again);
	spec_init(&spec);
	(void)snprintf(spec.name, sizeof(spec.name), "train");
	(void)snprintf(spec.directory, sizeof(spec.directory), "/");
	(void)snprintf(spec.image, sizeof(spec.image), "docker.io/library/debian:12");
	(void)snprintf(spec.workdir, sizeof(spec.workdir), "/work");
	spec.pull = SPEC_PULL_ALWAYS;
	assert_int_equal(spec_add_volume(&spec, "/a:/b:ro", NULL), 0);
	assert_int_equal(spec_add_image_variable(&spec, "A=1", NULL), 0);
	char *bytes = NULL;
	size_t length = 0;
	assert_int_equal(spec_check(&spec, NULL), 0); /* no command: the image has one */
	assert_int_equal(spec_format(&spec, &bytes, &length, NULL), 0);
	assert_int_equal(spec_parse(bytes, length, &again, NULL), 0);
	free(bytes);
	assert_true(spec_is_equal(&spec, &again));
	assert_string_equal(again.volumes[0], "/a:/b:ro");
	assert_string_equal(again.image_environment[0], "A=1");
	assert_int_equal(again.pull, SPEC_PULL_ALWAYS);
	again.volumes[0][6] = 'w';
	assert_false(spec_is_equal(&spec, &again));
	again.volumes[0][6] = 'r';
	again.image_environment[0][2] = '2';
	assert_false(spec_is_equal(&spec, &again));
	again.image_environment[0][2] = '1';
	assert_true(spec_is_equal(&spec, &again));
	again.workdir[1] = 'x';
	assert_false(spec_is_equal(&spec, &again));
}

static void check_image(const char *image, const char *volume, const char *variable, int code)
{
	struct spec spec _cleanup_spec_;
	struct err err = {0};
	spec_of(&spec);
	(void)snprintf(spec.image, sizeof(spec.image), "%s", image);
	if (volume)
		assert_int_equal(spec_add_volume(&spec, volume, NULL), 0);
	if (variable)
		assert_int_equal(spec_add_image_variable(&spec, variable, NULL), 0);
	if (spec_check(&spec, &err) != code)
		fail_msg("'%s' '%s' '%s': %s", image, volume ? volume : "",
			 variable ? variable : "", err.text);
}

static void an_image_is_a_name_and_nothing_else(void **state)
{
	check_image("a", NULL, NULL, 0);
	check_image("sha256:0123", "/a:/b", "A=", 0);
	check_image("a", "/scratch", NULL, 0); /* a volume without a name */
	check_image("oci-archive:/tmp/x.tar", "/a b:/c:rw", NULL, 0);
	static const char *const bad[] = {"-v",	  "--privileged", "a b",      "a\nb",
					  "a\tb", "\x01",	  "\xc3\xa9", " a"};
	for (size_t i = 0; i < array_length(bad); i++)
		check_image(bad[i], NULL, NULL, -EINVAL);
	static const char *const volumes[] = {"",	   "a",	     "/",	"/a,b",
					      "a:/b",	   "/a:b",   "/a:/b:U", "/a:/b:ro,z",
					      "/a:/b:ro:", "/a:/b:", "-v:/b",	"vol:/b"};
	for (size_t i = 0; i < array_length(volumes); i++)
		check_image("a", volumes[i], NULL, -EINVAL);
	check_image("a", NULL, "A", -EINVAL);
	check_image("a", NULL, "=b", -EINVAL);
	check_image("", "/a:/b", NULL, -EINVAL);
	check_image("", NULL, "A=b", -EINVAL);
	struct spec spec _cleanup_spec_;
	spec_of(&spec);
	memset(spec.image, 'a', sizeof(spec.image));
	assert_int_equal(spec_check(&spec, NULL), -EINVAL);
	(void)snprintf(spec.image, sizeof(spec.image), "a");
	(void)snprintf(spec.workdir, sizeof(spec.workdir), "work");
	assert_int_equal(spec_check(&spec, NULL), -EINVAL);
	assert_string_equal(spec_pull_to_string(SPEC_PULL_NEVER), "never");
	assert_null(spec_pull_to_string(SPEC_PULL_COUNT));
}

static void each_difference_counts(void **state)
{
	struct spec spec _cleanup_spec_, other _cleanup_spec_;
	spec_of(&spec);
	spec_of(&other);
	assert_true(spec_is_equal(&spec, &other));
	other.deadline_ns--;
	assert_false(spec_is_equal(&spec, &other));
	other.deadline_ns++;
	other.limits[0].soft++;
	assert_false(spec_is_equal(&spec, &other));
	other.limits[0].soft--;
	other.name[0] = 'b';
	assert_false(spec_is_equal(&spec, &other));
	other.name[0] = 't';
	other.groups[0] = 5;
	assert_false(spec_is_equal(&spec, &other));
	other.groups[0] = 4;
	other.argv[39][0] = 'b';
	assert_false(spec_is_equal(&spec, &other));
	other.argv[39][0] = 'a';
	assert_true(spec_is_equal(&spec, &other));
	assert_int_equal(spec_add_variable(&other, "X=1", NULL), 0);
	assert_false(spec_is_equal(&spec, &other));
}

/* A timer starts its command anew each time, and systemd tells it which time that is. */
static void what_only_names_the_call_makes_no_difference(void **state)
{
	static const char *const first[] = {"A=1", "INVOCATION_ID=1", "SHLVL=1", "B=2"};
	static const char *const second[] = {"TRIGGER_TIMER_REALTIME_USEC=5", "A=1", "B=2",
					     "JOURNAL_STREAM=8:9", "INVOCATION_ID=2"};
	struct spec spec _cleanup_spec_, other _cleanup_spec_;
	spec_of(&spec);
	spec_of(&other);
	for (size_t i = 0; i < array_length(first); i++)
		assert_int_equal(spec_add_variable(&spec, first[i], NULL), 0);
	for (size_t i = 0; i < array_length(second); i++)
		assert_int_equal(spec_add_variable(&other, second[i], NULL), 0);
	assert_true(spec_is_equal(&spec, &other));
	assert_true(spec_is_equal(&other, &spec));
	assert_int_equal(spec_add_variable(&other, "INVOCATION=1", NULL), 0);
	assert_false(spec_is_equal(&spec, &other));
	assert_false(spec_is_equal(&other, &spec));
	assert_int_equal(spec_add_variable(&spec, "INVOCATION=2", NULL), 0);
	assert_false(spec_is_equal(&spec, &other));
}

static void check_says(const struct spec *spec, int code, const char *what)
{
	struct err err = {0};
	assert_int_equal(spec_check(spec, &err), code);
	if (!strstr(err.text, what))
		fail_msg("'%s' does not say '%s'", err.text, what);
}

static void what_cannot_be_meant_is_refused(void **state)
{
	struct spec spec _cleanup_spec_;
	spec_of(&spec);
	assert_int_equal(spec_check(&spec, NULL), 0);

	static const char *const names[] = {"", "-a", "a-", "A", "a.b", "a b", "a\xc3"};
	for (size_t i = 0; i < array_length(names); i++) {
		(void)snprintf(spec.name, sizeof(spec.name), "%s", names[i]);
		check_says(&spec, -EINVAL, "no name for a job");
	}
	(void)snprintf(spec.name, sizeof(spec.name), "a");

	(void)snprintf(spec.directory, sizeof(spec.directory), "home");
	check_says(&spec, -EINVAL, "'home' is no absolute path");
	(void)snprintf(spec.directory, sizeof(spec.directory), "/");

	spec.uid = (uid_t)-1;
	check_says(&spec, -EINVAL, "no user");
	spec.uid = 0;
	spec.groups[1] = (gid_t)-1;
	check_says(&spec, -EINVAL, "no group");
	spec.groups[1] = 0;

	spec.share_numerator = 5;
	check_says(&spec, -EINVAL, "5/4");
	spec.share_numerator = 0;
	check_says(&spec, -EINVAL, "0/4");
	spec.share_numerator = 4;

	(void)snprintf(spec.ids, sizeof(spec.ids), "0,1,2");
	check_says(&spec, -EINVAL, "3 GPUs are named and 2 are wanted");
	spec.gpus = 3;
	assert_int_equal(spec_check(&spec, NULL), 0);

	spec.limits[0].resource = 16;
	check_says(&spec, -EINVAL, "resource limit 16");
	spec.limits[0] = (struct spec_limit){.soft = 2, .hard = 1};
	check_says(&spec, -EINVAL, "soft 2, hard 1");
}

static void nothing_to_run_is_refused(void **state)
{
	struct spec spec _cleanup_spec_;
	spec_init(&spec);
	(void)snprintf(spec.name, sizeof(spec.name), "a");
	(void)snprintf(spec.directory, sizeof(spec.directory), "/");
	check_says(&spec, -EINVAL, "nothing to run");
	assert_int_equal(spec_add_argument(&spec, "", NULL), 0);
	check_says(&spec, -EINVAL, "nothing to run");
}

static void what_is_too_large_is_refused(void **state)
{
	struct spec spec _cleanup_spec_;
	spec_of(&spec);
	char *large = malloc(SPEC_STRING_MAX + 1);
	assert_non_null(large);
	memset(large, 'x', SPEC_STRING_MAX);
	large[SPEC_STRING_MAX] = '\0';
	large[SPEC_STRING_MAX - 1] = '\0'; /* just what Linux takes */
	for (int i = 0; i < 7; i++)
		assert_int_equal(spec_add_variable(&spec, large, NULL), 0);
	assert_int_equal(spec_check(&spec, NULL), 0);
	assert_int_equal(spec_add_variable(&spec, large, NULL), 0);
	check_says(&spec, -E2BIG, "1048576 are allowed");
	large[SPEC_STRING_MAX - 1] = 'x';
	free(spec.environment[0]);
	spec.environment[0] = large;
	check_says(&spec, -E2BIG, "131073 bytes");
}

/* Bytes of a message that is good but for what `change` does to it. */
static void check_bytes(void (*change)(Sluice__V1__JobSpec *message), const char *says)
{
	struct spec spec _cleanup_spec_, again;
	struct schema_spec_message message;
	struct err err = {0};
	char *bytes = NULL;
	size_t length = 0;
	spec_of(&spec);
	assert_int_equal(schema_from_spec(&spec, &message), 0);
	change(&message.spec);
	assert_int_equal(form_pack(&message.spec.base, SPEC_BYTES_MAX, &bytes, &length), 0);
	assert_int_equal(spec_parse(bytes, length, &again, &err), -EINVAL);
	if (!strstr(err.text, says))
		fail_msg("'%s' does not say '%s'", err.text, says);
	assert_null(again.argv);
	free(bytes);
	schema_spec_message_done(&message);
}

static void without_owner(Sluice__V1__JobSpec *message)
{
	message->owner = NULL;
}

static void with_no_user(Sluice__V1__JobSpec *message)
{
	message->owner->uid = UINT32_MAX;
}

static void with_a_nul(Sluice__V1__JobSpec *message)
{
	message->argv[1] = (ProtobufCBinaryData){.len = 3, .data = (uint8_t *)"a\0b"};
}

static void with_a_long_name(Sluice__V1__JobSpec *message)
{
	message->name =
	    (char *)"a-name-that-is-longer-than-any-label-of-dns-can-be-and-then-some-more";
}

static void with_a_wide_umask(Sluice__V1__JobSpec *message)
{
	message->umask = 01000;
}

static void with_another_pull(Sluice__V1__JobSpec *message)
{
	message->pull = (char *)"sometimes";
}

static void with_bad_limits(Sluice__V1__JobSpec *message)
{
	message->limits[0]->resource = 16;
}

static void with_a_bad_wish(Sluice__V1__JobSpec *message)
{
	message->wants->priority = 101;
}

static void with_nothing_to_run(Sluice__V1__JobSpec *message)
{
	message->n_argv = 0;
}

static void bytes_that_cannot_be_meant_are_refused(void **state)
{
	check_bytes(without_owner, "names no user");
	check_bytes(with_no_user, "no user and no group");
	check_bytes(with_a_nul, "argument 1 has a NUL byte in it");
	check_bytes(with_a_long_name, "name is longer than 63 bytes");
	check_bytes(with_a_wide_umask, "umask is 512: at most 511");
	check_bytes(with_another_pull, "pull: 'sometimes' is none that is known");
	check_bytes(with_bad_limits, "resource limit 16");
	check_bytes(with_a_bad_wish, "priority is 101");
	check_bytes(with_nothing_to_run, "nothing to run");

	struct spec spec;
	struct err err = {0};
	assert_int_equal(spec_parse("sluice-spec 1\n", 14, &spec, &err), -EINVAL);
	assert_non_null(strstr(err.text, "no specification"));
	assert_int_equal(spec_parse("\xf8\x07\x01", 3, &spec, &err), -EINVAL);
	assert_non_null(strstr(err.text, "field 127 is not known here"));
}

static int there_and_back(void *context)
{
	struct spec spec _cleanup_spec_, again _cleanup_spec_;
	spec_init(&spec);
	spec_init(&again);
	(void)snprintf(spec.name, sizeof(spec.name), "a");
	(void)snprintf(spec.directory, sizeof(spec.directory), "/");
	char *bytes = NULL;
	size_t length = 0;
	int result = 0;
	for (int i = 0; result == 0 && i < 9; i++)
		result = spec_add_argument(&spec, "x", NULL);
	if (result == 0)
		result = spec_add_group(&spec, 4, NULL);
	if (result == 0)
		result = spec_format(&spec, &bytes, &length, NULL);
	if (result == 0)
		result = spec_parse(bytes, length, &again, NULL);
	free(bytes);
	return result;
}

static void without_memory_it_says_so(void **state)
{
	assert_true(failmalloc_each(there_and_back, NULL) > 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_written_is_read),
	    cmocka_unit_test(an_image_adds_to_the_form),
	    cmocka_unit_test(an_image_is_a_name_and_nothing_else),
	    cmocka_unit_test(each_difference_counts),
	    cmocka_unit_test(what_only_names_the_call_makes_no_difference),
	    cmocka_unit_test(what_cannot_be_meant_is_refused),
	    cmocka_unit_test(nothing_to_run_is_refused),
	    cmocka_unit_test(what_is_too_large_is_refused),
	    cmocka_unit_test(bytes_that_cannot_be_meant_are_refused),
	    cmocka_unit_test(without_memory_it_says_so),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
