/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives between all GPUs in sight by NCCL: every element right, how fast, and by which way.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "base/text.h"
#include "bench/collectives/nccl/nccl_ranks.h"
#include "bench/collectives/world.h"
#include "validate/expect.h"
#include "validate/validate_internal.h"

enum {
	COLLECTIVES_ITERATIONS = 20,
	COLLECTIVES_LARGE_ITERATIONS = 5,
	COLLECTIVES_LIST_MAX = DRIVER_DEVICES_MAX * GPU_UUID_MAX,
};
#define COLLECTIVES_SMALLEST	    UINT64_C(8)
#define COLLECTIVES_LARGE	    (UINT64_C(8) << 20)
#define COLLECTIVES_LARGEST	    (UINT64_C(256) << 20)
#define COLLECTIVES_SIMULATED_LARGE (UINT64_C(64) << 10) /* they are computed truly */

/* All-reduce from the smallest to the largest size; the others at the largest alone. */
static const enum collective_op collectives_others[] = {
    COLLECTIVE_ALL_GATHER, COLLECTIVE_REDUCE_SCATTER, COLLECTIVE_BROADCAST, COLLECTIVE_SENDRECV};

struct collectives_run {
	struct validate *self;
	const struct checks_sink *sink;
	struct nccl_ranks ranks;
	uint32_t count;
	uint64_t largest;
	double limit;
	struct check check; /* of the operation that is looked at */
};

/* --- rows ------------------------------------------------------------------------------------- */

static int collectives_start(void *context, struct world_seat *seat, struct backend **out,
			     struct err *err)
{
	struct collectives_run *run = context;
	const struct validate_plan *plan = run->self->plan;
	return nccl_ranks_start(&run->ranks, world_seat_rank(seat), NULL, plan->root,
				plan->timeout_ns, plan->timeout_ns, out, err);
}

static uint32_t collectives_sizes(const struct collectives_run *run)
{
	uint32_t count = 1;
	while (COLLECTIVES_SMALLEST << count <= run->largest)
		count++;
	return count;
}

static int collectives_plan(void *context, uint64_t index, struct measure_plan *out,
			    struct err *err)
{
	const struct collectives_run *run = context;
	uint32_t sizes = collectives_sizes(run);

	(void)err;
	if (index >= sizes + array_length(collectives_others))
		return 0;

	bool is_sweep = index < sizes;
	uint64_t bytes = is_sweep ? COLLECTIVES_SMALLEST << index : run->largest;

	*out = (struct measure_plan){
	    .op = is_sweep ? COLLECTIVE_ALL_REDUCE : collectives_others[index - sizes],
	    .type = COLLECTIVE_F32,
	    .redop = COLLECTIVE_SUM,
	    .memory = BACKEND_PRIVATE,
	    .warmups = 1,
	    .iterations = run->self->is_simulated || bytes > COLLECTIVES_LARGE
			      ? COLLECTIVES_LARGE_ITERATIONS
			      : COLLECTIVES_ITERATIONS,
	    .checks = 1,
	    .has_stream = true,
	    .average = MEASURE_MEAN,
	    .seed = index + 1};
	collective_shape(out->op, out->type, bytes, run->count, &out->shape);
	return 1;
}

/* The operation before is done: what was found of it. */
static void collectives_finish(struct collectives_run *run)
{
	struct check *check = &run->check;
	if (check->name[0] == '\0')
		return;
	if (check->has_limit && check->status == CHECK_PASS && check->value < check->limit)
		check_set(check, CHECK_SLOW,
			  "%.2f GB/s of bus bandwidth at best, expected are %.2f", check->value,
			  check->limit);

	checks_end(run->sink, check);
	check->name[0] = '\0';
}

