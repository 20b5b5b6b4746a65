/* SPDX-License-Identifier: Apache-2.0 */
#include "units/ledger.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/names.h"
#include "base/parse.h"

/* Of what is no slot: leases of the whole device, or of parts, come behind those of slots. */
static const uint32_t LEDGER_NO_SLOT = UINT32_MAX;

struct lease {
	struct ledger_lease shown; /* first; its texts are in `text` */
	uint32_t slot;
	char text[];
};

struct ledger_record {
	struct ledger_record *gpu; /* borrowed; NULL: it is one, or that is not known */
	bool is_described, is_needed;
	uint32_t instance_leases; /* of its MIG devices */
	uint64_t capacity[LEDGER_AMOUNTS], held[LEDGER_AMOUNTS];
	struct lease **leases; /* owned; by slot, then by holder */
	size_t count, room;
	char uuid[];
};

struct ledger {
	struct ledger_record **devices; /* owned; by UUID */
	size_t device_count, device_room;
	size_t count; /* of leases */
};

/* What the texts of a lease mean. */
struct ledger_place {
	struct ledger_record *device; /* NULL: nothing is known of it */
	size_t uuid_length;
	uint32_t slot;
};

const char *ledger_amount_to_string(enum ledger_amount amount)
{
	static const char *const names[LEDGER_AMOUNTS] = {
	    [LEDGER_MEMORY] = "bytes of memory",
	    [LEDGER_TIME] = "slices of time",
	};
	return names_at(names, amount, "?");
}

const char *ledger_form_to_string(enum ledger_form form)
{
	static const char *const names[] = {
	    [LEDGER_ANY] = "any", [LEDGER_WHOLE] = "whole", [LEDGER_SHARE] = "share"};
	return names_at(names, form, "?");
}

struct ledger *ledger_new(void)
{
	return calloc(1, sizeof(struct ledger));
}

static void device_free(struct ledger_record *device)
{
	for (size_t i = 0; i < device->count; i++)
		free(device->leases[i]);
	free(device->leases);
	free(device);
}

struct ledger *ledger_free(struct ledger *ledger)
{
	if (!ledger)
		return NULL;
	for (size_t i = 0; i < ledger->device_count; i++)
		device_free(ledger->devices[i]);
	free(ledger->devices);
	free(ledger);
	return NULL;
}

/* --- devices --------------------------------------------------------------------------------- */

/* Where the device is or would be. */
static size_t device_place(const struct ledger *ledger, const char *uuid, size_t length,
			   struct ledger_record **out)
{
	size_t low = 0, high = ledger->device_count;

	*out = NULL;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		struct ledger_record *device = ledger->devices[middle];
		int order = strncmp(device->uuid, uuid, length);
		if (order == 0 && device->uuid[length] == '\0') {
			*out = device;
			return middle;
		}

		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}

	return low;
}

static struct ledger_record *device_find(const struct ledger *ledger, const char *uuid)
{
	struct ledger_record *device;
	(void)device_place(ledger, uuid, strlen(uuid), &device);
	return device;
}

/* The device, made if need be; NULL: no memory. */
static struct ledger_record *device_get(struct ledger *ledger, const char *uuid, size_t length)
{
	struct ledger_record *device;
	size_t place = device_place(ledger, uuid, length, &device);
	if (device)
		return device;

	if (array_room(&ledger->devices, ledger->device_count, &ledger->device_room, 16) < 0)
		return NULL;

	device = calloc(1, sizeof(*device) + length + 1);
	if (!device)
		return NULL;

	memcpy(device->uuid, uuid, length);
	memmove(&ledger->devices[place + 1], &ledger->devices[place],
		(ledger->device_count - place) * sizeof(struct ledger_record *));
	ledger->devices[place] = device;
	ledger->device_count++;

	return device;
}

