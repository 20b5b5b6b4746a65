/* SPDX-License-Identifier: Apache-2.0 */
/* sluice health: how each GPU is, why, and what to do; and its verbs. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/message.h"
#include "agent/vitals.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "cmd/service/agent_call.h"
#include "cmd/cmd.h"
#include "cmd/machine/machine.h"
#include "cmd/options.h"
#include "cmd/table.h"
#include "hardware/callmark.h"
#include "hardware/health.h"
#include "wire/arena.h"

struct health_options {
	enum option_output output;
	uint64_t timeout_ns, since_ns;
	const char *socket;
	bool once;
};

static const struct option_row rows[] = {
    OPTION_OUTPUT(struct health_options, output),
    MACHINE_TIMEOUT_ROW(struct health_options),
    {.name = "once",
     .kind = OPTION_FLAG,
     .help = "look at the driver now, whatever the agent remembers",
     OPTION_FIELD(struct health_options, once)},
    {.name = "since",
     .kind = OPTION_DURATION,
     .help = "with --once, which it implies: leave out errors of the kernel log that are older "
	     "(default: all since boot)",
     OPTION_FIELD(struct health_options, since_ns)},
    AGENT_CALL_SOCKET_ROW(struct health_options),
    {.name = NULL},
};

static const struct health_options defaults = {.timeout_ns = MACHINE_TIMEOUT_NS};

enum health_command_limits {
	LOG_MAX = 4096,
	HEALTH_ARENA_MAX = 8 << 20,
};

/* What is printed, whoever said it. */
struct health_seen {
	const Sluice__V1__HealthReply *reply;
	const struct machine *machine; /* of our own look; NULL: the agent says it */
};

/* --- our own look ---------------------------------------------------------------------------- */

/* The errors that the kernel log has; which GPU they belong to is known only afterwards. */
struct health_log {
	struct probe_event *events; /* owned */
	uint32_t count;
	char unreadable[PROBE_EVENT_TEXT_MAX];
};

static void keep_event(const struct probe_event *event, void *context)
{
	struct health_log *log = context;
	if (event->kind == PROBE_EVENT_NO_LOG)
		memcpy(log->unreadable, event->text, sizeof(log->unreadable));
	if (event->kind == PROBE_EVENT_XID && log->count < LOG_MAX)
		log->events[log->count++] = *event;
}

static void feed(struct health_track *track, const struct probe_event *event)
{
	const struct health_event xid = {
	    .time_ns = event->time_ns,
	    .xid = event->data <= UINT32_MAX ? (uint32_t)event->data : XID_UNKNOWN,
	    .gi = event->gi,
	    .ci = event->ci,
	    .pid = event->pid,
	    .has_severity = event->severity != 0,
	    .fatal = event->severity == 2,
	    .recovery_action = event->recovery_action,
	};
	health_event(track, &xid, NULL);
}

static void judge_gpu(const struct snapshot_gpu *gpu, const struct health_log *log,
		      uint64_t since_ns, struct health_track *track, struct vitals_view *out)
{
	uint64_t now_ns = clock_real_ns();

	memset(track, 0, sizeof(*track));
	health_sample(track, gpu, now_ns, NULL);

	for (uint32_t e = 0; e < log->count; e++) {
		const struct probe_event *event = &log->events[e];
		bool old =
		    since_ns && now_ns > event->time_ns && now_ns - event->time_ns > since_ns;
		if (!old && gpu->bus[0] && strcmp(event->bus, gpu->bus) == 0)
			feed(track, event);
	}

	*out = (struct vitals_view){.index = gpu->index, .here = true};
	memcpy(out->uuid, gpu->uuid, sizeof(out->uuid));
	memcpy(out->name, gpu->name, sizeof(out->name));
	memcpy(out->bus, gpu->bus, sizeof(out->bus));
	health_judge(track, NULL, now_ns, true, &out->verdict);

	for (; out->xid_count < track->event_count; out->xid_count++) {
		out->xid[out->xid_count].event = track->event[out->xid_count];
		out->xid[out->xid_count].class_ = xid_class_of(track->event[out->xid_count].xid);
	}
}

