/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/generate.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/text.h"
#include "cdi/document.h"
#include "cdi/driver.h"
#include "hardware/gpu.h"
#include "hardware/minors.h"

enum { GENERATE_PATH_MAX = 64 };
#define GENERATE_IMEX "/dev/nvidia-caps-imex-channels/channel%u"

struct generate_node {
	char path[GENERATE_PATH_MAX]; /* in the container */
	mode_t mode;
	uid_t uid;
	gid_t gid;
};

/* One GPU or MIG instance; it has up to three names. */
struct generate_device {
	bool is_mig;
	char index[24];
	const char *uuid; /* borrowed: of the inventory */
	uint32_t node_count;
	struct generate_node nodes[GENERATE_NODES_MAX];
};

struct generator {
	const struct inventory *inventory;
	const struct minors *minors;
	const struct cdi_driver *driver;
	const struct generate_options *options;
	struct generate_device *devices; /* owned */
	size_t device_count;
	struct buf *out, *notes;
	const char *dev_root, *host_dev_root, *host_driver_root;
	bool first; /* of the list that is written now */
	int rc;	    /* the first failure of writing */
};

__attribute__((format(printf, 2, 3))) static void generate_note(struct generator *generator,
								const char *format, ...)
{
	if (!generator->notes)
		return;
	va_list arguments;
	va_start(arguments, format);
	(void)buf_vprintf(generator->notes, format, arguments); /* a note is no reason to fail */
	va_end(arguments);
}

/* Whether /dev has the device; then `out` describes it. */
static bool generate_look(const struct generator *generator, const char *path,
			  struct generate_node *out)
{
	char full[FILE_PATH_MAX];
	struct stat status;

	if (strlen(path) >= sizeof(out->path) ||
	    file_path(full, NULL, "%s%s", generator->dev_root, path) < 0)
		return false;

	int rc = generator->options->look
		     ? generator->options->look(generator->options->context, full, &status)
		     : lstat(full, &status);
	if (rc != 0 || !S_ISCHR(status.st_mode))
		return false;

	*out = (struct generate_node){
	    .mode = status.st_mode & 0777, .uid = status.st_uid, .gid = status.st_gid};
	memcpy(out->path, path, strlen(path) + 1);
	return true;
}

static bool generate_add_node(const struct generator *generator, struct generate_device *device,
			      const char *path)
{
	if (device->node_count == GENERATE_NODES_MAX ||
	    !generate_look(generator, path, &device->nodes[device->node_count]))
		return false;
	device->node_count++;
	return true;
}

static int generate_node_compare(const void *left, const void *right)
{
	const struct generate_node *a = left, *b = right;
	return strcmp(a->path, b->path);
}

/*
 * The DRM nodes of a GPU that are there: sysfs may name some that are not. The links in
 * /dev/dri/by-path are left out: a link needs a hook, and a second node of that name a hostPath
 * that differs from its path, which rootless podman and crun do not make (podman 4.3, crun 1.8).
 */
static void generate_drm(const struct generator *generator, const struct gpu *gpu,
			 struct generate_device *device)
{
	char path[FILE_PATH_MAX], address[PCI_TEXT_MAX];
	if (!gpu->has_pci ||
	    !(generator->options->capabilities & (DRIVER_GRAPHICS | DRIVER_DISPLAY)) ||
	    file_path(path, NULL, "%s/sys/bus/pci/devices/%s/drm", generator->options->root,
		      pci_address_to_string(&gpu->pci, address)) < 0)
		return;

	_cleanup_closedir_ DIR *directory = opendir(path);
	if (!directory)
		return;

	uint32_t before = device->node_count;
	const struct dirent *entry;
	for (int i = 0; i < GENERATE_DRM_MAX && (entry = readdir(directory)); i++) {
		char node[GENERATE_PATH_MAX];
		if (entry->d_name[0] != '.' && (size_t)snprintf(node, sizeof(node), "/dev/dri/%s",
								entry->d_name) < sizeof(node))
			(void)generate_add_node(generator, device, node);
	}