/* Forgets the devices that are gone and that nobody holds. */
static void ledger_prune(struct ledger *ledger)
{
	size_t kept = 0;

	for (size_t i = 0; i < ledger->device_count; i++) {
		struct ledger_record *device = ledger->devices[i];
		device->is_needed = device->is_described || device->count > 0;
	}

	for (size_t i = 0; i < ledger->device_count; i++) {
		struct ledger_record *device = ledger->devices[i];
		if (device->is_needed && device->gpu)
			device->gpu->is_needed = true;
	}

	for (size_t i = 0; i < ledger->device_count; i++) {
		if (ledger->devices[i]->is_needed)
			ledger->devices[kept++] = ledger->devices[i];
		else
			device_free(ledger->devices[i]);
	}

	ledger->device_count = kept;
}

int ledger_describe(struct ledger *ledger, const struct ledger_device *devices, size_t count,
		    struct err *err)
{
	for (size_t i = 0; i < count; i++) {
		const char *gpu = devices[i].gpu ? devices[i].gpu : devices[i].uuid;
		if (!device_get(ledger, gpu, strlen(gpu)) ||
		    !device_get(ledger, devices[i].uuid, strlen(devices[i].uuid)))
			return err_set(err, -ENOMEM, "out of memory for %zu devices", count);
	}

	for (size_t i = 0; i < ledger->device_count; i++)
		ledger->devices[i]->is_described = false;

	for (size_t i = 0; i < count; i++) {
		struct ledger_record *device = device_find(ledger, devices[i].uuid);
		device->is_described = true;
		device->gpu = devices[i].gpu ? device_find(ledger, devices[i].gpu) : NULL;
		memcpy(device->capacity, devices[i].capacity, sizeof(device->capacity));
	}

	ledger_prune(ledger);

	for (size_t i = 0; i < ledger->device_count; i++)
		ledger->devices[i]->instance_leases = 0;

	for (size_t i = 0; i < ledger->device_count; i++) {
		struct ledger_record *device = ledger->devices[i];
		if (device->gpu)
			device->gpu->instance_leases += (uint32_t)device->count;
	}

	return 0;
}

/* --- what a lease is of ---------------------------------------------------------------------- */

/* False: the text is no unit. */
static bool unit_place(const struct ledger *ledger, const char *unit, struct ledger_place *out)
{
	const char *colons = strstr(unit, "::");
	uint64_t slot = LEDGER_NO_SLOT;
	if (colons && parse_u64(colons + 2, 0, LEDGER_NO_SLOT - 1, &slot) < 0)
		return false;

	out->uuid_length = colons ? (size_t)(colons - unit) : strlen(unit);
	out->slot = (uint32_t)slot;
	(void)device_place(ledger, unit, out->uuid_length, &out->device);

	return out->uuid_length > 0;
}

static bool lease_is_part(const struct ledger_lease *lease, uint32_t slot)
{
	bool has_amount = false;
	for (int a = 0; a < LEDGER_AMOUNTS; a++)
		has_amount |= lease->amount[a] > 0;
	return slot == LEDGER_NO_SLOT && has_amount;
}

/* Where a lease of the slot by the holder is or would be. */
static size_t lease_place(const struct ledger_record *device, uint32_t slot, const char *holder)
{
	size_t low = 0, high = device->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct lease *lease = device->leases[middle];
		bool is_before = lease->slot < slot ||
				 (lease->slot == slot && strcmp(lease->shown.holder, holder) < 0);
		if (is_before)
			low = middle + 1;
		else
			high = middle;
	}

	return low;
}

/* Neither empty nor anything that would break a line of the file. */
static bool text_is_plain(const char *text, size_t size)
{
	size_t length = strnlen(text, size);
	if (length == 0 || length == size)
		return false;

	for (size_t i = 0; i < length; i++) {
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			return false;
	}

	return true;
}

