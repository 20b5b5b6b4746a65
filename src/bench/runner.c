/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/parse.h"
#include "base/text.h"
#include "bench/mlrun.h"
#include "bench/nccltable.h"
#include "bench/result.h"

enum {
	RUNNER_READ = 65536,
	RUNNER_KILL_MS = 100, /* between two looks at whether all is over */
	RUNNER_STAT_MAX = 1 << 20,
	RUNNER_GROUP_MAX = 4096,
	RUNNER_STEAL_FIELD = 8, /* of the line "cpu", see proc(5) */
	RUNNER_SIGNAL_BASE = 128,
	RUNNER_CANNOT_START = 125,
	RUNNER_WRONG = 2, /* as exit status of a run whose results are wrong */
};

#define RUNNER_VALUE_MAX 1e18

static const struct clock runner_clock;		 /* the real one */
static volatile sig_atomic_t runner_interrupted; /* a signal has nothing else to tell it by */

/* --- what disturbs ---------------------------------------------------------------------------- */

int runner_parse_steal(const char *text, size_t length, uint64_t *out_ticks)
{
	static const char word[] = "cpu ";
	if (length < strlen(word) || !text_starts_with(text, word))
		return -EBADMSG;

	const char *at = text, *end = memchr(text, '\n', length);
	end = end ? end : text + length;
	for (int field = 0; at < end; field++) {
		size_t span = 0;
		while (at + span < end && at[span] != ' ')
			span++;

		if (field == RUNNER_STEAL_FIELD)
			return parse_u64_span(at, span, 0, UINT64_MAX, out_ticks) < 0 ? -EBADMSG
										      : 0;

		at += span;
		while (at < end && *at == ' ')
			at++;
	}

	return -EBADMSG;
}

int runner_parse_throttled(const char *text, size_t length, uint64_t *out_us)
{
	static const struct {
		const char *word;
		uint64_t divide;
	} words[] = {{"throttled_usec ", 1}, {"throttled_time ", 1000}}; /* v2; v1 in ns */

	for (const char *at = text, *end = text + length; at < end;) {
		const char *line_end = memchr(at, '\n', (size_t)(end - at));
		size_t span = (size_t)((line_end ? line_end : end) - at);

		for (size_t i = 0; i < array_length(words); i++) {
			size_t word = strlen(words[i].word);
			uint64_t number;

			if (span <= word || strncmp(at, words[i].word, word) != 0)
				continue;
			if (parse_u64_span(at + word, span - word, 0, UINT64_MAX, &number) < 0)
				return -EBADMSG;

			*out_us = number / words[i].divide;
			return 0;
		}

		at += span + 1;
	}

	return -EBADMSG;
}

static uint64_t runner_steal_ms(void)
{
	struct buf text _cleanup_buf_;
	uint64_t ticks;
	long hertz = sysconf(_SC_CLK_TCK);

	buf_init(&text, RUNNER_STAT_MAX);
	if (hertz <= 0 || file_read("/proc/stat", &text, NULL) < 0 ||
	    runner_parse_steal(buf_text(&text), text.length, &ticks) < 0)
		return 0; /* not known is none: it is only a mark */

	return ticks * 1000 / (uint64_t)hertz;
}

/* Of the group of this process, which the command is in. */
static uint64_t runner_throttled_us(void)
{
	struct buf own _cleanup_buf_, text _cleanup_buf_;
	char path[FILE_PATH_MAX];
	uint64_t us;

	buf_init(&own, RUNNER_GROUP_MAX);
	buf_init(&text, RUNNER_GROUP_MAX);
	if (file_read("/proc/self/cgroup", &own, NULL) < 0)
		return 0;

	for (const char *at = buf_text(&own); *at;) {
		size_t span = strcspn(at, "\n");
		const char *kind = memchr(at, ':', span);
		const char *group =
		    kind ? memchr(kind + 1, ':', span - (size_t)(kind + 1 - at)) : NULL;
		if (group) {
			bool is_v2 = group == kind + 1;
			size_t length = span - (size_t)(group + 1 - at);
			bool is_cpu = is_v2 || memmem(kind, (size_t)(group - kind), "cpu", 3);

			text.length = 0;
			if (is_cpu &&
			    file_path(path, NULL, "/sys/fs/cgroup%s%.*s/cpu.stat",
				      is_v2 ? "" : "/cpu", (int)length, group + 1) == 0 &&
			    file_read(path, &text, NULL) == 0 &&
			    runner_parse_throttled(buf_text(&text), text.length, &us) == 0)
				return us;
		}

		at += span + (at[span] == '\n');
	}

	return 0;
}

/* --- signals ---------------------------------------------------------------------------------- */

static void runner_on_signal(int number)
{
	runner_interrupted = 1;
}

