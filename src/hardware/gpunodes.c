/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/gpunodes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/names.h"
#include "base/parse.h"
#include "hardware/minors.h"

enum { GPUNODES_MEMORY_MAJOR = 1, GPUNODES_DEVICES_MAX = 64 << 10 };

/* --- the plan --------------------------------------------------------------------------------- */

static bool gpunodes_is_given(const char *uuid, const char *const *uuids, size_t count)
{
	return names_find_of(uuids, count, uuid) >= 0;
}

static bool gpunodes_gives_part(const struct inventory *inventory, uint32_t gpu,
				const char *const *uuids, size_t count)
{
	for (uint32_t i = 0; i < inventory->mig_count; i++)
		if (inventory->migs[i].parent == gpu &&
		    gpunodes_is_given(inventory->migs[i].uuid, uuids, count))
			return true;
	return false;
}

int gpunodes_plan(const struct inventory *inventory, const char *const *uuids, size_t count,
		  struct gpunodes_plan *out, struct err *err)
{
	size_t room = (size_t)inventory->gpu_count + inventory->mig_count;
	struct gpunodes_plan plan = {.devices = calloc(room + 1, sizeof(*plan.devices))};
	if (!plan.devices)
		return err_set(err, -ENOMEM, "no memory for a list of GPUs");

	for (uint32_t i = 0; i < inventory->gpu_count; i++) {
		const struct gpu *gpu = &inventory->gpus[i];
		plan.devices[plan.count++] = (struct gpunodes_device){
		    .minor = gpu->minor,
		    .has_pci = gpu->has_pci,
		    .pci = gpu->pci,
		    .is_given = gpunodes_is_given(gpu->uuid, uuids, count) ||
				gpunodes_gives_part(inventory, i, uuids, count)};
	}

	for (uint32_t i = 0; i < inventory->mig_count; i++) {
		const struct mig_device *mig = &inventory->migs[i];
		plan.devices[plan.count++] = (struct gpunodes_device){
		    .minor = inventory->gpus[mig->parent].minor,
		    .is_mig = true,
		    .is_given = gpunodes_is_given(mig->uuid, uuids, count) ||
				gpunodes_is_given(inventory->gpus[mig->parent].uuid, uuids, count),
		    .gi = mig->gi,
		    .ci = mig->ci};
	}

	*out = plan;
	return 0;
}

void gpunodes_plan_done(struct gpunodes_plan *plan)
{
	free(plan->devices);
	*plan = (struct gpunodes_plan){.count = 0};
}

/* --- the files -------------------------------------------------------------------------------- */

static int gpunodes_compare(const void *left, const void *right)
{
	const struct gpunodes_node *a = left, *b = right;
	if (a->major != b->major)
		return a->major < b->major ? -1 : 1;
	return a->minor < b->minor ? -1 : a->minor > b->minor;
}

static int gpunodes_add(struct gpunodes *nodes, uint32_t major, uint32_t minor)
{
	if (nodes->count == GPUNODES_MAX)
		return -E2BIG;
	nodes->nodes[nodes->count++] = (struct gpunodes_node){major, minor};
	return 0;
}

/* What does not fit is not closed: then nothing is but what is denied by its number. */
static void gpunodes_keep(struct gpunodes *nodes, uint32_t major, uint32_t minor)
{
	if (nodes->kept_count == GPUNODES_KEPT_MAX)
		nodes->is_closed = false;
	else
		nodes->kept[nodes->kept_count++] = (struct gpunodes_node){major, minor};
}

static bool gpunodes_read_node(const char *path, struct gpunodes_node *out)
{
	struct stat status;
	if (stat(path, &status) < 0 || !S_ISCHR(status.st_mode) ||
	    major(status.st_rdev) == GPUNODES_MEMORY_MAJOR)
		return false;
	*out = (struct gpunodes_node){major(status.st_rdev), minor(status.st_rdev)};
	return true;
}

/* 0 also for what is no way to a device; -ENOENT: nothing is there. */
static int gpunodes_add_path(struct gpunodes *nodes, const char *path)
{
	struct stat status;
	if (stat(path, &status) < 0)
		return -ENOENT;
	if (!S_ISCHR(status.st_mode) || major(status.st_rdev) == GPUNODES_MEMORY_MAJOR)
		return 0;
	return gpunodes_add(nodes, major(status.st_rdev), minor(status.st_rdev));
}

