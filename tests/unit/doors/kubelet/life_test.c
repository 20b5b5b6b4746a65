/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a resource with a plugin and a registration that are made up here: what it does, and
 * when, is written down as a text; the clock is the test's.
 */
#include "doors/kubelet/life.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/loop.h"
#include "doors/kubelet/kubelet.h"
#include "doors/kubelet/plugin.h"
#include "doors/kubelet/registration.h"
#include "doors/kubelet/resource.h"
#include "tests/unit/doors/kubelet/rig.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"

#define MS CLOCK_NS_PER_MS
#define S  CLOCK_NS_PER_S

struct plugin {
	struct plugin_options options;
	struct kubelet_resource *resource; /* owned */
	void (*hung_up)(void *context);
	void *hung_up_context;
};

struct registration {
	struct registration_options options;
};

/* What the test decides, and what happened. */
static struct scene {
	char *directory;
	struct loop *loop;
	struct rig *rig;
	struct life *life;
	struct buf trace;
	struct plugin *plugin;		   /* the open one */
	struct registration *registration; /* the running one */
	int open_code, call_code;	   /* what plugin_open(), registration_start() say */
	bool attached, has_socket, takes_over;
	uint64_t start_ns;
	unsigned changes;
} scene;

/* --- made up --- */

static void note(const char *text)
{
	assert_int_equal(buf_printf(&scene.trace, "%s ", text), 0);
}

int plugin_endpoint(const char *resource, char out[PLUGIN_ENDPOINT_MAX], struct err *err)
{
	(void)err;
	assert_string_equal(resource, "nvidia.com/gpu");
	memcpy(out, "nvidia-gpu.sock", sizeof("nvidia-gpu.sock"));
	return 0;
}

int plugin_open(const struct plugin_options *options, struct kubelet_resource *resource,
		struct allocator *allocator, struct plugin **out, bool *out_taken_over,
		struct err *err)
{
	(void)allocator;
	assert_null(scene.plugin);
	if (scene.open_code < 0) {
		note("cannot-open");
		return err_set(err, scene.open_code, "no");
	}
	struct plugin *plugin = calloc(1, sizeof(*plugin));
	if (!plugin)
		return err_set(err, -ENOMEM, "out of memory");
	plugin->options = *options;
	plugin->resource = resource;
	scene.plugin = plugin;
	scene.has_socket = true;
	*out = plugin;
	*out_taken_over = scene.takes_over;
	note("open");
	return 0;
}

struct plugin *plugin_close(struct plugin *plugin)
{
	if (plugin) {
		note("close");
		scene.plugin = NULL;
		scene.attached = false;
		(void)resource_free(plugin->resource);
		free(plugin);
	}
	return NULL;
}

void plugin_update(struct plugin *plugin, struct kubelet_resource *resource,
		   struct allocator *allocator)
{
	(void)allocator;
	(void)resource_free(plugin->resource);
	plugin->resource = resource;
	note(resource->device_count == 0 ? "empty" : "update");
}

void plugin_set_allocator(struct plugin *plugin, struct allocator *allocator)
{
	(void)plugin;
	(void)allocator;
}

void plugin_resume(struct plugin *plugin)
{
	(void)plugin;
}

void plugin_flush(struct plugin *plugin)
{
	(void)plugin;
	note("flush");
}

void plugin_hang_up(struct plugin *plugin, void (*done)(void *context), void *context)
{
	note("hang-up");
	scene.attached = false;
	plugin->hung_up = done;
	plugin->hung_up_context = context;
}

bool plugin_is_attached(const struct plugin *plugin)
{
	(void)plugin;
	return scene.attached;
}

bool plugin_has_socket(const struct plugin *plugin)
{
	(void)plugin;
	return scene.has_socket;
}

const struct kubelet_resource *plugin_resource(const struct plugin *plugin)
{
	return plugin->resource;
}

void plugin_count(const struct plugin *plugin, struct plugin_counts *out)
{
	(void)plugin;
	*out = (struct plugin_counts){.allocations = 7};
}

