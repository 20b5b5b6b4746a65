/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a job's supervisor costs, and how fast it ends what does not want to end: memory of one with
 * a large environment and 48 slots, from its exec to that of the command, and from the end of the
 * grace time of a cancel to the death of the last of a thousand processes that ignore SIGTERM.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/parse.h"
#include "perf/gate.h"
#include "job/cgroup/cgroup.h"
#include "job/control.h"
#include "job/jobdir.h"
#include "job/launch.h"

enum {
	SUPERVISE_STARTS = 100,
	SUPERVISE_STORMS = 5,
	SUPERVISE_BOMB = 1000,
	SUPERVISE_SLOTS = 48,
	SUPERVISE_VARIABLES = 2000,
	SUPERVISE_FD_MIN = 100,
	SUPERVISE_WAIT_MS = 60000,
};

#define SUPERVISE_GRACE_NS UINT64_C(200000000)
#define SUPERVISE_CGROUP   "/sys/fs/cgroup"

static uint64_t next_id = 1;

static _Noreturn void fail(const char *what, const struct err *err)
{
	(void)fprintf(stderr, "bench-supervise: %s: %s\n", what, err ? err->text : "failed");
	exit(2);
}

/* --- a job ------------------------------------------------------------------------------------ */

struct run {
	pid_t pid;
	int control_fd;
	uint64_t started_ns; /* just before fork */
};

static void launch_of(struct launch *launch, const char *command, const char *argument)
{
	struct spec *spec = &launch->spec;

	launch_init(launch);
	launch->id = next_id++;
	launch->attempt = 1;
	(void)snprintf(launch->instance, sizeof(launch->instance), "bench-%d", (int)getpid());
	(void)snprintf(spec->name, sizeof(spec->name), "bench");
	(void)snprintf(spec->directory, sizeof(spec->directory), "/");
	spec->uid = geteuid();
	spec->gid = getegid();
	spec->grace_ns = SUPERVISE_GRACE_NS;
	if (spec_add_argument(spec, command, NULL) < 0 ||
	    (argument && spec_add_argument(spec, argument, NULL) < 0))
		fail("no memory", NULL);
}

static _Noreturn void become(int lock, int job_fd, int memfd)
{
	const int from[] = {lock, job_fd, memfd};
	int high[3];
	for (int i = 0; i < 3; i++)
		high[i] = fcntl(from[i], F_DUPFD_CLOEXEC, SUPERVISE_FD_MIN);

	for (int i = 0; i < 3; i++)
		if (dup2(high[i], LAUNCH_FD_LOCK + i) < 0)
			_exit(99);

	static char name[] = "sluice-supervise";
	char *argv[] = {name, NULL};

	(void)execv(BENCH_SUPERVISE, argv);
	_exit(99);
}

static struct run run_start(int state_fd, const struct launch *launch)
{
	struct err err = {0};
	char *bytes = NULL;
	size_t length = 0;

	if (jobdir_create(state_fd, launch->id, launch->spec.uid, &err) < 0 ||
	    launch_format(launch, &bytes, &length, &err) < 0)
		fail("preparing a job", &err);

	_cleanup_close_ int job_fd = jobdir_open(state_fd, launch->id, &err);
	_cleanup_close_ int lock = jobdir_lock(job_fd, &err);
	_cleanup_close_ int memfd = memfd_create("launch", MFD_CLOEXEC);
	if (lock < 0 || memfd < 0 || write(memfd, bytes, length) != (ssize_t)length)
		fail("preparing a job", &err);
	free(bytes);

	struct run run = {.started_ns = gate_now_ns(), .control_fd = -1};
	run.pid = fork();
	if (run.pid == 0)
		become(lock, job_fd, memfd);

	while (run.pid > 0 && run.control_fd < 0)
		run.control_fd = control_connect(job_fd, NULL);

	return run;
}

/* The message of that kind, and when it came. */
static uint64_t run_expect(struct run *run, enum control_kind kind, struct control_message *out)
{
	for (;;) {
		char packet[CONTROL_PACKET_MAX];
		struct pollfd wait = {.fd = run->control_fd, .events = POLLIN};

		if (poll(&wait, 1, SUPERVISE_WAIT_MS) != 1)
			fail("the supervisor says nothing", NULL);

		ssize_t length = recv(run->control_fd, packet, sizeof(packet), 0);
		if (length <= 0 || control_parse(packet, (size_t)length, out, NULL) < 0)
			fail("the supervisor went away", NULL);
		if (out->kind == kind)
			return gate_now_ns();
	}
}

