/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/jobs_usage.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/err.h"
#include "cmd/service/agent_call.h"
#include "cmd/cmd.h"
#include "cmd/options.h"
#include "cmd/jobs/since.h"
#include "cmd/table.h"
#include "sluice.pb-c.h"

enum { USAGE_BY_USER, USAGE_BY_PROJECT };
#define USAGE_MS_PER_HOUR 3600000.0

struct usage_options {
	enum option_output output;
	const char *since, *user, *socket;
	int by;
};

static const struct option_row usage_rows[] = {
    {.name = "since",
     .kind = OPTION_TEXT,
     .value = "TIME",
     .help = "from then on: " SINCE_FORMS " (default: 30d)",
     OPTION_FIELD(struct usage_options, since)},
    {.name = "by",
     .kind = OPTION_CHOICE,
     .words = "user|project",
     .help = "a line for each (default: user)",
     OPTION_FIELD(struct usage_options, by)},
    {.name = "user",
     .letter = 'u',
     .kind = OPTION_TEXT,
     .value = "USER",
     .help = "only this user's, by name or number",
     OPTION_FIELD(struct usage_options, user)},
    OPTION_OUTPUT(struct usage_options, output),
    AGENT_CALL_SOCKET_ROW(struct usage_options),
    {0},
};

struct usage_reply {
	const struct usage_options *options;
	struct table *table; /* owned; or, for JSON: */
	json_t *json;	     /* owned */
};

static double usage_hours(uint64_t ms)
{
	return (double)ms / USAGE_MS_PER_HOUR;
}

static void usage_add_row(struct table *table, bool by_project, const Sluice__V1__Use *use)
{
	if (by_project)
		table_add(table, use->project[0] ? use->project : "(none)");
	else
		table_add(table, use->user);

	table_add_u64(table, use->jobs);
	table_add_u64(table, use->failed);
	table_addf(table, "%.2f", usage_hours(use->gpu_ms));

	if (use->cpu_jobs > 0)
		table_addf(table, "%.2f", usage_hours(use->cpu_ms));
	else
		table_add(table, NULL);

	table_addf(table, "%.2f", usage_hours(use->wall_ms));
	if (!by_project)
		table_addf(table, "%.2f", use->recent_gpu_hours);
}

static json_t *usage_json(bool by_project, const Sluice__V1__Use *use)
{
	json_t *out =
	    json_pack("{s:I, s:I, s:f, s:f, s:I, s:f}", "jobs", (json_int_t)use->jobs, "failed",
		      (json_int_t)use->failed, "gpu_hours", usage_hours(use->gpu_ms), "cpu_hours",
		      usage_hours(use->cpu_ms), "cpu_jobs", (json_int_t)use->cpu_jobs, "wall_hours",
		      usage_hours(use->wall_ms));
	if (out && by_project) {
		(void)json_object_set_new(out, "project", table_json_text(use->project));
	} else if (out) {
		(void)json_object_set_new(out, "user", table_json_text(use->user));
		(void)json_object_set_new(out, "uid", json_integer(use->uid));
		(void)json_object_set_new(out, "recent_gpu_hours",
					  json_real(use->recent_gpu_hours));
	}

	return out;
}

static bool usage_on_reply(const ProtobufCMessage *message, void *context)
{
	struct usage_reply *self = context;
	const Sluice__V1__UsageReply *reply = (const Sluice__V1__UsageReply *)message;
	bool by_project = self->options->by == USAGE_BY_PROJECT;
	json_t *list = self->table ? NULL : json_array();

	for (size_t i = 0; i < reply->n_uses; i++) {
		if (self->table)
			usage_add_row(self->table, by_project, reply->uses[i]);
		else
			(void)json_array_append_new(list, usage_json(by_project, reply->uses[i]));
	}

	if (!self->table)
		self->json =
		    json_pack("{s:I, s:I, s:o*}", "since_unix_ns", (json_int_t)reply->since_unix_ns,
			      "until_unix_ns", (json_int_t)reply->until_unix_ns, "usage", list);

	return true;
}

