/* SPDX-License-Identifier: Apache-2.0 */
/* What is around the GPUs: device nodes of others, settings, shared memory, limits, counters. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "validate/validate_internal.h"
#include "hardware/gpunodes.h"
#include "hardware/pci.h"
#include "hardware/xid.h"

enum {
	MACHINE_SHM_BYTES = 10 << 20,	   /* of a rank and direction: NCCL takes 9,637,888 */
	MACHINE_MEMLOCK_BYTES = 128 << 20, /* below this, registering buffers fails soon */
};

/* --- isolation -------------------------------------------------------------------------------- */

/* The nodes that may be open: of what is in sight and of what was given. */
static void machine_own_nodes(const struct validate *self, bool own[GPUNODES_LAST + 1])
{
	struct pci_address list[PCI_LIST_MAX];
	uint32_t count = pci_list_nvidia(self->plan->root, list, PCI_LIST_MAX);
	const struct grant_list *given = &self->grant.given;

	for (uint32_t i = 0; i < count; i++) {
		struct pci_nvidia_information information;
		struct pci_address address;
		bool is_own = false;

		pci_read_nvidia_information(self->plan->root, &list[i], &information);

		for (uint32_t j = 0; j < self->count && !is_own; j++) {
			const char *bus = self->devices[j].device.bus_id;
			is_own = pci_parse_address(bus, strlen(bus), &address) == 0 &&
				 pci_address_compare(&address, &list[i]) == 0;
		}

		for (uint32_t j = 0; j < given->count && !is_own; j++)
			is_own = grant_is_same(information.uuid, given->uuids[j]);

		if (is_own && information.minor <= GPUNODES_LAST)
			own[information.minor] = true;
	}
}

/* Whether it is a GPU's node and can be opened. Stand-ins of a simulated machine that are links to
 * memory devices are no way to a GPU. */
static bool machine_opens(const char *path, bool is_simulated)
{
	struct stat status;
	if (stat(path, &status) < 0)
		return false;

	bool is_node = S_ISCHR(status.st_mode) && major(status.st_rdev) == GPUNODES_MAJOR;
	if (!is_node && !(is_simulated && S_ISREG(status.st_mode)))
		return false;

	_cleanup_close_ int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	return fd >= 0;
}

static int machine_isolation_job(void *context, const struct checks_sink *sink, struct err *err)
{
	const struct validate *self = context;
	const char *seen[DRIVER_DEVICES_MAX];
	bool own[GPUNODES_LAST + 1] = {false};
	char path[FILE_PATH_MAX];
	struct check check;

	for (uint32_t i = 0; i < self->count; i++)
		seen[i] = self->devices[i].device.uuid;

	checks_begin(sink, &check, 0, "isolation", "");
	grant_judge(&self->grant, seen, self->count, &check);
	machine_own_nodes(self, own);

	/* CUDA_VISIBLE_DEVICES chooses, and keeps nothing shut; an index names no node. */
	bool is_kept = self->grant.source != GRANT_NONE && !self->grant.given.has_others;

	for (uint32_t i = 0; is_kept && check.status == CHECK_PASS && i <= GPUNODES_LAST; i++) {
		int rc = file_path(path, err, "%s/dev/nvidia%u", self->plan->root, i);
		if (rc < 0)
			return rc;
		if (own[i] || !machine_opens(path, self->is_simulated))
			continue;

		check_set(&check, self->grant.source == GRANT_SLUICE ? CHECK_WARN : CHECK_FAIL,
			  "/dev/nvidia%u can be opened, and is of no GPU that %s names", i,
			  grant_source_to_string(self->grant.source));
		(void)snprintf(check.hint, sizeof(check.hint),
			       self->grant.source == GRANT_SLUICE
				   ? "the service does not keep the others' nodes shut: sluice "
				     "doctor says why"
				   : "is the container privileged, or are all nodes mounted?");
	}

	checks_end(sink, &check);
	return 0;
}

int validate_isolation(struct validate *self, struct err *err)
{
	struct apart_job job = {.run = machine_isolation_job,
				.context = self,
				.silence_ns = self->plan->timeout_ns,
				.timeout_ns = self->plan->timeout_ns};

	if (self->plan->gpus) { /* a choice of ours, not of whoever gave them */
		checks_say(self->out, "isolation", "", CHECK_SKIP, NULL,
			   "--gpus leaves some out: what is in sight is not compared");
		return 0;
	}

	int rc = validate_apart(self, &job, 1, NULL, err);
	if (rc == 0 && job.how != APART_DONE)
		validate_blame(self, &job, 0, "isolation", "");

	return rc;
}

/* --- settings --------------------------------------------------------------------------------- */

static bool machine_has_no_persistence(const struct gpu *gpu)
{
	return gpu->persistence == 0;
}

static bool machine_has_no_ecc(const struct gpu *gpu)
{
	return gpu->ecc_current == 0 && gpu->ecc_pending != GPU_U32_UNKNOWN;
}

static bool machine_changes_ecc(const struct gpu *gpu)
{
	return gpu->ecc_pending != GPU_U32_UNKNOWN && gpu->ecc_current != gpu->ecc_pending;
}

