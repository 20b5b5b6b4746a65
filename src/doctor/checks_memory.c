/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of memory that jobs share and lock: /dev/shm, and the limit of locked memory. */
#include "doctor/checks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/check.h"
#include "doctor/doctor.h"
#include "doctor/holders.h"
#include "doctor/lines.h"
#include "doctor/shared.h"
#include "hardware/rdma.h"

#define MEMORY_WANTED                                                                              \
	(UINT64_C(64) << 20)		    /* for RDMA; what less is makes NCCL fall back to TCP  \
					     */
#define MEMORY_SHM     (UINT64_C(64) << 20) /* what container runtimes give */
#define MEMORY_CONFIG  "/etc/sluice/config.yaml"
#define MEMORY_KUBELET "/var/lib/kubelet/device-plugins"

enum { MEMORY_SIZE_TEXT = 32, MEMORY_KIB = 1024 };

static const char *memory_size(uint64_t bytes, char out[MEMORY_SIZE_TEXT])
{
	if (bytes == HOLDERS_UNLIMITED)
		(void)snprintf(out, MEMORY_SIZE_TEXT, "unlimited");
	else if (bytes >= UINT64_C(1) << 20)
		(void)snprintf(out, MEMORY_SIZE_TEXT, "%" PRIu64 " MiB", bytes >> 20);
	else
		(void)snprintf(out, MEMORY_SIZE_TEXT, "%" PRIu64 " KiB", bytes / MEMORY_KIB);
	return out;
}

/* --- rdma.memlock: what containers inherit ---------------------------------------------------- */

static int memory_unit_line(const char *text, size_t length, void *context)
{
	(void)lines_assignment(text, length, "LimitMEMLOCK", context, DOCTOR_WORD_MAX);
	return 0;
}

/* What the unit of a daemon says of it; "" nothing. A drop-in wins over the unit. */
static void memory_unit(struct doctor *doctor, const char *daemon, char out[DOCTOR_WORD_MAX])
{
	static const char *const units[] = {"/usr/lib/systemd/system", "/lib/systemd/system",
					    "/run/systemd/system", "/etc/systemd/system"};
	char path[FILE_PATH_MAX];

	out[0] = '\0';
	for (size_t i = 0; i < array_length(units); i++) {
		_cleanup_rootfs_names_ struct rootfs_names names = {.count = 0};

		if (file_path(path, NULL, "%s/%s.service", units[i], daemon) == 0)
			(void)rootfs_lines(&doctor->rootfs, path, memory_unit_line, out);
		if (file_path(path, NULL, "%s/%s.service.d", units[i], daemon) < 0 ||
		    rootfs_list(&doctor->rootfs, path, ".conf", &names) < 0)
			continue;

		for (size_t j = 0; j < names.count; j++)
			if (file_path(path, NULL, "%s/%s.service.d/%s", units[i], daemon,
				      names.name[j]) == 0)
				(void)rootfs_lines(&doctor->rootfs, path, memory_unit_line, out);
	}
}

/* "memlock: unlimited" of a resource, in any place of the file. */
static int memory_config_line(const char *text, size_t length, void *context)
{
	size_t blanks = 0;
	while (blanks < length && (text[blanks] == ' ' || text[blanks] == '-'))
		blanks++;
	return length - blanks > 8 && memcmp(text + blanks, "memlock:", 8) == 0;
}

