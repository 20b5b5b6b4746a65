/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/container/choices.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/domain.h"
#include "base/parse.h"
#include "job/launch.h"
#include "hardware/gpu.h"
#include "libexec/container/words.h"

/* Of what jobenv.h makes for a job, what is of use in a container: the rest says where things are
 * outside. The runtime takes the values from its own environment. */
static const char *const choices_variables[] = {
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "SLUICE_GPUS",		"SLUICE_JOB_ID",
    "SLUICE_JOB_NAME",	    "SLUICE_ATTEMPT",	 "SLUICE_JOB_INSTANCE", NULL};
/* The same, of a member of an array: others have none of these. */
static const char *const choices_member[] = {"SLUICE_ARRAY_ID", "SLUICE_ARRAY_INDEX",
					     "JOB_COMPLETION_INDEX", NULL};

static const char choices_shm[] = "/dev/shm";

void choices_name(const struct launch *launch, char out[CHOICES_NAME_MAX])
{
	(void)snprintf(out, CHOICES_NAME_MAX, "sluice-job-%" PRIu64 "-%s", launch->id,
		       launch->instance); /* fits */
}

void choices_device(const char *uuid, char out[CHOICES_DEVICE_MAX])
{
	(void)snprintf(out, CHOICES_DEVICE_MAX, "%s/gpu=%s",
		       gpu_uuid_is_simulated(uuid) ? "sluice.sim" : SLUICE_DOMAIN, uuid); /* fits */
}

void choices_adapter(const struct launch *launch, const char *name, size_t length,
		     char out[CHOICES_DEVICE_MAX])
{
	(void)snprintf(out, CHOICES_DEVICE_MAX, "%s/rdma=%.*s",
		       launch->adapters_simulated ? "sluice.sim" : SLUICE_DOMAIN, (int)length,
		       name); /* fits */
}

void choices_add_name(struct words *line, const struct launch *launch)
{
	char name[CHOICES_NAME_MAX];
	choices_name(launch, name);
	words_add(line, "--name=%s", name);
	words_add(line, "--label=" SLUICE_DOMAIN "/job=%" PRIu64, launch->id);
	words_add(line, "--label=" SLUICE_DOMAIN "/instance=%s", launch->instance);
}

void choices_add_devices(struct words *line, const struct launch *launch)
{
	char device[CHOICES_DEVICE_MAX];
	for (size_t i = 0; i < launch->grant_count; i++) {
		choices_device(launch->grants[i].uuid, device);
		words_add(line, "--device=%s", device);
	}

	for (const char *at = launch->adapters; *at;) {
		size_t length = strcspn(at, ",");
		choices_adapter(launch, at, length, device);
		words_add(line, "--device=%s", device);
		at += length + (at[length] == ',');
	}
}

static void choices_add_environment(struct words *line, const struct launch *launch)
{
	const struct spec *spec = &launch->spec;

	if (launch->adapters[0]) {
		words_add(line, "--env=SLUICE_RDMA");
		words_add(line, "--env=NCCL_IB_HCA==%s", launch->adapters);
	}

	/* CDI says so too, where there is a GPU: an old hook that is still installed would give all
	 * of them to an image that asks for all. */
	words_add(line, "--env=NVIDIA_VISIBLE_DEVICES=void");

	/* Triton, and so torch.compile, does not ask the loader: without this it looks for
	 * libcuda.so.1 in the image's ld.so.cache, where a mounted library is not. The agent's
	 * specifications have it here in every image.
	 * https://github.com/triton-lang/triton: third_party/nvidia/backend/driver.py */
	if (launch->grant_count > 0)
		words_add(line, "--env=TRITON_LIBCUDA_PATH=/usr/lib64");

	for (const char *const *at = choices_variables; *at; at++)
		words_add(line, "--env=%s", *at);

	for (const char *const *at = choices_member; *at; at++)
		if (getenv(*at))
			words_add(line, "--env=%s", *at);

	for (size_t i = 0; i < spec->image_environment_count; i++)
		words_add(line, "--env=%s", spec->image_environment[i]);
}

