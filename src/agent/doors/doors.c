/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/doors/doors.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/doors/door_cdi.h"
#include "agent/doors/door_kubelet.h"
#include "agent/doors/door_labels.h"
#include "agent/doors/door_queue.h"
#include "agent/doors/door_rdma.h"
#include "agent/doors/door_validations.h"
#include "agent/web/door_web.h"
#include "agent/web/door_web_events.h"
#include "agent/cluster/cluster.h"
#include "agent/node.h"
#include "agent/paths.h"
#include "agent/doors/queue_pools.h"
#include "agent/socket_record.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/loop.h"
#include "base/log.h"
#include "doors/kubelet/resource.h"
#include "doors/queue/queue.h"
#include "doors/queue/schedule/schedule_pool.h"

#define DOORS_SETTLED_NS UINT64_C(10000000000) /* from the start until all resources are served */

struct doors {
	struct doors_options options;
	struct door_cdi *cdi; /* owned, these */
	struct door_labels *labels;
	struct door_rdma *rdma;
	struct door_validations *validations;
	struct door_web *web;
	struct door_queue *rules;
	struct socket_record *sockets; /* NULL: there is no state */
	uint64_t open_ns;
	struct queue *queue; /* borrowed; NULL: not open yet, or not any more */
	uint64_t told;	     /* node_generation() of what it was told */
	bool is_unknown;     /* it was told that adapters are not read yet */
};

static void doors_on_specifications(void *context)
{
	struct doors *doors = context;
	struct resource_cdi found;
	door_cdi_found(doors->cdi, &found);
	if (doors->options.specifications)
		doors->options.specifications(&found, doors->options.context);
	door_validations_update(doors->validations);
}

static int doors_open_cdi(struct doors *doors, struct err *err)
{
	const struct doors_options *options = &doors->options;
	const struct door_cdi_options cdi = {
	    .loop = options->loop,
	    .storage = options->storage,
	    .log = options->log,
	    .node = options->node,
	    .paths = options->paths,
	    .root = options->root,
	    .changed = doors_on_specifications,
	    .context = doors,
	};

	return door_cdi_new(&cdi, &doors->cdi, err);
}

static int doors_open_labels(struct doors *doors, struct err *err)
{
	const struct doors_options *options = &doors->options;
	const struct door_labels_options labels = {
	    .loop = options->loop,
	    .storage = options->storage,
	    .log = options->log,
	    .node = options->node,
	    .paths = options->paths,
	    .root = options->root,
	    .cluster = options->cluster,
	    .namespace_ = options->namespace_,
	    .pod = options->pod,
	};

	return door_labels_new(&labels, &doors->labels, err);
}

static void doors_on_rdma(bool is_warning, const char *reason, const char *text, void *context)
{
	const struct doors *doors = context;
	cluster_rdma(doors->options.cluster, is_warning, reason, text);
	web_events_adapter(doors->options.events, is_warning, text);
	door_web_update(doors->web);
}

static void doors_on_counted(void *context)
{
	struct doors *doors = context;
	door_web_update(doors->web);
}

/* An adapter belongs to one door at a time, as a GPU does. */
static void doors_tell_queue(void *context)
{
	struct doors *doors = context;
	const struct doors_options *options = &doors->options;
	struct schedule_pools pools;
	struct err err = {0};

	door_web_update(doors->web);
	if (!doors->queue || !doors->rdma)
		return;

	struct queue_pools_source source = {
	    .gpus = node_inventory(options->node),
	    .root = options->root,
	    .problem = node_has_kubelet(options->node)
			   ? "the kubelet of this machine hands out its RDMA adapters"
			   : "",
	};
	door_rdma_source(doors->rdma, &source);
	doors->told = node_generation(options->node);
	doors->is_unknown = source.is_unknown;

	int rc = queue_pools_make(&source, &pools, &err);
	if (rc == 0)
		rc = queue_set_pools(doors->queue, &pools);
	schedule_pools_done(&pools);

	if (rc < 0)
		log_write(options->log, LOG_LEVEL_WARNING, NULL, "RDMA resources of jobs: %s",
			  err_describe(-rc));
}

static int doors_open_rdma(struct doors *doors, struct err *err)
{
	const struct doors_options *options = &doors->options;
	const struct door_rdma_options rdma = {
	    .loop = options->loop,
	    .storage = options->storage,
	    .log = options->log,
	    .node = options->node,
	    .paths = options->paths,
	    .root = options->root,
	    .kubelet_socket = options->kubelet_socket,
	    .event = doors_on_rdma,
	    .changed = doors_tell_queue,
	    .counted = doors_on_counted,
	    .context = doors,
	};

	return door_rdma_new(&rdma, &doors->rdma, err);
}

static int doors_open_validations(struct doors *doors, struct err *err)
{
	const struct doors_options *options = &doors->options;
	const struct door_validations_options validations = {
	    .loop = options->loop,
	    .storage = options->storage,
	    .log = options->log,
	    .node = options->node,
	    .paths = options->paths,
	    .root = options->root,
	    .cdi = doors->cdi,
	    .kubelet = options->kubelet,
	};

	return door_validations_new(&validations, &doors->validations, err);
}

static int doors_open_web(struct doors *doors, struct err *err)
{
	const struct doors_options *options = &doors->options;
	const struct door_web_options web = {
	    .loop = options->loop,
	    .storage = options->storage,
	    .children = options->children,
	    .log = options->log,
	    .node = options->node,
	    .vitals = options->vitals,
	    .reload = options->reload,
	    .leases = options->leases,
	    .kubelet = options->kubelet,
	    .rdma = doors->rdma,
	    .validations = doors->validations,
	    .events = options->events,
	    .node_name = options->node_name,
	    .root = options->root,
	    .program = getenv("SLUICE_WEB"),
	};

	return door_web_new(&web, &doors->web, err);
}

