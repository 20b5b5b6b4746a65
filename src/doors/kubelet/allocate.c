/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/kubelet/allocate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/err.h"
#include "doors/kubelet/resource.h"
#include "wire/arena.h"

/* Of the NVIDIA container runtime: mounts below it name devices. */
#define VOLUME_ROOT "/var/run/nvidia-container-devices"
#define IMEX_PATH   "/dev/nvidia-caps-imex-channels/channel0"

enum allocate_limits {
	ALLOCATE_ENVS_MAX = 6,
	ALLOCATE_CONTROLS = 4,
	ALLOCATE_CDI_MODES = 3,
	ALLOCATE_UUID_BYTES = 16,
	ALLOCATE_UUID_TEXT = 37,
};

/* One container's answer while it is made. */
struct allocate_answer {
	const struct kubelet_resource *resource;
	struct arena *arena;
	const struct kubelet_hardware **hardware; /* each once, in the order of the reply */
	size_t count;
	char uuid[ALLOCATE_UUID_TEXT];
	V1beta1__ContainerAllocateResponse *out;
};

/* What is the same for all containers of a request. */
struct question {
	const struct kubelet_resource *resource;
	const struct allocate_random *random;
	struct arena *arena;
	uint32_t *seen; /* by hardware: number of the last container that asked for it, from 1 */
	struct err *err;
};

/* --- checks ---------------------------------------------------------------------------------- */

static int allocate_refuse(const struct question *question, const char *why)
{
	return err_set(question->err, -EINVAL,
		       "invalid allocation request for \"%s\": invalid request: %s",
		       question->resource->name, why);
}

static int check_container(const struct question *question,
			   const V1beta1__ContainerAllocateRequest *request)
{
	const struct kubelet_resource *resource = question->resource;
	const struct kubelet_device *on_gpu[GPU_MAX] = {NULL};
	bool replicas = false, crowded = false;

	for (size_t i = 0; i < request->n_devices_ids; i++) {
		const struct kubelet_device *device =
		    resource_find(resource, request->devices_ids[i]);
		if (!device)
			return err_set(question->err, -EINVAL,
				       "invalid allocation request for \"%s\": invalid request: "
				       "unknown device: %s",
				       resource->name, request->devices_ids[i]);

		const struct kubelet_device **other = &on_gpu[device->hardware->gpu];
		crowded |= *other && *other != device;
		*other = device;
		replicas |= device->hardware->replicas > 1;
	}

	if (replicas && resource->one_each && request->n_devices_ids > 1)
		return err_set(question->err, -EINVAL,
			       "invalid allocation request for \"%s\": invalid request: maximum "
			       "request size for shared resources is 1; found %zu",
			       resource->name, request->n_devices_ids);

	if (crowded && resource->settings.policy == CONFIG_SPREAD_STRICT)
		return allocate_refuse(
		    question, "two slots on one physical GPU refused by policy spread-strict");

	return 0;
}

/* --- parts of an answer ------------------------------------------------------------------------
 */

static const char *device_name(const struct allocate_answer *answer, size_t i)
{
	return answer->resource->settings.index_ids ? answer->hardware[i]->index
						    : answer->hardware[i]->uuid;
}

static bool has_imex(const struct allocate_answer *answer)
{
	return answer->resource->settings.imex_host_path[0] != '\0';
}

static int entry_compare(const void *left, const void *right)
{
	const V1beta1__Entry *const *a = left, *const *b = right;
	return strcmp((*a)->key, (*b)->key);
}

/* Sets a variable; the last value of a name wins. There is room: ALLOCATE_ENVS_MAX. */
static int answer_env(const struct allocate_answer *answer, const char *key, const char *value)
{
	V1beta1__ContainerAllocateResponse *out = answer->out;
	for (size_t i = 0; i < out->n_envs; i++) {
		if (strcmp(out->envs[i]->key, key) == 0) {
			out->envs[i]->value = (char *)value;
			return 0;
		}
	}

	V1beta1__Entry *entry = arena_alloc(answer->arena, sizeof(*entry));
	if (!entry || !value)
		return -ENOMEM;

	v1beta1__entry__init(entry);
	entry->key = (char *)key;
	entry->value = (char *)value;
	out->envs[out->n_envs++] = entry;

	return 0;
}

/* "a,b,c"; NULL: no memory. */
static char *answer_join(const struct allocate_answer *answer, char *const *texts, size_t count)
{
	size_t length = 1;
	for (size_t i = 0; i < count; i++)
		length += strlen(texts[i]) + 1;

	char *joined = arena_alloc(answer->arena, length), *at = joined;

	for (size_t i = 0; joined && i < count; i++) {
		size_t size = strlen(texts[i]);
		if (i > 0)
			*at++ = ',';
		memcpy(at, texts[i], size);
		at += size;
	}

	return joined;
}

