/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/holders.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/parse.h"
#include "base/text.h"
#include "doctor/lines.h"
#include "doctor/rootfs.h"
#include "hardware/belonging.h"

enum { HOLDERS_GPU_BITS = 64, HOLDERS_WORD_MAX = 64, HOLDERS_TARGET_MAX = 256 };

/* --- lines ------------------------------------------------------------------------------------ */

/* The next word; its length is 0 at the end. */
static const char *holders_word(const char **at, const char *end, size_t *out_length)
{
	while (*at < end && (**at == ' ' || **at == '\t'))
		++*at;
	const char *word = *at;
	while (*at < end && **at != ' ' && **at != '\t')
		++*at;
	*out_length = (size_t)(*at - word);
	return word;
}

int holders_parse_memlock(const char *text, size_t length, uint64_t *out_bytes)
{
	static const char title[] = "Max locked memory";
	const char *at = text + sizeof(title) - 1;
	size_t size;

	if (length < sizeof(title) || memcmp(text, title, sizeof(title) - 1) != 0)
		return -EINVAL;

	const char *word = holders_word(&at, text + length, &size);
	if (size == 9 && memcmp(word, "unlimited", 9) == 0) {
		*out_bytes = HOLDERS_UNLIMITED;
		return 0;
	}

	return parse_u64_span(word, size, 0, HOLDERS_UNKNOWN - 1, out_bytes) < 0 ? -EINVAL : 0;
}

/* "size=65536k" among the options behind the last blank. */
static uint64_t holders_size(const char *text, size_t length)
{
	static const char key[] = "size=";
	const char *at = memmem(text, length, key, sizeof(key) - 1);
	uint64_t number, unit = 1;

	if (!at || (at > text && at[-1] != ','))
		return HOLDERS_UNLIMITED;

	at += sizeof(key) - 1;
	size_t left = length - (size_t)(at - text), digits = 0;
	while (digits < left && isdigit((unsigned char)at[digits]))
		digits++;

	if (digits < left)
		unit = at[digits] == 'k'   ? UINT64_C(1) << 10
		       : at[digits] == 'm' ? UINT64_C(1) << 20
		       : at[digits] == 'g' ? UINT64_C(1) << 30
					   : 1;

	if (parse_u64_span(at, digits, 0, UINT32_MAX * UINT64_C(1024), &number) < 0 || number == 0)
		return HOLDERS_UNLIMITED;

	return number * unit;
}

int holders_parse_shm(const char *text, size_t length, uint64_t *out_bytes)
{
	/* id, parent, device, root, where; then optional fields, "-", type, source, options. */
	enum { WHERE = 4, WORDS_MAX = 32 };
	const char *at = text, *end = text + length, *word = NULL;
	size_t size = 0;

	for (int i = 0; i <= WHERE; i++)
		word = holders_word(&at, end, &size);

	if (size != 8 || memcmp(word, "/dev/shm", 8) != 0)
		return -EINVAL;

	for (int i = 0; i < WORDS_MAX && !(size == 1 && *word == '-'); i++)
		word = holders_word(&at, end, &size);

	word = holders_word(&at, end, &size);
	if (size != 5 || memcmp(word, "tmpfs", 5) != 0)
		return -EINVAL;

	(void)holders_word(&at, end, &size);
	word = holders_word(&at, end, &size);
	*out_bytes = holders_size(word, size);

	return 0;
}

int holders_parse_pod(const char *text, size_t length, char out[HOLDERS_POD_MAX])
{
	struct belonging belonging;
	if (!belonging_parse(text, length, &belonging) || !belonging.pod[0])
		return -EINVAL;
	(void)snprintf(out, HOLDERS_POD_MAX, "%s", belonging.pod);
	return 0;
}

/* --- one process ------------------------------------------------------------------------------ */

static int holders_limits_line(const char *text, size_t length, void *context)
{
	return holders_parse_memlock(text, length, context) == 0;
}

static int holders_mounts_line(const char *text, size_t length, void *context)
{
	/* The last one that is mounted there is the one that is seen. */
	(void)holders_parse_shm(text, length, context);
	return 0;
}

static int holders_cgroup_line(const char *text, size_t length, void *context)
{
	struct holder *holder = context;
	return holders_parse_pod(text, length, holder->pod) == 0;
}

static int holders_status_line(const char *text, size_t length, void *context)
{
	struct holder *holder = context;
	char word[HOLDERS_WORD_MAX];
	uint64_t number;

	/* The real one, the first of four. */
	if (length > 4 && memcmp(text, "Uid:", 4) == 0) {
		const char *at = text + 4;
		size_t size;
		const char *uid = holders_word(&at, text + length, &size);
		if (parse_u64_span(uid, size, 0, UINT32_MAX, &number) == 0)
			holder->uid = (uint32_t)number;
	}

	if (lines_field(text, length, "CapEff", word, sizeof(word)))
		(void)parse_hex(word, UINT64_MAX, &holder->effective);
	if (lines_field(text, length, "CapBnd", word, sizeof(word)))
		(void)parse_hex(word, UINT64_MAX, &holder->bounding);

	return 0;
}

