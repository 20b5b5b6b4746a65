/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/image.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/names.h"
#include "cdi/check_internal.h"
#include "cdi/driver.h"
#include "cdi/ldcache.h"
#include "cdi/soname.h"

enum { IMAGE_PROC_MAX = 32 };

/* What differs between machines; EM_* of <elf.h>. */
struct image_arch {
	uint32_t machine, cache;
	const char *loader, *musl;
	const char *hwcaps[4]; /* directories before each one that the loader looks in */
};

static const struct image_arch image_archs[] = {
    {EM_X86_64,
     LDCACHE_X86_64,
     "/lib64/ld-linux-x86-64.so.2",
     "/lib/ld-musl-x86_64.so.1",
     {"x86-64-v4", "x86-64-v3", "x86-64-v2"}},
    {EM_AARCH64,
     LDCACHE_AARCH64,
     "/lib/ld-linux-aarch64.so.1",
     "/lib/ld-musl-aarch64.so.1",
     {NULL}},
    {EM_PPC64,
     LDCACHE_PPC64LE,
     "/lib64/ld64.so.2",
     "/lib/ld-musl-powerpc64le.so.1",
     {"power10", "power9"}},
};

/* What a program of the image must not have of its own: they talk to the kernel module, or to one
 * that does. */
static const char *const image_libraries[] = {"libcuda.so.1", "libnvidia-ml.so.1",
					      "libnvidia-ptxjitcompiler.so.1"};

struct image_root {
	int fd;
	const char *triplet;
	const struct image_arch *arch;
	struct cdi_image *image;
	struct checker checker;
	char debian[2][FILE_PATH_MAX]; /* "/lib/x86_64-linux-gnu" and the one below /usr */
};

/* A directory or file of the image by what it is, whatever leads there. */
struct image_place {
	bool is_there;
	dev_t device;
	ino_t inode;
	mode_t mode;
};

/* --- looking inside -------------------------------------------------------------------------- */

/* O_PATH, with every link resolved as if the image were "/". -errno. */
static int image_open(const struct image_root *root, const char *path)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC,
			       .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	int fd = (int)syscall(SYS_openat2, root->fd, path, &how, sizeof(how));
	return fd < 0 ? -errno : fd;
}

static struct image_place image_look(const struct image_root *root, const char *path)
{
	struct image_place place = {.is_there = false};
	struct stat status;
	_cleanup_close_ int fd = image_open(root, path);
	if (fd >= 0 && fstat(fd, &status) == 0)
		place = (struct image_place){.is_there = true,
					     .device = status.st_dev,
					     .inode = status.st_ino,
					     .mode = status.st_mode};

	return place;
}

static bool image_is_same(const struct image_place *a, const struct image_place *b)
{
	return a->is_there && b->is_there && a->device == b->device && a->inode == b->inode;
}

/* A regular file of the image, open for reading. -EINVAL: it is something else. */
static int image_open_file(const struct image_root *root, const char *path)
{
	char link[IMAGE_PROC_MAX];
	struct stat status;
	_cleanup_close_ int fd = image_open(root, path);
	if (fd < 0)
		return fd;

	if (fstat(fd, &status) != 0)
		return -errno;
	if (!S_ISREG(status.st_mode))
		return -EINVAL;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd); /* fits */
	int open_fd = open(link, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	return open_fd < 0 ? -errno : open_fd;
}

/* --- which C library ------------------------------------------------------------------------- */

/* Whether this is glibc's own libc.so.6: libraries of musl are linked to by that name, too. */
static bool image_is_glibc(struct image_root *root, const char *path)
{
	struct soname library;
	_cleanup_close_ int fd = image_open_file(root, path);
	if (fd == -EACCES || fd == -EPERM) {
		const struct check_about about = {.path = path, .key = ""};
		check_add(&root->checker, CHECK_PATH_UNREADABLE, CHECK_UNREADABLE, &about,
			  "'%s' of the image cannot be looked at by this user: %s", path,
			  err_describe(fd));
	}

	if (fd < 0 || soname_read(fd, path, &library, NULL) < 0)
		return false;

	if (library.bits == SONAME_CLASS_64 && library.machine != root->arch->machine) {
		const struct check_about about = {.path = path, .key = ""};
		check_add(&root->checker, CHECK_IMAGE_ARCH, CHECK_STALE, &about,
			  "'%s' of the image is for another machine than this one", path);
	}

	return library.bits == SONAME_CLASS_64 && library.machine == root->arch->machine &&
	       strcmp(library.soname, "libc.so.6") == 0;
}

