/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/job_terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <termios.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "cmd/jobs/terminal_link.h"

enum { JOB_TERMINAL_BLOCK = 16384 };

static void job_terminal_told(enum terminal_link_event event, void *context)
{
	struct job_terminal *terminal = context;
	terminal->has_closed = event == TERMINAL_LINK_CLOSED;
	terminal->has_left = event == TERMINAL_LINK_DETACHED;
	terminal->is_unread = event == TERMINAL_LINK_UNREAD;
}

void job_terminal_look(struct job_terminal *terminal, const Sluice__V1__Job *job)
{
	/* A job that is tried again has another one. */
	if (!terminal->link && job->attempt && job->attempt->number != terminal->attempt) {
		terminal->attempt = job->attempt->number;
		terminal->has_closed = terminal->was_linked = false;
	}

	bool runs = job->state == SLUICE__V1__JOB_STATE__RUNNING ||
		    job->state == SLUICE__V1__JOB_STATE__STOPPING;
	if (terminal->link || terminal->has_closed || !runs || !job->attempt ||
	    job->attempt->started_unix_ns == 0)
		return;

	const struct terminal_link_options options = {.loop = terminal->loop,
						      .stdout_path = job->attempt->stdout_path,
						      .in_fd = STDIN_FILENO,
						      .out_fd = STDOUT_FILENO,
						      .told = job_terminal_told,
						      .context = terminal};
	terminal->link = terminal_link_new(&options, NULL); /* else it is over already */
}

static void job_terminal_unlink(struct job_terminal *terminal)
{
	terminal->was_linked |= terminal_link_has_shown(terminal->link);
	terminal->link = terminal_link_free(terminal->link);
}

bool job_terminal_is_over(struct job_terminal *terminal, const Sluice__V1__Job *job)
{
	if (!terminal->link ||
	    (!terminal->has_closed && !terminal->has_left && !terminal->is_unread))
		return false;
	job_terminal_unlink(terminal);
	if (!terminal->has_closed)
		return true;
	return job && job->attempt && terminal_link_is_there(job->attempt->stdout_path);
}

static void job_terminal_show(const char *path)
{
	char block[JOB_TERMINAL_BLOCK];
	struct termios before, plain;
	/* The job's terminal has made its line ends already. */
	bool is_terminal = tcgetattr(STDOUT_FILENO, &before) == 0;
	if (is_terminal) {
		plain = before;
		plain.c_oflag &= ~(tcflag_t)OPOST;
		(void)tcsetattr(STDOUT_FILENO, TCSADRAIN, &plain);
	}

	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t length;

	while (fd >= 0 && (length = read(fd, block, sizeof(block))) > 0) {
		for (ssize_t done = 0; done < length;) {
			ssize_t written =
			    write(STDOUT_FILENO, block + done, (size_t)(length - done));
			if (written < 0 && errno != EINTR)
				break; /* nobody reads it */
			done += written > 0 ? written : 0;
		}
	}

	if (is_terminal)
		(void)tcsetattr(STDOUT_FILENO, TCSADRAIN, &before);
}

void job_terminal_end(struct job_terminal *terminal, const Sluice__V1__Job *job)
{
	job_terminal_unlink(terminal);
	if (job && job->attempt && !terminal->was_linked)
		job_terminal_show(job->attempt->stdout_path);
}
