/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/labels/labels.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/domain.h"
#include "base/err.h"
#include "base/text.h"
#include "doors/labels/label.h"
#include "policy/config.h"
#include "policy/policy.h"

#define NVIDIA	    "nvidia.com/"
#define GPU_NAME    "gpu"
#define MIG_NAME    "mig-"
#define SHARED_NAME ".shared"

enum labels_limits {
	SUFFIX_SIZE = 2 * GPU_PROFILE_MAX, /* "-MIG-1g.5gb-SHARED" */
	TEXT_SIZE = 160,
	SLUG_MAX = 40,
	MIB_SHIFT = 20,
};

#define REPLICAS_NONE UINT32_MAX

/* A GPU or MIG device that is labelled. */
struct device {
	uint32_t gpu, mig;    /* places in the inventory; mig may be POLICY_WHOLE_GPU */
	uint32_t replicas;    /* 1: whole */
	bool is_renamed;      /* sharing offers it under another name than its own */
	const char *resource; /* borrowed: its resource's name; NULL: nobody hands it out */
};

/* Devices of one model and profile. */
struct group {
	const struct gpu *gpu;	      /* one of the model */
	const struct mig_device *mig; /* the smallest; NULL for whole GPUs */
	uint32_t count;
	bool has_plain;		     /* a GPU that is not in MIG mode */
	bool has_own_name;	     /* a shared one that is not renamed */
	uint32_t replicas;	     /* the fewest; REPLICAS_NONE: of nothing that can be shared */
	uint64_t memory;	     /* the smallest, bytes; 0: not known */
	uint64_t gpu_memory;	     /* the smallest of a GPU; the same for whole GPUs */
	uint32_t cc_major, cc_minor; /* the lowest; 0: not known */
};

struct labels_maker {
	const struct inventory *inventory;
	const struct config *config;
	const struct policy *policy;
	const struct labels_facts *facts;
	struct label_set *set;
	struct device *devices; /* whole GPUs, then MIG devices, each in the inventory's order */
	size_t count;
	size_t gpus;	      /* of them are whole GPUs */
	struct group *groups; /* room for as many as devices */
	size_t group_count;
};

/* --- putting -------------------------------------------------------------------------------- */

static void put(struct labels_maker *maker, const char *prefix, const char *suffix,
		const char *format, ...) __attribute__((format(printf, 4, 5)));

/* "PREFIX.SUFFIX" = text. */
static void put(struct labels_maker *maker, const char *prefix, const char *suffix,
		const char *format, ...)
{
	char key[TEXT_SIZE], value[TEXT_SIZE];
	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(value, sizeof(value), format, arguments);
	va_end(arguments);
	(void)snprintf(key, sizeof(key), "%s.%s", prefix, suffix);
	label_set_put(maker->set, key, value);
}

/* --- what is labelled ----------------------------------------------------------------------- */

static bool gpu_is_mig(const struct gpu *gpu)
{
	return gpu->mig_current == GPU_MIG_ENABLED;
}

static const struct gpu *device_gpu(const struct labels_maker *maker, const struct device *device)
{
	return &maker->inventory->gpus[device->gpu];
}

static const struct mig_device *device_mig(const struct labels_maker *maker,
					   const struct device *device)
{
	return device->mig == POLICY_WHOLE_GPU ? NULL : &maker->inventory->migs[device->mig];
}

static void add_device(struct labels_maker *maker, uint32_t gpu, uint32_t mig)
{
	maker->devices[maker->count++] = (struct device){.gpu = gpu, .mig = mig, .replicas = 1};
}

