/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the scheduler share: a machine, passes over jobs, and what they decided as
 * text.
 */
#ifndef TESTS_UNIT_DOORS_QUEUE_SCHEDULE_RIG_H
#define TESTS_UNIT_DOORS_QUEUE_SCHEDULE_RIG_H

#include "base/err.h"
#include "doors/queue/schedule/schedule.h"
#include "hardware/snapshot.h"
#include "policy/policy.h"
#include "unit/unit.h"

enum test_limits {
	TEST_GPUS = 16,
	TEST_MIGS = 16,
	TEST_RUNNING = 16,
	TEST_TEXT = 8192,
};

/* All GPUs have four slots. */
#define SHARED                                                                                     \
	"version: v1\n"                                                                            \
	"sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n"
/* GPUs 0 and 1 have. */
#define PARTLY                                                                                     \
	"version: v1\n"                                                                            \
	"sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4, devices: [0, "    \
	"1]}]}}\n"
#define PLAIN "version: v1\n"

struct fixture {
	struct inventory inventory;
	struct gpu gpus[TEST_GPUS];
	struct mig_device migs[TEST_MIGS];
	struct snapshot *snapshot; /* owned */
	struct policy *policy;	   /* owned */
	struct schedule_machine machine;
	struct queue_rules rules;
	struct schedule_running running[TEST_RUNNING];
	struct launch_grant running_grants[TEST_RUNNING];
	size_t running_count;
	uint64_t now_ns;
	bool shows_turns;   /* [turn] in the text */
	bool shows_pledges; /* [pledged at 90] */
	bool shows_places;  /* [#1 in 100] in it */
	struct err err;
	char out[TEST_TEXT]; /* what the last pass decided, a line per job */
	size_t out_length;
	const char *holder[TEST_GPUS]; /* of GPU i, for the reasons */
};

extern struct fixture *fixture; /* of the running test */

int setup(void **state);
int teardown(void **state);
void gpus(uint32_t count);
void split(uint32_t gpu, uint32_t count);
void computes(uint32_t gpu, uint32_t pid);
void configure_for(const char *text, bool has_kubelet);
const char *stranger(uint32_t pid, void *context);
void look(void);
void configure(const char *text);
/* A job that has GPU `gpu` (less than 0: none), and so much beside it. */
void runs(uid_t uid, int gpu, uint64_t left_ns, uint32_t cpu_milli, uint64_t mem_bytes);
int pass(const struct job *jobs, size_t count);

#define PASS(...)                                                                                  \
	do {                                                                                       \
		const struct job jobs_[] = {__VA_ARGS__};                                          \
		assert_int_equal(pass(jobs_, sizeof(jobs_) / sizeof(jobs_[0])), 0);                \
	} while (0)
#define EXPECT(text) assert_string_equal(fixture->out, text)

#define WHOLE(i, n) ((struct job){.id = (i), .gpus = (n)})
#define SHARE(i, n, num, den)                                                                      \
	((struct job){.id = (i), .gpus = (n), .share_numerator = (num), .share_denominator = (den)})
#define IDS(i, list) ((struct job){.id = (i), .gpus = 1, .ids = (char *)(list)})

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
