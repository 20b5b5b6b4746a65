/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of whole files: tests/documents/jobs, and those of tests/documents/manifests that
 * hold a job, against the results written beside them. */
#include "cmd/jobs/run/run_job.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "cmd/jobs/run/run_export.h"
#include "cmd/jobs/run/run_options.h"
#include "job/file/jobfile.h"
#include "unit/unit.h"

static char *const environment_of[] = {(char *)"A=1", NULL};

static const struct jobfile_place places[] = {
    {.name = "adas-data-pvc", .name_length = 13, .path = "/gpfs/ess3000_4M/adas"},
    {.name = "adas-priv-pvc", .name_length = 13, .path = "/srv/adas"},
    {.name = "adas-static", .name_length = 11, .path = "/gpfs/fs0/adas"}};

static int add_job(const struct jobfile_job *job, const char *name,
		   const struct run_options *options, struct buf *out, struct err *err)
{
	struct run_job made;
	_cleanup_buf_ struct buf text;
	buf_init(&text, 1 << 20);
	int rc = run_job_make(job, name, options, environment_of, &made, err);
	if (rc == 0)
		rc = run_job_show(&made.request, &text);
	json_t *json = rc == 0 ? json_loads(buf_text(&text), 0, NULL) : NULL;
	char *pretty = json ? json_dumps(json, JSON_INDENT(2)) : NULL;
	if (rc == 0 && !pretty)
		rc = -ENOMEM;
	if (rc == 0)
		rc = buf_printf(out, "%s\n", pretty);
	for (const struct jobfile_note *note = job->notes; rc == 0 && note; note = note->next)
		rc = buf_printf(out, "note: %s:%u: %s\n", name, note->line, note->text);
	free(pretty);
	json_decref(json);
	run_job_done(&made);
	return rc;
}

/* All jobs of a text, or the refusal. */
static int results(const char *text, size_t length, const char *name,
		   const struct run_options *options, struct buf *out)
{
	const struct jobfile_options how = {.places = places, .place_count = array_length(places)};
	struct jobfile *file = NULL;
	struct err err = {0};
	int rc = jobfile_parse(text, length, name, &how, &file, &err);
	for (size_t i = 0; rc == 0 && i < jobfile_count(file); i++)
		rc = add_job(jobfile_at(file, i), name, options, out, &err);
	(void)jobfile_free(file);
	return rc == -EINVAL || rc == -E2BIG ? buf_printf(out, "refused: %s\n", err.text) : rc;
}

/* What becomes of `text`, against results/RESULT. */
static void check_text(const struct buf *text, const char *name, const char *result_name)
{
	char result[FILE_PATH_MAX];
	const char *root = getenv("MESON_SOURCE_ROOT");
	_cleanup_buf_ struct buf got, wanted;
	struct err err = {0};
	buf_init(&got, 1 << 20);
	buf_init(&wanted, 1 << 20);
	assert_int_equal(
	    file_path(result, &err, "%s/tests/documents/jobs/results/%s", root, result_name), 0);
	assert_int_equal(results(buf_text(text), text->length, name, &run_defaults, &got), 0);
	if (getenv("SLUICE_UPDATE_RESULTS")) {
		assert_int_equal(file_write_atomic(result, got.data, got.length, 0644, &err), 0);
		return;
	}
	if (file_read(result, &wanted, &err) < 0)
		fail_msg("%s", err.text);
	assert_string_equal(buf_text(&got), buf_text(&wanted));
}

/* `text` without its lines "[...]", which are empty ones then: what these hide. False: it has none.
 */
static bool elide(const struct buf *text, struct buf *out)
{
	static const char dots[] = "[...]";
	bool is_elided = false;
	for (const char *at = buf_text(text); *at;) {
		size_t span = strcspn(at, "\n"), indent = strspn(at, " ");
		bool is_dots =
		    span == indent + strlen(dots) && strncmp(at + indent, dots, strlen(dots)) == 0;
		is_elided = is_elided || is_dots;
		assert_int_equal(buf_add(out, at, is_dots ? 0 : span), 0);
		assert_int_equal(buf_add_text(out, "\n"), 0);
		at += span + (at[span] == '\n');
	}
	return is_elided;
}

static void check_file(const char *directory, const char *name)
{
	char path[FILE_PATH_MAX], elided_name[256];
	const char *root = getenv("MESON_SOURCE_ROOT");
	_cleanup_buf_ struct buf text, elided;
	struct err err = {0};
	buf_init(&text, 1 << 20);
	buf_init(&elided, 1 << 20);
	assert_non_null(root);
	assert_int_equal(file_path(path, &err, "%s/tests/documents/%s/%s", root, directory, name),
			 0);
	if (file_read(path, &text, &err) < 0)
		fail_msg("%s", err.text);
	check_text(&text, name, name);
	(void)snprintf(elided_name, sizeof(elided_name), "%s.elided", name);
	if (elide(&text, &elided))
		check_text(&elided, name, elided_name);
}

static void test_job_files(void **state)
{
	char path[FILE_PATH_MAX];
	unsigned count = 0;
	assert_int_equal(
	    file_path(path, NULL, "%s/tests/documents/jobs", getenv("MESON_SOURCE_ROOT")), 0);
	_cleanup_closedir_ DIR *directory = opendir(path);
	assert_non_null(directory);
	for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
		const char *dot = strrchr(entry->d_name, '.');
		if (!dot || (strcmp(dot, ".yaml") != 0 && strcmp(dot, ".json") != 0))
			continue;
		check_file("jobs", entry->d_name);
		count++;
	}
	assert_true(count >= 15);
}

