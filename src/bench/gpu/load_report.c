/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/gpu/load_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/jsonw.h"
#include "bench/gpu/load.h"

enum {
	LOAD_PLACES = 6, /* behind the point: a millionth of a TFLOP/s, a nanosecond of a ms */
	LOAD_VERSION_THOUSAND = 1000,
	LOAD_THROTTLE_BITS = 64,
};

/* A number with at most six places, as a person would write it down. */
static void load_number(struct jsonw *json, const char *key, double number)
{
	double scaled = number * 1e6;
	if (!isfinite(scaled) || fabs(scaled) > 9e18)
		jsonw_null(json, key);
	else
		jsonw_decimal(json, key, llround(scaled), LOAD_PLACES);
}

static void load_ms(struct jsonw *json, const char *key, uint64_t ns)
{
	load_number(json, key, (double)ns / 1e6);
}

static int load_line_end(struct jsonw *json, struct buf *out)
{
	jsonw_end_object(json);
	return json->rc < 0 ? json->rc : buf_add_text(out, "\n");
}

int load_report_second_json(const struct load_second *second, const struct load_summary *of,
			    struct buf *out)
{
	struct jsonw json;
	jsonw_init(&json, out);
	jsonw_object(&json, NULL);
	load_number(&json, "t", second->unix_seconds);

	if (second->mode == LOAD_GEMM || second->mode == LOAD_BURN)
		load_number(&json, "tflops", second->tflops);
	jsonw_u64(&json, "kernels", second->kernels);
	if (second->mode != LOAD_LC)
		load_number(&json, "gpu_ms", second->gpu_ms);
	load_number(&json, "wall_ms", second->wall_ms);

	if (second->mode == LOAD_LC) {
		jsonw_u64(&json, "requests", second->requests);
		load_number(&json, "p50_ms", second->p50_ms);
		load_number(&json, "p99_ms", second->p99_ms);
		load_number(&json, "p999_ms", second->p999_ms);
	}

	if (second->mode == LOAD_SMALL || second->mode == LOAD_GRAPH)
		load_number(&json, "launch_ns", second->launch_ns);
	jsonw_i64(&json, "pid", getpid());
	jsonw_text(&json, "uuid", of->device.uuid);
	jsonw_bool(&json, "simulated", of->is_simulated);
	jsonw_text(&json, "mode", load_mode_to_string(second->mode));
	jsonw_bool(&json, "counts", second->counts);

	return load_line_end(&json, out);
}

int load_report_second_text(const struct load_second *second, const struct load_summary *of,
			    struct buf *out)
{
	char mark[48];
	(void)snprintf(mark, sizeof(mark), "%s%s", of->is_simulated ? "  simulated" : "",
		       second->counts ? "" : "  (does not count)");

	if (second->mode == LOAD_LC)
		return buf_printf(out, "%6" PRIu64 " requests  p50 %8.3f  p99 %8.3f ms%s\n",
				  second->requests, second->p50_ms, second->p99_ms, mark);
	if (second->mode == LOAD_SMALL || second->mode == LOAD_GRAPH)
		return buf_printf(out, "%8" PRIu64 " kernels  %9.1f ns a launch%s\n",
				  second->kernels, second->launch_ns, mark);

	return buf_printf(out, "%9.3f TFLOP/s  %6" PRIu64 " kernels  GPU %7.1f of %.0f ms%s\n",
			  second->tflops, second->kernels, second->gpu_ms, second->wall_ms, mark);
}

/* --- the summary as JSON ---------------------------------------------------------------------- */

static void load_json_histogram(struct jsonw *json, const char *key,
				const struct load_histogram *histogram)
{
	jsonw_object(json, key);
	jsonw_u64(json, "count", histogram->count);
	load_number(json, "median_us", histogram->median_us);
	load_number(json, "p99_us", histogram->p99_us);
	load_number(json, "max_us", histogram->max_us);
	jsonw_array(json, "below_us"); /* [limit, how many] */

	for (unsigned i = 0; i < LOAD_BUCKETS; i++) {
		if (histogram->bucket[i] == 0)
			continue;

		jsonw_array(json, NULL);
		jsonw_u64(json, NULL, UINT64_C(1) << i);
		jsonw_u64(json, NULL, histogram->bucket[i]);
		jsonw_end_array(json);
	}

	jsonw_end_array(json);
	jsonw_end_object(json);
}