static void run_cancel(const struct run *run, uint64_t grace_ns)
{
	struct control_message message = {
	    .version = CONTROL_VERSION, .kind = CONTROL_CANCEL, .extra = grace_ns};
	char packet[CONTROL_PACKET_MAX];
	size_t length = control_format(&message, packet);
	if (send(run->control_fd, packet, length, MSG_NOSIGNAL) != (ssize_t)length)
		fail("sending a cancel", NULL);
}

static void run_end(struct run *run)
{
	struct control_message message;
	(void)run_expect(run, CONTROL_RESULT, &message);
	(void)waitpid(run->pid, NULL, 0);
	(void)close(run->control_fd);
}

/* --- memory ----------------------------------------------------------------------------------- */

static uint64_t field_kib(const char *text, const char *name)
{
	const char *at = strstr(text, name);
	if (!at)
		fail("smaps_rollup lacks a field", NULL);
	at += strlen(name);
	at += strspn(at, " ");

	uint64_t value = 0;
	(void)parse_u64_span(at, strcspn(at, " "), 0, UINT64_MAX, &value);
	return value;
}

static void measure_memory(struct gate_report *report, int state_fd)
{
	struct launch launch _cleanup_launch_;
	struct control_message message;

	launch_of(&launch, "/bin/sleep", "1000");
	char text[128];
	for (int i = 0; i < SUPERVISE_VARIABLES; i++) {
		(void)snprintf(text, sizeof(text), "VARIABLE_%d=%064d", i, i);
		if (spec_add_variable(&launch.spec, text, NULL) < 0)
			fail("no memory", NULL);
	}

	launch.grants = calloc(1, sizeof(*launch.grants));
	if (!launch.grants)
		fail("no memory", NULL);
	launch.grant_count = 1;
	(void)snprintf(launch.grants->uuid, sizeof(launch.grants->uuid), "GPU-be7c0000-%012d",
		       (int)getpid());
	launch.grants->slot_count = SUPERVISE_SLOTS;

	for (uint32_t slot = 0; slot < SUPERVISE_SLOTS; slot++)
		launch_grant_add(launch.grants, slot);

	struct run run = run_start(state_fd, &launch);
	(void)run_expect(&run, CONTROL_STARTED, &message);

	struct pollfd wait = {.fd = run.control_fd, .events = POLLIN};
	(void)poll(&wait, 1, 200); /* until it waits itself */

	struct buf rollup _cleanup_buf_;

	buf_init(&rollup, 65536);
	(void)snprintf(text, sizeof(text), "/proc/%d/smaps_rollup", (int)run.pid);

	struct err err = {0};
	if (file_read(text, &rollup, &err) < 0)
		fail("reading its memory", &err);
	gate_value(report, "supervisor_dirty",
		   (double)field_kib(buf_text(&rollup), "Private_Dirty:"), "KiB", GATE_AT_MOST,
		   512);
	gate_value(report, "supervisor_rss", (double)field_kib(buf_text(&rollup), "Rss:"), "KiB",
		   GATE_AT_MOST, 4096);
	run_cancel(&run, 0);
	run_end(&run);
}

/* --- times ------------------------------------------------------------------------------------ */

static void measure_start(struct gate_report *report, int state_fd)
{
	static uint64_t samples[SUPERVISE_STARTS];

	for (size_t i = 0; i < SUPERVISE_STARTS; i++) {
		struct launch launch _cleanup_launch_;
		struct control_message message;

		launch_of(&launch, "/bin/sleep", "1000");
		struct run run = run_start(state_fd, &launch);
		samples[i] = run_expect(&run, CONTROL_STARTED, &message) - run.started_ns;
		run_cancel(&run, 0);
		run_end(&run);
	}

	double median = gate_quantile(samples, SUPERVISE_STARTS, 0.5);
	gate_note(report,
		  "the supervisor's part of a start (fork to exec of the command): median "
		  "%.2f ms, p99 %.2f ms",
		  median / 1e6, gate_quantile(samples, SUPERVISE_STARTS, 0.99) / 1e6);
}

/* A process that ignores SIGTERM and multiplies until there are enough. `count` is shared. */
static _Noreturn void bomb(unsigned *count)
{
	(void)signal(SIGTERM, SIG_IGN);

	for (;;) {
		unsigned mine = __atomic_add_fetch(count, 1, __ATOMIC_SEQ_CST);
		if (mine > SUPERVISE_BOMB || fork() < 0)
			break;
	}

	for (;;)
		(void)pause();
}

