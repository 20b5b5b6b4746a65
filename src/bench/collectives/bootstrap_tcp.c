/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks on several machines: all come to rank 0, which hands everybody's part to everybody. */
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/parse.h"
#include "bench/collectives/bootstrap_private.h"

#define MAGIC	     UINT32_C(0x424e4c53)
#define FILE_BEGIN   "sluice-nccl/1 "
#define HELLO_TIME   (5 * CLOCK_NS_PER_S)
#define RETRY_NS     (50 * CLOCK_NS_PER_MS)
#define NAMED_ABSENT 8

enum { VERSION = 1, PENDING_MAX = 64, BACKLOG = 128 };

struct tcp_bootstrap {
	struct bootstrap bootstrap;
	uint64_t token;
	uint32_t sequence;
	int *peer; /* owned: of rank 0 one for each rank, -1 its own; of others one */
	uint32_t peers;
};

/* Somebody who has connected and has not yet said who he is. */
struct pending {
	int fd;
	uint64_t since_ns;
	size_t got;
	uint8_t head[BOOTSTRAP_HEAD];
};

static int remaining_ms(uint64_t deadline_ns)
{
	uint64_t now = clock_real_ns();
	uint64_t left = deadline_ns > now ? (deadline_ns - now) / CLOCK_NS_PER_MS + 1 : 0;
	return left > 1000 ? 1000 : (int)left;
}

static void put_u32(uint8_t *to, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		to[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t get_u32(const uint8_t *from)
{
	return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 |
	       (uint32_t)from[3] << 24;
}

void bootstrap_head_write(const struct bootstrap_head *head, uint8_t out[BOOTSTRAP_HEAD])
{
	put_u32(out, MAGIC);
	put_u32(out + 4, VERSION << 16 | (uint32_t)head->kind);
	put_u32(out + 8, head->rank);
	put_u32(out + 12, head->ranks);
	put_u32(out + 16, head->bytes);
	put_u32(out + 20, head->sequence);
	put_u32(out + 24, (uint32_t)head->token);
	put_u32(out + 28, (uint32_t)(head->token >> 32));
}

int bootstrap_head_parse(const uint8_t data[BOOTSTRAP_HEAD], struct bootstrap_head *out)
{
	uint32_t kind = get_u32(data + 4) & 0xffffu, most = 0;
	if (get_u32(data) != MAGIC || get_u32(data + 4) >> 16 != VERSION ||
	    kind < BOOTSTRAP_HELLO || kind > BOOTSTRAP_ALL)
		return -EPROTO;

	struct bootstrap_head head = {
	    .kind = (enum bootstrap_kind)kind,
	    .rank = get_u32(data + 8),
	    .ranks = get_u32(data + 12),
	    .bytes = get_u32(data + 16),
	    .sequence = get_u32(data + 20),
	    .token = (uint64_t)get_u32(data + 28) << 32 | get_u32(data + 24),
	};
	if (head.ranks < 1 || head.ranks > BOOTSTRAP_RANKS_MAX || head.rank >= head.ranks)
		return -ERANGE;
	if (head.kind == BOOTSTRAP_SHARE)
		most = BOOTSTRAP_SHARE_MAX;
	else if (head.kind == BOOTSTRAP_ALL)
		most = BOOTSTRAP_SHARE_MAX * head.ranks;

	if (head.bytes > most)
		return -EMSGSIZE;

	*out = head;
	return 0;
}

int bootstrap_file_parse(const char *text, size_t length, char out_host[BOOTSTRAP_HOST_MAX],
			 uint16_t *out_port, uint64_t *out_token)
{
	size_t begin = strlen(FILE_BEGIN);
	const char *line = memchr(text, '\n', length);

	if (length < begin ? memcmp(text, FILE_BEGIN, length) != 0
			   : memcmp(text, FILE_BEGIN, begin) != 0)
		return -EINVAL;
	if (!line)
		return length >= BOOTSTRAP_LINE_MAX ? -EINVAL : -EAGAIN;

	const char *host = text + begin;
	const char *space = memchr(host, ' ', (size_t)(line - host));
	const char *last = space ? memchr(space + 1, ' ', (size_t)(line - space - 1)) : NULL;
	uint64_t port, token;

	if (!last || space == host || space - host >= BOOTSTRAP_HOST_MAX ||
	    memchr(host, '\0', (size_t)(space - host)) ||
	    parse_u64_span(space + 1, (size_t)(last - space - 1), 1, UINT16_MAX, &port) < 0 ||
	    parse_hex_span(last + 1, (size_t)(line - last - 1), UINT64_MAX, &token) < 0)
		return -EINVAL;

	memcpy(out_host, host, (size_t)(space - host));
	out_host[space - host] = '\0';
	*out_port = (uint16_t)port;
	*out_token = token;

	return 0;
}

/* All of `bytes`, or an error; the socket does not block. `who` is for the message. */
static int move_bytes(int fd, uint8_t *data, size_t bytes, bool is_send, uint64_t deadline_ns,
		      uint32_t who, struct err *err)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t moved = is_send ? send(fd, data + done, bytes - done, MSG_NOSIGNAL)
					: recv(fd, data + done, bytes - done, 0);
		if (moved > 0) {
			done += (size_t)moved;
			continue;
		}

		if (moved == 0 || (errno != EAGAIN && errno != EINTR))
			return err_set(err, -EPIPE, "rank %u is gone", who);
		if (clock_real_ns() > deadline_ns)
			return err_set(err, -ETIMEDOUT, "rank %u does not answer", who);

		struct pollfd wait = {.fd = fd, .events = is_send ? POLLOUT : POLLIN};
		(void)poll(&wait, 1, remaining_ms(deadline_ns));
	}

	return 0;
}

