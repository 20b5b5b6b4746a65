/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the queue share. queue.c keeps the jobs and lends its memory to the others;
 * each of those has one transition: _submit, _schedule, _start, _control (what a supervisor says),
 * _inspect (what became of an attempt), _cancel, _hold (tokens of others), _lease (who holds what),
 * _observe, _query, _keep (opening, retention).
 *
 * Two threads: functions named *_work run on the storage thread and touch nothing but their
 * operation, the store and files; all else is the loop's.
 */
#ifndef SLUICE_DOORS_QUEUE_QUEUE_INTERNAL_H
#define SLUICE_DOORS_QUEUE_QUEUE_INTERNAL_H

#include "base/account.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/loop.h"
#include "base/storage.h"
#include "job/control.h"
#include "job/jobdir.h"
#include "doors/queue/queue.h"
#include "doors/queue/schedule/schedule.h"
#include "doors/queue/schedule/schedule_order.h"
#include "doors/queue/schedule/schedule_score.h"
#include "doors/queue/store/store.h"
#include "job/token.h"
#include "job/trash.h"
#include "hardware/gpunodes.h"
#include "hardware/gpunodes_cache.h"

enum queue_internal_limits {
	QUEUE_HOLDS_MAX = 256, /* slots whose tokens somebody else has */
	QUEUE_BY_MAX = 64,     /* name of who cancelled */
	QUEUE_REASON_MAX = ERR_TEXT_MAX,
	QUEUE_ORDER_PART = 4, /* of instances of inotify: jobs the order of whose outputs is kept */
	QUEUE_SYSCTL_MAX = 64,	  /* bytes */
	QUEUE_RUN_FDS = 4,	  /* descriptors of a job that runs */
	QUEUE_OTHER_FDS = 1024,	  /* left to all else, or half of what there is */
	QUEUE_KEEP_STEP = 64,	  /* directories looked at or removed in one operation */
	QUEUE_PREPARING_MAX = 64, /* jobs without GPUs whose start is being recorded */
	QUEUE_GROUP_MAX = 64,	  /* starts and ends of jobs that are made durable together */
	QUEUE_PACKETS_MAX = 16,	  /* of a supervisor, in one pass */
	QUEUE_PENDING_USERS = 10, /* who may all have as many jobs waiting as one may */
};

#define QUEUE_PASS_CHEAP_NS  (CLOCK_NS_PER_MS / 2)
#define QUEUE_PASS_DEAR_NS   (10 * CLOCK_NS_PER_MS) /* longer only where all of it was work */
#define QUEUE_PASS_REST	     UINT64_C(4)	    /* times what the last one took */
#define QUEUE_GROUP_NS	     (5 * CLOCK_NS_PER_MS)  /* of work, before it is made durable */
#define QUEUE_RETRY_MIN_NS   (5 * CLOCK_NS_PER_MS)
#define QUEUE_RETRY_MAX_NS   CLOCK_NS_PER_S
#define QUEUE_BACKOFF_MIN_NS (100 * CLOCK_NS_PER_MS)
#define QUEUE_BACKOFF_MAX_NS (60 * CLOCK_NS_PER_S)
#define QUEUE_STORAGE_MAX_NS (30 * CLOCK_NS_PER_S)
#define QUEUE_KEEP_NS	     (3600 * CLOCK_NS_PER_S)
#define QUEUE_KEEP_SOON_NS   CLOCK_NS_PER_S

/* Something for the storage thread. */
struct queue_op {
	struct storage_job storage;
	struct queue_op *next; /* waiting for room on the storage thread */
	struct queue *queue;
	int (*work)(struct queue_op *op); /* on the storage thread; 0 or -errno with `err` */
	void (*done)(struct queue_op *op, int result);
	struct err err;
	/* It may be made durable together with those beside it: what it writes into the store it
	 * writes last, and nothing that it does before or behind that needs it to be there. */
	bool is_grouped;
	bool has_written; /* it has, in a group */
};

/* What is known to be true of a job's attempt. */
enum queue_phase {
	QUEUE_WAITING,	 /* nothing of it is started */
	QUEUE_PREPARING, /* its start is being recorded */
	QUEUE_LAUNCHED,	 /* a supervisor has it, had it, or may have it */
};

