/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue on a machine of two GPUs, with a supervisor that does what queue_fake.c says, and what
 * the tests of the queue ask of it. One at a time.
 */
#ifndef TESTS_UNIT_DOORS_QUEUE_QUEUE_RIG_H
#define TESTS_UNIT_DOORS_QUEUE_QUEUE_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/loop.h"
#include "doors/queue/queue.h"
#include "doors/queue/schedule/schedule.h"
#include "hardware/snapshot.h"
#include "tests/unit/unit.h"

enum { TEST_GPUS = 2, TEST_JOBS = 16 };
#define DEADLINE_NS UINT64_C(20000000000)

/* What became of a submission, a cancel or a question. */
struct answer {
	bool done;
	int result;
	uint64_t id;
	bool known, was_final;
	enum job_state state;
	enum job_reason reason;
	int exit_code;
	size_t jobs, grants, observed;
	char text[ERR_TEXT_MAX];
};

struct fixture {
	char *tmp;
	struct loop *loop;
	struct storage *storage;
	struct child_set *children;
	struct queue *queue;
	struct inventory inventory;
	struct gpu gpus[TEST_GPUS];
	struct snapshot *snapshot;
	struct policy *policy;
	unsigned changes;
	const char *mode; /* QUEUE_FAKE of the next job */
	size_t retention;
	struct account *account; /* of the queue; NULL: one of its own */
	struct wants wants;	 /* of the next job; its texts are borrowed */
};

extern struct fixture *fixture; /* of the running test */

/* What the machine is shared like: the text of a configuration. */
void configure(const char *text);
/* Tells the queue what the machine is. */
void look(void);
struct queue_options options_with(const char *supervisor);
void open_queue_with(const char *supervisor);
void open_queue(void);
int setup(void **state);
int teardown(void **state);
void reopen(void);
/* Fails the test and says what the first job waits for. */
void stuck(void);

/* A job that runs `command` in a shell. */
void submit_as(const char *key, const char *command, uint32_t gpus, bool no_wait,
	       struct answer *answer);
/* Its id, once it is accepted. */
uint64_t submit(const char *key, const char *command, uint32_t gpus);
/* What the queue or the store knows of it. */
struct answer ask(uint64_t id);
enum job_state state_of(uint64_t id);
/* The same, once it is final. */
struct answer ended(uint64_t id);
struct answer cancel(uint64_t id);
/* The same, without waiting for answer->done. */
void begin_cancel(uint64_t id, struct answer *answer);

/* Files of the fixture's directory; commands for jobs, in static buffers. */
bool there(const char *name);
/* Writes a line into `name`, then does `then`. */
const char *append(const char *name, const char *then);
size_t lines(const char *name);
/* Writes a line into `name`, then waits for go(). */
const char *until_go(const char *name);
void go(void);
pid_t read_pid(const char *name);

/* From now on temporary directories lie in memory: no test looks at what a disk does. */
void place_in_memory(void);

/* Fills the struct answer that `context` is. */
void on_submitted(int result, uint64_t id, bool known, const char *reason, const struct err *err,
		  void *context);

/* Runs the loop until it is so. */
#define wait_for(condition)                                                                        \
	do {                                                                                       \
		uint64_t wait_deadline_ = unit_now_ns() + DEADLINE_NS;                             \
		while (!(condition)) {                                                             \
			if (unit_now_ns() >= wait_deadline_)                                       \
				stuck();                                                           \
			assert_int_equal(loop_pass(fixture->loop, 10000000, NULL), 0);             \
		}                                                                                  \
	} while (0)

#define with(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

#endif
