/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What to run, and as whom: the immutable part of a job. As bytes it is a JobSpec of
 * proto/job.proto, in which it lies in the store and reaches the supervisor. Pure. Knows nothing of
 * where or when the job runs.
 */
#ifndef SLUICE_JOB_SPEC_H
#define SLUICE_JOB_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "job/demand.h"
#include "job/wants.h"

struct err;

enum spec_limits {
	SPEC_NAME_MAX = 64,	       /* a DNS label (63) with its NUL */
	SPEC_IDS_MAX = 8192,	       /* bytes of a list of ids with its NUL */
	SPEC_DIRECTORY_MAX = 4096,     /* with its NUL */
	SPEC_ARGV_BYTES_MAX = 1 << 20, /* of all arguments with their NULs */
	SPEC_ENVIRONMENT_BYTES_MAX = 1 << 20,
	SPEC_STRING_MAX = 131072, /* of one of them: Linux's MAX_ARG_STRLEN, see execve(2) */
	SPEC_STRINGS_MAX = 65536, /* arguments, and variables */
	SPEC_GROUPS_MAX = 1024,
	SPEC_LIMITS_MAX = 16, /* RLIMIT_NLIMITS */
	SPEC_IMAGE_MAX = 512, /* bytes of an image's name with its NUL */
	SPEC_WORKDIR_MAX = 1024,
	SPEC_VOLUMES_MAX = 64,
	SPEC_TMPFS_MAX = 16,
	SPEC_PORT_MAX = 16,	  /* "65535:65535" */
	SPEC_RUN_AS_MAX = 24,	  /* "4294967294:4294967294" */
	SPEC_COMMAND_MAX = 4096,  /* what is run at the end, with its NUL */
	SPEC_BYTES_MAX = 3 << 20, /* of the whole form */
};

struct spec_limit {
	uint32_t resource; /* RLIMIT_ of Linux */
	uint64_t soft, hard;
};

struct spec {
	char name[SPEC_NAME_MAX];
	uid_t uid;
	gid_t gid;
	gid_t *groups; /* owned */
	size_t group_count;
	char **
	    argv; /* owned, its strings too; ends in NULL; at least one, unless there is an image */
	size_t argc;
	char **environment; /* owned as argv; of the submitter, not yet filtered */
	size_t environment_count;
	char directory[SPEC_DIRECTORY_MAX]; /* absolute */
	mode_t umask;
	struct spec_limit limits[SPEC_LIMITS_MAX];
	size_t limit_count;

	uint32_t gpus;				     /* devices; with `ids`: how many those are */
	char ids[SPEC_IDS_MAX];			     /* exactly these; "": any */
	uint32_t share_numerator, share_denominator; /* 0/0: whole devices */
	char resources[DEMAND_TEXT_MAX];	     /* beside them, as demand.h has it; "": none */
	bool gpus_if_any; /* gpus becomes 0 on a machine without (told at submission) */
	bool ignore_outsiders;
	uint64_t grace_ns;    /* between SIGTERM and SIGKILL, and for what the command leaves */
	uint64_t deadline_ns; /* of running; 0: none */
	uint32_t warn_signal; /* before the deadline; 0: none. As warning.h has it, and so: */
	uint64_t warn_before_ns;
	bool warn_alone;
	struct wants wants;	       /* owned; of the queue beside GPUs */
	char on_end[SPEC_COMMAND_MAX]; /* for a shell, as the job's user, when it has ended; "":
					  none */
	char
	    output[SPEC_DIRECTORY_MAX]; /* absolute; gets a copy of stdout, as its user; "": none */
	char port[SPEC_PORT_MAX]; /* "8888", with an image "8888:80": of the loopback, reserved for
				     it; "0": any; "": none */
	bool pty;		  /* it gets a terminal, which attach.h hands out */
	bool memlock;		  /* it may lock memory, as far as this machine allows it */