	qsort(device->nodes + before, device->node_count - before, sizeof(device->nodes[0]),
	      generate_node_compare);
}

static bool generate_gpu_node(struct generator *generator, const struct gpu *gpu,
			      struct generate_device *device)
{
	char path[GENERATE_PATH_MAX];
	(void)snprintf(path, sizeof(path), "/dev/nvidia%u", gpu->minor); /* fits */
	if (gpu->minor != GPU_U32_UNKNOWN && generate_add_node(generator, device, path))
		return true;
	generate_note(generator, "GPU %u (%s) is left out: there is no device node %s%s\n",
		      gpu->index, gpu->uuid, generator->dev_root, path);
	return false;
}

/* A lost GPU may have no UUID. */
static bool generate_has_name(struct generator *generator, const char *uuid)
{
	if ((generator->options->names & (GENERATE_INDEX | GENERATE_TYPE_INDEX)) ||
	    document_is_device(uuid))
		return true;
	generate_note(generator, "a device is left out: '%s' is no name for it\n", uuid);
	return false;
}

static bool generate_is_called(const struct generate_device *device, const char *name)
{
	return strcmp(device->index, name) == 0 || strcmp(device->uuid, name) == 0;
}

static bool generate_is_wanted(const struct generator *generator,
			       const struct generate_device *device)
{
	const struct generate_options *options = generator->options;
	size_t i = 0;
	while (i < options->devices_count && !generate_is_called(device, options->devices[i]))
		i++;
	return !options->devices || i < options->devices_count;
}

/* Why there is no device of this name. -ENODEV. */
static int generate_not_there(const struct generator *generator, const char *name, struct err *err)
{
	for (uint32_t i = 0; i < generator->inventory->gpu_count; i++) {
		const struct gpu *gpu = &generator->inventory->gpus[i];
		char index[16];

		(void)snprintf(index, sizeof(index), "%u", gpu->index); /* fits */
		if (gpu->mig_current == GPU_MIG_ENABLED &&
		    (strcmp(index, name) == 0 || strcmp(gpu->uuid, name) == 0))
			return err_set(err, -ENODEV,
				       "GPU %s is in MIG mode: name its MIG devices, as %s:0", name,
				       index);
	}

	return err_set(err, -ENODEV,
		       "there is no device '%s' with its nodes here: 'sluice devices' lists them",
		       name);
}

/* Whoever asked for something by name is not given less without a word. */
static int generate_check_wanted(const struct generator *generator, struct err *err)
{
	const struct generate_options *options = generator->options;

	for (size_t i = 0; i < options->imex_count; i++) {
		struct generate_node node;
		char path[GENERATE_PATH_MAX];

		(void)snprintf(path, sizeof(path), GENERATE_IMEX, options->imex[i]); /* fits */
		if (!generate_look(generator, path, &node))
			return err_set(err, -ENODEV,
				       "there is no %s%s: is nvidia-imex running, and was the "
				       "channel made (nvidia-modprobe -i)?",
				       generator->dev_root, path);
	}

	for (size_t i = 0; options->devices && i < options->devices_count; i++) {
		size_t j = 0;
		while (j < generator->device_count &&
		       !generate_is_called(&generator->devices[j], options->devices[i]))
			j++;

		if (j == generator->device_count)
			return generate_not_there(generator, options->devices[i], err);
	}

	return 0;
}

/* The instances of a GPU in MIG mode that is given whole, as far as they have their nodes. */
static void generate_instances(struct generator *generator, uint32_t parent,
			       struct generate_device *device)
{
	const struct inventory *inventory = generator->inventory;

