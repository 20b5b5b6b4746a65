/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/web/door_web.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/answer.h"
#include "agent/doors/door_rdma.h"
#include "agent/doors/doors.h"
#include "agent/node.h"
#include "agent/usage/attribution.h"
#include "agent/users.h"
#include "agent/vitals.h"
#include "agent/web/door_web_counters.h"
#include "agent/web/door_web_events.h"
#include "agent/web/door_web_fill.h"
#include "agent/web/door_web_listen.h"
#include "agent/web/door_web_memory.h"
#include "agent/web/door_web_process.h"
#include "agent/web/door_web_self.h"
#include "agent/web/door_web_token.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/loop.h"
#include "policy/config.h"
#include "web/view.h"
#include "wire/arena.h"

enum { DOOR_WEB_ADDRESS_MAX = 128, DOOR_WEB_PROBLEM_MAX = 320 };

struct door_web {
	struct door_web_options options;
	struct web_memory memory;
	struct web_token *token; /* owned, all of these */
	struct web_process *process;
	struct users *users;
	struct attribution *attribution;
	struct web_counters *counters;
	struct loop_timer *write; /* until the next view may be written */
	struct loop_timer *again; /* until the address is tried again */
	struct queue *queue;	  /* borrowed; NULL: not open yet, or not any more */
	int listen_fd;		  /* owned; -1: nobody listens */
	uint64_t again_ns;
	bool is_stopped, is_dirty, jobs_are_dirty;
	bool is_known;		 /* a configuration was looked at */
	uint64_t generation;	 /* node_generation() of the configuration that is in force */
	uint64_t told;		 /* web_events_generation() that the view has */
	int64_t started_unix_ns; /* the agent's beginning */
	uint64_t started_ns;
	uint64_t counted_ns;		    /* when descriptors were last counted; loop time */
	char wanted[DOOR_WEB_ADDRESS_MAX];  /* as configured */
	char address[ADDRESS_TEXT_MAX];	    /* that it got */
	char problem[DOOR_WEB_PROBLEM_MAX]; /* of listening */
	struct web_self self;
};

static bool door_is_off(const struct door_web *door)
{
	return strcmp(door->wanted, "off") == 0;
}

/* --- the view --------------------------------------------------------------------------------- */

static void fill_text(char *out, size_t size, const char *text)
{
	(void)snprintf(out, size, "%.*s", (int)size - 1, text);
}

static void write_hosts(const char *hosts, struct view_settings *out)
{
	out->host_count = 0;
	while (*hosts && out->host_count < VIEW_HOST_MAX) {
		size_t length = strcspn(hosts, ",");
		if (length < VIEW_NAME_MAX)
			(void)snprintf(out->host[out->host_count++], VIEW_NAME_MAX, "%.*s",
				       (int)length, hosts);
		hosts += length + (hosts[length] == ',');
	}
}

static void write_settings(const struct door_web *door, struct view_settings *out)
{
	const struct config *config = node_config(door->options.node);
	const char *token = web_token_text(door->token);

	_Static_assert((int)VIEW_SET_DCGM == (int)CONFIG_METRICS_DCGM &&
			   (int)VIEW_DCGM_OFF == (int)CONFIG_DCGM_OFF,
		       "the view's words are the configuration's");
	out->set = config->metrics.set;
	out->dcgm = config->metrics.dcgm;
	out->dcgm_split = config->metrics.dcgm_shared != 0;
	out->container_energy = config->metrics.container_energy;
	out->has_token = web_token_is_wanted(door->token);
	out->token_broken = out->has_token && !token;
	_Static_assert(sizeof(out->token) == WEB_TOKEN_MAX, "every token fits");
	memset(out->token, 0, sizeof(out->token));

	if (out->has_token && token)
		fill_text(out->token, sizeof(out->token), token);
	write_hosts(config->web.hosts, out);
}

/* The last sample of any GPU: one that hangs does not move it, nor does a probe that has just taken
 * the place of another and has none yet. */
