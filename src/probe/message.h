/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a probe says to its client: frames on a stream socket, a head and a body. Both are the same
 * program of the same build, but the reader trusts nothing: the probe is the process that runs the
 * driver's code. Pure: bytes in, structs out.
 */
#ifndef SLUICE_PROBE_MESSAGE_H
#define SLUICE_PROBE_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "hardware/gpu.h"
#include "probe/client.h"

struct buf;
struct err;
struct snapshot;

#define MESSAGE_MAGIC	UINT32_C(0x534c5052) /* "SLPR" */
#define MESSAGE_VERSION 1

enum probe_message_limits {
	MESSAGE_BODY_MAX = 1 << 20,
	MESSAGE_TEXT_MAX = 512,
};

enum message_kind {
	MESSAGE_INVENTORY = 1,
	MESSAGE_SNAPSHOT,
	MESSAGE_EVENT,
	MESSAGE_DRIVER_DOWN, /* struct message_notice: no usable driver; the probe ends */
	MESSAGE_RESTART,     /* struct message_notice: the library has to be initialised anew */
	MESSAGE_DONE,	     /* `once`, all said */
};

struct message_head {
	uint32_t magic;
	uint16_t version, kind;
	uint32_t length; /* of the body */
};

struct message_notice {
	int32_t code; /* -errno */
	char text[MESSAGE_TEXT_MAX];
};

struct message_event {
	struct probe_event event;
	uint64_t kmsg_sequence; /* of the record; UINT64_MAX when it came otherwise */
};

/* Appends a whole frame. 0, -ENOSPC, -ENOMEM. */
int message_add(struct buf *out, enum message_kind kind, const void *body, size_t length);
int message_add_inventory(struct buf *out, const struct inventory *inventory);

/* Looks at what has come in: 1 and the frame (borrowed from `bytes`; `*out_used` is its length with
 * the head), 0 when it is not complete yet, -EPROTO when it is none. */
int message_next(const void *bytes, size_t length, enum message_kind *out_kind,
		 const void **out_body, size_t *out_length, size_t *out_used);

/* These check every count, text and enum. -EPROTO when something is wrong; `out` is untouched. */
int message_read_inventory(const void *body, size_t length, struct inventory *out);
/* As long as snapshot_length() says for its GPUs, and no longer. Owned: free(). */
int message_read_snapshot(const void *body, size_t length, struct snapshot **out);
int message_read_event(const void *body, size_t length, struct message_event *out);
int message_read_notice(const void *body, size_t length, struct message_notice *out);

#endif
