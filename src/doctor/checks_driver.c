/* SPDX-License-Identifier: Apache-2.0 */
/* The driver: is it loaded, whole, of one version, of the right kind. */
#include "doctor/checks.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/parse.h"
#include "base/text.h"
#include "doctor/doctor.h"
#include "doctor/facts.h"
#include "doctor/holders.h"
#include "doctor/lines.h"
#include "doctor/shared.h"
#include "hardware/pci.h"

enum driver_check_limits {
	VERSIONS_MAX = 16, /* installations that are told */
};

void check_driver_loaded(struct doctor *doctor)
{
	const struct doctor_facts *facts = &doctor->facts;

	if (doctor_is_passed_through(doctor)) {
		doctor_skip(doctor, "all GPUs are passed through to virtual machines");
		return;
	}

	if (facts->module_version[0] != '\0') {
		doctor_found(doctor_add(doctor, DOCTOR_OK, "kernel module nvidia"), "version %s",
			     facts->module_version);
		return;
	}

	struct doctor_finding *finding = doctor_add(doctor, DOCTOR_FAIL, "kernel module nvidia");
	doctor_need(doctor_found(finding, "that it is not loaded"), "it loaded");
	doctor_do(finding, "modprobe nvidia\n"
			   "sluice doctor --only driver.headers --only driver.secureboot");
}

/* Skips a check that says nothing while no module is loaded. */
static bool is_unloaded(struct doctor *doctor)
{
	if (doctor->facts.module_version[0] != '\0')
		return false;
	doctor_skip(doctor, "the driver is not loaded");
	return true;
}

/* --- one version ----------------------------------------------------------------------------- */

static const char *const library_directories[] = {
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/aarch64-linux-gnu/nvidia/current",
    "/usr/lib",
    "/lib64",
    "/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/local/lib",
    "/usr/local/nvidia/lib64",
    "/run/opengl-driver/lib",		 /* NixOS */
    "/home/kubernetes/bin/nvidia/lib64", /* Google's Container-Optimized OS */
    "/usr/local/glibc/usr/lib",		 /* Talos */
};

/* A library that was found, by its path without links. */
struct library {
	char path[DOCTOR_TEXT_MAX / 2];
	char version[GPU_VERSION_MAX];
};

struct libraries {
	struct library items[VERSIONS_MAX];
	size_t count;
	bool has_untold; /* one is there, and of no version that can be told */
};

static void take_library(struct doctor *doctor, const char *root, const char *directory,
			 const char *name, struct libraries *out)
{
	char path[FILE_PATH_MAX], real[FILE_PATH_MAX];
	if (out->count == VERSIONS_MAX ||
	    file_path(path, NULL, "%s%s/%s", root, directory, name) < 0 ||
	    !rootfs_exists(&doctor->rootfs, path))
		return;

	/* Without /proc it is not known where a link leads. */
	const char *version =
	    rootfs_real(&doctor->rootfs, path, real) == 0 ? strstr(real, ".so.") : NULL;
	version = version ? version + strlen(".so.") : "";

	/* "libcuda.so.1" is a file itself where a container's toolkit has put it. */
	if (!strchr(version, '.') || strlen(version) >= GPU_VERSION_MAX ||
	    strlen(real) >= sizeof(out->items[0].path)) {
		out->has_untold = true;
		return;
	}

	for (size_t i = 0; i < out->count; i++)
		if (strcmp(out->items[i].path, real) == 0)
			return;

	struct library *library = &out->items[out->count++];
	(void)snprintf(library->path, sizeof(library->path), "%s", real);
	(void)snprintf(library->version, sizeof(library->version), "%s", version);
}

static void find_libraries(struct doctor *doctor, struct libraries *out)
{
	static const char *const names[] = {"libnvidia-ml.so.1", "libcuda.so.1"};
	const char *const roots[] = {"", FACTS_DRIVER_ROOT};
	for (size_t r = 0; r < array_length(roots); r++)
		for (size_t d = 0; d < array_length(library_directories); d++)
			for (size_t n = 0; n < array_length(names); n++)
				take_library(doctor, roots[r], library_directories[d], names[n],
					     out);
}

