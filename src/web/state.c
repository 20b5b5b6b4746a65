/* SPDX-License-Identifier: Apache-2.0 */
#include "web/state.h"

#include <errno.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/jsonw.h"
#include "base/names.h"
#include "base/text.h"
#include "web/busy.h"

#define NS_PER_MS INT64_C(1000000)

enum { STATE_OUTSIDE_MAX = 8 }; /* processes of one GPU */

bool state_age(const struct view *view, uint64_t now_ns, uint64_t *out_ns)
{
	if (view->node.sample_ns == 0)
		return false;
	*out_ns = now_ns > view->node.sample_ns ? now_ns - view->node.sample_ns : 0;
	return true;
}

bool state_is_stale(const struct view *view, uint64_t now_ns)
{
	uint64_t age;

	if (!view->snapshot.driver_ok)
		return false;

	/* Before the first sample the service's own age counts: a driver may hang from the start.
	 */
	if (!state_age(view, now_ns, &age))
		age = now_ns > view->node.started_ns ? now_ns - view->node.started_ns : 0;

	return age > VIEW_STALE_NS;
}

const char *state_health_to_string(uint32_t health)
{
	static const char *const words[] = {"unknown", "healthy", "degraded", "unhealthy"};
	return names_at(words, health, "unknown");
}

/* --- small things ----------------------------------------------------------------------------- */

static void put_unix(struct jsonw *json, const char *key, int64_t unix_ns)
{
	if (unix_ns > 0)
		jsonw_decimal(json, key, unix_ns / NS_PER_MS, 3);
}

static void put_known(struct jsonw *json, const char *key, uint64_t number)
{
	if (number != SNAPSHOT_U64_ABSENT)
		jsonw_u64(json, key, number);
}

static void put_ms(struct jsonw *json, const char *key, uint64_t ns)
{
	jsonw_decimal(json, key, (int64_t)(ns / (uint64_t)NS_PER_MS), 3);
}

static void put_nonzero(struct jsonw *json, const char *key, uint64_t number)
{
	if (number > 0)
		jsonw_u64(json, key, number);
}

/* --- GPUs ------------------------------------------------------------------------------------- */

static void gpu_put_index(struct jsonw *json, const char *name, const struct view *view,
			  uint32_t gpu)
{
	jsonw_u64(json, name, view->snapshot.gpu[gpu].index);
}

static void gpu_put_name(struct jsonw *json, const char *name, const struct view *view,
			 uint32_t gpu)
{
	jsonw_word(json, name, view->snapshot.gpu[gpu].name);
}

static void gpu_put_bus(struct jsonw *json, const char *name, const struct view *view, uint32_t gpu)
{
	jsonw_word(json, name, view->snapshot.gpu[gpu].bus);
}

static void gpu_put_minor(struct jsonw *json, const char *name, const struct view *view,
			  uint32_t gpu)
{
	if (view->snapshot.gpu[gpu].minor != SNAPSHOT_U32_ABSENT)
		jsonw_u64(json, name, view->snapshot.gpu[gpu].minor);
}

static void gpu_put_serial(struct jsonw *json, const char *name, const struct view *view,
			   uint32_t gpu)
{
	jsonw_word(json, name, view->gpu[gpu].serial);
}

static void gpu_put_architecture(struct jsonw *json, const char *name, const struct view *view,
				 uint32_t gpu)
{
	jsonw_word(json, name, view->gpu[gpu].architecture);
}

static void gpu_put_mode(struct jsonw *json, const char *name, const struct view *view,
			 uint32_t gpu)
{
	jsonw_word(json, name, view->gpu[gpu].mode);
}

static void gpu_put_door(struct jsonw *json, const char *name, const struct view *view,
			 uint32_t gpu)
{
	jsonw_word(json, name, view->gpu[gpu].door);
}

static void gpu_put_claim(struct jsonw *json, const char *name, const struct view *view,
			  uint32_t gpu)
{
	jsonw_word(json, name, view->gpu[gpu].claim);
}

static void gpu_put_drained(struct jsonw *json, const char *name, const struct view *view,
			    uint32_t gpu)
{
	if (view->gpu[gpu].drained)
		jsonw_bool(json, name, true);
}

static void gpu_put_reserved(struct jsonw *json, const char *name, const struct view *view,
			     uint32_t gpu)
{
	if (view->gpu[gpu].reserved)
		jsonw_bool(json, name, true);
}

static void gpu_put_numa(struct jsonw *json, const char *name, const struct view *view,
			 uint32_t gpu)
{
	if (view->gpu[gpu].numa_node >= 0)
		jsonw_i64(json, name, view->gpu[gpu].numa_node);
}

