/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/web/door_web.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/web/door_web_listen.h"
#include "agent/node.h"
#include "agent/reload.h"
#include "agent/vitals.h"
#include "base/child.h"
#include "base/err.h"
#include "base/loop.h"
#include "base/storage.h"
#include "policy/config.h"
#include "unit/unit.h"
#include "web/handed.h"
#include "web/view.h"

/* --- instead of node, verdicts and configuration: --wrap ----------------------------------------
 */

static struct config *config;
static struct reload_state state_of_reload;
static struct snapshot *snapshot;
static uint64_t generation;

const struct config *__wrap_node_config(const struct node *node);
uint64_t __wrap_node_generation(const struct node *node);
const struct inventory *__wrap_node_inventory(const struct node *node);
const struct snapshot *__wrap_node_snapshot(const struct node *node);
const struct policy *__wrap_node_policy(const struct node *node);
const char *__wrap_node_problem(const struct node *node);
bool __wrap_node_has_kubelet(const struct node *node);
pid_t __wrap_node_probe_pid(const struct node *node);
const struct reload_state *__wrap_reload_state(const struct reload *reload);
bool __wrap_vitals_at(const struct vitals *vitals, size_t place, struct vitals_view *out);

const struct config *__wrap_node_config(const struct node *node)
{
	return config;
}

uint64_t __wrap_node_generation(const struct node *node)
{
	return generation;
}

const struct inventory *__wrap_node_inventory(const struct node *node)
{
	return NULL;
}

const struct snapshot *__wrap_node_snapshot(const struct node *node)
{
	return snapshot;
}

const struct policy *__wrap_node_policy(const struct node *node)
{
	return NULL;
}

const char *__wrap_node_problem(const struct node *node)
{
	return "";
}

bool __wrap_node_has_kubelet(const struct node *node)
{
	return false;
}

pid_t __wrap_node_probe_pid(const struct node *node)
{
	return -1;
}

const struct reload_state *__wrap_reload_state(const struct reload *reload)
{
	return &state_of_reload;
}

bool __wrap_vitals_at(const struct vitals *vitals, size_t place, struct vitals_view *out)
{
	return false;
}

/* --- the web process is this program -----------------------------------------------------------
 */

/* Accepts one connection after the other and sends the view as it is then. */
static int fake_main(void)
{
	struct view_shared *shared =
	    mmap(NULL, sizeof(*shared), PROT_READ, MAP_SHARED, HANDED_VIEW, 0);
	struct view *view = calloc(1, sizeof(*view));
	uint64_t sequence;
	if (shared == MAP_FAILED || !view)
		return 3;
	for (;;) {
		struct pollfd life = {.fd = HANDED_LIFE, .events = POLLIN};
		if (poll(&life, 1, 0) > 0)
			return 0;
		int fd = accept(HANDED_LISTEN, NULL, NULL);
		if (fd < 0) {
			struct pollfd both[] = {life, {.fd = HANDED_LISTEN, .events = POLLIN}};
			(void)poll(both, 2, 100);
			continue;
		}
		bool is_good = view_copy(shared, view, &sequence);
		view->reserved = (uint32_t)(sequence / 2); /* how often it was written */
		if (!is_good || send(fd, view, sizeof(*view), MSG_NOSIGNAL) < 0)
			return 4;
		(void)close(fd);
	}
}

/* --- the tests ---------------------------------------------------------------------------------
 */

static struct loop *loop;
static struct storage *storage;
static struct child_set *children;
static struct door_web *door;
static char program[4096];
static struct view *view;

static void configure(const char *yaml)
{
	struct err err = {0};
	struct config *parsed = NULL;
	if (config_parse(yaml, strlen(yaml), "c", NULL, false, &parsed, &err) < 0)
		fail_msg("%s", err.text);
	(void)config_free(config);
	config = parsed;
	generation++;
}

static void open_door(const char *yaml)
{
	configure(yaml);
	const struct door_web_options options = {.loop = loop,
						 .storage = storage,
						 .children = children,
						 .node_name = "node-7",
						 .program = program};
	assert_int_equal(door_web_new(&options, &door, NULL), 0);
}

static int setup(void **state)
{
	int rc = unit_top_setup(state);
	ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
	assert_true(length > 0);
	program[length] = '\0';
	view = calloc(1, sizeof(*view));
	snapshot = calloc(1, sizeof(*snapshot));
	assert_true(view && snapshot);
	snapshot->magic = SNAPSHOT_MAGIC;
	snapshot->version = SNAPSHOT_VERSION;
	snapshot->size = snapshot_length(0);
	loop = loop_new(LOOP_REAL, NULL);
	children = child_set_new(loop, CHILD_WATCH_AUTO, NULL);
	storage = storage_new(loop, 64, NULL);
	return rc;
}

static int teardown(void **state)
{
	door_web_stop(door);
	storage = storage_close(storage);
	door = door_web_free(door);
	children = child_set_free(children);
	loop = loop_free(loop);
	config = config_free(config);
	free(view);
	free(snapshot);
	return unit_top_teardown(state);
}

