/* SPDX-License-Identifier: Apache-2.0 */
/* Facts (order, names, what is printed without looking):
 * https://github.com/NVIDIA/libnvidia-container, src/cli/list.c and src/nvc_info.c. */
#include "cmd/machine/devices.h"

#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "cmd/machine/devices_select.h"
#include "cdi/gather.h"
#include "cdi/rootdir.h"
#include "cdi/soname.h"
#include "hardware/minors.h"
#include "hardware/pci.h"

#define FILES_CAPS "/dev/nvidia-caps"
#define FILES_PROC "/proc/driver/nvidia/capabilities"

const struct cmd_exit_row devices_exits[] = {
    {CMD_EXIT_OK, "the GPUs were listed, also when some of them do not answer"},
    {CMD_EXIT_FAILED, "with --info or --files: one of the GPUs does not answer"},
    {CMD_EXIT_DATA, "with --files: there is no such device"},
    {CMD_EXIT_UNAVAILABLE, "no driver: not installed, half installed, not loaded, or of two "
			   "versions"},
    {CMD_EXIT_NOT_PERMITTED, "this user may not use the driver"},
    {CMD_EXIT_DEADLINE, "the driver as a whole did not answer in time"},
    {0, NULL},
};

/* In the order in which they are printed; others follow. */
static const char *const library_order[] = {
    /* utility */
    "libnvidia-ml", "libnvidia-cfg", "libnvidia-nscq",
    /* compute */
    "libcuda", "libcudadebugger", "libnvidia-opencl", "libnvidia-gpucomp",
    "libnvidia-ptxjitcompiler", "libnvidia-fatbinaryloader", "libnvidia-allocator",
    "libnvidia-compiler", "libnvidia-pkcs11", "libnvidia-pkcs11-openssl3", "libnvidia-nvvm",
    "libnvidia-tileiras",
    /* ngx */
    "libnvidia-ngx",
    /* video */
    "libvdpau_nvidia", "libnvidia-encode", "libnvidia-opticalflow", "libnvcuvid",
    /* graphics */
    "libnvidia-eglcore", "libnvidia-glcore", "libnvidia-tls", "libnvidia-glsi", "libnvidia-fbc",
    "libnvidia-ifr", "libnvidia-rtcore", "libnvoptix", "libGLX_nvidia", "libEGL_nvidia",
    "libGLESv2_nvidia", "libGLESv1_CM_nvidia", "libnvidia-glvkspirv", "libnvidia-cbl"};
