/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/store/store_before.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "job/spec.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"

#define TEXT(text) text, sizeof(text) - 1

/* As the release before wrote it, all its names. */
static const char whole[] =
    "sluice-spec 1\nname=train\0uid=1000\0gid=100\0directory=/home/u\0umask=18\0gpus=2\0ids=\0"
    "share_numerator=1\0share_denominator=4\0gpus_if_any=0\0ignore_outsiders=1\0"
    "grace_ns=5000000000\0deadline_ns=18446744073709551615\0resources=rdma/a=1\0on_end=echo\0"
    "output=/tmp/o\0port=8888\0pty=1\0memlock=1\0image=debian:12\0workdir=/w\0pull=2\0"
    "entrypoint=1\0run_as=0:0\0runtime=1\0privileged=1\0selinux_off=1\0worker_image=w\0"
    "wants=priority=-5\nafter=12,ok:13\n\0group=4\0group=27\0limit=7:1024:4096\0arg=/bin/echo\0"
    "arg=a b\0env=A=\xff\0volume=/a:/b\0image_env=B=1\0tmpfs=/dev/shm:0\0worker_env=C=2\0";

static int read_whole(void *context)
{
	struct spec spec _cleanup_spec_;
	return store_before_spec(TEXT(whole), &spec, NULL);
}

static void all_that_was_written_is_read(void **state)
{
	struct spec spec _cleanup_spec_;
	struct err err = {.code = 0};
	if (store_before_spec(TEXT(whole), &spec, &err) < 0)
		fail_msg("%s", err.text);
	assert_string_equal(spec.name, "train");
	assert_int_equal(spec.uid, 1000);
	assert_int_equal(spec.gid, 100);
	assert_string_equal(spec.directory, "/home/u");
	assert_int_equal(spec.umask, 022);
	assert_int_equal(spec.gpus, 2);
	assert_int_equal(spec.share_denominator, 4);
	assert_true(spec.ignore_outsiders && !spec.gpus_if_any);
	assert_int_equal(spec.grace_ns, UINT64_C(5000000000));
	assert_int_equal(spec.deadline_ns, UINT64_MAX);
	assert_string_equal(spec.resources, "rdma/a=1");
	assert_string_equal(spec.on_end, "echo");
	assert_string_equal(spec.output, "/tmp/o");
	assert_string_equal(spec.port, "8888");
	assert_true(spec.pty && spec.memlock && spec.privileged && spec.selinux_off);
	assert_string_equal(spec.image, "debian:12");
	assert_string_equal(spec.workdir, "/w");
	assert_int_equal(spec.pull, SPEC_PULL_ALWAYS);
	assert_int_equal(spec.entrypoint, 1);
	assert_string_equal(spec.run_as, "0:0");
	assert_int_equal(spec.runtime, SPEC_RUNTIME_PODMAN);
	assert_string_equal(spec.worker_image, "w");
	assert_int_equal(spec.wants.priority, -5);
	assert_string_equal(spec.wants.after, "12,ok:13");
	assert_int_equal(spec.group_count, 2);
	assert_int_equal(spec.groups[1], 27);
	assert_int_equal(spec.limit_count, 1);
	assert_int_equal(spec.limits[0].hard, 4096);
	assert_int_equal(spec.argc, 2);
	assert_string_equal(spec.argv[1], "a b");
	assert_string_equal(spec.environment[0], "A=\xff");
	assert_string_equal(spec.volumes[0], "/a:/b");
	assert_string_equal(spec.image_environment[0], "B=1");
	assert_string_equal(spec.tmpfs[0], "/dev/shm:0");
	assert_string_equal(spec.worker_environment[0], "C=2");
}

static void bad_specifications_are_refused_with_their_place(void **state)
{
	static const struct {
		const char *bytes;
		size_t length;
		const char *says;
	} bad[] = {
	    {TEXT(""), "no specification of an earlier release"},
	    {TEXT("sluice-spec 2\nname=a\0"), "no specification of an earlier release"},
	    {TEXT("sluice-spec 1\nname=a\0arg=x"), "entry 2 "},
	    {TEXT("sluice-spec 1\nname=a\0=x\0"), "entry 2 "},
	    {TEXT("sluice-spec 1\nuid=4294967295\0"), "entry 1 "},
	    {TEXT("sluice-spec 1\ncolour=red\0"), "entry 1 "},
	    {TEXT("sluice-spec 1\npull=3\0"), "entry 1 "},
	    {TEXT("sluice-spec 1\nlimit=1:2\0"), "entry 1 "},
	    {TEXT("sluice-spec 1\nlimit=1:2:3:4\0"), "entry 1 "},
	    {TEXT("sluice-spec 1\nlimit=16:2:3\0"), "entry 1 "},
	    {TEXT("sluice-spec 1\nwants=priority=101\n\0"), "entry 1 "},
	    {TEXT("sluice-spec 1\nname=a\0directory=/\0"), "nothing to run"},
	};
	for (size_t i = 0; i < array_length(bad); i++) {
		struct spec spec;
		struct err err = {0};
		assert_true(store_before_spec(bad[i].bytes, bad[i].length, &spec, &err) < 0);
		if (!strstr(err.text, bad[i].says))
			fail_msg("'%s' does not say '%s'", err.text, bad[i].says);
		assert_null(spec.argv);
	}
}

static void bad_wishes_are_refused(void **state)
{
	static const char *const bad[] = {
	    "priority=101\n",	 "priority=-101\n", "priority=--1\n", "priority=\n", "priority=1",
	    "priority=1 \n",	 "priority\n",	    "Priority=1\n",   "=1\n",	     "\n",
	    "nonsense=1\n",	 "hold=3\n",	    "retry_lost=2\n", "array=1\n",   "after=x\n",
	    "gpu_type=a\x01b\n",
	};
	for (size_t i = 0; i < array_length(bad); i++) {
		struct wants wants;
		struct err err = {.code = 0};
		if (store_before_wants(bad[i], strlen(bad[i]), &wants, &err) == 0)
			fail_msg("'%s' was taken", bad[i]);
		assert_true(err.text[0] != '\0');
	}
	struct wants wants;
	assert_int_equal(store_before_wants(TEXT("project=a\0b\n"), &wants, NULL), -EINVAL);
	assert_int_equal(store_before_wants("", 0, &wants, NULL), 0);
}

static void without_memory_it_says_so(void **state)
{
	assert_true(failmalloc_each(read_whole, NULL) > 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(all_that_was_written_is_read),
	    cmocka_unit_test(bad_specifications_are_refused_with_their_place),
	    cmocka_unit_test(bad_wishes_are_refused),
	    cmocka_unit_test(without_memory_it_says_so),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
