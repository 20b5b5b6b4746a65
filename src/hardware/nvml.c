/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/names.h"
#include "base/parse.h"
#include "base/text.h"
#include "hardware/driver_root.h"
#include "hardware/pci.h"

#define NVML_SONAME "libnvidia-ml.so.1"

enum nvml_limits { NVML_NAME_VARIANTS = 3, NVML_VARIANT_MISSING = 255 };

static const char *const function_names[NVML_FN_COUNT][NVML_NAME_VARIANTS] = {
#define X(member, newest, older, oldest, parameters) {newest, older, oldest},
    NVML_FUNCTIONS(X)
#undef X
};

const char *nvml_function_to_string(enum nvml_function function)
{
	return function < NVML_FN_COUNT ? function_names[function][0] : "unknown";
}

const char *nvml_return_to_string(int32_t result)
{
	static const char *const names[] = {
	    [NVML_OK] = "success",
	    [NVML_UNINITIALIZED] = "not initialised",
	    [NVML_INVALID_ARGUMENT] = "invalid argument",
	    [NVML_NOT_SUPPORTED] = "not supported",
	    [NVML_NO_PERMISSION] = "no permission",
	    [NVML_NOT_FOUND] = "not found",
	    [NVML_INSUFFICIENT_SIZE] = "insufficient size",
	    [NVML_DRIVER_NOT_LOADED] = "driver not loaded",
	    [NVML_TIMEOUT] = "timeout",
	    [NVML_LIBRARY_NOT_FOUND] = "a library of the driver was not found",
	    [NVML_FUNCTION_NOT_FOUND] = "function not found",
	    [NVML_GPU_IS_LOST] = "the GPU is lost",
	    [NVML_RESET_REQUIRED] = "the GPU needs a reset",
	    [NVML_OPERATING_SYSTEM] = "the GPU control device is blocked by the operating system",
	    [NVML_LIB_RM_VERSION_MISMATCH] = "driver and library versions differ",
	    [NVML_IN_USE] = "in use",
	    [NVML_MEMORY] = "out of memory",
	    [NVML_NO_DATA] = "no data",
	    [NVML_ARGUMENT_VERSION_MISMATCH] = "argument version mismatch",
	    [NVML_NOT_READY] = "not ready",
	    [NVML_GPU_NOT_FOUND] = "no GPU was found",
	};
	return names_at(names, result, "unknown error");
}

bool nvml_return_is_absent(int32_t result)
{
	return result == NVML_NOT_SUPPORTED || result == NVML_NO_PERMISSION ||
	       result == NVML_NO_DATA || result == NVML_FUNCTION_NOT_FOUND ||
	       result == NVML_ARGUMENT_VERSION_MISMATCH || result == NVML_NOT_FOUND;
}

bool nvml_is_simulation_wanted(void)
{
	const char *state = getenv("SLUICE_SIM_STATE"), *profile = getenv("SLUICE_SIM_PROFILE");
	return (state && state[0] != '\0') || (profile && profile[0] != '\0');
}

uint32_t nvml_process_entry_bytes(uint8_t variant, const char *driver_version)
{
	enum { PLAIN = 16, WITH_INSTANCES = 24, WITH_PROTECTED = 32 };
	if (variant >= 2)
		return PLAIN;

	/* The first drivers of branch 535 (to 535.86) fill a longer entry in _v3, with the
	 * protected memory of confidential computing at its end; from 535.98 on it is 24 bytes
	 * again. https://pypi.org/project/nvidia-ml-py/12.535.77/ against 12.535.108 */
	uint64_t minor;
	if (variant == 0 && text_starts_with(driver_version, "535.") &&
	    parse_u64_span(driver_version + 4, strcspn(driver_version + 4, "."), 0, 999, &minor) ==
		0 &&
	    minor < 98)
		return WITH_PROTECTED;

	return WITH_INSTANCES;
}

void nvml_caller_target(struct nvml_caller *caller, uint32_t gpu, const char *bus)
{
	caller->gpu = gpu;
	caller->allowance_ms = 0;
	(void)snprintf(caller->bus, sizeof(caller->bus), "%s", bus);
}

void nvml_caller_begin(struct nvml_caller *caller, enum nvml_function function)
{
	call_mark_begin(caller->mark, caller->gpu, caller->bus, nvml_function_to_string(function),
			caller->allowance_ms);
}

void nvml_caller_end(struct nvml_caller *caller)
{
	call_mark_end(caller->mark);
}

