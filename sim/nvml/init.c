/* SPDX-License-Identifier: Apache-2.0 */
/* Init and Shutdown, what works before Init, and what concerns no single device. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "call.h"
#include "handle.h"
#include "impl.h"
#include "session.h"

API unsigned nvmlInit(void);
API unsigned nvmlInit_v2(void);
API unsigned nvmlInitWithFlags(unsigned flags);
API unsigned nvmlShutdown(void);
API const char *nvmlErrorString(unsigned result);
API unsigned nvmlSystemGetNVMLVersion(char *version, unsigned length);
API unsigned nvmlSystemGetCudaDriverVersion(int *version);
API unsigned nvmlSystemGetCudaDriverVersion_v2(int *version);

/* Init opens the machine first, because an injected answer to Init lies in it. */
static unsigned init_as(unsigned function, unsigned flags)
{
	struct call call = {.function = function, .gpu = SIM_WHOLE_GPU, .gi = SIM_WHOLE_GPU};
	unsigned result = session_open(flags);
	if (result != NVML_OK)
		return result;

	call_begin(&call, function, NULL, false);
	result = call_end(&call);
	if (result != NVML_OK)
		session_close();

	return result;
}

unsigned nvmlInit(void)
{
	return init_as(FUNCTION_nvmlInit, 0);
}

unsigned nvmlInit_v2(void)
{
	return init_as(FUNCTION_nvmlInit_v2, 0);
}

unsigned nvmlInitWithFlags(unsigned flags)
{
	return init_as(FUNCTION_nvmlInitWithFlags, flags);
}

unsigned nvmlShutdown(void)
{
	struct call call;
	call_begin(&call, FUNCTION_nvmlShutdown, NULL, false);
	unsigned result = call_end(&call);
	return result == NVML_OK ? session_close() : result;
}

const char *nvmlErrorString(unsigned result)
{
	static const char *const text[] = {
	    "Success",
	    "Uninitialized",
	    "Invalid Argument",
	    "Not Supported",
	    "Insufficient Permissions",
	    "Already Initialized",
	    "Not Found",
	    "Insufficient Size",
	    "Insufficient External Power",
	    "Driver Not Loaded",
	    "Timeout",
	    "Interrupt Request Issue",
	    "NVML Shared Library Not Found",
	    "Function Not Found",
	    "Corrupted infoROM",
	    "GPU is lost",
	    "GPU requires reset",
	    "The operating system has blocked the request",
	    "Driver/library version mismatch",
	    "In use by another client",
	    "Insufficient Memory",
	    "No data",
	    ("The requested vgpu operation is not available on target device, because ECC is "
	     "enabled"),
	    "Ran out of critical resources",
	    "The requested frequency is not supported",
	    "The provided version is invalid/unsupported",
	    "The requested functionality has been deprecated",
	    "The system is not ready for the request",
	    "No GPUs were found",
	    "Resource not in correct state to perform requested operation",
	    "Reset type not supported",
	};
	if (result < sizeof(text) / sizeof(text[0]))
		return text[result];

	return "Unknown Error";
}

unsigned nvmlSystemGetNVMLVersion(char *version, unsigned length)
{
	char driver[32], full[48];
	uint32_t cuda = 0;

	if (!version)
		return NVML_INVALID_ARGUMENT;

	session_versions(driver, &cuda);
	snprintf(full, sizeof(full), "%d.%s",
		 nvml_age >= 580   ? 13
		 : nvml_age >= 535 ? 12
				   : 11,
		 driver);
	return text_out(full, version, length);
}

unsigned nvmlSystemGetCudaDriverVersion(int *version)
{
	char driver[32];
	uint32_t cuda = 0;
	if (!version)
		return NVML_INVALID_ARGUMENT;
	session_versions(driver, &cuda);
	*version = (int)cuda;
	return NVML_OK;
}

unsigned nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	return nvmlSystemGetCudaDriverVersion(version);
}

