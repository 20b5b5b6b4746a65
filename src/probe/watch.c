/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "hardware/pci.h"

static bool is_plain_file(int fd)
{
	struct stat info;
	return fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
}

static void follow(struct watch *watch, const char *path)
{
	if (watch->inotify_fd < 0)
		watch->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	/* Without it the file is still looked at, each time that poll() returns. */
	if (watch->inotify_fd >= 0)
		(void)inotify_add_watch(watch->inotify_fd, path, IN_MODIFY);
}

/* The log of a simulated machine with a virtual clock counts from that machine's start. Its last
 * record was written when the file was last changed: from that follow the times of all others. */
static void learn_clock(struct watch *watch)
{
	struct stat info;
	char tail[KMSG_RECORD_MAX];

	if (fstat(watch->kmsg_fd, &info) < 0)
		return;

	off_t from = info.st_size > (off_t)sizeof(tail) ? info.st_size - (off_t)sizeof(tail) : 0;
	ssize_t got = pread(watch->kmsg_fd, tail, sizeof(tail), from);
	uint64_t last_us = 0;

	for (ssize_t begin = 0; begin < got;) {
		const char *end = memchr(tail + begin, '\n', (size_t)(got - begin));
		ssize_t size = end ? end - (tail + begin) : got - begin;
		(void)kmsg_parse_time(tail + begin, (size_t)size, &last_us);
		begin += size + 1;
	}

	int64_t age_ns =
	    clock_unix_ns() - info.st_mtim.tv_sec * (int64_t)CLOCK_NS_PER_S - info.st_mtim.tv_nsec;
	int64_t now_ns = (int64_t)clock_real_ns();

	if (last_us < INT64_MAX / 1000)
		watch->kmsg_shift_ns = now_ns - age_ns - (int64_t)last_us * 1000;
}

uint64_t watch_time_of(const struct watch *watch, const struct kmsg_xid *xid)
{
	int64_t time_ns;
	if (xid->time_us > INT64_MAX / 1000 ||
	    __builtin_add_overflow((int64_t)xid->time_us * 1000, watch->kmsg_shift_ns, &time_ns) ||
	    time_ns < 0)
		return 0;
	return (uint64_t)time_ns;
}

static void open_log(struct watch *watch, const char *root, struct err *err)
{
	char path[FILE_PATH_MAX];

	if (strcmp(root, PCI_NO_ROOT) == 0) {
		err_set(err, -ENOENT, "this simulated machine has no kernel log");
		return;
	}

	/* A simulated machine has its log beside its trees. */
	if (file_path(path, err, root[0] ? "%s/kmsg" : "%s/dev/kmsg", root) < 0)
		return;
	if (root[0] && !file_exists(path) && file_path(path, err, "%s/dev/kmsg", root) < 0)
		return;

	watch->kmsg_fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (watch->kmsg_fd < 0) {
		int code = -errno;
		err_set(err, code, "the kernel log '%s' cannot be read: %s", path,
			err_describe(code));
		return;
	}

	watch->kmsg_is_file = is_plain_file(watch->kmsg_fd);
	if (watch->kmsg_is_file) {
		follow(watch, path);
		learn_clock(watch);
	}
}

void watch_follow_devices(struct watch *watch, const char *root, bool simulated)
{
	if (root[0]) {
		char path[FILE_PATH_MAX];
		if (file_path(path, NULL, "%s/uevent", root) < 0)
			return;

		watch->uevent_fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
		if (watch->uevent_fd < 0)
			return;

		watch->uevent_is_file = is_plain_file(watch->uevent_fd);
		struct stat info;
		if (watch->uevent_is_file && fstat(watch->uevent_fd, &info) == 0)
			watch->uevent_size = info.st_size;
		if (watch->uevent_is_file)
			follow(watch, path);

		return;
	}

	if (simulated)
		return;

	int fd =
	    socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);
	struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = 1};

	if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		(void)close(fd);
		fd = -1;
	}

	watch->uevent_fd = fd; /* -1: the list of GPUs is still compared every ten seconds */
}

