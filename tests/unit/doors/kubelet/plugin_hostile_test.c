/* SPDX-License-Identifier: Apache-2.0 */
/* Callers that do not read, ask too much, ask all at once, or say what is no protocol at all. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "doors/kubelet/resource.h"
#include "tests/unit/doors/kubelet/door.h"
#include "wire/message.h"

#define SERVICE "/v1beta1.DevicePlugin/"

static void open_peer(struct door *door, struct peer *peer)
{
	peer_connect(peer, door->fixture);
	raw_preface(&peer->raw);
}

/* The plugin still answers who asks as he should. */
static void expect_service(struct door *door)
{
	static const char *const ids[] = {"GPU-a", NULL};
	enum wire_status status;
	assert_string_equal(door_allocate(door, ids, &status), "");
	assert_int_equal(status, WIRE_OK);
}

/* --- who does not read --- */

static void update(struct door *door, unsigned gpu, bool healthy)
{
	door->rig->gpus[gpu].state = healthy ? GPU_STATE_OK : GPU_STATE_LOST;
	door_update(door, DOOR_SHARED);
	plugin_flush(door->plugin);
}

/* Length of the `number`th message in what came, and where it begins; 0: it is not whole. */
static size_t message_at(const struct peer *peer, unsigned number, const uint8_t **out)
{
	const uint8_t *at = (const uint8_t *)peer->raw.body.data;
	size_t left = peer->raw.body.length;
	for (;; number--) {
		if (left < WIRE_FRAME_HEADER)
			return 0;
		size_t length =
		    (size_t)at[1] << 24 | (size_t)at[2] << 16 | (size_t)at[3] << 8 | at[4];
		if (length > left - WIRE_FRAME_HEADER)
			return 0;
		*out = at + WIRE_FRAME_HEADER;
		if (number == 0)
			return length;
		at += WIRE_FRAME_HEADER + length;
		left -= WIRE_FRAME_HEADER + length;
	}
}

static bool has_second(void *context)
{
	struct peer *peer = context;
	const uint8_t *data;
	if (peer->raw.out.length > 0)
		peer_send(peer);
	peer_receive(peer);
	return message_at(peer, 1, &data) > 0;
}

static void test_who_never_reads_costs_one_list(void **state)
{
	static const uint8_t window[4] = {0x10};
	struct door *door = *state;
	struct peer peer;
	V1beta1__Empty request = V1BETA1__EMPTY__INIT;
	door_open(door, DOOR_SHARED);
	open_peer(door, &peer);
	raw_call(&peer.raw, 1, SERVICE "ListAndWatch");
	raw_message(&peer.raw, RAW_END_STREAM, 1, &request.base);
	peer_expect(&peer, door->fixture, "DATA 1 ");
	size_t before = door_counts(door).output_bytes;
	assert_in_range(before, 200000, 1000000);
	for (unsigned i = 0; i < 30; i++) {
		update(door, i / 2 % 16, i % 2);
		door_idle(door);
	}
	update(door, 5, false);
	door_idle(door);
	assert_in_range(door_counts(door).output_bytes, 1, before);
	assert_int_equal(door_counts(door).lists, 1);
	/* Now he reads: what had begun, and then what is now, and nothing of what was between. */
	raw_frame(&peer.raw, NGHTTP2_WINDOW_UPDATE, 0, 0, window, sizeof(window));
	raw_frame(&peer.raw, NGHTTP2_WINDOW_UPDATE, 0, 1, window, sizeof(window));
	fixture_run(door->fixture, has_second, &peer);
	assert_int_equal(door_counts(door).lists, 2);
	const uint8_t *data = NULL;
	size_t length = message_at(&peer, 1, &data);
	V1beta1__ListAndWatchResponse *list =
	    v1beta1__list_and_watch_response__unpack(NULL, length, data);
	assert_non_null(list);
	size_t unhealthy = 0, wrong = 0, count = list->n_devices;
	for (size_t i = 0; i < count; i++) {
		bool bad = strcmp(list->devices[i]->health, "Unhealthy") == 0;
		unhealthy += bad;
		wrong += bad && strncmp(list->devices[i]->id, "GPU-f::", 7) != 0;
	}
	protobuf_c_message_free_unpacked(&list->base, NULL);
	assert_int_equal(count, 16000);
	assert_int_equal(unhealthy, 1000);
	assert_int_equal(wrong, 0);
	peer_done(&peer);
}