static void image_find_libc(struct image_root *root)
{
	const struct {
		const char *directory;
		enum image_layout layout;
	} places[] = {
	    {root->debian[0], IMAGE_DEBIAN}, {root->debian[1], IMAGE_DEBIAN},
	    {"/lib64", IMAGE_RHEL},	     {"/usr/lib64", IMAGE_RHEL},
	    {"/usr/lib", IMAGE_FLAT},	     {"/lib", IMAGE_FLAT},
	};

	for (size_t i = 0; i < array_length(places); i++) {
		char path[FILE_PATH_MAX];
		if (file_path(path, NULL, "%s/libc.so.6", places[i].directory) == 0 &&
		    image_is_glibc(root, path)) {
			root->image->libc = IMAGE_GLIBC;
			root->image->layout = places[i].layout;
			return;
		}
	}

	if (image_look(root, root->arch->musl).is_there)
		root->image->libc = IMAGE_MUSL;
}

static void image_check_libc(struct image_root *root)
{
	const char *loader = root->arch->loader;
	const struct check_about about = {.path = loader, .key = ""};

	if (root->image->libc == IMAGE_MUSL)
		check_add(&root->checker, CHECK_IMAGE_MUSL, CHECK_STALE, &about,
			  "the image has musl, and NVIDIA's libraries need glibc: CUDA cannot work "
			  "in it; take an image of Debian, Ubuntu or Red Hat, or distroless/cc");
	else if (root->image->libc == IMAGE_NO_LIBC && root->checker.check->count == 0)
		check_add(&root->checker, CHECK_IMAGE_LOADER, CHECK_STALE, &about,
			  "the image has no C library that was found: nothing in it can load "
			  "NVIDIA's libraries, which need glibc");
	else if (root->image->libc == IMAGE_GLIBC && !image_look(root, loader).is_there)
		check_add(&root->checker, CHECK_IMAGE_LOADER, CHECK_STALE, &about,
			  "the image has no loader '%s': no program of it can load libraries",
			  loader);
}

/* --- where its loader looks ------------------------------------------------------------------ */

/* The directories that CDI mounts the libraries in. */
static bool image_is_mounted(const struct image_root *root, const struct image_place *directory)
{
	struct image_place debian = image_look(root, root->debian[1]);
	struct image_place rhel = image_look(root, "/usr/lib64");
	return image_is_same(directory, &debian) || image_is_same(directory, &rhel);
}

static void image_own(struct image_root *root, const char *path, const char *library,
		      enum check_severity severity, const char *why)
{
	struct image_place place = image_look(root, path);
	if (!place.is_there || !S_ISREG(place.mode))
		return;

	char fix[CHECK_TEXT_MAX], quoted[CHECK_TEXT_MAX];
	(void)snprintf(fix, sizeof(fix), "in the image: rm %.*s && ldconfig", CHECK_TEXT_MAX / 2,
		       check_quote(path, quoted));

	const struct check_about about = {.path = path, .key = path, .fix = fix};
	check_add(&root->checker, CHECK_IMAGE_LIBRARY, severity, &about,
		  "the image has '%s' of its own, %s: '%s' would not be the driver's", path, why,
		  library);
}

/* Every entry of the cache comes before the built-in directories. */
static void image_check_entry(struct image_root *root, const struct ldcache_entry *entry)
{
	const char *slash = strrchr(entry->path, '/');
	char directory[FILE_PATH_MAX];
	int at = names_find(image_libraries, entry->name);
	const char *library = at >= 0 ? image_libraries[at] : NULL;

	if (!library || entry->arch != root->arch->cache || entry->path[0] != '/' ||
	    file_path(directory, NULL, "%.*s/", (int)(slash - entry->path), entry->path) < 0)
		return;

	struct image_place place = image_look(root, directory);
	/* There CDI's mount covers it. */
	if (strcmp(slash + 1, library) == 0 && image_is_mounted(root, &place))
		return;

	image_own(root, entry->path, library, CHECK_STALE,
		  "named in its /etc/ld.so.cache and so found first");
}