static int send_message(const struct tcp_bootstrap *self, int fd, enum bootstrap_kind kind,
			const void *content, size_t bytes, uint64_t deadline_ns, uint32_t who,
			struct err *err)
{
	uint8_t head[BOOTSTRAP_HEAD];
	bootstrap_head_write(&(struct bootstrap_head){.kind = kind,
						      .rank = self->bootstrap.rank,
						      .ranks = self->bootstrap.ranks,
						      .bytes = (uint32_t)bytes,
						      .sequence = self->sequence,
						      .token = self->token},
			     head);

	int rc = move_bytes(fd, head, sizeof(head), true, deadline_ns, who, err);
	if (rc == 0 && bytes > 0)
		rc = move_bytes(fd, (uint8_t *)(uintptr_t)content, bytes, true, deadline_ns, who,
				err);

	return rc;
}

/* A message of that kind, of that rank, with exactly that much content. */
static int receive_message(const struct tcp_bootstrap *self, int fd, enum bootstrap_kind kind,
			   void *content, size_t bytes, uint64_t deadline_ns, uint32_t who,
			   struct err *err)
{
	uint8_t data[BOOTSTRAP_HEAD];
	struct bootstrap_head head;
	int rc = move_bytes(fd, data, sizeof(data), false, deadline_ns, who, err);
	if (rc < 0)
		return rc;

	if (bootstrap_head_parse(data, &head) < 0 || head.kind != kind || head.rank != who ||
	    head.ranks != self->bootstrap.ranks || head.token != self->token ||
	    head.sequence != self->sequence || head.bytes != bytes)
		return err_set(err, -EPROTO,
			       "rank %u speaks of something else: do all ranks run the same "
			       "command?",
			       who);

	return move_bytes(fd, content, bytes, false, deadline_ns, who, err);
}

static int tcp_share(struct bootstrap *bootstrap, const void *mine, void *all, size_t bytes,
		     uint64_t deadline_ns, struct err *err)
{
	struct tcp_bootstrap *self = (struct tcp_bootstrap *)(void *)bootstrap;
	uint32_t ranks = bootstrap->ranks;
	int rc = 0;

	self->sequence++;
	if (bootstrap->rank != 0) {
		rc = send_message(self, self->peer[0], BOOTSTRAP_SHARE, mine, bytes, deadline_ns, 0,
				  err);
		return rc < 0 ? rc
			      : receive_message(self, self->peer[0], BOOTSTRAP_ALL, all,
						bytes * ranks, deadline_ns, 0, err);
	}

	if (bytes > 0)
		memcpy(all, mine, bytes);

	for (uint32_t rank = 1; rc == 0 && rank < ranks; rank++)
		rc = receive_message(self, self->peer[rank], BOOTSTRAP_SHARE,
				     bytes > 0 ? (uint8_t *)all + rank * bytes : NULL, bytes,
				     deadline_ns, rank, err);

	for (uint32_t rank = 1; rc == 0 && rank < ranks; rank++)
		rc = send_message(self, self->peer[rank], BOOTSTRAP_ALL, all, bytes * ranks,
				  deadline_ns, rank, err);

	return rc;
}

