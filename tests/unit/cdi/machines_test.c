/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole specifications of made-up machines, compared with tests/documents/cdi (written anew with
 * SLUICE_WRITE_GOLDEN=1), and what holds for every machine.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "cdi/document.h"
#include "cdi/gather.h"
#include "cdi/generate.h"
#include "hardware/gpu.h"
#include "tests/unit/cdi/tree.h"
#include "tests/unit/unit.h"

#define V      "580.105.08"
#define DEBIAN "/usr/lib/x86_64-linux-gnu"

/* ---- readdir(3), whose symbol is readdir64, has no order: here it has another one each time ----
 */

enum { SHUFFLE_MAX = 256, SHUFFLE_OPEN_MAX = 64 };

struct shuffled {
	DIR *stream;
	size_t count, at;
	struct dirent entries[SHUFFLE_MAX];
};

static struct shuffled *shuffled[SHUFFLE_OPEN_MAX];
static unsigned shuffle_seed;

struct dirent *__real_readdir64(DIR *stream);
struct dirent *__wrap_readdir64(DIR *stream);
void __real_rewinddir(DIR *stream);
void __wrap_rewinddir(DIR *stream);
int __real_closedir(DIR *stream);
int __wrap_closedir(DIR *stream);

static struct shuffled **shuffle_find(const DIR *stream)
{
	size_t i = 0;
	while (i < SHUFFLE_OPEN_MAX && (!shuffled[i] || shuffled[i]->stream != stream))
		i++;
	return i < SHUFFLE_OPEN_MAX ? &shuffled[i] : NULL;
}

static unsigned shuffle_next(void)
{
	shuffle_seed = shuffle_seed * 1103515245 + 12345;
	return shuffle_seed >> 16;
}

struct dirent *__wrap_readdir64(DIR *stream)
{
	struct shuffled **slot = shuffle_find(stream);
	if (!slot) {
		size_t i = 0;
		while (i < SHUFFLE_OPEN_MAX && shuffled[i])
			i++;
		assert_true(i < SHUFFLE_OPEN_MAX);
		slot = &shuffled[i];
		*slot = calloc(1, sizeof(**slot));
		assert_non_null(*slot);
		(*slot)->stream = stream;
		const struct dirent *entry;
		while ((entry = __real_readdir64(stream))) {
			assert_true((*slot)->count < SHUFFLE_MAX);
			size_t place = shuffle_next() % ((*slot)->count + 1);
			(*slot)->entries[(*slot)->count] = (*slot)->entries[place];
			(*slot)->entries[place] = *entry;
			(*slot)->count++;
		}
	}
	return (*slot)->at < (*slot)->count ? &(*slot)->entries[(*slot)->at++] : NULL;
}

static void shuffle_forget(const DIR *stream)
{
	struct shuffled **slot = shuffle_find(stream);
	if (slot) {
		free(*slot);
		*slot = NULL;
	}
}

void __wrap_rewinddir(DIR *stream)
{
	shuffle_forget(stream);
	__real_rewinddir(stream);
}

int __wrap_closedir(DIR *stream)
{
	shuffle_forget(stream);
	return __real_closedir(stream);
}

/* ---- machines ---- */

struct box {
	struct inventory inventory;
	struct gpu gpus[GPU_MAX];
	struct mig_device migs[GPU_MAX];
	struct gather_options gather;
	struct generate_options options;
};

/* The tree's nodes are plain files: as devices, those of DRM cards for the group "video". */
static int look(void *context, const char *path, struct stat *out)
{
	(void)context;
	if (lstat(path, out) != 0)
		return -errno;
	if (!S_ISREG(out->st_mode))
		return 0;
	out->st_mode = S_IFCHR | (strstr(path, "/dri/card") ? 0660 : 0666);
	out->st_uid = 0;
	out->st_gid = strstr(path, "/dri/card") ? 44 : 0;
	return 0;
}

static void box_init(struct box *box)
{
	memset(box, 0, sizeof(*box));
	box->inventory.gpus = box->gpus;
	box->inventory.migs = box->migs;
	box->gather.root = unit_top;
	box->options = (struct generate_options){.kind = "nvidia.com/gpu",
						 .root = unit_top,
						 .host_dev_root = "",
						 .host_driver_root = "",
						 .triplet = "x86_64-linux-gnu",
						 .capabilities = DRIVER_ALL,
						 .names = GENERATE_INDEX | GENERATE_UUID,
						 .layout = GENERATE_AUTO,
						 .look = look};
}

