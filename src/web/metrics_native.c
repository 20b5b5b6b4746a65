/* SPDX-License-Identifier: Apache-2.0 */
#include "web/metrics.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/names.h"
#include "base/text.h"
#include "web/metrics_page.h"

enum metric {
#define METRIC(id, kind, type, name, labels, help, source) METRIC_##id,
#include "web/metrics.def"
	METRIC_COUNT,
};

#define GAUGE	"gauge"
#define COUNTER "counter"
static const struct metrics_family families[] = {
#define METRIC(id, kind, type, name, labels, help, source) {name, NULL, type, labels, help, source},
#include "web/metrics.def"
};

enum metric_kind { KIND_NODE, KIND_GPU, KIND_MIG, KIND_HOLDER, KIND_PORT };

struct value_row {
	enum metric metric;
	uint32_t value;
	const char *labels;
	int exponent;
};
static const struct value_row value_rows[] = {
#define VALUE(id, value, labels, exponent) {METRIC_##id, value, labels, exponent},
#include "web/metrics.def"
};

const struct metrics_family *metrics_family(uint32_t index)
{
	return index < METRIC_COUNT ? &families[index] : NULL;
}

/* --- what a GPU's snapshot says --------------------------------------------------------------- */

/* A count, size or share below zero is a driver's mistake, and not known. */
static bool value_is_sound(uint32_t value, int64_t number)
{
	return number >= 0 || value == SNAPSHOT_MARGIN || value == SNAPSHOT_TEMPERATURE ||
	       value == SNAPSHOT_TEMPERATURE_MEMORY;
}

static void native_values(struct metrics_page *page, uint32_t metric)
{
	const struct snapshot *snapshot = &page->view->snapshot;

	for (size_t row = 0; row < array_length(value_rows); row++) {
		const struct value_row *it = &value_rows[row];
		if (it->metric != metric)
			continue;

		for (uint32_t i = 0; i < snapshot->gpu_count; i++) {
			const struct snapshot_gpu *gpu = &snapshot->gpu[i];
			int64_t number;

			if (page->gpu[i].length == 0 || !snapshot_get(gpu, it->value, &number) ||
			    !value_is_sound(it->value, number) ||
			    (it->value == SNAPSHOT_UTIL_GPU && metrics_gpu_has_mig(gpu)))
				continue;

			metrics_out_line(&page->out, page->gpu[i], it->labels, number,
					 it->exponent);
		}
	}
}

static const char *mig_mode(const struct snapshot_gpu *gpu)
{
	int64_t mode;
	if (!snapshot_get(gpu, SNAPSHOT_MIG_MODE, &mode))
		return "";
	return mode == 1 ? "enabled" : "disabled";
}

static void native_gpu_info(struct metrics_page *page)
{
	struct metrics_out *m = &page->out;
	const struct snapshot *snapshot = &page->view->snapshot;
	char cuda[32] = "";

	if (snapshot->cuda_version > 0)
		(void)snprintf(cuda, sizeof(cuda), "%u.%u", snapshot->cuda_version / 1000,
			       snapshot->cuda_version % 1000 / 10);

	for (uint32_t i = 0; i < snapshot->gpu_count; i++) {
		const struct snapshot_gpu *gpu = &snapshot->gpu[i];
		if (page->gpu[i].length == 0)
			continue;

		struct metrics_labels labels = metrics_labels_begin(m);

		metrics_labels_copy(m, page->gpu[i]);
		metrics_labels_some(m, "name", gpu->name);
		metrics_labels_some(m, "pci_bus_id", gpu->bus);

		if (gpu->minor != SNAPSHOT_U32_ABSENT)
			metrics_labels_number(m, "minor", gpu->minor);
		metrics_labels_some(m, "serial", page->view->gpu[i].serial);
		metrics_labels_some(m, "vbios", page->view->gpu[i].vbios);
		metrics_labels_some(m, "driver_version", snapshot->driver_version);
		metrics_labels_some(m, "cuda_version", cuda);
		metrics_labels_some(m, "arch", page->view->gpu[i].architecture);
		metrics_labels_some(m, "mig_mode", mig_mode(gpu));
		metrics_out_line(m, metrics_labels_end(m, labels), NULL, 1, 0);
	}
}

