/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "hardware/snapshot.h"
#include "unit/unit.h"

static void make(struct inventory *out)
{
	inventory_init(out);
	out->gpu_count = 2;
	out->gpus = calloc(2, sizeof(struct gpu));
	out->mig_count = 1;
	out->migs = calloc(1, sizeof(struct mig_device));
	assert_non_null(out->gpus);
	assert_non_null(out->migs);
	memcpy(out->gpus[1].uuid, "GPU-1", 6);
	out->gpus[1].link_count = 3;
	out->migs[0].parent = 1;
	memcpy(out->driver_version, "580.1", 6);
	out->level[0][1] = GPU_LEVEL_NODE;
}

static int frame(struct buf *out, const struct inventory *inventory)
{
	buf_init(out, MESSAGE_BODY_MAX + 100);
	return message_add_inventory(out, inventory);
}

static void test_inventory_round_trip(void **state)
{
	struct inventory sent, got;
	_cleanup_buf_ struct buf bytes;
	make(&sent);
	inventory_init(&got);
	enum message_kind kind;
	const void *body;
	size_t length, used;
	if (frame(&bytes, &sent) == 0) {
		assert_int_equal(
		    message_next(bytes.data, bytes.length, &kind, &body, &length, &used), 1);
		assert_int_equal(kind, MESSAGE_INVENTORY);
		assert_int_equal(used, bytes.length);
		if (message_read_inventory(body, length, &got) == 0) {
			assert_int_equal(got.gpu_count, 2);
			assert_string_equal(got.gpus[1].uuid, "GPU-1");
			assert_int_equal(got.migs[0].parent, 1);
			assert_int_equal(got.level[0][1], GPU_LEVEL_NODE);
			assert_ptr_not_equal(got.gpus, sent.gpus);
		}
	}
	inventory_done(&sent);
	inventory_done(&got);
}

static void test_incomplete_frames_wait(void **state)
{
	struct inventory sent;
	_cleanup_buf_ struct buf bytes;
	make(&sent);
	enum message_kind kind;
	const void *body;
	size_t length, used;
	if (frame(&bytes, &sent) == 0) {
		for (size_t n = 0; n < bytes.length; n += 97)
			assert_int_equal(message_next(bytes.data, n, &kind, &body, &length, &used),
					 0);
	}
	inventory_done(&sent);
}

static void test_foreign_heads(void **state)
{
	struct message_head head = {
	    .magic = MESSAGE_MAGIC, .version = MESSAGE_VERSION, .kind = MESSAGE_DONE};
	enum message_kind kind;
	const void *body;
	size_t length, used;
	assert_int_equal(message_next(&head, sizeof(head), &kind, &body, &length, &used), 1);
	head.magic++;
	assert_int_equal(message_next(&head, sizeof(head), &kind, &body, &length, &used), -EPROTO);
	head.magic--;
	head.version = 9;
	assert_int_equal(message_next(&head, sizeof(head), &kind, &body, &length, &used), -EPROTO);
	head.version = MESSAGE_VERSION;
	head.kind = 0;
	assert_int_equal(message_next(&head, sizeof(head), &kind, &body, &length, &used), -EPROTO);
	head.kind = 77;
	assert_int_equal(message_next(&head, sizeof(head), &kind, &body, &length, &used), -EPROTO);
	head.kind = MESSAGE_DONE;
	head.length = UINT32_MAX;
	assert_int_equal(message_next(&head, sizeof(head), &kind, &body, &length, &used), -EPROTO);
}