static void test_files_of_documents(void **state)
{
	static const char *const names[] = {
	    "benchmark-pod.printed.yaml",
	    "benchmark-pod.yaml",
	    "macvlan-pod.yaml",
	    "mpijob-short.printed.yaml",
	    "mpijob-v1alpha2.yaml",
	    "mpijob-v2beta1.yaml",
	    "mpijob.printed.yaml",
	    "nccl-job.printed.yaml",
	    "nccl-job.yaml",
	    "pod-of-dynamic-volume.printed.yaml",
	    "pod-of-dynamic-volume.yaml",
	    "pod-of-static-volume.printed.yaml",
	    "pod-of-static-volume.yaml",
	    "rdma-test-pod.printed.yaml",
	    "rdma-test-pod.yaml",
	    "vector-add-pod.yaml",
	};
	for (size_t i = 0; i < array_length(names); i++)
		check_file("manifests", names[i]);
}

static void host(const char *text, const char *wanted)
{
	struct run_options options = run_defaults;
	_cleanup_buf_ struct buf got;
	buf_init(&got, 1 << 20);
	options.host = true;
	assert_int_equal(results(text, strlen(text), "f", &options, &got), 0);
	if (!strstr(buf_text(&got), wanted))
		fail_msg("%s\n%s", buf_text(&got), wanted);
}

#define POD(container, more)                                                                       \
	"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {restartPolicy: Never, " more       \
	"containers: [{name: c, image: i, " container "}]}\n"

static void test_on_the_host(void **state)
{
	host(POD("command: [a, b], workingDir: /tmp, env: [{name: A, value: '2'}]", ""),
	     "\"argv\": [\n    \"a\",\n    \"b\"\n  ],\n  \"gpus\": 0");
	host(POD("args: [a]", ""), "refused: f:4: job 'p': the image says what to run");
	host(POD("command: [a], volumeMounts: [{name: v, mountPath: /tmp}]",
		 "volumes: [{name: v, hostPath: {path: /tmp}}], "),
	     "\"argv\"");
	host(POD("command: [a], volumeMounts: [{name: v, mountPath: /b}]",
		 "volumes: [{name: v, hostPath: {path: /tmp}}], "),
	     "nothing can be shown at '/b'");
	host(POD("command: [a], volumeMounts: [{name: v, mountPath: /dev/shm}]",
		 "volumes: [{name: v, emptyDir: {medium: Memory}}], "),
	     "\"argv\"");
	host(POD("command: [a], securityContext: {runAsUser: 4000000}", ""),
	     "runs as who submits it");
}

/* Exported, read and asked for again: the same. */
static void test_export_round_trip(void **state)
{
	const char *environment[] = {"A=1", "B=x: \"y\"\n# z"};
	const char *volumes[] = {"/srv/a:/a:ro", "/srv/b:/b"};
	const char *tmpfs[] = {"/dev/shm:1048576", "/t"};
	const char *resources[] = {"rdma/hca=2"};
	char *const argv[] = {(char *)"train", (char *)"--lr", (char *)"1e-3", NULL};
	struct run_options options = run_defaults;
	options.image = "i:1";
	options.name = "n";
	options.gpus = 2;
	options.cpus = 1.5;
	options.mem_bytes = 1000;
	options.priority = -5;
	options.prefer = "3,2";
	options.share = "slot";
	options.directory = "/w";
	options.entrypoint = "python";
	options.user = "5:6";
	options.time_ns = UINT64_C(90000000000);
	options.environment = (struct option_list){environment, 2};
	options.volumes = (struct option_list){volumes, 2};
	options.tmpfs = (struct option_list){tmpfs, 2};
	options.resources = (struct option_list){resources, 1};
	struct run_request request;
	struct err err = {0};
	_cleanup_buf_ struct buf before, yaml, after;
	buf_init(&before, 1 << 20);
	buf_init(&yaml, 1 << 20);
	buf_init(&after, 1 << 20);
	if (run_request_make(&options, argv, environment_of, &request, &err) < 0 ||
	    run_job_show(&request, &before) < 0 || run_export(&request, &yaml, &err) < 0)
		fail_msg("%s", err.text);
	run_request_done(&request);
	assert_int_equal(results(buf_text(&yaml), yaml.length, "f", &run_defaults, &after), 0);
	json_t *one = json_loads(buf_text(&before), 0, NULL),
	       *two = json_loads(buf_text(&after), 0, NULL);
	bool is_same = one && two && json_equal(one, two);
	json_decref(one);
	json_decref(two);
	if (!is_same)
		fail_msg("%s\n%s\n%s", buf_text(&before), buf_text(&yaml), buf_text(&after));
}

static void test_export_refused(void **state)
{
	char *const argv[] = {(char *)"x", NULL};
	struct run_options options = run_defaults;
	struct run_request request;
	struct err err = {0};
	_cleanup_buf_ struct buf yaml;
	buf_init(&yaml, 1 << 20);
	assert_int_equal(run_request_make(&options, argv, environment_of, &request, &err), 0);
	assert_int_equal(run_export(&request, &yaml, &err), -EINVAL);
	assert_non_null(strstr(err.text, "a job without --image"));
	run_request_done(&request);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_job_files),	   cmocka_unit_test(test_files_of_documents),
	    cmocka_unit_test(test_on_the_host),	   cmocka_unit_test(test_export_round_trip),
	    cmocka_unit_test(test_export_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