	for (uint32_t i = 0; i < inventory->mig_count; i++) {
		const struct mig_device *mig = &inventory->migs[i];
		if (mig->parent != parent)
			continue;

		for (int part = 0; part < 2; part++) {
			char path[GENERATE_PATH_MAX];
			uint32_t cap, ci = part == 0 ? MINORS_GPU_INSTANCE : mig->ci;

			if (!generator->minors ||
			    minors_find(generator->minors, inventory->gpus[parent].minor, mig->gi,
					ci, &cap) < 0)
				continue;

			(void)snprintf(path, sizeof(path), "/dev/nvidia-caps/nvidia-cap%u",
				       cap); /* fits */
			(void)generate_add_node(generator, device, path);
		}
	}

	qsort(device->nodes + 1, device->node_count - 1, sizeof(device->nodes[0]),
	      generate_node_compare);
}

static void generate_gpu(struct generator *generator, const struct gpu *gpu)
{
	struct generate_device *device = &generator->devices[generator->device_count];
	*device = (struct generate_device){.uuid = gpu->uuid};
	(void)snprintf(device->index, sizeof(device->index), "%u", gpu->index); /* fits */

	if (!generate_is_wanted(generator, device) || !generate_has_name(generator, gpu->uuid) ||
	    !generate_gpu_node(generator, gpu, device))
		return;
	if (gpu->mig_current == GPU_MIG_ENABLED)
		generate_instances(generator, (uint32_t)(gpu - generator->inventory->gpus), device);
	else
		generate_drm(generator, gpu, device);

	generator->device_count++;
}

static bool generate_cap(struct generator *generator, const struct gpu *gpu,
			 const struct mig_device *mig, uint32_t ci, struct generate_device *device)
{
	uint32_t cap;
	char path[GENERATE_PATH_MAX] = "capability";

	if (minors_find(generator->minors, gpu->minor, mig->gi, ci, &cap) == 0) {
		(void)snprintf(path, sizeof(path), "/dev/nvidia-caps/nvidia-cap%u", cap); /* fits */
		if (generate_add_node(generator, device, path))
			return true;
	}

	generate_note(generator, "MIG device %u:%u (%s) is left out: there is no %s of it\n",
		      gpu->index, mig->index, mig->uuid, path);
	return false;
}

static void generate_mig(struct generator *generator, const struct mig_device *mig)
{
	const struct gpu *gpu = &generator->inventory->gpus[mig->parent];
	struct generate_device *device = &generator->devices[generator->device_count];

	*device = (struct generate_device){.is_mig = true, .uuid = mig->uuid};
	(void)snprintf(device->index, sizeof(device->index), "%u:%u", gpu->index, mig->index);

	if (!generate_is_wanted(generator, device) || !generate_has_name(generator, mig->uuid) ||
	    !generate_gpu_node(generator, gpu, device) ||
	    !generate_cap(generator, gpu, mig, MINORS_GPU_INSTANCE, device) ||
	    !generate_cap(generator, gpu, mig, mig->ci, device))
		return;

	if (strstr(mig->profile, "gfx"))
		generate_drm(generator, gpu, device);
	generator->device_count++;
}

/* Writing: what fails is kept, and the rest does nothing. */

__attribute__((format(printf, 2, 3))) static void generate_print(struct generator *generator,
								 const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	if (generator->rc == 0)
		generator->rc = buf_vprintf(generator->out, format, arguments);
	va_end(arguments);
}

static void generate_bytes(struct generator *generator, const char *bytes, size_t length)
{
	if (generator->rc == 0)
		generator->rc = buf_add(generator->out, bytes, length);
}

static void generate_put(struct generator *generator, const char *text)
{
	generate_bytes(generator, text, strlen(text));
}

/* The inside of a JSON string. Almost always it is as it stands, so runs are taken at once. */
static void generate_escaped(struct generator *generator, const char *text)
{
	const char *run = text, *at = text;

	for (size_t size, rest = strlen(text); rest > 0; at += size, rest -= size) {
		uint32_t letter = text_decode(at, rest, &size);
		if (letter >= ' ' && letter != 0x7f && letter != '"' && letter != '\\' &&
		    letter != TEXT_INVALID)
			continue;
		if (letter == TEXT_INVALID && generator->rc == 0)
			generator->rc = -EINVAL;
		generate_bytes(generator, run, (size_t)(at - run));
		generate_print(generator, "\\u%04x", letter);
		run = at + size;
	}

	generate_bytes(generator, run, (size_t)(at - run));
}

