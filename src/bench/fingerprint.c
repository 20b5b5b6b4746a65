/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/fingerprint.h"

#include <gnu/libc-version.h>
#include <inttypes.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/file.h"
#include "base/jsonw.h"
#include "base/text.h"
#include "hardware/gpu.h"

enum {
	FINGERPRINT_FILE_MAX = 1 << 20,
	FINGERPRINT_LINE_MAX = 256,
};

/* Open MPI's parameters are written small. */
static bool fingerprint_has_word(const char *name, size_t length, const char *word)
{
	size_t span = strlen(word);
	for (size_t i = 0; i + span <= length; i++)
		if (strncasecmp(name + i, word, span) == 0)
			return true;
	return false;
}

bool fingerprint_shows(const char *variable)
{
	static const char *const begins[] = {"NCCL_",	  "CUDA_",  "NVIDIA_", "OMP_",
					     "OMPI_MCA_", "MPICH_", "UCX_",    "SLUICE_"};
	static const char *const whole[] = {"LD_LIBRARY_PATH", "LD_PRELOAD"};
	static const char *const secret[] = {"TOKEN", "SECRET", "PASS", "KEY", "CRED"};

	size_t length = strcspn(variable, "=");
	bool shows = false;
	for (size_t i = 0; i < array_length(begins); i++)
		shows = shows || text_starts_with(variable, begins[i]);

	for (size_t i = 0; i < array_length(whole); i++)
		shows = shows ||
			(length == strlen(whole[i]) && strncmp(variable, whole[i], length) == 0);

	for (size_t i = 0; i < array_length(secret); i++)
		shows = shows && !fingerprint_has_word(variable, length, secret[i]);

	return shows && variable[length] == '=';
}

/* The first line of a file, without what stands at its ends. */
static void fingerprint_file(struct jsonw *json, const char *key, const char *root,
			     const char *path)
{
	char whole[FILE_PATH_MAX], line[FINGERPRINT_LINE_MAX];
	struct buf text _cleanup_buf_;

	buf_init(&text, FINGERPRINT_FILE_MAX);
	if (file_path(whole, NULL, "%s%s", root, path) < 0 || file_read(whole, &text, NULL) < 0)
		return;

	(void)snprintf(line, sizeof(line), "%.*s", (int)strcspn(buf_text(&text), "\n"),
		       buf_text(&text)); /* cut */
	jsonw_word(json, key, line);
}

/* What stands behind "NAME<blanks>:" in the first line that begins so. */
static void fingerprint_field(struct jsonw *json, const char *key, const char *root,
			      const char *path, const char *name)
{
	char whole[FILE_PATH_MAX], line[FINGERPRINT_LINE_MAX];
	struct buf text _cleanup_buf_;

	buf_init(&text, FINGERPRINT_FILE_MAX);
	if (file_path(whole, NULL, "%s%s", root, path) < 0 || file_read(whole, &text, NULL) < 0)
		return;

	for (const char *at = buf_text(&text); *at;) {
		size_t length = strcspn(at, "\n"), skip = strlen(name);
		if (strncmp(at, name, skip) == 0) {
			skip += strspn(at + skip, " \t");
			if (at[skip] == ':') {
				skip++;
				skip += strspn(at + skip, " \t");
				(void)snprintf(line, sizeof(line), "%.*s", (int)(length - skip),
					       at + skip); /* cut */
				jsonw_word(json, key, line);

				return;
			}
		}

		at += length + (at[length] == '\n');
	}
}

/* The kernel's command line has other things that are nobody's business. */
static void fingerprint_mitigations(struct jsonw *json, const char *root)
{
	static const char word[] = "mitigations=";
	char whole[FILE_PATH_MAX], line[FINGERPRINT_LINE_MAX];
	struct buf text _cleanup_buf_;

	buf_init(&text, FINGERPRINT_FILE_MAX);
	if (file_path(whole, NULL, "%s/proc/cmdline", root) < 0 ||
	    file_read(whole, &text, NULL) < 0)
		return;

	const char *at = strstr(buf_text(&text), word);
	at = at ? at + strlen(word) : "default";
	(void)snprintf(line, sizeof(line), "%.*s", (int)strcspn(at, " \n"), at); /* cut */
	jsonw_word(json, "mitigations", line);
}

