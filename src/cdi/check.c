/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/names.h"
#include "base/suggest.h"
#include "base/text.h"
#include "cdi/check_internal.h"

enum { CHECK_FIRST = 16 };

/* --- findings -------------------------------------------------------------------------------- */

static int check_copy(const char *text, char **out)
{
	*out = text ? strdup(text) : NULL;
	return text && !*out ? -ENOMEM : 0;
}

static void check_finding_done(struct check_finding *finding)
{
	free(finding->device);
	free(finding->path);
	free(finding->key);
	free(finding->text);
	free(finding->fix);
}

/* The finding that says the same already. */
static struct check_finding *check_same(const struct checker *checker, enum check_id id,
					const struct check_about *about)
{
	struct cdi_check *check = checker->check;
	for (uint32_t i = checker->first; i < check->count; i++) {
		struct check_finding *finding = &check->findings[i];
		if (finding->id == id && finding->file == about->file &&
		    strcmp(finding->key, about->key) == 0)
			return finding;
	}

	return NULL;
}

static int check_fill(struct check_finding *finding, const struct check_about *about,
		      const char *format, va_list arguments)
{
	char device[2 * SCAN_KIND_MAX];
	_cleanup_buf_ struct buf text;

	buf_init(&text, CHECK_TEXT_MAX);
	finding->file = about->file;
	finding->count = 1;

	if (about->device && about->file)
		(void)snprintf(device, sizeof(device), "%s=%s", about->file->kind, about->device);

	int rc =
	    check_copy(about->device && about->file ? device : about->device, &finding->device);
	if (rc == 0)
		rc = check_copy(about->path, &finding->path);
	if (rc == 0)
		rc = check_copy(about->key, &finding->key);
	if (rc == 0)
		rc = check_copy(about->fix && about->fix[0] ? about->fix : NULL, &finding->fix);

	if (rc == 0 && buf_vprintf(&text, format, arguments) == -ENOMEM)
		rc = -ENOMEM;
	/* A path that long is cut short; the finding has it as a whole. */
	finding->text = rc == 0 ? buf_take(&text) : NULL;
	return rc == 0 && !finding->text ? -ENOMEM : rc;
}

void check_add(struct checker *checker, enum check_id id, enum check_severity severity,
	       const struct check_about *about, const char *format, ...)
{
	struct cdi_check *check = checker->check;

	if (checker->rc < 0)
		return;

	struct check_finding *same = check_same(checker, id, about);
	if (same) {
		same->count++;
		return;
	}

	check->total++;
	if (severity > check->worst)
		check->worst = severity;
	if (check->count == CHECK_FINDINGS_MAX)
		return;
	if (array_room(&check->findings, check->count, &check->room, CHECK_FIRST) < 0) {
		checker->rc = -ENOMEM;
		return;
	}

	struct check_finding *finding = &check->findings[check->count++];
	*finding = (struct check_finding){.id = id, .severity = severity};

	va_list arguments;
	va_start(arguments, format);
	checker->rc = check_fill(finding, about, format, arguments);
	va_end(arguments);

	if (checker->rc < 0) { /* nobody meets half of one */
		check_finding_done(finding);
		check->count--;
	}
}

void check_done(struct cdi_check *check)
{
	for (uint32_t i = 0; i < check->count; i++)
		check_finding_done(&check->findings[i]);
	free(check->findings);
	*check = (struct cdi_check){.count = 0};
}

/* --- what mends it --------------------------------------------------------------------------- */

const char *check_quote(const char *text, char out[CHECK_TEXT_MAX])
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_./:=@%+,-";
	size_t size = 0;
	bool is_plain = text[0] && text[strspn(text, plain)] == '\0';
	if (!is_plain)
		out[size++] = '\'';

	for (const char *at = text; *at && size + 8 < CHECK_TEXT_MAX; at++) {
		if (*at == '\'') {
			memcpy(out + size, "'\\'", 3);
			size += 3;
		}
		out[size++] = *at;
	}

	if (!is_plain)
		out[size++] = '\'';
	out[size] = '\0';
	return out;
}

