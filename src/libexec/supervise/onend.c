/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/supervise/onend.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/crash.h"
#include "base/err.h"
#include "job/jobenv.h"
#include "job/launch.h"
#include "libexec/supervise/command.h"
#include "libexec/supervise/environment.h"
#include "libexec/supervise/init.h"
#include "libexec/supervise/landlock.h"
#include "libexec/supervise/prepare.h"
#include "libexec/supervise/sandbox.h"
#include "libexec/supervise/watch.h"

enum { ONEND_VARIABLES = 3, ONEND_CODE_MAX = 16 };

/* Below the job's: what is started in a group that was once killed is dead at once (Linux 6.18). */
static const char onend_group[] = "onend";

const char *onend_state(const struct jobdir_result *result, bool was_cancelled)
{
	if (was_cancelled || result->end == JOBDIR_CANCELLED)
		return "Cancelled";
	return result->end == JOBDIR_EXITED && result->value == 0 ? "Succeeded" : "Failed";
}

const char *onend_reason(const struct jobdir_result *result, bool was_cancelled)
{
	if (was_cancelled)
		return "User";

	switch (result->end) {
	case JOBDIR_EXITED:
		return result->value == 0		   ? ""
		       : jobdir_is_container_error(result) ? "ContainerError"
							   : "ExitCode";
	case JOBDIR_SIGNALLED:
		return "Signal";
	case JOBDIR_LAUNCH_ERROR:
		return "LaunchError";
	case JOBDIR_CANCELLED:
		return "User";
	case JOBDIR_DEADLINE:
		return "DeadlineExceeded";
	case JOBDIR_IDLE:
		return "IdleTimeout";
	default:
		return "WorkerFailed";
	}
}

static int onend_environment(const struct onend *onend, const struct launch *launch, char ***out,
			     struct err *err)
{
	size_t count = 0;
	int rc = environment_make(launch, 0, 0, out, err);
	if (rc < 0)
		return rc;

	while ((*out)[count])
		count++;

	char **more = reallocarray(*out, count + ONEND_VARIABLES + 1, sizeof(*more));
	if (!more)
		return err_set(err, -ENOMEM, "no memory for an environment");

	*out = more;
	char code[ONEND_CODE_MAX];
	(void)snprintf(code, sizeof(code), "%d", onend->result->exit_code); /* fits */

	const char *rows[ONEND_VARIABLES][2] = {
	    {"SLUICE_STATE", onend_state(onend->result, onend->was_cancelled)},
	    {"SLUICE_REASON", onend_reason(onend->result, onend->was_cancelled)},
	    {"SLUICE_EXIT_CODE", code},
	};

	for (size_t i = 0; i < ONEND_VARIABLES; i++) {
		if (asprintf(&more[count], "%s=%s", rows[i][0], rows[i][1]) < 0) {
			more[count] = NULL;
			return err_set(err, -ENOMEM, "no memory for an environment");
		}
		more[++count] = NULL;
	}

	return 0;
}

static pid_t onend_start(const struct onend *onend, const struct launch *launch,
			 const struct cgroup *group, const struct init *init, struct err *err)
{
	static char shell[] = "/bin/sh", option[] = "-c";
	char *argv[] = {shell, option, (char *)launch->spec.on_end, NULL}, **environment = NULL;
	struct command_outcome outcome = {.pid = -1};
	const struct sandbox *sandbox = onend->sandbox;
	const struct landlock_plan landlock = {.denied = launch->denied,
					       .count = launch->denied_count,
					       .device_root = launch->device_root};

	/* Here it is on the machine itself, where the container was the job's boundary. */
	bool has_landlock = sandbox->has_landlock ||
			    (sandbox->level == ISOLATION_CONTAINER_ALONE && landlock_version() > 0);
	/* Its words would be beyond the limit of the job's output. */
	_cleanup_close_ int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	int rc = null_fd < 0 ? err_set(err, -errno, "opening /dev/null") : 0;
	if (rc == 0 && onend->needs_cgroup && group->fd < 0)
		rc = err_set(err, -ENOENT, "it has no cgroup with the job's device rules");

	if (rc == 0)
		rc = onend_environment(onend, launch, &environment, err);

	if (rc == 0) {
		struct job_command command = {.spec = &launch->spec,
					      .argv = argv,
					      .in_fd = -1,
					      .environment = environment,
					      .out_fd = null_fd,
					      .err_fd = null_fd,
					      .cgroup = group->fd >= 0 ? group : NULL,
					      .needs_cgroup = onend->needs_cgroup,
					      .devices_v1 = onend->devices_v1,
					      .limit = onend->limit,
					      .init = init->pid > 0 ? init : NULL,
					      .landlock = has_landlock ? &landlock : NULL,
					      .no_new_privs = sandbox->has_no_new_privs};
		rc = command_start(&command, &outcome, err);
	}

	environment = jobenv_free(environment);
	return rc < 0 ? -1 : outcome.pid;
}

void onend_run(const struct onend *onend)
{
	struct err err = {0};
	_cleanup_launch_ struct launch launch;

	launch_init(&launch);
	if (prepare_launch(LAUNCH_FD_LAUNCH, &launch, &err) < 0 || !launch.spec.on_end[0])
		return;

	_cleanup_cgroup_ struct cgroup group = CGROUP_NONE;

	if (onend->cgroup->fd >= 0)
		(void)cgroup_create(onend->cgroup->path, onend_group, &group, NULL);

	struct init init = INIT_NONE;
	pid_t pid = -1;

	if (onend->sandbox->is_refused) { /* this would be what the job was not allowed */
		(void)err_set(&err, -EPERM, "the isolation that is demanded is not reached");
	} else {
		if (onend->sandbox->has_own_pids)
			(void)init_start(&group, &init, NULL); /* else without, as the job */
		pid = onend_start(onend, &launch, &group, &init, &err);
	}

	crash_point("supervisor.onend_started");
	if (pid > 0) {
		struct job_watch watch = {.agents = onend->agents,
					  .desk = onend->desk,
					  .cgroup = onend->cgroup,
					  .signal_fd = onend->signal_fd,
					  .command = pid,
					  .grace_ns = ONEND_GRACE_NS,
					  .deadline_ns = ONEND_LIMIT_NS,
					  .is_deaf = true,
					  .init = &init};
		job_watch_run(&watch);
	} else {
		init_kill(&init);
		if (init.pid > 0)
			(void)waitpid(init.pid, NULL, 0);

		int fd = prepare_output(LAUNCH_FD_DIRECTORY, &launch, "err", NULL);
		if (fd >= 0)
			(void)dprintf(fd, "sluice: --on-end was not run: %s\n", err.text);
		cleanup_close_fn(&fd);
	}

	init_done(&init);
	if (group.fd >= 0)
		(void)cgroup_remove(&group, NULL); /* an empty one is in nobody's way */
	crash_point("supervisor.onend_ended");
}