static int judge(const struct machine *machine, const struct health_log *log, uint64_t since_ns,
		 struct arena *arena, Sluice__V1__HealthReply *out, struct err *err)
{
	const struct snapshot *snapshot = machine->snapshot;
	_cleanup_free_ struct health_track *track = calloc(1, sizeof(*track));
	_cleanup_free_ struct vitals_view *view = calloc(1, sizeof(*view));

	out->gpus = arena_alloc(arena, (SNAPSHOT_GPU_MAX + 1) * sizeof(*out->gpus));
	out->driver = arena_copy_valid(arena, machine->inventory.driver_version);
	out->kernel_log_error = arena_copy_valid(arena, log->unreadable);
	out->simulated = machine->inventory.simulated;
	if (!track || !view || !out->gpus || !out->driver || !out->kernel_log_error)
		return err_set(err, -ENOMEM, "judging the GPUs: no memory");

	for (uint32_t i = 0; i < snapshot->gpu_count; i++) {
		judge_gpu(&snapshot->gpu[i], log, since_ns, track, view);
		int rc = message_from_health(view, arena, &out->gpus[i], err);
		if (rc < 0)
			return rc;
		out->n_gpus++;
	}

	return 0;
}

/* --- printing -------------------------------------------------------------------------------- */

static void print_headline(const struct health_seen *seen)
{
	const Sluice__V1__HealthReply *reply = seen->reply;

	if (seen->machine) {
		machine_headline(&seen->machine->inventory);
		return;
	}

	printf("%zu%s GPU%s, driver ", reply->n_gpus, reply->simulated ? " simulated" : "",
	       reply->n_gpus == 1 ? "" : "s");
	cmd_print(stdout, reply->driver);
	printf(", as the agent has watched and remembers them\n\n");
}

static void print_remarks(const Sluice__V1__HealthReply *reply)
{
	if (reply->released_until_unix_ns != 0) {
		time_t until = (time_t)(reply->released_until_unix_ns / 1000000000);
		struct tm local;
		char text[32] = "";

		if (localtime_r(&until, &local))
			(void)strftime(text, sizeof(text), "%H:%M:%S", &local);
		printf("\nThe driver is released until %s: nothing is watched, and no job of the "
		       "queue starts on a GPU. 'sluice health resume' ends that.\n",
		       text);
	}

	if (*reply->kernel_log_error) {
		printf("\nErrors in the kernel log are not in this: ");
		cmd_print(stdout, reply->kernel_log_error);
		putchar('\n');
	}

	if (strcmp(reply->injection, "none") == 0) {
		printf("\nContainers get no GPU (injection: none): ");
		cmd_print(stdout, reply->injection_reason);
		putchar('\n');
	}
}

static void print_gpu(struct table *table, const Sluice__V1__GpuHealth *gpu)
{
	bool is_claimed = *gpu->claim != '\0';
	size_t lines = gpu->n_reasons + is_claimed;

	if (gpu->index == GPU_U32_UNKNOWN)
		table_add(table, "?");
	else
		table_addf(table, "%u", gpu->index);

	table_add(table, gpu->bus);
	table_add(table, gpu->name);
	table_addf(table, "%s%s", gpu->state, gpu->gone ? ", gone" : "");

	for (size_t r = 0; r == 0 || r < lines; r++) {
		for (uint32_t blank = 0; r > 0 && blank < 4; blank++)
			table_add(table, " ");

		bool any = r < gpu->n_reasons;
		table_add(table, any ? gpu->reasons[r]->text : is_claimed ? gpu->claim : NULL);
		if (!any && gpu->drained && gpu->index != GPU_U32_UNKNOWN)
			table_addf(table, "'sluice jobs resume --gpu %u' ends the drain",
				   gpu->index);
		else
			table_add(table, any ? gpu->reasons[r]->advice : NULL);
	}
}