/* A GPU counts when it answers and it, or a MIG device of it, exists for sluice. */
static void collect(struct labels_maker *maker, const struct policy_surroundings *surroundings)
{
	const struct inventory *inventory = maker->inventory;

	for (uint32_t i = 0; i < inventory->gpu_count; i++) {
		bool selected =
		    policy_selects(inventory, maker->config, surroundings, i, POLICY_WHOLE_GPU);
		for (uint32_t m = 0; m < inventory->mig_count && !selected; m++)
			selected = inventory->migs[m].parent == i &&
				   policy_selects(inventory, maker->config, surroundings, i, m);

		if (selected && inventory->gpus[i].state == GPU_STATE_OK)
			add_device(maker, i, POLICY_WHOLE_GPU);
	}

	maker->gpus = maker->count;
	for (uint32_t m = 0; m < inventory->mig_count; m++) {
		uint32_t parent = inventory->migs[m].parent;
		if (inventory->gpus[parent].state == GPU_STATE_OK &&
		    policy_selects(inventory, maker->config, surroundings, parent, m))
			add_device(maker, parent, m);
	}
}

/* Sharing gives a device another name than that of the entry which shares it. */
static bool is_entry_name(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->time_slicing.count; i++) {
		if (strcmp(config->time_slicing.items[i].name, name) == 0)
			return true;
	}
	return false;
}

static void apply_policy(struct labels_maker *maker)
{
	for (uint32_t r = 0; r < maker->policy->resource_count; r++) {
		const struct policy_resource *resource = &maker->policy->resources[r];

		for (uint32_t u = 0; u < resource->count; u++) {
			const struct policy_unit *unit = &maker->policy->units[resource->first + u];

			for (size_t i = 0; unit->replica == 0 && i < maker->count; i++) {
				struct device *device = &maker->devices[i];
				if (device->gpu != unit->gpu || device->mig != unit->mig)
					continue;

				device->replicas = unit->replicas;
				device->resource = resource->name;
				device->is_renamed = unit->replicas > 1 &&
						     !is_entry_name(maker->config, resource->name);
			}
		}
	}
}

/* --- groups --------------------------------------------------------------------------------- */

/* Which devices are grouped: whole GPUs, MIG devices (of a profile), or those of a resource. */
struct labels_choice {
	enum { CHOOSE_GPUS, CHOOSE_MIGS, CHOOSE_RESOURCE } kind;
	const char *text; /* the profile, NULL: all; the resource */
};

static bool is_chosen(const struct labels_maker *maker, const struct device *device,
		      const struct labels_choice *choice)
{
	const struct mig_device *mig = device_mig(maker, device);

	switch (choice->kind) {
	case CHOOSE_GPUS:
		return !mig;
	case CHOOSE_MIGS:
		return mig && (!choice->text || strcmp(mig->profile, choice->text) == 0);
	case CHOOSE_RESOURCE:
		return device->resource && strcmp(device->resource, choice->text) == 0;
	}

	return false;
}

static struct group *group_of(struct labels_maker *maker, const struct device *device)
{
	const struct gpu *gpu = device_gpu(maker, device);
	const struct mig_device *mig = device_mig(maker, device);
	for (size_t i = 0; i < maker->group_count; i++) {
		struct group *group = &maker->groups[i];
		if (strcmp(group->gpu->name, gpu->name) == 0 && !group->mig == !mig &&
		    (!mig || strcmp(group->mig->profile, mig->profile) == 0))
			return group;
	}

	struct group *group = &maker->groups[maker->group_count++];
	*group = (struct group){.gpu = gpu, .mig = mig, .replicas = REPLICAS_NONE};
	return group;
}

static bool cc_is_lower(uint32_t major, uint32_t minor, const struct group *than)
{
	return major != than->cc_major ? major < than->cc_major : minor < than->cc_minor;
}

