/* SPDX-License-Identifier: Apache-2.0 */
#include "validate/gpu/metrics.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/address.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/text.h"
#include "validate/gpu/gputest.h"

enum {
	METRICS_STEP_MS = 250,
	METRICS_READ = 65536,
	METRICS_SPIN_MS = 50, /* of one kernel */
};
#define METRICS_FETCH_NS  UINT64_C(10000000000)
#define METRICS_WAIT_NS	  UINT64_C(15000000000) /* until the exporter has seen a level */
#define METRICS_LOAD_NS	  UINT64_C(4000000000)
#define METRICS_VALUE_MAX 1e18
#define METRICS_TOLERANCE 0.02 /* of the memory that was taken */
#define METRICS_BUSY_MIN  0.9

/* --- reading ---------------------------------------------------------------------------------- */

bool metrics_find(const char *text, size_t length, const char *name, const char *uuid, double *out)
{
	size_t name_length = strlen(name), uuid_length = strlen(uuid);
	const char *at = text, *end = text + length;

	while (at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		size_t line = (size_t)((newline ? newline : end) - at);
		const char *brace = memchr(at, '}', line);
		const char *found = NULL;

		if (brace && line > name_length && memcmp(at, name, name_length) == 0 &&
		    at[name_length] == '{')
			found = memmem(at, (size_t)(brace - at), uuid, uuid_length);

		if (found && found[-1] == '"' && found[uuid_length] == '"') {
			char number[METRICS_NUMBER_MAX];
			size_t digits = line - (size_t)(brace + 1 - at);
			if (digits < 2 || digits > sizeof(number) || brace[1] != ' ')
				return false;

			memcpy(number, brace + 2, digits - 1);
			number[digits - 1] = '\0';
			return parse_fraction(number, 0, METRICS_VALUE_MAX, out) == 0;
		}

		at += line + (newline != NULL);
	}

	return false;
}

static int metrics_receive(int fd, struct buf *out)
{
	while (true) {
		int rc = buf_reserve(out, METRICS_READ);
		if (rc < 0)
			return rc;

		ssize_t length = read(fd, out->data + out->length, METRICS_READ);
		if (length < 0 && errno == EINTR)
			continue;
		if (length < 0)
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
		if (length == 0)
			return 0;

		out->length += (size_t)length;
		out->data[out->length] = '\0';
	}
}

int metrics_fetch(const char *address, uint64_t timeout_ns, struct buf *out, struct err *err)
{
	struct address to;
	char request[256];
	const struct timeval limit = {.tv_sec = (time_t)(timeout_ns / CLOCK_NS_PER_S),
				      .tv_usec = 1};
	int rc = address_parse(address, strlen(address), &to, err);
	if (rc < 0)
		return rc;

	_cleanup_close_ int fd = socket(to.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_set(err, -errno, "socket: %s", err_describe(-errno));

	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)); /* else it waits */
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));

	int length = snprintf(request, sizeof(request),
			      "GET /metrics?set=native HTTP/1.1\r\nHost: localhost\r\n"
			      "Connection: close\r\n\r\n");
	if (connect(fd, &to.any, to.length) < 0 ||
	    send(fd, request, (size_t)length, MSG_NOSIGNAL) != length)
		return err_set(err, -errno, "http://%s/metrics: %s", address, err_describe(-errno));

	buf_clear(out);
	rc = metrics_receive(fd, out);
	if (rc < 0)
		return err_set(err, rc, "http://%s/metrics: %s", address, err_describe(rc));

	const char *text = buf_text(out), *body = strstr(text, "\r\n\r\n");
	if (!text_starts_with(text, "HTTP/1.") || !text_starts_with(text + 8, " 200") || !body)
		return err_set(err, -EPROTO, "http://%s/metrics answers '%.40s'", address,
			       text_starts_with(text, "HTTP/") ? text + 9 : text);

	buf_consume(out, (size_t)(body + 4 - text));
	return 0;
}

/* --- levels ----------------------------------------------------------------------------------- */

struct metrics {
	struct gputest test;
	const char *address;
	const struct checks_sink *sink;
	struct buf text;
	uint64_t memory; /* owned: of the GPU */
};

static const char metrics_used[] = "sluice_gpu_memory_used_bytes";
static const char metrics_busy[] = "sluice_gpu_utilization_ratio";

static int metrics_read(struct metrics *self, const char *name, double *out, struct err *err)
{
	int rc = metrics_fetch(self->address, METRICS_FETCH_NS, &self->text, err);
	if (rc < 0)
		return rc;

	return metrics_find(buf_text(&self->text), self->text.length, name, self->test.device->uuid,
			    out)
		   ? 0
		   : err_set(err, -ENODATA, "%s has no %s of %s", self->address, name,
			     self->test.device->uuid);
}

/* Until the exporter says `wanted`, or what it said last. */
static int metrics_wait(struct metrics *self, double wanted, double tolerance, double *out,
			struct err *err)
{
	const struct clock clock = {NULL};
	uint64_t end = clock_now_ns(&clock) + METRICS_WAIT_NS;

	while (true) {
		int rc = metrics_read(self, metrics_used, out, err);
		if (rc < 0 || fabs(*out - wanted) <= tolerance || clock_now_ns(&clock) >= end)
			return rc;

		checks_progress(self->sink, "metrics of GPU %u: %.0f MB, should be %.0f",
				self->test.device->ordinal, *out / 1e6, wanted / 1e6);
		(void)poll(NULL, 0, METRICS_STEP_MS);
	}
}