static void gpu_put_state(struct jsonw *json, const char *name, const struct view *view,
			  uint32_t gpu)
{
	/* the words of enum gpu_state */
	static const char *const words[] = {"ok", "lost", "reset required", "hung", "error"};
	jsonw_text(json, name, names_at(words, view->snapshot.gpu[gpu].state, "unknown"));
}

static void gpu_put_state_reason(struct jsonw *json, const char *name, const struct view *view,
				 uint32_t gpu)
{
	jsonw_word(json, name, view->snapshot.gpu[gpu].reason);
}

static void gpu_put_health(struct jsonw *json, const char *name, const struct view *view,
			   uint32_t gpu)
{
	jsonw_text(json, name, state_health_to_string(view->gpu[gpu].health));
}

static void gpu_put_reasons(struct jsonw *json, const char *name, const struct view *view,
			    uint32_t gpu)
{
	const struct view_gpu *about = &view->gpu[gpu];

	jsonw_array(json, name);

	for (uint32_t i = 0; i < about->reason_count; i++) {
		const struct view_reason *reason = &about->reason[i];

		jsonw_object(json, NULL);
		jsonw_word(json, "cause", reason->cause);
		jsonw_text(json, "health", state_health_to_string(reason->health));
		put_nonzero(json, "xid", reason->xid);
		jsonw_word(json, "text", reason->text);
		jsonw_word(json, "advice", reason->advice);
		jsonw_end_object(json);
	}

	jsonw_end_array(json);
}

static void gpu_put_throttle(struct jsonw *json, const char *name, const struct view *view,
			     uint32_t gpu)
{
	int64_t bits;
	if (!snapshot_get(&view->snapshot.gpu[gpu], SNAPSHOT_THROTTLE, &bits))
		return;

	jsonw_array(json, name);
	/* That it is idle is no reason to worry, and is told too. */
	for (uint32_t i = 0; snapshot_throttle_to_string(i); i++) {
		if ((bits >> i & 1) != 0)
			jsonw_text(json, NULL, snapshot_throttle_to_string(i));
	}

	jsonw_end_array(json);
}

static void gpu_put_mig(struct jsonw *json, const char *name, const struct view *view, uint32_t gpu)
{
	const struct snapshot_gpu *about = &view->snapshot.gpu[gpu];
	if (about->mig_count == 0)
		return;

	jsonw_array(json, name);

	for (uint32_t i = 0; i < about->mig_count; i++) {
		const struct snapshot_mig *mig = &about->mig[i];

		jsonw_object(json, NULL);
		jsonw_word(json, "uuid", mig->uuid);
		jsonw_word(json, "profile", mig->profile);
		jsonw_u64(json, "gi", mig->gi);
		jsonw_u64(json, "ci", mig->ci);
		put_nonzero(json, "strangers", view_strangers(view, gpu, i));
		put_known(json, "memory_total_bytes", mig->memory_total);
		put_known(json, "memory_used_bytes", mig->memory_used);
		jsonw_object(json, "activity");

		for (uint32_t k = 0; k < SNAPSHOT_ACTIVITY_COUNT; k++) {
			if (mig->activity[k] != SNAPSHOT_U32_ABSENT)
				jsonw_decimal(json, snapshot_activity_to_string(k),
					      mig->activity[k], 6);
		}

		jsonw_end_object(json);
		jsonw_end_object(json);
	}

	jsonw_end_array(json);
}

static void gpu_put_strangers(struct jsonw *json, const char *name, const struct view *view,
			      uint32_t gpu)
{
	jsonw_u64(json, name, view_strangers(view, gpu, SNAPSHOT_U32_ABSENT));
}

/* Who they are, the first few. */
static void gpu_put_outside(struct jsonw *json, const char *name, const struct view *view,
			    uint32_t gpu)
{
	uint32_t count = 0;

	jsonw_array(json, name);

	for (uint32_t i = 0; i < view->process_count && count < STATE_OUTSIDE_MAX; i++) {
		const struct view_process *process = &view->process[i];
		if (process->gpu != gpu || !view_is_outside(view, process))
			continue;

		count++;
		jsonw_object(json, NULL);
		jsonw_u64(json, "pid", process->pid);
		jsonw_word(json, "user", process->user);
		jsonw_word(json, "name", process->name);

		if (process->mig != SNAPSHOT_U32_ABSENT)
			jsonw_text(json, "mig_uuid",
				   view->snapshot.gpu[gpu].mig[process->mig].uuid);
		if (process->holder != SNAPSHOT_U32_ABSENT)
			jsonw_word(json, "id", view->holder[process->holder].id);
		jsonw_end_object(json);
	}

	jsonw_end_array(json);
}

