/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/cluster/cluster.h"
#include "agent/cluster/nodelabels.h"
#include "agent/doors/door_kubelet.h"
#include "agent/doors/door_labels.h"
#include "agent/doors/doors.h"
#include "agent/doors/leases.h"
#include "agent/giveback.h"
#include "agent/health_news.h"
#include "agent/jobs/jobgroup.h"
#include "agent/jobs/shares.h"
#include "agent/libexec.h"
#include "agent/lock.h"
#include "agent/node.h"
#include "agent/nodriver.h"
#include "agent/notify.h"
#include "agent/process.h"
#include "agent/reload.h"
#include "agent/service/service.h"
#include "agent/socket_file.h"
#include "agent/vitals.h"
#include "agent/web/door_web_events.h"
#include "base/child.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/storage.h"
#include "doors/queue/queue.h"
#include "doors/queue/schedule/schedule.h"
#include "doors/queue/store/store.h"
#include "hardware/gpu.h"
#include "hardware/pci.h"
#include "policy/policy.h"

enum agent_limits {
	AGENT_STORAGE_QUEUE = 4096,
	AGENT_STATUS_MAX = 160,
	AGENT_SIGNALS = 5,
	AGENT_IDLE_PARTS = 8, /* looks in the time after which it ends */
};
#define AGENT_LOOK_NS UINT64_C(10000000000) /* between looks at the storage thread */
/* For the kubelet, before anything else is opened. */
#define AGENT_REGISTER_NS UINT64_C(200000000)

struct agent {
	const struct agent_options *options; /* borrowed */
	struct log *log;		     /* borrowed */
	int lock_fd;			     /* owned */
	struct notify notify;
	struct loop *loop; /* owned, all of these */
	struct shares *shares;
	struct storage *storage;
	struct child_set *children;
	struct reload *reload;
	struct cluster *cluster;
	struct node *node;
	struct leases *leases;
	struct doors *doors;
	struct vitals *vitals;
	struct web_events *events;
	struct queue *queue;
	struct service *service;
	struct loop_signal *signals[AGENT_SIGNALS];
	struct nodelabels nodelabels;
	struct loop_timer *look; /* at the storage thread */
	struct giveback *giveback;
	struct loop_timer *watchdog; /* running when the service manager wants signs of life */
	struct loop_timer *idle;     /* running with idle_exit_ns */
	uint64_t busy_ns;	     /* loop time when there was last something to do */
	struct loop_task judged;     /* a verdict on a GPU is another, or what containers hold */
	uint64_t described;	     /* generation of the node, as the ledger knows it */
	struct health_news_told told;
	uint64_t begin_ns;	    /* loop time when the driver was first asked */
	struct storage_job bus_job; /* looks for a GPU without a driver */
	struct pci_address gpu;	    /* that it found */
	int failure;		    /* why it ends; 0: told to */
	struct err why;
	struct socket_file socket_file;
	char *kubelet_directory; /* owned; NULL: the usual one */
	bool is_stopping, storage_is_stuck, has_sampled, has_pods, is_driver_checked;
	struct jobgroup jobgroup;
	char status[AGENT_STATUS_MAX]; /* last told to the service manager */
};

static void agent_stop(struct agent *agent, const char *why);
static bool agent_has_jobs(const struct agent *agent);

/* --- what happens ---------------------------------------------------------------------------- */

static void agent_tell_status(struct agent *agent)
{
	char text[AGENT_STATUS_MAX];

	if (agent->notify.fd < 0 || !agent->service)
		return;

	const char *trouble = service_storage_error(agent->service);
	size_t running = queue_count(agent->queue, JOB_STARTING) +
			 queue_count(agent->queue, JOB_RUNNING) +
			 queue_count(agent->queue, JOB_STOPPING);

	if (storage_busy_ns(agent->storage) >= SERVICE_STUCK_NS) /* not for how long: told once */
		(void)snprintf(text, sizeof(text), "the disk of the state does not answer");
	else if (*trouble)
		(void)snprintf(text, sizeof(text), "%s", trouble);
	else if (!node_inventory(agent->node))
		(void)snprintf(text, sizeof(text), "no GPUs: %s", node_problem(agent->node));
	else
		(void)snprintf(text, sizeof(text), "%zu jobs run, %zu wait", running,
			       queue_count(agent->queue, JOB_PENDING));

	if (strcmp(text, agent->status) == 0)
		return;

	memcpy(agent->status, text, sizeof(text));
	(void)notify_status(&agent->notify, text);
}

