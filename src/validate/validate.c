/* SPDX-License-Identifier: Apache-2.0 */
#include "validate/validate.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "validate/validate_internal.h"

static const struct {
	const char *name;
	uint32_t level;
} validate_rows[VALIDATE_WHAT_COUNT] = {
    [VALIDATE_DRIVER] = {"driver", 1},
    [VALIDATE_COUNT] = {"count", 1},
    [VALIDATE_ISOLATION] = {"isolation", 1},
    [VALIDATE_SETTINGS] = {"settings", 1},
    [VALIDATE_VECTORADD] = {"vectoradd", 1},
    [VALIDATE_BANDWIDTH] = {"bandwidth", 2},
    [VALIDATE_P2P] = {"p2p", 2},
    [VALIDATE_SHM] = {"shm", 2},
    [VALIDATE_MEMLOCK] = {"memlock", 2},
    [VALIDATE_COLLECTIVES] = {"collectives", 2},
    [VALIDATE_TRANSPORT] = {"transport", 2},
    [VALIDATE_STRESS] = {"stress", 3},
    [VALIDATE_TRAIN] = {"train", 3},
    [VALIDATE_METRICS] = {"metrics", 3},
    [VALIDATE_ECC] = {"ecc", 3},
    [VALIDATE_XID] = {"xid", 3},
};

const char *validate_what_to_string(enum validate_what what)
{
	return (unsigned)what < VALIDATE_WHAT_COUNT ? validate_rows[what].name : "?";
}

int validate_what_parse(const char *text, enum validate_what *out)
{
	for (unsigned i = 0; i < VALIDATE_WHAT_COUNT; i++) {
		if (strcmp(text, validate_rows[i].name) == 0) {
			*out = (enum validate_what)i;
			return 0;
		}
	}
	return -EINVAL;
}

uint32_t validate_level_of(enum validate_what what)
{
	return validate_rows[what].level;
}

uint32_t validate_mask(uint32_t level)
{
	uint32_t mask = 0;
	for (unsigned i = 0; i < VALIDATE_WHAT_COUNT; i++)
		mask |= validate_rows[i].level <= level ? UINT32_C(1) << i : 0;
	return mask;
}

void validate_state_init(struct validate_state *state)
{
	memset(state, 0, sizeof(*state));
	inventory_init(&state->inventory);
}

void validate_state_done(struct validate_state *state)
{
	inventory_done(&state->inventory);
	free(state->snapshot);
	validate_state_init(state);
}

/* --- processes -------------------------------------------------------------------------------- */

static void validate_see(struct validate *self, const struct checks_record *record)
{
	/* A library first, then devices: see validate_devices.c. */
	if (record->number == 0) {
		int version = 0;
		memcpy(&version, record->blob, sizeof(version));
		self->is_simulated = record->blob[sizeof(version)] != 0;
		self->cuda_version = version;
		memcpy(self->library, record->blob + sizeof(version) + 1,
		       sizeof(self->library) - 1);

		return;
	}

	if (self->count >= DRIVER_DEVICES_MAX)
		return;

	struct validate_device *device = &self->devices[self->count];
	memset(device, 0, sizeof(*device));
	memcpy(&device->device, record->blob, sizeof(device->device));
	(void)snprintf(device->view, sizeof(device->view), "%s", self->view ? self->view : "");

	for (uint32_t i = 0; i < self->count; i++)
		if (strcmp(self->devices[i].device.uuid, device->device.uuid) == 0)
			return; /* in another view as well */

	self->count++;
}

static void validate_fact(struct validate *self, const struct checks_record *record)
{
	for (uint32_t i = 0; i < self->count; i++) {
		struct validate_device *device = &self->devices[i];
		if (strcmp(device->device.uuid, record->check.target) == 0) {
			device->has_hash = true;
			device->hash = record->number;
		}
	}
}

static void validate_take(void *context, const struct checks_record *record)
{
	struct validate *self = context;
	struct validate_now *now = &self->now[record->job];

	switch (record->kind) {
	case CHECKS_BEGIN:
		*now = (struct validate_now){
		    .is_checking = true, .check = record->check, .place = record->number};
		break;
	case CHECKS_END:
		now->is_checking = false;
		checks_add(self->out, &record->check);
		break;
	case CHECKS_SAMPLE:
		checks_add_sample(self->out, &record->sample);
		break;
	case CHECKS_NOTE:
	case CHECKS_PROGRESS:
		if (self->plan->note)
			self->plan->note(self->plan->context, record->text,
					 record->kind == CHECKS_PROGRESS);
		break;
	case CHECKS_FACT:
		validate_fact(self, record);
		break;
	case CHECKS_BLOB:
		validate_see(self, record);
		break;
	default:
		break;
	}
}

static struct checks_sink validate_sink(struct validate *self)
{
	return (struct checks_sink){.take = validate_take, .context = self};
}

int validate_apart(struct validate *self, struct apart_job *jobs, uint32_t count,
		   void (*tick)(void *context, uint64_t elapsed_ns), struct err *err)
{
	struct apart apart = {.jobs = jobs,
			      .count = count,
			      .sink = validate_sink(self),
			      .stop = self->plan->stop,
			      .tick = tick,
			      .context = self};

	memset(self->now, 0, sizeof(self->now));
	int rc = apart_run(&apart, err);
	if (rc == 0 && self->plan->stop && *self->plan->stop)
		return err_set(err, -ECANCELED, "stopped by a signal");

	return rc;
}

