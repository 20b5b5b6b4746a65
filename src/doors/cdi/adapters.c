/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/cdi/adapters.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "cdi/document.h"
#include "doors/cdi/keep.h"

enum { ADAPTERS_HOOK_S = 2 }; /* it takes milliseconds */

void adapters_resource_name(const char *resource, char out[ADAPTERS_NAME_MAX])
{
	(void)snprintf(out, ADAPTERS_NAME_MAX, "%s", resource);
	for (char *at = out; (at = strchr(at, '/'));)
		*at = ':';
}

/* --- the text -----------------------------------------------------------------------------------
 */

/* NULL: it is no device now. */
static json_t *node_json(const char *root, const struct rdma_node *node)
{
	char path[FILE_PATH_MAX];
	struct stat status;

	if (file_path(path, NULL, "%s%s", root, node->path) < 0 || stat(path, &status) < 0 ||
	    !S_ISCHR(status.st_mode))
		return NULL;

	return json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:s}", "path", node->path,
			 "hostPath", path, "type", "c", "major", (int)major(status.st_rdev),
			 "minor", (int)minor(status.st_rdev), "fileMode",
			 (int)(status.st_mode & 0777), "uid", (int)status.st_uid, "gid",
			 (int)status.st_gid, "permissions", "rw");
}

/* After the container's namespaces and before its root: nothing of an image is run or looked at.
 * The variable is there because some runtimes give a hook without any the container's own. */
static json_t *hook_json(const char *hook, const struct adapters_device *device)
{
	char limit[24] = "unlimited";

	if (device->memlock_bytes != UINT64_MAX)
		(void)snprintf(limit, sizeof(limit), "%" PRIu64, device->memlock_bytes);

	json_t *arguments = json_pack("[s, s]", "sluice-memlock", limit);

	if (device->memlock_warns)
		(void)json_array_append_new(arguments, json_string("warn"));

	return json_pack("[{s:s, s:s, s:o, s:[s], s:i}]", "hookName", "createRuntime", "path", hook,
			 "args", arguments, "env", "SLUICE_HOOK=1", "timeout", ADAPTERS_HOOK_S);
}

/* NULL: none of its nodes is there, or its name is none in CDI: an administrator can call an
 * adapter anything, and runtimes would refuse the whole file. */
static json_t *device_json(const char *root, const char *hook, const struct adapters_device *device)
{
	if (!document_is_device(device->name))
		return NULL;

	/* Better no container than one that silently goes over TCP. */
	if (device->memlock_bytes > 0 && !hook && !device->memlock_warns)
		return NULL;

	json_t *nodes = json_array();
	for (size_t i = 0; i < device->node_count; i++) {
		json_t *node = node_json(root, &device->nodes[i]);
		if (node)
			(void)json_array_append_new(nodes, node);
	}

	if (json_array_size(nodes) == 0) {
		json_decref(nodes);
		return NULL;
	}

	json_t *edits = json_pack("{s:o}", "deviceNodes", nodes);

	if (hook && device->memlock_bytes > 0)
		(void)json_object_set_new(edits, "hooks", hook_json(hook, device));

	return json_pack("{s:s, s:o}", "name", device->name, "containerEdits", edits);
}

/* Appends what it says and lets go of it: a tree of everything would cost a hundred times the text.
 */
static int text_add(struct buf *out, const char *before, json_t *value)
{
	char *text = json_dumps(value, 0);
	int rc = text ? buf_printf(out, "%s%s", before, text) : -ENOMEM;
	free(text);
	json_decref(value);
	return rc;
}

int adapters_text(const char *kind, const char *root, const char *hook,
		  const struct adapters_device *devices, size_t count, struct buf *out,
		  struct err *err)
{
	size_t added = 0;
	int rc = buf_printf(out,
			    "{\n  \"cdiVersion\": \"0.5.0\",\n  \"kind\": \"%s\",\n"
			    "  \"devices\": [",
			    kind);
	for (size_t i = 0; rc == 0 && i < count; i++) {
		json_t *device = device_json(root, hook, &devices[i]);
		if (device)
			rc = text_add(out, added++ > 0 ? ",\n    " : "\n    ", device);
	}

