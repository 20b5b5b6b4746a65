/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/claim/claims.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "unit/unit.h"

#define HOUR_NS INT64_C(3600000000000)
#define NOW_NS	(1000 * HOUR_NS)

enum { ALICE = 1000, BOB = 1001, STAFF = 50 };

static struct claim reservation(const char *name, int64_t begin_h, int64_t end_h)
{
	struct claim claim = {.kind = CLAIM_RESERVATION,
			      .has_uid = true,
			      .uid = ALICE,
			      .begin_unix_ns = NOW_NS + begin_h * HOUR_NS,
			      .end_unix_ns = NOW_NS + end_h * HOUR_NS,
			      .lead_ns = 24 * HOUR_NS,
			      .gpu_count = 1};
	(void)snprintf(claim.name, sizeof(claim.name), "%s", name);
	(void)snprintf(claim.who, sizeof(claim.who), "alice");
	(void)snprintf(claim.gpus[0].uuid, sizeof(claim.gpus[0].uuid), "GPU-1");
	(void)snprintf(claim.gpus[0].label, sizeof(claim.gpus[0].label), "GPU 1");
	return claim;
}

static uint64_t shut(struct claim *claim, uid_t uid, int64_t hours, int64_t later_h)
{
	const struct claims claims = {.items = claim, .count = 1};
	const gid_t groups[] = {10, STAFF};
	const struct claim_job job = {.uid = uid,
				      .groups = groups,
				      .group_count = uid == BOB ? 2 : 1,
				      .time_ns = (uint64_t)(hours * HOUR_NS)};
	return claims_shut(&claims, &job, NOW_NS + later_h * HOUR_NS);
}

static void a_window_is_shut_to_who_could_reach_into_it(void **state)
{
	struct claim claim = reservation("talk", 10, 12);
	assert_int_equal(shut(&claim, BOB, 10, 0), 0); /* ends just then */
	assert_int_equal(shut(&claim, BOB, 11, 0), 1);
	assert_int_equal(shut(&claim, BOB, 0, 0), 1);	 /* without a limit, within the lead */
	assert_int_equal(shut(&claim, BOB, 1, 10), 1);	 /* in it */
	assert_int_equal(shut(&claim, BOB, 1, 12), 0);	 /* over */
	assert_int_equal(shut(&claim, ALICE, 0, 11), 0); /* hers */
	claim.lead_ns = 5 * HOUR_NS;
	assert_int_equal(shut(&claim, BOB, 0, 4), 0);
	assert_int_equal(shut(&claim, BOB, 0, 5), 1);
	claim.has_uid = false;
	claim.has_gid = true;
	claim.gid = STAFF;
	assert_int_equal(shut(&claim, BOB, 0, 11), 0);
	assert_int_equal(shut(&claim, ALICE, 0, 11), 1); /* not in it */
	claim.kind = CLAIM_DRAIN_GPUS;
	assert_int_equal(shut(&claim, BOB, 1, 0), 1);
	claim.kind = CLAIM_DRAIN_USER; /* has no GPU */
	assert_int_equal(shut(&claim, BOB, 1, 0), 0);
}

static void what_is_over_goes(void **state)
{
	struct claim items[] = {reservation("one", 0, 1), reservation("two", 2, 3)};
	const struct claims claims = {.items = items, .count = 2};
	struct claims copy;
	assert_int_equal(claims_copy(&claims, NOW_NS, &copy), 0);
	assert_int_equal(copy.count, 2);
	claims_done(&copy);
	assert_int_equal(claims_copy(&claims, NOW_NS + HOUR_NS, &copy), 0);
	assert_int_equal(copy.count, 1);
	assert_int_equal(claims_find(&copy, "two"), 0);
	assert_int_equal(claims_find(&copy, "one"), 1); /* none */
	claims_done(&copy);
	assert_true(claims_next(&claims, NOW_NS) == NOW_NS + HOUR_NS);
	assert_true(claims_next(&claims, NOW_NS + HOUR_NS) == NOW_NS + 2 * HOUR_NS);
	assert_true(claims_next(&claims, NOW_NS + 3 * HOUR_NS) == INT64_MAX);
	assert_null(claims_overlap(&claims, "GPU-1", NOW_NS + HOUR_NS, NOW_NS + 2 * HOUR_NS));
	assert_ptr_equal(claims_overlap(&claims, "GPU-1", NOW_NS, NOW_NS + 1), &items[0]);
	assert_null(claims_overlap(&claims, "GPU-2", NOW_NS, NOW_NS + 1));
}

