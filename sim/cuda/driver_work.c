/* SPDX-License-Identifier: Apache-2.0 */
/* Queueing operations, and what happens when they are done. */
#include "sim/cuda/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LOOK_MS = 20, UTIL_MS = 250, UTIL_STEP_PERMILLE = 20, COLLECT_MAX = 512 };

/* --- memory ----------------------------------------------------------------------------------- */

uint32_t work_device(uint64_t address)
{
	for (uint32_t i = 0; i < driver.devices.count; i++) {
		if (memory_has(&driver.memory[i], address))
			return i;
	}
	return SIM_GPU_MAX;
}

bool work_is_pinned(const void *address, uint64_t bytes)
{
	const unsigned char *at = address;

	for (uint32_t i = 0; i < driver.pinned_count; i++) {
		const struct pinned *pinned = &driver.pinned[i];

		if (at >= pinned->address && at < pinned->address + pinned->bytes &&
		    bytes <= pinned->bytes - (uint64_t)(at - pinned->address))
			return true;
	}

	return false;
}

/* What a kernel of `context` reaches: its device, those it may, and pinned memory. */
void *work_memory(void *context, uint64_t address, uint64_t bytes)
{
	const struct cu_context *from = context;
	uint32_t device = work_device(address);

	if (device < SIM_GPU_MAX) {
		if (from && device != from->device && !(from->peers & (1U << device)))
			return NULL;
		return memory_at(&driver.memory[device], address, bytes);
	}

	if (!address || !work_is_pinned((void *)(uintptr_t)address, bytes))
		return NULL;

	return (void *)(uintptr_t)address;
}

/* For copies, which reach all devices and any host memory. */
static void *copy_memory(uint64_t address, uint64_t bytes)
{
	uint32_t device = work_device(address);

	if (device < SIM_GPU_MAX)
		return memory_at(&driver.memory[device], address, bytes);
	return (void *)(uintptr_t)address;
}

/* --- what an operation owns ------------------------------------------------------------------- */

struct cu_event *event_unref(struct cu_event *event)
{
	if (event && --event->references == 0)
		free(event);
	return NULL;
}

struct cu_graph *graph_unref(struct cu_graph *graph)
{
	if (!graph || --graph->references > 0)
		return NULL;
	for (uint32_t i = 0; i < graph->count; i++)
		work_done(&graph->node[i].work);
	free(graph->node);
	free(graph);
	return NULL;
}

void work_done(struct work *work)
{
	free(work->staged);
	(void)event_unref(work->event);
	(void)graph_unref(work->graph);
	work->staged = NULL;
	work->event = NULL;
	work->graph = NULL;
}

/* --- effects ---------------------------------------------------------------------------------- */

static void falsify(struct cu_context *context, uint64_t address, uint64_t bytes)
{
	uint32_t *word = bytes >= 4 ? work_memory(context, address, bytes) : NULL;
	uint64_t value;

	if (!word)
		return;

	uint64_t middle = bytes / 4 / 2;

	if (faults_strike(&driver.faults, FAULT_FLIP, NULL, &value))
		word[middle] ^= 1U << 20;
	if (faults_strike(&driver.faults, FAULT_NAN, NULL, &value))
		word[middle] = 0x7fc00000;
}

static int apply_kernel(struct cu_context *context, const struct kernel_launch *launch,
			const struct kernel_run *run)
{
	const struct kernel_memory memory = {work_memory, context};
	uint64_t address, bytes, value;
	int rc;

	if (faults_strike(&driver.faults, FAULT_DIE, NULL, &value))
		return (int)value;

	rc = kernel_compute(launch, &memory, run, &address, &bytes);
	if (rc == CU_OK)
		falsify(context, address, bytes);

	return rc;
}

