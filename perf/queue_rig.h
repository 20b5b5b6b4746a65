/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What several benchmarks measure on: a simulated machine, an agent of its own with its state on a
 * real disk, and clients on its socket. Fails by saying so and ending the program. Knows no gates.
 */
#ifndef SLUICE_PERF_QUEUE_RIG_H
#define SLUICE_PERF_QUEUE_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sluice.pb-c.h"

struct loop;
struct wire_client;

enum rig_limits {
	RIG_PATH_MAX = 512,
	RIG_ARGUMENTS_MAX = 16,
	RIG_ENVIRONMENT = 40, /* variables of a job, about 3 KiB in all */
	RIG_ENVIRONMENT_TEXT = 80,
};

struct rig {
	char directory[RIG_PATH_MAX]; /* below $TMPDIR or /tmp; all there is lies in it */
	char state[RIG_PATH_MAX];
	char socket[RIG_PATH_MAX];
	pid_t agent; /* 0: none runs */
	struct loop *loop;
	struct wire_client *client; /* connected while an agent runs */
	bool has_machine;
};

_Noreturn void rig_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define rig_must(condition, ...)                                                                   \
	do {                                                                                       \
		if (!(condition))                                                                  \
			rig_fail(__VA_ARGS__);                                                     \
	} while (0)

/* Makes the directory and starts a simulated machine of 8 GPUs. One at a time: it is taken away
 * when the program ends, however that happens short of SIGKILL. */
void rig_open(struct rig *rig);
/* The same of another profile of `sluice sim`, with this layout of MIG instances (NULL: none). */
void rig_open_machine(struct rig *rig, const char *profile, const char *mig);
/* Ends the agent and takes the machine away; another may be opened. */
void rig_close(struct rig *rig);
/* What agents that are started from now on are configured with: the text of a file. */
void rig_configure(struct rig *rig, const char *text);
/* The agent's next state is the directory of that name, which may be new. */
void rig_use_state(struct rig *rig, const char *name);

/* Starts an agent. Returns the time from just before it is started to its first answer. */
uint64_t rig_start_agent(struct rig *rig);
/* Starts one and does not wait for it, nor connects. Returns the time just before. */
uint64_t rig_launch_agent(struct rig *rig);
/* SIGKILL, and waits for its end. */
void rig_kill_agent(struct rig *rig);
/* SIGTERM, and waits for its end; for agents without jobs. */
void rig_terminate_agent(struct rig *rig);
/* Ends the agent, and then the jobs that run. */
void rig_stop_agent(struct rig *rig);

/* A request for this command, which ends in NULL, with an environment of a usual size. The strings
 * are borrowed; the rest is kept in `out`. */
struct rig_request {
	Sluice__V1__SubmitRequest submit;
	Sluice__V1__JobSpec spec;
	ProtobufCBinaryData argv[RIG_ARGUMENTS_MAX], environment[RIG_ENVIRONMENT];
	char variables[RIG_ENVIRONMENT][RIG_ENVIRONMENT_TEXT];
	char key[40];
};
void rig_request(struct rig_request *out, const char *const *argv, uint32_t gpus);
/* A new key: the same request is then another job. */
void rig_request_again(struct rig_request *request);
extern const struct wire_method rig_method_submit;

uint64_t rig_submit(struct rig *rig, const struct rig_request *request);
void rig_cancel(struct rig *rig, uint64_t id, uint64_t grace_ns);
/* Waits until the job is in this state. */
void rig_wait(struct rig *rig, uint64_t id, Sluice__V1__JobState state);
/* How many the agent has in a state, by its own word. */
uint64_t rig_pending(struct rig *rig);
uint64_t rig_running(struct rig *rig);

/* As a job: writes the time at which it runs, a uint64_t of gate_now_ns(), to the pipe of that
 * name. The exit status. */
int rig_stamp(const char *path);

#endif
