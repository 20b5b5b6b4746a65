/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/admin/jobs_claim.h"

#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/parse.h"
#include "cmd/cmd.h"
#include "cmd/jobs/admin/claim_show.h"
#include "cmd/jobs/job_text.h"
#include "cmd/jobs/run/run_wants.h"
#include "cmd/options.h"
#include "cmd/service/agent_call.h"
#include "cmd/table.h"
#include "job/moment.h"
#include "sluice.pb-c.h"

enum { CLAIM_COLUMNS = 6 };

struct claim_options {
	const char *socket, *gpu, *user, *group, *name, *reason, *begin;
	uint32_t gpus, output;
	uint64_t time_ns, lead_ns;
};

#define CLAIM_ROW(name_, kind_, value_, help_, field_)                                             \
	{                                                                                          \
		.name = name_, .kind = kind_, .value = value_, .help = help_,                      \
		OPTION_FIELD(struct claim_options, field_)                                         \
	}

static const struct option_row drain_rows[] = {
    CLAIM_ROW("gpu", OPTION_TEXT, "LIST",
	      "these GPUs alone: indices (3), MIG devices (3:1) and UUIDs, separated by commas",
	      gpu),
    CLAIM_ROW("user", OPTION_TEXT, "NAME", "the jobs of this user alone", user),
    CLAIM_ROW("reason", OPTION_TEXT, "TEXT", "with --gpu or --user: what those who wait are told",
	      reason),
    AGENT_CALL_SOCKET_ROW(struct claim_options),
    {0},
};

static const struct option_row resume_rows[] = {
    CLAIM_ROW("gpu", OPTION_TEXT, "LIST", "these GPUs alone, as for 'drain'", gpu),
    CLAIM_ROW("user", OPTION_TEXT, "NAME", "the jobs of this user alone", user),
    AGENT_CALL_SOCKET_ROW(struct claim_options),
    {0},
};

static const struct option_row reserve_rows[] = {
    {.name = "gpus",
     .letter = 'g',
     .kind = OPTION_U32,
     .value = "N",
     .help = "any so many GPUs that are not reserved then; the answer says which",
     .min = 1,
     .max = 64,
     OPTION_FIELD(struct claim_options, gpus)},
    CLAIM_ROW("gpu-ids", OPTION_TEXT, "LIST", "exactly these, as for 'sluice run'", gpu),
    CLAIM_ROW("user", OPTION_TEXT, "NAME", "for the jobs of this user", user),
    CLAIM_ROW("group", OPTION_TEXT, "NAME", "for the jobs of the members of this group", group),
    CLAIM_ROW("begin", OPTION_TEXT, "MOMENT", "from then on: " MOMENT_FORMS " (default now)",
	      begin),
    {.name = "time",
     .letter = 't',
     .kind = OPTION_DURATION,
     .value = "TIME",
     .help = "for so long",
     .min = CLOCK_NS_PER_S,
     OPTION_FIELD(struct claim_options, time_ns)},
    {.name = "lead",
     .kind = OPTION_DURATION,
     .value = "TIME",
     .help = "so long before it begins no job without a time limit starts there (default 24h)",
     .min = 1,
     OPTION_FIELD(struct claim_options, lead_ns)},
    CLAIM_ROW("name", OPTION_TEXT, "NAME", "what it is called (default r1, r2, ...)", name),
    CLAIM_ROW("reason", OPTION_TEXT, "TEXT", "what those who wait are told", reason),
    AGENT_CALL_SOCKET_ROW(struct claim_options),
    {0},
};

static const struct option_row unreserve_rows[] = {
    AGENT_CALL_SOCKET_ROW(struct claim_options),
    {0},
};

static const struct option_row reservations_rows[] = {
    AGENT_CALL_SOCKET_ROW(struct claim_options),
    OPTION_OUTPUT(struct claim_options, output),
    {0},
};

static const struct claim_options claim_defaults = {.gpus = 0};

static int claim_open(const struct cmd_call *call, struct agent_call *agent)
{
	const struct claim_options *options = call->options;
	struct err err = {0};
	const struct agent_call_options how = {
	    .socket = options->socket, .may_wake = true, .path = call->path};
	int rc = agent_call_open(agent, &how, &err);
	return rc < 0 ? cmd_fail(call, agent_call_exit_code(agent, rc), &err) : CMD_EXIT_OK;
}

/* A name or a number. */
static int claim_user(const char *text, Sluice__V1__Claim *out, struct err *err)
{
	uint64_t number;
	const struct passwd *user = getpwnam(text);

	if (!user && parse_u64(text, 0, UINT32_MAX - 1, &number) < 0)
		return err_set(err, -EINVAL, "there is no user '%s'", text);

	out->has_user = true;
	out->uid = user ? user->pw_uid : (uint32_t)number;
	out->who = (char *)text;
	return 0;
}

