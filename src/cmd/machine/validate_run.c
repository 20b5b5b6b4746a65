/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/machine/validate_run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/jsonw.h"
#include "bench/fingerprint.h"
#include "bench/result.h"
#include "cmd/table.h"
#include "hardware/pci.h"
#include "probe/client.h"

extern char **environ;

enum { RUN_REPORT_MAX = 64 << 20 };
#define RUN_LOOK_NS UINT64_C(30000000000)

const struct cmd_exit_row validate_exits[] = {
    {FINDINGS_EXIT_RIGHT, "all that was looked at is right (PASS, WARN)"},
    {FINDINGS_EXIT_POOR, "right, and something is slower than is expected (SLOW)"},
    {FINDINGS_EXIT_WRONG,
     "something is wrong: a wrong result, a GPU that is lost or hangs, more or "
     "fewer GPUs than there should be (FAIL)"},
    {FINDINGS_EXIT_NOTHING, "nothing can be said: everything was skipped (SKIP), or there is no "
			    "driver and nothing says that there should be one"},
    {CMD_EXIT_USAGE, "wrong command line"},
    {CMD_EXIT_CANNOT_WRITE, "the report, or the file of --json, cannot be written"},
    {FINDINGS_EXIT_INTERRUPTED, "interrupted; what was found until then is reported"},
    {0, NULL},
};

static volatile sig_atomic_t run_is_stopped; /* a signal has nothing else to tell it by */

static void run_on_signal(int number)
{
	(void)number;
	run_is_stopped = 1;
}

/* --- called back ------------------------------------------------------------------------------ */

static void run_take_event(const struct probe_event *event, void *context)
{
	struct validate_state *state = context;

	if (event->kind == PROBE_EVENT_NO_LOG)
		state->has_log = false;
	if (event->kind != PROBE_EVENT_XID || state->xid_count >= VALIDATE_XIDS_MAX)
		return;

	struct validate_xid *xid = &state->xids[state->xid_count++];
	(void)snprintf(xid->uuid, sizeof(xid->uuid), "%s", event->uuid);
	(void)snprintf(xid->bus, sizeof(xid->bus), "%s", event->bus);
	xid->code = event->data;
	xid->time_ns = event->time_ns;
}

static int run_look(void *context, struct validate_state *out, struct err *err)
{
	const struct validate_run *run = context;
	bool has_log = (run->plan.mask >> VALIDATE_XID & 1) != 0;
	const struct probe_options options = {.kernel_log = has_log};
	out->has_log = has_log;
	return probe_collect_events(&options, RUN_LOOK_NS, &out->inventory, &out->snapshot,
				    run_take_event, out, err);
}

static void run_note(void *context, const char *text, bool is_progress)
{
	const struct validate_run *run = context;
	bool has_terminal = isatty(STDERR_FILENO) != 0;
	if (has_terminal)
		(void)fprintf(stderr, "\r\x1b[K");
	if (is_progress && has_terminal)
		(void)fprintf(stderr, "%s", text);

	if (is_progress || run->is_quiet || run->output != OPTION_OUTPUT_TABLE)
		return;

	cmd_print(stdout, text);
	(void)putchar('\n');
	(void)fflush(stdout);
}

/* --- the report ------------------------------------------------------------------------------- */

static void run_number(struct table *table, const struct check *check, bool is_there, double value)
{
	bool is_whole = value >= 0 && value < 1e15 && value == (double)(uint64_t)value;
	if (!is_there)
		table_add(table, NULL);
	else if (is_whole)
		table_addf(table, "%" PRIu64 " %s", (uint64_t)value, check->unit);
	else
		table_addf(table, "%.2f %s", value, check->unit);
}

static int run_print(const struct checks *checks, struct err *err)
{
	static const struct table_column columns[] = {
	    {"STATUS", TABLE_LEFT, false}, {"CHECK", TABLE_LEFT, false},
	    {"TARGET", TABLE_LEFT, true},  {"VALUE", TABLE_RIGHT, false},
	    {"LIMIT", TABLE_RIGHT, false}, {"REASON", TABLE_LEFT, false},
	};
	_cleanup_table_ struct table *table =
	    table_new(columns, sizeof(columns) / sizeof(columns[0]));
	if (!table)
		return err_set(err, -ENOMEM, "making the report: no memory");

	for (size_t i = 0; i < checks->count; i++) {
		const struct check *check = &checks->list[i];
		table_add(table, check_status_to_string(check->status));
		table_add(table, check->name);
		table_add(table, check->target);
		run_number(table, check, check->has_value, check->value);
		run_number(table, check, check->has_limit, check->limit);
		table_add(table, check->reason);
	}

	int rc = table_print(table, stdout, 0, err);

	for (size_t i = 0; rc == 0 && i < checks->count; i++) {
		const struct check *check = &checks->list[i];
		bool is_new = check->hint[0] != '\0' && check->status != CHECK_PASS;
		for (size_t j = 0; j < i && is_new; j++)
			is_new = strcmp(checks->list[j].hint, check->hint) != 0;

		if (!is_new)
			continue;

		printf("%s %s: ", check_status_to_string(check->status), check->name);
		cmd_print(stdout, check->hint);
		(void)putchar('\n');
	}

	return rc;
}

