/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/machine/devices.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"

enum {
	INFO_NUMBER_MAX = 32,
	INFO_FIELDS = 7,
};

/* What NVIDIA's program says for a brand that it does not know; here for every such value. */
#define INFO_UNKNOWN "Unknown"

static const char *known(const char *text)
{
	return text[0] ? text : INFO_UNKNOWN;
}

/* One GPU's values in the order of their labels. */
struct info_gpu {
	char index[INFO_NUMBER_MAX], minor[INFO_NUMBER_MAX], bus[INFO_NUMBER_MAX];
	char architecture[INFO_NUMBER_MAX];
	const char *values[INFO_FIELDS];
};

static void describe(const struct gpu *gpu, struct info_gpu *out)
{
	(void)snprintf(out->index, sizeof(out->index), "%" PRIu32, gpu->index);
	(void)snprintf(out->minor, sizeof(out->minor), "%" PRIu32, gpu->minor);
	(void)snprintf(out->bus, sizeof(out->bus), "%08x:%02x:%02x.0", gpu->pci.domain,
		       gpu->pci.bus, gpu->pci.device);
	(void)snprintf(out->architecture, sizeof(out->architecture), "%" PRIu32 ".%" PRIu32,
		       gpu->cc_major, gpu->cc_minor);
	out->values[0] = out->index;
	out->values[1] = gpu->minor != GPU_U32_UNKNOWN ? out->minor : INFO_UNKNOWN;
	out->values[2] = known(gpu->name);
	out->values[3] = gpu_brand_to_string(gpu->brand);
	out->values[4] = known(gpu->uuid);
	out->values[5] = gpu->has_pci ? out->bus : INFO_UNKNOWN;
	out->values[6] = gpu->cc_major != GPU_U32_UNKNOWN ? out->architecture : INFO_UNKNOWN;
}

static void print_gpu(const struct gpu *gpu, bool csv)
{
	static const char *const labels[INFO_FIELDS] = {
	    "Device Index:", "Device Minor:", "Model:",	       "Brand:",
	    "GPU UUID:",     "Bus Location:", "Architecture:",
	};
	struct info_gpu info;
	describe(gpu, &info);

	if (!csv)
		putchar('\n');

	for (size_t i = 0; i < INFO_FIELDS; i++) {
		if (csv && i > 0)
			putchar(',');
		if (!csv)
			printf("%-15s ", labels[i]);
		cmd_print(stdout, info.values[i]);

		if (!csv)
			putchar('\n');
	}

	if (csv)
		putchar('\n');
}

static void print_versions(const struct inventory *inventory, bool csv)
{
	char cuda[INFO_NUMBER_MAX] = INFO_UNKNOWN;

	if (inventory->cuda_version > 0)
		(void)snprintf(cuda, sizeof(cuda), "%u.%u", inventory->cuda_version / 1000,
			       inventory->cuda_version % 100 / 10);

	fputs(csv ? "NVRM version,CUDA version\n" : "NVRM version:   ", stdout);
	cmd_print(stdout, known(inventory->driver_version));
	printf(csv ? ",%s\n" : "\nCUDA version:   %s\n", cuda);

	if (csv)
		puts("\nDevice Index,Device Minor,Model,Brand,GPU UUID,Bus Location,Architecture");
}

/* The GPU that NVML numbers so, or NULL. */
static const struct gpu *by_index(const struct inventory *inventory, uint32_t index)
{
	for (uint32_t i = 0; i < inventory->gpu_count; i++) {
		if (inventory->gpus[i].index == index)
			return &inventory->gpus[i];
	}
	return NULL;
}

int devices_info(const struct cmd_call *call, uint64_t timeout_ns, bool csv)
{
	_cleanup_machine_ struct machine machine = {.snapshot = NULL};
	int code = machine_read(call, timeout_ns, &machine, NULL, NULL);
	if (code != 0)
		return code;

	const struct inventory *inventory = &machine.inventory;
	if (inventory->simulated)
		fprintf(stderr, "%s: these GPUs are simulated\n", call->path);
	print_versions(inventory, csv);

	for (uint32_t index = 0; index < GPU_MAX; index++) {
		const struct gpu *gpu = by_index(inventory, index);
		if (gpu)
			print_gpu(gpu, csv);
	}

	for (uint32_t i = 0; i < inventory->gpu_count && code == 0; i++) {
		const struct gpu *gpu = &inventory->gpus[i];
		struct err err = {.code = 0};

		if (gpu->state == GPU_STATE_OK)
			continue;

		(void)err_set(&err, -EIO, "GPU %u is not well: %s; 'sluice health' says what to do",
			      gpu->index, gpu->reason);
		code = cmd_fail(call, CMD_EXIT_FAILED, &err);
	}

	return code;
}
