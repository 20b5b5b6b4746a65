/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which groups a user is in, as his last submission said: for limits of groups, which may change
 * while his jobs wait. Not asked of the user database, which may be slow, or down.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "doors/queue/queue_internal.h"

enum { MEMBERS_MAX = 1024 }; /* users; those who submitted the longest ago are forgotten */

struct queue_member {
	struct queue_member *next;
	uid_t uid;
	uint64_t served_ns;
	size_t count;
	gid_t groups[]; /* the first is that of the process */
};

/* Taken out of the list; NULL: there was none. */
static struct queue_member *queue_member_remove(struct queue *queue, uid_t uid)
{
	for (struct queue_member **at = &queue->members; *at; at = &(*at)->next) {
		struct queue_member *member = *at;
		if (member->uid != uid)
			continue;

		*at = member->next;
		queue->member_count--;
		return member;
	}

	return NULL;
}

static void queue_member_forget_last(struct queue *queue)
{
	struct queue_member **at = &queue->members;
	while ((*at)->next)
		at = &(*at)->next;
	free(*at);
	*at = NULL;
	queue->member_count--;
}

int queue_member_note(struct queue *queue, const struct spec *spec)
{
	size_t count = spec->group_count + 1;
	struct queue_member *member = calloc(1, sizeof(*member) + count * sizeof(*member->groups));
	if (!member)
		return -ENOMEM;

	member->uid = spec->uid;
	member->count = count;
	member->groups[0] = spec->gid;

	if (spec->group_count > 0)
		memcpy(member->groups + 1, spec->groups, spec->group_count * sizeof(gid_t));
	struct queue_member *before = queue_member_remove(queue, spec->uid);
	member->served_ns = before ? before->served_ns : 0;
	free(before);
	if (queue->member_count == MEMBERS_MAX)
		queue_member_forget_last(queue);
	member->next = queue->members;
	queue->members = member;
	queue->member_count++;

	return 0;
}

static struct queue_member *queue_member_find(const struct queue *queue, uid_t uid)
{
	struct queue_member *member = queue->members;
	while (member && member->uid != uid)
		member = member->next;
	return member;
}

size_t queue_member_groups(const struct queue *queue, uid_t uid, const gid_t **out)
{
	const struct queue_member *member = queue_member_find(queue, uid);
	*out = member ? member->groups : NULL;
	return member ? member->count : 0;
}

uint64_t queue_member_served_ns(const struct queue *queue, uid_t uid)
{
	const struct queue_member *member = queue_member_find(queue, uid);
	return member ? member->served_ns : 0;
}

void queue_member_serve(struct queue *queue, uid_t uid, uint64_t now_ns)
{
	struct queue_member *member = queue_member_find(queue, uid);
	if (member) /* of one who is forgotten the next job is served a little early */
		member->served_ns = now_ns;
}

uint32_t queue_member_limit(const struct queue *queue, uid_t uid)
{
	const struct queue_rules *rules = &queue->rules;
	const struct queue_member *member =
	    rules->group_count > 0 ? queue_member_find(queue, uid) : NULL;
	uint32_t most = 0;

	for (size_t i = 0; member && i < rules->group_count; i++) {
		uint32_t limit = rules->groups[i].limit.gpus;
		bool is_in = false;
		for (size_t g = 0; g < member->count && !is_in; g++)
			is_in = member->groups[g] == rules->groups[i].group;

		limit = limit ? limit : UINT32_MAX;
		most = is_in && limit > most ? limit : most;
	}

	return most;
}

void queue_member_load(struct queue *queue)
{
	for (size_t i = 0; i < queue->count && queue->member_count < MEMBERS_MAX; i++) {
		const struct job *job = &queue->jobs[i]->job;
		_cleanup_free_ char *bytes = NULL;
		size_t length;
		struct err err = {.code = 0};

		if (queue_member_find(queue, job->uid))
			continue;

		struct spec spec;
		int rc = store_spec(queue->store, job->id, &bytes, &length, &err);
		if (rc == 0 && (rc = spec_parse(bytes, length, &spec, &err)) == 0) {
			rc = queue_member_note(queue, &spec);
			spec_done(&spec);
		}

		if (rc < 0)
			log_write(queue->options.log, LOG_LEVEL_DEBUG, NULL,
				  "the groups of the user of job %" PRIu64 " are not known: %s",
				  job->id, err.text);
	}
}

void queue_member_clear(struct queue *queue)
{
	while (queue->members) {
		struct queue_member *member = queue->members;
		queue->members = member->next;
		free(member);
	}
	queue->member_count = 0;
}
