/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/web/door_web_events.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/vitals.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/names.h"
#include "base/repeats.h"
#include "hardware/gpu.h"
#include "hardware/kmsg.h"
#include "probe/client.h"
#include "web/view.h"

struct web_xid {
	char uuid[SNAPSHOT_TEXT_MAX]; /* "": known by its address alone */
	char bus[SNAPSHOT_SHORT_MAX];
	uint32_t gi, ci, xid;
	uint64_t count;
	int64_t last_unix_ns;
};

struct web_events {
	uint64_t last_id; /* of the newest; event N lies at place (N - 1) % VIEW_EVENT_MAX */
	uint64_t probe_restarts, reloads, reloads_failed;
	bool is_down;		 /* the driver, as was last said */
	struct repeats repeats;	 /* so that no storm of one event drives out all others */
	struct view_event *ring; /* owned; pages of what is not used are not touched */
	uint32_t xid_count;
	struct web_xid *xid; /* owned; VIEW_XID_MAX */
};

int web_events_new(struct web_events **out, struct err *err)
{
	struct web_events *events = calloc(1, sizeof(*events));
	if (events) {
		events->ring = calloc(VIEW_EVENT_MAX, sizeof(*events->ring));
		events->xid = calloc(VIEW_XID_MAX, sizeof(*events->xid));
	}

	if (!events || !events->ring || !events->xid) {
		(void)web_events_free(events);
		return err_set(err, -ENOMEM, "out of memory for events");
	}

	*out = events;
	return 0;
}

struct web_events *web_events_free(struct web_events *events)
{
	if (!events)
		return NULL;
	free(events->ring);
	free(events->xid);
	free(events);
	return NULL;
}

/* --- the ring --------------------------------------------------------------------------------- */

static void copy_text(char *out, size_t size, const char *text)
{
	(void)snprintf(out, size, "%.*s", (int)size - 1, text);
}

/* Whether an event like this may be told once more. */
__attribute__((format(printf, 2, 3))) static bool events_may_tell(struct web_events *events,
								  const char *format, ...)
{
	static const struct clock monotonic = {.fake_ns = NULL};
	char key[128];
	uint64_t left_out;
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(key, sizeof(key), format, arguments);
	va_end(arguments);

	return repeats_may_tell(&events->repeats, key, clock_now_ns(&monotonic), &left_out);
}

static struct view_event *events_add(struct web_events *events, const char *kind,
				     const char *source, enum health_state health)
{
	struct view_event *event = &events->ring[events->last_id % VIEW_EVENT_MAX];
	*event = (struct view_event){.id = ++events->last_id, .unix_ns = clock_unix_ns()};
	event->health = health;
	copy_text(event->kind, sizeof(event->kind), kind);
	copy_text(event->source, sizeof(event->source), source);
	return event;
}

__attribute__((format(printf, 2, 3))) static void event_say(struct view_event *event,
							    const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(event->text, sizeof(event->text), format, arguments);
	va_end(arguments);
}

/* --- XIDs ------------------------------------------------------------------------------------- */

static const char *class_advice(enum xid_class class_)
{
	static const char *const advice[] = {
	    [XID_RESET] = "let what runs on the GPU end, then reset it: 'sluice health' says how",
	    [XID_REBOOT] = "drain the machine and restart it",
	    [XID_INSPECT] = "somebody has to look: see 'sluice health' and the kernel log",
	    [XID_APP] = "look at the job or container that used the GPU",
	};
	return names_at(advice, class_, "");
}

static enum health_state class_health(enum xid_class class_)
{
	return class_ == XID_RESET || class_ == XID_REBOOT || class_ == XID_INSPECT
		   ? HEALTH_UNHEALTHY
		   : HEALTH_HEALTHY;
}

static const struct gpu *find_at(const struct inventory *inventory, const char *bus)
{
	for (uint32_t i = 0; inventory && bus[0] && i < inventory->gpu_count; i++) {
		char own[PCI_TEXT_MAX];
		const struct gpu *gpu = &inventory->gpus[i];
		if (gpu->has_pci && strcmp(pci_address_to_string(&gpu->pci, own), bus) == 0)
			return gpu;
	}
	return NULL;
}

