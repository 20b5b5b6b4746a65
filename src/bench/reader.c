/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/names.h"
#include "bench/reader_internal.h"
#include "bench/stats.h"

enum {
	READER_SAMPLES = 1 << 16, /* times that one reader keeps; then every second, and so on */
};

static const struct clock reader_clock; /* the real one */

static const char *const reader_patterns[READER_PATTERN_COUNT] = {"sequential", "random", "files"};
static const char *const reader_caches[READER_CACHE_COUNT] = {"direct", "cold", "cached"};

const char *reader_pattern_to_string(enum reader_pattern pattern)
{
	return names_at(reader_patterns, pattern, "?");
}

const char *reader_cache_to_string(enum reader_cache cache)
{
	return names_at(reader_caches, cache, "?");
}

/* What all readers of a case share. */
struct reader_job {
	const struct reader_set *set;
	const struct reader_case *what;
	uint64_t time_ns, seed;
	const atomic_bool *stop;
	char path[FILE_PATH_MAX]; /* of the large file */
	const uint32_t *order;	  /* of the small ones; NULL */
	_Atomic size_t next_file; /* that nobody has taken */
	pthread_mutex_t gate;	  /* held until all are there */
	bool is_off;		  /* under the gate: not all could be started */
};

struct reader_thread {
	struct reader_job *job;
	pthread_t thread;
	unsigned number;
	bool has_thread;
	char *block; /* owned */
	struct stats_random random;
	uint64_t bytes, reads, wrong, began_ns, ended_ns;
	double *samples; /* owned: READER_SAMPLES times, in ns */
	size_t sample_count;
	uint64_t stride; /* every so many-th read is kept */
	int result;
	struct err err;
};

/* --- one reader ------------------------------------------------------------------------------- */

static void reader_keep(struct reader_thread *self, uint64_t took_ns)
{
	if (self->reads % self->stride != 0)
		return;

	if (self->sample_count == READER_SAMPLES) {
		for (size_t i = 0; i < READER_SAMPLES / 2; i++)
			self->samples[i] = self->samples[2 * i];

		self->sample_count /= 2;
		self->stride *= 2;
		if (self->reads % self->stride != 0)
			return;
	}

	self->samples[self->sample_count++] = (double)took_ns;
}

static void reader_check(struct reader_thread *self, uint64_t offset, size_t length)
{
	for (size_t i = 0; i + 2 * sizeof(uint64_t) <= length; i += READER_BLOCK_MIN) {
		uint64_t words[2];
		memcpy(words, self->block + i, sizeof(words));
		self->wrong += words[0] != self->job->set->seed || words[1] != offset + i;
	}
}

static int reader_open(const struct reader_job *job, const char *path, struct err *err)
{
	bool is_direct = job->what->cache == READER_DIRECT;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | (is_direct ? O_DIRECT : 0));
	if (fd < 0 && is_direct && errno == EINVAL)
		return err_set(err, -EOPNOTSUPP, "this file system cannot go past the page cache");
	return fd < 0 ? err_set(err, -errno, "opening '%s': %s", path, err_describe(errno)) : fd;
}

/* Until all are there. False: nothing is to be read. */
static bool reader_wait(struct reader_job *job)
{
	(void)pthread_mutex_lock(&job->gate); /* cannot fail: it is a plain one */
	bool goes = !job->is_off;
	(void)pthread_mutex_unlock(&job->gate);
	return goes;
}

static bool reader_is_stopped(const struct reader_job *job)
{
	return job->stop && atomic_load_explicit(job->stop, memory_order_relaxed);
}

static uint64_t reader_place(struct reader_thread *self, uint64_t *sequential)
{
	const struct reader_job *job = self->job;
	uint64_t blocks = job->set->bytes / job->what->block;
	uint64_t at = job->what->pattern == READER_RANDOM
			  ? stats_random_next(&self->random) % blocks
			  : (*sequential)++ % blocks;
	return at * job->what->block;
}

