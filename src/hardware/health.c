/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/health.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/names.h"
#include "hardware/gpu.h"
#include "hardware/pci.h"

#define SECOND UINT64_C(1000000000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)

enum health_rules {
	HOT_MARGIN_C = 5,
	LOAD_PERCENT = 20, /* below it a link may save power */
	THROTTLE_PERCENT = 10,
	REPEAT_COUNT = 3, /* jobs that failed the same way within a day */
};
#define HOT_NS		  (5 * MINUTE)
#define THROTTLE_MIN_NS	  MINUTE
#define CONTAINED_NS	  MINUTE
#define REPEAT_NS	  (24 * HOUR)
#define REASON_HW_THERMAL 0x40
#define REASON_BRAKE	  0x80

#define BIT(cause) (UINT32_C(1) << (cause))
_Static_assert(HEALTH_CAUSE_COUNT <= 32, "one word says which causes are held");
/* It could not be asked, and may be again without anybody's doing. */
#define HELD_QUERY                                                                                 \
	(BIT(HEALTH_LOST) | BIT(HEALTH_RESET_REQUIRED) | BIT(HEALTH_HUNG) |                        \
	 BIT(HEALTH_DRIVER_ERROR))

uint32_t health_replay_budget(uint32_t pcie_gen, uint32_t pcie_width)
{
	/* GT/s per lane x 1e9 bits x 60 s x 1e-12 x lanes; speeds are in tenths. */
	uint32_t thousandths = pci_speed_of_gen(pcie_gen) * 6 * pcie_width;
	return (thousandths + 999) / 1000;
}

/* ---- what comes in ---- */

/* Keeps the events for which `keep` is true. */
static void keep_events(struct health_track *track, const struct health_policy *policy,
			bool (*keep)(const struct health_event *event, enum xid_class class_))
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < track->event_count; i++) {
		const struct health_event *event = &track->event[i];
		if (keep(event, health_policy_class(policy, event->xid)))
			track->event[kept++] = *event;
	}
	track->event_count = kept;
}

static bool keep_is_grave(const struct health_event *event, enum xid_class class_)
{
	return class_ >= XID_RESET;
}

static bool keep_is_not_over(const struct health_event *event, enum xid_class class_)
{
	/* What needs a restart or a person is not cured by a reset. */
	return class_ != XID_RESET || !event->reset_seen;
}

static bool keep_outlives_reboot(const struct health_event *event, enum xid_class class_)
{
	return class_ != XID_REBOOT;
}

static void forget_counters(struct health_track *track)
{
	track->recovery_from_log = 0;
	track->has_ecc_base = false;
	track->has_link_errors = false;
	track->good_samples = 0;
}

void health_reset(struct health_track *track, const struct health_policy *policy, uint64_t time_ns)
{
	track->reset_ns = time_ns;
	forget_counters(track);
	keep_events(track, policy, keep_is_grave);
	for (uint32_t i = 0; i < track->event_count; i++)
		track->event[i].reset_seen = true;
}

void health_reboot(struct health_track *track, const struct health_policy *policy, uint64_t time_ns)
{
	health_reset(track, policy, time_ns);
	if (!policy || !policy->manual)
		keep_events(track, policy, keep_outlives_reboot);
}

void health_clear(struct health_track *track, uint64_t time_ns)
{
	int64_t failed;
	track->remap_accepted =
	    snapshot_get(&track->now, SNAPSHOT_REMAP_FAILURE, &failed) && failed;
	track->reset_ns = time_ns;
	forget_counters(track);
	track->event_count = 0;
	track->held = 0;
	track->hot_since_ns = 0;
	track->throttled_ns = track->watched_ns = 0;
}

/* Whether a counter fell that only grows while the driver is loaded. The last value that was told
 * counts, however long ago that was: a GPU that is being reset tells nothing. */
static bool note_counter(struct health_counter *counter, const struct snapshot_gpu *gpu,
			 uint32_t value)
{
	int64_t now;
	if (!snapshot_get(gpu, value, &now))
		return false;
	bool fell = counter->is_known && now < counter->value;
	*counter = (struct health_counter){.is_known = true, .value = now};
	return fell;
}

