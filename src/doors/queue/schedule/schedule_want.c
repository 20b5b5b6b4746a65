/* SPDX-License-Identifier: Apache-2.0 */
/* What a job wants, as devices of a machine; and whether the machine could ever give it. */
#include "doors/queue/schedule/schedule.h"

#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "doors/queue/schedule/schedule_internal.h"

static size_t want_find(const struct schedule_machine *machine, uint32_t gpu, uint32_t mig)
{
	size_t i = 0;
	while (i < machine->device_count &&
	       (machine->devices[i].unit.gpu != gpu || machine->devices[i].unit.mig != mig))
		i++;
	return i;
}

/* Whether it is of the product, and as large, as the job says. */
static bool want_is_kind(const struct schedule_machine *machine, const struct wants *wants,
			 const struct schedule_device *device)
{
	const struct inventory *inventory = machine->inventory;
	const struct gpu *gpu = &inventory->gpus[device->unit.gpu];
	uint64_t memory = device->unit.mig == PLACE_WHOLE
			      ? gpu->memory_bytes
			      : inventory->migs[device->unit.mig].memory_bytes;

	if (wants->gpu_type && fnmatch(wants->gpu_type, gpu->name, FNM_CASEFOLD) != 0)
		return false;

	return wants->gpu_memory_bytes == 0 ||
	       (memory != GPU_U64_UNKNOWN && memory >= wants->gpu_memory_bytes);
}

/* " like '*A100*' with 40 GiB or more", as far as that is wanted. */
static const char *want_kind(const struct wants *wants, char out[WANT_KIND_MAX])
{
	char memory[WANT_AMOUNT_MAX];

	out[0] = '\0';
	if (wants->gpu_type)
		(void)snprintf(out, WANT_KIND_MAX, " like '%s'", wants->gpu_type);

	size_t length = strlen(out);

	if (wants->gpu_memory_bytes)
		(void)snprintf(
		    out + length, WANT_KIND_MAX - length, " with %s of memory or more",
		    schedule_amount_text(SCHEDULE_MEMORY, wants->gpu_memory_bytes, memory));

	return out;
}

static int want_add_id(const struct schedule_machine *machine, const struct wants *wants,
		       const char *id, struct schedule_want *want, struct err *err)
{
	char kind[WANT_KIND_MAX];
	uint32_t gpu, mig;
	int rc = place_resolve(machine->inventory, id, &gpu, &mig, err);
	if (rc < 0)
		return rc;

	size_t place = want_find(machine, gpu, mig);
	if (place == machine->device_count)
		return err_set(
		    err, -ENOENT,
		    "GPU '%s' is not the queue's to give: sluice.doors.queue.devices and "
		    "sluice.devices in the configuration say which are",
		    id);

	const struct schedule_device *device = &machine->devices[place];
	for (size_t i = 0; i < want->count; i++)
		if (want->device[i] == place)
			return err_set(err, -EINVAL, "%s is named twice", device->unit.label);

	if (want->shared && device->slot_count < 2)
		return err_set(err, -ERANGE,
			       "%s is not shared: sharing.timeSlicing in the configuration makes "
			       "slots",
			       device->unit.label);

	if (!want_is_kind(machine, wants, device))
		return err_set(err, -ERANGE, "%s is %s, and not one%s", device->unit.label,
			       machine->inventory->gpus[gpu].name, want_kind(wants, kind));

	want->device[want->count++] = (uint16_t)place; /* no device twice: there is room */
	return 0;
}

static int want_add_ids(const struct schedule_machine *machine, const struct job *job,
			struct schedule_want *want, struct err *err)
{
	const char *ids = job->ids;
	char id[GPU_UUID_MAX];
	int more;

	want->listed = true;
	while ((more = place_next_id(&ids, id, err)) > 0) {
		int rc = want_add_id(machine, &job->wants, id, want, err);
		if (rc < 0)
			return rc;
	}

	want->needed = want->count;
	return more;
}

static bool want_suits(const struct schedule_machine *machine, const struct job *job,
		       const struct schedule_want *want, const struct schedule_device *device)
{
	return (!want->shared || device->slot_count > 1) &&
	       want_is_kind(machine, &job->wants, device);
}

