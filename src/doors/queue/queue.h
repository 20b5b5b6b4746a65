/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The local queue: accepts jobs, decides when each starts, has a supervisor run it, and enters how
 * it ended. All its state machines meet here. What must be true after a crash lies in the store and
 * in the jobs' files; this is the memory of it.
 *
 * Runs on the agent's loop and never blocks: what waits for a disk goes to the storage thread.
 * Knows nothing of sockets to clients, nor of how the inventory is read.
 */
#ifndef SLUICE_DOORS_QUEUE_QUEUE_H
#define SLUICE_DOORS_QUEUE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "job/job.h"
#include "job/launch.h"
#include "job/record.h"
#include "doors/queue/claim/claims.h"
#include "doors/queue/rules.h"
#include "doors/queue/schedule/schedule_score.h"

struct account;
struct child_set;
struct err;
struct inventory;
struct ledger;
struct log;
struct loop;
struct policy;
struct queue;
struct rights;
struct snapshot;
struct schedule_health;
struct schedule_pools;
struct storage;
struct store_usage;
struct store_usage_window;

enum queue_limits {
	QUEUE_PENDING_MAX = 10000, /* of one user */
	QUEUE_RETENTION_JOBS = 10000,
	QUEUE_PAST_TEXT_MAX = 160, /* bytes of why an attempt failed; cut */
	QUEUE_RUNS_MAX = 2000,	   /* jobs that run, before one without a GPU has to wait */
};
#define QUEUE_RETENTION_NS INT64_C(2592000000000000) /* 30 days */

struct queue_options {
	struct loop *loop; /* borrowed, all of these */
	struct storage *storage;
	struct child_set *children;
	struct log *log;
	const char *state_dir;	 /* holds queue.lock, queue.db and j/ */
	const char *runtime_dir; /* for tokens; NULL: sockets alone */
	const char *sim_state;	 /* of a simulated machine; NULL */
	const char *supervisor;	 /* path of sluice-supervise */
	const char *cgroup_root; /* where a job's cgroup is made; NULL: none */
	const char *rsh;	 /* path of sluice-rsh; NULL: no job with workers starts */
	const char *container;	 /* path of sluice-container; NULL: no job with an image starts */
	const char *device_root; /* before /dev and /sys; NULL: "" */
	struct account *account; /* of users; NULL: one of its own */
	struct ledger *ledger;	 /* of all doors; NULL: one of its own */
	bool awaits_rules;	 /* nothing is forgotten before queue_set_rules() says how long */
	size_t retention_jobs;	 /* final ones that are kept; 0: QUEUE_RETENTION_JOBS */
	/* Called on the storage thread when cgroup_root is gone and a job starts. May be NULL. */
	void (*renew_cgroups)(const char *supervisor, const void *renew_context);
	const void *renew_context;
	/* Called once at the end of a loop pass in which something changed. May be NULL. */
	void (*changed)(void *context);
	void *context;
};

/*
 * Takes queue.lock (waits up to 5 s for a process between fork and exec to let go of it; then
 * -EBUSY and who holds it), opens the store and reads the jobs that are not final. Blocks: for the
 * start of the agent. What became of attempts that were started is found out from there on, on the
 * storage thread: what still runs is adopted (Starting until then), what ended meanwhile is
 * entered, what never started is put back. Until then each keeps its devices. Nothing starts before
 * the first queue_set_machine(), and submissions wait for it.
 */
int queue_open(const struct queue_options *options, struct queue **out, struct err *err);
/* Lets go of everything; running jobs go on under their supervisors. Blocks until what was handed
 * to the storage thread is done. */
struct queue *queue_close(struct queue *queue);
/*
 * To be called every few seconds: gives back memory that the store does not need while nobody uses
 * it. done() follows on the loop, or comes at once when there is nothing to wait for: what this has
 * needed itself may be given back then. NULL: there is no queue yet.
 */
void queue_give_back(struct queue *queue, void (*done)(void *context), void *context);

/* Why some devices of the machine that is told next get no new job; borrowed as that machine is. To
 * be called before each queue_set_machine(), where anybody knows. */
void queue_set_health(struct queue *queue, const struct schedule_health *health);
/* The resources beside GPUs that jobs may have; copied. May be told at any time. -ENOMEM: it stays
 * as it was. */
