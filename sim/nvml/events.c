/* SPDX-License-Identifier: Apache-2.0 */
/* Event sets of devices, and of the driver as a whole. */
#include "events.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "call.h"
#include "handle.h"
#include "impl.h"
#include "session.h"
#include "sim/state.h"

enum { EVENT_SET_MAX = 256, EVENT_TAGS = 64 };

enum event_type {
	EVENT_ECC_CORRECTED = 0x1,
	EVENT_ECC_UNCORRECTED = 0x2,
	EVENT_PSTATE = 0x4,
	EVENT_XID = 0x8,
	EVENT_CLOCK = 0x10,
	EVENT_MIG_CONFIG = 0x100,
	EVENT_SINCE_580 = 0x200 | 0x400 | 0x800 | 0x1000 | 0x2000 | 0x4000 | 0x8000,
	EVENT_DRIVER_UNBIND = 0x1, /* of the system's event sets */
	EVENT_DRIVER_BIND = 0x2,
};

/* A set is an entry of the table; its handle is an address that is compared, never followed, and
 * carries a tag which tells it from an earlier set in the same entry. */
struct event_set {
	bool used, is_system;
	uint8_t tag;
	uint64_t types[SIM_GPU_MAX]; /* wanted of each GPU; [0] alone for a system set */
	uint64_t since[SIM_GPU_MAX]; /* events up to this number came before the registration */
	uint64_t cursor;	     /* events up to this number have been looked at */
	uint32_t bound;		     /* system set: which GPUs had their driver when last seen */
};

static char event_space[EVENT_SET_MAX * EVENT_TAGS];
static struct event_set event_set[EVENT_SET_MAX];
static pthread_mutex_t event_mutex = PTHREAD_MUTEX_INITIALIZER;

void events_lock(void)
{
	pthread_mutex_lock(&event_mutex);
}

void events_unlock(void)
{
	pthread_mutex_unlock(&event_mutex);
}

/* With the lock held: the set behind a handle, or NULL. */
static struct event_set *event_find(const void *handle, bool is_system)
{
	uintptr_t offset = (uintptr_t)handle - (uintptr_t)event_space;
	if (offset >= sizeof(event_space))
		return NULL;
	struct event_set *set = &event_set[offset / EVENT_TAGS];
	if (!set->used || set->tag != offset % EVENT_TAGS || set->is_system != is_system)
		return NULL;
	return set;
}

static unsigned event_create(bool is_system, void **out)
{
	unsigned result = NVML_INSUFFICIENT_RESOURCES;

	events_lock();

	for (uint32_t i = 0; i < EVENT_SET_MAX; i++) {
		struct event_set *set = &event_set[i];
		if (set->used)
			continue;

		uint8_t tag = (uint8_t)((set->tag + 1) % EVENT_TAGS);
		*set = (struct event_set){.used = true, .is_system = is_system, .tag = tag};
		*out = &event_space[i * EVENT_TAGS + tag];
		result = NVML_OK;
		break;
	}

	events_unlock();
	return result;
}

static unsigned event_free(const void *handle, bool is_system)
{
	events_lock();
	struct event_set *set = event_find(handle, is_system);
	if (set)
		set->used = false;
	events_unlock();
	return set ? NVML_OK : NVML_INVALID_ARGUMENT;
}

unsigned impl_EventSetCreate(struct call *call, void **out)
{
	(void)call;
	return event_create(false, out);
}

unsigned impl_EventSetFree(struct call *call, void *handle)
{
	(void)call;
	return event_free(handle, false);
}

static uint64_t event_supported(const struct call *call)
{
	uint64_t types = EVENT_PSTATE | EVENT_XID | EVENT_CLOCK;

	if (call_model(call)->has_ecc)
		types |= EVENT_ECC_CORRECTED | EVENT_ECC_UNCORRECTED;
	if (call_model(call)->has_mig)
		types |= EVENT_MIG_CONFIG;
	if (nvml_age >= 580)
		types |= EVENT_SINCE_580;

	return types;
}

unsigned impl_DeviceGetSupportedEventTypes(struct call *call, uint64_t *out)
{
	*out = event_supported(call);
	return NVML_OK;
}

unsigned impl_DeviceRegisterEvents(struct call *call, uint64_t types, void *handle)
{
	uint64_t last = sim_state_last_event(call->session->state);

	if (types & ~event_supported(call))
		return NVML_NOT_SUPPORTED;

	events_lock();
	struct event_set *set = event_find(handle, false);
	if (set) {
		bool is_first = true;
		for (uint32_t i = 0; i < SIM_GPU_MAX; i++)
			is_first = is_first && set->types[i] == 0;

		if (set->types[call->gpu] == 0)
			set->since[call->gpu] = last;
		if (is_first)
			set->cursor = last;
		set->types[call->gpu] |= types;
	}

	events_unlock();
	return set ? NVML_OK : NVML_INVALID_ARGUMENT;
}

static bool event_wanted(const struct sim_event *event, void *context)
{
	const struct event_set *set = context;
	return !event->silent && event->gpu < SIM_GPU_MAX &&
	       event->number > set->since[event->gpu] && (set->types[event->gpu] & event->type);
}

/* Takes the event for this waiter. False when another thread that waits on the set was faster, or
 * the set is gone. */
