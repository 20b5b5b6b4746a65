/* SPDX-License-Identifier: Apache-2.0 */
#include "job/cgroup/devguard.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "job/cgroup/cgroup.h"

_Static_assert((int)DEVGUARD_MKNOD == BPF_DEVCG_ACC_MKNOD &&
		   (int)DEVGUARD_READ == BPF_DEVCG_ACC_READ &&
		   (int)DEVGUARD_WRITE == BPF_DEVCG_ACC_WRITE,
	       "the kernel's numbers");

enum {
	DEVGUARD_DENY_AT = 2 /* instructions from the end */,
	DEVGUARD_LINE_MAX = 64,
	DEVGUARD_NUMBER_MAX = 12
};

/* --- cgroup v2 -------------------------------------------------------------------------------- */

static struct bpf_insn devguard_load(uint8_t to, int16_t offset)
{
	return (struct bpf_insn){.code = BPF_LDX | BPF_MEM | BPF_W,
				 .dst_reg = to & 0xf,
				 .src_reg = BPF_REG_1,
				 .off = offset};
}

static struct bpf_insn devguard_number(uint8_t operation, uint8_t to, int32_t number)
{
	return (struct bpf_insn){
	    .code = BPF_ALU64 | BPF_K | operation, .dst_reg = to & 0xf, .imm = number};
}

static struct bpf_insn devguard_jump(uint8_t operation, uint8_t with, uint32_t number, size_t over)
{
	return (struct bpf_insn){.code = BPF_JMP | BPF_K | operation,
				 .dst_reg = with & 0xf,
				 .off = (int16_t)over, /* below DEVGUARD_PROGRAM_MAX */
				 .imm = (int32_t)number};
}

size_t devguard_program(const struct devguard_rule *rules, size_t count, struct bpf_insn *out)
{
	if (count > DEVGUARD_RULES_MAX)
		return 0;

	size_t at = 0, length = DEVGUARD_HEAD + DEVGUARD_EACH * count + DEVGUARD_TAIL;

	/* struct bpf_cgroup_dev_ctx: access << 16 | type, major, minor. */
	out[at++] = devguard_load(BPF_REG_2, offsetof(struct bpf_cgroup_dev_ctx, access_type));
	out[at++] = devguard_load(BPF_REG_3, offsetof(struct bpf_cgroup_dev_ctx, major));
	out[at++] = devguard_load(BPF_REG_4, offsetof(struct bpf_cgroup_dev_ctx, minor));
	out[at++] = (struct bpf_insn){
	    .code = BPF_ALU64 | BPF_X | BPF_MOV, .dst_reg = BPF_REG_5, .src_reg = BPF_REG_2};
	out[at++] = devguard_number(BPF_RSH, BPF_REG_5, 16);
	out[at++] = devguard_number(BPF_AND, BPF_REG_2, 0xffff);

	for (size_t i = 0; i < count; i++) {
		const struct devguard_rule *rule = &rules[i];
		uint32_t type = rule->type == 'b' ? BPF_DEVCG_DEV_BLOCK : BPF_DEVCG_DEV_CHAR;

		out[at++] = devguard_jump(BPF_JNE, BPF_REG_2, type, 4);
		out[at++] = devguard_jump(BPF_JNE, BPF_REG_3, rule->major, 3);
		out[at++] = devguard_jump(BPF_JLT, BPF_REG_4, rule->first, 2);
		out[at++] = devguard_jump(BPF_JGT, BPF_REG_4, rule->last, 1);
		out[at] = devguard_jump(BPF_JSET, BPF_REG_5, rule->access,
					length - DEVGUARD_DENY_AT - at - 1);
		at++;
	}

	for (int32_t answer = 1; answer >= 0; answer--) {
		out[at++] = devguard_number(BPF_MOV, BPF_REG_0, answer);
		out[at++] = (struct bpf_insn){.code = BPF_JMP | BPF_EXIT};
	}

	return at;
}

