/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/supervise/image.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "job/cgroup/devguard.h"
#include "libexec/supervise/program.h"
#include "libexec/supervise/watch.h"

enum { IMAGE_EXIT_FAILED = 125, IMAGE_PATH_MAX = 64, IMAGE_TEXT_MAX = 4096 };

/* cgroup v2 holds wherever the runtime puts the container in the v1 hierarchies, for it stays below
 * the job's group in v2; v1 is for kernels without such programs. */
static int image_guard(const struct launch *launch, const struct cgroup *cgroup, struct image *out,
		       struct err *err)
{
	struct err later;
	int rc = devguard_attach(cgroup, launch->denied, launch->denied_count, err);
	if (rc == 0 || cgroup_path_v1(cgroup->path, "devices", out->devices_v1, &later) < 0)
		return rc;
	if (devguard_attach_v1(out->devices_v1, launch->denied, launch->denied_count, false,
			       &later) == 0)
		return 0;

	out->devices_v1[0] = '\0';
	return rc;
}

void image_prepare(const struct launch *launch, const struct cgroup *cgroup, const char *no_cgroup,
		   struct image *out)
{
	struct err err = {0};

	*out = IMAGE_NONE;
	out->is_privileged = launch->spec.privileged;

	int rc = geteuid() != 0	  ? err_set(&err, -EPERM, "the agent is not root's")
		 : cgroup->fd < 0 ? err_set(&err, -ENOENT, "no cgroup: %.160s", no_cgroup)
				  : image_guard(launch, cgroup, out, &err);
	if (rc == 0 && launch->denied_why[0])
		rc = err_set(&err, -ENOENT, "%s", launch->denied_why);
	out->is_guarded = rc == 0;

	struct err program = {0};
	out->is_trusted =
	    launch->spec.uid == 0 ||
	    program_find(launch->spec.environment, launch->spec.runtime, &program) == 0;
	(void)snprintf(out->why_program, sizeof(out->why_program), "%.*s",
		       (int)sizeof(out->why_program) - 1, program.text); /* cut */
	(void)snprintf(out->why, sizeof(out->why), "%.*s", CONTROL_TEXT_MAX - 1,
		       err.text); /* cut */

	if (cgroup->fd >= 0)
		(void)cgroup_create(cgroup->path, CGROUP_LAUNCHER, &out->launcher,
				    NULL); /* else in the job's own */
}

void image_prepare_removal(const struct cgroup *cgroup, struct image *image)
{
	if (image->launcher.fd >= 0)
		(void)cgroup_remove(&image->launcher, NULL); /* else it is joined as it is */
	cgroup_close(&image->launcher);
	if (cgroup->fd >= 0)
		(void)cgroup_create(cgroup->path, CGROUP_LAUNCHER, &image->launcher, NULL);
}

void image_lose_cgroup(struct image *image, const char *why)
{
	cgroup_close(&image->launcher);
	image->launcher = CGROUP_NONE;
	image->devices_v1[0] = '\0';
	image->is_guarded = false;
	(void)snprintf(image->why, sizeof(image->why), "no cgroup: %.*s", CONTROL_TEXT_MAX - 16,
		       why); /* cut */
}

void image_leave(struct image *image, const char *why)
{
	image->is_elsewhere = true;
	(void)snprintf(image->why, sizeof(image->why), "%.*s", CONTROL_TEXT_MAX - 1, why); /* cut */
}

void image_done(struct image *image)
{
	cgroup_close(&image->launcher);
}

/* The level reached, in the words of isolation_level_to_string(). */
static const char *image_level(const struct image *image)
{
	/* It can do to the machine what root can, also where rules are around it. */
	return image->is_privileged  ? "none"
	       : image->is_elsewhere ? "env"
	       : !image->is_trusted  ? !image->is_guarded     ? "env"
				       : image->devices_v1[0] ? "cgroup1"
							      : "cgroup2"
	       : image->is_guarded   ? "container"
				     : "container, no device cgroup around it";
}

void image_describe(const struct image *image, char out[CONTROL_TEXT_MAX])
{
	const char *why = image->is_privileged ? "the container is privileged"
			  : image->is_guarded && !image->is_elsewhere ? ""
								      : image->why;
	const char *program = image->is_privileged || image->is_elsewhere || image->is_trusted
				  ? ""
				  : image->why_program;

	(void)snprintf(out, CONTROL_TEXT_MAX, "%s%s%s%.320s%s%.180s", image_level(image),
		       *why || *program ? ": " : "", *program ? "container: " : "", program,
		       *why && *program ? "; " : "", why);
}

int image_helper(const struct launch *launch, const char *word, char *out[IMAGE_HELPER_WORDS],
		 struct err *err)
{
	if (launch->container[0] == '\0')
		return err_set(
		    err, -ENOPKG,
		    "the program sluice-container, which --image needs, is not found: is "
		    "sluice installed completely?");

	out[0] = (char *)launch->container;
	out[1] = (char *)word;
	out[2] = NULL;

	return 0;
}

bool image_is_pause(pid_t pid)
{
	char path[IMAGE_PATH_MAX];
	_cleanup_buf_ struct buf text;

	buf_init(&text, IMAGE_TEXT_MAX);
	(void)snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid); /* fits */
	if (file_read(path, &text, NULL) < 0)
		return false;
	if (strcmp(buf_text(&text), "podman pause\n") == 0)
		return true;

	if (strcmp(buf_text(&text), "catatonit\n") != 0)
		return false; /* it is also the first process of containers: */

	buf_clear(&text);
	(void)snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid); /* fits */
	if (file_read(path, &text, NULL) < 0)
		return false;

	size_t first = strlen(buf_text(&text)) + 1;
	return first < text.length && strcmp(buf_text(&text) + first, "-P") == 0;
}

bool image_is_left(const struct job_watch *watch)
{
	/* docker's client loses its daemon, and exits as if nothing had been started. */
	if (WIFEXITED(watch->status) && WEXITSTATUS(watch->status) == IMAGE_EXIT_FAILED)
		return true;
	/* podman that gets a signal before its container runs ends at once, also with 0, and leaves
	 * it as it was made. */
	return !WIFEXITED(watch->status) || watch->killed_leftovers > 0 || watch->was_told;
}
