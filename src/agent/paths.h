/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where an agent has its socket and its state, and how a client finds it. Root's agent serves the
 * machine, a user's serves that user. Knows nothing of what lies in the files.
 */
#ifndef SLUICE_AGENT_PATHS_H
#define SLUICE_AGENT_PATHS_H

#include <stdbool.h>

#include "base/file.h"

struct err;

struct agent_paths {
	bool is_system;
	char runtime_dir[FILE_PATH_MAX]; /* agent.sock, agent.lock, gpu/ */
	char state_dir[FILE_PATH_MAX];	 /* queue.lock, queue.db, j/, agent.log, on-demand */
	char socket[FILE_PATH_MAX];
	char config[FILE_PATH_MAX]; /* "": none there */
};

/* What a user gave; NULL: not given. */
struct agent_paths_given {
	const char *runtime_dir, *state_dir, *socket, *config;
};

/*
 * Root: /run/sluice, /var/lib/sluice, /etc/sluice/config.yaml. Others: $XDG_RUNTIME_DIR/sluice
 * (where that is not set or not the user's: /run/user/UID, else "run" in the state directory),
 * $XDG_STATE_HOME/sluice (else ~/.local/state/sluice), $XDG_CONFIG_HOME/sluice/config.yaml, else
 * the machine's. What is given wins, then $SLUICE_RUNTIME_DIR, $SLUICE_STATE_DIR, $SLUICE_SOCKET,
 * $SLUICE_CONFIG or $CONFIG_FILE. With $SLUICE_ROOT the machine's configuration is the one below
 * it, and the user's is not looked at. All paths are absolute afterwards. -ENOENT without a place
 * for the state (the text says what to set), -ENAMETOOLONG.
 */
int agent_paths_find(const struct agent_paths_given *given, struct agent_paths *out,
		     struct err *err);

enum agent_paths_limits { AGENT_PATHS_PLACES = 2 };

/* Where the configuration file is looked for, the first that is there counts: one place if it was
 * named (given, $SLUICE_CONFIG, $CONFIG_FILE). Returns how many. */
int agent_paths_places(const char *given, char out[AGENT_PATHS_PLACES][FILE_PATH_MAX],
		       bool *out_named, struct err *err);
/* The configuration file alone, which may come and go: "" when there is none and none was named. */
int agent_paths_config(const char *given, char out[FILE_PATH_MAX], struct err *err);

/*
 * The socket that a client uses: given, $SLUICE_SOCKET, that of $SLUICE_RUNTIME_DIR; else the
 * system's if something listens there or agent_paths_machine_has_agent(), else the user's
 * (AGENT_PATHS_OWN: the user's at once). `out` is filled in any case where there is
 * a place for it, with the one that this user would start. 0; -ECONNREFUSED when none answers,
 * -EACCES when one is there and this user may not connect; as agent_paths_find().
 */
int agent_paths_client(const char *given, char out[FILE_PATH_MAX], struct err *err);

/* As a socket that is given, or $SLUICE_SOCKET: that of this user's own agent, also where the
 * machine has one. */
#define AGENT_PATHS_OWN "own"

/*
 * Whether this machine has an agent for everybody which this user is not to start, also while it
 * does not answer: systemd runs and its service is enabled; or, to others than root, root's has had
 * a queue here and is not one that ends when it is idle. The jobs of another agent would stand in
 * no order with those of others. False where somebody has chosen other places ($SLUICE_SOCKET,
 * $SLUICE_RUNTIME_DIR, $SLUICE_STATE_DIR).
 */
bool agent_paths_machine_has_agent(void);

/* In the state directory while its agent is one that ends when it is idle: to know the jobs that it
 * had, it is started again. */
#define AGENT_PATHS_ON_DEMAND "on-demand"
/* Whether that is so of the agent that this user would start. */
bool agent_paths_is_on_demand(void);

#endif
