/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts into the view what the agent knows: of the machine, its GPUs, jobs, adapters and resources.
 * Asks nobody and waits for nobody. All of it belongs to the loop's thread, between view_begin()
 * and view_end().
 */
#ifndef SLUICE_AGENT_WEB_DOOR_WEB_FILL_H
#define SLUICE_AGENT_WEB_DOOR_WEB_FILL_H

#include <stdint.h>

struct door_kubelet;
struct door_rdma;
struct door_validations;
struct node;
struct queue;
struct reload;
struct users;
struct view;
struct vitals;
struct web_counters;

/* All borrowed. */
struct web_source {
	const struct node *node;
	const struct vitals *vitals;
	const struct reload *reload;
	const struct door_kubelet *kubelet;	    /* NULL: none */
	const struct door_rdma *rdma;		    /* NULL: none */
	const struct door_validations *validations; /* NULL: none */
	const struct queue *queue;		    /* NULL: not open yet, or not any more */
	struct users *users;
	const struct web_counters *counters;
};

/* The rest of view->node is the caller's. */
void web_fill_node(const struct web_source *source, struct view *view);
/* The snapshot, and gpu[] beside it. */
void web_fill_gpus(const struct web_source *source, struct view *view);
void web_fill_jobs(const struct web_source *source, struct view *view);
/* The names of the users of process[], which is there already. */
void web_fill_users(const struct web_source *source, struct view *view);
void web_fill_adapters(const struct web_source *source, struct view *view);
void web_fill_resources(const struct web_source *source, struct view *view);

#endif
