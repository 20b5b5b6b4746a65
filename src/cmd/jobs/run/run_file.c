/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/run/run_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/paths.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/text.h"
#include "base/yaml.h"
#include "cmd/cmd.h"
#include "cmd/jobs/run/run_job.h"
#include "cmd/jobs/run/run_options.h"
#include "job/file/jobfile.h"
#include "policy/config.h"

struct run_file {
	const struct run_options *options;
	const char *name;
	struct jobfile *jobs;	      /* owned */
	struct config *config;	      /* owned; NULL: none that can be read */
	struct jobfile_place *places; /* owned; the command line's first */
	size_t place_count;
};

/* --- the call --------------------------------------------------------------------------------- */

int run_file_check(const struct run_options *options, char *const *argv, struct err *err)
{
	const char *said = options->lines			 ? "--lines"
			   : options->export			 ? "--export"
			   : options->gpus != RUN_GPUS_NOT_GIVEN ? "--gpus"
			   : options->gpu_ids			 ? "--gpu-ids"
			   : options->share			 ? "--share"
			   : options->resources.count		 ? "--resource"
			   : options->name			 ? "--name"
			   : options->image			 ? "--image"
			   : options->directory			 ? "--cwd"
			   : options->time_ns			 ? "--time"
			   : options->priority			 ? "--priority"
			   : options->cpus > 0			 ? "--cpus"
			   : options->mem_bytes			 ? "--mem"
			   : options->prefer			 ? "--prefer"
			   : options->gpu_type			 ? "--gpu-type"
			   : options->gpu_memory_bytes		 ? "--min-gpu-memory"
			   : options->tmpfs.count		 ? "--tmpfs"
			   : options->shm_bytes			 ? "--shm-size"
			   : options->entrypoint		 ? "--entrypoint"
			   : options->user			 ? "--user"
			   : options->pull			 ? "--pull"
			   : options->array			 ? "--array"
			   : options->retries			 ? "--retries"
			   : options->workers			 ? "--workers"
			   : options->pty			 ? "--pty"
			   : options->report			 ? "--report"
								 : NULL;
	if (said)
		return err_set(err, -EINVAL, "%s and --file exclude each other: the file says it",
			       said);
	if (argv[0])
		return err_set(err, -EINVAL, "with --file there is no command: the file says it");
	if (options->no_wait && options->wait_timeout_ns)
		return err_set(err, -EINVAL, "--no-wait and --wait-timeout exclude each other");

	if (options->quiet && options->verbose)
		return err_set(err, -EINVAL, "--quiet and --verbose exclude each other");

	return 0;
}

/* --- names that stand for directories --------------------------------------------------------- */

/* "NAME=PATH". */
static int run_file_place(const char *text, struct jobfile_place *out, struct err *err)
{
	const char *equals = strchr(text, '=');
	if (!equals || equals == text || equals[1] != '/')
		return err_set(
		    err, -EINVAL,
		    "--volume '%s': with --file it is NAME=PATH, for a claim or volume of "
		    "the file and an absolute path",
		    text);

	*out = (struct jobfile_place){
	    .name = text, .name_length = (size_t)(equals - text), .path = equals + 1};
	return 0;
}

/* What the machine's configuration says, where this user may read it; a mistake in it is the
 * agent's to tell. */
static void run_file_configured(struct run_file *file)
{
	char path[FILE_PATH_MAX];
	if (agent_paths_config(NULL, path, NULL) == 0 && path[0])
		(void)config_load(path, NULL, false, &file->config, NULL);
}

static int run_file_places(struct run_file *file, struct err *err)
{
	const struct option_list *given = &file->options->volumes;
	const struct config_jobs *jobs = file->config ? &file->config->jobs : NULL;
	size_t configured = jobs ? jobs->volume_count : 0;
	int rc = 0;

	file->places = calloc(given->count + configured + 1, sizeof(*file->places));
	if (!file->places)
		return err_set(err, -ENOMEM, "no memory for the volumes");

	for (size_t i = 0; rc == 0 && i < given->count; i++)
		rc = run_file_place(given->items[i], &file->places[file->place_count++], err);

	for (size_t i = 0; rc == 0 && i < configured; i++)
		file->places[file->place_count++] =
		    (struct jobfile_place){.name = jobs->volumes[i].name,
					   .name_length = strlen(jobs->volumes[i].name),
					   .path = jobs->volumes[i].path,
					   .read_only = jobs->volumes[i].is_read_only};

	return rc;
}

/* --- the file --------------------------------------------------------------------------------- */

static int run_file_read(const struct run_file *file, struct buf *out, struct err *err)
{
	bool is_stdin = strcmp(file->options->file, "-") == 0;
	int rc = is_stdin ? file_read_open(STDIN_FILENO, file->name, out, err)
			  : file_read(file->options->file, out, err);
	if (rc == -EFBIG)
		return err_set(err, -E2BIG, "%s: larger than %d MiB; this is no job file",
			       file->name, YAML_TEXT_MAX >> 20);
	return rc;
}