static int print_table(const struct health_seen *seen, struct err *err)
{
	static const struct table_column columns[] = {
	    {.title = "GPU", .align = TABLE_RIGHT},
	    {.title = "BUS"},
	    {.title = "NAME"},
	    {.title = "HEALTH"},
	    {.title = "WHY"},
	    {.title = "WHAT TO DO"},
	};

	print_headline(seen);
	_cleanup_table_ struct table *table = table_new(columns, array_length(columns));
	if (!table)
		return err_set(err, -ENOMEM, "printing the health: no memory");

	for (size_t i = 0; i < seen->reply->n_gpus; i++)
		print_gpu(table, seen->reply->gpus[i]);

	int rc = table_print(table, stdout, 0, err);
	print_remarks(seen->reply);
	return rc;
}

static json_t *json_reasons(const Sluice__V1__GpuHealth *gpu)
{
	json_t *list = json_array();

	for (size_t i = 0; i < gpu->n_reasons; i++) {
		const Sluice__V1__HealthReason *reason = gpu->reasons[i];
		(void)json_array_append_new(
		    list,
		    json_pack("{s:o, s:o, s:o, s:o, s:o}", "cause", table_json_text(reason->cause),
			      "state", table_json_text(reason->state), "xid",
			      reason->xid ? json_integer(reason->xid) : json_null(), "text",
			      table_json_text(reason->text), "advice",
			      table_json_text(reason->advice)));
	}

	return list;
}

static json_t *json_xids(const Sluice__V1__GpuHealth *gpu)
{
	json_t *list = json_array();

	for (size_t i = 0; i < gpu->n_xids; i++) {
		const Sluice__V1__HealthXid *xid = gpu->xids[i];
		(void)json_array_append_new(
		    list, json_pack("{s:I, s:o, s:o, s:o}", "xid", (json_int_t)xid->xid, "class",
				    table_json_text(xid->class_), "name", json_string(xid->name),
				    "pid", machine_json_u32(xid->pid)));
	}

	return list;
}

static json_t *json_root(const struct health_seen *seen)
{
	const Sluice__V1__HealthReply *reply = seen->reply;
	json_t *root = seen->machine ? machine_json(&seen->machine->inventory)
				     : json_pack("{s:b, s:o}", "simulated", (int)reply->simulated,
						 "driver_version", table_json_text(reply->driver));

	(void)json_object_set_new(root, "source", json_string(seen->machine ? "driver" : "agent"));
	(void)json_object_set_new(root, "kernel_log",
				  *reply->kernel_log_error
				      ? table_json_text(reply->kernel_log_error)
				      : json_string("read"));
	if (seen->machine)
		return root;

	(void)json_object_set_new(root, "released_until_unix_ns",
				  reply->released_until_unix_ns
				      ? json_integer(reply->released_until_unix_ns)
				      : json_null());
	(void)json_object_set_new(root, "injection", table_json_text(reply->injection));
	(void)json_object_set_new(root, "injection_reason",
				  table_json_text(reply->injection_reason));

	return root;
}

static int print_json(const struct health_seen *seen, struct err *err)
{
	json_t *root = json_root(seen), *gpus = json_array();

	for (size_t i = 0; i < seen->reply->n_gpus; i++) {
		const Sluice__V1__GpuHealth *gpu = seen->reply->gpus[i];
		(void)json_array_append_new(
		    gpus,
		    json_pack("{s:o, s:o, s:o, s:o, s:o, s:b, s:b, s:b, s:o, s:o, s:o}", "index",
			      machine_json_u32(gpu->index), "uuid", table_json_text(gpu->uuid),
			      "bus", table_json_text(gpu->bus), "name", table_json_text(gpu->name),
			      "health", table_json_text(gpu->state), "gone", (int)gpu->gone,
			      "drained", (int)gpu->drained, "reserved", (int)gpu->reserved, "claim",
			      *gpu->claim ? table_json_text(gpu->claim) : json_null(), "reasons",
			      json_reasons(gpu), "xids", json_xids(gpu)));
	}

	(void)json_object_set_new(root, "gpus", gpus);
	int rc = table_print_json(root, stdout, err);

	json_decref(root);
	return rc;
}

