/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/kubelet/injection.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/loop.h"
#include "cri.pb-c.h"
#include "tests/unit/unit.h"
#include "wire/listen.h"
#include "wire/server.h"

enum { DEADLINE_S = 20 };

/* A container runtime below a root of its own. */
struct rig {
	char *root;
	struct loop *loop;
	struct wire_server *server;
	struct injection *injection;
	const char *config; /* that it tells; NULL: nothing */
	bool is_news;	    /* when it tells that */
	size_t changes;
};

static void rig_version(struct wire_call *call, const ProtobufCMessage *request, void *context)
{
	char name[] = "containerd", version[] = "v1.7.13";
	Runtime__V1__VersionResponse reply = RUNTIME__V1__VERSION_RESPONSE__INIT;
	reply.runtime_name = name;
	reply.runtime_version = version;
	assert_int_equal(wire_call_reply(call, &reply.base, NULL), 0);
}

static void rig_status(struct wire_call *call, const ProtobufCMessage *request, void *context)
{
	struct rig *rig = context;
	char key[] = "config";
	if (rig->is_news)
		injection_look(rig->injection);
	rig->is_news = false;
	Runtime__V1__StatusResponse reply = RUNTIME__V1__STATUS_RESPONSE__INIT;
	Runtime__V1__Info info = RUNTIME__V1__INFO__INIT, *list[] = {&info};
	assert_true(((const Runtime__V1__StatusRequest *)request)->verbose);
	if (!rig->config) {
		wire_call_finish(call, WIRE_UNAVAILABLE, "not now");
		return;
	}
	info.key = key;
	info.value = (char *)rig->config;
	reply.info = list;
	reply.n_info = 1;
	assert_int_equal(wire_call_reply(call, &reply.base, NULL), 0);
}

static const struct wire_method methods[] = {
    {.path = "/runtime.v1.RuntimeService/Version",
     .request = &runtime__v1__version_request__descriptor,
     .reply = &runtime__v1__version_response__descriptor,
     .handle = rig_version},
    {.path = "/runtime.v1.RuntimeService/Status",
     .request = &runtime__v1__status_request__descriptor,
     .reply = &runtime__v1__status_response__descriptor,
     .handle = rig_status},
    {.path = NULL},
};

static void rig_changed(void *context)
{
	((struct rig *)context)->changes++;
}

static void rig_serve(struct rig *rig, const char *socket)
{
	const struct wire_server_options options = {.methods = methods, .context = rig};
	rig->server = wire_server_new(rig->loop, &options, NULL);
	assert_non_null(rig->server);
	int fd = wire_listen_unix(socket, 0600, NULL);
	assert_true(fd >= 0);
	assert_int_equal(wire_server_add_listener(rig->server, fd, NULL), 0);
}

static void rig_open(struct rig *rig, const char *endpoint)
{
	const struct injection_options options = {
	    .loop = rig->loop,
	    .root = rig->root,
	    .endpoint = endpoint,
	    .vendor = "example.com",
	    .changed = rig_changed,
	    .context = rig,
	};
	assert_int_equal(injection_open(&options, &rig->injection, NULL), 0);
	assert_int_equal(injection_now(rig->injection), INJECTION_UNKNOWN);
	assert_int_equal(loop_advance(rig->loop, 0, NULL), 0);
}

static void rig_run(struct rig *rig, const char *reason)
{
	uint64_t until_ns = unit_now_ns() + DEADLINE_S * CLOCK_NS_PER_S;
	while (!strstr(injection_reason(rig->injection), reason)) {
		if (unit_now_ns() > until_ns)
			fail_msg("still '%s'", injection_reason(rig->injection));
		assert_int_equal(loop_pass(rig->loop, CLOCK_NS_PER_MS, NULL), 0);
	}
}

static int rig_set_up(void **state)
{
	static struct rig rig;
	rig = (struct rig){.root = unit_tmp_new()};
	rig.loop = loop_new(LOOP_FAKE, NULL);
	assert_non_null(rig.loop);
	assert_int_equal(file_mkdirs(unit_path(rig.root, "run/containerd"), 0755, NULL), 0);
	assert_int_equal(file_mkdirs(unit_path(rig.root, "var/run/cdi"), 0755, NULL), 0);
	*state = &rig;
	return 0;
}

static int rig_tear_down(void **state)
{
	struct rig *rig = *state;
	rig->injection = injection_close(rig->injection);
	rig->server = wire_server_free(rig->server);
	rig->loop = loop_free(rig->loop);
	rig->root = unit_tmp_free(rig->root);
	return 0;
}