static bool check_is_read_only(const char *directory)
{
	return access(directory, W_OK) != 0 && errno == EROFS;
}

/* Whether NVIDIA's generator wrote the file: it names its own hooks. */
static bool check_is_of_nvidia(const struct scan_file *file)
{
	const struct yaml_node *hooks =
	    file->document.yaml ? yaml_get(file->document.edits, "hooks") : NULL;
	for (size_t i = 0; hooks && i < hooks->entry_count; i++) {
		const char *path = yaml_get(hooks->entries[i].value, "path")->text;
		if (strstr(path, "/nvidia-ctk") || strstr(path, "/nvidia-cdi-hook"))
			return true;
	}

	return false;
}

/* `sluice cdi generate` for this kind; without one for the machine's usual kind. */
static const char *check_fix_generate(const struct checker *checker, const char *kind,
				      const char *path, char out[CHECK_TEXT_MAX])
{
	char quoted[CHECK_TEXT_MAX], vendor[SCAN_KIND_MAX + 32] = "", class_[SCAN_KIND_MAX] = "";
	const char *slash = strchr(kind, '/');
	/* The usual one of a simulated machine is another. */
	bool is_usual = strcmp(kind, "nvidia.com/gpu") == 0 && !checker->options->root[0];
	if (slash && !is_usual)
		(void)snprintf(vendor, sizeof(vendor), " --vendor %.*s", (int)(slash - kind), kind);

	if (slash && strcmp(slash, "/gpu") != 0)
		(void)snprintf(class_, sizeof(class_), " --class %s", slash + 1);
	(void)snprintf(out, CHECK_TEXT_MAX, "sluice cdi generate%s%s --output %.*s", vendor, class_,
		       CHECK_TEXT_MAX / 2, check_quote(path, quoted));
	return out;
}

const char *check_fix_file(const struct checker *checker, const struct scan_file *file,
			   char out[CHECK_TEXT_MAX])
{
	char quoted[CHECK_TEXT_MAX];
	bool is_gpu = checker->is_gpu_file && checker->file == file;
	const char *vendor_end = strchr(file->kind, '/');
	if (vendor_end &&
	    (text_starts_with(file->kind, "sluice.") || strcmp(file->kind, "nvidia.com/gpu") == 0))
		is_gpu = true;

	if (is_gpu && check_is_of_nvidia(file)) {
		(void)snprintf(out, CHECK_TEXT_MAX, "nvidia-ctk cdi generate --output %.*s",
			       CHECK_TEXT_MAX / 2, check_quote(file->path, quoted));
		return out;
	}

	if (is_gpu)
		return check_fix_generate(checker, file->kind, file->path, out);

	(void)snprintf(out, CHECK_TEXT_MAX,
		       "let the program that wrote %.*s write it again, or remove it",
		       CHECK_TEXT_MAX / 2, check_quote(file->path, quoted));
	return out;
}

/* --- files ----------------------------------------------------------------------------------- */

/* A file or directory that is of no use. */
static void check_bad_file(struct checker *checker, const struct scan_file *file)
{
	char fix[CHECK_TEXT_MAX], quoted[CHECK_TEXT_MAX];
	struct check_about about = {.file = file, .path = file->path, .key = "", .fix = fix};
	bool is_closed = file->code == -EACCES || file->code == -EPERM;

	if (is_closed)
		(void)snprintf(fix, sizeof(fix), "chmod %s %.*s",
			       file->is_directory ? "755" : "644", CHECK_TEXT_MAX / 2,
			       check_quote(file->path, quoted));
	else if (file->code == -EINVAL)
		about.fix = check_fix_file(checker, file, fix);
	else
		about.fix = NULL;

	const char *whose = is_closed ? ": containers of this user get no device of it either" : "";

	if (file->is_directory)
		check_add(checker, CHECK_DIRECTORY_UNREADABLE, CHECK_UNREADABLE, &about, "%s%s",
			  file->why, whose);
	else if (is_closed)
		check_add(checker, CHECK_FILE_UNREADABLE, CHECK_UNREADABLE, &about, "%s%s",
			  file->why, whose);
	else
		check_add(checker, CHECK_FILE_REJECTED, CHECK_UNREADABLE, &about, "%s: %s",
			  file->why,
			  file->code == -EINVAL ? "no runtime takes a device of this file"
						: "it was not checked");
}

