/* SPDX-License-Identifier: Apache-2.0 */
/* What the local queue needs: nodes that are closed stay closed, jobs that outlive a session, what
 * keeps jobs apart, a disk that keeps what it is told. */
#include "doctor/checks.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/parse.h"
#include "base/text.h"
#include "doctor/doctor.h"

/* As agent/jobs/enforce.h has it: there while nodes are closed, or are to be opened again. */
#define JOBS_STATE	"/var/lib/sluice"
#define JOBS_CLOSED	JOBS_STATE "/nodes"
#define JOBS_PARAMS	"/proc/driver/nvidia/params"
#define JOBS_GROUP_LINE "sluice:"

/* --- jobs.enforce ---------------------------------------------------------------------------- */

/* "ModifyDeviceFiles: 1". */
static int is_modifying(const char *text, size_t length, void *context)
{
	static const char key[] = "ModifyDeviceFiles: ";
	(void)context;
	return length >= sizeof(key) && text_starts_with(text, key)
		   ? (text[sizeof(key) - 1] == '1' ? 1 : 2)
		   : 0;
}

static int is_our_group(const char *text, size_t length, void *context)
{
	(void)context;
	return length >= sizeof(JOBS_GROUP_LINE) - 1 && text_starts_with(text, JOBS_GROUP_LINE);
}

/* A line "438 0 0 990 nvidia0" of what is closed. 1: it is open to everybody. */
static int is_open(const char *text, size_t length, void *context)
{
	const struct doctor *doctor = context;
	char path[96];
	struct stat status;
	size_t at = length;

	while (at > 0 && text[at - 1] != ' ')
		at--;

	int written = snprintf(path, sizeof(path), "/dev/%.*s", (int)(length - at), text + at);
	if (at == 0 || written >= (int)sizeof(path) || strstr(path, ".."))
		return 0;

	return rootfs_stat(&doctor->rootfs, path, &status) == 0 && S_ISCHR(status.st_mode) &&
	       (status.st_mode & 06) != 0;
}

void check_jobs_enforce(struct doctor *doctor)
{
	struct rootfs *rootfs = &doctor->rootfs;
	int rc = rootfs_lines(rootfs, JOBS_CLOSED, is_open, doctor);
	if (rc == -ENOENT) {
		doctor_skip(doctor, "sluice.jobs.enforce is not switched on");
		return;
	}

	if (rc < 0) {
		doctor_unreadable(doctor, JOBS_CLOSED, rc);
		return;
	}

	struct doctor_finding *finding;
	bool is_modified = rootfs_lines(rootfs, JOBS_PARAMS, is_modifying, NULL) == 1;

	if (rc > 0) {
		finding = doctor_add(doctor, DOCTOR_FAIL, "GPU nodes");
		doctor_found(finding, "some open to every user, although they were closed");
		doctor_need(finding, "the service that keeps them closed");
		doctor_do(finding, "systemctl start sluice\n"
				   "or, to open all of them: sluice agent --cleanup");
	} else if (is_modified) {
		finding = doctor_add(doctor, DOCTOR_WARN, "GPU nodes");
		doctor_found(finding, "them closed, and a driver whose tools open them again");
		doctor_need(finding,
			    "NVreg_ModifyDeviceFiles=0: until the service closes a node again "
			    "whoever is quick opens it");
		doctor_do(finding, "echo options nvidia NVreg_ModifyDeviceFiles=0 > "
				   "/etc/modprobe.d/sluice-nodes.conf");
	} else {
		doctor_found(doctor_add(doctor, DOCTOR_OK, "GPU nodes"),
			     "them closed to all but jobs");
	}

	if (rootfs_lines(rootfs, "/etc/group", is_our_group, NULL) == 0) {
		finding = doctor_add(doctor, DOCTOR_INFO, "the group sluice");
		doctor_found(finding, "it not in /etc/group: unless sluice.jobs.enforceGroup names "
				      "another, GPU nodes are root's alone");
	}
}

/* --- jobs.session ---------------------------------------------------------------------------- */

/* "KillUserProcesses=yes", in whatever section; logind.conf(5). */
static int kills_processes(const char *text, size_t length, void *context)
{
	static const char key[] = "KillUserProcesses=";
	char word[8] = "";

	(void)context;
	if (length < sizeof(key) || !text_starts_with(text, key))
		return 0;

	(void)snprintf(word, sizeof(word), "%.*s", (int)(length - sizeof(key) + 1),
		       text + sizeof(key) - 1);
	bool value = false;
	return parse_bool(word, &value) == 0 && value ? 1 : 2;
}

/* The last file that says so counts; 1: they are killed. */
static bool logind_kills(const struct rootfs *rootfs)
{
	_cleanup_rootfs_names_ struct rootfs_names names = {.name = NULL};
	int says = rootfs_lines(rootfs, "/etc/systemd/logind.conf", kills_processes, NULL);

	if (rootfs_list(rootfs, "/etc/systemd/logind.conf.d", ".conf", &names) < 0)
		return says == 1;

	for (size_t i = 0; i < names.count; i++) {
		char path[512];
		int length =
		    snprintf(path, sizeof(path), "/etc/systemd/logind.conf.d/%s", names.name[i]);
		int rc = length < (int)sizeof(path)
			     ? rootfs_lines(rootfs, path, kills_processes, NULL)
			     : 0;

		says = rc > 0 ? rc : says;
	}

	return says == 1;
}

