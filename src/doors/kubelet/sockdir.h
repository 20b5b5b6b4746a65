/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory of the kubelet's socket, watched: that the kubelet made its socket anew, perhaps
 * with the same inode, or that a socket went. The directory may come later, and be replaced. Knows
 * nothing of what the sockets are for. All of it belongs to the loop's thread.
 */
#ifndef SLUICE_DOORS_KUBELET_SOCKDIR_H
#define SLUICE_DOORS_KUBELET_SOCKDIR_H

#include <stdbool.h>

struct err;
struct loop;
struct sockdir;

enum sockdir_change {			 /* bits */
		      SOCKDIR_MADE = 1,	 /* the socket of the name that was asked for was made */
		      SOCKDIR_OTHER = 2, /* another socket came or went */
		      SOCKDIR_LOOK = 4,	 /* anything may have happened: look at all of it */
};

struct sockdir_options {
	struct loop *loop;     /* borrowed */
	const char *directory; /* borrowed until made */
	const char *name;      /* "kubelet.sock"; borrowed until made */
	/* Something happened: enum sockdir_change bits, of all that came at once. Not from within a
	 * function of this header. */
	void (*changed)(unsigned changes, void *context);
	void *context;
};

/* A directory that is not there is waited for. -ENOMEM, -ENAMETOOLONG; a system that can watch
 * nothing more is no error here: then sockdir_look() is all there is. */
int sockdir_new(const struct sockdir_options *options, struct sockdir **out, struct err *err);
struct sockdir *sockdir_free(struct sockdir *sockdir);

/* Whether the directory that is watched is still the one of that name; else it is watched from now
 * on. True: it was another, and nothing is known of what happened in it. */
bool sockdir_look(struct sockdir *sockdir);
bool sockdir_is_there(const struct sockdir *sockdir); /* as of the last event or look */

#endif
