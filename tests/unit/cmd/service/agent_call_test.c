/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/service/agent_call.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/loop.h"
#include "unit/cmd/fake_agent.h"
#include "unit/unit.h"

static void test_statuses(void **state)
{
	static const int codes[] = {0, 1, 1, 64, 124, 64, 65, 77, 75, 78, 73, 64, 69, 1, 69, 1, 77};
	for (int status = 0; status <= WIRE_UNAUTHENTICATED; status++)
		assert_int_equal(agent_call_exit_of_status((enum wire_status)status),
				 codes[status]);
	assert_int_equal(agent_call_exit_of_status((enum wire_status)99), 1);
	const struct agent_call agent = {.result = {.status = WIRE_FAILED_PRECONDITION}};
	assert_int_equal(agent_call_exit_code(&agent, -EREMOTEIO), 78);
	assert_int_equal(agent_call_exit_code(&agent, -ECONNREFUSED), 69);
	assert_int_equal(agent_call_exit_code(&agent, -ECONNRESET), 69);
	assert_int_equal(agent_call_exit_code(&agent, -EACCES), 77);
	assert_int_equal(agent_call_exit_code(&agent, -EROFS), 73);
	assert_int_equal(agent_call_exit_code(&agent, -ETIMEDOUT), 124);
	assert_int_equal(agent_call_exit_code(&agent, -ENOMEM), 1);
}

static void test_methods(void **state)
{
	for (int method = AGENT_SUBMIT; method <= AGENT_RELOAD; method++) {
		const struct wire_method *row = agent_call_method((enum agent_call_method)method);
		assert_memory_equal(row->path, "/sluice.v1.", 11);
		assert_non_null(row->request);
		assert_non_null(row->reply);
	}
	assert_true(agent_call_method(AGENT_LIST)->server_streams);
	assert_string_equal(agent_call_method(AGENT_WATCH_JOB)->path, "/sluice.v1.Queue/Watch");
	assert_string_equal(agent_call_method(AGENT_WATCH_MACHINE)->path, "/sluice.v1.Node/Watch");
}

static void test_nobody_there(void **state)
{
	char *directory = unit_tmp_new();
	struct err err = {0};
	struct agent_call agent;
	const struct agent_call_options options = {.socket = unit_path(directory, "socket")};
	assert_int_equal(agent_call_open(&agent, &options, &err), -ECONNREFUSED);
	assert_non_null(strstr(err.text, "no agent answers at '"));
	assert_non_null(strstr(err.text, options.socket));
	assert_non_null(strstr(err.text, "start one with 'sluice agent'"));
	assert_int_equal(agent_call_exit_code(&agent, -ECONNREFUSED), 69);
	agent_call_close(&agent);
	unit_tmp_free(directory);
}

static void test_a_name_that_no_socket_can_have(void **state)
{
	(void)state;
	char path[300];
	memset(path, 'x', sizeof(path));
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	struct err err = {0};
	struct agent_call agent;
	const struct agent_call_options options = {.socket = path};
	int rc = agent_call_open(&agent, &options, &err);
	assert_int_equal(agent_call_exit_code(&agent, rc), 64);
	assert_non_null(strstr(err.text, "longer than 107 bytes"));
	assert_null(strstr(err.text, "SLUICE_RUNTIME_DIR")); /* which would not help */
	agent_call_close(&agent);
}

struct seen {
	unsigned count;
	bool enough;
};

static bool each(const ProtobufCMessage *reply, void *context)
{
	struct seen *seen = context;
	seen->count += ((const Sluice__V1__LogChunk *)reply)->data.len > 0;
	return !seen->enough;
}

