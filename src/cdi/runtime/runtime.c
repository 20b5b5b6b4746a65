/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/runtime/runtime.h"

#include <errno.h>
#include <glob.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "base/text.h"
#include "cdi/runtime/daemon_json.h"
#include "cdi/runtime/runtime_internal.h"
#include "hardware/selinux.h"

enum runtime_internals {
	HOOK_TEXT_MAX = 65536,
};

static const struct {
	const char *name, *program, *restart;
} kinds[] = {
    [RUNTIME_PODMAN] = {"podman", "podman", NULL},
    [RUNTIME_DOCKER] = {"docker", "dockerd", "systemctl restart docker"},
    [RUNTIME_CONTAINERD] = {"containerd", "containerd", "systemctl restart containerd"},
    [RUNTIME_CRIO] = {"crio", "crio", "systemctl restart crio"},
};

const char *runtime_kind_to_string(enum runtime_kind kind)
{
	return kinds[kind].name;
}

const char *runtime_program(enum runtime_kind kind)
{
	return kinds[kind].program;
}

const char *runtime_restart(enum runtime_kind kind)
{
	return kinds[kind].restart;
}

const char *runtime_state_to_string(enum runtime_state state)
{
	static const char *const names[] = {
	    [RUNTIME_READY] = "ready", [RUNTIME_CHANGE] = "change", [RUNTIME_CANNOT] = "cannot"};
	return names_at(names, state, "unknown");
}

const char *runtime_config(const struct runtime_machine *machine)
{
	if (machine->config)
		return machine->config;
	return machine->kind == RUNTIME_DOCKER ? RUNTIME_DOCKER_CONFIG : RUNTIME_CONTAINERD_CONFIG;
}

/* --- what is said ---------------------------------------------------------------------------- */

int runtime_say(struct runtime_plan *plan, enum runtime_state state, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(plan->text, sizeof(plan->text), format, arguments);
	va_end(arguments);
	plan->state = state;
	return 0;
}

__attribute__((format(printf, 4, 0))) static void add_note(struct runtime_plan *plan,
							   bool is_warning,
							   enum runtime_about about,
							   const char *format, va_list arguments)
{
	if (plan->note_count == RUNTIME_NOTES_MAX)
		return;
	struct runtime_note *note = &plan->notes[plan->note_count++];
	note->is_warning = is_warning;
	note->about = about;
	(void)vsnprintf(note->text, sizeof(note->text), format, arguments);
}

void runtime_note(struct runtime_plan *plan, bool is_warning, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	add_note(plan, is_warning, RUNTIME_ABOUT_CDI, format, arguments);
	va_end(arguments);
}

void runtime_warn(struct runtime_plan *plan, enum runtime_about about, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	add_note(plan, true, about, format, arguments);
	va_end(arguments);
}

/* --- files below the root -------------------------------------------------------------------- */

int runtime_read(const struct runtime_machine *machine, const char *path, struct buf *out,
		 struct err *err)
{
	char full[FILE_PATH_MAX];
	int rc = file_path(full, err, "%s%s", machine->root, path);
	if (rc < 0)
		return rc;

	struct err reading = {0};
	rc = file_read(full, out, &reading);

	/* A directory that is not there, or something else in its place: no file either. */
	if (rc == -ENOENT || rc == -ENOTDIR)
		return 0;

	return rc < 0 ? err_set(err, rc, "%s", reading.text) : 1;
}

void runtime_glob_free(char **paths, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(paths[i]);
	free(paths);
}

/* "root" + "pattern", where nothing in the root is a pattern. */
static int glob_pattern(const char *root, const char *pattern, char out[FILE_PATH_MAX])
{
	size_t length = 0;

	for (; *root; root++) {
		if (length + 2 >= FILE_PATH_MAX)
			return -ENAMETOOLONG;
		if (strchr("*?[\\", *root))
			out[length++] = '\\';
		out[length++] = *root;
	}

	size_t rest = strlen(pattern);
	if (rest >= FILE_PATH_MAX - length)
		return -ENAMETOOLONG;

	memcpy(out + length, pattern, rest + 1);
	return 0;
}

