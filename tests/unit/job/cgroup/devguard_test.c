/* SPDX-License-Identifier: Apache-2.0 */
/* The program in a small interpreter, and the real thing where we may: root with cgroups. */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "job/cgroup/cgroup.h"
#include "job/cgroup/devguard.h"
#include "unit/unit.h"

enum { NODE_MAJOR = 195, NODE_DENIED = 77, NODE_ALLOWED = 78, READ_WRITE = 6 };

static const struct devguard_rule rules[] = {
    {'c', 226, 128, 130, DEVGUARD_ALL},
    {'c', NODE_MAJOR, NODE_DENIED, NODE_DENIED, DEVGUARD_ALL},
    {'b', 8, 1, 1, DEVGUARD_WRITE},
};

/* --- without a kernel ------------------------------------------------------------------------- */

static uint64_t jumps(uint8_t operation, uint64_t with, uint64_t number)
{
	switch (operation) {
	case BPF_JSET:
		return (with & number) != 0;
	case BPF_JLT:
		return with < number;
	case BPF_JGT:
		return with > number;
	default:
		return with != number;
	}
}

/* What the kernel would get: as much of its machine as the program uses. */
static uint64_t result_of(const struct bpf_insn *program, size_t length,
			  const struct bpf_cgroup_dev_ctx *context)
{
	uint64_t registers[11] = {0};
	for (size_t at = 0, steps = 0; at < length && steps < 10000; at++, steps++) {
		const struct bpf_insn *one = &program[at];
		uint64_t *to = &registers[one->dst_reg];
		uint64_t number =
		    BPF_SRC(one->code) == BPF_X ? registers[one->src_reg] : (uint64_t)one->imm;
		if (BPF_CLASS(one->code) == BPF_LDX) {
			uint32_t word;
			memcpy(&word, (const char *)context + one->off, sizeof(word));
			*to = word;
		} else if (one->code == (BPF_JMP | BPF_EXIT)) {
			return registers[0];
		} else if (BPF_CLASS(one->code) == BPF_JMP) {
			at += jumps(BPF_OP(one->code), *to, number) ? (size_t)one->off : 0;
		} else if (BPF_OP(one->code) == BPF_MOV) {
			*to = number;
		} else if (BPF_OP(one->code) == BPF_RSH) {
			*to >>= number;
		} else {
			assert_int_equal(BPF_OP(one->code), BPF_AND);
			*to &= number;
		}
	}
	fail_msg("the program has no end");
	return 0;
}

static bool is_allowed(const struct bpf_insn *program, size_t length, uint32_t type, uint32_t major,
		       uint32_t minor, uint32_t access)
{
	const struct bpf_cgroup_dev_ctx context = {
	    .access_type = access << 16 | type, .major = major, .minor = minor};
	return result_of(program, length, &context) == 1;
}

static void the_program_denies_what_is_listed_and_nothing_else(void **state)
{
	struct bpf_insn *program = calloc(DEVGUARD_PROGRAM_MAX, sizeof(*program));
	assert_non_null(program);
	size_t length = devguard_program(rules, array_length(rules), program);
	assert_int_equal(length, DEVGUARD_HEAD + 3 * DEVGUARD_EACH + DEVGUARD_TAIL);
	enum { BLOCK = BPF_DEVCG_DEV_BLOCK, CHAR = BPF_DEVCG_DEV_CHAR };
	for (uint32_t access = 1; access <= DEVGUARD_ALL; access++) {
		assert_true(is_allowed(program, length, CHAR, 226, 127, access));
		assert_false(is_allowed(program, length, CHAR, 226, 128, access));
		assert_false(is_allowed(program, length, CHAR, 226, 130, access));
		assert_true(is_allowed(program, length, CHAR, 226, 131, access));
		assert_false(is_allowed(program, length, CHAR, NODE_MAJOR, NODE_DENIED, access));
		assert_true(is_allowed(program, length, CHAR, NODE_MAJOR, NODE_ALLOWED, access));
		assert_true(is_allowed(program, length, BLOCK, NODE_MAJOR, NODE_DENIED, access));
		assert_true(is_allowed(program, length, CHAR, 8, 1, access));
		assert_int_equal(is_allowed(program, length, BLOCK, 8, 1, access),
				 !(access & DEVGUARD_WRITE));
	}
	length = devguard_program(NULL, 0, program);
	assert_true(is_allowed(program, length, CHAR, NODE_MAJOR, NODE_DENIED, DEVGUARD_ALL));
	free(program);
}

