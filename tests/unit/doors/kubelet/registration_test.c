/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/kubelet/registration.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "deviceplugin.pb-c.h"
#include "unit/wire/server_fixture.h"
#include "wire/listen.h"

/* A kubelet that answers as a test wants, and what the plugin was told. */
struct desk {
	struct fixture *fixture;
	struct registration *registration; /* NULL: done */
	struct wire_call *held;
	char asked[300];
	unsigned calls, dones;
	struct err why;
	bool failed, cancel_in_done;
	enum { ANSWER, HOLD, REFUSE, GO_AWAY } how;
};

static void on_cancelled(void *context)
{
	struct desk *desk = context;
	desk->held = NULL;
}

static void on_register(struct wire_call *call, const ProtobufCMessage *message, void *context)
{
	struct desk *desk = context;
	const V1beta1__RegisterRequest *request = (const void *)message;
	V1beta1__Empty reply = V1BETA1__EMPTY__INIT;
	desk->calls++;
	(void)snprintf(
	    desk->asked, sizeof(desk->asked), "%s %s %s %d %d", request->version, request->endpoint,
	    request->resource_name, request->options ? request->options->pre_start_required : -1,
	    request->options ? request->options->get_preferred_allocation_available : -1);
	switch (desk->how) {
	case ANSWER:
		if (wire_call_reply(call, &reply.base, NULL) < 0)
			wire_call_finish(call, WIRE_INTERNAL, NULL);
		return;
	case HOLD:
		desk->held = call;
		wire_call_on_cancel(call, on_cancelled, desk);
		return;
	case REFUSE:
		wire_call_finish(call, WIRE_UNKNOWN, "the ResourceName \"bad\" is invalid");
		return;
	case GO_AWAY:
		desk->fixture->server = wire_server_free(desk->fixture->server);
		return;
	}
}

static const struct wire_method kubelet_methods[] = {
    {.path = "/v1beta1.Registration/Register",
     .request = &v1beta1__register_request__descriptor,
     .reply = &v1beta1__empty__descriptor,
     .handle = on_register},
    {0},
};

static int set_up(void **state)
{
	static struct desk desk;
	void *fixture = NULL;
	desk = (struct desk){0};
	*state = &desk;
	assert_int_equal(fixture_set_up(&fixture), 0);
	desk.fixture = fixture;
	return 0;
}

static int tear_down(void **state)
{
	struct desk *desk = *state;
	void *fixture = desk->fixture;
	desk->registration = registration_cancel(desk->registration);
	return fixture ? fixture_tear_down(&fixture) : 0;
}

static void serve(struct desk *desk, const char *path)
{
	const struct wire_server_options options = {.methods = kubelet_methods, .context = desk};
	desk->fixture->server = wire_server_new(desk->fixture->loop, &options, NULL);
	assert_non_null(desk->fixture->server);
	int fd = wire_listen_unix(path, 0600, NULL);
	assert_true(fd >= 0);
	assert_int_equal(wire_server_add_listener(desk->fixture->server, fd, NULL), 0);
}

static void on_done(const struct err *why, void *context)
{
	struct desk *desk = context;
	desk->dones++;
	desk->failed = why;
	if (why)
		desk->why = *why;
	if (desk->cancel_in_done)
		(void)registration_cancel(desk->registration);
	desk->registration = NULL;
}

static int start(struct desk *desk, const char *path, struct err *err)
{
	const struct registration_options options = {
	    .loop = desk->fixture->loop,
	    .socket = path,
	    .endpoint = "nvidia-gpu.sock",
	    .resource = "nvidia.com/gpu",
	    .done = on_done,
	    .context = desk,
	};
	return registration_start(&options, &desk->registration, err);
}

static bool is_done(void *context)
{
	const struct desk *desk = context;
	return desk->dones > 0;
}

static void test_what_is_said(void **state)
{
	struct desk *desk = *state;
	serve(desk, desk->fixture->path);
	assert_int_equal(start(desk, desk->fixture->path, NULL), 0);
	assert_int_equal(desk->dones, 0);
	fixture_run(desk->fixture, is_done, desk);
	assert_false(desk->failed);
	assert_string_equal(desk->asked, "v1beta1 nvidia-gpu.sock nvidia.com/gpu 0 1");
	for (int i = 0; i < 10; i++)
		assert_int_equal(loop_pass(desk->fixture->loop, 0, NULL), 0);
	assert_int_equal(desk->dones, 1);
}

static void test_cancelled_in_done(void **state)
{
	struct desk *desk = *state;
	desk->cancel_in_done = true;
	serve(desk, desk->fixture->path);
	assert_int_equal(start(desk, desk->fixture->path, NULL), 0);
	fixture_run(desk->fixture, is_done, desk);
	assert_int_equal(desk->dones, 1);
}

static void test_refused_in_the_kubelets_words(void **state)
{
	struct desk *desk = *state;
	desk->how = REFUSE;
	serve(desk, desk->fixture->path);
	assert_int_equal(start(desk, desk->fixture->path, NULL), 0);
	fixture_run(desk->fixture, is_done, desk);
	assert_true(desk->failed);
	assert_int_equal(desk->why.code, -EREMOTEIO);
	assert_string_equal(desk->why.text, "the ResourceName \"bad\" is invalid");
}

static bool is_held(void *context)
{
	const struct desk *desk = context;
	return desk->held != NULL;
}

