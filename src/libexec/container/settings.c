/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/container/settings.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdint.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "base/parse.h"
#include "base/text.h"
#include "cdi/scan.h"
#include "job/launch.h"
#include "hardware/gpu.h"
#include "libexec/container/call.h"
#include "libexec/container/choices.h"

enum { SETTINGS_CAPABILITY_BITS = 32 };

static const struct settings_places settings_real = {
    .cgroups = "/sys/fs/cgroup",
    .self = "/proc/self/cgroup",
    .pid_max = "/proc/sys/kernel/pid_max",
};

/* --- limits ----------------------------------------------------------------------------------- */

static bool settings_may_raise_limits(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct have[_LINUX_CAPABILITY_U32S_3] = {{0}};
	return syscall(SYS_capget, &header, have) == 0 &&
	       (have[CAP_SYS_RESOURCE / SETTINGS_CAPABILITY_BITS].effective >>
		    (CAP_SYS_RESOURCE % SETTINGS_CAPABILITY_BITS) &
		1);
}

static bool settings_limit(int resource, uint64_t max, uint64_t out[2])
{
	struct rlimit limit;
	if (getrlimit((__rlimit_resource_t)resource, &limit) < 0)
		return false;
	out[0] = limit.rlim_cur < max ? limit.rlim_cur : max;
	out[1] = limit.rlim_max < max ? limit.rlim_max : max;
	return true;
}

/*
 * podman raises the limits of open files and of processes for its containers; root in a container
 * that lacks CAP_SYS_RESOURCE may not, and nothing starts ("setrlimit RLIMIT_NOFILE: Operation not
 * permitted"). Podman 4.3 cuts that of processes at pid_max before, so no more can be had. An
 * ordinary user's podman keeps what there is.
 */
static void settings_read_limits(const struct settings_places *places, struct podman_settings *out)
{
	bool may_raise = settings_may_raise_limits();

	out->locked[0] = out->locked[1] = UINT64_MAX;
	struct rlimit locked;
	if (!may_raise && getrlimit(RLIMIT_MEMLOCK, &locked) == 0 &&
	    locked.rlim_max != RLIM_INFINITY)
		out->locked[0] = out->locked[1] = locked.rlim_max; /* as much as there is */
	if (geteuid() != 0 || may_raise)
		return;

	uint64_t pid_max = INT32_MAX;
	_cleanup_buf_ struct buf text;

	buf_init(&text, SETTINGS_TEXT_MAX);
	if (file_read(places->pid_max, &text, NULL) == 0)
		(void)parse_u64_span(buf_text(&text), strcspn(buf_text(&text), "\n"), 1, INT32_MAX,
				     &pid_max); /* else as it was */

	out->has_limits = settings_limit(RLIMIT_NOFILE, INT32_MAX, out->files) &&
			  settings_limit(RLIMIT_NPROC, pid_max, out->processes);
}

/* --- cgroups ---------------------------------------------------------------------------------- */

static bool settings_is_cgroup2(const char *path)
{
	struct statfs status;
	return statfs(path, &status) == 0 &&
	       (uint32_t)status.f_type == (uint32_t)CGROUP2_SUPER_MAGIC;
}

bool settings_parent(const char *text, const char *group, char out[CGROUP_PATH_MAX])
{
	static const char inner[] = "/" CGROUP_LAUNCHER;
	const char *line = text;
	while (line && !text_starts_with(line, "0::/")) {
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}

	if (!line)
		return false;

	line += strlen("0::");
	size_t length = strcspn(line, "\n");
	if (length >= strlen(inner) &&
	    memcmp(line + length - strlen(inner), inner, strlen(inner)) == 0)
		length -= strlen(inner);

	size_t name = strlen(group);
	if (length >= CGROUP_PATH_MAX || length <= name || line[length - name - 1] != '/' ||
	    memcmp(line + length - name, group, name) != 0)
		return false;

	memcpy(out, line, length);
	out[length] = '\0';
	return true;
}

