/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/supervise/prepare.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/acl.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "job/tree.h"
#include "libexec/supervise/privilege.h"

enum { PREPARE_NAME_MAX = 32, PREPARE_FD_PARTS = 2 };

int prepare_launch(int fd, struct launch *out, struct err *err)
{
	struct stat status;
	if (fstat(fd, &status) < 0)
		return err_set(err, -errno, "looking at the launch: %s", err_describe(errno));
	if (status.st_size <= 0 || status.st_size > LAUNCH_BYTES_MAX)
		return err_set(err, -EINVAL, "a launch of %lld bytes: %d are allowed",
			       (long long)status.st_size, LAUNCH_BYTES_MAX);

	size_t size = (size_t)status.st_size;
	_cleanup_free_ char *bytes = malloc(size);
	if (!bytes)
		return err_set(err, -ENOMEM, "no memory for the launch");

	ssize_t length = pread(fd, bytes, size, 0);
	if (length < 0)
		return err_set(err, -errno, "reading the launch: %s", err_describe(errno));

	return launch_parse(bytes, (size_t)length, out, err);
}

int prepare_cgroup(const struct launch *launch, struct cgroup *out, struct err *err)
{
	if (launch->cgroup_root[0] == '\0')
		return err_set(err, -ENOENT, "the agent has no cgroup for jobs");
	char name[LAUNCH_CGROUP_MAX];
	launch_cgroup_name(launch->id, launch->instance, name);
	return cgroup_create(launch->cgroup_root, name, out, err);
}

int prepare_supervisors(const struct launch *launch, struct cgroup *out, struct err *err)
{
	char path[FILE_PATH_MAX];
	if (launch->cgroup_root[0] == '\0')
		return err_set(err, -ENOENT, "the agent has no cgroup for jobs");
	int rc = file_path(path, err, "%s/%s", launch->cgroup_root, CGROUP_SUPERVISORS);
	return rc < 0 ? rc : cgroup_open(path, out, err);
}

void prepare_limits(const struct launch *launch, const struct cgroup *cgroup, struct cglimit *out)
{
	const struct wants *wants = &launch->spec.wants;
	struct cglimit_wants limits = {
	    .mem_bytes = wants->mem_bytes, .cpu_milli = wants->cpu_milli, .pids = wants->pids};

	/* Nobody misses it where there is no group, and it is not said: the job did not ask. */
	if (limits.pids == 0 && cgroup->fd >= 0 && geteuid() == 0) {
		limits.pids = cglimit_default_pids();
		/* Whoever has to join another group of v1 may join this one as well; and what is in
		 * groups of workers is not found later. */
		limits.is_late =
		    limits.mem_bytes == 0 && limits.cpu_milli == 0 && wants->workers == 0;
	}

	cglimit_apply(cgroup, &limits, out);
}

/* --- tokens ----------------------------------------------------------------------------------- */

static size_t prepare_count(const struct launch *launch)
{
	size_t count = 0;
	for (size_t i = 0; i < launch->grant_count; i++)
		for (uint32_t slot = 0; slot < launch->grants[i].slot_count; slot++)
			count += launch_grant_has(&launch->grants[i], slot);
	return count;
}

/* Each token has two descriptors, and more are needed than most programs are allowed by default. */
static void prepare_descriptors(size_t tokens)
{
	struct rlimit limit;
	rlim_t wanted = PREPARE_FD_MIN + PREPARE_FD_PARTS * (rlim_t)tokens + PREPARE_FD_MIN;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= wanted)
		return;
	limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit); /* else the tokens that do not fit say so */
}

static void prepare_raise(int *fd)
{
	int high = *fd < 0 ? -1 : fcntl(*fd, F_DUPFD_CLOEXEC, PREPARE_FD_MIN);
	if (high < 0)
		return; /* then where it is */
	(void)close(*fd);
	*fd = high;
}

