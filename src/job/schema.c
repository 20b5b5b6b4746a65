/* SPDX-License-Identifier: Apache-2.0 */
#include "job/schema.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "base/names.h"
#include "job/warning.h"

/* --- which field is which --------------------------------------------------------------------- */

#define WANTS(name_, kind_, max_) FORM_NUMBER(wants, Sluice__V1__Wants, name_, kind_, max_)
#define WANTS_TEXT(name_, max_)	  FORM_NUMBER(wants, Sluice__V1__Wants, name_, FORM_STRING, max_)

const struct form_field schema_wants[] = {
    WANTS(priority, FORM_I32, WANTS_PRIORITY_MAX),
    WANTS(hold, FORM_U32, WANTS_HOLD_COUNT - 1),
    WANTS(cpu_milli, FORM_U32, UINT32_MAX),
    WANTS(pids, FORM_U32, UINT32_MAX),
    WANTS(mem_bytes, FORM_U64, UINT64_MAX),
    WANTS(isolation, FORM_U32, ISOLATION_ASKED_COUNT - 1),
    WANTS(retries, FORM_U32, WANTS_RETRIES_MAX),
    WANTS(retry_lost, FORM_BOOL, 1),
    WANTS(retry_delay_ns, FORM_U64, UINT64_MAX),
    WANTS(time_ns, FORM_U64, UINT64_MAX),
    WANTS(idle_ns, FORM_U64, UINT64_MAX),
    WANTS(begin_unix_ns, FORM_U64, INT64_MAX),
    WANTS(has_ttl, FORM_BOOL, 1),
    WANTS(ttl_ns, FORM_U64, UINT64_MAX),
    WANTS(gpu_memory_bytes, FORM_U64, UINT64_MAX),
    WANTS(outsiders, FORM_U32, WANTS_OUTSIDERS_COUNT - 1),
    WANTS(array, FORM_U32, WANTS_ARRAY_COUNT - 1),
    WANTS(array_count, FORM_U32, WANTS_ARRAY_MAX),
    WANTS(array_parallel, FORM_U32, WANTS_ARRAY_MAX),
    WANTS(array_apart, FORM_BOOL, 1),
    WANTS(launcher, FORM_U32, WANTS_LAUNCHER_COUNT - 1),
    WANTS(workers, FORM_U32, WANTS_WORKERS_MAX),
    WANTS(worker_gpus, FORM_U32, UINT32_MAX),
    WANTS(worker_slots, FORM_U32, UINT32_MAX),
    WANTS(launcher_is_worker, FORM_BOOL, 1),
    WANTS(merge, FORM_BOOL, 1),
    WANTS(oversubscribe, FORM_BOOL, 1),
    WANTS_TEXT(after, WANTS_LIST_MAX),
    WANTS_TEXT(prefer, WANTS_LIST_MAX),
    WANTS_TEXT(gpu_type, WANTS_NAME_MAX),
    WANTS_TEXT(project, WANTS_NAME_MAX),
    WANTS_TEXT(array_indices, WANTS_LIST_MAX),
};
const size_t schema_wants_count = array_length(schema_wants);

static const char *const spec_pulls[SPEC_PULL_COUNT] = {
    [SPEC_PULL_MISSING] = "missing", [SPEC_PULL_NEVER] = "never", [SPEC_PULL_ALWAYS] = "always"};

static const char *const spec_runtimes[SPEC_RUNTIME_COUNT] = {
    [SPEC_RUNTIME_ANY] = "any", [SPEC_RUNTIME_PODMAN] = "podman", [SPEC_RUNTIME_DOCKER] = "docker"};

_Static_assert(sizeof(mode_t) == 4, "is one of uint32_t to the table");

#define SPEC(name_, kind_, max_) FORM_NUMBER(spec, Sluice__V1__JobSpec, name_, kind_, max_)
#define SPEC_CHARS(name_, kind_) FORM_CHARS(spec, Sluice__V1__JobSpec, name_, name_, kind_)
#define SPEC_LIST_AS(name_, list_, count_, message_, max_)                                         \
	FORM_STRINGS(spec, Sluice__V1__JobSpec, name_, list_, count_, message_, max_)

