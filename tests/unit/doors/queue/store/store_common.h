/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the store share: a directory with a store in it, jobs, and what is read back.
 */
#ifndef TESTS_UNIT_DOORS_QUEUE_STORE_COMMON_H
#define TESTS_UNIT_DOORS_QUEUE_STORE_COMMON_H

#include "base/err.h"
#include "doors/queue/store/store.h"

#define SECOND INT64_C(1000000000)

/* From now on temporary directories lie in memory, where there is room for them: hundreds of stores
 * are made, and no test looks at what a disk does. */
void place_in_memory(void);

struct place {
	char *directory;  /* owned */
	const char *path; /* owned: of the database in it */
};
struct place place_make(void);
void place_done(struct place *place);

/* Fails the test when it cannot be opened. */
struct store *must_open(const char *path);
/* A job whose values follow from its id. */
struct job make_job(uint64_t id);
int accept_job(struct store *store, const struct job *job, const char *spec, struct err *err);
/* Accepts make_job(id) with the spec "spec of <id>". Fails the test when it is refused. */
void must_accept(struct store *store, uint64_t id);
/* Ends make_job(id) with exit code 3. */
int end_job(struct store *store, uint64_t id, enum job_state state, int64_t ended_ns);

/* What was read: ids in their order, and the last row with its texts. */
struct seen {
	size_t count;
	uint64_t ids[64];
	struct job last;
	char grants[64], observations[64];
	int answer; /* what each() returns */
};
int see(const struct job *job, const char *grants, const char *observations, void *context);
int see_live(const struct job *job, const char *grants, void *context);

#endif