/* A JSON string of two parts. */
static void generate_string(struct generator *generator, const char *prefix, const char *text)
{
	generate_bytes(generator, "\"", 1);
	generate_escaped(generator, prefix);
	generate_escaped(generator, text);
	generate_bytes(generator, "\"", 1);
}

static void generate_item(struct generator *generator)
{
	generate_put(generator, generator->first ? "\n" : ",\n");
	generator->first = false;
}

static void generate_write_node(struct generator *generator, const struct generate_node *node)
{
	generate_item(generator);
	generate_put(generator, "        {\"path\": ");
	generate_string(generator, "", node->path);

	if (generator->host_dev_root[0]) {
		generate_put(generator, ", \"hostPath\": ");
		generate_string(generator, generator->host_dev_root, node->path);
	}

	/* Without them a runtime makes the node 0666 and root's. */
	if (node->mode != 0666)
		generate_print(generator, ", \"fileMode\": %u, \"uid\": %u, \"gid\": %u",
			       (unsigned)node->mode, (unsigned)node->uid, (unsigned)node->gid);

	generate_put(generator, ", \"permissions\": \"rw\"}");
}

/* The host's file at a place in the container. `length`: how much of the file's path; of a socket
 * its directory. */
static void generate_mount(struct generator *generator, const struct driver_file *file,
			   size_t length, const char *directory, const char *name)
{
	static const char files[] = "\"ro\", \"nosuid\", \"nodev\", \"rbind\", \"rprivate\"";
	/* What is sent to a socket is not written to its file system. */
	static const char sockets[] =
	    "\"ro\", \"nosuid\", \"nodev\", \"noexec\", \"rbind\", \"rprivate\"";
	static const char pipes[] = "\"nosuid\", \"nodev\", \"noexec\", \"rbind\", \"rprivate\"";
	const char *options = file->kind == DRIVER_SOCKET      ? sockets
			      : file->kind == DRIVER_DIRECTORY ? pipes
							       : files;
	char path[FILE_PATH_MAX];

	if (file_path(path, NULL, "%.*s", (int)length, file->path) < 0) {
		generator->rc = generator->rc ? generator->rc : -ENAMETOOLONG;
		return;
	}

	generate_item(generator);
	generate_put(generator, "      {\"hostPath\": ");
	generate_string(generator, generator->host_driver_root, path);
	generate_put(generator, ", \"containerPath\": ");
	generate_string(generator, directory, name);
	generate_put(generator, ", \"options\": [");
	generate_put(generator, options);
	generate_put(generator, "]}");
}

static void generate_file(struct generator *generator, const struct driver_file *file,
			  const char *directory, const char *name)
{
	generate_mount(generator, file, strlen(file->path), directory, name);
}

/* Names that NVIDIA makes by links; a second mount of the same file needs none. */
static const char *generate_alias(const struct generator *generator, const char *soname)
{
	static const struct {
		const char *soname; /* or what it begins with, up to the driver's version */
		const char *alias;
		uint32_t capabilities;
	} aliases[] = {
	    {"libcuda.so.1", "libcuda.so", DRIVER_ALL},
	    {"libnvidia-opticalflow.so.1", "libnvidia-opticalflow.so", DRIVER_ALL},
	    {"libGLX_nvidia.so.0", "libGLX_indirect.so.0", DRIVER_ALL},
	    {"libnvidia-allocator.so.1", "gbm/nvidia-drm_gbm.so", DRIVER_GRAPHICS},
	    {"libnvidia-vulkan-producer.so.", "libnvidia-vulkan-producer.so", DRIVER_ALL},
	};

	for (size_t i = 0; i < array_length(aliases); i++) {
		size_t length = strlen(aliases[i].soname);
		if (strncmp(aliases[i].soname, soname, length) == 0 &&
		    (soname[length] == '\0' || aliases[i].soname[length - 1] == '.') &&
		    (aliases[i].capabilities & generator->options->capabilities))
			return aliases[i].alias;
	}

	return NULL;
}

