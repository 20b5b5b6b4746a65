/* SPDX-License-Identifier: Apache-2.0 */
/* What listens while a job runs. The rest of run.c is seen in main_test.c, through the program. */
#include "libexec/supervise/run.h"

#include <errno.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "unit/unit.h"

struct heard {
	struct watch_source *source;
	int count;
};

/* Answers the first byte, which is what the child waits for before it ends. */
static void answer(void *context, short revents)
{
	struct heard *heard = context;
	char byte;
	heard->count++;
	assert_true(revents & POLLIN);
	assert_int_equal(read(heard->source->fd, &byte, 1), 1);
	assert_int_equal(write(heard->source->fd, &byte, 1), 1);
	heard->source->fd = -1;
}

static void what_listens_is_served_while_the_command_runs(void **state)
{
	int ends[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	sigset_t child;
	(void)sigemptyset(&child);
	(void)sigaddset(&child, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &child, NULL);
	pid_t pid = fork();
	if (pid == 0) {
		char byte = 'x';
		bool is_answered =
		    write(ends[1], &byte, 1) == 1 && read(ends[1], &byte, 1) == 1 && byte == 'x';
		_exit(is_answered ? 3 : 4);
	}
	struct supervisor self = {.source_count = 0};
	struct heard heard = {.count = 0};
	struct watch_source nothing = {.fd = -1, .ready = answer};
	struct watch_source source = {
	    .fd = ends[0], .events = POLLIN, .ready = answer, .context = &heard};
	assert_int_equal(run_listen(&self, &nothing), 0);
	assert_int_equal(run_listen(&self, &source), 0);
	heard.source = &self.sources[1];
	struct cgroup none = CGROUP_NONE;
	agents_init(&self.agents, -1);
	struct job_watch watch = {.agents = &self.agents,
				  .cgroup = &none,
				  .signal_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK),
				  .command = pid,
				  .sources = self.sources,
				  .source_count = self.source_count};
	job_watch_run(&watch);
	assert_true(WIFEXITED(watch.status));
	assert_int_equal(WEXITSTATUS(watch.status), 3);
	assert_int_equal(heard.count, 1);
	(void)close(watch.signal_fd);
	(void)close(ends[0]);
	(void)close(ends[1]);
}

static void no_more_listen_than_can_be_polled(void **state)
{
	struct supervisor self = {.source_count = 0};
	struct watch_source source = {.fd = -1, .ready = answer};
	for (int i = 0; i < WATCH_SOURCES_MAX; i++)
		assert_int_equal(run_listen(&self, &source), 0);
	assert_int_equal(run_listen(&self, &source), -ENOSPC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_listens_is_served_while_the_command_runs),
	    cmocka_unit_test(no_more_listen_than_can_be_polled),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