static void group_add(struct labels_maker *maker, struct group *group, const struct device *device)
{
	const struct gpu *gpu = device_gpu(maker, device);
	const struct mig_device *mig = device_mig(maker, device);
	uint64_t memory = mig ? mig->memory_bytes : gpu->memory_bytes;

	group->count++;
	if (gpu->memory_bytes != GPU_U64_UNKNOWN &&
	    (group->gpu_memory == 0 || gpu->memory_bytes < group->gpu_memory))
		group->gpu_memory = gpu->memory_bytes;

	if (memory != 0 && memory != GPU_U64_UNKNOWN &&
	    (group->memory == 0 || memory < group->memory)) {
		group->memory = memory;
		if (mig)
			group->mig = mig;
	}

	if (gpu->cc_major != 0 && gpu->cc_major != GPU_U32_UNKNOWN &&
	    (group->cc_major == 0 || cc_is_lower(gpu->cc_major, gpu->cc_minor, group))) {
		group->cc_major = gpu->cc_major;
		group->cc_minor = gpu->cc_minor;
	}

	/* A GPU that is cut up is not shared as a whole. */
	if (!mig && gpu_is_mig(gpu))
		return;

	group->has_plain |= !mig;
	if (device->replicas < group->replicas)
		group->replicas = device->replicas;
	group->has_own_name |= device->replicas > 1 && !device->is_renamed;
}

/*
 * The model that the labels describe comes first: one with a GPU that is not in MIG mode, the one
 * with more memory, of a higher compute capability, of the smaller name. None of these changes
 * when another GPU is lost or GPUs are found in another order.
 */
static int group_compare(const void *a, const void *b)
{
	const struct group *left = a, *right = b;
	if (left->has_plain != right->has_plain)
		return left->has_plain ? -1 : 1;
	if (left->gpu_memory != right->gpu_memory)
		return left->gpu_memory > right->gpu_memory ? -1 : 1;
	if (left->cc_major != right->cc_major)
		return left->cc_major > right->cc_major ? -1 : 1;

	if (left->cc_minor != right->cc_minor)
		return left->cc_minor > right->cc_minor ? -1 : 1;

	int order = strcmp(left->gpu->name, right->gpu->name);
	if (order != 0 || !left->mig || !right->mig)
		return order;

	return strcmp(left->mig->profile, right->mig->profile);
}

/* Groups what is chosen; the first is the one to describe, NULL when nothing is chosen. Borrowed:
 * until the next call. */
static const struct group *choose(struct labels_maker *maker, const struct labels_choice *choice,
				  uint32_t *out_total)
{
	maker->group_count = 0;
	*out_total = 0;
	for (size_t i = 0; i < maker->count; i++) {
		const struct device *device = &maker->devices[i];
		if (!is_chosen(maker, device, choice))
			continue;
		group_add(maker, group_of(maker, device), device);
		(*out_total)++;
	}

	if (maker->group_count == 0)
		return NULL;

	qsort(maker->groups, maker->group_count, sizeof(*maker->groups), group_compare);
	return &maker->groups[0];
}

/* --- labels of a group ---------------------------------------------------------------------- */

/* Kubernetes allows no '+' in names: "1g.5gb+me" is 1g.5gb.me there. */
static void profile_text(const char *profile, char out[GPU_PROFILE_MAX])
{
	memcpy(out, profile, GPU_PROFILE_MAX);
	out[GPU_PROFILE_MAX - 1] = '\0';
	for (char *at = out; (at = strchr(at, '+'));)
		*at = '.';
}

static void put_product(struct labels_maker *maker, const char *prefix, const char *model,
			const char *suffix)
{
	char value[LABEL_VALUE_SIZE], key[TEXT_SIZE];
	label_value_with_suffix(model, suffix, value);
	(void)snprintf(key, sizeof(key), "%s.product", prefix);
	if (value[0] != '\0')
		label_set_put(maker->set, key, value);
	else
		label_set_drop(maker->set, key);
}