static void test_a_kubelet_that_does_not_answer(void **state)
{
	struct desk *desk = *state;
	desk->how = HOLD;
	serve(desk, desk->fixture->path);
	assert_int_equal(start(desk, desk->fixture->path, NULL), 0);
	fixture_run(desk->fixture, is_held, desk);
	fixture_advance(desk->fixture, REGISTRATION_DEADLINE_NS - 1);
	assert_int_equal(desk->dones, 0);
	fixture_advance(desk->fixture, 1);
	fixture_run(desk->fixture, is_done, desk);
	assert_true(desk->failed);
	assert_int_equal(desk->why.code, -ETIMEDOUT);
}

static void test_a_socket_where_nobody_speaks(void **state)
{
	struct desk *desk = *state;
	_cleanup_close_ int fd = wire_listen_unix(desk->fixture->path, 0600, NULL);
	assert_true(fd >= 0);
	assert_int_equal(start(desk, desk->fixture->path, NULL), 0);
	fixture_advance(desk->fixture, REGISTRATION_DEADLINE_NS - 1);
	assert_int_equal(desk->dones, 0);
	fixture_advance(desk->fixture, 1);
	fixture_run(desk->fixture, is_done, desk);
	assert_int_equal(desk->why.code, -ETIMEDOUT);
}

static void test_a_kubelet_that_dies_meanwhile(void **state)
{
	struct desk *desk = *state;
	desk->how = GO_AWAY;
	serve(desk, desk->fixture->path);
	assert_int_equal(start(desk, desk->fixture->path, NULL), 0);
	fixture_run(desk->fixture, is_done, desk);
	assert_true(desk->failed);
	assert_int_equal(desk->why.code, -ECONNRESET);
	assert_int_equal(desk->dones, 1);
}

static bool is_let_go(void *context)
{
	const struct desk *desk = context;
	return desk->calls > 0 && !desk->held;
}

static void test_cancel(void **state)
{
	struct desk *desk = *state;
	desk->how = HOLD;
	serve(desk, desk->fixture->path);
	assert_int_equal(start(desk, desk->fixture->path, NULL), 0);
	desk->registration = registration_cancel(desk->registration); /* before it is sent */
	assert_int_equal(start(desk, desk->fixture->path, NULL), 0);
	fixture_run(desk->fixture, is_held, desk);
	desk->registration = registration_cancel(desk->registration);
	fixture_run(desk->fixture, is_let_go, desk);
	fixture_advance(desk->fixture, 2 * REGISTRATION_DEADLINE_NS);
	assert_int_equal(desk->dones, 0);
	assert_null(registration_cancel(NULL));
}

static void refused_at_once(struct desk *desk, const char *path, int code, const char *text)
{
	struct err err = {0};
	int rc = start(desk, path, &err);
	if (rc < 0 && rc != code)
		fail_msg("%s", err.text);
	assert_int_equal(rc, code);
	assert_int_equal(err.code, code);
	assert_non_null(strstr(err.text, path));
	assert_non_null(strstr(err.text, text));
	for (int i = 0; i < 5; i++)
		assert_int_equal(loop_pass(desk->fixture->loop, 0, NULL), 0);
	assert_int_equal(desk->dones, 0);
}

static void test_what_is_no_kubelet(void **state)
{
	struct desk *desk = *state;
	const char *directory = desk->fixture->directory;
	const char *path = unit_path(directory, "kubelet.sock");
	refused_at_once(desk, path, -ENOENT, "cannot connect to");
	assert_int_equal(mkdir(path, 0700), 0);
	refused_at_once(desk, path, -ENOTSOCK, "is a directory and no socket");
	assert_int_equal(rmdir(path), 0);
	unit_write(path, "");
	refused_at_once(desk, path, -ENOTSOCK, "is a file and no socket");
	assert_int_equal(unlink(path), 0);
	int fd = wire_listen_unix(path, 0600, NULL);
	assert_true(fd >= 0);
	(void)close(fd);
	refused_at_once(desk, path, -ECONNREFUSED, "cannot connect to");
}

static void test_a_kubelet_socket_that_we_may_not_use(void **state)
{
	struct desk *desk = *state;
	_cleanup_close_ int fd = wire_listen_unix(desk->fixture->path, 0600, NULL);
	assert_true(fd >= 0);
	if (geteuid() == 0) {
		/* Root may everything; its effective user is what connect(2) looks at. */
		assert_int_equal(chmod(desk->fixture->directory, 0755), 0);
		assert_int_equal(seteuid(65534), 0);
	} else {
		assert_int_equal(chmod(desk->fixture->path, 0), 0);
	}
	struct err err = {0};
	int rc = start(desk, desk->fixture->path, &err);
	if (getuid() == 0)
		assert_int_equal(seteuid(0), 0);
	assert_int_equal(rc, -EACCES);
	assert_non_null(strstr(err.text, desk->fixture->path));
}

static void test_a_path_longer_than_an_address(void **state)
{
	struct desk *desk = *state;
	char path[400];
	int length = snprintf(path, sizeof(path), "%s/%0150d", desk->fixture->directory, 0);
	assert_int_equal(mkdir(path, 0700), 0);
	(void)snprintf(path + length, sizeof(path) - (size_t)length, "/kubelet.sock");
	serve(desk, path);
	assert_int_equal(start(desk, path, NULL), 0);
	fixture_run(desk->fixture, is_done, desk);
	assert_false(desk->failed);
}

#define desk_test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    desk_test(test_what_is_said),
	    desk_test(test_cancelled_in_done),
	    desk_test(test_refused_in_the_kubelets_words),
	    desk_test(test_a_kubelet_that_does_not_answer),
	    desk_test(test_a_socket_where_nobody_speaks),
	    desk_test(test_a_kubelet_that_dies_meanwhile),
	    desk_test(test_cancel),
	    desk_test(test_what_is_no_kubelet),
	    desk_test(test_a_kubelet_socket_that_we_may_not_use),
	    desk_test(test_a_path_longer_than_an_address),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