static void agent_on_jobs(void *context)
{
	struct agent *agent = context;
	if (agent->is_stopping || !agent->service)
		return;
	doors_jobs(agent->doors);
	service_jobs_changed(agent->service);
	agent_tell_status(agent);
}

/* Which devices get no new job, beside what the driver itself says. */
static void agent_tell_health(struct agent *agent)
{
	struct schedule_health health = {
	    .gpu = vitals_gpu_unhealthy(agent->vitals, NULL),
	    .mig = vitals_mig_unhealthy(agent->vitals, NULL),
	};

	if (agent->nodelabels.is_upgrading)
		health.all = agent->nodelabels.wish.release;
	else if (node_released_until_ns(agent->node) != 0)
		health.all = "the driver is released ('sluice health resume' ends that)";

	queue_set_health(agent->queue, &health);
}

/* --- without a driver ------------------------------------------------------------------------ */

/* On the storage thread: 1 or 0. */
static int agent_read_bus(void *context)
{
	struct agent *agent = context;
	return nodriver_find_gpu(pci_root(), &agent->gpu);
}

static void agent_on_bus(void *context, int found)
{
	struct agent *agent = context;
	char address[PCI_TEXT_MAX];

	if (agent->is_stopping || node_inventory(agent->node))
		return;

	if (!found) {
		log_write(agent->log, LOG_LEVEL_NOTICE, NULL,
			  "there is no NVIDIA GPU on the PCI bus: waiting for one");
		return;
	}

	agent->failure =
	    err_set(&agent->why, -ENODEV,
		    "there is an NVIDIA GPU at %s and no driver: %s (with "
		    "--fail-on-init-error=false the service waits for one)",
		    pci_address_to_string(&agent->gpu, address), node_problem(agent->node));
	agent_stop(agent, "there is no driver");
}

/* Once, with the first word about the machine: what comes later is a driver that went away. */
static void agent_check_driver(struct agent *agent)
{
	if (agent->is_driver_checked || !agent->service || !node_is_known(agent->node))
		return;

	agent->is_driver_checked = true;
	/* One that does not answer is there. */
	bool is_silent = loop_now_ns(agent->loop) - agent->begin_ns >= NODE_SILENCE_NS;
	if (node_inventory(agent->node) || is_silent || node_released_until_ns(agent->node) != 0 ||
	    !nodriver_is_fatal(reload_state(agent->reload)->config, node_has_kubelet(agent->node),
			       agent_has_jobs(agent)))
		return;

	agent->bus_job =
	    (struct storage_job){.work = agent_read_bus, .done = agent_on_bus, .context = agent};
	(void)storage_submit(agent->storage, &agent->bus_job, NULL); /* else it waits */
}

/* Whether the GPUs are known and not yet who computes on them, which the first sample tells: until
 * then one that is in somebody else's use would be given away. */
static bool agent_awaits_sample(struct agent *agent)
{
	const struct inventory *inventory = node_inventory(agent->node);
	if (node_snapshot(agent->node) || *node_problem(agent->node))
		agent->has_sampled = true;
	return !agent->has_sampled && inventory && inventory->gpu_count > 0;
}

/* What the node's labels ask for. */
static void agent_obey(struct agent *agent)
{
	if (agent->is_stopping)
		return;
	if (nodelabels_apply(&agent->nodelabels, agent->node, doors_at(agent->doors, DOOR_KUBELET),
			     agent->log))
		cluster_labels(agent->cluster, agent->nodelabels.wish.kubelet_off);
	door_labels_hold(doors_at(agent->doors, DOOR_LABELS), agent->nodelabels.wish.labels_off);
}

/* Whether the kubelet is about to say for the first time what its containers hold: until then a GPU
 * that was theirs would be given away. */
static bool agent_awaits_pods(struct agent *agent)
{
	const struct door_kubelet *door = doors_at(agent->doors, DOOR_KUBELET);
	if (!door || !door_kubelet_awaits_pods(door))
		agent->has_pods = true;
	return !agent->has_pods;
}

