/* SPDX-License-Identifier: Apache-2.0 */
#include "job/jobenv.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/err.h"

enum { JOBENV_SET = 13 }; /* variables that are set */

/* Names; one that ends in '_' is a prefix. */
static const char *const jobenv_kept[] = {"SLUICE_SIM_",      "SLUICE_ROOT",   "SLUICE_RUNTIME_DIR",
					  "SLUICE_STATE_DIR", "SLUICE_SOCKET", "SLUICE_PROFILES"};
static const char *const jobenv_removed[] = {"CUDA_VISIBLE_DEVICES",
					     "CUDA_DEVICE_ORDER",
					     "NVIDIA_VISIBLE_DEVICES",
					     "NOTIFY_SOCKET",
					     "JOB_COMPLETION_INDEX",
					     "OMPI_",
					     "PMIX_",
					     "PMI_",
					     "PRTE_",
					     "HYDRA_",
					     "LISTEN_",
					     "SLUICE_"};

static bool jobenv_matches(const char *variable, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		size_t length = strlen(names[i]);
		if (strncmp(variable, names[i], length) == 0 &&
		    (names[i][length - 1] == '_' || variable[length] == '='))
			return true;
	}
	return false;
}

static bool jobenv_is_kept(const char *variable)
{
	return jobenv_matches(variable, jobenv_kept, array_length(jobenv_kept)) ||
	       !jobenv_matches(variable, jobenv_removed, array_length(jobenv_removed));
}

static int jobenv_add_list(struct buf *text, const struct jobenv_job *job, const char *none)
{
	int rc = buf_add_text(text, job->uuid_count ? "" : none);
	for (size_t i = 0; rc == 0 && i < job->uuid_count; i++)
		rc = buf_printf(text, "%s%s", i ? "," : "", job->uuids[i]);
	return rc;
}

static bool jobenv_has(char *const *environment, const char *name)
{
	size_t length = strlen(name);
	for (; *environment; environment++)
		if (strncmp(*environment, name, length) == 0)
			return true;
	return false;
}

static int jobenv_add_own(char *const *environment, char **out, size_t *count,
			  const struct jobenv_job *job)
{
	const char *adapters = job->adapters && job->adapters[0] ? job->adapters : NULL;
	/* "=mlx5_0,mlx5_1": exactly these, where NCCL would take "mlx5_1" for mlx5_10 too.
	 * https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-ib-hca */
	const char *nccl = adapters && !jobenv_has(environment, "NCCL_IB_HCA=") ? adapters : NULL;

	const struct {
		const char *name, *text, *none; /* a text, or the list with a word for "none" */
	} rows[JOBENV_SET] = {
	    {"CUDA_VISIBLE_DEVICES=", NULL, ""},
	    {"NVIDIA_VISIBLE_DEVICES=", NULL, "void"},
	    {"SLUICE_GPUS=", NULL, ""},
	    {"CUDA_DEVICE_ORDER=", "PCI_BUS_ID", NULL},
	    {"SLUICE_RDMA=", adapters, NULL},
	    {"NCCL_IB_HCA==", nccl, NULL},
	    {"SLUICE_JOB_ID=", job->id, NULL},
	    {"SLUICE_JOB_NAME=", job->name, NULL},
	    {"SLUICE_ATTEMPT=", job->attempt ? job->attempt : "1", NULL},
	    {"SLUICE_JOB_INSTANCE=", job->instance, NULL},
	    {"SLUICE_ARRAY_ID=", job->array_id, NULL},
	    {"SLUICE_ARRAY_INDEX=", job->array_index, NULL},
	    {"JOB_COMPLETION_INDEX=", job->is_indexed ? job->array_index : NULL, NULL},
	};

	for (size_t i = 0; i < array_length(rows); i++) {
		if (!rows[i].text && !rows[i].none)
			continue;

		struct buf text;
		buf_init(&text, JOBENV_BYTES_MAX);

		int rc = buf_add_text(&text, rows[i].name);
		if (rc == 0)
			rc = rows[i].text ? buf_add_text(&text, rows[i].text)
					  : jobenv_add_list(&text, job, rows[i].none);
		if (rc == 0)
			out[*count] = buf_take(&text);
		buf_done(&text);

		if (rc < 0)
			return rc;
		if (!out[*count])
			return -ENOMEM;

		(*count)++;
	}

	return 0;
}

int jobenv_make(char *const *environment, const struct jobenv_job *job, char ***out,
		struct err *err)
{
	size_t total = 0, bytes = 0;

	for (; environment[total]; total++) {
		bytes += strlen(environment[total]) + 1;
		if (bytes > JOBENV_BYTES_MAX)
			return err_set(err, -E2BIG,
				       "the environment is larger than %d bytes: start the job "
				       "with fewer or shorter variables (env -i ...)",
				       JOBENV_BYTES_MAX);
	}

	char **made = calloc(total + JOBENV_SET + 1, sizeof(*made));
	size_t count = 0;
	int rc = made ? 0 : -ENOMEM;

	for (size_t i = 0; rc == 0 && i < total; i++) {
		if (!jobenv_is_kept(environment[i]))
			continue;
		made[count] = strdup(environment[i]);
		rc = made[count] ? 0 : -ENOMEM;
		count += rc == 0;
	}

	if (rc == 0)
		rc = jobenv_add_own(environment, made, &count, job);
	if (rc < 0) {
		jobenv_free(made);
		return err_set(err, rc, "no memory for the job's environment");
	}

	*out = made;
	return 0;
}

char **jobenv_free(char **environment)
{
	for (char **at = environment; at && *at; at++)
		free(*at);
	free(environment);
	return NULL;
}
