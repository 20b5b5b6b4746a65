/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sluice-container run | remove: the step between a job's supervisor and podman. Runs as the job's
 * user in the job's cgroup, with the job's launch under LAUNCH_FD_LAUNCH. `run` looks whether
 * podman can do it, and becomes `podman run`; what is missing is told through COMMAND_FD_WHY in
 * words that help. `remove` takes away what a podman that was killed could not. A program of its
 * own, so that no supervisor, of which there is one per job, has readers of JSON and YAML in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "doors/queue/launch.h"
#include "libexec/container/settings.h"
#include "libexec/container/words.h"
#include "libexec/supervise/command.h"
#include "libexec/supervise/prepare.h"

enum {
	CONTAINER_EXIT_FAILED = 125,
	/* Of a container whose conmon was killed podman 4.3 says at first that it cannot be
	 * stopped, and removes it when asked again. */
	CONTAINER_TRIES = 3,
};

static int container_run(const struct launch *launch, struct err *err)
{
	struct settings settings;
	char **argv = NULL;
	/* Closed by the exec of podman, which is how the supervisor knows that it started. */
	if (fcntl(COMMAND_FD_WHY, F_SETFD, FD_CLOEXEC) < 0 ||
	    fcntl(LAUNCH_FD_LAUNCH, F_SETFD, FD_CLOEXEC) < 0)
		return err_set(err, -errno, "this program is started by sluice-supervise");
	int result = settings_check_podman(err);
	if (result == 0)
		result = settings_check_devices(launch, err);
	settings_read(launch, NULL, &settings);
	if (result == 0)
		result = podman_run(launch, &settings.podman, &argv, err);
	if (result < 0)
		return result;
	(void)execvp(argv[0], argv);
	result = err_set(err, -errno, "executing podman: %s", err_describe(errno));
	argv = words_free(argv);
	return result;
}

/* The exit status of podman; -1: it was killed, or could not be started. */
static int container_call(char **argv, bool is_loud)
{
	pid_t pid = fork();
	if (pid < 0)
		return -1;
	if (pid == 0) {
		int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
		(void)dup2(null_fd, STDOUT_FILENO);
		if (!is_loud)
			(void)dup2(null_fd, STDERR_FILENO);
		(void)execvp(argv[0], argv);
		_exit(CONTAINER_EXIT_FAILED);
	}
	int status = 0;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int container_remove(const struct launch *launch, struct err *err)
{
	struct settings settings;
	char **argv = NULL;
	(void)close(COMMAND_FD_WHY);
	(void)close(LAUNCH_FD_LAUNCH);
	settings_read(launch, NULL, &settings);
	int result = podman_remove(launch, &settings.podman, &argv, err);
	int status = -1;
	for (int i = 1; result == 0 && i <= CONTAINER_TRIES; i++) {
		status = container_call(argv, i == CONTAINER_TRIES);
		if (status == 0)
			break;
	}
	argv = words_free(argv);
	if (result == 0 && status != 0)
		result = err_set(err, -EIO, "podman could not remove the container of the job");
	return result;
}

int main(int argc, char **argv)
{
	struct err err = {0};
	struct launch launch _cleanup_launch_;
	launch_init(&launch);
	bool is_run = argc == 2 && strcmp(argv[1], "run") == 0;
	bool is_remove = argc == 2 && strcmp(argv[1], "remove") == 0;
	int result = is_run || is_remove ? prepare_launch(LAUNCH_FD_LAUNCH, &launch, &err)
					 : err_set(&err, -EINVAL, "wrong command line");
	if (result == 0)
		result = is_run ? container_run(&launch, &err) : container_remove(&launch, &err);
	if (result == 0)
		return 0;
	if (is_run)
		command_tell_why(COMMAND_FD_WHY, err.text);
	else
		(void)fprintf(stderr, "sluice-container: %s\n", err.text);
	return CONTAINER_EXIT_FAILED;
}
