/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/kubelet/pool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "doors/kubelet/resource.h"
#include "hardware/gpu.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"
#include "wire/arena.h"

static char paths[3][POOL_PATH_MAX] = {"/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs0",
				       "/dev/infiniband/uverbs1"};

static struct kubelet_pool pool_of(uint32_t units)
{
	return (struct kubelet_pool){.units = units,
				     .is_healthy = true,
				     .reason = "no port of its 2 adapters is up",
				     .numa = GPU_NUMA_NONE,
				     .paths = paths,
				     .path_count = array_length(paths)};
}

static struct kubelet_resource *make(const struct kubelet_pool *pool)
{
	struct kubelet_resource *resource = NULL;
	assert_int_equal(pool_new("rdma/hca", pool, &resource, NULL), 0);
	return resource;
}

static void test_endpoints(void **state)
{
	(void)state;
	static const struct {
		const char *name, *endpoint;
	} rows[] = {
	    {"rdma/hca", "rdma-rdma-hca.sock"},
	    {"rdma/hca-a", "rdma-rdma-hca-a.sock"},
	    {"a/x", "rdma-a-x.sock"},
	    {"b/x", "rdma-b-x.sock"},
	    {"a-b/c", "rdma-a-b-c-508f0545.sock"},
	};
	char out[POOL_ENDPOINT_MAX], other[POOL_ENDPOINT_MAX], name[256];
	for (size_t i = 0; i < array_length(rows); i++) {
		pool_endpoint(rows[i].name, out);
		assert_string_equal(out, rows[i].endpoint);
	}
	pool_endpoint("a/b-c", other);
	assert_string_not_equal(out, other);
	memset(name, 'x', sizeof(name));
	memcpy(name, "rdma/", 5);
	name[5 + 63] = '\0';
	pool_endpoint(name, out);
	name[5 + 62] = 'y';
	pool_endpoint(name, other);
	assert_string_not_equal(out, other);
	assert_true(strlen(out) < POOL_ENDPOINT_MAX);
	assert_null(strchr(out, '/'));
}

static void test_the_list(void **state)
{
	(void)state;
	struct kubelet_pool pool = pool_of(1000);
	V1beta1__ListAndWatchResponse list;
	for (int i = 0; i < 2; i++) {
		struct arena arena;
		arena_init(&arena, 1 << 20);
		struct kubelet_resource *resource = make(&pool);
		assert_int_equal(pool_list(resource, &arena, &list), 0);
		assert_int_equal(list.n_devices, 1000);
		assert_string_equal(list.devices[0]->id, "0");
		assert_string_equal(list.devices[999]->id, "999");
		assert_string_equal(list.devices[999]->health, i ? "Unhealthy" : "Healthy");
		assert_int_equal(list.devices[7]->topology != NULL, i);
		if (i)
			assert_int_equal(list.devices[7]->topology->nodes[0]->id, 1);
		(void)resource_free(resource);
		arena_done(&arena);
		pool.is_healthy = false;
		pool.numa = 1;
	}
}

/* Two containers; `a` and `b` are the ids of the first, `c` that of the second. */
static int ask(const struct kubelet_resource *resource, const char *a, const char *b, const char *c,
	       struct arena *arena, V1beta1__AllocateResponse *out, struct err *err)
{
	char *first[] = {(char *)a, (char *)b}, *second[] = {(char *)c};
	V1beta1__ContainerAllocateRequest one = V1BETA1__CONTAINER_ALLOCATE_REQUEST__INIT,
					  two = one, *both[] = {&one, &two};
	V1beta1__AllocateRequest request = V1BETA1__ALLOCATE_REQUEST__INIT;
	one.devices_ids = first;
	one.n_devices_ids = 2;
	two.devices_ids = second;
	two.n_devices_ids = 1;
	request.container_requests = both;
	request.n_container_requests = 2;
	return pool_answer(resource, &request, arena, out, err);
}

static void test_every_container_gets_every_node(void **state)
{
	(void)state;
	const struct kubelet_pool pool = pool_of(10);
	struct kubelet_resource *resource = make(&pool);
	V1beta1__AllocateResponse response;
	struct arena arena;
	arena_init(&arena, 1 << 20);
	assert_int_equal(ask(resource, "9", "0", "3", &arena, &response, NULL), 0);
	assert_int_equal(response.n_container_responses, 2);
	for (size_t i = 0; i < 2; i++) {
		const V1beta1__ContainerAllocateResponse *one = response.container_responses[i];
		assert_int_equal(one->n_devices, 3);
		assert_int_equal(
		    one->n_envs + one->n_mounts + one->n_annotations + one->n_cdi_devices, 0);
		for (size_t k = 0; k < 3; k++) {
			assert_string_equal(one->devices[k]->host_path, paths[k]);
			assert_string_equal(one->devices[k]->container_path, paths[k]);
			assert_string_equal(one->devices[k]->permissions, "rwm");
		}
	}
	arena_done(&arena);
	(void)resource_free(resource);
}

