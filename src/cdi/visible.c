/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/visible.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/text.h"
#include "cdi/document.h"
#include "cdi/driver.h"
#include "cdi/oci.h"

#define VISIBLE_ANNOTATIONS "cdi.k8s.io/"
#define VISIBLE_BLANKS	    " \t"

/* The words that stand for a whole list. */
enum visible_word { VISIBLE_LIST, VISIBLE_NOTHING, VISIBLE_NO_GPU };

struct visible_reader {
	const json_t *config;
	const struct visible_settings *settings;
	struct visible *out;
	struct err *err;
};

typedef int (*visible_each_fn)(struct visible_reader *reader, const char *origin, const char *item);

bool visible_is_privileged(const json_t *config)
{
	const json_t *all = json_object_get(json_object_get(config, "process"), "capabilities");
	const json_t *bounding = json_object_get(all, "bounding");
	size_t i;
	json_t *entry;

	json_array_foreach(bounding, i, entry)

	{
		const char *name = json_string_value(entry);
		if (name && strcmp(name, "CAP_SYS_ADMIN") == 0)
			return true;
	}

	return false;
}

static const char *visible_variable(const struct visible_reader *reader, const char *name,
				    size_t length)
{
	const json_t *process = json_object_get(reader->config, "process");
	return oci_variable(json_object_get(process, "env"), name, length);
}

static const char *visible_env(const struct visible_reader *reader, const char *name)
{
	return visible_variable(reader, name, strlen(name));
}

/* Calls `each` for every item of a comma list, without the blanks around it; empty ones are left
 * out. `origin` is what messages call the list. */
static int visible_split(struct visible_reader *reader, const char *origin, const char *list,
			 visible_each_fn each)
{
	int rc = 0;

	for (const char *at = list; rc == 0; at++) {
		const char *end = at + strcspn(at, ",");

		at += strspn(at, VISIBLE_BLANKS);
		size_t length = at < end ? (size_t)(end - at) : 0;
		while (length > 0 && strchr(VISIBLE_BLANKS, at[length - 1]))
			length--;

		char item[VISIBLE_NAME_MAX];
		if (length >= sizeof(item))
			return err_set(reader->err, -EINVAL, "%s: '%.64s...' is too long", origin,
				       at);

		memcpy(item, at, length);
		item[length] = '\0';
		if (length > 0)
			rc = each(reader, origin, item);
		at = end;
		if (*at == '\0')
			break;
	}

	return rc;
}

static int visible_add(struct visible_reader *reader, const char *name)
{
	struct visible *out = reader->out;
	if (out->count == VISIBLE_NAMES_MAX)
		return err_set(reader->err, -E2BIG, "more than %d devices are asked for",
			       VISIBLE_NAMES_MAX);
	if (!out->names)
		out->names = calloc(VISIBLE_NAMES_MAX, sizeof(*out->names));

	char *own = strdup(name);
	if (!out->names || !own) {
		free(own);
		return err_set(reader->err, -ENOMEM, "out of memory for device '%.64s'", name);
	}

	out->names[out->count++] = own;
	return 0;
}

static bool visible_is_qualified(const char *name)
{
	char kind[DOCUMENT_NAME_MAX];
	size_t length = strcspn(name, "=");
	if (length >= sizeof(kind) || name[length] == '\0')
		return false;
	memcpy(kind, name, length);
	kind[length] = '\0';
	return document_is_kind(kind) && document_is_device(name + length + 1);
}

static int visible_add_qualified(struct visible_reader *reader, const char *origin,
				 const char *item)
{
	if (!visible_is_qualified(item))
		return err_set(reader->err, -EINVAL, "%.128s: '%.128s' is not VENDOR/CLASS=NAME",
			       origin, item);
	return visible_add(reader, item);
}

static int visible_add_device(struct visible_reader *reader, const char *origin, const char *item)
{
	bool is_word = strcmp(item, "none") == 0 || strcmp(item, "void") == 0;
	if (is_word || (!document_is_device(item) && !visible_is_qualified(item)))
		return err_set(reader->err, -EINVAL, "%.128s: '%.128s' is no device%s", origin,
			       item, is_word ? " of a list" : "");
	return visible_add(reader, item);
}

