/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A damaged state file: opening, reading, writing and waiting must neither crash nor reach outside
 * the machine. The first byte says what the rest is:
 *   0  patches of a good file: offset (3 bytes, little-endian), length (1 byte), bytes
 *   1  a good file cut off after this many bytes (3 bytes, little-endian)
 *   2  the file itself
 *   3  like 0, offsets counted from the first GPU of the published copy
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/error.h"
#include "sim/mig.h"
#include "sim/physics.h"
#include "sim/state_private.h"

enum { MODE_PATCH, MODE_CUT, MODE_RAW, MODE_PATCH_GPU, MODES };

#define START_NS (UINT64_C(10) * 1000000000)

static uint64_t fixed_now(void *context)
{
	(void)context;
	return START_NS + UINT64_C(3) * 1000000000;
}

static bool any_event(const struct sim_event *event, void *context)
{
	(void)context;
	return event->number % 2 == 1;
}

static bool alive(const struct sim_process *process, void *context)
{
	(void)context;
	return process->pid % 3 != 0;
}

static void fill_model(struct sim_model *model)
{
	*model = (struct sim_model){.name = "fuzz",
				    .memory_bytes = 1 << 30,
				    .reserved_bytes = 1 << 20,
				    .sm_count = 100,
				    .power_idle_mw = 50000,
				    .power_load_mw = 400000,
				    .power_default_mw = 400000,
				    .power_max_mw = 400000,
				    .slowdown_c = 87,
				    .shutdown_c = 92,
				    .gpu_max_c = 83,
				    .ambient_c = 25,
				    .thermal_tau_ms = 20000,
				    .power_tau_ms = 300,
				    .sm_max_mhz = 1410,
				    .mem_max_mhz = 1215,
				    .link_count = 12,
				    .fan_count = 1,
				    .has_mig = true,
				    .mig_profile_count = 1};
	model->mig_profile[0] = (struct sim_mig_profile){.id = 19,
							 .name = "1g.5gb",
							 .memory_mib = 100,
							 .slices = 1,
							 .sm_count = 14,
							 .max_count = 7,
							 .placement_size = 1,
							 .placement_count = 1};
}

/* A small machine with MIG, processes of every shape and an event. */
static void fill_machine(struct sim_machine *machine)
{
	uint32_t slot, ci;

	fill_model(&machine->model[0]);
	machine->model_count = 1;
	machine->gpu_count = 2;
	for (uint32_t g = 0; g < 2; g++) {
		machine->gpu[g].power_limit_mw = 400000;
		machine->gpu[g].ambient_c = INT32_MIN;
		machine->gpu[g].mig_current = machine->gpu[g].mig_pending = g == 1;
		for (uint32_t i = 0; i < 4; i++)
			machine->gpu[g].process[i] =
			    (struct sim_process){.pid = 1 + 3 * i,
						 .type = SIM_PROCESS_COMPUTE,
						 .shape = (uint8_t)i,
						 .trace_length = 2,
						 .gi = g ? 7 : SIM_WHOLE_GPU,
						 .ci = g ? 0 : SIM_WHOLE_GPU,
						 .util_permille = 400,
						 .membw_permille = -1};
	}
	(void)sim_mig_create_gi(machine, 1, 0, 0, &slot);
	(void)sim_mig_create_ci(machine, 1, slot, 1, &ci);
}

/* A good file as this process would have written it, its clock set to a fixed start. */
static const struct sim_file *good_file(const char *path)
{
	static struct sim_file file;
	static struct sim_machine machine;
	struct sim_error error;
	FILE *stream;

	if (file.header.magic[0])
		return &file;
	fill_machine(&machine);
	if (!sim_machine_check(&machine) || sim_state_create(path, &machine, &error) < 0)
		abort();
	stream = fopen(path, "rbe");
	if (!stream || fread(&file, sizeof(file), 1, stream) != 1)
		abort();
	(void)fclose(stream);
	file.header.start_ns = START_NS;
	return &file;
}

/* Fills `file` and returns how many bytes of it are the file. */
static size_t build(uint8_t mode, const uint8_t *data, size_t size, const struct sim_file *good,
		    uint8_t *file)
{
	size_t base = mode == MODE_PATCH_GPU ? offsetof(struct sim_file, copy[0].gpu[0]) : 0;

	if (mode == MODE_RAW) {
		size = size < sizeof(*good) ? size : sizeof(*good);
		memcpy(file, data, size);
		return size;
	}
	memcpy(file, good, sizeof(*good));
	while (size >= 4) {
		size_t offset = (data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16) + base;
		size_t length = data[3];

		if (mode == MODE_CUT)
			return offset % sizeof(*good);
		data += 4;
		size -= 4;
		length = length < size ? length : size;
		if (offset + length <= sizeof(*good))
			memcpy(file + offset, data, length);
		data += length;
		size -= length;
	}
	return sizeof(*good);
}

static void use(struct sim_state *state, bool lock_is_good)
{
	const struct sim_machine *machine;
	struct sim_event event;
	uint64_t missed = 0;

	sim_state_use_clock(state, fixed_now, NULL);
	sim_state_use_alive(state, alive, NULL);
	if (!lock_is_good)
		state->writable = false; /* a lock that somebody seems to hold is waited for */
	machine = sim_state_read(state);
	for (uint32_t i = 0; i < machine->gpu_count; i++) {
		(void)sim_physics_power_mw(machine, i);
		(void)sim_physics_temperature_c(machine, i);
		(void)sim_physics_memory_used(machine, i, 7);
		(void)sim_mig_remaining(machine, i, 0);
	}
	sim_state_read_done(state);
	(void)sim_state_wait_event(state, 0, 0, any_event, NULL, &event, &missed);
	(void)sim_state_wait_event(state, UINT64_MAX - 1, 0, any_event, NULL, &event, &missed);
	if (sim_state_write(state))
		sim_state_commit(state);
	machine = sim_state_read(state);
	(void)sim_physics_memory_used(machine, 0, SIM_WHOLE_GPU);
	sim_state_read_done(state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t file[sizeof(struct sim_file)];
	static bool has_path;
	static char path[] = "/tmp/sluice-state-fuzz.XXXXXX";
	const size_t lock = offsetof(struct sim_file, header.writers);
	const struct sim_file *good;
	struct sim_state *state = NULL;
	struct sim_error error;
	size_t length;
	int fd;

	if (size == 0)
		return 0;
	if (!has_path) {
		has_path = true;
		fd = mkstemp(path);
		if (fd < 0)
			abort();
		(void)close(fd);
		(void)unlink(path);
	}
	good = good_file(path);
	length = build(data[0] % MODES, data + 1, size - 1, good, file);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, file, length) != (ssize_t)length)
		abort();
	(void)close(fd);
	if (sim_state_open(path, &state, &error) == SIM_OPEN_OK)
		use(state, memcmp(file + lock, (const uint8_t *)good + lock,
				  sizeof(good->header.writers)) == 0);
	(void)sim_state_close(state);
	(void)unlink(path);
	return 0;
}
