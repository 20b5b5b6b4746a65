/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/kube/feature.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"

#define FEATURE_NODE_NAME "nfd.node.kubernetes.io/node-name"
/* NFD leaves this out where it remembers its labels. */
#define FEATURE_PREFIX "feature.node.kubernetes.io/"

enum { FEATURE_LIST_MAX = 1 << 20 };

static void json_cleanup(json_t **json)
{
	json_decref(*json);
}

static const json_t *metadata(const json_t *object)
{
	return json_object_get(object, "metadata");
}

/* --- NodeFeature ------------------------------------------------------------------------------ */

bool feature_is(const json_t *there, const struct feature_object *wish)
{
	const json_t *its = metadata(there);
	const char *node =
	    json_string_value(json_object_get(json_object_get(its, "labels"), FEATURE_NODE_NAME));
	const json_t *labels = json_object_get(json_object_get(there, "spec"), "labels");
	const json_t *owners = json_object_get(its, "ownerReferences");

	return node && strcmp(node, wish->node) == 0 && labels &&
	       json_equal(labels, wish->labels) &&
	       (!wish->owners ||
		(owners ? json_equal(owners, wish->owners) : json_array_size(wish->owners) == 0));
}

static char *dump(json_t *json)
{
	char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
	json_decref(json);
	return text;
}

/* 0 or -1. */
static int feature_set_metadata(json_t *object, const struct feature_object *wish)
{
	json_t *its = json_object_get(object, "metadata");
	json_t *labels = json_object_get(its, "labels");
	if (!labels) {
		labels = json_object();
		if (json_object_set_new(its, "labels", labels) < 0)
			return -1;
	}

	if (json_object_set_new(labels, FEATURE_NODE_NAME, json_string(wish->node)) < 0)
		return -1;
	if (wish->owners && json_array_size(wish->owners) > 0)
		return json_object_set(its, "ownerReferences", (json_t *)wish->owners);

	return 0;
}

char *feature_body(const json_t *there, const struct feature_object *wish)
{
	char name[512];
	(void)snprintf(name, sizeof(name), "nvidia-features-for-%s", wish->node);

	_cleanup_(json_cleanup) json_t *object =
	    there ? json_deep_copy(there)
		  : json_pack("{s:s, s:s, s:{s:s, s:s}}", "apiVersion", "nfd.k8s-sigs.io/v1alpha1",
			      "kind", "NodeFeature", "metadata", "name", name, "namespace",
			      wish->namespace_);
	json_t *spec = json_pack("{s:{s:{}, s:{}, s:{}}, s:O}", "features", "flags", "attributes",
				 "instances", "labels", wish->labels);
	if (json_object_set_new(object, "spec", spec) < 0 || feature_set_metadata(object, wish) < 0)
		return NULL;

	return json_dumps(object, JSON_COMPACT);
}

json_t *feature_owners(const json_t *pod)
{
	const json_t *its = metadata(pod), *reference;
	const char *name = json_string_value(json_object_get(its, "name"));
	const char *uid = json_string_value(json_object_get(its, "uid"));
	size_t index;

	if (!name || !uid)
		return NULL;

	_cleanup_(json_cleanup) json_t *owners = json_array();

	json_array_foreach(json_object_get(its, "ownerReferences"), index, reference)

	{
		const char *kind = json_string_value(json_object_get(reference, "kind"));
		if (!kind || strcmp(kind, "DaemonSet") != 0)
			continue;

		json_t *owner = json_pack("{s:O?, s:O?, s:O?, s:O?, s:b}", "apiVersion",
					  json_object_get(reference, "apiVersion"), "kind",
					  json_object_get(reference, "kind"), "name",
					  json_object_get(reference, "name"), "uid",
					  json_object_get(reference, "uid"), "controller", 1);
		if (json_array_append_new(owners, owner) < 0)
			return NULL;
	}

	json_t *itself = json_pack("{s:s, s:s, s:s, s:s}", "apiVersion", "v1", "kind", "Pod",
				   "name", name, "uid", uid);
	if (json_array_append_new(owners, itself) < 0)
		return NULL;

	return take_ptr(owners);
}

