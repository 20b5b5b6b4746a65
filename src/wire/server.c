/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/account.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/loop.h"
#include "wire/arena.h"
#include "wire/channel.h"
#include "wire/session.h"

/* Linux 6.5, of x86 and ARM; the C library's headers may be older. */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

enum server_limits {
	SERVER_REQUEST_S = 10,
	SERVER_ACCEPT_MAX = 16,	      /* connections taken in one go */
	SERVER_ACCEPT_RETRY_MS = 100, /* after there was no descriptor left */
	SERVER_PENALTY_MS = 1000,     /* a connection counts longer that broke the rules */
};

struct listener {
	struct wire_server *server; /* borrowed */
	struct listener *next;
	int fd;			  /* owned */
	struct loop_fd *watch;	  /* owned */
	struct loop_timer *retry; /* owned */
};

struct connection {
	struct wire_server *server; /* borrowed */
	struct connection *next, **link;
	struct session *session;  /* owned */
	struct channel *channel;  /* owned */
	struct loop_timer *timer; /* owned: the first SETTINGS, then idleness */
	struct wire_peer peer;
	int fd;	      /* the channel's */
	bool idle;    /* the timer runs for idleness */
	bool broke;   /* the rules of HTTP/2 */
	bool ending;  /* GOAWAY was sent for it */
	bool leaving; /* and the server waits for its end */
	size_t calls;
	struct loop_task gone, tidy;
};

/* The place of a connection that broke the rules: whoever comes back at once finds it taken. */
struct penalty {
	struct wire_server *server; /* borrowed */
	struct penalty *next, **link;
	uid_t uid;
	struct loop_timer *timer; /* owned */
};

/* In the arena of its stream. */
struct wire_call {
	struct session_stream *stream; /* borrowed */
	struct connection *connection; /* borrowed */
	struct loop_timer *timer;      /* owned */
	uint64_t deadline_ns;	       /* of the loop's clock; UINT64_MAX: none */
	bool whole;		       /* the request is */
	void *data;		       /* the handler's */
	void (*writable)(void *context);
	void *writable_context;
	void (*cancelled)(void *context);
	void *cancelled_context;
	void (*ended)(void *context);
	void *ended_context;
};

struct wire_server {
	struct loop *loop; /* borrowed */
	struct wire_server_options options;
	struct listener *listeners;	/* owned */
	struct connection *connections; /* owned */
	struct penalty *penalties;	/* owned */
	struct account *account;	/* borrowed, or */
	struct account *own_account;	/* owned */
	struct wire_server_counts counts;
	bool closed;   /* takes no connections any more */
	bool stopping; /* connections are to end, and somebody wants to know when they have */
	size_t leaving;
	struct loop_timer *stop_timer; /* owned */
	void (*stopped)(void *context);
	void *stopped_context;
	struct loop_task stopped_task, gone, evict;
};

/* --- calls --- */

static void connection_on_tidy(void *context)
{
	struct connection *connection = context;
	session_tidy(connection->session);
}

static void connection_watch_idle(struct connection *connection)
{
	connection->idle = connection->server->options.idle_ns > 0;
	if (connection->idle)
		loop_timer_start(connection->timer, connection->server->options.idle_ns);
}

/* Nothing of the call is called any more. */
static void call_release(struct wire_call *call)
{
	struct connection *connection = call->connection;
	loop_defer(connection->server->loop, &connection->tidy, connection_on_tidy, connection);
	call->timer = loop_timer_free(call->timer);
	session_stream_set_user(call->stream, NULL);
	connection->calls--;
	connection->server->counts.open_calls--;

	if (connection->calls == 0)
		connection_watch_idle(connection);
}

static void call_cancel(struct wire_call *call)
{
	call_release(call);
	if (call->cancelled)
		call->cancelled(call->cancelled_context);
}

static void call_on_timer(void *context)
{
	struct wire_call *call = context;
	struct connection *connection = call->connection;
	bool late = !call->whole && loop_now_ns(connection->server->loop) < call->deadline_ns;

	session_stream_finish(call->stream, WIRE_DEADLINE_EXCEEDED,
			      late ? "the request did not arrive in time"
				   : "the deadline of the call has passed");
	channel_flush(connection->channel);
	call_cancel(call);
}

