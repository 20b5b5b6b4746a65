/* SPDX-License-Identifier: Apache-2.0 */
#include "job/file/convert.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "base/domain.h"
#include "base/err.h"
#include "base/names.h"
#include "base/yaml.h"
#include "job/file/jobfile_arena.h"

enum { CONVERT_ROOM = 8 }; /* entries that a map may get beside its own */

static const char convert_group[] = "kubeflow.org/";
static const char convert_version[] = "kubeflow.org/v2beta1";

struct converter {
	const char *name;
	struct jobfile_arena *arena;
	convert_told told;
	void *context;
	struct err *err;
};

/* A map that is being changed; `node` is what it becomes. */
struct convert_change {
	struct yaml_node *node;
	struct yaml_entry *entries;
};

static int convert_no_memory(const struct converter *converter)
{
	return err_set(converter->err, -ENOMEM, "%s: out of memory", converter->name);
}

static int convert_fail(const struct converter *converter, const struct yaml_node *node,
			const char *format, ...) __attribute__((format(printf, 3, 4)));
static int convert_fail(const struct converter *converter, const struct yaml_node *node,
			const char *format, ...)
{
	char text[ERR_TEXT_MAX];
	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(text, sizeof(text), format, arguments); /* cut where it is longer */
	va_end(arguments);
	return err_set(converter->err, -EINVAL, "%s:%u:%u: %s", converter->name, node->line,
		       node->column, text);
}

static int convert_tell(const struct converter *converter, const struct yaml_node *node,
			bool is_unknown, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static int convert_tell(const struct converter *converter, const struct yaml_node *node,
			bool is_unknown, const char *format, ...)
{
	char text[ERR_TEXT_MAX];
	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(text, sizeof(text), format, arguments); /* cut where it is longer */
	va_end(arguments);
	return converter->told(node->line, text, is_unknown, converter->context);
}

/* --- nodes ------------------------------------------------------------------------------------ */

static int convert_open(const struct converter *converter, const struct yaml_node *node,
			struct convert_change *out)
{
	if (node->kind != YAML_MAP)
		return convert_fail(converter, node, "a map is wanted here");

	out->node = jobfile_arena_take(converter->arena, sizeof(*out->node));
	out->entries = jobfile_arena_take(converter->arena, (node->entry_count + CONVERT_ROOM) *
								sizeof(*out->entries));
	if (!out->node || !out->entries)
		return convert_no_memory(converter);

	*out->node = *node;
	if (node->entry_count > 0)
		memcpy(out->entries, node->entries, node->entry_count * sizeof(*out->entries));
	out->node->entries = out->entries;

	return 0;
}

/* A text where `like` stands; NULL. */
static struct yaml_node *convert_text(const struct converter *converter, const char *text,
				      const struct yaml_node *like)
{
	struct yaml_node *node = jobfile_arena_take(converter->arena, sizeof(*node));
	if (node)
		*node = (struct yaml_node){.kind = YAML_SCALAR,
					   .line = like->line,
					   .column = like->column,
					   .text = text,
					   .length = strlen(text)};

	return node;
}

static int convert_put(const struct converter *converter, struct convert_change *map,
		       const char *key, const struct yaml_node *value)
{
	size_t i = 0;

	if (!value)
		return convert_no_memory(converter);

	while (i < map->node->entry_count && strcmp(map->entries[i].key->text, key) != 0)
		i++;

	if (i == map->node->entry_count) {
		map->entries[i].key = convert_text(converter, key, value);
		if (!map->entries[i].key)
			return convert_no_memory(converter);
		map->node->entry_count++;
	}

	map->entries[i].value = value;
	return 0;
}

/* The value that was there; NULL. */
static const struct yaml_node *convert_take(struct convert_change *map, const char *key)
{
	for (size_t i = 0; i < map->node->entry_count; i++) {
		const struct yaml_node *value = map->entries[i].value;

		if (strcmp(map->entries[i].key->text, key) != 0)
			continue;

		map->node->entry_count--;
		memmove(&map->entries[i], &map->entries[i + 1],
			(map->node->entry_count - i) * sizeof(*map->entries));
		return value;
	}

	return NULL;
}

/* Opens the map below `key`, an empty one where there is none. */
static int convert_enter(const struct converter *converter, struct convert_change *map,
			 const char *key, struct convert_change *out)
{
	const struct yaml_node *below = yaml_get(map->node, key);
	struct yaml_node empty = {
	    .kind = YAML_MAP, .line = map->node->line, .column = map->node->column, .text = ""};
	bool is_there = below && !yaml_is_null(below);
	int rc = convert_open(converter, is_there ? below : &empty, out);
	return rc < 0 ? rc : convert_put(converter, map, key, out->node);
}

/* --- the spec --------------------------------------------------------------------------------- */

static int convert_run_policy(const struct converter *converter, struct convert_change *spec)
{
	static const struct {
		const char *key;
		bool policy_wins;
	} moved[] = {{"cleanPodPolicy", false},
		     {"backoffLimit", true},
		     {"activeDeadlineSeconds", true},
		     {"ttlSecondsAfterFinished", true}};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < array_length(moved); i++) {
		const char *key = moved[i].key;
		const struct yaml_node *value = convert_take(spec, key);
		struct convert_change policy;

		if (!value)
			continue;

		rc = convert_enter(converter, spec, "runPolicy", &policy);
		if (rc < 0)
			return rc;

		bool is_there = yaml_get(policy.node, key) != NULL;
		if (is_there && moved[i].policy_wins) {
			rc =
			    convert_tell(converter, value, false,
					 "spec.%s is left out: spec.runPolicy.%s counts", key, key);
			continue;
		}

		rc = convert_put(converter, &policy, key, value);
		if (rc == 0)
			rc = convert_tell(converter, value, false,
					  "spec.%s moves to spec.runPolicy.%s", key, key);
	}

	return rc;
}

