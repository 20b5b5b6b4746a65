/* SPDX-License-Identifier: Apache-2.0 */
/*
 * containerd: its configuration is one file and those that it imports, in order; until 1.7 the last
 * one that has a table of the CRI plugin replaces all of that plugin's before it, from 2.0 on they
 * are merged key by key.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "cdi/runtime/runtime_internal.h"

enum containerd_internals {
	CRI_1 = 0, /* the CRI plugin's table by the version of the file */
	CRI_2 = 1,
	CRI_3 = 2,
	CRI_COUNT,
	HEAD_MAX = 512, /* where a file says that nobody is to edit it */
};

static const char enable_key[] = "enable_cdi";

/* https://github.com/containerd/containerd/blob/main/docs/PLUGINS.md */
static const struct toml_path cri[CRI_COUNT] = {
    {{"plugins", "cri"}, 2},
    {{"plugins", "io.containerd.grpc.v1.cri"}, 2},
    {{"plugins", "io.containerd.cri.v1.runtime"}, 2},
};

static struct toml_path below(const struct toml_path *path, const char *part)
{
	struct toml_path result = *path;
	result.part[result.count++] = part;
	return result;
}

/* --- one file -------------------------------------------------------------------------------- */

struct file {
	char *path; /* owned; as it is called on its machine */
	struct buf text;
	uint64_t version; /* 0: not said, which is 1 */
	bool is_blank;	  /* nothing but comments */
	const struct toml_path *table;
	uint32_t table_line;	/* 0: it has nothing of the CRI plugin */
	struct toml_look value; /* of enable_cdi */
};

static struct toml toml_of(const struct file *file)
{
	return (struct toml){file->path, buf_text(&file->text), file->text.length};
}

static const struct toml_path *table_of(uint64_t version)
{
	return &cri[version >= 3 ? CRI_3 : version == 2 ? CRI_2 : CRI_1];
}

/* The version that a file declares. 0, -EINVAL. */
static int read_version(const struct toml *toml, uint64_t *out, struct err *err)
{
	static const struct toml_path path = {{"version"}, 1};
	struct toml_look look;
	int rc = toml_find(toml, &path, &look, err);
	if (rc < 0)
		return rc;

	*out = 0;
	if (look.kind != TOML_NONE &&
	    parse_u64_span(toml->text + look.start, look.end - look.start, 0, 99, out) < 0)
		return err_set(err, -EINVAL, "%s:%u: version is not a number", toml->name,
			       look.value_line);

	return 0;
}

/* `version`: that of the main file, which holds for an imported one that does not say its own. */
static int read_file(struct file *file, uint64_t version, struct err *err)
{
	static const struct toml_path any = {.count = 0};
	struct toml toml = toml_of(file);
	struct toml_look look;
	int rc = read_version(&toml, &file->version, err);
	if (rc == 0)
		rc = toml_find(&toml, &any, &look, err);

	if (rc < 0)
		return rc;
	if (file->version == 0)
		file->version = version;
	file->is_blank = look.line == 0;
	file->table = table_of(file->version);

	rc = toml_find(&toml, file->table, &look, err);
	if (rc < 0)
		return rc;

	file->table_line = look.line;
	struct toml_path key = below(file->table, enable_key);
	return toml_find(&toml, &key, &file->value, err);
}

/* --- all files ------------------------------------------------------------------------------- */

struct containerd_files {
	struct file *list; /* owned; in the order in which containerd reads them */
	size_t count;
	bool imports_ours; /* a pattern of imports would find our drop-in */
};

static void files_done(struct containerd_files *files)
{
	for (size_t i = 0; i < files->count; i++) {
		free(files->list[i].path);
		buf_done(&files->list[i].text);
	}
	free(files->list);
}

static bool has_file(const struct containerd_files *files, const char *path)
{
	for (size_t i = 0; i < files->count; i++)
		if (strcmp(files->list[i].path, path) == 0)
			return true;
	return false;
}

/* Adds a file that is not read yet; one that is there already is read once only. */
static int add_file(struct containerd_files *files, const char *path, struct err *err)
{
	if (has_file(files, path))
		return 0;
	if (files->count == RUNTIME_FILES_MAX)
		return err_set(err, -E2BIG, "%s: more than %d files are imported", path,
			       RUNTIME_FILES_MAX);

	struct file *file = &files->list[files->count];
	memset(file, 0, sizeof(*file));
	buf_init(&file->text, RUNTIME_TEXT_MAX);
	file->path = strdup(path);
	if (!file->path)
		return err_set(err, -ENOMEM, "out of memory");

	files->count++;
	return 0;
}

