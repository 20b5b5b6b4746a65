/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/apply.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/text.h"

/* What is to be edited, collected before the configuration is touched. Maps keep their order, and
 * their keys are what has to be there once. */
struct apply {
	const struct scan *scan;
	const struct apply_filter *filter;
	const struct scan_file *file; /* that is being read */
	json_int_t uid, gid;	      /* of the container's process */
	json_t *env;		      /* name: "name=value" */
	json_t *devices;	      /* path: an entry of linux.devices */
	json_t *rules;		      /* the rule as text: an entry of linux.resources.devices */
	json_t *mounts;		      /* destination: an entry of mounts */
	json_t *hooks;		      /* stage: a list of hooks */
	json_t *gids;		      /* number: the same */
	json_t *nets;		      /* name in the host: an entry of linux.netDevices */
	json_t *rdt;		      /* linux.intelRdt; NULL */
	struct err *err;
};

static int apply_no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "out of memory for the edited configuration");
}

static int apply_checked(const struct apply *apply, int failed)
{
	return failed ? apply_no_memory(apply->err) : 0;
}

/* Puts `value` (given, may be NULL: no memory) at the end, whether or not the key is there. */
static int apply_put(const struct apply *apply, json_t *map, const char *key, json_t *value)
{
	(void)json_object_del(map, key); /* not there is as well */
	return apply_checked(apply, json_object_set_new(map, key, value));
}

/* ---- Names ---- */

static const struct scan_file *apply_find_kind(const struct scan *scan, const char *kind)
{
	/* They come by priority: the last one wins. */
	for (uint32_t i = scan->count; i > 0; i--)
		if (scan->files[i - 1].document.yaml && strcmp(scan->files[i - 1].kind, kind) == 0)
			return &scan->files[i - 1];
	return NULL;
}

/* The file of this kind that is of no use: most likely it is what was meant. */
static const struct scan_file *apply_find_broken(const struct scan *scan, const char *name)
{
	size_t length = strcspn(name, "=");
	for (uint32_t i = 0; i < scan->count; i++) {
		const struct scan_file *file = &scan->files[i];
		if (!file->document.yaml && strlen(file->kind) == length &&
		    strncmp(file->kind, name, length) == 0)
			return file;
	}

	return NULL;
}

static int apply_unresolved(const struct apply *apply, const char *name, enum scan_state state,
			    const struct scan_file *file, const struct scan_file *other)
{
	const struct scan_file *broken = apply_find_broken(apply->scan, name);
	const char *why = scan_state_to_string(state);

	if (state == SCAN_CONFLICT)
		return err_set(apply->err, -ENODEV, "CDI device '%.128s': %s: '%s' and '%s'", name,
			       why, file->path, other->path);
	if (state != SCAN_NO_NAME && broken)
		return err_set(apply->err, -ENODEV, "CDI device '%.128s': %s: %s", name, why,
			       broken->why);

	return err_set(apply->err, -ENODEV, "CDI device '%.128s': %s%s", name, why,
		       state == SCAN_NO_NAME ? ""
					     : " in /etc/cdi or /var/run/cdi; 'sluice cdi list' "
					       "shows what there is");
}

/* `out_edits`: the device's own; NULL for a kind. */
static int apply_resolve(const struct apply *apply, const char *name,
			 const struct scan_file **out_file, const struct yaml_node **out_edits)
{
	*out_edits = NULL;
	if (document_is_kind(name)) {
		*out_file = apply_find_kind(apply->scan, name);
		return *out_file ? 0 : apply_unresolved(apply, name, SCAN_NO_KIND, NULL, NULL);
	}

	const struct scan_file *other;
	enum scan_state state = scan_find(apply->scan, name, out_file, &other);
	if (state != SCAN_FOUND)
		return apply_unresolved(apply, name, state, *out_file, other);

	*out_edits = yaml_get(document_find(&(*out_file)->document, strchr(name, '=') + 1),
			      "containerEdits");
	return 0;
}

/* ---- What a specification says: valid, because document_parse() took it ---- */

static const char *apply_text(const struct yaml_node *node, const char *key)
{
	const struct yaml_node *value = yaml_get(node, key);
	return value ? value->text : "";
}

static bool apply_number(const struct yaml_node *node, const char *key, json_int_t *out)
{
	const struct yaml_node *value = yaml_get(node, key);
	int64_t number;
	if (!value || parse_i64(value->text, INT64_MIN, INT64_MAX, &number) < 0)
		return false;
	*out = number;
	return true;
}

