/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/runtime/wrapper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/domain.h"
#include "base/err.h"
#include "cdi/apply.h"
#include "cdi/driver.h"
#include "cdi/oci.h"
#include "hardware/minors.h"

enum { WRAPPER_NODES_MAX = 16384 /* bytes of the nodes that no specification has */ };

/* Whose devices a name without a kind is of, by what is there. */
static const char *const wrapper_kinds[] = {SLUICE_DOMAIN "/gpu", "nvidia.com/gpu",
					    "sluice.sim/gpu"};
static const char *const wrapper_simulated_kinds[] = {"sluice.sim/gpu", SLUICE_DOMAIN "/gpu",
						      "nvidia.com/gpu"};

/* `out_status`: whose it is. */
static int wrapper_read(const char *path, json_t **out, struct stat *out_status, struct err *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 || fstat(fd, out_status) < 0)
		return err_set(err, -errno, "cannot open '%s': %s", path,
			       errno == ELOOP ? "it is a link" : err_describe(errno));
	if (!S_ISREG(out_status->st_mode))
		return err_set(err, -EINVAL, "'%s' is no regular file", path);

	_cleanup_buf_ struct buf text;
	buf_init(&text, OCI_TEXT_MAX);

	int rc = file_read_open(fd, path, &text, err);
	if (rc < 0)
		return rc;

	rc = oci_parse(buf_text(&text), text.length, out, err);
	return rc < 0 ? err_wrap(err, "reading '%s'", path) : 0;
}

static int wrapper_write(const char *path, const json_t *config, const struct stat *like,
			 struct err *err)
{
	_cleanup_buf_ struct buf text;
	buf_init(&text, (size_t)OCI_TEXT_MAX * 2); /* ours is small */
	int rc = oci_print(config, false, &text);
	if (rc < 0)
		return err_set(err, rc, "cannot print '%s': %s", path, err_describe(rc));
	/* The runtime reads it next, and after a crash nobody does. */
	return file_write_transient(path, buf_text(&text), text.length, like, err);
}

/* ---- Names ---- */

static bool wrapper_has_kind(const struct scan *scan, const char *kind)
{
	for (uint32_t i = 0; i < scan->count; i++)
		if (scan->files[i].document.yaml && strcmp(scan->files[i].kind, kind) == 0)
			return true;
	return false;
}

static int wrapper_find_kind(const struct scan *scan, const char *root, const char **out,
			     struct err *err)
{
	const char *const *kinds = root[0] ? wrapper_simulated_kinds : wrapper_kinds;

	for (size_t i = 0; i < array_length(wrapper_kinds); i++) {
		if (wrapper_has_kind(scan, kinds[i])) {
			*out = kinds[i];
			return 0;
		}
	}

	return err_set(err, -ENODEV,
		       "no CDI specification has GPUs: is sluice agent running? 'sluice cdi list' "
		       "shows what there is");
}

struct wrapper_names {
	char **items; /* owned */
	uint32_t count;
};

static void wrapper_names_done(struct wrapper_names *names)
{
	for (uint32_t i = 0; i < names->count; i++)
		free(names->items[i]);
	free(names->items);
}

static int wrapper_add_name(struct wrapper_names *names, const char *kind, const char *device,
			    struct err *err)
{
	struct buf name;
	buf_init(&name, (size_t)VISIBLE_NAME_MAX * 2);

	int rc = buf_printf(&name, "%s%s%s", kind, kind[0] && device[0] ? "=" : "", device);
	char *own = rc == 0 ? buf_take(&name) : NULL;

	buf_done(&name);
	if (!own)
		return err_set(err, -ENOMEM, "out of memory for CDI device '%.64s'", device);

	names->items[names->count++] = own;
	return 0;
}

/* The names with their kind; the kind alone where none is asked for. */
static int wrapper_qualify(const struct scan *scan, const struct visible *visible, const char *root,
			   struct wrapper_names *out, struct err *err)
{
	const char *kind = NULL;

	out->items = calloc((size_t)visible->count + 1, sizeof(*out->items));
	if (!out->items)
		return err_set(err, -ENOMEM, "out of memory for %u CDI devices",
			       (unsigned)visible->count);

	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < visible->count; i++) {
		bool is_qualified = strchr(visible->names[i], '=');
		if (!is_qualified && !kind)
			rc = wrapper_find_kind(scan, root, &kind, err);
		if (rc == 0)
			rc =
			    wrapper_add_name(out, is_qualified ? "" : kind, visible->names[i], err);
	}

	if (visible->count > 0)
		return rc;

	rc = wrapper_find_kind(scan, root, &kind, err);
	return rc == 0 ? wrapper_add_name(out, kind, "", err) : rc;
}

/* A file or node of a GPU that is of a capability which the container has not asked for stays
 * outside. What other vendors' files give is theirs to know. */
static bool wrapper_wants(void *context, const char *kind, const char *path)
{
	const struct visible *visible = context;
	const char *class = strchr(kind, '/');
	uint32_t needs = class && strcmp(class, "/gpu") == 0 ? driver_capabilities_at(path) : 0;
	return needs == 0 || (needs & visible->capabilities);
}

/* ---- Nodes that no specification has: MIG's management, IMEX channels ---- */

