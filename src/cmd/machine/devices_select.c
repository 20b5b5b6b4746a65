/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/machine/devices_select.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/parse.h"

enum { SELECT_ID_MAX = 128 }; /* a UUID is shorter */

static void add(uint32_t *places, uint32_t *count, uint32_t place)
{
	for (uint32_t i = 0; i < *count; i++) {
		if (places[i] == place)
			return;
	}
	places[(*count)++] = place;
}

static void add_gpu(struct devices_select *select, uint32_t place)
{
	add(select->gpus, &select->gpu_count, place);
}

/* The GPU that NVML numbers so; gpu_count: there is none. */
static uint32_t by_index(const struct inventory *inventory, uint64_t index)
{
	uint32_t i = 0;
	while (i < inventory->gpu_count && inventory->gpus[i].index != index)
		i++;
	return i;
}

static void add_all(const struct inventory *inventory, struct devices_select *select)
{
	for (uint32_t index = 0; index < GPU_MAX; index++) {
		uint32_t place = by_index(inventory, index);
		if (place < inventory->gpu_count)
			add_gpu(select, place);
	}

	for (uint32_t i = 0; i < select->gpu_count; i++) {
		for (uint32_t m = 0; m < inventory->mig_count && m < DEVICES_SELECT_MIG_MAX; m++) {
			if (inventory->migs[m].parent == select->gpus[i])
				add(select->migs, &select->mig_count, m);
		}
	}

	select->all = true;
}

/* "7:00.0" after the domain: hexadecimal numbers up to each mark. */
static bool take_hex(const char **at, char mark, uint64_t max, uint32_t *out)
{
	const char *stop = strchr(*at, mark);
	uint64_t value;
	if (!stop || parse_hex_span(*at, (size_t)(stop - *at), max, &value) < 0)
		return false;
	*out = (uint32_t)value;
	*at = stop + 1;
	return true;
}

static bool is_address(const struct gpu *gpu, const char *id)
{
	uint32_t domain, bus, device;
	return gpu->has_pci && take_hex(&id, ':', UINT32_MAX, &domain) &&
	       take_hex(&id, ':', UINT8_MAX, &bus) && take_hex(&id, '.', UINT8_MAX, &device) &&
	       strcmp(id, "0") == 0 && gpu->pci.domain == domain && gpu->pci.bus == bus &&
	       gpu->pci.device == device;
}

static bool select_gpu(const struct inventory *inventory, const char *id,
		       struct devices_select *select)
{
	uint64_t index;
	uint32_t place = inventory->gpu_count;

	if (parse_u64(id, 0, UINT32_MAX, &index) == 0)
		place = by_index(inventory, index);

	for (uint32_t i = 0; i < inventory->gpu_count && place == inventory->gpu_count; i++) {
		const struct gpu *gpu = &inventory->gpus[i];
		if ((gpu->uuid[0] && strcasecmp(gpu->uuid, id) == 0) || is_address(gpu, id))
			place = i;
	}

	if (place == inventory->gpu_count)
		return false;

	add_gpu(select, place);
	return true;
}

/* "0:1" */
static bool is_pair(const struct inventory *inventory, const struct mig_device *mig, const char *id)
{
	const char *colon = strchr(id, ':');
	uint64_t index, of_gpu;
	return colon && parse_u64_span(id, (size_t)(colon - id), 0, UINT32_MAX, &index) == 0 &&
	       parse_u64(colon + 1, 0, UINT32_MAX, &of_gpu) == 0 && mig->index == of_gpu &&
	       inventory->gpus[mig->parent].index == index;
}

static bool select_mig(const struct inventory *inventory, const char *id,
		       struct devices_select *select)
{
	for (uint32_t i = 0; i < inventory->mig_count && i < DEVICES_SELECT_MIG_MAX; i++) {
		const struct mig_device *mig = &inventory->migs[i];
		if (!(mig->uuid[0] && strcasecmp(mig->uuid, id) == 0) &&
		    !is_pair(inventory, mig, id))
			continue;

		add(select->migs, &select->mig_count, i);
		add_gpu(select, mig->parent);
		return true;
	}

	return false;
}

/* The next id of a text, empty ones left out. False at the end, or where it is too long for one. */
static bool next_id(const char **at, char out[SELECT_ID_MAX])
{
	while (**at == ',')
		(*at)++;

	size_t length = strcspn(*at, ",");
	if (length == 0 || length >= SELECT_ID_MAX)
		return false;

	memcpy(out, *at, length);
	out[length] = '\0';
	*at += length;

	return true;
}

int devices_select(const struct inventory *inventory, const char *const *texts, size_t count,
		   struct devices_select *out, struct err *err)
{
	struct devices_select select = {.all = false};

	for (size_t i = 0; i < count && !select.all; i++) {
		const char *at = texts[i];
		char id[SELECT_ID_MAX];

		while (!select.all && next_id(&at, id)) {
			if (strcasecmp(id, "all") == 0)
				add_all(inventory, &select);
			else if (strcasecmp(id, "none") != 0 &&
				 !select_gpu(inventory, id, &select) &&
				 !select_mig(inventory, id, &select))
				return err_set(err, -ENODEV,
					       "device error: %s: unknown device; 'sluice devices' "
					       "lists those of this machine",
					       id);
		}

		if (*at && !select.all)
			return err_set(err, -ENODEV, "device error: %.*s...: unknown device",
				       SELECT_ID_MAX, at);
	}

	*out = select;
	return 0;
}

int devices_select_mig(const struct devices_select *visible, const char *const *texts, size_t count,
		       const char *option, bool *out, struct err *err)
{
	bool asked = false;

	for (size_t i = 0; i < count; i++) {
		const char *at = texts[i];
		char id[SELECT_ID_MAX];

		while (!asked && next_id(&at, id)) {
			if (strcasecmp(id, "all") != 0)
				return err_set(err, -EINVAL,
					       "%s error: %s: only 'all' devices are supported",
					       option, id);
			asked = true;
		}

		if (*at && !asked)
			return err_set(err, -EINVAL,
				       "%s error: %.*s...: only 'all' devices are supported",
				       option, SELECT_ID_MAX, at);
	}

	if (asked && !visible->all && visible->mig_count > 0)
		return err_set(err, -EINVAL, "%s error: all: not together with single MIG devices",
			       option);

	*out = asked;
	return 0;
}
