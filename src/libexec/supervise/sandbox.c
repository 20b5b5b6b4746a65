/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/supervise/sandbox.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "job/cgroup/devguard.h"
#include "job/launch.h"
#include "libexec/supervise/image.h"
#include "libexec/supervise/landlock.h"

/* What a level keeps out: nothing, what nobody tries on purpose, what files can tell, all. */
enum sandbox_strength {
	SANDBOX_NOTHING,
	SANDBOX_ADVICE,
	SANDBOX_FILES,
	SANDBOX_DEVICES,
	SANDBOX_CONTAINER,
};

static enum sandbox_strength sandbox_reached(enum isolation level)
{
	switch (level) {
	case ISOLATION_NONE:
		return SANDBOX_NOTHING;
	case ISOLATION_LANDLOCK:
	case ISOLATION_CONTAINER_ALONE:
		return SANDBOX_FILES;
	case ISOLATION_CGROUP1:
	case ISOLATION_CGROUP2:
		return SANDBOX_DEVICES;
	case ISOLATION_CONTAINER:
		return SANDBOX_CONTAINER;
	default:
		return SANDBOX_ADVICE;
	}
}

bool sandbox_is_enough(enum isolation level, uint32_t wanted)
{
	enum sandbox_strength reached = sandbox_reached(level);

	switch ((enum isolation)wanted) {
	case ISOLATION_REQUIRE:
		return reached >= SANDBOX_FILES;
	case ISOLATION_LANDLOCK:
		/* Of a container that is another thing, and no less. */
		return reached >= SANDBOX_FILES;
	case ISOLATION_CGROUP:
		return reached >= SANDBOX_DEVICES;
	case ISOLATION_CONTAINER:
		return reached == SANDBOX_CONTAINER || level == ISOLATION_CONTAINER_ALONE;
	case ISOLATION_ENV:
		return reached >= SANDBOX_ADVICE;
	default:
		return true;
	}
}

void sandbox_add_why(struct sandbox *sandbox, const char *what, const char *why)
{
	size_t length = strlen(sandbox->why);
	(void)snprintf(sandbox->why + length, sizeof(sandbox->why) - length, "%s%s: %.*s",
		       length > 0 ? "; " : "", what, SANDBOX_WHY_MAX - 1, why); /* cut */
}

void sandbox_describe(const struct sandbox *sandbox, char out[CONTROL_TEXT_MAX])
{
	(void)snprintf(out, CONTROL_TEXT_MAX, "%s%s%.*s", isolation_level_to_string(sandbox->level),
		       sandbox->why[0] ? ": " : "", CONTROL_TEXT_MAX - 64, sandbox->why); /* cut */
}

/* --- a plain job ------------------------------------------------------------------------------ */

/* Why neither of the two can be; 0 when they can be tried. */
static int sandbox_check_root(const struct launch *launch, struct err *err)
{
	if (launch->denied_why[0])
		return err_set(err, -ENOENT, "%s", launch->denied_why);
	return geteuid() != 0 ? err_set(err, -EPERM, "the agent is not root's") : 0;
}

/* What the agent has made is as good, where it can be used. */
static int sandbox_attach_v2(const struct launch *launch, const struct cgroup *cgroup, int rules_fd,
			     struct err *err)
{
	if (rules_fd >= 0 && launch->denied_count > 0 &&
	    devguard_attach_made(cgroup, rules_fd, NULL) == 0)
		return 0;
	return devguard_attach(cgroup, launch->denied, launch->denied_count, err);
}

static bool sandbox_try_v2(const struct launch *launch, const struct cgroup *cgroup, int rules_fd,
			   const char *no_cgroup, struct sandbox *out)
{
	struct err err = {0};
	int rc = sandbox_check_root(launch, &err);
	if (rc == 0 && cgroup->fd < 0)
		rc = err_set(&err, -ENOENT, "no cgroup: %.140s", no_cgroup);
	if (rc == 0)
		rc = sandbox_attach_v2(launch, cgroup, rules_fd, &err);

	if (rc < 0) {
		sandbox_add_why(out, "cgroup2", err.text);
		return false;
	}

	out->level = ISOLATION_CGROUP2;
	return true;
}

/* The job's cgroup v2 says what the group is called. */
static bool sandbox_try_v1(const struct launch *launch, const struct cgroup *cgroup,
			   const char *no_cgroup, struct sandbox *out)
{
	struct err err = {0};
	int rc = sandbox_check_root(launch, &err);
	if (rc == 0 && cgroup->fd < 0)
		rc = err_set(&err, -ENOENT, "no cgroup: %.140s", no_cgroup);
	if (rc == 0)
		rc = cgroup_path_v1(cgroup->path, "devices", out->devices_v1, &err);

	if (rc == 0)
		rc = devguard_attach_v1(out->devices_v1, launch->denied, launch->denied_count, true,
					&err);

	if (rc < 0) {
		cgroup_remove_one_v1(out->devices_v1);
		out->devices_v1[0] = '\0';
		sandbox_add_why(out, "cgroup1", err.text);
		return false;
	}

	out->level = ISOLATION_CGROUP1;
	return true;
}

