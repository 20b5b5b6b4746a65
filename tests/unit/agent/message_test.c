/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/message.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/vitals.h"
#include "base/check.h"
#include "base/err.h"
#include "doors/queue/queue.h"
#include "doors/queue/schedule/schedule.h"
#include "job/spec.h"
#include "hardware/gpu.h"
#include "hardware/snapshot.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"
#include "wire/arena.h"

enum { OWNER = 1000, OTHER = 1001, ARENA = 1 << 20 };

static char reason_text[] = "have 1, need 2; GPU 3: job 12 of \xff";

static const struct job running = {
    .id = 17,
    .name = "train",
    .uid = OWNER,
    .state = JOB_RUNNING,
    .reason = JOB_REASON_WAITING_FOR_GPU,
    .reason_text = reason_text,
    .gpus = 2,
    .share_numerator = 1,
    .share_denominator = 4,
    .simulated = true,
    .attempt = 3,
    .submitted_unix_ns = 100,
    .started_unix_ns = 200,
    .killed_leftovers = 5,
};
static const struct launch_grant grants[] = {
    {.uuid = "GPU-a", .label = "GPU 0", .index = 0, .slot_count = 4, .slots = {0x5}},
    {.uuid = "GPU-b", .label = "GPU 1", .index = 1, .slot_count = 70, .slots = {0, 0x3}},
};
static const struct queue_observation observed[] = {
    {.pid = 4711, .uuid = "GPU-a", .first_unix_ns = 300, .last_unix_ns = 400},
};
static const struct queue_attempt attempt = {
    .grants = grants,
    .grant_count = 2,
    .pid = 4711,
    .supervisor_pid = 4710,
    .isolation = "env",
    .isolation_reason = "not built",
    .cgroup = "/sys/fs/cgroup/x",
    .port = 8888,
    .observed = observed,
    .observed_count = 1,
};

static int make(uid_t viewer, bool is_admin, bool details, struct arena *arena,
		Sluice__V1__Job *out)
{
	const struct message_view view = {
	    .viewer = viewer, .is_admin = is_admin, .details = details, .state_dir = "/s"};
	struct err err = {0};
	return message_from_job(&view, &running, "alice", &attempt, arena, out, &err);
}

static void expect_what_everybody_sees(const Sluice__V1__Job *job)
{
	assert_int_equal(job->id, 17);
	assert_int_equal(job->uid, OWNER);
	assert_string_equal(job->user, "alice");
	assert_int_equal(job->state, SLUICE__V1__JOB_STATE__RUNNING);
	assert_string_equal(job->reason, "WaitingForGPU");
	assert_non_null(strstr(job->reason_text, "need 2"));
	assert_null(strchr(job->reason_text, '\xff')); /* no UTF-8: no client could read it */
	assert_int_equal(job->gpus, 2);
	assert_int_equal(job->share_denominator, 4);
	assert_true(job->simulated);
	assert_int_equal(job->attempt->number, 3);
	assert_int_equal(job->attempt->started_unix_ns, 200);
	assert_string_equal(job->attempt->isolation, "env");
	assert_int_equal(job->attempt->n_grants, 2);
	assert_int_equal(job->attempt->grants[0]->n_slots, 2);
	assert_int_equal(job->attempt->grants[0]->slots[1], 2);
	assert_int_equal(job->attempt->grants[1]->slots[0], 64);
	assert_int_equal(job->attempt->grants[1]->slots[1], 65);
}

static void test_the_owner_sees_all(void **state)
{
	_cleanup_arena_ struct arena arena;
	Sluice__V1__Job job;
	arena_init(&arena, ARENA);
	assert_int_equal(make(OWNER, false, true, &arena, &job), 0);
	expect_what_everybody_sees(&job);
	assert_string_equal(job.name, "train");
	assert_int_equal(job.attempt->pid, 4711);
	assert_int_equal(job.attempt->supervisor_pid, 4710);
	assert_string_equal(job.attempt->stdout_path, "/s/j/17/out.3");
	assert_string_equal(job.attempt->stderr_path, "/s/j/17/err.3");
	assert_string_equal(job.attempt->cgroup, "/sys/fs/cgroup/x");
	assert_int_equal(job.attempt->n_observed, 1);
	assert_int_equal(job.attempt->observed[0]->pid, 4711);
}

