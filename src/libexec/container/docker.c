/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/container/docker.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "base/err.h"
#include "base/parse.h"
#include "job/launch.h"
#include "libexec/container/choices.h"
#include "libexec/container/edits.h"
#include "libexec/container/words.h"

/* --- what it says of itself ------------------------------------------------------------------- */

static const char *docker_text(const json_t *map, const char *key)
{
	const char *text = json_string_value(json_object_get(map, key));
	return text ? text : "";
}

int docker_trouble(const char *text, struct err *err)
{
	int length = (int)strcspn(text, "\n");
	length = length < DOCKER_TROUBLE_MAX ? length : DOCKER_TROUBLE_MAX;

	if (strstr(text, "permission denied"))
		return err_set(err, -EACCES,
			       "docker may not be used: is the user in the group that owns its "
			       "socket? (%.*s)",
			       length, text);

	return err_set(err, -ENOTCONN, "docker does not answer: %.*s", length, text);
}

static int docker_check(const json_t *info, struct err *err)
{
	const char *trouble =
	    json_string_value(json_array_get(json_object_get(info, "ServerErrors"), 0));
	const char *version = docker_text(info, "ServerVersion");
	uint64_t major;

	if (trouble)
		return docker_trouble(trouble, err);
	if (json_is_object(json_object_get(info, "ClientInfo")) && !*version)
		return err_set(err, -ENOTCONN, "docker does not answer");
	if (parse_u64_span(version, strcspn(version, "."), 0, UINT32_MAX, &major) < 0)
		return err_set(err, -EINVAL,
			       "'docker info' names no version of its daemon: is that docker?");
	if (major < DOCKER_MAJOR)
		return err_set(err, -ENOTSUP, "docker %.40s is too old: 20.10 is needed", version);

	return 0;
}

int docker_parse_info(const char *text, size_t length, struct docker_info *out, struct err *err)
{
	json_error_t where;
	json_t *info = json_loadb(text, length, 0, &where);
	if (!json_is_object(info)) {
		json_decref(info);
		return err_set(err, -EINVAL, "what 'docker info' prints is no object of JSON");
	}

	int rc = docker_check(info, err);
	if (rc == 0) {
		const char *context = docker_text(json_object_get(info, "ClientInfo"), "Context");
		*out = (struct docker_info){
		    /* From docker 25 on; empty where CDI is not switched on. */
		    .has_cdi = json_array_size(json_object_get(info, "CDISpecDirs")) > 0,
		    .has_cgroups = strcmp(docker_text(info, "CgroupDriver"), "cgroupfs") == 0,
		    .has_context = *context && strcmp(context, "default") != 0};
		(void)snprintf(out->version, sizeof(out->version), "%.*s", DOCKER_VERSION_MAX - 1,
			       docker_text(info, "ServerVersion")); /* cut */
	}

	json_decref(info);
	return rc;
}

/* --- command lines ---------------------------------------------------------------------------- */

static int docker_add_devices(struct words *line, const struct launch *launch,
			      const struct docker_settings *settings, struct err *err)
{
	if (!settings->scan) {
		choices_add_devices(line, launch);
		return 0;
	}

	struct edits edits = {.scan = settings->scan, .line = line};
	char name[CHOICES_DEVICE_MAX];
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < launch->grant_count; i++) {
		choices_device(launch->grants[i].uuid, name);
		rc = edits_add(&edits, name, err);
	}

	for (const char *at = launch->adapters; rc == 0 && *at;) {
		size_t length = strcspn(at, ",");
		choices_adapter(launch, at, length, name);
		rc = edits_add(&edits, name, err);
		at += length + (at[length] == ',');
	}

	return rc;
}

static void docker_add(struct words *line, const struct launch *launch,
		       const struct docker_settings *settings)
{
	const struct spec *spec = &launch->spec;

	if (settings->parent)
		words_add(line, "--cgroup-parent=%s", settings->parent);
	else
		choices_add_group(line, launch);

	if (spec->memlock)
		words_add(line, "--ulimit=memlock=-1:-1");
	choices_add(line, launch, "");

	/* docker cannot do without; nobody types these. */
	if (spec->pty)
		words_add(line, "--detach-keys=ctrl-^,ctrl-_,ctrl-^,ctrl-_");
	if (spec->entrypoint > 0)
		words_add(line, "--entrypoint=%s", spec->argv[0]);
	words_add(line, "--");
	words_add(line, "%s", spec->image);

	for (size_t i = spec->entrypoint > 0; i < spec->argc; i++)
		words_add(line, "%s", spec->argv[i]);
}

int docker_run(const struct launch *launch, const struct docker_settings *settings, char ***out,
	       struct err *err)
{
	const struct spec *spec = &launch->spec;
	if (spec->entrypoint > 0 && spec->argv[0][0] == '\0')
		return err_set(err, -EINVAL,
			       "the entrypoint's first word is empty, which docker "
			       "takes for none");

	struct words line = {.count = 0};
	words_add(&line, "docker");
	words_add(&line, "run");
	words_add(&line, "--rm");

	/* The output goes to the job's files; nobody would read a second copy. */
	words_add(&line, "--log-driver=none");
	words_add(&line, "--pull=%s", spec_pull_to_string(spec->pull));
	choices_add_name(&line, launch);

	int rc = docker_add_devices(&line, launch, settings, err);
	docker_add(&line, launch, settings);

	char **words = NULL;

	if (rc < 0)
		(void)words_take(&line, &words, NULL); /* to be freed */
	else
		rc = words_take(&line, out, err);

	words_free(words);
	return rc;
}

int docker_find(const struct launch *launch, char ***out, struct err *err)
{
	struct words line = {.count = 0};
	char name[CHOICES_NAME_MAX];

	choices_name(launch, name);
	words_add(&line, "docker");
	words_add(&line, "ps");
	words_add(&line, "--all");
	words_add(&line, "--quiet");
	words_add(&line, "--filter=name=^/%s$", name);

	return words_take(&line, out, err);
}

int docker_remove(const struct launch *launch, char ***out, struct err *err)
{
	struct words line = {.count = 0};
	char name[CHOICES_NAME_MAX];

	choices_name(launch, name);
	words_add(&line, "docker");
	words_add(&line, "rm");
	words_add(&line, "--force");
	words_add(&line, "--volumes");
	words_add(&line, "--");
	words_add(&line, "%s", name);

	return words_take(&line, out, err);
}
