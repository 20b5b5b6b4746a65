/* SPDX-License-Identifier: Apache-2.0 */
/* driver.nouveau: the kernel's own driver for NVIDIA's GPUs, which must stay away from them. */
#include "doctor/checks.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "doctor/doctor.h"
#include "doctor/lines.h"

enum nouveau_limits {
	NOUVEAU_LINE_MAX = 1024, /* of a line with its continuations: more of one is not needed */
	NOUVEAU_FILES_MAX = 1024,
};

/* In the order in which they win over one another: modprobe.d(5). */
static const char *const directories[] = {
    "/etc/modprobe.d",	   "/run/modprobe.d", "/usr/local/lib/modprobe.d",
    "/usr/lib/modprobe.d", "/lib/modprobe.d",
};

/* The search through files, and what it has found. */
struct nouveau {
	enum lines_block block;
	char where[DOCTOR_TEXT_MAX]; /* a file, or a word of the command line; "": nowhere */
	char line[NOUVEAU_LINE_MAX]; /* so far, continuations joined */
	size_t length;
	bool continues;
	int unreadable; /* -errno of a file that could not be read; 0 */
	char unread[FILE_PATH_MAX];
};

static int modprobe_line(const char *text, size_t length, void *context)
{
	struct nouveau *nouveau = context;
	if (!nouveau->continues)
		nouveau->length = 0;
	nouveau->continues = length > 0 && text[length - 1] == '\\';

	size_t taken = length - nouveau->continues;
	if (taken > sizeof(nouveau->line) - nouveau->length)
		taken = sizeof(nouveau->line) - nouveau->length;
	memcpy(nouveau->line + nouveau->length, text, taken);
	nouveau->length += taken;
	if (nouveau->continues)
		return 0;

	nouveau->block = lines_modprobe(nouveau->line, nouveau->length, "nouveau");
	return nouveau->block == LINES_BLACKLIST || nouveau->block == LINES_INSTALL;
}

/* A file of the same name in a directory before hides one: also a link to /dev/null. */
static bool is_hidden(const struct doctor *doctor, size_t directory, const char *name)
{
	char path[FILE_PATH_MAX], target[FILE_PATH_MAX];
	for (size_t i = 0; i < directory; i++)
		if (file_path(path, NULL, "%s/%s", directories[i], name) == 0 &&
		    (rootfs_exists(&doctor->rootfs, path) ||
		     rootfs_link(&doctor->rootfs, path, target) == 0))
			return true;
	return false;
}

/* Whether a file of one directory blocks it. */
static bool search_directory(struct doctor *doctor, size_t directory, struct nouveau *nouveau)
{
	_cleanup_rootfs_names_ struct rootfs_names names;
	int rc = rootfs_list(&doctor->rootfs, directories[directory], ".conf", &names);
	if (rc == -EACCES || rc == -E2BIG) {
		nouveau->unreadable = rc;
		(void)file_path(nouveau->unread, NULL, "%s", directories[directory]);
	}

	for (size_t i = 0; i < names.count && i < NOUVEAU_FILES_MAX; i++) {
		char path[FILE_PATH_MAX];
		if (is_hidden(doctor, directory, names.name[i]) ||
		    file_path(path, NULL, "%s/%s", directories[directory], names.name[i]) < 0)
			continue;

		nouveau->block = LINES_NOTHING;
		nouveau->continues = false;

		rc = rootfs_lines(&doctor->rootfs, path, modprobe_line, nouveau);
		if (rc > 0) {
			(void)snprintf(nouveau->where, sizeof(nouveau->where), "%.512s", path);
			return true;
		}

		if (rc < 0 && rc != -ENOENT) {
			nouveau->unreadable = rc;
			(void)file_path(nouveau->unread, NULL, "%s", path);
		}
	}

	nouveau->block = LINES_NOTHING;
	return false;
}

