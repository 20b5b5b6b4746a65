/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/run/run_request.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"

static char *const argv_of[] = {(char *)"./Train_it.py", (char *)"--x", NULL};
static char *const environment_of[] = {(char *)"A=1", (char *)"PWD=/old", (char *)"AB=2",
				       (char *)"broken", NULL};

static const struct run_options plain = {.gpus = RUN_GPUS_NOT_GIVEN, .grace_ns = 5};

static const char *variable(const struct run_request *request, const char *name)
{
	const char *found = NULL;
	for (size_t i = 0; i < request->spec.n_environment; i++) {
		const char *text = (const char *)request->spec.environment[i].data;
		if (strncmp(text, name, strlen(name)) == 0 && text[strlen(name)] == '=') {
			assert_null(found); /* once */
			found = text + strlen(name) + 1;
		}
	}
	return found;
}

static void test_what_is_asked_for(void **state)
{
	struct run_request request;
	struct err err = {0};
	char here[4096];
	assert_int_equal(run_request_make(&plain, argv_of, environment_of, &request, &err), 0);
	const Sluice__V1__JobSpec *spec = request.message.spec;
	assert_string_equal(spec->name, "train-it-py");
	assert_int_equal(spec->n_argv, 2);
	assert_memory_equal(spec->argv[1].data, "--x", spec->argv[1].len);
	assert_int_equal(spec->gpus, 1);
	assert_true(spec->gpus_if_any);
	assert_int_equal(spec->share_denominator, 0);
	assert_int_equal(spec->grace_ns, 5);
	assert_non_null(getcwd(here, sizeof(here)));
	assert_int_equal(spec->directory.len, strlen(here));
	assert_memory_equal(spec->directory.data, here, strlen(here));
	mode_t mask = umask(0);
	(void)umask(mask);
	assert_int_equal(spec->umask, mask);
	assert_true(spec->n_limits >= 10);
	assert_int_equal(spec->n_environment, 3); /* what is no variable is left out */
	assert_string_equal(variable(&request, "PWD"), "/old");
	assert_true(run_request_is_key(request.message.key));
	run_request_done(&request);
}

static void test_options(void **state)
{
	const char *items[] = {"A=9", "NEW=x=y"};
	struct run_options options = {.gpus = 3,
				      .share = "2/8",
				      .name = "n-1",
				      .key = "01234567-89ab-4cde-8f01-23456789abcd",
				      .directory = "/usr",
				      .environment = {.items = items, .count = 2},
				      .busy_outsiders = RUN_OUTSIDERS_IGNORE,
				      .no_wait = true,
				      .time_ns = 7};
	struct run_request request;
	struct err err = {0};
	assert_int_equal(run_request_make(&options, argv_of, environment_of, &request, &err), 0);
	const Sluice__V1__JobSpec *spec = request.message.spec;
	assert_string_equal(spec->name, "n-1");
	assert_string_equal(request.message.key, options.key);
	assert_true(request.message.no_wait && spec->ignore_outsiders && !spec->gpus_if_any);
	assert_int_equal(spec->gpus, 3);
	assert_int_equal(spec->share_numerator, 2);
	assert_int_equal(spec->share_denominator, 8);
	assert_int_equal(spec->deadline_ns, 7);
	assert_string_equal(variable(&request, "A"), "9");
	assert_string_equal(variable(&request, "AB"), "2");
	assert_string_equal(variable(&request, "NEW"), "x=y");
	assert_string_equal(variable(&request, "PWD"), "/usr");
	run_request_done(&request);

	options.directory = "below";
	assert_int_equal(run_request_make(&options, argv_of, environment_of, &request, &err), 0);
	assert_true(request.directory[0] == '/');
	assert_string_equal(strrchr(request.directory, '/'), "/below");
	run_request_done(&request);

	options = plain;
	options.gpu_ids = "3,5";
	assert_int_equal(run_request_make(&options, argv_of, environment_of, &request, &err), 0);
	assert_string_equal(request.spec.gpu_ids, "3,5");
	assert_false(request.spec.gpus_if_any);
	assert_int_equal(request.spec.gpus, 2);
	run_request_done(&request);
}

