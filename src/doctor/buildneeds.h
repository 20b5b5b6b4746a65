/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which packages a kernel module for exactly one kernel is built with, and which of them a list of
 * packages has: that of a repository, as sluice-packages prints it. Pure. Called by the checks
 * driver.headers and driver.packages.
 *
 * What is needed: the scripts of https://github.com/NVIDIA/gpu-driver-container.
 */
#ifndef SLUICE_DOCTOR_BUILDNEEDS_H
#define SLUICE_DOCTOR_BUILDNEEDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

enum buildneeds_limits {
	BUILDNEEDS_NAME_MAX = 192,  /* "kernel-devel-5.14.0-427.13.1.el9_4" */
	BUILDNEEDS_THERE_MAX = 320, /* what is there instead */
	BUILDNEEDS_MAX = 8,	    /* packages that a system needs */
	BUILDNEEDS_PACKAGES_MAX = 1 << 15,
	BUILDNEEDS_TEXT_MAX = 4 << 20, /* of what sluice-packages prints */
	BUILDNEEDS_SHOWN_MAX = 3,      /* other versions that are named */
	BUILDNEEDS_PATTERNS_MAX = 12,
};

enum buildneeds_system { BUILDNEEDS_OTHER, BUILDNEEDS_RHEL, BUILDNEEDS_UBUNTU, BUILDNEEDS_DEBIAN };

/* The compiler of a kernel. */
struct buildneeds_compiler {
	uint32_t major; /* 0: not known */
	bool is_gcc;
	char version[32]; /* "11.4.1" */
};

/* For which kernel. All borrowed. */
struct buildneeds_kernel {
	enum buildneeds_system system;
	const char *release; /* `uname -r` */
	const char *machine; /* `uname -m`: "x86_64" */
	struct buildneeds_compiler compiler;
};

struct buildneeds_package {
	const char *name, *version, *arch; /* borrowed: of the list's text */
};

struct buildneeds_list {
	char *text;			     /* owned */
	struct buildneeds_package *packages; /* owned */
	size_t count;
	char kind[16];	/* "rpm", "debian", "files" */
	uint64_t total; /* packages of the repository, wanted or not */
};

/* One package that is needed. */
struct buildneeds_result {
	char wanted[BUILDNEEDS_NAME_MAX];
	bool is_there;
	bool is_optional;		  /* the kernel's own compiler where others may do */
	char there[BUILDNEEDS_THERE_MAX]; /* what was found, or found instead; "": nothing */
};

/* The compiler in /proc/version: -EINVAL when it names none that is known. */
int buildneeds_compiler_parse(const char *text, size_t length, struct buildneeds_compiler *out);

/* What sluice-packages printed. -EBADMSG: it is not that, or its last line is missing; -E2BIG,
 * -ENOMEM. buildneeds_list_done() in any case. */
int buildneeds_list_parse(const char *text, size_t length, struct buildneeds_list *out,
			  struct err *err);
void buildneeds_list_done(struct buildneeds_list *list);
#define _cleanup_buildneeds_list_ __attribute__((cleanup(buildneeds_list_done)))

/* The names of packages that are looked for, as patterns of fnmatch(3); ends in NULL. */
const char *const *buildneeds_patterns(enum buildneeds_system system);
/* What Debian calls a machine: "amd64"; `machine` itself where that is the same. */
const char *buildneeds_deb_arch(const char *machine);

/*
 * Judges: one result for each package that is needed, in the order in which one installs them.
 * `lists` are several repositories that are used together; with none nothing is there. Returns how
 * many (0 for BUILDNEEDS_OTHER).
 */
uint32_t buildneeds_judge(const struct buildneeds_kernel *kernel,
			  const struct buildneeds_list *lists, size_t list_count,
			  struct buildneeds_result out[BUILDNEEDS_MAX]);

#endif
