/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/usage/attribution.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/usage/attribution_internal.h"
#include "agent/doors/door_kubelet.h"
#include "agent/usage/holdings.h"
#include "agent/usage/proctable.h"
#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "base/loop.h"
#include "doors/kubelet/podlog.h"

enum { ATTRIBUTION_ASKS_MAX = 3 }; /* times that one process makes us ask the kubelet */
#define ATTRIBUTION_ASK_NS   UINT64_C(1000000000)  /* between questions to the kubelet */
#define ATTRIBUTION_SLICE_NS UINT64_C(10000000)	   /* between slices of processes */
#define ATTRIBUTION_NAMES_NS UINT64_C(60000000000) /* what inotify has not told */

/* --- names of containers -----------------------------------------------------------------------
 */

static int attribution_work(void *context)
{
	struct attribution *attribution = context;
	const char *root = attribution->options.root ? attribution->options.root : "";
	char path[FILE_PATH_MAX];

	attribution->plan = (struct filewatch_plan){0};
	/* First watched, then read: what comes in between is told. */
	if (attribution->watch && file_path(path, NULL, "%s%s", root, PODLOG_CONTAINERS) == 0)
		filewatch_plan_directory(attribution->watch, path, &attribution->plan);
	if (attribution->watch && file_path(path, NULL, "%s%s", root, PODLOG_PODS) == 0)
		filewatch_plan_directory(attribution->watch, path, &attribution->plan);

	return podlog_read(root, &attribution->read, NULL);
}

static void attribution_read_names(struct attribution *attribution);

static void attribution_on_names(void *context, int rc)
{
	struct attribution *attribution = context;
	attribution->is_reading = false;

	if (rc == 0) {
		(void)podlog_free(attribution->names);
		attribution->names = attribution->read;
	}

	attribution->read = NULL;
	if (attribution->is_stopping)
		return;
	if (attribution->watch)
		filewatch_set(attribution->watch, &attribution->plan);
	if (attribution->read_again)
		attribution_read_names(attribution);
}

static void attribution_read_names(struct attribution *attribution)
{
	const struct attribution_options *options = &attribution->options;

	attribution->read_again = attribution->is_reading;
	if (attribution->is_reading || attribution->is_stopping || !options->storage)
		return;

	attribution->names_ns = loop_now_ns(options->loop);
	attribution->job = (struct storage_job){
	    .work = attribution_work, .done = attribution_on_names, .context = attribution};
	attribution->is_reading = storage_submit(options->storage, &attribution->job, NULL) == 0;
}

static void attribution_on_change(void *context)
{
	attribution_read_names(context);
}

static void attribution_on_more(void *context)
{
	struct attribution *attribution = context;
	if (proctable_read(attribution->processes, PROCTABLE_SLICE) > 0)
		loop_timer_start(attribution->more, ATTRIBUTION_SLICE_NS);
}

/* --- begin and end -----------------------------------------------------------------------------
 */

int attribution_new(const struct attribution_options *options, struct attribution **out,
		    struct err *err)
{
	struct attribution *attribution = calloc(1, sizeof(*attribution));
	if (!attribution)
		return err_set(err, -ENOMEM, "no memory for who uses the GPUs");

	attribution->options = *options;
	int rc = proctable_new(options->proc, &attribution->processes, err);
	if (rc == 0)
		rc = holdings_new(&attribution->holdings, err);

	if (rc == 0) {
		attribution->more =
		    loop_timer_new(options->loop, attribution_on_more, attribution, err);
		rc = attribution->more ? 0 : -ENOMEM;
	}

	if (rc < 0) {
		(void)attribution_free(attribution);
		return rc;
	}

	struct err why = {0};
	if (filewatch_new(options->loop, attribution_on_change, attribution, &attribution->watch,
			  &why) < 0)
		log_write(options->log, LOG_LEVEL_WARNING, NULL,
			  "the names of containers are looked up only each minute: %s", why.text);

	attribution_read_names(attribution);
	*out = attribution;
	return 0;
}

void attribution_stop(struct attribution *attribution)
{
	if (!attribution)
		return;
	attribution->is_stopping = true;
	loop_timer_stop(attribution->more);
}

struct attribution *attribution_free(struct attribution *attribution)
{
	if (!attribution)
		return NULL;

	attribution->more = loop_timer_free(attribution->more);
	attribution->watch = filewatch_free(attribution->watch);
	attribution->names = podlog_free(attribution->names);
	attribution->processes = proctable_free(attribution->processes);
	attribution->holdings = holdings_free(attribution->holdings);
	free(attribution);

	return NULL;
}

/* --- processes ---------------------------------------------------------------------------------
 */

static void process_fill(const struct snapshot_process *process, const struct place *place,
			 const struct proctable_entry *entry, struct view_process *out)
{
	*out = (struct view_process){.gpu = place->gpu,
				     .mig = place->mig,
				     .pid = process->pid,
				     .uid = SNAPSHOT_U32_ABSENT,
				     .type = process->type,
				     .util_sm = process->util_sm,
				     .holder = SNAPSHOT_U32_ABSENT,
				     .memory_bytes = process->memory_bytes};
	if (!entry || entry->state != PROCTABLE_READ)
		return;

	out->uid = entry->uid;
	(void)snprintf(out->name, sizeof(out->name), "%s", entry->name);
}

