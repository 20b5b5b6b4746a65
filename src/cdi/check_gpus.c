/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs and MIG devices of a file against those that the driver lists. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/parse.h"
#include "base/text.h"
#include "cdi/check_internal.h"
#include "hardware/gpu.h"
#include "hardware/minors.h"

enum check_named { CHECK_NAMED_OTHER, CHECK_NAMED_GPU, CHECK_NAMED_MIG, CHECK_NAMED_ALL };

/* How a device is named after a GPU or MIG device. */
enum check_style { CHECK_BY_INDEX = 1, CHECK_BY_UUID = 2 };

/* What the devices of one file are: enum check_style, or'd. */
struct check_covered {
	uint8_t gpus[GPU_MAX], migs[GPU_MAX * GPU_MIG_MAX];
	uint8_t styles; /* of all devices; each GPU is then named in each */
	bool has_all;
	const struct yaml_node *all; /* the nodes of "all" */
};

/* "0", "gpu0"; "0:1", "mig0:1". */
static bool check_index(const char *name, uint32_t *out_gpu, uint32_t *out_mig, bool *out_is_mig)
{
	uint64_t gpu, mig = 0;
	const char *colon = strchr(name, ':');
	size_t prefix = strncmp(name, colon ? "mig" : "gpu", 3) == 0 ? 3 : 0;
	size_t length = colon ? (size_t)(colon - name) : strlen(name);
	if (parse_u64_span(name + prefix, length - prefix, 0, UINT32_MAX - 1, &gpu) < 0 ||
	    (colon && parse_u64(colon + 1, 0, UINT32_MAX - 1, &mig) < 0))
		return false;

	*out_gpu = (uint32_t)gpu;
	*out_mig = (uint32_t)mig;
	*out_is_mig = colon;

	return true;
}

static const struct gpu *check_gpu_at(const struct inventory *inventory, uint32_t index)
{
	for (uint32_t i = 0; i < inventory->gpu_count; i++)
		if (inventory->gpus[i].index == index)
			return &inventory->gpus[i];
	return NULL;
}

static const struct mig_device *check_mig_at(const struct inventory *inventory, uint32_t gpu,
					     uint32_t index)
{
	for (uint32_t i = 0; i < inventory->mig_count; i++)
		if (inventory->migs[i].index == index &&
		    inventory->gpus[inventory->migs[i].parent].index == gpu)
			return &inventory->migs[i];
	return NULL;
}

/* After which device a device of a file is named; it may not be there. */
static enum check_named check_named(const struct inventory *inventory, const char *name,
				    const struct gpu **out_gpu, const struct mig_device **out_mig)
{
	uint32_t gpu, mig;
	bool is_mig;

	*out_gpu = NULL;
	*out_mig = NULL;
	if (strcmp(name, "all") == 0)
		return CHECK_NAMED_ALL;
	if (text_starts_with(name, "GPU-")) {
		*out_gpu = inventory_find_gpu(inventory, name);
		return CHECK_NAMED_GPU;
	}

	if (text_starts_with(name, "MIG-")) {
		*out_mig = inventory_find_mig(inventory, name);
		return CHECK_NAMED_MIG;
	}

	if (!check_index(name, &gpu, &mig, &is_mig))
		return CHECK_NAMED_OTHER;
	if (is_mig)
		*out_mig = check_mig_at(inventory, gpu, mig);
	else
		*out_gpu = check_gpu_at(inventory, gpu);

	return is_mig ? CHECK_NAMED_MIG : CHECK_NAMED_GPU;
}

typedef bool (*check_number_fn)(const char *path, uint32_t *out);

/* Whether the node of this number is among `nodes`; `out_other` gets another one of the kind. */
static bool check_has_node(const struct yaml_node *nodes, check_number_fn number, uint32_t wanted,
			   const char **out_other)
{
	*out_other = NULL;
	for (size_t i = 0; nodes && i < nodes->entry_count; i++) {
		uint32_t is;
		const char *path = check_node_path(nodes->entries[i].value);
		if (!number(path, &is))
			continue;
		if (is == wanted)
			return true;

		*out_other = path;
	}

	return false;
}