int runtime_glob(const struct runtime_machine *machine, const char *pattern, char ***out,
		 size_t *out_count, struct err *err)
{
	char full[FILE_PATH_MAX];
	int rc = glob_pattern(machine->root, pattern, full);
	if (rc < 0)
		return err_set(err, rc, "'%.64s': path is too long", pattern);

	glob_t found = {0};
	rc = glob(full, 0, NULL, &found);
	if (rc == GLOB_NOSPACE || found.gl_pathc > RUNTIME_FILES_MAX) {
		globfree(&found);
		return rc == GLOB_NOSPACE ? err_set(err, -ENOMEM, "out of memory")
					  : err_set(err, -E2BIG, "'%s': more than %d files",
						    pattern, RUNTIME_FILES_MAX);
	}

	size_t count = 0, wanted = rc == 0 ? found.gl_pathc : 0;
	char **paths = calloc(wanted + 1, sizeof(*paths));
	for (; paths && count < wanted; count++)
		if (!(paths[count] = strdup(found.gl_pathv[count] + strlen(machine->root))))
			break;

	globfree(&found);
	if (!paths || count < wanted) {
		runtime_glob_free(paths, paths ? count : 0);
		return err_set(err, -ENOMEM, "out of memory");
	}

	*out = paths;
	*out_count = count;
	return 0;
}

void runtime_note_directories(struct runtime_plan *plan, const struct toml *toml,
			      const struct toml_path *path)
{
	struct toml_look look;
	if (toml_find(toml, path, &look, NULL) < 0 || look.kind != TOML_ARRAY)
		return;

	char directory[FILE_PATH_MAX];
	size_t at = look.start, count = 0;
	for (; toml_next_string(toml, &at, look.end, directory, sizeof(directory)); count++)
		if (strcmp(directory, "/var/run/cdi") == 0 || strcmp(directory, "/run/cdi") == 0)
			return;

	if (count > 0)
		runtime_note(plan, true,
			     "%s:%u: %s leaves out /var/run/cdi, where the service writes",
			     toml->name, look.value_line, path->part[path->count - 1]);
}

/* --- what stands beside CDI ------------------------------------------------------------------ */

static int read_file(const void *context, const char *path, struct buf *out)
{
	int rc = runtime_read(context, path, out, NULL);
	return rc == 0 ? -ENOENT : rc < 0 ? rc : 0;
}

static int find_file(const void *context, const char *path)
{
	const struct runtime_machine *machine = context;
	char full[FILE_PATH_MAX];
	struct stat status;
	int rc = file_path(full, NULL, "%s%s", machine->root, path);
	return rc < 0 ? rc : lstat(full, &status) < 0 ? -errno : 0;
}

/* A node that is bound into a container keeps the host's label; one that the runtime makes there
 * itself, as root without a user namespace, has the container's. */
static void note_selinux(const struct runtime_machine *machine, struct runtime_plan *plan)
{
	const struct selinux_files files = {
	    .read = read_file, .find = find_file, .context = machine};
	enum selinux_state state;
	const char *path = NULL;
	int rc = selinux_judge(&files, &state, &path);

	if (rc < 0)
		runtime_note(plan, false,
			     "whether SELinux lets containers use GPUs is not known: '%s': %s",
			     path, strerror(-rc));
	else if (state == SELINUX_STATE_SWITCHED_OFF)
		runtime_warn(
		    plan, RUNTIME_ABOUT_SELINUX,
		    "SELinux is enforcing and keeps containers from device nodes: run "
		    "'setsebool -P container_use_devices 1', or for GPUs and adapters alone "
		    "'semodule -i " SELINUX_MODULE_FILE "', or give a container "
		    "--security-opt label=disable");
	else if (state == SELINUX_STATE_NO_RULE)
		runtime_warn(
		    plan, RUNTIME_ABOUT_SELINUX,
		    "SELinux is enforcing and keeps containers from the host's nodes of GPUs: run "
		    "'semodule -i " SELINUX_MODULE_FILE "', or give a container "
		    "--security-opt label=disable");
}

/* Whether a file of hooks.d starts a program of NVIDIA's. */
static bool is_nvidia_hook(const char *text, size_t length)
{
	json_t *json = json_loadb(text, length, 0, NULL);
	const char *path =
	    json_string_value(json_object_get(json_object_get(json, "hook"), "path"));
	const char *slash = path ? strrchr(path, '/') : NULL;
	const char *name = slash ? slash + 1 : path;
	bool result =
	    name && (text_starts_with(name, "nvidia-container") || strcmp(name, "nvidia-ctk") == 0);

	json_decref(json);
	return result;
}