static void test_details_are_for_those_who_ask(void **state)
{
	_cleanup_arena_ struct arena arena;
	Sluice__V1__Job job;
	arena_init(&arena, ARENA);
	assert_int_equal(make(OWNER, false, false, &arena, &job), 0);
	expect_what_everybody_sees(&job);
	assert_string_equal(job.name, "train");
	assert_int_equal(job.attempt->pid, 0);
	assert_string_equal(job.attempt->stdout_path, "");
	assert_int_equal(job.attempt->n_observed, 0);
}

static void test_others_see_little(void **state)
{
	_cleanup_arena_ struct arena arena;
	Sluice__V1__Job job;
	arena_init(&arena, ARENA);
	assert_int_equal(make(OTHER, false, true, &arena, &job), 0);
	expect_what_everybody_sees(&job);
	assert_string_equal(job.name, "");
	assert_int_equal(job.attempt->pid, 0);
	assert_int_equal(job.attempt->supervisor_pid, 0);
	assert_string_equal(job.attempt->stdout_path, "");
	assert_string_equal(job.attempt->cgroup, "");
	assert_int_equal(job.attempt->n_observed, 0);
	assert_int_equal(make(OTHER, true, true, &arena, &job), 0);
	assert_string_equal(job.name, "train");
	assert_int_equal(job.attempt->pid, 4711);
}

/* What is behind a reason may name command and directory. */
static void test_why_is_the_owners_in_every_state(void **state)
{
	_cleanup_arena_ struct arena arena;
	Sluice__V1__Job job;
	struct err err = {0};
	for (int i = JOB_PENDING; i <= JOB_CANCELLED; i++) {
		struct job asked = running;
		asked.state = (enum job_state)i;
		asked.reason_text = (char *)"failed 1 of 3 times, the last: LaunchError";
		asked.reason_detail = (char *)"executing '/bin/secret'";
		for (uid_t viewer = OWNER; viewer <= OTHER; viewer++) {
			const struct message_view view = {
			    .viewer = viewer, .details = true, .state_dir = "/s"};
			arena_init(&arena, ARENA);
			assert_int_equal(
			    message_from_job(&view, &asked, "alice", &attempt, &arena, &job, &err),
			    0);
			assert_non_null(strstr(job.reason_text, "LaunchError"));
			assert_int_equal(strstr(job.reason_text, "secret") != NULL,
					 viewer == OWNER);
			assert_int_equal(job.attempt->isolation_reason[0] != '\0', viewer == OWNER);
			assert_int_equal(job.attempt->port, viewer == OWNER ? 8888 : 0);
			arena_done(&arena);
		}
		asked.reason_text = NULL;
		const struct message_view view = {
		    .viewer = OTHER, .is_admin = true, .details = true, .state_dir = "/s"};
		arena_init(&arena, ARENA);
		assert_int_equal(
		    message_from_job(&view, &asked, "alice", &attempt, &arena, &job, &err), 0);
		assert_string_equal(job.reason_text, "executing '/bin/secret'");
		arena_done(&arena);
	}
	arena_init(&arena, ARENA);
}

static void test_a_job_that_was_never_started(void **state)
{
	_cleanup_arena_ struct arena arena;
	const struct message_view view = {.viewer = OWNER, .details = true, .state_dir = "/s"};
	const struct job pending = {.id = 1, .uid = OWNER};
	Sluice__V1__Job job;
	struct err err = {0};
	arena_init(&arena, ARENA);
	assert_int_equal(message_from_job(&view, &pending, "alice", NULL, &arena, &job, &err), 0);
	assert_int_equal(job.state, SLUICE__V1__JOB_STATE__PENDING);
	assert_null(job.attempt);
	assert_string_equal(job.reason_text, "");
}

static void test_states_both_ways(void **state)
{
	enum job_state back;
	for (int i = JOB_PENDING; i <= JOB_CANCELLED; i++) {
		assert_int_equal(message_to_state(message_from_state((enum job_state)i), &back), 0);
		assert_int_equal(back, i);
	}
	assert_int_equal(message_to_state(SLUICE__V1__JOB_STATE__JOB_STATE_UNKNOWN, &back),
			 -EINVAL);
	assert_int_equal(message_to_state((Sluice__V1__JobState)99, &back), -EINVAL);
}

