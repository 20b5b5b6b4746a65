/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's device nodes, their links for systemd, and who has them open. */
#include "doctor/checks.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/text.h"
#include "doctor/doctor.h"
#include "doctor/holders.h"
#include "doctor/shared.h"
#include "cdi/nodes.h"

enum node_numbers {
	MAJOR_NVIDIA = 195, /* Documentation/admin-guide/devices.txt */
	MINOR_CONTROL = 255,
	MAJOR_MEMORY = 1, /* what simulated nodes are that can be opened */
	NAMED_MAX = 8,	  /* processes */
};

/* --- nodes ----------------------------------------------------------------------------------- */

struct doctor_nodes {
	struct doctor *doctor;
	uint32_t right, wrong;
};

/* A node of a simulated machine may be a file, or a device that opens anywhere. */
static bool is_stand_in(const struct doctor *doctor, const struct stat *status)
{
	return doctor->options.is_simulated &&
	       (S_ISREG(status->st_mode) ||
		(S_ISCHR(status->st_mode) && major(status->st_rdev) == MAJOR_MEMORY));
}

/* `mend`: the command that makes it. */
static void expect_node(struct doctor_nodes *nodes, const char *path, uint32_t major_number,
			uint32_t minor_number, const char *mend)
{
	struct stat status;
	struct doctor *doctor = nodes->doctor;
	int rc = rootfs_stat(&doctor->rootfs, path, &status);
	if (rc == 0 && (is_stand_in(doctor, &status) ||
			(S_ISCHR(status.st_mode) && major(status.st_rdev) == major_number &&
			 minor(status.st_rdev) == minor_number))) {
		nodes->right++;
		return;
	}

	nodes->wrong++;
	if (rc < 0 && rc != -ENOENT) {
		doctor_unreadable(doctor, path, rc);
		return;
	}

	struct doctor_finding *finding = doctor_add(doctor, DOCTOR_FAIL, "%s", path);

	if (rc < 0)
		doctor_found(finding, "nothing");
	else if (!S_ISCHR(status.st_mode))
		doctor_found(finding, "no character device");
	else
		doctor_found(finding, "the device %u:%u", major(status.st_rdev),
			     minor(status.st_rdev));

	doctor_need(finding, "the device %u:%u", major_number, minor_number);
	if (rc < 0)
		doctor_do(finding, "%s", mend);
	else
		doctor_do(finding, "rm %s\n%s", path, mend);
}

static void expect_gpus(struct doctor_nodes *nodes)
{
	struct doctor *doctor = nodes->doctor;

	for (uint32_t i = 0; i < doctor->facts.gpu_count; i++) {
		const struct doctor_gpu *gpu = &doctor->facts.gpus[i];
		char path[FILE_PATH_MAX], stand_in[FILE_PATH_MAX], mend[DOCTOR_WORD_MAX];

		if (strcmp(gpu->driver, "nvidia") != 0 || gpu->minor == GPU_U32_UNKNOWN ||
		    file_path(path, NULL, "/dev/nvidia%u", gpu->minor) < 0 ||
		    file_path(stand_in, NULL, "/dev/sluice-sim%u", gpu->minor) < 0)
			continue;

		(void)snprintf(mend, sizeof(mend), "nvidia-modprobe -c %u", gpu->minor);
		bool has_stand_in =
		    doctor->options.is_simulated && rootfs_exists(&doctor->rootfs, stand_in);
		expect_node(nodes, has_stand_in ? stand_in : path, MAJOR_NVIDIA, gpu->minor, mend);
	}
}

/* The node of one file "access" of the capabilities. */
static void expect_cap(struct doctor_nodes *nodes, const char *file, uint32_t major_number)
{
	struct nodes_rule rule = {.has_minor = false};
	char path[FILE_PATH_MAX], mend[DOCTOR_DO_MAX];
	_cleanup_buf_ struct buf text;

	buf_init(&text, NODES_TEXT_MAX);
	if (rootfs_read(&nodes->doctor->rootfs, file, &text) < 0)
		return;

	nodes_rule_parse(buf_text(&text), text.length, &rule);
	if (!rule.has_minor ||
	    file_path(path, NULL, "/dev/nvidia-caps/nvidia-cap%u", rule.minor) < 0)
		return;

	(void)snprintf(mend, sizeof(mend), "nvidia-modprobe -f %.512s", file);
	expect_node(nodes, path, major_number, rule.minor, mend);
}