/* Looks at each file that fits one of the patterns and can be read. */
static int each_file(const struct runtime_machine *machine, const char *const *patterns,
		     size_t pattern_count, size_t text_max,
		     void (*look)(struct runtime_plan *plan, const char *path,
				  const struct buf *text),
		     struct runtime_plan *plan, struct err *err)
{
	for (size_t i = 0; i < pattern_count; i++) {
		char **paths = NULL;
		size_t count = 0;
		int rc = runtime_glob(machine, patterns[i], &paths, &count, err);
		if (rc < 0)
			return rc;

		for (size_t k = 0; k < count; k++) {
			_cleanup_buf_ struct buf text;
			buf_init(&text, text_max);
			if (runtime_read(machine, paths[k], &text, NULL) > 0)
				look(plan, paths[k], &text);
		}

		runtime_glob_free(paths, count);
	}

	return 0;
}

static void note_hook(struct runtime_plan *plan, const char *path, const struct buf *text)
{
	if (is_nvidia_hook(buf_text(text), text->length))
		runtime_warn(plan, RUNTIME_ABOUT_HOOK,
			     "%s: NVIDIA's hook is still active: it runs in every container start "
			     "beside CDI; take the file away when nothing needs it",
			     path);
}

/* Hooks of the time before CDI, which podman and CRI-O run beside it:
 * https://github.com/containers/common/blob/main/pkg/hooks/docs/oci-hooks.5.md */
static int note_hooks(const struct runtime_machine *machine, struct runtime_plan *plan,
		      struct err *err)
{
	static const char *const patterns[] = {
	    "/usr/share/containers/oci/hooks.d/*.json",
	    "/etc/containers/oci/hooks.d/*.json",
	};
	return each_file(machine, patterns, sizeof(patterns) / sizeof(patterns[0]), HOOK_TEXT_MAX,
			 note_hook, plan, err);
}

/* --- podman and CRI-O: nothing to switch on -------------------------------------------------- */

static int plan_podman(const struct runtime_machine *machine, struct runtime_plan *plan,
		       struct err *err)
{
	int rc = note_hooks(machine, plan, err);
	if (rc < 0)
		return rc;
	if (!version_is_at_least(&machine->version, 4, 1, 0))
		return runtime_say(plan, RUNTIME_CANNOT,
				   "podman %s has no CDI; update it to 4.1 or later",
				   machine->version.text);

	runtime_note(plan, false,
		     "use it with: podman run --device KIND=NAME ..., the names that "
		     "'sluice cdi list' prints");
	return runtime_say(plan, RUNTIME_READY, "podman %s does CDI by itself",
			   machine->version.text);
}

/* What the files of CRI-O say of NVIDIA; they are not changed, so one that is not understood is
 * only named. */
static void note_crio_file(struct runtime_plan *plan, const char *path, const struct buf *text)
{
	static const struct toml_path nvidia = {{"crio", "runtime", "runtimes", "nvidia"}, 4};
	static const struct toml_path chosen = {{"crio", "runtime", "default_runtime"}, 3};
	static const struct toml_path directories = {{"crio", "runtime", "cdi_spec_dirs"}, 3};
	const struct toml toml = {path, buf_text(text), text->length};
	struct toml_look look;
	struct err err = {0};

	if (toml_find(&toml, &nvidia, &look, &err) < 0) {
		runtime_note(plan, true, "%s", err.text);
		return;
	}

	if (look.line > 0)
		runtime_note(plan, false,
			     "%s:%u: NVIDIA's runtime is configured; CDI does not need it", path,
			     look.line);

	char name[64];
	if (toml_find(&toml, &chosen, &look, NULL) == 0 && look.kind == TOML_STRING &&
	    toml_next_string(&toml, &look.start, look.end, name, sizeof(name)) &&
	    strcmp(name, "nvidia") == 0)
		runtime_warn(plan, RUNTIME_ABOUT_HOOK,
			     "%s:%u: NVIDIA's runtime is the default: its hooks run in every "
			     "container start beside CDI",
			     path, look.value_line);

	runtime_note_directories(plan, &toml, &directories);
}

