/* SPDX-License-Identifier: Apache-2.0 */
/* The system around containers: cgroups, SELinux, OpenShift. */
#include "doctor/checks.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/parse.h"
#include "doctor/doctor.h"
#include "hardware/selinux.h"

/* --- cgroups --------------------------------------------------------------------------------- */

#define CGROUP_MOUNT "/sys/fs/cgroup"

static void report_hybrid(struct doctor *doctor, const char *driver)
{
	struct version crun;

	static const char *const packages[] = {"crun", NULL};
	bool has_crun = doctor_version(doctor, "crun", packages, &crun) == 0;
	struct doctor_finding *finding =
	    doctor_add(doctor, has_crun ? DOCTOR_WARN : DOCTOR_INFO, "cgroups");

	doctor_found(finding, "version 1 with a version 2 mount beside it (hybrid)%s%s", driver,
		     has_crun ? ", where crun starts no container" : "");
	if (!has_crun)
		return;

	doctor_need(finding, "version 2 alone, or runc");
	doctor_do(finding, "kernel command line: systemd.unified_cgroup_hierarchy=1\n"
			   "or, for podman: runtime = \"runc\" in /etc/containers/containers.conf");
	doctor_why(finding, "crun refuses: 'cgroups in hybrid mode not supported, drop all "
			    "controllers from cgroupv2'");
	doctor_url(finding, "https://github.com/containers/crun");
}

void check_cgroup(struct doctor *doctor)
{
	bool has_systemd = rootfs_exists(&doctor->rootfs, "/run/systemd/system");
	const char *driver = has_systemd ? ", under systemd" : "";

	if (rootfs_exists(&doctor->rootfs, CGROUP_MOUNT "/cgroup.controllers")) {
		doctor_found(doctor_add(doctor, DOCTOR_OK, "cgroups"), "version 2%s", driver);
		return;
	}

	if (rootfs_exists(&doctor->rootfs, CGROUP_MOUNT "/unified/cgroup.controllers") ||
	    rootfs_exists(&doctor->rootfs, CGROUP_MOUNT "/unified/cgroup.procs")) {
		report_hybrid(doctor, driver);
		return;
	}

	if (rootfs_exists(&doctor->rootfs, CGROUP_MOUNT "/devices")) {
		bool is_strict = doctor_is_for(doctor, DOCTOR_FOR_AGENT);
		struct doctor_finding *finding =
		    doctor_add(doctor, is_strict ? DOCTOR_WARN : DOCTOR_INFO, "cgroups");

		doctor_found(finding, "version 1%s, with the controller of devices", driver);
		doctor_need(finding, "version 2: kubelets from 1.35 on refuse version 1");
		doctor_do(finding, "kernel command line: systemd.unified_cgroup_hierarchy=1");

		return;
	}

	if (rootfs_exists(&doctor->rootfs, CGROUP_MOUNT "/memory") ||
	    rootfs_exists(&doctor->rootfs, CGROUP_MOUNT "/cpu")) {
		struct doctor_finding *finding = doctor_add(doctor, DOCTOR_FAIL, "cgroups");
		doctor_found(finding, "version 1 without a controller of devices");
		doctor_need(finding, "it, or containers are not kept from GPUs of others");
		doctor_do(finding, "mkdir -p " CGROUP_MOUNT "/devices\n"
				   "mount -t cgroup -o devices cgroup " CGROUP_MOUNT "/devices");

		return;
	}

	doctor_skip(doctor, "no cgroups are mounted here");
}

/* --- the loopback ----------------------------------------------------------------------------- */