static int lease_check(const struct ledger *ledger, const struct ledger_lease *lease,
		       struct ledger_place *out, struct err *err)
{
	if (!text_is_plain(lease->unit, POLICY_ID_MAX))
		return err_set(err, -EINVAL, "a lease needs the printable id of a unit");
	if (!unit_place(ledger, lease->unit, out))
		return err_set(err, -EINVAL, "lease of '%s': what is behind '::' is no slot",
			       lease->unit);
	bool is_nameless = lease->door == POLICY_DOOR_QUEUE && *lease->resource == '\0';
	if (!is_nameless && !text_is_plain(lease->resource, CONFIG_NAME_MAX))
		return err_set(err, -EINVAL, "lease of '%s': the resource has no printable name",
			       lease->unit);
	if (!text_is_plain(lease->holder, LEDGER_HOLDER_MAX))
		return err_set(err, -EINVAL, "lease of '%s': the holder has no printable name",
			       lease->unit);
	if ((unsigned)lease->door >= POLICY_DOOR_NONE)
		return err_set(err, -EINVAL, "lease of '%s': no door hands it out", lease->unit);

	return 0;
}

/* --- what excludes what ---------------------------------------------------------------------- */

static const struct lease *device_first(const struct ledger_record *device)
{
	return device && device->count > 0 ? device->leases[0] : NULL;
}

/* A lease of the GPU of a MIG device, or of one of the MIG devices of a GPU. */
static const struct lease *ledger_relative(const struct ledger *ledger,
					   const struct ledger_record *device)
{
	if (device->gpu && device->gpu->count > 0)
		return device_first(device->gpu);

	for (size_t i = 0; device->instance_leases > 0 && i < ledger->device_count; i++) {
		if (ledger->devices[i]->gpu == device && ledger->devices[i]->count > 0)
			return device_first(ledger->devices[i]);
	}

	return NULL;
}

/* Whether two leases of a device exclude each other. */
static bool lease_excludes(const struct lease *other, const struct ledger_lease *lease,
			   uint32_t slot)
{
	if (other->shown.door != lease->door)
		return true;
	if (other->slot != LEDGER_NO_SLOT && slot != LEDGER_NO_SLOT)
		return other->slot == slot;

	bool are_parts = lease_is_part(&other->shown, other->slot) && lease_is_part(lease, slot);
	return !are_parts || strcmp(other->shown.holder, lease->holder) == 0;
}

static int ledger_check_amounts(const struct ledger_record *device,
				const struct ledger_lease *lease, const struct lease *except,
				struct err *err)
{
	static const uint64_t nothing[LEDGER_AMOUNTS];
	const uint64_t *capacity = device ? device->capacity : nothing;
	const uint64_t *held = device ? device->held : nothing;

	for (int a = 0; a < LEDGER_AMOUNTS; a++) {
		uint64_t others = held[a] - (except ? except->shown.amount[a] : 0), sum;
		const char *what = ledger_amount_to_string((enum ledger_amount)a);

		if (lease->amount[a] > capacity[a])
			return err_set(err, -ERANGE,
				       "unit '%s': %" PRIu64 " %s are asked for, the device has "
				       "%" PRIu64,
				       lease->unit, lease->amount[a], what, capacity[a]);

		if (lease->amount[a] > 0 &&
		    (__builtin_add_overflow(others, lease->amount[a], &sum) || sum > capacity[a]))
			return err_set(err, -EBUSY,
				       "unit '%s': %" PRIu64 " %s are asked for, %" PRIu64
				       " of %" PRIu64 " are left",
				       lease->unit, lease->amount[a], what,
				       others < capacity[a] ? capacity[a] - others : 0,
				       capacity[a]);
	}

	return 0;
}

/* `except`: a lease that is to end. */
static int ledger_check(const struct ledger *ledger, const struct ledger_place *place,
			const struct ledger_lease *lease, const struct lease *except,
			struct err *err)
{
	const struct ledger_record *device = place->device;
	const struct lease *other = NULL;

	for (size_t i = 0; device && i < device->count && !other; i++) {
		const struct lease *at = device->leases[i];
		if (at != except && lease_excludes(at, lease, place->slot))
			other = at;
	}

	if (!other && device)
		other = ledger_relative(ledger, device);

	if (other && strcmp(other->shown.unit, lease->unit) == 0)
		return err_set(err, -EBUSY, "unit '%s' is held by %s", lease->unit,
			       other->shown.holder);
	if (other)
		return err_set(err, -EBUSY, "unit '%s' cannot be had while '%s' is held by %s",
			       lease->unit, other->shown.unit, other->shown.holder);

