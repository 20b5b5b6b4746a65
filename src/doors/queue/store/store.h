/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue's memory: an SQLite database (WAL, synchronous=FULL) with one row per job and one per
 * attempt. When a function here returns 0, what it was told is on the disk. Blocking: the agent
 * calls it on its storage thread and nowhere else. It decides nothing.
 *
 * A database that is damaged, of a later version or not ours is an error that names it; it stays
 * where it is, and nothing is ever started from zero behind its owner's back.
 */
#ifndef SLUICE_DOORS_QUEUE_STORE_STORE_H
#define SLUICE_DOORS_QUEUE_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "job/job.h"

struct err;
struct store;

enum store_limits {
	/* 2: what jobs want beside GPUs; 3: what they want of the queue; 4: what of a reason the
	 * owner alone sees; 5: both as messages of proto/job.proto */
	STORE_VERSION = 5,
	STORE_GRANTS_TEXT_MAX = 256 << 10, /* bytes of an attempt's grants as text */
	STORE_BATCH_MAX = 256,		   /* submissions in one transaction, */
	STORE_ROWS_MAX = STORE_BATCH_MAX + WANTS_ARRAY_MAX, /* and jobs */
	STORE_FORGET_MAX = 256, /* jobs that one call of store_forget() removes */
};

/*
 * Whether the state of the queue may lie in `directory`: locks and fsync of a network file system
 * cannot be trusted. -EMEDIUMTYPE for NFS, SMB, FUSE and the like, with its name and what to do.
 * `fs_type`: f_type of statfs(2), for tests; 0: ask the kernel.
 */
int store_check_place(const char *directory, uint32_t fs_type, struct err *err);

/*
 * Opens or makes `path` (0600). Refuses network file systems (-EMEDIUMTYPE), a database of a later
 * version (-EPROTONOSUPPORT), a damaged or foreign file (-EUCLEAN; the text says what to do), one
 * that another process has open (-EBUSY: it stays locked until store_close()). -EISDIR, -ELOOP (a
 * symbolic link), -ENOSPC, -EACCES, -EROFS, ... Nothing that is refused is changed.
 */
int store_open(const char *path, struct store **out, struct err *err);
struct store *store_close(struct store *store);
/*
 * To be called now and then, between two calls. The second time that nobody has used the store
 * meanwhile its statements and the pages in its memory are given back, a quarter to half a
 * megabyte; they come back with the next use. True: given back just now.
 */
bool store_give_back(struct store *store);

/*
 * Operations that share a transaction, and so one fsync. Between these two what the functions below
 * return 0 for is not on the disk yet: store_group_end() says whether it is, for all of them. One
 * that fails leaves the others as they are, unless SQLite had to undo everything, as on a full
 * disk; then each that follows and store_group_end() say so. Nothing is written where none of them
 * wrote. Begun again within a group: the same group.
 */
void store_group_begin(struct store *store);
int store_group_end(struct store *store, struct err *err);
/* Operations that went well within groups, ever. */
uint64_t store_grouped(const struct store *store);

/* One accepted job. */
struct store_accept {
	const struct job *job; /* its id, key, uid, name, ... ; state PENDING or HELD */
	const char *spec;      /* the bytes of spec.h; NULL: those of the array that it is in */
	size_t spec_length;
};
/* Enters all of them in one transaction, or none. -EEXIST: an id that was given before, or a (uid,
 * key) that is there; -ENOSPC: nothing is lost, and it works again when there is room; -EIO. After
 * a failed fsync (-EIO) nothing more is written by this store; it can still be read. That holds for
 * everything below that writes. */
int store_accept(struct store *store, const struct store_accept *jobs, size_t count,
		 struct err *err);
/* Attempt `attempt` of the job is about to start with these grants (text of the caller's). -ENOENT,
 * -EALREADY: it is final. */
int store_start(struct store *store, uint64_t id, uint32_t attempt, const char *grants,
		int64_t unix_ns, struct err *err);
/* The start of that attempt is void: it was never claimed. The job is pending again, without
 * grants; its number of the last attempt stays. -ENOENT, -EALREADY. */
int store_unstart(struct store *store, uint64_t id, uint32_t attempt, struct err *err);
/* The job is final: state, reason, attempt, times, exit. `observations` (text, may be NULL) go with
 * its last attempt. -ENOENT, -EALREADY: it was final, and stays as it was. */
int store_end(struct store *store, const struct job *job, const char *observations,
	      struct err *err);
/* The job's attempt has ended as `ended` says (state FAILED), and it gets another one: it is
 * pending again, with this reason's text and its failed_attempts and not_before_unix_ns. -ENOENT,
 * -EALREADY. */
int store_retry(struct store *store, const struct job *ended, const char *reason_text,
		const char *observations, struct err *err);
