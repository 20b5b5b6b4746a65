/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/suggest.h"
#include "base/text.h"
#include "cmd/help.h"
#include "cmd/options.h"

enum {
	CMD_TEXT_MAX = 16384,	  /* bytes of one escaped text */
	CMD_LINE_MAX = 256 << 10, /* a command line that is longer is not shown */
};

const struct command *cmd_find(const struct command *command, const char *name)
{
	for (const struct command *const *at = command->commands; at && *at; at++) {
		if (strcmp((*at)->name, name) == 0)
			return *at;
	}
	return NULL;
}

void cmd_print(FILE *out, const char *text)
{
	_cleanup_buf_ struct buf escaped;
	buf_init(&escaped, CMD_TEXT_MAX);

	if (text_escape(&escaped, text, strlen(text)) != -ENOMEM) {
		/* what does not fit is left out */
		if (escaped.length > 0)
			(void)fwrite(escaped.data, 1, escaped.length, out);
		return;
	}

	for (const char *at = text; *at; at++) /* "out of memory" has to be said as well */
		fputc(*at >= ' ' && *at <= '~' ? *at : '?', out);
}

int cmd_fail(const struct cmd_call *call, int exit_code, const struct err *err)
{
	(void)fflush(stdout); /* what was printed before the error stands before it */
	fprintf(stderr, "%s: ", call->path);
	cmd_print(stderr, err->text);
	fputc('\n', stderr);
	return exit_code;
}

int cmd_usage(const struct cmd_call *call, const char *format, ...)
{
	(void)fflush(stdout);
	fprintf(stderr, "%s: ", call->path);

	va_list arguments;
	va_start(arguments, format);

	char text[ERR_TEXT_MAX];
	(void)vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	cmd_print(stderr, text);
	fprintf(stderr, "\nTry '%s --help'.\n", call->path);

	return CMD_EXIT_USAGE;
}

/* The command of this command that the word is nearest to, or NULL. */
static const char *cmd_nearest(const struct cmd_call *call, const char *name)
{
	struct suggest suggest;
	suggest_init(&suggest, name);
	for (const struct command *const *at = call->command->commands; at && *at; at++) {
		if (!(*at)->hidden)
			suggest_offer(&suggest, (*at)->name);
	}
	return suggest_best(&suggest);
}

/* What to say of a word that other programs have for a command of sluice itself, or NULL. */
static const char *cmd_habit(const struct cmd_call *call, const char *name)
{
	static const struct {
		const char *name, *hint;
	} habits[] = {
	    {"stop", "'sluice cancel' ends a job"},
	    {"kill", "'sluice cancel' ends a job"},
	    {"ps", "'sluice jobs' lists the jobs"},
	};

	/* The programs of other names that have these tables know nothing of jobs. */
	if (call->command != call->root || strcmp(call->root->name, "sluice") != 0)
		return NULL;

	for (size_t i = 0; i < array_length(habits); i++) {
		if (strcmp(name, habits[i].name) == 0)
			return habits[i].hint;
	}

	return NULL;
}

static int cmd_unknown(const struct cmd_call *call, const char *name)
{
	const char *habit = cmd_habit(call, name);
	if (habit)
		return cmd_usage(call, "unknown command '%s'; %s", name, habit);

	const char *best = cmd_nearest(call, name);

	if (name[0] == '-' && name[1] != '\0')
		return cmd_usage(call, "unknown option '%s'", name);
	if (best)
		return cmd_usage(call, "unknown command '%s'; did you mean '%s'?", name, best);

	return cmd_usage(call, "unknown command '%s'", name);
}

