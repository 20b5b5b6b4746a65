/* SPDX-License-Identifier: Apache-2.0 */
/* sluice health: how each GPU is, why, and what to do. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "cmd/cmd.h"
#include "cmd/machine.h"
#include "cmd/options.h"
#include "cmd/table.h"
#include "hardware/callmark.h"
#include "hardware/health.h"

struct health_options {
	enum option_output output;
	uint64_t timeout_ns, since_ns;
};

static const struct option_row rows[] = {
    OPTION_OUTPUT(struct health_options, output),
    MACHINE_TIMEOUT_ROW(struct health_options),
    {.name = "since",
     .kind = OPTION_DURATION,
     .help = "count errors of the kernel log that are not older (default: all since boot)",
     OPTION_FIELD(struct health_options, since_ns)},
    {.name = NULL},
};

static const struct health_options defaults = {.timeout_ns = MACHINE_TIMEOUT_NS};

enum health_command_limits { LOG_MAX = 4096 };

/* The errors that the kernel log has; which GPU they belong to is known only afterwards. */
struct log {
	struct probe_event *events; /* owned */
	uint32_t count;
	char unreadable[PROBE_EVENT_TEXT_MAX];
};

struct report {
	struct health_track *tracks;	 /* owned; one per GPU */
	struct health_verdict *verdicts; /* owned; as above */
	uint32_t count;
	bool unhealthy;
};

static void keep_event(const struct probe_event *event, void *context)
{
	struct log *log = context;
	if (event->kind == PROBE_EVENT_NO_LOG)
		memcpy(log->unreadable, event->text, sizeof(log->unreadable));
	if (event->kind == PROBE_EVENT_XID && log->count < LOG_MAX)
		log->events[log->count++] = *event;
}

static void feed(struct health_track *track, const struct probe_event *event)
{
	const struct health_event xid = {
	    .time_ns = event->time_ns,
	    .xid = (uint32_t)event->data,
	    .gi = event->gi,
	    .ci = event->ci,
	    .pid = event->pid,
	    .has_severity = event->severity != 0,
	    .fatal = event->severity == 2,
	    .recovery_action = event->recovery_action,
	};
	health_event(track, &xid, NULL);
}

static int judge(const struct machine *machine, const struct log *log, uint64_t since_ns,
		 struct report *out, struct err *err)
{
	const struct snapshot *snapshot = machine->snapshot;
	uint64_t now_ns = call_mark_now();
	size_t room = snapshot->gpu_count ? snapshot->gpu_count : 1;
	out->tracks = calloc(room, sizeof(*out->tracks));
	out->verdicts = calloc(room, sizeof(*out->verdicts));
	if (!out->tracks || !out->verdicts)
		return err_set(err, -ENOMEM, "judging the GPUs: no memory");
	out->count = snapshot->gpu_count;
	for (uint32_t i = 0; i < out->count; i++) {
		const struct snapshot_gpu *gpu = &snapshot->gpu[i];
		health_sample(&out->tracks[i], gpu, now_ns, NULL);
		for (uint32_t e = 0; e < log->count; e++) {
			const struct probe_event *event = &log->events[e];
			bool old = since_ns && now_ns > event->time_ns &&
				   now_ns - event->time_ns > since_ns;
			if (!old && gpu->bus[0] && strcmp(event->bus, gpu->bus) == 0)
				feed(&out->tracks[i], event);
		}
		health_judge(&out->tracks[i], NULL, now_ns, true, &out->verdicts[i]);
		out->unhealthy |= out->verdicts[i].state == HEALTH_UNHEALTHY;
	}
	return 0;
}

static int print_table(const struct machine *machine, const struct report *report,
		       const struct log *log, struct err *err)
{
	static const struct table_column columns[] = {
	    {.title = "GPU", .align = TABLE_RIGHT},
	    {.title = "BUS"},
	    {.title = "NAME"},
	    {.title = "HEALTH"},
	    {.title = "WHY"},
	    {.title = "WHAT TO DO"},
	};
	machine_headline(&machine->inventory);
	_cleanup_table_ struct table *table =
	    table_new(columns, sizeof(columns) / sizeof(columns[0]));
	if (!table)
		return err_set(err, -ENOMEM, "printing the health: no memory");
	for (uint32_t i = 0; i < report->count; i++) {
		const struct snapshot_gpu *gpu = &machine->snapshot->gpu[i];
		const struct health_verdict *verdict = &report->verdicts[i];
		table_addf(table, "%u", gpu->index);
		table_add(table, gpu->bus);
		table_add(table, gpu->name);
		table_add(table, health_state_to_string(verdict->state));
		for (uint32_t r = 0; r == 0 || r < verdict->reason_count; r++) {
			for (uint32_t blank = 0; r > 0 && blank < 4; blank++)
				table_add(table, " ");
			bool any = r < verdict->reason_count;
			table_add(table, any ? verdict->reason[r].text : NULL);
			table_add(table, any ? verdict->reason[r].advice : NULL);
		}
	}
	int rc = table_print(table, stdout, 0, err);
	if (log->unreadable[0])
		printf("\nErrors in the kernel log are not in this: %s\n", log->unreadable);
	return rc;
}