int queue_set_pools(struct queue *queue, const struct schedule_pools *pools);
/* What the machine is now; all borrowed until the next call. NULL inventory: no driver, and `why`.
 * Also where the observations of who is on which device come from: to be called with each snapshot.
 */
void queue_set_machine(struct queue *queue, const struct inventory *inventory,
		       const struct snapshot *snapshot, const struct policy *policy,
		       const char *why);

/* How the owner of the machine wants it, from now on; copied. What runs goes on. Before the first
 * call: no limits but QUEUE_PENDING_MAX, and nothing else that rules.h has. */
void queue_set_rules(struct queue *queue, const struct queue_rules *rules);
const struct queue_rules *queue_rules(const struct queue *queue); /* borrowed: as it is now */
/* From now on nothing is started, or jobs are started again: durable when `done` is called, which
 * it is once, perhaps before this returns. What runs is not touched. -ENOSPC, -EIO, ... : it stays
 * as it was. */
void queue_drain(struct queue *queue, bool is_draining,
		 void (*done)(int result, const struct err *err, void *context), void *context);
/* Either by queue_drain() or by the rules. */
bool queue_is_draining(const struct queue *queue);

/* What is drained and reserved; borrowed until control returns to the loop. */
const struct claims *queue_claims(const struct queue *queue);

/* Something to be drained, reserved, or the opposite of it. */
struct queue_claim {
	enum { QUEUE_CLAIM_ADD, QUEUE_CLAIM_REMOVE } what;
	struct claim claim; /* without GPUs; of a reservation to be removed the name alone */
	const char *ids;    /* GPUs, as --gpu-ids has them; NULL; borrowed during the call */
	uint32_t gpus;	    /* any so many instead, of a reservation */
};
/* As queue_drain(); `claim`: as it is now, or was. -EINVAL, -ENOENT: what is named is not there;
 * -EEXIST: the name is taken, or GPUs are reserved for others already; -ERANGE: too few GPUs;
 * -EBUSY: another one is being written. */
typedef void queue_claimed_fn(int result, const struct claim *claim, const struct err *err,
			      void *context);
void queue_claim(struct queue *queue, const struct queue_claim *claim, queue_claimed_fn *done,
		 void *context);

struct queue_submit {
	const char *key;	 /* of this uid */
	const struct spec *spec; /* uid, gid and groups are the caller's already; borrowed during
				    the call */
	bool no_wait, dry_run;
	/* Called once, now (before queue_submit() returns) or later, when the job is durable or
	 * refused; `reason`: why it would wait, "" when it can start. -EINVAL and -ENOENT (as
	 * spec_check(), schedule_check()), -ERANGE never possible here, -EAGAIN would have to wait
	 * (no_wait), -EEXIST same key with other content, -EDQUOT too many pending jobs, -ENOSPC,
	 * -EROFS, -EIO the state cannot be written. */
	void (*done)(int result, uint64_t id, bool known, const char *reason, const struct err *err,
		     void *context);
	void *context; /* queue_submit_forget() takes it back */
};
void queue_submit(struct queue *queue, const struct queue_submit *submit);
/* The caller is gone: done() is not called. What was accepted stays accepted. */
void queue_submit_forget(struct queue *queue, void *context);

/* What is known of the running attempt of a non-final job. */
struct queue_attempt {
	const struct launch_grant *grants; /* borrowed */
	size_t grant_count;
	pid_t pid, supervisor_pid; /* 0: not known (yet) */
	const char *isolation, *isolation_reason, *cgroup;
	uint32_t port;				  /* of the loopback; 0: none */
	const struct queue_observation *observed; /* borrowed */
	size_t observed_count;
};
/* Jobs that have ended since it was opened. */
uint64_t queue_ended(const struct queue *queue);
size_t queue_count(const struct queue *queue, enum job_state state);
/* Jobs that are not final, in the order of submission. Borrowed: valid until control returns to the
 * loop. */