/* Nothing of this keeps a GPU from working: WARN, and never more. */
static const struct {
	bool (*is_bad)(const struct gpu *gpu);
	const char *what, *hint;
} machine_settings[] = {
    {machine_has_no_persistence, "persistence mode is off: each first use takes seconds",
     "nvidia-persistenced, or nvidia-smi -pm 1"},
    {machine_has_no_ecc, "ECC is switched off", "nvidia-smi -e 1, and a reset"},
    {machine_changes_ecc, "ECC changes with the next reset", NULL},
};

void validate_settings(struct validate *self)
{
	uint32_t warnings = 0, known = 0;

	for (size_t s = 0; s < array_length(machine_settings); s++) {
		char target[CHECKS_TARGET_MAX] = "";
		uint32_t bad = 0;

		for (uint32_t i = 0; i < self->count; i++) {
			const struct gpu *gpu = self->devices[i].gpu;
			bool is_repeated = gpu == NULL; /* MIG devices of one GPU */
			for (uint32_t j = 0; j < i; j++)
				is_repeated = is_repeated || self->devices[j].gpu == gpu;

			known += !is_repeated;
			if (!is_repeated && machine_settings[s].is_bad(gpu) && bad++ == 0)
				(void)snprintf(target, sizeof(target), "%s", gpu->uuid);
		}

		if (bad > 1)
			(void)snprintf(target, sizeof(target), "%u GPUs", bad);
		if (bad > 0)
			checks_say(self->out, "settings", target, CHECK_WARN,
				   machine_settings[s].hint, "%s", machine_settings[s].what);

		warnings += bad;
	}

	if (known == 0)
		checks_say(self->out, "settings", "", CHECK_SKIP, NULL, "NVML cannot be asked: %s",
			   self->why_not[0] ? self->why_not : "it shows none of these GPUs");
	else if (warnings == 0)
		checks_say(self->out, "settings", "", CHECK_PASS, NULL,
			   "persistence mode and ECC as they should be");
}

/* --- memory ----------------------------------------------------------------------------------- */

void validate_shm(struct validate *self)
{
	struct check check = {.name = "shm", .target = "/dev/shm", .status = CHECK_PASS};
	struct statvfs status;

	if (statvfs("/dev/shm", &status) < 0) {
		check_set(&check, CHECK_WARN, "/dev/shm: %s", err_describe(-errno));
	} else {
		check_value(&check, (double)status.f_bavail * (double)status.f_frsize, "bytes");
		check.has_limit = true;
		check.limit = 2.0 * MACHINE_SHM_BYTES * self->count;
		if (check.value < check.limit)
			check_set(&check, CHECK_WARN,
				  "%.0f MiB are free; NCCL between %u GPUs wants %.0f",
				  check.value / (1 << 20), self->count, check.limit / (1 << 20));
	}

	if (check.status != CHECK_PASS)
		(void)snprintf(
		    check.hint, sizeof(check.hint),
		    "podman: --shm-size 1g; Kubernetes: an emptyDir of medium Memory at "
		    "/dev/shm. Without it NCCL ends with SIGBUS or 'unhandled system error'");

	checks_add(self->out, &check);
}

void validate_memlock(struct validate *self)
{
	struct check check = {.name = "memlock", .status = CHECK_PASS};
	struct rlimit limit;
	char path[FILE_PATH_MAX];
	bool has_rdma =
	    file_path(path, NULL, "%s/dev/infiniband", self->plan->root) == 0 && file_exists(path);

	if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0) {
		check_set(&check, CHECK_SKIP, "RLIMIT_MEMLOCK: %s", err_describe(-errno));
	} else if (limit.rlim_cur == RLIM_INFINITY) {
		check_set(&check, CHECK_PASS, "memory can be locked without limit");
	} else {
		check_value(&check, (double)limit.rlim_cur, "bytes");
		check.has_limit = has_rdma;
		check.limit = MACHINE_MEMLOCK_BYTES;
		if (has_rdma && check.value < check.limit) {
			check_set(&check, CHECK_WARN,
				  "%.0f KiB can be locked: too little to register buffers for RDMA",
				  check.value / 1024);
			(void)snprintf(
			    check.hint, sizeof(check.hint),
			    "LimitMEMLOCK=infinity for the container runtime, or --ulimit "
			    "memlock=-1; NCCL falls back to sockets silently");
		} else if (!has_rdma) {
			check_set(&check, CHECK_PASS, "no RDMA device here that would need more");
		}
	}

	checks_add(self->out, &check);
}

/* --- counters --------------------------------------------------------------------------------- */

static bool machine_ecc(const struct validate_state *state, const char *uuid, uint32_t value,
			int64_t *out)
{
	const struct snapshot_gpu *gpu =
	    state->snapshot ? snapshot_find(state->snapshot, uuid) : NULL;
	return gpu && snapshot_get(gpu, value, out);
}

