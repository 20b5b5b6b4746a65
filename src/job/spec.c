/* SPDX-License-Identifier: Apache-2.0 */
#include "job/spec.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/check.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/text.h"
#include "job/schema.h"

void spec_init(struct spec *spec)
{
	*spec = (struct spec){0};
}

void spec_done(struct spec *spec)
{
	if (!spec)
		return;
	free(spec->groups);
	form_done(schema_spec, schema_spec_count, spec);
	wants_done(&spec->wants);
	spec_init(spec);
}

/* --- adding ----------------------------------------------------------------------------------- */

static int spec_list_add(char ***list, size_t *count, const char *text, struct err *err)
{
	int rc = form_list_add(list, count, SPEC_STRINGS_MAX, text);
	if (rc == -E2BIG)
		return err_set(err, rc, "more than %d arguments or variables", SPEC_STRINGS_MAX);
	return rc < 0 ? err_set(err, rc, "no memory for a job's specification") : 0;
}

int spec_add_argument(struct spec *spec, const char *text, struct err *err)
{
	return spec_list_add(&spec->argv, &spec->argc, text, err);
}

int spec_add_variable(struct spec *spec, const char *text, struct err *err)
{
	return spec_list_add(&spec->environment, &spec->environment_count, text, err);
}

int spec_add_volume(struct spec *spec, const char *text, struct err *err)
{
	if (spec->volume_count >= SPEC_VOLUMES_MAX)
		return err_set(err, -E2BIG, "more than %d volumes", SPEC_VOLUMES_MAX);
	return spec_list_add(&spec->volumes, &spec->volume_count, text, err);
}

int spec_add_image_variable(struct spec *spec, const char *text, struct err *err)
{
	return spec_list_add(&spec->image_environment, &spec->image_environment_count, text, err);
}

int spec_add_tmpfs(struct spec *spec, const char *text, struct err *err)
{
	if (spec->tmpfs_count >= SPEC_TMPFS_MAX)
		return err_set(err, -E2BIG, "more than %d directories in memory", SPEC_TMPFS_MAX);
	return spec_list_add(&spec->tmpfs, &spec->tmpfs_count, text, err);
}

int spec_add_group(struct spec *spec, gid_t group, struct err *err)
{
	if (spec->group_count >= SPEC_GROUPS_MAX)
		return err_set(err, -E2BIG, "more than %d groups", SPEC_GROUPS_MAX);

	gid_t *more = reallocarray(spec->groups, spec->group_count + 1, sizeof(*more));
	if (!more)
		return err_set(err, -ENOMEM, "no memory for a job's groups");

	spec->groups = more;
	more[spec->group_count++] = group;
	return 0;
}

/* --- checking --------------------------------------------------------------------------------- */

/* RFC 1123: what Kubernetes takes as the name of an object's part. */
static bool spec_name_is_good(const char *name)
{
	size_t length = strnlen(name, SPEC_NAME_MAX);
	if (length == 0 || length == SPEC_NAME_MAX || name[0] == '-' || name[length - 1] == '-')
		return false;

	for (size_t i = 0; i < length; i++) {
		char byte = name[i];
		if (!(byte >= 'a' && byte <= 'z') && !(byte >= '0' && byte <= '9') && byte != '-')
			return false;
	}

	return true;
}

static int spec_check_list(char *const *list, size_t count, size_t max, const char *what,
			   struct err *err)
{
	if (count > SPEC_STRINGS_MAX)
		return err_set(err, -E2BIG, "the job has %zu %s: %d are allowed", count, what,
			       SPEC_STRINGS_MAX);

	size_t bytes = 0;

	for (size_t i = 0; i < count; i++) {
		size_t length = strlen(list[i]) + 1;
		if (length > SPEC_STRING_MAX)
			return err_set(err, -E2BIG,
				       "one of the job's %s has %zu bytes: Linux takes %d, so "
				       "pass it in a file",
				       what, length, SPEC_STRING_MAX);

		bytes += length; /* cannot overflow: both are capped */
	}