const struct job *queue_first(const struct queue *queue);
const struct job *queue_next(const struct queue *queue, const struct job *job);
const struct job *queue_find(const struct queue *queue, uint64_t id); /* NULL: final or unknown */
/* Of the array that begins with `id`: the first member that is not final; NULL: there is none. */
const struct job *queue_find_array(const struct queue *queue, uint64_t id);
void queue_attempt_of(const struct queue *queue, const struct job *job, struct queue_attempt *out);
/* The job of which `pid` is a process, or NULL. Reads /proc. */
const struct job *queue_job_of_process(const struct queue *queue, pid_t pid);
/* Devices as the scheduler sees them; borrowed as above. */
const struct schedule_machine *queue_machine(const struct queue *queue);

/* Final jobs come from the store. Each is called on the loop, `each` any number of times and then
 * `done` once, perhaps before queue_query() returns (a job that is not final). A query for one job
 * finds it in whatever state it is; -ENOENT. `context` is forgotten by queue_query_forget(). */
struct queue_query {
	uint64_t id;	       /* 0: list */
	uid_t uid;	       /* who asks: whose share of the questions it takes */
	int64_t since_unix_ns; /* list: those that ended since */
	size_t max;
	void (*each)(const struct job *job, const struct queue_attempt *attempt, void *context);
	void (*done)(int result, const struct err *err, void *context);
	void *context;
};
void queue_query(struct queue *queue, const struct queue_query *query);
void queue_query_forget(struct queue *queue, void *context);

/* An attempt of a job that is over. */
struct queue_past {
	uint32_t number;
	int64_t started_unix_ns, ended_unix_ns;
	enum job_reason reason; /* NONE: it has succeeded, or that is not known of it */
	char reason_text[QUEUE_PAST_TEXT_MAX];
	bool has_exit;
	int exit_code;
	struct record_attempt record; /* owned: what it had */
};

/* The spec of any job, for those who may see it; borrowed during done(). -ENOENT. `context` is
 * forgotten as above. */
void queue_query_spec(struct queue *queue, uint64_t id, uid_t uid,
		      void (*done)(int result, const struct spec *spec, const struct err *err,
				   void *context),
		      void *context);
/* The same, with the attempts that are over, from the first; borrowed as well. */
void queue_query_whole(struct queue *queue, uint64_t id, uid_t uid,
		       void (*done)(int result, const struct spec *spec,
				    const struct queue_past *past, size_t past_count,
				    const struct err *err, void *context),
		       void *context);

/* Called once, perhaps before the function returns; `changed`: how many jobs it has changed. */
typedef void queue_changed_fn(int result, size_t changed, const struct err *err, void *context);

/*
 * Cancels: `done` when that is durable (the job may still be ending), perhaps before this returns.
 * -ENOENT. A final job: 0 with was_final. `by` names who, for the reason. signo 0: SIGTERM.
 */
void queue_cancel(struct queue *queue, uint64_t id, int signo, bool has_grace, uint64_t grace_ns,
		  const char *by,
		  void (*done)(int result, enum job_state state, bool was_final,
			       const struct err *err, void *context),
		  void *context);
/* All members of an array that are not final, as above; `changed`: so many. */
void queue_cancel_array(struct queue *queue, uid_t uid, uint64_t array_id, int signo,
			bool has_grace, uint64_t grace_ns, const char *by, queue_changed_fn *done,
			void *context);
/* The caller is gone: done() is not called. What was asked happens all the same. */
void queue_cancel_forget(struct queue *queue, void *context);
/* Something of jobs that wait: what is not said stays. */
struct queue_edit {
	enum { QUEUE_EDIT_NONE, QUEUE_EDIT_HOLD, QUEUE_EDIT_RELEASE } hold;
	bool has_priority;
	int32_t priority;
	bool has_begin;
	uint64_t begin_unix_ns;		/* 0: at once */
	const char *const *environment; /* "NAME=VALUE"; borrowed during the call */
	size_t environment_count;
	/* With variables: of who changes them, who decides by them what the job executes; borrowed
	 * during the call. It keeps no rights beyond these. NULL: root. */
	const struct rights *rights;
};
/* Durable when `done` is called. The first of an array means all members that wait, unless
 * `member_alone`. -ESRCH: not there, or it has ended; -EBUSY: it does not wait (any more), -EINVAL:
 * a variable; -EPERM: it runs as a group that `rights` have not. `by`: who, for the reason of what
 * is held. */
void queue_edit(struct queue *queue, uid_t uid, uint64_t id, bool member_alone,
		const struct queue_edit *edit, const char *by, queue_changed_fn *done,
		void *context);
