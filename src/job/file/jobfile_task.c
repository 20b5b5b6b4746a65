/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/names.h"
#include "base/yaml.h"
#include "job/file/expand.h"
#include "job/file/jobfile_fields.h"
#include "job/file/jobfile_reader.h"

/* --- shared ----------------------------------------------------------------------------------- */

void jobreader_at(struct jobreader *reader, const char *path)
{
	(void)snprintf(reader->schema.path, OBJSCHEMA_PATH_MAX, "%s", path); /* ours: they fit */
	reader->schema.path_length = strlen(reader->schema.path);
}

int jobreader_no_memory(const struct jobreader *reader)
{
	return err_set(reader->schema.err, -ENOMEM, "%s: out of memory", reader->schema.file);
}

int jobreader_note(struct jobreader *reader, uint32_t line, const char *format, ...)
{
	char text[ERR_TEXT_MAX];
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(text, sizeof(text), format, arguments); /* cut where it is longer */
	va_end(arguments);

	struct jobfile_note *note = jobfile_arena_take(reader->arena, sizeof(*note));
	if (!note)
		return jobreader_no_memory(reader);

	note->line = line;
	note->text = jobfile_arena_copy(reader->arena, text, strlen(text));
	if (!note->text)
		return jobreader_no_memory(reader);
	if (reader->newest_note)
		reader->newest_note->next = note;
	else
		reader->job->notes = note;

	reader->newest_note = note;
	return 0;
}

int jobreader_ignored(const char *path, const struct yaml_node *key, void *context)
{
	struct jobreader *reader = context;
	struct buf *out = reader->ignored;

	if (strcmp(path, "status") == 0)
		return 0; /* what a cluster wrote there says nothing of the job */
	if (out->length == 0)
		reader->ignored_line = key->line;

	int rc = out->length > 0 ? buf_add_text(out, ", ") : 0;
	if (rc == 0)
		rc = buf_add_text(out, path);
	if (rc == -ENOSPC)
		reader->ignored_more++;

	return rc == -ENOMEM ? jobreader_no_memory(reader) : 0;
}

/* --- variables and arguments ------------------------------------------------------------------ */

static const char task_index[] = "JOB_COMPLETION_INDEX";

/* What "$(NAME)" may mean. */
struct task_scope {
	const struct jobfile_task *task;
	bool *wants_index; /* that was asked for, and the file says nothing of it */
};

static const char *task_lookup(const char *name, size_t length, const void *context)
{
	const struct task_scope *scope = context;
	const struct jobfile_task *task = scope->task;
	for (size_t i = task->variable_count; i > 0; i--) {
		const struct jobfile_variable *one = &task->variables[i - 1];
		if (strncmp(one->name, name, length) == 0 && one->name[length] == '\0')
			return one->value;
	}

	if (length == strlen(task_index) && memcmp(name, task_index, length) == 0)
		*scope->wants_index = true;

	return NULL;
}

/* On a cluster the index is the last variable: those of the file do not see it. */
static int task_expand(struct jobreader *reader, const struct yaml_node *node,
		       const struct jobfile_task *task, bool is_variable, const char **out)
{
	bool wants_index = false;
	const struct task_scope scope = {.task = task, .wants_index = &wants_index};
	_cleanup_buf_ struct buf text;

	buf_init(&text, JOBFILE_TEXT_MAX - 1);
	int rc = expand_text(node->text, task_lookup, &scope, &text);

	if (reader->is_indexed && wants_index && !is_variable)
		return objschema_fail(&reader->schema, node, NULL,
				      "not supported here: $(%s); let a shell read the variable: "
				      "$%s",
				      task_index, task_index);

	reader->expanded += text.length + 1;
	if (rc == -ENOSPC || reader->expanded > JOBFILE_EXPANDED_MAX)
		return objschema_fail(
		    &reader->schema, node, NULL,
		    "the command and its variables are too large: %d bytes each, %d "
		    "together",
		    JOBFILE_TEXT_MAX, JOBFILE_EXPANDED_MAX);

	*out = rc == 0 ? jobfile_arena_copy(reader->arena, buf_text(&text), text.length) : NULL;
	return *out ? 0 : jobreader_no_memory(reader);
}

