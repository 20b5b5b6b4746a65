/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/cpus.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/parse.h"

void cpus_order(struct cpu *cpus, uint32_t count)
{
	bool is_first[CPUS_MAX];
	struct cpu ordered[CPUS_MAX];
	uint32_t placed = 0;

	for (uint32_t i = 0; i < count; i++) {
		is_first[i] = true;
		for (uint32_t j = 0; j < i && is_first[i]; j++)
			is_first[i] = cpus[j].core != cpus[i].core;
		if (is_first[i])
			ordered[placed++] = cpus[i];
	}

	for (uint32_t i = 0; i < count; i++)
		if (!is_first[i])
			ordered[placed++] = cpus[i];

	memcpy(cpus, ordered, count * sizeof(*cpus));
}

/* The first number of "0,4" or "0-1"; a processor of which nothing is known is a core. */
static uint32_t core_of(uint32_t number)
{
	char path[FILE_PATH_MAX];
	_cleanup_buf_ struct buf text;
	uint64_t core = number;

	buf_init(&text, 4096);
	if (file_path(path, NULL, "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list",
		      number) < 0 ||
	    file_read(path, &text, NULL) < 0)
		return number;

	size_t digits = 0;
	while (digits < text.length && text.data[digits] >= '0' && text.data[digits] <= '9')
		digits++;

	(void)parse_u64_span(text.data, digits, 0, CPUS_MAX - 1, &core); /* or itself */
	return (uint32_t)core;
}

static int allowed_set(cpu_set_t **out)
{
	cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
	if (!set)
		return -ENOMEM;

	if (sched_getaffinity(0, CPU_ALLOC_SIZE(CPUS_MAX), set) < 0) {
		int rc = -errno;
		CPU_FREE(set);
		return rc;
	}

	*out = set;
	return 0;
}

int cpus_choose(uint32_t count, int32_t *out)
{
	cpu_set_t *set = NULL;
	int rc = allowed_set(&set);
	if (rc < 0)
		return rc;

	_cleanup_free_ struct cpu *cpus = calloc(CPUS_MAX, sizeof(*cpus));
	uint32_t found = 0;
	for (uint32_t i = 0; i < CPUS_MAX && cpus; i++)
		if (CPU_ISSET_S(i, CPU_ALLOC_SIZE(CPUS_MAX), set))
			cpus[found++] = (struct cpu){.number = i, .core = core_of(i)};

	CPU_FREE(set);
	if (!cpus)
		return -ENOMEM;
	if (found < count)
		return -ENOSPC;

	cpus_order(cpus, found);

	for (uint32_t i = 0; i < count; i++)
		out[i] = (int32_t)cpus[i].number;

	return 0;
}

int cpus_pin(int32_t cpu)
{
	cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
	if (!set)
		return -ENOMEM;

	CPU_ZERO_S(CPU_ALLOC_SIZE(CPUS_MAX), set);
	CPU_SET_S(cpu, CPU_ALLOC_SIZE(CPUS_MAX), set);

	int rc = sched_setaffinity(0, CPU_ALLOC_SIZE(CPUS_MAX), set) < 0 ? -errno : 0;
	CPU_FREE(set);
	return rc;
}

int32_t cpus_pinned(void)
{
	cpu_set_t *set = NULL;
	int32_t found = -1;

	if (allowed_set(&set) < 0)
		return -1;
	if (CPU_COUNT_S(CPU_ALLOC_SIZE(CPUS_MAX), set) == 1)
		for (int32_t i = 0; i < CPUS_MAX; i++)
			if (CPU_ISSET_S(i, CPU_ALLOC_SIZE(CPUS_MAX), set))
				found = i;

	CPU_FREE(set);
	return found;
}