static void as_many_rules_as_there_may_be(void **state)
{
	struct bpf_insn *program = calloc(DEVGUARD_PROGRAM_MAX, sizeof(*program));
	struct devguard_rule *many = calloc(DEVGUARD_RULES_MAX, sizeof(*many));
	assert_true(program && many);
	for (uint32_t i = 0; i < DEVGUARD_RULES_MAX; i++)
		many[i] = (struct devguard_rule){'c', 500, i, i, DEVGUARD_ALL};
	size_t length = devguard_program(many, DEVGUARD_RULES_MAX, program);
	assert_int_equal(length, DEVGUARD_PROGRAM_MAX);
	for (uint32_t i = 0; i <= DEVGUARD_RULES_MAX; i++)
		assert_int_equal(
		    is_allowed(program, length, BPF_DEVCG_DEV_CHAR, 500, i, DEVGUARD_READ),
		    i == DEVGUARD_RULES_MAX);
	assert_int_equal(devguard_program(many, DEVGUARD_RULES_MAX + 1, program), 0);
	free(many);
	free(program);
}

/* --- with one --------------------------------------------------------------------------------- */

struct place {
	struct cgroup cgroup;
	char v1[CGROUP_PATH_MAX];
	char *tmp;
};

static void place_make(struct place *place)
{
	static const char *const roots[] = {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"};
	char name[64];
	*place = (struct place){.cgroup = CGROUP_NONE, .tmp = unit_tmp_new()};
	(void)snprintf(name, sizeof(name), "sluice-unit-guard-%d", (int)getpid());
	for (size_t i = 0; geteuid() == 0 && i < array_length(roots); i++)
		if (cgroup_create(roots[i], name, &place->cgroup, NULL) == 0)
			return;
	print_message("skipped: needs root and a cgroup2 file system\n");
	place->tmp = unit_tmp_free(place->tmp);
	skip();
}

static void place_remove(struct place *place)
{
	cgroup_remove_v1(place->cgroup.path, true);
	assert_int_equal(cgroup_remove(&place->cgroup, NULL), 0);
	cgroup_close(&place->cgroup);
	place->tmp = unit_tmp_free(place->tmp);
}

/* errno of making and of opening a node, in the group. */
static void try_node(const struct place *place, const char *name, unsigned minor_, int *out_mknod,
		     int *out_open)
{
	const char *before = unit_path(place->tmp, "before"), *path = unit_path(place->tmp, name);
	int ends[2], codes[2] = {-1, -1};
	(void)unlink(before);
	assert_int_equal(mknod(before, S_IFCHR | 0666, makedev(NODE_MAJOR, minor_)), 0);
	assert_int_equal(pipe(ends), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int joined = cgroup_join(&place->cgroup);
		if (place->v1[0]) {
			char procs[CGROUP_PATH_MAX + 16];
			(void)snprintf(procs, sizeof(procs), "%s/cgroup.procs", place->v1);
			int fd = open(procs, O_WRONLY);
			joined = fd >= 0 && write(fd, "0", 1) == 1 ? 0 : -1;
		}
		codes[0] = mknod(path, S_IFCHR | 0666, makedev(NODE_MAJOR, minor_)) < 0 ? errno : 0;
		codes[1] = open(before, O_RDWR | O_NONBLOCK) < 0 ? errno : 0;
		_exit(joined < 0 || write(ends[1], codes, sizeof(codes)) < 0);
	}
	(void)close(ends[1]);
	int status = -1;
	assert_int_equal(read(ends[0], codes, sizeof(codes)), sizeof(codes));
	(void)close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	(void)unlink(path);
	*out_mknod = codes[0];
	*out_open = codes[1];
}

static void a_denied_node_cannot_be_made_or_opened(void **state)
{
	struct place place;
	int made, opened;
	struct err err = {0};
	place_make(&place);
	try_node(&place, "free", NODE_DENIED, &made, &opened); /* the test can fail */
	assert_int_equal(made, 0);
	assert_int_not_equal(opened, EPERM);
	/* Nothing to deny is nothing that the kernel could refuse. */
	assert_int_equal(devguard_attach(&place.cgroup, NULL, 0, &err), 0);
	int result = devguard_attach(&place.cgroup, rules, array_length(rules), &err);
	if (result == -EPERM || result == -ENOSYS || result == -EINVAL) {
		print_message("skipped: %s\n", err.text);
		place_remove(&place);
		skip();
	}
	assert_int_equal(result, 0);
	try_node(&place, "denied", NODE_DENIED, &made, &opened);
	assert_int_equal(made, EPERM);
	assert_int_equal(opened, EPERM);
	try_node(&place, "allowed", NODE_ALLOWED, &made, &opened);
	assert_int_equal(made, 0);
	assert_int_not_equal(opened, EPERM);
	place_remove(&place);
}

static void in_v1_a_denied_node_cannot_be_opened(void **state)
{
	struct place place;
	int made, opened;
	place_make(&place);
	if (cgroup_path_v1(place.cgroup.path, "devices", place.v1, NULL) < 0) {
		print_message("skipped: no hierarchy 'devices' of cgroup v1\n");
		place_remove(&place);
		skip();
	}
	assert_int_equal(devguard_attach_v1(place.v1, rules, array_length(rules), false, NULL), 0);
	try_node(&place, "denied", NODE_DENIED, &made, &opened);
	assert_int_equal(made, 0); /* see devguard.h */
	assert_int_equal(opened, EPERM);
	assert_int_equal(devguard_attach_v1(place.v1, rules, array_length(rules), true, NULL), 0);
	try_node(&place, "denied", NODE_DENIED, &made, &opened);
	assert_int_equal(made, EPERM);
	assert_int_equal(opened, EPERM);
	try_node(&place, "allowed", NODE_ALLOWED, &made, &opened);
	assert_int_equal(made, 0);
	assert_int_not_equal(opened, EPERM);
	char directory[CGROUP_PATH_MAX];
	memcpy(directory, place.v1, sizeof(directory));
	place_remove(&place);
	assert_int_equal(access(directory, F_OK), -1);
}

/* errno of opening a path in the group. */
static int open_in(const struct place *place, const char *path)
{
	char procs[CGROUP_PATH_MAX + 16];
	(void)snprintf(procs, sizeof(procs), "%s/cgroup.procs", place->v1);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int fd = open(procs, O_WRONLY | O_CLOEXEC);
		if (fd < 0 || write(fd, "0", 1) != 1)
			_exit(255);
		_exit(open(path, O_RDWR | O_NOCTTY | O_CLOEXEC) < 0 ? errno : 0);
	}
	int status = 0;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WEXITSTATUS(status);
}

