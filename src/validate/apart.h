/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs functions in processes of their own, which report through a pipe: a driver that crashes,
 * hangs or calls exit() ends one of them and not us. Each has a deadline. Blocks until all have
 * ended or were given up. Knows nothing of what they do.
 */
#ifndef SLUICE_VALIDATE_APART_H
#define SLUICE_VALIDATE_APART_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "bench/checks.h"

enum apart_limits {
	APART_JOBS_MAX = 64,
	APART_KILL_WAIT_MS = 2000,  /* for the end after SIGKILL; then it is left behind */
	APART_EXIT_WAIT_MS = 30000, /* for what the driver tidies up when it ends by itself */
};

enum apart_how {
	APART_DONE,	 /* the function returned 0 */
	APART_FAILED,	 /* it returned an error: `err` */
	APART_KILLED,	 /* a signal ended it: `signal_number` */
	APART_EXITED,	 /* something in it called exit(): `code` */
	APART_TIMED_OUT, /* nothing was heard of it for so long, and it was killed */
	APART_STOPPED,	 /* *stop became true */
	APART_HOW_COUNT,
};

struct apart_job {
	int (*run)(void *context, const struct checks_sink *sink, struct err *err);
	void *context; /* borrowed; the child has a copy of it */
	/* How long it may be silent, and how long it may take. */
	uint64_t silence_ns, timeout_ns;
	/* Filled: */
	enum apart_how how;
	int code, signal_number;
	struct err err;
	bool is_left_behind; /* SIGKILL did not end it: it hangs in the kernel */
};

struct apart {
	struct apart_job *jobs;
	uint32_t count; /* all run at the same time; APART_JOBS_MAX at most */
	/* Gets what they report, `job` being their number. CHECKS_ERROR does not come here. */
	struct checks_sink sink;
	const volatile sig_atomic_t *stop; /* NULL: none */
	/* Called about once a second meanwhile; NULL. */
	void (*tick)(void *context, uint64_t elapsed_ns);
	void *context;
};

/* 0 also when jobs failed: each says how it ended. -EAGAIN, -EMFILE, -ENOMEM: they could not be
 * started, and none runs. */
int apart_run(const struct apart *apart, struct err *err);
/* "killed by SIGSEGV", "no answer for 60 s: ended". `out` has CHECKS_TEXT_MAX bytes. */
const char *apart_describe(const struct apart_job *job, char out[CHECKS_TEXT_MAX]);

#endif