/* What the storage thread does for a job: one thing at a time. */
enum queue_task {
	QUEUE_TASK_NONE,
	QUEUE_TASK_START,
	QUEUE_TASK_INSPECT, /* what became of it */
	QUEUE_TASK_CANCEL,  /* makes a cancel of what runs durable */
	QUEUE_TASK_DROP,    /* ends what waits */
};

/* What an inspection found. */
enum queue_found {
	QUEUE_FOUND_BUSY,      /* somebody has the lock: a supervisor lives */
	QUEUE_FOUND_ENDED,     /* entered: `ended` is final */
	QUEUE_FOUND_AGAIN,     /* entered: the attempt has failed, and another one follows */
	QUEUE_FOUND_VOID,      /* never claimed: its start is void */
	QUEUE_FOUND_CONTAINER, /* the same, and it is a container that podman still lists */
	QUEUE_FOUND_LEFTOVER,  /* the supervisor is gone, and something of the job is not yet */
};

/* A caller who waits for a cancel. */
struct queue_caller {
	struct queue_caller *next;
	void (*done)(int result, enum job_state state, bool was_final, const struct err *err,
		     void *context); /* NULL: gone */
	void *context;
};

/* A job with which something is going on: it is being started, runs, or is being cancelled. */
struct queue_run {
	struct queue_job *owner; /* borrowed */
	enum queue_task task;
	struct launch_grant *grants; /* owned */
	size_t grant_count;
	char instance[LAUNCH_INSTANCE_MAX];
	uint32_t attempt;
	uint64_t since_ns; /* loop time: it has what it has, or the agent has known of it */
	struct gpunodes_plan others; /* devices that it does not get; emptied by the start */
	struct gpunodes_plan *parts; /* owned; the same of each part of its launch */
	size_t part_count;
	bool knows_others;
	bool has_own_nodes; /* GPU nodes are closed to users: rules.is_enforced at its start */
	uint32_t minimum_isolation; /* enum isolation, when it was started */
	bool keeps_order;	    /* of its outputs */
	char *adapters;		    /* owned; that the job gets: "mlx5_0,mlx5_1"; NULL: none */
	bool adapters_simulated;

	/* The supervisor. */
	struct child *child;   /* owned; NULL: adopted, or gone */
	struct child *remover; /* owned; NULL: no container is being removed */
	bool has_removed;      /* it has been, or that was tried; or it has none */
	int dir_fd;	       /* owned; -1 */
	int control_fd;	       /* owned; -1 */
	struct loop_fd *watch;
	struct loop_timer *retry;
	uint64_t retry_ns;
	bool has_claim, has_claim_now, has_cancel_now, tokens_busy;
	bool has_leases;   /* its grants are in the ledger */
	bool is_contested; /* they cannot be: somebody else's lease is there */
	bool failed;	   /* the supervisor could not be started, or did nothing */
	bool look;	   /* it may be over: to be inspected */
	pid_t pid, supervisor_pid;
	char cgroup[JOBDIR_TEXT_MAX];
	char isolation[48], isolation_reason[CONTROL_TEXT_MAX];
	char
	    trouble[CONTROL_TEXT_MAX]; /* what the supervisor said last of what stands in its way */

	/* Loop time; 0: the GPUs did something just now, or nobody knows. */
	uint64_t idle_since_ns, idle_looked_ns;
	uint32_t port;			    /* of the loopback; 0: none */
	struct queue_observation *observed; /* owned */
	size_t observed_count, observed_room;

	bool can_limit;	  /* its supervisor can move the job's limit */
	bool tells_limit; /* and is to be told of it when it listens */
	bool cancel_wanted, cancel_durable, cancel_sent;
	int cancel_signo;
	uint64_t cancel_grace_ns;
	char cancel_by[QUEUE_BY_MAX];
	struct queue_caller *callers; /* owned */

	/* The operation, and what it works on: the storage thread's while `task` is set. */
	struct queue_op op;
	char *text; /* owned: grants or observations */
	int lock_fd, launch_fd, error_fd, rules_fd;
	struct job ended;
	char ended_by[QUEUE_BY_MAX]; /* who cancelled it, as far as was known */
	enum queue_found found;
	struct jobdir_claim claim;
	struct store_array array;      /* that it is in, after its end */
	enum job_reason cancel_reason; /* NONE: JOB_REASON_USER */
	enum job_reason ended_reason;  /* as it was when the operation began */
};

