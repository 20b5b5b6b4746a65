/* SPDX-License-Identifier: Apache-2.0 */
#include "call.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "follow.h"
#include "handle.h"
#include "impl.h"
#include "session.h"
#include "sim/state.h"

/* How often a rule has matched in this process, for its `after` and `count`. */
static struct {
	_Atomic uint32_t id;
	_Atomic uint32_t seen;
} call_seen[SIM_RULE_MAX];

/* Without "nvml". */
static const char *call_name(unsigned function)
{
	return function_names + function_row[function].name;
}

static uint64_t call_now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Where the call log goes: $SLUICE_SIM_LOG, else what `sluice sim log` set; "" when it is off. */
static const char *call_log_path(const struct sim_machine *machine)
{
	static _Atomic(const char *) environment;
	const char *path = atomic_load_explicit(&environment, memory_order_acquire);
	if (!path) {
		path = getenv("SLUICE_SIM_LOG");
		path = path ? path : "";
		atomic_store_explicit(&environment, path, memory_order_release);
	}

	return *path ? path : machine->log;
}

/* One line, one write: lines of many processes never mix. */
static void call_write_log(const struct call *call)
{
	char line[256], path[SIM_PATH_MAX], device[40] = "-";
	struct timespec now;

	snprintf(path, sizeof(path), "%s", call_log_path(sim_state_read(call->session->state)));
	sim_state_read_done(call->session->state);

	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return;

	clock_gettime(CLOCK_REALTIME, &now);
	if (call->gpu != SIM_WHOLE_GPU && call->gi != SIM_WHOLE_GPU)
		snprintf(device, sizeof(device), "%u/%u/%u", call->gpu, call->gi, call->ci);
	else if (call->gpu != SIM_WHOLE_GPU)
		snprintf(device, sizeof(device), "%u", call->gpu);

	char missed[48] = "";
	if (call->missed)
		snprintf(missed, sizeof(missed), " missed %llu", (unsigned long long)call->missed);

	int length = snprintf(line, sizeof(line), "%lld.%06ld %d %ld nvml%s %s %u %llu%s\n",
			      (long long)now.tv_sec, now.tv_nsec / 1000, getpid(),
			      syscall(SYS_gettid), call_name(call->function), device, call->result,
			      (unsigned long long)(call_now_ns() - call->began_ns) / 1000, missed);
	(void)!write(fd, line, (size_t)length); /* a full disk must not disturb the program */
	close(fd);
}

/* A rule for "nvmlDeviceGetUUID" also means its versioned names. */
static bool call_names_match(const char *rule, const char *name)
{
	size_t length = strnlen(rule, 80);
	if (length == 3 && memcmp(rule, "any", 3) == 0)
		return true;
	if (length < 4 || memcmp(rule, "nvml", 4) != 0)
		return false;

	rule += 4;
	length -= 4;
	if (strncmp(rule, name, length) != 0)
		return false;

	return name[length] == '\0' || (name[length] == '_' && name[length + 1] == 'v' &&
					name[length + 2] >= '0' && name[length + 2] <= '9');
}

/* `looked_up`: the GPU was found by the call itself; what holds for every GPU has been applied, and
 * "any" means the calls on a device's handle. */
static bool call_rule_matches(const struct call *call, const struct sim_rule *rule, bool looked_up)
{
	bool is_ours = rule->gpu == call->gpu && rule->gpu != SIM_WHOLE_GPU;
	if (looked_up)
		is_ours = is_ours && memcmp(rule->function, "any", 4) != 0;
	else
		is_ours = is_ours || rule->gpu == SIM_WHOLE_GPU;
	return is_ours && call_names_match(rule->function, call_name(call->function));
}

/* Counts a match against the rule's `after` (let so many pass) and `count` (then so many). */
static bool call_rule_is_due(uint32_t slot, const struct sim_rule *rule)
{
	if (rule->after == 0 && rule->count == 0)
		return true;
	if (atomic_exchange(&call_seen[slot].id, rule->id) != rule->id)
		atomic_store(&call_seen[slot].seen, 0);
	uint32_t seen = atomic_fetch_add(&call_seen[slot].seen, 1);
	return seen >= rule->after && (rule->count == 0 || seen - rule->after < rule->count);
}