const struct state_gpu_member state_gpu_members[] = {
    {"index", gpu_put_index},	    {"name", gpu_put_name},
    {"bus", gpu_put_bus},	    {"minor", gpu_put_minor},
    {"serial", gpu_put_serial},	    {"architecture", gpu_put_architecture},
    {"mode", gpu_put_mode},	    {"door", gpu_put_door},
    {"drained", gpu_put_drained},   {"reserved", gpu_put_reserved},
    {"claim", gpu_put_claim},	    {"numa", gpu_put_numa},
    {"state", gpu_put_state},	    {"state_reason", gpu_put_state_reason},
    {"health", gpu_put_health},	    {"reasons", gpu_put_reasons},
    {"throttle", gpu_put_throttle}, {"strangers", gpu_put_strangers},
    {"outside", gpu_put_outside},   {"mig", gpu_put_mig},
};
const uint32_t state_gpu_member_count = array_length(state_gpu_members);

static void put_gpus(struct jsonw *json, const struct state_at *at)
{
	const struct view *view = at->view;

	jsonw_array(json, "gpus");

	for (uint32_t i = 0; i < view->snapshot.gpu_count; i++) {
		const struct snapshot_gpu *gpu = &view->snapshot.gpu[i];

		jsonw_object(json, NULL);
		jsonw_text(json, "uuid", gpu->uuid);

		for (uint32_t k = 0; k < state_gpu_member_count; k++)
			state_gpu_members[k].put(json, state_gpu_members[k].name, view, i);

		jsonw_object(json, "values");

		for (uint32_t value = 0; value < SNAPSHOT_VALUE_COUNT; value++) {
			int64_t number;
			if (snapshot_get(gpu, value, &number))
				jsonw_i64(json, snapshot_value_to_string(value), number);
		}

		jsonw_end_object(json);
		jsonw_end_object(json);
	}

	jsonw_end_array(json);
}

/* --- the rest --------------------------------------------------------------------------------- */

static void put_node(struct jsonw *json, const char *name, const struct state_at *at)
{
	const struct view_node *node = &at->view->node;
	const struct snapshot *snapshot = &at->view->snapshot;

	jsonw_object(json, name);
	jsonw_word(json, "host", node->host);
	jsonw_word(json, "version", node->version);
	jsonw_word(json, "driver", snapshot->driver_version);
	jsonw_word(json, "nvml", snapshot->nvml_version);

	if (snapshot->cuda_version > 0) { /* 12040: 12.4 */
		char cuda[32];
		size_t at_dot = text_u64(cuda, snapshot->cuda_version / 1000);
		cuda[at_dot] = '.';
		(void)text_u64(cuda + at_dot + 1, snapshot->cuda_version % 1000 / 10);
		jsonw_text(json, "cuda", cuda);
	}

	if (!snapshot->driver_ok)
		jsonw_word(json, "driver_problem", snapshot->driver_text);
	jsonw_word(json, "problem", node->problem);
	jsonw_word(json, "config_error", node->config_error);
	jsonw_word(json, "kubelet_error", node->kubelet_error);
	jsonw_word(json, "injection", node->injection);
	jsonw_bool(json, "ready", node->ready);
	jsonw_bool(json, "has_queue", node->has_queue);
	jsonw_bool(json, "has_kubelet", node->has_kubelet);
	put_unix(json, "started_unix", node->started_unix_ns);

	if (at->now_ns >= node->started_ns && node->started_ns > 0)
		jsonw_u64(json, "uptime_seconds", (at->now_ns - node->started_ns) / CLOCK_NS_PER_S);
	put_nonzero(json, "boot_unix", node->boot_unix_s);
	jsonw_end_object(json);
}

static void put_place(struct jsonw *json, const struct view *view, uint32_t gpu, uint32_t mig)
{
	const struct snapshot_gpu *about = &view->snapshot.gpu[gpu];
	jsonw_u64(json, "gpu", gpu);
	jsonw_text(json, "uuid", about->uuid);
	if (mig != SNAPSHOT_U32_ABSENT)
		jsonw_text(json, "mig_uuid", about->mig[mig].uuid);
}

static void put_who(struct jsonw *json, const struct view_holder *holder)
{
	jsonw_word(json, "namespace", holder->name_space);
	jsonw_word(json, "pod", holder->pod);
	jsonw_word(json, "container", holder->container);
	put_nonzero(json, "job", holder->job);
	jsonw_word(json, "job_name", holder->job_name);
	jsonw_word(json, "user", holder->user);
	jsonw_word(json, "runtime", holder->runtime);
	jsonw_word(json, "id", holder->id);
}

