/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/job_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/suggest.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/table.h"
#include "job/demand.h"
#include "job/indices.h"

#define JOB_TEXT_STATE(name) SLUICE__V1__JOB_STATE__##name

enum { JOB_TEXT_SIGTERM_CODE = 128 + 15 };

static const struct {
	Sluice__V1__JobState state;
	const char *name;
} job_text_states[] = {
    {JOB_TEXT_STATE(PENDING), "Pending"},     {JOB_TEXT_STATE(STARTING), "Starting"},
    {JOB_TEXT_STATE(RUNNING), "Running"},     {JOB_TEXT_STATE(STOPPING), "Stopping"},
    {JOB_TEXT_STATE(SUCCEEDED), "Succeeded"}, {JOB_TEXT_STATE(FAILED), "Failed"},
    {JOB_TEXT_STATE(CANCELLED), "Cancelled"}, {JOB_TEXT_STATE(HELD), "Held"},
};

enum { JOB_TEXT_STATES = sizeof(job_text_states) / sizeof(job_text_states[0]) };

int job_text_target(const char *text, uint64_t *out_id, uint64_t *out_array_id)
{
	const char *dot = strchr(text, '.');
	uint64_t id, index = 0;
	int rc = parse_u64_span(text, dot ? (size_t)(dot - text) : strlen(text), 1,
				INT64_MAX - INDICES_LAST_MAX, &id);
	if (rc == 0 && dot)
		rc = parse_u64(dot + 1, 0, INDICES_LAST_MAX, &index);

	if (rc < 0)
		return rc;

	*out_id = id + index;
	*out_array_id = dot ? id : 0;
	return 0;
}

int job_text_id(const char *text, uint64_t *out)
{
	uint64_t array_id;
	return job_text_target(text, out, &array_id);
}

const char *job_text_label(const Sluice__V1__Job *job, char out[JOB_TEXT_LABEL_MAX])
{
	if (job->array_id)
		(void)snprintf(out, JOB_TEXT_LABEL_MAX, "%" PRIu64 ".%" PRIu32, job->array_id,
			       job->array_index);
	else
		(void)snprintf(out, JOB_TEXT_LABEL_MAX, "%" PRIu64, job->id);
	return out;
}

const char *job_text_state(Sluice__V1__JobState state)
{
	for (size_t i = 0; i < JOB_TEXT_STATES; i++)
		if (job_text_states[i].state == state)
			return job_text_states[i].name;
	return "Unknown";
}

int job_text_state_parse(const char *text, Sluice__V1__JobState *out, struct err *err)
{
	struct suggest suggest;
	suggest_init(&suggest, text);

	for (size_t i = 0; i < JOB_TEXT_STATES; i++) {
		if (strcasecmp(job_text_states[i].name, text) == 0) {
			*out = job_text_states[i].state;
			return 0;
		}
		suggest_offer(&suggest, job_text_states[i].name);
	}

	const char *best = suggest_best(&suggest);
	return err_set(err, -EINVAL, "'%s' is no state of a job%s%s%s", text,
		       best ? "; did you mean '" : "", best ? best : "", best ? "'?" : "");
}

bool job_text_is_final(Sluice__V1__JobState state)
{
	return state == JOB_TEXT_STATE(SUCCEEDED) || state == JOB_TEXT_STATE(FAILED) ||
	       state == JOB_TEXT_STATE(CANCELLED);
}

/* Adds to a text of `length` bytes, which is cut at its end; the new length. */
static size_t job_text_add(char out[JOB_TEXT_MAX], size_t length, const char *text)
{
	size_t added = strnlen(text, JOB_TEXT_MAX - 1 - length);
	memcpy(out + length, text, added);
	out[length + added] = '\0';
	return length + added;
}

