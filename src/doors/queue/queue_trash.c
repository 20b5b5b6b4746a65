/* SPDX-License-Identifier: Apache-2.0 */
/* What was moved to the trash is removed by a process of its own, which nobody waits for and which
 * outlives the agent: users put there what they like, and as much. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/child.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "doors/queue/queue_internal.h"
#include "job/trash.h"

/* What it says of what stays is told once, and again when it changes. */
static void trash_tell(struct queue *queue)
{
	char text[TRASH_REPORT_MAX];
	ssize_t length = pread(queue->cleared_fd, text, sizeof(text) - 1, 0);
	if (length < 0)
		return;

	text[length] = '\0';
	if (text[0] && strcmp(text, queue->clear_said) != 0)
		log_write(queue->options.log, LOG_LEVEL_WARNING, NULL, "in '%s/trash' %s",
			  queue->state_dir, text);

	(void)snprintf(queue->clear_said, sizeof(queue->clear_said), "%s", text); /* fits */
}

static void trash_ended(struct child *child, const struct child_end *end, void *context)
{
	struct queue *queue = context;
	char text[CHILD_END_TEXT];

	queue->clearer = child_free(queue->clearer);
	if (!end->was_killed && end->value == 0)
		trash_tell(queue);
	else
		log_write(queue->options.log, LOG_LEVEL_WARNING, NULL,
			  "what removes the files of ended jobs has stopped: %s",
			  child_end_to_string(end, text));

	cleanup_close_fn(&queue->cleared_fd);
	if (queue->clears_again)
		queue_keep_soon(queue);
	queue->clears_again = false;
}

void queue_trash_clear(struct queue *queue, int trash_fd)
{
	_cleanup_close_ int fd = trash_fd;

	if (queue->clearer) { /* what it has looked at already it does not look at again */
		queue->clears_again = true;
		return;
	}

	struct err err = {.code = 0};
	_cleanup_close_ int report_fd = memfd_create("sluice-cleared", MFD_CLOEXEC);

	char *const argv[] = {queue->supervisor, (char[]){"--clear"}, NULL};
	struct child_fd fds[] = {{fd, TRASH_FD}, {report_fd, TRASH_FD_REPORT}};
	const struct child_spec spec = {
	    .path = queue->supervisor,
	    .argv = argv,
	    .fds = fds,
	    .fd_count = report_fd < 0 ? 1 : array_length(fds),
	    .new_session = true,
	};

	queue->clearer = child_start(queue->options.children, &spec, trash_ended, queue, &err);
	if (queue->clearer)
		queue->cleared_fd = take_fd(&report_fd);
	else
		log_write(queue->options.log, LOG_LEVEL_WARNING, NULL,
			  "the files of ended jobs are not removed for now: %s", err.text);
}

void queue_trash_done(struct queue *queue)
{
	queue->clearer = child_free(queue->clearer); /* it goes on */
	cleanup_close_fn(&queue->cleared_fd);
}