static void note_replays(struct health_track *track, const struct snapshot_gpu *gpu,
			 uint64_t time_ns)
{
	int64_t replays;
	if (!snapshot_get(gpu, SNAPSHOT_PCIE_REPLAYS, &replays))
		return;

	if (!track->has_replays || replays < track->replays_base) {
		track->has_replays = true;
		track->replays_base = replays;
		track->replays_base_ns = time_ns;
		return;
	}

	uint64_t elapsed = time_ns - track->replays_base_ns;
	if (elapsed < MINUTE)
		return;

	track->replays_per_minute =
	    (double)(replays - track->replays_base) * (double)MINUTE / (double)elapsed;
	track->replays_base = replays;
	track->replays_base_ns = time_ns;
}

static bool is_hot(const struct snapshot_gpu *gpu)
{
	int64_t temperature, slowdown;
	return snapshot_get(gpu, SNAPSHOT_TEMPERATURE, &temperature) &&
	       snapshot_get(gpu, SNAPSHOT_TEMPERATURE_SLOWDOWN, &slowdown) && slowdown > 0 &&
	       temperature >= slowdown - HOT_MARGIN_C;
}

static bool is_throttled(const struct snapshot_gpu *gpu)
{
	int64_t reasons;
	return snapshot_get(gpu, SNAPSHOT_THROTTLE, &reasons) &&
	       (reasons & (REASON_HW_THERMAL | REASON_BRAKE)) != 0;
}

static void note_lasting(struct health_track *track, const struct snapshot_gpu *gpu,
			 uint64_t time_ns)
{
	if (!is_hot(gpu))
		track->hot_since_ns = 0;
	else if (track->hot_since_ns == 0)
		track->hot_since_ns = time_ns ? time_ns : 1;

	if (!track->sampled)
		return;

	uint64_t step = time_ns - track->last_ns;
	track->watched_ns += step;
	if (is_throttled(gpu))
		track->throttled_ns += step;
	if (track->watched_ns > 10 * MINUTE) { /* older times count for less */
		track->watched_ns /= 2;
		track->throttled_ns /= 2;
	}
}

static enum health_cause state_cause(uint32_t state)
{
	switch (state) {
	case GPU_STATE_LOST:
		return HEALTH_LOST;
	case GPU_STATE_RESET_REQUIRED:
		return HEALTH_RESET_REQUIRED;
	case GPU_STATE_HUNG:
		return HEALTH_HUNG;
	default:
		return HEALTH_DRIVER_ERROR;
	}
}

/* What the driver asks for, by field 230 or, where there is none, by the last XID 154; 0: nothing.
 */
static int64_t recovery_action(const struct health_track *track)
{
	int64_t action;
	if (!snapshot_get(&track->now, SNAPSHOT_RECOVERY_ACTION, &action))
		action = track->recovery_from_log;
	return action > 0 ? action : 0;
}

static bool remap_failed(const struct health_track *track)
{
	int64_t failed;
	return snapshot_get(&track->now, SNAPSHOT_REMAP_FAILURE, &failed) && failed != 0;
}

static void hold_what_is_bad(struct health_track *track)
{
	const struct snapshot_gpu *gpu = &track->now;
	if (gpu->state != GPU_STATE_OK) {
		track->held &= ~HELD_QUERY; /* the newest is told */
		track->held |= BIT(state_cause(gpu->state));
		(void)snprintf(track->held_text, sizeof(track->held_text), "%s",
			       gpu->reason[0] ? gpu->reason : gpu_state_to_string(gpu->state));
	}

	if (recovery_action(track) > 0) {
		track->held |= BIT(HEALTH_RECOVERY_ACTION);
		track->held_action = (uint32_t)recovery_action(track);
	}

	if (!remap_failed(track))
		track->remap_accepted = gpu->state != GPU_STATE_OK && track->remap_accepted;
	else if (!track->remap_accepted)
		track->held |= BIT(HEALTH_REMAP_FAILURE);
}

