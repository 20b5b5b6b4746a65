/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/generate.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "cdi/document.h"
#include "cdi/driver.h"
#include "hardware/gpu.h"
#include "hardware/minors.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

/* A machine: GPU 0 is whole (minor 3), GPU 1 has one MIG device; nodes are in a list. */
struct rig {
	struct inventory inventory;
	struct gpu gpus[2];
	struct mig_device migs[1];
	struct minors *minors;
	struct cdi_driver driver;
	struct driver_file files[4];
	struct driver_problem problem;
	const char *missing; /* the node that is not there */
	struct generate_options options;
};

static int look(void *context, const char *path, struct stat *out)
{
	const struct rig *rig = context;
	memset(out, 0, sizeof(*out));
	const char *at = strstr(path, "/dev/");
	if (!at || (rig->missing && strcmp(at, rig->missing) == 0) ||
	    strcmp(at, "/dev/dri/controlD64") == 0)
		return -ENOENT;
	out->st_mode = S_IFCHR | 0666;
	if (strstr(path, "/dri/")) {
		out->st_mode = S_IFCHR | 0660;
		out->st_gid = 44;
	}
	return 0;
}

static void rig_init(struct rig *rig)
{
	static const char minors[] = "gpu7/gi2/access 20\ngpu7/gi2/ci0/access 21\n";
	*rig = (struct rig){0};
	rig->inventory = (struct inventory){
	    .gpu_count = 2, .gpus = rig->gpus, .mig_count = 1, .migs = rig->migs};
	rig->gpus[0] = (struct gpu){.index = 0, .minor = 3, .uuid = "GPU-a"};
	rig->gpus[1] =
	    (struct gpu){.index = 1, .minor = 7, .uuid = "GPU-b", .mig_current = GPU_MIG_ENABLED};
	rig->migs[0] = (struct mig_device){
	    .parent = 1, .index = 0, .gi = 2, .ci = 0, .uuid = "MIG-c", .profile = "1g.5gb"};
	assert_int_equal(minors_parse(minors, strlen(minors), &rig->minors, NULL), 0);
	static char cuda[] = "/usr/lib64/libcuda.so.580.82", cuda_name[] = "libcuda.so.1";
	static char core[] = "/opt/libnvidia-glcore.so.580.82",
		    core_name[] = "libnvidia-glcore.so.580.82";
	static char smi[] = "/usr/bin/nvidia-smi", sock[] = "/run/nvidia-persistenced/socket";
	rig->files[0] = (struct driver_file){DRIVER_LIBRARY, DRIVER_COMPUTE, cuda, cuda_name};
	rig->files[1] = (struct driver_file){DRIVER_LIBRARY, DRIVER_GRAPHICS, core, core_name};
	rig->files[2] = (struct driver_file){DRIVER_BINARY, DRIVER_UTILITY, smi, smi};
	rig->files[3] = (struct driver_file){DRIVER_SOCKET, 0, sock, sock};
	rig->driver =
	    (struct cdi_driver){.version = "580.82", .file_count = 4, .files = rig->files};
	rig->options = (struct generate_options){.kind = "nvidia.com/gpu",
						 .root = "",
						 .triplet = "x86_64-linux-gnu",
						 .capabilities = DRIVER_ALL,
						 .names = GENERATE_INDEX | GENERATE_UUID,
						 .layout = GENERATE_AUTO,
						 .look = look,
						 .context = rig};
}

static void rig_done(struct rig *rig)
{
	(void)minors_free(rig->minors);
}

static int rig_text(struct rig *rig, struct buf *out, struct buf *notes, struct err *err)
{
	buf_init(out, GENERATE_TEXT_MAX);
	return generate_text(&rig->inventory, rig->minors, &rig->driver, &rig->options, out, notes,
			     err);
}