/* The device brings the nodes, and more than a reply can say. */
static void test_a_cdi_device_instead(void **state)
{
	(void)state;
	struct kubelet_pool pool = pool_of(10);
	(void)snprintf(pool.cdi, sizeof(pool.cdi), "sluice.dev/rdma=rdma:hca");
	struct kubelet_resource *resource = make(&pool), *other = NULL;
	V1beta1__AllocateResponse response, second;
	struct arena arena;
	arena_init(&arena, 1 << 20);
	assert_int_equal(ask(resource, "9", "0", "3", &arena, &response, NULL), 0);
	const V1beta1__ContainerAllocateResponse *one = response.container_responses[1];
	assert_int_equal(one->n_devices + one->n_envs + one->n_mounts, 0);
	assert_int_equal(one->n_cdi_devices, 1);
	assert_string_equal(one->cdi_devices[0]->name, "sluice.dev/rdma=rdma:hca");
	assert_int_equal(one->n_annotations, 1);
	assert_string_equal(one->annotations[0]->value, "sluice.dev/rdma=rdma:hca");
	/* A container of two resources has both notes. */
	assert_int_equal(pool_new("rdma/hcb", &pool, &other, NULL), 0);
	assert_int_equal(ask(other, "9", "0", "3", &arena, &second, NULL), 0);
	assert_memory_equal(one->annotations[0]->key, "cdi.k8s.io/sluice_rdma_", 23);
	assert_string_not_equal(one->annotations[0]->key,
				second.container_responses[0]->annotations[0]->key);
	struct kubelet_pool plain = pool_of(10);
	assert_false(pool_is_same(&pool, &plain));
	arena_done(&arena);
	(void)resource_free(resource);
	(void)resource_free(other);
}

static void test_refused(void **state)
{
	(void)state;
	static const char *const wrong[] = {
	    "10", "-1", "01", "", " 1", "0x1", "GPU-a", "+1", "18446744073709551616"};
	struct kubelet_pool pool = pool_of(10);
	struct kubelet_resource *resource = make(&pool);
	V1beta1__AllocateResponse response;
	struct arena arena;
	struct err err = {0};
	arena_init(&arena, 1 << 20);
	for (size_t i = 0; i < array_length(wrong); i++) {
		char text[200];
		assert_int_equal(ask(resource, "0", "1", wrong[i], &arena, &response, &err),
				 -EINVAL);
		(void)snprintf(text, sizeof(text),
			       "invalid allocation request for \"rdma/hca\": invalid request: "
			       "unknown device: %s",
			       wrong[i]);
		assert_string_equal(err.text, text);
	}
	(void)resource_free(resource);
	pool.is_healthy = false;
	resource = make(&pool);
	assert_int_equal(ask(resource, "0", "1", "2", &arena, &response, &err), -ENODEV);
	assert_string_equal(err.text, "invalid allocation request for \"rdma/hca\": no port of its "
				      "2 adapters is up");
	(void)resource_free(resource);
	arena_done(&arena);
	assert_int_equal(pool_status(-EINVAL), WIRE_INVALID_ARGUMENT);
	assert_int_equal(pool_status(-ENODEV), WIRE_FAILED_PRECONDITION);
}

/* What resource.h promises holds of them, too. */
static void test_as_a_resource(void **state)
{
	(void)state;
	struct kubelet_pool pool = pool_of(4);
	struct kubelet_resource *resource = make(&pool), *copy = NULL, *empty = NULL;
	assert_int_equal(resource_healthy(resource), 4);
	assert_null(resource_find(resource, "0"));
	assert_int_equal(resource_copy(resource, &copy, NULL), 0);
	assert_true(resource_is_same(resource, copy));
	assert_true(resource_list_is_same(resource, copy));
	resource_blame(copy, "gone");
	assert_int_equal(resource_healthy(copy), 0);
	assert_string_equal(copy->pool->reason, "gone");
	assert_false(resource_list_is_same(resource, copy));
	assert_false(resource_is_same(resource, copy));
	assert_int_equal(resource_empty(resource, &empty, NULL), 0);
	assert_int_equal(empty->device_count, 0);
	assert_string_equal(empty->endpoint, "rdma-rdma-hca.sock");
	(void)resource_free(copy);
	(void)resource_free(empty);
	/* Other nodes: another answer, and the same list. */
	pool.path_count = 2;
	copy = make(&pool);
	assert_true(resource_list_is_same(resource, copy));
	assert_false(resource_is_same(resource, copy));
	(void)resource_free(copy);
	(void)resource_free(resource);
}

static int scenario(void *context)
{
	const struct kubelet_pool pool = pool_of(100);
	struct kubelet_resource *resource = NULL;
	V1beta1__ListAndWatchResponse list;
	V1beta1__AllocateResponse response;
	struct arena arena;
	(void)context;
	arena_init(&arena, 1 << 20);
	int rc = pool_new("rdma/hca", &pool, &resource, NULL);
	if (rc == 0)
		rc = pool_list(resource, &arena, &list);
	if (rc == 0)
		rc = ask(resource, "0", "1", "2", &arena, &response, NULL);
	arena_done(&arena);
	(void)resource_free(resource);
	return rc;
}

static void test_without_memory(void **state)
{
	(void)state;
	assert_true(failmalloc_each(scenario, NULL) >= 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_endpoints),
	    cmocka_unit_test(test_the_list),
	    cmocka_unit_test(test_every_container_gets_every_node),
	    cmocka_unit_test(test_a_cdi_device_instead),
	    cmocka_unit_test(test_refused),
	    cmocka_unit_test(test_as_a_resource),
	    cmocka_unit_test(test_without_memory),
	};
	return cmocka_run_group_tests_name("doors/kubelet/pool", tests, NULL, NULL);
}
