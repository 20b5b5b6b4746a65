/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One output of a job, shown as it is written: from its file where this user may read it, so that
 * no agent is in the way, else from the agent. Every byte once, in order, whatever is lost on the
 * way. The reader may be slow or gone; the loop goes on meanwhile. Knows nothing of jobs' states.
 */
#ifndef SLUICE_CMD_JOBS_LOG_FOLLOW_H
#define SLUICE_CMD_JOBS_LOG_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

struct err;
struct log_follow;
struct log_pair;
struct loop;
struct wire_client;

enum log_follow_limits {
	LOG_FOLLOW_READ = 64 << 10, /* bytes at a time */
	LOG_FOLLOW_TURN = 1 << 20,  /* bytes before others on the loop get their turn */
	LOG_FOLLOW_WRITE = 4096,    /* PIPE_BUF: as much as a pipe that is ready takes at once */
	LOG_FOLLOW_POLL_MS = 25,    /* between two looks, where the kernel does not tell */
	LOG_FOLLOW_SURE_MS = 1000,  /* between two looks although it does */
	LOG_FOLLOW_YOUNG_MS = 5,    /* to the second look, then doubling ... */
	LOG_FOLLOW_LISTEN_MS = 100, /* ... up to this: from then on the kernel is asked to tell */
	LOG_FOLLOW_PATH_MAX = 4096,
};

struct log_follow_options {
	struct loop *loop; /* borrowed */
	int out_fd;	   /* borrowed */
	uint64_t offset;   /* the first byte that is wanted */
	bool is_screen;	   /* a terminal: what it would obey is shown instead, as screen.h has it */
	/*
	 * Told once: 0, all is shown; -EPIPE, nobody reads it any more; -ECONNRESET, the agent is
	 * gone (log_follow_remote() goes on with the next one); else what failed. It is not freed.
	 */
	void (*ended)(int result, const struct err *err, void *context);
	void *context;
};

/* Follows a file. NULL: -ENOENT, -EACCES, ..., -EINVAL for what is no plain file. */
struct log_follow *log_follow_file(const char *path, const struct log_follow_options *options,
				   struct err *err);
/* Follows both outputs as one (given, also where this fails; options->offset means nothing). NULL:
 * no memory. */
struct log_follow *log_follow_pair(struct log_pair *pair, const struct log_follow_options *options,
				   struct err *err);
/* Something was shown whose order nobody knows. */
bool log_follow_is_unordered(const struct log_follow *follow);
/* Follows by way of the agent: output or error output of an attempt of a job. NULL: as
 * wire_client_call(). */
struct log_follow *log_follow_remote(struct wire_client *client, uint64_t id, uint32_t attempt,
				     bool is_stderr, bool follow,
				     const struct log_follow_options *options, struct err *err);
/* Nothing more will be written: ends when all that is there has been shown. The agent's stream
 * knows by itself. */
void log_follow_finish(struct log_follow *follow);
/* The byte after the last one that was shown. */
uint64_t log_follow_offset(const struct log_follow *follow);
/* The connection that it used is gone already (freed): it is not to be cancelled there. */
void log_follow_disconnect(struct log_follow *follow);
struct log_follow *log_follow_free(struct log_follow *follow);

#endif
