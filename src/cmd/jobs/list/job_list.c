/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/list/job_list.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/text.h"
#include "cmd/jobs/job_text.h"
#include "cmd/table.h"

enum list_sizes {
	LIST_STATES = SLUICE__V1__JOB_STATE__HELD + 1,
	LIST_GPUS_MAX = 64,    /* bytes of which GPUs the members of an array have, cut */
	LIST_TABLE_FIRST = 64, /* of arrays; a power of two */
	LIST_SPARE_LINES = 2,  /* the last one of the list, and the shell's */
	LIST_OUTSIDE_BYTES = 64 << 10,
	LIST_OUTSIDE_MAX = 8, /* lines of GPUs in use outside the queue */
};

/* How a row is put in order. */
struct list_row {
	uint64_t place; /* in the queue; UINT64_MAX: none */
	size_t at;	/* in the table */
	uint32_t uid, jobs, active, waiting;
	uint8_t rank; /* those that run, those that wait, held ones, those that have ended */
	bool is_own;
};

/* The members of an array so far. */
struct list_array {
	uint64_t id;
	uint32_t size; /* members of the array; 0: not told */
	uint32_t seen, counts[LIST_STATES];
	uint64_t place; /* the smallest; 0: none */
	int64_t estimate_unix_ns, started_unix_ns;
	char gpus[LIST_GPUS_MAX];
	/* The one that is shown for all, as it was packed; owned. One that waits, if any does. */
	uint8_t *packed;
	size_t packed_length;
	bool is_waiting;
};

struct job_list {
	struct job_list_options options;
	struct table_column titles[JOB_COLUMNS_MAX];
	struct table_give give[JOB_COLUMNS_MAX];
	struct table *table;   /* owned */
	struct list_row *rows; /* owned */
	size_t row_count, row_room;
	struct list_array *arrays; /* owned */
	size_t array_count, array_room;
	size_t *index; /* owned; of `arrays`, place + 1 by hash of the id; 0: empty */
	size_t index_size;
	size_t last;	    /* the array of the job before: members come one after the other */
	struct buf outside; /* lines, */
	size_t outside_lines, outside_more;
	bool out_of_memory;
};

struct job_list *job_list_new(const struct job_list_options *options)
{
	struct job_list *list = calloc(1, sizeof(*list));
	if (!list)
		return NULL;

	list->options = *options;
	job_columns_titles(&options->columns, options->named, list->titles, list->give);
	buf_init(&list->outside, LIST_OUTSIDE_BYTES);
	list->table = table_new(list->titles, options->columns.count);

	return list->table ? list : job_list_free(list);
}

struct job_list *job_list_free(struct job_list *list)
{
	if (!list)
		return NULL;
	for (size_t i = 0; i < list->array_count; i++)
		free(list->arrays[i].packed);

	buf_done(&list->outside);
	free(list->arrays);
	free(list->index);
	free(list->rows);
	list->table = table_free(list->table);
	free(list);

	return NULL;
}

/* --- rows ------------------------------------------------------------------------------------- */

static bool list_is_active(Sluice__V1__JobState state)
{
	return state == SLUICE__V1__JOB_STATE__STARTING ||
	       state == SLUICE__V1__JOB_STATE__RUNNING || state == SLUICE__V1__JOB_STATE__STOPPING;
}

static uint8_t list_rank(Sluice__V1__JobState state)
{
	if (state == SLUICE__V1__JOB_STATE__PENDING)
		return 1;
	if (state == SLUICE__V1__JOB_STATE__HELD)
		return 2;
	return job_text_is_final(state) ? 3 : 0;
}

static void list_add_row(struct job_list *list, const Sluice__V1__Job *job, struct list_row row)
{
	if (array_room(&list->rows, list->row_count, &list->row_room, 64) < 0) {
		list->out_of_memory = true;
		return;
	}

	row.at = list->row_count;
	row.place = job->place ? job->place : UINT64_MAX;
	row.uid = job->uid;
	row.rank = list_rank(job->state);
	row.is_own = job->uid == list->options.uid;
	list->rows[list->row_count++] = row;
	job_columns_add(&list->options.columns, job, list->options.now_unix_ns, list->table);
}

/* --- arrays ----------------------------------------------------------------------------------- */

