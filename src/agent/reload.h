/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration of a running agent: read at the start, and again when somebody asks. One that
 * cannot be read or does not fit is refused as a whole, and the one that was stays. The file is
 * read on the storage thread; what it says is applied on the loop.
 */
#ifndef SLUICE_AGENT_RELOAD_H
#define SLUICE_AGENT_RELOAD_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/file.h"
#include "policy/config.h"

struct log;
struct reload;
struct storage;

struct reload_options {
	struct storage *storage; /* borrowed */
	struct log *log;	 /* borrowed; may be NULL */
	const char *given;	 /* the file that was named; NULL: the usual places. Borrowed */
	/* Makes a configuration the one that counts. Any failure refuses it. */
	int (*apply)(const struct config *config, uint32_t *out_changed, void *context,
		     struct err *err);
	void *context;
};

/* What is in force. Plain data. */
struct reload_state {
	const struct config *config; /* borrowed until the next reload */
	char path[FILE_PATH_MAX];    /* "": there is no file, and the defaults hold */
	int64_t read_unix_ns;	     /* when it was last read with success */
	char error[ERR_TEXT_MAX];    /* of the last attempt; "": it was accepted */
};

/* Reads the configuration for the first time, without applying it. Blocks: for the start. -EINVAL
 * with file, line and column; -ENOENT, -EACCES, ... for a file that was named; -ENOMEM. */
int reload_new(const struct reload_options *options, struct reload **out, struct err *err);
/* After the storage thread has ended. NULL is fine; returns NULL. */
struct reload *reload_free(struct reload *reload);
const struct reload_state *reload_state(const struct reload *reload);

/*
 * Reads it again. `done` (may be NULL) is called later, once, with 0 and how many resources are not
 * the same, or with why it was refused. 0, or why not even that could be begun: then `done` is not
 * called.
 */
int reload_start(struct reload *reload,
		 void (*done)(int result, uint32_t changed, const struct err *err, void *context),
		 void *context, struct err *err);

#endif
