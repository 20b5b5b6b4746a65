/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must not be forgotten of the GPUs' health when the agent is restarted, as text: marks with
 * cause and time, and in which boot of the machine they were made. Pure: bytes in, tracks out, and
 * back. Its file is agent/vitals.c's business.
 *
 *	sluice-health 1
 *	boot 6f0c0b5e-...
 *	kmsg 4711
 *	gpu GPU-51ce51ce-... 0 0000:07:00.0 NVIDIA A100-SXM4-40GB
 *	energy 123456
 *	ecc 2
 *	xid 48 1764000000000000000 3 0 4711 - - reset-seen
 *	held remap-failure
 *	end
 */
#ifndef SLUICE_HARDWARE_HEALTH_MARKS_H
#define SLUICE_HARDWARE_HEALTH_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hardware/gpu.h"
#include "hardware/health.h"

struct buf;
struct err;

enum health_marks_limits {
	HEALTH_MARKS_GPU_MAX = 2 * GPU_MAX, /* with those that are gone */
	HEALTH_MARKS_FILE_MAX = 1 << 20,    /* bytes */
	HEALTH_MARKS_BOOT_MAX = 40,
};
#define HEALTH_MARKS_NO_SEQUENCE UINT64_MAX

/* A GPU, and what is held against it: of the track only the events, what is held, the counters, the
 * recovery action of the log and whether a failed remapping was accepted. */
struct health_mark {
	char uuid[SNAPSHOT_TEXT_MAX], name[SNAPSHOT_TEXT_MAX], bus[SNAPSHOT_SHORT_MAX];
	uint32_t index;
	struct health_track track;
};

struct health_marks {
	char boot[HEALTH_MARKS_BOOT_MAX]; /* the boot in which it was written; "" not known */
	uint64_t kmsg_sequence; /* of the newest record of its log that is accounted for, or
				   HEALTH_MARKS_NO_SEQUENCE */
	uint32_t count;
	struct health_mark *marks; /* owned: health_marks_done() */
};

/* The head of a file, one GPU, and its end. 0, -ENOSPC, -ENOMEM. */
int health_marks_begin(struct buf *out, const char *boot, uint64_t kmsg_sequence);
int health_marks_add(struct buf *out, const struct health_mark *mark);
int health_marks_end(struct buf *out);
/* Whether there is anything about this GPU that is worth keeping. */
bool health_mark_is_empty(const struct health_track *track);

/* Reads all of it. -EINVAL (with the line) for what the above cannot have written, a cut file
 * included; -ENOMEM. `out` is untouched on failure. */
int health_marks_parse(const char *text, size_t length, struct health_marks *out, struct err *err);
void health_marks_done(struct health_marks *marks);
#define _cleanup_health_marks_ __attribute__((cleanup(health_marks_done)))

#endif