static void write_sample_time(const struct snapshot *snapshot, struct view_node *out)
{
	uint64_t last_ns = out->sample_ns;
	for (uint32_t i = 0; i < snapshot->gpu_count; i++) {
		if (snapshot->gpu[i].sampled_ns[SNAPSHOT_FAST] > last_ns)
			last_ns = snapshot->gpu[i].sampled_ns[SNAPSHOT_FAST];
	}

	if (last_ns == out->sample_ns)
		return;

	out->sample_ns = last_ns;
	out->sample_unix_ns = snapshot->taken_unix_ns - (int64_t)(snapshot->taken_ns - last_ns);
}

static void write_node(struct door_web *door, const struct web_source *source, struct view *view)
{
	struct view_node *out = &view->node;
	uint64_t now_ns = loop_now_ns(door->options.loop);

	web_fill_node(source, view);
	write_sample_time(&view->snapshot, out);
	out->probe_restarts = web_events_probe_restarts(door->options.events);
	out->reloads = web_events_reloads(door->options.events, &out->reloads_failed);
	web_self_look(&door->self, node_probe_pid(door->options.node));

	if (door->counted_ns == 0 || now_ns - door->counted_ns >= DOOR_WEB_FDS_NS) {
		web_self_count_fds(&door->self);
		door->counted_ns = now_ns;
	}

	out->cpu_ns = door->self.cpu_ns;
	out->rss_bytes = door->self.rss_bytes;
	out->open_fds = door->self.open_fds;
	out->boot_unix_s = web_self_boot_unix_s();
}

/* What does not change while we run. */
static void write_beginning(const struct door_web *door)
{
	struct view_shared *shared = door->memory.shared;
	struct view_node *out = &shared->view.node;

	view_begin(shared);
	if (door->options.node_name)
		fill_text(out->host, sizeof(out->host), door->options.node_name);
	else if (gethostname(out->host, sizeof(out->host)) < 0)
		fill_text(out->host, sizeof(out->host), "localhost");

	out->host[sizeof(out->host) - 1] = '\0';
	fill_text(out->version, sizeof(out->version), SLUICE_VERSION);
	out->started_unix_ns = door->started_unix_ns;
	out->started_ns = door->started_ns;
	view_end(shared);
}

/* What somebody calls his jobs is his own business: sluice-agent(1) says who sees it. Whoever has
 * the token may. */
static void write_no_names(struct view *view)
{
	for (uint32_t i = 0; i < view->job_count; i++)
		memset(view->job[i].name, 0, sizeof(view->job[i].name));
	for (uint32_t i = 0; i < view->holder_count; i++)
		memset(view->holder[i].job_name, 0, sizeof(view->holder[i].job_name));
}

static void door_write(struct door_web *door)
{
	struct door_kubelet *kubelet = door->options.kubelet;
	const struct web_source source = {.node = door->options.node,
					  .vitals = door->options.vitals,
					  .reload = door->options.reload,
					  .kubelet = kubelet,
					  .rdma = door->options.rdma,
					  .validations = door->options.validations,
					  .queue = door->queue,
					  .users = door->users,
					  .counters = door->counters};
	const struct config *config = node_config(door->options.node);
	const struct snapshot *snapshot = node_snapshot(door->options.node);
	uint64_t events = web_events_generation(door->options.events);
	struct view_shared *shared = door->memory.shared;
	struct view *view = &shared->view;

	if (snapshot)
		web_counters_sample(door->counters, snapshot);
	view_begin(shared);

	bool had_token = view->settings.has_token;

	write_settings(door, &view->settings);
	/* Without one there are no names in it, and nothing else brings them back. */
	if (view->settings.has_token != had_token)
		door->jobs_are_dirty = true;
	web_fill_gpus(&source, view);
	write_node(door, &source, view);
	web_events_fill(door->options.events, events != door->told, door->options.vitals, view);

	if (door->jobs_are_dirty)
		web_fill_jobs(&source, view);
	door_rdma_count(door->options.rdma);
	web_fill_adapters(&source, view);
	web_fill_resources(&source, view);
	attribution_fill(door->attribution, config->metrics.max_container_series, view);
	web_fill_users(&source, view);

	if (!view->settings.has_token)
		write_no_names(view);
	view_end(shared);
	door->told = events;
	door->jobs_are_dirty = door->is_dirty = false;
	web_process_tick(door->process);
}

