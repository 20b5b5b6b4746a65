/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/kubelet/prefer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "doors/kubelet/resource.h"
#include "tests/unit/doors/kubelet/rig.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"
#include "tests/unit/units/brute.h"
#include "units/allocator.h"
#include "wire/arena.h"

#define GPU_NAME "nvidia.com/gpu"

enum test_limits {
	TEST_GPUS = 8,
	TEST_IDS = 64,
	TEST_ARENA = 1 << 20,
	TEST_CASES = 1500,
};

/* One container's question. */
struct ask {
	char *available[TEST_IDS], *must[TEST_IDS];
	size_t available_count, must_count;
	int32_t size;
};

/* The answer's ids apart by blanks. */
static const char *answer(const struct kubelet_resource *resource, struct allocator *allocator,
			  struct ask *ask, size_t *dropped)
{
	static char text[8][4096];
	static unsigned turn;
	char *out = text[turn++ % 8];
	_cleanup_arena_ struct arena arena;
	arena_init(&arena, TEST_ARENA);
	V1beta1__PreferredAllocationRequest request = V1BETA1__PREFERRED_ALLOCATION_REQUEST__INIT;
	V1beta1__ContainerPreferredAllocationRequest container =
	    V1BETA1__CONTAINER_PREFERRED_ALLOCATION_REQUEST__INIT;
	V1beta1__ContainerPreferredAllocationRequest *containers[] = {&container, &container};
	container.available_deviceids = ask->available;
	container.n_available_deviceids = ask->available_count;
	container.must_include_deviceids = ask->must;
	container.n_must_include_deviceids = ask->must_count;
	container.allocation_size = ask->size;
	request.container_requests = containers;
	request.n_container_requests = 2;
	V1beta1__PreferredAllocationResponse response;
	struct err err = {0};
	if (prefer_answer(resource, allocator, &request, &arena, &response, dropped, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(response.n_container_responses, 2);
	size_t length = 0;
	out[0] = '\0';
	const V1beta1__ContainerPreferredAllocationResponse *first =
	    response.container_responses[0];
	for (size_t i = 0; i < first->n_deviceids; i++) {
		length += (size_t)snprintf(out + length, sizeof(text[0]) - length, "%s%s",
					   i ? " " : "", first->deviceids[i]);
		/* Asked twice, answered twice the same. */
		assert_string_equal(first->deviceids[i],
				    response.container_responses[1]->deviceids[i]);
	}
	return out;
}

static size_t words(char *text, char **out)
{
	size_t count = 0;
	char *word;
	while ((word = strsep(&text, " "))) {
		if (*word != '\0')
			out[count++] = word;
	}
	return count;
}

static void expect(const struct kubelet_resource *resource, struct allocator *allocator,
		   const char *available, const char *must, int32_t size, const char *expected,
		   size_t expected_dropped)
{
	char texts[2][1024];
	(void)snprintf(texts[0], sizeof(texts[0]), "%s", available);
	(void)snprintf(texts[1], sizeof(texts[1]), "%s", must);
	struct ask ask = {.size = size};
	ask.available_count = words(texts[0], ask.available);
	ask.must_count = words(texts[1], ask.must);
	size_t dropped = 99;
	assert_string_equal(answer(resource, allocator, &ask, &dropped), expected);
	assert_int_equal(dropped, 2 * expected_dropped);
}

/* Two islands of four, 0-3 and 4-7. */
static struct allocator *islands(uint32_t gpus)
{
	struct allocator_topology *shape = calloc(1, sizeof(*shape));
	assert_non_null(shape);
	shape->gpu_count = gpus;
	for (uint32_t a = 0; a < gpus; a++) {
		shape->numa[a] = (int32_t)(a / 4);
		for (uint32_t b = 0; b < gpus; b++)
			shape->weight[a][b] = a == b ? 0 : a / 4 == b / 4 ? 250 : 10;
	}
	struct allocator *allocator = NULL;
	int rc = allocator_new(shape, &allocator, NULL);
	free(shape);
	assert_int_equal(rc, 0);
	return allocator;
}

struct question {
	const char *available, *must;
	int32_t size;
	const char *expected;
	size_t dropped;
};

static void expect_each(uint32_t gpus, const struct question *questions, size_t count)
{
	struct rig *rig = rig_new(gpus);
	struct kubelet_resource *resource = rig_resource(rig, "", GPU_NAME);
	struct allocator *allocator = islands(gpus);
	for (size_t i = 0; i < count; i++)
		expect(resource, allocator, questions[i].available, questions[i].must,
		       questions[i].size, questions[i].expected, questions[i].dropped);
	assert_null(allocator_free(allocator));
	assert_null(resource_free(resource));
	assert_null(rig_free(rig));
}

static void test_whole_gpus(void **state)
{
	static const char all[] = "GPU-h GPU-c GPU-a GPU-g GPU-b GPU-f GPU-e GPU-d";
	static const struct question questions[] = {
	    {all, "", 4, "GPU-a GPU-b GPU-c GPU-d", 0},
	    {all, "GPU-f", 4, "GPU-e GPU-f GPU-g GPU-h", 0},
	    /* The smaller island is broken, not the whole one. */
	    {"GPU-a GPU-b GPU-c GPU-d GPU-h", "", 1, "GPU-h", 0},
	    /* What must be in and is not free. */
	    {"GPU-a GPU-b GPU-e", "GPU-h", 2, "GPU-e GPU-h", 0},
	    /* This question kills the NVIDIA plugin up to 0.20.0. */
	    {"GPU-a GPU-d GPU-e GPU-g GPU-h", "", 3, "GPU-e GPU-g GPU-h", 0},
	};
	(void)state;
	expect_each(8, questions, array_length(questions));
}

static void test_sizes(void **state)
{
	static const struct question questions[] = {
	    {"GPU-b GPU-a", "", 0, "", 0},
	    {"GPU-b GPU-a", "GPU-a", -1, "", 0},
	    {"GPU-b GPU-a", "", INT32_MIN, "", 0},
	    {"GPU-b GPU-a", "", 2, "GPU-a GPU-b", 0},
	    {"GPU-b GPU-a", "GPU-d", INT32_MAX, "GPU-a GPU-b GPU-d", 0},
	    {"GPU-b GPU-a", "GPU-b GPU-a", 1, "", 0},
	    {"GPU-b GPU-a GPU-c", "GPU-c GPU-b", 2, "GPU-b GPU-c", 0},
	    {"", "", 3, "", 0},
	    {"GPU-a GPU-a GPU-b GPU-a", "GPU-b GPU-b", 2, "GPU-a GPU-b", 0},
	};
	(void)state;
	expect_each(4, questions, array_length(questions));
}

static void test_unknown_ids(void **state)
{
	static const struct question questions[] = {
	    {"GPU-x GPU-b GPU-y GPU-x", "", 1, "GPU-b", 3},
	    {"GPU-x", "", 1, "", 1},
	    {"GPU-d GPU-c GPU-b", "GPU-z GPU-x GPU-z", 3, "GPU-b GPU-x GPU-z", 0},
	    {"GPU-d", "GPU-z GPU-x", 1, "", 0},
	    {"GPU-d", "GPU-z GPU-d", 2, "GPU-d GPU-z", 0},
	    {"GPU-d", "GPU-z", 1, "GPU-z", 0},
	};
	(void)state;
	expect_each(4, questions, array_length(questions));
}

static void test_policies(void **state)
{
	(void)state;
	static const struct {
		const char *policy, *expected;
	} rows[] = {
	    /* a: 1 of 3 in use, b: none. */
	    {"distributed", "GPU-a::1 GPU-b::0 GPU-b::1"},
	    {"packed", "GPU-a::1 GPU-a::2 GPU-b::0"},
	    {"spread", "GPU-a::1 GPU-b::0 GPU-b::1"},
	    {"spread-strict", "GPU-a::1 GPU-b::0 GPU-b::1"},
	};
	struct rig *rig = rig_new(2);
	struct allocator *allocator = islands(2);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char config[256];
		(void)snprintf(config, sizeof(config),
			       "flags: {plugin: {sharedDevicesAllocationPolicy: %s}}\n" RIG_SHARE(
				   "{name: gpu, replicas: 3}"),
			       rows[i].policy);
		struct kubelet_resource *resource = rig_resource(rig, config, GPU_NAME);
		expect(resource, allocator, "GPU-b::2 GPU-b::0 GPU-a::2 GPU-a::1 GPU-b::1", "", 3,
		       rows[i].expected, 0);
		assert_null(resource_free(resource));
	}
	assert_null(allocator_free(allocator));
	assert_null(rig_free(rig));
}

/* A MIG device belongs to its GPU: packed fills one GPU before it opens another. */
static void test_mig_devices(void **state)
{
	(void)state;
	struct rig *rig = rig_new(2);
	for (uint32_t gpu = 0; gpu < 2; gpu++) {
		for (int i = 0; i < 3; i++)
			rig_add_mig(rig, gpu, "1g.5gb");
	}
	struct allocator *allocator = islands(2);
	struct kubelet_resource *resource = rig_resource(
	    rig, "flags: {migStrategy: single, plugin: {sharedDevicesAllocationPolicy: packed}}",
	    GPU_NAME);
	expect(resource, allocator, "MIG-0-0 MIG-1-2 MIG-0-1 MIG-0-2 MIG-1-0", "", 2,
	       "MIG-1-0 MIG-1-2", 0);
	expect(resource, allocator, "MIG-0-0 MIG-1-2 MIG-0-1 MIG-0-2 MIG-1-0", "MIG-0-1", 2,
	       "MIG-0-0 MIG-0-1", 0);
	assert_null(resource_free(resource));
	assert_null(allocator_free(allocator));
	assert_null(rig_free(rig));
}

/* Without an allocator, or with that of another machine, there is still an answer. */
static void test_no_allocator(void **state)
{
	(void)state;
	struct rig *rig = rig_new(4);
	struct kubelet_resource *resource = rig_resource(rig, "", GPU_NAME);
	struct allocator *other = islands(2);
	expect(resource, NULL, "GPU-d GPU-c GPU-b", "GPU-d", 2, "GPU-b GPU-d", 0);
	expect(resource, other, "GPU-d GPU-c GPU-b", "GPU-d", 2, "GPU-b GPU-d", 0);
	assert_null(allocator_free(other));
	assert_null(resource_free(resource));
	assert_null(rig_free(rig));
}

static void shuffle(char **ids, size_t count)
{
	for (size_t i = count; i > 1; i--) {
		size_t j = random_below((uint32_t)i);
		char *other = ids[i - 1];
		ids[i - 1] = ids[j];
		ids[j] = other;
	}
}

static bool has_id(char *const *ids, size_t count, const char *id)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(ids[i], id) == 0)
			return true;
	}
	return false;
}

