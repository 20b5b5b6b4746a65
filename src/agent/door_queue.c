/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/door_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/groups.h"
#include "agent/node.h"
#include "agent/queue_rules.h"
#include "base/err.h"
#include "base/log.h"
#include "doors/queue/queue.h"
#include "doors/queue/rules.h"

struct door_queue {
	struct door_queue_options options;
	struct groups *groups; /* owned */
	struct queue *queue;   /* borrowed; NULL: there is none */
	struct queue_rules_machine machine;
	struct queue_rules rules;
	struct queue_rules_warnings warnings;
};

/* Each is said when it is new. */
static void door_queue_log(const struct door_queue *door, const struct queue_rules_warnings *before)
{
	for (size_t i = 0; i < door->warnings.count; i++) {
		bool is_old = false;
		for (size_t k = 0; k < before->count; k++)
			is_old |= strcmp(before->text[k], door->warnings.text[i]) == 0;
		if (!is_old)
			log_write(door->options.log, LOG_LEVEL_WARNING, NULL, "%s",
				  door->warnings.text[i]);
	}
}

static void door_queue_tell(void *context)
{
	struct door_queue *door = context;
	struct queue_rules_warnings before = door->warnings;
	const struct config *config = node_config(door->options.node);
	if (!door->queue || !config)
		return;
	queue_rules_make(config, &door->machine, door->groups, &door->rules, &door->warnings);
	door_queue_log(door, &before);
	queue_set_rules(door->queue, &door->rules);
}

int door_queue_new(const struct door_queue_options *options, struct door_queue **out,
		   struct err *err)
{
	struct door_queue *door = calloc(1, sizeof(*door));
	if (!door)
		return err_set(err, -ENOMEM, "out of memory for the rules of the queue");
	door->options = *options;
	const struct groups_options groups = {.loop = options->loop,
					      .children = options->children,
					      .changed = door_queue_tell,
					      .context = door};
	door->groups = groups_new(&groups, err);
	if (!door->groups) {
		(void)door_queue_free(door);
		return -ENOMEM;
	}
	queue_rules_read_machine(&door->machine);
	*out = door;
	return 0;
}

struct door_queue *door_queue_free(struct door_queue *door)
{
	if (!door)
		return NULL;
	door->groups = groups_free(door->groups);
	free(door);
	return NULL;
}

void door_queue_set_queue(struct door_queue *door, struct queue *queue)
{
	if (!door)
		return;
	door->queue = queue;
	door_queue_tell(door);
}

void door_queue_reload(struct door_queue *door)
{
	if (!door)
		return;
	door_queue_tell(door);
	groups_look_again(door->groups);
}

const char *door_queue_warning(const struct door_queue *door, size_t index)
{
	return door && index < door->warnings.count ? door->warnings.text[index] : NULL;
}