static void door_write_soon(struct door_web *door)
{
	door->is_dirty = true;
	if (door->is_stopped || door_is_off(door) || !door->memory.shared ||
	    loop_timer_is_running(door->write))
		return;
	door_write(door);
	loop_timer_start(door->write, DOOR_WEB_WRITE_NS);
}

static void door_on_write(void *context)
{
	struct door_web *door = context;
	if (door->is_dirty)
		door_write_soon(door);
}

/* --- listening -------------------------------------------------------------------------------- */

/* Said when it is new. */
static void door_set_problem(struct door_web *door, const char *text)
{
	if (strcmp(door->problem, text) == 0)
		return;
	fill_text(door->problem, sizeof(door->problem), text);
	if (*text)
		log_write(door->options.log, LOG_LEVEL_WARNING, NULL,
			  "page and metrics are not served: %s", text);
}

static void door_close(struct door_web *door)
{
	loop_timer_stop(door->again);
	cleanup_close_fn(&door->listen_fd);
	door->listen_fd = -1;
	door->address[0] = '\0';
	door->again_ns = DOOR_WEB_AGAIN_FIRST_NS;
}

static int door_listen(struct door_web *door, struct err *err)
{
	struct address address;
	int rc = address_parse(door->wanted, strlen(door->wanted), &address, err);
	if (rc < 0)
		return rc;

	int fd = web_listen(&address, err);
	if (fd < 0)
		return fd;

	door->listen_fd = fd;
	web_listen_name(fd, door->address);

	if (!address_is_loopback(&address) && !web_token_is_wanted(door->token))
		log_write(door->options.log, LOG_LEVEL_WARNING, NULL,
			  "whoever can reach %s sees who runs what on these GPUs: "
			  "sluice.web.tokenFile keeps others out",
			  door->address);

	return 0;
}

static int door_open_memory(struct door_web *door, struct err *err)
{
	if (door->memory.shared)
		return 0;

	int rc = web_memory_open(&door->memory, err);
	if (rc < 0)
		return rc;

	write_beginning(door);
	door->told = UINT64_MAX;
	door->jobs_are_dirty = true;

	return 0;
}

static void door_open(struct door_web *door)
{
	struct err err = {0};
	int rc = door_open_memory(door, &err);
	if (rc == 0 && door->listen_fd < 0)
		rc = door_listen(door, &err);
	door_set_problem(door, rc < 0 ? err.text : "");

	if (rc < 0) {
		loop_timer_start(door->again, door->again_ns);
		door->again_ns = door->again_ns * 2 < DOOR_WEB_AGAIN_LAST_NS
				     ? door->again_ns * 2
				     : DOOR_WEB_AGAIN_LAST_NS;
		return;
	}

	log_write(door->options.log, LOG_LEVEL_NOTICE, NULL, "page and metrics at http://%s/",
		  door->address);
	/* It sees nothing before it sees who may come in. */
	loop_timer_stop(door->write);
	door_write_soon(door);
	web_process_start(door->process);
}

static void door_on_again(void *context)
{
	door_open(context);
}