static int gpunodes_add_drm(struct gpunodes *nodes, const struct gpunodes_device *device,
			    const char *root)
{
	char path[FILE_PATH_MAX], address[PCI_TEXT_MAX];
	if (!device->has_pci || file_path(path, NULL, "%s/sys/bus/pci/devices/%s/drm", root,
					  pci_address_to_string(&device->pci, address)) < 0)
		return 0;

	_cleanup_closedir_ DIR *directory = opendir(path);
	const struct dirent *entry;
	int rc = 0;

	for (int i = 0;
	     directory && rc != -E2BIG && i < GPUNODES_DRM_MAX && (entry = readdir(directory));
	     i++) {
		if (entry->d_name[0] != '.' &&
		    file_path(path, NULL, "%s/dev/dri/%s", root, entry->d_name) == 0)
			rc = gpunodes_add_path(nodes, path);
	}

	return rc == -E2BIG ? rc : 0;
}

static int gpunodes_add_gpu(struct gpunodes *nodes, const struct gpunodes_device *device,
			    const char *root)
{
	char path[FILE_PATH_MAX];
	int rc = device->minor == GPU_U32_UNKNOWN
		     ? -ENOENT
		     : file_path(path, NULL, "%s/dev/nvidia%u", root, device->minor);
	if (rc == 0)
		rc = gpunodes_add_path(nodes, path);

	/* The driver makes a real one when somebody asks for it. */
	if (rc == -ENOENT && root[0] == '\0' && device->minor != GPU_U32_UNKNOWN)
		rc = gpunodes_add(nodes, GPUNODES_MAJOR, device->minor);
	if (rc == -ENOENT)
		nodes->unknown++;
	if (rc == -E2BIG)
		return rc;

	return gpunodes_add_drm(nodes, device, root);
}

static void gpunodes_keep_gpu(struct gpunodes *nodes, const struct gpunodes_device *device,
			      const char *root)
{
	char path[FILE_PATH_MAX];
	struct gpunodes_node node;

	if (device->minor == GPU_U32_UNKNOWN ||
	    file_path(path, NULL, "%s/dev/nvidia%u", root, device->minor) < 0) {
		nodes->is_closed = false;
		return;
	}

	gpunodes_keep(nodes, GPUNODES_MAJOR, device->minor);
	if (gpunodes_read_node(path, &node))
		gpunodes_keep(nodes, node.major, node.minor);
}

/* "237 nvidia-caps" of /proc/devices; 0: it is not there. */
static uint32_t gpunodes_caps_major(void)
{
	_cleanup_buf_ struct buf text;
	buf_init(&text, GPUNODES_DEVICES_MAX);
	if (file_read("/proc/devices", &text, NULL) < 0)
		return 0;

	for (const char *line = buf_text(&text); line; line = strchr(line, '\n')) {
		line += strspn(line, "\n ");
		size_t digits = strcspn(line, " \n");
		uint64_t number;

		if (line[digits] == ' ' && strcspn(line + digits + 1, "\n") == 11 &&
		    memcmp(line + digits + 1, "nvidia-caps", 11) == 0 &&
		    parse_u64_span(line, digits, 1, UINT16_MAX, &number) == 0)
			return (uint32_t)number;
	}

	return 0;
}

static int gpunodes_add_cap(struct gpunodes *nodes, uint32_t cap, const char *root)
{
	char path[FILE_PATH_MAX];
	int rc = file_path(path, NULL, "%s/dev/nvidia-caps/nvidia-cap%u", root, cap);
	if (rc == 0)
		rc = gpunodes_add_path(nodes, path);
	if (rc != -ENOENT || root[0] != '\0')
		return rc;

	/* As above. */
	uint32_t major = gpunodes_caps_major();
	return major > 0 ? gpunodes_add(nodes, major, cap) : -ENOENT;
}

static void gpunodes_keep_cap(struct gpunodes *nodes, uint32_t cap, const char *root)
{
	char path[FILE_PATH_MAX];
	struct gpunodes_node node;

	if (file_path(path, NULL, "%s/dev/nvidia-caps/nvidia-cap%u", root, cap) == 0 &&
	    gpunodes_read_node(path, &node)) {
		nodes->caps_major = node.major;
		gpunodes_keep(nodes, node.major, node.minor);
	} else if (root[0] == '\0' && nodes->caps_major > 0) {
		gpunodes_keep(nodes, nodes->caps_major, cap);
	}
}

static void gpunodes_keep_mig(struct gpunodes *nodes, const struct gpunodes_device *device,
			      const struct minors *minors, const char *root)
{
	uint32_t gi, ci;
	if (minors_find(minors, device->minor, device->gi, device->ci, &ci) < 0 ||
	    minors_find(minors, device->minor, device->gi, MINORS_GPU_INSTANCE, &gi) < 0) {
		nodes->is_closed = false;
		return;
	}

	gpunodes_keep_cap(nodes, ci, root);
	gpunodes_keep_cap(nodes, gi, root);
}