/* Writes, and reads it back strictly: owned, as a document. */
static struct document rig_document(struct rig *rig)
{
	_cleanup_buf_ struct buf text;
	struct err err = {0};
	struct document document = {0};
	if (rig_text(rig, &text, NULL, &err) < 0 ||
	    document_parse(buf_text(&text), text.length, "ours", &document, &err) < 0)
		fail_msg("%s\n%s", err.text, buf_text(&text));
	return document;
}

#define RO    "\"options\": [\"ro\", \"nosuid\", \"nodev\", \"rbind\", \"rprivate\"]}"
#define WHOLE "        {\"path\": \"/dev/nvidia3\", \"permissions\": \"rw\"}]}}"
#define PART                                                                                       \
	"        {\"path\": \"/dev/nvidia7\", \"permissions\": \"rw\"},\n"                         \
	"        {\"path\": \"/dev/nvidia-caps/nvidia-cap20\", \"permissions\": \"rw\"},\n"        \
	"        {\"path\": \"/dev/nvidia-caps/nvidia-cap21\", \"permissions\": \"rw\"}]}}"

static const char golden[] =
    "{\n"
    "  \"cdiVersion\": \"0.5.0\",\n"
    "  \"kind\": \"nvidia.com/gpu\",\n"
    "  \"devices\": [\n"
    "    {\"name\": \"0\", \"containerEdits\": {\"deviceNodes\": [\n" WHOLE ",\n"
    "    {\"name\": \"GPU-a\", \"containerEdits\": {\"deviceNodes\": [\n" WHOLE ",\n"
    "    {\"name\": \"1:0\", \"containerEdits\": {\"deviceNodes\": [\n" PART ",\n"
    "    {\"name\": \"MIG-c\", \"containerEdits\": {\"deviceNodes\": [\n" PART ",\n"
    "    {\"name\": \"all\", \"containerEdits\": {\"deviceNodes\": [\n"
    "        {\"path\": \"/dev/nvidia-caps/nvidia-cap20\", \"permissions\": \"rw\"},\n"
    "        {\"path\": \"/dev/nvidia-caps/nvidia-cap21\", \"permissions\": \"rw\"},\n"
    "        {\"path\": \"/dev/nvidia3\", \"permissions\": \"rw\"},\n"
    "        {\"path\": \"/dev/nvidia7\", \"permissions\": \"rw\"}]}}\n"
    "  ],\n"
    "  \"containerEdits\": {\n"
    "    \"env\": [\"NVIDIA_VISIBLE_DEVICES=void\"],\n"
    "    \"deviceNodes\": [\n"
    "        {\"path\": \"/dev/nvidia-modeset\", \"permissions\": \"rw\"},\n"
    "        {\"path\": \"/dev/nvidia-uvm\", \"permissions\": \"rw\"},\n"
    "        {\"path\": \"/dev/nvidia-uvm-tools\", \"permissions\": \"rw\"},\n"
    "        {\"path\": \"/dev/nvidiactl\", \"permissions\": \"rw\"}],\n"
    "    \"mounts\": [\n"
    "      {\"hostPath\": \"/usr/lib64/libcuda.so.580.82\", \"containerPath\": "
    "\"/usr/lib/x86_64-linux-gnu/libcuda.so.1\", " RO ",\n"
    "      {\"hostPath\": \"/usr/lib64/libcuda.so.580.82\", \"containerPath\": "
    "\"/usr/lib/x86_64-linux-gnu/libcuda.so\", " RO ",\n"
    "      {\"hostPath\": \"/usr/lib64/libcuda.so.580.82\", \"containerPath\": "
    "\"/usr/lib64/libcuda.so.1\", " RO ",\n"
    "      {\"hostPath\": \"/usr/lib64/libcuda.so.580.82\", \"containerPath\": "
    "\"/usr/lib64/libcuda.so\", " RO ",\n"
    "      {\"hostPath\": \"/opt/libnvidia-glcore.so.580.82\", \"containerPath\": "
    "\"/usr/lib/x86_64-linux-gnu/libnvidia-glcore.so.580.82\", " RO ",\n"
    "      {\"hostPath\": \"/opt/libnvidia-glcore.so.580.82\", \"containerPath\": "
    "\"/usr/lib64/libnvidia-glcore.so.580.82\", " RO ",\n"
    "      {\"hostPath\": \"/usr/bin/nvidia-smi\", \"containerPath\": "
    "\"/usr/bin/nvidia-smi\", " RO ",\n"
    "      {\"hostPath\": \"/run/nvidia-persistenced\", \"containerPath\": "
    "\"/run/nvidia-persistenced\", "
    "\"options\": [\"ro\", \"nosuid\", \"nodev\", \"noexec\", \"rbind\", \"rprivate\"]}]\n"
    "  }\n"
    "}\n";

