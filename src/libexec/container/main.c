/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sluice-container run | remove: the step between a job's supervisor and podman or docker. Runs as
 * the job's user in the job's cgroup, with the job's launch under LAUNCH_FD_LAUNCH. `run` looks
 * whether they can do it, and becomes `podman run` or `docker run`; what is missing is told through
 * COMMAND_FD_WHY in words that help. `remove` takes away what one that was killed could not. A
 * program of its own, so that no supervisor, of which there is one per job, has readers of JSON and
 * YAML in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "cdi/scan.h"
#include "job/launch.h"
#include "libexec/container/call.h"
#include "libexec/container/settings.h"
#include "libexec/container/words.h"
#include "libexec/supervise/command.h"
#include "libexec/supervise/prepare.h"

enum {
	CONTAINER_EXIT_FAILED = 125,
	/* Of a container whose conmon was killed podman 4.3 says at first that it cannot be
	 * stopped, and removes it when asked again. */
	CONTAINER_TRIES = 3,
	CONTAINER_LOOKS = 2, /* for a container of docker's, a moment apart */
	CONTAINER_MOMENT_NS = 200000000,
	CONTAINER_TEXT_MAX = 4096,
};

static int container_argv_docker(const struct launch *launch,
				 const struct container_settings *settings, const struct scan *scan,
				 char ***out, struct err *err)
{
	struct docker_info info;
	int rc = settings_ask_docker(&info, err);
	if (rc < 0)
		return rc;

	const char *elsewhere =
	    settings_elsewhere(&info, settings, launch->spec.uid, getenv("DOCKER_HOST"));
	const struct docker_settings docker = {.parent = elsewhere ? NULL : settings->parent,
					       .scan = info.has_cdi ? NULL : scan};

	rc = docker_run(launch, &docker, out, err);
	if (rc == 0 && elsewhere)
		command_tell_note(COMMAND_FD_WHY, elsewhere);

	return rc;
}

static int container_argv(const struct launch *launch, char ***out, struct err *err)
{
	struct container_settings settings;
	uint32_t runtime = SPEC_RUNTIME_ANY;
	_cleanup_scan_ struct scan scan = {.count = 0};
	int rc = settings_choose(launch, &runtime, err);
	if (rc == 0 && runtime == SPEC_RUNTIME_PODMAN)
		rc = settings_check_podman(err);

	if (rc == 0)
		rc = settings_check_devices(launch, &scan, err);
	if (rc < 0)
		return rc;

	settings_read(launch, NULL, &settings);
	return runtime == SPEC_RUNTIME_PODMAN
		   ? podman_run(launch, &settings.podman, out, err)
		   : container_argv_docker(launch, &settings, &scan, out, err);
}

static int container_run(const struct launch *launch, struct err *err)
{
	char **argv = NULL;

	/* Closed by the exec of the runtime, which is how the supervisor knows that it started. */
	if (fcntl(COMMAND_FD_WHY, F_SETFD, FD_CLOEXEC) < 0 ||
	    fcntl(LAUNCH_FD_LAUNCH, F_SETFD, FD_CLOEXEC) < 0)
		return err_set(err, -errno, "this program is started by sluice-supervise");

	int rc = container_argv(launch, &argv, err);
	if (rc < 0)
		return rc;

	(void)execvp(argv[0], argv);
	rc = err_set(err, -errno, "executing %s: %s", argv[0], err_describe(-errno));
	argv = words_free(argv);

	return rc;
}

/* Whether docker has it: 1, 0. What its daemon began for a client that was killed may come later.
 */
static int container_find(const struct launch *launch, struct err *err)
{
	static const struct timespec moment = {.tv_nsec = CONTAINER_MOMENT_NS};
	char **argv = NULL;
	int rc = docker_find(launch, &argv, err);
	bool is_found = false;

	for (int i = 1; rc == 0 && !is_found && i <= CONTAINER_LOOKS; i++) {
		_cleanup_buf_ struct buf text;
		buf_init(&text, CONTAINER_TEXT_MAX);
		if (i > 1)
			(void)nanosleep(&moment, NULL);
		rc = call_run(argv, CALL_ERRORS_SHOWN, &text, err);
		if (rc > 0)
			rc = err_set(err, -EIO,
				     "docker could not say what became of the "
				     "container of the job");

		is_found = text.length > 0;
	}

	argv = words_free(argv);
	return rc < 0 ? rc : is_found;
}

static int container_remove(const struct launch *launch, struct err *err)
{
	struct container_settings settings;
	char **argv = NULL;
	uint32_t runtime = SPEC_RUNTIME_ANY;

	(void)close(COMMAND_FD_WHY);
	(void)close(LAUNCH_FD_LAUNCH);
	settings_read(launch, NULL, &settings);

	int rc = settings_choose(launch, &runtime, err);
	if (rc == 0 && runtime == SPEC_RUNTIME_DOCKER) {
		rc = container_find(launch, err);
		if (rc <= 0)
			return rc;

		rc = docker_remove(launch, &argv, err);
	} else if (rc == 0) {
		rc = podman_remove(launch, &settings.podman, &argv, err);
	}

	int status = -1;

	for (int i = 1; rc == 0 && i <= CONTAINER_TRIES; i++) {
		status =
		    call_run(argv, i == CONTAINER_TRIES ? CALL_ERRORS_SHOWN : CALL_ERRORS_DROPPED,
			     NULL, err);
		if (status == 0)
			break;
	}

	argv = words_free(argv);
	if (rc == 0 && status != 0)
		rc = err_set(err, -EIO, "%s could not remove the container of the job",
			     spec_runtime_to_string(runtime));

	return rc;
}

int main(int argc, char **argv)
{
	struct err err = {0};
	struct launch launch _cleanup_launch_;

	launch_init(&launch);
	bool is_run = argc == 2 && strcmp(argv[1], "run") == 0;
	bool is_remove = argc == 2 && strcmp(argv[1], "remove") == 0;
	int rc = is_run || is_remove ? prepare_launch(LAUNCH_FD_LAUNCH, &launch, &err)
				     : err_set(&err, -EINVAL, "wrong command line");
	if (rc == 0)
		rc = is_run ? container_run(&launch, &err) : container_remove(&launch, &err);

	if (rc == 0)
		return 0;
	if (is_run)
		command_tell_why(COMMAND_FD_WHY, err.text);
	else
		(void)fprintf(stderr, "sluice-container: %s\n", err.text);

	return CONTAINER_EXIT_FAILED;
}
