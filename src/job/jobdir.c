/* SPDX-License-Identifier: Apache-2.0 */
#include "job/jobdir.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/acl.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/crash.h"
#include "base/err.h"
#include "base/names.h"
#include "base/parse.h"
#include "base/text.h"
#include "job/trash.h"

enum {
	JOBDIR_NAME_MAX = 40, /* "tmp.", 20 digits, a dot and 8; "result." and 10 */
};

static void jobdir_name(char out[JOBDIR_NAME_MAX], const char *prefix, uint64_t number)
{
	(void)snprintf(out, JOBDIR_NAME_MAX, "%s%" PRIu64, prefix, number); /* always fits */
}

/* fsync of a directory, also of one that was opened O_PATH. */
static int jobdir_sync_fd(int fd, const char *what, struct err *err)
{
	_cleanup_close_ int open_fd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* EINVAL: a file system that cannot fsync directories has nothing to lose by it. */
	if (open_fd < 0 || (fsync(open_fd) < 0 && errno != EINVAL))
		return err_set(err, -errno, "making %s durable: %s", what, err_describe(errno));
	return 0;
}

static int jobdir_open_jobs(int state_fd, struct err *err)
{
	int fd = openat(state_fd, "j", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, "opening the directory 'j' of the jobs: %s",
			       err_describe(errno));
	return fd;
}

/* --- making and removing ---------------------------------------------------------------------- */

/* One of its own each time: what a killed process left may be there for good. */
static void jobdir_temporary_name(char out[JOBDIR_NAME_MAX], uint64_t id)
{
	uint32_t random = 0;
	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
		random = (uint32_t)getpid(); /* one that is taken is noticed */
	(void)snprintf(out, JOBDIR_NAME_MAX, "tmp.%" PRIu64 ".%08" PRIx32, id, random); /* fits */
}

/* Of "tmp.7.0a1b2c3d", or "tmp.7" as it was: 7. */
static uint64_t jobdir_temporary_id(const char *name)
{
	uint64_t id;
	const char *digits = name + 4;
	return parse_u64_span(digits, strcspn(digits, "."), 0, UINT64_MAX, &id) < 0 ? 0 : id;
}