static void put_holders(struct jsonw *json, const char *name, const struct state_at *at)
{
	static const char *const modes[] = {"exclusive", "timeslice", "mps", "mig"};
	jsonw_array(json, name);

	for (uint32_t i = 0; i < at->view->holder_count; i++) {
		const struct view_holder *holder = &at->view->holder[i];
		uint32_t ratio;

		jsonw_object(json, NULL);
		put_place(json, at->view, holder->gpu, holder->mig);
		jsonw_text(json, "mode", names_at(modes, holder->mode, "unknown"));

		if (holder->slot != SNAPSHOT_U32_ABSENT)
			jsonw_u64(json, "slot", holder->slot);
		jsonw_bool(json, "allocated", holder->allocated);
		put_who(json, holder);
		jsonw_word(json, "resource", holder->resource);
		put_unix(json, "since_unix", holder->since_unix_ns);
		jsonw_u64(json, "processes", holder->processes);

		if (holder->has_busy)
			put_ms(json, "busy_seconds", holder->busy_ns);
		if (at->busy && holder->has_busy && busy_ratio(at->busy, at->view, i, &ratio))
			jsonw_decimal(json, "busy_ratio", ratio, 3);
		put_known(json, "memory_bytes", holder->memory_bytes);
		jsonw_end_object(json);
	}

	jsonw_end_array(json);
}

static void put_jobs(struct jsonw *json, const char *name, const struct state_at *at)
{
	jsonw_array(json, name);

	for (uint32_t i = 0; i < at->view->job_count; i++) {
		const struct view_job *job = &at->view->job[i];

		jsonw_object(json, NULL);
		jsonw_u64(json, "id", job->id);
		jsonw_word(json, "name", job->name);
		jsonw_word(json, "user", job->user);
		jsonw_word(json, "state", job->state);
		jsonw_word(json, "reason", job->reason);
		put_unix(json, "submitted_unix", job->submitted_unix_ns);
		put_unix(json, "started_unix", job->started_unix_ns);
		jsonw_u64(json, "gpus", job->gpus);
		jsonw_end_object(json);
	}

	jsonw_end_array(json);
}

static void put_jobs_pending(struct jsonw *json, const char *name, const struct state_at *at)
{
	jsonw_u64(json, name, at->view->jobs_pending);
}

static void put_jobs_running(struct jsonw *json, const char *name, const struct state_at *at)
{
	jsonw_u64(json, name, at->view->jobs_running);
}

static void put_jobs_ended(struct jsonw *json, const char *name, const struct state_at *at)
{
	jsonw_u64(json, name, at->view->jobs_ended);
}

static void put_adapters(struct jsonw *json, const char *name, const struct state_at *at)
{
	jsonw_array(json, name);

	for (uint32_t i = 0; i < at->view->adapter_count; i++) {
		const struct view_adapter *adapter = &at->view->adapter[i];

		jsonw_object(json, NULL);
		jsonw_word(json, "name", adapter->name);
		jsonw_u64(json, "port", adapter->port);
		jsonw_word(json, "net", adapter->net);
		jsonw_word(json, "resource", adapter->resource);
		jsonw_word(json, "layer", adapter->layer);
		jsonw_word(json, "state", adapter->state);
		jsonw_text(json, "health", state_health_to_string(adapter->health));
		put_nonzero(json, "rate_bits", adapter->rate_bits);
		jsonw_word(json, "reason", adapter->reason);
		jsonw_end_object(json);
	}

	jsonw_end_array(json);
}

static void put_resources(struct jsonw *json, const char *name, const struct state_at *at)
{
	jsonw_array(json, name);

	for (uint32_t i = 0; i < at->view->resource_count; i++) {
		const struct view_resource *resource = &at->view->resource[i];

		jsonw_object(json, NULL);
		jsonw_word(json, "name", resource->name);
		jsonw_u64(json, "units", resource->units);
		jsonw_u64(json, "healthy", resource->healthy);
		jsonw_u64(json, "allocated", resource->allocated);

		if (resource->is_of_kubelet) {
			jsonw_u64(json, "allocations", resource->allocations);
			jsonw_u64(json, "refused", resource->refused);
			jsonw_bool(json, "registered", resource->registered);
		}

		jsonw_end_object(json);
	}

	jsonw_end_array(json);
}

static void put_simulated(struct jsonw *json, const char *name, const struct state_at *at)
{
	jsonw_bool(json, name, at->view->node.simulated || at->view->snapshot.simulated);
}

