/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice bench gpu probe`: what src/bench/gpu/probes.h finds out, printed. */
#include "cmd/proof/bench_gpu.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/jsonw.h"
#include "bench/gpu/load.h"
#include "bench/gpu/probes.h"
#include "bench/result.h"
#include "cmd/options.h"

enum { PROBE_OUTPUT_MAX = 1 << 18, PROBE_VERSION_TEXT = 24 };

struct gpu_probe_options {
	const char *library, *device;
	enum option_output output;
};

static const struct option_row probe_rows[] = {
    BENCH_GPU_DEVICE_ROW(struct gpu_probe_options, device),
    BENCH_GPU_LIBRARY_ROW(struct gpu_probe_options, library),
    OPTION_OUTPUT(struct gpu_probe_options, output),
    {0},
};

static const struct cmd_exit_row probe_exits[] = {
    {LOAD_OK, "it was found out"},
    {LOAD_WRONG, "the GPU stopped working on the way"},
    {LOAD_NO_GPU, "no driver, no GPU, or one without tensor cores"},
    {CMD_EXIT_USAGE, "wrong command line"},
    {CMD_EXIT_CANNOT_WRITE, "what was measured cannot be written"},
    {0, NULL},
};

static const char *const probe_steps[PROBES_STEPS] = {"before", "context", "module", "launch"};

static void probe_json_odd(struct jsonw *json, const struct probes *probes)
{
	jsonw_array(json, "unknown_pointers");

	for (uint32_t i = 0; i < probes->odd_count && i < PROBES_ODD_MAX; i++) {
		jsonw_object(json, NULL);
		jsonw_text(json, "name", probes->odd[i].name);
		jsonw_i64(json, "version", probes->odd[i].version);
		jsonw_u64(json, "flags", probes->odd[i].flags);
		jsonw_end_object(json);
	}

	jsonw_end_array(json);
}

static int probe_json(const struct probes *probes, struct buf *out)
{
	struct jsonw json;
	char version[PROBE_VERSION_TEXT];

	(void)snprintf(version, sizeof(version), "%d.%d", probes->driver_version / 1000,
		       probes->driver_version % 1000 / 10);
	jsonw_init(&json, out);
	jsonw_object(&json, NULL);
	jsonw_bool(&json, "summary", true);
	jsonw_text(&json, "mode", "probe");
	jsonw_text(&json, "device", probes->device.name);
	jsonw_text(&json, "uuid", probes->device.uuid);
	jsonw_text(&json, "cuda", version);
	jsonw_bool(&json, "simulated", probes->is_simulated);
	jsonw_bool(&json, "getprocaddress", probes->has_procaddress);
	jsonw_u64(&json, "pointers_asked", probes->asked);
	jsonw_u64(&json, "pointers_given", probes->given);
	jsonw_u64(&json, "pointers_unknown", probes->odd_count);
	probe_json_odd(&json, probes);
	result_write_number(&json, "event_ns", probes->event_ns);

	if (probes->has_write) {
		result_write_number(&json, "write_ns", probes->write_ns);
		result_write_number(&json, "visible_ns", probes->visible_ns);
	}

	if (probes->has_used) {
		jsonw_object(&json, "used_bytes");
		for (int i = 0; i < PROBES_STEPS; i++)
			jsonw_u64(&json, probe_steps[i], probes->used[i]);
		jsonw_end_object(&json);
	}

	jsonw_end_object(&json);
	return json.rc < 0 ? json.rc : buf_add_text(out, "\n");
}

static int probe_text(const struct probes *probes, struct buf *out)
{
	int rc = buf_printf(out, "%s, GPU %u, %s%s\n", probes->device.name, probes->device.ordinal,
			    probes->device.uuid, probes->is_simulated ? " (simulated)" : "");
	if (rc == 0)
		rc = buf_printf(out,
				"pointers: %u of %u asked for are given; %u are of no exported "
				"form\n",
				probes->given, probes->asked, probes->odd_count);

	for (uint32_t i = 0; i < probes->odd_count && i < PROBES_ODD_MAX && rc == 0; i++)
		rc = buf_printf(out, "  %s, version %d, flags %u\n", probes->odd[i].name,
				probes->odd[i].version, probes->odd[i].flags);

	if (rc == 0)
		rc = buf_printf(out, "cuEventRecord and cuEventQuery: %.0f ns\n", probes->event_ns);

	if (rc == 0)
		rc = probes->has_write
			 ? buf_printf(out,
				      "cuStreamWriteValue32: %.0f ns, seen by the host after "
				      "%.0f ns\n",
				      probes->write_ns, probes->visible_ns)
			 : buf_add_text(out, "cuStreamWriteValue32: not there\n");

	if (rc == 0 && !probes->has_used)
		return buf_add_text(out, "memory in use: not known without NVML\n");

	for (int i = 0; i < PROBES_STEPS && rc == 0; i++)
		rc = buf_printf(out, "memory in use, %-8s %8.1f MiB\n", probe_steps[i],
				(double)probes->used[i] / (1 << 20));

	return rc;
}

static int probe_main(const struct cmd_call *call)
{
	const struct gpu_probe_options *options = call->options;
	struct err err = {0};
	struct probes probes;
	struct buf text _cleanup_buf_;

	buf_init(&text, PROBE_OUTPUT_MAX);
	int rc = probes_run(options->library, options->device, &probes, &err);
	if (rc < 0) /* found: whatever failed then is the GPU's */
		return cmd_fail(call, probes.device.uuid[0] ? LOAD_WRONG : LOAD_NO_GPU, &err);

	rc = options->output == OPTION_OUTPUT_JSON ? probe_json(&probes, &text)
						   : probe_text(&probes, &text);
	(void)fwrite(buf_text(&text), 1, text.length, stdout); /* cmd_main() looks at it */
	return rc < 0 ? CMD_EXIT_FAILED : LOAD_OK;
}

const struct command cmd_bench_gpu_probe = {
    .name = "probe",
    .summary = "What the driver does that sharing a GPU depends on",
    .description = "Whether calls are the same by both ways of finding them, what a stamp of a "
		   "stream's progress costs, and how much memory a process takes by itself.",
    .run = probe_main,
    .options = probe_rows,
    .options_size = sizeof(struct gpu_probe_options),
    .exit_unwritten = CMD_EXIT_CANNOT_WRITE,
    .exits = probe_exits,
};