/* Sets the timer to whatever of deadline and request comes first. */
static void call_set_timer(struct wire_call *call)
{
	struct wire_server *server = call->connection->server;
	uint64_t now = loop_now_ns(server->loop);
	uint64_t at = call->deadline_ns;
	uint64_t request = clock_after_ns(now, server->options.request_ns);
	const struct wire_method *method = session_stream_method(call->stream);

	/* Where both sides stream, a conversation may last. */
	bool hurry = !call->whole && !(method->client_streams && method->server_streams);
	if (hurry && request < at)
		at = request;
	if (at == UINT64_MAX)
		loop_timer_stop(call->timer);
	else
		loop_timer_start(call->timer, at > now ? at - now : 0);
}

static int call_on_open(struct session_stream *stream, void *context)
{
	struct connection *connection = context;
	struct wire_server *server = connection->server;
	struct wire_call *call = arena_alloc(session_stream_arena(stream), sizeof(*call));
	if (!call)
		return -ENOMEM;

	call->timer = loop_timer_new(server->loop, call_on_timer, call, NULL);
	if (!call->timer)
		return -ENOMEM;

	call->stream = stream;
	call->connection = connection;
	call->deadline_ns =
	    clock_after_ns(loop_now_ns(server->loop), session_stream_timeout_ns(stream));
	session_stream_set_user(stream, call);

	if (connection->calls++ == 0)
		loop_timer_stop(connection->timer);
	server->counts.calls++;
	server->counts.open_calls++;
	call_set_timer(call);

	const struct wire_method *method = session_stream_method(stream);
	if (method->client_streams)
		method->handle(call, NULL, server->options.context);

	return 0;
}

static void call_on_message(struct session_stream *stream, const ProtobufCMessage *message,
			    void *context)
{
	struct wire_call *call = session_stream_user(stream);
	const struct wire_method *method = session_stream_method(stream);
	if (!method->client_streams) {
		call->whole = true;
		call_set_timer(call);
	}
	method->handle(call, message, call->connection->server->options.context);
}

static void call_on_ended(struct session_stream *stream, void *context)
{
	struct wire_call *call = session_stream_user(stream);
	call->whole = true;
	call_set_timer(call);
	if (call->ended)
		call->ended(call->ended_context);
}

static void call_on_writable(struct session_stream *stream, void *context)
{
	struct wire_call *call = session_stream_user(stream);
	if (call->writable)
		call->writable(call->writable_context);
}

static void call_on_closed(struct session_stream *stream, const struct wire_result *result,
			   void *context)
{
	call_cancel(session_stream_user(stream));
}

static void server_on_evict(void *context);

/* Later: events of the one that has to go may be running. */
static void call_on_excess(void *context)
{
	struct connection *connection = context;
	struct wire_server *server = connection->server;
	loop_defer(server->loop, &server->evict, server_on_evict, server);
}

static const struct session_events server_events = {
    .open = call_on_open,
    .message = call_on_message,
    .ended = call_on_ended,
    .writable = call_on_writable,
    .closed = call_on_closed,
    .excess = call_on_excess,
};

const struct wire_peer *wire_call_peer(const struct wire_call *call)
{
	return &call->connection->peer;
}

int wire_call_peer_pidfd(const struct wire_call *call)
{
	int fd = -1;
	socklen_t size = sizeof(fd);
	return getsockopt(call->connection->fd, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) < 0 ? -1 : fd;
}

int wire_call_peer_groups(struct wire_call *call, gid_t **out, size_t *out_count, struct err *err)
{
	struct arena *arena = session_stream_arena(call->stream);
	socklen_t size = 0;

	/* The first call tells the size. */
	if (getsockopt(call->connection->fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &size) < 0 &&
	    errno != ERANGE) {
		int code = -errno;
		return err_set(err, code, "cannot read the groups of process %ld: %s",
			       (long)call->connection->peer.pid, err_describe(code));
	}

	gid_t *groups = arena_alloc(arena, size);
	if (!groups)
		return err_set(err, -ENOMEM, "out of memory for %zu groups",
			       (size_t)size / sizeof(gid_t));

	if (size > 0 &&
	    getsockopt(call->connection->fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size) < 0) {
		int code = -errno;
		return err_set(err, code, "cannot read the groups of process %ld: %s",
			       (long)call->connection->peer.pid, err_describe(code));
	}

	*out = groups;
	*out_count = size / sizeof(gid_t);
	return 0;
}

