/* SPDX-License-Identifier: Apache-2.0 */
#include "job/spec.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/err.h"
#include "base/parse.h"
#include "job/entries.h"

#define SPEC_MAGIC "sluice-spec 1"

enum { SPEC_LIST_FIRST = 8 };

/* What there is once, in the order in which it is written. */
enum spec_kind { SPEC_TEXT, SPEC_U32, SPEC_U64, SPEC_BOOL };

struct spec_field {
	const char *name;
	enum spec_kind kind;
	size_t offset, size; /* size: of a text */
	uint64_t max;
	bool is_optional; /* written only where it is not zero or "" */
};

#define SPEC_FIELD(name_, kind_, max_)                                                             \
	{                                                                                          \
#name_, kind_, offsetof(struct spec, name_), sizeof(((struct spec *)NULL)->name_), \
		    max_, false                                                                    \
	}
/* Written only where there is such a thing: the form of other jobs stays what it was. */
#define SPEC_OPTIONAL(name_, kind_, max_)                                                          \
	{                                                                                          \
#name_, kind_, offsetof(struct spec, name_), sizeof(((struct spec *)NULL)->name_), \
		    max_, true                                                                     \
	}

_Static_assert(sizeof(uid_t) == 4 && sizeof(gid_t) == 4 && sizeof(mode_t) == 4,
	       "read and written as uint32_t");

static const struct spec_field spec_fields[] = {
    SPEC_FIELD(name, SPEC_TEXT, 0),
    SPEC_FIELD(uid, SPEC_U32, UINT32_MAX - 1),
    SPEC_FIELD(gid, SPEC_U32, UINT32_MAX - 1),
    SPEC_FIELD(directory, SPEC_TEXT, 0),
    SPEC_FIELD(umask, SPEC_U32, 0777),
    SPEC_FIELD(gpus, SPEC_U32, UINT32_MAX),
    SPEC_FIELD(ids, SPEC_TEXT, 0),
    SPEC_FIELD(share_numerator, SPEC_U32, UINT32_MAX),
    SPEC_FIELD(share_denominator, SPEC_U32, UINT32_MAX),
    SPEC_FIELD(gpus_if_any, SPEC_BOOL, 1),
    SPEC_FIELD(ignore_outsiders, SPEC_BOOL, 1),
    SPEC_FIELD(grace_ns, SPEC_U64, UINT64_MAX),
    SPEC_FIELD(deadline_ns, SPEC_U64, UINT64_MAX),
    SPEC_OPTIONAL(resources, SPEC_TEXT, 0),
    SPEC_OPTIONAL(on_end, SPEC_TEXT, 0),
    SPEC_OPTIONAL(output, SPEC_TEXT, 0),
    SPEC_OPTIONAL(port, SPEC_TEXT, 0),
    SPEC_OPTIONAL(pty, SPEC_BOOL, 1),
    SPEC_OPTIONAL(memlock, SPEC_BOOL, 1),
    SPEC_OPTIONAL(image, SPEC_TEXT, 0),
    SPEC_OPTIONAL(workdir, SPEC_TEXT, 0),
    SPEC_OPTIONAL(pull, SPEC_U32, SPEC_PULL_COUNT - 1),
    SPEC_OPTIONAL(entrypoint, SPEC_U32, SPEC_STRINGS_MAX),
    SPEC_OPTIONAL(run_as, SPEC_TEXT, 0),
    SPEC_OPTIONAL(runtime, SPEC_U32, SPEC_RUNTIME_COUNT - 1),
    SPEC_OPTIONAL(privileged, SPEC_BOOL, 1),
    SPEC_OPTIONAL(selinux_off, SPEC_BOOL, 1),
    SPEC_OPTIONAL(worker_image, SPEC_TEXT, 0),
};

_Static_assert(array_length(spec_fields) < 32, "spec_read_entry() has a bit for each, and one");

enum { SPEC_SEEN_WANTS = 31 };

/* Lists of texts, in the order in which they are written. */
struct spec_list {
	const char *name;
	size_t list, count; /* offsets */
};

static const struct spec_list spec_lists[] = {
    {"arg", offsetof(struct spec, argv), offsetof(struct spec, argc)},
    {"env", offsetof(struct spec, environment), offsetof(struct spec, environment_count)},
    {"volume", offsetof(struct spec, volumes), offsetof(struct spec, volume_count)},
    {"image_env", offsetof(struct spec, image_environment),
     offsetof(struct spec, image_environment_count)},
    {"tmpfs", offsetof(struct spec, tmpfs), offsetof(struct spec, tmpfs_count)},
    {"worker_env", offsetof(struct spec, worker_environment),
     offsetof(struct spec, worker_environment_count)},
};

