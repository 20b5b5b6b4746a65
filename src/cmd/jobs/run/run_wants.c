/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/run/run_wants.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/text.h"
#include "cmd/jobs/run/run_options.h"
#include "job/indices.h"
#include "job/moment.h"
#include "job/wants.h"

_Static_assert((int)RUN_PRIORITY_MAX == (int)WANTS_PRIORITY_MAX, "the two mean the same");

/* A text of the command line as one of the wants; NULL stays NULL. */
static int run_wants_set(const char *option, const char *text, size_t max, char **out,
			 struct err *err)
{
	if (!text)
		return 0;
	if (!*text)
		return err_set(err, -EINVAL, "--%s is empty", option);
	if (strnlen(text, max) == max)
		return err_set(err, -EINVAL, "--%s is longer than %zu bytes", option, max - 1);

	*out = strdup(text);
	return *out ? 0 : err_set(err, -ENOMEM, "no memory for --%s", option);
}

static int run_wants_machine(const struct run_options *options, struct wants *out, struct err *err)
{
	static const uint32_t outsiders[] = {WANTS_OUTSIDERS_WAIT, WANTS_OUTSIDERS_IGNORE,
					     WANTS_OUTSIDERS_SHARE};

	out->priority = (int32_t)options->priority; /* the table has checked it */
	out->mem_bytes = options->mem_bytes;
	out->pids = options->pids;
	out->isolation = options->isolation;
	out->idle_ns = options->idle_ns;

	if (options->idle_ns > 0 && options->gpus == 0)
		return err_set(err, -EINVAL, "--idle-timeout is for jobs with GPUs");

	out->gpu_memory_bytes = options->gpu_memory_bytes;
	out->cpu_milli = (uint32_t)(options->cpus * 1000 + 0.5);
	if (options->cpus > 0 && out->cpu_milli == 0)
		return err_set(err, -EINVAL, "--cpus: the least is 0.001");
	if (options->busy_outsiders != RUN_OUTSIDERS_NOT_GIVEN)
		out->outsiders = outsiders[options->busy_outsiders];

	int rc = run_wants_set("prefer", options->prefer, WANTS_LIST_MAX, &out->prefer, err);
	if (rc == 0)
		rc = run_wants_set("gpu-type", options->gpu_type, WANTS_NAME_MAX, &out->gpu_type,
				   err);
	if (rc == 0)
		rc = run_wants_set("project", options->project, WANTS_NAME_MAX, &out->project, err);

	return rc;
}

static int run_wants_workers(const struct run_options *options, struct wants *out, struct err *err)
{
	static const uint32_t launchers[] = {WANTS_LAUNCHER_OPENMPI, WANTS_LAUNCHER_MPICH,
					     WANTS_LAUNCHER_INTEL, WANTS_LAUNCHER_RANKS};
	const char *alone = options->slots ? "slots" : options->mpi_merge ? "mpi-merge" : "mpi";

	if (options->workers == 0)
		return options->slots || options->mpi_merge || options->mpi
			   ? err_set(err, -EINVAL, "--%s is for jobs with --workers", alone)
			   : 0;

	if (options->mpi_merge && options->mpi != RUN_MPI_OPENMPI)
		return err_set(err, -EINVAL, "--mpi-merge is for Open MPI");
	if (options->slots && options->mpi == RUN_MPI_RANKS)
		return err_set(err, -EINVAL,
			       "--slots is for jobs with an mpirun, --mpi ranks runs "
			       "one command in each worker");

	if (options->image)
		return err_set(err, -EINVAL,
			       "--workers and --image together are not built yet: leave out the "
			       "image");

	out->workers = options->workers;
	out->worker_gpus = options->gpus == RUN_GPUS_NOT_GIVEN ? 1 : options->gpus;

	if (options->gpu_ids) {
		uint32_t count = 1;
		for (const char *at = options->gpu_ids; *at; at++)
			count += *at == ',';

		if (count % options->workers != 0)
			return err_set(err, -EINVAL,
				       "--gpu-ids names %" PRIu32 " GPUs, which %" PRIu32
				       " workers cannot share evenly",
				       count, options->workers);

		out->worker_gpus = count / options->workers;
	}

	out->worker_slots = options->slots ? options->slots : 1;
	out->launcher = launchers[options->mpi];
	out->merge = options->mpi_merge;

	return 0;
}

