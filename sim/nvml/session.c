/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>
#include <unistd.h>

#include "api.h"
#include "call.h"
#include "events.h"
#include "gpm.h"
#include "handle.h"
#include "sim/error.h"
#include "sim/profile.h"
#include "sim/state.h"

/* What the library says it is when there is no machine to ask. */
static const struct {
	int age;
	const char *driver;
	uint32_t cuda;
} session_default[] = {
    {470, "470.256.02", 11040},
    {535, "535.183.01", 12020},
    {580, "580.105.08", 13000},
    {590, "590.44.01", 13010},
};

static pthread_mutex_t session_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct session *session_current;
static unsigned session_opened;		  /* Init minus Shutdown */
static struct sim_state *session_private; /* the machine of $SLUICE_SIM_PROFILE, kept for good */
static bool session_prepared;

/* The state itself knows how to live on in a child. */
static void session_before_fork(void)
{
	pthread_mutex_lock(&session_mutex);
	events_lock();
	gpm_lock();
	handle_lock();
}

static void session_after_fork(void)
{
	handle_unlock();
	gpm_unlock();
	events_unlock();
	pthread_mutex_unlock(&session_mutex);
}

struct session *session_ref(void)
{
	pthread_mutex_lock(&session_mutex);
	struct session *session = session_opened > 0 ? session_current : NULL;
	if (session)
		session->references++;
	pthread_mutex_unlock(&session_mutex);
	return session;
}

/* With the mutex held. */
static void session_drop(struct session *session)
{
	if (--session->references > 0)
		return;
	if (session->state != session_private)
		sim_state_close(session->state);
	free(session);
}

void session_unref(struct session *session)
{
	pthread_mutex_lock(&session_mutex);
	session_drop(session);
	pthread_mutex_unlock(&session_mutex);
}

/* With $SLUICE_SIM_PROFILE and no state file: a machine of this process alone. */
static unsigned session_make_private(const char *profile)
{
	if (session_private)
		return NVML_OK;

	struct sim_machine *machine = calloc(1, sizeof(*machine));
	if (!machine)
		return NVML_MEMORY;

	struct sim_error error = {0};
	struct sim_options options = {0};
	unsigned result = NVML_OK;

	if (sim_profile_load(profile, &options, machine, &error) < 0) {
		fprintf(stderr, "libnvidia-ml (simulated): SLUICE_SIM_PROFILE: %s\n", error.text);
		result = NVML_DRIVER_NOT_LOADED;
	} else if (sim_state_private(machine, &session_private) != 0) {
		result = NVML_MEMORY;
	}

	free(machine);
	return result;
}

static unsigned session_open_state(struct sim_state **out)
{
	char path[SIM_PATH_MAX];
	struct sim_error error = {0};
	const char *profile = getenv("SLUICE_SIM_PROFILE");
	unsigned result;

	switch (sim_state_open(sim_state_default_path(path), out, &error)) {
	case SIM_OPEN_OK:
		return NVML_OK;
	case SIM_OPEN_NONE:
		if (!profile || !*profile)
			return NVML_DRIVER_NOT_LOADED;

		result = session_make_private(profile);
		*out = session_private;
		return result;
	case SIM_OPEN_VERSION:
		fprintf(stderr, "libnvidia-ml (simulated): %s\n", error.text);
		return NVML_VERSION_MISMATCH;
	case SIM_OPEN_FOREIGN:
		fprintf(stderr, "libnvidia-ml (simulated): %s\n", error.text);
		return NVML_NO_PERMISSION;
	case SIM_OPEN_FAILED:
		break;
	}
	fprintf(stderr, "libnvidia-ml (simulated): %s\n", error.text);

	return errno == EACCES ? NVML_NO_PERMISSION : NVML_UNKNOWN;
}

/* The age of library that fits a driver version: the newest that is not newer. */
static int session_age_of(const char *version)
{
	int major = 0;
	for (const char *c = version; *c >= '0' && *c <= '9' && major < 10000; c++)
		major = major * 10 + (*c - '0');
	return major >= 590 ? 590 : major >= 580 ? 580 : major >= 535 ? 535 : 470;
}

/* May this process open the GPU's node? A node without a driver behind it gives ENXIO; a device
 * cgroup denies with EPERM before the driver is asked. */
static bool session_sees(const struct sim_machine *machine, const struct sim_gpu *gpu)
{
	if (gpu->health == SIM_GPU_UNPLUGGED)
		return false;
	if (machine->visibility == SIM_VISIBLE_ALL)
		return true;

	char path[SIM_PATH_MAX + 32];
	const char *stem = machine->dev_style == SIM_DEV_OPENABLE ? "sluice-sim" : "nvidia";

	snprintf(path, sizeof(path), "%s/dev", machine->root);
	/* Inside a container the trees are /dev itself, and the root is out of sight. */
	const char *root = machine->root[0] && access(path, F_OK) == 0 ? machine->root : "";
	snprintf(path, sizeof(path), "%s/dev/%s%u", root, stem, gpu->minor);

	int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0)
		close(fd);

	return fd >= 0 || errno == ENXIO;
}

