/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/doors/queue/store/store_common.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit/unit.h"

void place_in_memory(void)
{
	if (access("/dev/shm", W_OK) == 0)
		(void)setenv("TMPDIR", "/dev/shm", 1);
}

struct place place_make(void)
{
	struct place place = {.directory = unit_tmp_new()};
	place.path = strdup(unit_path(place.directory, "queue.db"));
	assert_non_null(place.path);
	return place;
}

void place_done(struct place *place)
{
	free((char *)place->path);
	place->directory = unit_tmp_free(place->directory);
}

struct store *must_open(const char *path)
{
	struct store *store = NULL;
	struct err err = {.code = 0};
	if (store_open(path, &store, &err) != 0)
		fail_msg("%s", err.text);
	assert_non_null(store);
	return store;
}

struct job make_job(uint64_t id)
{
	struct job job = {.id = id,
			  .uid = 1000 + (uid_t)(id % 3),
			  .gpus = (uint32_t)(id % 9),
			  .share_denominator = 4,
			  .share_numerator = 1,
			  .ignore_outsiders = id % 2,
			  .submitted_unix_ns = (int64_t)id * SECOND};
	(void)snprintf(job.key, sizeof(job.key), "key-%" PRIu64, id);
	(void)snprintf(job.name, sizeof(job.name), "job-%" PRIu64, id);
	return job;
}

int accept_job(struct store *store, const struct job *job, const char *spec, struct err *err)
{
	struct store_accept accept = {.job = job, .spec = spec, .spec_length = strlen(spec)};
	return store_accept(store, &accept, 1, err);
}

void must_accept(struct store *store, uint64_t id)
{
	struct job job = make_job(id);
	char spec[64];
	(void)snprintf(spec, sizeof(spec), "spec of %" PRIu64, id);
	struct err err = {.code = 0};
	if (accept_job(store, &job, spec, &err) != 0)
		fail_msg("%s", err.text);
}

int end_job(struct store *store, uint64_t id, enum job_state state, int64_t ended_ns)
{
	struct job job = make_job(id);
	char text[] = "(3)";
	job.state = state;
	job.reason = JOB_REASON_EXIT_CODE;
	job.reason_text = text;
	job.ended_unix_ns = ended_ns;
	job.has_exit = true;
	job.exit_code = 3;
	return store_end(store, &job, "4711 GPU-1", NULL);
}

int see(const struct job *job, const char *grants, const char *observations, void *context)
{
	struct seen *seen = context;
	if (seen->count < 64)
		seen->ids[seen->count] = job->id;
	seen->count++;
	job_done(&seen->last);
	if (job_copy(job, &seen->last) < 0)
		return -ENOMEM;
	(void)snprintf(seen->grants, sizeof(seen->grants), "%s", grants ? grants : "NULL");
	(void)snprintf(seen->observations, sizeof(seen->observations), "%s",
		       observations ? observations : "NULL");
	return seen->answer;
}

int see_live(const struct job *job, const char *grants, void *context)
{
	return see(job, grants, NULL, context);
}
