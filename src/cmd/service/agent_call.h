/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How commands talk to the agent: find it, connect, ask one thing or follow a stream, and make an
 * exit code of what it says. Knows nothing of what is asked. proto/sluice.proto has the messages.
 *
 *	_cleanup_agent_call_ struct agent_call agent = AGENT_CALL_NONE;
 *	const struct agent_call_options how = {.socket = options->socket};
 *	int rc = agent_call_open(&agent, &how, &err);
 *	if (rc == 0)
 *		rc = agent_call_ask(&agent, AGENT_STATUS, &request.base, &reply, &err);
 *	if (rc < 0)
 *		return cmd_fail(call, agent_call_exit_code(&agent, rc), &err);
 */
#ifndef SLUICE_CMD_SERVICE_AGENT_CALL_H
#define SLUICE_CMD_SERVICE_AGENT_CALL_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "cmd/cmd.h"
#include "wire/client.h"

struct err;
struct loop;

#define AGENT_CALL_DEADLINE_NS UINT64_C(30000000000) /* of one question */
#define AGENT_CALL_START_NS    UINT64_C(30000000000) /* for a new agent to be ready */
/* So long a time an agent that went away has to come back, before another one is started: a service
 * manager may be starting it, and two cannot have one state directory. */
#define AGENT_CALL_START_AFTER_NS UINT64_C(10000000000)

/* What can be asked. */
enum agent_call_method {
	AGENT_SUBMIT,
	AGENT_LIST, /* stream */
	AGENT_GET,
	AGENT_WATCH_JOB, /* stream */
	AGENT_SIGNAL,
	AGENT_CANCEL,
	AGENT_CHANGE,
	AGENT_ACT,
	AGENT_DRAIN,
	AGENT_CLAIM,
	AGENT_CLAIMS,
	AGENT_COLLECT,
	AGENT_USAGE,
	AGENT_LOGS, /* stream */
	AGENT_STATUS,
	AGENT_WATCH_MACHINE, /* stream */
	AGENT_RELOAD,
	AGENT_HOLDERS,
	AGENT_HEALTH,
	AGENT_CLEAR_HEALTH,
	AGENT_RELEASE,
};

struct agent_call_options {
	const char *socket; /* --socket; NULL: as agent_paths_client() finds it */
	bool may_start;	    /* when none answers, and the machine has none: start one in the
			       background */
	bool may_wake;	    /* the same where this user's was one that ends when it is idle: it has
			       the jobs of before */
	const char *path;   /* of the command ("sluice run"): to say that one is started; NULL:
			       silently */
	/* Told when the connection is gone, its calls have ended before. May be NULL. */
	void (*closed)(const struct err *why, void *context);
	void *context;
};

struct agent_call {
	struct loop *loop;	    /* owned; for timers and signals of the command */
	struct wire_client *client; /* owned; NULL: not connected */
	char socket[FILE_PATH_MAX]; /* "": not even known */
	struct wire_result result;  /* of the last question */
	bool was_connected;
	bool is_away; /* the last opening failed, and it is the machine's agent that does not
			 answer */
	uint64_t
	    lost_ns; /* then: when agent_call_reopen() was first told that it is not any more */
};
#define AGENT_CALL_NONE ((struct agent_call){0})

/* The row that the table of --socket has in every command that asks; `type` has const char *socket.
 */
#define AGENT_CALL_SOCKET_ROW(type)                                                                \
	{                                                                                          \
		.name = "socket", .kind = OPTION_PATH, .value = "PATH",                            \
		.help = "the agent's socket (default: $SLUICE_SOCKET, else the machine's, else "   \
			"this user's); own: this user's",                                          \
		OPTION_FIELD(type, socket)                                                         \
	}

/* -ECONNREFUSED: none answers (the text says where and how to start one), -EACCES, -ENOENT,
 * -ETIMEDOUT: one was started and is not ready, -ENOMEM, ... */
int agent_call_open(struct agent_call *out, const struct agent_call_options *options,
		    struct err *err);
/* After the connection was lost: connects anew, starting one if that is allowed and it has been
 * away for AGENT_CALL_START_AFTER_NS. Not from a callback of the old connection. */
int agent_call_reopen(struct agent_call *agent, const struct agent_call_options *options,
		      struct err *err);
void agent_call_close(struct agent_call *agent);
#define _cleanup_agent_call_ __attribute__((cleanup(agent_call_close)))

/*
 * One question, one answer; runs the loop meanwhile, so not from a callback. `*out_reply` (may be
 * NULL) is owned: agent_call_free(). -EREMOTEIO: the agent refused, its text is in `err` and its
 * status in agent->result; else what wire_client_ask() says.
 */
int agent_call_ask(struct agent_call *agent, enum agent_call_method method,
		   const ProtobufCMessage *request, ProtobufCMessage **out_reply, struct err *err);
void agent_call_free(void *message); /* NULL is fine */

/*
 * One question and a stream of answers; runs the loop until the stream ends or `each` returns
 * false. The reply is borrowed during the call. `deadline_ns` 0: none. As agent_call_ask().
 */
int agent_call_follow(struct agent_call *agent, enum agent_call_method method,
		      const ProtobufCMessage *request, uint64_t deadline_ns,
		      bool (*each)(const ProtobufCMessage *reply, void *context), void *context,
		      struct err *err);

/* The row for wire_client_call(), for commands that do several things at once on agent->loop. */
const struct wire_method *agent_call_method(enum agent_call_method method);

/* THE table of what a status means to a shell. */
enum cmd_exit agent_call_exit_of_status(enum wire_status status);
/* The exit code after a function above returned `rc` (< 0). */
enum cmd_exit agent_call_exit_code(const struct agent_call *agent, int rc);

/* Rows for tables of exit codes of commands that ask and do nothing else; ends the table. */
#define AGENT_CALL_EXITS                                                                           \
	{CMD_EXIT_UNAVAILABLE, "no agent answers"},                                                \
	    {CMD_EXIT_NOT_PERMITTED, "the agent does not let this user do that"},                  \
	    {CMD_EXIT_DEADLINE, "the agent did not answer in time"},                               \
	{                                                                                          \
		0, NULL                                                                            \
	}

#endif
