/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copy of a job's output that `sluice run -o FILE` asks for: a process that is the job's user
 * opens the file and writes into it, so that a link, a directory that root may not enter and a disk
 * that is full or does not answer are that process's trouble, and neither the job's nor the
 * supervisor's.
 */
#ifndef SLUICE_LIBEXEC_SUPERVISE_COPY_H
#define SLUICE_LIBEXEC_SUPERVISE_COPY_H

#include <sys/types.h>

struct err;
struct spec;

/*
 * Starts it for spec->output; what is written into the descriptor (*out_fd, owned by the caller;
 * non-blocking) is appended there, until it is closed. The process is a child of the caller and
 * dies with it. What goes wrong it says on `error_fd` in one line, and ends. Returns its pid.
 */
pid_t copy_start(const struct spec *spec, int error_fd, int *out_fd, struct err *err);

#endif
