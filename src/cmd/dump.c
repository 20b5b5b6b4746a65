/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice __dump`: the command table as JSON, for what is made from it at build time: SYNOPSIS,
 * OPTIONS and EXIT STATUS of the man pages. Hidden commands and options are left out.
 *
 *   {"program": "sluice", "version": "0.1.0", "exits": [...], "commands": [COMMAND...]}
 *   COMMAND: {"name", "path", "summary", "description" (or null), "group", "usage": [LINE...],
 *             "options": [{"name", "letter" (or null), "kind", "value" (or null), "bare" (or
 *                         null), "words": [...], "required", "repeats", "help"}...],
 *             "exits": [{"code", "meaning"}...], "examples": [{"line", "what"}...],
 *             "commands": [COMMAND...]}
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "cmd/cmd.h"
#include "cmd/help.h"
#include "cmd/options.h"
#include "cmd/table.h"

static const char *const group_names[CMD_GROUP_COUNT] = {
    [CMD_GROUP_JOBS] = "jobs",	     [CMD_GROUP_MACHINE] = "machine",
    [CMD_GROUP_SERVICE] = "service", [CMD_GROUP_SIMULATOR] = "simulator",
    [CMD_GROUP_PROOF] = "proof",     [CMD_GROUP_CLUSTER] = "cluster",
    [CMD_GROUP_HELP] = "help",
};

/* Appends `item` (given). Without memory the whole array is gone: NULL, which stays NULL through
 * further calls and makes json_pack() fail, so that no half tree is ever printed. */
static json_t *dump_append(json_t *array, json_t *item)
{
	if (json_array_append_new(array, item) == 0)
		return array;
	json_decref(array);
	return NULL;
}

static json_t *dump_words(const struct option_row *row)
{
	json_t *words = json_array();
	char word[OPTION_WORD_SIZE];
	for (size_t i = 0; options_word(row->words, i, word); i++)
		words = dump_append(words, json_string(word));
	return words;
}

static json_t *dump_options(const struct command *command)
{
	json_t *options = json_array();

	for (const struct option_row *row = command->options; row && row->name; row++) {
		if (row->hidden)
			continue;

		char letter[2] = {row->letter, '\0'};
		json_t *item = json_pack("{s:s, s:s?, s:s, s:s?, s:s?, s:o, s:b, s:b, s:s}", "name",
					 row->name, "letter", row->letter ? letter : NULL, "kind",
					 option_kind_to_string(row->kind), "value",
					 options_value_name(row), "bare", row->bare, "words",
					 dump_words(row), "required", (int)row->required, "repeats",
					 row->kind == OPTION_LIST, "help", row->help);

		options = dump_append(options, item);
	}

	options = dump_append(options, json_pack("{s:s, s:s, s:s, s:n, s:n, s:[], s:b, s:b, s:s}",
						 "name", "help", "letter", "h", "kind", "flag",
						 "value", "bare", "words", "required", 0, "repeats",
						 0, "help", "show this text"));
	return options;
}

static json_t *dump_exits(const struct command *command)
{
	json_t *exits = json_array();
	struct cmd_exit_row row;
	for (size_t i = 0; help_exit_row(command, i, &row); i++)
		exits = dump_append(
		    exits, json_pack("{s:i, s:s}", "code", row.code, "meaning", row.meaning));
	return exits;
}

static json_t *dump_examples(const struct command *command)
{
	json_t *examples = json_array();
	for (const struct cmd_example *at = command->examples; at && at->line; at++)
		examples = dump_append(examples,
				       json_pack("{s:s, s:s}", "line", at->line, "what", at->what));
	return examples;
}

/* The usage lines without "Usage:", one string each. */
static json_t *dump_usage(const struct command *command, const char *path)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);
	if (!stream)
		return NULL;

	help_usage(stream, command, path);
	if (fclose(stream) != 0)
		return NULL;

	json_t *lines = json_array();
	const size_t prefix = strlen("Usage: ");
	for (const char *at = text; *at;) {
		size_t length = strcspn(at, "\n");
		if (length > prefix)
			lines = dump_append(lines, json_stringn(at + prefix, length - prefix));
		at += length + (at[length] == '\n');
	}

	return lines;
}

static json_t *dump_commands(const struct command *parent, const char *parent_path);

/* NULL when memory runs out: json_pack() fails as a whole if one of its parts is NULL. */
static json_t *dump_command(const struct command *command, const char *path)
{
	return json_pack("{s:s, s:s, s:s, s:s?, s:s, s:o, s:o, s:o, s:o, s:o}", "name",
			 command->name, "path", path, "summary", command->summary, "description",
			 command->description, "group", group_names[command->group], "usage",
			 dump_usage(command, path), "options", dump_options(command), "exits",
			 dump_exits(command), "examples", dump_examples(command), "commands",
			 dump_commands(command, path));
}

static json_t *dump_commands(const struct command *parent, const char *parent_path)
{
	json_t *commands = json_array();

	for (const struct command *const *at = parent->commands; at && *at; at++) {
		if ((*at)->hidden)
			continue;
		char path[CMD_PATH_SIZE];
		(void)snprintf(path, sizeof(path), "%s %s", parent_path, (*at)->name);
		commands = dump_append(commands, dump_command(*at, path));
	}

	return commands;
}

/* A command whose table is wrong does not get into the man pages, and so not through a build. */
static int dump_check(const struct command *command, struct err *err)
{
	if (!command->summary || (!command->run && !command->commands))
		return err_set(err, -EINVAL, "command '%s' has no summary or does nothing",
			       command->name);
	if (options_check(command->options, err) < 0)
		return err_wrap(err, "command '%s'", command->name);

	for (const struct command *const *at = command->commands; at && *at; at++) {
		int rc = dump_check(*at, err);
		if (rc < 0)
			return rc;
	}

	return 0;
}

static int cmd_dump_run(const struct cmd_call *call)
{
	struct err err = {0};
	if (dump_check(call->root, &err) < 0)
		return cmd_fail(call, CMD_EXIT_FAILED, &err);

	json_t *tree = json_pack("{s:s, s:s, s:o, s:o}", "program", call->root->name, "version",
				 SLUICE_VERSION, "exits", dump_exits(call->root), "commands",
				 dump_commands(call->root, call->root->name));
	int rc = table_print_json(tree, stdout, &err);

	json_decref(tree);
	return rc < 0 ? cmd_fail(call, CMD_EXIT_FAILED, &err) : CMD_EXIT_OK;
}

const struct command cmd_dump = {
    .name = "__dump",
    .summary = "Print the table of commands as JSON",
    .group = CMD_GROUP_HELP,
    .hidden = true,
    .run = cmd_dump_run,
};
