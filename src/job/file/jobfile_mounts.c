/* SPDX-License-Identifier: Apache-2.0 */
#include "job/file/jobfile_reader.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "base/yaml.h"
#include "job/file/jobfile_fields.h"
#include "job/file/quantity.h"

static const struct raw_volume *mount_volume(const struct raw_pod *pod, const char *name)
{
	const struct raw_volume *volumes = pod->volumes.items;
	for (size_t i = 0; i < pod->volumes.count; i++)
		if (volumes[i].name && strcmp(volumes[i].name->text, name) == 0)
			return &volumes[i];
	return NULL;
}

static const struct jobfile_place *mount_place(const struct jobreader *reader, const char *name)
{
	const struct jobfile_options *options = reader->options;
	for (size_t i = 0; name && i < options->place_count; i++)
		if (options->places[i].name_length == strlen(name) &&
		    memcmp(options->places[i].name, name, strlen(name)) == 0)
			return &options->places[i];
	return NULL;
}

/* Absolute, and without what podman's option or ".." would make something else of it. */
static bool mount_path_is_good(const char *path)
{
	if (path[0] != '/' || strchr(path, ':') || strchr(path, ','))
		return false;
	for (const char *at = strstr(path, "/.."); at; at = strstr(at + 1, "/.."))
		if (at[3] == '\0' || at[3] == '/')
			return false;
	return true;
}

static int mount_host(struct jobreader *reader, const struct raw_volume *volume,
		      struct jobfile_mount *out)
{
	static const char *const types[] = {
	    "",	      "DirectoryOrCreate", "Directory",	 "FileOrCreate", "File",
	    "Socket", "CharDevice",	   "BlockDevice"};
	const struct raw_host_path *host = &volume->host_path;
	if (!host->path)
		return objschema_fail(&reader->schema, host->node, NULL, "hostPath has no path");

	if (!mount_path_is_good(host->path->text))
		return objschema_fail(
		    &reader->schema, host->path, NULL,
		    "hostPath '%.128s' is not an absolute path without '..', ':' and ','",
		    host->path->text);

	out->source = host->path->text;
	out->type = host->type ? host->type->text : "";
	if (names_find(types, out->type) >= 0)
		return 0;

	return objschema_fail(&reader->schema, host->type, NULL,
			      "no such type of hostPath: '%.64s'", out->type);
}

static int mount_empty(struct jobreader *reader, const struct raw_volume *volume,
		       struct jobfile_mount *out)
{
	const struct raw_empty_dir *empty = &volume->empty_dir;
	bool is_memory = empty->medium && strcmp(empty->medium->text, "Memory") == 0;

	out->storage = is_memory ? JOBFILE_STORAGE_MEMORY : JOBFILE_STORAGE_EMPTY;
	if (empty->size && objschema_check_octal(&reader->schema, empty->size, "sizeLimit") < 0)
		return -EINVAL;
	if (empty->size && quantity_parse(empty->size->text, 1, &out->size_bytes) < 0)
		return objschema_fail(&reader->schema, empty->size, NULL,
				      "sizeLimit '%.64s' is no quantity such as 16Gi",
				      empty->size->text);

	if (empty->medium && empty->medium->text[0] && !is_memory)
		return objschema_fail(
		    &reader->schema, empty->medium, NULL,
		    "not supported here: medium '%.64s'; write Memory or leave it out",
		    empty->medium->text);

	if (empty->size && !is_memory)
		return jobreader_note(
		    reader, empty->size->line,
		    "sizeLimit of the emptyDir '%s' is not enforced: it is on the disk",
		    volume->name->text);

	return 0;
}

/* A claim, a ConfigMap, a Secret or another volume of a cluster: what the caller says it is. */
static int mount_named(struct jobreader *reader, const struct raw_volume *volume,
		       struct jobfile_mount *out)
{
	const struct raw_claim *claim = volume->claim.node	  ? &volume->claim
					: volume->config_map.node ? &volume->config_map
					: volume->secret.node	  ? &volume->secret
								  : NULL;
	const char *name = claim && claim->name ? claim->name->text : volume->name->text;

	if (claim && !claim->name)
		return objschema_fail(&reader->schema, claim->node, NULL,
				      "the volume '%.64s' does not say the name",
				      volume->name->text);

	const struct jobfile_place *place = mount_place(reader, name);
	if (!place)
		place = mount_place(reader, volume->name->text);

	if (!place)
		return objschema_fail(
		    &reader->schema, claim ? claim->name : volume->node, NULL,
		    "not supported here: %s '%.64s' is not on this machine; say where "
		    "its files are with --volume %.64s=PATH",
		    claim == &volume->claim	   ? "persistentVolumeClaim"
		    : claim == &volume->config_map ? "configMap"
		    : claim			   ? "secret"
						   : "the volume",
		    name, name);

	if (!mount_path_is_good(place->path))
		return objschema_fail(
		    &reader->schema, volume->node, NULL,
		    "the path '%.128s' for '%.64s' is not absolute, or has '..', ':' or "
		    "',' in it",
		    place->path, name);

	out->source = place->path;
	out->type = "";
	out->read_only = place->read_only || (claim && claim->read_only.value) ||
			 (claim && claim != &volume->claim);

	return 0;
}

static int mount_source(struct jobreader *reader, const struct raw_volume *volume,
			struct jobfile_mount *out)
{
	int kinds = (volume->empty_dir.node != NULL) + (volume->host_path.node != NULL) +
		    (volume->claim.node != NULL) + (volume->config_map.node != NULL) +
		    (volume->secret.node != NULL) + (volume->other != NULL);

