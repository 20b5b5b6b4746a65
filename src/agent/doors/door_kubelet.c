/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/doors/door_kubelet.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/answer.h"
#include "agent/cluster/cluster.h"
#include "agent/doors/doors.h"
#include "agent/doors/held_forms.h"
#include "agent/doors/leases.h"
#include "agent/node.h"
#include "agent/vitals.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "base/loop.h"
#include "doors/kubelet/injection.h"
#include "doors/kubelet/kubelet.h"
#include "doors/kubelet/podresources.h"
#include "doors/kubelet/resource.h"
#include "hardware/pci.h"
#include "policy/policy.h"
#include "wire/arena.h"

struct door_kubelet {
	struct door_kubelet_options options;
	struct kubelet *kubelet;     /* owned; NULL: closed */
	struct injection *injection; /* owned; NULL: closed */
	struct podresources *pods;   /* owned; NULL: closed */
	uint64_t generation;	     /* of node and vitals, when it was last told */
	struct resource_cdi cdi;     /* `missing` is owned */
	char socket[FILE_PATH_MAX];
	char error[ERR_TEXT_MAX]; /* last logged */
	bool is_stopping;
	enum injection_way way; /* as the runtime said last; one that restarts will say it again */
	enum door_kubelet_hold hold;
	char held[GPU_REASON_MAX]; /* why it is not open */
	bool knows_queue;	   /* what jobs hold is in the ledger */
	/* Owned; runs while nothing would put a GPU into a container and our own specifications
	 * may still be on their way. */
	struct loop_timer *unsure;
	struct held_forms forms;   /* devices that are kept out, as the kubelet was told */
	struct held_forms reasons; /* that, and what is wrong otherwise; for the call */
};

char *door_kubelet_directory(const char *socket)
{
	const char *slash = socket && *socket ? strrchr(socket, '/') : NULL;
	if (!slash)
		return NULL;
	return strndup(socket, slash == socket ? 1 : (size_t)(slash - socket));
}

static void door_kubelet_on_unsure(void *context);

static int door_kubelet_new(const struct door_kubelet_options *options, struct door_kubelet **out,
			    struct err *err)
{
	struct door_kubelet *door = calloc(1, sizeof(*door));
	if (!door)
		return err_set(err, -ENOMEM, "out of memory for the kubelet door");

	door->options = *options;
	door->unsure = loop_timer_new(options->loop, door_kubelet_on_unsure, door, err);
	if (!door->unsure) {
		free(door);
		return -ENOMEM;
	}

	const char *named = options->socket && *options->socket ? options->socket : NULL;
	int rc = named ? file_path(door->socket, err, "%s", named)
		       : file_path(door->socket, err, "%s%s", pci_root(), KUBELET_SOCKET);
	if (rc == 0 && door->socket[0] != '/')
		rc = err_set(err, -EINVAL,
			     "the kubelet's socket '%s' is no absolute path: give one with "
			     "--kubelet-socket, or \"\" to register nowhere",
			     door->socket);

	if (rc < 0) {
		(void)door_kubelet_free(door);
		return rc;
	}

	*out = door;
	return 0;
}

static void door_kubelet_on_no_injection(const char *reason, void *context)
{
	cluster_no_injection(context, reason);
}

int door_kubelet_open(struct doors *doors, void **out, struct err *err)
{
	const struct doors_parts *parts = doors_parts(doors);
	const struct door_kubelet_options options = {
	    .loop = parts->loop,
	    .log = parts->log,
	    .node = parts->node,
	    .vitals = parts->vitals,
	    .socket = parts->kubelet_socket,
	    .runtime = parts->runtime,
	    .leases = parts->leases,
	    .no_injection = door_kubelet_on_no_injection,
	    .context = parts->cluster,
	};
	struct door_kubelet *door = NULL;

	int rc = door_kubelet_new(&options, &door, err);
	*out = door;

	return rc;
}

void door_kubelet_stop(void *context)
{
	struct door_kubelet *door = context;
	door->is_stopping = true;
	door->pods = podresources_close(door->pods);
	door->injection = injection_close(door->injection);
	door->kubelet = kubelet_close(door->kubelet);
	if (door->unsure)
		loop_timer_stop(door->unsure);
}

void *door_kubelet_free(void *context)
{
	struct door_kubelet *door = context;
	if (!door)
		return NULL;

	door_kubelet_stop(door);
	(void)loop_timer_free(door->unsure);
	free((void *)door->cdi.missing);
	free(door);

	return NULL;
}

/* Each trouble once. */
static void door_kubelet_trouble(struct door_kubelet *door, const char *text)
{
	if (strcmp(text, door->error) == 0)
		return;
	(void)snprintf(door->error, sizeof(door->error), "%s", text);
	if (*text)
		log_write(door->options.log, LOG_LEVEL_ERROR, NULL, "the kubelet door: %s", text);
}

