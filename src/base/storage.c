/* SPDX-License-Identifier: Apache-2.0 */
#include "base/storage.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/loop.h"

struct storage_list {
	struct storage_job *first, **last;
};

struct storage {
	struct loop *loop; /* borrowed */
	size_t queue_max;
	size_t pending; /* loop thread only */
	pthread_t thread;
	struct loop_task report;
	_Atomic uint64_t began_ns; /* of the job that is worked on; 0: none is */

	pthread_mutex_t mutex; /* guards all below */
	pthread_cond_t wake;
	struct storage_list waiting;
	struct storage_list finished;
	bool closing;
};

static const struct clock storage_clock = {.fake_ns = NULL};

static void list_init(struct storage_list *list)
{
	list->first = NULL;
	list->last = &list->first;
}

static void list_push(struct storage_list *list, struct storage_job *job)
{
	job->next = NULL;
	*list->last = job;
	list->last = &job->next;
}

static struct storage_job *list_pop(struct storage_list *list)
{
	struct storage_job *job = list->first;
	if (job) {
		list->first = job->next;
		if (!list->first)
			list->last = &list->first;
	}
	return job;
}

/* On the loop: reports what is finished. A done() may hand in the next job. */
static void storage_report(void *context)
{
	struct storage *storage = context;

	for (;;) {
		(void)pthread_mutex_lock(&storage->mutex);
		struct storage_job *job = list_pop(&storage->finished);

		(void)pthread_mutex_unlock(&storage->mutex);
		if (!job)
			return;

		storage->pending--;
		job->done(job->context, job->result);
	}
}

static void storage_work(struct storage *storage, struct storage_job *job)
{
	storage->began_ns = clock_now_ns(&storage_clock);
	job->result = job->work(job->context);
	storage->began_ns = 0;
}

/* The job that waits first, if it is of this group. */
static struct storage_job *storage_take_of(struct storage *storage,
					   const struct storage_group *group)
{
	(void)pthread_mutex_lock(&storage->mutex);
	struct storage_job *first = storage->waiting.first;
	struct storage_job *job =
	    first && first->group == group ? list_pop(&storage->waiting) : NULL;
	(void)pthread_mutex_unlock(&storage->mutex);

	return job;
}

/* The job, and with it those of its group that wait behind it. */
static void storage_work_group(struct storage *storage, struct storage_job *job,
			       struct storage_list *out)
{
	const struct storage_group *group = job->group;
	uint64_t until_ns = clock_after_ns(clock_now_ns(&storage_clock), group->ns_max);

	for (size_t count = 1; job; count++) {
		storage_work(storage, job);
		list_push(out, job);

		bool is_full = count >= group->jobs_max || clock_now_ns(&storage_clock) >= until_ns;
		job = is_full ? NULL : storage_take_of(storage, group);
	}

	storage->began_ns = clock_now_ns(&storage_clock);
	group->close(out->first, group->context);
	storage->began_ns = 0;
}

static void *storage_thread(void *context)
{
	struct storage *storage = context;
	(void)pthread_mutex_lock(&storage->mutex);

	for (;;) {
		struct storage_job *job = list_pop(&storage->waiting);
		if (!job && storage->closing)
			break;
		if (!job) {
			(void)pthread_cond_wait(&storage->wake, &storage->mutex);
			continue;
		}

		(void)pthread_mutex_unlock(&storage->mutex);
		struct storage_list worked;

		list_init(&worked);
		if (job->group) {
			storage_work_group(storage, job, &worked);
		} else {
			storage_work(storage, job);
			list_push(&worked, job);
		}

		(void)pthread_mutex_lock(&storage->mutex);
		while ((job = list_pop(&worked)))
			list_push(&storage->finished, job);
		loop_post(storage->loop, &storage->report, storage_report, storage);
	}

	(void)pthread_mutex_unlock(&storage->mutex);
	return NULL;
}

/* Signals are the loop's business: the thread starts with all of them blocked. */
static int storage_start_thread(struct storage *storage)
{
	sigset_t all, before;
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	int rc = pthread_create(&storage->thread, NULL, storage_thread, storage);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -rc;
}

static struct storage *storage_free(struct storage *storage)
{
	(void)pthread_cond_destroy(&storage->wake);
	(void)pthread_mutex_destroy(&storage->mutex);
	free(storage);
	return NULL;
}

struct storage *storage_new(struct loop *loop, size_t queue_max, struct err *err)
{
	struct storage *storage = calloc(1, sizeof(*storage));
	if (!storage) {
		(void)err_set(err, -ENOMEM, "out of memory for the storage thread");
		return NULL;
	}

	storage->loop = loop;
	storage->queue_max = queue_max;
	(void)pthread_mutex_init(&storage->mutex, NULL); /* neither fails without attributes */
	(void)pthread_cond_init(&storage->wake, NULL);
	list_init(&storage->waiting);
	list_init(&storage->finished);

	int rc = storage_start_thread(storage);
	if (rc < 0) {
		(void)err_set(err, rc, "cannot start the storage thread: %s", err_describe(rc));
		return storage_free(storage);
	}

	(void)pthread_setname_np(storage->thread, "storage"); /* only for people who look */
	return storage;
}

struct storage *storage_close(struct storage *storage)
{
	if (!storage)
		return NULL;

	(void)pthread_mutex_lock(&storage->mutex);
	storage->closing = true;
	(void)pthread_cond_signal(&storage->wake);
	(void)pthread_mutex_unlock(&storage->mutex);
	(void)pthread_join(storage->thread, NULL);
	loop_cancel(storage->loop, &storage->report);
	storage_report(storage);

	return storage_free(storage);
}

int storage_submit(struct storage *storage, struct storage_job *job, struct err *err)
{
	if (storage->pending >= storage->queue_max)
		return err_set(err, -ENOSPC, "%zu writes are waiting for the disk already",
			       storage->pending);

	(void)pthread_mutex_lock(&storage->mutex);
	bool closing = storage->closing;
	if (!closing) {
		list_push(&storage->waiting, job);
		(void)pthread_cond_signal(&storage->wake);
	}

	(void)pthread_mutex_unlock(&storage->mutex);
	if (closing)
		return err_set(err, -ESHUTDOWN, "the storage thread is being ended");

	storage->pending++;
	return 0;
}

size_t storage_pending(const struct storage *storage)
{
	return storage->pending;
}

uint64_t storage_busy_ns(const struct storage *storage)
{
	uint64_t began_ns = storage->began_ns;
	uint64_t now_ns = clock_now_ns(&storage_clock);
	return began_ns > 0 && now_ns > began_ns ? now_ns - began_ns : 0;
}