static bool xid_is_of(const struct web_xid *entry, const char *uuid, const char *bus)
{
	if (entry->uuid[0] && uuid[0])
		return strcmp(entry->uuid, uuid) == 0;
	return entry->bus[0] && strcmp(entry->bus, bus) == 0;
}

static struct web_xid *xid_known(const struct web_events *events, const struct web_xid *like)
{
	for (uint32_t i = 0; i < events->xid_count; i++) {
		struct web_xid *entry = &events->xid[i];
		if (entry->xid == like->xid && entry->gi == like->gi && entry->ci == like->ci &&
		    xid_is_of(entry, like->uuid, like->bus))
			return entry;
	}
	return NULL;
}

/* A GPU falls off the bus once: the kernel log tells of it in up to three ways. */
static bool xid_is_told(const struct web_events *events, const struct web_xid *like)
{
	const struct web_xid *known = like->xid == KMSG_XID_FALLEN ? xid_known(events, like) : NULL;
	return known && like->last_unix_ns - known->last_unix_ns < (int64_t)KMSG_DUPLICATE_NS &&
	       known->last_unix_ns - like->last_unix_ns < (int64_t)KMSG_DUPLICATE_NS;
}

/* NULL: there are too many, and none is forgotten: a counter that falls says that all was reset. */
static struct web_xid *xid_find(struct web_events *events, const struct web_xid *like)
{
	struct web_xid *entry = xid_known(events, like);
	if (entry || events->xid_count == VIEW_XID_MAX)
		return entry;
	entry = &events->xid[events->xid_count++];
	*entry = *like;
	return entry;
}

static int64_t event_unix_ns(const struct probe_event *event)
{
	static const struct clock monotonic = {.fake_ns = NULL};
	uint64_t now_ns = clock_now_ns(&monotonic);
	int64_t age_ns =
	    event->time_ns > 0 && event->time_ns < now_ns ? (int64_t)(now_ns - event->time_ns) : 0;
	return clock_unix_ns() - age_ns;
}

static void events_say_xid(struct web_events *events, const struct probe_event *event,
			   const struct web_xid *like, const struct gpu *gpu,
			   const struct vitals *vitals)
{
	const char *source = event->source == PROBE_SOURCE_KMSG ? "kmsg" : "nvml";

	if (!events_may_tell(events, "xid %" PRIu32 " %s %s %" PRIu32 " %" PRIu32, like->xid,
			     like->uuid, like->bus, like->gi, like->ci))
		return;

	enum xid_class class_ = vitals_class(vitals, like->xid);
	const char *name = xid_name(like->xid);
	struct view_event *told = events_add(events, "xid", source, class_health(class_));

	told->unix_ns = like->last_unix_ns;
	told->xid = like->xid;
	copy_text(told->uuid, sizeof(told->uuid), like->uuid);
	copy_text(told->advice, sizeof(told->advice), class_advice(class_));

	char where[64] = "";

	if (like->gi != SNAPSHOT_WHOLE_GPU)
		(void)snprintf(where, sizeof(where), ", GPU instance %" PRIu32, like->gi);

	if (gpu)
		event_say(told, "XID %" PRIu32 "%s%s on GPU %" PRIu32 "%s%s", like->xid,
			  *name ? ": " : "", name, gpu->index, where,
			  event->history ? " (before the agent began)" : "");
	else
		event_say(told, "XID %" PRIu32 "%s%s on the GPU at %s%s%s", like->xid,
			  *name ? ": " : "", name, event->bus[0] ? event->bus : "an unknown place",
			  where, event->history ? " (before the agent began)" : "");
}

static void events_xid(struct web_events *events, const struct probe_event *event,
		       const struct inventory *inventory, const struct vitals *vitals)
{
	struct web_xid like = {.gi = event->gi, .ci = event->ci};
	like.xid = event->data <= UINT32_MAX ? (uint32_t)event->data : XID_UNKNOWN;
	like.last_unix_ns = event_unix_ns(event);
	copy_text(like.bus, sizeof(like.bus), event->bus);
	copy_text(like.uuid, sizeof(like.uuid), event->uuid);

	const struct gpu *gpu = event->uuid[0]
				    ? inventory ? inventory_find_gpu(inventory, event->uuid) : NULL
				    : find_at(inventory, event->bus);
	if (gpu && !like.uuid[0])
		copy_text(like.uuid, sizeof(like.uuid), gpu->uuid);
	if (xid_is_told(events, &like))
		return;

	events_say_xid(events, event, &like, gpu, vitals);
	if (event->history || (!like.uuid[0] && !like.bus[0]))
		return;

	struct web_xid *entry = xid_find(events, &like);
	if (!entry)
		return;

	entry->count++;
	if (like.last_unix_ns > entry->last_unix_ns)
		entry->last_unix_ns = like.last_unix_ns;
}

