/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A made-up driver root: the files of a driver as its installers put them, all of a few hundred
 * bytes. Ends the program where a file cannot be made. Knows nothing of cmocka, so that a benchmark
 * can use it.
 */
#ifndef TESTS_UNIT_DOORS_CDI_TREE_H
#define TESTS_UNIT_DOORS_CDI_TREE_H

#include <stddef.h>

enum { TREE_LIBRARIES = 25 };

/* All make the directories above. `path` begins with a slash. */
void tree_put(const char *top, const char *path, const void *bytes, size_t length);
void tree_text(const char *top, const char *path, const char *text);
void tree_library(const char *top, const char *path, const char *soname);
void tree_link(const char *top, const char *path, const char *target);

/* The libraries of a driver in a directory, TREE_LIBRARIES of them, with their links. */
void tree_libraries(const char *top, const char *directory, const char *version);
/* Its programs and firmware. */
void tree_programs(const char *top, const char *version);
/* The loaded module in /sys and /proc. */
void tree_module(const char *top, const char *version);
/* A GPU's node and its entries in sysfs: "0000:07:00.0", with card and renderD of this number. All
 * nodes are plain files. */
void tree_gpu(const char *top, unsigned minor, const char *address, unsigned card);
/* /dev/nvidiactl and those of uvm and modeset. */
void tree_control(const char *top);

#endif
