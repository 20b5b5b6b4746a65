/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One resource towards the kubelet: v1beta1.DevicePlugin on a socket of its own. Answers from a
 * struct kubelet_resource that its owner replaces; never asks a driver. Knows nothing of
 * registration: kubelet.c decides when to open, register and close. All of it belongs to the
 * loop's thread.
 */
#ifndef SLUICE_DOORS_KUBELET_PLUGIN_H
#define SLUICE_DOORS_KUBELET_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "doors/kubelet/resource.h"

struct allocator;
struct err;
struct kubelet_resource;
struct log;
struct loop;
struct plugin;

enum plugin_limits {
	PLUGIN_REQUEST_MAX = 4 << 20, /* bytes, as for servers in Go: 16384 ids of 63 characters
					 fit, as free ones and again as those that must be in */
	PLUGIN_EMPTY_MAX = 4 << 10,   /* the same of calls that ask nothing */
	PLUGIN_ENDPOINT_MAX = RESOURCE_ENDPOINT_MAX,
	PLUGIN_STREAMS_MAX = 16, /* ListAndWatch at a time */
};

#define PLUGIN_COALESCE_NS UINT64_C(50000000)	/* changes within this go out as one list */
#define PLUGIN_CLOSE_NS	   UINT64_C(1000000000) /* for calls that run when it is to close */

/* Where it is entered who holds what. */
struct plugin_book {
	/* Before Allocate is answered: all of a container's units, or none. -EBUSY: somebody else
	 * has one of them; -EAGAIN: that is not known yet, and the kubelet waits for
	 * plugin_resume(). NULL: nobody keeps a book. */
	int (*take)(const char *resource, char *const *units, size_t count, void *context,
		    struct err *err);
	void *context;
};

struct plugin_options {
	struct loop *loop;     /* borrowed */
	struct log *log;       /* borrowed; may be NULL */
	const char *directory; /* of the kubelet's socket and of ours; borrowed until opened */
	const char *resource;  /* "nvidia.com/gpu"; borrowed until opened */
	const char *endpoint;  /* of the socket; NULL: plugin_endpoint(). The same */
	struct plugin_book book;
	/* A stream was opened or ended. Not from within a function of this header. May be NULL. */
	void (*changed)(void *context);
	void *context;
};

/* "nvidia-gpu.sock" of "nvidia.com/gpu": the first label of the domain, '-', and what
 * is behind the slash. -EINVAL: no such name; -ENAMETOOLONG. */
int plugin_endpoint(const char *resource, char out[PLUGIN_ENDPOINT_MAX], struct err *err);

/*
 * Binds, listens and serves; the socket is for root alone, as the kubelet is. Takes `resource`
 * over, on success only; `allocator` is borrowed until plugin_update()
 * names another or plugin_close(), may be NULL. A socket file that nobody answers on is replaced;
 * one that somebody answers on too, *out_taken_over says so. -EEXIST for what is no socket;
 * -EACCES, -ENOENT, ... with the path, which may be longer than a socket's address allows; -ENOMEM.
 */
int plugin_open(const struct plugin_options *options, struct kubelet_resource *resource,
		struct allocator *allocator, struct plugin **out, bool *out_taken_over,
		struct err *err);
/* Cuts everything off and removes the socket file, if it is still ours. NULL is fine; returns NULL.
 */
struct plugin *plugin_close(struct plugin *plugin);

/*
 * From now on it is answered so. Takes `resource` over. A list that is not the same goes to every
 * stream PLUGIN_COALESCE_NS later; one that differs in health only goes with the same delay. A
 * reader that does not read gets the newest list when he does, and costs no more than one. A list
 * that came back to what it was before it was sent is not sent.
 */
void plugin_update(struct plugin *plugin, struct kubelet_resource *resource,
		   struct allocator *allocator);
/* The allocator that it had is not used any more. */
void plugin_set_allocator(struct plugin *plugin, struct allocator *allocator);
/* What waits for PLUGIN_COALESCE_NS goes out now: before the end of a resource. */
void plugin_flush(struct plugin *plugin);

/* Ends all streams and connections (GOAWAY, then at the latest after PLUGIN_CLOSE_NS); the socket
 * stays and new ones are taken. Before it is registered again: a stream of the old registration
 * that ends after the new one would take the new one down. `done` is called once, later; when it is
 * hung up again meanwhile, only the newest one is, and not after plugin_close(). */
void plugin_hang_up(struct plugin *plugin, void (*done)(void *context), void *context);

/* What waited for the book is asked again. */
void plugin_resume(struct plugin *plugin);

/* Somebody holds a ListAndWatch stream open. */
bool plugin_is_attached(const struct plugin *plugin);
/* The socket file is still the one that was bound: the kubelet removes all when it starts. */
bool plugin_has_socket(const struct plugin *plugin);
const struct kubelet_resource *plugin_resource(const struct plugin *plugin);

struct plugin_counts {
	uint64_t allocations, refused, preferred, lists;
	uint64_t protocol_errors; /* connections that were no gRPC */
	size_t streams, connections, output_bytes;
};
void plugin_count(const struct plugin *plugin, struct plugin_counts *out);

#endif