static int task_texts(struct jobreader *reader, const struct objschema_list *list,
		      const struct jobfile_task *task, const char ***out, size_t *out_count)
{
	const struct yaml_node *const *nodes = list->items;
	*out = jobfile_arena_take(reader->arena, (list->count + 1) * sizeof(**out));
	if (!*out)
		return jobreader_no_memory(reader);

	int rc = 0;
	for (size_t i = 0; rc == 0 && i < list->count; i++)
		rc = task_expand(reader, nodes[i], task, false, &(*out)[i]);

	*out_count = list->count;
	return rc;
}

static int task_field_ref(struct jobreader *reader, const struct raw_variable *raw,
			  const char **out)
{
	const struct yaml_node *path = raw->from.field_ref.field_path;
	if (!path)
		return objschema_fail(&reader->schema, raw->from.node, NULL,
				      "valueFrom of '%.64s' names no field", raw->name->text);

	if (strcmp(path->text, "metadata.name") == 0)
		*out = reader->job->name;
	else if (strcmp(path->text, "metadata.namespace") == 0)
		*out = reader->job->namespace;
	else
		return objschema_fail(&reader->schema, path, NULL,
				      "not supported here: the field '%.128s'; metadata.name and "
				      "metadata.namespace are known",
				      path->text);

	return 0;
}

static int task_variable(struct jobreader *reader, const struct raw_variable *raw,
			 struct jobfile_task *out)
{
	static const char *const granted[] = {"NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"};
	if (!raw->name || !raw->name->text[0] || strchr(raw->name->text, '='))
		return objschema_fail(&reader->schema, raw->name ? raw->name : raw->node, NULL,
				      "a variable needs a name without '='");
	if (raw->value && raw->from.node)
		return objschema_fail(&reader->schema, raw->from.node, NULL,
				      "'%.64s' has value and valueFrom", raw->name->text);

	int at = names_find(granted, raw->name->text);
	if (at >= 0)
		return jobreader_note(
		    reader, raw->name->line,
		    "%s=%.64s is left out: the job sees the GPUs that it was granted%s",
		    granted[at], raw->value ? raw->value->text : "",
		    at == 0 ? "; on a cluster 'all' defeats the allocation" : "");

	const char *value = "";
	int rc = 0;

	if (raw->from.node)
		rc = task_field_ref(reader, raw, &value);
	else if (raw->value)
		rc = task_expand(reader, raw->value, out, true, &value);

	if (rc == 0)
		out->variables[out->variable_count++] =
		    (struct jobfile_variable){.name = raw->name->text, .value = value};

	return rc;
}

static int task_variables(struct jobreader *reader, const struct raw_container *container,
			  struct jobfile_task *out)
{
	const struct raw_variable *raw = container->variables.items;
	size_t count = container->variables.count;

	enum { VARIABLES_MAX = 4096 }; /* each is looked for among those before it */
	if (count > VARIABLES_MAX)
		return objschema_fail(&reader->schema, container->variables.node, NULL,
				      "more than %d variables", VARIABLES_MAX);

	out->variables = jobfile_arena_take(reader->arena, (count + 1) * sizeof(*out->variables));
	if (!out->variables)
		return jobreader_no_memory(reader);

	int rc = 0;
	for (size_t i = 0; rc == 0 && i < count; i++)
		rc = task_variable(reader, &raw[i], out);

	return rc;
}

/* --- rights ----------------------------------------------------------------------------------- */

static int task_privileged(struct jobreader *reader, const struct yaml_node *node, const char *what,
			   struct jobfile_task *out)
{
	if (!reader->options->privileged)
		return objschema_fail(
		    &reader->schema, node, NULL,
		    "not supported here: %s lets the job see every GPU of the machine "
		    "and more; take it away, or allow it with --privileged",
		    what);

	out->privileged = true;
	return jobreader_note(reader, node->line, "%s was allowed: this job is not isolated", what);
}

