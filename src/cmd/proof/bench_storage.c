/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice bench storage`: how fast a directory is read. Options, progress and the table; what is
 * read and judged is in src/bench/.
 */
#include "cmd/proof/bench.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
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
#include "base/findings.h"
#include "base/jsonw.h"
#include "base/parse.h"
#include "bench/fingerprint.h"
#include "bench/runner.h"
#include "bench/storage.h"
#include "cmd/options.h"

enum {
	STORAGE_ROUNDS = 6, /* as many pairs as a verdict wants */
	STORAGE_LIST_MAX = 16,
	STORAGE_REPORT_MAX = 256 << 20,
	STORAGE_ITEM_MAX = 32,
};

#define STORAGE_TIME_NS	 UINT64_C(500000000)
#define STORAGE_SIZE	 (UINT64_C(512) << 20)
#define STORAGE_FILES	 UINT64_C(1000)
#define STORAGE_FILE	 (UINT64_C(110) << 10) /* a photograph of ImageNet */
#define STORAGE_BLOCKS	 "4Ki,128Ki,4Mi"
#define STORAGE_READERS	 "1,8"
#define STORAGE_PATTERNS "sequential,random,files"
#define STORAGE_CACHES	 "direct,cold,cached"

enum storage_engine { STORAGE_ENGINE_AUTO, STORAGE_ENGINE_FIO, STORAGE_ENGINE_OWN };

struct storage_options {
	const char *against, *blocks, *readers, *patterns, *caches, *margin, *json;
	uint64_t size, file_size, time_ns, seed;
	uint64_t files, rounds;
	uint32_t engine; /* enum storage_engine */
	bool quiet;
	enum option_output output;
};

static const struct storage_options storage_defaults = {.blocks = STORAGE_BLOCKS,
							.readers = STORAGE_READERS,
							.patterns = STORAGE_PATTERNS,
							.caches = STORAGE_CACHES,
							.margin = "5",
							.size = STORAGE_SIZE,
							.file_size = STORAGE_FILE,
							.time_ns = STORAGE_TIME_NS,
							.files = STORAGE_FILES,
							.rounds = STORAGE_ROUNDS};

static const struct option_row storage_rows[] = {
    {.name = "against",
     .kind = OPTION_PATH,
     .value = "PATH",
     .help = "read this directory in turns with the other, and say whether the other is slower",
     OPTION_FIELD(struct storage_options, against)},
    {.name = "pattern",
     .kind = OPTION_TEXT,
     .value = "LIST",
     .help = "of sequential, random, files (an epoch: each of many small files once, in a random "
	     "order); default all",
     .words = "sequential|random|files",
     OPTION_FIELD(struct storage_options, patterns)},
    {.name = "cache",
     .kind = OPTION_TEXT,
     .value = "LIST",
     .help =
	 "of direct (past the page cache), cold (through it, dropped before), cached (from it); "
	 "default all",
     .words = "direct|cold|cached",
     OPTION_FIELD(struct storage_options, caches)},
    {.name = "block",
     .kind = OPTION_TEXT,
     .value = "LIST",
     .help = "bytes of one read: powers of two, 4Ki to 16Mi (default 4Ki,128Ki,4Mi)",
     OPTION_FIELD(struct storage_options, blocks)},
    {.name = "readers",
     .kind = OPTION_TEXT,
     .value = "LIST",
     .help = "how many read at once, 1 to 256 (default 1,8)",
     OPTION_FIELD(struct storage_options, readers)},
    {.name = "size",
     .kind = OPTION_SIZE,
     .value = "SIZE",
     .help = "of the large file, rounded up to 16 MiB (default 512Mi); what is larger than the "
	     "memory shows more",
     .min = 1,
     .max = UINT64_C(1) << 44,
     OPTION_FIELD(struct storage_options, size)},
    {.name = "files",
     .kind = OPTION_U64,
     .value = "N",
     .help = "how many small files there are (default 1000)",
     .min = 1,
     .max = READER_FILES_MAX,
     OPTION_FIELD(struct storage_options, files)},
    {.name = "file-size",
     .kind = OPTION_SIZE,
     .value = "SIZE",
     .help = "of each of them (default 110Ki)",
     .min = 1,
     .max = UINT64_C(1) << 30,
     OPTION_FIELD(struct storage_options, file_size)},
    {.name = "time",
     .kind = OPTION_DURATION,
     .value = "TIME",
     .help = "how long one measurement takes (default 500ms; an epoch as long as it takes)",
     .min = 1000000,
     OPTION_FIELD(struct storage_options, time_ns)},
    {.name = "rounds",
     .kind = OPTION_U64,
     .value = "N",
     .help = "how often each is measured (default 6, as a verdict wants at least)",
     .min = 1,
     .max = 1000,
     OPTION_FIELD(struct storage_options, rounds)},
    {.name = "engine",
     .kind = OPTION_CHOICE,
     .words = "auto|fio|own",
     .help = "who reads the large file: fio, our own reader, which also looks at what it reads, or "
	     "fio if it is installed (auto, default)",
     OPTION_FIELD(struct storage_options, engine)},
    {.name = "margin",
     .kind = OPTION_TEXT,
     .value = "PERCENT",
     .help = "with --against: differences below this do not matter (default 5)",
     OPTION_FIELD(struct storage_options, margin)},
    {.name = "seed",
     .kind = OPTION_U64,
     .value = "N",
     .help = "of what is read in which order (default: a new one)",
     .max = UINT64_C(1) << 53,
     OPTION_FIELD(struct storage_options, seed)},
    {.name = "json",
     .kind = OPTION_PATH,
     .value = "FILE",
     .help = "write all measurements there (sluice.result/1)",
     OPTION_FIELD(struct storage_options, json)},
    BENCH_QUIET_ROW(struct storage_options),
    OPTION_OUTPUT(struct storage_options, output),
    {0},
};

static const struct cmd_exit_row storage_exits[] = {
    {FINDINGS_EXIT_RIGHT, "measured; with --against nowhere slower by more than the margin"},
    {FINDINGS_EXIT_POOR, "with --against: somewhere slower by more than the margin"},
    {FINDINGS_EXIT_WRONG, "something was read that was not written there, or reading failed"},
    {FINDINGS_EXIT_NOTHING, "with --against: nowhere anything can be said"},
    {CMD_EXIT_USAGE, "wrong command line"},
    {CMD_EXIT_CANNOT_WRITE, "the directory, or the report, cannot be written"},
    {FINDINGS_EXIT_INTERRUPTED, "interrupted; nothing is left behind"},
    {0, NULL},
};

static const struct cmd_example storage_examples[] = {
    {"sluice bench storage /data", "how fast it is read, in 42 ways"},
    {"sluice bench storage /mnt/volume --against /var/tmp --pattern random,files --cache direct",
     "whether a volume is slower than the host's own disk"},
    {NULL, NULL},
};

/* --- options ---------------------------------------------------------------------------------- */

struct storage_call {
	const struct cmd_call *call;
	const struct storage_options *options;
	struct storage_plan plan;
	struct reader_case cases[STORAGE_CASES_MAX];
	uint64_t blocks[STORAGE_LIST_MAX], readers[STORAGE_LIST_MAX];
	uint64_t patterns[STORAGE_LIST_MAX], caches[STORAGE_LIST_MAX];
	size_t block_count, reader_count, pattern_count, cache_count;
};

static int storage_read_block(const char *text, uint64_t *out)
{
	int rc = parse_size(text, READER_BLOCK_MIN, READER_BLOCK_MAX, out);
	return rc == 0 && (*out & (*out - 1)) ? -EINVAL : rc;
}

static int storage_read_readers(const char *text, uint64_t *out)
{
	return parse_u64(text, 1, READER_READERS_MAX, out);
}

static int storage_read_pattern(const char *text, uint64_t *out)
{
	for (*out = 0; *out < READER_PATTERN_COUNT; (*out)++)
		if (strcmp(text, reader_pattern_to_string((enum reader_pattern) * out)) == 0)
			return 0;
	return -EINVAL;
}

static int storage_read_cache(const char *text, uint64_t *out)
{
	for (*out = 0; *out < READER_CACHE_COUNT; (*out)++)
		if (strcmp(text, reader_cache_to_string((enum reader_cache) * out)) == 0)
			return 0;
	return -EINVAL;
}

/* A list with commas. 0, or the exit code. */
static int storage_list(const struct cmd_call *call, const char *option, const char *text,
			int (*read)(const char *text, uint64_t *out),
			uint64_t out[STORAGE_LIST_MAX], size_t *out_count)
{
	while (true) {
		char item[STORAGE_ITEM_MAX];
		size_t length = strcspn(text, ",");

		(void)snprintf(item, sizeof(item), "%.*s", (int)length, text); /* cut */
		if (*out_count >= STORAGE_LIST_MAX || length >= sizeof(item) ||
		    read(item, &out[*out_count]) < 0)
			return cmd_usage(call, "--%s: '%s' cannot be meant, or there are too many",
					 option, item);

		(*out_count)++;
		if (text[length] == '\0')
			return 0;

		text += length + 1;
	}
}

static int storage_lists(struct storage_call *self)
{
	const struct storage_options *options = self->options;
	int code = storage_list(self->call, "block", options->blocks, storage_read_block,
				self->blocks, &self->block_count);
	if (code == 0)
		code = storage_list(self->call, "readers", options->readers, storage_read_readers,
				    self->readers, &self->reader_count);
	if (code == 0)
		code = storage_list(self->call, "pattern", options->patterns, storage_read_pattern,
				    self->patterns, &self->pattern_count);

	if (code == 0)
		code = storage_list(self->call, "cache", options->caches, storage_read_cache,
				    self->caches, &self->cache_count);

	return code;
}

/* Small files are read whole: their block is the largest alone. */
static int storage_cases(struct storage_call *self)
{
	struct storage_plan *plan = &self->plan;
	uint64_t largest = 0;
	for (size_t i = 0; i < self->block_count; i++)
		largest = self->blocks[i] > largest ? self->blocks[i] : largest;

	for (size_t p = 0; p < self->pattern_count; p++) {
		bool is_files = self->patterns[p] == READER_FILES;

		for (size_t c = 0; c < self->cache_count; c++) {
			for (size_t b = 0; b < (is_files ? 1 : self->block_count); b++) {
				for (size_t r = 0; r < self->reader_count; r++) {
					if (plan->case_count >= STORAGE_CASES_MAX)
						return cmd_usage(self->call,
								 "more than %d ways to read",
								 STORAGE_CASES_MAX);

					self->cases[plan->case_count++] = (struct reader_case){
					    .pattern = (enum reader_pattern)self->patterns[p],
					    .cache = (enum reader_cache)self->caches[c],
					    .block = is_files ? largest : self->blocks[b],
					    .readers = (unsigned)self->readers[r]};
				}
			}
		}

		plan->files = is_files ? self->options->files : plan->files;
	}

	plan->cases = self->cases;
	return 0;
}

static atomic_bool storage_interrupted; /* a signal has nothing else to tell it by */

static void storage_on_signal(int number)
{
	(void)number;
	atomic_store(&storage_interrupted, true);
}

static void storage_progress(const char *what, uint64_t done, uint64_t all, void *context)
{
	const struct storage_options *options = context;
	if (!options->quiet && isatty(STDERR_FILENO))
		(void)fprintf(stderr, "\r\x1b[K%s: %" PRIu64 " of %" PRIu64, what, done, all);
}

static bool storage_has_fio(void)
{
	const char *path = getenv("PATH");
	char name[FILE_PATH_MAX];

	for (const char *at = path ? path : "/usr/bin"; at;) {
		size_t length = strcspn(at, ":");
		int written = snprintf(name, sizeof(name), "%.*s/fio", (int)length, at);
		if (length > 0 && written > 0 && (size_t)written < sizeof(name) &&
		    access(name, X_OK) == 0)
			return true;

		at = at[length] ? at + length + 1 : NULL;
	}

	return false;
}

static int storage_plan_make(struct storage_call *self)
{
	const struct storage_options *options = self->options;
	struct storage_plan *plan = &self->plan;
	double percent;

	if (parse_fraction(options->margin, 0, 99, &percent) < 0 || !(percent > 0))
		return cmd_usage(self->call, "--margin '%s': more than 0 and less than 100",
				 options->margin);

	*plan = (struct storage_plan){.path = self->call->argv[0],
				      .against = options->against,
				      .bytes = (options->size + READER_BLOCK_MAX - 1) /
					       READER_BLOCK_MAX * READER_BLOCK_MAX,
				      .file_bytes = options->file_size,
				      .rounds = options->rounds,
				      .time_ns = options->time_ns,
				      .seed = options->seed,
				      .margin = percent / 100,
				      .stop = &storage_interrupted,
				      .progress = storage_progress,
				      .context = (void *)(uintptr_t)options};
	if (options->engine != STORAGE_ENGINE_OWN && storage_has_fio())
		plan->fio = "fio";
	else if (options->engine == STORAGE_ENGINE_FIO)
		return cmd_usage(self->call, "--engine=fio: there is no fio in PATH: install it, "
					     "or let --engine=own read");

	if (plan->seed == 0 && getrandom(&plan->seed, sizeof(plan->seed), 0) > 0)
		plan->seed >>= 11; /* what every reader of JSON keeps */

	int code = storage_lists(self);
	return code == 0 ? storage_cases(self) : code;
}

/* --- the report ------------------------------------------------------------------------------- */

static int storage_row(const struct storage_plan *plan, const struct storage_case *one,
		       struct buf *out)
{
	int rc = buf_printf(
	    out, "%-10s %-7s %6zuK %3u", reader_pattern_to_string(one->what.pattern),
	    reader_cache_to_string(one->what.cache), one->what.block >> 10, one->what.readers);
	if (rc == 0 && one->is_skipped)
		return buf_printf(out, "  SKIP: %s\n", one->why);
	if (rc == 0)
		rc = buf_printf(out, "  %10.1f %10.0f %10.3f %10.3f", one->rate / 1e6, one->reads,
				one->p50 * 1e3, one->p99 * 1e3);
	if (rc == 0 && plan->against)
		rc = buf_printf(out, "  %10.1f", one->rate_against / 1e6);

	if (rc == 0 && one->has_verdict && one->verdict.kind != VERDICT_TOO_FEW)
		/* Worse by 25 % is a rate of 1/1.25. */
		rc = buf_printf(out, "  %5.2f (%.2f to %.2f) %s", 1 / (1 + one->verdict.estimate),
				1 / (1 + one->verdict.within_95.high),
				1 / (1 + one->verdict.within_95.low),
				verdict_to_string(one->verdict.kind));

	if (rc == 0 && one->has_verdict && one->verdict.kind == VERDICT_TOO_FEW)
		rc = buf_add_text(out, "  TOO-FEW: more --rounds");

	return rc == 0 ? buf_add_text(out, "\n") : rc;
}

static int storage_table(const struct storage_plan *plan, const struct storage_outcome *outcome,
			 struct buf *out)
{
	int rc = buf_printf(out, "%-10s %-7s %7s %3s  %10s %10s %10s %10s%s\n", "PATTERN", "CACHE",
			    "BLOCK", "N", "MB/s", "READS/s", "p50 ms", "p99 ms",
			    plan->against ? "     AGAINST  RATIO (95 %)" : "");
	for (size_t i = 0; rc == 0 && i < outcome->case_count; i++)
		rc = storage_row(plan, &outcome->cases[i], out);

	if (rc == 0 && plan->fio)
		rc = buf_add_text(out, "direct and cached of the large file: read by fio, which "
				       "does not look at what it reads\n");

	if (rc == 0 && outcome->wrong > 0)
		rc = buf_printf(out,
				"WRONG: %" PRIu64 " blocks of 4 KiB held what does not belong "
				"there\n",
				outcome->wrong);

	return rc;
}

static void storage_json_case(struct jsonw *json, const struct storage_case *one)
{
	jsonw_object(json, NULL);
	jsonw_text(json, "pattern", reader_pattern_to_string(one->what.pattern));
	jsonw_text(json, "cache", reader_cache_to_string(one->what.cache));
	jsonw_u64(json, "block", one->what.block);
	jsonw_u64(json, "readers", one->what.readers);

	if (one->is_skipped) {
		jsonw_text(json, "skipped", one->why);
	} else {
		result_write_number(json, "rate", one->rate);
		result_write_number(json, "reads", one->reads);
		result_write_number(json, "p50", one->p50);
		result_write_number(json, "p99", one->p99);
	}

	if (one->has_verdict) {
		result_write_number(json, "rate_against", one->rate_against);
		jsonw_text(json, "verdict", verdict_to_string(one->verdict.kind));
		result_write_number(json, "worse_by", one->verdict.estimate);
		result_write_number(json, "worse_by_low", one->verdict.within_95.low);
		result_write_number(json, "worse_by_high", one->verdict.within_95.high);
	}

	result_write_runs(json, &one->runs);
	jsonw_end_object(json);
}

static int storage_json(const struct storage_plan *plan, const struct storage_outcome *outcome,
			struct buf *out)
{
	struct jsonw json;
	char now[CLOCK_UTC_TEXT];
	clock_utc_text(now);
	jsonw_init(&json, out);
	jsonw_object(&json, NULL);
	jsonw_text(&json, "schema", RESULT_SCHEMA);
	jsonw_text(&json, "tool", "sluice bench storage");
	jsonw_text(&json, "version", cmd_version());
	jsonw_text(&json, "written", now);
	jsonw_text(&json, "path", plan->path);

	if (plan->against)
		jsonw_text(&json, "against", plan->against);
	jsonw_text(&json, "engine", plan->fio ? "fio" : "own");
	jsonw_u64(&json, "seed", plan->seed);
	jsonw_u64(&json, "wrong", outcome->wrong);
	fingerprint_write(&json, "", environ);
	jsonw_array(&json, "cases");

	for (size_t i = 0; i < outcome->case_count; i++)
		storage_json_case(&json, &outcome->cases[i]);

	jsonw_end_array(&json);
	jsonw_end_object(&json);
	return json.rc < 0 ? json.rc : buf_add_text(out, "\n");
}

static int storage_print(const struct storage_call *self, const struct storage_outcome *outcome,
			 struct err *err)
{
	struct buf text _cleanup_buf_, file _cleanup_buf_;

	buf_init(&text, STORAGE_REPORT_MAX);
	buf_init(&file, STORAGE_REPORT_MAX);

	int rc = self->options->output == OPTION_OUTPUT_JSON
		     ? storage_json(&self->plan, outcome, &text)
		     : storage_table(&self->plan, outcome, &text);
	if (rc == 0 && self->options->json)
		rc = storage_json(&self->plan, outcome, &file);
	if (rc < 0)
		return err_set(err, rc, "making the report: %s", err_describe(rc));

	(void)fwrite(buf_text(&text), 1, text.length, stdout); /* cmd_main() looks at stdout */
	return self->options->json
		   ? file_write_atomic(self->options->json, buf_text(&file), file.length, 0644, err)
		   : 0;
}

static int storage_exit_code(const struct storage_plan *plan, const struct storage_outcome *outcome)
{
	bool is_slower = false, says_something = false;

	for (size_t i = 0; i < outcome->case_count; i++) {
		const struct storage_case *one = &outcome->cases[i];
		enum verdict_kind kind = one->verdict.kind;

		if (one->is_skipped)
			continue;

		is_slower = is_slower || (one->has_verdict && kind == VERDICT_SLOWER);
		says_something = says_something || !plan->against ||
				 (kind != VERDICT_TOO_FEW && kind != VERDICT_INCONCLUSIVE);
	}

	return findings_exit_code(outcome->wrong > 0, is_slower, says_something);
}

static int storage_fail(const struct storage_call *self, int code, const struct err *err)
{
	if (code == -EINTR)
		return cmd_fail(self->call, FINDINGS_EXIT_INTERRUPTED, err);
	bool cannot_write = code == -ENOSPC || code == -EROFS || code == -EACCES ||
			    code == -ENOENT || code == -ENOTDIR || code == -EPERM;
	return cmd_fail(self->call, cannot_write ? CMD_EXIT_CANNOT_WRITE : FINDINGS_EXIT_WRONG,
			err);
}

static int storage_main(const struct cmd_call *call)
{
	struct err err = {0};
	_cleanup_free_ struct storage_call *self = calloc(1, sizeof(*self));
	if (!self)
		return cmd_fail(call, CMD_EXIT_FAILED, (err_set(&err, -ENOMEM, "no memory"), &err));

	self->call = call;
	self->options = call->options;

	int code = storage_plan_make(self);
	if (code != 0)
		return code;

	struct sigaction action = {.sa_handler = storage_on_signal};
	(void)sigaction(SIGINT, &action, NULL); /* these cannot fail */
	(void)sigaction(SIGTERM, &action, NULL);

	struct storage_outcome outcome;
	int rc = storage_run(&self->plan, &outcome, &err);

	if (!self->options->quiet && isatty(STDERR_FILENO))
		(void)fprintf(stderr, "\r\x1b[K");

	if (rc < 0)
		code = storage_fail(self, rc, &err);
	else if (storage_print(self, &outcome, &err) < 0)
		code = cmd_fail(call, CMD_EXIT_CANNOT_WRITE, &err);
	else
		code = storage_exit_code(&self->plan, &outcome);

	storage_done(&outcome);
	return code;
}

const struct command cmd_bench_storage = {
    .name = "storage",
    .summary = "Measure how fast a directory is read, as training reads it",
    .description =
	"Writes a large file and many small ones there, reads them in every combination of what "
	"is asked for, and removes them. With --against the same in another directory, in turns.",
    .run = storage_main,
    .options = storage_rows,
    .defaults = &storage_defaults,
    .options_size = sizeof(struct storage_options),
    .positional = "PATH",
    .positional_min = 1,
    .positional_max = 1,
    .exit_unwritten = CMD_EXIT_CANNOT_WRITE,
    .exits = storage_exits,
    .examples = storage_examples,
};
