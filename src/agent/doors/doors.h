/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's doors that need no GPU or are files on the host, opened, told and closed together, so
 * that the agent itself need not name each of them. They are opened after the kubelet has its
 * devices. All of it belongs to the loop's thread.
 */
#ifndef SLUICE_AGENT_DOORS_DOORS_H
#define SLUICE_AGENT_DOORS_DOORS_H

#include <stdbool.h>
#include <stdint.h>

#include "kube.pb-c.h"

struct agent_paths;
struct child_set;
struct cluster;
struct door_cdi;
struct resource_cdi;
struct door_kubelet;
struct door_validations;
struct door_labels;
struct door_queue;
struct door_rdma;
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
struct vitals;
struct web_events;

struct doors_options {
	struct loop *loop;	 /* borrowed, all of these */
	struct storage *storage; /* ends before doors_free() */
	struct log *log;	 /* may be NULL */
	const struct node *node;
	const struct agent_paths *paths;
	const char *root; /* before every path; pci_root() */
	struct cluster *cluster;
	const char *namespace_, *pod;	     /* NULL: not known */
	struct door_kubelet *const *kubelet; /* what it points to may be NULL */
	/* CDI specifications were written or removed, or others' were: `cdi` as of
	 * door_cdi_found(). May be NULL. */
	void (*specifications)(const struct resource_cdi *cdi, void *context);
	/* For page and metrics. */
	struct child_set *children;
	const struct vitals *vitals;
	const struct reload *reload;
	const struct leases *leases;
	struct web_events *events;  /* may be NULL */
	const char *node_name;	    /* Kubernetes' name of this node; NULL: not known */
	const char *kubelet_socket; /* as door_rdma_options has it. May be NULL */
	void *context;
};

/* The first failure of one of them; `*out` is set all the same unless it is NULL, because what
 * those that are open have begun must end before doors_free(). -ENOMEM, ... */
int doors_open(const struct doors_options *options, struct doors **out, struct err *err);
/* Nothing is begun any more; what is under way ends. NULL is fine, here and below. */
void doors_stop(struct doors *doors);
/* After the storage thread has ended. Leaves the files. Returns NULL. */
struct doors *doors_free(struct doors *doors);

/* Who is told of RDMA resources from now on, at once too. Borrowed until doors_stop(). */
void doors_set_queue(struct doors *doors, struct queue *queue);

/* The node has changed. Cheap when nothing of it matters here. */
void doors_update(struct doors *doors);

/* The jobs of that queue have changed. */
void doors_jobs(struct doors *doors);

/* Another plugin may have taken the place of one of ours. */
void doors_register_again(struct doors *doors);
/* As door_labels_hold(). */
void doors_hold_labels(struct doors *doors, const char *why);

/* The configuration was read again. */
void doors_reload(struct doors *doors);

/* What became of the labels that were given to the cluster. */
void doors_published(struct doors *doors, const Sluice__Kube__V1__Published *state);

const struct door_cdi *doors_cdi(const struct doors *doors);
const struct door_labels *doors_labels(const struct doors *doors);
const struct door_rdma *doors_rdma(const struct doors *doors);
const struct door_queue *doors_queue(const struct doors *doors);
const struct door_validations *doors_validations(const struct doors *doors);
const struct door_web *doors_web(const struct doors *doors);

#endif
