/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/cmd/sample.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "unit/unit.h"

const struct option_row sample_rows[] = {
    {.name = "quiet",
     .letter = 'q',
     .help = "say nothing",
     OPTION_FIELD(struct sample_options, quiet)},
    {.name = "name",
     .kind = OPTION_TEXT,
     .help = "what to call it",
     OPTION_FIELD(struct sample_options, name)},
    {.name = "file",
     .letter = 'f',
     .kind = OPTION_PATH,
     .help = "where to look",
     OPTION_FIELD(struct sample_options, file)},
    {.name = "gpus",
     .letter = 'n',
     .kind = OPTION_U32,
     .help = "how many GPUs the job takes, all of them on this machine and all of them at the "
	     "same time (default 1)",
     .min = 1,
     .max = 16,
     OPTION_FIELD(struct sample_options, gpus)},
    {.name = "limit",
     .kind = OPTION_U64,
     .help = "a bound",
     OPTION_FIELD(struct sample_options, limit)},
    {.name = "ambient",
     .kind = OPTION_I64,
     .help = "degrees",
     .min = -40,
     .max = 60,
     OPTION_FIELD(struct sample_options, ambient)},
    {.name = "mask",
     .kind = OPTION_HEX,
     .help = "bits",
     .max = 0xffff,
     OPTION_FIELD(struct sample_options, mask)},
    {.name = "memory",
     .kind = OPTION_SIZE,
     .help = "memory",
     OPTION_FIELD(struct sample_options, memory)},
    {.name = "wait",
     .kind = OPTION_DURATION,
     .help = "how long to wait",
     .max = UINT64_C(60000000000),
     OPTION_FIELD(struct sample_options, wait_ns)},
    {.name = "share",
     .kind = OPTION_FRACTION,
     .help = "part of a GPU",
     .max = 1,
     OPTION_FIELD(struct sample_options, share)},
    OPTION_OUTPUT(struct sample_options, output),
    {.name = "env",
     .letter = 'e',
     .kind = OPTION_LIST,
     .value = "NAME=VALUE",
     .help = "set a variable; may be given again",
     OPTION_FIELD(struct sample_options, env)},
    {.name = "part",
     .letter = 'p',
     .kind = OPTION_TEXT,
     .value = "N/M",
     .bare = "1/all",
     .help = "only a part of it",
     OPTION_FIELD(struct sample_options, part)},
    {.name = "secret", .hidden = true, .help = "-", OPTION_FIELD(struct sample_options, quiet)},
    {0},
};

static int sample_run(const struct cmd_call *call)
{
	const struct sample_options *options = call->options;
	printf("%s gpus=%u quiet=%d env=%zu:", call->path, options->gpus, options->quiet,
	       options->env.count);
	for (int i = 0; i < call->argc; i++)
		printf(" [%s]", call->argv[i]);
	puts("");
	if (call->argc > 0 && strcmp(call->argv[0], "fail") == 0) {
		struct err err;
		(void)err_set(&err, -ENODEV, "no GPU 'x'");
		return cmd_fail(call, CMD_EXIT_UNAVAILABLE, &err);
	}
	return CMD_EXIT_OK;
}

static const struct command sample_job = {
    .name = "run",
    .summary = "Run a program",
    .description = "First paragraph that is long enough to be wrapped because it goes on and on "
		   "well beyond eighty columns.\n\nSecond paragraph.",
    .group = CMD_GROUP_JOBS,
    .run = sample_run,
    .options = sample_rows,
    .defaults = &(const struct sample_options){.gpus = 1},
    .options_size = sizeof(struct sample_options),
    .positional = "[--] COMMAND [ARGUMENT...]",
    .positional_min = 1,
    .positional_max = CMD_ARGUMENTS_ANY,
    .takes_command = true,
    .exits = (const struct cmd_exit_row[]){{CMD_EXIT_UNAVAILABLE, "there is no driver"}, {0}},
    .examples = (const struct cmd_example[]){{"prog run -- true", "it's the shortest job"}, {0}},
};

static const struct option_row start_rows[] = {
    {.name = "file",
     .kind = OPTION_PATH,
     .required = true,
     .help = "the state",
     OPTION_FIELD(struct sample_options, file)},
    OPTION_OUTPUT(struct sample_options, output),
    {0},
};

static const struct command sample_start = {
    .name = "start",
    .summary = "Start it",
    .group = CMD_GROUP_SIMULATOR,
    .run = sample_run,
    .options = start_rows,
    .options_size = sizeof(struct sample_options),
    .positional = "[PROFILE]",
    .positional_words = "dgx1|dgx2|t4x1",
    .positional_max = 1,
};

static const struct command sample_stop = {
    .name = "stop",
    .summary = "Stop it",
    .group = CMD_GROUP_SIMULATOR,
    .run = sample_run,
};

static const struct command sample_sim = {
    .name = "sim",
    .summary = "Simulate",
    .group = CMD_GROUP_SIMULATOR,
    .commands = (const struct command *const[]){&sample_start, &sample_stop, NULL},
};

const struct command sample_root = {
    .name = "sluice",
    .summary = "A sample",
    .commands = (const struct command *const[]){&sample_job, &sample_sim, &cmd_help,
						&cmd_completion, &cmd_dump, NULL},
};

static char *sample_slurp(FILE *file)
{
	long length = ftell(file);
	assert_true(length >= 0);
	char *text = calloc(1, (size_t)length + 1);
	assert_non_null(text);
	rewind(file);
	assert_int_equal(fread(text, 1, (size_t)length, file), length);
	(void)fclose(file);
	return text;
}

int sample_call(const char *line, char **out, char **err_out)
{
	char *words = strdup(line);
	char *argv[32] = {0};
	int argc = 0;
	assert_non_null(words);
	for (char *at = words; *at && argc < 31;) {
		argv[argc++] = at;
		at += strcspn(at, " ");
		if (*at)
			*at++ = '\0';
	}

	/* A pointer, because stdout and stderr are buffered by streams, not by descriptors. */
	FILE *files[2] = {tmpfile(), tmpfile()};
	FILE *saved[2] = {stdout, stderr};
	assert_non_null(files[0]);
	assert_non_null(files[1]);
	stdout = files[0];
	stderr = files[1];
	int exit_code = cmd_main(&sample_root, argc, argv);
	stdout = saved[0];
	stderr = saved[1];
	*out = sample_slurp(files[0]);
	*err_out = sample_slurp(files[1]);
	free(words);
	return exit_code;
}
