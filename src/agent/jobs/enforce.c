/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/jobs/enforce.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/crash.h"
#include "base/err.h"
#include "base/names.h"
#include "base/parse.h"
#include "base/text.h"

enum {
	ENFORCE_NAME_MAX = 64,	/* "nvidia-caps/nvidia-cap123" with its NUL */
	ENFORCE_FIELDS = 5,	/* of a line */
	ENFORCE_DEFAULT = 0666, /* what the driver makes, where nobody has noted anything */
	ENFORCE_PERMISSIONS = 07777,
};

/* A node below /dev, and what it was. */
struct enforce_node {
	char name[ENFORCE_NAME_MAX];
	mode_t mode;
	uid_t uid;
	gid_t gid, ours; /* ours: the group that we gave it */
	bool is_wanted;	 /* to be closed; else opened */
};

struct enforce_nodes {
	struct enforce_node *items; /* owned */
	size_t count;
	bool is_changed; /* is not what is written down */
};

static void nodes_done(struct enforce_nodes *nodes)
{
	free(nodes->items);
}

static struct enforce_node *nodes_find(const struct enforce_nodes *nodes, const char *name)
{
	for (size_t i = 0; i < nodes->count; i++) {
		if (strcmp(nodes->items[i].name, name) == 0)
			return &nodes->items[i];
	}
	return NULL;
}

static struct enforce_node *nodes_add(struct enforce_nodes *nodes, const char *name,
				      struct err *err)
{
	if (nodes->count == ENFORCE_NODES_MAX || strlen(name) >= ENFORCE_NAME_MAX) {
		(void)err_set(err, -E2BIG, "more than %d GPU nodes", ENFORCE_NODES_MAX);
		return NULL;
	}

	struct enforce_node *items =
	    reallocarray(nodes->items, nodes->count + 1, sizeof(*nodes->items));
	if (!items) {
		(void)err_set(err, -ENOMEM, "out of memory for GPU nodes");
		return NULL;
	}

	nodes->items = items;
	struct enforce_node *node = &items[nodes->count++];
	*node = (struct enforce_node){.mode = ENFORCE_DEFAULT};
	memcpy(node->name, name, strlen(name) + 1);

	return node;
}

/* --- what is written down: lines "MODE UID GID OURS NAME" ------------------------------------ */

static bool is_number(const char *text)
{
	return *text != '\0' && text[strspn(text, "0123456789")] == '\0';
}

/* Names that are ours to close: whoever writes the file is root, but a name with ".." in it is a
 * mistake all the same. */
static bool is_node(const char *name)
{
	static const char *const control[] = {"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"};
	static const char gpu[] = "nvidia", cap[] = "nvidia-caps/nvidia-cap";

	return names_find(control, name) >= 0 ||
	       (strncmp(name, cap, sizeof(cap) - 1) == 0 && is_number(name + sizeof(cap) - 1)) ||
	       (text_starts_with(name, gpu) && is_number(name + sizeof(gpu) - 1));
}

static int memory_line(struct enforce_nodes *nodes, const char *line, size_t length,
		       struct err *err)
{
	char name[ENFORCE_NAME_MAX];
	uint64_t value[ENFORCE_FIELDS - 1];
	const char *at = line, *end = line + length;

	for (size_t i = 0; i < array_length(value); i++) {
		const char *space = memchr(at, ' ', (size_t)(end - at));
		if (!space ||
		    parse_u64_span(at, (size_t)(space - at), 0, UINT32_MAX, &value[i]) < 0)
			return -EINVAL;
		at = space + 1;
	}

	if ((size_t)(end - at) >= sizeof(name) || value[0] > ENFORCE_PERMISSIONS)
		return -EINVAL;

	memcpy(name, at, (size_t)(end - at));
	name[end - at] = '\0';
	if (!is_node(name) || nodes_find(nodes, name))
		return -EINVAL;

	struct enforce_node *node = nodes_add(nodes, name, err);
	if (!node)
		return -ENOMEM;

	node->mode = (mode_t)value[0];
	node->uid = (uid_t)value[1];
	node->gid = (gid_t)value[2];
	node->ours = (gid_t)value[3];

	return 0;
}