unsigned impl_SystemGetDriverVersion(struct call *call, char *out, unsigned length)
{
	return text_out(call->machine->driver_version, out, length);
}

unsigned impl_SystemGetDriverBranch(struct call *call, struct nvml_system_driver_branch_info *out,
				    unsigned length)
{
	char branch[8];
	if (out->version != NVML_WORD(*out, 1))
		return NVML_ARGUMENT_VERSION_MISMATCH;
	snprintf(branch, sizeof(branch), "r%.3s_00", call->machine->driver_version);
	unsigned room = length < sizeof(out->branch) ? length : (unsigned)sizeof(out->branch);
	return text_out(branch, out->branch, room);
}

/* As the driver reports it: the command line's first word, or the name in brackets. */
unsigned impl_SystemGetProcessName(struct call *call, unsigned pid, char *out, unsigned length)
{
	char path[32], name[256];

	(void)call;
	if (length == 0)
		return NVML_INVALID_ARGUMENT;

	snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NVML_NOT_FOUND;

	ssize_t got = read(fd, name, sizeof(name) - 1);

	close(fd);
	if (got < 0)
		return NVML_NOT_FOUND;

	name[got] = '\0';
	snprintf(out, length, "%s", name); /* longer names are cut, as documented */
	return NVML_OK;
}

unsigned impl_SystemGetTopologyGpuSet(struct call *call, unsigned cpu, unsigned *count, void **out)
{
	const struct sim_machine *machine = call->machine;
	void *list[SIM_GPU_MAX];
	unsigned have = 0;
	int node = machine->cpus_per_node ? (int)(cpu / machine->cpus_per_node) : 0;

	if (machine->cpus_per_node && cpu >= machine->cpus_per_node * machine->numa_count)
		return NVML_INVALID_ARGUMENT;

	for (uint32_t i = 0; i < call->session->visible_count; i++) {
		uint32_t gpu = call->session->visible[i];
		if (machine->gpu[gpu].numa_node < 0 || machine->gpu[gpu].numa_node == node)
			list[have++] = handle_of_gpu(gpu);
	}

	if (!out || *count == 0) {
		*count = have;
		return NVML_OK; /* asking for the number is no error here */
	}

	return array_out(list, have, sizeof(list[0]), out, count);
}

unsigned impl_SystemGetConfComputeCapabilities(struct call *call,
					       struct nvml_conf_compute_system_caps *out)
{
	(void)call;
	*out = (struct nvml_conf_compute_system_caps){0};
	return NVML_OK;
}

unsigned impl_SystemGetConfComputeState(struct call *call,
					struct nvml_conf_compute_system_state *out)
{
	(void)call;
	*out = (struct nvml_conf_compute_system_state){0};
	return NVML_OK;
}

unsigned impl_SystemGetConfComputeGpusReadyState(struct call *call, unsigned *out)
{
	(void)call;
	*out = 0;
	return NVML_OK;
}

unsigned impl_SystemGetHicVersion(struct call *call, unsigned *count, struct nvml_hwbc_entry *out)
{
	(void)call;
	(void)out;
	*count = 0;
	return NVML_OK;
}

unsigned impl_UnitGetCount(struct call *call, unsigned *out)
{
	(void)call;
	*out = 0;
	return NVML_OK;
}

unsigned impl_UnitGetHandleByIndex(struct call *call, unsigned index, void **out)
{
	(void)call;
	(void)index;
	(void)out;
	return NVML_INVALID_ARGUMENT; /* no S-class unit ever has an index */
}

unsigned impl_GetExcludedDeviceCount(struct call *call, unsigned *out)
{
	(void)call;
	*out = 0;
	return NVML_OK;
}

unsigned impl_GetExcludedDeviceInfoByIndex(struct call *call, unsigned index,
					   struct nvml_excluded_device_info *out)
{
	(void)call;
	(void)index;
	(void)out;
	return NVML_INVALID_ARGUMENT;
}
