/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/supervise/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"

enum { RELAY_TEXT_MAX = 256, RELAY_TIME_MAX = 32, RELAY_RESERVE_PART = 20, RELAY_BLOCK = 16384 };

int relay_init(struct relay *relay, int file_fd, uint64_t limit_bytes)
{
	*relay = RELAY_NONE;
	relay->null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (relay->null_fd < 0)
		return -errno;
	relay->file_fd = file_fd;
	relay->limit_bytes = limit_bytes;
	return 0;
}

void relay_size_text(uint64_t bytes, char out[RELAY_SIZE_MAX])
{
	static const struct {
		unsigned shift;
		const char *name;
	} units[] = {{40, "TiB"}, {30, "GiB"}, {20, "MiB"}, {10, "KiB"}};

	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
		uint64_t unit = UINT64_C(1) << units[i].shift;
		if (bytes == 0 || bytes % unit)
			continue;

		(void)snprintf(out, RELAY_SIZE_MAX, "%" PRIu64 " %s", bytes / unit,
			       units[i].name); /* fits */
		return;
	}

	(void)snprintf(out, RELAY_SIZE_MAX, "%" PRIu64 " bytes", bytes); /* fits */
}

/* --- what is said in the file ----------------------------------------------------------------- */

void relay_say(struct relay *relay, const char *text)
{
	const struct relay *to = relay->notes ? relay->notes : relay;
	char line[RELAY_TEXT_MAX];
	/* What was there may end in the middle of a line. */
	int length = snprintf(line, sizeof(line), "%ssluice: %.*s\n",
			      to->stored_bytes > 0 ? "\n" : "", RELAY_TEXT_MAX - 16, text);
	(void)lseek(to->file_fd, 0, SEEK_END);
	(void)!write(to->file_fd, line, (size_t)length); /* where it has no room either, not */
}

static void relay_say_cut(struct relay *relay)
{
	char size[RELAY_SIZE_MAX], text[RELAY_TEXT_MAX];
	relay_size_text(relay->limit_bytes, size);
	(void)snprintf(text, sizeof(text), "output beyond %s was dropped", size); /* fits */
	relay_say(relay, text);
	relay->is_cut = true;
}

static void relay_say_full(struct relay *relay)
{
	char when[RELAY_TIME_MAX] = "", text[RELAY_TEXT_MAX];
	time_t now_s = (time_t)(clock_unix_ns() / (int64_t)CLOCK_NS_PER_S);
	struct tm now;

	if (gmtime_r(&now_s, &now))
		(void)strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &now);

	if (relay->is_full)
		(void)snprintf(text, sizeof(text), "output was dropped from %s on: %s", when,
			       relay->full_code ? err_describe(relay->full_code)
						: "the disk is nearly full");
	else
		(void)snprintf(text, sizeof(text),
			       "there is room again: %" PRIu64 " bytes were dropped until %s",
			       relay->dropped_bytes, when);

	relay_say(relay, text);
}

/* --- the disk --------------------------------------------------------------------------------- */

/* How much may be stored before the next look; 0: the disk is nearly full. */
static uint64_t relay_room(const struct relay *relay)
{
	struct statvfs disk;

	/* Who does not say how large it is says nothing. */
	if (fstatvfs(relay->file_fd, &disk) < 0 || disk.f_blocks == 0)
		return RELAY_LOOK_BYTES;

	uint64_t block = disk.f_frsize ? disk.f_frsize : disk.f_bsize;
	uint64_t reserve = (uint64_t)disk.f_blocks / RELAY_RESERVE_PART * block;
	if (reserve > RELAY_RESERVE_BYTES)
		reserve = RELAY_RESERVE_BYTES;

	uint64_t there = (uint64_t)disk.f_bavail * block;
	if (there <= reserve)
		return 0;

	return there - reserve < RELAY_LOOK_BYTES ? there - reserve : RELAY_LOOK_BYTES;
}

