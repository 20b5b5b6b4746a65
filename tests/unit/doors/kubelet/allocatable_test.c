/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/kubelet/allocatable.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/loop.h"
#include "podresources.pb-c.h"
#include "tests/unit/unit.h"
#include "wire/listen.h"
#include "wire/server.h"

#define DEADLINE_NS (20 * CLOCK_NS_PER_S)

static void answer(struct wire_call *call, const ProtobufCMessage *request, void *context)
{
	char gpu[] = "nvidia.com/gpu", mig[] = "nvidia.com/mig-1g.5gb";
	char a[] = "GPU-a::0", b[] = "GPU-a::1", c[] = "MIG-c";
	char *gpus[] = {a, b}, *migs[] = {c};
	V1__ContainerDevices devices[2] = {V1__CONTAINER_DEVICES__INIT,
					   V1__CONTAINER_DEVICES__INIT};
	V1__ContainerDevices *list[] = {&devices[0], &devices[1]};
	V1__AllocatableResourcesResponse reply = V1__ALLOCATABLE_RESOURCES_RESPONSE__INIT;
	(void)request;
	(void)context;
	devices[0].resource_name = gpu;
	devices[0].device_ids = gpus;
	devices[0].n_device_ids = 2;
	devices[1].resource_name = mig;
	devices[1].device_ids = migs;
	devices[1].n_device_ids = 1;
	reply.devices = list;
	reply.n_devices = 2;
	(void)wire_call_reply(call, &reply.base, NULL);
}

static const struct wire_method methods[] = {
    {.path = "/v1.PodResourcesLister/GetAllocatableResources",
     .request = &v1__allocatable_resources_request__descriptor,
     .reply = &v1__allocatable_resources_response__descriptor,
     .handle = answer},
    {.path = NULL},
};

/* A kubelet in a process of its own, listening before this returns. */
static pid_t serve(const char *path, const struct wire_method *served)
{
	int fd = wire_listen_unix(path, 0600, NULL);
	assert_true(fd >= 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid > 0) {
		(void)close(fd);
		return pid;
	}
	const struct wire_server_options options = {.methods = served};
	struct loop *loop = loop_new(LOOP_REAL, NULL);
	struct wire_server *server = loop ? wire_server_new(loop, &options, NULL) : NULL;
	if (server && wire_server_add_listener(server, fd, NULL) == 0)
		(void)loop_run(loop, NULL);
	_exit(1);
}

static void stop(pid_t pid)
{
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void take(const char *resource, const char *unit, void *context)
{
	char *text = context;
	size_t length = strlen(text);
	(void)snprintf(text + length, 256 - length, "%s %s;", resource, unit);
}

static void each_device(void **state)
{
	(void)state;
	char text[256] = "";
	const char *path = unit_path(unit_top, "kubelet.sock");
	pid_t pid = serve(path, methods);
	assert_int_equal(allocatable_ask(path, DEADLINE_NS, take, text, NULL), 0);
	assert_string_equal(text, "nvidia.com/gpu GPU-a::0;nvidia.com/gpu GPU-a::1;"
				  "nvidia.com/mig-1g.5gb MIG-c;");
	stop(pid);
}

/* A kubelet before 1.23 does not know the question. */
static void an_old_kubelet(void **state)
{
	(void)state;
	static const struct wire_method none[] = {{.path = NULL}};
	char text[256] = "";
	struct err err = {.code = 0};
	const char *path = unit_path(unit_top, "kubelet.sock");
	pid_t pid = serve(path, none);
	assert_int_equal(allocatable_ask(path, DEADLINE_NS, take, text, &err), -EREMOTEIO);
	assert_string_equal(text, "");
	assert_true(err.text[0] != '\0');
	stop(pid);
}

static void nobody(void **state)
{
	(void)state;
	char text[256] = "";
	const char *path = unit_path(unit_top, "kubelet.sock");
	assert_int_equal(allocatable_ask(path, DEADLINE_NS, take, text, NULL), -ENOENT);
	int fd = wire_listen_unix(path, 0600, NULL);
	assert_true(fd >= 0);
	assert_int_equal(allocatable_ask(path, CLOCK_NS_PER_MS, take, text, NULL), -ETIMEDOUT);
	(void)close(fd);
	assert_int_equal(allocatable_ask(path, DEADLINE_NS, take, text, NULL), -ECONNREFUSED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(each_device, unit_top_setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(an_old_kubelet, unit_top_setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(nobody, unit_top_setup, unit_top_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