/* The first directory of LD_LIBRARY_PATH that has the library; "" when none has. */
static void find_in_library_path(char out[PATH_MAX])
{
	const char *dirs = getenv("LD_LIBRARY_PATH");

	out[0] = '\0';
	while (dirs && *dirs) {
		size_t size = strcspn(dirs, ":;");
		char path[PATH_MAX];
		int length = snprintf(path, sizeof(path), "%.*s/%s", (int)size, dirs, NVML_SONAME);
		if (size > 0 && length > 0 && (size_t)length < sizeof(path) &&
		    faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
			memcpy(out, path, (size_t)length + 1);
			return;
		}

		dirs += size;
		if (*dirs)
			dirs++;
	}
}

/* Where a package puts the library; only looked at to say more when it cannot be loaded. */
static bool find_installed(char out[PATH_MAX])
{
	static const char *const dirs[] = {
	    "/usr/lib/x86_64-linux-gnu",
	    "/usr/lib/aarch64-linux-gnu",
	    "/usr/lib64",
	    "/usr/lib",
	    "/lib64",
	    "/usr/local/nvidia/lib64",
	    "/usr/lib/nvidia",
	};
	find_in_library_path(out);

	for (size_t i = 0; out[0] == '\0' && i < array_length(dirs); i++) {
		char path[PATH_MAX];
		(void)snprintf(path, sizeof(path), "%s/%s", dirs[i], NVML_SONAME);
		if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			(void)snprintf(out, PATH_MAX, "%s", path);
	}

	return out[0] != '\0';
}

/* Whether `directory`, of this variable (NULL: as it is), has the state of a machine of this user.
 */
