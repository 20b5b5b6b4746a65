/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/devguard.h"

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
#include "base/file.h"
#include "doors/queue/cgroup.h"

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
	int result = (int)syscall(SYS_bpf, command, attributes, sizeof(*attributes));
	return result < 0 ? -errno : result;
}

int devguard_attach(const struct cgroup *cgroup, const struct devguard_rule *rules, size_t count,
		    struct err *err)
{
	/* Of a program that denies nothing the kernel says that part of it is never reached. */
	if (count == 0)
		return 0;
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
	_cleanup_close_ int fd = devguard_bpf(BPF_PROG_LOAD, &load);
	if (fd < 0)
		return err_set(err, fd, "loading device rules: %s", err_describe(fd));
	union bpf_attr attach = {.target_fd = (uint32_t)cgroup->fd,
				 .attach_bpf_fd = (uint32_t)fd,
				 .attach_type = BPF_CGROUP_DEVICE,
				 .attach_flags = BPF_F_ALLOW_MULTI};
	int result = devguard_bpf(BPF_PROG_ATTACH, &attach);
	if (result < 0)
		return err_set(err, result, "putting device rules around '%s': %s", cgroup->path,
			       err_describe(result));
	return 0;
}

/* --- cgroup v1 -------------------------------------------------------------------------------- */

/* The minor as a text: "*" for all of them. */
static int devguard_deny_line(int fd, const char *path, const struct devguard_rule *rule,
			      const char *minor_, bool with_mknod, struct err *err)
{
	char line[DEVGUARD_LINE_MAX];
	int length =
	    snprintf(line, sizeof(line), "%c %u:%s %s%s%s", rule->type, rule->major, minor_,
		     rule->access & DEVGUARD_READ ? "r" : "",
		     rule->access & DEVGUARD_WRITE ? "w" : "", with_mknod ? "m" : ""); /* fits */
	if (write(fd, line, (size_t)length) < 0)
		return err_set(err, -errno, "denying '%s' in '%s': %s", line, path,
			       err_describe(errno));
	return 0;
}

static int devguard_deny_v1(int fd, const char *path, const struct devguard_rule *rule,
			    bool with_mknod, struct err *err)
{
	with_mknod = with_mknod && (rule->access & DEVGUARD_MKNOD);
	if (!with_mknod && !(rule->access & (DEVGUARD_READ | DEVGUARD_WRITE)))
		return 0;
	if (rule->first == 0 && rule->last >= DEVGUARD_MINOR_MAX)
		return devguard_deny_line(fd, path, rule, "*", with_mknod, err);
	int result = 0;
	for (uint32_t i = 0; result == 0 && i < DEVGUARD_V1_MAX && i <= rule->last - rule->first;
	     i++) {
		char number[DEVGUARD_NUMBER_MAX];
		(void)snprintf(number, sizeof(number), "%u", rule->first + i); /* fits */
		result = devguard_deny_line(fd, path, rule, number, with_mknod, err);
	}
	return result;
}

int devguard_attach_v1(const char *directory, const struct devguard_rule *rules, size_t count,
		       bool with_mknod, struct err *err)
{
	char path[FILE_PATH_MAX];
	int result = file_path(path, err, "%s/devices.deny", directory);
	if (result == 0)
		result = file_mkdirs(directory, 0755, err);
	if (result < 0)
		return result;
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return err_set(err, -errno, "opening '%s': %s", path, err_describe(errno));
	for (size_t i = 0; result == 0 && i < count; i++)
		result = devguard_deny_v1(fd, path, &rules[i], with_mknod, err);
	return result;
}