static void collectives_wrong(struct check *check, const struct measure_row *row,
			      const struct measure_side *side, const char *place)
{
	if (!side->is_there || (side->wrong == 0 && !side->is_guard_hurt) ||
	    check->status == CHECK_FAIL)
		return;

	if (side->wrong == 0)
		check_set(check, CHECK_FAIL,
			  "%s of %" PRIu64 " bytes %s: written beside the buffer of rank %u",
			  collective_op_to_string(row->plan.op), row->plan.shape.bytes, place,
			  side->hurt_rank);
	else
		check_set(check, CHECK_FAIL,
			  "%s of %" PRIu64 " bytes %s: %" PRIu64
			  " elements are wrong; the first is %" PRIu64 " of rank %u: it %s",
			  collective_op_to_string(row->plan.op), row->plan.shape.bytes, place,
			  side->wrong, side->wrong_element, side->wrong_rank, side->wrong_text);

	(void)snprintf(
	    check->hint, sizeof(check->hint),
	    "a GPU or a link damages data: sluice bench gpu p2p and stress find out which");
}

static int collectives_row(void *context, uint64_t index, struct measure_row *row, struct err *err)
{
	struct collectives_run *run = context;
	struct check *check = &run->check;
	const char *op = collective_op_to_string(row->plan.op);
	double best = 0;

	(void)err;
	if (strcmp(check->target, op) != 0 || check->name[0] == '\0') {
		collectives_finish(run);
		checks_begin(run->sink, check, index, "collectives", op);

		if (row->plan.op == COLLECTIVE_ALL_REDUCE && run->limit > 0) {
			check->has_limit = true;
			check->limit = run->limit;
		}
	}

	const struct measure_side *sides[] = {&row->out_of_place, &row->in_place};

	for (size_t i = 0; i < array_length(sides); i++) {
		double busbw = sides[i]->is_there && isfinite(sides[i]->stream)
				   ? collective_busbw(row->plan.op, &row->plan.shape, run->count,
						      sides[i]->stream)
				   : 0;
		best = busbw > best ? busbw : best;
		collectives_wrong(check, row, sides[i], i == 0 ? "out of place" : "in place");
	}

	if (best > check->value || !check->has_value)
		check_value(check, best, "GB/s");
	checks_sample(run->sink, op, "busbw", "GB/s", true, best);
	checks_progress(run->sink, "%s of %" PRIu64 " bytes", op, row->plan.shape.bytes);

	return 0;
}

static void collectives_place(void *context, uint32_t rank, const char *text)
{
	struct collectives_run *run = context;
	(void)rank;
	checks_note(run->sink, "%s", text);
}

/* --- the check -------------------------------------------------------------------------------- */

static void collectives_transport(const struct collectives_run *run)
{
	const struct nccl_note *note = run->ranks.note;
	struct check check;

	if (!validate_wants(run->self, VALIDATE_TRANSPORT))
		return;

	checks_begin(run->sink, &check, 0, "transport", "");
	if (!note || !note->has_transport) {
		check_set(&check, CHECK_SKIP,
			  "NCCL's log does not say how its ranks are connected");
	} else if (note->has_check && note->check.is_slow) {
		check_set(&check, CHECK_SLOW, "%.*s", CHECKS_TEXT_MAX - 1, note->check.reason);
		(void)snprintf(check.hint, sizeof(check.hint), "%.*s", CHECKS_TEXT_MAX - 1,
			       note->check.hint);
	} else {
		size_t length = strcspn(note->lines, "\n");
		size_t more = note->lines[length] ? strcspn(note->lines + length + 1, "\n") : 0;

		check_set(&check, CHECK_PASS, "%.*s; %.*s", (int)(length < 100 ? length : 100),
			  note->lines, (int)(more < 200 ? more : 200),
			  note->lines + length + (note->lines[length] != '\0'));
	}

	checks_end(run->sink, &check);
}

/* 0.7 of the links that a ring between these GPUs can use: of each its own, or those to the others
 * where they are fewer. 0: a GPU has none. */
static double collectives_limit(const struct validate *self, uint32_t count)
{
	double least = INFINITY;

	for (uint32_t a = 0; a < count; a++) {
		const struct gpu *gpu = self->devices[a].gpu;
		uint32_t own = 0, to_others = 0;

		if (!gpu)
			return 0;

		for (uint32_t i = 0; i < gpu->link_count; i++)
			own += gpu->link[i].peer == GPU_LINK_GPU ||
			       gpu->link[i].peer == GPU_LINK_SWITCH;

		for (uint32_t b = 0; b < count; b++)
			to_others += self->p2p.nvlinks[a][b];

		double limit =
		    expect_all_reduce(gpu->architecture, own < to_others ? own : to_others);
		least = limit < least ? limit : least;
	}

	return isfinite(least) ? least : 0;
}

