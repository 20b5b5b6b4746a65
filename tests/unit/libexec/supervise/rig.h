/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An agent for one job, without its queue: makes the job's directory, starts the real supervisor as
 * the agent does, and hears what it says. Every wait has a deadline and fails the test.
 */
#ifndef TESTS_UNIT_LIBEXEC_SUPERVISE_RIG_H
#define TESTS_UNIT_LIBEXEC_SUPERVISE_RIG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "job/control.h"
#include "job/jobdir.h"
#include "job/launch.h"

struct token;

/* What the device of rig_grant() is called, before a number of 12 digits: the test's pid. */
#define RIG_UUID "GPU-5e7d0000-0000-4000-8000-"

struct rig {
	char *tmp;   /* owned */
	char *state; /* owned; where j/ is */
	int state_fd, job_fd, control_fd;
	int error_fd; /* the read end of the supervisor's stderr */
	pid_t pid;    /* of the supervisor; 0: not started, or reaped */
	struct launch launch;
	const char *program; /* NULL: sluice-supervise */
};

/* Setup and teardown of a case: `*state` is a rig. */
int rig_new(void **state);
int rig_free(void **state);

/* The command is /bin/sh -c SCRIPT; $1 is the rig's directory. */
void rig_script(struct rig *rig, const char *script);
/* Grants the first slots of a device of this process alone, so that tests beside this one do not
 * take its tokens; it has one slot more. */
void rig_grant(struct rig *rig, uint32_t slots);
/* Takes a token of that device, as somebody else would. -EBUSY. */
int rig_take(const struct rig *rig, uint32_t slot, struct token *out);
void rig_start(struct rig *rig);
/* Connects to the supervisor, waiting until it listens. */
int rig_connect(struct rig *rig);
/* As an agent starts a job: the three above. */
void rig_run(struct rig *rig, const char *script);

/* Receives until `kind` comes. */
struct control_message rig_expect_on(int fd, enum control_kind kind);
struct control_message rig_expect(struct rig *rig, enum control_kind kind);
/* Waits until the other side closes. */
void rig_expect_end(int fd);
void rig_send(int fd, enum control_kind kind, int64_t value, uint64_t extra);
/* Waits for the supervisor's end; what it exited with, or -signal. */
int rig_wait(struct rig *rig);
/* rig_wait(), which must be 0, and the result. */
struct jobdir_result rig_finish(struct rig *rig);

/* Waits until DIRECTORY/NAME is there and is a whole line; returns it (static buffer). */
const char *rig_read(struct rig *rig, const char *name);
/* The number in that line. */
pid_t rig_read_pid(struct rig *rig, const char *name);
/* out.1 of the job (static buffer). */
const char *rig_output(struct rig *rig);
/* Waits until there is no such process. */
void rig_wait_gone(pid_t pid);
bool rig_is_alive(pid_t pid);

#endif