static void load_json_readings(struct jsonw *json, struct readings *readings)
{
	double clock[3];
	if (readings_clock(readings, clock)) {
		jsonw_array(json, "clock_mhz");

		for (int i = 0; i < 3; i++)
			load_number(json, NULL, clock[i]);

		jsonw_end_array(json);
	} else {
		jsonw_null(json, "clock_mhz");
	}

	if (readings->power_count > 0)
		load_number(json, "power_w", readings->power_sum / readings->power_count);
	else
		jsonw_null(json, "power_w");

	if (readings->temperature_max > 0)
		jsonw_u64(json, "temp_c", readings->temperature_max);
	else
		jsonw_null(json, "temp_c");

	jsonw_array(json, "throttle");

	for (unsigned bit = 0; bit < LOAD_THROTTLE_BITS; bit++) {
		const char *name = readings_throttle_name(bit);
		if (readings->throttle_seen >> bit & 1)
			jsonw_text(json, NULL, name ? name : "unknown");
	}

	jsonw_end_array(json);
}

static void load_json_figures(struct jsonw *json, const struct load_plan *plan,
			      const struct load_summary *out)
{
	switch (plan->mode) {
	case LOAD_GEMM:
	case LOAD_BURN:
		load_number(json, "tflops", out->rate);
		load_number(json, "tflops_min", out->rate_min);
		load_number(json, "tflops_max", out->rate_max);
		load_number(json, "total_tflop", out->total_tflop);
		load_number(json, "gpu_busy", out->gpu_busy);
		break;
	case LOAD_SMALL:
	case LOAD_GRAPH:
		load_number(json, "launch_ns", out->launch_ns);
		jsonw_u64(json, "launches", out->launches);
		break;
	case LOAD_LC:
		jsonw_u64(json, "requests", out->requests);
		jsonw_u64(json, "unfinished", out->unfinished);
		load_number(json, "p50_ms", out->p50_ms);
		load_number(json, "p99_ms", out->p99_ms);
		load_number(json, "p999_ms", out->p999_ms);
		load_number(json, "max_ms", out->max_ms);
		load_number(json, "mean_ms", out->mean_ms);
		load_number(json, "asked_busy", out->lc_busy);
		break;
	case LOAD_RULER:
		load_json_histogram(json, "gaps", &out->gaps);
		load_json_histogram(json, "slices", &out->slices);
		load_number(json, "gap_share", out->gap_share);
		load_number(json, "timer_step_ns", out->timer_step_ns);
		break;
	default:
		jsonw_u64(json, "free_bytes", out->free_bytes);
		jsonw_u64(json, "total_bytes", out->total_bytes);
		break;
	}
	jsonw_u64(json, "kernels", out->kernels);
	jsonw_u64(json, "seconds_counted", out->seconds_counted);
	load_number(json, "host_cpu", out->host_cpu);
	load_ms(json, "start_to_kernel_ms", out->start_to_kernel_ns);
}

static void load_json_options(struct jsonw *json, const struct load_plan *plan)
{
	jsonw_object(json, "options");
	load_number(json, "seconds", (double)plan->run_ns / 1e9);
	load_number(json, "warmup", (double)plan->warmup_ns / 1e9);

	if (plan->mode == LOAD_GEMM) {
		jsonw_array(json, "size");
		jsonw_u64(json, NULL, plan->size.m);
		jsonw_u64(json, NULL, plan->size.n);
		jsonw_u64(json, NULL, plan->size.k);
		jsonw_end_array(json);
	} else {
		load_number(json, "kernel_us", (double)plan->kernel_ns / 1e3);
	}

	if (plan->mode == LOAD_LC) {
		load_number(json, "rate", plan->rate);
		jsonw_u64(json, "kernels_per_request", plan->kernels_per_request);
	}

	jsonw_u64(json, "tenants", plan->tenants);
	jsonw_end_object(json);
}

