/* SPDX-License-Identifier: Apache-2.0 */
/* A reservation whose GPU fails while that cannot be written. */
#include "doors/queue/claim/queue_claim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/storage.h"
#include "doors/queue/schedule/schedule.h"
#include "doors/queue/store/store.h"
#include "unit/doors/queue/queue_rig.h"

enum { LOG_TEXT_MAX = 1 << 16 };
#define KEEPS "keeps a GPU that fails"

static atomic_int fails_with; /* 0: as it is */
static atomic_int tries;

int __wrap_store_set_claims(struct store *store, const char *bytes, size_t length, struct err *err);
int __real_store_set_claims(struct store *store, const char *bytes, size_t length, struct err *err);

/* On the storage thread. */
int __wrap_store_set_claims(struct store *store, const char *bytes, size_t length, struct err *err)
{
	tries++;
	if (fails_with < 0)
		return err_set(err, fails_with, "it cannot be written (%d)", (int)fails_with);
	return __real_store_set_claims(store, bytes, length, err);
}

static struct log *out;
static int ends[2]; /* what it writes to */

static void open_queue_that_logs(void)
{
	struct queue_options options = options_with(getenv("QUEUE_FAKE_SUPERVISOR"));
	struct log_options to = {.format = LOG_FORMAT_JSON, .program = "unit"};
	struct err err = {.code = 0};

	assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	to.fd = ends[1];
	out = log_new(&to, NULL);
	assert_non_null(out);
	options.log = out;
	assert_int_equal(queue_open(&options, &fixture->queue, &err), 0);
	look();
}

static void close_queue_that_logs(void)
{
	fixture->queue = queue_close(fixture->queue);
	out = log_free(out);
	(void)close(ends[0]);
	(void)close(ends[1]);
}

/* How often it was, in all that was logged so far. */
static size_t said(const char *words)
{
	static char text[LOG_TEXT_MAX];
	static size_t length;
	ssize_t more = read(ends[0], text + length, sizeof(text) - 1 - length);
	size_t count = 0;

	length += more > 0 ? (size_t)more : 0;
	for (const char *at = text; (at = strstr(at, words)); at++)
		count++;

	return count;
}

static void on_claimed(int rc, const struct claim *claim, const struct err *err, void *context)
{
	*(int *)context = rc;
}

static void reserve_one(void)
{
	struct queue_claim asked = {.what = QUEUE_CLAIM_ADD, .gpus = 1};
	int rc = 1;

	asked.claim = (struct claim){.kind = CLAIM_RESERVATION,
				     .name = "any",
				     .who = "alice",
				     .has_uid = true,
				     .uid = 1000,
				     .begin_unix_ns = clock_unix_ns()};
	asked.claim.end_unix_ns = asked.claim.begin_unix_ns + 3600 * (int64_t)CLOCK_NS_PER_S;
	queue_claim(fixture->queue, &asked, on_claimed, &rc);
	wait_for(rc <= 0);
	assert_int_equal(rc, 0);
}

/* The GPU that it has. */
static void sicken(const char **gpu)
{
	const char *uuid = queue_claims(fixture->queue)->items[0].gpus[0].uuid;

	for (size_t i = 0; i < TEST_GPUS; i++)
		gpu[i] = strcmp(fixture->gpus[i].uuid, uuid) == 0 ? "XID 79" : NULL;
}

static void a_move_that_cannot_be_written_is_told_once(void **state)
{
	const char *gpu[TEST_GPUS];
	struct schedule_health health = {.gpu = gpu};

	open_queue_that_logs();
	reserve_one();
	sicken(gpu);
	queue_set_health(fixture->queue, &health);

	/* However often somebody looks, it is tried again after a pause. */
	uint64_t began_ns = unit_now_ns();

	fails_with = -EACCES;
	tries = 0;
	wait_for((look(), tries == 2));
	assert_true(unit_now_ns() - began_ns >= CLOCK_NS_PER_S);
	wait_for(storage_pending(fixture->storage) == 0);
	assert_int_equal(said(KEEPS), 1);

	/* Another one, in its place, waits for nothing. */
	fails_with = 0;
	struct queue_claim removed = {.what = QUEUE_CLAIM_REMOVE,
				      .claim = {.kind = CLAIM_RESERVATION, .name = "any"}};
	int rc = 1;

	queue_claim(fixture->queue, &removed, on_claimed, &rc);
	wait_for(rc <= 0);
	assert_int_equal(rc, 0);
	reserve_one();
	sicken(gpu);
	wait_for((look(), said("instead of") == 1));
	assert_int_equal(said(KEEPS), 1);
	close_queue_that_logs();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    with(a_move_that_cannot_be_written_is_told_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
