/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/nccl/report.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "sim/error.h"
#include "sim/machine.h"
#include "sim/nccl/world.h"
#include "sim/state.h"

enum { LINE_MAX_BYTES = 512 };

/* A pair of GPUs. */
enum way { WAY_NVLINK, WAY_PCIE, WAY_SHM };

static bool is_asked_for(const char *level)
{
	const char *debug = getenv("NCCL_DEBUG");
	if (!debug)
		return false;
	if (strcasecmp(debug, "INFO") == 0 || strcasecmp(debug, "TRACE") == 0)
		return true;
	return strcmp(level, "WARN") == 0 && strcasecmp(debug, "WARN") == 0;
}

void report_line(int device, const char *level, const char *format, ...)
{
	char line[LINE_MAX_BYTES], host[64] = "localhost", path[SIM_PATH_MAX];
	const char *file = getenv("NCCL_DEBUG_FILE");

	if (!is_asked_for(level))
		return;

	(void)gethostname(host, sizeof(host) - 1);
	int length = snprintf(line, sizeof(line), "%s:%ld:%ld [%d] NCCL %s ", host, (long)getpid(),
			      (long)getpid(), device, level);
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(line + length, sizeof(line) - (size_t)length, format, arguments);
	va_end(arguments);

	FILE *out = stdout;
	/* "%p" is the process, as the library has it */
	const char *mark = file ? strstr(file, "%p") : NULL;

	if (file) {
		(void)snprintf(path, sizeof(path), "%.*s", mark ? (int)(mark - file) : 400, file);
		if (mark)
			(void)snprintf(path + strlen(path), sizeof(path) - strlen(path), "%ld%s",
				       (long)getpid(), mark + 2);
		out = fopen(path, "ae");
	}

	if (!out)
		return;

	(void)fprintf(out, "%s\n", line);
	if (out == stdout)
		(void)fflush(out);
	else
		(void)fclose(out);
}

/* "0000:07:00.0" of any width and case. */
static uint32_t find_gpu(const struct sim_machine *machine, const char *bus_id)
{
	char text[48];

	for (uint32_t i = 0; i < machine->gpu_count; i++) {
		const struct sim_gpu *gpu = &machine->gpu[i];
		(void)snprintf(text, sizeof(text), "%x:%02x:%02x.0", gpu->pci_domain, gpu->pci_bus,
			       gpu->pci_device);

		const char *wanted = bus_id;
		while (*wanted == '0' && isxdigit((unsigned char)wanted[1]))
			wanted++;

		if (strcasecmp(wanted, text) == 0)
			return i;
	}

	return SIM_GPU_MAX;
}

static uint32_t links_up(const struct sim_gpu *gpu)
{
	uint32_t up = 0;
	for (uint32_t i = 0; i < SIM_LINK_MAX; i++)
		up += gpu->link[i].peer_kind != SIM_LINK_NONE && !gpu->link[i].down;
	return up;
}

static enum way way_between(const struct sim_machine *machine, uint32_t a, uint32_t b)
{
	for (uint32_t i = 0; i < SIM_LINK_MAX; i++) {
		const struct sim_link *link = &machine->gpu[a].link[i];
		if (!link->down && (link->peer_kind == SIM_LINK_SWITCH ||
				    (link->peer_kind == SIM_LINK_GPU && link->peer_gpu == b)))
			return WAY_NVLINK;
	}
	return machine->level[a][b] != 0 && machine->level[a][b] <= 20 ? WAY_PCIE : WAY_SHM;
}

/* 20 GB/s a link of the first generation, 25 since, three quarters of it in use; PCIe 0.985 GB/s a
 * lane of generation 3; through host memory half of that. */
static double speed_of(const struct sim_machine *machine, uint32_t gpu, enum way way)
{
	const struct sim_model *model = sim_model_of(machine, &machine->gpu[gpu]);
	double lane = 0.985;
	if (way == WAY_NVLINK)
		return (model->nvlink_version == 1 ? 20 : 25) * 0.75 * links_up(&machine->gpu[gpu]);
	for (uint32_t generation = 4; generation <= model->pcie_gen_max; generation++)
		lane *= 2;
	return lane * model->pcie_width_max * (way == WAY_PCIE ? 0.75 : 0.375);
}

static bool has_port(const struct sim_machine *machine)
{
	for (uint32_t i = 0; i < machine->nic_count && i < SIM_NIC_MAX; i++) {
		const struct sim_nic *nic = &machine->nic[i];
		for (uint32_t k = 0; k < machine->nic_ports && k < SIM_NIC_PORT_MAX; k++) {
			if (!nic->down[k] && !nic->gone && !nic->unbound && !nic->no_node)
				return true;
		}
	}

	return false;
}

void report_init(const struct comm_world *world, uint32_t rank, uint32_t ranks, int device,
		 bool is_socket, struct report *out)
{
	char path[SIM_PATH_MAX];

	static const char *const word[] = {
	    [WAY_NVLINK] = "P2P/IPC", [WAY_PCIE] = "P2P/IPC", [WAY_SHM] = "SHM/direct/direct"};
	struct sim_state *state = NULL;
	struct sim_error error;

	*out = (struct report){.bytes_per_ns = 10, .latency_ns = 5000 + 1000 * (uint64_t)ranks};
	report_line(device, "INFO", "NCCL version 2.21.5+simulated");

	if (sim_state_open(sim_state_default_path(path), &state, &error) != SIM_OPEN_OK) {
		report_line(device, "INFO", "Using network Socket");
		return;
	}

	const struct sim_machine *machine = sim_state_read(state);
	bool is_ib = !is_socket && has_port(machine);
	uint32_t self = find_gpu(machine, world_bus_id(world, rank));

	if (!is_ib)
		report_line(device, "INFO", "NET/IB : No device found.");
	report_line(device, "INFO",
		    is_ib ? "NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:127.0.0.1<0>"
			  : "NET/Socket : Using [0]eth0:127.0.0.1<0>");
	report_line(device, "INFO", "Using network %s", is_ib ? "IB" : "Socket");

	for (uint32_t step = 1; step < ranks && self < SIM_GPU_MAX; step++) {
		uint32_t peer = (rank + step) % ranks;
		uint32_t other = find_gpu(machine, world_bus_id(world, peer));
		if (other >= SIM_GPU_MAX || other == self)
			continue;

		enum way way = way_between(machine, self, other);
		double speed = speed_of(machine, self, way);
		/* the slowest of the ring; the others are for what goes straight */
		if (step == 1 && speed > 0)
			out->bytes_per_ns = speed;
		report_line(device, "INFO", "Channel 00/0 : %u[%u] -> %u[%u] via %s", rank, self,
			    peer, other, word[way]);
	}

	sim_state_read_done(state);
	(void)sim_state_close(state);
}
