/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/proof/bench_gpus.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "bench/result.h"
#include "hardware/gpu.h"
#include "hardware/snapshot.h"
#include "probe/client.h"

enum { GPUS_SAMPLES = 1 << 17 }; /* kept; one in a second: a run may take a day and a half */

#define GPUS_LOOK_NS  UINT64_C(100000000)
#define GPUS_START_NS UINT64_C(30000000000)

struct gpus_sample {
	uint64_t taken_ns;
	uint32_t throttle, celsius;
};

struct bench_gpus {
	struct probe_client *client; /* owned; the thread's, once it runs */
	struct inventory inventory;
	pthread_t thread;
	pthread_mutex_t lock; /* of the samples */
	struct gpus_sample samples[GPUS_SAMPLES];
	uint64_t count; /* of all that were ever taken */
	atomic_bool is_ended;
};

static void gpus_take(struct bench_gpus *gpus, const struct snapshot *snapshot)
{
	struct gpus_sample sample = {.taken_ns = snapshot->taken_ns};

	for (uint32_t i = 0; i < snapshot->gpu_count; i++) {
		int64_t value;
		if (snapshot_get(&snapshot->gpu[i], SNAPSHOT_THROTTLE, &value))
			sample.throttle |= (uint32_t)value;
		if (snapshot_get(&snapshot->gpu[i], SNAPSHOT_TEMPERATURE, &value) &&
		    value > (int64_t)sample.celsius)
			sample.celsius = (uint32_t)value;
	}

	(void)pthread_mutex_lock(&gpus->lock);
	gpus->samples[gpus->count++ % GPUS_SAMPLES] = sample;
	(void)pthread_mutex_unlock(&gpus->lock);
}

static void *gpus_watch(void *context)
{
	struct bench_gpus *gpus = context;

	while (!atomic_load(&gpus->is_ended)) {
		struct probe_event event;
		int rc = probe_client_wait(gpus->client, GPUS_LOOK_NS, &event, NULL);
		if (rc > 0 && event.kind == PROBE_EVENT_SNAPSHOT)
			gpus_take(gpus, probe_client_snapshot(gpus->client));
		if (rc < 0)
			break; /* nothing more is known of them */
	}

	return NULL;
}

/* Whether it is worth a process: a driver is loaded, or simulated. */
static bool gpus_are_likely(void)
{
	const char *root = getenv("SLUICE_ROOT");
	char path[FILE_PATH_MAX];
	return file_path(path, NULL, "%s/dev/nvidiactl", root ? root : "") == 0 &&
	       access(path, F_OK) == 0;
}

static bool gpus_know(struct bench_gpus *gpus)
{
	for (uint64_t waited_ns = 0; waited_ns < GPUS_START_NS; waited_ns += GPUS_LOOK_NS) {
		struct probe_event event;
		int rc = probe_client_wait(gpus->client, GPUS_LOOK_NS, &event, NULL);
		if (rc < 0 || (rc > 0 && event.kind == PROBE_EVENT_DRIVER_DOWN))
			return false;
		if (rc > 0 && event.kind == PROBE_EVENT_INVENTORY)
			return inventory_copy(probe_client_inventory(gpus->client),
					      &gpus->inventory) == 0;
	}

	return false;
}

static struct bench_gpus *gpus_free(struct bench_gpus *gpus)
{
	(void)probe_client_stop(gpus->client);
	inventory_done(&gpus->inventory);
	(void)pthread_mutex_destroy(&gpus->lock);
	free(gpus);
	return NULL;
}

struct bench_gpus *bench_gpus_start(void)
{
	const struct probe_options options = {.program = NULL};
	struct bench_gpus *gpus = gpus_are_likely() ? calloc(1, sizeof(*gpus)) : NULL;
	if (!gpus)
		return NULL;

	inventory_init(&gpus->inventory);
	(void)pthread_mutex_init(&gpus->lock, NULL); /* cannot fail with no attributes */

	if (probe_client_start(&options, &gpus->client, NULL) < 0 || !gpus_know(gpus) ||
	    pthread_create(&gpus->thread, NULL, gpus_watch, gpus) != 0)
		return gpus_free(gpus);

	return gpus;
}

struct bench_gpus *bench_gpus_stop(struct bench_gpus *gpus)
{
	if (!gpus)
		return NULL;
	atomic_store(&gpus->is_ended, true);
	(void)pthread_join(gpus->thread, NULL);
	return gpus_free(gpus);
}

const struct inventory *bench_gpus_inventory(const struct bench_gpus *gpus)
{
	return gpus ? &gpus->inventory : NULL;
}

void bench_gpus_look(struct bench_gpus *gpus, struct result_run *run)
{
	if (!gpus)
		return;

	(void)pthread_mutex_lock(&gpus->lock);
	uint64_t kept = gpus->count < GPUS_SAMPLES ? gpus->count : GPUS_SAMPLES;

	for (uint64_t i = 0; i < kept; i++) {
		const struct gpus_sample *sample = &gpus->samples[i];
		if (sample->taken_ns < run->start_ns || sample->taken_ns > run->end_ns)
			continue;

		run->gpu_throttle |= sample->throttle;
		run->gpu_celsius =
		    sample->celsius > run->gpu_celsius ? sample->celsius : run->gpu_celsius;
	}

	(void)pthread_mutex_unlock(&gpus->lock);
}