static void tcp_abort(struct bootstrap *bootstrap)
{
	struct tcp_bootstrap *self = (struct tcp_bootstrap *)(void *)bootstrap;
	for (uint32_t i = 0; i < self->peers; i++) {
		if (self->peer[i] >= 0)
			(void)shutdown(self->peer[i], SHUT_RDWR);
	}
}

static void tcp_free(struct bootstrap *bootstrap)
{
	struct tcp_bootstrap *self = (struct tcp_bootstrap *)(void *)bootstrap;
	for (uint32_t i = 0; i < self->peers; i++) {
		if (self->peer[i] >= 0)
			(void)close(self->peer[i]);
	}
	free(self->peer);
	free(self);
}

/* The first address of this machine that others can reach; for the file. */
static void own_address(char out[BOOTSTRAP_HOST_MAX])
{
	struct ifaddrs *all = NULL;

	(void)snprintf(out, BOOTSTRAP_HOST_MAX, "127.0.0.1");
	if (getifaddrs(&all) != 0)
		return;

	for (const struct ifaddrs *each = all; each; each = each->ifa_next) {
		if (!each->ifa_addr || each->ifa_addr->sa_family != AF_INET ||
		    (each->ifa_flags & IFF_LOOPBACK) || !(each->ifa_flags & IFF_UP))
			continue;
		if (getnameinfo(each->ifa_addr, sizeof(struct sockaddr_in), out, BOOTSTRAP_HOST_MAX,
				NULL, 0, NI_NUMERICHOST) == 0)
			break;
	}

	freeifaddrs(all);
}

static int listen_on(uint16_t port, uint16_t *out_port, struct err *err)
{
	struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	struct sockaddr_in any4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_storage bound;
	socklen_t length = sizeof(bound);
	const int yes = 1, no = 0;
	_cleanup_close_ int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool is_4 = fd < 0;

	if (is_4)
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_set(err, -errno, "rank 0: no socket: %s", err_describe(-errno));

	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (!is_4)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));

	const struct sockaddr *address =
	    is_4 ? (const struct sockaddr *)&any4 : (const struct sockaddr *)&any;
	if (bind(fd, address, is_4 ? sizeof(any4) : sizeof(any)) != 0 || listen(fd, BACKLOG) != 0 ||
	    getsockname(fd, (struct sockaddr *)&bound, &length) != 0)
		return err_set(err, -errno, "rank 0: cannot listen on port %u: %s", port,
			       err_describe(-errno));

	*out_port =
	    ntohs(bound.ss_family == AF_INET ? ((const struct sockaddr_in *)&bound)->sin_port
					     : ((const struct sockaddr_in6 *)&bound)->sin6_port);
	return take_fd(&fd);
}

static void quick(int fd)
{
	const int yes = 1;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

static void pending_drop(struct pending *pending)
{
	if (pending->fd >= 0)
		(void)close(pending->fd);
	*pending = (struct pending){.fd = -1};
}

/* Reads on; takes him in when he has said who he is, drops him when that is nobody we wait for. */
static void pending_step(struct tcp_bootstrap *self, struct pending *pending, uint32_t *joined)
{
	struct bootstrap_head head;
	ssize_t got = recv(pending->fd, pending->head + pending->got,
			   sizeof(pending->head) - pending->got, 0);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0) {
		pending_drop(pending);
		return;
	}

	pending->got += (size_t)got;
	if (pending->got < sizeof(pending->head))
		return;

	if (bootstrap_head_parse(pending->head, &head) < 0 || head.kind != BOOTSTRAP_HELLO ||
	    head.ranks != self->bootstrap.ranks || head.token != self->token || head.rank == 0 ||
	    self->peer[head.rank] >= 0) {
		pending_drop(pending);
		return;
	}

	self->peer[head.rank] = take_fd(&pending->fd);
	*pending = (struct pending){.fd = -1};
	(*joined)++;
}

/* A place for somebody new: a free one, or that of whoever has been silent longest. */
static struct pending *pending_place(struct pending pending[PENDING_MAX])
{
	struct pending *oldest = &pending[0];
	for (size_t i = 0; i < PENDING_MAX; i++) {
		if (pending[i].fd < 0)
			return &pending[i];
		if (pending[i].since_ns < oldest->since_ns)
			oldest = &pending[i];
	}