/* Another limit of the time that jobs may run. */
struct queue_limit {
	enum { QUEUE_LIMIT_SET, QUEUE_LIMIT_MORE, QUEUE_LIMIT_LESS } how;
	uint64_t ns;
	bool is_manager; /* beyond what the rules allow, and what others were promised */
};
/*
 * Of a job that waits or runs, or of all members of an array that have not ended, all or none;
 * durable when `done` is called, and the supervisors of those that run have been told, or are as
 * soon as they listen. -ESRCH: it is not there, or has ended; -EINVAL: less than it has run
 * already, nothing to add to, a supervisor of an earlier release; -EPERM: more than the rules
 * allow, or another job was promised to start by then; -EBUSY: it is just being started or ended.
 */
void queue_limit_change(struct queue *queue, uid_t uid, uint64_t id, bool member_alone,
			const struct queue_limit *limit, queue_changed_fn *done, void *context);
/* A final job that has not succeeded is pending again, with its next attempt; of an array all such
 * members. -ENOENT, -EINVAL: it has not failed. */
void queue_retry(struct queue *queue, uid_t uid, uint64_t id, bool member_alone,
		 queue_changed_fn *done, void *context);
/* Many jobs, each judged by itself. */
struct queue_set {
	const uint64_t *ids; /* ascending, none of them twice; borrowed during the call */
	size_t count;
	uint32_t states; /* bit N: only jobs in state N; 0: any */
	uid_t owner;	 /* only jobs of this user */
	bool is_any;	 /* or of any user */
	/* Told of each that stays as it is, on the loop and before done(). */
	void (*refused)(uint64_t id, const struct err *err, void *context);
};
/* As above for a set, in one transaction; a job that refuses it does not keep the others from it.
 * The edit sets no variables. Retried are jobs of one user: those of others refuse it. */
void queue_set_edit(struct queue *queue, uid_t uid, const struct queue_set *set,
		    const struct queue_edit *edit, const char *by, queue_changed_fn *done,
		    void *context);
void queue_set_cancel(struct queue *queue, uid_t uid, const struct queue_set *set, int signo,
		      bool has_grace, uint64_t grace_ns, const char *by, queue_changed_fn *done,
		      void *context);
void queue_set_limit(struct queue *queue, uid_t uid, const struct queue_set *set,
		     const struct queue_limit *limit, queue_changed_fn *done, void *context);
void queue_set_retry(struct queue *queue, uid_t uid, const struct queue_set *set,
		     queue_changed_fn *done, void *context);
/* Forgets final jobs whose time is over, now; `changed`: so many. -EBUSY: that is being done. */
void queue_collect(struct queue *queue, queue_changed_fn *done, void *context);
/* The caller is gone: done() is not called. */
void queue_change_forget(struct queue *queue, void *context);
/* Sends a signal to the command. -ENOENT, -ESRCH: it does not run. */
int queue_signal(struct queue *queue, uint64_t id, int signo, struct err *err);

/* What a waiting job has for itself and against it. */
struct queue_standing {
	struct schedule_score score; /* its usage with the GPUs that its user has now */
	double usage_hours;	     /* GPU-hours that its user has had, faded */
	uint64_t half_life_ns;
	uint32_t gpus_now;	/* that jobs of its user have */
	bool pledged;		/* what becomes free is reserved for it */
	int64_t starts_unix_ns; /* 0: not known */
	bool start_is_estimate;
	uint64_t estimate_ns; /* how long it takes; 0: not known */
};
/* False: it waits for something else than the machine, or does not wait at all. */
bool queue_standing(struct queue *queue, uint64_t id, struct queue_standing *out);
/* GPU-hours of a user, faded. */
double queue_recent_hours(struct queue *queue, uid_t uid);

/* What users and projects have had in a window of time: `done` is called once, on the loop and not
 * before this returns; what it is told of is borrowed. `uid` asks. -ENOMEM, -EAGAIN (they ask too
 * much already): it is not called. */
int queue_usage(struct queue *queue, uid_t uid, const struct store_usage_window *window,
		void (*done)(int result, const struct store_usage *usage, const struct err *err,
			     void *context),
		void *context, struct err *err);

/* Why nothing new is accepted or started; "" when all is well. Borrowed. */
const char *queue_storage_error(const struct queue *queue);

#endif
