/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the supervisor to the job's command: everything between fork and exec. Knows nothing of
 * agents and files of the job.
 */
#ifndef SLUICE_LIBEXEC_SUPERVISE_COMMAND_H
#define SLUICE_LIBEXEC_SUPERVISE_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "job/cgroup/cgroup.h"
#include "job/spec.h"
#include "job/token.h"

struct cglimit;
struct err;
struct init;
struct landlock_plan;
struct nodes_wish;

enum command_limits {
	COMMAND_WHY_MAX = 256,
	COMMAND_FD_WHY = 6, /* where the program that makes a container says why it could not */
};

/* All borrowed for the call. */
struct job_command {
	const struct spec *spec;
	/* What is executed in place of spec->argv, by its path; NULL. It finds the job's launch
	 * under LAUNCH_FD_LAUNCH, and gets COMMAND_FD_WHY: whether it started is told when that is
	 * closed (its exec does that) or a text was written there. */
	char *const *helper;
	/* What is executed in place of spec->argv, ends in NULL; NULL: that. For workers. */
	char *const *argv;
	int in_fd; /* its standard input, with `argv`; -1: /dev/null */
	char **environment;
	int out_fd, err_fd;
	bool has_terminal;	    /* out_fd is one: its input too, and its controlling terminal */
	const struct token *tokens; /* inherited, under the numbers that they have here */
	size_t token_count;
	const struct cgroup *cgroup; /* NULL: none */
	bool needs_cgroup;	     /* it may not run outside of it */
	const char *devices_v1;	     /* directory of a v1 group to join as well; NULL, "": none */
	const struct cglimit *limit; /* NULL: none; its groups of v1 are joined, too */
	const struct init *init;     /* NULL: none; a namespace to be started into */
	const struct landlock_plan *landlock; /* NULL: none */
	bool no_new_privs;
	const struct nodes_wish *nodes; /* device nodes of its own; NULL: none */
	/* Asked now and then while the command is still on its way to its exec, which a file system
	 * that does not answer can hold up for ever. True: it is killed. NULL: nobody is asked. */
	bool (*give_up)(void *context);
	void *context;
};

/* The helper's part: tells why nothing was started. It exits with 125 then. */
void command_tell_why(int fd, const char *why);
/* The same of what is to be known of a container that is started now: why it is not in the job's
 * cgroup. */
void command_tell_note(int fd, const char *note);

/* Between fork and exec: the spec's user and groups, and no capability unless that is root. -errno.
 */
int command_become_user(const struct spec *spec);

/* What kept it from running, or from its cgroup. */
struct command_outcome {
	pid_t pid;		    /* the command; -1: it never ran */
	int exit_code;		    /* as of a shell, when it never ran: 125, 126 or 127 */
	char note[COMMAND_WHY_MAX]; /* what the helper said of it; "" */
	int cgroup_code;	    /* 0, or -errno: it runs, but not in its cgroup */
	bool given_up; /* killed on its way: still to be reaped, with what it may have started */
};

/*
 * Starts it: in the cgroup, in a session of its own, as the spec's user, with its groups, umask,
 * limits and directory; without any capability unless it is root; to be killed by the kernel when
 * this process dies. Returns when exec has succeeded, or -errno; the error says what failed.
 */
int command_start(const struct job_command *command, struct command_outcome *out, struct err *err);

#endif