static void check_gone(struct checker *checker, enum check_id id, const char *name)
{
	char fix[CHECK_TEXT_MAX];
	const struct check_about about = {.file = checker->file,
					  .device = name,
					  .key = name,
					  .fix = check_fix_file(checker, checker->file, fix)};

	check_add(checker, id, CHECK_STALE, &about,
		  "the driver lists no %s '%s': containers would get nodes of something else, or "
		  "of nothing",
		  id == CHECK_GPU_GONE ? "GPU" : "MIG device", name);
}

/* The capabilities of a MIG device: of its GPU instance and of its compute instance. */
static bool check_caps(const struct check_machine *machine, const struct mig_device *mig,
		       uint32_t out_caps[2])
{
	uint32_t minor = machine->inventory->gpus[mig->parent].minor;
	return minors_find(machine->minors, minor, mig->gi, MINORS_GPU_INSTANCE, &out_caps[0]) ==
		   0 &&
	       minors_find(machine->minors, minor, mig->gi, mig->ci, &out_caps[1]) == 0;
}

/* Whether a GPU in MIG mode is given with all its instances; `out_count`: how many it has. */
static bool check_has_instances(const struct checker *checker, const struct gpu *gpu,
				const struct yaml_node *nodes, uint32_t *out_count)
{
	const struct check_machine *machine = &checker->machine;
	const struct inventory *inventory = machine->inventory;
	const char *other;

	*out_count = 0;
	for (uint32_t i = 0; i < inventory->mig_count; i++) {
		uint32_t caps[2];

		if (&inventory->gpus[inventory->migs[i].parent] != gpu)
			continue;
		if (!check_caps(machine, &inventory->migs[i], caps) ||
		    !check_has_node(nodes, check_cap_minor, caps[0], &other) ||
		    !check_has_node(nodes, check_cap_minor, caps[1], &other))
			return false;

		++*out_count;
	}

	return check_has_node(nodes, check_gpu_minor, gpu->minor, &other);
}

static void check_gpu(struct checker *checker, const struct gpu *gpu, const char *name,
		      const struct yaml_node *nodes)
{
	char fix[CHECK_TEXT_MAX];
	const char *other;
	struct check_about about = {.file = checker->file, .device = name, .key = name};
	uint32_t instances;

	if (gpu->mig_current == GPU_MIG_ENABLED &&
	    check_has_instances(checker, gpu, nodes, &instances)) {
		/* Written so: the configuration hands it out whole. */
		if (instances == 0)
			check_add(checker, CHECK_GPU_MIG, CHECK_NOTE, &about,
				  "GPU %u is in MIG mode and has no instance: nothing can compute "
				  "on it",
				  gpu->index);
	} else if (gpu->mig_current == GPU_MIG_ENABLED) {
		about.fix = check_fix_file(checker, checker->file, fix);
		check_add(checker, CHECK_GPU_MIG, CHECK_STALE, &about,
			  "GPU %u is in MIG mode now: only its MIG devices can be used",
			  gpu->index);
	} else if (gpu->minor != GPU_U32_UNKNOWN &&
		   !check_has_node(nodes, check_gpu_minor, gpu->minor, &other) && other) {
		about.path = other;
		about.fix = check_fix_file(checker, checker->file, fix);
		check_add(checker, CHECK_GPU_MOVED, CHECK_STALE, &about,
			  "'%s' is given as GPU '%s', which is /dev/nvidia%u now: containers would "
			  "get another GPU",
			  other, name, gpu->minor);
	}
}

static void check_mig(struct checker *checker, const struct mig_device *mig, const char *name,
		      const struct yaml_node *nodes)
{
	const struct gpu *gpu = &checker->machine.inventory->gpus[mig->parent];
	const char *other;
	uint32_t caps[2];
	bool has_caps = check_caps(&checker->machine, mig, caps);

	if (gpu->minor == GPU_U32_UNKNOWN ||
	    check_has_node(nodes, check_gpu_minor, gpu->minor, &other))
		other = NULL;

	for (int i = 0; i < 2 && has_caps && !other; i++)
		if (check_has_node(nodes, check_cap_minor, caps[i], &other))
			other = NULL;

	if (!other)
		return;

	char fix[CHECK_TEXT_MAX];
	const struct check_about about = {.file = checker->file,
					  .device = name,
					  .path = other,
					  .key = name,
					  .fix = check_fix_file(checker, checker->file, fix)};

	check_add(checker, CHECK_MIG_MOVED, CHECK_STALE, &about,
		  "'%s' is given as MIG device '%s', which has other nodes now (GPU instance %u of "
		  "GPU %u)",
		  other, name, mig->gi, gpu->index);
}