static void agent_on_machine(void *context)
{
	struct agent *agent = context;
	if (!agent->node || !node_is_known(agent->node))
		return;

	if (agent->described != node_generation(agent->node)) {
		agent->described = node_generation(agent->node);
		leases_describe(agent->leases, node_inventory(agent->node));
	}

	vitals_sample(agent->vitals, node_inventory(agent->node), node_snapshot(agent->node));
	if (node_policy(agent->node))
		cluster_policy(agent->cluster, node_policy(agent->node)->problem);

	agent_obey(agent);
	doors_update(agent->doors);

	if (!agent->queue || agent_awaits_sample(agent) || agent_awaits_pods(agent))
		return; /* it is told when it is open */

	/* First of all: what the queue has borrowed is gone. */
	agent_tell_health(agent);
	queue_set_machine(agent->queue, node_inventory(agent->node), node_snapshot(agent->node),
			  node_policy(agent->node), node_problem(agent->node));
	if (agent->is_stopping || !agent->service)
		return;

	service_machine_changed(agent->service);
	agent_tell_status(agent);
	agent_check_driver(agent);
}

static void agent_on_event(const struct probe_event *event, void *context)
{
	struct agent *agent = context;
	if (!agent->vitals)
		return;
	vitals_event(agent->vitals, event);
	web_events_probe(agent->events, event, agent->node ? node_inventory(agent->node) : NULL,
			 agent->vitals);
}

static void agent_on_verdict(const char *uuid, uint32_t index, enum health_state before,
			     enum health_state after, const char *why, void *context)
{
	struct agent *agent = context;
	const struct health_news news = {uuid, index, before, after, why};
	health_news_tell(&agent->told, &news, agent->log, agent->cluster, agent->events,
			 agent->vitals);
	/* Perhaps no event of the driver has brought it about: everybody is told at once. */
	if (agent->loop)
		loop_defer(agent->loop, &agent->judged, agent_on_machine, agent);
}

/* What containers hold is something else, which decides what others may have. */
static void agent_on_leases(void *context)
{
	struct agent *agent = context;
	if (agent->loop)
		loop_defer(agent->loop, &agent->judged, agent_on_machine, agent);
}

static void agent_on_label(const char *value, void *context)
{
	struct agent *agent = context;
	if (!agent->is_stopping)
		reload_set_label(agent->reload, value);
}

static void agent_on_labels(const struct kube_label *labels, size_t count, void *context)
{
	struct agent *agent = context;
	nodelabels_set(&agent->nodelabels, labels, count);
	if (agent->node)
		agent_obey(agent);
}

static void agent_on_published(const Sluice__Kube__V1__Published *state, void *context)
{
	const struct agent *agent = context;
	door_labels_published(doors_at(agent->doors, DOOR_LABELS), state);
}

static void agent_on_configuration(enum reload_note note, const char *text, void *context)
{
	struct agent *agent = context;
	cluster_configuration(agent->cluster, note, text);
	web_events_configuration(agent->events, note, text);
	doors_update(agent->doors);
}

static int agent_apply(const struct config *config, uint32_t *out_changed, void *context,
		       struct err *err)
{
	struct agent *agent = context;
	if (!agent->node)
		return err_set(err, -ESHUTDOWN, "the agent is stopping");

	int rc = node_configure(agent->node, config, out_changed, err);
	if (rc == 0) {
		vitals_configure(agent->vitals, config);
		doors_reload(agent->doors);
		agent_on_machine(agent); /* what was borrowed of the verdicts is gone */
	}

	return rc;
}

static void agent_reloaded(int rc, uint32_t changed, const struct err *err, void *context)
{
	struct agent *agent = context;
	doors_register_again(agent->doors);
	if (rc == 0)
		doors_reload(agent->doors);
	(void)notify_ready(&agent->notify);
}

static void agent_on_hangup(void *context)
{
	struct agent *agent = context;
	struct err err = {0};

	if (agent->is_stopping)
		return;

	(void)notify_reloading(&agent->notify, loop_now_ns(agent->loop));
	if (reload_start(agent->reload, agent_reloaded, agent, &err) == 0)
		return;

	log_write(agent->log, LOG_LEVEL_ERROR, NULL, "the configuration was not read again: %s",
		  err.text);
	(void)notify_ready(&agent->notify);
}

static void agent_on_release(void *context)
{
	struct agent *agent = context;
	if (!agent->is_stopping && agent->node)
		nodelabels_signal(&agent->nodelabels, agent->node);
}

