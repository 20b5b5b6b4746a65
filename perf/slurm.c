/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The local queue side by side with Slurm, as Debian packages it (slurm-wlm): how long many short
 * jobs take from the call that submits them until the last of their commands has run. Slurm is one
 * controller, one node and munge, started here in a directory and on ports of their own, with the
 * settings that its guide names for many short jobs
 * (https://slurm.schedmd.com/high_throughput.html) and without control groups. What they promise
 * differs: Slurm writes its state down every few seconds, here a number is printed when the job is
 * on the disk.
 */
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf/gate.h"
#include "perf/queue_rig.h"

enum slurm_limits {
	SLURM_JOBS = 200, /* of one call */
	SLURM_CALLS = 20, /* one job each */
	SLURM_ROUNDS = 3,
	SLURM_CPUS = 64, /* that Slurm is told of: jobs that it runs at once */
	SLURM_WAIT_MS = 60000,
	SLURM_LOOK_US = 100000,
	SLURM_END_LOOKS = 100, /* of the end of a daemon */
	SLURM_KEY = 128,
	SLURM_TEXT_MAX = 8192,
};

enum slurm_who { SLURM_OURS, SLURM_THEIRS, SLURM_COUNT };
enum slurm_daemon { SLURM_MUNGED, SLURM_CTLD, SLURM_SLURMD, SLURM_DAEMONS };

static const char *const slurm_names[SLURM_COUNT] = {"sluice", "slurm-wlm"};

static struct rig slurm_rig;
static char slurm_self[PATH_MAX]; /* this program: it is also what the jobs run */
static char slurm_directory[RIG_PATH_MAX + 16], slurm_fifo[RIG_PATH_MAX + 16];
static pid_t slurm_daemons[SLURM_DAEMONS];
static int slurm_done_fd = -1; /* jobs write a byte into it */

/* --- programs --------------------------------------------------------------------------------- */

/* Its output goes to `out_fd`, or nowhere. */
static pid_t slurm_spawn(const char *const *argv, int out_fd)
{
	posix_spawn_file_actions_t files;
	pid_t pid;
	int rc = posix_spawn_file_actions_init(&files);

	rig_must(rc == 0, "no memory");
	rc = out_fd < 0
		 ? posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0)
		 : posix_spawn_file_actions_adddup2(&files, out_fd, STDOUT_FILENO);
	rig_must(rc == 0, "no memory");
	if (out_fd >= 0)
		rig_must(posix_spawn_file_actions_adddup2(&files, out_fd, STDERR_FILENO) == 0,
			 "no memory");

	rc = posix_spawnp(&pid, argv[0], &files, NULL, (char *const *)(uintptr_t)argv, environ);
	rig_must(rc == 0, "cannot run '%s': %s; 'tools/setup conformance' installs it", argv[0],
		 strerror(rc));
	(void)posix_spawn_file_actions_destroy(&files);

	return pid;
}

static void slurm_call(const char *const *argv)
{
	int status = 0;
	pid_t pid = slurm_spawn(argv, -1);
	rig_must(waitpid(pid, &status, 0) == pid && status == 0, "'%s %s' failed", argv[0],
		 argv[1]);
}

/* What it prints. False: it has failed. */
static bool slurm_ask(const char *const *argv, char out[SLURM_TEXT_MAX])
{
	int pipe_fds[2], status = 0;
	size_t length = 0;
	ssize_t got;

	rig_must(pipe2(pipe_fds, O_CLOEXEC) == 0, "no pipe");
	pid_t pid = slurm_spawn(argv, pipe_fds[1]);
	(void)close(pipe_fds[1]);

	while ((got = read(pipe_fds[0], out + length, SLURM_TEXT_MAX - 1 - length)) > 0)
		length += (size_t)got;
	out[length] = '\0';
	(void)close(pipe_fds[0]);

	return waitpid(pid, &status, 0) == pid && status == 0;
}

/* --- Slurm ------------------------------------------------------------------------------------ */

static void slurm_end(void)
{
	for (int i = SLURM_DAEMONS; i-- > 0;) {
		pid_t pid = slurm_daemons[i];
		if (pid <= 0)
			continue;

		slurm_daemons[i] = 0;
		(void)kill(pid, SIGTERM);
		for (int look = 0; waitpid(pid, NULL, WNOHANG) == 0; look++) {
			if (look == SLURM_END_LOOKS)
				(void)kill(pid, SIGKILL);
			(void)usleep(SLURM_LOOK_US);
		}
	}
}

