/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/node.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/libexec.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/repeats.h"
#include "hardware/pci.h"
#include "hardware/snapshot.h"
#include "policy/policy.h"
#include "probe/client.h"

struct node {
	struct node_options options;
	const struct config *config; /* borrowed */
	struct probe_client *client; /* owned; NULL: none could be started */
	int probe_fd;		     /* owned; the probe's program; -1: not looked for, or none */
	struct loop_fd *watch;	     /* owned; of the client */
	struct loop_timer *silence;  /* owned; runs out when no sample comes */
	struct loop_timer *restart;  /* owned; runs while there is no client */
	struct loop_timer *resume;   /* owned; runs while the driver is released */
	uint64_t released_until_ns;  /* loop time; 0: it is not released */
	struct loop_timer *kubelet;  /* owned; runs until there is one */
	bool has_kubelet;
	uint64_t generation;
	struct policy *policy; /* owned */
	bool has_driver;       /* an inventory came, and nothing since that voids it */
	bool is_known;
	struct repeats logged; /* events of the probe */
	char driver_problem[NODE_PROBLEM_MAX];
	char policy_problem[NODE_PROBLEM_MAX];
};

static void node_start_probe(struct node *node);

/* --- policy ---------------------------------------------------------------------------------- */

/* Returns whether it is there for the first time. */
static bool node_look_for_kubelet(struct node *node)
{
	char path[FILE_PATH_MAX];
	const char *named = node->options.kubelet_directory;

	if (node->has_kubelet ||
	    (named ? file_path(path, NULL, "%s", named)
		   : file_path(path, NULL, "%s/var/lib/kubelet/device-plugins", pci_root())) < 0)
		return false;

	node->has_kubelet = file_exists(path);
	return node->has_kubelet;
}

static int node_make_policy(const struct node *node, const struct config *config,
			    struct policy **out, struct err *err)
{
	*out = NULL;
	if (!node->has_driver)
		return 0;

	const struct policy_surroundings surroundings = {
	    .has_kubelet = node->has_kubelet,
	    .visible_devices = getenv("NVIDIA_VISIBLE_DEVICES"),
	};
	return policy_make(probe_client_inventory(node->client), config, &surroundings, out, err);
}

static void node_tell_resource(enum policy_change change, const struct policy_resource *resource,
			       void *context)
{
	const struct node *node = context;
	log_write(node->options.log, LOG_LEVEL_INFO, NULL,
		  "resource %s of the %s: %s (%" PRIu32 " units)", resource->name,
		  policy_door_to_string(resource->door), policy_change_to_string(change),
		  resource->count);
}

/* Puts `policy` (given) in place of the one that was. Returns how many resources differ. */
static uint32_t node_take_policy(struct node *node, struct policy *policy)
{
	uint32_t changed = (uint32_t)policy_compare(node->policy, policy, node_tell_resource, node);
	(void)policy_free(node->policy);
	node->policy = policy;
	node->generation++;
	(void)snprintf(node->policy_problem, sizeof(node->policy_problem), "%s",
		       policy ? policy->problem : "");
	return changed;
}

static void node_renew_policy(struct node *node)
{
	struct policy *policy;
	struct err err = {0};
	int rc = node_make_policy(node, node->config, &policy, &err);

	(void)node_take_policy(node, policy);
	if (rc == 0)
		return;

	log_write(node->options.log, LOG_LEVEL_ERROR, NULL,
		  "no GPU is handed out: the configuration does not fit this machine: %s",
		  err.text);
	(void)snprintf(node->policy_problem, sizeof(node->policy_problem), "%.*s",
		       NODE_PROBLEM_MAX - 1, err.text);
}

int node_configure(struct node *node, const struct config *config, uint32_t *out_changed,
		   struct err *err)
{
	struct policy *policy;
	int rc = node_make_policy(node, config, &policy, err);
	if (rc < 0)
		return rc;

	node->config = config;
	*out_changed = node_take_policy(node, policy);
	node->options.changed(node->options.context);

