/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The label door within the agent: says when the labels of the node are made anew, and sees to it
 * that they get there, as a feature file of node feature discovery or through the cluster's API.
 * What is read from and written to disks is on the storage thread, one run at a time; the rest
 * belongs to the loop's. Labels outlive the agent.
 *
 * It is on where the configuration names a way (sluice.labels.mode, or flags.useNodeFeatureAPI);
 * with the mode `auto` within a cluster, and elsewhere where the directory of the feature file is
 * there. On a machine with neither nothing is done and nothing said.
 */
#ifndef SLUICE_AGENT_DOORS_DOOR_LABELS_H
#define SLUICE_AGENT_DOORS_DOOR_LABELS_H

#include <stdbool.h>
#include <stdint.h>

#include "kube.pb-c.h"
#include "sluice.pb-c.h"

struct agent_paths;
struct arena;
struct cluster;
struct door_labels;
struct doors;
struct err;
struct log;
struct loop;
struct node;
struct storage;
struct uninstall_options;

#define DOOR_LABELS_RETRY_NS UINT64_C(30000000000) /* after a failure */

struct door_labels_options {
	struct loop *loop;	 /* borrowed, all of these */
	struct storage *storage; /* ends before door_labels_free() */
	struct log *log;	 /* may be NULL */
	const struct node *node;
	const struct agent_paths *paths;
	const char *root; /* before every path of the machine; pci_root() */
	struct cluster *cluster;
	const char *namespace_, *pod; /* of the NodeFeature; NULL: the pod's own, none */
};

/* -ENOMEM. */
int door_labels_new(const struct door_labels_options *options, struct door_labels **out,
		    struct err *err);
/* Nothing is begun any more but the removal of what the configuration wants removed at the end. */
void door_labels_stop(void *door);
/* After the storage thread has ended. NULL is fine; returns NULL. */
void *door_labels_free(void *door);

/* The node has changed. Cheap when nothing of it matters here. NULL is fine, here and below. */
void door_labels_update(void *door);
/* How far the labels are that were given to the cluster. */
void door_labels_published(struct door_labels *door, const Sluice__Kube__V1__Published *state);
/* The configuration was read again. */
void door_labels_reload(void *door);

/* No labels from now on, those that are there are taken away, and `why`; "": as configured. Cheap
 * when it is the same. */
void door_labels_hold(struct door_labels *door, const char *why);

/* "off", "waiting" (for the driver), "kept", "failed". NULL is off. */
const char *door_labels_state(const struct door_labels *door);
/* What is wrong, or how many labels there are and where; "" when there is nothing to say. Borrowed
 * until the next call from the loop. */
const char *door_labels_text(const struct door_labels *door);

/* As a row of the table of doors: door.h. */
int door_labels_open(struct doors *doors, void **out, struct err *err);
void door_labels_status(const void *door, struct arena *arena, Sluice__V1__StatusReply *out);
int door_labels_cleanup(const struct uninstall_options *options, struct err *err);

#endif
