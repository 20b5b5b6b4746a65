/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "doors/queue/schedule/schedule_internal.h"

enum reason_limits {
	REASON_CAUSE_MAX = 256,
	REASON_TAIL = sizeof("; ..."), /* kept free, so that a cut list says that it is cut */
};

/* A text that grows by parts; a part that does not fit ends it with "; ...". */
struct reason {
	char *out; /* JOB_REASON_MAX bytes */
	size_t length;
	bool is_full;
};

static void reason_add(struct reason *reason, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void reason_add(struct reason *reason, const char *format, ...)
{
	if (reason->is_full)
		return;

	size_t room = JOB_REASON_MAX - REASON_TAIL - reason->length;
	va_list arguments;

	va_start(arguments, format);
	int length = vsnprintf(reason->out + reason->length, room, format, arguments);

	va_end(arguments);
	if (length >= 0 && (size_t)length < room) {
		reason->length += (size_t)length;
		return;
	}

	reason->is_full = true;
	(void)snprintf(reason->out + reason->length, REASON_TAIL + 1, "%s",
		       reason->length ? "; ..." : "...");
}

/* Who has the device, or slots of it. */
static void reason_holder(const struct schedule_view *view, size_t place,
			  char out[REASON_CAUSE_MAX])
{
	const struct schedule_device *device = &view->machine->devices[place];
	const char *who = view->who ? view->who(device->unit.uuid, view->context) : NULL;
	const char *guest = device->holder[0] != '\0' ? device->holder : device->guest;
	char given[sizeof("job 18446744073709551615")] = "";

	if (view->given_to[place] != 0)
		(void)snprintf(given, sizeof(given), "job %" PRIu64, view->given_to[place]);
	if (!who || who[0] == '\0')
		who = given;
	if (who[0] == '\0' && guest[0] == '\0')
		who = "in use";
	(void)snprintf(out, REASON_CAUSE_MAX, "%.100s%s%s", who,
		       who[0] != '\0' && guest[0] != '\0' ? " and " : "", guest);
}

/* The first of these claims; NULL: the machine knows none. */
static const struct claim *reason_first_claim(const struct schedule_view *view, uint64_t mask)
{
	const struct claims *claims = view->machine->claims;
	for (size_t i = 0; claims && i < claims->count; i++)
		if (mask >> i & 1)
			return &claims->items[i];
	return NULL;
}

static void reason_claim(const struct schedule_view *view, uint64_t mask,
			 char out[REASON_CAUSE_MAX])
{
	const struct claim *claim = reason_first_claim(view, mask);
	bool is_reserved = claim && claim->kind == CLAIM_RESERVATION;
	(void)snprintf(out, REASON_CAUSE_MAX, "%s%s", is_reserved ? "reserved as " : "drained",
		       is_reserved ? claim->name : "");
}

/* Why the job cannot have this device now; "" if it can. */
static void reason_cause(const struct schedule_view *view, size_t place, char out[REASON_CAUSE_MAX])
{
	const struct schedule_device *device = &view->machine->devices[place];
	const char *user = device->unit.outsider_user;
	char holder[REASON_CAUSE_MAX];

	out[0] = '\0';

	switch (schedule_device_use(device, view->want)) {
	case SCHEDULE_FREE:
		if (view->kept_for[place] != 0)
			(void)snprintf(out, REASON_CAUSE_MAX, "%s for job %" PRIu64,
				       schedule_order_pledged(view->order, view->kept_for[place])
					   ? "reserved"
					   : "kept",
				       view->kept_for[place]);
		break;
	case SCHEDULE_USED:
		reason_holder(view, place, holder);

		if (view->want->shared && !device->used_whole && device->holder[0] == '\0')
			(void)snprintf(out, REASON_CAUSE_MAX, "%u of %u slots free, %.200s",
				       device->slot_count - device->used_count, device->slot_count,
				       holder);
		else
			memcpy(out, holder, sizeof(holder));
		break;
	case SCHEDULE_OUTSIDER:
		(void)snprintf(out, REASON_CAUSE_MAX, "pid %u%s%s", device->unit.outsider,
			       user[0] ? " of " : "", user);
		break;
	case SCHEDULE_CLOSED:
		reason_claim(view, device->claims & view->want->shut, out);
		break;
	case SCHEDULE_SICK:
		(void)snprintf(out, REASON_CAUSE_MAX, "unhealthy, %s", device->unit.reason);
		break;
	}
}

/* "GPU 0" and "GPU 1" in one list: "GPU 0, 1". */
static const char *reason_short_label(const char *label, const char *before)
{
	const char *number = strchr(label, ' ');
	size_t word = number ? (size_t)(number - label) + 1 : 0;
	return word > 0 && strncmp(label, before, word) == 0 ? number + 1 : label;
}

/* The devices from `first` on that have the same cause, as one part of the text. */
static void reason_add_group(struct reason *reason, const struct schedule_view *view, size_t first,
			     const char *cause, bool *said)
{
	const struct schedule_want *want = view->want;
	char labels[PLACE_LABEL_MAX * 8] = "", other[REASON_CAUSE_MAX];
	const char *before = "";
	size_t length = 0;

	for (size_t i = first; i < want->count; i++) {
		if (said[i])
			continue;

		reason_cause(view, want->device[i], other);
		if (strcmp(cause, other) != 0)
			continue;
		if (length > sizeof(labels) - PLACE_LABEL_MAX - 3)
			break; /* the rest is a group of its own */

		said[i] = true;
		const char *label = view->machine->devices[want->device[i]].unit.label;
		length += (size_t)snprintf(labels + length, sizeof(labels) - length, "%s%s",
					   length ? ", " : "", reason_short_label(label, before));
		before = label;
	}

	reason_add(reason, "; %s: %s", labels, cause);
}

void schedule_reason_waiting(const struct schedule_view *view, size_t have,
			     char out[JOB_REASON_MAX])
{
	struct reason reason = {.out = out};
	bool said[PLACE_UNIT_MAX] = {false};

	reason_add(&reason, "%shave %zu, need %zu", view->is_pledged ? "reserved, " : "", have,
		   view->want->needed);

	for (size_t i = 0; i < view->want->count && !reason.is_full; i++) {
		char cause[REASON_CAUSE_MAX];

		if (said[i])
			continue;

		reason_cause(view, view->want->device[i], cause);
		if (cause[0] != '\0')
			reason_add_group(&reason, view, i, cause, said);
	}
}

enum job_reason schedule_reason_closed(const struct schedule_view *view, char out[JOB_REASON_MAX])
{
	const struct schedule_want *want = view->want;
	struct reason reason = {.out = out};
	uint64_t mask = 0;
	bool is_reserved = false;

	for (size_t i = 0; i < want->count; i++) {
		const struct schedule_device *device = &view->machine->devices[want->device[i]];
		if (schedule_device_use(device, want) == SCHEDULE_CLOSED)
			mask |= device->claims & want->shut;
	}

	out[0] = '\0';

	for (size_t i = 0; i < CLAIMS_MAX; i++) {
		const struct claim *claim = reason_first_claim(view, mask & UINT64_C(1) << i);
		char text[CLAIM_TEXT_MAX];

		if (!claim)
			continue;

		is_reserved |= claim->kind == CLAIM_RESERVATION;
		reason_add(&reason, "%s%s", reason.length ? "; " : "", claim_text(claim, text));
	}

	return is_reserved ? JOB_REASON_RESERVED : JOB_REASON_DRAINING;
}

void schedule_reason_outside(const struct schedule_view *view, enum schedule_use use,
			     char out[JOB_REASON_MAX])
{
	const struct schedule_want *want = view->want;
	const struct schedule_device *devices = view->machine->devices;
	struct reason reason = {.out = out};
	size_t others = 0;

	for (size_t i = 0; i < want->count; i++) {
		enum schedule_use is = schedule_device_use(&devices[want->device[i]], want);
		others += is == SCHEDULE_FREE || is == SCHEDULE_USED;
	}

	if (want->needed > 1)
		reason_add(&reason, "need %zu, only %zu can be had", want->needed, others);

	for (size_t i = 0; i < want->count; i++) {
		const struct place_unit *unit = &devices[want->device[i]].unit;

		if (schedule_device_use(&devices[want->device[i]], want) != use)
			continue;

		const char *semicolon = reason.length ? "; " : "", *user = unit->outsider_user;

		if (use == SCHEDULE_SICK)
			reason_add(&reason, "%s%s, %s", semicolon, unit->label, unit->reason);
		else
			reason_add(&reason, "%s%s, pid %u%s%s", semicolon, unit->label,
				   unit->outsider, user[0] ? ", " : "", user);
	}
}