int watch_open(struct watch *out, const char *root, bool simulated, bool kernel_log, uint64_t known,
	       struct err *err)
{
	*out = (struct watch){.kmsg_fd = -1, .uevent_fd = -1, .inotify_fd = -1, .known = known};
	out->line = malloc(KMSG_RECORD_MAX);
	if (!out->line)
		return err_set(err, -ENOMEM, "opening the kernel log: no memory");
	if (kernel_log && (root[0] || !simulated))
		open_log(out, root, err);
	return 0;
}

void watch_done(struct watch *watch)
{
	const int fds[] = {watch->kmsg_fd, watch->uevent_fd, watch->inotify_fd};
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		cleanup_close_fn(&fds[i]);
	free(watch->line);
	*watch = (struct watch){.kmsg_fd = -1, .uevent_fd = -1, .inotify_fd = -1};
}

uint32_t watch_fds(const struct watch *watch, int out[WATCH_FD_MAX])
{
	uint32_t count = 0;

	/* Plain files are always readable: inotify tells when they have grown. */
	if (watch->kmsg_fd >= 0 && !watch->kmsg_is_file)
		out[count++] = watch->kmsg_fd;
	if (watch->uevent_fd >= 0 && !watch->uevent_is_file)
		out[count++] = watch->uevent_fd;
	if (watch->inotify_fd >= 0)
		out[count++] = watch->inotify_fd;

	return count;
}

static void take_record(struct watch *watch, const char *record, size_t length,
			void (*found)(const struct kmsg_xid *xid, void *context), void *context)
{
	uint64_t sequence;
	if (!kmsg_parse_sequence(record, length, &sequence))
		return;

	bool seen = watch->known != UINT64_MAX && sequence <= watch->known;
	struct kmsg_xid xid;
	enum kmsg_kind kind = kmsg_parse(&watch->parser, record, length, &xid);

	if (seen)
		return;

	watch->known = sequence;
	if (kind == KMSG_XID)
		found(&xid, context);
}

/* Splits what a plain file gave at line ends; the rest waits in `line`. */
static void take_lines(struct watch *watch, const char *bytes, size_t length,
		       void (*found)(const struct kmsg_xid *xid, void *context), void *context)
{
	for (size_t i = 0; i < length; i++) {
		if (bytes[i] != '\n') {
			if (watch->line_length < KMSG_RECORD_MAX)
				watch->line[watch->line_length] = bytes[i];
			if (watch->line_length <= KMSG_RECORD_MAX)
				watch->line_length++;
			continue;
		}

		if (watch->line_length <= KMSG_RECORD_MAX)
			take_record(watch, watch->line, watch->line_length, found, context);
		watch->line_length = 0;
	}
}

void watch_read_log(struct watch *watch, void (*found)(const struct kmsg_xid *xid, void *context),
		    void *context)
{
	char bytes[KMSG_RECORD_MAX];

	for (uint32_t i = 0; watch->kmsg_fd >= 0 && i < WATCH_READ_MAX; i++) {
		ssize_t got = read(watch->kmsg_fd, bytes, sizeof(bytes));
		if (got > 0 && watch->kmsg_is_file)
			take_lines(watch, bytes, (size_t)got, found, context);
		else if (got > 0)
			take_record(watch, bytes, (size_t)got, found, context);
		else if (got < 0 && errno == EPIPE)
			watch->overwritten++; /* the next read goes on with the oldest record */
		else if (got == 0 || errno != EINTR)
			return;
	}
}

static bool mentions_pci(const char *bytes, size_t length)
{
	return memmem(bytes, length, "SUBSYSTEM=pci", 13) != NULL;
}

bool watch_devices_changed(struct watch *watch)
{
	char bytes[8192];
	bool changed = false;

	while (watch->inotify_fd >= 0 && read(watch->inotify_fd, bytes, sizeof(bytes)) > 0)
		; /* which file it was is found out by looking at both */

	if (watch->uevent_fd < 0)
		return false;

	if (watch->uevent_is_file) {
		struct stat info;
		changed = fstat(watch->uevent_fd, &info) == 0 && info.st_size != watch->uevent_size;
		if (changed)
			watch->uevent_size = info.st_size;
		return changed;
	}

	for (;;) {
		ssize_t got = recv(watch->uevent_fd, bytes, sizeof(bytes), MSG_DONTWAIT);
		if (got <= 0)
			return changed || (got < 0 && errno == ENOBUFS);
		changed |= mentions_pci(bytes, (size_t)got);
	}
}