/* Where a file would go: the last directory, if it can be written. */
static const char *check_directory(const struct scan *scan)
{
	for (uint32_t i = scan->directory_count; i > 0; i--)
		if (i == 1 || !check_is_read_only(scan->directories[i - 1]))
			return scan->directories[i - 1];
	return "/var/run/cdi";
}

static void check_nothing(struct checker *checker)
{
	const struct scan *scan = checker->scan;
	char fix[CHECK_TEXT_MAX], path[FILE_PATH_MAX];
	_cleanup_buf_ struct buf where;

	buf_init(&where, CHECK_TEXT_MAX / 2);
	const char *directory = check_directory(scan);

	for (uint32_t i = 0; i < scan->directory_count; i++)
		(void)buf_printf(&where, "%s'%s'", i ? " and " : "", scan->directories[i]);

	if (file_path(path, NULL, "%s/nvidia.json", directory) < 0)
		return;

	const struct check_about about = {
	    .path = directory, .key = "", .fix = check_fix_generate(checker, "", path, fix)};
	check_add(checker, CHECK_NOTHING, CHECK_STALE, &about,
		  "there is no CDI file in %s: no container can get a GPU by name; 'sluice agent' "
		  "keeps one there as long as it runs",
		  buf_text(&where));
}

static void check_file_version(struct checker *checker, const struct scan_file *file)
{
	const char *most = checker->options->runtime_version;
	char fix[CHECK_TEXT_MAX];
	struct check_about about = {.file = file, .path = file->path, .key = "", .fix = fix};

	if (document_version_rank(file->document.version) <=
	    document_version_rank(most ? most : CHECK_VERSION_OLDEST))
		return;

	check_fix_file(checker, file, fix);
	if (most)
		check_add(checker, CHECK_VERSION_TOO_NEW, CHECK_STALE, &about,
			  "cdiVersion is %s, and %s reads up to %s: it would say 'unresolvable CDI "
			  "devices'",
			  file->document.version, checker->options->runtime, most);
	else
		check_add(checker, CHECK_VERSION_TOO_NEW, CHECK_NOTE, &about,
			  "cdiVersion is %s: a runtime that reads less, such as podman 4 (%s), "
			  "would say 'unresolvable CDI devices'",
			  file->document.version, CHECK_VERSION_OLDEST);
}

static bool check_has_gpus(const struct scan_file *file)
{
	const struct yaml_node *devices = file->document.devices;

	for (size_t i = 0; i < devices->entry_count; i++) {
		const struct yaml_node *nodes =
		    yaml_get(yaml_get(devices->entries[i].value, "containerEdits"), "deviceNodes");
		uint32_t minor;
		for (size_t j = 0; nodes && j < nodes->entry_count; j++)
			if (check_gpu_minor(check_node_path(nodes->entries[j].value), &minor))
				return true;
	}

	return false;
}

/* What holds for the whole file. */
static void check_file(struct checker *checker, const struct scan_file *file)
{
	checker->file = file;
	checker->is_gpu_file = check_has_gpus(file);
	checker->check->file_count++;
	checker->check->gpu_file_count += checker->is_gpu_file;
	check_file_version(checker, file);

	if (checker->is_gpu_file && !checker->options->module_version[0]) {
		const struct check_about about = {
		    .file = file, .key = "", .fix = "modprobe nvidia"};
		check_add(checker, CHECK_MODULE_MISSING, CHECK_STALE, &about,
			  "the kernel module of the NVIDIA driver is not loaded: its nodes lead "
			  "nowhere");
	}

	check_edits(checker, file->document.edits, NULL);
}

static void check_device(struct checker *checker, const struct yaml_node *device)
{
	checker->check->device_count++;
	check_edits(checker, yaml_get(device, "containerEdits"), yaml_get(device, "name")->text);
}