static int task_capabilities(struct jobreader *reader, const struct objschema_list *list,
			     struct jobfile_task *out)
{
	const struct yaml_node *const *names = list->items;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < list->count; i++) {
		char what[96];
		(void)snprintf(what, sizeof(what), "the capability %.64s", names[i]->text);

		if (strcmp(names[i]->text, "IPC_LOCK") == 0)
			out->memlock = true;
		else
			rc = task_privileged(reader, names[i], what, out);
	}

	return rc;
}

static int task_security(struct jobreader *reader, const struct raw_pod *pod,
			 const struct raw_container *container, struct jobfile_task *out)
{
	const struct raw_security *own = &container->security, *all = &pod->security;
	const struct objschema_int *user = own->user.node ? &own->user : &all->user;
	const struct objschema_int *group = own->group.node ? &own->group : &all->group;
	bool non_root = own->non_root.node ? own->non_root.value : all->non_root.value;

	out->non_root = non_root;
	out->has_user = user->node != NULL;
	out->user = (uint32_t)user->value;
	out->has_group = group->node != NULL;
	out->group = (uint32_t)group->value;
	if (out->has_user && out->user == 0 && non_root)
		return objschema_fail(&reader->schema, user->node, NULL,
				      "runAsUser 0 and runAsNonRoot exclude each other");

	int rc = task_capabilities(reader, &own->capabilities.add, out);
	if (rc == 0 && own->privileged.value)
		rc = task_privileged(reader, own->privileged.node, "privileged: true", out);
	if (rc == 0 && pod->host_pid.value)
		rc = task_privileged(reader, pod->host_pid.node, "hostPID: true", out);

	return rc;
}

/* --- the whole -------------------------------------------------------------------------------- */

static int task_image(struct jobreader *reader, const struct raw_container *container,
		      struct jobfile_task *out)
{
	static const char *const pulls[] = {"IfNotPresent", "Never", "Always"};
	if (!container->image || !container->image->text[0])
		return objschema_fail(
		    &reader->schema, container->node, NULL,
		    "a container needs an image, on a cluster and with --host too, which does "
		    "not use it");

	out->image = container->image->text;
	out->directory = container->directory ? container->directory->text : "";
	if (*out->directory && *out->directory != '/')
		return objschema_fail(&reader->schema, container->directory, NULL,
				      "workingDir '%.128s' is not absolute", out->directory);

	if (!container->pull)
		return 0; /* Kubernetes fetches ":latest" anew; here a local image is enough */

	int pull = names_find(pulls, container->pull->text);
	if (pull >= 0) {
		out->pull = (enum jobfile_pull)pull;
		return 0;
	}

	return objschema_fail(&reader->schema, container->pull, NULL,
			      "imagePullPolicy is Always, IfNotPresent or Never, not '%.64s'",
			      container->pull->text);
}

int jobreader_task(struct jobreader *reader, const struct raw_pod *pod, const char *path,
		   struct jobfile_task *out)
{
	char container_path[OBJSCHEMA_PATH_MAX];

	jobreader_at(reader, path);
	if (!pod->node || pod->containers.count != 1)
		return objschema_fail(
		    &reader->schema, pod->containers.node ? pod->containers.node : pod->node, NULL,
		    "exactly one container is wanted, not %zu", pod->containers.count);

	const struct raw_container *container = pod->containers.items;

	(void)snprintf(container_path, sizeof(container_path), "%.128s.containers[0]", path);
	jobreader_at(reader, container_path);
	reader->expanded = 0;
	out->line = container->node->line;

	if (!container->name || !container->name->text[0])
		return objschema_fail(&reader->schema, container->node, NULL,
				      "a container needs a name");

	int rc = task_image(reader, container, out);
	if (rc == 0)
		rc = task_variables(reader, container, out);
	if (rc == 0)
		rc = task_texts(reader, &container->command, out, &out->command,
				&out->command_count);
	if (rc == 0)
		rc = task_texts(reader, &container->arguments, out, &out->arguments,
				&out->argument_count);

	if (rc == 0)
		rc = task_security(reader, pod, container, out);
	if (rc == 0)
		rc = jobreader_mounts(reader, pod, container, out);
	if (rc == 0)
		rc = jobreader_resources(reader, &container->resources, out);

	return rc;
}