	pending_drop(oldest);
	return oldest;
}

static void name_absent(const struct tcp_bootstrap *self, struct err *err)
{
	char text[128];
	size_t length = 0;
	uint32_t absent = 0;

	text[0] = '\0';
	for (uint32_t rank = 1; rank < self->peers; rank++) {
		if (self->peer[rank] >= 0)
			continue;
		if (absent++ < NAMED_ABSENT)
			length +=
			    (size_t)snprintf(text + length, sizeof(text) - length, " %u", rank);
	}

	(void)err_set(err, -ETIMEDOUT, "%u of %u ranks did not come:%s%s", absent,
		      self->bootstrap.ranks, text, absent > NAMED_ABSENT ? " ..." : "");
}

static int gather(struct tcp_bootstrap *self, int listener, uint64_t deadline_ns, struct err *err)
{
	struct pending pending[PENDING_MAX];
	uint32_t joined = 1;

	for (size_t i = 0; i < PENDING_MAX; i++)
		pending[i] = (struct pending){.fd = -1};

	while (joined < self->bootstrap.ranks && clock_real_ns() < deadline_ns) {
		struct pollfd wait[PENDING_MAX + 1] = {{.fd = listener, .events = POLLIN}};
		for (size_t i = 0; i < PENDING_MAX; i++)
			wait[i + 1] = (struct pollfd){.fd = pending[i].fd, .events = POLLIN};

		if (poll(wait, PENDING_MAX + 1, remaining_ms(deadline_ns)) < 0 && errno != EINTR)
			break;

		for (size_t i = 0; i < PENDING_MAX; i++) {
			if (pending[i].fd >= 0 && wait[i + 1].revents)
				pending_step(self, &pending[i], &joined);
			if (pending[i].fd >= 0 &&
			    clock_real_ns() - pending[i].since_ns > HELLO_TIME)
				pending_drop(&pending[i]);
		}

		int fd = wait[0].revents
			     ? accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)
			     : -1;
		if (fd >= 0) {
			quick(fd);
			*pending_place(pending) =
			    (struct pending){.fd = fd, .since_ns = clock_real_ns()};
		}
	}

	for (size_t i = 0; i < PENDING_MAX; i++)
		pending_drop(&pending[i]);

	if (joined < self->bootstrap.ranks) {
		name_absent(self, err);
		return -ETIMEDOUT;
	}

	int rc = 0;
	for (uint32_t rank = 1; rc == 0 && rank < self->bootstrap.ranks; rank++)
		rc = send_message(self, self->peer[rank], BOOTSTRAP_WELCOME, NULL, 0, deadline_ns,
				  rank, err);

	return rc;
}

static int gather_all(struct tcp_bootstrap *self, const struct bootstrap_plan *plan,
		      uint64_t deadline_ns, struct err *err)
{
	uint16_t port = 0;
	char host[BOOTSTRAP_HOST_MAX], line[BOOTSTRAP_LINE_MAX];
	_cleanup_close_ int listener =
	    listen_on(plan->file[0] && !plan->host[0] ? 0 : plan->port, &port, err);
	if (listener < 0)
		return listener;

	if (plan->file[0]) {
		if (getrandom(&self->token, sizeof(self->token), 0) != (ssize_t)sizeof(self->token))
			return err_set(err, -EIO, "no random number for '%s'", plan->file);
		if (plan->host[0])
			memcpy(host, plan->host, sizeof(host));
		else
			own_address(host);

		int length = snprintf(line, sizeof(line), FILE_BEGIN "%s %u %" PRIx64 "\n", host,
				      port, self->token);
		int rc = file_write_atomic(plan->file, line, (size_t)length, 0600, err);
		if (rc < 0)
			return err_wrap(err, "rank 0: telling where the ranks meet");
	}

	int rc = gather(self, listener, deadline_ns, err);

	if (plan->file[0])
		(void)unlink(plan->file);

	return rc;
}