static int answer_names(const struct allocate_answer *answer)
{
	char **names = arena_alloc(answer->arena, (answer->count + 1) * sizeof(*names));
	for (size_t i = 0; names && i < answer->count; i++)
		names[i] = (char *)device_name(answer, i);

	if (!names)
		return -ENOMEM;

	int rc =
	    answer_env(answer, "NVIDIA_VISIBLE_DEVICES", answer_join(answer, names, answer->count));
	if (rc == 0 && has_imex(answer))
		rc = answer_env(answer, "NVIDIA_IMEX_CHANNELS", "0");

	return rc;
}

static int answer_mounts(const struct allocate_answer *answer)
{
	V1beta1__ContainerAllocateResponse *out = answer->out;
	size_t count = answer->count + has_imex(answer);

	out->mounts = arena_alloc(answer->arena, (count + 1) * sizeof(*out->mounts));
	if (!out->mounts)
		return -ENOMEM;

	for (size_t i = 0; i < count; i++) {
		V1beta1__Mount *mount = arena_alloc(answer->arena, sizeof(*mount));
		if (!mount)
			return -ENOMEM;

		v1beta1__mount__init(mount);
		mount->host_path = (char *)"/dev/null";
		mount->container_path =
		    arena_printf(answer->arena, VOLUME_ROOT "/%s",
				 i < answer->count ? device_name(answer, i) : "imex/0");
		if (!mount->container_path)
			return -ENOMEM;

		out->mounts[out->n_mounts++] = mount;
	}

	return answer_env(answer, "NVIDIA_VISIBLE_DEVICES", VOLUME_ROOT);
}

static int answer_cdi_names(const struct allocate_answer *answer, char **names, size_t *out_count)
{
	static const char *const modes[ALLOCATE_CDI_MODES] = {"gdrcopy", "gds", "mofed"};
	const struct kubelet_settings *settings = &answer->resource->settings;
	const bool wanted[ALLOCATE_CDI_MODES] = {settings->gdrcopy, settings->gds, settings->mofed};
	struct arena *arena = answer->arena;
	size_t count = 0;

	for (size_t i = 0; i < answer->count; i++)
		names[count++] =
		    arena_printf(arena, "%s/gpu=%s", settings->cdi_vendor, device_name(answer, i));

	if (has_imex(answer) && (settings->cdi_modes & RESOURCE_CDI_IMEX))
		names[count++] = arena_printf(arena, "%s/imex-channel=0", settings->cdi_vendor);

	for (size_t i = 0; i < ALLOCATE_CDI_MODES; i++) {
		if (wanted[i] && (settings->cdi_modes >> i & 1))
			names[count++] =
			    arena_printf(arena, "%s/%s=all", settings->cdi_vendor, modes[i]);
	}

	for (size_t i = 0; i < count; i++) {
		if (!names[i])
			return -ENOMEM;
	}

	*out_count = count;
	return 0;
}

static int answer_cdi(const struct allocate_answer *answer, uint32_t strategies)
{
	V1beta1__ContainerAllocateResponse *out = answer->out;
	const struct kubelet_settings *settings = &answer->resource->settings;
	size_t room = answer->count + 1 + ALLOCATE_CDI_MODES, count = 0;
	char **names = arena_alloc(answer->arena, room * sizeof(*names));
	if (!names || answer_cdi_names(answer, names, &count) < 0)
		return -ENOMEM;

	if (strategies & CONFIG_LIST_CDI_ANNOTATIONS) {
		V1beta1__Entry *entry = arena_alloc(answer->arena, sizeof(*entry));

		out->annotations = arena_alloc(answer->arena, sizeof(*out->annotations));
		if (!entry || !out->annotations)
			return -ENOMEM;

		v1beta1__entry__init(entry);
		entry->key = arena_printf(answer->arena, "%snvidia-device-plugin_%s",
					  settings->cdi_annotation_prefix, answer->uuid);
		entry->value = answer_join(answer, names, count);
		if (!entry->key || !entry->value)
			return -ENOMEM;

		out->annotations[out->n_annotations++] = entry;
	}

	if (!(strategies & CONFIG_LIST_CDI_CRI))
		return 0;

	V1beta1__CDIDevice *devices = arena_alloc(answer->arena, room * sizeof(*devices));

	out->cdi_devices = arena_alloc(answer->arena, room * sizeof(*out->cdi_devices));
	if (!devices || !out->cdi_devices)
		return -ENOMEM;

	for (size_t i = 0; i < count; i++) {
		v1beta1__cdidevice__init(&devices[i]);
		devices[i].name = names[i];
		out->cdi_devices[out->n_cdi_devices++] = &devices[i];
	}

	return 0;
}