static void test_golden(void **state)
{
	(void)state;
	struct rig rig;
	rig_init(&rig);
	_cleanup_buf_ struct buf text;
	assert_int_equal(rig_text(&rig, &text, NULL, NULL), 0);
	assert_string_equal(buf_text(&text), golden);
	_cleanup_document_ struct document document = rig_document(&rig);
	assert_string_equal(document.version, "0.5.0");
	rig_done(&rig);
}

static void test_lowest_version(void **state)
{
	(void)state;
	struct rig rig;
	rig_init(&rig);
	rig.options.names = GENERATE_UUID;
	rig.options.without_all = true;
	_cleanup_document_ struct document letters = rig_document(&rig);
	assert_string_equal(letters.version, "0.3.0");
	assert_null(document_find(&letters, "0"));
	assert_null(document_find(&letters, "all"));
	rig.options.root = "/run/\"driver\"";
	_cleanup_document_ struct document elsewhere = rig_document(&rig);
	assert_string_equal(elsewhere.version, "0.5.0");
	const struct yaml_node *node =
	    yaml_get(yaml_get(document_find(&elsewhere, "GPU-a"), "containerEdits"), "deviceNodes")
		->entries[0]
		.value;
	assert_string_equal(yaml_get(node, "path")->text, "/dev/nvidia3");
	assert_string_equal(yaml_get(node, "hostPath")->text, "/run/\"driver\"/dev/nvidia3");
	rig_done(&rig);
}

static void test_only_what_is_there(void **state)
{
	(void)state;
	struct rig rig;
	rig_init(&rig);
	_cleanup_buf_ struct buf text, notes, more;
	buf_init(&notes, 4096);
	rig.missing = "/dev/nvidia-caps/nvidia-cap21";
	assert_int_equal(rig_text(&rig, &text, &notes, NULL), 0);
	assert_null(strstr(buf_text(&text), "MIG-c"));
	assert_null(strstr(buf_text(&text), "nvidia-cap20"));
	assert_non_null(strstr(buf_text(&notes), "MIG device 1:0 (MIG-c) is left out"));
	buf_clear(&notes);
	rig.missing = "/dev/nvidia-uvm";
	assert_int_equal(rig_text(&rig, &more, &notes, NULL), 0);
	assert_null(strstr(buf_text(&more), "/dev/nvidia-uvm\""));
	assert_non_null(strstr(buf_text(&notes), "there is no /dev/nvidia-uvm"));
	rig_done(&rig);
}

static void test_capabilities(void **state)
{
	(void)state;
	struct rig rig;
	rig_init(&rig);
	rig.options.capabilities = DRIVER_UTILITY;
	rig.options.layout = GENERATE_RHEL;
	_cleanup_buf_ struct buf text, compute;
	assert_int_equal(rig_text(&rig, &text, NULL, NULL), 0);
	assert_null(strstr(buf_text(&text), "libcuda"));
	assert_null(strstr(buf_text(&text), "uvm"));
	assert_null(strstr(buf_text(&text), "modeset"));
	assert_non_null(strstr(buf_text(&text), "nvidiactl"));
	assert_non_null(strstr(buf_text(&text), "nvidia-smi"));
	rig.options.capabilities = DRIVER_COMPUTE;
	rig.options.versioned = true;
	assert_int_equal(rig_text(&rig, &compute, NULL, NULL), 0);
	assert_non_null(strstr(buf_text(&compute), "\"/usr/lib64/libcuda.so.1\""));
	assert_non_null(
	    strstr(buf_text(&compute), "\"containerPath\": \"/usr/lib64/libcuda.so.580.82\""));
	assert_null(strstr(buf_text(&compute), "x86_64-linux-gnu"));
	assert_null(strstr(buf_text(&compute), "glcore"));
	rig_done(&rig);
}