static int devguard_bpf(enum bpf_cmd command, union bpf_attr *attributes)
{
	int rc = (int)syscall(SYS_bpf, command, attributes, sizeof(*attributes));
	return rc < 0 ? -errno : rc;
}

static int devguard_make(const struct devguard_rule *rules, size_t count, struct err *err)
{
	if (count == 0)
		return err_set(err, -ENODATA, "there are no device rules");

	_cleanup_free_ struct bpf_insn *program = calloc(DEVGUARD_PROGRAM_MAX, sizeof(*program));
	if (!program)
		return err_set(err, -ENOMEM, "no memory for device rules");

	size_t length = devguard_program(rules, count, program);
	if (length == 0)
		return err_set(err, -E2BIG, "%zu device rules: %d are possible", count,
			       DEVGUARD_RULES_MAX);

	union bpf_attr load = {.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE,
			       .insn_cnt = (uint32_t)length,
			       .insns = (uint64_t)(uintptr_t)program,
			       .license = (uint64_t)(uintptr_t) "Apache-2.0"};
	int fd = devguard_bpf(BPF_PROG_LOAD, &load); /* it has O_CLOEXEC */
	return fd < 0 ? err_set(err, fd, "loading device rules: %s", err_describe(fd)) : fd;
}

int devguard_attach_made(const struct cgroup *cgroup, int program_fd, struct err *err)
{
	union bpf_attr attach = {.target_fd = (uint32_t)cgroup->fd,
				 .attach_bpf_fd = (uint32_t)program_fd,
				 .attach_type = BPF_CGROUP_DEVICE,
				 .attach_flags = BPF_F_ALLOW_MULTI};
	int rc = devguard_bpf(BPF_PROG_ATTACH, &attach);
	if (rc < 0)
		return err_set(err, rc, "putting device rules around '%s': %s", cgroup->path,
			       err_describe(rc));

	return 0;
}

int devguard_attach(const struct cgroup *cgroup, const struct devguard_rule *rules, size_t count,
		    struct err *err)
{
	/* Of a program that denies nothing the kernel says that part of it is never reached. */
	if (count == 0)
		return 0;

	_cleanup_close_ int fd = devguard_make(rules, count, err);
	return fd < 0 ? fd : devguard_attach_made(cgroup, fd, err);
}

/* --- programs for many ------------------------------------------------------------------------ */

static bool devguard_is_same(const struct devguard_made *made, const struct devguard_rule *rules,
			     size_t count)
{
	bool is_same = made->count == count;

	for (size_t i = 0; is_same && i < count; i++) {
		const struct devguard_rule *a = &made->rules[i], *b = &rules[i];
		is_same = a->type == b->type && a->major == b->major && a->first == b->first &&
			  a->last == b->last && a->access == b->access;
	}

	return is_same;
}

static void devguard_made_done(struct devguard_made *made)
{
	free(made->rules);
	(void)close(made->program_fd);
}

