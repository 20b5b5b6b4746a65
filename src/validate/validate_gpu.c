/* SPDX-License-Identifier: Apache-2.0 */
/* The checks that work on GPUs: each in a process of its own, one after the other or all at once.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "validate/gpu/metrics.h"
#include "validate/gpu/vectoradd.h"
#include "validate/validate_internal.h"

enum { GPUS_SEED = 20, GPUS_END_NS_FACTOR = 2 };
/* Clock event reasons during a stress that ought not to be: HW slowdown, SW and HW thermal, power
 * brake. A power cap is what a stress is for. */
#define GPUS_BAD_THROTTLE (INT64_C(0x8) | 0x20 | 0x40 | 0x80)

/* --- in the child ----------------------------------------------------------------------------- */

/* The driver, as the device is seen by it, and the device's place there. */
static int gpus_open(const struct validate *self, const struct validate_device *device,
		     struct driver *driver, struct driver_device out[DRIVER_DEVICES_MAX],
		     uint32_t *out_count, struct err *err)
{
	if (device->view[0] && setenv("CUDA_VISIBLE_DEVICES", device->view, 1) < 0)
		return err_set(err, -ENOMEM, "CUDA_VISIBLE_DEVICES: no memory");
	int rc = driver_open(self->plan->library, DRIVER_BY_DLSYM, driver, err);
	return rc < 0 ? rc : driver_devices(driver, out, out_count, err);
}

/* NULL: it is gone. */
static const struct driver_device *gpus_find(const struct driver_device *devices, uint32_t count,
					     const char *uuid)
{
	for (uint32_t i = 0; i < count; i++)
		if (strcmp(devices[i].uuid, uuid) == 0)
			return &devices[i];
	return NULL;
}

static const char *validate_exporter(const struct validate *self)
{
	return self->plan->exporter ? self->plan->exporter : METRICS_ADDRESS;
}

struct gpus_call {
	struct validate *self;
	enum validate_what what;
	uint32_t first; /* job N has device first + N, in the stress */
};

static void gpus_one(struct gpus_call *call, const struct driver *driver,
		     const struct driver_device *devices, uint32_t place,
		     const struct driver_device *found, const struct checks_sink *sink)
{
	struct validate *self = call->self;
	struct validate_device *device = &self->devices[place];

	(void)devices;
	if (call->what == VALIDATE_VECTORADD)
		vectoradd_check(driver, found, place, sink);
	else if (call->what == VALIDATE_BANDWIDTH)
		bandwidth_check(driver, found, &device->bandwidth, place, sink);
	else if (call->what == VALIDATE_METRICS)
		metrics_check(driver, found, validate_exporter(self), place, sink);
}

/* Devices self->from to self->end, which have one view. */
static int gpus_job(void *context, const struct checks_sink *sink, struct err *err)
{
	struct gpus_call *call = context;
	struct validate *self = call->self;
	struct driver driver;
	struct driver_device devices[DRIVER_DEVICES_MAX];
	uint32_t count = 0;
	int rc = gpus_open(self, &self->devices[self->from], &driver, devices, &count, err);
	if (rc < 0)
		return rc;

	if (self->from == 0 && call->what == VALIDATE_BANDWIDTH)
		bandwidth_header(&driver, &self->devices[0].bandwidth, sink);

	for (uint32_t i = self->from; i < self->end; i++) {
		const char *uuid = self->devices[i].device.uuid;
		const struct driver_device *found = gpus_find(devices, count, uuid);
		struct check check;

		if (found) {
			gpus_one(call, &driver, devices, i, found, sink);
			continue;
		}

		checks_begin(sink, &check, i, validate_what_to_string(call->what), uuid);
		check_set(&check, CHECK_FAIL, "the GPU is gone: it was in sight before");
		checks_end(sink, &check);
	}

	return 0;
}

