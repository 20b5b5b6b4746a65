/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/ticket.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/parse.h"
#include "doors/queue/tree.h"

enum { TICKET_TRIES = 256, TICKET_NUMBER_DIGITS = 12, TICKET_WORD_DIGITS = 16 };

#define TICKET_NUMBER_MAX UINT64_C(0xfffffffffff0)

void ticket_want(struct ticket_wants *wants, const char *unit)
{
	/* FNV-1a, 64 bit: http://www.isthe.com/chongo/tech/comp/fnv/ */
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	for (; *unit; unit++)
		hash = (hash ^ (uint8_t)*unit) * UINT64_C(0x100000001b3);
	hash ^= hash >> 32; /* the low bits of FNV alone are its weakest */
	unsigned bit = (unsigned)(hash % 128);
	wants->bits[bit / 64] |= UINT64_C(1) << (bit % 64);
}

bool ticket_wants_overlap(const struct ticket_wants *a, const struct ticket_wants *b)
{
	return (a->bits[0] & b->bits[0]) || (a->bits[1] & b->bits[1]);
}

/* Twelve digits of number, then the wants, all of fixed width: text order is line order. */
static int ticket_name(const struct token_place *place, uint64_t number,
		       const struct ticket_wants *wants, char out[TOKEN_SOCKET_NAME_MAX],
		       struct err *err)
{
	char rest[64];
	(void)snprintf(rest, sizeof(rest), "%012" PRIx64 "/%016" PRIx64 "%016" PRIx64, number,
		       wants->bits[0], wants->bits[1]);
	return token_socket_name(place, "queue", rest, out, err);
}

/* "0000...: 00000002 00000000 00010000 0001 01 12345 @name": Num, RefCount, Protocol, Flags, Type,
 * State, Inode, Path (net/unix/af_unix.c). 00010000 is SO_ACCEPTCON: listening. */
bool ticket_parse(const char *line, size_t length, const char *machine, uint64_t *out_number,
		  struct ticket_wants *out_wants)
{
	const char *end = line + length;
	const char *at = memchr(line, '@', length);
	if (!at || !memmem(line, (size_t)(at - line), " 00010000 ", 10))
		return false;

	char prefix[TOKEN_SOCKET_NAME_MAX];
	int prefix_length =
	    snprintf(prefix, sizeof(prefix), "@sluice/queue/%s%s", machine, machine[0] ? "/" : "");
	if (prefix_length < 0 || prefix_length >= (int)sizeof(prefix))
		return false;
	size_t rest = TICKET_NUMBER_DIGITS + 1 + 2 * TICKET_WORD_DIGITS;
	if ((size_t)(end - at) != (size_t)prefix_length + rest ||
	    memcmp(at, prefix, (size_t)prefix_length) != 0)
		return false;

	at += prefix_length;
	uint64_t number;
	struct ticket_wants wants;
	if (at[TICKET_NUMBER_DIGITS] != '/' ||
	    parse_hex_span(at, TICKET_NUMBER_DIGITS, TICKET_NUMBER_MAX, &number) < 0)
		return false;
	at += TICKET_NUMBER_DIGITS + 1;
	if (parse_hex_span(at, TICKET_WORD_DIGITS, UINT64_MAX, &wants.bits[0]) < 0 ||
	    parse_hex_span(at + TICKET_WORD_DIGITS, TICKET_WORD_DIGITS, UINT64_MAX,
			   &wants.bits[1]) < 0)
		return false;
	*out_number = number;
	*out_wants = wants;
	return true;
}

/* <0, 0, >0: which of two tickets stands nearer to the front. */
static int ticket_compare(uint64_t number_a, const struct ticket_wants *a, uint64_t number_b,
			  const struct ticket_wants *b)
{
	if (number_a != number_b)
		return number_a < number_b ? -1 : 1;
	for (int i = 0; i < 2; i++)
		if (a->bits[i] != b->bits[i])
			return a->bits[i] < b->bits[i] ? -1 : 1;
	return 0;
}

struct ticket_line {
	const struct ticket *self; /* NULL: only the highest number is wanted */
	uint64_t limit_number;	   /* only who is before this place is looked at */
	struct ticket_wants limit_wants;
	uint64_t highest;
	size_t ahead; /* who want something of ours and are before us */
	uint64_t previous_number;
	struct ticket_wants previous_wants;
};

