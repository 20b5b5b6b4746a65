/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/doors/door_rdma.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/cluster/cluster.h"
#include "agent/doors/doors.h"
#include "agent/doors/queue_pools.h"
#include "agent/doors/rdma_act.h"
#include "agent/doors/rdma_file.h"
#include "agent/filewatch.h"
#include "agent/node.h"
#include "agent/notes.h"
#include "agent/paths.h"
#include "agent/web/door_web_events.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/storage.h"
#include "base/text.h"
#include "doors/cdi/adapters.h"
#include "doors/kubelet/kubelet.h"
#include "doors/kubelet/pool.h"
#include "doors/kubelet/resource.h"
#include "doors/rdma/rdma_ports.h"
#include "hardware/pci.h"
#include "hardware/rdma.h"
#include "hardware/rdma_health.h"
#include "hardware/uevent.h"
#include "policy/config.h"

enum { DOOR_RDMA_QUEUE = 4 };

/* One reading of all adapters. */
struct door_rdma_run {
	struct door_rdma *door; /* borrowed */
	struct storage_job job;
	struct rdma_inventory *inventory; /* owned */
	struct filewatch_plan plan;
	struct err err;
};

/* How an adapter has been over time. */
struct door_rdma_adapter {
	char name[RDMA_NAME_MAX]; /* rdma_function_name() */
	struct rdma_health health;
};

struct door_rdma {
	struct door_rdma_options options;
	struct rdma_file *file;	   /* owned, all of these */
	struct storage *reader;	   /* NULL: no adapters are configured */
	struct kubelet *kubelet;   /* NULL: closed */
	struct filewatch *watch;   /* on nodes; NULL: there is none */
	struct loop_timer *look;   /* runs where adapters are looked at by the clock */
	struct loop_timer *soon;   /* runs after a word of the kernel */
	struct loop_fd *uevent;	   /* NULL: the kernel is not heard */
	int uevent_fd;		   /* -1 */
	struct door_rdma_run *run; /* NULL: none is under way */
	struct rdma_act *act;	   /* NULL: none is under way */
	struct rdma_ports *ports;  /* owned; counters of metrics */
	bool run_again, act_again, is_stopping;
	bool writes_cdi;
	bool lacks_cdi, lacks_hook;	  /* could not be written when it was tried last */
	struct rdma_inventory *inventory; /* NULL: not read yet */
	struct rdma_policy policy;
	struct door_rdma_adapter *adapters; /* as many as the inventory has functions */
	size_t adapter_count;
	bool is_down[RDMA_FUNCTION_MAX]; /* by place in the inventory */
	bool is_new[RDMA_FUNCTION_MAX];	 /* was not there when it was read before */
	struct notes notes;
	char error[ERR_TEXT_MAX];     /* of the last reading; "" */
	char act_error[ERR_TEXT_MAX]; /* of what was done because of it; "" */
};

static void door_rdma_look(struct door_rdma *door);

/* --- what is told -------------------------------------------------------------------------------
 */

/* Each note begins with the word of its Event. */
static void door_rdma_tell(const char *text, void *context)
{
	const struct door_rdma *door = context;
	char reason[32];
	size_t length = strcspn(text, " ");

	(void)snprintf(reason, sizeof(reason), "%.*s", (int)length, text);
	text += length + (text[length] == ' ');
	log_write(door->options.log, LOG_LEVEL_WARNING, NULL, "RDMA: %s", text);

	if (door->options.event)
		door->options.event(true, reason, text, door->options.context);
}

static void door_rdma_note_resource(struct door_rdma *door, const struct rdma_resource *resource,
				    struct notes *out)
{
	char text[NOTES_TEXT_MAX], problem[RDMA_POLICY_REASON_MAX], name[RDMA_NAME_MAX];