void runner_catch_signals(void)
{
	struct sigaction action = {.sa_handler = runner_on_signal};
	(void)sigaction(SIGINT, &action, NULL); /* these cannot fail */
	(void)sigaction(SIGTERM, &action, NULL);
}

/* --- one run ---------------------------------------------------------------------------------- */

struct runner {
	const struct runner_options *options;
	struct result_run *out; /* borrowed */
	pid_t pid;
	int out_fd, err_fd; /* owned; -1: ended, or not wanted */
	char *line;	    /* owned: RUNNER_LINE_MAX bytes of the output's last line */
	size_t line_length, tail_length;
	bool has_value;
	double value;
	struct nccltable table;
	struct mlrun *log; /* owned; NULL: not wanted */
};

static void runner_take_table(struct runner *self, size_t length)
{
	struct nccltable_row row;
	(void)nccltable_line(&self->table, self->line, length, &row, NULL); /* others print, too */
	self->has_value = isfinite(self->table.peak_busbw);
	self->value = self->table.peak_busbw;
}

static void runner_take_line(struct runner *self)
{
	regmatch_t match[2];
	size_t length = self->line_length;

	self->line[self->line_length] = '\0';
	self->line_length = 0;
	if (self->options->is_nccl_table) {
		runner_take_table(self, length);
		return;
	}

	if (self->log) {
		mlrun_line(self->log, self->line, length);
		return;
	}

	if (regexec(self->options->line, self->line, 2, match, 0) != 0 || match[1].rm_so < 0)
		return;

	char *start = self->line + match[1].rm_so, *end = self->line + match[1].rm_eo;
	char kept = *end;

	*end = '\0';
	double value;
	if (parse_fraction(start, 0, RUNNER_VALUE_MAX, &value) == 0) {
		self->value = value;
		self->has_value = true;
	}

	*end = kept;
}

static void runner_take_output(struct runner *self, const char *data, size_t length)
{
	if (self->options->shows_output)
		(void)!write(STDOUT_FILENO, data, length); /* nobody who reads is no failure */

	for (size_t i = 0; self->line && i < length; i++) {
		if (data[i] == '\n' || self->line_length + 1 >= RUNNER_LINE_MAX)
			runner_take_line(self);
		if (data[i] != '\n')
			self->line[self->line_length++] = data[i];
	}
}

/* The end of what it says of its errors. */
static void runner_take_errors(struct runner *self, const char *data, size_t length)
{
	char *tail = self->out->tail;
	size_t room = RESULT_TAIL_MAX - 1;

	if (self->options->shows_output)
		(void)!write(STDERR_FILENO, data, length); /* as above */
	if (length > room) {
		data += length - room;
		length = room;
	}

	if (self->tail_length + length > room) {
		size_t drop = self->tail_length + length - room;
		memmove(tail, tail + drop, self->tail_length - drop);
		self->tail_length -= drop;
	}

	memcpy(tail + self->tail_length, data, length);
	self->tail_length += length;
	tail[self->tail_length] = '\0';
}

/* False: that was its end. */
static bool runner_read(struct runner *self, int fd)
{
	char data[RUNNER_READ];
	ssize_t length = read(fd, data, sizeof(data));
	if (length < 0)
		return errno == EINTR || errno == EAGAIN;
	if (length > 0 && fd == self->out_fd)
		runner_take_output(self, data, (size_t)length);
	else if (length > 0)
		runner_take_errors(self, data, (size_t)length);

	return length > 0;
}

/* In the new process. */
static _Noreturn void runner_become(const struct runner_options *options, pid_t parent, int out_fd,
				    int err_fd)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGPIPE};

	(void)setpgid(0, 0);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* who measures may be killed; nobody waits then */
	if (getppid() != parent)
		_exit(RUNNER_CANNOT_START);

	for (size_t i = 0; i < array_length(signals); i++)
		(void)signal(signals[i], SIG_DFL);

	int null_fd = open("/dev/null", O_RDWR);
	if (null_fd < 0 || dup2(null_fd, STDIN_FILENO) < 0 ||
	    dup2(out_fd >= 0 ? out_fd : null_fd, STDOUT_FILENO) < 0 ||
	    dup2(err_fd, STDERR_FILENO) < 0)
		_exit(RUNNER_CANNOT_START);

	(void)close_range(STDERR_FILENO + 1, ~0U, 0); /* before Linux 5.9 they are O_CLOEXEC */
	if (options->result_path)
		(void)setenv("SLUICE_RESULT_FILE", options->result_path, 1);
	(void)execl("/bin/sh", "sh", "-c", options->command, (char *)NULL);
	_exit(127);
}

