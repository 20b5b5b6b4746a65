/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which configuration counts on this node: one of several files in a directory (those of a
 * ConfigMap), chosen by the node's label, a default or a fallback, as NVIDIA's config-manager does
 * it. Also what is remembered of the choice over a restart. Pure but for reading the directory:
 * watching is filewatch.c's, reading the file reload.c's.
 *
 * https://github.com/NVIDIA/k8s-device-plugin, cmd/config-manager
 */
#ifndef SLUICE_AGENT_CHOICE_H
#define SLUICE_AGENT_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file.h"

struct buf;
struct err;

enum choice_limits {
	CHOICE_NAME_MAX = 254, /* of a file, which is what a label's value or a ConfigMap key is */
	CHOICE_FILES_MAX = 1024,		 /* in the directory */
	CHOICE_MEMORY_MAX = 4 * CHOICE_NAME_MAX, /* bytes of the state file */
};

enum choice_fallback {			  /* bits, tried in this order */
		       CHOICE_NAMED = 1,  /* a file `default` */
		       CHOICE_SINGLE = 2, /* the only file */
		       CHOICE_EMPTY = 4,  /* built-in defaults */
};

struct choice_rules {
	const char *directory;	  /* --config-file-srcdir. Borrowed, as the texts below */
	const char *default_name; /* --default-config; NULL or "": none */
	uint32_t fallbacks;	  /* --fallback-strategies: enum choice_fallback bits */
};

struct choice {
	char name[CHOICE_NAME_MAX];    /* "": built-in defaults */
	char path[FILE_PATH_MAX];      /* "": no file to read: see choice_make() */
	char missing[CHOICE_NAME_MAX]; /* what was asked for and is not there; "": nothing */
};

/*
 * Chooses. `label`: the node's value, NULL or "": it has none. `running`: the name that counts now,
 * NULL at the first start. A label or default that names a missing file leaves the running one
 * (out->missing says so); at the first start the fallbacks, and if none applies the built-in
 * defaults. A running one whose file is gone keeps its name and has no path: what was read of it
 * stays. Names that do not begin and end with a letter or a digit, directories and names of more
 * than letters, digits, '-', '_' and '.' are skipped. -ENOENT, -EACCES, ... of the directory;
 * -EINVAL: a label or default that can be no such name; -E2BIG.
 */
int choice_make(const struct choice_rules *rules, const char *label, const char *running,
		struct choice *out, struct err *err);
/* "named,single,empty"; what stands behind "empty" is never tried, and is not in the bits. "":
 * none. -EINVAL names the word. */
int choice_fallbacks_parse(const char *text, uint32_t *out, struct err *err);

/* What a restart must not lose: the API server may be away then. */
struct choice_memory {
	bool is_known;		     /* else nothing was ever chosen here */
	char name[CHOICE_NAME_MAX];  /* that counted */
	char label[CHOICE_NAME_MAX]; /* of the node; "": it had none */
};
/* The state file's content: `data` with `length` bytes. -EINVAL: it is not such a file. */
int choice_memory_parse(const char *data, size_t length, struct choice_memory *out,
			struct err *err);
/* -ENOMEM. */
int choice_memory_format(const struct choice_memory *memory, struct buf *out);

#endif