/* "OpenMPI", "open_mpi", "Open_MPI", ... */
static bool convert_is_like(const char *text, const char *word)
{
	for (; *text; text++) {
		if (*text == '_')
			continue;
		if (strncasecmp(text, word, 1) != 0 || *word == '\0')
			return false;
		word++;
	}

	return *word == '\0';
}

static int convert_distribution(const struct converter *converter, struct convert_change *spec)
{
	static const struct {
		const char *old, *now;
	} known[] = {
	    {"openmpi", "OpenMPI"}, {"intelmpi", "Intel"}, {"intel", "Intel"}, {"mpich", "MPICH"}};
	const struct yaml_node *value = convert_take(spec, "mpiDistribution");
	if (!value)
		return 0;

	for (size_t i = 0; i < array_length(known); i++) {
		if (value->kind != YAML_SCALAR || !convert_is_like(value->text, known[i].old))
			continue;

		int rc = convert_put(converter, spec, "mpiImplementation",
				     convert_text(converter, known[i].now, value));
		return rc < 0 ? rc
			      : convert_tell(converter, value, false,
					     "spec.mpiDistribution %.32s becomes "
					     "spec.mpiImplementation %s",
					     value->text, known[i].now);
	}

	return convert_fail(converter, value,
			    "spec.mpiDistribution is none of OpenMPI, IntelMPI and MPICH");
}

/* --- replicas --------------------------------------------------------------------------------- */

/* The list of containers with the one called `main` in front. */
static int convert_main_container(const struct converter *converter, const char *role,
				  const struct yaml_node *wanted, struct convert_change *pod)
{
	const struct yaml_node *list = yaml_get(pod->node, "containers");
	size_t at = 0, count = list && list->kind == YAML_LIST ? list->entry_count : 0;
	for (; at < count; at++) {
		const struct yaml_node *name = yaml_get(list->entries[at].value, "name");
		if (name && strcmp(name->text, wanted->text) == 0)
			break;
	}

	if (at == count)
		return convert_fail(converter, wanted,
				    "spec.mainContainer: %s has no container '%.64s'", role,
				    wanted->text);

	if (at == 0)
		return 0;

	struct yaml_node *moved = jobfile_arena_take(converter->arena, sizeof(*moved));
	struct yaml_entry *entries = jobfile_arena_take(converter->arena, count * sizeof(*entries));
	if (!moved || !entries)
		return convert_no_memory(converter);

	*moved = *list;
	moved->entries = entries;
	entries[0] = list->entries[at];
	memcpy(&entries[1], list->entries, at * sizeof(*entries));
	memcpy(&entries[at + 1], &list->entries[at + 1], (count - at - 1) * sizeof(*entries));

	int rc = convert_put(converter, pod, "containers", moved);
	return rc < 0 ? rc
		      : convert_tell(converter, list->entries[at].value, false,
				     "%s: the container '%.64s' moves to the front", role,
				     wanted->text);
}

