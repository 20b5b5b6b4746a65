/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's end of sluice-rsh: an abstract unix socket on which processes of the job's user
 * in the job ask for something, and are answered when it is done. Never blocks; whoever is somebody
 * else, says nothing or says garbage is dropped. Knows nothing of workers.
 */
#ifndef SLUICE_LIBEXEC_SUPERVISE_RSHSERVER_H
#define SLUICE_LIBEXEC_SUPERVISE_RSHSERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "libexec/rsh/packet.h"

struct err;

enum rshserver_limits {
	RSHSERVER_CALLS_MAX = 1024, /* at a time */
};

/* What it calls; `call` numbers a caller until it is answered or gone. */
struct rshserver_options {
	const char *name; /* of the socket, PACKET_NAME_MAX at most */
	uid_t uid;
	/* Whether this process is one of the job. */
	bool (*is_ours)(void *context, pid_t pid);
	/* `fds`: of PACKET_RUN three, borrowed for the call; else NULL. */
	void (*asked)(void *context, size_t call, const struct packet *packet, const int *fds,
		      pid_t peer);
	/* Who asked has died, or does not want it any more. Not after the answer. */
	void (*gone)(void *context, size_t call);
	void *context;
};

struct rshserver;

/* Listens from now on. `options` is copied, the name too. */
int rshserver_new(const struct rshserver_options *options, struct rshserver **out, struct err *err);
struct rshserver *rshserver_free(struct rshserver *server);
/* To be polled for POLLIN; then rshserver_serve(). */
int rshserver_fd(const struct rshserver *server);
void rshserver_serve(struct rshserver *server);
/* Tells the caller, and forgets it: with PACKET_ENDED, PACKET_REFUSED or PACKET_ENTERED. */
void rshserver_answer(struct rshserver *server, size_t call, const struct packet *packet);

#endif