struct store_share;
struct store_cut;

/* What users have of the jobs that have ended, while old ones are forgotten. */
struct queue_history {
	struct store_share *shares; /* owned; by user id */
	size_t count;
	struct store_cut *cuts; /* owned; room for `count` */
	bool is_to_cut;
	size_t forgotten; /* by the last step */
};

/* A job that is not final. */
struct queue_job {
	struct job job; /* first: what callers are shown */
	struct queue *queue;
	enum queue_phase phase;
	uint32_t failures;	/* to launch, in a row */
	uint64_t not_before_ns; /* loop time: not started again before */
	/* Loop time, before 0 where it has waited longer than the machine is up: nothing but the
	 * machine keeps it waiting; 0: it does not wait. */
	int64_t waits_since_ns;
	struct queue_run *run; /* owned; NULL */
	/* While it waits, an operation makes another job of it: nothing else is done with it. */
	bool is_changing;
	/* It is to be cancelled: for this reason (NONE: it is not), because of that job. */
	enum job_reason doom;
	uint64_t doom_by;
	uint64_t waits_for;  /* of those that it waits for, one that had not ended; 0: not known */
	uint64_t spec_bytes; /* in the database; 0: of a member of an array but the first */
	bool counts_waiting, counts_running, counts_bytes; /* on its user's account */
};

/* A slot whose token somebody else has. */
struct queue_hold {
	struct queue_hold *next;
	struct queue *queue;
	char uuid[GPU_UUID_MAX];
	uint32_t slot;
	char holder[SCHEDULE_HOLDER_MAX];
	struct note note; /* what the kernel said of it */
	int fd;		  /* owned: hangs up when the token falls; -1 */
	struct loop_fd *watch;
	struct loop_timer *timer; /* forgets it in any case */
};

struct queue_accept;
struct queue_change;
struct queue_estimates;
struct queue_fair;
struct queue_keeper;
struct queue_question;
struct queue_submission;

/* What a process on a device was found to be. */
struct queue_known {
	pid_t pid;
	uint64_t start; /* ticks: tells a reused pid */
	uint64_t job;	/* 0: none of ours */
	bool used;	/* in the snapshot that was looked at last */
};

struct queue {
	struct queue_options options;
	char *state_dir, *runtime_dir, *sim_state, *supervisor, *cgroup_root; /* owned */
	struct spawner *spawner;	     /* owned: starts supervisors */
	char *container, *rsh, *device_root; /* owned */
	int lock_fd, state_fd;		     /* owned */
	struct store *store;		     /* owned */
	struct gpunodes_cache nodes;	     /* the storage thread's */
	struct devguard_cache rules_made;    /* the same: programs for supervisors */
	struct account *account;	     /* borrowed, or */
	struct account *own_account;	     /* owned */
	struct ledger *ledger;		     /* borrowed, or */
	struct ledger *own_ledger;	     /* owned */
	struct token_place place;
	char boot_id[JOBDIR_BOOT_MAX];
	bool closing;

	struct queue_job **jobs; /* owned, ordered by id */
	size_t count, room;
	size_t state_count[JOB_CANCELLED + 1];
	size_t order_max; /* jobs the order of whose outputs is kept, as far as it was asked for */
	uint64_t ended;	  /* jobs, since it was opened */

	/* The machine. */
	const struct inventory *inventory; /* borrowed, as all of these */
	const struct snapshot *snapshot;
	const struct policy *policy;
	struct schedule_health health;
	struct schedule_pools pools; /* as told; nothing of them in use */
	char why[256];
	bool has_machine; /* queue_set_machine() was called */
	bool is_stale;	  /* `machine` could not be made of what that said */
	struct schedule_machine machine;
	struct queue_hold *holds;
	char user[64]; /* queue_user() */
	uid_t user_uid;
	struct queue_known *known; /* owned */
	size_t known_count, known_room;