static void generate_library(struct generator *generator, const struct driver_file *file,
			     const char *directory)
{
	generate_file(generator, file, directory, file->name);
	const char *alias = generate_alias(generator, file->name);
	if (alias)
		generate_file(generator, file, directory, alias);

	const char *slash = strrchr(file->name, '/');
	char versioned[FILE_PATH_MAX];

	if (file_path(versioned, NULL, "%.*s%s", slash ? (int)(slash - file->name + 1) : 0,
		      file->name, strrchr(file->path, '/') + 1) == 0 &&
	    generator->options->versioned && strcmp(versioned, file->name) != 0)
		generate_file(generator, file, directory, versioned);
}

/* Each file that is for a directory of libraries or modules, in the directories of both layouts. */
static void generate_one(struct generator *generator, const struct driver_file *file,
			 const char *debian)
{
	uint32_t layout = generator->options->layout;

	switch (file->kind) {
	case DRIVER_LIBRARY:
		if (layout & GENERATE_DEBIAN)
			generate_library(generator, file, debian);
		if (layout & GENERATE_RHEL)
			generate_library(generator, file, "/usr/lib64/");
		break;
	case DRIVER_MODULE:
		if (layout & GENERATE_DEBIAN)
			generate_file(generator, file, "/usr/lib/xorg/modules/", file->name);

		if (layout & GENERATE_RHEL)
			generate_file(generator, file, "/usr/lib64/xorg/modules/", file->name);
		break;
	case DRIVER_SOCKET: {
		/* The daemon's directory: rootdir.h says why, and it outlives the socket. */
		char name[FILE_PATH_MAX];
		(void)file_path(name, NULL, "%s", file->name); /* was a path before */
		*strrchr(name, '/') = '\0';
		generate_mount(generator, file, (size_t)(strrchr(file->path, '/') - file->path), "",
			       name);
		break;
	}
	case DRIVER_BINARY:
	case DRIVER_FIRMWARE:
	case DRIVER_DIRECTORY:
	case DRIVER_DATA:
		generate_file(generator, file, "", file->name);
		break;
	}
}

static void generate_mounts(struct generator *generator)
{
	char debian[GENERATE_PATH_MAX];
	(void)snprintf(debian, sizeof(debian), "/usr/lib/%s/",
		       generator->options->triplet ? generator->options->triplet
						   : driver_triplet_here());

	const struct cdi_driver *driver = generator->driver;

	generator->first = true;
	for (uint32_t i = 0; driver && i < driver->file_count; i++)
		if (!driver->files[i].capabilities ||
		    (driver->files[i].capabilities & generator->options->capabilities))
			generate_one(generator, &driver->files[i], debian);
}

static void generate_control(struct generator *generator)
{
	static const char *const nodes[] = {"/dev/nvidia-modeset", "/dev/nvidia-uvm",
					    "/dev/nvidia-uvm-tools", "/dev/nvidiactl"};
	generator->first = true;
	for (size_t i = 0; i < generator->options->imex_count; i++) {
		struct generate_node node;
		char path[GENERATE_PATH_MAX];

		(void)snprintf(path, sizeof(path), GENERATE_IMEX,
			       generator->options->imex[i]); /* fits */
		if (generate_look(generator, path, &node))   /* else it was refused before */
			generate_write_node(generator, &node);
	}

	for (size_t i = 0; i < array_length(nodes); i++) {
		struct generate_node node;
		uint32_t needs = driver_capabilities_at(nodes[i]);
		if (needs && !(needs & generator->options->capabilities))
			continue;

		if (generate_look(generator, nodes[i], &node))
			generate_write_node(generator, &node);
		else
			generate_note(generator, "there is no %s%s: nvidia-modprobe makes it\n",
				      generator->dev_root, nodes[i]);
	}
}