/* From each device of the first view to the others. */
static int gpus_peer_job(void *context, const struct checks_sink *sink, struct err *err)
{
	struct gpus_call *call = context;
	struct validate *self = call->self;
	struct driver driver;
	struct driver_device all[DRIVER_DEVICES_MAX], devices[DRIVER_DEVICES_MAX];
	uint32_t count = 0, kept = 0;
	int rc = gpus_open(self, &self->devices[self->from], &driver, all, &count, err);
	if (rc < 0)
		return rc;

	for (uint32_t i = 0; i < self->end; i++) {
		const struct driver_device *found =
		    gpus_find(all, count, self->devices[i].device.uuid);
		if (!found)
			return err_set(err, -EIO, "%s is gone: it was in sight before",
				       self->devices[i].device.uuid);

		devices[kept++] = *found;
	}

	p2p_retain(&driver, devices, kept);
	if (self->from == 0 && kept > 1 && !self->p2p.is_brief)
		p2p_matrix(&driver, devices, kept, sink);
	if (self->from == 0 && kept > 1)
		p2p_header(&driver, &self->p2p, sink);

	for (uint32_t i = self->from; i < kept; i++)
		p2p_check(&driver, devices, kept, i, &self->p2p, i, sink);

	return 0;
}

/* --- one after the other ---------------------------------------------------------------------- */

/* Behind the last device with the same view. */
static uint32_t gpus_group_end(const struct validate *self, uint32_t from)
{
	uint32_t end = from + 1;
	while (end < self->count && strcmp(self->devices[end].view, self->devices[from].view) == 0)
		end++;
	return end;
}

static int gpus_run(struct validate *self, enum validate_what what, uint32_t last, struct err *err)
{
	struct gpus_call call = {.self = self, .what = what};

	for (uint32_t from = 0; from < last;) {
		struct apart_job job = {.run = what == VALIDATE_P2P ? gpus_peer_job : gpus_job,
					.context = &call,
					.silence_ns = self->plan->timeout_ns,
					.timeout_ns = UINT64_MAX};

		self->from = from;
		self->end = what == VALIDATE_P2P ? last : gpus_group_end(self, from);

		int rc = validate_apart(self, &job, 1, NULL, err);
		if (rc < 0 && rc != -ECANCELED)
			return rc;
		if (job.how == APART_DONE) {
			from = self->end;
			continue;
		}

		uint64_t place = self->now[0].check.name[0] ? self->now[0].place : from;

		validate_blame(self, &job, 0, validate_what_to_string(what),
			       self->devices[from].device.uuid);
		if (rc < 0)
			return rc;

		from = place < from || place >= last ? from + 1 : (uint32_t)place + 1;
	}

	return 0;
}

int validate_gpus(struct validate *self, enum validate_what what, struct err *err)
{
	if (what != VALIDATE_P2P) {
		int rc = gpus_run(self, what, self->count, err);
		bool is_brief = what == VALIDATE_BANDWIDTH && self->plan->has_peers &&
				!validate_wants(self, VALIDATE_P2P) && self->count > 1;
		if (rc < 0 || !is_brief)
			return rc;

		self->p2p.is_brief = true;
	}

	/* MIG devices that are seen one at a time reach nothing. */
	uint32_t last = gpus_group_end(self, 0);
	for (uint32_t i = last; i < self->count; i++)
		checks_say(self->out, "p2p", self->devices[i].device.uuid, CHECK_SKIP, NULL,
			   "MIG instances reach no other GPU's memory");

	return gpus_run(self, VALIDATE_P2P, last, err);
}

/* --- stress ----------------------------------------------------------------------------------- */

static int gpus_stress_job(void *context, const struct checks_sink *sink, struct err *err)
{
	struct gpus_call *call = context;
	struct validate *self = call->self;
	const struct validate_device *device = &self->devices[call->first];
	const struct burntest_options options = {
	    .duration_ns = self->plan->stress_ns, .fill = self->plan->fill, .seed = GPUS_SEED};
	struct driver driver;
	struct driver_device devices[DRIVER_DEVICES_MAX];
	uint32_t count = 0;
	int rc = gpus_open(self, device, &driver, devices, &count, err);
	if (rc < 0)
		return rc;

	const struct driver_device *found = gpus_find(devices, count, device->device.uuid);
	if (!found)
		return err_set(err, -EIO, "%s is gone: it was in sight before",
			       device->device.uuid);

	burntest_check(&driver, found, &options, call->first, sink);
	return 0;
}

