/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/jobs/jobgroup.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "agent/jobs/jobscope.h"
#include "agent/paths.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "job/cgroup/cgroup.h"

enum jobgroup_internals {
	JOBGROUP_SELF_MAX = 16 << 10, /* bytes of /proc/self/cgroup */
};

/* Where cgroup2 is: alone, or beside the old hierarchies. */
static const char *const jobgroup_mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified", NULL};
/* By their full names: what root's agent runs is not to hang on a PATH. */
static const char *const jobgroup_runs[] = {"/usr/bin/systemd-run", "/bin/systemd-run", NULL};
static const struct jobgroup_places jobgroup_real = {.mounts = jobgroup_mounts,
						     .self = "/proc/self/cgroup",
						     /* sd_booted(3) */
						     .booted = "/run/systemd/system",
						     .runs = jobgroup_runs};

static const char *jobgroup_find_mount(const struct jobgroup_places *places)
{
	for (size_t i = 0; places->mounts[i]; i++) {
		struct statfs info;
		if (statfs(places->mounts[i], &info) == 0 &&
		    (places->any_file_system ||
		     (uint32_t)info.f_type == (uint32_t)CGROUP2_SUPER_MAGIC))
			return places->mounts[i];
	}

	return NULL;
}

/* The path behind "0::", from the mount; "" for the top. */
static int jobgroup_own(const struct jobgroup_places *places, char out[JOBGROUP_PATH_MAX],
			struct err *err)
{
	_cleanup_buf_ struct buf text;
	buf_init(&text, JOBGROUP_SELF_MAX);

	int rc = file_read(places->self, &text, err);
	if (rc < 0)
		return rc;

	const char *line = buf_text(&text);
	while (line && !text_starts_with(line, "0::/")) {
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}

	if (!line)
		return err_set(err, -ENOENT, "'%s' names no group of cgroup v2", places->self);

	size_t length = strcspn(line + 3, "\n");
	if (length >= JOBGROUP_PATH_MAX)
		return err_set(err, -ENAMETOOLONG, "the name of this process's cgroup is too long");

	/* "/" alone is the top */
	(void)snprintf(out, JOBGROUP_PATH_MAX, "%.*s", length > 1 ? (int)length : 0, line + 3);
	return 0;
}

/* Two agents of one machine must not share it: their jobs have the same numbers. */
static uint64_t jobgroup_digest(const char *text)
{
	uint64_t digest = UINT64_C(14695981039346656037); /* FNV-1a */
	for (; *text; text++)
		digest = (digest ^ (unsigned char)*text) * UINT64_C(1099511628211);
	return digest;
}

/* Not one that somebody tries beside the machine's or the user's own. */
static bool jobgroup_is_usual(const char *runtime_dir, bool is_system)
{
	char usual[64] = "/run/sluice";
	if (!is_system)
		(void)snprintf(usual, sizeof(usual), "/run/user/%u/sluice", (unsigned)geteuid());
	return strcmp(runtime_dir, usual) == 0;
}

static int jobgroup_make_plain(const struct jobgroup *group, struct err *err)
{
	const char *path = group->plain;
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return err_set(err, -errno, "cannot make the cgroup '%s': %s", path,
			       err_describe(-errno));
	if (access(path, W_OK | X_OK) < 0)
		return err_set(err, -errno, "cannot use the cgroup '%s': %s", path,
			       err_describe(-errno));

	return 0;
}

/* What jobscope.h wants to know. 0; -ENOENT: systemd does not run this machine, or cannot be asked.
 */
static int jobgroup_ask(const struct jobgroup *group, const char *mount, const char *own,
			const char *supervisor, struct jobscope_options *out, struct err *err)
{
	const struct jobgroup_places *places = group->places;
	struct stat booted;

	if (!places->booted || stat(places->booted, &booted) < 0 || !S_ISDIR(booted.st_mode))
		return -ENOENT;

	*out = (struct jobscope_options){
	    .mount = mount, .own = own, .supervisor = supervisor, .is_system = group->is_system};
	for (size_t i = 0; places->runs[i] && !out->systemd_run; i++)
		out->systemd_run = access(places->runs[i], X_OK) == 0 ? places->runs[i] : NULL;

	return out->systemd_run ? 0 : err_set(err, -ENOENT, "there is no systemd-run");
}

/* 1: it is systemd's, at group->path. 0: it cannot be, and `err` says why if one should expect it.
 */
