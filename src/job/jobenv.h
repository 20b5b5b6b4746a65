/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment of a job: the submitter's, without what belongs to another job or another
 * launcher, and with the GPUs that this one got. Pure. Knows nothing of how the job is run.
 */
#ifndef SLUICE_JOB_JOBENV_H
#define SLUICE_JOB_JOBENV_H

#include <stdbool.h>
#include <stddef.h>

struct err;

enum jobenv_limits {
	JOBENV_BYTES_MAX = 1 << 20, /* of the submitter's environment */
};

struct jobenv_job {
	const char *id, *name;
	const char *attempt;	  /* NULL: 1 */
	const char *instance;	  /* of the attempt: found again in /proc/PID/environ; NULL: none */
	const char *const *uuids; /* of its GPUs and MIG devices; none: a CPU job */
	size_t uuid_count;
	const char *array_id, *array_index; /* NULL: it is in no array */
	bool is_indexed;		    /* and its index is what Kubernetes gives it */
	const char *adapters; /* "mlx5_0,mlx5_1": RDMA adapters that it got; NULL or "": none */
};

/*
 * Removed: CUDA_VISIBLE_DEVICES, NVIDIA_VISIBLE_DEVICES, NOTIFY_SOCKET, what MPI launchers
 * (OMPI_, PMIX_, PMI_, PRTE_, HYDRA_) and systemd's socket activation (LISTEN_) leave, and
 * JOB_COMPLETION_INDEX, SLUICE_*, except those which say which machine and which agent this is
 * (SLUICE_SIM_*, SLUICE_ROOT, SLUICE_RUNTIME_DIR, SLUICE_STATE_DIR, SLUICE_SOCKET,
 * SLUICE_PROFILES). Set: CUDA_VISIBLE_DEVICES (UUIDs, which stay right whatever the order; empty
 * means none), CUDA_DEVICE_ORDER=PCI_BUS_ID, NVIDIA_VISIBLE_DEVICES (for containers that the job
 * starts; "void" means none), SLUICE_GPUS, SLUICE_RDMA and, unless the submitter has said something
 * else, NCCL_IB_HCA (the same adapters in NCCL's form, where there are any), SLUICE_JOB_ID,
 * SLUICE_JOB_NAME, SLUICE_ATTEMPT and, with an instance, SLUICE_JOB_INSTANCE; in an array
 * SLUICE_ARRAY_ID and SLUICE_ARRAY_INDEX, and JOB_COMPLETION_INDEX as in an Indexed Job of
 * Kubernetes.
 *
 * `*out` ends in NULL and is the caller's: jobenv_free(). -E2BIG beyond JOBENV_BYTES_MAX, -ENOMEM.
 */
int jobenv_make(char *const *environment, const struct jobenv_job *job, char ***out,
		struct err *err);
char **jobenv_free(char **environment);

#endif