/* One series for each state, 1 for the one that is. */
static void native_states(struct metrics_out *m, struct metrics_labels labels, uint32_t health)
{
	static const char *const extra[] = {
	    [VIEW_UNKNOWN] = "state=\"unknown\"",
	    [VIEW_HEALTHY] = "state=\"healthy\"",
	    [VIEW_DEGRADED] = "state=\"degraded\"",
	    [VIEW_UNHEALTHY] = "state=\"unhealthy\"",
	};

	for (uint32_t state = 0; state < array_length(extra); state++)
		metrics_out_line(m, labels, extra[state], state == health, 0);
}

static const char *health_word(uint32_t health)
{
	static const char *const words[] = {"unknown", "healthy", "degraded", "unhealthy"};
	return health < array_length(words) ? words[health] : words[0];
}

static void native_health_reasons(struct metrics_page *page)
{
	struct metrics_out *m = &page->out;
	struct metrics_seen seen =
	    metrics_page_seen(page, page->view->snapshot.gpu_count * VIEW_REASON_MAX);

	for (uint32_t i = 0; i < page->view->snapshot.gpu_count; i++) {
		const struct view_gpu *gpu = &page->view->gpu[i];

		for (uint32_t k = 0; k < gpu->reason_count && page->gpu[i].length > 0; k++) {
			const struct view_reason *reason = &gpu->reason[k];
			struct metrics_labels labels = metrics_labels_begin(m);

			metrics_labels_copy(m, page->gpu[i]);
			metrics_labels_some(m, "cause", reason->cause);
			metrics_labels_text(m, "state", health_word(reason->health));

			if (reason->xid)
				metrics_labels_number(m, "xid", reason->xid);
			labels = metrics_seen_once(m, &seen, metrics_labels_end(m, labels));
			if (labels.length > 0)
				metrics_out_line(m, labels, NULL, 1, 0);
		}
	}
}

static void native_clocks_event(struct metrics_out *m, struct metrics_labels labels,
				const struct snapshot_gpu *gpu)
{
	/* Bits of nvmlClocksEventReasons. */
	static const struct {
		int64_t bit;
		const char *labels;
	} reasons[] = {
	    {0x1, "reason=\"idle\""},	      {0x2, "reason=\"app_clocks\""},
	    {0x4, "reason=\"sw_power_cap\""}, {0x8, "reason=\"hw_slowdown\""},
	    {0x10, "reason=\"sync_boost\""},  {0x20, "reason=\"sw_thermal\""},
	    {0x40, "reason=\"hw_thermal\""},  {0x80, "reason=\"hw_power_brake\""},
	    {0x100, "reason=\"display\""},
	};
	int64_t bits;
	if (!snapshot_get(gpu, SNAPSHOT_THROTTLE, &bits))
		return;

	for (size_t i = 0; i < array_length(reasons); i++)
		metrics_out_line(m, labels, reasons[i].labels, (bits & reasons[i].bit) != 0, 0);
}

static void native_nvlink_up(struct metrics_out *m, struct metrics_labels labels,
			     const struct snapshot_gpu *gpu)
{
	int64_t there, up;
	if (!snapshot_get(gpu, SNAPSHOT_NVLINK_THERE, &there) ||
	    !snapshot_get(gpu, SNAPSHOT_NVLINK_UP, &up))
		return;

	for (uint32_t link = 0; link < 64; link++) {
		char extra[32];
		if (!((uint64_t)there >> link & 1))
			continue;
		(void)snprintf(extra, sizeof(extra), "link=\"%u\"", link);
		metrics_out_line(m, labels, extra, (uint64_t)up >> link & 1, 0);
	}
}

static void native_throttle(struct metrics_out *m, struct metrics_labels labels,
			    const struct view_gpu *gpu)
{
	for (uint32_t i = 0; i < array_length(gpu->throttle_ns); i++) {
		char extra[48];
		if (gpu->throttle_ns[i] == SNAPSHOT_U64_ABSENT)
			continue;
		(void)snprintf(extra, sizeof(extra), "reason=\"%s\"", view_throttle_to_string(i));
		metrics_out_line_u64(m, labels, extra, gpu->throttle_ns[i], -9);
	}
}