	/* Submissions, and the one operation that accepts them. */
	struct queue_submission *submissions, **submissions_end;
	struct queue_accept *accept;		       /* owned */
	struct queue_submission *trials, **trials_end; /* that ask for a pass of their own */
	struct loop_timer *trial_timer;
	uint64_t trial_next_ns; /* loop time: none before */
	uid_t trial_owner;	/* whose was the last */
	uint64_t next_id;

	struct queue_change *changes, **changes_end; /* owned; the first is under way */
	uid_t change_owner;			     /* whose was the last */
	size_t doomed;				     /* jobs that are to be cancelled */
	size_t depending; /* that wait, or have waited, for others, and are not doomed */
	uint64_t *failed; /* owned: for whom nobody has looked yet that waits for their success */
	size_t failed_count, failed_room;
	struct queue_fair *fair;	   /* owned: what users have had */
	struct queue_estimates *estimates; /* owned; NULL: of no job is known how long it takes */
	struct claims claims;		   /* drained and reserved; in the store as well */
	bool is_claiming;		   /* they are being written */
	struct queue_rules rules;
	bool has_rules;		      /* they were told */
	struct queue_member *members; /* owned: what is known of users; the last to submit first */
	size_t member_count;
	bool is_drained; /* by queue_drain() */

	struct queue_question *questions; /* owned */
	struct storage_group group;	  /* of starts and ends */
	struct queue_op *waiting, **waiting_end;
	size_t ops;	  /* handed to the storage thread */
	size_t preparing; /* starts among them, and those that wait for room */
	bool has_put_off; /* some were put off until there are fewer */
	struct loop_timer *room_timer;
	struct queue_op give_back;
	bool is_giving_back;
	void (*given_back)(void *context);
	void *given_back_context;

	char storage_error[ERR_TEXT_MAX];
	bool storage_broken;	   /* a failed fsync: for good */
	bool storage_paused;	   /* nothing is started until the timer */
	uint64_t storage_retry_ns; /* the next pause */
	struct loop_timer *storage_timer;
	/* Why a reservation could not be moved off a GPU that fails, as it was logged; "". */
	char claim_error[ERR_TEXT_MAX];
	uint64_t claim_retry_ns, claim_next_ns; /* the last pause, and when it ends: loop time */
	struct loop_timer *backoff_timer;
	int begin_fd;		     /* owned; of the wall clock: the next `--begin`; -1 */
	struct loop_fd *begin_watch; /* owned; NULL */
	struct loop_timer *keep_timer;
	struct queue_keeper *keeper; /* owned */
	struct child *clearer;	     /* owned; of the trash; NULL */
	int cleared_fd;		     /* owned; what it says; -1 */
	bool clears_again;	     /* more came while it was at it */
	char clear_said[TRASH_REPORT_MAX];

	struct loop_task pass_task, changed_task;
	struct loop_timer *pass_timer;
	uint64_t pass_end_ns, pass_cost_ns; /* of the last pass; loop time */
};

/* queue.c */
struct queue_job *queue_job_new(struct queue *queue, struct err *err);
struct queue_job *queue_job_free(struct queue_job *job);
/* Room for so many more jobs: queue_job_add() cannot fail then. */
int queue_reserve(struct queue *queue, size_t more, struct err *err);
void queue_job_add(struct queue_job *job);
struct queue_job *queue_job_find(const struct queue *queue, uint64_t id);
/* Takes it out of the queue and frees it: it is final. */
void queue_job_remove(struct queue_job *job);
/* `text` may be NULL; for want of memory it is left out. */
void queue_job_set_state(struct queue_job *job, enum job_state state, enum job_reason reason,
			 const char *text);
/* The same, with what the owner and root alone see of it. */
void queue_job_set_why(struct queue_job *job, enum job_state state, enum job_reason reason,
		       const char *text, const char *detail);
struct queue_run *queue_run_new(struct queue_job *job, struct err *err);
struct queue_run *queue_run_free(struct queue_run *run);
void queue_run_retry(void *context);	 /* the run's timer */
void queue_kick(struct queue *queue);	 /* a scheduling pass soon */
void queue_changed(struct queue *queue); /* options.changed at the end of the pass */
void queue_op_init(struct queue *queue);
void queue_op_submit(struct queue *queue, struct queue_op *op);
void queue_op_room(void *context);