	return ledger_check_amounts(device, lease, except, err);
}

/* --- leases begin and end -------------------------------------------------------------------- */

static struct lease *lease_new(const struct ledger_lease *from, uint32_t slot)
{
	size_t unit = strlen(from->unit) + 1, resource = strlen(from->resource) + 1;
	size_t holder = strlen(from->holder) + 1;
	struct lease *lease = malloc(sizeof(*lease) + unit + resource + holder);
	if (!lease)
		return NULL;

	lease->shown = *from;
	lease->slot = slot;
	lease->shown.unit = memcpy(lease->text, from->unit, unit);
	lease->shown.resource = memcpy(lease->text + unit, from->resource, resource);
	lease->shown.holder = memcpy(lease->text + unit + resource, from->holder, holder);

	return lease;
}

static void ledger_insert(struct ledger *ledger, struct ledger_record *device, struct lease *lease)
{
	size_t place = lease_place(device, lease->slot, lease->shown.holder);

	memmove(&device->leases[place + 1], &device->leases[place],
		(device->count - place) * sizeof(struct lease *));
	device->leases[place] = lease;
	device->count++;
	ledger->count++;

	if (device->gpu)
		device->gpu->instance_leases++;
	for (int a = 0; a < LEDGER_AMOUNTS; a++)
		device->held[a] += lease->shown.amount[a];
}

/* Takes lease number `place` of the device out; it is given to the caller. */
static struct lease *ledger_remove(struct ledger *ledger, struct ledger_record *device,
				   size_t place)
{
	struct lease *lease = device->leases[place];

	device->count--;
	memmove(&device->leases[place], &device->leases[place + 1],
		(device->count - place) * sizeof(struct lease *));
	ledger->count--;

	if (device->gpu)
		device->gpu->instance_leases--;
	for (int a = 0; a < LEDGER_AMOUNTS; a++)
		device->held[a] -= lease->shown.amount[a];

	return lease;
}

int ledger_take(struct ledger *ledger, const struct ledger_lease *lease, struct err *err)
{
	struct ledger_place place;
	int rc = lease_check(ledger, lease, &place, err);
	if (rc == 0)
		rc = ledger_check(ledger, &place, lease, NULL, err);

	if (rc < 0)
		return rc;

	if (ledger->count >= LEDGER_LEASES_MAX)
		return err_set(err, -ENOSPC, "unit '%s': there are %zu leases already", lease->unit,
			       ledger->count);

	struct ledger_record *device = device_get(ledger, lease->unit, place.uuid_length);
	struct lease *copy =
	    device && array_room(&device->leases, device->count, &device->room, 1) == 0
		? lease_new(lease, place.slot)
		: NULL;
	if (!copy)
		return err_set(err, -ENOMEM, "out of memory for the lease of '%s'", lease->unit);

	ledger_insert(ledger, device, copy);
	return 0;
}

int ledger_take_all(struct ledger *ledger, const struct ledger_lease *leases, size_t count,
		    struct err *err)
{
	for (size_t i = 0; i < count; i++) {
		int rc = ledger_take(ledger, &leases[i], err);
		if (rc == 0)
			continue;

		while (i-- > 0)
			(void)ledger_release(ledger, leases[i].unit, leases[i].holder, NULL);

		return rc;
	}

	return 0;
}

/* Number of the holder's lease of a unit, or -ENOENT, -EPERM. */
static int ledger_own(const struct ledger *ledger, const char *unit, const char *holder,
		      struct ledger_place *place, size_t *out, struct err *err)
{
	const struct ledger_lease *held = ledger_find(ledger, unit);
	if (!held || !unit_place(ledger, unit, place))
		return err_set(err, -ENOENT, "unit '%s' is held by nobody", unit);

	size_t at = lease_place(place->device, place->slot, holder);
	const struct lease *lease = at < place->device->count ? place->device->leases[at] : NULL;
	if (!lease || lease->slot != place->slot || strcmp(lease->shown.holder, holder) != 0)
		return err_set(err, -EPERM, "unit '%s' is held by %s, not by %s", unit,
			       held->holder, holder);