/* Lists of which several would fit into what may wait for the reader of any other stream. */
static void test_small_lists_do_not_queue_up(void **state)
{
	static const char config[] = RIG_SHARE("{name: gpu, replicas: 250}");
	struct door *door = *state;
	struct peer peer;
	V1beta1__Empty request = V1BETA1__EMPTY__INIT;
	door_open(door, config);
	open_peer(door, &peer);
	raw_call(&peer.raw, 1, SERVICE "ListAndWatch");
	raw_message(&peer.raw, RAW_END_STREAM, 1, &request.base);
	peer_expect(&peer, door->fixture, "DATA 1 ");
	for (unsigned i = 0; i < 20; i++) {
		door->rig->gpus[0].state = i % 2 ? GPU_STATE_OK : GPU_STATE_LOST;
		door_update(door, config);
		plugin_flush(door->plugin);
		door_idle(door);
		peer_receive(&peer); /* but his window stays as it was at first */
	}
	const uint8_t *data;
	size_t length = message_at(&peer, 0, &data);
	assert_in_range(length, 20000, 40000);
	assert_in_range(door_counts(door).output_bytes, 1, length);
	assert_int_equal(door_counts(door).lists, 65535 / length + 1);
	peer_done(&peer);
}

static void test_who_does_not_read_does_not_hold_up_others(void **state)
{
	struct door *door = *state;
	struct peer peers[4];
	V1beta1__Empty request = V1BETA1__EMPTY__INIT;
	door_open(door, DOOR_SHARED);
	for (unsigned i = 0; i < 4; i++) {
		open_peer(door, &peers[i]);
		raw_call(&peers[i].raw, 1, SERVICE "ListAndWatch");
		raw_message(&peers[i].raw, RAW_END_STREAM, 1, &request.base);
		peer_expect(&peers[i], door->fixture, "DATA 1 ");
	}
	struct caller *caller = door_watch(door, 0);
	door_expect_lists(caller, 1);
	for (unsigned i = 0; i < 6; i++) {
		update(door, 1, i % 2);
		door_expect_lists(caller, 2 + i);
		assert_int_equal(strstr(caller->list, "Unhealthy") == NULL, i % 2);
	}
	assert_int_equal(door_counts(door).lists, 4 + 7);
	for (unsigned i = 0; i < 4; i++)
		peer_done(&peers[i]);
}

/* --- who asks for much --- */

struct crowd {
	struct door *door;
	size_t answered, right, ended;
};

static struct crowd_call {
	struct crowd *crowd;
	char id[RESOURCE_ID_MAX];
} crowd_calls[1000];

static void on_crowd_reply(const ProtobufCMessage *message, void *context)
{
	const struct crowd_call *call = context;
	const V1beta1__AllocateResponse *response = (const void *)message;
	call->crowd->answered++;
	if (response->n_container_responses != 1 || response->container_responses[0]->n_envs != 1)
		return;
	const char *value = response->container_responses[0]->envs[0]->value;
	size_t length = strlen(value);
	call->crowd->right +=
	    strncmp(value, call->id, length) == 0 && strncmp(call->id + length, "::", 2) == 0;
}

static void on_crowd_end(const struct wire_result *result, void *context)
{
	const struct crowd_call *call = context;
	call->crowd->ended += result->status == WIRE_OK;
}

static bool is_crowd_done(void *context)
{
	const struct crowd *crowd = context;
	return crowd->ended >= 1000;
}

static void test_a_thousand_allocations_at_once(void **state)
{
	struct door *door = *state;
	static struct crowd crowd;
	crowd = (struct crowd){.door = door};
	door_open(door, DOOR_SHARED);
	struct caller *caller = NULL;
	for (unsigned i = 0; i < 1000; i++) {
		struct crowd_call *call = &crowd_calls[i];
		const struct wire_client_callbacks callbacks = {on_crowd_reply, on_crowd_end, call};
		char *ids[] = {call->id};
		V1beta1__ContainerAllocateRequest container =
		    V1BETA1__CONTAINER_ALLOCATE_REQUEST__INIT;
		V1beta1__ContainerAllocateRequest *containers[] = {&container};
		V1beta1__AllocateRequest request = V1BETA1__ALLOCATE_REQUEST__INIT;
		if (i % 100 == 0)
			caller = door_connect(door, i / 100);
		call->crowd = &crowd;
		(void)snprintf(call->id, sizeof(call->id), "GPU-%c::%u", 'a' + (int)(i % 16), i);
		request.n_container_requests = container.n_devices_ids = 1;
		request.container_requests = containers;
		container.devices_ids = ids;
		assert_non_null(wire_client_call(caller->client, &door_methods[DOOR_ALLOCATE],
						 &request.base, 0, &callbacks, NULL));
	}
	fixture_run(door->fixture, is_crowd_done, &crowd);
	assert_int_equal(crowd.answered, 1000);
	assert_int_equal(crowd.right, 1000);
	assert_int_equal(door_counts(door).allocations, 1000);
	assert_int_equal(door_counts(door).refused, 0);
}

