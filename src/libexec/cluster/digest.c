/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/cluster/digest.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "libexec/kube/object.h"

#define DIGEST_OSTREE "feature.node.kubernetes.io/system-os_release.OSTREE_VERSION"

/* --- JSON ------------------------------------------------------------------------------------- */

static void digest_free(json_t **json)
{
	json_decref(*json);
}
#define _cleanup_json_ __attribute__((cleanup(digest_free)))

static json_t *digest_get(const json_t *json, const char *first, const char *second)
{
	const json_t *inner = json_object_get(json, first);
	return second ? json_object_get(inner, second) : json_object_get(json, first);
}

/* "" for what is no text. */
static const char *digest_text(const json_t *json, const char *first, const char *second)
{
	const char *text = json_string_value(digest_get(json, first, second));
	return text ? text : "";
}

/* The name of an object; "?" for what Kubernetes takes for none: names become parts of paths and of
 * commands that a person copies. */
static const char *digest_name(const json_t *json, const char *first, const char *second)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789.-";
	const char *text = digest_text(json, first, second);
	size_t length = strlen(text);
	return length < DIGEST_NAME_MAX && strspn(text, allowed) == length && *text != '-' ? text
											   : "?";
}

/* The array `name` of the facts, made where it is not there. NULL: no memory. Borrowed. */
static json_t *digest_list(json_t *facts, const char *name)
{
	json_t *list = json_object_get(facts, name);
	if (!list && json_object_set_new(facts, name, json_array()) == 0)
		list = json_object_get(facts, name);
	return list;
}

static int digest_no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "out of memory for what the API server says");
}

/* Adds `thing` (given, NULL: no memory) while there is room. */
static int digest_keep(json_t *facts, const char *name, json_t *thing, struct err *err)
{
	json_t *list = thing ? digest_list(facts, name) : NULL;
	if (!list) {
		json_decref(thing);
		return digest_no_memory(err);
	}

	if (json_array_size(list) >= DIGEST_KEPT_MAX) {
		json_decref(thing);
		return 0;
	}

	return json_array_append_new(list, thing) < 0 ? digest_no_memory(err) : 0;
}

/* A list's items, and where it goes on. NULL: the error is set. */
static json_t *digest_load_list(const char *text, size_t length, char *out_continue,
				struct err *err)
{
	json_t *json = object_load(text, length, err);
	if (!json)
		return NULL;

	const char *more = digest_text(json, "metadata", "continue");
	if (!json_is_array(json_object_get(json, "items")) ||
	    (out_continue && strlen(more) >= DIGEST_CONTINUE_MAX)) {
		json_decref(json);
		(void)err_set(err, -EBADMSG, "it is no list");
		return NULL;
	}

	if (out_continue)
		(void)snprintf(out_continue, DIGEST_CONTINUE_MAX, "%s", more);

	return json;
}

/* --- one object each -------------------------------------------------------------------------- */

int digest_groups(const char *text, size_t length, struct digest_groups *out, struct err *err)
{
	_cleanup_json_ json_t *json = object_load(text, length, err);
	struct digest_groups groups = {.openshift = false};
	const json_t *group;
	size_t i;

	if (!json)
		return err->code;
	if (!json_is_array(json_object_get(json, "groups")))
		return err_set(err, -EBADMSG, "it has no list of groups");

	json_array_foreach(json_object_get(json, "groups"), i, group)

	{
		const char *name = digest_text(group, "name", NULL);
		groups.openshift |= strcmp(name, "security.openshift.io") == 0;
		groups.images |= strcmp(name, "image.openshift.io") == 0;
		groups.gpu_operator |= strcmp(name, "nvidia.com") == 0;
		groups.network_operator |= strcmp(name, "mellanox.com") == 0;
	}

	*out = groups;
	return 0;
}

int digest_namespace(const char *text, size_t length, json_t *facts, struct err *err)
{
	_cleanup_json_ json_t *json = object_load(text, length, err);
	if (!json)
		return err->code;

	const json_t *labels = digest_get(json, "metadata", "labels");
	json_t *thing =
	    json_pack("{s:s, s:O?, s:O?}", "name", digest_name(json, "metadata", "name"), "enforce",
		      json_object_get(labels, "pod-security.kubernetes.io/enforce"), "sync",
		      json_object_get(labels, "security.openshift.io/scc.podSecurityLabelSync"));

	return thing && json_object_set_new(facts, "namespace", thing) == 0 ? 0
									    : digest_no_memory(err);
}

int digest_review(const char *text, size_t length, json_t *facts, struct err *err)
{
	_cleanup_json_ json_t *json = object_load(text, length, err);
	if (!json)
		return err->code;
	if (!json_is_boolean(digest_get(json, "status", "allowed")))
		return err_set(err, -EBADMSG, "it has no status.allowed");

	json_t *thing =
	    json_pack("{s:b}", "allowed", json_is_true(digest_get(json, "status", "allowed")));
	return thing && json_object_set_new(facts, "scc", thing) == 0 ? 0 : digest_no_memory(err);
}