static void agent_on_terminate(void *context)
{
	agent_stop(context, "told to by a signal");
}

/* The directory goes with a user's last session and comes back empty with the next one, and jobs
 * have lived on meanwhile. */
static void agent_look_at_socket(struct agent *agent)
{
	const struct agent_paths *paths = &agent->options->paths;
	struct err err = {0};

	if (agent->is_stopping || socket_file_is_there(&agent->socket_file, paths) ||
	    agent_lock_check_socket(paths->socket, &err) < 0 ||
	    agent_lock_make_runtime(paths, &err) < 0)
		return; /* looked at again */

	int fd = socket_file_listen(&agent->socket_file, paths, &err);
	if (fd >= 0 && service_listen(agent->service, fd, &err) == 0)
		log_write(agent->log, LOG_LEVEL_WARNING, NULL,
			  "the socket '%s' was gone: made again", paths->socket);
}

static void agent_on_look(void *context)
{
	struct agent *agent = context;
	bool is_stuck = storage_busy_ns(agent->storage) >= SERVICE_STUCK_NS;
	if (is_stuck != agent->storage_is_stuck)
		log_write(agent->log, is_stuck ? LOG_LEVEL_ERROR : LOG_LEVEL_NOTICE, NULL, "%s",
			  is_stuck ? service_storage_error(agent->service)
				   : "the disk answers again");

	agent->storage_is_stuck = is_stuck;
	agent_tell_status(agent);
	agent_look_at_socket(agent);

	doors_look(agent->doors);
	loop_timer_start(agent->look, AGENT_LOOK_NS);
}

/* A sign of life says that the loop turns, or this would not be called, and that the storage thread
 * is not stuck in a write. */
static void agent_on_watchdog(void *context)
{
	struct agent *agent = context;
	if (storage_busy_ns(agent->storage) < SERVICE_STUCK_NS)
		(void)notify_watchdog(&agent->notify);
	loop_timer_start(agent->watchdog, agent->notify.watchdog_ns / 3);
}

static bool agent_has_jobs(const struct agent *agent)
{
	return queue_first(agent->queue) != NULL;
}

static void agent_on_idle(void *context)
{
	struct agent *agent = context;
	uint64_t now_ns = loop_now_ns(agent->loop), limit_ns = agent->options->idle_exit_ns;

	if (agent_has_jobs(agent) || service_is_busy(agent->service))
		agent->busy_ns = now_ns;
	if (service_last_call_ns(agent->service) > agent->busy_ns)
		agent->busy_ns = service_last_call_ns(agent->service);
	if (now_ns - agent->busy_ns >= limit_ns)
		agent_stop(agent, "nothing was left to do");
	else
		loop_timer_start(agent->idle, limit_ns / AGENT_IDLE_PARTS);
}

/* --- its end --------------------------------------------------------------------------------- */

static void agent_on_stopped(void *context)
{
	struct agent *agent = context;
	loop_stop(agent->loop);
}

static void agent_stop(struct agent *agent, const char *why)
{
	if (agent->is_stopping)
		return;

	agent->is_stopping = true;
	log_write(agent->log, LOG_LEVEL_NOTICE, NULL, "stopping: %s; jobs that run go on", why);
	(void)notify_stopping(&agent->notify);
	doors_stop(agent->doors);

	if (!agent->service)
		return; /* it did not even serve */

	service_stop(agent->service, AGENT_STOP_NS, agent_on_stopped, agent);
}

static void agent_done(struct agent *agent)
{
	agent->is_stopping = true;
	doors_stop(agent->doors);
	socket_file_remove(&agent->socket_file, &agent->options->paths);
	agent->cluster = cluster_free(agent->cluster);
	agent->queue = queue_close(agent->queue);
	jobgroup_remove(&agent->jobgroup);
	agent->node = node_free(agent->node);
	free(agent->kubelet_directory);

	agent->storage = storage_close(agent->storage);
	agent->doors = doors_free(agent->doors);
	agent->leases = leases_free(agent->leases);
	if (agent->loop)
		loop_cancel(agent->loop, &agent->judged);
	agent->vitals = vitals_free(agent->vitals);
	agent->events = web_events_free(agent->events);
	agent->service = service_free(agent->service);
	agent->shares = shares_free(agent->shares);
	agent->reload = reload_free(agent->reload);

	for (size_t i = 0; i < AGENT_SIGNALS; i++)
		agent->signals[i] = loop_signal_free(agent->signals[i]);

	agent->look = loop_timer_free(agent->look);
	agent->giveback = giveback_free(agent->giveback);
	agent->watchdog = loop_timer_free(agent->watchdog);
	agent->idle = loop_timer_free(agent->idle);
	agent->children = child_set_free(agent->children);
	agent->loop = loop_free(agent->loop);
	notify_done(&agent->notify);
	cleanup_close_fn(&agent->lock_fd);
	agent->lock_fd = -1;
}

