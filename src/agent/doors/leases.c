/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/doors/leases.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "base/storage.h"
#include "doors/kubelet/podresources.h"
#include "hardware/gpu.h"
#include "policy/policy.h"
#include "units/ledger.h"

struct leases {
	struct leases_options options;
	char path[FILE_PATH_MAX];
	struct ledger *ledger; /* owned */
	/* One write at a time; what changes meanwhile is written after it. */
	struct storage_job job;
	char *text; /* owned; what is being written; NULL: nothing is */
	size_t length;
	struct err failure; /* of the last write; said once */
	bool is_dirty;
	char contested[ERR_TEXT_MAX]; /* what was said last of a unit that two have */
};

/* --- the file -------------------------------------------------------------------------------- */

static int leases_write(void *context)
{
	struct leases *leases = context;
	return file_write_atomic(leases->path, leases->text, leases->length, 0600,
				 &leases->failure);
}

static void leases_save(struct leases *leases);

static void leases_on_written(void *context, int rc)
{
	struct leases *leases = context;
	free(leases->text);
	leases->text = NULL;

	if (rc < 0)
		log_write(leases->options.log, LOG_LEVEL_WARNING, NULL,
			  "who holds which device is not kept: %s", leases->failure.text);
	if (leases->is_dirty)
		leases_save(leases);
}

static void leases_save(struct leases *leases)
{
	struct err err = {0};

	leases->is_dirty = true;
	if (leases->text)
		return;
	if (ledger_format(leases->ledger, POLICY_DOOR_KUBELET, &leases->text, &leases->length,
			  &err) < 0)
		return; /* no memory: with the next change */

	leases->failure = (struct err){0};
	leases->job = (struct storage_job){
	    .work = leases_write, .done = leases_on_written, .context = leases};
	if (storage_submit(leases->options.storage, &leases->job, &err) < 0) {
		free(leases->text);
		leases->text = NULL;
		return;
	}

	leases->is_dirty = false;
}

/* Whatever is wrong with the file: the kubelet tells it all again, but for since when. */
static int leases_load(struct leases *leases, struct err *err)
{
	char aside[FILE_PATH_MAX];
	struct err why = {0};
	int rc = ledger_load(leases->path, &leases->ledger, &why);
	if (rc == 0 || rc == -ENOMEM)
		return rc < 0 ? err_set(err, rc, "%s", why.text) : 0;

	bool is_damaged = rc == -EINVAL || rc == -EFBIG;
	bool is_kept = is_damaged && file_path(aside, NULL, "%s.damaged", leases->path) == 0 &&
		       rename(leases->path, aside) == 0;

	log_write(leases->options.log, LOG_LEVEL_WARNING, NULL,
		  "%s: who holds which device is asked anew%s%s%s", why.text,
		  is_kept ? ", and the file kept as '" : "", is_kept ? aside : "",
		  is_kept ? "'" : "");
	leases->ledger = ledger_new();
	return leases->ledger ? 0 : err_set(err, -ENOMEM, "out of memory for the ledger");
}

int leases_new(const struct leases_options *options, struct leases **out, struct err *err)
{
	struct leases *leases = calloc(1, sizeof(*leases));
	if (!leases)
		return err_set(err, -ENOMEM, "out of memory for the ledger");

	leases->options = *options;
	int rc = file_path(leases->path, err, "%s/leases", options->state_dir);
	if (rc == 0)
		rc = leases_load(leases, err);
	if (rc < 0) {
		(void)leases_free(leases);
		return rc;
	}

	*out = leases;
	return 0;
}

struct leases *leases_free(struct leases *leases)
{
	if (!leases)
		return NULL;
	(void)ledger_free(leases->ledger);
	free(leases->text);
	free(leases);
	return NULL;
}

/* --- what the kubelet says ------------------------------------------------------------------- */

static void leases_holder(const struct podresources_holder *holder, char out[LEDGER_HOLDER_MAX])
{
	(void)snprintf(out, LEDGER_HOLDER_MAX, "%.63s/%.253s/%.63s", holder->name_space,
		       holder->pod, holder->container);
}

/* What the kubelet says of a lease. */
enum listed { LISTED_NOT, LISTED_UNIT /* somebody else has the unit */, LISTED_SAME };

static enum listed leases_look_up(const struct podresources *podresources,
				  const struct ledger_lease *lease)
{
	size_t low = 0, high = podresources ? podresources_count(podresources) : 0, count = high;
	enum listed listed = LISTED_NOT;
	char holder[LEDGER_HOLDER_MAX];

	while (low < high) { /* the first of the unit */
		size_t middle = low + (high - low) / 2;
		if (strcmp(podresources_at(podresources, middle)->unit, lease->unit) < 0)
			low = middle + 1;
		else
			high = middle;
	}

	for (; low < count && listed != LISTED_SAME; low++) {
		const struct podresources_holder *at = podresources_at(podresources, low);
		if (strcmp(at->unit, lease->unit) != 0)
			break;

		leases_holder(at, holder);
		listed =
		    strcmp(at->resource, lease->resource) == 0 && strcmp(holder, lease->holder) == 0
			? LISTED_SAME
			: LISTED_UNIT;
	}

	return listed;
}

