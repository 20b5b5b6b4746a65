/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/machine/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "cmd/table.h"

const struct cmd_exit_row machine_exits[] = {
    {CMD_EXIT_OK, "the GPUs were listed, also when some of them do not answer"},
    {CMD_EXIT_UNAVAILABLE, "no driver: not installed, half installed, not loaded, or of two "
			   "versions"},
    {CMD_EXIT_NOT_PERMITTED, "this user may not use the driver"},
    {CMD_EXIT_DEADLINE, "the driver as a whole did not answer in time"},
    {0, NULL},
};

void machine_done(struct machine *machine)
{
	inventory_done(&machine->inventory);
	free(machine->snapshot);
	machine->snapshot = NULL;
}

int machine_read(const struct cmd_call *call, uint64_t timeout_ns, struct machine *out,
		 void (*on_event)(const struct probe_event *event, void *context), void *context)
{
	struct err err = {.code = 0};
	const struct probe_options options = {.kernel_log = on_event != NULL};
	inventory_init(&out->inventory);
	out->snapshot = NULL;
	int rc = probe_collect_events(&options, timeout_ns, &out->inventory, &out->snapshot,
				      on_event, context, &err);
	return rc < 0 ? cmd_fail(call, probe_exit_code(rc), &err) : 0;
}

void machine_headline(const struct inventory *inventory)
{
	printf("%u%s GPU%s, driver %s", inventory->gpu_count,
	       inventory->simulated ? " simulated" : "", inventory->gpu_count == 1 ? "" : "s",
	       inventory->driver_version[0] ? inventory->driver_version : "unknown");
	if (inventory->cuda_version > 0)
		printf(", CUDA %u.%u", inventory->cuda_version / 1000,
		       inventory->cuda_version % 1000 / 10);
	printf(", library %s\n\n", inventory->library_path);
}

json_t *machine_json(const struct inventory *inventory)
{
	char cuda[32] = "";

	if (inventory->cuda_version > 0)
		(void)snprintf(cuda, sizeof(cuda), "%u.%u", inventory->cuda_version / 1000,
			       inventory->cuda_version % 1000 / 10);

	return json_pack("{s:b, s:o, s:o, s:o, s:o}", "simulated", inventory->simulated,
			 "driver_version", table_json_text(inventory->driver_version),
			 "nvml_version", table_json_text(inventory->nvml_version), "cuda_version",
			 table_json_text(cuda[0] ? cuda : NULL), "library",
			 table_json_text(inventory->library_path));
}

const char *machine_bus(const struct gpu *gpu, char out[PCI_TEXT_MAX])
{
	out[0] = '\0';
	return gpu->has_pci ? pci_address_to_string(&gpu->pci, out) : out;
}

json_t *machine_json_u32(uint32_t value)
{
	return value == GPU_U32_UNKNOWN ? json_null() : json_integer(value);
}

json_t *machine_json_u64(uint64_t value)
{
	return value > INT64_MAX ? json_null() : json_integer((json_int_t)value);
}

void machine_process(uint32_t pid, char out_name[MACHINE_PROCESS_NAME_MAX], uint32_t *out_uid)
{
	char path[FILE_PATH_MAX];
	struct stat status;
	_cleanup_fclose_ FILE *file = NULL;

	out_name[0] = '\0';
	*out_uid = 0;
	if (file_path(path, NULL, "/proc/%u/comm", pid) == 0)
		file = fopen(path, "re");
	if (!file)
		return;

	if (fgets(out_name, MACHINE_PROCESS_NAME_MAX, file))
		out_name[strcspn(out_name, "\n")] = '\0';
	if (fstat(fileno(file), &status) == 0)
		*out_uid = status.st_uid;
}