	for (uint32_t i = 0; i < resource->candidate_count; i++) {
		const struct rdma_candidate *candidate = &resource->candidates[i];
		const struct rdma_function *function =
		    &door->inventory->function[candidate->function];

		rdma_policy_explain(resource, door->inventory, candidate, text, sizeof(text));
		if (candidate->reason_count > 0)
			notes_add(out, "RDMANotOffered %s", text);
		else if (!rdma_resource_is_healthy(resource, candidate, door->is_down))
			notes_add(out,
				  "RDMAPortDown %s (%s) is not handed out as %s: no port is up",
				  rdma_function_name(door->inventory, function, name),
				  function->is_software
				      ? "software"
				      : door->inventory->device[function->devices[0]].name,
				  resource->name);
	}

	rdma_policy_problem(resource, door->inventory, door->is_down, problem);
	if (problem[0] != '\0')
		notes_add(out, "RDMANoAdapters %s has nothing to hand out on this node: %s",
			  resource->name, problem);
}

/* A port that is up again is good news, and not among the notes any more. */
static void door_rdma_tell_recovered(const struct door_rdma *door, const struct notes *now)
{
	static const char down[] = "RDMAPortDown ";

	for (size_t i = 0; i < door->notes.count; i++) {
		const char *text = door->notes.items[i];
		char message[NOTES_TEXT_MAX];

		if (!text_starts_with(text, down) || notes_have(now, text))
			continue;

		text += sizeof(down) - 1;
		(void)snprintf(message, sizeof(message), "no more: %s", text);
		log_write(door->options.log, LOG_LEVEL_NOTICE, NULL, "RDMA: %s", message);

		if (door->options.event)
			door->options.event(false, "RDMAPortUp", message, door->options.context);
	}
}

static void door_rdma_note(struct door_rdma *door)
{
	struct notes now = {.count = 0};
	for (size_t i = 0; i < door->policy.count; i++)
		door_rdma_note_resource(door, &door->policy.resources[i], &now);
	door_rdma_tell_recovered(door, &now);
	notes_replace(&door->notes, &now, door_rdma_tell, door);
}

/* Each trouble once. `last` is one of the two texts of the door. */
static void door_rdma_log(const struct door_rdma *door, char last[ERR_TEXT_MAX], const char *text)
{
	if (strcmp(text, last) == 0)
		return;
	(void)snprintf(last, ERR_TEXT_MAX, "%s", text);
	if (*text)
		log_write(door->options.log, LOG_LEVEL_ERROR, NULL, "RDMA: %s", text);
}

static void door_rdma_trouble(struct door_rdma *door, const char *text)
{
	door_rdma_log(door, door->error, text);
}

/* --- the kubelet --------------------------------------------------------------------------------
 */

static int door_rdma_open_kubelet(struct door_rdma *door, struct err *err)
{
	const char *socket = door->options.kubelet_socket;
	const struct kubelet_options kubelet = {
	    .loop = door->options.loop,
	    .log = door->options.log,
	    .socket = socket && *socket ? socket : NULL,
	    .root = door->options.root,
	    .no_registration = socket && !*socket,
	};

	return door->kubelet ? 0 : kubelet_open(&kubelet, &door->kubelet, err);
}

static bool door_rdma_is_served(const struct door_rdma *door, const char *name)
{
	struct kubelet_view view;
	for (size_t i = 0; door->kubelet && kubelet_resource_at(door->kubelet, i, &view); i++) {
		if (strcmp(view.name, name) == 0)
			return true;
	}
	return false;
}

/* Only a CDI device brings the hook that raises the limit of locked memory. */
static void door_rdma_name_device(const struct door_rdma *door,
				  const struct rdma_resource *resource, char out[POOL_CDI_MAX])
{
	char name[ADAPTERS_NAME_MAX];
	bool is_simulated = false;

	if (resource->entry->memlock_bytes == 0 || !door->writes_cdi ||
	    !node_config(door->options.node)->cdi_write)
		return;

	for (uint32_t i = 0; i < resource->candidate_count; i++)
		is_simulated |=
		    door->inventory->function[resource->candidates[i].function].simulated;

	adapters_resource_name(resource->name, name);
	(void)snprintf(out, POOL_CDI_MAX, "%s=%s",
		       is_simulated ? ADAPTERS_KIND_SIMULATED : ADAPTERS_KIND, name); /* fits */
}