/* What it says once it says the same for two seconds: the context has just been made. */
static int metrics_settle(struct metrics *self, double *out, struct err *err)
{
	double before = -1;

	for (int same = 0, all = 0; same < 8 && all < 60; all++) {
		int rc = metrics_read(self, metrics_used, out, err);
		if (rc < 0)
			return rc;

		same = *out == before ? same + 1 : 0;
		before = *out;
		(void)poll(NULL, 0, METRICS_STEP_MS);
	}

	return 0;
}

static int metrics_memory(struct metrics *self, struct check *check, struct err *err)
{
	const struct driver_calls *call = &self->test.driver->call;
	double base = 0, level = 0, after = 0;
	uint64_t bytes = 0;
	int rc = gputest_fit(&self->test, UINT64_MAX, &bytes, err);
	if (rc == 0)
		rc = metrics_settle(self, &base, err);

	if (rc < 0)
		return rc;

	int failed = call->cuMemAlloc(&self->memory, bytes);
	if (failed != CUDA_OK)
		return driver_fail(self->test.driver, failed, err,
				   "cuMemAlloc of %" PRIu64 " bytes", bytes);

	double tolerance = METRICS_TOLERANCE * (double)bytes;
	rc = metrics_wait(self, base + (double)bytes, tolerance, &level, err);
	(void)call->cuMemFree(self->memory); /* the next reading tells */
	self->memory = 0;

	if (rc == 0)
		rc = metrics_wait(self, base, tolerance, &after, err);
	if (rc < 0)
		return rc;

	check_value(check, level - base, "bytes");
	check->has_limit = true;
	check->limit = (double)bytes;
	checks_sample(self->sink, self->test.device->uuid, metrics_used, "bytes", false,
		      level - base);

	if (fabs(level - base - (double)bytes) > tolerance)
		check_worsen(check, CHECK_FAIL, "%" PRIu64 " bytes were taken, and %s rose by %.0f",
			     bytes, metrics_used, level - base);
	else if (fabs(after - base) > tolerance)
		check_worsen(check, CHECK_FAIL,
			     "all was given back, and %s is %.0f instead of %.0f", metrics_used,
			     after, base);

	return 0;
}

/* A kernel runs all the time; what it says at the end of that. */
static int metrics_load(struct metrics *self, struct check *check, struct err *err)
{
	const struct clock clock = {NULL};
	struct cuda_function *spin = NULL;
	uint64_t ns = METRICS_SPIN_MS * CLOCK_NS_PER_MS, out = 0;
	uint64_t end = clock_now_ns(&clock) + METRICS_LOAD_NS;
	void *parameters[] = {&ns, &out};
	double busy = 0;
	int rc = kernels_find(self->test.driver, &self->test.kernels, "sl_spin", &spin, err);

	while (rc == 0 && clock_now_ns(&clock) < end) {
		for (int i = 0; rc == 0 && i < 4; i++)
			rc = gputest_launch(&self->test, spin, 1, 1, 0, parameters, err);

		if (rc == 0 && clock_now_ns(&clock) + METRICS_SPIN_MS * 8 * CLOCK_NS_PER_MS >= end)
			rc = metrics_read(self, metrics_busy, &busy, err); /* while it works */

		int failed = self->test.driver->call.cuStreamSynchronize(self->test.streams[0]);
		if (rc == 0 && failed != CUDA_OK)
			rc = driver_fail(self->test.driver, failed, err, "waiting for a kernel");
	}

	if (rc < 0)
		return rc == -ENODATA ? 0 : rc; /* under MIG there is none */

	checks_sample(self->sink, self->test.device->uuid, metrics_busy, "ratio", true, busy);
	if (busy < METRICS_BUSY_MIN)
		check_worsen(check, CHECK_FAIL,
			     "a kernel ran all the time, and %s said %.2f, which should be %.2f at "
			     "least",
			     metrics_busy, busy, METRICS_BUSY_MIN);

	return 0;
}

void metrics_check(const struct driver *driver, const struct driver_device *device,
		   const char *address, uint64_t place, const struct checks_sink *sink)
{
	struct metrics self = {.address = address, .sink = sink};
	struct err err = {.code = 0};
	struct check check;

	buf_init(&self.text, METRICS_TEXT_MAX);
	checks_begin(sink, &check, place, "metrics", device->uuid);

	if (text_starts_with(device->uuid, "MIG-")) {
		check_set(&check, CHECK_SKIP, "the exporter is compared for whole GPUs only");
	} else {
		int rc = gputest_open(driver, device, &self.test, &err);
		if (rc == 0)
			rc = metrics_memory(&self, &check, &err);

		/* The simulated driver's time is not the exporter's. */
		if (rc == 0 && !driver->is_simulated)
			rc = metrics_load(&self, &check, &err);
		if (rc < 0)
			gputest_failed(&check, &err);

		if (err.code == -ENODATA || err.code == -ENOMEM)
			check.status = CHECK_SKIP;
		else if (rc == 0 && check.status == CHECK_PASS)
			check_set(&check, CHECK_PASS, "memory in use%s as it should be",
				  driver->is_simulated ? "" : " and utilisation");
	}

	if (self.memory)
		(void)driver->call.cuMemFree(self.memory); /* at the end, all goes */
	gputest_close(&self.test);
	buf_done(&self.text);
	checks_end(sink, &check);
}
