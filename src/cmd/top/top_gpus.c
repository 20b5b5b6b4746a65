/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/top/top.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "hardware/snapshot.h"

/* In the order in which they stand in a line. */
enum gpus_column {
	COLUMN_GPU,
	COLUMN_SLOTS,
	COLUMN_UTIL,
	COLUMN_MEMORY,
	COLUMN_POWER,
	COLUMN_TEMP,
	COLUMN_NAME,
	COLUMN_COUNT
};

/* The widths between which a column is drawn; one with rank 0 is always there, the others go when
 * there is no room, the highest rank first. */
struct gpus_layout {
	const char *title;
	size_t least, most;
	unsigned rank;
};

static const struct gpus_layout layout[COLUMN_COUNT] = {
    [COLUMN_GPU] = {"GPU", 3, 24, 0},	   [COLUMN_SLOTS] = {"SLOTS", 5, 9, 4},
    [COLUMN_UTIL] = {"UTIL", 8, 22, 0},	   [COLUMN_MEMORY] = {"MEMORY", 10, 22, 1},
    [COLUMN_POWER] = {"POWER", 10, 16, 3}, [COLUMN_TEMP] = {"TEMP", 6, 12, 2},
    [COLUMN_NAME] = {"NAME", 8, 32, 5},
};

static size_t larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

static size_t gpus_total(const size_t *width)
{
	size_t total = 0;
	for (size_t i = 0; i < COLUMN_COUNT; i++)
		total += width[i] ? width[i] + (total > 0) : 0;
	return total;
}

/* How wide each column is; 0: it is left out. */
static void gpus_measure(const Sluice__V1__Machine *machine, size_t available, size_t *width)
{
	size_t most[COLUMN_COUNT];
	bool slots = false;
	size_t label = layout[COLUMN_GPU].least, name = layout[COLUMN_NAME].least;

	for (size_t i = 0; i < machine->n_gpus; i++) {
		const Sluice__V1__Gpu *gpu = machine->gpus[i];
		label = larger(label, top_width(gpu->label));
		name = larger(name, top_width(gpu->name));
		slots |= gpu->slot_count > 1;
	}

	for (size_t i = 0; i < COLUMN_COUNT; i++) {
		width[i] = layout[i].least;
		most[i] = layout[i].most;
	}

	width[COLUMN_GPU] = most[COLUMN_GPU] =
	    label < layout[COLUMN_GPU].most ? label : layout[COLUMN_GPU].most;
	width[COLUMN_SLOTS] = slots ? layout[COLUMN_SLOTS].least : 0;
	most[COLUMN_SLOTS] = width[COLUMN_SLOTS];
	most[COLUMN_NAME] = name < layout[COLUMN_NAME].most ? name : layout[COLUMN_NAME].most;

	for (unsigned rank = COLUMN_COUNT; rank > 0 && gpus_total(width) > available; rank--)
		for (size_t i = 0; i < COLUMN_COUNT; i++)
			if (layout[i].rank == rank)
				width[i] = 0;

	/* The rest goes to the names, then to the bars in turn. */
	for (bool grows = true; grows;) {
		grows = false;
		for (size_t i = COLUMN_COUNT; i-- > 0 && gpus_total(width) < available;) {
			bool name_first = i == COLUMN_NAME || width[COLUMN_NAME] == 0 ||
					  width[COLUMN_NAME] >= most[COLUMN_NAME];
			if (width[i] > 0 && width[i] < most[i] && name_first) {
				width[i]++;
				grows = true;
			}
		}
	}
}

static enum top_style gpus_heat(int percent, int warm, int hot)
{
	return percent >= hot ? TOP_RED : percent >= warm ? TOP_YELLOW : TOP_GREEN;
}

static int gpus_percent(uint64_t value, uint64_t whole)
{
	if (whole == 0)
		return -1;
	double percent = 100.0 * (double)value / (double)whole;
	return percent > 100 ? 100 : (int)(percent + 0.5);
}

/* Rounded; any number that an agent can send. */
static int64_t gpus_watt(int64_t milliwatt)
{
	return milliwatt / 1000 + (milliwatt % 1000 >= 500);
}

