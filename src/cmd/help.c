/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/help.h"

#include <string.h>

#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/options.h"

enum help_layout {
	HELP_WIDTH = 80,
	HELP_OPTION_COLUMN = 26, /* where the texts behind options and commands begin */
	HELP_INDENT = 2,
	HELP_EXITS_MAX = 32,
	HELP_LABEL_SIZE = 160,
};

static const char *const group_titles[CMD_GROUP_COUNT] = {
    [CMD_GROUP_JOBS] = "Jobs",		[CMD_GROUP_MACHINE] = "This machine",
    [CMD_GROUP_SERVICE] = "Services",	[CMD_GROUP_SIMULATOR] = "Simulated machines",
    [CMD_GROUP_PROOF] = "Measurements", [CMD_GROUP_CLUSTER] = "Clusters",
    [CMD_GROUP_HELP] = "Help",
};

/* Prints `text` in words; the cursor stands at `column`, further lines begin at `indent`. An empty
 * line in the text stays one; other line ends are blanks. */
static void help_wrap(FILE *out, const char *text, int column, int indent)
{
	bool first = true;

	while (*text) {
		size_t blanks = strspn(text, " \n");
		bool paragraph = !first && blanks >= 2 && text_starts_with(text, "\n\n");

		text += blanks;
		size_t length = strcspn(text, " \n");
		if (length == 0)
			break;

		if (paragraph) {
			fprintf(out, "\n\n%*s", indent, "");
			column = indent;
		} else if (!first && column + 1 + (int)length > HELP_WIDTH) {
			fprintf(out, "\n%*s", indent, "");
			column = indent;
		} else if (!first) {
			fputc(' ', out);
			column++;
		}

		fprintf(out, "%.*s", (int)length, text);
		column += (int)length;
		text += length;
		first = false;
	}

	fputc('\n', out);
}

/* "  LABEL      text", the text on the next line where the label is too long. */
static void help_row(FILE *out, const char *label, const char *text)
{
	int column = fprintf(out, "%*s%s", HELP_INDENT, "", label);
	if (column + 2 > HELP_OPTION_COLUMN) {
		fputc('\n', out);
		column = 0;
	}
	fprintf(out, "%*s", HELP_OPTION_COLUMN - column, "");
	help_wrap(out, text, HELP_OPTION_COLUMN, HELP_OPTION_COLUMN);
}

void help_usage(FILE *out, const struct command *command, const char *path)
{
	const char *before = "Usage:";

	if (command->run) {
		fprintf(out, "%s %s [OPTION...]%s%s\n", before, path,
			command->positional ? " " : "",
			command->positional ? command->positional : "");
		before = "      ";
	}

	if (command->commands)
		fprintf(out, "%s %s COMMAND [OPTION...] [ARGUMENT...]\n", before, path);
}

static void help_options(FILE *out, const struct command *command)
{
	fputs("\nOptions:\n", out);

	for (const struct option_row *row = command->options; row && row->name; row++) {
		if (row->hidden)
			continue;

		char label[HELP_LABEL_SIZE];
		char letter[8] = "    ";

		if (row->letter)
			(void)snprintf(letter, sizeof(letter), "-%c, ", row->letter); /* fits */

		const char *value = options_value_name(row);
		(void)snprintf(label, sizeof(label), "%s--%s%s%s%s%s", letter, row->name,
			       row->bare ? "[" : "", value ? "=" : "", value ? value : "",
			       row->bare ? "]" : ""); /* cut: only a label */
		help_row(out, label, row->help);
	}

	help_row(out, "-h, --help", "show this text");
}

static void help_commands(FILE *out, const struct command *command, bool by_group)
{
	for (int group = 0; group < CMD_GROUP_COUNT; group++) {
		bool titled = false;

		for (const struct command *const *at = command->commands; *at; at++) {
			if ((*at)->hidden || (by_group && (int)(*at)->group != group))
				continue;
			if (!titled)
				fprintf(out, "\n%s:\n",
					by_group ? group_titles[group] : "Commands");

			titled = true;
			help_row(out, (*at)->name, (*at)->summary);
		}

		if (!by_group)
			break;
	}
}

bool help_exit_row(const struct command *command, size_t index, struct cmd_exit_row *out)
{
	struct cmd_exit_row rows[HELP_EXITS_MAX];
	size_t count = 0;
	bool has_ok = false, has_usage = false;

	for (const struct cmd_exit_row *row = command->exits;
	     row && row->meaning && count < HELP_EXITS_MAX - 2; row++) {
		has_ok = has_ok || row->code == CMD_EXIT_OK;
		has_usage = has_usage || row->code == CMD_EXIT_USAGE;
		rows[count++] = *row;
	}

	if (!has_ok)
		rows[count++] = (struct cmd_exit_row){CMD_EXIT_OK, "it worked"};
	if (!has_usage)
		rows[count++] = (struct cmd_exit_row){CMD_EXIT_USAGE, "wrong command line"};

	for (size_t i = 1; i < count; i++) {
		for (size_t j = i; j > 0 && rows[j].code < rows[j - 1].code; j--) {
			struct cmd_exit_row swap = rows[j];
			rows[j] = rows[j - 1];
			rows[j - 1] = swap;
		}
	}

	if (index >= count)
		return false;

	*out = rows[index];
	return true;
}

static void help_exits(FILE *out, const struct command *command)
{
	fputs("\nExit status:\n", out);
	struct cmd_exit_row row;
	for (size_t i = 0; help_exit_row(command, i, &row); i++) {
		int column = fprintf(out, "%*s%-5d", HELP_INDENT, "", row.code);
		help_wrap(out, row.meaning, column, column);
	}
}

static void help_examples(FILE *out, const struct command *command)
{
	fputs("\nExamples:\n", out);
	for (const struct cmd_example *example = command->examples; example->line; example++) {
		fprintf(out, "%*s%s\n", HELP_INDENT, "", example->line);
		fprintf(out, "%*s", 3 * HELP_INDENT, "");
		help_wrap(out, example->what, 3 * HELP_INDENT, 3 * HELP_INDENT);
	}
}

void help_print(FILE *out, const struct command *command, const char *path)
{
	bool root = strchr(path, ' ') == NULL && !command->run;

	help_usage(out, command, path);
	fprintf(out, "\n%s.\n", command->summary);

	if (command->description) {
		fputc('\n', out);
		help_wrap(out, command->description, 0, 0);
	}

	if (command->commands)
		help_commands(out, command, root);

	if (root) {
		fputs("\nOptions:\n", out);
		help_row(out, "-V, --version", "show the version");
		help_row(out, "-h, --help", "show this text");
		fprintf(out, "\n'%s help COMMAND' tells more about a command.\n", path);
		return;
	}

	help_options(out, command);
	if (command->run)
		help_exits(out, command);
	if (command->examples)
		help_examples(out, command);
	if (command->commands)
		fprintf(out, "\n'%s COMMAND --help' tells more about a command.\n", path);
}