/* A worker that only had to be there, for kubectl exec. */
static int convert_sleep(const struct converter *converter, struct convert_change *pod)
{
	const struct yaml_node *list = yaml_get(pod->node, "containers");
	const struct yaml_node *first = list && list->kind == YAML_LIST && list->entry_count > 0
					    ? list->entries[0].value
					    : NULL;
	const struct yaml_node *command = yaml_get(first, "command");
	const struct yaml_node *word = command && command->kind == YAML_LIST && command->entry_count
					   ? command->entries[0].value
					   : NULL;
	const char *slash = word ? strrchr(word->text, '/') : NULL;
	if (!word || strcmp(slash ? slash + 1 : word->text, "sleep") != 0)
		return 0;

	struct convert_change container;
	struct yaml_node *changed = jobfile_arena_take(converter->arena, sizeof(*changed));
	struct yaml_entry *entries =
	    jobfile_arena_take(converter->arena, list->entry_count * sizeof(*entries));
	int rc = convert_open(converter, first, &container);
	if (rc < 0 || !changed || !entries)
		return rc < 0 ? rc : convert_no_memory(converter);

	(void)convert_take(&container, "command");
	(void)convert_take(&container, "args");
	*changed = *list;
	memcpy(entries, list->entries, list->entry_count * sizeof(*entries));
	entries[0].value = container.node;
	changed->entries = entries;
	rc = convert_put(converter, pod, "containers", changed);

	return rc < 0 ? rc
		      : convert_tell(
			    converter, command, false,
			    "Worker: the command 'sleep' is left out, a worker waits by itself");
}

static int convert_restart(const struct converter *converter, const char *role, bool is_launcher,
			   struct convert_change *replica)
{
	const struct yaml_node *value = yaml_get(replica->node, "restartPolicy");
	const char *now = NULL;

	if (!value || value->kind != YAML_SCALAR)
		return 0;
	if (strcmp(value->text, "Never") != 0 && strcmp(value->text, "OnFailure") != 0)
		now = is_launcher || strcmp(value->text, "Always") == 0 ? "OnFailure" : "Never";
	if (!now)
		return 0;

	int rc =
	    convert_put(converter, replica, "restartPolicy", convert_text(converter, now, value));
	return rc < 0 ? rc
		      : convert_tell(converter, value, false,
				     "%s: restartPolicy %.32s becomes %s, v2beta1 has no other",
				     role, value->text, now);
}

static int convert_replica(const struct converter *converter, struct convert_change *replicas,
			   const char *role, const struct yaml_node *main_container)
{
	bool is_launcher = strcmp(role, "Launcher") == 0;
	struct convert_change replica, template, pod;
	const struct yaml_node *there = yaml_get(replicas->node, role);
	const struct yaml_node *spec = yaml_get(yaml_get(there, "template"), "spec");

	if (!there || there->kind != YAML_MAP)
		return 0;

	int rc = convert_enter(converter, replicas, role, &replica);
	if (rc == 0)
		rc = convert_restart(converter, role, is_launcher, &replica);
	if (rc < 0 || !spec || spec->kind != YAML_MAP)
		return rc;

	rc = convert_enter(converter, &replica, "template", &template);
	if (rc == 0)
		rc = convert_enter(converter, &template, "spec", &pod);
	if (rc == 0 && main_container)
		rc = convert_main_container(converter, role, main_container, &pod);

	return rc < 0 || is_launcher ? rc : convert_sleep(converter, &pod);
}