static int door_rdma_pool(const struct door_rdma *door, const struct rdma_resource *resource,
			  struct kubelet_resource **out, struct err *err)
{
	_cleanup_free_ struct rdma_node *nodes = NULL;
	struct kubelet_pool pool = {.units = resource->entry->units};
	int rc = rdma_resource_nodes(resource, door->inventory, door->is_down, &nodes,
				     &pool.path_count, err);
	if (rc < 0)
		return rc;

	_cleanup_free_ void *paths = calloc(pool.path_count + 1, sizeof(*pool.paths));
	if (!paths)
		return err_set(err, -ENOMEM, "%s: out of memory", resource->name);

	pool.paths = paths;
	for (size_t i = 0; i < pool.path_count; i++)
		(void)snprintf(pool.paths[i], sizeof(pool.paths[i]), "%s", nodes[i].path);

	door_rdma_name_device(door, resource, pool.cdi);
	rdma_policy_problem(resource, door->inventory, door->is_down, pool.reason);
	pool.is_healthy = rdma_resource_healthy(resource, door->is_down) > 0;

	/* Its containers would not start. */
	if (pool.cdi[0] && pool.is_healthy &&
	    (door->lacks_cdi || (door->lacks_hook && !resource->entry->memlock_warns))) {
		pool.is_healthy = false;
		(void)snprintf(pool.reason, sizeof(pool.reason), "%.*s", POOL_REASON_MAX - 1,
			       door->act_error);
	}

	pool.numa = rdma_resource_numa(resource, door->inventory);
	return pool_new(resource->name, &pool, out, err);
}

/* A resource without an adapter is not offered; one that was offered before keeps its units,
 * unhealthy: its adapters may come back, and pods hold them. */
static int door_rdma_offer(struct door_rdma *door, struct err *err)
{
	size_t count = 0;
	int rc = 0;

	if (!node_has_kubelet(door->options.node) && !door->kubelet)
		return 0;

	_cleanup_free_ struct kubelet_resource **resources =
	    calloc(door->policy.count + 1, sizeof(struct kubelet_resource *));
	if (!resources)
		return err_set(err, -ENOMEM, "out of memory for RDMA resources");

	for (size_t i = 0; rc == 0 && i < door->policy.count; i++) {
		const struct rdma_resource *resource = &door->policy.resources[i];
		if (resource->offered == 0 && !door_rdma_is_served(door, resource->name))
			continue;
		rc = door_rdma_pool(door, resource, &resources[count], err);
		count += rc == 0;
	}

	if (rc == 0 && count > 0)
		rc = door_rdma_open_kubelet(door, err);
	if (rc == 0 && door->kubelet)
		return kubelet_set_resources(door->kubelet, resources, count, err);

	while (count > 0)
		(void)resource_free(resources[--count]);

	return rc;
}

/* --- what follows from adapters and configuration -----------------------------------------------
 */

static bool door_rdma_watches_ports(const struct rdma_config *config)
{
	for (size_t i = 0; i < config->count; i++) {
		if (config->entries[i].health == RDMA_CONFIG_HEALTH_PORT)
			return true;
	}
	return false;
}

/* What has failed is tried again even where nobody wants adapters to be looked at. */
static void door_rdma_set_clock(struct door_rdma *door, const struct rdma_config *config)
{
	uint64_t period_ns = (uint64_t)config->period_s * UINT64_C(1000000000);
	if (door_rdma_watches_ports(config) && (period_ns == 0 || period_ns > DOOR_RDMA_PORTS_NS))
		period_ns = DOOR_RDMA_PORTS_NS;
	if (period_ns == 0 && (door->error[0] || door->act_error[0]))
		period_ns = DOOR_RDMA_RETRY_NS;
	if (period_ns > 0)
		loop_timer_start(door->look, period_ns);
	else
		loop_timer_stop(door->look);
}

