/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/parse.h"
#include "cdi/check_internal.h"
#include "cdi/soname.h"
#include "hardware/gpu.h"

/* --- paths ----------------------------------------------------------------------------------- */

bool check_path(const struct checker *checker, const char *path, char out[FILE_PATH_MAX])
{
	const char *root = checker->options->root;
	size_t length = strlen(root);
	bool is_below =
	    strncmp(path, root, length) == 0 && (path[length] == '/' || path[length] == '\0');
	return file_path(out, NULL, "%s%s", is_below ? "" : root, path) == 0;
}

const char *check_node_path(const struct yaml_node *node)
{
	const struct yaml_node *host = yaml_get(node, "hostPath");
	return host && host->length ? host->text : yaml_get(node, "path")->text;
}

/* The number behind the last `prefix` in `path`. */
static bool check_number_behind(const char *path, const char *prefix, uint32_t *out)
{
	const char *at = NULL;
	for (const char *next = path; (next = strstr(next, prefix)); next++)
		at = next;

	uint64_t number;
	if (!at || parse_u64(at + strlen(prefix), 0, UINT32_MAX - 1, &number) < 0)
		return false;

	*out = (uint32_t)number;
	return true;
}

bool check_gpu_minor(const char *path, uint32_t *out)
{
	return check_number_behind(path, "/dev/nvidia", out);
}

bool check_cap_minor(const char *path, uint32_t *out)
{
	return check_number_behind(path, "/dev/nvidia-caps/nvidia-cap", out);
}

/* "580.82.07", "580.82": of a driver. The first number of other libraries' versions is small. */
static bool check_is_version(const char *text, size_t length)
{
	size_t digits = 0, dots = 0;

	for (size_t i = 0; i < length; i++) {
		if (text[i] == '.' && digits > 0 && (dots > 0 || digits >= 3)) {
			dots++;
			digits = 0;
		} else if (text[i] >= '0' && text[i] <= '9') {
			digits++;
		} else {
			return false;
		}
	}

	return digits > 0 && dots > 0 && dots < 3 && length < GPU_VERSION_MAX;
}

/* The version in the name of a library or in the directory of firmware. */
static bool check_version_of(const char *path, char out[GPU_VERSION_MAX])
{
	static const char firmware[] = "/firmware/nvidia/";
	const char *slash = strrchr(path, '/'), *at = strstr(slash ? slash : path, ".so.");
	size_t length = 0;

	if (at) {
		at += strlen(".so.");
		length = strlen(at);
	} else if ((at = strstr(path, firmware))) {
		at += strlen(firmware);
		length = strcspn(at, "/");
	}

	if (!at || !check_is_version(at, length))
		return false;

	memcpy(out, at, length);
	out[length] = '\0';
	return true;
}

/* --- nodes ----------------------------------------------------------------------------------- */

static const char *check_type_name(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFCHR:
		return "a character device";
	case S_IFBLK:
		return "a block device";
	case S_IFIFO:
		return "a FIFO";
	case S_IFDIR:
		return "a directory";
	case S_IFLNK:
		return "a symbolic link, which runtimes do not follow here";
	default:
		return "no device";
	}
}

/* What makes the node; else the file is to be written again. */
static const char *check_node_fix(struct checker *checker, const char *path,
				  char out[CHECK_TEXT_MAX])
{
	static const struct {
		const char *name, *command;
	} makers[] = {
	    {"/dev/nvidiactl", "nvidia-modprobe"},
	    {"/dev/nvidia-uvm", "nvidia-modprobe -u"},
	    {"/dev/nvidia-uvm-tools", "nvidia-modprobe -u"},
	    {"/dev/nvidia-modeset", "nvidia-modprobe -m"},
	};
	size_t length = strlen(path);
	for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]); i++) {
		size_t size = strlen(makers[i].name);
		if (length >= size && strcmp(path + length - size, makers[i].name) == 0)
			return makers[i].command;
	}

	uint32_t minor;
	const struct check_machine *machine =
	    check_gpu_minor(path, &minor) ? check_ask(checker) : NULL;
	for (uint32_t i = 0; machine && i < machine->inventory->gpu_count; i++)
		if (machine->inventory->gpus[i].minor == minor) {
			(void)snprintf(out, CHECK_TEXT_MAX, "nvidia-modprobe -c %u", minor);
			return out;
		}

	return check_fix_file(checker, checker->file, out);
}

static bool check_type_fits(const char *type, mode_t mode)
{
	switch (type[0]) {
	case '\0':
		return S_ISCHR(mode) || S_ISBLK(mode) || S_ISFIFO(mode);
	case 'b':
		return S_ISBLK(mode);
	case 'p':
		return S_ISFIFO(mode);
	default: /* "c", and "u", which is the same without buffers */
		return S_ISCHR(mode);
	}
}