static int print(const struct cmd_call *call, const struct health_seen *seen)
{
	const struct health_options *options = call->options;
	struct err err = {0};
	int rc = options->output == OPTION_OUTPUT_JSON ? print_json(seen, &err)
						       : print_table(seen, &err);
	if (rc < 0)
		return cmd_fail(call, CMD_EXIT_FAILED, &err);

	for (size_t i = 0; i < seen->reply->n_gpus; i++) {
		if (strcmp(seen->reply->gpus[i]->state, "unhealthy") == 0)
			return CMD_EXIT_FAILED;
	}

	return CMD_EXIT_OK;
}

/* --- who is asked ---------------------------------------------------------------------------- */

static int look_once(const struct cmd_call *call)
{
	const struct health_options *options = call->options;
	struct err err = {.code = 0};
	_cleanup_arena_ struct arena arena;
	Sluice__V1__HealthReply reply = SLUICE__V1__HEALTH_REPLY__INIT;

	arena_init(&arena, HEALTH_ARENA_MAX);
	_cleanup_free_ struct probe_event *events = calloc(LOG_MAX, sizeof(*events));
	if (!events) {
		err_set(&err, -ENOMEM, "reading the kernel log: no memory");
		return cmd_fail(call, CMD_EXIT_FAILED, &err);
	}

	struct health_log log = {.events = events};
	_cleanup_machine_ struct machine machine = {.snapshot = NULL};
	int code = machine_read(call, options->timeout_ns, &machine, keep_event, &log);
	if (code != 0)
		return code;

	if (judge(&machine, &log, options->since_ns, &arena, &reply, &err) < 0)
		return cmd_fail(call, CMD_EXIT_FAILED, &err);

	const struct health_seen seen = {.reply = &reply, .machine = &machine};
	return print(call, &seen);
}

/* What the agent says; -1: none answers. */
static int ask_agent(const struct cmd_call *call)
{
	const struct health_options *options = call->options;
	_cleanup_agent_call_ struct agent_call agent = AGENT_CALL_NONE;
	const struct agent_call_options how = {.socket = options->socket};
	Sluice__V1__HealthRequest request = SLUICE__V1__HEALTH_REQUEST__INIT;
	ProtobufCMessage *message = NULL;
	struct err err = {0};
	int rc = agent_call_open(&agent, &how, &err);
	if (rc < 0 && !options->socket)
		return -1;

	if (rc == 0)
		rc = agent_call_ask(&agent, AGENT_HEALTH, &request.base, &message, &err);
	if (rc < 0)
		return cmd_fail(call, agent_call_exit_code(&agent, rc), &err);

	const struct health_seen seen = {.reply = (const Sluice__V1__HealthReply *)message};
	int code;

	if (*seen.reply->driver_error) {
		err_set(&err, -ENODEV, "%s", seen.reply->driver_error);
		code = cmd_fail(call, CMD_EXIT_UNAVAILABLE, &err);
	} else {
		code = print(call, &seen);
	}

	agent_call_free(message);
	return code;
}

static int run(const struct cmd_call *call)
{
	const struct health_options *options = call->options;
	int code = options->once || options->since_ns ? -1 : ask_agent(call);
	return code < 0 ? look_once(call) : code;
}

/* --- clear, release, resume ------------------------------------------------------------------ */

struct ask_options {
	const char *socket;
	uint64_t for_ns;
};