static void test_asking(void **state)
{
	char *directory = unit_tmp_new();
	struct fake_agent fake;
	struct err err = {0};
	struct agent_call agent = {.loop = loop_new(LOOP_REAL, NULL)};
	assert_non_null(agent.loop);
	fake_agent_start(&fake, agent.loop, directory);
	const struct agent_call_options options = {.socket = fake.path};
	assert_int_equal(agent_call_reopen(&agent, &options, &err), 0);

	Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
	ProtobufCMessage *reply = NULL;
	assert_int_equal(agent_call_ask(&agent, AGENT_GET, &request.base, &reply, &err), 0);
	assert_int_equal(((Sluice__V1__Job *)reply)->id, 17);
	agent_call_free(reply);
	assert_int_equal(agent_call_ask(&agent, AGENT_GET, &request.base, NULL, &err), 0);

	fake.refuse = WIRE_NOT_FOUND;
	reply = NULL;
	assert_int_equal(agent_call_ask(&agent, AGENT_GET, &request.base, &reply, &err),
			 -EREMOTEIO);
	assert_null(reply);
	assert_non_null(strstr(err.text, "not today"));
	assert_int_equal(agent_call_exit_code(&agent, -EREMOTEIO), 64);

	/* a stream to its end, one that is left early, one that is refused */
	struct seen seen = {0};
	Sluice__V1__LogsRequest logs = SLUICE__V1__LOGS_REQUEST__INIT;
	fake.refuse = WIRE_OK;
	fake.log = "abc";
	assert_int_equal(agent_call_follow(&agent, AGENT_LOGS, &logs.base, AGENT_CALL_DEADLINE_NS,
					   each, &seen, &err),
			 0);
	assert_int_equal(seen.count, 3);
	seen = (struct seen){.enough = true};
	assert_int_equal(agent_call_follow(&agent, AGENT_LOGS, &logs.base, AGENT_CALL_DEADLINE_NS,
					   each, &seen, &err),
			 0);
	assert_int_equal(seen.count, 1);
	fake.refuse = WIRE_PERMISSION_DENIED;
	assert_int_equal(agent_call_follow(&agent, AGENT_LOGS, &logs.base, AGENT_CALL_DEADLINE_NS,
					   each, &seen, &err),
			 -EREMOTEIO);
	assert_string_equal(err.text, "not today");
	assert_int_equal(agent_call_exit_code(&agent, -EREMOTEIO), 77);

	fake_agent_stop(&fake);
	int rc = agent_call_ask(&agent, AGENT_GET, &request.base, NULL, &err);
	assert_int_equal(agent_call_exit_code(&agent, rc), 69);
	fake_agent_again(&fake);
	fake.refuse = WIRE_OK;
	assert_int_equal(agent_call_reopen(&agent, &options, &err), 0);
	assert_int_equal(agent_call_ask(&agent, AGENT_GET, &request.base, NULL, &err), 0);
	agent.client = wire_client_free(agent.client);
	fake_agent_stop(&fake);
	agent_call_close(&agent);
	unit_tmp_free(directory);
}

/* One that was there may be coming back: another is not started beside it at once. */
static void test_patience(void **state)
{
	char *directory = unit_tmp_new(), state_dir[128];
	struct fake_agent fake;
	struct err err = {0};
	struct agent_call agent = {.loop = loop_new(LOOP_REAL, NULL)};
	assert_non_null(agent.loop);
	(void)snprintf(state_dir, sizeof(state_dir), "%s/state", directory);
	assert_int_equal(setenv("SLUICE_RUNTIME_DIR", directory, 1), 0);
	assert_int_equal(setenv("SLUICE_STATE_DIR", state_dir, 1), 0);
	fake_agent_start(&fake, agent.loop, directory);
	const struct agent_call_options options = {.socket = fake.path, .may_start = true};
	assert_int_equal(agent_call_reopen(&agent, &options, &err), 0);
	fake_agent_stop(&fake);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(agent_call_reopen(&agent, &options, &err), -ECONNREFUSED);
		assert_non_null(strstr(err.text, "no agent answers at '"));
	}
	agent.lost_ns -= AGENT_CALL_START_AFTER_NS;
	assert_int_equal(agent_call_reopen(&agent, &options, &err), -ECONNREFUSED);
	assert_non_null(strstr(err.text, "the agent that was started ended at once"));

	/* who never had one does not wait */
	agent.was_connected = false;
	assert_int_equal(agent_call_reopen(&agent, &options, &err), -ECONNREFUSED);
	assert_non_null(strstr(err.text, "the agent that was started ended at once"));
	agent_call_close(&agent);
	unit_tmp_free(directory);
}

/* What agent_start() runs is this program: as an agent it ends at once. */
int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "agent") == 0)
		return 1;
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_statuses),
	    cmocka_unit_test(test_methods),
	    cmocka_unit_test(test_nobody_there),
	    cmocka_unit_test(test_asking),
	    cmocka_unit_test(test_patience),
	    cmocka_unit_test(test_a_name_that_no_socket_can_have),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
