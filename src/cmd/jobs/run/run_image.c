/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/run/run_image.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/text.h"
#include "cmd/jobs/run/run_options.h"
#include "cmd/jobs/run/run_request.h"

/* Where images of CUDA have the libraries with which a program that is newer than the driver of the
 * machine runs, and where they expect those of the driver.
 * https://docs.nvidia.com/deploy/cuda-compatibility/ ("Forward Compatibility") */
static const char run_image_compat[] = "/usr/local/cuda/compat";
static const char run_image_libraries[] = "/usr/local/nvidia/lib:/usr/local/nvidia/lib64";
static const char run_image_path[] = "LD_LIBRARY_PATH=";

/* The first of the options that only containers have; NULL. */
static const char *run_image_only(const struct run_options *options)
{
	return options->volumes.count > 0 ? "--volume"
	       : options->pull		  ? "--pull"
	       : options->runtime	  ? "--runtime"
	       : options->tmpfs.count > 0 ? "--tmpfs"
	       : options->shm_bytes > 0	  ? "--shm-size"
	       : options->entrypoint	  ? "--entrypoint"
	       : options->user		  ? "--user"
	       : options->privileged	  ? "--privileged"
	       : options->selinux	  ? "--selinux"
	       : options->cuda_compat	  ? "--cuda-compat"
					  : NULL;
}

int run_image_check(const struct run_options *options, char *const *argv, struct err *err)
{
	const char *only = run_image_only(options);

	if (!options->image && !argv[0])
		return err_set(err, -EINVAL, "an argument is missing: [--] COMMAND [ARGUMENT...]");
	if (!options->image && only)
		return err_set(err, -EINVAL, "%s is for jobs with an --image", only);
	if (options->image && !*options->image)
		return err_set(err, -EINVAL, "--image names none");
	if (options->entrypoint && !*options->entrypoint)
		return err_set(err, -EINVAL, "--entrypoint names no program");

	if (options->image && options->directory && options->directory[0] != '/')
		return err_set(err, -EINVAL,
			       "--cwd is a directory of the container with --image: '%s' is not "
			       "absolute",
			       options->directory);

	return 0;
}

static void run_image_add(ProtobufCBinaryData *list, size_t *count, char *text)
{
	list[(*count)++] = (ProtobufCBinaryData){.len = strlen(text), .data = (uint8_t *)text};
}

static int run_image_volumes(const struct run_options *options, struct run_request *out,
			     struct err *err)
{
	out->volumes = calloc(options->volumes.count + 1, sizeof(*out->volumes));
	if (!out->volumes)
		return err_set(err, -ENOMEM, "no memory for the volumes");

	for (size_t i = 0; i < options->volumes.count; i++) {
		run_image_add(out->volumes, &out->spec.n_volumes,
			      (char *)options->volumes.items[i]);
	}

	out->spec.volumes = out->volumes;
	return 0;
}

/* "/scratch" or "/scratch:4Gi", which is sent as bytes. */
static int run_image_add_tmpfs(const char *path, size_t length, uint64_t bytes,
			       struct run_request *out, struct err *err)
{
	char *text = NULL;
	if (asprintf(&text, "%.*s:%" PRIu64, (int)length, path, bytes) < 0)
		return err_set(err, -ENOMEM, "no memory for the directories in memory");
	run_image_add(out->tmpfs, &out->spec.n_tmpfs, text);
	return 0;
}

static int run_image_tmpfs(const struct run_options *options, struct run_request *out,
			   struct err *err)
{
	out->tmpfs = calloc(options->tmpfs.count + 2, sizeof(*out->tmpfs));
	if (!out->tmpfs)
		return err_set(err, -ENOMEM, "no memory for the directories in memory");

	out->spec.tmpfs = out->tmpfs;
	int rc = 0;

	if (options->shm_bytes > 0)
		rc = run_image_add_tmpfs("/dev/shm", strlen("/dev/shm"), options->shm_bytes, out,
					 err);

	for (size_t i = 0; rc == 0 && i < options->tmpfs.count; i++) {
		const char *text = options->tmpfs.items[i];
		size_t length = strcspn(text, ":");
		uint64_t bytes = 0;

		if (text[0] != '/' ||
		    (text[length] && parse_size(text + length + 1, 1, INT64_MAX, &bytes) < 0))
			return err_set(err, -EINVAL,
				       "--tmpfs '%s' is no absolute path, with ':' and a size such "
				       "as 4Gi behind it or without",
				       text);

		rc = run_image_add_tmpfs(text, length, bytes, out, err);
	}

	return rc;
}

/* In front of what the job is given as well: the loader takes the first. */
static int run_image_fill_compat(struct run_request *out, struct err *err)
{
	size_t count = out->spec.n_image_environment, at = count;
	const char *old = run_image_libraries;

	for (size_t i = 0; i < count; i++) {
		const char *text = (const char *)out->image_environment[i].data;
		if (!text_starts_with(text, run_image_path))
			continue;
		at = i;
		old = text + strlen(run_image_path);
	}

	if (asprintf(&out->compat, "%s%s%s%s", run_image_path, run_image_compat, *old ? ":" : "",
		     old) < 0) {
		out->compat = NULL;
		return err_set(err, -ENOMEM, "no memory for the environment");
	}

	run_image_add(out->image_environment, &at, out->compat);
	if (at > count)
		out->spec.n_image_environment = at;

	return 0;
}

int run_image_fill(const struct run_options *options, struct run_request *out, struct err *err)
{
	/* The order of the options' words. */
	static const char *const pulls[] = {"missing", "never", "always"};
	static const char *const runtimes[] = {"", "podman", "docker"};
	if (!options->image)
		return 0;

	int rc = run_image_volumes(options, out, err);
	if (rc == 0)
		rc = run_image_tmpfs(options, out, err);
	if (rc == 0 && options->cuda_compat)
		rc = run_image_fill_compat(out, err);
	if (rc < 0)
		return rc;

	out->spec.image = (char *)options->image;
	if (options->directory)
		out->spec.workdir = (char *)options->directory;
	out->spec.pull = (char *)pulls[options->pull];
	out->spec.runtime = (char *)runtimes[options->runtime];
	out->spec.entrypoint = options->entrypoint != NULL;

	if (options->user)
		out->spec.run_as = (char *)options->user;
	out->spec.privileged = options->privileged;
	out->spec.selinux_off = options->selinux != 0;

	return 0;
}

void run_image_done(struct run_request *request)
{
	free(request->volumes);
	for (size_t i = 0; i < request->spec.n_tmpfs && request->tmpfs; i++)
		free(request->tmpfs[i].data);
	free(request->tmpfs);
	free(request->compat);
}
