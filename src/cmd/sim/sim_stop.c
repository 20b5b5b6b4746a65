/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice sim stop`, `status` and `profiles`. */
#include "cmd/sim/sim.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "cmd/table.h"
#include "sim/profile.h"
#include "sim/trees.h"

#ifndef SIM_PROFILE_DIR
#define SIM_PROFILE_DIR "/usr/share/sluice/profiles"
#endif

struct stop_options {
	struct sim_where where;
	uint32_t output;
};

static const struct option_row stop_rows[] = {SIM_WHERE_ROWS(struct stop_options), {0}};

/* A state that cannot be used (another version, damaged, before a boot) is removed if it is ours
 * and says what it is; whose trees it had is not known, so the default root's are taken. */
static int stop_unusable(const struct cmd_call *call, const char *state)
{
	const struct stop_options *options = call->options;
	struct sim_error error = {0};
	char root[SIM_PATH_MAX], magic[16] = "";
	struct stat status;
	_cleanup_close_ int fd = open(state, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	bool ours = fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
		    status.st_uid == geteuid() && read(fd, magic, sizeof(magic)) == sizeof(magic) &&
		    memcmp(magic, "sluice-sim-state", sizeof(magic)) == 0;
	if (!ours) {
		(void)sim_fail(&error, SIM_EXIT_FOREIGN,
			       "'%s' is no state of a simulated machine of this user: it was not "
			       "removed",
			       state);
		return sim_exit_with(call, &error);
	}

	if (unlink(state) != 0) {
		(void)sim_fail(&error, SIM_EXIT_FAILED, "cannot remove '%s': %s", state,
			       strerror(errno));
		return sim_exit_with(call, &error);
	}

	if (sim_where_root(&options->where, root, &error) != 0 ||
	    sim_trees_remove(root, &error) != 0)
		return sim_exit_with(call, &error);

	printf("simulated machine removed: its state '%s' could not be used any more\n", state);
	return SIM_EXIT_OK;
}

/* Files whose state is gone, as when only the state lay in memory: true when there were some. */
static bool stop_left_over(const struct sim_where *where, struct sim_error *error)
{
	struct sim_error failure = {0};
	char root[SIM_PATH_MAX];

	if (sim_where_root(where, root, &failure) != 0 || !sim_trees_are_at(root))
		return false;
	if (sim_trees_remove(root, &failure) != 0) {
		*error = failure;
		return false;
	}

	printf("simulated files in '%s' removed; there was no simulated machine\n", root);
	return true;
}

static int stop_run(const struct cmd_call *call)
{
	const struct stop_options *options = call->options;
	struct sim_error error = {0};
	char path[SIM_PATH_MAX], root[SIM_PATH_MAX];
	_cleanup_sim_state_ struct sim_state *state = NULL;

	if (sim_where_state(&options->where, path, &error) != 0)
		return sim_exit_with(call, &error);

	state = sim_open(&options->where, true, &error);
	if (!state && access(path, F_OK) == 0 && error.exit_code != SIM_EXIT_FOREIGN)
		return stop_unusable(call, path);
	if (!state && access(path, F_OK) != 0 && stop_left_over(&options->where, &error))
		return SIM_EXIT_OK;
	if (!state)
		return sim_exit_with(call, &error);

	struct stat status;
	if (stat(path, &status) == 0 && status.st_uid != geteuid()) {
		(void)sim_fail(&error, SIM_EXIT_FOREIGN,
			       "the simulated machine of '%s' belongs to another user, who can "
			       "stop it",
			       path);
		return sim_exit_with(call, &error);
	}

	/* whoever has the state open sees the driver go */
	struct sim_machine *machine = sim_state_write(state);
	if (!machine) {
		(void)sim_fail(&error, SIM_EXIT_FAILED, "the state '%s' is held by another program",
			       path);
		return sim_exit_with(call, &error);
	}

	(void)snprintf(root, sizeof(root), "%s", machine->root);
	machine->driver_state = SIM_DRIVER_NONE;
	memset(machine->rule, 0, sizeof(machine->rule)); /* calls that hang end */
	sim_state_commit(state);

	if (root[0] != '\0' && sim_trees_remove(root, &error) != 0)
		return sim_exit_with(call, &error);

	if (unlink(path) != 0) {
		(void)sim_fail(&error, SIM_EXIT_FAILED, "cannot remove '%s': %s", path,
			       strerror(errno));
		return sim_exit_with(call, &error);
	}

	char shared[SIM_PATH_MAX + sizeof(SIM_STATE_CUDA_SUFFIX)];
	(void)snprintf(shared, sizeof(shared), "%s" SIM_STATE_CUDA_SUFFIX, path);
	(void)unlink(shared); /* only there when a program has used the driver library */
	printf("simulated machine stopped\n");

	if (root[0] != '\0' && access(root, F_OK) == 0)
		printf(
		    "simulated root '%s' stays: it holds files that sluice sim did not make, such "
		    "as the jobs of an agent; when no job needs them, remove it\n",
		    root);

	return SIM_EXIT_OK;
}

static const struct cmd_exit_row exits[] = {SIM_EXIT_ROWS, {0, NULL}};

const struct command cmd_sim_stop = {
    .name = "stop",
    .summary = "Stop the simulated machine and remove its files",
    .description = "Removes what `sluice sim start` made and nothing else. Programs that have the "
		   "simulated library loaded see a machine without a driver from then on.",
    .group = CMD_GROUP_SIMULATOR,
    .run = stop_run,
    .options = stop_rows,
    .options_size = sizeof(struct stop_options),
    .exits = exits,
};

static const struct option_row status_rows[] = {
    OPTION_OUTPUT(struct stop_options, output),
    SIM_WHERE_ROWS(struct stop_options),
    {0},
};

static int status_run(const struct cmd_call *call)
{
	const struct stop_options *options = call->options;
	struct sim_error error = {0};
	char path[SIM_PATH_MAX];
	_cleanup_sim_state_ struct sim_state *state = sim_open(&options->where, false, &error);
	if (!state || sim_where_state(&options->where, path, &error) != 0)
		return sim_exit_with(call, &error);

	const struct sim_machine *machine = sim_state_read(state);
	uint32_t processes = 0, unwell = 0;
	for (uint32_t i = 0; i < machine->gpu_count; i++) {
		unwell += machine->gpu[i].health != SIM_GPU_OK;
		for (uint32_t p = 0; p < SIM_PROCESS_MAX; p++)
			processes += machine->gpu[i].process[p].pid != 0;
	}

	if (options->output == OPTION_OUTPUT_JSON) {
		json_t *json = json_pack(
		    "{s:b, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:s, s:I}", "simulated", 1, "profile",
		    machine->profile, "state", path, "root", machine->root, "driver",
		    sim_driver_word(machine->driver_state), "gpus", (int)machine->gpu_count,
		    "unwell", (int)unwell, "processes", (int)processes, "clock",
		    machine->clock == SIM_CLOCK_VIRTUAL ? "virtual" : "real", "tick",
		    (json_int_t)machine->tick);

		sim_state_read_done(state);
		int rc = table_print_json(json, stdout, NULL);

		json_decref(json);
		return rc == 0 ? SIM_EXIT_OK : SIM_EXIT_FAILED;
	}

	printf("simulated machine running: %s, %u GPUs (%u not well), %u processes, driver %s %s\n",
	       machine->profile, machine->gpu_count, unwell, processes, machine->driver_version,
	       sim_driver_word(machine->driver_state));
	printf("simulated time %llu.%llu s (%s clock), files in %s, state in %s\n",
	       (unsigned long long)machine->tick / SIM_TICKS_PER_SECOND,
	       (unsigned long long)machine->tick % SIM_TICKS_PER_SECOND,
	       machine->clock == SIM_CLOCK_VIRTUAL ? "virtual" : "real", machine->root, path);
	sim_state_read_done(state);

	return SIM_EXIT_OK;
}

const struct command cmd_sim_status = {
    .name = "status",
    .summary = "Say whether a simulated machine is running, and which",
    .group = CMD_GROUP_SIMULATOR,
    .run = status_run,
    .options = status_rows,
    .options_size = sizeof(struct stop_options),
    .exits = exits,
};

static const char *profiles_directory(char out[SIM_PATH_MAX])
{
	static const char *const beside[] = {"../../../sim/profiles", "../share/sluice/profiles"};
	const char *named = getenv("SLUICE_PROFILES");
	char program[PATH_MAX] = "";

	if (named && named[0]) {
		(void)snprintf(out, SIM_PATH_MAX, "%s", named);
		return out;
	}

	ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
	char *slash = length > 0 ? strrchr(program, '/') : NULL;

	for (size_t i = 0; slash && i < sizeof(beside) / sizeof(*beside); i++) {
		char path[PATH_MAX + 64], real[PATH_MAX];

		*slash = '\0';
		(void)snprintf(path, sizeof(path), "%s/%s", program, beside[i]);

		if (access(path, R_OK) != 0 || !realpath(path, real) ||
		    strlen(real) >= SIM_PATH_MAX)
			continue;

		(void)snprintf(out, SIM_PATH_MAX, "%s", real);
		return out;
	}

	(void)snprintf(out, SIM_PATH_MAX, "%s", SIM_PROFILE_DIR);
	return out;
}

void sim_profiles_find(void)
{
	char directory[SIM_PATH_MAX];
	if (!getenv("SLUICE_PROFILES"))
		(void)setenv("SLUICE_PROFILES", profiles_directory(directory), 1);
}

static int profile_filter(const struct dirent *entry)
{
	const char *dot = strrchr(entry->d_name, '.');
	return dot && dot != entry->d_name && strcmp(dot, ".profile") == 0;
}

struct profiles_options {
	uint32_t output;
};

/* One profile, read into `machine`, as a row of the table and as an object of the list.
 * -1: out of memory. */
static int profiles_add(const char *name, const struct sim_machine *machine, struct table *table,
			json_t *profiles)
{
	const char *model = machine->model[machine->gpu[0].model].name;

	table_add(table, name);
	table_addf(table, "%u", machine->gpu_count);
	table_addf(table, "%s (simulated)", model);
	table_add(table, machine->driver_version);

	return json_array_append_new(profiles, json_pack("{s:s, s:i, s:s, s:s, s:b}", "profile",
							 name, "gpus", (int)machine->gpu_count,
							 "model", model, "driver_version",
							 machine->driver_version, "simulated", 1));
}

static int profiles_run(const struct cmd_call *call)
{
	const struct profiles_options *options = call->options;
	static const struct table_column columns[] = {
	    {"PROFILE", TABLE_LEFT, false},
	    {"GPUS", TABLE_RIGHT, false},
	    {"MODEL", TABLE_LEFT, false},
	    {"DRIVER", TABLE_LEFT, false},
	};
	char directory[SIM_PATH_MAX];
	struct sim_error error = {0};
	struct dirent **list = NULL;

	sim_profiles_find();
	int count = scandir(profiles_directory(directory), &list, profile_filter, alphasort);
	_cleanup_table_ struct table *table =
	    table_new(columns, sizeof(columns) / sizeof(*columns));
	_cleanup_free_ struct sim_machine *machine = calloc(1, sizeof(*machine));
	json_t *profiles = json_array();
	if (count < 0 || !table || !machine || !profiles) {
		(void)sim_fail(&error, SIM_EXIT_FAILED, "cannot list the profiles in '%s': %s",
			       directory, strerror(errno));
		json_decref(profiles);
		return sim_exit_with(call, &error);
	}

	int rc = SIM_EXIT_OK;

	for (int i = 0; i < count; i++) {
		const struct sim_options how = {0};

		*strrchr(list[i]->d_name, '.') = '\0';
		if (sim_profile_load(list[i]->d_name, &how, machine, &error) == 0) {
			if (profiles_add(list[i]->d_name, machine, table, profiles) != 0)
				rc = SIM_EXIT_FAILED;
		} else {
			rc = sim_exit_with(call, &error);
		}

		free(list[i]);
	}

	free(list);
	bool printed = options->output == OPTION_OUTPUT_JSON
			   ? table_print_json(profiles, stdout, NULL) == 0
			   : table_print(table, stdout, table_width(stdout), NULL) == 0;

	json_decref(profiles);
	return printed ? rc : SIM_EXIT_FAILED;
}

static const struct option_row profiles_rows[] = {
    OPTION_OUTPUT(struct profiles_options, output),
    {0},
};

const struct command cmd_sim_profiles = {
    .name = "profiles",
    .summary = "List the machines that can be simulated",
    .group = CMD_GROUP_SIMULATOR,
    .run = profiles_run,
    .options = profiles_rows,
    .options_size = sizeof(struct profiles_options),
    .exits = exits,
};
