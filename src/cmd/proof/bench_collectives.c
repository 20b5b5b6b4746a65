/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice bench collectives`: nccl-tests' operations between processes or GPUs. Options, files and
 * what is printed; what is measured and judged is in src/bench/collectives/.
 */
#include "cmd/proof/bench.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "bench/collectives/expect.h"
#include "bench/collectives/judge.h"
#include "bench/collectives/nccl/nccl.h"
#include "bench/collectives/ranks.h"
#include "bench/collectives/request.h"
#include "bench/collectives/room.h"
#include "bench/collectives/sheet.h"
#include "bench/collectives/sheet_json.h"
#include "bench/collectives/world.h"
#include "cmd/options.h"

enum {
	COLLECTIVES_STAMP_MAX = 32,
	COLLECTIVES_NAMES_MAX = 1000, /* of files beside one that is there */
	COLLECTIVES_PROGRESS_MS = 200,
	COLLECTIVES_MEBI = 1 << 20,
};

static const struct request_options collectives_defaults = {
    .check = "1",
    .redop = "sum",
    .type = "float",
    .root = "0",
    .threads = 1,
    .gpus = 1,
    .iterations = 20,
    .warmups = 1,
    .aggregated = 1,
    .cycles = 1,
    .average = MEASURE_MEAN,
    .ctas = 16,
    .timeout_s = 60,
    .timing = REQUEST_TIMING_BOTH,
    .dirty = REQUEST_AS_USUAL,
    .memory = REQUEST_MEMORY_AS_USUAL,
};

/* One line per option; its field in struct request_options. */
#define ROW(option, letter_, kind_, member, help_, ...)                                            \
	{                                                                                          \
		.name = (option), .letter = (letter_), .kind = (kind_), .help = (help_),           \
		OPTION_FIELD(struct request_options, member), __VA_ARGS__                          \
	}

static const struct option_row collectives_rows[] = {
    ROW("backend", 0, OPTION_CHOICE, backend,
	"what does the operations: own shared memory, the MPI library under whose mpirun this "
	"runs, "
	"or NCCL (auto, default: whichever fits)",
	.words = "auto|shm|mpi|nccl"),
    ROW("library", 0, OPTION_TEXT, library,
	"the library of --backend mpi or nccl, by name or path (default: the one that fits, "
	"libnccl.so.2)",
	.value = "FILE"),
    ROW("ranks", 0, OPTION_U32, ranks,
	"how many processes (default: one for each allowed processor, or GPU)", .value = "N",
	.min = 1, .max = COLLECTIVE_RANKS_MAX),
    ROW("nthreads", 't', OPTION_U32, threads, "times --ngpus: another way to say --ranks",
	.value = "N", .min = 1, .max = COLLECTIVE_RANKS_MAX),
    ROW("ngpus", 'g', OPTION_U32, gpus, "so many ranks (times --nthreads)", .value = "N", .min = 1,
	.max = COLLECTIVE_RANKS_MAX),
    ROW("minbytes", 'b', OPTION_TEXT, min_bytes,
	"the smallest size: 8, 64K, 1.5G; suffixes are binary (default 32M)", .value = "SIZE"),
    ROW("maxbytes", 'e', OPTION_TEXT, max_bytes, "the largest size (default 32M)", .value = "SIZE"),
    ROW("stepbytes", 'i', OPTION_TEXT, step_bytes, "from one size to the next (default 1M)",
	.value = "SIZE"),
    ROW("stepfactor", 'f', OPTION_U32, step_factor, "sizes grow by this factor instead",
	.value = "N", .min = 2),
    ROW("op", 'o', OPTION_TEXT, redop, "sum (default), prod, min, max, avg or all", .value = "OP",
	.words = "sum|prod|min|max|avg|all"),
    ROW("datatype", 'd', OPTION_TEXT, type,
	"float (default), int8, uint8, int32, uint32, int64, uint64, half, bfloat16, double or all",
	.value = "TYPE",
	.words = "int8|uint8|int32|uint32|int64|uint64|half|bfloat16|float|double|all"),
    ROW("root", 'r', OPTION_TEXT, root, "the root of gather, scatter, broadcast and reduce, or all",
	.value = "RANK"),
    ROW("iters", 'n', OPTION_U32, iterations, "operations that are timed (default 20)",
	.value = "N", .min = 1, .max = REQUEST_ITERATIONS_MAX),
    ROW("warmup_iters", 'w', OPTION_U32, warmups, "operations before those (default 1)",
	.value = "N", .max = REQUEST_WARMUPS_MAX),
    ROW("agg_iters", 'm', OPTION_U32, aggregated, "times --iters (default 1)", .value = "N",
	.min = 1, .max = 1000),
    ROW("run_cycles", 'N', OPTION_U32, cycles,
	"go through all sizes so often; 0: until interrupted (default 1)", .value = "N"),
    ROW("average", 'a', OPTION_U32, average,
	"how the ranks' times become one: 0 rank 0's, 1 mean (default), 2 least, 3 most",
	.value = "0..3", .max = MEASURE_MAX),
    ROW("check", 'c', OPTION_TEXT, check,
	"check every element so often for each size: a number (default 1), once, or all: of "
	"every operation as well",
	.value = "N", .words = "once|all"),
    ROW("timing", 0, OPTION_CHOICE, timing,
	"operations back to back (stream), each alone (isolated), or both (default)",
	.words = "stream|isolated|both"),
    ROW("dirty", 0, OPTION_CHOICE, dirty,
	"write the source anew before every operation (default: on, but for GPUs)",
	.words = "on|off"),
    ROW("memory", 0, OPTION_CHOICE, memory,
	"buffers of the process's own, or known to all ranks (default: private, registered with "
	"-R)",
	.words = "private|registered"),
    ROW("local_register", 'R', OPTION_U32, registers, "1, 2: --memory registered", .value = "0..2",
	.max = 2),
    ROW("unalign", 'u', OPTION_U32, unaligned,
	"1: buffers begin one element behind an aligned address", .value = "0..1"),
    ROW("timeout", 'T', OPTION_U32, timeout_s,
	"seconds for one size, after which the ranks that are behind are named; 0: none (default "
	"60)",
	.value = "S"),
    ROW("per_iter", 'I', OPTION_U32, per_iteration,
	"1: with columns for the spread of single operations", .value = "0..1", .max = 1),
    ROW("per_iter_skip", 'K', OPTION_U32, skip, "leave the first N of them out of these columns",
	.value = "N", .max = REQUEST_ITERATIONS_MAX),
    ROW("report_timestamps", 'S', OPTION_U32, timestamps, "1: with a column for the time of day",
	.value = "0..1", .max = 1),
    ROW("format", 0, OPTION_CHOICE, format,
	"how to print: the table of nccl-tests (default), JSON, or a table with both timings",
	.words = "nccl|json|text"),
    ROW("output_file", 'J', OPTION_PATH, json,
	"write the JSON of nccl-tests there as well; a file that is there stays", .value = "FILE"),
    ROW("min-busbw", 0, OPTION_FRACTION, min_busbw,
	"GB/s that the best size of each operation must reach; exit status 1 if not",
	.value = "GB/s"),
    ROW("max-latency-us", 0, OPTION_FRACTION, max_latency_us,
	"microseconds that the smallest size may take; exit status 1 if it takes more",
	.value = "US"),
    ROW("expect", 0, OPTION_PATH, expect,
	"lines OP TYPE SIZE peak_busbw|latency_us >=|<= VALUE that must hold; exit status 1 if not",
	.value = "FILE"),
    ROW("allow-single", 0, OPTION_FLAG, allow_single,
	"one rank is meant, and is no mistake (else exit status 3)"),
    ROW("seed", 0, OPTION_U64, seed, "of the data (default: a new one)", .value = "N",
	.max = UINT64_C(1) << REQUEST_SEED_BITS),
    ROW("quiet", 0, OPTION_FLAG, quiet, "no progress on standard error"),
    ROW("blocking", 'z', OPTION_U32, blocking, "for nccl-tests' scripts: see the manual page",
	.value = "0..3", .max = 3),
    ROW("parallel_init", 'p', OPTION_U32, parallel_init, "the same", .value = "0..1"),
    ROW("cudagraph", 'G', OPTION_U32, graph, "the same", .value = "N"),
    ROW("report_cputime", 'C', OPTION_U32, cpu_time, "the same", .value = "0..1"),
    ROW("memory_report", 'M', OPTION_U32, memory_report, "1: say how large the buffers are",
	.value = "0..1"),
    ROW("device_implementation", 'D', OPTION_U32, implementation, "as -z", .value = "N"),
    ROW("device_cta_count", 'V', OPTION_U32, ctas, "as -z", .value = "N"),
    ROW("cta_policy", 'x', OPTION_U32, cta_policy, "as -z", .value = "N", .hidden = true),
    ROW("stream_null", 'y', OPTION_U32, null_stream, "as -z", .value = "0..1", .hidden = true),
    {0},
};

static const struct cmd_exit_row collectives_exits[] = {
    {FINDINGS_EXIT_RIGHT, "measured, and every element that was checked is right"},
    {FINDINGS_EXIT_POOR, "right, but below what was expected"},
    {FINDINGS_EXIT_WRONG,
     "a wrong element, a write outside of a buffer, or a rank that died or stalled"},
    {FINDINGS_EXIT_NOTHING,
     "nothing can be said: a library or device is absent, or there is one rank"},
    {CMD_EXIT_USAGE, "wrong command line, or too little memory for it"},
    {CMD_EXIT_CANNOT_WRITE, "a file could not be written"},
    {FINDINGS_EXIT_INTERRUPTED, "interrupted; what was measured is printed"},
    {0, NULL},
};

static const struct cmd_example collectives_examples[] = {
    {"sluice bench collectives -b 8 -e 256M -f 2 -g 8", "all_reduce over 8 ranks, 26 sizes"},
    {"mpirun -n 4 sluice bench collectives all --format text",
     "every operation of the MPI library, with both timings"},
    {"sluice bench collectives -b 8 -e 1G -f 4 --expect hgx-h100.txt",
     "does this machine reach what its class does?"},
    {NULL, NULL},
};

struct collectives {
	const struct cmd_call *call;
	struct request request;
	struct ranks ranks;
	struct expect expect;
	struct sheet sheet;
	struct sheet_json json;
	struct world_member *members; /* owned */
	char description[WORLD_DESCRIPTION_MAX], started[COLLECTIVES_STAMP_MAX];
	uint64_t seed, row_start_ns, progress_ns;
	enum collective_op op; /* of the table that was begun last */
	bool is_dirty, has_columns, shows_progress;
};

static const struct clock collectives_clock; /* the real one */

/* --- text ------------------------------------------------------------------------------------- */

static void collectives_stamp(char out[COLLECTIVES_STAMP_MAX], bool is_utc)
{
	time_t now = clock_unix_s();
	struct tm tm;
	const char *format = is_utc ? "%Y-%m-%dT%H:%M:%SZ" : "%Y-%m-%d %H:%M:%S";
	out[0] = '\0';
	if (is_utc ? gmtime_r(&now, &tm) : localtime_r(&now, &tm))
		(void)strftime(out, COLLECTIVES_STAMP_MAX, format, &tm); /* fits */
}

/* What was made goes out at once: a run can take long. */
static int collectives_out(const struct buf *text, int rc, struct err *err)
{
	if (rc < 0)
		return err_set(err, rc, "making the table: %s", err_describe(rc));
	(void)fwrite(buf_text(text), 1, text->length, stdout);
	return fflush(stdout) == 0 && !ferror(stdout)
		   ? 0
		   : err_set(err, -EIO, "cannot write to standard output");
}

static void collectives_clear_progress(struct collectives *self)
{
	if (self->shows_progress && self->progress_ns)
		(void)fprintf(stderr, "\r\x1b[K");
}

static void collectives_progress(struct collectives *self, uint64_t index)
{
	uint64_t now = clock_now_ns(&collectives_clock);
	if (!self->shows_progress ||
	    now < self->progress_ns + COLLECTIVES_PROGRESS_MS * CLOCK_NS_PER_MS)
		return;
	self->progress_ns = now;
	uint64_t rows = request_row_count(&self->request, self->sheet.ranks);
	(void)fprintf(stderr, "\r%" PRIu64 " of %" PRIu64 " rows\x1b[K", index % rows + 1, rows);
}

static void collectives_note(const struct collectives *self, const char *text)
{
	enum request_format format = self->request.options.format;
	(void)fprintf(format == REQUEST_FORMAT_JSON ? stderr : stdout, "%s%s\n",
		      format == REQUEST_FORMAT_NCCL ? "# " : "", text);
}

/* Options of nccl-tests that say how a GPU's work is launched have no effect here. */
static void collectives_notes(const struct collectives *self)
{
	const struct request_options *options = &self->request.options;
	const struct request *request = &self->request;

	if (options->graph)
		collectives_note(self, "-G: operations are launched one by one, without a graph");
	if (options->cpu_time)
		collectives_note(self, "-C: the time is that until the result is there, as ever");
	if (options->implementation)
		collectives_note(self, "-D: the library's own implementation is measured");
	if (options->parallel_init)
		collectives_note(self, "-p: every rank is a process, and starts by itself");

	if (options->blocking)
		collectives_note(self,
				 "-z: what waits after each operation is the isolated timing");
	if (request_skips(request, COLLECTIVE_HYPERCUBE, self->sheet.ranks))
		collectives_note(self, "hypercube is left out: it needs a power of two of ranks");
	if (self->ranks.leaves_gpus)
		collectives_note(self, "there are GPUs: for NCCL say where ranks meet, with "
				       "SLUICE_NCCL_ID_FILE or MASTER_ADDR and MASTER_PORT");

	if (options->memory_report) {
		char text[128];
		uint64_t bytes = request_memory_bytes(request, self->sheet.ranks);
		(void)snprintf(text, sizeof(text), "Memory for buffers   : %.1f MiB for each rank",
			       (double)bytes / COLLECTIVES_MEBI); /* fits */
		collectives_note(self, text);
	}
}

/* --- what the world calls --------------------------------------------------------------------- */

/* Ranks that an mpirun started have each made a seed: that of rank 0 counts. */
static int collectives_agree(struct collectives *self, struct backend *backend, struct err *err)
{
	_cleanup_free_ uint64_t *seeds = calloc(backend->ranks, sizeof(*seeds));
	if (!seeds)
		return err_set(err, -ENOMEM, "no memory for %u ranks", backend->ranks);
	int rc = backend->ops->share(backend, &self->seed, seeds, sizeof(*seeds), err);
	self->seed = seeds[0];
	return rc;
}

/* As collectives_check_room(), where only the driver knows how much there is. */
static int collectives_check_gpu(const struct collectives *self, const struct backend *backend,
				 struct err *err)
{
	if (self->ranks.backend != REQUEST_BACKEND_NCCL)
		return 0;

	uint64_t wanted = request_memory_bytes(&self->request, backend->ranks);
	uint64_t available = nccl_backend_free_bytes(backend);
	if (wanted <= available)
		return 0;

	return err_set(err, -EFBIG,
		       "-e: buffers take %" PRIu64 " MiB on each GPU, and on that of rank %u "
		       "%" PRIu64 " MiB are free; ask for smaller sizes",
		       wanted / COLLECTIVES_MEBI, backend->rank, available / COLLECTIVES_MEBI);
}

static int collectives_start(void *context, struct world_seat *seat, struct backend **out,
			     struct err *err)
{
	struct collectives *self = context;
	int rc = ranks_start(&self->ranks, seat, out, err);
	if (rc < 0)
		return rc;

	self->sheet.ranks = (*out)->ranks;
	rc = collectives_check_gpu(self, *out, err);
	if (rc == 0 && !self->ranks.forks)
		rc = collectives_agree(self, *out, err);
	if (rc < 0) { /* the others need not wait for us */
		(*out)->ops->abort(*out);
		*out = (*out)->ops->free_backend(*out);
	}

	return rc;
}

static int collectives_plan(void *context, uint64_t index, struct measure_plan *out,
			    struct err *err)
{
	struct collectives *self = context;
	(void)err;
	int rc = request_row(&self->request, self->sheet.ranks, self->is_dirty, index, out);
	out->seed = self->seed;
	return rc;
}

/* How NCCL has connected the ranks. */
static void collectives_tell_nccl(struct collectives *self)
{
	struct nccl_note *note = self->ranks.nccl.note;
	char *rest = note ? note->lines : NULL;
	for (char *line; rest && *rest && (line = strsep(&rest, "\n"));)
		collectives_note(self, line);
	if (note && note->has_check)
		self->sheet.transport = &note->check;
}

static void collectives_ready(void *context, const char *description,
			      const struct world_member *members, uint32_t ranks)
{
	struct collectives *self = context;
	struct buf text _cleanup_buf_;

	buf_init(&text, SHEET_JSON_MAX);
	(void)snprintf(self->description, sizeof(self->description), "%s", description); /* cut */
	self->sheet.ranks = ranks;
	self->members = calloc(ranks, sizeof(*members)); /* without them no list is printed */
	if (self->members)
		memcpy(self->members, members, ranks * sizeof(*members));
	self->sheet.members = self->members;
	self->row_start_ns = clock_now_ns(&collectives_clock);
	if (self->request.options.format == REQUEST_FORMAT_NCCL)
		(void)collectives_out(&text, sheet_nccl_head(&self->sheet, &text), NULL);
	collectives_notes(self);
	collectives_tell_nccl(self);
}

static void collectives_tell_wrong(const struct collectives *self, const struct measure_plan *plan,
				   const struct measure_side *side, const char *place)
{
	const char *path = self->call->path;
	const char *op = collective_op_to_string(plan->op);

	if (side->is_there && side->is_guard_hurt)
		(void)fprintf(stderr,
			      "%s: %s of %" PRIu64
			      " bytes, %s: rank %u wrote outside of its buffer\n",
			      path, op, plan->shape.bytes, place, side->hurt_rank);

	if (side->is_there && side->wrong)
		(void)fprintf(stderr,
			      "%s: %s of %" PRIu64 " bytes, %s %s, %s: %" PRIu64
			      " wrong elements; on rank %u element %" PRIu64 "%s %s\n",
			      path, op, plan->shape.bytes, collective_type_to_string(plan->type),
			      collective_op_reduces(plan->op)
				  ? collective_redop_to_string(plan->redop)
				  : "none",
			      place, side->wrong, side->wrong_rank, side->wrong_element,
			      side->is_source_changed ? " of its source" : "", side->wrong_text);
}

/* The table of an operation begins with its columns. */
static int collectives_print_row(struct collectives *self, const struct measure_row *row,
				 struct err *err)
{
	struct buf text _cleanup_buf_;
	char stamp[COLLECTIVES_STAMP_MAX];
	bool is_text = self->request.options.format == REQUEST_FORMAT_TEXT;
	bool begins = !self->has_columns || self->op != row->plan.op;
	int rc = 0;

	buf_init(&text, SHEET_JSON_MAX);
	if (self->request.options.format == REQUEST_FORMAT_JSON)
		return 0;

	collectives_stamp(stamp, false);
	if (begins)
		rc = (is_text ? sheet_text_columns : sheet_nccl_columns)(&self->sheet, row->plan.op,
									 &text);
	if (rc == 0)
		rc = (is_text ? sheet_text_row : sheet_nccl_row)(&self->sheet, row, stamp, &text);

	self->has_columns = true;
	self->op = row->plan.op;
	collectives_clear_progress(self);

	return collectives_out(&text, rc, err);
}

static int collectives_row(void *context, uint64_t index, struct measure_row *row, struct err *err)
{
	struct collectives *self = context;
	uint64_t now = clock_now_ns(&collectives_clock);

	sheet_count(&self->sheet, row);
	expect_row(&self->expect, row, self->sheet.ranks);

	int rc = collectives_print_row(self, row, err);
	collectives_tell_wrong(self, &row->plan, &row->out_of_place, "out of place");
	collectives_tell_wrong(self, &row->plan, &row->in_place, "in place");

	/* Only for who asks: a run that goes on for ever would keep all its samples. */
	bool is_kept =
	    self->request.options.json || self->request.options.format == REQUEST_FORMAT_JSON;
	if (rc == 0 && is_kept &&
	    sheet_json_row(&self->json, &self->sheet, row, self->row_start_ns, now) < 0)
		rc = err_set(err, -ENOMEM, "no memory for the rows of the report");

	self->row_start_ns = now;
	collectives_progress(self, index + 1);
	return rc;
}

static void collectives_place(void *context, uint32_t rank, const char *text)
{
	struct collectives *self = context;
	collectives_clear_progress(self);
	(void)fprintf(stderr, "%s: rank %u: %s\n", self->call->path, rank, text);
}

/* --- files ------------------------------------------------------------------------------------ */

static int collectives_read_expectations(struct collectives *self, struct err *err)
{
	const char *path = self->request.options.expect;
	struct buf text _cleanup_buf_;

	buf_init(&text, EXPECT_BYTES_MAX);
	if (!path)
		return 0;

	int rc = file_read(path, &text, err);
	if (rc == 0)
		rc = expect_parse(buf_text(&text), text.length, &self->expect, err);

	return rc < 0 ? err_wrap(err, "--expect '%s'", path) : 0;
}

/* As nccl-tests: a file that is there stays, and ours is FILE.0, FILE.1, ... */
static int collectives_free_name(const char *path, char out[FILE_PATH_MAX], struct err *err)
{
	int rc = file_path(out, err, "%s", path);
	for (int i = 0; rc == 0 && file_exists(out); i++) {
		if (i == COLLECTIVES_NAMES_MAX)
			return err_set(err, -EEXIST, "'%s' and %d names beside it are taken", path,
				       COLLECTIVES_NAMES_MAX);
		rc = file_path(out, err, "%s.%d", path, i);
	}

	return rc;
}

static int collectives_write(const char *path, const struct buf *text, int rc, struct err *err)
{
	if (rc < 0)
		return err_set(err, rc, "making '%s': %s", path, err_describe(rc));
	return file_write_atomic(path, buf_text(text), text->length, 0644, err);
}

static int collectives_reports(struct collectives *self, const struct sheet_about *about,
			       struct err *err)
{
	const struct request_options *options = &self->request.options;
	const char *brief = getenv("SLUICE_RESULT_FILE");
	struct buf text _cleanup_buf_;
	char path[FILE_PATH_MAX];
	int rc = 0;

	buf_init(&text, SHEET_JSON_MAX);
	if (options->format == REQUEST_FORMAT_JSON)
		rc = collectives_out(
		    &text, sheet_json_result(&self->json, &self->sheet, about, &text), err);

	buf_clear(&text);
	if (rc == 0 && options->json)
		rc = collectives_free_name(options->json, path, err);
	if (rc == 0 && options->json)
		rc = collectives_write(
		    path, &text, sheet_json_nccl(&self->json, &self->sheet, about, &text), err);

	buf_clear(&text);
	if (rc == 0 && brief && *brief)
		rc = collectives_write(brief, &text, sheet_json_brief(&self->sheet, about, &text),
				       err);

	return rc;
}

static int collectives_foot(struct collectives *self, const struct judge *judge, struct err *err)
{
	enum request_format format = self->request.options.format;
	struct buf text _cleanup_buf_;

	buf_init(&text, SHEET_JSON_MAX);
	if (format == REQUEST_FORMAT_JSON)
		return 0;

	int rc = (format == REQUEST_FORMAT_TEXT ? sheet_text_foot : sheet_nccl_foot)(&self->sheet,
										     &text);

	for (size_t i = 1; rc == 0 && i < judge->checks.count; i++) {
		const struct check *check = &judge->checks.list[i];
		rc = buf_printf(&text, "%s%s %s %s", format == REQUEST_FORMAT_NCCL ? "# " : "",
				check_status_to_string(check->status), check->name, check->target);
		if (rc == 0 && check->has_value)
			rc = buf_printf(&text, ": %.4g, wanted %.4g", check->value, check->limit);
		if (rc == 0)
			rc = buf_printf(&text, "%s%s\n", *check->reason ? "; " : "", check->reason);
	}

	return collectives_out(&text, rc, err);
}

/* --- the run ---------------------------------------------------------------------------------- */

/* Refuses what would not fit before anything is allocated. 0, or the exit code. */
static int collectives_check_room(const struct collectives *self)
{
	struct room room;
	uint32_t ranks = self->ranks.local;

	if (self->ranks.backend == REQUEST_BACKEND_NCCL)
		return 0; /* a GPU's memory: collectives_check_gpu() */

	uint64_t each = request_memory_bytes(&self->request, self->ranks.ranks), all;

	room_find("", &room);
	if (__builtin_mul_overflow(each, ranks, &all) || all > room.bytes)
		return cmd_usage(self->call,
				 "-e: buffers for %u ranks take %" PRIu64 " MiB, and %s leaves "
				 "%" PRIu64 " MiB; ask for smaller sizes, or fewer ranks",
				 ranks, each / COLLECTIVES_MEBI * ranks, room.limit,
				 room.bytes / COLLECTIVES_MEBI);

	return 0;
}

/* What an error of the world means. */
static int collectives_exit_code(int rc)
{
	switch (rc) {
	case -ECANCELED:
		return FINDINGS_EXIT_INTERRUPTED;
	case -EFBIG: /* of collectives_check_gpu() alone */
		return CMD_EXIT_USAGE;
	case -ENOENT:
	case -ENODEV:
	case -ENOSYS:
	case -ENOTCONN:
	case -EOPNOTSUPP:
		return FINDINGS_EXIT_NOTHING;
	default:
		return FINDINGS_EXIT_WRONG;
	}
}

/* Prints what there is, also of a run that ended early with `result`. The exit code. */
static int collectives_end(struct collectives *self, int rc, const struct err *why)
{
	struct err err = {0};
	struct buf command _cleanup_buf_;
	struct judge judge _cleanup_judge_ = {0};
	char *argv[CMD_LINE_ARGUMENTS_MAX], ended[COLLECTIVES_STAMP_MAX];
	bool is_first = self->ranks.forks || self->has_columns || self->members;
	int argc = cmd_line(&command, argv);

	collectives_clear_progress(self);
	collectives_stamp(ended, true);

	/* Who interrupts a run has not seen it fail. */
	self->sheet.failure = rc < 0 && rc != -ECANCELED ? why->text : NULL;
	if (judge_make(&self->sheet, &self->expect, &judge) < 0)
		return cmd_fail(self->call, FINDINGS_EXIT_WRONG,
				(err_set(&err, -ENOMEM, "no memory for the verdict"), &err));

	const struct sheet_about about = {.argc = argc,
					  .argv = argv,
					  .environment = self->ranks.environment,
					  .root = "",
					  .started = self->started,
					  .ended = ended,
					  .seed = self->seed,
					  .checks = &judge.checks,
					  .error = rc < 0 ? why->text : NULL};
	int code = rc < 0 ? collectives_exit_code(rc) : (int)judge.exit;

	if (!is_first) /* rank 0 prints */
		return rc < 0 ? cmd_fail(self->call, code, why) : 0;

	int printed = self->members ? collectives_foot(self, &judge, &err) : 0;
	if (printed == 0)
		printed = collectives_reports(self, &about, &err);
	if (ferror(stdout))
		return CMD_EXIT_CANNOT_WRITE; /* cmd_main() says why */

	if (rc < 0)
		code = cmd_fail(self->call, code, why);
	else if (self->sheet.rows == 0)
		(void)fprintf(stderr, "%s: none of these operations can be done by %u ranks\n",
			      self->call->path, self->sheet.ranks);
	else if (self->sheet.checked_sides == 0 && self->request.checks &&
		 code == FINDINGS_EXIT_NOTHING)
		(void)fprintf(stderr, "%s: %s\n", self->call->path, judge.checks.list[0].reason);
	else if (self->sheet.ranks < 2 && code == FINDINGS_EXIT_NOTHING)
		(void)fprintf(stderr,
			      "%s: there is one rank, over which nothing goes; say --ranks, or "
			      "--allow-single if that is meant\n",
			      self->call->path);

	return printed < 0 ? cmd_fail(self->call, CMD_EXIT_CANNOT_WRITE, &err) : code;
}

static int collectives_run(struct collectives *self)
{
	const struct request_options *options = &self->request.options;
	struct err err = {0};
	const struct world_job job = {
	    .ranks = self->ranks.ranks,
	    .pins = self->ranks.backend == REQUEST_BACKEND_SHM,
	    .start_timeout_ns = self->ranks.start_timeout_ns,
	    .timeout_ns = options->timeout_s * CLOCK_NS_PER_S,
	    .context = self,
	    .start = collectives_start,
	    .plan = collectives_plan,
	    .ready = collectives_ready,
	    .row = collectives_row,
	    .place = collectives_place,
	};
	int rc = ranks_prepare(&self->ranks, &err);
	if (rc == 0 && self->ranks.nccl.note && self->ranks.nccl.note->room[0])
		collectives_note(self, self->ranks.nccl.note->room);
	(void)fflush(stdout); /* or every rank would print it */

	if (rc == 0)
		rc = self->ranks.forks ? world_run_forked(&job, &err) : world_run_rank(&job, &err);

	return collectives_end(self, rc, &err);
}

static int collectives_prepare(struct collectives *self)
{
	struct err err = {0};
	const struct cmd_call *call = self->call;
	const struct request_options *options = call->options;

	if (request_make(options, call->argv, (size_t)call->argc, call->has_unknown, environ,
			 &self->request, &err) < 0)
		return cmd_usage(call, "%s", err.text);

	options = &self->request.options;
	if (collectives_read_expectations(self, &err) < 0)
		return cmd_usage(call, "%s", err.text);

	bool asks_gpus = options->backend == REQUEST_BACKEND_AUTO ||
			 (options->backend == REQUEST_BACKEND_NCCL && !self->request.ranks);
	const struct ranks_place place = {.environment = environ,
					  .processors = ranks_processors(),
					  .gpus = asks_gpus ? ranks_gpus() : 0};
	if (ranks_choose(&self->request, &place, &self->ranks, &err) < 0)
		return cmd_usage(call, "%s", err.text);

	self->ranks.root = getenv("SLUICE_ROOT");
	sheet_init(&self->sheet, &self->request);
	sheet_json_init(&self->json);
	self->sheet.ranks = self->ranks.forks ? self->ranks.ranks : 1;
	self->sheet.version = cmd_version();
	self->sheet.backend = ranks_backend_to_string(self->ranks.backend);
	self->sheet.description = self->description;
	self->is_dirty = self->ranks.backend != REQUEST_BACKEND_NCCL;
	self->shows_progress = !options->quiet && isatty(STDERR_FILENO);
	self->seed = options->seed;
	if (self->seed == 0 && getrandom(&self->seed, sizeof(self->seed), 0) > 0)
		self->seed >>= 64 - REQUEST_SEED_BITS;
	collectives_stamp(self->started, true);

	return collectives_check_room(self);
}

static int collectives_main(const struct cmd_call *call)
{
	struct err err = {0};
	_cleanup_free_ struct collectives *self = calloc(1, sizeof(*self));
	if (!self)
		return cmd_fail(call, FINDINGS_EXIT_WRONG,
				(err_set(&err, -ENOMEM, "no memory"), &err));

	self->call = call;
	int code = collectives_prepare(self);
	if (code == 0)
		code = collectives_run(self);
	ranks_done(&self->ranks);
	expect_done(&self->expect);
	sheet_json_done(&self->json);
	free(self->members);

	return code;
}

const struct command cmd_bench_collectives = {
    .name = "collectives",
    .summary = "Measure and check what ranks do together: all_reduce and its kin",
    .description =
	"Does nccl-tests' operations between processes through shared memory, by the MPI library, "
	"or between GPUs by NCCL; times them, and compares every element of their results. Options "
	"and table are those of nccl-tests. OP: all_reduce (default), reduce_scatter, all_gather, "
	"alltoall, alltoallv, gather, scatter, broadcast, reduce, sendrecv, hypercube, or all.",
    .run = collectives_main,
    .options = collectives_rows,
    .defaults = &collectives_defaults,
    .options_size = sizeof(struct request_options),
    .positional = "[OP...|all]",
    .positional_words =
	"all|all_reduce|reduce_scatter|all_gather|alltoall|alltoallv|gather|scatter|"
	"broadcast|reduce|sendrecv|hypercube",
    .positional_max = COLLECTIVE_OP_COUNT + 16,
    .is_lenient = true,
    .exits = collectives_exits,
    .examples = collectives_examples,
};
