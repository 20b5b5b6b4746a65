/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/kubelet/life.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "base/loop.h"
#include "doors/kubelet/kubelet.h"
#include "doors/kubelet/plugin.h"
#include "doors/kubelet/registration.h"
#include "doors/kubelet/resource.h"

struct life {
	struct life_options options;
	char name[RESOURCE_NAME_MAX];
	char endpoint[PLUGIN_ENDPOINT_MAX];
	struct kubelet_resource *resource; /* owned; NULL: the plugin has it */
	struct allocator *allocator;	   /* borrowed; may be NULL */
	struct plugin *plugin;		   /* owned; NULL: not open */
	struct registration *registration; /* owned; NULL: none runs */
	struct loop_timer *timer; /* to the next attempt; REGISTERED: to the end of waiting */
	struct loop_timer *doubt; /* runs after another plugin's place was taken */
	struct loop_task step;
	enum kubelet_state state;
	bool is_hanging_up, is_ending, is_gone; /* gone: our socket, and that was noticed */
	uint64_t again_ns;			/* the next delay */
	uint64_t doubt_ns;
	uint64_t attached_ns; /* loop time */
	uint64_t registrations;
	int code; /* of the problem */
	char problem[KUBELET_PROBLEM_MAX];
};

static void life_hang_up(struct life *life);
static void life_proceed(struct life *life);

/* --- what is told ---------------------------------------------------------------------------- */

static void life_tell(const struct life *life)
{
	if (life->options.changed)
		life->options.changed(life->options.context);
}

static void life_enter(struct life *life, enum kubelet_state state)
{
	if (life->state == state)
		return;
	life->state = state;
	life_tell(life);
}

static bool life_has_problem(const struct life *life, const char *text)
{
	return strncmp(life->problem, text, sizeof(life->problem) - 1) == 0;
}

/* Each problem is logged once, however often it is met. */
static void life_take_problem(struct life *life, enum log_level level, int code, const char *text)
{
	life->code = code;
	if (life_has_problem(life, text))
		return;
	(void)snprintf(life->problem, sizeof(life->problem), "%.*s", KUBELET_PROBLEM_MAX - 1, text);
	if (*text)
		log_write(life->options.log, level, NULL, "%s: %s", life->name, text);
	life_tell(life);
}

/* --- when it is tried again --------------------------------------------------------------------
 */

static void life_try_in(struct life *life, uint64_t least_ns)
{
	uint64_t delay_ns = life->again_ns < least_ns ? least_ns : life->again_ns;
	life->again_ns =
	    delay_ns >= KUBELET_AGAIN_LAST_NS / 2 ? KUBELET_AGAIN_LAST_NS : 2 * delay_ns;
	life_enter(life, KUBELET_WAITING);
	loop_timer_start(life->timer, delay_ns);
}

/* Whether it is only a kubelet that is not there (yet): looked for often at first. */
static bool life_is_soon(int code)
{
	return code == -ECONNREFUSED || code == -ENOENT || code == -ECONNRESET || code == -EPIPE ||
	       code == -EAGAIN;
}

static void life_fail(struct life *life, int code, const char *text)
{
	life_take_problem(life, life_is_soon(code) ? LOG_LEVEL_INFO : LOG_LEVEL_WARNING, code,
			  text);
	life_try_in(life, life_is_soon(code) ? LIFE_SOON_NS : KUBELET_AGAIN_FIRST_NS);
}

/* --- registration ------------------------------------------------------------------------------
 */

static void life_attached(struct life *life)
{
	loop_timer_stop(life->timer);
	if (life->state == KUBELET_ATTACHED)
		return;

	life->attached_ns = loop_now_ns(life->options.loop);
	const struct kubelet_resource *resource = life_resource(life);
	log_write(life->options.log, LOG_LEVEL_NOTICE, NULL,
		  "%s: the kubelet has %" PRIu32 " devices, %" PRIu32 " of them healthy",
		  life->name, resource->device_count, resource_healthy(resource));

	if (!loop_timer_is_running(life->doubt))
		life_take_problem(life, LOG_LEVEL_INFO, 0, "");
	life_enter(life, KUBELET_ATTACHED);
}