/* product, count, replicas and sharing-strategy. */
static void put_shared(struct labels_maker *maker, const char *prefix, const struct group *group,
		       uint32_t count)
{
	char suffix[SUFFIX_SIZE] = "", profile[GPU_PROFILE_MAX] = "";
	uint32_t replicas = group->replicas == REPLICAS_NONE ? 0 : group->replicas;

	if (group->mig)
		profile_text(group->mig->profile, profile);
	(void)snprintf(suffix, sizeof(suffix), "%s%s%s", group->mig ? "-MIG-" : "", profile,
		       replicas > 1 && group->has_own_name ? "-SHARED" : "");
	put_product(maker, prefix, group->gpu->name, suffix);
	put(maker, prefix, "count", "%" PRIu32, count);
	put(maker, prefix, "replicas", "%" PRIu32, replicas);
	put(maker, prefix, "sharing-strategy", "%s", replicas > 1 ? "time-slicing" : "none");
}

static void put_memory(struct labels_maker *maker, const char *prefix, uint64_t bytes)
{
	if (bytes >> MIB_SHIFT > 0)
		put(maker, prefix, "memory", "%" PRIu64, bytes >> MIB_SHIFT);
}

static void put_architecture(struct labels_maker *maker, const char *prefix,
			     const struct group *group)
{
	if (group->cc_major == 0)
		return;
	put(maker, prefix, "family", "%s", labels_family(group->cc_major, group->cc_minor));
	put(maker, prefix, "compute.major", "%" PRIu32, group->cc_major);
	put(maker, prefix, "compute.minor", "%" PRIu32, group->cc_minor);
}

static void put_attributes(struct labels_maker *maker, const char *prefix,
			   const struct mig_device *mig)
{
	if (mig->sm_count == GPU_U32_UNKNOWN)
		return; /* the driver tells all of them or none */

	put(maker, prefix, "multiprocessors", "%" PRIu32, mig->sm_count);
	put(maker, prefix, "slices.gi", "%" PRIu32, mig->gi_slices);
	put(maker, prefix, "slices.ci", "%" PRIu32, mig->ci_slices);
	put(maker, prefix, "engines.copy", "%" PRIu32, mig->copy_engines);
	put(maker, prefix, "engines.decoder", "%" PRIu32, mig->decoders);
	put(maker, prefix, "engines.encoder", "%" PRIu32, mig->encoders);
	put(maker, prefix, "engines.jpeg", "%" PRIu32, mig->jpegs);
	put(maker, prefix, "engines.ofa", "%" PRIu32, mig->ofas);
}

/* --- whole GPUs ----------------------------------------------------------------------------- */

static void warn_models(struct labels_maker *maker, const char *what)
{
	char text[LABEL_WARNING_SIZE];
	size_t length = 0;
	for (size_t i = 0; i < maker->group_count && length < sizeof(text); i++)
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%s x%" PRIu32,
					   i ? ", " : "", maker->groups[i].gpu->name,
					   maker->groups[i].count);

	label_set_warn(maker->set, "several GPU models%s: %.140s; labels describe %.60s", what,
		       text, maker->groups[0].gpu->name);
}

/* A name for a key: lower case, and told from others by a checksum where it is cut. */
static void slug(const char *name, char out[LABEL_VALUE_SIZE])
{
	uint32_t sum = 2166136261U; /* FNV-1a, 32 bits */
	for (const char *at = name; *at != '\0'; at++)
		sum = (sum ^ (unsigned char)*at) * 16777619U;

	label_value(name, strlen(name), out);

	for (char *at = out; *at != '\0'; at++) {
		if (*at >= 'A' && *at <= 'Z')
			*at = (char)(*at - 'A' + 'a');
	}

	if (strlen(out) > SLUG_MAX)
		(void)snprintf(out + SLUG_MAX, LABEL_VALUE_SIZE - SLUG_MAX, "-%04x",
			       (unsigned)((sum ^ sum >> 16) & 0xffff));
}