int registration_start(const struct registration_options *options, struct registration **out,
		       struct err *err)
{
	char text[64];
	uint64_t after_ms = (loop_now_ns(scene.loop) - scene.start_ns) / MS;
	assert_null(scene.registration);
	/* Never while a stream of ours is open. */
	assert_false(scene.attached);
	assert_non_null(scene.plugin);
	assert_string_equal(options->endpoint, "nvidia-gpu.sock");
	(void)snprintf(text, sizeof(text), "register@%llu", (unsigned long long)after_ms);
	note(text);
	if (scene.call_code < 0)
		return err_set(err, scene.call_code, "nobody listens");
	struct registration *registration = calloc(1, sizeof(*registration));
	if (!registration)
		return err_set(err, -ENOMEM, "out of memory");
	registration->options = *options;
	scene.registration = registration;
	*out = registration;
	return 0;
}

struct registration *registration_cancel(struct registration *registration)
{
	if (registration) {
		note("cancel");
		scene.registration = NULL;
		free(registration);
	}
	return NULL;
}

/* --- what a test does --- */

static void on_changed(void *context)
{
	(void)context;
	scene.changes++;
}

static void on_ended(struct life *life, void *context)
{
	(void)context;
	note("ended");
	assert_ptr_equal(life, scene.life);
	scene.life = life_free(life);
}

static void note_nothing(void *context)
{
	(void)context;
}

static int set_up(void **state)
{
	(void)state;
	scene = (struct scene){0};
	buf_init(&scene.trace, 1 << 20);
	assert_int_equal(buf_reserve(&scene.trace, 1 << 16), 0);
	scene.directory = unit_tmp_new();
	scene.loop = loop_new(LOOP_FAKE, NULL);
	scene.rig = rig_new(2);
	assert_non_null(scene.loop);
	/* The loop keeps what it needs for its first timer. */
	assert_null(loop_timer_free(loop_timer_new(scene.loop, note_nothing, NULL, NULL)));
	unit_write(unit_path(scene.directory, "kubelet.sock"), "");
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	scene.life = life_free(scene.life);
	scene.rig = rig_free(scene.rig);
	scene.loop = loop_free(scene.loop);
	buf_done(&scene.trace);
	scene.directory = unit_tmp_free(scene.directory);
	return 0;
}

static struct life_options options_of(bool no_registration)
{
	static char socket[128];
	(void)snprintf(socket, sizeof(socket), "%s/kubelet.sock", scene.directory);
	return (struct life_options){.loop = scene.loop,
				     .socket = socket,
				     .directory = scene.directory,
				     .no_registration = no_registration,
				     .changed = on_changed,
				     .ended = on_ended};
}

static void begin(bool no_registration)
{
	const struct life_options options = options_of(no_registration);
	struct err err = {0};
	scene.start_ns = loop_now_ns(scene.loop);
	if (life_new(&options, rig_resource(scene.rig, "", "nvidia.com/gpu"), NULL, &scene.life,
		     &err) < 0)
		fail_msg("%s", err.text);
}

static void expect(const char *trace)
{
	assert_string_equal(buf_text(&scene.trace), trace);
	buf_clear(&scene.trace);
	scene.start_ns = loop_now_ns(scene.loop);
}

static void advance(uint64_t ns)
{
	assert_int_equal(loop_advance(scene.loop, ns, NULL), 0);
}

static struct kubelet_view view(void)
{
	struct kubelet_view out;
	life_view(scene.life, &out);
	return out;
}

static void expect_state(enum kubelet_state state)
{
	assert_string_equal(kubelet_state_to_string(view().state), kubelet_state_to_string(state));
}

static void answer(int code, const char *text)
{
	struct registration *registration = scene.registration;
	struct err why = {0};
	assert_non_null(registration);
	(void)err_set(&why, code, "%s", text);
	scene.registration = NULL;
	registration->options.done(code < 0 ? &why : NULL, registration->options.context);
	free(registration);
}

static void attach(bool attached)
{
	assert_non_null(scene.plugin); /* without memory there may be none */
	scene.attached = attached;
	scene.plugin->options.changed(scene.plugin->options.context);
}

static void hung_up(void)
{
	void (*done)(void *) = scene.plugin->hung_up;
	assert_non_null(done);
	scene.plugin->hung_up = NULL;
	done(scene.plugin->hung_up_context);
	assert_int_equal(loop_pass(scene.loop, 0, NULL), 0);
}

