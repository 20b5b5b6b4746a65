/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/sim/sim.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/text.h"
#include "sim/fault.h"
#include "sim/kmsg.h"
#include "sim/trees.h"

#ifndef SIM_LIB_DIR
#define SIM_LIB_DIR "/usr/lib/sluice/sim"
#endif

int sim_exit_with(const struct cmd_call *call, const struct sim_error *error)
{
	struct err err = {0};
	(void)err_set(&err, -EIO, "%s", error->text);
	return cmd_fail(call, error->exit_code ? error->exit_code : SIM_EXIT_FAILED, &err);
}

const char *sim_shell_word(const char *text, bool always, char *out, size_t size)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
				    "/._-+:,=@%";
	bool quoted = always || text[0] == '\0' || text[strspn(text, plain)] != '\0';
	size_t length = 0;

	if (quoted)
		out[length++] = '\'';

	for (; *text && length + 6 <= size; text++) {
		if (*text == '\'') {
			memcpy(out + length, "'\\''", 4);
			length += 4;
		} else {
			out[length++] = *text;
		}
	}

	if (quoted)
		out[length++] = '\'';
	out[length] = '\0';
	return out;
}

static int absolute(const char *path, char out[SIM_PATH_MAX], struct sim_error *error)
{
	char here[PATH_MAX];
	int length;

	if (path[0] == '/')
		length = snprintf(out, SIM_PATH_MAX, "%s", path);
	else if (!getcwd(here, sizeof(here)))
		return sim_fail(error, SIM_EXIT_FAILED, "cannot tell the working directory: %s",
				strerror(errno));
	else
		length = snprintf(out, SIM_PATH_MAX, "%s/%s", here, path);

	if (path[0] == '\0' || length < 0 || length >= SIM_PATH_MAX - 64)
		return sim_fail(error, SIM_EXIT_INPUT, "the path '%.64s' is empty or too long",
				path);

	while (length > 1 && out[length - 1] == '/')
		out[--length] = '\0';

	return 0;
}

int sim_where_root(const struct sim_where *where, char out[SIM_PATH_MAX], struct sim_error *error)
{
	char directory[SIM_PATH_MAX], path[SIM_PATH_MAX + 8];

	if (where->root)
		return absolute(where->root, out, error);
	if (!sim_state_default_dir(directory)[0])
		return sim_fail(error, SIM_EXIT_FAILED,
				"there is no place for the simulated machine: set HOME, or give "
				"--root DIR");

	(void)snprintf(path, sizeof(path), "%s/sim", directory);
	return absolute(path, out, error);
}

int sim_where_state(const struct sim_where *where, char out[SIM_PATH_MAX], struct sim_error *error)
{
	const char *named = getenv("SLUICE_SIM_STATE");
	char root[SIM_PATH_MAX], path[SIM_PATH_MAX + 8];

	if (where->state)
		return absolute(where->state, out, error);
	if (!where->root && named && named[0])
		return absolute(named, out, error);
	if (sim_where_root(where, root, error) != 0)
		return -1;

	(void)snprintf(path, sizeof(path), "%s.state", root);
	return absolute(path, out, error);
}

struct sim_state *sim_open(const struct sim_where *where, bool for_writing, struct sim_error *error)
{
	char path[SIM_PATH_MAX];
	struct sim_state *state = NULL;

	if (sim_where_state(where, path, error) != 0)
		return NULL;

	switch (sim_state_open(path, &state, error)) {
	case SIM_OPEN_OK:
		break;
	case SIM_OPEN_NONE:
		(void)sim_fail(error, SIM_EXIT_FAILED,
			       "no simulated machine is running (state '%s'); start one with: "
			       "sluice sim start",
			       path);
		return NULL;
	case SIM_OPEN_FOREIGN:
	case SIM_OPEN_VERSION:
	case SIM_OPEN_FAILED:
		return NULL; /* `error` says it */
	}

	if (for_writing && !sim_state_is_writable(state)) {
		(void)sim_fail(error, SIM_EXIT_FOREIGN,
			       "the simulated machine of '%s' belongs to another user and can be "
			       "looked at only; root can start one for all with: sluice sim start "
			       "--shared",
			       path);
		return sim_state_close(state);
	}