static void put_extended(struct labels_maker *maker)
{
	char prefix[TEXT_SIZE], name[LABEL_VALUE_SIZE];

	put(maker, SLUICE_DOMAIN "/" GPU_NAME, "models", "%zu", maker->group_count);

	for (size_t i = 0; i < maker->group_count; i++) {
		slug(maker->groups[i].gpu->name, name);
		if (name[0] == '\0')
			continue;

		(void)snprintf(prefix, sizeof(prefix), SLUICE_DOMAIN "/gpu-model.%s", name);
		put(maker, prefix, "count", "%" PRIu32, maker->groups[i].count);
		put_memory(maker, prefix, maker->groups[i].memory);
	}
}

static void make_gpus(struct labels_maker *maker)
{
	const struct labels_choice all = {.kind = CHOOSE_GPUS};
	uint32_t total;
	const struct group *group = choose(maker, &all, &total);
	if (!group)
		return;

	put_shared(maker, NVIDIA GPU_NAME, group, group->count);
	put_memory(maker, NVIDIA GPU_NAME, group->memory);
	put_architecture(maker, NVIDIA GPU_NAME, group);

	if (maker->group_count > 1)
		warn_models(maker, "");
	if (maker->config->labels.extended)
		put_extended(maker);
}

/* --- MIG ------------------------------------------------------------------------------------ */

static bool gpu_has_instances(const struct labels_maker *maker, uint32_t gpu)
{
	for (uint32_t m = 0; m < maker->inventory->mig_count; m++) {
		if (maker->inventory->migs[m].parent == gpu)
			return true;
	}
	return false;
}

/* Why the strategy `single` cannot hold, in the peer's words and its order; NULL: it can. `*out` is
 * the first GPU in MIG mode, NULL when there is none. */
static const char *single_problem(const struct labels_maker *maker, const struct gpu **out)
{
	bool is_empty = false, has_plain = false, differ = false;
	const char *profile = NULL;

	*out = NULL;
	for (size_t i = 0; i < maker->gpus; i++) {
		const struct gpu *gpu = device_gpu(maker, &maker->devices[i]);
		has_plain |= !gpu_is_mig(gpu);
		if (!gpu_is_mig(gpu))
			continue;

		is_empty |= !gpu_has_instances(maker, maker->devices[i].gpu);
		if (!*out)
			*out = gpu;
	}

	for (size_t i = maker->gpus; i < maker->count; i++) {
		const struct mig_device *mig = device_mig(maker, &maker->devices[i]);
		differ |= profile && strcmp(profile, mig->profile) != 0;
		profile = mig->profile;
	}

	if (is_empty)
		return "at least one MIG device is enabled but empty";
	if (has_plain)
		return "devices with MIG enabled and disable detected";

	return differ ? "more than one MIG device type present on node" : NULL;
}

static void make_single(struct labels_maker *maker)
{
	const struct gpu *first;
	const struct labels_choice all = {.kind = CHOOSE_MIGS};
	uint32_t total;
	const char *problem = single_problem(maker, &first);

	if (!first)
		return; /* as the strategy none */

	if (problem) {
		label_set_warn(maker->set,
			       "invalid configuration detected for mig-strategy=single: %s",
			       problem);
		put_product(maker, NVIDIA GPU_NAME, first->name, "-MIG-INVALID");
		put(maker, NVIDIA GPU_NAME, "count", "0");
		put(maker, NVIDIA GPU_NAME, "replicas", "0");
		put(maker, NVIDIA GPU_NAME, "memory", "0");
		put(maker, NVIDIA GPU_NAME, "sharing-strategy", "%s", "");

		return;
	}

	const struct group *group = choose(maker, &all, &total);
	if (!group)
		return; /* its instances are all excluded */

	put_shared(maker, NVIDIA GPU_NAME, group, total);
	label_set_drop(maker->set, NVIDIA GPU_NAME ".memory"); /* that of the whole GPU */
	put_memory(maker, NVIDIA GPU_NAME, group->memory);
	put_attributes(maker, NVIDIA GPU_NAME, group->mig);
}