/* A screen's or another vendor's; those of GPUs that were not given are taken out later. */
static void gpunodes_keep_drm(struct gpunodes *nodes, const char *root)
{
	char path[FILE_PATH_MAX];
	struct gpunodes_node node;

	if (file_path(path, NULL, "%s/dev/dri", root) < 0)
		return;

	_cleanup_closedir_ DIR *directory = opendir(path);
	const struct dirent *entry;
	while (directory && (entry = readdir(directory))) {
		if (entry->d_name[0] != '.' &&
		    file_path(path, NULL, "%s/dev/dri/%s", root, entry->d_name) == 0 &&
		    gpunodes_read_node(path, &node) && node.major == GPUNODES_DRM_MAJOR)
			gpunodes_keep(nodes, node.major, node.minor);
	}
}

/* Whether a MIG device that was given has the same GPU instance. */
static bool gpunodes_shares_instance(const struct gpunodes_plan *plan,
				     const struct gpunodes_device *device)
{
	for (size_t i = 0; i < plan->count; i++) {
		const struct gpunodes_device *other = &plan->devices[i];
		if (other->is_mig && other->is_given && other->minor == device->minor &&
		    other->gi == device->gi)
			return true;
	}
	return false;
}

static int gpunodes_add_mig(struct gpunodes *nodes, const struct gpunodes_plan *plan,
			    const struct gpunodes_device *device, const struct minors *minors,
			    const char *root)
{
	uint32_t cap;
	int rc = minors_find(minors, device->minor, device->gi, device->ci, &cap);
	if (rc == 0)
		rc = gpunodes_add_cap(nodes, cap, root);

	if (rc == 0 && !gpunodes_shares_instance(plan, device)) {
		rc = minors_find(minors, device->minor, device->gi, MINORS_GPU_INSTANCE, &cap);
		if (rc == 0)
			rc = gpunodes_add_cap(nodes, cap, root);
	}

	if (rc == -ENOENT)
		nodes->unknown++;

	return rc == -E2BIG ? rc : 0;
}

/* "config 1" and "monitor 2" of the list of capabilities. */
static int gpunodes_add_common(struct gpunodes *nodes, const char *text, const char *root)
{
	int rc = 0;

	for (const char *line = text; line && rc != -E2BIG; line = strchr(line, '\n')) {
		line += *line == '\n';
		size_t name = strcspn(line, " \n");
		bool is_common = (name == 6 && memcmp(line, "config", 6) == 0) ||
				 (name == 7 && memcmp(line, "monitor", 7) == 0);
		uint64_t cap;

		if (is_common && line[name] == ' ' &&
		    parse_u64_span(line + name + 1, strcspn(line + name + 1, "\n"), 0, UINT32_MAX,
				   &cap) == 0)
			rc = gpunodes_add_cap(nodes, (uint32_t)cap, root);
	}

	return rc == -E2BIG ? rc : 0;
}

static int gpunodes_read(const struct gpunodes_plan *plan, const char *root, struct gpunodes *nodes,
			 struct err *err)
{
	char path[FILE_PATH_MAX];
	_cleanup_buf_ struct buf text;

	buf_init(&text, MINORS_SIZE_MAX);
	struct minors *minors = NULL;
	int rc = file_path(path, err, "%s" MINORS_PATH, root);
	/* Without MIG there is no such file, or nothing of use in it. */
	if (rc == 0 && file_read(path, &text, NULL) == 0)
		rc = minors_parse(buf_text(&text), text.length, &minors, err);
	nodes->is_closed = true;
	nodes->caps_major = root[0] == '\0' ? gpunodes_caps_major() : 0;

	for (size_t i = 0; rc == 0 && i < plan->count; i++) {
		const struct gpunodes_device *device = &plan->devices[i];
		if (device->is_given && !device->is_mig)
			gpunodes_keep_gpu(nodes, device, root);
		else if (device->is_given)
			gpunodes_keep_mig(nodes, device, minors, root);
		else if (!device->is_mig)
			rc = gpunodes_add_gpu(nodes, device, root);
		else
			rc = gpunodes_add_mig(nodes, plan, device, minors, root);
	}

	if (rc == 0 && minors)
		rc = gpunodes_add_common(nodes, buf_text(&text), root);
	minors_free(minors);
	gpunodes_keep_drm(nodes, root);

	return rc;
}

int gpunodes_find(const struct gpunodes_plan *plan, const char *root, struct gpunodes *out,
		  struct err *err)
{
	struct gpunodes nodes = {.nodes = calloc(GPUNODES_MAX, sizeof(*nodes.nodes))};
	if (!nodes.nodes)
		return err_set(err, -ENOMEM, "no memory for a list of device nodes");

