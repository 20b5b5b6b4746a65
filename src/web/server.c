/* SPDX-License-Identifier: Apache-2.0 */
#include "web/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/loop.h"
#include "web/chunk.h"

enum server_internals {
	ACCEPT_AT_ONCE = 16,	 /* before others have their turn */
	STREAM_INPUT_MAX = 8192, /* of what the reader of a stream says; it has nothing to say */
	DISCARD_AT_ONCE = 8192,
	REQUESTS_AT_ONCE = 4, /* of one connection, before others have their turn */
	DATE_SIZE = 32,
};

enum conn_state {
	CONN_HEAD,   /* a request is awaited or has come in part */
	CONN_ANSWER, /* an answer is written */
	CONN_STREAM,
	CONN_LINGER, /* all is said; what the client still sends is thrown away */
};

struct conn {
	struct server *server; /* borrowed */
	struct conn *next, *previous;
	int fd; /* owned */
	struct loop_fd *watch;
	enum conn_state state;
	bool is_refused; /* not one of SERVER_CONNECTIONS_MAX */
	bool closes;	 /* after this answer */
	bool is_told;	 /* the peer has been told that no more comes */
	uint64_t since_ns, deadline_ns;

	char *input; /* owned; HTTP_HEAD_MAX bytes; NULL while nothing has come */
	size_t input_length;

	char head[SERVER_FIELDS_SIZE + 512];
	size_t head_length, head_sent;
	struct chunk *body; /* owned reference */
	size_t body_sent;
	uint64_t cursor, said; /* of a stream; bytes that its reader has sent */
};

struct server {
	struct loop *loop; /* borrowed */
	struct server_owner owner;
	struct loop_fd *listener; /* NULL: accepts nothing */
	struct loop_timer *timer;
	struct loop_task limit;
	struct conn *first;
	uint32_t open, refused, streams;
	uint64_t accepted, requests, refused_total, evicted, dropped;
	bool is_finishing;
	uint64_t finish_ns;
	void (*done)(void *context);
	void *done_context;
};

/* --- life of a connection --------------------------------------------------------------------- */

static void conn_close(struct conn *conn)
{
	struct server *server = conn->server;

	if (conn->next)
		conn->next->previous = conn->previous;
	if (conn->previous)
		conn->previous->next = conn->next;
	else
		server->first = conn->next;

	if (conn->state == CONN_STREAM)
		server->streams--;
	if (conn->is_refused)
		server->refused--;
	else
		server->open--;

	loop_fd_free(conn->watch);
	(void)close(conn->fd);
	free(conn->input);
	chunk_unref(conn->body);
	free(conn);
}

/* What is waited for. False: the connection is gone. */
static bool conn_wait(struct conn *conn, unsigned events)
{
	if (loop_fd_watch(conn->watch, events, NULL) == 0)
		return true;
	conn_close(conn);
	return false;
}

static uint64_t conn_after(const struct conn *conn, uint64_t seconds)
{
	return loop_now_ns(conn->server->loop) + seconds * CLOCK_NS_PER_S;
}

/* The last byte was written and no more will be: the client gets the chance to read it, which a
 * close with bytes of his unread would take from him (RFC 9112 section 9.6). */
static void conn_linger(struct conn *conn)
{
	conn->body = chunk_unref(conn->body);
	free(conn->input);
	conn->input = NULL;
	conn->input_length = 0;
	conn->state = CONN_LINGER;
	conn->deadline_ns = conn_after(conn, SERVER_LINGER_S);
	if (shutdown(conn->fd, SHUT_WR) < 0)
		conn_close(conn);
	else
		(void)conn_wait(conn, LOOP_READ);
}

/* --- writing ---------------------------------------------------------------------------------- */

/* "Sun, 06 Nov 1994 08:49:37 GMT" */
static void date_now(char out[DATE_SIZE])
{
	time_t now = (time_t)(clock_unix_ns() / (int64_t)CLOCK_NS_PER_S);
	struct tm parts;
	if (!gmtime_r(&now, &parts) ||
	    strftime(out, DATE_SIZE, "%a, %d %b %Y %H:%M:%S GMT", &parts) == 0)
		out[0] = '\0';
}

/* Whoever speaks HTTP/1.0 believes that a connection stays only if he is told so. */
static const char *conn_stays(const struct conn *conn, const struct http_request *request)
{
	if (conn->closes)
		return "Connection: close\r\n";
	return request && request->is_old ? "Connection: keep-alive\r\n" : "";
}

