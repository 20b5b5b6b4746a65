/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The OCI runtime wrapper, but for its end, which is to become the runtime: what the runtime's
 * command line says, and the container's config.json edited before the container exists. Reads
 * the specifications that lie in the CDI directories; never a driver, never the container's file
 * system. Called by cmd/service/runtime_wrapper.c.
 *
 * Facts: the command lines of https://github.com/opencontainers/runc and
 * https://github.com/containers/crun; the form of runc's log, which container engines read.
 */
#ifndef SLUICE_CDI_RUNTIME_WRAPPER_H
#define SLUICE_CDI_RUNTIME_WRAPPER_H

#include <stdbool.h>

#include "base/file.h"
#include "cdi/visible.h"

struct buf;
struct err;

/* All borrowed of the command line. */
struct wrapper_call {
	const char *command;	/* "create"; NULL: none that we know */
	bool is_start;		/* create or run: there is a bundle to be edited */
	const char *bundle;	/* "." */
	const char *config;	/* "config.json"; absolute or below the bundle */
	const char *log;	/* NULL: none */
	const char *log_format; /* "text" */
};

/* Takes any command line: what cannot be understood is left to the runtime. */
void wrapper_call_parse(int argc, char *const *argv, struct wrapper_call *out);

struct wrapper_settings {
	struct visible_settings visible;
	const char *root; /* before the CDI directories, /proc and /dev; "" for the real ones */
};

/*
 * Gives the container what it asks for, if it may. 0 also when it asks for nothing: then the file
 * stays as it is, as it does on failure. -EINVAL: its config.json cannot be read as one, or asks
 * for what cannot be; -ELOOP: it is a link; the errors of visible_read() and apply_devices(); what
 * writing gives.
 */
int wrapper_edit(const struct wrapper_call *call, const struct wrapper_settings *settings,
		 struct err *err);

/*
 * The first of `runtimes` (names and absolute paths, with commas between them) that is a program in
 * the directories of `path` ("": the usual ones) and not `self`, a descriptor of this program, -1
 * for none. -ENOENT: there is none, the message names them.
 */
int wrapper_find_runtime(const char *runtimes, const char *path, int self, char out[FILE_PATH_MAX],
			 struct err *err);

/* Appends one line of runc's log: "json" or another `format`. `now` is seconds since 1970. As
 * buf_add(). */
int wrapper_log_line(const char *format, const char *text, long long now, struct buf *out);

#endif
