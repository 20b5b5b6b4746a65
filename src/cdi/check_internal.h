/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the check share: nobody else includes this. */
#ifndef SLUICE_CDI_CHECK_INTERNAL_H
#define SLUICE_CDI_CHECK_INTERNAL_H

#include <stdbool.h>

#include "base/file.h"
#include "cdi/check.h"
#include "cdi/scan.h"

struct checker {
	const struct scan *scan;
	const struct cdi_check_options *options;
	struct cdi_check *check;
	uint32_t first;		      /* finding of the file that is looked at now */
	const struct scan_file *file; /* that one */
	bool is_gpu_file;	      /* some device of it has a node of a GPU */
	bool was_asked, was_looked_at;
	const char *library; /* that was read last: files name each several times */
	struct check_machine machine;
	int rc; /* the first failure; then the rest does nothing */
};

/* What a finding is about: borrowed, and NULL where there is none. */
struct check_about {
	const struct scan_file *file;
	const char *device; /* the name alone: of the file's kind; or qualified, without a file */
	const char *path;
	const char *key;
	const char *fix;
};

/* Notes a finding, or counts it to one that says the same. */
void check_add(struct checker *checker, enum check_id id, enum check_severity severity,
	       const struct check_about *about, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* The command that writes `file` again. Returns `out`. */
const char *check_fix_file(const struct checker *checker, const struct scan_file *file,
			   char out[CHECK_TEXT_MAX]);
/* `text` in `out` as a word of the shell. Returns `out`. */
const char *check_quote(const char *text, char out[CHECK_TEXT_MAX]);

/* Where on this machine `path` of a file lies. False: too long. */
bool check_path(const struct checker *checker, const char *path, char out[FILE_PATH_MAX]);
/* What a device node is made from: its hostPath, else its path. */
const char *check_node_path(const struct yaml_node *node);
/* The 3 of "/dev/nvidia3". False: it is no node of a GPU. */
bool check_gpu_minor(const char *path, uint32_t *out);
/* The number of "/dev/nvidia-caps/nvidia-cap12". */
bool check_cap_minor(const char *path, uint32_t *out);

/* Everything that `edits` names. `device` is NULL for those of the whole file. */
void check_edits(struct checker *checker, const struct yaml_node *edits, const char *device);

/* The GPUs of the file against those of the driver. `device` alone, or NULL for all. */
void check_gpus(struct checker *checker, const struct yaml_node *device);
/* What the driver says; NULL: nothing. */
const struct check_machine *check_ask(struct checker *checker);
/* Whether the installed driver fits the module: a finding if not. */
void check_look(struct checker *checker);

#endif