/* Whether a pattern would find our drop-in: the same directory, and a name for it. */
static bool finds_drop_in(const char *pattern)
{
	static const char directory[] = "/etc/containerd/conf.d/";
	size_t length = sizeof(directory) - 1;
	const char *name = pattern + length;
	return strncmp(pattern, directory, length) == 0 &&
	       (strcmp(name, "*.toml") == 0 || strcmp(name, "*") == 0);
}

/* Takes "." and ".." out of an absolute path by its text alone, as containerd does. */
static void clean_path(char *path)
{
	size_t length = 0;
	const char *at = path;

	while (*at) {
		at += strspn(at, "/");
		size_t part = strcspn(at, "/");
		if (part == 2 && at[0] == '.' && at[1] == '.') {
			while (length > 0 && path[--length] != '/')
				;
		} else if (part > 0 && !(part == 1 && at[0] == '.')) {
			path[length++] = '/';
			memmove(path + length, at, part);
			length += part;
		}

		at += part;
	}

	path[length] = '\0';
}

/* One import of `from`. As resolveImports() of containerd: only a '*' makes it a pattern. */
static int add_import(const struct runtime_machine *machine, struct containerd_files *files,
		      size_t from, const char *import, struct err *err)
{
	char path[FILE_PATH_MAX];
	const char *base = files->list[from].path;
	const char *slash = strrchr(base, '/');
	int rc = *import == '/' || !slash
		     ? file_path(path, err, "%s", import)
		     : file_path(path, err, "%.*s/%s", (int)(slash - base), base, import);
	if (rc < 0)
		return rc;

	if (*path == '/')
		clean_path(path);
	if (finds_drop_in(path))
		files->imports_ours = true;
	if (!strchr(path, '*'))
		return add_file(files, path, err);

	char **paths = NULL;
	size_t count = 0;

	rc = runtime_glob(machine, path, &paths, &count, err);
	for (size_t i = 0; rc == 0 && i < count; i++)
		rc = add_file(files, paths[i], err);

	runtime_glob_free(paths, count);
	return rc;
}

static int add_imports(const struct runtime_machine *machine, struct containerd_files *files,
		       size_t from, struct err *err)
{
	static const struct toml_path path = {{"imports"}, 1};
	struct toml toml = toml_of(&files->list[from]);
	struct toml_look look;
	int rc = toml_find(&toml, &path, &look, err);
	if (rc < 0 || look.kind != TOML_ARRAY)
		return rc;

	char import[FILE_PATH_MAX];
	size_t at = look.start;
	while (rc == 0 && toml_next_string(&toml, &at, look.end, import, sizeof(import)))
		rc = add_import(machine, files, from, import, err);

	return rc;
}

/* Everything that containerd reads. No file at all is none. */
static int read_files(const struct runtime_machine *machine, struct containerd_files *out,
		      struct err *err)
{
	out->list = calloc(RUNTIME_FILES_MAX, sizeof(*out->list));
	if (!out->list)
		return err_set(err, -ENOMEM, "out of memory");

	int rc = add_file(out, runtime_config(machine), err);

	for (size_t i = 0; rc == 0 && i < out->count; i++) {
		struct file *file = &out->list[i];
		rc = runtime_read(machine, file->path, &file->text, err);
		if (rc == 0 && i > 0)
			return err_set(err, -ENOENT, "%s: imports '%s', which is not there",
				       out->list[0].path, file->path);

		if (rc == 0) {
			free(file->path);
			out->count = 0;
			return 0;
		}

		if (rc > 0)
			rc = read_file(file, out->list[0].version, err);
		if (rc == 0)
			rc = add_imports(machine, out, i, err);
	}

	return rc;
}

/* --- what they say --------------------------------------------------------------------------- */

/* Where a file switches the CRI plugin off; 0: nowhere. */
static uint32_t disabled_line(const struct file *file)
{
	static const struct toml_path path = {{"disabled_plugins"}, 1};
	struct toml toml = toml_of(file);
	struct toml_look look;

	if (toml_find(&toml, &path, &look, NULL) < 0 || look.kind != TOML_ARRAY)
		return 0;

	char name[TOML_PART_MAX];
	size_t at = look.start;
	while (toml_next_string(&toml, &at, look.end, name, sizeof(name)))
		for (size_t i = 0; i < CRI_COUNT; i++)
			if (strcmp(name, cri[i].part[1]) == 0)
				return look.value_line;

	return 0;
}