	out->line = volume->node->line;
	if (kinds > 1)
		return objschema_fail(&reader->schema, volume->node, NULL,
				      "the volume '%.64s' is of more than one kind",
				      volume->name->text);

	if (volume->host_path.node)
		return mount_host(reader, volume, out);
	if (volume->empty_dir.node || kinds == 0) /* Kubernetes' default */
		return mount_empty(reader, volume, out);

	return mount_named(reader, volume, out);
}

static int mount_sub_path(struct jobreader *reader, const struct raw_mount *raw,
			  struct jobfile_mount *out)
{
	const char *sub = raw->sub_path ? raw->sub_path->text : "";
	if (!*sub)
		return 0;

	size_t length = strlen(out->source ? out->source : "") + 1 + strlen(sub);
	char *path = jobfile_arena_take(reader->arena, length + 1);
	if (!path)
		return jobreader_no_memory(reader);

	(void)snprintf(path, length + 1, "%s/%s", out->source ? out->source : "", sub); /* fits */
	if (*sub == '/' || !mount_path_is_good(path))
		return objschema_fail(
		    &reader->schema, raw->sub_path, NULL,
		    "subPath '%.128s' is not a relative path without '..', ':' and ','", sub);

	if (out->storage != JOBFILE_STORAGE_HOST)
		return objschema_fail(&reader->schema, raw->sub_path, NULL,
				      "not supported here: subPath of an emptyDir");

	out->source = path;
	out->type = "";
	return 0;
}

static int mount_read(struct jobreader *reader, const struct raw_pod *pod,
		      const struct raw_mount *raw, struct jobfile_mount *out)
{
	if (!raw->name || !raw->path)
		return objschema_fail(&reader->schema, raw->node, NULL, "a mount needs %s",
				      raw->name ? "mountPath" : "a name");

	if (!mount_path_is_good(raw->path->text))
		return objschema_fail(
		    &reader->schema, raw->path, NULL,
		    "mountPath '%.128s' is not an absolute path without '..', ':' and ','",
		    raw->path->text);

	const struct raw_volume *volume = mount_volume(pod, raw->name->text);
	if (!volume)
		return objschema_fail(&reader->schema, raw->name, NULL,
				      "there is no volume '%.64s' beside the containers",
				      raw->name->text);

	out->target = raw->path->text;
	int rc = mount_source(reader, volume, out);
	if (rc == 0)
		rc = mount_sub_path(reader, raw, out);
	out->read_only = out->read_only || raw->read_only.value;

	return rc;
}

static int mount_check_volumes(const struct jobreader *reader, const struct raw_pod *pod)
{
	const struct raw_volume *volumes = pod->volumes.items;

	for (size_t i = 0; i < pod->volumes.count; i++) {
		if (!volumes[i].name || !volumes[i].name->text[0])
			return objschema_fail(&reader->schema, volumes[i].node, NULL,
					      "a volume without a name");
		if (mount_volume(pod, volumes[i].name->text) != &volumes[i])
			return objschema_fail(&reader->schema, volumes[i].name, NULL,
					      "a second volume '%.64s'", volumes[i].name->text);
	}

	return 0;
}

/* "/a/" is "/a". */
static size_t mount_target_length(const char *path)
{
	size_t length = strlen(path);
	while (length > 1 && path[length - 1] == '/')
		length--;
	return length;
}

/* What Kubernetes refuses as well; and one emptyDir in two places, which would be two here. */
static int mount_check_again(struct jobreader *reader, const struct raw_mount *mounts, size_t at,
			     const struct jobfile_mount *made)
{
	char which[48];
	size_t length = mount_target_length(made[at].target);

	(void)snprintf(which, sizeof(which), ".volumeMounts[%zu]", at); /* fits */

	for (size_t i = 0; i < at; i++) {
		if (mount_target_length(made[i].target) == length &&
		    memcmp(made[i].target, made[at].target, length) == 0)
			return objschema_fail(&reader->schema, mounts[at].path, which,
					      "a second volume at '%.128s'", made[at].target);

		if (made[at].storage != JOBFILE_STORAGE_HOST &&
		    strcmp(mounts[i].name->text, mounts[at].name->text) == 0)
			return objschema_fail(
			    &reader->schema, mounts[at].name, which,
			    "not supported here: the emptyDir '%.64s' in two places",
			    mounts[at].name->text);
	}

	return 0;
}

int jobreader_mounts(struct jobreader *reader, const struct raw_pod *pod,
		     const struct raw_container *container, struct jobfile_task *out)
{
	const struct raw_mount *mounts = container->mounts.items;

	enum { VOLUMES_MAX = 256 };
	if (pod->volumes.count > VOLUMES_MAX || container->mounts.count > VOLUMES_MAX)
		return objschema_fail(&reader->schema, container->node, NULL,
				      "more than %d volumes", VOLUMES_MAX);

	int rc = mount_check_volumes(reader, pod);
	if (rc < 0)
		return rc;

	out->mounts =
	    jobfile_arena_take(reader->arena, (container->mounts.count + 1) * sizeof(*out->mounts));
	if (!out->mounts)
		return jobreader_no_memory(reader);

	for (size_t i = 0; rc == 0 && i < container->mounts.count; i++) {
		rc = mount_read(reader, pod, &mounts[i], &out->mounts[i]);
		if (rc == 0)
			rc = mount_check_again(reader, mounts, i, out->mounts);
	}

	out->mount_count = container->mounts.count;
	return rc;
}
