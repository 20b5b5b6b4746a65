/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver needs of the machine around it: signatures under Secure Boot, and the daemon of
 * an NVLink fabric. */
#include "doctor/checks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "doctor/doctor.h"
#include "hardware/kmsg.h"
#include "hardware/pci.h"

/* --- Secure Boot ----------------------------------------------------------------------------- */

#define EFI_SECURE_BOOT "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"

enum platform_limits {
	EFI_VALUE_AT =
	    4, /* behind the attributes: https://docs.kernel.org/filesystems/efivarfs.html */
	KMSG_RECORDS_MAX = 65536,
	BRIDGE_OTHER = 0x0680, /* the PCI class of NVSwitches */
};

static int rejection_line(const char *text, size_t length, void *context)
{
	static const char *const marks[] = {
	    "Key was rejected by service", "Loading of unsigned module is rejected",
	    "module verification failed", "Loading of module with unavailable key is rejected"};
	(void)context;

	if (!memmem(text, length, "nvidia", strlen("nvidia")) &&
	    !memmem(text, length, "rejected", strlen("rejected")))
		return 0;

	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		if (memmem(text, length, marks[i], strlen(marks[i])))
			return 1;

	return 0;
}

/* Whether the kernel's log says that a module's signature was refused. That of this machine is
 * /dev/kmsg, one record at a read; a simulated one has a file. */
static bool log_has_rejection(const struct doctor *doctor)
{
	if (doctor->options.root[0] != '\0')
		return rootfs_lines(&doctor->rootfs, "/kmsg", rejection_line, NULL) > 0;

	char record[KMSG_RECORD_MAX];
	_cleanup_close_ int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	for (int i = 0; fd >= 0 && i < KMSG_RECORDS_MAX; i++) {
		ssize_t length = read(fd, record, sizeof(record));
		if (length < 0 && errno == EPIPE)
			continue; /* records were overwritten meanwhile */
		if (length <= 0)
			break;
		if (rejection_line(record, (size_t)length, NULL) > 0)
			return true;
	}

	return false;
}

static void report_unsigned(struct doctor *doctor, const char *what)
{
	struct doctor_finding *finding = doctor_add(doctor, DOCTOR_FAIL, "Secure Boot");
	doctor_found(finding, "it on, and %s", what);
	doctor_need(finding, "a module signed with a key that the firmware knows");
	doctor_do(finding,
		  "mokutil --import /var/lib/shim-signed/mok/MOK.der   (DKMS: "
		  "/var/lib/dkms/mok.pub), then reboot and enrol it\n"
		  "or install the distribution's signed modules; on OpenShift KMM can sign");
}

void check_driver_secureboot(struct doctor *doctor)
{
	char taint[DOCTOR_WORD_MAX] = "";
	_cleanup_buf_ struct buf value;

	buf_init(&value, ROOTFS_SMALL_MAX);
	if (doctor_is_passed_through(doctor)) {
		doctor_skip(doctor, "all GPUs are passed through to virtual machines");
		return;
	}

	int rc = rootfs_read(&doctor->rootfs, EFI_SECURE_BOOT, &value);
	if (rc == -ENOENT) {
		doctor_skip(doctor, "the machine has no Secure Boot");
		return;
	}

	if (rc < 0 || value.length <= EFI_VALUE_AT) {
		doctor_unreadable(doctor, EFI_SECURE_BOOT, rc < 0 ? rc : -EINVAL);
		return;
	}

	if (buf_text(&value)[EFI_VALUE_AT] != 1) {
		doctor_found(doctor_add(doctor, DOCTOR_OK, "Secure Boot"), "it off");
		return;
	}

	if (doctor->facts.module_version[0] == '\0') {
		report_unsigned(doctor, log_has_rejection(doctor)
					    ? "the kernel refused the module's key"
					    : "the module nvidia not loaded");
		return;
	}

	(void)rootfs_word(&doctor->rootfs, "/sys/module/nvidia/taint", taint, sizeof(taint));
	/* Documentation/admin-guide/tainted-kernels.rst */
	if (strchr(taint, 'E'))
		report_unsigned(doctor, "the module nvidia unsigned (taint E)");
	else
		doctor_found(doctor_add(doctor, DOCTOR_OK, "Secure Boot"),
			     "it on, and the module signed");
}

/* --- the fabric ------------------------------------------------------------------------------ */

static bool is_switch(const struct doctor *doctor, const char *bus)
{
	char path[FILE_PATH_MAX], word[DOCTOR_WORD_MAX];
	uint32_t vendor = 0, class_ = 0;

	if (file_path(path, NULL, "/sys/bus/pci/devices/%s/class", bus) < 0 ||
	    rootfs_word(&doctor->rootfs, path, word, sizeof(word)) < 0 ||
	    pci_parse_hex(word, strlen(word), &class_) < 0 || class_ >> 8 != BRIDGE_OTHER)
		return false;

	return file_path(path, NULL, "/sys/bus/pci/devices/%s/vendor", bus) == 0 &&
	       rootfs_word(&doctor->rootfs, path, word, sizeof(word)) == 0 &&
	       pci_parse_hex(word, strlen(word), &vendor) == 0 && vendor == PCI_VENDOR_NVIDIA;
}