int digest_tags(const char *text, size_t length, json_t *facts, struct err *err)
{
	_cleanup_json_ json_t *json = object_load(text, length, err);
	const json_t *tag;
	size_t i;
	int rc = 0;

	if (!json)
		return err->code;
	if (!digest_list(facts, "tags"))
		return digest_no_memory(err);

	json_array_foreach(digest_get(json, "status", "tags"), i, tag)

	{
		if (rc == 0)
			rc = digest_keep(facts, "tags", json_string(digest_text(tag, "tag", NULL)),
					 err);
	}

	return rc;
}

/* --- lists ------------------------------------------------------------------------------------ */

/* What a DaemonSet is: by its name and images. In this order: one image has several programs. */
static const char *digest_component(const json_t *set)
{
	static const struct {
		const char *needle, *component;
	} rows[] = {
	    {"gpu-feature-discovery", "gpu-feature-discovery"},
	    {"mps-control-daemon", ""}, /* of the plugin's image, and gives out nothing */
	    {"rdma-shared", "rdma-shared-device-plugin"},
	    {"sriov", ""}, /* gives out other things */
	    {"nvidia-device-plugin", "nvidia-device-plugin"},
	    {"k8s-device-plugin", "nvidia-device-plugin"},
	};
	const json_t *containers = json_object_get(
	    digest_get(json_object_get(set, "spec"), "template", "spec"), "containers");
	const json_t *container;
	const char *name = digest_name(set, "metadata", "name");
	size_t at;

	if (strcmp(
		digest_text(digest_get(set, "metadata", "labels"), "app.kubernetes.io/name", NULL),
		"sluice") == 0)
		return "sluice";

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (strstr(name, rows[i].needle))
			return rows[i].component;

		json_array_foreach(containers, at, container)

		{
			if (strstr(digest_text(container, "image", NULL), rows[i].needle))
				return rows[i].component;
		}
	}

	return "";
}

int digest_daemonsets(const char *text, size_t length, json_t *facts,
		      char out_continue[DIGEST_CONTINUE_MAX], struct err *err)
{
	_cleanup_json_ json_t *json = digest_load_list(text, length, out_continue, err);
	const json_t *set;
	size_t i;
	int rc = 0;

	if (!json)
		return err->code;
	if (!digest_list(facts, "daemonsets"))
		return digest_no_memory(err);

	json_array_foreach(json_object_get(json, "items"), i, set)

	{
		const char *component = digest_component(set);
		const json_t *pod = digest_get(json_object_get(set, "spec"), "template", "spec");
		const json_t *status = json_object_get(set, "status");
		const json_t *owner =
		    json_array_get(digest_get(set, "metadata", "ownerReferences"), 0);

		if (!*component || rc < 0)
			continue;

		rc = digest_keep(
		    facts, "daemonsets",
		    json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:s}", "component", component,
			      "namespace", digest_name(set, "metadata", "namespace"), "name",
			      digest_name(set, "metadata", "name"), "account",
			      digest_name(pod, "serviceAccountName", NULL), "desired",
			      json_integer_value(json_object_get(status, "desiredNumberScheduled")),
			      "ready", json_integer_value(json_object_get(status, "numberReady")),
			      "owner", digest_text(owner, "kind", NULL)),
		    err);
	}

	return rc;
}

/* Resources of device plugins have a domain; those of Kubernetes itself are others' business. */
static bool digest_is_device(const char *resource)
{
	return strchr(resource, '/') && !strstr(resource, "kubernetes.io/");
}

static json_t *digest_lacks(const json_t *node)
{
	json_t *lacks = json_array();
	const json_t *allocatable = digest_get(node, "status", "allocatable");
	const char *resource;
	json_t *capacity;

	json_object_foreach(digest_get(node, "status", "capacity"), resource, capacity)

	{
		const char *has = json_string_value(capacity);
		const char *gives = digest_text(allocatable, resource, NULL);
		if (has && lacks && digest_is_device(resource) && strcmp(has, gives) != 0)
			(void)json_array_append_new(lacks, json_pack("{s:s, s:s, s:s}", "resource",
								     resource, "capacity", has,
								     "allocatable", gives));
	}

	return lacks;
}