static void search(struct doctor *doctor, struct nouveau *nouveau)
{
	char word[DOCTOR_WORD_MAX];
	_cleanup_buf_ struct buf text;

	buf_init(&text, ROOTFS_FILE_MAX);

	for (size_t i = 0; i < array_length(directories); i++)
		if (search_directory(doctor, i, nouveau))
			return;

	if (rootfs_read(&doctor->rootfs, "/proc/cmdline", &text) < 0)
		return;

	nouveau->block = lines_cmdline(buf_text(&text), text.length, "nouveau", word, sizeof(word));
	if (nouveau->block != LINES_NOTHING)
		(void)snprintf(nouveau->where, sizeof(nouveau->where),
			       "the kernel's command line (%s)", word);
}

/* Whether this kernel has no such module: LINES of /lib/modules say so only where they are there.
 */
static bool kernel_has_none(const struct doctor *doctor)
{
	static const char *const suffixes[] = {"", ".xz", ".zst", ".gz"};
	char path[FILE_PATH_MAX];
	const char *kernel = doctor->facts.kernel;

	if (kernel[0] == '\0' || file_path(path, NULL, "/lib/modules/%s/modules.dep", kernel) < 0 ||
	    !rootfs_exists(&doctor->rootfs, path))
		return false;

	for (size_t i = 0; i < array_length(suffixes); i++)
		if (file_path(path, NULL,
			      "/lib/modules/%s/kernel/drivers/gpu/drm/nouveau/nouveau.ko%s", kernel,
			      suffixes[i]) < 0 ||
		    rootfs_exists(&doctor->rootfs, path))
			return false;

	return true;
}

/* What keeps it away from the next start of the machine on. */
static void advise(const struct doctor *doctor, struct doctor_finding *finding)
{
	if (doctor_os_is_coreos(doctor)) {
		doctor_do(finding, "MachineConfig: spec.kernelArguments: "
				   "[modprobe.blacklist=nouveau]\n"
				   "rpm-ostree kargs --append=modprobe.blacklist=nouveau\n"
				   "systemctl reboot");
		return;
	}

	bool has_dracut = doctor_os_is(doctor, "fedora") || doctor_os_is(doctor, "rhel") ||
			  doctor_os_is(doctor, "suse");
	doctor_do(finding,
		  "printf 'blacklist nouveau\\noptions nouveau modeset=0\\n' > "
		  "/etc/modprobe.d/no-nouveau.conf\n%s\nreboot",
		  has_dracut ? "dracut -f" : "update-initramfs -u");
}

static void report_loaded(struct doctor *doctor)
{
	int64_t users = 0;
	struct doctor_finding *finding = doctor_add(doctor, DOCTOR_FAIL, "kernel module nouveau");

	if (rootfs_number(&doctor->rootfs, "/sys/module/nouveau/refcnt", &users) == 0 && users > 0)
		doctor_found(finding, "it loaded and in use (%lld users)", (long long)users);
	else
		doctor_found(finding, "it loaded, though nothing uses it");

	doctor_need(finding, "it unloaded and blocked");
	advise(doctor, finding);
}

void check_driver_nouveau(struct doctor *doctor)
{
	static const char object[] = "kernel module nouveau";
	struct nouveau nouveau = {.block = LINES_NOTHING};

	if (rootfs_exists(&doctor->rootfs, "/sys/module/nouveau")) {
		report_loaded(doctor);
		return;
	}

	search(doctor, &nouveau);
	if (nouveau.block != LINES_NOTHING)
		doctor_found(doctor_add(doctor, DOCTOR_OK, object), "it blocked by %s",
			     nouveau.where);
	else if (doctor_os_is_coreos(doctor))
		doctor_found(doctor_add(doctor, DOCTOR_OK, object), "it blocked by CoreOS");
	else if (kernel_has_none(doctor))
		doctor_found(doctor_add(doctor, DOCTOR_OK, object), "none for this kernel");
	else if (nouveau.unreadable < 0)
		doctor_unreadable(doctor, nouveau.unread, nouveau.unreadable);
	else {
		struct doctor_finding *finding = doctor_add(doctor, DOCTOR_WARN, object);
		doctor_need(doctor_found(finding, "it not loaded, and not blocked either"),
			    "it blocked");
		advise(doctor, finding);
	}
}