/* The probe runs the driver's code: what it sends may be anything. */
static void test_inventories_that_lie(void **state)
{
	struct inventory sent, got;
	_cleanup_buf_ struct buf bytes;
	make(&sent);
	if (frame(&bytes, &sent) < 0) {
		inventory_done(&sent);
		return;
	}
	size_t length = bytes.length - sizeof(struct message_head);
	_cleanup_free_ char *body = malloc(length); /* aligned, unlike what follows a head */
	if (!body) {
		inventory_done(&sent);
		return;
	}
	memcpy(body, bytes.data + sizeof(struct message_head), length);
	struct inventory *head = (struct inventory *)(void *)body;
	struct gpu *gpus = (struct gpu *)(void *)(body + sizeof(*head));
	struct mig_device *mig = (struct mig_device *)(void *)(gpus + 2);
#define REFUSED(change, undo)                                                                      \
	do {                                                                                       \
		change;                                                                            \
		assert_int_equal(message_read_inventory(body, length, &got), -EPROTO);             \
		undo;                                                                              \
	} while (0)
	assert_int_equal(message_read_inventory(body, length - 1, &got), -EPROTO);
	assert_int_equal(message_read_inventory(body, 3, &got), -EPROTO);
	REFUSED(head->gpu_count = 65, head->gpu_count = 2);
	REFUSED(head->gpu_count = UINT32_MAX, head->gpu_count = 2);
	REFUSED(head->mig_count = 2, head->mig_count = 1);
	REFUSED(head->driver_version[GPU_VERSION_MAX - 1] = 'x';
		memset(head->driver_version, 'x', GPU_VERSION_MAX), head->driver_version[3] = 0);
	REFUSED(gpus[0].state = 99, gpus[0].state = 0);
	REFUSED(gpus[1].link_count = 37, gpus[1].link_count = 3);
	REFUSED(gpus[1].link[2].peer = 99, gpus[1].link[2].peer = 0);
	REFUSED(gpus[1].mig_max = 17, gpus[1].mig_max = 0);
	REFUSED(memset(gpus[1].uuid, 'x', GPU_UUID_MAX), gpus[1].uuid[3] = 0);
	REFUSED(mig->parent = 2, mig->parent = 1);
	int rc = message_read_inventory(body, length, &got);
	assert_true(rc == 0 || rc == -ENOMEM);
	if (rc == 0)
		inventory_done(&got);
	inventory_done(&sent);
}

static void test_small_bodies(void **state)
{
	struct message_notice notice = {.code = -ENODEV, .text = "why"}, got;
	assert_int_equal(message_read_notice(&notice, sizeof(notice), &got), 0);
	assert_string_equal(got.text, "why");
	assert_int_equal(message_read_notice(&notice, sizeof(notice) - 1, &got), -EPROTO);
	notice.code = 5;
	assert_int_equal(message_read_notice(&notice, sizeof(notice), &got), -EPROTO);
	struct message_event event = {.kmsg_sequence = 3}, event_got;
	event.event.kind = PROBE_EVENT_XID;
	assert_int_equal(message_read_event(&event, sizeof(event), &event_got), 0);
	event.event.kind = PROBE_EVENT_KIND_COUNT;
	assert_int_equal(message_read_event(&event, sizeof(event), &event_got), -EPROTO);
	event.event.kind = PROBE_EVENT_XID;
	memset(event.event.text, 'x', sizeof(event.event.text));
	assert_int_equal(message_read_event(&event, sizeof(event), &event_got), -EPROTO);
	struct snapshot *snapshot = NULL;
	assert_int_equal(message_read_snapshot(&event, sizeof(event), &snapshot), -EPROTO);
	assert_null(snapshot);
}

static void test_too_long(void **state)
{
	_cleanup_buf_ struct buf bytes;
	buf_init(&bytes, 100);
	assert_int_equal(message_add(&bytes, MESSAGE_EVENT, &bytes, MESSAGE_BODY_MAX + 1), -ENOSPC);
	char body[200] = "";
	int rc = message_add(&bytes, MESSAGE_EVENT, body, sizeof(body));
	assert_true(rc == -ENOSPC || rc == -ENOMEM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_inventory_round_trip),
	    cmocka_unit_test(test_incomplete_frames_wait),
	    cmocka_unit_test(test_foreign_heads),
	    cmocka_unit_test(test_inventories_that_lie),
	    cmocka_unit_test(test_small_bodies),
	    cmocka_unit_test(test_too_long),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