static bool door_kubelet_is_wanted(const struct door_kubelet *door)
{
	const struct policy *policy = node_policy(door->options.node);

	if (node_has_kubelet(door->options.node))
		return true;

	for (uint32_t i = 0; policy && i < policy->resource_count; i++) {
		if (policy->resources[i].door == POLICY_DOOR_KUBELET)
			return true;
	}

	return false;
}

static void door_kubelet_tell(struct door_kubelet *door);

static void door_kubelet_on_unsure(void *context)
{
	struct door_kubelet *door = context;
	const char *reason = injection_reason(door->injection);

	if (injection_now(door->injection) != INJECTION_NONE)
		return;

	log_write(door->options.log, LOG_LEVEL_WARNING, NULL, "containers get no driver: %s",
		  reason);
	if (door->options.no_injection)
		door->options.no_injection(reason, door->options.context);
}

static void door_kubelet_on_injection(void *context)
{
	struct door_kubelet *door = context;
	loop_timer_stop(door->unsure);

	if (injection_now(door->injection) != INJECTION_NONE)
		log_write(door->options.log, LOG_LEVEL_INFO, NULL, "injection: %s",
			  injection_reason(door->injection));
	else if (door->cdi.is_known)
		door_kubelet_on_unsure(door);
	else
		loop_timer_start(door->unsure, DOOR_KUBELET_UNSURE_NS);

	door_kubelet_tell(door);
}

static void door_kubelet_follow(struct door_kubelet *door)
{
	const struct node *node = door->options.node;
	bool is_known = door->pods && podresources_is_known(door->pods);
	bool is_gone =
	    !node_has_kubelet(node) && (!door->pods || *podresources_problem(door->pods));

	if (is_known || is_gone)
		leases_follow(door->options.leases, is_gone ? NULL : door->pods,
			      node_inventory(node), clock_unix_ns(),
			      loop_now_ns(door->options.loop));
}

bool door_kubelet_awaits_pods(const struct door_kubelet *door)
{
	return door->pods && !podresources_is_known(door->pods) &&
	       !*podresources_problem(door->pods);
}

static int door_kubelet_take(const char *resource, char *const *units, size_t count, void *context,
			     struct err *err)
{
	struct door_kubelet *door = context;
	if (!door->knows_queue)
		return err_set(err, -EAGAIN, "what jobs hold is not known yet");

	return leases_start(door->options.leases, resource, units, count, clock_unix_ns(),
			    loop_now_ns(door->options.loop), err);
}

/* Whether other devices are to be kept out than those of which the kubelet was told. */
static bool door_kubelet_forms_differ(const struct door_kubelet *door)
{
	const struct inventory *inventory = node_inventory(door->options.node);
	const struct policy *policy = node_policy(door->options.node);
	struct held_forms now;
	if (!inventory || !policy)
		return false;
	(void)held_forms_find(inventory, policy, leases_ledger(door->options.leases), &now);
	return memcmp(&now, &door->forms, sizeof(now)) != 0;
}

static void door_kubelet_on_pods(void *context)
{
	struct door_kubelet *door = context;
	const char *problem = podresources_problem(door->pods);
	if (*problem)
		log_write(door->options.log, LOG_LEVEL_INFO, NULL,
			  "which container holds which device is not known: %s", problem);

	door_kubelet_follow(door);
	if (door_kubelet_forms_differ(door))
		door_kubelet_tell(door);
}

/* Keeps devices out whose holders were promised something else. Told once for each. */
static void door_kubelet_keep_out(struct door_kubelet *door, struct kubelet_machine *machine)
{
	const struct inventory *inventory = machine->inventory;
	struct held_forms now;

	door_kubelet_follow(door);
	(void)held_forms_find(inventory, machine->policy, leases_ledger(door->options.leases),
			      &now);

	for (uint32_t i = 0; i < inventory->gpu_count; i++) {
		if (now.gpu[i] && !door->forms.gpu[i])
			log_write(door->options.log, LOG_LEVEL_WARNING, NULL,
				  "GPU %u (%s) is kept out: %s", inventory->gpus[i].index,
				  inventory->gpus[i].uuid, now.gpu[i]);
	}

	for (uint32_t i = 0; i < inventory->mig_count; i++) {
		if (now.mig[i] && !door->forms.mig[i])
			log_write(door->options.log, LOG_LEVEL_WARNING, NULL,
				  "MIG device %s is kept out: %s", inventory->migs[i].uuid,
				  now.mig[i]);
	}

	door->forms = now;
	/* What else is wrong with a device goes before. */
	for (uint32_t i = 0; i < inventory->gpu_count; i++) {
		if (machine->gpu_unhealthy && machine->gpu_unhealthy[i])
			now.gpu[i] = machine->gpu_unhealthy[i];
	}

	for (uint32_t i = 0; i < inventory->mig_count; i++) {
		if (machine->mig_unhealthy && machine->mig_unhealthy[i])
			now.mig[i] = machine->mig_unhealthy[i];
	}

	door->reasons = now;
	machine->gpu_unhealthy = door->reasons.gpu;
	machine->mig_unhealthy = door->reasons.mig;
}