/* --- its beginning --------------------------------------------------------------------------- */

static int agent_take_places(struct agent *agent, struct err *err)
{
	const struct agent_paths *paths = &agent->options->paths;
	int rc = agent_lock_check_socket(paths->socket, err);
	if (rc < 0)
		return rc;

	agent->lock_fd = agent_lock_take(paths, err);
	if (agent->lock_fd < 0)
		return agent->lock_fd;

	rc = agent_lock_make_state(paths, agent->options->idle_exit_ns > 0, err);
	return rc < 0 ? rc : store_check_place(paths->state_dir, 0, err);
}

static const int agent_signals[AGENT_SIGNALS] = {SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR2};
static const loop_callback agent_on_signal[AGENT_SIGNALS] = {
    agent_on_terminate, agent_on_terminate, agent_on_terminate, agent_on_hangup, agent_on_release};

static int agent_start_loop(struct agent *agent, struct err *err)
{
	agent->loop = loop_new(LOOP_REAL, err);
	if (agent->loop)
		agent->giveback = giveback_new(agent->loop, &agent->queue, err);
	if (agent->giveback)
		agent->children = child_set_new(agent->loop, CHILD_WATCH_AUTO, err);
	if (agent->children)
		agent->storage = storage_new(agent->loop, AGENT_STORAGE_QUEUE, err);

	if (agent->storage)
		agent->shares = shares_new(agent->loop, agent->log, pci_root(), NULL, err);

	bool is_made = agent->shares != NULL;
	for (size_t i = 0; i < AGENT_SIGNALS && is_made; i++) {
		agent->signals[i] =
		    loop_signal_new(agent->loop, agent_signals[i], agent_on_signal[i], agent, err);
		is_made = agent->signals[i] != NULL;
	}

	if (is_made)
		agent->look = loop_timer_new(agent->loop, agent_on_look, agent, err);
	if (agent->look)
		agent->watchdog = loop_timer_new(agent->loop, agent_on_watchdog, agent, err);
	if (agent->watchdog)
		agent->idle = loop_timer_new(agent->loop, agent_on_idle, agent, err);

	return agent->idle ? 0 : err->code < 0 ? err->code : -ENOMEM;
}

/* The node's label and Events. What is known before it is started waits for it. */
static int agent_open_cluster(struct agent *agent, struct err *err)
{
	const struct reload_state *state = reload_state(agent->reload);
	const struct cluster_options cluster = {
	    .loop = agent->loop,
	    .children = agent->children,
	    .log = agent->log,
	    .node_name = agent->options->node_name,
	    .node_label = agent->options->node_label,
	    .kubeconfig = agent->options->kubeconfig,
	    .program = getenv("SLUICE_KUBE"),
	    .delay_ns = AGENT_REGISTER_NS,
	    .label = agent_on_label,
	    .labels = agent_on_labels,
	    .published = agent_on_published,
	    .context = agent,
	};
	int rc = cluster_new(&cluster, &agent->cluster, err);
	char text[ERR_TEXT_MAX];

	if (rc == 0 && *state->error)
		cluster_configuration(agent->cluster, RELOAD_REFUSED, state->error);
	(void)snprintf(text, sizeof(text), "specified config %s does not exist", state->missing);
	if (rc == 0 && *state->missing)
		cluster_configuration(agent->cluster, RELOAD_MISSING, text);

	return rc;
}

static int agent_open_doors(struct agent *agent, struct err *err)
{
	const struct doors_parts parts = {
	    .loop = agent->loop,
	    .storage = agent->storage,
	    .children = agent->children,
	    .log = agent->log,
	    .node = agent->node,
	    .paths = &agent->options->paths,
	    .root = pci_root(),
	    .cluster = agent->cluster,
	    .vitals = agent->vitals,
	    .reload = agent->reload,
	    .leases = agent->leases,
	    .events = agent->events,
	    .namespace_ = agent->options->namespace_,
	    .pod = agent->options->pod,
	    .node_name = agent->options->node_name,
	    .kubelet_socket = agent->options->kubelet_socket,
	    .runtime = getenv("CONTAINER_RUNTIME_ENDPOINT"),
	};
	return doors_new(&parts, &agent->doors, err);
}