static void note_file(struct runtime_plan *plan, const struct file *file)
{
	struct toml toml = toml_of(file);
	struct toml_path containerd = below(file->table, "containerd");
	struct toml_path runtimes = below(&containerd, "runtimes");
	struct toml_path nvidia = below(&runtimes, "nvidia");
	struct toml_path chosen = below(&containerd, "default_runtime_name");
	struct toml_path directories = below(file->table, "cdi_spec_dirs");
	struct toml_look look;
	char name[TOML_PART_MAX];

	if (toml_find(&toml, &nvidia, &look, NULL) == 0 && look.line > 0)
		runtime_note(plan, false,
			     "%s:%u: NVIDIA's runtime is configured; CDI does not need it",
			     file->path, look.line);

	if (toml_find(&toml, &chosen, &look, NULL) == 0 && look.kind == TOML_STRING &&
	    toml_next_string(&toml, &look.start, look.end, name, sizeof(name)) &&
	    strcmp(name, "nvidia") == 0)
		runtime_warn(plan, RUNTIME_ABOUT_HOOK,
			     "%s:%u: NVIDIA's runtime is the default: its hooks run in every "
			     "container start beside CDI",
			     file->path, look.value_line);

	runtime_note_directories(plan, &toml, &directories);
}

/* --- the edits ------------------------------------------------------------------------------- */

uint32_t runtime_containerd_line(const struct toml *toml)
{
	uint64_t version;
	struct toml_look look;
	if (read_version(toml, &version, NULL) < 0)
		return 0;
	struct toml_path key = below(table_of(version), enable_key);
	return toml_find(toml, &key, &look, NULL) < 0 ? 0 : look.value_line;
}

int runtime_containerd_edit(const struct toml *toml, struct buf *out, struct err *err)
{
	static const struct toml_path any = {.count = 0};
	uint64_t version;
	struct toml_look look;
	int rc = read_version(toml, &version, err);
	if (rc == 0)
		rc = toml_find(toml, &any, &look, err);

	if (rc < 0)
		return rc;
	if (look.line > 0)
		return toml_set_true(toml, table_of(version), enable_key, out, err);

	/* Nothing but comments: without a version it would be one of the oldest. */
	bool cut = toml->length > 0 && toml->text[toml->length - 1] != '\n';

	rc = buf_add(out, toml->text, toml->length);
	if (rc == 0)
		rc = buf_printf(out, "%sversion = 2\n\n[plugins.\"%s\"]\n  %s = true\n",
				cut ? "\n" : "", cri[CRI_2].part[1], enable_key);

	return rc < 0 ? err_set(err, rc, "%s: %s", toml->name, err_describe(rc)) : 1;
}

int runtime_containerd_drop_in(uint64_t version, struct buf *out)
{
	return buf_printf(out,
			  "# Written by sluice runtime configure; --undo takes it away.\n"
			  "version = %d\n\n[plugins.\"%s\"]\n  %s = true\n",
			  version >= 3 ? 3 : 2, table_of(version)->part[1], enable_key);
}

/* The change of a file that is there, or of none. */
static int change_main(const struct runtime_machine *machine, struct containerd_files *files,
		       struct runtime_plan *plan, struct err *err)
{
	const char *path = runtime_config(machine);

	plan->is_new = files->count == 0;
	plan->needs_backup = true;

	int rc = runtime_resolve(machine, path, plan->path, err);
	if (rc < 0)
		return rc;
	if (files->count > 0)
		rc = buf_add(&plan->before, files->list[0].text.data, files->list[0].text.length);
	if (rc < 0)
		return err_set(err, rc, "%s: %s", path, err_describe(rc));

	/* k3s and others make the file anew at each start, and say so in its first lines. */
	char head[HEAD_MAX];
	(void)snprintf(head, sizeof(head), "%s", buf_text(&plan->before));

	if (strstr(head, "DO NOT EDIT"))
		runtime_note(plan, true,
			     "%s: says that it is made by a program, which may undo the change: "
			     "change what it is made from",
			     path);

	const struct toml toml = {path, buf_text(&plan->before), plan->before.length};
	return runtime_containerd_edit(&toml, &plan->after, err);
}

/* --- by version ------------------------------------------------------------------------------ */

/* 1.7: off unless it is switched on. */
static int plan_1(const struct runtime_machine *machine, struct containerd_files *files,
		  struct runtime_plan *plan, struct err *err)
{
	const char *version = machine->version.text;
	const struct file *last = files->count > 0 ? &files->list[0] : NULL;
	for (size_t i = 1; i < files->count; i++)
		if (files->list[i].table_line > 0)
			last = &files->list[i];

	if (last && last->version > 2)
		return err_set(err, -EINVAL,
			       "%s: is of version %u, which containerd %s does not read",
			       last->path, (unsigned)last->version, version);

	if (last && last->value.kind == TOML_TRUE)
		return runtime_say(plan, RUNTIME_READY,
				   "%s:%u: CDI is switched on in containerd %s", last->path,
				   last->value.value_line, version);