/* Somebody's container that is new to us: perhaps the kubelet has just begun it. */
static bool entry_is_news(const struct proctable_entry *entry, const struct holding *holding)
{
	const struct belonging *belonging = &entry->belonging;
	if (!belonging->pod[0] || (holding && holding->view.allocated))
		return false;
	/* Once more when its names became known: the kubelet has gone on meanwhile. */
	return entry->asks < ATTRIBUTION_ASKS_MAX * (holding && holding->view.pod[0] ? 2 : 1);
}

static void attribution_ask(struct attribution *attribution, struct proctable_entry *entry)
{
	uint64_t now_ns = loop_now_ns(attribution->options.loop);
	struct door_kubelet *door = attribution->options.kubelet;

	if (attribution->asked_ns != now_ns) { /* not for another process of the same sample */
		if (attribution->asked_ns > 0 &&
		    now_ns - attribution->asked_ns < ATTRIBUTION_ASK_NS)
			return;

		attribution->asked_ns = now_ns;
		if (door)
			door_kubelet_ask(door);
		attribution_read_names(attribution);
	}

	entry->asks++;
}

static void attribution_add_process(struct attribution *attribution, struct view *view, uint32_t g,
				    uint32_t p, struct gathered *gathered)
{
	const struct snapshot_process *process = &view->snapshot.gpu[g].process[p];
	struct proctable_entry *entry = proctable_find(attribution->processes, process->pid);
	struct holding *holding = NULL;
	struct place place;

	attribution_place(&view->snapshot, g, process->gi, process->ci, &place);
	if (entry && entry->state == PROCTABLE_READ)
		holding = attribution_holder(attribution, view, entry, &place, &gathered->looks);
	gathered->holding[p] = holding;

	if (holding)
		holdings_add_process(holding, process->memory_bytes);
	if (entry && entry->state == PROCTABLE_READ && entry_is_news(entry, holding))
		attribution_ask(attribution, entry);

	/* Each process once, whatever it has on however many GPUs. */
	if (entry && entry->state != PROCTABLE_UNREAD && !entry->is_counted &&
	    !(holding && holding->view.allocated)) {
		entry->is_counted = true;
		view->node.unattributed++;
	}

	if (view->process_count == VIEW_PROCESS_MAX)
		return;

	attribution->holding[view->process_count] = holding;
	process_fill(process, &place, entry, &view->process[view->process_count++]);
}

/* Where the driver lists more processes than a sample has, nobody's sum is known. */
static void attribution_hide_memory(const struct attribution *attribution, uint32_t gpu)
{
	struct holding *at;
	for (size_t i = 0; (at = holdings_at(attribution->holdings, i)); i++)
		if (at->is_here && at->view.gpu == gpu)
			at->memory_is_unknown = true;
}

/* --- a sample ----------------------------------------------------------------------------------
 */

static void attribution_want(struct attribution *attribution, const struct snapshot *snapshot)
{
	proctable_begin(attribution->processes);

	for (uint32_t g = 0; g < snapshot->gpu_count; g++)
		for (uint32_t p = 0; p < snapshot->gpu[g].process_count; p++) {
			struct proctable_entry *entry =
			    proctable_want(attribution->processes, snapshot->gpu[g].process[p].pid);
			if (entry)
				entry->is_counted = false;
		}

	proctable_end(attribution->processes);
	if (proctable_read(attribution->processes, PROCTABLE_SLICE) > 0 &&
	    !loop_timer_is_running(attribution->more) && !attribution->is_stopping)
		loop_timer_start(attribution->more, ATTRIBUTION_SLICE_NS);
}

void attribution_fill(struct attribution *attribution, uint32_t max_holders, struct view *view)
{
	const struct snapshot *snapshot = &view->snapshot;
	struct gathered gathered = {.looks = PROCTABLE_SLICE};
	bool is_new = snapshot->taken_ns > attribution->taken_ns;
	uint64_t now_ns = loop_now_ns(attribution->options.loop);
	if (now_ns - attribution->names_ns >= ATTRIBUTION_NAMES_NS)
		attribution_read_names(attribution);
	view->holder_count = view->process_count = 0;
	view->node.unattributed = 0;
	attribution_want(attribution, snapshot);
	holdings_begin(attribution->holdings, max_holders);
	attribution_add_jobs(attribution, view);
	attribution_add_pods(attribution, view);

	for (uint32_t g = 0; g < snapshot->gpu_count; g++) {
		for (uint32_t p = 0; p < snapshot->gpu[g].process_count; p++)
			attribution_add_process(attribution, view, g, p, &gathered);

		if (is_new)
			attribution_charge(attribution, view, g, &gathered);
		if (snapshot->gpu[g].process_total > snapshot->gpu[g].process_count)
			attribution_hide_memory(attribution, g);
	}

	if (is_new)
		attribution_remember(attribution, view);

	uint64_t lost = holdings_lost(attribution->holdings);
	if (lost > attribution->lost)
		attribution->lost_total += lost - attribution->lost;
	attribution->lost = lost;
	view->node.holders_lost = lost;
	view->node.holders_dropped = attribution->lost_total;
	holdings_end(attribution->holdings, now_ns);
	holdings_emit(attribution->holdings, view);

	for (uint32_t i = 0; i < view->process_count; i++)
		if (attribution->holding[i])
			view->process[i].holder = attribution->holding[i]->place;
}
