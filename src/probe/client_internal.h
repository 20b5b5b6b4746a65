/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's state, shared by client.c (what the probe says), client_spawn.c (how it is started)
 * and client_collect.c (the one-shot form). Nobody else includes this.
 */
#ifndef SLUICE_PROBE_CLIENT_INTERNAL_H
#define SLUICE_PROBE_CLIENT_INTERNAL_H

#include "base/buf.h"
#include "base/file.h"
#include "hardware/callmark.h"
#include "hardware/inventory.h"
#include "probe/client.h"
#include "probe/message.h"

struct err;

enum probe_client_limits {
	CLIENT_QUEUE_MAX = 512,
	CLIENT_CRASHES_MAX = 2,	 /* then a one-shot client gives up */
	CLIENT_REAP_TRIES = 200, /* of a millisecond each, when the client stops */
};
#define CLIENT_BACKOFF_NS     UINT64_C(1000000000) /* after a probe that could not work */
#define CLIENT_BACKOFF_MAX_NS UINT64_C(30000000000)
#define CLIENT_RETRY_MAX_NS   UINT64_C(960000000000) /* between tries of a GPU that hangs */

struct client_skip {
	struct inventory_skip where;
	char uuid[GPU_UUID_MAX];
	char reason[GPU_REASON_MAX];
	bool hung; /* false while it is tried again */
	uint64_t retry_ns, retry_at_ns;
};

struct probe_client {
	char program[FILE_PATH_MAX];
	int program_fd;	  /* borrowed; 0: `program` is executed by its path */
	const char *root; /* borrowed: of the environment */
	uint64_t call_timeout_ns, init_timeout_ns, period_ns, retry_first_ns;
	bool once, kernel_log;
	int (*kill_fn)(pid_t pid, int signal_number);

	int epoll_fd, timer_fd;	  /* owned, for the client's life */
	pid_t pid;		  /* the present probe, -1: none */
	int fd;			  /* owned: its socket */
	struct call_marks *marks; /* owned mapping: its page */
	struct buf input;
	bool greeted, ended, expected_end;
	bool is_released; /* no probe is wanted now */
	bool log_is_live; /* the first probe has read the old records */
	uint64_t kmsg_after;
	uint64_t sequence; /* of the newest snapshot */
	uint64_t progress_ns, progress_count;
	uint64_t restart_at_ns, backoff_ns;

	uint32_t abandoned;
	uint32_t alive_count; /* processes that were left behind and are still there */
	pid_t alive[PROBE_ABANDONED_MAX + 1];

	uint32_t skip_count;
	struct client_skip skip[GPU_MAX];

	bool has_inventory;
	struct inventory inventory;
	struct snapshot *snapshot; /* owned */
	uint32_t crashes;	   /* probes that ended without a word since the last inventory */
	int down_code;
	char down_text[MESSAGE_TEXT_MAX];

	uint64_t queue_begin, queue_end;
	struct probe_event queue[CLIENT_QUEUE_MAX];
};

/* Fills client->program and program_fd. -ENOENT. */
int resolve_program(struct probe_client *client, const struct probe_options *options,
		    struct err *err);
/* Starts a probe: pid, fd and marks are set, or nothing is. */
int spawn_probe(struct probe_client *client, struct err *err);

#endif
