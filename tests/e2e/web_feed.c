/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An agent that only does what `sluice web` sees of one: makes the view, listens, starts the
 * process and tells it of new views. Prints "PORT PID", then obeys lines from standard input and
 * answers each with "ok":
 *
 *   tick              one second on: new values
 *   run               a tick each second until another line comes
 *   hang              the view goes on, and its sample stays as old as it is
 *   token TEXT|-      a token, or none
 *   host TEXT         one more name
 *   event XID         one more event
 *   gpus N            another number of GPUs
 *   holders N [TEXT]  another number of holders, with a hostile name
 *   half              begins to write the view, and stops there
 *   web               starts the process again; prints its PID in place of "ok"
 *   end               goes away, as an agent that was killed
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/child.h"
#include "base/err.h"
#include "base/parse.h"
#include "unit/web/sample_view.h"
#include "web/view.h"

struct feed {
	struct view_shared *shared;
	struct sample_options options;
	int listen_fd, view_fd, tick_fd, life[2];
	uint64_t step;
	bool hangs;
	char **command;
};

static void fail(const char *what)
{
	(void)fprintf(stderr, "web_feed: %s: %s\n", what, err_describe(-errno));
	exit(1);
}

static pid_t start_web(const struct feed *feed)
{
	const struct child_fd fds[] = {{feed->listen_fd, 3},
				       {feed->view_fd, 4},
				       {feed->tick_fd, 5},
				       {feed->life[0], 6},
				       {1, 1},
				       {2, 2}};
	const struct child_spec spec = {
	    .path = feed->command[0], .argv = feed->command, .fds = fds, .fd_count = 6};
	struct err err;
	pid_t pid;
	if (child_spawn(&spec, &pid, &err) < 0) {
		(void)fprintf(stderr, "web_feed: %s\n", err.text);
		exit(1);
	}
	return pid;
}

static void ring(const struct feed *feed)
{
	uint64_t one = 1;
	if (write(feed->tick_fd, &one, sizeof(one)) != sizeof(one))
		fail("tick");
}

static void tick(struct feed *feed)
{
	view_begin(feed->shared);
	feed->step++;
	if (feed->hangs)
		feed->shared->view.jobs_ended++; /* something is new all the same */
	else
		sample_view_step(&feed->shared->view, feed->step);
	view_end(feed->shared);
	ring(feed);
}

static void refill(struct feed *feed)
{
	struct view_settings settings = feed->shared->view.settings;
	view_begin(feed->shared);
	memset(&feed->shared->view, 0, sizeof(feed->shared->view));
	sample_view_fill(&feed->shared->view, &feed->options, feed->step);
	feed->shared->view.settings = settings;
	view_end(feed->shared);
	ring(feed);
}

static uint32_t number(const char *text)
{
	uint64_t value = 0;
	if (!text || parse_u64(text, 0, 100000, &value) < 0) {
		(void)fprintf(stderr, "web_feed: '%s' is no number\n", text ? text : "");
		exit(64);
	}
	return (uint32_t)value;
}

static void set_text(char *out, size_t size, const char *text)
{
	(void)snprintf(out, size, "%s", text ? text : "");
}

static void obey(struct feed *feed, const char *word, char *rest)
{
	struct view *view = &feed->shared->view;
	if (strcmp(word, "tick") == 0) {
		tick(feed);
	} else if (strcmp(word, "hang") == 0) {
		feed->hangs = true;
	} else if (strcmp(word, "half") == 0) {
		view_begin(feed->shared);
	} else if (strcmp(word, "gpus") == 0) {
		feed->options.gpus = number(rest);
		refill(feed);
	} else if (strcmp(word, "holders") == 0) {
		static char name[VIEW_NAME_MAX];
		char *text = rest ? strchr(rest, ' ') : NULL;
		if (text) {
			*text++ = '\0';
			set_text(name, sizeof(name), text);
			feed->options.hostile = name;
		}
		feed->options.holders = number(rest);
		refill(feed);
	} else {
		view_begin(feed->shared);
		if (strcmp(word, "token") == 0) {
			view->settings.has_token = strcmp(rest, "-") != 0;
			set_text(view->settings.token, sizeof(view->settings.token),
				 view->settings.has_token ? rest : "");
		} else if (strcmp(word, "host") == 0 && view->settings.host_count < VIEW_HOST_MAX) {
			set_text(view->settings.host[view->settings.host_count++], VIEW_NAME_MAX,
				 rest);
		} else if (strcmp(word, "event") == 0) {
			sample_view_event(view, 0, number(rest));
		}
		view_end(feed->shared);
		ring(feed);
	}
}

static void talk(struct feed *feed)
{
	static char line[4096];
	bool runs = false;
	for (;;) {
		struct pollfd input = {.fd = 0, .events = POLLIN};
		if (poll(&input, 1, runs ? 1000 : -1) == 0) {
			tick(feed);
			continue;
		}
		if (!fgets(line, sizeof(line), stdin))
			return;
		line[strcspn(line, "\n")] = '\0';
		char *rest = strchr(line, ' ');
		if (rest)
			*rest++ = '\0';
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		runs = strcmp(line, "run") == 0;
		if (strcmp(line, "end") == 0)
			return;
		if (strcmp(line, "web") == 0) {
			(void)printf("%d\n", (int)start_web(feed));
		} else {
			if (!runs)
				obey(feed, line, rest);
			(void)printf("ok\n");
		}
		(void)fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	struct feed feed = {.options = {.gpus = 8, .holders = 16, .jobs = 4, .processes = 16}};
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	if (argc < 2) {
		(void)fprintf(stderr, "usage: web_feed PROGRAM [ARGUMENT...]\n");
		return 64;
	}
	feed.command = argv + 1;
	(void)signal(SIGPIPE, SIG_IGN);
	feed.view_fd = memfd_create("view", MFD_CLOEXEC);
	if (feed.view_fd < 0 || ftruncate(feed.view_fd, sizeof(struct view_shared)) < 0)
		fail("memory file");
	feed.shared = mmap(NULL, sizeof(struct view_shared), PROT_READ | PROT_WRITE, MAP_SHARED,
			   feed.view_fd, 0);
	if (feed.shared == MAP_FAILED)
		fail("mapping");
	feed.tick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	feed.listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (feed.tick_fd < 0 || feed.listen_fd < 0 || pipe(feed.life) < 0 ||
	    bind(feed.listen_fd, (struct sockaddr *)&address, size) < 0 ||
	    listen(feed.listen_fd, 1024) < 0 ||
	    getsockname(feed.listen_fd, (struct sockaddr *)&address, &size) < 0)
		fail("socket");
	refill(&feed);
	(void)printf("%d %d\n", ntohs(address.sin_port), (int)start_web(&feed));
	(void)fflush(stdout);
	talk(&feed);
	return 0;
}
