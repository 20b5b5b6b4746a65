/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/run/run_image.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "cmd/jobs/run/run_options.h"
#include "cmd/jobs/run/run_request.h"
#include "unit/unit.h"

static char *const argv_of[] = {(char *)"a", (char *)"b", NULL};
static char *const none[] = {NULL};

static const struct run_options plain = {
    .gpus = RUN_GPUS_NOT_GIVEN, .grace_ns = 5, .image = "debian:12"};

static bool is_text(const ProtobufCBinaryData *data, const char *text)
{
	return data->len == strlen(text) && memcmp(data->data, text, data->len) == 0;
}

static void the_least(void **state)
{
	struct run_request request;
	assert_int_equal(run_request_make(&plain, none, none, &request, NULL), 0);
	const Sluice__V1__JobSpec *spec = request.message.spec;
	assert_string_equal(spec->image, "debian:12");
	assert_string_equal(spec->pull, "missing");
	assert_int_equal(spec->n_argv + spec->n_tmpfs + spec->n_volumes, 0);
	assert_int_equal(spec->entrypoint, 0);
	assert_string_equal(spec->run_as, "");
	assert_false(spec->privileged || spec->selinux_off);
	run_request_done(&request);
}

static void everything(void **state)
{
	static const char *sizes[] = {"/scratch:4Ki", "/work"};
	static const char *volumes[] = {"/a:/b:ro"};
	struct run_options options = plain;
	options.tmpfs = (struct option_list){.items = sizes, .count = 2};
	options.volumes = (struct option_list){.items = volumes, .count = 1};
	options.shm_bytes = 8192;
	options.entrypoint = "/bin/x";
	options.user = "5:6";
	options.privileged = true;
	options.selinux = 1;
	options.pull = 2;
	options.directory = "/w";
	struct run_request request;
	assert_int_equal(run_request_make(&options, argv_of, none, &request, NULL), 0);
	const Sluice__V1__JobSpec *spec = request.message.spec;
	assert_int_equal(spec->n_tmpfs, 3);
	assert_true(is_text(&spec->tmpfs[0], "/dev/shm:8192"));
	assert_true(is_text(&spec->tmpfs[1], "/scratch:4096"));
	assert_true(is_text(&spec->tmpfs[2], "/work:0"));
	assert_true(spec->n_volumes == 1 && is_text(&spec->volumes[0], "/a:/b:ro"));
	assert_int_equal(spec->entrypoint, 1);
	assert_int_equal(spec->n_argv, 3);
	assert_true(is_text(&spec->argv[0], "/bin/x") && is_text(&spec->argv[2], "b"));
	assert_string_equal(spec->run_as, "5:6");
	assert_string_equal(spec->pull, "always");
	assert_string_equal(spec->workdir, "/w");
	assert_true(spec->privileged && spec->selinux_off);
	run_request_done(&request);
}

static void libraries_of_a_newer_cuda_come_first(void **state)
{
	static const char *variables[] = {"A=1", "LD_LIBRARY_PATH=/x"};
	static const char *empty[] = {"LD_LIBRARY_PATH="};
	struct run_options options = plain;
	struct run_request request;
	options.cuda_compat = true;
	assert_int_equal(run_request_make(&options, none, none, &request, NULL), 0);
	assert_int_equal(request.spec.n_image_environment, 1);
	assert_true(is_text(&request.spec.image_environment[0],
			    "LD_LIBRARY_PATH=/usr/local/cuda/compat:/usr/local/nvidia/lib:"
			    "/usr/local/nvidia/lib64"));
	run_request_done(&request);
	options.environment = (struct option_list){.items = variables, .count = 2};
	assert_int_equal(run_request_make(&options, none, none, &request, NULL), 0);
	assert_int_equal(request.spec.n_image_environment, 2);
	assert_true(is_text(&request.spec.image_environment[1],
			    "LD_LIBRARY_PATH=/usr/local/cuda/compat:/x"));
	run_request_done(&request);
	options.environment = (struct option_list){.items = empty, .count = 1};
	assert_int_equal(run_request_make(&options, none, none, &request, NULL), 0);
	assert_true(
	    is_text(&request.spec.image_environment[0], "LD_LIBRARY_PATH=/usr/local/cuda/compat"));
	run_request_done(&request);
}

static void refused(const struct run_options *options, char *const *argv, const char *text)
{
	struct run_request request;
	struct err err = {0};
	assert_int_equal(run_request_make(options, argv, none, &request, &err), -EINVAL);
	assert_non_null(strstr(err.text, text));
	run_request_done(&request);
}

static void what_cannot_be_meant(void **state)
{
	struct run_options options = plain;
	options.image = "";
	refused(&options, none, "--image names none");
	options.image = NULL;
	refused(&options, none, "an argument is missing");
	static const char *some[] = {"/a"}, *bad[] = {"a", "/a:", "/a:x", "/a:1:2", "/a:0"};
	const struct option_list list = {.items = some, .count = 1};
	const struct run_options only[] = {
	    {.volumes = list},	  {.pull = 1},	       {.tmpfs = list},
	    {.shm_bytes = 1},	  {.entrypoint = "x"}, {.user = "5"},
	    {.privileged = true}, {.selinux = 1},      {.cuda_compat = true}};
	for (size_t i = 0; i < sizeof(only) / sizeof(*only); i++) {
		options = only[i];
		options.gpus = RUN_GPUS_NOT_GIVEN;
		refused(&options, argv_of, "is for jobs with an --image");
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		options = plain;
		options.tmpfs = (struct option_list){.items = &bad[i], .count = 1};
		refused(&options, none, "--tmpfs");
	}
	options = plain;
	options.directory = "relative";
	refused(&options, none, "not absolute");
	options = plain;
	options.entrypoint = "";
	refused(&options, none, "--entrypoint names no program");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_least),
	    cmocka_unit_test(everything),
	    cmocka_unit_test(libraries_of_a_newer_cuda_come_first),
	    cmocka_unit_test(what_cannot_be_meant),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