static int reader_read_large(struct reader_thread *self)
{
	struct reader_job *job = self->job;
	_cleanup_close_ int fd = reader_open(job, job->path, &self->err);
	/* Each has a part of its own at first, and goes round. */
	uint64_t blocks = job->set->bytes / job->what->block;
	uint64_t sequential = blocks * self->number / job->what->readers;

	if (!reader_wait(job) || fd < 0)
		return fd < 0 ? fd : -ECANCELED;

	self->began_ns = clock_now_ns(&reader_clock);
	uint64_t now_ns = self->began_ns, end_ns = now_ns + job->time_ns;
	/* What was read once is in the cache: all of them together read as much as there is. */
	uint64_t most =
	    job->what->cache == READER_COLD ? blocks / job->what->readers + 1 : UINT64_MAX;

	while (now_ns < end_ns && self->reads < most) {
		uint64_t offset = reader_place(self, &sequential);

		if (reader_is_stopped(job))
			return err_set(&self->err, -EINTR, "interrupted");

		ssize_t length = pread(fd, self->block, job->what->block, (off_t)offset);
		uint64_t then_ns = clock_now_ns(&reader_clock);

		if (length < 0 && errno == EINVAL && job->what->cache == READER_DIRECT)
			return err_set(&self->err, -EOPNOTSUPP,
				       "this file system cannot go past the page cache");
		if (length != (ssize_t)job->what->block)
			return err_set(&self->err, length < 0 ? -errno : -EIO, "reading '%s': %s",
				       job->path, length < 0 ? err_describe(errno) : "it is cut");

		reader_keep(self, then_ns - now_ns);
		reader_check(self, offset, (size_t)length);
		self->bytes += (uint64_t)length;
		self->reads++;
		now_ns = clock_now_ns(&reader_clock);
	}

	self->ended_ns = now_ns;
	return 0;
}

static int reader_read_file(struct reader_thread *self, size_t file)
{
	struct reader_job *job = self->job;
	char path[FILE_PATH_MAX];
	int rc = reader_file_path(job->set, file, path, &self->err);
	if (rc < 0)
		return rc;

	_cleanup_close_ int fd = reader_open(job, path, &self->err);
	if (fd < 0)
		return fd;

	uint64_t at = 0;
	ssize_t length;
	while ((length = pread(fd, self->block, job->what->block, (off_t)at)) > 0) {
		reader_check(self, ((uint64_t)file << 32) + at, (size_t)length);
		at += (uint64_t)length;
		if (at >= job->set->file_bytes)
			break;
	}

	if (length < 0 || at != job->set->file_bytes)
		return err_set(&self->err, length < 0 ? -errno : -EIO, "reading '%s': %s", path,
			       length < 0 ? err_describe(errno) : "it is cut");

	self->bytes += at;
	return 0;
}

static int reader_read_files(struct reader_thread *self)
{
	struct reader_job *job = self->job;
	if (!reader_wait(job))
		return -ECANCELED;

	self->began_ns = clock_now_ns(&reader_clock);
	for (;;) {
		size_t next = atomic_fetch_add(&job->next_file, 1);
		if (next >= job->set->files)
			break;
		if (reader_is_stopped(job))
			return err_set(&self->err, -EINTR, "interrupted");

		uint64_t before_ns = clock_now_ns(&reader_clock);
		int rc = reader_read_file(self, job->order[next]);
		if (rc < 0)
			return rc;

		reader_keep(self, clock_now_ns(&reader_clock) - before_ns);
		self->reads++;
	}

	self->ended_ns = clock_now_ns(&reader_clock);
	return 0;
}

static void *reader_main(void *context)
{
	struct reader_thread *self = context;
	self->result = self->job->what->pattern == READER_FILES ? reader_read_files(self)
								: reader_read_large(self);
	return NULL;
}

/* --- before ----------------------------------------------------------------------------------- */

/* What is in the page cache of a file is dropped, or all of it is put there. */
static int reader_prepare_file(const char *path, enum reader_cache cache, char *block,
			       size_t length, struct err *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return err_set(err, -errno, "opening '%s': %s", path, err_describe(errno));
	if (cache != READER_CACHED) {
		(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); /* advice: it may not work */
		return 0;
	}

	ssize_t got;
	do {
		got = read(fd, block, length);
	} while (got > 0);
	return got < 0 ? err_set(err, -errno, "reading '%s': %s", path, err_describe(errno)) : 0;
}

static int reader_prepare(const struct reader_job *job, struct err *err)
{
	_cleanup_free_ char *block = malloc(READER_BLOCK_MAX);
	if (!block)
		return err_set(err, -ENOMEM, "no memory for a block");
	if (job->what->pattern != READER_FILES)
		return reader_prepare_file(job->path, job->what->cache, block, READER_BLOCK_MAX,
					   err);

	int rc = 0;

	for (size_t i = 0; rc == 0 && i < job->set->files; i++) {
		char path[FILE_PATH_MAX];
		rc = reader_file_path(job->set, i, path, err);
		if (rc == 0)
			rc = reader_prepare_file(path, job->what->cache, block, READER_BLOCK_MAX,
						 err);
	}

	return rc;
}

/* The files, mixed (Fisher and Yates). Caller's; NULL: no memory. */
static uint32_t *reader_mix(size_t files, uint64_t seed)
{
	struct stats_random random = {.state = seed};
	uint32_t *order = calloc(files + 1, sizeof(*order));
	for (size_t i = 0; order && i < files; i++)
		order[i] = (uint32_t)i;

	for (size_t i = files; order && i > 1; i--) {
		size_t other = stats_random_next(&random) % i;
		uint32_t kept = order[i - 1];
		order[i - 1] = order[other];
		order[other] = kept;
	}

	return order;
}