/* A line that says nothing is left out: what the node was is then what the driver makes. */
static int memory_read(const char *path, struct enforce_nodes *out, struct err *err)
{
	_cleanup_buf_ struct buf text;
	buf_init(&text, ENFORCE_MEMORY_MAX);

	struct err ignored = {0};
	int rc = file_read(path, &text, err);
	if (rc == -ENOENT)
		return 0;
	if (rc < 0)
		return rc;

	const char *at = buf_text(&text), *end = at + text.length;

	while (at < end) {
		const char *line_end = memchr(at, '\n', (size_t)(end - at));
		size_t length = (size_t)((line_end ? line_end : end) - at);

		rc = memory_line(out, at, length, &ignored);
		if (rc == -ENOMEM)
			return err_set(err, rc, "out of memory for '%s'", path);

		out->is_changed |= rc < 0;
		at += length + 1;
	}

	return 0;
}

static int memory_write(const char *path, const struct enforce_nodes *nodes, struct err *err)
{
	_cleanup_buf_ struct buf text;
	buf_init(&text, ENFORCE_MEMORY_MAX);

	if (nodes->count == 0)
		return unlink(path) == 0 || errno == ENOENT
			   ? 0
			   : err_set(err, -errno, "cannot remove '%s': %s", path,
				     err_describe(-errno));

	int rc = 0;
	for (size_t i = 0; rc == 0 && i < nodes->count; i++) {
		const struct enforce_node *node = &nodes->items[i];
		rc =
		    buf_printf(&text, "%u %u %u %u %s\n", (unsigned)node->mode, (unsigned)node->uid,
			       (unsigned)node->gid, (unsigned)node->ours, node->name);
	}

	if (rc < 0)
		return err_set(err, rc, "out of memory for '%s'", path);

	return file_write_atomic(path, text.data, text.length, 0600, err);
}

/* --- the nodes ------------------------------------------------------------------------------- */

/* Opens a node without following a link or touching the device. -1: it is none. */
static int node_open(const struct enforce_wish *wish, const char *name, struct stat *out)
{
	char path[FILE_PATH_MAX];
	if (file_path(path, NULL, "%s/dev/%s", wish->root, name) < 0)
		return -1;

	_cleanup_close_ int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, out) < 0)
		return -1;

	/* Those of a simulated machine may be plain files. */
	if (!S_ISCHR(out->st_mode) && !(wish->root[0] && S_ISREG(out->st_mode)))
		return -1;

	return take_fd(&fd);
}

static int node_set(int fd, const char *name, mode_t mode, uid_t uid, gid_t gid, bool closes,
		    struct err *err)
{
	char path[64];
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);

	/* Never open to somebody in between who is not meant. */
	int rc = closes ? chmod(path, mode) : 0;
	if (rc == 0)
		rc = fchownat(fd, "", uid, gid, AT_EMPTY_PATH);
	if (rc == 0)
		rc = chmod(path, mode);
	if (rc == 0)
		return 0;

	int code = -errno;
	return err_set(err, code, "cannot set the mode of /dev/%s: %s", name, err_describe(code));
}

static bool node_is_ours(const struct stat *status, gid_t gid)
{
	return (status->st_mode & ENFORCE_PERMISSIONS) == ENFORCE_MODE && status->st_uid == 0 &&
	       status->st_gid == gid;
}

static bool wish_has(const struct enforce_wish *wish, const char *name)
{
	uint64_t minor;

	if (wish->all)
		return true;
	if (!text_starts_with(name, "nvidia") || parse_u64(name + 6, 0, UINT32_MAX, &minor) < 0)
		return false;

	for (size_t i = 0; i < wish->minor_count; i++) {
		if (wish->minors[i] == minor)
			return true;
	}

	return false;
}

/* Adds what is there and to be closed, with what it is now. */
static int nodes_look(const struct enforce_wish *wish, const char *directory,
		      struct enforce_nodes *nodes, struct err *err)
{
	char path[FILE_PATH_MAX];
	int rc = file_path(path, err, "%s/dev/%s", wish->root, directory);
	_cleanup_closedir_ DIR *entries = rc == 0 ? opendir(path) : NULL;