	*out = at;
	return 0;
}

int ledger_transfer(struct ledger *ledger, const char *holder, const struct ledger_lease *lease,
		    struct err *err)
{
	struct ledger_place place;
	size_t at;
	int rc = lease_check(ledger, lease, &place, err);
	if (rc == 0)
		rc = ledger_own(ledger, lease->unit, holder, &place, &at, err);
	if (rc == 0)
		rc = ledger_check(ledger, &place, lease, place.device->leases[at], err);

	if (rc < 0)
		return rc;

	struct lease *copy = lease_new(lease, place.slot);
	if (!copy)
		return err_set(err, -ENOMEM, "out of memory for the lease of '%s'", lease->unit);

	free(ledger_remove(ledger, place.device, at));
	ledger_insert(ledger, place.device, copy);
	return 0;
}

int ledger_release(struct ledger *ledger, const char *unit, const char *holder, struct err *err)
{
	struct ledger_place place;
	size_t at;
	int rc = ledger_own(ledger, unit, holder, &place, &at, err);
	if (rc < 0)
		return rc;

	free(ledger_remove(ledger, place.device, at));
	return 0;
}

size_t ledger_release_holder(struct ledger *ledger, const char *holder)
{
	size_t before = ledger->count;

	for (size_t d = 0; d < ledger->device_count; d++) {
		struct ledger_record *device = ledger->devices[d];
		for (size_t i = device->count; i-- > 0;) {
			if (strcmp(device->leases[i]->shown.holder, holder) == 0)
				free(ledger_remove(ledger, device, i));
		}
	}

	return before - ledger->count;
}

/* --- what is held ---------------------------------------------------------------------------- */

static struct lease *ledger_lookup(const struct ledger *ledger, const char *unit)
{
	struct ledger_place place;
	if (!unit_place(ledger, unit, &place) || !place.device)
		return NULL;

	size_t at = lease_place(place.device, place.slot, "");
	struct lease *lease = at < place.device->count ? place.device->leases[at] : NULL;
	return lease && lease->slot == place.slot ? lease : NULL;
}

const struct ledger_lease *ledger_find(const struct ledger *ledger, const char *unit)
{
	const struct lease *lease = ledger_lookup(ledger, unit);
	return lease ? &lease->shown : NULL;
}

void ledger_keep(struct ledger *ledger, const char *unit, uint64_t until_ns)
{
	struct lease *lease = ledger_lookup(ledger, unit);
	if (lease)
		lease->shown.until_ns = until_ns;
}

size_t ledger_count(const struct ledger *ledger)
{
	return ledger->count;
}

const struct ledger_lease *ledger_at(const struct ledger *ledger, size_t index)
{
	for (size_t d = 0; d < ledger->device_count; d++) {
		const struct ledger_record *device = ledger->devices[d];
		if (index < device->count)
			return &device->leases[index]->shown;
		index -= device->count;
	}

	return NULL;
}

uint64_t ledger_held(const struct ledger *ledger, const char *uuid, enum ledger_amount amount)
{
	const struct ledger_record *device = device_find(ledger, uuid);
	return device ? device->held[amount] : 0;
}

const struct ledger_lease *ledger_obstacle(const struct ledger *ledger, const char *uuid,
					   enum policy_door door, enum ledger_form form)
{
	const struct ledger_record *device = device_find(ledger, uuid);

	for (size_t i = 0; device && i < device->count; i++) {
		const struct lease *lease = device->leases[i];
		bool is_whole =
		    lease->slot == LEDGER_NO_SLOT && !lease_is_part(&lease->shown, lease->slot);
		if (lease->shown.door != door || (form == LEDGER_WHOLE && !is_whole) ||
		    (form == LEDGER_SHARE && is_whole))
			return &lease->shown;
	}

	const struct lease *relative = device ? ledger_relative(ledger, device) : NULL;
	return relative ? &relative->shown : NULL;
}