/* What holds for every answer, whatever was asked. */
static void check_answer(const struct kubelet_resource *resource, const struct ask *ask,
			 const char *text)
{
	char copy[4096];
	char *ids[TEST_IDS];
	(void)snprintf(copy, sizeof(copy), "%s", text);
	size_t count = words(copy, ids), all = ask->must_count;
	for (size_t i = 0; i < ask->available_count; i++)
		all += !has_id(ask->must, ask->must_count, ask->available[i]);
	size_t size = ask->size < 0 ? 0 : (size_t)ask->size;
	if (ask->must_count > size)
		size = 0;
	assert_int_equal(count, size < all ? size : all);
	for (size_t i = 0; i < count; i++) {
		assert_true(has_id(ask->available, ask->available_count, ids[i]) ||
			    has_id(ask->must, ask->must_count, ids[i]));
		if (i > 0) /* the order of (i, j, n) */
			assert_true(resource_find(resource, ids[i - 1]) <
				    resource_find(resource, ids[i]));
	}
	for (size_t i = 0; count > 0 && i < ask->must_count; i++)
		assert_true(has_id(ids, count, ask->must[i]));
}

static void check_random_asks(const struct kubelet_resource *resource, struct allocator *allocator)
{
	for (int i = 0; i < TEST_CASES; i++) {
		struct ask ask = {.size = (int32_t)random_below(resource->device_count + 2) - 1};
		uint32_t musts = random_below(3);
		for (uint32_t d = 0; d < resource->device_count; d++) {
			char *id = resource->devices[d].id;
			if (random_below(4) > 0)
				ask.available[ask.available_count++] = id;
			if (ask.must_count < musts && random_below(resource->device_count) < 2)
				ask.must[ask.must_count++] = id;
		}
		const char *once = answer(resource, allocator, &ask, NULL);
		check_answer(resource, &ask, once);
		shuffle(ask.available, ask.available_count);
		shuffle(ask.must, ask.must_count);
		assert_string_equal(answer(resource, allocator, &ask, NULL), once);
	}
}