/* Said once for a file in which something is to be mended. */
static void check_read_only(struct checker *checker, const struct scan_file *file)
{
	bool is_stale = false;
	for (uint32_t i = checker->first; i < checker->check->count; i++)
		is_stale |= checker->check->findings[i].file == file &&
			    checker->check->findings[i].severity != CHECK_NOTE;

	char directory[FILE_PATH_MAX], fix[CHECK_TEXT_MAX], quoted[CHECK_TEXT_MAX];
	if (!is_stale || file_path(directory, NULL, "%s", file->path) < 0)
		return;

	*strrchr(directory, '/') = '\0';
	if (!check_is_read_only(directory))
		return;

	(void)snprintf(fix, sizeof(fix), "mount -o remount,rw %.*s", CHECK_TEXT_MAX / 2,
		       check_quote(directory, quoted));
	const struct check_about about = {.file = file, .path = directory, .key = "", .fix = fix};
	check_add(checker, CHECK_READ_ONLY, CHECK_NOTE, &about,
		  "'%s' is read-only: nobody can mend the file there", directory);
}

/* --- all that lies there --------------------------------------------------------------------- */

static int check_place_compare(const void *left, const void *right)
{
	const struct scan_device *a = left, *b = right;
	if (a->file != b->file)
		return a->file < b->file ? -1 : 1;
	if (a->device->line != b->device->line)
		return a->device->line < b->device->line ? -1 : 1;
	return (a->device->column > b->device->column) - (a->device->column < b->device->column);
}

static void check_conflict(struct checker *checker, const struct scan_file *file,
			   const struct scan_file *other, const char *device)
{
	char fix[CHECK_TEXT_MAX], quoted[CHECK_TEXT_MAX];
	const char *name = strrchr(file->path, '/') + 1;
	/* Ours goes: another's may be what somebody relies on. */
	bool is_own = text_starts_with(name, "sluice");

	(void)snprintf(fix, sizeof(fix), "rm %.*s", CHECK_TEXT_MAX / 2,
		       check_quote(is_own ? file->path : other->path, quoted));
	const struct check_about about = {
	    .file = file, .device = device, .path = other->path, .key = other->path, .fix = fix};
	check_add(checker, CHECK_DEVICE_CONFLICT, CHECK_STALE, &about,
		  "'%s' and '%s' claim the same device: no runtime takes either", file->path,
		  other->path);
}

/* Whoever can write there says what the containers of everybody get. */
static void check_writers(struct checker *checker, const char *path)
{
	char fix[CHECK_TEXT_MAX], quoted[CHECK_TEXT_MAX];
	struct stat status;

	if (stat(path, &status) < 0)
		return;

	bool is_theirs = status.st_uid != 0 && status.st_uid != geteuid();
	if (!is_theirs && !(status.st_mode & (S_IWGRP | S_IWOTH)))
		return;

	(void)snprintf(fix, sizeof(fix), "%s %.*s", is_theirs ? "chown root:root" : "chmod go-w",
		       CHECK_TEXT_MAX / 2, check_quote(path, quoted));
	const struct check_about about = {.path = path, .key = path, .fix = fix};
	check_add(checker, CHECK_OTHERS_WRITE, CHECK_NOTE, &about,
		  "'%s' can be changed by others than root: they say what containers get", path);
}