static const char *const binary_order[] = {
    "nvidia-smi",	"nvidia-debugdump",	   "nvidia-persistenced",
    "nv-fabricmanager", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server"};
/* Their directories. */
static const char *const socket_order[] = {"nvidia-persistenced", "nvidia-fabricmanager"};

struct files {
	const struct cmd_call *call;
	const char *root; /* before /dev; "" */
	struct machine machine;
	struct gather gather;
	struct minors *minors; /* owned */
	struct devices_select devices;
	bool mig_config, mig_monitor;
	int code;
};

static void files_done(struct files *files)
{
	machine_done(&files->machine);
	gather_done(&files->gather);
	files->minors = minors_free(files->minors);
}

bool devices_files_is_set(const struct devices_files *files)
{
	return files->devices.count > 0 || files->mig_config.count > 0 ||
	       files->mig_monitor.count > 0 || files->libraries || files->binaries || files->ipcs ||
	       files->firmwares || files->compat32;
}

static void print_path(const char *path)
{
	cmd_print(stdout, path);
	putchar('\n');
}

__attribute__((format(printf, 1, 2))) static void print_line(const char *format, ...)
{
	char path[FILE_PATH_MAX];
	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(path, sizeof(path), format, arguments); /* fits: numbers */
	va_end(arguments);
	print_path(path);
}

/* On standard error; what is printed stays as it is. */
__attribute__((format(printf, 2, 3))) static void note(const struct files *files,
						       const char *format, ...)
{
	struct err err = {.code = 0};
	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(err.text, sizeof(err.text), format, arguments);
	va_end(arguments);
	(void)cmd_fail(files->call, 0, &err);
}

/* ---- nodes ---- */

static bool is_there(const struct files *files, const char *path)
{
	char full[FILE_PATH_MAX];
	return file_path(full, NULL, "%s%s", files->root, path) == 0 && file_exists(full);
}

/* A node that is printed in any case, as NVIDIA's program does. */
static void print_node(const struct files *files, const char *path)
{
	print_path(path);
	if (!is_there(files, path))
		note(files, "there is no %s; 'nvidia-modprobe' makes the nodes", path);
}

static void print_control_nodes(const struct files *files)
{
	static const char *const optional[] = {"/dev/nvidia-uvm", "/dev/nvidia-uvm-tools",
					       "/dev/nvidia-modeset"};
	print_node(files, "/dev/nvidiactl");
	for (size_t i = 0; i < array_length(optional); i++) {
		if (is_there(files, optional[i]))
			print_path(optional[i]);
	}
}

static void print_gpu_node(struct files *files, const struct gpu *gpu)
{
	char path[64];

	if (gpu->state != GPU_STATE_OK) {
		note(files, "GPU %u is not well: %s; 'sluice health' says what to do", gpu->index,
		     gpu->reason);
		files->code = CMD_EXIT_FAILED;
	}

	if (gpu->minor == GPU_U32_UNKNOWN)
		return;

	(void)snprintf(path, sizeof(path), "/dev/nvidia%u", gpu->minor); /* fits */
	print_node(files, path);
}

static void print_cap(const struct files *files, uint32_t gpu_minor, uint32_t gi, uint32_t ci)
{
	uint32_t cap;
	if (minors_find(files->minors, gpu_minor, gi, ci, &cap) == 0)
		print_line(FILES_CAPS "/nvidia-cap%u", cap);
}

static void print_mig(const struct files *files, const struct mig_device *mig)
{
	uint32_t gpu_minor = files->machine.inventory.gpus[mig->parent].minor;
	if (gpu_minor == GPU_U32_UNKNOWN)
		return;
	print_line(FILES_PROC "/gpu%u/mig/gi%u/access", gpu_minor, mig->gi);
	print_line(FILES_PROC "/gpu%u/mig/gi%u/ci%u/access", gpu_minor, mig->gi, mig->ci);
	print_cap(files, gpu_minor, mig->gi, MINORS_GPU_INSTANCE);
	print_cap(files, gpu_minor, mig->gi, mig->ci);
}

/* What it takes to change or to watch MIG: also the nodes of instances that are still to be made,
 * which need not be there. */
static void print_mig_machine(const struct files *files, enum minors_machine which)
{
	const struct inventory *inventory = &files->machine.inventory;
	bool first = true;

	for (uint32_t i = 0; i < files->devices.gpu_count; i++) {
		const struct gpu *gpu = &inventory->gpus[files->devices.gpus[i]];
		uint32_t cap;

		if (gpu->mig_current == GPU_MIG_UNSUPPORTED || gpu->minor == GPU_U32_UNKNOWN)
			continue;

		if (first) {
			print_line(FILES_PROC "/mig/%s", minors_machine_to_string(which));
			if (minors_find_machine(files->minors, which, &cap) == 0)
				print_line(FILES_CAPS "/nvidia-cap%u", cap);
		}

		first = false;
		print_line(FILES_PROC "/gpu%u", gpu->minor);
		if (files->minors)
			print_path(FILES_CAPS);

		for (size_t at = 0; minors_next(files->minors, gpu->minor, &at, &cap);)
			print_line(FILES_CAPS "/nvidia-cap%u", cap);
	}
}

static void print_devices(struct files *files)
{
	const struct devices_select *devices = &files->devices;
	const struct inventory *inventory = &files->machine.inventory;

	print_control_nodes(files);

	for (uint32_t i = 0; i < devices->gpu_count; i++)
		print_gpu_node(files, &inventory->gpus[devices->gpus[i]]);

	for (uint32_t i = 0; i < devices->mig_count && !files->mig_config && !files->mig_monitor;
	     i++)
		print_mig(files, &inventory->migs[devices->migs[i]]);

	if (files->mig_config)
		print_mig_machine(files, MINORS_CONFIG);
	if (files->mig_monitor)
		print_mig_machine(files, MINORS_MONITOR);
}

/* ---- the driver's files ---- */

/* A file's name without ".so." and what follows, and its place in the order. */
static size_t rank_in(const char *path, const char *const *order, size_t count)
{
	const char *name = strrchr(path, '/');
	name = name ? name + 1 : path;
	const char *dot = strstr(name, ".so.");
	size_t length = dot ? (size_t)(dot - name) : strlen(name), i = 0;
	while (i < count && (strlen(order[i]) != length || memcmp(order[i], name, length) != 0))
		i++;
	return i;
}

/* Those of a kind in the order, then the others in the order that they have. */
static void print_kind(const struct files *files, enum driver_kind kind, const char *const *order,
		       size_t count)
{
	const struct cdi_driver *driver = &files->gather.driver;

	for (size_t rank = 0; rank <= count; rank++) {
		const char *last = "";

		for (uint32_t i = 0; i < driver->file_count; i++) {
			const struct driver_file *file = &driver->files[i];
			if (file->kind != kind || rank_in(file->path, order, count) != rank ||
			    strcmp(file->path, last) == 0)
				continue;

			print_path(file->path);
			last = file->path;
		}
	}
}

/* A 32-bit library of the driver, or nothing. */
static bool find_compat32(const struct files *files, struct rootdir *root, const char *directory,
			  const char *stem, char out[FILE_PATH_MAX])
{
	char path[FILE_PATH_MAX];
	struct err why = {.code = 0};
	struct soname library;
	_cleanup_close_ int fd = -1;

	if (file_path(path, NULL, "%s/%s.so.%s", directory, stem, files->gather.driver.version) < 0)
		return false;

	int rc = rootdir_find(root, path, S_IFREG, out, &fd, &why);
	if (rc == 0)
		rc = soname_read(fd, path, &library, &why);
	if (rc < 0 && rc != -ENOENT && rc != -ENOTDIR)
		note(files, "%s", why.text);

	return rc == 0 && library.machine == EM_386;
}

static void print_compat32(const struct files *files)
{
	static const char *const directories[] = {"/usr/lib/i386-linux-gnu",
						  "/usr/lib/i386-linux-gnu/nvidia/current",
						  "/usr/lib32",
						  "/usr/lib",
						  "/usr/lib/i386-linux-gnu/vdpau",
						  "/usr/lib32/vdpau",
						  "/usr/lib/vdpau"};
	_cleanup_rootdir_ struct rootdir root = ROOTDIR_CLOSED;
	const char *path = files->gather.driver.root;

	if (rootdir_open(path[0] ? path : "/", &root, NULL) < 0)
		return;

	for (size_t i = 0; i < array_length(library_order); i++) {
		bool found = false;
		for (size_t j = 0; j < array_length(directories) && !found; j++) {
			char real[FILE_PATH_MAX];
			found = find_compat32(files, &root, directories[j], library_order[i], real);
			if (found)
				print_path(real);
		}
	}
}

static void print_ipcs(const struct files *files)
{
	const struct cdi_driver *driver = &files->gather.driver;

	for (size_t i = 0; i < array_length(socket_order); i++) {
		for (uint32_t j = 0; j < driver->file_count; j++) {
			if (driver->files[j].kind == DRIVER_SOCKET &&
			    strstr(driver->files[j].path, socket_order[i]))
				print_path(driver->files[j].path);
		}
	}

	print_kind(files, DRIVER_DIRECTORY, NULL, 0); /* the pipes of MPS */
}

/* By the names under which the kernel asks for it. */
static void print_firmware(const struct files *files)
{
	const struct cdi_driver *driver = &files->gather.driver;
	for (uint32_t i = 0; i < driver->file_count; i++) {
		if (driver->files[i].kind == DRIVER_FIRMWARE)
			print_path(driver->files[i].name);
	}
}

/* ---- all of it ---- */

/* 0, or the exit code after the error was printed. */
static int ask_devices(struct files *files, const struct devices_files *wanted, uint64_t timeout_ns)
{
	struct err err = {.code = 0};
	int code = machine_read(files->call, timeout_ns, &files->machine, NULL, NULL);
	if (code != 0)
		return code;
	if (files->machine.inventory.simulated)
		fprintf(stderr, "%s: these GPUs are simulated\n", files->call->path);

	int rc = gather_minors(files->root, &files->minors, &err);
	if (rc < 0)
		return cmd_fail(files->call, CMD_EXIT_FAILED, &err);

	rc = devices_select(&files->machine.inventory, wanted->devices.items, wanted->devices.count,
			    &files->devices, &err);
	if (rc == 0)
		rc = devices_select_mig(&files->devices, wanted->mig_config.items,
					wanted->mig_config.count, "mig-config", &files->mig_config,
					&err);

	if (rc == 0)
		rc = devices_select_mig(&files->devices, wanted->mig_monitor.items,
					wanted->mig_monitor.count, "mig-monitor",
					&files->mig_monitor, &err);

	return rc < 0 ? cmd_fail(files->call, CMD_EXIT_DATA, &err) : 0;
}

static int ask_driver(struct files *files, const char *driver_root)
{
	const struct gather_options how = {.root = files->root,
					   .driver_root = driver_root,
					   .mps = secure_getenv("CUDA_MPS_PIPE_DIRECTORY")};
	struct err err = {.code = 0};
	int rc = gather_read(&how, &files->gather, &err);
	if (rc == 0)
		rc = gather_check(&files->gather, files->machine.inventory.driver_version, &err);

	bool is_option = rc == -EPERM || rc == -EINVAL || rc == -ENOTDIR ||
			 (rc == -ENOENT && driver_root && !file_exists(driver_root));

	if (rc < 0)
		return cmd_fail(files->call,
				driver_root && is_option ? CMD_EXIT_USAGE : CMD_EXIT_UNAVAILABLE,
				&err);

	const struct cdi_driver *driver = &files->gather.driver;
	for (uint32_t i = 0; i < driver->problem_count && i < DRIVER_PROBLEMS_MAX; i++)
		note(files, "%s", driver->problems[i].text);

	return 0;
}

static void print_all(struct files *files, const struct devices_files *wanted)
{
	if (wanted->devices.count > 0)
		print_devices(files);
	if (wanted->binaries)
		print_kind(files, DRIVER_BINARY, binary_order, array_length(binary_order));
	if (wanted->libraries)
		print_kind(files, DRIVER_LIBRARY, library_order, array_length(library_order));
	if (wanted->libraries && wanted->compat32)
		print_compat32(files);

	if (wanted->ipcs)
		print_ipcs(files);
	if (wanted->firmwares)
		print_firmware(files);
}

int devices_files(const struct cmd_call *call, const struct devices_files *wanted,
		  const char *driver_root, uint64_t timeout_ns)
{
	static const char *all[] = {"all"};
	const struct devices_files everything = {.devices = {.items = all, .count = 1},
						 .libraries = true,
						 .binaries = true,
						 .ipcs = true,
						 .firmwares = true,
						 .compat32 = true};

	if (!devices_files_is_set(wanted))
		wanted = &everything;

	__attribute__((cleanup(files_done))) struct files files = {.call = call,
								   .root = pci_root()};
	bool devices = wanted->devices.count > 0 || wanted->mig_config.count > 0 ||
		       wanted->mig_monitor.count > 0;
	bool driver = wanted->libraries || wanted->binaries || wanted->ipcs || wanted->firmwares;

	inventory_init(&files.machine.inventory);
	int code = devices ? ask_devices(&files, wanted, timeout_ns) : 0;
	if (code == 0 && driver)
		code = ask_driver(&files, driver_root);
	if (code != 0)
		return code;

	print_all(&files, wanted);
	return files.code;
}