static void test_a_specification_that_comes(void **state)
{
	struct rig *rig = *state;
	rig->config = "{\"enableCDI\":true}";
	rig_serve(rig, unit_path(rig->root, "run/containerd/containerd.sock"));
	unit_write(unit_path(rig->root, "var/run/cdi/broken.json"), "{");
	unit_write(unit_path(rig->root, "var/run/cdi/other.json"), "{\"kind\": \"a.b/gpu\"}");
	unit_write(unit_path(rig->root, "var/run/cdi/readme.txt"), "kind: example.com/gpu");
	rig_open(rig, NULL);
	rig_run(rig, "no CDI specification provides example.com/gpu");
	assert_int_equal(injection_now(rig->injection), INJECTION_NONE);
	assert_int_equal(rig->changes, 1);
	unit_write(unit_path(rig->root, "var/run/cdi/ours.yaml"),
		   "cdiVersion: 0.5.0\nkind: example.com/gpu\n");
	assert_int_equal(loop_advance(rig->loop, INJECTION_PERIOD_NS, NULL), 0);
	rig_run(rig, "a specification provides example.com/gpu");
	assert_int_equal(injection_now(rig->injection), INJECTION_CDI);
	assert_int_equal(rig->changes, 2);

	/* Other names are looked for soon. */
	injection_set_vendor(rig->injection, "example.org");
	assert_int_equal(loop_advance(rig->loop, CLOCK_NS_PER_S, NULL), 0);
	rig_run(rig, "no CDI specification provides example.org/gpu");

	/* So is what somebody says is new, ... */
	unit_write(unit_path(rig->root, "var/run/cdi/ours.yaml"),
		   "cdiVersion: 0.5.0\nkind: example.org/gpu\n");
	rig->is_news = true; /* ... also when that is said in the middle of a look. */
	injection_look(rig->injection);
	assert_int_equal(loop_advance(rig->loop, CLOCK_NS_PER_S, NULL), 0);
	rig_run(rig, "a specification provides example.org/gpu");
	assert_int_equal(unlink(unit_path(rig->root, "var/run/cdi/ours.yaml")), 0);
	assert_int_equal(loop_advance(rig->loop, CLOCK_NS_PER_S, NULL), 0);
	rig_run(rig, "no CDI specification provides example.org/gpu");
}

static void test_nobody_and_somebody(void **state)
{
	struct rig *rig = *state;
	rig_open(rig, NULL);
	rig_run(rig, "no container runtime answers");
	assert_int_equal(injection_now(rig->injection), INJECTION_UNKNOWN);
	/* It does not say how it is configured: 1.7 then has CDI off. */
	rig_serve(rig, unit_path(rig->root, "run/containerd/containerd.sock"));
	assert_int_equal(loop_advance(rig->loop, INJECTION_PERIOD_NS, NULL), 0);
	rig_run(rig, "CDI is switched off in containerd v1.7.13");
	assert_int_equal(injection_now(rig->injection), INJECTION_NONE);
	/* It goes again. */
	rig->server = wire_server_free(rig->server);
	assert_int_equal(loop_advance(rig->loop, INJECTION_PERIOD_NS, NULL), 0);
	rig_run(rig, "no container runtime answers");
}

static void test_an_endpoint_that_was_named(void **state)
{
	struct rig *rig = *state;
	rig->config = "{\"containerd\":{\"defaultRuntimeName\":\"nvidia\"}}";
	rig_serve(rig, unit_path(rig->root, "run/mine.sock"));
	rig_open(rig, "unix:///run/mine.sock");
	rig_run(rig, "the default runtime of containerd v1.7.13 is NVIDIA's");
	assert_int_equal(injection_now(rig->injection), INJECTION_RUNTIME);
}

/* Each of the places that runtimes are known to listen in, the last one too. */
static void test_every_known_place_is_asked(void **state)
{
	static const char *const places[] = {
	    "run/containerd/containerd.sock",
	    "run/crio/crio.sock",
	    "run/k3s/containerd/containerd.sock",
	    "var/snap/microk8s/common/run/containerd.sock",
	    "run/cri-dockerd.sock",
	};
	struct rig *rig = *state;
	rig->config = "{\"containerd\":{\"defaultRuntimeName\":\"nvidia\"}}";

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		const char *socket = unit_path(rig->root, places[i]);
		char directory[FILE_PATH_MAX];
		(void)snprintf(directory, sizeof(directory), "%s", socket);
		*strrchr(directory, '/') = '\0';
		assert_int_equal(file_mkdirs(directory, 0755, NULL), 0);

		rig_serve(rig, socket);
		rig_open(rig, NULL);
		assert_true(injection_is_there(rig->injection));
		rig_run(rig, "the default runtime of containerd v1.7.13 is NVIDIA's");
		rig->injection = injection_close(rig->injection);
		rig->server = wire_server_free(rig->server);
		(void)unlink(unit_path(rig->root, places[i])); /* the server may have done it */
	}

	rig_open(rig, NULL);
	assert_false(injection_is_there(rig->injection));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_a_specification_that_comes, rig_set_up,
					    rig_tear_down),
	    cmocka_unit_test_setup_teardown(test_nobody_and_somebody, rig_set_up, rig_tear_down),
	    cmocka_unit_test_setup_teardown(test_every_known_place_is_asked, rig_set_up,
					    rig_tear_down),
	    cmocka_unit_test_setup_teardown(test_an_endpoint_that_was_named, rig_set_up,
					    rig_tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
