/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A supervisor that follows the protocol of the files and nothing else, and fails where its job's
 * environment says: QUEUE_FAKE=no-claim | busy | die | reboot | shutdown | stop | listens-late. For
 * queue_test.c: what the queue makes of each.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "job/control.h"
#include "job/jobdir.h"
#include "job/launch.h"
#include "job/trash.h"

static int64_t unix_ns(void)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static const char *mode_of(const struct spec *spec)
{
	for (size_t i = 0; i < spec->environment_count; i++) {
		if (strncmp(spec->environment[i], "QUEUE_FAKE=", 11) == 0)
			return spec->environment[i] + 11;
	}
	return "";
}

/* The first agent that connects; -1: none came. */
static int wait_for_agent(void)
{
	int listener = control_listen(LAUNCH_FD_DIRECTORY, NULL);
	int agent = -1;
	for (int i = 0; i < 5000 && agent < 0; i++) {
		agent = accept(listener, NULL, NULL);
		(void)usleep(1000);
	}
	return agent;
}

/* It has looked for the file before the command, and hears of a cancel from an agent alone. */
static void listen_late(pid_t pid)
{
	while (!jobdir_is_cancelled(LAUNCH_FD_DIRECTORY))
		(void)usleep(1000);
	int agent = wait_for_agent();
	char packet[CONTROL_PACKET_MAX];
	struct control_message message;
	ssize_t length = agent < 0 ? -1 : recv(agent, packet, sizeof(packet), 0);
	if (length > 0 && control_parse(packet, (size_t)length, &message, NULL) == 0 &&
	    message.kind == CONTROL_CANCEL)
		(void)kill(pid, SIGKILL);
}

/* Tells the first agent that connects that somebody has the tokens. */
static void say_busy(void)
{
	int agent = wait_for_agent();
	const struct control_message message = {
	    .version = CONTROL_VERSION, .kind = CONTROL_TOKENS_BUSY, .text = "GPU 0: job of bob"};
	char packet[CONTROL_PACKET_MAX];
	size_t length = control_format(&message, packet);
	(void)!send(agent, packet, length, MSG_NOSIGNAL);
	(void)close(agent);
}

static pid_t run(const struct launch *launch)
{
	pid_t pid = fork();
	if (pid != 0)
		return pid;
	char variable[80];
	(void)snprintf(variable, sizeof(variable), "SLUICE_JOB_INSTANCE=%s", launch->instance);
	(void)putenv(variable);
	for (int fd = 3; fd < 16; fd++)
		(void)close(fd);
	(void)execvp(launch->spec.argv[0], launch->spec.argv);
	_exit(127);
}

int main(int argc, char **argv)
{
	struct stat status;
	struct launch launch;
	struct trash_left left;
	if (argc == 2 && strcmp(argv[1], "--clear") == 0)
		return trash_clear(TRASH_FD, NULL, NULL, &left, NULL) < 0;
	if (fstat(LAUNCH_FD_LAUNCH, &status) < 0)
		return 65;
	char *bytes =
	    mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, LAUNCH_FD_LAUNCH, 0);
	if (bytes == MAP_FAILED || launch_parse(bytes, (size_t)status.st_size, &launch, NULL) < 0)
		return 65;
	const char *mode = mode_of(&launch.spec);
	if (strcmp(mode, "busy") == 0 && launch.attempt == 1) {
		say_busy();
		return 75;
	}
	if (strcmp(mode, "no-claim") == 0 && launch.attempt == 1)
		return 66;
	struct jobdir_claim claim = {.pid = getpid(), .unix_ns = unix_ns()};
	(void)snprintf(claim.instance, sizeof(claim.instance), "%s", launch.instance);
	FILE *boot = fopen("/proc/sys/kernel/random/boot_id", "re");
	if (!boot || !fgets(claim.boot_id, sizeof(claim.boot_id), boot))
		return 66;
	(void)fclose(boot);
	if (strcmp(mode, "reboot") == 0 || strcmp(mode, "shutdown") == 0)
		claim.boot_id[0] = claim.boot_id[0] == 'a' ? 'b' : 'a';
	if (jobdir_claim(LAUNCH_FD_DIRECTORY, launch.attempt, &claim, NULL) < 0)
		return 64;
	struct jobdir_result result = {.started_unix_ns = unix_ns()};
	if (jobdir_is_cancelled(LAUNCH_FD_DIRECTORY)) {
		result.end = JOBDIR_CANCELLED;
	} else {
		pid_t pid = run(&launch);
		if (strcmp(mode, "die") == 0)
			(void)usleep(100000); /* the command writes its number meanwhile */
		if (strcmp(mode, "die") == 0 || strcmp(mode, "reboot") == 0)
			(void)raise(SIGKILL);
		if (strcmp(mode, "listens-late") == 0)
			listen_late(pid);
		result.was_terminated = strcmp(mode, "shutdown") == 0 || strcmp(mode, "stop") == 0;
		int ended = 0;
		if (waitpid(pid, &ended, 0) != pid)
			return 66;
		result.end = WIFEXITED(ended) ? JOBDIR_EXITED : JOBDIR_SIGNALLED;
		result.value = WIFEXITED(ended) ? WEXITSTATUS(ended) : WTERMSIG(ended);
		result.exit_code = WIFEXITED(ended) ? result.value : 128 + result.value;
	}
	result.was_cancelled = jobdir_is_cancelled(LAUNCH_FD_DIRECTORY);
	result.ended_unix_ns = unix_ns();
	uint32_t attempt = launch.attempt;
	launch_done(&launch);
	struct err err;
	if (jobdir_write_result(LAUNCH_FD_DIRECTORY, attempt, &result, &err) < 0)
		return fprintf(stderr, "%s\n", err.text), 66;
	return 0;
}
