/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/job_select.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "cmd/jobs/job_target.h"
#include "cmd/jobs/job_text.h"
#include "cmd/service/agent_call.h"

enum {
	SELECT_PLAIN_MAX = 16,	     /* arguments that are asked for one by one */
	SELECT_RANGES_AT_ONCE = 256, /* of one request */
	SELECT_NAMES_AT_ONCE = 32,
	SELECT_JOBS_AT_ONCE = 10000,
	SELECT_TEXT_MAX = 512,
};

void job_select_done(struct job_select *select)
{
	free(take_ptr(select->items));
	free(take_ptr(select->is_found));
	free(take_ptr(select->jobs));
	select->item_count = select->count = 0;
}

/* --- what is meant ---------------------------------------------------------------------------- */

int job_select_read(const struct cmd_call *call, const struct job_select_options *options,
		    struct job_select *out)
{
	size_t arguments = (size_t)call->argc, names = options->names.count;
	struct err err = {0};
	bool narrows = options->user || options->states.count > 0;

	*out = (struct job_select){.options = options, .argument_count = arguments};
	if (arguments + names > 0 && options->all)
		return cmd_usage(call, "--all means all jobs, and '%s' some",
				 arguments ? call->argv[0] : options->names.items[0]);
	if (arguments + names == 0 && !options->all && !narrows)
		return cmd_usage(call, "which jobs? Numbers (17, 12-20, 17.3), names ('train-*'), "
				       "--user, --state or --all say so");

	out->items = calloc(arguments + names + 1, sizeof(*out->items));
	out->is_found = calloc(arguments + names + 1, sizeof(*out->is_found));
	if (!out->items || !out->is_found)
		return cmd_usage(call, "no memory for %zu arguments", arguments + names);

	out->is_plain = arguments > 0 && arguments <= SELECT_PLAIN_MAX && names == 0 && !narrows;

	for (size_t i = 0; i < arguments + names; i++) {
		struct job_set_item *item = &out->items[i];
		int rc = i < arguments
			     ? job_set_read(call->argv[i], item, &err)
			     : job_set_read_name(options->names.items[i - arguments], item, &err);
		if (rc < 0)
			return cmd_usage(call, "%s", err.text);

		out->item_count++;
		out->is_plain = out->is_plain && job_set_is_single(item);
	}

	return CMD_EXIT_OK;
}

/* --- which there are -------------------------------------------------------------------------- */

struct select_listing {
	struct job_select *select;
	size_t room;
	int result;
};

static bool select_wants(struct job_select *select, const Sluice__V1__Job *job)
{
	bool wants = select->item_count == 0;

	for (size_t i = 0; i < select->item_count; i++) {
		if (job_set_has(&select->items[i], job))
			wants = select->is_found[i] = true;
	}

	return wants;
}

static bool select_on_page(const ProtobufCMessage *reply, void *context)
{
	struct select_listing *listing = context;
	struct job_select *select = listing->select;
	const Sluice__V1__ListReply *page = (const Sluice__V1__ListReply *)reply;

	for (size_t i = 0; i < page->n_jobs; i++) {
		const Sluice__V1__Job *job = page->jobs[i];
		if (!select_wants(select, job))
			continue;

		if (array_room(&select->jobs, select->count, &listing->room, 64) < 0) {
			listing->result = -ENOMEM;
			return false;
		}

		select->jobs[select->count++] =
		    (struct job_selected){job->id,	    job->array_id, job->array_index,
					  job->array_count, job->uid,	   job->state};
	}

	return true;
}

static int select_compare(const void *left, const void *right)
{
	const struct job_selected *a = left, *b = right;
	return a->id < b->id ? -1 : a->id > b->id;
}

/* Ascending, each once. */
static void select_sort(struct job_select *select)
{
	size_t kept = 0;
	if (select->count > 1)
		qsort(select->jobs, select->count, sizeof(*select->jobs), select_compare);

	for (size_t i = 0; i < select->count; i++)
		if (kept == 0 || select->jobs[i].id != select->jobs[kept - 1].id)
			select->jobs[kept++] = select->jobs[i];

	select->count = kept;
}