static void door_rdma_act(struct door_rdma *door);

static void door_rdma_on_acted(const struct rdma_act_result *result, void *context)
{
	struct door_rdma *door = context;
	struct err err = {0};

	door->act = NULL;      /* frees itself */
	if (door->is_stopping) /* and the node is gone */
		return;

	const struct rdma_config *config = rdma_file_config(door->file);
	bool is_other = strcmp(door->act_error, result->error) != 0;

	door->lacks_cdi = !result->has_cdi;
	door->lacks_hook = !result->has_hook;
	door_rdma_log(door, door->act_error, result->error);

	if (is_other && config)
		door_rdma_set_clock(door, config);
	if (is_other && door_rdma_offer(door, &err) < 0)
		door_rdma_trouble(door, err.text);
	if (door->act_again)
		door_rdma_act(door);
}

/* CDI and interfaces: tried again with the next look. */
static void door_rdma_act(struct door_rdma *door)
{
	const struct rdma_act_options act = {
	    .storage = door->reader ? door->reader : door->options.storage,
	    .root = door->options.root,
	    .directory = door->options.paths->state_dir,
	    .inventory = door->inventory,
	    .policy = &door->policy,
	    .is_down = door->is_down,
	    .is_new = door->is_new,
	    .writes_cdi = door->writes_cdi,
	    .wants_cdi = node_config(door->options.node)->cdi_write,
	    .done = door_rdma_on_acted,
	    .context = door,
	};
	struct err err = {0};

	door->act_again = door->act != NULL; /* what it does is not the newest */
	if (door->act)
		return;
	if (rdma_act_start(&act, &door->act, &err) < 0)
		door_rdma_log(door, door->act_error, err.text);
	memset(door->is_new, 0, sizeof(door->is_new));
}

/* Of a configuration and an inventory that are as they are now. */
static void door_rdma_apply(struct door_rdma *door)
{
	static const struct rdma_config nothing = {.count = 0};
	const struct rdma_config *config = rdma_file_config(door->file);
	struct rdma_policy policy;
	struct err err = {0};

	if (!door->inventory)
		return;

	int rc = rdma_policy_make(config ? config : &nothing, door->inventory, &policy, &err);
	if (rc == 0) {
		rdma_policy_done(&door->policy);
		door->policy = policy;
		door_rdma_note(door);
		rc = door_rdma_offer(door, &err);
	} else { /* what it borrows of the configuration may be gone */
		rdma_policy_done(&door->policy);
	}

	door_rdma_trouble(door, rc < 0 ? err.text : "");
	door_rdma_act(door);
	if (door->options.changed && !door->is_stopping)
		door->options.changed(door->options.context);
}

/* --- a reading ----------------------------------------------------------------------------------
 */

static int door_rdma_work(void *context)
{
	struct door_rdma_run *run = context;
	const struct door_rdma *door = run->door;
	char path[FILE_PATH_MAX];

	/* Watched before it is looked at, so that nothing happens in between. */
	if (door->watch && file_path(path, NULL, "%s/dev/infiniband", door->options.root) == 0)
		filewatch_plan_directory(door->watch, path, &run->plan);
	if (door->watch && door->options.root[0] != '\0' &&
	    file_path(path, NULL, "%s/uevent", door->options.root) == 0)
		filewatch_plan_file(door->watch, path, &run->plan);

	/* Of the real one nobody tells but the kernel. */
	if (door->watch && door->options.root[0] != '\0' &&
	    file_path(path, NULL, "%s/sys/class/infiniband", door->options.root) == 0)
		filewatch_plan_directory(door->watch, path, &run->plan);

	return rdma_read(door->options.root, run->inventory, &run->err);
}

/* An adapter that was there before goes on where it was. */
static int door_rdma_judge(struct door_rdma *door, const struct rdma_inventory *inventory,
			   struct err *err)
{
	size_t count = inventory->function_count;
	uint64_t now_ns = loop_now_ns(door->options.loop);
	struct door_rdma_adapter *adapters = calloc(count + 1, sizeof(*adapters));
	if (!adapters)
		return err_set(err, -ENOMEM, "out of memory for %zu RDMA adapters", count);