	return 0;
}

/* --- what the probe says --------------------------------------------------------------------- */

static void node_driver_is_gone(struct node *node, const char *why)
{
	node->has_driver = false;
	node->is_known = true;
	(void)snprintf(node->driver_problem, sizeof(node->driver_problem), "%.*s",
		       NODE_PROBLEM_MAX - 1, why);
	(void)node_take_policy(node, NULL);
}

static void node_inventory_came(struct node *node)
{
	if (!node->has_driver) {
		const struct inventory *inventory = probe_client_inventory(node->client);
		log_write(node->options.log, LOG_LEVEL_INFO, NULL, "%" PRIu32 "%s GPU%s, driver %s",
			  inventory->gpu_count, inventory->simulated ? " simulated" : "",
			  inventory->gpu_count == 1 ? "" : "s", inventory->driver_version);
	}

	node->has_driver = true;
	node->is_known = true;
	node->driver_problem[0] = '\0';
	node_renew_policy(node);
}

static enum log_level node_level_of(uint32_t kind)
{
	switch (kind) {
	case PROBE_EVENT_DRIVER_DOWN:
	case PROBE_EVENT_GPU_REMOVED:
	case PROBE_EVENT_GPU_STATE:
	case PROBE_EVENT_XID:
	case PROBE_EVENT_HUNG:
		return LOG_LEVEL_WARNING;
	case PROBE_EVENT_GPU_ADDED:
	case PROBE_EVENT_MIG_CHANGED:
	case PROBE_EVENT_DRIVER_RESTART:
	case PROBE_EVENT_REPLACED:
	case PROBE_EVENT_GPU_RESET:
		return LOG_LEVEL_NOTICE;
	default:
		return LOG_LEVEL_DEBUG;
	}
}

static void node_log_event(struct node *node, const struct probe_event *event)
{
	const struct log_field fields[] = {
	    {"GPU_UUID", event->uuid[0] ? event->uuid : NULL},
	    {"EVENT", probe_event_kind_to_string(event->kind)},
	    {NULL, NULL},
	};
	enum log_level level = event->history ? LOG_LEVEL_DEBUG : node_level_of(event->kind);
	char code[24] = "", more[REPEATS_TEXT_MAX] = "";

	if (event->kind == PROBE_EVENT_XID)
		(void)snprintf(code, sizeof(code), " %" PRIu64, event->data);

	if (level != LOG_LEVEL_DEBUG &&
	    !repeats_may_tell_of(&node->logged, loop_now_ns(node->options.loop), more, "%s%s %s %s",
				 probe_event_kind_to_string(event->kind), code, event->uuid,
				 event->bus))
		return;

	log_write(node->options.log, level, fields, "%s%s%s%s%s%s%s",
		  probe_event_kind_to_string(event->kind), code, event->uuid[0] ? " of " : "",
		  event->uuid, event->text[0] ? ": " : "", event->text, more);
}

static void node_take_event(struct node *node, const struct probe_event *event)
{
	switch (event->kind) {
	case PROBE_EVENT_SNAPSHOT:
		loop_timer_start(node->silence, NODE_SILENCE_NS);

		if (!node->has_driver && probe_client_inventory(node->client))
			node_inventory_came(node); /* it was only slow, or all of us slept */
		break;
	case PROBE_EVENT_INVENTORY:
		loop_timer_start(node->silence, NODE_SILENCE_NS);
		node_inventory_came(node);
		break;
	case PROBE_EVENT_DRIVER_DOWN:
		/* It is tried again and again; said once. */
		if (node->has_driver || !node->is_known ||
		    strncmp(node->driver_problem, event->text, NODE_PROBLEM_MAX - 1) != 0)
			node_log_event(node, event);

		node_driver_is_gone(node, event->text);
		loop_timer_stop(node->silence);
		break;
	case PROBE_EVENT_HUNG:
		node_log_event(node, event);

		if (event->uuid[0])
			node_renew_policy(node); /* the client has marked the GPU */
		break;
	default:
		node_log_event(node, event);
		break;
	}
}