void validate_blame(struct validate *self, const struct apart_job *job, uint32_t number,
		    const char *name, const char *target)
{
	const struct validate_now *now = &self->now[number];
	struct check check = {.status = CHECK_FAIL};
	char text[CHECKS_TEXT_MAX];

	gputest_explain(&check, apart_describe(job, text));
	(void)snprintf(check.name, sizeof(check.name), "%s",
		       now->is_checking ? now->check.name : name);
	(void)snprintf(check.target, sizeof(check.target), "%s",
		       now->is_checking ? now->check.target : target);

	const char *hint = NULL;

	if (job->how == APART_TIMED_OUT)
		hint = "the driver or the GPU hangs: look for XIDs (dmesg, sluice health); a GPU "
		       "that hangs needs a reset";
	else if (job->how == APART_KILLED)
		hint = "the driver's library crashed: does it fit the kernel module, and is it "
		       "whole?";

	if (hint)
		(void)snprintf(check.hint, sizeof(check.hint), "%s", hint);
	checks_add(self->out, &check);
}

/* --- the run ---------------------------------------------------------------------------------- */

static void validate_look(struct validate *self)
{
	struct err err = {.code = 0};

	validate_state_init(&self->before);
	if (!self->plan->look) {
		(void)snprintf(self->why_not, sizeof(self->why_not), "the driver was not asked");
		return;
	}

	self->has_before = self->plan->look(self->plan->context, &self->before, &err) == 0;
	if (!self->has_before)
		(void)snprintf(self->why_not, sizeof(self->why_not), "%s", err.text);
}

static void validate_count(struct validate *self)
{
	const struct validate_plan *plan = self->plan;
	if (!plan->has_expect)
		return;

	struct check check = {.name = "count", .status = CHECK_PASS};
	check_value(&check, self->count, "GPUs");
	check.has_limit = true;
	check.limit = plan->expect;

	if (self->count != plan->expect) {
		check_set(&check, CHECK_FAIL, "%u GPUs are in sight, %u are expected", self->count,
			  plan->expect);
		(void)snprintf(
		    check.hint, sizeof(check.hint),
		    self->count < plan->expect
			? "sluice devices lists what the driver sees, sluice health what "
			  "is lost"
			: "was the right number expected?");
	}

	checks_add(self->out, &check);
}

/* What cannot be done in this version, or not here: never a pass. */
static void validate_missing(struct validate *self)
{
	if (validate_wants(self, VALIDATE_TRAIN))
		checks_say(self->out, "train", "", CHECK_SKIP, NULL,
			   "there is no training in this version");
}

static int validate_work(struct validate *self, struct err *err)
{
	int rc = 0;

	if (validate_wants(self, VALIDATE_ISOLATION))
		rc = validate_isolation(self, err);
	if (validate_wants(self, VALIDATE_SETTINGS))
		validate_settings(self);

	for (int what = VALIDATE_VECTORADD; rc == 0 && what <= VALIDATE_P2P; what++)
		if (validate_wants(self, (enum validate_what)what))
			rc = validate_gpus(self, (enum validate_what)what, err);

	if (rc == 0 && validate_wants(self, VALIDATE_SHM))
		validate_shm(self);
	if (rc == 0 && validate_wants(self, VALIDATE_MEMLOCK))
		validate_memlock(self);
	if (rc == 0 && (validate_wants(self, VALIDATE_COLLECTIVES) ||
			validate_wants(self, VALIDATE_TRANSPORT)))
		rc = validate_collectives(self, err);
	if (rc == 0 && validate_wants(self, VALIDATE_STRESS))
		rc = validate_stress(self, err);

	if (rc == 0 && validate_wants(self, VALIDATE_METRICS))
		rc = validate_metrics(self, err);
	if (rc == 0)
		validate_missing(self);
	if (rc == 0)
		validate_counters(self);

	return rc;
}

/* Without a GPU in sight nothing of the rest is passed over in silence. */
static void validate_skip_all(struct validate *self)
{
	for (unsigned i = VALIDATE_ISOLATION; i < VALIDATE_WHAT_COUNT; i++)
		if (validate_wants(self, (enum validate_what)i))
			checks_say(self->out, validate_rows[i].name, "", CHECK_SKIP, NULL,
				   "no GPU can be used here");
}

int validate_run(const struct validate_plan *plan, struct checks *out, struct err *err)
{
	_cleanup_free_ struct validate *self = calloc(1, sizeof(*self));
	if (!self)
		return err_set(err, -ENOMEM, "validating: no memory");

	self->plan = plan;
	self->out = out;
	grant_read(plan->environment, &self->grant);
	validate_look(self);

	int rc = validate_find_devices(self, err);
	if (rc == 0 && validate_wants(self, VALIDATE_COUNT))
		validate_count(self);
	if (rc == 0 && self->count == 0)
		validate_skip_all(self);
	else if (rc == 0)
		rc = validate_work(self, err);

	validate_state_done(&self->before);
	return rc;
}