/* Of a job that says which kind of GPU it wants. */
static int want_refuse_kind(const struct schedule_machine *machine, const struct job *job,
			    const struct schedule_want *want, struct err *err)
{
	char kind[WANT_KIND_MAX], there[WANT_THERE_MAX] = "", memory[WANT_AMOUNT_MAX];
	size_t length = 0;

	for (size_t i = 0; i < machine->device_count && length < sizeof(there); i++) {
		const struct gpu *gpu = &machine->inventory->gpus[machine->devices[i].unit.gpu];
		bool is_said = false;
		for (size_t k = 0; k < i && !is_said; k++)
			is_said =
			    strcmp(machine->inventory->gpus[machine->devices[k].unit.gpu].name,
				   gpu->name) == 0;

		if (is_said)
			continue;

		bool is_known = gpu->memory_bytes != GPU_U64_UNKNOWN;
		int added = snprintf(
		    there + length, sizeof(there) - length, "%s%s%s%s%s", length ? ", " : "",
		    gpu->name, is_known ? " (" : "",
		    is_known ? schedule_amount_text(SCHEDULE_MEMORY, gpu->memory_bytes, memory)
			     : "",
		    is_known ? ")" : "");

		length += added > 0 ? (size_t)added : 0;
	}

	return err_set(err, -ERANGE, "needs %zu GPU%s%s%s, this machine has %zu; there is: %s",
		       want->needed, want->needed == 1 ? "" : "s", want_kind(&job->wants, kind),
		       want->shared ? " that is shared" : "", want->count, there);
}

static int want_refuse(const struct schedule_machine *machine, const struct job *job,
		       const struct schedule_want *want, struct err *err)
{
	if (job->wants.gpu_type || job->wants.gpu_memory_bytes)
		return want_refuse_kind(machine, job, want, err);

	if (job->wants.workers > 1 && job->wants.worker_gpus > 0)
		return err_set(err, -ERANGE,
			       "needs %" PRIu32 " workers x %" PRIu32
			       " GPU%s, this machine has %zu%s",
			       job->wants.workers, job->wants.worker_gpus,
			       job->wants.worker_gpus == 1 ? "" : "s", want->count,
			       want->shared ? " that can be shared (sharing.timeSlicing in the "
					      "configuration makes slots)"
					    : "");

	const char *plural = want->needed == 1 ? "" : "s";
	size_t migs = 0;
	for (size_t i = 0; i < machine->device_count; i++)
		migs += machine->devices[i].unit.mig != PLACE_WHOLE;

	if (want->shared && want->count == 0)
		return err_set(err, -ERANGE,
			       "no GPU of this machine is shared: sharing.timeSlicing in the "
			       "configuration makes slots");

	if (want->shared)
		return err_set(err, -ERANGE,
			       "needs shares of %zu GPU%s, this machine has %zu that %s shared "
			       "(sharing.timeSlicing in the configuration)",
			       want->needed, plural, want->count, want->count == 1 ? "is" : "are");

	if (want->mig)
		return err_set(
		    err, -ERANGE,
		    "needs %zu GPU%s, this machine has %zu MIG device%s and no whole GPU",
		    want->needed, plural, want->count, want->count == 1 ? "" : "s");

	if (migs > 0)
		return err_set(err, -ERANGE,
			       "needs %zu GPU%s, this machine has %zu (and %zu MIG device%s, which "
			       "--gpu-ids can name)",
			       want->needed, plural, want->count, migs, migs == 1 ? "" : "s");

	if (machine->inventory->gpu_count > want->count)
		return err_set(err, -ERANGE,
			       "needs %zu GPU%s, the queue has %zu of the %u of this machine "
			       "(sluice.doors.queue.devices in the configuration says which)",
			       want->needed, plural, want->count, machine->inventory->gpu_count);

	return err_set(err, -ERANGE, "needs %zu GPU%s, this machine has %zu", want->needed, plural,
		       want->count);
}

/* Workers that are content with slots: of all devices that have some, the same number of each. A
 * worker has no device twice. */
static bool want_oversubscribe(const struct schedule_machine *machine, const struct job *job,
			       struct schedule_want *want)
{
	uint32_t least = UINT32_MAX;

	want->shared = true;
	want->count = 0;
	for (size_t i = 0; i < machine->device_count; i++) {
		const struct schedule_device *device = &machine->devices[i];
		if (!want_suits(machine, job, want, device) || device->unit.mig != PLACE_WHOLE)
			continue;
		want->device[want->count++] = (uint16_t)i;
		least = device->slot_count < least ? device->slot_count : least;
	}

	if (want->count == 0 || job->wants.worker_gpus > want->count)
		return false;

	want->needed = want->count;
	want->slots = (uint32_t)((job->gpus + want->count - 1) / want->count);
	return want->slots <= least;
}

/* There are too few for workers that may share them. */
static int want_refuse_shared(const struct job *job, const struct schedule_want *want,
			      struct err *err)
{
	return err_set(err, -ERANGE,
		       "needs %" PRIu32 " workers x %" PRIu32
		       " GPU%s, this machine has %zu that are shared, and too few slots of them "
		       "(sharing.timeSlicing in the configuration)",
		       job->wants.workers, job->wants.worker_gpus,
		       job->wants.worker_gpus == 1 ? "" : "s", want->count);
}