static void life_on_registered(const struct err *why, void *context)
{
	struct life *life = context;
	life->registration = NULL; /* frees itself */

	if (why) {
		life_fail(life, why->code, why->text);
		return;
	}

	life->registrations++;
	if (plugin_is_attached(life->plugin)) {
		life_attached(life);
		return;
	}

	life_enter(life, KUBELET_REGISTERED);
	loop_timer_start(life->timer, KUBELET_ATTACH_NS);
}

static void life_call(struct life *life)
{
	const struct registration_options options = {
	    .loop = life->options.loop,
	    .socket = life->options.socket,
	    .endpoint = life->endpoint,
	    .resource = life->name,
	    .is_any_good = life_resource(life)->pool != NULL,
	    .done = life_on_registered,
	    .context = life,
	};
	char text[KUBELET_PROBLEM_MAX];
	struct stat info;
	struct err err = {0};

	if (lstat(life->options.socket, &info) < 0 && errno == ENOENT) {
		(void)snprintf(text, sizeof(text), "no kubelet: '%.200s' is not there",
			       life->options.socket);
		life_fail(life, -ENOENT, text);
		return;
	}

	int rc = registration_start(&options, &life->registration, &err);
	if (rc < 0)
		life_fail(life, rc, err.text);
	else
		life_enter(life, KUBELET_REGISTERING);
}

/* --- the plugin --------------------------------------------------------------------------------
 */

/* Streams that the kubelet ends, or that are gone with it. */
static void life_lost(struct life *life)
{
	if (life->options.no_registration) {
		life_enter(life, KUBELET_WAITING);
		return;
	}

	/* One that holds for a moment only is tried less and less often. */
	if (loop_now_ns(life->options.loop) - life->attached_ns >= KUBELET_AGAIN_LAST_NS)
		life->again_ns = LIFE_SOON_NS;
	life_fail(life, -ECONNRESET, "the kubelet has ended its stream: registering again");
}

static void life_on_plugin(void *context)
{
	struct life *life = context;
	if (life->is_hanging_up || life->is_ending)
		return;

	bool is_attached = plugin_is_attached(life->plugin);
	if (life->state == KUBELET_ATTACHED && !is_attached) {
		life_lost(life);
	} else if (is_attached && (life->state == KUBELET_REGISTERED ||
				   (life->state == KUBELET_WAITING &&
				    (life->options.no_registration || life->code == -ETIMEDOUT)))) {
		/* A kubelet that was slow to answer had the call all the same. Any other stream
		 * in WAITING is of somebody who only looks. */
		life_attached(life);
	}
}

static void life_take_place(struct life *life)
{
	char text[KUBELET_PROBLEM_MAX];
	(void)snprintf(text, sizeof(text),
		       "another device plugin serves '%s/%s': its place is taken, stop it",
		       life->options.directory, life->endpoint);
	life_take_problem(life, LOG_LEVEL_WARNING, -EEXIST, text);
	life->doubt_ns = LIFE_DOUBT_FIRST_NS;
	loop_timer_start(life->doubt, life->doubt_ns);
}

/* -errno: it was tried, and will be again. */
static int life_open_plugin(struct life *life)
{
	const struct plugin_options options = {
	    .loop = life->options.loop,
	    .log = life->options.log,
	    .directory = life->options.directory,
	    .resource = life->name,
	    .endpoint = life->endpoint,
	    .book = life->options.book,
	    .changed = life_on_plugin,
	    .context = life,
	};
	struct err err = {0};
	bool taken_over = false;
	int rc = 0;

	if (life->plugin && plugin_has_socket(life->plugin))
		return 0;

	if (life->plugin) {
		rc = resource_copy(plugin_resource(life->plugin), &life->resource, &err);
		if (rc == 0)
			life->plugin = plugin_close(life->plugin);
	}

	if (rc == 0)
		rc = plugin_open(&options, life->resource, life->allocator, &life->plugin,
				 &taken_over, &err);
	if (rc < 0) {
		life_fail(life, rc, err.text);
		return rc;
	}

	life->resource = NULL;
	life->is_gone = false;
	if (taken_over)
		life_take_place(life);

	return 0;
}