/* Processes that compute there without having been given it. */
static uint32_t native_outside(const struct view *view, uint32_t gpu)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < view->process_count; i++)
		count += view->process[i].gpu == gpu && view_is_outside(view, &view->process[i]);
	return count;
}

/* What of one GPU is not a plain value of its snapshot. */
static void native_gpu_line(struct metrics_page *page, uint32_t metric, uint32_t place)
{
	struct metrics_out *m = &page->out;
	const struct snapshot_gpu *gpu = &page->view->snapshot.gpu[place];
	const struct view_gpu *more = &page->view->gpu[place];
	struct metrics_labels labels = page->gpu[place];

	switch (metric) {
	case METRIC_GPU_HEALTH:
		native_states(m, labels, more->health);
		break;
	case METRIC_GPU_OUTSIDE:
		if (gpu->sampled_ns[SNAPSHOT_FAST] > 0) /* else nobody has looked */
			metrics_out_line(m, labels, NULL, native_outside(page->view, place), 0);
		break;
	case METRIC_GPU_DRAINED:
		if (page->view->node.has_queue)
			metrics_out_line(m, labels, NULL, more->drained, 0);
		break;
	case METRIC_GPU_RESERVED:
		if (page->view->node.has_queue)
			metrics_out_line(m, labels, NULL, more->reserved, 0);
		break;
	case METRIC_GPU_BUSY:
		if (more->busy_ns != SNAPSHOT_U64_ABSENT && !metrics_gpu_has_mig(gpu))
			metrics_out_line_u64(m, labels, NULL, more->busy_ns, -9);
		break;
	case METRIC_GPU_ENERGY:
		if (more->energy_mj != SNAPSHOT_U64_ABSENT)
			metrics_out_line_u64(m, labels, NULL, more->energy_mj, -3);
		break;
	case METRIC_GPU_ENERGY_ESTIMATED:
		if (more->energy_mj != SNAPSHOT_U64_ABSENT)
			metrics_out_line(m, labels, NULL, more->energy_estimated, 0);
		break;
	case METRIC_GPU_CLOCKS_EVENT:
		native_clocks_event(m, labels, gpu);
		break;
	case METRIC_GPU_THROTTLE:
		native_throttle(m, labels, more);
		break;
	case METRIC_GPU_PCIE_REPLAY_LIMIT:
		if (more->replay_limit_per_minute > 0)
			metrics_out_line(m, labels, NULL, more->replay_limit_per_minute, 0);
		break;
	case METRIC_GPU_NVLINK_UP:
		native_nvlink_up(m, labels, gpu);
		break;
	default:
		break;
	}
}

static void native_gpu(struct metrics_page *page, uint32_t metric)
{
	if (metric == METRIC_GPU_HEALTH_REASON) {
		native_health_reasons(page);
		return;
	}

	for (uint32_t i = 0; i < page->view->snapshot.gpu_count; i++) {
		if (page->gpu[i].length > 0)
			native_gpu_line(page, metric, i);
	}
}

static void native_xid(struct metrics_page *page, uint32_t metric)
{
	struct metrics_out *m = &page->out;
	const struct view *view = page->view;
	struct metrics_seen seen = metrics_page_seen(page, view->xid_count);

	for (uint32_t i = 0; i < view->xid_count; i++) {
		const struct view_xid *xid = &view->xid[i];
		if (page->gpu[xid->gpu].length == 0)
			continue;

		struct metrics_labels labels = metrics_labels_begin(m);

		metrics_labels_copy(m, page->gpu[xid->gpu]);
		metrics_labels_number(m, "xid", xid->xid);
		metrics_labels_some(m, "class", xid->class_);

		if (xid->gi != SNAPSHOT_WHOLE_GPU)
			metrics_labels_number(m, "gpu_instance_id", xid->gi);
		if (xid->gi != SNAPSHOT_WHOLE_GPU && xid->ci != SNAPSHOT_WHOLE_GPU)
			metrics_labels_number(m, "compute_instance_id", xid->ci);
		labels = metrics_seen_once(m, &seen, metrics_labels_end(m, labels));
		if (labels.length == 0)
			continue;

		if (metric == METRIC_GPU_XID_ERRORS)
			metrics_out_line_u64(m, labels, NULL, xid->count, 0);
		else if (xid->last_unix_ns > 0)
			metrics_out_line(m, labels, NULL, xid->last_unix_ns / 1000000, -3);
	}
}