/* "gpu0/mig/gi1/access" and "gpu0/mig/gi1/ci0/access" */
static void expect_caps_of(struct doctor_nodes *nodes, const char *mig, uint32_t major_number)
{
	_cleanup_rootfs_names_ struct rootfs_names instances;
	(void)rootfs_list(&nodes->doctor->rootfs, mig, NULL, &instances);

	for (size_t i = 0; i < instances.count; i++) {
		char path[FILE_PATH_MAX], file[FILE_PATH_MAX];

		if (!text_starts_with(instances.name[i], "gi") &&
		    !text_starts_with(instances.name[i], "ci"))
			continue;
		if (file_path(path, NULL, "%s/%s", mig, instances.name[i]) < 0 ||
		    file_path(file, NULL, "%s/access", path) < 0)
			continue;

		expect_cap(nodes, file, major_number);
		if (instances.name[i][0] == 'g')
			expect_caps_of(nodes, path, major_number);
	}
}

static void expect_caps(struct doctor_nodes *nodes, uint32_t major_number)
{
	for (uint32_t i = 0; major_number > 0 && i < nodes->doctor->facts.gpu_count; i++) {
		char path[FILE_PATH_MAX];
		uint32_t minor_number = nodes->doctor->facts.gpus[i].minor;

		if (minor_number != GPU_U32_UNKNOWN &&
		    file_path(path, NULL, "/proc/driver/nvidia/capabilities/gpu%u/mig",
			      minor_number) == 0)
			expect_caps_of(nodes, path, major_number);
	}
}

void check_driver_nodes(struct doctor *doctor)
{
	struct doctor_nodes nodes = {.doctor = doctor};
	struct nodes_majors majors = {.nvidia = 0};
	_cleanup_buf_ struct buf text;

	buf_init(&text, NODES_TEXT_MAX);
	if (doctor->facts.module_version[0] == '\0') {
		doctor_skip(doctor, "the driver is not loaded");
		return;
	}

	if (rootfs_read(&doctor->rootfs, "/proc/devices", &text) == 0)
		nodes_devices_parse(buf_text(&text), text.length, &majors);
	expect_node(&nodes, "/dev/nvidiactl", MAJOR_NVIDIA, MINOR_CONTROL,
		    "nvidia-modprobe -c 255");
	expect_gpus(&nodes);

	if (majors.uvm > 0)
		expect_node(&nodes, "/dev/nvidia-uvm", majors.uvm, 0, "nvidia-modprobe -u -c 0");
	expect_caps(&nodes, majors.caps);

	if (nodes.wrong == 0)
		doctor_found(doctor_add(doctor, DOCTOR_OK, "device nodes"), "%u of them right",
			     nodes.right);
}

/* --- links for systemd ----------------------------------------------------------------------- */

static bool has_link(const struct doctor *doctor, uint32_t minor_number)
{
	char path[FILE_PATH_MAX], target[FILE_PATH_MAX];
	return file_path(path, NULL, "/dev/char/%d:%u", MAJOR_NVIDIA, minor_number) == 0 &&
	       rootfs_link(&doctor->rootfs, path, target) == 0;
}

void check_driver_devchar(struct doctor *doctor)
{
	static const char *const packages[] = {"runc", NULL};
	static const char *const systemd[] = {"systemd", NULL};

	const struct doctor_facts *facts = &doctor->facts;

	if (!rootfs_exists(&doctor->rootfs, "/run/systemd/system")) {
		doctor_skip(doctor, "systemd does not run here");
		return;
	}

	if (facts->module_version[0] == '\0') {
		doctor_skip(doctor, "the driver is not loaded");
		return;
	}

	bool is_whole = has_link(doctor, MINOR_CONTROL);
	for (uint32_t i = 0; i < facts->gpu_count; i++)
		is_whole &= facts->gpus[i].minor == GPU_U32_UNKNOWN ||
			    has_link(doctor, facts->gpus[i].minor);

	if (is_whole) {
		doctor_found(doctor_add(doctor, DOCTOR_OK, "/dev/char"), "links to all GPUs");
		return;
	}

	struct version runc, init;
	int rc = doctor_version(doctor, "runc", packages, &runc);
	if (rc == -ENOENT) {
		doctor_skip(doctor, "runc is not installed");
		return;
	}

	/* systemd 252 is no version of the form 1.2: where it is not told it is new enough. */
	bool is_new_init =
	    doctor_version(doctor, "systemd", systemd, &init) < 0 || init.major >= 240;
	if (rc == 0 && version_is_at_least(&runc, 1, 1, 7) && is_new_init) {
		doctor_found(doctor_add(doctor, DOCTOR_OK, "/dev/char"),
			     "no links, and runc %s, which does not need them", runc.text);
		return;
	}

	struct doctor_finding *finding =
	    doctor_add(doctor, rc < 0 ? DOCTOR_INFO : DOCTOR_WARN, "/dev/char");
	doctor_found(finding, "no links to all GPUs, and runc %s",
		     rc < 0 ? "of a version that is "
			      "not known"
			    : runc.text);
	doctor_need(finding, "runc 1.1.7 or later, or links");
	doctor_do(finding, "nvidia-ctk system create-dev-char-symlinks --create-all\n"
			   "or: for d in /dev/nvidia[0-9]* /dev/nvidiactl /dev/nvidia-uvm*; do "
			   "ln -sf $d /dev/char/$((0x$(stat -c %%t $d))):$((0x$(stat -c %%T $d))); "
			   "done");
}