/* Only the GPUs that are checked, in their order: ranks are their numbers. */
static int collectives_choose(const struct validate *self, uint32_t count, struct err *err)
{
	char list[COLLECTIVES_LIST_MAX];
	size_t length = 0;
	for (uint32_t i = 0; i < count; i++)
		length += (size_t)snprintf(list + length, sizeof(list) - length, "%s%s",
					   i > 0 ? "," : "", self->devices[i].device.uuid);

	return setenv("CUDA_VISIBLE_DEVICES", list, 1) < 0
		   ? err_set(err, -ENOMEM, "CUDA_VISIBLE_DEVICES: no memory")
		   : 0;
}

static int collectives_job(void *context, const struct checks_sink *sink, struct err *err)
{
	struct validate *self = context;
	struct collectives_run run = {.self = self, .sink = sink, .count = self->end};
	const struct world_job job = {.ranks = run.count,
				      .start_timeout_ns = self->plan->timeout_ns,
				      .timeout_ns = self->plan->timeout_ns,
				      .context = &run,
				      .start = collectives_start,
				      .plan = collectives_plan,
				      .row = collectives_row,
				      .place = collectives_place};

	run.largest = self->is_simulated ? COLLECTIVES_SIMULATED_LARGE : COLLECTIVES_LARGEST;
	run.limit = self->is_simulated ? 0 : collectives_limit(self, run.count);

	int rc = collectives_choose(self, run.count, err);
	if (rc == 0)
		rc = nccl_ranks_prepare(run.count, NULL, &run.ranks, err);
	if (rc < 0)
		return rc;

	rc = world_run_forked(&job, err);
	if (rc == 0) {
		collectives_finish(&run);
		collectives_transport(&run);
	}

	nccl_ranks_done(&run.ranks);
	return rc;
}

static void collectives_skip(struct validate *self, const char *reason, const char *hint)
{
	if (validate_wants(self, VALIDATE_COLLECTIVES))
		checks_say(self->out, "collectives", "", CHECK_SKIP, hint, "%s", reason);
	if (validate_wants(self, VALIDATE_TRANSPORT))
		checks_say(self->out, "transport", "", CHECK_SKIP, NULL,
			   "it comes with the collectives");
}

static void collectives_blame(struct validate *self, const struct apart_job *job)
{
	size_t before = self->out->count;
	validate_blame(self, job, 0, "collectives", "");
	struct check *last = self->out->count > before ? &self->out->list[before] : NULL;
	if (last && last->hint[0] == '\0')
		(void)snprintf(last->hint, sizeof(last->hint),
			       "sluice bench collectives --backend nccl does it alone; "
			       "NCCL_DEBUG=INFO tells more");
}

int validate_collectives(struct validate *self, struct err *err)
{
	struct apart_job job = {.run = collectives_job,
				.context = self,
				.silence_ns = 2 * self->plan->timeout_ns,
				.timeout_ns = UINT64_MAX};
	uint32_t count = 0;
	while (count < self->count && self->devices[count].view[0] == '\0' &&
	       !text_starts_with(self->devices[count].device.uuid, "MIG-"))
		count++;

	if (count < 2) {
		collectives_skip(self, "there are no two whole GPUs in sight to exchange data",
				 NULL);
		return 0;
	}

	self->from = 0;
	self->end = count;

	int rc = validate_apart(self, &job, 1, NULL, err);

	if (job.how == APART_DONE)
		return rc;

	if (rc == 0 && job.how == APART_FAILED && job.err.code == -ENOENT)
		collectives_skip(
		    self, job.err.text,
		    "NCCL is in the image of most frameworks; its package is libnccl2");
	else
		collectives_blame(self, &job);

	return rc;
}