static void gpus_bar(struct top_page *page, enum gpus_column column, const Sluice__V1__Gpu *gpu,
		     size_t width)
{
	char text[48] = "-";
	int percent = -1;
	enum top_style style = TOP_GREEN;
	double used = (double)gpu->memory_used_bytes / (double)(1 << 30);
	double total = (double)gpu->memory_total_bytes / (double)(1 << 30);

	switch (column) {
	case COLUMN_UTIL:
		percent = gpu->utilization_percent;
		if (percent >= 0)
			(void)snprintf(text, sizeof(text), "%d%%", percent);
		break;
	case COLUMN_MEMORY:
		percent = gpus_percent(gpu->memory_used_bytes, gpu->memory_total_bytes);
		style = gpus_heat(percent, 80, 95);

		if (percent >= 0)
			(void)snprintf(text, sizeof(text),
				       width < 17 ? "%.0f/%.0fG" : "%.1f/%.1f GiB", used, total);
		break;
	case COLUMN_POWER:
		if (gpu->power_milliwatt < 0)
			break;

		if (gpu->power_limit_milliwatt > 0) {
			percent = gpus_percent((uint64_t)gpu->power_milliwatt,
					       (uint64_t)gpu->power_limit_milliwatt);
			style = gpus_heat(percent, 90, 100);
			(void)snprintf(text, sizeof(text), "%" PRId64 "/%" PRId64 "W",
				       gpus_watt(gpu->power_milliwatt),
				       gpus_watt(gpu->power_limit_milliwatt));
		} else {
			(void)snprintf(text, sizeof(text), "%" PRId64 "W",
				       gpus_watt(gpu->power_milliwatt));
		}
		break;
	default:
		percent = gpu->temperature_celsius;
		style = gpus_heat(percent, 75, 85);

		if (percent >= 0)
			(void)snprintf(text, sizeof(text), "%dC", percent);
		break;
	}
	top_page_bar(page, style, width, percent, text);
}

/* A table of formats would hide which of the columns are bars. */
static void gpus_line(struct top_page *page, const Sluice__V1__Gpu *gpu, const size_t *width)
{
	bool ok = strcmp(gpu->state, "ok") == 0 || gpu->state[0] == '\0';
	top_page_cell(page, ok ? TOP_BOLD : TOP_RED, gpu->label, width[COLUMN_GPU], false);

	if (!ok) {
		top_page_addf(page, TOP_RED, " %s", gpu->state);
		if (gpu->state_reason[0] != '\0')
			top_page_addf(page, TOP_RED, ": %s", gpu->state_reason);
		top_page_end(page);
		return;
	}

	for (size_t i = COLUMN_SLOTS; i < COLUMN_COUNT; i++) {
		if (width[i] == 0)
			continue;

		top_page_add(page, TOP_PLAIN, " ");
		if (i == COLUMN_SLOTS) {
			char slots[32] = "";

			if (gpu->slot_count > 1)
				(void)snprintf(slots, sizeof(slots), "%u/%u", gpu->slots_used,
					       gpu->slot_count);

			top_page_cell(page, TOP_PLAIN, slots, width[i], true);
		} else if (i == COLUMN_NAME) {
			top_page_cell(page, TOP_DIM, gpu->name, width[i], false);
		} else {
			gpus_bar(page, (enum gpus_column)i, gpu, width[i]);
		}
	}

	top_page_end(page);
}

/* What is wrong with it, and what slows it down; nothing when all is well. */
static void gpus_health(struct top_page *page, const Sluice__V1__Gpu *gpu)
{
	/* Idle, or clocks that somebody has set, slow nothing down. */
	static const uint64_t quiet = 0x1 | 0x2;
	bool bad = strcmp(gpu->health, "unhealthy") == 0;
	if (bad || strcmp(gpu->health, "degraded") == 0) {
		top_page_addf(page, bad ? TOP_RED : TOP_YELLOW, "  %s: %s", gpu->health,
			      gpu->health_reason);
		if (gpu->health_advice[0] != '\0')
			top_page_addf(page, TOP_PLAIN, "; %s", gpu->health_advice);
		top_page_end(page);
	}

	if ((gpu->throttle_reasons & ~quiet) == 0)
		return;

	top_page_add(page, TOP_YELLOW, "  slowed down:");

	for (uint32_t i = 0; snapshot_throttle_to_string(i); i++)
		if ((gpu->throttle_reasons & ~quiet) >> i & 1)
			top_page_addf(page, TOP_YELLOW, " %s", snapshot_throttle_to_string(i));

	top_page_end(page);
}

/* What an administrator has said of it. */
static void gpus_claim(struct top_page *page, const Sluice__V1__Gpu *gpu)
{
	if (gpu->claim[0] == '\0')
		return;
	top_page_addf(page, TOP_YELLOW, "  %s", gpu->claim);
	top_page_end(page);
}

static const Sluice__V1__Job *gpus_job(const Sluice__V1__Machine *machine, uint64_t id)
{
	for (size_t i = 0; id != 0 && i < machine->n_jobs; i++)
		if (machine->jobs[i]->id == id)
			return machine->jobs[i];
	return NULL;
}