static json_t *apply_string(const struct yaml_node *node)
{
	return json_stringn(node->text, node->length);
}

/* A list of texts, or NULL. */
static json_t *apply_strings(const struct yaml_node *node)
{
	json_t *list = json_array();
	for (size_t i = 0; list && node && i < node->entry_count; i++) {
		if (json_array_append_new(list, apply_string(node->entries[i].value)) == 0)
			continue;
		json_decref(list);
		return NULL;
	}

	return list;
}

static bool apply_wants(const struct apply *apply, const char *path)
{
	const struct apply_filter *filter = apply->filter;
	return !filter || filter->wants(filter->context, apply->file->kind, path);
}

static int apply_variable(struct apply *apply, const struct yaml_node *node)
{
	size_t length = strcspn(node->text, "=");
	_cleanup_free_ char *name = strndup(node->text, length);
	if (!name)
		return apply_no_memory(apply->err);
	return apply_checked(apply, json_object_set_new(apply->env, name, apply_string(node)));
}

struct apply_node {
	const char *path, *source;
	char type; /* 0: not known */
	json_int_t major, minor;
	json_int_t mode; /* of the node on this machine; -1: not known */
};

/* What the specification leaves to the machine. A major of 0 is no major, as in CDI's own library,
 * which takes the mode from a node that is specified otherwise as well (from 1.1 on). */
static int apply_node_stat(const struct apply *apply, struct apply_node *device)
{
	bool is_specified = device->type == 'p' || (device->type && device->major > 0);
	struct stat status;
	int rc = stat(device->source, &status) < 0 ? -errno : 0;
	if (rc == 0 &&
	    (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode) || S_ISFIFO(status.st_mode)))
		device->mode = status.st_mode & ~(mode_t)S_IFMT;

	if (is_specified)
		return 0;
	if (rc < 0)
		return err_set(apply->err, rc, "'%s' needs device node '%s': %s", apply->file->path,
			       device->source, err_describe(rc));

	char found = S_ISCHR(status.st_mode)	? 'c'
		     : S_ISBLK(status.st_mode)	? 'b'
		     : S_ISFIFO(status.st_mode) ? 'p'
						: '\0';
	if (!found || (device->type && found != (device->type == 'u' ? 'c' : device->type)))
		return err_set(apply->err, -EINVAL, "'%s' needs '%s': it is no %s",
			       apply->file->path, device->source,
			       device->type == 'b'    ? "block device"
			       : device->type != '\0' ? "character device"
						      : "device node");

	if (!device->type)
		device->type = found;
	if (device->major <= 0 && found != 'p') {
		device->major = major(status.st_rdev);
		device->minor = minor(status.st_rdev);
	}

	return 0;
}

static int apply_rule(const struct apply *apply, const struct apply_node *device,
		      const char *access)
{
	/* "none": a node that may be seen and not opened. */
	if (device->type == 'p' || strcmp(access, "none") == 0)
		return 0;

	json_t *rule =
	    json_pack("{s:b, s:s#, s:I, s:I, s:s}", "allow", 1, "type",
		      device->type == 'u' ? "c" : &device->type, 1, "major", device->major, "minor",
		      device->minor, "access", access[0] ? access : "rwm");
	_cleanup_free_ char *key = json_dumps(rule, JSON_COMPACT | JSON_SORT_KEYS);
	if (!key) {
		json_decref(rule);
		return apply_no_memory(apply->err);
	}

	return apply_put(apply, apply->rules, key, rule);
}

/* The owner that the specification names, else the container's user: it is for him. */
static int apply_owner(const struct apply *apply, json_t *entry, const struct yaml_node *node,
		       const char *key, json_int_t user)
{
	json_int_t owner = user;
	if (!apply_number(node, key, &owner) && user <= 0)
		return 0;
	return apply_checked(apply, json_object_set_new(entry, key, json_integer(owner)));
}

