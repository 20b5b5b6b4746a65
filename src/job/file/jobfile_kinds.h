/* SPDX-License-Identifier: Apache-2.0 */
/* What each kind of object says as a whole: how often, how long, how many. Private to job/file/. */
#ifndef SLUICE_JOB_FILE_JOBFILE_KINDS_H
#define SLUICE_JOB_FILE_JOBFILE_KINDS_H

struct jobreader;
struct raw_document;
struct raw_pod;
struct objschema_int;
struct yaml_node;

/* Each fills reader->job. -EINVAL with the path, -ENOMEM. */
int kinds_pod(struct jobreader *reader, const struct raw_document *raw);
int kinds_job(struct jobreader *reader, const struct raw_document *raw);
int kinds_mpijob(struct jobreader *reader, const struct raw_document *raw);
/* Name, namespace and annotations; before the above. */
int kinds_metadata(struct jobreader *reader, const struct raw_document *raw);

/* Parts of several kinds. */
int kinds_retries(struct jobreader *reader, const struct objschema_int *limit);
void kinds_times(struct jobreader *reader, const struct objschema_int *deadline,
		 const struct objschema_int *ttl, const struct raw_pod *pod);
int kinds_deadline(const struct jobreader *reader, const struct objschema_int *deadline,
		   const char *suffix);
int kinds_managed(const struct jobreader *reader, const struct yaml_node *by, const char *suffix,
		  const char *controller);

#endif