static void count_good(struct health_track *track, const struct health_policy *policy,
		       uint64_t time_ns)
{
	if (track->now.state != GPU_STATE_OK || recovery_action(track) > 0) {
		track->good_samples = 0;
		return;
	}

	if (track->good_samples > 0 && policy && time_ns - track->good_ns < policy->poll_ns)
		return;

	track->good_ns = time_ns;
	if (track->good_samples < HEALTH_GOOD_SAMPLES)
		track->good_samples++;
	if (track->good_samples < HEALTH_GOOD_SAMPLES || (policy && policy->manual))
		return;

	track->held &= BIT(HEALTH_REMAP_FAILURE);
	keep_events(track, policy, keep_is_not_over);
}

void health_sample(struct health_track *track, const struct snapshot_gpu *gpu, uint64_t time_ns,
		   const struct health_policy *policy)
{
	bool ecc_fell = note_counter(&track->ecc, gpu, SNAPSHOT_ECC_UNCORRECTED_VOLATILE);
	if (note_counter(&track->energy, gpu, SNAPSHOT_ENERGY) || ecc_fell)
		health_reset(track, policy, time_ns);
	note_replays(track, gpu, time_ns);
	note_lasting(track, gpu, time_ns);

	int64_t errors;
	if (!track->has_ecc_base && snapshot_get(gpu, SNAPSHOT_ECC_UNCORRECTED_VOLATILE, &errors)) {
		track->has_ecc_base = true;
		track->ecc_base = errors;
	}

	if (!track->sampled)
		track->first_ns = time_ns;
	track->sampled = true;
	track->last_ns = time_ns;
	track->now = *gpu;
	hold_what_is_bad(track);
	count_good(track, policy, time_ns);
}

static bool event_is_same(const struct health_event *a, const struct health_event *b)
{
	return a->xid == b->xid && a->gi == b->gi && a->ci == b->ci;
}

/* The event that gives way to `event`: the oldest of the least grave ones; among those as grave as
 * `event` first one that is there again later. HEALTH_EVENT_MAX: none, all are graver. */
static uint32_t event_victim(const struct health_track *track, const struct health_policy *policy,
			     const struct health_event *event)
{
	enum xid_class least = health_policy_class(policy, event->xid);
	const enum xid_class own = least;
	uint32_t victim = HEALTH_EVENT_MAX;

	for (uint32_t i = 0; i < HEALTH_EVENT_MAX; i++) {
		enum xid_class other = health_policy_class(policy, track->event[i].xid);
		if (other < least || (other == least && victim == HEALTH_EVENT_MAX)) {
			least = other;
			victim = i;
		}
	}

	for (uint32_t i = 0; least == own && i < HEALTH_EVENT_MAX; i++) {
		bool again = event_is_same(&track->event[i], event);
		for (uint32_t k = i + 1; k < HEALTH_EVENT_MAX && !again; k++)
			again = event_is_same(&track->event[i], &track->event[k]);
		if (again && health_policy_class(policy, track->event[i].xid) == own)
			return i;
	}

	return victim;
}

void health_event(struct health_track *track, const struct health_event *event,
		  const struct health_policy *policy)
{
	track->event_total++;
	if (event->xid == 154 && event->recovery_action != SNAPSHOT_U32_ABSENT)
		track->recovery_from_log = event->recovery_action;
	if (health_policy_class(policy, event->xid) == XID_IGNORE)
		return;
	if (event->xid == 74)
		track->has_link_errors =
		    snapshot_get(&track->now, SNAPSHOT_NVLINK_ERRORS, &track->link_errors_at_74);

	if (track->event_count == HEALTH_EVENT_MAX) {
		uint32_t victim = event_victim(track, policy, event);
		if (victim == HEALTH_EVENT_MAX)
			return;

		memmove(&track->event[victim], &track->event[victim + 1],
			(HEALTH_EVENT_MAX - victim - 1) * sizeof(*event));
		track->event_count--;
	}

	track->event[track->event_count++] = *event;
}

/* ---- what comes out ---- */

static struct health_reason *add(struct health_verdict *verdict, enum health_cause cause,
				 enum health_state state, const char *advice, const char *format,
				 ...) __attribute__((format(printf, 5, 6)));

