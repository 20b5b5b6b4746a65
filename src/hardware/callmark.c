/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/callmark.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

void call_mark_begin(struct call_mark *mark, uint32_t gpu, const char *bus, const char *function,
		     uint32_t allowance_ms)
{
	mark->gpu = gpu;
	mark->allowance_ms = allowance_ms;
	(void)snprintf(mark->bus, sizeof(mark->bus), "%s", bus);
	(void)snprintf(mark->function, sizeof(mark->function), "%s", function);
	atomic_fetch_add_explicit(&mark->count, 1, memory_order_relaxed);
	atomic_store_explicit(&mark->begin_ns, clock_real_ns(), memory_order_release);
}

void call_mark_end(struct call_mark *mark)
{
	atomic_store_explicit(&mark->begin_ns, 0, memory_order_release);
}

uint64_t call_mark_due(const struct call_mark *mark, uint64_t limit_ns)
{
	uint64_t begin = atomic_load_explicit(&mark->begin_ns, memory_order_acquire);
	uint64_t due;
	if (begin == 0 || __builtin_add_overflow(begin, limit_ns, &due) ||
	    __builtin_add_overflow(due, (uint64_t)mark->allowance_ms * 1000000, &due))
		return UINT64_MAX;
	return due;
}

bool call_mark_is_stuck(const struct call_mark *mark, uint64_t now_ns, uint64_t limit_ns,
			struct call_stuck *out)
{
	uint64_t begin = atomic_load_explicit(&mark->begin_ns, memory_order_acquire);

	if (call_mark_due(mark, limit_ns) > now_ns)
		return false;

	struct call_stuck stuck = {.gpu = mark->gpu, .elapsed_ns = now_ns - begin};
	memcpy(stuck.bus, mark->bus, sizeof(stuck.bus) - 1);
	memcpy(stuck.function, mark->function, sizeof(stuck.function) - 1);

	/* The call came back while we looked: then the texts may be of two calls. */
	if (atomic_load_explicit(&mark->begin_ns, memory_order_acquire) != begin || begin == 0)
		return false;

	*out = stuck;
	return true;
}