static int doors_open_queue(struct doors *doors, struct err *err)
{
	const struct doors_options *options = &doors->options;
	const struct door_queue_options rules = {
	    .loop = options->loop,
	    .children = options->children,
	    .log = options->log,
	    .node = options->node,
	    .storage = options->storage,
	    .root = options->root,
	    .state_dir = options->paths ? options->paths->state_dir : NULL,
	};

	return door_queue_new(&rules, &doors->rules, err);
}

static int doors_open_sockets(struct doors *doors, struct err *err)
{
	const struct doors_options *options = &doors->options;
	const struct socket_record_options sockets = {
	    .storage = options->storage,
	    .log = options->log,
	    .state_dir = options->paths ? options->paths->state_dir : NULL,
	};

	doors->open_ns = options->loop ? loop_now_ns(options->loop) : 0;
	return sockets.state_dir ? socket_record_new(&sockets, &doors->sockets, err) : 0;
}

/* Once all that is to be served is, what an agent before this one has left is removed. */
static void doors_note_sockets(struct doors *doors)
{
	struct door_kubelet *door = doors->options.kubelet ? *doors->options.kubelet : NULL;
	const char *socket = door ? door_kubelet_socket(door) : "";
	_cleanup_free_ char *directory = *socket ? door_kubelet_directory(socket) : NULL;
	if (!doors->sockets || !directory)
		return;

	const struct kubelet *const served[] = {door_kubelet_kubelet(door),
						door_rdma_kubelet(doors->rdma)};
	bool cleans = loop_now_ns(doors->options.loop) - doors->open_ns > DOORS_SETTLED_NS;
	socket_record_update(doors->sockets, directory, served, 2, cleans);
}

int doors_open(const struct doors_options *options, struct doors **out, struct err *err)
{
	struct doors *doors = calloc(1, sizeof(*doors));
	if (!doors)
		return err_set(err, -ENOMEM, "out of memory for the doors");

	doors->options = *options;
	/* What a run of one of them has begun needs its door: freed after the storage thread. */
	*out = doors;

	int result = doors_open_rdma(doors, err); /* a kubelet may wait for it */
	if (result == 0)
		result = doors_open_cdi(doors, err);
	if (result == 0)
		result = doors_open_labels(doors, err);
	if (result == 0)
		result = doors_open_validations(doors, err);

	if (result == 0)
		result = doors_open_queue(doors, err);
	if (result == 0)
		result = doors_open_sockets(doors, err);

	return result < 0 ? result : doors_open_web(doors, err);
}

void doors_stop(struct doors *doors)
{
	if (!doors)
		return;

	doors->queue = NULL;
	door_queue_stop(doors->rules);
	door_web_stop(doors->web);
	door_cdi_stop(doors->cdi);
	door_labels_stop(doors->labels);
	door_rdma_stop(doors->rdma);
	door_validations_stop(doors->validations);
}

struct doors *doors_free(struct doors *doors)
{
	if (!doors)
		return NULL;

	(void)door_queue_free(doors->rules);
	(void)door_web_free(doors->web); /* it borrows from others */
	(void)door_cdi_free(doors->cdi);
	(void)door_labels_free(doors->labels);
	(void)door_rdma_free(doors->rdma);
	(void)door_validations_free(doors->validations);
	(void)socket_record_free(doors->sockets);
	free(doors);

	return NULL;
}

void doors_set_queue(struct doors *doors, struct queue *queue)
{
	if (!doors)
		return;
	doors->queue = queue;
	door_queue_set_queue(doors->rules, queue);
	door_web_set_queue(doors->web, queue);
	doors_tell_queue(doors);
}

void doors_update(struct doors *doors)
{
	if (!doors)
		return;

	door_cdi_update(doors->cdi);
	door_labels_update(doors->labels);
	door_rdma_update(doors->rdma);
	door_validations_update(doors->validations);
	doors_note_sockets(doors);

	if (doors->is_unknown || node_generation(doors->options.node) != doors->told)
		doors_tell_queue(doors);
	door_queue_update(doors->rules);
	door_web_update(doors->web);
}

void doors_jobs(struct doors *doors)
{
	if (!doors)
		return;
	door_queue_update(doors->rules);
	door_web_jobs(doors->web);
}

void doors_register_again(struct doors *doors)
{
	if (doors)
		door_rdma_register_again(doors->rdma);
}

void doors_hold_labels(struct doors *doors, const char *why)
{
	if (doors)
		door_labels_hold(doors->labels, why);
}

void doors_reload(struct doors *doors)
{
	if (!doors)
		return;
	door_labels_reload(doors->labels);
	door_rdma_reload(doors->rdma);
	door_queue_reload(doors->rules);
	door_web_update(doors->web);
}

const struct door_cdi *doors_cdi(const struct doors *doors)
{
	return doors ? doors->cdi : NULL;
}

void doors_published(struct doors *doors, const Sluice__Kube__V1__Published *state)
{
	if (doors)
		door_labels_published(doors->labels, state);
}

const struct door_labels *doors_labels(const struct doors *doors)
{
	return doors ? doors->labels : NULL;
}

const struct door_rdma *doors_rdma(const struct doors *doors)
{
	return doors ? doors->rdma : NULL;
}

const struct door_queue *doors_queue(const struct doors *doors)
{
	return doors ? doors->rules : NULL;
}

const struct door_validations *doors_validations(const struct doors *doors)
{
	return doors ? doors->validations : NULL;
}

const struct door_web *doors_web(const struct doors *doors)
{
	return doors ? doors->web : NULL;
}