static bool profile_came_before(const struct labels_maker *maker, size_t place)
{
	const char *profile = device_mig(maker, &maker->devices[place])->profile;
	for (size_t i = maker->gpus; i < place; i++) {
		if (strcmp(device_mig(maker, &maker->devices[i])->profile, profile) == 0)
			return true;
	}
	return false;
}

static void make_mixed(struct labels_maker *maker)
{
	for (size_t i = maker->gpus; i < maker->count; i++) {
		const struct mig_device *mig = device_mig(maker, &maker->devices[i]);
		const struct labels_choice choice = {.kind = CHOOSE_MIGS, .text = mig->profile};
		char prefix[TEXT_SIZE], profile[GPU_PROFILE_MAX];
		uint32_t total;

		if (profile_came_before(maker, i))
			continue;

		if (mig->profile[0] == '\0') {
			label_set_warn(maker->set,
				       "MIG device %.64s has no labels: its profile is not known",
				       mig->uuid);
			continue;
		}

		profile_text(mig->profile, profile);
		(void)snprintf(prefix, sizeof(prefix), NVIDIA MIG_NAME "%s", profile);

		const struct group *group = choose(maker, &choice, &total);
		put_shared(maker, prefix, group, total);
		put_memory(maker, prefix, group->memory);
		put_attributes(maker, prefix, group->mig);
	}
}

static void make_mig(struct labels_maker *maker)
{
	bool capable = false;
	for (size_t i = 0; i < maker->gpus; i++)
		capable |=
		    device_gpu(maker, &maker->devices[i])->mig_current != GPU_MIG_UNSUPPORTED;

	put(maker, NVIDIA "mig", "capable", "%s", capable ? "true" : "false");
	if (maker->config->mig_strategy == CONFIG_MIG_SINGLE) {
		put(maker, NVIDIA "mig", "strategy", "single");
		make_single(maker);
	} else if (maker->config->mig_strategy == CONFIG_MIG_MIXED) {
		put(maker, NVIDIA "mig", "strategy", "mixed");
		make_mixed(maker);
	}
}

/* --- resources with names of the user's own ------------------------------------------------- */

/* "gpu", "mig-1g.5gb" and either with ".shared": names that are labelled anyway. */
static bool is_standard(const struct labels_maker *maker, const char *resource)
{
	char name[CONFIG_NAME_MAX], profile[GPU_PROFILE_MAX];
	(void)snprintf(name, sizeof(name), "%s", resource + sizeof(NVIDIA) - 1);

	char *end = strstr(name, SHARED_NAME);
	if (maker->config->time_slicing.rename_by_default && end &&
	    end[sizeof(SHARED_NAME) - 1] == '\0')
		*end = '\0';
	if (strcmp(name, GPU_NAME) == 0)
		return true;

	for (uint32_t m = 0; m < maker->inventory->mig_count; m++) {
		profile_text(maker->inventory->migs[m].profile, profile);
		if (text_starts_with(name, MIG_NAME) &&
		    strcmp(name + sizeof(MIG_NAME) - 1, profile) == 0)
			return true;
	}

	return false;
}

static void make_resources(struct labels_maker *maker)
{
	for (uint32_t r = 0; r < maker->policy->resource_count; r++) {
		const char *name = maker->policy->resources[r].name;
		const struct labels_choice choice = {.kind = CHOOSE_RESOURCE, .text = name};
		char what[TEXT_SIZE];
		uint32_t total;

		if (!text_starts_with(name, NVIDIA) || is_standard(maker, name))
			continue;

		const struct group *group = choose(maker, &choice, &total);
		if (!group)
			continue;

		put_shared(maker, name, group, group->count);
		put_memory(maker, name, group->memory);
		put_architecture(maker, name, group);
		(void)snprintf(what, sizeof(what), " of %s", name);

		if (maker->group_count > 1)
			warn_models(maker, what);
	}
}