static int apply_device(struct apply *apply, const struct yaml_node *node)
{
	struct apply_node device = {.mode = -1,
				    .path = apply_text(node, "path"),
				    .source = apply_text(node, "hostPath"),
				    .type = apply_text(node, "type")[0]};
	if (!device.source[0])
		device.source = device.path;
	if (!apply_wants(apply, device.path))
		return 0;

	(void)apply_number(node, "major", &device.major);
	(void)apply_number(node, "minor", &device.minor);

	int rc = apply_node_stat(apply, &device);
	if (rc < 0)
		return rc;

	json_auto_t *entry = json_pack("{s:s, s:s#}", "path", device.path, "type", &device.type, 1);
	if (!entry)
		return apply_no_memory(apply->err);
	if (device.type != 'p')
		rc = apply_checked(
		    apply, json_object_set_new(entry, "major", json_integer(device.major)) ||
			       json_object_set_new(entry, "minor", json_integer(device.minor)));

	(void)apply_number(node, "fileMode", &device.mode);
	if (rc == 0 && device.mode >= 0)
		rc = apply_checked(
		    apply, json_object_set_new(entry, "fileMode", json_integer(device.mode)));
	if (rc == 0)
		rc = apply_owner(apply, entry, node, "uid", apply->uid);
	if (rc == 0)
		rc = apply_owner(apply, entry, node, "gid", apply->gid);

	if (rc == 0)
		rc = apply_rule(apply, &device, apply_text(node, "permissions"));
	if (rc == 0)
		rc = apply_put(apply, apply->devices, device.path, json_incref(entry));

	return rc;
}

static int apply_mount(struct apply *apply, const struct yaml_node *node)
{
	const char *source = apply_text(node, "hostPath");
	const char *destination = apply_text(node, "containerPath");
	const char *type = apply_text(node, "type");

	if (!apply_wants(apply, destination))
		return 0;

	struct stat status;
	if ((!type[0] || strcmp(type, "bind") == 0 || strcmp(type, "none") == 0) &&
	    stat(source, &status) < 0)
		return err_set(apply->err, -errno, "'%s' mounts '%s': %s", apply->file->path,
			       source, err_describe(errno));

	json_auto_t *entry = json_pack("{s:s, s:s}", "destination", destination, "source", source);
	json_t *options = apply_strings(yaml_get(node, "options"));
	if (!entry || !options) {
		json_decref(options);
		return apply_no_memory(apply->err);
	}

	int rc = apply_checked(apply, json_object_set_new(entry, "options", options));
	if (rc == 0 && type[0])
		rc = apply_checked(apply, json_object_set_new(entry, "type", json_string(type)));
	if (rc == 0)
		rc = apply_put(apply, apply->mounts, destination, json_incref(entry));

	return rc;
}

static int apply_hook(struct apply *apply, const struct yaml_node *node)
{
	const char *stage = apply_text(node, "hookName");
	json_auto_t *hook = json_pack("{s:s}", "path", apply_text(node, "path"));
	bool failed = !hook;

	if (!failed && yaml_get(node, "args"))
		failed = json_object_set_new(hook, "args", apply_strings(yaml_get(node, "args")));
	if (!failed && yaml_get(node, "env"))
		failed = json_object_set_new(hook, "env", apply_strings(yaml_get(node, "env")));

	json_int_t timeout;
	if (!failed && apply_number(node, "timeout", &timeout))
		failed = json_object_set_new(hook, "timeout", json_integer(timeout));

	json_t *list = json_object_get(apply->hooks, stage);
	if (!failed && !list) {
		failed = json_object_set_new(apply->hooks, stage, json_array());
		list = json_object_get(apply->hooks, stage);
	}

	return apply_checked(apply, failed || json_array_append(list, hook));
}

static int apply_gid(struct apply *apply, const struct yaml_node *node)
{
	uint64_t gid; /* 0 is no group that anybody has to be put into */
	if (parse_u64(node->text, 1, UINT32_MAX, &gid) < 0)
		return 0;
	return apply_put(apply, apply->gids, node->text, json_integer((json_int_t)gid));
}

static int apply_net(struct apply *apply, const struct yaml_node *node)
{
	return apply_put(apply, apply->nets, apply_text(node, "hostInterfaceName"),
			 json_pack("{s:s}", "name", apply_text(node, "name")));
}

static int apply_rdt(struct apply *apply, const struct yaml_node *node)
{
	json_auto_t *rdt = json_object();

	for (size_t i = 0; rdt && i < node->entry_count; i++) {
		const struct yaml_node *value = node->entries[i].value;
		const char *key = node->entries[i].key->text;
		bool is_flag = text_starts_with(key, "enable");
		json_t *entry = value->kind == YAML_LIST ? apply_strings(value)
				: is_flag ? json_boolean(strcmp(value->text, "true") == 0)
					  : apply_string(value);
		if (json_object_set_new(rdt, key, entry) < 0)
			return apply_no_memory(apply->err);
	}

	if (!rdt)
		return apply_no_memory(apply->err);

	json_decref(apply->rdt);
	apply->rdt = json_incref(rdt);
	return 0;
}