const struct state_member state_members[] = {
    {"simulated", put_simulated},	{"node", put_node},
    {"holders", put_holders},		{"jobs", put_jobs},
    {"jobs_pending", put_jobs_pending}, {"jobs_running", put_jobs_running},
    {"jobs_ended", put_jobs_ended},	{"adapters", put_adapters},
    {"resources", put_resources},
};
const uint32_t state_member_count = array_length(state_members);

/* --- events and answers ----------------------------------------------------------------------- */

void state_put_event(struct jsonw *json, const char *key, const struct view_event *event)
{
	jsonw_object(json, key);
	jsonw_u64(json, "id", event->id);
	put_unix(json, "time_unix", event->unix_ns);
	jsonw_word(json, "kind", event->kind);
	jsonw_word(json, "source", event->source);
	jsonw_text(json, "health", state_health_to_string(event->health));
	put_nonzero(json, "xid", event->xid);
	jsonw_word(json, "uuid", event->uuid);
	jsonw_word(json, "text", event->text);
	jsonw_word(json, "advice", event->advice);
	jsonw_end_object(json);
}

static void put_events(struct jsonw *json, const struct view *view)
{
	jsonw_array(json, "events");
	for (uint32_t i = 0; i < view->event_count; i++)
		state_put_event(json, NULL, &view->event[i]);
	jsonw_end_array(json);
}

void state_put_head(struct jsonw *json, const struct state_at *at)
{
	uint64_t age;
	jsonw_u64(json, "sequence", at->sequence);
	put_unix(json, "time_unix", at->now_unix_ns);
	if (state_age(at->view, at->now_ns, &age))
		put_ms(json, "age_seconds", age);
	jsonw_bool(json, "stale", state_is_stale(at->view, at->now_ns));
}

static void put_begin(struct jsonw *json, const struct state_at *at, struct buf *out)
{
	jsonw_init(json, out);
	jsonw_object(json, NULL);
	jsonw_u64(json, "schema", STATE_SCHEMA);
	state_put_head(json, at);
}

static int put_end(struct jsonw *json, struct err *err)
{
	jsonw_end_object(json);
	return json->rc < 0 ? err_set(err, json->rc, "no room for the state of the machine") : 0;
}

int state_render(const struct state_at *at, struct buf *out, struct err *err)
{
	struct jsonw json;
	put_begin(&json, at, out);
	for (uint32_t i = 0; i < state_member_count; i++)
		state_members[i].put(&json, state_members[i].name, at);
	put_gpus(&json, at);
	put_events(&json, at->view);
	return put_end(&json, err);
}

int state_render_events(const struct state_at *at, struct buf *out, struct err *err)
{
	struct jsonw json;
	put_begin(&json, at, out);
	put_events(&json, at->view);
	return put_end(&json, err);
}

static void put_process(struct jsonw *json, const struct view *view,
			const struct view_process *process)
{
	static const char *const types[] = {"compute", "graphics", "mps"};
	jsonw_object(json, NULL);
	put_place(json, view, process->gpu, process->mig);
	jsonw_u64(json, "pid", process->pid);

	if (process->uid != SNAPSHOT_U32_ABSENT)
		jsonw_u64(json, "uid", process->uid);
	if (view_is_outside(view, process))
		jsonw_bool(json, "outside", true);
	jsonw_word(json, "name", process->name);
	jsonw_array(json, "type");

	for (uint32_t i = 0; i < array_length(types); i++) {
		if ((process->type >> i & 1) != 0)
			jsonw_text(json, NULL, types[i]);
	}

	jsonw_end_array(json);
	if (process->util_sm != SNAPSHOT_U32_ABSENT)
		jsonw_u64(json, "utilization_sm_percent", process->util_sm);
	put_known(json, "memory_bytes", process->memory_bytes);

	if (process->holder != SNAPSHOT_U32_ABSENT)
		put_who(json, &view->holder[process->holder]);
	jsonw_end_object(json);
}

int state_render_processes(const struct state_at *at, struct buf *out, struct err *err)
{
	const struct view *view = at->view;
	uint64_t total = 0;
	struct jsonw json;

	put_begin(&json, at, out);

	for (uint32_t i = 0; i < view->snapshot.gpu_count; i++)
		total += view->snapshot.gpu[i].process_total;

	/* more than there are entries if there was no room for all */
	jsonw_u64(&json, "processes_seen", total);
	jsonw_u64(&json, "unattributed", view->node.unattributed);
	jsonw_array(&json, "processes");

	for (uint32_t i = 0; i < view->process_count; i++)
		put_process(&json, view, &view->process[i]);

	jsonw_end_array(&json);
	return put_end(&json, err);
}