/* No stream of an earlier registration is open. */
static void life_proceed(struct life *life)
{
	if (life_open_plugin(life) < 0)
		return;
	if (!life->options.no_registration)
		life_call(life);
	else
		life_enter(life,
			   plugin_is_attached(life->plugin) ? KUBELET_ATTACHED : KUBELET_WAITING);
}

/* Registers, whatever was before; how long it takes until the next attempt stays as it is. */
static void life_try(struct life *life)
{
	loop_timer_stop(life->timer);
	life->registration = registration_cancel(life->registration);
	if (life->is_hanging_up || life->is_ending)
		return; /* goes on when that is over */

	if (life->plugin && plugin_is_attached(life->plugin) &&
	    !(life->options.no_registration && plugin_has_socket(life->plugin)))
		life_hang_up(life);
	else
		life_proceed(life);
}

void life_register(struct life *life)
{
	life->again_ns = LIFE_SOON_NS;
	life_try(life);
}

/* --- the end of streams --------------------------------------------------------------------------
 */

static void life_on_step(void *context)
{
	struct life *life = context;
	if (life->is_ending)
		life->options.ended(life, life->options.context);
	else
		life_proceed(life);
}

static void life_on_hung_up(void *context)
{
	struct life *life = context;
	life->is_hanging_up = false;
	/* The plugin may be closed then, and not while it calls us. */
	loop_defer(life->options.loop, &life->step, life_on_step, life);
}

/* A kubelet takes the end of an old stream for the end of a registration that came after it
 * (https://github.com/kubernetes/kubernetes/pull/135437): first the old one ends, then the new one
 * is asked for. */
static void life_hang_up(struct life *life)
{
	life->is_hanging_up = true;
	life_enter(life, KUBELET_REGISTERING);
	plugin_hang_up(life->plugin, life_on_hung_up, life);
}

void life_end(struct life *life)
{
	struct kubelet_resource *empty = NULL;

	if (life->is_ending)
		return;

	life->is_ending = true;
	loop_timer_stop(life->timer);
	loop_timer_stop(life->doubt);
	life->registration = registration_cancel(life->registration);
	if (life->is_hanging_up)
		return;

	if (!life->plugin || !plugin_is_attached(life->plugin)) {
		loop_defer(life->options.loop, &life->step, life_on_step, life);
		return;
	}

	/* Without memory the kubelet learns it from the end of the stream. */
	if (resource_empty(plugin_resource(life->plugin), &empty, NULL) == 0) {
		plugin_update(life->plugin, empty, NULL);
		plugin_flush(life->plugin);
	}

	life_hang_up(life);
}

bool life_is_ending(const struct life *life)
{
	return life->is_ending;
}

/* --- what may have happened unseen
 * ---------------------------------------------------------------- */

/* Our socket is not where it was: the kubelet starts, or another plugin has taken the place. */
static void life_socket_is_gone(struct life *life)
{
	char path[FILE_PATH_MAX], text[KUBELET_PROBLEM_MAX];
	struct stat info;

	if (life->is_gone)
		return;

	life->is_gone = true;
	life->registration = registration_cancel(life->registration);

	bool is_taken =
	    file_path(path, NULL, "%s/%s", life->options.directory, life->endpoint) == 0 &&
	    lstat(path, &info) == 0;
	(void)snprintf(text, sizeof(text), "its socket '%.200s' was %s", path,
		       is_taken ? "replaced by somebody" : "removed");
	life_take_problem(life, is_taken ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO, -ENOENT, text);
	life_try_in(life, is_taken ? KUBELET_AGAIN_FIRST_NS : LIFE_GONE_NS);
}

void life_look(struct life *life)
{
	if (life->is_hanging_up || life->is_ending || !life->plugin)
		return; /* then something is under way */
	if (!plugin_has_socket(life->plugin))
		life_socket_is_gone(life);
	else
		life_on_plugin(life);
}