/* --- what else happens ------------------------------------------------------------------------ */

static void events_gpu(struct web_events *events, const struct probe_event *event,
		       enum health_state health, const char *what)
{
	if (!events_may_tell(events, "gpu %s %s %s", event->uuid, event->bus, what))
		return;
	struct view_event *told = events_add(events, "gpu", "poll", health);
	copy_text(told->uuid, sizeof(told->uuid), event->uuid);
	event_say(told, "GPU %.95s%s%.15s %s", event->uuid, event->uuid[0] ? " at " : "at ",
		  event->bus[0] ? event->bus : "an unknown place", what);
}

static void events_driver(struct web_events *events, bool is_down, const char *text)
{
	if (is_down && events->is_down)
		return; /* said already */
	events->is_down = is_down;
	struct view_event *told =
	    events_add(events, "driver", "poll", is_down ? HEALTH_UNHEALTHY : HEALTH_HEALTHY);
	event_say(told, "%s", text);
}

static void events_hung(struct web_events *events, const struct probe_event *event)
{
	if (!events_may_tell(events, "hung %s", event->uuid))
		return;
	struct view_event *told = events_add(events, "gpu", "poll", HEALTH_UNHEALTHY);
	copy_text(told->uuid, sizeof(told->uuid), event->uuid);
	event_say(told, "the driver hangs: %s", event->text);
}

void web_events_probe(struct web_events *events, const struct probe_event *event,
		      const struct inventory *inventory, const struct vitals *vitals)
{
	if (!events)
		return;

	switch (event->kind) {
	case PROBE_EVENT_XID:
		events_xid(events, event, inventory, vitals);
		break;
	case PROBE_EVENT_GPU_ADDED:
		events_gpu(events, event, HEALTH_HEALTHY, "is here");
		break;
	case PROBE_EVENT_GPU_REMOVED:
		events_gpu(events, event, HEALTH_UNHEALTHY, "is gone");
		break;
	case PROBE_EVENT_GPU_RESET:
		events_gpu(events, event, HEALTH_HEALTHY, "was reset");
		break;
	case PROBE_EVENT_MIG_CHANGED:
		events_gpu(events, event, HEALTH_HEALTHY, "has other MIG instances");
		break;
	case PROBE_EVENT_DRIVER_RESTART:
		events_driver(events, false, "the driver was loaded anew");
		break;
	case PROBE_EVENT_DRIVER_DOWN:
		events_driver(events, true, event->text);
		break;
	case PROBE_EVENT_INVENTORY:
		if (events->is_down)
			events_driver(events, false, "the driver answers");
		break;
	case PROBE_EVENT_HUNG:
		events_hung(events, event);
		break;
	case PROBE_EVENT_REPLACED:
		events->probe_restarts++;

		if (!events_may_tell(events, "probe"))
			break;

		event_say(events_add(events, "driver", "poll", HEALTH_HEALTHY),
			  "a new probe looks at the GPUs: %s", event->text);
		break;
	default:
		break; /* no news, or told by the verdict */
	}
}

/* Of the gravest reason. */
static void find_advice(const struct vitals *vitals, const char *uuid, char *out, size_t size)
{
	struct vitals_view verdict;
	for (size_t i = 0; vitals_at(vitals, i, &verdict); i++) {
		if (strcmp(verdict.uuid, uuid) == 0 && verdict.verdict.reason_count > 0)
			copy_text(out, size, verdict.verdict.reason[0].advice);
	}
}

