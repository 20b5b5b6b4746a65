/* SPDX-License-Identifier: Apache-2.0 */
/* MPIJob v2beta1, by the rules of mpi-operator 0.8.0. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/domain.h"
#include "base/yaml.h"
#include "job/file/jobfile_fields.h"
#include "job/file/jobfile_kinds.h"
#include "job/file/jobfile_reader.h"

static const char launcher_path[] = "spec.mpiReplicaSpecs.Launcher";
static const char worker_path[] = "spec.mpiReplicaSpecs.Worker";

static int mpi_restart(const struct jobreader *reader, const struct yaml_node *policy)
{
	if (!policy || strcmp(policy->text, "Never") == 0 || strcmp(policy->text, "OnFailure") == 0)
		return 0;
	return objschema_fail(&reader->schema, policy, ".restartPolicy",
			      "'%.64s' is not supported here: write Never or OnFailure",
			      policy->text);
}

/* What the operator does not look at either. */
static int mpi_pod_restart(struct jobreader *reader, const struct raw_pod *pod)
{
	if (!pod->restart_policy)
		return 0;
	return jobreader_note(
	    reader, pod->restart_policy->line,
	    "restartPolicy inside a template has no effect; that of the replica counts");
}

static int mpi_implementation(struct jobreader *reader, const struct yaml_node *node)
{
	static const struct {
		const char *name;
		enum jobfile_mpi mpi;
	} known[] = {{"OpenMPI", JOBFILE_MPI_OPENMPI},
		     {"Intel", JOBFILE_MPI_INTEL},
		     {"MPICH", JOBFILE_MPI_MPICH}};

	for (size_t i = 0; node && i < array_length(known); i++) {
		if (strcmp(node->text, known[i].name) != 0)
			continue;
		reader->job->mpi = known[i].mpi;
		return 0;
	}

	if (!node)
		return 0;

	return objschema_fail(&reader->schema, node, ".mpiImplementation",
			      "'%.64s' is none of OpenMPI, Intel and MPICH", node->text);
}

/* <name>-worker-<n-1> has to be a DNS label that begins with a letter (RFC 1035). */
static int mpi_check_name(const struct jobreader *reader, const struct yaml_node *name,
			  uint32_t workers)
{
	const struct jobfile_job *job = reader->job;
	char host[JOBFILE_NAME_MAX + 32];
	int length =
	    snprintf(host, sizeof(host), "%s-worker-%u", job->name, workers ? workers - 1 : 0);
	bool is_label = job->name[0] >= 'a' && job->name[0] <= 'z' && !strchr(name->text, '.');
	if (is_label && length < JOBFILE_NAME_MAX)
		return 0;

	return objschema_fail(
	    &reader->schema, name, NULL,
	    "'%s' is no name of a host: it has to begin with a letter, without '.', "
	    "and have at most %d characters",
	    host, JOBFILE_NAME_MAX - 1);
}

static bool mpi_waits(const struct jobfile_task *worker)
{
	if (worker->command_count + worker->argument_count == 0)
		return true;

	const char *first = worker->command_count ? worker->command[0] : worker->arguments[0];
	const char *slash = strrchr(first, '/'), *base = slash ? slash + 1 : first;
	const char *second = worker->command_count > 1 ? worker->command[1]
			     : worker->command_count == 1 && worker->argument_count > 0
				 ? worker->arguments[0]
			     : worker->argument_count > 1 ? worker->arguments[1]
							  : "";

	return strcmp(base, "sshd") == 0 || strcmp(base, "sleep") == 0 ||
	       (strcmp(first, "/sluice/rsh") == 0 && strcmp(second, "serve") == 0);
}

static int mpi_worker_command(struct jobreader *reader, const struct raw_pod *pod)
{
	const struct raw_container *container = pod->containers.items;
	const struct objschema_list *list =
	    container->command.count > 0 ? &container->command : &container->arguments;

	if (mpi_waits(&reader->job->worker))
		return 0;
	if (reader->options->worker_command == JOBFILE_WORKER_SKIP)
		return jobreader_note(reader, list->node->line,
				      "the workers' command is not run (--worker-command skip)");

	return objschema_fail(
	    &reader->schema, list->node, list == &container->command ? ".command" : ".args",
	    "not supported here: workers are started by mpirun and run nothing of "
	    "their own; take it away, or leave it out here with --worker-command "
	    "skip");
}

static int mpi_worker(struct jobreader *reader, const struct raw_replica *raw,
		      const struct yaml_node *name)
{
	struct jobfile_job *job = reader->job;
	char path[OBJSCHEMA_PATH_MAX];

	jobreader_at(reader, worker_path);
	if (!raw->replicas.node || raw->replicas.value < 1)
		return objschema_fail(
		    &reader->schema, raw->replicas.node ? raw->replicas.node : raw->node,
		    ".replicas", "at least 1 is wanted; leave Worker out for none");

	if (raw->replicas.value > JOBFILE_WORKERS_MAX - 1)
		return objschema_fail(&reader->schema, raw->replicas.node, ".replicas",
				      "%lld are more than the %d that a job can have",
				      (long long)raw->replicas.value, JOBFILE_WORKERS_MAX - 1);

	job->workers = (uint32_t)raw->replicas.value;
	int rc = mpi_restart(reader, raw->restart_policy);
	if (rc == 0 && !raw->template.pod.node)
		rc = objschema_fail(&reader->schema, raw->node, ".template.spec", "is missing");
	if (rc == 0)
		rc = mpi_pod_restart(reader, &raw->template.pod);
	(void)snprintf(path, sizeof(path), "%s.template.spec", worker_path); /* fits */

	if (rc == 0)
		rc = jobreader_task(reader, &raw->template.pod, path, &job->worker);
	if (rc == 0)
		rc = mpi_worker_command(reader, &raw->template.pod);
	jobreader_at(reader, "metadata.name");

	return rc < 0 ? rc : mpi_check_name(reader, name, job->workers);
}

