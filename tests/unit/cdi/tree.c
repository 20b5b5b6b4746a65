/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/cdi/tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "base/file.h"
#include "tests/unit/cdi/made.h"

/* The SONAME's version; "": the driver's. */
static const char *const tree_names[TREE_LIBRARIES][2] = {
    {"libcuda", "1"},
    {"libcudadebugger", "1"},
    {"libnvidia-ml", "1"},
    {"libnvidia-cfg", "1"},
    {"libnvidia-opencl", "1"},
    {"libnvidia-gpucomp", ""},
    {"libnvidia-ptxjitcompiler", "1"},
    {"libnvidia-allocator", "1"},
    {"libnvidia-nvvm", "4"},
    {"libnvidia-pkcs11", ""},
    {"libnvidia-encode", "1"},
    {"libnvidia-opticalflow", "1"},
    {"libnvcuvid", "1"},
    {"libnvidia-eglcore", ""},
    {"libnvidia-glcore", ""},
    {"libnvidia-glsi", ""},
    {"libnvidia-tls", ""},
    {"libnvidia-fbc", "1"},
    {"libnvidia-rtcore", ""},
    {"libnvoptix", "1"},
    {"libGLX_nvidia", "0"},
    {"libEGL_nvidia", "0"},
    {"libGLESv2_nvidia", "2"},
    {"libnvidia-ngx", "1"},
    {"vdpau/libvdpau_nvidia", "1"},
};

static void tree_check(int rc, const char *path, const struct err *err)
{
	if (rc == 0)
		return;
	fprintf(stderr, "cannot make '%s': %s\n", path, err->text);
	abort();
}

static void tree_place(const char *top, const char *path, char out[FILE_PATH_MAX])
{
	struct err err = {0};
	char directory[FILE_PATH_MAX];
	tree_check(file_path(out, &err, "%s%s", top, path), path, &err);
	memcpy(directory, out, FILE_PATH_MAX);
	*strrchr(directory, '/') = '\0';
	tree_check(file_mkdirs(directory, 0755, &err), directory, &err);
}

void tree_put(const char *top, const char *path, const void *bytes, size_t length)
{
	struct err err = {0};
	char full[FILE_PATH_MAX];
	tree_place(top, path, full);
	tree_check(file_write_atomic(full, bytes, length, 0644, &err), full, &err);
}

void tree_text(const char *top, const char *path, const char *text)
{
	tree_put(top, path, text, strlen(text));
}

void tree_library(const char *top, const char *path, const char *soname)
{
	struct made_library made;
	made_library(&made, soname);
	tree_put(top, path, &made, sizeof(made));
}

void tree_link(const char *top, const char *path, const char *target)
{
	struct err err = {0};
	char full[FILE_PATH_MAX];
	tree_place(top, path, full);
	tree_check(symlink(target, full) == 0 ? 0 : err_set(&err, -errno, "symlink"), full, &err);
}

void tree_libraries(const char *top, const char *directory, const char *version)
{
	struct err err = {0};
	char path[FILE_PATH_MAX], soname[FILE_PATH_MAX];
	for (size_t i = 0; i < TREE_LIBRARIES; i++) {
		const char *name = tree_names[i][0], *major = tree_names[i][1];
		const char *slash = strchr(name, '/'), *base = slash ? slash + 1 : name;
		tree_check(file_path(path, &err, "%s/%s.so.%s", directory, name, version), name,
			   &err);
		tree_check(file_path(soname, &err, "%s.so.%s", base, *major ? major : version),
			   name, &err);
		tree_library(top, path, soname);
		char target[FILE_PATH_MAX];
		memcpy(target, strrchr(path, '/') + 1, strlen(strrchr(path, '/')));
		tree_check(file_path(path, &err, "%s/%s.so.%s", directory, name, major), name,
			   &err);
		if (*major)
			tree_link(top, path, target);
	}
}

void tree_programs(const char *top, const char *version)
{
	static const char *const programs[] = {
	    "/usr/bin/nvidia-smi",
	    "/usr/bin/nvidia-debugdump",
	    "/usr/bin/nvidia-persistenced",
	    "/usr/bin/nvidia-cuda-mps-control",
	    "/usr/bin/nvidia-cuda-mps-server",
	    "/usr/bin/nvidia-modprobe",
	};
	static const char *const firmware[] = {"gsp_ga10x.bin", "gsp_tu10x.bin"};
	struct err err = {0};
	char path[FILE_PATH_MAX];
	for (size_t i = 0; i < array_length(programs); i++)
		tree_text(top, programs[i], "#!/bin/sh\n");
	for (size_t i = 0; i < array_length(firmware); i++) {
		tree_check(
		    file_path(path, &err, "/lib/firmware/nvidia/%s/%s", version, firmware[i]),
		    firmware[i], &err);
		tree_text(top, path, "firmware");
	}
}

void tree_module(const char *top, const char *version)
{
	struct err err = {0};
	char text[FILE_PATH_MAX];
	tree_check(file_path(text, &err, "%s\n", version), version, &err);
	tree_text(top, "/sys/module/nvidia/version", text);
	tree_check(file_path(text, &err,
			     "NVRM version: NVIDIA UNIX x86_64 Kernel Module  %s  Wed Oct 29 "
			     "22:15:28 UTC 2025\n",
			     version),
		   version, &err);
	tree_text(top, "/proc/driver/nvidia/version", text);
}

void tree_gpu(const char *top, unsigned minor, const char *address, unsigned card)
{
	struct err err = {0};
	char path[FILE_PATH_MAX], name[FILE_PATH_MAX];
	tree_check(file_path(path, &err, "/dev/nvidia%u", minor), address, &err);
	tree_text(top, path, "");
	for (int i = 0; i < 2; i++) {
		tree_check(i == 0 ? file_path(name, &err, "card%u", card)
				  : file_path(name, &err, "renderD%u", 128 + card),
			   address, &err);
		tree_check(file_path(path, &err, "/dev/dri/%s", name), address, &err);
		tree_text(top, path, "");
		tree_check(
		    file_path(path, &err, "/sys/bus/pci/devices/%s/drm/%s/dev", address, name),
		    address, &err);
		tree_text(top, path, "226:0\n");
	}
}

void tree_control(const char *top)
{
	static const char *const nodes[] = {"/dev/nvidiactl", "/dev/nvidia-modeset",
					    "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"};
	for (size_t i = 0; i < array_length(nodes); i++)
		tree_text(top, nodes[i], "");
}