static int cmd_check_count(const struct cmd_call *call)
{
	const struct command *command = call->command;
	if (call->argc < command->positional_min)
		return cmd_usage(call, "an argument is missing: %s", command->positional);

	/* "agent stauts", "jobs wiat 17": what was meant is a command, not an argument. */
	const char *best = call->argc > 0 ? cmd_nearest(call, call->argv[0]) : NULL;
	if (call->argc > command->positional_max && best)
		return cmd_usage(call, "unexpected argument '%s'; did you mean '%s'?",
				 call->argv[0], best);
	if (call->argc > command->positional_max)
		return cmd_usage(call, "unexpected argument '%s'",
				 call->argv[command->positional_max]);

	return CMD_EXIT_OK;
}

static void cmd_warn_unknown(struct cmd_call *call, const struct option_result *result)
{
	call->has_unknown = result->unknown_count > 0;
	for (size_t i = 0; i < result->unknown_count; i++) {
		fprintf(stderr, "%s: unknown option '", call->path);
		cmd_print(stderr, result->unknown[i]);
		fputs("' is left out\n", stderr);
	}
}

static void cmd_warn_renamed(const struct cmd_call *call, const struct option_result *result)
{
	for (size_t i = 0; i < result->renamed_count; i++)
		fprintf(stderr, "%s: --%s is deprecated; use --%s\n", call->path,
			result->renamed[i]->name, result->renamed[i]->renamed);
}

static enum option_manner cmd_manner(const struct command *command)
{
	if (command->takes_command)
		return OPTION_MANNER_POSIX;
	return command->is_lenient ? OPTION_MANNER_LENIENT : OPTION_MANNER_PLAIN;
}

/* Parses the options of call->command, argv[0] being its name, and runs it. */
static int cmd_run_parsed(struct cmd_call *call, int argc, char **argv)
{
	const struct command *command = call->command;
	struct err err = {0};
	_cleanup_free_ void *options = calloc(1, command->options_size + 1);
	if (!options) {
		(void)err_set(&err, -ENOMEM, "out of memory");
		return cmd_fail(call, CMD_EXIT_FAILED, &err);
	}

	if (command->defaults)
		memcpy(options, command->defaults, command->options_size);

	struct option_result result;
	int exit_code;
	int rc = options_parse(command->options, cmd_manner(command), argc, argv, options, &result,
			       &err);
	if (rc == -ENOMEM) {
		exit_code = cmd_fail(call, CMD_EXIT_FAILED, &err);
	} else if (rc < 0) {
		exit_code = cmd_usage(call, "%s", err.text);
	} else if (result.help) {
		help_print(stdout, command, call->path);

		exit_code = CMD_EXIT_OK;
	} else {
		call->options = options;
		call->line = argv;
		call->line_count = argc;
		call->argc = argc - result.first;
		call->argv = argv + result.first;
		cmd_warn_unknown(call, &result);
		cmd_warn_renamed(call, &result);
		exit_code = cmd_check_count(call);
		if (exit_code == CMD_EXIT_OK)
			exit_code = command->run(call);
	}

	options_done(command->options, options);
	return exit_code;
}

int cmd_verb(const struct cmd_call *call)
{
	const struct command *verb = cmd_find(call->command, call->argv[0]);
	if (!verb)
		return cmd_unknown(call, call->argv[0]);

	char path[CMD_PATH_SIZE];
	(void)snprintf(path, sizeof(path), "%s %s", call->path, verb->name); /* cut: for messages */

	struct cmd_call inner = {
	    .root = call->root, .command = verb, .path = path, .outer = call->options};
	return cmd_run_parsed(&inner, call->argc, call->argv);
}

int cmd_line(struct buf *text, char *argv[CMD_LINE_ARGUMENTS_MAX])
{
	int argc = 0;

	buf_init(text, CMD_LINE_MAX);
	if (file_read("/proc/self/cmdline", text, NULL) < 0)
		return 0;

	for (size_t at = 0; at < text->length && argc < CMD_LINE_ARGUMENTS_MAX;) {
		argv[argc++] = text->data + at;
		at += strlen(text->data + at) + 1;
	}

	return argc;
}

const char *cmd_version(void)
{
	return SLUICE_VERSION;
}

