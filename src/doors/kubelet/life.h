/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of one resource towards the kubelet: its plugin is opened, registered, attached, and all
 * of that again whenever it is lost, by itself and for ever. kubelet.c makes one for each resource
 * and says when the kubelet has come; it never sees another resource. All of it belongs to the
 * loop's thread.
 */
#ifndef SLUICE_DOORS_KUBELET_LIFE_H
#define SLUICE_DOORS_KUBELET_LIFE_H

#include <stdbool.h>
#include <stdint.h>

#include "doors/kubelet/plugin.h"

struct allocator;
struct err;
struct kubelet_resource;
struct kubelet_view;
struct life;
struct log;
struct loop;

/* After a stream that ended, and while a kubelet has bound its socket but does not listen yet;
 * doubled up to KUBELET_AGAIN_LAST_NS. */
#define LIFE_SOON_NS UINT64_C(1000000)
/* From the disappearance of our socket to making it again: a kubelet that starts removes all
 * sockets, makes its own, and is then registered with at once. */
#define LIFE_GONE_NS UINT64_C(50000000)
/* When another plugin's place was taken it is not known when that one ends, and its end takes our
 * devices from the kubelet: registered again after this time, twice that, ... and the last. */
#define LIFE_DOUBT_FIRST_NS UINT64_C(5000000000)
#define LIFE_DOUBT_LAST_NS  UINT64_C(160000000000)

struct life_options {
	struct loop *loop;     /* borrowed, all of these */
	struct log *log;       /* may be NULL */
	const char *socket;    /* the kubelet's */
	const char *directory; /* of that, and of ours */
	bool no_registration;
	struct plugin_book book;
	/* What life_view() says is new. Also from within functions of this header. */
	void (*changed)(void *context);
	/* The end that life_end() asked for: it may be freed. Never from within a function of this
	 * header. */
	void (*ended)(struct life *life, void *context);
	void *context;
};

/* Serves and registers, as far as that can be done now. Takes `resource` over on success;
 * `allocator` as for plugin_open(). -ENOMEM, -EINVAL, -ENAMETOOLONG: a name that cannot be. */
int life_new(const struct life_options *options, struct kubelet_resource *resource,
	     struct allocator *allocator, struct life **out, struct err *err);
/* Cuts everything off. NULL is fine; returns NULL. */
struct life *life_free(struct life *life);

/* What it is from now on; takes `resource` over. A life that was to end goes on. */
void life_update(struct life *life, struct kubelet_resource *resource, struct allocator *allocator);
void life_resume(struct life *life); /* plugin_resume() */
/* The one before is not used any more. */
void life_set_allocator(struct life *life, struct allocator *allocator);
const struct kubelet_resource *life_resource(const struct life *life);
/* The kubelet is told that there is no device any more, and then the endpoint is closed. */
void life_end(struct life *life);
bool life_is_ending(const struct life *life);

/* Registers anew, at once, whatever was before. */
void life_register(struct life *life);
/* Whether all is as it should be: our socket, our stream. */
void life_look(struct life *life);
void life_view(const struct life *life, struct kubelet_view *out);

#endif
