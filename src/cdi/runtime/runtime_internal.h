/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of runtime.h share. For runtime*.c only. */
#ifndef SLUICE_CDI_RUNTIME_RUNTIME_INTERNAL_H
#define SLUICE_CDI_RUNTIME_RUNTIME_INTERNAL_H

#include "cdi/runtime/runtime.h"
#include "cdi/runtime/toml.h"

#define RUNTIME_DOCKER_CONFIG	  "/etc/docker/daemon.json"
#define RUNTIME_CONTAINERD_CONFIG "/etc/containerd/config.toml"

/* The file that a machine's runtime reads, as it is called there. */
const char *runtime_config(const struct runtime_machine *machine);

/* Sets state and text. Returns 0, so that it can end a function. */
int runtime_say(struct runtime_plan *plan, enum runtime_state state, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Adds a note; the last one that fits says so by being there: others are left out. */
void runtime_note(struct runtime_plan *plan, bool is_warning, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same of a warning that is not about CDI itself. */
void runtime_warn(struct runtime_plan *plan, enum runtime_about about, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Reads `path` below the machine's root. 1: it is there; 0: it is not; what reading gave. */
int runtime_read(const struct runtime_machine *machine, const char *path, struct buf *out,
		 struct err *err);
/* The files that match a pattern below the machine's root, sorted, as they are called there; the
 * array and the names are owned: runtime_glob_free(). 0, -ENOMEM, -E2BIG. */
int runtime_glob(const struct runtime_machine *machine, const char *pattern, char ***out,
		 size_t *out_count, struct err *err);
void runtime_glob_free(char **paths, size_t count);

/* Whether a list of directories for specifications, if there is one, names the one that the agent
 * writes to; else a warning. */
void runtime_note_directories(struct runtime_plan *plan, const struct toml *toml,
			      const struct toml_path *path);

/* The edit of a containerd file: as daemon_json_set_cdi(). Nothing in it: a whole file. */
int runtime_containerd_edit(const struct toml *toml, struct buf *out, struct err *err);
/* The line on which a containerd file says enable_cdi; 0: none. */
uint32_t runtime_containerd_line(const struct toml *toml);
/* What a drop-in of ours holds for a main file of this version, 2 or 3. */
int runtime_containerd_drop_in(uint64_t version, struct buf *out);
/* Its name, as it is called there. */
#define RUNTIME_DROP_IN "/etc/containerd/conf.d/99-sluice-cdi.toml"
int runtime_plan_containerd(const struct runtime_machine *machine, struct runtime_plan *plan,
			    struct err *err);

/* The file behind `path` (below the machine's root), links followed; `out` is on this machine. Not
 * there: itself. -EINVAL: a link that leads to nothing or out of the root. */
int runtime_resolve(const struct runtime_machine *machine, const char *path,
		    char out[FILE_PATH_MAX], struct err *err);

#endif