void check_jobs_session(struct doctor *doctor)
{
	_cleanup_rootfs_names_ struct rootfs_names lingering = {.name = NULL};

	if (!rootfs_exists(&doctor->rootfs, "/run/systemd/system")) {
		doctor_skip(doctor, "no systemd, which would end what a session has left");
		return;
	}

	if (!logind_kills(&doctor->rootfs)) {
		doctor_found(doctor_add(doctor, DOCTOR_OK, "sessions"),
			     "that a logout ends no jobs of an agent of one's own");
		return;
	}

	size_t count =
	    rootfs_list(&doctor->rootfs, "/var/lib/systemd/linger", NULL, &lingering) == 0
		? lingering.count
		: 0;
	struct doctor_finding *finding = doctor_add(doctor, DOCTOR_WARN, "sessions");

	doctor_found(finding,
		     "KillUserProcesses: a logout ends the jobs of an agent of one's own, but for "
		     "%zu users with lingering",
		     count);
	doctor_need(finding, "lingering for whoever runs an agent of his own, or the service");
	doctor_do(finding, "loginctl enable-linger USER");
}

/* --- jobs.isolation -------------------------------------------------------------------------- */

/* "lockdown,capability,landlock,yama". */
static bool has_landlock(const struct rootfs *rootfs)
{
	char list[ROOTFS_SMALL_MAX];
	if (rootfs_word(rootfs, "/sys/kernel/security/lsm", list, sizeof(list)) < 0)
		return false;

	for (const char *at = list; *at != '\0';) {
		size_t length = strcspn(at, ",");
		if (length == strlen("landlock") && strncmp(at, "landlock", length) == 0)
			return true;
		at += length + (at[length] == ',');
	}

	return false;
}

void check_jobs_isolation(struct doctor *doctor)
{
	const struct rootfs *rootfs = &doctor->rootfs;

	/* the kernel of this machine keeps its jobs apart, and none of that is below the root */
	if (doctor->options.is_simulated) {
		doctor_skip(doctor, "not looked at on a simulated machine: 'sluice jobs' shows it");
		return;
	}

	bool has_v1 = rootfs_exists(rootfs, "/sys/fs/cgroup/devices");
	bool has_v2 = rootfs_exists(rootfs, "/sys/fs/cgroup/cgroup.controllers") ||
		      rootfs_exists(rootfs, "/sys/fs/cgroup/unified/cgroup.procs");
	bool has_own = has_landlock(rootfs);

	if (has_v1 || has_v2) {
		doctor_found(doctor_add(doctor, DOCTOR_OK, "jobs of the service"),
			     "control groups with rules for devices%s",
			     has_v1 ? " (version 1)" : " (version 2)");
	} else {
		struct doctor_finding *finding =
		    doctor_add(doctor, DOCTOR_WARN, "jobs of the service");
		doctor_found(finding, "no control groups: %s",
			     has_own ? "Landlock alone keeps them from the GPUs of others"
				     : "nothing keeps them from the GPUs of others");
		doctor_need(finding, "a mount of cgroups");
		doctor_do(finding, "mount -t cgroup2 none /sys/fs/cgroup");
	}

	if (has_own) {
		doctor_found(doctor_add(doctor, DOCTOR_OK, "jobs of an agent of one's own"),
			     "Landlock");
		return;
	}

	struct doctor_finding *finding =
	    doctor_add(doctor, DOCTOR_INFO, "jobs of an agent of one's own");
	doctor_found(finding,
		     "no Landlock, or none that can be seen: only variables keep them from "
		     "the GPUs of others");
	doctor_do(finding, "kernel command line: lsm=landlock,... (with those that are there)");
}

/* --- jobs.state ------------------------------------------------------------------------------ */

void check_jobs_state(struct doctor *doctor)
{
	/* Where locks and fsync cannot be relied on: doors/queue/store/store_place.c has them all.
	 */
	static const uint32_t remote[] = {0x6969,     0x517b,	  0xff534d42, 0xfe534d42,
					  0x65735546, 0x01021997, 0x00c36400, 0x0bd00bd0};
	_cleanup_close_ int fd = rootfs_directory(&doctor->rootfs, JOBS_STATE);
	struct statfs about;

	if (fd == -ENOENT) {
		doctor_skip(doctor, "there is no " JOBS_STATE " yet");
		return;
	}

	int code = fd < 0 ? fd : fstatfs(fd, &about) < 0 ? -errno : 0;
	if (code < 0) {
		doctor_unreadable(doctor, JOBS_STATE, code);
		return;
	}

	bool is_remote = false;
	for (size_t i = 0; i < array_length(remote); i++)
		is_remote |= (uint32_t)about.f_type == remote[i];

	struct doctor_finding *finding =
	    doctor_add(doctor, is_remote ? DOCTOR_FAIL : DOCTOR_OK, JOBS_STATE);
	doctor_found(finding, is_remote ? "it on a file system of another machine, or of a program"
					: "it on a disk of this machine");
	if (!is_remote)
		return;

	doctor_need(finding, "a disk of this machine: jobs would be lost or run twice");
	doctor_do(finding, "sluice agent --state-dir DIRECTORY");
}