static int convert_replicas(const struct converter *converter, struct convert_change *spec)
{
	const struct yaml_node *main_container = convert_take(spec, "mainContainer");
	const struct yaml_node *there = yaml_get(spec->node, "mpiReplicaSpecs");
	struct convert_change replicas;

	if (main_container && main_container->kind != YAML_SCALAR)
		return convert_fail(converter, main_container, "spec.mainContainer is no text");

	int rc = main_container
		     ? convert_tell(
			   converter, main_container, false,
			   "spec.mainContainer is left out: the first container is the main one")
		     : 0;
	if (rc < 0 || !there || there->kind != YAML_MAP)
		return rc;

	rc = convert_enter(converter, spec, "mpiReplicaSpecs", &replicas);
	if (rc == 0)
		rc = convert_replica(converter, &replicas, "Launcher", main_container);

	return rc < 0 ? rc : convert_replica(converter, &replicas, "Worker", main_container);
}

static int convert_unknown(const struct converter *converter, const struct convert_change *spec)
{
	static const char *const known[] = {"slotsPerWorker", "mpiReplicaSpecs", "runPolicy",
					    "mpiImplementation"};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < spec->node->entry_count; i++) {
		const struct yaml_node *key = spec->entries[i].key;
		if (names_find(known, key->text) < 0)
			rc = convert_tell(converter, key, true,
					  "unknown field spec.%.64s is kept as it is", key->text);
	}

	return rc;
}

static int convert_spec(const struct converter *converter, struct convert_change *document)
{
	const struct yaml_node *there = yaml_get(document->node, "spec");
	struct convert_change spec;

	if (!there || there->kind != YAML_MAP)
		return convert_fail(converter, there ? there : document->node,
				    "an MPIJob has a map 'spec'");

	int rc = convert_enter(converter, document, "spec", &spec);
	if (rc == 0)
		rc = convert_run_policy(converter, &spec);
	if (rc == 0)
		rc = convert_distribution(converter, &spec);
	if (rc == 0)
		rc = convert_replicas(converter, &spec);

	return rc < 0 ? rc : convert_unknown(converter, &spec);
}

/* --- the document ----------------------------------------------------------------------------- */

static int convert_transport(const struct converter *converter, struct convert_change *document)
{
	static const char transport[] = SLUICE_DOMAIN "/transport";
	struct convert_change metadata, annotations;
	int rc = convert_enter(converter, document, "metadata", &metadata);
	if (rc == 0)
		rc = convert_enter(converter, &metadata, "annotations", &annotations);

	if (rc < 0 || yaml_get(annotations.node, transport))
		return rc;

	rc = convert_put(converter, &annotations, transport,
			 convert_text(converter, "exec", metadata.node));
	return rc < 0 ? rc
		      : convert_tell(
			    converter, metadata.node, false,
			    "the annotation %s: exec is added: images of that time have no sshd",
			    transport);
}

bool convert_is_needed(const struct yaml_node *document)
{
	const struct yaml_node *version = yaml_get(document, "apiVersion");
	const struct yaml_node *kind = yaml_get(document, "kind");
	if (!version || !kind || strcmp(kind->text, "MPIJob") != 0)
		return false;
	return strcmp(version->text, "kubeflow.org/v1alpha1") == 0 ||
	       strcmp(version->text, "kubeflow.org/v1alpha2") == 0 ||
	       strcmp(version->text, "kubeflow.org/v1") == 0;
}

int convert_document(const struct yaml_node *document, const char *name,
		     struct jobfile_arena *arena, convert_told told, void *context,
		     const struct yaml_node **out, struct err *err)
{
	const struct converter converter = {
	    .name = name, .arena = arena, .told = told, .context = context, .err = err};
	const struct yaml_node *version = yaml_get(document, "apiVersion");
	struct convert_change changed;

	if (strcmp(version->text + strlen(convert_group), "v1alpha1") == 0)
		return convert_fail(
		    &converter, version,
		    "MPIJob v1alpha1 cannot be converted: it says gpus or "
		    "processingUnits for the whole job; write it anew as v2beta1 with "
		    "Launcher and Worker");

	int rc = convert_open(&converter, document, &changed);
	if (rc == 0)
		rc = convert_put(&converter, &changed, "apiVersion",
				 convert_text(&converter, convert_version, version));
	if (rc == 0)
		rc = convert_tell(&converter, version, false, "%.64s becomes %s", version->text,
				  convert_version);
	if (rc == 0)
		rc = convert_transport(&converter, &changed);

	if (rc == 0)
		rc = convert_spec(&converter, &changed);
	if (rc == 0)
		*out = changed.node;

	return rc;
}