	if (rc == 0 && added == 0)
		return err_set(err, -ENODEV, "no RDMA adapter with its nodes in '%s/dev'", root);
	if (rc == 0)
		rc = buf_printf(out, "\n  ]\n}\n");

	return rc < 0 ? err_set(err, rc, "cannot write the specification of %s: %s", kind,
				err_describe(rc))
		      : 0;
}

/* --- the file -----------------------------------------------------------------------------------
 */

/* What is there: ours, or nothing (-ENOENT); -EEXIST: somebody else's. */
static int adapters_read(const char *path, const char *kind, struct buf *out, struct err *err)
{
	struct stat status;
	_cleanup_document_ struct document document = {.yaml = NULL};

	if (lstat(path, &status) < 0)
		return err_set(err, -errno, "cannot look at '%s': %s", path, err_describe(errno));

	if (S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
	    file_read(path, out, NULL) == 0 &&
	    document_parse(buf_text(out), out->length, path, &document, NULL) == 0 &&
	    strcmp(document.kind, kind) == 0)
		return 0;

	return err_set(err, -EEXIST,
		       "'%s' is not a specification that sluice wrote: it is left alone", path);
}

static int adapters_path(const char *kind, const char *root, char out[FILE_PATH_MAX],
			 struct err *err)
{
	char name[KEEP_NAME_MAX];
	keep_name(kind, name);
	return file_path(out, err, "%s" KEEP_DIRECTORY "/%s", root, name);
}

/* 1: it was there and ours. */
static int adapters_remove(const char *kind, const char *root, struct err *err)
{
	char path[FILE_PATH_MAX];
	_cleanup_buf_ struct buf before;

	buf_init(&before, ADAPTERS_TEXT_MAX);
	int rc = adapters_path(kind, root, path, err);
	if (rc == 0)
		rc = adapters_read(path, kind, &before, NULL);
	if (rc < 0)
		return 0; /* nothing, or nothing of ours */

	if (unlink(path) == 0)
		return 1;

	return err_set(err, -errno, "cannot remove '%s': %s", path, err_describe(errno));
}

static int adapters_write(const char *kind, const char *root, const struct buf *text,
			  struct err *err)
{
	char path[FILE_PATH_MAX], directory[FILE_PATH_MAX];
	_cleanup_buf_ struct buf before;

	buf_init(&before, ADAPTERS_TEXT_MAX);
	int rc = adapters_path(kind, root, path, err);
	if (rc == 0)
		rc = adapters_read(path, kind, &before, err);
	if (rc == 0 && before.length == text->length &&
	    memcmp(before.data, text->data, text->length) == 0)
		return 0;

	if (rc == -ENOENT) {
		rc = file_path(directory, err, "%s" KEEP_DIRECTORY, root);
		if (rc == 0)
			rc = file_mkdirs(directory, 0755, err);
	}

	if (rc == 0)
		rc = file_write_atomic(path, text->data, text->length, 0644, err);

	return rc < 0 ? rc : 1;
}

int adapters_keep(const char *kind, const char *root, const char *hook,
		  const struct adapters_device *devices, size_t count, struct err *err)
{
	bool is_simulated = strcmp(kind, ADAPTERS_KIND_SIMULATED) == 0;
	_cleanup_buf_ struct buf text;

	buf_init(&text, ADAPTERS_TEXT_MAX);
	int other =
	    adapters_remove(is_simulated ? ADAPTERS_KIND : ADAPTERS_KIND_SIMULATED, root, err);
	if (other < 0)
		return other;

	int rc = count > 0 ? adapters_text(kind, root, hook, devices, count, &text, err) : -ENODEV;
	rc = rc == -ENODEV ? adapters_remove(kind, root, err)
	     : rc == 0	   ? adapters_write(kind, root, &text, err)
			   : rc;
	return rc < 0 ? rc : rc | other;
}