static void until(bool (*is_so)(void))
{
	uint64_t end = unit_now_ns() + UINT64_C(20000000000);
	while (!is_so()) {
		assert_true(unit_now_ns() < end);
		assert_int_equal(loop_pass(loop, 10000000, NULL), 0);
	}
}

/* What the web process sees. */
static bool fetch(void)
{
	struct address address;
	size_t got = 0;
	ssize_t length = 0;
	const char *text = door_web_address(door);
	if (address_parse(text, strlen(text), &address, NULL) < 0)
		return false;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const struct timeval patience = {.tv_sec = 5};
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (connect(fd, &address.any, address.length) == 0) {
		while (got < sizeof(*view) &&
		       (length = recv(fd, (char *)view + got, sizeof(*view) - got, 0)) > 0)
			got += (size_t)length;
	}
	(void)close(fd);
	return got == sizeof(*view);
}

static void test_what_web_sees(void **state)
{
	open_door("sluice: {web: {address: '127.0.0.1:0', hosts: [gpu1, gpu1.example]}, "
		  "metrics: {set: native, dcgm: 'new', dcgmShared: split, "
		  "containerEnergy: true}}");
	assert_true(door_web_pid(door) > 0);
	assert_string_equal(door_web_problem(door), "");
	snapshot->taken_ns = 1000;
	door_web_update(door);
	assert_true(fetch());
	assert_string_equal(view->node.host, "node-7");
	assert_true(view->node.started_unix_ns > 0 && view->node.boot_unix_s > 0);
	assert_true(view->node.rss_bytes > 0 && view->node.open_fds > 3);
	assert_int_equal(view->settings.set, VIEW_SET_NATIVE);
	assert_int_equal(view->settings.dcgm, VIEW_DCGM_NEW);
	assert_true(view->settings.dcgm_split && view->settings.container_energy);
	assert_int_equal(view->settings.host_count, 2);
	assert_string_equal(view->settings.host[1], "gpu1.example");
	assert_false(view->settings.has_token);
	assert_int_equal(view->node.sample_ns, 0);
}

static pid_t first;
static uint64_t known;

static bool is_back(void)
{
	return door_web_pid(door) > 0 && door_web_pid(door) != first;
}

static void test_it_comes_back_on_the_same_port(void **state)
{
	char address[ADDRESS_TEXT_MAX];
	open_door("sluice: {web: {address: '127.0.0.1:0'}}");
	(void)snprintf(address, sizeof(address), "%s", door_web_address(door));
	first = door_web_pid(door);
	assert_int_equal(kill(first, SIGKILL), 0);
	until(is_back);
	assert_string_equal(door_web_address(door), address);
	assert_int_equal(door_web_restarts(door), 1);
	assert_non_null(strstr(door_web_problem(door), "SIGKILL"));
	assert_true(fetch());
}

static bool has_token(void)
{
	return fetch() && view->settings.has_token && !view->settings.token_broken;
}

static bool is_broken(void)
{
	return fetch() && view->settings.has_token && view->settings.token_broken;
}

static void test_settings_change_and_the_process_stays(void **state)
{
	char yaml[512];
	open_door("sluice: {web: {address: '127.0.0.1:0'}}");
	first = door_web_pid(door);
	unit_write(unit_path(unit_top, "token"), "a-good-token");
	(void)snprintf(yaml, sizeof(yaml),
		       "sluice: {web: {address: '127.0.0.1:0', tokenFile: '%s'}}",
		       unit_path(unit_top, "token"));
	configure(yaml);
	door_web_update(door);
	assert_true(door_web_wants_token(door));
	until(has_token);
	assert_string_equal(view->settings.token, "a-good-token");
	assert_int_equal(door_web_pid(door), first);
	assert_int_equal(unlink(unit_path(unit_top, "token")), 0);
	until(is_broken);
	assert_string_equal(view->settings.token, ""); /* nothing of the old one is left */
	assert_non_null(strstr(door_web_problem(door), unit_path(unit_top, "token")));
	assert_int_equal(door_web_pid(door), first);
}

static bool is_off(void)
{
	return door_web_pid(door) < 0;
}

static void test_off_and_on_again(void **state)
{
	open_door("sluice: {web: {address: off}}");
	assert_string_equal(door_web_address(door), "off");
	assert_int_equal(door_web_pid(door), -1);
	door_web_update(door);
	door_web_jobs(door);
	configure("sluice: {web: {address: '127.0.0.1:0'}}");
	door_web_update(door);
	first = -1;
	until(is_back);
	assert_true(fetch());
	uint64_t started_ns = view->node.started_ns;
	int64_t started_unix_ns = view->node.started_unix_ns;
	configure("sluice: {web: {address: off}}");
	door_web_update(door);
	until(is_off);
	assert_string_equal(door_web_problem(door), "");
	configure("sluice: {web: {address: '127.0.0.1:0'}}");
	door_web_update(door);
	until(is_back);
	assert_true(fetch());
	/* It is the same agent, and nothing has ended that was not to. */
	assert_int_equal(view->node.started_ns, started_ns);
	assert_int_equal(view->node.started_unix_ns, started_unix_ns);
	assert_int_equal(door_web_restarts(door), 0);
}