	return state;
}

struct sim_machine *sim_snapshot(struct sim_state *state)
{
	struct sim_machine *copy = malloc(sizeof(*copy));
	if (copy) {
		*copy = *sim_state_read(state);
		sim_state_read_done(state);
	}
	return copy;
}

static int target_instance(const struct sim_machine *machine, const char *mig,
			   struct sim_target *target, struct sim_error *error)
{
	const struct sim_gpu *gpu = &machine->gpu[target->gpu];
	const char *slash = strchr(mig, '/');
	size_t length = slash ? (size_t)(slash - mig) : strlen(mig);
	uint64_t gi, ci = 0;

	if (parse_u64_span(mig, length, 0, 1000, &gi) != 0 ||
	    (slash && parse_u64(slash + 1, 0, 1000, &ci) != 0))
		return sim_fail(error, SIM_EXIT_INPUT,
				"'%s' is no MIG instance: write GI/CI, such as 7/0", mig);

	for (uint32_t g = 0; g < SIM_GI_MAX; g++) {
		if (!gpu->gi[g].used || gpu->gi[g].id != gi)
			continue;

		target->gi = (uint32_t)gi;
		for (uint32_t c = 0; c < SIM_CI_MAX; c++) {
			if (gpu->gi[g].ci[c].used && gpu->gi[g].ci[c].id == ci) {
				target->ci = (uint32_t)ci;
				return 0;
			}
		}

		if (!slash)
			return 0; /* a GPU instance without compute instances */
	}

	return sim_fail(error, SIM_EXIT_INPUT, "GPU %u has no MIG instance '%s'", target->gpu, mig);
}

static bool target_by_uuid(const struct sim_machine *machine, const char *uuid,
			   struct sim_target *target)
{
	for (uint32_t i = 0; i < machine->gpu_count; i++) {
		const struct sim_gpu *gpu = &machine->gpu[i];
		target->gpu = i;
		if (strcmp(gpu->uuid, uuid) == 0)
			return true;

		for (uint32_t g = 0; g < SIM_GI_MAX; g++) {
			for (uint32_t c = 0; c < SIM_CI_MAX && gpu->gi[g].used; c++) {
				if (!gpu->gi[g].ci[c].used ||
				    strcmp(gpu->gi[g].ci[c].uuid, uuid) != 0)
					continue;

				target->gi = gpu->gi[g].id;
				target->ci = gpu->gi[g].ci[c].id;
				return true;
			}
		}
	}

	return false;
}

int sim_target_parse(const struct sim_machine *machine, const char *gpu, const char *mig, bool all,
		     struct sim_target *out, struct sim_error *error)
{
	struct sim_target target = {.gpu = SIM_WHOLE_GPU, .gi = SIM_WHOLE_GPU, .ci = SIM_WHOLE_GPU};
	uint64_t index;

	if (!gpu || strcmp(gpu, "all") == 0) {
		if (!all && machine->gpu_count == 1 && !gpu)
			target.gpu = 0;
		else if (!all)
			return sim_fail(
			    error, SIM_EXIT_INPUT,
			    "say which GPU: --gpu N, or its UUID (see: sluice sim show)");
	} else if (text_starts_with(gpu, "GPU-") || text_starts_with(gpu, "MIG-")) {
		if (!target_by_uuid(machine, gpu, &target))
			return sim_fail(error, SIM_EXIT_INPUT,
					"the simulated machine has no GPU or MIG device '%s'", gpu);
	} else if (parse_u64(gpu, 0, UINT32_MAX, &index) != 0) {
		return sim_fail(error, SIM_EXIT_INPUT,
				"'%s' is no GPU: give its number, or its UUID", gpu);
	} else if (index >= machine->gpu_count) {
		return sim_fail(error, SIM_EXIT_INPUT,
				"there is no GPU %llu: the simulated machine has GPUs 0 to %u",
				(unsigned long long)index, machine->gpu_count - 1);
	} else {
		target.gpu = (uint32_t)index;
	}

