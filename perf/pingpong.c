/* SPDX-License-Identifier: Apache-2.0 */
#include "perf/pingpong.h"

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf/gate.h"

/* The other end: sends every byte back until the socket closes. */
static void pingpong_echo(int fd)
{
	char byte;
	while (read(fd, &byte, 1) == 1) {
		if (write(fd, &byte, 1) != 1)
			break;
	}
	_exit(0);
}

/* Both ends on one processor: where the scheduler puts them would else decide the figure (8 or 30
 * us were seen on one quiet machine). Leaves the old affinity in `out_before`. */
static void pingpong_pin(cpu_set_t *out_before)
{
	CPU_ZERO(out_before);
	(void)sched_getaffinity(0, sizeof(*out_before), out_before);

	int cpu = sched_getcpu();
	if (cpu < 0 || cpu >= CPU_SETSIZE)
		return;

	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	(void)sched_setaffinity(0, sizeof(one),
				&one); /* unpinned, the figure is only less steady */
}

static int pingpong_run(uint64_t *samples, size_t count)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;

	pid_t child = fork();
	if (child < 0) {
		int code = -errno;
		(void)close(pair[0]);
		(void)close(pair[1]);
		return code;
	}

	if (child == 0) {
		(void)close(pair[0]);
		pingpong_echo(pair[1]);
	}

	(void)close(pair[1]);

	int rc = 0;

	for (size_t i = 0; i < count && rc == 0; i++) {
		char byte = 0;
		uint64_t begin = gate_now_ns();
		if (write(pair[0], &byte, 1) != 1 || read(pair[0], &byte, 1) != 1)
			rc = -EIO;
		samples[i] = gate_now_ns() - begin;
	}

	(void)close(pair[0]);
	(void)waitpid(child, NULL, 0);
	return rc;
}

int pingpong_measure(size_t count, struct pingpong *out)
{
	*out = (struct pingpong){.noise = 1};
	if (count == 0 || count > PINGPONG_COUNT_MAX)
		return -EINVAL;

	uint64_t *samples = calloc(count, sizeof(*samples));
	if (!samples)
		return -ENOMEM;

	cpu_set_t before;
	pingpong_pin(&before);

	int rc = pingpong_run(samples, count);

	(void)sched_setaffinity(0, sizeof(before), &before);
	if (rc == 0) {
		out->median_ns = gate_quantile(samples, count, 0.5);
		out->p99_ns = gate_quantile(samples, count, 0.99);
		out->noise = out->median_ns / PINGPONG_QUIET_NS;
		if (out->noise < 1)
			out->noise = 1;

		if (out->noise > PINGPONG_NOISE_MAX)
			out->noise = PINGPONG_NOISE_MAX;
	}

	free(samples);
	return rc;
}