/* A container that asks for every device there is, of the longest ids that there may be. */
static void ask_for_all(struct door *door, const char *format, struct wire_result *out)
{
	enum { ALL = 16000 };
	static char ids[ALL][RESOURCE_ID_MAX];
	static char *names[ALL];
	V1beta1__ContainerAllocateRequest container = V1BETA1__CONTAINER_ALLOCATE_REQUEST__INIT;
	V1beta1__ContainerAllocateRequest *containers[] = {&container};
	V1beta1__AllocateRequest request = V1BETA1__ALLOCATE_REQUEST__INIT;
	request.n_container_requests = 1;
	request.container_requests = containers;
	container.n_devices_ids = ALL;
	container.devices_ids = names;
	for (unsigned i = 0; i < ALL; i++) {
		names[i] = ids[i];
		(void)snprintf(ids[i], sizeof(ids[i]), format, 'a' + (int)(i % 16), i / 16);
	}
	ProtobufCMessage *reply = door_ask(door, DOOR_ALLOCATE, &request.base, out);
	if (reply)
		protobuf_c_message_free_unpacked(reply, NULL);
}

static void test_all_devices_at_once(void **state)
{
	struct door *door = *state;
	struct wire_result result;
	door_open(door, DOOR_SHARED);
	ask_for_all(door, "GPU-%c::%u", &result);
	assert_int_equal(result.status, WIRE_OK);
	ask_for_all(door, "%c%062u", &result);
	assert_int_equal(result.status, WIRE_UNKNOWN);
	assert_non_null(strstr(result.message, "unknown device: a000000"));
}

static void test_requests_over_the_cap(void **state)
{
	/* A frame that announces a byte more than is taken: refused before any of it comes. */
	static const uint8_t allocate[5] = {0, 0, 0x40, 0, 1}, options[5] = {0, 0, 0, 0x10, 1};
	struct door *door = *state;
	struct peer peer;
	door_open(door, "");
	open_peer(door, &peer);
	raw_call(&peer.raw, 1, SERVICE "Allocate");
	raw_data(&peer.raw, 0, 1, allocate, sizeof(allocate));
	raw_call(&peer.raw, 3, SERVICE "GetPreferredAllocation");
	raw_data(&peer.raw, 0, 3, allocate, sizeof(allocate));
	raw_call(&peer.raw, 5, SERVICE "GetDevicePluginOptions");
	raw_data(&peer.raw, 0, 5, options, sizeof(options));
	peer_expect(&peer, door->fixture, "HEADERS 5 ");
	assert_int_equal(raw_count(&peer.raw, "grpc-status=8"), 3);
	expect_service(door);
	peer_done(&peer);
}

/* --- who speaks otherwise --- */

static void test_what_stands_in_a_message(void **state)
{
	static const struct {
		const char *method, *bytes;
		size_t length;
		const char *status;
	} rows[] = {
	    {"Allocate", "\0\0\0\0\3\xff\xff\xff", 8, "grpc-status=13"},
	    /* An id that is no text. */
	    {"Allocate", "\0\0\0\0\6\x0a\4\x0a\2\xff\xfe", 11, "grpc-status=13"},
	    /* One with a NUL. */
	    {"Allocate", "\0\0\0\0\5\x0a\3\x0a\1\0", 10, "grpc-status=13"},
	    /* Longer than what is around it. */
	    {"Allocate", "\0\0\0\0\4\x0a\2\x0a\x7f", 9, "grpc-status=13"},
	    {"Allocate", "\0\0\0\0\3\x0a", 6, "grpc-status=13"},
	    {"GetPreferredAllocation", "\0\0\0\0\2\x0a\x7f", 7, "grpc-status=13"},
	    {"ListAndWatch", "\0\0\0\0\1\x07", 6, "grpc-status=13"},
	    {"Allocate", "\2\0\0\0\0", 5, "grpc-status=13"},
	    {"Allocate", "", 0, "grpc-status=12"}, /* no message at all */
	    {"Nothing", "\0\0\0\0\0", 5, "grpc-status=12"},
	    /* Nobody's request is answered for nobody; fields of a later version are passed over.
	     */
	    {"Allocate", "\0\0\0\0\0", 5, "grpc-status=0 end"},
	    {"Allocate", "\0\0\0\0\3\xf8\x7\1", 8, "grpc-status=0 end"},
	    {"GetPreferredAllocation", "\0\0\0\0\2\x0a\0", 7, "grpc-status=0 end"},
	};
	struct door *door = *state;
	door_open(door, "");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct peer peer;
		char path[100];
		(void)snprintf(path, sizeof(path), SERVICE "%s", rows[i].method);
		open_peer(door, &peer);
		raw_call(&peer.raw, 1, path);
		raw_data(&peer.raw, RAW_END_STREAM, 1, rows[i].bytes, rows[i].length);
		peer_expect(&peer, door->fixture, "grpc-status=");
		if (!raw_saw(&peer.raw, rows[i].status))
			fail_msg("row %zu: %s", i, buf_text(&peer.raw.trace));
		peer_done(&peer);
	}
	assert_int_equal(door_counts(door).protocol_errors, 0);
	expect_service(door);
}

