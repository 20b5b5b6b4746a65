/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/doctor/ward.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"

struct doctor_options ward_options;
static struct doctor *current;

/* The path below the root, its directories made. */
static const char *place(const char *path)
{
	const char *full = unit_path(unit_top, path + 1);
	char parent[FILE_PATH_MAX];
	(void)snprintf(parent, sizeof(parent), "%s", full);
	*strrchr(parent, '/') = '\0';
	assert_int_equal(file_mkdirs(parent, 0755, NULL), 0);
	return full;
}

void ward_file(const char *path, const char *text)
{
	unit_write(place(path), text);
}

void ward_link(const char *path, const char *target)
{
	const char *full = place(path);
	(void)unlink(full);
	assert_int_equal(symlink(target, full), 0);
}

void ward_directory(const char *path)
{
	assert_int_equal(file_mkdirs(place(path), 0755, NULL), 0);
}

void ward_fifo(const char *path)
{
	const char *full = place(path);
	(void)unlink(full);
	assert_int_equal(mkfifo(full, 0644), 0);
}

void ward_remove(const char *path)
{
	assert_int_equal(remove(place(path)), 0);
}

void ward_large(const char *path, char byte, size_t size)
{
	char block[4096];
	memset(block, byte, sizeof(block));
	FILE *file = fopen(place(path), "we");
	assert_non_null(file);
	for (size_t done = 0; done < size; done += sizeof(block))
		assert_int_equal(fwrite(block, 1, sizeof(block), file), sizeof(block));
	assert_int_equal(fclose(file), 0);
}

void ward_gpu(const char *bus, const char *driver)
{
	static const struct {
		const char *name, *text;
	} files[] = {{"vendor", "0x10de\n"},
		     {"device", "0x2330\n"},
		     {"class", "0x030200\n"},
		     {"numa_node", "0\n"}};
	char path[FILE_PATH_MAX], target[FILE_PATH_MAX];
	for (size_t i = 0; i < array_length(files); i++) {
		(void)snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/%s", bus,
			       files[i].name);
		ward_file(path, files[i].text);
	}
	if (driver[0] == '\0')
		return;
	(void)snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/driver", bus);
	(void)snprintf(target, sizeof(target), "../../../bus/pci/drivers/%s", driver);
	ward_link(path, target);
}

void ward_healthy(void)
{
	ward_gpu("0000:07:00.0", "nvidia");
	ward_file("/sys/module/nvidia/version", "580.105.08\n");
	ward_file("/proc/driver/nvidia/version",
		  "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.105.08  Release "
		  "Build  (builder@host)  Wed Oct 29 22:15:28 UTC 2025\n");
	ward_file("/proc/driver/nvidia/gpus/0000:07:00.0/information",
		  "Model: \t\t NVIDIA H100 80GB HBM3\nDevice Minor: \t 0\n");
	ward_file("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.105.08", "");
	ward_link("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "libnvidia-ml.so.580.105.08");
	ward_file("/usr/lib/x86_64-linux-gnu/libcuda.so.580.105.08", "");
	ward_link("/usr/lib/x86_64-linux-gnu/libcuda.so.1", "libcuda.so.580.105.08");
}

struct doctor *ward_run(const char *id)
{
	bool marks[DOCTOR_CHECKS_MAX] = {false}, named[DOCTOR_CHECKS_MAX] = {false};
	const char *nearest;
	current = doctor_free(current);
	ward_options.root = unit_top;
	assert_int_equal(doctor_new(&ward_options, &current, NULL), 0);
	assert_true(doctor_mark(id, marks, &nearest) > 0);
	doctor_run(current, marks, named);
	return current;
}

/* Which of two is told first: a failure before a warning, what is well at last. */
static int rank(enum doctor_status status)
{
	static const int ranks[] = {
	    [DOCTOR_FAIL] = 5, [DOCTOR_WARN] = 4, [DOCTOR_UNKNOWN] = 3,
	    [DOCTOR_INFO] = 2, [DOCTOR_OK] = 1,	  [DOCTOR_SKIP] = 0,
	};
	return ranks[status];
}

const struct doctor_finding *ward_expect(const char *id, enum doctor_status status)
{
	const struct doctor *doctor = ward_run(id);
	assert_true(doctor->count > 0);
	const struct doctor_finding *worst = &doctor->findings[0];
	for (uint32_t i = 1; i < doctor->count; i++)
		if (rank(doctor->findings[i].status) > rank(worst->status))
			worst = &doctor->findings[i];
	if (worst->status != status)
		print_error("%s %s %s: found %s, need %s; do %s\n", worst->id,
			    doctor_status_to_string(worst->status), worst->object, worst->found,
			    worst->need, worst->do_);
	assert_string_equal(doctor_status_to_string(worst->status),
			    doctor_status_to_string(status));
	return worst;
}

int ward_setup(void **state)
{
	ward_options = (struct doctor_options){.is_privileged = true};
	return unit_top_setup(state);
}

int ward_teardown(void **state)
{
	current = doctor_free(current);
	return unit_top_teardown(state);
}
