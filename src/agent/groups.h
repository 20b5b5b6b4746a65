/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ids of groups by their names, for the rules of the queue. The local file answers at once; what is
 * not in it is asked of the name service (LDAP, sssd) by a child process, so that a directory that
 * does not answer keeps nobody waiting. Who runs it (doors.c) is told when an answer has come.
 *
 * What was once known stays known while this runs: a directory that is down for an hour must not
 * take the limits of a group away, nor who administers the queue. What is not known is looked for
 * again each minute.
 */
#ifndef SLUICE_AGENT_GROUPS_H
#define SLUICE_AGENT_GROUPS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct child_set;
struct err;
struct groups;
struct loop;

enum groups_limits {
	GROUPS_NAME_MAX = 64,  /* with its NUL */
	GROUPS_MAX = 80,       /* names; those beyond are not known */
	GROUPS_ASKING_MAX = 4, /* processes at a time */
};
#define GROUPS_AGAIN_NS UINT64_C(60000000000) /* between looks for what is not known */

struct groups_options {
	struct loop *loop;	    /* borrowed */
	struct child_set *children; /* borrowed */
	const char *file;	    /* NULL: /etc/group */
	const char *getent;	    /* NULL: getent, as $PATH has it */
	/* Something is known that was not, or is another number. */
	void (*changed)(void *context);
	void *context;
};

/* NULL: -ENOMEM. */
struct groups *groups_new(const struct groups_options *options, struct err *err);
struct groups *groups_free(struct groups *groups);

/*
 * The number of a group; of "1000" that number, unless a group has it as its name. False: it is not
 * known, or not yet. A name is remembered with its first question. `is_asked` (may be NULL):
 * whether somebody was asked and has not answered yet.
 */
bool groups_find(struct groups *groups, const char *name, gid_t *out, bool *is_asked);
/* Has every name looked up again, at once; what is known stays until there is another answer. */
void groups_look_again(struct groups *groups);

#endif