/* --- Node ------------------------------------------------------------------------------------- */

char *feature_apply_body(const char *node, const json_t *labels)
{
	return dump(json_pack("{s:s, s:s, s:{s:s, s:O}}", "apiVersion", "v1", "kind", "Node",
			      "metadata", "name", node, "labels", labels));
}

bool feature_on_node(const json_t *node, const json_t *labels)
{
	const json_t *there = json_object_get(metadata(node), "labels"), *value;
	const char *key;
	json_object_foreach((json_t *)labels, key, value)

	{
		const json_t *its = json_object_get(there, key);
		if (!its || !json_equal(its, value))
			return false;
	}

	return true;
}

static const char *feature_list(const json_t *node)
{
	const char *list = json_string_value(
	    json_object_get(json_object_get(metadata(node), "annotations"), FEATURE_ANNOTATION));
	return list ? list : "";
}

/* Whether NFD's word for a label ("pci-10de.present", "nvidia.com/gpu.count") is this key. */
static bool feature_is_key(const char *word, size_t length, const char *key)
{
	size_t prefix = sizeof(FEATURE_PREFIX) - 1;
	if (!memchr(word, '/', length) && strncmp(key, FEATURE_PREFIX, prefix) == 0)
		key += prefix;
	return strlen(key) == length && memcmp(word, key, length) == 0;
}

json_t *feature_of_discovery(const json_t *node, const json_t *labels)
{
	_cleanup_(json_cleanup) json_t *found = json_object();
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)labels, key, value)

	{
		size_t length;

		for (const char *at = feature_list(node); *at != '\0';
		     at += length + (at[length] == ',')) {
			length = strcspn(at, ",");
			if (feature_is_key(at, length, key) &&
			    json_object_set(found, key, value) < 0)
				return NULL;
		}
	}

	return take_ptr(found);
}

char *feature_forget_body(const json_t *node, const json_t *labels)
{
	_cleanup_buf_ struct buf rest;
	const char *key;
	json_t *value;
	size_t length;

	buf_init(&rest, FEATURE_LIST_MAX);

	for (const char *at = feature_list(node); *at != '\0'; at += length + (at[length] == ',')) {
		bool is_ours = false;

		length = strcspn(at, ",");
		json_object_foreach((json_t *)labels, key, value) is_ours |=
		    feature_is_key(at, length, key);

		if (!is_ours &&
		    buf_printf(&rest, "%s%.*s", rest.length ? "," : "", (int)length, at) < 0)
			return NULL;
	}

	/* A list of nothing is none: where discovery is not installed nobody else would remove it.
	 */
	json_t *list = rest.length > 0 ? json_string(buf_text(&rest)) : json_null();
	return dump(json_pack("{s:{s:O?, s:{s:o}}}", "metadata", "resourceVersion",
			      json_object_get(metadata(node), "resourceVersion"), "annotations",
			      FEATURE_ANNOTATION, list));
}

/* Who applied a label must not keep it for ever, or it stays when NFD takes it away; who gives up
 * applying it takes it away at once. What is left is to let go of it. */
char *feature_release_body(const json_t *node)
{
	const json_t *entries = json_object_get(metadata(node), "managedFields"), *entry;
	size_t index;
	json_array_foreach(entries, index, entry)

	{
		char path[64], test[96];
		const char *manager = json_string_value(json_object_get(entry, "manager"));
		const char *operation = json_string_value(json_object_get(entry, "operation"));
		if (!manager || !operation || strcmp(manager, FEATURE_MANAGER) != 0 ||
		    strcmp(operation, "Apply") != 0)
			continue;

		(void)snprintf(path, sizeof(path), "/metadata/managedFields/%zu", index);
		(void)snprintf(test, sizeof(test), "%s/manager", path);
		return dump(json_pack("[{s:s, s:s, s:s}, {s:s, s:s}]", "op", "test", "path", test,
				      "value", FEATURE_MANAGER, "op", "remove", "path", path));
	}

	return NULL;
}