static int image_check_cache(struct image_root *root, struct err *err)
{
	char link[IMAGE_PROC_MAX];
	struct ldcache cache;
	struct ldcache_entry entry;
	struct err why = {0};
	_cleanup_buf_ struct buf text;

	buf_init(&text, LDCACHE_SIZE_MAX);
	_cleanup_close_ int fd = image_open_file(root, LDCACHE_PATH);
	if (fd == -ENOENT || fd == -ENOTDIR)
		return 0;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd); /* fits */
	int rc = fd < 0 ? err_set(&why, fd, "%s", err_describe(fd)) : file_read(link, &text, &why);
	if (rc == -ENOMEM)
		return err_set(err, rc, "out of memory for the image's " LDCACHE_PATH);
	if (rc == 0)
		rc = ldcache_parse(buf_text(&text), text.length, &cache, &why);

	if (rc < 0) {
		const struct check_about about = {.path = LDCACHE_PATH, .key = ""};
		check_add(&root->checker, CHECK_IMAGE_CACHE, CHECK_NOTE, &about,
			  "the image's %s is of no use, also to its loader: %s", LDCACHE_PATH,
			  why.text);
		return 0;
	}

	for (uint32_t at = 0; ldcache_next(&cache, &at, &entry);)
		image_check_entry(root, &entry);

	return 0;
}

static void image_check_in(struct image_root *root, const char *directory, const char *below,
			   const char *name)
{
	char path[FILE_PATH_MAX];
	if (file_path(path, NULL, "%s%s%s/%s", directory, below ? "/glibc-hwcaps/" : "",
		      below ? below : "", name) == 0)
		image_own(root, path, name, CHECK_STALE,
			  "where its loader looks before the place of the driver's");
}

/* The built-in directories, in their order, up to the first that CDI mounts in. */
static void image_check_directories(struct image_root *root)
{
	const char *const directories[][4] = {
	    [IMAGE_UNKNOWN] = {NULL},
	    [IMAGE_DEBIAN] = {root->debian[0], root->debian[1], NULL},
	    [IMAGE_RHEL] = {"/lib64", "/usr/lib64", NULL},
	    [IMAGE_FLAT] = {"/lib", "/usr/lib", NULL},
	};
	const char *const *at = directories[root->image->layout];

	bool is_mounted = false;
	const char *last = "";

	for (; *at && !is_mounted; at++) {
		struct image_place place = image_look(root, *at);
		is_mounted = image_is_mounted(root, &place);
		last = *at;

		for (size_t i = 0; i < array_length(image_libraries); i++) {
			for (size_t j = 0; root->arch->hwcaps[j]; j++)
				image_check_in(root, *at, root->arch->hwcaps[j],
					       image_libraries[i]);
			if (!is_mounted)
				image_check_in(root, *at, NULL, image_libraries[i]);
		}
	}

	/* The others are made by the mounts where they are missing. */
	if (root->image->layout != IMAGE_FLAT || is_mounted)
		return;

	const struct check_about about = {
	    .path = last, .key = "", .fix = "podman run --env LD_LIBRARY_PATH=/usr/lib64 ..."};
	check_add(&root->checker, CHECK_IMAGE_LAYOUT, CHECK_STALE, &about,
		  "the image's loader looks in '%s' only, and CDI mounts the driver's libraries in "
		  "%s and /usr/lib64",
		  last, root->debian[1]);
}