static json_t *json_reasons(const struct health_verdict *verdict)
{
	json_t *list = json_array();
	for (uint32_t i = 0; i < verdict->reason_count; i++) {
		const struct health_reason *reason = &verdict->reason[i];
		(void)json_array_append_new(
		    list, json_pack("{s:s, s:s, s:o, s:o, s:o}", "cause",
				    health_cause_to_string(reason->cause), "state",
				    health_state_to_string(reason->state), "xid",
				    reason->xid ? json_integer(reason->xid) : json_null(), "text",
				    table_json_text(reason->text), "advice",
				    table_json_text(reason->advice)));
	}
	return list;
}

static json_t *json_xids(const struct health_track *track)
{
	json_t *list = json_array();
	for (uint32_t i = 0; i < track->event_count; i++) {
		const struct health_event *event = &track->event[i];
		(void)json_array_append_new(
		    list, json_pack("{s:I, s:s, s:s, s:o}", "xid", (json_int_t)event->xid, "class",
				    xid_class_to_string(xid_class_of(event->xid)), "name",
				    xid_name(event->xid), "pid", machine_json_u32(event->pid)));
	}
	return list;
}

static int print_json(const struct machine *machine, const struct report *report,
		      const struct log *log, struct err *err)
{
	json_t *root = machine_json(&machine->inventory);
	json_t *gpus = json_array();
	for (uint32_t i = 0; i < report->count; i++) {
		const struct snapshot_gpu *gpu = &machine->snapshot->gpu[i];
		const struct health_verdict *verdict = &report->verdicts[i];
		(void)json_array_append_new(
		    gpus,
		    json_pack("{s:I, s:o, s:o, s:o, s:s, s:o, s:o}", "index",
			      (json_int_t)gpu->index, "uuid", table_json_text(gpu->uuid), "bus",
			      table_json_text(gpu->bus), "name", table_json_text(gpu->name),
			      "health", health_state_to_string(verdict->state), "reasons",
			      json_reasons(verdict), "xids", json_xids(&report->tracks[i])));
	}
	(void)json_object_set_new(root, "gpus", gpus);
	(void)json_object_set_new(root, "kernel_log",
				  log->unreadable[0] ? table_json_text(log->unreadable)
						     : json_string("read"));
	int rc = table_print_json(root, stdout, err);
	json_decref(root);
	return rc;
}

static int run(const struct cmd_call *call)
{
	const struct health_options *options = call->options;
	struct err err = {.code = 0};
	_cleanup_free_ struct probe_event *events = calloc(LOG_MAX, sizeof(*events));
	if (!events) {
		err_set(&err, -ENOMEM, "reading the kernel log: no memory");
		return cmd_fail(call, CMD_EXIT_FAILED, &err);
	}
	struct log log = {.events = events};
	_cleanup_machine_ struct machine machine = {.snapshot = NULL};
	int code = machine_read(call, options->timeout_ns, &machine, keep_event, &log);
	if (code != 0)
		return code;
	struct report report = {.count = 0};
	int rc = judge(&machine, &log, options->since_ns, &report, &err);
	if (rc == 0)
		rc = options->output == OPTION_OUTPUT_JSON
			 ? print_json(&machine, &report, &log, &err)
			 : print_table(&machine, &report, &log, &err);
	free(report.tracks);
	free(report.verdicts);
	if (rc < 0)
		return cmd_fail(call, CMD_EXIT_FAILED, &err);
	return report.unhealthy ? CMD_EXIT_FAILED : CMD_EXIT_OK;
}

static const struct cmd_exit_row exits[] = {
    {CMD_EXIT_OK, "every GPU is healthy or only degraded"},
    {CMD_EXIT_FAILED, "at least one GPU is unhealthy"},
    {CMD_EXIT_UNAVAILABLE, "no driver: not installed, half installed, not loaded, or of two "
			   "versions"},
    {CMD_EXIT_NOT_PERMITTED, "this user may not use the driver"},
    {CMD_EXIT_DEADLINE, "the driver as a whole did not answer in time"},
    {0, NULL},
};

static const struct cmd_example examples[] = {
    {"sluice health", "says how each GPU is, why, and what to do"},
    {"sluice health --since 1h", "leaves out errors of the kernel log that are older"},
    {NULL, NULL},
};

const struct command cmd_health = {
    .name = "health",
    .summary = "Say how each GPU is, why, and what to do",
    .description =
	"Looks at what the driver reports (errors of memory, links and power, pending changes, the "
	"recovery action that it asks for) and at the XIDs in the kernel log since boot, and "
	"judges: healthy; degraded (works, and somebody should look soon); unhealthy (give it no "
	"work). Reading the kernel log may need root; without it the report says so.\n\n"
	"An XID of a job's own making leaves a GPU healthy. One that needs a reset leaves it "
	"unhealthy until a reset can be seen; looking once, this command can only tell that for "
	"memory errors, so after a reset '--since' leaves the old errors out.",
    .group = CMD_GROUP_MACHINE,
    .run = run,
    .options = rows,
    .defaults = &defaults,
    .options_size = sizeof(struct health_options),
    .exits = exits,
    .examples = examples,
};
