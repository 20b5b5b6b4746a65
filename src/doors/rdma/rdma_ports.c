/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/rdma/rdma_ports.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/loop.h"
#include "base/storage.h"
#include "hardware/rdma.h"
#include "hardware/rdma_counters.h"

struct port {
	char device[RDMA_NAME_MAX];
	uint32_t number;
	struct rdma_counters counters;
};

struct rdma_ports {
	struct loop *loop; /* borrowed, these */
	const char *root;
	void (*counted)(void *context);
	void *context;
	struct loop_timer *due; /* owned; runs until the next reading */
	struct storage_job job;
	bool is_reading, is_stopped, has_read;
	uint64_t begun_ns;
	uint32_t count, next_count;
	struct port port[RDMA_PORTS_MAX];
	struct port next[RDMA_PORTS_MAX]; /* the storage thread's while it reads */
};

static int ports_work(void *context)
{
	struct rdma_ports *ports = context;
	for (uint32_t i = 0; i < ports->next_count; i++) {
		struct port *port = &ports->next[i];
		rdma_counters_read(ports->root, port->device, port->number, &port->counters);
	}
	return 0;
}

static void ports_on_done(void *context, int rc)
{
	struct rdma_ports *ports = context;
	(void)rc; /* 0: what cannot be read is unknown */
	ports->is_reading = false;
	ports->count = ports->next_count;
	memcpy(ports->port, ports->next, ports->count * sizeof(ports->port[0]));
	if (ports->counted && !ports->is_stopped)
		ports->counted(ports->context);
}

static void ports_on_due(void *context)
{
	struct rdma_ports *ports = context;
	if (ports->counted && !ports->is_stopped)
		ports->counted(ports->context);
}

int rdma_ports_new(struct loop *loop, const char *root, void (*counted)(void *context),
		   void *context, struct rdma_ports **out, struct err *err)
{
	struct rdma_ports *ports = calloc(1, sizeof(*ports));
	if (!ports)
		return err_set(err, -ENOMEM, "out of memory for counters of RDMA ports");

	ports->loop = loop;
	ports->root = root;
	ports->counted = counted;
	ports->context = context;
	ports->due = loop_timer_new(loop, ports_on_due, ports, err);
	if (!ports->due) {
		(void)rdma_ports_free(ports);
		return -ENOMEM;
	}

	*out = ports;
	return 0;
}

struct rdma_ports *rdma_ports_free(struct rdma_ports *ports)
{
	if (ports)
		(void)loop_timer_free(ports->due);
	free(ports);
	return NULL;
}

static void ports_list(struct rdma_ports *ports, const struct rdma_inventory *inventory)
{
	ports->next_count = 0;
	for (uint32_t d = 0; d < inventory->device_count; d++) {
		const struct rdma_device *device = &inventory->device[d];
		for (uint32_t p = 0; p < device->port_count && ports->next_count < RDMA_PORTS_MAX;
		     p++) {
			struct port *port = &ports->next[ports->next_count++];
			memcpy(port->device, device->name, sizeof(port->device));
			port->number = device->port[p].number;
		}
	}
}

void rdma_ports_look(struct rdma_ports *ports, struct storage *storage,
		     const struct rdma_inventory *inventory)
{
	uint64_t now_ns = loop_now_ns(ports->loop);

	if (ports->is_reading || ports->is_stopped || !storage || !inventory)
		return;

	if (ports->has_read && now_ns - ports->begun_ns < RDMA_PORTS_NS) {
		if (!loop_timer_is_running(ports->due))
			loop_timer_start(ports->due, ports->begun_ns + RDMA_PORTS_NS - now_ns);
		return;
	}

	ports_list(ports, inventory);
	if (ports->next_count == 0) {
		ports->count = 0;
		return;
	}

	ports->job =
	    (struct storage_job){.work = ports_work, .done = ports_on_done, .context = ports};
	ports->is_reading = storage_submit(storage, &ports->job, NULL) == 0;
	ports->has_read |= ports->is_reading;
	ports->begun_ns = now_ns;
}

void rdma_ports_stop(struct rdma_ports *ports)
{
	if (!ports)
		return;
	ports->is_stopped = true;
	loop_timer_stop(ports->due);
}

const struct rdma_counters *rdma_ports_find(const struct rdma_ports *ports, const char *device,
					    uint32_t port)
{
	for (uint32_t i = 0; ports && i < ports->count; i++) {
		if (ports->port[i].number == port && strcmp(ports->port[i].device, device) == 0)
			return &ports->port[i].counters;
	}
	return NULL;
}