	int rc = gpunodes_read(plan, root, &nodes, err);
	if (rc == -E2BIG)
		(void)err_set(err, -E2BIG, "more than %d device nodes", GPUNODES_MAX);
	if (rc < 0) {
		gpunodes_done(&nodes);
		return rc;
	}

	qsort(nodes.nodes, nodes.count, sizeof(*nodes.nodes), gpunodes_compare);
	size_t kept = 0;
	for (size_t i = 0; i < nodes.count; i++)
		if (kept == 0 || gpunodes_compare(&nodes.nodes[i], &nodes.nodes[kept - 1]) != 0)
			nodes.nodes[kept++] = nodes.nodes[i];

	nodes.count = kept;
	*out = nodes;
	return 0;
}

void gpunodes_done(struct gpunodes *nodes)
{
	free(nodes->nodes);
	*nodes = (struct gpunodes){.count = 0};
}

/* --- ranges ----------------------------------------------------------------------------------- */

static bool gpunodes_is_denied(const struct gpunodes *nodes, uint32_t major, uint32_t minor)
{
	const struct gpunodes_node node = {major, minor};
	return bsearch(&node, nodes->nodes, nodes->count, sizeof(node), gpunodes_compare) != NULL;
}

/* All of a major that is not kept. `kept` is ascending. */
static size_t gpunodes_close(const struct gpunodes *nodes, uint32_t major, uint32_t last,
			     const struct gpunodes_node *kept, struct gpunodes_range *out)
{
	size_t count = 0;
	uint32_t first = 0;

	for (size_t i = 0; i < nodes->kept_count; i++) {
		const struct gpunodes_node *node = &kept[i];
		if (node->major != major || node->minor < first || node->minor > last ||
		    gpunodes_is_denied(nodes, major, node->minor))
			continue;
		if (node->minor > first)
			out[count++] = (struct gpunodes_range){major, first, node->minor - 1};
		first = node->minor + 1;
	}

	if (first <= last)
		out[count++] = (struct gpunodes_range){major, first, last};

	return count;
}

static int gpunodes_compare_range(const void *left, const void *right)
{
	const struct gpunodes_range *a = left, *b = right;
	if (a->major != b->major)
		return a->major < b->major ? -1 : 1;
	return a->first < b->first ? -1 : a->first > b->first;
}

/* Those by their numbers that no range has, one that follows another joined to it. */
static size_t gpunodes_add_single(const struct gpunodes *nodes, size_t closed,
				  struct gpunodes_range *out)
{
	size_t count = closed;

	for (size_t i = 0; i < nodes->count; i++) {
		const struct gpunodes_node *node = &nodes->nodes[i];
		struct gpunodes_range *before = count > closed ? &out[count - 1] : NULL;
		bool is_there = false;

		for (size_t j = 0; j < closed; j++)
			is_there |= out[j].major == node->major && out[j].first <= node->minor &&
				    out[j].last >= node->minor;

		if (is_there)
			continue;

		if (before && before->major == node->major && before->last + 1 == node->minor)
			before->last++;
		else
			out[count++] =
			    (struct gpunodes_range){node->major, node->minor, node->minor};
	}

	return count;
}

int gpunodes_ranges(const struct gpunodes *nodes, struct gpunodes_range **out, size_t *out_count,
		    struct err *err)
{
	enum { GPUNODES_CLOSED = 3 };
	size_t room = nodes->count + nodes->kept_count + GPUNODES_CLOSED, count = 0;
	struct gpunodes_node kept[GPUNODES_KEPT_MAX];
	struct gpunodes_range *ranges = calloc(room, sizeof(*ranges));
	if (!ranges)
		return err_set(err, -ENOMEM, "no memory for a list of device nodes");

	memcpy(kept, nodes->kept, sizeof(kept));
	qsort(kept, nodes->kept_count, sizeof(*kept), gpunodes_compare);

	if (nodes->is_closed) {
		count = gpunodes_close(nodes, GPUNODES_MAJOR, GPUNODES_LAST, kept, ranges);
		count += gpunodes_close(nodes, GPUNODES_DRM_MAJOR, GPUNODES_DRM_LAST, kept,
					&ranges[count]);
	}

	if (nodes->is_closed && nodes->caps_major > 0)
		count += gpunodes_close(nodes, nodes->caps_major, GPUNODES_MINOR_LAST, kept,
					&ranges[count]);

	count = gpunodes_add_single(nodes, count, ranges);
	qsort(ranges, count, sizeof(*ranges), gpunodes_compare_range);
	*out = ranges;
	*out_count = count;

	return 0;
}
