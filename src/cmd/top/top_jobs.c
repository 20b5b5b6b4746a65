/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/top/top.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "cmd/jobs/job_text.h"

enum jobs_column {
	COLUMN_ID,
	COLUMN_STATE,
	COLUMN_USER,
	COLUMN_GPUS,
	COLUMN_TIME,
	COLUMN_NAME,
	COLUMN_COUNT
};

enum top_jobs_limits {
	JOBS_NAME_LEAST = 8, /* columns that a name keeps */
	JOBS_NAME_MOST = 24,
	JOBS_GPUS_MOST = 16,
	JOBS_USER_MOST = 12,
};

static const char *const titles[COLUMN_COUNT] = {"ID", "STATE", "USER", "GPUS", "TIME", "NAME"};

/* "0,3"; of one that waits "wants 2"; of one that has ended and is told without its GPUs "wanted
 * 2". */
static const char *jobs_gpus(const Sluice__V1__Job *job, char *scratch)
{
	return job->gpus == 0 ? "-" : job_text_gpus(job, scratch);
}

/* A cell of the job's line. `scratch` has JOB_TEXT_MAX bytes. */
static const char *jobs_cell(const Sluice__V1__Job *job, enum jobs_column column,
			     int64_t now_unix_ns, char *scratch)
{
	switch (column) {
	case COLUMN_ID:
		(void)snprintf(scratch, JOB_TEXT_MAX, "%" PRIu64, job->id);
		return scratch;
	case COLUMN_STATE:
		return job_text_state(job->state);
	case COLUMN_USER:
		return job->user;
	case COLUMN_GPUS:
		return jobs_gpus(job, scratch);
	case COLUMN_TIME:
		return job_text_duration(job_text_elapsed_ns(job, now_unix_ns), scratch);
	default:
		return job->name;
	}
}

static size_t jobs_total(const size_t *width)
{
	size_t total = 0;
	for (size_t i = 0; i < COLUMN_COUNT; i++)
		total += width[i] ? width[i] + 2 * (i > 0) : 0;
	return total;
}

static void jobs_measure(const Sluice__V1__Machine *machine, size_t available, size_t *width)
{
	static const size_t most[COLUMN_COUNT] = {
	    20, 10, JOBS_USER_MOST, JOBS_GPUS_MOST, 8, JOBS_NAME_MOST};
	/* What goes when there is no room, first to last. */
	static const enum jobs_column spare[] = {COLUMN_USER, COLUMN_TIME, COLUMN_GPUS};
	char scratch[JOB_TEXT_MAX];

	for (size_t c = 0; c < COLUMN_COUNT; c++) {
		width[c] = strlen(titles[c]);
		for (size_t i = 0; i < machine->n_jobs; i++) {
			size_t columns = top_width(jobs_cell(machine->jobs[i], (enum jobs_column)c,
							     machine->unix_ns, scratch));
			width[c] = columns > width[c] ? columns : width[c];
		}

		width[c] = width[c] < most[c] ? width[c] : most[c];
	}

	size_t next = 0;

	while (jobs_total(width) > available) {
		if (width[COLUMN_NAME] > JOBS_NAME_LEAST)
			width[COLUMN_NAME]--;
		else if (next < array_length(spare))
			width[spare[next++]] = 0;
		else
			break; /* the page cuts it */
	}
}

static enum top_style jobs_style(const Sluice__V1__Job *job)
{
	switch (job->state) {
	case SLUICE__V1__JOB_STATE__STARTING:
	case SLUICE__V1__JOB_STATE__RUNNING:
	case SLUICE__V1__JOB_STATE__STOPPING:
		return TOP_GREEN;
	case SLUICE__V1__JOB_STATE__PENDING:
		return TOP_YELLOW;
	case SLUICE__V1__JOB_STATE__FAILED:
		return TOP_RED;
	default:
		return TOP_DIM;
	}
}

static void jobs_line(struct top_page *page, const Sluice__V1__Job *job, int64_t now_unix_ns,
		      const size_t *width)
{
	char text[JOB_TEXT_MAX];

	for (size_t c = 0; c < COLUMN_COUNT; c++) {
		if (width[c] == 0)
			continue;
		if (c > 0)
			top_page_add(page, TOP_PLAIN, "  ");

		bool right = c == COLUMN_ID || c == COLUMN_TIME;
		top_page_cell(page, c == COLUMN_STATE ? jobs_style(job) : TOP_PLAIN,
			      jobs_cell(job, (enum jobs_column)c, now_unix_ns, text), width[c],
			      right);
	}

	size_t columns = top_width(job_text_reason(job, text));
	size_t room = page->width ? page->width - page->used : SIZE_MAX;

	if (columns > 0 && columns + 2 > room) { /* a line of its own */
		top_page_end(page);
		top_page_cell(page, TOP_PLAIN, "", width[COLUMN_ID], false);
	}

	if (columns > 0) {
		top_page_add(page, TOP_PLAIN, "  ");
		top_page_add(page, TOP_PLAIN, text);
	}

	top_page_end(page);
}

/* Running ones first, then those that wait, then those that have ended. */
static int jobs_rank(const Sluice__V1__Job *job)
{
	if (job->state == SLUICE__V1__JOB_STATE__PENDING)
		return 1;
	return job_text_is_final(job->state) ? 2 : 0;
}

void top_jobs(struct top_page *page, const struct top_scene *scene)
{
	const Sluice__V1__Machine *machine = scene->machine;
	size_t width[COLUMN_COUNT];
	uint64_t waiting = 0;

	if (machine->n_jobs == 0 && machine->pending + machine->running == 0)
		return;
	if (machine->n_gpus > 0)
		top_page_end(page);
	top_page_addf(page, TOP_BOLD, "%" PRIu64 " running, %" PRIu64 " waiting", machine->running,
		      machine->pending);
	top_page_end(page);

	if (machine->n_jobs == 0)
		return;

	jobs_measure(machine, page->width ? page->width : TOP_WIDTH_FREE, width);

	for (size_t c = 0; c < COLUMN_COUNT; c++) {
		if (width[c] == 0)
			continue;
		if (c > 0)
			top_page_add(page, TOP_PLAIN, "  ");
		top_page_cell(page, TOP_DIM, titles[c], width[c],
			      c == COLUMN_ID || c == COLUMN_TIME);
	}

	if (page->width == 0 || page->used + 8 <= page->width)
		top_page_add(page, TOP_DIM, "  REASON");
	top_page_end(page);

	for (int rank = 0; rank < 3; rank++) {
		for (size_t i = 0; i < machine->n_jobs; i++)
			if (jobs_rank(machine->jobs[i]) == rank) {
				jobs_line(page, machine->jobs[i], machine->unix_ns, width);
				waiting += rank == 1;
			}

		if (rank == 1 && waiting < machine->pending) {
			top_page_addf(page, TOP_DIM, "and %" PRIu64 " more that wait",
				      machine->pending - waiting);
			top_page_end(page);
		}
	}
}
