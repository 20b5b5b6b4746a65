/* SPDX-License-Identifier: Apache-2.0 */
/* How `sluice doctor` says what was found: for people, and as JSON. Knows no checks. */
#ifndef SLUICE_CMD_MACHINE_DOCTOR_PRINT_H
#define SLUICE_CMD_MACHINE_DOCTOR_PRINT_H

#include <stdbool.h>
#include <stdio.h>

struct doctor;
struct err;

/* What there is to mend, and with `all` what is well, too. `colours` for a terminal. */
void doctor_print_text(const struct doctor *doctor, bool all, bool colours, FILE *out);
/* 0, or what writing gave. */
int doctor_print_json(const struct doctor *doctor, FILE *out, struct err *err);

#endif