static void life_on_timer(void *context)
{
	struct life *life = context;
	static const char text[] =
	    "the kubelet has registered it and opens no stream: registering again";

	if (life->state != KUBELET_REGISTERED) {
		life_try(life);
	} else if (life->again_ns >= KUBELET_AGAIN_FIRST_NS) {
		life_fail(life, -EPROTO, text);
	} else { /* at once the first time */
		life_take_problem(life, LOG_LEVEL_WARNING, -EPROTO, text);
		life->again_ns = KUBELET_AGAIN_FIRST_NS;
		life_try(life);
	}
}

static void life_on_doubt(void *context)
{
	struct life *life = context;
	life->doubt_ns *= 2;
	if (life->doubt_ns <= LIFE_DOUBT_LAST_NS)
		loop_timer_start(life->doubt, life->doubt_ns);
	life_try(life);
}

/* --- from outside
 * --------------------------------------------------------------------------------- */

int life_new(const struct life_options *options, struct kubelet_resource *resource,
	     struct allocator *allocator, struct life **out, struct err *err)
{
	struct life *life = calloc(1, sizeof(*life));
	if (!life)
		return err_set(err, -ENOMEM, "%s: out of memory", resource->name);

	life->options = *options;
	life->again_ns = LIFE_SOON_NS;
	memcpy(life->name, resource->name, sizeof(life->name));

	int rc = 0;

	if (resource->endpoint[0])
		memcpy(life->endpoint, resource->endpoint, sizeof(life->endpoint));
	else
		rc = plugin_endpoint(life->name, life->endpoint, err);

	if (rc == 0) {
		life->timer = loop_timer_new(options->loop, life_on_timer, life, err);
		if (life->timer)
			life->doubt = loop_timer_new(options->loop, life_on_doubt, life, err);
		rc = life->doubt ? 0 : -ENOMEM;
	}

	if (rc < 0) {
		(void)life_free(life);
		return rc;
	}

	life->resource = resource;
	life->allocator = allocator;
	*out = life;
	life_register(life);

	return 0;
}

struct life *life_free(struct life *life)
{
	if (!life)
		return NULL;

	loop_cancel(life->options.loop, &life->step);
	(void)registration_cancel(life->registration);
	(void)plugin_close(life->plugin);
	(void)loop_timer_free(life->timer);
	(void)loop_timer_free(life->doubt);
	(void)resource_free(life->resource);
	free(life);

	return NULL;
}

const struct kubelet_resource *life_resource(const struct life *life)
{
	return life->resource ? life->resource : plugin_resource(life->plugin);
}

void life_update(struct life *life, struct kubelet_resource *resource, struct allocator *allocator)
{
	bool was_ending = life->is_ending;

	life->is_ending = false;
	life->allocator = allocator;
	if (life->plugin) {
		plugin_update(life->plugin, resource, allocator);
	} else {
		(void)resource_free(life->resource);
		life->resource = resource;
	}

	/* Its end was under way: the step that was to come registers it. */
	if (was_ending && !life->is_hanging_up)
		loop_defer(life->options.loop, &life->step, life_on_step, life);
	life_tell(life);
}

void life_resume(struct life *life)
{
	if (life->plugin)
		plugin_resume(life->plugin);
}

void life_set_allocator(struct life *life, struct allocator *allocator)
{
	life->allocator = allocator;
	if (life->plugin)
		plugin_set_allocator(life->plugin, allocator);
}

void life_view(const struct life *life, struct kubelet_view *out)
{
	const struct kubelet_resource *resource = life_resource(life);
	*out = (struct kubelet_view){
	    .state = life->state,
	    .devices = resource->device_count,
	    .healthy = resource_healthy(resource),
	    .registrations = life->registrations,
	};
	memcpy(out->name, life->name, sizeof(out->name));
	memcpy(out->endpoint, life->endpoint, sizeof(out->endpoint));
	memcpy(out->problem, life->problem, sizeof(out->problem));

	if (life->plugin)
		plugin_count(life->plugin, &out->counts);
}
