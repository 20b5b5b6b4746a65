/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/names.h"
#include "base/text.h"
#include "cdi/driver_internal.h"
#include "cdi/ldcache.h"
#include "cdi/soname.h"

static const struct {
	uint32_t capabilities;
	const char *stem;
} driver_stems[] = {
    {DRIVER_UTILITY, "nvidia-smi"},
    {DRIVER_UTILITY, "nvidia-debugdump"},
    {DRIVER_UTILITY, "nvidia-persistenced"},
    {DRIVER_UTILITY, "nv-fabricmanager"},
    {DRIVER_UTILITY, "libnvidia-ml"},
    {DRIVER_UTILITY, "libnvidia-cfg"},
    {DRIVER_UTILITY, "libnvidia-nscq"},
    {DRIVER_COMPUTE, "nvidia-cuda-mps-control"},
    {DRIVER_COMPUTE, "nvidia-cuda-mps-server"},
    {DRIVER_COMPUTE, "libcuda"},
    {DRIVER_COMPUTE, "libcudadebugger"},
    {DRIVER_COMPUTE, "libnvidia-opencl"},
    {DRIVER_COMPUTE, "libnvidia-gpucomp"},
    {DRIVER_COMPUTE, "libnvidia-ptxjitcompiler"},
    {DRIVER_COMPUTE, "libnvidia-fatbinaryloader"},
    {DRIVER_COMPUTE, "libnvidia-allocator"},
    {DRIVER_COMPUTE, "libnvidia-compiler"},
    {DRIVER_COMPUTE, "libnvidia-pkcs11"},
    {DRIVER_COMPUTE, "libnvidia-pkcs11-openssl3"},
    {DRIVER_COMPUTE, "libnvidia-nvvm"},
    {DRIVER_COMPUTE, "libnvidia-nvvm70"},
    {DRIVER_COMPUTE, "libnvidia-tileiras"},
    {DRIVER_VIDEO, "libvdpau_nvidia"},
    {DRIVER_VIDEO, "libnvidia-encode"},
    {DRIVER_VIDEO, "libnvidia-opticalflow"},
    {DRIVER_VIDEO, "libnvcuvid"},
    {DRIVER_GRAPHICS, "libnvidia-eglcore"},
    {DRIVER_GRAPHICS, "libnvidia-glcore"},
    {DRIVER_GRAPHICS, "libnvidia-tls"},
    {DRIVER_GRAPHICS, "libnvidia-glsi"},
    {DRIVER_GRAPHICS, "libnvidia-fbc"},
    {DRIVER_GRAPHICS, "libnvidia-ifr"},
    {DRIVER_GRAPHICS, "libnvidia-rtcore"},
    {DRIVER_GRAPHICS, "libnvidia-glvkspirv"},
    {DRIVER_GRAPHICS, "libnvidia-cbl"},
    {DRIVER_GRAPHICS, "libnvoptix"},
    {DRIVER_GRAPHICS, "libGLX_nvidia"},
    {DRIVER_GRAPHICS, "libEGL_nvidia"},
    {DRIVER_GRAPHICS, "libGLESv2_nvidia"},
    {DRIVER_GRAPHICS, "libGLESv1_CM_nvidia"},
    {DRIVER_GRAPHICS, "libnvidia-vulkan-producer"},
    {DRIVER_GRAPHICS, "libnvidia-egl-gbm"},
    {DRIVER_GRAPHICS, "libnvidia-egl-wayland"},
    {DRIVER_GRAPHICS, "libnvidia-egl-wayland2"},
    {DRIVER_GRAPHICS, "libnvidia-egl-xcb"},
    {DRIVER_GRAPHICS, "libnvidia-egl-xlib"},
    {DRIVER_GRAPHICS, "libnvidia-api"},
    {DRIVER_NGX, "libnvidia-ngx"},
};

/* These have a version of their own, so the name to look for is the SONAME itself. */
static const char *const driver_own_versions[] = {
    "libnvidia-api.so.1",	   "libnvidia-egl-gbm.so.1", "libnvidia-egl-wayland.so.1",
    "libnvidia-egl-wayland2.so.1", "libnvidia-egl-xcb.so.1", "libnvidia-egl-xlib.so.1",
};

/* Without any of these nothing of CUDA or nvidia-smi starts. */
static const char *const driver_needed[] = {"libcuda", "libnvidia-ml"};