static bool leases_end(struct leases *leases, const struct podresources *podresources,
		       uint64_t now_ns)
{
	bool changed = false;

	for (size_t i = ledger_count(leases->ledger); i-- > 0;) {
		const struct ledger_lease *lease = ledger_at(leases->ledger, i);
		if (lease->door != POLICY_DOOR_KUBELET || lease->until_ns > now_ns ||
		    leases_look_up(podresources, lease) != LISTED_NOT)
			continue;

		changed |= ledger_release(leases->ledger, lease->unit, lease->holder, NULL) == 0;
	}

	return changed;
}

static bool leases_is_device(const struct inventory *inventory, const char *unit)
{
	char uuid[GPU_UUID_MAX];
	const char *colons = strstr(unit, "::");
	size_t length = colons ? (size_t)(colons - unit) : strlen(unit);

	if (!inventory || length >= sizeof(uuid))
		return false;

	(void)snprintf(uuid, sizeof(uuid), "%.*s", (int)length, unit);
	return inventory_find_gpu(inventory, uuid) || inventory_find_mig(inventory, uuid);
}

/* True: the ledger has changed. */
static bool leases_enter(struct leases *leases, const struct podresources *podresources,
			 const struct podresources_holder *at, int64_t now_unix_ns, struct err *err)
{
	const struct ledger_lease *held = ledger_find(leases->ledger, at->unit);
	char holder[LEDGER_HOLDER_MAX];
	const struct ledger_lease lease = {.unit = at->unit,
					   .resource = at->resource,
					   .holder = holder,
					   .door = POLICY_DOOR_KUBELET,
					   .since_unix_ns = now_unix_ns};

	leases_holder(at, holder);

	if (held && held->door == POLICY_DOOR_KUBELET &&
	    leases_look_up(podresources, held) != LISTED_UNIT)
		return false;

	int rc = held && held->door == POLICY_DOOR_KUBELET
		     ? ledger_transfer(leases->ledger, held->holder, &lease, err)
		     : ledger_take(leases->ledger, &lease, err);
	if (rc < 0)
		(void)err_wrap(err, "container %s", holder);

	return rc == 0;
}

void leases_follow(struct leases *leases, const struct podresources *podresources,
		   const struct inventory *inventory, int64_t now_unix_ns, uint64_t now_ns)
{
	struct err err = {0};
	bool changed = leases_end(leases, podresources, now_ns);

	for (size_t i = 0; podresources && i < podresources_count(podresources); i++) {
		const struct podresources_holder *at = podresources_at(podresources, i);
		if (leases_is_device(inventory, at->unit))
			changed |= leases_enter(leases, podresources, at, now_unix_ns, &err);
	}

	if (strcmp(err.text, leases->contested) != 0) {
		(void)snprintf(leases->contested, sizeof(leases->contested), "%s", err.text);
		if (*err.text)
			log_write(leases->options.log, LOG_LEVEL_WARNING, NULL,
				  "the kubelet says that a container has what it cannot have: %s",
				  err.text);
	}

	if (!changed)
		return;

	leases_save(leases);
	if (leases->options.changed)
		leases->options.changed(leases->options.context);
}

int leases_start(struct leases *leases, const char *resource, char *const *units, size_t count,
		 int64_t now_unix_ns, uint64_t now_ns, struct err *err)
{
	struct ledger_lease lease = {.resource = resource,
				     .holder = LEASES_STARTING,
				     .door = POLICY_DOOR_KUBELET,
				     .since_unix_ns = now_unix_ns,
				     .until_ns = clock_after_ns(now_ns, LEASES_STARTING_NS)};

	for (size_t i = 0; i < count; i++) {
		const struct ledger_lease *held = ledger_find(leases->ledger, units[i]);
		int rc = 0;

		lease.unit = units[i];
		if (held && held->door == POLICY_DOOR_KUBELET)
			ledger_keep(leases->ledger, units[i], lease.until_ns);
		else
			rc = ledger_take(leases->ledger, &lease, err);

		if (rc == 0)
			continue;

		while (i-- > 0) /* those that a container has stay */
			(void)ledger_release(leases->ledger, units[i], LEASES_STARTING, NULL);

		return rc;
	}

	return 0;
}

/* --- what there is --------------------------------------------------------------------------- */

void leases_describe(struct leases *leases, const struct inventory *inventory)
{
	size_t count = 0;
	if (!inventory)
		return;

	_cleanup_free_ struct ledger_device *devices =
	    calloc(inventory->gpu_count + inventory->mig_count + 1, sizeof(*devices));

	for (uint32_t i = 0; devices && i < inventory->gpu_count; i++)
		devices[count++] = (struct ledger_device){.uuid = inventory->gpus[i].uuid};

	for (uint32_t i = 0; devices && i < inventory->mig_count; i++)
		devices[count++] =
		    (struct ledger_device){.uuid = inventory->migs[i].uuid,
					   .gpu = inventory->gpus[inventory->migs[i].parent].uuid};

	struct err err = {0};
	int rc = devices ? ledger_describe(leases->ledger, devices, count, &err)
			 : err_set(&err, -ENOMEM, "out of memory for the devices");
	if (rc < 0)
		log_write(leases->options.log, LOG_LEVEL_WARNING, NULL, "the ledger: %s", err.text);
}

struct ledger *leases_ledger(const struct leases *leases)
{
	return leases->ledger;
}