/* Asks, and prints what went wrong: then an exit code, and no reply. */
static int ask(const struct cmd_call *call, enum agent_call_method method,
	       const ProtobufCMessage *request, ProtobufCMessage **out)
{
	const struct ask_options *options = call->options;
	_cleanup_agent_call_ struct agent_call agent = AGENT_CALL_NONE;
	const struct agent_call_options how = {.socket = options->socket};
	struct err err = {0};
	int rc = agent_call_open(&agent, &how, &err);
	if (rc == 0)
		rc = agent_call_ask(&agent, method, request, out, &err);

	return rc == 0 ? CMD_EXIT_OK : cmd_fail(call, agent_call_exit_code(&agent, rc), &err);
}

static int clear_run(const struct cmd_call *call)
{
	Sluice__V1__ClearHealthRequest request = SLUICE__V1__CLEAR_HEALTH_REQUEST__INIT;
	ProtobufCMessage *message = NULL;

	request.gpu = call->argv[0];
	int code = ask(call, AGENT_CLEAR_HEALTH, &request.base, &message);
	if (code != CMD_EXIT_OK)
		return code;

	uint32_t gpus = ((const Sluice__V1__ClearHealthReply *)message)->gpus;
	printf("cleared %" PRIu32 " GPU%s; what the driver still reports counts again\n", gpus,
	       gpus == 1 ? "" : "s");
	agent_call_free(message);

	return CMD_EXIT_OK;
}

static int release_run(const struct cmd_call *call)
{
	const struct ask_options *options = call->options;
	Sluice__V1__ReleaseRequest request = SLUICE__V1__RELEASE_REQUEST__INIT;
	ProtobufCMessage *message = NULL;

	request.ns = options->for_ns;
	int code = ask(call, AGENT_RELEASE, &request.base, &message);
	if (code != CMD_EXIT_OK)
		return code;

	const Sluice__V1__ReleaseReply *reply = (const Sluice__V1__ReleaseReply *)message;

	printf("the driver is released for %" PRIu64 " s, or until 'sluice health resume'\n",
	       options->for_ns / CLOCK_NS_PER_S);
	if (reply->n_holders > 0) {
		printf("it is still in use, so that it cannot be unloaded nor a GPU be reset:\n");
		code = CMD_EXIT_FAILED;
	}

	for (size_t i = 0; i < reply->n_holders; i++) {
		printf("  ");
		cmd_print(stdout, reply->holders[i]);
		putchar('\n');
	}

	agent_call_free(message);
	return code;
}

static int resume_run(const struct cmd_call *call)
{
	Sluice__V1__ReleaseRequest request = SLUICE__V1__RELEASE_REQUEST__INIT;
	ProtobufCMessage *message = NULL;
	int code = ask(call, AGENT_RELEASE, &request.base, &message);
	agent_call_free(message);
	if (code == CMD_EXIT_OK)
		printf("the driver is asked again\n");
	return code;
}

static const struct option_row ask_rows[] = {
    AGENT_CALL_SOCKET_ROW(struct ask_options),
    {.name = NULL},
};

static const struct option_row release_rows[] = {
    {.name = "for",
     .kind = OPTION_DURATION,
     .help = "how long, at most a week; then the driver is asked again (default: 10m)",
     .min = CLOCK_NS_PER_MS,
     .max = UINT64_C(7) * 24 * 3600 * CLOCK_NS_PER_S,
     OPTION_FIELD(struct ask_options, for_ns)},
    AGENT_CALL_SOCKET_ROW(struct ask_options),
    {.name = NULL},
};

static const struct ask_options release_defaults = {.for_ns = 600 * CLOCK_NS_PER_S};

static const struct cmd_exit_row clear_exits[] = {
    {CMD_EXIT_OK, "it was forgotten"},
    {CMD_EXIT_USAGE, "wrong command line, or there is no such GPU"},
    AGENT_CALL_EXITS,
};