/* --- MIG -------------------------------------------------------------------------------------- */

static void native_mig_line(struct metrics_out *m, uint32_t metric, struct metrics_labels labels,
			    const struct snapshot_mig *mig, bool first)
{
	static const char *const engines[] = {"engine=\"gr_engine\"",	 "engine=\"sm\"",
					      "engine=\"sm_occupancy\"", "engine=\"tensor\"",
					      "engine=\"dram\"",	 "engine=\"fp64\"",
					      "engine=\"fp32\"",	 "engine=\"fp16\""};
	if (metric == METRIC_MIG_INFO)
		metrics_out_line(m, labels, NULL, 1, 0);
	if (!first)
		return;
	if (metric == METRIC_MIG_MEMORY_TOTAL && mig->memory_total != SNAPSHOT_U64_ABSENT)
		metrics_out_line_u64(m, labels, NULL, mig->memory_total, 0);

	if (metric == METRIC_MIG_MEMORY_USED && mig->memory_used != SNAPSHOT_U64_ABSENT)
		metrics_out_line_u64(m, labels, NULL, mig->memory_used, 0);

	for (uint32_t i = 0; metric == METRIC_MIG_ACTIVITY && i < array_length(engines); i++) {
		if (mig->activity[i] != SNAPSHOT_U32_ABSENT)
			metrics_out_line(m, labels, engines[i], mig->activity[i], -6);
	}
}

static void native_mig(struct metrics_page *page, uint32_t metric)
{
	const struct snapshot *snapshot = &page->view->snapshot;

	for (uint32_t i = 0; i < snapshot->gpu_count; i++) {
		const struct snapshot_gpu *gpu = &snapshot->gpu[i];
		for (uint32_t k = 0; k < gpu->mig_count; k++) {
			if (page->mig[i][k].length > 0)
				native_mig_line(&page->out, metric, page->mig[i][k], &gpu->mig[k],
						metrics_mig_is_first(gpu, k));
		}
	}
}

/* --- who has and uses the GPUs ---------------------------------------------------------------- */

static const char *mode_word(uint32_t mode)
{
	static const char *const words[] = {"exclusive", "timeslice", "mps", "mig"};
	return names_at(words, mode, "");
}

static struct metrics_labels holder_labels(struct metrics_page *page,
					   const struct view_holder *holder)
{
	struct metrics_out *m = &page->out;
	struct metrics_labels device = holder->mig == SNAPSHOT_U32_ABSENT
					   ? page->gpu[holder->gpu]
					   : page->mig[holder->gpu][holder->mig];

	if (device.length == 0)
		return device;

	struct metrics_labels labels = metrics_labels_begin(m);

	metrics_labels_copy(m, device);
	if (holder->job != 0) {
		metrics_labels_number(m, "job_id", holder->job);
		metrics_labels_some(m, "user", holder->user);
	} else if (holder->pod[0] != '\0') {
		metrics_labels_some(m, "namespace", holder->name_space);
		metrics_labels_some(m, "pod", holder->pod);
		metrics_labels_some(m, "container", holder->container);
	} else {
		metrics_labels_some(m, "container_id", holder->id);
		metrics_labels_some(m, "runtime", holder->runtime);
		metrics_labels_some(m, "user", holder->user);
	}

	metrics_labels_some(m, "resource", holder->resource);
	metrics_labels_some(m, "mode", mode_word(holder->mode));
	return metrics_labels_end(m, labels);
}

static void native_holders_begin(struct metrics_page *page)
{
	const struct view *view = page->view;
	struct metrics_seen seen = metrics_page_seen(page, view->holder_count);
	for (uint32_t i = 0; i < view->holder_count; i++)
		page->holder[i] =
		    metrics_seen_once(&page->out, &seen, holder_labels(page, &view->holder[i]));
}