/* Where the id is in the index, or belongs. */
static size_t list_slot(const struct job_list *list, uint64_t id)
{
	size_t slot = (size_t)(id * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (list->index_size - 1);
	while (list->index[slot] && list->arrays[list->index[slot] - 1].id != id)
		slot = (slot + 1) & (list->index_size - 1);
	return slot;
}

/* Room for one array more: the index is at most half full. */
static bool list_grow(struct job_list *list)
{
	if (list->array_count < list->array_room)
		return true;

	size_t room = list->array_room ? 2 * list->array_room : LIST_TABLE_FIRST;
	struct list_array *arrays = reallocarray(list->arrays, room, sizeof(*arrays));
	if (!arrays)
		return false;
	list->arrays = arrays;

	size_t *index = calloc(2 * room, sizeof(*index));
	if (!index)
		return false;

	free(list->index);
	list->index = index;
	list->index_size = 2 * room;
	list->array_room = room;
	for (size_t i = 0; i < list->array_count; i++)
		list->index[list_slot(list, arrays[i].id)] = i + 1;

	return true;
}

/* NULL: no memory. */
static struct list_array *list_array_of(struct job_list *list, const Sluice__V1__Job *job)
{
	if (list->last < list->array_count && list->arrays[list->last].id == job->array_id)
		return &list->arrays[list->last];
	if (!list_grow(list))
		return NULL;

	size_t slot = list_slot(list, job->array_id);
	if (!list->index[slot]) {
		list->arrays[list->array_count] = (struct list_array){.id = job->array_id};
		list->index[slot] = ++list->array_count;
	}

	list->last = list->index[slot] - 1;
	return &list->arrays[list->last];
}

/* This one stands for all of them from now on. */
static bool list_show(struct list_array *array, const Sluice__V1__Job *job)
{
	size_t length = protobuf_c_message_get_packed_size(&job->base);
	uint8_t *packed = malloc(length + 1);
	if (!packed)
		return false;

	free(array->packed);
	array->packed = packed;
	array->packed_length = protobuf_c_message_pack(&job->base, packed);
	array->is_waiting = job->state == SLUICE__V1__JOB_STATE__PENDING;

	return true;
}

/* What running members have: "0,3,5". */
static void list_add_gpus(struct list_array *array, const Sluice__V1__Job *job)
{
	char text[JOB_TEXT_MAX];
	size_t length = strlen(array->gpus);
	const char *gpus = job->gpus > 0 ? job_text_gpus(job, text) : "";
	if (gpus[0] && length + strlen(gpus) + 2 < sizeof(array->gpus))
		(void)snprintf(array->gpus + length, sizeof(array->gpus) - length, "%s%s",
			       length ? "," : "", gpus);
}

static void list_add_member(struct job_list *list, const Sluice__V1__Job *job)
{
	struct list_array *array = list_array_of(list, job);
	bool is_waiting = job->state == SLUICE__V1__JOB_STATE__PENDING;

	if (!array ||
	    ((!array->packed || (is_waiting && !array->is_waiting)) && !list_show(array, job))) {
		list->out_of_memory = true;
		return;
	}

	array->seen++;
	array->counts[(unsigned)job->state < LIST_STATES ? job->state : 0]++;
	array->size = job->array_count > array->size ? job->array_count : array->size;

	if (job->place > 0 && (array->place == 0 || job->place < array->place)) {
		array->place = job->place;
		array->estimate_unix_ns = job->start_estimate_unix_ns;
	}

	int64_t started = job->attempt ? job->attempt->started_unix_ns : 0;

	if (started > 0 && (array->started_unix_ns == 0 || started < array->started_unix_ns))
		array->started_unix_ns = started;
	if (list_is_active(job->state))
		list_add_gpus(array, job);
}

/* "120 of 500 run, 377 wait, 3 ended": of an array; "500 wait": of one that does nothing else. */
static void list_say_counts(const struct list_array *array, uint32_t active, bool is_filtered,
			    char out[JOB_TEXT_MAX])
{
	uint32_t size = array->size > array->seen ? array->size : array->seen;
	const struct {
		uint32_t count;
		const char *what;
	} parts[] = {
	    {active, "run"},
	    {array->counts[SLUICE__V1__JOB_STATE__PENDING], "wait"},
	    {array->counts[SLUICE__V1__JOB_STATE__HELD], "held"},
	    {array->counts[SLUICE__V1__JOB_STATE__FAILED], "failed"},
	    {array->counts[SLUICE__V1__JOB_STATE__CANCELLED], "cancelled"},
	    {array->counts[SLUICE__V1__JOB_STATE__SUCCEEDED], "succeeded"},
	    {is_filtered ? 0 : size - array->seen, "ended"},
	};
	size_t length = 0;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		char of[32] = "";

		if (parts[i].count == 0)
			continue;
		if (length == 0 && parts[i].count < size)
			(void)snprintf(of, sizeof(of), " of %" PRIu32, size);
		length += (size_t)snprintf(out + length, JOB_TEXT_MAX - length,
					   "%s%" PRIu32 "%s %s", length ? ", " : "", parts[i].count,
					   of, parts[i].what); /* fits */
	}
}

