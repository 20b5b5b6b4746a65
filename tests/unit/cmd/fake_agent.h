/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An agent with one job, on the test's own loop: what is asked of it is counted, what it answers
 * the test decides. Not started by itself.
 */
#ifndef TESTS_UNIT_CMD_FAKE_AGENT_H
#define TESTS_UNIT_CMD_FAKE_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include "sluice.pb-c.h"
#include "wire/server.h"
#include "wire/status.h"

enum { FAKE_WATCHERS_MAX = 4, FAKE_SUBMITS_MAX = 64 };

struct fake_agent {
	struct loop *loop; /* borrowed */
	struct wire_server *server;
	char path[128];

	Sluice__V1__Job job;
	Sluice__V1__Attempt attempt;
	struct wire_call *watcher[FAKE_WATCHERS_MAX]; /* NULL: free */
	enum wire_status refuse;		      /* everything, with this; WIRE_OK: nothing */
	enum wire_status refuse_signal;
	const char *log; /* of the job, sent in pieces of `piece` bytes */
	size_t piece;
	bool log_from_start; /* whatever was asked for: what was shown before comes again */
	bool log_stays;	     /* the stream does not end by itself */
	unsigned watches, gets, signals, cancels, logs;
	unsigned submits; /* that wait: not answered before fake_agent_answer() */
	struct wire_call *submit[FAKE_SUBMITS_MAX];
	char submit_keys[FAKE_SUBMITS_MAX][64];
	const char *refuse_key; /* of one that is refused; NULL: none */
	uint32_t last_signal;
	uint64_t last_grace_ns, last_offset;
};

/* Fails the test if it cannot. Job 17, Pending. */
void fake_agent_start(struct fake_agent *fake, struct loop *loop, const char *directory);
/* As if it were killed; fake_agent_again() is the next one, with the same job. */
void fake_agent_stop(struct fake_agent *fake);
void fake_agent_again(struct fake_agent *fake);
/* Tells the job to everybody who watches it; a final one ends their streams. */
void fake_agent_tell(struct fake_agent *fake);
/* Answers all submissions that wait, the first with the number `id`. */
void fake_agent_answer(struct fake_agent *fake, uint64_t id);
/* Passes of the loop until `*condition` is true; fails after ten seconds. */
void fake_agent_until(struct fake_agent *fake, const bool *condition);

#endif