	for (size_t i = 0; i < count; i++) {
		const struct rdma_function *function = &inventory->function[i];
		(void)rdma_function_name(inventory, function, adapters[i].name);
		door->is_new[i] = true;

		for (size_t k = 0; k < door->adapter_count; k++) {
			if (strcmp(door->adapters[k].name, adapters[i].name) != 0)
				continue;
			adapters[i].health = door->adapters[k].health;
			door->is_new[i] = false;
		}

		(void)rdma_health_read(&adapters[i].health,
				       rdma_function_is_up(inventory, function), now_ns);
		door->is_down[i] = !rdma_health_is_ok(&adapters[i].health);
	}

	free(door->adapters);
	door->adapters = adapters;
	door->adapter_count = count;

	return 0;
}

static struct door_rdma_run *door_rdma_run_free(struct door_rdma_run *run)
{
	free(run->inventory);
	free(run);
	return NULL;
}

static void door_rdma_take(struct door_rdma *door, struct door_rdma_run *run, int code)
{
	if (code == 0)
		code = door_rdma_judge(door, run->inventory, &run->err);
	if (code < 0) {
		door_rdma_trouble(door, run->err.text);
		return;
	}

	/* Whether a verdict is another is not in the inventory: all of it is looked at again, and
	 * only what differs goes out. */
	free(door->inventory);
	door->inventory = take_ptr(run->inventory);
	door_rdma_apply(door);
}

static void door_rdma_on_done(void *context, int code)
{
	struct door_rdma_run *run = context;
	struct door_rdma *door = run->door;

	door->run = NULL;
	if (!door->is_stopping) {
		const struct rdma_config *config = rdma_file_config(door->file);

		if (door->watch)
			filewatch_set(door->watch, &run->plan);
		door_rdma_take(door, run, code);
		if (config)
			door_rdma_set_clock(door, config);
	}

	(void)door_rdma_run_free(run);
	if (door->run_again)
		door_rdma_look(door);
}

/* What cannot even be begun is tried again with the clock. */
static void door_rdma_look(struct door_rdma *door)
{
	door->run_again = door->run != NULL && !door->is_stopping;
	if (door->run || door->is_stopping || !door->reader)
		return;

	struct door_rdma_run *run = calloc(1, sizeof(*run));
	if (!run)
		return;

	run->door = door;
	run->job =
	    (struct storage_job){.work = door_rdma_work, .done = door_rdma_on_done, .context = run};
	run->inventory = calloc(1, sizeof(*run->inventory));
	if (!run->inventory || storage_submit(door->reader, &run->job, NULL) < 0)
		run = door_rdma_run_free(run);
	door->run = run;
}

static void door_rdma_on_look(void *context)
{
	struct door_rdma *door = context;
	const struct rdma_config *config = rdma_file_config(door->file);
	door_rdma_look(door);
	if (!door->run && config)
		door_rdma_set_clock(door, config);
}

static void door_rdma_on_soon(void *context)
{
	door_rdma_look(context);
}

static void door_rdma_on_files(void *context)
{
	door_rdma_look(context);
}

/* A driver that is loaded says many things at once. */
static void door_rdma_on_uevent(int fd, unsigned events, void *context)
{
	struct door_rdma *door = context;
	(void)events;
	if (uevent_take(fd, "infiniband"))
		loop_timer_start(door->soon, DOOR_RDMA_QUIET_NS);
}

/* --- the configuration --------------------------------------------------------------------------
 */

