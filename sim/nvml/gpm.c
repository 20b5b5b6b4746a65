/* SPDX-License-Identifier: Apache-2.0 */
/* GPU performance monitoring: two samples of counters give the means over the time between. */
#include "gpm.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "call.h"
#include "impl.h"

enum { GPM_SAMPLE_MAX = 1024, GPM_TAGS = 64, GPM_MANY = 1024 };

struct gpm_sample {
	bool used, taken;
	uint8_t tag;
	uint32_t gpu, gi;
	uint64_t tick;
	uint64_t busy, tensor, dram; /* permille ticks */
	uint64_t pcie_tx, pcie_rx, nvlink_tx, nvlink_rx;
	uint32_t dec_permille, jpg_permille, ofa_permille;
	uint32_t link_count;
};

static char gpm_space[GPM_SAMPLE_MAX * GPM_TAGS];
static struct gpm_sample gpm_sample[GPM_SAMPLE_MAX];
static pthread_mutex_t gpm_mutex = PTHREAD_MUTEX_INITIALIZER;

void gpm_lock(void)
{
	pthread_mutex_lock(&gpm_mutex);
}

void gpm_unlock(void)
{
	pthread_mutex_unlock(&gpm_mutex);
}

/* With the lock held. */
static struct gpm_sample *gpm_find(const void *handle)
{
	uintptr_t offset = (uintptr_t)handle - (uintptr_t)gpm_space;
	if (offset >= sizeof(gpm_space))
		return NULL;
	struct gpm_sample *sample = &gpm_sample[offset / GPM_TAGS];
	return sample->used && sample->tag == offset % GPM_TAGS ? sample : NULL;
}

unsigned impl_GpmSampleAlloc(struct call *call, void **out)
{
	unsigned result = NVML_MEMORY;

	(void)call;
	gpm_lock();

	for (uint32_t i = 0; i < GPM_SAMPLE_MAX; i++) {
		if (gpm_sample[i].used)
			continue;

		uint8_t tag = (uint8_t)((gpm_sample[i].tag + 1) % GPM_TAGS);
		gpm_sample[i] = (struct gpm_sample){.used = true, .tag = tag};
		*out = &gpm_space[i * GPM_TAGS + tag];
		result = NVML_OK;
		break;
	}

	gpm_unlock();
	return result;
}

unsigned impl_GpmSampleFree(struct call *call, void *handle)
{
	(void)call;
	gpm_lock();
	struct gpm_sample *sample = gpm_find(handle);
	if (sample)
		sample->used = false;
	gpm_unlock();
	return sample ? NVML_OK : NVML_INVALID_ARGUMENT;
}

unsigned impl_GpmQueryDeviceSupport(struct call *call, struct nvml_gpm_support *out)
{
	/* The version is the plain number here, not a word with the size. */
	if (out->version != 1)
		return NVML_ARGUMENT_VERSION_MISMATCH;
	out->supported = call_model(call)->has_gpm;
	return NVML_OK;
}

unsigned impl_GpmQueryIfStreamingEnabled(struct call *call, unsigned *out)
{
	if (!call_model(call)->has_gpm)
		return NVML_NOT_SUPPORTED;
	*out = 0;
	return NVML_OK;
}

/* Of an instance: what its processes did, as parts of its own SMs. */
static void gpm_instance(const struct call *call, uint32_t gi, uint64_t *out_busy,
			 uint64_t *out_tensor)
{
	const struct sim_gpu *gpu = call_gpu(call);
	const struct sim_model *model = call_model(call);
	uint64_t busy = 0, tensor = 0;

	for (uint32_t i = 0; i < SIM_PROCESS_MAX; i++) {
		const struct sim_process *process = &gpu->process[i];
		if (!process->pid || process->gi != gi)
			continue;
		busy += process->sm_busy_permille_ticks;
		tensor += process->sm_busy_permille_ticks * process->tensor_permille / 1000;
	}

	for (uint32_t i = 0; i < SIM_GI_MAX; i++) {
		const struct sim_mig_profile *row = &model->mig_profile[gpu->gi[i].profile];
		if (!gpu->gi[i].used || gpu->gi[i].id != gi || row->sm_count == 0)
			continue;
		busy = busy * model->sm_count / row->sm_count;
		tensor = tensor * model->sm_count / row->sm_count;
	}

	*out_busy = busy;
	*out_tensor = tensor;
}

/* `gi`: id of an instance, or SIM_WHOLE_GPU. */
static unsigned gpm_take(const struct call *call, uint32_t gi, const void *handle)
{
	const struct sim_gpu *gpu = call_gpu(call);
	uint64_t busy = gpu->gpm_busy_permille_ticks, tensor = gpu->gpm_tensor_permille_ticks;

	if (gi != SIM_WHOLE_GPU)
		gpm_instance(call, gi, &busy, &tensor);
	gpm_lock();

	struct gpm_sample *sample = gpm_find(handle);
	if (sample) {
		*sample = (struct gpm_sample){
		    .used = true,
		    .taken = true,
		    .tag = sample->tag,
		    .gpu = call->gpu,
		    .gi = gi,
		    .tick = call->machine->tick,
		    .busy = busy,
		    .tensor = tensor,
		    .dram = gi == SIM_WHOLE_GPU ? gpu->gpm_dram_permille_ticks : busy / 2,
		    .pcie_tx = gpu->pcie_tx_bytes,
		    .pcie_rx = gpu->pcie_rx_bytes,
		    .nvlink_tx = gpu->nvlink_tx_bytes,
		    .nvlink_rx = gpu->nvlink_rx_bytes,
		    .dec_permille = gpu->dec_permille,
		    .jpg_permille = gpu->jpg_permille,
		    .ofa_permille = gpu->ofa_permille,
		    .link_count = call_model(call)->link_count,
		};
	}

	gpm_unlock();
	return sample ? NVML_OK : NVML_INVALID_ARGUMENT;
}

