/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/doors/door_queue.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/answer.h"
#include "agent/doors/doors.h"
#include "agent/doors/queue_rules.h"
#include "agent/groups.h"
#include "agent/jobs/enforce.h"
#include "agent/jobs/enforce_keep.h"
#include "agent/node.h"
#include "agent/paths.h"
#include "agent/uninstall.h"
#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "doors/queue/queue.h"
#include "doors/queue/rules.h"
#include "policy/config.h"

struct door_queue {
	struct door_queue_options options;
	struct groups *groups;	      /* owned */
	struct enforce_keep *enforce; /* owned */
	gid_t enforce_gid;
	struct queue *queue; /* borrowed; NULL: there is none */
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

/* Without the group the nodes are root's alone, which is as good for jobs: none gets it. */
static void door_queue_find_group(struct door_queue *door, const char *name)
{
	struct queue_rules_warnings *warnings = &door->warnings;

	if (groups_find(door->groups, name, &door->enforce_gid, NULL))
		return;

	door->enforce_gid = 0;
	if (warnings->count < QUEUE_RULES_WARNINGS_MAX)
		(void)snprintf(warnings->text[warnings->count++], QUEUE_RULES_WARNING_MAX,
			       "sluice.jobs.enforceGroup: there is no group '%s': GPU nodes are "
			       "root's alone",
			       name);
}

static void door_queue_tell(void *context)
{
	struct door_queue *door = context;
	struct queue_rules_warnings before = door->warnings;
	const struct config *config = node_config(door->options.node);
	if (!door->queue || !config)
		return;

	queue_rules_make(config, &door->machine, door->groups, &door->rules, &door->warnings);
	door->enforce_gid = 0;
	if (config->jobs.enforce)
		door_queue_find_group(door, config->jobs.enforce_group);
	door_queue_log(door, &before);
	queue_set_rules(door->queue, &door->rules);
	door_queue_update(door);
}

void door_queue_update(void *context)
{
	struct door_queue *door = context;
	if (door && door->queue)
		enforce_keep_set(door->enforce, door->rules.is_enforced, door->enforce_gid,
				 queue_machine(door->queue));
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

	const struct enforce_keep_options enforce = {.loop = options->loop,
						     .storage = options->storage,
						     .log = options->log,
						     .root = options->root,
						     .state_dir = options->state_dir};
	int rc = enforce_keep_new(&enforce, &door->enforce, err);
	if (rc < 0) {
		(void)door_queue_free(door);
		return rc;
	}

	queue_rules_read_machine(&door->machine);
	*out = door;
	return 0;
}

int door_queue_open(struct doors *doors, void **out, struct err *err)
{
	const struct doors_parts *parts = doors_parts(doors);
	const struct door_queue_options options = {
	    .loop = parts->loop,
	    .children = parts->children,
	    .log = parts->log,
	    .node = parts->node,
	    .storage = parts->storage,
	    .root = parts->root,
	    .state_dir = parts->paths ? parts->paths->state_dir : NULL,
	};
	struct door_queue *door = NULL;

	int rc = door_queue_new(&options, &door, err);
	*out = door;

	return rc;
}

void *door_queue_free(void *context)
{
	struct door_queue *door = context;
	if (!door)
		return NULL;
	door->groups = groups_free(door->groups);
	door->enforce = enforce_keep_free(door->enforce);
	free(door);
	return NULL;
}

void door_queue_set_queue(void *context, struct queue *queue)
{
	struct door_queue *door = context;
	if (!door)
		return;
	door->queue = queue;
	door_queue_tell(door);
}

void door_queue_stop(void *context)
{
	struct door_queue *door = context;
	if (!door)
		return;
	door->queue = NULL;
	enforce_keep_stop(door->enforce);
}

void door_queue_reload(void *context)
{
	struct door_queue *door = context;
	if (!door)
		return;
	door_queue_tell(door);
	groups_look_again(door->groups);
}

const char *door_queue_warning(const struct door_queue *door, size_t index)
{
	if (!door)
		return NULL;
	if (index < door->warnings.count)
		return door->warnings.text[index];
	const char *problem = enforce_keep_problem(door->enforce);
	return index == door->warnings.count && *problem ? problem : NULL;
}

void door_queue_status(const void *door, struct arena *arena, Sluice__V1__StatusReply *out)
{
	const char *text;
	for (size_t i = 0; (text = door_queue_warning(door, i)); i++)
		answer_warn(out, arena, text);
}

/* GPU nodes that sluice.jobs.enforce has closed. */
int door_queue_cleanup(const struct uninstall_options *options, struct err *err)
{
	struct enforce_wish wish = {.is_on = false};
	struct enforce_report report = {0};
	int rc = file_path(wish.root, err, "%s", options->root ? options->root : "");
	if (rc == 0)
		rc = file_path(wish.memory, err, "%s/" ENFORCE_MEMORY_NAME,
			       options->paths->state_dir);

	if (rc == 0)
		rc = enforce_run(&wish, &report, err);
	if (report.restored > 0)
		uninstall_tell(options, "%u GPU nodes are open again as they were",
			       report.restored);

	return rc;
}