	/* In a container of this image; "": none, and nothing of what follows. The argv is that of
	 * the container; without one the image says what runs. The environment is that of the
	 * program which makes the container. */
	char image[SPEC_IMAGE_MAX];
	char workdir[SPEC_WORKDIR_MAX]; /* in the container; "": the image says */
	uint32_t pull;			/* enum spec_pull */
	char **volumes;			/* owned as argv; "HOST:CONTAINER" or with ":ro" or ":rw";
					   or "CONTAINER": empty, ends with it */
	size_t volume_count;
	char **image_environment; /* owned as argv; what is set in the container */
	size_t image_environment_count;
	char **tmpfs; /* owned as argv; "/dev/shm:SIZE" in bytes, SIZE 0: as large as it may be */
	size_t tmpfs_count;
	uint32_t entrypoint; /* so many words of argv stand in place of the image's entrypoint */
	char run_as[SPEC_RUN_AS_MAX]; /* "UID" or "UID:GID" in the container; "": the image says */
	uint32_t runtime;	      /* enum spec_runtime */
	bool privileged;	      /* it was allowed explicitly; isolation is none then */
	bool selinux_off;	      /* no label of SELinux */

	/* Of a job with workers (wants.workers). */
	char worker_image[SPEC_IMAGE_MAX]; /* "": as `image` */
	char **worker_environment;	   /* owned as argv; set in the workers, instead of
					      image_environment */
	size_t worker_environment_count;
};

/* When the image is fetched from where it comes from. */
enum spec_pull { SPEC_PULL_MISSING, SPEC_PULL_NEVER, SPEC_PULL_ALWAYS };
#define SPEC_PULL_COUNT 3

/* What makes the container: what is there, podman first; or this one. */
enum spec_runtime { SPEC_RUNTIME_ANY, SPEC_RUNTIME_PODMAN, SPEC_RUNTIME_DOCKER };
#define SPEC_RUNTIME_COUNT 3

void spec_init(struct spec *spec);
void spec_done(struct spec *spec);
#define _cleanup_spec_ __attribute__((cleanup(spec_done)))

/* Each appends a copy. -E2BIG, -ENOMEM. A list is filled by these alone, or not at all by them. */
int spec_add_argument(struct spec *spec, const char *text, struct err *err);
int spec_add_variable(struct spec *spec, const char *text, struct err *err);
int spec_add_group(struct spec *spec, gid_t group, struct err *err);
int spec_add_volume(struct spec *spec, const char *text, struct err *err);
int spec_add_image_variable(struct spec *spec, const char *text, struct err *err);
int spec_add_tmpfs(struct spec *spec, const char *text, struct err *err);

/* "missing", "never", "always"; NULL. */
const char *spec_pull_to_string(uint32_t pull);
/* "any", "podman", "docker"; NULL. */
const char *spec_runtime_to_string(uint32_t runtime);

/*
 * Whether this can be meant at all: a name that is a DNS label, an absolute
 * directory, something to run, sizes within the limits, a share of 1/1 at most, ids or a number, an
 * image's name that is no option, volumes of absolute paths.
 * -EINVAL names the field, -E2BIG what is too large and how large it may be.
 */
int spec_check(const struct spec *spec, struct err *err);

/* The bytes (owned, free()). -E2BIG, -ENOMEM. */
int spec_format(const struct spec *spec, char **out_bytes, size_t *out_length, struct err *err);
/* The other way; `out` is initialised here and holds what spec_check() passes. -EINVAL names the
 * field, -ENOMEM. Pure; takes anything. */
int spec_parse(const char *bytes, size_t length, struct spec *out, struct err *err);
/* Whether two are the same request: what makes a key with other content a mistake. Variables that
 * tell one call from the next (INVOCATION_ID, SHLVL, SSH_CLIENT, ...) make no difference. */
bool spec_is_equal(const struct spec *a, const struct spec *b);

#endif