/* Where rank 0 is: 0, or -EAGAIN when that is not known yet. */
static int find_place(const struct bootstrap_plan *plan, char host[BOOTSTRAP_HOST_MAX],
		      uint16_t *port, uint64_t *token)
{
	_cleanup_buf_ struct buf text;
	buf_init(&text, BOOTSTRAP_LINE_MAX);

	if (!plan->file[0]) {
		memcpy(host, plan->host, BOOTSTRAP_HOST_MAX);
		*port = plan->port;
		*token = 0;
		return 0;
	}

	if (file_read(plan->file, &text, NULL) < 0)
		return -EAGAIN;

	/* what is wrong in it may be an earlier run's, which rank 0 replaces */
	return bootstrap_file_parse(buf_text(&text), text.length, host, port, token) < 0 ? -EAGAIN
											 : 0;
}

static int connect_once(const char *host, uint16_t port, uint64_t deadline_ns)
{
	char service[8];
	struct addrinfo *all = NULL;
	const struct addrinfo wish = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};

	(void)snprintf(service, sizeof(service), "%u", port);
	if (getaddrinfo(host, service, &wish, &all) != 0)
		return -1;

	_cleanup_close_ int fd = -1;

	for (const struct addrinfo *each = all; each; each = each->ai_next) {
		int error = 0;
		socklen_t length = sizeof(error);

		fd = socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (fd < 0)
			continue;

		struct pollfd wait = {.fd = fd, .events = POLLOUT};
		if ((connect(fd, each->ai_addr, each->ai_addrlen) == 0 || errno == EINPROGRESS) &&
		    poll(&wait, 1, remaining_ms(deadline_ns)) == 1 &&
		    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0)
			break;

		(void)close(fd);
		fd = -1;
	}

	freeaddrinfo(all);
	if (fd >= 0)
		quick(fd);

	return take_fd(&fd);
}

/* Tries until rank 0 has said welcome: it may not be there yet, and what we read of it may be old.
 */
static int join(struct tcp_bootstrap *self, const struct bootstrap_plan *plan, uint64_t deadline_ns,
		struct err *err)
{
	char host[BOOTSTRAP_HOST_MAX] = "";
	uint16_t port = 0;
	struct err last = {0};

	(void)err_set(&last, -EAGAIN, "'%s' is not there", plan->file);

	while (clock_real_ns() < deadline_ns) {
		_cleanup_close_ int fd = -1;

		if (find_place(plan, host, &port, &self->token) == 0)
			fd = connect_once(host, port, deadline_ns);
		if (fd < 0 && host[0])
			(void)err_set(&last, -EAGAIN, "nobody answers at %s, port %u", host, port);

		if (fd >= 0 &&
		    send_message(self, fd, BOOTSTRAP_HELLO, NULL, 0, deadline_ns, 0, &last) == 0 &&
		    receive_message(self, fd, BOOTSTRAP_WELCOME, NULL, 0, deadline_ns, 0, &last) ==
			0) {
			self->peer[0] = take_fd(&fd);
			return 0;
		}

		(void)nanosleep(&(struct timespec){.tv_nsec = (long)RETRY_NS}, NULL);
	}

	return err_set(err, -ETIMEDOUT, "rank %u of %u does not reach rank 0: %s", plan->rank,
		       plan->ranks, last.text);
}

int bootstrap_connect(const struct bootstrap_plan *plan, uint64_t timeout_ns,
		      struct bootstrap **out, struct err *err)
{
	uint64_t deadline_ns = clock_after_ns(clock_real_ns(), timeout_ns);
	uint32_t peers = plan->rank == 0 ? plan->ranks : 1;
	struct tcp_bootstrap *self = calloc(1, sizeof(*self));
	int *peer = calloc(peers, sizeof(*peer));
	if (!self || !peer) {
		free(self);
		free(peer);
		return err_set(err, -ENOMEM, "rank %u: no memory", plan->rank);
	}

	for (uint32_t i = 0; i < peers; i++)
		peer[i] = -1;

	self->peer = peer;
	self->peers = peers;
	self->bootstrap = (struct bootstrap){.rank = plan->rank,
					     .ranks = plan->ranks,
					     .share = tcp_share,
					     .abort = tcp_abort,
					     .free = tcp_free};

	int rc = plan->ranks == 1  ? 0
		 : plan->rank == 0 ? gather_all(self, plan, deadline_ns, err)
				   : join(self, plan, deadline_ns, err);
	if (rc < 0) {
		tcp_free(&self->bootstrap);
		return rc;
	}

	*out = &self->bootstrap;
	return 0;
}
