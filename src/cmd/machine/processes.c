/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sluice processes: which process is on which GPU, as the probe sees it; with --watch, each one's
 * coming and going. Needs no service and believes no job.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/usage/proctable.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "cmd/cmd.h"
#include "cmd/machine/machine.h"
#include "cmd/options.h"
#include "cmd/table.h"
#include "doors/kubelet/podlog.h"
#include "hardware/pci.h"

enum { PROCESSES_SEEN_MAX = SNAPSHOT_GPU_MAX * SNAPSHOT_PROCESS_MAX };

struct processes_options {
	enum option_output output;
	uint64_t timeout_ns, period_ns;
	bool watch;
};

static const struct option_row rows[] = {
    OPTION_OUTPUT(struct processes_options, output),
    {.name = "watch",
     .letter = 'w',
     .kind = OPTION_FLAG,
     .help = "print one line whenever a process comes or goes, until interrupted",
     OPTION_FIELD(struct processes_options, watch)},
    {.name = "period",
     .kind = OPTION_DURATION,
     .value = "TIME",
     .help = "how often to look, with --watch (default 1s, at least 10ms)",
     .min = 10000000,
     OPTION_FIELD(struct processes_options, period_ns)},
    MACHINE_TIMEOUT_ROW(struct processes_options),
    {.name = NULL},
};

static const struct processes_options defaults = {.timeout_ns = MACHINE_TIMEOUT_NS,
						  .period_ns = PROBE_PERIOD_NS};

/* A process on a GPU or MIG device. */
struct processes_entry {
	uint32_t gpu_index, pid, gi, ci, type;
	uint64_t memory_bytes;
	char uuid[SNAPSHOT_TEXT_MAX]; /* of the MIG device when it is on one */
};

struct processes_list {
	struct processes_entry entry[PROCESSES_SEEN_MAX];
	size_t count;
};

static const char *processes_type(uint32_t type)
{
	if (type & SNAPSHOT_PROCESS_MPS)
		return "mps";
	if (type & SNAPSHOT_PROCESS_COMPUTE)
		return type & SNAPSHOT_PROCESS_GRAPHICS ? "compute, graphics" : "compute";
	return "graphics";
}

static void processes_add(struct processes_list *list, const struct snapshot_gpu *gpu,
			  const struct snapshot_process *process)
{
	if (list->count == PROCESSES_SEEN_MAX)
		return;

	struct processes_entry *entry = &list->entry[list->count++];
	*entry = (struct processes_entry){.gpu_index = gpu->index,
					  .pid = process->pid,
					  .gi = process->gi,
					  .ci = process->ci,
					  .type = process->type,
					  .memory_bytes = process->memory_bytes};

	const char *uuid = gpu->uuid;
	for (uint32_t i = 0; process->gi != SNAPSHOT_WHOLE_GPU && i < gpu->mig_count; i++)
		if (gpu->mig[i].gi == process->gi &&
		    (process->ci == SNAPSHOT_WHOLE_GPU || gpu->mig[i].ci == process->ci))
			uuid = gpu->mig[i].uuid;

	(void)snprintf(entry->uuid, sizeof(entry->uuid), "%s", uuid); /* same size */
}

static void processes_read(const struct snapshot *snapshot, struct processes_list *out)
{
	out->count = 0;
	for (uint32_t i = 0; snapshot && i < snapshot->gpu_count; i++)
		for (uint32_t p = 0; p < snapshot->gpu[i].process_count; p++)
			processes_add(out, &snapshot->gpu[i], &snapshot->gpu[i].process[p]);
}

/* --- once ------------------------------------------------------------------------------------- */

/* What is known of the processes beside what the driver says. */
struct processes_facts {
	struct proctable *table;
	struct podlog *names;
};

static void processes_facts_done(struct processes_facts *facts)
{
	(void)proctable_free(facts->table);
	(void)podlog_free(facts->names);
}
#define _cleanup_facts_ __attribute__((cleanup(processes_facts_done)))