static struct health_reason *add(struct health_verdict *verdict, enum health_cause cause,
				 enum health_state state, const char *advice, const char *format,
				 ...)
{
	static struct health_reason nowhere; /* room for what does not fit; never read */

	if (state > verdict->state)
		verdict->state = state;
	if (verdict->reason_count == HEALTH_REASON_MAX)
		return &nowhere;

	struct health_reason *reason = &verdict->reason[verdict->reason_count++];
	*reason = (struct health_reason){
	    .cause = cause, .state = state, .gi = SNAPSHOT_WHOLE_GPU, .ci = SNAPSHOT_WHOLE_GPU};
	(void)snprintf(reason->advice, sizeof(reason->advice), "%s", advice);

	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(reason->text, sizeof(reason->text), format, arguments);
	va_end(arguments);

	return reason;
}

#define ADVICE_RESET "end or move its jobs, then reset it: nvidia-smi --gpu-reset -i <bus>"
#define ADVICE_REBOOT                                                                              \
	"drain this machine and restart it; if it comes back, have the card reseated or replaced"
#define ADVICE_INSPECT "a person has to look: https://docs.nvidia.com/deploy/xid-errors/"
#define ADVICE_APP     "look at the job that ran there; the GPU itself is well"
#define ADVICE_REPLACE "have the GPU replaced; until then give it no work"
#define ADVICE_CLEAR   "have a look; when it is well: sluice health clear"
#define ADVICE_WAIT    "wait: it is well after a few good samples"

static void judge_state(const struct health_track *track, const struct health_policy *policy,
			struct health_verdict *out)
{
	static const char *const advices[] = {
	    [HEALTH_LOST] = ADVICE_REBOOT,
	    [HEALTH_RESET_REQUIRED] = ADVICE_RESET,
	    [HEALTH_HUNG] =
		"see 'dmesg'; end the processes that use it; if it stays, restart the machine",
	    [HEALTH_DRIVER_ERROR] =
		"see 'dmesg' for lines with NVRM; if it stays, restart the machine",
	};

	for (uint32_t cause = HEALTH_LOST; cause <= HEALTH_DRIVER_ERROR; cause++) {
		if (!(track->held & BIT(cause)))
			continue;

		if (track->now.state != GPU_STATE_OK)
			add(out, cause, HEALTH_UNHEALTHY, advices[cause], "%s", track->held_text);
		else if (policy && policy->manual)
			add(out, cause, HEALTH_UNHEALTHY, ADVICE_CLEAR, "it answers again; was: %s",
			    track->held_text);
		else
			add(out, cause, HEALTH_UNHEALTHY, ADVICE_WAIT,
			    "it answers again (%u of %d good samples); was: %s",
			    track->good_samples, HEALTH_GOOD_SAMPLES, track->held_text);
	}
}

static void judge_recovery(const struct health_track *track, const struct health_policy *policy,
			   struct health_verdict *out)
{
	enum { REBOOT = 2, SYSTEM_REBOOT = 7 };
	int64_t action = recovery_action(track);
	bool reboot = action == REBOOT || action == SYSTEM_REBOOT;

	if (action > 0)
		add(out, HEALTH_RECOVERY_ACTION, HEALTH_UNHEALTHY,
		    reboot ? ADVICE_REBOOT : ADVICE_RESET, "the driver asks for recovery: %s",
		    health_recovery_to_string((uint32_t)action));
	else if (track->held & BIT(HEALTH_RECOVERY_ACTION))
		add(out, HEALTH_RECOVERY_ACTION, HEALTH_UNHEALTHY,
		    policy && policy->manual ? ADVICE_CLEAR : ADVICE_WAIT,
		    "the driver asked for recovery, and does not any more: %s",
		    health_recovery_to_string(track->held_action));
}

static bool follows(const struct health_track *track, const struct health_event *event,
		    uint32_t xid)
{
	for (uint32_t i = 0; i < track->event_count; i++) {
		const struct health_event *other = &track->event[i];
		if (other->xid == xid && other->time_ns >= event->time_ns &&
		    other->time_ns - event->time_ns <= CONTAINED_NS)
			return true;
	}
	return false;
}

/* An uncorrectable error counts in the volatile counter. When that is 0 the GPU was reset since: if
 * it was read later. */
static bool was_reset_since(const struct health_track *track, const struct health_event *event,
			    bool once)
{
	int64_t errors;
	return (event->xid == 48 || event->xid == 95) && track->sampled &&
	       (once || event->time_ns < track->first_ns) &&
	       snapshot_get(&track->now, SNAPSHOT_ECC_UNCORRECTED_VOLATILE, &errors) && errors == 0;
}