struct arena *wire_call_arena(struct wire_call *call)
{
	return session_stream_arena(call->stream);
}

void wire_call_set_data(struct wire_call *call, void *data)
{
	call->data = data;
}

void *wire_call_data(const struct wire_call *call)
{
	return call->data;
}

int wire_call_reply(struct wire_call *call, const ProtobufCMessage *reply, struct err *err)
{
	int rc = session_stream_reply(call->stream, reply, err);
	if (rc < 0)
		return rc;
	if (session_stream_method(call->stream)->server_streams)
		channel_flush(call->connection->channel);
	else
		wire_call_finish(call, WIRE_OK, NULL);

	return 0;
}

void wire_call_finish(struct wire_call *call, enum wire_status status, const char *message)
{
	session_stream_finish(call->stream, status, message);
	channel_flush(call->connection->channel);
	call_release(call);
}

void wire_call_drop(struct wire_call *call)
{
	session_stream_drop(call->stream);
	channel_flush(call->connection->channel);
	call_release(call);
}

void wire_call_fail(struct wire_call *call, const struct err *err)
{
	wire_call_finish(call, wire_status_from_errno(err->code), err->text);
}

void wire_call_on_writable(struct wire_call *call, void (*writable)(void *context), void *context)
{
	call->writable = writable;
	call->writable_context = context;
}

void wire_call_on_cancel(struct wire_call *call, void (*cancelled)(void *context), void *context)
{
	call->cancelled = cancelled;
	call->cancelled_context = context;
}

void wire_call_on_end(struct wire_call *call, void (*ended)(void *context), void *context)
{
	call->ended = ended;
	call->ended_context = context;
}

/* --- connections --- */

static void connection_release(void *context)
{
	struct connection *connection = context;
	connection->session = session_free(connection->session);
	free(connection);
}

static void server_check_stopped(struct wire_server *server);

static struct penalty *penalty_free(struct penalty *penalty)
{
	*penalty->link = penalty->next;
	if (penalty->next)
		penalty->next->link = penalty->link;
	account_give(penalty->server->account, ACCOUNT_CONNECTIONS, penalty->uid, 1);
	penalty->timer = loop_timer_free(penalty->timer);
	free(penalty);
	return NULL;
}

static void penalty_on_timer(void *context)
{
	(void)penalty_free(context);
}

/* Takes over the share of a connection for a second. False: there is no memory. */
static bool penalty_new(struct wire_server *server, uid_t uid)
{
	struct penalty *penalty = calloc(1, sizeof(*penalty));
	if (penalty)
		penalty->timer = loop_timer_new(server->loop, penalty_on_timer, penalty, NULL);
	if (!penalty || !penalty->timer) {
		free(penalty);
		return false;
	}

	penalty->server = server;
	penalty->uid = uid;
	penalty->next = server->penalties;
	penalty->link = &server->penalties;
	if (penalty->next)
		penalty->next->link = &penalty->next;
	server->penalties = penalty;
	loop_timer_start(penalty->timer, SERVER_PENALTY_MS * CLOCK_NS_PER_MS);

	return true;
}

/* Ends its calls. Events of this very connection may be running: its memory goes later. */
static void connection_close(struct connection *connection, int code, const char *why)
{
	struct wire_server *server = connection->server;

	*connection->link = connection->next;
	if (connection->next)
		connection->next->link = connection->link;
	server->counts.open_connections--;

	if (!connection->broke || !penalty_new(server, connection->peer.uid))
		account_give(server->account, ACCOUNT_CONNECTIONS, connection->peer.uid, 1);
	server->leaving -= connection->leaving;
	connection->leaving = false;
	session_cut(connection->session, code, why);
	loop_cancel(server->loop, &connection->tidy);
	connection->channel = channel_free(connection->channel);
	connection->timer = loop_timer_free(connection->timer);
	loop_defer(server->loop, &connection->gone, connection_release, connection);
	server_check_stopped(server);
}