int digest_nodes(const char *text, size_t length, json_t *facts,
		 char out_continue[DIGEST_CONTINUE_MAX], struct err *err)
{
	_cleanup_json_ json_t *json = digest_load_list(text, length, out_continue, err);
	const json_t *node;
	size_t i;
	int rc = 0;

	if (!json)
		return err->code;

	json_int_t count = json_integer_value(json_object_get(facts, "node_count")) +
			   (json_int_t)json_array_size(json_object_get(json, "items"));
	if (json_object_set_new(facts, "node_count", json_integer(count)) < 0 ||
	    !digest_list(facts, "nodes"))
		return digest_no_memory(err);

	json_array_foreach(json_object_get(json, "items"), i, node)

	{
		_cleanup_json_ json_t *lacks = digest_lacks(node);
		const char *ostree =
		    digest_text(digest_get(node, "metadata", "labels"), DIGEST_OSTREE, NULL);
		if (rc == 0 && (json_array_size(lacks) > 0 || *ostree))
			rc = digest_keep(facts, "nodes",
					 json_pack("{s:s, s:s, s:O}", "name",
						   digest_name(node, "metadata", "name"), "ostree",
						   ostree, "lacks", lacks),
					 err);
	}

	return rc;
}

/* When it was seen last, as text that can be compared. */
static const char *digest_event_time(const json_t *event)
{
	const char *time = digest_text(event, "lastTimestamp", NULL);
	return *time ? time : digest_text(event, "eventTime", NULL);
}

int digest_events(const char *text, size_t length, json_t *object, struct err *err)
{
	_cleanup_json_ json_t *json = digest_load_list(text, length, NULL, err);
	const json_t *event, *newest = NULL;
	size_t i;

	if (!json)
		return err->code;

	json_array_foreach(json_object_get(json, "items"), i, event)

	{
		/* What went well says nothing of what is missing. */
		if (strcmp(digest_text(event, "type", NULL), "Warning") == 0 &&
		    (!newest || strcmp(digest_event_time(event), digest_event_time(newest)) >= 0))
			newest = event;
	}

	json_t *message = newest ? json_string(digest_text(newest, "message", NULL)) : json_null();
	return message && json_object_set_new(object, "event", message) == 0
		   ? 0
		   : digest_no_memory(err);
}

/* What is on unless it is switched off, and what is on when it is there. */
static const char *const digest_gpu_parts[] = {"devicePlugin", "gfd"};
static const char *const digest_network_parts[] = {"rdmaSharedDevicePlugin"};

static json_t *digest_parts(const json_t *policy, bool is_gpu)
{
	const char *const *parts = is_gpu ? digest_gpu_parts : digest_network_parts;
	size_t count = is_gpu ? sizeof(digest_gpu_parts) / sizeof(*digest_gpu_parts)
			      : sizeof(digest_network_parts) / sizeof(*digest_network_parts);
	const json_t *spec = json_object_get(policy, "spec");
	json_t *on = json_array();

	for (size_t i = 0; i < count && on; i++) {
		const json_t *part = json_object_get(spec, parts[i]);
		bool is_on = is_gpu ? !json_is_false(json_object_get(part, "enabled"))
				    : json_is_object(part);
		if (is_on)
			(void)json_array_append_new(on, json_string(parts[i]));
	}

	return on;
}

/* What an installation of ours would be told of it; null for what it does not say. */
static json_t *digest_settings(const json_t *policy)
{
	const json_t *spec = json_object_get(policy, "spec");
	const json_t *plugin = json_object_get(spec, "devicePlugin");
	const json_t *daemonsets = json_object_get(spec, "daemonsets");

	return json_pack("{s:O?, s:O?, s:O?, s:O?, s:O?, s:O?, s:O?, s:O?, s:O?}", "config",
			 digest_get(plugin, "config", "name"), "configDefault",
			 digest_get(plugin, "config", "default"), "migStrategy",
			 digest_get(spec, "mig", "strategy"), "labels",
			 digest_get(spec, "gfd", "enabled"), "driver",
			 digest_get(spec, "driver", "enabled"), "driverRoot",
			 digest_get(spec, "hostPaths", "driverInstallDir"), "tolerations",
			 json_object_get(daemonsets, "tolerations"), "priorityClassName",
			 json_object_get(daemonsets, "priorityClassName"), "rdmaConfig",
			 digest_get(spec, "rdmaSharedDevicePlugin", "config"));
}

int digest_policies(const char *text, size_t length, const char *kind, json_t *facts,
		    struct err *err)
{
	_cleanup_json_ json_t *json = digest_load_list(text, length, NULL, err);
	const json_t *policy;
	size_t i;
	int rc = 0;

	if (!json)
		return err->code;

	json_array_foreach(json_object_get(json, "items"), i, policy)

	{
		if (rc == 0)
			rc = digest_keep(
			    facts, "operators",
			    json_pack("{s:s, s:s, s:o, s:o}", "kind", kind, "name",
				      digest_name(policy, "metadata", "name"), "on",
				      digest_parts(policy, strcmp(kind, "ClusterPolicy") == 0),
				      "settings", digest_settings(policy)),
			    err);
	}

	return rc;
}
