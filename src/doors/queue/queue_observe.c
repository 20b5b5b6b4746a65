/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which process is whose, and who was seen on which device. A process is a job's when one of its
 * ancestors is the supervisor or the command, when it is in the job's cgroup, or when it has the
 * attempt's instance in its environment.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/text.h"
#include "doors/queue/queue_internal.h"
#include "job/tree.h"
#include "hardware/snapshot.h"

enum {
	OBSERVE_DEPTH_MAX = 64, /* ancestors that are looked at */
	OBSERVE_KNOWN_MAX = 8192,
	OBSERVE_CGROUP_MAX = 4096,
	OBSERVE_ENVIRON_MAX = 2 << 20,
};

#define OBSERVE_INIT_PID_NS 0xEFFFFFFCU /* PROC_PID_INIT_INO of Linux */

const char *queue_user(struct queue *queue, uid_t uid)
{
	if (queue->user[0] && queue->user_uid == uid)
		return queue->user;

	(void)snprintf(queue->user, sizeof(queue->user), "uid %u", (unsigned)uid);
	queue->user_uid = uid;

	/* The file alone: asking a directory service could take for ever, and this is the loop. */
	_cleanup_fclose_ FILE *file = fopen("/etc/passwd", "re");
	struct passwd *entry;
	while (file && (entry = fgetpwent(file))) {
		if (entry->pw_uid != uid)
			continue;
		(void)snprintf(queue->user, sizeof(queue->user), "%s", entry->pw_name);
		break;
	}

	return queue->user;
}

/* --- whose a process is ---------------------------------------------------------------------- */

static struct queue_job *observe_by_pid(const struct queue *queue, pid_t pid)
{
	for (size_t i = 0; i < queue->count; i++) {
		const struct queue_run *run = queue->jobs[i]->run;
		if (run && (run->supervisor_pid == pid || run->pid == pid))
			return queue->jobs[i];
	}
	return NULL;
}

static struct queue_job *observe_by_ancestors(const struct queue *queue,
					      struct tree_process process)
{
	for (int depth = 0; depth < OBSERVE_DEPTH_MAX && process.pid > 1; depth++) {
		struct queue_job *job = observe_by_pid(queue, process.pid);
		if (job || tree_read(process.parent, &process, NULL) < 0)
			return job;
	}
	return NULL;
}

/* Whether "0::/a/b" of /proc/PID/cgroup is the end of the path of a cgroup, or below it. */
static bool observe_is_in(const char *line, const char *cgroup)
{
	const char *path = strstr(line, "::");
	if (!path || path[2] != '/' || path[3] == '\0' || path[3] == '\n')
		return false;

	path += 2;
	const char *name = strrchr(cgroup, '/'); /* job-12: also when the roots differ */
	size_t length = name ? strlen(name) : 0;

	for (const char *at = path; length > 1 && (at = strstr(at, name)); at++) {
		if (at[length] == '/' || at[length] == '\n' || at[length] == '\0')
			return true;
	}

	return false;
}

static bool observe_has_instance(const struct buf *environ_, const char *instance)
{
	static const char name[] = "SLUICE_JOB_INSTANCE=";
	const char *at = buf_text(environ_), *end = at + environ_->length;
	while (at < end) {
		size_t length = strnlen(at, (size_t)(end - at));
		if (text_starts_with(at, name))
			return strcmp(at + sizeof(name) - 1, instance) == 0;
		at += length + 1;
	}

	return false;
}

static bool observe_read(pid_t pid, const char *what, struct buf *out)
{
	char path[64];
	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, what); /* always fits */
	return file_read(path, out, NULL) == 0;
}

/* For what has become a child of somebody else. */
static struct queue_job *observe_by_marks(const struct queue *queue, pid_t pid)
{
	_cleanup_buf_ struct buf cgroup;
	_cleanup_buf_ struct buf environ_;

	buf_init(&cgroup, OBSERVE_CGROUP_MAX);
	buf_init(&environ_, OBSERVE_ENVIRON_MAX);

	bool has_cgroup = observe_read(pid, "cgroup", &cgroup);
	bool has_environ = observe_read(pid, "environ", &environ_);

	for (size_t i = 0; i < queue->count; i++) {
		const struct queue_run *run = queue->jobs[i]->run;
		if (!run || queue->jobs[i]->phase != QUEUE_LAUNCHED)
			continue;
		if (has_cgroup && run->cgroup[0] && observe_is_in(buf_text(&cgroup), run->cgroup))
			return queue->jobs[i];
		if (has_environ && run->instance[0] &&
		    observe_has_instance(&environ_, run->instance))
			return queue->jobs[i];
	}

	return NULL;
}

static struct queue_known *observe_known(const struct queue *queue, pid_t pid)
{
	for (size_t i = 0; i < queue->known_count; i++) {
		if (queue->known[i].pid == pid)
			return &queue->known[i];
	}
	return NULL;
}

static void observe_remember(struct queue *queue, const struct tree_process *process, uint64_t job)
{
	struct queue_known *known = observe_known(queue, process->pid);
	if (!known && (queue->known_count == OBSERVE_KNOWN_MAX ||
		       array_room(&queue->known, queue->known_count, &queue->known_room, 64) < 0))
		return; /* it is asked again */

	if (!known)
		known = &queue->known[queue->known_count++];
	*known = (struct queue_known){
	    .pid = process->pid, .start = process->start, .job = job, .used = true};
}