static void fingerprint_system(struct jsonw *json)
{
	struct utsname name;
	struct statvfs shm;
	struct rlimit memlock;
	cpu_set_t allowed;

	if (uname(&name) == 0) {
		jsonw_text(json, "kernel", name.release);
		jsonw_text(json, "machine", name.machine);
	}

	jsonw_text(json, "libc", gnu_get_libc_version());
	jsonw_i64(json, "cpus_online", sysconf(_SC_NPROCESSORS_ONLN));
	if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0)
		jsonw_i64(json, "cpus_allowed", CPU_COUNT(&allowed));
	if (getrlimit(RLIMIT_MEMLOCK, &memlock) == 0 && memlock.rlim_cur != RLIM_INFINITY)
		jsonw_u64(json, "memlock_bytes", memlock.rlim_cur);

	if (statvfs("/dev/shm", &shm) == 0) {
		jsonw_u64(json, "shm_bytes", (uint64_t)shm.f_blocks * shm.f_frsize);
		jsonw_u64(json, "shm_free_bytes", (uint64_t)shm.f_bavail * shm.f_frsize);
	}
}

static void fingerprint_variable(struct jsonw *json, const char *variable)
{
	char name[FINGERPRINT_LINE_MAX], value[FINGERPRINT_LINE_MAX];
	size_t length = strcspn(variable, "=");
	const char *text = variable + length + 1;

	/* A key is written as it is. */
	if (length >= sizeof(name) ||
	    strspn(variable, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_abcdefghijklmnopqrstuvwxyz") <
		length)
		return;

	(void)snprintf(name, sizeof(name), "%.*s", (int)length, variable); /* fits */
	if (strlen(text) < FINGERPRINT_VALUE_MAX) {
		jsonw_text(json, name, text);
		return;
	}

	/* FNV-1a: tells two values apart, and no more. */
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	for (const char *at = text; *at; at++)
		hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);

	(void)snprintf(value, sizeof(value), "%zu bytes, %016" PRIx64, strlen(text), hash);
	jsonw_text(json, name, value);
}

static void fingerprint_gpus(struct jsonw *json, const struct inventory *inventory)
{
	jsonw_text(json, "driver", inventory->driver_version);
	jsonw_u64(json, "cuda_version", inventory->cuda_version);
	jsonw_bool(json, "simulated", inventory->simulated);
	jsonw_array(json, "gpus");

	for (uint32_t i = 0; i < inventory->gpu_count; i++) {
		const struct gpu *gpu = &inventory->gpus[i];

		jsonw_object(json, NULL);
		jsonw_text(json, "uuid", gpu->uuid);
		jsonw_text(json, "name", gpu->name);
		jsonw_word(json, "vbios", gpu->vbios);
		jsonw_i64(json, "numa_node", gpu->numa_node);
		jsonw_u64(json, "power_limit_mw", gpu->power_limit_mw);
		jsonw_u64(json, "ecc", gpu->ecc_current);
		jsonw_u64(json, "mig", gpu->mig_current);
		jsonw_u64(json, "persistence", gpu->persistence);
		jsonw_u64(json, "compute_mode", gpu->compute_mode);
		jsonw_u64(json, "links", gpu->link_count);
		jsonw_end_object(json);
	}

	jsonw_end_array(json);
}

void fingerprint_write(struct jsonw *json, const char *root, char *const *environment)
{
	fingerprint_write_with(json, root, environment, NULL);
}

void fingerprint_write_with(struct jsonw *json, const char *root, char *const *environment,
			    const struct inventory *gpus)
{
	jsonw_object(json, "fingerprint");
	fingerprint_system(json);
	fingerprint_field(json, "cpu", root, "/proc/cpuinfo", "model name");

	/* arm64 has no names there, but whose design it is, and which */
	fingerprint_field(json, "cpu_implementer", root, "/proc/cpuinfo", "CPU implementer");
	fingerprint_field(json, "cpu_part", root, "/proc/cpuinfo", "CPU part");
	fingerprint_field(json, "microcode", root, "/proc/cpuinfo", "microcode");
	fingerprint_file(json, "governor", root,
			 "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
	fingerprint_mitigations(json, root);
	fingerprint_field(json, "cpus_allowed_list", root, "/proc/self/status",
			  "Cpus_allowed_list");
	fingerprint_file(json, "numa_nodes", root, "/sys/devices/system/node/online");
	fingerprint_file(json, "cpuset", root, "/sys/fs/cgroup/cpuset.cpus.effective");
	fingerprint_file(json, "cpu_max", root, "/sys/fs/cgroup/cpu.max");
	fingerprint_file(json, "memory_max", root, "/sys/fs/cgroup/memory.max");
	fingerprint_file(json, "cgroup", root, "/proc/self/cgroup");
	fingerprint_field(json, "seccomp", root, "/proc/self/status", "Seccomp");
	fingerprint_file(json, "label", root, "/proc/self/attr/current");

	if (gpus)
		fingerprint_gpus(json, gpus);
	jsonw_object(json, "environment");

	for (char *const *at = environment; at && *at; at++)
		if (fingerprint_shows(*at))
			fingerprint_variable(json, *at);

	jsonw_end_object(json);
	jsonw_end_object(json);
}