static void check_everything(struct checker *checker, struct scan_device *devices, size_t count)
{
	const struct scan *scan = checker->scan;
	if (scan->count == 0)
		check_nothing(checker);

	for (uint32_t i = 0; i < scan->directory_count; i++)
		check_writers(checker, scan->directories[i]);

	for (uint32_t i = 0; i < scan->count; i++) {
		if (scan->files[i].code < 0)
			check_bad_file(checker, &scan->files[i]);
		if (!scan->files[i].is_directory)
			check_writers(checker, scan->files[i].path);
	}

	for (size_t i = 0; i < count; i++)
		if (scan_is_second(&devices[i]))
			check_conflict(checker, devices[i].file, devices[i].other, devices[i].name);

	if (count)
		qsort(devices, count, sizeof(*devices), check_place_compare);

	for (size_t i = 0; i < count && checker->rc == 0;) {
		const struct scan_file *file = devices[i].file;
		bool has_begun = false;

		checker->first = checker->check->count;
		for (; i < count && devices[i].file == file; i++) {
			if (devices[i].state == SCAN_HIDDEN)
				continue;
			if (!has_begun)
				check_file(checker, file);
			has_begun = true;
			check_device(checker, devices[i].device);
		}

		if (has_begun)
			check_gpus(checker, NULL);
		check_read_only(checker, file);
	}
}

/* --- by name --------------------------------------------------------------------------------- */

/* "a, b, c and 5 more", of the devices or kinds that there are. */
struct check_list {
	struct buf text;
	size_t count;
};

static void check_list_add(struct check_list *list, const char *name)
{
	if (list->count++ < CHECK_LISTED_MAX)
		(void)buf_printf(&list->text, "%s%s", list->count > 1 ? ", " : "", name);
}

static const char *check_list_text(struct check_list *list)
{
	if (list->count > CHECK_LISTED_MAX)
		(void)buf_printf(&list->text, " and %zu more", list->count - CHECK_LISTED_MAX);
	return buf_text(&list->text);
}

/* Files of no use that may have had the device. */
static void check_suspects(struct checker *checker, const char *kind)
{
	for (uint32_t i = 0; i < checker->scan->count; i++) {
		const struct scan_file *file = &checker->scan->files[i];
		if (file->code < 0 && (!file->kind[0] || strcmp(file->kind, kind) == 0))
			check_bad_file(checker, file);
	}
}

static void check_no_kind(struct checker *checker, const char *name, const char *kind)
{
	const struct scan *scan = checker->scan;
	struct check_list kinds = {.count = 0};
	struct suggest suggest;

	buf_init(&kinds.text, CHECK_TEXT_MAX / 2);
	suggest_init(&suggest, kind);

	for (uint32_t i = 0; i < scan->count; i++) {
		bool is_new = scan->files[i].document.yaml;
		for (uint32_t j = 0; is_new && j < i; j++)
			is_new = !scan->files[j].document.yaml ||
				 strcmp(scan->files[j].kind, scan->files[i].kind) != 0;

		if (!is_new)
			continue;

		suggest_offer(&suggest, scan->files[i].kind);
		check_list_add(&kinds, scan->files[i].kind);
	}

	const char *best = suggest_best(&suggest);
	struct check_about about = {.device = name, .key = name};
	char fix[CHECK_TEXT_MAX], path[FILE_PATH_MAX];

	/* One that we could write; but not of the real machine for a simulated one. */
	if (!best && strcmp(kind, "nvidia.com/gpu") == 0 && !checker->options->root[0] &&
	    file_path(path, NULL, "%s/nvidia.json", check_directory(scan)) == 0)
		about.fix = check_fix_generate(checker, kind, path, fix);

	check_add(checker, CHECK_KIND_UNKNOWN, CHECK_STALE, &about,
		  "no CDI file provides the kind '%s'%s%s%s; there %s%s", kind,
		  best ? " (did you mean '" : "", best ? best : "", best ? "'?)" : "",
		  kinds.count == 0   ? "is none at all"
		  : kinds.count == 1 ? "is "
				     : "are ",
		  check_list_text(&kinds));
	buf_done(&kinds.text);
	check_suspects(checker, kind);

	if (scan->count == 0)
		check_nothing(checker);
}