/* The thread, and the kernel's word: only where there is something to look at. */
static int door_rdma_begin(struct door_rdma *door, struct err *err)
{
	struct err unheard = {0};

	if (door->reader)
		return 0;

	door->reader = storage_new(door->options.loop, DOOR_RDMA_QUEUE, err);
	if (!door->reader)
		return -ENOMEM;
	if (filewatch_new(door->options.loop, door_rdma_on_files, door, &door->watch, &unheard) < 0)
		log_write(door->options.log, LOG_LEVEL_INFO, NULL,
			  "RDMA: nodes that come and go are noticed late: %s", unheard.text);
	if (door->options.root[0] != '\0')
		return 0;

	door->uevent_fd = uevent_open(&unheard);
	if (door->uevent_fd >= 0)
		door->uevent = loop_fd_new(door->options.loop, door->uevent_fd, LOOP_READ,
					   door_rdma_on_uevent, door, &unheard);
	if (!door->uevent)
		log_write(door->options.log, LOG_LEVEL_INFO, NULL,
			  "RDMA: adapters that come and go are noticed late: %s", unheard.text);

	return 0;
}

static void door_rdma_on_configuration(void *context)
{
	struct door_rdma *door = context;
	const struct rdma_config *config = rdma_file_config(door->file);
	struct err err = {0};

	if (door->is_stopping)
		return;
	if (config && door_rdma_begin(door, &err) < 0)
		door_rdma_trouble(door, err.text);
	if (!config)
		loop_timer_stop(door->look);
	door_rdma_apply(door);

	if (config)
		door_rdma_look(door);
	else if (!door->inventory)
		door_rdma_act(door); /* what an earlier agent has left */
}

static void door_rdma_on_refused(const char *text, void *context)
{
	const struct door_rdma *door = context;
	if (door->options.event && !door->is_stopping)
		door->options.event(true, "RDMAConfigurationRefused", text, door->options.context);
}

void door_rdma_update(void *context)
{
	struct door_rdma *door = context;
	if (!door || door->is_stopping)
		return;
	rdma_file_update(door->file, false);
	if (!door->kubelet && door->policy.count > 0 && node_has_kubelet(door->options.node))
		door_rdma_apply(door);
}

void door_rdma_reload(void *context)
{
	struct door_rdma *door = context;
	if (door && !door->is_stopping)
		rdma_file_update(door->file, true);
}

/* --- its life -----------------------------------------------------------------------------------
 */

static int door_rdma_make(struct door_rdma *door, struct err *err)
{
	const struct door_rdma_options *options = &door->options;
	const struct rdma_file_options file = {
	    .loop = options->loop,
	    .storage = options->storage,
	    .log = options->log,
	    .node = options->node,
	    .root = strcmp(options->root, PCI_NO_ROOT) == 0 ? "" : options->root,
	    .changed = door_rdma_on_configuration,
	    .refused = door_rdma_on_refused,
	    .context = door,
	};

	door->writes_cdi = options->root[0] != '\0' ? strcmp(options->root, PCI_NO_ROOT) != 0
						    : options->paths->is_system;
	door->look = loop_timer_new(options->loop, door_rdma_on_look, door, err);
	if (door->look)
		door->soon = loop_timer_new(options->loop, door_rdma_on_soon, door, err);
	if (!door->soon)
		return -ENOMEM;

	int rc = rdma_ports_new(options->loop, options->root, options->counted, options->context,
				&door->ports, err);
	if (rc == 0)
		rc = rdma_file_new(&file, &door->file, err);
	if (rc == 0 && rdma_file_config(door->file))
		door_rdma_on_configuration(door);

	return rc;
}

int door_rdma_new(const struct door_rdma_options *options, struct door_rdma **out, struct err *err)
{
	struct door_rdma *door = calloc(1, sizeof(*door));
	if (!door)
		return err_set(err, -ENOMEM, "out of memory for RDMA adapters");

	door->options = *options;
	door->uevent_fd = -1;

	int rc = door_rdma_make(door, err);
	if (rc < 0) {
		(void)door_rdma_free(door);
		return rc;
	}

	*out = door;
	return 0;
}

static void door_rdma_on_event(bool is_warning, const char *reason, const char *text, void *context)
{
	const struct doors_parts *parts = doors_parts(context);
	cluster_rdma(parts->cluster, is_warning, reason, text);
	web_events_adapter(parts->events, is_warning, text);
	doors_on_view(context);
}