/* --- all readers ------------------------------------------------------------------------------ */

static int reader_sum(const struct reader_thread *readers, unsigned count,
		      struct reader_outcome *out, struct err *err)
{
	size_t samples = 0;
	uint64_t first_ns = UINT64_MAX, last_ns = 0;

	for (unsigned i = 0; i < count; i++) {
		const struct reader_thread *reader = &readers[i];
		if (reader->result < 0)
			return err_set(err, reader->result, "%s", reader->err.text);

		samples += reader->sample_count;
		out->bytes += reader->bytes;
		out->reads += reader->reads;
		out->wrong += reader->wrong;
		first_ns = reader->began_ns < first_ns ? reader->began_ns : first_ns;
		last_ns = reader->ended_ns > last_ns ? reader->ended_ns : last_ns;
	}

	out->took_ns = last_ns > first_ns ? last_ns - first_ns : 1;
	_cleanup_free_ double *all = calloc(samples + 1, sizeof(*all));
	if (!all)
		return err_set(err, -ENOMEM, "no memory for %zu times", samples);

	size_t filled = 0;
	for (unsigned i = 0; i < count; i++) {
		memcpy(all + filled, readers[i].samples,
		       readers[i].sample_count * sizeof(*readers[i].samples));
		filled += readers[i].sample_count;
	}

	stats_sort(all, filled);
	out->p50_ns = filled ? (uint64_t)all[filled / 2] : 0;
	out->p99_ns = filled ? (uint64_t)all[filled - 1 - filled / 100] : 0;

	return 0;
}

static int reader_start_all(struct reader_job *job, struct reader_thread *readers, struct err *err)
{
	unsigned count = job->what->readers;

	for (unsigned i = 0; i < count; i++) {
		struct reader_thread *reader = &readers[i];
		*reader = (struct reader_thread){
		    .job = job,
		    .number = i,
		    .stride = 1,
		    .random = {.state = job->seed + i + 1},
		    .block = aligned_alloc(READER_BLOCK_MIN, job->what->block),
		    .samples = calloc(READER_SAMPLES, sizeof(double))};
		if (!reader->block || !reader->samples)
			return err_set(err, -ENOMEM, "no memory for %u readers", count);
	}

	int code = 0;

	(void)pthread_mutex_lock(&job->gate); /* cannot fail */

	for (unsigned i = 0; i < count && code == 0; i++) {
		code = pthread_create(&readers[i].thread, NULL, reader_main, &readers[i]);
		readers[i].has_thread = code == 0;
	}

	job->is_off = code != 0;
	(void)pthread_mutex_unlock(&job->gate);
	return code == 0
		   ? 0
		   : err_set(err, -code, "starting %u readers: %s", count, err_describe(code));
}

static int reader_run_all(struct reader_job *job, struct reader_outcome *out, struct err *err)
{
	unsigned count = job->what->readers;
	_cleanup_free_ struct reader_thread *readers = calloc(count, sizeof(*readers));
	if (!readers)
		return err_set(err, -ENOMEM, "no memory for %u readers", count);

	int rc = reader_start_all(job, readers, err);
	for (unsigned i = 0; i < count; i++)
		if (readers[i].has_thread)
			(void)pthread_join(readers[i].thread, NULL);

	if (rc == 0)
		rc = reader_sum(readers, count, out, err);

	for (unsigned i = 0; i < count; i++) {
		free(readers[i].block);
		free(readers[i].samples);
	}

	return rc;
}

int reader_run(const struct reader_set *set, const struct reader_case *what, uint64_t time_ns,
	       uint64_t seed, const atomic_bool *stop, struct reader_outcome *out, struct err *err)
{
	if (what->block < READER_BLOCK_MIN || what->block > READER_BLOCK_MAX ||
	    READER_BLOCK_MAX % what->block != 0 || what->readers < 1 ||
	    what->readers > READER_READERS_MAX ||
	    (what->pattern == READER_FILES && set->files == 0))
		return err_set(err, -EINVAL, "%u readers of %zu bytes cannot be meant",
			       what->readers, what->block);

	struct reader_job job = {.set = set,
				 .what = what,
				 .time_ns = time_ns,
				 .seed = seed,
				 .stop = stop,
				 .gate = PTHREAD_MUTEX_INITIALIZER};
	int rc = reader_large_path(set, job.path, err);
	if (rc == 0)
		rc = reader_prepare(&job, err);

	_cleanup_free_ uint32_t *order = reader_mix(set->files, seed);
	job.order = order;

	struct reader_outcome outcome = {0};

	if (rc == 0 && !order)
		rc = err_set(err, -ENOMEM, "no memory for %zu files", set->files);
	if (rc == 0)
		rc = reader_run_all(&job, &outcome, err);
	if (rc == 0)
		*out = outcome;

	return rc;
}
