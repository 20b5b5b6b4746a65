/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration of a running agent: read at the start, and again when somebody asks, when its
 * file has other content, and when the node's label names another file. One that cannot be read or
 * does not fit is refused as a whole, and the one that was stays. Files are read on the storage
 * thread; what they say is applied on the loop.
 *
 * Content is compared, not paths: a file that is only touched changes nothing, a ConfigMap that is
 * edited under its old name does.
 */
#ifndef SLUICE_AGENT_RELOAD_H
#define SLUICE_AGENT_RELOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/choice.h"
#include "base/err.h"
#include "base/file.h"
#include "policy/config.h"

struct log;
struct loop;
struct reload;
struct storage;

#define RELOAD_LOOK_NS UINT64_C(30000000000) /* between looks at what inotify does not tell */

/* What others may want to hear of. */
enum reload_note {
	RELOAD_APPLIED, /* the path, or "" for the defaults */
	RELOAD_REFUSED, /* why, with file, line and column */
	RELOAD_MISSING, /* "specified config X does not exist" */
};

struct reload_options {
	struct loop *loop;	 /* borrowed, all of these */
	struct storage *storage; /* ends before reload_free() */
	struct log *log;	 /* may be NULL */
	const char *given;	 /* the file that was named; NULL: the usual places */
	/* With a directory: one of the files in it, and no other place is looked at. */
	struct choice_rules rules;
	/* reload_set_label() will be called; until then the last label counts that there was. */
	bool awaits_label;
	const char *state_dir; /* with a directory: for the file `configuration`; NULL: none */
	const struct config_overrides *overrides; /* copied; NULL: none */
	bool strict;				  /* warnings about unknown keys are errors */
	/* Makes a configuration the one that counts. Any failure refuses it. */
	int (*apply)(const struct config *config, uint32_t *out_changed, void *context,
		     struct err *err);
	/* May be NULL. Not before reload_new() has returned. */
	void (*noted)(enum reload_note note, const char *text, void *context);
	void *context;
};

/* What is in force. Plain data. */
struct reload_state {
	const struct config *config;   /* borrowed until the next reload */
	char path[FILE_PATH_MAX];      /* "": there is no file, and the defaults hold */
	char name[CHOICE_NAME_MAX];    /* of several: the chosen one; "": defaults, or only one */
	char missing[CHOICE_NAME_MAX]; /* asked for and not there; "": nothing */
	int64_t read_unix_ns;	       /* when it was last read with success */
	char error[ERR_TEXT_MAX];      /* of the last attempt; "": it was accepted */
};

/*
 * Reads the configuration for the first time, without applying it, and begins to watch. Blocks: for
 * the start. -EINVAL with file, line and column; -ENOENT, -EACCES, ... for a file or a directory
 * that was named; -ENOMEM. Of several: where the label's choice is refused, the one that counted
 * before the restart is taken, and the state says why.
 */
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

/*
 * The node's label (nvidia.com/device-plugin.config) has this value now; NULL or "": it has none.
 * For whoever watches the node: to be called when it is first known and whenever it is another. The
 * file that it names is read and applied like any other change. Without a directory of
 * configurations nothing happens. On the loop.
 */
void reload_set_label(struct reload *reload, const char *value);

#endif