static void settings_read_cgroups(const struct launch *launch, const struct settings_places *places,
				  struct container_settings *out)
{
	char unified[FILE_PATH_MAX], group[LAUNCH_CGROUP_MAX];
	/* crun 1.8: "cgroups in hybrid mode not supported"; and where cgroup v2 is alone it raises
	 * RLIMIT_MEMLOCK for its device rules, which root may not do who may not raise limits. */
	bool is_hybrid = !settings_is_cgroup2(places->cgroups) &&
			 file_path(unified, NULL, "%s/unified", places->cgroups) == 0 &&
			 settings_is_cgroup2(unified);
	if (is_hybrid || out->podman.has_limits)
		out->podman.runtime = "runc";

	_cleanup_buf_ struct buf text;
	buf_init(&text, SETTINGS_TEXT_MAX);
	launch_cgroup_name(launch->id, launch->instance, group);

	if (file_read(places->self, &text, NULL) < 0 ||
	    !settings_parent(buf_text(&text), group, out->parent))
		out->parent[0] = '\0';

	/* Whoever is not root makes no groups there; what podman starts for him stays in the job's.
	 * (docker's daemon does make them.) */
	if (geteuid() != 0)
		return;

	out->podman.parent = out->parent[0] ? out->parent : NULL;
	out->podman.sets_group = !out->podman.parent;
}

void settings_read(const struct launch *launch, const struct settings_places *places,
		   struct container_settings *out)
{
	*out = (struct container_settings){.parent = ""};
	if (!places)
		places = &settings_real;
	settings_read_limits(places, &out->podman);
	settings_read_cgroups(launch, places, out);
}

/* --- podman, docker --------------------------------------------------------------------------- */

int settings_choose(const struct launch *launch, uint32_t *out, struct err *err)
{
	uint32_t wanted = launch->spec.runtime;
	if (wanted != SPEC_RUNTIME_DOCKER && call_is_there("podman"))
		*out = SPEC_RUNTIME_PODMAN;
	else if (wanted != SPEC_RUNTIME_PODMAN && call_is_there("docker"))
		*out = SPEC_RUNTIME_DOCKER;
	else if (wanted == SPEC_RUNTIME_DOCKER)
		return err_set(err, -ENOENT,
			       "there is no docker in PATH: install it, or leave "
			       "out --runtime");
	else
		return err_set(err, -ENOENT,
			       "--image needs podman %d.%d or newer%s, and there is no podman%s in "
			       "PATH: install it",
			       PODMAN_MAJOR, PODMAN_MINOR, wanted ? "" : ", or docker",
			       wanted ? "" : " and no docker");

	return 0;
}

int settings_check_podman(struct err *err)
{
	static char *const argv[] = {(char *)"podman", (char *)"--version", NULL};
	_cleanup_buf_ struct buf text;
	buf_init(&text, SETTINGS_TEXT_MAX);

	int rc = call_run(argv, CALL_ERRORS_SHOWN, &text, err);
	if (rc < 0)
		return rc;
	if (rc == CALL_EXIT_NOT_FOUND)
		return err_set(err, -ENOENT, "there is no podman in PATH any more");
	if (rc > 0)
		return err_set(err, -EIO, "'podman --version' failed: run it by hand, it says why");

	char version[SETTINGS_VERSION_MAX];
	(void)snprintf(version, sizeof(version), "%.*s", (int)strcspn(buf_text(&text), "\n"),
		       buf_text(&text)); /* cut */
	return podman_check_version(version, err);
}