static void node_stop_probe(struct node *node)
{
	node->watch = loop_fd_free(node->watch);
	node->client = probe_client_stop(node->client);
	node->has_driver = false;
	loop_timer_stop(node->silence);
}

static void node_on_probe(int fd, unsigned events, void *context)
{
	struct node *node = context;
	bool is_new = false;
	struct probe_event event;
	struct err err = {0};
	int rc;

	while ((rc = probe_client_next(node->client, &event, &err)) > 0) {
		if (node->options.event)
			node->options.event(&event, node->options.context);
		node_take_event(node, &event);

		/* Whatever it was: the event of a new snapshot may have given way to a storm of
		 * others, and nobody may keep the snapshot before it. */
		is_new = true;
	}

	if (rc < 0) {
		log_write(node->options.log, LOG_LEVEL_ERROR, NULL,
			  "the GPUs cannot be watched: %s", err.text);
		node_stop_probe(node);
		node_driver_is_gone(node, err.text);
		loop_timer_start(node->restart, NODE_RESTART_NS);
		is_new = true;
	}

	if (is_new)
		node->options.changed(node->options.context);
}

/* --- its life -------------------------------------------------------------------------------- */

static void node_on_silence(void *context)
{
	struct node *node = context;
	char text[NODE_PROBLEM_MAX];

	if (node->released_until_ns != 0)
		return; /* of a sample that was on its way */

	(void)snprintf(text, sizeof(text), "the driver has not answered for %" PRIu64 " s",
		       NODE_SILENCE_NS / 1000000000);
	log_write(node->options.log, LOG_LEVEL_ERROR, NULL, "%s", text);
	node_driver_is_gone(node, text);
	node->options.changed(node->options.context);
}

/* --- letting go of the driver ---------------------------------------------------------------- */

static void node_resume(struct node *node)
{
	node->released_until_ns = 0;
	loop_timer_stop(node->resume);
	log_write(node->options.log, LOG_LEVEL_NOTICE, NULL, "the driver is asked again");

	if (node->client) {
		probe_client_release(node->client, false);
		loop_timer_start(node->silence, NODE_SILENCE_NS);
	} else {
		node_start_probe(node);
	}

	node->options.changed(node->options.context);
}

static void node_on_resume(void *context)
{
	node_resume(context);
}

void node_release(struct node *node, uint64_t for_ns)
{
	if (for_ns == 0) {
		if (node->released_until_ns != 0)
			node_resume(node);
		return;
	}

	node->released_until_ns = clock_after_ns(loop_now_ns(node->options.loop), for_ns);
	loop_timer_start(node->resume, for_ns);
	loop_timer_stop(node->silence);
	loop_timer_stop(node->restart);

	if (node->client)
		probe_client_release(node->client, true);
	log_write(node->options.log, LOG_LEVEL_NOTICE, NULL,
		  "the driver is released for %" PRIu64 " s, or until 'sluice health resume'",
		  for_ns / CLOCK_NS_PER_S);
	node->options.changed(node->options.context);
}

uint64_t node_released_until_ns(const struct node *node)
{
	return node->released_until_ns;
}

bool node_probe_is_gone(struct node *node)
{
	return !node->client || probe_client_is_gone(node->client);
}

static void node_on_restart(void *context)
{
	struct node *node = context;
	if (node->released_until_ns != 0)
		return;
	node_start_probe(node);
	node->options.changed(node->options.context);
}

static void node_on_kubelet(void *context)
{
	struct node *node = context;
	if (!node_look_for_kubelet(node)) {
		loop_timer_start(node->kubelet, NODE_KUBELET_NS);
		return;
	}

	log_write(node->options.log, LOG_LEVEL_NOTICE, NULL,
		  "there is a kubelet now: devices go to it, as the configuration says");
	node_renew_policy(node);
	node->options.changed(node->options.context);
}