static char ***spec_list_at(const struct spec *spec, const struct spec_list *list)
{
	return (char ***)((char *)spec + list->list);
}

static size_t *spec_list_count(const struct spec *spec, const struct spec_list *list)
{
	return (size_t *)((char *)spec + list->count);
}

static const char *const spec_pulls[SPEC_PULL_COUNT] = {
    [SPEC_PULL_MISSING] = "missing", [SPEC_PULL_NEVER] = "never", [SPEC_PULL_ALWAYS] = "always"};

static const char *const spec_runtimes[SPEC_RUNTIME_COUNT] = {
    [SPEC_RUNTIME_ANY] = "any", [SPEC_RUNTIME_PODMAN] = "podman", [SPEC_RUNTIME_DOCKER] = "docker"};

const char *spec_runtime_to_string(uint32_t runtime)
{
	return runtime < SPEC_RUNTIME_COUNT ? spec_runtimes[runtime] : NULL;
}

int spec_runtime_from_string(const char *text, uint32_t *out)
{
	for (uint32_t i = 0; i < SPEC_RUNTIME_COUNT; i++) {
		if (strcmp(text, spec_runtimes[i]) == 0) {
			*out = i;
			return 0;
		}
	}
	return -EINVAL;
}

const char *spec_pull_to_string(uint32_t pull)
{
	return pull < SPEC_PULL_COUNT ? spec_pulls[pull] : NULL;
}

int spec_pull_from_string(const char *text, uint32_t *out)
{
	for (uint32_t i = 0; i < SPEC_PULL_COUNT; i++) {
		if (strcmp(text, spec_pulls[i]) == 0) {
			*out = i;
			return 0;
		}
	}
	return -EINVAL;
}

void spec_init(struct spec *spec)
{
	*spec = (struct spec){0};
}

static void spec_free_list(char **list)
{
	for (char **at = list; at && *at; at++)
		free(*at);
	free(list);
}

void spec_done(struct spec *spec)
{
	if (!spec)
		return;
	free(spec->groups);
	for (size_t i = 0; i < array_length(spec_lists); i++)
		spec_free_list(*spec_list_at(spec, &spec_lists[i]));
	wants_done(&spec->wants);
	spec_init(spec);
}

/* --- adding ----------------------------------------------------------------------------------- */