static void check_node_number(struct checker *checker, const struct yaml_node *node,
			      struct check_about *about, const struct stat *status)
{
	char fix[CHECK_TEXT_MAX];
	const struct yaml_node *major = yaml_get(node, "major"), *minor = yaml_get(node, "minor");
	uint64_t stated_major = 0, stated_minor = 0;

	/* 0 stands for "as the node has it", in all runtimes. */
	if (S_ISFIFO(status->st_mode) || !major ||
	    parse_u64(major->text, 1, UINT32_MAX, &stated_major) < 0)
		return;
	if (minor)
		(void)parse_u64(minor->text, 0, UINT32_MAX, &stated_minor); /* else: as none */

	unsigned is_major = major(status->st_rdev), is_minor = minor(status->st_rdev);
	if (stated_major == is_major && stated_minor == is_minor)
		return;

	about->fix = check_fix_file(checker, checker->file, fix);
	check_add(checker, CHECK_NODE_NUMBER, CHECK_STALE, about,
		  "'%s' is device %u:%u now, and the file states %u:%u: containers would get "
		  "another device, or none (the number of some drivers changes when they are "
		  "loaded again)",
		  about->path, is_major, is_minor, (unsigned)stated_major, (unsigned)stated_minor);
}

static void check_unreadable(struct checker *checker, const char *device, const char *path,
			     int code)
{
	const struct check_about about = {
	    .file = checker->file, .device = device, .path = path, .key = ""};
	check_add(checker, CHECK_PATH_UNREADABLE, CHECK_UNREADABLE, &about,
		  "'%s' cannot be looked at by this user: %s", path, err_describe(code));
}

static void check_node(struct checker *checker, const struct yaml_node *node, const char *device)
{
	char path[FILE_PATH_MAX], fix[CHECK_TEXT_MAX];
	struct stat status;

	if (!check_path(checker, check_node_path(node), path))
		return;

	struct check_about about = {
	    .file = checker->file, .device = device, .path = path, .key = path};
	int code = lstat(path, &status) == 0 ? 0 : errno;
	if (code == ENOENT || code == ENOTDIR) {
		about.fix = check_node_fix(checker, path, fix);
		check_add(checker, CHECK_NODE_MISSING, CHECK_STALE, &about,
			  "there is no device node '%s'", path);
		return;
	}

	if (code != 0) {
		check_unreadable(checker, device, path, code);
		return;
	}

	const struct yaml_node *type = yaml_get(node, "type");
	if (check_type_fits(type ? type->text : "", status.st_mode)) {
		check_node_number(checker, node, &about, &status);
		return;
	}

	about.fix = check_fix_file(checker, checker->file, fix);
	if (type && type->length)
		check_add(checker, CHECK_NODE_TYPE, CHECK_STALE, &about,
			  "'%s' is %s, and the file states type '%s'", path,
			  check_type_name(status.st_mode), type->text);
	else
		check_add(checker, CHECK_NODE_TYPE, CHECK_STALE, &about,
			  "'%s' is %s, and not a device node", path,
			  check_type_name(status.st_mode));
}

/* --- mounts and hooks ------------------------------------------------------------------------ */

/* Whether the loader of this machine takes another file by the name that containers see. */
static void check_library(struct checker *checker, const char *path, const char *container,
			  const char *device, const struct stat *status)
{
	const char *name = strrchr(container, '/') + 1, *own = strrchr(path, '/') + 1;
	char beside[FILE_PATH_MAX], fix[CHECK_TEXT_MAX];
	struct stat other;

	/* That one belongs to whichever OpenGL is the machine's; containers get NVIDIA's. */
	if (strcmp(name, own) == 0 || !strstr(name, ".so") ||
	    strcmp(name, "libGLX_indirect.so.0") == 0 ||
	    file_path(beside, NULL, "%.*s%s", (int)(own - path), path, name) < 0 ||
	    stat(beside, &other) != 0 ||
	    (other.st_dev == status->st_dev && other.st_ino == status->st_ino))
		return;

	const struct check_about about = {.file = checker->file,
					  .device = device,
					  .path = beside,
					  .key = "",
					  .fix = check_fix_file(checker, checker->file, fix)};
	check_add(checker, CHECK_LIBRARY_REPLACED, CHECK_STALE, &about,
		  "'%s' is another file now than '%s', which containers get by this name", beside,
		  own);
}

