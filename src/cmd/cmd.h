/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a subcommand is. Everything that a user can see of one (help, usage, completion, man page
 * sections, exit codes) is data in its `struct command`; what it does is its run().
 *
 * To add a command NAME: write src/cmd/GROUP/NAME.c with a `const struct command cmd_NAME`, declare
 * it below, and name it once in the table of src/main.c and once in src/cmd/meson.build; beside its
 * man page nothing else has to know of it. Verbs of a command (`sluice sim start`) are commands in
 * its `commands`.
 *
 * `sluice __dump` prints the whole tree as JSON; man pages are made from it at build time.
 */
#ifndef SLUICE_CMD_CMD_H
#define SLUICE_CMD_CMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct buf;
struct err;
struct option_row;

/* Exit codes: exits.def says what each means. */
enum cmd_exit {
#define CMD_EXIT(name, code, meaning) CMD_EXIT_##name = (code),
#include "cmd/exits.def"
#undef CMD_EXIT
};

/* The heading in `sluice --help` under which a command stands. */
enum cmd_group {
	CMD_GROUP_JOBS,
	CMD_GROUP_MACHINE,
	CMD_GROUP_SERVICE,
	CMD_GROUP_PROOF,
	CMD_GROUP_CLUSTER,
	CMD_GROUP_SIMULATOR,
	CMD_GROUP_HELP,
	CMD_GROUP_COUNT,
};

struct command;

/* One call of a command, its options already parsed. All borrowed: valid until run() returns. */
struct cmd_call {
	const struct command *root;    /* the program */
	const struct command *command; /* the one that runs */
	const char *path;	       /* "sluice sim start", for messages */
	const void *options;	       /* the command's struct of options */
	const void *outer; /* that of the program, where its options stand before the command; else
			      NULL */
	bool has_unknown; /* lenient commands: options were left out; their values, if they had any,
			     are among the arguments */
	int line_count;	  /* of `line` */
	char **line;	  /* all that was typed, options too, from the command's name on */
	int argc;	  /* positional arguments only */
	char **argv;	  /* ends in NULL */
};

struct cmd_exit_row {
	int code;
	const char *meaning;
};

struct cmd_example {
	const char *line; /* as one would type it */
	const char *what; /* what it does, a phrase */
};

enum cmd_limits {
	CMD_ARGUMENTS_ANY = 1 << 20, /* positional_max without a limit */
	CMD_PATH_SIZE = 128,
	CMD_DEPTH_MAX = 4,
};

/* All texts are plain sentences; paragraphs of `description` are separated by empty lines. */
struct command {
	const char *name;
	const char *summary;	 /* one line, no full stop */
	const char *description; /* may be NULL */
	enum cmd_group group;
	bool hidden;

	/* Verbs; ends in NULL; may be NULL. With run() as well, the verb may be left out. */
	const struct command *const *commands;

	/* Returns the exit code. */
	int (*run)(const struct cmd_call *call);
	const struct option_row *options; /* see options.h; may be NULL */
	const void *defaults;	      /* the options' struct with their defaults; NULL: zeroes */
	size_t options_size;	      /* of that struct */
	const char *positional;	      /* for the usage line: "[--] COMMAND [ARGUMENT...]" */
	const char *positional_words; /* "bash|zsh|fish": what completion offers for the first;
					 "@jobs": numbers of jobs */
	int positional_min, positional_max;
	bool is_lenient;    /* options that it does not know are left out with a warning, as by the
			       program whose options it takes */
	bool takes_command; /* options end at the first positional argument, which is a program */

	/* Where CMD_EXIT_FAILED means something else: the exit code when what was printed could not
	 * be written; 0: CMD_EXIT_FAILED. */
	int exit_unwritten;

	const struct cmd_exit_row *exits; /* ends in a row without a meaning; may be NULL; 0 and 64
					     are added where they are missing */
	const struct cmd_example *examples; /* ends in a row without a line; may be NULL */
};

/* Finds the command, parses, runs; prints usage errors and help. Returns the exit code: also
 * CMD_EXIT_FAILED, or the command's own, when what was printed could not be written (`sluice
 * devices >/dev/full`). */
int cmd_main(const struct command *root, int argc, char **argv);

/* Prints `text`, which may quote what came from outside, so that a terminal shows it and does
 * nothing else: base/text.h says how. */
void cmd_print(FILE *out, const char *text);
/* Prints "sluice run: TEXT" on standard error and returns `exit_code`. */
int cmd_fail(const struct cmd_call *call, int exit_code, const struct err *err);
/* The same for a mistake in the command line, with a pointer to --help; CMD_EXIT_USAGE. */
int cmd_usage(const struct cmd_call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* For the run() of a program with options of its own, which end at its first argument: runs the
 * command that call->argv[0] names; its `outer` is call->options. Returns the exit code. */
int cmd_verb(const struct cmd_call *call);
/* The version of sluice: "0.1.0". */
const char *cmd_version(void);
/* The command line of this process as the kernel keeps it, for a report. The texts lie in `text`,
 * which is initialised here and the caller's, also where there is nothing to be read. Returns how
 * many are in `argv`. */
enum { CMD_LINE_ARGUMENTS_MAX = 256 };
int cmd_line(struct buf *text, char *argv[CMD_LINE_ARGUMENTS_MAX]);

/* The verb `name` of `command`; NULL if it has none. */
const struct command *cmd_find(const struct command *command, const char *name);

/* The commands, one line each, in the order of the alphabet. */
extern const struct command cmd_agent;
extern const struct command cmd_bench;
extern const struct command cmd_attach;
extern const struct command cmd_cancel;
extern const struct command cmd_cdi;
extern const struct command cmd_complete;
extern const struct command cmd_completion;
extern const struct command cmd_config;
extern const struct command cmd_controller;
extern const struct command cmd_devices;
extern const struct command cmd_doctor;
extern const struct command cmd_dump;
extern const struct command cmd_health;
extern const struct command cmd_help;
extern const struct command cmd_jobs;
extern const struct command cmd_labels;
extern const struct command cmd_logs;
extern const struct command cmd_mlperf;
extern const struct command cmd_probe;
extern const struct command cmd_processes;
extern const struct command cmd_run;
extern const struct command cmd_runtime;
extern const struct command cmd_sim;
extern const struct command cmd_top;
extern const struct command cmd_topo;
extern const struct command cmd_validate;
extern const struct command cmd_web;

/* What sluice is under another name: a main(), named in the table of src/main.c. */
int container_cli_main(int argc, char **argv);	 /* nvidia-container-cli */
int runtime_wrapper_main(int argc, char **argv); /* sluice-runtime */

#endif