static void memory_judge_daemon(struct doctor *doctor, const char *daemon, uint32_t pid,
				bool has_memlock)
{
	char size[MEMORY_SIZE_TEXT], unit[DOCTOR_WORD_MAX], path[DOCTOR_WORD_MAX];
	uint64_t bytes;
	int rc = holders_memlock(&doctor->rootfs, pid, &bytes);
	if (rc < 0) {
		(void)snprintf(path, sizeof(path), "/proc/%u/limits", pid);
		doctor_unreadable(doctor, path, rc);
		return;
	}

	bool is_right = bytes >= MEMORY_WANTED || has_memlock;

	memory_unit(doctor, daemon, unit);
	struct doctor_finding *finding = doctor_add(doctor, is_right ? DOCTOR_OK : DOCTOR_WARN,
						    "locked memory of %s (pid %u)", daemon, pid);
	doctor_found(finding, "%s%s%s%s", memory_size(bytes, size),
		     unit[0] != '\0' ? ", LimitMEMLOCK=" : "", unit,
		     has_memlock && bytes < MEMORY_WANTED ? "; sluice raises it (memlock:)" : "");

	if (is_right)
		return;

	doctor_need(finding, "64 MiB or more, or memlock: on the resource in sluice's "
			     "configuration");
	if (strcmp(unit, "infinity") == 0)
		doctor_do(finding, "systemctl daemon-reload\nsystemctl restart %s", daemon);
	else
		doctor_do(finding,
			  "mkdir -p /etc/systemd/system/%s.service.d\n"
			  "printf '[Service]\\nLimitMEMLOCK=infinity\\n' > "
			  "/etc/systemd/system/%s.service.d/memlock.conf\n"
			  "systemctl daemon-reload\nsystemctl restart %s",
			  daemon, daemon, daemon);
}

void check_rdma_memlock(struct doctor *doctor)
{
	static const char *const daemons[] = {"containerd", "crio", "dockerd"};
	uint32_t found = 0;

	if (!shared_rdma_or_skip(doctor))
		return;

	bool has_memlock =
	    rootfs_lines(&doctor->rootfs, MEMORY_CONFIG, memory_config_line, NULL) > 0;

	for (size_t i = 0; i < array_length(daemons); i++) {
		uint32_t pid = doctor_process(doctor, daemons[i]);
		if (pid == 0)
			continue;
		found++;
		memory_judge_daemon(doctor, daemons[i], pid, has_memlock);
	}

	/* Jobs of its queue inherit it; a pod has what its runtime has. */
	uint32_t agent = rootfs_exists(&doctor->rootfs, MEMORY_KUBELET) ? 0 : doctor_agent(doctor);
	if (agent != 0)
		memory_judge_daemon(doctor, "sluice", agent, false);
	if (found == 0 && agent == 0)
		doctor_skip(doctor, "neither a container runtime nor the service of sluice runs "
				    "here");
}

/* --- memlock: who has fallen back ------------------------------------------------------------- */

/* In the order in which they are to be thought of: the first ones change one pod, the next ones the
 * node. https://github.com/NVIDIA/nvidia-container-toolkit/issues/2037 */
static const char memory_remedies[] =
    "# 1. the pod: runAsUser: 0 with capabilities.add: [IPC_LOCK] (OpenShift: an SCC that allows "
    "it)\n"
    "# 2. containerd: systemctl edit containerd: LimitMEMLOCK=infinity; systemctl restart "
    "containerd\n"
    "# 3. containerd: base_runtime_spec of a runtime class, with RLIMIT_MEMLOCK\n"
    "# 4. CRI-O: default_ulimits = [\"memlock=-1:-1\"] in a drop-in\n"
    "# 5. NRI: the plugin that adjusts ulimits, by an annotation of the pod\n"
    "# 6. sluice: memlock: unlimited on the resource: no restart, no root, no SCC";

static const char memory_why[] =
    "memory for RDMA cannot be registered, and NCCL silently uses TCP instead";

static bool memory_is_low(const struct holder *holder)
{
	return holder->has_uverbs && holder->memlock_bytes < MEMORY_WANTED &&
	       (holder->effective & HOLDERS_IPC_LOCK) == 0;
}

