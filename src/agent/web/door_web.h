/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's side of page and metrics: the memory with the view, the socket, the token and the
 * process sluice-web, which sees those and nothing else. What the configuration says of them is
 * followed while it runs. Nothing of it can keep the agent from its work: a port that is taken is
 * a note and tried again. All of it belongs to the loop's thread.
 */
#ifndef SLUICE_AGENT_WEB_DOOR_WEB_H
#define SLUICE_AGENT_WEB_DOOR_WEB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sluice.pb-c.h"

struct arena;
struct attribution;
struct child_set;
struct door_kubelet;
struct door_rdma;
struct door_validations;
struct door_web;
struct doors;
struct err;
struct leases;
struct log;
struct loop;
struct node;
struct queue;
struct reload;
struct storage;
struct view;
struct vitals;
struct web_events;

#define DOOR_WEB_WRITE_NS UINT64_C(100000000) /* between views, at least */
/* Until a port that is taken is tried again, doubled each time: the web process of the agent before
 * may be about to end. */
#define DOOR_WEB_AGAIN_FIRST_NS UINT64_C(100000000)
#define DOOR_WEB_AGAIN_LAST_NS	UINT64_C(10000000000)
#define DOOR_WEB_FDS_NS		UINT64_C(10000000000) /* between counts of our descriptors */

struct door_web_options {
	struct loop *loop;	 /* borrowed, all of these */
	struct storage *storage; /* ends before door_web_free() */
	struct child_set *children;
	struct log *log; /* may be NULL */
	const struct node *node;
	const struct vitals *vitals;
	const struct reload *reload;
	const struct leases *leases;		    /* may be NULL */
	struct door_kubelet *kubelet;		    /* may be NULL */
	const struct door_validations *validations; /* may be NULL */
	struct door_rdma *rdma;			    /* may be NULL */
	const struct web_events *events;	    /* may be NULL */
	const char *node_name; /* Kubernetes' name of this node; NULL: the host's */
	const char *root;      /* as attribution_options has it; NULL: "" */
	const char *program;   /* of the web process; NULL: found beside this one */
};

/* -ENOMEM. That nobody can listen is no error. `*out` is set unless it is NULL. */
int door_web_new(const struct door_web_options *options, struct door_web **out, struct err *err);
/* Ends the web process. NULL is fine, here and below. */
void door_web_stop(void *door);
/* After the storage thread has ended. Returns NULL. */
void *door_web_free(void *door);

/* Jobs come from there. Borrowed until door_web_stop(). */
void door_web_set_queue(void *door, struct queue *queue);
/* Something is another: machine, configuration, events. The view follows within
 * DOOR_WEB_WRITE_NS. */
void door_web_update(void *door);
/* The same, of jobs. */
void door_web_jobs(void *door);

/* Where it listens: with the port that it got; what is wished for where it cannot; "off". */
const char *door_web_address(const struct door_web *door);
pid_t door_web_pid(const struct door_web *door); /* -1: none runs */
uint64_t door_web_restarts(const struct door_web *door);
/* Why nobody is served, or everybody refused, or what else is wrong; "" when all is well. */
const char *door_web_problem(const struct door_web *door);
bool door_web_wants_token(const struct door_web *door);
/* What was last written for the web process; NULL: nothing is, `off` it is not made. Borrowed until
 * control returns to the loop. */
const struct view *door_web_view(const struct door_web *door);

/* As a row of the table of doors: door.h. */
int door_web_open(struct doors *doors, void **out, struct err *err);
void door_web_status(const void *door, struct arena *arena, Sluice__V1__StatusReply *out);

#endif