static int plan_crio(const struct runtime_machine *machine, struct runtime_plan *plan,
		     struct err *err)
{
	static const char *const patterns[] = {"/etc/crio/crio.conf", "/etc/crio/crio.conf.d/*"};
	int rc = each_file(machine, patterns, sizeof(patterns) / sizeof(patterns[0]),
			   RUNTIME_TEXT_MAX, note_crio_file, plan, err);
	if (rc == 0)
		rc = note_hooks(machine, plan, err);
	if (rc < 0)
		return rc;
	if (!version_is_at_least(&machine->version, 1, 23, 0))
		return runtime_say(plan, RUNTIME_CANNOT,
				   "CRI-O %s has no CDI; update it to 1.23 or later",
				   machine->version.text);
	return runtime_say(plan, RUNTIME_READY, "CRI-O %s does CDI by itself",
			   machine->version.text);
}

/* --- docker ---------------------------------------------------------------------------------- */

static void note_docker(struct runtime_plan *plan, const char *path,
			const struct daemon_json *config)
{
	bool is_default = strcmp(config->default_runtime, "nvidia") == 0;
	if (config->nvidia_path[0] != '\0' && !is_default)
		runtime_note(plan, false,
			     "%s: NVIDIA's runtime is configured (%s); CDI does not need it", path,
			     config->nvidia_path);

	if (is_default)
		runtime_warn(plan, RUNTIME_ABOUT_HOOK,
			     "%s: NVIDIA's runtime is the default: its hook runs in every "
			     "container start beside CDI",
			     path);

	if (config->has_directories && !config->has_run_directory)
		runtime_note(plan, true,
			     "%s: cdi-spec-dirs leaves out /var/run/cdi, where the service writes",
			     path);
}

static int plan_docker(const struct runtime_machine *machine, struct runtime_plan *plan,
		       struct err *err)
{
	const struct version *version = &machine->version;
	const char *path = runtime_config(machine);
	int is_there = runtime_read(machine, path, &plan->before, err);
	if (is_there < 0)
		return is_there;

	if (!version_is_at_least(version, 25, 0, 0))
		return runtime_say(plan, RUNTIME_CANNOT,
				   "docker %s has no CDI; update it to 25.0 or later, best 28.2, "
				   "which has it switched on",
				   version->text);

	struct daemon_json config;
	int rc =
	    daemon_json_parse(buf_text(&plan->before), plan->before.length, path, &config, err);
	if (rc < 0)
		return rc;

	note_docker(plan, path, &config);
	bool by_default = version_is_at_least(version, 28, 2, 0);
	if (config.cdi == DAEMON_JSON_ON || (by_default && config.cdi == DAEMON_JSON_UNSET))
		return runtime_say(plan, RUNTIME_READY, "CDI is switched on in docker %s%s",
				   version->text,
				   config.cdi == DAEMON_JSON_ON ? "" : ", by default");

	rc = daemon_json_set_cdi(buf_text(&plan->before), plan->before.length, path, &plan->after,
				 err);
	if (rc >= 0)
		rc = runtime_resolve(machine, path, plan->path, err);
	if (rc < 0)
		return rc;

	plan->is_new = !is_there;
	plan->needs_backup = true;
	runtime_note(plan, false,
		     "to check the file after the change: dockerd --validate --config-file %s",
		     path);

	if (config.cdi == DAEMON_JSON_OFF)
		return runtime_say(plan, RUNTIME_CHANGE, "%s:%u: CDI is switched off", path,
				   config.cdi_line);

	return runtime_say(plan, RUNTIME_CHANGE,
			   "docker %s can do CDI and does not until it is switched on",
			   version->text);
}

/* --- all ------------------------------------------------------------------------------------- */

int runtime_plan(const struct runtime_machine *machine, struct runtime_plan *out, struct err *err)
{
	memset(out, 0, sizeof(*out));
	buf_init(&out->before, RUNTIME_TEXT_MAX);
	buf_init(&out->after, RUNTIME_TEXT_MAX + FILE_PATH_MAX);

	int rc;

	switch (machine->kind) {
	case RUNTIME_PODMAN:
		rc = plan_podman(machine, out, err);
		break;
	case RUNTIME_DOCKER:
		rc = plan_docker(machine, out, err);
		break;
	case RUNTIME_CRIO:
		rc = plan_crio(machine, out, err);
		break;
	default:
		rc = runtime_plan_containerd(machine, out, err);
		break;
	}

	if (rc < 0)
		runtime_plan_done(out);
	else if (out->state != RUNTIME_CANNOT)
		note_selinux(machine, out);

	return rc < 0 ? rc : 0;
}

void runtime_plan_done(struct runtime_plan *plan)
{
	buf_done(&plan->before);
	buf_done(&plan->after);
}