static void ticket_see(struct ticket_line *seen, uint64_t number, const struct ticket_wants *wants)
{
	if (number > seen->highest)
		seen->highest = number;
	const struct ticket *self = seen->self;
	if (!self || !ticket_wants_overlap(wants, &self->wants) ||
	    ticket_compare(number, wants, seen->limit_number, &seen->limit_wants) >= 0)
		return;
	if (seen->ahead == 0 ||
	    ticket_compare(number, wants, seen->previous_number, &seen->previous_wants) > 0) {
		seen->previous_number = number;
		seen->previous_wants = *wants;
	}
	seen->ahead++;
}

static int ticket_read_line(const struct token_place *place, struct ticket_line *seen,
			    struct err *err)
{
	_cleanup_fclose_ FILE *file = fopen("/proc/net/unix", "re");
	if (!file)
		return err_set(err, -errno, "opening '/proc/net/unix': %s", err_describe(errno));
	_cleanup_free_ char *line = NULL;
	size_t capacity = 0;
	ssize_t length;
	for (int count = 0;
	     count < TICKET_LINE_MAX && (length = getline(&line, &capacity, file)) > 0;) {
		uint64_t number;
		struct ticket_wants wants;
		if (line[length - 1] == '\n')
			length--;
		if (ticket_parse(line, (size_t)length, place->machine, &number, &wants)) {
			ticket_see(seen, number, &wants);
			count++;
		}
	}
	return ferror(file) ? err_set(err, -EIO, "reading '/proc/net/unix'") : 0;
}

int ticket_take(const struct token_place *place, const struct ticket_wants *wants,
		struct ticket *out, struct err *err)
{
	for (int try = 0; try < TICKET_TRIES; try++) {
		struct ticket_line seen = {0};
		int result = ticket_read_line(place, &seen, err);
		if (result < 0)
			return result;
		/* Somebody may have taken the last number only to annoy: then all share it. */
		uint64_t number =
		    seen.highest < TICKET_NUMBER_MAX ? seen.highest + 1 : TICKET_NUMBER_MAX;
		char name[TOKEN_SOCKET_NAME_MAX];
		result = ticket_name(place, number, wants, name, err);
		if (result < 0)
			return result;
		int fd = token_socket_listen(name, err);
		if (fd >= 0) {
			*out = (struct ticket){.fd = fd, .number = number, .wants = *wants};
			return 0;
		}
		if (fd != -EADDRINUSE)
			return fd;
	}
	return err_set(err, -EAGAIN, "too many are joining the queue at once: try again");
}

void ticket_release(struct ticket *ticket)
{
	if (ticket->fd >= 0)
		(void)close(ticket->fd);
	*ticket = TICKET_NONE;
}

static bool ticket_is_stopped(const struct note *holder)
{
	struct tree_process process;
	return holder->pid > 0 && tree_read(holder->pid, &process, NULL) == 0 &&
	       process.state == 'T';
}

int ticket_watch(const struct token_place *place, const struct ticket *ticket,
		 struct note *out_holder, size_t *out_ahead, struct err *err)
{
	struct ticket_line seen = {.self = ticket};
	seen.limit_number = ticket->number;
	seen.limit_wants = ticket->wants;
	for (int try = 0; try < TICKET_TRIES; try++) {
		seen.ahead = 0;
		int result = ticket_read_line(place, &seen, err);
		if (result < 0)
			return result;
		if (seen.ahead == 0)
			return err_set(err, -ENOENT, "nobody is before us in the queue");
		char name[TOKEN_SOCKET_NAME_MAX];
		result = ticket_name(place, seen.previous_number, &seen.previous_wants, name, err);
		if (result < 0)
			return result;
		/* Refused: it left between reading and connecting, or is no ticket and only looks
		 * like one in that list. Full: it was stopped long ago and accepts nobody. */
		_cleanup_close_ int fd = token_socket_connect(name, out_holder, err);
		if (fd < 0 && fd != -ECONNREFUSED && fd != -EAGAIN)
			return fd;
		if (fd >= 0 && !ticket_is_stopped(out_holder)) {
			*out_ahead = seen.ahead;
			return take_fd(&fd);
		}
		seen.limit_number = seen.previous_number;
		seen.limit_wants = seen.previous_wants;
	}
	return err_set(err, -EAGAIN, "the queue changes faster than it can be read");
}
