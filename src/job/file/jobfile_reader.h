/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the job file's reader share: where it is, what it has noted. Private to
 * job/file/.
 */
#ifndef SLUICE_JOB_FILE_JOBFILE_READER_H
#define SLUICE_JOB_FILE_JOBFILE_READER_H

#include "job/file/jobfile.h"
#include "job/file/jobfile_schema.h"

struct raw_pod;

struct jobreader {
	struct objschema schema;
	struct jobfile_arena *arena;
	const struct jobfile_options *options;
	struct jobfile_job *job; /* that is being made */
	struct jobfile_note *newest_note;
	bool is_indexed;       /* $(JOB_COMPLETION_INDEX) differs from member to member */
	struct buf *ignored;   /* paths of the ignored fields, separated by ", " */
	uint32_t ignored_line; /* of the first */
	size_t ignored_more;   /* that did not fit */
	size_t expanded;       /* bytes of the container at hand */
	const char *path;      /* of the pod's spec, for errors */
};

/* Errors from here on have this path in front. */
void jobreader_at(struct jobreader *reader, const char *path);
/* -ENOMEM */
int jobreader_note(struct jobreader *reader, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* -ENOMEM with the file's name. */
int jobreader_no_memory(const struct jobreader *reader);
/* A field that is ignored, as jobfile_schema.h tells it. */
int jobreader_ignored(const char *path, const struct yaml_node *key, void *context);

/* The one container of a pod and what the pod says for it; `path` is that of the pod's spec, as
 * "spec.template.spec". -EINVAL, -ENOMEM. */
int jobreader_task(struct jobreader *reader, const struct raw_pod *pod, const char *path,
		   struct jobfile_task *out);
/* `resources` of the container. Its path is set. */
struct raw_resources;
int jobreader_resources(struct jobreader *reader, const struct raw_resources *raw,
			struct jobfile_task *out);
/* volumeMounts with the volumes that they name. */
struct raw_container;
int jobreader_mounts(struct jobreader *reader, const struct raw_pod *pod,
		     const struct raw_container *container, struct jobfile_task *out);

#endif
