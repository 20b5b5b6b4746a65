/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Job files: Kubernetes' `v1 Pod`, `batch/v1 Job` and kubeflow's `MPIJob` as YAML or JSON, read
 * into plain structs that say what is to be run. A file that is accepted here means the same on a
 * cluster; jobfile_fields.h decides field by field. Pure: knows nothing of this machine, its files
 * or the queue.
 */
#ifndef SLUICE_JOB_FILE_JOBFILE_H
#define SLUICE_JOB_FILE_JOBFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct jobfile;

enum jobfile_limits {
	JOBFILE_NAME_MAX = 64,	     /* a DNS label (63) with its NUL */
	JOBFILE_MEMBERS_MAX = 10000, /* completions of a Job */
	JOBFILE_WORKERS_MAX = 256,   /* of an MPIJob */
	JOBFILE_RETRIES_MAX = 1000,
	JOBFILE_TEXT_MAX = 131072,	/* an argument or variable, expanded */
	JOBFILE_EXPANDED_MAX = 1 << 20, /* all of a container */
	JOBFILE_UNITS_MAX = 16384,	/* of a resource */
	JOBFILE_DEFAULT_RETRIES = 6,	/* Kubernetes' default of backoffLimit */
};

enum jobfile_kind { JOBFILE_POD, JOBFILE_JOB, JOBFILE_MPIJOB };

/* A name that stands for a directory of this machine: a claim, a ConfigMap, a Secret, a volume. */
struct jobfile_place {
	const char *name; /* borrowed */
	size_t name_length;
	const char *path; /* borrowed */
	bool read_only;
};

/* What the caller decides; zeroes are the defaults. */
struct jobfile_options {
	const struct jobfile_place *places; /* borrowed during the call */
	size_t place_count;
	bool privileged; /* allowed */
	enum { JOBFILE_WORKER_ASK, JOBFILE_WORKER_SKIP, JOBFILE_WORKER_RUN } worker_command;
};

struct jobfile_variable {
	const char *name, *value;
};

enum jobfile_storage {
	JOBFILE_STORAGE_HOST,	/* `source`, a path of this machine */
	JOBFILE_STORAGE_MEMORY, /* a tmpfs */
	JOBFILE_STORAGE_EMPTY,	/* a directory that ends with the job */
};
struct jobfile_mount {
	enum jobfile_storage storage;
	const char *target, *source;
	const char *type;    /* of a hostPath: "Directory", ...; "" */
	uint64_t size_bytes; /* of a tmpfs; 0: no limit */
	bool read_only;
	uint32_t line;
};

struct jobfile_resource {
	const char *name; /* "rdma/hca" */
	uint32_t units;
};

enum jobfile_pull { JOBFILE_PULL_MISSING, JOBFILE_PULL_NEVER, JOBFILE_PULL_ALWAYS };

/* A container and what its pod says of it. */
struct jobfile_task {
	const char *image, *directory; /* directory: "" as the image says */
	enum jobfile_pull pull;
	const char **command, **arguments; /* expanded */
	size_t command_count, argument_count;
	struct jobfile_variable *variables; /* expanded */
	size_t variable_count;
	struct jobfile_mount *mounts;
	size_t mount_count;
	uint32_t gpus;
	bool is_shared;		       /* a slot of each GPU: nvidia.com/gpu.shared */
	const char *mig_profile;       /* "1g.10gb": the GPUs are MIG devices; NULL */
	uint64_t cpu_milli, mem_bytes; /* 0: no limit */
	struct jobfile_resource *resources;
	size_t resource_count;
	bool non_root; /* it is not to run as user 0 */
	bool has_user, has_group;
	uint32_t user, group;
	bool privileged, memlock;
	uint32_t line;
};

enum jobfile_array {
	JOBFILE_ARRAY_NONE,
	JOBFILE_ARRAY_PLAIN,
	JOBFILE_ARRAY_INDEXED,
	JOBFILE_ARRAY_QUEUE
};
enum jobfile_mpi { JOBFILE_MPI_OPENMPI, JOBFILE_MPI_INTEL, JOBFILE_MPI_MPICH };

struct jobfile_note {
	const struct jobfile_note *next; /* in the order in which they were made */
	uint32_t line;
	const char *text;
};

/* One job, ready to be asked for. Everything borrowed: valid until jobfile_free(). */
struct jobfile_job {
	enum jobfile_kind kind;
	uint32_t line; /* where its document begins */
	char name[JOBFILE_NAME_MAX];
	const char *namespace;	  /* "default" */
	struct jobfile_task task; /* of an MPIJob: the launcher */
	enum jobfile_array array;
	uint32_t members, parallel; /* of an array */
	bool is_gang;		    /* all members at once, as ranks of one job */
	uint32_t retries;
	uint64_t deadline_s; /* 0: none */
	bool has_ttl, has_grace, is_suspended, retry_lost;
	uint64_t ttl_s, grace_s;
	int32_t priority;
	const char *isolation, *prefer, *share, *begin, *signal; /* annotations; NULL */

	uint32_t workers; /* of an MPIJob; 0: none */
	uint32_t slots;
	bool launcher_is_worker;
	enum jobfile_mpi mpi;
	struct jobfile_task worker;

	const struct jobfile_note *notes;
};

/*
 * Reads a file of up to 1 MiB. `name` is what errors call it. -EINVAL with file:line:column and the
 * path of the field, -E2BIG, -ENOMEM. Takes any bytes.
 */
int jobfile_parse(const char *text, size_t length, const char *name,
		  const struct jobfile_options *options, struct jobfile **out, struct err *err);
struct jobfile *jobfile_free(struct jobfile *file);

size_t jobfile_count(const struct jobfile *file);
const struct jobfile_job *jobfile_at(const struct jobfile *file, size_t index);

#endif