static int processes_look(const struct processes_list *list, struct processes_facts *out,
			  struct err *err)
{
	int rc = proctable_new(NULL, &out->table, err);
	if (rc == 0)
		rc = podlog_read(pci_root(), &out->names, err);
	if (rc < 0)
		return rc;

	for (size_t i = 0; i < list->count; i++)
		(void)proctable_want(out->table, list->entry[i].pid);

	while (proctable_read(out->table, PROCTABLE_SLICE) > 0)
		continue;

	return 0;
}

/* NULL: it is not there, or may not be looked at. */
static const struct proctable_entry *processes_find(const struct processes_facts *facts,
						    uint32_t pid)
{
	const struct proctable_entry *entry = proctable_find(facts->table, pid);
	return entry && entry->state == PROCTABLE_READ ? entry : NULL;
}

static const struct podlog_entry *processes_pod(const struct processes_facts *facts,
						const struct belonging *belonging)
{
	const struct podlog_entry *name = podlog_find_container(facts->names, belonging->container);
	return name ? name : podlog_find_pod(facts->names, belonging->pod);
}

/* null: of nobody that its control group names. */
static json_t *processes_json_holder(const struct processes_facts *facts, uint32_t pid)
{
	const struct proctable_entry *entry = processes_find(facts, pid);
	if (!entry || !entry->belonging.runtime[0])
		return json_null();

	const struct belonging *belonging = &entry->belonging;
	const struct podlog_entry *name = processes_pod(facts, belonging);
	json_t *job = belonging->job > 0 ? json_integer((json_int_t)belonging->job) : json_null();
	json_t *slurm =
	    belonging->slurm_job > 0 ? json_integer((json_int_t)belonging->slurm_job) : json_null();

	return json_pack(
	    "{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "runtime", belonging->runtime,
	    "container_id", table_json_text(belonging->container[0] ? belonging->container : NULL),
	    "pod_uid", table_json_text(belonging->pod[0] ? belonging->pod : NULL), "namespace",
	    table_json_text(name ? name->name_space : NULL), "pod",
	    table_json_text(name ? name->pod : NULL), "container",
	    table_json_text(name ? name->container : NULL), "job", job, "slurm_job", slurm);
}

/* "job 3", "ml/train-0/main", "podman 92fb71a2401c". */
static void processes_print_holder(struct table *table, const struct processes_facts *facts,
				   uint32_t pid)
{
	const struct proctable_entry *entry = processes_find(facts, pid);
	const struct belonging *belonging = entry ? &entry->belonging : NULL;
	const struct podlog_entry *name = entry ? processes_pod(facts, belonging) : NULL;

	if (!entry || !belonging->runtime[0])
		table_add(table, NULL);
	else if (belonging->job > 0)
		table_addf(table, "job %llu", (unsigned long long)belonging->job);
	else if (name)
		table_addf(table, "%s/%s%s%s", name->name_space, name->pod,
			   name->container[0] ? "/" : "", name->container);
	else if (belonging->slurm_job > 0)
		table_addf(table, "slurm job %llu", (unsigned long long)belonging->slurm_job);
	else
		table_addf(table, "%s %.12s", belonging->runtime,
			   belonging->container[0] ? belonging->container : belonging->pod);
}

static json_t *processes_json_entry(const struct processes_entry *entry,
				    const struct processes_facts *facts)
{
	const struct proctable_entry *process = processes_find(facts, entry->pid);
	return json_pack(
	    "{s:I, s:o, s:I, s:o, s:s, s:o, s:o}", "pid", (json_int_t)entry->pid, "name",
	    table_json_text(process && process->name[0] ? process->name : NULL), "gpu_index",
	    (json_int_t)entry->gpu_index, "uuid", table_json_text(entry->uuid), "type",
	    processes_type(entry->type), "memory_bytes", machine_json_u64(entry->memory_bytes),
	    "holder", processes_json_holder(facts, entry->pid));
}