static void run_json_argv(struct jsonw *json)
{
	struct buf line _cleanup_buf_;
	char *argv[CMD_LINE_ARGUMENTS_MAX];
	int argc = cmd_line(&line, argv);
	jsonw_array(json, "argv");
	for (int i = 0; i < argc; i++)
		jsonw_text(json, NULL, argv[i]);
	jsonw_end_array(json);
}

static int run_json(const struct validate_run *run, const struct checks *checks,
		    const char *started, const struct err *failed, struct buf *out)
{
	struct jsonw json;
	jsonw_init(&json, out);
	jsonw_object(&json, NULL);
	jsonw_text(&json, "schema", RESULT_SCHEMA);
	jsonw_text(&json, "tool", run->call->path);
	jsonw_text(&json, "version", cmd_version());
	jsonw_text(&json, "started", started);
	run_json_argv(&json);
	jsonw_u64(&json, "seed", 0); /* nothing is drawn by lot */

	if (run->level > 0)
		jsonw_u64(&json, "level", run->level);
	fingerprint_write(&json, "", environ);
	checks_write(&json, checks, true);
	jsonw_array(&json, "verdicts");
	jsonw_end_array(&json);

	if (failed->text[0])
		jsonw_text(&json, "error", failed->text);
	jsonw_end_object(&json);
	return json.rc < 0 ? json.rc : buf_add_text(out, "\n");
}

/* A file that is mounted, as a container's /dev/termination-log, cannot be replaced by another; and
 * who may write one need not have a right to its directory. Then its content is replaced. */
static int run_write(const char *path, const struct buf *text, struct err *err)
{
	int rc = file_write_atomic(path, buf_text(text), text->length, 0644, err);
	if (rc != -EBUSY && rc != -EACCES && rc != -EPERM && rc != -EROFS)
		return rc;

	struct stat status;
	_cleanup_close_ int fd =
	    open(path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) || ftruncate(fd, 0) < 0)
		return rc;

	for (size_t done = 0; done < text->length;) {
		ssize_t written = write(fd, buf_text(text) + done, text->length - done);
		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return err_set(err, -errno, "cannot write '%s': %s", path,
				       err_describe(-errno));

		done += (size_t)written;
	}

	return 0;
}

/* The exit code. */
static int run_report(const struct validate_run *run, const struct checks *checks,
		      const char *started, int rc, const struct err *failed)
{
	struct buf text _cleanup_buf_;
	struct err err = {.code = 0};
	int code = rc == -ECANCELED ? FINDINGS_EXIT_INTERRUPTED
		   : rc < 0	    ? FINDINGS_EXIT_WRONG
				    : checks_exit_code(checks);

	buf_init(&text, RUN_REPORT_MAX);
	int made = run_json(run, checks, started, failed, &text);
	if (made < 0)
		(void)err_set(&err, made, "making the report: %s", err_describe(made));
	else if (run->output == OPTION_OUTPUT_JSON)
		(void)fwrite(buf_text(&text), 1, text.length, stdout); /* cmd_main() looks at it */
	else
		made = run_print(checks, &err);

	if (made < 0) /* not WRONG, which would take the machine out of service */
		return cmd_fail(run->call, CMD_EXIT_CANNOT_WRITE, &err);
	if (run->json && run_write(run->json, &text, &err) < 0)
		return cmd_fail(run->call, CMD_EXIT_CANNOT_WRITE, &err);
	if (rc < 0)
		(void)cmd_fail(run->call, code, failed);

	return code;
}

int validate_run_all(struct validate_run *run)
{
	const struct sigaction action = {.sa_handler = run_on_signal};
	struct checks checks;
	struct err err = {.code = 0};
	char started[CLOCK_UTC_TEXT];
	clock_utc_text(started);
	run->plan.root = pci_root();
	run->plan.environment = environ;
	run->plan.look = run_look;
	run->plan.note = run_note;
	run->plan.context = run;
	run->plan.stop = &run_is_stopped;
	(void)sigaction(SIGINT, &action, NULL); /* these cannot fail */
	(void)sigaction(SIGTERM, &action, NULL);
	checks_init(&checks);

	int rc = validate_run(&run->plan, &checks, &err);

	if (isatty(STDERR_FILENO))
		(void)fprintf(stderr, "\r\x1b[K");

	int code = run_report(run, &checks, started, rc, &err);
	checks_done(&checks);
	return code;
}
