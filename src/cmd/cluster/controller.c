/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice controller`: what concerns MPIJobs on a cluster. Its one verb converts old files; a
 * controller that runs them does not exist yet, and the help says so.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/yaml.h"
#include "base/yaml_write.h"
#include "cmd/cmd.h"
#include "cmd/options.h"
#include "job/file/jobfile_arena.h"
#include "job/file/convert.h"

enum { CONTROLLER_OUTPUT_MAX = 16 << 20 };

struct convert_options {
	const char *file;
};

static const struct option_row convert_rows[] = {
    {.name = "file",
     .letter = 'f',
     .kind = OPTION_PATH,
     .help = "the file to convert, YAML or JSON, with one document or several (default: standard "
	     "input)",
     OPTION_FIELD(struct convert_options, file)},
    {0},
};

struct conversion {
	const char *name;
	bool was_told; /* something of this document */
};

static int conversion_told(uint32_t line, const char *text, bool is_unknown, void *context)
{
	struct conversion *conversion = context;
	char whole[ERR_TEXT_MAX + 256];

	(void)snprintf(whole, sizeof(whole), "# %.200s:%u: %s%s", conversion->name, line,
		       is_unknown ? "warning: " : "", text);
	cmd_print(stderr, whole);
	fputc('\n', stderr);
	conversion->was_told = true;

	return 0;
}

static int conversion_document(struct conversion *conversion, const struct yaml_node *document,
			       struct jobfile_arena *arena, struct buf *out, struct err *err)
{
	const struct yaml_node *kind = yaml_get(document, "kind");
	const struct yaml_node *version = yaml_get(document, "apiVersion");
	int rc = 0;

	if (convert_is_needed(document)) {
		rc = convert_document(document, conversion->name, arena, conversion_told,
				      conversion, &document, err);
	} else if (!kind || kind->kind != YAML_SCALAR || strcmp(kind->text, "MPIJob") != 0) {
		rc = conversion_told(document->line, "no MPIJob: kept as it is", false, conversion);
	} else if (!version || strcmp(version->text, "kubeflow.org/v2beta1") != 0) {
		return err_set(err, -EINVAL, "%s:%u:%u: no version of MPIJob that can be converted",
			       conversion->name, kind->line, kind->column);
	}

	if (rc == 0 && out->length > 0)
		rc = buf_add_text(out, "---\n");
	if (rc == 0)
		rc = yaml_write(document, out, err);

	return rc;
}

static int controller_convert(const struct cmd_call *call)
{
	const struct convert_options *options = call->options;
	bool is_stdin = !options->file || strcmp(options->file, "-") == 0;
	struct conversion conversion = {.name = is_stdin ? "standard input" : options->file};
	struct err err = {0};
	struct yaml *yaml = NULL;
	struct jobfile_arena arena = {0};
	_cleanup_buf_ struct buf text, out;

	buf_init(&text, YAML_TEXT_MAX);
	buf_init(&out, CONTROLLER_OUTPUT_MAX);

	int rc = is_stdin ? file_read_open(STDIN_FILENO, conversion.name, &text, &err)
			  : file_read(options->file, &text, &err);
	if (rc == 0)
		rc = yaml_parse_stream(buf_text(&text), text.length, conversion.name, &yaml, &err);

	for (size_t i = 0; rc == 0 && i < yaml_document_count(yaml); i++) {
		const struct yaml_node *document = yaml_document(yaml, i);
		if (document->kind != YAML_SCALAR || !yaml_is_null(document))
			rc = conversion_document(&conversion, document, &arena, &out, &err);
	}

	if (rc == 0)
		fputs(buf_text(&out), stdout);
	jobfile_arena_done(&arena);
	(void)yaml_free(yaml);

	if (rc == 0)
		return CMD_EXIT_OK;

	return cmd_fail(call, rc == -ENOMEM ? CMD_EXIT_FAILED : CMD_EXIT_DATA, &err);
}

static const struct cmd_exit_row convert_exits[] = {
    {CMD_EXIT_OK, "converted, or nothing to convert"},
    {CMD_EXIT_DATA, "the file cannot be read or converted"},
    {0},
};
static const struct cmd_example convert_examples[] = {
    {"sluice controller convert -f old.yaml > new.yaml", "what was changed is said beside it"},
    {0},
};
static const struct command controller_convert_command = {
    .name = "convert",
    .summary = "Convert MPIJobs of older versions to v2beta1",
    .description =
	"Prints the objects of the file with each MPIJob of kubeflow.org/v1alpha2 or v1 as "
	"kubeflow.org/v2beta1. Each change is a comment on standard error, with the line of the "
	"file that it is about. Fields that are not known are kept and told. Other objects, and "
	"MPIJobs that are v2beta1 already, are printed as they are; comments of the file are lost.",
    .run = controller_convert,
    .options = convert_rows,
    .options_size = sizeof(struct convert_options),
    .exits = convert_exits,
    .examples = convert_examples,
};

static const struct command *const controller_verbs[] = {&controller_convert_command, NULL};
static const struct cmd_example controller_examples[] = {
    {"sluice controller convert -f old.yaml", "an MPIJob of 2020 as one of today"},
    {0},
};

const struct command cmd_controller = {
    .name = "controller",
    .summary = "Convert MPIJobs of older versions",
    .description =
	"Files with MPIJobs of older versions are converted to the one that the MPI "
	"operator and 'sluice run --file' take. A controller of our own that runs MPIJobs "
	"on a cluster does not exist yet.",
    .group = CMD_GROUP_CLUSTER,
    .commands = controller_verbs,
    .examples = controller_examples,
};
