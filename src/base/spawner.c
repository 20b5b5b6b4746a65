/* SPDX-License-Identifier: Apache-2.0 */
#include "base/spawner.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/loop.h"

struct spawner {
	struct child_set *set;
	struct loop *loop;
	const char *path;
	struct loop_timer *idle; /* owned */
	struct child *helper;	 /* owned, or NULL */
	int fd;			 /* owned: of the helper; -1: none */
	uint32_t forks;
	uint64_t begun_ns, used_ns; /* when the helper was started, when the last start was */
	uint64_t not_before_ns;	    /* no helper until then: the last one was of no use */
	struct stat program;	    /* that the helper is */
};

/* It ends when nobody holds the other end any more. */
static void spawner_close(struct spawner *spawner)
{
	if (spawner->fd >= 0)
		(void)close(spawner->fd);
	spawner->fd = -1;
	spawner->helper = child_free(spawner->helper);
	if (spawner->idle)
		loop_timer_stop(spawner->idle);
}

static void spawner_give_up(struct spawner *spawner)
{
	if (spawner->helper)
		(void)child_kill(spawner->helper, SIGKILL); /* it may have ended */
	spawner->not_before_ns = loop_now_ns(spawner->loop) + SPAWNER_LIFE_NS;
	spawner_close(spawner);
}

static void spawner_on_idle(void *context)
{
	struct spawner *spawner = context;
	uint64_t now_ns = loop_now_ns(spawner->loop);
	uint64_t end_ns = spawner->used_ns + SPAWNER_IDLE_NS;

	if (now_ns < end_ns)
		loop_timer_start(spawner->idle, end_ns - now_ns);
	else
		spawner_close(spawner);
}

static void spawner_on_end(struct child *child, const struct child_end *end, void *context)
{
	struct spawner *spawner = context;
	/* One that has never started anything would not do so the next time either. */
	if (spawner->forks == 0)
		spawner_give_up(spawner);
	else
		spawner_close(spawner);
}

struct spawner *spawner_new(struct child_set *set, struct loop *loop, const char *path,
			    struct err *err)
{
	struct spawner *spawner = calloc(1, sizeof(*spawner));
	if (!spawner) {
		(void)err_set(err, -ENOMEM, "no memory to start '%s'", path);
		return NULL;
	}

	*spawner = (struct spawner){.set = set, .loop = loop, .path = path, .fd = -1};
	spawner->idle = loop_timer_new(loop, spawner_on_idle, spawner, err);
	return spawner->idle ? spawner : spawner_free(spawner);
}

struct spawner *spawner_free(struct spawner *spawner)
{
	if (!spawner)
		return NULL;
	spawner_close(spawner);
	spawner->idle = loop_timer_free(spawner->idle);
	free(spawner);
	return NULL;
}

pid_t spawner_pid(const struct spawner *spawner)
{
	return spawner->helper ? child_pid(spawner->helper) : -1;
}

