/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice run`: gives a command to the agent and, unless told otherwise, stays with it: shows its
 * output, says what it waits for, passes Ctrl-C on, and exits as it did. The job does not need this
 * program: it goes on without it.
 */
#include "cmd/jobs/run/run_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/loop.h"
#include "cmd/cmd.h"
#include "cmd/options.h"

void run_set_job(struct run *run, uint64_t id)
{
	run->id = id;
	(void)snprintf(run->called, sizeof(run->called), "%" PRIu64, id); /* fits */
}

void run_say(const struct run *run, const char *format, ...)
{
	char text[2 * JOB_TEXT_MAX];
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(text, sizeof(text), format, arguments); /* cut where it is longer */
	va_end(arguments);
	fprintf(stderr, "%s: ", run->call->path);
	cmd_print(stderr, text);
	fputc('\n', stderr);
}

static int run_run(const struct cmd_call *call)
{
	struct run *run = calloc(1, sizeof(*run));
	if (!run) {
		struct err err;
		(void)err_set(&err, -ENOMEM, "no memory");
		return cmd_fail(call, CMD_EXIT_FAILED, &err);
	}

	run->call = call;
	run->options = call->options;

	int exit_code = run->options->file    ? run_file_send(run)
			: run->options->lines ? run_lines_send(run)
					      : run_command_send(run);

	job_terminal_end(&run->terminal, NULL);
	run->follow = job_follow_free(run->follow);
	run->wait_timer = loop_timer_free(run->wait_timer);
	run->interrupt = loop_signal_free(run->interrupt);
	run->terminate = loop_signal_free(run->terminate);
	run->hangup = loop_signal_free(run->hangup);
	agent_call_close(&run->agent);
	run_request_done(&run->request);
	run_head_done(&run->head);
	free(run->accepted);
	free(run->failures);
	free(run);

	return exit_code;
}

static const struct cmd_exit_row run_exits[] = {
    {CMD_EXIT_OK, "the command exited with 0 (other codes below 64 are the command's own too)"},
    {CMD_EXIT_FAILED, "the command's own code; or it is not known how it ended, or something "
		      "failed here, which is then said"},
    {CMD_EXIT_USAGE, "wrong command line, or a GPU that does not exist"},
    {CMD_EXIT_DATA, "--key was used for another command; or the file of --file or --lines is "
		    "wrong, with its line"},
    {CMD_EXIT_UNAVAILABLE, "no agent answers and none could be started; one of the machine is "
			   "waited for"},
    {CMD_EXIT_CANNOT_WRITE, "the agent cannot write its state: nothing was accepted; or the "
			    "command exited with 0, and its output or the report was not kept; "
			    "or a job's number cannot be written: then it is said as an error"},
    {CMD_EXIT_WOULD_WAIT, "--no-wait, and it would have to wait; or a limit of this user is "
			  "reached"},
    {CMD_EXIT_NOT_PERMITTED, "the agent does not let this user do that"},
    {CMD_EXIT_IMPOSSIBLE, "more than this machine has"},
    {CMD_EXIT_DEADLINE, "--time or --wait-timeout is over, or the agent did not answer in time"},
    {CMD_EXIT_LAUNCH,
     "the job could not be launched; with --image also what podman or docker says of an "
     "image that it does not get"},
    {CMD_EXIT_NOT_EXECUTABLE, "the command cannot be executed"},
    {CMD_EXIT_NOT_FOUND, "there is no such command"},
    {128, "plus N: the command was ended by signal N; 130: cancelled by Ctrl-C while it waited; "
	  "143: cancelled by somebody else while it waited"},
    {0},
};

static const struct cmd_example run_examples[] = {
    {"sluice run -- python train.py", "on any one GPU, as soon as one is free"},
    {"sluice run --gpus 4 --name big -- torchrun --nproc-per-node 4 train.py",
     "on four at once, those that are best connected"},
    {"sluice run -d -- python train.py", "in the background; 'sluice logs -f' shows its output"},
    {"sluice run --share=1/2 -- python serve.py", "on half of a GPU that is shared"},
    {"sluice run --gpu-ids 3,5 -- ./bench", "on exactly these two"},
    {"sluice run --gpus 0 -- make -j8", "on none, and none visible"},
    {"sluice run -f job.yaml", "the jobs of a file, as kubectl takes it"},
    {"sluice run --lines commands.txt", "every line a job of its own"},
    {"sluice run --image debian:12 --gpus 2 -- nvidia-smi -L", "in a container with two GPUs"},
    {0},
};

const struct command cmd_run = {
    .name = "run",
    .summary = "Run a command on GPUs as soon as they are free",
    .description =
	"Gives the command to the agent, which starts it when as many GPUs are free as it needs, "
	"on those and no others (CUDA_VISIBLE_DEVICES, by UUID). All of them at once or none; "
	"users take turns, and of one user's jobs the first is served first. While it waits it "
	"says for what.\n\n"
	"Shows the command's output as it comes and exits with its exit code. The job does not "
	"need this program: when it is killed or its terminal is closed, the job goes on "
	"('sluice jobs', 'sluice logs', 'sluice cancel'). Its input is empty; a note says so when "
	"something is piped in.\n\n"
	"Ctrl-C sends SIGINT to the command, and cancels a job that waits; a second Ctrl-C within "
	"two seconds cancels in any case, a third one kills.\n\n"
	"If no agent answers, one is started in the background for this user; it ends by itself "
	"when there was nothing to do for ten minutes.",
    .group = CMD_GROUP_JOBS,
    .run = run_run,
    .options = run_rows,
    .defaults = &run_defaults,
    .options_size = sizeof(struct run_options),
    .positional = "[--] COMMAND [ARGUMENT...]",
    .positional_min = 0, /* an image may say what to run */
    .positional_max = CMD_ARGUMENTS_ANY,
    .takes_command = true,
    .exit_unwritten = CMD_EXIT_CANNOT_WRITE,
    .exits = run_exits,
    .examples = run_examples,
};
