/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/supervise/spawned.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/spawner.h"

enum {
	SPAWNED_WORDS = 3,	/* of the helper's own call */
	SPAWNED_FD_HIGH = 64,	/* above all targets */
	SPAWNED_WARM = 2 << 10, /* bytes of a heap that is there already */
	SPAWNED_EXIT_FDS = 66,	/* as LAUNCH_EXIT_NOT_READY */
};

struct spawned_call {
	struct spawner_request request;
	int fds[SPAWNER_FDS_MAX];
	size_t fd_count;
};

bool spawned_is_asked(int argc, char **argv)
{
	return argc == SPAWNED_WORDS && strcmp(argv[1], "--spawner") == 0 &&
	       strlen(argv[2]) == SPAWNER_TEXT_MAX - 1;
}

static bool spawned_is_good(const struct spawned_call *call)
{
	const struct spawner_request *request = &call->request;
	if (request->fd_count != call->fd_count ||
	    request->arguments[SPAWNER_TEXT_MAX - 1] != '\0' ||
	    request->arguments[SPAWNER_TEXT_MAX - 2] != '\0')
		return false;

	for (size_t i = 0; i < call->fd_count; i++)
		if (request->targets[i] < STDERR_FILENO || request->targets[i] >= SPAWNED_FD_HIGH)
			return false;

	return true;
}

/* False: nobody asks any more. */
static bool spawned_hear(struct spawned_call *out)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(SPAWNER_FDS_MAX * sizeof(int))];
	} control;
	struct iovec part = {.iov_base = &out->request, .iov_len = sizeof(out->request)};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};
	ssize_t length;

	do {
		length = recvmsg(SPAWNER_FD, &message, MSG_CMSG_CLOEXEC);
	} while (length < 0 && errno == EINTR);
	if (length != sizeof(out->request))
		return false;

	out->fd_count = 0;
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);
	if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS) {
		out->fd_count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(out->fds, CMSG_DATA(head), out->fd_count * sizeof(int));
	}

	return true;
}

/* --- the new process -------------------------------------------------------------------------- */

/* All others are closed. What is not given is as the helper has it. */
static int spawned_take_fds(struct spawned_call *call)
{
	(void)close(SPAWNER_FD);
	for (size_t i = 0; i < call->fd_count; i++) {
		int high = fcntl(call->fds[i], F_DUPFD_CLOEXEC, SPAWNED_FD_HIGH);
		(void)close(call->fds[i]);
		if (high < 0)
			return -errno;
		call->fds[i] = high;
	}

	int highest = STDERR_FILENO;

	for (size_t i = 0; i < call->fd_count; i++) {
		int target = call->request.targets[i];
		if (dup2(call->fds[i], target) < 0)
			return -errno;
		highest = target > highest ? target : highest;
	}

	if (close_range((unsigned)highest + 1, ~0U, 0) == 0)
		return 0;
	for (size_t i = 0; i < call->fd_count; i++) /* before Linux 5.9: there are no others */
		(void)close(call->fds[i]);

	return 0;
}

/* In the place of the helper's own, which were longer. */
static void spawned_take_arguments(const struct spawned_call *call, char **argv)
{
	const char *text = call->request.arguments;
	size_t length = 0;
	while (text[length])
		length += strlen(text + length) + 1;

	memset(argv[1], '\0', (size_t)(argv[2] + SPAWNER_TEXT_MAX - argv[1]));
	memcpy(argv[1], text, length);
	/* Where that is forbidden (CAP_SYS_RESOURCE) the kernel shows the NULs behind it as well.
	 */
	(void)prctl(PR_SET_MM, PR_SET_MM_ARG_END, argv[1] + length, 0, 0);
}

/* As fork(), but the new one is a child of the agent's. */
static pid_t spawned_fork(void)
{
	struct clone_args how = {.flags = CLONE_PARENT};
	pid_t pid = (pid_t)syscall(SYS_clone3, &how, sizeof(how));
	return pid < 0 ? -errno : pid;
}

bool spawned_serve(char **argv)
{
	struct spawned_call call;

	free(malloc(SPAWNED_WARM)); /* the first one makes the heap, which they all inherit */

	while (spawned_hear(&call)) {
		pid_t pid = spawned_is_good(&call) ? spawned_fork() : -EINVAL;

		if (pid == 0) {
			(void)setsid(); /* a new process is never a leader */
			if (spawned_take_fds(&call) < 0)
				_exit(SPAWNED_EXIT_FDS);
			spawned_take_arguments(&call, argv);
			return true;
		}

		for (size_t i = 0; i < call.fd_count; i++)
			(void)close(call.fds[i]);

		const struct spawner_answer answer = {.pid = pid};
		(void)send(SPAWNER_FD, &answer, sizeof(answer), MSG_NOSIGNAL);
	}

	return false;
}
