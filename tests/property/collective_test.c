/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must hold of every operation, type, size and number of ranks: nothing is larger than what
 * was asked for, all parts fit, what alltoallv sends is what it receives, and bandwidths are
 * finite.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/parse.h"
#include "bench/collectives/collective.h"
#include "tests/unit/units/brute.h"

enum { ROUNDS = 20000, RANKS_MAX = 70 };

struct property_case {
	enum collective_op op;
	enum collective_type type;
	uint64_t asked;
	uint32_t ranks;
	struct collective_shape shape;
};

static void expect(bool is_right, const char *what, const struct property_case *one)
{
	if (is_right)
		return;
	(void)fprintf(stderr, "%s: %s %s, %" PRIu64 " bytes, %u ranks\n", what,
		      collective_op_to_string(one->op), collective_type_to_string(one->type),
		      one->asked, one->ranks);
	exit(1);
}

static void check_v(const struct property_case *one)
{
	const struct collective_shape *shape = &one->shape;
	for (uint32_t rank = 0; rank < one->ranks; rank++) {
		uint64_t sent = 0, received = 0;
		for (uint32_t peer = 0; peer < one->ranks; peer++) {
			uint64_t count = collective_v_count(shape, one->ranks, rank, peer);
			expect(count * shape->element_bytes % COLLECTIVE_CHUNK_BYTES == 0,
			       "a part is no multiple of 16 bytes", one);
			sent += count;
			received += collective_v_count(shape, one->ranks, peer, rank);
		}
		expect(sent == shape->send_count, "what is sent does not add up", one);
		expect(received == shape->receive_count, "what is received does not add up", one);
	}
}

static void check(const struct property_case *one)
{
	const struct collective_shape *shape = &one->shape;
	expect(shape->bytes <= one->asked, "more than was asked for", one);
	expect(one->asked - shape->bytes < (uint64_t)one->ranks * 2 * COLLECTIVE_CHUNK_BYTES,
	       "much less than was asked for", one);
	expect(shape->moved_bytes <= shape->bytes, "more is moved than there is", one);
	expect(shape->send_count * shape->element_bytes <= shape->bytes, "sends too much", one);
	expect(shape->receive_count * shape->element_bytes <= shape->bytes, "receives too much",
	       one);
	uint64_t parts = shape->param_count * one->ranks;
	uint64_t most =
	    shape->send_count > shape->receive_count ? shape->send_count : shape->receive_count;
	bool is_whole =
	    shape->send_count == shape->param_count && shape->receive_count == shape->param_count;
	expect(is_whole || parts == most || one->op == COLLECTIVE_ALLTOALLV,
	       "the parts of the ranks are not the whole", one);
	double busbw = collective_busbw(one->op, shape, one->ranks, 1e-6);
	expect(one->ranks == 1 ? isnan(busbw) : isfinite(busbw), "a strange bandwidth", one);
	if (one->op == COLLECTIVE_ALLTOALLV)
		check_v(one);
}

int main(void)
{
	uint64_t seed = 1, rounds = ROUNDS;
	const char *text = getenv("SLUICE_TEST_SEED");
	if (text && parse_u64(text, 0, UINT64_MAX, &seed) < 0)
		return 2;
	text = getenv("SLUICE_TEST_ROUNDS");
	if (text && parse_u64(text, 1, UINT64_MAX, &rounds) < 0)
		return 2;
	(void)printf("seed %" PRIu64 "\n", seed);
	random_seed(seed);
	for (uint64_t i = 0; i < rounds; i++) {
		struct property_case one = {
		    .op = random_below(COLLECTIVE_OP_COUNT),
		    .type = random_below(COLLECTIVE_TYPE_COUNT),
		    .ranks = 1 + random_below(RANKS_MAX),
		};
		uint32_t bits = 1 + random_below(COLLECTIVE_BYTES_BITS);
		one.asked = ((uint64_t)random_below(1 << 30) << 20 | random_below(1 << 20)) &
			    ((UINT64_C(1) << bits) - 1);
		collective_shape(one.op, one.type, one.asked, one.ranks, &one.shape);
		check(&one);
	}
	return 0;
}
