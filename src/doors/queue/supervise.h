/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process between whoever starts a job and the job: holds the tokens, starts the command,
 * passes signals on, and ends only when nothing of the job lives any more. It is what makes "a GPU
 * is never given to the next job while a process of the last one lives" true.
 *
 *   starter --control socket--> supervisor --parent, subreaper--> command --> its children
 *
 * Who dies, and what then holds:
 *   - the command: what it left gets the grace time to end, then it is killed;
 *   - the starter: the supervisor sees its socket close, sends SIGTERM to all of the job, kills
 *     the rest after the grace time, and then lets go of the tokens;
 *   - the supervisor: the kernel kills the command (PR_SET_PDEATHSIG); what the command started
 *     falls to the starter, which is a subreaper too and kills it (supervise_take_over());
 *   - both at once: the command is killed by the kernel; its children live on, and with them the
 *     tokens, whose descriptors they inherited, for as long as they keep those open.
 *
 * Knows nothing of GPUs, terminals or commands' options.
 */
#ifndef SLUICE_DOORS_QUEUE_SUPERVISE_H
#define SLUICE_DOORS_QUEUE_SUPERVISE_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "doors/queue/note.h"
#include "doors/queue/token.h"

struct err;

enum supervise_limits {
	SUPERVISE_FD_MIN = 600,	       /* inherited tokens lie above what programs use themselves */
	SUPERVISE_KILL_EACH_MS = 50,   /* between two rounds of killing what is left */
	SUPERVISE_KILL_SLOW_MS = 1000, /* the same, when that does not help */
	SUPERVISE_WAKE_EACH_MS = 200,
};

struct supervise_job {
	char *const *argv; /* NULL-terminated; argv[0] is looked up in PATH */
	char *const *envp;
	const struct token *tokens; /* borrowed: the caller keeps its own copies open */
	size_t token_count;
	struct note note;     /* what those who wait for the tokens are told */
	uint64_t grace_ns;    /* how long what is left of the job may take to end by itself */
	sigset_t signal_mask; /* of the command */
	pid_t process_group;  /* of the command; 0: one of its own */
};

enum supervise_kind {
	/* from the supervisor */
	SUPERVISE_STARTED,   /* value: pid of the command */
	SUPERVISE_FAILED,    /* the command could not be executed; value: -errno */
	SUPERVISE_STOPPED,   /* by a signal; value: which */
	SUPERVISE_CONTINUED, /* asks for SUPERVISE_AWAKE */
	SUPERVISE_ENDED,     /* the command; value: its status as of waitpid(2) */
	SUPERVISE_LEFTOVERS, /* it left that many processes */
	SUPERVISE_STUCK,     /* that many processes do not die */
	SUPERVISE_GONE,	     /* nothing of the job is left; value: leftovers that were killed */
	/* to the supervisor */
	SUPERVISE_SIGNAL, /* value: pass this to the command */
	SUPERVISE_KILL,	  /* kill all of the job now */
	SUPERVISE_AWAKE,  /* the starter runs */
	SUPERVISE_LOST,	  /* never sent: supervise_receive() found the supervisor dead */
};

struct supervise_message {
	uint32_t kind; /* enum supervise_kind */
	int32_t value;
};

struct supervise {
	pid_t pid;
	int control_fd; /* owned; readable when supervise_receive() has something */
};

/* Forks the supervisor and makes this process a subreaper, as the second line behind it. */
int supervise_start(const struct supervise_job *job, struct supervise *out, struct err *err);
void supervise_done(struct supervise *supervise);

/* The next message: 1, or 0 when there is none now. After SUPERVISE_LOST there are no more. */
int supervise_receive(struct supervise *supervise, struct supervise_message *out);
/* Sends; a supervisor that is dead already is no error here. */
void supervise_send(const struct supervise *supervise, enum supervise_kind kind, int32_t value);

/* After SUPERVISE_LOST: kills all descendants of this process and waits until they are gone. */
void supervise_take_over(struct supervise *supervise);

const char *supervise_kind_to_string(uint32_t kind);

#endif