static void test_every_answer(void **state)
{
	(void)state;
	static const char *const configs[] = {
	    "",
	    RIG_SHARE("{name: gpu, replicas: 3}"),
	    RIG_SHARE("{name: gpu, replicas: 2, devices: [0]}, "
		      "{name: gpu, replicas: 5, devices: [2, 7]}") "flags: {plugin: "
								   "{sharedDevicesAllocationPolicy"
								   ": packed}}",
	    RIG_SHARE("{name: gpu, replicas: 4}") "flags: {plugin: {sharedDevicesAllocationPolicy: "
						  "spread}}",
	};
	random_seed(5);
	struct rig *rig = rig_new(TEST_GPUS);
	for (size_t c = 0; c < sizeof(configs) / sizeof(configs[0]); c++) {
		struct kubelet_resource *resource = rig_resource(rig, configs[c], GPU_NAME);
		struct allocator_topology shape;
		shape_make(&shape, TEST_GPUS, SHAPE_RANDOM);
		struct allocator *allocator = NULL;
		assert_int_equal(allocator_new(&shape, &allocator, NULL), 0);
		check_random_asks(resource, allocator);
		assert_null(allocator_free(allocator));
		assert_null(resource_free(resource));
	}
	assert_null(rig_free(rig));
}

struct scenario {
	struct kubelet_resource *resource;
	struct allocator *allocator;
	size_t arena_max, count;
};