/*
 * The program that is the probe and nothing else: a third of the memory of one that is all of
 * sluice. It is the one that was there when the agent started, also when a newer version has taken
 * its place meanwhile. 0: it is not installed or another is wanted, and the running program is the
 * probe, too.
 */
static int node_find_probe(struct node *node)
{
	char path[FILE_PATH_MAX];

	if (node->options.program)
		return 0;

	if (node->probe_fd < 0 && libexec_find("sluice-probe", "probe", NULL, path, NULL) == 0)
		node->probe_fd = open(path, O_PATH | O_CLOEXEC);

	return node->probe_fd < 0 ? 0 : node->probe_fd;
}

static void node_start_probe(struct node *node)
{
	const struct probe_options options = {
	    .program = node->options.program,
	    .program_fd = node_find_probe(node),
	    .period_ns = node->options.period_ns,
	    .call_timeout_ns = node->options.call_ns,
	    .kernel_log = node->options.kernel_log,
	};
	struct err err = {0};
	int rc = probe_client_start(&options, &node->client, &err);
	if (rc == 0) {
		node->watch = loop_fd_new(node->options.loop, probe_client_fd(node->client),
					  LOOP_READ, node_on_probe, node, &err);
		if (node->watch)
			loop_timer_start(node->silence, NODE_SILENCE_NS);
		else
			node_stop_probe(node);
	}

	if (!node->client) {
		log_write(node->options.log, LOG_LEVEL_ERROR, NULL,
			  "the GPUs cannot be watched: %s", err.text);
		node_driver_is_gone(node, err.text);
		loop_timer_start(node->restart, NODE_RESTART_NS);
	}
}

int node_new(const struct node_options *options, struct node **out, struct err *err)
{
	struct node *node = calloc(1, sizeof(*node));
	if (!node)
		return err_set(err, -ENOMEM, "out of memory for watching the GPUs");

	node->options = *options;
	node->probe_fd = -1;
	node->config = options->config;
	(void)snprintf(node->driver_problem, sizeof(node->driver_problem),
		       "the driver has not been asked yet");
	node->silence = loop_timer_new(options->loop, node_on_silence, node, err);
	if (node->silence)
		node->restart = loop_timer_new(options->loop, node_on_restart, node, err);

	if (node->restart)
		node->kubelet = loop_timer_new(options->loop, node_on_kubelet, node, err);
	if (node->kubelet)
		node->resume = loop_timer_new(options->loop, node_on_resume, node, err);
	if (!node->resume) {
		(void)node_free(node);
		return -ENOMEM;
	}

	if (!node_look_for_kubelet(node))
		loop_timer_start(node->kubelet, NODE_KUBELET_NS);
	node_start_probe(node);
	*out = node;

	return 0;
}

struct node *node_free(struct node *node)
{
	if (!node)
		return NULL;
	if (node->silence)
		node_stop_probe(node);
	(void)loop_timer_free(node->silence);
	(void)loop_timer_free(node->restart);
	(void)loop_timer_free(node->kubelet);
	(void)loop_timer_free(node->resume);
	(void)policy_free(node->policy);

	if (node->probe_fd >= 0)
		(void)close(node->probe_fd);
	free(node);
	return NULL;
}

const struct inventory *node_inventory(const struct node *node)
{
	return node->has_driver ? probe_client_inventory(node->client) : NULL;
}

const struct snapshot *node_snapshot(const struct node *node)
{
	return node->has_driver ? probe_client_snapshot(node->client) : NULL;
}

const struct policy *node_policy(const struct node *node)
{
	return node->policy;
}

const struct config *node_config(const struct node *node)
{
	return node->config;
}

uint64_t node_generation(const struct node *node)
{
	return node->generation;
}

bool node_has_kubelet(const struct node *node)
{
	return node->has_kubelet;
}

const char *node_problem(const struct node *node)
{
	return node->has_driver ? node->policy_problem : node->driver_problem;
}

bool node_is_known(const struct node *node)
{
	return node->is_known;
}

pid_t node_probe_pid(const struct node *node)
{
	return node->client ? probe_client_pid(node->client) : -1;
}