/* A device node, once. `host_path` NULL: `path` below the root of the devices. */
static int answer_node(const struct allocate_answer *answer, const char *path,
		       const char *host_path)
{
	V1beta1__ContainerAllocateResponse *out = answer->out;
	for (size_t i = 0; i < out->n_devices; i++) {
		if (strcmp(out->devices[i]->container_path, path) == 0)
			return 0;
	}

	V1beta1__DeviceSpec *node = arena_alloc(answer->arena, sizeof(*node));
	if (!node)
		return -ENOMEM;

	v1beta1__device_spec__init(node);
	node->container_path = (char *)path;
	node->host_path = host_path ? (char *)host_path
				    : arena_printf(answer->arena, "%s%s",
						   answer->resource->settings.dev_root, path);
	node->permissions = (char *)"rw";
	if (!node->host_path)
		return -ENOMEM;

	out->devices[out->n_devices++] = node;
	return 0;
}

static int answer_nodes(const struct allocate_answer *answer)
{
	const struct kubelet_settings *settings = &answer->resource->settings;
	V1beta1__ContainerAllocateResponse *out = answer->out;
	size_t room = ALLOCATE_CONTROLS + answer->count * RESOURCE_PATHS_MAX + 1;

	out->devices = arena_alloc(answer->arena, room * sizeof(*out->devices));
	int rc = out->devices ? 0 : -ENOMEM;
	for (unsigned bit = 0; rc == 0 && bit < ALLOCATE_CONTROLS; bit++) {
		if (settings->control >> bit & 1)
			rc = answer_node(answer,
					 resource_control_path((enum resource_control)(1u << bit)),
					 NULL);
	}

	for (size_t i = 0; rc == 0 && i < answer->count; i++) {
		const struct kubelet_hardware *hardware = answer->hardware[i];
		for (uint32_t p = 0; rc == 0 && p < hardware->path_count; p++)
			rc = answer_node(answer, hardware->path[p], NULL);
	}

	if (rc == 0 && has_imex(answer))
		rc = answer_node(answer, IMEX_PATH, settings->imex_host_path);

	return rc;
}

/* --- an answer ---------------------------------------------------------------------------------
 */

static int hardware_compare(const void *left, const void *right)
{
	const struct kubelet_hardware *const *a = left, *const *b = right;
	return (*a > *b) - (*a < *b); /* of one array, in the order of their indices */
}

/* Each device once, without replica numbers. */
static int answer_hardware(const struct question *question, uint32_t number,
			   const V1beta1__ContainerAllocateRequest *request,
			   struct allocate_answer *answer)
{
	const struct kubelet_resource *resource = question->resource;
	size_t room = request->n_devices_ids < resource->hardware_count ? request->n_devices_ids
									: resource->hardware_count;

	answer->hardware = arena_alloc(answer->arena, (room + 1) * sizeof(*answer->hardware));
	if (!answer->hardware)
		return -ENOMEM;

	for (size_t i = 0; i < request->n_devices_ids; i++) {
		const struct kubelet_hardware *hardware =
		    resource_find(resource, request->devices_ids[i])->hardware;
		uint32_t *seen = &question->seen[hardware - resource->hardware];

		if (*seen == number)
			continue;

		*seen = number;
		answer->hardware[answer->count++] = hardware;
	}

	if (resource->settings.index_ids)
		qsort(answer->hardware, answer->count, sizeof(*answer->hardware), hardware_compare);

	return 0;
}

/* A random UUID (RFC 9562, version 4). */
static int answer_uuid(const struct question *question, char out[ALLOCATE_UUID_TEXT])
{
	static const char digits[] = "0123456789abcdef";
	uint8_t bytes[ALLOCATE_UUID_BYTES];
	int rc = 0;

	if (question->random)
		rc = question->random->fill(bytes, sizeof(bytes), question->random->context);
	else if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		rc = -EIO;

	if (rc < 0)
		return err_set(question->err, rc, "%s: no random bytes for the id of an allocation",
			       question->resource->name);

	bytes[6] = (uint8_t)((bytes[6] & 0x0f) | 0x40);
	bytes[8] = (uint8_t)((bytes[8] & 0x3f) | 0x80);

	char *at = out;
	for (size_t i = 0; i < sizeof(bytes); i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*at++ = '-';
		*at++ = digits[bytes[i] >> 4];
		*at++ = digits[bytes[i] & 15];
	}

	*at = '\0';
	return 0;
}

