/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/gather.h"

#include <errno.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "hardware/minors.h"
#include "hardware/pci.h"

enum { GATHER_LINE_MAX = 4096, GATHER_MINORS_USUAL = 128 << 10 };

/* A small file without its end of line; "" where it cannot be read. */
static void gather_line(const char *root, const char *file, struct buf *out)
{
	char path[FILE_PATH_MAX];
	buf_init(out, GATHER_LINE_MAX);
	if (file_path(path, NULL, "%s%s", root, file) < 0 || file_read(path, out, NULL) < 0)
		buf_clear(out);
	if (out->length > 0)
		out->data[strcspn(out->data, "\n")] = '\0';
}

/* A kernel that was updated under a loaded module says it in one of the two files first. */
static void gather_versions(const char *root, struct gather *out)
{
	char path[FILE_PATH_MAX];
	_cleanup_buf_ struct buf text;
	buf_init(&text, PCI_FILE_MAX);
	(void)pci_read_nvidia_version(root, out->kernel_version); /* "": not loaded */
	if (file_path(path, NULL, "%s/proc/driver/nvidia/version", root) == 0 &&
	    file_read(path, &text, NULL) == 0)
		(void)pci_parse_nvidia_version(buf_text(&text), text.length, out->proc_version);
}

int gather_minors(const char *root, struct minors **out, struct err *err)
{
	char path[FILE_PATH_MAX];
	_cleanup_buf_ struct buf text;

	buf_init(&text, MINORS_SIZE_MAX);
	if (buf_reserve(&text, GATHER_MINORS_USUAL) < 0) /* not in eight reads */
		return err_set(err, -ENOMEM, "out of memory for '" MINORS_PATH "'");

	int rc = file_path(path, err, "%s" MINORS_PATH, root);
	if (rc == 0)
		rc = file_read(path, &text, err);

	/* Drivers without MIG have no such file, and machines without GPUs none above it. */
	if (rc == -ENOENT || rc == -ENOTDIR || rc == -EACCES)
		return 0;

	return rc < 0 ? rc : minors_parse(buf_text(&text), text.length, out, err);
}

static int gather_driver(const struct gather_options *options, struct gather *out, struct err *err)
{
	_cleanup_buf_ struct buf firmware;
	struct utsname kernel = {0};
	const char *root = options->driver_root;

	gather_line(options->root, "/sys/module/firmware_class/parameters/path", &firmware);
	(void)uname(&kernel); /* "": its firmware is not looked for */
	if (!root || !root[0])
		root = options->root[0] ? options->root : "/";

	const struct driver_options how = {.root = root,
					   .version = out->kernel_version,
					   .release = kernel.release,
					   .firmware = buf_text(&firmware),
					   .mps = options->mps,
					   .directories = options->directories,
					   .directory_count = options->directory_count};
	int rc = driver_find(&how, &out->driver, err);

	out->has_driver = rc == 0;
	return rc;
}

int gather_read(const struct gather_options *options, struct gather *out, struct err *err)
{
	_cleanup_gather_ struct gather gather = {.has_driver = false};
	gather_versions(options->root, &gather);

	int rc = gather_minors(options->root, &gather.minors, err);
	if (rc == 0)
		rc = gather_driver(options, &gather, err);
	if (rc < 0)
		return rc;

	*out = gather;
	gather = (struct gather){.has_driver = false};
	return 0;
}

void gather_done(struct gather *gather)
{
	gather->minors = minors_free(gather->minors);
	if (gather->has_driver)
		driver_done(&gather->driver);
	*gather = (struct gather){.has_driver = false};
}

int gather_check(const struct gather *gather, const char *nvml_version, struct err *err)
{
	const char *kernel = gather->kernel_version;
	if (!kernel[0])
		return err_set(err, -ENXIO,
			       "no NVIDIA kernel module is loaded: modprobe nvidia, and see dmesg "
			       "if that fails");

	if (gather->proc_version[0] && strcmp(kernel, gather->proc_version) != 0)
		return err_set(err, -ESTALE,
			       "/sys/module/nvidia/version says that the kernel module is %s and "
			       "/proc/driver/nvidia/version that it is %s: reboot",
			       kernel, gather->proc_version);

	int rc = gather->has_driver ? driver_check(&gather->driver, err) : 0;
	if (rc < 0)
		return rc;

	if (nvml_version[0] && strcmp(nvml_version, kernel) != 0)
		return err_set(err, -ESTALE,
			       "the loaded kernel module is %s, and the driver that NVML speaks to "
			       "calls itself %s: reboot, or reinstall the driver",
			       kernel, nvml_version);

	return 0;
}