/* --- who has it open ------------------------------------------------------------------------- */

/* Who uses a module besides the modules that build on it; -1: not told. */
static int64_t module_users(const struct doctor *doctor, const char *name)
{
	char path[FILE_PATH_MAX];
	int64_t count;
	_cleanup_rootfs_names_ struct rootfs_names holders = {.count = 0};

	if (file_path(path, NULL, "/sys/module/%s/refcnt", name) < 0 ||
	    rootfs_number(&doctor->rootfs, path, &count) < 0)
		return -1;
	if (file_path(path, NULL, "/sys/module/%s/holders", name) == 0)
		(void)rootfs_list(&doctor->rootfs, path, NULL, &holders);
	count -= (int64_t)holders.count;

	return count < 0 ? 0 : count;
}

/* "42 (python), 43 (python) and 12 more"; how many. */
static uint32_t name_users(const struct holders *holders, char out[DOCTOR_TEXT_MAX])
{
	uint32_t count = 0;
	size_t length = 0;

	out[0] = '\0';
	for (uint32_t i = 0; i < holders->count; i++) {
		const struct holder *holder = &holders->holder[i];
		if (!holder->has_driver || count++ >= NAMED_MAX)
			continue;
		length += (size_t)snprintf(out + length, DOCTOR_TEXT_MAX - length, "%s%u (%s)",
					   count > 1 ? ", " : "", holder->pid, holder->name);
	}

	if (count > NAMED_MAX)
		(void)snprintf(out + length, DOCTOR_TEXT_MAX - length, " and %u more",
			       count - NAMED_MAX);

	return count;
}

/* All references of the driver's modules that are no module's; -1: not told. */
static int64_t count_references(const struct doctor *doctor)
{
	static const char *const modules[] = {"nvidia_uvm", "nvidia_drm", "nvidia_modeset",
					      "nvidia"};
	int64_t total = -1;
	for (size_t i = 0; i < array_length(modules); i++) {
		int64_t count = module_users(doctor, modules[i]);
		if (count >= 0)
			total = total < 0 ? count : total + count;
	}

	return total;
}

void check_driver_refs(struct doctor *doctor)
{
	bool is_strict = doctor_is_for(doctor, DOCTOR_FOR_DRIVER_CONTAINER);
	char users[DOCTOR_TEXT_MAX];

	if (doctor->facts.module_version[0] == '\0') {
		doctor_skip(doctor, "the driver is not loaded");
		return;
	}

	const struct holders *holders = shared_holders(doctor);
	if (!holders)
		return;

	uint32_t count = name_users(holders, users);
	int64_t references = count_references(doctor);
	if (references <= 0 && count == 0) {
		bool is_known = references == 0 || holders->hidden == 0;
		doctor_found(doctor_add(doctor, is_known ? DOCTOR_OK : DOCTOR_UNKNOWN, "driver"),
			     is_known ? "nobody using it"
				      : "processes that this user may not look at");
		return;
	}

	struct doctor_finding *finding =
	    doctor_add(doctor, is_strict ? DOCTOR_FAIL : DOCTOR_INFO, "driver");

	if (count > 0)
		doctor_found(finding, "it in use by processes %s", users);
	else
		doctor_found(finding, "it in use (%lld references)%s", (long long)references,
			     holders->hidden > 0 ? ", by processes that this user may not look at"
						 : "");

	if (!is_strict)
		return;

	doctor_need(finding, "nobody using it, so that it can be unloaded");
	doctor_do(finding, "kubectl drain NODE --ignore-daemonsets\n"
			   "sluice health release\n"
			   "systemctl stop nvidia-persistenced nvidia-fabricmanager\n"
			   "rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia");
}