static void native_holder(struct metrics_page *page, uint32_t metric)
{
	struct metrics_out *m = &page->out;

	if (metric == METRIC_HOLDER_ALLOCATED)
		native_holders_begin(page);

	for (uint32_t i = 0; i < page->view->holder_count; i++) {
		const struct view_holder *holder = &page->view->holder[i];
		struct metrics_labels labels = page->holder[i];
		char slot[16 + TEXT_U64_MAX] = "";

		if (labels.length == 0)
			continue;

		if (metric == METRIC_HOLDER_ALLOCATED && holder->allocated) {
			if (holder->slot != SNAPSHOT_U32_ABSENT)
				(void)snprintf(slot, sizeof(slot), "slot=\"%u\"", holder->slot);
			metrics_out_line(m, labels, slot, 1, 0);
		} else if (metric == METRIC_HOLDER_BUSY && holder->has_busy) {
			metrics_out_line_u64(m, labels, NULL, holder->busy_ns, -9);
		} else if (metric == METRIC_HOLDER_MEMORY &&
			   holder->memory_bytes != SNAPSHOT_U64_ABSENT) {
			metrics_out_line_u64(m, labels, NULL, holder->memory_bytes, 0);
		} else if (metric == METRIC_HOLDER_PROCESSES) {
			metrics_out_line(m, labels, NULL, holder->processes, 0);
		} else if (metric == METRIC_HOLDER_ENERGY &&
			   page->view->settings.container_energy &&
			   holder->energy_mj != SNAPSHOT_U64_ABSENT) {
			metrics_out_line_u64(m, labels, NULL, holder->energy_mj, -3);
		}
	}
}

/* --- what is handed out ----------------------------------------------------------------------- */

static void native_resource(struct metrics_page *page, uint32_t metric)
{
	struct metrics_out *m = &page->out;
	const struct view *view = page->view;
	struct metrics_seen seen = metrics_page_seen(page, view->resource_count);

	for (uint32_t i = 0; i < view->resource_count; i++) {
		const struct view_resource *resource = &view->resource[i];
		uint64_t numbers[] = {resource->units,	   resource->healthy,
				      resource->allocated, resource->allocations,
				      resource->refused,   resource->registered};

		if (metric >= METRIC_RESOURCE_ALLOCATIONS && !resource->is_of_kubelet)
			continue;

		struct metrics_labels labels = metrics_labels_begin(m);

		metrics_labels_text(m, "resource", resource->name);
		labels = metrics_seen_once(m, &seen, metrics_labels_end(m, labels));
		if (labels.length > 0)
			metrics_out_line_u64(m, labels, NULL,
					     numbers[metric - METRIC_RESOURCE_UNITS], 0);
	}
}
_Static_assert(METRIC_RESOURCE_REGISTERED - METRIC_RESOURCE_UNITS == 5, "in the order of numbers");

static void native_port_line(struct metrics_out *m, uint32_t metric, struct metrics_labels labels,
			     const struct view_adapter *port)
{
	if (metric == METRIC_RDMA_UP) {
		if (port->state[0] != '\0')
			metrics_out_line(m, labels, NULL, strcasestr(port->state, "active") != NULL,
					 0);
	} else if (metric == METRIC_RDMA_RATE) {
		if (port->rate_bits > 0)
			metrics_out_line_u64(m, labels, NULL, port->rate_bits / 8, 0);
	} else if (metric == METRIC_RDMA_HEALTH) {
		native_states(m, labels, port->health);
	} else if (metric == METRIC_RDMA_LINK_LAYER) {
		metrics_out_line(m, labels, NULL, 1, 0);
	} else if (port->counters_known >> (metric - METRIC_RDMA_SENT) & 1) {
		metrics_out_line_u64(m, labels, NULL, port->counter[metric - METRIC_RDMA_SENT], 0);
	}
}
_Static_assert(METRIC_RDMA_CNP_HANDLED - METRIC_RDMA_SENT + 1 == VIEW_COUNTER_MAX,
	       "in the order of the counters");