static int with_little_memory(void *context)
{
	_cleanup_arena_ struct arena arena;
	Sluice__V1__Job job;
	arena_init(&arena, ARENA);
	return make(OWNER, false, true, &arena, &job);
}

static void test_no_memory_for_a_job(void **state)
{
	_cleanup_arena_ struct arena arena;
	Sluice__V1__Job job;
	(void)failmalloc_each(with_little_memory, NULL);
	arena_init(&arena, 64);
	assert_int_equal(make(OWNER, false, true, &arena, &job), -ENOMEM);
}

/* --- specs */

#define BYTES(text)                                                                                \
	{                                                                                          \
		.len = sizeof(text) - 1, .data = (uint8_t *)(uintptr_t)(text)                      \
	}

static const gid_t groups[] = {4, 24};
static const struct message_caller caller = {
    .uid = OWNER,
    .gid = 100,
    .groups = groups,
    .group_count = 2,
    .limits = {[3] = {3, 5, 6}, [7] = {7, 12, 15}},
};

static Sluice__V1__JobSpec spec_message(ProtobufCBinaryData *argv, size_t argc)
{
	Sluice__V1__JobSpec message = SLUICE__V1__JOB_SPEC__INIT;
	static char name[] = "train", ids[] = "0,1", directory[] = "/home/alice";
	message.name = name;
	message.gpu_ids = ids;
	message.directory = (ProtobufCBinaryData)BYTES(directory);
	message.argv = argv;
	message.n_argv = argc;
	message.umask = 022;
	message.gpus = 2;
	message.grace_ns = 5;
	message.deadline_ns = 6;
	message.ignore_outsiders = 1;
	return message;
}

static void test_a_spec_is_the_callers(void **state)
{
	ProtobufCBinaryData argv[] = {BYTES("python3"), BYTES("\xff\xfe"), BYTES("")};
	ProtobufCBinaryData environment[] = {BYTES("A=1")};
	Sluice__V1__Limit limit = SLUICE__V1__LIMIT__INIT;
	Sluice__V1__Limit *limits[] = {&limit};
	Sluice__V1__JobSpec message = spec_message(argv, 3);
	message.environment = environment;
	message.n_environment = 1;
	message.limits = limits;
	message.n_limits = 1;
	limit.resource = 7;
	limit.soft = 10;
	limit.hard = 20;
	_cleanup_spec_ struct spec spec;
	struct err err = {0};
	assert_int_equal(message_to_spec(&message, &caller, &spec, &err), 0);
	assert_int_equal(spec.uid, OWNER);
	assert_int_equal(spec.gid, 100);
	assert_int_equal(spec.group_count, 2);
	assert_int_equal(spec.groups[1], 24);
	assert_int_equal(spec.argc, 3);
	assert_string_equal(spec.argv[1], "\xff\xfe"); /* an argument may be any bytes */
	assert_string_equal(spec.argv[2], "");
	assert_null(spec.argv[3]);
	assert_string_equal(spec.environment[0], "A=1");
	assert_string_equal(spec.directory, "/home/alice");
	assert_string_equal(spec.ids, "0,1");
	assert_int_equal(spec.umask, 022);
	/* The kernel's word, which the message may lower. */
	assert_int_equal(spec.limit_count, SPEC_LIMITS_MAX);
	assert_int_equal(spec.limits[3].soft, 5);
	assert_int_equal(spec.limits[7].soft, 10);
	assert_int_equal(spec.limits[7].hard, 15);
	assert_true(spec.ignore_outsiders);
}

