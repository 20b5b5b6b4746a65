/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "libexec/supervise/prepare.h"
#include "unit/unit.h"

static int launch_of(struct launch *launch)
{
	launch_init(launch);
	launch->id = 5;
	launch->attempt = 2;
	launch->spec.uid = geteuid();
	launch->spec.gid = getegid();
	(void)snprintf(launch->instance, sizeof(launch->instance), "0f1e2d3c-more");
	(void)snprintf(launch->spec.name, sizeof(launch->spec.name), "prepared");
	(void)snprintf(launch->spec.directory, sizeof(launch->spec.directory), "/");
	launch->grants = calloc(2, sizeof(*launch->grants));
	if (!launch->grants)
		return -ENOMEM;
	launch->grant_count = 2;
	for (size_t i = 0; i < 2; i++) {
		struct launch_grant *grant = &launch->grants[i];
		(void)snprintf(grant->uuid, sizeof(grant->uuid), "GPU-%zu%010d", i, (int)getpid());
		(void)snprintf(grant->label, sizeof(grant->label), "GPU %zu", i);
		grant->slot_count = 4;
		launch_grant_add(grant, 0);
		launch_grant_add(grant, 3);
	}
	return spec_add_argument(&launch->spec, "true", NULL);
}

static void a_launch_is_read_from_its_beginning(void **state)
{
	struct launch launch _cleanup_launch_, again _cleanup_launch_;
	launch_init(&again);
	assert_int_equal(launch_of(&launch), 0);
	char *bytes = NULL;
	size_t length = 0;
	assert_int_equal(launch_format(&launch, &bytes, &length, NULL), 0);
	_cleanup_close_ int fd = memfd_create("launch", MFD_CLOEXEC);
	assert_int_equal(prepare_launch(fd, &again, NULL), -EINVAL); /* empty */
	assert_int_equal(write(fd, bytes, length), length);
	free(bytes);
	assert_int_equal(prepare_launch(fd, &again, NULL), 0);
	assert_int_equal(again.id, 5);
	launch_done(&again);
	assert_int_equal(ftruncate(fd, LAUNCH_BYTES_MAX + 1), 0);
	assert_int_equal(prepare_launch(fd, &again, NULL), -EINVAL);
}

static void all_tokens_are_taken_or_none(void **state)
{
	struct launch launch _cleanup_launch_;
	assert_int_equal(launch_of(&launch), 0);
	char *tmp = unit_tmp_new();
	(void)snprintf(launch.runtime_dir, sizeof(launch.runtime_dir), "%s/run", tmp);
	struct prepare_tokens tokens, others;
	struct err err = {0};
	if (prepare_tokens(&launch, &tokens, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(tokens.count, 4);
	for (size_t i = 0; i < 4; i++) {
		assert_true(tokens.tokens[i].socket_fd >= PREPARE_FD_MIN);
		assert_true(tokens.tokens[i].lock_fd >= PREPARE_FD_MIN);
		assert_int_equal(fcntl(tokens.tokens[i].lock_fd, F_GETFD), FD_CLOEXEC);
	}
	/* Another job wants one that is free and one that is not. */
	launch.grants[0].slots[0] = 1 << 1;
	assert_int_equal(prepare_tokens(&launch, &others, &err), -EBUSY);
	assert_int_equal(others.count, 0);
	char expected[128];
	(void)snprintf(expected, sizeof(expected),
		       "GPU 1 (slot 0) is held by process %d of user %u", (int)getpid(),
		       (unsigned)geteuid());
	assert_string_equal(err.text, expected);
	launch.grant_count = 1;
	assert_int_equal(prepare_tokens(&launch, &others, &err), 0);
	assert_int_equal(others.count, 1);
	prepare_release(&others);
	prepare_release(&tokens);
	launch.grant_count = 0;
	assert_int_equal(prepare_tokens(&launch, &others, &err), 0);
	assert_int_equal(others.count, 0);
	(void)unit_tmp_free(tmp);
}

static void outputs_are_appended_to_and_follow_no_link(void **state)
{
	struct launch launch _cleanup_launch_;
	assert_int_equal(launch_of(&launch), 0);
	char *tmp = unit_tmp_new();
	_cleanup_close_ int directory = open(tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct err err = {0};
	for (int i = 0; i < 2; i++) {
		_cleanup_close_ int fd = prepare_output(directory, &launch, "out", &err);
		assert_true(fd >= 0);
		assert_int_equal(write(fd, "x", 1), 1);
		assert_int_equal(fcntl(fd, F_GETFL) & (O_APPEND | O_NONBLOCK), O_APPEND);
	}
	struct stat status;
	assert_int_equal(fstatat(directory, "out.2", &status, 0), 0);
	assert_int_equal(status.st_size, 2);
	assert_int_equal(status.st_mode & 07777, 0600);
	assert_int_equal(symlinkat("other", directory, "err.2"), 0);
	assert_int_equal(prepare_output(directory, &launch, "err", &err), -ELOOP);
	assert_int_equal(unlinkat(directory, "err.2", 0), 0);
	assert_int_equal(mkfifoat(directory, "err.2", 0600), 0);
	assert_true(prepare_output(directory, &launch, "err", &err) < 0);
	(void)unit_tmp_free(tmp);
}

static void the_claim_tells_who_we_are(void **state)
{
	struct launch launch _cleanup_launch_;
	assert_int_equal(launch_of(&launch), 0);
	struct cgroup cgroup = {.fd = 0, .path = "/sys/fs/cgroup/x"};
	struct jobdir_claim claim;
	assert_int_equal(prepare_claim(&launch, &cgroup, &claim, NULL), 0);
	assert_int_equal(claim.pid, getpid());
	assert_int_equal(strlen(claim.boot_id), 36);
	assert_string_equal(claim.instance, launch.instance);
	assert_string_equal(claim.cgroup, cgroup.path);
	assert_true(claim.start_ticks > 0 && claim.unix_ns > 0);
	cgroup.fd = -1;
	assert_int_equal(prepare_claim(&launch, &cgroup, &claim, NULL), 0);
	assert_string_equal(claim.cgroup, "");
}

static void without_a_root_there_is_no_cgroup(void **state)
{
	struct launch launch _cleanup_launch_;
	assert_int_equal(launch_of(&launch), 0);
	struct cgroup cgroup = CGROUP_NONE;
	assert_int_equal(prepare_cgroup(&launch, &cgroup, NULL), -ENOENT);
	(void)snprintf(launch.cgroup_root, sizeof(launch.cgroup_root), "/tmp");
	assert_int_equal(prepare_cgroup(&launch, &cgroup, NULL), -EMEDIUMTYPE);
	assert_int_equal(cgroup.fd, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_launch_is_read_from_its_beginning),
	    cmocka_unit_test(all_tokens_are_taken_or_none),
	    cmocka_unit_test(outputs_are_appended_to_and_follow_no_link),
	    cmocka_unit_test(the_claim_tells_who_we_are),
	    cmocka_unit_test(without_a_root_there_is_no_cgroup),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