uint32_t driver_capabilities_of(const char *stem, size_t length)
{
	for (size_t i = 0; i < array_length(driver_stems); i++)
		if (strlen(driver_stems[i].stem) == length &&
		    memcmp(driver_stems[i].stem, stem, length) == 0)
			return driver_stems[i].capabilities;
	return DRIVER_OTHER;
}

uint32_t driver_capabilities_at(const char *path)
{
	static const struct {
		const char *path;
		uint32_t capabilities;
	} others[] = {
	    {"/dev/nvidia-modeset", DRIVER_DISPLAY | DRIVER_GRAPHICS},
	    {"/dev/nvidia-uvm", DRIVER_COMPUTE},
	    {"/dev/nvidia-uvm-tools", DRIVER_COMPUTE},
	};

	for (size_t i = 0; i < array_length(others); i++)
		if (strcmp(others[i].path, path) == 0)
			return others[i].capabilities;

	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	const char *so = strstr(name, ".so");
	if (text_starts_with(name, "lib") && so)
		/* Another name of libGLX_nvidia. */
		return text_starts_with(name, "libGLX_indirect.")
			   ? (uint32_t)DRIVER_GRAPHICS
			   : driver_capabilities_of(name, (size_t)(so - name));

	bool is_program = slash && slash - path >= 4 &&
			  (text_starts_with(slash - 4, "/bin") ||
			   (slash - path >= 5 && text_starts_with(slash - 5, "/sbin")));
	return is_program ? driver_capabilities_of(name, strlen(name)) : 0;
}

static int driver_add_directory(struct driver_search *search, const char *path, struct err *err)
{
	char real[FILE_PATH_MAX];
	struct err why = {0};

	for (uint32_t i = 0; i < search->directory_count; i++)
		if (strcmp(search->directories[i].path, path) == 0)
			return 0;

	_cleanup_close_ int fd = -1;
	int rc = rootdir_find(search->root, path, S_IFDIR, real, &fd, &why);
	if (rc == -ENOENT || rc == -ENOTDIR)
		return 0;
	if (rc == -EOPNOTSUPP) {
		*err = why;
		return rc;
	}

	if (rc < 0) {
		rc = driver_refuse(search->driver, 0, &why);
		return rc < 0 ? err_set(err, rc, "out of memory") : 0;
	}

	for (uint32_t i = 0; i < search->directory_count; i++)
		if (strcmp(search->directories[i].path, real) == 0)
			return 0;

	if (search->directory_count == DRIVER_DIRECTORIES_MAX)
		return err_set(err, -E2BIG, "driver libraries lie in more than %d directories",
			       DRIVER_DIRECTORIES_MAX);

	_cleanup_free_ char *own = strdup(real);
	DIR *stream = own ? fdopendir(fd) : NULL;
	if (!stream)
		return err_set(err, -ENOMEM, "out of memory for directory '%s'", real);

	(void)take_fd(&fd); /* the stream's now */
	search->directories[search->directory_count++] =
	    (struct driver_directory){.path = take_ptr(own), .stream = stream};
	return 0;
}

static uint32_t driver_arch_here(void)
{
#if defined(__aarch64__)
	return LDCACHE_AARCH64;
#elif defined(__powerpc64__)
	return LDCACHE_PPC64LE;
#else
	return LDCACHE_X86_64;
#endif
}

/* The directories that the loader's cache names for libraries of the driver. */
static int driver_ask_cache(struct driver_search *search, const struct ldcache *cache,
			    struct err *err)
{
	struct ldcache_entry entry;

	for (uint32_t at = 0; ldcache_next(cache, &at, &entry);) {
		const char *dot = strstr(entry.name, ".so");
		const char *slash = strrchr(entry.path, '/');
		char path[FILE_PATH_MAX];

		if (!dot || entry.arch != driver_arch_here() || entry.path[0] != '/' ||
		    slash == entry.path || (size_t)(slash - entry.path) >= sizeof(path) ||
		    driver_capabilities_of(entry.name, (size_t)(dot - entry.name)) == DRIVER_OTHER)
			continue;

		memcpy(path, entry.path, (size_t)(slash - entry.path));
		path[slash - entry.path] = '\0';
		if (strcmp(path, search->asked) == 0)
			continue;

		memcpy(search->asked, path, sizeof(path));
		int rc = driver_add_directory(search, path, err);
		if (rc < 0)
			return rc;
	}

	return 0;
}