int settings_ask_docker(struct docker_info *out, struct err *err)
{
	static char *const argv[] = {(char *)"docker", (char *)"info", (char *)"--format",
				     (char *)"{{json .}}", NULL};
	const char *host = getenv("DOCKER_HOST");
	if (host && *host && !text_starts_with(host, "unix://"))
		return err_set(
		    err, -EREMOTE,
		    "DOCKER_HOST is '%.100s', and the job's container has to run on this "
		    "machine: unset it",
		    host);

	_cleanup_buf_ struct buf text;
	buf_init(&text, DOCKER_INFO_MAX);

	/* It says what is wrong in its answer, and exits with 0 or with 1 then. */
	int rc = call_run(argv, CALL_ERRORS_DROPPED, &text, err);
	if (rc < 0)
		return rc;
	if (rc == CALL_EXIT_NOT_FOUND)
		return err_set(err, -ENOENT, "there is no docker in PATH any more");
	if (text.length == 0)
		return err_set(err, -EIO, "'docker info' failed: run it by hand, it says why");

	rc = docker_parse_info(buf_text(&text), text.length, out, err);
	if (rc != -ENOTCONN)
		return rc;

	/* From some release on the answer does not say why there is none. */
	buf_clear(&text);
	if (call_run(argv, CALL_ERRORS_READ, &text, NULL) >= 0 && text.length > 0)
		rc = docker_trouble(buf_text(&text), err);

	return rc;
}

/* Where root's daemon listens: its default, and the same without the link. */
static bool settings_is_roots_docker(const char *host)
{
	return !host || !*host || strcmp(host, "unix:///var/run/docker.sock") == 0 ||
	       strcmp(host, "unix:///run/docker.sock") == 0;
}

const char *settings_elsewhere(const struct docker_info *info,
			       const struct container_settings *settings, uid_t uid,
			       const char *host)
{
	if (uid != 0 && (info->has_context || !settings_is_roots_docker(host)))
		return "docker is asked at a place of its user's (DOCKER_HOST, docker context), "
		       "and "
		       "what is there is not known to be root's";

	if (!info->has_cgroups)
		return "docker asks systemd for its containers' cgroups, so this one is not in the "
		       "job's (\"exec-opts\": [\"native.cgroupdriver=cgroupfs\"] in "
		       "/etc/docker/daemon.json changes that)";

	return settings->parent[0] ? NULL : "the job has no cgroup that docker could use";
}

static int settings_no_device(enum scan_state state, const char *name, const struct scan_file *file,
			      const struct scan_file *other, struct err *err)
{
	const char *hint = text_starts_with(name, "sluice.sim/")
			       ? " (simulated: start the agent in 'sluice sim exec --mounts')"
			       : "";

	if (state == SCAN_CONFLICT)
		return err_set(err, -ENODEV, "'%s' is in '%s' and in '%s', so no runtime takes it",
			       name, file->path, other->path);

	if (state == SCAN_NO_DEVICE)
		return err_set(
		    err, -ENODEV,
		    "the CDI specification '%s' has no '%s': 'sluice cdi check' says why",
		    file ? file->path : "?", name);

	return err_set(err, -ENODEV,
		       "no CDI specification in /etc/cdi or /var/run/cdi has '%s': 'sluice cdi "
		       "check' says why%s",
		       name, hint);
}

static int settings_check_device(const struct scan *scan, const char *name, struct err *err)
{
	const struct scan_file *file = NULL, *other = NULL;
	enum scan_state state = scan_find(scan, name, &file, &other);
	return state == SCAN_FOUND ? 0 : settings_no_device(state, name, file, other, err);
}

int settings_check_devices(const struct launch *launch, struct scan *scan, struct err *err)
{
	char name[CHOICES_DEVICE_MAX];

	*scan = (struct scan){.count = 0};
	int rc = launch->grant_count > 0 || launch->adapters[0] ? scan_read("", scan, err) : 0;
	for (size_t i = 0; rc == 0 && i < launch->grant_count; i++) {
		choices_device(launch->grants[i].uuid, name);
		rc = settings_check_device(scan, name, err);
	}

	for (const char *at = launch->adapters; rc == 0 && *at;) {
		size_t length = strcspn(at, ",");
		choices_adapter(launch, at, length, name);
		rc = settings_check_device(scan, name, err);
		at += length + (at[length] == ',');
	}

	return rc;
}
