/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/kube/object.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"

static const char *const object_types[] = {
    [OBJECT_ADDED] = "ADDED",	    [OBJECT_MODIFIED] = "MODIFIED", [OBJECT_DELETED] = "DELETED",
    [OBJECT_BOOKMARK] = "BOOKMARK", [OBJECT_ERROR] = "ERROR",
};

const char *const object_followed[OBJECT_FOLLOWED] = {
    "nvidia.com/gpu.workload.config",	   "nvidia.com/gpu.deploy.operands",
    "nvidia.com/gpu.deploy.device-plugin", "nvidia.com/gpu.deploy.gpu-feature-discovery",
    "nvidia.com/gpu-driver-upgrade-state",
};

static void object_free(json_t **json)
{
	json_decref(*json);
}

/* jansson goes 2048 levels deep, a call for each, and needs a hundred bytes for a value of two. */
static int object_guard(const char *text, size_t length, struct err *err)
{
	size_t depth = 0, values = 0;
	bool in_string = false;

	for (size_t i = 0; i < length; i++) {
		char byte = text[i];

		if (in_string) {
			if (byte == '\\')
				i++;
			else if (byte == '"')
				in_string = false;
			continue;
		}

		if (byte == '"')
			in_string = true;
		else if (byte == '{' || byte == '[')
			depth++;
		else if ((byte == '}' || byte == ']') && depth > 0)
			depth--;

		values += byte == '{' || byte == '[' || byte == ',';
		if (depth > OBJECT_DEPTH_MAX)
			return err_set(err, -EBADMSG, "more than %d levels deep", OBJECT_DEPTH_MAX);
		if (values > OBJECT_VALUES_MAX)
			return err_set(err, -EBADMSG, "more than %d values", OBJECT_VALUES_MAX);
	}

	return 0;
}

json_t *object_load(const char *text, size_t length, struct err *err)
{
	json_error_t why;

	if (object_guard(text, length, err) < 0)
		return NULL;

	json_t *json = json_loadb(text, length, 0, &why);
	if (!json) {
		/* It has no words for some of what it cannot allocate. */
		if (json_error_code(&why) == json_error_out_of_memory || !*why.text)
			(void)err_set(err, -ENOMEM, "out of memory");
		else
			(void)err_set(err, -EBADMSG, "no JSON: %s (byte %d)", why.text,
				      why.position);
	}

	return json;
}

/* Visible ASCII only: it goes into the next request. "" is none. */
static int object_read_version(const json_t *metadata, char out[OBJECT_VERSION_MAX],
			       struct err *err)
{
	const char *version = json_string_value(json_object_get(metadata, "resourceVersion"));
	if (!version || !*version)
		return err_set(err, -EBADMSG, "no metadata.resourceVersion");

	size_t length = strlen(version);

	for (size_t i = 0; i < length; i++) {
		char byte = version[i];
		if (length >= OBJECT_VERSION_MAX ||
		    !((byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
		      (byte >= 'A' && byte <= 'Z') || byte == '-' || byte == '_' || byte == '.'))
			return err_set(err, -EBADMSG, "metadata.resourceVersion '%.80s' is no name",
				       version);
	}

	memcpy(out, version, length + 1);
	return 0;
}

/* One that is longer than Kubernetes permits is none. */
static void object_read_followed(const json_t *labels, struct object_node *out)
{
	for (size_t i = 0; i < OBJECT_FOLLOWED; i++) {
		const json_t *value = json_object_get(labels, object_followed[i]);
		if (json_is_string(value) && json_string_length(value) < OBJECT_VALUE_MAX)
			memcpy(out->value[i], json_string_value(value),
			       json_string_length(value) + 1);
	}
}

static int object_read_node(const json_t *node, const char *label, struct object_node *out,
			    struct err *err)
{
	const json_t *metadata = json_object_get(node, "metadata");
	const json_t *labels = json_object_get(metadata, "labels");
	const json_t *value = json_object_get(labels, label);

	*out = (struct object_node){.has_label = json_is_string(value)};
	if (out->has_label && json_string_length(value) >= OBJECT_LABEL_MAX)
		return err_set(err, -EBADMSG, "label '%s' has more than %d bytes", label,
			       OBJECT_LABEL_MAX - 1);
	if (out->has_label)
		memcpy(out->label, json_string_value(value), json_string_length(value) + 1);
	object_read_followed(labels, out);

	return object_read_version(metadata, out->version, err);
}

static void object_read_status(const json_t *status, struct object_status *out)
{
	const json_t *code = json_object_get(status, "code");
	const char *message = json_string_value(json_object_get(status, "message"));
	json_int_t number = json_integer_value(code);
	*out = (struct object_status){.code = number > 0 && number < 1000 ? (uint32_t)number : 0};
	(void)snprintf(out->message, sizeof(out->message), "%s", message ? message : "");
}

int object_event_parse(const char *text, size_t length, const char *label, struct object_event *out,
		       struct err *err)
{
	_cleanup_(object_free) json_t *json = object_load(text, length, err);
	if (!json)
		return err->code;

	const char *type = json_string_value(json_object_get(json, "type"));
	const json_t *object = json_object_get(json, "object");
	if (!type || !json_is_object(object))
		return err_set(err, -EBADMSG, "no type and object, as an event of a watch has");

	struct object_event event = {.type = OBJECT_ADDED};
	while (event.type < OBJECT_OTHER && strcmp(type, object_types[event.type]) != 0)
		event.type++;

	if (event.type == OBJECT_ERROR) {
		object_read_status(object, &event.status);
	} else if (event.type != OBJECT_OTHER) {
		int rc = object_read_node(object, label, &event.node, err);
		if (rc < 0)
			return rc;
	}

	*out = event;
	return 0;
}

int object_list_parse(const char *text, size_t length, const char *name, const char *label,
		      struct object_list *out, struct err *err)
{
	_cleanup_(object_free) json_t *json = object_load(text, length, err);
	if (!json)
		return err->code;

	const json_t *items = json_object_get(json, "items");
	struct object_list list = {.found = false};
	int rc = object_read_version(json_object_get(json, "metadata"), list.version, err);
	if (rc < 0)
		return rc;

	/* No items at all, and null, are what Go makes of an empty list. */
	for (size_t i = 0; i < json_array_size(items) && !list.found; i++) {
		const json_t *item = json_array_get(items, i);
		const char *its =
		    json_string_value(json_object_get(json_object_get(item, "metadata"), "name"));
		if (!its || strcmp(its, name) != 0)
			continue;

		rc = object_read_node(item, label, &list.node, err);
		if (rc < 0)
			return rc;

		list.found = true;
	}

	*out = list;
	return 0;
}

int object_status_parse(const char *text, size_t length, struct object_status *out, struct err *err)
{
	_cleanup_(object_free) json_t *json = object_load(text, length, err);
	if (!json)
		return err->code;
	object_read_status(json, out);
	return 0;
}