/* What was told of the store: keeps storage_error. */
void queue_storage_failed(struct queue *queue, int code, const char *text);
void queue_storage_worked(struct queue *queue);
void queue_storage_try(void *context);

/* queue_start.c, queue_inspect.c, queue_cancel.c: the next thing for this job, if nothing is under
 * way. May free it. */
void queue_step(struct queue_job *job);
/* Begins the operation `task` with run->op. */
void queue_run_task(struct queue_run *run, enum queue_task task, int (*work)(struct queue_op *op),
		    void (*done)(struct queue_op *op, int result));
void queue_start(struct queue_job *job);
/* It may be over: looks now. */
void queue_look(struct queue_run *run);
/* Looks again later, a little later each time. */
void queue_inspect_later(struct queue_run *run);
/* Back to Pending: nothing of it was started. `text` is for everybody, `detail` as above. */
void queue_put_back(struct queue_job *job, enum job_reason reason, const char *text,
		    const char *detail, bool is_failure);
/* The job is final: `ended` (given) is durable. */
void queue_finish(struct queue_run *run);

/* On the storage thread: what a supervisor is told, in run->launch_fd. Then: 1 when the attempt has
 * a container, whose removal queue_remove() starts; else 0. */
void queue_forget_plans(struct queue_run *run);
int queue_make_launch(struct queue_run *run, struct err *err);
int queue_remove_launch(struct queue_run *run, struct err *err);
/* On the loop. Looks again at what became of the attempt when it is done. */
void queue_remove(struct queue_run *run);

/* queue_account.c */
int queue_account_open(struct queue *queue, struct err *err);
/* The rules are others. */
void queue_account_rules(struct queue *queue);
/* A job that is in memory, or is not any more, as its state says now. */
void queue_account_job(struct queue_job *job, bool is_there);
/* Its specification has so many bytes from now on. */
void queue_account_bytes(struct queue_job *job, uint64_t bytes);
/* It is final: its bytes are history. */
void queue_account_ended(struct queue_job *job);
/* Bytes of final jobs of one user, before the oldest are forgotten. */
uint64_t queue_account_history_max(const struct queue *queue);
/* What the account said, as the queue says it: -EDQUOT or -ENOMEM. */
int queue_account_refusal(struct err *err);
/* Room for so many jobs and bytes, until queue_account_submitted(). -EDQUOT. */
int queue_account_submit(struct queue *queue, uid_t uid, uint64_t jobs, uint64_t bytes,
			 struct err *err);
void queue_account_submitted(struct queue *queue, uid_t uid, uint64_t jobs, uint64_t bytes);

/* queue_fair.c */
/* Reads what users have had; counted when the rules are known. */
int queue_fair_load(struct queue *queue, struct err *err);
void queue_fair_settle(struct queue *queue);
void queue_fair_done(struct queue *queue);
/* An attempt is over, as `ended` says: what it had is its user's. */
void queue_fair_ended(struct queue *queue, const struct queue_run *run, const struct job *ended);
/* Brings the hours of all users up to now, those of what runs included. */
void queue_fair_now(struct queue *queue);
/* As they were at the last queue_fair_now(). */
double queue_fair_hours(const struct queue *queue, uid_t uid);
/* How long nothing but the machine has kept it waiting. */
uint64_t queue_waited_ns(const struct queue_job *job, uint64_t now_ns);
/* Enters the job's scores, by its user's hours. */
void queue_fair_judge(const struct queue *queue, struct job *job, uint64_t waited_ns, double hours);

/* queue_estimate.c. A run of a job of that name is over, or has taken so long already. */
void queue_estimate_note(struct queue *queue, uid_t uid, const char *name, uint64_t ran_ns,
			 bool has_succeeded);
/* How long it will take, by what such jobs have taken; 0: not known. */
uint64_t queue_estimate_ns(const struct queue *queue, const struct job *job);
void queue_estimate_done(struct queue *queue);

/* queue_history.c. On the loop: how many of whose jobs are to go when `keep_jobs` are kept; false:
 * none. */
bool queue_history_judge(struct queue *queue, struct queue_history *history, size_t keep_jobs);
/* On the storage thread. */
int queue_history_work(struct queue *queue, struct queue_history *history, struct err *err);
void queue_history_done(struct queue_history *history);