static int apply_edits(struct apply *apply, const struct yaml_node *edits)
{
	static const struct {
		const char *key;
		int (*add)(struct apply *apply, const struct yaml_node *node);
	} lists[] = {
	    {"env", apply_variable}, {"deviceNodes", apply_device}, {"mounts", apply_mount},
	    {"hooks", apply_hook},   {"additionalGids", apply_gid}, {"netDevices", apply_net},
	};
	int rc = 0;
	for (size_t i = 0; i < array_length(lists); i++) {
		const struct yaml_node *list = yaml_get(edits, lists[i].key);
		for (size_t j = 0; rc == 0 && list && j < list->entry_count; j++)
			rc = lists[i].add(apply, list->entries[j].value);
	}

	const struct yaml_node *rdt = yaml_get(edits, "intelRdt");
	return rc == 0 && rdt && rdt->kind == YAML_MAP ? apply_rdt(apply, rdt) : rc;
}

/* ---- The configuration ---- */

/* The member `key` of `map`; a new one where there is none, or null. Borrowed. -EINVAL: of another
 * type; `path` names it. */
static int apply_member(const struct apply *apply, json_t *map, const char *key, json_type type,
			const char *path, json_t **out)
{
	json_t *member = json_object_get(map, key);
	if (!member || json_is_null(member)) {
		if (json_object_set_new(map, key,
					type == JSON_OBJECT ? json_object() : json_array()) < 0)
			return apply_no_memory(apply->err);
		member = json_object_get(map, key);
	}

	if (json_typeof(member) != type)
		return err_set(apply->err, -EINVAL, "OCI configuration: '%s' is no %s", path,
			       type == JSON_OBJECT ? "object" : "list");

	*out = member;
	return 0;
}

/* A new list of the entries of `list` whose `key` is none of `map`, and then those of `map`. */
static json_t *apply_replaced(const json_t *list, const char *key, json_t *map)
{
	json_t *out = json_array();
	size_t i;
	json_t *entry;
	bool failed = !out;

	json_array_foreach(list, i, entry)

	{
		const char *name = json_string_value(json_object_get(entry, key));
		if (!name || !json_object_get(map, name))
			failed = failed || json_array_append(out, entry);
	}

	const char *name;
	json_object_foreach(map, name, entry) failed = failed || json_array_append(out, entry);

	if (!failed)
		return out;

	json_decref(out);
	return NULL;
}

static int apply_merge_env(const struct apply *apply, json_t *config)
{
	json_t *process, *env;
	if (json_object_size(apply->env) == 0)
		return 0;

	int rc = apply_member(apply, config, "process", JSON_OBJECT, "process", &process);
	if (rc == 0)
		rc = apply_member(apply, process, "env", JSON_ARRAY, "process.env", &env);
	if (rc < 0)
		return rc;

	/* A variable keeps its place; what is left of `map` afterwards is new. */
	json_auto_t *list = json_array();
	json_auto_t *map = json_copy(apply->env);
	bool failed = !list || !map;
	size_t i;
	json_t *entry;

	json_array_foreach(env, i, entry)

	{
		const char *text = json_string_value(entry);
		_cleanup_free_ char *name = text ? strndup(text, strcspn(text, "=")) : NULL;

		failed = failed || (text && !name);
		json_t *ours = failed || !name ? NULL : json_object_get(apply->env, name);
		if (!ours) {
			failed = failed || json_array_append(list, entry);
		} else if (json_object_get(map, name)) {
			failed = json_array_append(list, ours);
			(void)json_object_del(map, name); /* it is there */
		}
	}

	const char *name;
	json_object_foreach(map, name, entry) failed = failed || json_array_append(list, entry);

	return apply_checked(apply, failed || json_object_set(process, "env", list));
}