static struct gpu *box_gpu(struct box *box, uint32_t minor)
{
	uint32_t index = box->inventory.gpu_count++;
	struct gpu *gpu = &box->gpus[index];
	char address[PCI_TEXT_MAX];
	*gpu = (struct gpu){.index = index,
			    .minor = minor,
			    .has_pci = true,
			    .pci = {.bus = (uint8_t)(0x07 + index)}};
	(void)snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%08x-0000-0000-0000-000000000000",
		       index + 1);
	tree_gpu(unit_top, minor, pci_address_to_string(&gpu->pci, address), index);
	return gpu;
}

static void box_mig(struct box *box, uint32_t parent, uint32_t gi, uint32_t ci, const char *profile)
{
	uint32_t count = box->inventory.mig_count++, index = 0;
	for (uint32_t i = 0; i < count; i++)
		index += box->migs[i].parent == parent;
	struct mig_device *mig = &box->migs[count];
	*mig = (struct mig_device){.parent = parent, .index = index, .gi = gi, .ci = ci};
	(void)snprintf(mig->uuid, sizeof(mig->uuid), "MIG-%08x-0000-0000-0000-000000000000",
		       count + 1);
	(void)snprintf(mig->profile, sizeof(mig->profile), "%s", profile);
	box->gpus[parent].mig_current = GPU_MIG_ENABLED;
}

static int box_text(struct box *box, struct buf *out, struct buf *notes, struct err *err)
{
	_cleanup_gather_ struct gather gather = {.has_driver = false};
	int rc = gather_read(&box->gather, &gather, err);
	if (rc == 0)
		rc = gather_check(&gather, "", err);
	return rc < 0 ? rc
		      : generate_text(&box->inventory, gather.minors, &gather.driver, &box->options,
				      out, notes, err);
}

static void golden_path(const char *name, char out[FILE_PATH_MAX])
{
	const char *source = getenv("MESON_SOURCE_ROOT");
	assert_int_equal(
	    file_path(out, NULL, "%s/tests/documents/cdi/%s.json", source ? source : ".", name), 0);
}

/* The specification is that of the document; `notes` is what is said of what is missing. */
static void expect(struct box *box, const char *name, const char *notes_expected)
{
	struct err err = {0};
	_cleanup_buf_ struct buf text, golden, notes;
	char path[FILE_PATH_MAX];
	golden_path(name, path);
	buf_init(&text, GENERATE_TEXT_MAX);
	buf_init(&golden, GENERATE_TEXT_MAX);
	buf_init(&notes, 1 << 16);
	if (box_text(box, &text, &notes, &err) < 0)
		fail_msg("%s", err.text);
	if (getenv("SLUICE_WRITE_GOLDEN"))
		assert_int_equal(file_write_atomic(path, text.data, text.length, 0644, &err), 0);
	if (file_read(path, &golden, &err) < 0)
		fail_msg("%s", err.text);
	if (strcmp(buf_text(&text), buf_text(&golden)) != 0)
		fail_msg("%s differs (SLUICE_WRITE_GOLDEN=1 writes it):\n%s", path,
			 buf_text(&text));
	assert_string_equal(buf_text(&notes), notes_expected);
	_cleanup_document_ struct document document = {0};
	if (document_parse(buf_text(&text), text.length, name, &document, &err) < 0)
		fail_msg("%s", err.text);
}

static void expect_error(struct box *box, int code, const char *words)
{
	struct err err = {0};
	_cleanup_buf_ struct buf text;
	buf_init(&text, GENERATE_TEXT_MAX);
	assert_int_equal(box_text(box, &text, NULL, &err), code);
	if (!strstr(err.text, words))
		fail_msg("'%s' is not in: %s", words, err.text);
	assert_int_equal(text.length, 0);
}

/* Two whole GPUs whose minors are not their indices, everything that Debian's packages bring. */
static void make_debian(struct box *box)
{
	box_init(box);
	tree_module(unit_top, V);
	tree_libraries(unit_top, DEBIAN "/nvidia/current", V);
	tree_programs(unit_top, V);
	tree_control(unit_top);
	box_gpu(box, 1);
	box_gpu(box, 0);
}