static int wrapper_add_node(struct buf *text, const char *root, const char *directory,
			    uint32_t number, struct err *err)
{
	char path[FILE_PATH_MAX];
	struct stat status;
	int rc = file_path(path, err, "%s/dev/%s%u", root, directory, (unsigned)number);
	if (rc < 0)
		return rc;

	if (stat(path, &status) < 0)
		return err_set(err, -errno, "'%s': %s", path, err_describe(errno));

	/* Its mode is what says who may use it. */
	rc = buf_printf(text,
			"%s{path: /dev/%s%u, hostPath: '%s', permissions: rw, fileMode: %u, "
			"uid: %u, gid: %u}",
			text->length ? ", " : "", directory, (unsigned)number, path,
			(unsigned)(status.st_mode & 0777), (unsigned)status.st_uid,
			(unsigned)status.st_gid);
	return rc < 0 ? err_set(err, rc, "too many nodes") : 0;
}

static int wrapper_add_mig(struct buf *text, const struct visible *visible, const char *root,
			   struct err *err)
{
	if (!visible->mig_config && !visible->mig_monitor)
		return 0;

	char path[FILE_PATH_MAX];
	_cleanup_buf_ struct buf bytes;

	buf_init(&bytes, MINORS_SIZE_MAX);
	struct minors *minors = NULL;
	int rc = file_path(path, err, "%s%s", root, MINORS_PATH);
	if (rc == 0)
		rc = file_read(path, &bytes, err);

	if (rc == 0)
		rc = minors_parse(buf_text(&bytes), bytes.length, &minors, err);

	const bool wanted[MINORS_MACHINE_COUNT] = {
	    [MINORS_CONFIG] = visible->mig_config, [MINORS_MONITOR] = visible->mig_monitor};

	for (enum minors_machine i = 0; rc == 0 && i < MINORS_MACHINE_COUNT; i++) {
		uint32_t cap;

		if (!wanted[i])
			continue;

		rc = minors_find_machine(minors, i, &cap);
		if (rc < 0)
			rc = err_set(err, rc, "'%s' does not have '%s'", path,
				     minors_machine_to_string(i));
		if (rc == 0)
			rc = wrapper_add_node(text, root, "nvidia-caps/nvidia-cap", cap, err);
	}

	(void)minors_free(minors);
	return rc;
}

/* As a specification of its own, so that they are applied like all others. */
static int wrapper_apply_nodes(const struct visible *visible, const char *root, json_t **config,
			       struct err *err)
{
	_cleanup_buf_ struct buf nodes, text;
	buf_init(&nodes, WRAPPER_NODES_MAX);
	buf_init(&text, (size_t)WRAPPER_NODES_MAX * 2);

	int rc = wrapper_add_mig(&nodes, visible, root, err);
	for (uint32_t i = 0; rc == 0 && i < visible->channel_count; i++)
		rc = wrapper_add_node(&nodes, root, "nvidia-caps-imex-channels/channel",
				      visible->channels[i], err);

	if (rc < 0 || nodes.length == 0)
		return rc;

	rc = buf_printf(&text,
			"{cdiVersion: 0.5.0, kind: " SLUICE_DOMAIN "/caps, devices: [{name: all, "
			"containerEdits: {deviceNodes: [%s]}}]}",
			buf_text(&nodes));
	if (rc < 0)
		return err_set(err, rc, "too many nodes");

	struct scan_file file = {.path = (char *)(uintptr_t) "sluice-runtime"};
	const struct scan scan = {.files = &file, .count = 1};

	const char *const name = SLUICE_DOMAIN "/caps=all";
	json_t *edited = NULL;

	rc = document_parse(buf_text(&text), text.length, file.path, &file.document, err);
	if (rc == 0) {
		memcpy(file.kind, file.document.kind, strlen(file.document.kind) + 1);
		rc = apply_devices(&scan, &name, 1, NULL, *config, &edited, err);
	}

	document_done(&file.document);
	if (rc < 0)
		return rc;

	json_decref(*config);
	*config = edited;
	return 0;
}

/* ---- All of it ---- */

static int wrapper_apply(const json_t *config, const struct visible *visible, const char *root,
			 json_t **out, struct err *err)
{
	_cleanup_scan_ struct scan scan = {0};

	struct wrapper_names names __attribute__((cleanup(wrapper_names_done))) = {0};
	const struct apply_filter filter = {wrapper_wants, (void *)(uintptr_t)visible};
	int rc = scan_read(root, &scan, err);
	if (rc == 0)
		rc = wrapper_qualify(&scan, visible, root, &names, err);

	if (rc < 0)
		return rc;

	return apply_devices(&scan, (const char *const *)names.items, names.count,
			     visible->capabilities == DRIVER_ALL ? NULL : &filter, config, out,
			     err);
}

int wrapper_edit(const struct wrapper_call *call, const struct wrapper_settings *settings,
		 struct err *err)
{
	char path[FILE_PATH_MAX];
	struct stat status;
	json_auto_t *config = NULL;
	json_auto_t *edited = NULL;
	_cleanup_visible_ struct visible visible = {0};
	int rc = call->config[0] == '/' ? file_path(path, err, "%s", call->config)
					: file_path(path, err, "%s/%s", call->bundle, call->config);
	if (rc == 0)
		rc = wrapper_read(path, &config, &status, err);

	if (rc == 0)
		rc = visible_read(config, &settings->visible, &visible, err);
	if (rc < 0 || visible.source == VISIBLE_NOBODY)
		return rc;

	rc = wrapper_apply(config, &visible, settings->root, &edited, err);
	if (rc == 0)
		rc = wrapper_apply_nodes(&visible, settings->root, &edited, err);

	return rc == 0 ? wrapper_write(path, edited, &status, err) : rc;
}