	if (last && last != &files->list[0])
		return err_set(err, -EINVAL,
			       "%s:%u: replaces all that '%s' says of the CRI plugin, and is not "
			       "ours: put 'enable_cdi = true' into its [plugins.\"%s\"] yourself",
			       last->path, last->table_line, files->list[0].path,
			       last->table->part[1]);

	if (last && last->version < 2 && !last->is_blank)
		return err_set(
		    err, -EINVAL,
		    "%s: has no 'version = 2' and so is of the oldest form, which is not "
		    "edited; 'containerd config migrate' prints it in the new one",
		    last->path);

	if (!version_is_at_least(&machine->version, 1, 7, 2))
		runtime_note(plan, true,
			     "containerd %s takes CDI devices from annotations only; from 1.7.2 on "
			     "it takes those that the kubelet names",
			     version);

	int rc = change_main(machine, files, plan, err);
	return rc < 0 ? rc
		      : runtime_say(plan, RUNTIME_CHANGE,
				    "containerd %s can do CDI and does not until it is switched on",
				    version);
}

/* Whether our drop-in is read behind a file: the main file always, others by their names. */
static bool is_before_ours(const struct containerd_files *files, const struct file *file)
{
	static const char ours[] = RUNTIME_DROP_IN;
	size_t directory = (size_t)(strrchr(ours, '/') - ours) + 1;
	return file == &files->list[0] ||
	       (strncmp(file->path, ours, directory) == 0 && !strchr(file->path + directory, '/') &&
		strcmp(file->path, ours) < 0);
}

/* 2.0: on unless it is switched off. */
static int plan_2(const struct runtime_machine *machine, struct containerd_files *files,
		  struct runtime_plan *plan, struct err *err)
{
	const char *version = machine->version.text;
	const struct file *last = NULL;
	for (size_t i = 0; i < files->count; i++)
		if (files->list[i].value.line > 0)
			last = &files->list[i];

	if (!last)
		return runtime_say(plan, RUNTIME_READY,
				   "CDI is switched on in containerd %s, by default", version);
	if (last->value.kind == TOML_TRUE)
		return runtime_say(plan, RUNTIME_READY,
				   "%s:%u: CDI is switched on in containerd %s", last->path,
				   last->value.value_line, version);

	if (last->value.kind != TOML_FALSE)
		return err_set(err, -EINVAL, "%s:%u: enable_cdi is neither true nor false",
			       last->path, last->value.line);

	(void)runtime_say(plan, RUNTIME_CHANGE, "%s:%u: CDI is switched off", last->path,
			  last->value.value_line);
	uint64_t main_version = files->list[0].version;
	if (files->imports_ours && main_version >= 2 && is_before_ours(files, last) &&
	    !has_file(files, RUNTIME_DROP_IN)) {
		int rc = runtime_resolve(machine, RUNTIME_DROP_IN, plan->path, err);

		plan->is_new = true;
		if (rc < 0)
			return rc;

		rc = runtime_containerd_drop_in(main_version, &plan->after);
		return rc < 0 ? err_set(err, rc, "%s: %s", RUNTIME_DROP_IN, err_describe(rc)) : 0;
	}

	if (last == &files->list[0])
		return change_main(machine, files, plan, err);

	return err_set(err, -EINVAL,
		       "%s:%u: switches CDI off, and is not ours: take that line out yourself",
		       last->path, last->value.value_line);
}

int runtime_plan_containerd(const struct runtime_machine *machine, struct runtime_plan *plan,
			    struct err *err)
{
	const struct version *version = &machine->version;
	if (!version_is_at_least(version, 1, 7, 0))
		return runtime_say(plan, RUNTIME_CANNOT,
				   "containerd %s has no CDI, whatever its configuration says; "
				   "update it to 1.7.2 or later, best to 2.0, which has it "
				   "switched on",
				   version->text);

	_cleanup_(files_done) struct containerd_files files = {.list = NULL};
	int rc = read_files(machine, &files, err);
	if (rc < 0)
		return rc;

	for (size_t i = 0; i < files.count; i++) {
		uint32_t line = disabled_line(&files.list[i]);
		if (line > 0)
			return runtime_say(
			    plan, RUNTIME_CANNOT,
			    "%s:%u: the CRI plugin, which does CDI, is switched off; "
			    "take it out of disabled_plugins if Kubernetes is to use "
			    "this containerd (docker does not need it)",
			    files.list[i].path, line);

		note_file(plan, &files.list[i]);
	}

	return version_is_at_least(version, 2, 0, 0) ? plan_2(machine, &files, plan, err)
						     : plan_1(machine, &files, plan, err);
}
