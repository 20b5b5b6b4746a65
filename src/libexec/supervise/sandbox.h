/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What keeps a job to its devices: which level of isolation it gets, why no higher one, and whether
 * that is enough for what it and the owner of the machine want. Decided before the claim, so that
 * it is known from the first word; what is put around the command is in command.h.
 *
 *   cgroup2    device rules (BPF) around the job's own cgroup; needs root
 *   cgroup1    the same by devices.deny of cgroup v1; needs root
 *   landlock   rules on files around the command; needs no privilege
 *   env        variables that tell it what is its own, which nobody has to heed
 *   none       nothing, not even no_new_privs; for who asks for it
 */
#ifndef SLUICE_LIBEXEC_SUPERVISE_SANDBOX_H
#define SLUICE_LIBEXEC_SUPERVISE_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "job/cgroup/cgroup.h"
#include "job/control.h"
#include "job/job.h"

struct err;
struct image;
struct launch;
struct launch_part;

enum job_sandbox_limits {
	SANDBOX_WHY_MAX = 160, /* of one level */
};

struct sandbox {
	enum isolation level;
	bool is_refused;		  /* it is not enough: nothing may be started */
	bool has_landlock;		  /* the level needs it around the command */
	bool has_rules;			  /* the level holds in the job's cgroups alone */
	bool has_own_pids;		  /* a PID namespace is to be made; see init.h */
	bool has_no_new_privs;		  /* for the command */
	char devices_v1[CGROUP_PATH_MAX]; /* "": none; a v1 group that it has to join */
	char why[CONTROL_TEXT_MAX];	  /* each level that was not reached; "" */
};

/* Puts the device rules around the job's cgroup (fd -1: there is none, `no_cgroup` says why) where
 * the job wants that and it can be done. What fails is said in `out`. `rules_fd`: the program of
 * these rules, or -1. */
void sandbox_prepare(const struct launch *launch, const struct cgroup *cgroup, int rules_fd,
		     const char *no_cgroup, struct sandbox *out);
/* The same of a job with an image, whose rules image_prepare() has made. */
void sandbox_judge_image(const struct launch *launch, const struct image *image,
			 struct sandbox *out);

/* Where the sandbox has rules: those of a part of the job around a group below the job's. Writes
 * the v1 group that has to be joined besides, if there is one. -errno. */
int sandbox_guard(const struct sandbox *sandbox, const struct cgroup *cgroup,
		  const struct launch_part *part, char out_v1[CGROUP_PATH_MAX], struct err *err);

/* Adds to `why`, cut where it has no room. */
void sandbox_add_why(struct sandbox *sandbox, const char *what, const char *why);
/* "cgroup2", or "env: why nothing higher", for CONTROL_HELLO. */
void sandbox_describe(const struct sandbox *sandbox, char out[CONTROL_TEXT_MAX]);

/* Whether a level is what `wanted` (enum isolation) asks for at least. Pure. */
bool sandbox_is_enough(enum isolation level, uint32_t wanted);

#endif