	for (const struct dirent *entry; rc == 0 && entries && (entry = readdir(entries));) {
		char name[ENFORCE_NAME_MAX];
		struct stat status;
		int length = snprintf(name, sizeof(name), "%s%s", directory, entry->d_name);
		if (length >= (int)sizeof(name) || !is_node(name) || !wish_has(wish, name))
			continue;

		_cleanup_close_ int fd = node_open(wish, name, &status);
		if (fd < 0)
			continue;

		struct enforce_node *node = nodes_find(nodes, name);
		bool is_new = !node;

		if (is_new)
			node = nodes_add(nodes, name, err);
		if (!node)
			return -ENOMEM;

		node->is_wanted = true;
		bool is_closed = node_is_ours(&status, is_new ? wish->gid : node->ours);
		if (!is_closed) {
			node->mode = status.st_mode & ENFORCE_PERMISSIONS;
			node->uid = status.st_uid;
			node->gid = status.st_gid;
		}

		nodes->is_changed |= is_new || !is_closed || node->ours != wish->gid;
		node->ours = wish->gid;
	}

	return rc;
}

/* 1: it had to be done. */
static int node_close(const struct enforce_wish *wish, const struct enforce_node *node,
		      struct err *err)
{
	struct stat status;
	_cleanup_close_ int fd = node_open(wish, node->name, &status);
	if (fd < 0 || node_is_ours(&status, wish->gid))
		return 0;
	int rc = node_set(fd, node->name, ENFORCE_MODE, 0, wish->gid, true, err);
	return rc < 0 ? rc : 1;
}

/* Whoever has changed it meanwhile has had his reasons. 1: it had to be done. */
static int node_restore(const struct enforce_wish *wish, const struct enforce_node *node,
			struct err *err)
{
	struct stat status;
	_cleanup_close_ int fd = node_open(wish, node->name, &status);
	if (fd < 0 || !node_is_ours(&status, node->ours))
		return 0;
	int rc = node_set(fd, node->name, node->mode, node->uid, node->gid, false, err);
	return rc < 0 ? rc : 1;
}

/* Opens those that are not wanted any more, and forgets them. */
static int enforce_open(const struct enforce_wish *wish, struct enforce_nodes *nodes,
			struct enforce_report *out, struct err *err)
{
	int first = 0;

	for (size_t i = 0; i < nodes->count;) {
		struct err why = {0};

		if (nodes->items[i].is_wanted) {
			i++;
			continue;
		}

		int rc = node_restore(wish, &nodes->items[i], &why);
		if (rc < 0) {
			out->failed++;
			if (first == 0)
				first = err_set(err, rc, "%s", why.text);
			i++; /* tried again */
			continue;
		}

		out->restored += rc > 0;
		nodes->items[i] = nodes->items[--nodes->count];
		nodes->is_changed = true;
	}

	return first;
}

static int enforce_close(const struct enforce_wish *wish, const struct enforce_nodes *nodes,
			 struct enforce_report *out, struct err *err)
{
	int first = 0;

	for (size_t i = 0; i < nodes->count; i++) {
		struct err why = {0};
		int rc = nodes->items[i].is_wanted ? node_close(wish, &nodes->items[i], &why) : 0;

		out->closed += nodes->items[i].is_wanted && rc >= 0;
		out->changed += rc > 0;
		out->failed += rc < 0;

		if (rc < 0 && first == 0)
			first = err_set(err, rc, "%s", why.text);
	}

	return first;
}

int enforce_run(const struct enforce_wish *wish, struct enforce_report *out, struct err *err)
{
	*out = (struct enforce_report){0};
	_cleanup_(nodes_done) struct enforce_nodes nodes = {.items = NULL};
	int rc = memory_read(wish->memory, &nodes, err);
	if (rc == 0 && wish->is_on)
		rc = nodes_look(wish, "", &nodes, err);

	if (rc == 0 && wish->is_on)
		rc = nodes_look(wish, "nvidia-caps/", &nodes, err);
	if (rc < 0)
		return rc;

	int opened = enforce_open(wish, &nodes, out, err);

	crash_point("enforce.opened");
	if (nodes.is_changed)
		rc = memory_write(wish->memory, &nodes, err);
	crash_point("enforce.noted");

	/* Never what could not be undone. */
	if (rc == 0)
		rc = enforce_close(wish, &nodes, out, err);
	crash_point("enforce.closed");
	return rc < 0 ? rc : opened;
}