/* Why it must not be loaded; false: it may. */
static bool gpus_is_in_use(const struct validate *self, const struct validate_device *device,
			   char out[CHECKS_TEXT_MAX])
{
	const struct snapshot_gpu *gpu =
	    device->gpu && self->before.snapshot
		? snapshot_find(self->before.snapshot, device->gpu->uuid)
		: NULL;
	if (!gpu) {
		(void)snprintf(out, CHECKS_TEXT_MAX,
			       "whether somebody uses it cannot be told: %.300s",
			       self->why_not[0] ? self->why_not : "NVML does not show it");
		return true;
	}

	for (uint32_t i = 0; i < gpu->process_count; i++) {
		const struct snapshot_process *process = &gpu->process[i];
		if (device->mig &&
		    (process->gi != device->mig->gi || process->ci != device->mig->ci))
			continue;

		(void)snprintf(out, CHECKS_TEXT_MAX, "process %u uses it%s", process->pid,
			       process->type & SNAPSHOT_PROCESS_MPS ? ", and it is shared by MPS"
								    : "");
		return true;
	}

	return false;
}

static void gpus_note_heat(const struct validate_state *state, const struct validate_device *device,
			   struct validate_heat *heat)
{
	const struct snapshot_gpu *gpu = device->gpu && state->snapshot
					     ? snapshot_find(state->snapshot, device->gpu->uuid)
					     : NULL;
	int64_t value;

	if (!gpu)
		return;
	if (snapshot_get(gpu, SNAPSHOT_THROTTLE, &value))
		heat->throttle |= value;
	if (snapshot_get(gpu, SNAPSHOT_TEMPERATURE, &value) && value > heat->temperature)
		heat->temperature = value;
	if (snapshot_get(gpu, SNAPSHOT_POWER, &value) && value > heat->power)
		heat->power = value;
}

static void gpus_look(struct validate *self)
{
	struct validate_state *now = calloc(1, sizeof(*now));
	if (!now)
		return; /* then there is nothing to say of heat */

	validate_state_init(now);
	if (self->has_before && self->plan->look(self->plan->context, now, NULL) == 0)
		for (uint32_t i = 0; i < self->count; i++)
			gpus_note_heat(now, &self->devices[i], &self->heat[i]);

	validate_state_done(now);
	free(now);
}

/* Once in the middle, when it is warm. */
static void gpus_tick(void *context, uint64_t elapsed_ns)
{
	struct validate *self = context;
	if (self->has_looked || elapsed_ns < self->plan->stress_ns / 2)
		return;
	self->has_looked = true;
	gpus_look(self);
}

static void gpus_throttle_text(int64_t bits, char *out, size_t size)
{
	size_t length = 0;

	out[0] = '\0';
	for (uint32_t bit = 1; bit < 64; bit++) { /* 0: idle */
		const char *word = bits >> bit & 1 ? snapshot_throttle_to_string(bit) : NULL;
		if (word && length < size)
			length += (size_t)snprintf(out + length, size - length, "%s%s",
						   length > 0 ? ", " : "", word);
	}
}

/* Puts heat and power beside what the stress of that GPU has found. */
static void gpus_judge_heat(struct validate *self, const struct validate_device *device,
			    const struct validate_heat *heat)
{
	char reasons[128];

	for (size_t i = self->out->count; i-- > 0;) {
		struct check *check = &self->out->list[i];
		if (strcmp(check->name, "stress") != 0 ||
		    strcmp(check->target, device->device.uuid) != 0)
			continue;

		gpus_throttle_text(heat->throttle, reasons, sizeof(reasons));
		size_t length = strlen(check->reason);

		if (heat->temperature > 0)
			(void)snprintf(check->reason + length, sizeof(check->reason) - length,
				       "; up to %" PRId64 " C, %.0f W%s%s", heat->temperature,
				       (double)heat->power / 1e3,
				       reasons[0] ? ", held down by " : "", reasons);

		if (check->status == CHECK_PASS && (heat->throttle & GPUS_BAD_THROTTLE)) {
			check->status = CHECK_SLOW;
			(void)snprintf(check->hint, sizeof(check->hint),
				       "it slows down for heat or power supply: look at fans, air "
				       "and power cables");
		}

		return;
	}
}