/* Libraries of another version, the first two by name. */
static void report_mismatch(struct doctor *doctor, const struct libraries *libraries)
{
	const char *module = doctor->facts.module_version;
	const struct library *wrong = NULL, *right = NULL;

	for (size_t i = libraries->count; i-- > 0;) {
		const struct library *library = &libraries->items[i];
		if (strcmp(library->version, module) == 0)
			right = library;
		else
			wrong = library;
	}

	if (!wrong) {
		doctor_found(doctor_add(doctor, DOCTOR_OK, "driver's libraries"),
			     "version %s, as the module", module);
		return;
	}

	struct doctor_finding *finding = doctor_add(doctor, DOCTOR_FAIL, "driver's libraries");

	if (right) {
		doctor_found(finding, "two installations: %s beside %s, which is the module's",
			     wrong->path, right->path);
		doctor_need(finding, "version %s alone", module);
		doctor_do(finding,
			  "remove the driver that %s belongs to (dpkg -S %s; rpm -qf %s)\n"
			  "ldconfig",
			  wrong->path, wrong->path, wrong->path);

		return;
	}

	doctor_found(finding, "version %s in %s, and the kernel module %s", wrong->version,
		     wrong->path, module);
	doctor_need(finding, "both of one version");
	doctor_do(finding, "reboot\n"
			   "or, when nothing uses a GPU: systemctl stop nvidia-persistenced; "
			   "rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia; modprobe nvidia");
}

void check_driver_match(struct doctor *doctor)
{
	struct libraries libraries = {.count = 0};

	if (is_unloaded(doctor))
		return;

	find_libraries(doctor, &libraries);
	if (libraries.count > 0) {
		report_mismatch(doctor, &libraries);
		return;
	}

	if (libraries.has_untold) {
		doctor_found(doctor_add(doctor, DOCTOR_UNKNOWN, "driver's libraries"),
			     "files whose names do not tell the version");
		return;
	}

	struct doctor_finding *finding = doctor_add(doctor, DOCTOR_FAIL, "driver's libraries");
	doctor_need(doctor_found(finding, "neither libnvidia-ml.so.1 nor libcuda.so.1"),
		    "those of version %s", doctor->facts.module_version);
	doctor_do(finding, "install the user space of the driver, in exactly this version");
}

/* --- its modules ----------------------------------------------------------------------------- */

void check_driver_modules(struct doctor *doctor)
{
	static const char *const optional[] = {"nvidia_modeset", "nvidia_drm"};
	char path[FILE_PATH_MAX];

	if (is_unloaded(doctor))
		return;

	if (!rootfs_exists(&doctor->rootfs, "/sys/module/nvidia_uvm")) {
		struct doctor_finding *finding =
		    doctor_add(doctor, DOCTOR_FAIL, "kernel module nvidia_uvm");
		doctor_need(doctor_found(finding, "that it is not loaded"), "it loaded");
		doctor_do(finding, "modprobe nvidia-uvm\nnvidia-modprobe -u -c 0");
	} else {
		doctor_found(doctor_add(doctor, DOCTOR_OK, "kernel module nvidia_uvm"),
			     "it loaded");
	}

	for (size_t i = 0; i < array_length(optional); i++)
		if (file_path(path, NULL, "/sys/module/%s", optional[i]) == 0 &&
		    !rootfs_exists(&doctor->rootfs, path))
			doctor_found(
			    doctor_add(doctor, DOCTOR_INFO, "kernel module %s", optional[i]),
			    "that it is not loaded: only graphics need it");
}

/* --- open or closed -------------------------------------------------------------------------- */

/* By PCI device ids, which grow with the generations: the names of
 * https://pci-ids.ucw.cz/read/PC/10de. Not compared with hardware. */
enum generation_ids {
	ID_TURING = 0x1e00,    /* the first of TU102; GV100 ends before */
	ID_BLACKWELL = 0x2900, /* the first of GB100; AD107 ends before */
};