static void generate_write_device(struct generator *generator, bool *first, const char *name,
				  const struct generate_node *nodes, size_t count)
{
	generate_put(generator, *first ? "\n    {\"name\": " : ",\n    {\"name\": ");
	generate_string(generator, "", name);
	generate_put(generator, ", \"containerEdits\": {\"deviceNodes\": [");
	*first = false;
	generator->first = true;

	for (size_t i = 0; i < count; i++)
		if (i == 0 || strcmp(nodes[i].path, nodes[i - 1].path) != 0)
			generate_write_node(generator, &nodes[i]);

	generate_put(generator, "]}}");
}

/* The union of all devices' nodes. */
static int generate_all(struct generator *generator, bool *first)
{
	size_t count = 0;
	struct generate_node *nodes =
	    calloc(generator->device_count * GENERATE_NODES_MAX, sizeof(*nodes));
	if (!nodes)
		return -ENOMEM;

	for (size_t i = 0; i < generator->device_count; i++) {
		const struct generate_device *device = &generator->devices[i];
		memcpy(nodes + count, device->nodes, device->node_count * sizeof(nodes[0]));
		count += device->node_count;
	}

	qsort(nodes, count, sizeof(nodes[0]), generate_node_compare);
	generate_write_device(generator, first, "all", nodes, count);
	free(nodes);

	return 0;
}

static int generate_write(struct generator *generator)
{
	const struct generate_options *options = generator->options;
	/* Names that begin with a digit and hostPath came with 0.5.0; podman before 5 knows no
	 * later version than that. */
	bool needs_050 = generator->host_dev_root[0] || (options->names & GENERATE_INDEX);
	for (size_t i = 0; i < generator->device_count; i++)
		needs_050 |=
		    generator->devices[i].uuid[0] >= '0' && generator->devices[i].uuid[0] <= '9';

	generate_print(generator,
		       "{\n  \"cdiVersion\": \"%s\",\n  \"kind\": ", needs_050 ? "0.5.0" : "0.3.0");
	generate_string(generator, "", options->kind);
	generate_put(generator, ",\n  \"devices\": [");

	bool first = true;

	for (size_t i = 0; i < generator->device_count; i++) {
		const struct generate_device *device = &generator->devices[i];

		if (options->names & GENERATE_INDEX)
			generate_write_device(generator, &first, device->index, device->nodes,
					      device->node_count);

		char typed[sizeof(device->index) + sizeof("mig")];
		(void)snprintf(typed, sizeof(typed), "%s%s", device->is_mig ? "mig" : "gpu",
			       device->index); /* fits */

		if ((options->names & GENERATE_UUID) && document_is_device(device->uuid))
			generate_write_device(generator, &first, device->uuid, device->nodes,
					      device->node_count);
		if (options->names & GENERATE_TYPE_INDEX)
			generate_write_device(generator, &first, typed, device->nodes,
					      device->node_count);
	}

	if (!options->without_all && generator->rc == 0)
		generator->rc = generate_all(generator, &first);
	/* void: a hook of the old kind that is still there adds nothing of its own. */
	generate_put(generator, "\n  ],\n  \"containerEdits\": {\n"
				"    \"env\": [\"NVIDIA_VISIBLE_DEVICES=void\"]");
	generate_put(generator, ",\n    \"deviceNodes\": [");

	size_t mark = generator->out->length;

	generate_control(generator);
	if (generator->first && generator->rc == 0) /* none: take the empty list away */
		generator->out->length = mark - strlen(",\n    \"deviceNodes\": [");
	else
		generate_put(generator, "]");

	generate_put(generator, ",\n    \"mounts\": [");
	mark = generator->out->length;
	generate_mounts(generator);

	if (generator->first && generator->rc == 0)
		generator->out->length = mark - strlen(",\n    \"mounts\": [");
	else
		generate_put(generator, "]");

	generate_put(generator, "\n  }\n}\n");
	return generator->rc;
}

