/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which configuration counts on this node: one named file, or one of several in a directory (the
 * files of a ConfigMap), chosen by the node's label, a default or a fallback, as NVIDIA's
 * config-manager does it. Pure but for reading the directory: watching is reload.c's.
 */
#ifndef SLUICE_AGENT_CHOICE_H
#define SLUICE_AGENT_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file.h"

struct err;

enum choice_limits {
	CHOICE_NAME_MAX = 254, /* of a file, which is what a label's value or a ConfigMap key is */
	CHOICE_FILES_MAX = 1024, /* in the directory */
};

enum choice_fallback {			  /* bits, tried in this order */
		       CHOICE_NAMED = 1,  /* a file `default` */
		       CHOICE_SINGLE = 2, /* the only file */
		       CHOICE_EMPTY = 4,  /* built-in defaults */
};

struct choice_rules {
	const char *directory;	  /* --config-file-srcdir */
	const char *default_name; /* --default-config; NULL or "": none */
	uint32_t fallbacks;	  /* --fallback-strategies: enum choice_fallback bits */
};

struct choice {
	char name[CHOICE_NAME_MAX];    /* "": built-in defaults */
	char path[FILE_PATH_MAX];      /* "": no file */
	char missing[CHOICE_NAME_MAX]; /* what was asked for and is not there; "": nothing */
};

/*
 * Chooses. `label`: the node's value, NULL or "": it has none. `running`: the name that counts now,
 * NULL at the first start. A label or default that names a missing file leaves the running one
 * (out->missing says so); at the first start the fallbacks, and if none applies the built-in
 * defaults. Names that begin with "..", directories and what is no DNS-like name are skipped.
 * -ENOENT, -EACCES, ... of the directory; -EINVAL: a label with a '/'; -E2BIG.
 */
int choice_make(const struct choice_rules *rules, const char *label, const char *running,
		struct choice *out, struct err *err);
/* "named,single,empty" and back. -EINVAL names the word. */
int choice_fallbacks_parse(const char *text, uint32_t *out, struct err *err);

#endif