/* A library of the driver that was cut short, or replaced by something else. */
static void check_content(struct checker *checker, const char *host, const char *path,
			  const char *device, const struct stat *status)
{
	struct soname library;
	struct err why = {0};
	char fix[CHECK_TEXT_MAX];

	if (!strstr(path, ".so.") || !S_ISREG(status->st_mode) ||
	    (checker->library && strcmp(checker->library, host) == 0))
		return;

	checker->library = host;
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || soname_read(fd, path, &library, &why) != -EINVAL)
		return;

	const struct check_about about = {.file = checker->file,
					  .device = device,
					  .path = path,
					  .key = path,
					  .fix = check_fix_file(checker, checker->file, fix)};
	check_add(
	    checker, CHECK_LIBRARY_REPLACED, CHECK_STALE, &about,
	    "%s: it is named as a library of the driver; was the driver installed to its end?",
	    why.text);
	check_look(checker);
}

static void check_version(struct checker *checker, const char *path, const char *version,
			  const char *device)
{
	char fix[CHECK_TEXT_MAX];
	const char *module = checker->options->module_version;

	if (!module[0] || strcmp(module, version) == 0)
		return;

	const struct check_about about = {.file = checker->file,
					  .device = device,
					  .path = path,
					  .key = version,
					  .fix = check_fix_file(checker, checker->file, fix)};
	check_add(checker, CHECK_MODULE_VERSION, CHECK_STALE, &about,
		  "'%s' is of driver %s, and the loaded kernel module is %s: CUDA would fail with "
		  "'driver/library version mismatch'",
		  path, version, module);
	check_look(checker);
}

static void check_mount_missing(struct checker *checker, const char *path, const char *version,
				const char *device)
{
	char fix[CHECK_TEXT_MAX];
	const struct check_about about = {.file = checker->file,
					  .device = device,
					  .path = path,
					  .key = version ? version : path,
					  .fix = check_fix_file(checker, checker->file, fix)};

	check_add(checker, CHECK_MOUNT_MISSING, CHECK_STALE, &about,
		  "there is no '%s' to mount%s%s: the container would not start", path,
		  version ? ", a file of driver " : "", version ? version : "");
	if (version)
		check_look(checker);
}

/* "bind" is the only type whose source is a path for sure; it may be left out. */
static bool check_is_bind(const struct yaml_node *mount)
{
	const struct yaml_node *type = yaml_get(mount, "type");
	return !type || type->length == 0 || strcmp(type->text, "bind") == 0 ||
	       strcmp(type->text, "none") == 0;
}

static void check_mount(struct checker *checker, const struct yaml_node *mount, const char *device)
{
	char path[FILE_PATH_MAX], version[GPU_VERSION_MAX];
	struct stat status;

	if (!check_is_bind(mount) || !check_path(checker, yaml_get(mount, "hostPath")->text, path))
		return;

	bool has_version = check_version_of(path, version);
	int code = stat(path, &status) == 0 ? 0 : errno;
	if (code == 0)
		check_library(checker, path, yaml_get(mount, "containerPath")->text, device,
			      &status);
	else if (code == ENOENT || code == ENOTDIR)
		check_mount_missing(checker, path, has_version ? version : NULL, device);
	else
		check_unreadable(checker, device, path, code);

	if (has_version)
		check_version(checker, path, version, device);
	if (has_version && code == 0)
		check_content(checker, yaml_get(mount, "hostPath")->text, path, device, &status);
}

static void check_hook(struct checker *checker, const struct yaml_node *hook, const char *device)
{
	char path[FILE_PATH_MAX], fix[CHECK_TEXT_MAX];
	struct stat status;

	if (!check_path(checker, yaml_get(hook, "path")->text, path))
		return;

	int code = stat(path, &status) == 0 ? 0 : errno;
	if (code != 0 && code != ENOENT && code != ENOTDIR)
		check_unreadable(checker, device, path, code);
	if (code != ENOENT && code != ENOTDIR)
		return;

	const struct check_about about = {.file = checker->file,
					  .device = device,
					  .path = path,
					  .key = path,
					  .fix = check_fix_file(checker, checker->file, fix)};
	check_add(checker, CHECK_HOOK_MISSING, CHECK_STALE, &about,
		  "there is no program '%s', which is a hook: the container would not start", path);
}

static void check_each(struct checker *checker, const struct yaml_node *edits, const char *key,
		       const char *device,
		       void (*look)(struct checker *checker, const struct yaml_node *node,
				    const char *device))
{
	const struct yaml_node *list = yaml_get(edits, key);
	for (size_t i = 0; list && checker->rc == 0 && i < list->entry_count; i++)
		look(checker, list->entries[i].value, device);
}

void check_edits(struct checker *checker, const struct yaml_node *edits, const char *device)
{
	if (!edits)
		return;
	check_each(checker, edits, "deviceNodes", device, check_node);
	check_each(checker, edits, "mounts", device, check_mount);
	check_each(checker, edits, "hooks", device, check_hook);
}