static int driver_read_cache(struct driver_search *search, struct err *err)
{
	char real[FILE_PATH_MAX];
	_cleanup_close_ int fd = -1;
	struct err why = {0};
	int rc = rootdir_find(search->root, LDCACHE_PATH, S_IFREG, real, &fd, &why);
	if (rc == -ENOENT || rc == -ENOTDIR)
		return 0;

	_cleanup_buf_ struct buf bytes;
	buf_init(&bytes, LDCACHE_SIZE_MAX);

	if (rc == 0) {
		char path[FILE_PATH_MAX];
		rc = file_path(path, &why, "/proc/self/fd/%d", fd);
		if (rc == 0)
			rc = file_read(path, &bytes, &why);
	}

	struct ldcache cache;

	if (rc == 0) {
		rc = ldcache_parse(buf_text(&bytes), bytes.length, &cache, &why);
		/* The reader is not to run ldconfig for his own machine. */
		if (rc < 0 && search->root->path[0] != '\0')
			(void)err_wrap(&why, "below '%s'", search->root->path);
	}

	if (rc == -ENOMEM)
		return err_set(err, rc, "out of memory for %s", LDCACHE_PATH);
	if (rc == 0)
		return driver_ask_cache(search, &cache, err);

	rc = driver_refuse(search->driver, 0, &why);
	return rc < 0 ? err_set(err, rc, "out of memory") : 0;
}

static int driver_find_directories(struct driver_search *search, struct err *err)
{
	static const char *const fixed[] = {"/usr/lib64", "/lib64", "/"};
	static const char *const by_triplet[] = {"/usr/lib/%s", "/usr/lib/%s/nvidia/current",
						 "/lib/%s", "/lib/%s/nvidia/current"};

	const struct driver_options *options = search->options;
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < options->directory_count; i++)
		rc = driver_add_directory(search, options->directories[i], err);

	for (size_t i = 0; rc == 0 && i < array_length(fixed) - 1; i++)
		rc = driver_add_directory(search, fixed[i], err);

	for (size_t i = 0; rc == 0 && i < array_length(by_triplet); i++) {
		char path[FILE_PATH_MAX];
		rc = file_path(path, err, by_triplet[i], search->triplet);
		if (rc == 0)
			rc = driver_add_directory(search, path, err);
	}

	if (rc == 0)
		rc = driver_read_cache(search, err);

	/* A driver container may have them at its top. */
	return rc == 0 ? driver_add_directory(search, fixed[2], err) : rc;
}

/* "libcuda.so.580.82": the stem's length, and where the version begins. */
static const char *driver_split(const char *name, size_t *out_stem)
{
	const char *dot = strstr(name, ".so.");
	if (!dot || !text_starts_with(name, "lib"))
		return NULL;
	*out_stem = (size_t)(dot - name);
	return dot + strlen(".so.");
}

/* A driver's own number, not that of an interface: "580.82", never "1". */
static bool driver_is_version(const char *text)
{
	size_t dots = 0;
	for (const char *at = text; *at; at++) {
		dots += *at == '.';
		if (*at != '.' && (*at < '0' || *at > '9'))
			return false;
	}

	return dots >= 1 && text[0] != '.' && strlen(text) < GPU_VERSION_MAX &&
	       text[strlen(text) - 1] != '.';
}

static bool driver_has_own_version(const char *name)
{
	return names_find(driver_own_versions, name) >= 0 ||
	       text_starts_with(name, "libnvidia-nvvm70.so.");
}

/* Whether a file may be a library of the driver: other projects' have versions too. */
static bool driver_is_ours(const struct driver_search *search, const char *name)
{
	size_t stem = 0;
	const char *version = driver_split(name, &stem), *driver = search->driver->version;
	if (!version)
		return false;
	if (search->has_version && strcmp(version, driver) == 0)
		return true;

	return (driver_is_version(version) || strcmp(version, driver) == 0 ||
		driver_has_own_version(name)) &&
	       driver_capabilities_of(name, stem) != DRIVER_OTHER;
}

typedef int (*driver_entry_fn)(struct driver_search *search,
			       const struct driver_directory *directory, const char *prefix,
			       const char *name, struct err *err);

static int driver_name_compare(const void *left, const void *right)
{
	return strcmp(*(char *const *)left, *(char *const *)right);
}