static size_t job_text_addf(char out[JOB_TEXT_MAX], size_t length, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static size_t job_text_addf(char out[JOB_TEXT_MAX], size_t length, const char *format, ...)
{
	char text[JOB_TEXT_MAX];
	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	return job_text_add(out, length, text);
}

const char *job_text_reason(const Sluice__V1__Job *job, char out[JOB_TEXT_MAX])
{
	bool open = job->reason[0] && job->reason_text[0] && job->reason_text[0] != '(';
	size_t length = job_text_add(out, 0, job->reason);
	if (job->reason[0] && job->reason_text[0])
		length = job_text_add(out, length, " ");
	length = job_text_add(out, length, open ? "(" : "");
	length = job_text_add(out, length, job->reason_text);
	(void)job_text_add(out, length, open ? ")" : "");

	return out;
}

/* By the words of podman 4 and docker 24; the first that is in the text counts. */
static const struct {
	const char *word, *advice;
} job_text_advices[] = {
    {"exec format error",
     "is it a program for this machine's processors ('uname -m'), and the image too?"},
    {"executable file not found",
     "the image has no such command in its PATH: name the program by its whole path"},
    {"no such file or directory: OCI runtime attempted",
     "the image has no such program: look at the command, and at --entrypoint"},
    {"CDI", "'sluice cdi check' says which devices containers can have"},
    {"workdir", "name a directory that is in the image with --cwd"},
    {"unable to find user", "--user takes numbers that the image need not know"},
    {"statfs ", "make the directory, or correct the first part of --volume"},
    {"bind source path does not exist",
     "make the directory, or correct the first part of --volume"},
    {"mount", "look at --volume and --tmpfs: what they name has to fit into the image"},
    {"image not known", "is that its name ('podman images')? '--pull missing' fetches it"},
    {"No such image", "is that its name ('docker images')? '--pull missing' fetches it"},
    {"initializing source", "is that its name, and can this machine reach the registry? "
			    "'podman pull' tries it alone"},
    {"reference format", "an image is named REGISTRY/NAME:TAG, in lower case"},
    {"setrlimit", "the user's limits (ulimit -Ha) are lower than podman wants"},
    {"setting rlimit", "the user's limits (ulimit -Ha) are lower than podman wants"},
    {"permission denied: OCI", "is it a program, and executable in the image?"},
    {"exec: \"", "is it a program, and executable in the image?"},
};

const char *job_text_advice(const Sluice__V1__Job *job)
{
	if (strcmp(job->reason, "ContainerError") != 0 &&
	    !strstr(job->reason_text, "the last: ContainerError")) /* of several attempts */
		return "";
	for (size_t i = 0; i < array_length(job_text_advices); i++)
		if (strstr(job->reason_text, job_text_advices[i].word))
			return job_text_advices[i].advice;
	return "'sluice logs -e' shows all that the container's runtime said";
}

/* What a job wants that has none. */
static const char *job_text_wanted(const Sluice__V1__Job *job, char out[JOB_TEXT_MAX])
{
	if (job->gpus == 0)
		return out;

	size_t length = job_text_addf(
	    out, 0, "%s %" PRIu32, job_text_is_final(job->state) ? "wanted" : "wants", job->gpus);

	if (job->share_denominator == JOB_TEXT_ONE_SLOT && job->share_numerator == 1)
		(void)job_text_add(out, length, " (one slot)");
	else if (job->share_denominator > 0)
		(void)job_text_addf(out, length, " (%" PRIu32 "/%" PRIu32 ")", job->share_numerator,
				    job->share_denominator);

	return out;
}

const char *job_text_gpus(const Sluice__V1__Job *job, char out[JOB_TEXT_MAX])
{
	size_t length = 0;

	out[0] = '\0';
	const Sluice__V1__Attempt *attempt = job->attempt;
	if (!attempt || attempt->n_grants == 0)
		return job_text_wanted(job, out);

	for (size_t i = 0; i < attempt->n_grants; i++) {
		const Sluice__V1__Grant *grant = attempt->grants[i];
		const char *number = strrchr(grant->label, ' '); /* "GPU 3", "MIG 3:1" */

		length = job_text_add(out, length, i ? "," : "");
		length = job_text_add(out, length, number ? number + 1 : grant->label);

		if (grant->n_slots < grant->slot_count)
			length = job_text_addf(out, length, " (%zu/%" PRIu32 ")", grant->n_slots,
					       grant->slot_count);
	}

	return out;
}

uint64_t job_text_elapsed_ns(const Sluice__V1__Job *job, int64_t now_unix_ns)
{
	const Sluice__V1__Attempt *attempt = job->attempt;
	int64_t from = attempt ? attempt->started_unix_ns : 0;
	int64_t to = attempt ? attempt->ended_unix_ns : 0;

	if (from == 0) {
		if (job_text_is_final(job->state))
			return 0; /* it never ran */
		from = job->submitted_unix_ns;
	}

	if (to == 0)
		to = now_unix_ns;

	return to > from ? (uint64_t)(to - from) : 0; /* the clock may have been set back */
}

/* "4m05s": two numbers, each with what stands behind it, the second with so many digits. */
static const char *job_text_pair(char out[JOB_TEXT_TIME_MAX], uint64_t first, char behind,
				 uint64_t second, unsigned digits, char end)
{
	size_t length = text_u64(out, first);
	out[length++] = behind;
	if (digits == 2 && second < 10)
		out[length++] = '0';
	length += text_u64(out + length, second);
	out[length++] = end;
	out[length] = '\0';

	return out;
}

const char *job_text_duration(uint64_t ns, char out[JOB_TEXT_TIME_MAX])
{
	uint64_t seconds = ns / CLOCK_NS_PER_S;
	uint64_t minutes = seconds / 60, hours = minutes / 60;

	if (seconds < 10)
		return job_text_pair(out, seconds, '.', ns / 10000000 % 100, 2, 's');
	if (seconds < 60)
		return job_text_pair(out, seconds, '.', ns / 100000000 % 10, 1, 's');
	if (minutes < 60)
		return job_text_pair(out, minutes, 'm', seconds % 60, 2, 's');
	if (hours < 24)
		return job_text_pair(out, hours, 'h', minutes % 60, 2, 'm');

	return job_text_pair(out, hours / 24, 'd', hours % 24, 2, 'h');
}

/* "~45s", "~119m", "~3h", "~4d": as exactly as a forecast deserves. */
static void job_text_about(uint64_t ns, char out[JOB_TEXT_TIME_MAX])
{
	uint64_t seconds = ns / CLOCK_NS_PER_S, minutes = seconds / 60, hours = minutes / 60;

	if (minutes < 1)
		(void)snprintf(out, JOB_TEXT_TIME_MAX, "~%" PRIu64 "s", seconds);
	else if (hours < 2)
		(void)snprintf(out, JOB_TEXT_TIME_MAX, "~%" PRIu64 "m", minutes);
	else if (hours < 48)
		(void)snprintf(out, JOB_TEXT_TIME_MAX, "~%" PRIu64 "h", hours);
	else
		(void)snprintf(out, JOB_TEXT_TIME_MAX, "~%" PRIu64 "d", hours / 24);
}

const char *job_text_start(const Sluice__V1__Job *job, int64_t now_unix_ns,
			   char out[JOB_TEXT_TIME_MAX])
{
	char about[JOB_TEXT_TIME_MAX] = "";
	int64_t at_ns = job->start_estimate_unix_ns;

	out[0] = '\0';
	if (job->place == 0)
		return out;

	if (at_ns > 0)
		job_text_about(at_ns > now_unix_ns ? (uint64_t)at_ns - (uint64_t)now_unix_ns : 0,
			       about);
	(void)snprintf(out, JOB_TEXT_TIME_MAX, "#%" PRIu64 "%s%.8s", job->place,
		       about[0] ? " " : "", about);

	return out;
}

const char *job_text_time(int64_t unix_ns, char out[JOB_TEXT_TIME_MAX])
{
	time_t seconds = (time_t)(unix_ns / (int64_t)CLOCK_NS_PER_S);
	struct tm parts;
	size_t length = 0;

	if (unix_ns > 0 && localtime_r(&seconds, &parts))
		length = strftime(out, JOB_TEXT_TIME_MAX, "%Y-%m-%d %H:%M:%S", &parts);

	if (length == 0)
		(void)snprintf(out, JOB_TEXT_TIME_MAX, "-");
	else
		(void)snprintf(out + length, JOB_TEXT_TIME_MAX - length, ".%03d",
			       (int)(unix_ns / 1000000 % 1000));

	return out;
}

const char *job_text_outside(const Sluice__V1__GpuUse *use, char out[JOB_TEXT_MAX])
{
	size_t length = job_text_addf(out, 0, "%s is in use outside the queue: ", use->label);

	if (use->user[0])
		length = job_text_addf(out, length, "%s", use->user);
	else
		length = job_text_addf(out, length, "uid %" PRIu32, use->uid);

	length = job_text_addf(out, length, ", pid %" PRIu32, use->pid);
	if (use->name[0])
		length = job_text_addf(out, length, " (%s)", use->name);
	if (use->holder[0])
		(void)job_text_addf(out, length, ", %s", use->holder);

	return out;
}

int job_text_exit_code(const Sluice__V1__Job *job)
{
	if (strcmp(job->reason, "DeadlineExceeded") == 0)
		return CMD_EXIT_DEADLINE;
	if (job->has_exit)
		return job->exit_code & 0xff;

	switch (job->state) {
	case JOB_TEXT_STATE(SUCCEEDED):
		return CMD_EXIT_OK;
	case JOB_TEXT_STATE(CANCELLED):
		return JOB_TEXT_SIGTERM_CODE; /* it never ran: as if it had been asked to end */
	default:
		return CMD_EXIT_FAILED; /* outcome not known */
	}
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *job_text_json_time(int64_t unix_ns)
{
	return unix_ns ? json_real((double)unix_ns / 1e9) : json_null();
}

static json_t *job_text_json_number(uint64_t number)
{
	return number ? json_integer((json_int_t)number) : json_null();
}

/* Gives `item` to `array`; NULL in either stays NULL, so that no loss goes unnoticed. */
static json_t *job_text_json_append(json_t *array, json_t *item)
{
	if (array && item && json_array_append_new(array, item) == 0)
		return array;
	if (!array || !item)
		json_decref(item);
	json_decref(array);
	return NULL;
}

static json_t *job_text_json_bytes(size_t count, const ProtobufCBinaryData *items)
{
	json_t *array = json_array();
	for (size_t i = 0; i < count; i++) {
		char *text = text_copy(items[i].data, items[i].len);
		array = job_text_json_append(array, text ? table_json_text(text) : NULL);
		free(text);
	}

	return array;
}

static json_t *job_text_json_grants(const Sluice__V1__Attempt *attempt)
{
	json_t *array = json_array();

	for (size_t i = 0; i < attempt->n_grants; i++) {
		const Sluice__V1__Grant *grant = attempt->grants[i];
		json_t *slots = json_array();
		for (size_t k = 0; k < grant->n_slots; k++)
			slots = job_text_json_append(slots, json_integer(grant->slots[k]));

		array = job_text_json_append(array, json_pack("{s:o, s:o, s:I, s:o, s:I}", "uuid",
							      table_json_text(grant->uuid), "label",
							      table_json_text(grant->label),
							      "gpu_index", (json_int_t)grant->index,
							      "slots", slots, "slot_count",
							      (json_int_t)grant->slot_count));
	}

	return array;
}

static json_t *job_text_json_observed(const Sluice__V1__Attempt *attempt)
{
	json_t *array = json_array();

	for (size_t i = 0; i < attempt->n_observed; i++) {
		const Sluice__V1__Observation *seen = attempt->observed[i];
		array = job_text_json_append(
		    array, json_pack("{s:I, s:o, s:o, s:o}", "pid", (json_int_t)seen->pid, "uuid",
				     table_json_text(seen->uuid), "first_unix",
				     job_text_json_time(seen->first_unix_ns), "last_unix",
				     job_text_json_time(seen->last_unix_ns)));
	}

	return array;
}

static json_t *job_text_json_text(const char *text)
{
	return table_json_text(text && *text ? text : NULL);
}

static json_t *job_text_json_attempt(const Sluice__V1__Attempt *attempt)
{
	if (!attempt || attempt->number == 0)
		return json_null();

	return json_pack(
	    "{s:I, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "number",
	    (json_int_t)attempt->number, "started_unix",
	    job_text_json_time(attempt->started_unix_ns), "ended_unix",
	    job_text_json_time(attempt->ended_unix_ns), "pid", job_text_json_number(attempt->pid),
	    "supervisor_pid", job_text_json_number(attempt->supervisor_pid), "port",
	    job_text_json_number(attempt->port), "killed_leftovers",
	    (json_int_t)attempt->killed_leftovers, "isolation",
	    job_text_json_text(attempt->isolation), "isolation_reason",
	    job_text_json_text(attempt->isolation_reason), "cgroup",
	    job_text_json_text(attempt->cgroup), "stdout_path",
	    job_text_json_text(attempt->stdout_path), "stderr_path",
	    job_text_json_text(attempt->stderr_path), "gpus", job_text_json_grants(attempt),
	    "observed", job_text_json_observed(attempt));
}

static json_t *job_text_json_share(const Sluice__V1__Job *job)
{
	if (job->share_denominator == 0)
		return json_null();
	if (job->share_denominator == JOB_TEXT_ONE_SLOT && job->share_numerator == 1)
		return json_string("slot");
	return json_sprintf("%" PRIu32 "/%" PRIu32, job->share_numerator, job->share_denominator);
}

static json_t *job_text_json_resources(const Sluice__V1__Job *job)
{
	json_auto_t *out = json_object();
	const char *list = job->resources;
	struct demand demand;
	while (out && demand_next(&list, &demand, NULL) > 0)
		if (json_object_set_new(out, demand.name, json_integer(demand.units)) < 0)
			return NULL;
	return json_incref(out);
}

/* When it may start and how long it may run; null of other users' jobs. NULL if there is no memory,
 * or `out` is NULL. */
static json_t *job_text_json_times(const Sluice__V1__Job *job, json_t *out)
{
	const Sluice__V1__Wants *wants = job->wants;
	uint64_t begin_ns = wants ? wants->begin_unix_ns : 0, limit_ns = wants ? wants->time_ns : 0;
	json_t *limit = limit_ns ? json_real((double)limit_ns / 1e9) : json_null();
	bool is_whole = out && json_object_set_new(out, "begin_unix",
						   job_text_json_time((int64_t)begin_ns)) == 0;

	is_whole = json_object_set_new(out, "limit_seconds", limit) == 0 && is_whole;
	is_whole =
	    json_object_set_new(out, "warning", job_text_json_text(job->warning)) == 0 && is_whole;
	if (!is_whole)
		json_decref(out);
	return is_whole ? out : NULL;
}

static json_t *job_text_json_array(const Sluice__V1__Job *job)
{
	if (job->array_id == 0)
		return json_null();
	return json_pack("{s:I, s:I, s:o}", "first", (json_int_t)job->array_id, "index",
			 (json_int_t)job->array_index, "count",
			 job_text_json_number(job->array_count));
}

json_t *job_text_json(const Sluice__V1__Job *job)
{
	_cleanup_free_ char *directory = strndup(
	    job->directory.data ? (const char *)job->directory.data : "", job->directory.len);
	if (!directory)
		return NULL;

	json_t *out = json_pack(
	    "{s:I, s:o, s:I, s:o, s:s, s:o, s:o, s:I, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o, "
	    "s:o, s:o, s:o, s:o}",
	    "id", (json_int_t)job->id, "name", table_json_text(job->name), "uid",
	    (json_int_t)job->uid, "user", job_text_json_text(job->user), "state",
	    job_text_state(job->state), "reason", job_text_json_text(job->reason), "reason_text",
	    job_text_json_text(job->reason_text), "gpus_wanted", (json_int_t)job->gpus, "share",
	    job_text_json_share(job), "resources", job_text_json_resources(job), "simulated",
	    (int)job->simulated, "submitted_unix", job_text_json_time(job->submitted_unix_ns),
	    "exit_code", job->has_exit ? json_integer(job->exit_code) : json_null(), "signal",
	    job_text_json_number(job->signal), "command",
	    job->n_argv ? job_text_json_bytes(job->n_argv, job->argv) : json_null(), "directory",
	    job_text_json_text(directory), "image", job_text_json_text(job->image), "attempt",
	    job_text_json_attempt(job->attempt), "array", job_text_json_array(job), "queue_place",
	    job_text_json_number(job->place), "start_estimate_unix",
	    job_text_json_time(job->start_estimate_unix_ns));
	return job_text_json_times(job, out);
}

json_t *job_text_outside_json(const Sluice__V1__GpuUse *use)
{
	return json_pack(
	    "{s:o, s:o, s:I, s:I, s:o, s:o, s:o, s:I}", "uuid", table_json_text(use->uuid), "label",
	    table_json_text(use->label), "pid", (json_int_t)use->pid, "uid", (json_int_t)use->uid,
	    "user", job_text_json_text(use->user), "name", job_text_json_text(use->name), "holder",
	    job_text_json_text(use->holder), "memory_bytes", (json_int_t)use->memory_bytes);
}