static Sluice__V1__JobState list_state(const struct list_array *array)
{
	static const Sluice__V1__JobState order[] = {
	    SLUICE__V1__JOB_STATE__RUNNING,   SLUICE__V1__JOB_STATE__STARTING,
	    SLUICE__V1__JOB_STATE__STOPPING,  SLUICE__V1__JOB_STATE__PENDING,
	    SLUICE__V1__JOB_STATE__HELD,      SLUICE__V1__JOB_STATE__FAILED,
	    SLUICE__V1__JOB_STATE__CANCELLED, SLUICE__V1__JOB_STATE__SUCCEEDED};

	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		if (array->counts[order[i]] > 0)
			return order[i];
	return SLUICE__V1__JOB_STATE__JOB_STATE_UNKNOWN;
}

/* The line of an array: the one that stands for it, with what is true of all. */
static void list_add_array(struct job_list *list, const struct list_array *array)
{
	Sluice__V1__Job *shown = sluice__v1__job__unpack(NULL, array->packed_length, array->packed);
	if (!shown) {
		list->out_of_memory = true;
		return;
	}

	char counts[JOB_TEXT_MAX], reason[JOB_TEXT_MAX], why[JOB_TEXT_MAX * 2 + 4];
	Sluice__V1__Attempt attempt = SLUICE__V1__ATTEMPT__INIT;
	Sluice__V1__Grant grant = SLUICE__V1__GRANT__INIT, *grants = &grant;
	Sluice__V1__Job line = *shown;
	uint32_t active = array->counts[SLUICE__V1__JOB_STATE__STARTING] +
			  array->counts[SLUICE__V1__JOB_STATE__RUNNING] +
			  array->counts[SLUICE__V1__JOB_STATE__STOPPING];

	list_say_counts(array, active, list->options.is_filtered, counts);
	bool is_said = array->is_waiting && job_text_reason(shown, reason)[0];

	(void)snprintf(why, sizeof(why), "%s%s%s", counts, is_said ? ": " : "",
		       is_said ? reason : ""); /* fits */
	line.id = array->id;
	line.array_id = 0; /* its number means all of them */
	line.state = list_state(array);
	line.reason = why;
	line.reason_text = (char *)protobuf_c_empty_string;
	line.place = array->place;
	line.start_estimate_unix_ns = array->estimate_unix_ns;
	line.has_exit = false;

	if (array->gpus[0]) {
		grant.label = (char *)array->gpus;
		attempt.grants = &grants;
		attempt.n_grants = 1;
	}

	attempt.started_unix_ns = array->started_unix_ns;
	attempt.ended_unix_ns =
	    job_text_is_final(line.state) && shown->attempt ? shown->attempt->ended_unix_ns : 0;
	line.attempt = array->started_unix_ns || array->gpus[0] ? &attempt : NULL;
	list_add_row(list, &line,
		     (struct list_row){
			 .jobs = array->seen,
			 .active = active,
			 .waiting = array->counts[SLUICE__V1__JOB_STATE__PENDING] +
				    array->counts[SLUICE__V1__JOB_STATE__HELD],
		     });
	sluice__v1__job__free_unpacked(shown, NULL);
}

void job_list_add(struct job_list *list, const Sluice__V1__Job *job)
{
	uint8_t rank = list_rank(job->state);

	if (job->array_id > 0 && !list->options.members)
		list_add_member(list, job);
	else
		list_add_row(list, job,
			     (struct list_row){.jobs = 1,
					       .active = rank == 0,
					       .waiting = rank == 1 || rank == 2});
}

/* --- GPUs in use without a job ---------------------------------------------------------------- */

/* Ends a line that begins at `from`, where it has to end. */
static int list_end_line(struct job_list *list, struct buf *lines, size_t from)
{
	size_t width = list->options.width, length = lines->length - from;

	if (width > 0 && text_width(lines->data + from, length) > width) {
		lines->length = from + text_fit(lines->data + from, length, width - 1);
		if (buf_add_text(lines, "…") < 0)
			return -ENOMEM;
	}

	return buf_add(lines, "\n", 1);
}

