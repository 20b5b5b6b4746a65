/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/validations/ready.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/names.h"
#include "hardware/driver_root.h"
#include "hardware/gpu.h"
#include "hardware/pci.h"

const char *ready_name(enum ready_what what)
{
	static const char *const names[READY_COUNT] = {
	    [READY_DRIVER] = "driver-ready",   [READY_TOOLKIT] = "toolkit-ready",
	    [READY_PLUGIN] = "plugin-ready",   [READY_PEERMEM] = "nvidia-peermem-ready",
	    [READY_GDRCOPY] = "gdrcopy-ready", [READY_NVIDIA_FS] = "nvidia-fs-ready",
	    [READY_MOFED] = "mofed-ready",
	};
	return names_at(names, what, "unknown");
}

/* Programs of the operator read this file in a container that has the host at /host and a driver
 * container's root at /driver-root. */
size_t ready_driver_text(const struct ready_driver *driver, char out[READY_TEXT_MAX])
{
	bool has_nodes = !driver->is_host && driver->has_dev_dir;
	int length =
	    snprintf(out, READY_TEXT_MAX,
		     "IS_HOST_DRIVER=%s\n"
		     "NVIDIA_DRIVER_ROOT=%s\n"
		     "DRIVER_ROOT_CTR_PATH=%s\n"
		     "NVIDIA_DEV_ROOT=%s\n"
		     "DEV_ROOT_CTR_PATH=%s\n",
		     driver->is_host ? "true" : "false", driver->is_host ? "/" : READY_DRIVER_ROOT,
		     driver->is_host ? "/host" : "/driver-root",
		     has_nodes ? READY_DRIVER_ROOT : "/", has_nodes ? "/driver-root" : "/host");

	return (size_t)length; /* fits: nothing in it is longer than here */
}

/* --- the driver ------------------------------------------------------------------------------ */

static bool ready_begins(const char *text, const char *prefix)
{
	size_t length = strlen(prefix);
	return strncmp(text, prefix, length) == 0 && (text[length] == '/' || text[length] == '\0');
}

static bool ready_is_directory(const char *root, const char *path)
{
	char full[FILE_PATH_MAX];
	struct stat status;
	return file_path(full, NULL, "%s%s", root, path) == 0 && stat(full, &status) == 0 &&
	       S_ISDIR(status.st_mode);
}

static bool ready_is_there(const char *root, const char *path)
{
	char full[FILE_PATH_MAX];
	return file_path(full, NULL, "%s%s", root, path) == 0 && file_exists(full);
}

/* The simulator's library is nowhere on its machine: there the one that a test has put there
 * counts. */
static void ready_find_driver(const struct ready_question *question, struct ready_driver *out)
{
	char found[FILE_PATH_MAX] = "", place[FILE_PATH_MAX] = READY_DRIVER_ROOT;
	const char *library = question->inventory ? question->inventory->library_path : "";
	const char *named = question->driver_root ? question->driver_root : "";

	(void)file_path(place, NULL, "%s" READY_DRIVER_ROOT, question->root);
	if (question->root[0] != '\0' || *library == '\0')
		library = driver_root_find(question->root, "libnvidia-ml.so.1", found) ? found : "";
	out->is_host = !ready_begins(library, place) && !ready_begins(named, READY_DRIVER_ROOT);
	out->has_dev_dir =
	    !out->is_host && ready_is_directory(question->root, READY_DRIVER_ROOT "/dev");
}

/* "libnvidia-ml.so.580.82.07" has "580.82.07"; "libnvidia-ml.so.1" and others "". */
static const char *ready_library_version(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *suffix = strstr(slash ? slash : path, ".so.");
	return suffix && strchr(suffix + 4, '.') ? suffix + 4 : "";
}