/* The queue gives GPUs to workers alone, and as many to each. */
static int mpi_launcher_gpus(struct jobreader *reader, const struct raw_replica *raw)
{
	struct jobfile_job *job = reader->job;
	uint32_t launcher = job->task.gpus, worker = job->worker.gpus;
	bool same_kind =
	    job->task.is_shared == job->worker.is_shared &&
	    !job->task.mig_profile == !job->worker.mig_profile &&
	    (!job->task.mig_profile || strcmp(job->task.mig_profile, job->worker.mig_profile) == 0);

	jobreader_at(reader, launcher_path);
	if (job->workers == 0 || (launcher == 0 && !job->launcher_is_worker))
		return 0;

	if (!job->launcher_is_worker)
		return objschema_fail(
		    &reader->schema, raw->node, NULL,
		    "not supported here: GPUs of the launcher beside those of the "
		    "workers; with runLauncherAsWorker: true it is one of them");

	if (launcher != worker || !same_kind)
		return objschema_fail(
		    &reader->schema, raw->node, NULL,
		    "not supported here: with runLauncherAsWorker the launcher needs "
		    "the same GPUs as a worker (%u), not %u",
		    worker, launcher);

	return 0;
}

static int mpi_launcher(struct jobreader *reader, const struct raw_replica *raw)
{
	char path[OBJSCHEMA_PATH_MAX];

	jobreader_at(reader, launcher_path);
	if (raw->replicas.node && raw->replicas.value != 1)
		return objschema_fail(&reader->schema, raw->replicas.node, ".replicas",
				      "a job has one launcher");

	int rc = mpi_restart(reader, raw->restart_policy);
	if (rc == 0 && !raw->template.pod.node)
		rc = objschema_fail(&reader->schema, raw->node, ".template.spec", "is missing");
	if (rc == 0)
		rc = mpi_pod_restart(reader, &raw->template.pod);
	(void)snprintf(path, sizeof(path), "%s.template.spec", launcher_path); /* fits */

	return rc < 0 ? rc : jobreader_task(reader, &raw->template.pod, path, &reader->job->task);
}

static int mpi_policy(struct jobreader *reader, const struct raw_mpijob *raw)
{
	const struct raw_run_policy *policy = &raw->policy;

	jobreader_at(reader, "spec.runPolicy");
	reader->job->is_suspended = policy->suspend.value;

	int rc =
	    kinds_managed(reader, policy->managed_by, ".managedBy", "kubeflow.org/mpi-operator");
	if (rc == 0)
		rc = kinds_deadline(reader, &policy->deadline, ".activeDeadlineSeconds");
	if (rc == 0)
		rc = kinds_retries(reader, &policy->backoff_limit);
	kinds_times(reader, &policy->deadline, &policy->ttl, &raw->replicas.launcher.template.pod);

	return rc;
}

int kinds_mpijob(struct jobreader *reader, const struct raw_document *document)
{
	const struct raw_mpijob *raw = &document->mpijob;
	const struct raw_replicas *replicas = &raw->replicas;
	struct jobfile_job *job = reader->job;

	jobreader_at(reader, "spec");
	if (!raw->node || !replicas->launcher.node)
		return objschema_fail(&reader->schema, raw->node ? raw->node : document->node,
				      raw->node ? ".mpiReplicaSpecs.Launcher" : NULL, "is missing");

	if (job->is_gang)
		return objschema_fail(&reader->schema, raw->node, NULL,
				      SLUICE_DOMAIN
				      "/gang is for an Indexed Job; an MPIJob always starts as "
				      "one");

	job->slots = raw->slots.node ? (uint32_t)raw->slots.value : 1;
	job->launcher_is_worker = raw->launcher_is_worker.value;

	int rc = mpi_implementation(reader, raw->implementation);
	if (rc == 0)
		rc = mpi_policy(reader, raw);
	if (rc == 0)
		rc = mpi_launcher(reader, &replicas->launcher);
	if (rc == 0 && replicas->worker.node)
		rc = mpi_worker(reader, &replicas->worker,
				document->metadata.name ? document->metadata.name
							: document->metadata.generate_name);

	if (rc == 0)
		rc = mpi_launcher_gpus(reader, &replicas->launcher);
	if (rc == 0 && job->launcher_is_worker && job->workers == 0)
		job->worker = job->task;
	if (rc == 0 && job->launcher_is_worker)
		job->workers++;

	return rc;
}