static int runner_start(struct runner *self, struct err *err)
{
	int errors[2], output[2] = {-1, -1};
	bool is_read = self->line || self->options->shows_output;

	if (pipe2(errors, O_CLOEXEC) < 0)
		return err_set(err, -errno, "making a pipe: %s", err_describe(errno));

	_cleanup_close_ int errors_end = errors[1];

	self->err_fd = errors[0];
	if (is_read && pipe2(output, O_CLOEXEC) < 0)
		return err_set(err, -errno, "making a pipe: %s", err_describe(errno));

	_cleanup_close_ int output_end = output[1];

	self->out_fd = output[0];
	self->out->steal_ms = runner_steal_ms();
	self->out->throttled_us = runner_throttled_us();
	self->out->start_ns = clock_now_ns(&runner_clock);

	pid_t parent = getpid();

	self->pid = fork();
	if (self->pid < 0)
		return err_set(err, -errno, "starting a process: %s", err_describe(errno));
	if (self->pid == 0)
		runner_become(self->options, parent, output_end, errors_end);
	(void)setpgid(self->pid, self->pid); /* whoever of the two comes first */

	return 0;
}

/* True once it is reaped. */
static bool runner_reap(struct runner *self, struct rusage *out_usage)
{
	int status;
	pid_t pid = wait4(self->pid, &status, WNOHANG, out_usage);
	if (pid != self->pid)
		return false;

	self->out->end_ns = clock_now_ns(&runner_clock);
	self->out->rc =
	    WIFSIGNALED(status) ? RUNNER_SIGNAL_BASE + WTERMSIG(status) : WEXITSTATUS(status);
	return true;
}

static int runner_left_ms(const struct runner *self, bool has_ended)
{
	uint64_t timeout_ns = self->options->timeout_ns;

	if (has_ended)
		return 0; /* what is in the pipes now is all that counts */
	if (timeout_ns == 0)
		return -1;

	uint64_t gone_ns = clock_now_ns(&runner_clock) - self->out->start_ns;
	uint64_t left_ms = gone_ns < timeout_ns ? (timeout_ns - gone_ns) / 1000000 + 1 : 0;

	return left_ms < INT32_MAX ? (int)left_ms : INT32_MAX;
}

/* To the end of the command; what it leaves in its group is killed with it. */
static int runner_wait(struct runner *self, struct rusage *out_usage, struct err *err)
{
	_cleanup_close_ int pid_fd = (int)syscall(SYS_pidfd_open, self->pid, 0);
	bool has_ended = false;

	for (;;) {
		struct pollfd wait[] = {{.fd = has_ended ? -1 : pid_fd, .events = POLLIN},
					{.fd = self->out_fd, .events = POLLIN},
					{.fd = self->err_fd, .events = POLLIN}};
		int left_ms = runner_left_ms(self, has_ended);
		if (pid_fd < 0 && !has_ended && (left_ms < 0 || left_ms > RUNNER_KILL_MS))
			left_ms = RUNNER_KILL_MS; /* before Linux 5.3 nobody tells */

		int ready = poll(wait, array_length(wait), left_ms);
		if (runner_interrupted ||
		    (ready == 0 && !has_ended && self->options->timeout_ns > 0 &&
		     runner_left_ms(self, false) == 0)) {
			(void)kill(-self->pid, SIGKILL);
			self->out->timed_out = !runner_interrupted;

			pid_t pid;
			do {
				pid = wait4(self->pid, NULL, 0, out_usage);
			} while (pid < 0 && errno == EINTR);
			self->out->end_ns = clock_now_ns(&runner_clock);

			self->out->rc = RUNNER_SIGNAL_BASE + SIGKILL;
			return runner_interrupted ? err_set(err, -EINTR, "interrupted") : 0;
		}

		if (wait[1].revents && !runner_read(self, self->out_fd))
			(void)close(take_fd(&self->out_fd));
		if (wait[2].revents && !runner_read(self, self->err_fd))
			(void)close(take_fd(&self->err_fd));
		if (has_ended && ready <= 0)
			return 0;
		if (!has_ended && runner_reap(self, out_usage)) {
			has_ended = true;
			(void)kill(-self->pid, SIGKILL); /* what it left would disturb the next */
		}
	}
}

/* What it wrote of itself. */
static void runner_read_result(struct runner *self)
{
	struct buf text _cleanup_buf_;
	struct result own _cleanup_result_;
	struct err err = {0};

	buf_init(&text, RESULT_BYTES_MAX);
	result_init(&own);

	int rc = file_read(self->options->result_path, &text, &err);
	if (rc == 0 && text.length == 0)
		return; /* it has nothing to say */
	if (rc == 0)
		rc = result_parse(buf_text(&text), text.length, &own, &err);

	for (size_t i = 0; rc == 0 && i < own.run_count; i++) {
		for (size_t j = 0; rc == 0 && j < own.runs[i].metric_count; j++) {
			const struct result_metric *metric = &own.runs[i].metrics[j];
			rc = result_run_add(self->out, metric->name, metric->unit,
					    metric->higher_is_better, metric->samples,
					    metric->sample_count, &err);
		}
	}

	if (rc < 0)
		(void)snprintf(self->out->problem, sizeof(self->out->problem), "its result: %.240s",
			       err.text); /* cut */
}