static void test_wrong_options(void **state)
{
	const char *items[] = {"=x"};
	const struct {
		struct run_options options;
		const char *says;
	} cases[] = {
	    {{.gpus = 1, .gpu_ids = "3"}, "leave out --gpus"},
	    {{.gpus = RUN_GPUS_NOT_GIVEN, .gpu_ids = ""}, "names no GPU"},
	    {{.gpus = 0, .share = "slot"}, "--gpus 0"},
	    {{.gpus = 1, .share = "half"}, "no part of a GPU"},
	    {{.gpus = 1, .share = "3/2"}, "more than a whole GPU"},
	    {{.gpus = 1, .share = "0/2"}, "no part of a GPU"},
	    {{.gpus = 1, .share = "1/1001"}, "from 1 to 1000"},
	    {{.gpus = 1, .name = "Not_A_Label"}, "Not_A_Label"},
	    {{.gpus = 1, .name = ""}, "--name"},
	    {{.gpus = 1, .key = "17"}, "no UUID"},
	    {{.gpus = 1, .no_wait = true, .wait_timeout_ns = 1}, "exclude"},
	    {{.gpus = 1, .quiet = true, .verbose = true}, "exclude"},
	    {{.gpus = 1, .detach = true, .report = "x"}, "--report"},
	    {{.gpus = 1, .report = "/dev"}, "not a plain file"},
	    {{.gpus = 1, .environment = {.items = items, .count = 1}}, "NAME=VALUE"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct run_request request;
		struct err err = {0};
		assert_int_equal(
		    run_request_make(&cases[i].options, argv_of, environment_of, &request, &err),
		    -EINVAL);
		if (!strstr(err.text, cases[i].says))
			fail_msg("'%s' instead of '%s'", err.text, cases[i].says);
		run_request_done(&request);
	}
}

static void test_names_and_keys(void **state)
{
	static const char *const names[][2] = {
	    {"/usr/bin/Train_v2.py", "train-v2-py"},
	    {"python3", "python3"},
	    {"../--x--", "x"},
	    {"\xc3\xa4", "job"},
	    {"", "job"},
	    {"a/", "job"},
	};
	char out[RUN_NAME_MAX], key[RUN_KEY_MAX], other[RUN_KEY_MAX], long_name[200];
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		run_request_name(names[i][0], out);
		assert_string_equal(out, names[i][1]);
		assert_true(run_request_is_label(out));
	}
	memset(long_name, 'a', sizeof(long_name));
	long_name[199] = '\0';
	run_request_name(long_name, out);
	assert_int_equal(strlen(out), RUN_NAME_MAX - 1);
	assert_int_equal(run_request_new_key(key, NULL), 0);
	assert_int_equal(run_request_new_key(other, NULL), 0);
	assert_true(run_request_is_key(key) && run_request_is_key(other));
	assert_string_not_equal(key, other);
	assert_true(key[14] == '4' && strchr("89ab", key[19]));
	key[20] = 'g';
	assert_false(run_request_is_key(key));
	assert_false(run_request_is_key(""));
}

static int make(void *context)
{
	struct run_options options = plain;
	options.directory = "/usr";
	struct run_request request;
	int rc = run_request_make(&options, argv_of, environment_of, &request, NULL);
	run_request_done(&request);
	return rc;
}

static void test_out_of_memory(void **state)
{
	assert_true(failmalloc_each(make, NULL) >= 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_what_is_asked_for), cmocka_unit_test(test_options),
	    cmocka_unit_test(test_wrong_options),     cmocka_unit_test(test_names_and_keys),
	    cmocka_unit_test(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