/* queue_cancel.c */
void queue_cancel_store(struct queue_run *run);
void queue_drop(struct queue_run *run);
void queue_cancel_answer(struct queue_run *run, int result, enum job_state state, bool was_final,
			 const struct err *err);

/* queue_retry.c. On the storage thread: run->ended is how the attempt has ended. Enters it, or that
 * another one follows; run->found and run->array are set. */
int queue_end_attempt(struct queue_run *run, struct err *err);
/* On the loop: another attempt follows. */
void queue_again(struct queue_run *run);
/* When a job that was loaded may be tried again, in loop time. */
uint64_t queue_again_at(const struct queue *queue, const struct job *job);

/* queue_depend.c */
/* Whether it waits for others: their ids in `out`. */
bool queue_depends(const struct queue *queue, const struct job *job, char out[JOB_REASON_MAX]);
/* The same as far as a pass has to know it: of a long list only whether the first that was found
 * still has not ended. `out` is "" where what the job says of itself stays. */
bool queue_depends_still(struct queue_job *job, char out[JOB_REASON_MAX]);
/* A job has ended so, and its array stands so: dooms whom that concerns. */
void queue_depend_ended(struct queue *queue, const struct job *ended,
			const struct store_array *array);
/* Before a pass: dooms those whom the failures since the last one concern. */
void queue_depend_settle(struct queue *queue);
/* It is to be cancelled; done as soon as it can be. */
void queue_doom(struct queue_job *job, enum job_reason reason, uint64_t by);
/* What it is doomed by, as its user knows that. */
void queue_doom_text(const struct queue_job *job, char *out, size_t room);
/* Cancels those of the doomed that run, or are about to. */
void queue_doom_running(struct queue *queue);
/* On the storage thread, or before anything runs. Looks for the jobs that it waits for: the first
 * whose end makes its own impossible in `out_failed` (0: none). -EINVAL: there is none of that
 * number. `is_new`: it is being accepted; else one that was forgotten has ended well. */
int queue_depend_check(struct queue *queue, const struct job *job, bool is_new,
		       uint64_t *out_failed, struct err *err);
/* At the start: dooms what the last agent had no time for. */
int queue_depend_load(struct queue *queue, struct err *err);

/* queue_change.c */
void queue_change_init(struct queue *queue);
/* Cancels who is doomed. */
void queue_change_doomed(struct queue *queue);
void queue_change_clear(struct queue *queue);
/* The place of the first job whose id is not below `id`. */
size_t queue_place_of(const struct queue *queue, uint64_t id);
/* The job is final: tells those who wait for that, and forgets it. */
void queue_job_ended(struct queue_job *job, const struct job *ended,
		     const struct store_array *array, bool was_final);

/* queue_control.c */
void queue_control_connect(struct queue_run *run);
void queue_control_close(struct queue_run *run);
int queue_control_send(struct queue_run *run, uint32_t kind, int64_t value, uint64_t extra,
		       struct err *err);
void queue_control_cancel(struct queue_run *run);

/* queue_member.c */
/* Remembers which groups the user of this job is in. -ENOMEM. */
int queue_member_note(struct queue *queue, const struct spec *spec);
/* Of the users whose jobs were there when the queue was opened: those that cannot be read are left
 * out. */
void queue_member_load(struct queue *queue);
/* GPUs that his running jobs may have as the most generous of his groups says; UINT32_MAX: any
 * number; 0: none of them says anything. */
uint32_t queue_member_limit(const struct queue *queue, uid_t uid);
/* When a job of his last started for which GPUs had been reserved; 0: none has. */
uint64_t queue_member_served_ns(const struct queue *queue, uid_t uid);
void queue_member_serve(struct queue *queue, uid_t uid, uint64_t now_ns);
void queue_member_clear(struct queue *queue);

/* queue_schedule.c */
void queue_pass(void *context);
/* The machine with who has what; true when something that matters for starting has changed. */
bool queue_machine_make(struct queue *queue);
void queue_pass_again(void *context);
/* What a pass would say of one more job; "" when it would start. */
int queue_try(struct queue *queue, const struct job *job, bool *out_starts,
	      char out_text[QUEUE_REASON_MAX], struct err *err);