static void slurm_write(const char *name, const void *bytes, size_t length, mode_t mode)
{
	char path[RIG_PATH_MAX + 64];
	(void)snprintf(path, sizeof(path), "%s/%s", slurm_directory, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	rig_must(fd >= 0 && write(fd, bytes, length) == (ssize_t)length, "cannot write %s", path);
	(void)close(fd);
}

/* One that nobody has now. */
static unsigned slurm_port(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	rig_must(fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 &&
		     getsockname(fd, (struct sockaddr *)&address, &size) == 0,
		 "no free port");
	(void)close(fd);
	return ntohs(address.sin_port);
}

static void slurm_configure(void)
{
	char text[SLURM_TEXT_MAX], host[256] = "";
	unsigned char key[SLURM_KEY];
	const struct passwd *user = getpwuid(geteuid());

	rig_must(gethostname(host, sizeof(host) - 1) == 0 && user, "who and where are we?");
	host[strcspn(host, ".")] = '\0';
	rig_must(getrandom(key, sizeof(key), 0) == sizeof(key), "no random bytes");
	slurm_write("munge.key", key, sizeof(key), 0400);

	int length = snprintf(
	    text, sizeof(text),
	    "ClusterName=bench\nSlurmctldHost=%s(127.0.0.1)\nSlurmctldPort=%u\nSlurmdPort=%u\n"
	    "SlurmUser=%s\nSlurmdUser=%s\nAuthType=auth/munge\nAuthInfo=socket=%s/munge.socket\n"
	    "CredType=cred/munge\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n"
	    "MpiDefault=none\nSwitchType=switch/none\nSelectType=select/cons_tres\n"
	    "SelectTypeParameters=CR_CPU\nJobAcctGatherType=jobacct_gather/none\n"
	    "AccountingStorageType=accounting_storage/none\nJobCompType=jobcomp/none\n"
	    "SlurmdParameters=config_overrides\nReturnToService=2\nMinJobAge=2\n"
	    "SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1,"
	    "sched_min_interval=10000,default_queue_depth=10000\n"
	    "SlurmctldDebug=error\nSlurmdDebug=error\nStateSaveLocation=%s/state\n"
	    "SlurmdSpoolDir=%s/spool\nSlurmctldPidFile=%s/ctld.pid\nSlurmdPidFile=%s/slurmd.pid\n"
	    "NodeName=%s NodeAddr=127.0.0.1 CPUs=%d State=UNKNOWN\n"
	    "PartitionName=all Nodes=%s Default=YES MaxTime=INFINITE State=UP\n",
	    host, slurm_port(), slurm_port(), user->pw_name, user->pw_name, slurm_directory,
	    slurm_directory, slurm_directory, slurm_directory, slurm_directory, host, SLURM_CPUS,
	    host);

	rig_must(length > 0 && (size_t)length < sizeof(text), "too long a configuration");
	slurm_write("slurm.conf", text, (size_t)length, 0644);
}

static void slurm_start(enum slurm_daemon daemon, const char *const *argv)
{
	char path[RIG_PATH_MAX + 64];
	(void)snprintf(path, sizeof(path), "%s/%s.log", slurm_directory, argv[0]);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	rig_must(fd >= 0, "cannot write %s", path);
	slurm_daemons[daemon] = slurm_spawn(argv, fd);
	(void)close(fd);
}

/* Until `argv` prints `wanted`; with what it and the daemons said when it does not. */
static void slurm_await(const char *const *argv, const char *wanted, const char *what)
{
	uint64_t end_ns = gate_now_ns() + SLURM_WAIT_MS * UINT64_C(1000000);
	char said[SLURM_TEXT_MAX] = "";

	while (!slurm_ask(argv, said) || strcmp(said, wanted) != 0) {
		for (int i = 0; i < SLURM_DAEMONS; i++)
			rig_must(slurm_daemons[i] == 0 ||
				     waitpid(slurm_daemons[i], NULL, WNOHANG) == 0,
				 "a daemon of Slurm has ended before %s: see %s/*.log", what,
				 slurm_directory);

		rig_must(gate_now_ns() < end_ns, "%s, and '%s' says: %s", what, argv[0], said);
		(void)usleep(SLURM_LOOK_US);
	}
}

static void slurm_open(void)
{
	static char key[RIG_PATH_MAX + 64], socket_[RIG_PATH_MAX + 64], pid[RIG_PATH_MAX + 64],
	    log[RIG_PATH_MAX + 64], seed[RIG_PATH_MAX + 64], conf[RIG_PATH_MAX + 64];
	const char *path = getenv("PATH");
	char with_sbin[PATH_MAX];

	(void)snprintf(with_sbin, sizeof(with_sbin), "%s:/usr/sbin:/sbin",
		       path ? path : "/usr/bin");
	(void)snprintf(slurm_directory, sizeof(slurm_directory), "%s/slurm", slurm_rig.directory);
	(void)snprintf(key, sizeof(key), "--key-file=%s/munge.key", slurm_directory);
	(void)snprintf(socket_, sizeof(socket_), "--socket=%s/munge.socket", slurm_directory);
	(void)snprintf(pid, sizeof(pid), "--pid-file=%s/munge.pid", slurm_directory);
	(void)snprintf(log, sizeof(log), "--log-file=%s/munge.log", slurm_directory);
	(void)snprintf(seed, sizeof(seed), "--seed-file=%s/munge.seed", slurm_directory);
	(void)snprintf(conf, sizeof(conf), "%s/slurm.conf", slurm_directory);
	rig_must(mkdir(slurm_directory, 0755) == 0 && setenv("PATH", with_sbin, 1) == 0 &&
		     setenv("SLURM_CONF", conf, 1) == 0,
		 "cannot make %s", slurm_directory);

	/* Others' directories above it (TMPDIR, perhaps /tmp) are not for munge to judge. */
	const char *const munged[] = {"munged", "--foreground", "--force", key, socket_, pid,
				      log,	seed,		NULL};
	const char *const encode[] = {"munge", "--no-input", "--output=/dev/null", socket_, NULL};
	const char *const ctld[] = {"slurmctld", "-D", "-c", "-f", conf, NULL};
	const char *const slurmd[] = {"slurmd", "-D", "-f", conf, NULL};
	const char *const state[] = {"sinfo", "-h", "-o", "%t", NULL};

	slurm_configure();
	rig_must(atexit(slurm_end) == 0, "no memory");
	slurm_start(SLURM_MUNGED, munged);
	slurm_await(encode, "", "munge does not answer");
	slurm_start(SLURM_CTLD, ctld);
	slurm_start(SLURM_SLURMD, slurmd);
	slurm_await(state, "idle\n", "the node does not come up");
}

/* --- what is measured ------------------------------------------------------------------------- */

/* Until so many commands have run. */
static void slurm_await_jobs(size_t count)
{
	struct pollfd poll_fd = {.fd = slurm_done_fd, .events = POLLIN};
	char bytes[SLURM_JOBS];

	while (count > 0) {
		rig_must(poll(&poll_fd, 1, SLURM_WAIT_MS) == 1, "%zu jobs do not run", count);
		ssize_t got = read(slurm_done_fd, bytes, count < sizeof(bytes) ? count : 1);
		rig_must(got > 0, "cannot read %s", slurm_fifo);
		count -= (size_t)got;
	}
}

/* Nothing of the round before is left to be done. */
static void slurm_settle(void)
{
	const char *const squeue[] = {"squeue", "-h", "-o", "%t", NULL};

	while (rig_pending(&slurm_rig) + rig_running(&slurm_rig) > 0)
		(void)usleep(SLURM_LOOK_US);
	slurm_await(squeue, "", "jobs of Slurm do not end");
}

static uint64_t slurm_many(enum slurm_who who, const char *lines)
{
	char array[32], command[2 * PATH_MAX];

	(void)snprintf(array, sizeof(array), "--array=1-%d", SLURM_JOBS);
	(void)snprintf(command, sizeof(command), "exec %s --count %s", slurm_self, slurm_fifo);

	const char *const ours[] = {BENCH_SLUICE, "run", "-d", "-g", "0", "--lines", lines, NULL};
	const char *const theirs[] = {"sbatch", "-Q",	  "-o",	   "/dev/null",
				      array,	"--wrap", command, NULL};
	uint64_t began = gate_now_ns();

	slurm_call(who == SLURM_OURS ? ours : theirs);
	slurm_await_jobs(SLURM_JOBS);
	return gate_now_ns() - began;
}

static uint64_t slurm_each(enum slurm_who who)
{
	char command[2 * PATH_MAX];
	(void)snprintf(command, sizeof(command), "exec %s --count %s", slurm_self, slurm_fifo);

	const char *const ours[] = {BENCH_SLUICE, "run",      "-d",	 "-g",	     "0",
				    "--",	  slurm_self, "--count", slurm_fifo, NULL};
	const char *const theirs[] = {"sbatch", "-Q", "-o", "/dev/null", "--wrap", command, NULL};
	uint64_t began = gate_now_ns();

	for (int i = 0; i < SLURM_CALLS; i++)
		slurm_call(who == SLURM_OURS ? ours : theirs);
	slurm_await_jobs(SLURM_CALLS);

	return gate_now_ns() - began;
}

static double slurm_ratio(uint64_t took[SLURM_COUNT][SLURM_ROUNDS])
{
	uint64_t ratios[SLURM_ROUNDS];
	for (int i = 0; i < SLURM_ROUNDS; i++)
		ratios[i] = took[SLURM_OURS][i] * 1000000 /
			    (took[SLURM_THEIRS][i] ? took[SLURM_THEIRS][i] : 1);
	return gate_quantile(ratios, SLURM_ROUNDS, 0.5) / 1e6;
}

static void slurm_measure(struct gate_report *report, const char *lines)
{
	static uint64_t many[SLURM_COUNT][SLURM_ROUNDS], each[SLURM_COUNT][SLURM_ROUNDS];

	for (int i = 0; i < SLURM_ROUNDS; i++) {
		for (int turn = 0; turn < SLURM_COUNT; turn++) {
			enum slurm_who who = (enum slurm_who)((turn + i) % SLURM_COUNT);
			slurm_settle();
			many[who][i] = slurm_many(who, lines);
			slurm_settle();
			each[who][i] = slurm_each(who);
		}
	}

	double many_ratio = slurm_ratio(many), each_ratio = slurm_ratio(each);

	for (int who = 0; who < SLURM_COUNT; who++) {
		double many_s = gate_quantile(many[who], SLURM_ROUNDS, 0.5) / 1e9;
		double each_s = gate_quantile(each[who], SLURM_ROUNDS, 0.5) / 1e9;
		gate_note(report, "%d short jobs in one call, %s: %.2f s (median), %.0f per second",
			  SLURM_JOBS, slurm_names[who], many_s, SLURM_JOBS / many_s);
		gate_note(report,
			  "%d short jobs in a call each, %s: %.2f s (median), %.0f per second",
			  SLURM_CALLS, slurm_names[who], each_s, SLURM_CALLS / each_s);
	}

	gate_note(report, "in a call each, ratio of each pair, median: %.2f", each_ratio);
	gate_value(report, "slurm_throughput", many_ratio, "x slurm-wlm", GATE_AT_MOST, 1);
}

static int slurm_count(const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd >= 0 && write(fd, "", 1) == 1 ? 0 : 1;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "--count") == 0)
		return slurm_count(argv[2]);

	struct gate_report *report = gate_open(
	    argc, argv, "slurm",
	    "Measures the local queue side by side with Slurm of the distribution, which\n"
	    "it starts for itself: the time of many short jobs. As root.",
	    true, NULL);
	ssize_t length = readlink("/proc/self/exe", slurm_self, sizeof(slurm_self) - 1);
	char lines[RIG_PATH_MAX + 16];

	rig_must(length > 0, "cannot tell where this program is");
	rig_open(&slurm_rig);
	(void)snprintf(slurm_fifo, sizeof(slurm_fifo), "%s/done", slurm_rig.directory);
	rig_must(mkfifo(slurm_fifo, 0600) == 0, "cannot make %s", slurm_fifo);
	slurm_done_fd = open(slurm_fifo, O_RDWR | O_CLOEXEC); /* so that the pipe has no end */
	rig_must(slurm_done_fd >= 0, "cannot open %s", slurm_fifo);

	(void)snprintf(lines, sizeof(lines), "%s/lines", slurm_rig.directory);
	FILE *file = fopen(lines, "we");
	rig_must(file, "cannot write %s", lines);
	for (int i = 0; i < SLURM_JOBS; i++)
		(void)fprintf(file, "exec %s --count %s\n", slurm_self, slurm_fifo);
	rig_must(fclose(file) == 0, "cannot write %s", lines);

	slurm_open();
	(void)rig_start_agent(&slurm_rig);
	rig_must(setenv("SLUICE_SOCKET", slurm_rig.socket, 1) == 0, "no memory");
	slurm_measure(report, lines);
	slurm_settle();
	slurm_end();
	rig_terminate_agent(&slurm_rig);

	return gate_close(report);
}