static int door_kubelet_begin(struct door_kubelet *door, struct err *err)
{
	const struct node *node = door->options.node;
	const struct inventory *inventory = node_inventory(node);
	const struct kubelet_options kubelet = {
	    .loop = door->options.loop,
	    .log = door->options.log,
	    .socket = door->socket,
	    .root = pci_root(),
	    .no_registration = door->options.socket && !*door->options.socket,
	    .book = {.take = door_kubelet_take, .context = door},
	};
	const struct injection_options injection = {
	    .loop = door->options.loop,
	    .root = pci_root(),
	    .endpoint = door->options.runtime,
	    .vendor = resource_cdi_vendor(node_config(node), inventory && inventory->simulated),
	    .changed = door_kubelet_on_injection,
	    .context = door,
	};
	char socket[FILE_PATH_MAX];
	const struct podresources_options pods = {
	    .loop = door->options.loop,
	    .socket = socket,
	    .changed = door_kubelet_on_pods,
	    .context = door,
	};
	int rc = file_path(socket, err, "%s%s", pci_root(), PODRESOURCES_SOCKET);
	if (rc == 0 && !door->injection)
		rc = injection_open(&injection, &door->injection, err);

	if (rc == 0 && !door->pods)
		rc = podresources_open(&pods, &door->pods, err);

	return rc < 0 ? rc : kubelet_open(&kubelet, &door->kubelet, err);
}

/* Both count up, and so does their sum. */
static uint64_t door_kubelet_generation(const struct door_kubelet *door)
{
	return node_generation(door->options.node) + vitals_generation(door->options.vitals);
}

/* None of the resources that there were. */
static const struct policy door_kubelet_nothing;

/* Which ways into a container the answers name beside the environment. What is admitted while the
 * runtime of this node restarts, or before it has been asked, begins when it is back: as long as
 * nobody knows who will inject, all ways are named. */
static void door_kubelet_inject(struct door_kubelet *door, struct kubelet_machine *machine)
{
	if (!door->injection)
		return;

	enum injection_way now = injection_now(door->injection);
	if (now != INJECTION_UNKNOWN)
		door->way = now;
	bool is_silent = door->way == INJECTION_UNKNOWN && injection_is_there(door->injection);

	machine->also_nodes = is_silent || door->way == INJECTION_NONE;
	machine->also_cdi =
	    door->way == INJECTION_CDI || (is_silent && injection_has_kind(door->injection));
}

static void door_kubelet_tell(struct door_kubelet *door)
{
	const char *held[GPU_MAX];
	const struct node *node = door->options.node;
	const struct vitals *vitals = door->options.vitals;
	const struct inventory *inventory = node_inventory(node);
	uint32_t gpus, migs;

	const char *const *gpu_unhealthy = vitals_gpu_unhealthy(vitals, &gpus);
	const char *const *mig_unhealthy = vitals_mig_unhealthy(vitals, &migs);

	bool is_judged = inventory && gpus == inventory->gpu_count && migs == inventory->mig_count;
	struct kubelet_machine machine = {
	    .inventory = inventory,
	    .policy = node_policy(node),
	    .config = node_config(node),
	    .gpu_unhealthy = is_judged ? gpu_unhealthy : NULL, /* else there was no memory */
	    .mig_unhealthy = is_judged ? mig_unhealthy : NULL,
	    .cdi = door->cdi,
	};
	struct err err = {0};
	int rc = 0;

	if (machine.inventory && machine.policy)
		door_kubelet_keep_out(door, &machine);

	for (size_t i = 0; i < GPU_MAX; i++)
		held[i] = door->held;

	if (door->hold == DOOR_KUBELET_SHUT)
		machine.policy = &door_kubelet_nothing;
	else if (door->hold == DOOR_KUBELET_UNHEALTHY)
		machine.gpu_unhealthy = held;

	if (door->is_stopping || (!door->kubelet && !door_kubelet_is_wanted(door)))
		return;
	if (!door->kubelet)
		rc = door_kubelet_begin(door, &err);
	if (door->injection && machine.inventory)
		injection_set_vendor(
		    door->injection,
		    resource_cdi_vendor(machine.config, machine.inventory->simulated));
	door_kubelet_inject(door, &machine);

	if (rc == 0)
		rc = kubelet_set_machine(door->kubelet, &machine, &err);
	door_kubelet_trouble(door, rc < 0 ? err.text : "");

	/* Tried again with the next look. */
	door->generation = rc < 0 ? 0 : door_kubelet_generation(door);
}