	if (bytes > max)
		return err_set(err, -E2BIG, "the job's %s have %zu bytes: %zu are allowed", what,
			       bytes, max);

	return 0;
}

static int spec_check_ids(const struct spec *spec, struct err *err)
{
	if (strnlen(spec->ids, SPEC_IDS_MAX) == SPEC_IDS_MAX)
		return err_set(err, -E2BIG, "the list of GPUs is longer than %d bytes",
			       SPEC_IDS_MAX - 1);
	if (spec->ids[0] == '\0')
		return 0;

	uint64_t named = 1;
	for (const char *at = spec->ids; (at = strchr(at, ',')); at++)
		named++;

	if (named != spec->gpus)
		return err_set(err, -EINVAL, "%" PRIu64 " GPUs are named and %u are wanted", named,
			       spec->gpus);

	return 0;
}

static int spec_check_user(const struct spec *spec, struct err *err)
{
	/* -1 means "leave it" to setresuid(2). */
	bool is_good = spec->uid != (uid_t)-1 && spec->gid != (gid_t)-1;
	for (size_t i = 0; i < spec->group_count; i++)
		is_good = is_good && spec->groups[i] != (gid_t)-1;

	if (!is_good)
		return err_set(err, -EINVAL, "4294967295 is no user and no group");
	if (spec->group_count > SPEC_GROUPS_MAX)
		return err_set(err, -E2BIG, "the job's user is in %zu groups: %d are allowed",
			       spec->group_count, SPEC_GROUPS_MAX);
	if (spec->umask > 0777)
		return err_set(err, -EINVAL, "the umask %o is larger than 0777",
			       (unsigned)spec->umask);
	if (spec->limit_count > SPEC_LIMITS_MAX)
		return err_set(err, -E2BIG, "the job has %zu resource limits: %d are allowed",
			       spec->limit_count, SPEC_LIMITS_MAX);

	for (size_t i = 0; i < spec->limit_count; i++) {
		const struct spec_limit *limit = &spec->limits[i];
		if (limit->resource >= SPEC_LIMITS_MAX || limit->soft > limit->hard)
			return err_set(err, -EINVAL,
				       "resource limit %u cannot be meant (soft %" PRIu64
				       ", hard %" PRIu64 ")",
				       limit->resource, limit->soft, limit->hard);
	}

	return 0;
}

/* What every form of an image's name has, and nothing that an option, a shell or a terminal could
 * read as something else. */
static bool spec_image_is_good(const char *image)
{
	size_t length = strnlen(image, SPEC_IMAGE_MAX);
	if (length == SPEC_IMAGE_MAX || image[0] == '-')
		return false;
	for (size_t i = 0; i < length; i++)
		if (image[i] <= ' ' || image[i] > '~')
			return false;
	return true;
}

/* "/a:/b", "/a:/b:ro", "/a:/b:rw", or "/a" for an empty one that ends with the container: no
 * other option, for some of podman's change what is there. */
static bool spec_volume_is_good(const char *text)
{
	const char *inside = strchr(text, ':');
	if (text[0] == '/' && !inside)
		return text[1] != '\0' && !strchr(text, ',');
	if (text[0] != '/' || !inside || inside[1] != '/')
		return false;
	const char *option = strchr(inside + 1, ':');
	return !option || strcmp(option, ":ro") == 0 || strcmp(option, ":rw") == 0;
}

/* "N" or "N:M", none above `max`. */
static bool spec_pair_is_good(const char *text, uint64_t max)
{
	uint64_t number;
	size_t length = strcspn(text, ":");
	if (parse_u64_span(text, length, 0, max, &number) < 0)
		return false;
	return text[length] == '\0' || parse_u64(text + length + 1, 0, max, &number) == 0;
}

/* "/dev/shm:67108864". */
static bool spec_tmpfs_is_good(const char *text)
{
	uint64_t bytes;
	const char *colon = strrchr(text, ':');
	return text[0] == '/' && colon && memchr(text, ',', (size_t)(colon - text)) == NULL &&
	       memchr(text, ':', (size_t)(colon - text)) == NULL &&
	       parse_u64(colon + 1, 0, INT64_MAX, &bytes) == 0;
}

