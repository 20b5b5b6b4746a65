/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to the API server: HTTP/1.1 over TLS of 1.2 or later by libcurl, within one thread. The
 * server's certificate is always checked unless the kubeconfig says otherwise; no redirect is
 * followed, and no proxy used, whatever the environment says. Knows nothing of nodes and Events.
 */
#ifndef SLUICE_LIBEXEC_KUBE_CLIENT_H
#define SLUICE_LIBEXEC_KUBE_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#include "libexec/kube/access.h"

struct kube_answer;
struct client;
struct client_call;
struct err;

enum kube_client_limits {
	CLIENT_CALLS_MAX = 3,	   /* at once: the watch, an Event, labels */
	CLIENT_BODY_MAX = 8 << 10, /* that is kept of an answer which is no success */
	CLIENT_CONNECT_MS = 10000,
	CLIENT_IDLE_S = 20, /* without a byte, and the other side is asked whether it lives */
	CLIENT_PROBE_S = 5, /* between such questions; the third without an answer ends it */
};

struct client_request {
	const char *method, *path, *accept; /* borrowed until client_start() has returned */
	const char *content_type;	    /* NULL: there is no body */
	char *body;			    /* given, NUL-terminated; NULL: none */
	uint64_t timeout_ns;		    /* for all of it */
	/* Bytes of an answer of 200 or 201. Negative: it is ended, with -ECANCELED. May be NULL. */
	int (*data)(const char *data, size_t length, void *context);
	/* Once, always, from client_run(); also when it could not be begun. */
	void (*end)(const struct kube_answer *answer, void *context);
	void *context;
};

/* `options` is borrowed. Owned. NULL: -ENOMEM, -ENOSYS for a libcurl without TLS. */
struct client *client_new(const struct access_options *options, struct err *err);
struct client *client_free(struct client *client);

/* NULL: as many run already. Borrowed until its end(). */
struct client_call *client_start(struct client *client, const struct client_request *request);
uint32_t client_status(const struct client_call *call); /* that has come; 0: none yet */
/*
 * Waits until something happens, until `fd` is ready for `events` (of poll(2)) or for `wait_ns`,
 * and does what is to be done. `*out_ready`: what `fd` is ready for. 0 or -errno.
 */
int client_run(struct client *client, int fd, short events, uint64_t wait_ns, short *out_ready,
	       struct err *err);

#endif