void door_kubelet_update(void *context)
{
	struct door_kubelet *door = context;
	if (door->generation == door_kubelet_generation(door))
		return;
	/* Who holds what decides whether it may be given in another form. */
	door_kubelet_ask(door);
	door_kubelet_tell(door);
}

void door_kubelet_jobs(void *context)
{
	struct door_kubelet *door = context;
	if (node_is_known(door->options.node) && door_kubelet_forms_differ(door))
		door_kubelet_tell(door);
}

void door_kubelet_set_queue(void *context, struct queue *queue)
{
	struct door_kubelet *door = context;

	(void)queue;
	door->knows_queue = true;
	door_kubelet_jobs(door);
	if (door->kubelet)
		kubelet_resume(door->kubelet);
}

void door_kubelet_look(void *context)
{
	struct door_kubelet *door = context;
	if (node_is_known(door->options.node))
		door_kubelet_tell(door);
}

static bool door_kubelet_is_other(const struct resource_cdi *a, const struct resource_cdi *b)
{
	return a->is_known != b->is_known || a->modes != b->modes ||
	       a->missing_count != b->missing_count ||
	       (a->missing_count > 0 &&
		memcmp(a->missing, b->missing, a->missing_count * sizeof(*a->missing)) != 0);
}

void door_kubelet_specifications(struct door_kubelet *door, const struct resource_cdi *cdi)
{
	bool is_new = door_kubelet_is_other(&door->cdi, cdi);
	if (is_new) {
		size_t size = cdi->missing_count * sizeof(*cdi->missing);
		void *missing = size > 0 ? malloc(size) : NULL;

		free((void *)door->cdi.missing);
		door->cdi = *cdi;

		if (missing)
			memcpy(missing, cdi->missing, size);
		else
			door->cdi.missing_count = 0;

		door->cdi.missing = missing;
	}

	if (door->injection)
		injection_look(door->injection);
	if (is_new && node_is_known(door->options.node))
		door_kubelet_tell(door);
}

bool door_kubelet_is_pending(const struct door_kubelet *door)
{
	struct kubelet_view view;

	if (!node_is_known(door->options.node))
		return node_has_kubelet(door->options.node) && file_exists(door->socket);

	for (size_t i = 0; door->kubelet && kubelet_resource_at(door->kubelet, i, &view); i++) {
		if (view.state == KUBELET_REGISTERING || view.state == KUBELET_REGISTERED)
			return true;
	}

	return false;
}

void door_kubelet_ask(struct door_kubelet *door)
{
	if (door->pods)
		podresources_look(door->pods);
}

void door_kubelet_hold(struct door_kubelet *door, enum door_kubelet_hold how, const char *why)
{
	if (door->hold == how && strcmp(door->held, why) == 0)
		return;
	door->hold = how;
	(void)snprintf(door->held, sizeof(door->held), "%s", why);
	if (node_is_known(door->options.node))
		door_kubelet_tell(door);
}

void door_kubelet_register_again(void *context)
{
	struct door_kubelet *door = context;
	if (door->kubelet)
		kubelet_register_again(door->kubelet);
}

const struct kubelet *door_kubelet_kubelet(const struct door_kubelet *door)
{
	return door->kubelet;
}

const struct injection *door_kubelet_injection(const struct door_kubelet *door)
{
	return door->injection;
}

const struct podresources *door_kubelet_pods(const struct door_kubelet *door)
{
	return door->pods;
}

const char *door_kubelet_socket(const struct door_kubelet *door)
{
	return door->kubelet ? door->socket : "";
}

void door_kubelet_status(const void *context, struct arena *arena, Sluice__V1__StatusReply *out)
{
	const struct door_kubelet *door = context;
	struct kubelet_view view;

	if (door && *door->held) {
		char text[320];
		(void)snprintf(text, sizeof(text), "the kubelet gets no healthy device: %s",
			       door->held);
		answer_warn(out, arena, text);
	}

	if (!door || !door->kubelet)
		return;

	out->kubelet_socket = answer_text(arena, door_kubelet_socket(door));
	out->injection =
	    answer_text(arena, injection_way_to_string(injection_now(door->injection)));
	out->injection_reason = answer_text(arena, injection_reason(door->injection));
	out->kubelet =
	    arena_alloc(arena, (kubelet_count(door->kubelet) + 1) * sizeof(*out->kubelet));

	for (size_t i = 0; out->kubelet && kubelet_resource_at(door->kubelet, i, &view); i++) {
		out->kubelet[i] = answer_resource(&view, arena);
		if (!out->kubelet[i])
			return;
		out->n_kubelet++;
	}
}