static void test_where_files_go(void **state)
{
	(void)state;
	struct rig rig;
	rig_init(&rig);
	static char producer[] = "/l/libnvidia-vulkan-producer.so.580.82",
		    producer_name[] = "libnvidia-vulkan-producer.so.580.82";
	static char allocator[] = "/l/libnvidia-allocator.so.580.82",
		    allocator_name[] = "libnvidia-allocator.so.1";
	static char flow[] = "/l/libnvidia-opticalflow.so.580.82",
		    flow_name[] = "libnvidia-opticalflow.so.10"; /* not that of the alias */
	static char mps[] = "/run/mps", mps_name[] = "/tmp/nvidia-mps";
	static char drv[] = "/x/nvidia_drv.so", drv_name[] = "drivers/nvidia_drv.so";
	struct driver_file files[] = {
	    {DRIVER_LIBRARY, DRIVER_COMPUTE, allocator, allocator_name},
	    {DRIVER_LIBRARY, DRIVER_GRAPHICS, producer, producer_name},
	    {DRIVER_DIRECTORY, DRIVER_COMPUTE, mps, mps_name},
	    {DRIVER_MODULE, DRIVER_DISPLAY, drv, drv_name},
	    {DRIVER_LIBRARY, DRIVER_VIDEO, flow, flow_name},
	};
	rig.driver.files = files;
	rig.driver.file_count = 5;
	rig.options.host_driver_root = "/host";
	rig.options.host_dev_root = "/hostdev";
	_cleanup_buf_ struct buf all, compute;
	assert_int_equal(rig_text(&rig, &all, NULL, NULL), 0);
	static const char *const expected[] = {
	    ("{\"hostPath\": \"/host/l/libnvidia-allocator.so.580.82\", \"containerPath\": "
	     "\"/usr/lib64/gbm/nvidia-drm_gbm.so\", " RO),
	    "\"/usr/lib/x86_64-linux-gnu/libnvidia-vulkan-producer.so\"",
	    ("{\"hostPath\": \"/host/run/mps\", \"containerPath\": \"/tmp/nvidia-mps\", "
	     "\"options\": [\"nosuid\""),
	    "\"/usr/lib/xorg/modules/drivers/nvidia_drv.so\"",
	    "\"/usr/lib64/xorg/modules/drivers/nvidia_drv.so\"",
	    "{\"path\": \"/dev/nvidia3\", \"hostPath\": \"/hostdev/dev/nvidia3\"",
	};
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		if (!strstr(buf_text(&all), expected[i]))
			fail_msg("%s is not in\n%s", expected[i], buf_text(&all));
	assert_non_null(strstr(buf_text(&all), "/libnvidia-opticalflow.so.10\""));
	assert_null(strstr(buf_text(&all), "/libnvidia-opticalflow.so\""));
	rig.options.capabilities = DRIVER_COMPUTE;
	assert_int_equal(rig_text(&rig, &compute, NULL, NULL), 0);
	assert_non_null(strstr(buf_text(&compute), "libnvidia-allocator.so.1"));
	assert_null(strstr(buf_text(&compute), "gbm"));
	rig_done(&rig);
}