static bool event_take(const void *handle, uint64_t to, unsigned *result)
{
	bool is_taken = false;

	events_lock();
	struct event_set *set = event_find(handle, false);
	if (!set) {
		*result = NVML_INVALID_ARGUMENT;
	} else {
		is_taken = set->cursor < to;
		if (is_taken)
			set->cursor = to;
	}

	events_unlock();
	return is_taken;
}

static uint64_t event_now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

unsigned impl_EventSetWait_v2(struct call *call, void *handle, struct nvml_event_data *out,
			      unsigned timeout_ms)
{
	uint64_t until = event_now_ms() + timeout_ms;
	unsigned result = NVML_OK;

	for (;;) {
		struct event_set copy;
		struct sim_event event = {0};
		uint64_t missed = 0, now = event_now_ms();

		events_lock();
		const struct event_set *set = event_find(handle, false);
		if (set)
			copy = *set;
		events_unlock();

		if (!set)
			return NVML_INVALID_ARGUMENT;

		int found = sim_state_wait_event(call->session->state, copy.cursor,
						 now < until ? (uint32_t)(until - now) : 0,
						 event_wanted, &copy, &event, &missed);

		call->missed += missed;
		bool is_taken = event_take(handle, event.number, &result);

		if (result != NVML_OK)
			return result;
		if (!found)
			return NVML_TIMEOUT;
		if (!is_taken)
			continue;

		*out = (struct nvml_event_data){
		    .device = handle_of_gpu(event.gpu),
		    .type = event.type,
		    .data = event.data,
		    .gi = event.gi,
		    .ci = event.ci,
		};
		return NVML_OK;
	}
}

/* --- the system's: a driver was bound to a GPU, or taken away --- */

static uint32_t event_bound(const struct sim_machine *machine)
{
	uint32_t bound = 0;
	for (uint32_t i = 0; i < machine->gpu_count; i++)
		bound |= machine->gpu[i].health != SIM_GPU_UNPLUGGED ? UINT32_C(1) << i : 0;
	return bound;
}

unsigned impl_SystemEventSetCreate(struct call *call,
				   struct nvml_system_event_set_create_request *out)
{
	(void)call;
	if (out->version != NVML_WORD(*out, 1))
		return NVML_ARGUMENT_VERSION_MISMATCH;
	return event_create(true, &out->set);
}

unsigned impl_SystemEventSetFree(struct call *call,
				 struct nvml_system_event_set_free_request *request)
{
	(void)call;
	if (request->version != NVML_WORD(*request, 1))
		return NVML_ARGUMENT_VERSION_MISMATCH;
	return event_free(request->set, true);
}

unsigned impl_SystemRegisterEvents(struct call *call,
				   struct nvml_system_register_event_request *request)
{
	if (request->version != NVML_WORD(*request, 1))
		return NVML_ARGUMENT_VERSION_MISMATCH;
	if (request->types & ~(uint64_t)(EVENT_DRIVER_UNBIND | EVENT_DRIVER_BIND))
		return NVML_NOT_SUPPORTED;

	uint32_t bound = event_bound(sim_state_read(call->session->state));

	sim_state_read_done(call->session->state);
	events_lock();

	struct event_set *set = event_find(request->set, true);
	if (set) {
		if (set->types[0] == 0)
			set->bound = bound;
		set->types[0] |= request->types;
	}

	events_unlock();
	return set ? NVML_OK : NVML_INVALID_ARGUMENT;
}

/* Compares with what the set saw last; the first difference that fits the request. */
static bool event_difference(struct event_set *set, const struct sim_machine *machine,
			     struct nvml_system_event_data *out)
{
	uint32_t differs = event_bound(machine) ^ set->bound;

	for (uint32_t i = 0; i < machine->gpu_count; i++) {
		const struct sim_gpu *gpu = &machine->gpu[i];

		if (!(differs & UINT32_C(1) << i))
			continue;

		set->bound ^= UINT32_C(1) << i;
		out->type =
		    gpu->health == SIM_GPU_UNPLUGGED ? EVENT_DRIVER_UNBIND : EVENT_DRIVER_BIND;
		out->gpu_id = gpu->pci_domain << 16 | gpu->pci_bus << 8 | gpu->pci_device << 3;
		if (set->types[0] & out->type)
			return true;
	}

	return false;
}

unsigned impl_SystemEventSetWait(struct call *call,
				 struct nvml_system_event_set_wait_request *request)
{
	const struct timespec pause = {0, 20000000};
	uint64_t until = event_now_ms() + request->timeout_ms;

	if (request->version != NVML_WORD(*request, 1))
		return NVML_ARGUMENT_VERSION_MISMATCH;
	if (!request->data || request->size == 0)
		return NVML_INVALID_ARGUMENT;

	for (;;) {
		request->count = 0;
		const struct sim_machine *machine = sim_state_read(call->session->state);

		events_lock();
		struct event_set *set = event_find(request->set, true);
		while (set && request->count < request->size &&
		       event_difference(set, machine, &request->data[request->count]))
			request->count++;

		events_unlock();
		sim_state_read_done(call->session->state);
		if (!set)
			return NVML_INVALID_ARGUMENT;
		if (request->count > 0)
			return NVML_OK;

		if (event_now_ms() >= until)
			return NVML_TIMEOUT;

		nanosleep(&pause, NULL);
	}
}
