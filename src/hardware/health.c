/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/health.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
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

static enum xid_class class_of(const struct health_policy *policy, uint32_t xid)
{
	for (uint32_t i = 0; policy && i < policy->override_count; i++) {
		if (policy->override[i].xid == xid)
			return policy->override[i].class_;
	}
	return xid_class_of(xid);
}

uint32_t health_replay_budget(uint32_t pcie_gen, uint32_t pcie_width)
{
	/* GT/s per lane x 1e9 bits x 60 s x 1e-12 x lanes; speeds are in tenths. */
	uint32_t thousandths = pci_speed_of_gen(pcie_gen) * 6 * pcie_width;
	return (thousandths + 999) / 1000;
}

/* ---- what comes in ---- */

static void forget_before_reset(struct health_track *track, uint64_t time_ns)
{
	track->reset_ns = time_ns;
	track->recovery_from_log = 0;
	track->has_ecc_base = false;
	track->has_link_errors = false;
	uint32_t kept = 0;
	for (uint32_t i = 0; i < track->event_count; i++) {
		/* What needs a restart or a person is not cured by a reset. */
		enum xid_class class_ = xid_class_of(track->event[i].xid);
		if (class_ == XID_REBOOT || class_ == XID_INSPECT)
			track->event[kept++] = track->event[i];
	}
	track->event_count = kept;
}

void health_clear(struct health_track *track, uint64_t time_ns)
{
	track->event_count = 0;
	forget_before_reset(track, time_ns);
	track->hot_since_ns = 0;
	track->throttled_ns = track->watched_ns = 0;
}