static void test_imex(void **state)
{
	(void)state;
	struct rig rig;
	rig_init(&rig);
	static const uint32_t channels[] = {0, 7};
	struct err err = {0};
	_cleanup_buf_ struct buf text, none;
	rig.options.imex = channels;
	rig.options.imex_count = 2;
	assert_int_equal(rig_text(&rig, &text, NULL, &err), 0);
	assert_non_null(strstr(buf_text(&text), "/dev/nvidia-caps-imex-channels/channel7\""));
	rig.missing = "/dev/nvidia-caps-imex-channels/channel7";
	assert_int_equal(rig_text(&rig, &none, NULL, &err), -ENODEV);
	assert_non_null(strstr(err.text, "channel7"));
	rig_done(&rig);
}

static void test_names_and_choice(void **state)
{
	(void)state;
	struct rig rig;
	rig_init(&rig);
	static const char *const one[] = {"1:0"}, *const two[] = {"GPU-a", "7"};
	struct err err = {0};
	rig.options.names = GENERATE_TYPE_INDEX;
	_cleanup_document_ struct document typed = rig_document(&rig);
	assert_string_equal(typed.version, "0.3.0");
	assert_non_null(document_find(&typed, "gpu0"));
	assert_non_null(document_find(&typed, "mig1:0"));
	assert_int_equal(typed.devices->entry_count, 3);
	rig.options.devices = one;
	rig.options.devices_count = 1;
	_cleanup_document_ struct document chosen = rig_document(&rig);
	assert_int_equal(chosen.devices->entry_count, 2); /* and "all", which is no more */
	rig.options.devices = two;
	rig.options.devices_count = 2;
	_cleanup_buf_ struct buf text;
	assert_int_equal(rig_text(&rig, &text, NULL, &err), -ENODEV);
	assert_non_null(strstr(err.text, "'7'"));
	/* A GPU in MIG mode is there, but no device. */
	static const char *const whole[] = {"GPU-b"};
	rig.options.devices = whole;
	rig.options.devices_count = 1;
	_cleanup_buf_ struct buf none;
	assert_int_equal(rig_text(&rig, &none, NULL, &err), -ENODEV);
	assert_string_equal(err.text, "GPU GPU-b is in MIG mode: name its MIG devices, as 1:0");
	/* Unless it is handed out whole: then with its instances. */
	rig.options.mig_whole = true;
	rig.options.names = GENERATE_UUID;
	_cleanup_document_ struct document given = rig_document(&rig);
	_cleanup_buf_ struct buf whole_text;
	assert_non_null(document_find(&given, "GPU-b"));
	assert_int_equal(rig_text(&rig, &whole_text, NULL, &err), 0);
	assert_non_null(strstr(buf_text(&whole_text), "/dev/nvidia-caps/nvidia-cap"));
	rig.options.mig_whole = false;
	/* One that is lost has its index only. */
	rig.options.devices = NULL;
	rig.options.devices_count = 0;
	rig.options.names = GENERATE_INDEX | GENERATE_UUID;
	rig.gpus[0].uuid[0] = '\0';
	_cleanup_document_ struct document lost = rig_document(&rig);
	assert_non_null(document_find(&lost, "0"));
	assert_int_equal(lost.devices->entry_count, 4);
	rig_done(&rig);
}