/* Puts into `err` who has it. */
static int prepare_busy(const struct token_place *place, const struct launch_grant *grant,
			uint32_t slot, struct err *err)
{
	struct note holder = {0}, said;
	_cleanup_close_ int fd = token_watch(place, grant->uuid, slot, &holder, NULL);
	if (fd >= 0)
		(void)token_read_note(fd, PREPARE_WHO_MS, &holder, NULL); /* else without a name */
	else if (token_read_lock(place, grant->uuid, slot, &said, NULL) == 0)
		holder = said;

	const char *label = grant->label[0] ? grant->label : grant->uuid;

	if (holder.pid == 0)
		return err_set(err, -EBUSY, "%s (slot %u) is held by somebody who cannot be seen",
			       label, slot);

	return err_set(err, -EBUSY, "%s (slot %u) is held by process %d of user %u%s%s%s", label,
		       slot, (int)holder.pid, (unsigned)holder.uid, holder.name[0] ? " (" : "",
		       holder.name, holder.name[0] ? ")" : "");
}

void prepare_set_name(const struct launch *launch, struct note *out)
{
	char number[PREPARE_NAME_MAX];
	(void)snprintf(number, sizeof(number), "%" PRIu64, launch->id);
	note_set_name(out, number);
}

static int prepare_take(const struct launch *launch, const struct token_place *place,
			struct prepare_tokens *out, struct err *err)
{
	struct note self = {.pid = getpid(),
			    .uid = launch->spec.uid,
			    .since_s = (uint64_t)clock_unix_ns() / CLOCK_NS_PER_S};
	prepare_set_name(launch, &self);

	for (size_t i = 0; i < launch->grant_count; i++) {
		const struct launch_grant *grant = &launch->grants[i];

		for (uint32_t slot = 0; slot < grant->slot_count; slot++) {
			if (!launch_grant_has(grant, slot))
				continue;

			struct token *token = &out->tokens[out->count];
			int rc = token_take(place, grant->uuid, slot, &self, token, err);
			if (rc == -EBUSY)
				return prepare_busy(place, grant, slot, err);
			if (rc < 0)
				return rc;

			out->count++;
			prepare_raise(&token->socket_fd);
			prepare_raise(&token->lock_fd);
		}
	}

	return 0;
}

int prepare_tokens(const struct launch *launch, struct prepare_tokens *out, struct err *err)
{
	*out = (struct prepare_tokens){0};
	size_t count = prepare_count(launch);
	if (count == 0)
		return 0;

	prepare_descriptors(count);
	struct token_place place _cleanup_token_place_ = TOKEN_PLACE_NONE;
	int rc = token_place_open(launch->runtime_dir[0] ? launch->runtime_dir : NULL,
				  launch->sim_state[0] ? launch->sim_state : NULL, &place, err);
	if (rc < 0)
		return rc;

	out->tokens = calloc(count, sizeof(*out->tokens));
	if (!out->tokens)
		return err_set(err, -ENOMEM, "no memory for the tokens of the GPUs");

	rc = prepare_take(launch, &place, out, err);
	if (rc < 0)
		prepare_release(out);

	return rc;
}

void prepare_release(struct prepare_tokens *tokens)
{
	for (size_t i = 0; i < tokens->count; i++)
		token_release(&tokens->tokens[i]);
	free(tokens->tokens);
	*tokens = (struct prepare_tokens){0};
}

/* --- files ------------------------------------------------------------------------------------ */

/* In one of its own user's, nothing would keep him from writing past the limit: but his quota,
 * where he has one, and that counts only his own. */
bool prepare_is_limited(int job_fd, const struct launch *launch)
{
	return launch->log_bytes > 0 && geteuid() == 0 && launch->spec.uid != 0 &&
	       !privilege_has_quota(job_fd, launch->spec.uid);
}