static int apply_merge_rules(const struct apply *apply, json_t *linux_)
{
	json_t *resources, *rules;
	if (json_object_size(apply->rules) == 0)
		return 0;

	int rc =
	    apply_member(apply, linux_, "resources", JSON_OBJECT, "linux.resources", &resources);
	if (rc == 0)
		rc = apply_member(apply, resources, "devices", JSON_ARRAY,
				  "linux.resources.devices", &rules);
	if (rc < 0)
		return rc;

	/* The last rule that fits is the one that counts: ours come last, each once. */
	json_auto_t *list = json_array();
	bool failed = !list;
	size_t i;
	json_t *entry;

	json_array_foreach(rules, i, entry)

	{
		_cleanup_free_ char *key =
		    json_dumps(entry, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
		failed = failed || !key;
		if (!failed && !json_object_get(apply->rules, key))
			failed = json_array_append(list, entry);
	}

	const char *name;
	json_object_foreach(apply->rules, name, entry) failed =
	    failed || json_array_append(list, entry);

	return apply_checked(apply, failed || json_object_set(resources, "devices", list));
}

static int apply_merge_linux(const struct apply *apply, json_t *config)
{
	json_t *linux_, *devices, *nets;
	if (json_object_size(apply->devices) == 0 && json_object_size(apply->nets) == 0 &&
	    !apply->rdt)
		return 0;

	int rc = apply_member(apply, config, "linux", JSON_OBJECT, "linux", &linux_);
	if (rc == 0 && json_object_size(apply->devices) > 0) {
		rc = apply_member(apply, linux_, "devices", JSON_ARRAY, "linux.devices", &devices);
		if (rc == 0)
			rc = apply_checked(
			    apply,
			    json_object_set_new(linux_, "devices",
						apply_replaced(devices, "path", apply->devices)));
	}

	if (rc == 0)
		rc = apply_merge_rules(apply, linux_);

	if (rc == 0 && json_object_size(apply->nets) > 0) {
		rc = apply_member(apply, linux_, "netDevices", JSON_OBJECT, "linux.netDevices",
				  &nets);
		if (rc == 0)
			rc = apply_checked(apply, json_object_update(nets, apply->nets));
	}

	if (rc == 0 && apply->rdt)
		rc = apply_checked(apply, json_object_set(linux_, "intelRdt", apply->rdt));

	return rc;
}

struct apply_placed {
	json_t *mount; /* borrowed */
	size_t depth, at;
};

/* How many directories deep a path leads: "/a//b/./c" 3, "/a/.." 0. */
static size_t apply_depth(const char *path)
{
	size_t depth = 0;

	while (*path) {
		size_t length = strcspn(path, "/");
		bool is_up = length == 2 && memcmp(path, "..", 2) == 0;
		bool is_here = length == 0 || (length == 1 && *path == '.');

		if (is_up && depth > 0)
			depth--;
		else if (!is_up && !is_here)
			depth++;

		path += length + (path[length] == '/');
	}

	return depth;
}

static int apply_placed_compare(const void *left, const void *right)
{
	const struct apply_placed *a = left, *b = right;
	if (a->depth != b->depth)
		return a->depth < b->depth ? -1 : 1;
	return a->at < b->at ? -1 : a->at > b->at;
}

static int apply_merge_mounts(const struct apply *apply, json_t *config)
{
	json_t *mounts;
	if (json_object_size(apply->mounts) == 0)
		return 0;

	int rc = apply_member(apply, config, "mounts", JSON_ARRAY, "mounts", &mounts);
	if (rc < 0)
		return rc;

	json_auto_t *all = apply_replaced(mounts, "destination", apply->mounts);
	json_auto_t *sorted = json_array();
	_cleanup_free_ struct apply_placed *placed =
	    calloc(json_array_size(all) + 1, sizeof(*placed));
	if (!all || !sorted || !placed)
		return apply_no_memory(apply->err);

	size_t i, count = json_array_size(all);
	json_t *mount;
	json_array_foreach(all, i, mount)

	{
		const char *path = json_string_value(json_object_get(mount, "destination"));
		placed[i] = (struct apply_placed){mount, path ? apply_depth(path) : 0, i};
	}

	/* What lies below another mount has to come after it, or would be hidden by it. */
	qsort(placed, count, sizeof(*placed), apply_placed_compare);
	bool failed = false;
	for (i = 0; i < count && !failed; i++)
		failed = json_array_append(sorted, placed[i].mount);

	return apply_checked(apply, failed || json_object_set(config, "mounts", sorted));
}

static bool apply_has(const json_t *list, const json_t *value)
{
	size_t i;
	json_t *entry;
	json_array_foreach(list, i, entry) if (json_equal(entry, value)) return true;
	return false;
}

static int apply_append_absent(const struct apply *apply, json_t *list, const json_t *more)
{
	size_t i;
	json_t *entry;
	bool failed = false;
	json_array_foreach(more, i, entry) if (!failed && !apply_has(list, entry)) failed =
	    json_array_append(list, entry);
	return apply_checked(apply, failed);
}

static int apply_merge_hooks(const struct apply *apply, json_t *config)
{
	json_t *hooks, *list, *more;
	if (json_object_size(apply->hooks) == 0)
		return 0;

	int rc = apply_member(apply, config, "hooks", JSON_OBJECT, "hooks", &hooks);
	const char *stage;
	json_object_foreach(apply->hooks, stage, more)

	{
		if (rc == 0)
			rc = apply_member(apply, hooks, stage, JSON_ARRAY, stage, &list);
		if (rc == 0)
			rc = apply_append_absent(apply, list, more);
	}

	return rc;
}

static int apply_merge_gids(const struct apply *apply, json_t *config)
{
	json_t *process, *user, *list;

	if (json_object_size(apply->gids) == 0)
		return 0;

	int rc = apply_member(apply, config, "process", JSON_OBJECT, "process", &process);
	if (rc == 0)
		rc = apply_member(apply, process, "user", JSON_OBJECT, "process.user", &user);
	if (rc == 0)
		rc = apply_member(apply, user, "additionalGids", JSON_ARRAY,
				  "process.user.additionalGids", &list);

	const char *name;
	json_t *gid;
	json_object_foreach(apply->gids, name, gid) if (rc == 0 && !apply_has(list, gid)) rc =
	    apply_checked(apply, json_array_append(list, gid));

	return rc;
}

static int apply_merge(const struct apply *apply, const json_t *config, json_t **out)
{
	json_auto_t *copy = json_deep_copy(config);
	if (!copy)
		return apply_no_memory(apply->err);

	int rc = apply_merge_env(apply, copy);
	if (rc == 0)
		rc = apply_merge_linux(apply, copy);
	if (rc == 0)
		rc = apply_merge_mounts(apply, copy);
	if (rc == 0)
		rc = apply_merge_hooks(apply, copy);

	if (rc == 0)
		rc = apply_merge_gids(apply, copy);
	if (rc == 0)
		*out = json_incref(copy);

	return rc;
}

/* ---- All of it ---- */

static int apply_collect(struct apply *apply, const char *const *names, size_t count)
{
	json_auto_t *seen = json_object(); /* names, and files' paths */
	const struct scan_file *file;
	const struct yaml_node *edits;
	int rc = apply_checked(apply, !seen);

	for (size_t i = 0; rc == 0 && i < count; i++)
		rc = apply_resolve(apply, names[i], &file, &edits);

	for (size_t i = 0; rc == 0 && i < count; i++) {
		if (json_object_get(seen, names[i]))
			continue;

		(void)apply_resolve(apply, names[i], &file, &edits); /* it was, above */
		apply->file = file;
		if (!json_object_get(seen, file->path))
			rc = apply_edits(apply, file->document.edits);
		if (rc == 0 && edits)
			rc = apply_edits(apply, edits);

		if (rc == 0)
			rc = apply_checked(apply,
					   json_object_set_new(seen, names[i], json_true()) ||
					       json_object_set_new(seen, file->path, json_true()));
	}

	return rc;
}

static void apply_done(struct apply *apply)
{
	json_t *all[] = {apply->env,   apply->devices, apply->rules, apply->mounts,
			 apply->hooks, apply->gids,    apply->nets,  apply->rdt};
	for (size_t i = 0; i < array_length(all); i++)
		json_decref(all[i]);
}

int apply_devices(const struct scan *scan, const char *const *names, size_t count,
		  const struct apply_filter *filter, const json_t *config, json_t **out_edited,
		  struct err *err)
{
	if (count > APPLY_NAMES_MAX)
		return err_set(err, -E2BIG, "more than %d CDI devices", APPLY_NAMES_MAX);
	if (!json_is_object(config))
		return err_set(err, -EINVAL, "OCI configuration: it is no object");

	const json_t *user = json_object_get(json_object_get(config, "process"), "user");
	struct apply apply __attribute__((cleanup(apply_done))) = {
	    .scan = scan,
	    .filter = filter,
	    .uid = json_integer_value(json_object_get(user, "uid")),
	    .gid = json_integer_value(json_object_get(user, "gid")),
	    .env = json_object(),
	    .devices = json_object(),
	    .rules = json_object(),
	    .mounts = json_object(),
	    .hooks = json_object(),
	    .gids = json_object(),
	    .nets = json_object(),
	    .err = err,
	};

	if (!apply.env || !apply.devices || !apply.rules || !apply.mounts || !apply.hooks ||
	    !apply.gids || !apply.nets)
		return apply_no_memory(err);

	int rc = apply_collect(&apply, names, count);
	return rc < 0 ? rc : apply_merge(&apply, config, out_edited);
}