static void conn_set_head(struct conn *conn, const struct http_request *request,
			  const struct answer *answer, size_t length)
{
	char date[DATE_SIZE], size[48] = "";
	date_now(date);
	if (!answer->is_stream)
		(void)snprintf(size, sizeof(size), "Content-Length: %zu\r\n", length);

	int written = snprintf(
	    conn->head, sizeof(conn->head),
	    "HTTP/1.1 %u %s\r\nDate: %s\r\nContent-Type: %s\r\n%s%s%s%s"
	    "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
	    "Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n"
	    "Content-Security-Policy: %s\r\n%s\r\n",
	    answer->status, http_status_to_string(answer->status), date,
	    answer->type ? answer->type : "text/plain; charset=utf-8", size,
	    answer->is_gzip ? "Content-Encoding: gzip\r\n" : "",
	    answer->varies ? "Vary: Accept-Encoding\r\n" : "", answer->fields ? answer->fields : "",
	    answer->policy ? answer->policy : "default-src 'none'; frame-ancestors 'none'",
	    conn_stays(conn, request));

	conn->head_sent = 0;
	conn->head_length =
	    written > 0 && (size_t)written < sizeof(conn->head) ? (size_t)written : 0;
	if (conn->head_length == 0)
		conn->closes = true; /* fields too long: our mistake; nothing can be said */
}

/* The sentence of an answer without a body becomes one. */
static struct chunk *answer_body(struct answer *answer)
{
	if (answer->body || answer->text[0] == '\0')
		return take_ptr(answer->body);
	struct chunk *body = chunk_new(sizeof(answer->text) + 1, NULL);
	if (body &&
	    (buf_add_text(&body->buf, answer->text) < 0 || buf_add(&body->buf, "\n", 1) < 0))
		body = chunk_unref(body);
	return body;
}

static void conn_answer(struct conn *conn, const struct http_request *request,
			struct answer *answer)
{
	struct chunk *body = answer_body(answer);
	bool head_only = request && request->method == HTTP_HEAD;

	if (answer->status == 0)
		answer->status = 500;

	bool is_stream = answer->is_stream && !head_only;
	if (!request || !request->keep_alive || is_stream || conn->server->is_finishing)
		conn->closes = true;
	conn_set_head(conn, request, answer, body ? body->buf.length : 0);
	conn->body = head_only ? chunk_unref(body) : body;
	conn->body_sent = 0;
	conn->since_ns = loop_now_ns(conn->server->loop);
	conn->deadline_ns = conn_after(conn, SERVER_ANSWER_S);
	conn->state = CONN_ANSWER;

	if (is_stream) {
		conn->state = CONN_STREAM;
		conn->cursor = answer->cursor;
		conn->deadline_ns = conn_after(conn, SERVER_STALL_S);
		conn->server->streams++;
	}
}

/* A mistake in the request: nothing that follows on this connection can be understood. */
static void conn_refuse(struct conn *conn, unsigned status, const char *fields, const char *text)
{
	struct answer answer = {.status = status, .fields = fields};
	(void)snprintf(answer.text, sizeof(answer.text), "%s", text);
	conn_answer(conn, NULL, &answer);
}

/* Writes what there is. 1: all of it is out; 0: the rest has to wait; negative: the peer is gone.
 */
