/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/users.h"

#include <errno.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/askname.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/loop.h"
#include "base/text.h"

struct users_entry {
	bool used;
	uid_t uid;
	uint64_t until_ns; /* looked up again after this */
	char name[USERS_NAME_MAX];
};

struct users_question {
	struct users *users; /* borrowed */
	struct askname ask;
	uid_t uid;
};

struct users {
	struct users_options options;
	struct users_question question[USERS_ASKING_MAX];
	size_t next; /* the oldest entry */
	struct users_entry entry[USERS_CACHE_MAX];
};

static struct users_entry *users_find(struct users *users, uid_t uid)
{
	for (size_t i = 0; i < USERS_CACHE_MAX; i++) {
		if (users->entry[i].used && users->entry[i].uid == uid)
			return &users->entry[i];
	}
	return NULL;
}

static struct users_entry *users_add(struct users *users, uid_t uid)
{
	struct users_entry *entry = &users->entry[users->next++ % USERS_CACHE_MAX];
	*entry = (struct users_entry){.used = true, .uid = uid};
	(void)snprintf(entry->name, sizeof(entry->name), "%u", (unsigned)uid);
	return entry;
}

/* What a terminal or a table cannot take is no name for us. */
static bool users_is_name(const char *text, size_t length)
{
	if (length == 0 || length >= USERS_NAME_MAX)
		return false;

	for (size_t i = 0, size; i < length; i += size) {
		uint32_t character = text_decode(text + i, length - i, &size);
		if (character == TEXT_INVALID || character <= ' ' || character == 0x7f)
			return false;
	}

	return true;
}

static bool users_read_file(const struct users *users, struct users_entry *entry)
{
	_cleanup_fclose_ FILE *file =
	    fopen(users->options.passwd ? users->options.passwd : "/etc/passwd", "re");
	const struct passwd *user;

	while (file && (user = fgetpwent(file))) {
		if (user->pw_uid != entry->uid ||
		    !users_is_name(user->pw_name, strlen(user->pw_name)))
			continue;
		(void)snprintf(entry->name, sizeof(entry->name), "%s", user->pw_name);
		return true;
	}

	return false;
}

static void users_on_answer(char *text, void *context)
{
	struct users_question *question = context;
	const struct users_options *options = &question->users->options;
	struct users_entry *entry = users_find(question->users, question->uid);
	char *colon = strchr(text, ':');
	if (!entry || !colon || !users_is_name(text, (size_t)(colon - text)))
		return;

	*colon = '\0';
	bool is_new = strcmp(entry->name, text) != 0;

	(void)snprintf(entry->name, sizeof(entry->name), "%.*s", USERS_NAME_MAX - 1, text);
	if (is_new && options->named)
		options->named(options->context);
}

/* Asks the name service. That there is nobody to ask just now is no failure: the entry is looked up
 * again later. */
static void users_ask(struct users *users, struct users_entry *entry)
{
	struct users_question *question = NULL;
	for (size_t i = 0; i < USERS_ASKING_MAX && !question; i++) {
		if (!users->question[i].ask.child)
			question = &users->question[i];
	}

	if (!question) {
		entry->until_ns = 0;
		return;
	}

	char number[16], program[] = "getent", database[] = "passwd";
	(void)snprintf(number, sizeof(number), "%u", (unsigned)entry->uid);
	question->uid = entry->uid;

	char *argv[] = {program, database, number, NULL};
	int rc = askname_start(&question->ask,
			       users->options.getent ? users->options.getent : program, argv);
	if (rc < 0 && rc != -ECHILD)
		entry->until_ns = 0;
}

const char *users_name(struct users *users, uid_t uid)
{
	uint64_t now_ns = loop_now_ns(users->options.loop);
	struct users_entry *entry = users_find(users, uid);
	if (entry && now_ns < entry->until_ns)
		return entry->name;
	if (!entry)
		entry = users_add(users, uid);
	entry->until_ns = clock_after_ns(now_ns, USERS_FRESH_NS);
	if (!users_read_file(users, entry))
		users_ask(users, entry);

	return entry->name;
}

struct users *users_new(const struct users_options *options, struct err *err)
{
	struct users *users = calloc(1, sizeof(*users));
	if (!users) {
		(void)err_set(err, -ENOMEM, "out of memory for names of users");
		return NULL;
	}

	users->options = *options;
	for (size_t i = 0; i < USERS_ASKING_MAX; i++) {
		struct users_question *question = &users->question[i];
		question->users = users;
		if (askname_init(&question->ask, options->loop, options->children, users_on_answer,
				 question, err) < 0)
			return users_free(users);
	}

	return users;
}

struct users *users_free(struct users *users)
{
	if (!users)
		return NULL;

	for (size_t i = 0; i < USERS_ASKING_MAX; i++)
		askname_done(&users->question[i].ask);
	free(users);

	return NULL;
}