/* Calls `each` for every library of the directory, by name: readdir(3) has no order. */
static int driver_each(struct driver_search *search, const struct driver_directory *directory,
		       const char *prefix, driver_entry_fn each, struct err *err)
{
	char *names[DRIVER_FILES_MAX];
	size_t count = 0;
	int rc = 0;
	const struct dirent *entry;

	rewinddir(directory->stream);

	for (int i = 0; rc == 0 && i < DRIVER_ENTRIES_MAX && (entry = readdir(directory->stream));
	     i++) {
		if (!driver_is_ours(search, entry->d_name))
			continue;

		if (count == DRIVER_FILES_MAX)
			rc = err_set(err, -E2BIG, "'%s' holds more than %d driver libraries",
				     directory->path, DRIVER_FILES_MAX);
		else if (!(names[count] = strdup(entry->d_name)))
			rc = err_set(err, -ENOMEM, "out of memory for '%s'", directory->path);
		else
			count++;
	}

	qsort(names, count, sizeof(names[0]), driver_name_compare);

	for (size_t i = 0; i < count; i++) {
		if (rc == 0)
			rc = each(search, directory, prefix, names[i], err);
		free(names[i]);
	}

	return rc;
}

/* The first pass: which drivers are here? */
static int driver_see_version(struct driver_search *search,
			      const struct driver_directory *directory, const char *prefix,
			      const char *name, struct err *err)
{
	(void)prefix;
	struct cdi_driver *driver = search->driver;
	size_t stem = 0;
	const char *version = driver_split(name, &stem);
	const char *word = NULL;

	for (size_t i = 0; i < array_length(driver_needed); i++)
		if (strlen(driver_needed[i]) == stem && memcmp(driver_needed[i], name, stem) == 0)
			word = driver_needed[i];

	if (!word || strcmp(version, driver->version) == 0)
		return 0;

	const char *kernel = search->options->version;
	int rc = 0;

	if (driver->version[0] == '\0')
		memcpy(driver->version, version, strlen(version) + 1);
	else if (kernel && kernel[0])
		rc = driver_complain(driver, false, true,
				     "'%s%s/%s' is not of the loaded kernel module %s: a second "
				     "driver, or one that was updated without a reboot",
				     driver->root, directory->path, name, kernel);
	else
		rc = driver_complain(driver, true, true,
				     "'%s%s/%s': there is a driver %s too, and no kernel module "
				     "says which is right; remove one",
				     driver->root, directory->path, name, driver->version);

	return rc < 0 ? err_set(err, rc, "out of memory") : 0;
}

/* Whether the library's SONAME is its own name: anything else would replace a file of the image
 * that is not the driver's. */
static bool driver_is_own_name(const char *name, size_t stem, const char *soname)
{
	return strncmp(soname, name, stem) == 0 && text_starts_with(soname + stem, ".so") &&
	       (soname[stem + 3] == '.' || soname[stem + 3] == '\0');
}

/* The second pass: takes one library. */
static int driver_take_library(struct driver_search *search,
			       const struct driver_directory *directory, const char *prefix,
			       const char *name, struct err *err)
{
	size_t stem = 0;
	const char *version = driver_split(name, &stem);
	uint32_t capabilities = driver_capabilities_of(name, stem);

	if (strcmp(version, search->driver->version) != 0 && !driver_has_own_version(name))
		return 0;

	char path[FILE_PATH_MAX], real[FILE_PATH_MAX], inside[FILE_PATH_MAX];
	int rc = file_path(path, err, "%s%s/%s", search->root->path,
			   directory->path[1] ? directory->path : "", name);
	if (rc < 0)
		return rc;

	_cleanup_close_ int fd = -1;
	struct err why = {0};
	struct soname library;

	rc = rootdir_entry(search->root, dirfd(directory->stream), directory->path, name, real, &fd,
			   &why);
	if (rc == 0)
		rc = soname_read(fd, path, &library, &why);
	if (rc == 0 &&
	    (library.bits != SONAME_CLASS_64 || library.machine != soname_machine_here()))
		return 0; /* of another architecture, beside ours */
	if (rc == 0 && !driver_is_own_name(name, stem, library.soname))
		rc = err_set(&why, -EINVAL,
			     "'%s' has the SONAME '%s', which is not its own: reinstall the driver",
			     path, library.soname);

	if (rc < 0) {
		rc = driver_refuse(search->driver, capabilities, &why);
		return rc < 0 ? err_set(err, rc, "out of memory") : 0;
	}

	rc = file_path(inside, err, "%s%s", prefix, library.soname);
	return rc < 0 ? rc
		      : driver_add(search->driver, DRIVER_LIBRARY, capabilities, real, inside, err);
}