/* 0: none of ours. `out_alive`: whether there is such a process. */
static uint64_t observe_job_of(struct queue *queue, pid_t pid, bool *out_alive)
{
	struct tree_process process;
	struct queue_known *known = observe_known(queue, pid);

	*out_alive =
	    tree_read(pid, &process, NULL) == 0 && process.state != 'Z' && process.state != 'X';
	if (!*out_alive)
		return known ? known->job : 0;
	if (known && known->start == process.start) {
		known->used = true;
		return known->job;
	}

	const struct queue_job *job = observe_by_ancestors(queue, process);
	if (!job)
		job = observe_by_marks(queue, pid);

	bool certain = true; /* not while a supervisor is not known yet */
	for (size_t i = 0; i < queue->count && !job && certain; i++)
		certain = queue->jobs[i]->phase != QUEUE_LAUNCHED ||
			  queue->jobs[i]->run->supervisor_pid > 0;

	if (job || certain)
		observe_remember(queue, &process, job ? job->job.id : 0);

	return job ? job->job.id : 0;
}

const struct job *queue_job_of_process(const struct queue *queue, pid_t pid)
{
	struct tree_process process;
	if (tree_read(pid, &process, NULL) < 0)
		return NULL;

	const struct queue_known *known = observe_known(queue, pid);
	if (known && known->start == process.start)
		return known->job > 0 ? queue_find(queue, known->job) : NULL;

	const struct queue_job *job = observe_by_ancestors(queue, process);
	if (!job)
		job = observe_by_marks(queue, pid);

	return job ? &job->job : NULL;
}

/* Whether a process that we cannot see is gone, rather than in a PID namespace of others. */
static bool observe_sees_all(const struct queue *queue)
{
	struct stat status;
	return (queue->snapshot && queue->snapshot->simulated) ||
	       (stat("/proc/self/ns/pid", &status) == 0 && status.st_ino == OBSERVE_INIT_PID_NS);
}

const char *queue_whose(struct queue *queue, pid_t pid)
{
	bool alive;
	uint64_t job = observe_job_of(queue, pid, &alive);
	if (job > 0)
		return NULL;
	if (!alive)
		return observe_sees_all(queue) ? NULL : "";

	char path[64];
	struct stat status;

	(void)snprintf(path, sizeof(path), "/proc/%d", (int)pid); /* always fits */
	return stat(path, &status) == 0 ? queue_user(queue, status.st_uid) : "";
}

/* --- observations ---------------------------------------------------------------------------- */

static void observe_add(struct queue_run *run, pid_t pid, const char *uuid, int64_t unix_ns)
{
	for (size_t i = 0; i < run->observed_count; i++) {
		struct queue_observation *seen = &run->observed[i];
		if (seen->pid == pid && strcmp(seen->uuid, uuid) == 0) {
			seen->last_unix_ns = unix_ns;
			return;
		}
	}

	if (run->observed_count == RECORD_OBSERVATIONS_MAX)
		return; /* the first ones tell enough */

	if (array_room(&run->observed, run->observed_count, &run->observed_room, 4) < 0)
		return;

	struct queue_observation *seen = &run->observed[run->observed_count++];
	*seen = (struct queue_observation){
	    .pid = pid, .first_unix_ns = unix_ns, .last_unix_ns = unix_ns};
	(void)snprintf(seen->uuid, sizeof(seen->uuid), "%s", uuid);
}

static const char *observe_device(const struct snapshot_gpu *gpu,
				  const struct snapshot_process *process)
{
	for (uint32_t i = 0; process->gi != SNAPSHOT_WHOLE_GPU && i < gpu->mig_count; i++) {
		if (gpu->mig[i].gi == process->gi && gpu->mig[i].ci == process->ci)
			return gpu->mig[i].uuid;
	}
	return gpu->uuid;
}

void queue_observe(struct queue *queue)
{
	const struct snapshot *snapshot = queue->snapshot;

	for (size_t i = 0; i < queue->known_count; i++)
		queue->known[i].used = false;

	for (uint32_t g = 0; snapshot && g < snapshot->gpu_count; g++) {
		const struct snapshot_gpu *gpu = &snapshot->gpu[g];

		for (uint32_t p = 0; p < gpu->process_count; p++) {
			pid_t pid = (pid_t)gpu->process[p].pid;
			bool alive;
			uint64_t id = observe_job_of(queue, pid, &alive);
			struct queue_job *job = id > 0 ? queue_job_find(queue, id) : NULL;
			if (job && job->run)
				observe_add(job->run, pid, observe_device(gpu, &gpu->process[p]),
					    snapshot->taken_unix_ns);

			struct queue_known *known = observe_known(queue, pid);
			if (known)
				known->used = true;
		}
	}

	size_t kept = 0;
	for (size_t i = 0; i < queue->known_count; i++) {
		if (queue->known[i].used)
			queue->known[kept++] = queue->known[i];
	}

	queue->known_count = kept;
}