static void connection_on_closed(const struct err *why, void *context)
{
	struct connection *connection = context;
	if (why && why->code == -EPROTO) {
		connection->server->counts.protocol_errors++;
		connection->broke =
		    !account_is_privileged(connection->server->account, connection->peer.uid);
	}
	connection_close(connection, -ECONNRESET, "the connection was closed");
}

/* No SETTINGS in time, or no call for a long time. */
static void connection_on_timer(void *context)
{
	struct connection *connection = context;
	if (connection->calls > 0)
		return;

	if (!session_is_greeted(connection->session)) {
		connection->server->counts.protocol_errors++;
		connection_close(connection, -ETIMEDOUT, "the client said nothing");
		return;
	}

	if (!connection->idle) {
		connection_watch_idle(connection);
		return;
	}

	/* GOAWAY tells the client that a call which is on its way was not begun. Then it has to
	 * read what still waits for it. */
	if (connection->ending) {
		connection_close(connection, -ETIMEDOUT, "the client reads nothing");
	} else if (session_shutdown(connection->session, NULL) < 0) {
		connection_close(connection, -ENOMEM, "out of memory");
	} else {
		connection->ending = true;
		loop_timer_start(connection->timer, connection->server->options.request_ns);
		channel_flush(connection->channel);
	}
}

static int connection_read_peer(int fd, struct wire_peer *out)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return -errno;
	*out = (struct wire_peer){.pid = peer.pid, .uid = peer.uid, .gid = peer.gid};
	return 0;
}

/* What a connection has of a resource. */
static size_t connection_holds(const struct connection *connection, enum account_resource resource)
{
	switch (resource) {
	case ACCOUNT_CONNECTIONS: /* who asks for nothing goes first */
		return WIRE_STREAMS_MAX + 1 - connection->calls;
	case ACCOUNT_STREAMS:
		return session_stream_count(connection->session);
	case ACCOUNT_OUTPUT:
		return session_output_bytes(connection->session);
	default:
		return session_memory_bytes(connection->session);
	}
}

/* Closes the connection by which `owner` has most of the resource. False: there is none */
static bool server_evict(struct wire_server *server, enum account_resource resource, uid_t owner)
{
	struct connection *most = NULL;
	size_t most_bytes = 0;

	for (struct connection *at = server->connections; at; at = at->next) {
		size_t bytes = connection_holds(at, resource);
		/* Of equals the oldest. */
		if (account_owner(server->account, at->peer.uid) != owner || bytes == 0 ||
		    bytes < most_bytes)
			continue;

		most = at;
		most_bytes = bytes;
	}

	if (!most)
		return false;

	server->counts.evicted_connections++;
	connection_close(most, -EDQUOT, "others need what its user has most of");
	return true;
}

static void server_on_evict(void *context)
{
	static const enum account_resource resources[] = {
	    ACCOUNT_CONNECTIONS, ACCOUNT_STREAMS, ACCOUNT_BODIES, ACCOUNT_MEMORY, ACCOUNT_OUTPUT};
	struct wire_server *server = context;
	uid_t owner;

	for (size_t i = 0; i < array_length(resources); i++)
		while (account_excess(server->account, resources[i], &owner) &&
		       server_evict(server, resources[i], owner))
			;
}

/* Takes the descriptor, on success only. */
static int connection_start(struct connection *connection, int fd)
{
	struct wire_server *server = connection->server;
	struct session_options options = {
	    .role = SESSION_SERVER,
	    .methods = server->options.methods,
	    .events = &server_events,
	    .context = connection,
	    .account = server->account,
	    .uid = connection->peer.uid,
	};

	connection->session = session_new(&options, NULL);
	connection->timer = loop_timer_new(server->loop, connection_on_timer, connection, NULL);
	if (!connection->session || !connection->timer)
		return -ENOMEM;

	connection->channel = channel_new(server->loop, fd, connection->session,
					  connection_on_closed, connection, NULL);
	return connection->channel ? 0 : -ENOMEM;
}

/* Tells why, without a session: SETTINGS and a GOAWAY with ENHANCE_YOUR_CALM (RFC 9113, 6.8), as
 * far as the socket takes it at once. */