static void test_specs_that_are_refused(void **state)
{
	ProtobufCBinaryData argv[] = {BYTES("a\0b")};
	ProtobufCBinaryData good[] = {BYTES("true")};
	char longest[SPEC_DIRECTORY_MAX + 1];
	struct spec spec;
	struct err err = {0};
	memset(longest, 'x', sizeof(longest));
	Sluice__V1__JobSpec message = spec_message(argv, 1);
	/* Nobody says as whom he runs. */
	Sluice__V1__JobOwner owner = SLUICE__V1__JOB_OWNER__INIT;
	message.owner = &owner;
	assert_int_equal(message_to_spec(&message, &caller, &spec, &err), -EINVAL);
	assert_non_null(strstr(err.text, "must not name one"));
	message.owner = NULL;

	assert_int_equal(message_to_spec(&message, &caller, &spec, &err), -EINVAL);
	assert_non_null(strstr(err.text, "argument 0"));
	message = spec_message(good, 1);
	message.umask = 01000;
	assert_int_equal(message_to_spec(&message, &caller, &spec, &err), -EINVAL);
	message = spec_message(good, 1);
	message.directory.data = (uint8_t *)longest;
	message.directory.len = sizeof(longest);
	assert_int_equal(message_to_spec(&message, &caller, &spec, &err), -E2BIG);
	message = spec_message(good, SPEC_STRINGS_MAX + 1); /* refused before one is looked at */
	assert_int_equal(message_to_spec(&message, &caller, &spec, &err), -E2BIG);
	message = spec_message(good, 1);
	message.n_limits = SPEC_LIMITS_MAX + 1;
	assert_int_equal(message_to_spec(&message, &caller, &spec, &err), -E2BIG);
	const struct message_caller many = {.group_count = SPEC_GROUPS_MAX + 1};
	message = spec_message(good, 1);
	assert_int_equal(message_to_spec(&message, &many, &spec, &err), -E2BIG);
	assert_null(spec.argv); /* nothing is left behind */
}

static int spec_with_little_memory(void *context)
{
	ProtobufCBinaryData argv[] = {BYTES("a"), BYTES("b")};
	Sluice__V1__JobSpec message = spec_message(argv, 2);
	struct spec spec;
	int result = message_to_spec(&message, &caller, &spec, NULL);
	if (result == 0)
		spec_done(&spec);
	return result;
}

static void test_no_memory_for_a_spec(void **state)
{
	assert_true(failmalloc_each(spec_with_little_memory, NULL) >= 5);
}

/* --- GPUs */

static void test_gpus_with_their_slots(void **state)
{
	static struct snapshot snapshot = {.gpu_count = 2};
	struct schedule_device devices[] = {
	    {.unit = {.uuid = "GPU-a"}, .slot_count = 4, .used_count = 3},
	    {.unit = {.uuid = "MIG-b0"}, .slot_count = 2, .used_whole = true, .used_count = 2},
	};
	const struct schedule_machine queue = {.devices = devices, .device_count = 2};
	struct snapshot_gpu *gpu = &snapshot.gpu[0];
	(void)snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-a");
	gpu->index = 0;
	snapshot_put(gpu, SNAPSHOT_UTIL_GPU, 50);
	snapshot_put(gpu, SNAPSHOT_MEMORY_USED, 7);
	snapshot_put(gpu, SNAPSHOT_MEMORY_TOTAL, 9);
	gpu = &snapshot.gpu[1];
	(void)snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-b");
	gpu->index = 1;
	gpu->state = GPU_STATE_HUNG;
	(void)snprintf(gpu->reason, sizeof(gpu->reason), "did not come back");
	gpu->mig_count = 1;
	(void)snprintf(gpu->mig[0].uuid, sizeof(gpu->mig[0].uuid), "MIG-b0");
	(void)snprintf(gpu->mig[0].profile, sizeof(gpu->mig[0].profile), "1g.5gb");
	gpu->mig[0].memory_used = SNAPSHOT_U64_ABSENT;
	gpu->mig[0].memory_total = 5;

	_cleanup_arena_ struct arena arena;
	Sluice__V1__Gpu **out;
	size_t count;
	struct err err = {0};
	arena_init(&arena, ARENA);
	assert_int_equal(message_from_gpus(&snapshot, NULL, &queue, &arena, &out, &count, &err), 0);
	assert_int_equal(count, 3);
	assert_string_equal(out[0]->label, "GPU 0");
	assert_int_equal(out[0]->slot_count, 4);
	assert_int_equal(out[0]->slots_used, 3);
	assert_int_equal(out[0]->utilization_percent, 50);
	assert_int_equal(out[0]->memory_used_bytes, 7);
	assert_int_equal(out[0]->temperature_celsius, -1); /* not known is not 0 */
	assert_int_equal(out[0]->power_milliwatt, -1);
	assert_string_equal(out[1]->state, "hung");
	assert_int_equal(out[1]->slot_count, 0); /* not the queue's */
	assert_true(out[2]->is_mig);
	assert_string_equal(out[2]->name, "1g.5gb");
	assert_string_equal(out[2]->state, "hung");
	assert_int_equal(out[2]->slots_used, 2);
	assert_int_equal(out[2]->memory_used_bytes, 0);
}

