/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/run/run_job.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/domain.h"
#include "base/err.h"
#include "cmd/jobs/run/run_options.h"
#include "cmd/jobs/run/run_wants.h"
#include "job/wants.h"
#include "job/file/jobfile.h"

#define RUN_JOB_SECOND_NS UINT64_C(1000000000)
#define RUN_JOB_DELAY_NS  (10 * RUN_JOB_SECOND_NS) /* of the first retry, as Kubernetes' */
#define RUN_JOB_GRACE_S	  30			   /* Kubernetes' default */

_Static_assert((int)JOBFILE_MEMBERS_MAX <= (int)WANTS_ARRAY_MAX, "what is read can be asked for");
_Static_assert((int)JOBFILE_WORKERS_MAX <= (int)WANTS_WORKERS_MAX, "what is read can be asked for");
_Static_assert((int)JOBFILE_RETRIES_MAX <= (int)WANTS_RETRIES_MAX, "what is read can be asked for");

/* One making. */
struct maker {
	const struct jobfile_job *job;
	const char *file;
	const struct run_options *given;
	struct run_options own; /* as if the job had been given on the command line */
	struct run_job *out;
	struct err *err;
};

static int maker_no_memory(const struct maker *maker)
{
	return err_set(maker->err, -ENOMEM, "%s: out of memory", maker->file);
}

