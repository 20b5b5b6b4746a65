/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/doors/doors.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/doors/door.h"
#include "agent/doors/door_cdi.h"
#include "agent/doors/door_kubelet.h"
#include "agent/doors/door_labels.h"
#include "agent/doors/door_pools.h"
#include "agent/doors/door_queue.h"
#include "agent/doors/door_rdma.h"
#include "agent/doors/door_sockets.h"
#include "agent/doors/door_validations.h"
#include "agent/web/door_web.h"
#include "base/err.h"
#include "doors/kubelet/resource.h"

static const struct door doors_table[DOOR_COUNT] = {
    [DOOR_KUBELET] = {.name = "kubelet",
		      .open = door_kubelet_open,
		      .update = door_kubelet_update,
		      .look = door_kubelet_look,
		      .jobs = door_kubelet_jobs,
		      .set_queue = door_kubelet_set_queue,
		      .register_again = door_kubelet_register_again,
		      .status = door_kubelet_status,
		      .stop = door_kubelet_stop,
		      .free = door_kubelet_free},
    [DOOR_RDMA] = {.name = "rdma",
		   .open = door_rdma_open,
		   .update = door_rdma_update,
		   .reload = door_rdma_reload,
		   .register_again = door_rdma_register_again,
		   .status = door_rdma_status,
		   .stop = door_rdma_stop,
		   .free = door_rdma_free},
    [DOOR_CDI] = {.name = "cdi",
		  .open = door_cdi_open,
		  .update = door_cdi_update,
		  .status = door_cdi_status,
		  .stop = door_cdi_stop,
		  .free = door_cdi_free,
		  .cleanup = door_cdi_cleanup},
    [DOOR_LABELS] = {.name = "labels",
		     .open = door_labels_open,
		     .update = door_labels_update,
		     .reload = door_labels_reload,
		     .status = door_labels_status,
		     .stop = door_labels_stop,
		     .free = door_labels_free,
		     .cleanup = door_labels_cleanup},
    [DOOR_VALIDATIONS] = {.name = "validations",
			  .open = door_validations_open,
			  .update = door_validations_update,
			  .status = door_validations_status,
			  .stop = door_validations_stop,
			  .free = door_validations_free,
			  .cleanup = door_validations_cleanup},
    [DOOR_SOCKETS] = {.name = "sockets",
		      .open = door_sockets_open,
		      .update = door_sockets_update,
		      .free = door_sockets_free,
		      .cleanup = door_sockets_cleanup},
    [DOOR_POOLS] = {.name = "pools",
		    .open = door_pools_open,
		    .update = door_pools_update,
		    .set_queue = door_pools_set_queue,
		    .stop = door_pools_stop,
		    .free = door_pools_free},
    [DOOR_QUEUE] = {.name = "queue",
		    .open = door_queue_open,
		    .update = door_queue_update,
		    .jobs = door_queue_update,
		    .set_queue = door_queue_set_queue,
		    .reload = door_queue_reload,
		    .status = door_queue_status,
		    .stop = door_queue_stop,
		    .free = door_queue_free,
		    .cleanup = door_queue_cleanup},
    [DOOR_WEB] = {.name = "web",
		  .open = door_web_open,
		  .update = door_web_update,
		  .jobs = door_web_jobs,
		  .set_queue = door_web_set_queue,
		  .reload = door_web_update,
		  .status = door_web_status,
		  .stop = door_web_stop,
		  .free = door_web_free},
};

struct doors {
	struct doors_parts parts;
	void *at[DOOR_COUNT]; /* owned; NULL: not open */
	bool is_stopping;
};

/* Calls an operation of each door that is open and has it. */
#define DOORS_EACH(doors, operation, ...)                                                          \
	do {                                                                                       \
		for (size_t i_ = 0; (doors) && !(doors)->is_stopping && i_ < DOOR_COUNT; i_++)     \
			if ((doors)->at[i_] && doors_table[i_].operation)                          \
				doors_table[i_].operation((doors)->at[i_], ##__VA_ARGS__);         \
	} while (0)

/* --- their life ------------------------------------------------------------------------------ */

int doors_new(const struct doors_parts *parts, struct doors **out, struct err *err)
{
	struct doors *doors = calloc(1, sizeof(*doors));
	if (!doors)
		return err_set(err, -ENOMEM, "out of memory for the doors");

	doors->parts = *parts;
	*out = doors;

	return doors_table[DOOR_KUBELET].open(doors, &doors->at[DOOR_KUBELET], err);
}

int doors_open(struct doors *doors, struct err *err)
{
	int rc = 0;
	for (size_t i = DOOR_KUBELET + 1; rc >= 0 && i < DOOR_COUNT; i++)
		rc = doors_table[i].open(doors, &doors->at[i], err);
	return rc < 0 ? rc : 0;
}

void doors_stop(struct doors *doors)
{
	DOORS_EACH(doors, stop);
	if (doors)
		doors->is_stopping = true;
}

struct doors *doors_free(struct doors *doors)
{
	for (size_t i = DOOR_COUNT; doors && i-- > 0;)
		doors->at[i] = doors_table[i].free(doors->at[i]);
	free(doors);
	return NULL;
}

/* --- what they are told ---------------------------------------------------------------------- */

void doors_update(struct doors *doors)
{
	DOORS_EACH(doors, update);
}

void doors_look(struct doors *doors)
{
	DOORS_EACH(doors, look);
}

void doors_jobs(struct doors *doors)
{
	DOORS_EACH(doors, jobs);
}

void doors_set_queue(struct doors *doors, struct queue *queue)
{
	DOORS_EACH(doors, set_queue, queue);
}

void doors_reload(struct doors *doors)
{
	DOORS_EACH(doors, reload);
}

void doors_register_again(struct doors *doors)
{
	DOORS_EACH(doors, register_again);
}

void doors_status(const struct doors *doors, struct arena *arena, Sluice__V1__StatusReply *out)
{
	for (size_t i = 0; doors && i < DOOR_COUNT; i++)
		if (doors_table[i].status)
			doors_table[i].status(doors->at[i], arena, out);
}

int doors_cleanup(const struct uninstall_options *options, struct err *err)
{
	int first = 0;

	for (size_t i = DOOR_COUNT; i-- > 0;) {
		struct err why = {0};
		int rc = doors_table[i].cleanup ? doors_table[i].cleanup(options, &why) : 0;
		if (rc < 0 && first == 0)
			first = err_set(err, rc, "%s", why.text);
	}

	return first;
}

/* --- what they tell -------------------------------------------------------------------------- */

const struct doors_parts *doors_parts(const struct doors *doors)
{
	return &doors->parts;
}

void *doors_at(const struct doors *doors, enum door_place place)
{
	return doors ? doors->at[place] : NULL;
}

void doors_on_specifications(void *context)
{
	struct doors *doors = context;
	struct resource_cdi found;

	door_cdi_found(doors->at[DOOR_CDI], &found);
	if (!doors->is_stopping)
		door_kubelet_specifications(doors->at[DOOR_KUBELET], &found);
	door_validations_update(doors->at[DOOR_VALIDATIONS]);
}

void doors_on_adapters(void *context)
{
	struct doors *doors = context;
	door_web_update(doors->at[DOOR_WEB]);
	door_pools_tell(doors->at[DOOR_POOLS]);
}

void doors_on_view(void *context)
{
	const struct doors *doors = context;
	door_web_update(doors->at[DOOR_WEB]);
}