static bool sandbox_try_landlock(const struct launch *launch, struct sandbox *out)
{
	int version = landlock_version();
	if (version < 0 || launch->denied_why[0]) {
		sandbox_add_why(out, "landlock",
				launch->denied_why[0] ? launch->denied_why
				: version == -ENOSYS
				    ? "the kernel has none (Linux 5.13)"
				    : "it is not enabled (see lsm= of the kernel)");
		return false;
	}

	out->level = ISOLATION_LANDLOCK;
	out->has_landlock = true;
	return true;
}

static void sandbox_refuse(const struct launch *launch, struct sandbox *out)
{
	uint32_t wanted = launch->spec.wants.isolation, least = launch->minimum_isolation;
	bool is_wanted = sandbox_is_enough(out->level, wanted);
	/* Whoever says --privileged has said that it has none: the least that a machine can demand
	 * is what it demands by default. */
	if (launch->spec.privileged && least == ISOLATION_ENV)
		least = 0;
	out->is_refused = !is_wanted || (least && !sandbox_is_enough(out->level, least));
}

int sandbox_guard(const struct sandbox *sandbox, const struct cgroup *cgroup,
		  const struct launch_part *part, char out_v1[CGROUP_PATH_MAX], struct err *err)
{
	char path[CGROUP_PATH_MAX];

	if (sandbox->level == ISOLATION_CGROUP2)
		return devguard_attach(cgroup, part->denied, part->denied_count, err);

	int rc = cgroup_path_v1(cgroup->path, "devices", path, err);
	if (rc == 0)
		rc = devguard_attach_v1(path, part->denied, part->denied_count, true, err);
	if (rc == 0)
		(void)snprintf(out_v1, CGROUP_PATH_MAX, "%s", path); /* fits */

	return rc;
}

void sandbox_prepare(const struct launch *launch, const struct cgroup *cgroup, int rules_fd,
		     const char *no_cgroup, struct sandbox *out)
{
	uint32_t wanted = launch->spec.wants.isolation;

	*out = (struct sandbox){.level = ISOLATION_ENV};
	bool wants_groups =
	    wanted == ISOLATION_BEST || wanted == ISOLATION_REQUIRE || wanted == ISOLATION_CGROUP;
	bool wants_files =
	    wanted == ISOLATION_BEST || wanted == ISOLATION_REQUIRE || wanted == ISOLATION_LANDLOCK;

	if (wanted == ISOLATION_CONTAINER)
		sandbox_add_why(out, "container", "the job has no image (--image)");
	out->has_rules =
	    wants_groups && (sandbox_try_v2(launch, cgroup, rules_fd, no_cgroup, out) ||
			     sandbox_try_v1(launch, cgroup, no_cgroup, out));
	if (!out->has_rules && wants_files)
		(void)sandbox_try_landlock(launch, out);

	if (!wants_groups && wanted != ISOLATION_CONTAINER) {
		char why[SANDBOX_WHY_MAX];
		(void)snprintf(why, sizeof(why), "not wanted (--isolation %s)",
			       isolation_asked_to_string(wanted)); /* fits */
		sandbox_add_why(out, wants_files ? "cgroup" : "cgroup, landlock", why);
	}

	if (wanted == ISOLATION_NONE)
		out->level = ISOLATION_NONE;
	out->has_no_new_privs = wanted != ISOLATION_NONE && launch->spec.uid != 0;
	out->has_own_pids = launch->own_pids && (out->has_rules || out->has_landlock);
	if (!out->has_own_pids && (out->has_rules || out->has_landlock))
		sandbox_add_why(out, "own PID namespace", "the agent is not root's");
	sandbox_refuse(launch, out);
}

/* --- one with an image ------------------------------------------------------------------------ */

void sandbox_judge_image(const struct launch *launch, const struct image *image,
			 struct sandbox *out)
{
	char text[CONTROL_TEXT_MAX];

	*out = (struct sandbox){.level = ISOLATION_ENV};
	image_describe(image, text);

	char *colon = strstr(text, ": ");
	if (colon) {
		(void)snprintf(out->why, sizeof(out->why), "%s", colon + 2); /* fits */
		*colon = '\0';
	}

	(void)isolation_level_from_string(text, &out->level); /* of the same words */
	sandbox_refuse(launch, out);
}