/* Final jobs are pending again, as if they had never failed; their attempts stay. All or none.
 * -ENOENT; -EALREADY: one is not final. */
int store_reopen(struct store *store, const uint64_t *ids, size_t count, struct err *err);
/* One waiting job that becomes another. */
struct store_change {
	/* State (PENDING, HELD, or final), reason and its text, wants; of a final one also its end.
	 */
	const struct job *job;
	const char *spec; /* NULL: as it was */
	size_t spec_length;
	bool wants_alone; /* of one that may run: nothing but its wants */
};
/* All of them in one transaction, or none. -ENOENT; -EALREADY: one is final already, and was not to
 * become so. */
int store_change(struct store *store, const struct store_change *changes, size_t count,
		 struct err *err);
/* Removes final jobs that ended before `unix_ns`, the oldest beyond `keep`, and those whose own
 * time (wants.ttl_ns) was over at `now_unix_ns`; one that has such a time goes then and not before.
 * The members of an array stay until all of them have ended.
 * Their ids (owned) for jobdir_remove(). At most STORE_FORGET_MAX: when as many come, call it
 * again. Ids are never given out again. */
int store_forget(struct store *store, int64_t unix_ns, int64_t now_unix_ns, size_t keep,
		 uint64_t **out_ids, size_t *out_count, struct err *err);
/* When the next job's own time is over, of those that store_forget() would remove then; INT64_MAX:
 * there is none. */
int store_next_forget(struct store *store, int64_t *out_unix_ns, struct err *err);

/* Whether nothing is to be started, whoever starts the agent. */
int store_set_draining(struct store *store, bool is_draining, struct err *err);
int store_is_draining(struct store *store, bool *out, struct err *err);

/* What an administrator has drained and reserved, as the bytes of claims.h. */
int store_set_claims(struct store *store, const char *bytes, size_t length, struct err *err);
/* The bytes (owned). -ENOENT: nothing was ever. */
int store_claims(struct store *store, char **out_bytes, size_t *out_length, struct err *err);

/* The id that the next job gets: larger than any that was ever given. */
int store_next_id(struct store *store, uint64_t *out, struct err *err);
/* The id that (uid, key) has, also of a final job. -ENOENT. */
int store_find_key(struct store *store, uid_t uid, const char *key, uint64_t *out_id,
		   struct err *err);
/* How the members of an array are, those that were forgotten left out. */
struct store_array {
	uint64_t count, live, succeeded, failed, cancelled;
	uint64_t failed_attempts; /* of all of them */
};
int store_array(struct store *store, uint64_t array_id, struct store_array *out, struct err *err);
/* How long the last `count` attempts of a job have run, together. */
int store_used(struct store *store, uint64_t id, uint32_t count, int64_t *out_ns, struct err *err);
/* One attempt of a job. */
struct store_attempt {
	uint32_t number;
	int64_t started_unix_ns, ended_unix_ns; /* 0: not yet */
	const char *grants, *observations;	/* may be NULL */
	enum job_reason reason;
	const char *reason_text; /* may be NULL */
	bool has_exit;
	int exit_code;
};
/* All of a job, from the first; none for one that is not there. As store_load(). */
int store_attempts(struct store *store, uint64_t id,
		   int (*each)(const struct store_attempt *attempt, void *context), void *context,
		   struct err *err);
/* Calls `each` with every non-final job in the order of their ids: PENDING, HELD, or STARTING once
 * a start was entered. `grants` is the text of that start, NULL when it waits. Both borrowed during
 * the call. Nonzero from each() ends it and is returned. */
int store_load(struct store *store,
	       int (*each)(const struct job *job, const char *grants, void *context), void *context,
	       struct err *err);
/* A final job's place in their list. */
struct store_place {
	int64_t ended_unix_ns;
	uint64_t id;
};
/* Final jobs, newest first, those behind `after` (NULL: all), at most `max`, ended since
 * `since_unix_ns`; as above, with the observations' text. */
int store_list_final(struct store *store, int64_t since_unix_ns, const struct store_place *after,
		     size_t max,
		     int (*each)(const struct job *job, const char *grants,
				 const char *observations, void *context),
		     void *context, struct err *err);
/* One job, final or not. -ENOENT. */
int store_get(struct store *store, uint64_t id,
	      int (*each)(const struct job *job, const char *grants, const char *observations,
			  void *context),
	      void *context, struct err *err);
/* All members of an array, final or not, in their order; none for one that is not there. */
int store_list_array(struct store *store, uint64_t array_id,
		     int (*each)(const struct job *job, const char *grants,
				 const char *observations, void *context),
		     void *context, struct err *err);
/* The spec's bytes (owned), and a NUL behind them. -ENOENT; -EUCLEAN: they are not what was
 * accepted. */
int store_spec(struct store *store, uint64_t id, char **out_bytes, size_t *out_length,
	       struct err *err);

#endif
