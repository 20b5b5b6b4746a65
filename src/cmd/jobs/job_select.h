/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that act on sets of jobs: `sluice cancel 12-20 'train-*' --state Pending`. Reads what is
 * meant, has the agent list it, asks on a terminal where many would change, and has them changed in
 * one call. Knows nothing of what is done to them.
 */
#ifndef SLUICE_CMD_JOBS_JOB_SELECT_H
#define SLUICE_CMD_JOBS_JOB_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/cmd.h"
#include "cmd/jobs/job_set.h"
#include "cmd/options.h"
#include "sluice.pb-c.h"

struct agent_call;

enum job_select_limits {
	JOB_SELECT_ARGUMENTS_MAX = 10000,
	JOB_SELECT_ASK_ABOVE = 5, /* jobs: more are asked about on a terminal */
	JOB_SELECT_STATES_MAX = 9,
};

/* Part of the options of each such command, as member `select`. */
struct job_select_options {
	bool all, yes, quiet;
	const char *user;
	struct option_list states, names;
};

/* The rows that say which; those of --yes and --quiet are apart, for some commands only read. */
#define JOB_SELECT_ROWS(type)                                                                      \
	{.name = "name",                                                                           \
	 .kind = OPTION_LIST,                                                                      \
	 .value = "GLOB",                                                                          \
	 .help = "jobs of that name, with * ? and [a-z]; may be given again",                      \
	 OPTION_FIELD(type, select.names)},                                                        \
	    {.name = "state",                                                                      \
	     .kind = OPTION_LIST,                                                                  \
	     .value = "STATE",                                                                     \
	     .words = "Pending|Held|Starting|Running|Stopping|Succeeded|Failed|Cancelled",         \
	     .help = "of these jobs, or of all, those in this state; may be given again",          \
	     OPTION_FIELD(type, select.states)},                                                   \
	    {.name = "user",                                                                       \
	     .letter = 'u',                                                                        \
	     .kind = OPTION_TEXT,                                                                  \
	     .value = "USER",                                                                      \
	     .words = "@users",                                                                    \
	     .help = "of these jobs, or of all, those of this user, by name or number",            \
	     OPTION_FIELD(type, select.user)},                                                     \
	{                                                                                          \
		.name = "all", .letter = 'a', .kind = OPTION_FLAG,                                 \
		.help = "all of one's own jobs; for root everybody's",                             \
		OPTION_FIELD(type, select.all)                                                     \
	}
#define JOB_SELECT_YES_ROW(type)                                                                   \
	{                                                                                          \
		.name = "yes", .letter = 'y', .kind = OPTION_FLAG,                                 \
		.help = "do not ask on a terminal where more than five jobs would change",         \
		OPTION_FIELD(type, select.yes)                                                     \
	}
#define JOB_SELECT_QUIET_ROW(type)                                                                 \
	{                                                                                          \
		.name = "quiet", .letter = 'q', .kind = OPTION_FLAG,                               \
		.help = "do not say how many changed; where nothing fits, it is no error",         \
		OPTION_FIELD(type, select.quiet)                                                   \
	}

struct job_selected {
	uint64_t id, array_id;
	uint32_t array_index, array_count, uid;
	Sluice__V1__JobState state;
};

struct job_select {
	const struct job_select_options *options; /* borrowed */
	struct job_set_item *items;		  /* owned */
	size_t item_count, argument_count; /* the arguments come first, then those of --name */
	bool *is_found;			   /* owned: of each item */
	Sluice__V1__JobState states[JOB_SELECT_STATES_MAX]; /* that are meant */
	size_t state_count;
	bool is_listed;		   /* the agent has said which there are */
	bool is_plain;		   /* a few numbers and nothing else */
	struct job_selected *jobs; /* owned; ascending */
	size_t count;
};

void job_select_done(struct job_select *select);
#define _cleanup_job_select_ __attribute__((cleanup(job_select_done)))

/* What a command does to jobs. */
struct job_select_verb {
	const char *infinitive, *participle; /* "cancel", "cancelled" */
	const Sluice__V1__JobState *states;  /* of jobs to which it can be done */
	size_t state_count;		     /* 0: any */
	const char *can;		     /* "waits or runs" */
	bool has_ended;			     /* also jobs that ended long ago, named by number */
	bool by_user;			     /* one call for the jobs of each user */
	bool may_be_over;		     /* a job that has ended meanwhile is no failure */
	bool by_one;			     /* by one() alone, for each job and each array */
	/* Does it to the one that the argument names; its exit code. */
	int (*one)(const struct cmd_call *call, struct agent_call *agent, const char *text,
		   void *context);
	void *context;
};

/* Reads arguments and options: CMD_EXIT_OK, or usage and it was said. */
int job_select_read(const struct cmd_call *call, const struct job_select_options *options,
		    struct job_select *out);
/* Has them listed: the exit code. Where nothing fits that is said, and CMD_EXIT_USAGE; numbers that
 * fit nothing are not told of, for verb->one() knows why. */
int job_select_find(const struct cmd_call *call, struct agent_call *agent,
		    const struct job_select_verb *verb, struct job_select *select);
/* All of it; `request` says what is done, and is filled with the jobs. */
int job_select_act(const struct cmd_call *call, struct agent_call *agent,
		   const struct job_select_verb *verb, struct job_select *select,
		   Sluice__V1__ActRequest *request);

#endif
