/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/groups.h"

#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/askname.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/loop.h"
#include "base/parse.h"

struct groups_entry {
	char name[GROUPS_NAME_MAX];
	gid_t gid;
	bool is_known, is_due; /* is_due: somebody is to be asked */
};

struct groups_question {
	struct groups *groups; /* borrowed */
	struct askname ask;
	size_t entry;
};

struct groups {
	struct groups_options options;
	struct groups_question question[GROUPS_ASKING_MAX];
	struct groups_entry entry[GROUPS_MAX];
	size_t count;
	struct loop_timer *again; /* owned */
};

static void groups_ask_due(struct groups *groups);

/* True: it is another answer than the last. */
static bool groups_set(struct groups_entry *entry, gid_t gid)
{
	bool is_new = !entry->is_known || entry->gid != gid;
	entry->gid = gid;
	entry->is_known = true;
	entry->is_due = false;
	return is_new;
}

/* The file of the machine itself. */
static bool groups_read_file(const struct groups *groups, const char *name, gid_t *out)
{
	_cleanup_fclose_ FILE *file =
	    fopen(groups->options.file ? groups->options.file : "/etc/group", "re");
	const struct group *group;
	while (file && (group = fgetgrent(file))) {
		if (strcmp(group->gr_name, name) != 0)
			continue;
		*out = group->gr_gid;
		return true;
	}

	return false;
}

/* Without a process. */
static bool groups_read(const struct groups *groups, const char *name, gid_t *out)
{
	uint64_t number;

	if (groups_read_file(groups, name, out))
		return true;

	/* 2^32-1 is no group for the kernel. */
	if (parse_u64(name, 0, UINT32_MAX - 1, &number) < 0)
		return false;

	*out = (gid_t)number;
	return true;
}

/* --- others ---------------------------------------------------------------------------------- */

/* "name:x:1234:members": of the name that was asked for, whatever its case there. */
static bool groups_read_answer(char *text, gid_t *out)
{
	uint64_t number;
	char *at = strchr(text, ':');

	at = at ? strchr(at + 1, ':') : NULL;
	char *end = at ? strchr(at + 1, ':') : NULL;
	if (!end || parse_u64_span(at + 1, (size_t)(end - at - 1), 0, UINT32_MAX - 1, &number) < 0)
		return false;

	*out = (gid_t)number;
	return true;
}

static void groups_on_answer(char *text, void *context)
{
	struct groups_question *question = context;
	struct groups *groups = question->groups;
	struct groups_entry *entry = &groups->entry[question->entry];
	gid_t gid;
	bool is_new = groups_read_answer(text, &gid) && groups_set(entry, gid);

	if (!entry->is_known && !loop_timer_is_running(groups->again))
		loop_timer_start(groups->again, GROUPS_AGAIN_NS);
	groups_ask_due(groups);
	if (is_new)
		groups->options.changed(groups->options.context);
}

/* A group of LDAP can have more members than a pipe holds: only the front of the line is passed on,
 * so that nobody waits for us to read. */
static bool groups_ask(struct groups *groups, struct groups_question *question, size_t index)
{
	const char *getent = groups->options.getent ? groups->options.getent : "getent";
	char shell[] = "sh", option[] = "-c", script[] = "\"$1\" group \"$2\" | head -c 500";
	char program[512], name[GROUPS_NAME_MAX];

	(void)snprintf(program, sizeof(program), "%s", getent);
	memcpy(name, groups->entry[index].name, sizeof(name));
	question->entry = index;

	char *argv[] = {shell, option, script, shell, program, name, NULL};
	return askname_start(&question->ask, "/bin/sh", argv) == 0;
}

/* As many as may ask at a time; each that ends asks on. */
static void groups_ask_due(struct groups *groups)
{
	size_t at = 0;

	for (size_t i = 0; i < GROUPS_ASKING_MAX; i++) {
		if (groups->question[i].ask.child)
			continue;

		while (at < groups->count && !groups->entry[at].is_due)
			at++;

		if (at == groups->count)
			return;

		groups->entry[at].is_due = false;
		if (!groups_ask(groups, &groups->question[i], at) &&
		    !loop_timer_is_running(groups->again))
			loop_timer_start(groups->again, GROUPS_AGAIN_NS);
	}
}

static bool groups_is_asked(const struct groups *groups, size_t index)
{
	bool is_asked = groups->entry[index].is_due;
	for (size_t i = 0; i < GROUPS_ASKING_MAX; i++)
		is_asked |= groups->question[i].ask.child && groups->question[i].entry == index;
	return is_asked;
}

static void groups_look(struct groups *groups, bool all)
{
	bool is_new = false;

	for (size_t i = 0; i < groups->count; i++) {
		struct groups_entry *entry = &groups->entry[i];
		gid_t gid;

		if ((entry->is_known && !all) || groups_is_asked(groups, i))
			continue;
		if (groups_read(groups, entry->name, &gid))
			is_new |= groups_set(entry, gid);
		else
			entry->is_due = true;
	}

	groups_ask_due(groups);
	if (is_new)
		groups->options.changed(groups->options.context);
}

static void groups_on_again(void *context)
{
	groups_look(context, false);
}

/* --- interface ------------------------------------------------------------------------------- */

bool groups_find(struct groups *groups, const char *name, gid_t *out, bool *is_asked)
{
	size_t at = 0;
	while (at < groups->count && strcmp(groups->entry[at].name, name) != 0)
		at++;

	if (at == groups->count) {
		if (at == GROUPS_MAX || strlen(name) >= GROUPS_NAME_MAX)
			return false;

		struct groups_entry *entry = &groups->entry[groups->count++];
		*entry = (struct groups_entry){.is_due = true};
		memcpy(entry->name, name, strlen(name) + 1);

		gid_t gid;
		if (groups_read(groups, name, &gid))
			(void)groups_set(entry, gid);
		else
			groups_ask_due(groups);
	}

	if (is_asked)
		*is_asked = groups_is_asked(groups, at);
	if (groups->entry[at].is_known)
		*out = groups->entry[at].gid;

	return groups->entry[at].is_known;
}

void groups_look_again(struct groups *groups)
{
	groups_look(groups, true);
}

struct groups *groups_new(const struct groups_options *options, struct err *err)
{
	struct groups *groups = calloc(1, sizeof(*groups));
	if (!groups) {
		(void)err_set(err, -ENOMEM, "out of memory for groups of users");
		return NULL;
	}

	groups->options = *options;
	groups->again = loop_timer_new(options->loop, groups_on_again, groups, err);
	for (size_t i = 0; groups->again && i < GROUPS_ASKING_MAX; i++) {
		struct groups_question *question = &groups->question[i];
		question->groups = groups;
		if (askname_init(&question->ask, options->loop, options->children, groups_on_answer,
				 question, err) < 0)
			return groups_free(groups);
	}

	return groups->again ? groups : groups_free(groups);
}

struct groups *groups_free(struct groups *groups)
{
	if (!groups)
		return NULL;

	for (size_t i = 0; i < GROUPS_ASKING_MAX; i++)
		askname_done(&groups->question[i].ask);
	groups->again = loop_timer_free(groups->again);
	free(groups);

	return NULL;
}