/* What the process sees first says already who may come in, however short ago a view was written.
 */
static void test_a_token_is_wanted_from_the_beginning(void **state)
{
	open_door("sluice: {web: {address: '127.0.0.1:0', tokenFile: /nowhere}}");
	assert_true(door_web_view(door)->settings.has_token);
	configure("sluice: {web: {address: off, tokenFile: /nowhere}}");
	door_web_update(door);
	assert_null(door_web_view(door));
	configure("sluice: {web: {address: '127.0.0.1:0', tokenFile: /nowhere}}");
	door_web_update(door);
	assert_true(door_web_view(door)->settings.has_token);
}

static void test_a_port_that_is_taken(void **state)
{
	struct address address;
	char name[ADDRESS_TEXT_MAX], yaml[256];
	assert_int_equal(address_parse("127.0.0.1:0", 11, &address, NULL), 0);
	int fd = web_listen(&address, NULL);
	web_listen_name(fd, name);
	(void)snprintf(yaml, sizeof(yaml), "sluice: {web: {address: '%s'}}", name);
	open_door(yaml); /* no failure */
	assert_string_equal(door_web_address(door), name);
	assert_non_null(strstr(door_web_problem(door), name));
	assert_int_equal(door_web_pid(door), -1);
	(void)close(fd);
	configure("sluice: {web: {address: '127.0.0.1:0'}}");
	door_web_update(door);
	assert_string_equal(door_web_problem(door), "");
	assert_true(door_web_pid(door) > 0);
}

static bool is_newer(void)
{
	return fetch() && view->snapshot.taken_ns > known;
}

/* However often something changes: ten views a second. */
static void test_views_are_not_written_too_often(void **state)
{
	open_door("sluice: {web: {address: '127.0.0.1:0'}}");
	assert_true(fetch());
	uint64_t begin_ns = unit_now_ns(), written = view->reserved;
	for (snapshot->taken_ns = 1; snapshot->taken_ns < 1000; snapshot->taken_ns++)
		door_web_update(door);
	known = 998;
	until(is_newer); /* the last of them is not lost */
	assert_true(view->reserved - written <= (unit_now_ns() - begin_ns) / DOOR_WEB_WRITE_NS + 2);
}

static bool is_empty(void)
{
	return fetch() && view->snapshot.taken_ns == 7000;
}

/* A probe that takes the place of one that hung has no sample yet. */
static void test_the_last_sample_is_remembered(void **state)
{
	open_door("sluice: {web: {address: '127.0.0.1:0'}}");
	snapshot->gpu_count = 1;
	snapshot->taken_ns = 5000;
	snapshot->taken_unix_ns = 1000000;
	snapshot->gpu[0].sampled_ns[SNAPSHOT_FAST] = 4000;
	known = 4999;
	door_web_update(door);
	until(is_newer);
	assert_int_equal(view->node.sample_ns, 4000);
	assert_int_equal(view->node.sample_unix_ns, 999000);
	snapshot->taken_ns = 7000;
	snapshot->gpu[0].sampled_ns[SNAPSHOT_FAST] = 0;
	door_web_update(door);
	until(is_empty);
	assert_int_equal(view->node.sample_ns, 4000);
	assert_int_equal(view->node.sample_unix_ns, 999000);
}

/* Whoever was taken over shuts the socket down and dies. */
static void test_a_socket_that_was_shut_down(void **state)
{
	open_door("sluice: {web: {address: '127.0.0.1:0'}}");
	first = door_web_pid(door);
	bool found = false;
	for (int fd = 3; fd < 64 && !found; fd++) {
		if (!web_listen_is_well(fd))
			continue;
		assert_int_equal(shutdown(fd, SHUT_RDWR), 0);
		found = true;
	}
	assert_true(found);
	assert_int_equal(kill(first, SIGKILL), 0);
	until(is_back);
	assert_true(fetch());
}

static void test_none(void **state)
{
	door_web_update(NULL);
	door_web_jobs(NULL);
	door_web_set_queue(NULL, NULL);
	door_web_stop(NULL);
	assert_null(door_web_free(NULL));
	assert_string_equal(door_web_address(NULL), "");
	assert_string_equal(door_web_problem(NULL), "");
	assert_int_equal(door_web_pid(NULL), -1);
	assert_int_equal(door_web_restarts(NULL), 0);
	assert_false(door_web_wants_token(NULL));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_what_web_sees, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_it_comes_back_on_the_same_port, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_settings_change_and_the_process_stays, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(test_off_and_on_again, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_a_token_is_wanted_from_the_beginning, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(test_a_port_that_is_taken, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_views_are_not_written_too_often, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_the_last_sample_is_remembered, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_a_socket_that_was_shut_down, setup, teardown),
	    cmocka_unit_test(test_none),
	};
	if (argc > 0 && strcmp(argv[0], "sluice-web") == 0)
		return fake_main();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