/* Of the states in which it can be done those that are wanted. */
static int select_states(const struct cmd_call *call, const struct job_select_verb *verb,
			 const struct option_list *wanted, Sluice__V1__JobState *out,
			 size_t *out_count)
{
	struct err err = {0};
	size_t count = 0;

	for (size_t i = 0; i < wanted->count; i++) {
		Sluice__V1__JobState state;
		bool is_possible = verb->state_count == 0;
		if (job_text_state_parse(wanted->items[i], &state, &err) < 0)
			return cmd_usage(call, "--state: %s", err.text);

		for (size_t k = 0; k < verb->state_count; k++)
			is_possible = is_possible || verb->states[k] == state;
		if (!is_possible)
			return cmd_usage(call, "--state %s: only a job that %s can be %s",
					 job_text_state(state), verb->can, verb->participle);
		if (count < JOB_SELECT_STATES_MAX)
			out[count++] = state;
	}

	for (size_t k = 0; wanted->count == 0 && k < verb->state_count; k++)
		out[count++] = verb->states[k];

	*out_count = count;
	return CMD_EXIT_OK;
}

/* As many of the items, from `*at` on, as one request takes. Numbers in a row are one range. */
static void select_fill(const struct job_select *select, size_t *at,
			Sluice__V1__ListRequest *request, Sluice__V1__JobRange *ranges)
{
	request->n_names = request->n_ranges = 0;

	for (; *at < select->item_count; (*at)++) {
		const struct job_set_item *item = &select->items[*at];
		size_t n = request->n_ranges;
		bool is_next = n > 0 && item->kind == JOB_SET_ID && ranges[n - 1].alone &&
			       item->first == ranges[n - 1].last + 1;
		if (is_next) {
			ranges[n - 1].last++;
			continue;
		}

		if (item->kind == JOB_SET_NAME && request->n_names < SELECT_NAMES_AT_ONCE) {
			request->names[request->n_names++] = (char *)item->text;
			continue;
		}

		if (item->kind == JOB_SET_NAME || n == SELECT_RANGES_AT_ONCE)
			return;

		sluice__v1__job_range__init(&ranges[n]);
		ranges[n].first = item->first;
		ranges[n].last = item->last;
		ranges[n].array_id = item->array_id;
		ranges[n].alone = item->kind == JOB_SET_ID;
		request->ranges[n] = &ranges[n];
		request->n_ranges++;
	}
}

static int select_list(struct agent_call *agent, struct job_select *select,
		       Sluice__V1__ListRequest *request, struct err *err)
{
	struct select_listing listing = {.select = select};
	Sluice__V1__JobRange ranges[SELECT_RANGES_AT_ONCE];
	Sluice__V1__JobRange *range_list[SELECT_RANGES_AT_ONCE];
	char *names[SELECT_NAMES_AT_ONCE];
	size_t at = 0;
	int rc;

	request->ranges = range_list;
	request->names = names;

	do {
		select_fill(select, &at, request, ranges);
		rc = agent_call_follow(agent, AGENT_LIST, &request->base, AGENT_CALL_DEADLINE_NS,
				       select_on_page, &listing, err);
		if (rc == 0 && listing.result < 0)
			rc = err_set(err, listing.result, "no memory for so many jobs");
	} while (rc == 0 && at < select->item_count);

	select_sort(select);
	return rc;
}