static uint32_t want_outsiders(const struct schedule_machine *machine, const struct job *job)
{
	static const uint32_t ruled[] = {[RULES_OUTSIDERS_WAIT] = WANTS_OUTSIDERS_WAIT,
					 [RULES_OUTSIDERS_IGNORE] = WANTS_OUTSIDERS_IGNORE,
					 [RULES_OUTSIDERS_SHARE] = WANTS_OUTSIDERS_SHARE};

	if (job->ignore_outsiders)
		return WANTS_OUTSIDERS_IGNORE;
	if (job->wants.outsiders != WANTS_OUTSIDERS_RULE)
		return job->wants.outsiders;

	return machine->rules ? ruled[machine->rules->outsiders] : WANTS_OUTSIDERS_WAIT;
}

int schedule_want_make(const struct schedule_machine *machine, const struct job *job,
		       struct schedule_want *out, struct err *err)
{
	out->needed = job->gpus;
	out->listed = out->mig = false;
	out->shared = job->share_numerator > 0;
	out->numerator = job->share_numerator;
	out->denominator = job->share_denominator;
	out->outsiders = want_outsiders(machine, job);
	out->resources = job->resources;
	out->shut = job->shut;
	out->workers = job->wants.workers;
	out->worker_gpus = job->wants.worker_gpus;
	out->slots = 0;
	out->count = 0;

	if (job->gpus == 0) /* only what is beside GPUs */
		return 0;
	if (!machine->inventory || machine->device_count == 0)
		return err_set(err, -ERANGE, "needs %u GPU%s, there are 0: %s", job->gpus,
			       job->gpus == 1 ? "" : "s", machine->problem);
	if (job->ids)
		return want_add_ids(machine, job, out, err);

	/* MIG devices are small: nobody gets one who has not said so, unless there is no GPU. */
	out->mig = true;
	for (size_t i = 0; i < machine->device_count && out->mig; i++)
		if (want_suits(machine, job, out, &machine->devices[i]))
			out->mig = machine->devices[i].unit.mig != PLACE_WHOLE;

	for (size_t i = 0; i < machine->device_count; i++) {
		const struct schedule_device *device = &machine->devices[i];
		if (want_suits(machine, job, out, device) &&
		    (device->unit.mig != PLACE_WHOLE) == out->mig)
			out->device[out->count++] = (uint16_t)i;
	}

	if (out->count >= out->needed)
		return 0;
	if (!job->wants.oversubscribe || out->shared || job->wants.workers < 2 ||
	    job->wants.worker_gpus == 0)
		return want_refuse(machine, job, out, err);

	return want_oversubscribe(machine, job, out) ? 0 : want_refuse_shared(job, out, err);
}

bool schedule_want_has(const struct schedule_want *want, size_t place)
{
	for (size_t i = 0; i < want->count; i++)
		if (want->device[i] == place)
			return true;
	return false;
}

uint32_t schedule_want_slots(const struct schedule_want *want, const struct schedule_device *device)
{
	if (!want->shared)
		return device->slot_count;
	if (want->slots > 0)
		return want->slots;
	if (want->denominator == 0)
		return 1;

	uint64_t slots = ((uint64_t)want->numerator * device->slot_count + want->denominator - 1) /
			 want->denominator;
	return slots < device->slot_count ? (uint32_t)slots : device->slot_count;
}

enum schedule_use schedule_device_use(const struct schedule_device *device,
				      const struct schedule_want *want)
{
	if (!device->unit.healthy)
		return SCHEDULE_SICK;
	if (device->claims & want->shut)
		return SCHEDULE_CLOSED;
	if (device->unit.outsider != 0 && want->outsiders != WANTS_OUTSIDERS_IGNORE &&
	    !(want->outsiders == WANTS_OUTSIDERS_SHARE && want->shared))
		return SCHEDULE_OUTSIDER;
	if (device->holder[0] != '\0' || device->used_whole)
		return SCHEDULE_USED;
	if (device->slot_count - device->used_count < schedule_want_slots(want, device))
		return SCHEDULE_USED;

	return SCHEDULE_FREE;
}

/* --- what comes first ------------------------------------------------------------------------ */

/* Whether a list of devices names what there is. -EINVAL, -ENOENT. */
static int schedule_prefer_check(const struct schedule_machine *machine, const char *list,
				 struct err *err)
{
	char id[GPU_UUID_MAX];
	uint32_t gpu, mig;
	int more;

	while ((more = place_next_id(&list, id, err)) > 0) {
		int rc = place_resolve(machine->inventory, id, &gpu, &mig, err);
		if (rc < 0)
			return err_wrap(err, "--prefer");
	}