static void check_no_device(struct checker *checker, const char *name, const char *kind)
{
	const char *device = strchr(name, '=') + 1;
	const struct scan_file *provider = NULL;
	struct check_list names = {.count = 0};
	struct suggest suggest;

	buf_init(&names.text, CHECK_TEXT_MAX / 2);
	suggest_init(&suggest, device);

	for (uint32_t i = 0; i < checker->scan->count; i++) {
		const struct scan_file *file = &checker->scan->files[i];
		if (!file->document.yaml || strcmp(file->kind, kind) != 0)
			continue;

		provider = file;

		for (size_t j = 0; j < file->document.devices->entry_count; j++) {
			const char *other =
			    yaml_get(file->document.devices->entries[j].value, "name")->text;
			suggest_offer(&suggest, other);
			check_list_add(&names, other);
		}
	}

	const char *best = suggest_best(&suggest);
	char fix[CHECK_TEXT_MAX];
	const struct check_about about = {
	    .device = name,
	    .path = provider->path,
	    .key = name,
	    .fix = check_fix_file(checker, provider, fix),
	};

	check_add(checker, CHECK_DEVICE_UNKNOWN, CHECK_STALE, &about,
		  "'%s' provides the kind '%s' without a device '%s'%s%s%s; it has %s",
		  provider->path, kind, device, best ? " (did you mean '" : "", best ? best : "",
		  best ? "'?)" : "", check_list_text(&names));
	buf_done(&names.text);
	check_suspects(checker, kind);
}

static void check_name(struct checker *checker, const char *name, bool *seen)
{
	const struct scan_file *file, *other;
	enum scan_state state = scan_find(checker->scan, name, &file, &other);
	char kind[SCAN_KIND_MAX];

	(void)snprintf(kind, sizeof(kind), "%.*s", (int)strcspn(name, "="), name);
	const struct check_about about = {.device = name, .key = name};

	switch (state) {
	case SCAN_NO_NAME:
		check_add(checker, CHECK_NAME_INVALID, CHECK_STALE, &about,
			  name[0] == '/'
			      ? "'%s' is the path of a device, which runtimes pass on as it is; a "
				"CDI device is called VENDOR/CLASS=NAME, such as nvidia.com/gpu=0"
			      : "'%s' is no name of a CDI device: VENDOR/CLASS=NAME, such as "
				"nvidia.com/gpu=0",
			  name);
		return;
	case SCAN_NO_KIND:
		check_no_kind(checker, name, kind);
		return;
	case SCAN_NO_DEVICE:
		check_no_device(checker, name, kind);
		return;
	case SCAN_CONFLICT:
		check_conflict(checker, file, other, strchr(name, '=') + 1);
		return;
	default:
		break;
	}

	const struct yaml_node *device = document_find(&file->document, strchr(name, '=') + 1);

	checker->file = file;
	checker->is_gpu_file = check_has_gpus(file);
	if (!seen[file - checker->scan->files])
		check_file(checker, file);
	seen[file - checker->scan->files] = true;
	check_device(checker, device);
	check_gpus(checker, device);
	check_read_only(checker, file);
}

/* --- all of it ------------------------------------------------------------------------------- */

const struct check_machine *check_ask(struct checker *checker)
{
	if (!checker->was_asked && checker->options->ask && checker->options->module_version[0]) {
		struct err why = {0};
		int rc = checker->options->ask(checker->options->context, &checker->machine, &why);
		if (rc < 0) {
			checker->machine = (struct check_machine){.inventory = NULL};
			const struct check_about about = {.key = "", .fix = "sluice devices"};

			/* Of two versions or half installed: then it fails in containers, too. */
			if (rc == -ELIBBAD)
				check_add(checker, CHECK_DRIVER_UNFIT, CHECK_STALE, &about, "%s",
					  why.text);
			else
				check_add(checker, CHECK_DRIVER_SILENT, CHECK_NOTE, &about,
					  "the GPUs were not compared with the driver's: %s",
					  why.text);
		}
	}

	checker->was_asked = true;
	return checker->machine.inventory ? &checker->machine : NULL;
}

void check_look(struct checker *checker)
{
	struct err why = {0};

	if (checker->was_looked_at || !checker->options->look)
		return;

	checker->was_looked_at = true;
	if (checker->options->look(checker->options->context, &why) == 0)
		return;

	const struct check_about about = {
	    .key = "",
	    .fix = "reboot, or: modprobe -r nvidia-uvm nvidia-drm nvidia-modeset nvidia && "
		   "modprobe nvidia",
	};
	check_add(checker, CHECK_DRIVER_UNFIT, CHECK_STALE, &about,
		  "%s; a CDI file can only be mended after that", why.text);
}