	if (mig && target.gpu == SIM_WHOLE_GPU)
		return sim_fail(error, SIM_EXIT_INPUT, "--mig needs --gpu");
	if (mig && target_instance(machine, mig, &target, error) != 0)
		return -1;

	*out = target;
	return 0;
}

static bool library_is_in(const char *directory, const char *age, char out[SIM_PATH_MAX])
{
	char path[SIM_PATH_MAX + 32], real[PATH_MAX];
	(void)snprintf(path, sizeof(path), "%s/%s/libnvidia-ml.so.1", directory, age);
	if (access(path, R_OK) != 0)
		return false;

	(void)snprintf(path, sizeof(path), "%s/%s", directory, age);
	if (!realpath(path, real) || strlen(real) >= SIM_PATH_MAX)
		return false;

	(void)snprintf(out, SIM_PATH_MAX, "%s", real);
	return true;
}

int sim_library_dir(const struct sim_machine *machine, char out[SIM_PATH_MAX],
		    struct sim_error *error)
{
	static const char *const age[] = {"590", "580", "535", "470"};
	static const char *const beside[] = {
	    "../../sim/nvml",
	    "../lib/x86_64-linux-gnu/sluice/sim",
	    "../lib/aarch64-linux-gnu/sluice/sim",
	    "../lib64/sluice/sim",
	    "../lib/sluice/sim",
	};

	const char *named = getenv("SLUICE_SIM_LIBDIR");
	char program[PATH_MAX] = "", directory[PATH_MAX + 64];
	uint64_t branch = 0;
	size_t digits = strspn(machine->driver_version, "0123456789"), which = 0;
	if (parse_u64_span(machine->driver_version, digits, 0, 100000, &branch) != 0)
		branch = 580;

	while (which < 3 && branch < (which == 0 ? 590U : which == 1 ? 580U : 535U))
		which++;

	if (named && named[0])
		(void)snprintf(directory, sizeof(directory), "%s", named);
	if (named && named[0] && library_is_in(directory, age[which], out))
		return 0;

	ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
	char *slash = length > 0 ? strrchr(program, '/') : NULL;
	for (size_t i = 0; slash && i < sizeof(beside) / sizeof(*beside); i++) {
		*slash = '\0';
		(void)snprintf(directory, sizeof(directory), "%s/%s", program, beside[i]);
		if (library_is_in(directory, age[which], out))
			return 0;
	}

	if (library_is_in(SIM_LIB_DIR, age[which], out))
		return 0;

	return sim_fail(
	    error, SIM_EXIT_FAILED,
	    "the simulated library of driver age %s is not found: set SLUICE_SIM_LIBDIR to "
	    "the directory that holds %s/libnvidia-ml.so.1",
	    age[which], age[which]);
}

int sim_change(struct sim_state *state, bool files,
	       int (*change)(struct sim_machine *machine, void *context, struct sim_error *error),
	       void *context, struct sim_error *error)
{
	struct sim_machine *machine = sim_state_write(state);
	struct stat status;

	if (!machine)
		return sim_fail(
		    error, SIM_EXIT_FOREIGN,
		    "the simulated machine cannot be changed: its state is read-only, or "
		    "another program holds it");

	/* the state of a shared machine may be written, and its files not */
	if (files && machine->root[0] && stat(machine->root, &status) == 0 &&
	    status.st_uid != geteuid()) {
		(void)sim_fail(error, SIM_EXIT_FOREIGN,
			       "the simulated machine in '%s' belongs to another user: programs "
			       "run on it and load it, but only its owner changes it",
			       machine->root);
		sim_state_abort(state);
		return -1;
	}

	sim_kmsg_hold_uevents();
	if (change(machine, context, error) != 0 || sim_fault_catch_up(machine, error) != 0 ||
	    (files && sim_trees_sync(machine, error) != 0)) {
		sim_kmsg_drop_uevents();
		sim_state_abort(state);
		return -1;
	}

	sim_state_commit(state);
	return sim_kmsg_send_uevents(error);
}
