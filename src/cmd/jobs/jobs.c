/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice jobs`: the list, one job in full, and waiting for ends. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/loop.h"
#include "base/parse.h"
#include "base/text.h"
#include "cmd/service/agent_call.h"
#include "cmd/cmd.h"
#include "cmd/jobs/list/job_columns.h"
#include "cmd/jobs/list/job_list.h"
#include "cmd/jobs/job_standing.h"
#include "cmd/jobs/job_target.h"
#include "cmd/jobs/job_text.h"
#include "cmd/jobs/jobs_change.h"
#include "cmd/jobs/admin/jobs_claim.h"
#include "cmd/jobs/jobs_usage.h"
#include "cmd/jobs/jobs_wait.h"
#include "cmd/options.h"
#include "cmd/jobs/since.h"
#include "cmd/table.h"
#include "sluice.pb-c.h"

enum { JOBS_STATES_MAX = 9, JOBS_NAMES_MAX = 32 };

#define JOBS_EACH_NS UINT64_C(1000000000) /* with --watch */

struct jobs_options {
	bool all, watch, no_start, wide, no_header, members;
	const char *user, *socket, *since, *project, *output, *columns;
	struct option_list states, names;
};

static const struct option_row jobs_rows[] = {
    {.name = "all",
     .letter = 'a',
     .kind = OPTION_FLAG,
     .help = "also those that have ended, however long ago",
     OPTION_FIELD(struct jobs_options, all)},
    {.name = "no-start",
     .kind = OPTION_FLAG,
     .help = "do not start a user's own service that has ended when it was idle",
     OPTION_FIELD(struct jobs_options, no_start)},
    {.name = "state",
     .kind = OPTION_LIST,
     .value = "STATE",
     .words = "Pending|Held|Starting|Running|Stopping|Succeeded|Failed|Cancelled",
     .help = "only those in this state; may be given again",
     OPTION_FIELD(struct jobs_options, states)},
    {.name = "name",
     .kind = OPTION_LIST,
     .value = "GLOB",
     .help = "only those of that name, with * ? and [a-z]: your own; may be given again",
     OPTION_FIELD(struct jobs_options, names)},
    {.name = "user",
     .letter = 'u',
     .kind = OPTION_TEXT,
     .value = "USER",
     .words = "@users",
     .help = "only this user's, by name or number",
     OPTION_FIELD(struct jobs_options, user)},
    {.name = "since",
     .kind = OPTION_TEXT,
     .value = "TIME",
     .help = "of those that have ended, the ones since then: " SINCE_FORMS,
     OPTION_FIELD(struct jobs_options, since)},
    {.name = "project",
     .kind = OPTION_TEXT,
     .value = "NAME",
     .help = "only this project's, as sluice run --project has named it: your own, and for "
	     "administrators everybody's",
     OPTION_FIELD(struct jobs_options, project)},
    {.name = "watch",
     .letter = 'w',
     .kind = OPTION_FLAG,
     .help = "print the list again whenever it has changed, until interrupted",
     OPTION_FIELD(struct jobs_options, watch)},
    {.name = "wide",
     .kind = OPTION_FLAG,
     .help = "more columns, whole reasons and every user's jobs, however wide that is",
     OPTION_FIELD(struct jobs_options, wide)},
    {.name = "columns",
     .kind = OPTION_TEXT,
     .value = "LIST",
     .words = JOB_COLUMNS_WORDS,
     .help = "these columns, by name and with commas between: id,state,reason",
     OPTION_FIELD(struct jobs_options, columns)},
    {.name = "no-header",
     .kind = OPTION_FLAG,
     .help = "no line with the titles of the columns",
     OPTION_FIELD(struct jobs_options, no_header)},
    {.name = "members",
     .kind = OPTION_FLAG,
     .help = "a line for each member of an array",
     OPTION_FIELD(struct jobs_options, members)},
    {.name = "output",
     .letter = 'o',
     .kind = OPTION_TEXT,
     .value = "table|json|LIST",
     .words = "table|json|" JOB_COLUMNS_WORDS,
     .help = "how to print: a table for people (default), JSON for programs, or as --columns",
     OPTION_FIELD(struct jobs_options, output)},
    AGENT_CALL_SOCKET_ROW(struct jobs_options),
    {0},
};

static int jobs_open(const struct cmd_call *call, const char *socket, bool may_wake,
		     struct agent_call *agent)
{
	struct err err = {0};
	const struct agent_call_options how = {
	    .socket = socket, .may_wake = may_wake, .path = call->path};
	int rc = agent_call_open(agent, &how, &err);
	return rc < 0 ? cmd_fail(call, agent_call_exit_code(agent, rc), &err) : CMD_EXIT_OK;
}

/* --- the list --------------------------------------------------------------------------------- */

struct jobs_list {
	struct job_list *list; /* owned; or, for JSON: */
	json_t *json;	       /* owned */
	json_t *outside;       /* owned; of JSON too */
	bool shows_outside;
	size_t count;
	int64_t now_unix_ns;
	uint64_t array_id; /* 0: all jobs */
};

static bool jobs_is_json(const struct jobs_options *options)
{
	return options->output && strcmp(options->output, "json") == 0;
}

/* The columns that were asked for; NULL: none were. */
static const char *jobs_named_columns(const struct jobs_options *options)
{
	if (options->columns)
		return options->columns;
	return options->output && strcmp(options->output, "table") != 0 && !jobs_is_json(options)
		   ? options->output
		   : NULL;
}

/* How the list is to look. */
static int jobs_list_options(const struct jobs_options *options, const struct jobs_list *list,
			     struct job_list_options *out, struct err *err)
{
	const char *named = jobs_named_columns(options);

	*out = (struct job_list_options){
	    .named = named || options->wide,
	    .no_header = options->no_header,
	    .members = options->members || list->array_id != 0,
	    .is_filtered = options->states.count > 0 || options->names.count > 0 ||
			   options->since || options->project,
	    .uid = getuid(),
	    .now_unix_ns = list->now_unix_ns,
	};
	if (!options->wide)
		table_room(stdout, &out->width, &out->height);
	if (options->all || options->user || out->is_filtered || list->array_id)
		out->height = 0; /* they are what was asked for */

	job_columns_usual(options->wide, &out->columns);
	return named ? job_columns_parse(named, &out->columns, err) : 0;
}

/* Who computes on the queue's GPUs without a job. */
static void jobs_on_outside(const Sluice__V1__ListReply *page, struct jobs_list *list)
{
	for (size_t i = 0; i < page->n_outside; i++) {
		if (list->list && list->shows_outside)
			job_list_add_outside(list->list, page->outside[i]);
		else if (list->outside &&
			 json_array_append_new(list->outside,
					       job_text_outside_json(page->outside[i])) < 0) {
			json_decref(list->outside); /* no memory: said when it is printed */
			list->outside = NULL;
		}
	}
}

static bool jobs_on_page(const ProtobufCMessage *reply, void *context)
{
	struct jobs_list *list = context;
	const Sluice__V1__ListReply *page = (const Sluice__V1__ListReply *)reply;

	list->count += page->n_jobs;
	jobs_on_outside(page, list);

	for (size_t i = 0; i < page->n_jobs; i++) {
		if (list->list)
			job_list_add(list->list, page->jobs[i]);
		else if (list->json &&
			 json_array_append_new(list->json, job_text_json(page->jobs[i])) < 0) {
			json_decref(list->json); /* no memory: said when it is printed */
			list->json = NULL;
		}
	}

	return true;
}

/* Asked only where no job was found: the agent may know users whom this process does not. */
static bool jobs_is_user(const char *text)
{
	uint64_t uid;
	return parse_u64(text, 0, UINT32_MAX - 1, &uid) == 0 || getpwnam(text);
}

/* A list for people is of what waits or runs; who wants to see what has ended says so. */
static void jobs_ask_unended(Sluice__V1__ListRequest *request)
{
	static const Sluice__V1__JobState unended[] = {
	    SLUICE__V1__JOB_STATE__PENDING, SLUICE__V1__JOB_STATE__HELD,
	    SLUICE__V1__JOB_STATE__STARTING, SLUICE__V1__JOB_STATE__RUNNING,
	    SLUICE__V1__JOB_STATE__STOPPING};

	request->n_states = sizeof(unended) / sizeof(unended[0]);
	memcpy(request->states, unended, sizeof(unended));
}

static int jobs_fill(const struct cmd_call *call, struct agent_call *agent, struct jobs_list *list)
{
	const struct jobs_options *options = call->options;
	struct err err = {0};
	Sluice__V1__JobState states[JOBS_STATES_MAX];
	Sluice__V1__ListRequest request = SLUICE__V1__LIST_REQUEST__INIT;

	request.all = options->all || list->array_id;
	request.array_id = list->array_id;
	request.user = options->user ? (char *)options->user : request.user;
	request.states = states;

	for (size_t i = 0; i < options->states.count && i < JOBS_STATES_MAX; i++)
		if (job_text_state_parse(options->states.items[i], &states[request.n_states++],
					 &err) < 0)
			return cmd_usage(call, "%s", err.text);

	if (options->names.count > JOBS_NAMES_MAX)
		return cmd_usage(call, "--name: at most %d of them", JOBS_NAMES_MAX);
	request.names = (char **)options->names.items;
	request.n_names = options->names.count;

	list->now_unix_ns = clock_unix_ns();
	list->shows_outside = !list->array_id && !options->no_header &&
			      options->states.count == 0 && !jobs_named_columns(options);
	request.project = options->project ? (char *)options->project : request.project;
	if (options->since &&
	    since_read(options->since, list->now_unix_ns, &request.since_unix_ns, &err) < 0)
		return cmd_usage(call, "--since: %s", err.text);

	if (jobs_is_json(options)) {
		list->json = json_array();
		list->outside = json_array();
	} else {
		struct job_list_options how;
		if (jobs_list_options(options, list, &how, &err) < 0)
			return cmd_usage(call, "%s", err.text);

		list->list = job_list_new(&how);
		if (!list->list) {
			(void)err_set(&err, -ENOMEM, "out of memory for a list of jobs");
			return cmd_fail(call, CMD_EXIT_FAILED, &err);
		}

		if (!request.all && request.n_states == 0 && request.since_unix_ns == 0)
			jobs_ask_unended(&request);
	}

	int rc = agent_call_follow(agent, AGENT_LIST, &request.base, AGENT_CALL_DEADLINE_NS,
				   jobs_on_page, list, &err);
	if (rc < 0)
		return cmd_fail(call, agent_call_exit_code(agent, rc), &err);
	if (options->user && list->count == 0 && !jobs_is_user(options->user))
		return cmd_usage(call, "there is no user '%s'", options->user);

	return CMD_EXIT_OK;
}

static int jobs_print(const struct cmd_call *call, struct jobs_list *list, FILE *out)
{
	struct err err = {0};
	int rc;

	if (list->list) {
		rc = job_list_print(list->list, out, &err);
	} else {
		json_t *all =
		    list->outside && list->json
			? json_pack("{s:O, s:O}", "jobs", list->json, "outside", list->outside)
			: NULL;

		rc = table_print_json(all, out, &err);
		json_decref(all);
	}

	return rc < 0 ? cmd_fail(call, CMD_EXIT_FAILED, &err) : CMD_EXIT_OK;
}

static void jobs_list_done(struct jobs_list *list)
{
	list->list = job_list_free(list->list);
	json_decref(list->json);
	json_decref(list->outside);
	list->json = list->outside = NULL;
}

static int jobs_show_list(const struct cmd_call *call, struct agent_call *agent, uint64_t array_id,
			  FILE *out)
{
	struct jobs_list list = {.array_id = array_id};
	int exit_code = jobs_fill(call, agent, &list);
	if (exit_code == CMD_EXIT_OK)
		exit_code = jobs_print(call, &list, out);
	jobs_list_done(&list);
	return exit_code;
}

/* Again and again, but only what differs from what is there. */
static int jobs_watch_list(const struct cmd_call *call, struct agent_call *agent)
{
	_cleanup_free_ char *before = NULL;

	for (;;) {
		char *text = NULL;
		size_t size;
		FILE *out = open_memstream(&text, &size);
		if (!out)
			return CMD_EXIT_FAILED;

		int exit_code = jobs_show_list(call, agent, 0, out);

		(void)fclose(out); /* in memory: a loss shows as NULL */
		if (exit_code != CMD_EXIT_OK || !text) {
			free(text);
			return exit_code ? exit_code : CMD_EXIT_FAILED;
		}

		if (!before || strcmp(before, text) != 0) {
			if (isatty(STDOUT_FILENO))
				fputs("\x1b[H\x1b[2J", stdout); /* home, clear */
			else if (before)
				fputc('\n', stdout);

			fputs(text, stdout);
			if (fflush(stdout) != 0) {
				free(text);
				return CMD_EXIT_FAILED;
			}
		}

		free(before);
		before = text;

		struct err err = {0};
		uint64_t until_ns = loop_now_ns(agent->loop) + JOBS_EACH_NS;
		while (loop_now_ns(agent->loop) < until_ns)
			if (loop_pass(agent->loop, JOBS_EACH_NS, &err) < 0)
				return cmd_fail(call, CMD_EXIT_FAILED, &err);
	}
}

/* --- one -------------------------------------------------------------------------------------- */

static void jobs_line(const char *title, const char *text)
{
	if (!text || !*text)
		return;
	printf("  %-12s", title);
	cmd_print(stdout, text);
	fputc('\n', stdout);
}

static void jobs_line_time(const char *title, int64_t unix_ns)
{
	char time[JOB_TEXT_TIME_MAX];
	if (unix_ns)
		jobs_line(title, job_text_time(unix_ns, time));
}

static void jobs_line_command(const Sluice__V1__Job *job)
{
	if (job->n_argv == 0)
		return;

	printf("  %-12s", "command");

	for (size_t i = 0; i < job->n_argv; i++) {
		char *word = text_copy(job->argv[i].data, job->argv[i].len);
		fputs(i ? " " : "", stdout);
		cmd_print(stdout, word ? word : "?");
		free(word);
	}

	fputc('\n', stdout);
}

static void jobs_line_grant(const Sluice__V1__Job *job, const Sluice__V1__Grant *grant)
{
	printf("  %-12s%s", job->simulated ? "simulated" : "GPU", "");
	cmd_print(stdout, grant->label);
	fputs("  ", stdout);
	cmd_print(stdout, grant->uuid);

	if (grant->n_slots < grant->slot_count) {
		printf("  slot%s ", grant->n_slots == 1 ? "" : "s");
		for (size_t i = 0; i < grant->n_slots; i++)
			printf("%s%" PRIu32, i ? "," : "", grant->slots[i]);
		printf(" of %" PRIu32, grant->slot_count);
	}

	fputc('\n', stdout);
}

static void jobs_show_attempt(const Sluice__V1__Job *job)
{
	const Sluice__V1__Attempt *attempt = job->attempt;
	char text[JOB_TEXT_MAX], time[JOB_TEXT_TIME_MAX];

	if (!attempt || attempt->number == 0)
		return;

	(void)snprintf(text, sizeof(text), "%" PRIu32, attempt->number);
	jobs_line("attempt", text);
	jobs_line_time("started", attempt->started_unix_ns);
	jobs_line_time("ended", attempt->ended_unix_ns);

	if (attempt->started_unix_ns)
		jobs_line("ran",
			  job_text_duration(job_text_elapsed_ns(job, clock_unix_ns()), time));

	for (size_t i = 0; i < attempt->n_grants; i++)
		jobs_line_grant(job, attempt->grants[i]);

	(void)snprintf(text, sizeof(text), "%s%s%s%s", attempt->isolation,
		       attempt->isolation_reason[0] ? " (" : "", attempt->isolation_reason,
		       attempt->isolation_reason[0] ? ")" : "");
	jobs_line("isolation", text);
	if (attempt->pid)
		printf("  %-12s%" PRIu32 "\n", "pid", attempt->pid);
	if (attempt->port)
		printf("  %-12shttp://127.0.0.1:%" PRIu32 "/\n", "port", attempt->port);

	if (attempt->supervisor_pid)
		printf("  %-12s%" PRIu32 "\n", "supervisor", attempt->supervisor_pid);
	jobs_line("cgroup", attempt->cgroup);
	jobs_line("output", attempt->stdout_path);
	jobs_line("errors", attempt->stderr_path);

	if (attempt->killed_leftovers)
		printf("  %-12s%" PRIu32 " processes that it left\n", "killed",
		       attempt->killed_leftovers);

	for (size_t i = 0; i < attempt->n_observed; i++) {
		const Sluice__V1__Observation *seen = attempt->observed[i];
		(void)snprintf(
		    text, sizeof(text), "pid %" PRIu32 " on %s for %s", seen->pid, seen->uuid,
		    job_text_duration(seen->last_unix_ns > seen->first_unix_ns
					  ? (uint64_t)(seen->last_unix_ns - seen->first_unix_ns)
					  : 0,
				      time));
		jobs_line("seen", text);
	}
}

/* Those before the last one, which is shown in full. */
static void jobs_show_past(const Sluice__V1__Job *job)
{
	for (size_t i = 0; i < job->n_attempts; i++) {
		const Sluice__V1__Attempt *past = job->attempts[i];
		char text[JOB_TEXT_MAX], time[JOB_TEXT_TIME_MAX];

		/* The only one, with which the job has ended: the first line says how. */
		if (job->n_attempts == 1 && past->ended_unix_ns == job->ended_unix_ns)
			continue;

		int64_t ran_ns =
		    past->started_unix_ns ? past->ended_unix_ns - past->started_unix_ns : 0;
		(void)snprintf(text, sizeof(text), "attempt %" PRIu32 ": %s%s%s%s, ran %s",
			       past->number, past->reason[0] ? past->reason : "ended",
			       past->reason_text[0] ? " (" : "", past->reason_text,
			       past->reason_text[0] ? ")" : "",
			       job_text_duration(ran_ns > 0 ? (uint64_t)ran_ns : 0, time));
		jobs_line("before", text);
	}
}

static void jobs_show_times(const Sluice__V1__Job *job)
{
	const Sluice__V1__Wants *wants = job->wants;
	char time[JOB_TEXT_TIME_MAX];

	if (!wants)
		return; /* another user's */

	jobs_line_time("begin", (int64_t)wants->begin_unix_ns);
	if (wants->time_ns)
		jobs_line("limit", job_text_duration(wants->time_ns, time));
	jobs_line("warning", job->warning);
}

static void jobs_show_standing(const Sluice__V1__Job *job)
{
	char text[JOB_STANDING_MAX];
	jobs_line("score", job_standing_score(job, text));
	jobs_line("usage", job_standing_usage(job, text));
	jobs_line("starts", job_standing_start(job, text));
	jobs_line("takes", job_standing_takes(job, text));
}

/* Of one that waits for its turn. */
static void jobs_show_place(const Sluice__V1__Job *job)
{
	char text[JOB_TEXT_MAX];
	if (job->place == 0)
		return;

	(void)snprintf(text, sizeof(text), "%" PRIu64 " of those that wait", job->place);
	jobs_line("place", text);
}

static void jobs_show_text(const Sluice__V1__Job *job)
{
	char text[JOB_TEXT_MAX];
	char label[JOB_TEXT_LABEL_MAX];

	printf("job %s%s", job_text_label(job, label),
	       job->name[0] ? " " : ""); /* others' have none */
	cmd_print(stdout, job->name);
	printf(": %s", job_text_state(job->state));

	if (job_text_reason(job, text)[0]) {
		fputs(", ", stdout);
		cmd_print(stdout, text);
	}

	fputc('\n', stdout);
	jobs_line("what to do", job_text_advice(job));
	(void)snprintf(text, sizeof(text), "%s (%" PRIu32 ")", job->user[0] ? job->user : "-",
		       job->uid);
	jobs_line("user", text);
	jobs_line_time("submitted", job->submitted_unix_ns);
	jobs_show_standing(job);

	jobs_show_times(job);
	jobs_show_place(job);

	if (!job->attempt || job->attempt->n_grants == 0)
		jobs_line("GPUs", job->gpus ? job_text_gpus(job, text) : "none");
	jobs_line("resources", job->resources);
	jobs_line("image", job->image);
	jobs_line_command(job);
	(void)snprintf(text, sizeof(text), "%.*s", (int)job->directory.len,
		       job->directory.data ? (char *)job->directory.data : "");
	jobs_line("directory", text);
	jobs_show_past(job);
	jobs_show_attempt(job);

	if (job->has_exit && job->signal)
		printf("  %-12s%" PRId32 " (signal %" PRIu32 ")\n", "exit code", job->exit_code,
		       job->signal);
	else if (job->has_exit)
		printf("  %-12s%" PRId32 "\n", "exit code", job->exit_code);
}

/* One as a line of the list. */
static int jobs_show_line(const struct jobs_options *options, const Sluice__V1__Job *job,
			  struct err *err)
{
	const struct jobs_list about = {.now_unix_ns = clock_unix_ns(), .array_id = job->id};
	struct job_list_options how;
	int rc = jobs_list_options(options, &about, &how, err);
	if (rc < 0)
		return rc;

	struct job_list *list = job_list_new(&how);
	if (!list)
		return err_set(err, -ENOMEM, "out of memory for a list of jobs");

	job_list_add(list, job);
	rc = job_list_print(list, stdout, err);
	(void)job_list_free(list);

	return rc;
}

static int jobs_show_one(const struct cmd_call *call, struct agent_call *agent, uint64_t id)
{
	const struct jobs_options *options = call->options;
	struct err err = {0};
	ProtobufCMessage *reply = NULL;
	Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;

	request.id = id;
	request.details = true;

	int rc = agent_call_ask(agent, AGENT_GET, &request.base, &reply, &err);
	if (rc < 0)
		return cmd_fail(call, agent_call_exit_code(agent, rc), &err);

	const Sluice__V1__Job *job = (const Sluice__V1__Job *)reply;

	rc = 0;
	if (jobs_is_json(options)) {
		json_t *json = job_text_json(job);
		if (json && json_object_set_new(json, "score", job_standing_json(job)) < 0) {
			json_decref(json);
			json = NULL; /* no memory: said when it is printed */
		}

		rc = table_print_json(json, stdout, &err);
		json_decref(json);
	} else if (options->wide || jobs_named_columns(options)) {
		rc = jobs_show_line(options, job, &err);
	} else {
		jobs_show_text(job);
	}

	agent_call_free(reply);
	return rc < 0 ? cmd_fail(call, CMD_EXIT_FAILED, &err) : CMD_EXIT_OK;
}

static int jobs_run(const struct cmd_call *call)
{
	const struct jobs_options *options = call->options;
	struct job_target target = {.id = 0};
	struct err err = {0};
	uint64_t id;

	struct job_columns columns;
	const char *named = jobs_named_columns(options);

	if (named && job_columns_parse(named, &columns, &err) < 0)
		return cmd_usage(call, "%s: %s", options->columns ? "--columns" : "--output",
				 err.text);
	if (call->argc > 0 && job_text_id(call->argv[0], &id) < 0)
		return cmd_usage(call, "'%s' is no number of a job", call->argv[0]);
	if (call->argc > 0 && options->watch)
		return cmd_usage(call, "--watch is for the list; 'sluice logs -f' follows a job");

	_cleanup_agent_call_ struct agent_call agent = AGENT_CALL_NONE;
	int exit_code = jobs_open(call, options->socket, !options->no_start, &agent);
	if (exit_code != CMD_EXIT_OK)
		return exit_code;

	int rc = call->argc > 0 ? job_target_find(&agent, call->argv[0], true, &target, &err) : 0;
	if (rc == -EINVAL)
		return cmd_fail(call, CMD_EXIT_USAGE, &err);
	if (rc < 0)
		return cmd_fail(call, agent_call_exit_code(&agent, rc), &err);
	if (target.array_count > 0)
		return jobs_show_list(call, &agent, target.id, stdout);

	if (target.id)
		return jobs_show_one(call, &agent, target.id);

	return options->watch ? jobs_watch_list(call, &agent)
			      : jobs_show_list(call, &agent, 0, stdout);
}

static const struct cmd_exit_row jobs_exits[] = {
    {CMD_EXIT_OK, "the jobs were listed, also when there are none"},
    {CMD_EXIT_USAGE, "wrong command line, or there is no such job"},
    AGENT_CALL_EXITS,
};

static const struct cmd_example jobs_examples[] = {
    {"sluice jobs", "what runs and what waits, your own first"},
    {"sluice jobs --wide", "more of each, and every user's"},
    {"sluice jobs -o id,state,reason --no-header", "these columns alone, for a script"},
    {"sluice jobs --all --state Failed --user alice", "all of alice's that failed"},
    {"sluice jobs --since 7d --state Failed", "what failed in a week"},
    {"sluice jobs --all --name 'train-*'", "all of one's own of such names"},
    {"sluice jobs 17", "one in full: its GPUs, processes, times and files"},
    {"sluice jobs wait 17 18", "until both have ended"},
    {"sluice jobs wait 'train-*'", "until all of that name have ended"},
    {"sluice jobs retry --all --state Failed", "what has failed, again"},
    {"sluice jobs prio -p -10 12-20", "these behind one's others"},
    {"sluice jobs hold 17", "does not start before 'sluice jobs release 17'"},
    {"sluice jobs set 17 --priority 10", "goes before those that wait with less"},
    {0},
};

const struct command cmd_jobs = {
    .name = "jobs",
    .summary = "List jobs, with the reason why each waits",
    .description =
	"GPUS are the GPUs that a job has, by index ('3:1' is MIG device 1 of GPU 3, '3 (2/8)' two "
	"of eight slots of GPU 3), or what it wants. TIME is how long it has run, or waited. START "
	"is the place of a job that waits among all that do, and in how long it can start at the "
	"earliest, where the limits of those before it tell: '#3 ~12m'. An array is one line. Of "
	"other users' jobs name, command and output are not shown.\n\n"
	"A line is never longer than the terminal (COLUMNS, or 80 where there is none), and of "
	"other users' jobs as many are shown as have room; --wide shows all. What has ended is "
	"listed with --all, --since or --state.\n\n"
	"A user's own service that was started by 'sluice run' ends when it is idle. Its jobs are "
	"not forgotten: it is started again to tell of them.",
    .group = CMD_GROUP_JOBS,
    .run = jobs_run,
    .commands = (const struct command *const[]){&jobs_usage, &jobs_wait, &jobs_hold, &jobs_release,
						&jobs_retry, &jobs_prio, &jobs_set, &jobs_drain,
						&jobs_resume, &jobs_reserve, &jobs_unreserve,
						&jobs_reservations, &jobs_gc, NULL},
    .options = jobs_rows,
    .options_size = sizeof(struct jobs_options),
    .positional = "[ID]",
    .positional_max = 1,
    .exits = jobs_exits,
    .examples = jobs_examples,
};