/* The nodes of MIG instances: all but a job's own are denied, and they have many numbers. */
static void in_v1_no_number_is_too_high(void **state)
{
	static const unsigned denied[] = {
	    0,	  NODE_ALLOWED - 1, NODE_ALLOWED + 1,  2047 + NODE_ALLOWED,
	    5000, 300000,	    DEVGUARD_MINOR_MAX};
	static const struct devguard_rule wide[] = {
	    {'c', NODE_MAJOR, 0, NODE_ALLOWED - 1, DEVGUARD_ALL},
	    {'c', NODE_MAJOR, NODE_ALLOWED + 1, DEVGUARD_MINOR_MAX, DEVGUARD_ALL}};
	for (int with_mknod = 0; with_mknod < 2; with_mknod++) {
		struct place place;
		struct err err = {0};
		int made, opened;
		place_make(&place);
		if (cgroup_path_v1(place.cgroup.path, "devices", place.v1, NULL) < 0) {
			print_message("skipped: no hierarchy 'devices' of cgroup v1\n");
			place_remove(&place);
			skip();
		}
		if (devguard_attach_v1(place.v1, wide, array_length(wide), with_mknod, &err) < 0)
			fail_msg("%s", err.text);
		for (size_t i = 0; i < array_length(denied); i++) {
			try_node(&place, "denied", denied[i], &made, &opened);
			if (opened != EPERM || made != (with_mknod ? EPERM : 0))
				fail_msg("%u: made %d, opened %d", denied[i], made, opened);
		}
		try_node(&place, "allowed", NODE_ALLOWED, &made, &opened);
		assert_int_equal(made, 0);
		assert_int_not_equal(opened, EPERM);
		assert_int_equal(open_in(&place, "/dev/zero"), 0);
		assert_int_equal(open_in(&place, "/dev/ptmx"), 0);
		/* One below it, as of a worker, has the same form, and can have less. */
		size_t length = strlen(place.v1);
		(void)snprintf(place.v1 + length, sizeof(place.v1) - length, "/w0");
		const struct devguard_rule all = {'c', NODE_MAJOR, 0, DEVGUARD_MINOR_MAX,
						  DEVGUARD_ALL};
		assert_int_equal(devguard_attach_v1(place.v1, &all, 1, with_mknod, NULL), 0);
		try_node(&place, "denied", NODE_ALLOWED, &made, &opened);
		assert_int_equal(opened, EPERM);
		assert_int_equal(open_in(&place, "/dev/zero"), 0);
		place.v1[length] = '\0';
		place_remove(&place);
	}
}