static int bomb_main(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDWR | O_CLOEXEC);
	unsigned *count = mmap(NULL, sizeof(*count), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (count == MAP_FAILED)
		return 1;
	bomb(count);
}

static uint64_t storm(int state_fd, const char *directory, const char *cgroup_root)
{
	char path[FILE_PATH_MAX];
	struct launch launch _cleanup_launch_;
	struct control_message message;

	if (file_path(path, NULL, "%s/count", directory) < 0)
		fail("a path", NULL);

	_cleanup_close_ int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	unsigned *count = MAP_FAILED;

	if (fd >= 0 && ftruncate(fd, sizeof(*count)) == 0)
		count = mmap(NULL, sizeof(*count), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (count == MAP_FAILED)
		fail("sharing a count", NULL);
	launch_of(&launch, "the bomb", path);

	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);

	free(launch.spec.argv[0]);
	launch.spec.argv[0] = length < 0 ? NULL : strndup(path, (size_t)length);
	if (!launch.spec.argv[0])
		fail("no memory", NULL);
	(void)snprintf(launch.cgroup_root, sizeof(launch.cgroup_root), "%s", cgroup_root);

	struct run run = run_start(state_fd, &launch);
	(void)run_expect(&run, CONTROL_STARTED, &message);

	uint64_t end_ns = gate_now_ns() + UINT64_C(60000000000);
	while (__atomic_load_n(count, __ATOMIC_SEQ_CST) <= SUPERVISE_BOMB)
		if (gate_now_ns() > end_ns)
			fail("a thousand processes", NULL);

	uint64_t from_ns = gate_now_ns();

	run_cancel(&run, SUPERVISE_GRACE_NS);
	uint64_t gone_ns = run_expect(&run, CONTROL_RESULT, &message);

	(void)waitpid(run.pid, NULL, 0);
	(void)close(run.control_fd);
	(void)munmap(count, sizeof(*count));

	return gone_ns - from_ns - SUPERVISE_GRACE_NS;
}

static void measure_cancel(struct gate_report *report, int state_fd, const char *directory,
			   const char *name, const char *cgroup_root)
{
	static uint64_t samples[SUPERVISE_STORMS];
	for (size_t i = 0; i < SUPERVISE_STORMS; i++)
		samples[i] = storm(state_fd, directory, cgroup_root);
	gate_time(report, name, gate_quantile(samples, SUPERVISE_STORMS, 0.5), "ms", 200, samples,
		  SUPERVISE_STORMS);
}

/* Where a group can be made; "" where none can. */
static const char *find_cgroup(void)
{
	static const char *const roots[] = {SUPERVISE_CGROUP "/unified", SUPERVISE_CGROUP};

	for (size_t i = 0; i < 2; i++) {
		struct cgroup cgroup = CGROUP_NONE;
		if (cgroup_create(roots[i], "sluice-bench", &cgroup, NULL) < 0)
			continue;

		(void)cgroup_remove(&cgroup, NULL);
		cgroup_close(&cgroup);
		return roots[i];
	}

	return "";
}

int main(int argc, char **argv)
{
	if (argc == 2 && argv[1][0] == '/')
		return bomb_main(argv[1]);

	struct gate_report *report =
	    gate_open(argc, argv, "bench-supervise",
		      "what a job's supervisor costs, and how fast it ends a job", false, NULL);
	char directory[] = "/tmp/sluice-bench-XXXXXX";

	if (!mkdtemp(directory) || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		fail("making a directory in /tmp", NULL);

	_cleanup_close_ int state_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	measure_memory(report, state_fd);
	measure_start(report, state_fd);
	measure_cancel(report, state_fd, directory, "cancel_tree", "");

	const char *root = find_cgroup();
	if (root[0])
		measure_cancel(report, state_fd, directory, "cancel_cgroup", root);
	else
		gate_note(report, "cancel_cgroup: left out, no cgroup2 directory may be written");

	for (uint64_t id = 1; id < next_id; id++)
		(void)jobdir_remove(state_fd, id, NULL);

	(void)unlinkat(state_fd, "count", 0);
	(void)unlinkat(state_fd, "j", AT_REMOVEDIR);
	(void)rmdir(directory);

	return gate_close(report);
}