/* Old kubelets name the socket there. */
static void test_any_authority(void **state)
{
	const struct raw_field fields[] = {
	    {":method", "POST"},
	    {":scheme", "http"},
	    {":path", SERVICE "GetDevicePluginOptions"},
	    {":authority", "/var/lib/kubelet/device-plugins/nvidia-gpu.sock"},
	    {"content-type", "application/grpc"},
	    {NULL, NULL},
	};
	struct door *door = *state;
	struct peer peer;
	V1beta1__Empty request = V1BETA1__EMPTY__INIT;
	door_open(door, "");
	open_peer(door, &peer);
	raw_headers(&peer.raw, RAW_END_HEADERS, 1, fields);
	raw_message(&peer.raw, RAW_END_STREAM, 1, &request.base);
	peer_expect(&peer, door->fixture, "HEADERS 1 grpc-status=0 end");
	peer_done(&peer);
}

static void test_what_is_no_http2(void **state)
{
	static const struct {
		const char *bytes;
		size_t length;
	} rows[] = {
	    {"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 35},
	    {"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24},
	    {"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", 24},
	    /* A frame of 16 MiB less one, of no known stream. */
	    {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\0\0\0\0\0\1", 33},
	    /* HEADERS before SETTINGS, then padding beyond the frame. */
	    {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0\0\0\1\1\x0c\0\0\0\1\xff", 43},
	};
	struct door *door = *state;
	door_open(door, "");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct peer peer;
		peer_connect(&peer, door->fixture);
		assert_int_equal(buf_add(&peer.raw.out, rows[i].bytes, rows[i].length), 0);
		peer_expect_closed(&peer, door->fixture);
		assert_int_equal(door_counts(door).protocol_errors, i + 1);
		peer_done(&peer);
	}
	expect_service(door);
}

/* Bytes of no meaning, behind a beginning that has one. */
static void test_noise(void **state)
{
	struct door *door = *state;
	uint64_t seed = 20261122;
	door_open(door, "");
	for (unsigned i = 0; i < 200; i++) {
		struct peer peer;
		uint8_t noise[300];
		for (size_t j = 0; j < sizeof(noise); j++) {
			seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
			noise[j] = (uint8_t)(seed >> 56);
		}
		open_peer(door, &peer);
		if (i % 3 == 1) /* a frame whose length is right */
			raw_frame(&peer.raw, (uint8_t)(i / 3 % 10), noise[0], i % 5, noise + 1, 40);
		else if (i % 3 == 2)
			raw_call(&peer.raw, 1, SERVICE "Allocate");
		assert_int_equal(buf_add(&peer.raw.out, noise, sizeof(noise)), 0);
		peer_send(&peer);
		(void)shutdown(peer.fd, SHUT_WR);
		peer_expect_closed(&peer, door->fixture);
		peer_done(&peer);
	}
	assert_int_equal(door_counts(door).connections, 0);
	assert_int_equal(door_counts(door).streams, 0);
	expect_service(door);
}

#define door_test(name)	 cmocka_unit_test_setup_teardown(name, door_set_up, door_tear_down)
#define large_test(name) cmocka_unit_test_setup_teardown(name, door_set_up_large, door_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    large_test(test_who_never_reads_costs_one_list),
	    door_test(test_small_lists_do_not_queue_up),
	    large_test(test_who_does_not_read_does_not_hold_up_others),
	    large_test(test_a_thousand_allocations_at_once),
	    large_test(test_all_devices_at_once),
	    door_test(test_requests_over_the_cap),
	    door_test(test_what_stands_in_a_message),
	    door_test(test_any_authority),
	    door_test(test_what_is_no_http2),
	    door_test(test_noise),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