static void select_add(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void select_add(char *text, const char *format, ...)
{
	size_t used = strlen(text);
	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(text + used, SELECT_TEXT_MAX - used, format, arguments); /* cut */
	va_end(arguments);
}

/* "'train-*', of user bob, in state Running" */
static const char *select_describe(const struct job_select *select, char text[SELECT_TEXT_MAX])
{
	const struct job_select_options *options = select->options;

	text[0] = '\0';
	for (size_t i = 0; i < select->item_count; i++)
		select_add(text, "%s'%s'", i ? " " : "", select->items[i].text);
	if (options->all)
		select_add(text, "--all");
	if (options->user)
		select_add(text, "%s--user %s", *text ? " " : "", options->user);
	for (size_t i = 0; i < options->states.count; i++)
		select_add(text, "%s--state %s", *text ? " " : "", options->states.items[i]);

	return text;
}

int job_select_find(const struct cmd_call *call, struct agent_call *agent,
		    const struct job_select_verb *verb, struct job_select *select)
{
	const struct job_select_options *options = select->options;
	Sluice__V1__ListRequest request = SLUICE__V1__LIST_REQUEST__INIT;
	struct err err = {0};
	int exit_code =
	    select_states(call, verb, &options->states, select->states, &select->state_count);
	if (exit_code != CMD_EXIT_OK)
		return exit_code;

	bool has_number = false, has_set = select->item_count == 0;
	for (size_t i = 0; i < select->item_count; i++)
		has_number = has_number || select->items[i].kind != JOB_SET_NAME;

	request.states = select->states;
	request.n_states = select->state_count;
	request.own = true;
	request.all = verb->has_ended && has_number;
	request.user = options->user ? (char *)options->user : request.user;

	int rc = select_list(agent, select, &request, &err);
	if (rc < 0)
		return cmd_fail(call, agent_call_exit_code(agent, rc), &err);

	select->is_listed = true;
	for (size_t i = 0; i < select->item_count; i++) {
		const struct job_set_item *item = &select->items[i];
		bool is_set = !job_set_is_single(item) || options->user || options->states.count;

		has_set = has_set || is_set;
		if (select->is_found[i] || !is_set || options->quiet || select->count == 0)
			continue;

		(void)err_set(&err, -ENOENT, "no job of yours that %s fits '%s'", verb->can,
			      item->text);
		exit_code = cmd_fail(call, CMD_EXIT_USAGE, &err);
	}

	if (select->count > 0 || !has_set || options->quiet)
		return exit_code;

	char text[SELECT_TEXT_MAX];
	(void)err_set(&err, -ENOENT,
		      "no job of yours that %s fits %s; 'sluice jobs --all' shows what there is",
		      verb->can, select_describe(select, text));
	return cmd_fail(call, CMD_EXIT_USAGE, &err);
}

/* --- what is done to them --------------------------------------------------------------------- */

/* False: whoever sits at the terminal does not want it. */
static bool select_ask(const struct cmd_call *call, const struct job_select *select,
		       const struct job_select_verb *verb, uint64_t count)
{
	if (count <= JOB_SELECT_ASK_ABOVE || select->options->yes || !isatty(STDIN_FILENO) ||
	    !isatty(STDERR_FILENO))
		return true;

	char answer[16] = "";
	fprintf(stderr, "%s: %s %" PRIu64 " jobs? [y/N] ", call->path, verb->infinitive, count);
	(void)fflush(stderr);
	if (!fgets(answer, sizeof(answer), stdin))
		fputc('\n', stderr);
	if (answer[0] == 'y' || answer[0] == 'Y')
		return true;

	fprintf(stderr, "%s: nothing was changed\n", call->path);
	return false;
}

static int select_report(const struct cmd_call *call, const struct job_select_verb *verb,
			 const Sluice__V1__ActReply *reply)
{
	int exit_code = CMD_EXIT_OK;
	struct err err;

	for (size_t i = 0; i < reply->n_refusals; i++) {
		const Sluice__V1__ActRefusal *refusal = reply->refusals[i];
		if (verb->may_be_over && refusal->status == WIRE_NOT_FOUND)
			continue;

		(void)err_set(&err, -EREMOTEIO, "%s", refusal->text);
		exit_code = cmd_fail(
		    call, agent_call_exit_of_status((enum wire_status)refusal->status), &err);
	}

	if (reply->refused > reply->n_refusals) {
		(void)err_set(&err, -EREMOTEIO, "%" PRIu64 " more were refused",
			      reply->refused - reply->n_refusals);
		exit_code = cmd_fail(call, exit_code ? exit_code : CMD_EXIT_FAILED, &err);
	}

	return exit_code;
}

/* In as few calls as there may be. */
static int select_change(const struct cmd_call *call, struct agent_call *agent,
			 const struct job_select_verb *verb, const struct job_select *select,
			 Sluice__V1__ActRequest *request, uint64_t *out_changed)
{
	_cleanup_free_ uint64_t *ids = calloc(select->count + 1, sizeof(*ids));
	struct err err = {0};
	int worst = CMD_EXIT_OK;
	if (!ids)
		return cmd_usage(call, "no memory for %zu jobs", select->count);

	request->ids = ids;

	for (size_t at = 0; at < select->count;) {
		uint32_t uid = select->jobs[at].uid;
		ProtobufCMessage *message = NULL;

		request->n_ids = 0;
		while (at < select->count && request->n_ids < SELECT_JOBS_AT_ONCE &&
		       (!verb->by_user || select->jobs[at].uid == uid))
			ids[request->n_ids++] = select->jobs[at++].id;

		int rc = agent_call_ask(agent, AGENT_ACT, &request->base, &message, &err);
		if (rc < 0) {
			worst = cmd_fail(call, agent_call_exit_code(agent, rc), &err);
			continue;
		}

		const Sluice__V1__ActReply *reply = (const Sluice__V1__ActReply *)message;
		int exit_code = select_report(call, verb, reply);

		worst = exit_code ? exit_code : worst;
		*out_changed += reply->changed;
		agent_call_free(message);
	}

	return worst;
}

static int select_by_user(const void *left, const void *right)
{
	const struct job_selected *a = left, *b = right;
	if (a->uid != b->uid)
		return a->uid < b->uid ? -1 : 1;
	return select_compare(left, right);
}

/* A few numbers: how many jobs they are, for arrays have many; 0: not known, the next call says
 * why. */
static uint64_t select_count_plain(const struct cmd_call *call, struct agent_call *agent)
{
	uint64_t count = 0;

	for (int i = 0; i < call->argc; i++) {
		struct job_target target;
		struct err err;
		if (job_target_find(agent, call->argv[i], true, &target, &err) == 0)
			count += target.array_count ? target.array_count : 1;
	}

	return count;
}

static int select_one_by_one(const struct cmd_call *call, struct agent_call *agent,
			     const struct job_select_verb *verb, const struct job_select *select)
{
	int worst = CMD_EXIT_OK;
	bool is_terminal = isatty(STDIN_FILENO) && !select->options->yes;
	if (is_terminal && !select_ask(call, select, verb, select_count_plain(call, agent)))
		return CMD_EXIT_FAILED;

	for (size_t i = 0; i < select->argument_count; i++) {
		int exit_code = verb->one(call, agent, call->argv[i], verb->context);
		worst = exit_code ? exit_code : worst;
	}

	return worst;
}

/* What cannot be done to many in one call. An array that is meant as a whole is one, of another the
 * first that is meant stands for them: the agent says why it is not done. */
static int select_each(const struct cmd_call *call, struct agent_call *agent,
		       const struct job_select_verb *verb, const struct job_select *select,
		       uint64_t *out_changed)
{
	int worst = CMD_EXIT_OK;

	for (size_t at = 0, end; at < select->count; at = end) {
		const struct job_selected *first = &select->jobs[at];
		bool is_array = first->array_id > 0;
		char text[48];

		for (end = at + 1; is_array && end < select->count &&
				   select->jobs[end].array_id == first->array_id;)
			end++;

		if (!is_array)
			(void)snprintf(text, sizeof(text), "%" PRIu64, first->id);
		else if (end - at == first->array_count)
			(void)snprintf(text, sizeof(text), "%" PRIu64, first->array_id);
		else
			(void)snprintf(text, sizeof(text), "%" PRIu64 ".%" PRIu32, first->array_id,
				       first->array_index);

		int exit_code = verb->one(call, agent, text, verb->context);
		worst = exit_code ? exit_code : worst;
		*out_changed += exit_code ? 0 : end - at;
	}

	return worst;
}

int job_select_act(const struct cmd_call *call, struct agent_call *agent,
		   const struct job_select_verb *verb, struct job_select *select,
		   Sluice__V1__ActRequest *request)
{
	const struct job_select_options *options = select->options;
	if (select->is_plain)
		return select_one_by_one(call, agent, verb, select);

	uint64_t changed = 0;
	int worst = job_select_find(call, agent, verb, select);
	if (!select->is_listed)
		return worst;
	if (!select_ask(call, select, verb, select->count))
		return CMD_EXIT_FAILED;

	/* What was another one when it was listed is not meant. */
	request->states = select->states;
	request->n_states = select->state_count;
	if (verb->by_user && select->count > 1)
		qsort(select->jobs, select->count, sizeof(*select->jobs), select_by_user);

	if (select->count > 0) {
		int exit_code = verb->by_one
				    ? select_each(call, agent, verb, select, &changed)
				    : select_change(call, agent, verb, select, request, &changed);
		worst = exit_code ? exit_code : worst;
	}

	/* Why a number fits nothing. */
	for (size_t i = 0; i < select->argument_count; i++) {
		if (select->is_found[i] || !job_set_is_single(&select->items[i]) || options->user ||
		    options->states.count > 0)
			continue;

		int exit_code = verb->one(call, agent, call->argv[i], verb->context);
		worst = exit_code ? exit_code : worst;
	}

	if (select->count > 0 && !options->quiet)
		printf("%" PRIu64 " job%s %s\n", changed, changed == 1 ? "" : "s",
		       verb->participle);

	return worst;
}