static void test_statuses(void **state)
{
	static const struct {
		int code;
		enum wire_status status;
	} rows[] = {
	    {-EINVAL, WIRE_INVALID_ARGUMENT},
	    {-E2BIG, WIRE_INVALID_ARGUMENT},
	    {-ENOENT, WIRE_NOT_FOUND},
	    {-EEXIST, WIRE_ALREADY_EXISTS},
	    {-ERANGE, WIRE_FAILED_PRECONDITION},
	    {-EAGAIN, WIRE_RESOURCE_EXHAUSTED},
	    {-EDQUOT, WIRE_RESOURCE_EXHAUSTED},
	    {-ENOSPC, WIRE_ABORTED},
	    {-EROFS, WIRE_ABORTED},
	    {-EIO, WIRE_ABORTED},
	    {-EPERM, WIRE_PERMISSION_DENIED},
	    {-ESHUTDOWN, WIRE_UNAVAILABLE},
	};
	for (size_t i = 0; i < array_length(rows); i++)
		assert_int_equal(message_status(rows[i].code), rows[i].status);
}

static int verdict_scenario(void *context)
{
	struct vitals_view *view = context;
	_cleanup_arena_ struct arena arena;
	Sluice__V1__GpuHealth *gpu = NULL;
	arena_init(&arena, ARENA);
	int result = message_from_health(view, &arena, &gpu, NULL);
	if (result < 0)
		return result;
	assert_string_equal(gpu->uuid, "GPU-1");
	assert_string_equal(gpu->state, "unhealthy");
	assert_true(gpu->gone);
	assert_int_equal(gpu->n_reasons, 1);
	assert_string_equal(gpu->reasons[0]->cause, "xid");
	assert_int_equal(gpu->n_xids, 2);
	assert_string_equal(gpu->xids[0]->class_, "reboot");
	assert_string_equal(gpu->xids[1]->class_, "app");
	assert_int_equal(gpu->xids[1]->pid, 4711);
	return 0;
}

static void test_a_verdict(void **state)
{
	struct vitals_view *view = calloc(1, sizeof(*view));
	assert_non_null(view);
	(void)snprintf(view->uuid, sizeof(view->uuid), "GPU-1");
	view->verdict.state = HEALTH_UNHEALTHY;
	view->verdict.reason_count = 1;
	view->verdict.reason[0].cause = HEALTH_XID;
	view->xid_count = 2;
	view->xid[0].event.xid = 79;
	view->xid[0].class_ = XID_REBOOT;
	view->xid[1].event.xid = 13;
	view->xid[1].event.pid = 4711;
	view->xid[1].class_ = XID_APP;
	assert_int_equal(verdict_scenario(view), 0);
	(void)failmalloc_each(verdict_scenario, view);
	free(view);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_the_owner_sees_all),
	    cmocka_unit_test(test_details_are_for_those_who_ask),
	    cmocka_unit_test(test_others_see_little),
	    cmocka_unit_test(test_why_is_the_owners_in_every_state),
	    cmocka_unit_test(test_a_job_that_was_never_started),
	    cmocka_unit_test(test_states_both_ways),
	    cmocka_unit_test(test_no_memory_for_a_job),
	    cmocka_unit_test(test_a_spec_is_the_callers),
	    cmocka_unit_test(test_specs_that_are_refused),
	    cmocka_unit_test(test_no_memory_for_a_spec),
	    cmocka_unit_test(test_gpus_with_their_slots),
	    cmocka_unit_test(test_a_verdict),
	    cmocka_unit_test(test_statuses),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