void check_driver_flavour(struct doctor *doctor)
{
	const struct doctor_facts *facts = &doctor->facts;

	if (is_unloaded(doctor))
		return;
	if (facts->proc_version[0] == '\0') {
		doctor_unreadable(doctor, "/proc/driver/nvidia/version", -ENOENT);
		return;
	}

	bool is_open = strstr(facts->proc_version, "Open Kernel Module") != NULL;
	const char *flavour = is_open ? "the open kernel module" : "the proprietary kernel module";

	for (uint32_t i = 0; i < facts->gpu_count; i++) {
		const struct doctor_gpu *gpu = &facts->gpus[i];
		bool is_old = gpu->device < ID_TURING, is_new = gpu->device >= ID_BLACKWELL;

		/* Another driver's GPU is nothing to this one. */
		if (gpu->device == 0 || strcmp(gpu->driver, "nvidia") != 0 ||
		    (is_open ? !is_old : !is_new))
			continue;

		struct doctor_finding *finding =
		    doctor_add(doctor, DOCTOR_FAIL, "GPU %s", gpu->bus);
		doctor_found(finding, "%s, with a GPU %s", flavour,
			     is_open ? "older than Turing" : "of Blackwell or newer");
		doctor_need(finding, "%s",
			    is_open ? "the proprietary kernel module" : "the open kernel module");
		doctor_do(finding, "%s",
			  is_open ? "install the packages without '-open' of the same version "
				    "(branch 580 at most)"
				  : "install the packages with '-open' of the same version");

		return;
	}

	if (!is_open && doctor_is_for(doctor, DOCTOR_FOR_RDMA)) {
		struct doctor_finding *finding = doctor_add(doctor, DOCTOR_WARN, "driver");
		doctor_need(doctor_found(finding, "%s, which has no DMA-BUF", flavour),
			    "the open one, or nvidia-peermem");
		doctor_do(finding, "install the packages with '-open' of the same version\n"
				   "or: modprobe nvidia-peermem");

		return;
	}

	doctor_found(doctor_add(doctor, DOCTOR_OK, "driver"), "%s", flavour);
}

/* --- firmware -------------------------------------------------------------------------------- */

/* Whether a directory holds the firmware of a version, compressed or not. */
static bool has_firmware(struct doctor *doctor, const char *directory)
{
	char path[FILE_PATH_MAX];
	_cleanup_rootfs_names_ struct rootfs_names names = {.count = 0};

	if (file_path(path, NULL, "%s/nvidia/%s", directory, doctor->facts.module_version) < 0 ||
	    rootfs_list(&doctor->rootfs, path, NULL, &names) < 0)
		return false;

	for (size_t i = 0; i < names.count; i++)
		if (text_starts_with(names.name[i], "gsp"))
			return true;

	return false;
}

static bool needs_firmware(const struct doctor_facts *facts)
{
	for (uint32_t i = 0; i < facts->gpu_count; i++)
		if (facts->gpus[i].device >= ID_TURING &&
		    strcmp(facts->gpus[i].driver, "nvidia") == 0)
			return true;
	return false;
}

/* Where the kernel looks, its own path first:
 * https://docs.kernel.org/driver-api/firmware/fw_search_path.html */
static bool find_firmware(struct doctor *doctor, const char *own)
{
	char path[FILE_PATH_MAX];
	const char *kernel = doctor->facts.kernel;

	if (own[0] == '/' && has_firmware(doctor, own))
		return true;

	if (kernel[0] != '\0' && ((file_path(path, NULL, "/lib/firmware/updates/%s", kernel) == 0 &&
				   has_firmware(doctor, path)) ||
				  (file_path(path, NULL, "/lib/firmware/%s", kernel) == 0 &&
				   has_firmware(doctor, path))))
		return true;

	return has_firmware(doctor, "/lib/firmware/updates") ||
	       has_firmware(doctor, "/lib/firmware");
}

void check_driver_firmware(struct doctor *doctor)
{
	const struct doctor_facts *facts = &doctor->facts;
	char own[DOCTOR_TEXT_MAX / 2];

	if (is_unloaded(doctor))
		return;
	if (!needs_firmware(facts)) {
		doctor_skip(doctor, "the GPUs have no system processor that needs firmware");
		return;
	}

	if (rootfs_word(&doctor->rootfs, "/sys/module/firmware_class/parameters/path", own,
			sizeof(own)) < 0)
		own[0] = '\0';

	if (find_firmware(doctor, own)) {
		doctor_found(doctor_add(doctor, DOCTOR_OK, "GSP firmware"), "version %s",
			     facts->module_version);
		return;
	}

	/* A closed module works without it on GPUs before Hopper. */
	bool is_open = strstr(facts->proc_version, "Open Kernel Module") != NULL;
	bool is_container = facts->driver_root[0] != '\0';
	struct doctor_finding *finding =
	    doctor_add(doctor, is_open || is_container ? DOCTOR_FAIL : DOCTOR_WARN, "GSP firmware");

	doctor_found(finding, "none of version %s where the kernel looks%s%s",
		     facts->module_version, own[0] ? ", nor in " : "", own);
	doctor_need(finding, "nvidia/%s/gsp_*.bin below %s", facts->module_version,
		    is_container ? FACTS_DRIVER_ROOT "/lib/firmware" : "/lib/firmware");

	if (is_container)
		doctor_do(finding, "echo " FACTS_DRIVER_ROOT "/lib/firmware > "
				   "/sys/module/firmware_class/parameters/path\n"
				   "restart the pod of the driver");
	else
		doctor_do(finding, "install the firmware package of the driver, in exactly this "
				   "version (Debian: firmware-nvidia-gsp)");
}