int run_file_load(const struct run_options *options, struct run_file **out, struct err *err)
{
	_cleanup_buf_ struct buf text;
	buf_init(&text, YAML_TEXT_MAX);

	struct run_file *file = calloc(1, sizeof(*file));
	if (!file)
		return err_set(err, -ENOMEM, "no memory for '%s'", options->file);

	file->options = options;
	file->name = strcmp(options->file, "-") == 0 ? "standard input" : options->file;
	run_file_configured(file);

	int rc = run_file_places(file, err);
	if (rc == 0)
		rc = run_file_read(file, &text, err);

	const struct jobfile_options how = {
	    .places = file->places,
	    .place_count = file->place_count,
	    .privileged = options->privileged,
	    .worker_command = options->worker_command ? JOBFILE_WORKER_SKIP : JOBFILE_WORKER_ASK};

	if (rc == 0)
		rc =
		    jobfile_parse(buf_text(&text), text.length, file->name, &how, &file->jobs, err);
	if (rc == 0 && options->key && jobfile_count(file->jobs) > 1)
		rc = err_set(err, -EINVAL, "%s: --key is for one job, and there are %zu in it",
			     file->name, jobfile_count(file->jobs));
	if (rc == 0)
		*out = take_ptr(file);
	(void)run_file_free(file);

	return rc;
}

struct run_file *run_file_free(struct run_file *file)
{
	if (!file)
		return NULL;
	(void)jobfile_free(file->jobs);
	(void)config_free(file->config);
	free(file->places);
	free(file);
	return NULL;
}

size_t run_file_count(const struct run_file *file)
{
	return jobfile_count(file->jobs);
}

uint32_t run_file_members(const struct run_file *file, size_t index)
{
	const struct jobfile_job *job = jobfile_at(file->jobs, index);
	return job->array != JOBFILE_ARRAY_NONE && !job->is_gang ? job->members : 0;
}

/* --- paths of this machine -------------------------------------------------------------------- */

static bool run_file_is_of_type(const char *type, mode_t mode)
{
	if (text_starts_with(type, "Directory"))
		return S_ISDIR(mode);
	if (text_starts_with(type, "File"))
		return S_ISREG(mode);
	if (strcmp(type, "Socket") == 0)
		return S_ISSOCK(mode);
	if (strcmp(type, "CharDevice") == 0)
		return S_ISCHR(mode);

	return strcmp(type, "BlockDevice") == 0 ? S_ISBLK(mode) : true;
}

/* As the kubelet checks a hostPath; what is missing is made as the caller. */
static int run_file_check_path(const struct run_file *file, const struct jobfile_mount *mount,
			       struct err *err)
{
	struct stat there;
	const char *path = mount->source, *type = mount->type;
	bool may_make = !file->options->dry_run;

	if (stat(path, &there) == 0) {
		if (run_file_is_of_type(type, there.st_mode))
			return 0;
		return err_set(err, -EINVAL, "%s:%u: hostPath '%s' is not of the type %s",
			       file->name, mount->line, path, type);
	}

	int code = errno;
	bool is_directory = strcmp(type, "DirectoryOrCreate") == 0;
	if (code == ENOENT && (is_directory || strcmp(type, "FileOrCreate") == 0)) {
		if (!may_make || (is_directory && mkdir(path, 0755) == 0))
			return 0;

		_cleanup_close_ int fd =
		    is_directory ? -1 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
		if (fd >= 0)
			return 0;

		code = errno;
	}

	return err_set(err, -EINVAL, "%s:%u: the path '%s' cannot be shown in the job: %s",
		       file->name, mount->line, path, err_describe(-code));
}

static int run_file_check_paths(const struct run_file *file, const struct jobfile_task *task,
				struct err *err)
{
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < task->mount_count; i++)
		if (task->mounts[i].storage == JOBFILE_STORAGE_HOST)
			rc = run_file_check_path(file, &task->mounts[i], err);
	return rc;
}

int run_file_make(const struct run_file *file, size_t index, struct run_job *out, struct err *err)
{
	const struct jobfile_job *job = jobfile_at(file->jobs, index);
	*out = (struct run_job){.request = {.spec = SLUICE__V1__JOB_SPEC__INIT}};
	int rc = run_file_check_paths(file, &job->task, err);
	if (rc == 0 && job->workers > 0)
		rc = run_file_check_paths(file, &job->worker, err);
	return rc < 0 ? rc : run_job_make(job, file->name, file->options, environ, out, err);
}

/* --- telling ---------------------------------------------------------------------------------- */

void run_file_tell(const struct run_file *file, size_t index, const struct cmd_call *call)
{
	const struct jobfile_job *job = jobfile_at(file->jobs, index);

	if (file->options->quiet)
		return;

	for (const struct jobfile_note *note = job->notes; note; note = note->next) {
		char text[ERR_TEXT_MAX + 256];
		(void)snprintf(text, sizeof(text), "%s: %.200s:%u: note: %s", call->path,
			       file->name, note->line, note->text);
		cmd_print(stderr, text);
		fputc('\n', stderr);
	}
}

void run_file_blame(const struct run_file *file, size_t index, struct err *err)
{
	const struct jobfile_job *job = jobfile_at(file->jobs, index);
	(void)err_wrap(err, "%s:%u: job '%s'", file->name, job->line, job->name);
}
