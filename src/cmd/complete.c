/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice __complete KIND WORD`: what completion offers for a word that begins like this, a line
 * each, with a tab and what it is behind it. A shell asks while somebody types: it starts no agent,
 * waits for none longer than a moment, and says nothing when something is wrong.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/jobs/job_text.h"
#include "cmd/service/agent_call.h"
#include "sluice.pb-c.h"

enum {
	COMPLETE_MAX = 500, /* that are offered */
	COMPLETE_VALUE_MAX = 80,
	COMPLETE_TEXT_MAX = 160,
};

#define COMPLETE_DEADLINE_NS UINT64_C(300000000)

struct complete {
	const char *word;
	size_t keep; /* bytes of the word that stand before what is looked for: "0," of "0,3" */
	bool by_name;
	uint64_t array_id; /* of the members that are looked for; 0: of jobs and arrays */
	char values[COMPLETE_MAX][COMPLETE_VALUE_MAX];
	size_t count;
};

/* A shell reads it: nothing that means more than itself. */
static bool complete_is_plain(const char *value)
{
	return *value && value[strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					     "0123456789.,:_@-")] == '\0';
}

/* Offers it once. */
static void complete_offer(struct complete *complete, const char *value, const char *what)
{
	char text[COMPLETE_TEXT_MAX];
	size_t known = 0;

	if (complete->count == COMPLETE_MAX || strlen(value) >= COMPLETE_VALUE_MAX ||
	    !complete_is_plain(value) || !text_starts_with(value, complete->word + complete->keep))
		return;

	while (known < complete->count && strcmp(complete->values[known], value) != 0)
		known++;
	if (known < complete->count)
		return;

	memcpy(complete->values[complete->count++], value, strlen(value) + 1);
	(void)snprintf(text, sizeof(text), "%s", what); /* cut */
	for (char *at = text; *at; at++)
		if ((unsigned char)*at < ' ' || *at == 127)
			*at = ' ';

	printf("%.*s%s\t", (int)complete->keep, complete->word, value);
	cmd_print(stdout, text);
	putchar('\n');
}

static void complete_job(struct complete *complete, const Sluice__V1__Job *job)
{
	char label[JOB_TEXT_LABEL_MAX], what[COMPLETE_TEXT_MAX];
	bool is_array = job->array_id && !complete->array_id;
	uint32_t members = job->wants ? job->wants->array_count : 0;

	if (complete->by_name) {
		complete_offer(complete, job->name, "jobs of this name");
		return;
	}

	if (is_array) {
		(void)snprintf(label, sizeof(label), "%" PRIu64, job->array_id);
		(void)snprintf(what, sizeof(what), "%s, array of %" PRIu32, job->name, members);
	} else {
		(void)job_text_label(job, label);
		(void)snprintf(what, sizeof(what), "%s, %s", job->name, job_text_state(job->state));
	}

	complete_offer(complete, label, what);
}

static bool complete_on_jobs(const ProtobufCMessage *reply, void *context)
{
	const Sluice__V1__ListReply *page = (const Sluice__V1__ListReply *)reply;
	struct complete *complete = context;

	for (size_t i = 0; i < page->n_jobs; i++)
		complete_job(complete, page->jobs[i]);

	return complete->count < COMPLETE_MAX;
}

static bool complete_on_users(const ProtobufCMessage *reply, void *context)
{
	const Sluice__V1__ListReply *page = (const Sluice__V1__ListReply *)reply;
	struct complete *complete = context;

	for (size_t i = 0; i < page->n_jobs; i++)
		complete_offer(complete, page->jobs[i]->user, "has jobs");

	return complete->count < COMPLETE_MAX;
}

static bool complete_on_machine(const ProtobufCMessage *reply, void *context)
{
	const Sluice__V1__Machine *machine = (const Sluice__V1__Machine *)reply;
	struct complete *complete = context;

	for (size_t i = 0; i < machine->n_gpus; i++) {
		const Sluice__V1__Gpu *gpu = machine->gpus[i];
		const char *blank = strrchr(gpu->label, ' '); /* "GPU 3", "MIG 3:1" */
		complete_offer(complete, blank ? blank + 1 : gpu->label, gpu->name);
	}

	return false; /* as it is now, and no more */
}

/* Numbers, or names where the word begins like one. */
static void complete_ask_jobs(struct complete *complete, struct agent_call *agent)
{
	Sluice__V1__ListRequest request = SLUICE__V1__LIST_REQUEST__INIT;
	const char *word = complete->word, *dot = strchr(word, '.');
	struct err err;

	complete->by_name = word[0] && (word[0] < '0' || word[0] > '9');
	if (dot)
		(void)parse_u64_span(word, (size_t)(dot - word), 1, INT64_MAX, &complete->array_id);

	request.own = true;
	request.array_id = complete->array_id;
	(void)agent_call_follow(agent, AGENT_LIST, &request.base, COMPLETE_DEADLINE_NS,
				complete_on_jobs, complete, &err);
}

static void complete_ask_users(struct complete *complete, struct agent_call *agent)
{
	Sluice__V1__ListRequest request = SLUICE__V1__LIST_REQUEST__INIT;
	struct err err;
	(void)agent_call_follow(agent, AGENT_LIST, &request.base, COMPLETE_DEADLINE_NS,
				complete_on_users, complete, &err);
}

static void complete_ask_gpus(struct complete *complete, struct agent_call *agent)
{
	Sluice__V1__WatchRequest request = SLUICE__V1__WATCH_REQUEST__INIT;
	const char *comma = strrchr(complete->word, ',');
	struct err err;

	request.once = true;
	complete->keep = comma ? (size_t)(comma - complete->word) + 1 : 0;
	(void)agent_call_follow(agent, AGENT_WATCH_MACHINE, &request.base, COMPLETE_DEADLINE_NS,
				complete_on_machine, complete, &err);
}

static const struct {
	const char *name;
	void (*ask)(struct complete *complete, struct agent_call *agent);
} complete_kinds[] = {
    {"jobs", complete_ask_jobs},
    {"users", complete_ask_users},
    {"gpus", complete_ask_gpus},
};

static int complete_run(const struct cmd_call *call)
{
	struct complete *complete = calloc(1, sizeof(*complete));
	_cleanup_agent_call_ struct agent_call agent = AGENT_CALL_NONE;
	const struct agent_call_options how = {.socket = NULL};
	struct err err;
	if (!complete)
		return CMD_EXIT_OK;

	complete->word = call->argc > 1 ? call->argv[1] : "";
	for (size_t i = 0; i < array_length(complete_kinds); i++)
		if (strcmp(complete_kinds[i].name, call->argv[0]) == 0 &&
		    agent_call_open(&agent, &how, &err) == 0)
			complete_kinds[i].ask(complete, &agent);

	free(complete);
	return CMD_EXIT_OK;
}

const struct command cmd_complete = {
    .name = "__complete",
    .summary = "Print what completion offers",
    .group = CMD_GROUP_HELP,
    .hidden = true,
    .run = complete_run,
    .positional = "KIND [WORD]",
    .positional_min = 1,
    .positional_max = 2,
};