/* Whoever was taken over may have shut the socket down. */
static int door_prepare(int out_fds[2], void *context, struct err *err)
{
	struct door_web *door = context;
	if (door->listen_fd >= 0 && !web_listen_is_well(door->listen_fd))
		door_close(door);

	int rc = door->listen_fd < 0 ? door_listen(door, err) : 0;
	if (rc < 0)
		return rc;

	_cleanup_close_ int listen_fd = fcntl(door->listen_fd, F_DUPFD_CLOEXEC, 0);
	if (listen_fd < 0)
		return err_set(err, -errno, "the socket for the web process: %s",
			       err_describe(-errno));

	int memory_fd = web_memory_reader(&door->memory, err);
	if (memory_fd < 0)
		return memory_fd;

	out_fds[0] = take_fd(&listen_fd);
	out_fds[1] = memory_fd;
	return 0;
}

static void door_on_started(void *context)
{
	struct door_web *door = context;
	web_process_tick(door->process);
}

/* --- the configuration ------------------------------------------------------------------------ */

static void door_configure(struct door_web *door)
{
	const struct config *config = node_config(door->options.node);
	uint64_t generation = node_generation(door->options.node);
	if (door->is_stopped || (door->is_known && generation == door->generation))
		return;

	bool is_first = !door->is_known;

	door->is_known = true;
	door->generation = generation;
	web_token_set_file(door->token, config->web.token_file);

	if (!is_first && strcmp(door->wanted, config->web.address) == 0)
		return;

	web_process_stop(door->process);
	door_close(door);
	door_set_problem(door, "");
	fill_text(door->wanted, sizeof(door->wanted), config->web.address);

	if (door_is_off(door)) {
		web_memory_close(&door->memory);
		return;
	}

	door_open(door);
}

static void door_on_token(void *context)
{
	door_web_jobs(context); /* their names hang on it */
}

static void door_on_named(void *context)
{
	door_web_jobs(context); /* a user's, of a directory that answers late */
}

/* --- its life --------------------------------------------------------------------------------- */

static int door_open_parts(struct door_web *door, struct err *err)
{
	const struct door_web_options *options = &door->options;
	const struct web_token_options token = {.loop = options->loop,
						.storage = options->storage,
						.log = options->log,
						.changed = door_on_token,
						.context = door};
	const struct web_process_options process = {.loop = options->loop,
						    .children = options->children,
						    .log = options->log,
						    .program = options->program,
						    .prepare = door_prepare,
						    .started = door_on_started,
						    .context = door};
	const struct users_options users = {.loop = options->loop,
					    .children = options->children,
					    .named = door_on_named,
					    .context = door};
	const struct attribution_options attribution = {.loop = options->loop,
							.storage = options->storage,
							.log = options->log,
							.node = options->node,
							.leases = options->leases,
							.kubelet = options->kubelet,
							.queue = &door->queue,
							.root = options->root};

	door->counters = calloc(1, sizeof(*door->counters));
	if (!door->counters)
		return err_set(err, -ENOMEM, "out of memory for page and metrics");

	door->write = loop_timer_new(options->loop, door_on_write, door, err);
	if (door->write)
		door->again = loop_timer_new(options->loop, door_on_again, door, err);
	if (door->again)
		door->users = users_new(&users, err);
	if (!door->users)
		return -ENOMEM;

	int rc = web_token_new(&token, &door->token, err);
	if (rc == 0)
		rc = web_process_new(&process, &door->process, err);

	return rc == 0 ? attribution_new(&attribution, &door->attribution, err) : rc;
}

int door_web_new(const struct door_web_options *options, struct door_web **out, struct err *err)
{
	struct door_web *door = calloc(1, sizeof(*door));
	if (!door)
		return err_set(err, -ENOMEM, "out of memory for page and metrics");

	door->options = *options;
	door->memory = (struct web_memory)WEB_MEMORY_NONE;
	door->listen_fd = -1;
	door->started_unix_ns = clock_unix_ns();
	door->started_ns = loop_now_ns(options->loop);

	/* What attribution has begun needs it: freed after the storage thread. */
	*out = door;
	int rc = door_open_parts(door, err);
	if (rc < 0)
		return rc;

	door_configure(door);
	return 0;
}