/* sysfs may name DRM nodes that are not there. */
static void test_drm(void **state)
{
	(void)state;
	struct rig rig;
	rig_init(&rig);
	char *top = unit_tmp_new(), path[FILE_PATH_MAX];
	static const char *const names[] = {"renderD128", "card1", "controlD64"};
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(file_path(path, NULL, "%s/sys/bus/pci/devices/0000:07:00.0/drm/%s",
					   top, names[i]),
				 0);
		assert_int_equal(file_mkdirs(path, 0755, NULL), 0);
	}
	rig.gpus[0].has_pci = true;
	rig.gpus[0].pci.bus = 7;
	rig.options.root = top;
	_cleanup_document_ struct document document = rig_document(&rig);
	const struct yaml_node *nodes =
	    yaml_get(yaml_get(document_find(&document, "0"), "containerEdits"), "deviceNodes");
	assert_int_equal(nodes->entry_count, 3);
	assert_string_equal(yaml_get(nodes->entries[1].value, "path")->text, "/dev/dri/card1");
	assert_string_equal(yaml_get(nodes->entries[1].value, "fileMode")->text, "432");
	assert_string_equal(yaml_get(nodes->entries[1].value, "gid")->text, "44");
	assert_string_equal(yaml_get(nodes->entries[2].value, "path")->text, "/dev/dri/renderD128");
	/* Only for what draws: neither for computing, nor for a MIG device that cannot. */
	_cleanup_buf_ struct buf compute, without, with;
	rig.options.capabilities = DRIVER_COMPUTE;
	assert_int_equal(rig_text(&rig, &compute, NULL, NULL), 0);
	assert_null(strstr(buf_text(&compute), "/dev/dri"));
	rig.options.capabilities = DRIVER_ALL;
	rig.gpus[0].has_pci = false;
	rig.gpus[1].has_pci = true;
	rig.gpus[1].pci.bus = 7;
	assert_int_equal(rig_text(&rig, &without, NULL, NULL), 0);
	assert_null(strstr(buf_text(&without), "/dev/dri"));
	memcpy(rig.migs[0].profile, "1g.5gb+gfx", sizeof("1g.5gb+gfx"));
	assert_int_equal(rig_text(&rig, &with, NULL, NULL), 0);
	assert_non_null(strstr(buf_text(&with), "/dev/dri/card1"));
	assert_null(unit_tmp_free(top));
	rig_done(&rig);
}

static void test_never_without_gpus_or_with_half_a_driver(void **state)
{
	(void)state;
	struct rig rig;
	rig_init(&rig);
	struct err err = {0};
	_cleanup_buf_ struct buf text;
	rig.problem = (struct driver_problem){.is_severe = true, .text = "half"};
	rig.driver.problems = &rig.problem;
	rig.driver.problem_count = 1;
	assert_int_equal(rig_text(&rig, &text, NULL, &err), -ENOPKG);
	assert_string_equal(err.text, "half");
	rig.problem.is_mismatch = true;
	assert_int_equal(rig_text(&rig, &text, NULL, &err), -ESTALE);
	rig.driver.problem_count = 0;
	rig.inventory.gpu_count = 0;
	rig.inventory.mig_count = 0;
	assert_int_equal(rig_text(&rig, &text, NULL, &err), -ENODEV);
	rig.inventory.gpu_count = 1;
	rig.options.names = GENERATE_UUID;
	rig.gpus[0].uuid[0] = '\0'; /* lost, and nothing else to call it by */
	assert_int_equal(rig_text(&rig, &text, NULL, &err), -ENODEV);
	rig.options.names = GENERATE_INDEX;
	rig.options.root = "/a\xff";
	assert_int_equal(rig_text(&rig, &text, NULL, &err), -EINVAL);
	assert_int_equal(text.length, 0);
	rig_done(&rig);
}

static int generate_again(void *context)
{
	struct rig *rig = context;
	_cleanup_buf_ struct buf text;
	return rig_text(rig, &text, NULL, NULL);
}

static void test_without_memory(void **state)
{
	(void)state;
	struct rig rig;
	rig_init(&rig);
	assert_true(failmalloc_each(generate_again, &rig) > 2);
	rig_done(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_golden),
	    cmocka_unit_test(test_lowest_version),
	    cmocka_unit_test(test_only_what_is_there),
	    cmocka_unit_test(test_capabilities),
	    cmocka_unit_test(test_where_files_go),
	    cmocka_unit_test(test_imex),
	    cmocka_unit_test(test_names_and_choice),
	    cmocka_unit_test(test_drm),
	    cmocka_unit_test(test_never_without_gpus_or_with_half_a_driver),
	    cmocka_unit_test(test_without_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
