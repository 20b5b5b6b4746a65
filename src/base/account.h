/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has how much of what an agent can give: one account per user, with the limit of a user, the
 * total of all users, and what is kept for root. Whoever hands something out asks here first, and
 * gives it back here. The figures of all limits stand in one table (account.c).
 *
 * A user id of somebody's subordinate range (subuid(5)) counts as that user: a user namespace makes
 * no second share. Knows neither sockets nor jobs, and nothing of how a limit is told to people but
 * the words. Belongs to one thread.
 */
#ifndef SLUICE_BASE_ACCOUNT_H
#define SLUICE_BASE_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct account;
struct err;

enum account_resource {
	ACCOUNT_CONNECTIONS,
	ACCOUNT_STREAMS, /* calls whose last byte has not been sent */
	ACCOUNT_BODIES,	 /* bytes of requests that have not wholly come */
	ACCOUNT_MEMORY,	 /* bytes of requests and what was made of them */
	ACCOUNT_OUTPUT,	 /* bytes of replies that nobody has read */
	ACCOUNT_JOB_WATCHES,
	ACCOUNT_MACHINE_WATCHES,
	ACCOUNT_LISTS,
	ACCOUNT_LIST_BYTES, /* of lists that nobody has read */
	ACCOUNT_LOGS,
	ACCOUNT_QUERIES,     /* questions that the database is answering */
	ACCOUNT_CHANGES,     /* of jobs, waiting for their turn */
	ACCOUNT_SUBMISSIONS, /* waiting for the disk */
	ACCOUNT_SUBMISSION_BYTES,
	ACCOUNT_TRIALS,	       /* dry runs, and submissions that must not wait */
	ACCOUNT_PENDING,       /* jobs that have not started */
	ACCOUNT_PENDING_BYTES, /* of the specifications of jobs that have not ended */
	ACCOUNT_HISTORY_BYTES, /* of the specifications of jobs that have ended */
	ACCOUNT_RUNS,	       /* jobs that run without a GPU */
	ACCOUNT_RESOURCE_COUNT,
};

/* How much of a resource there is. */
struct account_limit {
	const char *name;   /* "connections", in messages */
	const char *remedy; /* what a user at the limit can do */
	uint64_t user;	    /* of one user */
	uint64_t total;	    /* of all users together */
	uint64_t reserve;   /* of the total: for root alone */
	/* What is held can be taken away: at the total whoever has less than the largest holder is
	 * given it nevertheless, and account_excess() names the holder that has to let go. */
	bool evicts;
};

/* User ids that stand for their owner. */
struct account_range {
	uid_t first;
	uint32_t count;
	uid_t owner;
};

/* An account with the limits of the table. `privileged` (beside 0) has the whole total: the user
 * whose agent it is. NULL: -ENOMEM. */
struct account *account_new(uid_t privileged, struct err *err);
struct account *account_free(struct account *account);

/* The figures as they are now; borrowed. */
const struct account_limit *account_limit(const struct account *account,
					  enum account_resource resource);
/* Other figures than the table's: `user` and `reserve` at most `total`. */
void account_set_limit(struct account *account, enum account_resource resource, uint64_t user,
		       uint64_t total, uint64_t reserve);

/*
 * From now on these ranges (copied; of two that overlap, that with the lower beginning counts)
 * belong to their owners, also what their ids hold already. -ENOMEM, and it stays as it was.
 */
int account_set_ranges(struct account *account, const struct account_range *ranges, size_t count);
/* Whose share `uid` has. */
uid_t account_owner(const struct account *account, uid_t uid);
bool account_is_privileged(const struct account *account, uid_t uid);

/*
 * `amount` of the resource for `uid`. 0; -EDQUOT: more than one user may have; -EBUSY: all of it is
 * in use, and this user has as much as anybody; -ENOMEM. The text names limit and remedy.
 */
int account_take(struct account *account, enum account_resource resource, uid_t uid,
		 uint64_t amount, struct err *err);
/* The same without asking: what is there already, as after a start. -ENOMEM. */
int account_force(struct account *account, enum account_resource resource, uid_t uid,
		  uint64_t amount, struct err *err);
/* What account_take() would say. */
int account_check(const struct account *account, enum account_resource resource, uid_t uid,
		  uint64_t amount, struct err *err);
/* Gives back what was taken. */
void account_give(struct account *account, enum account_resource resource, uid_t uid,
		  uint64_t amount);

/* Nobody has any of it any more: before all of it is told anew. */
void account_clear(struct account *account, enum account_resource resource);

/* What the owner of `uid` has; what all have. */
uint64_t account_held(const struct account *account, enum account_resource resource, uid_t uid);
/* How much more the owner of `uid` may have by its own limit, whatever others have. */
uint64_t account_left(const struct account *account, enum account_resource resource, uid_t uid);
uint64_t account_used(const struct account *account, enum account_resource resource);
/* Whether more is held than there is for users: *out_uid is who has most of it, never root. */
bool account_excess(const struct account *account, enum account_resource resource, uid_t *out_uid);

/*
 * Shares of `total` for holders that have `held` each, so that nobody loses anything who has less
 * than the largest: the level to which the largest are cut. UINT64_MAX: nobody is.
 */
uint64_t account_level(const uint64_t *held, size_t count, uint64_t total);

#endif