static void gpus_use(struct top_page *page, const struct top_scene *scene,
		     const Sluice__V1__GpuUse *use)
{
	const Sluice__V1__Job *job = gpus_job(scene->machine, use->job);
	const char *user = job ? job->user : NULL;
	char number[16];

	if (!user || user[0] == '\0')
		user = use->user;
	if (user[0] == '\0')
		user = scene->user ? scene->user(use->uid, scene->context) : NULL;
	if (!user) {
		(void)snprintf(number, sizeof(number), "uid %u", use->uid);
		user = number;
	}

	top_page_add(page, TOP_PLAIN, "  ");
	if (use->job != 0)
		top_page_addf(page, TOP_PLAIN, "job %" PRIu64 " %s (%s), pid %u", use->job,
			      use->name, user, use->pid);
	else
		top_page_addf(page, use->holder[0] ? TOP_PLAIN : TOP_YELLOW, "pid %u %s (%s)",
			      use->pid, use->name, user);

	if (use->memory_bytes > 0 && use->memory_bytes < UINT64_MAX)
		top_page_addf(page, TOP_PLAIN, ", %" PRIu64 " MiB", use->memory_bytes >> 20);
	if (use->holder[0] != '\0')
		top_page_addf(page, TOP_PLAIN, ", %s", use->holder);
	if (use->is_outside)
		top_page_add(page, TOP_YELLOW, ", outside the queue");
	else if (use->job == 0 && use->holder[0] == '\0')
		top_page_add(page, TOP_YELLOW, ", no job of sluice");

	top_page_end(page);
}

static bool gpus_is_seen(const Sluice__V1__Machine *machine, const char *uuid, uint64_t job)
{
	for (size_t i = 0; i < machine->n_uses; i++)
		if (machine->uses[i]->job == job && strcmp(machine->uses[i]->uuid, uuid) == 0)
			return true;
	return false;
}

static bool gpus_has(const Sluice__V1__Job *job, const char *uuid)
{
	bool runs = job->state == SLUICE__V1__JOB_STATE__STARTING ||
		    job->state == SLUICE__V1__JOB_STATE__RUNNING ||
		    job->state == SLUICE__V1__JOB_STATE__STOPPING;
	for (size_t i = 0; runs && job->attempt && i < job->attempt->n_grants; i++)
		if (strcmp(job->attempt->grants[i]->uuid, uuid) == 0)
			return true;
	return false;
}

/* Who is on it: processes, and jobs that have it and have no process there. */
static void gpus_uses(struct top_page *page, const struct top_scene *scene,
		      const Sluice__V1__Gpu *gpu)
{
	const Sluice__V1__Machine *machine = scene->machine;
	size_t count = 0;
	for (size_t i = 0; i < machine->n_uses; i++) {
		if (strcmp(machine->uses[i]->uuid, gpu->uuid) != 0)
			continue;
		if (count++ < TOP_USES_MAX)
			gpus_use(page, scene, machine->uses[i]);
	}

	if (count > TOP_USES_MAX) {
		top_page_addf(page, TOP_PLAIN, "  and %zu more processes", count - TOP_USES_MAX);
		top_page_end(page);
	}

	for (size_t i = 0; i < machine->n_jobs; i++) {
		const Sluice__V1__Job *job = machine->jobs[i];
		if (!gpus_has(job, gpu->uuid) || gpus_is_seen(machine, gpu->uuid, job->id))
			continue;

		top_page_addf(page, TOP_PLAIN, "  job %" PRIu64 " %s (%s), ", job->id, job->name,
			      job->user);
		top_page_add(page, TOP_DIM, "no process on it");
		top_page_end(page);
	}
}

void top_gpus(struct top_page *page, const struct top_scene *scene)
{
	const Sluice__V1__Machine *machine = scene->machine;
	size_t width[COLUMN_COUNT];

	if (machine->n_gpus == 0)
		return;

	gpus_measure(machine, page->width ? page->width : TOP_WIDTH_FREE, width);

	for (size_t i = 0; i < COLUMN_COUNT; i++) {
		if (width[i] == 0)
			continue;
		if (i > 0)
			top_page_add(page, TOP_PLAIN, " ");
		top_page_cell(page, TOP_DIM, layout[i].title, width[i], i == COLUMN_SLOTS);
	}

	top_page_end(page);

	for (size_t i = 0; i < machine->n_gpus; i++) {
		gpus_line(page, machine->gpus[i], width);
		gpus_health(page, machine->gpus[i]);
		gpus_claim(page, machine->gpus[i]);
		gpus_uses(page, scene, machine->gpus[i]);
	}
}
