/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/state.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sim/error.h"
#include "sim/state_private.h"

enum state_limits {
	LOCK_WAIT_MS = 5000,
	LOCK_EACH_MS = 20,
};

_Static_assert(sizeof(struct sim_file) <= 2 * 1024 * 1024, "the state file has at most 2 MB");
_Static_assert(sizeof(struct sim_machine) <= 512 * 1024,
	       "a process maps at most two private copies");
_Static_assert(sizeof(struct sim_machine) % 8 == 0, "machines are copied in words of 8 bytes");

#define SIM_STATE_OF_ROOT "/run/sluice"

static uint64_t boot_time_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* Empty when it cannot be read, as in some sandboxes; then it is empty for everybody. */
static void read_boot_id(char out[40])
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? 0 : read(fd, out, 36);

	if (fd >= 0)
		(void)close(fd);
	memset(out + (length > 0 ? length : 0), 0, 40 - (size_t)(length > 0 ? length : 0));
}

/* After su, $XDG_RUNTIME_DIR still names the other user's. */
static bool is_own_directory(const char *path)
{
	struct stat status;

	return path[0] == '/' && stat(path, &status) == 0 && S_ISDIR(status.st_mode) &&
	       status.st_uid == geteuid();
}

/* Of the user's session; false: there is none. */
static bool session_dir(char out[SIM_PATH_MAX])
{
	const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
	char own[32];
	int length;

	(void)snprintf(own, sizeof(own), "/run/user/%u", (unsigned)geteuid()); /* fits */
	if (!runtime || !is_own_directory(runtime))
		runtime = own;
	length = snprintf(out, SIM_PATH_MAX, "%s/sluice", runtime);

	return is_own_directory(runtime) && length < SIM_PATH_MAX;
}

const char *sim_state_default_dir(char out[SIM_PATH_MAX])
{
	const char *state = secure_getenv("XDG_STATE_HOME");
	const char *home = secure_getenv("HOME");
	int length = 0;

	if (geteuid() == 0)
		length = snprintf(out, SIM_PATH_MAX, SIM_STATE_OF_ROOT);
	else if (session_dir(out))
		return out;
	else if (state && state[0] == '/')
		length = snprintf(out, SIM_PATH_MAX, "%s/sluice", state);
	else if (home && home[0] == '/')
		length = snprintf(out, SIM_PATH_MAX, "%s/.local/state/sluice", home);

	if (length <= 0 || length >= SIM_PATH_MAX)
		out[0] = '\0'; /* a path cut short would name another place */

	return out;
}

const char *sim_state_default_path(char out[SIM_PATH_MAX])
{
	const char *path = secure_getenv("SLUICE_SIM_STATE");
	char directory[SIM_PATH_MAX];
	int length;

	if (path && path[0])
		length = snprintf(out, SIM_PATH_MAX, "%s", path);
	else
		length =
		    snprintf(out, SIM_PATH_MAX, "%s/sim.state", sim_state_default_dir(directory));

	if (length < 0 || length >= SIM_PATH_MAX)
		out[0] = '\0';
	if ((path && path[0]) || geteuid() == 0 || session_dir(directory))
		return out;

	/* Who has no session sees the machine of root, unless they have one of their own. */
	if (!out[0] || access(out, F_OK) != 0)
		(void)snprintf(out, SIM_PATH_MAX, SIM_STATE_OF_ROOT "/sim.state");

	return out;
}

static int init_header(struct sim_header *header, const struct sim_machine *machine)
{
	pthread_mutexattr_t attributes;
	int rc;

	memcpy(header->magic, SIM_STATE_MAGIC, sizeof(header->magic));
	header->format = SIM_STATE_FORMAT;
	header->header_bytes = sizeof(*header);
	header->file_bytes = sizeof(struct sim_file);
	header->machine_bytes = sizeof(struct sim_machine);
	header->layout = sim_state_layout();
	read_boot_id(header->boot_id);
	header->seed = machine->seed;
	header->clock = machine->clock;
	header->owner = geteuid();
	header->start_ns = boot_time_ns() - machine->tick * SIM_TICK_NS;
	header->pid_ns = sim_own_pid_ns();
	rc = pthread_mutexattr_init(&attributes);
	if (rc != 0)
		return -rc;

	rc = pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	if (rc == 0)
		rc = pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	if (rc == 0)
		rc = pthread_mutex_init(&header->writers, &attributes);
	(void)pthread_mutexattr_destroy(&attributes);

	return -rc;
}

static int fill_file(struct sim_file *file, const struct sim_machine *machine)
{
	file->copy[0] = *machine;
	return init_header(&file->header, machine);
}