static uint64_t session_now_us(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* What the machine says about Init itself, and which GPUs there are for us. */
static unsigned session_survey(struct session *session, unsigned *out_delay_ms)
{
	const struct sim_machine *machine = sim_state_read(session->state);
	unsigned result = NVML_OK;
	unsigned cold = 0;

	if (machine->driver_state == SIM_DRIVER_NONE)
		result = NVML_DRIVER_NOT_LOADED;
	else if (machine->driver_state == SIM_DRIVER_NO_PERMISSION)
		result = NVML_NO_PERMISSION;
	else if (machine->driver_state == SIM_DRIVER_MISMATCH ||
		 session_age_of(machine->driver_version) != nvml_age)
		result = NVML_VERSION_MISMATCH;

	for (uint32_t i = 0; i < machine->gpu_count && i < SIM_GPU_MAX; i++) {
		if (!session_sees(machine, &machine->gpu[i]))
			continue;
		session->visible[session->visible_count++] = i;
		cold += !machine->gpu[i].persistence;
	}

	if (machine->quirks & SIM_QUIRK_NO_PERSISTENCE)
		*out_delay_ms = cold * 1200;
	/* Virtual time starts on 2026-01-01, whatever the day is: readings stay reproducible. */
	session->tick0_us = machine->clock == SIM_CLOCK_VIRTUAL
				? UINT64_C(1767225600000000)
				: session_now_us() - machine->tick * (SIM_TICK_NS / 1000);
	sim_state_read_done(session->state);

	return result;
}

static unsigned session_new(struct session **out)
{
	/* A program that runs with more rights than its user must not follow the user's environment
	 * to a file. */
	if (getauxval(AT_SECURE))
		return NVML_NO_PERMISSION;

	struct session *session = calloc(1, sizeof(*session));
	if (!session)
		return NVML_MEMORY;

	session->references = 1;
	unsigned delay_ms = 0;
	unsigned result = session_open_state(&session->state);
	if (result != NVML_OK) {
		free(session);
		return result;
	}

	result = session_survey(session, &delay_ms);
	if (result != NVML_OK) {
		session_drop(session);
		return result;
	}

	struct timespec pause = {delay_ms / 1000, (long)(delay_ms % 1000) * 1000000};

	if (delay_ms)
		nanosleep(&pause, NULL);
	*out = session;
	return NVML_OK;
}

unsigned session_open(unsigned flags)
{
	(void)flags; /* a machine without GPUs is no error here, and nothing is attached */
	pthread_mutex_lock(&session_mutex);

	unsigned result = NVML_OK;

	if (!session_prepared)
		session_prepared = pthread_atfork(session_before_fork, session_after_fork,
						  session_after_fork) == 0;
	if (session_opened == 0)
		result = session_new(&session_current);
	if (result == NVML_OK)
		session_opened++;
	pthread_mutex_unlock(&session_mutex);

	return result;
}

unsigned session_close(void)
{
	unsigned result = NVML_OK;

	pthread_mutex_lock(&session_mutex);
	if (session_opened == 0) {
		result = NVML_UNINITIALIZED;
	} else if (--session_opened == 0) {
		session_drop(session_current);
		session_current = NULL;
	}

	pthread_mutex_unlock(&session_mutex);
	return result;
}

uint32_t session_index_of(const struct session *session, uint32_t gpu)
{
	for (uint32_t i = 0; i < session->visible_count; i++) {
		if (session->visible[i] == gpu)
			return i;
	}
	return SIM_WHOLE_GPU;
}

uint64_t session_time_us(const struct session *session, uint64_t tick)
{
	return session->tick0_us + tick * (SIM_TICK_NS / 1000);
}

void session_versions(char driver[32], uint32_t *out_cuda)
{
	for (size_t i = 0; i < sizeof(session_default) / sizeof(session_default[0]); i++) {
		if (session_default[i].age == nvml_age) {
			snprintf(driver, 32, "%s", session_default[i].driver);
			*out_cuda = session_default[i].cuda;
		}
	}

	struct session *session = session_ref();
	struct sim_state *state = session ? session->state : NULL;

	if (!state && !getauxval(AT_SECURE)) {
		char path[SIM_PATH_MAX];
		struct sim_error error;
		if (sim_state_open(sim_state_default_path(path), &state, &error) != SIM_OPEN_OK)
			state = NULL;
	}

	if (!state)
		return;

	const struct sim_machine *machine = sim_state_read(state);
	if (session_age_of(machine->driver_version) == nvml_age) {
		memcpy(driver, machine->driver_version, 32);
		driver[31] = '\0';
		*out_cuda = machine->cuda_version;
	}

	sim_state_read_done(state);
	if (session)
		session_unref(session);
	else
		sim_state_close(state);
}