/* Words that only a command without run() of its own understands, and the program itself. */
static int cmd_without_run(const struct cmd_call *call, int argc, char **argv)
{
	bool root = call->command == call->root;
	const char *word = argc > 1 ? argv[1] : NULL;

	if (!word) {
		help_print(stderr, call->command, call->path);
		return CMD_EXIT_USAGE;
	}

	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
		help_print(stdout, call->command, call->path);
		return CMD_EXIT_OK;
	}

	if (root && (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0)) {
		printf("%s %s\n", call->root->name, cmd_version());
		return CMD_EXIT_OK;
	}

	return cmd_unknown(call, word);
}

/* Goes down the tree as far as the words are names of commands. `out_command`: where it ended. */
static int cmd_dispatch(const struct command *root, int argc, char **argv,
			const struct command **out_command)
{
	char path[CMD_PATH_SIZE];
	struct cmd_call call = {.root = root, .command = root, .path = path};
	size_t length = (size_t)snprintf(path, sizeof(path), "%s", root->name);

	while (argc > 1) {
		const struct command *next = cmd_find(call.command, argv[1]);
		if (!next)
			break;

		call.command = next;
		argc--;
		argv++;

		if (length < sizeof(path))
			length += (size_t)snprintf(path + length, sizeof(path) - length, " %s",
						   next->name);
	}

	*out_command = call.command;
	if (!call.command->run)
		return cmd_without_run(&call, argc, argv);

	return cmd_run_parsed(&call, argc, argv);
}

/* Where one of the three was closed, the next file that is opened would be it, and output would go
 * into a database. In its place lies what can neither be read nor written. */
static void cmd_keep_standard(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
			(void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
	errno = 0;
}

int cmd_main(const struct command *root, int argc, char **argv)
{
	cmd_keep_standard();
	/* One that was started through /proc/self/exe would be 'exe' to ps and pgrep. */
	(void)prctl(PR_SET_NAME, root->name);

	const struct command *command;
	int exit_code = cmd_dispatch(root, argc, argv, &command);
	int rc = fflush(stdout) == 0 ? 0 : -errno;
	if (rc == 0 && !ferror(stdout))
		return exit_code;

	/* What failed earlier has left no reason behind. */
	fprintf(stderr, "%s: cannot write the output%s%s\n", root->name, rc < 0 ? ": " : "",
		rc < 0 ? err_describe(rc) : "");
	if (command->exit_unwritten && exit_code < CMD_EXIT_USAGE)
		return command->exit_unwritten; /* no verdict that nobody could read */

	return exit_code == CMD_EXIT_OK ? CMD_EXIT_FAILED : exit_code;
}

static int cmd_help_run(const struct cmd_call *call)
{
	const struct command *command = call->root;
	char path[CMD_PATH_SIZE];
	size_t length = (size_t)snprintf(path, sizeof(path), "%s", command->name);

	for (int i = 0; i < call->argc; i++) {
		const struct command *next = cmd_find(command, call->argv[i]);
		if (!next) {
			struct cmd_call at = {.root = call->root, .command = command, .path = path};
			if (!command->commands)
				return cmd_usage(call, "'%s' has no command '%s'", path,
						 call->argv[i]);
			return cmd_unknown(&at, call->argv[i]);
		}

		command = next;
		if (length < sizeof(path))
			length += (size_t)snprintf(path + length, sizeof(path) - length, " %s",
						   command->name);
	}

	help_print(stdout, command, path);
	return CMD_EXIT_OK;
}

const struct command cmd_help = {
    .name = "help",
    .summary = "Show what a command does, its options and its exit codes",
    .group = CMD_GROUP_HELP,
    .run = cmd_help_run,
    .positional = "[COMMAND...]",
    .positional_max = CMD_DEPTH_MAX,
    .examples = (const struct cmd_example[]){{"sluice help run", "all about 'sluice run'"}, {0}},
};