static int claim_group(const char *text, Sluice__V1__Claim *out, struct err *err)
{
	uint64_t number;
	const struct group *group = getgrnam(text);

	if (!group && parse_u64(text, 0, UINT32_MAX - 1, &number) < 0)
		return err_set(err, -EINVAL, "there is no group '%s'", text);

	out->has_group = true;
	out->gid = group ? group->gr_gid : (uint32_t)number;
	out->who = (char *)text;
	return 0;
}

static int claim_ask(const struct cmd_call *call, Sluice__V1__ClaimRequest *request, bool tells)
{
	_cleanup_agent_call_ struct agent_call agent = AGENT_CALL_NONE;
	ProtobufCMessage *reply = NULL;
	struct err err = {0};
	int exit_code = claim_open(call, &agent);
	if (exit_code != CMD_EXIT_OK)
		return exit_code;

	int rc = agent_call_ask(&agent, AGENT_CLAIM, &request->base, &reply, &err);
	if (rc < 0)
		return cmd_fail(call, agent_call_exit_code(&agent, rc), &err);

	if (tells) {
		cmd_print(stdout, ((const Sluice__V1__ClaimReply *)reply)->text);
		fputc('\n', stdout);
	}

	agent_call_free(reply);
	return CMD_EXIT_OK;
}

/* --- draining --------------------------------------------------------------------------------- */

static int drain_all(const struct cmd_call *call, bool is_draining)
{
	_cleanup_agent_call_ struct agent_call agent = AGENT_CALL_NONE;
	Sluice__V1__DrainRequest request = SLUICE__V1__DRAIN_REQUEST__INIT;
	struct err err = {0};
	int exit_code = claim_open(call, &agent);
	if (exit_code != CMD_EXIT_OK)
		return exit_code;

	request.is_draining = is_draining;
	int rc = agent_call_ask(&agent, AGENT_DRAIN, &request.base, NULL, &err);
	return rc < 0 ? cmd_fail(call, agent_call_exit_code(&agent, rc), &err) : CMD_EXIT_OK;
}

static int drain_to(const struct cmd_call *call, bool is_draining)
{
	const struct claim_options *options = call->options;
	Sluice__V1__ClaimRequest request = SLUICE__V1__CLAIM_REQUEST__INIT;
	Sluice__V1__Claim claim = SLUICE__V1__CLAIM__INIT;
	struct err err = {0};

	if (options->gpu && options->user)
		return cmd_usage(call, "--gpu and --user exclude each other: call it twice");
	if (!options->gpu && !options->user && options->reason)
		return cmd_usage(call, "--reason is for --gpu and --user");
	if (!options->gpu && !options->user)
		return drain_all(call, is_draining);
	if (options->gpu && !*options->gpu)
		return cmd_usage(call, "--gpu names no GPU");
	if (options->user && claim_user(options->user, &claim, &err) < 0)
		return cmd_usage(call, "--user: %s", err.text);

	claim.kind = options->gpu ? CLAIM_SHOW_DRAINED_GPUS : CLAIM_SHOW_DRAINED_USER;
	claim.reason = options->reason ? (char *)options->reason : claim.reason;
	request.claim = &claim;
	request.gpu_ids = options->gpu ? (char *)options->gpu : request.gpu_ids;
	request.remove = !is_draining;
	return claim_ask(call, &request, false);
}

static int drain_run(const struct cmd_call *call)
{
	return drain_to(call, true);
}

static int resume_run(const struct cmd_call *call)
{
	return drain_to(call, false);
}

/* --- reservations ----------------------------------------------------------------------------- */

static int reserve_run(const struct cmd_call *call)
{
	const struct claim_options *options = call->options;
	Sluice__V1__ClaimRequest request = SLUICE__V1__CLAIM_REQUEST__INIT;
	Sluice__V1__Claim claim = SLUICE__V1__CLAIM__INIT;
	struct err err = {0};
	uint64_t begin_ns = (uint64_t)clock_unix_ns();

	if (!options->gpus == !options->gpu)
		return cmd_usage(call, "either --gpus or --gpu-ids says which GPUs are reserved");
	if (!options->user == !options->group)
		return cmd_usage(call, "either --user or --group says for whom they are reserved");
	if (options->time_ns == 0)
		return cmd_usage(call, "--time says how long they are reserved");

	int rc = options->user ? claim_user(options->user, &claim, &err)
			       : claim_group(options->group, &claim, &err);
	if (rc < 0)
		return cmd_usage(call, "%s", err.text);
	if (options->begin && run_wants_begin(options->begin, &begin_ns, &err) < 0)
		return cmd_usage(call, "--begin: %s", err.text);
	if (options->time_ns > INT64_MAX - begin_ns)
		return cmd_usage(call, "--time: that is longer than a clock can count");

	claim.kind = CLAIM_SHOW_RESERVATION;
	claim.name = options->name ? (char *)options->name : claim.name;
	claim.reason = options->reason ? (char *)options->reason : claim.reason;
	claim.begin_unix_ns = (int64_t)begin_ns;
	claim.end_unix_ns = (int64_t)(begin_ns + options->time_ns);
	claim.lead_ns = options->lead_ns;
	request.claim = &claim;
	request.gpus = options->gpus;
	request.gpu_ids = options->gpu ? (char *)options->gpu : request.gpu_ids;
	return claim_ask(call, &request, true);
}