/*
 * Waits `delay_ms`, or, when `rule` is not 0, until the rule is gone (and at most delay_ms if that
 * is not 0). The machine is not locked meanwhile, and like a call that is stuck in a driver it
 * answers no signal but KILL.
 */
static void call_wait(struct call *call, uint32_t rule, uint32_t delay_ms)
{
	struct sim_state *state = call->session->state;
	const struct timespec pause = {0, 5000000};
	sigset_t all, before;
	uint64_t until = call_now_ns() + (uint64_t)delay_ms * 1000000;

	sim_state_read_done(state);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);

	for (bool standing = true; standing;) {
		uint64_t now = call_now_ns();
		if (delay_ms && now >= until)
			break;

		if (delay_ms && until - now < 5000000) {
			struct timespec rest = {0, (long)(until - now)};
			nanosleep(&rest, NULL);
			continue;
		}

		nanosleep(&pause, NULL);
		if (!rule)
			continue;

		const struct sim_machine *machine = sim_state_read(state);

		standing = false;
		for (uint32_t i = 0; i < SIM_RULE_MAX; i++)
			standing = standing || (machine->rule[i].kind == SIM_RULE_HANG &&
						machine->rule[i].id == rule);

		sim_state_read_done(state);
	}

	pthread_sigmask(SIG_SETMASK, &before, NULL);
	call->machine = sim_state_read(state);
}

/* Applies the standing faults. Returns the code to answer with, or -1. */
static int call_fault(struct call *call, bool looked_up)
{
	int forced = -1;

	for (uint32_t i = 0; i < SIM_RULE_MAX; i++) {
		struct sim_rule rule = {.kind = call->machine->rule[i].kind};
		if (rule.kind == SIM_RULE_NONE)
			continue;

		rule = call->machine->rule[i];
		if (!call_rule_matches(call, &rule, looked_up) || !call_rule_is_due(i, &rule))
			continue;

		if (rule.kind == SIM_RULE_RETURN && forced < 0)
			forced = (int)rule.result;
		else if (rule.kind == SIM_RULE_SLOW)
			call_wait(call, 0, rule.delay_ms);
		else if (rule.kind == SIM_RULE_HANG)
			call_wait(call, rule.id, rule.delay_ms);
	}

	if (call->function == FUNCTION_nvmlDeviceGetPcieThroughput &&
	    (call->machine->quirks & SIM_QUIRK_SLOWPCIE))
		call_wait(call, 0, 20);

	return forced;
}

int call_is_about(struct call *call, uint32_t gpu)
{
	call->gpu = gpu;
	return call_fault(call, true);
}

static unsigned call_resolve(struct call *call, const void *handle)
{
	struct handle_target target = {SIM_WHOLE_GPU, SIM_WHOLE_GPU, SIM_WHOLE_GPU};
	unsigned result = NVML_OK;

	switch ((enum function_handle)function_row[call->function].handle) {
	case HANDLE_NONE:
		break;
	case HANDLE_DEVICE:
	case HANDLE_GPU:
		result = handle_device(call->machine, handle, &target);
		break;
	case HANDLE_GI:
		result = handle_gi(call->machine, handle, &target);
		break;
	case HANDLE_CI:
		result = handle_ci(call->machine, handle, &target);
		break;
	}
	call->gpu = target.gpu;
	call->gi = target.gi;
	call->ci = target.ci;

	/* A handle of a GPU that this process must not see was guessed, not given. */
	if (result == NVML_OK && call->gpu != SIM_WHOLE_GPU &&
	    session_index_of(call->session, call->gpu) == SIM_WHOLE_GPU)
		result = NVML_INVALID_ARGUMENT;

	return result;
}