static bool has_own_simulated(const char *variable, const char *directory)
{
	const char *value = variable ? getenv(variable) : "";
	char path[FILE_PATH_MAX];
	struct stat status;

	return value && (!variable || value[0] == '/') &&
	       file_path(path, NULL, "%s%s/sim.state", value, directory) == 0 &&
	       stat(path, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid();
}

/* What `sluice sim exec` needs to find the simulated machine that runs here: nothing for one in
 * this user's default places (sluice-sim(1), FILES), an option for root's. NULL: there is none. */
static const char *simulated_machine_option(void)
{
	char session[64];
	(void)snprintf(session, sizeof(session), "/run/user/%u/sluice", (unsigned)geteuid());

	if (geteuid() != 0 &&
	    (has_own_simulated("XDG_RUNTIME_DIR", "/sluice") || has_own_simulated(NULL, session) ||
	     has_own_simulated("XDG_STATE_HOME", "/sluice") ||
	     has_own_simulated("HOME", "/.local/state/sluice")))
		return "";

	if (!file_exists("/run/sluice/sim.state"))
		return NULL;

	return geteuid() == 0 ? "" : " --root /run/sluice/sim";
}

static int explain_no_library(const char *root, struct err *err)
{
	char path[PATH_MAX];
	const char *why = dlerror();

	if (find_installed(path) || driver_root_find(root, NVML_SONAME, path)) {
		char target[PATH_MAX];
		if (!realpath(path, target))
			return err_set(
			    err, -ELIBBAD,
			    "'%s' is a link to nothing: the NVIDIA driver is half installed; "
			    "install its packages again",
			    path);

		return err_set(
		    err, -ELIBBAD,
		    "cannot load '%s' (%s): the NVIDIA driver is half installed; install "
		    "its packages again",
		    path, why ? why : "unknown reason");
	}

	const char *option = simulated_machine_option();
	if (option)
		return err_set(err, -ENODEV,
			       "no %s here, but a simulated machine is running: use "
			       "'sluice sim exec%s -- sluice devices'",
			       NVML_SONAME, option);

	return err_set(err, -ENODEV,
		       "no %s was found: is the NVIDIA driver installed? Without a GPU, "
		       "'sluice sim start --profile dgx-a100' makes a simulated machine",
		       NVML_SONAME);
}

/* Never the driver of the machine: what system packages install is refused before it is loaded. */
static bool path_may_be_simulator(const char *path)
{
	static const char *const system_dirs[] = {"/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/",
						  "/usr/local/nvidia/"};
	if (strstr(path, "/sluice/sim/"))
		return true;

	for (size_t i = 0; i < array_length(system_dirs); i++) {
		if (text_starts_with(path, system_dirs[i]))
			return false;
	}

	return true;
}

static int load_simulator(struct nvml *nvml, const char *root, struct err *err)
{
	char path[PATH_MAX], target[PATH_MAX];
	find_in_library_path(path);

	if (path[0] == '\0')
		return err_set(
		    err, -ENODEV,
		    "SLUICE_SIM_STATE is set, but no directory of LD_LIBRARY_PATH has the "
		    "simulated %s; use 'sluice sim exec -- COMMAND'",
		    NVML_SONAME);

	if (!realpath(path, target) || !path_may_be_simulator(target))
		return err_set(
		    err, -EPERM,
		    "SLUICE_SIM_STATE is set, but '%s' is not the simulator's library; use "
		    "'sluice sim exec -- COMMAND'",
		    path);

	nvml->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	return nvml->library ? 0 : explain_no_library(root, err);
}

static int load(struct nvml *nvml, const char *root, struct err *err)
{
	if (nvml_is_simulation_wanted()) {
		int rc = load_simulator(nvml, root, err);
		if (rc < 0)
			return rc;
	} else {
		char found[FILE_PATH_MAX];

		nvml->library = dlopen(NVML_SONAME, RTLD_NOW | RTLD_LOCAL);
		if (!nvml->library && driver_root_find(root, NVML_SONAME, found))
			nvml->library = dlopen(found, RTLD_NOW | RTLD_LOCAL);
		if (!nvml->library)
			return explain_no_library(root, err);
	}

	Dl_info info;
	void *symbol = dlsym(nvml->library, "nvmlInit_v2");
	char target[PATH_MAX];
	const char *path = NVML_SONAME;

	if (symbol && dladdr(symbol, &info) && info.dli_fname)
		path = realpath(info.dli_fname, target) ? target : info.dli_fname;
	(void)snprintf(nvml->path, sizeof(nvml->path), "%.*s", (int)sizeof(nvml->path) - 1, path);
	return 0;
}

static void *resolve_one(struct nvml *nvml, enum nvml_function function)
{
	for (uint8_t i = 0; i < NVML_NAME_VARIANTS; i++) {
		const char *name = function_names[function][i];
		void *symbol = name ? dlsym(nvml->library, name) : NULL;
		if (symbol) {
			nvml->variant[function] = i;
			return symbol;
		}
	}

	nvml->variant[function] = NVML_VARIANT_MISSING;
	return NULL;
}

static int resolve(struct nvml *nvml, struct err *err)
{
	/* POSIX has dlsym return functions as void *; the copy is the form that ISO C accepts. */
#define X(member, newest, older, oldest, parameters)                                               \
	{                                                                                          \
		void *symbol = resolve_one(nvml, NVML_FN_##member);                                \
		memcpy(&nvml->fn.member, &symbol, sizeof(symbol));                                 \
	}
	NVML_FUNCTIONS(X)
#undef X
	static const enum nvml_function needed[] = {NVML_FN_init, NVML_FN_shutdown, NVML_FN_count,
						    NVML_FN_by_index, NVML_FN_uuid};
	for (size_t i = 0; i < array_length(needed); i++) {
		if (nvml->variant[needed[i]] == NVML_VARIANT_MISSING)
			return err_set(
			    err, -ELIBBAD,
			    "'%s' has no function %s: the NVIDIA driver is half installed "
			    "or too old; install its packages again",
			    nvml->path, nvml_function_to_string(needed[i]));
	}
	return 0;
}

static int explain_no_driver(const struct nvml *nvml, struct err *err)
{
	const char *state = getenv("SLUICE_SIM_STATE");
	if (state && state[0] != '\0')
		return err_set(
		    err, -ENODEV,
		    "no simulated driver: '%s' is not there or says that none is loaded; "
		    "'sluice sim status' tells, 'sluice sim start' makes one",
		    state);

	if (strstr(nvml->path, "/sim/"))
		return err_set(
		    err, -ENODEV,
		    "'%s' is the simulator's library, but no simulated machine is running: "
		    "'sluice sim start --profile dgx-a100' makes one",
		    nvml->path);

	return err_set(
	    err, -ENODEV,
	    "the NVIDIA driver is installed ('%s'), but its kernel module is not loaded: "
	    "try 'modprobe nvidia'; 'dmesg' says why it was refused",
	    nvml->path);
}

static int explain_mismatch(const struct nvml *nvml, const char *root, struct err *err)
{
	char module[GPU_VERSION_MAX] = "unknown";
	(void)pci_read_nvidia_version(root, module); /* stays "unknown" */

	/* "13.580.105.08": API version, then the driver's. */
	const char *dot = strchr(nvml->nvml_version, '.');
	const char *library = dot && strchr(dot + 1, '.') ? dot + 1 : nvml->nvml_version;
	const char *state = getenv("SLUICE_SIM_STATE");
	/* the simulator says the same of a state file that it cannot use */
	if (state && state[0] != '\0' && strcmp(library, module) == 0)
		return err_set(err, -ELIBBAD,
			       "the simulated machine in '%s' is damaged or of another version of "
			       "sluice: 'sluice sim stop' and 'sluice sim start' make a new one",
			       state);

	return err_set(err, -ELIBBAD,
		       "driver version mismatch: library %s ('%s'), loaded kernel module %s; the "
		       "driver was changed under a running system: reboot, or load the new module",
		       library[0] ? library : "unknown", nvml->path, module);
}

static int explain_no_permission(const char *root, struct err *err)
{
	const char *state = getenv("SLUICE_SIM_STATE");
	if (state && state[0] != '\0' && access(state, R_OK) != 0 && errno == EACCES)
		return err_set(err, -EACCES,
			       "the simulated machine in '%s' belongs to another user and may not "
			       "be looked at",
			       state);

	return err_set(err, -EACCES,
		       "the driver refuses this user: '%s/dev/nvidiactl' may not be opened; "
		       "run as root, or see 'ls -l %s/dev/nvidia*'",
		       root, root);
}

static int explain_init(const struct nvml *nvml, const char *root, int32_t result, struct err *err)
{
	switch (result) {
	case NVML_DRIVER_NOT_LOADED:
		return explain_no_driver(nvml, err);
	case NVML_LIB_RM_VERSION_MISMATCH:
		return explain_mismatch(nvml, root, err);
	case NVML_NO_PERMISSION:
		return explain_no_permission(root, err);
	case NVML_LIBRARY_NOT_FOUND:
		return err_set(err, -ELIBBAD,
			       "'%s' does not find another library of the driver: it is half "
			       "installed; install its packages again",
			       nvml->path);
	case NVML_GPU_NOT_FOUND:
		return err_set(
		    err, -ENODEV,
		    "the NVIDIA driver is loaded, but it has no GPU: see 'lspci -d 10de:' "
		    "and 'dmesg'");
	default:
		return err_set(err, -EIO, "nvmlInit of '%s' failed: %s (%d)", nvml->path,
			       nvml_return_to_string(result), result);
	}
}

static int initialise(struct nvml *nvml, const char *root, struct call_mark *mark, struct err *err)
{
	struct nvml_caller caller = {.nvml = nvml, .mark = mark, .gpu = CALL_MARK_NO_GPU};
	if (NVML_CALL(&caller, nvml_version, nvml->nvml_version, sizeof(nvml->nvml_version)) !=
	    NVML_OK)
		nvml->nvml_version[0] = '\0';

	int32_t rc = NVML_CALL(&caller, init);
	if (rc != NVML_OK)
		return explain_init(nvml, root, rc, err);

	nvml->initialised = true;
	if (NVML_CALL(&caller, driver_version, nvml->driver_version,
		      sizeof(nvml->driver_version)) != NVML_OK)
		nvml->driver_version[0] = '\0';

	return 0;
}

int nvml_open(const char *root, struct call_mark *mark, struct nvml **out, struct err *err)
{
	struct nvml *nvml = calloc(1, sizeof(*nvml));
	if (!nvml)
		return err_set(err, -ENOMEM, "loading %s: no memory", NVML_SONAME);

	/* A library can hang in its constructors too. */
	call_mark_begin(mark, CALL_MARK_NO_GPU, "", "dlopen " NVML_SONAME, 0);
	int rc = load(nvml, root, err);

	call_mark_end(mark);
	if (rc == 0)
		rc = resolve(nvml, err);
	if (rc == 0)
		rc = initialise(nvml, root, mark, err);
	if (rc < 0) {
		nvml_close(nvml);
		return rc;
	}

	*out = nvml;
	return 0;
}

struct nvml *nvml_close(struct nvml *nvml)
{
	if (!nvml)
		return NULL;
	if (nvml->initialised)
		(void)nvml->fn.shutdown();
	if (nvml->library)
		(void)dlclose(nvml->library);
	free(nvml);

	return NULL;
}