/* What already lies at `path`. 0: nothing, 1: something that may be replaced, -1 with the error. */
static int look_at(const char *path, struct sim_error *error)
{
	char magic[sizeof(SIM_STATE_MAGIC) - 1] = "";
	struct sim_state *state = NULL;
	enum sim_open open_result;
	/* Asked before: one that appears in between is a machine that was just started. */
	bool was_there = access(path, F_OK) == 0 || errno != ENOENT;
	int fd;

	open_result = sim_state_open(path, &state, error);
	(void)sim_state_close(state);

	if (open_result == SIM_OPEN_OK)
		return sim_fail(error, SIM_EXIT_LIVE,
				"a simulated machine is already running in '%s'; stop it with "
				"'sluice sim stop --state %s', or choose another state file",
				path, path);

	if (open_result == SIM_OPEN_FOREIGN || open_result == SIM_OPEN_FAILED)
		return -1;
	if (!was_there || (access(path, F_OK) < 0 && errno == ENOENT))
		return 0;

	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd >= 0) {
		if (read(fd, magic, sizeof(magic)) < 0)
			magic[0] = '\0';
		(void)close(fd);
	}

	if (memcmp(magic, SIM_STATE_MAGIC, sizeof(magic)) != 0)
		return sim_fail(error, SIM_EXIT_FOREIGN,
				"'%s' is there and is not a state file; remove it or choose "
				"another name",
				path);

	return 1;
}