static int conn_write(struct conn *conn)
{
	for (;;) {
		struct iovec parts[2];
		int count = 0;

		if (conn->head_sent < conn->head_length)
			parts[count++] = (struct iovec){conn->head + conn->head_sent,
							conn->head_length - conn->head_sent};
		if (conn->body && conn->body_sent < conn->body->buf.length)
			parts[count++] = (struct iovec){conn->body->buf.data + conn->body_sent,
							conn->body->buf.length - conn->body_sent};
		if (count == 0) {
			conn->body = chunk_unref(conn->body);
			return 1;
		}

		struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
		ssize_t sent = sendmsg(conn->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;

		size_t of_head = conn->head_length - conn->head_sent;
		if ((size_t)sent < of_head)
			of_head = (size_t)sent;
		conn->head_sent += of_head;
		conn->body_sent += (size_t)sent - of_head;
		if (conn->state == CONN_STREAM)
			conn->deadline_ns = conn_after(conn, SERVER_STALL_S);
	}
}

/* --- what slow readers hold ------------------------------------------------------------------- */

/* Since when it takes what it is given; of a stream: since it last took something. */
static uint64_t conn_takes_since(const struct conn *conn)
{
	return conn->state == CONN_STREAM ? conn->deadline_ns - SERVER_STALL_S * CLOCK_NS_PER_S
					  : conn->since_ns;
}

static bool conn_is_first_with(const struct conn *conn)
{
	for (const struct conn *other = conn->server->first; other != conn; other = other->next) {
		if (other->body == conn->body)
			return false;
	}
	return true;
}

/* The bytes that are held, and who has taken longest; `*out_count`: how many hold some. */
static size_t server_held(const struct server *server, struct conn **out_slowest,
			  uint32_t *out_count)
{
	size_t held = 0;

	*out_slowest = NULL;
	*out_count = 0;
	for (struct conn *conn = server->first; conn; conn = conn->next) {
		if (!conn->body)
			continue;

		(*out_count)++;
		if (conn_is_first_with(conn))
			held += conn->body->buf.length;
		if (!*out_slowest || conn_takes_since(conn) <= conn_takes_since(*out_slowest))
			*out_slowest = conn;
	}

	return held;
}

static void server_limit_held(void *context)
{
	struct server *server = context;
	struct conn *slowest;
	uint32_t count;
	while (server_held(server, &slowest, &count) > SERVER_HELD_MAX && count > 1) {
		server->dropped++;
		conn_close(slowest);
	}
}

/* Somebody does not take all at once. Looked at when no connection is in anybody's hands. */
static void conn_held(struct conn *conn)
{
	loop_defer(conn->server->loop, &conn->server->limit, server_limit_held, conn->server);
}

/* --- writing, continued ----------------------------------------------------------------------- */

/* False: it has to wait, or is at its end; true: the next request can be looked at. */
static bool conn_write_answer(struct conn *conn)
{
	int rc = conn_write(conn);
	if (rc < 0) {
		conn_close(conn);
	} else if (rc == 0) {
		conn_held(conn);
		(void)conn_wait(conn, LOOP_WRITE);
	} else if (conn->closes) {
		conn_linger(conn);
	} else {
		conn->state = CONN_HEAD;
		conn->since_ns = loop_now_ns(conn->server->loop);
		conn->deadline_ns = conn_after(conn, SERVER_IDLE_S);

		return true;
	}

	return false;
}

static void conn_write_stream(struct conn *conn)
{
	for (;;) {
		int rc = conn_write(conn);
		if (rc < 0) {
			conn_close(conn);
			return;
		}

		const struct server_owner *owner = &conn->server->owner;
		if (owner->stream_is_lost(owner->context, conn->cursor)) {
			conn->server->dropped++;
			conn_close(conn);
			return;
		}

		if (rc == 0) {
			conn_held(conn);
			(void)conn_wait(conn, LOOP_READ | LOOP_WRITE);
			return;
		}

		conn->body_sent = 0;
		conn->body = owner->stream_next(owner->context, &conn->cursor);
		if (!conn->body) {
			conn->deadline_ns = conn_after(conn, SERVER_STALL_S);
			(void)conn_wait(conn, LOOP_READ);
			return;
		}
	}
}

/* --- reading ---------------------------------------------------------------------------------- */

static void conn_serve(struct conn *conn, size_t length)
{
	struct server *server = conn->server;
	struct http_request request;
	unsigned status;
	struct err err;

	if (http_request_parse(conn->input, length, &request, &status, &err) < 0) {
		conn_refuse(conn, status, NULL, err.text);
	} else {
		struct answer answer = {.status = 0};

		server->requests++;
		/* What follows it would be its body, and is not looked for. */
		if (request.has_body)
			request.keep_alive = false;
		server->owner.answer(server->owner.context, &request, &answer);
		conn_answer(conn, &request, &answer);
	}

	memmove(conn->input, conn->input + length, conn->input_length - length);
	conn->input_length -= length;
	if (conn->input_length == 0) {
		free(conn->input);
		conn->input = NULL;
	}
}

/* Looks for a request in what has come. False: there is none yet. */
static bool conn_take_request(struct conn *conn)
{
	size_t length = conn->input ? http_head_length(conn->input, conn->input_length) : 0;
	if (length > 0) {
		conn_serve(conn, length);
		return true;
	}

	if (conn->input_length == HTTP_HEAD_MAX) {
		conn_refuse(conn, 431, NULL, "the head of the request is larger than 8 KB");
		return true;
	}

	if (conn->server->is_finishing)
		conn_close(conn);
	else
		(void)conn_wait(conn, LOOP_READ);

	return false;
}

/* Goes as far as it may with what has come: many requests may have. */
static void conn_go_on(struct conn *conn)
{
	for (int served = 0;; served++) {
		if (conn->state == CONN_HEAD && conn->input && served >= REQUESTS_AT_ONCE) {
			/* It can be written to, so this goes on after the others. */
			(void)conn_wait(conn, LOOP_WRITE);
			return;
		}

		if (conn->state == CONN_HEAD && !conn_take_request(conn))
			return;
		if (conn->state == CONN_STREAM) {
			conn_write_stream(conn);
			return;
		}

		if (conn->state != CONN_ANSWER || !conn_write_answer(conn))
			return;
	}
}

static void conn_read_head(struct conn *conn)
{
	if (!conn->input) {
		conn->input = malloc(HTTP_HEAD_MAX);
		conn->input_length = 0;
	}

	if (!conn->input) {
		conn_close(conn);
		return;
	}

	ssize_t got = recv(conn->fd, conn->input + conn->input_length,
			   HTTP_HEAD_MAX - conn->input_length, MSG_DONTWAIT);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0) {
		conn_close(conn);
		return;
	}

	conn->input_length += (size_t)got;
	conn_go_on(conn);
}

