/* SPDX-License-Identifier: Apache-2.0 */
#include "web/metrics.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "web/metrics_page.h"

enum dcgm_memory {
	DCGM_MEMORY_TOTAL,
	DCGM_MEMORY_FREE,
	DCGM_MEMORY_USED,
	DCGM_MEMORY_RESERVED,
};

enum dcgm_kind {
	DCGM_VALUE,
	DCGM_GPU_UTIL,
	DCGM_MEMORY,
	DCGM_FB_RATIO,
	DCGM_ENERGY,
	DCGM_THROTTLE,
	DCGM_ACTIVITY,
	DCGM_XID,
};

struct dcgm_row {
	struct metrics_family family;
	enum dcgm_kind kind;
	uint32_t argument;
	int exponent;
};

#define GAUGE	"gauge"
#define COUNTER "counter"
#define DCGM(old, new, type, kind, argument, exponent, help)                                       \
	{{old, new, type, "", help, ""}, DCGM_##kind, argument, exponent},
static const struct dcgm_row rows[] = {
#include "web/dcgm.def"
};

const struct metrics_family *metrics_dcgm_family(uint32_t index)
{
	return index < array_length(rows) ? &rows[index].family : NULL;
}

/* --- labels ----------------------------------------------------------------------------------- */

struct dcgm_page {
	struct metrics_page *page;
	struct metrics_labels gpu[SNAPSHOT_GPU_MAX];
	struct metrics_labels mig[SNAPSHOT_GPU_MAX][SNAPSHOT_MIG_MAX];
	struct metrics_labels shared[VIEW_HOLDER_MAX]; /* of containers on GPUs that are shared */
	uint8_t util[VIEW_HOLDER_MAX];		       /* their use in percent; 255: not known */
};
enum { UTIL_UNKNOWN = 255 };

#define HOLDER_NONE    UINT32_MAX
#define HOLDER_SEVERAL (UINT32_MAX - 1)

/* The pod that has the GPU (or GPU instance `gi`) to itself, as a place; or HOLDER_*. */
static uint32_t dcgm_sole(const struct view *view, uint32_t gpu, uint32_t gi)
{
	uint32_t sole = HOLDER_NONE;

	for (uint32_t i = 0; i < view->holder_count; i++) {
		const struct view_holder *holder = &view->holder[i];
		if (holder->gpu != gpu || !holder->allocated)
			continue;

		uint32_t its = SNAPSHOT_WHOLE_GPU;

		if (holder->mig != SNAPSHOT_U32_ABSENT)
			its = view->snapshot.gpu[gpu].mig[holder->mig].gi;
		if (its != gi)
			continue;
		if (sole != HOLDER_NONE)
			return HOLDER_SEVERAL;

		sole = i;
	}

	return sole;
}

static void dcgm_label_pod(struct metrics_out *m, const struct view_holder *holder)
{
	metrics_labels_some(m, "container", holder->container);
	metrics_labels_some(m, "namespace", holder->name_space);
	metrics_labels_some(m, "pod", holder->pod);
}

/* "0000:0f:00.0" is "00000000:0F:00.0" there. */
static void dcgm_bus(char out[SNAPSHOT_SHORT_MAX + 8], const char *bus)
{
	size_t at = 0;

	if (strcspn(bus, ":") == 4) {
		memcpy(out, "0000", 4);
		at = 4;
	}

	for (; *bus && at + 1 < SNAPSHOT_SHORT_MAX + 8; bus++)
		out[at++] = (char)toupper((unsigned char)*bus);

	out[at] = '\0';
}

/* The labels in dcgm-exporter's order. `mig` NULL: of the GPU. `holder` NULL: of nobody. */
static struct metrics_labels dcgm_labels(struct metrics_page *page, uint32_t place,
					 const struct snapshot_mig *mig,
					 const struct view_holder *holder, bool vgpu)
{
	struct metrics_out *m = &page->out;
	const struct snapshot_gpu *gpu = &page->view->snapshot.gpu[place];
	char bus[SNAPSHOT_SHORT_MAX + 8], device[32];

	dcgm_bus(bus, gpu->bus);
	(void)snprintf(device, sizeof(device), "nvidia%u", gpu->index);

	struct metrics_labels labels = metrics_labels_begin(m);

	metrics_labels_number(m, "gpu", gpu->index);
	metrics_labels_text(m, "UUID", gpu->uuid);
	metrics_labels_some(m, "pci_bus_id", bus);
	metrics_labels_text(m, "device", device);
	metrics_labels_text(m, "modelName", gpu->name);

	if (mig) {
		metrics_labels_text(m, "GPU_I_PROFILE", mig->profile);
		metrics_labels_number(m, "GPU_I_ID", mig->gi);
	}

	metrics_labels_some(m, page->view->settings.dcgm == VIEW_DCGM_NEW ? "hostname" : "Hostname",
			    page->view->node.host);
	metrics_labels_some(m, "DCGM_FI_DRIVER_VERSION", page->view->snapshot.driver_version);
	if (holder)
		dcgm_label_pod(m, holder);
	if (vgpu && holder->slot != SNAPSHOT_U32_ABSENT)
		metrics_labels_number(m, "vgpu", holder->slot);

	return metrics_labels_end(m, labels);
}

static const struct view_holder *dcgm_owner(const struct view *view, uint32_t gpu, uint32_t gi)
{
	uint32_t sole = dcgm_sole(view, gpu, gi);
	if (sole >= VIEW_HOLDER_MAX)
		return NULL;
	const struct view_holder *holder = &view->holder[sole];
	bool alone =
	    holder->mode == VIEW_EXCLUSIVE || (holder->mode == VIEW_MIG && holder->slot_count == 0);
	return alone && holder->job == 0 && holder->pod[0] != '\0' ? holder : NULL;
}

/* --- containers on GPUs that are shared ------------------------------------------------------- */

/* The sum of its processes' use, where the driver tells that of each. */
static void dcgm_shared_util(struct dcgm_page *dcgm)
{
	const struct view *view = dcgm->page->view;
	memset(dcgm->util, UTIL_UNKNOWN, view->holder_count);

	for (uint32_t i = 0; i < view->process_count; i++) {
		const struct view_process *process = &view->process[i];
		if (process->holder >= view->holder_count ||
		    process->util_sm == SNAPSHOT_U32_ABSENT)
			continue;

		uint32_t sum = dcgm->util[process->holder];
		sum = sum == UTIL_UNKNOWN ? 0 : sum;
		sum = process->util_sm > 100 - sum ? 100 : sum + process->util_sm;
		dcgm->util[process->holder] = (uint8_t)sum;
	}
}

static void dcgm_shared_begin(struct dcgm_page *dcgm)
{
	const struct view *view = dcgm->page->view;
	struct metrics_seen seen = metrics_page_seen(dcgm->page, view->holder_count);

	for (uint32_t i = 0; i < view->holder_count; i++) {
		const struct view_holder *holder = &view->holder[i];

		dcgm->shared[i] = (struct metrics_labels){0};
		if (!view->settings.dcgm_split || !holder->allocated || holder->job != 0 ||
		    holder->pod[0] == '\0' || holder->mig != SNAPSHOT_U32_ABSENT ||
		    (holder->mode != VIEW_TIMESLICE && holder->mode != VIEW_MPS) ||
		    dcgm->gpu[holder->gpu].length == 0)
			continue;

		dcgm->shared[i] =
		    metrics_seen_once(&dcgm->page->out, &seen,
				      dcgm_labels(dcgm->page, holder->gpu, NULL, holder, true));
	}

	dcgm_shared_util(dcgm);
}

static void dcgm_shared(struct dcgm_page *dcgm, const struct dcgm_row *row)
{
	const struct view *view = dcgm->page->view;
	if (!view->settings.dcgm_split)
		return;

	for (uint32_t i = 0; i < view->holder_count; i++) {
		const struct view_holder *holder = &view->holder[i];

		if (dcgm->shared[i].length == 0)
			continue;
		if (row->kind == DCGM_GPU_UTIL && dcgm->util[i] != UTIL_UNKNOWN)
			metrics_out_line(&dcgm->page->out, dcgm->shared[i], NULL, dcgm->util[i], 0);
		if (row->kind == DCGM_MEMORY && row->argument == DCGM_MEMORY_USED &&
		    holder->memory_bytes != SNAPSHOT_U64_ABSENT)
			metrics_out_line_u64(&dcgm->page->out, dcgm->shared[i], NULL,
					     holder->memory_bytes >> 20, 0);
	}
}

/* --- values ----------------------------------------------------------------------------------- */

static void dcgm_value(struct metrics_out *m, const struct dcgm_row *row,
		       struct metrics_labels labels, const struct snapshot_gpu *gpu)
{
	int64_t number;
	bool below_zero =
	    row->argument == SNAPSHOT_TEMPERATURE || row->argument == SNAPSHOT_TEMPERATURE_MEMORY;
	if (row->kind == DCGM_GPU_UTIL && metrics_gpu_has_mig(gpu))
		return;
	if (snapshot_get(gpu, row->argument, &number) && (number >= 0 || below_zero))
		metrics_out_line(m, labels, NULL, number, row->exponent);
}

static uint64_t mig_memory(const struct snapshot_mig *mig, uint32_t what)
{
	switch (what) {
	case DCGM_MEMORY_TOTAL:
		return mig->memory_total;
	case DCGM_MEMORY_FREE:
		return mig->memory_free;
	case DCGM_MEMORY_USED:
		return mig->memory_used;
	default:
		return SNAPSHOT_U64_ABSENT; /* the driver tells it of the GPU only */
	}
}

static void dcgm_memory(struct metrics_out *m, const struct dcgm_row *row,
			struct metrics_labels labels, const struct snapshot_gpu *gpu)
{
	static const uint32_t values[] = {
	    [DCGM_MEMORY_TOTAL] = SNAPSHOT_MEMORY_TOTAL,
	    [DCGM_MEMORY_FREE] = SNAPSHOT_MEMORY_FREE,
	    [DCGM_MEMORY_USED] = SNAPSHOT_MEMORY_USED,
	    [DCGM_MEMORY_RESERVED] = SNAPSHOT_MEMORY_RESERVED,
	};
	int64_t bytes;

	if (snapshot_get(gpu, values[row->argument], &bytes) && bytes >= 0)
		metrics_out_line(m, labels, NULL, bytes >> 20, 0);
}

/* used / (total - reserved) in millionths. */
static void dcgm_fb_ratio(struct metrics_out *m, struct metrics_labels labels,
			  const struct snapshot_gpu *gpu)
{
	int64_t total, used, reserved = 0;
	if (!snapshot_get(gpu, SNAPSHOT_MEMORY_TOTAL, &total) ||
	    !snapshot_get(gpu, SNAPSHOT_MEMORY_USED, &used))
		return;

	(void)snapshot_get(gpu, SNAPSHOT_MEMORY_RESERVED, &reserved); /* 0 where it is not told */
	if (total < 0 || used < 0 || reserved < 0 || total - reserved < 1 << 20 ||
	    used > total - reserved)
		return;

	int shift = total >> 40 ? 20 : 0; /* more than a TiB: a millionth is more than enough */
	uint64_t part = ((uint64_t)used >> shift) * 1000000;

	metrics_out_line_u64(m, labels, NULL, part / ((uint64_t)(total - reserved) >> shift), -6);
}

static void dcgm_xid(struct dcgm_page *dcgm, uint32_t place)
{
	struct metrics_out *m = &dcgm->page->out;
	const struct view *view = dcgm->page->view;
	const struct view_xid *last = NULL;

	for (uint32_t i = 0; i < view->xid_count; i++) {
		const struct view_xid *xid = &view->xid[i];
		if (xid->gpu == place && (!last || xid->last_unix_ns > last->last_unix_ns))
			last = xid;
	}

	struct metrics_labels labels = metrics_labels_begin(m);

	metrics_labels_copy(m, dcgm->gpu[place]);
	metrics_labels_number(m, "err_code", last ? last->xid : 0);

	const char *text = last ? last->text : "No Error";
	metrics_labels_text(m, "err_msg", text[0] ? text : "Unknown Error");
	metrics_out_line(m, metrics_labels_end(m, labels), NULL, last ? last->xid : 0, 0);
}

static void dcgm_gpu(struct dcgm_page *dcgm, const struct dcgm_row *row, uint32_t place)
{
	struct metrics_out *m = &dcgm->page->out;
	const struct snapshot_gpu *gpu = &dcgm->page->view->snapshot.gpu[place];
	const struct view_gpu *more = &dcgm->page->view->gpu[place];
	struct metrics_labels labels = dcgm->gpu[place];
	int64_t number;

	switch (row->kind) {
	case DCGM_VALUE:
	case DCGM_GPU_UTIL:
		dcgm_value(m, row, labels, gpu);
		break;
	case DCGM_MEMORY:
		if (gpu->mig_count == 0 || row->argument == DCGM_MEMORY_RESERVED)
			dcgm_memory(m, row, labels, gpu);
		break;
	case DCGM_FB_RATIO:
		dcgm_fb_ratio(m, labels, gpu);
		break;
	case DCGM_ENERGY:
		if (more->energy_mj != SNAPSHOT_U64_ABSENT)
			metrics_out_line_u64(m, labels, NULL, more->energy_mj, 0);
		break;
	case DCGM_THROTTLE:
		if (more->throttle_ns[row->argument] != SNAPSHOT_U64_ABSENT)
			metrics_out_line_u64(m, labels, NULL, more->throttle_ns[row->argument], 0);
		break;
	case DCGM_ACTIVITY:
		if (gpu->mig_count == 0 &&
		    snapshot_get(gpu, SNAPSHOT_ACTIVITY + row->argument, &number) && number >= 0)
			metrics_out_line(m, labels, NULL, number, row->exponent);
		break;
	case DCGM_XID:
		dcgm_xid(dcgm, place);
		break;
	}
}

static void dcgm_migs(struct dcgm_page *dcgm, const struct dcgm_row *row, uint32_t place)
{
	const struct snapshot_gpu *gpu = &dcgm->page->view->snapshot.gpu[place];

	if (row->kind != DCGM_MEMORY && row->kind != DCGM_ACTIVITY)
		return;

	for (uint32_t i = 0; i < gpu->mig_count; i++) {
		const struct snapshot_mig *mig = &gpu->mig[i];
		if (dcgm->mig[place][i].length == 0)
			continue;

		if (row->kind == DCGM_MEMORY) {
			uint64_t bytes = mig_memory(mig, row->argument);
			if (bytes != SNAPSHOT_U64_ABSENT)
				metrics_out_line_u64(&dcgm->page->out, dcgm->mig[place][i], NULL,
						     bytes >> 20, 0);
		} else if (mig->activity[row->argument] != SNAPSHOT_U32_ABSENT) {
			metrics_out_line(&dcgm->page->out, dcgm->mig[place][i], NULL,
					 mig->activity[row->argument], row->exponent);
		}
	}
}

/* --- all of it -------------------------------------------------------------------------------- */

static void dcgm_begin(struct dcgm_page *dcgm, struct metrics_page *page)
{
	const struct view *view = page->view;

	dcgm->page = page;
	for (uint32_t i = 0; i < view->snapshot.gpu_count; i++) {
		const struct snapshot_gpu *gpu = &view->snapshot.gpu[i];
		dcgm->gpu[i] = (struct metrics_labels){0};

		if (page->gpu[i].length > 0)
			dcgm->gpu[i] = dcgm_labels(page, i, NULL,
						   dcgm_owner(view, i, SNAPSHOT_WHOLE_GPU), false);

		for (uint32_t k = 0; k < gpu->mig_count; k++) {
			dcgm->mig[i][k] = (struct metrics_labels){0};
			if (page->mig[i][k].length > 0 && metrics_mig_is_first(gpu, k))
				dcgm->mig[i][k] =
				    dcgm_labels(page, i, &gpu->mig[k],
						dcgm_owner(view, i, gpu->mig[k].gi), false);
		}
	}

	dcgm_shared_begin(dcgm);
}

void metrics_dcgm(struct metrics_page *page)
{
	struct dcgm_page dcgm;
	bool new = page->view->settings.dcgm == VIEW_DCGM_NEW;

	dcgm_begin(&dcgm, page);

	for (size_t row = 0; row < array_length(rows); row++) {
		const struct metrics_family *family = &rows[row].family;
		metrics_out_family(&page->out, family,
				   new && family->name_new ? family->name_new : family->name);

		for (uint32_t i = 0; i < page->view->snapshot.gpu_count; i++) {
			if (dcgm.gpu[i].length == 0)
				continue;
			dcgm_gpu(&dcgm, &rows[row], i);
			dcgm_migs(&dcgm, &rows[row], i);
		}

		dcgm_shared(&dcgm, &rows[row]);
	}
}