	return more < 0 ? err_wrap(err, "--prefer") : 0;
}

void schedule_prefer_rank(const struct schedule_machine *machine, const char *list,
			  uint16_t rank[PLACE_UNIT_MAX])
{
	char id[GPU_UUID_MAX];
	uint32_t gpu, mig;

	for (size_t i = 0; i < machine->device_count; i++)
		rank[i] = UINT16_MAX;

	if (!machine->inventory || !list || !*list)
		return;

	/* What is not there any more, or not the queue's, says nothing. */
	for (uint16_t next = 0; next < UINT16_MAX && place_next_id(&list, id, NULL) > 0; next++) {
		if (place_resolve(machine->inventory, id, &gpu, &mig, NULL) < 0)
			continue;
		size_t place = want_find(machine, gpu, mig);
		if (place < machine->device_count && rank[place] == UINT16_MAX)
			rank[place] = next;
	}
}

/* --- amounts --------------------------------------------------------------------------------- */

uint64_t schedule_amount_of(enum schedule_amount_kind kind, const struct job *job)
{
	return kind == SCHEDULE_CPU ? job->wants.cpu_milli : job->wants.mem_bytes;
}

uint64_t schedule_amount_there_is(enum schedule_amount_kind kind,
				  const struct schedule_machine *machine)
{
	if (!machine->rules)
		return 0;
	return kind == SCHEDULE_CPU ? machine->rules->cpu_milli : machine->rules->mem_bytes;
}

const char *schedule_amount_text(enum schedule_amount_kind kind, uint64_t amount,
				 char out[WANT_AMOUNT_MAX])
{
	static const char units[] = "KMGTPE";

	if (kind == SCHEDULE_CPU) {
		/* Thousandths without zeros at the end. */
		int digits = amount % 1000 == 0	 ? 0
			     : amount % 100 == 0 ? 1
			     : amount % 10 == 0	 ? 2
						 : 3;
		(void)snprintf(out, WANT_AMOUNT_MAX, "%.*f", digits, (double)amount / 1000);
		return out;
	}

	size_t unit = 0;
	while (unit < sizeof(units) - 1 && amount >> (10 * (unit + 1)) > 0)
		unit++;

	double value = (double)amount / (double)(UINT64_C(1) << (10 * unit));
	bool is_whole = (amount & ((UINT64_C(1) << (10 * unit)) - 1)) == 0;

	if (unit == 0)
		(void)snprintf(out, WANT_AMOUNT_MAX, "%" PRIu64 " bytes", amount);
	else
		(void)snprintf(out, WANT_AMOUNT_MAX, "%.*f%ci", is_whole ? 0 : 1, value,
			       units[unit - 1]);

	return out;
}

static int want_check_amounts(const struct schedule_machine *machine, const struct job *job,
			      struct err *err)
{
	char need[WANT_AMOUNT_MAX], have[WANT_AMOUNT_MAX];

	for (enum schedule_amount_kind kind = 0; kind < SCHEDULE_AMOUNTS; kind++) {
		uint64_t there_is = schedule_amount_there_is(kind, machine);
		uint64_t wanted = schedule_amount_of(kind, job);
		if (there_is == 0 || wanted <= there_is)
			continue;

		(void)schedule_amount_text(kind, wanted, need);
		(void)schedule_amount_text(kind, there_is, have);
		return kind == SCHEDULE_CPU
			   ? err_set(err, -ERANGE, "needs %s processors, jobs can have %s here",
				     need, have)
			   : err_set(err, -ERANGE, "needs %s of memory, jobs can have %s here",
				     need, have);
	}

	return 0;
}

uint64_t schedule_limit_of(const struct schedule_machine *machine, const struct job *job)
{
	uint32_t limit = job->gpu_limit;
	if (limit == 0 && machine->rules)
		limit = machine->rules->limit.gpus;
	return limit ? limit : UINT32_MAX;
}

int schedule_check(const struct schedule_machine *machine, const struct job *job, struct err *err)
{
	struct schedule_want want;
	int rc = schedule_pools_check(&machine->pools, job->resources, err);
	if (rc == 0)
		rc = want_check_amounts(machine, job, err);
	if (rc == 0 && job->gpus > 0)
		rc = schedule_want_make(machine, job, &want, err);

	if (rc == 0 && job->gpus > 0 && job->wants.prefer)
		rc = schedule_prefer_check(machine, job->wants.prefer, err);

	uint64_t limit = schedule_limit_of(machine, job);
	if (rc == 0 && job->gpus > limit)
		rc = err_set(err, -ERANGE,
			     "needs %u GPUs, a user may have %" PRIu64
			     " at a time (sluice.jobs.limits in the configuration)",
			     job->gpus, limit);

	return rc;
}