/* NVLink errors matter only while a link is down or errors go on. */
static bool link_is_well(const struct health_track *track)
{
	int64_t down, errors;
	if (!snapshot_get(&track->now, SNAPSHOT_NVLINK_INACTIVE, &down) || down > 0)
		return false;
	return track->has_link_errors &&
	       snapshot_get(&track->now, SNAPSHOT_NVLINK_ERRORS, &errors) &&
	       errors <= track->link_errors_at_74;
}

static enum health_state event_state(const struct health_track *track,
				     const struct health_policy *policy, bool once,
				     const struct health_event *event)
{
	enum xid_class class_ = health_policy_class(policy, event->xid);
	if (class_ < XID_RESET)
		return HEALTH_HEALTHY;
	if (class_ != XID_RESET || !health_policy_is_table(policy, event->xid))
		return HEALTH_UNHEALTHY;
	if (was_reset_since(track, event, once))
		return HEALTH_HEALTHY;

	if (event->xid == 48 && follows(track, event, 63) && follows(track, event, 94))
		return HEALTH_DEGRADED; /* contained: only the job that met it is lost */
	if (event->xid >= 144 && event->xid <= 150 && event->has_severity && !event->fatal)
		return HEALTH_HEALTHY;
	if (event->xid == 74 && link_is_well(track))
		return HEALTH_DEGRADED;

	return HEALTH_UNHEALTHY;
}

static const char *class_advice(enum xid_class class_, enum health_state state)
{
	if (state == HEALTH_DEGRADED)
		return "let the present job end, then reset the GPU";

	switch (class_) {
	case XID_RESET:
		return ADVICE_RESET;
	case XID_REBOOT:
		return ADVICE_REBOOT;
	case XID_INSPECT:
		return ADVICE_INSPECT;
	default:
		return ADVICE_APP;
	}
}

/* What is asked for: the whole verdict, or that of one device. */
struct scope {
	bool all;
	uint32_t gi, ci; /* of the device; SNAPSHOT_WHOLE_GPU: the GPU */
};

static bool scope_has(const struct scope *scope, const struct health_policy *policy,
		      const struct health_event *event)
{
	if (scope->all || event->gi == SNAPSHOT_WHOLE_GPU ||
	    health_policy_class(policy, event->xid) == XID_REBOOT)
		return true;
	return event->gi == scope->gi &&
	       (event->ci == SNAPSHOT_WHOLE_GPU || event->ci == scope->ci);
}

static bool is_judged(const struct health_verdict *out, const struct health_event *event)
{
	for (uint32_t i = 0; i < out->reason_count; i++) {
		const struct health_reason *reason = &out->reason[i];
		if (reason->cause == HEALTH_XID && reason->xid == event->xid &&
		    reason->gi == event->gi && reason->ci == event->ci)
			return true;
	}
	return false;
}

/* The same failure in the memory accesses of several jobs looks like the GPU's. */
static void judge_repeats(const struct health_track *track, uint64_t now_ns, uint32_t xid,
			  struct health_verdict *out)
{
	uint32_t pids[REPEAT_COUNT], count = 0;

	for (uint32_t i = 0; i < track->event_count && count < REPEAT_COUNT; i++) {
		const struct health_event *event = &track->event[i];
		if (event->xid != xid || event->pid == SNAPSHOT_U32_ABSENT ||
		    now_ns - event->time_ns > REPEAT_NS)
			continue;

		bool seen = false;
		for (uint32_t j = 0; j < count; j++)
			seen |= pids[j] == event->pid;

		if (!seen)
			pids[count++] = event->pid;
	}

	if (count < REPEAT_COUNT)
		return;

	add(out, HEALTH_REPEATED_XID, HEALTH_DEGRADED,
	    "run a memory test on it when it is free; a job's fault would not repeat",
	    "XID %u (%s) in %u different jobs within a day", xid, xid_name(xid), count)
	    ->xid = xid;
}