/* Throws away what comes. False: the connection is gone. */
static bool conn_discard(struct conn *conn)
{
	char waste[DISCARD_AT_ONCE];
	ssize_t got = recv(conn->fd, waste, sizeof(waste), MSG_DONTWAIT);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (got > 0)
		conn->said += (uint64_t)got;

	if (got > 0 && (conn->state == CONN_LINGER || conn->said <= STREAM_INPUT_MAX))
		return true;

	conn_close(conn);
	return false;
}

static void conn_on_event(int fd, unsigned events, void *context)
{
	struct conn *conn = context;

	if (events & LOOP_READ) {
		if (conn->state == CONN_HEAD) {
			conn_read_head(conn);
			return;
		}

		if (conn->state != CONN_ANSWER && !conn_discard(conn))
			return;
	}

	if (events & LOOP_WRITE)
		conn_go_on(conn);
}

/* --- accepting -------------------------------------------------------------------------------- */

/* For how long a connection is left in peace though others wait for it, in seconds. */
static uint64_t conn_peace_s(const struct conn *conn)
{
	return conn->state == CONN_ANSWER ? SERVER_EVICT_ANSWER_S : SERVER_EVICT_S;
}

/* The connection that has done nothing useful for longest: it makes room. */
static bool server_evict(struct server *server)
{
	struct conn *oldest = NULL;
	uint64_t now = loop_now_ns(server->loop);
	for (struct conn *conn = server->first; conn; conn = conn->next) {
		if (conn->state != CONN_STREAM && !conn->is_refused &&
		    now - conn->since_ns >= conn_peace_s(conn) * CLOCK_NS_PER_S &&
		    (!oldest || conn->since_ns <= oldest->since_ns))
			oldest = conn;
	}

	if (!oldest)
		return false;

	server->evicted++;
	conn_close(oldest);
	return true;
}

static const char busy[] = "all connections are taken; try again in a second";