/* As an emptyDir of Kubernetes: empty, for everybody, and what lies there may be executed; without
 * a size half of the memory, or what the job may use. /dev/shm with a size has an option of its
 * own: the runtimes have something there already. */
static void choices_add_tmpfs(struct words *line, const char *text, const char *more)
{
	const char *colon = strrchr(text, ':'); /* spec_check() has seen to it */
	size_t length = colon ? (size_t)(colon - text) : strlen(text);
	uint64_t bytes = 0; /* no limit */

	if (colon)
		(void)parse_u64(colon + 1, 0, INT64_MAX, &bytes);

	bool is_shm =
	    length == strlen(choices_shm) && memcmp(text, choices_shm, strlen(choices_shm)) == 0;
	if (is_shm && bytes > 0)
		words_add(line, "--shm-size=%" PRIu64, bytes);
	else if (bytes > 0)
		words_add(line, "--tmpfs=%.*s:rw,exec,nosuid,nodev,mode=777,size=%" PRIu64 "%s",
			  (int)length, text, bytes, more);
	else
		words_add(line, "--tmpfs=%.*s:rw,exec,nosuid,nodev,mode=777%s", (int)length, text,
			  more);
}

/* "8888:80": outside on this machine alone, and inside, where the command is told the latter. */
static void choices_add_port(struct words *line, const char *port)
{
	size_t length = strcspn(port, ":");
	const char *chosen = getenv("SLUICE_PORT"); /* the supervisor's choice */
	bool is_any = length == 1 && port[0] == '0';
	const char *inside = port[length] ? port + length + 1 : is_any ? chosen : port;

	if (!inside)
		return;

	words_add(line, "--env=SLUICE_PORT=%s", inside);
	if (is_any && chosen)
		words_add(line, "--publish=127.0.0.1:%s:%s", chosen, inside);
	else /* any that the runtime finds, or this one */
		words_add(line, "--publish=127.0.0.1:%.*s:%s", is_any ? 0 : (int)length, port,
			  inside);
}

void choices_add_group(struct words *line, const struct launch *launch)
{
	const struct wants *wants = &launch->spec.wants;

	/* As much with swap as without: swap is not asked for. */
	if (wants->mem_bytes > 0) {
		words_add(line, "--memory=%" PRIu64, wants->mem_bytes);
		words_add(line, "--memory-swap=%" PRIu64, wants->mem_bytes);
	}

	if (wants->cpu_milli > 0)
		words_add(line, "--cpus=%" PRIu32 ".%03" PRIu32, wants->cpu_milli / 1000,
			  wants->cpu_milli % 1000);
	if (wants->pids > 0)
		words_add(line, "--pids-limit=%" PRIu32, wants->pids);
}

void choices_add(struct words *line, const struct launch *launch, const char *tmpfs_options)
{
	const struct spec *spec = &launch->spec;

	choices_add_environment(line, launch);

	for (size_t i = 0; i < spec->volume_count; i++)
		words_add(line, "--volume=%s", spec->volumes[i]);

	for (size_t i = 0; i < spec->tmpfs_count; i++)
		choices_add_tmpfs(line, spec->tmpfs[i], tmpfs_options);

	if (spec->workdir[0])
		words_add(line, "--workdir=%s", spec->workdir);
	if (spec->run_as[0])
		words_add(line, "--user=%s", spec->run_as);
	if (spec->memlock)
		words_add(line, "--cap-add=IPC_LOCK");
	if (spec->privileged)
		words_add(line, "--privileged");

	if (spec->selinux_off)
		words_add(line, "--security-opt=label=disable");
	if (spec->port[0])
		choices_add_port(line, spec->port);
	if (spec->pty) {
		words_add(line, "--interactive");
		words_add(line, "--tty");
	}
}