/* "XID 48 (an uncorrectable memory error) in GPU instance 3, 12 s ago". */
static void judge_event(const struct health_track *track, const struct health_policy *policy,
			uint64_t now_ns, const struct scope *scope, enum health_state state,
			const struct health_event *event, struct health_verdict *out)
{
	enum xid_class class_ = health_policy_class(policy, event->xid);
	bool over = class_ == XID_RESET && event->reset_seen;
	bool manual = policy && policy->manual;
	const char *name = xid_name(event->xid), *advice = class_advice(class_, state);
	char where[64] = "", age[48] = "", since[64] = "";

	if (event->gi != SNAPSHOT_WHOLE_GPU && event->ci != SNAPSHOT_WHOLE_GPU)
		(void)snprintf(where, sizeof(where), " in GPU instance %u, compute instance %u",
			       event->gi, event->ci);
	else if (event->gi != SNAPSHOT_WHOLE_GPU)
		(void)snprintf(where, sizeof(where), " in GPU instance %u", event->gi);

	if (scope->all && now_ns >= event->time_ns)
		(void)snprintf(age, sizeof(age), ", %llu s ago",
			       (unsigned long long)((now_ns - event->time_ns) / SECOND));

	if (over && manual)
		(void)snprintf(since, sizeof(since), "; it was reset since");
	else if (over)
		(void)snprintf(since, sizeof(since), "; it was reset since (%u of %d good samples)",
			       track->good_samples, HEALTH_GOOD_SAMPLES);

	struct health_reason *reason = add(out, HEALTH_XID, state,
					   !over    ? advice
					   : manual ? ADVICE_CLEAR
						    : ADVICE_WAIT,
					   "XID %u%s%s%s%s%s%s", event->xid, name[0] ? " (" : "",
					   name, name[0] ? ")" : "", where, age, since);
	reason->xid = event->xid;
	reason->gi = event->gi;
	reason->ci = event->ci;
}

static void judge_events(const struct health_track *track, const struct health_policy *policy,
			 uint64_t now_ns, bool once, const struct scope *scope,
			 struct health_verdict *out)
{
	for (uint32_t i = track->event_count; i-- > 0;) { /* newest first */
		const struct health_event *event = &track->event[i];
		enum health_state state = event_state(track, policy, once, event);
		if (state > HEALTH_HEALTHY && scope_has(scope, policy, event) &&
		    !is_judged(out, event))
			judge_event(track, policy, now_ns, scope, state, event, out);
	}

	judge_repeats(track, now_ns, 13, out);
	judge_repeats(track, now_ns, 31, out);
}

static void judge_memory(const struct health_track *track, bool once, struct health_verdict *out)
{
	const struct snapshot_gpu *gpu = &track->now;
	int64_t value;

	if (track->held & BIT(HEALTH_REMAP_FAILURE))
		add(out, HEALTH_REMAP_FAILURE, HEALTH_UNHEALTHY, ADVICE_REPLACE,
		    "a memory row could not be remapped");
	if (snapshot_get(gpu, SNAPSHOT_REMAP_PENDING, &value) && value)
		add(out, HEALTH_REMAP_PENDING, HEALTH_DEGRADED, ADVICE_RESET,
		    "a memory row waits to be remapped at the next reset");
	if (snapshot_get(gpu, SNAPSHOT_RETIRED_PENDING, &value) && value)
		add(out, HEALTH_RETIRE_PENDING, HEALTH_DEGRADED, ADVICE_RESET,
		    "a memory page waits to be retired at the next reset");

	int64_t base = once || !track->has_ecc_base ? 0 : track->ecc_base;
	if (snapshot_get(gpu, SNAPSHOT_ECC_UNCORRECTED_VOLATILE, &value) && value > base)
		add(out, HEALTH_ECC_UNCORRECTED, HEALTH_DEGRADED, ADVICE_RESET,
		    "%lld uncorrectable memory error%s since %s", (long long)(value - base),
		    value - base == 1 ? "" : "s",
		    once ? "the driver was loaded" : "it is being watched");
}

