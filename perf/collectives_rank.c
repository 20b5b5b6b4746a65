/* SPDX-License-Identifier: Apache-2.0 */
#include "perf/collectives_rank.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "bench/collectives/backend.h"
#include "bench/collectives/pattern.h"
#include "perf/gate.h"

/* Buffers stay while the size does: an order begins with pages that are there. */
struct rank {
	struct backend *backend;
	void *send, *receive; /* NULL: none */
	uint64_t bytes;
	bool is_registered;
	struct pattern pattern;
	struct collective_shape shape;
};

static void rank_release(struct rank *rank)
{
	if (rank->send)
		rank->backend->ops->free(rank->backend, rank->send);
	if (rank->receive)
		rank->backend->ops->free(rank->backend, rank->receive);
	rank->send = rank->receive = NULL;
}

static int rank_prepare(struct rank *rank, const struct rank_order *order, struct err *err)
{
	struct backend *backend = rank->backend;

	if (rank->send && rank->bytes == order->bytes &&
	    rank->is_registered == order->is_registered)
		return 0;

	rank_release(rank);
	enum backend_memory memory = order->is_registered ? BACKEND_REGISTERED : BACKEND_PRIVATE;
	int rc = backend->ops->alloc(backend, memory, order->bytes, &rank->send, err);
	if (rc == 0)
		rc = backend->ops->alloc(backend, memory, order->bytes, &rank->receive, err);

	if (rc < 0)
		return rc;

	rank->bytes = order->bytes;
	rank->is_registered = order->is_registered;

	const struct pattern_plan plan = {.op = COLLECTIVE_ALL_REDUCE,
					  .type = COLLECTIVE_F32,
					  .redop = COLLECTIVE_SUM,
					  .ranks = backend->ranks,
					  .seed = order->bytes,
					  .is_periodic = false};
	collective_shape(plan.op, plan.type, order->bytes, backend->ranks, &rank->shape);
	pattern_init(&plan, &rank->shape, &rank->pattern);
	pattern_send(&rank->pattern, backend->rank, 0, rank->shape.send_count, rank->send);

	return 0;
}

static int rank_operate(struct rank *rank, struct err *err)
{
	const struct backend_call call = {.op = COLLECTIVE_ALL_REDUCE,
					  .type = COLLECTIVE_F32,
					  .redop = COLLECTIVE_SUM,
					  .shape = &rank->shape,
					  .send = rank->send,
					  .receive = rank->receive};
	return rank->backend->ops->run(rank->backend, &call, err);
}

/* Short ones: whoever is put off its processor in the midst of one spoils that alone. */
static int rank_stream(struct rank *rank, const struct rank_order *order, struct rank_answer *out,
		       struct err *err)
{
	int rc = 0;

	while (rc == 0 && out->sample_count < order->streams) {
		rc = rank->backend->ops->barrier(rank->backend, err);
		uint64_t begin = gate_now_ns();

		for (uint32_t i = 0; rc == 0 && i < order->iterations; i++)
			rc = rank_operate(rank, err);

		out->samples[out->sample_count++] =
		    (double)(gate_now_ns() - begin) / 1e9 / order->iterations;
	}

	return rc;
}

/* Every byte is stored anew, so that no other processor has it any more; the same values. */
static void rank_renew(float *values, uint64_t count)
{
	volatile const float zero = 0;
	const float nothing = zero;
	for (uint64_t i = 0; i < count; i++)
		values[i] += nothing;
	__asm__ volatile("" ::"r"(values) : "memory");
}

static void rank_use(const float *results, uint64_t count)
{
	uint32_t all = 0, one;
	for (uint64_t i = 0; i < count; i++) {
		memcpy(&one, &results[i], sizeof(one));
		all ^= one;
	}
	__asm__ volatile("" ::"r"(all));
}

static int rank_single(struct rank *rank, const struct rank_order *order, struct rank_answer *out,
		       struct err *err)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < order->iterations; i++) {
		rank_renew(rank->send, rank->shape.send_count);
		if (order->timing == RANK_USED)
			rank_use(rank->receive, rank->shape.receive_count);
		rc = rank->backend->ops->barrier(rank->backend, err);

		uint64_t begin = gate_now_ns();

		if (rc == 0)
			rc = rank_operate(rank, err);
		out->samples[out->sample_count++] = (double)(gate_now_ns() - begin) / 1e9;
	}

	return rc;
}

static int rank_check(struct rank *rank, struct rank_answer *out, struct err *err)
{
	uint64_t unused;

	/* Renewing may have made zeros of negative ones. */
	pattern_send(&rank->pattern, rank->backend->rank, 0, rank->shape.send_count, rank->send);
	memset(rank->receive, 0x5a, rank->shape.receive_count * sizeof(float));

	int rc = rank_operate(rank, err);
	if (rc == 0)
		out->wrong =
		    pattern_check_receive(&rank->pattern, rank->backend->rank, 0,
					  rank->shape.receive_count, rank->receive, &unused);

	return rc;
}

static int rank_obey(struct rank *rank, const struct rank_order *order, struct rank_answer *out,
		     struct err *err)
{
	if (order->timing >= RANK_TIMING_COUNT || order->iterations == 0 ||
	    order->streams > RANK_SAMPLES_MAX ||
	    (order->timing != RANK_STREAM && order->iterations > RANK_SAMPLES_MAX))
		return err_set(err, -EINVAL, "an order that is none");

	int rc = rank_prepare(rank, order, err);
	for (uint32_t i = 0; rc == 0 && i < order->warmups; i++)
		rc = rank_operate(rank, err);

	if (rc == 0)
		rc = order->timing == RANK_STREAM ? rank_stream(rank, order, out, err)
						  : rank_single(rank, order, out, err);
	if (rc == 0 && order->is_checked)
		rc = rank_check(rank, out, err);

	return rc;
}

static int rank_connect(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;

	memcpy(address.sun_path, path, strlen(path));
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;

	int code = -errno;

	if (fd >= 0)
		(void)close(fd);

	return code;
}

int rank_serve(struct backend *backend, uint32_t world, const char *path)
{
	struct rank rank = {.backend = backend};
	struct rank_hello hello = {.world = world,
				   .rank = backend->rank,
				   .ranks = backend->ranks,
				   .pid = (int32_t)getpid()};

	(void)snprintf(hello.description, sizeof(hello.description), "%s",
		       backend->description); /* cut where it is too long */
	int fd = rank_connect(path), rc = 0;
	if (fd < 0 || send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello))
		return 1;

	struct rank_order order;

	while (rc == 0 && recv(fd, &order, sizeof(order), 0) == sizeof(order)) {
		struct rank_answer answer = {0};
		struct err err = {0};

		rc = rank_obey(&rank, &order, &answer, &err);
		(void)snprintf(answer.error, sizeof(answer.error), "%.*s", RANK_TEXT_MAX - 1,
			       err.text); /* cut where it is too long */
		if (send(fd, &answer, sizeof(answer), MSG_NOSIGNAL) != sizeof(answer))
			rc = -errno;
	}

	rank_release(&rank);
	(void)close(fd);
	return rc < 0 ? 1 : 0;
}