void check_loopback(struct doctor *doctor)
{
	char flags[32];
	uint64_t bits;
	int rc = rootfs_word(&doctor->rootfs, "/sys/class/net/lo/flags", flags, sizeof(flags));
	if (rc < 0 || parse_hex(flags, UINT32_MAX, &bits) < 0) {
		doctor_found(doctor_add(doctor, DOCTOR_SKIP, "loopback"), "it is not to be seen");
		return;
	}

	bool is_up = bits & 1; /* IFF_UP */
	struct doctor_finding *finding =
	    doctor_add(doctor, is_up ? DOCTOR_OK : DOCTOR_WARN, "loopback");

	doctor_found(finding, "lo is %s", is_up ? "up" : "down");
	if (is_up)
		return;

	doctor_need(finding, "up, for jobs with several workers");
	doctor_do(finding, "ip link set lo up");
	doctor_why(finding, "PMIx server's listener thread failed (Open MPI)");
}

/* --- SELinux --------------------------------------------------------------------------------- */

static int read_file(const void *context, const char *path, struct buf *out)
{
	const struct doctor *doctor = context;
	return rootfs_read(&doctor->rootfs, path, out);
}

static int find_file(const void *context, const char *path)
{
	const struct doctor *doctor = context;
	struct stat status;
	return rootfs_stat(&doctor->rootfs, path, &status);
}

/* What SELinux does here; on failure that is reported. */
static int judge_selinux(struct doctor *doctor, enum selinux_state *out)
{
	const struct selinux_files files = {
	    .read = read_file, .find = find_file, .context = doctor};
	const char *path = NULL;
	int rc = selinux_judge(&files, out, &path);
	if (rc < 0)
		doctor_unreadable(doctor, path, rc);

	return rc;
}

void check_selinux_mode(struct doctor *doctor)
{
	enum selinux_state state;
	if (judge_selinux(doctor, &state) < 0)
		return;
	if (state == SELINUX_STATE_ABSENT) {
		doctor_skip(doctor, "SELinux is not switched on");
		return;
	}

	if (state == SELINUX_STATE_PERMISSIVE) {
		doctor_found(doctor_add(doctor, DOCTOR_OK, "SELinux"), "it permissive");
		return;
	}

	if (state == SELINUX_STATE_ALLOWED) {
		doctor_found(doctor_add(doctor, DOCTOR_OK, "SELinux"),
			     "it enforcing, and containers may use devices");
		return;
	}

	if (state == SELINUX_STATE_NO_POLICY &&
	    !rootfs_exists(&doctor->rootfs, "/var/lib/kubelet") &&
	    !doctor_is_for(doctor, DOCTOR_FOR_AGENT)) {
		doctor_skip(doctor, "no policy for containers, and no kubelet that needs one");
		return;
	}

	struct doctor_finding *finding = doctor_add(doctor, DOCTOR_WARN, "SELinux");
	doctor_found(finding, "it enforcing, and %s",
		     state == SELINUX_STATE_SWITCHED_OFF ? "container_use_devices off"
		     : state == SELINUX_STATE_NO_RULE	 ? "no rule for the GPUs' nodes"
							 : "no policy for containers");
	doctor_need(finding, "a policy that lets containers use the GPU's nodes");

	if (state == SELINUX_STATE_NO_POLICY)
		doctor_do(finding, "dnf install container-selinux");
	else if (state == SELINUX_STATE_NO_RULE)
		doctor_do(finding, "semodule -i " SELINUX_MODULE_FILE);
	else
		doctor_do(finding,
			  "setsebool -P container_use_devices 1\n"
			  "or, for GPUs and adapters alone: semodule -i " SELINUX_MODULE_FILE);
}

/* The type in "system_u:system_r:container_t:s0:c1,c2". */
static bool type_of(const char *context, char out[DOCTOR_WORD_MAX])
{
	const char *at = strchr(context, ':');
	at = at ? strchr(at + 1, ':') : NULL;
	if (!at)
		return false;

	size_t length = strcspn(at + 1, ":");
	if (length >= DOCTOR_WORD_MAX)
		return false;

	(void)snprintf(out, DOCTOR_WORD_MAX, "%.*s", (int)length, at + 1);
	return true;
}