int generate_text(const struct inventory *inventory, const struct minors *minors,
		  const struct cdi_driver *driver, const struct generate_options *options,
		  struct buf *out, struct buf *notes, struct err *err)
{
	int rc = driver ? driver_check(driver, err) : 0;
	if (rc < 0)
		return rc;

	size_t most = (size_t)inventory->gpu_count + inventory->mig_count;
	struct generator generator = {.inventory = inventory,
				      .minors = minors,
				      .driver = driver,
				      .options = options,
				      .dev_root =
					  options->dev_root ? options->dev_root : options->root,
				      .out = out,
				      .notes = notes};

	generator.host_dev_root =
	    options->host_dev_root ? options->host_dev_root : generator.dev_root;
	generator.host_driver_root = options->host_driver_root ? options->host_driver_root
				     : driver		       ? driver->root
							       : "";

	_cleanup_free_ struct generate_device *devices = calloc(most + 1, sizeof(*devices));
	if (!devices)
		return err_set(err, -ENOMEM, "out of memory for %zu devices", most);

	generator.devices = devices;
	for (uint32_t i = 0; i < inventory->gpu_count; i++)
		if (inventory->gpus[i].mig_current != GPU_MIG_ENABLED || options->mig_whole)
			generate_gpu(&generator, &inventory->gpus[i]);

	for (uint32_t i = 0; i < inventory->mig_count; i++)
		generate_mig(&generator, &inventory->migs[i]);

	rc = generate_check_wanted(&generator, err);
	if (rc < 0)
		return rc;

	if (generator.device_count == 0)
		return err_set(
		    err, -ENODEV,
		    "no GPU and no MIG device with its nodes in %s/dev: nothing to write%s",
		    generator.dev_root,
		    inventory->simulated
			? "; a simulated machine has plain files there unless root starts it"
			: "");

	size_t before = out->length;

	rc = generate_write(&generator);
	if (rc == 0)
		return 0;

	out->length = before;
	return err_set(err, rc, "cannot write the specification of %s: %s", options->kind,
		       rc == -EINVAL ? "a path is not UTF-8" : err_describe(rc));
}

int generate_channel(const struct generate_options *options, struct buf *out, struct err *err)
{
	struct generator generator = {.options = options, .out = out, .first = true};
	struct generate_node node;
	char path[GENERATE_PATH_MAX];

	(void)snprintf(path, sizeof(path), GENERATE_IMEX, 0u); /* fits */
	generator.dev_root = options->dev_root ? options->dev_root : options->root;
	generator.host_dev_root =
	    options->host_dev_root ? options->host_dev_root : generator.dev_root;
	if (!generate_look(&generator, path, &node)) {
		generator.dev_root = options->root;
		generator.host_dev_root = options->host_dev_root ? "" : options->root;
		if (!generate_look(&generator, path, &node))
			return 0;
	}

	size_t before = out->length;
	bool first = true;

	generate_put(&generator, "{\n  \"cdiVersion\": \"0.5.0\",\n  \"kind\": ");
	generate_string(&generator, "", options->kind);
	generate_put(&generator, ",\n  \"devices\": [");
	generate_write_device(&generator, &first, "0", &node, 1);
	generate_put(&generator, "\n  ],\n  \"containerEdits\": {\n"
				 "    \"env\": [\"NVIDIA_VISIBLE_DEVICES=void\"]\n  }\n}\n");

	if (generator.rc == 0)
		return 0;

	out->length = before;
	return err_set(err, generator.rc, "cannot write the specification of %s: %s", options->kind,
		       generator.rc == -EINVAL ? "a path is not UTF-8"
					       : err_describe(generator.rc));
}
