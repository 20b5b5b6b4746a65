/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of files that the checks read: os-release, modprobe.d, the kernel's command line, dpkg's
 * list of packages. Pure functions over bytes, which may be anything. Knows no files.
 */
#ifndef SLUICE_DOCTOR_LINES_H
#define SLUICE_DOCTOR_LINES_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The value of a line KEY=VALUE, its quotes taken off: os-release(5). False, and `out` untouched,
 * for any other line and for a value that does not fit or that has control characters.
 */
bool lines_assignment(const char *text, size_t length, const char *key, char *out, size_t size);
/* The same of a line "Key: VALUE" (deb-control(5), files of /proc). */
bool lines_field(const char *text, size_t length, const char *key, char *out, size_t size);

/* What a line of modprobe.d (modprobe.d(5)) or a word of the kernel's command line does about a
 * module. */
enum lines_block {
	LINES_NOTHING,
	LINES_BLACKLIST, /* not loaded for a device that is found */
	LINES_INSTALL,	 /* loading it runs a program that does nothing */
	LINES_MODESET,	 /* it is loaded, and leaves the devices alone: nouveau.modeset=0 */
};

/* `text` is one whole line, its continuations joined. `module` in either spelling of - and _. */
enum lines_block lines_modprobe(const char *text, size_t length, const char *module);
/* `text` is the whole command line. The first word that blocks goes to `word`. */
enum lines_block lines_cmdline(const char *text, size_t length, const char *module, char *word,
			       size_t size);

#endif