static bool fell(const struct health_track *track, const struct snapshot_gpu *gpu, uint32_t value)
{
	int64_t before, after;
	return track->sampled && snapshot_get(&track->now, value, &before) &&
	       snapshot_get(gpu, value, &after) && after < before;
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

void health_sample(struct health_track *track, const struct snapshot_gpu *gpu, uint64_t time_ns)
{
	if (fell(track, gpu, SNAPSHOT_ECC_UNCORRECTED_VOLATILE) ||
	    fell(track, gpu, SNAPSHOT_ENERGY))
		forget_before_reset(track, time_ns);
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
}

void health_event(struct health_track *track, const struct health_event *event,
		  const struct health_policy *policy)
{
	track->event_total++;
	enum xid_class class_ = class_of(policy, event->xid);
	if (class_ == XID_IGNORE)
		return;
	if (event->xid == 154 && event->recovery_action != SNAPSHOT_U32_ABSENT)
		track->recovery_from_log = event->recovery_action;
	if (event->xid == 74)
		track->has_link_errors =
		    snapshot_get(&track->now, SNAPSHOT_NVLINK_ERRORS, &track->link_errors_at_74);
	if (track->event_count < HEALTH_EVENT_MAX) {
		track->event[track->event_count++] = *event;
		return;
	}
	/* Full: the least grave gives way, the oldest of those. */
	uint32_t victim = HEALTH_EVENT_MAX;
	enum xid_class least = class_;
	for (uint32_t i = 0; i < HEALTH_EVENT_MAX; i++) {
		enum xid_class other = class_of(policy, track->event[i].xid);
		if (other < least || (other == least && victim == HEALTH_EVENT_MAX)) {
			least = other;
			victim = i;
		}
	}
	if (victim == HEALTH_EVENT_MAX)
		return;
	memmove(&track->event[victim], &track->event[victim + 1],
		(HEALTH_EVENT_MAX - victim - 1) * sizeof(*event));
	track->event[HEALTH_EVENT_MAX - 1] = *event;
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
	*reason = (struct health_reason){.cause = cause, .state = state};
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

static void judge_state(const struct snapshot_gpu *gpu, struct health_verdict *out)
{
	const char *why = gpu->reason[0] ? gpu->reason : gpu_state_to_string(gpu->state);
	switch (gpu->state) {
	case GPU_STATE_OK:
		return;
	case GPU_STATE_LOST:
		add(out, HEALTH_LOST, HEALTH_UNHEALTHY, ADVICE_REBOOT, "%s", why);
		return;
	case GPU_STATE_RESET_REQUIRED:
		add(out, HEALTH_RESET_REQUIRED, HEALTH_UNHEALTHY, ADVICE_RESET, "%s", why);
		return;
	case GPU_STATE_HUNG:
		add(out, HEALTH_HUNG, HEALTH_UNHEALTHY,
		    "see 'dmesg'; end the processes that use it; if it stays, restart the machine",
		    "%s", why);
		return;
	default:
		add(out, HEALTH_DRIVER_ERROR, HEALTH_UNHEALTHY,
		    "see 'dmesg' for lines with NVRM; if it stays, restart the machine", "%s", why);
	}
}

static void judge_recovery(const struct health_track *track, struct health_verdict *out)
{
	int64_t action;
	if (!snapshot_get(&track->now, SNAPSHOT_RECOVERY_ACTION, &action))
		action = track->recovery_from_log;
	if (action <= 0)
		return;
	enum { REBOOT = 2, SYSTEM_REBOOT = 7 };
	bool reboot = action == REBOOT || action == SYSTEM_REBOOT;
	add(out, HEALTH_RECOVERY_ACTION, HEALTH_UNHEALTHY, reboot ? ADVICE_REBOOT : ADVICE_RESET,
	    "the driver asks for recovery: %s", health_recovery_to_string((uint32_t)action));
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

/* An uncorrectable error counts in the volatile counter. When that is 0 the GPU was reset since. */
static bool was_reset_since(const struct health_track *track, const struct health_event *event)
{
	int64_t errors;
	return (event->xid == 48 || event->xid == 95) && track->sampled &&
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
				     const struct health_event *event, enum xid_class class_)
{
	switch (class_) {
	case XID_IGNORE:
	case XID_INFO:
	case XID_APP:
	case XID_CLASS_COUNT:
		return HEALTH_HEALTHY;
	case XID_REBOOT:
	case XID_INSPECT:
		return HEALTH_UNHEALTHY;
	case XID_RESET:
		break;
	}
	if (was_reset_since(track, event))
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

static bool is_judged(const struct health_verdict *out, enum health_cause cause, uint32_t xid)
{
	for (uint32_t i = 0; i < out->reason_count; i++) {
		if (out->reason[i].cause == (uint32_t)cause && out->reason[i].xid == xid)
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

static void judge_events(const struct health_track *track, const struct health_policy *policy,
			 uint64_t now_ns, struct health_verdict *out)
{
	for (uint32_t i = track->event_count; i-- > 0;) { /* newest first */
		const struct health_event *event = &track->event[i];
		enum xid_class class_ = class_of(policy, event->xid);
		enum health_state state = event_state(track, event, class_);
		if (state <= HEALTH_HEALTHY || is_judged(out, HEALTH_XID, event->xid))
			continue;
		const char *name = xid_name(event->xid);
		uint64_t age = now_ns > event->time_ns ? (now_ns - event->time_ns) / SECOND : 0;
		add(out, HEALTH_XID, state, class_advice(class_, state), "XID %u%s%s%s, %llu s ago",
		    event->xid, name[0] ? " (" : "", name, name[0] ? ")" : "",
		    (unsigned long long)age)
		    ->xid = event->xid;
	}
	judge_repeats(track, now_ns, 13, out);
	judge_repeats(track, now_ns, 31, out);
}

static void judge_memory(const struct health_track *track, bool once, struct health_verdict *out)
{
	const struct snapshot_gpu *gpu = &track->now;
	int64_t value;
	if (snapshot_get(gpu, SNAPSHOT_REMAP_FAILURE, &value) && value)
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

void health_judge(const struct health_track *track, const struct health_policy *policy,
		  uint64_t now_ns, bool once, struct health_verdict *out)
{
	*out = (struct health_verdict){.state = HEALTH_HEALTHY};
	if (!track->sampled) {
		add(out, HEALTH_NO_SAMPLE, HEALTH_UNKNOWN, "wait for the first sample",
		    "nothing is known of it yet");
		out->state = HEALTH_UNKNOWN;
	}
	if (track->sampled) {
		judge_state(&track->now, out);
		judge_recovery(track, out);
		judge_memory(track, once, out);
		judge_pcie(track, out);
		judge_heat(track, now_ns, once, out);
		judge_modes(&track->now, out);
	}
	judge_events(track, policy, now_ns, out);
	for (uint32_t i = 0; i < out->reason_count; i++)
		name_bus(track, &out->reason[i]);
	qsort(out->reason, out->reason_count, sizeof(out->reason[0]), compare_reason);
}

const char *health_state_to_string(uint32_t state)
{
	static const char *const names[] = {
	    [HEALTH_UNKNOWN] = "unknown",
	    [HEALTH_HEALTHY] = "healthy",
	    [HEALTH_DEGRADED] = "degraded",
	    [HEALTH_UNHEALTHY] = "unhealthy",
	};
	return state < array_length(names) ? names[state] : "unknown";
}

const char *health_cause_to_string(uint32_t cause)
{
	static const char *const names[HEALTH_CAUSE_COUNT] = {
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
	return cause < HEALTH_CAUSE_COUNT ? names[cause] : "unknown";
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
	return action < array_length(names) ? names[action]
					    : "an action that this build does not know";
}
