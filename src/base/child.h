/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Child processes: started from the loop with exactly the descriptors, environment and session that
 * are asked for, and their end reported on the loop. A pidfd tells of the end where the kernel has
 * one (5.3); SIGCHLD does where it does not. Knows nothing of what the children do.
 */
#ifndef SLUICE_BASE_CHILD_H
#define SLUICE_BASE_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct child;
struct child_set;
struct err;
struct loop;

enum child_limits {
	CHILD_FDS_MAX = 32,	/* descriptors that one child can be given */
	CHILD_TARGET_MAX = 255, /* highest number under which it can see one */
};

/* How the end of children is noticed. */
enum child_watch {
	CHILD_WATCH_AUTO,   /* pidfd, else SIGCHLD */
	CHILD_WATCH_SIGNAL, /* SIGCHLD, to try what happens without pidfds */
};

/* The child sees our descriptor `source` as `target`. */
struct child_fd {
	int source;
	int target;
};

/* What to start. All borrowed for the call. */
struct child_spec {
	const char *path;	  /* with a slash: that file; else searched in our $PATH */
	int program_fd;		  /* > 0: this open file is executed, and `path` only names it */
	char *const *argv;	  /* ends in NULL */
	char *const *environment; /* ends in NULL; NULL: ours */
	const char *directory;	  /* NULL: ours */
	/* Nothing else is open in the child, except that 0, 1 and 2 are /dev/null if not given. */
	const struct child_fd *fds;
	size_t fd_count;
	bool shares_streams; /* 0, 1 and 2 are ours instead, as far as we have them */
	bool new_session;    /* setsid(): its own session and process group */
};

/* How a child ended. */
struct child_end {
	bool was_killed; /* by a signal */
	bool dumped_core;
	bool is_lost; /* somebody else has reaped it: nothing is known */
	int value;    /* exit code, or the signal's number */
};

/* Called once on the loop when the child is gone and reaped. `child` is valid until child_free().
 */
typedef void (*child_callback)(struct child *child, const struct child_end *end, void *context);

/*
 * The children of this process that are watched on `loop` (borrowed). Signals are back at their
 * defaults and unblocked in every child. SIGCHLD is caught from here on: were it ignored, as a
 * parent can leave it to us, the kernel would throw exit codes away. One set in a process.
 */
struct child_set *child_set_new(struct loop *loop, enum child_watch watch, struct err *err);
/* Frees the set with all its children, which live on and are not reaped by us any more. */
struct child_set *child_set_free(struct child_set *set);
size_t child_set_count(const struct child_set *set);

/*
 * Starts a child. NULL, and in `err` what failed: -ENOENT, -EACCES, ... of executing `path` and of
 * changing to `directory`, -EAGAIN (too many processes), -EMFILE, -EBADF, -ENOMEM, -EINVAL (a
 * target beyond CHILD_TARGET_MAX or given twice, too many descriptors).
 */
struct child *child_start(struct child_set *set, const struct child_spec *spec,
			  child_callback callback, void *context, struct err *err);
/* Starts what `spec` says in a way of its own; as child_spawn(). `how` is its own. */
typedef int (*child_spawner)(void *how, const struct child_spec *spec, pid_t *out_pid,
			     struct err *err);
/* As child_start(), with `spawn` in place of child_spawn(). What it makes has to be our child. */
struct child *child_start_by(struct child_set *set, const struct child_spec *spec,
			     child_spawner spawn, void *how, child_callback callback, void *context,
			     struct err *err);
/* Lets go of a child: no callback comes any more. If it still runs it lives on and is reaped when
 * it ends. NULL is fine; returns NULL. */
struct child *child_free(struct child *child);

/*
 * The same for whoever has no loop and waits himself: the child is his to reap, and with
 * new_session its group is his to kill. 0; errors as child_start().
 */
int child_spawn(const struct child_spec *spec, pid_t *out_pid, struct err *err);
/*
 * The same for one that nobody here reaps: it is nobody's child, in a session that it does not
 * lead, and outlives us. 0; errors as child_start().
 */
int child_spawn_orphan(const struct child_spec *spec, struct err *err);

pid_t child_pid(const struct child *child);
bool child_is_running(const struct child *child);
/* Sends a signal: to the child alone, never to another process that got its number later, or to the
 * process group that it leads (new_session). 0, -ESRCH when it has ended, -EPERM. */
int child_kill(struct child *child, int signo);
int child_kill_group(struct child *child, int signo);
/* Sends `signo`, and SIGKILL if the child still runs `grace_ns` later (loop time). With a session
 * of its own, the group gets both. As child_kill(). */
int child_stop(struct child *child, int signo, uint64_t grace_ns);

/* "exit code 3", "killed by SIGSEGV (core dumped)". Returns `out`. */
enum child_text { CHILD_END_TEXT = 64 };
const char *child_end_to_string(const struct child_end *end, char out[CHILD_END_TEXT]);

#endif
