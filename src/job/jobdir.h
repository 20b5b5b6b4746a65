/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a job, which say what is true of it whoever has died:
 *
 *   STATE/j/<id>/lock      flock, held by the supervisor from before its birth to after its result
 *   STATE/j/<id>/claim.N   made O_EXCL by the supervisor of attempt N: it may start the command
 *   STATE/j/<id>/result.N  how attempt N ended
 *   STATE/j/<id>/room      what becomes result.N: its room is taken when the job is accepted
 *   STATE/j/<id>/cancel    there before a cancel is acknowledged
 *   STATE/j/<id>/out.N     the command's output, opened O_APPEND by the supervisor
 *   STATE/j/<id>/err.N
 *   STATE/j/<id>/order.N   how both were written by turns (interleave.h); once there is some of
 * both STATE/j/<id>/control   the supervisor's socket (control.h)
 *
 * Blocking: the agent calls these on its storage thread. Knows nothing of GPUs or processes.
 */
#ifndef SLUICE_JOB_JOBDIR_H
#define SLUICE_JOB_JOBDIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

enum jobdir_limits {
	JOBDIR_FILE_MAX = 4096, /* bytes of claim and result: preallocated */
	JOBDIR_TEXT_MAX = 256,
	JOBDIR_ISOLATION_MAX = 48,
	JOBDIR_BOOT_MAX = 37, /* a boot id with its NUL */
	JOBDIR_INSTANCE_MAX = 37,
	JOBDIR_LIST_MAX = 1 << 20,
};

/* The supervisor's claim. */
struct jobdir_claim {
	pid_t pid;	      /* of the supervisor */
	uint64_t start_ticks; /* its start, as /proc/PID/stat has it */
	char boot_id[JOBDIR_BOOT_MAX];
	/* Random, of this attempt alone: the command and all that it starts have it in their
	 * environment as SLUICE_JOB_INSTANCE, unless they take it out. */
	char instance[JOBDIR_INSTANCE_MAX];
	char cgroup[JOBDIR_TEXT_MAX]; /* "" when it has none */
	int64_t unix_ns;
};

enum jobdir_end {
	JOBDIR_EXITED,	     /* value: exit code */
	JOBDIR_SIGNALLED,    /* value: signal */
	JOBDIR_LAUNCH_ERROR, /* never ran; value: -errno, text says what */
	JOBDIR_CANCELLED,    /* never ran: `cancel` was there */
	JOBDIR_DEADLINE,     /* killed at its deadline; value: signal */
	JOBDIR_WORKER,	     /* a worker failed, and all was ended; value: as `exit_code`; text:
				"NAME, REASON" */
	JOBDIR_IDLE,	     /* killed because its GPUs did nothing; value: signal */
};

/* What of the job's output was not kept; bits. */
enum jobdir_lost {
	JOBDIR_LOST_CUT = 1,  /* what was beyond sluice.jobs.logLimit */
	JOBDIR_LOST_FULL = 2, /* what the disk had no room for */
	JOBDIR_LOST_COPY = 4, /* of the copy that was asked for */
	JOBDIR_LOST_ALL = 7,
};

struct jobdir_result {
	enum jobdir_end end;
	int value;
	/* What `sluice run` exits with for it: the command's; 128 + signal; 124; after a launch
	 * error 125, 126 (cannot be executed) or 127 (is not there), which are ours. */
	int exit_code;
	bool was_cancelled;  /* `cancel` was there when it ended */
	bool was_oom_killed; /* the kernel killed something of it for want of memory */
	/* SIGTERM came from outside while it ran, by no agent's order: systemd does so when the
	 * machine goes down. */
	bool was_terminated;
	uint32_t killed_leftovers;
	uint32_t lost;				/* enum jobdir_lost */
	int64_t started_unix_ns, ended_unix_ns; /* 0: never */
	char text[JOBDIR_TEXT_MAX];
	char isolation[JOBDIR_ISOLATION_MAX]; /* the level reached; "": "env" */
};

/*
 * Makes j/<id> (and j), so that a killed process leaves either nothing or all of it: in
 * j/tmp.<id>.<random>, renamed. Its files are not synced one by one, for a power loss takes nothing
 * that matters: the job is in the store, the lock is made again by jobdir_lock(), and without its
 * room the result needs a disk that is not full. It is ours, and `uid`, the job's user, may pass
 * (jobdir_give()); `out`, `err` are made by the supervisor. `state_fd`: the state directory.
 * -EEXIST, -ENOSPC, ...
 */
int jobdir_create(int state_fd, uint64_t id, uid_t uid, struct err *err);
/* Of a job's directory: its user reaches what he knows the name of, and nobody but him and us can
 * even look. Where the file system has no access control lists the mode says it of `gid`, of whose
 * members each can look; with -1 it stays as it is. */
int jobdir_give(int job_fd, uid_t uid, gid_t gid, struct err *err);
/* Makes all created ones durable: one fsync of STATE/j for any number of jobdir_create(). */
int jobdir_sync(int state_fd, struct err *err);
/* Descriptor of the directory (O_CLOEXEC). -ENOENT. */
int jobdir_open(int state_fd, uint64_t id, struct err *err);
/* Moves it to the trash (trash.h) with what is in it, in one step. Not there is fine. */
int jobdir_remove(int state_fd, uint64_t id, struct err *err);
/* Every id that has a directory, ascending (owned), and moves j/tmp.* to the trash; `out_stays`
 * (NULL: nobody asks): how many of those cannot be. */
int jobdir_list(int state_fd, uint64_t **out_ids, size_t *out_count, size_t *out_stays,
		struct err *err);

/* Takes the lock without waiting: the descriptor, O_CLOEXEC. -EBUSY: a supervisor (or somebody
 * between fork and exec) has it. */
int jobdir_lock(int job_fd, struct err *err);

/* The supervisor's: writes, syncs, and the directory. -EEXIST: claimed already. After any other
 * error it is not claimed, or the text says that it could not be taken back. */
int jobdir_claim(int job_fd, uint32_t attempt, const struct jobdir_claim *claim, struct err *err);
/* -ENOENT; -EBADMSG: it is there and cannot be read, which is a claim all the same. */
int jobdir_read_claim(int job_fd, uint32_t attempt, struct jobdir_claim *out, struct err *err);
/* Writes into the room that jobdir_create() took, so that it works on a full disk; fsync, rename,
 * fsync of the directory. May be tried again. */
int jobdir_write_result(int job_fd, uint32_t attempt, const struct jobdir_result *result,
			struct err *err);
int jobdir_read_result(int job_fd, uint32_t attempt, struct jobdir_result *out, struct err *err);
int jobdir_request_cancel(int job_fd, struct err *err);
bool jobdir_is_cancelled(int job_fd);
/* It is to be started again: takes the request back, for good. One that is not there is fine. */
int jobdir_withdraw_cancel(int job_fd, struct err *err);
/* Takes room for the result of another attempt, as jobdir_create() does for the first. -ENOSPC. */
int jobdir_reserve(int job_fd, struct err *err);

/* The texts in the files: pure, take anything. -EBADMSG. */
int jobdir_parse_claim(const char *text, size_t length, struct jobdir_claim *out, struct err *err);
int jobdir_parse_result(const char *text, size_t length, struct jobdir_result *out,
			struct err *err);

/* JOBDIR_EXITED, and its container did not start: `text` is why, as the runtime printed it. Who
 * does not know that takes the exit code for the command's. */
bool jobdir_is_container_error(const struct jobdir_result *result);

const char *jobdir_end_to_string(enum jobdir_end end);

#endif
