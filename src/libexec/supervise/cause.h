/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a container did not start, in the words of the runtime that was to start it. podman and
 * docker exit with what the command exits with, and with 125, 126 or 127 where it never ran; only
 * their last words tell the two apart. Those stand among what the job wrote, which anybody may have
 * written: they are a text for people and nothing is done because of them.
 */
#ifndef SLUICE_LIBEXEC_SUPERVISE_CAUSE_H
#define SLUICE_LIBEXEC_SUPERVISE_CAUSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job/jobdir.h"

enum cause_limits {
	CAUSE_READ = 4096, /* bytes at the end of the output that are looked at */
	CAUSE_LINES = 12,  /* the last of them */
};

/*
 * Looks at the end of what a job wrote that exited with `code`. The exit code that stands for it,
 * 125, 126 or 127, with `out` as the runtime printed it, cut in the middle; 0: nothing says that
 * the container did not start. Pure.
 *
 * podman: "Error: TEXT", podman-run(1) EXIT STATUS; docker: "docker: TEXT" and a line that names
 * its help. runc leaves a program of another format to the kernel, says "exec PATH: exec format
 * error" in the container's name and exits with 1: that is 126 here, as of a shell.
 */
int cause_find(const char *text, size_t length, int code, char out[JOBDIR_TEXT_MAX]);

/* Puts it into the result of an attempt that has exited, from its files in the job's directory. */
void cause_read(int job_fd, uint32_t attempt, struct jobdir_result *result);

#endif