int door_rdma_open(struct doors *doors, void **out, struct err *err)
{
	const struct doors_parts *parts = doors_parts(doors);
	const struct door_rdma_options options = {
	    DOORS_OPTIONS(parts),	 .kubelet_socket = parts->kubelet_socket,
	    .event = door_rdma_on_event, .changed = doors_on_adapters,
	    .counted = doors_on_view,	 .context = doors,
	};
	struct door_rdma *door = NULL;

	int rc = door_rdma_new(&options, &door, err);
	*out = door;

	return rc;
}

void door_rdma_stop(void *context)
{
	struct door_rdma *door = context;
	if (!door)
		return;

	door->is_stopping = true;
	rdma_file_stop(door->file);
	rdma_ports_stop(door->ports);
	loop_timer_stop(door->look);
	loop_timer_stop(door->soon);
	door->kubelet = kubelet_close(door->kubelet);
}

void *door_rdma_free(void *context)
{
	struct door_rdma *door = context;
	if (!door)
		return NULL;

	door->is_stopping = true;
	door->run_again = false;
	rdma_ports_stop(door->ports);
	(void)storage_close(door->reader);
	(void)rdma_ports_free(door->ports);
	(void)kubelet_close(door->kubelet);
	(void)rdma_file_free(door->file);
	(void)filewatch_free(door->watch);

	(void)loop_fd_free(door->uevent);
	cleanup_close_fn(&door->uevent_fd);
	(void)loop_timer_free(door->look);
	(void)loop_timer_free(door->soon);
	rdma_policy_done(&door->policy);
	notes_done(&door->notes);
	free(door->inventory);
	free(door->adapters);
	free(door);

	return NULL;
}

/* --- how it is ----------------------------------------------------------------------------------
 */

void door_rdma_register_again(void *context)
{
	struct door_rdma *door = context;
	if (door && door->kubelet)
		kubelet_register_again(door->kubelet);
}

const struct kubelet *door_rdma_kubelet(const struct door_rdma *door)
{
	return door ? door->kubelet : NULL;
}

bool door_rdma_resource_at(const struct door_rdma *door, size_t index, struct door_rdma_view *out)
{
	if (!door || index >= door->policy.count)
		return false;

	const struct rdma_resource *resource = &door->policy.resources[index];
	*out = (struct door_rdma_view){
	    .name = resource->name,
	    .units = resource->entry->units,
	    .adapters = resource->candidate_count,
	    .healthy = rdma_resource_healthy(resource, door->is_down),
	};
	rdma_policy_problem(resource, door->inventory, door->is_down, out->problem);

	return true;
}

void door_rdma_source(const struct door_rdma *door, struct queue_pools_source *out)
{
	if (!door)
		return;

	out->is_unknown =
	    !rdma_file_is_known(door->file) || (rdma_file_config(door->file) && !door->inventory);
	if (!door->inventory)
		return;

	out->policy = &door->policy;
	out->adapters = door->inventory;
	out->is_down = door->is_down;
}

void door_rdma_count(struct door_rdma *door)
{
	if (door && !door->is_stopping)
		rdma_ports_look(door->ports, door->reader, door->inventory);
}

const struct rdma_counters *door_rdma_counters(const struct door_rdma *door, const char *device,
					       uint32_t port)
{
	return door ? rdma_ports_find(door->ports, device, port) : NULL;
}

const char *door_rdma_note_at(const struct door_rdma *door, size_t index)
{
	if (!door || index >= door->notes.count)
		return NULL;
	const char *blank = strchr(door->notes.items[index], ' ');
	return blank ? blank + 1 : door->notes.items[index];
}

const char *door_rdma_error(const struct door_rdma *door)
{
	if (!door)
		return "";
	const char *text = rdma_file_error(door->file);
	return *text ? text : door->error[0] ? door->error : door->act_error;
}