static int unreserve_run(const struct cmd_call *call)
{
	int worst = CMD_EXIT_OK;

	for (int i = 0; i < call->argc; i++) {
		Sluice__V1__ClaimRequest request = SLUICE__V1__CLAIM_REQUEST__INIT;
		Sluice__V1__Claim claim = SLUICE__V1__CLAIM__INIT;

		claim.kind = CLAIM_SHOW_RESERVATION;
		claim.name = call->argv[i];
		request.claim = &claim;
		request.remove = true;
		int one = claim_ask(call, &request, false);
		worst = one != CMD_EXIT_OK ? one : worst;
	}

	return worst;
}

static int reservations_run(const struct cmd_call *call)
{
	static const struct table_column columns[CLAIM_COLUMNS] = {
	    {.title = "NAME"}, {.title = "GPUS"},  {.title = "FOR"},
	    {.title = "FROM"}, {.title = "UNTIL"}, {.title = "REASON", .may_shrink = true}};
	const struct claim_options *options = call->options;
	_cleanup_agent_call_ struct agent_call agent = AGENT_CALL_NONE;
	Sluice__V1__ClaimsRequest request = SLUICE__V1__CLAIMS_REQUEST__INIT;
	ProtobufCMessage *reply = NULL;
	struct err err = {0};
	int exit_code = claim_open(call, &agent);
	if (exit_code != CMD_EXIT_OK)
		return exit_code;

	int rc = agent_call_ask(&agent, AGENT_CLAIMS, &request.base, &reply, &err);
	if (rc < 0)
		return cmd_fail(call, agent_call_exit_code(&agent, rc), &err);

	const Sluice__V1__Claims *claims = (const Sluice__V1__Claims *)reply;
	bool is_json = options->output == OPTION_OUTPUT_JSON;
	json_t *list = is_json ? json_array() : NULL;
	_cleanup_table_ struct table *table = is_json ? NULL : table_new(columns, CLAIM_COLUMNS);

	for (size_t i = 0; i < claims->n_claims; i++) {
		if (list)
			(void)json_array_append_new(list, claim_show_json(claims->claims[i]));
		else if (table)
			claim_show_row(table, claims->claims[i]);
	}

	if (is_json) {
		json_t *all = json_pack("{s:o*}", "reservations", list);
		rc = table_print_json(all, stdout, &err);
		json_decref(all);
	} else {
		rc = table_print(table, stdout, table_width(stdout), &err);
	}

	agent_call_free(reply);
	return rc < 0 ? cmd_fail(call, CMD_EXIT_FAILED, &err) : CMD_EXIT_OK;
}

/* --- the commands ----------------------------------------------------------------------------- */

static const struct cmd_exit_row claim_exits[] = {
    {CMD_EXIT_OK, "it is done, and stays so whatever happens to the agent"},
    {CMD_EXIT_USAGE,
     "wrong command line, or there is no such GPU, user, group or reservation, or too few GPUs"},
    {CMD_EXIT_DATA, "the name is taken, or a GPU is reserved at that time"},
    {CMD_EXIT_CANNOT_WRITE, "the agent cannot write its state"},
    AGENT_CALL_EXITS,
};

#define CLAIM_COMMAND(name_, summary_, run_, rows_)                                                \
	.name = name_, .summary = summary_, .run = run_, .options = rows_,                         \
	.defaults = &claim_defaults, .options_size = sizeof(struct claim_options),                 \
	.exits = claim_exits

const struct command jobs_drain = {
    CLAIM_COMMAND("drain", "Finish what runs and start nothing, or nothing on a GPU or of a user",
		  drain_run, drain_rows),
};

const struct command jobs_resume = {
    CLAIM_COMMAND("resume", "Start jobs again after 'drain'", resume_run, resume_rows),
};

const struct command jobs_reserve = {
    CLAIM_COMMAND("reserve", "Keep GPUs for a user or a group in a window of time", reserve_run,
		  reserve_rows),
};

const struct command jobs_unreserve = {
    CLAIM_COMMAND("unreserve", "End reservations", unreserve_run, unreserve_rows),
    .positional = "NAME...",
    .positional_min = 1,
    .positional_max = 64,
};

const struct command jobs_reservations = {
    CLAIM_COMMAND("reservations", "Show what is reserved and drained", reservations_run,
		  reservations_rows),
};