static void memory_report_holder(struct doctor *doctor, const struct holder *holder)
{
	char size[MEMORY_SIZE_TEXT];
	/* Kubernetes gives capabilities to the bounding set; without root none becomes effective.
	 */
	bool is_useless = holder->uid != 0 && holder->pod[0] != '\0' &&
			  (holder->bounding & HOLDERS_IPC_LOCK) != 0;
	struct doctor_finding *finding =
	    doctor_add(doctor, DOCTOR_WARN, "process %u (%s)%s%s", holder->pid, holder->name,
		       holder->pod[0] != '\0' ? " of pod " : "", holder->pod);

	doctor_found(finding, "an RDMA adapter open, and %s of locked memory%s",
		     memory_size(holder->memlock_bytes, size),
		     is_useless ? "; IPC_LOCK was given to a user other than root, where it has "
				  "no effect"
				: "");
	doctor_need(finding, "64 MiB or more, or IPC_LOCK in effect");
	doctor_why(doctor_do(finding, "%s", memory_remedies), memory_why);
}

static void memory_tell_hidden(struct doctor *doctor, const struct holders *holders)
{
	if (holders->hidden == 0)
		return;
	struct doctor_finding *finding = doctor_add(doctor, DOCTOR_UNKNOWN, "processes");
	doctor_found(finding, "%u of which this user may not see what they hold", holders->hidden);
	doctor_do(finding, "sudo sluice doctor --only %s", finding->id);
}

void check_memlock(struct doctor *doctor)
{
	const struct holders *holders = shared_holders(doctor);
	uint32_t right = 0, before = doctor->count;
	for (uint32_t i = 0; holders && i < holders->count; i++) {
		if (memory_is_low(&holders->holder[i]))
			memory_report_holder(doctor, &holders->holder[i]);
		else
			right += holders->holder[i].has_uverbs;
	}

	if (!holders)
		return;

	const struct rdma_inventory *inventory = shared_rdma(doctor);
	if (inventory && inventory->device_count > 0)
		memory_tell_hidden(doctor, holders);

	if (right > 0)
		doctor_found(doctor_add(doctor, DOCTOR_OK, "processes"),
			     "%u with an RDMA adapter and enough of locked memory", right);
	else if (doctor->count == before)
		doctor_skip(doctor, "no process that can be seen has an RDMA adapter open");
}

/* --- shm -------------------------------------------------------------------------------------- */

void check_shm(struct doctor *doctor)
{
	const struct holders *holders = shared_holders(doctor);
	uint32_t right = 0, before = doctor->count;

	for (uint32_t i = 0; holders && i < holders->count; i++) {
		const struct holder *holder = &holders->holder[i];
		bool has_several = (holder->gpus & (holder->gpus - 1)) != 0;
		char size[MEMORY_SIZE_TEXT];

		/* Monitoring has all GPUs open as well, and shares nothing. */
		if (holder->gpus == 0 || !holder->has_uvm)
			continue;
		if (!has_several || holder->shm_bytes > MEMORY_SHM) {
			right++;
			continue;
		}

		struct doctor_finding *finding =
		    doctor_add(doctor, DOCTOR_WARN, "process %u (%s)%s%s", holder->pid,
			       holder->name, holder->pod[0] != '\0' ? " of pod " : "", holder->pod);
		doctor_found(finding, "%d GPUs, and a /dev/shm of %s",
			     __builtin_popcountll(holder->gpus),
			     memory_size(holder->shm_bytes, size));
		doctor_need(finding, "more than that: NCCL shares it between processes");
		doctor_do(finding,
			  "# pod: volumes: [{name: shm, emptyDir: {medium: Memory}}], mounted at "
			  "/dev/shm\n# docker, podman: --shm-size=8g, or --ipc=host");
	}

	if (!holders)
		return;
	if (doctor->facts.gpu_count > 0)
		memory_tell_hidden(doctor, holders);

	if (right > 0)
		doctor_found(doctor_add(doctor, DOCTOR_OK, "processes"),
			     "%u with GPUs, and shared memory for them", right);
	else if (doctor->count == before)
		doctor_skip(doctor, "no process that can be seen computes on GPUs");
}
