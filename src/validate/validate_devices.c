/* SPDX-License-Identifier: Apache-2.0 */
/* Which devices are in sight, by which library, and whether it fits the kernel's module. */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/file.h"
#include "base/parse.h"
#include "base/text.h"
#include "validate/expect.h"
#include "validate/validate_internal.h"
#include "hardware/pci.h"
#include "hardware/topology.h"

_Static_assert(sizeof(struct driver_device) <= 512, "goes through a record");

/* --- in the child ----------------------------------------------------------------------------- */

/* The file that was really opened: "/usr/lib/x86_64-linux-gnu/libcuda.so.580.105.08". */
static void devices_library(const struct driver *driver, char *out, size_t size)
{
	struct link_map *map = NULL;
	char real[PATH_MAX];
	const char *path = driver->path;

	if (dlinfo(driver->library, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name[0])
		path = map->l_name;
	if (realpath(path, real))
		path = real;
	(void)snprintf(out, size, "%.*s", (int)size - 1, path);
}

static int devices_job(void *context, const struct checks_sink *sink, struct err *err)
{
	const struct validate *self = context;
	struct driver driver;
	struct driver_device devices[DRIVER_DEVICES_MAX];
	struct checks_record record = {.kind = CHECKS_BLOB, .number = 0};
	uint32_t count = 0;

	if (self->view && setenv("CUDA_VISIBLE_DEVICES", self->view, 1) < 0)
		return err_set(err, -ENOMEM, "CUDA_VISIBLE_DEVICES: no memory");

	int rc = driver_open(self->plan->library, DRIVER_BY_DLSYM, &driver, err);
	if (rc < 0)
		return rc;

	memset(record.blob, 0, sizeof(record.blob));
	memcpy(record.blob, &driver.version, sizeof(driver.version));
	record.blob[sizeof(driver.version)] = driver.is_simulated;
	devices_library(&driver, (char *)record.blob + sizeof(driver.version) + 1,
			sizeof(self->library) - 1);
	sink->take(sink->context, &record);
	rc = driver_devices(&driver, devices, &count, err);

	for (uint32_t i = 0; rc == 0 && i < count; i++) {
		record.number = 1 + i;
		memset(record.blob, 0, sizeof(record.blob));
		memcpy(record.blob, &devices[i], sizeof(devices[i]));
		sink->take(sink->context, &record);
	}

	return rc; /* the process ends: nothing needs to be closed */
}

/* --- what is known of them -------------------------------------------------------------------- */

static void devices_know(struct validate *self, struct validate_device *device)
{
	const struct inventory *inventory = &self->before.inventory;
	struct pci_address address;
	bool has_address =
	    pci_parse_address(device->device.bus_id, strlen(device->device.bus_id), &address) == 0;

	if (!self->has_before)
		return;

	for (uint32_t i = 0; i < inventory->mig_count && !device->mig; i++)
		if (grant_is_same(device->device.uuid, inventory->migs[i].uuid)) {
			device->mig = &inventory->migs[i];
			device->gpu = &inventory->gpus[inventory->migs[i].parent];
		}

	for (uint32_t i = 0; i < inventory->gpu_count && !device->gpu; i++) {
		const struct gpu *gpu = &inventory->gpus[i];
		if (strcmp(gpu->uuid, device->device.uuid) == 0 ||
		    (has_address && gpu->has_pci && pci_address_compare(&gpu->pci, &address) == 0))
			device->gpu = gpu;
	}
}

/* What its link can do. Of a MIG device nothing is expected: its neighbours use the same link. */
static void devices_expect(struct validate *self, struct validate_device *device)
{
	struct bandwidth_options *options = &device->bandwidth;
	struct pci_address address;
	struct pci_device pci;

	*options = (struct bandwidth_options){
	    .bytes = self->plan->bytes, .repeats = self->plan->repeats, .root = self->plan->root};
	if (device->mig || text_starts_with(device->device.uuid, "MIG-"))
		return;

	if (device->gpu && device->gpu->pcie_gen_max != GPU_U32_UNKNOWN &&
	    device->gpu->pcie_width_max != GPU_U32_UNKNOWN) {
		options->link_gen = device->gpu->pcie_gen_max;
		options->link_width = device->gpu->pcie_width_max;
	} else if (pci_parse_address(device->device.bus_id, strlen(device->device.bus_id),
				     &address) == 0 &&
		   pci_read_device(self->plan->root, &address, &pci, NULL) == 0) {
		options->link_gen = pci.link_gen_max;
		options->link_width = pci.link_width_max;
	}

	options->limit = expect_host(options->link_gen, options->link_width);
	(void)snprintf(device->link, sizeof(device->link), "PCIe %u x%u", options->link_gen,
		       options->link_width);
	options->link = device->link;
}

static void devices_expect_peers(struct validate *self)
{
	self->p2p =
	    (struct p2p_options){.bytes = self->plan->bytes, .repeats = self->plan->repeats};
	for (uint32_t a = 0; a < self->count; a++) {
		for (uint32_t b = 0; b < self->count; b++) {
			const struct gpu *from = self->devices[a].gpu, *to = self->devices[b].gpu;
			if (a == b || !from || !to || self->devices[a].mig || self->devices[b].mig)
				continue;

			uint32_t links = topology_nvlinks(from, to);
			uint32_t older = from->architecture < to->architecture ? from->architecture
									       : to->architecture;

			self->p2p.nvlinks[a][b] = (uint8_t)links;
			self->p2p.limit[a][b] = expect_peer(older, links);
		}
	}
}

/* --- driver and versions ---------------------------------------------------------------------- */

/* Whether anything says that there should be a GPU: then that none can be used is wrong, and not
 * only nothing to be said. */
static bool devices_are_wanted(const struct validate *self)
{
	struct pci_address address;
	char path[FILE_PATH_MAX];

	if (self->plan->has_expect)
		return self->plan->expect > 0;

	return self->grant.source != GRANT_NONE || self->plan->gpus ||
	       (self->has_before && self->before.inventory.gpu_count > 0) ||
	       pci_list_nvidia(self->plan->root, &address, 1) > 0 ||
	       (file_path(path, NULL, "%s/dev/nvidiactl", self->plan->root) == 0 &&
		file_exists(path));
}

static void devices_failed(struct validate *self, const struct apart_job *job, const char *target)
{
	if (job->how != APART_FAILED) {
		validate_blame(self, job, 0, "driver", target);
		return;
	}

	int cuda = gputest_result_of(job->err.text);
	bool is_absent = job->err.code == -ENOENT || cuda == CUDA_NO_DEVICE;
	const char *hint = NULL;
	enum check_status status = is_absent && !devices_are_wanted(self) ? CHECK_SKIP : CHECK_FAIL;

	if (job->err.code == -ENOENT)
		hint = "is the driver installed? In a container: is its library mounted "
		       "(NVIDIA_DRIVER_CAPABILITIES with compute, or CDI)?";

	struct check check = {.name = "driver", .status = status};
	(void)snprintf(check.target, sizeof(check.target), "%s", target);
	gputest_explain(&check, job->err.text);

	if (hint && check.hint[0] == '\0')
		(void)snprintf(check.hint, sizeof(check.hint), "%s", hint);
	checks_add(self->out, &check);
}

/* The version behind "libcuda.so."; "" for other names. */
static const char *devices_version(const char *library)
{
	const char *at = strstr(library, "libcuda.so.");
	at = at ? at + strlen("libcuda.so.") : "";
	return strchr(at, '.') ? at : ""; /* libcuda.so.1 says nothing */
}

static void devices_driver(struct validate *self)
{
	struct check check = {.name = "driver", .status = CHECK_PASS};
	char module[GPU_VERSION_MAX] = "";
	const char *version = devices_version(self->library);

	(void)pci_read_nvidia_version(self->plan->root, module); /* without it: not compared */
	(void)snprintf(check.target, sizeof(check.target), "%.100s", self->library);
	check_set(&check, CHECK_PASS, "CUDA %d.%d%s; kernel module %s; %u GPUs%s",
		  self->cuda_version / 1000, self->cuda_version % 1000 / 10,
		  version[0] ? "" : ", of an unknown release", module[0] ? module : "not known",
		  self->count, self->is_simulated ? "; simulated" : "");

	if (version[0] && module[0] && strcmp(version, module) != 0) {
		/* It works all the same: a library for forward compatibility. */
		check_worsen(&check, CHECK_WARN,
			     "the library is of release %.40s, the kernel module of %.40s", version,
			     module);
		(void)snprintf(check.hint, sizeof(check.hint),
			       "right where a container brings libraries for compatibility; else "
			       "install the same release");
	}

	const char *nvml = self->has_before ? self->before.inventory.driver_version : "";
	if (nvml[0] && module[0] && strcmp(nvml, module) != 0)
		check_worsen(&check, CHECK_WARN,
			     "NVML says that the driver is %.40s, the kernel module is %.40s", nvml,
			     module);

	checks_add(self->out, &check);
}

/* --- views ------------------------------------------------------------------------------------ */

static bool devices_has(const struct validate *self, const char *uuid)
{
	for (uint32_t i = 0; i < self->count; i++)
		if (grant_is_same(self->devices[i].device.uuid, uuid))
			return true;
	return false;
}

/* One way of looking at the driver. 1: it could not be looked at so. */
static int devices_look(struct validate *self, const char *view, bool is_needed, struct err *err)
{
	struct apart_job job = {.run = devices_job,
				.context = self,
				.silence_ns = self->plan->timeout_ns,
				.timeout_ns = self->plan->timeout_ns};

	self->view = view;
	int rc = validate_apart(self, &job, 1, NULL, err);
	if (rc == 0 && job.how != APART_DONE) {
		if (is_needed)
			devices_failed(self, &job, view ? view : "");
		rc = 1;
	}

	self->view = NULL;
	return rc;
}

/* The driver shows one MIG device at a time: each that was given is looked at by its name; without
 * a grant each that there is. */
static int devices_look_at_migs(struct validate *self, struct err *err)
{
	const struct grant *grant = &self->grant;
	int rc = 0;

	if (grant->is_chosen && grant->chosen.count <= 1)
		return 0;

	const struct grant_list *list = grant->is_chosen ? &grant->chosen : &grant->given;
	for (uint32_t i = 0; rc >= 0 && i < list->count; i++)
		if (text_starts_with(list->uuids[i], "MIG-") && !devices_has(self, list->uuids[i]))
			rc = devices_look(self, list->uuids[i], true, err);

	if (list->count > 0 || !self->has_before)
		return rc < 0 ? rc : 0;

	for (uint32_t i = 0; rc >= 0 && i < self->before.inventory.mig_count; i++) {
		const char *uuid = self->before.inventory.migs[i].uuid;
		if (!devices_has(self, uuid))
			rc = devices_look(self, uuid, false, err);
		if (rc == 1)
			checks_say(self->out, "driver", uuid, CHECK_SKIP, NULL,
				   "the MIG device was not given, and cannot be used");
	}

	return rc < 0 ? rc : 0;
}

/* --gpus: keeps what is named. */
static void devices_select(struct validate *self)
{
	const char *list = self->plan->gpus;
	bool is_kept[DRIVER_DEVICES_MAX] = {false};

	while (list && *list) {
		char name[GPU_UUID_MAX];
		size_t length = strcspn(list, ",");
		uint64_t number = UINT64_MAX;
		bool is_found = strncmp(list, "all", length) == 0 && length == 3;

		(void)snprintf(name, sizeof(name), "%.*s", (int)length, list); /* cut */
		(void)parse_u64(name, 0, UINT32_MAX, &number);

		for (uint32_t i = 0; i < self->count; i++) {
			const struct driver_device *device = &self->devices[i].device;
			bool is_it = (length == 3 && strcmp(name, "all") == 0) || number == i ||
				     grant_is_same(device->uuid, name);
			is_kept[i] = is_kept[i] || is_it;
			is_found = is_found || is_it;
		}

		if (!is_found && length > 0)
			checks_say(self->out, "driver", name, CHECK_FAIL,
				   "sluice devices lists those that there are",
				   "--gpus names a GPU that is not in sight");

		list += length + (list[length] == ',');
	}

	uint32_t kept = 0;
	for (uint32_t i = 0; i < self->count && self->plan->gpus; i++)
		if (is_kept[i])
			self->devices[kept++] = self->devices[i];

	self->count = self->plan->gpus ? kept : self->count;
}

int validate_find_devices(struct validate *self, struct err *err)
{
	int rc = devices_look(self, NULL, true, err);
	if (rc != 0)
		return rc < 0 ? rc : 0;

	rc = devices_look_at_migs(self, err);
	if (rc < 0)
		return rc;

	if (self->count == 0)
		checks_say(self->out, "driver", "",
			   devices_are_wanted(self) ? CHECK_FAIL : CHECK_SKIP,
			   driver_hint(CUDA_NO_DEVICE), "the driver shows no GPU");
	else if (validate_wants(self, VALIDATE_DRIVER))
		devices_driver(self);

	devices_select(self);

	for (uint32_t i = 0; i < self->count; i++) {
		devices_know(self, &self->devices[i]);
		devices_expect(self, &self->devices[i]);
	}

	devices_expect_peers(self);
	return 0;
}