/* "12,13" of an option, each with `prefix`. */
static int run_wants_add_after(const struct option_list *list, const char *option,
			       const char *prefix, struct buf *out, struct err *err)
{
	for (size_t i = 0; i < list->count; i++) {
		const char *text = list->items[i];
		struct wants_after after;
		int more;

		while ((more = wants_next_after(&text, &after, err)) > 0) {
			if (after.has_to_succeed)
				return err_set(err, -EINVAL, "--%s is a list of numbers", option);
			if (buf_printf(out, "%s%s%" PRIu64, out->length ? "," : "", prefix,
				       after.id) < 0)
				return err_set(err, -EINVAL, "--%s: too many jobs to wait for",
					       option);
		}

		if (more < 0)
			return err_wrap(err, "--%s", option);
	}

	return 0;
}

static int run_wants_after(const struct run_options *options, struct wants *out, struct err *err)
{
	struct buf text _cleanup_buf_;

	buf_init(&text, WANTS_LIST_MAX - 1);
	int rc = run_wants_add_after(&options->after, "after", "", &text, err);
	if (rc == 0)
		rc = run_wants_add_after(&options->after_ok, "after-ok", "ok:", &text, err);
	if (rc == 0 && text.length > 0 && !(out->after = buf_take(&text)))
		rc = err_set(err, -ENOMEM, "no memory for the jobs to wait for");

	return rc;
}

static int run_wants_array(const char *text, struct wants *out, struct err *err)
{
	const char *percent = text ? strchr(text, '%') : NULL;
	uint64_t count = 0, parallel = 0;

	if (!text)
		return 0;

	size_t length = percent ? (size_t)(percent - text) : strlen(text);
	bool has_indices = strpbrk(text, "-,:") != NULL;
	bool is_wrong =
	    !has_indices && parse_u64_span(text, length, 1, WANTS_ARRAY_MAX, &count) < 0;
	if (is_wrong || (percent && parse_u64(percent + 1, 1, WANTS_ARRAY_MAX, &parallel) < 0))
		return err_set(err, -EINVAL,
			       "--array '%.40s' is no number of jobs such as 10 or 10%%2, and no "
			       "indices such as 3-17:2%%4 or 1,5,9-12; at most %d members",
			       text, WANTS_ARRAY_MAX);

	if (has_indices) {
		uint32_t members;
		int rc = indices_check(text, length, WANTS_ARRAY_MAX, &members, err);
		if (rc < 0) {
			(void)err_wrap(err, "--array");
			return -EINVAL;
		}

		count = members;
		out->array_indices = text_copy(text, length);
		if (!out->array_indices)
			return err_set(err, -ENOMEM, "no memory for the indices");
	}

	out->array = WANTS_ARRAY_INDEXED;
	out->array_count = (uint32_t)count;
	out->array_parallel = (uint32_t)parallel;
	out->array_apart = true;

	return 0;
}

int run_wants_begin(const char *text, uint64_t *out_unix_ns, struct err *err)
{
	int64_t unix_ns;
	int rc = moment_parse(text, strlen(text), clock_unix_ns(), &unix_ns, err);
	if (rc == 0)
		*out_unix_ns = (uint64_t)unix_ns;
	return rc;
}

static int run_wants_order(const struct run_options *options, struct wants *out, struct err *err)
{
	out->hold = options->hold ? WANTS_HOLD_USER : WANTS_HOLD_NONE;
	out->retries = options->retries;
	out->retry_lost = options->retry_lost;

	int rc = options->begin ? run_wants_begin(options->begin, &out->begin_unix_ns, err) : 0;
	if (rc < 0)
		return err_wrap(err, "--begin");

	rc = run_wants_array(options->array, out, err);
	return rc < 0 ? rc : run_wants_after(options, out, err);
}

int run_wants_make(const struct run_options *options, struct wants *out, struct err *err)
{
	wants_init(out);
	int rc = run_wants_machine(options, out, err);
	if (rc == 0)
		rc = run_wants_workers(options, out, err);
	if (rc == 0)
		rc = run_wants_order(options, out, err);
	if (rc == 0)
		rc = wants_check(out, err);
	return rc == -E2BIG ? -EINVAL : rc;
}
