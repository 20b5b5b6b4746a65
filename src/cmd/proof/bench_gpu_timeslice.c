/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice bench gpu timeslice`: the experiment of two tenants that share a T4 by time, step by
 * step. What the figures must be is in src/bench/gpu/timeslice.h.
 */
#include "cmd/proof/bench_gpu.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/findings.h"
#include "base/jsonw.h"
#include "bench/gpu/tenants.h"
#include "bench/gpu/timeslice.h"
#include "bench/result.h"
#include "cmd/options.h"
#include "cmd/proof/bench.h"

enum {
	TIMESLICE_STEPS = 3,
	TIMESLICE_SECONDS = 60,
	TIMESLICE_SECONDS_MAX = 3600,
	TIMESLICE_GRACE_S = 180, /* for start-up, the barrier and the first compilation */
	TIMESLICE_OUTPUT_MAX = 1 << 20,
	TIMESLICE_LOAD_WRONG = 1, /* LOAD_WRONG of a load */
};

struct timeslice_options {
	const char *size, *device, *library;
	uint32_t seconds;
	bool json, quiet;
	enum option_output output;
};

static const struct timeslice_options timeslice_defaults = {.size = "4096",
							    .seconds = TIMESLICE_SECONDS};

static const struct option_row timeslice_rows[] = {
    {.name = "seconds",
     .kind = OPTION_U32,
     .value = "N",
     .help = "how long each step runs (default 60)",
     .min = 5,
     .max = TIMESLICE_SECONDS_MAX,
     OPTION_FIELD(struct timeslice_options, seconds)},
    {.name = "size",
     .kind = OPTION_TEXT,
     .value = "M,N,K",
     .help = "of the product (default 4096 for all three)",
     OPTION_FIELD(struct timeslice_options, size)},
    BENCH_GPU_DEVICE_ROW(struct timeslice_options, device),
    BENCH_GPU_LIBRARY_ROW(struct timeslice_options, library),
    {.name = "json",
     .kind = OPTION_FLAG,
     .help = "the same as --output=json",
     OPTION_FIELD(struct timeslice_options, json)},
    BENCH_QUIET_ROW(struct timeslice_options),
    OPTION_OUTPUT(struct timeslice_options, output),
    {0},
};

static const struct cmd_exit_row timeslice_exits[] = {
    {FINDINGS_EXIT_RIGHT, "either of two has about half, and both the same"},
    {FINDINGS_EXIT_POOR, "they have not"},
    {FINDINGS_EXIT_WRONG, "the GPU computed wrongly, or a load hung"},
    {FINDINGS_EXIT_NOTHING, "no GPU, or a load could not run: nothing can be said"},
    {CMD_EXIT_USAGE, "wrong command line"},
    {CMD_EXIT_CANNOT_WRITE, "what was measured cannot be written"},
    {FINDINGS_EXIT_INTERRUPTED, "interrupted"},
    {0, NULL},
};

static const struct timeslice_skip {
	const char *step, *what, *why;
} timeslice_skips[] = {
    {"c", "a third pod stays Pending",
     "asks for a kubelet whose plugin advertises two replicas; this command only runs loads"},
    {"d", "fair shares 1:1 and 1:3, memory quotas",
     "asks for shares that are enforced inside a GPU, which this version does not do"},
};

struct timeslice_call {
	const struct cmd_call *call;
	const struct timeslice_options *options;
	struct tenant step[TIMESLICE_STEPS][2]; /* alone, two, alone */
	struct timeslice figures;
	bool is_json;
};

static atomic_bool timeslice_interrupted; /* a signal has nothing else to tell it by */

static void timeslice_on_signal(int number)
{
	(void)number;
	atomic_store(&timeslice_interrupted, true);
}

/* --- steps ------------------------------------------------------------------------------------ */

static void timeslice_arguments(const struct timeslice_options *options, const char *seconds,
				struct tenant *out)
{
	size_t count = 0;
	out->arguments[count++] = "gemm";
	out->arguments[count++] = "--size";
	out->arguments[count++] = options->size;
	out->arguments[count++] = "--seconds";
	out->arguments[count++] = seconds;

	if (options->device) {
		out->arguments[count++] = "--device";
		out->arguments[count++] = options->device;
	}

	if (options->library) {
		out->arguments[count++] = "--lib";
		out->arguments[count++] = options->library;
	}
}

/* What a load that failed means for the experiment; 0: it did not. */
static int timeslice_failed(const struct timeslice_call *self, const struct tenant *tenant,
			    struct err *err)
{
	(void)self;
	if (tenant->rc == 0 && tenant->has_summary)
		return 0;
	(void)err_set(err, -EIO, "a load ended with exit status %d%s%s", tenant->rc,
		      tenant->has_summary ? ": " : "",
		      tenant->has_summary ? tenant->summary.problem : "");
	return tenant->rc == TIMESLICE_LOAD_WRONG ? FINDINGS_EXIT_WRONG : FINDINGS_EXIT_NOTHING;
}

static int timeslice_step(struct timeslice_call *self, int step, struct err *err)
{
	static const char *const names[] = {"one alone", "two together", "one alone again"};
	const struct timeslice_options *options = self->options;
	size_t count = step == 1 ? 2 : 1;
	char seconds[16];

	(void)snprintf(seconds, sizeof(seconds), "%u", options->seconds);

	for (size_t i = 0; i < count; i++)
		timeslice_arguments(options, seconds, &self->step[step][i]);

	if (!options->quiet && isatty(STDERR_FILENO))
		(void)fprintf(stderr, "step %d of %d: %s, %u s\n", step + 1, TIMESLICE_STEPS,
			      names[step], options->seconds);

	uint64_t deadline =
	    clock_real_ns() + (options->seconds + (uint64_t)TIMESLICE_GRACE_S) * CLOCK_NS_PER_S;
	int rc = tenants_run("/proc/self/exe", self->step[step], count, deadline,
			     &timeslice_interrupted, err);
	if (rc == -EINTR)
		return FINDINGS_EXIT_INTERRUPTED;
	if (rc < 0)
		return rc == -ETIMEDOUT ? FINDINGS_EXIT_WRONG : FINDINGS_EXIT_NOTHING;

	for (size_t i = 0; i < count; i++) {
		int code = timeslice_failed(self, &self->step[step][i], err);
		if (code != 0)
			return code;
	}

	return 0;
}

/* --- the report ------------------------------------------------------------------------------- */

static const char *timeslice_verdict(const struct timeslice_call *self)
{
	const struct timeslice *figures = &self->figures;
	if (self->step[0][0].summary.is_simulated && figures->is_model)
		return "PASS (exactly the model's)";
	return figures->passes ? "PASS" : "FAIL";
}

/* Why the figures are not those of a T4; "" when they are. */
static void timeslice_note(const struct timeslice_call *self, char *out, size_t size)
{
	const struct tenant_summary *first = &self->step[0][0].summary;
	if (first->is_simulated)
		(void)snprintf(out, size, "simulated: not verified on a T4");
	else if (timeslice_is_t4(first->device))
		(void)snprintf(out, size, "%s", "");
	else
		(void)snprintf(out, size, "%s, not T4", first->device);
}

static int timeslice_text_step(const struct tenant *tenant, const char *step, struct buf *out)
{
	const struct tenant_summary *summary = &tenant->summary;
	int rc = buf_printf(out, "%s  %9.3f TFLOP/s  verified: %s", step, summary->tflops,
			    summary->verified);
	if (rc == 0 && summary->has_clock)
		rc = buf_printf(out, "  clock %.0f MHz", summary->clock_mhz[1]);
	if (rc == 0 && summary->power_w > 0)
		rc = buf_printf(out, "  %.0f W", summary->power_w);

	if (rc == 0 && summary->throttle[0])
		rc = buf_printf(out, "  slowed down: %s", summary->throttle);

	return rc == 0 ? buf_add_text(out, "\n") : rc;
}

static int timeslice_text(const struct timeslice_call *self, struct buf *out)
{
	const struct timeslice *figures = &self->figures;
	const struct tenant_summary *first = &self->step[0][0].summary;
	char note[TENANTS_TEXT_MAX * 2];

	timeslice_note(self, note, sizeof(note));
	int rc = buf_printf(out, "%s, CUDA %s%s%s\n", first->device, first->cuda,
			    note[0] ? ": " : "", note);
	if (rc == 0)
		rc = timeslice_text_step(&self->step[0][0], "a   alone", out);

	for (int i = 0; i < 2 && rc == 0; i++)
		rc = timeslice_text_step(&self->step[1][i], i ? "b2  two  " : "b1  two  ", out);

	if (rc == 0)
		rc = timeslice_text_step(&self->step[2][0], "a   alone", out);

	if (rc == 0)
		rc = buf_printf(out,
				"either: %.1f %% and %.1f %% of alone (44 to 51), apart %.1f (2 at "
				"most), together %.1f %%; alone changed by %.1f %%: %s\n",
				100 * figures->ratio[0], 100 * figures->ratio[1],
				100 * figures->apart, 100 * figures->sum, 100 * figures->drift,
				timeslice_verdict(self));

	for (size_t i = 0; i < sizeof(timeslice_skips) / sizeof(timeslice_skips[0]) && rc == 0; i++)
		rc = buf_printf(out, "%s   SKIP %s: %s\n", timeslice_skips[i].step,
				timeslice_skips[i].what, timeslice_skips[i].why);

	return rc;
}

static void timeslice_json_tenant(struct jsonw *json, const struct tenant *tenant, const char *step,
				  double ratio)
{
	const struct tenant_summary *summary = &tenant->summary;

	jsonw_object(json, NULL);
	jsonw_text(json, "step", step);
	result_write_number(json, "tflops", summary->tflops);
	result_write_number(json, "ratio", ratio);
	jsonw_text(json, "verified", summary->verified);

	if (summary->has_clock)
		result_write_number(json, "clock_mhz", summary->clock_mhz[1]);
	if (summary->power_w > 0)
		result_write_number(json, "power_w", summary->power_w);
	if (summary->temp_c > 0)
		result_write_number(json, "temp_c", summary->temp_c);
	jsonw_text(json, "throttle", summary->throttle);
	jsonw_end_object(json);
}

static int timeslice_json(const struct timeslice_call *self, struct buf *out)
{
	const struct timeslice *figures = &self->figures;
	const struct tenant_summary *first = &self->step[0][0].summary;
	char note[TENANTS_TEXT_MAX * 2];
	struct jsonw json;

	timeslice_note(self, note, sizeof(note));
	jsonw_init(&json, out);
	jsonw_object(&json, NULL);
	jsonw_text(&json, "exp", "T4");
	jsonw_text(&json, "gpu", first->device);
	jsonw_text(&json, "uuid", first->uuid);
	jsonw_text(&json, "cuda", first->cuda);
	jsonw_bool(&json, "simulated", first->is_simulated);
	jsonw_u64(&json, "seconds", self->options->seconds);
	jsonw_array(&json, "tenants");
	timeslice_json_tenant(&json, &self->step[0][0], "a", 1);

	for (int i = 0; i < 2; i++)
		timeslice_json_tenant(&json, &self->step[1][i], "b", figures->ratio[i]);

	timeslice_json_tenant(&json, &self->step[2][0], "a", 1);
	jsonw_end_array(&json);
	result_write_number(&json, "sum_ratio", figures->sum);
	result_write_number(&json, "apart", figures->apart);
	result_write_number(&json, "drift", figures->drift);
	jsonw_bool(&json, "pass", figures->passes);
	jsonw_bool(&json, "is_model", first->is_simulated && figures->is_model);
	jsonw_text(&json, "note", note);
	jsonw_array(&json, "skipped");

	for (size_t i = 0; i < sizeof(timeslice_skips) / sizeof(timeslice_skips[0]); i++) {
		jsonw_object(&json, NULL);
		jsonw_text(&json, "step", timeslice_skips[i].step);
		jsonw_text(&json, "what", timeslice_skips[i].what);
		jsonw_text(&json, "reason", timeslice_skips[i].why);
		jsonw_end_object(&json);
	}

	jsonw_end_array(&json);
	jsonw_end_object(&json);
	return json.rc < 0 ? json.rc : buf_add_text(out, "\n");
}

static int timeslice_finish(struct timeslice_call *self)
{
	struct err err = {0};
	struct buf text _cleanup_buf_;
	struct timeslice *figures = &self->figures;

	buf_init(&text, TIMESLICE_OUTPUT_MAX);
	figures->before = self->step[0][0].summary.tflops;
	figures->one = self->step[1][0].summary.tflops;
	figures->two = self->step[1][1].summary.tflops;
	figures->after = self->step[2][0].summary.tflops;
	if (!timeslice_judge(figures))
		return cmd_fail(self->call, FINDINGS_EXIT_NOTHING,
				(err_set(&err, -ENODATA, "the load alone has no rate"), &err));

	int rc = self->is_json ? timeslice_json(self, &text) : timeslice_text(self, &text);
	if (rc < 0)
		return cmd_fail(
		    self->call, CMD_EXIT_FAILED,
		    (err_set(&err, rc, "making the report: %s", err_describe(rc)), &err));

	(void)fwrite(buf_text(&text), 1, text.length, stdout); /* cmd_main() looks at it */
	return figures->passes ? FINDINGS_EXIT_RIGHT : FINDINGS_EXIT_POOR;
}

static int timeslice_main(const struct cmd_call *call)
{
	struct err err = {0};
	_cleanup_free_ struct timeslice_call *self = calloc(1, sizeof(*self));
	if (!self)
		return cmd_fail(call, CMD_EXIT_FAILED, (err_set(&err, -ENOMEM, "no memory"), &err));

	self->call = call;
	self->options = call->options;
	self->is_json = self->options->json || self->options->output == OPTION_OUTPUT_JSON;

	struct sigaction action = {.sa_handler = timeslice_on_signal};
	(void)sigaction(SIGINT, &action, NULL); /* these cannot fail */
	(void)sigaction(SIGTERM, &action, NULL);

	for (int step = 0; step < TIMESLICE_STEPS; step++) {
		int code = timeslice_step(self, step, &err);
		if (code != 0)
			return cmd_fail(call, code, &err);
	}

	return timeslice_finish(self);
}

static const struct cmd_example timeslice_examples[] = {
    {"sluice bench gpu timeslice", "three minutes; on a T4 either of two has 44 to 51 %"},
    {"sluice sim exec -- sluice bench gpu timeslice", "a simulated one: exactly 47.6 % each"},
    {NULL, NULL},
};

const struct command cmd_bench_gpu_timeslice = {
    .name = "timeslice",
    .summary = "Two loads on one GPU: does either get about half?",
    .description =
	"Runs a product alone, two of them together and one alone again, each in a process of its "
	"own, and compares rates. Loads are verified before they are timed. The time of switching "
	"between them is what is missing from the sum.",
    .run = timeslice_main,
    .options = timeslice_rows,
    .defaults = &timeslice_defaults,
    .options_size = sizeof(struct timeslice_options),
    .exit_unwritten = CMD_EXIT_CANNOT_WRITE,
    .exits = timeslice_exits,
    .examples = timeslice_examples,
};