static int visible_add_channel(struct visible_reader *reader, const char *origin, const char *item)
{
	struct visible *out = reader->out;
	uint64_t channel;

	if (parse_u64(item, 0, VISIBLE_CHANNEL_MAX, &channel) < 0)
		return err_set(reader->err, -EINVAL, "%.128s: '%.128s' is no IMEX channel", origin,
			       item);
	if (out->channel_count == VISIBLE_CHANNELS_MAX)
		return err_set(reader->err, -E2BIG, "more than %d IMEX channels are asked for",
			       VISIBLE_CHANNELS_MAX);

	out->channels[out->channel_count++] = (uint32_t)channel;
	return 0;
}

static int visible_add_capability(struct visible_reader *reader, const char *origin,
				  const char *item)
{
	uint32_t bits = 0;
	/* 32-bit libraries are in no specification of ours. */
	if (strcmp(item, "compat32") != 0 &&
	    driver_capabilities_parse(item, &bits, reader->err) < 0)
		return err_wrap(reader->err, "%s", origin);
	reader->out->capabilities |= bits;
	return 0;
}

static enum visible_word visible_word(const char *value)
{
	if (value[strspn(value, VISIBLE_BLANKS)] == '\0' || strcmp(value, "void") == 0)
		return VISIBLE_NOTHING;
	return strcmp(value, "none") == 0 ? VISIBLE_NO_GPU : VISIBLE_LIST;
}

/* One value of a variable or the name of a mount. */
static int visible_take(struct visible_reader *reader, enum visible_source source,
			const char *origin, const char *value)
{
	enum visible_word word = visible_word(value);
	uint32_t before = reader->out->count;
	int rc =
	    word == VISIBLE_LIST ? visible_split(reader, origin, value, visible_add_device) : 0;

	/* A list of nothing but commas asks for nothing. */
	if (word == VISIBLE_NO_GPU || reader->out->count > before)
		reader->out->source = source;

	return rc;
}

/* ---- The three sources ---- */

static int visible_annotations(struct visible_reader *reader)
{
	json_t *annotations = json_object_get(reader->config, "annotations");
	const char *key;
	json_t *value;
	int rc = 0;

	json_object_foreach(annotations, key, value)

	{
		if (!text_starts_with(key, VISIBLE_ANNOTATIONS))
			continue;

		const char *list = json_string_value(value);
		uint32_t before = reader->out->count;

		if (rc == 0 && list)
			rc = visible_split(reader, key, list, visible_add_qualified);
		if (rc == 0 && reader->out->count == before)
			rc = err_set(reader->err, -EINVAL, "%.128s: it names no device", key);
		reader->out->source = VISIBLE_ANNOTATION;
	}

	return rc;
}

static int visible_mount(struct visible_reader *reader, const char *path)
{
	static const char cdi[] = "cdi/", imex[] = "imex/";
	const char *name = path + strlen(VISIBLE_MOUNTS) + 1;
	if (text_starts_with(name, imex))
		return visible_add_channel(reader, path, name + strlen(imex));
	if (!text_starts_with(name, cdi))
		return visible_take(reader, VISIBLE_MOUNT, path, name);

	/* cdi/VENDOR/CLASS/NAME */
	char item[VISIBLE_NAME_MAX];

	name += strlen(cdi);
	const char *slash = strchr(name, '/'), *last = slash ? strchr(slash + 1, '/') : NULL;
	if (!last || strlen(name) >= sizeof(item))
		return err_set(reader->err, -EINVAL,
			       "mount '%.256s': it is not cdi/VENDOR/CLASS/NAME", path);

	memcpy(item, name, strlen(name) + 1);
	item[last - name] = '=';
	reader->out->source = VISIBLE_MOUNT;

	return visible_add_qualified(reader, path, item);
}

static int visible_mounts(struct visible_reader *reader)
{
	const json_t *mounts = json_object_get(reader->config, "mounts");
	size_t i, length = strlen(VISIBLE_MOUNTS);
	json_t *mount;
	int rc = 0;

	json_array_foreach(mounts, i, mount)

	{
		const char *source = json_string_value(json_object_get(mount, "source"));
		const char *path = json_string_value(json_object_get(mount, "destination"));
		if (rc == 0 && source && path && strcmp(source, "/dev/null") == 0 &&
		    strncmp(path, VISIBLE_MOUNTS "/", length + 1) == 0)
			rc = visible_mount(reader, path);
	}

	return rc;
}