static unsigned call_health(const struct call *call)
{
	if (call->gpu == SIM_WHOLE_GPU)
		return NVML_OK;

	switch ((enum sim_health)call_gpu(call)->health) {
	case SIM_GPU_OK:
		return NVML_OK;
	case SIM_GPU_LOST:
	case SIM_GPU_UNPLUGGED:
		return NVML_GPU_IS_LOST;
	case SIM_GPU_RESET_REQUIRED:
		/* Field 230 says what to do about it; the other fields refuse one by one. */
		return call->function == FUNCTION_nvmlDeviceGetFieldValues ? NVML_OK
									   : NVML_RESET_REQUIRED;
	}

	return NVML_UNKNOWN;
}

/* Initialises `call`; false without a session. */
static bool call_enter(struct call *call, unsigned function, const void *handle)
{
	call->session = session_ref();
	call->machine = NULL;
	call->change = NULL;
	call->in_trees = false;
	call->missed = 0;
	call->function = function;
	call->result = NVML_UNINITIALIZED;
	call->gpu = call->gi = call->ci = SIM_WHOLE_GPU;
	call->began_ns = 0;
	if (!call->session)
		return false;

	call->machine = sim_state_read(call->session->state);
	call->result = call_resolve(call, handle);
	if (*call_log_path(call->machine))
		call->began_ns = call_now_ns();

	return true;
}

static void call_release(struct call *call)
{
	if (call->machine && !call->change)
		sim_state_read_done(call->session->state);
	call->machine = NULL;
}

bool call_begin(struct call *call, unsigned function, void *handle, bool missing)
{
	const struct function_row *row = &function_row[function];

	if (!call_enter(call, function, handle))
		return false;

	int forced = call_fault(call, false);
	if (forced >= 0) {
		call->result = (unsigned)forced;
		return false;
	}

	if (call->result == NVML_OK && missing)
		call->result = NVML_INVALID_ARGUMENT;
	if (call->result == NVML_OK)
		call->result = call_health(call);
	if (call->result == NVML_OK && row->handle == HANDLE_GPU && call_is_mig(call))
		call->result = NVML_NOT_SUPPORTED;
	if (call->result != NVML_OK)
		return false;

	if (row->kind == KIND_FREE) {
		call_release(call);
	} else if (row->kind == KIND_WRITE) {
		call_release(call);
		call->change = sim_state_write(call->session->state);
		call->machine = call->change;
		if (!call->change)
			call->result = NVML_NO_PERMISSION;
		else
			call->result = call_resolve(call, handle);
	}

	return call->result == NVML_OK;
}

unsigned call_end(struct call *call)
{
	if (!call->session)
		return call->result;
	if (call->change && call->result == NVML_OK && call->in_trees)
		follow_machine(call->change);
	if (call->change && call->result == NVML_OK)
		sim_state_commit(call->session->state);
	else if (call->change)
		sim_state_abort(call->session->state);

	call_release(call);
	if (call->began_ns)
		call_write_log(call);
	session_unref(call->session);

	return call->result;
}

unsigned call_stub(unsigned function, void *handle)
{
	struct call call;
	if (call_enter(&call, function, handle)) {
		int forced = call_fault(&call, false);
		unsigned health = call_health(&call);
		call.result = forced >= 0	  ? (unsigned)forced
			      : health != NVML_OK ? health
						  : NVML_NOT_SUPPORTED;
	}

	return call_end(&call);
}

unsigned text_out(const char *text, char *out, unsigned length)
{
	size_t need = strlen(text) + 1;
	if (length < need)
		return NVML_INSUFFICIENT_SIZE;
	memcpy(out, text, need);
	return NVML_OK;
}

unsigned array_out(const void *from, unsigned have, size_t size, void *to, unsigned *count)
{
	unsigned room = to ? *count : 0;
	*count = have;
	if (have > room)
		return NVML_INSUFFICIENT_SIZE;
	if (have)
		memcpy(to, from, have * size);
	return NVML_OK;
}