static void relay_set_full(struct relay *relay, bool is_full, int code)
{
	if (is_full == relay->is_full)
		return;
	relay->is_full = is_full;
	relay->full_code = code;
	relay_say_full(relay);
	relay->dropped_bytes = 0;
}

/* Whether something may be stored now. */
static bool relay_may_store(struct relay *relay)
{
	if (relay->is_cut)
		return false;

	uint64_t now_ns = clock_now_ns(&relay->clock);
	if (now_ns >= relay->look_at_ns || (relay->room_bytes == 0 && !relay->is_full)) {
		relay->look_at_ns = now_ns + RELAY_LOOK_NS;
		relay->room_bytes = relay_room(relay);
		/* After an error of writing, too: whether it works now shows when it is tried. */
		relay_set_full(relay, relay->room_bytes == 0, 0);
	}

	return !relay->is_full;
}

static void relay_count(struct relay *relay, size_t stored, size_t dropped)
{
	relay->stored_bytes += stored;
	relay->room_bytes -= stored < relay->room_bytes ? stored : relay->room_bytes;
	if (relay->is_full)
		relay->dropped_bytes += dropped;
	relay->was_full = relay->was_full || (relay->is_full && dropped > 0);
}

static void relay_failed(struct relay *relay, int code)
{
	relay->look_at_ns = clock_now_ns(&relay->clock) + RELAY_RETRY_NS;
	relay_set_full(relay, true, code);
}

/* How much of `length` may still be stored. */
static size_t relay_allowed(const struct relay *relay, size_t length)
{
	uint64_t left = relay->room_bytes;
	if (relay->limit_bytes > 0 && relay->limit_bytes - relay->stored_bytes < left)
		left = relay->limit_bytes - relay->stored_bytes;
	return left < length ? (size_t)left : length;
}

/* --- moving ----------------------------------------------------------------------------------- */

/* Where splice(2) cannot write. As splice(). */
static ssize_t relay_carry(struct relay *relay, size_t length)
{
	char block[RELAY_BLOCK];
	ssize_t got = read(relay->in_fd, block, length < sizeof(block) ? length : sizeof(block));
	ssize_t done = 0;

	while (done < got) {
		ssize_t written = write(relay->file_fd, block + done, (size_t)(got - done));
		if (written <= 0) { /* the rest is read, and lost */
			relay_count(relay, (size_t)done, 0);
			relay_failed(relay, written < 0 ? -errno : -EIO);
			relay_count(relay, 0, (size_t)(got - done));
			return got;
		}

		done += written;
	}

	if (got > 0)
		relay_count(relay, (size_t)got, 0);

	return got;
}

/* Takes up to `length` out of the pipe: into the file what may be, and drops the rest. As read().
 */
