/* SPDX-License-Identifier: Apache-2.0 */
#include "web/web.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/loop.h"
#include "base/resident.h"
#include "web/handed.h"
#include "web/sandbox.h"
#include "web/server.h"
#include "web/site.h"
#include "web/view.h"

#define WEB_TIMER_NS  UINT64_C(5000000000)
#define WEB_FINISH_NS UINT64_C(1000000000) /* for answers that are on their way */

enum web_internals {
	WEB_SEND_BUFFER = 128 << 10,
	WEB_USER_TIMEOUT_MS = 30000,
};

struct web {
	struct resident resident;
	struct loop *loop;
	struct loop_fd *tick, *life;
	struct loop_signal *terminate;
	struct loop_timer *timer;
	struct server *server;
	struct site *site;
	const struct view_shared *shared; /* mapped */
	struct view *now, *spare;	  /* mapped; `now` is what the site sees */
	uint64_t sequence;
	bool has_view, is_finishing;
};

static void *web_map(int fd, size_t size, int flags, struct err *err)
{
	int protection = fd < 0 ? PROT_READ | PROT_WRITE : PROT_READ;
	void *at = mmap(NULL, size, protection, flags, fd, 0);
	if (at != MAP_FAILED)
		return at;
	(void)err_set(err, -errno, "cannot map the view: %s", err_describe(-errno));
	return NULL;
}

/* The agent tells of a descriptor only by its number: each is looked at before it is believed. */
static int web_check_fds(struct err *err)
{
	struct stat view;
	int listening = 0;
	socklen_t size = sizeof(listening);
	if (getsockopt(HANDED_LISTEN, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) < 0 ||
	    !listening || fstat(HANDED_VIEW, &view) < 0 || fcntl(HANDED_TICK, F_GETFL) < 0 ||
	    fcntl(HANDED_LIFE, F_GETFL) < 0)
		return err_set(err, -EBADF,
			       "descriptors 3 to 6 are not those of the service, which starts this "
			       "process; try 'sluice agent'");

	if (view.st_size < (off_t)sizeof(struct view_shared))
		return err_set(err, -EINVAL,
			       "the view has %lld bytes, not %zu: it is of another "
			       "version",
			       (long long)view.st_size, sizeof(struct view_shared));

	for (int fd = HANDED_LISTEN; fd <= HANDED_LIFE; fd++) {
		int flags = fcntl(fd, F_GETFL);
		if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
		    fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
			return err_set(err, -errno, "cannot set up descriptor %d: %s", fd,
				       err_describe(-errno));
	}

	return 0;
}

/* Connections inherit these of the socket that they were accepted from; none is essential. */
static void web_set_options(void)
{
	static const struct {
		int level, name, value;
	} rows[] = {
	    {SOL_SOCKET, SO_SNDBUF, WEB_SEND_BUFFER}, /* what a slow reader holds in the kernel */
	    {SOL_SOCKET, SO_KEEPALIVE, 1},
	    {IPPROTO_TCP, TCP_NODELAY, 1},
	    {IPPROTO_TCP, TCP_USER_TIMEOUT, WEB_USER_TIMEOUT_MS}, /* a reader that has vanished */
	};

	for (size_t i = 0; i < array_length(rows); i++)
		(void)setsockopt(HANDED_LISTEN, rows[i].level, rows[i].name, &rows[i].value,
				 sizeof(rows[i].value));
}

static bool same_token(const struct view_settings *a, const struct view_settings *b)
{
	return a->has_token == b->has_token && a->token_broken == b->token_broken &&
	       strcmp(a->token, b->token) == 0;
}

static void web_take_view(struct web *web)
{
	uint64_t sequence;
	if (!view_copy(web->shared, web->spare, &sequence) ||
	    (web->has_view && sequence == web->sequence))
		return; /* the next tick brings another */

	struct view *view = web->spare;
	if (web->has_view && !same_token(&view->settings, &web->now->settings))
		server_end_streams(web->server);
	web->spare = web->now;
	web->now = view;
	web->sequence = sequence;
	web->has_view = true;
	site_set_view(web->site, view, sequence, loop_now_ns(web->loop),
		      server_counts(web->server).streams);

	/* The other one is written to again in a second; until then it takes no memory. */
	(void)madvise(web->spare, sizeof(*web->spare), MADV_DONTNEED);
	server_wake_streams(web->server);
}