/* The libraries below a directory's vdpau/. */
static int driver_take_vdpau(struct driver_search *search, const char *above, struct err *err)
{
	static const char prefix[] = "vdpau/";
	char path[FILE_PATH_MAX], real[FILE_PATH_MAX];
	_cleanup_close_ int fd = -1;
	struct err why = {0};
	int rc = file_path(path, err, "%s/vdpau", above[1] ? above : "");
	if (rc < 0)
		return rc;

	rc = rootdir_find(search->root, path, S_IFDIR, real, &fd, &why);
	if (rc == -ENOENT || rc == -ENOTDIR)
		return 0;
	if (rc < 0) {
		rc = driver_refuse(search->driver, 0, &why);
		return rc < 0 ? err_set(err, rc, "out of memory") : 0;
	}

	_cleanup_closedir_ DIR *stream = fdopendir(fd);
	if (!stream)
		return err_set(err, -ENOMEM, "out of memory for directory '%s'", path);

	(void)take_fd(&fd); /* the stream's now */
	const struct driver_directory directory = {.path = real, .stream = stream};
	return driver_each(search, &directory, prefix, driver_take_library, err);
}

static bool driver_has(const struct cdi_driver *driver, const char *stem)
{
	size_t length = strlen(stem);
	for (uint32_t i = 0; i < driver->file_count; i++)
		if (driver->files[i].kind == DRIVER_LIBRARY &&
		    strncmp(driver->files[i].name, stem, length) == 0 &&
		    driver->files[i].name[length] == '.')
			return true;
	return false;
}

/* No driver is an error; a driver that is not whole, or not the kernel's, a problem. */
static int driver_judge(struct cdi_driver *driver, const char *kernel, bool saw_other,
			struct err *err)
{
	if (driver->file_count == 0 && driver->problem_count > 0 && !saw_other &&
	    !driver_severe(driver)) {
		char first[ERR_TEXT_MAX];
		memcpy(first, driver->problems[0].text, sizeof(first));

		int rc = driver_complain(driver, true, false,
					 "no driver library could be taken below '%s/': %s",
					 driver->root, first);
		return rc < 0 ? err_set(err, rc, "out of memory") : 0;
	}

	if (driver->file_count == 0 && !saw_other && !driver_severe(driver))
		return err_set(err, -ENOENT,
			       "no driver library below '%s/': is the NVIDIA driver installed?",
			       driver->root);

	int rc = 0;

	if (driver->file_count == 0 && saw_other)
		rc = driver_complain(
		    driver, true, true,
		    "the loaded kernel module is %s, and no library of that version "
		    "lies below '%s/': reboot, or reinstall the driver",
		    kernel, driver->root);

	for (size_t i = 0; rc == 0 && driver->file_count > 0 && i < array_length(driver_needed);
	     i++)
		if (!driver_has(driver, driver_needed[i]))
			rc = driver_complain(driver, true, false,
					     "%s.so.%s is missing below '%s/': half a driver; "
					     "reinstall it",
					     driver_needed[i], driver->version, driver->root);

	return rc < 0 ? err_set(err, rc, "out of memory") : 0;
}

int driver_find_libraries(struct driver_search *search, struct err *err)
{
	struct cdi_driver *driver = search->driver;
	const char *kernel = search->options->version ? search->options->version : "";

	if (strlen(kernel) >= sizeof(driver->version) || (kernel[0] && !driver_is_version(kernel)))
		return err_set(err, -EINVAL, "'%.64s' is no driver version", kernel);

	memcpy(driver->version, kernel, strlen(kernel) + 1);
	int rc = driver_find_directories(search, err);
	uint32_t before = driver->problem_count;

	for (uint32_t i = 0; rc == 0 && i < search->directory_count; i++)
		rc = driver_each(search, &search->directories[i], "", driver_see_version, err);

	bool saw_other = driver->problem_count > before;

	search->has_version = driver->version[0] != '\0';
	for (uint32_t i = 0; rc == 0 && search->has_version && i < search->directory_count; i++) {
		rc = driver_each(search, &search->directories[i], "", driver_take_library, err);
		if (rc == 0)
			rc = driver_take_vdpau(search, search->directories[i].path, err);
	}

	return rc < 0 ? rc : driver_judge(driver, kernel, saw_other, err);
}