static int scenario(void *context)
{
	struct scenario *how = context;
	static const char *const ids[] = {"GPU-d", "GPU-a", "GPU-b"};
	char copy[3][8], *available[3], must_id[] = "GPU-z", *must[] = {must_id};
	for (size_t i = 0; i < 3; i++) {
		(void)snprintf(copy[i], sizeof(copy[i]), "%s", ids[i]);
		available[i] = copy[i];
	}
	_cleanup_arena_ struct arena arena;
	arena_init(&arena, how->arena_max);
	V1beta1__PreferredAllocationRequest request = V1BETA1__PREFERRED_ALLOCATION_REQUEST__INIT;
	V1beta1__ContainerPreferredAllocationRequest container =
	    V1BETA1__CONTAINER_PREFERRED_ALLOCATION_REQUEST__INIT;
	V1beta1__ContainerPreferredAllocationRequest *containers[] = {&container};
	container.available_deviceids = available;
	container.n_available_deviceids = 3;
	container.must_include_deviceids = must;
	container.n_must_include_deviceids = 1;
	container.allocation_size = 3;
	request.container_requests = containers;
	request.n_container_requests = 1;
	V1beta1__PreferredAllocationResponse response;
	int rc =
	    prefer_answer(how->resource, how->allocator, &request, &arena, &response, NULL, NULL);
	if (rc == 0) /* an allocator without memory costs the best choice, not the answer */
		how->count = response.container_responses[0]->n_deviceids;
	return rc;
}

static void test_out_of_memory(void **state)
{
	(void)state;
	struct rig *rig = rig_new(4);
	struct scenario how = {.arena_max = TEST_ARENA};
	how.resource = rig_resource(rig, "", GPU_NAME);
	how.allocator = islands(4);
	assert_int_equal(scenario(&how), 0);
	assert_int_equal(how.count, 3);
	int rc = -ENOMEM;
	for (how.arena_max = 0; rc == -ENOMEM && how.arena_max < TEST_ARENA; how.arena_max += 16)
		rc = scenario(&how);
	assert_int_equal(rc, 0);
	assert_int_equal(how.count, 3);
	assert_null(allocator_free(how.allocator));
	assert_null(resource_free(how.resource));
	assert_null(rig_free(rig));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_whole_gpus),	 cmocka_unit_test(test_sizes),
	    cmocka_unit_test(test_unknown_ids),	 cmocka_unit_test(test_policies),
	    cmocka_unit_test(test_mig_devices),	 cmocka_unit_test(test_no_allocator),
	    cmocka_unit_test(test_every_answer), cmocka_unit_test(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