static int agent_open_machine(struct agent *agent, struct err *err)
{
	const struct cluster_options cluster = {.node_name = agent->options->node_name,
						.kubeconfig = agent->options->kubeconfig};
	const struct reload_options reload = {
	    .loop = agent->loop,
	    .storage = agent->storage,
	    .log = agent->log,
	    .given = agent->options->config,
	    .rules = agent->options->rules,
	    .awaits_label = cluster_is_there(&cluster),
	    .state_dir = agent->options->paths.state_dir,
	    .overrides = agent->options->overrides,
	    .strict = agent->options->strict,
	    .apply = agent_apply,
	    .noted = agent_on_configuration,
	    .context = agent,
	};
	int rc = reload_new(&reload, &agent->reload, err);
	if (rc == 0)
		rc = agent_open_cluster(agent, err);

	if (rc < 0)
		return rc;

	const struct node_options node = {
	    .loop = agent->loop,
	    .log = agent->log,
	    .config = reload_state(agent->reload)->config,
	    .period_ns = agent->options->probe_period_ns,
	    .call_ns = agent->options->probe_call_ns,
	    .kernel_log = agent->options->paths.is_system,
	    .kubelet_directory = agent->kubelet_directory,
	    .event = agent_on_event,
	    .changed = agent_on_machine,
	    .context = agent,
	};
	const struct vitals_options vitals = {
	    .loop = agent->loop,
	    .storage = agent->storage,
	    .log = agent->log,
	    .state_dir = agent->options->paths.state_dir,
	    .config = reload_state(agent->reload)->config,
	    .changed = agent_on_verdict,
	    .context = agent,
	};

	agent->begin_ns = loop_now_ns(agent->loop);
	rc = web_events_new(&agent->events, err);
	if (rc == 0)
		rc = vitals_new(&vitals, &agent->vitals, err);
	if (rc == 0)
		rc = node_new(&node, &agent->node, err);

	if (rc < 0)
		return rc;

	const struct leases_options leases = {.storage = agent->storage,
					      .log = agent->log,
					      .state_dir = agent->options->paths.state_dir,
					      .changed = agent_on_leases,
					      .context = agent};
	rc = leases_new(&leases, &agent->leases, err);
	if (rc < 0)
		return rc;

	return agent_open_doors(agent, err);
}

static int agent_open_queue(struct agent *agent, struct err *err)
{
	char supervisor[FILE_PATH_MAX], container[FILE_PATH_MAX], rsh[FILE_PATH_MAX];
	const char *sim_state = getenv("SLUICE_SIM_STATE");
	const char *named = agent->options->supervisor;

	if (!named)
		named = getenv("SLUICE_SUPERVISOR");

	int rc = libexec_find("sluice-supervise", "supervise", named, supervisor, err);
	if (rc < 0)
		return rc;

	struct err why = {0};

	jobgroup_open(&agent->options->paths, supervisor, agent->log, &agent->jobgroup);
	/* This and sluice-rsh only some jobs need, and say so. */
	bool has_image = libexec_find("sluice-container", "container", NULL, container, &why) == 0;
	const struct queue_options queue = {
	    .loop = agent->loop,
	    .storage = agent->storage,
	    .children = agent->children,
	    .log = agent->log,
	    .state_dir = agent->options->paths.state_dir,
	    .runtime_dir = agent->options->paths.runtime_dir,
	    .sim_state = sim_state && *sim_state ? sim_state : NULL,
	    .supervisor = supervisor,
	    .cgroup_root = agent->jobgroup.path[0] ? agent->jobgroup.path : NULL,
	    .renew_cgroups = jobgroup_renew,
	    .renew_context = &agent->jobgroup,
	    .container = has_image ? container : NULL,
	    .rsh = libexec_find("sluice-rsh", "rsh", NULL, rsh, &why) == 0 ? rsh : NULL,
	    .device_root = pci_root(),
	    .account = shares_account(agent->shares),
	    .ledger = leases_ledger(agent->leases),
	    .awaits_rules = true,
	    .changed = agent_on_jobs,
	    .context = agent,
	};

	rc = queue_open(&queue, &agent->queue, err);
	if (rc < 0)
		return rc;

	doors_set_queue(agent->doors, agent->queue);
	agent_on_machine(agent);
	return 0;
}