static void begin_attached(void)
{
	begin(false);
	answer(0, "");
	attach(true);
	expect_state(KUBELET_ATTACHED);
	expect("open register@0 ");
}

/* --- cases --- */

static void test_served_registered_attached(void **state)
{
	(void)state;
	begin(false);
	expect("open register@0 ");
	expect_state(KUBELET_REGISTERING);
	answer(0, "");
	expect_state(KUBELET_REGISTERED);
	attach(true);
	expect_state(KUBELET_ATTACHED);
	advance(100 * S);
	expect("");
	struct kubelet_view out = view();
	assert_string_equal(out.name, "nvidia.com/gpu");
	assert_string_equal(out.endpoint, "nvidia-gpu.sock");
	assert_string_equal(out.problem, "");
	assert_int_equal(out.devices, 2);
	assert_int_equal(out.healthy, 2);
	assert_int_equal(out.registrations, 1);
	assert_int_equal(out.counts.allocations, 7);
	assert_true(scene.changes >= 3);
}

static void test_attached_before_the_answer(void **state)
{
	(void)state;
	begin(false);
	attach(true);
	expect_state(KUBELET_REGISTERING);
	answer(0, "");
	expect_state(KUBELET_ATTACHED);
	expect("open register@0 ");
}

/* A kubelet that says yes and never comes: at once, then ever less often. */
static void test_registered_and_never_attached(void **state)
{
	(void)state;
	static const uint64_t waits_s[] = {2, 3, 4, 6, 10, 18, 32, 32, 32};
	begin(false);
	expect("open register@0 ");
	for (size_t i = 0; i < sizeof(waits_s) / sizeof(*waits_s); i++) {
		char text[64];
		answer(0, "");
		advance(waits_s[i] * S);
		(void)snprintf(text, sizeof(text), "register@%llu ",
			       (unsigned long long)(waits_s[i] * 1000));
		expect(text);
	}
	assert_non_null(strstr(view().problem, "opens no stream"));
	answer(0, "");
	attach(true);
	expect_state(KUBELET_ATTACHED);
	assert_string_equal(view().problem, "");
}

/* Bound, but not listening yet: looked for at once, and then less and less often. */
static void test_nobody_listens(void **state)
{
	(void)state;
	scene.call_code = -ECONNREFUSED;
	begin(false);
	advance(20 * MS);
	expect("open register@0 register@1 register@3 register@7 register@15 ");
	expect_state(KUBELET_WAITING);
	assert_string_equal(view().problem, "nobody listens");
	advance(600 * S);
	buf_clear(&scene.trace);
	scene.start_ns = loop_now_ns(scene.loop);
	advance(60 * S);
	unsigned attempts = 0;
	for (const char *at = buf_text(&scene.trace); (at = strstr(at, "register@")); at++)
		attempts++;
	assert_int_equal(attempts, 2);
	/* A new kubelet.sock: at once, and often again. */
	buf_clear(&scene.trace);
	scene.start_ns = loop_now_ns(scene.loop);
	life_register(scene.life);
	advance(4 * MS);
	expect("register@0 register@1 register@3 ");
}

static void test_refused_by_the_kubelet(void **state)
{
	(void)state;
	static const uint64_t waits_s[] = {1, 2, 4, 8, 16, 30, 30};
	begin(false);
	expect("open register@0 ");
	for (size_t i = 0; i < sizeof(waits_s) / sizeof(*waits_s); i++) {
		char text[64];
		answer(-EREMOTEIO, "the ResourceName \"bad\" is invalid");
		expect_state(KUBELET_WAITING);
		advance(waits_s[i] * S - 1);
		expect("");
		scene.start_ns -= waits_s[i] * S - 1;
		advance(1);
		(void)snprintf(text, sizeof(text), "register@%llu ",
			       (unsigned long long)(waits_s[i] * 1000));
		expect(text);
	}
	assert_string_equal(view().problem, "the ResourceName \"bad\" is invalid");
}