static int spec_check_tmpfs(const struct spec *spec, struct err *err)
{
	if (spec->tmpfs_count > SPEC_TMPFS_MAX)
		return err_set(err, -E2BIG, "the job has %zu directories in memory: %d are allowed",
			       spec->tmpfs_count, SPEC_TMPFS_MAX);

	for (size_t i = 0; i < spec->tmpfs_count; i++)
		if (!spec_tmpfs_is_good(spec->tmpfs[i]))
			return err_set(err, -EINVAL,
				       "'%.128s' is no absolute path, ':' and a number of bytes",
				       spec->tmpfs[i]);

	return 0;
}

static int spec_check_rest(const struct spec *spec, struct err *err)
{
	if (spec->output[0] && spec->output[0] != '/')
		return err_set(err, -EINVAL, "the file '%.128s' for output is no absolute path",
			       spec->output);
	if (spec->port[0] && !spec_pair_is_good(spec->port, UINT16_MAX))
		return err_set(err, -EINVAL, "'%.32s' is no TCP port", spec->port);

	const struct wants *wants = &spec->wants;
	if (wants->workers > 0 && !wants->oversubscribe &&
	    spec->gpus != (uint64_t)wants->workers * wants->worker_gpus)
		return err_set(err, -EINVAL,
			       "%" PRIu32 " GPUs for %" PRIu32 " workers with %" PRIu32 " each",
			       spec->gpus, wants->workers, wants->worker_gpus);

	if (wants->workers > 0 && spec->image[0])
		return err_set(err, -EINVAL,
			       "a job with workers cannot have an image yet: run it with --host");

	return wants_check(wants, err);
}

static int spec_check_image(const struct spec *spec, struct err *err)
{
	if (spec->image[0] == '\0') {
		if (spec->volume_count == 0 && spec->image_environment_count == 0 &&
		    spec->tmpfs_count == 0 && spec->entrypoint == 0 && spec->run_as[0] == '\0' &&
		    spec->worker_image[0] == '\0' && !spec->privileged && !spec->selinux_off &&
		    spec->pull == SPEC_PULL_MISSING && spec->runtime == SPEC_RUNTIME_ANY &&
		    spec->workdir[0] == '\0')
			return 0;

		return err_set(err, -EINVAL, "volumes and the like need an image");
	}

	if (!spec_image_is_good(spec->image))
		return err_set(err, -EINVAL,
			       "'%.128s' is no name of an image: it has at most %d printable "
			       "characters, no blank, and no '-' in front",
			       spec->image, SPEC_IMAGE_MAX - 1);

	if (spec->worker_image[0] && !spec_image_is_good(spec->worker_image))
		return err_set(err, -EINVAL, "'%.128s' is no name of an image for the workers",
			       spec->worker_image);

	if (spec->entrypoint > spec->argc)
		return err_set(err, -EINVAL,
			       "%" PRIu32
			       " words are to be the entrypoint, and the command has %zu",
			       spec->entrypoint, spec->argc);

	if (spec->run_as[0] && !spec_pair_is_good(spec->run_as, UINT32_MAX - 1))
		return err_set(err, -EINVAL, "'%.32s' is no UID or UID:GID", spec->run_as);
	if (spec->runtime >= SPEC_RUNTIME_COUNT)
		return err_set(err, -EINVAL, "no such runtime of containers: %" PRIu32,
			       spec->runtime);
	if (spec->pull >= SPEC_PULL_COUNT)
		return err_set(err, -EINVAL, "no such way to pull an image: %" PRIu32, spec->pull);

	if (spec->workdir[0] && (spec->workdir[0] != '/' ||
				 strnlen(spec->workdir, SPEC_WORKDIR_MAX) == SPEC_WORKDIR_MAX))
		return err_set(
		    err, -EINVAL,
		    "the container's directory '%.128s' is no absolute path of less than %d bytes",
		    spec->workdir, SPEC_WORKDIR_MAX);

	if (spec->volume_count > SPEC_VOLUMES_MAX)
		return err_set(err, -E2BIG, "the job has %zu volumes: %d are allowed",
			       spec->volume_count, SPEC_VOLUMES_MAX);

	for (size_t i = 0; i < spec->volume_count; i++)
		if (!spec_volume_is_good(spec->volumes[i]))
			return err_set(err, -EINVAL,
				       "the volume '%.128s' is not HOST:CONTAINER with absolute "
				       "paths, and perhaps :ro",
				       spec->volumes[i]);

	for (size_t i = 0; i < spec->image_environment_count; i++)
		if (spec->image_environment[i][0] == '=' ||
		    !strchr(spec->image_environment[i], '='))
			return err_set(err, -EINVAL, "the variable '%.128s' is not NAME=VALUE",
				       spec->image_environment[i]);

	return spec_check_list(spec->image_environment, spec->image_environment_count,
			       SPEC_ENVIRONMENT_BYTES_MAX / 4, "variables for the container", err);
}