void web_events_verdict(struct web_events *events, const char *uuid, uint32_t index,
			enum health_state before, enum health_state after, const char *why,
			const struct vitals *vitals)
{
	if (!events)
		return;
	if (!events_may_tell(events, "verdict %" PRIu32 " %s %d", index, uuid, (int)after))
		return;

	struct view_event *told = events_add(events, "health", "poll", after);
	copy_text(told->uuid, sizeof(told->uuid), uuid);
	copy_text(told->advice, sizeof(told->advice), "");
	find_advice(vitals, uuid, told->advice, sizeof(told->advice));
	event_say(told, "GPU %" PRIu32 " is %s (was %s)%s%s", index, health_state_to_string(after),
		  health_state_to_string(before), *why ? ": " : "", why);
}

void web_events_configuration(struct web_events *events, enum reload_note note, const char *text)
{
	if (!events)
		return;

	if (note == RELOAD_APPLIED) {
		events->reloads++;
		event_say(events_add(events, "configuration", "poll", HEALTH_HEALTHY),
			  "the configuration was read again: %.180s", *text ? text : "defaults");
		return;
	}

	events->reloads_failed += note == RELOAD_REFUSED;
	event_say(events_add(events, "configuration", "poll", HEALTH_DEGRADED), "%s%.200s",
		  note == RELOAD_REFUSED ? "the configuration was refused: " : "", text);
}

void web_events_adapter(struct web_events *events, bool is_warning, const char *text)
{
	if (events && events_may_tell(events, "adapter %s", text))
		event_say(events_add(events, "adapter", "poll",
				     is_warning ? HEALTH_UNHEALTHY : HEALTH_HEALTHY),
			  "%.250s", text);
}

/* --- for the view ----------------------------------------------------------------------------- */

uint64_t web_events_generation(const struct web_events *events)
{
	return events ? events->last_id : 0;
}

uint64_t web_events_probe_restarts(const struct web_events *events)
{
	return events ? events->probe_restarts : 0;
}

uint64_t web_events_reloads(const struct web_events *events, uint64_t *out_failed)
{
	*out_failed = events ? events->reloads_failed : 0;
	return events ? events->reloads : 0;
}

static bool fill_place(const struct snapshot *snapshot, const struct web_xid *entry,
		       uint32_t *out_place)
{
	for (uint32_t i = 0; i < snapshot->gpu_count; i++) {
		if (!xid_is_of(entry, snapshot->gpu[i].uuid, snapshot->gpu[i].bus))
			continue;
		*out_place = i;
		return true;
	}
	return false;
}

/* One that was known by its address alone, and is known by its UUID now, is the same. */
static void fill_xid(struct view *view, const struct view_xid *xid)
{
	for (uint32_t i = 0; i < view->xid_count; i++) {
		struct view_xid *known = &view->xid[i];
		if (known->gpu != xid->gpu || known->xid != xid->xid || known->gi != xid->gi ||
		    known->ci != xid->ci)
			continue;

		known->count += xid->count;
		if (xid->last_unix_ns > known->last_unix_ns)
			known->last_unix_ns = xid->last_unix_ns;

		return;
	}

	view->xid[view->xid_count++] = *xid;
}

void web_events_fill(const struct web_events *events, bool all, const struct vitals *vitals,
		     struct view *view)
{
	view->xid_count = 0;
	for (uint32_t i = 0; events && i < events->xid_count; i++) {
		const struct web_xid *entry = &events->xid[i];
		struct view_xid xid = {.gi = entry->gi,
				       .ci = entry->ci,
				       .xid = entry->xid,
				       .count = entry->count,
				       .last_unix_ns = entry->last_unix_ns};

		if (!fill_place(&view->snapshot, entry, &xid.gpu))
			continue;

		copy_text(xid.class_, sizeof(xid.class_),
			  xid_class_to_string(vitals_class(vitals, entry->xid)));
		copy_text(xid.text, sizeof(xid.text), xid_name(entry->xid));
		fill_xid(view, &xid);
	}

	if (!all)
		return;

	uint64_t last = events ? events->last_id : 0;
	uint64_t first = last > VIEW_EVENT_MAX ? last - VIEW_EVENT_MAX : 0;

	view->event_count = (uint32_t)(last - first);
	for (uint64_t id = first; id < last; id++)
		view->event[id - first] = events->ring[id % VIEW_EVENT_MAX];
}
