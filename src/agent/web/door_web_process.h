/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process sluice-web: started with what src/web/handed.h says, started again when it ends,
 * ended with the agent whatever becomes of that. All of it belongs to the loop's thread.
 */
#ifndef SLUICE_AGENT_WEB_DOOR_WEB_PROCESS_H
#define SLUICE_AGENT_WEB_DOOR_WEB_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

struct child_set;
struct err;
struct log;
struct loop;
struct web_process;

#define WEB_PROCESS_FIRST_NS                                                                       \
	UINT64_C(100000000) /* until it is started again, doubled each time                        \
			     */
#define WEB_PROCESS_LAST_NS UINT64_C(30000000000)
#define WEB_PROCESS_WELL_NS UINT64_C(10000000000) /* who ran so long is started at once */
#define WEB_PROCESS_STOP_NS UINT64_C(1000000000)  /* then it is killed */

enum web_process_limits { WEB_PROCESS_PROBLEM_MAX = 256 };

struct web_process_options {
	struct loop *loop; /* borrowed, all of these */
	struct child_set *children;
	struct log *log;     /* may be NULL */
	const char *program; /* of the web process; NULL: found beside this one */
	const char *passwd;  /* NULL: /etc/passwd */
	/* Just before it is started: two descriptors that become its own, the listening socket and
	 * the memory for reading. Given. -errno: not now; it is tried again. */
	int (*prepare)(int out_fds[2], void *context, struct err *err);
	/* It was started, and has seen nothing yet. */
	void (*started)(void *context);
	void *context;
};

/* Nothing is started yet. -ENOMEM. */
int web_process_new(const struct web_process_options *options, struct web_process **out,
		    struct err *err);
/* Ends it. NULL is fine, here and below; returns NULL. */
struct web_process *web_process_free(struct web_process *process);

/* Starts it; if it runs, another takes its place. */
void web_process_start(struct web_process *process);
void web_process_stop(struct web_process *process);
/* There is a new view. Never waits. */
void web_process_tick(struct web_process *process);

pid_t web_process_pid(const struct web_process *process); /* -1: none runs */
uint64_t web_process_restarts(const struct web_process *process);
/* Why it does not run, or how the one before ended; "" once it has run long enough. Borrowed. */
const char *web_process_problem(const struct web_process *process);

#endif