/* Root's, which the job's user may read. It counts against his group's quota, if there is one. */
int prepare_keep(int fd, uid_t uid, gid_t gid)
{
	if (fchown(fd, 0, gid) < 0)
		return -errno;
	int rc = acl_give(fd, ACL_READ | ACL_WRITE, uid, ACL_READ);
	/* Where there are no such lists the agent reads it for him. */
	if (rc == -EOPNOTSUPP)
		rc = fchmod(fd, 0600) < 0 ? -errno : 0;
	return rc;
}

/* Others have no right to look, whatever our umask. */
static int prepare_hand_over(int fd, const struct spec *spec, const struct stat *status)
{
	if (fchmod(fd, 0600) < 0 ||
	    (status->st_uid != spec->uid && fchown(fd, spec->uid, spec->gid) < 0))
		return -errno;
	return 0;
}

static int prepare_open(int job_fd, const char *name, struct stat *status)
{
	_cleanup_close_ int fd = openat(
	    job_fd, name,
	    O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
	if (fd < 0 || fstat(fd, status) < 0)
		return -errno;
	return take_fd(&fd);
}

int prepare_output(int job_fd, const struct launch *launch, const char *prefix, struct err *err)
{
	char name[PREPARE_NAME_MAX];
	struct stat status;
	bool is_limited = prepare_is_limited(job_fd, launch);

	(void)snprintf(name, sizeof(name), "%s.%" PRIu32, prefix, launch->attempt); /* fits */
	int rc = prepare_open(job_fd, name, &status);
	/* Of a start that was given back, without a limit then: he may have it open. */
	if (rc >= 0 && is_limited && status.st_uid != 0) {
		(void)close(rc);
		rc = unlinkat(job_fd, name, 0) < 0 ? -errno : prepare_open(job_fd, name, &status);
	}

	_cleanup_close_ int fd = rc;
	if (fd < 0)
		return err_set(err, fd, "opening '%s' of job %" PRIu64 ": %s", name, launch->id,
			       err_describe(fd));
	if (!S_ISREG(status.st_mode))
		return err_set(err, -EINVAL, "'%s' of job %" PRIu64 " is no plain file", name,
			       launch->id);

	rc = is_limited ? prepare_keep(fd, launch->spec.uid, launch->spec.gid)
			: prepare_hand_over(fd, &launch->spec, &status);
	/* The job keeps no O_NONBLOCK. */
	if (rc == 0 && fcntl(fd, F_SETFL, O_APPEND) < 0)
		rc = -errno;
	if (rc < 0)
		return err_set(err, rc, "giving '%s' of job %" PRIu64 " to user %u: %s", name,
			       launch->id, (unsigned)launch->spec.uid, err_describe(rc));

	return take_fd(&fd);
}

static int prepare_boot_id(char out[JOBDIR_BOOT_MAX], struct err *err)
{
	struct buf text _cleanup_buf_;

	buf_init(&text, PREPARE_TEXT_MAX);
	int rc = file_read("/proc/sys/kernel/random/boot_id", &text, err);
	if (rc < 0)
		return rc;

	(void)snprintf(out, JOBDIR_BOOT_MAX, "%.*s", (int)strcspn(buf_text(&text), "\n"),
		       buf_text(&text)); /* cut if the kernel says more */
	return 0;
}

int prepare_claim(const struct launch *launch, const struct cgroup *cgroup,
		  struct jobdir_claim *out, struct err *err)
{
	struct jobdir_claim claim = {.pid = getpid()};
	struct tree_process self;
	int rc = tree_read(claim.pid, &self, err);
	if (rc == 0)
		rc = prepare_boot_id(claim.boot_id, err);

	if (rc < 0)
		return rc;

	claim.start_ticks = self.start;
	claim.unix_ns = clock_unix_ns();
	_Static_assert(sizeof(claim.instance) == sizeof(launch->instance), "copied as they are");
	memcpy(claim.instance, launch->instance, sizeof(claim.instance));

	if (cgroup->fd >= 0)
		(void)snprintf(claim.cgroup, sizeof(claim.cgroup), "%s", cgroup->path); /* fits */
	*out = claim;
	return 0;
}