static void web_on_tick(int fd, unsigned events, void *context)
{
	uint64_t ticks[64];
	(void)!read(fd, ticks, sizeof(ticks)); /* however many: one look is enough */
	web_take_view(context);
}

static void web_on_timer(void *context)
{
	struct web *web = context;
	loop_timer_start(web->timer, WEB_TIMER_NS);
	resident_give_back(&web->resident);
	if (site_heartbeat(web->site, loop_now_ns(web->loop)))
		server_wake_streams(web->server);
}

static void web_on_done(void *context)
{
	struct web *web = context;
	loop_stop(web->loop);
}

static void web_finish(struct web *web)
{
	if (!web->is_finishing)
		server_finish(web->server, WEB_FINISH_NS, web_on_done, web);
	web->is_finishing = true;
}

static void web_on_life(int fd, unsigned events, void *context)
{
	struct web *web = context;
	char byte;
	ssize_t got = read(fd, &byte, sizeof(byte));
	if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR)))
		return;
	web->life = loop_fd_free(web->life);
	web_finish(web);
}

static void web_on_terminate(void *context)
{
	web_finish(context);
}

static void web_answer(void *context, const struct http_request *request, struct answer *out)
{
	struct web *web = context;
	site_answer(web->site, request, loop_now_ns(web->loop), server_counts(web->server).streams,
		    out);
}

static struct chunk *web_stream_next(void *context, uint64_t *cursor)
{
	struct web *web = context;
	return site_stream_next(web->site, cursor);
}

static bool web_stream_is_lost(void *context, uint64_t cursor)
{
	const struct web *web = context;
	return site_stream_is_lost(web->site, cursor);
}

static int web_start(struct web *web, struct err *err)
{
	const struct server_owner owner = {.answer = web_answer,
					   .stream_next = web_stream_next,
					   .stream_is_lost = web_stream_is_lost,
					   .context = web};

	web->shared = web_map(HANDED_VIEW, sizeof(*web->shared), MAP_SHARED, err);
	web->now = web_map(-1, sizeof(*web->now), MAP_PRIVATE | MAP_ANONYMOUS, err);
	web->spare = web_map(-1, sizeof(*web->spare), MAP_PRIVATE | MAP_ANONYMOUS, err);
	if (!web->shared || !web->now || !web->spare)
		return -ENOMEM;

	web_set_options();
	resident_init(&web->resident);
	web->loop = loop_new(LOOP_REAL, err);
	if (!web->loop)
		return -ENOMEM;

	web->site = site_new(err);
	web->server = web->site ? server_new(web->loop, HANDED_LISTEN, &owner, err) : NULL;
	if (!web->server)
		return -ENOMEM;

	web->tick = loop_fd_new(web->loop, HANDED_TICK, LOOP_READ, web_on_tick, web, err);
	web->life = loop_fd_new(web->loop, HANDED_LIFE, LOOP_READ, web_on_life, web, err);
	web->terminate = loop_signal_new(web->loop, SIGTERM, web_on_terminate, web, err);
	web->timer = loop_timer_new(web->loop, web_on_timer, web, err);
	if (!web->tick || !web->life || !web->terminate || !web->timer)
		return -ENOMEM;

	loop_timer_start(web->timer, WEB_TIMER_NS);
	return 0;
}

static void web_stop(struct web *web)
{
	server_free(web->server);
	site_free(web->site);
	loop_fd_free(web->tick);
	loop_fd_free(web->life);
	loop_signal_free(web->terminate);
	loop_timer_free(web->timer);
	loop_free(web->loop);
}

int web_run(const struct web_options *options, struct err *err)
{
	struct web web = {.sequence = 0};
	int rc = web_check_fds(err);
	if (rc == 0)
		rc = web_start(&web, err);
	if (rc == 0 && !options->no_sandbox) {
		tzset(); /* reads a file the first time that a date is made */
		rc = sandbox_enter(options->uid, options->gid, err);
	}

	if (rc == 0) {
		web_take_view(&web);
		rc = loop_run(web.loop, err);
	}

	web_stop(&web);
	return rc;
}