int check_scan(const struct scan *scan, const struct cdi_check_options *options,
	       struct cdi_check *out, struct err *err)
{
	_cleanup_check_ struct cdi_check check = {.count = 0};
	struct checker checker = {.scan = scan, .options = options, .check = &check};
	_cleanup_free_ struct scan_device *devices = NULL;
	size_t count;

	if (options->name_count == 0) {
		int rc = scan_devices(scan, &devices, &count, err);
		if (rc < 0)
			return rc;

		check_everything(&checker, devices, count);
	} else {
		_cleanup_free_ bool *seen = calloc(scan->count + 1, sizeof(*seen));
		checker.rc = seen ? 0 : -ENOMEM;
		for (size_t i = 0; i < options->name_count && checker.rc == 0; i++)
			check_name(&checker, options->names[i], seen);
	}

	if (checker.rc < 0)
		return err_set(err, checker.rc, "checking the CDI files: %s",
			       err_describe(checker.rc));

	*out = check;
	check = (struct cdi_check){.count = 0};
	return 0;
}

const char *check_id_to_string(enum check_id id)
{
	static const char *const names[] = {
	    [CHECK_NOTHING] = "nothing-there",
	    [CHECK_DIRECTORY_UNREADABLE] = "directory-unreadable",
	    [CHECK_FILE_UNREADABLE] = "file-unreadable",
	    [CHECK_FILE_REJECTED] = "file-rejected",
	    [CHECK_NAME_INVALID] = "name-invalid",
	    [CHECK_KIND_UNKNOWN] = "kind-unknown",
	    [CHECK_DEVICE_UNKNOWN] = "device-unknown",
	    [CHECK_DEVICE_CONFLICT] = "device-conflict",
	    [CHECK_VERSION_TOO_NEW] = "version-too-new",
	    [CHECK_NODE_MISSING] = "node-missing",
	    [CHECK_NODE_TYPE] = "node-type",
	    [CHECK_NODE_NUMBER] = "node-number",
	    [CHECK_MOUNT_MISSING] = "mount-missing",
	    [CHECK_HOOK_MISSING] = "hook-missing",
	    [CHECK_PATH_UNREADABLE] = "path-unreadable",
	    [CHECK_LIBRARY_REPLACED] = "library-replaced",
	    [CHECK_MODULE_MISSING] = "module-missing",
	    [CHECK_MODULE_VERSION] = "module-version",
	    [CHECK_DRIVER_UNFIT] = "driver-unfit",
	    [CHECK_GPU_GONE] = "gpu-gone",
	    [CHECK_GPU_MOVED] = "gpu-moved",
	    [CHECK_GPU_MIG] = "gpu-mig",
	    [CHECK_GPU_NEW] = "gpu-new",
	    [CHECK_MIG_GONE] = "mig-gone",
	    [CHECK_MIG_MOVED] = "mig-moved",
	    [CHECK_MIG_NEW] = "mig-new",
	    [CHECK_DRIVER_SILENT] = "driver-silent",
	    [CHECK_READ_ONLY] = "read-only",
	    [CHECK_OTHERS_WRITE] = "others-write",
	    [CHECK_IMAGE_MUSL] = "image-musl",
	    [CHECK_IMAGE_LOADER] = "image-loader",
	    [CHECK_IMAGE_ARCH] = "image-machine",
	    [CHECK_IMAGE_LAYOUT] = "image-layout",
	    [CHECK_IMAGE_LIBRARY] = "image-library",
	    [CHECK_IMAGE_BLOCKED] = "image-blocked",
	    [CHECK_IMAGE_CACHE] = "image-cache",
	};
	return names_at(names, id, "unknown");
}

const char *check_severity_to_string(enum check_severity severity)
{
	static const char *const names[] = {"note", "stale", "unreadable"};
	return names_at(names, severity, "unknown");
}