static int usage_ask(const struct cmd_call *call, const Sluice__V1__UsageRequest *request,
		     struct usage_reply *reply)
{
	const struct usage_options *options = call->options;
	const struct agent_call_options how = {
	    .socket = options->socket, .may_wake = true, .path = call->path};
	_cleanup_agent_call_ struct agent_call agent = AGENT_CALL_NONE;
	struct err err = {0};
	int rc = agent_call_open(&agent, &how, &err);
	if (rc == 0)
		rc = agent_call_follow(&agent, AGENT_USAGE, &request->base, AGENT_CALL_DEADLINE_NS,
				       usage_on_reply, reply, &err);

	return rc < 0 ? cmd_fail(call, agent_call_exit_code(&agent, rc), &err) : CMD_EXIT_OK;
}

static int usage_run(const struct cmd_call *call)
{
	static const struct table_column columns[] = {
	    {.title = "USER", .may_shrink = true},
	    {.title = "JOBS", .align = TABLE_RIGHT},
	    {.title = "FAILED", .align = TABLE_RIGHT},
	    {.title = "GPU-HOURS", .align = TABLE_RIGHT},
	    {.title = "CPU-HOURS", .align = TABLE_RIGHT},
	    {.title = "HOURS", .align = TABLE_RIGHT},
	    {.title = "RECENT", .align = TABLE_RIGHT}, /* last: projects have none */
	};
	const struct usage_options *options = call->options;
	struct table_column own[array_length(columns)];
	struct err err = {0};
	struct usage_reply reply = {.options = options};
	Sluice__V1__UsageRequest request = SLUICE__V1__USAGE_REQUEST__INIT;

	if (since_read(options->since ? options->since : "30d", clock_unix_ns(),
		       &request.since_unix_ns, &err) < 0)
		return cmd_usage(call, "--since: %s", err.text);

	request.by_project = options->by == USAGE_BY_PROJECT;
	request.user = options->user ? (char *)options->user : request.user;
	memcpy(own, columns, sizeof(own));

	if (request.by_project)
		own[0].title = "PROJECT";
	if (options->output != OPTION_OUTPUT_JSON)
		reply.table = table_new(own, array_length(own) - request.by_project);

	int exit_code = usage_ask(call, &request, &reply);
	int rc = 0;

	if (exit_code == CMD_EXIT_OK && reply.table)
		rc = table_print(reply.table, stdout, table_width(stdout), &err);
	else if (exit_code == CMD_EXIT_OK)
		rc = table_print_json(reply.json, stdout, &err);

	reply.table = table_free(reply.table);
	json_decref(reply.json);
	return rc < 0 ? cmd_fail(call, CMD_EXIT_FAILED, &err) : exit_code;
}

static const struct cmd_exit_row usage_exits[] = {
    {CMD_EXIT_OK, "it was printed, also when there is none"},
    {CMD_EXIT_USAGE, "wrong command line"},
    {CMD_EXIT_NOT_PERMITTED, "the projects of somebody else"},
    AGENT_CALL_EXITS,
};

static const struct cmd_example usage_examples[] = {
    {"sluice jobs usage --since 7d", "who has had how much in a week"},
    {"sluice jobs usage --by project --since 2026-11-01", "your own projects since then"},
    {0},
};

const struct command jobs_usage = {
    .name = "usage",
    .summary = "Show what users and projects have had of the machine",
    .description =
	"Counts the attempts of all jobs that are remembered, those that run included, cut to the "
	"time since --since. GPU-HOURS are devices times time; a share counts its part. CPU-HOURS "
	"are the processors that jobs have asked for with --cpus, times time: jobs that have not "
	"asked are not in it. HOURS is the time of all attempts. FAILED are jobs that have failed "
	"for good. RECENT are the GPU-hours that count against the user's waiting jobs, whatever "
	"--since says: after each half-life (sluice.jobs.fairness.halfLife) half as much. By "
	"project everybody sees his own jobs, and root and the members of "
	"sluice.jobs.adminGroup those of all.",
    .run = usage_run,
    .options = usage_rows,
    .options_size = sizeof(struct usage_options),
    .exits = usage_exits,
    .examples = usage_examples,
};