static void judge_pcie(const struct health_track *track, struct health_verdict *out)
{
	const struct snapshot_gpu *gpu = &track->now;
	int64_t load, gen, width, gen_max, width_max;
	bool linked = snapshot_get(gpu, SNAPSHOT_PCIE_GEN, &gen) &&
		      snapshot_get(gpu, SNAPSHOT_PCIE_WIDTH, &width);
	if (!linked)
		return;

	if (snapshot_get(gpu, SNAPSHOT_UTIL_GPU, &load) && load >= LOAD_PERCENT &&
	    snapshot_get(gpu, SNAPSHOT_PCIE_GEN_MAX, &gen_max) &&
	    snapshot_get(gpu, SNAPSHOT_PCIE_WIDTH_MAX, &width_max) &&
	    (gen < gen_max || width < width_max))
		add(out, HEALTH_PCIE_LINK, HEALTH_DEGRADED,
		    "have the card reseated; check its slot and riser",
		    "PCIe link runs at generation %lld x%lld under load; it can do generation %lld "
		    "x%lld",
		    (long long)gen, (long long)width, (long long)gen_max, (long long)width_max);

	uint32_t budget =
	    gen > 0 && width > 0 ? health_replay_budget((uint32_t)gen, (uint32_t)width) : 0;
	if (budget > 0 && track->replays_per_minute > budget)
		add(out, HEALTH_PCIE_REPLAYS, HEALTH_DEGRADED,
		    "have the card reseated; check its slot and riser",
		    "%.0f PCIe replays a minute; %u are allowed", track->replays_per_minute,
		    budget);
}

static void judge_heat(const struct health_track *track, uint64_t now_ns, bool once,
		       struct health_verdict *out)
{
	const struct snapshot_gpu *gpu = &track->now;
	int64_t value;

	if (is_hot(gpu) && (once || now_ns - track->hot_since_ns >= HOT_NS)) {
		(void)snapshot_get(gpu, SNAPSHOT_TEMPERATURE, &value); /* is_hot() has looked */
		add(out, HEALTH_TEMPERATURE, HEALTH_DEGRADED,
		    "check fans, airflow and the temperature of the room",
		    "%lld C, within %d C of where it slows down", (long long)value, HOT_MARGIN_C);
	}

	bool lasting = track->watched_ns >= THROTTLE_MIN_NS &&
		       track->throttled_ns * 100 > track->watched_ns * THROTTLE_PERCENT;
	if ((once && is_throttled(gpu)) || lasting) {
		bool brake =
		    snapshot_get(gpu, SNAPSHOT_THROTTLE, &value) && (value & REASON_BRAKE) != 0;
		add(out, HEALTH_THROTTLED, HEALTH_DEGRADED,
		    brake ? "check the power supply" : "check fans and airflow",
		    "the hardware slows it down (%s)", brake ? "power brake" : "heat");
	}
}

static void judge_modes(const struct snapshot_gpu *gpu, struct health_verdict *out)
{
	static const struct {
		uint32_t current, pending;
		const char *name;
	} modes[] = {
	    {SNAPSHOT_ECC_MODE, SNAPSHOT_ECC_MODE_PENDING, "ECC"},
	    {SNAPSHOT_MIG_MODE, SNAPSHOT_MIG_MODE_PENDING, "MIG"},
	};

	for (size_t i = 0; i < array_length(modes); i++) {
		int64_t current, pending;
		if (snapshot_get(gpu, modes[i].current, &current) &&
		    snapshot_get(gpu, modes[i].pending, &pending) && current != pending)
			add(out, HEALTH_MODE_PENDING, HEALTH_DEGRADED, ADVICE_RESET,
			    "%s mode is to be switched %s at the next reset", modes[i].name,
			    pending ? "on" : "off");
	}

	int64_t down;
	if (snapshot_get(gpu, SNAPSHOT_NVLINK_INACTIVE, &down) && down > 0)
		add(out, HEALTH_NVLINK_DOWN, HEALTH_DEGRADED, ADVICE_RESET, "%lld NVLink%s down",
		    (long long)down, down == 1 ? " is" : "s are");
}

/* Puts the GPU's own address where an advice says <bus>. */
static void name_bus(const struct health_track *track, struct health_reason *reason)
{
	char *mark = strstr(reason->advice, "<bus>");
	if (!mark || track->now.bus[0] == '\0')
		return;
	char rest[HEALTH_TEXT_MAX];
	(void)snprintf(rest, sizeof(rest), "%s", mark + strlen("<bus>"));
	size_t left = sizeof(reason->advice) - (size_t)(mark - reason->advice);
	(void)snprintf(mark, left, "%s%s", track->now.bus, rest);
}