unsigned impl_GpmSampleGet(struct call *call, void *handle)
{
	if (!call_model(call)->has_gpm)
		return NVML_NOT_SUPPORTED;
	return gpm_take(call, SIM_WHOLE_GPU, handle);
}

unsigned impl_GpmMigSampleGet(struct call *call, unsigned gi, void *handle)
{
	if (!call_model(call)->has_gpm)
		return NVML_NOT_SUPPORTED;
	for (uint32_t i = 0; i < SIM_GI_MAX; i++) {
		if (call_gpu(call)->gi[i].used && call_gpu(call)->gi[i].id == gi)
			return gpm_take(call, gi, handle);
	}
	return NVML_NOT_FOUND;
}

/* Percent between two integrals over `ticks`. */
static double gpm_percent(uint64_t from, uint64_t to, uint64_t ticks)
{
	return to > from ? (double)(to - from) / (double)ticks / 10.0 : 0;
}

/* MiB per second. */
static double gpm_rate(uint64_t from, uint64_t to, uint64_t ticks)
{
	double seconds = (double)ticks / SIM_TICKS_PER_SECOND;
	return to > from ? (double)(to - from) / 1048576.0 / seconds : 0;
}

static unsigned gpm_traffic(const struct gpm_sample *a, const struct gpm_sample *b, unsigned id,
			    double *out)
{
	uint64_t ticks = b->tick - a->tick;
	double transmit = gpm_rate(a->nvlink_tx, b->nvlink_tx, ticks);
	double receive = gpm_rate(a->nvlink_rx, b->nvlink_rx, ticks);

	if (id == 20) {
		*out = gpm_rate(a->pcie_tx, b->pcie_tx, ticks);
	} else if (id == 21) {
		*out = gpm_rate(a->pcie_rx, b->pcie_rx, ticks);
	} else if (b->link_count == 0 || id > 97) {
		return NVML_NOT_SUPPORTED;
	} else if (id < 62) {
		*out = id == 60 ? receive : transmit;
	} else if ((id - 62) / 2 < b->link_count) {
		*out = (id % 2 == 0 ? receive : transmit) / b->link_count;
	} else {
		return NVML_NOT_SUPPORTED;
	}

	return NVML_OK;
}

/* The numbers are those of nvmlGpmMetricId_t. */
static unsigned gpm_value(const struct gpm_sample *a, const struct gpm_sample *b, unsigned id,
			  double *out)
{
	uint64_t ticks = b->tick - a->tick;
	double busy = gpm_percent(a->busy, b->busy, ticks);
	double tensor = gpm_percent(a->tensor, b->tensor, ticks);

	switch (id) {
	case 1: /* graphics */
	case 2: /* SM */
		*out = busy;
		return NVML_OK;
	case 3: /* occupancy */
		*out = busy * 0.75;
		return NVML_OK;
	case 4: /* integer */
		*out = busy * 0.2;
		return NVML_OK;
	case 5: /* any tensor */
	case 7: /* half-precision tensor */
		*out = tensor;
		return NVML_OK;
	case 10:
		*out = gpm_percent(a->dram, b->dram, ticks);
		return NVML_OK;
	case 12: /* single precision: what is not on tensor cores */
		*out = busy > tensor ? busy - tensor : 0;
		return NVML_OK;
	case 6:	 /* double-precision tensor */
	case 9:	 /* integer tensor */
	case 11: /* double precision */
	case 13: /* half precision */
		*out = 0;
		return NVML_OK;
	case 30: /* decoder 0 */
		*out = b->dec_permille / 10.0;
		return NVML_OK;
	case 40: /* JPEG 0 */
		*out = b->jpg_permille / 10.0;
		return NVML_OK;
	case 50: /* optical flow 0 */
		*out = b->ofa_permille / 10.0;
		return NVML_OK;
	default:
		if (id == 20 || id == 21 || (id >= 60 && id <= 97))
			return gpm_traffic(a, b, id, out);

		return NVML_NOT_SUPPORTED;
	}
}

/* The array's declared length differs from driver to driver: only `count` entries are touched. */
unsigned impl_GpmMetricsGet(struct call *call, struct nvml_gpm_metrics_get *get)
{
	struct gpm_sample a = {0}, b = {0};

	(void)call;
	if (get->version != 1)
		return NVML_ARGUMENT_VERSION_MISMATCH;
	if (get->count > GPM_MANY)
		return NVML_INVALID_ARGUMENT;

	gpm_lock();
	const struct gpm_sample *first = gpm_find(get->sample[0]);
	const struct gpm_sample *second = gpm_find(get->sample[1]);
	if (first && second) {
		a = *first;
		b = *second;
	}

	gpm_unlock();
	if (!a.taken || !b.taken || a.gpu != b.gpu || a.gi != b.gi)
		return NVML_INVALID_ARGUMENT;

	struct nvml_gpm_metric *metric = get->metric;

	for (unsigned i = 0; i < get->count; i++, metric++) {
		bool is_traffic = metric->id == 20 || metric->id == 21 || metric->id >= 60;

		metric->value = 0;
		metric->result =
		    b.tick > a.tick ? gpm_value(&a, &b, metric->id, &metric->value) : NVML_NO_DATA;
		metric->short_name = metric->long_name = "simulated";
		metric->unit = is_traffic ? "MiB/s" : "%";
	}

	return NVML_OK;
}