int holders_memlock(const struct rootfs *rootfs, uint32_t pid, uint64_t *out_bytes)
{
	char path[FILE_PATH_MAX];
	int rc = file_path(path, NULL, "/proc/%u/limits", pid);
	if (rc == 0)
		rc = rootfs_lines(rootfs, path, holders_limits_line, out_bytes);
	return rc < 0 ? rc : rc > 0 ? 0 : -EINVAL;
}

/* What it holds; false: nothing of ours. */
static bool holders_target(const char *target, struct holder *holder)
{
	static const char gpu[] = "/dev/nvidia", uverbs[] = "/dev/infiniband/uverbs";
	uint64_t minor;

	if (text_starts_with(target, uverbs))
		holder->has_uverbs = true;

	if (text_starts_with(target, gpu)) {
		holder->has_driver = true;
		holder->has_uvm |= strcmp(target, "/dev/nvidia-uvm") == 0;
		if (parse_u64(target + sizeof(gpu) - 1, 0, HOLDERS_GPU_BITS - 1, &minor) == 0)
			holder->gpus |= UINT64_C(1) << minor;
	}

	return holder->has_uverbs || holder->has_driver;
}

static void holders_describe(const struct rootfs *rootfs, struct holder *holder)
{
	char path[FILE_PATH_MAX];

	holder->memlock_bytes = holder->shm_bytes = HOLDERS_UNKNOWN;
	if (file_path(path, NULL, "/proc/%u/comm", holder->pid) < 0 ||
	    rootfs_word(rootfs, path, holder->name, sizeof(holder->name)) < 0)
		(void)snprintf(holder->name, sizeof(holder->name), "?");

	(void)holders_memlock(rootfs, holder->pid, &holder->memlock_bytes);
	if (file_path(path, NULL, "/proc/%u/mountinfo", holder->pid) == 0)
		(void)rootfs_lines(rootfs, path, holders_mounts_line, &holder->shm_bytes);
	if (file_path(path, NULL, "/proc/%u/cgroup", holder->pid) == 0)
		(void)rootfs_lines(rootfs, path, holders_cgroup_line, holder);
	if (file_path(path, NULL, "/proc/%u/status", holder->pid) == 0)
		(void)rootfs_lines(rootfs, path, holders_status_line, holder);
}

/* --- all of them ------------------------------------------------------------------------------ */

/* The descriptors of one process. */
struct holders_fds {
	struct holder *holder;
	uint32_t seen;
	bool holds;
};

/* readlinkat() alone: machines have ten thousands of processes, and each has some of these. */
static int holders_fd(int directory, const char *name, void *context)
{
	struct holders_fds *fds = context;
	char target[HOLDERS_TARGET_MAX];

	if (name[0] == '.')
		return 0;
	if (fds->seen++ == HOLDERS_FDS_MAX)
		return 1;

	ssize_t length = readlinkat(directory, name, target, sizeof(target));
	if (length <= 0 || length == sizeof(target))
		return 0; /* closed meanwhile, or longer than what is looked for */

	target[length] = '\0';
	fds->holds |= holders_target(target, fds->holder);
	return 0;
}

/* 1: it holds something; 0: it does not; -errno. */
static int holders_look(const struct rootfs *rootfs, uint32_t pid, struct holder *out)
{
	char path[FILE_PATH_MAX];
	struct holders_fds fds = {.holder = out};
	*out = (struct holder){.pid = pid};
	int rc = file_path(path, NULL, "/proc/%u/fd", pid);
	if (rc == 0)
		rc = rootfs_each(rootfs, path, holders_fd, &fds);
	return rc < 0 ? rc : fds.holds;
}

struct holders_search {
	const struct rootfs *rootfs;
	struct holders *out;
};

static int holders_process(int directory, const char *name, void *context)
{
	struct holders_search *search = context;
	struct holders *out = search->out;
	uint64_t pid;

	(void)directory;
	if (out->count == HOLDERS_MAX)
		return 1;
	if (parse_u64(name, 1, UINT32_MAX, &pid) < 0)
		return 0;

	struct holder *holder = &out->holder[out->count];
	int rc = holders_look(search->rootfs, (uint32_t)pid, holder);

	out->hidden += rc == -EACCES || rc == -EPERM;
	if (rc > 0) {
		holders_describe(search->rootfs, holder);
		out->count++;
	}

	return 0;
}

static int holders_compare(const void *a, const void *b)
{
	const struct holder *left = a, *right = b;
	return (left->pid > right->pid) - (left->pid < right->pid);
}

void holders_scan(const struct rootfs *rootfs, struct holders *out)
{
	struct holders_search search = {.rootfs = rootfs, .out = out};
	out->count = out->hidden = 0;
	(void)rootfs_each(rootfs, "/proc", holders_process, &search);
	if (out->count > 0)
		qsort(out->holder, out->count, sizeof(out->holder[0]), holders_compare);
}
