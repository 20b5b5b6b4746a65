/* SPDX-License-Identifier: Apache-2.0 */
/* Machines for the tests of checks: a directory with just the files that a check looks at, and the
 * check run on it. Each test has one of its own below `unit_top`. */
#ifndef TESTS_UNIT_DOCTOR_WARD_H
#define TESTS_UNIT_DOCTOR_WARD_H

#include <stdbool.h>
#include <stdint.h>

#include "doctor/doctor.h"
#include "tests/unit/unit.h"

/* Paths are those of the machine: "/proc/cmdline". Directories above are made. */
void ward_file(const char *path, const char *text);
void ward_link(const char *path, const char *target);
void ward_directory(const char *path);
void ward_fifo(const char *path);
void ward_remove(const char *path);
/* A file of `size` bytes of `byte`. */
void ward_large(const char *path, char byte, size_t size);
/* A GPU (a GH100) on the bus with this driver; "": none. */
void ward_gpu(const char *bus, const char *driver);
/* One GPU, and the driver 580.105.08 whole and loaded. */
void ward_healthy(void);

/* For the next runs; ward_setup() clears it. */
extern struct doctor_options ward_options;

/* Runs one check and returns what it found; freed at the next call and by ward_teardown(). */
struct doctor *ward_run(const char *id);
/* The same; `status` is wanted of the worst finding. Returns that finding. */
const struct doctor_finding *ward_expect(const char *id, enum doctor_status status);

int ward_setup(void **state);
int ward_teardown(void **state);
#define ward_test(function) cmocka_unit_test_setup_teardown(function, ward_setup, ward_teardown)

#endif