static int jobgroup_make_scope(struct jobgroup *group, const char *mount, const char *own,
			       const char *supervisor, struct err *err)
{
	struct jobscope_options scope;
	int rc = jobgroup_ask(group, mount, own, supervisor, &scope, err);
	if (rc == 0) /* where there is none for this agent, nobody expects it */
		rc = jobscope_path(&scope, group->path, sizeof(group->path), NULL);
	if (rc == 0)
		rc = jobscope_make(&scope, group->path, err);
	group->is_scope = rc == 0;

	return group->is_scope;
}

int jobgroup_make(const struct jobgroup_options *options, struct jobgroup *out, struct err *err)
{
	char own[JOBGROUP_PATH_MAX] = "";
	struct err why = {0};
	struct jobgroup group = {.is_system = options->is_system,
				 .places = options->places ? options->places : &jobgroup_real};
	const char *mount = jobgroup_find_mount(group.places);
	if (!mount)
		return err_set(err, -ENOENT, "there is no cgroup v2 file system in /sys/fs/cgroup");

	int rc = options->is_system ? 0 : jobgroup_own(group.places, own, err);
	if (rc < 0)
		return rc;

	int length = snprintf(group.plain, sizeof(group.plain), "%s%s/sluice-%016" PRIx64, mount,
			      own, jobgroup_digest(options->state_dir));
	if (length < 0 || (size_t)length >= sizeof(group.plain))
		return err_set(err, -ENAMETOOLONG, "the name of this process's cgroup is too long");

	if (jobgroup_is_usual(options->runtime_dir, options->is_system) &&
	    jobgroup_make_scope(&group, mount, own, options->supervisor, &why) == 1) {
		(void)rmdir(group.plain); /* of an older agent; EBUSY: its jobs are in it */
		*out = group;
		return 0;
	}

	rc = jobgroup_make_plain(&group, err);
	if (rc < 0)
		return rc;

	memcpy(group.path, group.plain, sizeof(group.path));
	*out = group;
	if (why.text[0])
		(void)err_set(err, -EIO, "%s", why.text);

	return why.text[0] ? 1 : 0;
}

void jobgroup_open(const struct agent_paths *paths, const char *supervisor, struct log *log,
		   struct jobgroup *out)
{
	const struct jobgroup_options options = {.state_dir = paths->state_dir,
						 .runtime_dir = paths->runtime_dir,
						 .supervisor = supervisor,
						 .is_system = paths->is_system};
	struct err err = {0};
	int rc = jobgroup_make(&options, out, &err);
	if (rc < 0)
		log_write(log, LOG_LEVEL_INFO, NULL, "jobs get no cgroup of their own: %s",
			  err.text);
	else if (rc > 0)
		log_write(log, LOG_LEVEL_WARNING, NULL,
			  "jobs' cgroups are made outside of systemd's units: %s", err.text);
}

void jobgroup_renew(const char *supervisor, const void *group)
{
	struct jobgroup again = *(const struct jobgroup *)group;
	char own[JOBGROUP_PATH_MAX] = "";
	const char *mount = again.is_scope ? jobgroup_find_mount(again.places) : NULL;
	if (mount && (again.is_system || jobgroup_own(again.places, own, NULL) == 0))
		(void)jobgroup_make_scope(&again, mount, own, supervisor, NULL);
}

void jobgroup_remove(const struct jobgroup *group)
{
	if (!group->path[0])
		return;
	(void)rmdir(group->plain); /* EBUSY: a job is in it */
	cgroup_remove_v1(group->plain, false);
}

bool jobgroup_end_scope(const struct agent_paths *paths)
{
	char path[JOBGROUP_PATH_MAX], name[FILE_PATH_MAX];
	struct cgroup keeper _cleanup_cgroup_ = CGROUP_NONE;
	const char *mount = jobgroup_find_mount(&jobgroup_real);
	const struct jobscope_options scope = {.mount = mount, .own = "", .is_system = true};
	size_t count = 0;

	if (!mount || !paths->is_system || !jobgroup_is_usual(paths->runtime_dir, true) ||
	    jobscope_path(&scope, path, sizeof(path), NULL) < 0)
		return false;

	_cleanup_closedir_ DIR *list = opendir(path);
	for (const struct dirent *entry; list && (entry = readdir(list));)
		if (entry->d_type == DT_DIR && entry->d_name[0] != '.' &&
		    strcmp(entry->d_name, CGROUP_SUPERVISORS) != 0)
			return false; /* of a job */

	return list && file_path(name, NULL, "%s/%s", path, CGROUP_SUPERVISORS) == 0 &&
	       cgroup_open(name, &keeper, NULL) == 0 && cgroup_count(&keeper, &count, NULL) == 0 &&
	       count == 1 && cgroup_kill(&keeper, NULL) == 0;
}
