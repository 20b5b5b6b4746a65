/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of users and groups share: a local file, and a script in the place of getent(1).
 */
#ifndef SLUICE_TESTS_UNIT_AGENT_GETENT_H
#define SLUICE_TESTS_UNIT_AGENT_GETENT_H

#include <stddef.h>

struct child_set;
struct groups;
struct loop;
struct users;

struct getent {
	char *directory;
	struct loop *loop;
	struct child_set *children;
	struct groups *groups; /* the one that is tested, or */
	struct users *users;
	char program[4096], file[4096];
	unsigned changes; /* how often getent_changed() was called with this */
};

/* One for each test, with `text` in the local file; -1. */
int getent_setup(void **state, const char *text);
int getent_teardown(void **state);
/* `script` takes the program's place from now on. */
void getent_answer(const struct getent *getent, const char *script);
void getent_changed(void *getent);
void getent_pass_until_no_child(const struct getent *getent);

#endif