/* The configured variables of which the container has any, concatenated. */
static int visible_own_variables(struct visible_reader *reader, bool *out_any)
{
	const char *at = reader->settings->variables;
	int rc = 0;

	*out_any = false;
	while (rc == 0 && at && *at) {
		size_t length = strcspn(at, ",");
		const char *value = visible_variable(reader, at, length);
		if (value) {
			*out_any = true;
			rc = visible_take(reader, VISIBLE_VARIABLE, "the swarm variable", value);
		}

		at += length + (at[length] == ',');
	}

	return rc;
}

static int visible_variables(struct visible_reader *reader)
{
	if (!reader->settings->unprivileged_variable && !visible_is_privileged(reader->config))
		return 0;

	bool has_own;
	int rc = visible_own_variables(reader, &has_own);
	const char *value = has_own ? NULL : visible_env(reader, "NVIDIA_VISIBLE_DEVICES");
	if (rc == 0 && value)
		rc = visible_take(reader, VISIBLE_VARIABLE, "NVIDIA_VISIBLE_DEVICES", value);

	const char *channels = visible_env(reader, "NVIDIA_IMEX_CHANNELS");
	if (rc == 0 && reader->out->source == VISIBLE_VARIABLE && channels)
		rc = visible_split(reader, "NVIDIA_IMEX_CHANNELS", channels, visible_add_channel);

	return rc;
}

/* ---- What comes with the devices ---- */

static int visible_mig(struct visible_reader *reader, const char *name, bool *out)
{
	const char *value = visible_env(reader, name);
	if (!value || visible_word(value) != VISIBLE_LIST)
		return 0;
	if (!visible_is_privileged(reader->config))
		return err_set(reader->err, -EPERM,
			       "%s: only a privileged container may have MIG's management", name);
	if (strcmp(value, "all") != 0)
		return err_set(reader->err, -EINVAL, "%s: '%.128s' is not 'all'", name, value);

	*out = true;
	return 0;
}

static int visible_capabilities(struct visible_reader *reader)
{
	const char *value = visible_env(reader, "NVIDIA_DRIVER_CAPABILITIES");
	if (!value || value[0] == '\0') {
		reader->out->capabilities = DRIVER_UTILITY | DRIVER_COMPUTE;
		return 0;
	}
	return visible_split(reader, "NVIDIA_DRIVER_CAPABILITIES", value, visible_add_capability);
}

int visible_read(const json_t *config, const struct visible_settings *settings, struct visible *out,
		 struct err *err)
{
	_cleanup_visible_ struct visible visible = {0};
	struct visible_reader reader = {config, settings, &visible, err};
	int rc = 0;

	if (settings->annotations)
		rc = visible_annotations(&reader);
	if (rc == 0 && visible.source == VISIBLE_NOBODY && settings->volume_mounts)
		rc = visible_mounts(&reader);
	if (rc == 0 && visible.source == VISIBLE_NOBODY) {
		visible.channel_count = 0; /* of mounts that name no device */
		rc = visible_variables(&reader);
	}

	/* Annotations are CDI's own: what they name comes whole, as everywhere. */
	if (visible.source == VISIBLE_ANNOTATION) {
		visible.capabilities = DRIVER_ALL;
	} else if (rc == 0 && visible.source != VISIBLE_NOBODY) {
		rc = visible_capabilities(&reader);
		if (rc == 0)
			rc = visible_mig(&reader, "NVIDIA_MIG_CONFIG_DEVICES", &visible.mig_config);
		if (rc == 0)
			rc = visible_mig(&reader, "NVIDIA_MIG_MONITOR_DEVICES",
					 &visible.mig_monitor);
	}

	if (rc < 0)
		return rc;

	*out = visible;
	visible = (struct visible){0};
	return 0;
}

void visible_done(struct visible *visible)
{
	for (uint32_t i = 0; i < visible->count; i++)
		free(visible->names[i]);
	free(visible->names);
	*visible = (struct visible){0};
}