void job_list_add_outside(struct job_list *list, const Sluice__V1__GpuUse *use)
{
	char text[JOB_TEXT_MAX];
	size_t from = list->outside.length;

	if (list->outside_lines == LIST_OUTSIDE_MAX) {
		list->outside_more++;
		return;
	}

	(void)job_text_outside(use, text);
	if (text_escape(&list->outside, text, strlen(text)) < 0 ||
	    list_end_line(list, &list->outside, from) < 0)
		list->out_of_memory = true;
	else
		list->outside_lines++;
}

static size_t list_outside_lines(const struct job_list *list)
{
	return list->outside_lines + (list->outside_more > 0);
}

static void list_print_outside(const struct job_list *list, FILE *out)
{
	(void)fwrite(list->outside.data, 1, list->outside.length, out);
	if (list->outside_more > 0)
		(void)fprintf(out, "and %zu more outside it\n", list->outside_more);
}

/* --- the whole -------------------------------------------------------------------------------- */

static int list_compare(const void *left, const void *right)
{
	const struct list_row *a = left, *b = right;
	if (a->is_own != b->is_own)
		return a->is_own ? -1 : 1;
	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	if (a->place != b->place)
		return a->place < b->place ? -1 : 1;
	return a->at < b->at ? -1 : a->at > b->at;
}

static int list_compare_users(const void *left, const void *right)
{
	const struct list_row *a = left, *b = right;
	return a->uid < b->uid ? -1 : a->uid > b->uid;
}

/* How many rows are shown: all of one's own, and of the others' as many as have room. */
static size_t list_shown(const struct job_list *list)
{
	size_t own = 0, header = (list->options.no_header ? 0 : 1) + list_outside_lines(list);
	while (own < list->row_count && list->rows[own].is_own)
		own++;

	size_t height = list->options.height;
	if (height == 0 || header + list->row_count + 1 <= height)
		return list->row_count;

	size_t taken = header + own + LIST_SPARE_LINES;
	size_t room = height > taken ? height - taken : 0;

	return own + room < list->row_count ? own + room : list->row_count;
}

/* "and 130 more jobs of 12 other users (2 run, 128 wait)": those from row `from` on. */
static void list_print_rest(struct job_list *list, size_t from, FILE *out)
{
	size_t jobs = 0, active = 0, waiting = 0, users = 0;
	size_t count = list->row_count - from;
	struct list_row *rest = list->rows + from;

	qsort(rest, count, sizeof(*rest), list_compare_users);

	for (size_t i = 0; i < count; i++) {
		jobs += rest[i].jobs;
		active += rest[i].active;
		waiting += rest[i].waiting;
		users += i == 0 || rest[i].uid != rest[i - 1].uid;
	}

	_cleanup_buf_ struct buf line;
	buf_init(&line, JOB_TEXT_MAX);

	if (buf_printf(
		&line, "and %zu more job%s of %zu user%s (%zu run, %zu wait): sluice jobs --wide",
		jobs, jobs == 1 ? "" : "s", users, users == 1 ? "" : "s", active, waiting) == 0 &&
	    list_end_line(list, &line, 0) == 0)
		(void)fwrite(line.data, 1, line.length, out); /* it remembers errors */
}

int job_list_print(struct job_list *list, FILE *out, struct err *err)
{
	for (size_t i = 0; i < list->array_count; i++)
		list_add_array(list, &list->arrays[i]);

	if (list->row_count > 1)
		qsort(list->rows, list->row_count, sizeof(*list->rows), list_compare);

	_cleanup_free_ size_t *order = calloc(list->row_count + 1, sizeof(*order));
	if (list->out_of_memory || !order)
		return err_set(err, -ENOMEM, "out of memory for a list of jobs");

	size_t shown = list_shown(list);
	for (size_t i = 0; i < shown; i++)
		order[i] = list->rows[i].at;

	const struct table_style style = {.width = list->options.width,
					  .no_header = list->options.no_header,
					  .cuts = true,
					  .give = list->give,
					  .rows = order,
					  .row_count = shown};
	int rc = table_print_as(list->table, &style, out, err);

	if (rc == 0 && shown < list->row_count)
		list_print_rest(list, shown, out);
	if (rc == 0)
		list_print_outside(list, out);

	return rc;
}
