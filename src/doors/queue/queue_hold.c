/* SPDX-License-Identifier: Apache-2.0 */
/* Slots whose tokens somebody outside of this queue has: another user's agent, or a process that a
 * lost job left. Each is watched until its token falls. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "doors/queue/queue_internal.h"

static struct queue_hold *queue_hold_free(struct queue_hold *hold)
{
	hold->watch = loop_fd_free(hold->watch);
	hold->timer = loop_timer_free(hold->timer);
	if (hold->fd >= 0)
		(void)close(hold->fd);
	free(hold);
	return NULL;
}

static void queue_hold_drop(struct queue_hold *hold)
{
	struct queue *queue = hold->queue;
	for (struct queue_hold **at = &queue->holds; *at; at = &(*at)->next) {
		if (*at == hold) {
			*at = hold->next;
			break;
		}
	}

	(void)queue_hold_free(hold);
	queue_kick(queue);
}

static void queue_hold_on_timer(void *context)
{
	queue_hold_drop(context);
}

static void queue_hold_describe(struct queue_hold *hold, const struct note *note)
{
	bool named = note->name[0] != '\0';
	(void)snprintf(hold->holder, sizeof(hold->holder), "%s%s%spid %d of %s",
		       named ? "job " : "", note->name, named ? ", " : "", (int)note->pid,
		       queue_user(hold->queue, note->uid)); /* cut if need be */
}

/* The holder's note, once; then the end of its token. */
static void queue_hold_on_read(int fd, unsigned events, void *context)
{
	struct queue_hold *hold = context;
	struct note note = hold->note;

	if (token_read_note(fd, 0, &note, NULL) < 0) {
		queue_hold_drop(hold);
		return;
	}

	queue_hold_describe(hold, &note);
	queue_kick(hold->queue);
}

static bool queue_hold_is_there(const struct queue *queue, const char *uuid, uint32_t slot)
{
	for (const struct queue_hold *hold = queue->holds; hold; hold = hold->next) {
		if (hold->slot == slot && strcmp(hold->uuid, uuid) == 0)
			return true;
	}
	return false;
}

/* Watches the token of a slot. False when nobody can be found who has it. */
static bool queue_hold_add(struct queue *queue, const char *uuid, uint32_t slot)
{
	if (queue_hold_is_there(queue, uuid, slot))
		return true;

	struct note note = {.pid = 0};
	struct err err;
	_cleanup_close_ int fd = token_watch(&queue->place, uuid, slot, &note, &err);
	if (fd < 0)
		return false;

	struct queue_hold *hold = calloc(1, sizeof(*hold));
	if (!hold)
		return false;

	hold->queue = queue;
	hold->slot = slot;
	hold->note = note;
	(void)snprintf(hold->uuid, sizeof(hold->uuid), "%s", uuid);
	queue_hold_describe(hold, &note);
	hold->fd = take_fd(&fd);
	hold->watch =
	    loop_fd_new(queue->options.loop, hold->fd, LOOP_READ, queue_hold_on_read, hold, NULL);
	hold->timer = loop_timer_new(queue->options.loop, queue_hold_on_timer, hold, NULL);
	if (!hold->watch || !hold->timer) {
		(void)queue_hold_free(hold);
		return false;
	}

	loop_timer_start(hold->timer, QUEUE_BACKOFF_MAX_NS);
	hold->next = queue->holds;
	queue->holds = hold;

	return true;
}

static size_t queue_hold_count(const struct queue *queue)
{
	size_t count = 0;
	for (const struct queue_hold *hold = queue->holds; hold; hold = hold->next)
		count++;
	return count;
}

/* Where one token is taken others may be: what looks free is asked as well, so that the next choice
 * is not as blind as this one was. */
static void queue_hold_look_around(struct queue *queue)
{
	const struct schedule_machine *machine = &queue->machine;
	size_t room = QUEUE_HOLDS_MAX - queue_hold_count(queue);

	for (size_t i = 0; i < machine->device_count && room > 0; i++) {
		const struct schedule_device *device = &machine->devices[i];
		for (uint32_t slot = 0; slot < device->slot_count && room > 0; slot++) {
			if (!(device->used[slot / 64] >> (slot % 64) & 1) &&
			    queue_hold_add(queue, device->unit.uuid, slot))
				room--;
		}
	}
}

size_t queue_hold_look(struct queue *queue, const struct queue_run *run)
{
	size_t marked = 0;

	for (size_t g = 0; g < run->grant_count; g++) {
		const struct launch_grant *grant = &run->grants[g];
		for (uint32_t slot = 0;
		     slot < grant->slot_count && queue_hold_count(queue) < QUEUE_HOLDS_MAX;
		     slot++) {
			if (launch_grant_has(grant, slot))
				marked += queue_hold_add(queue, grant->uuid, slot);
		}
	}

	if (marked > 0)
		queue_hold_look_around(queue);

	return marked;
}

void queue_hold_clear(struct queue *queue)
{
	while (queue->holds) {
		struct queue_hold *hold = queue->holds;
		queue->holds = hold->next;
		(void)queue_hold_free(hold);
	}
}