void server_take(struct server *server, int fd)
{
	bool is_refused = server->open >= SERVER_CONNECTIONS_MAX && !server_evict(server);
	struct conn *conn = NULL;

	if (is_refused)
		server->refused_total++;
	if (!is_refused || server->refused < SERVER_REFUSED_MAX)
		conn = calloc(1, sizeof(*conn));
	if (conn)
		conn->watch = loop_fd_new(server->loop, fd, LOOP_READ, conn_on_event, conn, NULL);

	if (!conn || !conn->watch) {
		static const char cut[] = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n"
					  "Content-Length: 0\r\nConnection: close\r\n\r\n";
		(void)!send(fd, cut, sizeof(cut) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		(void)close(fd);
		free(conn);

		return;
	}

	conn->server = server;
	conn->fd = fd;
	conn->since_ns = loop_now_ns(server->loop);
	conn->deadline_ns = conn_after(conn, SERVER_IDLE_S);
	conn->next = server->first;
	if (conn->next)
		conn->next->previous = conn;
	server->first = conn;
	server->accepted++;
	conn->is_refused = is_refused;

	if (!loop_timer_is_running(server->timer))
		loop_timer_start(server->timer, CLOCK_NS_PER_S);
	if (!is_refused) {
		server->open++;
		return;
	}

	server->refused++;
	conn_refuse(conn, 503, "Retry-After: 1\r\n", busy);
	conn_go_on(conn);
}

static void server_on_accept(int fd, unsigned events, void *context)
{
	struct server *server = context;
	for (int i = 0; i < ACCEPT_AT_ONCE; i++) {
		int peer = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (peer < 0)
			return; /* nobody more, or gone already */
		server_take(server, peer);
	}
}

/* --- time ------------------------------------------------------------------------------------- */

static void conn_on_deadline(struct conn *conn)
{
	if (conn->state == CONN_HEAD && conn->input_length > 0) {
		conn_refuse(conn, 408, NULL, "the request did not come whole in 10 seconds");
		conn_go_on(conn);
		return;
	}

	if (conn->state == CONN_ANSWER || conn->state == CONN_STREAM)
		conn->server->dropped++;
	conn_close(conn);
}

static void server_check_finish(struct server *server)
{
	if (!server->is_finishing || !server->done)
		return;
	if (server->open > 0 && loop_now_ns(server->loop) < server->finish_ns)
		return;
	void (*done)(void *) = server->done;
	server->done = NULL;
	done(server->done_context);
}

static void server_on_timer(void *context)
{
	struct server *server = context;
	uint64_t now = loop_now_ns(server->loop);
	for (struct conn *conn = server->first, *next; conn; conn = next) {
		next = conn->next;
		if (conn->deadline_ns <= now)
			conn_on_deadline(conn);
	}

	if (server->first || server->is_finishing)
		loop_timer_start(server->timer,
				 server->is_finishing ? CLOCK_NS_PER_S / 20 : CLOCK_NS_PER_S);

	server_check_finish(server);
}

void server_wake_streams(struct server *server)
{
	for (struct conn *conn = server->first, *next; conn; conn = next) {
		next = conn->next;
		if (conn->state == CONN_STREAM)
			conn_write_stream(conn);
	}
}

void server_end_streams(struct server *server)
{
	for (struct conn *conn = server->first, *next; conn; conn = next) {
		next = conn->next;
		if (conn->state == CONN_STREAM)
			conn_close(conn);
	}
}

void server_finish(struct server *server, uint64_t deadline_ns, void (*done)(void *context),
		   void *context)
{
	server->is_finishing = true;
	server->finish_ns = loop_now_ns(server->loop) + deadline_ns;
	server->done = done;
	server->done_context = context;
	server->listener = loop_fd_free(server->listener);

	for (struct conn *conn = server->first, *next; conn; conn = next) {
		next = conn->next;
		if (conn->state == CONN_STREAM || conn->state == CONN_HEAD)
			conn_close(conn);
	}

	loop_timer_start(server->timer, 0);
}

struct server_counts server_counts(const struct server *server)
{
	return (struct server_counts){
	    .connections = server->open,
	    .streams = server->streams,
	    .accepted = server->accepted,
	    .requests = server->requests,
	    .refused = server->refused_total,
	    .evicted = server->evicted,
	    .dropped = server->dropped,
	};
}

struct server *server_new(struct loop *loop, int listen_fd, const struct server_owner *owner,
			  struct err *err)
{
	struct server *server = calloc(1, sizeof(*server));
	if (!server) {
		(void)err_set(err, -ENOMEM, "out of memory for the HTTP server");
		return NULL;
	}

	server->loop = loop;
	server->owner = *owner;
	server->timer = loop_timer_new(loop, server_on_timer, server, err);
	if (server->timer && listen_fd >= 0)
		server->listener =
		    loop_fd_new(loop, listen_fd, LOOP_READ, server_on_accept, server, err);

	if (!server->timer || (listen_fd >= 0 && !server->listener))
		return server_free(server);

	return server;
}

struct server *server_free(struct server *server)
{
	if (!server)
		return NULL;

	while (server->first)
		conn_close(server->first);

	loop_fd_free(server->listener);
	loop_timer_free(server->timer);
	loop_cancel(server->loop, &server->limit);
	free(server);

	return NULL;
}