static ssize_t relay_take(struct relay *relay, size_t length)
{
	size_t allowed = relay_may_store(relay) ? relay_allowed(relay, length) : 0;
	if (allowed > 0) {
		(void)lseek(relay->file_fd, 0, SEEK_END);
		ssize_t moved = splice(relay->in_fd, NULL, relay->file_fd, NULL, allowed,
				       SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
		if (moved < 0 && (errno == EINVAL || errno == ENOSYS))
			return relay_carry(relay, allowed);
		if (moved >= 0)
			relay_count(relay, (size_t)moved, 0);

		if (moved >= 0 || errno == EAGAIN || errno == EINTR)
			return moved;

		relay_failed(relay, -errno);
	}

	ssize_t dropped =
	    splice(relay->in_fd, NULL, relay->null_fd, NULL, length, SPLICE_F_NONBLOCK);
	if (dropped <= 0)
		return dropped;
	if (relay->limit_bytes > 0 && relay->stored_bytes >= relay->limit_bytes && !relay->is_cut)
		relay_say_cut(relay);
	relay_count(relay, 0, (size_t)dropped);

	return dropped;
}

void relay_close_copy(struct relay *relay)
{
	if (relay->copy_fd >= 0)
		(void)close(take_fd(&relay->copy_fd));
}

void relay_lose_copy(struct relay *relay)
{
	relay->has_lost_copy = relay->has_lost_copy || relay->copy_fd >= 0;
	relay_close_copy(relay);
}

/* How much the copy has got of what is in the pipe, and so is to be taken; 0: it has no room. */
static size_t relay_tee(struct relay *relay, size_t length)
{
	if (relay->copy_fd < 0)
		return length;

	ssize_t given = tee(relay->in_fd, relay->copy_fd, length, SPLICE_F_NONBLOCK);
	if (given > 0)
		return (size_t)given;
	if (given < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;

	relay_lose_copy(relay); /* whoever reads it is gone, or it never works */
	return length;
}

static void relay_end(struct relay *relay)
{
	(void)close(take_fd(&relay->in_fd));
	relay_close_copy(relay);
}

/* How much is in the pipe: what comes later is not taken before the copy has it. Ends it when
 * nothing more can come. */
static size_t relay_there(struct relay *relay)
{
	struct pollfd wait = {.fd = relay->in_fd, .events = POLLIN};
	int there = 0;
	/* In this order: whoever has closed it has written before. */
	bool is_over = poll(&wait, 1, 0) == 1 && (wait.revents & (POLLHUP | POLLERR));

	if (ioctl(relay->in_fd, FIONREAD, &there) == 0 && there > 0)
		return (size_t)there;
	if (is_over)
		relay_end(relay);

	return 0;
}

enum relay_state relay_move(struct relay *relay)
{
	for (size_t total = 0; total < RELAY_STEP_BYTES;) {
		size_t length = RELAY_PIPE_BYTES;

		if (relay->copy_fd >= 0) {
			length = relay_there(relay);
			if (length == 0 && relay->in_fd >= 0)
				return RELAY_EMPTY;
			if (length == 0)
				return RELAY_ENDED;

			length = relay_tee(relay, length);
			if (length == 0)
				return RELAY_BLOCKED;
		}

		for (size_t left = length; left > 0;) {
			ssize_t taken = relay_take(relay, left);
			if (taken < 0 && errno == EINTR)
				continue;
			if (taken < 0 && errno == EAGAIN)
				return RELAY_EMPTY;
			if (taken <= 0) {
				relay_end(relay);
				return RELAY_ENDED;
			}

			total += (size_t)taken;
			left -= (size_t)taken;
			if (relay->copy_fd < 0)
				break; /* there is as much as there is */
		}
	}

	return RELAY_MORE;
}

static bool relay_copy(struct relay *relay, const char *bytes, size_t length)
{
	if (relay->copy_fd < 0)
		return true;

	ssize_t written = write(relay->copy_fd, bytes, length);
	if (written < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (written < 0)
		relay_lose_copy(relay);

	return true;
}

bool relay_store(struct relay *relay, const char *bytes, size_t length)
{
	if (!relay_copy(relay, bytes, length))
		return false;

	size_t done = 0, allowed;

	while (done < length && relay_may_store(relay) &&
	       (allowed = relay_allowed(relay, length - done)) > 0) {
		(void)lseek(relay->file_fd, 0, SEEK_END);
		ssize_t written = write(relay->file_fd, bytes + done, allowed);
		if (written <= 0)
			relay_failed(relay, written < 0 ? -errno : -EIO);
		else
			relay_count(relay, (size_t)written, 0);

		done += written > 0 ? (size_t)written : 0;
	}

	if (done < length && !relay->is_full && !relay->is_cut)
		relay_say_cut(relay);
	relay_count(relay, 0, length - done);
	return true;
}

void relay_done(struct relay *relay)
{
	if (relay->is_full && relay->file_fd >= 0) {
		relay->is_full = false;
		relay_say_full(relay); /* how much, at least */
	}

	relay_close_copy(relay);
	if (relay->in_fd >= 0)
		(void)close(take_fd(&relay->in_fd));
	if (relay->file_fd >= 0)
		(void)close(take_fd(&relay->file_fd));
	if (relay->null_fd >= 0)
		(void)close(take_fd(&relay->null_fd));
}