int devguard_cache_get(struct devguard_cache *cache, const struct devguard_rule *rules,
		       size_t count)
{
	if (cache->is_off || count == 0)
		return -1;

	for (size_t i = 0; i < cache->used; i++)
		if (devguard_is_same(&cache->made[i], rules, count))
			return fcntl(cache->made[i].program_fd, F_DUPFD_CLOEXEC, 0);

	struct devguard_rule *copy = calloc(count, sizeof(*copy));
	int fd = copy ? devguard_make(rules, count, NULL) : -ENOMEM;
	if (fd < 0) {
		cache->is_off = fd == -EPERM || fd == -ENOSYS || fd == -EINVAL;
		free(copy);
		return -1;
	}

	memcpy(copy, rules, count * sizeof(*copy));
	struct devguard_made *place = &cache->made[cache->next];
	if (cache->used == DEVGUARD_CACHE_MAX)
		devguard_made_done(place);
	else
		cache->used++;
	*place = (struct devguard_made){.rules = copy, .count = count, .program_fd = fd};
	cache->next = (cache->next + 1) % DEVGUARD_CACHE_MAX;

	return fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

void devguard_cache_done(struct devguard_cache *cache)
{
	for (size_t i = 0; i < cache->used; i++)
		devguard_made_done(&cache->made[i]);
	*cache = DEVGUARD_CACHE_NONE;
}

/* --- cgroup v1 -------------------------------------------------------------------------------- */

/* A directory of the hierarchy, open for the two things that can be written to it. */
struct devguard_v1 {
	const char *path;
	int allow_fd, deny_fd;
	bool with_mknod; /* making nodes is denied, too */
};

/* The minor as a text: "*" for all of them. */
static int devguard_write(const struct devguard_v1 *group, bool denies, char type, uint32_t major_,
			  const char *minor_, uint32_t access, struct err *err)
{
	char line[DEVGUARD_LINE_MAX];
	int length = snprintf(line, sizeof(line), "%c %u:%s %s%s%s", type, major_, minor_,
			      access & DEVGUARD_READ ? "r" : "", access & DEVGUARD_WRITE ? "w" : "",
			      access & DEVGUARD_MKNOD ? "m" : ""); /* fits */
	if (write(denies ? group->deny_fd : group->allow_fd, line, (size_t)length) == length)
		return 0;

	/* What the group around this one does not have it cannot give. */
	if (!denies && errno == EPERM)
		return 0;

	return err_set(err, -errno, "%s '%s' in '%s': %s", denies ? "denying" : "allowing", line,
		       group->path, err_describe(errno));
}

static bool devguard_is_whole(const struct devguard_rule *rule)
{
	return rule->first == 0 && rule->last >= DEVGUARD_MINOR_MAX;
}

/* One by one. */
static int devguard_deny_v1(const struct devguard_v1 *group, const struct devguard_rule *rule,
			    struct err *err)
{
	uint32_t access =
	    group->with_mknod ? rule->access : rule->access & ~(uint32_t)DEVGUARD_MKNOD;
	if (access == 0)
		return 0;
	if (devguard_is_whole(rule))
		return devguard_write(group, true, rule->type, rule->major, "*", access, err);

	int rc = 0;
	for (uint32_t i = 0; rc == 0 && i <= rule->last - rule->first; i++) {
		char number[DEVGUARD_NUMBER_MAX];
		(void)snprintf(number, sizeof(number), "%u", rule->first + i); /* fits */
		rc = devguard_write(group, true, rule->type, rule->major, number, access, err);
	}

	return rc;
}

/* The first minor from `from` on that no rule denies, and how many of them follow each other;
 * DEVGUARD_MINOR_MAX + 1: none. */
static uint32_t devguard_gap(const struct devguard_rule *rules, size_t count, char type,
			     uint32_t major_, uint32_t from, uint32_t *out_length)
{
	bool has_moved = true;

	while (has_moved) {
		has_moved = false;
		for (size_t i = 0; i < count; i++) {
			const struct devguard_rule *rule = &rules[i];
			if (rule->type != type || rule->major != major_ || rule->first > from ||
			    rule->last < from)
				continue;

			from = rule->last + 1;
			has_moved = true;
		}
	}

	uint32_t end = DEVGUARD_MINOR_MAX + 1;
	for (size_t i = 0; i < count; i++)
		if (rules[i].type == type && rules[i].major == major_ && rules[i].first > from &&
		    rules[i].first < end)
			end = rules[i].first;

	*out_length = end > from ? end - from : 0;
	return from;
}

static int devguard_allow_rest(const struct devguard_v1 *group, const struct devguard_rule *rules,
			       size_t count, char type, uint32_t major_, struct err *err)
{
	int rc = 0;
	uint32_t length, from = devguard_gap(rules, count, type, major_, 0, &length);

	while (rc == 0 && from <= DEVGUARD_MINOR_MAX) {
		for (uint32_t i = 0; rc == 0 && i < length && i < DEVGUARD_V1_GAP; i++) {
			char number[DEVGUARD_NUMBER_MAX];
			(void)snprintf(number, sizeof(number), "%u", from + i); /* fits */
			rc = devguard_write(group, false, type, major_, number, DEVGUARD_ALL, err);
		}

		from = devguard_gap(rules, count, type, major_, from + length, &length);
	}

	return rc;
}

static bool devguard_has_rule(const struct devguard_rule *rules, size_t count, char type,
			      uint32_t major_)
{
	for (size_t i = 0; i < count; i++)
		if (rules[i].type == type && rules[i].major == major_)
			return true;
	return false;
}

/* All is denied, and what no rule has allowed again: of what is denied no end has to be known. */
static int devguard_allow_v1(const struct devguard_v1 *group, const struct devguard_rule *rules,
			     size_t count, struct err *err)
{
	if (write(group->deny_fd, "a", 1) < 0)
		return err_set(err, -errno, "denying all devices in '%s': %s", group->path,
			       err_describe(errno));

	int rc = 0;

	for (const char *type = "cb"; rc == 0 && *type; type++) {
		char line[] = {*type, ' ', '*', ':', '*', ' ', 'm'};
		if (!group->with_mknod && write(group->allow_fd, line, sizeof(line)) < 0 &&
		    errno != EPERM)
			return err_set(err, -errno, "allowing nodes to be made in '%s': %s",
				       group->path, err_describe(errno));

		for (uint32_t i = 0; rc == 0 && i < DEVGUARD_V1_MAJORS; i++)
			rc = devguard_has_rule(rules, count, *type, i)
				 ? devguard_allow_rest(group, rules, count, *type, i, err)
				 : devguard_write(group, false, *type, i, "*", DEVGUARD_ALL, err);
	}

	return rc;
}

/* Whether a list of what is denied can say it: not in a group that has a list of what is allowed,
 * as one in a container, and not with more minors than can be written one by one. */
static bool devguard_can_deny(int directory_fd, const struct devguard_rule *rules, size_t count)
{
	char text[DEVGUARD_LINE_MAX];
	_cleanup_close_ int fd = openat(directory_fd, "devices.list", O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof(text));
	if (length < 1 || text[0] != 'a')
		return false;

	for (size_t i = 0; i < count; i++)
		if (rules[i].last - rules[i].first >= DEVGUARD_V1_MAX &&
		    !devguard_is_whole(&rules[i]))
			return false;

	return true;
}

static int devguard_open(int directory_fd, const char *directory, const char *name, struct err *err)
{
	int fd = openat(directory_fd, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	return fd >= 0 ? fd
		       : err_set(err, -errno, "opening '%s/%s': %s", directory, name,
				 err_describe(errno));
}

int devguard_attach_v1(const char *directory, const struct devguard_rule *rules, size_t count,
		       bool with_mknod, struct err *err)
{
	int rc = cgroup_make_v1(directory, err);
	if (rc < 0)
		return rc;

	_cleanup_close_ int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, "opening '%s': %s", directory, err_describe(errno));

	_cleanup_close_ int deny_fd = devguard_open(fd, directory, "devices.deny", err);
	if (deny_fd < 0)
		return deny_fd;

	_cleanup_close_ int allow_fd = devguard_open(fd, directory, "devices.allow", err);
	if (allow_fd < 0)
		return allow_fd;

	const struct devguard_v1 group = {
	    .path = directory, .allow_fd = allow_fd, .deny_fd = deny_fd, .with_mknod = with_mknod};

	if (!devguard_can_deny(fd, rules, count))
		return devguard_allow_v1(&group, rules, count, err);

	for (size_t i = 0; rc == 0 && i < count; i++)
		rc = devguard_deny_v1(&group, &rules[i], err);

	return rc;
}