/* GPUs of other claims are not drained. */
static void a_gpu_is_drained_by_whom(void **state)
{
	struct claim items[] = {reservation("one", 0, 1), reservation("two", 0, 1)};
	const struct claims claims = {.items = items, .count = 2};
	const char *uuid = items[1].gpus[0].uuid;

	assert_null(claims_drain(&claims, uuid));
	items[1].kind = CLAIM_DRAIN_GPUS;
	assert_ptr_equal(claims_drain(&claims, uuid), &items[1]);
	assert_null(claims_drain(&claims, "GPU-nobody's"));
}

static void what_is_written_is_read(void **state)
{
	struct claim items[] = {reservation("one", 0, 1),
				{.kind = CLAIM_DRAIN_USER, .has_uid = true, .uid = BOB}};
	const struct claims claims = {.items = items, .count = 2};
	struct claims again;
	struct err err = {0};
	char *bytes = NULL;
	size_t length = 0;
	items[0].may_move = true;
	(void)snprintf(items[0].moved, sizeof(items[0].moved), "GPU 5 instead of GPU 1 (lost)");
	assert_int_equal(claims_format(&claims, &bytes, &length), 0);
	assert_int_equal(claims_parse(bytes, length, &again, &err), 0);
	assert_int_equal(again.count, 2);
	assert_memory_equal(&again.items[0], &items[0], sizeof(items[0]));
	assert_ptr_equal(claims_user(&again, BOB), &again.items[1]);
	assert_null(claims_user(&again, ALICE));
	assert_int_equal(claims_parse("\xff\xff", 2, &again, &err), -EINVAL);
	claims_done(&again);
	free(bytes);
}

static void what_cannot_be_meant_is_refused(void **state)
{
	struct err err = {0};
	struct claim claim = reservation("Big", 0, 1);
	assert_int_equal(claim_check(&claim, &err), -EINVAL);
	claim = reservation("one", 1, 1);
	assert_int_equal(claim_check(&claim, &err), -EINVAL);
	claim = reservation("one", 0, 1);
	claim.has_gid = true;
	assert_int_equal(claim_check(&claim, &err), -EINVAL);
	claim = reservation("one", 0, 1);
	claim.gpu_count = 0;
	assert_int_equal(claim_check(&claim, &err), -EINVAL);
	claim = reservation("one", 0, 1);
	claim.reason[0] = 27;
	assert_int_equal(claim_check(&claim, &err), -EINVAL);
	claim = reservation("one", 0, 1);
	assert_int_equal(claim_check(&claim, &err), 0);
}

static unsigned how(const struct claims *claims, uint64_t own, uint64_t parts, int64_t later_h,
		    const char *wanted)
{
	char text[CLAIM_TEXT_MAX];
	unsigned bits = claims_how(claims, own, parts, NOW_NS + later_h * HOUR_NS, text);
	if (strncmp(text, wanted, strlen(wanted)) != 0 || (!*wanted && *text))
		assert_string_equal(text, wanted);
	return bits;
}

static void a_gpu_says_how_it_is_claimed(void **state)
{
	struct claim items[] = {reservation("talk", 1, 2),
				reservation("off", 0, 9),
				{.kind = CLAIM_DRAIN_USER, .has_uid = true, .uid = BOB}};
	const struct claims claims = {.items = items, .count = 3};

	items[1].kind = CLAIM_DRAIN_GPUS;
	strcpy(items[1].reason, "the fan");
	assert_int_equal(how(&claims, 0, 0, 1, ""), 0);
	assert_int_equal(how(&claims, 1, 0, 0, "reserved (talk) for alice, "), 0); /* to come */
	assert_int_equal(how(&claims, 1, 0, 1, "reserved (talk) for alice, "), CLAIMS_RESERVED);
	assert_int_equal(how(&claims, 1, 0, 2, ""), 0); /* over */
	assert_int_equal(how(&claims, 2, 0, 1, "drained: the fan"), CLAIMS_DRAINED);
	assert_int_equal(how(&claims, 0, 2, 1, "drained, a MIG device of it: the fan"), 0);
	assert_int_equal(how(&claims, 3, 0, 1, "reserved (talk)"),
			 CLAIMS_DRAINED | CLAIMS_RESERVED);

	/* However many there are, the text ends. */
	struct claim many[CLAIMS_MAX];
	for (size_t i = 0; i < CLAIMS_MAX; i++)
		many[i] = reservation("a-name-of-some-length", 0, 9);
	const struct claims all = {.items = many, .count = CLAIMS_MAX};
	assert_int_equal(how(&all, UINT64_MAX, 0, 1, "reserved"), CLAIMS_RESERVED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_window_is_shut_to_who_could_reach_into_it),
	    cmocka_unit_test(what_is_over_goes),
	    cmocka_unit_test(a_gpu_is_drained_by_whom),
	    cmocka_unit_test(what_is_written_is_read),
	    cmocka_unit_test(what_cannot_be_meant_is_refused),
	    cmocka_unit_test(a_gpu_says_how_it_is_claimed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