/* Where other libraries of the driver often lie; they win only for programs that look there. */
static void image_check_usual(struct image_root *root)
{
	static const char *const directories[] = {
	    "/usr/local/cuda/compat",  "/usr/local/cuda/compat/lib", "/usr/local/cuda/lib64",
	    "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib",	     "/usr/local/lib",
	    "/opt/conda/lib",
	};

	for (size_t i = 0; i < array_length(directories); i++)
		for (size_t j = 0; j < array_length(image_libraries); j++) {
			char path[FILE_PATH_MAX];
			bool is_known =
			    file_path(path, NULL, "%s/%s", directories[i], image_libraries[j]) < 0;
			for (uint32_t k = 0; !is_known && k < root->checker.check->count; k++)
				is_known = strcmp(root->checker.check->findings[k].key, path) == 0;

			if (!is_known)
				image_own(root, path, image_libraries[j], CHECK_NOTE,
					  "which comes first where LD_LIBRARY_PATH or a RUNPATH "
					  "says so");
		}
}

/* A mount of a file needs a file, or nothing, in its place. */
static void image_check_blocked(struct image_root *root)
{
	const char *const directories[] = {root->debian[1], "/usr/lib64"};

	for (size_t i = 0; i < array_length(directories); i++)
		for (size_t j = 0; j < array_length(image_libraries); j++) {
			char path[FILE_PATH_MAX];
			if (file_path(path, NULL, "%s/%s", directories[i], image_libraries[j]) < 0)
				continue;

			struct image_place place = image_look(root, path);
			const struct check_about about = {.path = path, .key = path};

			if (place.is_there && !S_ISREG(place.mode))
				check_add(&root->checker, CHECK_IMAGE_BLOCKED, CHECK_STALE, &about,
					  "'%s' of the image is no regular file: nothing can be "
					  "mounted there, and the container would not start",
					  path);
		}
}

/* --- all of it ------------------------------------------------------------------------------- */

static int image_check_all(struct image_root *root, const char *directory, struct err *err)
{
	_cleanup_close_ int probe = image_open(root, "/");
	if (probe < 0)
		return err_set(err, probe == -ENOSYS ? -EOPNOTSUPP : probe,
			       "cannot look below '%s': %s", directory,
			       probe == -ENOSYS ? "this kernel has no openat2(2); Linux 5.6 has"
						: err_describe(probe));

	image_find_libc(root);
	image_check_libc(root);
	if (root->image->libc != IMAGE_GLIBC)
		return 0;

	int rc = image_check_cache(root, err);
	if (rc < 0)
		return rc;

	image_check_directories(root);
	image_check_blocked(root);
	if (root->checker.rc == 0)
		image_check_usual(root);

	return 0;
}

int image_check(const char *directory, const char *triplet, struct cdi_image *out,
		struct cdi_check *check, struct err *err)
{
	struct cdi_image image = {.libc = IMAGE_NO_LIBC};
	struct image_root root = {.triplet = triplet ? triplet : driver_triplet_here(),
				  .image = &image,
				  .checker = {.check = check}};
	for (size_t i = 0; i < array_length(image_archs); i++)
		if (image_archs[i].machine == soname_machine_here())
			root.arch = &image_archs[i];

	if (!root.arch)
		return err_set(err, -EOPNOTSUPP, "there is no CUDA for this machine");

	int rc = file_path(root.debian[0], err, "/lib/%s", root.triplet);
	if (rc == 0)
		rc = file_path(root.debian[1], err, "/usr/lib/%s", root.triplet);
	if (rc < 0)
		return rc;

	_cleanup_close_ int fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, "cannot open the image '%s': %s", directory,
			       err_describe(errno));

	root.fd = fd;
	rc = image_check_all(&root, directory, err);
	if (rc == 0 && root.checker.rc < 0)
		rc = err_set(err, root.checker.rc, "checking the image '%s': %s", directory,
			     err_describe(root.checker.rc));
	if (rc == 0)
		*out = image;

	return rc;
}

const char *image_libc_to_string(enum image_libc libc)
{
	static const char *const names[] = {"none", "glibc", "musl"};
	return names_at(names, libc, "unknown");
}

const char *image_layout_to_string(enum image_layout layout)
{
	static const char *const names[] = {"unknown", "debian", "rhel", "flat"};
	return names_at(names, layout, "unknown");
}
