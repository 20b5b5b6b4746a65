/* SPDX-License-Identifier: Apache-2.0 */
/* How a probe process comes to be: our own program with two descriptors. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "probe/client_internal.h"

enum spawn_limits {
	SPAWN_SOCKET = 3, /* as the probe sees them */
	SPAWN_MARKS = 4,
	ARGUMENT_MAX = 16 + 2 * GPU_MAX,
	TEXT_MAX = 48,
};

int resolve_program(struct probe_client *client, const struct probe_options *options,
		    struct err *err)
{
	/* The running program, also when it was replaced on disk meanwhile. */
	const char *program = options->program ? options->program : "/proc/self/exe";
	int rc;

	client->program_fd = options->program_fd;
	if (client->program_fd > 0)
		rc = file_path(client->program, err, "/proc/self/fd/%d", client->program_fd);
	else
		rc = file_path(client->program, err, "%s", program);

	if (rc < 0)
		return err_wrap(err, "the path of the sluice program");

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
	add_number(arguments, "fd", SPAWN_SOCKET);
	add_number(arguments, "marks-fd", SPAWN_MARKS);
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

static int run(const struct probe_client *client, int socket_fd, int marks_fd, pid_t *out_pid,
	       struct err *err)
{
	struct arguments arguments = {.count = 0};
	const struct child_fd fds[] = {{socket_fd, SPAWN_SOCKET}, {marks_fd, SPAWN_MARKS}};
	const struct child_spec spec = {.path = client->program,
					.program_fd = client->program_fd,
					.argv = arguments.list,
					.fds = fds,
					.fd_count = sizeof(fds) / sizeof(fds[0]),
					.shares_streams = true};

	fill_arguments(client, &arguments);
	return child_spawn(&spec, out_pid, err);
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
	struct call_marks *marks = mmap(NULL, sizeof(*marks), PROT_READ, MAP_SHARED, marks_fd, 0);
	if (marks == MAP_FAILED)
		return err_set(err, -errno, "starting the probe: %s", err_describe(-errno));

	pid_t pid = -1;
	if (run(client, theirs, marks_fd, &pid, err) < 0) {
		(void)munmap(marks, sizeof(*marks));
		return err_wrap(err, "starting the probe");
	}

	client->pid = pid;
	client->fd = take_fd(&ours);
	client->marks = marks;

	return 0;
}