/* --- kept awake ------------------------------------------------------------------------------ */

/* A desktop keeps its GPU awake without a daemon. */
static bool report_other_holder(struct doctor *doctor)
{
	const struct holders *holders = shared_holders(doctor);

	for (uint32_t i = 0; holders && i < holders->count; i++) {
		const struct holder *holder = &holders->holder[i];
		if (holder->gpus == 0)
			continue;

		doctor_found(doctor_add(doctor, DOCTOR_INFO, "driver"),
			     "no nvidia-persistenced; process %u (%s) keeps it awake as long as it "
			     "runs",
			     holder->pid, holder->name);
		return true;
	}

	return false;
}

void check_driver_persistence(struct doctor *doctor)
{
	if (is_unloaded(doctor))
		return;

	uint32_t pid = doctor_process(doctor, "nvidia-persistenced");
	if (pid == 0)
		pid = doctor_process(doctor, "nv-hostengine");

	if (pid > 0) {
		doctor_found(doctor_add(doctor, DOCTOR_OK, "driver"), "process %u keeping it awake",
			     pid);
		return;
	}

	uint32_t agent = doctor_agent(doctor);
	if (agent > 0) {
		doctor_found(doctor_add(doctor, DOCTOR_OK, "driver"),
			     "sluice agent (process %u) keeping it awake", agent);
		return;
	}

	if (report_other_holder(doctor))
		return;
	if (!doctor_sees_processes(doctor)) {
		doctor_unseen(doctor, "nvidia-persistenced");
		return;
	}

	struct doctor_finding *finding = doctor_add(doctor, DOCTOR_WARN, "driver");
	doctor_found(finding, "no nvidia-persistenced");
	doctor_need(finding, "something that keeps the GPUs initialised");
	doctor_do(finding, "systemctl enable --now nvidia-persistenced");
}

/* --- Grace ----------------------------------------------------------------------------------- */

/* GPUs whose memory the CPU sees as its own: GH200, GB200, GB300. Not compared with hardware. */
static bool is_coherent(uint32_t device)
{
	static const uint32_t ids[] = {0x2342, 0x2345, 0x2348, 0x2941, 0x31c2};
	for (size_t i = 0; i < array_length(ids); i++)
		if (ids[i] == device)
			return true;
	return false;
}

struct param {
	char value[DOCTOR_WORD_MAX];
	bool is_there;
};

static int params_line(const char *text, size_t length, void *context)
{
	struct param *param = context;
	param->is_there =
	    lines_field(text, length, "CoherentGPUMemoryMode", param->value, sizeof(param->value));
	return param->is_there;
}

void check_driver_coherent(struct doctor *doctor)
{
	const struct doctor_facts *facts = &doctor->facts;
	struct param param = {.is_there = false};
	bool is_grace = false;

	for (uint32_t i = 0; i < facts->gpu_count; i++)
		is_grace |= is_coherent(facts->gpus[i].device);

	if (!is_grace) {
		doctor_skip(doctor, "no GPU whose memory the CPU sees as its own");
		return;
	}

	if (is_unloaded(doctor))
		return;

	int rc = rootfs_lines(&doctor->rootfs, "/proc/driver/nvidia/params", params_line, &param);
	if (rc < 0) {
		doctor_unreadable(doctor, "/proc/driver/nvidia/params", rc);
		return;
	}

	if (!param.is_there) {
		doctor_skip(doctor, "driver %s has no such mode", facts->module_version);
		return;
	}

	if (strcmp(param.value, "\"driver\"") == 0 || strcmp(param.value, "driver") == 0) {
		doctor_found(doctor_add(doctor, DOCTOR_OK, "NVreg_CoherentGPUMemoryMode"),
			     "driver");
		return;
	}

	struct doctor_finding *finding =
	    doctor_add(doctor, DOCTOR_WARN, "NVreg_CoherentGPUMemoryMode");
	doctor_need(doctor_found(finding, "%s", param.value[0] ? param.value : "nothing set"),
		    "driver");
	doctor_do(finding, "echo 'options nvidia NVreg_CoherentGPUMemoryMode=driver' > "
			   "/etc/modprobe.d/nvidia-coherent.conf\nreboot");
}