static bool ready_has_node(const struct ready_question *question, const struct ready_driver *driver,
			   const char *name)
{
	char path[FILE_PATH_MAX];
	if (file_path(path, NULL, "/dev/%s", name) < 0)
		return false;
	if (ready_is_there(question->root, path))
		return true;

	return driver->has_dev_dir &&
	       file_path(path, NULL, READY_DRIVER_ROOT "/dev/%s", name) == 0 &&
	       ready_is_there(question->root, path);
}

/* False, and why. */
static bool ready_has_nodes(const struct ready_question *question,
			    const struct ready_driver *driver, char why[READY_WHY_MAX])
{
	const struct inventory *inventory = question->inventory;
	uint32_t good = 0;
	char name[32] = "nvidiactl";
	bool has = ready_has_node(question, driver, name);

	for (uint32_t i = 0; has && i < inventory->gpu_count; i++) {
		const struct gpu *gpu = &inventory->gpus[i];
		if (gpu->state != GPU_STATE_OK || gpu->minor == GPU_U32_UNKNOWN)
			continue;

		(void)snprintf(name, sizeof(name), "nvidia%u", gpu->minor);
		has = ready_has_node(question, driver, name);
		good++;
	}

	if (!has)
		(void)snprintf(why, READY_WHY_MAX,
			       "there is no device node /dev/%s: does 'nvidia-modprobe -c 0' "
			       "make it?",
			       name);
	else if (good == 0)
		(void)snprintf(why, READY_WHY_MAX, "%s",
			       inventory->gpu_count == 0 ? "the driver has no GPU"
							 : "no GPU is well");

	return has && good > 0;
}

static void ready_look_driver(const struct ready_question *question,
			      const struct ready_driver *driver, struct ready_fact *out)
{
	const struct inventory *inventory = question->inventory;
	char module[GPU_VERSION_MAX];

	*out = (struct ready_fact){.state = READY_NO};
	if (!inventory) {
		(void)snprintf(out->why, READY_WHY_MAX, "the driver does not answer");
		return;
	}

	if (pci_read_nvidia_version(question->root, module) < 0) {
		(void)snprintf(out->why, READY_WHY_MAX, "no NVIDIA kernel module is loaded");
		return;
	}

	const char *library = ready_library_version(inventory->library_path);
	if (*library == '\0')
		library = inventory->driver_version;

	if (strcmp(library, module) != 0 || strcmp(inventory->driver_version, module) != 0) {
		(void)snprintf(out->why, READY_WHY_MAX,
			       "the kernel module is %.48s and its library %.48s: reboot, or load "
			       "the module anew",
			       module,
			       strcmp(library, module) != 0 ? library : inventory->driver_version);
		return;
	}

	if (ready_has_nodes(question, driver, out->why))
		out->state = READY_YES;
}

/* --- the rest -------------------------------------------------------------------------------- */

static void ready_look_module(const char *root, const char *module, struct ready_fact *out)
{
	char path[FILE_PATH_MAX];
	bool is_there =
	    file_path(path, NULL, "/sys/module/%s", module) == 0 && ready_is_there(root, path);
	*out = (struct ready_fact){.state = is_there ? READY_YES : READY_NO};
	if (!is_there)
		(void)snprintf(out->why, READY_WHY_MAX, "the kernel module %s is not loaded",
			       module);
}

void ready_look(const struct ready_question *question, struct ready_fact out[READY_COUNT],
		struct ready_driver *out_driver)
{
	ready_find_driver(question, out_driver);
	ready_look_driver(question, out_driver, &out[READY_DRIVER]);
	ready_look_module(question->root, "nvidia_peermem", &out[READY_PEERMEM]);
	ready_look_module(question->root, "gdrdrv", &out[READY_GDRCOPY]);
	ready_look_module(question->root, "nvidia_fs", &out[READY_NVIDIA_FS]);
	ready_look_module(question->root, "mlx5_core", &out[READY_MOFED]);

	if (ready_is_there(question->root, "/run/mellanox/drivers/.driver-ready"))
		out[READY_MOFED] = (struct ready_fact){.state = READY_YES};
}
