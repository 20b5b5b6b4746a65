/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `sluice run` asks the agent for: the job's specification, made of the options, the command
 * and what this process is (directory, umask, limits, environment). Asks nobody.
 */
#ifndef SLUICE_CMD_JOBS_RUN_RUN_REQUEST_H
#define SLUICE_CMD_JOBS_RUN_RUN_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/jobs/run/run_options.h"
#include "job/wants.h"
#include "sluice.pb-c.h"

struct err;

enum run_request_limits {
	RUN_NAME_MAX = 64, /* a DNS label (63) with its NUL */
	RUN_KEY_MAX = 37,  /* a UUID with its NUL */
	RUN_DIRECTORY_MAX = 4096,
	RUN_LIMITS_MAX = 16,
	RUN_SHARE_MAX = 1000, /* parts of a GPU */
};

/* Everything that the message points to; do not move it. */
struct run_request {
	Sluice__V1__SubmitRequest message;
	Sluice__V1__JobSpec spec;
	char name[RUN_NAME_MAX], key[RUN_KEY_MAX], directory[RUN_DIRECTORY_MAX];
	ProtobufCBinaryData *argv, *environment;	  /* owned; the bytes are borrowed */
	ProtobufCBinaryData *volumes, *image_environment; /* as above */
	ProtobufCBinaryData *tmpfs;			  /* owned, its bytes too */
	char *compat; /* owned: "LD_LIBRARY_PATH=..." with --cuda-compat */
	Sluice__V1__Limit limit[RUN_LIMITS_MAX], *limits[RUN_LIMITS_MAX];
	char *resources;		 /* owned */
	struct wants wants;		 /* owned; run_request_wants() after a change */
	Sluice__V1__Wants wants_message; /* of them */
	char *pwd;			 /* owned: "PWD=..." with --cwd */
	char *output;			 /* owned; absolute */
};

/*
 * -EINVAL for what cannot be meant (the text says why), -ENOENT when there is no current directory,
 * -ENOMEM. `argv` and `environment` (end in NULL) and `options` are borrowed for the request's
 * life. `out` is given back by run_request_done() in any case.
 */
int run_request_make(const struct run_options *options, char *const *argv, char *const *environment,
		     struct run_request *out, struct err *err);
/* Checks what is wanted, and puts it into the message. -EINVAL. */
int run_request_wants(struct run_request *request, struct err *err);
void run_request_done(struct run_request *request);

/* A DNS label out of a command's name: "Train_v2.py" becomes "train-v2-py"; "job" when nothing is
 * left. */
void run_request_name(const char *command, char out[RUN_NAME_MAX]);
bool run_request_is_label(const char *name);
/* A random UUID. -errno of the system's source. */
int run_request_new_key(char out[RUN_KEY_MAX], struct err *err);
bool run_request_is_key(const char *key);

#endif