static void test_debian(void **state)
{
	(void)state;
	struct box box;
	make_debian(&box);
	tree_text(unit_top, "/usr/lib/nvidia/current/nvidia_drv.so", "x");
	tree_link(unit_top, "/usr/lib/xorg/modules/drivers/nvidia_drv.so",
		  "/usr/lib/nvidia/current/nvidia_drv.so");
	tree_text(unit_top, "/usr/share/glvnd/egl_vendor.d/10_nvidia.json", "{}");
	tree_text(unit_top, "/usr/share/vulkan/icd.d/nvidia_icd.json", "{}");
	tree_text(unit_top, "/etc/OpenCL/vendors/nvidia.icd", "libnvidia-opencl.so.1");
	tree_link(unit_top, "/dev/dri/by-path/pci-0000:07:00.0-card", "../card0");
	expect(&box, "debian", "");
}

static void test_rhel(void **state)
{
	(void)state;
	struct box box;
	box_init(&box);
	tree_module(unit_top, V);
	tree_libraries(unit_top, "/usr/lib64", V);
	tree_library(unit_top, "/usr/lib64/libnvidia-egl-wayland.so.1.1.20",
		     "libnvidia-egl-wayland.so.1");
	tree_link(unit_top, "/usr/lib64/libnvidia-egl-wayland.so.1",
		  "libnvidia-egl-wayland.so.1.1.20");
	tree_library(unit_top, "/usr/lib64/libstdc++.so.6.0.30", "libstdc++.so.6");
	tree_link(unit_top, "/lib64", "usr/lib64");
	tree_programs(unit_top, V);
	tree_text(unit_top, "/usr/lib64/xorg/modules/extensions/libglxserver_nvidia.so." V, "x");
	tree_text(unit_top, "/usr/share/vulkan/icd.d/nvidia_icd.x86_64.json", "{}");
	tree_text(unit_top, "/usr/share/egl/egl_external_platform.d/10_nvidia_wayland.json", "{}");
	tree_control(unit_top);
	box_gpu(&box, 0);
	box.options.layout = GENERATE_RHEL;
	expect(&box, "rhel", "");
}

static void test_mig(void **state)
{
	(void)state;
	struct box box;
	make_debian(&box);
	tree_text(unit_top, "/proc/driver/nvidia-caps/mig-minors",
		  "config 1\nmonitor 2\n"
		  "gpu1/gi1/access 21\ngpu1/gi1/ci0/access 22\n"
		  "gpu1/gi2/access 30\ngpu1/gi2/ci0/access 31\ngpu1/gi2/ci1/access 32\n"
		  "gpu1/gi3/access 39\ngpu1/gi3/ci0/access 40\n");
	static const char *const caps[] = {"1", "2", "21", "22", "30", "31", "32", "39"};
	for (size_t i = 0; i < array_length(caps); i++) {
		char path[FILE_PATH_MAX];
		assert_int_equal(file_path(path, NULL, "/dev/nvidia-caps/nvidia-cap%s", caps[i]),
				 0);
		tree_text(unit_top, path, "");
	}
	box_mig(&box, 0, 1, 0, "3g.20gb+gfx");
	box_mig(&box, 0, 2, 0, "1c.2g.10gb");
	box_mig(&box, 0, 2, 1, "1c.2g.10gb");
	box_mig(&box, 0, 3, 0, "1g.5gb");
	box.options.capabilities = DRIVER_UTILITY | DRIVER_COMPUTE | DRIVER_GRAPHICS;
	expect(&box, "mig",
	       "MIG device 0:3 (MIG-00000004-0000-0000-0000-000000000000) is left out: there is no "
	       "/dev/nvidia-caps/nvidia-cap40 of it\n");
}

static void test_no_uvm(void **state)
{
	(void)state;
	struct box box;
	make_debian(&box);
	assert_int_equal(unlink(unit_path(unit_top, "dev/nvidia-uvm")), 0);
	assert_int_equal(unlink(unit_path(unit_top, "dev/nvidia-uvm-tools")), 0);
	char notes[2 * FILE_PATH_MAX];
	(void)snprintf(notes, sizeof(notes),
		       "there is no %s/dev/nvidia-uvm: nvidia-modprobe makes it\n"
		       "there is no %s/dev/nvidia-uvm-tools: nvidia-modprobe makes it\n",
		       unit_top, unit_top);
	box.options.capabilities = DRIVER_UTILITY | DRIVER_COMPUTE;
	box.options.layout = GENERATE_DEBIAN;
	expect(&box, "no-uvm", notes);
}