static int processes_print_json(const struct machine *machine, const struct processes_list *list,
				const struct processes_facts *facts, struct err *err)
{
	json_t *json = machine_json(&machine->inventory);
	json_t *array = json_array();
	for (size_t i = 0; i < list->count; i++)
		(void)json_array_append_new(array, processes_json_entry(&list->entry[i], facts));

	if (json)
		(void)json_object_set_new(json, "processes", array);

	int rc = table_print_json(json, stdout, err);
	json_decref(json);
	return rc;
}

static int processes_print_table(const struct machine *machine, const struct processes_list *list,
				 const struct processes_facts *facts, struct err *err)
{
	static const struct table_column columns[] = {
	    {"GPU", TABLE_RIGHT, false}, {"PID", TABLE_RIGHT, false},
	    {"NAME", TABLE_LEFT, true},	 {"MEMORY", TABLE_RIGHT, false},
	    {"TYPE", TABLE_LEFT, false}, {"HOLDER", TABLE_LEFT, true},
	    {"UUID", TABLE_LEFT, true},
	};

	machine_headline(&machine->inventory);
	_cleanup_table_ struct table *table = table_new(columns, array_length(columns));
	if (!table)
		return err_set(err, -ENOMEM, "printing the processes: no memory");

	for (size_t i = 0; i < list->count; i++) {
		const struct processes_entry *entry = &list->entry[i];
		const struct proctable_entry *process = processes_find(facts, entry->pid);

		table_addf(table, "%u", entry->gpu_index);
		table_addf(table, "%u", entry->pid);
		table_add(table, process ? process->name : "");

		if (entry->memory_bytes == SNAPSHOT_U64_ABSENT)
			table_add(table, NULL);
		else
			table_addf(table, "%llu MiB",
				   (unsigned long long)(entry->memory_bytes >> 20));

		table_add(table, processes_type(entry->type));
		processes_print_holder(table, facts, entry->pid);
		table_add(table, entry->uuid);
	}

	return table_print(table, stdout, table_width(stdout), err);
}

static int processes_once(const struct cmd_call *call, struct processes_list *list)
{
	const struct processes_options *options = call->options;
	_cleanup_machine_ struct machine machine;
	int exit_code = machine_read(call, options->timeout_ns, &machine, NULL, NULL);
	if (exit_code)
		return exit_code;

	processes_read(machine.snapshot, list);
	struct err err = {0};
	_cleanup_facts_ struct processes_facts facts = {NULL, NULL};
	int rc = processes_look(list, &facts, &err);
	if (rc == 0)
		rc = options->output == OPTION_OUTPUT_JSON
			 ? processes_print_json(&machine, list, &facts, &err)
			 : processes_print_table(&machine, list, &facts, &err);

	return rc < 0 ? cmd_fail(call, CMD_EXIT_FAILED, &err) : CMD_EXIT_OK;
}

/* --- --watch ---------------------------------------------------------------------------------- */

struct processes_watch {
	const struct processes_options *options;
	struct processes_list *before, *now;
	uint64_t looks;
};

static bool processes_has(const struct processes_list *list, const struct processes_entry *entry)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct processes_entry *other = &list->entry[i];
		if (other->pid == entry->pid && other->gi == entry->gi && other->ci == entry->ci &&
		    strcmp(other->uuid, entry->uuid) == 0)
			return true;
	}
	return false;
}

static void processes_say(const struct processes_watch *watch, const struct snapshot *snapshot,
			  const struct processes_entry *entry, const char *what)
{
	double time_unix = (double)snapshot->taken_unix_ns / 1e9;
	const char *simulated = snapshot->simulated ? "true" : "false";

	/* uuid and `what` are plain: one was checked by the probe's client, one is ours. */
	if (watch->options->output == OPTION_OUTPUT_JSON)
		printf("{\"event\": \"%s\", \"time_unix\": %.6f, \"look\": %llu, \"gpu_index\": "
		       "%u, \"uuid\": \"%s\", \"pid\": %u, \"simulated\": %s}\n",
		       what, time_unix, (unsigned long long)watch->looks, entry->gpu_index,
		       entry->uuid, entry->pid, simulated);
	else
		printf("%.3f %s%s GPU %u, pid %u, %s\n", time_unix,
		       snapshot->simulated ? "simulated " : "", what, entry->gpu_index, entry->pid,
		       entry->uuid);
}

