/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a supervisor does for a job with an image, beside what it does for all: device rules around
 * its cgroup, the program that makes the container, and the removal of what that could not remove
 * itself. Knows nothing of podman and docker.
 */
#ifndef SLUICE_LIBEXEC_SUPERVISE_IMAGE_H
#define SLUICE_LIBEXEC_SUPERVISE_IMAGE_H

#include <stdbool.h>

#include "job/cgroup/cgroup.h"
#include "job/control.h"
#include "job/launch.h"

struct err;
struct job_watch;

enum image_limits {
	IMAGE_HELPER_WORDS = 3,
};

#define IMAGE_REMOVE_NS UINT64_C(5000000000) /* for removing a container, at first */

struct image {
	struct cgroup launcher;		  /* fd -1: none; where the program starts */
	char devices_v1[CGROUP_PATH_MAX]; /* "": none; a v1 group that it has to join */
	bool is_guarded, is_privileged;
	bool is_elsewhere;	    /* the container is not in the job's cgroup */
	bool is_trusted;	    /* what makes it is the administrator's: program.h */
	char why[CONTROL_TEXT_MAX]; /* why not; "" */
	char why_program[CONTROL_TEXT_MAX / 2]; /* why what makes it is not trusted; "" */
};

#define IMAGE_NONE ((struct image){.launcher = CGROUP_NONE})

/* Puts the device rules around the job's cgroup (fd -1: there is none, `no_cgroup` says why) and
 * makes the place in it where the container is started from; looks whose program makes it. What
 * fails is said in `out`. What root's own job finds in its PATH is the administrator's. */
void image_prepare(const struct launch *launch, const struct cgroup *cgroup, const char *no_cgroup,
		   struct image *out);
void image_done(struct image *image);
/* The job runs without its cgroup, and why. */
void image_lose_cgroup(struct image *image, const char *why);
/* The container turns out to be in another cgroup than the job's, and why. */
void image_leave(struct image *image, const char *why);
/* Makes that place anew, for the removal: what Linux (6.18) starts by clone3(2) in a group that was
 * once killed (cgroup.kill) is dead at once, however long ago that was. */
void image_prepare_removal(const struct cgroup *cgroup, struct image *image);

/* "container", or how it falls short, for CONTROL_HELLO. Only what the administrator's program
 * makes is called a container: of another one the rules around the job are all that is known. */
void image_describe(const struct image *image, char out[CONTROL_TEXT_MAX]);

/* The helper's command line: `word` is "run" or "remove". -ENOPKG: it is not installed. */
int image_helper(const struct launch *launch, const char *word, char *out[IMAGE_HELPER_WORDS],
		 struct err *err);

/* Whether that is the process with which podman of an ordinary user keeps his user namespace
 * between two commands: the first one to need it starts it, and it never ends. It is made again by
 * the next one. */
bool image_is_pause(pid_t pid);

/* Whether the program that made the container may have left something of it. */
bool image_is_left(const struct job_watch *watch);

#endif