static const struct cmd_exit_row release_exits[] = {
    {CMD_EXIT_OK, "the driver is released and nobody holds it"},
    {CMD_EXIT_FAILED, "it is released, and other processes still hold it: they are named"},
    AGENT_CALL_EXITS,
};

static const struct cmd_exit_row resume_exits[] = {
    {CMD_EXIT_OK, "the driver is asked again, as it was before if it was not released"},
    AGENT_CALL_EXITS,
};

static const struct command clear_command = {
    .name = "clear",
    .summary = "Forget what is held against a GPU: somebody has looked",
    .description =
	"For errors that need a person, such as a failed remapping of a memory row or an XID that "
	"nobody knows, and for everything with 'recover: manual' in the configuration. GPU is an "
	"index, a UUID, a PCI address, or all. What the driver still reports counts again with the "
	"next look, but for a failed remapping, which a GPU reports for ever.",
    .group = CMD_GROUP_MACHINE,
    .run = clear_run,
    .options = ask_rows,
    .options_size = sizeof(struct ask_options),
    .positional = "GPU|all",
    .positional_words = "all",
    .positional_min = 1,
    .positional_max = 1,
    .exits = clear_exits,
};

static const struct command release_command = {
    .name = "release",
    .summary = "Let go of the driver for a while: to unload it, reset a GPU or change MIG mode",
    .description =
	"The agent's probe ends, so that nothing of ours holds the driver. Processes that still "
	"have a device node open are named. What is handed out stays as it is, to the kubelet too; "
	"jobs that run go on, and no job of the queue starts on a GPU meanwhile.",
    .group = CMD_GROUP_MACHINE,
    .run = release_run,
    .options = release_rows,
    .defaults = &release_defaults,
    .options_size = sizeof(struct ask_options),
    .exits = release_exits,
};

static const struct command resume_command = {
    .name = "resume",
    .summary = "Ask the driver again after 'sluice health release'",
    .group = CMD_GROUP_MACHINE,
    .run = resume_run,
    .options = ask_rows,
    .options_size = sizeof(struct ask_options),
    .exits = resume_exits,
};

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
    {"sluice health --since 1h",
     "looks now, and leaves out errors of the kernel log that are older"},
    {"sluice health clear 3", "somebody has looked at GPU 3: forget what is held against it"},
    {"sluice health release --for 30m", "lets go of the driver, for an update of it"},
    {NULL, NULL},
};

const struct command cmd_health = {
    .name = "health",
    .summary = "Say how each GPU is, why, and what to do",
    .description =
	"Judges each GPU: healthy; degraded (works, and somebody should look soon); unhealthy "
	"(give it no work). What the driver reports counts (errors of memory, links and power, "
	"pending changes, the recovery action that it asks for), and the XIDs that it tells and "
	"writes into the kernel log.\n\n"
	"Where an agent runs it is asked: it has watched since it was started and remembers what "
	"was before. An error that needs a reset makes a GPU unhealthy until one was seen and "
	"three good samples followed; one that needs a restart, until the machine was started "
	"again; one that needs a person, until 'sluice health clear'. An XID of one MIG instance "
	"concerns that instance alone. An XID of a job's own making leaves a GPU healthy. A GPU "
	"that an administrator has drained or reserved says so, and is as healthy as it is.\n\n"
	"Without an agent, or with --once, the driver and the kernel log since boot are looked at "
	"now. Reading the log may need root; without it the report says so. Looking once, a reset "
	"can only be told for memory errors, so after one '--since' leaves the old errors out.",
    .group = CMD_GROUP_MACHINE,
    .run = run,
    .commands =
	(const struct command *const[]){&clear_command, &release_command, &resume_command, NULL},
    .options = rows,
    .defaults = &defaults,
    .options_size = sizeof(struct health_options),
    .exits = exits,
    .examples = examples,
};