/* On a full disk even a rename may find no room: the files go first. What is in them is over. */
static void jobdir_drop_files(int jobs_fd, const char *name)
{
	int fd = openat(jobs_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_closedir_ DIR *list = fd < 0 ? NULL : fdopendir(fd);
	if (!list && fd >= 0)
		(void)close(fd);

	struct dirent *entry;
	for (int i = 0; list && i < TRASH_FILES_MAX && (entry = readdir(list)); i++)
		if (entry->d_type != DT_DIR)
			(void)unlinkat(dirfd(list), entry->d_name, 0); /* or it stays */
}

/* Out of sight in one step, whatever a job has put there; not there is fine. */
static int jobdir_discard(int state_fd, int jobs_fd, const char *name, uint64_t id, struct err *err)
{
	char temporary[JOBDIR_NAME_MAX];
	jobdir_temporary_name(temporary, id);

	_cleanup_close_ int trash_fd = trash_open(state_fd, err);
	int rc = trash_fd < 0 ? trash_fd : trash_move(trash_fd, jobs_fd, name, id, err);
	/* On a full disk, or with 'j' on a disk of its own (EXDEV): what is flat goes where it is.
	 * Hidden first, for half of a directory would be a job that has lost its files. */
	if ((rc == -ENOSPC || rc == -EDQUOT || rc == -EXDEV) &&
	    renameat(jobs_fd, name, jobs_fd, temporary) == 0) {
		jobdir_drop_files(jobs_fd, temporary);
		if (unlinkat(jobs_fd, temporary, AT_REMOVEDIR) == 0)
			return 0;

		int again = trash_open(state_fd, NULL);
		int moved = again < 0 ? again : trash_move(again, jobs_fd, temporary, id, NULL);

		cleanup_close_fn(&again);
		return moved == 0 || !text_starts_with(name, "tmp.") ? 0 : rc; /* or later */
	}

	return rc == -ENOENT ? 0 : rc;
}

/* Room for the result: it must be writable when nothing else is. */
int jobdir_reserve(int fd, struct err *err)
{
	_cleanup_close_ int room =
	    openat(fd, "room", O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (room < 0)
		return err_set(err, -errno, "making the file 'room' of a job: %s",
			       err_describe(errno));

	crash_point("jobdir.room_made");
	int code = posix_fallocate(room, 0, JOBDIR_FILE_MAX);
	if (code != 0)
		return err_set(err, -code, "reserving room for a job's result: %s",
			       err_describe(code));

	return 0;
}

int jobdir_give(int job_fd, uid_t uid, gid_t gid, struct err *err)
{
	/* Whoever may pass also sees how large the output is. */
	int rc = 0;

	if (geteuid() != 0 || uid == 0)
		rc = fchmod(job_fd, 0700) < 0 ? -errno : 0;
	else
		rc = acl_give(job_fd, ACL_READ | ACL_WRITE | ACL_EXECUTE, uid, ACL_EXECUTE);

	if (rc == -EOPNOTSUPP && gid == (gid_t)-1)
		return 0;
	if (rc == -EOPNOTSUPP)
		rc = fchown(job_fd, (uid_t)-1, gid) < 0 || fchmod(job_fd, 0710) < 0 ? -errno : 0;
	if (rc < 0)
		return err_set(err, rc, "letting user %u into a job's directory: %s", (unsigned)uid,
			       err_describe(rc));

	return 0;
}

static int jobdir_fill(int fd, uid_t uid, struct err *err)
{
	int rc = jobdir_give(fd, uid, (gid_t)-1, err);
	if (rc < 0)
		return rc;

	_cleanup_close_ int lock =
	    openat(fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (lock < 0)
		return err_set(err, -errno, "making the lock of a job: %s", err_describe(errno));

	crash_point("jobdir.lock_made");
	return jobdir_reserve(fd, err);
}

static int jobdir_make_temporary(int jobs_fd, const char *temporary, uid_t uid, struct err *err)
{
	if (mkdirat(jobs_fd, temporary, 0700) < 0)
		return err_set(err, -errno, "making 'j/%s': %s", temporary, err_describe(errno));

	crash_point("jobdir.temporary_made");
	_cleanup_close_ int fd =
	    openat(jobs_fd, temporary, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, "opening 'j/%s': %s", temporary, err_describe(errno));

	return jobdir_fill(fd, uid, err);
}

int jobdir_create(int state_fd, uint64_t id, uid_t uid, struct err *err)
{
	char name[JOBDIR_NAME_MAX], temporary[JOBDIR_NAME_MAX];
	jobdir_name(name, "", id);
	jobdir_temporary_name(temporary, id);

	if (mkdirat(state_fd, "j", 0711) < 0 && errno != EEXIST)
		return err_set(err, -errno, "making the directory 'j' of the jobs: %s",
			       err_describe(errno));

	_cleanup_close_ int jobs = jobdir_open_jobs(state_fd, err);
	if (jobs < 0)
		return jobs;

	int rc = jobdir_make_temporary(jobs, temporary, uid, err);

	crash_point("jobdir.filled");
	/* One that is there has files in it, so it is not replaced. */
	if (rc == 0 && renameat(jobs, temporary, jobs, name) < 0) {
		int code = errno == ENOTEMPTY ? EEXIST : errno;
		rc = err_set(err, -code, "making 'j/%s': %s", name, err_describe(code));
	}

	if (rc < 0)
		(void)jobdir_discard(state_fd, jobs, temporary, id,
				     NULL); /* jobdir_list() does it else */

	crash_point("jobdir.renamed");
	return rc;
}

int jobdir_sync(int state_fd, struct err *err)
{
	_cleanup_close_ int jobs = jobdir_open_jobs(state_fd, err);
	return jobs < 0 ? jobs : jobdir_sync_fd(jobs, "the jobs' directories", err);
}

int jobdir_open(int state_fd, uint64_t id, struct err *err)
{
	char name[JOBDIR_NAME_MAX];
	jobdir_name(name, "", id);

	_cleanup_close_ int jobs = jobdir_open_jobs(state_fd, err);
	if (jobs < 0)
		return jobs;

	int fd = openat(jobs, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, "opening the directory 'j/%s': %s", name,
			       err_describe(errno));

	return fd;
}

int jobdir_remove(int state_fd, uint64_t id, struct err *err)
{
	char name[JOBDIR_NAME_MAX];
	jobdir_name(name, "", id);

	_cleanup_close_ int jobs = jobdir_open_jobs(state_fd, err);
	if (jobs < 0)
		return jobs == -ENOENT ? 0 : jobs;

	int rc = jobdir_discard(state_fd, jobs, name, id, err);
	crash_point("jobdir.hidden");
	return rc;
}

static int jobdir_by_number(const void *a, const void *b)
{
	uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;
	return first < second ? -1 : first > second;
}

/* Whether it is the name of a job's directory as we write it: "7", not "007". */
static bool jobdir_is_id(const char *name, uint64_t *out)
{
	char again[JOBDIR_NAME_MAX];
	uint64_t id;

	if (parse_u64(name, 0, UINT64_MAX, &id) < 0)
		return false;

	jobdir_name(again, "", id);
	if (strcmp(name, again) != 0)
		return false;

	*out = id;
	return true;
}

int jobdir_list(int state_fd, uint64_t **out_ids, size_t *out_count, size_t *out_stays,
		struct err *err)
{
	size_t stays = 0;

	if (out_stays)
		*out_stays = 0;

	int jobs = jobdir_open_jobs(state_fd, err);
	if (jobs == -ENOENT) {
		*out_ids = NULL;
		*out_count = 0;
		return 0;
	}

	if (jobs < 0)
		return jobs;

	_cleanup_closedir_ DIR *list = fdopendir(jobs);
	if (!list) {
		(void)close(jobs);
		return err_set(err, -ENOMEM, "no memory for the list of jobs");
	}

	_cleanup_free_ uint64_t *ids = NULL;
	size_t count = 0, room = 0;
	struct dirent *entry;

	while ((entry = readdir(list))) {
		uint64_t id;

		if (text_starts_with(entry->d_name, "tmp.")) {
			if (jobdir_discard(state_fd, jobs, entry->d_name,
					   jobdir_temporary_id(entry->d_name), NULL) < 0)
				stays++; /* in nobody's way: its number is not given again */
			continue;
		}

		if (!jobdir_is_id(entry->d_name, &id))
			continue;
		if (count == JOBDIR_LIST_MAX)
			return err_set(err, -EOVERFLOW, "more than %d directories of jobs in 'j'",
				       JOBDIR_LIST_MAX);

		if (array_room(&ids, count, &room, 64) < 0)
			return err_set(err, -ENOMEM, "no memory for the list of jobs");

		ids[count++] = id;
	}

	if (count)
		qsort(ids, count, sizeof(*ids), jobdir_by_number);
	*out_ids = take_ptr(ids);
	*out_count = count;

	if (out_stays)
		*out_stays = stays;

	return 0;
}

int jobdir_lock(int job_fd, struct err *err)
{
	/* Made again where a power loss has swallowed it: then nobody holds it. */
	_cleanup_close_ int fd =
	    openat(job_fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_set(err, -errno, "opening the lock of a job: %s", err_describe(errno));
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return err_set(err, errno == EWOULDBLOCK ? -EBUSY : -errno, "locking a job: %s",
			       err_describe(errno));

	return take_fd(&fd);
}

/* --- texts ------------------------------------------------------------------------------------ */

struct jobdir_lines {
	const char *at, *end;
};

/* Takes the line "key value": its value, or NULL when the next line is another. */
static const char *jobdir_line(struct jobdir_lines *lines, const char *key, size_t *out_length)
{
	size_t left = (size_t)(lines->end - lines->at), size = strlen(key);
	const char *stop = memchr(lines->at, '\n', left);
	if (!stop || (size_t)(stop - lines->at) < size + 1 || memcmp(lines->at, key, size) != 0 ||
	    lines->at[size] != ' ')
		return NULL;

	const char *value = lines->at + size + 1;
	*out_length = (size_t)(stop - value);
	lines->at = stop + 1;

	return value;
}

/* Whether that is the next line: of what is written only where it says something. */
static bool jobdir_has(const struct jobdir_lines *lines, const char *key)
{
	struct jobdir_lines copy = *lines;
	size_t length;
	return jobdir_line(&copy, key, &length) != NULL;
}

static bool jobdir_u64(struct jobdir_lines *lines, const char *key, uint64_t max, uint64_t *out)
{
	size_t length;
	const char *value = jobdir_line(lines, key, &length);
	return value && parse_u64_span(value, length, 0, max, out) == 0;
}

static bool jobdir_i64(struct jobdir_lines *lines, const char *key, int64_t min, int64_t max,
		       int64_t *out)
{
	size_t length;
	const char *value = jobdir_line(lines, key, &length);
	char text[24];

	if (!value || length >= sizeof(text) || memchr(value, '\0', length))
		return false;

	memcpy(text, value, length);
	text[length] = '\0';
	return parse_i64(text, min, max, out) == 0;
}

/* Texts hold no control characters: as jobdir_clean() leaves them. */
static bool jobdir_text(struct jobdir_lines *lines, const char *key, char *out, size_t size)
{
	size_t length;
	const char *value = jobdir_line(lines, key, &length);
	if (!value || length >= size)
		return false;

	for (size_t i = 0; i < length; i++)
		if ((unsigned char)value[i] < ' ')
			return false;

	memcpy(out, value, length);
	out[length] = '\0';
	return true;
}

static void jobdir_clean(const char *text, size_t size, char *out)
{
	size_t length = strnlen(text, size - 1);
	for (size_t i = 0; i < length; i++)
		out[i] = (unsigned char)text[i] < ' ' ? ' ' : text[i];
	out[length] = '\0';
}

static size_t jobdir_format_claim(const struct jobdir_claim *claim, char out[JOBDIR_FILE_MAX])
{
	char boot[JOBDIR_BOOT_MAX], instance[JOBDIR_INSTANCE_MAX], cgroup[JOBDIR_TEXT_MAX];
	jobdir_clean(claim->boot_id, sizeof(boot), boot);
	jobdir_clean(claim->instance, sizeof(instance), instance);
	jobdir_clean(claim->cgroup, sizeof(cgroup), cgroup);

	int length =
	    snprintf(out, JOBDIR_FILE_MAX,
		     "claim 1\npid %d\nstart %" PRIu64 "\nboot %s\ninstance %s\ncgroup %s\n"
		     "time %" PRId64 "\n",
		     (int)claim->pid, claim->start_ticks, boot, instance, cgroup,
		     claim->unix_ns); /* about 500 bytes at most */
	return (size_t)length;
}

int jobdir_parse_claim(const char *text, size_t length, struct jobdir_claim *out, struct err *err)
{
	struct jobdir_lines lines = {.at = text, .end = text + length};
	struct jobdir_claim claim = {0};
	uint64_t version, pid;

	if (!jobdir_u64(&lines, "claim", UINT64_MAX, &version) || version != 1 ||
	    !jobdir_u64(&lines, "pid", INT32_MAX, &pid) ||
	    !jobdir_u64(&lines, "start", UINT64_MAX, &claim.start_ticks) ||
	    !jobdir_text(&lines, "boot", claim.boot_id, sizeof(claim.boot_id)) ||
	    !jobdir_text(&lines, "instance", claim.instance, sizeof(claim.instance)) ||
	    !jobdir_text(&lines, "cgroup", claim.cgroup, sizeof(claim.cgroup)) ||
	    !jobdir_i64(&lines, "time", INT64_MIN, INT64_MAX, &claim.unix_ns) ||
	    lines.at != lines.end)
		return err_set(err, -EBADMSG, "a claim of %zu bytes cannot be read", length);

	claim.pid = (pid_t)pid;
	*out = claim;
	return 0;
}

static const char *const jobdir_ends[] = {"exited",   "signalled",     "launch-error", "cancelled",
					  "deadline", "worker-failed", "idle"};

const char *jobdir_end_to_string(enum jobdir_end end)
{
	return names_at(jobdir_ends, end, "unknown");
}

bool jobdir_is_container_error(const struct jobdir_result *result)
{
	return result->end == JOBDIR_EXITED && result->value != 0 && result->text[0];
}

static bool jobdir_read_end(struct jobdir_lines *lines, enum jobdir_end *out)
{
	char text[16];
	if (!jobdir_text(lines, "end", text, sizeof(text)))
		return false;

	int at = names_find(jobdir_ends, text);
	if (at >= 0)
		*out = (enum jobdir_end)at;
	return at >= 0;
}

static size_t jobdir_format_result(const struct jobdir_result *result, char out[JOBDIR_FILE_MAX])
{
	char text[JOBDIR_TEXT_MAX];
	jobdir_clean(result->text, sizeof(text), text);

	/* Written where it says something: agents of before it can read all other results. */
	const char *isolation = result->isolation;
	char lost[32];

	(void)snprintf(lost, sizeof(lost), "lost %" PRIu32 "\n", result->lost); /* fits */
	int length =
	    snprintf(out, JOBDIR_FILE_MAX,
		     "result 1\nend %s\nvalue %d\ncode %d\ncancelled %d\nleftovers %" PRIu32
		     "\nstarted %" PRId64 "\nended %" PRId64 "\ntext %s\n%s%s%s%s%s%s",
		     jobdir_end_to_string(result->end), result->value, result->exit_code,
		     result->was_cancelled, result->killed_leftovers, result->started_unix_ns,
		     result->ended_unix_ns, text, isolation[0] ? "isolation " : "", isolation,
		     isolation[0] ? "\n" : "", result->was_oom_killed ? "oom 1\n" : "",
		     result->lost ? lost : "",
		     result->was_terminated ? "terminated 1\n" : ""); /* about 500 bytes at most */
	return (size_t)length;
}

int jobdir_parse_result(const char *text, size_t length, struct jobdir_result *out, struct err *err)
{
	struct jobdir_lines lines = {.at = text, .end = text + length};
	struct jobdir_result result = {0};
	uint64_t version, cancelled, leftovers, oom = 0, lost = 0, terminated = 0;
	int64_t value, code;

	if (!jobdir_u64(&lines, "result", UINT64_MAX, &version) || version != 1 ||
	    !jobdir_read_end(&lines, &result.end) ||
	    !jobdir_i64(&lines, "value", INT32_MIN, INT32_MAX, &value) ||
	    !jobdir_i64(&lines, "code", 0, 255, &code) ||
	    !jobdir_u64(&lines, "cancelled", 1, &cancelled) ||
	    !jobdir_u64(&lines, "leftovers", UINT32_MAX, &leftovers) ||
	    !jobdir_i64(&lines, "started", INT64_MIN, INT64_MAX, &result.started_unix_ns) ||
	    !jobdir_i64(&lines, "ended", INT64_MIN, INT64_MAX, &result.ended_unix_ns) ||
	    !jobdir_text(&lines, "text", result.text, sizeof(result.text)) ||
	    (jobdir_has(&lines, "isolation") &&
	     !jobdir_text(&lines, "isolation", result.isolation, sizeof(result.isolation))) ||
	    (jobdir_has(&lines, "oom") && !jobdir_u64(&lines, "oom", 1, &oom)) ||
	    (jobdir_has(&lines, "lost") && !jobdir_u64(&lines, "lost", JOBDIR_LOST_ALL, &lost)) ||
	    (jobdir_has(&lines, "terminated") &&
	     !jobdir_u64(&lines, "terminated", 1, &terminated)) ||
	    lines.at != lines.end)
		return err_set(err, -EBADMSG, "a result of %zu bytes cannot be read", length);

	result.value = (int)value;
	result.exit_code = (int)code;
	result.was_cancelled = cancelled;
	result.was_oom_killed = oom;
	result.was_terminated = terminated;
	result.lost = (uint32_t)lost;
	result.killed_leftovers = (uint32_t)leftovers;
	*out = result;

	return 0;
}

/* --- claim, result, cancel -------------------------------------------------------------------- */

static int jobdir_read_text(int job_fd, const char *name, char out[JOBDIR_FILE_MAX],
			    size_t *out_length, struct err *err)
{
	/* O_NONBLOCK: a FIFO in place of the file must not hang us. */
	_cleanup_close_ int fd =
	    openat(job_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, "opening '%s' of a job: %s", name, err_describe(errno));

	ssize_t length = pread(fd, out, JOBDIR_FILE_MAX, 0);
	if (length < 0)
		return err_set(err, -errno, "reading '%s' of a job: %s", name, err_describe(errno));

	*out_length = (size_t)length;
	return 0;
}

static int jobdir_write_text(int fd, const char *name, const char *text, size_t length,
			     struct err *err)
{
	ssize_t written = pwrite(fd, text, length, 0);
	if (written >= 0 && (size_t)written != length)
		errno = ENOSPC; /* why a write to a file is cut short */
	if (written < 0 || (size_t)written != length)
		return err_set(err, -errno, "writing '%s' of a job: %s", name, err_describe(errno));

	crash_point("jobdir.written");
	if (ftruncate(fd, (off_t)length) < 0)
		return err_set(err, -errno, "cutting '%s' of a job: %s", name, err_describe(errno));
	if (fsync(fd) < 0)
		return err_set(err, -errno, "making '%s' of a job durable: %s", name,
			       err_describe(errno));

	crash_point("jobdir.synced");
	return 0;
}

int jobdir_claim(int job_fd, uint32_t attempt, const struct jobdir_claim *claim, struct err *err)
{
	char name[JOBDIR_NAME_MAX], text[JOBDIR_FILE_MAX];
	jobdir_name(name, "claim.", attempt);

	size_t length = jobdir_format_claim(claim, text);
	_cleanup_close_ int fd =
	    openat(job_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_set(err, -errno, "making '%s' of a job: %s", name, err_describe(errno));

	crash_point("jobdir.claim_made");
	int rc = jobdir_write_text(fd, name, text, length, err);
	if (rc == 0)
		rc = jobdir_sync_fd(job_fd, "the claim of a job", err);
	crash_point("jobdir.claimed");

	/* Ours, and nothing was started by it: the attempt is as if it had never been claimed. */
	if (rc < 0 && unlinkat(job_fd, name, 0) < 0)
		(void)err_wrap(err, "'%s' cannot be taken back (%s)", name, err_describe(errno));

	return rc;
}

int jobdir_read_claim(int job_fd, uint32_t attempt, struct jobdir_claim *out, struct err *err)
{
	char name[JOBDIR_NAME_MAX], text[JOBDIR_FILE_MAX];
	size_t length;
	jobdir_name(name, "claim.", attempt);
	int rc = jobdir_read_text(job_fd, name, text, &length, err);
	return rc < 0 ? rc : jobdir_parse_claim(text, length, out, err);
}

int jobdir_write_result(int job_fd, uint32_t attempt, const struct jobdir_result *result,
			struct err *err)
{
	char name[JOBDIR_NAME_MAX], text[JOBDIR_FILE_MAX];
	jobdir_name(name, "result.", attempt);

	size_t length = jobdir_format_result(result, text);
	/* Mostly it is there, with its room. After a second attempt it is not. */
	_cleanup_close_ int fd =
	    openat(job_fd, "room", O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_set(err, -errno, "opening the room for '%s' of a job: %s", name,
			       err_describe(errno));

	int code = jobdir_write_text(fd, "room", text, length, err);
	if (code < 0)
		return code;
	if (renameat(job_fd, "room", job_fd, name) < 0)
		return err_set(err, -errno, "making '%s' of a job: %s", name, err_describe(errno));

	crash_point("jobdir.result_named");
	code = jobdir_sync_fd(job_fd, "the result of a job", err);
	crash_point("jobdir.result_written");

	return code;
}

int jobdir_read_result(int job_fd, uint32_t attempt, struct jobdir_result *out, struct err *err)
{
	char name[JOBDIR_NAME_MAX], text[JOBDIR_FILE_MAX];
	size_t length;
	jobdir_name(name, "result.", attempt);
	int rc = jobdir_read_text(job_fd, name, text, &length, err);
	return rc < 0 ? rc : jobdir_parse_result(text, length, out, err);
}

int jobdir_request_cancel(int job_fd, struct err *err)
{
	_cleanup_close_ int fd =
	    openat(job_fd, "cancel", O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_set(err, -errno, "making 'cancel' of a job: %s", err_describe(errno));
	crash_point("jobdir.cancel_made");
	return jobdir_sync_fd(job_fd, "the cancellation of a job", err);
}

int jobdir_withdraw_cancel(int job_fd, struct err *err)
{
	if (unlinkat(job_fd, "cancel", 0) < 0) {
		if (errno == ENOENT)
			return 0;
		return err_set(err, -errno, "removing 'cancel' of a job: %s", err_describe(errno));
	}
	crash_point("jobdir.cancel_withdrawn");
	return jobdir_sync_fd(job_fd, "the cancellation of a job", err);
}

bool jobdir_is_cancelled(int job_fd)
{
	struct stat status;
	return fstatat(job_fd, "cancel", &status, AT_SYMLINK_NOFOLLOW) == 0;
}
