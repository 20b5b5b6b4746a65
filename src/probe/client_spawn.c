/* SPDX-License-Identifier: Apache-2.0 */
/* How a probe process comes to be: posix_spawn of our own program with two descriptors. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "probe/client_internal.h"

extern char **environ;

enum spawn_limits {
	CHILD_SOCKET = 3,
	CHILD_MARKS = 4,
	ARGUMENT_MAX = 16 + 2 * GPU_MAX,
	TEXT_MAX = 48,
};

int resolve_program(struct probe_client *client, const char *program, struct err *err)
{
	if (!program) {
		/* The running program, also when it was replaced on disk meanwhile. */
		program = "/proc/self/exe";
	}

	if (strlen(program) >= sizeof(client->program))
		return err_set(err, -ENAMETOOLONG, "the path of the sluice program is too long");

	memcpy(client->program, program, strlen(program) + 1);
	if (access(client->program, X_OK) < 0) {
		int code = -errno;
		return err_set(err, code, "cannot run '%s' as probe: %s", client->program,
			       err_describe(code));
	}

	return 0;
}

struct arguments {
	char text[ARGUMENT_MAX][TEXT_MAX];
	char *list[ARGUMENT_MAX + 1];
	uint32_t count;
};

static void add_argument(struct arguments *arguments, const char *text)
{
	char *to = arguments->text[arguments->count];
	(void)snprintf(to, TEXT_MAX, "%s", text);
	arguments->list[arguments->count++] = to;
}

static void add_number(struct arguments *arguments, const char *option, uint64_t number)
{
	char text[TEXT_MAX];
	(void)snprintf(text, sizeof(text), "--%s=%llu", option, (unsigned long long)number);
	add_argument(arguments, text);
}

static void fill_arguments(const struct probe_client *client, struct arguments *arguments)
{
	add_argument(arguments, "sluice");
	add_argument(arguments, "probe");
	add_number(arguments, "fd", CHILD_SOCKET);
	add_number(arguments, "marks-fd", CHILD_MARKS);
	add_number(arguments, "period-ns", client->period_ns);
	add_number(arguments, "sequence", client->sequence);

	if (client->once)
		add_argument(arguments, "--once");
	if (client->kernel_log)
		add_argument(arguments, "--kernel-log");
	if (client->log_is_live)
		add_argument(arguments, "--log-is-live");
	if (client->kmsg_after != UINT64_MAX)
		add_number(arguments, "log-after", client->kmsg_after);

	for (uint32_t i = 0; i < client->skip_count; i++) {
		const struct client_skip *skip = &client->skip[i];
		char text[TEXT_MAX];

		if (!skip->hung)
			continue;

		(void)snprintf(text, sizeof(text), "--skip=%u/%s", skip->where.index,
			       skip->where.bus);
		add_argument(arguments, text);
	}

	arguments->list[arguments->count] = NULL;
}

static int run(const struct probe_client *client, int socket_fd, int marks_fd, pid_t *out_pid)
{
	struct arguments arguments = {.count = 0};
	fill_arguments(client, &arguments);

	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int rc = posix_spawn_file_actions_init(&actions);
	if (rc != 0)
		return -rc;

	rc = posix_spawnattr_init(&attributes);
	if (rc != 0) {
		(void)posix_spawn_file_actions_destroy(&actions);
		return -rc;
	}

	/* The descriptors lie above those that they become, so no dup2 can overwrite the other. */
	sigset_t none, all;
	(void)sigemptyset(&none);
	(void)sigfillset(&all);

	rc = posix_spawn_file_actions_adddup2(&actions, socket_fd, CHILD_SOCKET);
	if (rc == 0)
		rc = posix_spawn_file_actions_adddup2(&actions, marks_fd, CHILD_MARKS);
	if (rc == 0)
		rc = posix_spawnattr_setflags(&attributes,
					      POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	if (rc == 0)
		rc = posix_spawnattr_setsigmask(&attributes, &none);

	if (rc == 0)
		rc = posix_spawnattr_setsigdefault(&attributes, &all);
	if (rc == 0)
		rc = posix_spawn(out_pid, client->program, &actions, &attributes, arguments.list,
				 environ);

	(void)posix_spawnattr_destroy(&attributes);
	(void)posix_spawn_file_actions_destroy(&actions);
	return -rc;
}

/* The same descriptor at a number that dup2 onto 3 and 4 cannot hit. */
static int lift(int *fd)
{
	int lifted = fcntl(*fd, F_DUPFD_CLOEXEC, 16);
	if (lifted < 0)
		return -errno;
	(void)close(*fd);
	*fd = lifted;
	return 0;
}

int spawn_probe(struct probe_client *client, struct err *err)
{
	int pair[2];
	_cleanup_close_ int marks_fd = memfd_create("sluice-probe-marks", MFD_CLOEXEC);
	if (marks_fd < 0 || ftruncate(marks_fd, sizeof(struct call_marks)) < 0)
		return err_set(err, -errno, "starting the probe: %s", err_describe(-errno));
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(err, -errno, "starting the probe: %s", err_describe(-errno));

	_cleanup_close_ int ours = pair[0];
	_cleanup_close_ int theirs = pair[1];
	int rc = lift(&theirs);
	if (rc == 0)
		rc = lift(&marks_fd);

	if (rc < 0)
		return err_set(err, rc, "starting the probe: %s", err_describe(rc));

	struct call_marks *marks = mmap(NULL, sizeof(*marks), PROT_READ, MAP_SHARED, marks_fd, 0);
	if (marks == MAP_FAILED)
		return err_set(err, -errno, "starting the probe: %s", err_describe(-errno));

	pid_t pid = -1;
	rc = run(client, theirs, marks_fd, &pid);
	if (rc < 0) {
		(void)munmap(marks, sizeof(*marks));
		return err_set(err, rc, "starting '%s' as probe: %s", client->program,
			       err_describe(rc));
	}

	client->pid = pid;
	client->fd = take_fd(&ours);
	client->marks = marks;

	return 0;
}