static int apply_set(const struct work *work)
{
	unsigned char *to = copy_memory(work->to, work->bytes);

	if (!to)
		return CU_ILLEGAL_ADDRESS;

	for (uint64_t i = 0; i < work->bytes && work->width > 1; i += work->width)
		memcpy(to + i, &work->value, work->width);

	if (work->width == 1)
		memset(to, (int)(work->value & 0xff), work->bytes);

	return CU_OK;
}

static int apply_copy(const struct work *work)
{
	void *to = copy_memory(work->to, work->bytes);
	const void *from = work->staged ? work->staged : copy_memory(work->from, work->bytes);

	if (!to || !from)
		return CU_ILLEGAL_ADDRESS;
	memmove(to, from, work->bytes);
	return CU_OK;
}

static int apply(struct cu_context *context, const struct work *work, const struct kernel_run *run);

static int apply_graph(struct cu_context *context, const struct cu_graph *graph,
		       const struct kernel_run *run)
{
	int rc = CU_OK;

	for (uint32_t i = 0; i < graph->count && rc == CU_OK; i++)
		rc = apply(context, &graph->node[i].work, run);
	return rc;
}

static int apply(struct cu_context *context, const struct work *work, const struct kernel_run *run)
{
	switch (work->kind) {
	case WORK_KERNEL:
		return apply_kernel(context, &work->launch, run);
	case WORK_COPY:
		return apply_copy(work);
	case WORK_SET:
		return apply_set(work);
	case WORK_GRAPH:
		return apply_graph(context, work->graph, run);
	case WORK_FREE:
		return memory_release(work->to);
	case WORK_HOST:
		work->host(work->data);
		return CU_OK;
	case WORK_EVENT:
		work->event->is_done = true;
		work->event->time_ns = run->end_ns;
		return CU_OK;
	case WORK_NOTHING:
	default:
		return CU_OK;
	}
}

/* --- collecting ------------------------------------------------------------------------------- */

struct due {
	struct cu_context *context;
	struct work *work;
	uint64_t number, order;
	struct kernel_run run;
	struct sched_gap *gap; /* owned */
};

static int due_compare(const void *a, const void *b)
{
	const struct due *one = a, *other = b;

	return one->order < other->order ? -1 : one->order > other->order;
}

/* The times in which a kernel was switched out, for those that tell. */
static void note_gaps(const struct sched_context *from, struct due *due)
{
	uint64_t kept = from->gap_count < SCHED_GAP_MAX ? from->gap_count : SCHED_GAP_MAX;

	if (due->work->kind != WORK_KERNEL || due->work->launch.id != KERNEL_RULER || kept == 0)
		return;

	due->gap = malloc(kept * sizeof(*due->gap));
	for (uint64_t i = 0; due->gap && i < kept; i++)
		due->gap[i] = from->gap[(from->gap_count - kept + i) % SCHED_GAP_MAX];

	due->run.gap = due->gap;
	due->run.gap_count = due->gap ? (uint32_t)kept : 0;
}

static uint32_t find_due(const struct sched *sched, struct cu_context *context, struct due *due,
			 uint32_t room)
{
	const struct sched_context *from = &sched->context[context->sched];
	uint32_t count = 0;

	for (uint64_t n = from->first; n < from->next && count < room; n++) {
		const struct sched_op *op = sched_op(sched, context->sched, n);
		struct work *work = &context->work[n % SCHED_RING];

		if (op->state != SCHED_DONE || work->is_applied)
			continue;

		due[count] = (struct due){
		    .context = context,
		    .work = work,
		    .number = n,
		    .order = op->order,
		    .run = {.begin_ns = op->begin_ns, .end_ns = op->done_ns},
		};
		note_gaps(from, &due[count]);
		count++;
	}

	return count;
}

/* A kernel that waits for the program's word: has it come? */
static void look_at_holds(struct sched *sched, struct cu_context *context)
{
	const struct sched_context *from = &sched->context[context->sched];

	for (uint64_t n = from->undone; n < from->next && context->holds > 0; n++) {
		struct work *work = &context->work[n % SCHED_RING];
		const volatile uint32_t *flag;

		if (work->kind != WORK_KERNEL || work->launch.id != KERNEL_HOLD ||
		    work->is_applied || sched_op(sched, context->sched, n)->request.cost_ns == 0)
			continue;

		flag = work_memory(context, work->launch.argument[0], 4);
		if (flag && *flag)
			sched_release(sched, context->sched, n);
	}
}

