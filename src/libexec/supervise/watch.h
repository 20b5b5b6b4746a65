/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the start of the command to the end of the last process of the job: signals, the deadline,
 * leftovers, and killing. "Of the job" is what is in its cgroup or descends from the supervisor,
 * which is a subreaper: what daemonises becomes its child.
 */
#ifndef SLUICE_LIBEXEC_SUPERVISE_WATCH_H
#define SLUICE_LIBEXEC_SUPERVISE_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "job/cgroup/cgroup.h"
#include "job/control.h"
#include "job/desk.h"
#include "job/warning.h"
#include "libexec/supervise/agents.h"

#define WATCH_NEVER  UINT64_MAX
#define WATCH_ASK_NS UINT64_C(10000000000)

enum job_watch_limits { WATCH_SOURCES_MAX = 9 };

/* What else is to be heard while the job runs: a socket, a terminal, a timer. */
struct watch_source {
	int fd;	      /* borrowed; -1: nothing at the moment */
	short events; /* as of poll(2); both may be changed by whoever is called */
	/* Must not block. Called as long as anything of the job lives, also after the command has
	 * ended. Sets fd to -1 when nothing more comes. */
	void (*ready)(void *context, short revents);
	void *context;
};

struct init;

struct job_watch {
	/* Set by the caller; borrowed. */
	struct agents *agents;
	struct desk *desk;	     /* NULL: no tokens */
	const struct cgroup *cgroup; /* fd -1: none */
	int signal_fd;
	pid_t command;	      /* -1: it has ended, and what it left is killed */
	uint64_t grace_ns;    /* of leftovers, and of a cancel that names none */
	uint64_t deadline_ns; /* of running, from now; 0: none */
	uint64_t used_ns;     /* that earlier attempts have had of the time it may run in all */
	/* Sent once, so long before the deadline: to the processes of the job that catch it, or to
	 * the command's group if none does; 0: none. */
	struct warning warning;
	/* The command passes signals on to those for whom they are meant: while it lives it alone
	 * gets them. podman that finds nobody left to pass one on to dies of it itself, and the
	 * exit code of the container is lost. */
	bool passes_signals;
	/* Something ends by itself soon after the command, which is nothing to tell of: what podman
	 * leaves to clear up behind it, the copy of the output. */
	bool tells_late;
	/* Whether a process that the command left is of no use to anybody: when only such are left
	 * they are killed without grace, and not counted. NULL: none is. */
	bool (*is_idle)(pid_t pid);
	/* Called once when the job is to be killed: 0 when something was started that may end it,
	 * which then has WATCH_ASK_NS for that. NULL: nobody is asked. */
	int (*before_kill)(void *context);
	void *context;
	/* It clears up behind the job: what agents ask for is about that, and is passed over. */
	bool is_deaf;
	struct init *init; /* NULL: none; released when the command has ended */
	/* Called with each other process of the job that has ended and was a child. NULL: nobody.
	 */
	void (*reaped)(void *context, pid_t pid, int status);
	void *reaped_context;
	pid_t aside; /* a child that does something for the job, and how it ends matters; 0: none */
	struct watch_source *sources; /* WATCH_SOURCES_MAX at most; what is beyond is not heard */
	size_t source_count;

	/* What became of it. */
	int status; /* of the command, as of waitpid(2) */
	bool has_hit_deadline, has_idled;
	bool was_told;		  /* the command lived, and was sent a signal */
	bool was_terminated;	  /* SIGTERM came while the command lived, or just after its end */
	bool was_ended_by_asking; /* before_kill() was called while the command ran */
	uint32_t killed_leftovers;
	bool aside_failed; /* that child, by itself */

	/* Its own. */
	bool command_lives, init_lives;
	bool is_killing, is_stuck, has_asked, has_warned;
	uint64_t began_ns, warn_at_ns;
	uint64_t deadline_at_ns, kill_at_ns, tell_at_ns, killing_since_ns, ended_at_ns;
	unsigned kill_rounds;
	int events_fd;
};

/* Returns when nothing of the job lives any more. */
void job_watch_run(struct job_watch *watch);

/* While it runs, by whom it calls: SIGTERM to all of the job, and SIGKILL to what is left after
 * `grace_ns`, as if it had been cancelled. */
void job_watch_end(struct job_watch *watch, uint64_t grace_ns);

/* Waits up to `timeout_ms` for agents and visitors and serves them: for when there is no job to
 * watch. What agents ask for is passed over. */
void job_watch_idle(struct agents *agents, struct desk *desk, int timeout_ms);

#endif
