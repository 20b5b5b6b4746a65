/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice run`: waits for GPUs, runs a command on them in the foreground, gives them back. All
 * that is hard about it is in doors/queue; this is what a user types and reads.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "cmd/cmd.h"
#include "cmd/options.h"
#include "cmd/table.h"
#include "doors/queue/acquire.h"
#include "doors/queue/foreground.h"
#include "doors/queue/jobenv.h"
#include "hardware/gpu.h"
#include "hardware/pci.h"
#include "probe/client.h"

enum { RUN_ID_MAX = 48, RUN_NAME_MAX = 63, RUN_VENDOR_NVIDIA = 0x10de };

#define RUN_GPUS_NOT_GIVEN   UINT32_MAX
#define RUN_PROBE_TIMEOUT_NS (PROBE_INIT_TIMEOUT_NS + PROBE_CALL_TIMEOUT_NS)

enum run_outsiders { RUN_OUTSIDERS_WAIT, RUN_OUTSIDERS_IGNORE };

struct run_options {
	uint32_t gpus;
	const char *gpu_ids, *name, *report;
	uint32_t busy_outsiders; /* enum run_outsiders */
	bool no_wait, quiet, verbose;
	uint64_t wait_timeout_ns, grace_ns;
};

static const struct option_row run_rows[] = {
    {.name = "gpus",
     .letter = 'g',
     .kind = OPTION_U32,
     .value = "N",
     .help = "how many GPUs; 0: none, and none visible (default 1, or 0 on a machine without)",
     .max = PLACE_UNIT_MAX,
     OPTION_FIELD(struct run_options, gpus)},
    {.name = "gpu-ids",
     .kind = OPTION_TEXT,
     .value = "LIST",
     .help = "exactly these: indices (3), MIG devices (3:1) and UUIDs, separated by commas",
     OPTION_FIELD(struct run_options, gpu_ids)},
    {.name = "name",
     .kind = OPTION_TEXT,
     .value = "NAME",
     .help = "what others see this job as: letters, digits and '-' (default: the command's name)",
     OPTION_FIELD(struct run_options, name)},
    {.name = "no-wait",
     .kind = OPTION_FLAG,
     .help = "exit with 75 at once instead of waiting",
     OPTION_FIELD(struct run_options, no_wait)},
    {.name = "wait-timeout",
     .kind = OPTION_DURATION,
     .value = "TIME",
     .help = "give up waiting after this (90s, 1h30m) and exit with 124",
     .min = 1,
     OPTION_FIELD(struct run_options, wait_timeout_ns)},
    {.name = "busy-outsiders",
     .kind = OPTION_CHOICE,
     .words = "wait|ignore",
     .help = "what to do about a GPU on which somebody computes without sluice (default wait)",
     OPTION_FIELD(struct run_options, busy_outsiders)},
    {.name = "grace",
     .kind = OPTION_DURATION,
     .value = "TIME",
     .help = "how long processes that the command leaves may go on before they are killed "
	     "(default 5s)",
     OPTION_FIELD(struct run_options, grace_ns)},
    {.name = "report",
     .kind = OPTION_PATH,
     .help = "write what ran where and when into this file, as JSON",
     OPTION_FIELD(struct run_options, report)},
    {.name = "quiet",
     .letter = 'q',
     .kind = OPTION_FLAG,
     .help = "do not say what is waited for",
     OPTION_FIELD(struct run_options, quiet)},
    {.name = "verbose",
     .letter = 'v',
     .kind = OPTION_FLAG,
     .help = "say which GPUs the job got and how it ended",
     OPTION_FIELD(struct run_options, verbose)},
    {0},
};

static const struct run_options run_defaults = {
    .gpus = RUN_GPUS_NOT_GIVEN,
    .grace_ns = UINT64_C(5000000000),
};

/* One call, from the options to the end of the job. */
struct run {
	const struct cmd_call *call;
	const struct run_options *options;
	char id[RUN_ID_MAX];
	char runtime_dir[FILE_PATH_MAX];
	struct token_place place;
	struct acquire_request request;
	struct acquire_result got;
	bool cpu_only, simulated;
	int look_error; /* of the probe; its exit codes are its own */
	int64_t queued_unix_ns;
	struct foreground_result result;
};

static void run_say(const struct run *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void run_say(const struct run *run, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	fprintf(stderr, "%s: ", run->call->path);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
}

static int64_t run_unix_ns(void)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail on Linux */
	return (int64_t)now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* --- before the job --------------------------------------------------------------------------- */

static bool run_is_label(const char *name)
{
	size_t length = strlen(name);
	if (length == 0 || length > RUN_NAME_MAX || name[0] == '-' || name[length - 1] == '-')
		return false;
	for (const char *at = name; *at; at++)
		if (!(*at >= 'a' && *at <= 'z') && !(*at >= '0' && *at <= '9') && *at != '-')
			return false;
	return true;
}

/* 0, or the exit code for a command line that cannot be meant. */
static int run_check(const struct run *run)
{
	const struct run_options *options = run->options;
	if (options->gpu_ids && options->gpus != RUN_GPUS_NOT_GIVEN)
		return cmd_usage(run->call, "--gpu-ids says how many GPUs there are: leave out "
					    "--gpus");
	if (options->name && !run_is_label(options->name))
		return cmd_usage(run->call,
				 "--name '%s' is not a name of small letters, digits and '-', at "
				 "most %d long",
				 options->name, RUN_NAME_MAX);
	if (options->no_wait && options->wait_timeout_ns)
		return cmd_usage(run->call, "--no-wait and --wait-timeout exclude each other");
	if (options->quiet && options->verbose)
		return cmd_usage(run->call, "--quiet and --verbose exclude each other");
	/* It is renamed into place: root's /dev/stdout would be gone for everybody. */
	struct stat report;
	if (options->report && lstat(options->report, &report) == 0 && !S_ISREG(report.st_mode))
		return cmd_usage(run->call, "--report '%s' is there and is not a plain file",
				 options->report);
	return 0;
}

/* Where lock files and sockets lie. False: nowhere that users share; sockets alone will do. */
static bool run_find_runtime_dir(struct run *run, bool *out_explicit)
{
	const char *given = getenv("SLUICE_RUNTIME_DIR");
	const char *session = getenv("XDG_RUNTIME_DIR");
	*out_explicit = (given && *given) || geteuid() == 0;
	int length = -1;
	if (given && *given)
		length = snprintf(run->runtime_dir, sizeof(run->runtime_dir), "%s", given);
	else if (geteuid() == 0)
		length = snprintf(run->runtime_dir, sizeof(run->runtime_dir), "/run/sluice");
	else if (session && *session)
		length = snprintf(run->runtime_dir, sizeof(run->runtime_dir), "%s/sluice", session);
	return length > 0 && (size_t)length < sizeof(run->runtime_dir);
}

static int run_open_place(struct run *run, struct err *err)
{
	const char *sim_state = getenv("SLUICE_SIM_STATE");
	if (sim_state && (!*sim_state || !file_exists(sim_state)))
		sim_state = NULL; /* the look at the driver says what that means */
	bool is_explicit;
	bool found = run_find_runtime_dir(run, &is_explicit);
	int result = token_place_open(found ? run->runtime_dir : NULL, sim_state, &run->place, err);
	/* $XDG_RUNTIME_DIR of another user (after su) or none that can be written. */
	if (result < 0 && found && !is_explicit)
		result = token_place_open(NULL, sim_state, &run->place, err);
	return result;
}

static int run_look(void *context, struct inventory *out_inventory, struct snapshot **out_snapshot,
		    struct err *err)
{
	struct run *run = context;
	struct probe_options options = {0};
	int result =
	    probe_collect(&options, RUN_PROBE_TIMEOUT_NS, out_inventory, out_snapshot, err);
	run->look_error = result < 0 ? result : 0;
	if (result == 0)
		run->simulated = out_inventory->simulated;
	return result;
}

static void run_tell_reason(void *context, const char *reason)
{
	const struct run *run = context;
	if (!run->options->quiet)
		run_say(run, "%s", reason);
}

static int run_exit_of_acquire(const struct run *run, int result)
{
	if (run->look_error)
		return probe_exit_code(run->look_error);
	switch (result) {
	case -ERANGE:
		return CMD_EXIT_IMPOSSIBLE;
	case -EINVAL:
	case -ENOENT:
		return CMD_EXIT_USAGE;
	case -EBUSY:
		return CMD_EXIT_WOULD_WAIT;
	case -ETIMEDOUT:
		return CMD_EXIT_DEADLINE;
	case -EPERM:
	case -EACCES:
		return CMD_EXIT_NOT_PERMITTED;
	case -ENOSPC:
	case -EROFS:
		return CMD_EXIT_CANNOT_WRITE;
	default:
		return CMD_EXIT_FAILED;
	}
}

/* A machine that has GPUs and no driver for them is broken; one without is a machine without. */
static bool run_has_nvidia_hardware(void)
{
	const char *root = getenv("SLUICE_ROOT");
	_cleanup_free_ struct pci_device *devices = calloc(PCI_LIST_MAX, sizeof(*devices));
	uint32_t count =
	    devices ? pci_list_class(root ? root : "", PCI_CLASS_DISPLAY, devices, PCI_LIST_MAX)
		    : 0;
	for (uint32_t i = 0; i < count; i++)
		if (devices[i].vendor == RUN_VENDOR_NVIDIA)
			return true;
	return false;
}

/* Takes the GPUs, however long that takes. 0, or the exit code after an error was printed. */
static int run_acquire(struct run *run)
{
	struct err err = {0};
	const struct run_options *options = run->options;
	int result = run_open_place(run, &err);
	if (result < 0)
		return cmd_fail(run->call,
				result == -EPERM || result == -EACCES ? CMD_EXIT_NOT_PERMITTED
								      : CMD_EXIT_CANNOT_WRITE,
				&err);
	bool given = options->gpus != RUN_GPUS_NOT_GIVEN || options->gpu_ids;
	run->request.ids = options->gpu_ids;
	run->request.needed = options->gpus == RUN_GPUS_NOT_GIVEN ? 1 : options->gpus;
	run->request.no_wait = options->no_wait;
	run->request.timeout_ns = options->wait_timeout_ns;
	run->request.ignore_outsiders = options->busy_outsiders == RUN_OUTSIDERS_IGNORE;
	run->request.place = &run->place;
	run->request.look = run_look;
	run->request.tell = run_tell_reason;
	run->request.context = run;
	result = acquire_units(&run->request, &run->got, &err);
	if (result == 0) {
		run->request.self.since_s = (uint64_t)run_unix_ns() / 1000000000;
		return 0;
	}
	if (run->look_error == -ENODEV && !given && !run_has_nvidia_hardware()) {
		if (!options->quiet)
			run_say(run, "no NVIDIA GPU here: running without one (--gpus 1 "
				     "would insist on one)");
		run->cpu_only = true;
		return 0;
	}
	return cmd_fail(run->call, run_exit_of_acquire(run, result), &err);
}

/* --- while it runs ---------------------------------------------------------------------------- */

static void run_tell_progress(void *context, uint32_t kind, int32_t value)
{
	const struct run *run = context;
	if (run->options->quiet)
		return;
	switch (kind) {
	case SUPERVISE_LEFTOVERS:
		if (run->options->grace_ns)
			run_say(run,
				"the command has ended and left %d process%s, which may go on for "
				"%.3g s (Ctrl-C: kill now)",
				value, value == 1 ? "" : "es",
				(double)run->options->grace_ns / 1e9);
		break;
	case SUPERVISE_STUCK:
		run_say(run,
			"%d process%s of the job cannot be killed (another user's, or stuck in the "
			"kernel); its GPUs stay taken until they end",
			value, value == 1 ? "" : "es");
		break;
	case SUPERVISE_LOST:
		run_say(run, "the job's supervisor was killed: killing what is left of the job");
		break;
	default:
		break;
	}
}

static void run_say_gpus(const struct run *run)
{
	if (!run->options->verbose || run->got.count == 0)
		return;
	for (size_t i = 0; i < run->got.count; i++)
		run_say(run, "%s%s, %s", run->simulated ? "simulated " : "", run->got.unit[i].label,
			run->got.unit[i].uuid);
	run_say(run, "waited %.3f s", (double)run->got.waited_ns / 1e9);
}

static void run_say_end(const struct run *run)
{
	const struct foreground_result *result = &run->result;
	if (!run->options->verbose || result->launch_error)
		return;
	double seconds = (double)(result->ended_unix_ns - result->started_unix_ns) / 1e9;
	if (WIFSIGNALED(result->status))
		run_say(run, "pid %d ran %.3f s and was ended by signal %d (%s)",
			(int)result->command, seconds, WTERMSIG(result->status),
			strsignal(WTERMSIG(result->status)));
	else
		run_say(run, "pid %d ran %.3f s and exited with %d", (int)result->command, seconds,
			WEXITSTATUS(result->status));
	if (result->killed)
		run_say(run, "%d process%s that it left had to be killed", result->killed,
			result->killed == 1 ? "" : "es");
}

static int run_job(struct run *run, struct err *err)
{
	const char *uuids[PLACE_UNIT_MAX];
	for (size_t i = 0; i < run->got.count; i++)
		uuids[i] = run->got.unit[i].uuid;
	struct jobenv_job env = {.id = run->id,
				 .name = run->request.self.name,
				 .uuids = uuids,
				 .uuid_count = run->got.count};
	char **environment = NULL;
	int result = jobenv_make(environ, &env, &environment, err);
	if (result < 0)
		return result;
	struct supervise_job job = {.argv = run->call->argv,
				    .envp = environment,
				    .tokens = run->got.token,
				    .token_count = run->got.count,
				    .note = run->request.self,
				    .grace_ns = run->options->grace_ns};
	/* From here on our end would be the job's, and our exit code is its: not for a message that
	 * nobody reads. The command gets the default back. */
	(void)signal(SIGPIPE, SIG_IGN); /* cannot fail for this one */
	result = foreground_run(&job, run_tell_progress, run, &run->result, err);
	jobenv_free(environment);
	return result;
}

/* --- after it --------------------------------------------------------------------------------- */

static json_t *run_json_time(int64_t unix_ns)
{
	return unix_ns ? json_real((double)unix_ns / 1e9) : json_null();
}

static json_t *run_json_gpus(const struct run *run)
{
	json_t *gpus = json_array();
	for (size_t i = 0; i < run->got.count; i++) {
		const struct place_unit *unit = &run->got.unit[i];
		(void)json_array_append_new(gpus, json_pack("{s:s, s:s, s:i}", "uuid", unit->uuid,
							    "label", unit->label, "gpu_index",
							    (int)unit->index));
	}
	return gpus;
}

static json_t *run_json(const struct run *run, int exit_code)
{
	const struct foreground_result *result = &run->result;
	json_t *command = json_array();
	for (char **at = run->call->argv; *at; at++)
		(void)json_array_append_new(command, table_json_text(*at));
	bool ran = result->command > 0;
	return json_pack(
	    "{s:s, s:s, s:I, s:o, s:o, s:b, s:o, s:f, s:o, s:o, s:o, s:i, s:o, s:b, s:i}", "id",
	    run->id, "name", run->request.self.name, "uid", (json_int_t)getuid(), "command",
	    command, "gpus", run_json_gpus(run), "simulated", run->simulated, "queued_unix",
	    run_json_time(run->queued_unix_ns), "waited_s", (double)run->got.waited_ns / 1e9,
	    "started_unix", run_json_time(result->started_unix_ns), "ended_unix",
	    run_json_time(result->ended_unix_ns), "pid",
	    ran ? json_integer(result->command) : json_null(), "exit_code", exit_code, "signal",
	    ran && WIFSIGNALED(result->status) ? json_integer(WTERMSIG(result->status))
					       : json_null(),
	    "supervisor_lost", result->supervisor_lost, "leftovers_killed", result->killed);
}

/* The job has run by now: a report that cannot be written is said, and its exit code kept. */
static void run_report(const struct run *run, int exit_code)
{
	if (!run->options->report)
		return;
	json_t *json = run_json(run, exit_code);
	_cleanup_free_ char *text = json ? json_dumps(json, JSON_INDENT(2)) : NULL;
	json_decref(json);
	struct err err = {0};
	if (!text)
		run_say(run, "no memory for the report '%s'", run->options->report);
	else if (file_write_atomic(run->options->report, text, strlen(text), 0644, &err) < 0)
		run_say(run, "the report was not written: %s", err.text);
}

static int run_say_launch_error(const struct run *run)
{
	struct err err = {0};
	int code = run->result.launch_error;
	(void)err_set(&err, code, "cannot run '%s': %s", run->call->argv[0],
		      code == -ENOENT ? "no such command" : err_describe(code));
	return cmd_fail(run->call, foreground_exit_code(&run->result), &err);
}

static int run_with(struct run *run)
{
	int exit_code = run_check(run);
	if (exit_code)
		return exit_code;
	if (run->options->gpus == 0)
		run->cpu_only = true;
	else
		exit_code = run_acquire(run);
	if (exit_code)
		return exit_code;

	run_say_gpus(run);
	struct err err = {0};
	if (run_job(run, &err) < 0)
		return cmd_fail(run->call, CMD_EXIT_LAUNCH, &err);
	run_say_end(run);
	exit_code = run->result.launch_error ? run_say_launch_error(run)
					     : foreground_exit_code(&run->result);
	run_report(run, exit_code);
	return exit_code;
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
	run->place = TOKEN_PLACE_NONE;
	run->queued_unix_ns = run_unix_ns();
	(void)snprintf(run->id, sizeof(run->id), "run-%d-%" PRIx64, (int)getpid(),
		       (uint64_t)run->queued_unix_ns / 1000000); /* always fits */
	run->request.self = (struct note){.pid = getpid(),
					  .uid = getuid(),
					  .since_s = (uint64_t)run->queued_unix_ns / 1000000000};
	const char *slash = strrchr(call->argv[0], '/');
	note_set_name(&run->request.self, run->options->name ? run->options->name
					  : slash	     ? slash + 1
							     : call->argv[0]);
	int exit_code = run_with(run);
	acquire_release(&run->got);
	token_place_close(&run->place);
	free(run);
	return exit_code;
}

static const struct cmd_exit_row run_exits[] = {
    {CMD_EXIT_OK, "the command exited with 0 (other codes below 64 are the command's own too)"},
    {CMD_EXIT_FAILED, "the command's own code; or something failed here, which is then said"},
    {CMD_EXIT_UNAVAILABLE, "there is no usable NVIDIA driver"},
    {CMD_EXIT_CANNOT_WRITE, "the directory for lock files cannot be used"},
    {CMD_EXIT_WOULD_WAIT, "--no-wait, and it would have to wait"},
    {CMD_EXIT_NOT_PERMITTED, "no permission, for the driver or for the lock files"},
    {CMD_EXIT_IMPOSSIBLE, "more GPUs than the machine has"},
    {CMD_EXIT_DEADLINE, "--wait-timeout is over, or the driver did not answer"},
    {CMD_EXIT_LAUNCH, "the job could not be launched"},
    {CMD_EXIT_NOT_EXECUTABLE, "the command cannot be executed"},
    {CMD_EXIT_NOT_FOUND, "there is no such command"},
    {128, "plus N: the command was ended by signal N"},
    {0},
};

static const struct cmd_example run_examples[] = {
    {"sluice run -- python train.py", "on any one GPU, as soon as one is free"},
    {"sluice run --gpus 4 --name big -- torchrun --nproc-per-node 4 train.py",
     "on four at once, those that are best connected"},
    {"sluice run --gpu-ids 3,5 -- ./bench", "on exactly these two"},
    {"sluice run --gpus 0 -- make -j8", "on none, and none visible"},
    {0},
};

const struct command cmd_run = {
    .name = "run",
    .summary = "Run a command on GPUs that nobody else has",
    .description =
	"Waits until as many GPUs are free as the command needs, gives it those and no others "
	"(CUDA_VISIBLE_DEVICES, by UUID), and exits with its exit code. All GPUs are taken at once "
	"or none; who came first is served first. While it waits it says for whom.\n\n"
	"The GPUs are free again when the command and everything it started have ended, however "
	"they end: what the command leaves is killed after --grace, and so is all of the job when "
	"this program is killed. Works without a daemon.\n\n"
	"Ctrl-C goes to the command; a second one within two seconds kills the whole job.",
    .group = CMD_GROUP_JOBS,
    .run = run_run,
    .options = run_rows,
    .defaults = &run_defaults,
    .options_size = sizeof(struct run_options),
    .positional = "[--] COMMAND [ARGUMENT...]",
    .positional_min = 1,
    .positional_max = CMD_ARGUMENTS_ANY,
    .takes_command = true,
    .exits = run_exits,
    .examples = run_examples,
};