static void what_is_no_cgroup_has_no_rules(void **state)
{
	struct err err = {0};
	struct cgroup none = CGROUP_NONE;
	char *tmp = unit_tmp_new();
	const char *path = unit_path(tmp, "group");
	assert_true(devguard_attach(&none, rules, array_length(rules), &err) < 0);
	assert_true(devguard_attach(&none, rules, DEVGUARD_RULES_MAX + 1, &err) == -E2BIG);
	assert_int_equal(devguard_attach_v1(path, rules, array_length(rules), true, &err), -ENOENT);
	assert_non_null(strstr(err.text, "devices.deny"));
	tmp = unit_tmp_free(tmp);
}

/* The same rules have the same program, which many cgroups can have. */
static void test_made_before(void **state)
{
	struct devguard_cache cache = DEVGUARD_CACHE_NONE;
	struct devguard_rule some[] = {{'c', 195, 0, 0, DEVGUARD_ALL}};
	int first = devguard_cache_get(&cache, some, 1);
	assert_int_equal(devguard_cache_get(&cache, some, 0), -1);
	if (first < 0) {
		assert_true(cache.is_off || geteuid() != 0);
		devguard_cache_done(&cache);
		print_message("skipped: the kernel makes no such programs for us\n");
		skip();
	}

	int again = devguard_cache_get(&cache, some, 1);
	assert_true(again >= 0 && again != first);
	assert_int_equal(cache.used, 1);
	for (uint32_t i = 1; i <= DEVGUARD_CACHE_MAX; i++) {
		some[0].first = some[0].last = i;
		int other = devguard_cache_get(&cache, some, 1);
		assert_true(other >= 0);
		(void)close(other);
	}
	assert_int_equal(cache.used, DEVGUARD_CACHE_MAX);
	some[0].last++; /* other rules, as many */
	int longer = devguard_cache_get(&cache, some, 1);
	assert_true(longer >= 0);
	assert_int_equal(
	    cache.made[(cache.next + DEVGUARD_CACHE_MAX - 1) % DEVGUARD_CACHE_MAX].rules[0].last,
	    DEVGUARD_CACHE_MAX + 1);
	devguard_cache_done(&cache);

	const struct cgroup none = CGROUP_NONE;
	struct err err = {0};
	assert_true(devguard_attach_made(&none, first, &err) < 0);
	assert_true(err.text[0] != '\0');
	(void)close(first); /* they outlive the cache */
	(void)close(again);
	(void)close(longer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_made_before),
	    cmocka_unit_test(the_program_denies_what_is_listed_and_nothing_else),
	    cmocka_unit_test(as_many_rules_as_there_may_be),
	    cmocka_unit_test(a_denied_node_cannot_be_made_or_opened),
	    cmocka_unit_test(in_v1_a_denied_node_cannot_be_opened),
	    cmocka_unit_test(in_v1_no_number_is_too_high),
	    cmocka_unit_test(what_is_no_cgroup_has_no_rules),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