/* Fills the new file `fd` and puts it in place. 0 or -errno. */
static int write_file(int fd, const char *temporary, const char *path, bool replace,
		      const struct sim_machine *machine)
{
	struct sim_file *file;
	int rc = posix_fallocate(fd, 0, sizeof(*file)); /* or a full disk would be a SIGBUS */

	if (rc != 0)
		return -rc;
	if (fchmod(fd, 0644) < 0)
		return -errno;

	file = mmap(NULL, sizeof(*file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (file == MAP_FAILED)
		return -errno;

	rc = fill_file(file, machine);
	(void)munmap(file, sizeof(*file));
	if (rc < 0)
		return rc;

	if (!temporary) {
		char name[64];

		(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
		return linkat(AT_FDCWD, name, AT_FDCWD, path, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
	}

	if (replace)
		return rename(temporary, path) < 0 ? -errno : 0;
	if (link(temporary, path) < 0) /* unlike rename, never on top of somebody else's */
		return -errno;

	(void)unlink(temporary);
	return 0;
}

/* Where `path` lies; `room` may hold it. */
static const char *directory_of(const char *path, char room[SIM_PATH_MAX])
{
	char *slash;

	(void)snprintf(room, SIM_PATH_MAX, "%s", path);
	slash = strrchr(room, '/');
	if (slash == room)
		slash++;
	if (slash)
		*slash = '\0';

	return slash ? room : ".";
}

/* A file without a name in the directory of `path`: whoever is killed while filling it leaves
 * nothing. -1 where the file system has no such thing. */
static int open_nameless(const char *path)
{
	char directory[SIM_PATH_MAX];
	return open(directory_of(path, directory), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

static void make_directory(const char *path)
{
	char directory[SIM_PATH_MAX];
	char *slash;

	(void)snprintf(directory, sizeof(directory), "%s", path);
	slash = strrchr(directory, '/');
	if (!slash || slash == directory)
		return;

	*slash = '\0';
	(void)mkdir(directory, 0755); /* if this fails, making the file says why */
}

/* Whoever replaces a state of before holds its directory, so that of several only one does. The
 * descriptor, or -errno: -EEXIST, somebody has held it for LOCK_WAIT_MS. */
static int lock_directory(const char *path)
{
	char directory[SIM_PATH_MAX];
	int fd = open(directory_of(path, directory), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;

	for (int waited_ms = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; waited_ms += LOCK_EACH_MS) {
		if (errno != EWOULDBLOCK || waited_ms >= LOCK_WAIT_MS) {
			(void)close(fd);
			return -EEXIST;
		}
		(void)poll(NULL, 0, LOCK_EACH_MS);
	}

	return fd;
}

static int create_nameless(const char *path, const struct sim_machine *machine)
{
	int fd = open_nameless(path), result;

	if (fd < 0)
		return -errno;
	result = write_file(fd, NULL, path, false, machine);
	(void)close(fd);
	return result;
}

static int create_named(const char *path, bool replace, const struct sim_machine *machine)
{
	char temporary[SIM_PATH_MAX + 8];
	int fd, rc;

	(void)snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path);
	fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0)
		return -errno;

	rc = write_file(fd, temporary, path, replace, machine);
	(void)close(fd);
	if (rc < 0)
		(void)unlink(temporary);

	return rc;
}

/* A state of before becomes one of this machine. -EALREADY: somebody was faster, `error` says so.
 */
static int replace(const char *path, const struct sim_machine *machine, struct sim_error *error)
{
	int lock = lock_directory(path), found, result;

	if (lock < 0)
		return lock;

	found = look_at(path, error);
	result = found < 0 ? -EALREADY : create_named(path, found > 0, machine);
	(void)close(lock);
	return result;
}

int sim_state_create(const char *path, const struct sim_machine *machine, struct sim_error *error)
{
	int rc = -EOPNOTSUPP, found;

	if (!path[0] || strlen(path) + 8 > SIM_PATH_MAX)
		return sim_fail(error, SIM_EXIT_INPUT,
				"the state file's path is empty or too long");

	found = look_at(path, error);
	if (found < 0)
		return -1;

	if (found == 0) {
		make_directory(path);
		rc = create_nameless(path, machine);
		if (rc < 0 && rc != -EEXIST) /* no such files, no /proc to name one by */
			rc = create_named(path, false, machine);
	} else {
		rc = replace(path, machine, error);
		if (rc == -EALREADY)
			return -1;
	}

	if (rc == 0)
		return 0;

	if (rc == -EEXIST)
		return sim_fail(error, SIM_EXIT_LIVE,
				"another simulated machine was just started in '%s'", path);

	return sim_fail(error, SIM_EXIT_FAILED, "cannot create state file '%s': %s", path,
			strerror(-rc));
}

/* A state around `file`, which it takes over on success; NULL when memory is short. */
static struct sim_state *state_new(struct sim_file *file, bool writable)
{
	struct sim_state *state =
	    mmap(NULL, sizeof(*state), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (state == MAP_FAILED)
		return NULL;

	/* A forked child starts with an unlocked lock and an empty view. Kernels before 4.14 do not
	 * know this; there a child that was forked while another thread read would hang. */
	(void)madvise(state, SIM_STATE_WIPED, MADV_WIPEONFORK);
	state->file = file;
	state->writable = writable;
	state->pid_ns = sim_own_pid_ns();
	state->is_alive = sim_process_is_alive;
	state->alive_context = state;

	return state;
}

static enum sim_open open_fd(const char *path, int *out_fd, bool *out_writable,
			     struct sim_error *error)
{
	const int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
	struct stat status;
	int fd = open(path, O_RDWR | flags);

	*out_writable = fd >= 0;
	if (fd < 0 && (errno == EACCES || errno == EROFS || errno == EPERM))
		fd = open(path, O_RDONLY | flags);

	if (fd < 0) {
		int code = errno;

		(void)sim_fail(error, code == ELOOP ? SIM_EXIT_FOREIGN : SIM_EXIT_FAILED,
			       code == ELOOP ? "'%s' is a symbolic link%s"
					     : "cannot open state file '%s': %s",
			       path, code == ELOOP ? "" : strerror(code));
		if (code == ENOENT || code == ENOTDIR)
			return SIM_OPEN_NONE;

		return code == ELOOP ? SIM_OPEN_FOREIGN : SIM_OPEN_FAILED;
	}

	if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) ||
	    (status.st_uid != 0 && status.st_uid != geteuid())) {
		(void)sim_fail(error, SIM_EXIT_FOREIGN,
			       "'%s' is not a plain file of this user or of root", path);
		(void)close(fd);
		return SIM_OPEN_FOREIGN;
	}

	if (status.st_size != (off_t)sizeof(struct sim_file)) {
		(void)sim_fail(error, SIM_EXIT_FAILED,
			       "'%s' has %lld bytes, not the %zu of this version's state files; "
			       "'sluice sim stop' and 'start' make a new one",
			       path, (long long)status.st_size, sizeof(struct sim_file));
		(void)close(fd);
		return SIM_OPEN_VERSION;
	}

	*out_fd = fd;
	return SIM_OPEN_OK;
}

static bool is_writers_lock(const pthread_mutex_t *lock)
{
#ifdef __GLIBC__
	pthread_mutex_t fresh;
	pthread_mutexattr_t attributes;
	bool is_same;

	/* the C library would follow another kind of lock through pointers in the file */
	if (pthread_mutexattr_init(&attributes) != 0)
		return false;

	(void)pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	(void)pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	(void)pthread_mutex_init(&fresh, &attributes);
	(void)pthread_mutexattr_destroy(&attributes);
	is_same = lock->__data.__kind == fresh.__data.__kind;
	(void)pthread_mutex_destroy(&fresh);
	return is_same;
#else
	(void)lock;
	return true;
#endif
}

/* Whether a mapped file is one of ours. */
static enum sim_open check_file(const char *path, const struct sim_file *file,
				struct sim_error *error)
{
	const struct sim_header *header = &file->header;
	char boot_id[40];

	if (memcmp(header->magic, SIM_STATE_MAGIC, sizeof(header->magic)) != 0 ||
	    header->format != SIM_STATE_FORMAT || header->header_bytes != sizeof(*header) ||
	    header->file_bytes != sizeof(*file) ||
	    header->machine_bytes != sizeof(struct sim_machine) ||
	    header->layout != sim_state_layout() || !is_writers_lock(&header->writers)) {
		(void)sim_fail(error, SIM_EXIT_FAILED,
			       "'%s' is not a state file of this version; 'sluice sim stop' and "
			       "'start' make a new one",
			       path);
		return SIM_OPEN_VERSION;
	}

	read_boot_id(boot_id);
	if (memcmp(boot_id, header->boot_id, sizeof(boot_id)) != 0) {
		(void)sim_fail(error, SIM_EXIT_FAILED,
			       "the machine in '%s' was started before the last boot; start it "
			       "again with 'sluice sim start'",
			       path);
		return SIM_OPEN_NONE;
	}

	return SIM_OPEN_OK;
}

enum sim_open sim_state_open(const char *path, struct sim_state **out_state,
			     struct sim_error *error)
{
	struct sim_state *state = NULL;
	struct sim_file *file;
	bool writable = false;
	uint64_t published;
	int fd = -1;
	enum sim_open result = open_fd(path, &fd, &writable, error);

	if (result != SIM_OPEN_OK)
		return result;

	file =
	    mmap(NULL, sizeof(*file), PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
	(void)close(fd);

	if (file == MAP_FAILED) {
		(void)sim_fail(error, SIM_EXIT_FAILED, "cannot map state file '%s': %s", path,
			       strerror(errno));
		return SIM_OPEN_FAILED;
	}

	result = check_file(path, file, error);
	if (result == SIM_OPEN_OK) {
		state = state_new(file, writable);
		if (!state) {
			(void)sim_fail(error, SIM_EXIT_FAILED, "'%s': out of memory", path);
			result = SIM_OPEN_FAILED;
		} else if (!sim_state_copy_published(state, &state->view, &published)) {
			(void)sim_fail(error, SIM_EXIT_FAILED,
				       "the machine in '%s' makes no sense: the file is damaged; "
				       "'sluice sim stop' and 'start' make a new one",
				       path);
			result = SIM_OPEN_VERSION;
		}
	}

	if (result != SIM_OPEN_OK) {
		if (state)
			(void)munmap(state, sizeof(*state));
		(void)munmap(file, sizeof(*file));
		return result;
	}

	*out_state = state;
	return SIM_OPEN_OK;
}

int sim_state_private(const struct sim_machine *machine, struct sim_state **out_state)
{
	struct sim_state *state;
	struct sim_file *file =
	    mmap(NULL, sizeof(*file), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (file == MAP_FAILED)
		return -ENOMEM;

	state = fill_file(file, machine) < 0 ? NULL : state_new(file, true);
	if (!state) {
		(void)munmap(file, sizeof(*file));
		return -ENOMEM;
	}

	*out_state = state;
	return 0;
}

struct sim_state *sim_state_close(struct sim_state *state)
{
	if (state) {
		(void)munmap(state->file, sizeof(*state->file));
		(void)munmap(state, sizeof(*state));
	}
	return NULL;
}

bool sim_state_is_writable(const struct sim_state *state)
{
	return state->writable;
}

void sim_state_use_alive(struct sim_state *state,
			 bool (*is_alive)(const struct sim_process *process, void *context),
			 void *context)
{
	state->is_alive = is_alive ? is_alive : sim_process_is_alive;
	state->alive_context = is_alive ? context : state;
}

void sim_state_use_clock(struct sim_state *state, uint64_t (*now_ns)(void *context), void *context)
{
	state->now_ns = now_ns;
	state->now_context = context;
}

void sim_state_use_steps(struct sim_state *state,
			 void (*at_step)(enum sim_state_step step, void *context), void *context)
{
	state->at_step = at_step;
	state->step_context = context;
}

uint64_t sim_state_real_tick(const struct sim_state *state)
{
	uint64_t now = state->now_ns ? state->now_ns(state->now_context) : boot_time_ns();
	uint64_t start = state->file->header.start_ns;

	/* a start in the future is what a time namespace or a damaged file looks like */
	return now > start ? (now - start) / SIM_TICK_NS : 0;
}

uint64_t sim_state_now_tick(const struct sim_state *state, const struct sim_machine *machine)
{
	return machine->clock == SIM_CLOCK_VIRTUAL ? machine->tick : sim_state_real_tick(state);
}
