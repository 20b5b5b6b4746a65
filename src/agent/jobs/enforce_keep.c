/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/jobs/enforce_keep.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/jobs/enforce.h"
#include "agent/filewatch.h"
#include "base/err.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/storage.h"
#include "doors/queue/schedule/schedule.h"
#include "hardware/gpu.h"

#define ENFORCE_KEEP_AGAIN_NS UINT64_C(30000000000) /* after a failure */

struct enforce_keep {
	struct enforce_keep_options options;
	struct enforce_wish wish;
	bool is_set; /* somebody has said what is wanted */
	bool is_due, is_running, is_stopping;
	struct filewatch *watch;  /* owned; NULL: there is none */
	struct loop_timer *again; /* owned */

	/* Of the run on the storage thread. */
	struct storage_job job;
	struct enforce_wish running;
	struct enforce_report report;
	struct filewatch_plan plan;
	struct err err;

	char problem[ENFORCE_KEEP_PROBLEM_MAX];
};

/* On the storage thread. Watched before it is looked at, so that nothing happens in between. */
static int keep_work(void *context)
{
	struct enforce_keep *keep = context;
	char path[FILE_PATH_MAX];

	keep->plan = (struct filewatch_plan){.count = 0};
	keep->err = (struct err){.code = 0};
	if (keep->watch && keep->running.is_on) {
		if (file_path(path, NULL, "%s/dev", keep->running.root) == 0)
			filewatch_plan_modes(keep->watch, path, "nvidia", &keep->plan);
		if (file_path(path, NULL, "%s/dev/nvidia-caps", keep->running.root) == 0)
			filewatch_plan_modes(keep->watch, path, "nvidia", &keep->plan);
	}

	return enforce_run(&keep->running, &keep->report, &keep->err);
}

static void keep_start(struct enforce_keep *keep);

static void keep_on_done(void *context, int rc)
{
	struct enforce_keep *keep = context;
	const struct enforce_report *report = &keep->report;
	char before[ENFORCE_KEEP_PROBLEM_MAX];

	keep->is_running = false;
	if (keep->is_stopping)
		return;
	if (keep->watch)
		filewatch_set(keep->watch, &keep->plan);
	memcpy(before, keep->problem, sizeof(before));
	keep->problem[0] = '\0';

	if (rc < 0) {
		(void)snprintf(keep->problem, sizeof(keep->problem), "sluice.jobs.enforce: %.160s",
			       keep->err.text);
		loop_timer_start(keep->again, ENFORCE_KEEP_AGAIN_NS);
	}

	if (keep->problem[0] && strcmp(before, keep->problem) != 0)
		log_write(keep->options.log, LOG_LEVEL_ERROR, NULL, "%s", keep->problem);
	if (report->changed > 0)
		log_write(keep->options.log, LOG_LEVEL_NOTICE, NULL,
			  "%u of %u GPU nodes closed to all but jobs", report->changed,
			  report->closed);

	if (report->restored > 0)
		log_write(keep->options.log, LOG_LEVEL_NOTICE, NULL,
			  "%u GPU nodes are open again as they were", report->restored);

	keep_start(keep);
}

static void keep_start(struct enforce_keep *keep)
{
	if (!keep->is_due || keep->is_running || keep->is_stopping)
		return;

	keep->running = keep->wish;
	keep->job = (struct storage_job){.work = keep_work, .done = keep_on_done, .context = keep};
	keep->is_running = storage_submit(keep->options.storage, &keep->job, NULL) == 0;
	if (keep->is_running)
		keep->is_due = false;
	else
		loop_timer_start(keep->again, ENFORCE_KEEP_AGAIN_NS);
}

static void keep_look(void *context)
{
	struct enforce_keep *keep = context;
	keep->is_due = keep->is_set;
	keep_start(keep);
}

/* Whether the queue has this GPU, or a MIG device of it. */
static bool keep_has(const struct schedule_machine *machine, uint32_t index)
{
	const struct inventory *inventory = machine->inventory;
	if (schedule_machine_find(machine, inventory->gpus[index].uuid))
		return true;

	for (uint32_t i = 0; i < inventory->mig_count; i++) {
		if (inventory->migs[i].parent == index &&
		    schedule_machine_find(machine, inventory->migs[i].uuid))
			return true;
	}

	return false;
}

static void keep_gpus(struct enforce_wish *wish, const struct schedule_machine *machine)
{
	const struct inventory *inventory = machine->inventory;
	bool all = true;

	wish->minor_count = 0;
	memset(wish->minors, 0, sizeof(wish->minors));

	for (uint32_t i = 0; i < inventory->gpu_count && i < GPU_MAX; i++) {
		bool is_ours = keep_has(machine, i);
		/* One that is lost is nobody's, and comes back as what it was. */
		if (is_ours && inventory->gpus[i].minor != GPU_U32_UNKNOWN)
			wish->minors[wish->minor_count++] = inventory->gpus[i].minor;
		all = all && is_ours;
	}

	wish->all = all && wish->minor_count > 0;
}

void enforce_keep_set(struct enforce_keep *keep, bool is_on, gid_t gid,
		      const struct schedule_machine *machine)
{
	if (!keep || !keep->options.state_dir)
		return;

	bool knows = machine && machine->inventory;
	if (is_on && !knows)
		return;

	struct enforce_wish wish = keep->wish;
	wish.is_on = is_on;
	wish.gid = gid;

	if (knows)
		keep_gpus(&wish, machine);

	bool is_same = keep->is_set && keep->wish.is_on == is_on && keep->wish.gid == gid &&
		       keep->wish.all == wish.all && keep->wish.minor_count == wish.minor_count &&
		       memcmp(keep->wish.minors, wish.minors, sizeof(wish.minors)) == 0;
	if (is_same)
		return;

	keep->wish = wish;
	keep->is_set = true;
	keep_look(keep);
}

const char *enforce_keep_problem(const struct enforce_keep *keep)
{
	return keep ? keep->problem : "";
}

int enforce_keep_new(const struct enforce_keep_options *options, struct enforce_keep **out,
		     struct err *err)
{
	struct enforce_keep *keep = calloc(1, sizeof(*keep));
	struct err ignored = {0};

	if (!keep)
		return err_set(err, -ENOMEM, "out of memory for the nodes of GPUs");

	keep->options = *options;
	int rc = file_path(keep->wish.root, err, "%s", options->root ? options->root : "");
	if (rc == 0 && options->state_dir)
		rc = file_path(keep->wish.memory, err, "%s/" ENFORCE_MEMORY_NAME,
			       options->state_dir);

	keep->again = rc == 0 ? loop_timer_new(options->loop, keep_look, keep, err) : NULL;
	if (!keep->again) {
		(void)enforce_keep_free(keep);
		return rc < 0 ? rc : -ENOMEM;
	}

	if (filewatch_new(options->loop, keep_look, keep, &keep->watch, &ignored) < 0)
		log_write(options->log, LOG_LEVEL_WARNING, NULL,
			  "GPU nodes that are opened are not noticed at once: %s", ignored.text);

	*out = keep;
	return 0;
}

void enforce_keep_stop(struct enforce_keep *keep)
{
	if (!keep)
		return;
	keep->is_stopping = true;
	loop_timer_stop(keep->again);
}

struct enforce_keep *enforce_keep_free(struct enforce_keep *keep)
{
	if (!keep)
		return NULL;
	keep->watch = filewatch_free(keep->watch);
	keep->again = loop_timer_free(keep->again);
	free(keep);
	return NULL;
}