/* NVSwitches up to NVLink 4: functions of their own on the bus. */
static uint32_t count_switches(const struct doctor *doctor)
{
	uint32_t count = 0;
	_cleanup_rootfs_names_ struct rootfs_names names;

	if (rootfs_list(&doctor->rootfs, "/proc/driver/nvidia-nvswitch/devices", NULL, &names) ==
		0 &&
	    names.count > 0)
		return (uint32_t)names.count;

	rootfs_names_done(&names);
	(void)rootfs_list(&doctor->rootfs, "/sys/bus/pci/devices", NULL, &names);

	for (size_t i = 0; i < names.count; i++)
		count += is_switch(doctor, names.name[i]);

	return count;
}

/* From NVLink 5 on they hide behind InfiniBand adapters, whose product data names them:
 * https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/ */
static uint32_t count_bridges(const struct doctor *doctor, int *out_rc)
{
	uint32_t count = 0;
	_cleanup_rootfs_names_ struct rootfs_names names;

	(void)rootfs_list(&doctor->rootfs, "/sys/class/infiniband", NULL, &names);

	for (size_t i = 0; i < names.count; i++) {
		char path[FILE_PATH_MAX];
		_cleanup_buf_ struct buf data;

		buf_init(&data, ROOTFS_FILE_MAX);
		if (file_path(path, NULL, "/sys/class/infiniband/%s/device/vpd", names.name[i]) < 0)
			continue;

		int rc = rootfs_read(&doctor->rootfs, path, &data);
		if (rc == -EACCES || rc == -EPERM)
			*out_rc = rc;
		count += rc == 0 &&
			 memmem(buf_text(&data), data.length, "SW_MNG", strlen("SW_MNG")) != NULL;
	}

	return count;
}

/* What else NVLink 5 needs. */
static void expect_bridge_modules(struct doctor *doctor)
{
	static const char *const modules[] = {"mlx5_core", "ib_umad"};

	for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++) {
		char path[FILE_PATH_MAX];
		if (file_path(path, NULL, "/sys/module/%s", modules[i]) < 0 ||
		    rootfs_exists(&doctor->rootfs, path))
			continue;

		struct doctor_finding *finding =
		    doctor_add(doctor, DOCTOR_FAIL, "kernel module %s", modules[i]);
		doctor_need(doctor_found(finding, "that it is not loaded"),
			    "it loaded, for the management of the NVLink switches");
		doctor_do(finding, "modprobe %s\necho %s > /etc/modules-load.d/%s.conf", modules[i],
			  modules[i], modules[i]);
	}

	if (doctor_process(doctor, "nvlsm") == 0 && doctor_sees_processes(doctor)) {
		struct doctor_finding *finding = doctor_add(doctor, DOCTOR_FAIL, "nvlsm");
		doctor_need(doctor_found(finding, "that it does not run"),
			    "the subnet manager of the NVLink switches");
		doctor_do(finding, "install nvlsm\nsystemctl restart nvidia-fabricmanager");
	}
}

/* The manager that runs has to be of the driver's own version. */
static void compare_manager(struct doctor *doctor, uint32_t pid)
{
	struct version version;
	const char *module = doctor->facts.module_version;
	char branched[DOCTOR_WORD_MAX];

	(void)snprintf(branched, sizeof(branched), "nvidia-fabricmanager-%.*s",
		       (int)strcspn(module, "."), module);
	const char *const packages[] = {"nvidia-fabricmanager", branched, NULL};

	int rc = doctor_version(doctor, "nv-fabricmanager", packages, &version);
	if (rc < 0 || text_starts_with(version.text, module)) {
		doctor_found(doctor_add(doctor, DOCTOR_OK, "nv-fabricmanager"), "process %u%s%s",
			     pid, rc < 0 ? "" : ", version ", rc < 0 ? "" : version.text);
		return;
	}

	struct doctor_finding *finding = doctor_add(doctor, DOCTOR_FAIL, "nv-fabricmanager");
	doctor_need(doctor_found(finding, "version %s", version.text), "version %s, as the driver",
		    module);
	doctor_do(finding,
		  "apt-get install nvidia-fabricmanager-%.*s=%s-1   (or dnf)\n"
		  "systemctl restart nvidia-fabricmanager",
		  (int)strcspn(module, "."), module, module);
}

void check_driver_fabric(struct doctor *doctor)
{
	int rc = 0;

	if (doctor->facts.module_version[0] == '\0') {
		doctor_skip(doctor, "the driver is not loaded");
		return;
	}

	uint32_t switches = count_switches(doctor), bridges = count_bridges(doctor, &rc);
	if (switches + bridges == 0 && rc < 0) {
		doctor_unreadable(doctor, "/sys/class/infiniband/*/device/vpd", rc);
		return;
	}

	if (switches + bridges == 0) {
		doctor_skip(doctor, "no NVLink switches");
		return;
	}

	if (bridges > 0)
		expect_bridge_modules(doctor);

	uint32_t pid = doctor_process(doctor, "nv-fabricmanager");
	if (pid > 0) {
		compare_manager(doctor, pid);
		return;
	}

	if (!doctor_sees_processes(doctor)) {
		doctor_unseen(doctor, "nv-fabricmanager");
		return;
	}

	struct doctor_finding *finding = doctor_add(doctor, DOCTOR_FAIL, "nv-fabricmanager");
	doctor_found(finding, "that it does not run, on a machine with %u NVLink switches",
		     switches + bridges);
	doctor_need(finding, "it running");
	doctor_do(finding, "systemctl enable --now nvidia-fabricmanager");
}