/* Whether the agent is kept in by the policy for plain containers. */
static bool report_agent(struct doctor *doctor)
{
	char path[FILE_PATH_MAX], context[DOCTOR_TEXT_MAX], type[DOCTOR_WORD_MAX];
	uint32_t pid = doctor_agent(doctor);
	if (pid == 0 || file_path(path, NULL, "/proc/%u/attr/current", pid) < 0 ||
	    rootfs_word(&doctor->rootfs, path, context, sizeof(context)) < 0 ||
	    !type_of(context, type) || strcmp(type, "container_t") != 0)
		return false;

	bool is_openshift = doctor_os_is_coreos(doctor);
	struct doctor_finding *finding = doctor_add(
	    doctor, is_openshift ? DOCTOR_FAIL : DOCTOR_WARN, "sluice agent (process %u)", pid);

	doctor_need(doctor_found(finding, "the type container_t"), "spc_t");
	if (is_openshift)
		doctor_do(finding,
			  "oc adm policy add-scc-to-user privileged -z sluice -n NAMESPACE");
	else
		doctor_do(finding, "securityContext: seLinuxOptions: {type: spc_t}");

	return true;
}

/* Nodes that were made by hand have the label of their directory, which containers may not use. */
static bool report_nodes(struct doctor *doctor)
{
	static const char *const nodes[] = {"/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm"};
	char context[DOCTOR_TEXT_MAX], type[DOCTOR_WORD_MAX];

	for (size_t i = 0; i < array_length(nodes); i++) {
		if (rootfs_attribute(&doctor->rootfs, nodes[i], "security.selinux", context,
				     sizeof(context)) < 0 ||
		    !type_of(context, type) ||
		    (strcmp(type, "device_t") != 0 && strcmp(type, "unlabeled_t") != 0))
			continue;

		struct doctor_finding *finding = doctor_add(doctor, DOCTOR_WARN, "%s", nodes[i]);
		doctor_need(doctor_found(finding, "the type %s", type), "xserver_misc_device_t");
		doctor_do(finding, "restorecon -v /dev/nvidia*");

		return true;
	}

	return false;
}

void check_selinux_label(struct doctor *doctor)
{
	enum selinux_state state;
	if (judge_selinux(doctor, &state) < 0)
		return;

	if (state == SELINUX_STATE_ABSENT || state == SELINUX_STATE_PERMISSIVE) {
		doctor_skip(doctor, state == SELINUX_STATE_PERMISSIVE
					? "SELinux is permissive"
					: "SELinux is not switched on");
		return;
	}

	bool is_wrong = report_agent(doctor);
	is_wrong |= report_nodes(doctor);
	if (!is_wrong)
		doctor_found(doctor_add(doctor, DOCTOR_OK, "SELinux labels"), "nothing wrong");
}

/* --- OpenShift ------------------------------------------------------------------------------- */

void check_openshift_node(struct doctor *doctor)
{
	const struct doctor_facts *facts = &doctor->facts;
	if (strcmp(facts->os_id, "rhcos") != 0) {
		doctor_skip(doctor, "no Red Hat CoreOS");
		return;
	}

	if (facts->os_ostree[0] == '\0') {
		struct doctor_finding *finding = doctor_add(doctor, DOCTOR_WARN, "/etc/os-release");
		doctor_need(doctor_found(finding, "no OSTREE_VERSION"),
			    "it, as the tag of the Driver Toolkit's image");
		doctor_do(finding, "rpm-ostree status");
		return;
	}

	struct doctor_finding *finding =
	    doctor_add(doctor, DOCTOR_INFO, "Red Hat CoreOS %s", facts->os_ostree);
	doctor_found(finding, "/usr read-only: a driver comes from a container, built with the "
			      "Driver Toolkit");
	doctor_do(finding, "oc get imagestreamtag -n openshift driver-toolkit:%s",
		  facts->os_ostree);
}