static const char *load_verified(const struct load_summary *out)
{
	return !out->was_verified ? "no" : out->verified_small ? "small size, simulated" : "yes";
}

static int load_json_paths(const struct load_summary *summary, struct buf *out)
{
	int rc = 0;

	for (uint32_t i = 0; i < summary->path_count && rc == 0; i++) {
		const struct load_path *path = &summary->paths[i];
		struct jsonw json;

		jsonw_init(&json, out);
		jsonw_object(&json, NULL);
		jsonw_text(&json, "path", path->name);
		jsonw_bool(&json, "missing", path->is_missing);
		jsonw_u64(&json, "bytes_ok", path->bytes_ok);
		jsonw_i64(&json, "error", path->error);
		jsonw_text(&json, "error_name", path->error_name);
		rc = load_line_end(&json, out);
	}

	return rc;
}

int load_report_summary_json(const struct load_plan *plan, struct load_summary *summary,
			     const char *problem, struct buf *out)
{
	struct jsonw json;
	char cc[24], version[24];
	int rc = load_json_paths(summary, out);
	if (rc < 0)
		return rc;

	(void)snprintf(cc, sizeof(cc), "%d.%d", summary->device.cc_major, summary->device.cc_minor);
	(void)snprintf(version, sizeof(version), "%d.%d",
		       summary->driver_version / LOAD_VERSION_THOUSAND,
		       summary->driver_version % LOAD_VERSION_THOUSAND / 10);
	jsonw_init(&json, out);
	jsonw_object(&json, NULL);
	jsonw_bool(&json, "summary", true);
	jsonw_text(&json, "mode", load_mode_to_string(plan->mode));
	jsonw_i64(&json, "status", summary->status);
	jsonw_text(&json, "problem", problem);
	jsonw_text(&json, "device", summary->device.name);

	jsonw_text(&json, "uuid", summary->device.uuid);
	jsonw_text(&json, "cc", cc);
	jsonw_text(&json, "cuda", version);
	jsonw_bool(&json, "simulated", summary->is_simulated);
	jsonw_text(&json, "resolve", plan->resolve == DRIVER_BY_DLSYM ? "dlsym" : "getprocaddress");
	jsonw_text(&json, "library", summary->library);
	jsonw_text(&json, "ptx", kernel_text_to_string(summary->text));
	jsonw_text(&json, "kernel", summary->kernel);
	load_ms(&json, "jit_ms", summary->load_ns);
	jsonw_text(&json, "verified",
		   summary->was_verified ? load_verified(summary) : "there is nothing to verify");
	jsonw_u64(&json, "iterations", summary->iterations);

	if (problem[0] == '\0')
		load_json_figures(&json, plan, summary);
	jsonw_u64(&json, "seed", plan->seed);
	load_json_readings(&json, &summary->readings);
	load_json_options(&json, plan);

	return load_line_end(&json, out);
}

/* --- and for people --------------------------------------------------------------------------- */

static int load_text_readings(struct readings *readings, struct buf *out)
{
	double clock[3];
	int rc = 0;

	if (!readings_clock(readings, clock))
		return buf_add_text(out, "no clocks, power or temperature: NVML is not there, or "
					 "the run was too short\n");

	rc = buf_printf(out, "clock %.0f to %.0f MHz, median %.0f", clock[0], clock[2], clock[1]);
	if (rc == 0 && readings->power_count > 0)
		rc = buf_printf(out, "; %.0f W, at most %.0f",
				readings->power_sum / readings->power_count, readings->power_max);

	if (rc == 0 && readings->temperature_max > 0)
		rc = buf_printf(out, "; %u degrees", readings->temperature_max);

	for (unsigned bit = 0; bit < LOAD_THROTTLE_BITS && rc == 0; bit++) {
		const char *name = readings_throttle_name(bit);
		if (readings->throttle_seen >> bit & 1)
			rc = buf_printf(out, "; slowed down: %s", name ? name : "unknown");
	}

	return rc == 0 ? buf_add_text(out, "\n") : rc;
}