static void check_gpu_device(struct checker *checker, const struct yaml_node *device,
			     struct check_covered *covered)
{
	const struct inventory *inventory = checker->machine.inventory;
	const struct gpu *gpu;
	const struct mig_device *mig;
	const char *name = yaml_get(device, "name")->text;
	const struct yaml_node *nodes = yaml_get(yaml_get(device, "containerEdits"), "deviceNodes");
	enum check_named named = check_named(inventory, name, &gpu, &mig);
	uint8_t style = name[0] == 'G' || name[0] == 'M' ? CHECK_BY_UUID : CHECK_BY_INDEX;

	if (named == CHECK_NAMED_GPU || named == CHECK_NAMED_MIG)
		covered->styles |= style;

	if (named == CHECK_NAMED_ALL) {
		covered->has_all = true;
		covered->all = nodes;
	} else if (gpu) {
		covered->gpus[gpu - inventory->gpus] |= style;
		check_gpu(checker, gpu, name, nodes);
	} else if (mig) {
		covered->migs[mig - inventory->migs] |= style;
		check_mig(checker, mig, name, nodes);
	} else if (named == CHECK_NAMED_GPU) {
		check_gone(checker, CHECK_GPU_GONE, name);
	} else if (named == CHECK_NAMED_MIG) {
		check_gone(checker, CHECK_MIG_GONE, name);
	}
}

/* Without its node it could not be in a file. */
static bool check_has_path(const struct checker *checker, const char *format, uint32_t number)
{
	char name[64], path[FILE_PATH_MAX];
	struct stat status;
	(void)snprintf(name, sizeof(name), "/dev/%s%u", format, number); /* fits */
	return check_path(checker, name, path) && lstat(path, &status) == 0;
}

static void check_new(struct checker *checker, enum check_id id,
		      const struct check_covered *covered, const char *uuid)
{
	char fix[CHECK_TEXT_MAX];
	const struct check_about about = {
	    .file = checker->file, .key = uuid, .fix = check_fix_file(checker, checker->file, fix)};

	/* A file without "all" may be meant for some of them. */
	check_add(checker, id, covered->has_all ? CHECK_STALE : CHECK_NOTE, &about,
		  "the driver lists the %s '%s', and no device of the file is it%s",
		  id == CHECK_GPU_NEW ? "GPU" : "MIG device", uuid,
		  covered->has_all ? ": 'all' is not all" : "");
}

static void check_news(struct checker *checker, const struct check_covered *covered)
{
	const struct check_machine *machine = &checker->machine;
	const struct inventory *inventory = machine->inventory;
	const char *other;

	for (uint32_t i = 0; i < inventory->gpu_count; i++) {
		const struct gpu *gpu = &inventory->gpus[i];
		bool is_covered = covered->styles ? covered->gpus[i] == covered->styles
						  : check_has_node(covered->all, check_gpu_minor,
								   gpu->minor, &other);
		if (!is_covered && gpu->mig_current != GPU_MIG_ENABLED &&
		    gpu->minor != GPU_U32_UNKNOWN && check_has_path(checker, "nvidia", gpu->minor))
			check_new(checker, CHECK_GPU_NEW, covered, gpu->uuid);
	}

	for (uint32_t i = 0; i < inventory->mig_count; i++) {
		const struct mig_device *mig = &inventory->migs[i];
		uint32_t caps[2];

		if (i >= sizeof(covered->migs) || !check_caps(machine, mig, caps))
			continue;

		bool is_covered = covered->styles ? covered->migs[i] == covered->styles
						  : check_has_node(covered->all, check_cap_minor,
								   caps[1], &other);
		if (!is_covered && check_has_path(checker, "nvidia-caps/nvidia-cap", caps[1]))
			check_new(checker, CHECK_MIG_NEW, covered, mig->uuid);
	}
}

void check_gpus(struct checker *checker, const struct yaml_node *device)
{
	if (checker->rc < 0 || !checker->is_gpu_file || !check_ask(checker))
		return;

	struct check_covered covered = {.has_all = false};
	const struct yaml_node *devices = checker->file->document.devices;

	if (device) {
		check_gpu_device(checker, device, &covered);
		return;
	}

	for (size_t i = 0; i < devices->entry_count && checker->rc == 0; i++)
		check_gpu_device(checker, devices->entries[i].value, &covered);

	check_news(checker, &covered);
}
