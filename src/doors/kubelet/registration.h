/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Register, the one call that a device plugin makes: on the kubelet's socket, answered only after
 * the kubelet has called the plugin back. Never waits; a loop that did would wait for itself. All
 * of it belongs to the loop's thread.
 */
#ifndef SLUICE_DOORS_KUBELET_REGISTRATION_H
#define SLUICE_DOORS_KUBELET_REGISTRATION_H

#include <stdbool.h>
#include <stdint.h>

struct err;
struct loop;
struct registration;

enum registration_limits {
	REGISTRATION_REPLY_MAX = 4 << 10, /* bytes: it says nothing */
};

#define REGISTRATION_DEADLINE_NS UINT64_C(10000000000)

struct registration_options {
	struct loop *loop;    /* borrowed */
	const char *socket;   /* the kubelet's; may be longer than a socket's address. Borrowed for
				 the call of registration_start(), as the next two */
	const char *endpoint; /* "nvidia-gpu.sock" */
	const char *resource; /* "nvidia.com/gpu" */
	bool is_any_good;     /* there is no preferred choice of its devices */
	/*
	 * Called once, later: NULL, or why not. -ECONNRESET: the kubelet went away; -ETIMEDOUT;
	 * -EREMOTEIO: the kubelet refused, and the text is its own. The registration is freed after
	 * it returns; cancelling it in there does nothing.
	 */
	void (*done)(const struct err *why, void *context);
	void *context;
};

/* Starts the call. -ENOMEM; -ENOENT, -ECONNREFUSED, -EACCES, ...: what connect(2) says at once;
 * -ENOTSOCK. Then `done` is not called. */
int registration_start(const struct registration_options *options, struct registration **out,
		       struct err *err);
/* `done` is not called any more. NULL is fine; returns NULL. */
struct registration *registration_cancel(struct registration *registration);

#endif