/* queue_trial.c */
void queue_trial_next(void *context); /* the timer's */
void queue_trial_add(struct queue *queue, struct queue_submission *submission);

/* queue_hold.c */
/* Looks for who has the tokens that the run wanted. Returns how many devices were marked. */
size_t queue_hold_look(struct queue *queue, const struct queue_run *run);
void queue_hold_clear(struct queue *queue);

/* queue_lease.c */
/* Enters the run's grants into the ledger, all or none. -EBUSY: somebody else has one of them. */
int queue_lease_take(struct queue_run *run, struct err *err);
/* The same of what is so already: tried again with each pass, and said once. */
void queue_lease_enter(struct queue_run *run);
void queue_lease_end(struct queue_run *run);
/* Marks the devices that others hold. */
void queue_lease_mark(const struct queue *queue, struct schedule_machine *machine);

/* queue_observe.c */
void queue_observe(struct queue *queue);
/* Whose process that is: NULL for one of our jobs' or one that is gone, else its user's name. */
const char *queue_whose(struct queue *queue, pid_t pid);
/* The name of a user, or its number. Borrowed until the next call. */
const char *queue_user(struct queue *queue, uid_t uid);
/* queue_limit.c. Tells a supervisor that was not told yet, or by the last agent, how long the job
 * may run. */
void queue_limit_tell(struct queue_run *run);
/* queue_schedule.c. How long a job may still run; SCHEDULE_NEVER: as long as it likes. */
uint64_t queue_left_ns(const struct job *job, int64_t now_unix_ns);
/* What has devices, or a part of the amounts. `out` has room for all jobs. */
size_t queue_pass_running(struct queue *queue, struct schedule_running *out);
/* queue_member.c. The groups of a user, as their last submission said; borrowed. */
size_t queue_member_groups(const struct queue *queue, uid_t uid, const gid_t **out);
/* queue_begin.c. Whether the job is not to start yet. `*next_unix_ns` becomes that moment if it is
 * earlier. */
bool queue_begin_waits(const struct job *job, int64_t now_unix_ns, int64_t *next_unix_ns);
/* When it is, for its reason. */
void queue_begin_text(const struct job *job, char out[JOB_REASON_MAX]);
/* Has a pass made at that moment, or when somebody sets the clock; INT64_MAX: never. */
void queue_begin_arm(struct queue *queue, int64_t next_unix_ns);
void queue_begin_done(struct queue *queue);
/* queue_idle.c: ends jobs whose GPUs have done nothing for as long as they may. */
void queue_idle(struct queue *queue);
/* queue_left.c, on the storage thread. Where an attempt's cgroup is, or would be. */
bool queue_cgroup_path(const struct queue *queue, const struct queue_run *run,
		       char out[JOBDIR_TEXT_MAX]);
/* Of an attempt that never was: its cgroup may be. */
void queue_remove_cgroup(const struct queue *queue, const struct queue_run *run);
/* Of a lost attempt: kills what is left of it. 1: something was found, to be called again; 0:
 * nothing. -errno. `is_patient`: a process of which it cannot be told yet whose it is counts as
 * found; not for ever, for it may be a stranger's. */
int queue_kill_left(const char *instance, const char *cgroup, bool is_patient, struct err *err);

/* queue_rules.c: how many jobs this user may have waiting. */
uint32_t queue_rules_pending(const struct queue_rules *rules, const struct spec *spec);

/* queue_submit.c, queue_query.c, queue_keep.c */
int queue_submit_init(struct queue *queue, struct err *err);
void queue_submit_next(struct queue *queue);
void queue_submit_clear(struct queue *queue);
void queue_query_each(struct queue *queue, void (*each)(struct queue_query *query, void *context),
		      void *context);
void queue_keep_soon(struct queue *queue); /* something may have to be forgotten earlier */

/* queue_trash.c. On the loop: what is in there is removed, by and by. `trash_fd`: given. */
void queue_trash_clear(struct queue *queue, int trash_fd);
void queue_trash_done(struct queue *queue);
/* Whether a directory of a job that the store does not know may be removed: nobody has its lock,
 * and nothing was ever started in it (`was_given`: or it was, and the job is forgotten). */
bool queue_directory_is_void(int state_fd, uint64_t id, bool was_given);

#endif