static void native_port(struct metrics_page *page, uint32_t metric)
{
	struct metrics_out *m = &page->out;
	const struct view *view = page->view;
	struct metrics_seen seen = metrics_page_seen(page, view->adapter_count);

	for (uint32_t i = 0; i < view->adapter_count; i++) {
		const struct view_adapter *port = &view->adapter[i];
		struct metrics_labels labels = metrics_labels_begin(m);

		metrics_labels_text(m, "device", port->name);
		metrics_labels_number(m, "port", port->port);
		if (metrics_seen_once(m, &seen, metrics_labels_end(m, labels)).length == 0)
			continue;

		if (metric == METRIC_RDMA_LINK_LAYER) {
			metrics_labels_some(m, "link_layer", port->layer);
			metrics_labels_some(m, "netdev", port->net);
			metrics_labels_some(m, "resource", port->resource);
		}

		native_port_line(m, metric, metrics_labels_end(m, labels), port);
	}
}

/* --- the service ------------------------------------------------------------------------------ */

static const struct metrics_labels none;

static void node_line(struct metrics_page *page, const char *labels, uint64_t number, int exponent)
{
	metrics_out_line_u64(&page->out, none, labels, number, exponent);
}

static void native_gpus(struct metrics_page *page)
{
	const struct snapshot *snapshot = &page->view->snapshot;
	uint32_t count = 0;
	for (uint32_t i = 0; i < snapshot->gpu_count; i++)
		count += snapshot->gpu[i].state != SNAPSHOT_STATE_LOST;
	if (snapshot->taken_ns > 0)
		node_line(page, NULL, count, 0);
}

static void native_build_info(struct metrics_page *page)
{
	struct metrics_out *m = &page->out;
	struct metrics_labels labels = metrics_labels_begin(m);
	metrics_labels_some(m, "version", page->view->node.version);
	metrics_labels_text(m, "simulated", page->view->node.simulated ? "true" : "false");
	metrics_out_line(m, metrics_labels_end(m, labels), NULL, 1, 0);
}

static void native_ready(struct metrics_page *page)
{
	const struct view_node *view_node = &page->view->node;
	node_line(page, "what=\"service\"", view_node->ready, 0);

	for (uint32_t i = 0; i < VIEW_READY_COUNT; i++) {
		char labels[48];
		if (!(view_node->ready_known >> i & 1))
			continue;
		(void)snprintf(labels, sizeof(labels), "what=\"%s\"", view_ready_to_string(i));
		node_line(page, labels, view_node->ready_of >> i & 1, 0);
	}
}

static void native_durations(struct metrics_page *page)
{
	static const char *const classes[] = {"class=\"fast\"", "class=\"medium\"",
					      "class=\"slow\""};
	for (uint32_t i = 0; i < SNAPSHOT_CLASS_COUNT; i++) {
		if (page->view->snapshot.round_ns[i] > 0)
			node_line(page, classes[i], page->view->snapshot.round_ns[i], -9);
	}
}

static void native_nvml_errors(struct metrics_page *page)
{
	struct metrics_out *m = &page->out;
	const struct snapshot *snapshot = &page->view->snapshot;
	struct metrics_seen seen = metrics_page_seen(page, SNAPSHOT_ERROR_MAX);

	for (uint32_t i = 0; i < snapshot->error_count && i < SNAPSHOT_ERROR_MAX; i++) {
		const struct snapshot_error *error = &snapshot->error[i];
		char code[32];

		(void)snprintf(code, sizeof(code), "%d", error->code);
		struct metrics_labels labels = metrics_labels_begin(m);

		metrics_labels_text(m, "call", error->call);
		metrics_labels_text(m, "code", code);
		labels = metrics_seen_once(m, &seen, metrics_labels_end(m, labels));
		if (labels.length > 0)
			metrics_out_line_u64(m, labels, NULL, error->count, 0);
	}
}