static void machine_judge_ecc(struct validate *self, const struct validate_state *after,
			      const char *uuid)
{
	struct check check = {.name = "ecc", .status = CHECK_PASS};
	int64_t was, is, corrected_was, corrected_is;

	(void)snprintf(check.target, sizeof(check.target), "%s", uuid);
	if (!machine_ecc(&self->before, uuid, SNAPSHOT_ECC_UNCORRECTED_VOLATILE, &was) ||
	    !machine_ecc(after, uuid, SNAPSHOT_ECC_UNCORRECTED_VOLATILE, &is)) {
		check_set(&check, CHECK_SKIP, "it has no ECC counters, or ECC is off");
	} else {
		check_value(&check, (double)(is - was), "errors");
		check.has_limit = true;

		if (is > was) {
			check_set(&check, CHECK_FAIL,
				  "%" PRId64 " memory errors that ECC could not correct during the "
				  "checks",
				  is - was);
			(void)snprintf(check.hint, sizeof(check.hint),
				       "sluice health says whether a reset remaps the row, or the "
				       "board has to go");
		} else if (machine_ecc(&self->before, uuid, SNAPSHOT_ECC_CORRECTED_VOLATILE,
				       &corrected_was) &&
			   machine_ecc(after, uuid, SNAPSHOT_ECC_CORRECTED_VOLATILE,
				       &corrected_is) &&
			   corrected_is > corrected_was) {
			check_set(&check, CHECK_WARN, "%" PRId64 " memory errors were corrected",
				  corrected_is - corrected_was);
		}
	}

	checks_add(self->out, &check);
}

static uint32_t machine_xids_of(const struct validate_state *state, const struct gpu *gpu,
				uint64_t *out_last)
{
	char bus[PCI_TEXT_MAX] = "";
	uint32_t count = 0;

	if (gpu->has_pci)
		(void)pci_address_to_string(&gpu->pci, bus);

	for (uint32_t i = 0; i < state->xid_count; i++) {
		const struct validate_xid *xid = &state->xids[i];
		enum xid_class class_ = xid_class_of((uint32_t)xid->code);
		if (class_ == XID_IGNORE || class_ == XID_INFO ||
		    (strcmp(xid->uuid, gpu->uuid) != 0 &&
		     (bus[0] == '\0' || strcmp(xid->bus, bus) != 0)))
			continue;

		count++;
		*out_last = xid->code;
	}

	return count;
}

static void machine_judge_xid(struct validate *self, const struct validate_state *after,
			      const struct gpu *gpu)
{
	struct check check = {.name = "xid", .status = CHECK_PASS};
	uint64_t last = 0;

	(void)snprintf(check.target, sizeof(check.target), "%s", gpu->uuid);
	if (!self->before.has_log || !after->has_log) {
		check_set(&check, CHECK_SKIP,
			  "the kernel log cannot be read (dmesg_restrict, or a "
			  "container)");
	} else {
		uint32_t was = machine_xids_of(&self->before, gpu, &last);
		uint32_t is = machine_xids_of(after, gpu, &last);

		check_value(&check, is > was ? is - was : 0, "XIDs");
		check.has_limit = true;

		if (is > was) {
			check_set(&check, CHECK_FAIL,
				  "%u XIDs during the checks; the last is %" PRIu64 "%s%s",
				  is - was, last, xid_name((uint32_t)last)[0] ? ": " : "",
				  xid_name((uint32_t)last));
			(void)snprintf(check.hint, sizeof(check.hint),
				       "sluice health says what it needs");
		}
	}

	checks_add(self->out, &check);
}

static void machine_judge_counters(struct validate *self, const struct validate_state *after)
{
	uint32_t known = 0;

	for (uint32_t i = 0; i < self->count; i++) {
		const struct gpu *gpu = self->devices[i].gpu;
		bool is_repeated = gpu == NULL;
		for (uint32_t j = 0; j < i; j++)
			is_repeated = is_repeated || self->devices[j].gpu == gpu;

		if (is_repeated)
			continue;

		known++;
		if (validate_wants(self, VALIDATE_ECC))
			machine_judge_ecc(self, after, gpu->uuid);
		if (validate_wants(self, VALIDATE_XID))
			machine_judge_xid(self, after, gpu);
	}

	if (known == 0)
		checks_say(self->out, "ecc", "", CHECK_SKIP, NULL, "NVML shows none of these GPUs");
}

void validate_counters(struct validate *self)
{
	static const enum validate_what both[] = {VALIDATE_ECC, VALIDATE_XID};

	if (!validate_wants(self, VALIDATE_ECC) && !validate_wants(self, VALIDATE_XID))
		return;

	struct err err = {.code = 0};
	struct validate_state *after = calloc(1, sizeof(*after));
	if (after)
		validate_state_init(after);

	if (after && self->has_before && self->plan->look(self->plan->context, after, &err) == 0) {
		machine_judge_counters(self, after);
	} else {
		for (size_t i = 0; i < 2; i++)
			if (validate_wants(self, both[i]))
				checks_say(self->out, validate_what_to_string(both[i]), "",
					   self->has_before ? CHECK_FAIL : CHECK_SKIP, NULL,
					   "the driver cannot be asked: %s",
					   self->has_before ? err.text : self->why_not);
	}

	if (after)
		validate_state_done(after);
	free(after);
}