static uint64_t real_ms(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* How long each device computed for this process; returns the time. */
static uint64_t busy_read(uint64_t out_busy[SIM_GPU_MAX])
{
	const struct sched *sched = world_sched(driver.world);
	uint64_t now;

	memset(out_busy, 0, SIM_GPU_MAX * sizeof(*out_busy));
	world_lock(driver.world);

	for (uint32_t i = 0; i < DRIVER_CONTEXT_MAX; i++) {
		const struct cu_context *context = &driver.context[i];

		if (context->used)
			out_busy[context->device] += sched->context[context->sched].busy_ns;
	}

	now = sched->now_ns;
	world_end(driver.world);
	return now;
}

/* Enters how busy we keep each device, where that has changed. */
static void util_enter(void)
{
	uint64_t busy[SIM_GPU_MAX], now = busy_read(busy), passed = now - driver.util_at_ns;

	if (passed == 0)
		return;

	driver.util_at_ns = now;
	for (uint32_t d = 0; d < driver.devices.count; d++) {
		uint64_t share = busy[d] > driver.util_busy_ns[d]
				     ? cost_ns(busy[d] - driver.util_busy_ns[d], passed)
				     : 0;

		share = share > 1000 ? 1000 : share;
		driver.util_busy_ns[d] = busy[d];
		if (driver.contexts[d] == 0 ||
		    (share < driver.util_permille[d] + UTIL_STEP_PERMILLE &&
		     driver.util_permille[d] < share + UTIL_STEP_PERMILLE))
			continue;

		driver.util_permille[d] = (uint32_t)share;
		(void)memory_enter(d, driver.held_bytes[d], driver.contexts[d]);
	}
}

/* Now and then: is the GPU still there, and how busy do we keep it? */
static void look_around(void)
{
	uint64_t now = real_ms();

	if (now - driver.health_ms < LOOK_MS)
		return;

	driver.health_ms = now;
	for (uint32_t i = 0; i < DRIVER_CONTEXT_MAX; i++) {
		struct cu_context *context = &driver.context[i];

		if (context->used && context->error == CU_OK)
			context->error = device_health(&driver.devices, context->device);
	}

	if (now - driver.util_real_ms < UTIL_MS)
		return;

	driver.util_real_ms = now;
	util_enter();
}

static void apply_due(struct due *due)
{
	struct cu_context *context = due->context;
	int rc = CU_OK;

	/* after an error nothing is computed; events still end */
	if (context->error == CU_OK || due->work->kind == WORK_EVENT)
		rc = apply(context, due->work, &due->run);
	if (context->error == CU_OK)
		context->error = rc;
	if (due->work->kind == WORK_EVENT && due->work->event->number != due->number)
		due->work->event->is_done = due->work->event->number == 0;
	if (due->work->kind == WORK_KERNEL && due->work->launch.id == KERNEL_HOLD)
		context->holds--;
	work_done(due->work);
	due->work->is_applied = true;
	free(due->gap);
}

void work_collect(void)
{
	static struct due due[COLLECT_MAX]; /* under the lock */
	uint32_t count;

	do {
		struct sched *sched;
		struct sched_op op;

		count = 0;
		world_lock(driver.world);
		sched = world_sched(driver.world);

		for (uint32_t i = 0; i < DRIVER_CONTEXT_MAX; i++) {
			struct cu_context *context = &driver.context[i];

			if (!context->used)
				continue;

			while (context->work[sched->context[context->sched].first % SCHED_RING]
				   .is_applied &&
			       sched_collect(sched, context->sched, &op))
				;

			look_at_holds(sched, context);
			count += find_due(sched, context, due + count, COLLECT_MAX - count);
		}

		world_end(driver.world);
		if (count > 1)
			qsort(due, count, sizeof(*due), due_compare);

		for (uint32_t i = 0; i < count; i++)
			apply_due(&due[i]);
	} while (count > 0);
	look_around();
}

/* --- queueing --------------------------------------------------------------------------------- */

struct cu_stream *work_stream(struct cu_context *context, struct cu_stream *handle)
{
	if ((uintptr_t)handle <= 2)
		return &context->standard;
	for (struct cu_stream *stream = context->streams; stream; stream = stream->next) {
		if (stream == handle)
			return stream;
	}
	return NULL;
}

static int graph_add(struct cu_graph *graph, struct work *work, uint32_t engine, uint64_t cost_ns)
{
	if (graph->count == graph->room) {
		uint32_t room = graph->room ? graph->room * 2 : 16;
		struct cu_node *grown = room <= DRIVER_NODE_MAX * 2
					    ? realloc(graph->node, room * sizeof(*grown))
					    : NULL;

		if (!grown) {
			work_done(work);
			return CU_OUT_OF_MEMORY;
		}

		graph->node = grown;
		graph->room = room;
	}

	graph->node[graph->count++] = (struct cu_node){*work, cost_ns, engine};
	graph->cost_ns += cost_ns + (graph->count > 1 ? COST_GRAPH_NODE_NS : 0);
	return CU_OK;
}

static uint32_t stream_flags(const struct cu_stream *stream)
{
	return stream->is_default ? SCHED_BARRIER : stream->is_blocking ? SCHED_BLOCKING : 0;
}

int work_queue(struct cu_stream *stream, struct work *work, uint32_t engine, uint64_t cost_ns,
	       uint32_t flags, uint64_t *out_number)
{
	struct cu_context *context = stream->context;
	struct sched *sched = world_sched(driver.world);
	uint64_t number;

	if (out_number)
		*out_number = 0;
	if (stream->capture)
		return graph_add(stream->capture, work, engine, cost_ns);

	for (;;) {
		struct sched_context *queue = &sched->context[context->sched];

		world_lock(driver.world);
		struct sched_request request = {
		    .cost_ns = cost_ns,
		    .ready_ns = world_now(driver.world),
		    .before = stream->last,
		    .after = stream->after,
		    .after_number = stream->after_number,
		    .flags = flags | stream_flags(stream),
		    .engine = engine,
		};
		number = sched_submit(sched, context->sched, &request);
		if (number) {
			work->is_applied = false;
			context->work[number % SCHED_RING] = *work;
			world_spend(driver.world, COST_LAUNCH_NS);
		}

		uint64_t first = queue->first;

		world_end(driver.world);
		if (number)
			break;

		int rc = driver_wait(context, &(struct world_wait){.kind = WORLD_WAIT_ROOM,
								   .context = context->sched,
								   .number = first + 1});

		if (rc != CU_OK) {
			work_done(work);
			return rc;
		}
	}

	stream->last = number;
	stream->after_number = 0;
	context->holds += work->kind == WORK_KERNEL && work->launch.id == KERNEL_HOLD;

	if (out_number)
		*out_number = number;

	return CU_OK;
}

int work_wait(struct cu_context *context, uint64_t number)
{
	if (number == 0)
		return context->error;
	return driver_wait(context, &(struct world_wait){.kind = WORLD_WAIT_OP,
							 .context = context->sched,
							 .number = number});
}

int work_wait_all(struct cu_context *context)
{
	const struct sched *sched = world_sched(driver.world);
	uint64_t last;

	world_lock(driver.world);
	last = sched->context[context->sched].next - 1;
	world_end(driver.world);
	if (last == 0)
		return context->error;
	return driver_wait(context, &(struct world_wait){.kind = WORLD_WAIT_ALL,
							 .context = context->sched,
							 .number = last});
}
