/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice config check`, `show` and `resources`. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/paths.h"
#include "base/buf.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/service/config_jobs.h"
#include "cmd/service/config_rdma.h"
#include "cmd/machine/machine.h"
#include "cmd/options.h"
#include "cmd/settings.h"
#include "cmd/table.h"
#include "policy/config.h"
#include "policy/policy.h"

struct config_options {
	enum option_output output;
	bool strict;
	struct settings settings;
};

#define CONFIG_STRICT_ROW                                                                          \
	{                                                                                          \
		.name = "strict", .kind = OPTION_FLAG, .help = "take warnings for errors",         \
		OPTION_FIELD(struct config_options, strict)                                        \
	}

static void config_cleanup(struct config **config)
{
	*config = config_free(*config);
}

/* --- check ----------------------------------------------------------------------------------- */

static json_t *check_json(const char *file, const struct config *config, const struct err *err)
{
	json_t *warnings = json_array();

	for (uint32_t i = 0; config && i < config->warning_count && i < CONFIG_WARNINGS_MAX; i++) {
		const struct config_warning *warning = &config->warning[i];
		(void)json_array_append_new(
		    warnings, json_pack("{s:i, s:i, s:b, s:o}", "line", (int)warning->line,
					"column", (int)warning->column, "note", warning->is_note,
					"text", table_json_text(warning->text)));
	}

	return json_pack("{s:o, s:b, s:o, s:o}", "file", table_json_text(file), "ok",
			 config != NULL, "error", config ? json_null() : table_json_text(err->text),
			 "warnings", warnings);
}

static void print_warnings(FILE *out, const char *file, const struct config *config)
{
	for (uint32_t i = 0; i < config->warning_count && i < CONFIG_WARNINGS_MAX; i++) {
		cmd_print(out, file);
		fprintf(out, ":%" PRIu32 ":%" PRIu32 ": %s: ", config->warning[i].line,
			config->warning[i].column, config->warning[i].is_note ? "note" : "warning");
		cmd_print(out, config->warning[i].text);
		fputc('\n', out);
	}

	if (config->warning_count > CONFIG_WARNINGS_MAX)
		fprintf(out, "%s: %" PRIu32 " more warnings\n", file,
			config->warning_count - CONFIG_WARNINGS_MAX);
}

static void check_text(const char *file, const struct config *config, const struct err *err)
{
	if (!config) {
		cmd_print(stdout, err->text);
		putchar('\n');
		return;
	}

	print_warnings(stdout, file, config);
	cmd_print(stdout, file);
	printf(": ok\n");
}

static int check_run(const struct cmd_call *call)
{
	const struct config_options *options = call->options;
	bool json = options->output == OPTION_OUTPUT_JSON;
	json_t *results = json_array();
	int status = CMD_EXIT_OK;

	for (int i = 0; i < call->argc; i++) {
		_cleanup_(config_cleanup) struct config *config = NULL;
		struct err err = {0};

		if (config_load_any(call->argv[i], NULL, options->strict, &config, &err) < 0)
			status = CMD_EXIT_FAILED;

		if (json)
			(void)json_array_append_new(results,
						    check_json(call->argv[i], config, &err));
		else
			check_text(call->argv[i], config, &err);
	}

	struct err err = {0};
	if (json && table_print_json(results, stdout, &err) < 0)
		status = cmd_fail(call, CMD_EXIT_FAILED, &err);
	json_decref(results);

	return status;
}

static const struct option_row check_options[] = {
    CONFIG_STRICT_ROW,
    OPTION_OUTPUT(struct config_options, output),
    {.name = NULL},
};

static const struct cmd_exit_row check_exits[] = {
    {CMD_EXIT_OK, "every file would be accepted; there may be warnings"},
    {CMD_EXIT_FAILED, "a file was refused or cannot be read"},
    {0, NULL},
};

static const struct cmd_example check_examples[] = {
    {"sluice config check config.yaml",
     "says whether this file would be accepted, and what is odd"},
    {NULL, NULL},
};

static const struct command config_check = {
    .name = "check",
    .summary = "Say whether a configuration file would be accepted",
    .description =
	"Reads each FILE as the service would and prints what is wrong with it, as "
	"FILE:LINE:COLUMN: KEY: what was expected and what was found. It looks at the file alone: "
	"whether the GPUs that it names are in this machine is not checked.\n\n"
	"Files of the NVIDIA device plugin are accepted as they are. A key that is not known is a "
	"warning there, and an error in our own part, sluice. A file with configList at its top is "
	"read as one of Mellanox's k8s-rdma-shared-dev-plugin; what that plugin would refuse and "
	"sluice does not is a note.",
    .group = CMD_GROUP_SERVICE,
    .run = check_run,
    .options = check_options,
    .options_size = sizeof(struct config_options),
    .positional = "FILE...",
    .positional_min = 1,
    .positional_max = CMD_ARGUMENTS_ANY,
    .exits = check_exits,
    .examples = check_examples,
};

/* --- show ------------------------------------------------------------------------------------ */

enum show_limits {
	SHOW_COMMENT_COLUMN = 52,
};

/* A value as YAML: texts quoted as JSON does it, lists of words in brackets. */
static void show_value(const struct schema_row *row, const char *value, char *out, size_t size)
{
	if (schema_is_list(row)) {
		(void)snprintf(out, size, "[%s]", value);
	} else if (row->type == SCHEMA_TEXT) {
		json_t *text = table_json_text(value);
		char *dumped = text ? json_dumps(text, JSON_ENCODE_ANY) : NULL;

		(void)snprintf(out, size, "%s", dumped ? dumped : "\"\"");
		free(dumped);
		json_decref(text);
	} else {
		(void)snprintf(out, size, "%s", value);
	}
}

static int depth_of(const char *path)
{
	int depth = 0;
	while ((path = strchr(path, '.'))) {
		depth++;
		path++;
	}
	return depth;
}

/* Opens the maps that `path` is in and `before` was not, and prints the indent of its last key. */
static const char *show_key(const char *before, const char *path)
{
	size_t common = 0;
	for (size_t i = 0; path[i] == before[i] && path[i] != '\0'; i++) {
		if (path[i] == '.')
			common = i + 1;
	}

	int depth = 0;
	const char *at = path;
	for (const char *dot; (dot = strchr(at, '.')); at = dot + 1, depth++) {
		if ((size_t)(at - path) >= common)
			printf("%*s%.*s:\n", 2 * depth, "", (int)(dot - at), at);
	}

	printf("%*s", 2 * depth, "");
	return at;
}

/* : [0, "GPU-...", "name:*T4*"] behind the key that was just printed. */
static void show_selectors(const struct config_selectors *selectors)
{
	printf(": [");

	for (size_t i = 0; i < selectors->count; i++) {
		const struct config_selector *selector = &selectors->items[i];
		const char *prefix = selector->kind == CONFIG_SELECT_NAME ? "name:" : "";
		bool plain = selector->kind == CONFIG_SELECT_INDEX;
		printf("%s%s%s%s%s", i ? ", " : "", plain ? "" : "\"", prefix, selector->text,
		       plain ? "" : "\"");
	}

	printf("]\n");
}

static void show_shares(const struct config_sharing *sharing)
{
	printf("    resources:\n");

	for (size_t i = 0; i < sharing->count; i++) {
		const struct config_share *share = &sharing->items[i];
		printf("    - name: %s\n      replicas: %" PRIu32 "\n", share->name,
		       share->replicas);
		if (*share->rename)
			printf("      rename: %s\n", share->rename);

		if (share->devices == CONFIG_DEVICES_ALL) {
			printf("      devices: all\n");
		} else if (share->devices == CONFIG_DEVICES_COUNT) {
			printf("      devices: %" PRIu32 "\n", share->device_count);
		} else {
			printf("      devices");
			show_selectors(&share->device_list);
		}
	}
}

static void show_rules(const char *name, const struct config_rules *rules)
{
	if (rules->count == 0)
		return;
	printf("  %s:\n", name);
	for (size_t i = 0; i < rules->count; i++)
		printf("  - {pattern: \"%s\", name: %s}\n", rules->items[i].pattern,
		       rules->items[i].name);
}

static void show_door(const char *before, enum policy_door door, const struct config_door *of)
{
	char path[64];

	if (!of->is_set)
		return;

	(void)snprintf(path, sizeof(path), "sluice.doors.%s.devices", policy_door_to_string(door));
	printf("%s", show_key(before, path));
	if (of->all)
		printf(": all\n");
	else
		show_selectors(&of->devices);
}

/* The lists behind the setting that stands before them in the same map. */
static void show_lists(const struct config *config, enum schema_id id)
{
	const char *before = schema_row(id)->path;

	switch (id) {
	case SCHEMA_TIME_SLICING_ONE:
		show_shares(&config->time_slicing);
		break;
	case SCHEMA_IMEX_REQUIRED:
		if (config->gpu_rules.count + config->mig_rules.count > 0)
			printf("resources:\n");
		show_rules("gpus", &config->gpu_rules);
		show_rules("mig", &config->mig_rules);
		break;
	case SCHEMA_KUBELET_INJECT:
		for (int door = 0; door < POLICY_DOOR_NONE; door++)
			show_door(before, (enum policy_door)door, &config->doors[door]);
		break;
	default:
		break;
	}
}

/* Behind the last setting, which is one of `sluice`. */
static void show_devices(const struct config *config)
{
	const char *before = "sluice.x";

	if (config->include.count > 0) {
		printf("%s", show_key(before, "sluice.devices.include"));
		show_selectors(&config->include);
		before = "sluice.devices.x";
	}

	if (config->exclude.count > 0) {
		printf("%s", show_key(before, "sluice.devices.exclude"));
		show_selectors(&config->exclude);
	}

	bool is_any_set = false;
	for (int door = 0; door < POLICY_DOOR_NONE; door++)
		is_any_set |= config->doors[door].is_set;

	if (config->include.count + config->exclude.count == 0 && !is_any_set)
		printf("# all devices, for the kubelet if there is one, else for the queue\n");
}

/* The file, or the places where the service would have found one. */
static void show_file(const char *file)
{
	char places[AGENT_PATHS_PLACES][FILE_PATH_MAX];
	bool is_named;
	int count = file[0] ? 0 : agent_paths_places(NULL, places, &is_named, NULL);

	printf("# file: ");
	cmd_print(stdout, file[0] ? file : "none");

	for (int i = 0; i < count; i++) {
		fputs(i == 0 ? " (looked for " : ", ", stdout);
		cmd_print(stdout, places[i]);
	}

	puts(count > 0 ? ")" : "");
}

static void show_text(const char *file, const struct config *config)
{
	const char *before = "";

	show_file(file);

	for (size_t i = 0; i < SCHEMA_COUNT; i++) {
		const struct schema_row *row = schema_row((enum schema_id)i);
		bool of_sharing = text_starts_with(row->path, "sharing.");
		if (of_sharing && config->time_slicing.count == 0)
			continue; /* a block without resources would be refused */
		if (i == SCHEMA_RDMA_FILE && config->rdma.is_set)
			continue; /* both would be refused */

		char value[CONFIG_TEXT_MAX], yaml[2 * CONFIG_TEXT_MAX];
		if (schema_format(config, (enum schema_id)i, value, sizeof(value)) < 0)
			continue;

		show_value(row, value, yaml, sizeof(yaml));
		const char *key = show_key(before, row->path);
		int written = 2 * depth_of(row->path) + printf("%s: %s", key, yaml);

		printf("%*s  # %s\n",
		       written < SHOW_COMMENT_COLUMN ? SHOW_COMMENT_COLUMN - written : 0, "",
		       config_source_to_string(config->source[i]));
		show_lists(config, (enum schema_id)i);
		before = row->path;
	}

	config_jobs_print(config);
	config_rdma_print(config);
	show_devices(config);
}

static json_t *show_json(const char *file, const struct config *config)
{
	json_t *settings = json_array();

	for (size_t i = 0; i < SCHEMA_COUNT; i++) {
		char value[CONFIG_TEXT_MAX];
		if (schema_format(config, (enum schema_id)i, value, sizeof(value)) < 0)
			continue;

		(void)json_array_append_new(settings,
					    json_pack("{s:s, s:o, s:s}", "path",
						      schema_row((enum schema_id)i)->path, "value",
						      table_json_text(value), "source",
						      config_source_to_string(config->source[i])));
	}

	json_t *shares = json_array();

	for (size_t i = 0; i < config->time_slicing.count; i++) {
		const struct config_share *share = &config->time_slicing.items[i];
		json_t *devices = json_array();
		for (size_t k = 0; k < share->device_list.count; k++)
			(void)json_array_append_new(
			    devices, table_json_text(share->device_list.items[k].text));

		if (share->devices != CONFIG_DEVICES_LIST) {
			json_decref(devices);
			devices = share->devices == CONFIG_DEVICES_ALL
				      ? json_string("all")
				      : json_integer(share->device_count);
		}

		(void)json_array_append_new(shares,
					    json_pack("{s:s, s:s, s:i, s:o}", "name", share->name,
						      "rename", share->rename, "replicas",
						      (int)share->replicas, "devices", devices));
	}

	return json_pack("{s:o, s:o, s:o, s:o*, s:o*}", "file",
			 file[0] ? table_json_text(file) : json_null(), "settings", settings,
			 "timeSlicing", shares, "jobs", config_jobs_json(config), "rdma",
			 config_rdma_json(config));
}

/* The effective configuration of a call and the `file` that it is of ("": none); warnings go to
 * standard error. 0 or -errno with `err`. */
static int show_config(const struct cmd_call *call, char file[FILE_PATH_MAX], struct config **out,
		       struct err *err)
{
	const struct config_options *options = call->options;
	struct config_overrides overrides = {0};
	struct settings_words words;
	int rc = settings_overrides(&options->settings, &words, &overrides, err);
	if (rc < 0)
		return rc;

	config_overrides_environment(&overrides);

	/* As the service finds it, so that what is shown is what holds. */
	rc = agent_paths_config(call->argc > 0 ? call->argv[0] : NULL, file, err);
	if (rc < 0)
		return rc;
	if (!file[0])
		return config_parse(NULL, 0, "defaults", &overrides, options->strict, out, err);

	/* Somebody who named a file is told of it by that name. */
	const char *name = call->argc > 0 ? call->argv[0] : file;
	rc = config_load_any(name, &overrides, options->strict, out, err);
	if (rc >= 0)
		print_warnings(stderr, name, *out);

	return rc;
}

static int show_run(const struct cmd_call *call)
{
	const struct config_options *options = call->options;
	_cleanup_(config_cleanup) struct config *config = NULL;
	struct err err = {0};
	char file[FILE_PATH_MAX];
	int rc = show_config(call, file, &config, &err);
	if (rc < 0)
		return cmd_fail(call, CMD_EXIT_FAILED, &err);

	if (options->output == OPTION_OUTPUT_JSON) {
		json_t *json = show_json(file, config);
		rc = table_print_json(json, stdout, &err);
		json_decref(json);
		return rc < 0 ? cmd_fail(call, CMD_EXIT_FAILED, &err) : CMD_EXIT_OK;
	}

	show_text(file, config);
	return CMD_EXIT_OK;
}

#define SETTINGS_TYPE struct config_options

static const struct option_row show_options[] = {
#include "cmd/settings.def"
    CONFIG_STRICT_ROW,
    OPTION_OUTPUT(struct config_options, output),
    {.name = NULL},
};

static const struct cmd_exit_row show_exits[] = {
    {CMD_EXIT_FAILED, "the configuration was refused or cannot be read"},
    {0, NULL},
};

static const struct cmd_example show_examples[] = {
    {"sluice config show", "what holds for the service that this user would start"},
    {"sluice config show --mig-strategy mixed config.yaml",
     "what would hold with this file and this flag"},
    {NULL, NULL},
};

static const struct command config_show = {
    .name = "show",
    .summary = "Print the effective configuration and where each value came from",
    .description =
	"Puts together the command line, the environment, FILE and the defaults, in this order of "
	"precedence, and prints the result as a file that could be given again, with the source of "
	"each value as a comment. Without FILE it is the file that the service reads: "
	"$SLUICE_CONFIG, $CONFIG_FILE, an ordinary user's own, /etc/sluice/config.yaml. A file of "
	"k8s-rdma-shared-dev-plugin is shown as the part of sluice.yaml(5) that means the same.\n\n"
	"The flags and variables are those of the NVIDIA device plugin.",
    .group = CMD_GROUP_SERVICE,
    .run = show_run,
    .options = show_options,
    .options_size = sizeof(struct config_options),
    .positional = "[FILE]",
    .positional_max = 1,
    .exits = show_exits,
    .examples = show_examples,
};

/* --- resources ------------------------------------------------------------------------------- */

static void policy_cleanup(struct policy **policy)
{
	*policy = policy_free(*policy);
}

/* "GPU 0-3: 5 replicas each": the devices of a resource, neighbours of one kind together. */
static void resources_devices(const struct machine *machine, const struct policy *policy,
			      const struct policy_resource *resource, struct buf *out)
{
	const struct policy_unit *units = &policy->units[resource->first];
	uint32_t i = 0;

	while (i < resource->count) {
		const struct policy_unit *unit = &units[i];
		const struct gpu *gpu = &machine->inventory.gpus[unit->gpu];
		uint32_t last = gpu->index;
		uint32_t next = i + unit->replicas;
		bool whole = unit->mig == POLICY_WHOLE_GPU;

		while (whole && next < resource->count && units[next].mig == POLICY_WHOLE_GPU &&
		       units[next].replicas == unit->replicas &&
		       machine->inventory.gpus[units[next].gpu].index == last + 1) {
			last++;
			next += unit->replicas;
		}

		(void)buf_printf(out, "%s%" PRIu32, i ? ", " : "", gpu->index);
		if (!whole)
			(void)buf_printf(out, ":%" PRIu32,
					 machine->inventory.migs[unit->mig].index);
		else if (last != gpu->index)
			(void)buf_printf(out, "-%" PRIu32, last);

		if (unit->replicas > 1)
			(void)buf_printf(out, " x %" PRIu32, unit->replicas);
		i = next;
	}
}

static int resources_table(const struct machine *machine, const struct policy *policy,
			   const struct config *config, struct err *err)
{
	static const struct table_column columns[] = {
	    {"RESOURCE", TABLE_LEFT, false},
	    {"DOOR", TABLE_LEFT, false},
	    {"UNITS", TABLE_RIGHT, false},
	    {"GPUS", TABLE_LEFT, true},
	};

	machine_headline(&machine->inventory);
	_cleanup_table_ struct table *table = table_new(columns, array_length(columns));
	if (!table)
		return err_set(err, -ENOMEM, "out of memory");

	for (uint32_t i = 0; i < policy->resource_count; i++) {
		const struct policy_resource *resource = &policy->resources[i];
		_cleanup_buf_ struct buf devices;

		buf_init(&devices, TABLE_CELL_MAX);
		resources_devices(machine, policy, resource, &devices);
		table_add(table, resource->name);
		table_add(table, policy_door_to_string(resource->door));
		table_addf(table, "%" PRIu32, resource->count);
		table_add(table, buf_text(&devices));
	}

	int rc = table_print(table, stdout, table_width(stdout), err);

	if (policy->problem[0] != '\0')
		printf("\nnothing is handed out: %s\n", policy->problem);

	for (uint32_t i = 0; i < policy->warning_count && i < POLICY_WARNINGS_MAX; i++)
		printf("%swarning: %s\n", i ? "" : "\n", policy->warning[i]);

	return rc < 0 ? rc : config_rdma_resources_print(config, err);
}

static int resources_json(const struct machine *machine, const struct policy *policy,
			  const struct config *config, struct err *err)
{
	json_t *root = machine_json(&machine->inventory);
	json_t *resources = json_array(), *warnings = json_array();

	for (uint32_t i = 0; i < policy->resource_count; i++) {
		const struct policy_resource *resource = &policy->resources[i];
		json_t *units = json_array();
		for (uint32_t k = 0; k < resource->count; k++)
			(void)json_array_append_new(
			    units, table_json_text(policy->units[resource->first + k].id));

		(void)json_array_append_new(
		    resources, json_pack("{s:s, s:s, s:b, s:o}", "name", resource->name, "door",
					 policy_door_to_string(resource->door), "shared",
					 resource->shared, "units", units));
	}

	for (uint32_t i = 0; i < policy->warning_count && i < POLICY_WARNINGS_MAX; i++)
		(void)json_array_append_new(warnings, table_json_text(policy->warning[i]));

	(void)json_object_set_new(root, "resources", resources);
	(void)json_object_set_new(
	    root, "problem", *policy->problem ? table_json_text(policy->problem) : json_null());
	(void)json_object_set_new(root, "warnings", warnings);

	json_t *rdma = NULL;
	int rc = config_rdma_resources_json(config, &rdma, err);

	(void)json_object_set_new(root, "rdma", rdma ? rdma : json_null());
	rc = rc < 0 ? rc : table_print_json(root, stdout, err);
	json_decref(root);

	return rc;
}

static int resources_run(const struct cmd_call *call)
{
	const struct config_options *options = call->options;
	_cleanup_(config_cleanup) struct config *config = NULL;
	_cleanup_(policy_cleanup) struct policy *policy = NULL;
	_cleanup_machine_ struct machine machine = {.snapshot = NULL};
	struct err err = {0};
	char file[FILE_PATH_MAX];

	if (show_config(call, file, &config, &err) < 0)
		return cmd_fail(call, CMD_EXIT_FAILED, &err);

	int code = machine_read(call, MACHINE_TIMEOUT_NS, &machine, NULL, NULL);
	if (code != 0)
		return code;

	char plugins[FILE_PATH_MAX];
	const char *root = getenv("SLUICE_ROOT");
	int rc = file_path(plugins, &err, "%s/var/lib/kubelet/device-plugins", root ? root : "");
	const struct policy_surroundings surroundings = {
	    .has_kubelet = rc == 0 && file_exists(plugins),
	    .visible_devices = getenv("NVIDIA_VISIBLE_DEVICES"),
	};

	if (rc == 0)
		rc = policy_make(&machine.inventory, config, &surroundings, &policy, &err);
	if (rc == 0 && options->strict && policy->warning_count > 0)
		rc = err_set(&err, -EINVAL, "%s: %s", file[0] ? file : "configuration",
			     policy->warning[0]);
	if (rc == 0)
		rc = options->output == OPTION_OUTPUT_JSON
			 ? resources_json(&machine, policy, config, &err)
			 : resources_table(&machine, policy, config, &err);

	return rc < 0 ? cmd_fail(call, CMD_EXIT_FAILED, &err) : CMD_EXIT_OK;
}

static const struct cmd_exit_row resources_exits[] = {
    {CMD_EXIT_FAILED, "the configuration was refused, or does not fit this machine"},
    {CMD_EXIT_UNAVAILABLE, "there is no usable NVIDIA driver"},
    {CMD_EXIT_NOT_PERMITTED, "this user may not use the driver"},
    {CMD_EXIT_DEADLINE, "the driver as a whole did not answer in time"},
    {0, NULL},
};

static const struct cmd_example resources_examples[] = {
    {"sluice config resources config.yaml",
     "what Kubernetes and the queue would be offered with this file"},
    {NULL, NULL},
};

static const struct command config_resources = {
    .name = "resources",
    .summary = "Show what this machine would hand out with a configuration",
    .description =
	"Applies the effective configuration, put together as by sluice config show, to the GPUs "
	"that are here: which resources there would be, which door would hand them out, how many "
	"units each has and of which GPUs, and the same for RDMA adapters if any are configured. "
	"Nothing is changed. 0-3 x 5 are five replicas each of "
	"the GPUs 0 to 3; 4:1 is MIG device 1 of GPU 4.\n\n"
	"What does not fit this machine now, such as a device in a list that is not here, is a "
	"warning, because it may come. With --strict it is an error.",
    .group = CMD_GROUP_SERVICE,
    .run = resources_run,
    .options = show_options,
    .options_size = sizeof(struct config_options),
    .positional = "[FILE]",
    .positional_max = 1,
    .exits = resources_exits,
    .examples = resources_examples,
};

/* --- keys ------------------------------------------------------------------------------------ */

/* "true|false", "none|single|mixed", "text": what may stand behind a key. */
static const char *keys_values(const struct schema_row *row)
{
	switch (row->type) {
	case SCHEMA_BOOL:
		return "true|false";
	case SCHEMA_DURATION:
		return "duration";
	case SCHEMA_TEXT:
		return "text";
	case SCHEMA_CODES:
		return "numbers";
	case SCHEMA_NAMES:
		return "names";
	case SCHEMA_NUMBER:
		return "number";
	case SCHEMA_SIZE:
		return "size";
	case SCHEMA_CPUS:
		return "processors";
	default:
		return row->words;
	}
}

static int keys_json(struct err *err)
{
	json_t *keys = json_array();

	for (size_t i = 0; i < SCHEMA_COUNT; i++) {
		const struct schema_row *row = schema_row((enum schema_id)i);
		(void)json_array_append_new(
		    keys, json_pack("{s:s, s:s, s:b, s:s, s:s?, s:s?, s:s?, s:s}", "key", row->path,
				    "values", keys_values(row), "list", schema_is_list(row),
				    "default", row->default_text, "flag", row->flag, "other_flag",
				    row->other_flag, "variable", row->variable, "help", row->help));
	}

	int rc = table_print_json(keys, stdout, err);
	json_decref(keys);
	return rc;
}

static int keys_table(struct err *err)
{
	static const struct table_column columns[] = {
	    {"KEY", TABLE_LEFT, false},	    {"VALUES", TABLE_LEFT, true},
	    {"DEFAULT", TABLE_LEFT, true},  {"FLAG", TABLE_LEFT, true},
	    {"VARIABLE", TABLE_LEFT, true},
	};
	_cleanup_table_ struct table *table = table_new(columns, array_length(columns));
	if (!table)
		return err_set(err, -ENOMEM, "out of memory");

	for (size_t i = 0; i < SCHEMA_COUNT; i++) {
		const struct schema_row *row = schema_row((enum schema_id)i);
		table_add(table, row->path);
		table_add(table, keys_values(row));
		table_add(table, row->default_text);

		if (row->flag)
			table_addf(table, "--%s", row->flag);
		else
			table_add(table, NULL);

		table_add(table, row->variable);
	}

	return table_print(table, stdout, table_width(stdout), err);
}

static int keys_run(const struct cmd_call *call)
{
	const struct config_options *options = call->options;
	struct err err = {0};
	int rc = options->output == OPTION_OUTPUT_JSON ? keys_json(&err) : keys_table(&err);
	return rc < 0 ? cmd_fail(call, CMD_EXIT_FAILED, &err) : CMD_EXIT_OK;
}

static const struct option_row keys_options[] = {
    OPTION_OUTPUT(struct config_options, output),
    {.name = NULL},
};

static const struct command config_keys = {
    .name = "keys",
    .summary = "List the settings of the configuration file",
    .description =
	"Prints every setting that is one value: its key, what it may be, its default, its flag "
	"and "
	"its environment variable. The lists (resources, sharing, devices and doors) are described "
	"in sluice.yaml(5).",
    .group = CMD_GROUP_SERVICE,
    .run = keys_run,
    .options = keys_options,
    .options_size = sizeof(struct config_options),
};

static const struct command *const config_commands[] = {&config_check, &config_show,
							&config_resources, &config_keys, NULL};

const struct command cmd_config = {
    .name = "config",
    .summary = "Check the configuration and show what follows from it",
    .group = CMD_GROUP_SERVICE,
    .commands = config_commands,
};