/* A list has room for a power of two of pointers, the NULL at its end among them. */
static int spec_list_add(char ***list, size_t *count, const char *text, struct err *err)
{
	if (*count >= SPEC_STRINGS_MAX)
		return err_set(err, -E2BIG, "more than %d arguments or variables",
			       SPEC_STRINGS_MAX);

	size_t filled = *count + 1;
	bool is_full = filled >= SPEC_LIST_FIRST && (filled & (filled - 1)) == 0;
	if (!*list || is_full) {
		size_t room = *list ? 2 * filled : SPEC_LIST_FIRST;
		char **more = reallocarray(*list, room, sizeof(*more));
		if (!more)
			return err_set(err, -ENOMEM, "no memory for a job's specification");

		*list = more;
		more[*count] = NULL;
	}

	char *copy = strdup(text);
	if (!copy)
		return err_set(err, -ENOMEM, "no memory for a job's specification");

	(*list)[(*count)++] = copy;
	(*list)[*count] = NULL;
	return 0;
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

int spec_add_worker_variable(struct spec *spec, const char *text, struct err *err)
{
	return spec_list_add(&spec->worker_environment, &spec->worker_environment_count, text, err);
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

/* --- writing ---------------------------------------------------------------------------------- */

static uint64_t spec_field_number(const struct spec *spec, const struct spec_field *field)
{
	const char *at = (const char *)spec + field->offset;
	if (field->kind == SPEC_BOOL)
		return *(const bool *)at;
	return field->kind == SPEC_U32 ? *(const uint32_t *)at : *(const uint64_t *)at;
}

static int spec_add_fields(struct buf *out, const struct spec *spec)
{
	int rc = entries_add_magic(out, SPEC_MAGIC);

	for (size_t i = 0; rc == 0 && i < array_length(spec_fields); i++) {
		const struct spec_field *field = &spec_fields[i];
		const char *text = (const char *)spec + field->offset;
		bool is_zero = field->kind == SPEC_TEXT ? text[0] == '\0'
							: spec_field_number(spec, field) == 0;
		if (field->is_optional && is_zero)
			continue;

		if (field->kind == SPEC_TEXT)
			rc = entries_add(out, field->name, text);
		else
			rc = entries_add_u64(out, field->name, spec_field_number(spec, field));
	}

	struct buf wants _cleanup_buf_;

	buf_init(&wants, WANTS_TEXT_MAX);
	if (rc == 0)
		rc = wants_format(&spec->wants, &wants);
	if (rc == 0 && wants.length > 0)
		rc = entries_add(out, "wants", buf_text(&wants));

	return rc;
}

static int spec_add_lists(struct buf *out, const struct spec *spec)
{
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < spec->group_count; i++)
		rc = entries_add_u64(out, "group", spec->groups[i]);

	for (size_t i = 0; rc == 0 && i < spec->limit_count; i++) {
		const struct spec_limit *limit = &spec->limits[i];
		char text[64];
		(void)snprintf(text, sizeof(text), "%" PRIu32 ":%" PRIu64 ":%" PRIu64,
			       limit->resource, limit->soft, limit->hard); /* 52 at most */
		rc = entries_add(out, "limit", text);
	}

	for (size_t i = 0; rc == 0 && i < array_length(spec_lists); i++) {
		char **at = *spec_list_at(spec, &spec_lists[i]);
		size_t count = *spec_list_count(spec, &spec_lists[i]);
		for (size_t j = 0; rc == 0 && j < count; j++)
			rc = entries_add(out, spec_lists[i].name, at[j]);
	}

	return rc;
}

int spec_format(const struct spec *spec, char **out_bytes, size_t *out_length, struct err *err)
{
	struct buf text _cleanup_buf_;

	buf_init(&text, SPEC_BYTES_MAX);
	int rc = spec_add_fields(&text, spec);
	if (rc == 0)
		rc = spec_add_lists(&text, spec);
	if (rc == -ENOSPC)
		return err_set(err, -E2BIG, "the job is larger than %d bytes", SPEC_BYTES_MAX);

	size_t length = text.length;
	char *bytes = rc == 0 ? buf_take(&text) : NULL;
	if (!bytes)
		return err_set(err, -ENOMEM, "no memory for a job's specification");

	*out_bytes = bytes;
	*out_length = length;
	return 0;
}

/* --- reading ---------------------------------------------------------------------------------- */

static int spec_read_field(struct spec *spec, const struct spec_field *field,
			   const struct entry *entry)
{
	char *at = (char *)spec + field->offset;

	if (field->kind == SPEC_TEXT)
		return entry_copy(entry, at, field->size);

	uint64_t number;
	int rc = entry_u64(entry, 0, field->max, &number);
	if (rc < 0)
		return rc;

	if (field->kind == SPEC_BOOL)
		*(bool *)at = number;
	else if (field->kind == SPEC_U32)
		*(uint32_t *)at = (uint32_t)number;
	else
		*(uint64_t *)at = number;

	return 0;
}

static int spec_read_limit(struct spec *spec, const struct entry *entry)
{
	if (spec->limit_count >= SPEC_LIMITS_MAX)
		return -E2BIG;

	uint64_t parts[3];
	const char *at = entry->value;

	for (size_t i = 0; i < array_length(parts); i++) {
		size_t length = strcspn(at, ":");
		uint64_t max = i == 0 ? SPEC_LIMITS_MAX - 1 : UINT64_MAX;
		int rc = parse_u64_span(at, length, 0, max, &parts[i]);
		if (rc < 0)
			return rc;

		at += length;
		if (*at != (i < 2 ? ':' : '\0'))
			return -EINVAL;

		at += *at == ':';
	}

	spec->limits[spec->limit_count++] =
	    (struct spec_limit){.resource = (uint32_t)parts[0], .soft = parts[1], .hard = parts[2]};
	return 0;
}

/* `seen`: a bit for each of spec_fields. */
static int spec_read_entry(struct spec *spec, const struct entry *entry, uint32_t *seen)
{
	for (size_t i = 0; i < array_length(spec_lists); i++) {
		const struct spec_list *list = &spec_lists[i];
		if (entry_is(entry, list->name))
			return spec_list_add(spec_list_at(spec, list), spec_list_count(spec, list),
					     entry->value, NULL);
	}

	if (entry_is(entry, "wants")) {
		if (*seen & (UINT32_C(1) << SPEC_SEEN_WANTS))
			return -EEXIST;
		*seen |= UINT32_C(1) << SPEC_SEEN_WANTS;
		return wants_parse(entry->value, entry->value_length, &spec->wants, NULL);
	}

	if (entry_is(entry, "limit"))
		return spec_read_limit(spec, entry);

	if (entry_is(entry, "group")) {
		uint64_t group;
		int rc = entry_u64(entry, 0, UINT32_MAX - 1, &group);
		return rc < 0 ? rc : spec_add_group(spec, (gid_t)group, NULL);
	}

	for (size_t i = 0; i < array_length(spec_fields); i++) {
		if (!entry_is(entry, spec_fields[i].name))
			continue;
		if (*seen & (UINT32_C(1) << i))
			return -EEXIST;

		*seen |= UINT32_C(1) << i;
		return spec_read_field(spec, &spec_fields[i], entry);
	}

	return -EINVAL;
}

static int spec_read(struct entries *entries, struct spec *spec, struct err *err)
{
	uint32_t seen = 0;
	struct entry entry;
	int more;

	while ((more = entries_next(entries, &entry, err)) > 0) {
		int rc = spec_read_entry(spec, &entry, &seen);
		if (rc == -ENOMEM)
			return err_set(err, -ENOMEM, "no memory for a job's specification");
		if (rc < 0)
			return entries_error(
			    entries, -EINVAL,
			    rc == -EEXIST ? "it is there twice" : "it cannot be meant", err);
	}

	if (more < 0)
		return more;

	return spec_check(spec, err) < 0 ? -EINVAL : 0;
}

int spec_parse(const char *bytes, size_t length, struct spec *out, struct err *err)
{
	spec_init(out);
	if (length > SPEC_BYTES_MAX)
		return err_set(err, -EINVAL, "a specification of %zu bytes: %d are allowed", length,
			       SPEC_BYTES_MAX);

	struct entries entries;
	int rc = entries_init(&entries, bytes, length, SPEC_MAGIC, err);
	if (rc == 0)
		rc = spec_read(&entries, out, err);
	if (rc < 0)
		spec_done(out);

	return rc;
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
		if (strncmp(variable, spec_of_call[i], strlen(spec_of_call[i])) == 0)
			return true;
	return false;
}

static size_t spec_skip(char *const *list, size_t count, size_t at, bool is_environment)
{
	while (is_environment && at < count && spec_is_of_call(list[at]))
		at++;
	return at;
}

static bool spec_lists_are_equal(const struct spec *a, const struct spec *b,
				 const struct spec_list *list)
{
	char *const *left = *spec_list_at(a, list), *const *right = *spec_list_at(b, list);
	size_t left_count = *spec_list_count(a, list), right_count = *spec_list_count(b, list);
	bool is_environment = list->list == offsetof(struct spec, environment);

	for (size_t i = 0, j = 0;; i++, j++) {
		i = spec_skip(left, left_count, i, is_environment);
		j = spec_skip(right, right_count, j, is_environment);
		if (i >= left_count || j >= right_count)
			return i >= left_count && j >= right_count;
		if (strcmp(left[i], right[j]) != 0)
			return false;
	}
}

bool spec_is_equal(const struct spec *a, const struct spec *b)
{
	for (size_t i = 0; i < array_length(spec_fields); i++) {
		const struct spec_field *field = &spec_fields[i];
		bool is_equal = field->kind == SPEC_TEXT
				    ? strcmp((const char *)a + field->offset,
					     (const char *)b + field->offset) == 0
				    : spec_field_number(a, field) == spec_field_number(b, field);
		if (!is_equal)
			return false;
	}

	if (a->group_count != b->group_count || a->limit_count != b->limit_count)
		return false;

	for (size_t i = 0; i < a->group_count; i++)
		if (a->groups[i] != b->groups[i])
			return false;

	for (size_t i = 0; i < a->limit_count; i++)
		if (a->limits[i].resource != b->limits[i].resource ||
		    a->limits[i].soft != b->limits[i].soft ||
		    a->limits[i].hard != b->limits[i].hard)
			return false;

	for (size_t i = 0; i < array_length(spec_lists); i++)
		if (!spec_lists_are_equal(a, b, &spec_lists[i]))
			return false;

	return wants_are_equal(&a->wants, &b->wants);
}