static int agent_open_socket(struct agent *agent, struct err *err)
{
	const struct agent_paths *paths = &agent->options->paths;
	const struct service_options service = {
	    .loop = agent->loop,
	    .storage = agent->storage,
	    .children = agent->children,
	    .log = agent->log,
	    .paths = paths,
	    .node = agent->node,
	    .doors = agent->doors,
	    .leases = agent->leases,
	    .vitals = agent->vitals,
	    .reload = agent->reload,
	    .queue = agent->queue,
	    .account = shares_account(agent->shares),
	    .cluster = agent->cluster,
	    .started_unix_ns = clock_unix_ns(),
	};
	int fd = socket_file_listen(&agent->socket_file, paths, err);
	if (fd == -EADDRINUSE)
		return err_set(err, -EBUSY, "another agent listens on '%s'", paths->socket);

	if (fd < 0)
		return fd;

	return service_new(&service, fd, &agent->service, err);
}

static void agent_ready(struct agent *agent)
{
	const struct agent_paths *paths = &agent->options->paths;
	log_write(
	    agent->log, LOG_LEVEL_NOTICE, NULL, "serving on '%s', state in '%s', configuration %s",
	    paths->socket, paths->state_dir,
	    *reload_state(agent->reload)->path ? reload_state(agent->reload)->path : "built in");
	(void)notify_ready(&agent->notify);
	agent_tell_status(agent);

	if (agent->options->ready_fd >= 0) {
		(void)!write(agent->options->ready_fd, "1", 1); /* who waits sees the end, too */
		(void)close(agent->options->ready_fd);
	}

	agent->busy_ns = loop_now_ns(agent->loop);
	agent_check_driver(agent);
	loop_timer_start(agent->look, AGENT_LOOK_NS);

	if (agent->notify.watchdog_ns > 0)
		agent_on_watchdog(agent);
	if (agent->options->idle_exit_ns > 0)
		loop_timer_start(agent->idle, agent->options->idle_exit_ns / AGENT_IDLE_PARTS);
}

/* A kubelet that has just started admits its pods again within milliseconds, and kills those whose
 * devices it does not know by then: the database of the queue may take longer to open. */
static void agent_register_first(struct agent *agent)
{
	uint64_t end_ns = loop_now_ns(agent->loop) + AGENT_REGISTER_NS;

	for (;;) {
		uint64_t now_ns = loop_now_ns(agent->loop);
		if (now_ns >= end_ns || agent->is_stopping ||
		    !door_kubelet_is_pending(doors_at(agent->doors, DOOR_KUBELET)) ||
		    loop_pass(agent->loop, end_ns - now_ns, NULL) < 0)
			break;
	}
}

static int agent_open(struct agent *agent, struct err *err)
{
	struct err ignored = {0};
	if (notify_take_environment(&agent->notify, &ignored) < 0)
		log_write(agent->log, LOG_LEVEL_WARNING, NULL, "%s", ignored.text);

	int rc = agent_take_places(agent, err);
	if (rc == 0)
		rc = agent_start_loop(agent, err);
	if (rc == 0)
		rc = agent_open_machine(agent, err);
	if (rc < 0)
		return rc;

	agent_register_first(agent);
	if (agent->is_stopping)
		return 0;

	rc = doors_open(agent->doors, err);
	if (rc == 0)
		rc = agent_open_queue(agent, err);

	return rc < 0 ? rc : agent_open_socket(agent, err);
}

int agent_run(const struct agent_options *options, struct err *err)
{
	struct agent agent = {
	    .options = options, .log = options->log, .lock_fd = -1, .notify = NOTIFY_NONE};
	agent.kubelet_directory = door_kubelet_directory(options->kubelet_socket);
	process_prepare();

	int rc = agent_open(&agent, err);
	if (rc == 0 && !agent.is_stopping) {
		agent_ready(&agent);
		rc = loop_run(agent.loop, err);
	}

	agent_done(&agent);
	return agent.failure < 0 ? err_set(err, agent.failure, "%s", agent.why.text) : rc;
}