static void test_no_kubelet(void **state)
{
	(void)state;
	assert_int_equal(unlink(unit_path(scene.directory, "kubelet.sock")), 0);
	begin(false);
	expect("open ");
	expect_state(KUBELET_WAITING);
	assert_non_null(strstr(view().problem, "no kubelet"));
	unit_write(unit_path(scene.directory, "kubelet.sock"), "");
	life_register(scene.life);
	expect("register@0 ");
}

static void test_the_stream_ends(void **state)
{
	(void)state;
	begin_attached();
	advance(31 * S);
	expect("");
	attach(false);
	expect_state(KUBELET_WAITING);
	advance(5 * MS);
	expect("register@1 ");
	/* Again and again: not without end at full speed. */
	for (int i = 0; i < 20; i++) {
		answer(0, "");
		attach(true);
		attach(false);
		advance(31 * S);
	}
	buf_clear(&scene.trace);
	scene.start_ns = loop_now_ns(scene.loop);
	answer(0, "");
	attach(true);
	attach(false);
	advance(29 * S);
	expect("");
	advance(1 * S);
	expect("register@1000 ");
}

/* The order that a kubelet before https://github.com/kubernetes/kubernetes/pull/135437 needs. */
static void test_registered_again_while_attached(void **state)
{
	(void)state;
	begin_attached();
	life_register(scene.life);
	expect("hang-up ");
	expect_state(KUBELET_REGISTERING);
	life_register(scene.life); /* once is enough */
	life_look(scene.life);
	scene.plugin->options.changed(scene.plugin->options.context);
	advance(900 * MS);
	expect("");
	hung_up();
	expect("register@0 ");
	answer(0, "");
	attach(true);
	expect_state(KUBELET_ATTACHED);
	assert_int_equal(view().registrations, 2);
}

static void test_registered_again_while_registering(void **state)
{
	(void)state;
	begin(false);
	life_register(scene.life);
	expect("open register@0 cancel register@0 ");
}

/* A kubelet starts: it removes all sockets and makes its own. */
static void test_sockets_are_removed(void **state)
{
	(void)state;
	begin_attached();
	scene.has_socket = false;
	life_look(scene.life);
	life_look(scene.life);
	scene.attached = false; /* its process has ended */
	scene.plugin->options.changed(scene.plugin->options.context);
	advance(10 * MS);
	expect("");
	life_register(scene.life); /* kubelet.sock came */
	expect("close open register@0 ");
	advance(10 * S);
	expect("");
}

static void test_only_our_socket_is_removed(void **state)
{
	(void)state;
	begin_attached();
	scene.has_socket = false;
	life_look(scene.life);
	assert_non_null(strstr(view().problem, "removed"));
	advance(49 * MS);
	expect("");
	advance(1 * MS);
	expect("hang-up ");
	hung_up();
	expect("close open register@0 ");
	answer(0, "");
	attach(true);
	assert_string_equal(view().problem, "");
}

/* Another plugin has put its socket in the place of ours; and when it ends nobody tells us. */
static void test_another_plugin(void **state)
{
	(void)state;
	begin_attached();
	scene.has_socket = false;
	scene.takes_over = true;
	unit_write(unit_path(scene.directory, "nvidia-gpu.sock"), "");
	life_look(scene.life);
	assert_non_null(strstr(view().problem, "replaced"));
	advance(S);
	expect("hang-up ");
	hung_up();
	expect("close open register@0 ");
	answer(0, "");
	attach(true);
	assert_non_null(strstr(view().problem, "another device plugin serves"));
	static const uint64_t doubts_s[] = {5, 10, 20, 40, 80, 160};
	for (size_t i = 0; i < sizeof(doubts_s) / sizeof(*doubts_s); i++) {
		expect_state(KUBELET_ATTACHED);
		advance(doubts_s[i] * S - 1);
		expect("");
		advance(1);
		expect("hang-up ");
		hung_up();
		answer(0, "");
		attach(true);
		expect("register@0 ");
	}
	assert_string_equal(view().problem, "");
	advance(1000 * S);
	expect("");
}

static void test_its_end(void **state)
{
	(void)state;
	begin_attached();
	life_end(scene.life);
	assert_true(life_is_ending(scene.life));
	expect("empty flush hang-up ");
	hung_up();
	expect("ended close ");
	assert_null(scene.life);
	/* Nobody is there to be told. */
	begin(false);
	life_end(scene.life);
	expect("open register@0 cancel ");
	advance(0);
	expect("ended close ");
}

