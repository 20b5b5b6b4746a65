/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/container/edits.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "base/yaml.h"
#include "cdi/scan.h"
#include "libexec/container/words.h"

static const char *edits_text(const struct yaml_node *node, const char *key)
{
	const struct yaml_node *value = yaml_get(node, key);
	return value ? value->text : "";
}

static size_t edits_count(const struct yaml_node *list)
{
	return list ? list->entry_count : 0;
}

/* docker's options are split at these, and know no way around it in --device. */
static int edits_check_path(const char *path, struct err *err)
{
	if (strpbrk(path, ",:\""))
		return err_set(err, -ENOTSUP,
			       "docker without CDI cannot be told of the path '%.160s'", path);
	return 0;
}

static int edits_add_node(const struct edits *edits, const struct yaml_node *node, struct err *err)
{
	const char *path = edits_text(node, "path"), *source = edits_text(node, "hostPath");
	const char *access = edits_text(node, "permissions");

	source = *source ? source : path;
	int rc = edits_check_path(path, err);
	if (rc == 0)
		rc = edits_check_path(source, err);
	if (rc == 0)
		words_add_once(edits->line, "--device=%s:%s:%s", source, path,
			       *access ? access : "rwm");

	return rc;
}

static bool edits_has_option(const struct yaml_node *mount, const char *option)
{
	const struct yaml_node *list = yaml_get(mount, "options");
	for (size_t i = 0; i < edits_count(list); i++)
		if (strcmp(list->entries[i].value->text, option) == 0)
			return true;
	return false;
}

static int edits_add_mount(const struct edits *edits, const struct yaml_node *mount,
			   struct err *err)
{
	const char *source = edits_text(mount, "hostPath"), *type = edits_text(mount, "type");
	const char *target = edits_text(mount, "containerPath");

	if (*type && strcmp(type, "bind") != 0 && strcmp(type, "none") != 0)
		return err_set(err, -ENOTSUP,
			       "docker without CDI cannot be told of the mount '%.128s' of type "
			       "'%.20s'",
			       target, type);

	int rc = edits_check_path(source, err);
	if (rc == 0)
		rc = edits_check_path(target, err);
	if (rc == 0)
		words_add_once(edits->line, "--mount=type=bind,source=%s,target=%s%s", source,
			       target, edits_has_option(mount, "ro") ? ",readonly" : "");

	return rc;
}

static int edits_add_edits(const struct edits *edits, const struct yaml_node *node, struct err *err)
{
	static const char *const unknown[] = {"hooks", "netDevices", "intelRdt"};

	for (size_t i = 0; i < array_length(unknown); i++)
		if (yaml_get(node, unknown[i]))
			return err_set(err, -ENOTSUP,
				       "it has '%s', which a docker without CDI cannot be told: "
				       "docker 28.2 or newer, or podman, is needed",
				       unknown[i]);

	int rc = 0;
	const struct yaml_node *list = yaml_get(node, "env");
	for (size_t i = 0; i < edits_count(list); i++)
		words_add_once(edits->line, "--env=%s", list->entries[i].value->text);

	list = yaml_get(node, "deviceNodes");
	for (size_t i = 0; rc == 0 && i < edits_count(list); i++)
		rc = edits_add_node(edits, list->entries[i].value, err);

	list = yaml_get(node, "mounts");
	for (size_t i = 0; rc == 0 && i < edits_count(list); i++)
		rc = edits_add_mount(edits, list->entries[i].value, err);

	list = yaml_get(node, "additionalGids");
	for (size_t i = 0; i < edits_count(list); i++)
		words_add_once(edits->line, "--group-add=%s", list->entries[i].value->text);

	return rc;
}

int edits_add(struct edits *edits, const char *name, struct err *err)
{
	const struct scan_file *file = NULL, *other = NULL;
	enum scan_state state = scan_find(edits->scan, name, &file, &other);
	if (state != SCAN_FOUND)
		return err_set(err, -ENODEV, "the CDI device '%.128s': %s", name,
			       scan_state_to_string(state));

	int rc = 0;

	if (edits->last != file)
		rc = edits_add_edits(edits, file->document.edits, err);
	edits->last = file;

	if (rc == 0)
		rc = edits_add_edits(edits,
				     yaml_get(document_find(&file->document, strchr(name, '=') + 1),
					      "containerEdits"),
				     err);

	if (rc < 0)
		(void)err_wrap(err, "giving '%.100s' to docker", name);

	return rc;
}