/* sysfs names a node that is not there, and one that is a link. */
static void test_stale_drm(void **state)
{
	(void)state;
	struct box box;
	make_debian(&box);
	tree_text(unit_top, "/sys/bus/pci/devices/0000:07:00.0/drm/controlD64/dev", "226:64\n");
	tree_text(unit_top, "/sys/bus/pci/devices/0000:08:00.0/drm/controlD65/dev", "226:65\n");
	tree_link(unit_top, "/dev/dri/controlD65", "../nvidia0");
	box.options.capabilities = DRIVER_DISPLAY;
	box.options.layout = GENERATE_DEBIAN;
	expect(&box, "stale-drm", "");
}

/* The loader's cache knows the second directory. */
static void test_two_directories(void **state)
{
	(void)state;
	struct box box;
	box_init(&box);
	tree_module(unit_top, V);
	tree_library(unit_top, "/usr/lib64/libcuda.so." V, "libcuda.so.1");
	tree_library(unit_top, "/opt/nvidia/lib/libnvidia-ml.so." V, "libnvidia-ml.so.1");
	tree_library(unit_top, "/opt/nvidia/lib/libcuda.so." V,
		     "libcuda.so.1"); /* once is enough */
	unsigned char cache[256] = "glibc-ld.so.cache1.1";
	const uint32_t entry[] = {0x0303, 72, 90, 0, 0, 0};
	cache[20] = 1;
	memcpy(cache + 48, entry, sizeof(entry));
	(void)snprintf((char *)cache + 72, 18, "libnvidia-ml.so.1");
	(void)snprintf((char *)cache + 90, 64, "/opt/nvidia/lib/libnvidia-ml.so.1");
	tree_put(unit_top, "/etc/ld.so.cache", cache, sizeof(cache));
	tree_control(unit_top);
	box_gpu(&box, 0);
	expect(&box, "two-directories", "");
}

static void test_refused(void **state)
{
	(void)state;
	struct box box;
	box_init(&box);
	box_gpu(&box, 0);
	expect_error(&box, -ENOENT, "is the NVIDIA driver installed?"); /* an empty root */
	tree_libraries(unit_top, "/usr/lib64", V);
	expect_error(&box, -ENXIO, "modprobe nvidia");
	tree_module(unit_top, "570.1");
	expect_error(&box, -ESTALE, "the loaded kernel module is 570.1");
	tree_module(unit_top, V);
	assert_int_equal(unlink(unit_path(unit_top, "usr/lib64/libcuda.so." V)), 0);
	expect_error(&box, -ENOPKG, "libcuda.so." V " is missing");
	tree_library(unit_top, "/usr/lib64/libcuda.so." V, "libcuda.so.1");
	assert_int_equal(unlink(unit_path(unit_top, "dev/nvidia0")), 0);
	expect_error(&box, -ENODEV, "nothing to write");
}

/* ---- what holds for every machine ---- */

static const struct yaml_node *nodes_of(const struct yaml_node *device)
{
	return yaml_get(yaml_get(device, "containerEdits"), "deviceNodes");
}

static bool has_node(const struct yaml_node *nodes, const char *path)
{
	for (size_t i = 0; i < nodes->entry_count; i++)
		if (strcmp(yaml_get(nodes->entries[i].value, "path")->text, path) == 0)
			return true;
	return false;
}

/* "all" is the union of the others: nothing less, nothing more, nothing twice, in order. */
static void check_all(const struct document *document)
{
	const struct yaml_node *devices = document->devices;
	const struct yaml_node *all = document_find(document, "all");
	assert_non_null(all);
	const struct yaml_node *nodes = nodes_of(all);
	for (size_t i = 0; i + 1 < devices->entry_count; i++) {
		const struct yaml_node *own = nodes_of(devices->entries[i].value);
		assert_true(own->entry_count > 0);
		for (size_t j = 0; j < own->entry_count; j++)
			assert_true(has_node(nodes, yaml_get(own->entries[j].value, "path")->text));
	}
	const char *last = "";
	for (size_t i = 0; i < nodes->entry_count; i++) {
		const char *path = yaml_get(nodes->entries[i].value, "path")->text;
		assert_true(strcmp(last, path) < 0);
		last = path;
		bool found = false;
		for (size_t j = 0; j + 1 < devices->entry_count; j++)
			found |= has_node(nodes_of(devices->entries[j].value), path);
		assert_true(found);
	}
}