/* What differs from the snapshot before. False when nobody reads us any more. */
static bool processes_compare(struct processes_watch *watch, const struct snapshot *snapshot)
{
	watch->looks++;
	processes_read(snapshot, watch->now);

	if (watch->looks == 1 && watch->options->output == OPTION_OUTPUT_JSON)
		printf("{\"event\": \"watching\", \"time_unix\": %.6f, \"gpus\": %u, "
		       "\"simulated\": %s}\n",
		       (double)snapshot->taken_unix_ns / 1e9, snapshot->gpu_count,
		       snapshot->simulated ? "true" : "false");

	for (size_t i = 0; i < watch->before->count; i++)
		if (!processes_has(watch->now, &watch->before->entry[i]))
			processes_say(watch, snapshot, &watch->before->entry[i], "gone");

	for (size_t i = 0; i < watch->now->count; i++)
		if (!processes_has(watch->before, &watch->now->entry[i]))
			processes_say(watch, snapshot, &watch->now->entry[i], "seen");

	struct processes_list *spare = watch->before;

	watch->before = watch->now;
	watch->now = spare;
	return fflush(stdout) == 0;
}

static int processes_watch(const struct cmd_call *call, struct processes_list *lists)
{
	const struct processes_options *options = call->options;
	struct processes_watch watch = {.options = options, .before = &lists[0], .now = &lists[1]};
	struct err err = {0};
	_cleanup_probe_client_ struct probe_client *client = NULL;
	struct probe_options probe = {.period_ns = options->period_ns};
	int rc = probe_client_start(&probe, &client, &err);

	for (;;) {
		struct probe_event event;

		if (rc >= 0)
			rc = probe_client_wait(client, options->timeout_ns, &event, &err);
		if (rc < 0)
			return cmd_fail(call, CMD_EXIT_UNAVAILABLE, &err);
		if (rc == 0)
			continue; /* nothing new for that long */
		if (event.kind == PROBE_EVENT_DRIVER_DOWN && watch.looks == 0) {
			(void)err_set(&err, -(int)event.data, "%s", event.text);
			return cmd_fail(call, CMD_EXIT_UNAVAILABLE, &err);
		}

		if (event.kind == PROBE_EVENT_SNAPSHOT &&
		    !processes_compare(&watch, probe_client_snapshot(client)))
			return CMD_EXIT_FAILED; /* the reader is gone; cmd_main() says so */
	}
}

static int run(const struct cmd_call *call)
{
	const struct processes_options *options = call->options;
	_cleanup_free_ struct processes_list *lists = calloc(2, sizeof(*lists));
	if (!lists) {
		struct err err = {0};
		(void)err_set(&err, -ENOMEM, "no memory for the list of processes");
		return cmd_fail(call, CMD_EXIT_FAILED, &err);
	}

	return options->watch ? processes_watch(call, lists) : processes_once(call, lists);
}

static const struct cmd_example examples[] = {
    {"sluice processes", "lists which process is on which GPU"},
    {"sluice processes --watch --period 100ms", "prints each one's coming and going"},
    {0},
};

const struct command cmd_processes = {
    .name = "processes",
    .summary = "List which process is on which GPU",
    .description =
	"As the driver reports it, through the probe: not what a job claims. Processes of all "
	"users, whether sluice started them or not. Process ids are those of the machine, which "
	"differ from those inside a container.\n\n"
	"The holder is read from the control group of the process: a job of 'sluice run', a "
	"container and its runtime, or a job of Slurm; the names of a pod are those of the "
	"kubelet's log files. It does not say that the holder was given the GPU.\n\n"
	"With --watch it looks every --period and prints one line for each process that came or "
	"went since the look before.",
    .group = CMD_GROUP_MACHINE,
    .run = run,
    .options = rows,
    .defaults = &defaults,
    .options_size = sizeof(struct processes_options),
    .exits = machine_exits,
    .examples = examples,
};