/* --- the node ------------------------------------------------------------------------------- */

static void put_versions(struct labels_maker *maker)
{
	enum { PARTS = 3 };
	static const char *const older[PARTS] = {"major", "minor", "rev"};
	static const char *const newer[PARTS] = {"major", "minor", "revision"};

	const char *version = maker->inventory->driver_version, *at = version;
	if (version[0] != '\0')
		put(maker, NVIDIA "cuda.driver-version", "full", "%s", version);

	for (int i = 0; i < PARTS && version[0] != '\0'; i++) {
		int length = (int)strcspn(at, ".");
		put(maker, NVIDIA "cuda.driver", older[i], "%.*s", length, at);
		put(maker, NVIDIA "cuda.driver-version", newer[i], "%.*s", length, at);
		at += length;

		/* "525.60": the third part is there and empty, as the peer has it. */
		if (*at == '\0' && i == 0)
			break;

		at += *at == '.';
	}

	uint32_t cuda = maker->inventory->cuda_version;
	if (cuda == 0)
		return;

	put(maker, NVIDIA "cuda.runtime", "major", "%" PRIu32, cuda / 1000);
	put(maker, NVIDIA "cuda.runtime", "minor", "%" PRIu32, cuda % 1000 / 10);
	put(maker, NVIDIA "cuda.runtime-version", "major", "%" PRIu32, cuda / 1000);
	put(maker, NVIDIA "cuda.runtime-version", "minor", "%" PRIu32, cuda % 1000 / 10);
	put(maker, NVIDIA "cuda.runtime-version", "full", "%" PRIu32 ".%" PRIu32, cuda / 1000,
	    cuda % 1000 / 10);
}

static void put_machine(struct labels_maker *maker)
{
	char value[LABEL_VALUE_SIZE] = "unknown";
	if (maker->facts->has_machine)
		label_value(maker->facts->machine, maker->facts->machine_length, value);
	put(maker, NVIDIA GPU_NAME, "machine", "%s", value);
}

/* By the PCI class of all GPUs: 3D controllers compute, VGA controllers draw. */
static void put_mode(struct labels_maker *maker)
{
	enum { CLASS_VGA = 0x0300, CLASS_3D = 0x0302 };
	uint32_t mode = 0;
	bool differ = false;

	for (size_t i = 0; i < maker->gpus; i++) {
		uint32_t class_ = maker->facts->class_[maker->devices[i].gpu];
		uint32_t now = class_ == LABELS_CLASS_UNKNOWN ? 0 : class_ >> 8;

		if (gpu_is_mig(device_gpu(maker, &maker->devices[i])))
			now = CLASS_3D;
		differ |= i > 0 && now != mode;
		mode = now;
	}

	put(maker, NVIDIA GPU_NAME, "mode", "%s",
	    differ		? "unknown"
	    : mode == CLASS_VGA ? "graphics"
	    : mode == CLASS_3D	? "compute"
				: "unknown");
}

static void put_clique(struct labels_maker *maker)
{
	const struct gpu *first = NULL;

	for (size_t i = 0; i < maker->gpus; i++) {
		const struct gpu *gpu = device_gpu(maker, &maker->devices[i]);
		if (!gpu->has_fabric)
			continue;

		if (first && (first->fabric_clique != gpu->fabric_clique ||
			      memcmp(first->fabric_cluster, gpu->fabric_cluster,
				     sizeof(gpu->fabric_cluster)) != 0)) {
			label_set_warn(maker->set,
				       "the GPUs belong to several NVLink cliques: no label");
			return;
		}

		first = gpu;
	}

	if (!first)
		return;

	char uuid[2 * GPU_FABRIC_UUID_SIZE + 5];
	size_t length = 0;
	for (int i = 0; i < GPU_FABRIC_UUID_SIZE; i++)
		length += (size_t)snprintf(uuid + length, sizeof(uuid) - length, "%s%02x",
					   i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
					   first->fabric_cluster[i]);

	put(maker, NVIDIA GPU_NAME, "clique", "%s.%" PRIu32, uuid, first->fabric_clique);
}