static void test_it_comes_back_before_its_end(void **state)
{
	(void)state;
	begin_attached();
	life_end(scene.life);
	life_update(scene.life, rig_resource(scene.rig, "", "nvidia.com/gpu"), NULL);
	assert_false(life_is_ending(scene.life));
	expect("empty flush hang-up update ");
	hung_up();
	expect("register@0 ");
	answer(0, "");
	attach(false);
	/* And where nobody had to be hung up. */
	life_end(scene.life);
	life_update(scene.life, rig_resource(scene.rig, "", "nvidia.com/gpu"), NULL);
	advance(0);
	expect("update register@0 ");
}

static void test_it_cannot_be_opened(void **state)
{
	(void)state;
	scene.open_code = -EACCES;
	begin(false);
	expect("cannot-open ");
	assert_string_equal(view().problem, "no");
	expect_state(KUBELET_WAITING);
	advance(3 * S);
	expect("cannot-open cannot-open ");
	life_update(
	    scene.life,
	    rig_resource(scene.rig, RIG_SHARE("{name: gpu, replicas: 3}"), "nvidia.com/gpu"), NULL);
	assert_int_equal(view().devices, 6);
	scene.open_code = 0;
	advance(4 * S);
	expect("open register@4000 ");
}

static void test_somebody_else_registers(void **state)
{
	(void)state;
	begin(true);
	expect("open ");
	expect_state(KUBELET_WAITING);
	attach(true);
	expect_state(KUBELET_ATTACHED);
	life_register(scene.life);
	expect("");
	expect_state(KUBELET_ATTACHED);
	attach(false);
	expect_state(KUBELET_WAITING);
	advance(100 * S);
	expect("");
	scene.has_socket = false;
	life_look(scene.life);
	advance(S);
	expect("close open ");
}

/* The kubelet had the call, only its answer came too late. */
static void test_a_late_answer(void **state)
{
	(void)state;
	begin(false);
	answer(-ETIMEDOUT, "too late");
	attach(true);
	expect_state(KUBELET_ATTACHED);
	advance(100 * S);
	expect("open register@0 ");
	/* But a stream beside a refusal is of somebody who only looks. */
	attach(false);
	advance(10 * MS);
	expect("register@1 ");
	answer(-EREMOTEIO, "no");
	attach(true);
	expect_state(KUBELET_WAITING);
	advance(2 * S);
	expect("hang-up ");
}

static int scenario(void *context)
{
	(void)context;
	const struct life_options options = options_of(false);
	struct kubelet_resource *resource = NULL;
	int rc = rig_try(scene.rig, "", "nvidia.com/gpu", &resource, NULL);
	if (rc == 0)
		rc = life_new(&options, resource, NULL, &scene.life, NULL);
	if (rc < 0) {
		(void)resource_free(resource);
		advance(0); /* timers that were freed go at the end of a pass */
		return rc;
	}
	/* What fails is tried again by itself. */
	for (int i = 0; i < 8 && !scene.registration; i++)
		advance(S);
	assert_non_null(scene.registration);
	scene.life = life_free(scene.life);
	advance(0);
	return 0;
}

static void test_out_of_memory(void **state)
{
	(void)state;
	assert_true(failmalloc_each(scenario, NULL) > 5);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
	    CASE(test_served_registered_attached),
	    CASE(test_attached_before_the_answer),
	    CASE(test_registered_and_never_attached),
	    CASE(test_nobody_listens),
	    CASE(test_refused_by_the_kubelet),
	    CASE(test_no_kubelet),
	    CASE(test_the_stream_ends),
	    CASE(test_registered_again_while_attached),
	    CASE(test_registered_again_while_registering),
	    CASE(test_sockets_are_removed),
	    CASE(test_only_our_socket_is_removed),
	    CASE(test_another_plugin),
	    CASE(test_its_end),
	    CASE(test_it_comes_back_before_its_end),
	    CASE(test_it_cannot_be_opened),
	    CASE(test_somebody_else_registers),
	    CASE(test_a_late_answer),
	    CASE(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
