/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/container/podman.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/parse.h"
#include "doors/queue/launch.h"
#include "hardware/gpu.h"

enum { PODMAN_FIRST = 32 }; /* words of a command line, at first */

/* Of what jobenv.h makes for a job, what is of use in a container: the rest says where things are
 * outside. podman takes the values from its own environment. */
static const char *const podman_variables[] = {
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "SLUICE_GPUS",		"SLUICE_JOB_ID",
    "SLUICE_JOB_NAME",	    "SLUICE_ATTEMPT",	 "SLUICE_JOB_INSTANCE", NULL};

struct podman_words {
	char **words; /* owned */
	size_t count, room;
	bool failed; /* no memory: whoever asks for the words is told */
};

static void podman_add(struct podman_words *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void podman_add(struct podman_words *line, const char *format, ...)
{
	if (line->count + 1 >= line->room) {
		size_t room = line->room ? 2 * line->room : PODMAN_FIRST;
		char **more = reallocarray(line->words, room, sizeof(*more));
		if (!more) {
			line->failed = true;
			return;
		}
		line->words = more;
		line->room = room;
	}
	va_list arguments;
	va_start(arguments, format);
	int length = vasprintf(&line->words[line->count], format, arguments);
	va_end(arguments);
	if (length < 0)
		line->words[line->count] = NULL;
	else
		line->count++;
	line->failed = line->failed || length < 0;
	line->words[line->count] = NULL;
}

static int podman_take(struct podman_words *line, char ***out, struct err *err)
{
	if (line->failed || !line->words) {
		podman_free(line->words);
		return err_set(err, -ENOMEM, "no memory for podman's command line");
	}
	*out = line->words;
	return 0;
}

char **podman_free(char **argv)
{
	for (char **at = argv; at && *at; at++)
		free(*at);
	free(argv);
	return NULL;
}

void podman_name(const struct launch *launch, char out[PODMAN_NAME_MAX])
{
	(void)snprintf(out, PODMAN_NAME_MAX, "sluice-job-%" PRIu64 "-%s", launch->id,
		       launch->instance); /* fits */
}

void podman_device(const char *uuid, char out[PODMAN_DEVICE_MAX])
{
	(void)snprintf(out, PODMAN_DEVICE_MAX, "sluice.%s/gpu=%s",
		       gpu_uuid_is_simulated(uuid) ? "sim" : "dev", uuid); /* fits */
}

void podman_adapter(const struct launch *launch, const char *name, size_t length,
		    char out[PODMAN_DEVICE_MAX])
{
	(void)snprintf(out, PODMAN_DEVICE_MAX, "sluice.%s/rdma=%.*s",
		       launch->adapters_simulated ? "sim" : "dev", (int)length, name); /* fits */
}

static void podman_begin(struct podman_words *line, const struct podman_settings *settings)
{
	podman_add(line, "podman");
	/* Where systemd's manager asks systemd for a cgroup the job's would be left. */
	podman_add(line, "--cgroup-manager=cgroupfs");
	if (settings->runtime)
		podman_add(line, "--runtime=%s", settings->runtime);
}

static void podman_add_limit(struct podman_words *line, const char *name, const uint64_t limit[2])
{
	podman_add(line, "--ulimit=%s=%" PRIu64 ":%" PRIu64, name, limit[0], limit[1]);
}

static void podman_add_settings(struct podman_words *line, const struct podman_settings *settings)
{
	if (settings->parent)
		podman_add(line, "--cgroup-parent=%s", settings->parent);
	if (!settings->has_limits)
		return;
	podman_add_limit(line, "nofile", settings->files);
	podman_add_limit(line, "nproc", settings->processes);
}

static void podman_add_job(struct podman_words *line, const struct launch *launch)
{
	const struct spec *spec = &launch->spec;
	char name[PODMAN_NAME_MAX], device[PODMAN_DEVICE_MAX];
	podman_name(launch, name);
	podman_add(line, "--name=%s", name);
	podman_add(line, "--label=" SLUICE_LABEL_PREFIX "job=%" PRIu64, launch->id);
	podman_add(line, "--label=" SLUICE_LABEL_PREFIX "instance=%s", launch->instance);
	for (size_t i = 0; i < launch->grant_count; i++) {
		podman_device(launch->grants[i].uuid, device);
		podman_add(line, "--device=%s", device);
	}
	for (const char *at = launch->adapters; *at;) {
		size_t length = strcspn(at, ",");
		podman_adapter(launch, at, length, device);
		podman_add(line, "--device=%s", device);
		at += length + (at[length] == ',');
	}
	if (launch->adapters[0]) {
		podman_add(line, "--env=SLUICE_RDMA");
		podman_add(line, "--env=NCCL_IB_HCA==%s", launch->adapters);
	}
	/* CDI says so too, where there is a GPU: an old hook that is still installed would give all
	 * of them to an image that asks for all. */
	podman_add(line, "--env=NVIDIA_VISIBLE_DEVICES=void");
	/* Triton, and so torch.compile, does not ask the loader: without this it looks for
	 * libcuda.so.1 in the image's ld.so.cache, where a mounted library is not. The agent's
	 * specifications have it here in every image.
	 * https://github.com/triton-lang/triton: third_party/nvidia/backend/driver.py */
	if (launch->grant_count > 0)
		podman_add(line, "--env=TRITON_LIBCUDA_PATH=/usr/lib64");
	for (const char *const *at = podman_variables; *at; at++)
		podman_add(line, "--env=%s", *at);
	for (size_t i = 0; i < spec->image_environment_count; i++)
		podman_add(line, "--env=%s", spec->image_environment[i]);
	for (size_t i = 0; i < spec->volume_count; i++)
		podman_add(line, "--volume=%s", spec->volumes[i]);
	if (spec->workdir[0])
		podman_add(line, "--workdir=%s", spec->workdir);
}

int podman_run(const struct launch *launch, const struct podman_settings *settings, char ***out,
	       struct err *err)
{
	const struct spec *spec = &launch->spec;
	struct podman_words line = {.count = 0};
	podman_begin(&line, settings);
	podman_add(&line, "run");
	podman_add(&line, "--rm");
	/* The output goes to the job's files; nobody would read a second copy. */
	podman_add(&line, "--log-driver=none");
	podman_add(&line, "--pull=%s", spec_pull_to_string(spec->pull));
	podman_add_settings(&line, settings);
	podman_add_job(&line, launch);
	podman_add(&line, "--");
	podman_add(&line, "%s", spec->image);
	for (size_t i = 0; i < spec->argc; i++)
		podman_add(&line, "%s", spec->argv[i]);
	return podman_take(&line, out, err);
}

int podman_remove(const struct launch *launch, const struct podman_settings *settings, char ***out,
		  struct err *err)
{
	struct podman_words line = {.count = 0};
	char name[PODMAN_NAME_MAX];
	podman_name(launch, name);
	podman_begin(&line, settings);
	podman_add(&line, "rm");
	podman_add(&line, "--force");
	podman_add(&line, "--ignore");
	podman_add(&line, "--time=0");
	podman_add(&line, "--volumes");
	podman_add(&line, "--");
	podman_add(&line, "%s", name);
	return podman_take(&line, out, err);
}

int podman_check_version(const char *text, struct err *err)
{
	static const char word[] = "podman version ";
	uint64_t part[2];
	const char *at = text;
	bool is_good = strncmp(at, word, strlen(word)) == 0;
	at += is_good ? strlen(word) : 0;
	for (int i = 0; is_good && i < 2; i++) {
		size_t length = strspn(at, "0123456789");
		is_good = parse_u64_span(at, length, 0, UINT32_MAX, &part[i]) == 0 &&
			  (i == 1 || at[length] == '.');
		at += length + (i == 0);
	}
	if (!is_good)
		return err_set(err, -EINVAL, "'podman --version' says '%.40s': is that podman?",
			       text);
	if (part[0] > PODMAN_MAJOR || (part[0] == PODMAN_MAJOR && part[1] >= PODMAN_MINOR))
		return 0;
	return err_set(err, -ENOTSUP,
		       "podman %" PRIu64 ".%" PRIu64 " is too old: it knows CDI from %d.%d on",
		       part[0], part[1], PODMAN_MAJOR, PODMAN_MINOR);
}