/* Equal GPUs that did equal work have equal bits. */
static void gpus_compare_hashes(struct validate *self)
{
	for (uint32_t i = 0; i < self->count; i++) {
		const struct validate_device *one = &self->devices[i];
		uint32_t same = 0, others = 0;

		for (uint32_t j = 0; j < self->count; j++) {
			const struct validate_device *two = &self->devices[j];
			if (!one->has_hash || !two->has_hash || i == j ||
			    strcmp(one->device.name, two->device.name) != 0)
				continue;

			same += one->hash == two->hash;
			others += one->hash != two->hash;
		}

		/* Of those that differ the fewer are wrong; of two nobody knows which. */
		if (others > same)
			checks_say(self->out, "stress-hash", one->device.uuid, CHECK_FAIL,
				   "take it out of use, and test it alone",
				   "its result has other bits than that of %u equal GPUs (hash "
				   "%016" PRIx64 "), though each agrees with itself",
				   others, one->hash);
	}
}

static void gpus_blame_stress(struct validate *self, const struct apart_job *jobs,
			      const struct gpus_call *calls, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (jobs[i].how != APART_DONE)
			validate_blame(self, &jobs[i], i, "stress",
				       self->devices[calls[i].first].device.uuid);
}

int validate_metrics(struct validate *self, struct err *err)
{
	struct err why = {.code = 0};
	struct buf text _cleanup_buf_;
	char used[CHECKS_TEXT_MAX];

	buf_init(&text, METRICS_TEXT_MAX);
	if (metrics_fetch(validate_exporter(self), self->plan->timeout_ns, &text, &why) < 0) {
		checks_say(self->out, "metrics", "", CHECK_SKIP,
			   "--exporter names another address; a service serves them: sluice agent",
			   "no exporter to compare: %s", why.text);
		return 0;
	}

	for (uint32_t i = 0; i < self->count && !self->plan->is_forced; i++) {
		if (!gpus_is_in_use(self, &self->devices[i], used))
			continue;
		checks_say(self->out, "metrics", self->devices[i].device.uuid, CHECK_SKIP,
			   "--force compares all the same", "no known level: %s", used);
		return 0;
	}

	return gpus_run(self, VALIDATE_METRICS, self->count, err);
}

int validate_stress(struct validate *self, struct err *err)
{
	struct apart_job jobs[DRIVER_DEVICES_MAX];
	struct gpus_call calls[DRIVER_DEVICES_MAX];
	uint32_t count = 0;

	for (uint32_t i = 0; i < self->count; i++) {
		char why[CHECKS_TEXT_MAX];
		if (!self->plan->is_forced && gpus_is_in_use(self, &self->devices[i], why)) {
			checks_say(self->out, "stress", self->devices[i].device.uuid, CHECK_SKIP,
				   "--force does it all the same; whoever uses it will suffer",
				   "%s", why);
			continue;
		}

		calls[count] =
		    (struct gpus_call){.self = self, .what = VALIDATE_STRESS, .first = i};
		jobs[count] =
		    (struct apart_job){.run = gpus_stress_job,
				       .context = &calls[count],
				       .silence_ns = self->plan->timeout_ns,
				       .timeout_ns = self->plan->stress_ns +
						     GPUS_END_NS_FACTOR * self->plan->timeout_ns};
		count++;
	}

	gpus_look(self);
	int rc = count > 0 ? validate_apart(self, jobs, count, gpus_tick, err) : 0;
	if (rc < 0 && rc != -ECANCELED)
		return rc;

	gpus_blame_stress(self, jobs, calls, count);
	if (rc < 0)
		return rc;

	gpus_look(self);

	for (uint32_t i = 0; i < self->count; i++)
		gpus_judge_heat(self, &self->devices[i], &self->heat[i]);

	gpus_compare_hashes(self);
	return 0;
}