static int compare_reason(const void *a, const void *b)
{
	const struct health_reason *left = a, *right = b;
	if (left->state != right->state)
		return left->state > right->state ? -1 : 1;
	return (left->cause > right->cause) - (left->cause < right->cause);
}

static void judge(const struct health_track *track, const struct health_policy *policy,
		  uint64_t now_ns, bool once, const struct scope *scope, struct health_verdict *out)
{
	*out = (struct health_verdict){.state = HEALTH_HEALTHY};
	if (!track->sampled) {
		add(out, HEALTH_NO_SAMPLE, HEALTH_UNKNOWN, "wait for the first sample",
		    "nothing is known of it yet");
		out->state = HEALTH_UNKNOWN;
	}

	judge_state(track, policy, out);
	judge_recovery(track, policy, out);
	judge_memory(track, once, out);

	if (track->sampled) {
		judge_pcie(track, out);
		judge_heat(track, now_ns, once, out);
		judge_modes(&track->now, out);
	}

	judge_events(track, policy, now_ns, once, scope, out);

	for (uint32_t i = 0; i < out->reason_count; i++)
		name_bus(track, &out->reason[i]);

	qsort(out->reason, out->reason_count, sizeof(out->reason[0]), compare_reason);
}

void health_judge(const struct health_track *track, const struct health_policy *policy,
		  uint64_t now_ns, bool once, struct health_verdict *out)
{
	judge(track, policy, now_ns, once, &(struct scope){.all = true}, out);
}

void health_judge_device(const struct health_track *track, const struct health_policy *policy,
			 uint64_t now_ns, uint32_t gi, uint32_t ci, struct health_verdict *out)
{
	judge(track, policy, now_ns, false, &(struct scope){.gi = gi, .ci = ci}, out);
}

const char *health_state_to_string(uint32_t state)
{
	static const char *const names[] = {
	    [HEALTH_UNKNOWN] = "unknown",
	    [HEALTH_HEALTHY] = "healthy",
	    [HEALTH_DEGRADED] = "degraded",
	    [HEALTH_UNHEALTHY] = "unhealthy",
	};
	return names_at(names, state, "unknown");
}

static const char *const cause_names[HEALTH_CAUSE_COUNT] = {
    [HEALTH_NO_SAMPLE] = "no-sample",
    [HEALTH_LOST] = "lost",
    [HEALTH_RESET_REQUIRED] = "reset-required",
    [HEALTH_HUNG] = "hung",
    [HEALTH_DRIVER_ERROR] = "driver-error",
    [HEALTH_RECOVERY_ACTION] = "recovery-action",
    [HEALTH_XID] = "xid",
    [HEALTH_REPEATED_XID] = "repeated-xid",
    [HEALTH_REMAP_FAILURE] = "remap-failure",
    [HEALTH_REMAP_PENDING] = "remap-pending",
    [HEALTH_RETIRE_PENDING] = "retire-pending",
    [HEALTH_ECC_UNCORRECTED] = "ecc-uncorrected",
    [HEALTH_PCIE_LINK] = "pcie-link",
    [HEALTH_PCIE_REPLAYS] = "pcie-replays",
    [HEALTH_TEMPERATURE] = "temperature",
    [HEALTH_THROTTLED] = "throttled",
    [HEALTH_MODE_PENDING] = "mode-pending",
    [HEALTH_NVLINK_DOWN] = "nvlink-down",
};

const char *health_cause_to_string(uint32_t cause)
{
	return names_at(cause_names, cause, "unknown");
}

int health_cause_from_string(const char *word)
{
	return names_find(cause_names, word);
}

const char *health_recovery_to_string(uint32_t action)
{
	static const char *const names[] = {
	    "none",
	    "reset the GPU",
	    "restart the machine",
	    "drain peer traffic",
	    "drain and reset the GPU",
	    "recover the IMEX domain",
	    "reset the bus",
	    "restart the system",
	};
	return names_at(names, action, "an action that this build does not know");
}