static void native_node(struct metrics_page *page, uint32_t metric)
{
	const struct view *view = page->view;
	const struct view_node *node = &view->node;

	switch (metric) {
	case METRIC_GPUS:
		native_gpus(page);
		break;
	case METRIC_BUILD_INFO:
		native_build_info(page);
		break;
	case METRIC_READY:
		native_ready(page);
		break;
	case METRIC_COLLECT_DURATION:
		native_durations(page);
		break;
	case METRIC_NVML_ERRORS:
		native_nvml_errors(page);
		break;
	case METRIC_JOBS:
		if (node->has_queue) {
			node_line(page, "state=\"pending\"", view->jobs_pending, 0);
			node_line(page, "state=\"running\"", view->jobs_running, 0);
		}
		break;
	case METRIC_JOBS_ENDED:
		if (node->has_queue)
			node_line(page, NULL, view->jobs_ended, 0);
		break;
	case METRIC_CONFIG_RELOADS:
		node_line(page, "result=\"ok\"", node->reloads, 0);
		node_line(page, "result=\"failed\"", node->reloads_failed, 0);
		break;
	case METRIC_COLLECT_LAST:
		if (node->sample_unix_ns > 0)
			node_line(page, NULL, (uint64_t)node->sample_unix_ns / 1000000, -3);
		break;
	case METRIC_COLLECT_STALE:
		if (node->sample_ns > 0)
			node_line(page, NULL,
				  page->now_ns > node->sample_ns &&
				      page->now_ns - node->sample_ns > VIEW_STALE_NS,
				  0);
		break;
	case METRIC_PROCESS_START:
		if (node->started_unix_ns > 0)
			node_line(page, NULL, (uint64_t)node->started_unix_ns / 1000000, -3);
		break;
	default:
		break;
	}
}

/* Figures of the service that are one number each. */
static void native_node_number(struct metrics_page *page, uint32_t metric)
{
	const struct view_node *node = &page->view->node;
	const struct {
		enum metric metric;
		bool known;
		uint64_t number;
		int exponent;
	} numbers[] = {
	    {METRIC_UNATTRIBUTED, true, node->unattributed, 0},
	    {METRIC_DROPPED, true, node->holders_dropped, 0},
	    {METRIC_CONFIG_OK, true, node->config_error[0] == '\0', 0},
	    {METRIC_DRIVER_OK, true, page->view->snapshot.driver_ok == 1, 0},
	    {METRIC_PROBE_RESTARTS, true, node->probe_restarts, 0},
	    {METRIC_PROBES_ABANDONED, true, page->view->snapshot.probes_abandoned, 0},
	    {METRIC_KUBELET_OK, node->has_kubelet, node->kubelet_error[0] == '\0', 0},
	    {METRIC_KUBELET_ERRORS, node->has_kubelet, node->pods_errors, 0},
	    {METRIC_KMSG_OVERRUNS, true, node->kmsg_overruns, 0},
	    {METRIC_PROCESS_CPU, node->cpu_ns > 0, node->cpu_ns, -9},
	    {METRIC_PROCESS_RESIDENT, node->rss_bytes > 0, node->rss_bytes, 0},
	    {METRIC_PROCESS_FDS, node->open_fds > 0, node->open_fds, 0},
	};

	for (size_t i = 0; i < array_length(numbers); i++) {
		if (numbers[i].metric == metric && numbers[i].known)
			node_line(page, NULL, numbers[i].number, numbers[i].exponent);
	}
}

/* --- all of it -------------------------------------------------------------------------------- */

static const uint8_t kinds[] = {
#define METRIC(id, kind, type, name, labels, help, source) KIND_##kind,
#include "web/metrics.def"
};

void metrics_native(struct metrics_page *page)
{
	for (uint32_t metric = 0; metric < METRIC_COUNT; metric++) {
		metrics_out_family(&page->out, &families[metric], families[metric].name);

		if (kinds[metric] == KIND_MIG) {
			native_mig(page, metric);
		} else if (kinds[metric] == KIND_HOLDER) {
			native_holder(page, metric);
		} else if (kinds[metric] == KIND_PORT) {
			native_port(page, metric);
		} else if (metric == METRIC_GPU_INFO) {
			native_gpu_info(page);
		} else if (metric == METRIC_GPU_XID_ERRORS || metric == METRIC_GPU_XID_LAST) {
			native_xid(page, metric);
		} else if (metric >= METRIC_RESOURCE_UNITS &&
			   metric <= METRIC_RESOURCE_REGISTERED) {
			native_resource(page, metric);
		} else if (kinds[metric] == KIND_NODE) {
			native_node(page, metric);

			native_node_number(page, metric);
		} else {
			native_gpu(page, metric);
			native_values(page, metric);
		}
	}
}