int spec_check(const struct spec *spec, struct err *err)
{
	if (!spec_name_is_good(spec->name))
		return err_set(err, -EINVAL,
			       "'%.*s' is no name for a job: a name has 1 to %d of a-z, 0-9 and "
			       "'-', and no '-' at its ends",
			       SPEC_NAME_MAX, spec->name, SPEC_NAME_MAX - 1);

	if (spec->argc > 0 ? spec->argv[0][0] == '\0' : spec->image[0] == '\0')
		return err_set(err, -EINVAL, "there is nothing to run: name a command");

	size_t length = strnlen(spec->directory, SPEC_DIRECTORY_MAX);
	if (spec->directory[0] != '/' || length == SPEC_DIRECTORY_MAX)
		return err_set(err, -EINVAL,
			       "the job's directory '%.*s' is no absolute path of less than %d "
			       "bytes",
			       128, spec->directory, SPEC_DIRECTORY_MAX);

	int rc = spec_check_list(spec->argv, spec->argc, SPEC_ARGV_BYTES_MAX, "arguments", err);
	if (rc == 0)
		rc = spec_check_list(spec->environment, spec->environment_count,
				     SPEC_ENVIRONMENT_BYTES_MAX, "variables", err);
	if (rc == 0)
		rc = spec_check_image(spec, err);
	if (rc == 0)
		rc = spec_check_tmpfs(spec, err);

	if (rc == 0)
		rc = spec_check_rest(spec, err);
	if (rc == 0)
		rc = spec_check_list(spec->worker_environment, spec->worker_environment_count,
				     SPEC_ENVIRONMENT_BYTES_MAX / 4, "variables for the workers",
				     err);

	if (rc == 0)
		rc = spec_check_user(spec, err);
	if (rc == 0)
		rc = spec_check_ids(spec, err);
	if (rc == 0)
		rc = demand_check(spec->resources, err);
	if (rc < 0)
		return rc;

	uint32_t numerator = spec->share_numerator, denominator = spec->share_denominator;
	if (numerator > denominator || (numerator == 0) != (denominator == 0))
		return err_set(err, -EINVAL, "a share of %u/%u of a GPU cannot be meant", numerator,
			       denominator);

	return 0;
}

/* --- as bytes --------------------------------------------------------------------------------- */

int spec_format(const struct spec *spec, char **out_bytes, size_t *out_length, struct err *err)
{
	struct schema_spec_message message;
	int rc = schema_from_spec(spec, &message);
	if (rc == 0)
		rc = form_pack(&message.spec.base, SPEC_BYTES_MAX, out_bytes, out_length);
	schema_spec_message_done(&message);

	if (rc == -E2BIG)
		return err_set(err, rc, "the job is larger than %d bytes", SPEC_BYTES_MAX);
	return rc < 0 ? err_set(err, rc, "no memory for a job's specification") : 0;
}