int door_web_open(struct doors *doors, void **out, struct err *err)
{
	const struct doors_parts *parts = doors_parts(doors);
	const struct door_web_options options = {
	    .loop = parts->loop,
	    .storage = parts->storage,
	    .children = parts->children,
	    .log = parts->log,
	    .node = parts->node,
	    .vitals = parts->vitals,
	    .reload = parts->reload,
	    .leases = parts->leases,
	    .kubelet = doors_at(doors, DOOR_KUBELET),
	    .rdma = doors_at(doors, DOOR_RDMA),
	    .validations = doors_at(doors, DOOR_VALIDATIONS),
	    .events = parts->events,
	    .node_name = parts->node_name,
	    .root = parts->root,
	    .program = getenv("SLUICE_WEB"),
	};
	struct door_web *door = NULL;

	int rc = door_web_new(&options, &door, err);
	*out = door;

	return rc;
}

void door_web_stop(void *context)
{
	struct door_web *door = context;
	if (!door || door->is_stopped)
		return;

	door->is_stopped = true;
	door->queue = NULL;
	attribution_stop(door->attribution);

	if (door->token)
		web_token_stop(door->token);
	web_process_stop(door->process);
	if (door->write)
		loop_timer_stop(door->write);
	if (door->again)
		door_close(door);
}

void *door_web_free(void *context)
{
	struct door_web *door = context;
	if (!door)
		return NULL;

	door_web_stop(door);
	door->attribution = attribution_free(door->attribution);
	door->process = web_process_free(door->process);
	door->token = web_token_free(door->token);
	(void)loop_timer_free(door->write);
	(void)loop_timer_free(door->again);

	if (door->users)
		(void)users_free(door->users);
	free(door->counters);
	web_memory_close(&door->memory);
	free(door);

	return NULL;
}

void door_web_set_queue(void *context, struct queue *queue)
{
	struct door_web *door = context;
	if (!door || door->is_stopped)
		return;
	door->queue = queue;
	door_web_jobs(door);
}

void door_web_update(void *context)
{
	struct door_web *door = context;
	if (!door || door->is_stopped || !node_config(door->options.node))
		return;
	door_configure(door);
	door_write_soon(door);
}

void door_web_jobs(void *context)
{
	struct door_web *door = context;
	if (!door || door->is_stopped)
		return;
	door->jobs_are_dirty = true;
	door_write_soon(door);
}

/* --- for the status --------------------------------------------------------------------------- */

const char *door_web_address(const struct door_web *door)
{
	return !door ? "" : door->address[0] ? door->address : door->wanted;
}

pid_t door_web_pid(const struct door_web *door)
{
	return door ? web_process_pid(door->process) : -1;
}

uint64_t door_web_restarts(const struct door_web *door)
{
	return door ? web_process_restarts(door->process) : 0;
}

const char *door_web_problem(const struct door_web *door)
{
	if (!door || door_is_off(door))
		return "";
	if (door->problem[0])
		return door->problem;
	const char *ended = web_process_problem(door->process);
	return *ended ? ended : web_token_problem(door->token);
}

bool door_web_wants_token(const struct door_web *door)
{
	return door && web_token_is_wanted(door->token);
}

const struct view *door_web_view(const struct door_web *door)
{
	return door && door->memory.shared ? &door->memory.shared->view : NULL;
}

void door_web_status(const void *door, struct arena *arena, Sluice__V1__StatusReply *out)
{
	pid_t pid = door_web_pid(door);

	out->web = arena_alloc(arena, sizeof(*out->web));
	if (!out->web)
		return;

	sluice__v1__web__init(out->web);
	out->web->address = answer_text(arena, door_web_address(door));
	out->web->pid = pid > 0 ? (uint32_t)pid : 0;
	out->web->restarts = door_web_restarts(door);
	out->web->problem = answer_text(arena, door_web_problem(door));
	out->web->token = door_web_wants_token(door);
}
