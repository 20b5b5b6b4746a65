/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice logs`: what a job has written, both outputs in their order. Its files are read directly
 * where this user may; so it works without an agent. Where the files cannot be seen (another mount
 * namespace), the agent is asked.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/paths.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/loop.h"
#include "base/parse.h"
#include "cmd/service/agent_call.h"
#include "cmd/cmd.h"
#include "cmd/jobs/job_follow.h"
#include "cmd/jobs/job_select.h"
#include "cmd/jobs/job_target.h"
#include "cmd/jobs/job_text.h"
#include "cmd/jobs/log_follow.h"
#include "cmd/jobs/log_pair.h"
#include "cmd/options.h"
#include "job/wants.h"
#include "sluice.pb-c.h"

enum { LOGS_ATTEMPTS_MAX = 1000, LOGS_BLOCK = 64 << 10, LOGS_JSON = 1 };

#define LOGS_PASS_NS   UINT64_C(1000000000)
#define LOGS_LOOK_NS   UINT64_C(50000000) /* without an agent: whether it has ended */
#define LOGS_TAIL_NONE UINT32_MAX
#define LOGS_SYSTEM    "/var/lib/sluice"

struct logs_options {
	bool follow, outputs, errors;
	uint32_t tail, attempt, format;
	const char *worker, *socket;
	struct job_select_options select;
};

static const struct option_row logs_rows[] = {
    {.name = "follow",
     .letter = 'f',
     .kind = OPTION_FLAG,
     .help = "go on until the job has ended and everything is shown",
     OPTION_FIELD(struct logs_options, follow)},
    {.name = "stderr",
     .letter = 'e',
     .kind = OPTION_FLAG,
     .help = "its error output alone",
     OPTION_FIELD(struct logs_options, errors)},
    {.name = "stdout",
     .letter = 'o',
     .kind = OPTION_FLAG,
     .help = "its output without the error output",
     OPTION_FIELD(struct logs_options, outputs)},
    {.name = "output",
     .kind = OPTION_CHOICE,
     .words = "text|json",
     .help = "as it was written, or an object a line, each with its stream",
     OPTION_FIELD(struct logs_options, format)},
    {.name = "tail",
     .letter = 'n',
     .kind = OPTION_U32,
     .value = "LINES",
     .help = "begin with the last so many lines (default: all)",
     .max = UINT32_MAX - 1,
     OPTION_FIELD(struct logs_options, tail)},
    {.name = "attempt",
     .kind = OPTION_U32,
     .value = "N",
     .help = "of this attempt (default: the last one)",
     .min = 1,
     OPTION_FIELD(struct logs_options, attempt)},
    {.name = "worker",
     .kind = OPTION_TEXT,
     .value = "N|launcher",
     .help = "of this worker of a job of 'run --mpi ranks'; with an mpirun all output is the "
	     "launcher's (default: launcher)",
     OPTION_FIELD(struct logs_options, worker)},
    JOB_SELECT_ROWS(struct logs_options),
    {.name = "quiet",
     .letter = 'q',
     .kind = OPTION_FLAG,
     .help = "where nothing fits, it is no error",
     OPTION_FIELD(struct logs_options, select.quiet)},
    AGENT_CALL_SOCKET_ROW(struct logs_options),
    {0},
};

static const struct logs_options logs_defaults = {.tail = LOGS_TAIL_NONE};

struct logs {
	const struct cmd_call *call;
	const struct logs_options *options;
	struct agent_call agent;
	bool has_agent;
	uint64_t id;
	uint64_t array_id;		 /* of which it is to be a member; 0: none was named */
	const char *text;		 /* borrowed: how it was named */
	uint32_t attempt;		 /* 0: none yet */
	char path[FILE_PATH_MAX];	 /* of the output; "": not known */
	char result_path[FILE_PATH_MAX]; /* is there when the attempt has ended */
	bool ended;			 /* nothing more is written */
	bool is_merged, is_errors;	 /* what is shown; else the output alone */
	char lost[JOB_TEXT_MAX];	 /* why not all of it was kept; "" */

	struct log_follow *log;
	struct loop_timer *look;
	bool over;
	int result;
	struct err err;
};

/* --- where it lies ---------------------------------------------------------------------------- */

static int logs_exit_of(const struct logs *logs, int rc)
{
	if (rc == -EACCES || rc == -EPERM)
		return CMD_EXIT_NOT_PERMITTED;
	if (rc == -ENOENT || rc == -ESRCH)
		return CMD_EXIT_USAGE;
	return agent_call_exit_code(&logs->agent, rc);
}

/* The agent's answer. */
static int logs_ask(struct logs *logs, struct err *err)
{
	ProtobufCMessage *reply = NULL;
	Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;

	request.id = logs->id;
	request.details = true;

	int rc = agent_call_ask(&logs->agent, AGENT_GET, &request.base, &reply, err);
	if (rc < 0)
		return rc;

	const Sluice__V1__Job *job = (const Sluice__V1__Job *)reply;
	const Sluice__V1__Attempt *attempt = job->attempt;

	logs->attempt = attempt ? attempt->number : 0;
	logs->ended = job_text_is_final(job->state);
	if (strcmp(job->reason, "OutputLost") == 0)
		(void)job_text_reason(job, logs->lost);

	const char *path = !attempt	     ? ""
			   : logs->is_errors ? attempt->stderr_path
					     : attempt->stdout_path;

	if (logs->array_id && job->array_id != logs->array_id) {
		rc = err_set(err, -ESRCH, "job %" PRIu64 " has no member %" PRIu64, logs->array_id,
			     logs->id - logs->array_id);
	} else if (logs->options->attempt > logs->attempt) {
		rc = err_set(err, -ESRCH,
			     "job %" PRIu64 " has no attempt %" PRIu32
			     ", it has been started %" PRIu32 " time%s",
			     logs->id, logs->options->attempt, logs->attempt,
			     logs->attempt == 1 ? "" : "s");
	} else if (logs->options->attempt && logs->options->attempt != logs->attempt) {
		logs->attempt = logs->options->attempt;
		logs->ended = true;

		char *dot = strrchr(path, '.');
		rc = *path && dot ? file_path(logs->path, err, "%.*s.%" PRIu32, (int)(dot - path),
					      path, logs->attempt)
				  : 0;
	} else {
		rc = file_path(logs->path, err, "%s", path);
	}

	agent_call_free(reply);
	return rc;
}

/* Without an agent: the job's files in one state directory. -ENOENT: no such job there. */
static int logs_look(struct logs *logs, const char *state_dir, struct err *err)
{
	const char *kind = logs->is_errors ? "err" : "out";
	char directory[FILE_PATH_MAX], path[FILE_PATH_MAX];
	struct stat info;
	int rc = file_path(directory, err, "%s/j/%" PRIu64, state_dir, logs->id);
	if (rc < 0)
		return rc;

	if (stat(directory, &info) < 0)
		return err_set(err, -errno, "cannot look at '%s': %s", directory,
			       err_describe(-errno));

	uint32_t from = logs->options->attempt ? logs->options->attempt : 1;
	uint32_t to = logs->options->attempt ? logs->options->attempt : LOGS_ATTEMPTS_MAX;

	/* Its names cannot be listed by everybody. Attempts that were given back leave gaps. */
	for (uint32_t attempt = from; attempt <= to && attempt - logs->attempt <= 64; attempt++) {
		rc = file_path(path, err, "%s/%s.%" PRIu32, directory, kind, attempt);
		if (rc < 0)
			return rc;

		rc = stat(path, &info) == 0 ? 0 : -errno;
		if (rc == -EACCES) /* the directory is its user's and root's */
			return err_set(err, rc, "job %" PRIu64 " belongs to another user",
				       logs->id);
		if (rc == 0) {
			logs->attempt = attempt;
			memcpy(logs->path, path, sizeof(path));
		}
	}

	rc = 0;
	if (logs->path[0])
		rc = file_path(logs->result_path, err, "%s/result.%" PRIu32, directory,
			       logs->attempt);
	else if (logs->options->attempt)
		rc = err_set(err, -ESRCH, "job %" PRIu64 " has no attempt %" PRIu32, logs->id,
			     logs->options->attempt);

	logs->ended = logs->result_path[0] && file_exists(logs->result_path);
	return rc;
}

/* Which job has that index in its array: known without an agent only where the indices begin at 0.
 */
static int logs_find_member(struct logs *logs, struct err *err)
{
	struct job_target target;
	int rc = job_target_find(&logs->agent, logs->text, false, &target, err);
	if (rc == 0)
		logs->id = target.id;
	return rc == -EINVAL ? -ESRCH : rc;
}

static int logs_find(struct logs *logs, struct err *err)
{
	const struct agent_call_options how = {.socket = logs->options->socket};
	int rc = agent_call_open(&logs->agent, &how, err);
	if (rc == 0 && logs->array_id)
		rc = logs_find_member(logs, err);
	if (rc == 0)
		rc = logs_ask(logs, err);
	logs->has_agent = rc == 0;

	bool away = rc == -ECONNREFUSED || rc == -ECONNRESET || rc == -ENOENT || rc == -ETIMEDOUT ||
		    rc == -ENOTCONN;
	if (rc == 0 || !away || !logs->agent.loop)
		return rc;

	struct err why = *err;
	const struct agent_paths_given given = {.socket = logs->options->socket};
	struct agent_paths paths;

	rc = agent_paths_find(&given, &paths, err);
	if (rc == 0)
		rc = logs_look(logs, paths.state_dir, err);
	if (rc == -ENOENT && !getenv("SLUICE_STATE_DIR"))
		rc = logs_look(logs, LOGS_SYSTEM, err);
	if (rc == -ENOENT)
		return err_set(err, rc, "there are no files of job %" PRIu64 ", and %s", logs->id,
			       why.text);

	return rc;
}

static bool logs_is_worker(const struct logs *logs)
{
	const char *worker = logs->options->worker;
	return worker && strcmp(worker, "launcher") != 0;
}

/* From the job's own output to that of one of its workers, which lies beside it. */
static int logs_find_worker(struct logs *logs, struct err *err)
{
	const char *worker = logs->options->worker;
	uint64_t number;
	char path[FILE_PATH_MAX];

	if (!logs_is_worker(logs) || !logs->path[0])
		return 0;

	const char *slash = strrchr(logs->path, '/');
	if (!slash || parse_u64(worker, 0, WANTS_WORKERS_MAX - 1, &number) < 0)
		return err_set(err, -ENOENT, "--worker '%.32s' is no worker's number", worker);

	int rc = file_path(path, err, "%.*s/w%" PRIu64 ".%s", (int)(slash - logs->path), logs->path,
			   number, slash + 1);
	if (rc == 0 && !file_exists(path))
		rc = err_set(err, -ENOENT,
			     "worker %" PRIu64 " of job %" PRIu64
			     " has no output of its own: that of an mpirun is the launcher's",
			     number, logs->id);

	/* The first one writes where the job does, and its order is the job's. */
	if (rc == 0 && number > 0)
		memcpy(logs->path, path, sizeof(path));

	return rc;
}

/* Where the last `lines` lines of the file begin. */
static int logs_tail(const char *path, uint32_t lines, uint64_t *out_offset, struct err *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct stat info;

	if (fd < 0 || fstat(fd, &info) < 0)
		return err_set(err, -errno, "cannot open '%s': %s", path, err_describe(-errno));

	_cleanup_free_ char *block = malloc(LOGS_BLOCK);
	if (!block)
		return err_set(err, -ENOMEM, "no memory to look for the last lines");

	off_t at = info.st_size;

	if (lines == 0) {
		*out_offset = (uint64_t)at;
		return 0;
	}

	uint64_t ends = 0; /* a line end at the very end of the file begins no line */

	while (at > 0) {
		off_t begin = at > LOGS_BLOCK ? at - LOGS_BLOCK : 0;
		ssize_t got = pread(fd, block, (size_t)(at - begin), begin);
		if (got != at - begin)
			return err_set(err, got < 0 ? -errno : -EIO, "cannot read '%s'", path);

		for (ssize_t i = got - 1; i >= 0; i--) {
			if (block[i] != '\n' || begin + i == info.st_size - 1)
				continue;
			if (++ends >= lines) {
				*out_offset = (uint64_t)(begin + i + 1);
				return 0;
			}
		}

		at = begin;
	}

	*out_offset = 0;
	return 0;
}

/* --- showing it ------------------------------------------------------------------------------- */

static void logs_on_end(int rc, const struct err *err, void *context)
{
	struct logs *logs = context;
	logs->over = true;
	logs->result = rc;
	if (err)
		logs->err = *err;
}

static void logs_on_look(void *context)
{
	struct logs *logs = context;
	if (file_exists(logs->result_path))
		log_follow_finish(logs->log);
	else
		loop_timer_start(logs->look, LOGS_LOOK_NS);
}

static bool logs_is_json(const struct logs *logs)
{
	return logs->options->format == LOGS_JSON;
}

/* Once: whoever reads an order into it would be wrong. */
static void logs_say_unordered(const struct logs *logs)
{
	(void)fflush(stdout); /* a loss shows elsewhere */
	fprintf(stderr,
		"%s: of job %" PRIu64
		" the order of output and error output is not known%s: -o and "
		"-e show one of them\n",
		logs->call->path, logs->id,
		logs->options->follow && !logs->ended ? "" : ", so here is one after the other");
}

static int logs_end(const struct logs *logs)
{
	if (logs->lost[0]) {
		fprintf(stderr, "%s: not all of it was kept: ", logs->call->path);
		cmd_print(stderr, logs->lost);
		fputc('\n', stderr);
	}

	if (logs->result == 0 || logs->result == -EPIPE)
		return CMD_EXIT_OK; /* `sluice logs 17 | head` is no failure */

	return cmd_fail(logs->call, logs_exit_of(logs, logs->result), &logs->err);
}

/* Both outputs as one, or NULL. */
static struct log_follow *logs_open_pair(const struct logs *logs,
					 const struct log_follow_options *options, struct err *err)
{
	const struct log_pair_options how = {.out_path = logs->path,
					     .is_json = logs_is_json(logs),
					     .job = logs->id,
					     .attempt = logs->attempt};
	struct log_pair *pair = log_pair_new(&how, err);
	if (!pair)
		return NULL;
	if (logs->options->tail != LOGS_TAIL_NONE &&
	    log_pair_tail(pair, logs->options->tail, logs->ended || !logs->options->follow, err) <
		0) {
		(void)log_pair_free(pair);
		return NULL;
	}

	return log_follow_pair(pair, options, err);
}

static void logs_open(struct logs *logs, uint64_t offset, bool *out_is_file, struct err *err)
{
	const struct log_follow_options options = {.loop = logs->agent.loop,
						   .out_fd = STDOUT_FILENO,
						   .offset = offset,
						   .is_screen =
						       isatty(STDOUT_FILENO) && !logs_is_json(logs),
						   .ended = logs_on_end,
						   .context = logs};

	if (logs->path[0])
		logs->log = logs->is_merged ? logs_open_pair(logs, &options, err)
					    : log_follow_file(logs->path, &options, err);
	*out_is_file = logs->log != NULL;

	/* The agent reads what the job itself has written. */
	if (!logs->log && logs->has_agent && !logs_is_worker(logs) && !logs_is_json(logs))
		logs->log = log_follow_remote(logs->agent.client, logs->id, logs->attempt,
					      logs->is_errors, false, &options, err);
	else if (!logs->log && logs->has_agent && logs_is_json(logs))
		(void)err_set(err, -EOPNOTSUPP,
			      "--output json needs the job's files, and they are not here");
}

/* Without anybody who tells of the job's end. `out_is_part`: of both, only the output was shown. */
static int logs_show_output(struct logs *logs, uint64_t offset, bool *out_is_part)
{
	struct err err = {0};
	bool is_file = false;

	logs_open(logs, offset, &is_file, &err);
	if (!logs->log)
		return cmd_fail(logs->call, logs_exit_of(logs, err.code), &err);

	*out_is_part = !is_file && logs->is_merged;

	if (is_file && (!logs->options->follow || logs->ended)) {
		log_follow_finish(logs->log);
	} else if (is_file) {
		logs->look = loop_timer_new(logs->agent.loop, logs_on_look, logs, &err);
		if (!logs->look)
			return cmd_fail(logs->call, CMD_EXIT_FAILED, &err);

		logs_on_look(logs);
	}

	while (!logs->over)
		if (loop_pass(logs->agent.loop, LOGS_PASS_NS, &err) < 0)
			return cmd_fail(logs->call, CMD_EXIT_FAILED, &err);

	if (log_follow_is_unordered(logs->log))
		logs_say_unordered(logs);

	return logs_end(logs);
}

/* By way of the agent both come one after the other. */
static int logs_show_outputs(struct logs *logs, uint64_t offset)
{
	bool is_part = false;
	int exit_code = logs_show_output(logs, offset, &is_part);
	if (!is_part || exit_code != CMD_EXIT_OK || logs->result < 0)
		return exit_code;

	bool is_both = log_follow_offset(logs->log) > 0;
	logs->log = log_follow_free(logs->log);
	logs->over = logs->is_merged = false;
	logs->is_errors = true;
	logs->path[0] = '\0';

	exit_code = logs_show_output(logs, 0, &is_part);
	if (is_both && logs->log && log_follow_offset(logs->log) > 0)
		logs_say_unordered(logs);

	return exit_code;
}

static void logs_told(enum job_follow_event event, void *context)
{
	struct logs *logs = context;

	switch (event) {
	case JOB_FOLLOW_CHANGED:
	case JOB_FOLLOW_AWAY:
	case JOB_FOLLOW_BACK:
		break;
	case JOB_FOLLOW_UNREAD:
	case JOB_FOLLOW_DONE:
		logs->over = true;
		break;
	case JOB_FOLLOW_FAILED:
		logs->over = true;
		logs->result = -EIO;
		break;
	}
}

/* The agent tells when the job has ended; also of one that has not started. */
static int logs_show_job(struct logs *logs, uint64_t offset)
{
	struct err err = {0};
	const struct job_follow_options options = {
	    .agent = &logs->agent,
	    .how = {.socket = logs->options->socket},
	    .id = logs->id,
	    .stdout_fd = logs->is_errors ? -1 : STDOUT_FILENO,
	    .stderr_fd = logs->is_errors ? STDOUT_FILENO : -1,
	    .offset = offset,
	    .is_screen = isatty(STDOUT_FILENO) && !logs_is_json(logs),
	    .is_merged = logs->is_merged,
	    .is_json = logs_is_json(logs),
	    .tail_lines = logs->options->tail,
	    .told = logs_told,
	    .context = logs};
	struct job_follow *follow = job_follow_new(&options, &err);
	if (!follow)
		return cmd_fail(logs->call, CMD_EXIT_FAILED, &err);

	while (!logs->over)
		if (loop_pass(logs->agent.loop, LOGS_PASS_NS, &err) < 0)
			break;

	if (logs->result < 0) {
		logs->err = *job_follow_error(follow);
		logs->result = logs->err.code;
	}

	if (job_follow_is_unordered(follow))
		logs_say_unordered(logs);
	(void)job_follow_free(follow);
	return logs_end(logs);
}

static int logs_show(struct logs *logs)
{
	const struct logs_options *options = logs->options;
	struct err err = {0};
	int rc = logs_find(logs, &err);
	if (rc == 0)
		rc = logs_find_worker(logs, &err);

	if (rc < 0)
		return cmd_fail(logs->call, logs_exit_of(logs, rc), &err);

	bool waits = logs->attempt == 0;
	if (waits && (!options->follow || !logs->has_agent)) {
		fprintf(stderr, "%s: job %" PRIu64 " has not started%s\n", logs->call->path,
			logs->id, logs->ended ? "" : " yet");
		return CMD_EXIT_OK;
	}

	uint64_t offset = 0;

	if (options->tail != LOGS_TAIL_NONE && !waits && !logs->is_merged) {
		rc = logs->path[0] ? logs_tail(logs->path, options->tail, &offset, &err)
				   : err_set(&err, -EOPNOTSUPP,
					     "--tail needs the job's files, and they are not here");
		if (rc < 0)
			return cmd_fail(logs->call, logs_exit_of(logs, rc), &err);
	}

	if (options->follow && logs->has_agent && !logs->ended)
		return logs_show_job(logs, offset);

	return logs_show_outputs(logs, offset);
}

/* Of one job: by its number, or as somebody has written it. */
static int logs_one(const struct cmd_call *call, uint64_t id, const char *text)
{
	struct logs *logs = calloc(1, sizeof(*logs));
	if (!logs) {
		struct err err;
		(void)err_set(&err, -ENOMEM, "no memory");
		return cmd_fail(call, CMD_EXIT_FAILED, &err);
	}

	logs->call = call;
	logs->options = call->options;
	logs->id = id;
	logs->text = text;
	/* For JSON each piece is read with its stream. */
	logs->is_merged = logs->options->outputs == logs->options->errors;
	logs->is_errors = !logs->is_merged && logs->options->errors;

	int exit_code = text && job_text_target(text, &logs->id, &logs->array_id) < 0
			    ? cmd_usage(call, "'%s' is no number of a job", text)
			    : logs_show(logs);

	logs->log = log_follow_free(logs->log);
	logs->look = loop_timer_free(logs->look);
	agent_call_close(&logs->agent);
	free(logs);

	return exit_code;
}

/* One after the other, each below its number. */
static int logs_of_set(const struct cmd_call *call, const struct job_select *select)
{
	const struct logs_options *options = call->options;
	int worst = CMD_EXIT_OK;

	for (size_t i = 0; i < select->count && !ferror(stdout); i++) {
		const struct job_selected *job = &select->jobs[i];
		if (options->format == LOGS_JSON)
			; /* each object has its job */
		else if (job->array_id)
			printf("%s==> %" PRIu64 ".%" PRIu32 " <==\n", i ? "\n" : "", job->array_id,
			       job->array_index);
		else
			printf("%s==> %" PRIu64 " <==\n", i ? "\n" : "", job->id);

		(void)fflush(stdout); /* a loss shows as ferror() */
		int exit_code = logs_one(call, job->id, NULL);
		worst = exit_code ? exit_code : worst;
	}

	return worst;
}

static int logs_run(const struct cmd_call *call)
{
	const struct logs_options *options = call->options;
	_cleanup_job_select_ struct job_select select = {.count = 0};
	int worst = job_select_read(call, &options->select, &select);
	if (worst != CMD_EXIT_OK)
		return worst;

	if (options->format == LOGS_JSON && options->outputs != options->errors)
		return cmd_usage(call, "--output json has both outputs, each piece with its "
				       "\"stream\": without -o and -e");

	(void)signal(SIGPIPE, SIG_IGN); /* whoever reads may have read enough */
	if (select.is_plain && call->argc == 1)
		return logs_one(call, 0, call->argv[0]);

	struct agent_call agent = AGENT_CALL_NONE;
	struct err err = {0};
	const struct agent_call_options how = {
	    .socket = options->socket, .may_wake = true, .path = call->path};
	const struct job_select_verb verb = {.can = "is there", .has_ended = true};
	int rc = agent_call_open(&agent, &how, &err);

	worst = rc < 0 ? cmd_fail(call, agent_call_exit_code(&agent, rc), &err)
		       : job_select_find(call, &agent, &verb, &select);
	agent_call_close(&agent);
	if (!select.is_listed)
		return worst;

	int exit_code = logs_of_set(call, &select);
	worst = exit_code ? exit_code : worst;

	for (size_t i = 0; i < select.argument_count; i++) {
		if (select.is_found[i] || !job_set_is_single(&select.items[i]))
			continue;

		exit_code = logs_one(call, 0, call->argv[i]); /* which says why */
		worst = exit_code ? exit_code : worst;
	}

	return worst;
}

static const struct cmd_exit_row logs_exits[] = {
    {CMD_EXIT_OK, "it was shown; or the job has written nothing, or not started yet"},
    {CMD_EXIT_USAGE, "wrong command line, or there is no such job or attempt"},
    AGENT_CALL_EXITS,
};

static const struct cmd_example logs_examples[] = {
    {"sluice logs 17", "all of its output so far"},
    {"sluice logs -f --tail 20 17", "the last lines, and what comes until it ends"},
    {"sluice logs -e 17", "its error output alone"},
    {"sluice logs --output json 17 | jq -r 'select(.stream == \"stderr\").text'",
     "a line of it at a time, with its stream"},
    {"sluice logs 'train-*' 20.0-3", "of several, one after the other"},
    {0},
};

const struct command cmd_logs = {
    .name = "logs",
    .summary = "Show the output of a job",
    .description =
	"Shows what a job has written to its output and its error output, in the order in which "
	"it wrote. Users see their own jobs, root sees all. The command reads the files itself, so "
	"it works while no agent runs. Bytes pass unchanged into a file or a pipe; on a terminal "
	"all that would do more than write and colour lines appears as \\x1b instead.",
    .group = CMD_GROUP_JOBS,
    .run = logs_run,
    .options = logs_rows,
    .defaults = &logs_defaults,
    .options_size = sizeof(struct logs_options),
    .positional = "[ID|RANGE|NAME...]",
    .positional_words = "@jobs",
    .positional_max = JOB_SELECT_ARGUMENTS_MAX,
    .exits = logs_exits,
    .examples = logs_examples,
};
