/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/users.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/child.h"
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

/* A process that asks. */
struct users_question {
	struct users *users; /* borrowed */
	struct child *child; /* owned; NULL: this place is free */
	uid_t uid;
	int answer_fd;		     /* owned; -1: none */
	struct loop_timer *deadline; /* owned */
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

static void users_end_question(struct users_question *question)
{
	question->child = child_free(question->child);
	cleanup_close_fn(&question->answer_fd);
	question->answer_fd = -1;
	loop_timer_stop(question->deadline);
}

static void users_on_answer(struct child *child, const struct child_end *end, void *context)
{
	struct users_question *question = context;
	const struct users_options *options = &question->users->options;
	struct users_entry *entry = users_find(question->users, question->uid);
	char text[USERS_ANSWER_MAX];
	ssize_t length = read(question->answer_fd, text, sizeof(text) - 1);

	text[length > 0 ? length : 0] = '\0';
	char *colon = strchr(text, ':');
	bool is_named = entry && colon && !end->was_killed && end->value == 0 &&
			users_is_name(text, (size_t)(colon - text));

	users_end_question(question);
	if (!is_named)
		return;

	*colon = '\0';
	bool is_new = strcmp(entry->name, text) != 0;

	(void)snprintf(entry->name, sizeof(entry->name), "%.*s", USERS_NAME_MAX - 1, text);
	if (is_new && options->named)
		options->named(options->context);
}

static void users_on_deadline(void *context)
{
	struct users_question *question = context;
	(void)child_kill(question->child, SIGKILL);
}

/* Asks the name service. That there is nobody to ask just now is no failure: the entry is looked up
 * again later. */
static void users_ask(struct users *users, struct users_entry *entry)
{
	struct users_question *question = NULL;
	for (size_t i = 0; i < USERS_ASKING_MAX && !question; i++) {
		if (!users->question[i].child)
			question = &users->question[i];
	}

	int pair[2];
	if (!question || pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0) {
		entry->until_ns = 0;
		return;
	}

	char number[16], program[] = "getent", database[] = "passwd";
	(void)snprintf(number, sizeof(number), "%u", (unsigned)entry->uid);

	char *argv[] = {program, database, number, NULL};
	const struct child_fd fds[] = {{.source = pair[1], .target = 1}};
	const struct child_spec spec = {
	    .path = users->options.getent ? users->options.getent : program,
	    .argv = argv,
	    .directory = "/",
	    .fds = fds,
	    .fd_count = 1,
	};

	question->uid = entry->uid;
	question->answer_fd = pair[0];
	question->child =
	    child_start(users->options.children, &spec, users_on_answer, question, NULL);
	(void)close(pair[1]);

	if (question->child)
		loop_timer_start(question->deadline, USERS_ANSWER_NS);
	else
		users_end_question(question);
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
		question->answer_fd = -1;
	}

	for (size_t i = 0; i < USERS_ASKING_MAX; i++) {
		struct users_question *question = &users->question[i];
		question->deadline =
		    loop_timer_new(options->loop, users_on_deadline, question, err);
		if (!question->deadline)
			return users_free(users);
	}

	return users;
}

struct users *users_free(struct users *users)
{
	if (!users)
		return NULL;

	for (size_t i = 0; i < USERS_ASKING_MAX; i++) {
		struct users_question *question = &users->question[i];
		if (question->child)
			(void)child_kill(question->child, SIGKILL);
		if (question->deadline)
			users_end_question(question);
		question->deadline = loop_timer_free(question->deadline);
	}

	free(users);
	return NULL;
}