static int maker_fail(const struct maker *maker, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static int maker_fail(const struct maker *maker, uint32_t line, const char *format, ...)
{
	char text[ERR_TEXT_MAX];
	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(text, sizeof(text), format, arguments); /* cut where it is longer */
	va_end(arguments);
	return err_set(maker->err, -EINVAL, "%s:%u: job '%s': %s", maker->file, line,
		       maker->job->name, text);
}

static char *maker_text(const struct maker *maker, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static char *maker_text(const struct maker *maker, const char *format, ...)
{
	va_list arguments, again;
	va_start(arguments, format);
	va_copy(again, arguments);

	int length = vsnprintf(NULL, 0, format, arguments);
	char *text = length < 0 ? NULL : jobfile_arena_take(&maker->out->arena, (size_t)length + 1);
	if (text)
		(void)vsnprintf(text, (size_t)length + 1, format, again); /* fits */
	va_end(again);
	va_end(arguments);

	return text;
}

/* A list with room for `count` more than it has. */
static int maker_list(const struct maker *maker, const struct option_list *given, size_t count,
		      struct option_list *out)
{
	size_t before = given ? given->count : 0;
	const char **items =
	    jobfile_arena_take(&maker->out->arena, (before + count + 1) * sizeof(*items));
	if (!items)
		return maker_no_memory(maker);
	*out = (struct option_list){.items = items};
	return 0;
}

static int maker_add(const struct maker *maker, struct option_list *list, const char *text)
{
	if (!text)
		return maker_no_memory(maker);
	list->items[list->count++] = text;
	return 0;
}

/* --- the container ---------------------------------------------------------------------------- */

/* Those of the file, and after them those of the command line, which win. */
static int maker_environment(struct maker *maker, const struct jobfile_task *task,
			     struct option_list *out)
{
	const struct option_list *given = &maker->given->environment;
	int rc = maker_list(maker, given, task->variable_count, out);
	for (size_t i = 0; rc == 0 && i < task->variable_count; i++)
		rc = maker_add(
		    maker, out,
		    maker_text(maker, "%s=%s", task->variables[i].name, task->variables[i].value));

	for (size_t i = 0; rc == 0 && i < given->count; i++)
		rc = maker_add(maker, out, given->items[i]);

	return rc;
}

static bool maker_has(const struct option_list *list, const char *text)
{
	for (size_t i = 0; i < list->count; i++)
		if (strcmp(list->items[i], text) == 0)
			return true;
	return false;
}

static int maker_mount(struct maker *maker, const struct jobfile_mount *mount)
{
	char *text = NULL;
	struct option_list *list = &maker->own.volumes;

	switch (mount->storage) {
	case JOBFILE_STORAGE_HOST:
		text = maker_text(maker, "%s:%s%s", mount->source, mount->target,
				  mount->read_only ? ":ro" : "");
		break;
	case JOBFILE_STORAGE_EMPTY: /* a volume without a name, which ends with the container */
		text = maker_text(maker, "%s", mount->target);
		break;
	case JOBFILE_STORAGE_MEMORY:
		list = &maker->own.tmpfs;
		text = mount->size_bytes
			   ? maker_text(maker, "%s:%" PRIu64, mount->target, mount->size_bytes)
			   : maker_text(maker, "%s", mount->target);
		break;
	}

	if (text && maker_has(list, text))
		return 0; /* of launcher and worker alike */

	return maker_add(maker, list, text);
}

/* Without a container there is nothing to show a directory elsewhere. */
static int maker_mount_on_host(const struct maker *maker, const struct jobfile_mount *mount)
{
	bool is_there = mount->storage == JOBFILE_STORAGE_HOST
			    ? strcmp(mount->source, mount->target) == 0
			    : mount->storage == JOBFILE_STORAGE_MEMORY &&
				  strcmp(mount->target, "/dev/shm") == 0;
	if (is_there)
		return 0;

	return maker_fail(
	    maker, mount->line,
	    "with --host nothing can be shown at '%.128s'; only a hostPath at its own "
	    "place, and /dev/shm, are there",
	    mount->target);
}

static int maker_mounts(struct maker *maker, const struct jobfile_task *task)
{
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < task->mount_count; i++)
		rc = maker->given->host ? maker_mount_on_host(maker, &task->mounts[i])
					: maker_mount(maker, &task->mounts[i]);
	return rc;
}

static int maker_user(struct maker *maker, const struct jobfile_task *task)
{
	if (maker->given->host && task->non_root && geteuid() == 0)
		return maker_fail(maker, task->line,
				  "runAsNonRoot: with --host the job runs as who submits it, and "
				  "that is root");

	if (!task->has_user && !task->has_group)
		return 0;

	if (maker->given->host) {
		bool is_caller = (!task->has_user || task->user == geteuid()) &&
				 (!task->has_group || task->group == getegid());
		if (is_caller)
			return 0;

		return maker_fail(
		    maker, task->line,
		    "runAsUser/runAsGroup: with --host the job runs as who submits it");
	}

	uint32_t user = task->has_user ? task->user : 0;
	char *text = task->has_group ? maker_text(maker, "%u:%u", user, task->group)
				     : maker_text(maker, "%u", user);
	if (!text)
		return maker_no_memory(maker);
	if (!task->has_user)
		return maker_fail(maker, task->line, "runAsGroup needs runAsUser beside it");

	if (maker->own.user && strcmp(maker->own.user, text) != 0)
		return maker_fail(
		    maker, task->line,
		    "launcher and workers run as different users (%s and %s); here it is "
		    "one for all",
		    maker->own.user, text);

	maker->own.user = text;
	return 0;
}

static int maker_container(struct maker *maker)
{
	const struct jobfile_job *job = maker->job;
	const struct jobfile_task *task = &job->task;
	struct run_options *own = &maker->own;
	size_t mounts = task->mount_count + job->worker.mount_count;
	int rc = maker_list(maker, NULL, mounts, &own->volumes);
	if (rc == 0)
		rc = maker_list(maker, NULL, mounts, &own->tmpfs);

	if (rc == 0)
		rc = maker_environment(maker, task, &own->environment);
	if (rc == 0)
		rc = maker_mounts(maker, task);
	if (rc == 0 && job->workers > 0)
		rc = maker_mounts(maker, &job->worker);
	if (rc == 0)
		rc = maker_user(maker, task);

	if (rc == 0 && job->workers > 0)
		rc = maker_user(maker, &job->worker);
	own->directory = *task->directory ? task->directory : NULL;
	if (rc < 0)
		return rc;

	if (maker->given->host) {
		if (task->command_count == 0)
			return maker_fail(maker, task->line,
					  "the image says what to run: --host needs a command");
		return 0;
	}

	own->image = task->image;
	own->pull = task->pull; /* the same order */
	own->privileged = task->privileged || job->worker.privileged;

	return 0;
}

/* --- what it takes ---------------------------------------------------------------------------- */

static int maker_add_resource(struct maker *maker, const char *name, uint64_t units)
{
	struct option_list *list = &maker->own.resources;
	return maker_add(maker, list, maker_text(maker, "%s=%" PRIu64, name, units));
}

/* Of all processes together: that is how the queue counts. */
static int maker_resources(struct maker *maker)
{
	const struct jobfile_job *job = maker->job;
	const struct jobfile_task *task = &job->task, *worker = &job->worker;
	uint32_t others = job->workers - (job->workers > 0 && job->launcher_is_worker);
	uint32_t times = job->is_gang ? job->members : 1;
	uint64_t cpu = 0, mem = 0, part = 0;
	bool fits = size_mul(task->cpu_milli, times, &cpu) &&
		    size_mul(worker->cpu_milli, others, &part) && size_add(cpu, part, &cpu) &&
		    size_mul(task->mem_bytes, times, &mem) &&
		    size_mul(worker->mem_bytes, others, &part) && size_add(mem, part, &mem);
	if (!fits || cpu > (uint64_t)RUN_CPUS_MAX * 1000)
		return maker_fail(maker, job->line,
				  "more processors or memory than can be counted");

	maker->own.cpus = (double)cpu / 1000;
	maker->own.mem_bytes = mem;

	int rc = maker_list(maker, NULL, task->resource_count + worker->resource_count,
			    &maker->own.resources);

	for (size_t i = 0; rc == 0 && i < task->resource_count; i++) {
		const struct jobfile_resource *one = &task->resources[i];
		uint64_t units = (uint64_t)one->units * times;
		for (size_t k = 0; others > 0 && k < worker->resource_count; k++)
			if (strcmp(worker->resources[k].name, one->name) == 0)
				units += (uint64_t)worker->resources[k].units * others;

		rc = maker_add_resource(maker, one->name, units);
	}

	for (size_t i = 0; rc == 0 && others > 0 && i < worker->resource_count; i++) {
		bool is_there = false;
		for (size_t k = 0; k < task->resource_count; k++)
			is_there = is_there ||
				   strcmp(task->resources[k].name, worker->resources[i].name) == 0;

		if (!is_there)
			rc = maker_add_resource(maker, worker->resources[i].name,
						(uint64_t)worker->resources[i].units * others);
	}

	return rc;
}

static int maker_gpus(struct maker *maker)
{
	const struct jobfile_job *job = maker->job;
	bool has_workers = job->workers > 0;
	const struct jobfile_task *holder = has_workers ? &job->worker : &job->task;
	uint64_t gpus = (uint64_t)holder->gpus * (has_workers	 ? job->workers
						  : job->is_gang ? job->members
								 : 1);
	if (gpus > RUN_GPUS_MAX)
		return maker_fail(maker, job->line,
				  "%" PRIu64 " GPUs are more than the %d that one "
				  "job can ask for",
				  gpus, RUN_GPUS_MAX);

	maker->own.gpus = (uint32_t)gpus;
	if (gpus > 0 && (holder->is_shared || job->share))
		maker->own.share = job->share ? job->share : "slot";
	if (!holder->mig_profile)
		return 0;

	char *glob = maker_text(maker, "*MIG %s", holder->mig_profile);
	maker->own.gpu_type = glob;
	return glob ? 0 : maker_no_memory(maker);
}

static void maker_workers(const struct maker *maker, struct wants *wants)
{
	static const uint32_t launchers[] = {[JOBFILE_MPI_OPENMPI] = WANTS_LAUNCHER_OPENMPI,
					     [JOBFILE_MPI_INTEL] = WANTS_LAUNCHER_INTEL,
					     [JOBFILE_MPI_MPICH] = WANTS_LAUNCHER_MPICH};
	const struct jobfile_job *job = maker->job;

	if (job->workers > 0) {
		wants->launcher = launchers[job->mpi];
		wants->workers = job->workers;
		wants->worker_gpus = job->worker.gpus;
		wants->worker_slots = job->slots;
		wants->launcher_is_worker = job->launcher_is_worker;
		wants->oversubscribe = maker->given->oversubscribe;
	} else if (job->is_gang) {
		wants->launcher = WANTS_LAUNCHER_RANKS;
		wants->workers = job->members;

		wants->worker_gpus = job->task.gpus;
		wants->worker_slots = 1;
	} else {
		static const uint32_t arrays[] = {[JOBFILE_ARRAY_NONE] = WANTS_ARRAY_NONE,
						  [JOBFILE_ARRAY_PLAIN] = WANTS_ARRAY_PLAIN,
						  [JOBFILE_ARRAY_INDEXED] = WANTS_ARRAY_INDEXED,
						  [JOBFILE_ARRAY_QUEUE] = WANTS_ARRAY_WORK_QUEUE};
		wants->array = arrays[job->array];
		wants->array_count = job->array != JOBFILE_ARRAY_NONE ? job->members : 0;
		wants->array_parallel = job->array != JOBFILE_ARRAY_NONE ? job->parallel : 0;
	}
}

/* Added to what the options gave. */
static int maker_wants(const struct maker *maker)
{
	const struct jobfile_job *job = maker->job;
	struct run_request *request = &maker->out->request;
	struct wants *wants = &request->wants;

	wants->retries = job->retries;
	wants->retry_delay_ns = job->retries ? RUN_JOB_DELAY_NS : 0;
	wants->retry_lost = job->retry_lost;
	wants->has_ttl = job->has_ttl;
	wants->ttl_ns = job->ttl_s * RUN_JOB_SECOND_NS;
	wants->hold = job->is_suspended ? WANTS_HOLD_SUSPENDED : wants->hold;
	if (job->isolation && isolation_asked_from_string(job->isolation, &wants->isolation) < 0)
		return maker_fail(maker, job->line,
				  "the annotation " SLUICE_DOMAIN
				  "/isolation: '%.64s' is no isolation: best, "
				  "require, cgroup, landlock, env, container or none",
				  job->isolation);

	if (job->begin && !maker->given->begin) { /* the command line comes first */
		struct err why = {0};
		if (run_wants_begin(job->begin, &wants->begin_unix_ns, &why) < 0)
			return maker_fail(maker, job->line,
					  "the annotation " SLUICE_DOMAIN "/begin: %s", why.text);
	}

	maker_workers(maker, wants);
	return run_request_wants(request, maker->err);
}

/* What options cannot say. */
static int maker_rest(struct maker *maker)
{
	const struct jobfile_job *job = maker->job;
	Sluice__V1__JobSpec *spec = &maker->out->request.spec;
	struct option_list inside;

	spec->memlock = job->task.memlock || job->worker.memlock;
	if (maker->given->host)
		return 0;

	spec->entrypoint = (uint32_t)job->task.command_count;
	if (job->workers == 0)
		return 0;
	if (strcmp(job->worker.image, job->task.image) != 0)
		spec->worker_image = (char *)job->worker.image;

	int rc = maker_environment(maker, &job->worker, &inside);
	if (rc < 0)
		return rc;

	ProtobufCBinaryData *list =
	    jobfile_arena_take(&maker->out->arena, (inside.count + 1) * sizeof(*list));
	if (!list)
		return maker_no_memory(maker);

	for (size_t i = 0; i < inside.count; i++)
		list[i] = (ProtobufCBinaryData){.len = strlen(inside.items[i]),
						.data = (uint8_t *)inside.items[i]};

	spec->worker_environment = list;
	spec->n_worker_environment = inside.count;
	return 0;
}

static char *const *maker_argv(const struct maker *maker)
{
	const struct jobfile_task *task = &maker->job->task;
	size_t count = task->command_count + task->argument_count;
	char **argv = jobfile_arena_take(&maker->out->arena, (count + 1) * sizeof(*argv));

	for (size_t i = 0; argv && i < count; i++)
		argv[i] =
		    (char *)(i < task->command_count ? task->command[i]
						     : task->arguments[i - task->command_count]);

	return argv;
}

int run_job_make(const struct jobfile_job *job, const char *file, const struct run_options *options,
		 char *const *environment, struct run_job *out, struct err *err)
{
	*out = (struct run_job){.request = {.spec = SLUICE__V1__JOB_SPEC__INIT}};
	struct run_options *own = jobfile_arena_take(&out->arena, sizeof(*own));
	if (!own)
		return err_set(err, -ENOMEM, "%s: out of memory", file);

	struct maker maker = {
	    .job = job, .file = file, .given = options, .own = *options, .out = out, .err = err};
	int rc = maker_container(&maker);
	if (rc == 0)
		rc = maker_resources(&maker);
	if (rc == 0)
		rc = maker_gpus(&maker);

	if (rc < 0)
		return rc;

	maker.own.name = job->name;
	maker.own.priority = job->priority;
	maker.own.prefer = job->prefer;
	maker.own.signal = job->signal ? job->signal : options->signal;
	maker.own.time_ns = job->deadline_s * RUN_JOB_SECOND_NS;
	maker.own.grace_ns = (job->has_grace ? job->grace_s : RUN_JOB_GRACE_S) * RUN_JOB_SECOND_NS;
	*own = maker.own; /* the request borrows it */
	char *const *argv = maker_argv(&maker);

	if (!argv)
		return maker_no_memory(&maker);

	rc = run_request_make(own, argv, environment, &out->request, err);
	if (rc < 0)
		return err_wrap(err, "%s:%u: job '%s'", file, job->line, job->name);

	rc = maker_rest(&maker);
	return rc < 0 ? rc : maker_wants(&maker);
}

void run_job_done(struct run_job *job)
{
	run_request_done(&job->request);
	jobfile_arena_done(&job->arena);
}