static void put_vgpu(struct labels_maker *maker)
{
	const struct labels_facts *facts = maker->facts;
	char value[LABEL_VALUE_SIZE];

	if (facts->vgpu_presence == VGPU_UNKNOWN) {
		label_set_warn(maker->set, "no vgpu labels: the PCI configuration space of a GPU "
					   "cannot be read; it takes root");
		return;
	}

	bool present = facts->vgpu_presence == VGPU_PRESENT;
	put(maker, NVIDIA "vgpu", "present", "%s", present ? "true" : "false");
	if (!present)
		return;

	label_value(facts->vgpu.host_version, strlen(facts->vgpu.host_version), value);
	if (value[0] != '\0')
		put(maker, NVIDIA "vgpu", "host-driver-version", "%s", value);
	label_value(facts->vgpu.host_branch, strlen(facts->vgpu.host_branch), value);

	if (value[0] != '\0')
		put(maker, NVIDIA "vgpu", "host-driver-branch", "%s", value);
}

static void make(struct labels_maker *maker)
{
	if (maker->facts->start_s > 0)
		put(maker, NVIDIA "gfd", "timestamp", "%" PRId64, maker->facts->start_s);
	put_vgpu(maker);
	if (maker->gpus == 0)
		return;

	put_versions(maker);
	put_machine(maker);
	put_mode(maker);
	put_clique(maker);
	put(maker, NVIDIA "mps", "capable", "false"); /* sharing.mps is refused */

	if (maker->config->labels.present)
		put(maker, NVIDIA GPU_NAME, "present", "true");
	make_gpus(maker);
	make_mig(maker);
	make_resources(maker);
}

int labels_make(const struct inventory *inventory, const struct config *config,
		const struct policy_surroundings *surroundings, const struct policy *policy,
		const struct labels_facts *facts, struct label_set *out, struct err *err)
{
	/* One more than needed: nothing at all is not out of memory. */
	size_t most = (size_t)inventory->gpu_count + inventory->mig_count + 1;
	_cleanup_free_ struct device *devices = calloc(most, sizeof(*devices));
	_cleanup_free_ struct group *groups = calloc(most, sizeof(*groups));
	struct label_set set;

	if (!devices || !groups)
		return err_set(err, -ENOMEM, "making labels: out of memory");

	label_set_init(&set);
	struct labels_maker maker = {
	    .inventory = inventory,
	    .config = config,
	    .policy = policy,
	    .facts = facts,
	    .set = &set,
	    .devices = devices,
	    .groups = groups,
	};
	collect(&maker, surroundings);
	apply_policy(&maker);
	make(&maker);

	if (set.error < 0) {
		label_set_done(&set);
		return err_set(err, -ENOMEM, "making labels: out of memory");
	}

	label_set_done(out);
	*out = set;
	return 0;
}

const char *labels_family(uint32_t cc_major, uint32_t cc_minor)
{
	static const struct {
		uint32_t major, minor; /* from this minor version on */
		const char *name;
	} families[] = {
	    {1, 0, "tesla"},  {2, 0, "fermi"},	{3, 0, "kepler"},     {5, 0, "maxwell"},
	    {6, 0, "pascal"}, {7, 5, "turing"}, {7, 0, "volta"},      {8, 9, "ada-lovelace"},
	    {8, 0, "ampere"}, {9, 0, "hopper"}, {10, 0, "blackwell"}, {12, 0, "blackwell"},
	    {13, 0, "rubin"},
	};

	for (size_t i = 0; i < array_length(families); i++) {
		if (families[i].major == cc_major && families[i].minor <= cc_minor)
			return families[i].name;
	}

	return "undefined";
}
