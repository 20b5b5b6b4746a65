/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/doors/leases.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "base/storage.h"
#include "doors/kubelet/podresources.h"
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
	if (ledger_format(leases->ledger, &leases->text, &leases->length, &err) < 0)
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

static bool leases_is_listed(const struct podresources *podresources,
			     const struct ledger_lease *lease)
{
	size_t low = 0, high = podresources_count(podresources);
	char holder[LEDGER_HOLDER_MAX];

	while (low < high) { /* the first of the unit */
		size_t middle = low + (high - low) / 2;
		if (strcmp(podresources_at(podresources, middle)->unit, lease->unit) < 0)
			low = middle + 1;
		else
			high = middle;
	}

	for (; low < podresources_count(podresources); low++) {
		const struct podresources_holder *at = podresources_at(podresources, low);
		if (strcmp(at->unit, lease->unit) != 0)
			break;

		leases_holder(at, holder);
		if (strcmp(at->resource, lease->resource) == 0 &&
		    strcmp(holder, lease->holder) == 0)
			return true;
	}

	return false;
}

static bool leases_end(struct leases *leases, const struct podresources *podresources)
{
	bool changed = false;
	for (size_t i = ledger_count(leases->ledger); i-- > 0;) {
		const struct ledger_lease lease = *ledger_at(leases->ledger, i);
		if (leases_is_listed(podresources, &lease))
			continue;
		changed |= ledger_release(leases->ledger, lease.unit, lease.holder, NULL) == 0;
	}

	return changed;
}

void leases_follow(struct leases *leases, const struct podresources *podresources,
		   const struct policy *policy, int64_t now_unix_ns)
{
	struct err err = {0};
	bool changed = leases_end(leases, podresources);

	for (size_t i = 0; policy && i < podresources_count(podresources); i++) {
		const struct podresources_holder *holder = podresources_at(podresources, i);
		struct ledger_lease lease = {.door = POLICY_DOOR_KUBELET,
					     .since_unix_ns = now_unix_ns};

		if (strlen(holder->unit) >= sizeof(lease.unit) ||
		    !policy_find(policy, holder->resource, POLICY_DOOR_KUBELET) ||
		    ledger_find(leases->ledger, holder->unit))
			continue;

		(void)snprintf(lease.unit, sizeof(lease.unit), "%s", holder->unit);
		(void)snprintf(lease.resource, sizeof(lease.resource), "%s", holder->resource);
		leases_holder(holder, lease.holder);

		if (ledger_take(leases->ledger, &lease, &err) == 0)
			changed = true;
		else
			log_write(leases->options.log, LOG_LEVEL_DEBUG, NULL, "%s", err.text);
	}

	if (changed)
		leases_save(leases);
}

const struct ledger *leases_ledger(const struct leases *leases)
{
	return leases->ledger;
}