const struct form_field schema_spec[] = {
    SPEC_CHARS(name, FORM_TEXT),
    SPEC_CHARS(directory, FORM_BYTES),
    SPEC(umask, FORM_U32, 0777),
    SPEC(gpus, FORM_U32, UINT32_MAX),
    FORM_CHARS(spec, Sluice__V1__JobSpec, ids, gpu_ids, FORM_TEXT),
    SPEC(share_numerator, FORM_U32, UINT32_MAX),
    SPEC(share_denominator, FORM_U32, UINT32_MAX),
    SPEC(gpus_if_any, FORM_BOOL, 1),
    SPEC(ignore_outsiders, FORM_BOOL, 1),
    SPEC(grace_ns, FORM_U64, UINT64_MAX),
    SPEC(deadline_ns, FORM_U64, UINT64_MAX),
    SPEC(warn_signal, FORM_U32, WARNING_SIGNAL_LAST),
    SPEC(warn_before_ns, FORM_U64, INT64_MAX),
    SPEC(warn_alone, FORM_BOOL, 1),
    SPEC_CHARS(resources, FORM_TEXT),
    SPEC_CHARS(on_end, FORM_BYTES),
    SPEC_CHARS(output, FORM_BYTES),
    SPEC_CHARS(port, FORM_TEXT),
    SPEC(pty, FORM_BOOL, 1),
    SPEC(memlock, FORM_BOOL, 1),
    SPEC_CHARS(image, FORM_TEXT),
    SPEC_CHARS(workdir, FORM_TEXT),
    FORM_WORDS(spec, Sluice__V1__JobSpec, pull, spec_pulls),
    SPEC(entrypoint, FORM_U32, SPEC_STRINGS_MAX),
    SPEC_CHARS(run_as, FORM_TEXT),
    FORM_WORDS(spec, Sluice__V1__JobSpec, runtime, spec_runtimes),
    SPEC(privileged, FORM_BOOL, 1),
    SPEC(selinux_off, FORM_BOOL, 1),
    SPEC_CHARS(worker_image, FORM_TEXT),
    SPEC_LIST_AS("argument", argv, argc, argv, SPEC_STRINGS_MAX),
    SPEC_LIST_AS("variable", environment, environment_count, environment, SPEC_STRINGS_MAX),
    SPEC_LIST_AS("volume", volumes, volume_count, volumes, SPEC_VOLUMES_MAX),
    SPEC_LIST_AS("image_variable", image_environment, image_environment_count, image_environment,
		 SPEC_STRINGS_MAX),
    SPEC_LIST_AS("tmpfs", tmpfs, tmpfs_count, tmpfs, SPEC_TMPFS_MAX),
    SPEC_LIST_AS("worker_variable", worker_environment, worker_environment_count,
		 worker_environment, SPEC_STRINGS_MAX),
};
const size_t schema_spec_count = array_length(schema_spec);

const char *spec_runtime_to_string(uint32_t runtime)
{
	return names_at(spec_runtimes, runtime, NULL);
}

const char *spec_pull_to_string(uint32_t pull)
{
	return names_at(spec_pulls, pull, NULL);
}

/* --- what is wanted --------------------------------------------------------------------------- */

void schema_from_wants(const struct wants *wants, Sluice__V1__Wants *out)
{
	sluice__v1__wants__init(out);
	(void)form_to_message(schema_wants, schema_wants_count, wants, &out->base); /* no list */
}

int schema_to_wants(const Sluice__V1__Wants *message, struct wants *out, struct err *err)
{
	wants_init(out);
	int rc = form_from_message(schema_wants, schema_wants_count, &message->base, out, err);
	if (rc == 0)
		rc = wants_check(out, err);
	if (rc < 0)
		wants_done(out);
	return rc == -E2BIG ? -EINVAL : rc;
}

/* --- the specification ------------------------------------------------------------------------ */

int schema_from_spec(const struct spec *spec, struct schema_spec_message *out)
{
	Sluice__V1__JobSpec *message = &out->spec;

	sluice__v1__job_spec__init(message);
	sluice__v1__job_owner__init(&out->owner);
	schema_from_wants(&spec->wants, &out->wants);
	message->wants = &out->wants;

	_Static_assert(sizeof(gid_t) == sizeof(uint32_t), "the message borrows the groups");
	out->owner.uid = spec->uid;
	out->owner.gid = spec->gid;
	out->owner.groups = (uint32_t *)spec->groups;
	out->owner.n_groups = spec->group_count;
	message->owner = &out->owner;

	for (size_t i = 0; i < spec->limit_count && i < SPEC_LIMITS_MAX; i++) {
		sluice__v1__limit__init(&out->limit[i]);
		out->limit[i].resource = spec->limits[i].resource;
		out->limit[i].soft = spec->limits[i].soft;
		out->limit[i].hard = spec->limits[i].hard;
		out->limits[i] = &out->limit[i];
		message->n_limits++;
	}

	message->limits = out->limits;
	return form_to_message(schema_spec, schema_spec_count, spec, &message->base);
}

void schema_spec_message_done(struct schema_spec_message *message)
{
	form_message_done(schema_spec, schema_spec_count, &message->spec.base);
}

static int schema_to_limits(const Sluice__V1__JobSpec *message, struct spec *out, struct err *err)
{
	if (message->n_limits > SPEC_LIMITS_MAX)
		return err_set(err, -E2BIG, "%zu resource limits are too many: there are %d",
			       message->n_limits, SPEC_LIMITS_MAX);

	for (size_t i = 0; i < message->n_limits; i++) {
		const Sluice__V1__Limit *limit = message->limits[i];
		out->limits[out->limit_count++] = (struct spec_limit){
		    .resource = limit->resource, .soft = limit->soft, .hard = limit->hard};
	}

	return 0;
}

int schema_to_spec(const Sluice__V1__JobSpec *message, struct spec *out, struct err *err)
{
	spec_init(out);
	int rc = form_from_message(schema_spec, schema_spec_count, &message->base, out, err);
	if (rc == 0)
		rc = schema_to_limits(message, out, err);
	if (rc == 0 && message->wants)
		rc = schema_to_wants(message->wants, &out->wants, err);
	if (rc < 0)
		spec_done(out);
	return rc;
}

int schema_to_owned_spec(const Sluice__V1__JobSpec *message, struct spec *out, struct err *err)
{
	const Sluice__V1__JobOwner *owner = message->owner;
	int rc = schema_to_spec(message, out, err);
	if (rc < 0)
		return rc;

	if (!owner)
		rc = err_set(err, -EINVAL, "a specification that names no user");
	for (size_t i = 0; rc == 0 && i < owner->n_groups; i++)
		rc = spec_add_group(out, owner->groups[i], err);
	if (rc < 0) {
		spec_done(out);
		return rc;
	}

	out->uid = owner->uid;
	out->gid = owner->gid;
	return 0;
}