int spec_parse(const char *bytes, size_t length, struct spec *out, struct err *err)
{
	spec_init(out);
	if (length > SPEC_BYTES_MAX)
		return err_set(err, -EINVAL, "a specification of %zu bytes: %d are allowed", length,
			       SPEC_BYTES_MAX);

	Sluice__V1__JobSpec *message =
	    sluice__v1__job_spec__unpack(NULL, length, (const uint8_t *)bytes);
	if (!message)
		return err_set(err, -EINVAL, "these bytes are no specification of a job");

	int rc = schema_to_owned_spec(message, out, err);
	sluice__v1__job_spec__free_unpacked(message, NULL);

	if (rc == 0 && (rc = spec_check(out, err)) < 0)
		spec_done(out);
	return rc == -E2BIG ? -EINVAL : rc;
}

/* --- comparing -------------------------------------------------------------------------------- */

/* Variables that name the call and not the work: what a service manager, a shell and sshd set anew
 * each time (systemd.exec(5), "Environment Variables Set or Propagated by the Service Manager"). */
static const char *const spec_of_call[] = {
    "INVOCATION_ID=",
    "JOURNAL_STREAM=",
    "SYSTEMD_EXEC_PID=",
    "TRIGGER_UNIT=",
    "TRIGGER_PATH=",
    "TRIGGER_TIMER_REALTIME_USEC=",
    "TRIGGER_TIMER_MONOTONIC_USEC=",
    "MONITOR_INVOCATION_ID=",
    "MAINPID=",
    "MANAGERPID=",
    "LISTEN_PID=",
    "LISTEN_PIDFDID=",
    "WATCHDOG_PID=",
    "XDG_SESSION_ID=",
    "SSH_CLIENT=",
    "SSH_CONNECTION=",
    "SSH_TTY=",
    "SSH_AUTH_SOCK=",
    "SHLVL=",
    "OLDPWD=",
    "_=",
};

static bool spec_is_of_call(const char *variable)
{
	for (size_t i = 0; i < array_length(spec_of_call); i++)
		if (text_starts_with(variable, spec_of_call[i]))
			return true;
	return false;
}

static size_t spec_skip(char *const *list, size_t count, size_t at)
{
	while (at < count && spec_is_of_call(list[at]))
		at++;
	return at;
}

/* As form_field_is_equal(), of lists of variables of the submitter's process. */
static bool spec_environments_are_equal(const struct spec *a, const struct spec *b)
{
	for (size_t i = 0, j = 0;; i++, j++) {
		i = spec_skip(a->environment, a->environment_count, i);
		j = spec_skip(b->environment, b->environment_count, j);
		if (i >= a->environment_count || j >= b->environment_count)
			return i >= a->environment_count && j >= b->environment_count;
		if (strcmp(a->environment[i], b->environment[j]) != 0)
			return false;
	}
}

static bool spec_owners_are_equal(const struct spec *a, const struct spec *b)
{
	bool is_equal = a->uid == b->uid && a->gid == b->gid && a->group_count == b->group_count;
	for (size_t i = 0; is_equal && i < a->group_count; i++)
		is_equal = a->groups[i] == b->groups[i];
	return is_equal;
}

bool spec_is_equal(const struct spec *a, const struct spec *b)
{
	for (size_t i = 0; i < schema_spec_count; i++) {
		const struct form_field *field = &schema_spec[i];
		bool is_equal = field->at == offsetof(struct spec, environment)
				    ? spec_environments_are_equal(a, b)
				    : form_field_is_equal(field, a, b);
		if (!is_equal)
			return false;
	}

	if (!spec_owners_are_equal(a, b) || a->limit_count != b->limit_count)
		return false;

	for (size_t i = 0; i < a->limit_count; i++)
		if (a->limits[i].resource != b->limits[i].resource ||
		    a->limits[i].soft != b->limits[i].soft ||
		    a->limits[i].hard != b->limits[i].hard)
			return false;

	return wants_are_equal(&a->wants, &b->wants);
}
