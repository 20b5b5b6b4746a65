/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the driver's libraries read, and the modules of the X server. The names are those that
 * internal/discover/graphics.go of https://github.com/NVIDIA/nvidia-container-toolkit looks for.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/text.h"
#include "cdi/driver_internal.h"

#if defined(__aarch64__)
#define DRIVER_CPU "aarch64"
#else
#define DRIVER_CPU "x86_64"
#endif

enum { DRIVER_NAMES_MAX = 6 };

/* In the first of the directories that has it; the container gets it at the same place. */
static const char *const driver_data_roots[] = {"/etc", "/usr/local/share", "/usr/share"};
static const struct {
	uint32_t capabilities;
	const char *directory;
	const char *names[DRIVER_NAMES_MAX];
} driver_data[] = {
    {DRIVER_COMPUTE, "OpenCL/vendors", {"nvidia.icd"}},
    {DRIVER_GRAPHICS, "glvnd/egl_vendor.d", {"10_nvidia.json"}},
    {DRIVER_GRAPHICS,
     "egl/egl_external_platform.d",
     {"15_nvidia_gbm.json", "10_nvidia_wayland.json", "09_nvidia_wayland2.json",
      "20_nvidia_xcb.json", "20_nvidia_xlib.json"}},
    {DRIVER_GRAPHICS,
     "vulkan/icd.d",
     {"nvidia_icd.json", "nvidia_icd." DRIVER_CPU ".json", "nvidia_layers.json"}},
    {DRIVER_GRAPHICS, "vulkan/implicit_layer.d", {"nvidia_layers.json"}},
    {DRIVER_GRAPHICS, "nvidia", {"nvoptix.bin"}},
    {DRIVER_DISPLAY, "X11/xorg.conf.d", {"10-nvidia.conf", "nvidia-drm-outputclass.conf"}},
};

/* Below /usr/lib/xorg/modules or what is in its place. */
static const char *const driver_modules[][2] = {
    {"drivers", "nvidia_drv.so"},
    {"extensions", "libglxserver_nvidia.so"},
};

static bool driver_is_there(struct driver_search *search, const char *directory)
{
	char real[FILE_PATH_MAX];
	return rootdir_find(search->root, directory, S_IFDIR, real, NULL, NULL) != -ENOENT;
}

static int driver_find_data_in(struct driver_search *search, size_t kind, const char *root,
			       bool taken[DRIVER_NAMES_MAX], struct err *err)
{
	char directory[FILE_PATH_MAX], path[FILE_PATH_MAX];
	int rc = file_path(directory, err, "%s/%s", root, driver_data[kind].directory);
	if (rc < 0 || !driver_is_there(search, directory))
		return rc;

	for (size_t i = 0; rc == 0 && i < DRIVER_NAMES_MAX && driver_data[kind].names[i]; i++) {
		if (taken[i])
			continue;

		rc = file_path(path, err, "%s/%s", directory, driver_data[kind].names[i]);
		if (rc == 0)
			rc = driver_try(search, DRIVER_DATA, driver_data[kind].capabilities, path,
					path, &taken[i], err);
	}

	return rc;
}

/* The X server of Debian looks in /usr/lib/xorg/modules, that of RHEL in /usr/lib64/xorg/modules;
 * Debian's packages of the driver have the files elsewhere, too. */
static int driver_find_module(struct driver_search *search, const char *kind, const char *name,
			      struct err *err)
{
	char paths[4][FILE_PATH_MAX], inside[FILE_PATH_MAX];
	bool is_versioned = text_starts_with(name, "lib"), taken = false;
	const char *dot = is_versioned ? "." : "";
	const char *version = is_versioned ? search->driver->version : "";
	int rc = file_path(inside, err, "%s/%s", kind, name);

	static const char *const forms[] = {"/usr/lib64/xorg/modules/%s/%s%s%s",
					    "/usr/lib/xorg/modules/%s/%s%s%s"};

	for (size_t i = 0; rc == 0 && i < array_length(forms); i++)
		rc = file_path(paths[i], err, forms[i], kind, name, dot, version);

	if (rc == 0)
		rc = file_path(paths[2], err, "/usr/lib/%s/nvidia/xorg/%s%s%s", search->triplet,
			       name, dot, version);
	if (rc == 0)
		rc = file_path(paths[3], err, "/usr/lib/nvidia/current/%s%s%s", name, dot, version);

	for (size_t i = 0; rc == 0 && !taken && i < array_length(paths); i++)
		rc = driver_try(search, DRIVER_MODULE, DRIVER_DISPLAY, paths[i], inside, &taken,
				err);

	return rc;
}

int driver_find_data(struct driver_search *search, struct err *err)
{
	int rc = 0;
	for (size_t i = 0; i < array_length(driver_data); i++) {
		bool taken[DRIVER_NAMES_MAX] = {false};
		for (size_t j = 0; rc == 0 && j < array_length(driver_data_roots); j++)
			rc = driver_find_data_in(search, i, driver_data_roots[j], taken, err);
	}

	for (size_t i = 0; rc == 0 && i < array_length(driver_modules); i++)
		rc = driver_find_module(search, driver_modules[i][0], driver_modules[i][1], err);

	return rc;
}