/* Without one everything works as well. */
static void spawner_begin(struct spawner *spawner, uint64_t now_ns)
{
	int ends[2];

	if (stat(spawner->path, &spawner->program) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return;

	/* Room for the arguments of what it becomes, which stand in the place of its own. */
	char room[SPAWNER_TEXT_MAX];
	memset(room, ' ', sizeof(room) - 1);
	room[sizeof(room) - 1] = '\0';

	char *const argv[] = {(char *)spawner->path, (char[]){"--spawner"}, room, NULL};
	const struct child_fd fds[] = {{ends[1], SPAWNER_FD}};
	const struct child_spec spec = {
	    .path = spawner->path, .argv = argv, .fds = fds, .fd_count = 1, .new_session = true};

	spawner->helper = child_start(spawner->set, &spec, spawner_on_end, spawner, NULL);
	(void)close(ends[1]);
	if (!spawner->helper) {
		(void)close(ends[0]);
		return;
	}

	spawner->fd = ends[0];
	spawner->forks = 0;
	spawner->begun_ns = now_ns;
	loop_timer_start(spawner->idle, SPAWNER_IDLE_NS);
}

/* Whether the file at its path is the one that the helper was started from, as far as can be seen.
 */
static bool spawner_is_current(const struct spawner *spawner)
{
	const struct stat *was = &spawner->program;
	struct stat is;

	return stat(spawner->path, &is) == 0 && is.st_dev == was->st_dev &&
	       is.st_ino == was->st_ino && is.st_size == was->st_size &&
	       is.st_mtim.tv_sec == was->st_mtim.tv_sec &&
	       is.st_mtim.tv_nsec == was->st_mtim.tv_nsec &&
	       is.st_ctim.tv_sec == was->st_ctim.tv_sec &&
	       is.st_ctim.tv_nsec == was->st_ctim.tv_nsec;
}

/* False: it has to be executed, and there may be a helper for the next one. */
static bool spawner_is_ready(struct spawner *spawner)
{
	uint64_t now_ns = loop_now_ns(spawner->loop);
	bool follows = spawner->used_ns > 0 && now_ns - spawner->used_ns < SPAWNER_BURST_NS;

	spawner->used_ns = now_ns;
	if (spawner->fd >= 0 &&
	    (spawner->forks >= SPAWNER_FORKS_MAX || now_ns - spawner->begun_ns >= SPAWNER_LIFE_NS ||
	     !spawner_is_current(spawner)))
		spawner_close(spawner);
	if (spawner->fd >= 0)
		return true;
	if (follows && now_ns >= spawner->not_before_ns)
		spawner_begin(spawner, now_ns);

	return false; /* one that was just started is still being linked */
}

/* False: it is not a start that the helper can make. */
static bool spawner_ask_for(const struct child_spec *spec, struct spawner_request *out)
{
	size_t length = 0;

	*out = (struct spawner_request){.fd_count = (uint32_t)spec->fd_count};
	if (spec->fd_count > SPAWNER_FDS_MAX || spec->environment || spec->directory ||
	    spec->program_fd > 0 || spec->shares_streams || !spec->new_session)
		return false;

	for (size_t i = 0; i < spec->fd_count; i++)
		out->targets[i] = spec->fds[i].target;

	for (size_t i = 1; spec->argv[0] && spec->argv[i]; i++) {
		size_t size = strlen(spec->argv[i]) + 1;
		if (size > sizeof(out->arguments) - 1 - length)
			return false;
		memcpy(out->arguments + length, spec->argv[i], size);
		length += size;
	}

	return true;
}

/* 0; -errno: it has heard nothing. */
static int spawner_send(int fd, const struct child_spec *spec, const struct spawner_request *ask)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(SPAWNER_FDS_MAX * sizeof(int))];
	} control = {.bytes = {0}};
	struct iovec part = {.iov_base = (void *)ask, .iov_len = sizeof(*ask)};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	if (spec->fd_count > 0) {
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(spec->fd_count * sizeof(int));
		struct cmsghdr *head = CMSG_FIRSTHDR(&message);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(spec->fd_count * sizeof(int));
		for (size_t i = 0; i < spec->fd_count; i++)
			memcpy(CMSG_DATA(head) + i * sizeof(int), &spec->fds[i].source,
			       sizeof(int));
	}

	ssize_t sent = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
	return sent == (ssize_t)sizeof(*ask) ? 0 : sent < 0 ? -errno : -EIO;
}

/* The pid; -errno of the helper, which has started nothing; 0: nobody knows. */
static pid_t spawner_hear(int fd)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	struct spawner_answer answer;
	int ready;

	do {
		ready = poll(&wait, 1, SPAWNER_ANSWER_MS);
	} while (ready < 0 && errno == EINTR);
	if (ready <= 0 || recv(fd, &answer, sizeof(answer), MSG_DONTWAIT) != sizeof(answer))
		return 0;

	return answer.pid;
}

int spawner_spawn(void *how, const struct child_spec *spec, pid_t *out_pid, struct err *err)
{
	struct spawner *spawner = how;
	struct spawner_request ask;
	if (!spawner_is_ready(spawner) || !spawner_ask_for(spec, &ask) ||
	    spawner_send(spawner->fd, spec, &ask) < 0)
		return child_spawn(spec, out_pid, err);

	pid_t pid = spawner_hear(spawner->fd);
	if (pid > 0) {
		spawner->forks++;
		*out_pid = pid;
		return 0;
	}

	spawner_give_up(spawner);
	if (pid < 0)
		return child_spawn(spec, out_pid, err);

	return err_set(err, -EINPROGRESS, "what starts '%s' gave no answer", spec->path);
}
