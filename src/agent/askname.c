/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/askname.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/loop.h"

static void askname_end(struct askname *ask)
{
	ask->child = child_free(ask->child);
	cleanup_close_fn(&ask->answer_fd);
	ask->answer_fd = -1;
	loop_timer_stop(ask->deadline);
}

static void askname_on_end(struct child *child, const struct child_end *end, void *context)
{
	struct askname *ask = context;
	char text[ASKNAME_ANSWER_MAX];
	ssize_t length = read(ask->answer_fd, text, sizeof(text) - 1);
	bool is_answer = length > 0 && !end->was_killed && end->value == 0;

	text[is_answer ? length : 0] = '\0';
	askname_end(ask);
	ask->answered(text, ask->context);
}

static void askname_on_deadline(void *context)
{
	struct askname *ask = context;
	(void)child_kill_group(ask->child, SIGKILL);
}

int askname_init(struct askname *ask, struct loop *loop, struct child_set *children,
		 askname_fn *answered, void *context, struct err *err)
{
	*ask = (struct askname){
	    .children = children, .answer_fd = -1, .answered = answered, .context = context};
	ask->deadline = loop_timer_new(loop, askname_on_deadline, ask, err);
	return ask->deadline ? 0 : -ENOMEM;
}

void askname_done(struct askname *ask)
{
	if (!ask->deadline)
		return;
	if (ask->child)
		(void)child_kill_group(ask->child, SIGKILL);
	askname_end(ask);
	ask->deadline = loop_timer_free(ask->deadline);
}

int askname_start(struct askname *ask, const char *path, char *const argv[])
{
	int pair[2];
	if (pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;

	const struct child_fd fds[] = {{.source = pair[1], .target = 1}};
	const struct child_spec spec = {
	    .path = path,
	    .argv = argv,
	    .directory = "/",
	    .fds = fds,
	    .fd_count = 1,
	    .new_session = true,
	};

	ask->answer_fd = pair[0];
	ask->child = child_start(ask->children, &spec, askname_on_end, ask, NULL);
	(void)close(pair[1]);

	if (ask->child)
		loop_timer_start(ask->deadline, ASKNAME_NS);
	else
		askname_end(ask);

	return ask->child ? 0 : -ECHILD;
}