static void server_refuse(int fd, const char *why)
{
	enum { SETTINGS = 9, GOAWAY = SETTINGS + 9 + 8 };
	uint8_t frames[GOAWAY + ERR_TEXT_MAX] = {[3] = 4, [SETTINGS + 3] = 7, [GOAWAY - 1] = 0xb};
	size_t length = strlen(why);
	frames[SETTINGS + 1] = (uint8_t)((length + 8) >> 8);
	frames[SETTINGS + 2] = (uint8_t)(length + 8);
	memcpy(frames + GOAWAY, why, length);
	(void)send(fd, frames, GOAWAY + length, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static int server_take(struct wire_server *server, int fd)
{
	struct connection *connection = calloc(1, sizeof(*connection));
	if (!connection)
		return -ENOMEM;

	connection->server = server;
	connection->fd = fd;

	struct err err = {0};
	int rc = connection_read_peer(fd, &connection->peer);
	if (rc == 0)
		rc = account_take(server->account, ACCOUNT_CONNECTIONS, connection->peer.uid, 1,
				  &err);

	if (rc < 0) {
		server_refuse(fd, err.text);
		connection_release(connection);
		return rc;
	}

	rc = connection_start(connection, fd);
	if (rc < 0) {
		account_give(server->account, ACCOUNT_CONNECTIONS, connection->peer.uid, 1);
		connection->timer = loop_timer_free(connection->timer);
		connection_release(connection);
		return rc;
	}

	connection->next = server->connections;
	connection->link = &server->connections;
	if (connection->next)
		connection->next->link = &connection->next;
	server->connections = connection;
	server->counts.connections++;
	server->counts.open_connections++;
	loop_timer_start(connection->timer, server->options.request_ns);

	uid_t owner;
	if (account_excess(server->account, ACCOUNT_CONNECTIONS, &owner))
		(void)server_evict(server, ACCOUNT_CONNECTIONS, owner);

	return 0;
}

/* --- listeners --- */

static void listener_on_retry(void *context)
{
	struct listener *listener = context;
	if (loop_fd_watch(listener->watch, LOOP_READ, NULL) < 0)
		loop_timer_start(listener->retry, SERVER_ACCEPT_RETRY_MS * CLOCK_NS_PER_MS);
}

static void listener_on_fd(int fd, unsigned events, void *context)
{
	struct listener *listener = context;
	struct wire_server *server = listener->server;

	for (unsigned i = 0; i < SERVER_ACCEPT_MAX && !server->closed; i++) {
		int connected = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (connected < 0 &&
		    (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
			/* The one who waits stays there: without a pause this would spin. */
			server->counts.refused_connections++;
			(void)loop_fd_watch(listener->watch, 0, NULL);
			loop_timer_start(listener->retry, SERVER_ACCEPT_RETRY_MS * CLOCK_NS_PER_MS);
			return;
		}

		if (connected < 0)
			return;
		if (server_take(server, connected) < 0) {
			server->counts.refused_connections++;
			(void)close(connected);
		}
	}
}

static struct listener *listener_free(struct listener *listener)
{
	listener->watch = loop_fd_free(listener->watch);
	listener->retry = loop_timer_free(listener->retry);
	(void)close(listener->fd);
	free(listener);
	return NULL;
}

int wire_server_add_listener(struct wire_server *server, int listen_fd, struct err *err)
{
	struct listener *listener = calloc(1, sizeof(*listener));
	if (!listener) {
		(void)close(listen_fd);
		return err_set(err, -ENOMEM, "out of memory for a listener");
	}

	listener->server = server;
	listener->fd = listen_fd;
	listener->retry = loop_timer_new(server->loop, listener_on_retry, listener, err);
	if (listener->retry)
		listener->watch =
		    loop_fd_new(server->loop, listen_fd, LOOP_READ, listener_on_fd, listener, err);

	if (!listener->watch) {
		(void)listener_free(listener);
		return err ? err->code : -ENOMEM;
	}

	listener->next = server->listeners;
	server->listeners = listener;
	return 0;
}

static void server_stop_listening(struct wire_server *server)
{
	while (server->listeners) {
		struct listener *listener = server->listeners;
		server->listeners = listener->next;
		(void)listener_free(listener);
	}
}

/* --- the server --- */

static void server_on_stop_timer(void *context)
{
	struct wire_server *server = context;
	struct connection *connection = server->connections;

	/* A handler that is told of the end may end others: from the beginning after each. */
	while (server->leaving > 0 && connection) {
		if (!connection->leaving) {
			connection = connection->next;
			continue;
		}

		connection_close(connection, -ETIMEDOUT, "the server ends");
		connection = server->connections;
	}
}

struct wire_server *wire_server_new(struct loop *loop, const struct wire_server_options *options,
				    struct err *err)
{
	struct wire_server *server = calloc(1, sizeof(*server));
	if (server)
		server->stop_timer = loop_timer_new(loop, server_on_stop_timer, server, NULL);
	if (server && server->stop_timer && !options->account)
		server->own_account = account_new(geteuid(), NULL);

	if (!server || !server->stop_timer || (!options->account && !server->own_account)) {
		if (server)
			server->stop_timer = loop_timer_free(server->stop_timer);
		free(server);
		(void)err_set(err, -ENOMEM, "out of memory for a gRPC server");
		return NULL;
	}

	server->loop = loop;
	server->options = *options;
	server->account = options->account ? options->account : server->own_account;

	uint64_t most = options->connections_max;
	if (most > 0) /* half is for one user, one of eight for root */
		account_set_limit(server->account, ACCOUNT_CONNECTIONS, (most + 1) / 2, most,
				  (most + 7) / 8);
	if (server->options.request_ns == 0)
		server->options.request_ns = SERVER_REQUEST_S * CLOCK_NS_PER_S;

	return server;
}

static void server_release(void *context)
{
	struct wire_server *server = context;
	server->own_account = account_free(server->own_account);
	free(server);
}

struct wire_server *wire_server_free(struct wire_server *server)
{
	if (!server)
		return NULL;

	server->stopping = false; /* nobody is told any more */
	server->closed = true;
	server_stop_listening(server);

	while (server->connections)
		connection_close(server->connections, -ESHUTDOWN, "the server ends");

	while (server->penalties)
		(void)penalty_free(server->penalties);

	server->stop_timer = loop_timer_free(server->stop_timer);
	loop_cancel(server->loop, &server->stopped_task);
	loop_cancel(server->loop, &server->evict);

	/* After its connections, which count into its memory. */
	loop_defer(server->loop, &server->gone, server_release, server);
	return NULL;
}

static void server_on_stopped(void *context)
{
	struct wire_server *server = context;
	if (server->stopped)
		server->stopped(server->stopped_context);
}

static void server_check_stopped(struct wire_server *server)
{
	if (!server->stopping || server->leaving > 0)
		return;
	server->stopping = false;
	loop_timer_stop(server->stop_timer);
	loop_defer(server->loop, &server->stopped_task, server_on_stopped, server);
}

void wire_server_hang_up(struct wire_server *server, uint64_t deadline_ns,
			 void (*done)(void *context), void *context)
{
	loop_cancel(server->loop, &server->stopped_task);
	server->stopped = done;
	server->stopped_context = context;
	server->stopping = true;

	/* All of them first: what follows may end any. */
	server->leaving = 0;
	for (struct connection *connection = server->connections; connection;
	     connection = connection->next) {
		connection->leaving = true;
		server->leaving++;
	}

	for (struct connection *connection = server->connections, *next;
	     connection && server->stopping; connection = next) {
		next = connection->next; /* stopping: false when a handler frees the server */
		if (session_shutdown(connection->session, NULL) < 0)
			connection_close(connection, -ENOMEM, "out of memory");
		else
			channel_flush(connection->channel);
	}

	if (!server->stopping)
		return;

	loop_timer_start(server->stop_timer, deadline_ns);
	server_check_stopped(server);
}

void wire_server_shutdown(struct wire_server *server, uint64_t deadline_ns,
			  void (*done)(void *context), void *context)
{
	server->closed = true;
	server_stop_listening(server);
	wire_server_hang_up(server, deadline_ns, done, context);
}

void wire_server_count(const struct wire_server *server, struct wire_server_counts *out)
{
	*out = server->counts;
	out->output_bytes = 0;
	for (const struct connection *connection = server->connections; connection;
	     connection = connection->next)
		out->output_bytes += session_output_bytes(connection->session) +
				     channel_output_bytes(connection->channel);
}