static int runner_add_metrics(struct runner *self, const struct rusage *usage, struct err *err)
{
	struct result_run *out = self->out;
	double wall = (double)(out->end_ns - out->start_ns) / 1e9;
	double cpu = (double)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) +
		     (double)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) / 1e6;
	double rss = (double)usage->ru_maxrss * 1024;
	int rc = result_run_add(out, "wall", "s", false, &wall, 1, err);
	if (rc == 0)
		rc = result_run_add(out, "cpu", "s", false, &cpu, 1, err);

	if (rc == 0)
		rc = result_run_add(out, "rss", "bytes", false, &rss, 1, err);

	bool is_table = self->options->is_nccl_table;

	if (rc == 0 && self->has_value)
		rc = result_run_add(out, "output", is_table ? "GB/s" : "",
				    is_table || self->options->line_higher_is_better, &self->value,
				    1, err);

	if (rc == 0 && is_table && self->table.has_wrong) {
		(void)snprintf(out->problem, sizeof(out->problem), "its table has wrong elements");
		out->rc = out->rc ? out->rc : RUNNER_WRONG;
	}

	return rc;
}

/* A run that was aborted has taken no time to train. */
static int runner_add_training(struct runner *self, struct err *err)
{
	double seconds = mlrun_minutes(self->log) * 60, epochs = self->log->converged_epoch;
	double each = seconds / epochs;
	int rc = 0;

	if (self->log->has_aborted)
		(void)snprintf(self->out->problem, sizeof(self->out->problem),
			       "its log says that the training was aborted");
	else if (self->log->broken > 0) /* one of them may have been the last epoch */
		(void)snprintf(self->out->problem, sizeof(self->out->problem),
			       "its log has lines that cannot be read (%" PRIu64 ")",
			       self->log->broken);
	else if (isnan(seconds))
		(void)snprintf(self->out->problem, sizeof(self->out->problem),
			       "its log has no run_start, and run_stop after it");

	if (self->out->problem[0]) {
		self->out->rc = self->out->rc ? self->out->rc : RUNNER_WRONG;
		return 0;
	}

	rc = result_run_add(self->out, "time_to_train", "s", false, &seconds, 1, err);
	if (rc == 0 && epochs > 0)
		rc = result_run_add(self->out, "epochs", "", false, &epochs, 1, err);
	if (rc == 0 && epochs > 0)
		rc = result_run_add(self->out, "epoch_time", "s", false, &each, 1, err);

	return rc;
}

static int runner_measure(struct runner *self, struct err *err)
{
	struct rusage usage = {0};
	int rc = runner_start(self, err);
	if (rc == 0)
		rc = runner_wait(self, &usage, err);
	if (rc < 0)
		return rc;

	self->out->steal_ms = runner_steal_ms() - self->out->steal_ms;
	self->out->throttled_us = runner_throttled_us() - self->out->throttled_us;
	if (self->line && self->line_length > 0)
		runner_take_line(self);
	rc = runner_add_metrics(self, &usage, err);
	if (rc == 0 && self->log)
		rc = runner_add_training(self, err);

	if (rc == 0 && self->options->result_path)
		runner_read_result(self);

	return rc;
}

int runner_run(const struct runner_options *options, struct result_run *out, struct err *err)
{
	struct runner self = {.options = options, .out = out, .out_fd = -1, .err_fd = -1};
	nccltable_init(&self.table);

	_cleanup_free_ struct mlrun *log = options->is_mllog ? malloc(sizeof(*log)) : NULL;
	bool is_read = options->line || options->is_nccl_table || options->is_mllog;

	if ((options->is_mllog && !log) || (is_read && !(self.line = malloc(RUNNER_LINE_MAX))))
		return err_set(err, -ENOMEM, "no memory for a line of output");

	self.log = log;
	if (log)
		mlrun_init(log, MLRULES_11);

	int rc = 0;

	if (options->result_path && truncate(options->result_path, 0) < 0)
		rc = err_set(err, -errno, "emptying '%s': %s", options->result_path,
			     err_describe(errno));
	if (rc == 0)
		rc = runner_measure(&self, err);
	if (self.out_fd >= 0)
		(void)close(self.out_fd);
	if (self.err_fd >= 0)
		(void)close(self.err_fd);
	free(self.line);

	return rc;
}
