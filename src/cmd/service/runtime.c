/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice runtime configure`: CDI switched on in a container runtime, shown first, and undone. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cmd/cmd.h"
#include "cmd/diff.h"
#include "cmd/options.h"
#include "cmd/table.h"
#include "cdi/runtime/runtime.h"
#include "hardware/pci.h"

enum configure_limits {
	CONFIGURE_TIMEOUT_MS = 10000, /* for PROGRAM --version */
};

struct configure_options {
	enum runtime_kind runtime;
	bool apply, undo;
	const char *config;
	const char *root;
	const char *version;
	enum option_output output;
};

/* The exit code for what reading and writing gave. */
static int exit_of(int rc)
{
	switch (-rc) {
	case EINVAL:
	case E2BIG:
	case EFBIG:
	case ENOENT:
	case EISDIR:
		return CMD_EXIT_DATA;
	case EACCES:
	case EPERM:
		return CMD_EXIT_NOT_PERMITTED;
	case ENOMEM:
		return CMD_EXIT_FAILED;
	default:
		return CMD_EXIT_CANNOT_WRITE;
	}
}

/* --- output ---------------------------------------------------------------------------------- */

/* What is printed of one call. Texts borrowed; NULL: not there. */
struct runtime_report {
	const char *state;   /* "ready", "change", "cannot", "undone" */
	const char *text;    /* why, in a sentence */
	const char *version; /* of the runtime */
	const char *path;    /* what changes, or was changed */
	bool is_changed;     /* it was */
	const char *backup;  /* the copy beside it */
	const char *diff;
	const char *restart;		 /* what has to be run for it */
	const struct runtime_plan *plan; /* for its notes; NULL */
};

static int report_json(const struct configure_options *options, const struct runtime_report *report)
{
	json_t *notes = json_array();
	for (uint32_t i = 0; report->plan && i < report->plan->note_count; i++) {
		const struct runtime_note *note = &report->plan->notes[i];
		(void)json_array_append_new(notes,
					    json_pack("{s:b, s:o}", "warning", note->is_warning,
						      "text", table_json_text(note->text)));
	}

	json_t *json = json_pack(
	    "{s:s, s:o, s:s, s:o, s:o, s:b, s:o, s:o, s:o, s:o}", "runtime",
	    runtime_kind_to_string(options->runtime), "version", table_json_text(report->version),
	    "state", report->state, "text", table_json_text(report->text), "file",
	    table_json_text(report->path), "changed", report->is_changed, "backup",
	    table_json_text(report->backup), "diff", table_json_text(report->diff), "restart",
	    table_json_text(report->restart), "notes", notes);
	int rc = table_print_json(json, stdout, NULL);

	json_decref(json);
	return rc;
}

/* A text of several lines with tabs, each so that a terminal shows it and does nothing else. */
static void print_lines(const char *text)
{
	for (const char *next; *text; text = next) {
		size_t length = strcspn(text, "\t\n");
		next = text + length + (text[length] != '\0');

		char line[TABLE_CELL_MAX];
		(void)snprintf(line, sizeof(line), "%.*s", (int)length, text);
		cmd_print(stdout, line);

		if (text[length] != '\0')
			putchar(text[length]);
	}
}

static int report_text(const struct runtime_report *report)
{
	cmd_print(stdout, report->text);
	putchar('\n');

	for (uint32_t i = 0; report->plan && i < report->plan->note_count; i++) {
		const struct runtime_note *note = &report->plan->notes[i];
		printf("%s: ", note->is_warning ? "warning" : "note");
		cmd_print(stdout, note->text);
		putchar('\n');
	}

	if (report->diff) {
		putchar('\n');
		print_lines(report->diff);
		putchar('\n');
	}

	if (report->diff && !report->is_changed)
		printf("Nothing was changed: --apply does it.\n");

	if (report->is_changed && report->diff) {
		printf("Changed ");
		cmd_print(stdout, report->path);

		if (report->backup) {
			printf("; what was there before is in ");
			cmd_print(stdout, report->backup);
		}

		printf(". --undo takes it back.\n");
	}

	if (report->restart)
		printf("To take effect%s: %s\n", report->is_changed ? "" : ", after that",
		       report->restart);

	return 0;
}

static int report_print(const struct configure_options *options,
			const struct runtime_report *report)
{
	return options->output == OPTION_OUTPUT_JSON ? report_json(options, report)
						     : report_text(report);
}

/* --- the three things that it does ----------------------------------------------------------- */

static int undo_run(const struct cmd_call *call, const struct runtime_machine *machine)
{
	const struct configure_options *options = call->options;
	struct runtime_undone undone;
	struct err err = {0};
	int rc = runtime_undo(machine, &undone, &err);
	if (rc < 0)
		return cmd_fail(call, exit_of(rc), &err);

	bool is_changed = undone.path[0] != '\0';
	char text[FILE_PATH_MAX + 64];

	(void)snprintf(text, sizeof(text), "%s%s",
		       !is_changed ? "nothing of sluice is in the configuration: nothing to do"
		       : undone.is_removed ? "removed "
					   : "restored ",
		       undone.path);
	const struct runtime_report report = {
	    .state = "undone",
	    .text = text,
	    .path = is_changed ? undone.path : NULL,
	    .is_changed = is_changed,
	    .restart = is_changed ? runtime_restart(machine->kind) : NULL,
	};
	return report_print(options, &report) < 0 ? CMD_EXIT_FAILED : CMD_EXIT_OK;
}

/* The version that was given, or the one of the program that is installed. 0 or an exit code. */
static int find_version(const struct cmd_call *call, struct version *out)
{
	const struct configure_options *options = call->options;
	if (options->version) {
		if (version_parse(options->version, strlen(options->version), out) < 0)
			return cmd_usage(call,
					 "--runtime-version has to be a version such as 1.7.2");
		return 0;
	}

	char program[FILE_PATH_MAX];
	struct err err = {0};
	int rc = version_find_program(runtime_program(options->runtime), program, &err);
	if (rc < 0)
		(void)err_set(&err, rc,
			      "%s is not installed: there is no program '%s' in $PATH "
			      "(--runtime-version says what will be)",
			      runtime_kind_to_string(options->runtime),
			      runtime_program(options->runtime));
	else
		rc = version_ask(program, CONFIGURE_TIMEOUT_MS, out, &err);

	return rc < 0 ? cmd_fail(call, CMD_EXIT_FAILED, &err) : 0;
}

static int plan_run(const struct cmd_call *call, const struct runtime_machine *machine)
{
	const struct configure_options *options = call->options;
	_cleanup_runtime_plan_ struct runtime_plan plan;
	_cleanup_buf_ struct buf diff;

	buf_init(&diff, (size_t)4 * RUNTIME_TEXT_MAX);
	struct err err = {0};
	int rc = runtime_plan(machine, &plan, &err);
	bool changes = rc == 0 && plan.state == RUNTIME_CHANGE;

	if (changes)
		rc = diff_add(plan.path, plan.is_new, &plan.before, &plan.after, &diff);
	if (rc == 0 && changes && options->apply)
		rc = runtime_apply(&plan, &err);
	if (rc < 0 && err.code == 0)
		(void)err_set(&err, rc, "%s", err_describe(rc));
	if (rc < 0)
		return cmd_fail(call, exit_of(rc), &err);

	char backup[FILE_PATH_MAX] = "";
	bool has_backup = changes && options->apply && plan.needs_backup && !plan.is_new;

	if (has_backup)
		(void)file_path(backup, NULL, "%s%s", plan.path, RUNTIME_BACKUP);

	const struct runtime_report report = {
	    .state = runtime_state_to_string(plan.state),
	    .text = plan.text,
	    .version = machine->version.text,
	    .path = changes ? plan.path : NULL,
	    .is_changed = changes && options->apply,
	    .backup = has_backup ? backup : NULL,
	    .diff = changes ? buf_text(&diff) : NULL,
	    .restart = changes ? runtime_restart(machine->kind) : NULL,
	    .plan = &plan,
	};
	if (report_print(options, &report) < 0)
		return CMD_EXIT_FAILED;

	return plan.state == RUNTIME_CANNOT ? CMD_EXIT_FAILED : CMD_EXIT_OK;
}

/* --- the command ----------------------------------------------------------------------------- */

static int configure_run(const struct cmd_call *call)
{
	const struct configure_options *options = call->options;
	bool has_file =
	    options->runtime == RUNTIME_DOCKER || options->runtime == RUNTIME_CONTAINERD;

	if (options->apply && options->undo)
		return cmd_usage(call, "--apply and --undo cannot be given together");
	if (options->config && !has_file)
		return cmd_usage(call, "%s needs no change, so --config has no meaning for it",
				 runtime_kind_to_string(options->runtime));
	if (options->root && *options->root != '/')
		return cmd_usage(call, "--root has to be an absolute path");
	if (options->root && options->config && *options->config != '/')
		return cmd_usage(call, "--config has to be an absolute path below --root");

	if (options->root && !options->version && !options->undo)
		return cmd_usage(call,
				 "--root needs --runtime-version: the programs of this machine "
				 "are not those of that one");

	struct runtime_machine machine = {.kind = options->runtime, .config = options->config};
	char root[FILE_PATH_MAX];
	const char *given = options->root ? options->root : pci_root();
	struct err err = {0};

	if (strcmp(given, PCI_NO_ROOT) == 0) {
		(void)err_set(&err, -ENOENT, "the simulated machine has no files; say --root");
		return cmd_fail(call, CMD_EXIT_FAILED, &err);
	}

	size_t length = strlen(given);
	while (length > 0 && given[length - 1] == '/')
		length--;

	int rc = file_path(root, &err, "%.*s", (int)length, given);
	if (rc < 0)
		return cmd_fail(call, CMD_EXIT_USAGE, &err);

	machine.root = root;
	if (options->undo)
		return undo_run(call, &machine);

	rc = find_version(call, &machine.version);
	return rc != 0 ? rc : plan_run(call, &machine);
}

static const struct option_row configure_options[] = {
    {.name = "runtime",
     .kind = OPTION_CHOICE,
     .words = "podman|docker|containerd|crio",
     .help = "the container runtime",
     .required = true,
     OPTION_FIELD(struct configure_options, runtime)},
    {.name = "apply",
     .kind = OPTION_FLAG,
     .help = "change what has to be changed; else it is only printed",
     OPTION_FIELD(struct configure_options, apply)},
    {.name = "undo",
     .kind = OPTION_FLAG,
     .help = "take back what --apply did, if it is still as it was left",
     OPTION_FIELD(struct configure_options, undo)},
    {.name = "config",
     .kind = OPTION_PATH,
     .help = "the runtime's configuration file, where it is not the usual one",
     OPTION_FIELD(struct configure_options, config)},
    {.name = "runtime-version",
     .kind = OPTION_TEXT,
     .value = "VERSION",
     .help = "the runtime's version, instead of asking the program that is installed",
     OPTION_FIELD(struct configure_options, version)},
    {.name = "root",
     .kind = OPTION_PATH,
     .value = "DIR",
     .help = "work on the files below this directory: an image, or another machine's disk",
     OPTION_FIELD(struct configure_options, root)},
    OPTION_OUTPUT(struct configure_options, output),
    {.name = NULL},
};

static const struct cmd_exit_row configure_exits[] = {
    {CMD_EXIT_OK, "done, or nothing to do; without --apply: printed"},
    {CMD_EXIT_FAILED, "CDI cannot work in this runtime, or it is not installed"},
    {CMD_EXIT_DATA, "a file is not understood, is in the way, or was changed since --apply"},
    {CMD_EXIT_CANNOT_WRITE, "a file cannot be written"},
    {CMD_EXIT_NOT_PERMITTED, "this user may not read or write a file"},
    {0, NULL},
};

static const struct cmd_example configure_examples[] = {
    {"sluice runtime configure --runtime docker", "show what would be changed for docker"},
    {"sluice runtime configure --runtime containerd --apply",
     "switch CDI on in containerd; prints how to restart it"},
    {"sluice runtime configure --runtime containerd --undo", "as it was before"},
    {NULL, NULL},
};

static const struct command runtime_configure = {
    .name = "configure",
    .summary = "Switch CDI on in a container runtime",
    .description =
	"Says whether the container runtime of this machine does CDI, and what has to be changed "
	"for it, as a difference. Only --apply changes anything: it merges into what is there, "
	"keeps every other byte, owner and mode, and leaves a copy of an edited file beside it, as "
	"FILE.sluice-bak. --undo brings that back. Nothing is restarted: the command for it is "
	"printed.\n\n"
	"What else stands in the way is said as well: hooks and runtimes of NVIDIA that still run "
	"beside CDI, directories of specifications that are not read, and SELinux.",
    .group = CMD_GROUP_SERVICE,
    .run = configure_run,
    .options = configure_options,
    .options_size = sizeof(struct configure_options),
    .exits = configure_exits,
    .examples = configure_examples,
};

static const struct command *const verbs[] = {&runtime_configure, NULL};

static const struct cmd_example examples[] = {
    {"sluice runtime configure --runtime docker", "show what would be changed for docker"},
    {NULL, NULL},
};

const struct command cmd_runtime = {
    .name = "runtime",
    .summary = "Prepare container runtimes for CDI",
    .description =
	"Container runtimes give GPUs to containers by CDI, without a hook. Some do it by "
	"themselves, some after a change of their configuration, some not at all.",
    .group = CMD_GROUP_SERVICE,
    .commands = verbs,
    .examples = examples,
};