static int load_text_histogram(const char *what, const struct load_histogram *histogram,
			       struct buf *out)
{
	int rc = buf_printf(out, "%s: %" PRIu64 ", median %.1f us, p99 %.1f, longest %.1f\n", what,
			    histogram->count, histogram->median_us, histogram->p99_us,
			    histogram->max_us);
	for (unsigned i = 0; i < LOAD_BUCKETS && rc == 0; i++)
		if (histogram->bucket[i])
			rc = buf_printf(out, "  below %10" PRIu64 " us  %" PRIu64 "\n",
					UINT64_C(1) << i, histogram->bucket[i]);

	return rc;
}

static int load_text_paths(const struct load_summary *summary, struct buf *out)
{
	int rc = 0;

	for (uint32_t i = 0; i < summary->path_count && rc == 0; i++) {
		const struct load_path *path = &summary->paths[i];
		double gib = (double)path->bytes_ok / (double)(1 << 30);

		if (path->is_missing)
			rc = buf_printf(out, "%-18s SKIP: the driver has no such call\n",
					path->name);
		else if (path->error == CUDA_OK)
			rc = buf_printf(out, "%-18s %8.2f GiB, as asked for\n", path->name, gib);
		else
			rc = buf_printf(out, "%-18s %8.2f GiB, then %s (%d)\n", path->name, gib,
					path->error_name, path->error);
	}

	return rc;
}

static int load_text_figures(const struct load_plan *plan, const struct load_summary *summary,
			     struct buf *out)
{
	switch (plan->mode) {
	case LOAD_GEMM:
	case LOAD_BURN:
		return buf_printf(out,
				  "%.3f TFLOP/s (%.3f to %.3f in a second; %u seconds count), GPU "
				  "busy %.2f %%\n",
				  summary->rate, summary->rate_min, summary->rate_max,
				  summary->seconds_counted, 100 * summary->gpu_busy);
	case LOAD_SMALL:
	case LOAD_GRAPH:
		return buf_printf(out,
				  "%.1f ns a launch (median of blocks), %" PRIu64
				  " launches timed, %" PRIu64 " kernels\n",
				  summary->launch_ns, summary->launches, summary->kernels);
	case LOAD_LC:
		return buf_printf(out,
				  "%" PRIu64 " requests, %" PRIu64
				  " unfinished; ms from the time each was due: p50 %.3f, p99 %.3f, "
				  "p99.9 %.3f, longest %.3f\n",
				  summary->requests, summary->unfinished, summary->p50_ms,
				  summary->p99_ms, summary->p999_ms, summary->max_ms);
	case LOAD_RULER: {
		int rc = buf_printf(out,
				    "others had the GPU %.2f %% of the time; its timer goes in "
				    "steps of %.0f ns\n",
				    100 * summary->gap_share, summary->timer_step_ns);
		if (rc == 0)
			rc = load_text_histogram("gaps", &summary->gaps, out);

		return rc == 0 ? load_text_histogram("slices", &summary->slices, out) : rc;
	}
	default:
		return load_text_paths(summary, out);
	}
}

int load_report_summary_text(const struct load_plan *plan, struct load_summary *summary,
			     struct buf *out)
{
	int rc =
	    buf_printf(out, "%s, GPU %u, %s%s\n", summary->device.name, summary->device.ordinal,
		       summary->device.uuid,
		       summary->is_simulated ? " (simulated: these figures are a model's)" : "");
	if (rc == 0)
		rc = buf_printf(
		    out, "%s: kernel %s, text %s, compiled in %.1f ms; verified: %s\n",
		    load_mode_to_string(plan->mode), summary->kernel[0] ? summary->kernel : "none",
		    kernel_text_to_string(summary->text), (double)summary->load_ns / 1e6,
		    summary->was_verified ? load_verified(summary) : "there is nothing to verify");

	if (rc == 0)
		rc = load_text_figures(plan, summary, out);

	return rc == 0 ? load_text_readings(&summary->readings, out) : rc;
}