static void random_machine(struct box *box, unsigned seed)
{
	static const char *const profiles[] = {"1g.5gb", "3g.20gb", "1g.10gb+gfx"};
	_cleanup_buf_ struct buf minors;
	buf_init(&minors, 1 << 16);
	shuffle_seed = seed;
	box_init(box);
	tree_module(unit_top, V);
	tree_libraries(unit_top, seed % 2 ? DEBIAN : "/usr/lib64", V);
	/* Of two with one SONAME it is always the same that is taken. */
	tree_library(unit_top, "/usr/lib64/libnvidia-nvvm70.so.4.1", "libnvidia-nvvm70.so.4");
	tree_library(unit_top, "/usr/lib64/libnvidia-nvvm70.so.4.2", "libnvidia-nvvm70.so.4");
	tree_programs(unit_top, V);
	tree_control(unit_top);
	uint32_t gpus = 1 + shuffle_next() % 16, first = shuffle_next() % 3;
	for (uint32_t i = 0; i < gpus; i++) {
		(void)box_gpu(box, (i * 5 + first) % 17);
		uint32_t migs = shuffle_next() % 2 ? shuffle_next() % 4 : 0;
		for (uint32_t j = 0; j < migs; j++) {
			uint32_t gi = j + 1, cap = i * 100 + j * 10;
			char path[FILE_PATH_MAX];
			box_mig(box, i, gi, 0, profiles[shuffle_next() % 3]);
			assert_int_equal(
			    buf_printf(&minors, "gpu%u/gi%u/access %u\ngpu%u/gi%u/ci0/access %u\n",
				       box->gpus[i].minor, gi, cap, box->gpus[i].minor, gi,
				       cap + 1),
			    0);
			for (uint32_t k = 0; k < 2; k++) {
				assert_int_equal(
				    file_path(path, NULL, "/dev/nvidia-caps/nvidia-cap%u", cap + k),
				    0);
				if (shuffle_next() % 8) /* now and then one is missing */
					tree_text(unit_top, path, "");
			}
		}
	}
	tree_text(unit_top, "/proc/driver/nvidia-caps/mig-minors", buf_text(&minors));
	box->options.capabilities = shuffle_next() % 2 ? DRIVER_ALL : DRIVER_COMPUTE;
}

static void test_every_machine(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 12; seed++) {
		struct box box;
		struct err err = {0};
		random_machine(&box, seed);
		_cleanup_buf_ struct buf first, again, notes;
		buf_init(&first, GENERATE_TEXT_MAX);
		buf_init(&again, GENERATE_TEXT_MAX);
		buf_init(&notes, 1 << 16);
		int rc = box_text(&box, &first, &notes, &err);
		if (rc == -ENODEV) { /* all are MIG, and all of their nodes missing */
			assert_int_equal(first.length, 0);
		} else if (rc < 0) {
			fail_msg("%u: %s", seed, err.text);
		} else {
			shuffle_seed = seed + 1000;
			assert_int_equal(box_text(&box, &again, NULL, &err), 0);
			assert_string_equal(buf_text(&first), buf_text(&again));
			_cleanup_document_ struct document document = {0};
			if (document_parse(buf_text(&first), first.length, "ours", &document,
					   &err) < 0)
				fail_msg("%u: %s", seed, err.text);
			check_all(&document);
			size_t left_out = 0, whole = 0;
			for (const char *at = buf_text(&notes); (at = strstr(at, "left out")); at++)
				left_out++;
			for (uint32_t i = 0; i < box.inventory.gpu_count; i++)
				whole += box.gpus[i].mig_current != GPU_MIG_ENABLED;
			assert_int_equal(document.devices->entry_count,
					 2 * (whole + box.inventory.mig_count - left_out) + 1);
		}
		unit_top = unit_tmp_free(unit_top);
		unit_top = unit_tmp_new();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_debian, unit_top_setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_rhel, unit_top_setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_mig, unit_top_setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_no_uvm, unit_top_setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_stale_drm, unit_top_setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_two_directories, unit_top_setup,
					    unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_refused, unit_top_setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_every_machine, unit_top_setup, unit_top_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