static int answer_switches(const struct allocate_answer *answer)
{
	const struct kubelet_settings *settings = &answer->resource->settings;
	int rc = 0;

	if (settings->gdrcopy)
		rc = answer_env(answer, "NVIDIA_GDRCOPY", "enabled");
	if (rc == 0 && settings->gds)
		rc = answer_env(answer, "NVIDIA_GDS", "enabled");
	if (rc == 0 && settings->mofed)
		rc = answer_env(answer, "NVIDIA_MOFED", "enabled");
	if (rc == 0 && settings->alloc_env)
		rc = answer_env(answer, "SLUICE_ALLOC",
				arena_copy_text(answer->arena, answer->uuid));

	return rc;
}

static int answer_container(const struct question *question, uint32_t number,
			    const V1beta1__ContainerAllocateRequest *request,
			    V1beta1__ContainerAllocateResponse *out)
{
	static const uint32_t cdi = CONFIG_LIST_CDI_ANNOTATIONS | CONFIG_LIST_CDI_CRI;
	const struct kubelet_settings *settings = &question->resource->settings;
	struct allocate_answer answer = {
	    .resource = question->resource, .arena = question->arena, .out = out};
	uint32_t strategies = settings->list_strategy | (settings->also_cdi ? cdi : 0);
	if ((strategies & CONFIG_LIST_CDI_ANNOTATIONS) || settings->alloc_env) {
		int rc = answer_uuid(question, answer.uuid);
		if (rc < 0)
			return rc;
	}

	out->envs = arena_alloc(question->arena, ALLOCATE_ENVS_MAX * sizeof(*out->envs));
	int rc = out->envs ? answer_hardware(question, number, request, &answer) : -ENOMEM;
	/* A container that asks for no device gets none, nor what goes with one. */
	if (rc == 0 && answer.count > 0 && (strategies & cdi))
		rc = answer_cdi(&answer, strategies);
	if (rc == 0 && (strategies & CONFIG_LIST_ENVVAR))
		rc = answer_names(&answer);

	/* Behind envvar: where both are asked for, this one's value holds. */
	if (rc == 0 && (strategies & CONFIG_LIST_VOLUME_MOUNTS))
		rc = answer_mounts(&answer);
	if (rc == 0)
		rc = answer_switches(&answer);
	if (rc == 0 && ((settings->also_nodes && answer.count > 0) ||
			(settings->pass_device_specs && (settings->list_strategy & ~cdi))))
		rc = answer_nodes(&answer);
	if (rc < 0)
		return err_set(question->err, rc,
			       "%s: out of memory for the answer to an allocation",
			       question->resource->name);

	qsort(out->envs, out->n_envs, sizeof(*out->envs), entry_compare);
	return 0;
}

int allocate_answer(const struct kubelet_resource *resource,
		    const V1beta1__AllocateRequest *request, const struct allocate_random *random,
		    struct arena *arena, V1beta1__AllocateResponse *out, struct err *err)
{
	struct question question = {resource, random, arena, NULL, err};
	V1beta1__AllocateResponse response = V1BETA1__ALLOCATE_RESPONSE__INIT;

	for (size_t i = 0; i < request->n_container_requests; i++) {
		int rc = check_container(&question, request->container_requests[i]);
		if (rc < 0)
			return rc;
	}

	size_t count = request->n_container_requests;

	question.seen =
	    arena_alloc(arena, (resource->hardware_count + (size_t)1) * sizeof(uint32_t));
	response.container_responses =
	    arena_alloc(arena, (count + 1) * sizeof(*response.container_responses));
	if (!question.seen || !response.container_responses)
		return err_set(err, -ENOMEM, "%s: out of memory for the answer to an allocation",
			       resource->name);

	for (size_t i = 0; i < count; i++) {
		V1beta1__ContainerAllocateResponse *container =
		    arena_alloc(arena, sizeof(*container));
		if (!container)
			return err_set(err, -ENOMEM,
				       "%s: out of memory for the answer to an allocation",
				       resource->name);

		v1beta1__container_allocate_response__init(container);
		int rc = answer_container(&question, (uint32_t)(i + 1),
					  request->container_requests[i], container);
		if (rc < 0)
			return rc;

		response.container_responses[response.n_container_responses++] = container;
	}

	*out = response;
	return 0;
}

enum wire_status allocate_status(int code)
{
	return code == -EINVAL ? WIRE_UNKNOWN : wire_status_from_errno(code);
}
